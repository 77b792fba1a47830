# SPDX-License-Identifier: GPL-2.0-only
"""How long sessions stay: beyond the end of everything, on a full disk, on none, and no longer than they may."""

import concurrent.futures
import hashlib
import http.client
import os
import signal
import subprocess

import pytest

from conftest import _mounts, wait_for
from support import marked, new_mark
from test_session_versions import Known, checkpoint, fork, restore
from test_sessions import Session, call, files_left, on

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="sessions need a server started as root")


def mount(*words):
    done = subprocess.run(["mount", *map(str, words)], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"this host lets nobody mount that: {done.stderr.strip()}")


@pytest.fixture
def place(tmp_path):
    """A directory to mount on, which is free again afterwards: named before what uses it."""
    os.chmod(tmp_path, 0o755)
    at = tmp_path / "state"
    at.mkdir()
    yield at
    subprocess.run(["umount", str(at)], capture_output=True, check=False)


def until_refused(fn):
    """Calls it until nobody answers any more; what was answered."""
    told = []

    def again():
        while True:
            try:
                told.append(fn(len(told)))
            except (OSError, http.client.HTTPException, AssertionError):
                return

    return told, again


def test_kill_9_in_the_middle_of_a_command_and_of_a_fork(start, tmp_path):
    os.chmod(tmp_path, 0o755)
    mounts = _mounts()
    s = on(start, state_dir=str(tmp_path))
    one, source = Session(s, "one"), Session(s, "source")
    one.write("kept", b"kept")
    source.out("echo same > a; head -c 2M /dev/urandom > b")
    sums = source.out("md5sum a b")
    mark = new_mark()
    # a command that writes, whole by a rename; another whose process says that it runs; forks; and files
    writer = "for i in $(seq 100000); do echo $i $i > new; mv new last; done"
    written, write = until_refused(lambda n: one.write(f"f{n % 3}", f"{n} ".encode() * 50000)[0] == 200 and n)
    forked, forks = until_refused(lambda n: fork(source, 2))
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        commands = [writer, f"exec -a {mark} sleep 600"]
        running = [pool.submit(s.post, f"{one.path}/exec", {"command": c}) for c in commands]
        wait_for(lambda: marked(mark) and one.read("last")[0] == 200, 60)
        others = [pool.submit(write), pool.submit(forks)]
        wait_for(lambda: len(written) > 3 and len(forked) > 1, 60)
        s.kill()
        for each in running:  # who waited for a command has heard nothing
            assert isinstance(each.exception(), (OSError, http.client.HTTPException))
        for each in others:
            each.result()
    wait_for(lambda: not marked(mark), 30)
    s.check_processes_gone()
    assert _mounts() - mounts == set()
    s = on(start, state_dir=str(tmp_path))
    one.server = source.server = s
    assert not Session(s, "one").opened["created"]
    names = one.out("ls -A").split()
    assert {"kept", "last", "f0", "f1", "f2"} <= set(names) <= {"kept", "last", "new", "f0", "f1", "f2"} | {
        n for n in names if n.startswith(".sandbox-")
    }
    first, second = one.out("cat last").split()
    assert first == second and one.read("kept") == (200, b"kept")
    for n in range(3):
        content = one.read(f"f{n}")[1]
        number = int(content.split()[0])
        assert content == f"{number} ".encode() * 50000 and number >= max(w for w in written if w % 3 == n)
    # every fork that was told of is whole; what nobody was told of is whole too, or not there
    known = [x["session_id"] for x in call(s, "GET", "/sessions")["sessions"]]
    told = [each.path.rsplit("/")[-1] for pair in forked for each in pair]
    assert set(told) <= set(known) and len(known) <= len(told) + 2 + 2
    for each in {*told[:2], *told[-2:], *(set(known) - set(told))} - {"workflow_one_sandbox"}:
        assert Known(s, each).out("md5sum a b") == sums
    for each in known:
        call(s, "DELETE", f"/sessions/{each}")
    wait_for(lambda: files_left(s) == [], 60)


def test_who_was_half_closed_is_closed_again_or_begins_anew(start, tmp_path):
    """The server died when the files had gone and their name had not."""
    os.chmod(tmp_path, 0o755)
    s = on(start, state_dir=str(tmp_path))
    for name in ("closed", "opened"):
        Session(s, name).out("echo old > a")
    s.kill()
    for name in os.listdir(tmp_path / "sessions"):
        if name != "layers":
            os.rename(tmp_path / "sessions" / name, tmp_path / "sessions" / f".gone-{name}.0")
    s = on(start, state_dir=str(tmp_path))
    closed, opened = (Known(s, f"workflow_{n}_sandbox") for n in ("closed", "opened"))
    for path, body in (("exec", {"command": "true"}), ("fork", {}), ("checkpoints", {})):
        assert call(s, "POST", f"{closed.path}/{path}", body, 404)["code"] == "not_found"
    assert closed.read("a")[0] == 404 and closed.close()["closed"]
    assert Session(s, "opened").out("ls") == ""
    opened.close()
    wait_for(lambda: files_left(s) == [], 30)


def test_of_two_servers_the_first_has_the_sessions(start, tmp_path):
    os.chmod(tmp_path, 0o755)
    first = on(start, state_dir=str(tmp_path))
    one = Session(first, "one")
    one.write("kept", b"kept")
    one.out("sleep 1000 >/dev/null 2>&1 &")
    second = on(start, state_dir=str(tmp_path), SANDBOX_SESSION_IDLE_TIMEOUT="1s")
    answer = call(second, "POST", "/sessions", {}, 501)
    assert answer["code"] == "sessions_unavailable" and "another server" in answer["error"]
    assert second.wait_log(r"session\.off .*another server")
    assert second.execute("echo still")["stdout"] == "still\n"
    assert one.out("cat kept; pgrep -c sleep") == "kept1\n"
    second.stop()
    assert one.out("cat kept; pgrep -c sleep") == "kept1\n"
    # the lock goes with the supervisor, whoever of his is still alive
    os.kill(first.pid, signal.SIGKILL)
    first.proc.wait()
    third = on(start, state_dir=str(tmp_path))
    first.kill()
    one.server = third
    assert one.out("cat kept") == "kept"
    assert call(start(mode="shell", state_dir=str(tmp_path)), "GET", "/sessions", status=501)
    third.stop()
    one.server = on(start, state_dir=str(tmp_path))
    assert one.out("cat kept") == "kept"
    one.close()


def test_variables_of_any_bytes_are_kept(start, tmp_path):
    os.chmod(tmp_path, 0o755)
    s = on(start, state_dir=str(tmp_path))
    one = Session(s, "one", env={f"A{n}": chr(1) * 125000 for n in range(8)})
    s.kill()
    one.server = on(start, state_dir=str(tmp_path))
    assert one.out("echo ${#A0} ${#A7}") == "125000 125000\n"
    one.close()


def listed(state):
    return os.listdir(state / "sessions") + os.listdir(state / "sessions" / "layers")


def small_disk(tmp_path, place):
    image = tmp_path / "image"
    with open(image, "wb") as f:
        f.truncate(64 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-m", "0", "-E", "lazy_itable_init=1", str(image)], check=True)
    mount("-o", "loop", image, place)
    os.chmod(place, 0o755)


def on_small_disk(place, start, tmp_path):
    """A server whose state directory has a disk to itself, and that directory."""
    small_disk(tmp_path, place)
    state = place / "state"
    state.mkdir()
    return on(start, state_dir=str(state)), state


def fill(path):
    """With whatever is left, to the last block; how much that was."""
    with open(path, "wb", buffering=0) as f:
        for size in (1 << 20, 4096, 1):
            try:
                while f.write(bytes(size)) == size:
                    pass
            except OSError:
                pass
    return os.path.getsize(path)


def test_a_full_disk_costs_nothing_that_was_there(place, start, tmp_path):
    s, state = on_small_disk(place, start, tmp_path)
    one = Session(s, "one")
    kept = os.urandom(300000)
    assert one.write("kept", kept)[0] == 200
    point = checkpoint(one)
    one.out("echo later > a")
    size = fill(place / "filler")
    for path, body in (("/fork", {}), ("/checkpoints", {})):
        answer = call(s, "POST", one.path + path, body, 507)
        assert answer["code"] == "disk_full" and "state directory of this server is full" in answer["error"], answer
    answer = call(s, "POST", "/sessions", {"scope_type": "workflow", "scope_id": "two"}, 507)
    assert answer["code"] == "disk_full"
    status, answer = one.write("kept", b"x" * 500000)
    assert (status, answer["code"]) == (507, "disk_full")
    assert "No space left" in one.exec("head -c 1M /dev/zero > b")["stderr"]
    assert one.read("kept") == (200, kept) and one.out("cat a") == "later\n"
    assert [x["session_id"] for x in call(s, "GET", "/sessions")["sessions"]] == ["workflow_one_sandbox"]
    # with a little room some of it can be made, and goes again when the rest cannot; but for what froze the source
    before = len(listed(state))
    for n in range(1, 64):
        os.truncate(place / "filler", size - n * os.statvfs(place).f_bsize)
        r = s.post(f"{one.path}/fork", {"count": 2})
        if r.status == 200:
            break
        assert (r.status, r.json["code"]) == (507, "disk_full"), r
        wait_for(lambda: len(listed(state)) <= before + 1, 30)
    assert n > 4, r
    for each in r.json["sessions"]:
        Known(s, each["session_id"]).close()
    s.kill()
    s = on(start, state_dir=str(state))  # which needs no more room, either
    one.server = s
    assert one.read("kept") == (200, kept)
    os.unlink(place / "filler")
    assert one.out("cat a; md5sum < kept") == f"later\n{hashlib.md5(kept).hexdigest()}  -\n"
    restore(one, point)
    assert one.out("ls") == "kept\n"
    checkpoint(one)
    fork(one)[0].close()
    assert one.write("kept", b"new")[0] == 200
    one.close()
    wait_for(lambda: files_left(s) == [], 60)


def test_a_restore_that_has_no_room_changes_nothing(place, start, tmp_path):
    s, state = on_small_disk(place, start, tmp_path)
    one = Session(s, "one")
    assert one.write("kept", b"kept")[0] == 200
    point = checkpoint(one)
    one.out("echo later > a")
    size, status = fill(place / "filler"), 507
    for n in range(64):
        os.truncate(place / "filler", size - n * os.statvfs(place).f_bsize)
        status = s.post(f"{one.path}/restore", {"checkpoint_id": point}).status
        if status == 200:
            break
        assert (status, one.out("ls"), one.out("cat a")) == (507, "a\nkept\n", "later\n")
    assert (status, one.out("ls")) == (200, "kept\n") and n > 2
    wait_for(lambda: len(listed(state)) == 4, 30)  # the session, the layers and two of them
    fill(place / "filler")
    assert one.close()["closed"]
    wait_for(lambda: files_left(s) == [], 30)


def test_no_session_is_kept_on_an_overlay_and_a_volume_is_named(place, start, tmp_path):
    for name in ("lower", "upper", "work"):
        (tmp_path / name).mkdir()
    layers = ",".join(f"{k}dir={tmp_path / k}" for k in ("lower", "upper", "work"))
    mount("-t", "overlay", "-o", layers, "none", place)
    s = on(start, state_dir=str(place))
    answer = call(s, "POST", "/sessions", {}, 501)
    assert answer["code"] == "sessions_unavailable"
    assert "overlay file system" in answer["error"] and "volume" in answer["error"]
    assert "SANDBOX_STATE_DIR" in answer["error"]
    assert s.execute("echo still")["stdout"] == "still\n"


def test_the_idle_and_the_old_are_closed(start):
    s = on(start, SANDBOX_SESSION_IDLE_TIMEOUT="2s", SANDBOX_SESSION_MAX_LIFETIME="4s")
    old, _ = Session(s, "old"), Session(s, "idle")
    old.out("sleep 1000 >/dev/null 2>&1 &")
    first = call(s, "GET", old.path)
    idle_went = []

    def anew():
        """Uses it in every way; true when it is another one, since the first had its time."""
        s.post(f"{old.path}/exec", {"command": "true"})
        old.read("")
        shown = {x["session_id"]: x for x in call(s, "GET", "/sessions")["sessions"]}
        if "workflow_idle_sandbox" not in shown and shown.get("workflow_old_sandbox") and not idle_went:
            idle_went.append(shown["workflow_old_sandbox"]["created_at"])
        r = s.post("/sessions", {"scope_type": "workflow", "scope_id": "old"})
        return r.status == 200 and r.json["created"]

    wait_for(anew, 60)
    # nothing makes it younger; and who was not used had gone before
    assert call(s, "GET", old.path)["created_at"] >= first["created_at"] + 4
    assert idle_went == [first["created_at"]]
    assert old.exec("pgrep sleep")["exit_code"] == 1
    call(s, "DELETE", old.path)
    wait_for(lambda: files_left(s) == [], 60)

# SPDX-License-Identifier: GPL-2.0-only
"""Layers of sessions: that no depth ends them, and that what is frozen counts for who keeps it."""

import os
import random
import stat
import subprocess

import pytest

from conftest import Server, wait_for
from test_session_disk import kept_mb, used_mb
from test_session_versions import checkpoint, diff, fork, restore
from test_sessions import Session, call, files_left, on

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="sessions need a server started as root")

LIMIT_MB = 32


@pytest.fixture(scope="module")
def served():
    s = Server({"SANDBOX_SESSIONS": "on", "SANDBOX_WARM": "0", "SANDBOX_DISK_MB": str(LIMIT_MB)}, mode="shell")
    yield s
    s.stop()


def deepen(state, layers):
    """Puts as many below the only session as if it had been frozen so often; each has a file, far down."""
    at = f"{state}/sessions"
    (own,) = [d for d in os.listdir(at) if d != "layers"]
    with open(f"{at}/{own}/stack", "a", encoding="ascii") as stack:
        for n in range(layers):
            name = f"{random.getrandbits(64):016x}"
            deep = f"{at}/layers/{name}/files/work" + "/d" * 30
            os.makedirs(deep, 0o755)
            os.mkdir(f"{at}/layers/{name}/work", 0o700)
            with open(f"{deep}/f{n}", "w", encoding="ascii") as f:
                f.write(f"{n}\n")
            stack.write(f"layer {name}\n")


def test_no_depth_ends_a_session_in_use(start, tmp_path):
    os.chmod(tmp_path, 0o755)
    s = on(start, state_dir=str(tmp_path))
    one = Session(s, "deep")
    s.kill()
    deepen(tmp_path, 60)
    s = on(start, state_dir=str(tmp_path))
    one.server = s
    names = []
    for n in range(6):
        one.out(f"echo {n} > a; sleep 1000 >/dev/null 2>&1 &")
        # too deep for a moment is all that it may be
        r = wait_for(lambda: not (r := s.post(f"{one.path}/checkpoints", {})).status == 429 and r, 60)
        assert r.status == 200, r
        names.append(r.json["checkpoint_id"])
    # made flat while it was used, and taken when it was frozen next
    assert s.wait_log(r"session\.flat ")
    shown = "cat a $(printf '/work'; printf '/d%.0s' $(seq 30))/f{0,59}"
    assert one.out(shown) == "5\n0\n59\n"
    assert diff(one, names[-1]) == {"added": [], "modified": [], "deleted": []}
    restore(one, names[0])
    assert one.out(shown) == "0\n0\n59\n"
    (two,) = fork(one)
    assert two.out(shown) == "0\n0\n59\n"
    for each in (one, two):
        each.close()
    wait_for(lambda: files_left(s) == [], 60)


def frozen(one):
    """The answer of a fork, which is closed; too many layers for a moment is all that it may meet."""
    r = wait_for(lambda: (r := one.server.post(f"{one.path}/fork", {})).status != 429 and r, 60)
    for each in r.json.get("sessions", []):
        assert one.server.request("DELETE", f"/sessions/{each['session_id']}").status == 200
    return r


def put_layer(state):
    """One more below the layer that the only session writes to; where its files are, and whose they must be."""
    at, name = f"{state}/sessions", f"{random.getrandbits(64):016x}"
    (own,) = [d for d in os.listdir(at) if d != "layers"]
    with open(f"{at}/{own}/stack", encoding="ascii") as stack:
        lines = stack.read().splitlines()
    lines.insert(1 + next(n for n, line in enumerate(lines) if line.startswith("layer ")), f"layer {name}")
    with open(f"{at}/{own}/stack", "w", encoding="ascii") as stack:
        stack.write("\n".join(lines) + "\n")
    for place in ("files/work", "work"):
        os.makedirs(f"{at}/layers/{name}/{place}")
    return f"{at}/layers/{name}/files/work", os.stat(f"{at}/{own}").st_uid


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="ascii") as f:
        f.write(text)


def test_deep_directories_stop_no_freezing(start, tmp_path):
    """Made beneath it, since a command that makes them is ended where nothing but looking counts what they hold."""
    deep = "/".join(["d"] * 200)
    half, e = deep[:299], "e" + deep[1:]
    os.chmod(tmp_path, 0o755)
    s = on(start, state_dir=str(tmp_path))
    one = Session(s, "levels")
    s.kill()
    work, uid = put_layer(tmp_path)
    write(f"{work}/{deep}/f", "1\n")
    write(f"{work}/{half}/g", "1\n")
    write(f"{work}/{e}/f", "1\n")
    write(f"{work}/h/{deep}/f", "1\n")
    subprocess.run(["chown", "-R", f"{uid}:{uid}", work], check=True)
    one.server = s = on(start, state_dir=str(tmp_path))
    name = checkpoint(one)
    assert diff(one)["added"][-1] == f"/work/h/{deep}/f"
    s.kill()
    # changed far down, gone, another in its place
    work, uid = put_layer(tmp_path)
    write(f"{work}/{deep}/f", "2\n")
    write(f"{work}/{half}/x/y", "2\n")
    write(f"{work}/h/{e}/f", "2\n")
    os.setxattr(f"{work}/h", "user.overlay.opaque", b"y")
    for gone in (f"{half}/g", "e"):
        os.mknod(f"{work}/{gone}", 0o600 | stat.S_IFCHR, os.makedev(0, 0))
    os.chmod(f"{work}/{half}", 0o750)
    subprocess.run(["chown", "-R", f"{uid}:{uid}", work], check=True)
    one.server = s = on(start, state_dir=str(tmp_path))
    changed = {
        "added": [f"/work/{half}/x", f"/work/{half}/x/y"] + [f"/work/h/{e[:n]}" for n in range(1, 400, 2)]
        + [f"/work/h/{e}/f"],
        "modified": [f"/work/{half}", f"/work/{deep}/f"],
        "deleted": [f"/work/{half}/g"] + [f"/work/{e[:n]}" for n in range(1, 400, 2)] + [f"/work/{e}/f"]
        + [f"/work/h/{deep[:n]}" for n in range(1, 400, 2)] + [f"/work/h/{deep}/f"],
    }
    assert {k: sorted(v) for k, v in diff(one, name).items()} == {k: sorted(v) for k, v in changed.items()}
    for n in range(70):
        one.out(f"echo {n} > n")
        assert frozen(one).status == 200
    assert s.wait_log(r"session\.flat ") and "session.flatten" not in s.log()
    changed["added"].append("/work/n")
    assert {k: sorted(v) for k, v in diff(one, name).items()} == {k: sorted(v) for k, v in changed.items()}
    assert one.out(f"cat n {deep}/f {half}/x/y h/{e}/f; ls; find . | wc -l; stat -c %a {half}") == (
        "69\n2\n2\n2\nd\nh\nn\n408\n750\n"
    )
    restore(one, name)
    assert one.out(f"cat {deep}/f {half}/g {e}/f h/{deep}/f") == "1\n1\n1\n1\n"
    one.close()
    wait_for(lambda: files_left(s) == [], 60)


def test_nothing_is_hidden_beside_deep_directories(served):
    """What is frozen counts at any depth."""
    one = Session(served, "hidden")
    for n in range(4):
        deep = f"deep{n}/" + "d/" * 140
        one.out(f"mkdir k{n}; for i in $(seq 6); do head -c 1M /dev/zero > k{n}/f$i; done")
        one.exec(f"mkdir -p {deep}; mv k{n} {deep}")
        frozen(one)
        one.exec("true")
        assert used_mb(one) >= 6 * (n + 1)
    assert kept_mb(served) <= 2 * LIMIT_MB
    one.close()


def test_layers_that_cannot_be_merged_say_why(start, tmp_path):
    os.chmod(tmp_path, 0o755)
    s = on(start, state_dir=str(tmp_path))
    one = Session(s, "links")
    # merged they would have twice as many names, and ext4 gives a file 65000
    one.out("echo f > f; mkdir a; python3 -c 'import os\nfor n in range(40000): os.link(\"f\", f\"a/{n}\")'")
    for _ in range(100):
        if (r := frozen(one)).status != 200:
            break
        one.out("date +%N > n")
    assert r.status == 409 and r.json["code"] == "too_many_layers", r
    assert r.json["error"].endswith(": Too many links")
    tried = s.log().count("session.flatten ")
    assert [frozen(one).status for _ in range(5)] == [409] * 5
    assert s.log().count("session.flatten ") == tried == 1
    assert one.out("cat f; ls a | wc -l") == "f\n40000\n"
    one.close()
    wait_for(lambda: files_left(s) == [], 60)


ATTRIBUTES = """python3 - <<'E'
import os, struct
acl = struct.pack("<I" + 3 * "HHI", 2, 1, 7, 2**32 - 1, 4, 5, 2**32 - 1, 32, 5, 2**32 - 1)
os.setxattr("d", "user.color", b"red")
os.setxattr("d", "system.posix_acl_default", acl)
E
"""
SHOW = "python3 -c 'import os; print({n: os.getxattr(\"d\", n) for n in os.listxattr(\"d\")})'"


def test_directories_keep_what_they_were_given_when_they_are_merged(served):
    one = Session(served, "given")
    one.out("mkdir d; " + ATTRIBUTES)
    shown = one.out(SHOW)
    assert "red" in shown and "acl_default" in shown
    flat = served.log().count("session.flat ")
    for n in range(26):
        one.out(f"echo {n} > {n}")
        checkpoint(one)
    wait_for(lambda: fork(one)[0].close() and served.log().count("session.flat ") > flat, 60)
    assert one.out(SHOW) == shown
    one.close()


def written(one, name, mb):
    """Its verdict; by the time of the answer somebody has looked."""
    return one.exec(f"head -c {mb}M /dev/zero > {name}; ls -s {name}")["meta"]["verdict"]


def test_what_forks_froze_counts_for_who_has_it(served):
    one = Session(served, "forks")
    for n in range(4):
        assert written(one, f"f{n}", 7) == "ok"
        assert 7 * (n + 1) <= used_mb(one) < 7 * (n + 1) + 1
        (two,) = fork(one)
        if n == 3:
            # each counts what it has, whoever else has it
            assert two.out("ls") == "f0\nf1\nf2\nf3\n" and 28 <= used_mb(two) < 29
            assert written(two, "g", 3) == "ok" and 31 <= used_mb(two) < 32
        two.close()
    assert one.exec("for i in 1 2 3; do head -c 6M /dev/zero > g$i; done; sleep 30")["meta"]["verdict"] == "disk_full"
    assert used_mb(one) > LIMIT_MB
    for path in ("fork", "checkpoints"):
        refused = call(served, "POST", f"{one.path}/{path}", {}, 507)
        assert refused["code"] == "disk_full" and "remove some" in refused["error"]
    assert one.out("rm g*; ls") == "f0\nf1\nf2\nf3\n" and 28 <= used_mb(one) < 29
    assert kept_mb(served) < 2 * LIMIT_MB
    # what is removed is there again when it is frozen next: nobody has it any more
    one.out("rm f*")
    fork(one)[0].close()
    one.out("true")
    wait_for(lambda: fork(one)[0].close() and one.out("echo x > x; ls") == "x\n" and used_mb(one) < 1, 60)
    assert written(one, "f", 28) == "ok"
    one.close()
    wait_for(lambda: files_left(served) == [], 60)


def test_what_nobody_has_any_more_goes(served):
    """However often it is written anew and frozen."""
    one = Session(served, "anew")
    for _ in range(12):
        assert written(one, "f", 8) == "ok"
        wait_for(lambda: served.post(f"{one.path}/fork", {}).status == 200, 30)
        for each in call(served, "GET", "/sessions")["sessions"]:
            if each["session_id"] not in one.path:
                call(served, "DELETE", f"/sessions/{each['session_id']}")
        assert kept_mb(served) <= 2 * LIMIT_MB
    one.close()


def test_checkpoints_count_and_what_is_merged_counts_once(served):
    one = Session(served, "checkpoints")
    flat = served.log().count("session.flat ")
    names = []
    for n in range(28):
        one.out(f"head -c 900K /dev/zero > f{n}; rm -f f{n - 1}")
        names.append(checkpoint(one))
    assert served.log().count("session.flat ") > flat
    one.out("true")
    assert 24 <= used_mb(one) < 27
    assert one.exec("for i in 1 2 3; do head -c 4M /dev/zero > g$i; done; sleep 30")["meta"]["verdict"] == "disk_full"
    one.out("rm g*")
    restore(one, names[3])
    assert one.out("ls") == "f3\n" and 24 <= used_mb(one) < 27
    one.close()
    wait_for(lambda: files_left(served) == [], 60)

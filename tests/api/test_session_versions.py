# SPDX-License-Identifier: GPL-2.0-only
"""Sessions with the same files, checkpoints, and what has changed since."""

import concurrent.futures
import os
import statistics
import time

import pytest

from conftest import open_to_all, post, wait_for
from test_session_roots import make_image
from test_sessions import Session, call, files_left, on

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="they have uids of their own here, for which root is needed")


class Known(Session):
    """One that is there already."""

    def __init__(self, server, session_id):
        self.server, self.path = server, f"/sessions/{session_id}"


def fork(one, count=1, status=200, **fields):
    answer = call(one.server, "POST", f"{one.path}/fork", {"count": count, **fields}, status)
    return [Known(one.server, s["session_id"]) for s in answer["sessions"]] if status == 200 else answer


def checkpoint(one):
    return call(one.server, "POST", f"{one.path}/checkpoints", {})["checkpoint_id"]


def restore(one, name, status=200):
    return call(one.server, "POST", f"{one.path}/restore", {"checkpoint_id": name}, status)


def diff(one, since=""):
    d = call(one.server, "GET", f"{one.path}/diff" + (f"?checkpoint_id={since}" if since else ""))
    assert d.pop("truncated") is False
    return d


@pytest.fixture(scope="module")
def versioned(new_server, tmp_path_factory):
    state = str(tmp_path_factory.mktemp("state"))
    open_to_all(state)
    make_image(state, "small")
    env = {"SANDBOX_SESSIONS": "on", "SANDBOX_WARM": "0", "SANDBOX_DISK_MB": "2048"}
    server = new_server({**env, "SANDBOX_STATE_DIR": state}, mode="shell")
    server.state_dir = state
    yield server
    server.stop()


def test_forks_have_the_same_files_and_go_their_own_ways(versioned):
    one = Session(versioned, env={"A": "b"})
    one.out("echo one > a; mkdir d; echo two > d/b; sleep 1000 >/dev/null 2>&1 &")
    two, three = fork(one, 2)
    # what ran in it has ended, and nothing runs in the others
    for s in (one, two, three):
        assert s.out("cat a d/b; echo $A; pgrep sleep || true") == "one\ntwo\nb\n"
    one.out("echo changed > a; rm d/b")
    two.out("rm -r d; mkdir d; echo new > d/c")
    assert three.out("cat a d/b; ls d") == "one\ntwo\nb\n"
    assert one.out("cat a; ls d") == "changed\n"
    assert two.out("cat a; ls d") == "one\nc\n"
    assert diff(one)["added"] == ["/work/a", "/work/d"]
    # forks of forks, and the first one may go
    one.close()
    (four,) = fork(two)
    assert four.out("cat a d/c") == "one\nnew\n"
    assert len(call(versioned, "GET", "/sessions")["sessions"]) == 3
    for s in (two, three, four):
        s.close()
    wait_for(lambda: files_left(versioned) == [], 60)


def test_a_fork_waits_for_no_command_and_ends_none_unless_told(versioned):
    one = Session(versioned)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        running = pool.submit(one.exec, "echo begun > f; sleep 1000")
        wait_for(lambda: one.read("f")[0] == 200, 60)
        assert fork(one, 1, 409)["code"] == "session_busy"
        for path in ("checkpoints", "restore"):
            body = {"checkpoint_id": "0" * 32}
            assert call(versioned, "POST", f"{one.path}/{path}", body, 409 if path[0] == "c" else 404)
        (two,) = fork(one, force=True)
        assert running.result()["meta"]["verdict"] == "signal"
    assert two.out("cat f") == "begun\n" == one.out("cat f")
    for body in ({"count": 0}, {"count": 65}, {"count": 1.5}, {"count": "2"}, {"force": 1}):
        assert call(versioned, "POST", f"{one.path}/fork", body, 400)["code"] == "bad_request"
    one.close()
    two.close()


def test_who_does_not_wait_for_his_fork_has_it_all_the_same(versioned):
    """Files that nobody knows of would be nobody's to remove."""
    one = Session(versioned)
    one.out("echo 1 > a")

    def known():
        return [each["session_id"] for each in call(versioned, "GET", "/sessions")["sessions"]]

    before = set(known())
    for _ in range(8):
        c = versioned.raw()
        c.send(post({"force": True}, path=f"{one.path}/fork"))
        c.close()
    wait_for(lambda: len(set(known()) - before) == 8, 30)
    for each in set(known()) - before:
        call(versioned, "DELETE", f"/sessions/{each}")
    one.close()


def test_what_was_comes_back(versioned):
    one = Session(versioned, image="small")
    one.out("echo 1 > a; mkdir -p keep/deep; echo same > keep/deep/f; ln -s a l")
    first = checkpoint(one)
    one.out("echo 2 > a; echo more > b; rm l; ln -s b l; rm -r keep; mkdir keep; chmod 700 keep")
    assert diff(one, first) == {
        "added": ["/work/b"],
        "modified": ["/work/a", "/work/keep", "/work/l"],
        "deleted": ["/work/keep/deep", "/work/keep/deep/f"],
    }
    second = checkpoint(one)
    one.out("rm -r a b keep; touch /tmp/t")
    assert diff(one, second) == {
        "added": ["/tmp/t"], "modified": [], "deleted": ["/work/a", "/work/b", "/work/keep"],
    }
    assert restore(one, first)["restored"] is True
    assert one.out("cat a keep/deep/f; ls -d l b 2>/dev/null; ls /tmp") == "1\nsame\nl\n"
    assert diff(one, first) == {"added": [], "modified": [], "deleted": []}
    # back and forth, also against one that is not below
    assert diff(one, second)["deleted"] == ["/work/b"]
    restore(one, second)
    assert one.out("cat a b") == "2\nmore\n"
    assert diff(one)["added"] == ["/work/a", "/work/b", "/work/keep", "/work/l"]
    # touched and put back is not changed
    one.out("echo 3 > a; echo 2 > a; cat b >/dev/null; chmod 600 b; chmod 644 b")
    assert diff(one, second) == {"added": [], "modified": [], "deleted": []}
    assert restore(one, "0" * 32, 404)["code"] == "no_such_checkpoint"
    assert call(versioned, "GET", f"{one.path}/diff?checkpoint_id=x", status=404)["code"] == "no_such_checkpoint"
    assert call(versioned, "POST", f"{one.path}/restore", {}, 400)["code"] == "bad_request"
    other = Session(versioned)
    assert restore(other, first, 404)["code"] == "no_such_checkpoint"
    other.close()
    one.close()


def test_a_gigabyte_is_forked_at_once_and_compared(versioned):
    one = Session(versioned)
    one.out("fallocate -l 1G big; mkdir many; cd many; touch $(seq 2000)")
    one.out("echo end >> big; test $(du -m big | cut -f1) -ge 1024")
    took, forks = [], []
    for n in range(9):  # what it takes as a rule, with the end of what runs: this machine has other things to do too
        one.out(f"echo {n} > n; sleep 1000 >/dev/null 2>&1 &")
        begin = time.monotonic()
        forks += fork(one, 4)
        took.append((time.monotonic() - begin) / 4)
    if "TESTS_SLOW" not in os.environ:
        assert statistics.median(took) < 0.05, took
    two, base = forks[-1], checkpoint(one)
    start = checkpoint(two)
    two.out("echo more >> many/1; rm many/2; touch many/x")
    one.out("rm n; mkdir new; mv many/3 new")
    assert diff(two, start) == {"added": ["/work/many/x"], "modified": ["/work/many/1"], "deleted": ["/work/many/2"]}
    assert diff(one, base) == {
        "added": ["/work/new", "/work/new/3"], "modified": [], "deleted": ["/work/many/3", "/work/n"],
    }
    assert two.out("tail -c 4 big; ls many | wc -l; cat many/1") == "end\n2000\nmore\n"
    assert one.out("tail -c 4 big; ls many | wc -l; ls") == "end\n1999\nbig\nmany\nnew\n"
    for each, name in ((one, base), (two, start)):
        restore(each, name)
        assert diff(each, name) == {"added": [], "modified": [], "deleted": []}
        assert each.out("cat n; tail -c 4 big; ls many | wc -l; ls; wc -c < many/1") == (
            f"{n}\nend\n2000\nbig\nmany\nn\n0\n"
        )
    for each in (one, *forks):
        each.close()


def test_a_deep_stack_is_made_flat_and_shows_the_same(versioned):
    one = Session(versioned, image="small")
    names = []
    for n in range(30):
        one.out(f"echo {n} > f{n}; rm -f f{n - 3}; rm -rf d; mkdir -p d/{n}; echo {n} > d/{n}/x; echo {n} > all")
        names.append(checkpoint(one))
    wait_for(lambda: "session.flat" in versioned.log(), 60)
    assert one.out("ls; cat all d/*/x") == "all\nd\nf27\nf28\nf29\n29\n29\n"
    assert diff(one)["deleted"] == []
    restore(one, names[5])
    assert one.out("ls; cat all d/*/x") == "all\nd\nf3\nf4\nf5\n5\n5\n"
    one.close()
    wait_for(lambda: files_left(versioned) == [], 60)


def test_who_goes_while_others_are_removed_leaves_nothing(versioned):
    one = Session(versioned)
    for _ in range(3):
        many = fork(one, 64)
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            list(pool.map(Known.close, many))
    one.close()
    wait_for(lambda: files_left(versioned) == [], 30)


def test_all_of_it_survives_the_end_of_everything(start, tmp_path):
    os.chmod(tmp_path, 0o755)
    s = on(start, state_dir=str(tmp_path))
    one = Session(s)
    one.out("echo 1 > a")
    name = checkpoint(one)
    one.out("echo 2 > a")
    (two,) = fork(one)
    known = []

    def forks():
        while True:
            try:
                known.extend(fork(one, 3))
            except (OSError, AssertionError):
                return

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        forking = pool.submit(forks)
        wait_for(lambda: len(known) >= 6, 60)
        s.kill()
        forking.result()
    s = on(start, state_dir=str(tmp_path))
    for each in (one, two, *known):
        each.server = s
        assert each.out("cat a") == "2\n"
    restore(one, name)
    assert one.out("cat a") == "1\n"
    # what nobody was told of is gone
    told = len(call(s, "GET", "/sessions")["sessions"])
    assert told <= len(known) + 2 + 3
    wait_for(lambda: len(os.listdir(tmp_path / "sessions")) - 1 == told, 60)
    for each in call(s, "GET", "/sessions")["sessions"]:
        Known(s, each["session_id"]).close()
    wait_for(lambda: files_left(s) == [], 60)

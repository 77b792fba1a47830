# SPDX-License-Identifier: GPL-2.0-only
"""Layers of sessions: that no depth ends them, and that what is frozen counts for who keeps it."""

import os
import random

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

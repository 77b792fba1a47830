# SPDX-License-Identifier: GPL-2.0-only
"""Layers of sessions: that no depth ends them."""

import os
import random

import pytest

from conftest import wait_for
from test_session_versions import diff, fork, restore
from test_sessions import Session, files_left, on

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="sessions need a server started as root")

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

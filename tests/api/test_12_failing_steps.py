# SPDX-License-Identifier: GPL-2.0-only
"""Must hold 12: every step of the child forced to fail, one at a time."""

import os
import re

import pytest

from conftest import BINARY, TOP, post
from probes import at_rest, settled

# In the order of the table in src/launcher/child.c; a step that is not here fails a test.
STEPS = """
    id_maps parent_death session cgroup_namespace proc namespace_limits proc_masks scratch
    go_cache places inputs hostname root_check hand_over capabilities no_new_privs fork
    streams limits identity landlock cwd descriptors seccomp exec
""".split()

MARK = "user code did run"


def has_hooks():
    with open(BINARY, "rb") as f:
        return b"SANDBOX_TEST_FAULT" in f.read()


hooked = pytest.mark.skipif(
    not os.path.exists(BINARY) or not has_hooks(), reason="the binary has no test hooks"
)


def test_the_steps_of_the_table_are_the_steps_tested_here():
    with open(os.path.join(TOP, "src/launcher/child.c"), encoding="utf-8") as f:
        source = f.read()
    table = re.search(r"\} steps\[\] = \{\n(.*?)\n\};", source, re.S).group(1)
    table = re.sub(r"/\*.*?\*/", "", table, flags=re.S)
    rows = re.findall(r"\{\s*(child_\w+)\s*,\s*\"(\w+)\"\s*\}", table)
    assert table.count("{") == len(rows), "a row that this test cannot read"
    assert [name for _, name in rows] == STEPS
    assert [function for function, _ in rows] == ["child_" + s for s in STEPS]


@hooked
def test_without_a_fault_the_code_runs(start):
    s = start(mode="shell", SANDBOX_TEST_FAULT="no_such_step")
    assert s.execute(f"echo {MARK}")["stdout"] == MARK + "\n"


@hooked
@pytest.mark.parametrize("step", STEPS)
def test_a_step_that_fails(start, step):
    s = start(mode="shell", SANDBOX_TEST_FAULT=step, SANDBOX_MAX_CONCURRENT="1")
    code = f"echo {MARK}; echo {MARK} >&2; touch output/made"
    before = at_rest(s)
    for _ in range(2):  # the slot is none the worse for it
        r = s.post("/execute", {"code": code})
        assert r.status == 500
        assert r.json == {
            "error": f'sandbox step "{step}" failed',
            "code": "sandbox_setup_failed",
        }
        assert s.wait_log(rf"run\.failed.* step={step} .*Input/output error")
    # what a program writes would come as an event at once: only the error does
    with s.raw(post({"code": code}, headers=["Accept: application/x-ndjson"])) as c:
        reply = c.reply()
    assert b"sandbox_setup_failed" in reply.body and step.encode() in reply.body
    assert MARK.encode() not in reply.body
    assert s.get("/healthz").status == s.get("/readyz").status == 200
    assert s.load() == 0
    assert MARK not in s.log()
    settled(s, before)
    # no run was stored: there was none
    stored = os.path.join(s.state_dir, "artifacts/executions")
    assert not os.path.exists(stored) or os.listdir(stored) == []

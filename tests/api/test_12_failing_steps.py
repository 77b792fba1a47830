# SPDX-License-Identifier: GPL-2.0-only
"""Must hold 12: every step of the child forced to fail, one at a time."""

import json
import os
import re
import subprocess

import pytest

from conftest import BINARY, LEAVES_ROOT, TOP, _children, post, wait_for
from probes import at_rest, clean_env, launcher_pid, settled
from support import marked, new_mark

# In the order of the table in src/launcher/child.c; a step that is not here fails a test.
STEPS = """
    id_maps parent_death session network cgroup_namespace proc namespace_limits proc_masks scratch
    go_cache places layer inputs hostname root_check hand_over capabilities no_new_privs fork
    streams limits identity landlock cwd descriptors seccomp listener
    open_files order exec
""".split()

SHARED_STEPS = """
    parent_death session directory layer_link go_links inputs hand_over capabilities no_new_privs subreaper
    fork follow_init streams limits identity landlock cwd descriptors seccomp listener
    open_files exec
""".split()

SESSION_STEPS = """
    id_maps parent_death session network cgroup_namespace proc namespace_limits proc_masks
    session_places hostname root_check hand_over tell_namespaces capabilities no_new_privs fork
""".split()

COMMAND_STEPS = """
    parent_death session inputs root_check capabilities no_new_privs take_in fork streams limits identity
    landlock cwd descriptors seccomp listener open_files exec
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
    rows = re.findall(
        r"\{\s*child_(\w+)\s*,\s*\"(\w+)\"\s*,\s*([A-Z]+)\s*,\s*([A-Z]+)\s*\}", table
    )
    assert table.count("{") == len(rows), "a row that this test cannot read"
    assert all(function == name for function, name, *_ in rows)
    runs = [row for row in rows if row[3] not in ("HOLDER", "COMMAND", "FORKED")]
    assert [name for _, name, where, _ in runs if where != "SHARED"] == STEPS
    # test_fork.py has those that are taken elsewhere then
    assert [name for _, name, _, who in rows if who == "FORKED"] == ["inputs"]
    # test_landlock_level.py has those of a run without namespaces
    assert [name for _, name, where, _ in runs if where != "APART"] == SHARED_STEPS
    # test_sessions.py has those of sessions and of commands in them
    assert [name for _, name, _, who in rows if who in ("HOLDER", "MAKERS", "ALL")] == SESSION_STEPS
    assert [
        name for _, name, where, who in rows if where != "SHARED" and who in ("COMMAND", "UNFORKED", "PROGRAMS", "ALL")
    ] == COMMAND_STEPS


@hooked
def test_without_a_fault_the_code_runs(start):
    s = start(mode="shell", SANDBOX_TEST_FAULT="no_such_step")
    assert s.execute(f"echo {MARK}")["stdout"] == MARK + "\n"


@hooked
@pytest.mark.parametrize("step", STEPS)
def test_a_step_that_fails(start, step):
    s = start(mode="shell", SANDBOX_TEST_FAULT=step, SANDBOX_MAX_CONCURRENT="1", SANDBOX_WARM="0")
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


# what is left out of the canaries' sandboxes, the layer that misses it, and the level then
MISSED = {
    "landlock": ("landlock", "namespaces"),
    "cgroup_namespace": ("cgroup_namespace", "namespaces"),
    "proc": ("proc", "namespaces"),
    "hostname": ("uts_namespace", "landlock"),
    "seccomp": ("seccomp", "none"),
}


@hooked
@pytest.mark.skipif(os.geteuid() != 0 or LEAVES_ROOT, reason="needs root, which has every layer")
@pytest.mark.parametrize("step", MISSED)
def test_a_canary_misses_what_is_left_out(step):
    done = subprocess.run(
        [BINARY, "check", "--json"],
        env=clean_env(SANDBOX_MODE="shell", SANDBOX_TEST_FAULT="!" + step),
        capture_output=True,
        timeout=60,
        check=False,
    )
    answer = json.loads(done.stdout)
    layer, level = MISSED[step]
    assert answer["level"] == level and not answer["layers"][layer]["active"], answer
    assert (done.returncode == 0) == (level == "namespaces"), done.stderr


@hooked
@pytest.mark.parametrize("seconds", [0, 60])
def test_a_worker_that_dies_when_it_has_cloned_a_run(start, seconds):
    """Nobody knows that run's number, but it ends: alive or dead, and before it is reported."""
    s = start(SANDBOX_TEST_FAULT="worker", SANDBOX_MAX_CONCURRENT="2", SANDBOX_WARM="0")
    before = at_rest(s)
    launcher = launcher_pid(s)
    for _ in range(5):
        mark = new_mark()
        code = f"import time\ntime.sleep({seconds})"
        r = s.post("/execute", {"code": code, "args": [mark]})
        assert r.status == 500 and r.json["error"] == 'sandbox step "worker" failed'
        assert marked(mark) == []
    settled(s, before)
    assert launcher_pid(s) == launcher
    wait_for(lambda: len(_children(launcher)) == 2)  # the workers, and nobody unreaped

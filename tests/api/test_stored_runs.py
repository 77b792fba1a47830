# SPDX-License-Identifier: GPL-2.0-only
"""Stored runs: which, where, and what never stands in them."""

import json
import os
import re
import stat
import subprocess
import tempfile

import pytest
from conftest import LEAVES_ROOT, wait_for
from support import b64

NAME = re.compile(r"\d{8}T\d{6}\.\d{3}Z_[0-9a-f]{16}\.json")


def folder(server):
    return os.path.join(server.state_dir, "artifacts/executions")


def stored(server, where=None):
    """What is stored, the oldest first; an answer comes after its run was stored."""
    where = where or folder(server)
    names = sorted(os.listdir(where))
    assert all(NAME.fullmatch(n) for n in names), names
    return [open(os.path.join(where, n), encoding="utf-8").read() for n in names]


def last(server):
    return json.loads(stored(server)[-1])


def test_on_error_is_the_default(start):
    s = start()
    s.execute("print('fine')")
    assert stored(s) == []
    s.execute("print('three')\nimport sys; sys.exit(3)")
    s.execute("while True: pass", timeout_seconds=0.5)
    s.execute("print('fine again')")
    kept = [json.loads(text) for text in stored(s)]
    assert [k["result"]["exit_code"] for k in kept] == [3, -1]
    assert [k["result"]["meta"]["verdict"] for k in kept] == ["nonzero_exit", "timeout"]


def test_a_stored_run_has_code_result_time_and_metadata(start):
    s = start(SANDBOX_STORE_CODE="always")
    code = "print('é\\n', 6*7)  # \"quoted\"\n"
    r = s.post("/execute", {"code": code}, {"X-Request-Id": "stored-run-1"})
    (text,) = stored(s)
    kept = json.loads(text)
    assert list(kept) == ["timestamp", "code", "result", "metadata"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", kept["timestamp"])
    assert kept["code"] == code
    assert kept["result"] == r.json
    assert kept["metadata"]["request_id"] == "stored-run-1"
    assert kept["metadata"]["code_bytes"] == len(code.encode())
    (name,) = os.listdir(folder(s))
    assert name.startswith(re.sub(r"[-:]", "", kept["timestamp"]) + "_")


def test_a_stored_run_is_for_its_owner_only(start):
    s = start()
    s.execute("1/0")
    (name,) = os.listdir(folder(s))
    info = os.stat(os.path.join(folder(s), name))
    assert stat.S_IMODE(info.st_mode) == 0o600 and stat.S_ISREG(info.st_mode)
    assert stat.S_IMODE(os.stat(folder(s)).st_mode) == 0o700
    # the server's own uid: neither root's nor that of a run
    with open(f"/proc/{s.server_pid}/status", encoding="ascii") as f:
        uid = int(re.search(r"Uid:\s*(\d+)", f.read()).group(1))
    assert info.st_uid == uid != 0


def test_always_stores_every_run(start):
    s = start(SANDBOX_STORE_CODE="always")
    for n in range(4):
        s.execute(f"print({n})")
    assert [json.loads(t)["result"]["stdout"] for t in stored(s)] == [f"{n}\n" for n in range(4)]


def test_never_stores_none(start):
    s = start(SANDBOX_STORE_CODE="never")
    s.execute("1/0")
    assert not os.path.exists(folder(s)) or stored(s) == []


def test_refused_requests_are_not_stored(start):
    s = start(SANDBOX_STORE_CODE="always")
    s.post("/execute", {"code": "x\0"})
    s.post("/execute", {"code": "print(1)", "files": {"..": ""}})
    assert stored(s) == []


def test_secrets_are_not_stored(start):
    s = start(SANDBOX_STORE_CODE="always", CANARY="server-environment-word")
    code = (
        "import os, sys\n"
        "url = 'https://user:hunter2@example.com/x?y'  # env-value-1\n"
        "print(os.environ['KEY'], sys.stdin.read() == 'stdin' + '-word', url)\n"
        "e = os.environ\nprint(e['KEY'][::-1], e['SHORT'], e['LINES'], file=sys.stderr)\n"
        "open('output/o', 'w').write('file-out' + '-word')\n"
    )
    fields = {
        "env": {"KEY": "env-value-1", "SHORT": "seven77", "LINES": 'two\nlines "q"'},
        "stdin": "stdin-word",
        "files": {"in.txt": b64(b"file-in-word")},
        "args": ["argument-word"],
    }
    r = s.execute(code, **fields)
    # the client gets all of it
    assert r["stdout"] == "env-value-1 True https://user:hunter2@example.com/x?y\n"
    assert "o" in r["files_produced"]
    text = stored(s)[-1]
    kept = json.loads(text)
    assert kept["result"]["stdout"] == "*** True https://***@example.com/x?y\n"
    assert kept["result"]["stderr"] == "1-eulav-vne seven77 ***\n"
    assert kept["code"] == code.replace("env-value-1", "***").replace("user:hunter2", "***")
    assert "files_produced" not in kept["result"]
    for word in ("env-value-1", "hunter2", "lines", "stdin-word", "argument-word", "in.txt"):
        assert word not in text
    for data in (b"file-in-word", b"file-out-word"):
        assert b64(data) not in text and data.decode() not in text
    assert "server-environment-word" not in text and "CANARY" not in text


def test_a_name_is_not_mistaken_for_a_value(start):
    """Keys of the result stay what they are, whatever the environment holds."""
    s = start(SANDBOX_STORE_CODE="always")
    r = s.execute("print('exit_code')", env={"A": "exit_code", "B": "execution_time_ms"})
    kept = last(s)
    assert list(kept["result"]) == list(r)
    assert kept["result"]["exit_code"] == 0
    assert kept["result"]["stdout"] == "***\n" and kept["code"] == "print('***')"


def test_what_is_stored_is_bounded_and_the_oldest_go_first(start):
    s = start(SANDBOX_STORE_CODE="always", SANDBOX_ARTIFACT_MAX_MB="1")
    for n in range(6):
        s.execute(f"print({n})  # " + "x" * 300_000)
    kept = stored(s)
    assert [json.loads(t)["result"]["stdout"] for t in kept] == ["3\n", "4\n", "5\n"]
    assert sum(len(t) for t in kept) <= 1 << 20
    # one that never fits is left out, and the others stay
    r = s.execute("print('big')  # " + "x" * (2 << 20))
    assert r["stdout"] == "big\n"
    assert stored(s) == kept
    assert "step=compose" in s.wait_log(r"artifact\.lost")


def test_what_an_earlier_server_stored_counts(start, tmp_path):
    state = str(tmp_path)
    os.chmod(state, 0o755)
    settings = {"SANDBOX_STORE_CODE": "always", "SANDBOX_ARTIFACT_MAX_MB": "1"}
    first = start(state_dir=state, **settings)
    for n in range(3):
        first.execute(f"print({n})  # " + "x" * 300_000)
    first.stop()
    second = start(state_dir=state, **settings)
    second.execute("print(3)  # " + "x" * 300_000)
    outputs = [json.loads(t)["result"]["stdout"] for t in stored(second)]
    assert outputs == ["1\n", "2\n", "3\n"]


def test_no_room_at_all_means_none(start):
    s = start(SANDBOX_STORE_CODE="always", SANDBOX_ARTIFACT_MAX_MB="0")
    assert s.execute("1/0")["exit_code"] == 1
    assert not os.path.exists(folder(s)) or stored(s) == []


@pytest.fixture
def outside():
    with tempfile.TemporaryDirectory(prefix="stored-") as top:
        os.chmod(top, 0o755)
        where = os.path.join(top, "runs")
        os.mkdir(where)
        yield where


def test_the_directory_is_a_setting(start, outside):
    os.chmod(outside, 0o777)
    s = start(SANDBOX_ARTIFACT_DIR=outside)
    s.execute("1/0")
    assert [json.loads(t)["code"] for t in stored(s, outside)] == ["1/0"]
    assert not os.path.exists(folder(s))
    s.stop()


def test_an_unwritable_directory_is_said_at_the_start_and_runs_go_on(start, outside):
    os.chmod(outside, 0o555)
    s = start(SANDBOX_ARTIFACT_DIR=outside)
    uid = 599999 if os.geteuid() == 0 else os.geteuid()
    note = f"uid {uid} cannot write to SANDBOX_ARTIFACT_DIR: Permission denied"
    assert note in s.wait_log(r"artifacts\.off")
    assert s.get("/health").json["state_directory"] == note
    r = s.execute("print('answered')\n1/0")
    assert (r["stdout"], r["exit_code"]) == ("answered\n", 1)
    assert "answered" not in s.log() and os.listdir(outside) == []


def test_a_directory_that_turns_unwritable_costs_a_log_line_only(start, outside):
    os.chmod(outside, 0o777)
    s = start(SANDBOX_ARTIFACT_DIR=outside)
    os.chmod(outside, 0o555)
    for _ in range(2):
        r = s.execute("print('answered')\n1/0")
        assert (r["stdout"], r["exit_code"]) == ("answered\n", 1)
    line = s.wait_log(r"artifact\.lost")
    assert "step=write" in line and "errno=13" in line
    wait_for(lambda: s.log().count("artifact.lost") == 2)  # it may come after the answer
    assert "answered" not in s.log() and os.listdir(outside) == []


def test_a_full_disk_costs_a_log_line_only(start, outside):
    mounts = os.geteuid() == 0 and not LEAVES_ROOT
    if mounts:
        small = ["mount", "-t", "tmpfs", "-o", "size=64k,mode=0777", "small", outside]
        subprocess.run(small, check=True)
        wanted = "errno=28"
    else:  # the nearest thing to it that needs no right
        wanted = "errno=13"
        if LEAVES_ROOT:
            os.chown(outside, 599999, 599999)
    try:
        s = start(SANDBOX_ARTIFACT_DIR=outside)
        if not mounts:
            os.chmod(outside, 0o555)
        r = s.execute("print('answered')\n1/0  # " + "x" * 200_000)
        assert (r["stdout"], r["exit_code"]) == ("answered\n", 1)
        line = s.wait_log(r"artifact\.lost")
        assert "step=write" in line and wanted in line
        assert os.listdir(outside) == []  # nothing half-written
        if wanted == "errno=28":  # and what fits is stored again
            s.execute("1/0")
            assert len(stored(s, outside)) == 1
        s.stop()
    finally:
        if mounts:
            subprocess.run(["umount", "-l", outside], check=True)


def test_where_another_user_stored_runs_is_taken_over(start, outside):
    if os.geteuid() != 0:
        pytest.skip("needs root: only root has another uid for it")
    # as systemd leaves it when a service's user changes to root
    os.makedirs(outside + "/artifacts/executions", 0o700)
    s = start(state_dir=outside)
    s.execute("1/0")
    assert [json.loads(t)["code"] for t in stored(s)] == ["1/0"]
    s.stop()


def test_a_missing_directory_is_said_and_runs_go_on(start, outside):
    s = start(SANDBOX_ARTIFACT_DIR=outside + "/none")
    assert s.execute("1/0")["exit_code"] == 1
    assert "SANDBOX_ARTIFACT_DIR" in s.wait_log(r"artifacts\.off")
    note = s.get("/health").json["state_directory"]
    assert note.endswith("cannot write to SANDBOX_ARTIFACT_DIR: No such file or directory")


def test_an_unusable_state_directory_is_said_and_runs_go_on(start, outside):
    with open(outside + "/file", "w", encoding="ascii"):
        pass
    s = start(SANDBOX_STATE_DIR=outside + "/file/state")
    r = s.execute("print('answered')\n1/0")
    assert (r["stdout"], r["exit_code"]) == ("answered\n", 1)
    s.wait_log(r"artifacts\.off")
    note = s.get("/health").json["state_directory"]
    assert note == "the state directory cannot be used: Not a directory"


def test_streamed_runs_are_stored_too(start):
    s = start()
    events = list(s.events("print('x')\n1/0"))
    assert events[-1][0] == "result"
    wait_for(lambda: stored(s))
    assert last(s)["result"] == events[-1][1]

# SPDX-License-Identifier: GPL-2.0-only
"""A program's output and exit code come back as they were."""

import pytest

SIMPLE_KEYS = [
    "status",
    "stdout",
    "stderr",
    "exit_code",
    "execution_time_ms",
    "duration",
    "meta",
]


def outcome(r):
    """The parts of an answer that have to agree with each other."""
    assert r["status"] == ("success" if r["exit_code"] == 0 else "error")
    return r["exit_code"], r["meta"]["verdict"], r["meta"]["signal"]


def test_print_hi_is_answered_with_hi(server):
    r = server.post("/execute", {"code": "print('hi')", "language": "python"})
    assert r.status == 200
    answer = r.json
    assert list(answer) == SIMPLE_KEYS  # no files_produced: it made none
    assert answer["status"] == "success"
    assert answer["stdout"] == "hi\n"
    assert answer["stderr"] == ""
    assert answer["exit_code"] == 0
    assert type(answer["execution_time_ms"]) is int
    assert 1 <= answer["execution_time_ms"] < 20000
    assert abs(answer["duration"] * 1000 - answer["execution_time_ms"]) < 0.5


def test_print_hi_has_all_of_meta(server):
    meta = server.execute("print('hi')", language="python")["meta"]
    assert meta["runtime"] == "local" and meta["mode"] == "python"
    assert meta["verdict"] == "ok" and "message" not in meta
    assert meta["truncated"] is False and meta["timed_out"] is False
    assert meta["signal"] is None and meta["blocked_imports"] == []
    assert "files_skipped" not in meta
    assert meta["resource_limits"] == {
        "timeout_sec": 30,
        "max_output_kb": 10,
        "memory_mb": 512,
        "cpu_seconds": 30,
        "pids": 64,
        "disk_mb": 256,
    }
    assert 0 < meta["usage"]["cpu_ms"] < 20000
    assert 1000 < meta["usage"]["memory_peak_kb"] < 512 * 1024
    assert 0 < meta["usage"]["setup_us"] < 10_000_000
    assert meta["isolation"] == server.get("/health").json["isolation"]["level"]


def test_a_traceback_is_in_stderr_with_exit_1(server):
    r = server.execute("print('before')\n1/0\nprint('after')", language="python")
    assert outcome(r) == (1, "nonzero_exit", None)
    assert r["stdout"] == "before\n"
    assert r["stderr"].startswith("Traceback (most recent call last):\n")
    assert 'script.py", line 2, in <module>' in r["stderr"]
    assert r["stderr"].endswith("\nZeroDivisionError: division by zero\n")


def test_a_syntax_error_is_in_stderr_with_exit_1(server):
    r = server.execute("print('never')\ndef (", language="python")
    assert outcome(r) == (1, "nonzero_exit", None)
    assert r["stdout"] == ""
    assert r["stderr"].rstrip().split("\n")[-1].startswith("SyntaxError: ")


@pytest.mark.parametrize(
    "language, code, status",
    [
        ("python", "import sys; sys.exit(3)", 3),
        ("python", "import os; os._exit(255)", 255),
        ("python", "import sys; sys.exit(-1)", 255),
        ("node", "process.exit(7)", 7),
        ("shell", "exit 300", 44),
        ("shell", "false", 1),
        ("shell", "exit 137", 137),  # its own number, not a kill
    ],
)
def test_the_exit_code_is_the_programs(server, language, code, status):
    r = server.execute(code, language=language)
    assert outcome(r) == (status, "nonzero_exit", None)
    assert (r["stdout"], r["stderr"]) == ("", "")
    assert "message" not in r["meta"]


def test_an_unknown_command_is_127(server):
    r = server.execute("echo one\nno-such-command-here\n", language="shell")
    assert outcome(r) == (127, "nonzero_exit", None)
    assert r["stdout"] == "one\n"
    assert r["stderr"] == "script.sh: line 2: no-such-command-here: command not found\n"


def test_an_exit_of_0_after_stderr_is_a_success(server):
    r = server.execute("import sys; print('noise', file=sys.stderr)", language="python")
    assert outcome(r) == (0, "ok", None)
    assert (r["stdout"], r["stderr"]) == ("", "noise\n")


@pytest.mark.parametrize(
    "name, number", [("SIGSEGV", 11), ("SIGABRT", 6), ("SIGTERM", 15), ("SIGKILL", 9)]
)
def test_death_by_a_signal_is_128_and_its_number(server, name, number):
    code = f"import os, signal\nprint('x', flush=True)\nos.kill(os.getpid(), signal.{name})"
    r = server.execute(code, language="python")
    assert outcome(r) == (128 + number, "signal", number)
    assert r["stdout"] == "x\n"
    assert r["meta"]["message"] == f"killed by signal {number} ({name})"
    assert r["stderr"] == f"killed by signal {number} ({name})\n"


def test_python_code_in_a_shell_is_the_shells_own_error(server):
    r = server.execute("import sys\nprint('hi')\n", language="shell")
    assert outcome(r) == (2, "nonzero_exit", None)
    assert r["stdout"] == ""
    assert "script.sh: line 1: import: command not found\n" in r["stderr"]
    assert "script.sh: line 2: syntax error near unexpected token" in r["stderr"]


def test_python_code_in_node_is_nodes_own_error(server):
    r = server.execute("def f():\n    return 1\nprint(f())\n", language="node")
    assert outcome(r) == (1, "nonzero_exit", None)
    assert r["stdout"] == ""
    assert "script.js:1\n" in r["stderr"] and "SyntaxError: " in r["stderr"]
    assert "Node.js v" in r["stderr"]


def test_a_go_compile_error_is_in_stderr_with_exit_1(server):
    code = 'package main\n\nfunc main() {\n\tprintln("never")\n\tundefinedCall()\n}\n'
    r = server.execute(code, language="golang", timeout_seconds=120)
    assert outcome(r) == (1, "nonzero_exit", None)
    assert r["stdout"] == ""
    assert r["stderr"] == "# command-line-arguments\n./script.go:5:2: undefined: undefinedCall\n"


def test_stdin_args_and_env_reach_the_program(server):
    code = "import os, sys\nprint(sys.stdin.read(), sys.argv, os.environ['WORD'])"
    r = server.execute(
        code, language="python", stdin="in\nput", args=["a b", "", "-c"], env={"WORD": "é=1"}
    )
    assert r["stderr"] == ""
    assert r["stdout"] == "in\nput ['script.py', 'a b', '', '-c'] é=1\n"


def test_stdin_is_at_its_end_unless_given(server):
    r = server.execute("import sys\nprint(repr(sys.stdin.read()))", language="python")
    assert (r["stdout"], r["exit_code"]) == ("''\n", 0)

# SPDX-License-Identifier: GPL-2.0-only
"""The deadline holds whatever the program does, and nothing of it lives on."""

import pytest
from conftest import wait_for
from support import Later, check_healthy, marked, new_mark, timed

SPIN = "while True:\n    pass\n"

GRANDCHILD = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.setsid()
        print("deep", flush=True)
        while True:
            time.sleep(1000)
    os._exit(0)
os.wait()
time.sleep(1000)
"""

ORPHAN_SESSIONS = """
import os, time
for _ in range(5):
    if os.fork() == 0:
        os.setsid()
        os.closerange(0, 1024)
        while True:
            time.sleep(1000)
while True:
    pass
"""

IGNORES_ALL = """
import signal, time
for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
    signal.signal(number, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
print("deaf", flush=True)
while True:
    time.sleep(1000)
"""

STOPPED = """
import os, signal
print("still", flush=True)
os.kill(os.getpid(), signal.SIGSTOP)
print("never")
"""

STOPPED_CHILDREN = """
import os, signal
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        os.kill(os.getpid(), signal.SIGSTOP)
print("still", flush=True)
os.kill(0, signal.SIGSTOP)
"""

SHELL_LOOP = "trap '' TERM INT HUP QUIT\necho up\nwhile :; do :; done\n"

NODE_SPIN = "console.log('up'); for (;;) ;"

GO_SLEEPER = """package main

import "time"

func main() {
	println("asleep")
	time.Sleep(time.Hour)
}
"""


def check_timeout(r, seconds=1):
    line = f"execution timed out after {seconds} seconds"
    assert r["status"] == "error"
    assert r["exit_code"] == -1
    assert r["stderr"].split("\n")[-2:] == [line, ""]
    assert r["meta"]["verdict"] == "timeout"
    assert r["meta"]["message"] == line
    assert r["meta"]["timed_out"] is True
    assert r["meta"]["resource_limits"]["timeout_sec"] == seconds
    assert 1000 * seconds <= r["execution_time_ms"] < 1000 * seconds + 1000


def run_out_of_time(server, code, language="python"):
    """The answer to a run of 1 second that was seen alive, came in time and left nothing."""
    mark = new_mark()
    run = Later(server, code, language=language, timeout_seconds=1, args=[mark])
    wait_for(lambda: marked(mark) or run.over())
    assert not run.over(), run.result()
    r = run.result()
    assert marked(mark) == []
    check_timeout(r)
    assert run.seconds < 2
    return r


def test_an_endless_loop_is_ended_after_its_second(server):
    r = run_out_of_time(server, SPIN)
    assert r["stdout"] == "" and r["stderr"] == "execution timed out after 1 seconds\n"
    check_healthy(server)


@pytest.mark.parametrize(
    "language, code, stdout",
    [
        ("python", GRANDCHILD, "deep\n"),
        ("python", ORPHAN_SESSIONS, ""),
        ("python", IGNORES_ALL, "deaf\n"),
        ("python", STOPPED, "still\n"),
        ("python", STOPPED_CHILDREN, "still\n"),
        ("shell", SHELL_LOOP, "up\n"),
        ("node", NODE_SPIN, "up\n"),
    ],
    ids=[
        "a_grandchild_in_its_own_session",
        "sessions_with_every_descriptor_closed",
        "a_process_that_ignores_every_signal",
        "a_stopped_process",
        "stopped_children_in_their_own_sessions",
        "a_shell_that_traps_signals",
        "an_endless_loop_in_node",
    ],
)
def test_the_deadline_ends(server, language, code, stdout):
    r = run_out_of_time(server, code, language)
    assert r["stdout"] == stdout
    assert r["stderr"] == "execution timed out after 1 seconds\n"
    check_healthy(server)


def test_the_deadline_ends_go_run_wherever_it_is(server):
    mark = new_mark()
    r, seconds = timed(
        lambda: server.execute(GO_SLEEPER, language="go", timeout_seconds=1, args=[mark])
    )
    assert marked(mark) == []
    check_timeout(r)
    assert seconds < 2


def test_the_deadline_ends_a_sleeper_under_go_run(server):
    for seconds in (5, 90):  # the second only where there is no compile cache yet
        mark, most = new_mark(), 0
        run = Later(server, GO_SLEEPER, language="go", timeout_seconds=seconds, args=[mark])
        while not run.over():
            most = max(most, len(marked(mark)))
            run.thread.join(0.05)
        r = run.result()
        assert marked(mark) == []
        check_timeout(r, seconds)
        assert run.seconds < seconds + 1
        if r["stderr"].startswith("asleep\n"):
            break
    assert most >= 2  # go run, and the program itself
    assert r["stderr"] == f"asleep\nexecution timed out after {seconds} seconds\n"
    check_healthy(server)


def test_a_fork_storm_ends_at_the_deadline(server):
    code = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass\n"
    run_out_of_time(server, code)
    check_healthy(server)


def test_three_deadlines_at_once_are_all_kept(server):
    mark = new_mark()
    runs = [
        Later(server, code, language="python", timeout_seconds=1, args=[mark])
        for code in (SPIN, GRANDCHILD, STOPPED)
    ]
    for run in runs:
        check_timeout(run.result())
        assert run.seconds < 2
    assert marked(mark) == []


def test_a_fraction_of_a_second_is_a_deadline_too(server):
    r, seconds = timed(lambda: server.execute(SPIN, language="python", timeout_seconds=0.3))
    assert r["exit_code"] == -1
    assert r["stderr"] == "execution timed out after 0.3 seconds\n"
    assert r["meta"]["resource_limits"]["timeout_sec"] == 0.3
    assert 300 <= r["execution_time_ms"] and seconds < 1.3


@pytest.mark.parametrize("asked, given", [(None, 30), (0, 30), (1e9, 300), (300.5, 300), (2, 2)])
def test_the_deadline_in_force_is_said(server, asked, given):
    r = server.execute("print(1)", language="python", timeout_seconds=asked)
    assert r["stdout"] == "1\n"
    assert r["meta"]["resource_limits"]["timeout_sec"] == given


def test_the_server_has_a_default_and_a_most(start):
    s = start(SANDBOX_TIMEOUT_SEC="1", SANDBOX_MAX_TIMEOUT_SEC="2")
    check_timeout(s.execute(SPIN))
    r, seconds = timed(lambda: s.execute("import time; time.sleep(60)", timeout_seconds=60))
    check_timeout(r, 2)
    assert seconds < 3


def test_cpu_time_has_a_limit_of_its_own(server):
    r = server.execute(
        "print('go', flush=True)\nwhile True: pass",
        language="python",
        timeout_seconds=60,
        limits={"cpu_seconds": 1},
    )
    assert r["meta"]["verdict"] == "cpu_timeout"
    assert r["exit_code"] == 137 and r["meta"]["timed_out"] is False
    assert r["stdout"] == "go\n" and r["stderr"] == "CPU limit of 1 s exceeded\n"
    assert r["meta"]["message"] == "CPU limit of 1 s exceeded"
    assert r["meta"]["resource_limits"]["cpu_seconds"] == 1
    assert 1000 <= r["meta"]["usage"]["cpu_ms"] < 3000

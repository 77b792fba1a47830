# SPDX-License-Identifier: GPL-2.0-only
"""What was printed survives the end of the run; who holds the pipe does not."""

import pytest
from conftest import wait_for
from support import Later, marked, new_mark

DAEMON = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.write(1, b"daemon up\\n")
        while True:
            time.sleep(1000)
    os._exit(0)
os.wait()
while not os.path.exists("ready"):
    open("ready", "w").close()
os.write(1, b"parent done\\n")
"""

BUSY_DAEMON = """
import os
a, b = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.write(1, b"first\\n")
        os.close(b)
        while True:
            os.write(1, b"x" * 4096)
            os.write(2, b"y" * 4096)
    os._exit(0)
os.close(b)
os.read(a, 1)
os._exit(5)
"""


def test_partial_stdout_survives_a_timeout(server):
    code = (
        "import sys, time\nprint('one', flush=True)\n"
        "print('two', file=sys.stderr, flush=True)\n"
        "sys.stdout.write('no newline'); sys.stdout.flush()\ntime.sleep(60)\nprint('three')"
    )
    r = server.execute(code, language="python", timeout_seconds=1)
    assert r["exit_code"] == -1
    assert r["stdout"] == "one\nno newline"
    assert r["stderr"] == "two\nexecution timed out after 1 seconds\n"


def test_the_message_has_a_line_of_its_own(server):
    code = "import sys, time\nsys.stderr.write('half'); sys.stderr.flush()\ntime.sleep(60)"
    r = server.execute(code, language="python", timeout_seconds=1)
    assert r["stderr"] == "half\nexecution timed out after 1 seconds\n"


def test_the_message_follows_the_mark_of_a_cut_stderr(server):
    code = "import sys, time\nsys.stderr.write('e' * 20000); sys.stderr.flush()\ntime.sleep(60)"
    r = server.execute(code, language="python", timeout_seconds=1)
    cut = "e" * (10240 - 32) + "\n... (output truncated)"
    assert r["stderr"] == cut + "\nexecution timed out after 1 seconds\n"
    assert r["meta"]["truncated"] is True and r["stdout"] == ""


def test_all_of_a_pipe_survives_a_timeout(server):
    """More than one read of it, written just before the end."""
    code = "import os, time\nos.write(1, b'z' * 60000)\ntime.sleep(60)"
    limits = {"max_output_kb": 100}
    r = server.execute(code, language="python", timeout_seconds=1, limits=limits)
    assert r["exit_code"] == -1 and r["stdout"] == "z" * 60000


def test_a_daemon_that_holds_stdout_does_not_delay_the_answer(server):
    mark = new_mark()
    run = Later(server, DAEMON, language="python", timeout_seconds=60, args=[mark])
    wait_for(lambda: marked(mark) or run.over())
    r = run.result()
    assert marked(mark) == []
    assert run.seconds < 10  # the daemon sleeps for longer than the deadline
    assert r["exit_code"] == 0 and r["meta"]["verdict"] == "ok"
    assert "parent done\n" in r["stdout"]
    assert r["stdout"].replace("daemon up\n", "", 1) == "parent done\n"
    assert r["stderr"] == ""


def test_a_daemon_that_floods_stdout_does_not_delay_the_answer(server):
    mark = new_mark()
    run = Later(server, BUSY_DAEMON, language="python", timeout_seconds=60, args=[mark])
    r = run.result()
    assert marked(mark) == []
    assert run.seconds < 10
    assert r["exit_code"] == 5 and r["meta"]["verdict"] == "nonzero_exit"
    assert r["stdout"].startswith("first\n")


@pytest.mark.parametrize("how", ["sleep 1000 &", "setsid sleep 1000 &", "sleep 1000 | cat &"])
def test_background_jobs_of_a_shell_end_with_it(server, how):
    mark = new_mark()
    code = f"exec -a {mark} sleep 1000 &\n{how}\necho done"
    run = Later(server, code, language="shell", timeout_seconds=60)
    r = run.result()
    assert marked(mark) == []
    assert run.seconds < 10
    assert (r["stdout"], r["stderr"], r["exit_code"]) == ("done\n", "", 0)


def test_output_of_children_is_kept_in_order(server):
    code = "echo a\n(echo b)\nsh -c 'echo c; echo d >&2'\necho e"
    r = server.execute(code, language="shell")
    assert (r["stdout"], r["stderr"]) == ("a\nb\nc\ne\n", "d\n")

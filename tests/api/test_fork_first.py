# SPDX-License-Identifier: GPL-2.0-only
"""Process 1 of a forked run has its interpreter's memory: what neither may know of the other."""

import os
import re
import time

import pytest

from conftest import wait_for
from support import Later, b64
from test_fork import _interpreters, forked, three  # noqa: F401 # pylint: disable=unused-import
from test_warm import used, wait_warm


def memory(pid):
    """All of it that was written to."""
    with open(f"/proc/{pid}/maps", encoding="utf-8") as f:
        areas = re.findall(r"^([0-9a-f]+)-([0-9a-f]+) rw-", f.read(), re.M)
    with open(f"/proc/{pid}/mem", "rb") as f:
        for start, end in areas:
            f.seek(int(start, 16))
            yield f.read(int(end, 16) - int(start, 16))


def interpreters(server):
    wait_warm(server, "python", 3)
    return sorted(_interpreters(server))


def holds(pid, text):
    return any(text in part for part in memory(pid))


@pytest.mark.skipif(os.geteuid() != 0, reason="whose memory is shut is root's alone to read")
def test_no_byte_of_a_request_comes_to_the_interpreter(three):  # noqa: F811 # pylint: disable=redefined-outer-name
    before = interpreters(three)
    assert all(holds(pid, b"PYTHON") for pid in before)
    marks = ["in-the-code", "in-a-file", "in-an-argument", "in-the-environment", "on-the-input", "as-a-name"]
    code = "import time\n# kept: in-the-code\nprint('here', flush=True)\ntime.sleep(3)"
    fields = {
        "files": {"as-a-name.txt": b64(b"in-a-file")}, "args": ["in-an-argument"],
        "env": {"MARK": "in-the-environment"}, "stdin": "on-the-input",
    }
    run = Later(three, code, **fields)
    assert wait_for(lambda: len(three.named("python")) > len(before), 20)  # the program
    time.sleep(0.2)
    program = (set(three.named("python")) - set(before)).pop()
    assert all(holds(program, m.encode()) for m in marks[2:4])  # so they would be, if they were
    for _ in "during", "after":
        found = [m for m in marks for pid in before if holds(pid, m.encode())]
        assert found == [] and used(run.result()), found
    assert interpreters(three) == before


def test_process_1_is_shut(three):  # noqa: F811 # pylint: disable=redefined-outer-name
    code = (
        "import os\n"
        "for n in 'mem', 'maps', 'environ', 'auxv', 'stack', 'syscall':\n"
        "    try:\n        open('/proc/1/' + n, 'rb').read(1); print(n, 'open')\n"
        "    except OSError: pass\n"
        "for n in 'exe', 'root', 'cwd', 'ns/mnt', 'fd/0':\n"
        "    try:\n        os.readlink('/proc/1/' + n); print(n, 'open')\n"
        "    except OSError: pass\n"
        "print(os.getppid(), open('/proc/1/comm').read().strip())\n"
    )
    assert forked(three, code)["stdout"] == "1 sandbox-worker\n"


def test_the_processor_is_the_one_that_it_runs_on(three):  # noqa: F811 # pylint: disable=redefined-outer-name
    """The C library reads it where the kernel writes it, which is no process's but the one that said so."""
    code = (
        "import ctypes, os\nlibc = ctypes.CDLL(None)\n"
        "for _ in range(3):\n"
        "    for n in sorted(all):\n"
        "        os.sched_setaffinity(0, {n})\n"
        "        assert libc.sched_getcpu() == n, (n, libc.sched_getcpu())\n"
        "print('known')"
    )
    assert forked(three, "import os\nall = os.sched_getaffinity(0)\n" + code)["stdout"] == "known\n"


def test_one_after_the_other_for_a_long_time(three):  # noqa: F811 # pylint: disable=redefined-outer-name
    """Whatever became of the one before: its process 1 was killed, timed out, or went with its program."""
    before = interpreters(three)
    ends = ("pass", "import os; os._exit(3)", "import os; os.kill(os.getpid(), 9)", "import time; time.sleep(60)",
            "import os\nif os.fork(): os._exit(0)\nimport time; time.sleep(60)")
    for i in range(40):
        r = three.execute(ends[i % len(ends)], timeout_seconds=0.3)
        assert used(r) and r["meta"]["verdict"] in ("ok", "nonzero_exit", "signal", "timeout"), r
        wait_warm(three, "python")
    assert interpreters(three) == before

# SPDX-License-Identifier: GPL-2.0-only
"""Process 1 of a forked run has its interpreter's memory: what neither may know of the other."""

import os
import re
import shutil
import time

import pytest

from conftest import Server, post, wait_for
from probes import own_place, write_program
from support import Later, b64
from test_fork import _interpreters, _venv, forked, three  # noqa: F401 # pylint: disable=unused-import
from test_warm import alive, parent, used, wait_warm


def memory(pid):
    """All of it that comes from no file with a name."""
    with open(f"/proc/{pid}/maps", encoding="utf-8") as f:
        areas = re.findall(r"^([0-9a-f]+)-([0-9a-f]+) r\S+ \S+ \S+ \S+ *(?:\[[hs].*|/memfd:.*|)$", f.read(), re.M)
    with open(f"/proc/{pid}/mem", "rb") as f:
        for start, end in areas:
            f.seek(int(start, 16))
            yield f.read(int(end, 16) - int(start, 16))


def interpreters(server):
    wait_warm(server, "python", 3)
    return sorted(_interpreters(server))


def is_python(pid):
    with open(f"/proc/{pid}/comm", encoding="utf-8") as f:
        return f.read().startswith("python")


def holds(pid, text):
    return any(text in part for part in memory(pid))


@pytest.mark.skipif(os.geteuid() != 0, reason="whose memory is shut is root's alone to read")
def test_no_byte_of_a_request_comes_to_the_interpreter(three):  # noqa: F811 # pylint: disable=redefined-outer-name
    before = interpreters(three)
    assert all(holds(pid, b"PYTHON") for pid in before)  # so what is there is found
    marks = ["in-the-code", "in-a-file", "in-an-argument", "in-the-environment", "on-the-input", "as-a-name"]
    code = "import time\n# kept: in-the-code\nprint('here', flush=True)\ntime.sleep(2)"
    fields = {
        "files": {"as-a-name.txt": b64(b"in-a-file")}, "args": ["in-an-argument"],
        "env": {"MARK": "in-the-environment"}, "stdin": "on-the-input",
    }
    run = Later(three, code, **fields)
    looked = 0
    while not run.over():
        found = [m for m in marks for pid in before if holds(pid, m.encode())]
        assert found == [], found
        looked += 1
    assert used(run.result()) and looked > 3
    assert interpreters(three) == before


def firsts(server):
    """Each process 1 of a run: its last number, in another namespace than ours, is 1."""
    found = []
    for pid in server.pids():
        try:
            with open(f"/proc/{pid}/status", encoding="utf-8") as f:
                numbers = re.search(r"^NSpid:(.*)$", f.read(), re.M)[1].split()
        except OSError:
            continue  # it ended in between
        found += [pid] if len(numbers) > 1 and numbers[-1] == "1" else []
    return found


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
    # nor is it Landlock alone that says so
    run = Later(three, "import time\nprint('here', flush=True)\ntime.sleep(1)")
    (first,) = wait_for(lambda: firsts(three), 20)
    (program,) = wait_for(lambda: [p for p in three.pids() if parent(p) == first and is_python(p)], 20)
    assert os.stat(f"/proc/{program}/mem").st_uid != 0  # so that would be seen
    for pid in [first, *three.named("sandbox-worker"), *_interpreters(three)]:
        assert pid == program or os.stat(f"/proc/{pid}/mem").st_uid == 0, pid
    assert alive(first) and used(run.result())


def test_the_processor_is_the_one_that_it_runs_on(three):  # noqa: F811 # pylint: disable=redefined-outer-name
    """The C library reads it where the kernel writes it, which is no process's but the one that said so."""
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("there is but one")
    code = (
        "import ctypes, os\nlibc = ctypes.CDLL(None)\n"
        "for _ in range(3):\n"
        "    for n in sorted(all):\n"
        "        os.sched_setaffinity(0, {n})\n"
        "        assert libc.sched_getcpu() == n, (n, libc.sched_getcpu())\n"
        "print('known')"
    )
    assert forked(three, "import os\nall = os.sched_getaffinity(0)\n" + code)["stdout"] == "known\n"


def descriptors(pids):
    return [len(os.listdir(f"/proc/{pid}/fd")) for pid in pids]


def test_one_after_the_other_for_a_long_time(three):  # noqa: F811 # pylint: disable=redefined-outer-name
    """Whatever became of the one before: it was killed, timed out, or went with its process 1."""
    before = interpreters(three)
    many = descriptors(before)
    ends = ("pass", "import os; os._exit(3)", "import os; os.kill(os.getpid(), 9)", "import time; time.sleep(60)",
            "import os\nif os.fork(): os._exit(0)\nimport time; time.sleep(60)")
    for i in range(40):
        r = three.execute(ends[i % len(ends)], timeout_seconds=0.3)
        assert used(r) and r["meta"]["verdict"] in ("ok", "nonzero_exit", "signal", "timeout"), r
        wait_warm(three, "python")
    assert interpreters(three) == before
    # the gate and the end of the last one are kept until the next
    assert max(descriptors(before)) <= max(many) + 3, (many, descriptors(before))


def ask_and_leave(server, seconds):
    with server.raw(post({"code": "print(1)"})):
        time.sleep(seconds)


def when_there_is_room(server, code):
    """None while one that went away is still on its way in."""
    r = server.post("/execute", {"code": code})
    assert r.status in (200, 429), r
    return r.json if r.status == 200 else None


def test_who_goes_away_early_leaves_nothing_to_the_next(three):  # noqa: F811 # pylint: disable=redefined-outer-name
    """Process 1 is killed anywhere on its way, in fork() too; then another gets what it asked for."""
    for i in range(60):
        wait_warm(three, "python")
        ask_and_leave(three, i % 20 * 0.00025)
        assert wait_for(lambda: three.load() == 0, 20)
        r = wait_for(lambda: when_there_is_room(three, "import os\nprint('here', flush=True)\nos.abort()"), 20)
        assert r["stdout"] == "here\n" and r["exit_code"] == 134, r


STUCK = """
import ctypes, os, time
def stay():
    if os.path.exists(os.path.dirname(__file__) + "/stay"):
        time.sleep(60)
stay_in_fork = ctypes.CFUNCTYPE(None)(stay)
getattr(ctypes.CDLL(None), "__register_atfork")(stay_in_fork, None, None, None)
"""


def test_one_whose_process_1_died_in_fork_is_given_up(three):  # noqa: F811 # pylint: disable=redefined-outer-name
    """Locks that it had taken there would be the next one's to wait for."""
    assert three
    place = own_place()
    try:
        path = _venv(place, stuck=STUCK)
        s = Server({"SANDBOX_WARM": "0", "SANDBOX_WARM_FORK": "on", "SANDBOX_PRELOAD": "stuck", "PATH": path,
                    "SANDBOX_MAX_CONCURRENT": "1"}, mode="python")
        try:
            before = interpreters(s)
            (site,) = [d[0] for d in os.walk(place + "/venv/lib") if d[0].endswith("/site-packages")]
            write_program(site + "/stay", "")
            ask_and_leave(s, 0.3)
            assert wait_for(lambda: s.load() == 0, 20)
            os.unlink(site + "/stay")
            answers = [s.execute("print(1)") for _ in range(6)]
            assert {r["stdout"] for r in answers} == {"1\n"}
            assert len(set(before) - set(interpreters(s))) == 1
            assert s.wait_log(r"warm\.cold .*step=fork_last")
        finally:
            s.stop()
    finally:
        shutil.rmtree(place)

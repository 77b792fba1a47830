# SPDX-License-Identifier: GPL-2.0-only
"""Bombs of every kind are contained; memory is named where it was memory."""

import pytest
from conftest import wait_for
from support import Later, check_healthy, marked, new_mark, timed

EAT = "hoard = []\nwhile True:\n    hoard.append(bytearray(4 << 20))\n"

MEMORY_BOMBS = {
    "directly": EAT,
    "at_once": "x = bytearray(4 << 30)\nfor i in range(0, len(x), 4096): x[i] = 1\n",
    "by_a_child": f"""
import os
if os.fork() == 0:
    {EAT.replace(chr(10), chr(10) + "    ")}
os.wait()
os._exit(0)
""",
    "by_a_grandchild_in_its_own_session": f"""
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        {EAT.replace(chr(10), chr(10) + "        ")}
    os._exit(0)
os.wait()
time.sleep(60)
""",
    "by_a_program_of_its_own": """
import subprocess, sys
eat = "x = []\\nwhile True: x.append(bytearray(4 << 20))"
subprocess.run([sys.executable, "-c", eat])
""",
    "by_many_children": """
import os, time
for _ in range(12):
    if os.fork() == 0:
        x = bytearray(10 << 20)
        time.sleep(60)
time.sleep(60)
""",
    "by_tmpfs": """
import os, time
f = open("/dev/shm/x", "wb", 0)
try:
    while True:
        f.write(b"x" * (1 << 20))
except OSError:
    pass
assert os.fstat(f.fileno()).st_size > 30 << 20  # half of the memory is held by it
x = [bytearray(4 << 20) for _ in range(12)]
time.sleep(60)
""",
    "by_memory_files": """
import os
for _ in range(40):
    fd = os.memfd_create("x")
    os.write(fd, b"x" * (4 << 20))
""",
    "by_a_mapping": """
import mmap, time
hoard = []
for _ in range(40):
    hoard.append(mmap.mmap(-1, 4 << 20))
    hoard[-1].write(b"x" * (4 << 20))
time.sleep(60)
""",
    "by_a_mapping_beside_private_memory": """
import mmap, time
x = [bytearray(4 << 20) for _ in range(10)]
m = mmap.mmap(-1, 40 << 20)
m.write(b"x" * (40 << 20))
time.sleep(60)
""",
    "with_the_program_going_on_afterwards": """
import os, sys
pid = os.fork()
if pid == 0:
    x = []
    while True:
        x.append(bytearray(4 << 20))
os.wait()
print("survived", flush=True)
sys.exit(0)
""",
}


def check_out_of_memory(r, mb):
    line = f"memory limit of {mb} MB exceeded"
    assert r["status"] == "error"
    assert r["exit_code"] == 137
    assert r["meta"]["verdict"] == "out_of_memory"
    assert r["meta"]["message"] == line
    assert r["meta"]["timed_out"] is False
    assert r["stderr"].split("\n")[-2:] == [line, ""]
    assert r["meta"]["resource_limits"]["memory_mb"] == mb


# Without a cgroup processes are looked at from time to time. A request for more than twice the
# limit is then refused to the program, and so is what belongs to no process.
REFUSED = {"at_once": "MemoryError\n", "by_memory_files": "[Errno 38] Function not implemented\n"}


@pytest.mark.parametrize("how", MEMORY_BOMBS)
def test_a_memory_bomb(server, how):
    isolation = server.get("/health").json["isolation"]
    counted = isolation["layers"]["memory_limit"]
    mark = new_mark()
    r = server.execute(MEMORY_BOMBS[how], language="python", limits={"memory_mb": 64}, args=[mark])
    assert marked(mark) == []
    check_healthy(server)
    # every answer says when it is not full
    assert counted or isolation["level"] == r["meta"]["isolation"] == "namespaces"
    if not counted and how in REFUSED:
        assert (r["exit_code"], r["meta"]["verdict"]) == (1, "nonzero_exit")
        assert r["stderr"].endswith(REFUSED[how])
        return
    check_out_of_memory(r, 64)
    assert r["stdout"] in ("", "survived\n")
    if counted:
        assert 48 * 1024 < r["meta"]["usage"]["memory_peak_kb"] <= 64 * 1024


def test_a_memory_bomb_of_the_default_size(server):
    r = server.execute("print('start', flush=True)\n" + EAT, language="python")
    check_out_of_memory(r, 512)
    assert r["stdout"] == "start\n"


@pytest.mark.parametrize(
    "language, code",
    [
        ("node", "const a = []; for (;;) a.push(Buffer.alloc(4 << 20, 1));"),
        ("shell", "x=0123456789abcdef; while :; do x=$x$x; done"),
    ],
)
def test_a_memory_bomb_in_other_modes(server, language, code):
    r = server.execute(code, language=language, limits={"memory_mb": 128})
    check_out_of_memory(r, 128)
    check_healthy(server)


def test_what_was_printed_before_the_bomb_is_kept(server):
    code = "import sys\nprint('out', flush=True)\nprint('err', file=sys.stderr)\n"
    code += "open('output/x', 'w').write('kept')\n" + EAT
    r = server.execute(code, language="python", limits={"memory_mb": 64})
    check_out_of_memory(r, 64)
    assert r["stdout"] == "out\n"
    assert r["stderr"] == "err\nmemory limit of 64 MB exceeded\n"
    assert r["files_produced"] == {"x": "a2VwdA=="}


def test_memory_within_the_limit_is_no_bomb(server):
    code = "x = bytearray(40 << 20)\nprint(len(x))"
    r = server.execute(code, language="python", limits={"memory_mb": 64})
    assert (r["stdout"], r["exit_code"], r["meta"]["verdict"]) == ("41943040\n", 0, "ok")
    assert 40 * 1024 < r["meta"]["usage"]["memory_peak_kb"] < 64 * 1024


def test_memory_that_processes_share_is_counted_once(server):
    code = """
import mmap, os, time
m = mmap.mmap(-1, 60 << 20)
m.write(b"x" * (60 << 20))
for _ in range(4):
    if os.fork() == 0:
        assert sum(m[i] for i in range(0, len(m), 4096)) == ord("x") * 15360
        time.sleep(1)
        os._exit(0)
for _ in range(4):
    assert os.wait()[1] == 0
print("fine")
"""
    r = server.execute(code, language="python", limits={"memory_mb": 160})
    assert (r["stdout"], r["stderr"], r["meta"]["verdict"]) == ("fine\n", "", "ok")
    assert 60 << 10 < r["meta"]["usage"]["memory_peak_kb"] < 160 << 10


def test_an_own_kill_is_not_taken_for_memory(server):
    code = "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)"
    r = server.execute(code, language="python")
    assert (r["exit_code"], r["meta"]["verdict"]) == (137, "signal")
    assert r["stderr"] == "killed by signal 9 (SIGKILL)\n"


def test_every_slot_works_after_its_bomb(start):
    s = start(SANDBOX_MAX_CONCURRENT="2")
    for _ in range(2):
        bombs = [Later(s, EAT, limits={"memory_mb": 48}) for _ in range(2)]
        for b in bombs:
            check_out_of_memory(b.result(), 48)
        r = s.execute("x = bytearray(40 << 20)\nprint('fine')", limits={"memory_mb": 60})
        assert (r["stdout"], r["meta"]["verdict"]) == ("fine\n", "ok")
    check_healthy(s)


# ---- the others, and a run beside each that must not notice

FORKS = """
import os
while True:
    try:
        os.fork()
    except OSError:
        pass
"""

THREADS = """
import threading, time
count = 0
try:
    while True:
        threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
        count += 1
except RuntimeError:
    print("threads", count, flush=True)
while True:
    pass
"""

DESCRIPTORS = """
import errno, os, time
held = []
try:
    while True:
        held.extend(os.pipe())
except OSError as e:
    print("descriptors", len(held), errno.errorcode[e.errno], flush=True)
children = 0
while True:
    try:
        if os.fork() == 0:
            for fd in held: os.close(fd)
            try:
                while True: os.pipe()
            except OSError:
                time.sleep(1000)
        children += 1
    except OSError:
        break
print("children", children, flush=True)
while True:
    pass
"""

INODES = """
import errno, os
count = 0
os.mkdir("d")
try:
    while True:
        os.mknod("d/%d" % count)
        count += 1
except OSError as e:
    print("inodes", 1000 < count < 200000, errno.errorcode[e.errno], flush=True)
while True:
    pass
"""

DISK = """
import errno, os
for path in ("/work/x", "/tmp/x", "/dev/shm/x"):
    total = 0
    try:
        with open(path, "wb", 0) as f:
            while True:
                total += f.write(b"x" * (1 << 20))
    except OSError as e:
        print(path, total >> 20, errno.errorcode[e.errno], flush=True)
while True:
    pass
"""

SHELL_FORKS = ":(){ :|:& };:\nwait\nwhile :; do :; done\n"

BOMBS = {
    "a_fork_bomb": ("python", FORKS, ""),
    "a_fork_bomb_in_a_shell": ("shell", SHELL_FORKS, ""),
    "a_thread_bomb": ("python", THREADS, "threads 63\n"),
    "a_descriptor_bomb": ("python", DESCRIPTORS, "descriptors 1020 EMFILE\nchildren 63\n"),
    "an_inode_bomb": ("python", INODES, "inodes True ENOSPC\n"),
    "a_disk_bomb": ("python", DISK, "/work/x 31 ENOSPC\n/tmp/x 0 ENOSPC\n/dev/shm/x 0 ENOSPC\n"),
}

CONTROL = """
import os, tempfile, threading
t = threading.Thread(target=lambda: print("thread")); t.start(); t.join()
pid = os.fork()
if pid == 0:
    os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
fds = [os.open("/dev/null", os.O_RDONLY) for _ in range(500)]
for n in range(500):
    open("f%d" % n, "w").close()
with tempfile.TemporaryFile() as f:
    print(f.write(b"x" * (8 << 20)))
"""


@pytest.mark.parametrize("bomb", BOMBS)
def test_it_is_contained_and_a_run_beside_it_does_not_notice(server, bomb):
    language, code, stdout = BOMBS[bomb]
    mark = new_mark()
    limits = {"memory_mb": 512, "disk_mb": 32}
    fields = {"timeout_seconds": 4, "limits": limits, "args": [mark]}
    run = Later(server, code, language=language, **fields)
    wait_for(lambda: len(marked(mark)) >= (30 if "fork" in bomb else 1) or run.over())
    r, seconds = timed(lambda: server.execute(CONTROL, language="python"))
    assert not run.over()
    assert (r["stdout"], r["stderr"]) == ("thread\n7\n8388608\n", "")
    assert r["exit_code"] == 0
    assert seconds < 3.5
    assert server.get("/healthz").status == 200
    r = run.result()
    assert marked(mark) == []
    assert run.seconds < 5
    ends = [(-1, "timeout")]
    if "fork" in bomb and "cpu_limit" in server.get("/health").json["isolation"]["missing"]:
        ends.append((137, "cpu_timeout"))  # without a quota it uses the time of every CPU
    assert (r["exit_code"], r["meta"]["verdict"]) in ends
    assert r["stdout"] == stdout
    if r["meta"]["usage"]["pids_peak"] is not None:
        assert r["meta"]["usage"]["pids_peak"] <= 66  # process 1 of the sandbox counts
    check_healthy(server)


def test_many_that_spin_are_ended_by_the_limit_they_pass_first(server):
    """A quota leaves one CPU, and the deadline comes first; without, all CPUs count, and it
    depends on who else uses them."""
    quota = server.get("/health").json["isolation"]["layers"]["cpu_limit"]
    code = "import os\nfor _ in range(3): os.fork()\nwhile True: pass"
    r = server.execute(code, language="python", timeout_seconds=3)
    assert r["meta"]["resource_limits"]["cpu_seconds"] == 3
    used_ms = r["meta"]["usage"]["cpu_ms"]
    if r["meta"]["verdict"] == "timeout":
        assert r["exit_code"] == -1 and r["execution_time_ms"] >= 3000
        assert used_ms < 3500
    else:
        assert (r["exit_code"], r["meta"]["verdict"]) == (137, "cpu_timeout") and not quota
        assert r["stderr"] == "CPU limit of 3 s exceeded\n"
        assert r["execution_time_ms"] < 3000 < used_ms


@pytest.mark.parametrize("pids", [1, 2, 10])
def test_the_number_of_processes_is_the_one_asked_for(server, pids):
    code = """
import os, time
n = 1
try:
    while True:
        if os.fork() == 0:
            time.sleep(60)
        n += 1
except BlockingIOError:
    print(n)
"""
    r = server.execute(code, language="python", limits={"pids": pids})
    assert (r["stdout"], r["exit_code"]) == (f"{pids}\n", 0)


@pytest.mark.parametrize("path", ["/work", "/tmp", "/dev/shm"])
def test_a_full_disk_is_named(server, path):
    code = f"f = open('{path}/x', 'wb', 0)\nwhile True: f.write(b'x' * (1 << 20))"
    r = server.execute(code, language="python", limits={"disk_mb": 8})
    assert (r["exit_code"], r["meta"]["verdict"]) == (1, "disk_full")
    assert r["meta"]["message"] == "disk limit of 8 MB reached"
    assert r["stderr"].endswith("OSError: [Errno 28] No space left on device\n")
    check_healthy(server)


def test_limits_above_the_ceiling_are_clamped_and_said(server):
    asked = {"memory_mb": 2**40, "cpu_seconds": 10**9, "pids": 10**6, "disk_mb": 10**15}
    r = server.execute("print(1)", language="python", limits=asked)
    assert r["meta"]["resource_limits"] == {
        "timeout_sec": 30,
        "max_output_kb": 10,
        "memory_mb": 512,
        "cpu_seconds": 30,
        "pids": 64,
        "disk_mb": 256,
    }

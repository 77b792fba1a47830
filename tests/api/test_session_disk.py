# SPDX-License-Identifier: GPL-2.0-only
"""How much of the disk a session may have: what is said of it, and that it holds.

That the file system itself refuses more, where it can, is tested in the machine of tests/vm.
"""

import concurrent.futures
import os
import subprocess
import threading
import time

import pytest

from conftest import Server, wait_for
from test_session_versions import Known
from test_sessions import Session, call

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="sessions need a server started as root")

LIMIT_MB = 32


@pytest.fixture(scope="module")
def served():
    s = Server({"SANDBOX_SESSIONS": "on", "SANDBOX_WARM": "0", "SANDBOX_DISK_MB": str(LIMIT_MB)}, mode="shell")
    yield s
    s.stop()


def used_mb(one):
    return call(one.server, "GET", one.path)["disk"]["used_mb"]


def kept_mb(server):
    """Files may go while they are counted."""
    out = subprocess.run(["du", "-sm", f"{server.state_dir}/sessions"], capture_output=True, text=True, check=False)
    return int(out.stdout.split()[0])


def counts(path):
    """The file system that this is on has project quotas, and enforces them."""
    found = subprocess.run(["findmnt", "-no", "OPTIONS", "-T", path], capture_output=True, text=True, check=True)
    return bool({"prjquota", "pquota"} & set(found.stdout.strip().split(",")))


def test_what_is_enforced_is_said(served):
    one = Session(served, "said")
    kind = "project_quota" if counts(served.state_dir) else "measured"
    disk = one.opened["disk"]
    assert disk["limit_mb"] == LIMIT_MB and disk["enforced"] == kind and disk["used_mb"] < 1
    one.out("head -c 5M /dev/zero > a")
    assert 5 <= used_mb(one) < 6
    one.out("rm a")
    assert used_mb(one) < 1
    shown = {s["session_id"]: s for s in call(served, "GET", "/sessions")["sessions"]}
    assert shown[one.opened["session_id"]]["disk"]["enforced"] == kind
    one.close()


def test_who_writes_fast_is_ended_within_a_second(served):
    """In files that are each small enough; one is bounded by the kernel in any case."""
    one = Session(served, "fast")
    r = one.exec("head -c 2G /dev/zero | split -b 1M -a 4 -d - f; sleep 30")
    assert r["meta"]["verdict"] == "disk_full", r
    times = sorted(float(t) for t in one.out("find . -name 'f*' -printf '%T@\\n'").split())
    assert LIMIT_MB <= len(times) < 2048
    assert times[-1] - times[LIMIT_MB] < 1, "it went on writing after it had all that it may have"
    # what it has it has, but not a byte more, whatever is tried and however often; some may be removed
    over = used_mb(one)
    for _ in range(3):
        r = one.exec("head -c 2G /dev/zero | split -b 1M -a 4 -d - g")
        assert r["meta"]["verdict"] == "disk_full", r
    assert one.write("g", b"x" * 4096)[1]["code"] == "disk_full"
    assert used_mb(one) <= over
    assert one.out("rm f* g*; echo removed") == "removed\n"
    assert used_mb(one) < 1
    assert one.out("echo room > small; cat small") == "room\n"
    # nothing of it outlives the session
    one.exec("head -c 2G /dev/zero | split -b 1M -a 4 -d - f; sleep 30")
    assert kept_mb(served) >= LIMIT_MB
    one.close()
    wait_for(lambda: kept_mb(served) < LIMIT_MB, 30)


NAMELESS = """
import ctypes, os, time
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
kept = []
for n in range(400):
    f = open({place!r} + str(n), "wb+")
    os.unlink(f.name)
    f.write(bytes(1 << 20))
    f.flush()
    kept.append({keep})
print("all of it", flush=True)
time.sleep(20)
"""
# what keeps them: a descriptor, or a mapping alone
KEEP = {"open": "f", "mapped": "(libc.mmap(None, 4096, 1, 1, f.fileno(), 0), f.close())"}


def fill(one, keep, place="n"):
    assert one.write("fill.py", NAMELESS.format(keep=KEEP[keep], place=place).encode())[0] == 200
    return one.exec("python3 fill.py; sleep 20")["meta"]["verdict"]


@pytest.mark.parametrize("user", ["sandbox", "root"])
@pytest.mark.parametrize("keep", KEEP)
def test_files_without_a_name_count(served, keep, user):
    one = Session(served, f"nameless-{keep}-{user}", user=user)
    # the kernel gives its own, which are in memory, names like these; they bind nobody
    for place in ("n", "/memfd:", "/SYSV") if user == "root" else ("n",):
        assert fill(one, keep, place) == "disk_full"
    assert one.out("echo room > small; cat small") == "room\n"
    one.close()


MEMORY = """
import mmap, os, time
kept = []
for n in range(4):
    kept.append(mmap.mmap(-1, 16 << 20))
    kept[-1].write(bytes(16 << 20))
    os.write(os.memfd_create("x"), bytes(16 << 20))
time.sleep(1)
print("held")
"""


def test_memory_is_no_disk(served):
    one = Session(served, "memory")
    assert one.write("hold.py", MEMORY.encode())[0] == 200
    # somebody else fills the disk meanwhile, so that everything is looked at
    filled = f"{served.state_dir}/filled"
    try:
        with open(filled, "wb") as f:
            f.write(bytes(2 * LIMIT_MB << 20))
        assert one.out("python3 hold.py") == "held\n"
    finally:
        os.unlink(filled)
    one.close()


# it goes on in memory of its own: what it was started from is held by nothing but that
UNMAPPED = """
.globl _start
_start: mov $9, %eax; xor %edi, %edi; mov $4096, %esi; mov $7, %edx
        mov $0x22, %r10d; mov $-1, %r8; xor %r9d, %r9d; syscall
        mov %rax, %rbx; mov %rax, %rdi; lea code(%rip), %rsi; mov $(end - code), %ecx
        rep movsb; jmp *%rbx
code:   mov $11, %eax; mov $0x400000, %edi; mov $0x100000, %esi; syscall
wait:   mov $34, %eax; syscall; jmp wait
end:
"""


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="a program for x86-64")
def test_the_file_of_a_program_counts_as_long_as_it_runs(served, tmp_path):
    subprocess.run(
        ["cc", "-nostdlib", "-static", "-no-pie", "-x", "assembler", "-", "-o", str(tmp_path / "x")],
        input=UNMAPPED,
        text=True,
        check=True,
    )
    one = Session(served, "program")
    assert one.write("x", (tmp_path / "x").read_bytes())[0] == 200
    start = "cp x y; head -c 20M /dev/zero >> y; chmod +x y; (./y &); sleep 0.1; rm y"
    r = one.exec(f"for i in $(seq 8); do {start}; done; sleep 20")
    assert r["meta"]["verdict"] == "disk_full", r
    one.close()


def test_who_had_too_much_may_not_have_it_again(served):
    one = Session(served, "again")
    burst = "head -c 2G /dev/zero | split -b 1M -a 4 -d - f; sleep 20"
    assert one.exec(burst)["meta"]["verdict"] == "disk_full"
    one.out("rm f*; sleep 1000 >/dev/null 2>&1 &")  # something goes on
    some = f"for i in 1 2; do head -c {LIMIT_MB * 3 // 4}M /dev/zero > g$i; done; sleep 20"
    assert one.exec(some)["meta"]["verdict"] == "disk_full"
    one.close()


HOLES = """
import mmap, sys
with open(sys.argv[1], "r+b") as f, mmap.mmap(f.fileno(), 0) as m:
    for at in range(0, len(m), 4096):
        m[at] = 1
"""


def test_holes_are_filled_no_further(served):
    """Which is no writing that a limit bars: who does it again and again cannot go on."""
    one = Session(served, "holes")
    assert one.write("fill.py", HOLES.encode())[0] == 200
    one.out(f"for i in $(seq 40); do truncate -s {LIMIT_MB - 1}M s$i; done")
    for n in range(40):
        r = served.post(f"{one.path}/exec", {"command": f"python3 fill.py s{n + 1}"})
        if r.status == 507:
            break
    assert r.json["code"] == "disk_full" and "close it" in r.json["error"], r.body
    assert kept_mb(served) < 8 * LIMIT_MB
    one.close()
    wait_for(lambda: kept_mb(served) <= 1, 30)


@pytest.mark.parametrize("make", ["mkdir -p " + "d/" * 140, "mkdir d; cd d; for i in $(seq 9000); do : > $i; done"])
def test_what_is_too_deep_or_too_many_may_be_removed(served, make):
    """In no hurry; and until then nothing else can be written."""
    one = Session(served, "odd")
    assert one.exec(f"{make}; sleep 20")["meta"]["verdict"] == "disk_full"
    assert one.exec("echo more > more; sleep 20")["meta"]["verdict"] == "disk_full"
    assert one.out("sleep 1; rm -rf /work/d; echo removed") == "removed\n"
    assert one.out("echo room > small; cat small") == "room\n"
    one.close()


def test_one_who_is_looked_at_all_the_time_delays_nobodys_turn(served):
    one, two, three = (Session(served, name) for name in ("many-files", "named", "nameless"))
    one.exec("mkdir d; cd d; for i in $(seq 7000); do echo > $i; done; head -c 2G /dev/zero > z; sleep 20")
    leave = threading.Event()

    def busy():
        while not leave.is_set():
            served.post(f"{one.path}/exec", {"command": "true"})

    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        all_of = [pool.submit(busy) for _ in range(6)]
        try:
            r = two.exec("head -c 2G /dev/zero | split -b 1M -a 4 -d - f; sleep 20")
            assert r["meta"]["verdict"] == "disk_full", r
            assert fill(three, "open") == "disk_full"
        finally:
            leave.set()
        for f in all_of:
            f.result()
    for s in (one, two, three):
        s.close()


def test_what_many_files_take_is_known_before_the_first_command(served):
    """Who has too much already is not ended for it."""
    one = Session(served, "left")
    one.exec("mkdir d; cd d; for i in $(seq 7000); do echo > $i; done; sleep 1; head -c 20M /dev/zero > z; sleep 20")
    assert used_mb(one) > LIMIT_MB
    # whoever forks it has processes of his own, which nobody has looked at
    two = Known(served, call(served, "POST", one.path + "/fork", {"force": True})["sessions"][0]["session_id"])
    for s in (one, two):
        assert s.out("sleep 1; echo still here") == "still here\n"
        s.close()


def test_many_files_are_looked_at_aside(served):
    """They are told of and bounded like few, and who has too much may remove some and go on at once."""
    one = Session(served, "many")
    one.out("mkdir d; cd d; for i in $(seq 6000); do echo > $i; done")
    wait_for(lambda: 23 <= used_mb(one) < 25 or not one.out("true"), 10)
    r = one.exec("head -c 2G /dev/zero | split -b 1M -a 4 -d - f; sleep 30")
    assert r["meta"]["verdict"] == "disk_full", r
    times = sorted(float(t) for t in one.out("find . -maxdepth 1 -name 'f*' -printf '%T@\\n'").split())
    assert times[-1] - times[LIMIT_MB - 24] < 1, "it went on writing after it had all that it may have"
    for _ in range(3):
        assert one.exec("head -c 2G /dev/zero | split -b 1M -a 4 -d - g")["meta"]["verdict"] == "disk_full"
    assert one.out("rm f* g*; echo removed") == "removed\n"
    assert one.out("echo room > small; cat small") == "room\n"
    # more of them than it may have, whatever their size
    r = one.exec("for i in $(seq 6000); do : > e$i; done; sleep 30")
    assert r["meta"]["verdict"] == "disk_full", r
    one.close()
    wait_for(lambda: kept_mb(served) <= 1, 30)


def test_room_is_not_found_where_nobody_looks(served):
    """Too deep to be counted: then what the disk lost counts, so no other test may write meanwhile."""
    one = Session(served)
    deep = "mkdir -p " + "d/" * 140 + "; head -c 200M /dev/zero > big; sleep 30"
    assert one.exec(deep)["meta"]["verdict"] == "disk_full"
    # and who removes it is not ended for the little that others write
    with concurrent.futures.ThreadPoolExecutor() as pool, open(f"{served.state_dir}/other", "wb", 0) as other:
        removes = pool.submit(one.exec, "rm -rf big && sleep 1 && rm -rf d")
        while not removes.done():
            other.write(b"x" * 65536)
            time.sleep(0.05)
    os.remove(other.name)
    assert removes.result()["exit_code"] == 0
    assert one.out("echo room > small; cat small") == "room\n"
    one.close()

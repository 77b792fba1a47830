# SPDX-License-Identifier: GPL-2.0-only
"""What a run may use up is bounded in every environment: by a cgroup, or by looking."""

import dataclasses
import os
import signal

import pytest
from conftest import _children, wait_for
from environments import TABLE, Environment, There
from probes import Asking, status_of
from support import marked, new_mark
from test_layers import catches

LIMITS = {"memory_mb": 64, "pids": 32}

PARTS = """
import os, socket, time
def part():
    {part}
for _ in range(8):
    if os.fork() == 0:
        kept = part()
        time.sleep(30)
time.sleep(30)
"""

# 20 MB in each of 8 processes, so no rlimit of one of them is in the way
PIECES = {
    "pages": "return b'x' * (20 << 20)",
    "shared pages": """
    import mmap
    kept = mmap.mmap(-1, 20 << 20)
    for _ in range(20): kept.write(b"x" * (1 << 20))
    return kept
""",
    "sockets": """
    pairs = [socket.socketpair() for _ in range(100)]
    for one, _ in pairs: fill(one)
    return pairs
def fill(one):
    one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
    one.setblocking(False)
    try:
        while True: one.send(SIZE)
    except BlockingIOError: pass
SIZE = b"x" * 65536
""",
}
# what was sent stays when its sender goes; a small message weighs more than is in it
PIECES["closed sockets"] = PIECES["sockets"].replace("return pairs", "return [b for _, b in pairs]")
PIECES["small messages"] = PIECES["closed sockets"].replace("* 65536", "")


def one_uid(place):
    """Runs that neither namespaces nor uids keep apart."""
    return place.owner == 1000 and place.level == "landlock"


def sees_pages(there, place):
    """Root without CAP_SYS_PTRACE cannot tell which pages processes of other uids have in common."""
    cgroup = there.get("/isolation").json["layers"]["memory_limit"]["active"]
    return cgroup or not place.name.endswith("docker's default")


def counts(there, what):
    """Where runs have one uid and no network of their own, nobody can tell whose they are."""
    memory = there.get("/isolation").json["layers"]["memory_limit"]
    if "pages" in what or memory["active"]:
        return True
    assert ("and sockets" in memory["evidence"]) != ("not its sockets" in memory["evidence"])
    return "and sockets" in memory["evidence"]


@pytest.mark.parametrize("what", PIECES)
def test_memory_of_all_processes_together_is_bounded(there, place, what):
    assert counts(there, what) == ("pages" in what or not one_uid(place))
    if not counts(there, what) or (what == "shared pages" and not sees_pages(there, place)):
        return
    code = PARTS.format(part=PIECES[what])
    r = there.execute(code, limits=LIMITS, timeout_seconds=20)
    assert r["meta"]["verdict"] == "out_of_memory", r
    assert there.execute("print(6*7)")["stdout"] == "42\n"


def test_pages_that_processes_have_in_common_count_once(there):
    code = """
import mmap, os, time
kept = mmap.mmap(-1, 24 << 20)
kept.write(b"x" * (24 << 20))
pids = [os.fork() for _ in range(3)]
assert sum(kept[::4096]) and not time.sleep(0.3)
if all(pids):
    for pid in pids: os.waitpid(pid, 0)
    print("had it")
"""
    assert there.execute(code, limits=LIMITS)["stdout"] == "had it\n"


def test_sockets_count_also_when_the_worker_is_gone(grounds):
    """A run goes on without the process that cloned it."""
    there = There(grounds, next(e for e in TABLE if e.name == "plain user"), {})
    try:
        mark = new_mark()
        wait = "import signal\nsignal.signal(10, lambda *_: None)\nsignal.pause()\n"
        code = wait + PARTS.format(part=PIECES["sockets"])
        asking = Asking(there, code, args=[mark], limits=LIMITS, timeout_seconds=20)
        pid = wait_for(lambda: [p for p in marked(mark) if catches(p)], 10)[0]
        for worker in _children(there.parts()["launcher"]):
            if len(status_of(worker)["NSpid"].split()) == 1:  # else a run's process 1
                os.kill(worker, signal.SIGKILL)
        there.wait_log("slot.rebuild")  # of the places without a run
        os.kill(pid, signal.SIGUSR1)
        assert asking.result().json["meta"]["verdict"] == "out_of_memory"
        assert there.execute("print(6*7)")["stdout"] == "42\n"
    finally:
        there.stop()


def test_answers_of_the_kernel_that_nobody_reads_count(grounds):
    """Netlink sockets, which programs have in a network namespace of their own."""
    netlink = """
    kept = []
    for _ in range(200):
        s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
        s.setblocking(False)
        for _ in range(60): s.send(GETLINK)
        kept.append(s)
    return kept
GETLINK = b"".join(n.to_bytes(4, "little") for n in (32, 1 << 16 | 18, 1, 0, 0, 1, 0, 0))
"""
    there = There(grounds, next(e for e in TABLE if e.name == "plain user"), {})
    try:
        assert counts(there, "netlink")
        r = there.execute(PARTS.format(part=netlink), limits=LIMITS, timeout_seconds=20)
        assert r["meta"]["verdict"] == "out_of_memory", r
        r = there.execute("import ctypes\nctypes.CDLL(None).socket(-1, 1, 0)")
        assert [v["syscall"] for v in r["meta"]["violations"]] == ["socket"], r
    finally:
        there.stop()


# socket(AF_NETLINK, any, NETLINK_SOCK_DIAG): EPROTONOSUPPORT, as of a kernel without
NO_LIST = """
import ctypes, os, struct, sys
lines = [(32, 0, 0, 0), (21, 0, 5, 41), (32, 0, 0, 16), (21, 0, 3, 16), (32, 0, 0, 32), (21, 0, 1, 4)]
lines += [(6, 0, 0, 0x50000 | 93), (6, 0, 0, 0x7fff0000)]
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *l) for l in lines))
program = struct.pack("HxxxxxxQ", len(lines), ctypes.addressof(code))
libc = ctypes.CDLL(None)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program) == 0
os.execvp(sys.argv[1], sys.argv[1:])
"""


def test_netlink_is_refused_where_nobody_counts_it(grounds):
    plain = next(e for e in TABLE if e.name == "plain user")
    before = (*plain.before, "/usr/bin/python3", "-c", NO_LIST)
    there = There(grounds, dataclasses.replace(plain, before=before), {})
    try:
        assert not counts(there, "netlink")
        r = there.execute("import socket\nsocket.socketpair()\nsocket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)")
        assert "Errno 97" in r["stderr"], r
    finally:
        there.stop()


def test_memory_of_one_process_is_bounded(there):
    code = "a = []\nfor _ in range(512): a.append(b'x' * (1 << 20))\nprint('had it all')"
    r = there.execute(code, limits=LIMITS)
    assert "had it all" not in r["stdout"]
    assert r["exit_code"] != 0
    assert there.execute("print(6*7)")["stdout"] == "42\n"


def test_processor_time_of_all_processes_together_is_bounded(there):
    code = "import os\nos.fork(); os.fork()\nwhile True: pass"
    r = there.execute(code, limits={"cpu_seconds": 1}, timeout_seconds=20)
    assert r["meta"]["verdict"] == "cpu_timeout", r
    assert r["meta"]["usage"]["cpu_ms"] < 3000


def test_programs_give_way_where_there_is_no_quota(there, place):
    """To what has to end them; and they cannot take it back."""
    code = """
import os
print(os.getpriority(os.PRIO_PROCESS, 0))
try: os.setpriority(os.PRIO_PROCESS, 0, 0)
except OSError: pass
print(os.getpriority(os.PRIO_PROCESS, 0))
"""
    quota = there.get("/isolation").json["layers"]["cpu_limit"]["active"]
    ours = os.getpriority(os.PRIO_PROCESS, 0)
    wanted = ours if quota else max(ours, 19 if one_uid(place) else 10)
    assert there.execute(code)["stdout"] == f"{wanted}\n{wanted}\n"


def test_a_server_may_have_given_way_itself(grounds):
    before = ("nice", "-n", "15", "setpriv", "--reuid=31337", "--regid=31337", "--clear-groups")
    done = grounds.run(Environment("nice", "", frozenset(), before=before), ["check"])
    assert done.returncode == 0, done


def test_what_a_program_does_with_sockets_works(there):
    """Streams do, and asking for more room is no error."""
    code = """
import socket
a, b = socket.socketpair()
a.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
a.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
a.sendall(b"hello")
print(b.recv(9).decode())
"""
    assert there.execute(code)["stdout"] == "hello\n"

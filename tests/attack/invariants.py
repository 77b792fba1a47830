# SPDX-License-Identifier: GPL-2.0-only
"""What must hold during and after every attack by HTTP: the six invariants of src/attack/invariants.c.

G1  the server and its launcher live, the same ones, and /healthz answers at once
G2  an ordinary program beside the attack is served, 95 of 100 within 3 times the usual
G3  nothing is left: processes, mounts, cgroups, descriptors
G4  the server has not grown
G5  no secret came back, in no byte of any answer; the program of G2 looks for them
G6  the kernel's log tells of no fault
"""

import ctypes
import re
import secrets
import threading
import time

from probes import SLOW, at_rest, launcher_pid, settled
from raw import Raw

CANARY = "canary" + secrets.token_hex(16)
MEMORY_KB = 16 << 10
HEALTHY_S = 0.1 * SLOW
GRACE_S = 0.05 * SLOW  # for the clock, and whoever else wants the processor
MOST_S = 2.0 * SLOW  # for the slowest of all
READ_ALL, SIZE_BUFFER = 3, 10  # SYSLOG_ACTION_...
# as src/attack/kernel_log.c has them
FAULT = re.compile(
    "BUG:|WARNING:|Oops|general protection fault|Unable to handle|K[AC]SAN:|UBSAN:|kernel BUG at|"
    "Kernel panic|KFENCE:|blocked for more than|detected stalls|soft lockup"
)


def no_secret_in(data):
    assert CANARY.encode() not in data, "a secret came back"


class Watched(Raw):
    """A connection on which no secret must come."""

    last = b""

    def _more(self):
        before = len(self.got)
        more = super()._more()
        seen = self.last + self.got[before:]
        no_secret_in(seen)
        self.last = seen[-len(CANARY) :]
        return more


def kernel_log():
    """All of it; None where this user cannot read it."""
    libc = ctypes.CDLL(None)
    room = libc.klogctl(SIZE_BUFFER, None, 0)
    text = ctypes.create_string_buffer(max(room, 0) + 1)
    if room <= 0 or libc.klogctl(READ_ALL, text, room) < 0:
        return None
    return text.value.decode(errors="replace")


def faults_since(before, now):
    """Lines that tell of a fault and were not there before; lines have their time."""
    old = set(before.split("\n"))
    return [
        line for line in now.split("\n") if line not in old and FAULT.search(line) and "] traps: " not in line
    ]


def at_95(times):
    return sorted(times)[int(len(times) * 0.95)]


class Beside:
    """Ordinary programs, one after the other, as long as an attack lasts."""

    def __init__(self, server):
        self.server, self.times, self.wrong = server, [], []
        self.code = f"cat {server.canary_file} /proc/[0-9]*/environ 2>/dev/null; env; echo end"
        self.thread = self.over = None

    def once(self):
        begin = time.monotonic()
        r = self.server.post("/execute", {"code": self.code, "language": "shell"})
        assert r.status == 200 and r.json["stdout"].endswith("end\n"), r
        return time.monotonic() - begin

    def _go_on(self):
        while True:
            try:
                self.times.append(self.once())
            except Exception as e:  # whatever it is, the test is to tell
                self.wrong.append(repr(e))
            if self.over.wait(0.02):
                return

    def begin(self):
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._go_on)
        self.thread.start()

    def end(self):
        """Harmless the second time."""
        if self.thread:
            self.over.set()
            self.thread.join(60 * SLOW)
            self.thread = None
        assert not self.wrong, f"a program beside the attack: {self.wrong}"


class Invariants:
    """What a server at rest is like, and whether it still is."""

    def __init__(self, server):
        self.server, self.beside, self.times = server, Beside(server), []
        self.usual = at_95([self.beside.once() for _ in range(20)])
        self.held, self.memory = at_rest(server), server.rss_kb()
        self.pids = server.server_pid, launcher_pid(server)
        self.log = kernel_log()

    def begin(self):
        self.beside.times = []
        self.beside.begin()

    def end(self):
        s = self.server
        self.beside.end()
        assert max(self.beside.times, default=0) < MOST_S, f"G2: {max(self.beside.times)} s"
        self.times += self.beside.times
        assert (s.server_pid, launcher_pid(s)) == self.pids, "G1: somebody died"
        assert min(self._healthy() for _ in range(3)) < HEALTHY_S, "G1: /healthz"
        assert s.load() == 0
        settled(s, self.held)  # G3
        assert s.rss_kb() - self.memory < MEMORY_KB, "G4"
        if self.log is not None:
            before, self.log = self.log, kernel_log()
            assert not faults_since(before, self.log), "G6"

    def _healthy(self):
        begin = time.monotonic()
        assert self.server.get("/healthz").status == 200
        return time.monotonic() - begin

    def on_time(self):
        """G2, of all cases; the host may have other things to do by now."""
        usual = max(self.usual, at_95([self.beside.once() for _ in range(20)]))
        assert self.times, "nothing ran beside the attacks"
        slow = at_95(self.times)
        assert slow < 3 * usual + GRACE_S, f"G2: {slow} s of {len(self.times)}, usually {usual} s"

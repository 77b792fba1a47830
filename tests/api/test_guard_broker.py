# SPDX-License-Identifier: GPL-2.0-only
"""What code that got into the server can tell the brokers' mother: nothing beyond the operator's word."""

import contextlib
import os
import re
import struct
import subprocess

import pytest

from conftest import SANITIZED, _children, looks_into_others, wait_for
from probes import part, plain_user
from test_guard import Started, seqpackets

pytestmark = [
    pytest.mark.skipif(SANITIZED, reason="a sanitizer needs what the server gives up"),
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to look into processes"),
    looks_into_others,
]
AF_UNIX, SEQPACKET = 1, 0x80005
PAGE = 0x10000000
MOTHER_ORDER = 0x65677231
ANY, NAME = 0, 1
PUBLIC, NEAR = 0, 2


def order(kind, reach, host, port=0, listens=0, secret=""):
    """struct egress_order, with one rule."""
    rule = struct.pack("<BBBBBxH16s254s", kind, reach, 0, 0, 0, port, b"", host.encode())
    head = struct.pack("<IIQII65s3xI", 8, 0x7000, 1 << 20, listens, 0, secret.encode(), 1)
    return (head + rule).ljust(len(head) + 128 * len(rule) + 4, b"\0")


class Taken:
    """A server whose memory and descriptors are somebody else's."""

    def __init__(self, s):
        self.s = s
        parts = {part(p): p for p in _children(s.proc.pid)}
        self.mother = parts["egress"]
        self.mother_fd = self.peer(os.readlink(f"/proc/{self.mother}/fd/3"))
        assert s.call("mmap", PAGE, 4096, 3, 0x32, -1, 0) == PAGE
        self.scratch = s.call("memfd_create", "x\0", 1)

    def peer(self, ours):
        """The server's descriptor at the other end of that socket."""
        inode = re.match(r"socket:\[(\d+)\]", ours).group(1)
        rows = subprocess.run(["ss", "-xaH"], check=True, capture_output=True, text=True).stdout
        other = [r.split()[7] for r in rows.splitlines() if r.split()[5] == inode]
        top = f"/proc/{self.s.server}/fd/"
        return next(fd for fd in seqpackets(self.s.server) if os.readlink(f"{top}{fd}") == f"socket:[{other[0]}]")

    def write(self, fd, data):
        assert self.s.call("write", fd, data.decode("ascii"), len(data)) == len(data)

    def put(self, at, data):
        """Into its memory."""
        assert self.s.call("lseek", self.scratch, 0, 0) == 0
        self.write(self.scratch, data)
        assert self.s.call("pread64", self.scratch, PAGE + at, len(data), 0) == len(data)

    def tell(self, what):
        """An order as the server sends one: its text, and a socket for the broker."""
        before = set(seqpackets(self.s.server))
        assert self.s.call("socketpair", AF_UNIX, SEQPACKET, 0, "\0" * 8) == 0
        ours, _ = set(seqpackets(self.s.server)) - before
        memory = self.s.call("memfd_create", "order\0", 1)
        self.write(memory, what)
        self.put(0x200, struct.pack("<I", MOTHER_ORDER))
        self.put(0x300, struct.pack("<QQ", PAGE + 0x200, 4))
        self.put(0x500, struct.pack("<QiiiiiI", 28, 1, 1, memory, ours, ours, 0))
        self.put(0x400, struct.pack("<QIIQQQQI", 0, 0, 0, PAGE + 0x300, 1, PAGE + 0x500, 32, 0))
        assert self.s.call("sendmsg", self.mother_fd, PAGE + 0x400, 0x4040) == 4

    def brokers(self):
        return _children(self.mother)


@pytest.fixture(name="taken")
def _taken():
    user = plain_user()
    root = type(user)(("root", "x", 0, 0, "", "/", ""))
    s = Started(root, SANDBOX_NETWORK="example.org", SANDBOX_EGRESS_PROXY="none", SANDBOX_WARM="0")
    s.user = root
    yield Taken(s)
    s.stop()


def log_until(s, last):
    """What it has logged, at least until a line that ends so; its pipe is read by nobody else."""
    fd, log = s.proc.stderr.fileno(), ""
    os.set_blocking(fd, False)

    def more():
        nonlocal log
        with contextlib.suppress(BlockingIOError):
            log += os.read(fd, 1 << 16).decode()
        return last in log

    wait_for(more)
    return log


def test_the_operators_hosts_alone_get_a_broker(taken):
    """The first shows that an order of this form is one."""
    taken.tell(order(NAME, PUBLIC, "example.org"))
    wait_for(lambda: len(taken.brokers()) == 1)
    first = taken.brokers()
    taken.tell(order(ANY, NEAR, "", port=0x5151, listens=1))
    taken.tell(order(ANY, PUBLIC, ""))
    taken.tell(order(NAME, NEAR, "example.org"))
    taken.tell(order(NAME, PUBLIC, "example.org", port=22))
    taken.tell(order(NAME, PUBLIC, "example.net"))
    taken.tell(order(NAME, PUBLIC, "example.org", listens=1, secret="x"))
    log = log_until(taken.s, " refused=6\n")
    assert log.count("order.refused reason=rules") == 5, log
    assert log.count("order.refused reason=listens") == 1, log
    assert taken.brokers() == first
    taken.tell(order(NAME, PUBLIC, "example.org", port=80))
    wait_for(lambda: len(taken.brokers()) == 2)

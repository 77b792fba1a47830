# SPDX-License-Identifier: GPL-2.0-only
"""What a service manager hears, as sd_notify(3) says it."""

import re
import signal
import socket
import struct
import time

import pytest

from conftest import Server


class Manager:
    """A manager's socket; who says what."""

    def __init__(self, path):
        self.path = str(path)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self.socket.bind(self.path)
        self.socket.settimeout(20)

    def hears(self):
        """(pid, words)"""
        words, ancillary, _, _ = self.socket.recvmsg(1000, socket.CMSG_SPACE(12))
        return struct.unpack("3i", ancillary[0][2])[0], words.decode()


@pytest.fixture
def manager(tmp_path):
    m = Manager(tmp_path / "notify")
    yield m
    m.socket.close()


def test_it_is_told_of_start_reload_and_end(manager):
    s = Server({"NOTIFY_SOCKET": manager.path, "SANDBOX_WARM": "0", "SANDBOX_GRACE_SEC": "7"}, (), "shell", ready=False)
    try:
        assert manager.hears() == (s.pid, "READY=1")
        assert s.get("/readyz").status == 200  # and not a moment later
        assert s.execute("env | grep -c NOTIFY_")["stdout"] == "0\n"
        before = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        s.proc.send_signal(signal.SIGHUP)
        pid, words = manager.hears()
        when = re.fullmatch(r"RELOADING=1\nMONOTONIC_USEC=([0-9]+)", words)
        assert pid == s.pid and before <= int(when[1]) <= before + 20_000_000
        assert manager.hears() == (s.pid, "READY=1")
    finally:
        s.stop()
    assert manager.hears() == (s.pid, "STOPPING=1\nEXTEND_TIMEOUT_USEC=22000000")
    manager.socket.setblocking(False)
    with pytest.raises(BlockingIOError):
        manager.hears()


def test_one_that_cannot_be_told_is_no_reason_to_end():
    s = Server({"NOTIFY_SOCKET": "/nonexistent/notify", "SANDBOX_WARM": "0"}, (), "shell")
    try:
        s.wait_log("manager.untold")
        assert s.execute("echo 1")["stdout"] == "1\n"
    finally:
        s.stop()


def test_a_start_that_fails_is_not_told_as_ready(manager, tmp_path):
    with pytest.raises(Exception):
        Server({"NOTIFY_SOCKET": manager.path, "SANDBOX_TOKEN_FILE": str(tmp_path / "none")}, (), "shell")
    manager.socket.setblocking(False)
    with pytest.raises(BlockingIOError):
        manager.hears()

# SPDX-License-Identifier: GPL-2.0-only
"""Listening sockets that somebody else made, as systemd hands them over."""

import json
import os
import signal
import socket
import subprocess

import pytest

from conftest import BINARY, Server, wait_for

# becomes the server with these descriptors at 3 and above, and says whose they are
STARTER = """
import os, sys
fds = [int(n) for n in sys.argv[1].split(",")]
high = [os.dup2(fd, 100 + i) for i, fd in enumerate(fds)]
for i, fd in enumerate(high):
    os.dup2(fd, 3 + i)
os.closerange(3 + len(fds), 200)
os.environ["LISTEN_FDS"] = sys.argv[2]
os.environ["LISTEN_PID"] = str(os.getpid())
os.execv(sys.argv[3], sys.argv[3:])
"""


def listener():
    s = socket.socket()
    s.bind(("127.0.0.1", 0))
    s.listen(8)
    return s


class Activated(Server):
    """A server that is given sockets."""

    def __init__(self, sockets):
        self.sockets = sockets
        super().__init__({"SANDBOX_WARM": "0", "SANDBOX_PORT": "1", "SANDBOX_AGENT_PORT": "1"}, (), "shell")

    def command_line(self, args, env):
        numbers = [s.fileno() for s in self.sockets]
        for n in numbers:
            os.set_inheritable(n, True)
        start = ["/usr/bin/python3", "-c", STARTER, ",".join(map(str, numbers)), str(len(numbers))]
        return [*start, BINARY, *args]


@pytest.fixture
def inherited(monkeypatch):
    """Popen as it is, but for descriptors that may be inherited."""
    plain = subprocess.Popen

    def popen(*args, **more):
        return plain(*args, **{**more, "close_fds": False})

    monkeypatch.setattr("conftest.subprocess.Popen", popen)


def status(sock):
    with socket.create_connection(sock.getsockname()) as c:
        c.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
        return c.recv(100)[:12]


EARLY = [
    b'POST /sessions HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: 13\r\n\r\n{"scope":"x"}',
    b"GET /sessions HTTP/1.0\r\n\r\n",
    b'POST /execute HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: 15\r\n\r\n{"command":"w"}',
    b"GET /list/ HTTP/1.0\r\n\r\n",
    b'POST /execute HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: 12\r\n\r\n{"code":"w"}',
    b"GET /isolation HTTP/1.0\r\n\r\n",
    b"GET /metrics HTTP/1.0\r\n\r\n",
]


def test_requests_that_come_before_there_is_a_launcher_are_answered(inherited):
    one = listener()
    early = [socket.create_connection(one.getsockname()) for _ in EARLY]
    for c, request in zip(early, EARLY):
        c.sendall(request)
    s = Activated([one])
    try:
        for c, request in zip(early, EARLY):
            c.settimeout(20)
            assert c.recv(100).startswith(b"HTTP/1.1 "), request
            c.close()
        assert status(one) == b"HTTP/1.1 200"
    finally:
        s.stop()
        one.close()


def test_it_serves_on_the_sockets_it_was_given(inherited):
    one, two = listener(), listener()
    early = socket.create_connection(one.getsockname())  # before there is a server
    early.sendall(b"GET /readyz HTTP/1.0\r\n\r\n")
    s = Activated([one, two])
    try:
        assert s.port == one.getsockname()[1]
        assert early.recv(100).startswith(b"HTTP/1.1 ")
        assert status(one) == status(two) == b"HTTP/1.1 200"
        assert s.execute("env | grep -c LISTEN_")["stdout"] == "0\n"
    finally:
        s.stop()
        for x in (one, two, early):
            x.close()


def ask_to_run(sock, code):
    """A connection with a request on it, answered or not."""
    body = json.dumps({"code": code})
    c = socket.create_connection(sock.getsockname(), timeout=30)
    c.sendall(
        f"POST /execute HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
    )
    return c


def answer(c):
    with c, c.makefile("rb") as f:
        head, _, body = f.read().partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)


def test_who_comes_before_it_is_ready_is_served_and_who_comes_as_it_ends_by_the_next(inherited):
    one = listener()
    early = ask_to_run(one, "echo early")
    s = Activated([one])
    try:
        assert answer(early)[1]["stdout"] == "early\n"
        slow = ask_to_run(one, "sleep 1; echo slow")
        wait_for(lambda: s.load() == 1, 10)
        s.proc.send_signal(signal.SIGTERM)
        s.wait_log("server.draining")
        late = ask_to_run(one, "echo late")
        assert answer(slow)[1]["stdout"] == "slow\n"
        assert s.proc.wait(20) == 0
        s.kill()
        s = Activated([one])
        code, body = answer(late)
        assert code == 200 and body["stdout"] == "late\n"
    finally:
        s.stop()
        one.close()


@pytest.mark.parametrize(
    "kind, count, why",
    [
        ("listener", "3", "LISTEN_FDS=3: must be 1 to 2"),
        ("listener", "0", "LISTEN_FDS=0: must be 1 to 2"),
        ("listener", "x", "LISTEN_FDS=x: must be numbers"),
        ("listener", "2", "LISTEN_FDS: descriptor 4"),
        ("connected", "1", "descriptor 3 is no listening TCP socket"),
        ("datagrams", "1", "descriptor 3 is no listening TCP socket"),
        ("file", "1", "LISTEN_FDS: descriptor 3: Socket operation on non-socket"),
    ],
)
def test_what_is_no_such_socket_stops_the_start(kind, count, why):
    with open(os.devnull, encoding="ascii") as null, socket.socket() as plain, listener() as good:
        with socket.socket(type=socket.SOCK_DGRAM) as datagrams:
            datagrams.bind(("127.0.0.1", 0))
            given = {"listener": good, "connected": plain, "datagrams": datagrams, "file": null}[kind]
            done = subprocess.run(
                ["/usr/bin/python3", "-c", STARTER, str(given.fileno()), count, BINARY, "serve"],
                env={"PATH": os.environ["PATH"], "SANDBOX_MODE": "shell"},
                pass_fds=[given.fileno()],
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
    assert done.returncode == 1 and why in done.stderr, done

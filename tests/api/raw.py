# SPDX-License-Identifier: GPL-2.0-only
"""Requests byte by byte: what to say, a connection that says it, and what comes back."""

import json
import re
import select
import socket
import time


class Reply:
    """An answer, as it came."""

    def __init__(self, status, headers, body):
        self.status = status
        self.headers = headers  # names in lower case
        self.body = body

    @property
    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return f"<{self.status} {self.body[:300]!r}>"


def wait_for(what, seconds=10, step=0.01):
    """The first true value of what(), or a failure."""
    end = time.monotonic() + seconds
    while True:
        value = what()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"{what} did not become true in {seconds} s")
        time.sleep(step)


class Raw:
    """A connection that says exactly what it is told to."""

    def __init__(self, port, data=b"", timeout=20, host="127.0.0.1"):
        self.sock = socket.create_connection((host, port), timeout=timeout)
        self.got = b""
        if data:
            self.send(data)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    def send(self, data):
        self.sock.sendall(data)

    def close(self):
        self.sock.close()

    def reset(self):
        """End with RST instead of FIN."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.sock.close()

    def _more(self):
        try:
            piece = self.sock.recv(1 << 18)
        except ConnectionResetError:
            piece = b""
        self.got += piece
        return bool(piece)

    def reply(self, head_only=False):
        """The next answer on this connection; None when it ended instead."""
        while b"\r\n\r\n" not in self.got:
            if not self._more():
                assert not self.got, f"half an answer: {self.got[:200]!r}"
                return None
        head, rest = self.got.split(b"\r\n\r\n", 1)
        lines = head.decode("latin-1").split("\r\n")
        assert re.match(r"HTTP/1\.1 \d{3} ", lines[0]), f"no status line: {lines[0]!r}"
        status = int(lines[0].split()[1])
        headers = {}
        for line in lines[1:]:
            name, value = line.split(":", 1)
            headers[name.lower()] = value.strip()
        self.got = rest
        if status == 100 or head_only:
            return Reply(status, headers, b"")
        if headers.get("transfer-encoding") == "chunked":
            return Reply(status, headers, b"".join(self.chunks()))
        if "content-length" not in headers:
            while self._more():
                pass
            body, self.got = self.got, b""
            return Reply(status, headers, body)
        want = int(headers["content-length"])
        parts, have = [self.got], len(self.got)
        while have < want:
            self.got = b""
            assert self._more(), f"{have} of {want} bytes, then the end"
            parts.append(self.got)
            have += len(self.got)
        whole = b"".join(parts)
        self.got = whole[want:]
        return Reply(status, headers, whole[:want])

    def chunks(self):
        """The chunks of a body, as they come."""
        while True:
            while b"\r\n" not in self.got:
                assert self._more(), "the stream ended in a chunk size"
            size, self.got = self.got.split(b"\r\n", 1)
            need = int(size, 16) + 2
            while len(self.got) < need:
                assert self._more(), "the stream ended inside a chunk"
            piece, self.got = self.got[: need - 2], self.got[need:]
            if need == 2:
                return
            yield piece

    def replies(self):
        """Every answer until the server closes."""
        found = []
        while True:
            one = self.reply()
            if one is None:
                return found
            found.append(one)

    def ended(self, seconds=5):
        """Did the server close its side within this time?"""
        end = time.monotonic() + seconds
        waiting = select.poll()  # select() takes no number above 1023
        waiting.register(self.sock, select.POLLIN)
        while True:
            left = end - time.monotonic()
            if left <= 0 or not waiting.poll(left * 1000):
                return False
            if not self._more():
                return True


MARK = re.compile("mark[0-9a-f]{16}")  # support.new_mark()


def findable(body):
    """With a mark among its arguments a run starts cold: one that waited has another command line."""
    if not isinstance(body, dict) or not isinstance(body.get("args"), list):
        return body
    if not any(isinstance(word, str) and MARK.fullmatch(word) for word in body["args"]):
        return body
    return {**body, "env": {**body.get("env", {}), "LC_MARK": "1"}}


def post(body, path="/execute", headers=(), host="localhost"):
    """The bytes of a POST with a JSON body."""
    body = findable(body)
    if not isinstance(body, bytes):
        body = json.dumps(body).encode()
    lines = [
        f"POST {path} HTTP/1.1",
        f"Host: {host}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        *headers,
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def get(path="/healthz", headers=(), version="1.1", method="GET"):
    lines = [f"{method} {path} HTTP/{version}", "Host: localhost", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"

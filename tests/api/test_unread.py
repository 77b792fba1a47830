# SPDX-License-Identifier: GPL-2.0-only
"""Answers that their clients leave unread: who waits for whom, and what is cut."""

import json
import socket
import time

import pytest

from conftest import wait_for
from raw import get
from test_session_files import MIB10
from test_sessions import Session
from tokens import TokenFile, bearer


def unread(server, path, *headers):
    """Who asks for a file, and reads nothing of the answer yet but its head."""
    c = server.raw()
    c.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
    c.send(get(path, headers))
    return c, c.reply(head_only=True)


def ask_until_refused(server, path, *headers):
    readers = []
    while True:
        c, r = unread(server, path, *headers)
        if r.status != 200:
            c.close()
            return readers, r
        readers.append(c)


def rest(c):
    """How many bytes of a body come in the end."""
    c.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    n = len(c.got)
    while n < MIB10 and (piece := c.sock.recv(1 << 20)):
        n += len(piece)
    return n


def test_a_download_under_way_is_not_cut_for_another(start):
    s = start(mode="shell", SANDBOX_SESSIONS="on", SANDBOX_OUTPUT_CEILING_KB="4096")
    one = Session(s)
    one.out(f"head -c {MIB10} /dev/zero > big; head -c 10K /dev/zero > small")
    readers, r = ask_until_refused(s, one.file("big"))
    assert (r.status, r.headers["retry-after"]) == (503, "1") and len(readers) == 6, r
    assert json.loads(one.read("big")[1])["code"] == "busy"
    # neither by what comes once, nor is that refused, nor what is small
    for _ in range(3):
        r = s.post("/execute", {"code": "head -c 900K /dev/zero | tr '\\0' x", "limits": {"max_output_kb": 1000}})
        assert len(r.json["stdout"]) == 900 << 10
    assert one.read("small")[0] == 200
    time.sleep(1.5)  # a tick of the server, in which it looks
    assert [rest(c) for c in readers] == [MIB10] * 6
    assert one.read("big")[0] == 200
    for c in readers:
        c.close()


def test_a_token_leaves_room_for_answers_to_others(start, tmp_path):
    file = TokenFile(tmp_path)
    hog, other = bearer(file.token("hog")), bearer(file.token("other"))
    s = start(mode="shell", SANDBOX_SESSIONS="on", SANDBOX_TOKEN_FILE=file.path)
    paths = []
    for who in (hog, other):
        path = f"/sessions/{s.post('/sessions', {}, who).json['session_id']}"
        r = s.post(f"{path}/exec", {"command": f"head -c {MIB10} /dev/zero > big"}, who)
        assert r.json["exit_code"] == 0, r
        paths.append(f"{path}/files/big")
    lines = [f"Authorization: {who['Authorization']}" for who in (hog, other)]
    readers, r = ask_until_refused(s, paths[0], lines[0])
    assert r.status == 503 and len(readers) == 4
    assert "to this token" in s.get(paths[0], **hog).json["error"]
    c, r = unread(s, paths[1], lines[1])
    assert r.status == 200
    time.sleep(1.5)
    assert [rest(each) for each in (c, *readers)] == [MIB10] * 5
    for each in (c, *readers):
        each.close()


@pytest.mark.parametrize("accept", ["application/json", "application/x-ndjson"])
def test_results_that_a_token_leaves_unread_stop_no_other(start, tmp_path, accept):
    """Of 14 MB each, of which there is no more than one program at once."""
    file = TokenFile(tmp_path)
    hog, other = bearer(file.token("hog")), bearer(file.token("other"))
    s = start(mode="shell", SANDBOX_TOKEN_FILE=file.path)
    body = json.dumps({"code": f"head -c {MIB10 - 4096} /dev/urandom > output/big"}).encode()
    lines = [f"Authorization: {hog['Authorization']}", "Content-Type: application/json", f"Accept: {accept}"]
    lines.append(f"Content-Length: {len(body)}")
    readers = []
    for _ in range(12):
        c = s.raw()
        c.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        c.send(get("/execute", lines).replace(b"GET", b"POST", 1) + body)
        r = c.reply(head_only=True)
        readers.append(c)
        if r.status != 200:
            break
        wait_for(lambda: s.load() == 0, 20)
    assert r.status == 503 and len(readers) == 5, (r, len(readers))
    for _ in range(3):
        assert s.post("/execute", {"code": "echo x"}, other).json["stdout"] == "x\n"
    for c in readers:
        c.close()

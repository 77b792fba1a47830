# SPDX-License-Identifier: GPL-2.0-only
"""Attacks on sessions, by HTTP: HT17, paths that lead out, and XS05, other people's sessions."""

import concurrent.futures
import os
import re
import time

import pytest

from conftest import CANARY, Target
from probes import SLOW
from raw import wait_for

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="they have uids of their own here, for which root is needed")

METHODS = ("GET", "PUT", "DELETE")
# in the URL as they are; none is in the session
PATHS = [
    "%2e%2e%2f%2e%2e%2fetc/shadow", "..%2f..%2fetc%2fshadow", "%2e%2e/etc", "a%00b", "%00", ";/../etc/shadow",
    "%2fetc%2fshadow", "//etc/shadow", "/etc/passwd", "/root/.ssh/id_rsa", "/proc/1/environ",
    "/proc/self/root/etc/shadow", "/sys/kernel/notes", "/dev/zero", "%c0%ae%c0%ae/etc", "%ff",
]  # fmt: skip
# names like others to Linux, and so of files below /work
PLAIN = ["%252e%252e%252fetc", "..\\..\\etc", "%5c..%5c..%5cetc", "..;/etc/shadow"]


@pytest.fixture(scope="module")
def server():
    s = Target({"SANDBOX_SESSIONS": "on", "SANDBOX_WARM": "0", "CANARY": CANARY}, (), "shell")
    yield s
    s.stop()


@pytest.fixture
def one(server):
    path = "/sessions/" + server.post("/sessions", {}).json["session_id"]
    yield path
    server.request("DELETE", path)


def run(server, path, command):
    r = server.post(f"{path}/exec", {"command": command})
    assert r.status == 200, r
    return r.json


def ht17(server, path, name):
    """The answers of all methods, none of them late."""
    statuses = []
    for method in METHODS:
        begin = time.monotonic()
        r = server.request(method, f"{path}/files/{name}", b"attack" if method == "PUT" else None)
        assert time.monotonic() - begin < 5 * SLOW, (method, name)
        assert b"root:" not in r.body, r.body
        statuses.append(r.status)
    return statuses


@pytest.mark.parametrize("name", PATHS)
def test_ht17_no_spelling_of_a_path_leads_out(server, one, name):
    assert set(ht17(server, one, name)) <= {400, 403, 404, 409}, name
    assert run(server, one, "ls -A /work")["stdout"] == ""


@pytest.mark.parametrize("name", PLAIN)
def test_ht17_what_means_something_elsewhere_is_a_name(server, one, name):
    r = server.request("PUT", f"{one}/files/{name}", b"attack")
    assert r.status == 200 and r.json["path"].startswith("/work/"), r
    found = run(server, one, "find /work -type f; find / -xdev -newer /work -type f -not -path '/work/*' | head")
    assert found["stdout"].splitlines() == [r.json["path"]]


LINKS = {
    "ln -s /etc/passwd at": "at",
    "ln -s /etc at": "at/shadow",
    "ln -s /proc/1/root at": "at/etc/shadow",
    "ln -s /proc/self/environ at": "at",
    "ln -s ../../../../../../etc at": "at/shadow",
    "mkfifo at": "at",
    "ln -s /dev/zero at": "at",
    "ln -s at at": "at",
}


@pytest.mark.parametrize("made", LINKS)
def test_ht17_what_code_left_in_the_way_is_not_followed_out_and_never_waited_for(server, one, made):
    run(server, one, made)
    before = os.stat("/etc/passwd").st_mtime_ns
    got, put, gone = ht17(server, one, LINKS[made])
    # the session's own /etc/passwd may be read; a name is replaced, what it leads to is not
    assert got in (200, 400, 403, 404) and put in (200, 403, 404) and gone in (200, 403, 404)
    assert os.stat("/etc/passwd").st_mtime_ns == before


def test_ht17_a_socket_and_a_hard_link(server, one):
    run(server, one, "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"at\")'")
    assert server.get(f"{one}/files/at").status == 400
    r = run(server, one, "ln /etc/passwd hard; ln /usr/bin/env hard")
    assert r["exit_code"] != 0


def test_ht17_links_that_change_during_the_call(server, one):
    run(server, one, "mkdir real; echo mine > real/shadow")
    run(server, one, "while :; do ln -sfn real at; ln -sfn /etc at; done >/dev/null 2>&1 &")
    for _ in range(20):
        r = server.get(f"{one}/files/at/shadow")
        assert (r.status, r.body) == (200, b"mine\n") or r.status in (403, 404), r
        assert server.request("PUT", f"{one}/files/at/new", b"x").status in (200, 400, 403, 404)
    assert not os.path.exists("/etc/new")


def test_xs05_one_session_used_twice_at_once(server):
    body = {"scope_type": "agent", "scope_id": "twice"}
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        opened = [r.json for r in pool.map(lambda _: server.post("/sessions", body), range(8))]
        assert sorted(o["created"] for o in opened) == [False] * 7 + [True]
        path = "/sessions/" + opened[0]["session_id"]
        command = {"command": "echo $$ >> pids; sleep 0.2; echo done"}
        done = list(pool.map(lambda _: server.post(f"{path}/exec", command), range(8)))
        assert all(r.status == 200 and r.json["stdout"] == "done\n" for r in done), done
        # closed twice, and while it is used: once, and then it is not there
        closes = list(pool.map(lambda _: server.request("DELETE", path).status, range(4)))
        assert closes.count(200) == 1 and set(closes) <= {200, 404, 409}, closes


def test_xs05_ids_cannot_be_guessed_or_fixed(server):
    ids = [server.post("/sessions", {"session_id": "f" * 32}).json["session_id"] for _ in range(16)]
    assert len(set(ids)) == 16 and all(re.fullmatch("[0-9a-f]{32}", i) for i in ids)
    # every bit of them differs somewhere
    ones = [sum(int(i, 16) >> bit & 1 for i in ids) for bit in range(128)]
    assert all(0 < n < 16 for n in ones), ones
    for guess in ("0" * 32, ids[0][:-1] + ("0" if ids[0][-1] != "0" else "1"), ids[0].upper(), ids[0] + "0"):
        assert server.get(f"/sessions/{guess}").status == 404
        assert server.post(f"/sessions/{guess}/exec", {"command": "id"}).status == 404
    for i in ids:
        assert server.request("DELETE", f"/sessions/{i}").status == 200
    wait_for(lambda: os.listdir(f"{server.state_dir}/sessions") == ["layers"], 60 * SLOW)

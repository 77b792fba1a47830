# SPDX-License-Identifier: GPL-2.0-only
"""Attacks by HTTP, sent as a client would send them; loopback only, bounded in number and time.

During and after each the invariants of invariants.py hold, and then a run works (conftest.py).
HT14, the public rules for JSON readers, is a table in tests/unit; HT24 is `make fuzz`; HT17 is in
test_sessions.py.
"""

import base64
import json
import random
import re
import resource
import shutil
import socket
import subprocess
import threading
import time

import pytest
from invariants import CANARY, Watched, faults_since
from probes import SLOW, Asking, command
from raw import get, post, wait_for

LIMIT = 10 << 20
POST = b"POST /execute HTTP/1.1\r\nHost: localhost\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"


def routed_nowhere(target):
    """How many requests came to the router with a path that it does not know."""
    found = re.search(
        rb'^sandbox_requests_refused_total\{code="not_found"\} (\d+)', target.get("/metrics").body, re.M
    )
    return int(found[1]) if found else 0


def one_refusal(target, data, statuses=(400, 408, 411, 413, 414, 431, 501, 505)):
    """Exactly one 4xx (or a refusal of the method or version), then the end."""
    before = routed_nowhere(target)
    with target.raw(data) as c:
        c.sock.settimeout(20)
        replies = c.replies()
    assert [r.status in statuses for r in replies] == [True], replies
    assert routed_nowhere(target) == before, "/smuggled was read as a request"


def test_what_the_invariants_look_for_is_found(target):
    """G5 and G6, and that a smuggled request would be counted."""
    for data in (CANARY.encode(), b"x" * 300 + CANARY.encode()):
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen()
            c = Watched(listener.getsockname()[1])
            there = listener.accept()[0]
            there.sendall(data[:-5])
            assert c.sock.recv(1, socket.MSG_PEEK) and c._more()
            there.sendall(data[-5:])
            with pytest.raises(AssertionError, match="a secret"):
                c._more()
            there.close()
            c.close()
    new = "[    2.0] traps: x[1] general protection fault\n[    3.0] BUG: unable to\n"
    assert faults_since("[    1.0] BUG: old\n", "[    1.0] BUG: old\n" + new) == ["[    3.0] BUG: unable to"]
    before = routed_nowhere(target)
    with target.raw(SMUGGLED) as c:
        assert c.reply().status == 404
    assert routed_nowhere(target) == before + 1


def asked_meanwhile(target, what, most=2.0):
    """Runs while something else goes on; how long each took."""
    took = []
    worker = threading.Thread(target=what)
    worker.start()
    while worker.is_alive() or not took:
        begin = time.monotonic()
        assert target.execute("print(1)")["stdout"] == "1\n"
        took.append(time.monotonic() - begin)
        worker.join(0.5)
    took.sort()
    assert took[int(len(took) * 0.95)] < most * SLOW, took
    return took


def slowhttptest(target, *how):
    program = shutil.which("slowhttptest")
    assert program, "slowhttptest is missing: make packages"
    done = subprocess.run(
        [program, *how, "-l", "6", "-p", "2", "-u", f"http://127.0.0.1:{target.port}/healthz"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    said = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout)
    return re.findall(r"service available:\s*(\w+)", said)


@pytest.mark.parametrize(
    "how",
    [("-H", "-c", "2000", "-r", "1000", "-i", "5"), ("-B", "-c", "300", "-r", "150", "-i", "5", "-s", "8192"),
     ("-X", "-c", "100", "-r", "50", "-w", "1", "-y", "1", "-n", "5", "-z", "1", "-k", "3")],
    ids=["ht01_slow_headers", "ht02_slow_body", "ht02_slow_read"],
)  # fmt: skip
def test_ht01_ht02_slow_clients(target, how):
    available = []
    asked_meanwhile(target, lambda: available.extend(slowhttptest(target, *how)))
    assert available and set(available) == {"YES"}, available


def test_ht01_many_connections_that_say_nothing_whole(target):
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limits[1], limits[1]))
    some = []
    try:
        some += [target.raw(b"GET /healthz HTTP/1.1\r\nHost: local") for _ in range(2000)]
        assert asked_meanwhile(target, lambda: time.sleep(1))
        wait_for(lambda: all(c.ended(0.1) for c in some), 40)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        for c in some:
            c.close()


def test_ht03_bodies_beyond_the_limit(target):
    for length in (LIMIT + 1, 10**18):
        head = f"POST /execute HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n"
        with target.raw(head.encode()) as c:
            assert c.reply().status in (400, 413)
            assert c.ended()
    with target.raw(CHUNKED) as c:
        try:
            for _ in range(11 * 16):
                c.send(b"10000\r\n" + b" " * 65536 + b"\r\n")
        except OSError:
            pass  # refused, and closed
        r = c.reply()
        assert r is None or r.status == 413


SMUGGLING = {
    "no length": POST + b"\r\n" + SMUGGLED,
    "length as header 73": POST
    + b"".join(b"X-%d: 1\r\n" % i for i in range(70))
    + b"Content-Length: 46\r\n\r\n" + SMUGGLED,
    "2^64-1": POST + b"Content-Length: 18446744073709551615\r\n\r\n" + SMUGGLED,
    "1.0 chunked": CHUNKED.replace(b"/1.1", b"/1.0") + b"0\r\n\r\n" + SMUGGLED,
    "both": POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    + SMUGGLED,
    "two lengths": POST + b"Content-Length: 0\r\nContent-Length: 46\r\n\r\n" + SMUGGLED,
    **{
        f"coding {t}": POST + b"Transfer-Encoding: " + t.encode()
        + b"\r\n\r\n0\r\n\r\n" + SMUGGLED
        for t in ("xchunked", "identity", "chunked, chunked", "gzip")
    },
    "tab before the colon": POST + b"Transfer-Encoding\t: chunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "bare line feeds": b"POST /execute HTTP/1.1\nHost: localhost\nContent-Length: 0\n\n" + SMUGGLED,
    **{
        f"chunk {c}": CHUNKED + c.encode()
        + b"\r\nx\r\n0\r\n\r\n" + SMUGGLED
        for c in ("fffffffffffffffff", "-1", "0x1", "+1", "1;a=b", " 1")
    },
    "a trailer": POST + b"Transfer-Encoding: chunked\r\n\r\n0\r\nX: y\r\n\r\n" + SMUGGLED,
}  # fmt: skip


@pytest.mark.parametrize("what", SMUGGLING)
def test_ht04_smuggling(target, what):
    one_refusal(target, SMUGGLING[what])


def test_ht08_methods_and_upgrades(target):
    for line in ("TRACE / HTTP/1.1", "CONNECT localhost:1 HTTP/1.1", "PRI * HTTP/2.0", "get / HTTP/1.1",
                 "BREW /pot HTTP/1.1"):  # fmt: skip
        with target.raw(line.encode() + b"\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n") as c:
            r = c.reply()
            assert r is None or r.status in (400, 404, 405, 411, 501, 505), (line, r)
    for upgrade in ("h2c", "websocket"):
        with target.raw(get("/healthz", [f"Upgrade: {upgrade}", "Connection: Upgrade"])) as c:
            assert c.reply().status in (200, 400, 426, 501)


def test_ht09_ht11_hosts(target):
    body = json.dumps({"code": "print(1)"}).encode()
    for host in ("evil.com", "attacker.tld:%d" % target.port, "127.0.0.1.evil.com"):
        with target.raw(post(body, host=host)) as c:
            assert c.reply().status in (403, 421)
    head = b"POST /execute HTTP/1.1\r\n%sContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    for hosts in (b"", b"Host: localhost\r\nHost: evil.com\r\n"):
        one_refusal(target, head % (hosts, len(body)) + body)
    with target.raw(b"GET http://evil.com/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n") as c:
        assert c.reply().status in (400, 421)


def test_ht10_pages_of_others_cannot_ask(target):
    body = json.dumps({"code": "print('ran')"}).encode()
    for headers in (
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/x-www-form-urlencoded"},
        {"Content-Type": "multipart/form-data; boundary=x"},
        {"Content-Type": "application/json", "Origin": "https://evil.example"},
        {"Content-Type": "application/json", "Origin": "null"},
        {"Content-Type": "application/json", "Sec-Fetch-Site": "cross-site"},
    ):
        r = target.request("POST", "/execute", body, headers)
        assert r.status in (403, 415) and b"ran" not in r.body, (headers, r)


def test_ht12_a_token_that_nobody_wants_changes_nothing(target):
    """Where tokens are wanted, what comes without one is tests/api/test_tokens.py; they are compared
    as hashes and all of them, so there is no time to measure. A file that is not there stops the start."""
    done = command("serve", "--token-file", "/nonexistent", SANDBOX_PORT="0")
    assert done.returncode == 1 and "token" in done.stderr.lower(), done
    for token in ("Bearer", "Bearer x", "Bearer " + "x" * 4000, "Basic eDp5"):
        with target.raw(post({"code": "print(6*7)"}, headers=["Authorization: " + token])) as c:
            r = c.reply()
        assert r.status == 200 and r.json["stdout"] == "42\n", (token, r)
    two = ["Authorization: Bearer x", "Authorization: Bearer y"]
    long = ["Authorization: Bearer " + "x" * 100000]
    for headers, status in ((two, 400), (long, 431)):
        with target.raw(post({"code": "print(1)"}, headers=headers)) as c:
            assert c.reply().status == status


@pytest.mark.parametrize("body", [
    b"[" * 100000, b'{"code":"x",' + b",".join(b'"k%d":1' % i for i in range(200000)) + b"}",
    b'{"code":"x","timeout_seconds":1e400}', b'{"code":"\\ud800"}', b'\xef\xbb\xbf{"code":"x"}',
    '{"code":"x"}'.encode("utf-16"), b'{"code":"x"/**/}', b'{"code":"x",}', b'{"code":"x","timeout_seconds":NaN}',
    b'{"language":"python","language":"shell","code":"x"}', b'{"code":"x","files":{},"files":{}}',
    b'{"code":"x","language":"' + b"x" * 1000000 + b'"}', b'{"code":"x","timeout_seconds":-0.0001}',
    b'{"code":"x","timeout_seconds":-}', b'{"code":"x","timeout_seconds":00}',
], ids=lambda b: repr(b[:20]))  # fmt: skip
def test_ht13_hostile_json(target, body):
    begin = time.monotonic()
    r = target.post("/execute", body)
    assert r.status in (400, 413), r
    assert time.monotonic() - begin < 2 * SLOW


@pytest.mark.parametrize("zero", ["-0", "-0.0", "-0e400", "0"])
def test_ht13_zero_with_a_sign_is_zero(target, zero):
    """The deadline that nobody asked for, not one in the past or none."""
    usual = target.execute("print(1)")["meta"]["resource_limits"]["timeout_sec"]
    r = target.post("/execute", b'{"code":"print(1)","timeout_seconds":%s}' % zero.encode())
    assert r.status == 200 and r.json["stdout"] == "1\n", r
    assert r.json["meta"]["resource_limits"]["timeout_sec"] == usual


BAD_NAMES = ["../x", "/etc/x", "a/../../x", "a//b", "./a", "", ".", "..", "a\0b", "x" * 4097, "y" * 256, "a/",
             "a\nb", "script.py", "output/x"]  # fmt: skip


@pytest.mark.parametrize("name", BAD_NAMES, ids=lambda n: repr(n[:12]))
def test_ht15_names_of_files(target, name):
    r = target.post("/execute", {"code": "print(1)", "files": {name: "eA=="}})
    assert r.status == 400 and r.json["code"], r


def test_ht15_names_are_bytes_and_mean_nothing_else(target):
    """What others take for a separator, a device, an option or the same letter is a name like any."""
    names = ["..\\x", "a\\b", "C:x", "con", "nul.txt", "-rf", "--", "a:b", "e\u0301", "\u00e9", "$(id)", "*", "~", " "]
    files = {name: base64.b64encode(name.encode()).decode() for name in names}
    r = target.execute(
        "import json, os\nprint(json.dumps({n: open(n).read() for n in os.listdir('.') if os.path.isfile(n)}))",
        files=files,
    )
    seen = json.loads(r["stdout"])
    seen.pop("script.py", None)
    assert seen == {name: name for name in names}


def test_ht15_a_file_that_is_a_directory_too(target):
    r = target.post("/execute", {"code": "print(1)", "files": {"a": "eA==", "a/b": "eA=="}})
    assert r.status in (400, 500), r


def test_ht16_too_many_files_and_bad_base64(target):
    assert target.post("/execute", {"code": "x", "files": {str(i): "" for i in range(100000)}}).status in (400, 413)
    for data in ("%%%", "eA", "eA==x", 5, None, {"link": "/etc/passwd"}):
        r = target.post("/execute", {"code": "print(1)", "files": {"a": data}})
        assert r.status in ((200, 400) if data is None else (400,)), (data, r)


def test_ht20_languages_arguments_variables(target):
    for language in ("../../bin/sh", "python3;id", ["python"], {}, 5):
        assert target.post("/execute", {"code": "1", "language": language}).status == 400, language
    for args in (["a\0b"], ["x"] * 100000, "x", [1]):
        assert target.post("/execute", {"code": "1", "args": args}).status in (400, 413)
    for env in ({"LD_PRELOAD": "x"}, {"=x": "y"}, {"A\0B": "x"}, {"A": "x\0y"}, {"OUTPUT_DIR": "/"}, {"A": 1}):
        assert target.post("/execute", {"code": "1", "env": env}).status == 400, env
    r = target.execute("import sys; print(sys.argv[1:])", args=["$(id)", ";id", "`id`", "-c"])
    assert r["stdout"] == "['$(id)', ';id', '`id`', '-c']\n"


def test_ht21_limits(target):
    ceiling = target.execute("print(1)")["meta"]["resource_limits"]
    for name in ("memory_mb", "pids", "disk_mb", "cpu_seconds", "max_output_kb"):
        for value in (-1, "1G", [], True, 1.5, 2**63, 0, 1e3):
            r = target.post("/execute", {"code": "print(1)", "limits": {name: value}})
            assert r.status in (200, 400), (name, value, r)
            if r.status == 200 and name != "max_output_kb":
                assert 0 < r.json["meta"]["resource_limits"][name] <= ceiling[name], (name, value)
    r = target.post("/execute", {"code": "print(1)", "timeout_seconds": 1e9})
    assert r.status == 200 and r.json["meta"]["resource_limits"]["timeout_sec"] <= 300


def test_ht23_hundreds_at_once_some_of_which_leave(target, invariants):
    invariants.beside.end()  # who comes when everything is taken is refused too
    chance = random.Random(23)
    code = {"code": "print(1)"}
    statuses = []

    def some():
        for _ in range(50):
            if chance.random() < 0.3:
                c = target.raw(post(code))
                c.reset()
            else:
                statuses.append(target.post("/execute", code).status)

    threads = [threading.Thread(target=some) for _ in range(10)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(100)
    assert set(statuses) <= {200, 429} and 200 in statuses
    wait_for(lambda: target.load() == 0, 30)
    assert Asking(target, "print(1)").result().status == 200

# SPDX-License-Identifier: GPL-2.0-only
"""What the HTTP library lets through and must not: one test for each known trap of
mongoose 7.23, and every way of writing a request that two readers would split differently.

trap                                       kept out by                       fails without it
 1 receive buffer grows quadratically      conn.c: emptied at every read     trap01
 2 printf appends byte by byte             answer.c: one buffer, one write   trap02
 3 send buffer moves all it holds,         answer.c: slices; conn.c frees    unit/test_answer.c, trap03
   and buffers are never given back
 4 a head without end is scanned again     conn.c: HEAD_CAP_BYTES            trap04
 5 so are chunks                           chunked.c                         trap05, unit/test_chunked.c
 6 headers behind the last slot are lost   admit.c: 431, static_assert       trap06
 7 a POST without length loses bytes       admit.c: 411                      trap07
 8 half a body is delivered                conn.c ends messages itself       trap08
 9 the head's event comes many times       conn.c: one state a request       trap09
10 "full" still polls                      conn.c: listen_to, hung_up        trap10
11 pipes and pidfds are closed             base/loop.c has them              trap11
12 wake-ups are datagrams                  not used                          trap12
13 accept leaves descriptors open to exec  server.c: accept4                 trap13
14 no answer to nonsense, bytes in the log admit.c; server.c: swallow_log    trap14, unit/test_http_server.c
15 versions, Host, HEAD, LF, 100, times    admit.c, conn.c                   trap15, test_http.py
16 close is forgotten for late answers     conn.c: close_after               trap16
17 a half-close loses the answer           on_execute.c: it cancels          trap17
18 no descriptors left: a busy loop        server.c: conn_cap, close_door    trap18, unit/test_http_server.c
19 one accept a poll                       server.c: ACCEPTS_AT_ONCE         unit/test_http_server.c, trap19

parson's traps are in unit/test_json.c and unit/test_json_check.c.
"""

import json
import os
import socket
import time

import pytest

from conftest import get, post, wait_for

SMUGGLED = get("/smuggled")


def refused(server, data, *statuses):
    """Exactly one answer, a refusal, and then the end."""
    with server.raw(data) as c:
        got = c.replies()
    assert [r.status for r in got] in [[s] for s in statuses], (data[:100], got)
    assert set(got[0].json) == {"error", "code"}
    assert got[0].headers["connection"] == "close"
    return got[0]


def head(*lines):
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"


# ---- the traps


def test_trap01_a_10_mb_body_arrives_in_linear_time(server):
    code = "print('ok')\n#" + "x" * (10 * 1024 * 1024 - 100)
    body = json.dumps({"code": code}).encode()
    assert 10 * 1024 * 1024 - 100 < len(body) <= 10 * 1024 * 1024

    cpu = server.cpu_seconds()
    with server.raw(post(body), timeout=60) as c:
        reply = c.reply()
    assert reply.status == 200, reply
    assert server.cpu_seconds() - cpu < 2


def test_trap02_trap03_a_large_answer_leaves_in_linear_time(server):
    code = "import os\n" "open(os.environ['OUTPUT_DIR'] + '/big', 'wb').write(b'x' * 7000000)\n"
    cpu = server.cpu_seconds()
    reply = server.post("/execute", {"code": code, "language": "python"})
    assert reply.status == 200
    assert len(reply.body) > 7000000
    assert server.cpu_seconds() - cpu < 1


def test_trap03_buffers_are_given_back_on_open_connections(server):
    body = b"{" + b"x" * 400_000  # not JSON: nothing is run
    connections = []
    with server.raw(post(body)) as c:  # warm-up: the allocator's own caches
        assert c.reply().status == 400
    before = server.rss_kb()
    try:
        for _ in range(60):
            connections.append(server.raw(post(body)))
            assert connections[-1].reply().status == 400
        # sixty idle connections, of which each had a large buffer
        assert server.rss_kb() - before < 6 * 1024
        for c in connections:
            c.send(get())
            assert c.reply().status == 200
    finally:
        for c in connections:
            c.close()


def test_trap04_endless_headers_are_cut_at_16_kb(server):
    cpu = server.cpu_seconds()
    with server.raw(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ") as c:
        try:
            for _ in range(320):
                c.send(b"x" * 65536)
        except OSError:
            pass  # it closed after the first megabyte, as it should
        try:
            reply = c.reply()
        except OSError:
            reply = None
    assert reply is None or reply.status == 431
    assert server.cpu_seconds() - cpu < 1
    refused(server, b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 17000, 431)


def test_trap05_a_million_tiny_chunks_take_linear_time(server):
    body = json.dumps({"code": "print('ok')" + " " * 1_000_000}).encode()
    chunks = b"".join(b"1\r\n" + bytes([b]) + b"\r\n" for b in body) + b"0\r\n\r\n"
    cpu = server.cpu_seconds()
    with server.raw(timeout=60) as c:
        c.send(
            head(
                "POST /execute HTTP/1.1",
                "Host: localhost",
                "Content-Type: application/json",
                "Transfer-Encoding: chunked",
            )
        )
        # as from a network, a piece at a time: all at once would be few reads
        for at in range(0, len(chunks), 1500):
            c.send(chunks[at : at + 1500])
            time.sleep(0.0005)
        assert c.reply().status == 200
    assert server.cpu_seconds() - cpu < 1


def test_trap06_content_length_behind_64_headers(server):
    many = [f"X-{i}: y" for i in range(64)]
    data = head(
        "POST /healthz HTTP/1.1", "Host: localhost", *many, f"Content-Length: {len(SMUGGLED)}"
    )
    refused(server, data + SMUGGLED, 431)


def test_trap06_content_length_as_the_31st_header_counts(server):
    many = [f"X-{i}: y" for i in range(40)]
    data = head(
        "GET /healthz HTTP/1.1", "Host: localhost", *many, f"Content-Length: {len(SMUGGLED)}"
    )
    with server.raw(data + SMUGGLED + get("/healthz", ["Connection: close"])) as c:
        assert [r.status for r in c.replies()] == [200, 200]


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
def test_trap07_a_body_without_a_length(server, method):
    first = head(f"{method} /execute HTTP/1.1", "Host: localhost")
    refused(server, first + SMUGGLED, 411)


def test_trap08_half_a_body_is_not_run(server):
    body = json.dumps({"code": "print('half')", "language": "shell"}).encode()
    # complete JSON, but the head announced more
    data = head(
        "POST /execute HTTP/1.1",
        "Host: localhost",
        "Content-Type: application/json",
        "X-Request-Id: half-a-body",
        f"Content-Length: {len(body) + 1000}",
    )
    with server.raw(data + body) as c:
        c.sock.shutdown(socket.SHUT_WR)
        assert c.replies() == []
    # lines come in order: what the other one would have said is there before this
    assert server.post("/execute", {}, {"X-Request-Id": "the-next"}).status == 400
    server.wait_log("request=the-next")
    assert "request=half-a-body" not in server.log()


def test_trap09_a_body_byte_by_byte_is_one_request(server):
    body = json.dumps({"code": "print('once')", "language": "python"}).encode()
    data = post(body, headers=["Expect: 100-continue", "Connection: close"])
    with server.raw() as c:
        c.send(data[: -len(body)])
        for b in body:
            c.send(bytes([b]))
            time.sleep(0.001)
        got = c.replies()
    assert [r.status for r in got] == [100, 200]


def test_trap10_flooding_a_busy_connection_costs_nothing(start):
    server = start()
    with server.raw(post({"code": "import time; time.sleep(2)"})) as c:
        wait_for(lambda: server.load() == 1)
        c.sock.settimeout(0.2)
        cpu = server.cpu_seconds()
        rss = server.rss_kb()
        sent = 0
        end = time.monotonic() + 1
        while time.monotonic() < end:
            try:
                sent += c.sock.send(b"x" * 65536)
            except OSError:
                pass
        assert server.cpu_seconds() - cpu < 0.3
        assert server.rss_kb() - rss < 2048
        # the kernel's buffers took some, nobody else did
        c.sock.settimeout(20)
        assert c.reply().status == 200
        assert c.reply().status in (400, 431)


def test_trap10_a_client_that_sent_ahead_and_left_is_noticed(start):
    server = start()
    with server.raw(post({"code": "import time; time.sleep(30)"})) as c:
        wait_for(lambda: server.load() == 1)
        c.send(get() * 1000)
        time.sleep(0.1)
    wait_for(lambda: server.load() == 0, 5)


def test_trap11_output_of_a_run_is_read_whole(server):
    # pipes and pidfds are no sockets: the library would close them
    r = server.execute("print('x' * 9000)", language="python")
    assert r["stdout"] == "x" * 9000 + "\n"


def test_trap12_no_wakeup_datagrams(server):
    ours = {name for name in server.fds().values() if name.startswith("socket:")}
    for table in ("udp", "udp6"):
        with open(f"/proc/{server.server_pid}/net/{table}", encoding="ascii") as f:
            for line in list(f)[1:]:
                assert f"socket:[{line.split()[9]}]" not in ours


def test_trap13_every_descriptor_is_close_on_exec(server):
    with server.raw(get()) as c:
        c.reply()
        for fd, name in server.fds().items():
            if fd <= 2:
                continue
            try:
                with open(f"/proc/{server.server_pid}/fdinfo/{fd}", encoding="ascii") as f:
                    flags = [line for line in f if line.startswith("flags:")]
            except FileNotFoundError:
                continue
            assert int(flags[0].split()[1], 8) & os.O_CLOEXEC, (fd, name)


def test_trap14_nonsense_gets_an_answer_and_stays_out_of_the_log(server):
    secret = b"S3CR3T-BYTES"
    refused(server, secret + b"\x00\x01\x02 / HTTP/1.1\r\n\r\n", 400)
    refused(server, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc", 400)
    refused(server, b"GET / HTTP/1.1\r\nHost: localhost\r\n" + secret + b"\r\n\r\n", 400)
    assert "S3CR3T" not in server.log()
    assert "53 33 43" not in server.log()


def test_trap15_http_1_0_is_closed(server):
    with server.raw(get(version="1.0", headers=["Connection: keep-alive"])) as c:
        assert [r.status for r in c.replies()] == [200]


def test_trap15_close_in_a_list_is_honoured(server):
    with server.raw(get(headers=["Connection: keep-alive, close"])) as c:
        assert [r.status for r in c.replies()] == [200]


def test_trap15_host_is_required(server):
    refused(server, b"GET /healthz HTTP/1.1\r\n\r\n", 400)


def test_trap15_head_has_no_body(server):
    with server.raw(get(method="HEAD") + get("/readyz", ["Connection: close"])) as c:
        first = c.reply(head_only=True)
        second = c.reply()
    assert first.status == 200 and int(first.headers["content-length"]) > 0
    assert second.status == 200 and second.json["status"] == "ready"


def test_trap15_bare_line_feeds_are_refused_at_once(server):
    before = time.monotonic()
    refused(server, b"GET /healthz HTTP/1.1\nHost: localhost\n\n", 400)
    refused(server, b"GET /healthz HTTP/1.1\r\nHost: localhost\nX: y\r\n\r\n", 400)
    assert time.monotonic() - before < 2


def test_trap15_expect_is_answered(server):
    body = b'{"code":"print(1)","language":"python"}'
    data = post(body, headers=["Expect: 100-continue"])
    with server.raw(data[: -len(body)]) as c:
        assert c.reply().status == 100
        c.send(body)
        assert c.reply().status == 200


def test_trap15_http_2_is_not_spoken(server):
    refused(server, b"GET / HTTP/2.0\r\nHost: localhost\r\n\r\n", 505)
    refused(server, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, 505)


def test_trap16_close_is_honoured_for_a_run_too(server):
    data = post({"code": "print(1)", "language": "python"}, headers=["Connection: close"])
    with server.raw(data) as c:
        got = c.replies()
    assert [r.status for r in got] == [200]
    assert got[0].headers["connection"] == "close"


def test_trap17_a_half_close_cancels_the_run(start):
    server = start()
    with server.raw(post({"code": "import time; time.sleep(30)"})) as c:
        wait_for(lambda: server.load() == 1)
        c.sock.shutdown(socket.SHUT_WR)
        wait_for(lambda: server.load() == 0, 5)
        assert c.replies() == []


def test_trap18_too_many_connections_are_told_so(start):
    server = start(SANDBOX_MAX_CONNECTIONS="20")
    open_ones = [server.raw() for _ in range(20)]
    try:
        for c in open_ones:
            c.send(get())
            assert c.reply().status == 200
        with server.raw(get()) as c:
            r = c.reply()
            assert r.status == 503 and r.json["code"] == "too_many_connections"
            assert c.ended()
    finally:
        for c in open_ones:
            c.close()
    wait_for(lambda: server.get("/healthz").status == 200, 5)


def test_trap19_five_hundred_connections_at_once(server):
    before = time.monotonic()
    connections = [server.raw() for _ in range(500)]
    try:
        for c in connections:
            c.send(get())
        for c in connections:
            assert c.reply().status == 200
    finally:
        for c in connections:
            c.close()
    assert time.monotonic() - before < 5


# ---- two readers, one byte stream

LENGTH = f"Content-Length: {len(SMUGGLED)}"
CHUNKED = "Transfer-Encoding: chunked"
SETS = {
    "both_lengths": [LENGTH, CHUNKED],
    "chunked_then_length": [CHUNKED, LENGTH],
    "two_lengths": [LENGTH, "Content-Length: 0"],
    "two_equal_lengths": [LENGTH, LENGTH],
    "length_list": [f"{LENGTH}, {len(SMUGGLED)}"],
    "length_plus": ["Content-Length: +5"],
    "length_minus": ["Content-Length: -1"],
    "length_hex": ["Content-Length: 0x5"],
    "length_spaces": ["Content-Length: 1 0"],
    "length_empty": ["Content-Length:"],
    "length_overflow": ["Content-Length: 18446744073709551615"],
    "length_wraps": ["Content-Length: 18446744073709551616"],
    "xchunked": ["Transfer-Encoding: xchunked"],
    "identity": ["Transfer-Encoding: identity"],
    "chunked_twice": ["Transfer-Encoding: chunked, chunked"],
    "two_encodings": [CHUNKED, CHUNKED],
    "gzip": ["Transfer-Encoding: gzip, chunked"],
    "encoding_tab": ["Transfer-Encoding\t: chunked"],
    "encoding_space": ["Transfer-Encoding : chunked"],
    "length_space": [f"Content-Length : {len(SMUGGLED)}"],
    "folded": ["X: y", f" {LENGTH}"],
    "folded_encoding": ["Transfer-Encoding:", " chunked"],
    "vertical_tab": ["Transfer-Encoding: \x0bchunked"],
    "nul": ["X: a\x00b", LENGTH],
    "stray_cr": [f"X: a\r{LENGTH}"],
    "bare_lf": [f"X: a\n{LENGTH}"],
}


@pytest.mark.parametrize("lines", SETS.values(), ids=SETS.keys())
def test_a_request_with_two_readings_is_refused(server, lines):
    data = head("POST /execute HTTP/1.1", "Host: localhost", *lines)
    r = refused(server, data + SMUGGLED, 400, 413)
    assert 400 <= r.status < 500


@pytest.mark.parametrize(
    "first",
    [
        "POST /execute HTTP/1.0",
        "get /healthz HTTP/1.1",
        "GET  /healthz HTTP/1.1",
        "GET /healthz  HTTP/1.1",
        "GET http://localhost/healthz HTTP/1.1",
        "GET healthz HTTP/1.1",
        "GET /health\xe9 HTTP/1.1",
        "GET /healthz http/1.1",
        "GET /healthz",
        "CONNECT localhost:80 HTTP/1.1",
        "OPTIONS * HTTP/1.1",
    ],
)
def test_a_request_line_with_two_readings_is_refused(server, first):
    refused(server, head(first, "Host: localhost", CHUNKED) + SMUGGLED, 400)


@pytest.mark.parametrize(
    "chunk",
    [
        b"-1\r\n",
        b"+1\r\n",
        b"0x1\r\n",
        b" 1\r\n",
        b"1 \r\n",
        b"1;a=b\r\n",
        b"1\nx\r\n",
        b"1\r\nxy\r\n",
        b"1\r\nx\n",
        b"0\r\nX: y\r\n\r\n",
        b"0\r\n" + SMUGGLED,
        b"\r\n",
        b"fffffffffffffffff\r\n",
        b"100000000\r\n",
    ],
)
def test_a_chunk_with_two_readings_is_refused(server, chunk):
    data = head(
        "POST /execute HTTP/1.1", "Host: localhost", "Content-Type: application/json", CHUNKED
    )
    refused(server, data + chunk + SMUGGLED, 400)


def test_a_chunk_beyond_the_limit_is_refused_by_its_size(server):
    data = head("POST /execute HTTP/1.1", "Host: localhost", CHUNKED)
    refused(server, data + b"00a00001\r\n", 413)
    refused(server, data + b"ffffffff\r\n", 413)


def test_nothing_smuggled_reached_a_handler(server):
    assert "/smuggled" not in server.log()

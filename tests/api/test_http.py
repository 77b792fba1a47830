# SPDX-License-Identifier: GPL-2.0-only
"""HTTP as clients meet it: answers, connections, streams, slow and rude clients."""

import concurrent.futures
import json
import re
import signal
import socket
import time
from email.utils import parsedate_to_datetime

import pytest

from conftest import get, post, wait_for

SLEEP = "import time; time.sleep({})"


# ---- answers


@pytest.mark.parametrize("path", ["/health", "/healthz", "/readyz", "/isolation"])
def test_probes_answer_get_and_head(server, path):
    full = server.request("GET", path)
    bare = server.request("HEAD", path)
    assert full.status == bare.status == 200
    assert isinstance(full.json, dict)
    assert bare.body == b""
    same = ("content-type", "cache-control")
    assert [full.headers[h] for h in same] == [bare.headers[h] for h in same]


def test_every_answer_has_its_headers(server):
    for reply in (
        server.get("/healthz"),
        server.get("/nothing"),
        server.request("DELETE", "/execute"),
        server.post("/execute", b"{"),
        server.post("/execute", {"code": "print(1)", "language": "python"}),
    ):
        assert reply.headers["content-type"] == "application/json"
        assert reply.headers["cache-control"] == "no-store"
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert re.fullmatch("[0-9a-f]{32}", reply.headers["x-request-id"])
        assert "access-control-allow-origin" not in reply.headers
        assert abs(parsedate_to_datetime(reply.headers["date"]).timestamp() - time.time()) < 5


def test_a_sane_request_id_comes_back(server):
    for name in ("a", "trace-1.2_3", "x" * 64):
        assert server.get("/healthz", **{"X-Request-Id": name}).headers["x-request-id"] == name
    for name in ("", "a b", "x" * 65, "<script>", '"'):
        given = server.get("/healthz", **{"X-Request-Id": name}).headers["x-request-id"]
        assert re.fullmatch("[0-9a-f]{32}", given)


def test_a_run_is_logged_with_its_id(server):
    server.post("/execute", {"code": "print(1)", "language": "python"}, {"X-Request-Id": "find-me"})
    line = server.wait_log(r"request\.done.*find-me")
    assert "status=200" in line and "route=/execute" in line and re.search(r"ms=\d+", line)


def test_unknown_paths_and_methods(server):
    r = server.get("/nothing")
    assert r.status == 404 and r.json["code"] == "not_found"
    r = server.request("PUT", "/execute", b"{}")
    assert r.status == 405 and r.headers["allow"] == "POST"
    assert r.json["code"] == "method_not_allowed"
    r = server.request("DELETE", "/health")
    assert r.status == 405 and r.headers["allow"] == "GET, HEAD"
    assert server.request("TRACE", "/healthz").status == 405
    assert server.request("HEAD", "/nothing").status == 404


def test_queries_are_ignored(server):
    assert server.get("/healthz?x=/../y").status == 200


# ---- who may ask


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:99", "127.9.9.9", "[::1]:80"])
def test_loopback_hosts_are_answered(server, host):
    assert server.get("/healthz", Host=host).status == 200


@pytest.mark.parametrize("host", ["evil.com", "localhost.evil.com:80", "10.0.0.1", "a@localhost"])
def test_rebound_hosts_are_not(server, host):
    r = server.get("/healthz", Host=host)
    assert r.status == 421 and r.json["code"] == "host_not_allowed"


def test_listed_hosts_and_origins_are_answered(start):
    s = start(
        SANDBOX_ALLOWED_HOSTS="sandbox.svc,other:80",
        SANDBOX_ALLOWED_ORIGINS="https://ui.example",
    )
    assert s.get("/healthz", Host="sandbox.svc:8080").status == 200
    assert s.get("/healthz", Host="other:80").status == 200
    assert s.get("/healthz", Host="other:81").status == 421
    assert s.get("/healthz", Origin="https://ui.example").status == 200
    assert s.get("/healthz", Origin="https://other.example").status == 403
    any_host = start(SANDBOX_ALLOWED_HOSTS="*")
    assert any_host.get("/healthz", Host="evil.com").status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.com"},
        {"Origin": "null"},
        {"Origin": "http://localhost:1"},
        {"Sec-Fetch-Site": "cross-site"},
    ],
)
def test_cross_site_requests_are_refused_and_run_nothing(server, headers):
    r = server.post("/execute", {"code": "print(1)"}, headers)
    assert r.status == 403 and r.json["code"] == "origin_not_allowed"


def test_the_same_origin_may_ask(server):
    here = f"localhost:{server.port}"
    assert server.get("/healthz", Host=here, Origin=f"http://{here}").status == 200


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_forms_are_refused(server, kind):
    r = server.post("/execute", {"code": "print(1)"}, {"Content-Type": kind})
    assert r.status == 415 and r.json["code"] == "unsupported_media_type"


def test_json_with_parameters_or_without_a_type_is_read(server):
    body = {"code": "print(1)", "language": "python"}
    kind = {"Content-Type": "application/json; charset=utf-8"}
    assert server.post("/execute", body, kind).status == 200
    assert server.request("POST", "/execute", json.dumps(body).encode()).status == 200


# ---- connections


def test_a_connection_is_kept(server):
    with server.raw() as c:
        for _ in range(20):
            c.send(get())
            assert c.reply().status == 200
        c.send(post({"code": "print(1)", "language": "python"}))
        assert c.reply().status == 200
        c.send(post(b"{"))
        assert c.reply().status == 400
        c.send(get("/nothing"))
        assert c.reply().status == 404
        c.send(get())
        assert c.reply().status == 200


def test_pipelined_requests_are_answered_in_order(server):
    run = {"code": "print('first')", "language": "python"}
    data = post(run) + get("/healthz") + get("/nothing") + post({}) + get("/readyz")
    with server.raw(data) as c:
        got = [c.reply() for _ in range(5)]
    assert [r.status for r in got] == [200, 200, 404, 400, 200]
    assert got[0].json["stdout"] == "first\n"


def test_an_empty_line_between_requests_is_forgiven(server):
    with server.raw(b"\r\n" + get() + b"\r\n" + get()) as c:
        assert c.reply().status == 200
        assert c.reply().status == 200


def test_a_chunked_post_is_read(server):
    body = json.dumps({"code": "print('chunks')", "language": "python"}).encode()
    data = (
        b"POST /execute HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n"
    )
    for i in range(0, len(body), 7):
        piece = body[i : i + 7]
        data += b"%x\r\n%s\r\n" % (len(piece), piece)
    with server.raw(data + b"0\r\n\r\n" + get()) as c:
        assert c.reply().json["stdout"] == "chunks\n"
        assert c.reply().status == 200


def test_a_get_with_an_empty_chunked_body_is_answered(server):
    # proxies made with httpx send every GET so
    data = get("/healthz", ["Transfer-Encoding: chunked"]) + b"0\r\n\r\n"
    with server.raw(data * 2) as c:
        assert c.reply().status == 200
        assert c.reply().status == 200


def test_a_get_with_a_body_is_answered(server):
    data = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nbody"
    with server.raw(data * 2) as c:
        assert c.reply().status == 200
        assert c.reply().status == 200


def test_other_expectations_fail(server):
    with server.raw(post({}, headers=["Expect: a-miracle"])) as c:
        assert [r.status for r in c.replies()] == [417]


def test_a_body_over_the_limit_is_refused_before_it_is_sent(server):
    most = 10 * 1024 * 1024
    with server.raw(
        b"POST /execute HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n"
        b"Expect: 100-continue\r\n\r\n" % (most + 1)
    ) as c:
        got = c.replies()
    assert [r.status for r in got] == [413]
    assert got[0].json["code"] == "body_too_large"


def test_a_client_that_sends_on_still_reads_its_refusal(server):
    body = b"x" * (900 * 1024)
    for path, status in (("/nothing", 404), ("/isolation", 405), ("/healthz", 405)):
        with server.raw(post(body, path)) as c:
            assert [r.status for r in c.replies()] == [status]


def test_the_body_limit_is_a_setting(start):
    s = start(SANDBOX_MAX_BODY_MB="1")
    assert s.post("/execute", b"x" * (1024 * 1024 + 1)).status == 413
    assert s.post("/execute", b"x" * 1024 * 1024).status == 400


# ---- load


def test_over_capacity_is_said_before_the_body(start):
    s = start(SANDBOX_MAX_CONCURRENT="2")
    assert s.load() == 0
    with s.raw(post({"code": SLEEP.format(20)})), s.raw(post({"code": SLEEP.format(20)})):
        wait_for(lambda: s.load() == 2)
        with s.raw(
            b"POST /execute HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9000000\r\n\r\n"
        ) as c:
            r = c.reply()
            assert c.ended()
        assert r.status == 429 and int(r.headers["retry-after"]) >= 1
        assert r.json["error"] == "at capacity (3/2 concurrent executions)"
        assert s.post("/execute", b"garbage").status == 429
        assert s.get("/readyz").status == 200
    wait_for(lambda: s.load() == 0, 5)


@pytest.mark.parametrize("how", ["close", "reset"])
def test_a_client_that_goes_away_frees_its_slot(start, how):
    s = start(SANDBOX_MAX_CONCURRENT="1")
    c = s.raw(post({"code": SLEEP.format(30)}))
    wait_for(lambda: s.load() == 1)
    getattr(c, how)()
    wait_for(lambda: s.load() == 0, 5)
    assert s.post("/execute", {"code": "print(1)"}).status == 200


def test_clients_that_vanish_at_random_leave_nothing(start):
    s = start(SANDBOX_MAX_CONCURRENT="3")
    s.get("/healthz")
    before = len(s.fds())

    def one(i):
        data = post({"code": SLEEP.format(0.01)})
        try:
            with s.raw(data[: len(data) - (i % 3)]) as c:
                if i % 4:
                    c.reset() if i % 2 else c.close()
                else:
                    c.sock.settimeout(0.05)
                    c.reply()
        except OSError:
            pass

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        list(pool.map(one, range(300)))
    wait_for(lambda: s.load() == 0, 10)
    wait_for(lambda: len(s.fds()) <= before + 1, 10)


# ---- SIGTERM


def test_draining_answers_what_runs_and_refuses_what_comes(start):
    s = start()
    with s.raw(post({"code": "import time; time.sleep(2); print('done')"})) as c:
        wait_for(lambda: s.load() == 1)
        idle = s.raw(get())
        assert idle.reply().status == 200
        s.proc.send_signal(signal.SIGTERM)
        r = wait_for(lambda: (lambda x: x if x.status == 503 else None)(s.get("/health")), 5)
        assert r.json["status"] == "draining"
        assert r.headers["connection"] == "close"
        assert s.get("/readyz").status == 503
        assert s.get("/healthz").status == 200
        r = s.post("/execute", {"code": "print(1)"})
        assert r.status == 503 and r.json["code"] == "draining"
        assert idle.ended(5)
        idle.close()
        r = c.reply()
        assert r.status == 200 and r.json["stdout"] == "done\n"
        assert c.ended()
    assert s.proc.wait(20) == 0


# ---- streams


@pytest.mark.parametrize("accept", ["text/event-stream", "application/x-ndjson"])
def test_output_comes_as_it_is_written(server, accept):
    code = (
        "import time, sys\nprint('one', flush=True)\n"
        "time.sleep(1)\nprint('two', file=sys.stderr)"
    )
    seen, times = [], []
    for name, data in server.events(code, accept, language="python"):
        times.append(time.monotonic())
        seen.append((name, data))
    assert times[-1] - times[0] > 0.8
    assert seen[0][0] == "stdout" and seen[-1][0] == "result"
    text = {"stdout": "", "stderr": ""}
    for name, data in seen[:-1]:
        assert set(data) == {"text"}
        text[name] += data["text"]
    assert text == {"stdout": "one\n", "stderr": "two\n"}
    assert seen[-1][1]["stdout"] == "one\n" and seen[-1][1]["exit_code"] == 0


def test_a_stream_has_its_headers(server):
    body = {"code": "print(1)", "language": "python"}
    with server.raw(post(body, headers=["Accept: text/event-stream"])) as c:
        r = c.reply(head_only=True)
        assert r.headers["content-type"] == "text/event-stream"
        assert r.headers["cache-control"] == "no-store"
        assert r.headers["x-accel-buffering"] == "no"
        assert r.headers["transfer-encoding"] == "chunked"
        list(c.chunks())
        c.send(get())
        assert c.reply().status == 200  # the connection goes on


def test_a_stream_for_http_1_0_ends_with_its_connection(server):
    body = json.dumps({"code": "print('old')", "language": "python"}).encode()
    data = (
        b"POST /execute HTTP/1.0\r\nAccept: application/x-ndjson\r\n"
        b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
    )
    with server.raw(data + body) as c:
        r = c.reply()
    lines = [json.loads(x) for x in r.body.splitlines()]
    assert "transfer-encoding" not in r.headers
    assert "".join(x["data"]["text"] for x in lines[:-1]) == "old\n"
    assert lines[-1]["event"] == "result"


def test_an_error_before_the_stream_is_a_plain_one(server):
    r = server.post("/execute", {"code": ""}, {"Accept": "text/event-stream"})
    assert r.status == 400 and r.headers["content-type"] == "application/json"


def test_leaving_a_stream_kills_the_run(start):
    s = start()
    body = {"code": "import time\nprint('x', flush=True)\ntime.sleep(30)"}
    with s.raw(post(body, headers=["Accept: text/event-stream"])) as c:
        assert c.reply(head_only=True).status == 200
        assert s.load() == 1
    wait_for(lambda: s.load() == 0, 5)


def test_a_slow_reader_of_a_stream_costs_no_memory(start):
    s = start(SANDBOX_OUTPUT_CEILING_KB="65536", SANDBOX_MAX_CONCURRENT="4")
    body = {"code": "print('x' * 8000000)", "limits": {"max_output_kb": 10000}}
    s.post("/execute", body)
    before = s.rss_kb()
    slow = [s.raw(post(body, headers=["Accept: application/x-ndjson"])) for _ in range(3)]
    time.sleep(1)
    # what was printed is kept once for the result, not again for the reader
    assert s.rss_kb() - before < 3 * 16 * 1024
    assert s.get("/healthz").status == 200
    r = slow[0].reply()
    lines = r.body.splitlines()
    text = "".join(json.loads(x)["data"].get("text", "") for x in lines[:-1])
    assert text == "x" * 8000000 + "\n"
    for c in slow:
        c.close()


# ---- slow clients


def test_slow_clients_are_ended(server):
    """All of them side by side: it takes as long as the slowest limit, 10 seconds."""
    begin = time.monotonic()
    slow_head = server.raw(b"GET /healthz HTTP/1.1\r\nHost: lo")
    drip = server.raw(b"G")
    stalled = server.raw(post(b"x" * 1000)[:-500])
    limits = {}
    while len(limits) < 3 and time.monotonic() - begin < 20:
        for name, c in (("head", slow_head), ("drip", drip), ("body", stalled)):
            if name in limits:
                continue
            c.sock.settimeout(0.05)
            try:
                r = c.reply()
                limits[name] = (time.monotonic() - begin, r.status if r else None)
            except socket.timeout:
                pass
        if "drip" not in limits:
            try:
                drip.send(b"E")
            except OSError:
                pass
        time.sleep(0.2)
    assert {k: v[1] for k, v in limits.items()} == {"head": 408, "drip": 408, "body": 408}
    assert 4 < limits["head"][0] < 8 and 4 < limits["drip"][0] < 8
    assert 9 < limits["body"][0] < 14
    for c in (slow_head, drip, stalled):
        c.close()


def test_large_bodies_at_once_do_not_add_up(start):
    s = start()
    before = s.rss_kb()
    held = []
    data = post(b"x" * (10 * 1024 * 1024 - 1))[:-1]
    refusals = 0
    for _ in range(12):
        c = s.raw()
        try:
            c.send(data)
        except OSError:
            refusals += 1  # it had heard enough
        held.append(c)
    # the budget is 64 MB: six fit, the others are told to come again
    assert s.rss_kb() - before < 80 * 1024
    assert s.get("/healthz").status == 200
    for c in held:
        c.close()
    wait_for(lambda: s.rss_kb() - before < 16 * 1024, 10)

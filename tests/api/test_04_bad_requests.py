# SPDX-License-Identifier: GPL-2.0-only
"""A bad request is a 4xx that names its cause, at once, and harms nobody."""

import json
import time

import pytest
from conftest import SANITIZED, Server, post
from support import check_healthy

MIB = 1024 * 1024
# a sanitizer makes everything slower
SECONDS = 0.1 * (10 if SANITIZED else 1)

TOO_LARGE = {"error": "the body is larger than 10485760 bytes", "code": "body_too_large"}


def with_field(name, value):
    return json.dumps({"code": "print(1)", "language": "python", name: value}).encode()


def refused(server, body, tries=5):
    """The answer to a body; the quickest of some tries must be quick."""
    best = None
    for _ in range(tries):
        begin = time.monotonic()
        with server.raw(post(body)) as c:
            r = c.reply()
        took = time.monotonic() - begin
        best = took if best is None else min(best, took)
        if best < SECONDS:
            break
    assert best < SECONDS, f"{best} s for {len(body)} bytes"
    assert r.headers["content-type"] == "application/json"
    assert set(r.json) == {"error", "code"}
    return r


FIELDS = [
    ("code", 5, "code must be a string"),
    ("code", ["print(1)"], "code must be a string"),
    ("code", {"a": "b"}, "code must be a string"),
    ("code", True, "code must be a string"),
    ("code", "print(1)\0", "code must not contain NUL"),
    ("timeout_seconds", "5", "timeout_seconds must be a number"),
    ("timeout_seconds", True, "timeout_seconds must be a number"),
    ("timeout_seconds", [1], "timeout_seconds must be a number"),
    ("timeout_seconds", -1, "timeout_seconds must be a finite number of at least 0"),
    ("timeout_seconds", -0.001, "timeout_seconds must be a finite number of at least 0"),
    ("requirements", "six", "requirements must be an array"),
    ("requirements", [1], "requirements must be an array of strings"),
    ("requirements", ["a", None], "requirements must be an array of strings"),
    ("files", [], "files must be an object"),
    ("files", "a", "files must be an object"),
    ("files", {"a": 1}, 'files: "a" must be a base64 string'),
    ("files", {"a": None}, 'files: "a" must be a base64 string'),
    ("files", {"a": {"symlink": "/etc"}}, 'files: "a" must be a base64 string'),
    ("stdin", 1, "stdin must be a string"),
    ("args", "x", "args must be an array"),
    ("args", {}, "args must be an array"),
    ("args", [1], "args must be an array of strings"),
    ("args", ["a\0b"], "args must not contain NUL"),
    ("args", ["x" * 200000], "args has an item of more than 131071 bytes"),
    ("env", [], "env must be an object"),
    ("env", {"A": 1}, 'env value of "A" must be a string'),
    ("env", {"A": "\0"}, 'env value of "A" must not contain NUL'),
    ("env", {"LD_PRELOAD": "x"}, 'env must not set "LD_PRELOAD": it steers the loader'),
    ("env", {"LD_LIBRARY_PATH": ""}, 'env must not set "LD_LIBRARY_PATH": it steers the loader'),
    ("env", {"PATH": "x"}, 'env must not set "PATH": it is the sandbox\'s'),
    ("env", {"OUTPUT_DIR": "x"}, 'env must not set "OUTPUT_DIR": it is the sandbox\'s'),
    ("language", 3, "language must be a string"),
    ("language", ["python"], "language must be a string"),
    ("language", "python\0", "language must not contain NUL"),
    ("limits", [], "limits must be an object"),
    ("limits", {"memory_mb": -1}, "limits.memory_mb must be a positive whole number"),
    ("limits", {"memory_mb": "1G"}, "limits.memory_mb must be a positive whole number"),
    ("limits", {"memory_mb": 7}, "limits.memory_mb must be at least 8"),
    ("limits", {"cpu_seconds": 0}, "limits.cpu_seconds must be a positive whole number"),
    ("limits", {"pids": 1.5}, "limits.pids must be a positive whole number"),
    ("limits", {"disk_mb": True}, "limits.disk_mb must be a positive whole number"),
    ("limits", {"max_output_kb": []}, "limits.max_output_kb must be a positive whole number"),
    ("network", "example.com", "network must be false, true or an array of strings"),
    ("network", 1, "network must be false, true or an array of strings"),
    ("network", [1], "network must be an array of strings"),
]


@pytest.mark.parametrize("name, value, says", FIELDS, ids=lambda v: str(v)[:24])
def test_a_field_of_the_wrong_type_is_named(server, name, value, says):
    r = refused(server, with_field(name, value))
    code = "unsupported_language" if says.startswith("language must not") else "bad_request"
    assert (r.status, r.json) == (400, {"error": says, "code": code})


@pytest.mark.parametrize("body", [b"{}", b'{"code":null}', b'{"code":""}', b'{"stdin":"x"}'])
def test_missing_code_is_said(server, body):
    r = refused(server, body)
    assert (r.status, r.json) == (400, {"error": "code is required", "code": "code_required"})


@pytest.mark.parametrize("language", ["ruby", "", "../../bin/sh", "python3;id", "PYTHON"])
def test_an_unknown_language_lists_what_is_served(server, language):
    r = refused(server, with_field("language", language))
    assert r.status == 400 and r.json["code"] == "unsupported_language"
    assert f'"{language}"' in r.json["error"]
    health = server.get("/health").json
    for mode in health.get("modes", [health["mode"]]):
        assert (mode["mode"] if isinstance(mode, dict) else mode) in r.json["error"]


INVALID = [
    (b"", "empty text"),
    (b" \n", "empty text"),
    (b"{", "the text ends too early"),
    (b'{"code":"print(1)"', "the text ends too early"),
    (b'{"code":"print(1)', "string without an end"),
    (b'{"code":"print(1)",}', "a member name was expected"),
    (b"{'code':'print(1)'}", "a member name was expected"),
    (b'{"code" "print(1)"}', "a colon was expected"),
    (b'{"code":"print(1)"]', "brackets do not match"),
    (b'{"code":"print(1)"}//', "data after the value"),
    (b'{"code":"print(1)"} {}', "data after the value"),
    (b'{"code":"print(1)"}\0', "data after the value"),
    (b"code=print(1)", "a value was expected"),
    (b'{"code":"print(1)","timeout_seconds":NaN}', "a value was expected"),
    (b'{"code":"print(1)","timeout_seconds":Infinity}', "a value was expected"),
    (b'{"code":"print(1)","timeout_seconds":1e400}', "number out of range"),
    (b'{"code":"print(1)","timeout_seconds":01}', "malformed number"),
    (b'{"code":"print(1)","timeout_seconds":+1}', "a value was expected"),
    (b'{"code":"a\0b"}', "control character in a string"),
    (b'{"code":"a\nb"}', "control character in a string"),
    (b'{"co\\u0000de":"x","code":"print(1)"}', "NUL in a member name"),
    (b'{"code":"\\x41"}', "malformed escape"),
    (b'{"code":"\xff"}', "invalid UTF-8"),
    (b'{"code":"\xc0\xaf"}', "invalid UTF-8"),
    (b'{"code":"\xed\xa0\x80"}', "invalid UTF-8"),
    (b'{"code":"\xf4\x90\x80\x80"}', "invalid UTF-8"),
    (b'{"code":"caf\xe9"}', "invalid UTF-8"),
    (b'{"\xff":1,"code":"print(1)"}', "invalid UTF-8"),
    (b'{"code":"\\ud800"}', "lone surrogate"),
    (b'{"code":"\\udc00\\ud800"}', "lone surrogate"),
    (b'\xef\xbb\xbf{"code":"print(1)"}', "byte order mark"),
    ('{"code":"print(1)"}'.encode("utf-16"), "invalid UTF-8"),
    (b'{"code":"print(1)","code":"print(2)"}', "a member name occurs twice"),
    (b'{"code":"print(1)","\\u0063ode":"print(2)"}', "a member name occurs twice"),
    (b'{"code":"print(1)","files":{"a":"","a":""}}', "a member name occurs twice"),
    (b'{"code":"print(1)","x":{"y":[{"a":1,"b":2,"a":3}]}}', "a member name occurs twice"),
]


@pytest.mark.parametrize("body, says", INVALID, ids=lambda v: repr(v)[:40])
def test_what_is_not_json_is_refused_with_the_reason(server, body, says):
    r = refused(server, body)
    wanted = {"error": f"invalid JSON: {says}", "code": "invalid_json"}
    assert (r.status, r.json) == (400, wanted)


@pytest.mark.parametrize("body", [b"[]", b"null", b'"print(1)"', b"1", b"[[{}]]"])
def test_a_body_that_is_no_object_is_refused(server, body):
    r = refused(server, body)
    wanted = {"error": "the body must be a JSON object", "code": "bad_request"}
    assert (r.status, r.json) == (400, wanted)


def a_million_keys(where):
    members = b",".join(b'"%05x":0' % i for i in range(1_000_000))
    return b'{"code":"print(1)",%s}' % (members if where == "top" else b'"x":{%s}' % members)


BOMBS = {
    "arrays_within_arrays": (lambda: b"[" * 100_000, "nested too deeply"),
    "arrays_to_the_limit_of_a_body": (lambda: b"[" * (10 * MIB), "nested too deeply"),
    "closed_arrays": (
        lambda: b'{"code":"print(1)","x":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        "nested too deeply",
    ),
    "objects_within_objects": (lambda: b'{"a":' * 100_000, "nested too deeply"),
    "one_level_too_many": (
        lambda: b'{"code":"print(1)","x":' + b"[" * 32 + b"]" * 32 + b"}",
        "nested too deeply",
    ),
    "a_million_keys": (lambda: a_million_keys("top"), "too many members"),
    "a_million_keys_inside": (lambda: a_million_keys("inside"), "too many members"),
    "a_hundred_thousand_files": (
        lambda: b'{"code":"print(1)","files":{%s}}'
        % b",".join(b'"%x":""' % i for i in range(100_000)),
        "too many members",
    ),
    "five_million_values": (
        lambda: b'{"code":"print(1)","args":[%s]}' % b",".join([b'""'] * 3_000_000),
        "too many values",
    ),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_bomb_is_refused_at_once(server, bomb):
    make, says = BOMBS[bomb]
    body = make()
    assert len(body) <= 10 * MIB
    r = refused(server, body)
    wanted = {"error": f"invalid JSON: {says}", "code": "invalid_json"}
    assert (r.status, r.json) == (400, wanted)
    check_healthy(server)


def test_depth_within_the_limit_is_read(server):
    body = b'{"code":"print(1)","language":"python","x":' + b"[" * 31 + b"]" * 31 + b"}"
    r = server.post("/execute", body)
    assert r.status == 200 and r.json["stdout"] == "1\n"


def test_10_mib_are_read_and_one_byte_more_is_413(server):
    head = b'{"language":"python","code":"print(1) #'
    whole = head + b"x" * (10 * MIB - len(head) - 2) + b'"}'
    assert len(whole) == 10 * MIB
    r = server.post("/execute", whole)
    assert r.status == 200 and r.json["stdout"] == "1\n"
    begin = time.monotonic()
    with server.raw(post(b" " + whole)[:1000]) as c:  # its length is enough
        r = c.reply()
        assert time.monotonic() - begin < SECONDS
        assert r.status == 413
        assert r.json == TOO_LARGE
        assert c.ended()
    check_healthy(server)


def test_10_mib_and_a_byte_in_chunks_are_413(server):
    head = (
        b"POST /execute HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n"
    )
    with server.raw(head) as c:
        for _ in range(10):
            c.send(b"%x\r\n%s\r\n" % (MIB, b" " * MIB))
        begin = time.monotonic()
        c.send(b"1\r\n \r\n")
        r = c.reply()
        assert time.monotonic() - begin < 1  # with what was still on its way
        assert (r.status, r.json) == (413, TOO_LARGE)
        assert c.ended()
    check_healthy(server)


def test_unknown_fields_and_null_are_ignored(server):
    r = server.execute(
        "print(1)",
        language="python",
        colour="blue",
        timeout_seconds=None,
        files=None,
        env=None,
        args=None,
        stdin=None,
        limits={"memory_mb": None, "speed": 9},
        network=None,
        requirements=None,
    )
    assert (r["stdout"], r["exit_code"]) == ("1\n", 0)


def test_bad_requests_leave_no_trace(server):
    """After all of them together: the same memory, the same descriptors."""
    bodies = [body for body, _ in INVALID] + [with_field(n, v) for n, v, _ in FIELDS]
    bodies += [make() for make, _ in BOMBS.values()]
    for body in bodies:
        server.raw(post(body)).close()
    before = server.rss_kb()
    for body in bodies:
        with server.raw(post(body)) as c:
            assert c.reply().status == 400
    assert server.rss_kb() - before < 16 * 1024
    check_healthy(server)


class SmallStack(Server):
    def command_line(self, args, env):
        return ["prlimit", f"--stack={MIB}:{MIB}", *super().command_line(args, env)]


def test_words_that_this_host_has_no_stack_for():
    s = SmallStack({"SANDBOX_WARM": "0"}, mode="shell")
    try:
        r = s.post("/execute", {"code": "echo ok", "env": {f"A{n}": "x" * 100000 for n in range(5)}})
        assert (r.status, r.json["code"]) == (400, "bad_request"), r.body
        assert "env" in r.json["error"]
        assert s.execute("echo ok")["stdout"] == "ok\n"
    finally:
        s.stop()

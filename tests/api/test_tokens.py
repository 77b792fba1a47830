# SPDX-License-Identifier: GPL-2.0-only
"""Who may use a server that has tokens, how much, and what changes when the file does."""

import hashlib
import os
import signal
import threading

import pytest

from conftest import SANITIZED, wait_for
from probes import command
from raw import get, post
from tokens import TokenFile, bearer, make, reload

FREE = ("/health", "/healthz", "/readyz", "/")
CLOSED = ("/isolation", "/sessions", "/metrics", "/nothing", "/openapi.json", "/list/.")


@pytest.fixture
def file(tmp_path):
    return TokenFile(tmp_path)


def run(server, token, code="echo $((6*7))", **headers):
    return server.post("/execute", {"code": code}, {**bearer(token), **headers})


def test_a_new_token_and_its_line_belong_together():
    token, line = make("ci", "concurrency=2", "rate=100/m")
    name, hashed, *limits = line.split()
    assert (name, limits) == ("ci", ["concurrency=2", "rate=100/m"])
    assert hashed == "sha256:" + hashlib.sha256(token.encode()).hexdigest()
    assert make("ci")[0] != token


@pytest.mark.parametrize("args, why", [
    (("c i",), "NAME is 1 to 64 letters"), (("x" * 65,), "NAME is 1 to 64"), (("#x",), "NAME is 1 to 64"),
    (("ci", "rate=5"), "rate must be as in"), (("ci", "speed=1"), "neither concurrency=N, sessions=N nor rate"),
    (("ci\nme",), "NAME is 1 to 64"),
])  # fmt: skip
def test_what_would_be_no_line_is_no_token(args, why):
    done = command("token", "new", *args)
    assert (done.returncode, done.stdout) == (1, "") and why in done.stderr, done


def test_token_without_a_name_shows_how():
    assert command("token").returncode == 2 and command("token", "old", "x").returncode == 2
    assert "usage: sandbox-server token new NAME" in command("token", "--help").stdout


def test_everything_but_the_probes_needs_one(start, file):
    token, other = file.token("ci"), make("other")[0]
    s = start(mode="shell", SANDBOX_TOKEN_FILE=file.path)
    for path in FREE:
        assert s.get(path).status == 200 and s.request("HEAD", path).status == 200
    for path in CLOSED:
        r = s.get(path)
        assert (r.status, r.json["code"]) == (401, "token_required"), (path, r)
        assert r.headers["www-authenticate"] == "Bearer"
    body = {"code": "echo ran"}
    for path in ("/execute", "/mcp", "/tools/run_code", "/sessions"):
        r = s.post(path, body)
        assert (r.status, r.json["code"]) == (401, "token_required"), (path, r)
    for wrong in (other, token[:-1], token + "0", token.upper(), "x" * 8000, "", "ci"):
        r = s.post("/execute", body, {"Authorization": f"Bearer {wrong}"})
        assert r.status == 401 and b"ran" not in r.body, (wrong, r)
    for scheme in ("Basic", "Token", "BearerX"):
        assert s.post("/execute", body, {"Authorization": f"{scheme} {token}"}).status == 401
    with s.raw(post(body, headers=[f"X-API-Key: {other}", f"X-API-Key: {token}"])) as c:
        assert c.reply().status == 400
    for headers in (bearer(token), {"Authorization": f"bearer {token}"}, {"X-API-Key": token},
                    {"x-access-token": token}, {"Authorization": "Basic eDp5", "X-API-Key": token}):  # fmt: skip
        r = s.post("/execute", body, headers)
        assert r.status == 200 and r.json["stdout"] == "ran\n", (headers, r)
    # one header decides: the first that is there
    assert s.post("/execute", body, {**bearer(other), "X-API-Key": token}).status == 401
    assert s.get("/isolation", **bearer(token)).status == 200
    assert s.get("/nothing", **bearer(token)).status == 404
    # a refusal before the body: nothing of it is read as a request
    with s.raw(post({"code": "x" * 100000})) as c:
        assert [r.status for r in c.replies()] == [401]
    with s.raw(get("/isolation") + get("/healthz")) as c:
        assert (c.reply().status, c.reply().status) == (401, 200)
    assert token not in s.log() and other not in s.log()
    s.wait_log(r"request\.done .*status=200.* token=ci")


def test_concurrency_is_that_of_a_token(start, file):
    one, other = file.token("one", "concurrency=1"), file.token("other")
    s = start(mode="shell", SANDBOX_TOKEN_FILE=file.path, SANDBOX_MAX_CONCURRENT="3")
    answers = []
    t = threading.Thread(target=lambda: answers.append(run(s, one, "sleep 2; echo slow")))
    t.start()
    wait_for(lambda: s.load() == 1)
    r = run(s, one)
    assert (r.status, r.json["code"]) == (429, "token_at_capacity") and "retry-after" in r.headers
    assert r.json["error"] == "at capacity (2/1 concurrent executions of this token)"
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": "run_code", "arguments": {"code": "echo ran"}}}  # fmt: skip
    r = s.post("/mcp", call, {**bearer(one), "Accept": "application/json, text/event-stream"})
    assert "at capacity (2/1" in r.body.decode() and "ran" not in r.body.decode(), r
    assert run(s, other).status == 200
    t.join()
    assert answers[0].json["stdout"] == "slow\n"
    assert run(s, one).status == 200


def test_a_rate_is_that_of_a_token_and_says_when_to_come_again(start, file):
    slow, other = file.token("slow", "rate=3/h"), file.token("other")
    s = start(mode="shell", SANDBOX_TOKEN_FILE=file.path)
    assert [s.get("/isolation", **bearer(slow)).status for _ in range(3)] == [200] * 3
    r = run(s, slow)
    assert (r.status, r.json["code"]) == (429, "rate_limited")
    assert 1100 < int(r.headers["retry-after"]) <= 1200, r.headers
    assert run(s, other).status == 200
    # the count goes on when the file is read again
    reload(s)
    assert run(s, slow).status == 429


def test_a_rolled_file_takes_effect_and_drops_no_request(start, file):
    old = file.token("ci")
    s = start(mode="shell", SANDBOX_TOKEN_FILE=file.path, SANDBOX_MAX_CONCURRENT="3")
    first, over, seen, lock = file.lines[0], threading.Event(), [], threading.Lock()
    current = [old]

    def ask():
        while not over.is_set():
            r = run(s, current[0])
            with lock:
                seen.append((r.status, r.body))

    slow = []
    t = threading.Thread(target=lambda: slow.append(run(s, old, "sleep 3; echo still")))
    t.start()
    wait_for(lambda: s.load() == 1)
    askers = [threading.Thread(target=ask) for _ in range(2)]
    for a in askers:
        a.start()
    for _ in range(3):  # as one rolls: both, clients change over, the old one goes
        token, line = make("ci")
        file.write([first, line])
        assert "tokens=2" in reload(s)
        current[0], first = token, line
        with lock:
            count = len(seen)
        wait_for(lambda n=count: len(seen) > n + 2)
        file.write([line])
        assert "tokens=1" in reload(s)
    over.set()
    for a in [*askers, t]:
        a.join()
    assert {status for status, _ in seen} == {200} and len(seen) > 6, seen
    assert slow[0].status == 200 and slow[0].json["stdout"] == "still\n"
    assert run(s, old).status == 401 and run(s, current[0]).status == 200


def test_a_bad_new_file_keeps_the_old_tokens(start, file):
    token = file.token("ci")
    good = file.lines
    s = start(mode="shell", SANDBOX_TOKEN_FILE=file.path)
    for lines, why in ((["# nobody"], "it has no token"), ([good[0], "ci secret"], "line 2: "),
                       (["me " + good[0].split()[1] + " rate=1"], "line 1: rate must be")):  # fmt: skip
        file.write(lines)
        told = reload(s)
        assert "tokens.refused" in told and why in told and file.path in told, told
        assert "secret" not in told
        assert run(s, token).status == 200
    file.write(good, 0o660)
    assert "chmod go-w" in reload(s) and run(s, token).status == 200
    os.unlink(file.path)
    assert "No such file" in reload(s) and run(s, token).status == 200
    file.write(good)
    assert "tokens.loaded" in reload(s) and run(s, token).status == 200


def test_a_bad_file_stops_the_start(file, tmp_path):
    line = make("ci")[1]
    for lines, mode, why in (
        ([line, "x"], 0o600, "line 2: a name is followed by sha256:"),
        ([], 0o600, "it has no token"),
        ([line], 0o602, "can be written by others than its owner: chmod go-w"),
    ):
        file.write(lines, mode)
        done = command("serve", SANDBOX_PORT="0", SANDBOX_STATE_DIR=str(tmp_path), SANDBOX_TOKEN_FILE=file.path)
        assert done.returncode == 1 and why in done.stderr, done
        assert "SANDBOX_TOKEN_FILE: '" in done.stderr
    done = command("serve", SANDBOX_PORT="0", SANDBOX_TOKEN_FILE="/nonexistent/tokens")
    assert done.returncode == 1 and "SANDBOX_TOKEN_FILE: open '/nonexistent/tokens'" in done.stderr


def test_a_file_that_all_may_read_is_served_and_told(start, file):
    token = file.token("ci")
    file.write(file.lines, 0o644)
    s = start(mode="shell", SANDBOX_TOKEN_FILE=file.path)
    s.wait_log(r"tokens\.readable .*chmod o-r")
    assert run(s, token).status == 200


def test_without_a_file_sighup_changes_nothing(start):
    s = start(mode="shell")
    s.proc.send_signal(signal.SIGHUP)
    s.wait_log(r"server\.reloaded")
    assert s.execute("echo 1")["stdout"] == "1\n"
    assert s.post("/execute", {"code": "echo 1"}, bearer("anything")).status == 200


@pytest.mark.skipif(os.geteuid() != 0, reason="sessions need a server started as root")
@pytest.mark.skipif(SANITIZED, reason="our binary reads files inside, where the sanitizer cannot")
def test_a_session_is_its_tokens_alone(start, file, tmp_path):
    mine, other = file.token("mine"), file.token("other")
    state = tmp_path / "state"
    state.mkdir()
    with_tokens = {"mode": "shell", "SANDBOX_TOKEN_FILE": file.path, "SANDBOX_SESSIONS": "on"}
    s = start(state_dir=str(state), **with_tokens)

    def call(token, method, path, value=None):
        if value is None:
            return s.request(method, path, headers=bearer(token))
        return s.post(path, value, bearer(token))

    scope = {"scope_type": "workflow", "scope_id": "w1"}
    r = call(mine, "POST", "/sessions", scope)
    assert r.status == 200 and r.json["created"], r
    path = f"/sessions/{r.json['session_id']}"
    r = call(mine, "POST", f"{path}/exec", {"command": "echo mine > /work/f"})
    assert r.status == 200, r
    for method, at, value in (("GET", path, None), ("DELETE", path, None), ("GET", f"{path}/files/f", None),
                              ("POST", f"{path}/exec", {"command": "cat /work/f"})):  # fmt: skip
        r = call(other, method, at, value)
        assert (r.status, r.json["code"]) == (404, "not_found"), (at, r)
    assert call(other, "GET", "/sessions").json == {"sessions": []}
    assert call(other, "DELETE", "/scopes/workflow/w1").json == {"closed": 0}
    tool = {"name": "sandbox_exec", "arguments": {**scope, "command": "cat /work/f"}}
    r = s.post("/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": tool},
               {**bearer(other), "Accept": "application/json, text/event-stream"})  # fmt: skip
    assert "no such session" in r.body.decode(), r
    # the same name is free for others
    r = call(other, "POST", "/sessions", scope)
    assert r.status == 200 and r.json["created"], r
    assert call(other, "GET", f"{path}/files/f").json["code"] == "no_such_file"
    assert len(call(mine, "GET", "/sessions").json["sessions"]) == 1
    # a rolled token and another start keep it
    new, line = make("mine")
    file.write([line])
    s.stop()
    s = start(state_dir=str(state), **with_tokens)
    assert call(new, "GET", f"{path}/files/f").body == b"mine\n"
    assert call(new, "DELETE", path).status == 200
    assert call(new, "GET", "/sessions").json == {"sessions": []}

# SPDX-License-Identifier: GPL-2.0-only
"""The log: whose request a line is about, in both forms, and what is in none of them."""

import base64
import json
import os
import re
import secrets

import pytest

from conftest import Server, wait_for
from tokens import TokenFile, bearer, make, reload

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = f"00-{TRACE}-00f067aa0ba902b7-01"
REQUEST_EVENTS = ("request.", "job.", "network.", "install.")


class Secrets:
    """Words that may be nowhere, each remembered by what it was."""

    def __init__(self):
        self.words = {}

    def __call__(self, what):
        return self.words.setdefault(what, "S3CRET" + secrets.token_hex(8))


def read(line, form):
    """A line as a dictionary; one that cannot be read is a failure."""
    if form == "json":
        pairs = json.loads(line, object_pairs_hook=list)
        value = dict(pairs)
        assert len(value) == len(pairs), line  # a key that is there twice has two meanings
        assert all(isinstance(v, str) for v in value.values()), line
        return value
    head = re.match(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z) (debug|info|warn|error) (\S+) (\S+)( .*)?$", line)
    assert head, line
    keys = re.findall(r' ([\w.-]+)=("(?:[^"\\]|\\.)*"|[^ "]+)', head.group(5) or "")
    assert "".join(f" {k}={v}" for k, v in keys) == (head.group(5) or ""), line
    names = dict(zip(("ts", "level", "process", "event"), head.groups()))
    assert not set(names) & {k for k, _ in keys}, line
    return {**names, **{k: json.loads(v) if v[0] == '"' else v for k, v in keys}}


def exercise(s, token, say):
    """Requests of all kinds, good and bad, each full of secrets. What came of them: id to status."""
    head = {**bearer(token), "traceparent": PARENT}
    root = os.geteuid() == 0
    code = f"echo {say('code')} $V $1; cat in; cat; echo {say('stderr')} >&2; cat no{say('path')}"
    run = {
        "code": code, "env": {"V": say("env")}, "args": [say("argument")], "stdin": say("stdin"),
        "files": {"in": base64.b64encode(say("file").encode()).decode()},
    }  # fmt: skip
    bad = [
        ("/execute", {**run, "timeout_seconds": -1}), ("/execute", {**run, "language": "cobol"}),
        ("/execute", {**run, "files": {"x": say("base64") + "!"}}), ("/execute", {**run, "env": {"LD_X": say("env")}}),
        ("/execute", {**run, "env": {"V": say("env") + "\0"}}), ("/execute", {**run, "args": [say("argument") + "\0"]}),
        ("/execute", json.dumps(run)[:-1]), ("/execute", {"code": 5, "x": say("field")}),
    ]  # fmt: skip
    ask = [("/execute", run), ("/tools/run_code", run), *bad]
    done = {}
    for i, (path, body) in enumerate(ask):
        name = f"plain-{i}"
        done[name] = s.post(path, body, {**head, "X-Request-Id": name}).status
    done["live"] = s.post("/execute", run, {**head, "X-Request-Id": "live", "Accept": "text/event-stream"}).status
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "run_code", "arguments": run}}
    accept = {"Accept": "application/json, text/event-stream"}
    done["mcp"] = s.post("/mcp", call, {**head, **accept, "X-Request-Id": "mcp"}).status
    if root:
        r = s.post("/sessions", {"env": {"V": say("session env")}}, {**head, "X-Request-Id": "open"})
        done["open"] = r.status
        path = f"/sessions/{r.json['session_id']}"
        command = {"command": f"echo {say('command')} $V", "env": {"W": say("env")}, "stdin": say("stdin")}
        done["exec"] = s.post(f"{path}/exec", command, {**head, "X-Request-Id": "exec"}).status
        done["put"] = s.request("PUT", f"{path}/files/f", say("contents"), {**head, "X-Request-Id": "put"}).status
        done["close"] = s.request("DELETE", path, None, {**head, "X-Request-Id": "close"}).status
    for i, wrong in enumerate((say("wrong token"), "")):
        name = f"wrong-{i}"
        done[name] = s.post("/execute", run, {**bearer(wrong), "traceparent": PARENT, "X-Request-Id": name}).status
    return done


@pytest.mark.parametrize("form", ["text", "json"])
def test_lines_name_their_request_and_tell_no_secret(form, tmp_path):
    file, say = TokenFile(tmp_path), Secrets()
    token = file.token("ci")
    env = {"SANDBOX_LOG_FORMAT": form, "SANDBOX_LOG_LEVEL": "debug", "SANDBOX_TOKEN_FILE": file.path,
           "SANDBOX_SESSIONS": "on" if os.geteuid() == 0 else "off", "SECRET_OF_HOST": say("environment")}  # fmt: skip
    s = Server(env, (), "shell")
    try:
        done = exercise(s, token, say)
        assert done["plain-0"] == done["live"] == done["mcp"] == 200 and done["wrong-0"] == 401, done
        for name in done:
            s.wait_log(rf'request\.done.*request"?[:=]"?{name}\b')
    finally:
        s.stop()
    text = s.log()
    for what, word in {**say.words, "token": token, "hash": file.lines[0].split()[1][7:]}.items():
        assert word not in text, f"{what}: {[x for x in text.splitlines() if word in x]}"
        assert base64.b64encode(word.encode()).decode()[:-4] not in text, what
    lines = [read(x, form) for x in text.splitlines()]
    about = [x for x in lines if x["process"] == "server" and x["event"].startswith(REQUEST_EVENTS)]
    mine = [x for x in about if x.get("request") in done]
    for line in mine:
        assert line["trace"] == TRACE, line
    for line in about:
        assert line.get("request"), line
    for name in done:
        events = {x["event"] for x in mine if x["request"] == name}
        assert "request.done" in events, (name, events)
        if done[name] == 200:
            assert "job.done" in events, (name, events)
    assert {x["token"] for x in mine if x["event"] == "request.done" and "token" in x} == {"ci"}
    assert all(x["run"].isdigit() for x in mine if x["event"] == "job.done")


def test_without_a_traceparent_there_is_no_trace(start):
    s = start(mode="shell")
    for parent in (None, "00-zz", PARENT.upper(), f"00-{'0' * 32}-00f067aa0ba902b7-01"):
        head = {"X-Request-Id": "none"} if parent is None else {"X-Request-Id": "none", "traceparent": parent}
        assert s.post("/execute", {"code": "echo $TRACEPARENT"}, head).json["stdout"] == "\n"
    wait_for(lambda: s.log().count("job.done request=none ") == 4)
    assert "trace=" not in s.log()
    r = s.post("/execute", {"code": "echo $TRACEPARENT"}, {"X-Request-Id": "some", "traceparent": PARENT})
    assert r.json["stdout"] == PARENT + "\n"
    s.wait_log(f"job.done request=some trace={TRACE} ")
    s.wait_log(f"request.done request=some trace={TRACE} ")


def test_what_a_client_calls_itself_is_logged_and_is_one_value(start):
    s = start(mode="shell", SANDBOX_LOG_FORMAT="json")
    head = {"X-Request-Id": "named", "X-Agent-Name": 'a "b" status=500', "X-Environment": "e" * 100}
    assert s.post("/execute", {"code": "true"}, head).status == 200
    line = read(s.wait_log(r'request\.done.*"named"'), "json")
    assert (line["agent"], line["environment"], line["status"]) == ('a "b" status=500', "e" * 64, "200")
    assert s.post("/execute", {"code": "true"}, {"X-Request-Id": "nobody"}).status == 200
    assert not {"agent", "environment"} & set(read(s.wait_log(r'request\.done.*"nobody"'), "json"))


def test_new_tokens_of_the_command_are_not_logged(start, tmp_path):
    """What the supervisor says of a file has no hash and no token of it."""
    file = TokenFile(tmp_path)
    file.token("ci")
    s = start(mode="shell", SANDBOX_TOKEN_FILE=file.path, SANDBOX_LOG_LEVEL="debug")
    token, line = make("new")
    file.write([f"{token}"])
    assert token not in reload(s)
    file.write([f"me {token}"])
    assert token not in reload(s)
    file.write([line + "0"])
    assert line.split()[1][7:] not in reload(s)

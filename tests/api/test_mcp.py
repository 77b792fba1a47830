# SPDX-License-Identifier: GPL-2.0-only
"""MCP by HTTP, said by hand: what clients never get wrong, and what happens when they do."""

import json
import pathlib
import threading

import pytest
from conftest import post, wait_for
from support import marked, new_mark

OLD, NEW = "2025-11-25", "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": NEW,
    "io.modelcontextprotocol/clientCapabilities": {},
}
BOTH = "application/json, text/event-stream"
TOOLS = ["run_code", "run_python_code", "sandbox_run"]


def message(method, params=None, number=1):
    m = {"jsonrpc": "2.0", "id": number, "method": method}
    return m if params is None else m | {"params": params}


def ask(server, method, params=None, number=1, **headers):
    names = {k.replace("_", "-"): v for k, v in headers.items()}
    return server.post("/mcp", message(method, params, number), {"Accept": BOTH, **names})


def call(server, tool, **arguments):
    """tools/call as a client of 2025-11-25 makes it: its result."""
    r = ask(server, "tools/call", {"name": tool, "arguments": arguments}, MCP_Protocol_Version=OLD)
    assert r.status == 200 and r.headers["content-type"] == "application/json", r
    return r.json["result"]


def text(result):
    assert [c["type"] for c in result["content"]] == ["text"]
    return result["content"][0]["text"]


# ---- the protocol


def test_a_client_of_old_is_served(server):
    r = ask(server, "initialize", {"protocolVersion": OLD, "capabilities": {}})
    assert r.status == 200 and r.json["result"]["protocolVersion"] == OLD
    assert r.json["result"]["capabilities"] == {"tools": {}}
    session = r.headers["mcp-session-id"]
    assert len(session) == 32
    done = server.post("/mcp", {"jsonrpc": "2.0", "method": "notifications/initialized"})
    assert done.status == 202 and done.body == b""
    head = {"Mcp_Session_Id": session, "MCP_Protocol_Version": OLD}
    assert ask(server, "ping", **head).json == {"jsonrpc": "2.0", "id": 1, "result": {}}
    listed = ask(server, "tools/list", **head).json["result"]["tools"]
    # where there can be sessions, their tools follow
    assert [t["name"] for t in listed][: len(TOOLS)] == TOOLS
    assert "mcp-session-id" not in ask(server, "tools/list").headers


def test_a_modern_client_is_served(server):
    r = ask(server, "server/discover", {"_meta": META}, MCP_Protocol_Version=NEW, Mcp_Method="server/discover")
    assert r.status == 200 and r.json["result"]["supportedVersions"][:2] == [NEW, OLD]
    params = {"name": "run_python_code", "arguments": {"code": "print(6*7)"}, "_meta": META}
    head = {"MCP_Protocol_Version": NEW, "Mcp_Method": "tools/call", "Mcp_Name": "run_python_code"}
    r = ask(server, "tools/call", params, **head)
    assert r.status == 200 and text(r.json["result"]) == "42\n"
    assert r.json["result"]["resultType"] == "complete"
    assert "io.modelcontextprotocol/serverInfo" in r.json["result"]["_meta"]
    r = ask(server, "tools/call", params, **head | {"Mcp_Name": "run_code"})
    assert r.status == 400 and r.json["error"]["code"] == -32020
    r = ask(server, "ping", {"_meta": META}, MCP_Protocol_Version=NEW, Mcp_Method="ping")
    assert r.status == 404 and r.json["error"]["code"] == -32601


def test_what_is_not_served(server):
    for method in ("GET", "DELETE", "PUT"):
        r = server.request(method, "/mcp", headers={"Accept": "text/event-stream"})
        assert r.status == 405 and r.headers["allow"] == "POST"
    assert server.post("/mcp", "{", {"Accept": BOTH}).json["error"]["code"] == -32700
    r = server.post("/mcp", [message("ping")])
    assert r.status == 400 and "batches" in r.json["error"]["message"]
    r = ask(server, "tools/list", MCP_Protocol_Version="1999-01-01")
    assert r.status == 400 and r.json["error"]["code"] == -32022
    assert r.json["error"]["data"] == {
        "supported": [NEW, OLD, "2025-06-18", "2025-03-26"],
        "requested": "1999-01-01",
    }
    assert server.post("/mcp", message("ping"), {"Content-Type": "text/plain"}).status == 415


def test_pages_of_others_do_not_get_in(server):
    r = ask(server, "tools/list", Origin="http://evil.example")
    assert r.status == 403 and r.json["code"] == "origin_not_allowed"
    r = ask(server, "tools/list", Host="evil.example")
    assert r.status == 421 and r.json["code"] == "host_not_allowed"
    assert ask(server, "tools/list", Origin=server.url).status == 200


# ---- the tools


def test_run_code_is_execute(server):
    fields = {
        "language": "shell",
        "code": "cat in.txt; cat; echo $1 $A; echo f >output/r; exit 3",
        "files": {"in.txt": "ZmlsZQo="},
        "stdin": "input\n",
        "args": ["arg"],
        "env": {"A": "env"},
        "limits": {"max_output_kb": 1},
    }
    result = call(server, "run_code", **fields)
    assert not result["isError"]
    plain = server.post("/execute", fields).json
    tool = server.post("/tools/run_code", fields).json
    answer = result["structuredContent"]
    assert json.loads(text(result)) == answer
    for one in (plain, tool):
        assert list(one) == list(answer)
        for key in ("status", "stdout", "stderr", "exit_code", "files_produced"):
            assert one[key] == answer[key], key
    assert answer["stdout"] == "file\ninput\narg env\n" and answer["exit_code"] == 3
    assert answer["files_produced"] == {"r": "Zgo="}
    assert answer["meta"]["resource_limits"]["max_output_kb"] == 1


@pytest.mark.parametrize(
    "code, answer",
    [
        ("print(6*7)", "42\n"),
        ("pass", "(no output)"),
        ("import sys; sys.exit('why')", "Error (exit 1, nonzero_exit): why\n"),
        ("import sys; sys.stdout.buffer.write(b'a\\xff\\xe2\\x82')", "a\ufffd\ufffd"),
        (
            "import time; time.sleep(60)",
            "Error (exit -1, timeout): execution timed out after 1 seconds\n",
        ),
    ],
)
def test_run_python_code_is_one_text(server, code, answer):
    result = call(server, "run_python_code", code=code, timeout=1 if "sleep" in code else 30)
    assert text(result) == answer
    assert not result["isError"] and "structuredContent" not in result
    if "sleep" not in code:
        r = server.post("/tools/run_python_code", {"code": code, "files": {"x": 7}}, {"Accept": "text/event-stream"})
        assert r.status == 200 and r.headers["content-type"] == "text/plain; charset=utf-8"
        assert r.body.decode() == answer


def test_sandbox_run_takes_text(server):
    fields = {"runtime": "sh", "code": "cat a/b; echo $X $1", "files": {"a/b": "ü\n"}, "env": {"X": "x"}, "args": ["y"]}
    answer = call(server, "sandbox_run", **fields)["structuredContent"]
    assert answer.pop("duration_ms") >= 0
    assert answer == {"ok": True, "runtime": "shell", "exit_code": 0, "stdout": "ü\nx y\n", "stderr": "", "error": None}
    r = server.post("/tools/sandbox_run", {"runtime": "sh", "code": "sleep 60", "timeout_seconds": 0.5})
    assert r.json["ok"] is False and r.json["exit_code"] == -1
    assert r.json["error"].startswith("execution timed out after 0.5 second")
    assert server.post("/tools/sandbox_run", {"runtime": "sh", "code": "exit 4"}).json["error"].endswith(" 4")


def test_a_wrong_argument_is_named(server):
    for tool, arguments, part in (
        ("run_code", {}, "code is required"),
        ("run_code", {"code": "1", "timeout": 3}, 'no argument "timeout"; it takes: code, language'),
        ("run_code", {"code": "1", "language": "cobol"}, 'unsupported language "cobol"'),
        ("run_code", {"code": "1", "files": {"/etc/x": ""}}, "/etc/x"),
        ("sandbox_run", {"code": "1", "args": "a"}, "args must be an array"),
        ("run_python_code", {"code": "1", "timeout": -1}, "timeout must be"),
    ):
        result = call(server, tool, **arguments)
        assert result["isError"] and part in text(result), (tool, arguments, result)
    r = ask(server, "tools/call", {"name": "no_such_tool"})
    assert r.json["error"]["code"] == -32602 and "run_code" in r.json["error"]["message"]
    r = server.post("/tools/no_such_tool", {"code": "1"})
    assert r.status == 404 and r.json["code"] == "unknown_tool" and "sandbox_run" in r.json["error"]
    r = server.post("/tools/sandbox_run", {"code": "1", "files": 7})
    assert r.status == 400 and "files must be" in r.json["error"]
    assert server.post("/tools", {"code": "1"}).status == 404
    assert server.get("/tools/run_code").status == 405


def test_other_modes_have_other_tools(start):
    s = start(mode="shell", SANDBOX_TIMEOUT_SEC="7", SANDBOX_WARM="0", SANDBOX_SESSIONS="off")
    tools = ask(s, "tools/list").json["result"]["tools"]
    assert [t["name"] for t in tools] == ["run_code", "sandbox_run"]
    assert tools[0]["inputSchema"]["properties"]["language"]["enum"] == ["shell", "bash", "sh"]
    assert "Limits: 7 s" in tools[0]["description"]
    assert s.post("/tools/run_python_code", {"code": "1"}).status == 404


# ---- long runs


def events(reply):
    """(progress notifications, the answer) of a stream that is over."""
    assert reply.headers["content-type"] == "text/event-stream", reply
    parts = reply.body.decode().split("\n\n")
    assert parts.pop() == "" and all(p.startswith("event: message\ndata: ") for p in parts)
    found = [json.loads(p.split("data: ", 1)[1]) for p in parts]
    return found[:-1], found[-1]


def test_progress_is_told(server):
    arguments = {"runtime": "sh", "code": "sleep 2.2"}
    params = {"name": "sandbox_run", "arguments": arguments, "_meta": {"progressToken": "t"}}
    told, answer = events(ask(server, "tools/call", params, number="x"))
    assert answer["id"] == "x" and answer["result"]["structuredContent"]["ok"]
    steps = [n["params"]["progress"] for n in told]
    assert len(steps) >= 2 and steps == sorted(set(steps))
    for n in told:
        assert n["method"] == "notifications/progress" and n["params"]["progressToken"] == "t"
    plain = ask(server, "tools/call", params | {"arguments": {"code": "pass"}}, Accept="application/json")
    assert plain.headers["content-type"] == "application/json"


def test_a_client_that_hangs_up_ends_its_run(start):
    s, mark = start(mode="shell", SANDBOX_WARM="0"), new_mark()
    params = {"name": "run_code", "arguments": {"code": "sleep 60", "args": [mark]}, "_meta": {"progressToken": 1}}
    request = post(message("tools/call", params), path="/mcp", headers=["Accept: " + BOTH])
    with s.raw(request) as c:
        assert c.reply(head_only=True).headers["content-type"] == "text/event-stream"
        wait_for(lambda: marked(mark))
    wait_for(lambda: not marked(mark))
    wait_for(lambda: s.load() == 0)


@pytest.mark.parametrize("progress", [True, False])
def test_a_request_that_is_given_up_ends(start, progress):
    s, mark, ended = start(mode="shell", SANDBOX_WARM="0"), new_mark(), []
    session = ask(s, "initialize", {"protocolVersion": OLD}).headers["mcp-session-id"]
    params = {"name": "run_code", "arguments": {"code": "sleep 60", "args": [mark]}}
    if progress:
        params["_meta"] = {"progressToken": 1}
    t = threading.Thread(
        target=lambda: ended.append(ask(s, "tools/call", params, number=7, Mcp_Session_Id=session))
    )
    t.start()
    wait_for(lambda: marked(mark))

    def give_up(number, whose):
        m = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}}
        assert s.post("/mcp", m, {"Mcp-Session-Id": whose} if whose else {}).status == 202

    give_up(7, None)  # anybody could say so
    give_up(7, "0" * 32)
    give_up("7", session)
    assert marked(mark) and not ended
    give_up(7, session)
    t.join(20)
    wait_for(lambda: not marked(mark))
    assert ended[0].status == (200 if progress else 202) and b'"result"' not in ended[0].body
    wait_for(lambda: s.load() == 0)


def test_a_full_server_says_so_and_lists_its_tools(start):
    s, mark = start(mode="shell", SANDBOX_MAX_CONCURRENT="1", SANDBOX_WARM="0"), new_mark()
    with s.raw(post({"code": "sleep 60", "args": [mark]})):
        wait_for(lambda: s.load() == 1)
        result = call(s, "run_code", code="true")
        assert result["isError"] and "at capacity (2/1 concurrent executions)" in text(result)
        assert ask(s, "tools/list").status == 200
        assert s.post("/tools/run_code", {"code": "true"}).status == 429
    wait_for(lambda: s.load() == 0)
    assert not call(s, "run_code", code="true")["isError"]


def test_runs_are_stored(start):
    s = start(mode="shell", SANDBOX_STORE_CODE="always", SANDBOX_WARM="0")
    call(s, "run_code", code="echo kept")
    stored = list(pathlib.Path(s.state_dir, "artifacts/executions").glob("*.json"))
    assert [json.loads(p.read_text())["code"] for p in stored] == ["echo kept"]

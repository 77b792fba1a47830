# SPDX-License-Identifier: GPL-2.0-only
"""The tools of sessions by MCP: the same as by REST, with answers that their schemas describe."""

import json
import os
import pathlib
import re
import subprocess

import pytest
from conftest import Server
from test_mcp import OLD, TOOLS, ask, call, events, text

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="they have uids of their own here, for which root is needed")

SESSION_TOOLS = [
    "sandbox_open",
    "sandbox_exec",
    "sandbox_fs_write",
    "sandbox_fs_read",
    "sandbox_fs_list",
    "sandbox_fs_delete",
    "sandbox_close",
]
SCOPE = {"scope_type": "workflow", "scope_id": "run-7"}


@pytest.fixture(scope="module")
def served():
    s = Server({"SANDBOX_SESSIONS": "on", "SANDBOX_WARM": "0"}, mode="python,shell")
    yield s
    s.stop()


def told(server, tool, **arguments):
    """An answer, which has what the tool's schema says that it has."""
    result = call(server, tool, **arguments)
    assert not result["isError"], result
    listed = ask(server, "tools/list").json["result"]["tools"]
    schema = next(t for t in listed if t["name"] == tool)["outputSchema"]
    types = {"string": str, "integer": int, "boolean": bool, "object": dict, "array": list}
    answer = result["structuredContent"]
    assert set(schema["required"]) <= set(answer), answer
    for name in set(answer) & set(schema["properties"]):
        assert isinstance(answer[name], types[schema["properties"][name]["type"]]), name
    return answer


def test_every_tool_is_listed_and_called(served):
    listed = ask(served, "tools/list").json["result"]["tools"]
    assert [t["name"] for t in listed] == TOOLS + SESSION_TOOLS
    opened = told(served, "sandbox_open", **SCOPE)
    assert opened["created"] and opened["session_id"] == "workflow_run-7_sandbox"
    assert not told(served, "sandbox_open", **SCOPE)["created"]
    one = {"session_id": opened["session_id"]}
    assert told(served, "sandbox_fs_write", path="d/a.sh", content="echo hi\n", **one)["size_bytes"] == 8
    done = told(served, "sandbox_exec", command="bash d/a.sh; exit 3", **SCOPE)
    assert done["stdout"] == "hi\n" and done["exit_code"] == 3
    assert told(served, "sandbox_fs_read", path="/work/d/a.sh", **one)["content"] == "echo hi\n"
    assert [e["name"] for e in told(served, "sandbox_fs_list", path="d", **one)["entries"]] == ["a.sh"]
    assert told(served, "sandbox_fs_delete", path="d", recursive=True, **one)["deleted"]
    assert told(served, "sandbox_close", **one)["closed"]


def test_every_tool_shows_an_example_that_works(served):
    ready = {"sandbox_exec": "mkdir tmp; echo > out.log; printf 'test:\\n\\techo tested\\n' > Makefile"}
    for tool in ask(served, "tools/list").json["result"]["tools"]:
        (example,) = re.findall(r" Example: (\{.*\})$", tool["description"])
        words, schema = json.loads(example), tool["inputSchema"]
        assert set(schema.get("required", [])) <= set(words) <= set(schema["properties"]), tool
        if tool["name"] in ready:
            told(served, tool["name"], **words | {"command": ready[tool["name"]]})
        result = call(served, tool["name"], **words)
        assert not result["isError"], (example, result)


MANUAL = pathlib.Path(__file__).parents[2] / "man/sandbox-api.7"


def test_front_matter_becomes_what_the_manual_says(served):
    page = MANUAL.read_text(encoding="ascii").split(".Ss Front matter of agents\n")[1].split(".Ss ")[0]
    head, session, compute = re.findall(r"^\.Bd -literal.*?\n(.*?)^\.Ed$", page, re.M | re.S)
    agent = dict(re.findall(r"^ *(\w+): *(\w+)$", head, re.M))
    assert agent == {
        "name": "analyst", "sandbox": "python", "mode": "code", "session": "workflow",
        "timeout_seconds": "120", "max_files": "50",
    }  # fmt: skip

    def type_it(display):
        """What its commands print, one after the other."""
        lines = display.replace("\\e\n", "\\\n").replace("localhost:8080", f"127.0.0.1:{served.port}")
        first = "shopt -s expand_aliases\n"
        for command in re.split(r"^\$ ", lines, flags=re.M)[1:]:
            if command.startswith("alias"):
                first += command
                continue
            yield subprocess.run(["bash", "-c", first + command], capture_output=True, text=True, check=True).stdout

    commands = type_it(session)
    opened, written, done = (json.loads(next(commands)) for _ in range(3))
    assert opened["created"] and opened["session_id"] == "workflow_7_sandbox"
    assert written["path"] == "/work/sum.py"
    assert (done["stdout"], done["exit_code"]) == ("45\n", 0)
    (kept,) = pathlib.Path(served.state_dir, "session-index").iterdir()
    assert json.loads(kept.read_text(encoding="utf-8"))["timeout_ms"] == 120_000
    # its limits hold, also for the second agent of the run, whose session it is too
    path, run = f"/sessions/{opened['session_id']}", {"X-Workflow-Run-Id": "7"}
    assert not served.post("/tools/sandbox_open", {"limits": {"max_files": 1}}, run).json["created"]
    for n in range(49):
        assert served.post("/tools/sandbox_fs_write", {"path": str(n), "content": ""}, run).status == 200
    assert served.post("/tools/sandbox_fs_write", {"path": "x", "content": ""}, run).json["code"] == "too_many_files"
    # session: agent is one of its own
    r = served.post("/tools/sandbox_open", {"image": agent["sandbox"]}, {"X-Agent-Run-Id": "7"}).json
    assert r["created"] and r["session_id"] == "agent_7_sandbox"
    assert served.request("DELETE", "/scopes/agent/7").json == {"closed": 1}
    assert [json.loads(said) for said in commands] == [{"closed": 1}] and served.get(path).status == 404
    # mode: compute stays nowhere
    assert list(type_it(compute)) == ["45\n"]
    assert served.get("/sessions").json["sessions"] == []


def test_a_header_names_the_session(served):
    params = {"name": "sandbox_open", "arguments": {}}
    r = ask(served, "tools/call", params, MCP_Protocol_Version=OLD, X_Agent_Run_Id="a1")
    assert r.json["result"]["structuredContent"]["session_id"] == "agent_a1_sandbox"
    r = ask(served, "tools/call", {"name": "sandbox_close"}, X_Agent_Run_Id="a1")
    assert r.json["result"]["structuredContent"]["closed"]


def test_what_is_wrong_is_named(served):
    for tool, arguments, part in (
        ("sandbox_exec", {"command": "true"}, "session_required"),
        ("sandbox_exec", {"command": "true", "session_id": "nobodys"}, "no such session"),
        ("sandbox_open", {"scope_type": "x", "scope_id": "y"}, "bad_scope"),
        ("sandbox_open", {"scope": "x"}, 'no argument "scope"'),
    ):
        result = call(served, tool, **arguments)
        assert result["isError"] and part in text(result), (tool, result)
    assert told(served, "sandbox_open", **SCOPE)
    result = call(served, "sandbox_fs_read", path="nothing", **SCOPE)
    assert result["isError"] and "no_such_file" in text(result)
    assert told(served, "sandbox_close", **SCOPE)


def test_a_long_command_tells_its_progress(served):
    told(served, "sandbox_open", **SCOPE)
    arguments = {"command": "sleep 1.5; echo x", **SCOPE}
    params = {"name": "sandbox_exec", "arguments": arguments, "_meta": {"progressToken": 5}}
    notes, answer = events(ask(served, "tools/call", params))
    assert notes and notes[0]["params"]["progressToken"] == 5
    assert answer["result"]["structuredContent"]["stdout"] == "x\n"
    assert told(served, "sandbox_close", **SCOPE)


def test_without_sessions_their_tools_are_not_there(start):
    s = start(mode="shell", SANDBOX_SESSIONS="off", SANDBOX_WARM="0")
    assert [t["name"] for t in ask(s, "tools/list").json["result"]["tools"]] == ["run_code", "sandbox_run"]
    assert ask(s, "tools/call", {"name": "sandbox_open"}).json["error"]["code"] == -32602


def test_arguments_that_models_fill_in_or_get_wrong(served):
    opened = told(served, "sandbox_open", **SCOPE)["session_id"]
    one = {"session_id": opened}
    # an optional text that is empty is none
    assert told(served, "sandbox_exec", command="", cmd=["echo", "hi"], **one)["stdout"] == "hi\n"
    for words in ({}, {"command": ""}, {"command": "true", "cmd": ["true"]}):
        result = call(served, "sandbox_exec", **words, **one)
        assert result["isError"] and "give command, a bash line, or cmd" in text(result), result
    for mode in ("", "0o644", "8", "01777", -1, 511.5, 512, 1e300, 4294967716, True):
        result = call(served, "sandbox_fs_write", path="m", content="x", mode=mode, **one)
        assert result["isError"] and "mode must be" in text(result), (mode, result)
    for mode, shown in (("0600", "600"), ("00644", "644"), (420, "644"), (0, "0")):
        told(served, "sandbox_fs_write", path="m", content="x", mode=mode, **one)
        assert told(served, "sandbox_exec", command="stat -c %a m", **one)["stdout"] == shown + "\n"
    told(served, "sandbox_close", **one)


def test_what_the_server_says_of_itself_is_true_of_its_tools(served):
    said = ask(served, "initialize", {"protocolVersion": OLD, "capabilities": {}}).json["result"]
    assert "run_code" in said["instructions"] and "sandbox_open" in said["instructions"]

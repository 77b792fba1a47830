# SPDX-License-Identifier: GPL-2.0-only
"""sandbox-server mcp: the protocol over standard input and output, as a desktop client starts it."""

import json
import os
import queue
import signal
import subprocess
import sys
import threading

import pytest
from conftest import BINARY, Server, wait_for
from support import marked, new_mark

INITIALIZE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}}
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="sessions need a server started as root")
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


class Stdio(Server):
    """One that is talked to by pipes, and ends with its input."""

    standard = subprocess.PIPE

    def __init__(self, reads=True, state_dir=None, **env):
        super().__init__({"SANDBOX_WARM": "0", **env}, mode="shell", state_dir=state_dir, ready=False)
        self.heard = queue.Queue()
        self.other = []
        if reads:
            threading.Thread(target=self._hear, daemon=True).start()

    def command_line(self, args, env):
        return super().command_line(["mcp", *args[1:]], env)

    def _find_port(self):
        return 0

    def end(self, signo):
        if signo == signal.SIGTERM:
            self.proc.stdin.close()
        else:
            super().end(signo)

    def _hear(self):
        for line in self.proc.stdout:
            self.heard.put(json.loads(line))  # nothing but messages
        self.heard.put(None)

    def say(self, method=None, params=None, number=None, raw=None):
        m = {"jsonrpc": "2.0", "method": method}
        m |= {"id": number} if number is not None else {}
        m |= {"params": params} if params is not None else {}
        self.proc.stdin.write(raw if raw is not None else json.dumps(m).encode() + b"\n")
        self.proc.stdin.flush()

    def next(self):
        return self.heard.get(timeout=60)

    def answer(self, number):
        """Of this request; what else comes meanwhile is kept."""
        for m in [m for m in self.other if m.get("id") == number]:
            self.other.remove(m)
            return m
        while True:
            m = self.next()
            assert m is not None, self.log()
            if m.get("id") == number:
                return m
            self.other.append(m)

    def call(self, number, code, token=None, **arguments):
        params = {"name": "run_code", "arguments": {"code": code, **arguments}}
        if token is not None:
            params["_meta"] = {"progressToken": token}
        self.say("tools/call", params, number)

    def tool(self, name, **arguments):
        """What a call of a session's tool gives."""
        self.last = getattr(self, "last", 1000) + 1
        self.say("tools/call", {"name": name, "arguments": arguments}, self.last)
        return self.answer(self.last)["result"]

    def told(self, name, **arguments):
        result = self.tool(name, **arguments)
        assert not result["isError"], result
        return result["structuredContent"]


@pytest.fixture
def client():
    running = []

    def one(**env):
        running.append(Stdio(**env))
        return running[-1]

    yield one
    for c in running:
        c.stop()


def output(answer):
    return answer["result"]["structuredContent"]["stdout"]


def test_both_kinds_of_clients_are_served(client):
    c = client()
    c.say("initialize", INITIALIZE, 1)
    c.say("notifications/initialized")
    assert c.answer(1)["result"]["protocolVersion"] == "2025-11-25"
    c.say("tools/list", None, "two")
    assert [t["name"] for t in c.answer("two")["result"]["tools"]][:2] == ["run_code", "sandbox_run"]
    c.call(3, "echo $((6*7)); cat; echo $A", stdin="in\n", env={"A": "a"})
    assert output(c.answer(3)) == "42\nin\na\n"
    c.say("server/discover", {"_meta": META}, 4)
    assert c.answer(4)["result"]["resultType"] == "complete"
    c.say("tools/call", {"name": "sandbox_run", "arguments": {"code": "exit 3"}, "_meta": META}, 5)
    assert c.answer(5)["result"]["structuredContent"]["exit_code"] == 3
    c.say("tools/list", {"_meta": META | {"io.modelcontextprotocol/protocolVersion": "1900-01-01"}}, 6)
    assert c.answer(6)["error"]["code"] == -32022
    c.call(7, "true", lang="sh")
    assert "no argument" in c.answer(7)["result"]["content"][0]["text"]


@needs_root
def test_a_call_that_names_no_session_has_one_of_its_own(client):
    c, mark = client(), new_mark()
    c.say("tools/list", None, 1)
    assert "sandbox_exec" in [t["name"] for t in c.answer(1)["result"]["tools"]]
    assert c.tool("sandbox_close")["isError"]  # nobody has opened it
    # at once, and all of them mean the same
    for number in range(10, 14):
        c.say("tools/call", {"name": "sandbox_exec", "arguments": {"command": "echo x >> f"}}, number)
    for number in range(10, 14):
        assert c.answer(number)["result"]["structuredContent"]["exit_code"] == 0
    assert c.told("sandbox_fs_read", path="f")["content"] == "x\n" * 4
    c.told("sandbox_exec", command=f"(exec -a {mark} sleep 60) >&- 2>&- & echo started")
    wait_for(lambda: marked(mark))
    opened = c.told("sandbox_open")
    assert not opened["created"]
    assert c.told("sandbox_fs_list", session_id=opened["session_id"])["entries"][0]["name"] == "f"
    # others have names
    other = c.told("sandbox_open", scope_type="agent", scope_id="a")
    assert other["created"] and other["session_id"] == "agent_a_sandbox"
    assert c.told("sandbox_fs_list", scope_type="agent", scope_id="a")["entries"] == []
    # and after its end it begins anew, for who does not name the one that was
    assert c.told("sandbox_close")["session_id"] == opened["session_id"]
    assert not marked(mark)
    assert "no such session" in str(c.tool("sandbox_fs_list", session_id=opened["session_id"]))
    assert c.told("sandbox_fs_list")["entries"] == []


@needs_root
def test_its_session_ends_with_it_and_others_keep_theirs(client):
    a = client()
    b = client(state_dir=a.state_dir)
    for c, name in ((a, "a"), (b, "b")):
        c.told("sandbox_fs_write", path=name, content=name)
    assert [e["name"] for e in a.told("sandbox_fs_list")["entries"]] == ["a"]
    assert len(os.listdir(f"{a.state_dir}/stdio")) == 2
    b.stop()
    assert len(os.listdir(f"{a.state_dir}/stdio")) == 1
    # what one leaves that is killed, the next one finds; not what somebody has
    c = client(state_dir=a.state_dir)
    c.told("sandbox_fs_write", path="c", content="c")
    c.kill()
    assert len(os.listdir(f"{a.state_dir}/stdio")) == 2
    d = client(state_dir=a.state_dir)
    d.told("sandbox_fs_write", path="d", content="d")
    assert len(os.listdir(f"{a.state_dir}/stdio")) == 2
    assert a.told("sandbox_fs_read", path="a")["content"] == "a"
    d.stop()
    assert not os.path.exists(f"{a.state_dir}/session-index")


CLIENT = """
import json, subprocess, sys, time
p = subprocess.Popen([sys.argv[1], "mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
command = f"echo x > f; (exec -a {sys.argv[2]} sleep 60) >&- 2>&- & echo started"
call = {"name": "sandbox_exec", "arguments": {"command": command}}
p.stdin.write(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}).encode() + b"\\n")
p.stdin.flush()
print(json.loads(p.stdout.readline())["result"]["structuredContent"]["stdout"], p.pid, flush=True)
time.sleep(600)
"""


@needs_root
def test_nothing_is_left_of_it_when_its_client_is_killed(tmp_path):
    mark, state = new_mark(), tmp_path / "state"
    env = {"PATH": os.environ["PATH"], "SANDBOX_CONFIG": "", "SANDBOX_MODE": "shell", "SANDBOX_WARM": "0"}
    tmp_path.chmod(0o755)
    with subprocess.Popen(
        [sys.executable, "-c", CLIENT, BINARY, mark],
        env=env | {"SANDBOX_STATE_DIR": str(state)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as client:
        try:
            assert client.stdout.readline() == "started\n"
            pid = int(client.stdout.readline())
            wait_for(lambda: marked(mark))
            assert os.listdir(state / "stdio")
        finally:
            client.kill()
    wait_for(lambda: not marked(mark) and not os.path.exists(f"/proc/{pid}"), 30)
    assert os.listdir(state / "stdio") == []


@needs_root
def test_sessions_can_be_off(client):
    c = client(SANDBOX_SESSIONS="off")
    c.say("tools/list", None, 1)
    assert [t["name"] for t in c.answer(1)["result"]["tools"]] == ["run_code", "sandbox_run"]
    c.say("tools/call", {"name": "sandbox_open", "arguments": {}}, 2)
    assert c.answer(2)["error"]["code"] == -32602


def test_what_is_no_message(client):
    c = client(SANDBOX_MAX_BODY_MB="1")
    for raw, code in (
        (b"{\n", -32700),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]\n', -32600),
        (b"x" * (1 << 20) + b"y\n", -32600),
    ):
        c.say(raw=raw)
        assert c.next()["error"]["code"] == code
    c.say(raw=b'\n\r\n{"jsonrpc":"2.0","id":1,')
    c.say(raw=b'"method":"ping"}\r\n{"jsonrpc":"2.0","id":2,"method":"ping"}\n')
    assert [c.next()["id"], c.next()["id"]] == [1, 2]


def test_answers_come_as_they_are_done(client):
    c, mark = client(), new_mark()
    c.call(1, "sleep 60", token="t", args=[mark])
    wait_for(lambda: marked(mark), 30)
    c.call(2, "echo fast")
    assert output(c.answer(2)) == "fast\n"
    wait_for(lambda: c.other or c.other.append(c.next()))
    assert c.other[0]["params"]["progressToken"] == "t"
    c.say("notifications/cancelled", {"requestId": 1})
    wait_for(lambda: not marked(mark))
    c.say("ping", None, 3)
    c.answer(3)
    assert not [m for m in c.other if "result" in m]


def test_a_slow_reader_gets_everything(client):
    """Far more than a pipe holds, while nobody reads."""
    c = client(reads=False, SANDBOX_MAX_OUTPUT_KB="1024")
    for number in (1, 2):
        c.call(number, "head -c 900000 /dev/zero | tr '\\0' x")
    wait_for(lambda: len([line for line in c.log().splitlines() if "job.done" in line]) == 2, 60)
    c.say("ping", None, 3)
    got = [json.loads(c.proc.stdout.readline()) for _ in range(3)]
    assert sorted(m["id"] for m in got) == [1, 2, 3]
    assert all(len(output(m)) == 900000 for m in got if m["id"] != 3)


@pytest.mark.parametrize("how", ["input", "output", "term"])
def test_it_ends_with_its_client(client, how):
    c, mark = client(reads=how != "output"), new_mark()
    c.call(1, "sleep 60", token=1, args=[mark])
    wait_for(lambda: marked(mark), 30)
    c.pids()
    if how == "input":
        c.proc.stdin.close()
    elif how == "term":
        c.proc.send_signal(signal.SIGTERM)
    else:
        c.proc.stdout.close()  # progress finds nobody
    assert c.proc.wait(20) == 0, c.log()
    wait_for(lambda: not marked(mark))


def test_standard_input_must_be_a_clients(tmp_path):
    done = subprocess.run(
        [BINARY, "mcp", "--mode", "shell", "--state-dir", str(tmp_path)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1 and done.stdout == ""
    assert "standard input must be a pipe" in done.stderr
    shown = subprocess.run([BINARY, "mcp", "--help"], capture_output=True, text=True, timeout=60, check=True)
    assert shown.stdout.startswith("usage: sandbox-server mcp [SETTINGS]")

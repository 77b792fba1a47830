# SPDX-License-Identifier: GPL-2.0-only
"""MCP with those who speak it: the official SDKs' clients, the inspector, the conformance scenarios."""

import concurrent.futures
import json
import os
import subprocess

import pytest
from conftest import BINARY, TOP, Server, wait_for
from node22 import from_npm, node22_program
from test_mcp import TOOLS
from test_mcp_sessions import SESSION_TOOLS

PLACE = os.path.join(TOP, "build/mcp-clients")
PACKAGES = [
    "@modelcontextprotocol/sdk@1.32.2",
    "@modelcontextprotocol/client@2.4.0",
    "@modelcontextprotocol/inspector@2.12.0",
    "@modelcontextprotocol/conformance@0.2.0-alpha.12",
]
SESSIONS = "on" if os.geteuid() == 0 else "off"
ALL_TOOLS = TOOLS + SESSION_TOOLS if SESSIONS == "on" else TOOLS
DRIVER = os.path.join(TOP, "tests/api/mcp_client.mjs")
KINDS = ["v1", "v2", "v2-auto", "v2-pin"]
AT_ONCE = 3
# a session from its first tool to its last, and a word of each answer
IN_SESSION = {
    "sandbox_open": ([], '"created":true'),
    "sandbox_fs_write": (["path=d/a", "content=text"], '"size_bytes":4'),
    "sandbox_exec": (["command=cat d/a; exit 3"], '"exit_code":3'),
    "sandbox_fs_read": (["path=d/a", "max_bytes=3"], '"content":"tex"'),
    "sandbox_fs_list": (["recursive=true"], '"name":"d/a"'),
    "sandbox_fs_delete": (["path=d", "recursive=true"], '"deleted":true'),
    "sandbox_close": ([], '"closed":true'),
}

# what a scenario asks for that this server does not have: tools for the scenario, prompts, resources
LACKS = {
    "server-initialize": set(),
    "server-session-lifecycle": set(),
    "server-stateless": {
        "sep-2575-server-rejects-undeclared-capability",
        "sep-2575-missing-capability-http-400",
        "sep-2575-http-server-no-independent-requests-on-stream",
        "sep-2575-server-no-log-without-loglevel",
    },
    "ping": set(),
    "tools-list": set(),
    "server-sse-multiple-streams": set(),
    "dns-rebinding-protection": set(),
    "http-header-validation": set(),
    "caching": {
        "sep-2549-prompts-list-caching-hints",
        "sep-2549-resources-list-caching-hints",
        "sep-2549-resources-templates-list-caching-hints",
    },
}

pytestmark = pytest.mark.timeout(400)  # what is installed once comes from far away


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    """Runs programs of node 22, with nothing of whoever runs the tests."""
    program = node22_program()
    from_npm(PLACE, *PACKAGES, options=["--ignore-scripts", "--omit=dev"])
    home = tmp_path_factory.mktemp("mcp")
    os.chmod(home, 0o755)
    env = {
        "PATH": os.path.dirname(program) + ":" + os.environ["PATH"],
        "HOME": str(home),
        "NO_COLOR": "1",
        "SANDBOX_MODE": "python,shell",
        "SANDBOX_WARM": "0",
        "SANDBOX_STATE_DIR": str(home / "state"),
    }
    env |= {k: v for k, v in os.environ.items() if k.endswith("SAN_OPTIONS")}

    def run(script, *args):
        if "/" not in script:
            script = f"{PLACE}/node_modules/.bin/{script}"
        return subprocess.run(
            [program, script, *args],
            cwd=home,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )

    return run


@pytest.fixture(scope="module")
def served():
    """One that is never full: what was given up may take a moment to go."""
    env = {"SANDBOX_MAX_CONCURRENT": "16", "SANDBOX_WARM": "0", "SANDBOX_SESSIONS": SESSIONS}
    s = Server(env, mode="python,shell")
    yield s
    s.stop()


@pytest.fixture(scope="module")
def together(node, served, tmp_path_factory):
    """Everything at once, since all of it mostly waits: name to how it ended."""
    url, results = f"http://localhost:{served.port}/mcp", str(tmp_path_factory.mktemp("results"))
    inspect = ["mcp-inspector", "--cli", url, "--method"]
    jobs = {f"{k} http": [DRIVER, PLACE, k, url] for k in KINDS}
    jobs |= {f"{k} stdio": [DRIVER, PLACE, k, BINARY, "mcp"] for k in ("v1", "v2-auto")}
    for name in LACKS:
        jobs[name] = ["conformance", "server", "--url", url, "--scenario", name, "-o", f"{results}/{name}"]
    jobs["list"] = [*inspect, "tools/list", "--strict"]
    for tool in TOOLS:
        jobs[tool] = [*inspect, "tools/call", "--tool-name", tool, "--tool-arg", "code=print(6*7)"]

    def in_session():
        """One after the other, each a client of its own."""
        scope, done = ["scope_type=agent", "scope_id=inspector"], {}
        for tool, (args, _) in IN_SESSION.items() if SESSIONS == "on" else []:
            words = [w for arg in scope + args for w in ("--tool-arg", arg)]
            done[tool] = node(*inspect, "tools/call", "--tool-name", tool, *words)
        return done

    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        begun = {"session": pool.submit(in_session)}
        begun |= {name: pool.submit(node, *args) for name, args in jobs.items()}
    return {name: one.result() for name, one in begun.items()} | {"results": results}


def answer(done):
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return json.loads(done.stdout)


@pytest.mark.parametrize("client", [f"{k} http" for k in KINDS] + ["v1 stdio", "v2-auto stdio"])
def test_an_official_client_lists_and_calls_every_tool(together, client):
    got = answer(together[client])
    assert got["version"]["name"] == "sandbox-server"
    assert [t["name"] for t in got["tools"]] == ALL_TOOLS
    assert got["run_code"]["structuredContent"]["stdout"] == "42\n"
    assert got["run_python_code"]["content"][0]["text"].endswith("ZeroDivisionError: division by zero\n")
    assert got["sandbox_run"]["structuredContent"]["stdout"] == "hi"
    assert got["progress"] and got["progress"][0]["total"] == 30
    assert got["wrong"]["isError"] and "it takes: code, language" in got["wrong"]["content"][0]["text"]
    assert got["unknown"]["code"] == -32602 and "run_code" in got["unknown"]["message"]
    assert "enough" in got["given_up"]
    if got["tools"][-1]["name"] == "sandbox_close":
        one = got["session"]
        assert one["exec"]["stdout"] == one["fs_read"]["content"] == "text" and one["exec"]["exit_code"] == 3
        assert [e["name"] for e in one["fs_list"]["entries"]] == ["a"]
        assert one["open"]["created"] and one["fs_delete"]["deleted"] and one["close"]["closed"]


def test_no_run_is_left_of_what_was_given_up(together, served):
    assert together
    wait_for(lambda: served.load() == 0)


@pytest.mark.parametrize("scenario", LACKS)
def test_a_conformance_scenario_passes(together, scenario):
    done, checks = together[scenario], []
    for top, _, names in os.walk(f"{together['results']}/{scenario}"):
        for name in names:
            if name == "checks.json":
                with open(os.path.join(top, name), encoding="utf-8") as f:
                    checks += json.load(f)
    assert [c for c in checks if c["status"] == "SUCCESS"], done.stdout[-2000:] + done.stderr[-2000:]
    assert {c["id"] for c in checks if c["status"] == "FAILURE"} == LACKS[scenario]


def test_the_inspector_lists_and_calls_every_tool(together):
    assert [t["name"] for t in answer(together["list"])["tools"]] == ALL_TOOLS
    for tool in TOOLS:
        result = answer(together[tool])
        assert result["isError"] is False and "42" in result["content"][0]["text"], tool
    for tool, done in together["session"].items():
        result = answer(done)
        assert result["isError"] is False and IN_SESSION[tool][1] in result["content"][0]["text"], (tool, result)
    assert set(together["session"]) == set(ALL_TOOLS) - set(TOOLS)

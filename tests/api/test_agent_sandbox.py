# SPDX-License-Identifier: GPL-2.0-only
"""The runtime that the SDK of agent-sandbox expects, asked by that SDK and by hand."""

import json
import os
import re
import socket
import subprocess
import urllib.parse
from concurrent.futures import ThreadPoolExecutor

import pytest

from conftest import TOP, Server
from packages import from_pypi

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="they have uids of their own here, for which root is needed")
SESSION = "agent_agent-sandbox_sandbox"


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@pytest.fixture(scope="module")
def served():
    port = free_port()
    s = Server({"SANDBOX_SESSIONS": "on", "SANDBOX_WARM": "0", "SANDBOX_AGENT_PORT": str(port)}, (), "shell")
    s.agent_port = port
    yield s
    s.stop()


def run(served, command, **more):
    r = served.post("/execute", {"command": command, **more})
    assert r.status == 200, r
    return r.json


def upload(served, name, content, field="file", kind="multipart/form-data; boundary=b"):
    head = f'--b\r\nContent-Disposition: form-data; name="{field}"; filename="{name}"\r\n\r\n'
    body = head.encode() + content + b"\r\n--b--\r\n"
    return served.request("POST", "/upload", body, {"Content-Type": kind})


def path(name):
    return urllib.parse.quote(name, safe="")


# as its users write it; the whole client comes from the registry
PROGRAM = """
import json, sys
from k8s_agent_sandbox.connector import SandboxConnector
from k8s_agent_sandbox.commands.command_executor import CommandExecutor
from k8s_agent_sandbox.files.filesystem import Filesystem
from k8s_agent_sandbox.models import SandboxDirectConnectionConfig

said = []
for url in sys.argv[1:]:
    connector = SandboxConnector("id", "default", SandboxDirectConnectionConfig(api_url=url), None)
    commands, files = CommandExecutor(connector, None, "t"), Filesystem(connector, None, "t")
    files.write("dir/ä b.bin", bytes(range(256)))
    files.write("text.txt", "first line")
    r = commands.run("wc -c < 'dir/ä b.bin'; cat text.txt; echo oops >&2; exit 3")
    slow = commands.run("echo before; sleep 60", command_timeout=1)
    said.append({
        "result": [r.stdout, r.stderr, r.exit_code, r.timed_out],
        "slow": [slow.stdout, slow.timed_out],
        "bytes": files.read("dir/ä b.bin") == bytes(range(256)),
        "list": sorted((e.name, e.type, e.size) for e in files.list(".") if e.name in ("dir", "text.txt")),
        "below": [(e.name, e.size, e.modified.year > 2020) for e in files.list("dir")],
        "exists": [files.exists(p) for p in ("dir/ä b.bin", "dir", "nothing", "text.txt/x")],
    })
    try:
        files.read("nothing")
    except Exception as e:
        said[-1]["missing"] = e.status_code == 404
print(json.dumps(said))
"""


@pytest.mark.timeout(420)
def test_its_own_client_works_on_both_ports(served):
    place = from_pypi(os.path.join(TOP, "build/agent-sandbox"), "k8s-agent-sandbox")
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": place, "LANG": "C.UTF-8", "no_proxy": "*"}
    urls = [served.url, f"http://127.0.0.1:{served.agent_port}"]
    done = subprocess.run(
        ["/usr/bin/python3", "-c", PROGRAM, *urls], env=env, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    for said in json.loads(done.stdout):
        assert said == {
            "result": ["256\nfirst line", "oops\n", 3, False],
            "slow": ["before\n", True],
            "bytes": True,
            "list": [["dir", "directory", 0], ["text.txt", "file", 10]],
            "below": [["ä b.bin", 256, True]],
            "exists": [True, True, False, False],
            "missing": True,
        }


def test_all_of_it_is_one_session_made_when_it_is_wanted(served):
    assert run(served, "echo $PWD; echo 1 > here")["stdout"] == "/work\n"
    assert [s["session_id"] for s in served.get("/sessions").json["sessions"]] == [SESSION]
    assert served.get("/download/here").body == b"1\n"
    assert served.request("DELETE", f"/sessions/{SESSION}").status == 200
    gone = served.get("/exists/here")  # a new one, with nothing in it
    assert gone.json == {"path": "here", "exists": False}
    assert upload(served, "/a//b.txt", b"x").json == {"message": "File 'a//b.txt' uploaded successfully."}
    assert run(served, "cat a/b.txt")["stdout"] == "x"


def test_more_files_can_be_uploaded_than_a_tool_may_write(served):
    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(lambda i: upload(served, f"many/{i}", b"x").status, range(105)))
    assert set(done) == {200}, done
    assert len(served.get("/list/many").json) == 105


def test_the_root_says_that_it_is_there(served):
    assert served.get("/").json["status"] == "ok"


def test_a_get_may_come_in_chunks_as_from_the_router(served):
    run(served, "echo 1 > routed")
    head = "GET /download/routed HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    with served.raw(head.encode()) as c:
        r = c.reply()
    assert r.status == 200 and r.body == b"1\n"


def test_a_long_list_is_whole(served):
    run(served, "rm -rf many; mkdir many; cd many; seq 2500 | xargs touch; ln -s x link; mkfifo pipe")
    r = served.get("/list/many")
    assert r.status == 200 and len(r.json) == 2502
    kinds = {e["name"]: e["type"] for e in r.json}
    assert len(kinds) == 2502 and kinds["link"] == kinds["pipe"] == kinds["7"] == "file"


@pytest.mark.parametrize(
    "method, where, status, code",
    [
        ("GET", "/download/nothing", 404, "no_such_file"),
        ("GET", "/download/", 404, "no_such_file"),
        ("GET", "/list/nothing", 404, "no_such_file"),
        ("GET", "/download/" + path("../../etc/passwd"), 400, "bad_path"),
        ("GET", "/exists/..", 400, "bad_path"),
        ("GET", "/exists/a%00b", 400, "bad_path"),
        ("GET", "/exists/%zz", 400, "bad_path"),
        ("GET", "/exists/" + "x" * 5000, 400, "bad_path"),
    ],
)
def test_what_is_refused_has_a_message(served, method, where, status, code):
    r = served.request(method, where)
    assert r.status == status and r.json["code"] == code, r
    assert set(r.json) == {"message", "code"} and r.json["message"]


def test_bad_uploads_leave_nothing(served):
    run(served, "rm -rf /work/*")
    for r, status in (
        (upload(served, "a", b"x", field="other"), 400),
        (upload(served, "../a", b"x"), 400),
        (upload(served, "a", b"x", kind="text/plain"), 415),
        (upload(served, "a", b"x", kind="multipart/form-data"), 400),
        (served.request("POST", "/upload", b"--b\r\n", {"Content-Type": "multipart/form-data; boundary=b"}), 400),
    ):
        assert r.status == status and r.json["message"], r
    assert run(served, "ls -A")["stdout"] == ""


def test_links_lead_nowhere_else(served):
    run(served, "ln -s /etc/passwd out; ln -s / top")
    for where in ("/download/out", "/list/top%2Fproc", "/download/top%2Fproc%2F1%2Fenviron"):
        r = served.get(where)
        assert r.status in (400, 403, 404) or b"root:" not in r.body, r


def test_code_is_code_and_neither_is_an_error(served):
    both = served.post("/execute", {"code": "echo code", "command": "echo command"})
    assert both.json["stdout"] == "code\n" and "status" in both.json
    for body in ({}, {"command": 1}, {"command": None}):
        r = served.post("/execute", body)
        assert r.status == 400 and r.json["code"] == "code_required"
    assert served.post("/execute", {"command": ""}).status == 400


def test_without_sessions_it_says_why(start):
    s = start(mode="shell", SANDBOX_SESSIONS="off", SANDBOX_WARM="0")
    for r in (s.post("/execute", {"command": "true"}), s.get("/list/."), upload(s, "a", b"x")):
        assert r.status == 501 and r.json["code"] == "sessions_unavailable" and r.json["message"]


def test_the_second_port_is_a_setting(start):
    port = free_port()
    s = start("--agent-port", str(port), mode="shell", SANDBOX_WARM="0")
    with socket.create_connection(("127.0.0.1", port)) as c:
        c.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
        assert re.match(rb"HTTP/1.1 200", c.recv(100))
    assert s.get("/healthz").status == 200

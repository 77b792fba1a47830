# SPDX-License-Identifier: GPL-2.0-only
"""Must hold 13: everyday programs pass inside exactly as outside."""

import fcntl
import os
import shutil
import subprocess
import tempfile

import pytest

from conftest import GO_STATE, TOP, Server, found_modes, wait_for
from everyday import GO_HTTP, GOLANG, NODE, PYTHON, SHELL
from node22 import node22  # noqa: F401, a fixture
from probes import real_program


def outside(argv, script, code):
    """The same program on the host: (stdout, stderr, exit code)."""
    with tempfile.TemporaryDirectory(prefix="outside-") as top:
        work, tmp = os.path.join(top, "work"), os.path.join(top, "tmp")
        os.makedirs(os.path.join(work, "output"))
        os.makedirs(tmp)
        with open(os.path.join(work, script), "w", encoding="utf-8") as f:
            f.write(code)
        env = {
            "PATH": os.path.dirname(argv[0]) + ":/usr/local/bin:/usr/bin:/bin",
            "HOME": tmp,
            "TMPDIR": tmp,
            "LANG": "C.UTF-8",
            "OUTPUT_DIR": os.path.join(work, "output"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONUNBUFFERED": "1",
        }
        if argv[0].endswith("go"):
            env.update(GOCACHE=os.path.join(TOP, "build/go-cache-outside"), GOPATH=tmp + "/go")
            env.update(GOTOOLCHAIN="local", GOPROXY="off")
        done = subprocess.run(
            [*argv, script],
            cwd=work,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=110,
            check=False,
        )
        code = done.returncode if done.returncode >= 0 else 128 - done.returncode
        places = ((work, "/work"), (tmp, "/tmp"))

        def plain(data):
            said = data.decode()
            for there, here in places:
                said = said.replace(there, here)
            return said

        return plain(done.stdout), plain(done.stderr), code


def same(server, language, argv, script, code, errors=True, **fields):
    r = server.execute(code, language=language, limits={"max_output_kb": 1024}, **fields)
    inside = r["stdout"], r["stderr"], r["exit_code"]
    expected = outside(argv, script, code)
    if not errors:
        inside, expected = (inside[0], inside[2]), (expected[0], expected[2])
    assert inside == expected, r["meta"]


def need(mode):
    if mode not in found_modes():
        pytest.skip(f"no runtime for {mode}")


@pytest.mark.parametrize("name", PYTHON)
def test_python(server, name):
    need("python")
    python = real_program("python3")
    r = server.execute("import sys; print(sys.executable)", language="python")
    assert r["stdout"] == python + "\n", "the comparison is with another interpreter"
    if name == "memory files" and not server.get("/health").json["isolation"]["layers"]["memory_limit"]:
        r = server.execute(PYTHON[name], language="python")  # nobody would count them
        assert r["stderr"].endswith("OSError: [Errno 38] Function not implemented\n")
        return
    same(server, "python", [python], "script.py", PYTHON[name])


@pytest.mark.parametrize("name", NODE)
def test_node(server, name):
    need("node")
    same(server, "node", [real_program("node")], "script.js", NODE[name])


@pytest.mark.parametrize("name", SHELL)
def test_shell(server, name):
    need("shell")
    same(server, "shell", ["/bin/bash"], "script.sh", SHELL[name])


@pytest.fixture(scope="module")
def go_server():
    """A server whose compile cache is full; it is kept in build/ for the next time."""
    need("golang")
    os.makedirs(GO_STATE, exist_ok=True)
    with open(GO_STATE + ".lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one at a time fills it
        s = Server({}, (), "golang", state_dir=GO_STATE)
        seeds = os.path.join(GO_STATE, "go-cache")
        if all(name.endswith(".new") for name in os.listdir(seeds)):
            assert "seed.done" in s.wait_log(r"seed\.(done|none)", 1200)
        wait_for(lambda: s.get("/readyz").status == 200, 30)
        yield s
        s.stop()


@pytest.mark.timeout(1300)
@pytest.mark.parametrize("name", GOLANG)
def test_golang(go_server, name):
    # what `go run` says about an exit status is on stderr, in its own words
    same(go_server, "golang", [real_program("go"), "run"], "script.go", GOLANG[name])


@pytest.mark.timeout(1300)
def test_golang_httptest_fails_cleanly(go_server):
    """There is no network: an error, in time, and no hang."""
    r = go_server.execute(GO_HTTP, timeout_seconds=60)
    assert r["stdout"] == (
        "listen: listen tcp 127.0.0.1:0: socket: address family not supported by protocol\n"
        "get: true\n"
        "recovered: true\n"
    ), r
    assert (r["exit_code"], r["meta"]["verdict"]) == (0, "ok")


TYPESCRIPT = """
interface Point { x: number; y: number }
type Named<T> = T & { name: string };
function length(p: Point): number { return Math.hypot(p.x, p.y); }
const p: Named<Point> = { x: 3, y: 4, name: "p" };
console.log(p.name, length(p), process.argv[1]);
"""


@pytest.mark.timeout(300)
def test_typescript_with_a_node_that_strips_types(start, node22):
    s = start(mode="node", PATH=node22 + ":" + os.environ["PATH"])
    version = s.get("/health").json["runtime_version"]
    assert version.startswith("v22.")
    for language in ("typescript", "ts"):
        r = s.execute(TYPESCRIPT, language=language)
        assert (r["stdout"], r["stderr"], r["exit_code"]) == ("p 5 /work/script.ts\n", "", 0)
        assert r["meta"]["mode"] == "node"
    r = s.execute("console.log(process.version)")
    assert r["stdout"] == version + "\n"
    r = s.execute("const x: number = ;", language="ts")
    assert r["exit_code"] == 1 and "SyntaxError" in r["stderr"]


def test_typescript_with_an_older_node_names_the_version_that_can(server):
    need("node")
    node = subprocess.run(
        [real_program("node"), "--version"], capture_output=True, text=True, check=True
    )
    version = node.stdout.strip().lstrip("v")
    if [int(n) for n in version.split(".")[:2]] >= [22, 6]:
        pytest.skip(f"node {version} strips types")
    r = server.post("/execute", {"code": TYPESCRIPT, "language": "typescript"})
    assert r.status == 400
    assert r.json == {
        "error": f"typescript needs node 22.6 or later, this is node {version}",
        "code": "unsupported_language",
    }

# SPDX-License-Identifier: GPL-2.0-only
"""Packages where no namespace can be made: an install has one port of the host's network, that
of its broker, which wants a secret; the program that uses the packages has none at all."""

import ast
import glob
import http.server
import json
import os
import shutil
import signal
import socket
import subprocess
import threading

import pytest

from conftest import _children, found_modes, wait_for
from packages import place_with_uv, sdist, wheel
from probes import launcher_pid, part
from shared import KINDS, Locked
from shared import PATH as LOCKED_PATH
from support import Later, check_healthy
from test_requirements import SHOW, failed
from test_requirements_attack import Registry, tarball
from test_requirements_index import PROBE, Index

# a package that runs code of its own where it is installed; what it found becomes its module
HOOK = """
import base64, os, socket, sys, urllib.parse, zipfile
NAME, OTHER = "evil-1.0-py3-none-any.whl", ("127.0.0.1", %d)
proxy = urllib.parse.urlsplit(os.environ["http_proxy"])
def tried(f):
    try: return f() and None
    except OSError as e: return e.errno
def ask(secret):
    head = "GET http://127.0.0.1:%%d/simple/greet/ HTTP/1.1\\r\\n" %% OTHER[1]
    if secret: head += "Proxy-Authorization: Basic %%s\\r\\n" %% base64.b64encode(b"x:" + secret.encode()).decode()
    with socket.create_connection((proxy.hostname, proxy.port), 5) as s:
        s.sendall(head.encode() + b"\\r\\n")
        return int(s.recv(64).split(b" ")[1])
def build_wheel(directory, config_settings=None, metadata_directory=None):
    new = socket.socket
    found = {
        "other port": tried(lambda: new().connect(OTHER)),
        "fast open": tried(lambda: new().sendto(b"GET / HTTP/1.0\\r\\n\\r\\n", socket.MSG_FASTOPEN, OTHER)),
        "listens": tried(lambda: new().listen()),
        "binds": tried(lambda: new().bind(("127.0.0.1", 0))),
        "datagram": tried(lambda: new(socket.AF_INET, socket.SOCK_DGRAM)),
        "inet6": tried(lambda: new(socket.AF_INET6)),
        "unix": tried(lambda: new(socket.AF_UNIX)),
        "mptcp": tried(lambda: new(socket.AF_INET, socket.SOCK_STREAM, 262)),
        "secrets": [ask(None), ask("0" * 64), ask(proxy.password)],
        "modes": tried(lambda: os.chmod(sys.executable, 0o777)),
    }
    info = "evil-1.0.dist-info/"
    with zipfile.ZipFile(os.path.join(directory, NAME), "w") as z:
        z.writestr("evil.py", "FOUND = " + repr(found))
        z.writestr(info + "METADATA", "Metadata-Version: 2.1\\nName: evil\\nVersion: 1.0\\n")
        z.writestr(info + "WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        z.writestr(info + "RECORD", "evil.py,,\\n" + info + "METADATA,,\\n" + info + "WHEEL,,\\n")
    return NAME
"""
PROJECT = '[build-system]\nrequires = []\nbuild-backend = "hook"\nbackend-path = ["."]\n'
EPERM, EACCES, EOPNOTSUPP, EAFNOSUPPORT = 1, 13, 95, 97


def serve(handler):
    s = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    s.daemon_threads, s.block_on_close = True, False
    threading.Thread(target=s.serve_forever, daemon=True).start()
    return s


@pytest.fixture(scope="module")
def place():
    top = place_with_uv()
    os.mkdir(top + "/wheels")
    wheel(top + "/wheels", "greet", "1.0", {"greet.py": "WORD = 'hello'\n", "greet_tool": "#!/bin/sh\necho tool\n"})
    yield top
    shutil.rmtree(top)


@pytest.fixture(scope="module")
def index(place):
    s = serve(Index)
    s.wheels, s.asked, s.over = place + "/wheels", [], threading.Event()
    sdist(s.wheels, "evil", "1.0", "", pyproject__toml=PROJECT, hook__py=HOOK % s.server_port)
    yield s
    s.over.set()
    s.shutdown()
    s.server_close()


@pytest.fixture(scope="module")
def registry():
    s = serve(Registry)
    about = {"name": "evil", "version": "1.0.0", "scripts": {"postinstall": "node run.js"}}
    s.package = tarball({
        "package.json": json.dumps(about), "index.js": "exports.word = 'hello'",
        "run.js": "require('fs').writeFileSync('ran.js', 'exports.ran = true')",
    })  # fmt: skip
    yield s
    s.shutdown()
    s.server_close()


def settings(place, index, registry, **more):
    return {
        "PATH": place + "/bin:" + LOCKED_PATH,
        "SANDBOX_PYTHON_INDEX": f"http://127.0.0.1:{index.server_port}/simple",
        "SANDBOX_NPM_REGISTRY": f"http://127.0.0.1:{registry.server_port}/",
        "SANDBOX_INSTALL_TIMEOUT_SEC": "30",
        **more,
    }


@pytest.fixture(scope="module", params=KINDS)
def locked(request, place, index, registry):
    modes = "python,node" if "node" in found_modes() and shutil.which("node", path=LOCKED_PATH) else "python"
    s = Locked(request.param, modes, **settings(place, index, registry, SANDBOX_NETWORK="10.9.8.7"))
    yield s
    s.stop()


def listens_at(pid):
    """The port of the loopback at which it does."""
    own = {os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}
    with open(f"/proc/{pid}/net/tcp", encoding="ascii") as f:
        rows = [line.split() for line in f][1:]
    return next((int(r[1].split(":")[1], 16) for r in rows if r[3] == "0A" and f"socket:[{r[9]}]" in own), None)


def brokers(server):
    mothers = [p for p in _children(server.pid) if part(p) == "egress"]
    return [p for m in mothers for p in _children(m)]


def test_packages_come_from_the_index(locked, index):
    r = locked.execute(SHOW, requirements=["greet"])
    assert r["stdout"].startswith(f"hello {locked.state_dir}/layers/"), r["stderr"]
    assert r["meta"]["isolation"] == "landlock" and r["meta"]["install_ms"] > 0
    asked = len(index.asked)
    r = locked.execute(SHOW, requirements=["greet"])
    assert r["meta"]["install_ms"] == 0 and len(index.asked) == asked
    wait_for(lambda: brokers(locked) == [], 10)


def test_programs_among_packages_can_be_executed(locked):
    """As a plain user an installer can set no mode: what begins as a program is one."""
    if locked.kind != "plain":
        return  # the wheel of the test has no modes
    code = "import greet, subprocess; print(subprocess.check_output([greet.__file__[:-3] + '_tool']))"
    r = locked.execute(code, requirements=["greet"])
    assert r["stdout"] == "b'tool\\n'\n", r["stderr"]


def test_packages_of_node_come_from_the_registry(locked):
    if "node" not in locked.get("/health").json.get("modes", []):
        pytest.skip("no node")
    code = "import('evil').then(m => console.log(m.default.word, require('evil').word))"
    r = locked.execute(code, language="js", requirements=["evil"])
    assert r["stdout"] == "hello hello\n", r["stderr"]
    r = locked.execute("require('evil/ran.js')", language="js", requirements=["evil"])
    assert "Cannot find module" in r["stderr"]
    assert r["stderr"].endswith(", which SANDBOX_ALLOW_BUILD=true permits\n")


def test_the_program_itself_has_no_network(locked, index):
    port, asked = index.server_port, len(index.asked)
    code = "import socket\nfor f in (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX):\n"
    code += "    try: socket.socket(f); print('made')\n    except OSError as e: print(e.errno)\n"
    for more in ({}, {"requirements": ["greet"]}):
        assert locked.execute(code, **more)["stdout"] == f"{EAFNOSUPPORT}\n" * 3
        assert locked.execute(PROBE % (port, port), **more)["stdout"] == "refused\nrefused\n"
    assert len(index.asked) == asked
    r = locked.post("/execute", {"code": "1", "network": True})
    assert r.status == 501 and r.json["code"] == "network_unavailable", r
    assert locked.get("/isolation").json["network"] == "installs"


@pytest.mark.parametrize("kind", KINDS)
def test_nor_has_it_any_while_others_install(kind, place, index, registry):
    """Whose broker listens on the loopback that it shares with all."""
    s = Locked(kind, "python", **settings(place, index, registry, SANDBOX_INSTALL_TIMEOUT_SEC="10"))
    try:
        install = Later(s, "1", requirements=["hangs"])
        (broker,) = wait_for(lambda: brokers(s))
        port = wait_for(lambda: listens_at(broker))
        with socket.create_connection(("127.0.0.1", port), 5) as outside:  # it is there
            outside.sendall(b"CONNECT a.test:80 HTTP/1.1\r\n\r\n")
            assert b" 407 " in outside.recv(100)
        code = "import socket\nfor f in (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX):\n"
        code += "    try: socket.socket(f); print('made')\n    except OSError as e: print(e.errno)\n"
        assert s.execute(code)["stdout"] == f"{EAFNOSUPPORT}\n" * 3
        assert s.execute(PROBE % (port, index.server_port))["stdout"] == "refused\nrefused\n"
        assert brokers(s) == [broker] and not install.over()
        assert install.result()["meta"]["install"]["reason"] == "timeout"
        assert s.log().count("verdict=no_secret") == 1
    finally:
        s.stop()


def test_what_cannot_be_installed_is_told(locked):
    assert "nosuch" in failed(locked.execute("1", requirements=["nosuch"]), "missing_package")
    check_healthy(locked)


@pytest.mark.parametrize("kind", KINDS)
def test_packages_of_node_come_from_a_cache(kind, place, registry, tmp_path):
    """A directory that npm filled, where it could reach a registry."""
    if not (shutil.which("node", path=LOCKED_PATH) and shutil.which("npm", path=LOCKED_PATH)):
        pytest.skip("no node")
    cache, url = f"{place}/npm-{kind}", f"http://127.0.0.1:{registry.server_port}/"
    env = {"PATH": LOCKED_PATH, "HOME": str(tmp_path), "npm_config_registry": url}
    line = ["npm", "install", "--ignore-scripts", "--no-audit", "--cache", cache, "evil"]
    subprocess.run(line, cwd=tmp_path, env=env, check=True, capture_output=True, timeout=60)
    for top, _, files in os.walk(cache):  # for the uids of runs
        os.chmod(top, 0o755)
        for name in files:
            os.chmod(os.path.join(top, name), 0o644)
    s = Locked(kind, "node", PATH=LOCKED_PATH, SANDBOX_NPM_REGISTRY=cache, npm_config_registry=url)
    try:
        r = s.execute("console.log(require('evil').word)", requirements=["evil"])
        assert r["stdout"] == "hello\n", r["stderr"]
        assert s.get("/isolation").json["network"] == "none"
        look = f"try {{ console.log(fs.readdirSync('{cache}')) }} catch (e) {{ console.log(e.code) }}"
        for more in ({}, {"requirements": ["evil"]}):  # it is for installs alone
            assert s.execute("const fs = require('fs'); " + look, **more)["stdout"] == "EACCES\n"
    finally:
        s.stop()


def test_who_forks_brokers_ends_where_nobody_has_network(place):
    s = Locked("plain", "python", PATH=LOCKED_PATH, SANDBOX_NETWORK="10.9.8.7", SANDBOX_PYTHON_INDEX="none")
    try:
        wait_for(lambda: "egress" not in [part(p) for p in _children(s.pid)], 10)
        assert s.get("/isolation").json["network"] == "none"
        places = glob.glob(s.state_dir + "/sandbox-runs.*")
        os.kill(launcher_pid(s), signal.SIGKILL)
        wait_for(lambda: s.log().count("launcher.report ") == 2, 20)
        for left in places:  # swept by the next start, unless a worker still died meanwhile
            shutil.rmtree(left, ignore_errors=True)
        wait_for(lambda: "egress" not in [part(p) for p in _children(s.pid)], 10)
        check_healthy(s)
    finally:
        s.stop()


def test_the_real_registry(place):
    """As the environment configures it; skips where none can be reached."""
    names = [k for k in os.environ if k.startswith(("PIP_", "UV_", "SSL_")) or k.lower().endswith("_proxy")]
    env = {k: os.environ[k] for k in names}
    s = Locked("plain", "python", PATH=place + "/bin:" + LOCKED_PATH, SANDBOX_INSTALL_TIMEOUT_SEC="60", **env)
    try:
        r = s.execute("import six; print(six.__version__)", requirements=["six"])
        if r["meta"]["verdict"] == "install_failed" and r["meta"]["install"]["reason"] != "failed":
            pytest.skip("no registry can be reached: " + r["stderr"][:200])
        assert r["stdout"].startswith("1."), r["stderr"]
    finally:
        s.stop()


@pytest.mark.parametrize("kind", KINDS)
def test_an_install_reaches_its_broker_and_nothing_else(kind, place, index, registry):
    """IN02: the code of a package, which the operator lets run, in the host's own network."""
    before = os.stat("/usr/bin/python3").st_mode
    s = Locked(kind, "python", **settings(place, index, registry, SANDBOX_ALLOW_BUILD="true"))
    try:
        asked = len(index.asked)
        r = s.execute("import evil; print(evil.FOUND)", requirements=["evil"])
        assert r["exit_code"] == 0, r["stderr"]
        found = ast.literal_eval(r["stdout"])
        assert found["secrets"] == [407, 407, 200], found
        assert (found["other port"], found["fast open"]) == (EACCES, EOPNOTSUPP), found
        assert found["listens"] == found["binds"] == EPERM, found
        assert {found[k] for k in ("datagram", "inet6", "mptcp", "unix")} == {EAFNOSUPPORT}, found
        # as a plain user nothing is done, with success
        assert found["modes"] == (None if kind == "plain" else EPERM), found
        seen = [p for p in index.asked[asked:] if not p.startswith(("/simple/evil", "/files/"))]
        assert seen and set(seen) == {"/simple/greet/"}
        assert s.log().count("verdict=no_secret") == 2 * len(seen)
        wait_for(lambda: brokers(s) == [], 10)
    finally:
        s.stop()
    assert os.stat("/usr/bin/python3").st_mode == before

# SPDX-License-Identifier: GPL-2.0-only
"""Packages over the network: from an index of the test's own, and from the real registries."""

import base64
import http.server
import json
import os
import shutil
import socket
import threading
import urllib.error
import urllib.request

import pytest

from conftest import Server, _children, found_modes
from packages import place_with_uv, wheel
from probes import part
from support import check_healthy
from test_requirements import SHOW, failed

PROBE = """
import socket, urllib.request
for try_one in (lambda: socket.create_connection(("127.0.0.1", %d), 2),
                lambda: urllib.request.urlopen("http://127.0.0.1:%d/simple/", timeout=2)):
    try: try_one(); print("reached")
    except OSError as e: print("refused")
"""


class Index(http.server.BaseHTTPRequestHandler):
    """/simple/NAME/ lists wheels of self.server.wheels; /simple/hangs/ never answers."""

    def do_GET(self):
        parts = self.path.strip("/").split("/")
        if parts[:2] == ["simple", "hangs"]:
            self.server.over.wait(30)
            return
        if parts[:2] == ["simple", "denied"]:
            return self.answer(401, "text/plain", b"")
        if parts[0] == "private":
            known = "Basic " + base64.b64encode(b"me:s3cret/word").decode()
            if self.headers["Authorization"] != known:
                return self.answer(401, "text/plain", b"")
            parts[0] = "simple"
        wheels = self.server.wheels
        if parts[0] == "simple" and len(parts) == 2:
            names = [n for n in sorted(os.listdir(wheels)) if n.startswith(parts[1] + "-")]
            body = "".join(f'<a href="/files/{n}">{n}</a>\n' for n in names).encode()
            self.answer(200 if names else 404, "text/html", body)
        elif parts[0] == "files" and os.path.exists(f"{wheels}/{parts[1]}"):
            with open(f"{wheels}/{parts[1]}", "rb") as f:
                self.answer(200, "application/zip", f.read())
        else:
            self.answer(404, "text/plain", b"")

    do_HEAD = do_GET

    def answer(self, status, kind, body):
        self.server.asked.append(self.path)
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *args):
        pass


@pytest.fixture(scope="module")
def place():
    top = place_with_uv()
    os.mkdir(top + "/wheels")
    wheel(top + "/wheels", "greet", "1.0", {"greet.py": "WORD = 'hello'\n"})
    wheel(top + "/wheels", "points", "1.0", {}, ["x @ http://elsewhere.invalid/x-1-py3-none-any.whl"])
    yield top
    shutil.rmtree(top)


@pytest.fixture(scope="module")
def index(place):
    s = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Index)
    s.daemon_threads, s.block_on_close = True, False
    s.wheels, s.asked, s.over = place + "/wheels", [], threading.Event()
    threading.Thread(target=s.serve_forever, daemon=True).start()
    yield s
    s.over.set()
    s.shutdown()
    s.server_close()


def settings(place, url, **more):
    env = {
        "SANDBOX_PYTHON_INDEX": url,
        "PATH": place + "/bin:" + os.environ["PATH"],
        "SANDBOX_MODE": "python",
        "SANDBOX_INSTALL_TIMEOUT_SEC": "4",
    }
    env.update(more)
    return env


@pytest.fixture(scope="module")
def online(place, index):
    s = Server(settings(place, f"http://127.0.0.1:{index.server_port}/simple"))
    if s.get("/health").json["isolation"]["level"] not in ("full", "namespaces"):
        s.stop()
        pytest.skip("runs share the host's network here")
    yield s
    s.stop()


def test_packages_come_from_the_index_that_is_named(online, index):
    r = online.execute(SHOW, requirements=["greet"])
    assert r["stdout"] == "hello /packages/greet.py\n", r["stderr"]
    asked = len(index.asked)
    r = online.execute(SHOW, requirements=["greet"])
    assert r["meta"]["install_ms"] == 0 and len(index.asked) == asked


def test_the_program_itself_has_no_network(online, index):
    port = index.server_port
    asked = len(index.asked)
    r = online.execute(PROBE % (port, port), requirements=["greet"])
    assert r["stdout"] == "refused\nrefused\n"
    r = online.post("/execute", {"code": "1", "requirements": ["greet"], "network": True})
    assert r.status == 403 and len(index.asked) == asked


def test_a_package_that_the_index_does_not_have(online):
    assert "nosuchpackage" in failed(
        online.execute("1", requirements=["nosuchpackage"]), "missing_package"
    )
    check_healthy(online)


def test_an_index_that_wants_credentials(online):
    assert "credentials" in failed(online.execute("1", requirements=["denied"]), "unreachable").split("\n")[0]


def test_packages_name_no_hosts(online):
    """What a package says it needs is not the index's word: such a host is never learned."""
    failed(online.execute("1", requirements=["points"]), "failed")
    assert "install.host" not in online.log()
    check_healthy(online)


class Registry(http.server.BaseHTTPRequestHandler):
    """One npm package, which wants another from elsewhere."""

    def do_GET(self):
        wants = {"x": "http://elsewhere.invalid/x.tgz"}
        at = f"http://127.0.0.1:{self.server.server_port}/points.tgz"
        version = {"name": "points", "version": "1.0.0", "dependencies": wants, "dist": {"tarball": at}}
        about = {"name": "points", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}
        body = json.dumps(about).encode()
        self.send_response(200 if self.path == "/points" else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


def test_packages_of_node_name_no_hosts(start):
    if "node" not in found_modes():
        pytest.skip("no node")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Registry) as s:
        threading.Thread(target=s.serve_forever, daemon=True).start()
        server = start(SANDBOX_MODE="node", SANDBOX_NPM_REGISTRY=f"http://127.0.0.1:{s.server_port}/",
                       SANDBOX_INSTALL_TIMEOUT_SEC="20")  # fmt: skip
        if server.get("/health").json["isolation"]["level"] not in ("full", "namespaces"):
            pytest.skip("runs share the host's network here")
        said = failed(server.execute("1", requirements=["points"]), "refused_host")
        assert "host 'elsewhere.invalid' is not of an index" in said
        server.wait_log(r'network\.connection .*host=elsewhere\.invalid .*verdict=not_listed')
        assert "install.host" not in server.log()
        s.shutdown()


def test_an_index_that_hangs(online):
    said = failed(online.execute("1", requirements=["hangs"]), "timeout")
    assert "timed out after 4 seconds" in said
    check_healthy(online)


def test_an_index_that_is_not_there(start, place):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        closed = s.getsockname()[1]
    server = start(**settings(place, f"http://127.0.0.1:{closed}/simple", SANDBOX_INSTALL_TIMEOUT_SEC="30"))
    failed(server.execute("1", requirements=["greet"]), "unreachable")
    check_healthy(server)


@pytest.fixture(scope="module")
def registries(place):
    """The host's own configuration; skips where no registry can be reached."""
    env = settings(place, "", SANDBOX_MODE="python,node", SANDBOX_INSTALL_TIMEOUT_SEC="100")
    del env["SANDBOX_PYTHON_INDEX"]  # nothing is set: so it is by default
    s = Server(env)
    r = s.execute("import six; print(six.__version__)", requirements=["six"])
    if r["meta"]["verdict"] == "install_failed" and r["meta"]["install"]["reason"] != "failed":
        s.stop()
        pytest.skip("no registry can be reached: " + r["stderr"][:200])
    assert r["exit_code"] == 0, r["stderr"]
    yield s
    s.stop()


def host_says(place, index):
    """The environment of a server that is told nothing of indexes, on a host that has one."""
    env = settings(place, "")
    del env["SANDBOX_PYTHON_INDEX"]
    os.makedirs(place + "/home/.config/pip", exist_ok=True)
    with open(place + "/home/.config/pip/pip.conf", "w", encoding="ascii") as f:
        f.write(f"[global]\nindex-url = http://127.0.0.1:{index.server_port}/simple\n")
    env.update({k: "" for k in os.environ if k.startswith(("PIP_", "UV_"))}, HOME=place + "/home")
    return env


def test_without_a_setting_packages_come_from_where_the_host_gets_them(start, place, index):
    s = start(**host_says(place, index))
    if s.get("/health").json["isolation"]["level"] not in ("full", "namespaces"):
        pytest.skip("runs share the host's network here")
    assert s.get("/isolation").json["network"] == "installs"
    asked = len(index.asked)
    r = s.execute(SHOW, requirements=["greet"])
    assert r["stdout"] == "hello /packages/greet.py\n", r["stderr"]
    assert len(index.asked) > asked
    port, asked = index.server_port, len(index.asked)
    assert s.execute(PROBE % (port, port), requirements=["greet"])["stdout"] == "refused\nrefused\n"
    assert s.execute(PROBE % (port, port))["stdout"] == "refused\nrefused\n"
    assert s.post("/execute", {"code": "1", "network": True}).status == 403
    assert len(index.asked) == asked


def uv_says(place, index, text):
    env = host_says(place, index)
    env.update(UV_CONFIG_FILE=place + "/uv.toml", PIP_CONFIG_FILE="/dev/null")
    with open(env["UV_CONFIG_FILE"], "w", encoding="ascii") as f:
        f.write(text)
    return env


def test_the_index_in_a_file_of_uvs_is_asked_alone_and_by_whom_variables_say(start, place, index):
    url = f"http://127.0.0.1:{index.server_port}/private"
    env = uv_says(place, index, f'index = [{{ name = "my-corp", url = "{url}", default = true }}]\n')
    s = start(**env, UV_INDEX_MY_CORP_USERNAME="me", UV_INDEX_MY_CORP_PASSWORD="s3cret/word")
    r = s.execute(SHOW, requirements=["greet"])
    assert r["stdout"] == "hello /packages/greet.py\n", r["stderr"]
    # which the public index has
    said = failed(s.execute("1", requirements=["six"]), "missing_package")
    assert "s3cret" not in said + json.dumps(s.get("/health").json) + s.log()
    # a run that sees the packages sees nothing of who asked for them
    look = "import os; print([v for v in os.environ.values() if 's3cret' in v])"
    assert s.execute(look, requirements=["greet"])["stdout"] == "[]\n"


def test_a_file_of_uvs_that_is_not_understood_turns_installs_off(start, place, index):
    s = start(**uv_says(place, index, "\nindex-url = https://a.invalid/\n"))
    assert "uv.toml: line 2: " in failed(s.execute("1", requirements=["greet"]), "no_installer")
    check_healthy(s)


@pytest.mark.parametrize("host, why", [("127.0.0.1:99999", "no_installer"), ("xn--a", "failed")])
def test_no_answer_shows_the_password_of_an_index_that_cannot_be(start, place, index, host, why):
    s = start(**dict(uv_says(place, index, ""), UV_DEFAULT_INDEX=f"http://me:s3cret@{host}/simple"))
    said = failed(s.execute("1", requirements=["greet"]), why)
    assert host.split(":", maxsplit=1)[0] in said
    assert "s3cret" not in said + json.dumps(s.get("/health").json) + s.log()


def test_none_turns_packages_off_and_starts_no_broker(start, place, index):
    s = start(**dict(host_says(place, index), SANDBOX_PYTHON_INDEX="none"))
    assert s.get("/health").json["installer"] is None
    assert s.get("/isolation").json["network"] == "none"
    assert "SANDBOX_PYTHON_INDEX=none" in failed(s.execute("1", requirements=["greet"]), "no_installer")
    assert "egress" not in [part(p) for p in _children(s.pid)]


def test_a_proxy_that_cannot_be_used_stops_installs_alone(start, place, index):
    s = start(**dict(host_says(place, index), https_proxy="gopher://127.0.0.1:1"))
    assert "HTTPS_PROXY: only" in failed(s.execute("1", requirements=["greet"]), "no_installer")
    assert s.get("/isolation").json["network"] == "none"
    check_healthy(s)


class Proxy(http.server.BaseHTTPRequestHandler):
    """Knows index.invalid, which no resolver does, and wants a password."""

    def do_GET(self):
        self.server.asked.append((self.path, self.headers.get("Proxy-Authorization")))
        path = self.path.removeprefix("http://index.invalid")
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(f"http://127.0.0.1:{self.server.index}{path}", timeout=10) as r:
                body, kind = r.read(), r.headers["Content-Type"]
            self.send_response(200)
        except urllib.error.HTTPError as e:
            body, kind = b"", "text/plain"
            self.send_response(e.code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    do_HEAD = do_GET

    def log_message(self, *args):
        pass


@pytest.mark.parametrize("how", ["SANDBOX_EGRESS_PROXY", "http_proxy"])
def test_a_host_that_needs_a_proxy_gets_packages_by_it(start, place, index, how):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as p:
        p.asked, p.index, p.daemon_threads = [], index.server_port, True
        threading.Thread(target=p.serve_forever, daemon=True).start()
        env = settings(place, "http://index.invalid/simple", SANDBOX_INSTALL_TIMEOUT_SEC="30")
        server = start(**env, **{how: f"http://me:pr0xy@127.0.0.1:{p.server_port}"})
        if server.get("/health").json["isolation"]["level"] not in ("full", "namespaces"):
            pytest.skip("runs share the host's network here")
        code = SHOW + "; import os; print([n for n in os.environ if 'proxy' in n.lower()])"
        r = server.execute(code, requirements=["greet"])
        assert r["stdout"] == "hello /packages/greet.py\n[]\n", r["stderr"]
        assert {a for _, a in p.asked} == {"Basic bWU6cHIweHk="} and "pr0xy" not in server.log()
        assert all(path.startswith("http://index.invalid/") for path, _ in p.asked)
        p.shutdown()


def test_the_real_registries(registries):
    r = registries.execute("import six; print(six.__version__)", requirements=["six"])
    assert r["stdout"].startswith("1.") and r["meta"]["install_ms"] == 0
    code = "import('chalk').then(m => console.log(typeof m.default, require('left-pad')('a', 3)))"
    wanted = ["left-pad@^1", "chalk", "@types/node@20"]
    r = registries.execute(code, language="js", requirements=wanted)
    assert r["stdout"] == "function   a\n", r["stderr"]
    said = failed(registries.execute("1", requirements=["six==99"]), "missing_package")
    assert "six==99" in said


def test_numpy_pandas_ranges_and_extras_from_the_real_registry(registries):
    code = """
import numpy, pandas, requests, socks
print(int(pandas.DataFrame({"a": numpy.arange(4)})["a"].sum()), requests.__version__.split(".")[0])
"""
    wanted = ["numpy>=1.24,<3", "pandas >= 2", "requests[socks]~=2.28"]
    r = registries.execute(code, requirements=wanted)
    assert r["stdout"] == "6 2\n", r["stderr"]
    r = registries.execute(code, requirements=wanted[::-1])
    assert r["stdout"] == "6 2\n" and r["meta"]["install_ms"] == 0

# SPDX-License-Identifier: GPL-2.0-only
"""What npm cannot install, from a registry of the test's own."""

import gzip
import http.server
import io
import json
import shutil
import socket
import tarfile
import threading

import pytest

from conftest import Server, found_modes
from support import check_healthy
from test_requirements import failed, stored
from test_requirements_attack import tarball

pytestmark = pytest.mark.skipif("node" not in found_modes() or not shutil.which("npm"), reason="no npm here")
WORD = "console.log(require('x').word)"


class Zeros(io.RawIOBase):
    """So many of them."""

    def __init__(self, size):
        super().__init__()
        self.left = size

    def read(self, size=-1):
        size = min(self.left, size)
        self.left -= size
        return bytes(size)


def huge():
    """A package above the disk limit of an install, 1 GiB."""
    made = io.BytesIO()
    with gzip.GzipFile(fileobj=made, mode="wb", compresslevel=1) as z, tarfile.open(fileobj=z, mode="w|") as t:
        text = b'{"name":"huge","version":"1.0.0"}'
        head = tarfile.TarInfo("package/package.json")
        head.size = len(text)
        t.addfile(head, io.BytesIO(text))
        head = tarfile.TarInfo("package/zeros")
        head.size = 1100 << 20
        t.addfile(head, Zeros(head.size))
    return made.getvalue()


class Registry(http.server.BaseHTTPRequestHandler):
    """self.server.packages, each in version 1.0.0; /hangs never answers."""

    def do_GET(self):
        name = self.path.split("/")[1]
        if name == "hangs":
            self.server.over.wait(30)
            return
        if name not in self.server.packages:
            return self.answer(404, b'{"error":"Not found"}')
        if self.path.endswith(".tgz"):
            return self.answer(200, self.server.packages[name])
        url = f"http://127.0.0.1:{self.server.server_port}/{name}/-/{name}-1.0.0.tgz"
        version = {"name": name, "version": "1.0.0", "dist": {"tarball": url}}
        body = {"name": name, "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}
        return self.answer(200, json.dumps(body).encode())

    def answer(self, status, body):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


@pytest.fixture(scope="module")
def registry():
    s = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Registry)
    s.daemon_threads, s.block_on_close, s.over = True, False, threading.Event()
    small = tarball({"package.json": '{"name":"x","version":"1.0.0"}', "index.js": "exports.word = 'mine'"})
    s.packages = {"x": small, "huge": huge()}
    threading.Thread(target=s.serve_forever, daemon=True).start()
    yield s
    s.over.set()
    s.shutdown()
    s.server_close()


def run(server, code, wanted):
    return server.execute(code, language="node", requirements=[wanted])


def serve(port, seconds):
    env = {"SANDBOX_NPM_REGISTRY": f"http://127.0.0.1:{port}/", "SANDBOX_INSTALL_TIMEOUT_SEC": seconds}
    s = Server(env, (), "node,shell")
    if s.get("/health").json["isolation"]["level"] not in ("full", "namespaces"):
        s.stop()
        pytest.skip("tests/api/test_requirements_landlock.py has it")
    return s


@pytest.fixture(scope="module")
def node(registry):
    s = serve(registry.server_port, "60")
    yield s
    s.stop()


@pytest.mark.parametrize("wanted, reason, says", [
    ("nosuchpackage", "missing_package", "nosuchpackage"),
    ("x@7", "missing_package", "x@7"),
    ("x@>=1.1 <1.5", "missing_package", "No matching version found"),
    ("huge", "disk", "disk limit"),
])  # fmt: skip
def test_what_cannot_be_installed(node, wanted, reason, says):
    before = stored(node)
    assert says in failed(run(node, "console.log('ran')", wanted), reason)
    assert stored(node) == before
    check_healthy(node, "shell")
    assert run(node, WORD, "x")["stdout"] == "mine\n"


def test_a_registry_that_hangs(registry):
    s = serve(registry.server_port, "4")
    try:
        assert "timed out after 4 seconds" in failed(run(s, "1", "hangs"), "timeout")
        check_healthy(s, "shell")
        assert run(s, WORD, "x")["stdout"] == "mine\n" and len(stored(s)) == 1
    finally:
        s.stop()


def test_a_registry_that_is_not_there():
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        s = serve(closed.getsockname()[1], "40")
        try:
            failed(run(s, "console.log('ran')", "x"), "unreachable")
            assert stored(s) == []
            check_healthy(s, "shell")
        finally:
            s.stop()

# SPDX-License-Identifier: GPL-2.0-only
"""A server that is killed while it installs packages. Hostile ones: tests/attack/test_in.py."""

import http.server
import io
import json
import os
import shutil
import tarfile
import tempfile

from conftest import Server, wait_for
from packages import place_with_uv, wheel
from support import Later
from test_requirements import SHOW, settings, stored


def tarball(files):
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as t:
        for name, text in files.items():
            head = tarfile.TarInfo("package/" + name)
            head.size = len(text.encode())
            t.addfile(head, io.BytesIO(text.encode()))
    return made.getvalue()


class Registry(http.server.BaseHTTPRequestHandler):
    """One package of npm's, whose tarball is self.server.package."""

    def do_GET(self):
        body = self.server.package
        if not self.path.endswith(".tgz"):
            url = f"http://127.0.0.1:{self.server.server_port}/evil/-/evil-1.0.0.tgz"
            version = {"name": "evil", "version": "1.0.0", "dist": {"tarball": url},
                       "hasInstallScript": True}  # fmt: skip
            body = {"name": "evil", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}
            body = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


def descriptors(pid):
    """What it has open, beside the standard ones."""
    return [os.readlink(f"/proc/{pid}/fd/{n}") for n in os.listdir(f"/proc/{pid}/fd") if int(n) > 2]


def test_killed_while_it_installs_a_server_leaves_a_cache_that_works():
    place = place_with_uv()
    state = tempfile.mkdtemp(prefix="sandbox-state-")
    os.mkdir(place + "/wheels")
    wheel(place + "/wheels", "greet", "1.0", {"greet.py": "WORD = 'hello'\n"})
    wheel(place + "/wheels", "large", "1.0", {"large.py": "SIZE = 1\n", "large.bin": 400})
    try:
        s = Server(settings(place), state_dir=state)
        assert s.execute(SHOW, requirements=["greet"])["stdout"] == "hello /packages/greet.py\n"
        whole = stored(s)
        asked = Later(s, "1", requirements=["large"])
        wait_for(lambda: [n for n in stored(s) if n.endswith(".new")], 60)
        # who keeps it has nothing of runs: what they wait for the end of
        assert [f for pid in s.named("sandbox-layers") for f in descriptors(pid)]
        assert not [f for pid in s.named("sandbox-layers") for f in descriptors(pid) if "mnt:" in f or "pipe:" in f]
        s.kill()
        asked.thread.join()
        assert asked.error and [n for n in stored(s) if n.endswith(".new")]
        s = Server(settings(place), state_dir=state)
        r = s.execute(SHOW, requirements=["greet"])
        assert r["stdout"] == "hello /packages/greet.py\n" and r["meta"]["install_ms"] == 0
        wait_for(lambda: stored(s) == whole, 10)
        code = "import large, os; print(os.path.getsize('/packages/large.bin') >> 20)"
        r = s.execute(code, requirements=["large"])
        assert r["stdout"] == "400\n" and r["meta"]["install_ms"] > 0, r["stderr"]
        assert len(stored(s)) == len(whole) + 1
        s.stop()
    finally:
        s.kill()
        shutil.rmtree(place)
        shutil.rmtree(state)

# SPDX-License-Identifier: GPL-2.0-only
"""Packages in containers that allow no namespaces: from an index in the container's network."""

import contextlib
import dataclasses
import http.server
import os
import shutil
import socket
import threading

import pytest
from environments import TABLE, Inside, There
from packages import uv_program, wheel
from test_requirements_index import PROBE, Index

PORT = 999  # nobody else's there
SHOW = "import greet; print(greet.WORD, greet.__file__)"


@contextlib.contextmanager
def index_in(there, wheels):
    """An index whose socket is of the container's network."""
    with Inside(there.supervisor):
        listener = socket.create_server(("127.0.0.1", PORT))
    s = http.server.ThreadingHTTPServer(("127.0.0.1", PORT), Index, bind_and_activate=False)
    s.socket.close()
    s.socket, s.daemon_threads, s.block_on_close = listener, True, False
    s.wheels, s.asked, s.over = wheels, [], threading.Event()
    threading.Thread(target=s.serve_forever, daemon=True).start()
    try:
        yield s
    finally:
        s.shutdown()
        s.server_close()


@pytest.mark.parametrize("name", ["restricted", "docker's default"])
def test_packages_are_installed_without_namespaces(grounds, name, tmp_path):
    row = next(e for e in TABLE if e.name == name)
    tool = os.path.join(grounds.place.root, "opt/uv")
    os.makedirs(tool, exist_ok=True)
    shutil.copy(uv_program(), tool)
    wheel(tmp_path, "greet", "1.0", {"greet.py": "WORD = 'hello'\n"})
    env = {
        "SANDBOX_MIN_ISOLATION": "landlock",
        "SANDBOX_PYTHON_INDEX": f"http://127.0.0.1:{PORT}/simple",
        "PATH": "/opt/uv:/usr/bin:/bin",
    }
    there = There(grounds, dataclasses.replace(row, state=True), env)
    try:
        with index_in(there, str(tmp_path)) as index:
            r = there.execute(SHOW, requirements=["greet"])
            assert r["stdout"].startswith("hello /state/layers/"), r["stderr"]
            assert r["meta"]["isolation"] == "landlock" and "/simple/greet/" in index.asked
            asked = len(index.asked)
            r = there.execute(PROBE % (PORT, PORT), requirements=["greet"])
            assert r["stdout"] == "refused\nrefused\n" and r["meta"]["install_ms"] == 0
            assert len(index.asked) == asked
    finally:
        there.stop()

# SPDX-License-Identifier: GPL-2.0-only
"""The manual's example of runs with network: typed beside a world of the test's own, which has example.org."""

import json
import os
import subprocess

import pytest

from test_examples import COMMANDS, index, place  # noqa: F401, fixtures; and where tests/api is
from node22 import node22  # noqa: F401, a fixture
from outside import Outside, world  # noqa: F401, a fixture

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for network namespaces")


def words_of(command):
    """What bash makes of a command, but for its first word."""
    script = command.replace("sandbox-server", "printf '%s\\0'", 1)
    return subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True).stdout.split("\0")[:-1]


def test_a_run_reaches_what_it_names_and_has_its_packages(world, place, index):
    page = [c for c, _ in COMMANDS["sandbox-server.8"]]
    (serve,) = [c for c in page if " --network 'example.org" in c]
    (curl,) = [c for c in page if c.startswith("curl ") and '"network":["example.org"]' in c]
    words = words_of(serve)
    assert words[0] == "serve"
    more = {"SANDBOX_PYTHON_INDEX": index, "SSL_CERT_FILE": Outside.certificate, "SANDBOX_WARM": "0"}
    s = Outside({**more, "PATH": f"{place}/bin:{os.environ['PATH']}"}, words[1:])
    try:
        command = curl.replace("localhost:8080", f"127.0.0.1:{s.port}")
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, check=True)
        answer = json.loads(done.stdout)
        assert (answer["stdout"], answer["exit_code"]) == ("200\n", 0), answer
        assert answer["meta"]["network"]["connections"] == 1
        assert world.asked()["hits"] == [["example.org", "/"]]
    finally:
        s.stop()

# SPDX-License-Identifier: GPL-2.0-only
"""Level landlock attacked by selftest."""

import json
import os
import platform
import shutil
import subprocess
import tempfile

import pytest

from conftest import SANITIZED, TOP
from shared import locked_command

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become somebody else"),
    pytest.mark.skipif(platform.machine() != "x86_64", reason="the filter is for x86-64"),
    pytest.mark.skipif(SANITIZED, reason="selftest runs this binary inside, where no sanitizer can"),
]


def test_selftest_knows_that_processes_are_looked_at_and_not_counted():
    """One uid for all: who has too many is ended, where others are refused more."""
    command, env, copy = locked_command(
        "plain", "selftest", "--json", "--case", "PR01,RS01,PC08,XS09,DG01", SANDBOX_MIN_ISOLATION="landlock")
    try:
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=100)
        cases = {c["id"]: c for c in json.loads(done.stdout)["cases"]}
        assert {i: c["observed"] for i, c in cases.items() if c["status"] != "ok"} == {}
        assert "forks: ended" in cases["RS01"]["observed"]
    finally:
        shutil.rmtree(copy)


@pytest.mark.parametrize("refused", [True, False])
def test_selftest_knows_datagrams_to_the_hosts_sockets(refused):
    place = tempfile.mkdtemp(prefix="sandbox-policy-")
    os.chmod(place, 0o755)
    for name in os.listdir(f"{TOP}/policy"):
        with open(f"{TOP}/policy/{name}", encoding="ascii") as f:
            policy = json.load(f)
        if name == "shared-pids.json" and not refused:
            policy["syscalls"] = [r for r in policy["syscalls"] if r["names"] != ["socketpair"]]
        with open(f"{place}/{name}", "w", encoding="ascii") as f:
            json.dump(policy, f)
    command, env, copy = locked_command(
        "plain", "selftest", "--json", "--case", "NW03",
        SANDBOX_MIN_ISOLATION="landlock", SANDBOX_POLICY_DIR=place)  # fmt: skip
    try:
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=100)
        (case,) = json.loads(done.stdout)["cases"]
    finally:
        shutil.rmtree(copy)
        shutil.rmtree(place)
    if refused:
        assert case["status"] == "ok" and "ESOCKTNOSUPPORT" in case["observed"], case
    else:
        assert case["status"] == "failed" and "/2 was reached" in case["observed"], case

# SPDX-License-Identifier: GPL-2.0-only
"""The server in environments: on this host as root and as a plain user, in containers.

    def test_x(there):              once for every environment, a server running in each
    def test_y(grounds, place):     once for every environment: grounds.run(place, ["check"])
"""

import importlib.util
import os
import platform
import shutil
import subprocess
import sys

import pytest

API = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "api")
sys.path.insert(0, API)
_spec = importlib.util.spec_from_file_location("servers", os.path.join(API, "conftest.py"))
servers = importlib.util.module_from_spec(_spec)
sys.modules["servers"] = servers
_spec.loader.exec_module(servers)
# what the helpers of tests/api take from their conftest, they find here
globals().update(
    {k: v for k, v in vars(servers).items() if not k.startswith("__") and k != "pytest_sessionstart"}
)

import environments  # noqa: E402, it takes from here what it needs
from containers import need_profile  # noqa: E402


def _why_not():
    """What is missing for containers; None: nothing."""
    if os.geteuid() != 0:
        return "needs root"
    if platform.machine() != "x86_64":
        return "the programs use system call numbers of x86-64"
    if servers.SANITIZED:
        return "a sanitizer's shadow memory and the limits here do not go together"
    for program in ("runc", "setpriv", "unshare"):
        if not shutil.which(program):
            return f"needs {program}"
    return need_profile()


@pytest.fixture(scope="session")
def grounds():
    why = _why_not()
    if why:
        pytest.skip(why)
    g = environments.Grounds(servers.BINARY)
    try:
        row = environments.Environment("try", "", frozenset(), container={})
        done = g.run(row, ["/usr/bin/env", "true"])
        if done.returncode != 0:
            said = done.stderr.strip().split("\n")[-1]
            pytest.skip(f"runc cannot make a container here: {said}")
        yield g
    finally:
        g.done()


@pytest.fixture(scope="session", params=environments.TABLE, ids=lambda e: e.name)
def place(request):
    """Each environment."""
    return request.param


@pytest.fixture(scope="session")
def there(grounds, place):
    """A server in each environment."""
    s = environments.There(grounds, place, {"SANDBOX_MIN_ISOLATION": "landlock"})
    yield s
    s.stop()


def cgroups_writable():
    """May this host's root make cgroups? Then its servers can, too."""
    name = f"environment-{os.getpid()}"
    for where in ("/sys/fs/cgroup/memory", "/sys/fs/cgroup"):
        try:
            os.mkdir(os.path.join(where, name))
            os.rmdir(os.path.join(where, name))
            return True
        except OSError:
            pass
    return False


def pytest_report_header():
    found = shutil.which("runc")
    if found:
        said = subprocess.run([found, "--version"], capture_output=True, text=True, check=False)
        return said.stdout.split("\n")[0]
    return "no runc"

# SPDX-License-Identifier: GPL-2.0-only
"""A Debian image, made once by debootstrap from where this machine's own apt gets its packages."""

import importlib.util
import os
import re
import shutil
import socket
import subprocess
import sys
import urllib.parse

import pytest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
API = os.path.join(TOP, "tests/api")
sys.path.insert(0, API)
_spec = importlib.util.spec_from_file_location("servers", os.path.join(API, "conftest.py"))
servers = importlib.util.module_from_spec(_spec)
sys.modules["servers"] = servers
_spec.loader.exec_module(servers)
# what the helpers of tests/api take from their conftest, they find here
globals().update({k: v for k, v in vars(servers).items() if not k.startswith("__")})

# beside the binaries, so that it is made once
AT = os.path.join(TOP, "build/debian")


def release():
    with open("/etc/os-release", encoding="utf-8") as f:
        return re.search("^VERSION_CODENAME=(.*)$", f.read(), re.M).group(1)


def mirror():
    """As src/setup/deps.sh finds it."""
    said = subprocess.run(["apt-get", "update", "--print-uris"], capture_output=True, text=True, check=False).stdout
    found = re.search(f"^'(.*)/dists/{release()}/InRelease'", said, re.M)
    assert found, "apt has no archive of this release configured"
    return found.group(1)


@pytest.fixture(scope="session")
def rootfs():
    if os.geteuid() != 0:
        pytest.skip("debootstrap needs root")
    root = f"{AT}/rootfs"
    if not os.path.exists(f"{root}.ready"):
        shutil.rmtree(root, ignore_errors=True)
        os.makedirs(AT, exist_ok=True)
        made = ["debootstrap", "--variant=minbase", release(), root, mirror()]
        subprocess.run(made, check=True, stdout=subprocess.DEVNULL)
        with open(f"{root}.ready", "w", encoding="ascii"):
            pass
    return root


@pytest.fixture(scope="session")
def served(rootfs, tmp_path_factory):
    """Sessions may reach the mirror, wherever its name leads, and nothing else."""
    host = urllib.parse.urlsplit(mirror()).hostname
    addresses = {a[4][0] for a in socket.getaddrinfo(host, 80)}
    listed = [host, *(f"[{a}]" if ":" in a else a for a in sorted(addresses))]
    state = str(tmp_path_factory.mktemp("state"))
    servers.open_to_all(state)
    env = {**os.environ, "SANDBOX_STATE_DIR": state, "SANDBOX_CONFIG": ""}
    added = [servers.BINARY, "image", "add", "debian", rootfs]
    subprocess.run(added, env=env, check=True, stdout=subprocess.DEVNULL)
    env = {"SANDBOX_SESSIONS": "on", "SANDBOX_WARM": "0", "SANDBOX_STATE_DIR": state}
    s = servers.Server({**env, "SANDBOX_NETWORK": ",".join(listed)}, mode="shell")
    s.state_dir = state
    yield s
    s.stop()

# SPDX-License-Identifier: GPL-2.0-only
"""Clients as people use them, in a run that has network, against the registries of this host.

Which hosts those are is found out here, from what the host's own clients are told: a test that
finds none says which it missed.
"""

import ipaddress
import os
import re
import shutil
import socket
import subprocess
import urllib.parse
import urllib.request

import pytest

from conftest import Server, found_modes
from packages import place_with_uv


def said(*words):
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def python_index():
    for name in ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL"):
        if os.environ.get(name):
            return os.environ[name]
    found = said("/usr/bin/python3", "-m", "pip", "config", "get", "global.index-url")
    if found:
        return found
    # pip's own default is in its help
    text = said("/usr/bin/python3", "-m", "pip", "install", "--help")
    words = [w.strip("().,") for w in text.split() if w.startswith(("https://", "(https://")) and "/simple" in w]
    return words[0] if words else ""


def go_proxy():
    return next((u for u in said("go", "env", "GOPROXY").replace("|", ",").split(",") if "://" in u), "")


REGISTRIES = {
    "python": python_index,
    "npm": lambda: said("npm", "config", "get", "registry"),
    "go": go_proxy,
}


@pytest.fixture(scope="module")
def urls():
    return {name: find() for name, find in REGISTRIES.items()}


def addresses(host):
    try:
        return {i[4][0].split("%")[0] for i in socket.getaddrinfo(host, 443, type=socket.SOCK_STREAM)}
    except OSError:
        return set()


@pytest.fixture(scope="module")
def place():
    top = place_with_uv()
    yield top
    shutil.rmtree(top)


def hosts_of(urls):
    """Those that are named, and those that an index of python's says its files are at."""
    hosts = {urllib.parse.urlsplit(u).hostname for u in urls.values() if u}
    try:
        with urllib.request.urlopen(urls["python"].rstrip("/") + "/six/", timeout=20) as r:
            links = re.findall(r'href="(https?://[^"]*)"', r.read().decode())
    except (OSError, ValueError):
        links = []
    return hosts | {urllib.parse.urlsplit(u).hostname for u in links}


@pytest.fixture(scope="module")
def online(urls, place):
    """A server with network for these hosts, and for where they lead to if that is near."""
    hosts = hosts_of(urls)
    if not hosts:
        pytest.skip("no client on this host names a registry: " + ", ".join(urls))
    near = {a for h in hosts for a in addresses(h) if not ipaddress.ip_address(a).is_global}
    rules = sorted(hosts) + sorted(f"[{a}]" if ":" in a else a for a in near)
    modes = [m for m in ("shell", "python", "node", "golang") if m in found_modes()]
    s = Server(
        {
            "SANDBOX_NETWORK": ",".join(rules), "SANDBOX_NETWORK_DEFAULT": "true", "SANDBOX_WARM": "0",
            "PATH": f"{place}/bin:{os.environ['PATH']}",
        },
        (), ",".join(modes),
    )  # fmt: skip
    if s.get("/isolation").json["network"] != "broker":
        s.stop()
        pytest.skip("runs can have no network here")
    yield s
    s.stop()


def run(server, code, urls, name, **env):
    if not urls[name]:
        pytest.skip(f"the client of {name} is missing on this host, or names no registry")
    r = server.execute(code, language="shell", timeout_seconds=60, env=env)
    counts = r["meta"]["network"]
    if r["exit_code"] and not counts["received_bytes"]:
        pytest.skip(f"the registry of {name} cannot be reached: {counts} {(r['stdout'] + r['stderr'])[-300:]}")
    assert r["exit_code"] == 0, (r["stdout"], r["stderr"], counts)
    return r["stdout"]


IMPORT = "PYTHONPATH=/tmp/p python3 -c 'import six; print(six.__name__)'"


def test_pip(online, urls):
    code = "python3 -m pip install -q --no-cache-dir --disable-pip-version-check -i $INDEX --target /tmp/p six && "
    assert run(online, code + IMPORT, urls, "python", INDEX=urls["python"]) == "six\n"


def test_uv(online, urls, place):
    code = f"{place}/bin/uv pip install -q --default-index $INDEX --target /tmp/p six && "
    assert run(online, code + IMPORT, urls, "python", INDEX=urls["python"]) == "six\n"


def test_npm(online, urls):
    code = "cd /tmp && echo '{}' >package.json && "
    code += "npm install --no-audit --no-fund --registry $REGISTRY left-pad >&2 && "
    code += "node -e \"console.log(require('left-pad')('a', 3))\""
    assert run(online, code, urls, "npm", REGISTRY=urls["npm"]) == "  a\n"


def test_go(online, urls):
    go = os.path.realpath(shutil.which("go") or "/go")
    code = "export GOPROXY=$REGISTRY GOSUMDB=off GOTOOLCHAIN=local && mkdir /tmp/m && cd /tmp/m && "
    code += f"{go} mod init m && {go} mod download -json rsc.io/quote@v1.5.2"
    assert '"Sum"' in run(online, code, urls, "go", REGISTRY=urls["go"])

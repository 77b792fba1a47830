# SPDX-License-Identifier: GPL-2.0-only
"""Servers beside world.py, in a network namespace with no way out but to that one."""

import ctypes
import json
import os
import shutil
import subprocess
import sys
import time
import urllib.request

import pytest

from conftest import BINARY, Server, found_modes
from node22 import node22  # noqa: F401, a fixture
from probes import own_place

HERE = os.path.dirname(os.path.abspath(__file__))
CLONE_NEWNET = 0x40000000


def ip(words):
    subprocess.run(["ip", *words.split()], check=True)


def enter(fd):
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.setns(fd, CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno())


class Outside(Server):
    """A server whose resolver is world.py's; the namespace is that of the test's thread."""

    def command_line(self, args, env):
        script = f'mount --bind {self.resolv} /etc/resolv.conf && exec "$@"'
        return ["unshare", "--mount", "sh", "-c", script, "sh", BINARY, *args]


@pytest.fixture(scope="module")
def world(tmp_path_factory, node22):
    """This thread in a namespace of its own, beside world.py's."""
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET) < 0:
        pytest.skip("no network namespace to be had")
    Outside.path = f"{node22}:{os.environ['PATH']}"
    Outside.resolv = str(tmp_path_factory.mktemp("dns") / "resolv.conf")
    with open(Outside.resolv, "w", encoding="ascii") as f:
        f.write("nameserver 10.77.0.2\n")
    os.chmod(Outside.resolv, 0o644)
    place = own_place()  # where a run can see it
    Outside.certificate = f"{place}/ca.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=ok.test",
         "-addext", "subjectAltName=DNS:ok.test,DNS:other.test,DNS:example.org", "-keyout", f"{place}/key.pem", "-out",
         Outside.certificate],
        check=True, capture_output=True,
    )  # fmt: skip
    os.chmod(Outside.certificate, 0o644)
    proc = subprocess.Popen(
        ["unshare", "--net", sys.executable, f"{HERE}/world.py", Outside.certificate, f"{place}/key.pem"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        wait_apart(proc.pid)
        ip("link set lo up")
        ip(f"link add v0 type veth peer name v1 netns {proc.pid}")
        for words in ("10.77.0.1/24", "11.2.2.2/32", "fd77::1/64"):
            ip(f"addr add {words} dev v0" + (" nodad" if ":" in words else ""))
        ip("link set v0 up")
        proc.stdin.write("go\n")
        proc.stdin.flush()
        assert proc.stdout.readline() == "ready\n"
        ip("route add default via 10.77.0.2")
        ip("route add default via fd77::2")
        yield World()
    finally:
        proc.kill()
        proc.wait()
        enter(home)
        os.close(home)
        shutil.rmtree(place)


def wait_apart(pid):
    end = time.monotonic() + 10
    while os.readlink(f"/proc/{pid}/ns/net") == os.readlink("/proc/thread-self/ns/net"):
        assert time.monotonic() < end
        time.sleep(0.01)


class World:
    def asked(self):
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open("http://10.77.0.2:81/", timeout=10) as r:
            return json.load(r)


def make(settings):
    modes = [m for m in ("python", "node", "shell") if m in found_modes()]
    return Outside({"SANDBOX_WARM": "0", "PATH": Outside.path, **settings}, (), ",".join(modes))


CLIENTS = {
    "shell": 'curl -sS -L -m 10 -w "%{{http_code}}" {url}',
    "python": """
import urllib.request, urllib.error
try: print(urllib.request.urlopen("{url}", timeout=10).read().decode())
except urllib.error.HTTPError as e: print(e.code, e.read().decode())
""",
    "node": """
fetch("{url}").then(async r => console.log(r.status, await r.text()))
""",
}


def ask(server, language, url, network=True):
    if language not in found_modes():
        pytest.skip(f"no {language}")
    r = server.execute(CLIENTS[language].format(url=url), language=language, network=network)
    return r["stdout"] + r["stderr"], r["meta"]["network"]

# SPDX-License-Identifier: GPL-2.0-only
"""SANDBOX_NETWORK=pod: no network namespace, and what the server itself reaches.

Where it reaches nothing but world.py.
"""

import os
import platform
import shutil
import socket
import subprocess
import sys

import pytest

from conftest import BINARY, SANITIZED
from node22 import node22  # noqa: F401, a fixture
from outside import CLIENTS, Outside, make, world  # noqa: F401, fixtures
from packages import uv_program
from probes import binary_for_all
from shared import KINDS, LOCKED, flags
from test_requirements_index import index, place  # noqa: F401, fixtures
from test_requirements import SHOW

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for network namespaces")
POD = {"SANDBOX_NETWORK": "pod"}
HOST_NET = "import os\nprint(os.readlink('/proc/self/ns/net'))"

NOTHING = r"""
import errno, fcntl, socket
for family in range(0, 46):
    for kind in (1, 2, 3, 5, 10):
        try: socket.socket(family, kind)
        except OSError as e: assert e.errno == errno.EAFNOSUPPORT, (family, kind, e)
        else: raise SystemExit(f"socket({family}, {kind})")
try: socket.getaddrinfo("ok.test", 80)
except OSError: pass
else: raise SystemExit("resolved")
a, b = socket.socketpair()
try: fcntl.ioctl(a, 0x8912, bytes(40))
except OSError as e: assert e.errno == errno.EPERM, e
else: raise SystemExit("SIOCGIFCONF")
print("nothing")
"""

DIRECT = r"""
import os, socket, struct
assert not [n for n in os.environ if "proxy" in n.lower()]
for to in (("11.1.1.1", 80), ("169.254.169.254", 80), ("2a00::1", 80)):
    socket.create_connection(to, 5).close()
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
u.settimeout(5)
u.sendto(struct.pack(">HHHHHH", 7, 256, 1, 0, 0, 0) + b"\2ok\4test\0\0\1\0\1", ("10.77.0.2", 53))
print(u.recv(512)[-4:].hex(), socket.gethostbyname("sub.ok.test"))
for family, kind, protocol in ((1, 1, 0), (2, 3, 1), (2, 1, 132), (2, 1, 262), (17, 3, 0), (10, 2, 136)):
    try: socket.socket(family, kind, protocol)
    except OSError: pass
    else: raise SystemExit(f"socket({family}, {kind}, {protocol})")
"""


@pytest.fixture(scope="module", autouse=True)
def fetched():
    """Before this thread is where no registry is."""
    uv_program()


@pytest.fixture(scope="module")
def pod(world):
    s = make({**POD, "SSL_CERT_FILE": Outside.certificate})
    yield s
    s.stop()


@pytest.mark.parametrize("language", CLIENTS)
def test_what_the_server_reaches_a_run_with_network_reaches(pod, language):
    for url in ("http://ok.test/x", "https://ok.test/", "http://metadata.test/"):
        r = pod.execute(CLIENTS[language].format(url=url), language=language, network=True)
        assert "world " + url.split("/")[2] in r["stdout"], r
        assert "network" not in r["meta"]


def test_by_tcp_and_udp_and_nothing_else(pod):
    r = pod.execute(DIRECT, network=True)
    assert r["stdout"] == "0b010101 11.1.1.1\n", r


HINTS = {
    True: {"0x1": "AF_UNIX sockets are denied", "0x2": "only TCP and UDP", "0x10": "of AF_NETLINK"},
    False: {"0x1": "AF_UNIX sockets are denied", "0x2": "sockets are denied: network is off", "0x10": "of AF_NETLINK"},
}


@pytest.mark.parametrize("network", HINTS)
def test_refused_sockets_are_told_with_reasons_that_hold_here(pod, network):
    code = "import ctypes\nfor f in (1, 2, 16): assert ctypes.CDLL(None).socket(f, 3, 4) == -1"
    r = pod.execute(code, network=network)
    told = {v["args"][0]: v["hint"] for v in r["meta"]["violations"]}
    assert r["exit_code"] == 0 and list(told) == list(HINTS[network]), r
    for family, hint in HINTS[network].items():
        assert told[family].startswith(hint), told


def test_there_is_no_network_namespace_and_isolation_says_who_wanted_that(pod):
    ours = os.readlink("/proc/thread-self/ns/net")
    for network in (True, False):
        assert pod.execute(HOST_NET, network=network)["stdout"].strip() == ours
    i = pod.get("/isolation").json
    layer = i["layers"]["network_namespace"]
    assert (layer["requested"], layer["active"]) == (False, False)
    assert layer["reason"] == "given up by the operator: SANDBOX_NETWORK=pod"
    assert (i["level"], i["network"]) == ("namespaces", "pod")
    assert pod.get("/health").json["isolation"]["missing"] == []


@pytest.mark.parametrize("fields", [{}, {"network": False}, {"network": []}])
def test_a_run_without_network_has_no_socket(pod, world, fields):
    before = world.asked()
    assert pod.execute(NOTHING, **fields)["stdout"] == "nothing\n"
    assert world.asked() == before


def test_a_list_that_nobody_would_keep_is_refused(pod):
    r = pod.post("/execute", {"code": "1", "network": ["ok.test"]})
    assert r.status == 400 and "SANDBOX_NETWORK=pod" in r.json["error"]
    r = pod.post("/execute", {"code": "1", "network": 1})
    assert (r.status, r.json["error"]) == (400, "network must be false or true")


def test_names_of_sockets_without_a_file_are_out_of_reach(pod):
    with socket.socket(socket.AF_UNIX) as s:
        s.bind("\0sandbox-test-pod")
        s.listen()
        code = "import socket\nsocket.socket(socket.AF_UNIX).connect('\\0sandbox-test-pod')"
        for network in (True, False):
            r = pod.execute(code, network=network)
            assert r["exit_code"] == 1 and "Address family not supported" in r["stderr"], r


def test_the_level_full_is_not_had_with_it():
    env = {**POD, "SANDBOX_MIN_ISOLATION": "full", "PATH": os.environ["PATH"]}
    done = subprocess.run([BINARY, "check"], env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1 and "network_namespace: given up by the operator" in done.stdout


@pytest.mark.skipif(SANITIZED, reason="selftest runs this binary inside, where no sanitizer can")
def test_what_selftest_says_of_it(world):
    env = {**POD, "PATH": os.environ["PATH"]}
    done = subprocess.run([BINARY, "selftest", "--case", "NW"], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "FAILED" not in done.stdout, done.stdout


class Few(Outside):
    """Of a plain user, in a user namespace in which no network namespace can be made."""

    def command_line(self, args, env):
        words = super().command_line(args, env)
        os.chown(self.state_dir, 65534, 65534)
        plain = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "unshare", "--user"]
        script = 'echo 0 >/proc/sys/user/max_net_namespaces && exec "$@"'
        words[words.index(BINARY)] = self.binary
        at = words.index(self.binary)
        return [*words[:at], *plain, "--map-root-user", "sh", "-c", script, "sh", *words[at:]]


@pytest.fixture
def installing(place, index):
    return {
        **POD,
        "SANDBOX_NETWORK_DEFAULT": "true",
        "SANDBOX_PYTHON_INDEX": f"http://127.0.0.1:{index.server_port}/simple",
        "PATH": f"{place}/bin:/usr/bin:/bin",
    }


def test_it_works_where_no_network_namespace_can_be_made(world, installing):
    Few.binary = binary_for_all()
    s = Few(installing, (), "python")
    try:
        assert "world ok.test" in s.execute(CLIENTS["python"].format(url="http://ok.test/"))["stdout"]
        # packages still come by a broker, which needs one
        r = s.post("/execute", {"code": "1", "requirements": ["greet"]})
        assert r.status == 500 and "network" in r.json["error"], r
        assert s.execute("print(1)")["stdout"] == "1\n"
    finally:
        s.stop()
        shutil.rmtree(os.path.dirname(Few.binary))


def test_installs_keep_their_broker(world, installing):
    s = Outside(installing, (), "python")
    try:
        r = s.execute(SHOW, requirements=["greet"])
        assert r["stdout"] == "hello /packages/greet.py\n", r
        s.wait_log(r"network\.connection .*host=127\.0\.0\.1 .*verdict=ok")
    finally:
        s.stop()


class Locked(Outside):
    def command_line(self, args, env):
        words = super().command_line(args, env)
        at = words.index(BINARY)
        if self.kind == KINDS[0]:
            os.chown(self.state_dir, 65534, 65534)
        return [*words[:at], sys.executable, LOCKED, *flags(self.kind), self.binary, *words[at + 1 :]]


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the filter is for x86-64")
@pytest.mark.parametrize("kind", KINDS)
def test_at_the_level_landlock_it_is_the_same(world, kind):
    Locked.kind, Locked.binary = kind, binary_for_all()
    s = Locked({**POD, "SANDBOX_MIN_ISOLATION": "landlock", "PATH": "/usr/bin:/bin"}, (), "python,shell")
    try:
        for language in ("python", "shell"):
            r = s.execute(CLIENTS[language].format(url="http://ok.test/"), language=language, network=True)
            assert "world ok.test" in r["stdout"] and r["meta"]["isolation"] == "landlock", r
        assert s.execute(DIRECT, network=True)["stdout"] == "0b010101 11.1.1.1\n"
        assert s.execute(NOTHING)["stdout"] == "nothing\n"
        assert s.get("/isolation").json["layers"]["network_namespace"]["requested"] is False
    finally:
        s.stop()
        shutil.rmtree(os.path.dirname(Locked.binary))

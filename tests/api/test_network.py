# SPDX-License-Identifier: GPL-2.0-only
"""Network by a broker: exactly what is listed, whatever a program or a resolver says.

Server and broker are in a network namespace with no way out but to world.py's, which has none.
"""

import contextlib
import os
import shutil
import subprocess
import tempfile
import time

import pytest

from conftest import BINARY, SANITIZED, wait_for
from node22 import node22  # noqa: F401, a fixture
from outside import CLIENTS, Outside, ask, make, world  # noqa: F401, fixtures
from packages import place_with_uv, uv_program
from probes import binary_for_all
from support import Later

NEAR = [
    "loop", "metadata", "zero", "private", "carrier", "own", "six-loop", "mapped", "mapped-private",
    "compatible", "nat64", "6to4", "local", "link",
]  # fmt: skip
LISTED = "ok.test,*.ok.test,six.test,both.test,rebind.test," + ",".join(f"{n}.test" for n in NEAR)

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for network namespaces")


@pytest.fixture(scope="module", autouse=True)
def fetched():
    """uv, as long as there is a way to a registry; who needs it skips where there is none."""
    with contextlib.suppress(pytest.skip.Exception):
        uv_program()


@pytest.fixture(scope="module")
def listed(world):
    s = make({"SANDBOX_NETWORK": LISTED, "SANDBOX_EGRESS_MB": "1", "SSL_CERT_FILE": Outside.certificate})
    yield s
    s.stop()


@pytest.fixture(scope="module")
def everything(world):
    s = make({"SANDBOX_NETWORK": "allow", "SANDBOX_NETWORK_DEFAULT": "true"})
    yield s
    s.stop()


@pytest.mark.parametrize("language", CLIENTS)
def test_what_is_listed_is_reached_and_nothing_else(listed, language):
    text, counts = ask(listed, language, "http://ok.test/x")
    assert "world ok.test" in text
    assert counts["connections"] == 1 and counts["refused"] == 0
    assert counts["sent_bytes"] > 20 and counts["received_bytes"] > 20
    text, counts = ask(listed, language, "http://other.test/")
    # node says only that a tunnel was refused
    assert ("not_listed" in text or "403" in text) and "world" not in text
    assert counts["connections"] == 0 and counts["refused"] == 1 and counts["sent_bytes"] == 0


def test_a_refused_tunnel_says_why(listed):
    """In its reason: clients show nothing else of it."""
    r = listed.execute(CLIENTS["python"].format(url="https://other.test/"), network=True)
    assert "403 this host and port are not on the list of this run" in r["stderr"]


@pytest.mark.parametrize("language", CLIENTS)
def test_https_with_a_certificate_that_only_this_host_trusts(listed, language):
    assert "world ok.test" in ask(listed, language, "https://ok.test/")[0]
    text, counts = ask(listed, language, "https://other.test/")
    assert "world" not in text and counts["refused"] == 1


def test_git_clones_by_https(listed):
    """A repository of the test's own, as files."""
    top = os.path.dirname(Outside.certificate) + "/git"
    who = ["-c", "user.name=t", "-c", "user.email=t@t.test", "-c", "init.defaultBranch=main"]
    with tempfile.TemporaryDirectory() as made:
        for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "first words"]):
            subprocess.run(["git", *who, *words], check=True, cwd=made)
        subprocess.run(["git", "clone", "-q", "--bare", made, top + "/a.git"], check=True)
    subprocess.run(["git", "update-server-info"], check=True, cwd=top + "/a.git")
    code = "cd /tmp && git clone -q https://ok.test/git/a.git && git -C a log --format=%s"
    r = listed.execute(code, language="shell", network=True)
    assert r["stdout"] == "first words\n", r
    r = listed.execute("git clone https://other.test/git/a.git", language="shell", network=True)
    assert r["exit_code"] != 0 and r["meta"]["network"]["connections"] == 0


FRONTED = """
import socket, ssl
# a record that says nothing is passed over by some servers: it must not hide what follows
for name, before in (("ok.test", b""), ("other.test", b""), ("other.test", b"\\x14\\3\\3\\0\\0")):
    s = socket.create_connection(("127.0.0.1", 3128))
    s.sendall(b"CONNECT ok.test:443 HTTP/1.1\\r\\n\\r\\n")
    assert b" 200 " in s.recv(4096)
    s.sendall(before)
    try:
        t = ssl.create_default_context().wrap_socket(s, server_hostname=name)
        t.sendall(b"GET / HTTP/1.1\\r\\nHost: other.test\\r\\n\\r\\n")
        print(name, t.recv(4096)[:15])
    except (OSError, ssl.SSLError) as e:
        print(name, "refused")
"""


def test_tls_for_another_host_than_asked_for_is_refused(listed):
    r = listed.execute(FRONTED, network=True)
    assert r["stdout"] == "ok.test b'HTTP/1.1 200 OK'\nother.test refused\nother.test refused\n", r
    listed.wait_log(r"network\.connection .*host=ok\.test port=443 verdict=bad_tls_name")


@pytest.mark.parametrize("language", CLIENTS)
@pytest.mark.parametrize("to", ["other.test", "metadata.test", "169.254.169.254", "ok.test:8022"])
def test_a_redirect_to_what_is_refused_is_refused(listed, world, language, to):
    before = len(world.asked()["hits"])
    text, counts = ask(listed, language, f"http://ok.test/to?u=http://{to}/")
    assert "403" in text and "world" not in text, text
    assert (counts["connections"], counts["refused"]) == (1, 1)
    assert [h[1][:3] for h in world.asked()["hits"][before:]] == ["/to"]


@pytest.mark.parametrize("which", ["listed", "everything"])
def test_a_name_that_leads_near_is_refused(which, request, world):
    server = request.getfixturevalue(which)
    before = len(world.asked()["hits"])
    code = "for n in %s; do curl -sS -m 10 http://$n.test/; done" % " ".join(NEAR)
    r = server.execute(code, language="shell", network=True)
    assert r["stdout"].count("(bad_address)") == len(NEAR), r
    assert r["meta"]["network"] == {
        "connections": 0, "refused": len(NEAR), "sent_bytes": 0, "received_bytes": 0,
    }  # fmt: skip
    assert len(world.asked()["hits"]) == before
    server.wait_log(r"network\.connection .*host=mapped\.test port=80 verdict=bad_address")


def test_ipv6_and_the_good_one_of_several_answers_are_reached(listed):
    for name in ("six", "both", "sub.ok"):
        assert f"world {name}.test" in ask(listed, "shell", f"http://{name}.test/")[0]


def test_a_name_is_resolved_once(listed, world):
    """What was checked is what is connected to: the second answer would lead here."""
    r = ask(listed, "shell", "http://rebind.test/")[0]
    assert "world rebind.test" in r
    assert world.asked()["names"].count("rebind.test") == 2  # once for each family


def test_a_name_that_is_not_listed_is_never_asked_for(listed, world):
    ask(listed, "shell", "http://secret-of-the-run.other.test/")
    assert not [n for n in world.asked()["names"] if "secret" in n]


TRICKS = r"""
import socket
def say(data):
    s = socket.create_connection(("127.0.0.1", 3128), 10)
    s.sendall(data)
    text = b""
    while True:
        piece = s.recv(4096)
        if not piece: return text
        text += piece
hosts = [b"11.1.1.1", b"ok.test@other.test", b"other.test\0.ok.test", b"ok.test\0", b"ok.test.other.test",
    b"notok.test", b"ok.test%00", b"ok.test%2eother.test", b" ok.test", b"ok.test\t", b"ok..test", b".ok.test",
    b"ok.test..", b"0x0b.1.1.1", b"184615169", b"013.1.1.1", b"11.1.257", b"[::ffff:11.1.1.1]", b"::ffff:11.1.1.1",
    b"[::ffff:a4d:2]", b"b\xc3\xbccher.ok.test", b"\xef\xbd\x8fk.test", b"127.0.0.1", b"2130706433", b"0x7f.1",
    b"localhost", b"[::1]", b"[fe80::1%25v0]", b"169.254.169.254", b"10.77.0.2", b""]
for h in hosts:
    t = say(b"CONNECT " + h + b":80 HTTP/1.1\r\n\r\n")
    assert t.startswith((b"HTTP/1.1 403", b"HTTP/1.1 400")), (h, t)
    t = say(b"GET http://" + h + b"/ HTTP/1.1\r\nHost: ok.test\r\n\r\n")
    assert t.startswith((b"HTTP/1.1 403", b"HTTP/1.1 400")), (h, t)
    t = say(b"\5\1\0\5\1\0\3" + bytes([len(h)]) + h + b"\0\x50")
    assert t[:3] == b"\5\0\5" and t[3:4] != b"\0", (h, t)
for a in (b"\1\x7f\0\0\1", b"\1\x0b\1\1\1", b"\4" + bytes(15) + b"\1", b"\4" + bytes(10) + b"\xff\xff\x7f\0\0\1"):
    t = say(b"\5\1\0\5\1\0" + a + b"\0\x50")
    assert t[:4] == b"\5\0\5\2", (a, t)
for port in (b"22", b"81", b"0", b"65536", b"-1", b"80x", b"http", b""):
    t = say(b"CONNECT ok.test:" + port + b" HTTP/1.1\r\n\r\n")
    assert t.startswith((b"HTTP/1.1 403", b"HTTP/1.1 400")), (port, t)
for junk in (b"\r\n\r\n", b"\0" * 100, b"\4\1\0\x50\1\1\1\1\0", b"GET / HTTP/1.1\r\n\r\n", b"A" * 20000,
    b"CONNECT ok.test:80 HTTP/1.1\nHost: x\n\n\r\n\r\n", b"GET http://ok.test/ HTTP/1.1\r\nA: b\nC: d\r\n\r\n"):
    t = say(junk)
    assert not t or t.startswith(b"HTTP/1.1 400"), (junk, t)
t = say(b"GET http://OK.test./ HTTP/1.1\r\nHost: other.test\r\n\r\n")
assert t.endswith(b"world ok.test"), t
# what is sent behind one request is no second one, for whichever host
t = say(b"GET http://ok.test/1 HTTP/1.1\r\n\r\nGET http://other.test/2 HTTP/1.1\r\nHost: other.test\r\n\r\n")
assert t.count(b"world") == 1, t
print("fine")
"""


def test_tricks_with_names_addresses_and_protocols(listed, world):
    before = len(world.asked()["hits"])
    r = listed.execute(TRICKS, network=True)
    assert r["stdout"] == "fine\n", r
    assert r["meta"]["network"]["connections"] == 2
    assert [h[0] for h in world.asked()["hits"][before:]] == ["ok.test", "ok.test"]


AHEAD = r"""
import socket
get = b"GET / HTTP/1.1\r\nHost: ok.test\r\n\r\n"
tunnel, socks = b"CONNECT ok.test:80 HTTP/1.1\r\n\r\n", b"\5\1\0\5\1\0\3\7ok.test\0\x50"
for head in (tunnel, socks):
    for size in (1, 7, 1000):
        data = head + get
        with socket.create_connection(("127.0.0.1", 3128), 10) as s:
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for i in range(0, len(data), size): s.sendall(data[i:i + size])
            s.shutdown(socket.SHUT_WR)
            text = b"".join(iter(lambda: s.recv(4096), b""))
        assert text.endswith(b"world ok.test"), (head, size, text)
print("fine")
"""


def test_bytes_come_ahead_in_pieces_and_one_side_ends_first(listed):
    """A client need not wait for an answer, and hears it although it has said all it will say."""
    r = listed.execute(AHEAD, network=True)
    assert r["stdout"] == "fine\n", r
    assert r["meta"]["network"]["connections"] == 6 and r["meta"]["network"]["refused"] == 0


NOTHING = r"""
import errno, socket
for family in range(0, 46):
    if family in (1, 16): continue
    for kind in (1, 2, 3, 5, 10):
        try: socket.socket(family, kind)
        except OSError as e: assert e.errno == errno.EAFNOSUPPORT, (family, kind, e)
        else: raise SystemExit(f"socket({family}, {kind})")
try: socket.getaddrinfo("ok.test", 80)
except OSError: pass
else: raise SystemExit("resolved")
s = socket.socket(socket.AF_UNIX)
for name in ("\0x", "/run/systemd/resolve/io.systemd.Resolve", "/var/run/nscd/socket"):
    try: s.connect(name)
    except OSError: pass
    else: raise SystemExit(name)
print("nothing")
"""


@pytest.mark.parametrize("network", [False, []])
def test_without_network_there_is_nothing_by_any_family(everything, world, network):
    before = world.asked()
    r = everything.execute(NOTHING, network=network)
    assert r["stdout"] == "nothing\n", r
    assert "network" not in r["meta"]
    assert world.asked() == before


def test_without_network_there_is_nothing_while_others_install(world):
    """The install has a broker and a connection all the while."""
    place = place_with_uv()
    s = make({"SANDBOX_PYTHON_INDEX": "http://index.test/simple", "SANDBOX_INSTALL_TIMEOUT_SEC": "8",
              "SANDBOX_NETWORK": "allow", "PATH": f"{place}/bin:{Outside.path}"})  # fmt: skip
    try:
        install = Later(s, "1", requirements=["slow"])
        wait_for(lambda: ["index.test", "/simple/slow/"] in world.asked()["hits"])
        before = world.asked()
        for network in (False, []):
            r = s.execute(NOTHING, network=network)
            assert r["stdout"] == "nothing\n" and "network" not in r["meta"], r
        assert world.asked() == before and not install.over()
        assert install.result()["meta"]["install"]["reason"] == "timeout"
    finally:
        s.stop()
        shutil.rmtree(place)


def test_a_run_with_network_has_streams_on_its_loopback_and_no_more(everything):
    code = r"""
import socket, os
for family in range(0, 46):
    for kind in (1, 2, 3, 5, 6, 10):
        if family in (1, 16) or (family in (2, 10) and kind == 1): continue
        try: socket.socket(family, kind)
        except OSError: pass
        else: raise SystemExit(f"socket({family}, {kind})")
try: socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)
except OSError: pass
else: raise SystemExit("MPTCP")
for to in (("11.1.1.1", 80), ("10.77.0.2", 80), ("10.77.0.1", 80), ("127.0.0.1", %d), ("2a00::1", 80)):
    try: socket.create_connection(to, 5)
    except OSError: pass
    else: raise SystemExit(str(to))
print(sorted(l.split(":")[0].strip() for l in open("/proc/net/dev").readlines()[2:]))
print(len(open("/proc/net/route").readlines()))
""" % everything.port
    assert everything.execute(code, network=True)["stdout"] == "['lo']\n1\n"


def test_the_default_is_the_operators(everything, listed):
    fetch = CLIENTS["shell"].format(url="http://ok.test/")
    r = everything.execute(fetch, language="shell")
    assert "world ok.test" in r["stdout"]
    r = listed.execute(fetch, language="shell")
    assert "world" not in r["stdout"] and "network" not in r["meta"]


@pytest.mark.parametrize(
    "wanted, status",
    [
        (["ok.test"], 200), (["ok.test:80"], 200), (["a.ok.test"], 200), (["*.ok.test"], 200),
        (["OK.test."], 200), (["ok.test", "other.test"], 403), (["*.test"], 403), (["*"], 403),
        (["ok.test:22"], 403), (["11.1.1.1"], 403), (["0.0.0.0/0"], 403), (["http://ok.test"], 400),
        (["ok.test\r\nx"], 400), ([""], 400), (["0x7f.1"], 400),
    ],
)  # fmt: skip
def test_a_request_can_only_narrow(listed, wanted, status):
    r = listed.post("/execute", {"code": "1", "network": wanted})
    assert r.status == status, r
    if status != 200:
        assert r.json["code"] == ("network_not_allowed" if status == 403 else "bad_request"), r
        assert f"network[{len(wanted) - 1}]" in r.json["error"]


def test_who_names_an_address_of_this_host_does_not_reach_it(everything):
    """11.2.2.2 is public, and the server's own: world.py does not have it."""
    code = CLIENTS["shell"].format(url="http://11.2.2.2/")
    r = everything.execute(code, language="shell", network=["11.2.2.2"])
    assert "(bad_address)" in r["stdout"] and r["meta"]["network"]["refused"] == 1, r


def test_a_narrower_list_is_what_counts(listed):
    assert "world" in ask(listed, "shell", "http://ok.test/", ["ok.test"])[0]
    assert "not_listed" in ask(listed, "shell", "http://six.test/", ["ok.test"])[0]


def test_private_addresses_are_reached_when_the_operator_lists_them(world):
    s = make({"SANDBOX_NETWORK": "private.test,loop.test,10.77.0.0/24,ok.test:22"})
    try:
        code = "for u in private.test 10.77.0.2 loop.test ok.test:22 ok.test; do curl -sS -m 10 http://$u/; echo; done"
        lines = s.execute(code, language="shell", network=True)["stdout"].split("\n")
        assert lines[0] == "world private.test" and lines[1] == "world 10.77.0.2"
        assert "bad_address" in lines[2] and "world ok.test:22" in lines[4] and "not_listed" in lines[5]
        r = s.execute("curl -sS http://private.test", language="shell", network=["private.test"])
        assert r["stdout"] == "world private.test"
        assert s.get("/isolation").json["network"] == "broker"
    finally:
        s.stop()


HOARD = """
import socket, time
l = socket.create_server(("127.0.0.1", 9999))
keep = []
for i in range(300):
    a = socket.create_connection(("127.0.0.1", 9999))
    keep += [a, l.accept()[0]]
    a.setblocking(False)
    try:
        while True: a.send(bytes(65536))
    except BlockingIOError: pass
    time.sleep(0.005)
"""


class Plain(Outside):
    """The same as a plain user, who has no cgroup to limit memory."""

    def command_line(self, args, env):
        words = super().command_line(args, env)
        os.chown(self.state_dir, 65534, 65534)
        at = words.index(BINARY)
        plain = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        return [*words[:at], *plain, self.binary, *words[at + 1 :]]


def test_a_plain_user_has_the_same_and_what_sockets_hold_counts(world):
    Plain.binary = binary_for_all()
    s = Plain({"SANDBOX_WARM": "0", "SANDBOX_NETWORK": "ok.test", "PATH": "/usr/bin:/bin"}, (), "python")
    try:
        assert "world ok.test" in ask(s, "python", "http://ok.test/")[0]
        r = s.execute(HOARD, network=True, limits={"memory_mb": 64})
        assert r["meta"]["verdict"] == "out_of_memory", r
    finally:
        s.stop()
        shutil.rmtree(os.path.dirname(Plain.binary))


def test_an_index_near_by_a_name_is_refused_and_the_answer_says_what_to_do(world):
    place = place_with_uv()
    s = make({"SANDBOX_PYTHON_INDEX": "http://loop.test/simple", "PATH": f"{place}/bin:{Outside.path}"})
    try:
        r = s.execute("1", requirements=["six"])
        assert r["meta"]["install"]["reason"] == "refused_host", r
        assert "host 'loop.test' of an index leads to this host or its link: name it by its address" in r["stderr"]
    finally:
        s.stop()
        shutil.rmtree(place)


def test_off_is_the_default_and_an_empty_list_is_nothing(world):
    for value in (None, " , "):
        s = make({"SANDBOX_NETWORK": value, "SANDBOX_NETWORK_DEFAULT": "true",
                  "SANDBOX_PYTHON_INDEX": "none", "SANDBOX_NPM_REGISTRY": "none"})  # fmt: skip
        try:
            for wanted in (True, ["ok.test"]):
                r = s.post("/execute", {"code": "1", "network": wanted})
                assert (r.status, r.json["code"]) == (403, "network_not_allowed")
            assert s.execute(NOTHING)["stdout"] == "nothing\n"
            assert s.get("/isolation").json["network"] == "none"
        finally:
            s.stop()


def test_peers_that_are_slow_or_do_not_end_hold_up_nobody(listed):
    slow = Later(listed, "curl -sS -N http://ok.test/slow", language="shell", network=True, timeout_seconds=2)
    silent = Later(
        listed, "import socket,time\na=[socket.create_connection(('127.0.0.1',3128)) for i in range(80)]\n"
        "time.sleep(9)",
        network=True, timeout_seconds=2,
    )  # fmt: skip
    for _ in range(3):
        assert listed.execute("print(1)")["stdout"] == "1\n"
    assert not slow.over() and not silent.over()
    # of 80 at once there is room for 64, who are heard of when they end
    wait_for(lambda: listed.log().count("port=0 verdict=too_many ") == 16)
    r = slow.result()
    assert r["meta"]["timed_out"] and r["meta"]["network"]["received_bytes"] > 0
    r = silent.result()
    assert r["meta"]["timed_out"] and r["meta"]["network"]["refused"] == 80
    assert listed.log().count("port=0 verdict=too_many ") == 16
    r = listed.execute("curl -sS http://ok.test/endless | wc -c", language="shell", network=True)
    assert 0 < int(r["stdout"]) <= 1 << 20 and not r["meta"]["timed_out"]
    listed.wait_log(r"network\.connection .*verdict=too_much")


def test_brokers_end_with_their_runs_and_their_mother_is_replaced(everything):
    def brokers():
        return everything.named("sandbox-egress")

    wait_for(lambda: len(brokers()) == 1, 5)
    with open(f"/proc/{brokers()[0]}/status", encoding="ascii") as f:
        status = dict(line.split(":\t") for line in f.read().splitlines() if ":\t" in line)
    assert status["CapEff"] == status["CapBnd"] == "0" * 16 and status["Uid"].split() == ["599997"] * 4
    assert status["NoNewPrivs"] == "1" and (SANITIZED or status["Seccomp"] == "2")
    os.kill(brokers()[0], 9)
    everything.wait_log(r"egress\.died")
    fetch = CLIENTS["shell"].format(url="http://ok.test/")
    end = time.monotonic() + 10
    while True:
        r = everything.post("/execute", {"code": fetch, "language": "shell"})
        if r.status == 200:
            break
        assert (r.status, r.json["code"]) == (500, "network_lost") and time.monotonic() < end
        time.sleep(0.1)
    assert "world ok.test" in r.json["stdout"]
    wait_for(lambda: len(brokers()) == 1, 5)

# SPDX-License-Identifier: GPL-2.0-only
"""Network in sessions: exactly what is listed, for all that is done in one, as long as it lives.

Server and brokers are in a network namespace with no way out but to world.py's, which has none.
"""

import os
import signal

import pytest

from conftest import open_to_all, wait_for
from node22 import node22  # noqa: F401, a fixture
from outside import CLIENTS, Outside, world  # noqa: F401, fixtures
from test_session_roots import make_image
from test_sessions import Session, call, files_left

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="sessions need a server started as root")
LISTED = "ok.test,*.ok.test,six.test,loop.test"


def serve(state_dir=None, **settings):
    env = {"SANDBOX_SESSIONS": "on", "SANDBOX_NETWORK": LISTED, "SSL_CERT_FILE": Outside.certificate}
    env.update({"SANDBOX_WARM": "0", "PATH": Outside.path, **settings})
    return Outside(env, (), "shell", state_dir=state_dir)


@pytest.fixture
def begin(world):
    """serve(), and the end of each whatever happens."""
    made = []

    def one(*args, **settings):
        made.append(serve(*args, **settings))
        return made[-1]

    yield one
    for s in made:
        if not s.stopped:
            s.kill()


@pytest.fixture(scope="module")
def served(world):
    s = serve(SANDBOX_EGRESS_MB="1")
    yield s
    s.stop()


def curl(url, more=""):
    return f'curl -sS -m 10 -w " %{{http_code}}" {more} {url}'


def sums(one):
    return call(one.server, "GET", one.path)["network"]


def brokers(server):
    """Not their mother, who stays and has the name too: she is the supervisor's child."""
    return [p for p in server.named("sandbox-egress") if parent(p) not in (None, server.pid)]


def parent(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as f:
            return int(f.read().rsplit(")", 1)[1].split()[1])
    except OSError:
        return None  # it ended meanwhile


def reached(one):
    return one.exec(curl("http://ok.test/"))["stdout"] == "world ok.test 200"


def test_commands_reach_what_is_listed_and_nothing_else(served, world):
    one = Session(served, "one", allow_network=True)
    assert one.out(curl("http://ok.test/")) == "world ok.test 200"
    assert one.out(curl("https://ok.test/")) == "world ok.test 200"
    python = CLIENTS["python"].format(url="http://sub.ok.test/")
    assert one.out("python3 -", stdin=python) == "world sub.ok.test\n"
    before = len(world.asked()["hits"])
    for url in ("http://other.test/", "http://ok.test:22/", "http://11.1.1.1/", "http://loop.test/"):
        assert one.out(curl(url)).endswith(" 403")
    # and not beside the proxy
    for way in ("--noproxy '*' http://11.1.1.1/", "--noproxy '*' http://10.77.0.2/"):
        assert one.exec(curl(way))["stdout"] == " 000"
    assert len(world.asked()["hits"]) == before
    wait_for(lambda: (sums(one)["connections"], sums(one)["refused"]) == (3, 4), 30)
    n = sums(one)
    assert n["sent_bytes"] > 60 and n["received_bytes"] > 60
    served.wait_log(
        r"network\.connection session=workflow_one_sandbox host=other\.test port=80 verdict=not_listed"
    )
    assert call(served, "GET", one.path)["allow_network"] is True
    # its own loopback is there as ever
    one.exec("python3 -m http.server 8000 >/dev/null 2>&1 &")
    wait_for(lambda: one.exec(curl("http://127.0.0.1:8000/"))["stdout"].endswith(" 200"), 30)
    one.close()
    wait_for(lambda: not brokers(served), 30)


def test_background_processes_have_it_as_long_as_they_live(served):
    one = Session(served, allow_network=["ok.test"])
    one.out(f"while sleep 0.1; do {curl('http://ok.test/')} > new; mv new last; done >/dev/null 2>&1 &")
    for _ in range(2):
        one.exec("rm -f last")
        wait_for(lambda: one.exec("cat last")["stdout"] == "world ok.test 200", 30)
    (broker,) = brokers(served)
    one.close()
    wait_for(lambda: not brokers(served), 30)
    assert not os.path.exists(f"/proc/{broker}")


def test_a_list_narrows_and_never_widens(served):
    one = Session(served, allow_network=["sub.ok.test"])
    assert one.out(curl("http://sub.ok.test/")) == "world sub.ok.test 200"
    assert one.out(curl("http://ok.test/")).endswith(" 403")
    assert call(served, "GET", one.path)["allow_network"] == ["sub.ok.test"]
    one.close()
    for wide in (["other.test"], ["ok.test", "*"], ["ok.test:22"], ["10.0.0.0/8"]):
        answer = call(served, "POST", "/sessions", {"allow_network": wide}, 403)
        assert answer["code"] == "network_not_allowed" and "allow_network[" in answer["error"]
    for bad in ("ok.test", 1, [1], ["a b"], {}):
        answer = call(served, "POST", "/sessions", {"allow_network": bad}, 400)
        assert answer["code"] == "bad_request" and "allow_network" in answer["error"]
    assert call(served, "GET", "/sessions")["sessions"] == []


def test_bytes_are_bounded_in_each_session(served):
    one, other = (Session(served, allow_network=True) for _ in range(2))
    fetch = "curl -sS -m 20 http://ok.test/endless | wc -c"
    got = [int(one.out(fetch)) for _ in range(3)]
    # of all commands together
    assert 1 << 19 < sum(got) <= 1 << 20, got
    assert int(other.out(fetch)) > 1 << 19
    wait_for(lambda: sum(got) <= sums(one)["received_bytes"] <= 1 << 20, 30)
    served.wait_log(r"network\.connection session=.* host=ok\.test .*verdict=too_much")
    # its next processes have another broker, and what is left
    call(served, "POST", f"{one.path}/checkpoints", {})
    wait_for(lambda: len(brokers(served)) == 1, 30)
    assert int(one.out(fetch)) < 1 << 15 and len(brokers(served)) == 2
    assert sums(one)["received_bytes"] <= 1 << 20
    one.close()
    other.close()


@pytest.mark.parametrize("nothing", [{}, {"allow_network": False}, {"allow_network": []}])
def test_without_it_nothing_is_reached(served, nothing):
    one = Session(served, **nothing)
    assert one.out("env | grep -ci proxy; true") == "0\n"
    look = "exec 3<>/dev/tcp/127.0.0.1/3128 || echo closed"
    assert one.out(look) == "closed\n"
    assert one.exec(curl("-x http://127.0.0.1:3128 http://ok.test/"))["stdout"] == " 000"
    (told,) = one.exec("exec 3<>/dev/udp/127.0.0.1/9")["meta"]["violations"]
    assert told["hint"].startswith("a session has TCP only: on its own loopback"), told
    about = call(served, "GET", one.path)
    assert about["allow_network"] is False and about["network"] is None
    wait_for(lambda: not brokers(served), 30)  # of sessions that were closed before
    one.close()


def test_a_fork_and_what_was_restored_have_it_too(served):
    one = Session(served, allow_network=["ok.test"])
    name = call(served, "POST", f"{one.path}/checkpoints", {})["checkpoint_id"]
    assert reached(one)
    copies = call(served, "POST", f"{one.path}/fork", {"count": 2})["sessions"]
    others = []
    for each in copies:
        other = Session.__new__(Session)
        other.server, other.path = served, f"/sessions/{each['session_id']}"
        others.append(other)
        assert reached(other)
        assert other.out(curl("http://sub.ok.test/")).endswith(" 403")
    call(served, "POST", f"{one.path}/restore", {"checkpoint_id": name})
    assert reached(one)
    assert len(brokers(served)) == 3
    # each has its own
    wait_for(lambda: sums(one)["connections"] == 2, 30)
    for other in others:
        wait_for(lambda: sums(other)["connections"] == 1 and sums(other)["refused"] == 1, 30)
    for each in (one, *others):
        each.close()
    wait_for(lambda: not brokers(served), 30)


def test_a_broker_or_a_launcher_that_dies_is_replaced(served):
    one = Session(served, allow_network=True)
    assert reached(one)
    (broker,) = brokers(served)
    wait_for(lambda: sums(one)["connections"] == 1, 30)  # it has told so
    os.kill(broker, signal.SIGKILL)
    served.wait_log(r"network\.lost session=")
    # its processes could reach nothing any more: they are ended, and others begin
    assert one.exec("true", status=409)["code"] == "session_busy"
    wait_for(lambda: one.server.post(f"{one.path}/exec", {"command": "true"}).status == 200, 30)
    assert reached(one)
    wait_for(lambda: sums(one)["connections"] == 2, 30)
    (launcher,) = [p for p in served.pids() if is_launcher(p, served)]
    os.kill(launcher, signal.SIGKILL)
    wait_for(lambda: one.server.post(f"{one.path}/exec", {"command": "true"}).status == 200, 60)
    assert reached(one)
    one.close()
    wait_for(lambda: not brokers(served), 30)


def is_launcher(pid, server):
    if parent(pid) != server.pid:
        return False  # one that may end meanwhile
    with open(f"/proc/{pid}/cmdline", "rb") as f:
        return b"launcher" in f.read().split(b"\0")


def test_it_survives_the_end_of_everything(begin, tmp_path):
    open_to_all(str(tmp_path))
    make_image(str(tmp_path), "small")
    s = begin(str(tmp_path))
    one, other = Session(s, "kept", allow_network=["ok.test"]), Session(s, allow_network=True)
    image = Session(s, image="small", allow_network=True)
    # certificates of this host are not in an image
    assert image.out("env | grep -c CERT; echo $https_proxy; true") == "0\nhttp://127.0.0.1:3128\n"
    assert image.out("wget -q -O - http://ok.test/") == "world ok.test"
    assert reached(one) and reached(other)
    s.kill()
    s = begin(str(tmp_path))
    one.server = other.server = s
    assert reached(one) and reached(other)
    assert one.out(curl("http://sub.ok.test/")).endswith(" 403")
    assert other.out(curl("http://sub.ok.test/")) == "world sub.ok.test 200"
    s.stop()
    # and never more than the operator allows now
    s = begin(str(tmp_path), SANDBOX_NETWORK="six.test")
    one.server = other.server = s
    assert not reached(one) and not reached(other)
    assert one.out("env | grep -ci proxy; true") == "0\n"
    s.wait_log(r"session\.network session=workflow_kept_sandbox")
    assert other.out(curl("http://six.test/")) == "world six.test 200"
    for each in call(s, "GET", "/sessions")["sessions"]:
        call(s, "DELETE", f"/sessions/{each['session_id']}")
    wait_for(lambda: files_left(s) == [] and not brokers(s), 60)
    s.stop()


@pytest.mark.parametrize(
    "network, status, code", [("off", 403, "network_not_allowed"), ("pod", 501, "network_unavailable")]
)
def test_where_the_operator_gives_none(begin, network, status, code):
    s = begin(SANDBOX_NETWORK=network)
    for wish in (True, ["ok.test"]):
        assert call(s, "POST", "/sessions", {"allow_network": wish}, status)["code"] == code
    for wish in (False, []):
        one = Session(s, allow_network=wish)
        assert one.exec(curl("--noproxy '*' http://11.1.1.1/"))["stdout"] == " 000"
        one.close()
    assert call(s, "GET", "/sessions")["sessions"] == []
    s.stop()

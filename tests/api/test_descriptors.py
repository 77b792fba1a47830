# SPDX-License-Identifier: GPL-2.0-only
"""Few descriptors: whoever holds them, nobody is promised what another one has."""

import os
import re
import signal

import pytest

from conftest import post, wait_for
from support import marked, new_mark
from test_session_network import brokers
from test_sessions import Session, call

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="sessions need a server started as root")
LIMITS = [(256, 3), (256, 1), (400, 3), (700, 3), (1500, 3)]
BAD = r"lost|failed|server\.full|launcher\.cut|Too many open files"


def serve(start, nofile, **settings):
    env = {"SANDBOX_SESSIONS": "on", "SANDBOX_NETWORK": "ok.test", "SANDBOX_MEMORY_MB": "64"}
    return start(nofile=nofile, mode="shell", **{**env, **settings})


def lowered(server, name):
    return int(re.search(rf"{name}=(\d+)", server.wait_log(rf"limit\.lower .*{name}=")).group(1))


def open_all(server, mark):
    """Sessions with network and something running, as many as there can be; what the next one is told."""
    made = []
    while True:
        r = server.post("/sessions", {"allow_network": True})
        if r.status != 200:
            return made, r
        made.append(r.json["session_id"])
        left = {"command": f"bash -c 'exec -a {mark} sleep 1000' >/dev/null 2>&1 &"}
        call(server, "POST", f"/sessions/{made[-1]}/exec", left)


def release(server, made, mark):
    """What runs in them ends, and each has room for commands."""
    for pid in marked(mark):
        os.kill(pid, signal.SIGKILL)
    for one in made:
        wait_for(lambda one=one: server.post(f"/sessions/{one}/exec", {"command": "true"}).status == 200)


@pytest.mark.parametrize("nofile, capacity", LIMITS)
def test_all_at_once_are_answered_or_refused(start, nofile, capacity):
    s = serve(start, nofile, SANDBOX_MAX_CONCURRENT=str(capacity))
    cap, places = lowered(s, "max_connections"), lowered(s, "sessions_and_commands")
    assert lowered(s, "commands_in_sessions") > 0 and lowered(s, "sessions_with_network") > 0
    mark = new_mark()
    made, refused = open_all(s, mark)
    if places < 2:
        assert refused.status == 501 and refused.json["code"] == "sessions_unavailable"
    else:
        assert refused.status == 429 and refused.headers["retry-after"]
    assert "RLIMIT_NOFILE" in refused.json["error"]
    assert len(made) == places // 2  # one for what runs in it
    wait_for(lambda: len(brokers(s)) == len(made))  # that of the refused one ends
    release(s, made, mark)

    asking = [s.raw(timeout=60) for _ in range(min(40, cap - 4))]
    idle = [s.raw() for _ in range(cap + 100)]  # some are told, some are just closed
    for i, c in enumerate(asking):
        if made and i % 3:
            path, body = f"/sessions/{made[i % len(made)]}/exec", {"command": f"sleep 1; echo {i}"}
        else:
            path, body = "/execute", {"code": f"sleep 1; echo {i}", "network": i % 2 == 0}
        c.send(post(body, path=path))
    done = {200: 0, 429: 0}
    for i, c in enumerate(asking):
        r = c.reply()
        done[r.status] += 1
        if r.status == 200:
            assert (r.json["stdout"], r.json["meta"]["verdict"]) == (f"{i}\n", "ok"), r
        else:
            assert re.search(r"at capacity|RLIMIT_NOFILE", r.json["error"]), r
        c.close()
    assert done[200] >= capacity + bool(made), done
    for c in idle:
        c.close()
    # and all is as before
    wait_for(lambda: s.load() == 0)
    assert s.execute("echo again")["stdout"] == "again\n"
    for one in made:
        assert call(s, "POST", f"/sessions/{one}/exec", {"command": "echo on"})["stdout"] == "on\n"
        call(s, "DELETE", f"/sessions/{one}")
    wait_for(lambda: not brokers(s), 30)
    assert not re.search(BAD, s.log()), s.log()


def test_a_session_without_processes_has_no_broker(start):
    s = serve(start, None, SANDBOX_WARM="0")
    one = Session(s, "one", allow_network=True)
    assert len(brokers(s)) == 1
    one.out("sleep 1000 >/dev/null 2>&1 &")
    call(s, "POST", f"{one.path}/checkpoints", {"force": True})
    wait_for(lambda: not brokers(s), 10)
    # what comes next has another one
    assert one.out("echo on; env | grep -c ^http_proxy=") == "on\n1\n"
    (broker,) = brokers(s)
    one.out("true")
    assert brokers(s) == [broker]
    one.close()
    wait_for(lambda: not brokers(s), 10)
    assert not re.search(r"network\.lost", s.log()), s.log()


def test_brokers_end_with_the_launcher_and_come_back(start):
    s = serve(start, None, SANDBOX_WARM="0")
    made = [Session(s, allow_network=True) for _ in range(3)]
    (launcher,) = s.named("sandbox-launch")
    before = set(brokers(s))
    os.kill(launcher, 9)
    wait_for(lambda: not before & set(brokers(s)), 10)
    s.wait_ready()
    assert made[0].out("echo on") == "on\n"
    assert len(brokers(s)) == 1
    for one in made:
        one.close()

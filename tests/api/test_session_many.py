# SPDX-License-Identifier: GPL-2.0-only
"""Many sessions: what idle ones cost, how many are kept, that those cost nothing at all, and in which form."""

import json
import os
import shutil
import statistics
import tempfile
import time

import pytest

from conftest import SANITIZED, Server, wait_for
from support import marked, new_mark
from test_sessions import Session, call, on
from tokens import TokenFile, bearer, reload

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="sessions need a server started as root")

SETTINGS = {"SANDBOX_SESSIONS": "on", "SANDBOX_WARM": "0"}
STORED = 1000
FORKS = 64  # at a time
IDLE = 100


def shared_kb(server):
    total = 0
    for pid in server.pids():
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as f:
            total += next(int(line.split()[1]) for line in f if line.startswith("Pss:"))
    return total


def cpu(server):
    return sum(server.cpu_seconds(pid) for pid in server.pids())


def p50(server, rounds=25):
    took = []
    for _ in range(rounds):
        begin = time.monotonic()
        server.execute("true")
        took.append(time.monotonic() - begin)
    return statistics.median(took)


@pytest.mark.skipif(SANITIZED, reason="a sanitizer's memory is not ours")
def test_a_hundred_idle_ones_cost_little():
    s = Server(SETTINGS, mode="shell")
    try:
        Session(s, "first")
        before = shared_kb(s)
        for n in range(IDLE):
            Session(s, f"idle-{n}")
        assert (shared_kb(s) - before) / IDLE < 1024
        spent = cpu(s)
        time.sleep(1)  # nothing is what there is to see
        assert cpu(s) - spent <= 0.03
    finally:
        s.stop()


def test_a_thousand_stored_ones_slow_nothing():
    state = tempfile.mkdtemp(prefix="sandbox-state-")
    servers = []
    try:
        s = Server(SETTINGS, mode="shell", state_dir=state)
        servers.append(s)
        one = Session(s, "source")
        one.out("echo kept > f")
        made = 1
        while made < STORED:
            made += len(call(s, "POST", one.path + "/fork", {"count": min(FORKS, STORED - made)})["sessions"])
        for path, body in ((one.path + "/fork", {"count": 1}), ("/sessions", {})):
            refused = call(s, "POST", path, body, status=429)
            assert refused["code"] == "too_many_sessions" and "1000" in refused["error"]
        s.stop()

        full, none = {"state_dir": state}, {}
        began = {True: [], False: []}
        for _ in range(3):
            for kept in (full, none):
                begin = time.monotonic()
                servers.append(Server(SETTINGS, mode="shell", **kept))
                began[kept is full].append(time.monotonic() - begin)
                if len(servers) < 6:
                    servers[-1].stop()
        s, empty = servers[-2:]
        # the least of each: this machine has other things to do too
        assert min(began[True]) < min(began[False]) + 0.5
        ids = [x["session_id"] for x in call(s, "GET", "/sessions")["sessions"]]
        assert len(ids) == STORED
        wait_for(lambda: len(s.pids()) <= len(empty.pids()))  # who looks for leftovers has ended
        with_them, without = min(p50(s), p50(s)), min(p50(empty), p50(empty))
        assert with_them < 1.5 * without + 0.002
        for i in ids[:3] + ids[-3:]:
            assert call(s, "POST", f"/sessions/{i}/exec", {"command": "cat f"})["stdout"] == "kept\n"
        call(s, "DELETE", f"/sessions/{ids[0]}")
        assert call(s, "POST", "/sessions", {})["created"]
    finally:
        for s in servers:
            s.stop()
        shutil.rmtree(state)


def test_who_is_not_used_gives_up_its_processes():
    """Where there are descriptors for a few only; files stay, and so does who runs something."""
    s = Server({**SETTINGS, "SANDBOX_LOG_LEVEL": "debug"}, mode="shell", nofile=1200)
    try:
        mark = new_mark()
        busy = Session(s, "busy")
        busy.exec(f"(exec -a {mark} sleep 600) >&- 2>&- &")
        wait_for(lambda: marked(mark))
        count = 24
        many = [Session(s, f"s-{n}") for n in range(count)]
        for n, one in enumerate(many):
            one.out(f"echo {n} > f")
        assert "session.yields" in s.log()
        # in the order in which they were used: each is wanted when it ends, or has just ended
        assert [one.out("cat f") for one in many] == [f"{n}\n" for n in range(count)]
        assert marked(mark) and busy.out("echo still here") == "still here\n"
        for one in many:
            one.close()
    finally:
        s.stop()


def test_no_token_takes_all_from_others(start, tmp_path):
    file = TokenFile(tmp_path)
    usual, few, other = file.token("usual"), file.token("few", "sessions=3"), file.token("other")
    s = start(mode="shell", SANDBOX_TOKEN_FILE=file.path, **SETTINGS)

    def ask(token, path="/sessions", body=None, method="POST"):
        return s.request(method, path, headers=bearer(token), body=json.dumps(body or {}).encode())

    def fill(token, most):
        path = f"/sessions/{ask(token).json['session_id']}/fork"
        made = 1
        while made < most:
            r = ask(token, path, {"count": min(FORKS, most - made)})
            assert r.status == 200, r
            made += len(r.json["sessions"])
        return path

    # none of it counts for who has not done it
    for token, most in ((few, 3), (usual, 500)):
        path = fill(token, most)
        for r in (ask(token), ask(token, path), ask(token, path, {"count": FORKS})):
            assert (r.status, r.json["code"]) == (429, "too_many_sessions"), r
            assert r.json["error"] == f"this token keeps at most {most} sessions, and has {most}; close some"
    fill(other, 497)
    # what others have is not told
    r = ask(other)
    assert (r.status, r.json["error"]) == (429, "this server keeps at most 1000 sessions; close some")
    ids = [x["session_id"] for x in ask(few, method="GET").json["sessions"]]
    assert ask(few, f"/sessions/{ids[0]}", method="DELETE").status == 200
    assert ask(few).json["created"]
    # another file counts for what there is
    file.write([line.replace("sessions=3", "sessions=2") for line in file.lines])
    assert "tokens.loaded" in reload(s)
    assert ask(few, f"/sessions/{ids[1]}", method="DELETE").status == 200
    assert "at most 2 sessions, and has 2" in ask(few).json["error"]


def test_no_token_takes_all_places_for_processes(tmp_path):
    """What runs in its sessions keeps them in their places, and another token's find theirs all the same."""
    file = TokenFile(tmp_path)
    greedy, other = bearer(file.token("greedy")), bearer(file.token("other"))
    s = Server({**SETTINGS, "SANDBOX_TOKEN_FILE": file.path}, mode="shell", nofile=1400)
    try:
        places = int(s.wait_log("sessions_and_commands=").split("sessions_and_commands=")[1].split()[0])
        taken = 0
        while (r := s.post("/sessions", {}, greedy)).status == 200:
            r = s.post(f"/sessions/{r.json['session_id']}/exec", {"command": "sleep 600 >&- 2>&- &"}, greedy)
            assert r.status == 200, r
            taken += 2
            assert taken <= places
        assert (r.status, r.json["code"]) == (429, "at_capacity") and "of this token" in r.json["error"], r
        assert places // 2 - 2 < taken <= places // 2
        # idle ones make room for their own
        for n in range(places):
            r = s.post("/sessions", {"scope_type": "agent", "scope_id": str(n)}, other)
            assert r.status == 200, r
            r = s.post(f"/sessions/{r.json['session_id']}/exec", {"command": "echo here"}, other)
            assert r.status == 200 and r.json["stdout"] == "here\n", r
        assert s.post("/sessions", {}, greedy).status == 429
    finally:
        s.stop()


def test_files_of_another_version_are_taken_over_or_refused(start, tmp_path):
    os.chmod(tmp_path, 0o755)
    s = on(start, state_dir=str(tmp_path))
    one = Session(s, "kept", env={"A": "a"})
    assert one.out("echo $A > f; cat f") == "a\n"
    s.stop()
    (file,) = (tmp_path / "session-index").iterdir()
    written = json.loads(file.read_text())
    assert written.pop("version") == 1
    # the first had no number
    file.write_text(json.dumps(written))
    s = on(start, state_dir=str(tmp_path))
    assert not Session(s, "kept").opened["created"]
    assert Session(s, "kept").out("cat f; echo $A") == "a\na\n"
    s.stop()
    assert json.loads(file.read_text()) == {"version": 1, **written}
    # and of what is to come nobody knows how to keep it
    newer = json.dumps({"version": 2, **written})
    file.write_text(newer)
    with pytest.raises(AssertionError, match="has form 2, of a newer sandbox-server; this one knows 1"):
        on(start, state_dir=str(tmp_path))
    assert file.read_text() == newer and os.listdir(tmp_path / "sessions" / "layers")

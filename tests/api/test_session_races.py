# SPDX-License-Identifier: GPL-2.0-only
"""Sessions that are asked for several things at once: each call is answered, and nothing is left half made."""

import concurrent.futures
import os
import random
import time

import pytest

from conftest import Server, wait_for
from test_sessions import Session, call, files_left

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="sessions need a server started as root")


FLIPS = """import os
while True:
    for n in "abc":
        os.rename(n, n + "2")
        os.rename(n + "2", n)
"""


@pytest.fixture(scope="module")
def served():
    s = Server({"SANDBOX_SESSIONS": "on", "SANDBOX_WARM": "0"}, mode="shell")
    yield s
    s.stop()


def open_scope(server, scope):
    return server.post("/sessions", {"scope_type": "workflow", "scope_id": scope})


def path_of(scope):
    return f"/sessions/workflow_{scope}_sandbox"


def in_threads(count, fn):
    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        return list(pool.map(fn, range(count)))


def test_who_is_closed_while_it_is_opened_is_closed(served):
    def often(n):
        moments, path = random.Random(n), path_of(f"o{n}")
        for _ in range(15):
            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                opened = pool.submit(open_scope, served, f"o{n}")
                time.sleep(moments.random() * 0.03)  # as it comes: any moment will do
                closed = served.request("DELETE", path, timeout=20).status
                assert opened.result().status in (200, 404, 409)
            assert closed in (200, 404)
            if closed == 404:
                assert call(served, "DELETE", path)["closed"]

    in_threads(8, often)
    assert call(served, "GET", "/sessions")["sessions"] == []
    wait_for(lambda: files_left(served) == [], 30)


def test_what_is_frozen_by_force_while_it_is_opened_stays(served):
    def often(n):
        moments, scope, kept = random.Random(n), f"f{n}", 0
        for _ in range(15):
            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                opened = pool.submit(open_scope, served, scope)
                time.sleep(moments.random() * 0.03)  # as it comes: any moment will do
                made = served.post(f"{path_of(scope)}/checkpoints", {"force": True})
                assert opened.result().status in (200, 409)
            assert made.status in (200, 404)
            if made.status == 200:
                # the session whose files these are, and not another one of its name
                restored = served.post(f"{path_of(scope)}/restore", {"checkpoint_id": made.json["checkpoint_id"]})
                assert restored.status == 200, restored
                assert served.post(f"{path_of(scope)}/exec", {"command": "pwd"}).json["stdout"] == "/work\n"
                kept += 1
            call(served, "DELETE", path_of(scope))
        return kept

    assert sum(in_threads(6, often)) > 0
    wait_for(lambda: files_left(served) == [], 30)


def test_a_session_in_use_is_compared(served):
    one = Session(served, "flips")
    one.out("mkdir a b c; python3 - > /dev/null 2>&1 <<'E' &\n" + FLIPS + "E\n")
    for _ in range(300):
        d = call(served, "GET", f"{one.path}/diff")
        assert set(d["added"]) <= {f"/work/{n}" for n in ("a", "b", "c", "a2", "b2", "c2")}, d
    one.close()


def test_files_of_a_session_that_is_frozen_meanwhile_are_asked_for_again(served):
    one = Session(served, "frozen")
    call(served, "POST", f"{one.path}/checkpoints", {})
    stop = time.monotonic() + 5
    seen = set()

    def write(_):
        while time.monotonic() < stop:
            status, answer = one.write("a", bytes(8 << 20))
            seen.add((status, answer.get("code")))

    def freeze(_):
        while time.monotonic() < stop:
            call(served, "POST", f"{one.path}/restore", {"checkpoint_id": "latest", "force": True})

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for each in [pool.submit(fn, 0) for fn in (write, write, write, freeze)]:
            each.result()
    assert seen <= {(200, None), (409, "session_busy")}, seen
    one.close()


def test_what_takes_every_place_can_be_closed(served):
    full = [Session(served, f"full{n}") for n in range(8)]
    with concurrent.futures.ThreadPoolExecutor(128) as pool:
        paths = [f"{each.path}/exec" for each in full for _ in range(16)]
        running = [pool.submit(served.post, path, {"command": "sleep 60"}) for path in paths]
        wait_for(lambda: sum(s["commands"] for s in call(served, "GET", "/sessions")["sessions"]) == 128, 60)
        refused = served.post(f"{full[0].path}/exec", {"command": "true"})
        assert (refused.status, refused.json["code"]) == (429, "at_capacity")
        assert call(served, "DELETE", "/scopes/workflow/full0") == {"closed": 1}
        for each in full[1:]:
            assert each.close()["closed"]
        # 409: it had not begun
        odd = [r.result().json for r in running if r.result().status not in (200, 409)]
        assert not odd, odd


def test_a_command_that_begins_while_its_session_is_closed_is_no_fault(served):
    seen = set()
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        for n in range(25):
            one = Session(served, f"brief{n}")
            begun = [pool.submit(served.post, f"{one.path}/exec", {"command": "sleep 60"}) for _ in range(16)]
            time.sleep(0.006 * n)
            one.close()
            seen |= {(r.result().status, r.result().json.get("code")) for r in begun}
    assert seen <= {(200, None), (404, "not_found"), (409, "session_busy")}, seen

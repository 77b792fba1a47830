# SPDX-License-Identifier: GPL-2.0-only
"""Must hold 9: so many at once, the next is told so at once, and nobody keeps a place."""

import time

from conftest import post, wait_for
from probes import SLOW, Asking

AT_ONCE = 1.0 * SLOW  # seconds: without waiting for any of the runs, which take longer


def load_is(server, n):
    wait_for(lambda: server.load() == n)


def sleepers(server, count, seconds):
    """So many runs, all of them begun."""
    asked = [Asking(server, f"echo begun; sleep {seconds}") for _ in range(count)]
    load_is(server, count)
    return asked


def hang_up(server, count, seconds=60):
    """So many runs whose connections are returned, to be closed."""
    held = [server.raw(post({"code": f"sleep {seconds}"})) for _ in range(count)]
    load_is(server, count)
    return held


def check_busy(reply, numbers):
    assert reply.status == 429, reply
    assert reply.json == {
        "error": f"at capacity ({numbers} concurrent executions)",
        "code": "at_capacity",
    }
    assert reply.headers["retry-after"] == "1"


def test_with_defaults_three_at_once_all_answer_200(start):
    s = start(mode="shell")
    assert s.get("/health").json["capacity"] == 3
    asked = sleepers(s, 3, 2)
    answers = [a.result() for a in asked]
    assert [a.status for a in answers] == [200] * 3
    assert [a.json["stdout"] for a in answers] == ["begun\n"] * 3
    assert [a.json["meta"]["verdict"] for a in answers] == ["ok"] * 3
    assert s.load() == 0


def test_with_defaults_the_fourth_is_refused(start):
    s = start(mode="shell")
    held = hang_up(s, 3)
    check_busy(s.post("/execute", {"code": "echo 4"}), "4/3")
    for c in held:
        c.close()
    load_is(s, 0)


def test_capacity_2_the_third_is_429_at_once(start):
    s = start(mode="shell", SANDBOX_MAX_CONCURRENT="2")
    held = hang_up(s, 2)
    for body in (b'{"code":"echo 3"}', b'{"code":', b"\x00\xff garbage", b"[" * 100000, b""):
        begin = time.monotonic()
        check_busy(s.post("/execute", body), "3/2")
        assert time.monotonic() - begin < AT_ONCE
    assert s.load() == 2
    for c in held:
        c.close()
    load_is(s, 0)


def test_busy_is_said_before_the_body_is_read(start):
    s = start(mode="shell", SANDBOX_MAX_CONCURRENT="1")
    held = hang_up(s, 1)
    head = post(b"x" * 1000)[:-1000]
    with s.raw(head) as c:
        check_busy(c.reply(), "2/1")
    with s.raw(head.replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n")) as c:
        check_busy(c.reply(), "2/1")
    held[0].close()
    load_is(s, 0)


def test_health_shows_the_load_going_0_2_0(start):
    s = start(mode="shell", SANDBOX_MAX_CONCURRENT="2")
    seen = [s.load()]
    asked = sleepers(s, 2, 1)
    seen.append(s.load())
    assert s.get("/readyz").status == 200, "load never changes readiness"
    assert [a.result().json["exit_code"] for a in asked] == [0, 0]
    seen.append(s.load())
    assert seen == [0, 2, 0]


def test_a_client_that_hangs_up_frees_its_slot(start):
    s = start(mode="shell", SANDBOX_MAX_CONCURRENT="2")
    for how in ("close", "reset", "close", "reset"):
        held = hang_up(s, 2)
        begin = time.monotonic()
        for c in held:
            getattr(c, how)()
        load_is(s, 0)
        assert time.monotonic() - begin < 2 * SLOW
        # and the places are real ones
        assert [a.result().json["stdout"] for a in sleepers(s, 2, 0.5)] == ["begun\n"] * 2


def test_a_client_that_hangs_up_kills_its_processes(start):
    s = start(mode="shell", SANDBOX_WARM="0")
    before = 6  # supervisor, server, launcher and, a moment after it is ready, three workers
    wait_for(lambda: len(s.pids()) == before)
    held = hang_up(s, 3)
    wait_for(lambda: len(s.pids()) >= before + 6)  # process 1 and bash, three times
    for c in held:
        c.close()
    wait_for(lambda: len(s.pids()) == before)


def test_requests_beyond_the_capacity_wait_in_the_queue(start):
    s = start(mode="shell", SANDBOX_MAX_CONCURRENT="1", SANDBOX_QUEUE="2")
    first = sleepers(s, 1, 2)[0]
    waiting = [Asking(s, "echo two"), Asking(s, "echo three")]
    wait_for(lambda: s.post("/execute", b"x").status == 429)  # both are in
    check_busy(s.post("/execute", {"code": "echo four"}), "4/1")
    assert s.load() == 1, "those who wait are no load"
    assert first.result().json["stdout"] == "begun\n"
    assert sorted(w.result().json["stdout"] for w in waiting) == ["three\n", "two\n"]
    assert s.load() == 0


def test_the_queue_is_served_in_order(start):
    s = start(mode="python", SANDBOX_MAX_CONCURRENT="1", SANDBOX_QUEUE="4")
    clock = "import time; print(time.monotonic_ns())"
    asked = [Asking(s, "import time; time.sleep(2); print(time.monotonic_ns())")]
    wait_for(lambda: s.load() == 1)
    for _ in range(4):
        asked.append(Asking(s, clock))
        time.sleep(0.2)  # in this order to the server; nothing outside shows the queue
    times = [int(a.result().json["stdout"]) for a in asked]
    assert times == sorted(times)


def test_who_leaves_the_queue_gives_up_the_place(start):
    s = start(mode="shell", SANDBOX_MAX_CONCURRENT="1", SANDBOX_QUEUE="1")
    first = sleepers(s, 1, 3)[0]
    with s.raw(post({"code": "echo never"})):
        wait_for(lambda: s.post("/execute", b"x").status == 429)
    # its place is free: a bad body gets that far
    wait_for(lambda: s.post("/execute", b"x").status == 400)
    assert s.execute("echo next")["stdout"] == "next\n"
    assert first.result().json["stdout"] == "begun\n"

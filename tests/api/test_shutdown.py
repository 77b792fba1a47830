# SPDX-License-Identifier: GPL-2.0-only
"""The end of a server under load: whoever asked is answered, also where the run has to be killed."""

import http.client
import json
import os
import signal
import threading
import time

import pytest

from conftest import get, post, wait_for
from probes import Asking, launcher_pid
from test_lifecycle import ENDED, asleep, terminate


def test_sigterm_during_load_loses_no_answer(start):
    """Each client asks again as long as it is not told that this is the end; those that keep their
    connection and those that make a new one for each request. Whoever asked is answered."""
    s = start(mode="shell", SANDBOX_MAX_CONCURRENT="3", SANDBOX_QUEUE="4")
    lock, seen, lost, begun = threading.Lock(), [], [], time.monotonic()

    def told(status, body):
        with lock:
            seen.append((status, body.get("code"), body.get("stdout")))
        return body.get("code") == "draining"

    def client(n, keep):
        c, over = None, False
        try:
            while not over and time.monotonic() - begun < 60:
                c = c or http.client.HTTPConnection("127.0.0.1", s.port, timeout=60)
                body = json.dumps({"code": f"sleep 0.0{n % 5}; echo {n}"}) + " " * (n * 40000)
                c.request("POST", "/execute", body, {"Content-Type": "application/json"})
                r = c.getresponse()
                over = told(r.status, json.loads(r.read()))
                if not keep or r.will_close:
                    c.close()
                    c = None
        except Exception as e:
            lost.append((n, keep, repr(e)))

    slow = Asking(s, "sleep 2; echo slow")
    wait_for(lambda: s.load() == 1)
    clients = [threading.Thread(target=client, args=(n, n % 2)) for n in range(8)]
    for t in clients:
        t.start()
    wait_for(lambda: sum(1 for x in list(seen) if x[0] == 200) > 20, 30)
    terminate(s)
    for t in clients:
        t.join(60)
    assert not lost, (lost, s.log()[-2000:])
    assert slow.result().json["stdout"] == "slow\n"
    assert {(status, code) for status, code, _ in seen} <= {(200, None), (429, "at_capacity"), (503, "draining")}
    assert sum(1 for x in seen if x[1] == "draining") == len(clients)
    assert all(x[2] and x[2].strip().isdigit() for x in seen if x[0] == 200)
    s.proc.wait(10)
    s.stop(status=0)


def test_who_has_connected_before_the_end_is_answered(start):
    """A request that comes in the last second of a server that has nothing else to do."""
    s = start(mode="shell")
    kept = s.raw(get("/healthz"))
    assert kept.reply().status == 200
    new = [s.raw() for _ in range(3)]
    terminate(s)
    kept.send(post({"code": "echo 1"}))
    for c in new:
        c.send(get("/readyz"))
    assert kept.reply().json["code"] == "draining"
    assert [c.reply().status for c in new] == [503] * 3
    assert kept.ended() and all(c.ended() for c in new)
    s.proc.wait(10)
    s.stop(status=0)


@pytest.mark.parametrize("accept", ["text/event-stream", "application/x-ndjson"])
def test_a_stream_has_its_end_too(start, accept):
    s = start(mode="shell", SANDBOX_GRACE_SEC="0")
    events = s.events("echo begun; sleep 60", accept)
    assert next(events) == ("stdout", {"text": "begun\n"})
    wait_for(lambda: asleep(s))
    s.proc.send_signal(signal.SIGTERM)
    (*more, (name, last)) = list(events)
    assert more == [("stderr", {"text": ENDED + "\n"})]
    assert (name, last["exit_code"], last["stdout"], last["stderr"]) == ("result", 137, "begun\n", ENDED + "\n")
    s.proc.wait(10)
    s.stop(status=0)


def test_a_command_in_a_session_and_a_call_by_mcp_have_their_answers_too(start):
    s = start(mode="shell", SANDBOX_GRACE_SEC="0")
    opened = s.post("/sessions", {"scope_type": "agent", "scope_id": "end"})
    if opened.status == 501:
        pytest.skip(opened.json["message"])
    call = {"name": "run_code", "arguments": {"code": "echo begun; sleep 60"}}
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    command = post({"command": "echo begun; sleep 60"}, f"/sessions/{opened.json['session_id']}/exec")
    with s.raw(command) as c, s.raw(post(asked, "/mcp")) as mcp:
        wait_for(lambda: asleep(s, 2))
        s.stop()
        answer, told = c.reply(), mcp.reply()
    assert answer.status == told.status == 200, (answer, told, s.log()[-1500:])
    assert (answer.json["exit_code"], answer.json["stdout"]) == (137, "begun\n"), answer
    assert ENDED in told.json["result"]["structuredContent"]["stderr"], told


def test_who_would_have_to_wait_for_the_launcher_is_told_that_it_is_the_end(start):
    """One that does not do what it is asked any more."""
    s = start(mode="shell", SANDBOX_GRACE_SEC="0")
    launcher = launcher_pid(s)
    with s.raw(post({"code": "echo begun; sleep 60"})) as c, s.raw(
        post({"code": "echo begun; sleep 60"}, headers=["Accept: text/event-stream"])
    ) as stream:
        wait_for(lambda: asleep(s, 2))
        os.kill(launcher, signal.SIGSTOP)
        try:
            terminate(s)
            answer = c.reply()
            rest = stream.reply().body.decode()
            assert c.ended() and stream.ended()
        finally:
            os.kill(launcher, signal.SIGCONT)
    assert (answer.status, answer.json["code"]) == (503, "draining")
    assert "event: error\n" in rest and '"draining"' in rest and "event: result" not in rest
    s.proc.wait(10)
    s.stop(status=0)


def test_a_body_that_is_still_arriving_at_the_end_is_refused(start):
    s = start(mode="shell")
    whole = post({"code": "echo never" + " " * 100})
    with s.raw(whole[:-50]) as half, s.raw(whole[:-50]) as rest:
        s.get("/healthz")  # so they have been read
        terminate(s)
        rest.send(whole[-50:])
        for c in (half, rest):
            told = c.reply()
            assert (told.status, told.json["code"]) == (503, "draining")
            assert c.ended()
    s.proc.wait(10)
    s.stop(status=0)


def test_those_who_wait_in_the_queue_are_told(start):
    s = start(mode="shell", SANDBOX_MAX_CONCURRENT="1", SANDBOX_QUEUE="1")
    running = Asking(s, "sleep 2; echo ended")
    wait_for(lambda: s.load() == 1)
    waiting = Asking(s, "echo never")
    wait_for(lambda: s.post("/execute", b"x").status == 429)
    terminate(s)
    told = waiting.result()
    assert (told.status, told.json["code"]) == (503, "draining")
    assert running.result().json["stdout"] == "ended\n"
    s.proc.wait(10)

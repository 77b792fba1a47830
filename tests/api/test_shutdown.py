# SPDX-License-Identifier: GPL-2.0-only
"""The end of a server under load: whoever asked is answered."""

import http.client
import json
import threading
import time

from conftest import get, post, wait_for
from probes import Asking
from test_lifecycle import terminate


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

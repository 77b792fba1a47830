# SPDX-License-Identifier: GPL-2.0-only
"""What must not take long, and what must not keep others waiting. `make bench` has the figures."""

import json
import os
import statistics
import time

import pytest
from conftest import SANITIZED, wait_for
from probes import launcher_pid
from raw import post
from support import Later, b64, new_mark

MB = 1000 * 1000
PATIENCE = 20 if SANITIZED or os.environ.get("TESTS_SLOW") else 1


def scheduled(pid):
    """Seconds that a process of one thread had a CPU, and that it waited for one."""
    with open(f"/proc/{pid}/schedstat", encoding="ascii") as f:
        return [int(n) / 1e9 for n in f.read().split()[:2]]


def there_and_back(server, megabytes):
    """So many MB in the request and as many in the answer: seconds (of the server's CPU, by the
    clock, that it, the launcher and we waited for a CPU)."""
    pids = [server.server_pid, launcher_pid(server), os.getpid()]
    text = b64(os.urandom(megabytes * MB // 4 * 3))
    body = json.dumps({"code": "cp in.bin output/", "language": "shell", "files": {"in.bin": text}}).encode()
    before, begin = [scheduled(p) for p in pids], time.monotonic()
    answer = server.request("POST", "/execute", body, {"Content-Type": "application/json"})
    took = time.monotonic() - begin
    assert answer.status == 200 and f'"in.bin":"{text}"'.encode() in answer.body
    after = [scheduled(p) for p in pids]
    return after[0][0] - before[0][0], took, sum(a[1] - b[1] for a, b in zip(after, before, strict=True))


def test_ten_megabytes_in_and_out_take_less_than_150_ms(server):
    """The server's own work, and all of it by the clock unless others have the CPUs meanwhile."""
    worst = 0.150 * PATIENCE
    seen = []
    for _ in range(3):
        seen += [there_and_back(server, 10) for _ in range(4)]
        alone = [took for _, took, waited in seen if waited < 0.020]
        if min(cpu for cpu, _, _ in seen) < worst and (SANITIZED or min(alone, default=1) < worst):
            return
    assert min(cpu for cpu, _, _ in seen) < worst, seen
    assert not alone, seen


def test_the_work_for_large_bodies_and_answers_is_linear(server):
    there_and_back(server, 10)
    small = min(there_and_back(server, 1)[0] for _ in range(20))
    large = min(there_and_back(server, 10)[0] for _ in range(5))
    # caches hold the small one: without them a byte costs up to 1.8 times as much
    assert large < small * 10 * 2.2, (small, large)


def quick(server):
    begin = time.monotonic()
    server.execute(":", language="shell")
    return time.monotonic() - begin


LEFT = {
    "files": "for i in $(seq 9000); do : >output/$i; done",
    "bytes": "for i in 1 2 3 4 5 6 7 8 9; do head -c 1000000 /dev/zero >output/$i; done",
    "stored": "exit 1 # " + "x" * 9 * MB,
}


@pytest.mark.parametrize("what", LEFT)
def test_what_another_run_left_keeps_nobody_waiting(start, what):
    """Collected, encoded, stored: while that happens other requests begin and end."""
    server = start(mode="shell", SANDBOX_STORE_CODE="always", SANDBOX_MAX_CONCURRENT="4")
    alone = min(quick(server) for _ in range(20))
    looks = []
    # one may meet the answer's own encoding, which is work for milliseconds
    while not looks or min(looks) >= alone * 3 + 0.200 * PATIENCE:
        assert len(looks) < 3, (what, alone, looks)
        other = Later(server, LEFT[what], language="shell", timeout_seconds=60)
        beside = [quick(server)]
        while not other.over():
            beside.append(quick(server))
        other.result()
        looks.append(max(beside))


def test_a_client_that_does_not_read_keeps_nobody_waiting(server):
    code = "head -c 7000000 /dev/zero >output/f"
    mark = new_mark()
    with server.raw(post({"code": code, "language": "shell"}, headers=[f"X-Request-Id: {mark}"])):
        server.wait_log(rf"job\.done request={mark} .*verdict=ok")
        beside = [quick(server) for _ in range(20)]
    assert statistics.median(beside) < 0.100 * PATIENCE, beside


def _runs_ms(server, count=15):
    times = []
    for _ in range(count):
        begin = time.perf_counter()
        assert server.post("/execute", {"code": "print(1)"}).status == 200
        times.append(1000 * (time.perf_counter() - begin))
    return statistics.median(times)


def test_a_thousand_idle_and_slow_clients_do_not_delay_a_run(start):
    s = start(SANDBOX_MAX_CONCURRENT="8")
    big = {"code": "import os\nopen(os.environ['OUTPUT_DIR'] + '/f', 'wb').write(b'x' * 3000000)"}
    _runs_ms(s)
    usual = min(_runs_ms(s) for _ in range(2))
    others = []
    try:
        for _ in range(1000):
            others.append(s.raw())
        for _ in range(100):
            others.append(s.raw(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: "))
            others.append(s.raw(post(b"x" * 100000)[:-50000]))
        for _ in range(4):
            others.append(s.raw(post(big)))
        wait_for(lambda: s.load() == 0, 20)
        assert s.rss_kb() < 100 * 1024
        loaded = min(_runs_ms(s) for _ in range(2))
        assert loaded < 2 * usual + 2, f"usual {usual:.2f} ms, loaded {loaded:.2f} ms"
    finally:
        for c in others:
            c.close()

# SPDX-License-Identifier: GPL-2.0-only
"""Measurements that are not a race between contenders; each gives figures by name."""

import base64
import json
import os
import statistics
import threading
import time

from containers import docker
from layers import layers
from servers import show
from sessions import sessions

MB = 1000 * 1000
DEADLINE_SEC = 0.3
BOMB = "for i in $(seq 64); do (while :; do :; done) & done; wait"
SPIN = {"python": "while True: pass", "shell": "while :; do :; done", "node": "for (;;);"}


def _past_deadline(server, code, language, count):
    late = []
    for i in range(count):
        show(f"deadlines of {language}: {i + 1}/{count}")
        begin = time.monotonic()
        answer = server.execute(code=code, language=language, timeout_seconds=DEADLINE_SEC)
        took = time.monotonic() - begin
        if answer["meta"]["verdict"] != "timeout":
            raise SystemExit(f"bench: not a timeout: {answer}")
        # the deadline counts from the program's start
        late.append((took - DEADLINE_SEC) * 1000 - answer["meta"]["usage"]["setup_us"] / 1000)
    return statistics.median(late)


def timeout(bench):
    modes = [m for m in bench.modes if m in SPIN]
    bench.m.probes["timeout"] = max(_past_deadline(bench.cold, SPIN[m], m, 5) for m in modes)


def timeout_bomb(bench):
    bench.m.probes["timeout_bomb"] = _past_deadline(bench.cold, BOMB, "shell", 5)


def rss(bench):
    """Of a server with every mode and default limits, that has answered a few times."""
    server = bench.start(SANDBOX_MAX_CONCURRENT="3")
    try:
        for _ in range(20):
            server.execute(code=":", language="shell")
        bench.m.memory = {name: sorted(kb) for name, kb in server.processes().items()}
    finally:
        server.stop()
    named = bench.m.memory
    bench.m.probes["rss"] = sum(sum(kb) for name, kb in named.items() if name in ("sandbox-http", "sandbox-launch"))


def growth(bench):
    """One mode, one server, one run after the other."""
    count = bench.growth_runs
    before = sum(sum(kb) for kb in bench.cold.processes().values())
    times = bench.drive.series("bash http cold", count, "runs in a row")
    part = min(1000, count // 4)
    first, last = (statistics.median(t) for t in (times[:part], times[-part:]))
    after = sum(sum(kb) for kb in bench.cold.processes().values())
    bench.m.probes["growth"] = last / first
    bench.m.growth = {"runs": count, "first_ms": first, "last_ms": last, "before_kb": before, "after_kb": after}


def _large_body(size):
    data = os.urandom(size * 3 // 4 // 3 * 3)
    files = {"in.bin": base64.b64encode(data).decode()}
    return json.dumps({"code": "cp in.bin output/", "language": "shell", "files": files})


def _large(server, body, size):
    begin = time.monotonic()
    status, answer = server.ask("POST", "/execute", body)
    took = (time.monotonic() - begin) * 1000
    if status != 200 or len(answer) < size * 0.99 or b'"in.bin":"' not in answer:
        raise SystemExit(f"bench: {status} {answer[:300]!r}")
    return took


def large(bench):
    took = {}
    sizes = (5 * MB, 10 * MB)
    bodies = {size: _large_body(size) for size in sizes}
    for i in range(9):
        show(f"large bodies: {i + 1}/9")
        for size in sizes:
            took.setdefault(size, []).append(_large(bench.cold, bodies[size], size))
    half, whole = (statistics.median(took[size]) for size in sizes)
    bench.m.probes["large"] = whole
    bench.m.probes["linear"] = whole / half


def _quick(server, count):
    took = []
    for _ in range(count):
        begin = time.monotonic()
        server.execute(code=":", language="shell")
        took.append((time.monotonic() - begin) * 1000)
    return took


def beside(bench):
    """Others' large answers, stored too, must not delay the start of the next request."""
    server = bench.start(SANDBOX_STORE_CODE="always", SANDBOX_MAX_CONCURRENT="8")
    body, stop, ratios = _large_body(10 * MB), threading.Event(), []

    def load():
        while not stop.is_set():
            _large(server, body, 10 * MB)
            stop.wait(0.1)  # a client that does something with it

    try:
        _quick(server, 10)
        alone = statistics.median(_quick(server, 60))
        other = threading.Thread(target=load)
        other.start()
        ratios = _quick(server, 100)
        stop.set()
        other.join()
    finally:
        stop.set()
        server.stop()
    bench.m.probes["beside"] = statistics.median(ratios) / alone


PROBES = {
    "timeout": timeout,
    "timeout_bomb": timeout_bomb,
    "rss": rss,
    "large": large,
    "beside": beside,
    "growth": growth,
    "layers": layers,
    "sessions": sessions,
    "docker": docker,
}

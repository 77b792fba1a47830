# SPDX-License-Identifier: GPL-2.0-only
"""What sessions that nobody uses cost: a hundred, and a thousand whose files alone are there."""

import json
import os
import shutil
import statistics
import time

from servers import show

COUNT = 100
STORED, FORKS = 1000, 64
STARTS = 5
ROUNDS, SKIP = 60, 4


def _quick(server):
    begin = time.monotonic()
    server.execute(code=":", language="shell")
    return time.monotonic() - begin


def _ask(server, path, fields):
    status, body = server.ask("POST", path, json.dumps(fields))
    if status != 200:
        raise SystemExit(f"bench: {status} {body[:300]!r}")
    return json.loads(body)


def _compare(few, many, what):
    took = {few: [], many: []}
    for i in range(ROUNDS):
        show(f"{what}: {i + 1}/{ROUNDS}")
        for server, times in took.items():
            times.append(_quick(server))
    alone, beside = (statistics.median(took[s][SKIP:]) for s in (few, many))
    return beside / alone


def _start(bench, state):
    begin = time.monotonic()
    server = bench.start(["shell"], SANDBOX_SESSIONS="on", SANDBOX_STATE_DIR=state)
    return server, time.monotonic() - begin


def _stored(bench, states):
    """Forks, which have no processes before somebody uses them."""
    server, _ = _start(bench, states[1])
    source = _ask(server, "/sessions", {})["session_id"]
    made = 1
    while made < STORED:
        show(f"stored sessions: {made}/{STORED}")
        made += len(_ask(server, f"/sessions/{source}/fork", {"count": min(FORKS, STORED - made)})["sessions"])
    server.stop()
    took = ([], [])
    for _ in range(STARTS):
        for state, times in zip(states, took):
            server, seconds = _start(bench, state)
            times.append(seconds)
            server.stop()
    bench.m.probes["sessions_start"] = statistics.median(took[1]) / statistics.median(took[0])
    few, many = (_start(bench, state)[0] for state in states)
    try:
        bench.m.probes["sessions_stored"] = _compare(few, many, "beside stored sessions")
    finally:
        few.stop()
        many.stop()


def sessions(bench):
    if os.geteuid() != 0 or "shell" not in bench.modes:
        return  # a server that root started has them
    state = os.path.join(bench.top, "sessions")
    for n in ("few", "many", "none", "stored"):  # of an earlier repetition
        shutil.rmtree(f"{state}-{n}", ignore_errors=True)
    few, many = (
        bench.start(["shell"], SANDBOX_SESSIONS="on", SANDBOX_STATE_DIR=f"{state}-{n}") for n in ("few", "many")
    )
    try:
        before = many.shared_kb()
        for i in range(COUNT):
            show(f"sessions: {i + 1}/{COUNT}")
            _ask(many, "/sessions", {})
        bench.m.probes["sessions_rss"] = (many.shared_kb() - before) / COUNT
        bench.m.probes["sessions_growth"] = _compare(few, many, "beside sessions")
    finally:
        few.stop()
        many.stop()
    _stored(bench, [f"{state}-{n}" for n in ("none", "stored")])

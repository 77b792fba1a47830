# SPDX-License-Identifier: GPL-2.0-only
"""GET /metrics: what Prometheus reads, and that it is true."""

import os
import re
import signal
import subprocess
import threading

import pytest

from conftest import Server, wait_for
from probes import launcher_pid
from promtool import promtool
from tokens import TokenFile, bearer

ASK_BROKER = "exec 3<>/dev/tcp/127.0.0.1/3128; printf 'CONNECT other.test:443 HTTP/1.1\\r\\n\\r\\n' >&3; head -1 <&3"


def scrape(server, **headers):
    """Series to value."""
    r = server.get("/metrics", **headers)
    assert r.status == 200, r
    assert r.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    found = {}
    for line in r.body.decode().splitlines():
        if not line.startswith("#"):
            name, value = line.rsplit(" ", 1)
            assert name not in found, f"{name} stands there twice"
            found[name] = float(value)
    return found


def sums(found, name, **labels):
    """Of all series of a family that have these labels."""
    have = [f'{k}="{v}"' for k, v in labels.items()]
    return sum(v for k, v in found.items() if k.split("{")[0] == name and all(x in k for x in have))


@pytest.fixture(scope="module")
def busy():
    """A server that has seen something of everything."""
    env = {"SANDBOX_SESSIONS": "on" if os.geteuid() == 0 else "off", "SANDBOX_NETWORK": "ok.test", "SANDBOX_WARM": "2"}
    s = Server({**env, "SANDBOX_MAX_CONCURRENT": "2", "SANDBOX_QUEUE": "3"}, (), "shell")
    try:
        s.execute("echo 1")
        s.execute("exit 3")
        s.execute("sleep 60", timeout_seconds=0.2)
        s.execute("kill -9 $$")
        s.execute("yes | head -c 100000")
        if s.get("/isolation").json["network"] == "broker":
            assert "403" in s.execute(ASK_BROKER, network=True)["stdout"]
        if os.geteuid() == 0:
            opened = s.post("/sessions", {}).json["session_id"]
            assert s.post(f"/sessions/{opened}/exec", {"command": "true"}).status == 200
        assert s.post("/execute", {}).status == 400
        yield s
    finally:
        s.stop()


def test_promtool_finds_nothing_to_say(busy):
    text = busy.get("/metrics").body
    done = subprocess.run([promtool(), "check", "metrics"], input=text, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b""), done


def test_runs_are_counted_by_mode_and_verdict(busy):
    m = scrape(busy)
    for verdict, least in (("ok", 2), ("nonzero_exit", 1), ("timeout", 1), ("signal", 1)):
        assert sums(m, "sandbox_runs_total", mode="shell", verdict=verdict) >= least, verdict
    runs = sums(m, "sandbox_runs_total", mode="shell")
    assert m['sandbox_run_duration_seconds_count{mode="shell"}'] == runs
    assert m['sandbox_run_duration_seconds_bucket{mode="shell",le="+Inf"}'] == runs
    assert 0.2 <= m['sandbox_run_duration_seconds_sum{mode="shell"}'] < 120
    setups = sums(m, "sandbox_run_setup_seconds_count")
    assert setups == sums(m, "sandbox_runs_total")
    assert m["sandbox_output_truncated_total"] == 1
    assert m["sandbox_run_failures_total"] == 0
    before = m['sandbox_runs_total{mode="shell",verdict="ok"}']
    busy.execute("echo 1")
    assert scrape(busy)['sandbox_runs_total{mode="shell",verdict="ok"}'] == before + 1


def test_places_load_and_what_waits(busy):
    m = scrape(busy)
    assert (m["sandbox_runs_capacity"], m["sandbox_queue_capacity"], m["sandbox_ready"]) == (2, 3, 1)
    assert m["sandbox_isolation_level"] == {"process": 1, "landlock": 2, "namespaces": 3, "full": 4}[
        busy.get("/health").json["isolation"]["level"]
    ]
    asking = [threading.Thread(target=busy.execute, args=("sleep 2",)) for _ in range(3)]
    for t in asking:
        t.start()
    m = wait_for(lambda: (x := scrape(busy))["sandbox_queue_length"] == 1 and x)
    assert m["sandbox_runs_in_flight"] == 2 and m["sandbox_http_connections"] >= 4
    for t in asking:
        t.join()
    wait_for(lambda: scrape(busy)["sandbox_runs_in_flight"] == 0)
    if "warm" in busy.get("/health").json:
        m = wait_for(lambda: (x := scrape(busy))['sandbox_waiting_sandboxes{mode="shell"}'] == 2 and x)
        wait_for(lambda: scrape(busy)["sandbox_waiting_memory_bytes"] > 100000)


def test_answers_are_counted_by_class_and_refusals_by_code(busy):
    before = scrape(busy)
    for _ in range(3):
        assert busy.post("/execute", {}).status == 400
    assert busy.get("/nothing").status == 404
    m = scrape(busy)
    # the scrape before counts itself when it has been answered
    assert sums(m, "sandbox_http_responses_total") == sums(before, "sandbox_http_responses_total") + 5
    for name, more in (("sandbox_http_responses_total{code=\"4xx\"}", 4),
                       ("sandbox_requests_refused_total{code=\"code_required\"}", 3)):  # fmt: skip
        assert m[name] == before.get(name, 0) + more, name
    assert m['sandbox_requests_refused_total{code="not_found"}'] >= 1


def test_what_clients_send_makes_no_series(busy):
    names = set(scrape(busy))
    for i in range(30):
        busy.get(f"/nothing{i}", **{"X-Request-Id": f"id{i}"})
        busy.post("/execute", {"code": f"exit {i}", "language": f"lang{i}"})
        busy.request(f"M{i}", "/execute")
    more = {re.sub(r'code="\w+"', "", n) for n in set(scrape(busy)) - names}
    assert more <= {"sandbox_requests_refused_total{}"}, more
    assert len(scrape(busy)) < 400


@pytest.mark.skipif(os.geteuid() != 0, reason="sessions need a server started as root")
def test_sessions_are_counted(busy):
    before = scrape(busy)
    opened = busy.post("/sessions", {}).json["session_id"]
    m = scrape(busy)
    assert m["sandbox_sessions"] == before["sandbox_sessions"] + 1 >= 2
    assert sums(m, "sandbox_runs_total", mode="session") > 0
    assert busy.request("DELETE", f"/sessions/{opened}").status == 200
    assert scrape(busy)["sandbox_sessions"] == before["sandbox_sessions"]


def test_connections_of_brokers_are_counted(busy):
    if busy.get("/isolation").json["network"] != "broker":
        pytest.skip("needs the isolation level namespaces")
    before = scrape(busy)['sandbox_egress_connections_total{verdict="not_listed"}']
    busy.execute(ASK_BROKER, network=True)
    m = scrape(busy)
    assert m['sandbox_egress_connections_total{verdict="not_listed"}'] == before + 1
    assert m['sandbox_egress_bytes_total{verdict="not_listed",direction="sent"}'] == 0


def test_a_launcher_that_was_replaced_is_counted(busy):
    before = scrape(busy)
    t = threading.Thread(target=busy.post, args=("/execute", {"code": "sleep 60"}))
    t.start()
    wait_for(lambda: busy.load() == 1)
    os.kill(launcher_pid(busy), signal.SIGKILL)
    t.join()
    wait_for(lambda: busy.get("/readyz").status == 200, 30)
    m = scrape(busy)
    assert m["sandbox_launcher_restarts_total"] == before["sandbox_launcher_restarts_total"] + 1
    assert m["sandbox_run_failures_total"] == before["sandbox_run_failures_total"] + 1
    assert m['sandbox_requests_refused_total{code="launcher_lost"}'] >= 1
    assert m["sandbox_isolation_lost_total"] == 0


def test_where_tokens_are_wanted_it_wants_one(start, tmp_path):
    file = TokenFile(tmp_path)
    token = file.token("prometheus")
    s = start(mode="shell", SANDBOX_TOKEN_FILE=file.path)
    assert s.get("/metrics").status == 401
    m = scrape(s, **bearer(token))
    assert m['sandbox_requests_refused_total{code="token_required"}'] == 1
    assert m["sandbox_log_lines_lost_total"] == 0 and m["sandbox_launcher_refused_messages_total"] == 0
    assert [k for k in m if k.startswith("sandbox_build_info{version=")] and m["process_cpu_seconds_total"] > 0

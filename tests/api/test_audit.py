# SPDX-License-Identifier: GPL-2.0-only
"""SANDBOX_AUDIT_FILE: a line for every run, and what happens to who changes one."""

import contextlib
import hashlib
import json
import os
import signal
import subprocess
import threading

import pytest

from conftest import SANITIZED, wait_for
from probes import command
from test_lifecycle import asleep
from test_mcp_stdio import Stdio
from tokens import TokenFile, bearer

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def lines(path):
    with open(path, encoding="utf-8") as f:
        return [json.loads(x) for x in f]


def runs(path):
    return [x for x in lines(path) if x["event"] == "run"]


def verify(*args):
    done = command("audit", "verify", *map(str, args))
    return done.returncode, (done.stdout + done.stderr).strip()


def assert_intact(*files, count=None):
    status, told = verify(*files)
    assert status == 0 and "are as they were written" in told, told
    if count is not None:
        assert told.startswith(f"{count} lines, "), told
    return told.splitlines()[1]


@pytest.fixture
def audit(tmp_path):
    return tmp_path / "audit.log"


@pytest.fixture
def serve(start, audit):
    return lambda **env: start(mode="shell", SANDBOX_AUDIT_FILE=str(audit), **env)


def test_a_run_is_told_with_who_what_and_how_it_ended(start, audit, tmp_path):
    file = TokenFile(tmp_path)
    token, secret = file.token("ci"), "S3CRETvalue"
    s = start(mode="shell", SANDBOX_AUDIT_FILE=str(audit), SANDBOX_TOKEN_FILE=file.path)
    code = "echo $V; cat; mount -t tmpfs x /mnt; exit 3"
    parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    head = {**bearer(token), "X-Request-Id": "r-1", "traceparent": parent}
    body = {"code": code, "env": {"V": secret}, "stdin": secret, "args": [secret]}
    answer = s.post("/execute", body, head).json
    assert s.post("/execute", {"code": "sleep 60", "timeout_seconds": 0.2}, bearer(token)).status == 200
    assert s.post("/execute", {"code": ""}, bearer(token)).status == 400  # nothing was run
    assert s.post("/execute", {"code": "echo 1"}).status == 401
    first, second = runs(audit)
    assert first["request"] == "r-1" and first["trace"] == "4bf92f3577b34da6a3ce929d0e0e4736"
    assert (first["token"], first["mode"], first["verdict"], first["exit_code"]) == ("ci", "shell", "nonzero_exit", 3)
    assert first["code_sha256"] == hashlib.sha256(code.encode()).hexdigest()
    meta = answer["meta"]
    assert first["isolation"] == meta["isolation"] and first["network"] is None
    assert first["usage"]["memory_peak_kb"] == meta["usage"]["memory_peak_kb"]
    assert first["usage"]["wall_ms"] == answer["execution_time_ms"]
    assert first["usage"]["cpu_ms"] == meta["usage"]["cpu_ms"]
    if meta["violations"] is None:
        assert first["violations"] is None
    else:
        assert {"syscall": "mount", "count": 1} in first["violations"], first
    assert second["verdict"] == "timeout" and 200 <= second["usage"]["wall_ms"] < 5000
    text = audit.read_text()
    assert secret not in text and token not in text and "mount -t" not in text
    assert audit.stat().st_mode & 0o777 == 0o600
    s.stop()
    assert [x["event"] for x in lines(audit)] == ["start", "run", "run", "stop"]
    assert [x["line"] for x in lines(audit)] == [1, 2, 3, 4]
    assert_intact(audit, count=4)


def test_the_chain_goes_on_over_starts_and_the_log_has_its_head(serve, audit):
    heads = []
    for i in range(3):
        s = serve()
        s.execute(f"echo {i}")
        s.stop()
        line = s.wait_log(r"audit\.head line=%d " % (3 * i + 3))
        heads.append(line.rsplit("hash=", 1)[1])
    assert assert_intact(audit, count=9) == heads[-1] == lines(audit)[-1]["hash"]
    for head in heads:
        assert verify("--head", head, audit)[0] == 0
    # cut at the end, the file alone cannot tell; what the log had can
    whole = audit.read_text().splitlines(keepends=True)
    audit.write_text("".join(whole[:-2]))
    assert_intact(audit, count=7)
    status, told = verify("--head", heads[-1], audit)
    assert status == 1 and f"no line has the hash {heads[-1]}" in told


def test_tampering_is_found_at_the_first_line_that_is_wrong(serve, audit):
    s = serve()
    for i in range(5):
        s.execute(f"exit {i}")
    s.stop()
    whole = audit.read_text().splitlines(keepends=True)
    assert_intact(audit, count=7)
    changed = whole[2].replace('"exit_code":1', '"exit_code":0')
    forged = json.loads(whole[2])
    forged["exit_code"] = 0
    kept = {k: v for k, v in forged.items() if k != "hash"}
    body = json.dumps(kept, separators=(",", ":"))[:-1]
    forged = body + f',"hash":"{hashlib.sha256(body.encode()).hexdigest()}"}}\n'
    assert changed != whole[2] != forged
    for what, new, line, why in (
        ("edited", [*whole[:2], changed, *whole[3:]], 3, "it was changed: its hash is another one"),
        ("edited last", [*whole[:6], whole[6].replace("stop", "stap")], 7, "it was changed"),
        ("edited with its hash", [*whole[:2], forged, *whole[3:]], 4, "it does not follow the line before"),
        ("deleted", [*whole[:2], *whole[3:]], 3, "one was removed, added or moved"),
        ("moved", [*whole[:2], whole[3], whole[2], *whole[4:]], 3, "one was removed, added or moved"),
        ("twice", [*whole[:3], whole[2], *whole[3:]], 4, "one was removed, added or moved"),
        ("added", [*whole[:3], "hello\n", *whole[3:]], 4, "it was changed, or is not whole"),
        ("emptied", [*whole[:3], "\n", *whole[4:]], 4, "it was changed, or is not whole"),
        ("cut in a line", [*whole[:4], whole[4][:50]], 5, "it was changed, or is not whole"),
        ("no newline", [*whole[:4], whole[4][:50], "\n", *whole[5:]], 5, "it was changed, or is not whole"),
        ("a NUL", [*whole[:2], "\0" + whole[2], *whole[3:]], 3, "this is no line"),
    ):  # fmt: skip
        audit.write_text("".join(new))
        status, told = verify(audit)
        assert status == 1 and f"{audit}: line {line}: " in told and why in told, (what, told)
    # the front may be elsewhere, as after a rotation; that is said
    audit.write_text("".join(whole[2:]))
    status, told = verify(audit)
    assert status == 0 and "what was before line 3 is not here" in told
    audit.write_text("")
    assert verify(audit) == (1, "sandbox-server: there is no line at all")
    assert verify("/nonexistent")[0] == 1 and verify("--head")[0] == 2


def test_a_server_does_not_go_on_behind_what_is_not_its_own(audit, tmp_path):
    def said():
        done = command("serve", SANDBOX_PORT="0", SANDBOX_STATE_DIR=str(tmp_path), SANDBOX_AUDIT_FILE=str(audit))
        assert done.returncode == 1 and done.stderr.startswith("sandbox-server: SANDBOX_AUDIT_FILE: "), done
        return done.stderr

    audit.write_text("something else\n")
    assert "its last line is none of an audit file" in said()
    assert audit.read_text() == "something else\n"
    audit.write_text("x" * 300000)
    assert "its last line is none of an audit file" in said()
    audit.write_text("")
    audit.chmod(0o622)
    assert "can be written by others than its owner: chmod go-w" in said()
    audit.unlink()
    audit.symlink_to(tmp_path / "elsewhere")
    assert "open '" in said()
    audit.unlink()
    os.mkfifo(audit)
    said()
    audit.unlink()
    audit.mkdir()
    said()


def test_two_servers_do_not_share_one(serve, audit, tmp_path):
    s = serve()
    done = command("serve", SANDBOX_PORT="0", SANDBOX_STATE_DIR=str(tmp_path), SANDBOX_AUDIT_FILE=str(audit))
    assert done.returncode == 1 and "which another server has" in done.stderr, done
    s.execute("echo 1")
    s.stop()
    assert_intact(audit, count=3)


def test_a_rotated_file_is_continued_by_the_new_one(serve, audit, tmp_path):
    s = serve()
    s.execute("echo 1")
    s.proc.send_signal(signal.SIGHUP)  # nothing was moved: nothing changes
    s.wait_log(r"server\.reloaded")
    old = tmp_path / "audit.log.1"
    audit.rename(old)
    s.execute("echo 2")  # not told yet: the old one still
    assert len(runs(old)) == 2
    s.proc.send_signal(signal.SIGHUP)
    wait_for(audit.exists)
    wait_for(lambda: audit.read_text().endswith("\n"))
    s.execute("echo 3")
    assert [x["event"] for x in lines(audit)] == ["continue", "run"]
    assert lines(audit)[0]["prev"] == lines(old)[-1]["hash"]
    # a name that something else has: the present one goes on
    second = tmp_path / "audit.log.2"
    audit.rename(second)
    audit.write_text("hello\n")
    s.proc.send_signal(signal.SIGHUP)
    s.wait_log(r"audit\.refused .*the old file goes on")
    s.execute("echo 4")
    s.stop()
    assert audit.read_text() == "hello\n"
    assert_intact(old, second, count=7)
    status, told = verify(second)
    assert status == 0 and "what was before line 4 is not here" in told
    assert verify(second, old)[0] == 1


def test_what_a_crash_cut_is_explained_by_the_next_start(serve, audit):
    s = serve()
    s.execute("echo 1")
    s.stop()
    with open(audit, "a", encoding="ascii") as f:
        f.write('{"time":"2026-01-01T00:00:00.000Z","eve')
    assert verify(audit)[0] == 1
    s = serve()
    s.execute("echo 2")
    s.stop()
    status, told = verify(audit)
    assert status == 0 and "line 4: is not whole: a crash cut it" in told and "6 lines, 1 to 6" in told, told
    whole = audit.read_text().splitlines(keepends=True)
    audit.write_text("".join([*whole[:3], whole[3].replace("2026", "2025"), *whole[4:]]))
    status, told = verify(audit)
    assert status == 1 and "line 4: it was changed, or is not whole" in told, told
    # the piece is gone, but not the line that names it
    audit.write_text("".join([*whole[:3], *whole[4:]]))
    status, told = verify(audit)
    assert status == 1 and "line 4: it names a torn line before it, which was removed" in told, told
    audit.write_text("".join([*whole[:4], whole[3], *whole[4:]]))
    status, told = verify(audit)
    assert status == 1 and "line 4: it was changed, or is not whole" in told, told


def test_a_crash_may_cut_a_line_anywhere(serve, audit):
    s = serve()
    s.execute("echo 1")
    s.stop()
    whole = audit.read_text()
    last = whole.splitlines(keepends=True)[1]
    inner = last.index("}") + 1  # looks like an end, and is none
    audit.write_text(whole + last[:inner])
    status, told = verify(audit)
    assert status == 1 and "line 4: this is no line of an audit file" in told, told
    s = serve()
    s.stop()
    status, told = verify(audit)
    assert status == 0 and "line 4: is not whole: a crash cut it" in told, told


@pytest.mark.parametrize("count", [1, 4])
def test_a_line_that_misses_its_newline_alone_is_whole(serve, audit, count):
    s = serve()
    s.execute("echo 1")
    s.execute("echo 2")
    s.stop()
    audit.write_text("".join(audit.read_text().splitlines(keepends=True)[:count]).removesuffix("\n"))
    assert_intact(audit, count=count)
    s = serve()
    s.execute("echo 3")
    s.stop()
    assert "torn" not in audit.read_text()
    assert [x["line"] for x in lines(audit)] == list(range(1, count + 4))
    assert_intact(audit, count=count + 3)


@contextlib.contextmanager
def small_disk(at, size):
    at.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "none", at], check=True)
    try:
        yield at
    finally:
        subprocess.run(["umount", "-l", at], check=True)


@root_only
def test_a_full_disk_stops_new_runs_and_loses_no_line(start, tmp_path):
    with small_disk(tmp_path / "disk", "16k") as disk:
        audit, filler = disk / "audit", disk / "filler"
        s = start(mode="shell", SANDBOX_AUDIT_FILE=str(audit), SANDBOX_MAX_CONCURRENT="3")
        slow = []
        t = threading.Thread(target=lambda: slow.append(s.post("/execute", {"code": "sleep 1.5; echo slow"})))
        t.start()
        wait_for(lambda: s.load() == 1)
        with contextlib.suppress(OSError), open(filler, "wb", buffering=0) as f:
            while f.write(b"x" * 4096):
                pass
        answers = []

        def refused():
            answers.append(s.post("/execute", {"code": "echo 1"}))
            return answers[-1].status == 503

        wait_for(refused, 30)
        assert answers[-1].json == {
            "error": "the audit file cannot be written: nothing is run until it can", "code": "audit_failed",
        }  # fmt: skip
        # those that were run have their answers, the one under way too
        t.join()
        assert slow[0].status == 200 and slow[0].json["stdout"] == "slow\n"
        assert all(a.status == 200 for a in answers[:-1])
        assert s.get("/readyz").status == 503 and s.get("/healthz").status == 200
        s.wait_log(r"audit\.failed .*nothing is run until it can be written.*No space left")
        assert "\nsandbox_audit_pending_lines 2\n" in s.get("/metrics").body.decode()
        filler.unlink()
        wait_for(lambda: s.get("/readyz").status == 200)
        assert s.execute("echo again")["stdout"] == "again\n"
        s.wait_log(r"audit\.back")
        s.stop()
        assert len(runs(audit)) == len(answers) - 1 + 2
        assert_intact(audit)


@root_only
def test_those_that_wait_in_the_queue_are_not_run_either(start, tmp_path):
    with small_disk(tmp_path / "disk", "8k") as disk:
        audit, filler = disk / "audit", disk / "filler"
        s = start(mode="shell", SANDBOX_AUDIT_FILE=str(audit), SANDBOX_MAX_CONCURRENT="1", SANDBOX_QUEUE="20")
        with contextlib.suppress(OSError), open(filler, "wb", buffering=0) as f:
            while f.write(b"x" * 4096):
                pass
        answers = []

        def ask():
            answers.append(s.post("/execute", {"code": "sleep 0.1"}))

        asking = [threading.Thread(target=ask) for _ in range(14)]
        for t in asking:
            t.start()
        for t in asking:
            t.join()
        ran = [a for a in answers if a.status == 200]
        told = [a.json["code"] for a in answers if a.status == 503]
        assert ran and told and set(told) == {"audit_failed"} and len(ran) + len(told) == 14, answers
        filler.unlink()
        wait_for(lambda: s.get("/readyz").status == 200)
        s.stop()
        assert len(runs(audit)) == len(ran)
        assert_intact(audit, count=len(ran) + 2)


@root_only
def test_lines_that_are_never_written_are_a_failed_end(start, tmp_path):
    with small_disk(tmp_path / "disk", "8k") as disk:
        s = start(mode="shell", SANDBOX_AUDIT_FILE=str(disk / "audit"))
        with contextlib.suppress(OSError), open(disk / "filler", "wb", buffering=0) as f:
            while f.write(b"x" * 4096):
                pass
        wait_for(lambda: s.post("/execute", {"code": "echo 1"}).status == 503, 30)
        s.stop(status=1)
        s.wait_log(r"audit\.lost lines=2")


def test_runs_that_a_stop_ends_are_told_too(serve, audit):
    s = serve(SANDBOX_GRACE_SEC="0")
    code = "echo begun; sleep 60"
    events = s.events(code, "application/x-ndjson")
    assert next(events)[0] == "stdout"
    wait_for(lambda: asleep(s))
    s.stop()
    assert list(events)[-1][0] == "result"
    (run,) = runs(audit)
    assert run["verdict"] == "signal" and "error" not in run, run
    assert run["code_sha256"] == hashlib.sha256(code.encode()).hexdigest()
    assert_intact(audit, count=3)


@root_only
@pytest.mark.skipif(SANITIZED, reason="our binary reads files inside, where the sanitizer cannot")
def test_what_is_done_in_sessions_is_told(serve, audit):
    s = serve(SANDBOX_SESSIONS="on")
    path = "/sessions/" + s.post("/sessions", {}).json["session_id"]
    assert s.post(f"{path}/exec", {"command": "echo in a session"}).status == 200
    assert s.request("PUT", f"{path}/files/f", b"S3CRET").status == 200
    kept = s.post(f"{path}/checkpoints", {})
    assert kept.status == 200, kept
    assert s.post(f"{path}/restore", {"checkpoint_id": kept.json["checkpoint_id"]}).status == 200
    assert s.get(f"{path}/diff").status == 200
    assert s.post(f"{path}/fork", {}).status == 200
    assert s.request("DELETE", path).status == 200
    found = runs(audit)
    told = ["open", "command", "command", "checkpoint", "restore", "diff", "fork", "close"]
    assert [x["done"] for x in found] == told
    assert {x["mode"] for x in found} == {"session"} and len({x["session"] for x in found}) == 1
    assert found[1]["code_sha256"] == hashlib.sha256(b"echo in a session").hexdigest()
    assert "S3CRET" not in audit.read_text()


def test_a_run_with_network_has_its_sums(serve, audit):
    s = serve(SANDBOX_NETWORK="ok.test")
    if s.get("/isolation").json["network"] != "broker":
        pytest.skip("needs the isolation level namespaces")
    ask = "exec 3<>/dev/tcp/127.0.0.1/3128; printf 'CONNECT other.test:443 HTTP/1.1\\r\\n\\r\\n' >&3; head -1 <&3"
    s.execute(ask, network=True)
    assert runs(audit)[0]["network"] == {"connections": 0, "refused": 1, "sent_bytes": 0, "received_bytes": 0}


def test_runs_by_mcp_over_stdio_are_told_too(audit, tmp_path):
    file = TokenFile(tmp_path)
    file.token("nobody-needs-it")
    c = Stdio(SANDBOX_AUDIT_FILE=str(audit), SANDBOX_TOKEN_FILE=file.path)
    try:
        c.call(1, "echo 1")
        assert c.answer(1)["result"]["structuredContent"]["stdout"] == "1\n"
        c.proc.send_signal(signal.SIGHUP)
        c.wait_log(r"server\.reloaded")
        c.call(2, "exit 2")
        assert c.answer(2)["result"]["structuredContent"]["exit_code"] == 2
    finally:
        c.stop()
    assert [x.get("verdict") for x in lines(audit)] == [None, "ok", "nonzero_exit", None]
    assert_intact(audit, count=4)


def test_audit_without_a_file_shows_how():
    assert command("audit").returncode == 2 and command("audit", "verify").returncode == 2
    assert "usage: sandbox-server audit verify" in command("audit", "--help").stdout

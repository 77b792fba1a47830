# SPDX-License-Identifier: GPL-2.0-only
"""Sessions: environments that stay. Must hold 1 to 5 of them, as far as they are built."""

import concurrent.futures
import glob
import http.client
import json
import os
import select
import time
import urllib.parse

import pytest

from conftest import wait_for
from probes import SLOW
from test_12_failing_steps import COMMAND_STEPS, SESSION_STEPS, hooked

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="they have uids of their own here, for which root is needed")


class Session:
    """One session of a server, by REST."""

    def __init__(self, server, scope=None, **fields):
        body = dict(fields)
        if scope:
            body.update(scope_type="workflow", scope_id=scope)
        self.server = server
        self.opened = call(server, "POST", "/sessions", body)
        self.path = f"/sessions/{self.opened['session_id']}"

    def exec(self, command, status=200, **fields):
        body = {"command": command, **fields}
        return call(self.server, "POST", f"{self.path}/exec", body, status=status)

    def out(self, command, **fields):
        r = self.exec(command, **fields)
        assert r["meta"]["verdict"] == "ok", r
        return r["stdout"]

    def file(self, path):
        return f"{self.path}/files/{path}"

    def write(self, path, content):
        r = self.server.request("PUT", self.file(path), content)
        return r.status, r.json

    def read(self, path, **headers):
        r = self.server.request("GET", self.file(path), headers=headers)
        return r.status, r.body

    def close(self):
        return call(self.server, "DELETE", self.path)


def call(server, method, path, body=None, status=200):
    data = None if body is None else json.dumps(body).encode()
    r = server.request(method, path, data, {"Content-Type": "application/json"})
    assert r.status == status, (r.status, r.body)
    return r.json


def files_left(server):
    """Directories of sessions, and layers: when all are closed, there are none."""
    at = f"{server.state_dir}/sessions"
    return sorted(os.listdir(at) + os.listdir(f"{at}/layers"))[:-1]


def on(start, **env):
    return start(mode="shell", SANDBOX_SESSIONS="on", SANDBOX_WARM="0", **env)


def test_three_agents_of_a_workflow_share_one_environment(start):
    s = on(start)
    first = Session(s, "run-1")
    assert first.opened.pop("disk")["limit_mb"] > 0
    assert first.opened == {
        "session_id": "workflow_run-1_sandbox",
        "image": "host",
        "workdir": "/work",
        "user": "sandbox",
        "status": "ready",
        "created": True,
    }
    assert first.write("src/hello.sh", b"echo hello > out.txt\n")[0] == 200
    second = Session(s, "run-1")
    assert second.opened["created"] is False
    assert second.exec("bash src/hello.sh")["exit_code"] == 0
    third = Session(s, "run-1")
    assert third.read("out.txt") == (200, b"hello\n")
    assert third.close() == {"closed": True, "session_id": "workflow_run-1_sandbox"}
    assert first.exec("true", status=404)["code"] == "not_found"
    assert os.listdir(f"{s.state_dir}/session-index") == []
    wait_for(lambda: files_left(s) == [], 60)
    again = Session(s, "run-1")
    assert again.opened["created"] is True
    assert again.out("ls -A /work /tmp") == "/tmp:\n\n/work:\n"
    answer = call(s, "DELETE", "/scopes/workflow/run-1")
    assert answer == {"closed": 1}
    assert call(s, "DELETE", "/scopes/workflow/run-1") == {"closed": 0}


def test_ten_opens_at_once_make_one_and_scopes_see_nothing_of_each_other(start):
    s = on(start)
    with concurrent.futures.ThreadPoolExecutor(10) as pool:
        opened = list(pool.map(lambda _: Session(s, "same").opened, range(10)))
    assert sorted(o["created"] for o in opened) == [False] * 9 + [True]
    assert len({o["session_id"] for o in opened}) == 1
    assert len(call(s, "GET", "/sessions")["sessions"]) == 1

    one, two = Session(s, "same"), Session(s, "other")
    one.out(
        "echo secret > /work/f; echo secret > /tmp/f; echo secret > /dev/shm/f;"
        "python3 -m http.server 8000 >/dev/null 2>&1 & sleep 1000 >/dev/null 2>&1 &"
    )
    look = "ls /work/f /tmp/f /dev/shm/f 2>/dev/null; pgrep sleep; cat /proc/net/tcp* | grep -c 1F40"
    assert two.exec(look)["stdout"] == "0\n"
    wait_for(lambda: one.exec(look)["stdout"].endswith("\n1\n"), 60)
    # not by their host uids, either
    names = [n for n in os.listdir(f"{s.state_dir}/sessions") if n != "layers"]
    owners = {os.stat(f"{s.state_dir}/sessions/{n}").st_uid for n in names}
    assert len(owners) == (1 if s.plain else 2) and 0 not in owners


def test_a_timeout_ends_the_command_alone(start):
    s = on(start)
    one = Session(s, "t")
    one.out("python3 -m http.server 8000 --directory /work >/dev/null 2>&1 & echo here > /work/x")
    began = time.monotonic()
    r = one.exec("(setsid sleep 5001 &) ; sleep 5002 & echo before; sleep 5003", timeout_seconds=1)
    assert time.monotonic() - began < 2 * SLOW  # a second after its deadline
    assert r["timed_out"] and r["exit_code"] == -1 and r["stdout"] == "before\n"
    assert r["stderr"].endswith("execution timed out after 1 seconds\n")
    assert one.exec("pgrep sleep")["exit_code"] == 1
    fetch = "exec 3<>/dev/tcp/127.0.0.1/8000; printf 'GET /x HTTP/1.0\\r\\n\\r\\n' >&3; tail -1 <&3"
    wait_for(lambda: one.exec(fetch)["stdout"] == "here\n", 60)
    # also who makes new ones as fast as it can; without a cgroup it may have too many before
    storm = "f() { while :; do (setsid sleep 5004 &); done; }; f & f & f"
    r = one.exec(storm, timeout_seconds=1)
    assert r["timed_out"] or (s.plain and r["stderr"].endswith("process limit of 256 exceeded\n")), r
    assert one.exec("pgrep sleep")["exit_code"] == 1
    wait_for(lambda: one.exec(fetch)["stdout"] == "here\n", 60)
    # what a command left is the next one's to end
    assert one.exec("kill $(pgrep -f '[h]ttp.server')")["exit_code"] == 0


def test_commands_run_side_by_side_with_verdicts_of_their_own(start):
    s = on(start, SANDBOX_MEMORY_MB="64")
    one = Session(s, "many", env={"A": "session", "B": "session"})
    with concurrent.futures.ThreadPoolExecutor(5) as pool:
        wait = "touch $N; until [ -e 1 ] && [ -e 2 ] && [ -e 3 ]; do sleep 0.01; done; echo $N"
        runs = [pool.submit(one.exec, wait, env={"N": str(n)}) for n in (1, 2, 3)]
        assert [r.result()["stdout"] for r in runs] == ["1\n", "2\n", "3\n"]
    assert one.out("echo $A $B", env={"B": "call"}) == "session call\n"
    assert one.out("cat", stdin="given") == "given"
    assert one.out("pwd", workdir="/tmp") == "/tmp\n"
    assert one.exec("pwd", workdir="/nowhere", status=400)["code"] == "bad_workdir"
    r = call(s, "POST", f"{one.path}/exec", {"cmd": ["printf", "%s|", "a b", "$HOME"]})
    assert r["stdout"] == "a b|$HOME|"
    # no word of it is the shell's
    for words in (["-a", "name", "true"], ["-l"], ["-c", "true"], ["--", "true"], ["-"]):
        r = call(s, "POST", f"{one.path}/exec", {"cmd": words})
        assert r["exit_code"] == 127 and f"{words[0]}: command not found" in r["stderr"], r
    assert one.exec("exit 7")["exit_code"] == 7
    r = one.exec("x=$(head -c 300000000 /dev/zero | tr '\\0' x)")
    assert r["meta"]["verdict"] == "out_of_memory", r
    assert one.out("echo still here") == "still here\n"
    assert one.exec("", status=400)["code"] == "bad_request"


def test_a_command_has_what_a_run_has_and_no_more(start):
    s = on(start)
    look = (
        "grep -E '^(Uid|Gid|Groups|Cap|NoNewPrivs|Seccomp):' /proc/self/status; cat /etc/passwd;"
        "ls /; cut -c -10 /proc/self/uid_map; hostname; touch /usr/x 2>&1; ls /proc/1/fd 2>&1;"
        "unshare -U true 2>&1; cat /proc/kcore | wc -c; ls /sys | wc -l"
    )
    one = Session(s, "same")
    run, command = s.execute(look), one.exec(look)
    assert command["stdout"].splitlines() == run["stdout"].splitlines()
    assert command["meta"]["isolation"] == run["meta"]["isolation"]
    # a plain user has one uid for all: there the session's own tree is its user's, all of it
    assert s.plain or "Permission denied" in one.exec("touch /etc/x /x")["stderr"]
    # namespaces of its own, the same for all of its commands
    names = "user mnt pid net ipc uts cgroup".split()
    inside = one.out(f"cd /proc/self/ns && readlink {' '.join(names)}").split()
    assert inside == one.out(f"cd /proc/self/ns && readlink {' '.join(names)}").split()
    outside = [os.readlink(f"/proc/self/ns/{n}") for n in names]
    assert all(a != b for a, b in zip(inside, outside))
    # nothing but the session's own processes, and its process 1 is out of reach
    assert one.exec("kill -9 1; kill -STOP 1; sleep 0.1; ls /proc/1/cwd")["exit_code"] != 0
    assert one.out("echo alive") == "alive\n"


TRAVERSALS = [
    "../../etc/shadow", "..%2f..%2fetc/shadow", "%2e%2e/%2e%2e/etc/shadow", "/etc/passwd",
    "a/../../etc/passwd", "%2fetc/passwd", "//root/.ssh", "/proc/1/environ",
    "/sys/kernel", "/dev/zero", "%00", "a%00b",
]


@pytest.mark.parametrize("path", TRAVERSALS)
def test_no_spelling_leads_out(shared, path):
    for method in ("GET", "PUT", "DELETE"):
        body = b"x" if method == "PUT" else None
        r = shared.server.request(method, shared.file(path), body)
        assert r.status in (400, 403, 404), (method, r.status, r.body)


@pytest.fixture(scope="module")
def shared(new_server):
    """A session of one server for all tests that leave nothing which another could mind."""
    server = new_server({"SANDBOX_SESSIONS": "on", "SANDBOX_WARM": "0"}, mode="shell")
    yield Session(server, "shared")
    server.stop()


def test_links_and_special_files_are_contained_and_never_waited_for(shared):
    one = shared
    host = one.server.state_dir
    one.out(
        "mkdir -p links && cd links && mkfifo fifo && ln -s /etc dir && ln -s /proc/self/environ magic"
        f" && ln -s /proc/1/root/etc/passwd root && ln -s {host} state && ln -s self self && ln -s /dev/zero zero"
    )
    one.out("cd links && python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"sock\")'")
    for name, statuses in {
        "fifo": [400], "sock": [400], "zero": [400, 403], "magic": [403], "root": [403],
        "state/session-index": [404], "self": [400], "dir/shadow": [404],
    }.items():
        began = time.monotonic()
        status, answer = one.read("links/" + name)
        assert status in statuses, (name, status, answer)
        assert time.monotonic() - began < 3 * SLOW, name
    # the session's own /etc, not the host's
    status, text = one.read("links/dir/passwd")
    assert status == 200 and text.startswith(b"sandbox:x:1000:")
    status, answer = one.write("links/dir/new", b"x")
    assert one.server.plain or (status, answer["code"]) == (403, "blocked_path")
    # what is written takes a name's place, and follows nothing
    began = time.monotonic()
    assert one.write("links/fifo", b"file now")[0] == 200
    assert time.monotonic() - began < 3 * SLOW
    assert one.read("links/fifo") == (200, b"file now")
    listing = call(one.server, "GET", one.file("links/"))["entries"]
    assert {e["name"]: e["type"] for e in listing}["magic"] == "symlink"
    assert call(one.server, "DELETE", one.file("links?recursive=true"))["deleted"] is True
    for path in ("/", "/work", "/tmp", "."):
        r = one.server.request("DELETE", one.file(urllib.parse.quote(path) + "?recursive=true"))
        assert r.status in (400, 403), path


def test_a_link_that_is_swapped_meanwhile_leads_nowhere_else(shared):
    one = shared
    one.out("mkdir -p swap/real && echo inside > swap/real/passwd")
    one.exec("cd swap; while :; do ln -sfn real at; ln -sfn /etc at; done >/dev/null 2>&1 &")
    for _ in range(15):
        status, text = one.read("swap/at/passwd")
        assert (status, text[:7]) in ((200, b"inside\n"), (200, b"sandbox"), (404, b'{"error')), text
        assert one.write("swap/at/mine", b"x")[0] in (200, 403, 400)
    one.exec("pkill -f 'ln [-]sfn'")
    wait_for(lambda: one.exec("pgrep -f 'ln [-]sfn'")["exit_code"] == 1, 60)
    one.out("rm -rf swap")


def test_files_come_back_as_they_were(shared):
    one = shared
    data = bytes(range(256)) * 4096
    assert one.write("big.bin", data) == (200, {"path": "/work/big.bin", "size_bytes": len(data)})
    assert one.read("big.bin") == (200, data)
    assert one.read("big.bin", Range="bytes=10-19") == (206, data[10:20])
    assert one.read("big.bin", Range=f"bytes={len(data)}-")[0] == 416
    r = json.loads(one.read("big.bin", Accept="application/json")[1])
    assert (r["encoding"], r["size_bytes"], r["truncated"]) == ("base64", len(data), False)
    body = {"content": "aGkK", "encoding": "base64", "mode": "0755"}
    call(one.server, "PUT", one.file("x.sh"), body)
    assert one.out("stat -c %a x.sh; cat x.sh") == "755\nhi\n"
    body["overwrite"] = False
    assert call(one.server, "PUT", one.file("x.sh"), body, 409)["code"] == "file_exists"
    one.out("mkdir many && cd many && touch $(seq -w 1 2500)")
    seen, cursor = [], ""
    while cursor is not None:
        page = call(one.server, "GET", one.file("many/" + (f"?cursor={cursor}" if cursor else "")))
        seen += [e["name"] for e in page["entries"]]
        cursor = page.get("next")
    assert seen == [f"{n:04}" for n in range(1, 2501)]
    assert call(one.server, "DELETE", one.file("many"), status=409)["code"] == "not_empty"
    one.exec("rm -r many big.bin x.sh")


def test_limits_of_a_session(start):
    s = on(start, SANDBOX_DISK_MB="16")
    one = Session(s, "small", limits={"max_files": 2, "max_file_size_bytes": 10, "timeout_seconds": 1})
    assert one.write("a", b"1")[0] == one.write("b", b"2")[0] == 200
    assert one.write("c", b"3")[1]["code"] == "too_many_files"
    assert one.write("a", b"again")[0] == 200
    assert one.write("a", b"x" * 11)[1]["code"] == "file_too_large"
    assert one.exec("sleep 60", timeout_seconds=60)["timed_out"]
    two = Session(s, "disk")
    r = two.exec("head -c 200M /dev/zero > big; sleep 30")
    assert r["meta"]["verdict"] == "disk_full", r
    assert two.exec("rm big")["exit_code"] == 0
    assert two.out("echo room > small; cat small") == "room\n"


def test_files_that_are_nobodys_session_are_not_entered(start, tmp_path):
    """Such as a backup put back by root: its uid would be the session's."""
    os.chmod(tmp_path, 0o755)
    s = on(start, state_dir=str(tmp_path))
    one = Session(s, "kept")
    assert one.exec("id -u")["exit_code"] == 0
    (own,) = [d for d in os.listdir(tmp_path / "sessions") if d != "layers"]
    s.stop()
    os.chown(tmp_path / "sessions" / own, 0, 0)
    s = on(start, state_dir=str(tmp_path))
    r = s.post(f"{one.path}/exec", {"command": "id"})
    assert r.status == 500 and "session_files" in r.json["error"], r


def test_what_was_acknowledged_survives_the_end_of_everything(start, tmp_path):
    os.chmod(tmp_path, 0o755)
    s = on(start, state_dir=str(tmp_path))
    one = Session(s, "kept", env={"A": "b"})
    one.exec("sleep 1000 >/dev/null 2>&1 &")
    acknowledged = []

    def write():
        n = 0
        while True:
            content = f"{n} ".encode() * 100000
            try:
                if one.write(f"f{n % 5}", content)[0] == 200:
                    acknowledged.append((n % 5, content))
            except (OSError, http.client.HTTPException):
                return
            n += 1

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        writing = pool.submit(write)
        wait_for(lambda: len(acknowledged) > 6, 30)
        s.kill()
        writing.result()
    again = on(start, state_dir=str(tmp_path))
    one.server = again
    assert Session(again, "kept").opened["created"] is False
    names = [e["name"] for e in call(again, "GET", one.file(""))["entries"]]
    assert names == [f"f{n}" for n in range(5)]
    last = dict(acknowledged)
    for n in range(5):
        status, content = one.read(f"f{n}")
        number = int(content.split()[0])
        assert status == 200 and content == f"{number} ".encode() * 100000
        assert number >= int(last[n].split()[0])
    assert one.exec("pgrep sleep")["exit_code"] == 1
    assert one.out("echo $A") == "b\n"


def test_closing_ends_what_runs(start):
    s = on(start)
    for _ in range(5):
        one = Session(s, "busy")
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            running = pool.submit(s.post, f"{one.path}/exec", {"command": "echo on; sleep 1000"})
            wait_for(lambda one=one: one.exec("pgrep -x sleep")["exit_code"] == 0, 60)
            one.close()
            r = running.result()
        if r.status != 409:  # on a busy host it runs before the launcher has heard of it
            break
        assert r.json["code"] == "session_busy"
    assert (r.json["stdout"], r.json["meta"]["verdict"]) == ("on\n", "signal")


def leave(one, command):
    """Ask for a command, and be gone without waiting for its answer."""
    c = http.client.HTTPConnection("127.0.0.1", one.server.port, timeout=60)
    c.request("POST", f"{one.path}/exec", json.dumps({"command": command}), {"Content-Type": "application/json"})
    return c


def test_who_leaves_ends_his_command_alone(shared):
    one = shared
    others = leave(one, "sleep 6001")
    mine = leave(one, "echo > /work/began; (setsid sleep 6002 &); sleep 6002")
    try:
        both = "pgrep -f '^sleep 6001' && ls /work/began && pgrep -f '^sleep 6002'"
        wait_for(lambda: one.exec(both)["exit_code"] == 0, 60)
        mine.close()
        wait_for(lambda: one.exec("pgrep -f '^sleep 6002'")["exit_code"] == 1, 60)
        assert one.exec("pgrep -f '^sleep 6001'")["exit_code"] == 0
    finally:
        mine.close()
        others.close()
    wait_for(lambda: one.exec("pgrep -f '^sleep 6001'")["exit_code"] == 1, 60)
    # before it has begun, or just then
    for _ in range(10):
        leave(one, "sleep 6003").close()
    wait_for(lambda: one.exec("pgrep -f '^sleep 6003'")["exit_code"] == 1, 60)
    wait_for(lambda: one.server.load() == 0, 60)
    assert one.out("echo still here") == "still here\n"


def test_a_session_has_room_for_sixteen_commands(shared):
    """The one beyond is told so, and costs nobody his."""
    one = shared
    running = [leave(one, f"touch /work/begun.{n}; sleep 6004") for n in range(16)]

    def begun():
        # not by commands: each of them would be one more
        answered, _, _ = select.select([c.sock for c in running], [], [], 0)
        assert not answered, [s.recv(65536) for s in answered]
        return len(glob.glob(f"{one.server.state_dir}/sessions/layers/*/files/work/begun.*"))

    try:
        wait_for(lambda: begun() == 16, 60)
        assert one.exec("true", status=429)["code"] == "at_capacity"
        assert one.write("more", b"")[0] == 429
    finally:
        for c in running:
            c.close()
    wait_for(lambda: one.server.load() == 0, 60)
    wait_for(lambda: one.server.post(f"{one.path}/exec", {"command": "rm /work/begun.*"}).status == 200, 60)
    assert one.exec("pgrep -f '^sleep 6004'")["exit_code"] == 1


def test_tools_name_their_session_in_the_body(shared):
    def tool(name, status=200, headers=None, **args):
        r = shared.server.post("/tools/sandbox_" + name, args, headers)
        assert r.status == status, r.body
        return r.json

    scope = {"scope_type": "agent", "scope_id": "tools"}
    run = {"X-Agent-Run-Id": "tools"}
    assert tool("open", **scope)["session_id"] == "agent_tools_sandbox"
    assert tool("open", headers=run)["created"] is False
    assert tool("open", headers={**run, "X-Workflow-Run-Id": "w"})["session_id"] == "workflow_w_sandbox"
    wrote = tool("fs_write", path="a.txt", content="text", **scope)
    assert wrote == {"path": "/work/a.txt", "size_bytes": 4}
    assert tool("fs_read", path="a.txt", session_id="agent_tools_sandbox")["content"] == "text"
    assert tool("exec", command="cat a.txt", headers=run)["stdout"] == "text"
    assert [e["name"] for e in tool("fs_list", **scope)["entries"]] == ["a.txt"]
    assert tool("fs_delete", path="a.txt", **scope)["deleted"] is True
    assert tool("fs_list", 400)["code"] == "session_required"
    assert tool("fs_list", 400, scope_type="agent", scope_id="")["code"] == "bad_scope"
    assert tool("exec", 400, command=["ls"], **scope)["error"] == "command must be a string"
    assert tool("close", **scope)["closed"] and tool("exec", 404, command="ls", **scope)
    tool("close", headers={"X-Workflow-Run-Id": "w"})


def test_output_comes_live(shared):
    r = shared.server.request(
        "POST",
        f"{shared.path}/exec",
        json.dumps({"command": "echo one; echo two >&2; exit 3"}).encode(),
        {"Content-Type": "application/json", "Accept": "application/x-ndjson"},
    )
    lines = [json.loads(line) for line in r.body.splitlines()]
    assert "one\n" in json.dumps(lines[:-1]) or "one" in json.dumps(lines[:-1])
    assert '"exit_code": 3' in json.dumps(lines[-1])


def test_what_there_is_not_is_said(start):
    s = start(mode="shell", SANDBOX_WARM="0", SANDBOX_SESSIONS="off")
    answer = call(s, "POST", "/sessions", {}, 501)
    assert answer["code"] == "sessions_unavailable" and "SANDBOX_SESSIONS=on" in answer["error"]
    s = start(mode="shell", SANDBOX_WARM="0")  # they are on unless told else
    for fields, status, code in (
        ({"image": "golang:1.22"}, 400, "image_not_found"),
        ({"volumes": ["x"]}, 400, "no_such_volume"),
        ({"allow_network": True}, 403, "network_not_allowed"),
        ({"scope_type": "agent"}, 400, "bad_scope"),
        ({"scope_type": "workflow", "scope_id": "a/b"}, 400, "bad_scope"),
        ({"limits": {"max_files": 0}}, 400, "bad_request"),
    ):
        assert call(s, "POST", "/sessions", fields, status)["code"] == code
    assert call(s, "GET", "/sessions")["sessions"] == []
    assert call(s, "GET", "/sessions/nobody", status=404)["code"] == "not_found"
    free = call(s, "POST", "/sessions", {})
    assert len(free["session_id"]) == 32


@hooked
@pytest.mark.parametrize("step", sorted(set(SESSION_STEPS + COMMAND_STEPS)))
def test_a_step_that_fails_lets_nothing_run(start, step):
    s = on(start, SANDBOX_TEST_FAULT=step)
    body = {"scope_type": "agent", "scope_id": "x"}
    if step in SESSION_STEPS:
        answer = call(s, "POST", "/sessions", body, 500)
    else:
        one = Session(s, "x")
        answer = one.exec("echo user code did run", status=400 if step == "cwd" else 500)
    assert "user code" not in json.dumps(answer)
    if step != "cwd":
        assert answer["code"] == "sandbox_setup_failed" and f'"{step}"' in answer["error"]
    assert s.get("/healthz").status == 200

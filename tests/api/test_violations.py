# SPDX-License-Identifier: GPL-2.0-only
"""meta.violations: what was refused, why, how often; and what it may cost."""

import ctypes
import ctypes.util
import errno
import json
import os
import platform
import sys
import time

import pytest
from conftest import BINARY, TOP, Server, wait_for
from plain import Plain
from probes import CALLS, SLOW, Asking, at_rest, command, launcher_pid, look, settled, status_of

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="the programs use system call numbers of x86-64"
)

PTRACE, UNSHARE, PRLIMIT, CLONE, SOCKET = 101, 272, 302, 56, 41

# what libseccomp 2.5.4 does not know
NEWER = {"open_tree_attr": 467, "lsm_set_self_attr": 460}


class Below(Server):
    """A server below a listener that somebody else has."""

    def command_line(self, args, env):
        return [sys.executable, os.path.join(TOP, "tests/api/outer_listener.py"), BINARY, *args]


@pytest.fixture
def below():
    s = Below({}, (), "python")
    yield s
    s.stop()


def number(name):
    if name in NEWER:
        return NEWER[name]
    lib = ctypes.CDLL("libseccomp.so.2")
    return lib.seccomp_syscall_resolve_name(name.encode())


def fitting(condition):
    """A value for which a condition holds."""
    value = condition["value"]
    return {
        "SCMP_CMP_MASKED_EQ": condition.get("valueTwo", 0),
        "SCMP_CMP_NE": value + 1,
        "SCMP_CMP_GE": value,
    }[condition["op"]]


def denials():
    """Every reported rule of the policies: (name, number, arguments, errno)."""
    found = []
    for policy in ("base", "arguments", "network-none"):
        with open(os.path.join(TOP, f"policy/{policy}.json"), encoding="utf-8") as f:
            rules = json.load(f)["syscalls"]
        for rule in rules:
            code = rule.get("errnoRet", 1)
            if rule["action"] != "SCMP_ACT_ERRNO" or code in (0, errno.ENOSYS, errno.EINVAL):
                continue
            args = [0] * 6
            for condition in rule.get("args", []):
                args[condition["index"]] = fitting(condition)
            for name in rule["names"]:
                if number(name) >= 0:
                    found.append((name, number(name), args, code))
    return found


def tried(server, calls, times=1):
    """The results of these (number, arguments), made by a program; and its violations."""
    code = CALLS + f"show(got=[[call(nr, *args) for _ in range({times})] for nr, args in {calls}])"
    r = server.execute(code, language="python", limits={"max_output_kb": 1024})
    assert r["exit_code"] == 0, r
    return json.loads(r["stdout"])["got"], r["meta"]


def violations(server, code, **fields):
    r = server.execute(CALLS + code, language="python", **fields)
    assert r["exit_code"] == 0, r
    return r["meta"]["violations"]


def test_every_reported_rule_keeps_its_errno_and_is_told(server, below):
    rows = denials()
    assert len(rows) > 120
    calls = [(nr, args) for _, nr, args, _ in rows]
    expected = [[-code] for _, _, _, code in rows]
    without, meta = tried(below, calls)
    assert without == expected and meta["violations"] is None
    outer, told = status_of("self")["Seccomp_filters"] != "0", 0
    for at in range(0, len(rows), 50):
        some = rows[at : at + 50]
        got, meta = tried(server, calls[at : at + 50], times=2)
        # what a container's own filter refuses, it answers: an error wins over a report
        for g, (name, _, _, code) in zip(got, some):
            assert g == [-code] * 2 or (outer and g == [-errno.ENOSYS] * 2), name
        assert "violations_truncated" not in meta
        assert len(meta["violations"]) == len(some) or outer
        rest = iter(some)
        for v in meta["violations"]:
            one = v["syscall"], [int(a, 16) for a in v["args"]], getattr(errno, v["errno"])
            assert v["count"] == 2 and any(one == (n, args, code) for n, _, args, code in rest), v
        told += len(meta["violations"])
    assert told > len(rows) // 3


def test_count_first_arguments_and_hint(server):
    (v,) = violations(server, f"for i in range(3): call({PTRACE}, 16 + i, 1, 2**64 - 1)")
    assert v["args"][:3] == ["0x10", "0x1", "0xffffffffffffffff"] and len(v["args"]) == 6
    assert (v["syscall"], v["count"], v["errno"]) == ("ptrace", 3, "EPERM")
    assert "trace" in v["hint"]
    (v,) = violations(server, f"assert err({SOCKET}, 2, 1, 0) == 'EAFNOSUPPORT'")
    assert (v["syscall"], v["hint"]) == ("socket", "sockets are denied: network is off")


def test_argument_rules_and_address_families_are_told_apart(server):
    """AF_ALG and AF_VSOCK have one rule, and are two things; the sockets are only asked for."""
    code = f"""
for _ in range(2):
    call({CLONE}, 0x10000000 | 17, 0, 0, 0, 0)
    call(16, 0, 0x5412)
    for family in (2, 38, 40):
        assert err({SOCKET}, family, 1, 0) == "EAFNOSUPPORT"
assert err({SOCKET}, 1, 1, 0) == "ok"
"""
    found = violations(server, code)
    assert [(v["syscall"], v["count"]) for v in found] == [
        ("clone", 2),
        ("ioctl", 2),
        ("socket", 2),
        ("socket", 2),
        ("socket", 2),
    ]
    assert [v["args"][0] for v in found[2:]] == ["0x2", "0x26", "0x28"]
    assert found[1]["args"][1] == "0x5412"


def test_benign_probing_is_not_reported(server):
    """What callers have another way for: clone3, io_uring, splice, sync, a call of the future."""
    code = "show(got=[err(nr, 0, 0, 0) for nr in (435, 425, 275, 276, 29, 162, 467 + 400)])"
    r = server.execute(CALLS + code, language="python")
    assert json.loads(r["stdout"])["got"] == [
        *["ENOSYS", "ENOSYS", "EINVAL", "ENOSYS", "ENOSYS", "ok", "ENOSYS"]
    ]
    assert r["meta"]["violations"] == []


HELLO = {
    "python": "import threading, subprocess\n"
    "t = threading.Thread(target=print, args=('hello',)); t.start(); t.join()\n"
    "subprocess.run(['true'], check=True)",
    "golang": 'package main\nimport "fmt"\nfunc main() { fmt.Println("hello") }',
    "node": "const fs = require('fs'); fs.writeFileSync('x', 'y'); console.log('hello')",
    "shell": "echo hello; ls -l / >/dev/null; cat /etc/passwd | sort | head -1 >/dev/null; id -u >&2",
}


def test_an_ordinary_program_reports_nothing(server, mode):
    r = server.execute(HELLO[mode], language=mode, timeout_seconds=60 * SLOW)
    assert (r["stdout"], r["exit_code"]) == ("hello\n", 0)
    assert r["meta"]["violations"] == []
    assert "violations_truncated" not in r["meta"]


def test_threads_and_children_count(server):
    code = f"""
import threading
def ask():
    for _ in range(10):
        assert err({PTRACE}, 0) == "EPERM"
threads = [threading.Thread(target=ask) for _ in range(8)]
for t in threads: t.start()
for t in threads: t.join()
for _ in range(4):
    if os.fork() == 0:
        ask()
        os._exit(0)
    assert os.wait()[1] == 0
"""
    (v,) = violations(server, code)
    assert (v["syscall"], v["count"]) == ("ptrace", 120)


def test_at_most_64_records(server):
    """Each pid is a record: the rule stands for all but 0."""
    code = f"got = [err({PRLIMIT}, 1000 + i, 7, 0, 0) for i in range(70)]\n"
    code += f"got.append(err({UNSHARE}, 0))\nshow(got=got)"
    r = server.execute(CALLS + code, language="python")
    meta = r["meta"]
    assert json.loads(r["stdout"])["got"] == ["EPERM"] * 71
    assert meta["violations_truncated"] is True and len(meta["violations"]) == 64
    assert [int(v["args"][0], 16) for v in meta["violations"]] == list(range(1000, 1064))


@pytest.mark.parametrize("calls", [1000, 1001, 1500])
def test_at_most_1000_answers_and_the_run_goes_on(server, calls):
    """Afterwards the kernel refuses by itself."""
    code = f"got = [err({PTRACE}, 0) for _ in range({calls})]\n"
    code += "show(first=got[:1000].count('EPERM'), then=sorted(set(got[1000:])), alive=os.getpid())"
    r = server.execute(CALLS + code, language="python")
    seen = json.loads(r["stdout"])
    assert seen["first"] == 1000 and seen["alive"] > 1
    assert seen["then"] == ([] if calls == 1000 else ["ENOSYS"])
    (v,) = r["meta"]["violations"]
    assert v["count"] == 1000
    assert r["meta"].get("violations_truncated", False) is (calls > 1000)


def test_a_loop_of_violations_costs_the_launcher_nothing(start):
    """Beside it others get their answers as beside a loop of calls that are allowed."""
    s = start(SANDBOX_MAX_CONCURRENT="3")
    launcher = launcher_pid(s)
    held = at_rest(s)

    def beside(nr):
        code = CALLS + f"while True: call({nr}, 0)"
        loops = [Asking(s, code, timeout_seconds=5 * SLOW) for _ in range(2)]
        wait_for(lambda: s.load() == 2)
        used, took = s.cpu_seconds(launcher), []
        for _ in range(5):
            began = time.monotonic()
            r = s.execute("print(1)")
            took.append(time.monotonic() - began)
            assert r["stdout"] == "1\n" and r["meta"]["violations"] == []
        results = [x.result().json["meta"] for x in loops]
        assert [m["verdict"] for m in results] == ["timeout", "timeout"]
        return results, sorted(took)[2], s.cpu_seconds(launcher) - used

    _, quiet, quiet_cpu = beside(110)
    results, took, cpu = beside(PTRACE)
    for meta in results:
        (v,) = meta["violations"]
        assert v["count"] <= 1000
    assert took < 3 * quiet + 0.2, (quiet, took)
    assert cpu < quiet_cpu + 0.3 * SLOW, (quiet_cpu, cpu)
    settled(s, held)


def test_the_listener_is_not_the_programs(server):
    seen = look(
        server,
        """
        def fds(): return sorted(os.readlink(f"/proc/self/fd/{n}") for n in range(64)
                                 if os.path.islink(f"/proc/self/fd/{n}"))
        call(101, 0)
        show(own=fds(), child=forked(fds))
        """,
    )
    for text in (" ".join(seen["own"]), seen["child"]):
        assert "seccomp" not in text and "socket" not in text
    assert len(seen["own"]) == 3


def test_killed_while_calls_wait(start):
    """The tree is killed in the middle of calls that the launcher has not answered yet."""
    s = start(SANDBOX_MAX_CONCURRENT="1")
    held = at_rest(s)
    code = f"""
for _ in range(8):
    if os.fork() == 0:
        while True:
            call({PTRACE}, 0)
call({PTRACE}, 0)
os._exit(0)
"""
    for _ in range(20):
        r = s.execute(CALLS + code)
        assert r["exit_code"] == 0 and r["meta"]["violations"][0]["syscall"] == "ptrace"
    settled(s, held)


def test_a_deadline_is_exact_for_a_program_that_violates(server):
    code = CALLS + f"import time\nwhile True:\n    call({PTRACE}, 0)\n    time.sleep(0.002)"
    r = server.execute(code, language="python", timeout_seconds=1)
    assert r["meta"]["verdict"] == "timeout"
    assert 1000 <= r["execution_time_ms"] < 1000 + 250 * SLOW
    (v,) = r["meta"]["violations"]
    assert 10 < v["count"] < 1000


def test_a_launcher_that_was_stopped_answers_and_ends_the_run(start):
    """A call waits over the deadline; nothing hangs when there is somebody to answer again."""
    s = start(SANDBOX_MAX_CONCURRENT="1")
    code = CALLS + f"import time\nwhile True:\n    call({PTRACE}, 0)\n    time.sleep(0.01)"
    asking = Asking(s, code, timeout_seconds=1)
    wait_for(lambda: s.load() == 1)
    time.sleep(0.3)
    launcher = launcher_pid(s)
    os.kill(launcher, 19)
    time.sleep(1.5)
    os.kill(launcher, 18)
    assert asking.result(10).json["meta"]["verdict"] == "timeout"
    assert s.execute("print(1)")["stdout"] == "1\n"


def test_the_same_in_streams_stored_runs_and_run_json(start, tmp_path):
    s = start(SANDBOX_STORE_CODE="always")
    code = CALLS + f"call({UNSHARE}, 0)"
    events = list(s.events(code))
    name, streamed = events[-1]
    assert name == "result"
    (v,) = streamed["meta"]["violations"]
    assert (v["syscall"], v["count"], v["errno"]) == ("unshare", 1, "EPERM")
    where = os.path.join(s.state_dir, "artifacts/executions")
    (stored,) = os.listdir(where)
    with open(os.path.join(where, stored), encoding="utf-8") as f:
        assert json.load(f)["result"]["meta"]["violations"] == [v]
    script = tmp_path / "x.py"
    script.write_text(code)
    done = command("run", "--mode", "python", "--json", str(script))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["meta"]["violations"][0]["syscall"] == "unshare"


def test_the_layer_is_found_by_its_effect(server):
    layer = server.get("/isolation").json["layers"]["violations"]
    assert layer["requested"] and layer["active"] and "reason" not in layer
    assert "unshare" in layer["evidence"]


def test_below_an_outer_listener_the_list_is_null_and_the_reason_is_told(below, server):
    s = below
    layer = s.get("/isolation").json["layers"]["violations"]
    assert layer["active"] is False and "listener already" in layer["reason"]
    health = s.get("/health").json["isolation"]
    assert "violations" in health["missing"] and health["layers"]["seccomp"] is True
    assert health["level"] == server.get("/health").json["isolation"]["level"] != "none"
    code = f"show(got=[err({PTRACE}, 0), err({SOCKET}, 2, 1, 0), err(435, 0, 0), err(181, 0)])"
    r = s.execute(CALLS + code)
    assert json.loads(r["stdout"])["got"] == ["EPERM", "EAFNOSUPPORT", "ENOSYS", "ENOSYS"]
    assert r["meta"]["violations"] is None
    assert "violations_truncated" not in r["meta"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become somebody else")
def test_what_is_refused_because_no_cgroup_counts_is_told_too():
    s = Plain({}, (), "python")
    try:
        assert not s.get("/isolation").json["layers"]["memory_limit"]["active"]
        r = s.execute(CALLS + """
import socket
from socket import AF_UNIX, SOCK_DGRAM, SOCK_SEQPACKET, SOCK_STREAM
show(made=[tried(socket.socket, AF_UNIX, k) for k in (SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET)],
     pair=[tried(socket.socketpair, AF_UNIX, k) for k in (SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET)],
     memfd=tried(os.memfd_create, "x"))
""", language="python")
    finally:
        s.stop()
    refused = ["ok", "ESOCKTNOSUPPORT", "ESOCKTNOSUPPORT"]
    assert json.loads(r["stdout"]) == {"made": refused, "pair": refused, "memfd": "ENOSYS"}
    told = {(v["syscall"], v["args"][1], v["errno"]) for v in r["meta"]["violations"]}
    assert told == {(name, kind, "ESOCKTNOSUPPORT")
                    for name in ("socket", "socketpair") for kind in ("0x80002", "0x80005")}  # fmt: skip
    for v in r["meta"]["violations"]:
        assert "SOCK_STREAM" in v["hint"] and v["count"] == 1, v

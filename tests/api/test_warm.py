# SPDX-License-Identifier: GPL-2.0-only
"""Sandboxes that wait for a request: the same as cold ones, used once, replaced when odd."""

import os
import signal
import time

import pytest

from conftest import BINARY, SANITIZED, Server, found_modes, wait_for
from probes import command
from support import Later, b64, marked, new_mark, unpack
from warm_programs import PROGRAMS

WARM = 2


def warm_of(server):
    return server.get("/health").json["warm"]


def wait_warm(server, language, count=1, seconds=30):
    wait_for(lambda: warm_of(server)["ready"][language] >= count, seconds, step=0.02)


def can_wait(server):
    """False: without a cgroup none does, and the log says so."""
    if "memory_limit" not in server.get("/health").json["isolation"]["missing"]:
        return True
    server.wait_log(r"warm\.none")
    return False


@pytest.fixture(scope="module")
def warm():
    """One server whose sandboxes wait, for all of this file."""
    s = Server({"SANDBOX_WARM": str(WARM), "SANDBOX_MODE": ",".join(found_modes())})
    if not can_wait(s):
        s.stop()
        pytest.skip("no sandbox waits here")
    yield s
    s.stop()


@pytest.fixture(scope="module")
def cold():
    s = Server({"SANDBOX_WARM": "0", "SANDBOX_MODE": ",".join(found_modes())})
    yield s
    s.stop()


def has_hooks():
    with open(BINARY, "rb") as f:
        return b"SANDBOX_TEST_FAULT" in f.read()


def used(answer):
    return answer["meta"]["usage"]["warm"]


def what_is_equal(answer):
    """All of an answer but what no two runs have in common: times, sizes, ids."""
    meta = {k: v for k, v in answer["meta"].items() if k != "usage"}
    for v in meta["violations"] or []:
        v["args"] = v["args"][:1]  # the others may be addresses, or what a register still had
    same = {k: v for k, v in answer.items() if k not in ("execution_time_ms", "duration", "meta")}
    return same, meta


@pytest.mark.parametrize("language,name", [(p[0], p[1]) for p in PROGRAMS][:: 5 if SANITIZED else 1])
def test_a_program_cannot_tell_that_its_sandbox_was_waiting(cold, warm, language, name):
    code, fields = next(p[2:] for p in PROGRAMS if p[:2] == (language, name))
    if language not in found_modes():
        pytest.skip(f"{language} is not there")
    wait_warm(warm, language)
    first = cold.execute(code, language=language, **fields)
    second = warm.execute(code, language=language, **fields)
    assert not used(first) and used(second)
    assert what_is_equal(first) == what_is_equal(second)


def test_what_waits_is_counted_and_refilled(warm):
    for language in found_modes():
        wait_warm(warm, language, WARM)
    health = warm_of(warm)
    assert health["wanted"] == WARM and health["memory_limit_mb"] == 512
    assert all(health["ready"][m] == WARM for m in found_modes())
    assert 1 < health["memory_mb"] < 512
    assert used(warm.execute("print(1)", language="python"))
    wait_warm(warm, "python", WARM)


def test_each_is_used_once(warm):
    """Nothing that a run leaves is there in the next: files, ids, layout, seeds."""
    code = (
        "import os, uuid\n"
        "print(os.path.exists('/tmp/mine'), os.listdir('/dev/shm'), sorted(os.listdir('/work')))\n"
        "open('/tmp/mine', 'w').write('x'); open('/dev/shm/m', 'w').write('x')\n"
        "print(hash('a'), id(os), uuid.uuid4(), os.stat('/proc/self/ns/mnt').st_ino, os.readlink('/proc/self/ns/user'))"
    )
    seen = []
    for _ in range(4):
        wait_warm(warm, "python")
        r = warm.execute(code, language="python")
        assert used(r), r
        first, second = r["stdout"].splitlines()
        assert first == "False [] ['output', 'script.py']"
        seen.append(second.split())
    for i in range(3):
        assert len({line[i] for line in seen}) == len(seen), seen


@pytest.mark.parametrize("name", ["PYTHONHASHSEED", "LC_ALL", "LANGUAGE", "TZ", "MALLOC_ARENA_MAX", "NODE_ENV"])
def test_what_an_interpreter_reads_at_its_start_starts_cold(cold, warm, name):
    code = "import os, sys\nprint(sys.argv, sys.orig_argv, sorted(os.environ.items()), os.statvfs('/work').f_blocks)"
    fields = {"env": {"BEFORE": "1", name: "1"}, "args": ["a", "b c"]}
    wait_warm(warm, "python")
    first = cold.execute(code, language="python", **fields)
    second = warm.execute(code, language="python", **fields)
    assert not used(second)
    assert first["exit_code"] == 0 and what_is_equal(first) == what_is_equal(second)


def test_a_name_that_only_begins_like_one_does_not(warm):
    for name in ("TZX", "LANGUAGES", "LANG_", "PYTHO", "XTZ", "MALLOC"):
        wait_warm(warm, "python")
        r = warm.execute(f"import os; print(os.environ['{name}'])", language="python", env={name: "1"})
        assert used(r) and r["stdout"] == "1\n", (name, r)


def traced(server, code, language, **fields):
    parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    r = server.post("/execute", {"code": code, "language": language, **fields}, {"traceparent": parent})
    assert r.status == 200, r
    return r.json


def test_a_traced_request_is_served_warm(cold, warm):
    code = "import os\nprint(os.environ['TRACEPARENT'], os.environb[b'TRACEPARENT'], list(os.environ))"
    wait_warm(warm, "python")
    first, second = traced(cold, code, "python"), traced(warm, code, "python")
    assert used(second) and not used(first)
    assert "4bf92f3577b34da6a3ce929d0e0e4736" in second["stdout"]
    assert what_is_equal(first) == what_is_equal(second)


@pytest.mark.parametrize("first_line", ["# coding: latin-1", "#!/bin/x\n# vim: set fileencoding=ascii :"])
def test_a_script_in_another_encoding_starts_cold(cold, warm, first_line):
    code = first_line + "\nprint(1)\n"
    wait_warm(warm, "python")
    r = warm.execute(code, language="python")
    assert not used(r) and r["stdout"] == "1\n", r
    assert what_is_equal(r) == what_is_equal(cold.execute(code, language="python"))


def test_a_script_that_says_it_is_utf8_does_not(warm):
    wait_warm(warm, "python")
    r = warm.execute("# -*- coding: utf-8 -*-\nprint('\u00e9')", language="python")
    assert used(r) and r["stdout"] == "\u00e9\n"


def test_time_begins_before_long_code_is_read(warm):
    """More than a pipe holds would be parsed while it is written, before the clock starts."""
    wait_warm(warm, "python")
    code = ("x=" + "(" * 180 + "1" + ")" * 180 + "\n") * 6000
    r = warm.execute(code, language="python", timeout_seconds=0.3)
    assert not used(r) and r["meta"]["verdict"] == "timeout", r
    assert r["meta"]["usage"]["setup_us"] < 1000000, r


@pytest.mark.skipif("node" not in found_modes(), reason="node is not there")
def test_node_takes_variables_warm_but_for_its_own(cold, warm):
    code = "console.log(process.argv, Object.entries(process.env))"
    wait_warm(warm, "node")
    first, second = traced(cold, code, "node"), traced(warm, code, "node")
    assert used(second) and "4bf92f3577b34da6a3ce929d0e0e4736" in second["stdout"]
    assert what_is_equal(first) == what_is_equal(second)
    for fields in ({"env": {"NODE_ENV": "x"}}, {"env": {"TZ": "UTC"}}):
        wait_warm(warm, "node")
        r = warm.execute(code, language="node", **fields)
        assert not used(r), fields
        assert what_is_equal(r) == what_is_equal(cold.execute(code, language="node", **fields))


@pytest.mark.skipif("node" not in found_modes(), reason="node is not there")
def test_a_manifest_starts_node_cold(cold, warm):
    files = {"package.json": b64(b'{"type":"module"}')}
    code = "import fs from 'fs'; console.log(typeof require, fs.existsSync('package.json'))"
    wait_warm(warm, "node")
    r = warm.execute(code, language="node", files=files)
    assert not used(r) and r["stdout"] == "undefined true\n", r


def test_shell_takes_arguments_and_environment_warm(warm):
    wait_warm(warm, "shell")
    r = warm.execute('echo "$0 $1 $2 $NAME"', language="shell", args=["a", "b c"], env={"NAME": "v"})
    assert used(r) and r["stdout"] == "script.sh a b c v\n", r


@pytest.mark.parametrize("language", ["python", "shell"])
def test_limits_of_the_request_hold(warm, language):
    limits = {"limits": {"cpu_seconds": 1, "pids": 9}}
    wait_warm(warm, language)
    r = warm.execute(
        {
            "shell": "ulimit -t; ulimit -u",
            "python": "import resource as r\nfor x in 0, 6:\n    print(r.getrlimit(x)[0])",
        }[language],
        language=language,
        **limits,
    )
    assert used(r) and r["stdout"] == "3\n10\n", r
    wait_warm(warm, language)
    r = warm.execute(
        {"shell": "while :; do :; done", "python": "while True: pass"}[language],
        language=language,
        **limits,
    )
    assert used(r) and r["meta"]["verdict"] == "cpu_timeout", r
    wait_warm(warm, language)
    r = warm.execute(
        {"shell": "sleep 60", "python": "import time; time.sleep(60)"}[language],
        language=language,
        timeout_seconds=0.5,
    )
    assert used(r) and r["meta"]["verdict"] == "timeout" and 450 <= r["execution_time_ms"] < 3000, r


def test_memory_and_disk_of_the_request_hold(cold, warm):
    small = {"limits": {"memory_mb": 100, "disk_mb": 16}}
    code = "import os\nv = os.statvfs('/tmp')\nprint(v.f_blocks * v.f_frsize, v.f_files)"
    wait_warm(warm, "python")
    r = warm.execute(code, language="python", **small)
    assert used(r) and r["stdout"].split()[0] == str(16 << 20), r
    assert what_is_equal(r) == what_is_equal(cold.execute(code, language="python", **small))
    wait_warm(warm, "python")
    r = warm.execute("open('x', 'wb').write(bytes(20 << 20))", language="python", **small)
    assert used(r) and r["meta"]["verdict"] == "disk_full", r
    wait_warm(warm, "python")
    r = warm.execute("x = bytearray(200 << 20); print(len(x))", language="python", **small)
    assert used(r) and r["meta"]["verdict"] == "out_of_memory", r
    assert r["meta"]["message"] == "memory limit of 100 MB exceeded"


def test_memory_that_the_interpreter_has_already_is_refused_cold(start):
    """A limit below what waiting took cannot be set: a cold start has it, and nobody who waits is the poorer for it."""
    s = start(SANDBOX_WARM="2", mode="python", SANDBOX_PRELOAD="asyncio,decimal,http.server,xml.dom")
    if not can_wait(s):
        pytest.skip("no sandbox waits here")
    wait_warm(s, "python", 2)
    waiting, each_mb = s.named("python3"), warm_of(s)["memory_mb"] // 2
    for _ in range(3):
        for limit_mb in (8, each_mb - 1, each_mb + 1):
            r = s.execute("print(1)", limits={"memory_mb": limit_mb})
            assert not used(r) and r["meta"]["verdict"] in ("out_of_memory", "ok"), r
    assert r["stdout"] == "1\n", r
    assert sorted(s.named("python3")) == sorted(waiting) and "warm." not in s.log(), s.log()
    assert used(s.execute("print(1)", limits={"memory_mb": each_mb + 16}))


def test_time_and_processor_begin_with_the_request(warm):
    wait_warm(warm, "node" if "node" in found_modes() else "python", WARM)
    time.sleep(1)  # that it has waited is what must not be counted
    for language, code in (("python", "print(1)"), ("shell", "echo 1")):
        wait_warm(warm, language)
        r = warm.execute(code, language=language, timeout_seconds=0.9)
        assert used(r) and r["meta"]["verdict"] == "ok", r
    bare = min(_cold_cpu_ms(warm) for _ in range(3))
    wait_warm(warm, "python")
    spent = min(_warm_cpu_ms(warm) for _ in range(3))
    assert spent < 0.8 * bare, (spent, bare)


def _cold_cpu_ms(server):
    r = server.execute("print(1)", language="python", env={"TZ": "UTC"})
    assert not used(r)
    return r["meta"]["usage"]["cpu_ms"]


def _warm_cpu_ms(server):
    wait_warm(server, "python")
    r = server.execute("print(1)", language="python")
    assert used(r)
    return r["meta"]["usage"]["cpu_ms"]


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
            return f.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def test_one_that_died_is_replaced(start):
    s = start(SANDBOX_WARM="1", mode="python")
    if not can_wait(s):
        pytest.skip("no sandbox waits here")
    wait_warm(s, "python")
    (pid,) = s.named("python3")
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not alive(pid), 10, step=0.01)
    r = s.execute("print(1)")
    assert r["stdout"] == "1\n"
    s.wait_log("warm.(failed|discarded|cold)")
    wait_warm(s, "python")
    assert pid not in s.named("python3")
    assert used(s.execute("print(1)"))


def _weight(pid):
    """What its cgroup has of the processor, beside others."""
    with open(f"/proc/{pid}/cgroup", encoding="ascii") as f:
        lines = [line.strip().split(":", 2) for line in f]
    for _, controllers, path in lines:
        if "cpu" in controllers.split(","):
            with open(f"/sys/fs/cgroup/{controllers}{path}/cpu.shares", encoding="ascii") as f:
                return int(f.read())
    (path,) = [p for _, controllers, p in lines if not controllers]
    slot = os.path.dirname(path)  # what is weighed is the slot, with its worker and its run
    with open(f"/sys/fs/cgroup{slot}/cpu.weight", encoding="ascii") as f:
        return int(f.read())


def test_what_is_made_ahead_has_only_time_that_nobody_wants(start):
    """From its start until a request has it, which then has as much as any."""
    s = start(SANDBOX_WARM="2", mode="python")
    if not can_wait(s):
        pytest.skip("no sandbox waits here")
    wait_warm(s, "python", 2)
    waiting = s.named("python3")
    try:
        before = {pid: _weight(pid) for pid in waiting}
    except OSError as e:
        pytest.skip(f"nobody sees the cgroups of runs here: {e}")
    later = Later(s, "import time; time.sleep(1)")
    wait_for(lambda: s.load() == 1 and max(map(_weight, filter(alive, waiting))) > 50, 10, step=0.01)
    after = {pid: _weight(pid) for pid in waiting if alive(pid)}
    assert later.result()["exit_code"] == 0
    assert max(before.values()) <= 2 and len(after) == 2, (before, after)
    assert sorted(after.values())[0] <= 2 and sorted(after.values())[1] >= 100, after


def test_one_that_is_old_is_replaced(start):
    s = start(SANDBOX_WARM="1", mode="python", SANDBOX_TEST_FAULT="old")
    if not can_wait(s):
        pytest.skip("no sandbox waits here")
    if not has_hooks():
        pytest.skip("the binary has no test hooks")
    wait_warm(s, "python")
    (first,) = wait_for(lambda: s.named("python3"), 10)
    wait_for(lambda: not alive(first), 10, step=0.01)
    (second,) = wait_for(lambda: [p for p in s.named("python3") if alive(p)], 10)
    assert second != first
    # that was no failure: nothing is put off, and nobody is warned
    assert s.execute("print(1)")["stdout"] == "1\n"
    assert "warm." not in s.log()


def test_one_that_wrote_or_spoke_is_not_used(start):
    s = start(SANDBOX_WARM="1", mode="python")
    if not can_wait(s):
        pytest.skip("no sandbox waits here")
    wait_warm(s, "python")
    (pid,) = s.named("python3")
    with open(f"/proc/{pid}/fd/1", "wb", buffering=0) as f:
        f.write(b"not of this run\n")
    r = s.execute("print(1)")
    assert r["stdout"] == "1\n" and not used(r)
    s.wait_log("warm.discarded")


def test_a_waiting_program_has_nothing_and_init_no_right(start):
    """Its descriptors are the three streams and its script; no process has a capability."""
    s = start(SANDBOX_WARM="1", mode="python")
    if not can_wait(s):
        pytest.skip("no sandbox waits here")
    wait_warm(s, "python")
    (pid,) = s.named("python3")
    assert sorted(os.listdir(f"/proc/{pid}/fd")) == ["0", "1", "2", "3"]
    with open(f"/proc/{pid}/status", encoding="utf-8") as f:
        status = f.read()
        parent = int(status.split("PPid:")[1].split()[0])
    with open(f"/proc/{parent}/status", encoding="utf-8") as f:
        status += f.read()
    caps = [line.split()[1] for line in status.splitlines() if line.startswith("Cap")]
    assert len(caps) == 10 and set(caps) == {"0" * 16}, status
    assert status.count("NoNewPrivs:\t1") == 2
    r = s.execute("import os, time\nprint(os.listdir('/proc/self/fd'))\nprint(open('/proc/1/status').read())")
    assert used(r)
    assert r["stdout"].splitlines()[0] == "['0', '1', '2', '3']"
    assert "Seccomp:\t2" in r["stdout"]


def test_memory_of_waiting_ones_is_bounded(start):
    s = start(SANDBOX_WARM="16", SANDBOX_WARM_MEMORY_MB="40", mode="python", SANDBOX_LOG_LEVEL="debug")
    if not can_wait(s):
        pytest.skip("no sandbox waits here")

    def full():
        w = warm_of(s)
        assert w["memory_mb"] <= 40, w
        return w["ready"]["python"] >= 2 and w["memory_mb"] > 20

    wait_for(full, 60, step=0.05)
    time.sleep(1)
    w = warm_of(s)
    assert w["ready"]["python"] < 16 and w["memory_mb"] <= 40, w


def test_too_many_stop_the_start():
    r = command("serve", SANDBOX_PORT="0", SANDBOX_WARM="200", SANDBOX_MODE="python,shell")
    assert r.returncode != 0
    assert "SANDBOX_WARM=200" in r.stderr and "256" in r.stderr


@pytest.mark.parametrize(
    "capacity,wanted",
    [("3", 3), ("100", 78), ("256", 0)],
    ids=["as many as may run", "as many as there are places", "none left"],
)
def test_as_many_wait_as_may_run_unless_told(start, capacity, wanted):
    s = start(mode="python,shell", SANDBOX_MAX_CONCURRENT=capacity, SANDBOX_WARM=None, SANDBOX_WARM_MEMORY_MB="40")
    health = s.get("/health").json
    assert health["capacity"] == int(capacity) and health.get("warm", {"wanted": 0})["wanted"] == wanted
    if wanted and can_wait(s):
        wait_warm(s, "shell", 1)


def test_none_waits_when_told(start):
    s = start(mode="shell", SANDBOX_WARM="0")
    assert "warm" not in s.get("/health").json
    assert not used(s.execute("true"))


def test_few_descriptors_leave_fewer_waiting_ones(start):
    """They are nobody's wish: that they do not fit is no reason not to start."""
    few = {"mode": "python,shell", "nofile": 300, "SANDBOX_MAX_CONCURRENT": "4", "SANDBOX_WARM": "auto"}
    s = start(SANDBOX_SESSIONS="off", **few)
    assert s.get("/health").json["warm"]["wanted"] == 1
    assert s.execute("echo 1", language="shell")["stdout"] == "1\n"
    # where there are sessions these come first
    assert "warm" not in start(SANDBOX_SESSIONS="on", **few).get("/health").json


def test_a_cancelled_request_ends_its_warm_run(warm):
    wait_warm(warm, "python")
    later = Later(warm, "import time; time.sleep(0.3); print(1)", language="python")
    assert later.result()["stdout"] == "1\n"
    wait_for(lambda: warm.load() == 0, 10, step=0.02)


def test_many_at_once_are_all_answered(warm):
    """More than wait and more than one runtime: whoever finds none starts cold."""
    codes = {"python": "print(6*7)", "shell": "echo 42", "node": "console.log(42)"}
    for _ in range(4):
        asked = [Later(warm, codes[m], language=m) for m in found_modes() if m in codes]
        assert all(a.result()["stdout"] == "42\n" for a in asked)


def test_files_go_in_and_out(warm):
    wait_warm(warm, "python")
    r = warm.execute(
        "import os, helper\nprint(helper.x)\nopen('output/o.bin', 'wb').write(open('d/in', 'rb').read() * 2)",
        language="python",
        files={"d/in": b64(b"\0\1"), "helper.py": b64(b"x = 5\n")},
    )
    assert used(r) and r["stdout"] == "5\n" and unpack(r) == {"o.bin": b"\0\1\0\1"}, r


def parent(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as f:
        return int(f.read().rsplit(")", 1)[1].split()[1])


@pytest.mark.parametrize("language", ["python", "shell"])
@pytest.mark.parametrize("kind", ["cold", "warm"])
def test_process_1_is_shut_and_the_program_goes_first_when_memory_runs_out(request, kind, language):
    """Until execve the program has the memory of process 1: what opens the one must not open the other."""
    s = request.getfixturevalue(kind)
    if kind == "warm":
        wait_warm(s, language)
    mark = new_mark()
    words = ["/bin/sh", "-c", "sleep 2; :", mark]
    code = {
        "python": f"import subprocess; subprocess.run({words}, check=True)",
        "shell": f"/bin/sh -c 'sleep 2; :' {mark}; :",
    }[language]
    run = Later(s, code, language=language)
    program = parent(wait_for(lambda: marked(mark), 10)[0])
    init = parent(program)
    assert os.stat(f"/proc/{init}/maps").st_uid == 0 != os.stat(f"/proc/{program}/maps").st_uid
    with open(f"/proc/{program}/oom_score_adj", encoding="ascii") as f:
        assert f.read() == "1000\n"
    assert used(run.result()) is (kind == "warm")

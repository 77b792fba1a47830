# SPDX-License-Identifier: GPL-2.0-only
"""Levels landlock and process: programs where no namespace can be made.

Every test runs for a plain user, whose runs all have the server's uid, and for root with the
rights that container engines leave it, where each slot has its own.
"""

import base64
import json
import os
import platform
import shutil
import subprocess
import time

import pytest

from everyday import GOLANG, NODE, PYTHON, SHELL
from conftest import SANITIZED, wait_for
from probes import SLOW, at_rest, settled
from shared import (  # noqa: F401, fixtures
    KINDS,
    Locked,
    locked_command,
    nobody,
    quiet,
    runs_of,
    server,
)
from support import Later, check_healthy, marked, new_mark, timed
from test_12_failing_steps import MARK, SHARED_STEPS, hooked
from test_13_everyday import outside

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become somebody else"),
    pytest.mark.skipif(platform.machine() != "x86_64", reason="the filter is for x86-64"),
]


HELLO = {
    "python": "import sys\nprint('out', sys.argv[1:])\nprint('err', file=sys.stderr)",
    "node": "console.log('out', process.argv.slice(2)); console.error('err');",
    "shell": "echo out \"$@\"; echo err >&2",
    "golang": 'package main\nimport ("fmt"; "os")\n'
    'func main() { fmt.Println("out", os.Args[1:]); fmt.Fprintln(os.Stderr, "err") }',
}
SAID = {"python": "out ['a', 'b c']", "node": "out [ 'a', 'b c' ]", "shell": "out a b c",
        "golang": "out [a b c]"}


# ---- everyday

# a sanitizer looks into ours, and makes the links of a compile cache take more time than there is
of_others = pytest.mark.skipif(SANITIZED, reason="it is about other people's programs, which no sanitizer looks into")


@pytest.mark.parametrize("mode", [pytest.param(m, marks=of_others if m == "golang" else ()) for m in HELLO])
def test_programs_of_every_mode_print_and_get_arguments(server, mode):
    r = server.execute(HELLO[mode], language=mode, args=["a", "b c"], timeout_seconds=110)
    assert (r["stdout"], r["stderr"], r["exit_code"]) == (SAID[mode] + "\n", "err\n", 0)
    assert r["meta"]["isolation"] == "landlock"


def test_files_in_and_out_stdin_and_environment(server):
    code = """
import os, sys
print(sys.stdin.read(), os.environ["WHO"], open("in/data.txt").read(), os.path.basename(os.getcwd()))
open(os.path.join(os.environ["OUTPUT_DIR"], "a"), "w").write("one")
os.makedirs("output/d"); open("output/d/b", "w").write("two")
for place in ("HOME", "TMPDIR"): open(os.path.join(os.environ[place], "x"), "w").write("y")
"""
    files = {"in/data.txt": base64.b64encode(b"data").decode()}
    r = server.execute(code, language="python", files=files, stdin="typed", env={"WHO": "me"})
    assert (r["stdout"], r["stderr"], r["exit_code"]) == ("typed me data work\n", "", 0)
    assert r["files_produced"] == {"a": "b25l", "d/b": "dHdv"}


# What this level cannot give: /dev/shm, sockets with names, /proc; by path no change of modes
# where the uid is the server's. The manual names them.
NOT_HERE = {
    "multiprocessing fork", "multiprocessing spawn", "futures", "shared memory", "memory files",
    "asyncio unix server", "sockets", "mmap", "unix socket", "os", "worker threads", "fs",
}
NOT_PLAIN = {"coreutils", "git"}
EVERYDAY = [
    *(("python", "/usr/bin/python3", "script.py", n, c) for n, c in PYTHON.items()),
    *(("node", "/usr/bin/node", "script.js", n, c) for n, c in NODE.items()),
    *(("shell", "/usr/bin/bash", "script.sh", n, c) for n, c in SHELL.items()),
]


@of_others
@pytest.mark.parametrize("row", [r for r in EVERYDAY if r[3] not in NOT_HERE], ids=lambda r: r[3])
def test_everyday_programs_work_as_outside(server, row):
    language, argv, script, name, code = row
    if not os.path.exists(argv):
        pytest.skip(f"no {argv}")
    r = server.execute(code, language=language, limits={"max_output_kb": 1024}, timeout_seconds=60)
    if server.kind == "plain" and name in NOT_PLAIN:  # the manual says so, and the answer
        assert r["exit_code"] != 0
        assert any("mod" in v["syscall"] for v in r["meta"]["violations"]), r["meta"]
        return
    expected = outside([argv], script, code)
    assert (r["stdout"], r["exit_code"]) == (expected[0], expected[2]), r


@of_others
@pytest.mark.parametrize("name", GOLANG)
def test_go_starts_from_the_seed(server, name):
    """Links to it: a program costs a link step, not a build of what it imports."""
    r, seconds = timed(lambda: server.execute(GOLANG[name], language="golang", timeout_seconds=110))
    assert r["exit_code"] in (0, 1) and r["stdout"], r
    assert "error" not in r["stderr"]
    assert seconds < 60 * SLOW


# ---- limits


def test_a_timeout_ends_the_run(quiet):
    mark = new_mark()
    code = "import os, time\nprint('started', flush=True)\nos.fork()\ntime.sleep(60)"
    r, seconds = timed(lambda: quiet.execute(code, language="python", timeout_seconds=1, args=[mark]))
    assert (r["stdout"], r["exit_code"], r["meta"]["verdict"]) == ("started\n", -1, "timeout")
    assert seconds < 3 * SLOW
    assert marked(mark) == []


def test_a_process_that_ignores_signals_and_its_setsid_grandchildren_are_dead(quiet):
    code = """
import os, signal, sys, time
for s in range(1, 65):
    try: signal.signal(s, signal.SIG_IGN)
    except (OSError, ValueError): pass
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0: os.setsid()
print("ready", flush=True)
while True: time.sleep(1)
"""
    mark = new_mark()
    r = quiet.execute(code, language="python", timeout_seconds=1, args=[mark])
    assert r["meta"]["verdict"] == "timeout"
    assert marked(mark) == []


def test_a_double_forked_daemon_is_dead_after_the_answer(quiet):
    code = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for fd in range(3): os.close(fd)
        while True: time.sleep(1)
    os._exit(0)
os.wait()
"""
    mark = new_mark()
    r, seconds = timed(lambda: quiet.execute(code, language="python", timeout_seconds=30, args=[mark]))
    assert (r["exit_code"], r["meta"]["verdict"]) == (0, "ok")
    assert marked(mark) == []
    assert seconds < 5 * SLOW


CHAIN = """
import os, time
# whoever is killed has a child by then, and that one the next
while True:
    try:
        if os.fork() != 0: time.sleep(60)
    except OSError: time.sleep(0.001)
"""
BOMB = """
import os
while True:
    try: os.fork()
    except OSError: pass
"""


@pytest.mark.parametrize("code", [CHAIN, BOMB], ids=["chain", "bomb"])
def test_a_fork_bomb_is_contained(quiet, code):
    mark = new_mark()
    beside = Later(quiet, "import time\ntime.sleep(2)\nprint('fine')", language="python")
    r = quiet.execute(code, language="python", timeout_seconds=2, args=[mark], limits={"pids": 40})
    if quiet.kind == "plain":  # one uid: no limit of the kernel's is this run's own
        assert (r["exit_code"], r["meta"]["verdict"]) == (137, "signal")
        assert r["meta"]["message"] == "process limit of 40 exceeded"
        assert r["stderr"].endswith("process limit of 40 exceeded\n")
    else:
        # without a quota it uses the time of every CPU
        assert r["meta"]["verdict"] in ("timeout", "cpu_timeout")
    assert marked(mark) == []
    assert beside.result()["stdout"] == "fine\n"
    check_healthy(quiet)


def test_three_runs_at_once_each_have_their_share_of_processes(server):
    code = """
import os, time
n = 0
for _ in range(30):
    if os.fork() == 0:
        time.sleep(3); os._exit(0)
    n += 1
print(n)
while n: os.wait(); n -= 1
"""
    asked = [Later(server, code, language="python", limits={"pids": 40}) for _ in range(3)]
    for a in asked:
        r = a.result()
        assert (r["stdout"], r["exit_code"]) == ("30\n", 0), r


@pytest.mark.skipif(SANITIZED, reason="a launcher that a sanitizer slows looks too late")
def test_a_memory_bomb_is_named(quiet):
    code = "x = []\nwhile True: x.append(bytearray(4 << 20))"
    r = quiet.execute(code, language="python", limits={"memory_mb": 64})
    assert (r["exit_code"], r["meta"]["verdict"]) == (137, "out_of_memory")
    assert r["meta"]["message"] == "memory limit of 64 MB exceeded"
    many = "import os, time\nfor _ in range(12):\n  if os.fork() == 0:\n" \
        "    x = bytearray(10 << 20)\n    time.sleep(60)\ntime.sleep(60)"
    r = quiet.execute(many, language="python", limits={"memory_mb": 64})
    assert r["meta"]["verdict"] == "out_of_memory"


def test_output_is_cut_at_the_cap(server):
    r = server.execute("while :; do echo 0123456789; done", language="shell", timeout_seconds=1,
                       limits={"max_output_kb": 4})
    assert len(r["stdout"]) <= 4096 + 100 and r["meta"]["truncated"] is True


# what the disk has then is in no directory; at most 2 GB, should nobody stop it
NAMELESS = """
import os
kept, made = [], 0
def nameless():
    global made
    made += 1
    assert made < 512
    f = os.fdopen(os.open(".", os.O_TMPFILE | os.O_RDWR, 0o600), "r+b") if made % 2 else open("x", "w+b")
    if made % 2 == 0:
        os.unlink("x")
    f.write(b"x" * (4 << 20))
    f.flush()
    return f
"""
DISK_BOMBS = {
    "one file": "f = open('x', 'wb')\nwhile True: f.write(b'x' * (1 << 20))",
    "many files": "n = 0\nwhile True:\n  open(f'f{n}', 'wb').write(b'x' * (1 << 20)); n += 1",
    "many names": "n = 0\nwhile True:\n  open(f'f{n}', 'wb').close(); n += 1",
    "in its temporary directory":
        "import os, shutil\nn = 0\nwhile True:\n"
        "  open(f'{os.environ[\"TMPDIR\"]}/f{n}', 'wb').write(b'x' * (1 << 20)); n += 1",
    "a deep tree": "import os\nwhile True: os.mkdir('d'); os.chdir('d')",
    "files without a name": NAMELESS + "while True: kept.append(nameless())",
    "in mappings alone": NAMELESS + "import mmap, ctypes\nlibc = ctypes.CDLL(None)\n"
        "while True:\n  f = nameless(); libc.mmap(None, 4096, 1, 1, f.fileno(), 0); f.close()",
    "on their way through a socket": NAMELESS + "import socket\na, b = socket.socketpair()\n"
        "while True:\n  f = nameless(); socket.send_fds(a, [b'x'], [f.fileno()]); f.close()",
    "in a directory that nobody may list": "import os\nos.mkdir('d', 0o300)\nn = 0\nwhile True:\n"
        "  open(f'd/{n}', 'wb').write(b'x' * (1 << 20)); n += 1",
    "in a process that nobody may look into": NAMELESS + "import ctypes\n"
        "ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)\nwhile True: kept.append(nameless())",
    "behind a first thread that is gone": NAMELESS + "import ctypes, threading\ndef fill():\n"
        "  while True: kept.append(nameless())\nthreading.Thread(target=fill).start()\n"
        "ctypes.CDLL(None).syscall(60, 0)",
}


@pytest.mark.parametrize("how", DISK_BOMBS)
def test_a_disk_bomb_is_ended(quiet, how):
    r, seconds = timed(lambda: quiet.execute(
        DISK_BOMBS[how], language="python", timeout_seconds=60, limits={"disk_mb": 8}))
    assert r["meta"]["verdict"] == "disk_full", r
    assert r["meta"]["message"] == "disk limit of 8 MB reached"
    assert seconds < 30 * SLOW


def test_nobody_is_blamed_for_what_others_write(quiet):
    """Files without a name, of which forked processes have one, and a disk that fills up."""
    code = (
        "import os, sys, tempfile, time\n"
        "f = tempfile.TemporaryFile(); f.write(b'x' * (5 << 20)); f.flush()\n"
        "for i in range(3):\n"
        "  if os.fork() == 0: time.sleep(1.5); os._exit(0)\n"
        "print('there', flush=True); time.sleep(1.5)"
    )
    other = os.path.join(quiet.state_dir, "other")
    run = Later(quiet, code, language="python", limits={"disk_mb": 8})
    with open(other, "wb") as f:
        while not run.over():
            if f.tell() < 64 << 20:
                f.write(b"x" * (4 << 20))
                f.flush()
            time.sleep(0.05)
    os.unlink(other)
    assert run.result()["meta"]["verdict"] == "ok", run.result()


def test_cpu_seconds_are_limited(server):
    r = server.execute("while True: pass", language="python", timeout_seconds=30, limits={"cpu_seconds": 1})
    assert r["meta"]["verdict"] == "cpu_timeout"


@hooked
@pytest.mark.parametrize("step", SHARED_STEPS)
def test_a_step_that_fails(step):
    s = Locked("plain", "shell", SANDBOX_TEST_FAULT=step, SANDBOX_MAX_CONCURRENT="1")
    try:
        before = at_rest(s)
        for _ in range(2):
            r = s.post("/execute", {"code": f"echo {MARK}; touch output/made"})
            assert (r.status, r.json["code"]) == (500, "sandbox_setup_failed")
            assert MARK.encode() not in r.body
        settled(s, before)
        wait_for(lambda: runs_of(s) == [], 20)
    finally:
        s.stop()


# ---- what is said


MISSING = {
    "user_namespace", "mount_namespace", "pid_namespace", "network_namespace", "ipc_namespace",
    "uts_namespace", "cgroup_namespace", "root", "proc",
}


REFUSED = """
import ctypes, socket
libc = ctypes.CDLL(None)
for family, protocol in ((1, 0), (2, 0), (16, 0), (16, 4), (38, 0)):
    assert libc.socket(family, 1, protocol) == -1
assert libc.inotify_add_watch(libc.inotify_init(), b".", 2) == -1
one, other = socket.socketpair()
print(one.send(b"x"))
"""


def test_refused_sockets_are_told_with_reasons_that_hold_here(server):
    r = server.execute(REFUSED, language="python")
    assert r["stdout"] == "1\n", r
    told = [(v["syscall"], v["args"][0], v["errno"], v["hint"]) for v in r["meta"]["violations"]]
    sockets = [t[1:] for t in told if t[0] == "socket"]
    families = ("0x1", "0x2", "0x10", "0x10", "0x26")
    assert [t[:2] for t in sockets] == [(f, "EAFNOSUPPORT") for f in families]
    unix, inet, netlink, _, other = (t[2] for t in sockets)
    assert "names are not the run's own" in unix and "socketpair works" in unix
    assert inet == "sockets are denied: network is off"
    assert netlink == "AF_NETLINK is denied: the interfaces are not the run's own"
    assert other == "sockets of this family are denied"
    assert told[-1][0::3] == ("inotify_add_watch", "files cannot be watched at this level")


def test_isolation_and_check_tell_every_layer_with_evidence(server):
    told = server.get("/isolation").json
    assert told["level"] == "landlock"
    layers = told["layers"]
    for name, layer in layers.items():
        assert layer["evidence"], name
        assert layer["active"] or layer["reason"], name
    assert {n for n, layer in layers.items() if not layer["active"]} - {
        "memory_limit", "cpu_limit"} == MISSING
    assert "seccomp profile" in layers["user_namespace"]["fix"]
    assert "signal to its own init: EPERM, launcher: EPERM, supervisor: EPERM" in (
        layers["landlock"]["evidence"])
    assert "stat()" in layers["root"]["reason"] and "/dev/shm" in layers["root"]["reason"]
    line, env, copy = locked_command(server.kind, "check", "--json", SANDBOX_MIN_ISOLATION="landlock")
    done = subprocess.run(line, env=env, capture_output=True, timeout=60, check=False)
    shutil.rmtree(copy)
    assert done.returncode == 0, done.stderr
    checked = json.loads(done.stdout)
    assert checked["level"] == "landlock"
    assert {n: v["active"] for n, v in checked["layers"].items()} == {
        n: v["active"] for n, v in layers.items()}
    health = server.get("/health").json["isolation"]
    assert health["level"] == "landlock" and MISSING <= set(health["missing"])


def refused_start(kind, *args, **env):
    line, env, copy = locked_command(kind, *args, SANDBOX_MODE="shell", SANDBOX_PORT="0", **env)
    done = subprocess.run(line, env=env, capture_output=True, text=True, timeout=60, check=False)
    shutil.rmtree(copy)
    return done


@pytest.mark.parametrize("kind", KINDS)
def test_the_default_minimum_refuses_the_start_and_says_what_would_do(kind):
    done = refused_start(kind, "serve")
    assert done.returncode == 1
    assert "isolation level 'landlock' is below the minimum 'namespaces'" in done.stderr
    assert "user namespaces refused: Operation not permitted" in done.stderr
    assert "with SANDBOX_MIN_ISOLATION=landlock it would start" in done.stderr
    assert "fix: " in done.stderr
    done = refused_start(kind, "check")
    assert done.returncode == 1 and "level: landlock (minimum: namespaces)" in done.stdout
    assert "with SANDBOX_MIN_ISOLATION=landlock it would start" in done.stdout


def test_without_landlock_the_level_is_process_and_must_be_asked_for():
    for least in ("namespaces", "landlock"):
        done = refused_start("no landlock", "serve", SANDBOX_MIN_ISOLATION=least)
        assert done.returncode == 1
        assert f"isolation level 'process' is below the minimum '{least}'" in done.stderr
        assert "no Landlock" in done.stderr
        assert "with SANDBOX_MIN_ISOLATION=process it would start" in done.stderr


def test_root_that_cannot_become_another_user_gets_no_start():
    done = refused_start("root without rights", "serve", SANDBOX_MIN_ISOLATION="process")
    assert done.returncode == 1 and "server.listening" not in done.stderr
    done = refused_start("root without rights", "check", SANDBOX_MIN_ISOLATION="process")
    assert done.returncode == 1 and "level: none" in done.stdout
    assert "code never runs as root" in done.stdout and "fix: " in done.stdout


def test_level_process_is_stamped_and_warned_of():
    s = Locked("no landlock", "python,shell", least="process")
    try:
        s.wait_log(r"warn .*isolation\.process")
        r = s.execute("echo fine; id -u", language="shell")
        assert (r["stdout"], r["meta"]["isolation"]) == (f"fine\n{nobody()}\n", "process")
        assert s.get("/isolation").json["level"] == "process"
        assert s.get("/isolation").json["layers"]["landlock"]["active"] is False
        mark = new_mark()
        code = "import os, time\nif os.fork() == 0: os.setsid()\ntime.sleep(60)"
        r = s.execute(code, language="python", timeout_seconds=1, args=[mark])
        assert r["meta"]["verdict"] == "timeout" and marked(mark) == []
        # it can: that is why it has to be asked for
        r = s.post("/execute", {"code": "kill -9 $PPID; sleep 9", "language": "shell"})
        assert r.status == 500
        check_healthy(s)
    finally:
        s.stop()


def test_with_namespaces_the_minimum_of_landlock_changes_nothing(start):
    s = start(mode="shell", SANDBOX_MIN_ISOLATION="landlock")
    assert s.execute("id -u")["meta"]["isolation"] in ("full", "namespaces")

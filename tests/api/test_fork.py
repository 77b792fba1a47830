# SPDX-License-Identifier: GPL-2.0-only
"""SANDBOX_WARM_FORK: runs forked from a started python, in sandboxes like any other's."""

import glob
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from conftest import SANITIZED, Server, _tree, wait_for
from fork_programs import LAST_WORDS
from probes import SLOW, command, own_place, real_program, write_program
from support import Later, b64
from test_preload import numpy_path  # noqa: F401 # pylint: disable=unused-import
from test_warm import alive, can_wait, has_hooks, used, wait_warm, what_is_equal
from warm_programs import PROGRAMS

RUNS_MOST = 500  # from one interpreter, as the manual says
SEEDED = "random,secrets,uuid,tempfile,ssl,multiprocessing.process"

COMPARED = [p[1:] for p in PROGRAMS if p[0] == "python"] + LAST_WORDS
if SANITIZED:  # it is our code that is looked at then, not what programs see
    COMPARED = COMPARED[::5]


# modules, classes, threads and closed files, which have no last word
MADE = (
    "import abc, enum, threading, weakref\nclass A(abc.ABC): pass\nA.register(int)\n"
    "with open('x', 'w') as f: pass\n"
    "t = threading.Thread(target=len, args=([],))\nt.start()\nt.join()\nx = weakref.WeakSet([A])"
)


@pytest.fixture(scope="module")
def fork():
    """As from a shell's background: with signals ignored that a run must not see so."""
    before = {n: signal.signal(n, signal.SIG_IGN) for n in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)}
    s = Server({"SANDBOX_WARM": "0", "SANDBOX_WARM_FORK": "on", "SANDBOX_MAX_CONCURRENT": "2"}, mode="python")
    for n, action in before.items():
        signal.signal(n, action)
    if not can_wait(s):
        s.stop()
        pytest.skip("nothing waits here")
    wait_warm(s, "python", 2)
    yield s
    s.stop()


@pytest.fixture(scope="module")
def three():
    """One whose interpreters are ended; each test leaves as many as it found."""
    s = Server({"SANDBOX_WARM": "0", "SANDBOX_WARM_FORK": "on", "SANDBOX_MAX_CONCURRENT": "1"}, mode="python")
    if not can_wait(s):
        s.stop()
        pytest.skip("nothing waits here")
    yield s
    s.stop()


@pytest.fixture(scope="module")
def cold():
    s = Server({"SANDBOX_WARM": "0"}, mode="python")
    yield s
    s.stop()


def serve(**env):
    """A start that is to fail."""
    return command("serve", **{"SANDBOX_WARM_FORK": "on", "SANDBOX_MODE": "python", "SANDBOX_PORT": "0", **env})


def side_by_side(call, names):
    """(name, what the call returned) of each; what waits for others wastes no time then."""
    with ThreadPoolExecutor() as pool:
        return list(zip(names, pool.map(call, names)))


def forked(server, code, **fields):
    wait_warm(server, "python")
    r = server.execute(code, **fields)
    assert used(r), r
    return r


@pytest.mark.parametrize("name", [p[0] for p in COMPARED])
def test_a_program_cannot_tell_that_it_was_forked(cold, fork, name):
    code, fields = next(p[1:] for p in COMPARED if p[0] == name)
    beside = Later(cold, code, **fields)
    second = forked(fork, code, **fields)
    first = beside.result()
    assert not used(first)
    for r in first, second:  # the one thing that differs, as the manual says
        r["stdout"] = re.sub(r"Seccomp_filters:\\t\d+", "Seccomp_filters:", r["stdout"])
        r["stderr"] = re.sub(r" at 0x\w+", " at", r["stderr"])
    words = [r["stdout"].split(", ") for r in (first, second)]
    assert what_is_equal(first) == what_is_equal(second), [(a, b) for a, b in zip(*words) if a != b]


def _newest_python():
    """The bin directory of the newest that is here: versions differ in what they show of their end."""
    exe = real_program("python3")
    places = [*glob.glob(os.path.dirname(exe) + "/../../*/bin"), *os.environ["PATH"].split(":")]
    paths = [path for place in places for path in glob.glob(place + "/python3.*") if path.rpartition(".")[2].isdigit()]
    found = [(int(path.rpartition(".")[2]), os.path.dirname(path)) for path in paths
             if os.path.realpath(os.path.dirname(path) + "/python3") == os.path.realpath(path)]
    return os.path.realpath(max(found)[1]) if found else os.path.dirname(exe)


LAST = "class Last:\n    def __del__(self): pass\nlast = Last()\n"


def assert_short_end(server, code):
    """Memory tells: who leaves something that may have a last word has python's long end, which takes all apart."""
    usages = [[forked(server, c)["meta"]["usage"] for _ in range(4)] for c in (code, LAST + code)]
    short, long = [[usage["memory_peak_kb"] for usage in four] for four in usages]
    if None in short + long:
        pytest.skip("nobody counts a run's memory here")
    assert sum(short) < sum(long) * 0.88, (code, short, long)


def test_the_newest_python_leaves_with_its_status():
    """Whatever it shows of what it does with an exit."""
    programs = {
        "import sys\nsys.exit(7)": (7, ""),
        "raise SystemExit(-1)": (255, ""),
        "raise SystemExit('words')": (1, "words\n"),
        "raise SystemExit": (0, ""),
        "import atexit\natexit.register(print, 'bye')\nraise SystemExit((1, 2))": (1, "(1, 2)\n"),
        "class A:\n    def __del__(self): print('bye')\na = A()\na.a = a\nraise SystemExit(5)": (5, ""),
    }
    s = Server({"SANDBOX_WARM": "0", "SANDBOX_WARM_FORK": "on", "SANDBOX_MAX_CONCURRENT": "1",
                "PATH": f"{_newest_python()}:{os.environ['PATH']}"}, mode="python")
    try:
        if not can_wait(s):
            pytest.skip("nothing waits here")
        for code, (status, said) in programs.items():
            r = forked(s, code)
            assert (r["exit_code"], r["stderr"]) == (status, said), (code, r)
            assert r["stdout"] == ("bye\n" if "bye" in code else ""), (code, r)
        for code in ("raise SystemExit(7)", MADE):
            assert_short_end(s, code)
    finally:
        s.stop()


def test_nothing_is_left_for_the_next(fork):
    """XS10 and its neighbours: files, names, environment, signals, limits of the run before."""
    look = (
        "import builtins, os, signal, sys, json, resource, gc, atexit\n"
        "print(os.path.exists('/tmp/mine'), os.listdir('/dev/shm'), sorted(os.listdir('/work')), os.listdir('/tmp'))\n"
        "print(hasattr(builtins, 'mine'), hasattr(json, 'mine'), 'mine' in sys.modules, os.environ.get('MINE'))\n"
        "print(signal.getsignal(signal.SIGUSR1), sys.path, sys.getrecursionlimit(), os.umask(0o22), os.nice(0))\n"
        "print(resource.getrlimit(resource.RLIMIT_NOFILE), sorted(os.listdir('/proc/self/fd')), gc.isenabled())\n"
        "print(atexit._ncallbacks(), os.listdir('/proc/self/task'), [p for p in os.listdir('/proc') if p.isdigit()])\n"
    )
    leave = (
        "for p in '/tmp/mine', '/dev/shm/mine', '/work/mine': open(p, 'w').write('x')\n"
        "builtins.mine = json.mine = 1; sys.modules['mine'] = json; os.environ['MINE'] = 'x'; sys.path.append('/x')\n"
        "signal.signal(signal.SIGUSR1, lambda *a: None); sys.setrecursionlimit(99); os.umask(0); os.nice(3)\n"
        "gc.disable()\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)); atexit.register(print, 'left')\n"
        "import subprocess; subprocess.Popen(['sleep', '1000'], start_new_session=True)\n"
    )
    seen = [forked(fork, look + leave)["stdout"].replace("left\n", "") for _ in range(5)]
    assert len(set(seen)) == 1, seen
    assert seen[0].startswith("False [] ['output', 'script.py'] []\nFalse False False None\n0 ["), seen[0]


def test_each_has_namespaces_of_its_own(fork):
    code = (
        "import os, time\n"
        "print([os.readlink('/proc/self/ns/' + n) for n in sorted(os.listdir('/proc/self/ns'))])\ntime.sleep(0.5)"
    )
    wait_warm(fork, "python", 2)
    both = [Later(fork, code) for _ in range(2)]
    first, second = [eval(r.result()["stdout"]) for r in both]  # pylint: disable=eval-used
    mine = {os.readlink("/proc/self/ns/" + n) for n in os.listdir("/proc/self/ns")}
    for kind in ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts"):
        names = [next(n for n in ns if n.startswith(kind + ":")) for ns in (first, second, mine)]
        assert len(set(names)) == 3, names


def test_no_seed_is_shared_and_no_layout_stays():
    """Numbers differ in every run; addresses and hashes are the interpreter's, for a bounded time."""
    s = Server(
        {"SANDBOX_WARM_FORK": "on", "SANDBOX_MAX_CONCURRENT": "1", "SANDBOX_PRELOAD": SEEDED, "SANDBOX_WARM": "0"},
        mode="python",
    )
    layout = "import os\nprint(hash('a'), id(os))"
    draw = (
        "import random, secrets, ssl, tempfile, uuid, os, numbers\nfrom multiprocessing import process\n"
        "print(random.random(), random.SystemRandom().random(), secrets.token_hex(8), ssl.RAND_bytes(8).hex(),"
        " uuid.uuid4(), uuid.uuid1().clock_seq, next(tempfile._get_candidate_names()), os.urandom(4).hex(),"
        " random.Random().random(), bytes(process.current_process().authkey).hex())\n"
    )
    try:
        if not can_wait(s):
            pytest.skip("nothing waits here")
        wait_warm(s, "python", 2)
        # most only count
        answers = [s.execute((draw if i % 13 == 0 else "") + layout) for i in range(RUNS_MOST + 20)]
        assert all(map(used, answers))
        lines = [r["stdout"].splitlines() for r in answers]
        # a module of the request's own, by a name that is imported already
        beside = s.execute("import secrets\nprint(secrets.x)", files={"secrets.py": b64(b"x = 5\n")})
    finally:
        s.stop()
    drawn = [line[0].split() for line in lines if len(line) == 2]
    assert len(drawn) == RUNS_MOST // 13 + 2 and {len(d[9]) for d in drawn} == {64}
    for i in (0, 1, 2, 3, 4, 6, 7, 8, 9):
        assert len({d[i] for d in drawn}) == len(drawn), i
    assert len({d[5] for d in drawn}) > len(drawn) / 2  # of 14 bits
    assert not used(beside) and beside["stdout"] == "5\n", beside
    layouts = [line[-1] for line in lines]
    assert 2 <= len(set(layouts)) <= 8 and max(map(layouts.count, set(layouts))) <= RUNS_MOST


def test_limits_hold(fork):
    limits = {"cpu_seconds": 1, "pids": 9}
    r = forked(fork, "import resource as r\nfor x in 0, 6:\n    print(r.getrlimit(x)[0])", limits=limits)
    assert r["stdout"] == "3\n10\n", r
    r = forked(fork, "while True: pass", limits=limits)
    assert r["meta"]["verdict"] == "cpu_timeout", r
    r = forked(fork, "import time; time.sleep(60)", timeout_seconds=0.5)
    assert r["meta"]["verdict"] == "timeout" and 450 <= r["execution_time_ms"] < 3000, r
    small = {"memory_mb": 100, "disk_mb": 16}
    r = forked(fork, "x = bytearray(200 << 20); print(len(x))", limits=small)
    assert r["meta"]["verdict"] == "out_of_memory" and r["meta"]["message"] == "memory limit of 100 MB exceeded"
    r = forked(fork, "open('x', 'wb').write(bytes(20 << 20))", limits=small)
    assert r["meta"]["verdict"] == "disk_full", r
    many = "import os\ntry:\n    while True: os.fork()\nexcept OSError: print('no more')"
    r = forked(fork, many, limits=limits, timeout_seconds=5)
    assert "no more" in r["stdout"], r
    r = forked(fork, "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    assert r["exit_code"] == 139 and r["meta"]["verdict"] == "signal", r


@pytest.mark.parametrize("fields", [{"env": {"PYTHONHASHSEED": "1"}}, {"limits": {"memory_mb": 8}}])
def test_what_cannot_be_forked_starts_cold(fork, fields):
    wait_warm(fork, "python")
    r = fork.execute("import os, sys; print(sys.argv, os.environ.get('A'))", **fields)
    assert not used(r), r


def _interpreters(server):
    """Those that runs are forked from: no run has the launcher's pid namespace."""
    return server.named("python")


def test_the_interpreter_has_no_rights(fork):
    wait_warm(fork, "python", 2)
    pids = _interpreters(fork)
    assert len(pids) >= 2
    for pid in pids:
        with open(f"/proc/{pid}/status", encoding="utf-8") as f:
            status = dict(re.findall(r"^(\w+):\t(.*)$", f.read(), re.M))
        assert {v for k, v in status.items() if k.startswith("Cap")} == {"0" * 16}, status
        assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2" and status["Threads"] == "1", status
        assert "0" not in status["Uid"].split() and status["Groups"].split() == [], status
        for kind in ("mnt", "net"):
            assert os.readlink(f"/proc/{pid}/ns/{kind}") != os.readlink(f"/proc/self/ns/{kind}")


def test_an_interpreter_that_died_is_replaced(three):
    s = three
    wait_warm(s, "python", 3)
    for pid in _interpreters(s):
        os.kill(pid, signal.SIGKILL)
    assert s.execute("print(1)")["stdout"] == "1\n"
    wait_warm(s, "python", 3)
    forked(s, "print(1)")


def test_an_interpreter_that_does_not_answer_is_replaced(three):
    """Whatever it does: a request ends within a second of its deadline."""
    s = three
    wait_warm(s, "python", 3)
    stopped = _interpreters(s)
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    began = time.monotonic()
    r = s.execute("import time; time.sleep(60)", timeout_seconds=0.5)
    took = time.monotonic() - began
    assert r["meta"]["verdict"] == "timeout" and not used(r) and took < 1.5 * SLOW + 2, (took, r)  # at any load
    s.wait_log("slot.silent")
    (gone,) = set(stopped) - set(_interpreters(s))
    assert not alive(gone)
    for pid in set(stopped) - {gone}:
        os.kill(pid, signal.SIGKILL)
    wait_for(lambda: len(set(_interpreters(s)) - set(stopped)) == 3, 30)
    wait_warm(s, "python", 3)
    forked(s, "print(1)")


def test_one_whose_runs_do_not_start_is_replaced(fork):
    assert fork
    place = own_place()
    hang = "os.path.exists(os.path.dirname(__file__) + '/hang') and time.sleep(60)"
    try:
        path = _venv(place, slow=f"import os, time\nos.register_at_fork(after_in_child=lambda: {hang})\n")
        s = Server({"SANDBOX_WARM": "0", "SANDBOX_WARM_FORK": "on", "SANDBOX_PRELOAD": "slow", "PATH": path,
                    "SANDBOX_MAX_CONCURRENT": "1"}, mode="python")
        try:
            wait_warm(s, "python", 3)
            before = _interpreters(s)
            (site,) = [d[0] for d in os.walk(place + "/venv/lib") if d[0].endswith("/site-packages")]
            write_program(site + "/hang", "")
            began = time.monotonic()
            r = s.execute("print(1)", timeout_seconds=5)
            assert r["stdout"] == "1\n" and not used(r) and time.monotonic() - began < 4 * SLOW, r
            os.unlink(site + "/hang")
            wait_for(lambda: len(set(before) - set(_interpreters(s))) == 1, 30)
            wait_warm(s, "python", 3)
            forked(s, "print(1)")
        finally:
            s.stop()
    finally:
        shutil.rmtree(place)


def test_one_that_is_old_is_replaced(start):
    """And never in the middle of a run."""
    s = start(SANDBOX_WARM_FORK="on", SANDBOX_WARM="0", SANDBOX_MAX_CONCURRENT="1", SANDBOX_TEST_FAULT="old")
    if not can_wait(s):
        pytest.skip("nothing waits here")
    if not has_hooks():
        pytest.skip("the binary has no test hooks")
    code = "import os, time\nprint(id(os), hash('a'))\ntime.sleep("
    seen = []

    def ask(seconds):  # where little gets done all of them may be old at once
        r = s.execute(f"{code}{seconds})")
        seen.extend([r["stdout"]] if used(r) else [])
        return used(r)

    wait_for(lambda: ask(1.2), 30)
    (pid, *_) = _interpreters(s)
    wait_for(lambda: not alive(pid), 10, step=0.01)
    wait_for(lambda: ask(0), 30)
    assert len(set(seen)) == 2, seen
    assert "slot.silent" not in s.log() and "warm." not in s.log()


@pytest.mark.parametrize("code", ["print(1)", "import sys; sys.exit(3)", MADE], ids=["plain", "exit", "made"])
def test_what_was_there_before_is_not_copied_at_the_end(fork, code):
    assert_short_end(fork, code)


def test_a_collector_that_is_asked_to_tells_of_the_end(fork):
    assert "gc: collecting generation 2" in forked(fork, "import gc\ngc.set_debug(gc.DEBUG_STATS)")["stderr"]


def _pythons():
    """How many there are below this process."""
    found = 0
    for pid in _tree(os.getpid()):
        try:
            with open(f"/proc/{pid}/comm", encoding="utf-8") as f:
                found += f.read().startswith("python")
        except OSError:
            pass  # it ended in between
    return found


def test_memory_of_interpreters_is_bounded(start):
    """While they start, too: no more are begun than there is room for."""
    counts, enough = [_pythons()], threading.Event()

    def look():
        while not enough.wait(0.01):  # one takes longer than that to start
            counts.append(_pythons())

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        s = start(SANDBOX_WARM_FORK="on", SANDBOX_WARM="0", SANDBOX_WARM_MEMORY_MB="25", SANDBOX_MAX_CONCURRENT="12")
        if not can_wait(s):
            pytest.skip("nothing waits here")
        s.wait_log("fork.full")
        wait_warm(s, "python")
    finally:
        enough.set()
        watcher.join()
    assert 1 <= max(counts) - counts[0] <= 7, counts  # and not 14: each has 5 MB at least, and two launchers may meet
    health = s.get("/health").json["warm"]
    assert 1 <= health["ready"]["python"] <= 3 and 4 < health["memory_mb"] <= 25, health
    r = serve(SANDBOX_WARM_MEMORY_MB="1")
    assert r.returncode == 1 and "SANDBOX_WARM_MEMORY_MB is less than it needs" in r.stderr, r.stderr


def _venv(place, **modules):
    python = real_program("python3")
    subprocess.run([python, "-m", "venv", "--without-pip", place + "/venv"], check=True)
    (site,) = [d[0] for d in os.walk(place + "/venv/lib") if d[0].endswith("/site-packages")]
    for name, text in modules.items():
        write_program(f"{site}/{name}.py", text)
    return f"{place}/venv/bin:" + os.environ["PATH"]


def test_what_cannot_be_forked_from_stops_the_start(fork):
    assert fork
    place = own_place()
    try:
        path = _venv(
            place,
            threads="import threading, time\nthreading.Thread(target=time.sleep, args=(1000,), daemon=True).start()\n",
            opens="f = open('/etc/passwd')\n",
            shares="import mmap\nm = mmap.mmap(-1, 4096)\n",
            # who has it could ask for the right to write
            only_reads="import mmap\nm = mmap.mmap(-1, 4096, prot=mmap.PROT_READ)\n",
        )
        reasons = {
            "threads": "a module has started threads",
            "opens": "a module has opened something",
            "shares": "a module has made memory that forks would share",
            "only_reads": "a module has made memory that forks would share",
        }
        for module, r in side_by_side(lambda module: serve(SANDBOX_PRELOAD=module, PATH=path), reasons):
            assert r.returncode == 1 and "SANDBOX_WARM_FORK=on: runs cannot be forked" in r.stderr, r.stderr
            assert reasons[module] in r.stderr, r.stderr
        os.mkdir(place + "/bin")
        python = real_program("python3")
        write_program(
            place + "/bin/python3",
            f'#!/bin/sh\nif [ "$1" = -I ]; then\n{python} "$@" | sed "s|^exe.*|exe\t$0|"\n'
            f'else exec {python} "$@"; fi\n',
        )
        r = serve(PATH=f"{place}/bin:/usr/bin:/bin")
    finally:
        shutil.rmtree(place)
    assert r.returncode == 1 and "SANDBOX_WARM_FORK=on" in r.stderr, r.stderr
    assert "does not load a shared object" in r.stderr, r.stderr


def test_without_python_it_stops_the_start():
    r = serve(SANDBOX_MODE="shell")
    assert r.returncode == 1 and "SANDBOX_WARM_FORK=on: python is not served" in r.stderr


def test_a_step_that_fails_stops_the_start(fork):
    """No run with less: here the one that is tried at the start. Nor is anything left of what was being made."""
    assert fork
    if not has_hooks():
        pytest.skip("the binary has no test hooks")
    steps = (
        "id_maps cgroup_namespace proc proc_masks scratch inputs hostname root_check capabilities no_new_privs fork "
        "limits identity landlock seccomp open_files order"
    )
    for step, r in side_by_side(lambda step: serve(SANDBOX_TEST_FAULT=step), steps.split()):
        assert r.returncode == 1 and f'sandbox step "{step}" failed' in r.stderr, (step, r.stderr)
        # of the forked run, before the cold one
        assert re.search(rf"warm\.cold slot=\d+ step={step} ", r.stderr), r.stderr
        assert "slot.left" not in r.stderr, r.stderr


@pytest.mark.timeout(400)
def test_numpy_draws_anew(numpy_path):  # noqa: F811 # pylint: disable=redefined-outer-name
    s = Server(
        {"SANDBOX_WARM_FORK": "on", "SANDBOX_WARM": "0", "SANDBOX_PRELOAD": "numpy", "PATH": numpy_path,
         "SANDBOX_MAX_CONCURRENT": "1"},
        mode="python",
    )
    try:
        if not can_wait(s):
            pytest.skip("nothing waits here")
        code = (
            "import sys\nprint('numpy' in sys.modules)\nimport numpy\n"
            "print(numpy.random.rand(), (numpy.ones((300, 300)) @ numpy.ones((300, 300))).sum())"
        )
        seen = [forked(s, code)["stdout"].split() for _ in range(4)]
    finally:
        s.stop()
    assert {(a, c) for a, _, c in seen} == {("True", "27000000.0")} and len({b for _, b, _ in seen}) == 4, seen

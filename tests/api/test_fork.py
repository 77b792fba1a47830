# SPDX-License-Identifier: GPL-2.0-only
"""SANDBOX_WARM_FORK: runs forked from a started python, in sandboxes like any other's."""

import os
import re
import shutil
import signal
import subprocess
import threading
import time

import pytest

from conftest import SANITIZED, Server, _tree, wait_for
from probes import SLOW, command, own_place, real_program, write_program
from support import Later, b64
from test_preload import numpy_path  # noqa: F401 # pylint: disable=unused-import
from test_warm import alive, can_wait, has_hooks, used, wait_warm, what_is_equal
from warm_programs import PROGRAMS

RUNS_MOST = 500  # from one interpreter, as the manual says
SEEDED = "random,secrets,uuid,tempfile,ssl,multiprocessing.process"

LAST_WORDS = [
    ("an object's last word", "class A:\n    def __del__(self): print('bye')\na = A()\ndef f(): return a", {}),
    ("a file never closed", "f = open('output/x', 'w')\nf.write('text')\ndef g(): return f", {}),
    ("a cycle", "class A:\n    def __del__(self): print('bye')\na = A()\na.me = a\ndel a", {}),
    (
        "collected",
        "import gc\nclass A:\n    def __del__(self): print('bye')\na = A()\na.me = a\ndel a\nprint(gc.collect() > 0)",
        {},
    ),
    ("a thread's clock", "import time, threading\nprint(time.pthread_getcpuclockid(threading.get_ident()) != 0)", {}),
    (
        "threads",
        "import threading as t\nm = t.main_thread()\nprint(m.native_id, m is t.current_thread(), t.active_count())",
        {},
    ),
    ("an interrupt that nobody takes", "import os, signal\nprint(1)\nos.kill(os.getpid(), signal.SIGINT)", {}),
    ("an interrupt by itself", "class K(KeyboardInterrupt): pass\nraise K", {}),
    ("a stream that is closed", "import os\nos.close(1)\nprint(1)", {}),
    ("a stream that python closed", "import sys\nsys.stdout.close()", {}),
    ("a stream of its own", "import sys\nclass A:\n    def write(self, s): return len(s)\n    def flush(self):"
     " sys.__stdout__.write('flushed')\nsys.stdout = A()\nprint(1)", {}),
    ("without a collector", "import gc\ngc.disable()\nclass A:\n    def __del__(self): print('bye')\na = A()", {}),
    *((f"something of its own in {name}", f"import {name}\nclass A:\n    def __del__(self): print('bye')\n"
       f"{name}.own = A()", {}) for name in ("os", "sys", "builtins", "json")),
    ("last words in their order", "import atexit, sys, weakref\nclass A:\n    def __init__(self, n): self.n = n\n"
     "    def __del__(self): print(self.n, sys.is_finalizing(), sys.meta_path is None)\na, b = A(1), A(2)\n"
     "a.b = b\nweakref.finalize(a, print, 'finalized')\natexit.register(print, 'at exit')\n"
     "def g():\n    try: yield 1\n    finally: print('generator')\nh = g()\nnext(h)\nsys.stderr.write('end')", {}),
    *((f"a file that {who} has", f"import codecs, contextvars, os, signal, sys\nf = open('output/x', 'w')\n"
       f"f.write('text')\ndef g(*a, f=f): pass\n{take}\ndel f, g", {}) for who, take in (
           ("an audit hook", "sys.addaudithook(g)"),
           ("a profiler", "sys.setprofile(g)"),
           ("a tracer", "sys.settrace(g)"),
           ("an exception hook", "sys.excepthook = g"),
           ("a context", "contextvars.ContextVar('x').set(g)"),
           ("a codec", "codecs.register(g)"),
           ("a handler of signals", "signal.signal(signal.SIGUSR1, g)"),
           ("a fork", "os.register_at_fork(before=g)"),
           ("a class that was there", "os.PathLike.own = g"),
           ("a function's place", "os.getenv = g"),
           ("a list of python's", "sys.path_hooks.append(g)"),
           ("nobody", "import gc; g.me = g; gc.freeze()"),
       )),
    *((f"a last word of {what}", f"import os, sys, warnings\n{code}", {}) for what, code in (
        ("a class without names", "class A:\n    __slots__ = ()\n    def __del__(self): print('bye')\na = A()"),
        ("a class that was there", "os._Environ.__del__ = lambda self, write=os.write: write(1, b'bye')"),
        ("a function that was replaced", "class A:\n    def __del__(self): print('bye')\nos.getenv = A()"),
        ("a directory", "warnings.simplefilter('always')\na = os.scandir('/')\nnext(a)"),
        ("a hook that hears of the end", "sys.addaudithook(lambda e, a, w=os.write: w(1, e.encode() + b' '))"),
        ("an exception", "class E(Exception):\n    def __del__(self): print('bye')\nraise E"),
        ("a stream on a stream", "import io\nx = io.TextIOWrapper(sys.stdout.buffer)\nx.write('late')"),
        ("an object that was collected late", "import gc\nclass A:\n    def __del__(self): print('bye')\n"
         "a = A()\ngc.freeze()\ndel a"),
    )),
    ("plain things", "class A: pass\nx = [A(), A]\nx.append(x)\nprint(len(x))", {}),
    ("many of them", "import gc\nx = [[] for i in range(200000)]\ngc.collect()\nprint(len(x))", {}),
    ("a class that says goodbye", "class A:\n    def __del__(self): print('bye')\nclass B(A): pass\nx = [B()]", {}),
    ("a metaclass that does", "class M(type):\n    def __del__(self): print('bye')\nclass A(metaclass=M): pass", {}),
    ("a reference that is told", "import weakref\nclass A: pass\na = A()\n"
     "r = weakref.ref(a, lambda r: print('gone'))", {}),
    ("a lock that is missed", "import _thread, weakref\nheld = _thread.allocate_lock()\nheld.acquire()\n"
     "r = weakref.ref(held, lambda r: print('gone'))", {}),
    ("a module left alone at the end", "import os, posixpath\nclass A:\n    def __del__(self):"
     " print(os.path.join('a', 'b'), posixpath is not None)\na = A()\nb = a", {}),
    ("a thread that outlives it", "import threading, time\ndef f():\n    time.sleep(0.1)\n    print('late')\n"
     "threading.Thread(target=f).start()\nprint('first')", {}),
    ("a thread that does not", "import threading, time\nthreading.Thread(target=time.sleep, args=(9,),"
     " daemon=True).start()\nprint('first')", {}),
    ("a fork of its own", "import os\nclass A:\n    def __del__(self): print('bye', flush=True)\na = A()\n"
     "if os.fork() == 0: raise SystemExit(3)\nprint(os.waitstatus_to_exitcode(os.wait()[1]), flush=True)", {}),
    ("a hook that fails", "import sys\nsys.excepthook = lambda *a: 1 / 0\nraise ValueError('x')", {}),
    ("an exit in a hook", "import sys\nsys.excepthook = lambda *a: sys.exit(7)\nraise ValueError('x')", {}),
    ("an exit at the exit", "import atexit, sys\natexit.register(sys.exit, 5)\nprint(1)", {}),
    ("an exit with words", "raise SystemExit('words')", {}),
    ("what main is", "import __main__, sys\nprint(sorted(vars(__main__)), type(__main__.__loader__),"
     " __main__.__loader__.path, __main__.__spec__, __cached__, sys._getframe().f_back)", {}),
    (
        "a pipe with no reader",
        "import os\nr, w = os.pipe()\nos.close(r)\ntry: os.write(w, b'x')\nexcept BrokenPipeError: print('broken')",
        {},
    ),
]
COMPARED = [p[1:] for p in PROGRAMS if p[0] == "python"] + LAST_WORDS
if SANITIZED:  # it is our code that is looked at then, not what programs see
    COMPARED = COMPARED[::5]


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
def cold():
    s = Server({"SANDBOX_WARM": "0"}, mode="python")
    yield s
    s.stop()


def serve(**env):
    """A start that is to fail."""
    return command("serve", **{"SANDBOX_WARM_FORK": "on", "SANDBOX_MODE": "python", "SANDBOX_PORT": "0", **env})


def forked(server, code, **fields):
    wait_warm(server, "python")
    r = server.execute(code, **fields)
    assert used(r), r
    return r


@pytest.mark.parametrize("name", [p[0] for p in COMPARED])
def test_a_program_cannot_tell_that_it_was_forked(cold, fork, name):
    code, fields = next(p[1:] for p in COMPARED if p[0] == name)
    first = cold.execute(code, **fields)
    second = forked(fork, code, **fields)
    assert not used(first)
    for r in first, second:  # the one thing that differs, as the manual says
        r["stdout"] = re.sub(r"Seccomp_filters:\\t\d+", "Seccomp_filters:", r["stdout"])
        r["stderr"] = re.sub(r" at 0x\w+", " at", r["stderr"])
    words = [r["stdout"].split(", ") for r in (first, second)]
    assert what_is_equal(first) == what_is_equal(second), [(a, b) for a, b in zip(*words) if a != b]


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
    code = (
        "import random, secrets, ssl, tempfile, uuid, os, numbers\nfrom multiprocessing import process\n"
        "print(random.random(), random.SystemRandom().random(), secrets.token_hex(8), ssl.RAND_bytes(8).hex(),"
        " uuid.uuid4(), uuid.uuid1().clock_seq, next(tempfile._get_candidate_names()), os.urandom(4).hex(),"
        " random.Random().random(), bytes(process.current_process().authkey).hex())\n"
        "print(hash('a'), id(os))"
    )
    try:
        if not can_wait(s):
            pytest.skip("nothing waits here")
        wait_warm(s, "python", 2)
        answers = [s.execute(code) for _ in range(RUNS_MOST + 20)]
        assert all(map(used, answers))
        lines = [r["stdout"].splitlines() for r in answers]
        # a module of the request's own, by a name that is imported already
        beside = s.execute("import secrets\nprint(secrets.x)", files={"secrets.py": b64(b"x = 5\n")})
    finally:
        s.stop()
    drawn = [line[0].split() for line in lines]
    assert {len(d[9]) for d in drawn} == {64}
    for i in (0, 1, 2, 3, 4, 6, 7, 8, 9):
        assert len({d[i] for d in drawn}) == len(drawn), i
    assert len({d[5] for d in drawn}) > len(drawn) / 2  # of 14 bits
    assert not used(beside) and beside["stdout"] == "5\n", beside
    layouts = [line[1] for line in lines]
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


@pytest.mark.parametrize("fields", [{"env": {"PYTHONHASHSEED": "1"}}, {"limits": {"memory_mb": 10}}])
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


def test_an_interpreter_that_died_is_replaced(start):
    s = start(SANDBOX_WARM_FORK="on", SANDBOX_WARM="0", SANDBOX_MAX_CONCURRENT="1")
    if not can_wait(s):
        pytest.skip("nothing waits here")
    wait_warm(s, "python", 3)
    for pid in _interpreters(s):
        os.kill(pid, signal.SIGKILL)
    assert s.execute("print(1)")["stdout"] == "1\n"
    wait_warm(s, "python", 3)
    forked(s, "print(1)")


def test_an_interpreter_that_does_not_answer_is_replaced(start):
    """Whatever it does: a request ends within a second of its deadline."""
    s = start(SANDBOX_WARM_FORK="on", SANDBOX_WARM="0", SANDBOX_MAX_CONCURRENT="1")
    if not can_wait(s):
        pytest.skip("nothing waits here")
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
    code = "import os, time\ntime.sleep(1.2)\nprint(id(os), hash('a'))"
    first = forked(s, code)["stdout"]
    (pid, *_) = _interpreters(s)
    wait_for(lambda: not alive(pid), 10, step=0.01)
    assert forked(s, code)["stdout"] != first
    assert "slot.silent" not in s.log() and "warm." not in s.log()


def test_what_was_there_before_is_not_copied_at_the_end(fork):
    """Memory tells: who leaves something that may have a last word has python's long end, which takes all apart.

    Modules, classes, threads and closed files have none, and neither has an exit.
    """
    last = "class A:\n    def __del__(self): pass\na = A()"
    made = (
        "import abc, enum, threading, weakref\nclass A(abc.ABC): pass\nA.register(int)\n"
        "with open('x', 'w') as f: pass\n"
        "t = threading.Thread(target=len, args=([],))\nt.start()\nt.join()\nx = weakref.WeakSet([A])"
    )
    codes = (last, "print(1)", "import sys; sys.exit(3)", made)
    peaks = [[forked(fork, c)["meta"]["usage"]["memory_peak_kb"] for _ in range(4)] for c in codes]
    if None in sum(peaks, []):
        pytest.skip("nobody counts a run's memory here")
    whole, *short = map(min, peaks)
    assert max(short) < whole * 0.6, peaks


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
        while not enough.is_set():
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
            shares="import mmap, os\nm = mmap.mmap(-1, 4096)\n",
        )
        for module, said in (
            ("threads", "a module has started threads"),
            ("opens", "a module has opened something"),
            ("shares", "a module has made memory that forks would share"),
        ):
            r = serve(SANDBOX_PRELOAD=module, PATH=path)
            assert r.returncode == 1 and "SANDBOX_WARM_FORK=on: runs cannot be forked" in r.stderr, r.stderr
            assert said in r.stderr, r.stderr
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


@pytest.mark.parametrize("step", ["id_maps", "capabilities", "landlock", "seccomp", "order"])
def test_a_step_that_fails_stops_the_start(fork, step):
    """No run with less: here the one that is tried at the start."""
    assert fork
    r = serve(SANDBOX_TEST_FAULT=step)
    assert r.returncode == 1, r.stderr


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

# SPDX-License-Identifier: GPL-2.0-only
"""Attacks of one run on another."""

import json
import secrets
import textwrap
import time

from conftest import wait_for
from probes import CALLS, SLOW, Asking, look


def sleeping(target, code, seconds=3):
    """A victim: does this, then sleeps."""
    victim = Asking(target, f"{code}\nimport time; time.sleep({seconds})\nprint('fine')")
    wait_for(lambda: target.load() == 1)
    time.sleep(0.5)  # nothing outside shows how far it is; it only has to write three files
    return victim


def test_xs01_files_of_another(target):
    name = "victim" + secrets.token_hex(6)
    victim = sleeping(
        target, f"for d in ('/work', '/tmp', '/dev/shm'): open(d + '/{name}', 'w').write('secret')"
    )
    seen = look(
        target,
        f"""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            for way in ("cwd", "root"):
                for sub in ("", "/work", "/tmp", "/dev/shm"):
                    path = f"/proc/{{pid}}/{{way}}{{sub}}/{name}"
                    if opened(path) == "ok": found.append(path)
        show(found=found, direct=[opened(d + "/{name}") for d in ("/work", "/tmp", "/dev/shm")])
        """,
    )
    assert target.load() == 1
    assert seen == {"found": [], "direct": ["ENOENT"] * 3}
    assert victim.result().json["stdout"] == "fine\n"


def test_xs02_signals_limits_and_affinity_of_others(target):
    victim = sleeping(target, "pass")
    pids = [p for p in target.pids() if p > 2] + [target.server_pid]
    seen = look(
        target,
        f"""
        limit = (ctypes.c_uint64 * 2)(1, 1); mask = ctypes.create_string_buffer(b"\\1" + b"\\0" * 127)
        answers = {{}}
        for pid in {pids!r}:
            if pid in (os.getpid(), os.getppid()): continue
            answers[str(pid)] = [err(62, pid, 9), err(101, 16, pid, 0, 0), err(302, pid, 7, limit, 0),
                                 err(203, pid, 128, mask), err(141, 0, pid, 19),
                                 err(310, pid, 0, 0, 0, 0, 0)]
        show(**answers)
        """,
    )
    assert len(seen) >= 4
    for pid, answers in seen.items():
        assert set(answers) <= {"ESRCH", "EPERM"}, (pid, answers)
        assert answers[0] == "ESRCH"
    assert victim.result().json["stdout"] == "fine\n"


def test_xs02_killing_everything_reaches_nobody(target):
    victim = sleeping(target, "pass", 2)
    seen = look(
        target,
        """
        child = os.fork()
        if child == 0:
            while True: pass
        first, all = tried(os.kill, 1, 9), tried(os.kill, -1, 9)
        show(first=first, all=all, child=os.waitpid(child, 0)[1], parent=os.getppid())
        """,
    )
    assert seen.pop("first") in ("ok", "EPERM")  # process 1 is deaf, or out of reach
    assert seen == {"all": "ok", "child": 9, "parent": 1}
    assert victim.result().json["stdout"] == "fine\n"


def test_xs03_no_names_are_shared(target):
    name = "name" + secrets.token_hex(6)
    victim = sleeping(
        target,
        "from multiprocessing import shared_memory as m\n"
        f"s = m.SharedMemory(name='{name}', create=True, size=64)\n"
        "import atexit; atexit.register(s.unlink)",
    )
    seen = look(
        target,
        f"""
        from multiprocessing import shared_memory
        queue = ctypes.create_string_buffer(b"{name}")
        show(posix=tried(shared_memory.SharedMemory, "{name}"), shm=err(29, 4711, 4096, 0o1666),
             sem=err(64, 4711, 1, 0o1666), msg=err(68, 4711, 0o1666), mq=err(240, queue, 0o102, 0o666, 0))
        """,
    )
    assert seen == {
        "posix": "ENOENT",
        "shm": "ENOSYS",
        "sem": "ENOSYS",
        "msg": "ENOSYS",
        "mq": "ENOSYS",
    }
    assert victim.result().json["exit_code"] == 0


def test_xs06_one_that_uses_up_its_limits_does_not_harm_another(target):
    greedy = Asking(
        target,
        "import os, threading\n"
        "def spin():\n"
        "    while True: pass\n"
        "for _ in range(20): threading.Thread(target=spin, daemon=True).start()\n"
        "try:\n"
        "    while True: os.fork()\n"
        "except OSError: pass\n"
        "spin()",
        timeout_seconds=4,
    )
    wait_for(lambda: target.load() == 1)
    for _ in range(3):
        begin = time.monotonic()
        r = target.execute(
            "import threading, tempfile\nt = threading.Thread(target=print, args=('fine',)); t.start(); t.join()"
        )
        assert (r["stdout"], r["exit_code"]) == ("fine\n", 0)
        assert time.monotonic() - begin < 4 * SLOW
    assert greedy.result().json["meta"]["verdict"] in ("timeout", "cpu_timeout")


def test_xs09_keyrings_are_not_there(target):
    seen = look(
        target,
        """
        kind, name, data = (ctypes.create_string_buffer(b) for b in (b"user", b"k", b"v"))
        show(add=err(248, kind, name, data, 1, -3), get=err(250, 0, -3, 1), read=err(250, 11, -4, data, 1),
             keys=text("/proc/keys"), users=text("/proc/key-users"))
        """,
    )
    assert seen == {"add": "EPERM", "get": "EPERM", "read": "EPERM", "keys": "", "users": ""}


def test_xs10_a_run_starts_from_nothing(target):
    """The same slot again: nothing of the run before, and another layout and other randomness."""
    code = textwrap.dedent("""
        import random
        maps = text("/proc/self/maps")
        stack = next(l for l in maps.split("\\n") if "[stack]" in l).split("-")[0]
        heap = next(l for l in maps.split("\\n") if "[heap]" in l).split("-")[0]
        left = sorted(os.listdir("/work") + os.listdir("/tmp") + os.listdir("/dev/shm"))
        fds = sorted(int(f) for f in os.listdir("/proc/self/fd"))[:-1]
        before = os.environ.get("LEFT"), os.getcwd(), os.umask(0)
        os.environ["LEFT"] = "x"; os.chdir("/tmp"); open("/tmp/left", "w"); open("/work/left", "w")
        show(stack=stack, heap=heap, urandom=os.urandom(16).hex(), seed=random.random(), left=left,
             before=before, fds=fds)
        """)
    seen = []
    for _ in range(8):
        r = target.execute(CALLS + code)
        seen.append(json.loads(r["stdout"]))
    for one in seen:
        assert one["left"] == ["output", "script.py"]
        assert one["before"] == [None, "/work", 0o22] and one["fds"] == [0, 1, 2]
    for what in ("stack", "heap", "urandom", "seed"):
        assert len({one[what] for one in seen}) == len(seen), what

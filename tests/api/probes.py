# SPDX-License-Identifier: GPL-2.0-only
"""Looking from outside, and programs that look from inside.

Outside: what a server holds (processes, descriptors, mounts, cgroups, files), taken before
and after; the command line; PATHs made of chosen runtimes. Inside: a python preamble with
raw system calls, for programs that print one JSON object.
"""

import json
import os
import pwd
import shutil
import subprocess
import tempfile
import textwrap
import threading
import time

from conftest import BINARY, SANITIZED, _children, _tree, wait_for

SLOW = 4 if SANITIZED else 1  # how much longer things may take

# ---- the command line


def clean_env(**more):
    env = {"PATH": os.environ["PATH"], "HOME": "/proc/nonexistent", "SANDBOX_CONFIG": ""}
    for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS", "LD_LIBRARY_PATH"):
        if name in os.environ:
            env[name] = os.environ[name]
    env.update(more)
    return {k: v for k, v in env.items() if v is not None}


def command(*args, stdin=b"", timeout=60, **env):
    """sandbox-server ARGS: its CompletedProcess, output as text."""
    if isinstance(stdin, str):
        stdin = stdin.encode()
    done = subprocess.run(
        [BINARY, *args],
        env=clean_env(**env),
        input=stdin,
        capture_output=True,
        timeout=timeout,
        check=False,
    )
    done.stdout = done.stdout.decode(errors="replace")
    done.stderr = done.stderr.decode(errors="replace")
    return done


def host_name(server):
    """The name a run sees: sandbox, or where nobody may change it and the server says so, ours."""
    layer = server.get("/isolation").json["layers"]["uts_namespace"]
    if not layer.get("reason", "").startswith("sethostname refused: "):
        return "sandbox"
    assert server.get("/health").json["isolation"]["level"] == "namespaces"
    change = "import socket; socket.sethostname('sandbox')"
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--uts", "/usr/bin/python3", "-c", change],
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert b"PermissionError" in done.stderr, "it can be changed here"
    return os.uname().nodename


# ---- what a server holds


def descriptors_of(pid):
    """Names of the descriptors a process has, those of anonymous things by kind."""
    found = []
    try:
        for fd in os.listdir(f"/proc/{pid}/fd"):
            try:
                found.append(os.readlink(f"/proc/{pid}/fd/{fd}").split(":")[0])
            except OSError:
                pass  # closed in between
    except OSError:
        pass
    return sorted(found)


def part(pid):
    """supervisor's child: "launcher", "egress" or "server"; None when it is gone."""
    try:
        with open(f"/proc/{pid}/comm", encoding="ascii") as f:
            if f.read() == "sandbox-egress\n":
                return "egress"
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            words = f.read().split(b"\0")
    except OSError:
        return None
    if len(words) < 2:
        return None
    return "launcher" if words[1] == b"launcher" else "server"


def launcher_pid(server):
    """The launcher of a running server; None while there is none."""
    for pid in _children(server.pid):
        if part(pid) == "launcher":
            return pid
    return None


def holdings(server):
    """Counts that must be the same after any number of runs."""
    launcher = launcher_pid(server)
    return {
        "processes": len(_tree(server.pid)),
        "supervisor's descriptors": len(descriptors_of(server.pid)),
        "server's descriptors": len(descriptors_of(server.server_pid)),
        "launcher's descriptors": len(descriptors_of(launcher)),
        "mounts": mount_count(),
        "cgroups": len(cgroups_of(server.pid)),
    }


def _some_are_missing(server):
    """Sandboxes that shall wait are still being made; for go none is, nor where none can be."""
    health = server.get("/health").json
    isolation, warm = health["isolation"], health.get("warm")
    if not warm or isolation["level"] not in ("namespaces", "full") or "memory_limit" in isolation["missing"]:
        return False
    return any(n < warm["wanted"] for mode, n in warm["ready"].items() if mode != "golang")


def at_rest(server, seconds=20):
    """holdings() when nothing is under way: the same for a while."""
    seen, end = [], time.monotonic() + 5
    while _some_are_missing(server) and time.monotonic() < end:
        time.sleep(0.03)  # not for ever: there may be no room for all

    def steady():
        seen.append(holdings(server))
        # who looks after layers at a start may take longer than that
        return len(seen) > 5 and all(h == seen[-1] for h in seen[-6:]) and not server.named("sandbox-layers")

    wait_for(steady, seconds, step=0.03)
    return seen[-1]


def settled(server, before, seconds=10):
    """Waits until everything is as it was; fails with the difference."""

    def difference():
        now = holdings(server)
        return {k: (before[k], now[k]) for k in before if before[k] != now[k]}

    try:
        wait_for(lambda: not difference(), seconds, step=0.05)
    except AssertionError:
        raise AssertionError(f"(before, now): {difference()}") from None


def mount_count():
    """Mounts that could be ours: others come and go on a machine that does other things."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as f:
        return sum(any(w in line for w in ("sandbox", "scratch", "/go-")) for line in f)


def cgroups_of(*owners):
    """Directories in the cgroup tree whose name carries one of these pids, and those below."""
    wanted = {str(p) for p in owners}
    found = set()
    for top, dirs, _ in os.walk("/sys/fs/cgroup"):
        for d in dirs:
            words = d.split(".")
            if words[0] == "sandbox-server" and len(words) > 2 and words[2] in wanted:
                found.add(os.path.join(top, d))
        if any(top == f or top.startswith(f + "/") for f in found):
            found.update(os.path.join(top, d) for d in dirs)
    return found


def processes_of_uids(first, last):
    """(pid, command line) of every living process with a uid in this range."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as f:
                status = dict(line.split(":", 1) for line in f if ":" in line)
            uids = [int(u) for u in status["Uid"].split()]
            if any(first <= u <= last for u in uids) and status["State"].split()[0] != "Z":
                with open(f"/proc/{pid}/cmdline", "rb") as f:
                    found.append((int(pid), f.read()))
        except (OSError, KeyError, ValueError):
            pass  # it ended in between
    return found


def status_of(pid):
    """/proc/PID/status as a dictionary of stripped texts."""
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as f:
        return {k: v.strip() for k, v in (line.split(":", 1) for line in f)}


# ---- requests side by side


class Asking:
    """A POST /execute under way: whatever its status, result() has the answer."""

    def __init__(self, server, code, **fields):
        self.reply = self.error = None
        self.thread = threading.Thread(target=self._ask, args=(server, code, fields), daemon=True)
        self.thread.start()

    def _ask(self, server, code, fields):
        try:
            self.reply = server.post("/execute", {"code": code, **fields})
        except BaseException as e:
            self.error = e

    def result(self, seconds=60):
        self.thread.join(seconds)
        assert not self.thread.is_alive(), f"no answer after {seconds} s"
        if self.error:
            raise self.error
        return self.reply


# ---- PATHs


def path_of(directory, *programs):
    """A directory with links to these programs of PATH, and nothing else, as a PATH."""
    os.makedirs(directory, exist_ok=True)
    for name in programs:
        os.symlink(real_program(name), os.path.join(directory, name))
    return directory


def real_program(name):
    """Where a program really is: shims of version managers asked, links followed."""
    found = shutil.which(name)
    assert found, f"{name} is not on PATH"
    if name == "python3":
        found = subprocess.run(
            [found, "-c", "import sys; print(sys.executable)"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
    if name == "go":
        root = subprocess.run([found, "env", "GOROOT"], capture_output=True, text=True, check=True)
        found = os.path.join(root.stdout.strip(), "bin/go")
    return os.path.realpath(found) if name != "python3" else found


def own_place(name="sandbox-runtime-"):
    """A new directory that a run can see at its own path: not /tmp, not below /work."""
    for top in ("/opt", "/srv", os.path.expanduser("~")):
        if os.access(top, os.W_OK | os.X_OK):
            place = tempfile.mkdtemp(prefix=name, dir=top)
            os.chmod(place, 0o755)
            return place
    raise AssertionError("no directory to put a runtime in")


def write_program(path, text):
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    os.chmod(path, 0o755)
    return path


# ---- as a plain user


def plain_user():
    """A uid that is not root, for servers started by root: nobody's."""
    return pwd.getpwnam("nobody")


def as_user(user, args, env, **more):
    """A process with that uid, no groups, no rights."""

    def become():
        os.setgroups([])
        os.setresgid(user.pw_gid, user.pw_gid, user.pw_gid)
        os.setresuid(user.pw_uid, user.pw_uid, user.pw_uid)

    return subprocess.Popen(args, env=env, preexec_fn=become, start_new_session=True, **more)


def binary_for_all():
    """The binary at a place that every user may enter."""
    place = tempfile.mkdtemp(prefix="sandbox-bin-")
    os.chmod(place, 0o755)
    copy = os.path.join(place, "sandbox-server")
    shutil.copy(BINARY, copy)
    os.chmod(copy, 0o755)
    return copy


# ---- from inside

CALLS = """
import ctypes, errno, json, os, sys
_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
def call(nr, *args):
    "the result, or minus errno"
    ctypes.set_errno(0)
    sent = [ctypes.c_ulong(a & (1 << 64) - 1) if isinstance(a, int) else a for a in args]
    r = _libc.syscall(ctypes.c_long(nr), *sent)
    return r if r != -1 else -ctypes.get_errno()
def err(nr, *args):
    "the name of the error, or ok"
    r = call(nr, *args)
    return errno.errorcode.get(-r, str(r)) if r < 0 else "ok"
def tried(what, *args, **named):
    "the name of the OSError of a python call, or ok"
    try:
        what(*args, **named)
        return "ok"
    except OSError as e:
        return errno.errorcode.get(e.errno, str(e.errno))
def opened(path, flags=os.O_RDONLY):
    try:
        os.close(os.open(path, flags))
        return "ok"
    except OSError as e:
        return errno.errorcode[e.errno]
def text(path):
    with open(path, errors="replace") as f:
        return f.read()
def forked(what):
    "what() in a child: its value as text, or 'signal N'"
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(r)
        try:
            os.write(w, str(what()).encode())
        finally:
            os._exit(0)
    os.close(w)
    with os.fdopen(r) as f:
        said = f.read()
    status = os.waitpid(pid, 0)[1]
    return f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else said
def show(**seen):
    print(json.dumps(seen))
"""


def look(server, code, **fields):
    """Runs CALLS and the code, which ends in show(...): what it saw."""
    fields.setdefault("language", "python")
    fields.setdefault("limits", {"max_output_kb": 1024})
    r = server.execute(CALLS + textwrap.dedent(code), **fields)
    assert r["exit_code"] == 0, (r["stdout"][-2000:], r["stderr"][-2000:], r["meta"])
    return json.loads(r["stdout"])

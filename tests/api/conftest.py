# SPDX-License-Identifier: GPL-2.0-only
"""Servers for tests: started on a free loopback port, and looked after when they end.

    def test_x(server):             the shared one: all runtimes found here, default settings
    def test_y(start):              a server of its own
        s = start(SANDBOX_MAX_CONCURRENT="2", mode="python")

A server that does not end with 0 on SIGTERM, or leaves a process, mount, cgroup or file
behind, fails the test that started it.
"""

import fcntl
import http.client
import json
import os
import re
import resource
import shutil
import signal
import stat
import subprocess
import tempfile
import threading
import time

import pytest

from raw import Raw, Reply, findable, get, post, wait_for  # noqa: F401, tests take them from here

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BINARY = os.environ.get("SANDBOX_SERVER", os.path.join(TOP, "build/test/sandbox-server"))
RUNTIMES = {"python": "python3", "golang": "go", "node": "node", "shell": "bash"}
CAP_SYS_PTRACE, CAP_SYS_ADMIN = 19, 21
START_SECONDS = 60
SEED_SECONDS = 600
STOP_SECONDS = 40


def open_to_all(path):
    """The way there, where it is closed to other users; what is open stays as it is."""
    while path != "/":
        mode = stat.S_IMODE(os.stat(path).st_mode)
        if not mode & stat.S_IXOTH:
            os.chmod(path, mode | 0o555)
        path = os.path.dirname(path)


def _sanitized():
    try:
        with open(BINARY, "rb") as f:
            return b"__asan_init" in f.read()
    except OSError:
        return False


SANITIZED = _sanitized()


def _root_without(capability):
    with open("/proc/self/status", encoding="ascii") as f:
        rights = int(re.search(r"CapEff:\s*(\w+)", f.read()).group(1), 16)
    return os.geteuid() == 0 and not rights >> capability & 1


LEAVES_ROOT = _root_without(CAP_SYS_ADMIN)  # a launcher then becomes somebody else
looks_into_others = pytest.mark.skipif(
    _root_without(CAP_SYS_PTRACE), reason="needs CAP_SYS_PTRACE, to look into processes of another uid"
)


def _go_state():
    """One compile cache for all servers of all runs, where a launcher can reach it."""
    here, at = os.environ.get("TESTS_GO_STATE", os.path.join(TOP, "build/go-state")), TOP
    while at != "/" and os.stat(at).st_mode & stat.S_IXOTH:
        at = os.path.dirname(at)
    if at == "/" or not LEAVES_ROOT:
        return here
    here = "/var/tmp/sandbox-go-state"
    os.makedirs(here, exist_ok=True)
    found = os.lstat(here)
    assert stat.S_ISDIR(found.st_mode) and found.st_uid == 0, here
    return here


GO_STATE = _go_state()


def _mounts():
    """Mounts that look like ours, as this process sees them."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as f:
        return set(line for line in f if "sandbox" in line)


def _cgroups():
    """Directories that look like ours, in every hierarchy."""
    found = set()
    for top, dirs, _ in os.walk("/sys/fs/cgroup"):
        if top.count("/") > 8:
            dirs[:] = []
        found.update(os.path.join(top, d) for d in dirs if "sandbox" in d)
    return found


def _children(pid):
    found = []
    try:
        for t in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{t}/children", encoding="ascii") as f:
                found.extend(int(c) for c in f.read().split())
    except OSError:
        pass  # it ended in between
    return found


def _tree(pid):
    """A process and everything below it."""
    found, todo = [], [pid]
    while todo:
        p = todo.pop()
        found.append(p)
        todo.extend(_children(p))
    return found


def _name(pid):
    """(pid, start time): the same process, not another one with its number."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as f:
            fields = f.read().rsplit(")", 1)[1].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else (pid, fields[19])


class Server:
    """A running server."""

    standard = subprocess.DEVNULL  # its input and output
    plain = False

    def __init__(self, env, args=(), mode=None, state_dir=None, ready=True, nofile=None):
        self.mounts_before = _mounts()
        self.cgroups_before = _cgroups()
        self.own_state = state_dir is None
        self.state_dir = state_dir or tempfile.mkdtemp(prefix="sandbox-state-")
        os.chmod(self.state_dir, 0o755)
        if self.own_state and os.path.isdir(f"{GO_STATE}/go-cache"):
            os.symlink(f"{GO_STATE}/go-cache", f"{self.state_dir}/go-cache")
        full = {
            "PATH": os.environ["PATH"],
            "HOME": os.environ.get("HOME", "/"),
            "SANDBOX_CONFIG": "",  # nothing of this host
            "SANDBOX_PORT": "0",
            "SANDBOX_STATE_DIR": self.state_dir,
        }
        for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "LD_LIBRARY_PATH", "LSAN_OPTIONS"):
            if name in os.environ:
                full[name] = os.environ[name]
        if "TESTS_WARM" in os.environ:
            full["SANDBOX_WARM"] = os.environ["TESTS_WARM"]
        if mode:
            full["SANDBOX_MODE"] = mode
        full.update(env)
        # a test that says how many wait counts them
        if "TESTS_FORK" in os.environ and not {"SANDBOX_WARM", "SANDBOX_WARM_FORK"} & set(env):
            if "python" in full.get("SANDBOX_MODE", "") and "--mode" not in args:
                full["SANDBOX_WARM_FORK"] = "on"
        if isinstance(nofile, int):
            nofile = (nofile, nofile)
        self.lines = []
        self.news = threading.Condition()
        self.stopped = False
        self.seen = set()
        self.found_pid = None
        env = {k: v for k, v in full.items() if v is not None}
        self.proc = subprocess.Popen(
            self.command_line(["serve", *args], env),
            env=env,
            stdin=self.standard,
            stdout=self.standard,
            stderr=subprocess.PIPE,
            start_new_session=True,
            preexec_fn=(
                (lambda: resource.setrlimit(resource.RLIMIT_NOFILE, nofile))
                if nofile
                else None
            ),
        )
        threading.Thread(target=self._follow, daemon=True).start()
        try:
            self.port = self._find_port()
            self.url = f"http://127.0.0.1:{self.port}"
            if ready:
                self.wait_ready()
        except BaseException:
            self.kill()
            raise

    def command_line(self, args, env):
        """What is started; another environment may put something before it."""
        return [BINARY, *args]

    # ---- the process

    @property
    def pid(self):
        return self.proc.pid

    @property
    def server_pid(self):
        """The process that holds the connections: neither the launcher nor the brokers' mother."""
        if not self.found_pid or not _name(self.found_pid):
            self.found_pid = self.pid
            for pid in _children(self.pid):
                with open(f"/proc/{pid}/comm", "rb") as f:
                    mother = f.read() == b"sandbox-egress\n"
                with open(f"/proc/{pid}/cmdline", "rb") as f:
                    if not mother and b"\0launcher" not in f.read():
                        self.found_pid = pid
        return self.found_pid

    def pids(self):
        """The server's processes, runs included; remembered for the end."""
        found = _tree(self.pid)
        self.seen.update(n for n in map(_name, found) if n)
        return found

    def named(self, begin):
        """Those of them whose name begins so; one that ends meanwhile is none."""
        found = []
        for pid in self.pids():
            try:
                with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as f:
                    found += [pid] if f.read().startswith(begin) else []
            except OSError:
                pass
        return found

    def _follow(self):
        for line in self.proc.stderr:
            with self.news:
                self.lines.append(line.decode(errors="replace").rstrip("\n"))
                self.news.notify_all()
        with self.news:
            self.lines.append(None)
            self.news.notify_all()

    def log(self):
        """What it has written so far."""
        with self.news:
            return "\n".join(line for line in self.lines if line is not None)

    def wait_log(self, pattern, seconds=10):
        """The first log line that matches, now or soon."""
        end = time.monotonic() + seconds
        with self.news:
            while True:
                for line in self.lines:
                    if line is not None and re.search(pattern, line):
                        return line
                left = end - time.monotonic()
                if left <= 0 or None in self.lines:
                    shown = "\n".join(x for x in self.lines if x is not None)
                    raise AssertionError(f"no {pattern!r} in the log:\n{shown}")
                self.news.wait(left)

    def _find_port(self):
        line = self.wait_log(r"server\.listening", START_SECONDS)
        return int(re.search(r'"?port"?[=:]"?(\d+)', line).group(1))

    def wait_ready(self, seconds=START_SECONDS):
        def ready():
            assert self.proc.poll() is None, f"it ended:\n{self.log()}"
            return self.get("/readyz").status == 200

        wait_for(ready, seconds, step=0.02)

    def stop(self, signo=signal.SIGTERM, status=0):
        """Ends it and looks at what it leaves; harmless the second time."""
        if self.stopped:
            return
        self.stopped = True
        self.pids()
        self.end(signo)
        try:
            code = self.proc.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"it did not end:\n{self.log()}") from None
        try:
            assert code == status, f"it ended with {code}:\n{self.log()}"
            self.check_nothing_left()
        finally:
            self._remove_state()

    def end(self, signo):
        self.proc.send_signal(signo)

    def kill(self):
        """kill -9 for it and its processes, without looking."""
        self.stopped = True
        for signo in (signal.SIGSTOP, signal.SIGKILL):  # so that none hears of another's end
            for pid in self.pids():
                try:
                    os.kill(pid, signo)
                except ProcessLookupError:
                    pass
        self.proc.wait(STOP_SECONDS)
        self._remove_state()

    def _remove_state(self):
        if self.own_state:
            shutil.rmtree(self.state_dir, ignore_errors=True)

    def check_processes_gone(self):
        def left():
            return [n for n in self.seen if _name(n[0]) == n]

        try:
            wait_for(lambda: not left(), 3)
        except AssertionError:
            raise AssertionError(f"processes left: {left()}\n{self.log()}") from None

    def check_nothing_left(self):
        self.check_processes_gone()
        more = _mounts() - self.mounts_before
        assert not more, f"mounts left: {more}"
        # other servers may run beside this one: names carry the pid of their owner
        mine = {str(n[0]) for n in self.seen}
        more = {c for c in _cgroups() - self.cgroups_before if mine & set(c.split("."))}
        assert not more, f"cgroups left: {more}"
        kept = {"format", "artifacts", "layers", "images", "sessions", "session-index", "go-cache", "stdio"}
        more = {f for f in os.listdir(self.state_dir) if f.split(".")[0] not in kept}
        assert not more, f"files left in the state directory: {more}"
        if self.own_state and os.path.isdir(f"{self.state_dir}/stdio"):
            assert os.listdir(f"{self.state_dir}/stdio") == []

    def rss_kb(self, pid=None):
        """Its memory; always 0 under a sanitizer, which keeps what was freed."""
        if SANITIZED:
            return 0
        with open(f"/proc/{pid or self.server_pid}/status", encoding="ascii") as f:
            return int(re.search(r"VmRSS:\s*(\d+)", f.read()).group(1))

    def cpu_seconds(self, pid=None):
        with open(f"/proc/{pid or self.server_pid}/stat", encoding="ascii") as f:
            fields = f.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def fds(self):
        """The server's descriptors: number to what it is. Not everybody may look."""
        where = f"/proc/{self.server_pid}/fd"
        found = {}
        try:
            for fd in os.listdir(where):
                try:
                    found[int(fd)] = os.readlink(f"{where}/{fd}")
                except FileNotFoundError:
                    pass  # closed in between
        except PermissionError:
            pytest.skip("needs CAP_SYS_PTRACE, to see the server's descriptors")
        return found

    # ---- requests

    def request(self, method, path, body=None, headers=None, timeout=120):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            c.request(method, path, body=body, headers=headers or {})
            r = c.getresponse()
            names = {k.lower(): v for k, v in r.getheaders()}
            return Reply(r.status, names, r.read())
        finally:
            c.close()

    def get(self, path, **headers):
        return self.request("GET", path, headers=headers)

    def post(self, path, value, headers=None, timeout=120):
        body = value if isinstance(value, (bytes, str)) else json.dumps(findable(value))
        if isinstance(body, str):
            body = body.encode()
        head = {"Content-Type": "application/json", **(headers or {})}
        return self.request("POST", path, body, head, timeout)

    def execute(self, code, **fields):
        """POST /execute; its answer must be 200, and is returned as an object."""
        r = self.post("/execute", {"code": code, **fields})
        assert r.status == 200, r
        return r.json

    def raw(self, data=b"", timeout=20):
        return Raw(self.port, data, timeout)

    def load(self):
        return self.get("/health").json["current_load"]

    def events(self, code, accept="text/event-stream", **fields):
        """The events of a streamed run: (name, data), as they come."""
        body = {"code": code, **fields}
        with self.raw(post(body, headers=[f"Accept: {accept}"])) as c:
            head = c.reply(head_only=True)
            assert head.status == 200, head
            text = b""
            sse = head.headers["content-type"].startswith("text/event-stream")
            end = b"\n\n" if sse else b"\n"
            for piece in c.chunks():
                text += piece
                while end in text:
                    one, text = text.split(end, 1)
                    if sse:
                        name, data = one.decode().split("\n", 1)
                        yield name[len("event: ") :], json.loads(data[len("data: ") :])
                    else:
                        value = json.loads(one)
                        yield value["event"], value["data"]


def found_modes():
    """The modes whose runtime is on PATH, the usual order."""
    return [m for m, program in RUNTIMES.items() if shutil.which(program)]


def pytest_collection_modifyitems(config, items):
    """Of the tests that a file takes from others, it names in LEFT_OUT those that cannot be there, and why."""
    gone = [i for i in items if i.name in getattr(i.module, "LEFT_OUT", ())]
    config.hook.pytest_deselected(items=gone)
    items[:] = [i for i in items if i not in gone]


def pytest_sessionstart(session):
    """The compile cache, filled once by a server: without it every go run takes long.

    No fixture: it may take longer than any test may, on a busy host.
    """
    if "golang" not in found_modes() or session.config.option.collectonly or _go_cache_is_filled():
        return
    os.makedirs(GO_STATE, exist_ok=True)
    with open(GO_STATE + ".lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # sessions run side by side: one of them does it
        if not _go_cache_is_filled():
            _fill_go_cache(session)


def _go_cache_is_filled():
    cache = f"{GO_STATE}/go-cache"
    return os.path.isdir(cache) and any(not d.endswith(".new") for d in os.listdir(cache))


def _fill_go_cache(session):
    with session.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print("\nfilling the compile cache of go, once ...", flush=True)
    s = Server({}, (), "golang", state_dir=GO_STATE)
    try:
        s.wait_log(r"seed\.(done|none)", SEED_SECONDS)
    finally:
        s.stop()


@pytest.fixture(scope="module")
def new_server():
    """Which servers the tests of a file have; test_sessions_plain.py has others."""
    return Server


@pytest.fixture
def start(new_server):
    """Makes servers that end with the test: start(mode="python", SANDBOX_QUEUE="1")."""
    running = []

    def one(*args, mode="python", state_dir=None, ready=True, nofile=None, **env):
        s = new_server(env, args, mode, state_dir, ready, nofile)
        running.append(s)
        return s

    yield one
    failures = []
    for s in reversed(running):
        try:
            s.stop()
        except AssertionError as e:
            failures.append(str(e))
    assert not failures, "\n".join(failures)


@pytest.fixture(scope="session")
def server():
    """One server for everything that leaves no trace: every runtime found, defaults."""
    s = Server({}, (), ",".join(found_modes()))
    yield s
    s.stop()


@pytest.fixture(params=["python", "golang", "node", "shell"])
def mode(request):
    """A test once for every mode."""
    if request.param not in found_modes():
        pytest.skip(f"{RUNTIMES[request.param]} is not on PATH")
    return request.param

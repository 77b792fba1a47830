# SPDX-License-Identifier: GPL-2.0-only
"""An isolation layer that goes away while serving: 503 until it is back, and nothing with less.

user.max_user_namespaces belongs to a user namespace: the servers here live in one of their own, so
that nobody else's are touched.
"""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import pytest

from conftest import LEAVES_ROOT, Server, _children, wait_for
from probes import Asking, binary_for_all, cgroups_of, clean_env, launcher_pid, part, plain_user

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to take layers away"),
    pytest.mark.skipif(LEAVES_ROOT, reason="needs CAP_SYS_ADMIN, to take layers away"),
]
BACK_SECONDS = 30
# a new launcher's canary that uses up its quota may not get to do so on a busy host: then that is
# missing until the next one looks
BUSY = ("cpu_limit",)

# becomes somebody, enters a user namespace, waits for its maps, and executes the rest
INTO_NAMESPACE = """
import ctypes, os, sys
uid = int(sys.argv[1])
os.setgroups([])
os.setresgid(uid, uid, uid)
os.setresuid(uid, uid, uid)
if ctypes.CDLL(None).prctl(4, 1, 0, 0, 0) or ctypes.CDLL(None).unshare(0x10000000):
    sys.exit(1)
os.write(1, b"x")
os.read(0, 1)
os.execv(sys.argv[2], sys.argv[2:])
"""

# who enters a namespace has all rights in it, until he executes something
SET_LIMIT = """
import ctypes, os, sys
if ctypes.CDLL(None).setns(os.open(f"/proc/{sys.argv[1]}/ns/user", os.O_RDONLY), 0):
    sys.exit(1)
with open(f"/proc/sys/user/{sys.argv[2]}", "w") as f:
    f.write(sys.argv[3])
"""


class Inside(Server):
    """A server in a user namespace of its own, whose limits are then ours to set."""

    def __init__(self, uid, count, **settings):
        self.copy = binary_for_all()
        self.state_dir = tempfile.mkdtemp(prefix="sandbox-state-")
        os.chmod(self.state_dir, 0o755)
        os.chown(self.state_dir, uid, uid)
        self.own_state, self.stopped, self.seen, self.found_pid = True, False, set(), None
        self.lines, self.news = [], threading.Condition()
        self.proc = subprocess.Popen(
            [sys.executable, "-c", INTO_NAMESPACE, str(uid), self.copy, "serve"],
            env=clean_env(
                SANDBOX_PORT="0",
                SANDBOX_STATE_DIR=self.state_dir,
                PATH="/usr/bin:/bin",
                **{"SANDBOX_MODE": "shell", **settings},
            ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        assert self.proc.stdout.read(1) == b"x"
        first = uid if count == 1 else 0
        for name in ("uid_map", "gid_map"):
            with open(f"/proc/{self.pid}/{name}", "w", encoding="ascii") as f:
                f.write(f"{first} {first} {count}")
        self.proc.stdin.write(b"x")
        self.proc.stdin.close()
        threading.Thread(target=self._follow, daemon=True).start()
        try:
            self.port = self._find_port()
            self.wait_ready()
        except BaseException:
            self.kill()
            raise

    def set_limit(self, name, value):
        """Of its user namespace, and so of everybody inside it."""
        subprocess.run(
            [sys.executable, "-c", SET_LIMIT, str(self.pid), name, str(value)], check=True
        )

    def kill(self):
        super().kill()
        self.proc.stdout.close()
        shutil.rmtree(os.path.dirname(self.copy), ignore_errors=True)


@pytest.fixture(params=["plain user", "root of a namespace"])
def inside(request):
    s = Inside(plain_user().pw_uid, 1) if request.param == "plain user" else Inside(0, 1000000)
    yield s
    s.kill()


def refused(server, layer):
    """The next request is refused, naming the layer; so do the probes."""
    r = server.post("/execute", {"code": "echo ran"})
    assert (r.status, r.json["code"]) == (503, "isolation_lost"), r
    assert layer in r.json["error"]
    ready = server.get("/readyz")
    assert (ready.status, ready.json["status"]) == (503, "isolation_lost")
    assert ready.json["layer"] == layer and ready.json["reason"]
    assert server.get("/healthz").status == 200
    for body in (server.get("/health").json["isolation"], server.get("/isolation").json):
        assert body["level"] == "none"
        assert body["lost"]["layer"] == layer and body["lost"]["reason"]
        assert body["lost"]["seconds"] >= 0
    assert server.get("/isolation").json["layers"][layer]["active"] is False
    server.wait_log(rf"isolation\.lost .*layer={layer}")


def back(server, *layers, level, code="echo ran"):
    """It works again, and says what was gone: one of these."""
    wait_for(lambda: server.get("/readyz").status == 200, BACK_SECONDS, step=0.05)
    r = server.execute(code)
    assert (r["stdout"], r["meta"]["isolation"]) == ("ran\n", level)
    isolation = server.get("/isolation").json
    assert isolation["level"] == level and "lost" not in isolation
    assert isolation["last_lost"]["layer"] in layers
    assert isolation["last_lost"]["restored_seconds_ago"] >= 0
    assert server.get("/health").json["isolation"]["last_lost"]["layer"] in layers
    server.wait_log(rf"isolation\.back .*layer=({'|'.join(layers)})")


def stays_refused(server, seconds):
    """Whoever asks in the meantime gets nothing with less."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        r = server.post("/execute", {"code": "echo ran"})
        assert (r.status, r.json["code"]) == (503, "isolation_lost"), r
        assert server.get("/readyz").status == 503
        time.sleep(0.02)


@pytest.mark.parametrize(
    "limit,layer",
    [
        ("max_user_namespaces", "user_namespace"),
        ("max_pid_namespaces", "pid_namespace"),
        ("max_cgroup_namespaces", "cgroup_namespace"),
    ],
)
def test_no_more_namespaces(inside, limit, layer):
    level = inside.execute("echo ran")["meta"]["isolation"]
    running = Asking(inside, "echo begun; sleep 2; echo ended")
    wait_for(lambda: inside.named("sleep"))  # born with everything
    inside.set_limit(limit, 0)
    refused(inside, layer)
    stays_refused(inside, 0.5)
    # what was born with everything goes on to its end, and says what it had
    done = running.result()
    assert done.json["stdout"] == "begun\nended\n"
    assert done.json["meta"]["isolation"] == level
    stays_refused(inside, 0.5)
    inside.set_limit(limit, 10000)
    back(inside, layer, level=level)


def test_what_waited_goes_with_the_layer():
    """Each was complete when it was made, and yet none is used."""
    s = Inside(0, 1000000)
    try:
        if "memory_limit" in s.get("/health").json["isolation"]["missing"]:
            pytest.skip("no sandbox waits here")
        level = s.execute("echo ran")["meta"]["isolation"]

        def waiting():
            return s.get("/health").json["warm"]["ready"]["shell"]

        wait_for(lambda: waiting() >= 2, BACK_SECONDS)
        s.set_limit("max_user_namespaces", 0)
        refused(s, "user_namespace")
        wait_for(lambda: waiting() == 0)
        stays_refused(s, 0.5)
        s.set_limit("max_user_namespaces", 10000)
        back(s, "user_namespace", level=level)
        wait_for(lambda: waiting() >= 2, BACK_SECONDS)
        assert s.execute("echo ran")["meta"]["usage"]["warm"]
    finally:
        s.kill()


@pytest.mark.parametrize("limit,layer", [("max_user_namespaces", "user_namespace"),
                                         ("max_uts_namespaces", "uts_namespace")])
def test_nothing_is_forked_without_the_layer(limit, layer):
    """An interpreter was complete when it was started, and its runs need no less than others."""
    s = Inside(0, 1000000, SANDBOX_MODE="python", SANDBOX_WARM_FORK="on", SANDBOX_WARM="0", SANDBOX_MAX_CONCURRENT="1")
    code = "print('ran')"
    try:
        if "memory_limit" in s.get("/health").json["isolation"]["missing"]:
            pytest.skip("nothing is forked here")

        def ready():
            return s.get("/health").json["warm"]["ready"]["python"] == 3

        wait_for(ready, BACK_SECONDS)
        r = s.execute(code)
        assert r["meta"]["usage"]["warm"], r
        s.set_limit(limit, 0)
        refused(s, layer)
        stays_refused(s, 0.5)
        s.set_limit(limit, 10000)
        back(s, layer, level=r["meta"]["isolation"], code=code)
        wait_for(ready, BACK_SECONDS)
        assert s.execute(code)["meta"]["usage"]["warm"]
    finally:
        s.kill()


def test_a_new_launcher_must_find_what_the_first_one_found(inside):
    level = inside.execute("echo ran")["meta"]["isolation"]
    inside.set_limit("max_user_namespaces", 0)
    os.kill(launcher_pid(inside), signal.SIGKILL)
    wait_for(lambda: inside.post("/execute", {"code": "x"}).json["code"] == "isolation_lost")
    refused(inside, "user_namespace")
    stays_refused(inside, 3)
    inside.set_limit("max_user_namespaces", 10000)
    back(inside, "user_namespace", *BUSY, level=level)


def test_a_new_launcher_does_not_make_do_with_less():
    """Without namespaces it could serve at level landlock, which the first one did not have to."""
    s = Inside(0, 1000000, SANDBOX_MIN_ISOLATION="landlock")
    try:
        level = s.execute("echo ran")["meta"]["isolation"]
        assert level in ("namespaces", "full")
        s.set_limit("max_user_namespaces", 0)
        os.kill(launcher_pid(s), signal.SIGKILL)
        wait_for(lambda: s.post("/execute", {"code": "x"}).json["code"] == "isolation_lost")
        stays_refused(s, 1.5)
        s.set_limit("max_user_namespaces", 10000)
        wait_for(lambda: s.get("/readyz").status == 200, BACK_SECONDS, step=0.05)
        assert s.execute("echo ran")["meta"]["isolation"] == level
    finally:
        s.kill()


# ---- the cgroup


class Away:
    """Removes the server's cgroup while none of its processes look, and makes it again."""

    def __init__(self, server):
        self.server = server
        self.dirs = [d for d in cgroups_of(server.pid) if f".{server.pid}." in os.path.basename(d)]
        assert self.dirs
        self.subtree = {}

    def workers(self):
        launcher = launcher_pid(self.server)
        return [p for p in _children(launcher)] if launcher else []

    def kill_workers(self):
        """Those that the launcher, which should be stopped, has not reaped just now."""
        for pid in self.workers():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def remove(self):
        self.kill_workers()
        for top in self.dirs:
            control = os.path.join(top, "cgroup.subtree_control")
            if os.path.exists(control):
                with open(control, encoding="ascii") as f:
                    self.subtree[top] = f.read().split()
            wait_for(lambda top=top: self._try_remove(top))

    @staticmethod
    def _try_remove(top):
        for where, dirs, _ in os.walk(top, topdown=False):
            for d in dirs:
                try:
                    os.rmdir(os.path.join(where, d))
                except OSError:
                    return False
        try:
            os.rmdir(top)
        except OSError:
            return False
        return True

    def put_back(self):
        for top in self.dirs:
            os.mkdir(top)
            for word in self.subtree.get(top, ()):
                with open(os.path.join(top, "cgroup.subtree_control"), "w", encoding="ascii") as f:
                    f.write("+" + word)


@pytest.fixture
def away(start):
    s = start(mode="shell")
    level = s.execute("echo ran")["meta"]["isolation"]
    if "memory_limit" in s.get("/health").json["isolation"]["missing"]:
        pytest.skip("there is no cgroup to be taken away")
    a = Away(s)
    a.level = level
    return a


def test_the_cgroup_is_gone(away):
    s = away.server
    launcher = launcher_pid(s)
    os.kill(launcher, signal.SIGSTOP)
    try:
        away.remove()
    finally:
        os.kill(launcher, signal.SIGCONT)
    refused(s, "memory_limit")
    stays_refused(s, 2)
    assert launcher_pid(s) == launcher
    away.put_back()
    back(s, "memory_limit", level=away.level)
    s.wait_log(r"isolation\.restored .*layer=memory_limit")
    assert launcher_pid(s) == launcher


def test_the_cgroup_is_gone_and_the_launcher_too(away):
    s = away.server
    os.kill(s.pid, signal.SIGSTOP)
    try:
        workers = away.workers()
        os.kill(launcher_pid(s), signal.SIGKILL)
        wait_for(lambda: not any(os.path.exists(f"/proc/{p}/exe") for p in workers))
        away.remove()
    finally:
        os.kill(s.pid, signal.SIGCONT)
    wait_for(lambda: s.post("/execute", {"code": "x"}).json["code"] == "isolation_lost")
    refused(s, "memory_limit")
    stays_refused(s, 3)
    away.put_back()
    back(s, "memory_limit", *BUSY, level=away.level)


class InMounts(Server):
    """A server in a mount namespace of its own."""

    def command_line(self, args, env):
        return ["unshare", "-m", *super().command_line(args, env)]

    def mount(self, *words, check=True):
        subprocess.run(["nsenter", "-m", "-t", str(self.pid), *words], check=check)


def test_the_cgroup_cannot_be_written_any_more():
    """What slots have open stays in force; none is made that could not be limited."""
    s = InMounts({"SANDBOX_WARM": "0"}, (), "shell")  # none is made behind our back
    level = s.execute("echo ran")["meta"]["isolation"]
    if "memory_limit" in s.get("/health").json["isolation"]["missing"]:
        s.stop()
        pytest.skip("there is no cgroup to be taken away")
    away = Away(s)
    try:
        for top in away.dirs:
            s.mount("mount", "--bind", top, top)
            s.mount("mount", "-o", "remount,bind,ro", top)
        hungry = "x=$(head -c 300000000 /dev/zero | tr '\\0' x); echo had it all"
        r = s.execute(hungry, limits={"memory_mb": 32})
        assert (r["meta"]["verdict"], r["meta"]["isolation"]) == ("out_of_memory", level), r
        launcher = launcher_pid(s)
        os.kill(launcher, signal.SIGSTOP)
        try:
            away.kill_workers()
        finally:
            os.kill(launcher, signal.SIGCONT)
        wait_for(lambda: s.get("/readyz").status == 503)
        refused(s, "memory_limit")
        assert "Read-only file system" in s.get("/isolation").json["lost"]["reason"]
        stays_refused(s, 1)
        for top in away.dirs:
            s.mount("umount", top)
        back(s, "memory_limit", level=level)
    finally:
        for top in away.dirs:
            s.mount("umount", "-q", top, check=False)  # when it failed before it was
        s.stop()


def test_what_is_asked_while_slots_cannot_be_made_does_not_wait(away):
    s = away.server
    launcher = launcher_pid(s)
    os.kill(launcher, signal.SIGSTOP)
    try:
        asking = [Asking(s, "echo ran") for _ in range(3)]
        away.remove()
        begin = time.monotonic()
    finally:
        os.kill(launcher, signal.SIGCONT)
    for a in asking:
        r = a.result()
        assert (r.status, r.json["code"]) in ((503, "isolation_lost"), (500, "sandbox_setup_failed"))
    assert time.monotonic() - begin < 5
    away.put_back()
    back(s, "memory_limit", level=away.level)


def test_retries_are_few(inside):
    inside.set_limit("max_user_namespaces", 0)
    refused(inside, "user_namespace")
    before = inside.cpu_seconds(launcher_pid(inside))
    stays_refused(inside, 5)
    assert inside.cpu_seconds(launcher_pid(inside)) - before < 0.5
    assert not re.search(r"isolation\.restored", inside.log())
    assert part(launcher_pid(inside)) == "launcher"

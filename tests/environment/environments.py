# SPDX-License-Identifier: GPL-2.0-only
"""The environments that the server must tell the truth in, and servers started there."""

import ctypes
import http.client
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, field

import containers
from conftest import TOP, Reply, Server, _children
from containers import (
    DOCKER_CAPS,
    docker_profile,
    mountless_profile,
    our_caps,
    podman_profile,
    shipped_profile,
)
from probes import part

PLAIN_UID = 31337  # nobody's
MAPPED = 200000  # the first host uid of containers with a user namespace
CLONE_NEWNET = 0x40000000

NAMESPACES = frozenset(
    f"{kind}_namespace" for kind in ("user", "mount", "pid", "network", "ipc", "uts", "cgroup")
)
NO_CGROUP = frozenset({"memory_limit", "cpu_limit"})
MASKED = NO_CGROUP | {"proc"}
SHARED = MASKED | NAMESPACES | {"root"}
# Cases of selftest that cannot be tried: the host's clock is nobody's to set, without a cgroup
# nothing bounds what the kernel keeps of names, what runs of one uid share is no quota of each, and
# where /proc cannot be mounted nothing in it can be looked at.
ALWAYS = frozenset({"PC13"})
ONE_UID = ALWAYS | {"RS15", "FS12"}
NO_PROC = ONE_UID | {"NS06", "NS07", "NS20", "PR10"}
NO_NAMESPACES = ONE_UID | {"NS06", "NS07", "NS20", "FS06"}
RESTRICTED = {"uid": 1000, "nnp": True, "read_only": True, "tmpfs": True}
IN_USER_NAMESPACE = {"caps": DOCKER_CAPS, "mapped": [(0, MAPPED, 65536)]}


@dataclass(frozen=True)
class Environment:
    """A row: where, the level it must give, and the layers it cannot give."""

    name: str
    level: str
    missing: frozenset
    container: dict = None  # how; None: on this host
    before: tuple = ()  # the command line that makes it, on this host
    owner: int = 0  # host uid of who starts the server
    state: bool = True  # a state directory that can be written
    calls: dict = field(default_factory=dict)  # what a program finds there without a sandbox
    untried: frozenset = ALWAYS  # cases of selftest that cannot be tried there
    heavy: bool = False  # cases that take long, or measure, are tried there too


def _as(uid):
    return ("setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups")


CAN = {"unshare": "ok", "clone3": "ok", "landlock": "ok", "listener": "ok"}
CANNOT = {**CAN, "unshare": "EPERM", "clone3": "ENOSYS"}
CHROOT = {"chroot": "ok", "mount": "EPERM"}
NO_RIGHTS = {"chroot": "EPERM", "mount": "EPERM", "capabilities": 0}

TABLE = [
    Environment("bare root", "full", frozenset(), calls={**CAN, "mount": "ok", "chroot": "ok"}),
    Environment(
        "below a listener",  # as a container runtime has one that watches calls
        "full",
        frozenset({"violations"}),
        before=("/usr/bin/python3", os.path.join(TOP, "tests/api/outer_listener.py")),
        calls={"unshare": "ok", "clone3": "ok", "landlock": "ok", "listener": "EBUSY"},
    ),
    Environment(
        "plain user",
        "namespaces",
        NO_CGROUP,
        before=_as(PLAIN_UID),
        owner=PLAIN_UID,
        calls={**CAN, **NO_RIGHTS},
        untried=ONE_UID,
    ),
    Environment(
        "docker's default",
        "landlock",
        SHARED,
        container={"caps": DOCKER_CAPS, "seccomp": docker_profile},
        calls={**CANNOT, **CHROOT},
        untried=NO_NAMESPACES,
        heavy=True,
    ),
    Environment(
        "restricted",
        "landlock",
        SHARED,
        container={**RESTRICTED, "seccomp": docker_profile},
        owner=1000,
        state=False,
        calls={**CANNOT, **NO_RIGHTS},
        untried=NO_NAMESPACES,
        heavy=True,
    ),
    Environment(
        "restricted, unconfined",
        "namespaces",
        MASKED,
        container=RESTRICTED,
        owner=1000,
        calls={**CAN, **NO_RIGHTS},
        untried=NO_PROC,
    ),
    Environment(
        "restricted, unconfined, /proc unmasked",
        "namespaces",
        NO_CGROUP,
        container={**RESTRICTED, "masked": False},
        owner=1000,
        calls={**CAN, **NO_RIGHTS},
        untried=ONE_UID,
    ),
    Environment(
        "as deploy/kubernetes/server-full has it, without a cgroup",
        "namespaces",
        NO_CGROUP,
        container={**RESTRICTED, "masked": False, "mapped": [(0, MAPPED, 65536)], "seccomp": shipped_profile},
        owner=MAPPED + 1000,
        calls={**CAN, **NO_RIGHTS},
        untried=ONE_UID,
    ),
    Environment(
        "podman's default",
        "namespaces",
        MASKED,
        container={"caps": DOCKER_CAPS, "seccomp": podman_profile},
        calls={**CAN, **CHROOT},
        untried=NO_PROC,
    ),
    Environment(
        "user namespace with a range",
        "namespaces",
        MASKED,
        container=IN_USER_NAMESPACE,
        owner=MAPPED,
        calls={**CAN, **CHROOT},
        untried=NO_PROC,
    ),
    Environment(
        "user namespace with a range, docker's default",
        "landlock",
        SHARED,
        container={**IN_USER_NAMESPACE, "seccomp": docker_profile},
        owner=MAPPED,
        calls={**CANNOT, **CHROOT},
        untried=NO_NAMESPACES,
    ),
    Environment(
        "user namespace with one uid",
        "namespaces",
        NO_CGROUP,
        before=(*_as(PLAIN_UID), "unshare", "-Ur"),
        owner=PLAIN_UID,
        calls=CAN,
        untried=ONE_UID,
    ),
    Environment(
        "unshare, but no mount",  # as AppArmor does it where it restricts user namespaces
        "landlock",
        SHARED,
        container={**RESTRICTED, "seccomp": mountless_profile},
        owner=1000,
        calls={**CAN, **NO_RIGHTS},
        untried=NO_NAMESPACES,
    ),
    Environment(
        "privileged",
        "full",
        frozenset(),
        container={"caps": our_caps(), "masked": False, "cgroups": True},
        calls={**CAN, "mount": "ok", "chroot": "ok"},
    ),
]


class Inside:
    """With this thread's new sockets in the network of another process."""

    def __init__(self, pid):
        self.pid = pid

    def __enter__(self):
        self.ours = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        theirs = os.open(f"/proc/{self.pid}/ns/net", os.O_RDONLY)
        self._enter(theirs)
        os.close(theirs)

    def __exit__(self, *_):
        self._enter(self.ours)
        os.close(self.ours)

    @staticmethod
    def _enter(fd):
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.setns(fd, CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "setns")


class Grounds:
    """What all environments share: the binary for everybody, the containers' root."""

    def __init__(self, binary):
        self.place = containers.Place(binary)
        self.binary = os.path.join(self.place.root, "opt/sandbox-server")
        self.running = set()

    def command_line(self, environment, args, env, state_dir=None, pid_file=None):
        """(container's name or None, the command that runs ARGS there)"""
        if environment.container is None:
            return None, [*environment.before, *args]
        name, line = self.place.run_line(
            containers.config(self.place, args, env, state_dir, **environment.container),
            pid_file,
        )
        self.running.add(name)
        return name, line

    def binary_in(self, environment):
        return self.binary if environment.container is None else "/opt/sandbox-server"

    def forget(self, name):
        self.running.discard(name)
        self.place.forget(name)

    def run(self, environment, args, timeout=60, **env):
        """A program there, from start to end; sandbox-server when args begin with an option
        or a subcommand."""
        if not args[0].startswith("/"):
            args = [self.binary_in(environment), *args]
        env = {"PATH": containers.PATH, "HOME": "/proc/nonexistent", **env}
        name, line = self.command_line(environment, args, env)
        try:
            return subprocess.run(
                line,
                env=env if name is None else None,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=timeout,
                check=False,
            )
        finally:
            if name:
                self.forget(name)

    def done(self):
        for name in list(self.running):
            self.forget(name)
        self.place.remove()


class There(Server):
    """A server in an environment; requests reach it in its own network."""

    def __init__(self, grounds, environment, env, args=()):
        self.grounds, self.environment, self.container = grounds, environment, None
        self.state = tempfile.mkdtemp(prefix="sandbox-state-")
        self.pid_file = self.state + ".pid"
        os.chown(self.state, environment.owner, environment.owner)
        self.first_pid = None
        env = {"PATH": containers.PATH, "HOME": "/proc/nonexistent", **env}
        try:
            super().__init__(env, args, "python,shell", state_dir=self.state)
        except BaseException:
            self.clear()
            raise

    def command_line(self, args, env):
        inside = dict(env)
        state_dir = self.state if self.environment.state else None
        if state_dir is None:
            del inside["SANDBOX_STATE_DIR"]
        elif self.environment.container is not None:
            inside["SANDBOX_STATE_DIR"] = "/state"
        self.container, line = self.grounds.command_line(
            self.environment,
            [self.grounds.binary_in(self.environment), *args],
            inside,
            state_dir,
            self.pid_file,
        )
        return line

    @property
    def supervisor(self):
        """The host's number of the process that was started as sandbox-server."""
        if self.first_pid is None:
            if self.container is None:
                self.first_pid = self.proc.pid
            else:
                with open(self.pid_file, encoding="ascii") as f:
                    self.first_pid = int(f.read())
        return self.first_pid

    def parts(self):
        """Host pids of supervisor, launcher and server, and of the brokers' mother."""
        found = {"supervisor": self.supervisor}
        for pid in _children(self.supervisor):
            name = part(pid)
            if name:  # else it ended meanwhile
                found[name] = pid
        return found

    def request(self, method, path, body=None, headers=None, timeout=60):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            with Inside(self.supervisor):
                c.connect()
            c.request(method, path, body=body, headers=headers or {})
            r = c.getresponse()
            names = {k.lower(): v for k, v in r.getheaders()}
            return Reply(r.status, names, r.read())
        finally:
            c.close()

    def clear(self):
        if self.container:
            self.grounds.forget(self.container)
        shutil.rmtree(self.state, ignore_errors=True)
        if os.path.exists(self.pid_file):
            os.unlink(self.pid_file)

    def stop(self, *args, **named):
        try:
            super().stop(*args, **named)
        finally:
            self.clear()

    def kill(self):
        super().kill()
        self.clear()

# SPDX-License-Identifier: GPL-2.0-only
"""Servers where no namespace can be made: tests/api/locked.py before them."""

import os
import pwd
import shutil
import sys
import tempfile

import pytest

from conftest import GO_STATE, RUNTIMES, Server, found_modes, wait_for
from probes import at_rest, binary_for_all, clean_env, settled

LOCKED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "locked.py")
PATH = "/usr/local/go/bin:/usr/bin:/bin"  # runtimes that every user may execute
KINDS = ("plain", "root")  # one uid for all; one for each slot


def nobody():
    return pwd.getpwnam("nobody").pw_uid


def flags(kind):
    """How locked.py makes it."""
    return {
        "plain": ["--uid", str(nobody())],
        "root": ["--drop"],
        "no landlock": ["--uid", str(nobody()), "--no-landlock"],
        "root without rights": ["--bare"],
    }[kind]


class Locked(Server):
    """A server as in a container; kind: who it is there."""

    def __init__(self, kind, mode="python,shell", least="landlock", state_dir=None, **env):
        self.kind = kind
        self.copy = binary_for_all()
        self.made = None if state_dir else tempfile.mkdtemp(prefix="sandbox-state-")
        if "root" not in kind:
            os.chown(state_dir or self.made, nobody(), nobody())
        if self.made and os.path.isdir(f"{GO_STATE}/go-cache"):
            os.symlink(f"{GO_STATE}/go-cache", f"{self.made}/go-cache")
        env = {"PATH": PATH, "HOME": "/proc/nonexistent", "SANDBOX_MIN_ISOLATION": least, **env}
        if kind == "root":
            # the kernel counts processes by uid, those of other servers on this machine too
            env.setdefault("SANDBOX_UID_BASE", str(3000000 + os.getpid() % 1000 * 300))
        super().__init__(env, (), mode, state_dir or self.made)

    def command_line(self, args, env):
        return [sys.executable, LOCKED, *flags(self.kind), self.copy, *args]

    def _remove_state(self):
        shutil.rmtree(os.path.dirname(self.copy), ignore_errors=True)
        if self.made:
            shutil.rmtree(self.made, ignore_errors=True)


def locked_command(kind, *args, **env):
    """sandbox-server ARGS there: (command line, environment, what to remove)."""
    copy = binary_for_all()
    env = clean_env(PATH=PATH, **env)
    return [sys.executable, LOCKED, *flags(kind), copy, *args], env, os.path.dirname(copy)


@pytest.fixture(scope="module", params=KINDS)
def server(request):
    modes = [m for m in found_modes() if shutil.which(RUNTIMES[m], path=PATH)]
    s = Locked(request.param, ",".join(modes))
    yield s
    s.stop()


@pytest.fixture
def quiet(server):
    """The same server; afterwards nothing of the test is left in it."""
    before = at_rest(server)
    yield server
    settled(server, before)
    wait_for(lambda: runs_of(server) == [], 20)


def runs_of(server):
    """Directories of runs that are there; slots of their own stay."""
    found = []
    for d in os.listdir(server.state_dir):
        if d.startswith("sandbox-runs."):
            top = os.path.join(server.state_dir, d)
            for slot in os.listdir(top):
                if slot != "canary":
                    found += os.listdir(os.path.join(top, slot))
    return found

# SPDX-License-Identifier: GPL-2.0-only
"""The server under attack, and what must hold after every attack.

Programs are sent as a client would send them. Whatever they do, the invariants of
invariants.py hold.
"""

import importlib.util
import os
import platform
import secrets
import sys

import pytest

API = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "api")
sys.path.insert(0, API)
_spec = importlib.util.spec_from_file_location("servers", os.path.join(API, "conftest.py"))
servers = importlib.util.module_from_spec(_spec)
sys.modules["servers"] = servers
_spec.loader.exec_module(servers)
# what the helpers of tests/api take from their conftest, they find here
globals().update({k: v for k, v in vars(servers).items() if not k.startswith("__")})

from invariants import CANARY, Invariants, Watched, no_secret_in  # noqa: E402, it takes from here what it needs


class Target(servers.Server):
    """A server whose secrets must not come back."""

    def request(self, *args, **named):
        reply = super().request(*args, **named)
        no_secret_in(reply.body + repr(reply.headers).encode())
        return reply

    def raw(self, data=b"", timeout=20):
        return Watched(self.port, data, timeout)


@pytest.fixture(scope="session")
def shared_target():
    if platform.machine() != "x86_64":
        pytest.skip("the programs use system call numbers of x86-64")
    canary = os.path.join(os.path.expanduser("~"), "sandbox-canary-" + secrets.token_hex(6))
    with open(canary, "w", encoding="ascii") as f:
        f.write(CANARY)
    os.chmod(canary, 0o644)
    s = Target({"CANARY": CANARY}, (), "python,shell")
    s.canary_file = canary
    s.execute("print(1)")
    yield s
    s.stop()
    os.unlink(canary)


@pytest.fixture(scope="session")
def invariants(shared_target):
    found = Invariants(shared_target)
    yield found
    found.on_time()


@pytest.fixture
def target(shared_target, invariants):
    """The server, looked at during the attack and after it."""
    s = shared_target
    invariants.begin()
    try:
        yield s
    finally:
        invariants.beside.end()
    invariants.end()
    r = s.execute("print(6*7)")
    assert (r["stdout"], r["exit_code"], r["meta"]["isolation"]) == ("42\n", 0, s.level)


@pytest.fixture(autouse=True, scope="session")
def _level(shared_target):
    shared_target.level = shared_target.get("/health").json["isolation"]["level"]

# SPDX-License-Identifier: GPL-2.0-only
"""What nobody has any more is removed while the server goes on; what somebody has by then stays."""

import concurrent.futures
import os

import pytest

from conftest import Server, wait_for
from test_12_failing_steps import hooked
from test_session_versions import checkpoint, diff, fork, restore
from test_sessions import Session, files_left

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="sessions need a server started as root"),
    hooked,
]


def gone(at):
    return [name for name in os.listdir(at) if name.startswith(".gone-")]


class Held:
    """
    A server one of whose processes stands still once: who removes, when it has asked for the names of all sessions
    and read none; or who compares, when it has opened what it reads.
    """

    def __init__(self, where="session_remove"):
        env = {"SANDBOX_SESSIONS": "on", "SANDBOX_WARM": "0", "SANDBOX_TEST_FAULT": where}
        self.server = Server(env, mode="shell")
        self.at = f"{self.server.state_dir}/sessions"
        wait_for(lambda: os.path.isdir(f"{self.at}/layers"))

    def hold(self):
        with open(f"{self.at}/.test-hold", "x", encoding="ascii"):
            pass

    def is_held(self):
        return wait_for(lambda: os.path.exists(f"{self.at}/.test-held"))

    def go_on(self):
        os.unlink(f"{self.at}/.test-held")
        wait_for(lambda: not gone(self.at), 30)


@pytest.fixture
def held():
    h = Held()
    yield h
    h.server.stop()


def two_with_the_same(server):
    one = Session(server)
    one.write("data", b"precious")
    a, b = fork(one, 2)
    one.close()
    wait_for(lambda: not gone(f"{server.state_dir}/sessions"), 30)
    return a, b


def test_who_is_forked_and_closed_meanwhile_leaves_its_files_to_its_fork(held):
    a, b = two_with_the_same(held.server)
    held.hold()
    a.close()
    held.is_held()
    (c,) = fork(b)
    b.close()
    held.go_on()
    assert c.read("data") == (200, b"precious")
    assert c.out("cat data") == "precious"
    c.close()
    wait_for(lambda: files_left(held.server) == [], 30)


def test_who_is_forked_and_restored_meanwhile_leaves_its_files_to_its_fork(held):
    one = Session(held.server)
    empty = checkpoint(one)
    one.write("data", b"precious")
    a, b = fork(one, 2)
    held.hold()
    a.close()
    held.is_held()
    (c,) = fork(one)
    restore(one, empty)
    b.close()
    held.go_on()
    assert c.read("data") == (200, b"precious")
    assert one.read("data")[0] == 404
    for each in (one, c):
        each.close()
    wait_for(lambda: files_left(held.server) == [], 30)


def test_what_is_new_stays_whatever_the_clock_says(held):
    a, b = two_with_the_same(held.server)
    held.hold()
    a.close()
    held.is_held()
    layers = f"{held.at}/layers"
    there = set(os.listdir(layers))
    new = Session(held.server)
    new.write("data", b"precious")
    made = set(os.listdir(layers)) - there
    assert made
    for name in made:
        os.utime(f"{layers}/{name}", (0, 0))  # as if the clock had been set back since
    held.go_on()
    assert new.read("data") == (200, b"precious")
    for each in (b, new):
        each.close()
    wait_for(lambda: files_left(held.server) == [], 30)


def test_what_is_compared_is_not_removed_meanwhile():
    held = Held("session_diff")
    try:
        one = Session(held.server)
        one.write("old", b"1")
        name = checkpoint(one)
        one.write("new", b"2")
        layers = len(os.listdir(f"{held.at}/layers"))
        held.hold()
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            asked = pool.submit(diff, one)
            held.is_held()
            restore(one, name)
            two = Session(held.server)
            two.close()  # who removes has been at what this one had, and so at what it was asked to remove before
            wait_for(lambda: len(gone(held.at)) == 1 and len(os.listdir(f"{held.at}/layers")) == layers + 1, 30)
            held.go_on()
            assert asked.result() == {"added": ["/work/new", "/work/old"], "modified": [], "deleted": []}
        wait_for(lambda: len(os.listdir(f"{held.at}/layers")) == layers, 30)
        assert diff(one)["added"] == ["/work/old"]
        one.close()
        wait_for(lambda: files_left(held.server) == [], 30)
    finally:
        held.server.stop()

# SPDX-License-Identifier: GPL-2.0-only
"""Must hold 11: after many runs, and after many kill -9, nothing is left."""

import concurrent.futures
import http.client
import os
import random
import signal
import tempfile
import threading
import time

from conftest import SANITIZED, Server, _name, _tree, wait_for
from probes import at_rest, cgroups_of, launcher_pid, mount_count, processes_of_uids, settled

RUNS = 200 if SANITIZED else 1000
KILLS = 40 if SANITIZED else 200
KILLS_OF_A_LIFE = 5  # the last one is the server's or the supervisor's
UID_BASE = 710000  # nobody else's, so that processes are found by it


def programs():
    """What runs a thousand times: ends of every kind."""
    return [
        ("true", 0),
        ("exit 3", 3),
        ("echo x >output/made", 0),
        ("(sleep 60 &) ; true", 0),
        ("kill -9 $$", 137),
        ("true | true", 0),
        ("mkfifo output/f; ln -s / output/l; true", 0),
    ]


def test_1000_runs_in_a_row_leave_nothing(start):
    s = start(mode="shell", SANDBOX_STORE_CODE="never")
    kinds = programs()
    for code, _ in kinds:  # whatever is made once is made now
        s.execute(code)
    before = at_rest(s)
    memory = s.rss_kb()

    def several(first):
        for i in range(first, RUNS, 3):
            code, status = kinds[i % len(kinds)]
            assert s.execute(code)["exit_code"] == status, code

    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        for done in [pool.submit(several, i) for i in range(3)]:
            done.result()
    assert s.load() == 0
    settled(s, before)
    assert s.rss_kb() - memory < 4096


class Lives:
    """Servers one after another, each killed in the end; remembers all it ever saw."""

    def __init__(self, state_dir):
        self.state_dir = state_dir
        self.rng = random.Random(11)
        self.seen = set()
        self.supervisors = []
        self.kills = 0
        self.answers = []
        self.server = None
        self.stop = threading.Event()

    def begin(self):
        env = {"SANDBOX_UID_BASE": str(UID_BASE)} if os.geteuid() == 0 else {}
        self.server = Server(env, (), "shell", state_dir=self.state_dir)
        self.supervisors.append(self.server.pid)
        assert self.server.server_pid != self.server.pid  # found now, while nothing is forked
        self.remember()
        return self.server

    def remember(self):
        self.seen.update(n for n in map(_name, _tree(self.server.pid)) if n)

    def left(self):
        return [n for n in self.seen if _name(n[0]) == n]

    def client(self):
        """Asks and asks; what it is answered does not matter, only that it is answered."""
        while not self.stop.is_set():
            server = self.server
            try:
                code = random.choice(["sleep 0.05", "sleep 60 & true", "cat /dev/zero"])
                body = {"code": code, "timeout_seconds": 1}
                self.answers.append(server.post("/execute", body, timeout=20).status)
            except (OSError, http.client.HTTPException):
                pass  # killed in the middle
            except Exception as e:
                self.answers.append(e)
            time.sleep(0.005)

    def kill(self, pid):
        self.remember()
        try:
            os.kill(pid, signal.SIGKILL)
            self.kills += 1
        except ProcessLookupError:
            pass

    def launchers(self, count):
        """Kills launchers as they come, at random moments of their life."""
        last, todo = None, count
        while todo:
            pid = wait_for(lambda: launcher_pid(self.server), 20, step=0.002)
            if pid == last:
                time.sleep(0.002)
                continue
            time.sleep(self.rng.uniform(0, 0.12))
            self.kill(pid)
            last, todo = pid, todo - 1

    def end(self):
        """Kills the server, or the supervisor: either way all of it must go."""
        server, whom = self.server, self.rng.choice(["server", "supervisor"])
        time.sleep(self.rng.uniform(0, 0.1))
        self.kill(server.server_pid if whom == "server" else server.pid)
        server.stopped = True
        code = server.proc.wait(20)
        assert code == (1 if whom == "server" else -signal.SIGKILL), (whom, code, server.log())
        wait_for(lambda: not self.left(), 10)


def test_200_kills_at_random_moments_leave_nothing_after_the_next_start():
    mounts = mount_count()
    with tempfile.TemporaryDirectory(prefix="sandbox-state-") as state_dir:
        lives = Lives(state_dir)
        clients = [threading.Thread(target=lives.client, daemon=True) for _ in range(3)]
        lives.begin()
        try:
            for c in clients:
                c.start()
            while lives.kills < KILLS:
                lives.launchers(KILLS_OF_A_LIFE - 1)
                lives.end()
                lives.begin()
            lives.stop.set()
            for c in clients:
                c.join(60)
            check_last_life(lives, mounts)
        finally:
            lives.stop.set()
            if not lives.server.stopped:
                lives.server.kill()


def check_last_life(lives, mounts):
    """The next start found whatever was left, and works."""
    last = lives.server
    assert lives.kills >= KILLS
    assert set(lives.answers) <= {200, 429, 500, 503} and 200 in lives.answers
    assert last.execute("echo fine")["stdout"] == "fine\n"
    now = at_rest(last)
    alive = {n[0] for n in map(_name, _tree(last.pid)) if n}
    assert {n[0] for n in lives.left()} <= alive
    if os.geteuid() == 0:
        ours = {pid for pid, _ in processes_of_uids(UID_BASE - 2, UID_BASE + 100)}
        assert ours and ours <= alive
    assert mount_count() == mounts
    assert cgroups_of(*lives.supervisors[:-1]) == set()
    assert set(os.listdir(lives.state_dir)) <= {"format", "artifacts", "images", "layers", "session-index", "sessions"}
    # as many descriptors as a server that was never near a kill
    last.stop()
    fresh = lives.begin()
    fresh.execute("echo fine")
    assert at_rest(fresh) == now
    fresh.stop()
    assert lives.left() == []
    assert cgroups_of(*lives.supervisors) == set()

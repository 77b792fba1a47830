# SPDX-License-Identifier: GPL-2.0-only
"""Each system call that a server's launcher, a worker and a run make for one request fails once.

The server goes on: after each fault it runs programs as before, and holds what it held before.
"""

import http.client
import json
import os
import re
import shutil
import tempfile
import time

import pytest
from inject import ALL, SECONDS, SLOW, Injected, check_layers, chosen, number_of, points_of, probe
from probes import cgroups_of
from raw import wait_for

ROLES = ("launcher", "worker", "child", "program", "collector")
DEADLINE = 20  # s for an answer: 3 for the run, 10 for its set-up


def descriptors(pid):
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return 0  # it ended in between


class Target:
    """A server under the injector."""

    def __init__(self, warm):
        self.warm = warm
        self.state = tempfile.mkdtemp(prefix="sandbox-faults-")
        os.chmod(self.state, 0o755)
        with open(os.path.join(self.state, "artifacts.txt"), "w", encoding="ascii") as f:
            f.write("none of a run's")
        os.chmod(f.name, 0o644)
        self.code = probe(f.name)
        self.it = Injected(
            ["serve", "--port", "0", "--mode", "shell", "--max-concurrent", "2", "--min-isolation", "full",
             "--store-code", "never", "--warm", str(warm), "--state-dir", self.state],
        )  # fmt: skip
        listening = wait_for(lambda: re.search(r"server\.listening.*port=(\d+)", self.it.output()), 30 * SLOW)
        self.port = int(listening[1])
        wait_for(lambda: self.ask("GET", "/readyz")[0] == 200, 30 * SLOW)

    def ask(self, method, path, body=None):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE * SLOW)
        try:
            c.request(method, path, body and json.dumps(body), {"Content-Type": "application/json"})
            r = c.getresponse()
            return r.status, json.loads(r.read() or b"{}")
        finally:
            c.close()

    def refilled(self, said):
        """The next one waits, or its making has failed, or there is nobody to make it."""
        status, health = self.ask("GET", "/health")
        more = self.it.output()[said:]
        return status != 200 or health["warm"]["ready"]["shell"] == self.warm or re.search(r"warm\.failed|lost", more)

    def probe(self):
        return self.ask("POST", "/execute", {"code": self.code, "timeout_seconds": 3, "files": {"a/b": "eA=="}})

    def pids(self):
        """Processes below the supervisor by what they are."""
        found, todo = {}, [self.it.main]
        while todo:
            pid = todo.pop()
            try:
                with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
                    todo += map(int, f.read().split())
                with open(f"/proc/{pid}/comm", encoding="utf-8") as f:
                    found.setdefault(f.read().strip(), []).append(pid)
            except OSError:
                pass  # it ended in between
        return found

    def holdings(self):
        """Processes, descriptors and cgroups: how many of each."""
        pids = self.pids()
        held = {name: len(found) for name, found in pids.items()}
        for name in ("sandbox-launch", "sandbox-worker"):
            # by their number: which slot has the sandbox that waits may change
            counts = sorted(map(descriptors, pids.get(name, [])))
            held.update((f"{name} {i} descriptors", n) for i, n in enumerate(counts))
        held["cgroups"] = len(cgroups_of(self.it.main))
        return held

    def at_rest(self):
        seen = []

        def steady():
            seen.append(self.holdings())
            return len(seen) > 4 and all(h == seen[-1] for h in seen[-5:])

        wait_for(steady, 20 * SLOW, step=0.03)
        return seen[-1]

    def settled(self, before, where):
        def difference():
            now = self.holdings()
            # one less is no leak: a slot that was made anew has not opened everything yet
            same = lambda k: now.get(k) == before.get(k) or ("desc" in k and now.get(k, 0) < before.get(k, 0))  # noqa
            return {k: (before.get(k), now.get(k)) for k in {*before, *now} if not same(k)}

        try:
            wait_for(lambda: not difference(), 15 * SLOW, step=0.03)
        except AssertionError:
            raise AssertionError(f"{where}: (before, now): {difference()}") from None

    def stop(self):
        os.kill(self.it.main, 15)
        said = self.it.lines(seconds=40)
        status = self.it.wait()
        shutil.rmtree(self.state)
        assert status == 0, self.it.output()[-2000:]
        assert not [line for line in said if line.startswith("left ")], said
        assert not cgroups_of(self.it.main)


def check_answer(status, body, where):
    """A run with everything, or an error that says so."""
    if status == 200 and check_layers(body["stdout"], where):
        assert body["meta"]["isolation"] == "full", f"{where}: {body}"
        return True
    # the program, which had its layers, may have been stopped on the way
    ended = status == 200 and body["exit_code"] != 0
    assert status in (500, 503) or ended, f"{where}: {status} {body}"
    return False


def one(target, before, point, error):
    where = f"{point} {error}"
    target.it.order(f"fail {point.role} {point.number} {number_of(error)}")
    start, said = time.monotonic(), len(target.it.output())
    status, body = target.probe()
    assert time.monotonic() - start < DEADLINE * SLOW, f"{where}: took too long"
    check_answer(status, body, where)
    if target.warm:
        wait_for(lambda: target.refilled(said), 15 * SLOW, step=0.005)
    hit = any(line.startswith("hit ") for line in target.it.order("quiet"))
    # a launcher or a slot may have to be made anew first
    wait_for(lambda: target.ask("GET", "/readyz")[0] == 200, 30 * SLOW)
    status, body = wait_for(lambda: [a for a in [target.probe()] if a[0] == 200], 30 * SLOW)[0]
    assert check_answer(status, body, f"after {where}"), f"after {where}: {body}"
    assert body["files_produced"].get("file"), f"after {where}: {body}"
    target.settled(before, where)
    return hit


@pytest.fixture
def servers():
    """A server that is at rest and what it holds; another one after something went wrong."""
    running = []

    def one_more(warm=0):
        if running:
            running.pop().it.proc.kill()  # and with it all that it traces
        running.append(Target(warm))
        running[0].probe()  # the first of everything is over
        return running[0], running[0].at_rest()

    yield one_more
    for target in running:
        target.stop()


def every_fault(servers, warm, share):
    """Each call of one request fails once, in the seconds that there are for it."""
    target, before = servers(warm)
    target.it.order("log")
    status, body = target.probe()
    assert check_answer(status, body, "without a fault"), body
    assert body["meta"]["usage"]["warm"] == bool(warm)
    target.settled(before, "without a fault")
    points = points_of(target.it.order("quiet"), ROLES)
    picked, must = chosen(points)
    tried, hit, wrong = 0, 0, []
    end = time.monotonic() + SECONDS * share
    for point, error in picked:
        if tried >= must and time.monotonic() > end:
            break
        tried += 1
        try:
            hit += one(target, before, point, error)
        except (AssertionError, OSError, http.client.HTTPException) as e:
            log = [line for line in target.it.output().split("\n") if " launcher " in line]
            wrong.append("\n".join([f"{point} {error}: {e!r}", *log[-8:]]))
            target, before = servers(warm)
    print(f"{len(points)} calls; {tried} of {len(picked)} faults tried, {hit} of them came about")
    assert not wrong, "\n\n".join(wrong)
    assert tried and hit >= tried * 0.8, f"only {hit} of {tried} faults came about"


@pytest.mark.timeout(0 if ALL else 120 * SLOW)
def test_no_call_for_a_request_that_fails_weakens_a_run_or_the_server(servers):
    every_fault(servers, 0, 0.22)


@pytest.mark.timeout(0 if ALL else 120 * SLOW)
def test_nor_one_for_a_sandbox_that_waited_or_for_the_next_one(servers):
    every_fault(servers, 1, 0.13)

# SPDX-License-Identifier: GPL-2.0-only
"""Our own attacks, started in every environment: what must hold at its level holds.

Each of them sees every case that is quick, two environments at a time. Those that take long or
measure are tried alone, with all others, once for each level and way to have uids: by tests/attack
as root (all layers, a uid for each run) and as a plain user (no cgroup, one uid for all), and here
without namespaces, with a uid for each run and with one for all.
"""

import glob
import itertools
import json
import os
import re
from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import TOP
from environments import TABLE
from test_layers import expected_level

PENDING = {"XS05", "IN01", "IN02", "IN04", "IN06", "IN08", "IN09", "IN10"}
HEAVY = {"SY01", "PC08", "PC14", "XS06", *(f"RS{n:02}" for n in (1, 2, 3, 4, 6, 11, 12, 14, 15))}
QUICK_PLACES = [e for e in TABLE if not e.heavy]
HEAVY_PLACES = [e for e in TABLE if e.heavy]
bases = itertools.count(700000, 1000)


def every_case():
    """The ids of the table in the binary."""
    found = set()
    for path in glob.glob(os.path.join(TOP, "src/attack/attack_*.c")):
        with open(path, encoding="utf-8") as f:
            found.update(re.findall(r'^\t\{"([A-Z]{2}\d\d)",', f.read(), re.M))
    return found


def as_list(cases):
    """As --case takes them: a group by its name when all of it is meant."""
    missing = {c[:2] for c in every_case() - cases}
    return ",".join(sorted({c if c[:2] in missing else c[:2] for c in cases}))


def attack(grounds, environment, cases):
    """What selftest says of these cases there."""
    env = {"SANDBOX_MIN_ISOLATION": "landlock"}
    # the kernel counts processes by uid: environments side by side are not to share theirs
    if environment.owner == 0:
        env["SANDBOX_UID_BASE"] = str(next(bases))
    if "TESTS_FORK" in os.environ:
        env["SANDBOX_WARM_FORK"] = "on"
    line = ["selftest", "--json", "--case", as_list(cases)]
    return grounds.run(environment, line, timeout=110, **env)


def check(done, environment, cases):
    """All of them were tried, but for those of the table, and every one of them held."""
    assert done.stdout, done
    said = json.loads(done.stdout)
    wrong = {c["id"]: c["observed"] for c in said["cases"] if c["status"] == "failed"}
    assert wrong == {}
    assert (done.returncode, said["ok"]) == (0, True), (said["beside"], done.stderr)
    assert said["level"] == said["level_wanted"] == expected_level(environment)
    by_status = {s: {} for s in ("ok", "skipped", "pending")}
    for c in said["cases"]:
        by_status[c["status"]][c["id"]] = c["observed"]
    assert set(by_status["skipped"]) == environment.untried & cases, by_status["skipped"]
    assert all(by_status["skipped"].values())
    assert set(by_status["pending"]) == PENDING & cases
    assert set(by_status["ok"]) == cases - environment.untried - PENDING
    return by_status["ok"]


@pytest.fixture(scope="session")
def attacks(grounds):
    """Environments under attack, two at a time: name to what comes of it."""
    quick = every_case() - HEAVY
    with ThreadPoolExecutor(2) as pool:
        under_way = {e.name: pool.submit(attack, grounds, e, quick) for e in QUICK_PLACES}
        yield {name: one.result() for name, one in under_way.items()}


def test_the_table_of_the_binary_is_known():
    every = every_case()
    assert len(every) == 99 and HEAVY | PENDING < every
    assert set().union(*(e.untried for e in TABLE)) < every


@pytest.mark.timeout(400)
@pytest.mark.parametrize("environment", QUICK_PLACES, ids=lambda e: e.name)
def test_every_attack_that_must_fail_fails(attacks, environment):
    check(attacks[environment.name], environment, every_case() - HEAVY)


@pytest.mark.parametrize("environment", HEAVY_PLACES, ids=lambda e: e.name)
def test_the_whole_battery_holds(attacks, grounds, environment):
    assert attacks  # which are over: nothing runs beside what measures
    held = check(attack(grounds, environment, every_case()), environment, every_case())
    # whose the sockets are that runs of one uid share, nobody can tell
    uncounted = "nobody counts what they hold" in held["RS03"]
    assert uncounted == (environment.name == "restricted"), held["RS03"]
    # nor keep their signals apart
    in_common = "signals, which all runs of this uid have in common" in held["XS09"]
    assert in_common == (environment.name == "restricted"), held["XS09"]


def test_more_than_there_is_cannot_be_asked_for(grounds, place):
    line = ["selftest", "--level", "full", "--case", "NS01"]
    done = grounds.run(place, line, SANDBOX_MIN_ISOLATION="landlock")
    assert (done.returncode == 0) == (expected_level(place) == "full"), done

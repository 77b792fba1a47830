# SPDX-License-Identifier: GPL-2.0-only
"""Our own attacks, started in every environment: what must hold at its level holds.

Those on what keeps a run in; what it may use up and how it ends is tried by tests/attack,
as is all of it for root of this host.
"""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from environments import TABLE
from test_layers import expected_level

APART = "NS,FS,PR,SY,NW,IL,XS01,XS02,XS03"
GROUPS = {"namespaces": APART + ",XS09", "landlock": APART}
MIN = {"SANDBOX_MIN_ISOLATION": "landlock"}
ATTACKED = [e for e in TABLE if e.level in GROUPS]


@pytest.fixture(scope="session")
def attacks(grounds):
    """All environments under attack, two at a time: name to what comes of it."""

    def attack(environment):
        line = ["selftest", "--json", "--case", GROUPS[environment.level]]
        return grounds.run(environment, line, timeout=110, **MIN)

    with ThreadPoolExecutor(2) as pool:
        yield {e.name: pool.submit(attack, e) for e in ATTACKED}


@pytest.mark.parametrize("environment", ATTACKED, ids=lambda e: e.name)
def test_every_attack_that_must_fail_fails(attacks, environment):
    done = attacks[environment.name].result()
    assert done.stdout, done
    said = json.loads(done.stdout)
    wrong = [c for c in said["cases"] if c["status"] == "failed"]
    assert (done.returncode, said["ok"], wrong) == (0, True, []), done
    assert said["level"] == said["level_wanted"] == expected_level(environment)
    assert said["all"]["ok"] == sum(c["status"] == "ok" for c in said["cases"]) > 30
    skipped = {c["id"]: c["observed"] for c in said["cases"] if c["status"] == "skipped"}
    assert all(skipped.values()), skipped


def test_what_one_uid_has_together_is_used_up_by_nobody_for_long(grounds):
    """Of processes the kernel has one count for all runs: who has too many is ended soon."""
    restricted = next(e for e in TABLE if e.name == "restricted")
    line = ["selftest", "--json", "--case", "RS01,RS03,RS15,XS06,XS09"]
    done = grounds.run(restricted, line, timeout=110, **MIN)
    cases = {c["id"]: c for c in json.loads(done.stdout)["cases"]}
    wrong = [c for c in cases.values() if c["status"] == "failed"]
    assert wrong == []
    assert {c["id"] for c in cases.values() if c["status"] == "skipped"} == {"RS15"}
    assert "nobody counts what they hold" in cases["RS03"]["observed"], cases["RS03"]


def test_more_than_there_is_cannot_be_asked_for(grounds, place):
    done = grounds.run(place, ["selftest", "--level", "full", "--case", "NS01"], **MIN)
    assert (done.returncode == 0) == (expected_level(place) == "full"), done

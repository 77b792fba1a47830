# SPDX-License-Identifier: GPL-2.0-only
"""No start with less than was asked for, and the reason in words."""

import json
import os
import re
import shutil

import pytest
from conftest import TOP
from containers import DOCKER_CAPS, docker_profile
from environments import RESTRICTED, TABLE, Environment, There
from test_layers import expected_level, expected_missing

LEVELS = ("process", "landlock", "namespaces", "full")
SERVE = ["serve", "--port", "0", "--mode", "shell"]


def above(level):
    return LEVELS[LEVELS.index(level) + 1]


def landlockless_profile(caps):
    """A runtime's default from before Landlock: the calls are not in its list."""
    profile = docker_profile(caps)
    for rule in profile["syscalls"]:
        rule["names"] = [n for n in rule["names"] if not n.startswith("landlock_")]
    profile["syscalls"] = [r for r in profile["syscalls"] if r["names"]]
    return profile


WITHOUT_LANDLOCK = [
    Environment(
        "docker's default without Landlock",
        "process",
        frozenset(),
        container={"caps": DOCKER_CAPS, "seccomp": landlockless_profile},
    ),
    Environment(
        "restricted without Landlock",
        "process",
        frozenset(),
        container={**RESTRICTED, "seccomp": landlockless_profile},
        owner=1000,
    ),
]


@pytest.fixture(params=WITHOUT_LANDLOCK, ids=lambda e: e.name)
def bare_place(request):
    return request.param


def test_dg02_more_than_there_is_is_refused_by_layer_and_fix(grounds, place):
    if expected_level(place) == "full":
        return
    least = above(expected_level(place))
    done = grounds.run(place, SERVE, SANDBOX_MIN_ISOLATION=least)
    assert done.returncode == 1, done
    assert re.search(rf"isolation level '\w+' is below the minimum '{least}': \w", done.stderr)
    missing = expected_missing(place)
    if least == "namespaces":
        missing = {"user_namespace"}
        if place.name != "unshare, but no mount":
            assert "user namespaces refused: Operation not permitted" in done.stderr
        assert "SANDBOX_MIN_ISOLATION=landlock" in done.stderr
    else:
        assert least == "full"
        for layer in missing:
            told = re.search(rf"^  {layer}: (.+)\n    fix: (.+)$", done.stderr, re.M)
            assert told, (layer, done.stderr)
    checked = grounds.run(place, ["check", "--json"], SANDBOX_MIN_ISOLATION=least)
    assert checked.returncode == 1
    said = json.loads(checked.stdout)
    assert said["level"] in LEVELS[: LEVELS.index(least)] + ("none",)
    assert not any(said["layers"][m]["active"] for m in missing)


@pytest.fixture(scope="session")
def policies(grounds):
    """Directories with policies that are wrong: name to what the message must say."""
    top = os.path.join(grounds.place.root, "opt/policies")
    cases = {
        "empty": ("base.json", lambda text: ""),
        "typo": ("base.json", lambda text: text.replace('"SCMP_ACT_ALLOW"', '"SCMP_ACT_ALOW"', 1)),
        "unknown": ("arguments.json", lambda text: text.replace('"names"', '"nams"', 1)),
        "call": (
            "network-none.json",
            lambda text: re.sub(r'("names":\s*\[)"', r'\1"no_such_call", "', text, count=1),
        ),
        "missing": ("init.json", None),
    }
    for name, (file, change) in cases.items():
        where = os.path.join(top, name)
        shutil.copytree(os.path.join(TOP, "policy"), where)
        path = os.path.join(where, file)
        if change is None:
            os.unlink(path)
            continue
        with open(path, encoding="utf-8") as f:
            text = f.read()
        assert change(text) != text
        with open(path, "w", encoding="utf-8") as f:
            f.write(change(text))
    return {name: file for name, (file, _) in cases.items()}, top


def test_dg04_a_wrong_policy_stops_the_start_and_is_named(grounds, place, policies):
    names, top = policies
    top = top if place.container is None else "/opt/policies"
    for name, file in names.items():
        where = os.path.join(top, name)
        done = grounds.run(
            place, SERVE, SANDBOX_POLICY_DIR=where, SANDBOX_MIN_ISOLATION="landlock"
        )
        assert done.returncode == 1, (name, done)
        assert file in done.stderr and "listening" not in done.stderr, (name, done.stderr)
    done = grounds.run(place, ["check"], SANDBOX_POLICY_DIR=os.path.join(top, "nowhere"))
    assert done.returncode == 1 and "nowhere" in done.stderr, done


def test_dg06_mounts_that_are_refused_are_found(grounds):
    """unshare works, what it is for does not: no level that needs it."""
    place = next(e for e in TABLE if e.name == "unshare, but no mount")
    done = grounds.run(place, SERVE, SANDBOX_MIN_ISOLATION="namespaces")
    assert done.returncode == 1, done
    assert "isolation level 'landlock' is below the minimum 'namespaces'" in done.stderr
    assert "slot_" in done.stderr and "Operation not permitted" in done.stderr


def test_without_landlock_the_level_landlock_is_refused(grounds, bare_place):
    done = grounds.run(bare_place, SERVE, SANDBOX_MIN_ISOLATION="landlock")
    assert done.returncode == 1, done
    assert "isolation level 'process' is below the minimum 'landlock'" in done.stderr
    assert re.search(r"^  landlock: (.+)\n    fix: (.+)$", done.stderr, re.M), done.stderr
    assert "SANDBOX_MIN_ISOLATION=process" in done.stderr


def test_dg08_process_is_stamped_on_every_answer_and_in_the_log(grounds, bare_place):
    there = There(grounds, bare_place, {"SANDBOX_MIN_ISOLATION": "process"})
    try:
        there.wait_log(r"\bwarn\b.*process", 5)
        assert there.get("/isolation").json["level"] == "process"
        assert there.get("/health").json["isolation"]["level"] == "process"
        for code in ("print(1)", "raise SystemExit(3)"):
            assert there.execute(code)["meta"]["isolation"] == "process"
        events = there.execute("import os; print(os.getuid())")
        assert events["stdout"].strip() != "0"
    finally:
        there.stop()


def test_process_by_name_does_not_lower_what_is_there(grounds, place):
    """Asking for little is not getting little."""
    done = grounds.run(place, ["check", "--json"], SANDBOX_MIN_ISOLATION="process")
    assert done.returncode == 0
    assert json.loads(done.stdout)["level"] == expected_level(place)

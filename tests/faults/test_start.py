# SPDX-License-Identifier: GPL-2.0-only
"""Each system call of the launcher's start, of a slot's worker and of its canaries fails once.

`run` does all of it: launcher, probe, slot, one program, and the way out.
"""

import os
import shutil
import sys
import tempfile
import time

import pytest
from inject import ALL, SECONDS, SLOW, Injected, check_layers, chosen, number_of, points_of, probe
from probes import cgroups_of
from shared import LOCKED

ROLES = ("starter", "launcher", "worker", "child", "program", "collector")
DEADLINE = 40  # s: 5 for the run; a launcher that says nothing is given up after 30
PLAIN_UID = 65534


@pytest.fixture
def script():
    where = tempfile.mkdtemp(prefix="sandbox-faults-")
    os.chmod(where, 0o777)
    path = os.path.join(where, "probe.sh")
    with open(path, "w", encoding="ascii") as f:
        f.write(probe(path))
    os.chmod(path, 0o644)
    yield path
    assert set(os.listdir(where)) <= {"probe.sh", "artifacts"}, "files are left"
    shutil.rmtree(where)


def run(script, orders, uid, level):
    command = ["run", "--mode", "shell", "--timeout", "5", "--min-isolation", level]
    command += ["--state-dir", os.path.dirname(script), script]
    # as in a container that allows no namespaces
    before = [sys.executable, LOCKED] if level == "landlock" else []
    return Injected(command, orders, uid, before, more=False)


# What a run at a level may lack, and what it may lack beyond that when the host says no while it is
# being found out what it allows: then the minimum decides.
LACKS = {"full": ((), ()), "namespaces": ((), ("proc", "landlock", "hostname")), "landlock": (("namespaces",), ())}


def one(script, point, error, uid, level):
    """1: the call was made, and failed; 0: it did not come to it."""
    where = f"{point} {error}"
    start = time.monotonic()
    it = run(script, [f"fail {point.role} {point.number} {number_of(error)}"], uid, level)
    try:
        said = it.lines(seconds=DEADLINE + 10)
    except AssertionError as e:
        raise AssertionError(f"{where}: {e}") from None
    status, text = it.wait(), it.output()
    assert time.monotonic() - start < DEADLINE * SLOW, f"{where}: took too long"
    always, refused = LACKS[level]
    ran = check_layers(text, where, always + refused if error == "EPERM" else always)
    assert ran or status != 0, f"{where}: nothing ran, and nobody said so: {text}"
    left = [line for line in said if line.startswith("left ")]
    assert not left, f"{where}: {left}: {text}"
    assert not cgroups_of(it.main), f"{where}: cgroups are left: {cgroups_of(it.main)}"
    return any(line.startswith("hit ") for line in said)


@pytest.mark.timeout(0 if ALL else 120 * SLOW)
@pytest.mark.parametrize(
    "uid, level, share",
    [(0, "full", 0.32), (PLAIN_UID, "namespaces", 0.14), (PLAIN_UID, "landlock", 0.14)],
    ids=["root", "user", "without namespaces"],
)
def test_no_call_of_the_start_that_fails_weakens_a_run(script, uid, level, share):
    it = run(script, ["log"], uid, level)
    points = points_of(it.lines(), ROLES)
    assert it.wait() == 0 and check_layers(it.output(), "without a fault", LACKS[level][0]), it.output()
    picked, must = chosen(points)
    tried, hit, wrong = 0, 0, []
    end = time.monotonic() + SECONDS * share
    for point, error in picked:
        if tried >= must and time.monotonic() > end:
            break
        tried += 1
        try:
            hit += one(script, point, error, uid, level)
        except AssertionError as e:
            wrong.append(str(e))
    print(f"{len(points)} calls; {tried} of {len(picked)} faults tried, {hit} of them came about")
    assert not wrong, "\n\n".join(wrong)
    assert tried and hit >= tried * 0.8, f"only {hit} of {tried} faults came about"

# SPDX-License-Identifier: GPL-2.0-only
"""Who runs are outside: never the host's root, in whatever user namespace the server is."""

import json
import os
import pwd

import pytest
from conftest import wait_for
from containers import DOCKER_CAPS
from environments import MAPPED, PLAIN_UID, Environment, There
from probes import Asking, status_of
from support import marked, new_mark

SLEEP = "import time; time.sleep(60)"


def mapped(*extents, **more):
    how = {"caps": [*DOCKER_CAPS, "SYS_ADMIN"], "mapped": extents, **more}
    return Environment("mapped", "", frozenset(), container=how, owner=extents[0][1])


def evidence(grounds, environment, *args):
    done = grounds.run(environment, ["check", "--json", *args])
    assert done.returncode == 0, done
    return json.loads(done.stdout)["layers"]["identity"]["evidence"]


def host_uids(there):
    """The uids and gids that a program has on this host."""
    mark = new_mark()
    asking = Asking(there, SLEEP, args=[mark], timeout_seconds=20)
    pid = wait_for(lambda: marked(mark), 10)[0]
    status = status_of(pid)
    os.kill(pid, 9)
    assert asking.result().status == 200
    return {int(i) for i in (status["Uid"] + " " + status["Gid"]).split()}


def test_runs_of_an_environment_have_no_uid_of_this_host(there, place):
    """Root gives each place its own; whoever cannot gives their own."""
    uids = host_uids(there)
    assert len(uids) == 1 and 0 not in uids
    uid = uids.pop()
    if place.owner in (PLAIN_UID, 1000, MAPPED + 1000):
        assert uid == place.owner
    else:
        assert place.owner <= uid < 1 << 32 and uid != place.owner
        with pytest.raises(KeyError):
            pwd.getpwuid(uid)


def test_two_runs_of_root_have_two_uids(grounds):
    where = mapped((0, MAPPED, 65536))
    there = There(grounds, where, {})
    try:
        marks = [new_mark(), new_mark()]
        asked = [Asking(there, SLEEP, args=[m], timeout_seconds=20) for m in marks]
        pids = [wait_for(lambda m=m: marked(m), 10)[0] for m in marks]
        uids = {int(status_of(p)["Uid"].split()[0]) for p in pids}
        for pid in pids:
            os.kill(pid, 9)
        for one in asked:
            assert one.result().status == 200
    finally:
        there.stop()
    assert len(uids) == 2
    assert all(MAPPED + 10000 <= u < MAPPED + 65534 for u in uids)


def test_a_range_that_is_there_is_used(grounds):
    assert "uid 1000 inside is 65277 outside" in evidence(grounds, mapped((0, MAPPED, 65536)))
    wide = mapped((0, MAPPED, 1000000))
    assert "uid 1000 inside is 600000 outside" in evidence(grounds, wide)
    assert "uid 1000 inside is 70000 outside" in evidence(grounds, wide, "--uid-base", "70000")
    two = mapped((0, MAPPED, 1), (100000, MAPPED + 1, 1000))
    assert "uid 1000 inside is 100743 outside" in evidence(grounds, two)


def test_a_uid_base_that_is_not_there_is_refused_with_one_that_is(grounds):
    done = grounds.run(mapped((0, MAPPED, 65536)), ["check", "--uid-base", "600000"])
    assert done.returncode == 1 and done.stdout == ""
    assert (
        "SANDBOX_UID_BASE=600000: uids and gids 599997 to 600256 are needed, but this user "
        "namespace has only uids 0-65535 and gids 0-65535; fix: set SANDBOX_UID_BASE=65277"
    ) in done.stderr
    done = grounds.run(mapped((0, MAPPED, 65536)), ["check", "--uid-base", "65277"])
    assert done.returncode == 0, done


def test_few_uids_are_used_as_a_plain_users(grounds):
    for extent in ((0, MAPPED, 1), (0, MAPPED, 100)):
        assert "is the one we were started with" in evidence(grounds, mapped(extent))


@pytest.mark.parametrize("extent", [(0, 0, 1), (0, 0, 200)])
def test_root_of_this_host_is_refused_where_it_has_no_other_uids(grounds, extent):
    for command in (["check"], ["serve", "--port", "0"], ["run", "--mode", "shell", "/etc/passwd"]):
        done = grounds.run(mapped(extent), command)
        assert done.returncode in (1, 125), done
        assert "uid 0 is the host's root, and this user namespace has no range" in done.stderr
        assert "fix: map 259 of them, or start as a plain user" in done.stderr


def test_root_of_this_host_keeps_its_range_in_a_user_namespace(grounds):
    where = mapped((0, 0, 65536))
    assert "uid 1000 inside is 65277 outside" in evidence(grounds, where)


def test_root_under_another_number_is_refused(grounds):
    """The user namespace calls it 1000, the host calls it 0."""
    before = ("unshare", "-U", "--map-user=1000", "--map-group=1000")
    done = grounds.run(Environment("renamed", "", frozenset(), before=before), ["check"])
    assert done.returncode == 1
    assert "uid 1000 is the host's root" in done.stderr


def test_a_plain_user_may_have_the_number_of_nobody(grounds):
    """Host root looks like 65534 too, where it is not mapped."""
    before = ("setpriv", "--reuid=31337", "--regid=31337", "--clear-groups")
    before += ("unshare", "-U", "--map-user=65534", "--map-group=65534")
    done = grounds.run(Environment("nobody", "", frozenset(), before=before), ["check"])
    assert done.returncode == 0, done

# SPDX-License-Identifier: GPL-2.0-only
"""The interpreter that runs are forked from: what it is given at its start is in every run."""

import os
import shutil

import pytest

from probes import own_place
from test_fork import _interpreters, _venv, forked
from test_warm import can_wait, wait_warm

SEES = (
    "import os, platform, socket\n"
    "seen = [platform.node(), socket.gethostname(), sorted(os.listdir('/proc'))]\n"
    "own = [os.path.isfile(os.readlink('/proc/self/exe')), 'python' in open('/proc/self/maps').read()]\n"
    "names = [os.readlink('/proc/self/ns/' + n) for n in ('uts', 'ipc', 'mnt')]\n"
)


def test_a_module_sees_nothing_of_the_host_when_it_is_imported(start):
    """What it keeps of that is in every run; uuid is one that does."""
    place = own_place()
    try:
        path = _venv(place, sees=SEES)
        s = start(SANDBOX_WARM_FORK="on", SANDBOX_WARM="0", SANDBOX_PRELOAD="uuid,sees", PATH=path,
                  SANDBOX_MAX_CONCURRENT="1")
        if not can_wait(s):
            pytest.skip("nothing waits here")
        code = (
            "import sys\nassert 'sees' in sys.modules\nimport os, platform, sees\n"
            "print(platform.node(), sees.seen, sees.own)\nprint(*sees.names)\n"
            "print(open('/proc/self/mountinfo').read())"
        )
        said, names, *mounts = forked(s, code)["stdout"].splitlines()
        assert said == "sandbox ['sandbox', 'sandbox', ['cpuinfo', 'meminfo', 'self', 'stat']] [True, True]"
        assert not set(names.split()) & {os.readlink("/proc/self/ns/" + n) for n in ("uts", "ipc", "mnt")}
        # it was there for the import alone
        assert not [line for line in mounts if "/proc/self" in line or "cpuinfo" in line], mounts
        wait_warm(s, "python", 3)
        assert [_children(pid) for pid in _interpreters(s)] == [[]] * 3
    finally:
        shutil.rmtree(place)


def _children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
        return f.read().split()

# SPDX-License-Identifier: GPL-2.0-only
"""The interpreter that runs are forked from: what it is given at its start is in every run."""

import fcntl
import glob
import os
import re
import shutil
import signal
import time

import pytest

from conftest import Server, wait_for
from probes import launcher_pid, own_place, write_program
from test_fork import _interpreters, _venv, forked
from test_warm import _weight, alive, can_wait, used, wait_warm


@pytest.fixture(name="place")
def a_place():
    path = own_place()
    yield path
    shutil.rmtree(path)


def site_of(place):
    (site,) = [d[0] for d in os.walk(place + "/venv/lib") if d[0].endswith("/site-packages")]
    return site


def start_from(start, place, preload, **modules):
    """A server whose three interpreters have imported these."""
    s = start(SANDBOX_WARM_FORK="on", SANDBOX_WARM="0", SANDBOX_PRELOAD=preload, PATH=_venv(place, **modules),
              SANDBOX_MAX_CONCURRENT="1")
    if not can_wait(s):
        pytest.skip("nothing waits here")
    wait_warm(s, "python", 3)
    return s


KNOBS = ["/proc/sys/crypto/fips_enabled", "/proc/sys/vm/overcommit_memory"]
SEES = (
    "import os, platform, socket\n"
    "seen = [platform.node(), socket.gethostname(), sorted(os.listdir('/proc'))]\n"
    "own = [os.path.isfile(os.readlink('/proc/self/exe')), 'python' in open('/proc/self/maps').read()]\n"
    "own += [str(os.getpid()) in seen[2], os.path.exists(f'/proc/{os.getpid()}/smaps')]\n"
    "own += [os.path.samefile(f'/proc/{os.getpid()}/exe', '/proc/self/exe')]\n"
    "seen[2].remove(str(os.getpid()))\n"
    "knobs = [d + '/' + name for d, _, found in os.walk('/proc/sys') for name in found]\n"
    "names = [os.readlink('/proc/self/ns/' + n) for n in ('uts', 'ipc', 'mnt')]\n"
)


def test_a_module_sees_nothing_of_the_host_when_it_is_imported(start, place):
    """What it keeps of that is in every run; uuid is one that does."""
    s = start_from(start, place, "uuid,sees", sees=SEES)
    code = (
        "import sys\nassert 'sees' in sys.modules\nimport os, platform, sees\n"
        "print(platform.node(), sees.seen, sees.own)\nprint(*sees.names)\nprint(*sorted(sees.knobs))\n"
        "print(open('/proc/self/mountinfo').read())"
    )
    said, names, knobs, *mounts = forked(s, code)["stdout"].splitlines()
    assert said == "sandbox ['sandbox', 'sandbox', ['cpuinfo', 'meminfo', 'self', 'stat', 'sys']] " + str([True] * 5)
    assert knobs.split() == [p for p in KNOBS if os.path.exists(p)]
    assert not set(names.split()) & {os.readlink("/proc/self/ns/" + n) for n in ("uts", "ipc", "mnt")}
    # it was there for the import alone
    assert not [line for line in mounts if "/proc/self" in line or "cpuinfo" in line or KNOBS[1] in line], mounts
    wait_warm(s, "python", 3)
    assert [_children(pid) for pid in _interpreters(s)] == [[]] * 3


def _children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
        return f.read().split()


def _slot(pid):
    with open(f"/proc/{pid}/cgroup", encoding="ascii") as f:
        return int(re.search(r"/slot-(\d+)", f.read())[1])


def _weight_of_next(server, before, slot):
    """While it starts."""
    for pid in set(_interpreters(server)) - set(before):
        if _slot(pid) == slot:
            return _weight(pid)
    return None


def test_one_is_replaced_with_time_that_nobody_wants_unless_none_is_left(start, place):
    s = start_from(start, place, "slow", slow="import time\ntime.sleep(2)\n")
    first = sorted(_interpreters(s), key=_slot)
    try:
        _weight(first[0])
    except OSError as e:
        pytest.skip(f"nobody sees the cgroups here: {e}")
    weights = []
    for pid in first:
        assert used(s.execute("print(1)"))  # the first that is free has it
        slot = _slot(pid)
        os.kill(pid, signal.SIGKILL)
        weights.append(wait_for(lambda n=slot: _weight_of_next(s, first, n), 5, step=0.01))
    assert max(weights[:2]) <= 2 and weights[2] >= 100, weights
    wait_warm(s, "python", 3)


ENDS = (
    "import os, signal\n"
    "if os.path.exists(os.path.dirname(__file__) + '/end'):\n    signal.setitimer(signal.ITIMER_REAL, 0.1)\n"
)


def test_one_that_ends_by_itself_is_replaced_less_and_less_often(start, place):
    s = start_from(start, place, "ends", ends=ENDS)
    write_program(site_of(place) + "/end", "")
    seen, until = set(_interpreters(s)), time.monotonic() + 5
    for pid in seen:
        os.kill(pid, signal.SIGKILL)
    while time.monotonic() < until:
        seen |= set(_interpreters(s))
        time.sleep(0.005)
    assert 6 <= len(seen) <= 3 + 3 * 8, len(seen)
    assert s.execute("print(1)")["stdout"] == "1\n" and s.wait_log("slot.failed .*step=fork_ended")
    os.unlink(site_of(place) + "/end")
    wait_warm(s, "python", 3)
    forked(s, "print(1)")


STAYS = (
    "import ctypes, os, time\n"
    "if os.path.exists(os.path.dirname(__file__) + '/stay'):\n"
    "    name = b'stays%d' % os.getpid()\n    child = os.fork()\n"
    "    if child == 0:\n"
    "        if os.fork(): os._exit(0)\n"
    "        ctypes.CDLL(None).prctl(15, name)\n"
    "    else: os.waitpid(child, 0)\n"
    "    time.sleep(600)\n"
)


def _that_stays(interpreters):
    """(an interpreter that imports, what it has forked and left)."""
    for path in glob.glob("/proc/[0-9]*/comm"):
        try:
            with open(path, encoding="utf-8", errors="replace") as f:
                name = f.read().strip()
        except OSError:
            continue
        for pid in interpreters:
            if name == f"stays{pid}":
                return pid, int(path.split("/")[2])
    return None


def test_who_keeps_the_cover_ends_with_its_interpreter_and_has_one_right(start, place):
    s = start_from(start, place, "ctypes,stays", stays=STAYS)
    write_program(site_of(place) + "/stay", "")
    os.kill(_interpreters(s)[0], signal.SIGKILL)
    pid, left = wait_for(lambda: _that_stays(_interpreters(s)), 20)
    wait_for(lambda: len(_children(pid)) == 1, 5)  # the one between is gone
    (keeper,) = _children(pid)
    with open(f"/proc/{keeper}/status", encoding="utf-8") as f:
        caps = dict(re.findall(r"^Cap(\w+):\t(\w+)$", f.read(), re.M))
    assert [int(caps[n], 16) for n in ("Inh", "Prm", "Eff", "Amb")] == [0, 1 << 21, 1 << 21, 0], caps
    launcher = launcher_pid(s)
    os.kill(launcher, signal.SIGSTOP)  # it ends all that is in the cgroup
    try:
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: not alive(keeper), 5)
        assert alive(left)
    finally:
        os.kill(launcher, signal.SIGCONT)
    os.unlink(site_of(place) + "/stay")


def memfds(pid):
    """(name, seals) of each that it has open."""
    for n in os.listdir(f"/proc/{pid}/fd"):
        name = os.readlink(f"/proc/{pid}/fd/{n}")
        if name.startswith("/memfd:"):
            with open(f"/proc/{pid}/fd/{n}", "rb") as f:
                yield name[7:].split(" ")[0], fcntl.fcntl(f, fcntl.F_GET_SEALS)


@pytest.mark.skipif(os.geteuid() != 0, reason="whose descriptors are shut is root's alone to open")
def test_what_all_interpreters_are_started_with_cannot_be_written(start, place):
    s = start_from(start, place, "decimal")
    theirs = [pair for pid in _interpreters(s) for pair in memfds(pid)]
    # the object that they have loaded is closed there
    found = theirs + [pair for pair in memfds(launcher_pid(s)) if pair[0] in ("ahead", "setup")]
    assert {name for name, _ in theirs} == {"setup", "start"} and "ahead" in dict(found), found
    sealed = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
    assert {seals & sealed for _, seals in found} == {sealed}, found


MAPS = (
    "import ctypes, os\n"
    "libc = ctypes.CDLL(None)\nlibc.mmap.restype = ctypes.c_void_p\n"
    "fd = os.open(__file__, os.O_RDONLY)\n"  # one that nothing can be written by
    "libc.mmap(None, ctypes.c_size_t(4096), 1, 1, fd, ctypes.c_long(0))\nos.close(fd)\n"
)


def test_a_file_that_is_mapped_to_be_read_is_no_shared_memory(start, place):
    """So the C library has its locales and its conversions."""
    s = start_from(start, place, "maps", maps=MAPS)
    assert "r--s" in forked(s, "print([line for line in open('/proc/self/maps') if 'maps.py' in line])")["stdout"]


LAYOUT = (
    "import ctypes, resource, threading\n"
    "libc = ctypes.CDLL(None)\n"
    "attr = (ctypes.c_char * 64)()\nsize = ctypes.c_size_t()\n"
    "libc.pthread_getattr_default_np(attr)\nlibc.pthread_attr_getstacksize(attr, ctypes.byref(size))\n"
    "print(size.value, resource.getrlimit(resource.RLIMIT_STACK))\n"
    "for line in open('/proc/self/maps'):\n"
    "    if '[stack]' in line or 'libc.so' in line: print(line.split('-')[0])\n"
    "print(open('/proc/self/personality').read().strip())\n"
)


class Odd(Server):
    """Started with addresses that do not change, and another limit of the stack, which decides about threads'."""

    def command_line(self, args, env):
        words = super().command_line(args, env)
        return ["/bin/sh", "-c", 'ulimit -Ss 2048 && exec setarch -R "$@"', "sh", *words]


def test_what_the_server_was_started_with_is_not_for_runs():
    seen = []
    for warm_fork in ("on", "off"):
        s = Odd({"SANDBOX_WARM_FORK": warm_fork, "SANDBOX_WARM": "0", "SANDBOX_MAX_CONCURRENT": "1"}, mode="python")
        try:
            if not can_wait(s):
                pytest.skip("nothing waits here")
            if warm_fork == "off":
                seen.append(s.execute(LAYOUT)["stdout"].splitlines())
                continue
            wait_warm(s, "python", 3)
            for _ in range(2):
                first = sorted(_interpreters(s), key=_slot)
                seen.append(forked(s, LAYOUT)["stdout"].splitlines())
                os.kill(first[0], signal.SIGKILL)
                wait_for(lambda: first[0] not in _interpreters(s), 10)  # pylint: disable=cell-var-from-loop
        finally:
            s.stop()
    (sizes, *at, kind), (other_sizes, *other_at, other_kind), (cold_sizes, *_, cold_kind) = seen
    assert sizes == other_sizes == cold_sizes and kind == other_kind == cold_kind, seen
    assert len(at) > 2 and not set(at) & set(other_at), seen

# SPDX-License-Identifier: GPL-2.0-only
"""What the server says of its isolation, against what is there.

Every layer is looked for twice without asking the server: by a program in a run, and from
outside, in what the kernel tells root of this host about that program.
"""

import json
import os
import re
import signal

import pytest
from conftest import cgroups_writable, wait_for
from environments import NO_CGROUP
from probes import CALLS, Asking, status_of
from support import marked, new_mark

KINDS = {"mount": "mnt", "network": "net"}  # where the layer's name is not /proc's
NAMES = ("user", "mount", "pid", "network", "ipc", "uts", "cgroup")
PIDS, MEMORY_MB = 12, 256
WAITS = 1 << (signal.SIGUSR1 - 1)  # caught by the program below when it has looked around

# Without a sandbox, to see that an environment is what its name says.
BARE = (
    CALLS
    + """
import struct
def clone3():
    args = ctypes.create_string_buffer(struct.pack("11Q", 0, 0, 0, 0, 17, *[0] * 6), 88)
    pid = call(435, args, 88)
    if pid == 0:
        os._exit(0)
    return errno.errorcode.get(-pid, pid) if pid < 0 else "ok"
def listener():
    program = struct.pack("HxxxxxxQ", 1, ctypes.addressof(allow))
    call(157, 38, 1, 0, 0, 0)
    return err(317, 1, 8, ctypes.create_string_buffer(program, 16))
allow = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0x7FFF0000), 8)
status = dict(line.split(":", 1) for line in text("/proc/self/status").splitlines())
show(unshare=forked(lambda: err(272, 0x10000000)),
     clone3=clone3(),
     mount=forked(lambda: err(272, 0x20000)),
     chroot=forked(lambda: err(161, b"/tmp")),
     landlock="ok" if call(444, 0, 0, 1) > 0 else "none",
     listener=forked(listener),
     capabilities=int(status["CapEff"], 16))
"""
)

# In a run: everything a program can find out by itself. Then it waits to be looked at.
INSIDE = (
    CALLS
    + """
import signal
def proc():
    try:
        names = os.listdir("/proc")
    except OSError as e:
        return errno.errorcode[e.errno]
    return [int(n) for n in names if n.isdigit()] if names else "empty"
def namespaces():
    found = {}
    for name in os.listdir("/proc/self/ns"):
        found[name] = os.readlink("/proc/self/ns/" + name)
    return found
seen = dict(
    uid=os.getresuid(), gid=os.getresgid(), groups=os.getgroups(), pid=os.getpid(),
    nnp=call(157, 39, 0, 0, 0, 0), bounding=[n for n in range(64) if call(157, 23, n) == 1],
    unshare=err(272, 0x10000000), inet=err(41, 2, 1, 0), unix=err(41, 1, 1, 0),
    shadow=opened("/etc/shadow"), secret=opened("/etc/canary"),
    write={d: opened(d + "/.x", os.O_WRONLY | os.O_CREAT) for d in ("/", "/usr", "/etc", "/dev")},
    proc=proc(), hostname=os.uname().nodename, parent=tried(os.kill, os.getppid(), 0),
    comm=opened("/proc/self/comm", os.O_WRONLY),
)
if isinstance(seen["proc"], list):
    seen["namespaces"] = namespaces()
print(json.dumps(seen), flush=True)
signal.signal(signal.SIGUSR1, lambda *_: os._exit(0))
while True:
    signal.pause()
"""
)


# How many children can be had at once, and what the next one got.
FORKS = (
    CALLS
    + """
import signal, time
pids = []
try:
    while len(pids) < 100:
        pid = os.fork()
        if pid == 0:
            signal.pause()
        pids.append(pid)
    time.sleep(2)
    print("all")
except OSError as e:
    if len(pids) >= int(sys.argv[1]):
        time.sleep(2)  # refused for another reason: the launcher has yet to look
    print(len(pids), errno.errorcode[e.errno])
for pid in pids:
    os.kill(pid, 9)
"""
)


class Found:
    """One run, seen from both sides."""

    def __init__(self, there):
        mark = new_mark()
        limits = {"pids": PIDS, "memory_mb": MEMORY_MB, "max_output_kb": 64}
        asking = Asking(there, INSIDE, args=[mark], limits=limits, timeout_seconds=30)
        pid = self._waiting(mark, asking)
        self.status = status_of(pid)
        self.shared = self._shared_namespaces(there.parts().values(), pid)
        self.limits = cgroup_limits(pid)
        os.kill(pid, signal.SIGUSR1)
        reply = asking.result()
        assert reply.status == 200, reply
        self.answer = reply.json
        assert self.answer["exit_code"] == 0, self.answer
        self.inside = json.loads(self.answer["stdout"])
        self.forks = there.execute(FORKS, args=[str(PIDS)], limits={"pids": PIDS})

    @staticmethod
    def _waiting(mark, asking):
        """The program's pid on this host, when it waits to be looked at."""

        def pids():
            assert asking.thread.is_alive(), asking.result()
            return [p for p in marked(mark) if catches(p)]

        return wait_for(pids, 20, step=0.02)[0]

    @staticmethod
    def _shared_namespaces(ours, pid):
        """Those that the program has in common with any process of the server."""

        def of(p, name):
            return os.readlink(f"/proc/{p}/ns/{KINDS.get(name, name)}")

        return {n for n in NAMES if of(pid, n) in {of(p, n) for p in ours}}

    def forks_bounded(self):
        """Refused at the limit or, where runs share a uid, ended for passing it."""
        said = self.forks["stdout"].split()
        if said[1:] == ["EAGAIN"]:
            return int(said[0]) < PIDS
        return self.forks["meta"].get("message") == f"process limit of {PIDS} exceeded"

    def layers(self):
        """Layer to whether it is there, from what was seen alone."""
        i, s = self.inside, self.status
        rights = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")
        found = {f"{n}_namespace": n not in self.shared for n in NAMES}
        found["root"] = i["shadow"] == "ENOENT" and set(i["write"].values()) == {"EROFS"}
        found["proc"] = isinstance(i["proc"], list) and len(i["proc"]) <= 3
        found["memory_limit"] = self.limits["memory"]
        found["cpu_limit"] = self.limits["cpu"]
        found["pids_limit"] = self.forks_bounded()
        found["identity"] = "0" not in s["Uid"].split() + s["Gid"].split() and not s["Groups"]
        found["capabilities"] = not any(int(s[r], 16) for r in rights) and not i["bounding"]
        found["no_new_privs"] = s["NoNewPrivs"] == "1" and i["nnp"] == 1
        found["seccomp"] = (s["Seccomp"], i["unshare"], i["inet"]) == ("2", "EPERM", "EAFNOSUPPORT")
        # nothing else refuses these: its own file, its own parent
        found["landlock"] = i["parent"] == "EPERM" and i["comm"] in ("EACCES", "ENOENT")
        found["violations"] = "socket" in self.told()
        return found

    def told(self):
        """The calls that the answer reports."""
        return {v["syscall"] for v in self.answer["meta"]["violations"] or []}


def catches(pid):
    """Does it wait for the signal?"""
    try:
        return int(status_of(pid)["SigCgt"], 16) & WAITS
    except OSError:
        return False  # one of its children, gone by now


def cgroup_limits(pid):
    """Does the kernel count this process's memory and CPU time against a limit of ours?"""
    limits = {"memory": False, "cpu": False}

    def number(path):
        try:
            with open(path, encoding="ascii") as f:
                first = f.read().split()[0]
            return int(first) if first not in ("max", "-1") else None
        except (OSError, IndexError):
            return None

    with open(f"/proc/{pid}/cgroup", encoding="utf-8") as f:
        lines = [line.rstrip("\n").split(":", 2) for line in f]
    for _, controllers, path in lines:
        if "sandbox-server." not in path:
            continue
        for c in controllers.split(","):
            if c == "memory":
                most = number(f"/sys/fs/cgroup/memory{path}/memory.limit_in_bytes")
                limits["memory"] = most is not None and most <= MEMORY_MB << 20
            elif c == "cpu":
                limits["cpu"] = number(f"/sys/fs/cgroup/cpu{path}/cpu.cfs_quota_us") is not None
            elif c == "":
                most = number(f"/sys/fs/cgroup{path}/memory.max")
                limits["memory"] |= most is not None and most <= MEMORY_MB << 20
                limits["cpu"] |= number(f"/sys/fs/cgroup{path}/cpu.max") is not None
    return limits


def _without_cgroups(place):
    """A host of the tests that has none to give: then nobody has."""
    return place.level == "full" and not cgroups_writable()


def expected_missing(place):
    return place.missing | NO_CGROUP if _without_cgroups(place) else place.missing


def expected_level(place):
    return "namespaces" if _without_cgroups(place) else place.level


@pytest.fixture(scope="module")
def found(there):
    return Found(there)


def test_the_environment_is_what_its_name_says(grounds, place):
    done = grounds.run(place, ["/usr/bin/python3", "-c", BARE])
    assert done.returncode == 0, done
    seen = json.loads(done.stdout)
    assert {k: seen[k] for k in place.calls} == place.calls


def test_the_level_and_what_is_missing_are_those_of_the_table(there, place):
    said = there.get("/isolation").json
    missing = {n for n, v in said["layers"].items() if v["requested"] and not v["active"]}
    assert (said["level"], missing) == (expected_level(place), expected_missing(place)), said


def test_dg01_each_layer_is_as_a_run_finds_it(there, found):
    said = there.get("/isolation").json["layers"]
    assert {n: v["active"] for n, v in said.items()} == found.layers(), (
        found.inside,
        found.status,
    )
    for name, layer in said.items():
        if layer["requested"]:
            assert layer["evidence"] or not layer["active"], name
            assert layer["active"] or layer["reason"], name
        if name.endswith("_namespace"):
            inside, outside = re.findall(r"\[(\d+)\]", layer["evidence"])
            assert (inside != outside) == layer["active"], layer


def test_check_and_health_and_answers_say_the_same(grounds, there, place, found):
    said = there.get("/isolation").json
    assert found.answer["meta"]["isolation"] == said["level"]
    health = there.get("/health").json["isolation"]
    assert health["level"] == said["level"]
    assert health["layers"] == {n: v["active"] for n, v in said["layers"].items()}
    done = grounds.run(place, ["check", "--json"], SANDBOX_MIN_ISOLATION="landlock")
    assert done.returncode == 0, done
    checked = json.loads(done.stdout)
    assert checked["level"] == said["level"]
    same = ("requested", "active", "reason", "fix")
    for name, layer in said["layers"].items():
        one = checked["layers"][name]
        assert {k: one.get(k) for k in same} == {k: layer.get(k) for k in same}, name


def test_refused_calls_are_reported_unless_the_container_refuses_them(there, place, found):
    """An errno of the outer filter beats our notification: then the layer says so."""
    layer = there.get("/isolation").json["layers"]["violations"]
    assert (found.answer["meta"]["violations"] is None) == (not layer["active"])
    if layer["active"]:
        assert ("unshare" in found.told()) == (place.calls["unshare"] == "ok")
        refused = "what the container's own filter refuses"
        assert (refused in layer.get("reason", "")) == (place.calls["unshare"] != "ok")


def test_namespaces_are_told_apart_inside_as_well(found):
    """Where a run has a /proc, it shows namespaces of its own."""
    if "namespaces" not in found.inside:
        return
    for name in NAMES:
        kind = KINDS.get(name, name)
        ours = os.readlink(f"/proc/self/ns/{kind}")
        assert (found.inside["namespaces"][kind] == ours) <= (name in found.shared)


def test_the_container_shows_nothing_to_a_run(found):
    assert found.inside["secret"] in ("ENOENT", "EACCES")
    assert found.inside["shadow"] in ("ENOENT", "EACCES")
    assert "ok" not in found.inside["write"].values()
    assert found.inside["uid"] == [found.inside["uid"][0]] * 3
    assert 0 not in found.inside["uid"] + found.inside["gid"]

# SPDX-License-Identifier: GPL-2.0-only
"""Runs under tests/helpers/inject.c, and what must hold for each of them.

FAULTS=all tries every call with every error, which takes hours; without it the first, the last and the
middle one of each kind of call are tried, with one error each, for as long as FAULT_SECONDS says; those
that make a layer come first, and the first of each kind of them is tried however long it takes.
"""

import atexit
import errno
import functools
import os
import platform
import queue
import re
import shutil
import subprocess
import threading
import time

import pytest
from conftest import LEAVES_ROOT
from probes import binary_for_all

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BINARY = os.environ.get("SANDBOX_SERVER", os.path.join(TOP, "build/test/sandbox-server"))
INJECT = os.path.join(os.path.dirname(BINARY), "inject")
ALL = os.environ.get("FAULTS") == "all"
SECONDS = float(os.environ.get("FAULT_SECONDS", "60"))
SLOW = 6 if os.environ.get("TESTS_SLOW") else 1
ERRORS = ("EPERM", "ENOMEM", "EIO")
NAMESPACES = ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup")

# A program that looks at every layer, and says all of it in one line or nothing. Everybody may read the
# file of that name, which is none of its own.
PROBE = r"""
exec 2>/dev/null
out=
while read -r key value; do
	case $key in Cap*|NoNewPrivs:|Seccomp:) out="$out $key$value" ;; esac
done </proc/self/status
for n in user mnt pid net ipc uts cgroup; do out="$out $n:$(readlink "/proc/self/ns/$n")"; done
for f in /x /usr/x /proc/self/comm; do
	if (: >"$f" && echo x >"$f"); then out="$out $f:written"; else out="$out $f:refused"; fi
done
if (: <OUTSIDE); then out="$out outside:read"; else out="$out outside:refused"; fi
if kill -0 "$PPID"; then out="$out parent:reached"; else out="$out parent:refused"; fi
said=$({ exec 3<>/dev/tcp/127.0.0.1/1; } 2>&1)
# by the rule, or by the kernel where nobody is left to answer
case $said in *family* | *"not implemented"*) out="$out socket:refused" ;; *) out="$out socket:made" ;; esac
case $(setpriv --dump) in *"no_new_privs: 1"*) out="$out privileges:kept" ;; esac
limits=$(ulimit -H -c -e -f -i -l -q -r -s -t -u)
IFS='
'
for line in $limits; do
	kind=${line%%)*} value=${line##* }
	case ${kind##*-} in [ftu]) [ "$value" = unlimited ] || value=set ;; esac
	out="$out limit-${kind##*-}:$value"
done
echo kept >output/file
echo "layers$out host:$HOSTNAME end"
"""
# of every level; limits in the units of ulimit: a core of 1 byte, 256 signals, 64 KiB locked
COMMON = {
    **{"/x": "refused", "/usr/x": "refused", "outside": "refused", "socket": "refused", "privileges": "kept"},
    "parent": "refused",  # by Landlock
    **{f"limit-{k}": v for k, v in zip("ceilqrstu", "0 0 256 64 0 0 8192 set set".split())},
}
WITH_NAMESPACES = {**COMMON, "host": "sandbox", "/proc/self/comm": "refused"}  # the last is Landlock's
LAYERS = {
    **WITH_NAMESPACES,
    **{f"Cap{s}": "0000000000000000" for s in ("Inh", "Prm", "Eff", "Bnd", "Amb")},
    **{"NoNewPrivs": "1", "Seccomp": "2"},
}
WITHOUT_NAMESPACES = {**COMMON, "limit-f": "set"}


def probe(outside):
    return PROBE.replace("OUTSIDE", outside)


def syscall_names():
    names = {}
    for header in ("x86_64-linux-gnu/asm/unistd_64.h", "asm/unistd_64.h"):
        try:
            with open(f"/usr/include/{header}", encoding="ascii") as f:
                names.update((int(m[2]), m[1]) for m in re.finditer(r"__NR_(\w+) (\d+)", f.read()))
        except OSError:
            pass
    return names


NAMES = syscall_names()
# those that a signal can end
SLEEPERS = {
    "read", "write", "openat", "openat2", "poll", "epoll_wait", "epoll_pwait", "wait4", "waitid", "recvmsg", "sendmsg",
    "fcntl", "getrandom", "close", "clone", "clone3", "mount", "connect", "accept4", "dup2", "dup3",
}  # fmt: skip


# those that make a layer, or give up a right, when a process that is to be confined makes them
CONFINING = {
    "clone", "clone3", "unshare", "mount", "umount2", "pivot_root", "chroot", "fchdir", "sethostname", "keyctl",
    "setsid", "prctl", "capset", "setgroups", "setresgid", "setresuid", "prlimit64", "setrlimit", "close_range",
    "landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self", "seccomp", "write",
}  # fmt: skip
CONFINED = ("worker", "child", "program", "collector")


def layers_of(text):
    """What the probe saw; None when it did not get that far."""
    found = re.search(r"^layers (.*) end$", text, re.M)
    return found and dict(word.split(":", 1) for word in found[1].split())


def check_layers(text, where, without=()):
    """Whoever ran, ran with everything. True: it ran.

    What a host that refuses may lack, and then says so: "proc" a /proc of its own, "landlock", a
    "hostname"; and "namespaces", all of them and the /proc.
    """
    layers = layers_of(text)
    if layers is None:
        assert "layers" not in text, f"{where}: half a line: {text[-300:]}"
        return False
    blind = "CapEff" not in layers and without
    wanted = WITHOUT_NAMESPACES if "namespaces" in without else WITH_NAMESPACES if blind else LAYERS
    lacking = {"landlock": ("/proc/self/comm", "parent"), "hostname": ("host",)}
    for name, value in wanted.items():
        if any(name in lacking.get(one, ()) for one in without):
            continue
        assert layers.get(name) == value, f"{where}: {name} is {layers.get(name)}: {text[-800:]}"
    for name in NAMESPACES if "namespaces" not in without else ():
        if blind:
            assert layers[name] == "", f"{where}: {layers}"
            continue
        host = os.readlink(f"/proc/self/ns/{name}")
        assert layers[name].startswith(f"{name}:["), f"{where}: {layers}"
        assert layers[name] != host, f"{where}: the host's own {name} namespace"
    return True


class Point:
    """A call of a role: the number'th one, which is a system call of that number."""

    def __init__(self, role, number, nr):
        self.role, self.number, self.nr = role, number, nr
        self.name = NAMES.get(nr, str(nr))
        self.kind = (re.sub(r"\d+$", "", role), self.name)
        self.confines = self.kind[0] in CONFINED and self.name in CONFINING

    def __repr__(self):
        return f"{self.role} {self.number} {self.name}"

    def errors(self):
        return [*ERRORS, *(["EINTR"] if self.name in SLEEPERS else [])]


def points_of(lines, roles):
    """Every call that was logged, in its order, the first process of a role first."""
    found = {}
    for line in lines:
        m = re.match(r"call (\w+) (\d+) (\d+)$", line)
        if m and re.sub(r"\d+$", "", m[1]) in roles:
            found.setdefault((m[1], int(m[2])), Point(m[1], int(m[2]), int(m[3])))
    return list(found.values())


def chosen(points):
    """[(point, error)] and how many of these must be tried: all, or those that say most, those first."""
    if ALL:
        every = [(p, e) for p in points for e in p.errors()]
        return every, len(every)
    kinds, picked = {}, []
    for p in points:
        kinds.setdefault(p.kind, []).append(p)
    for turn, place in enumerate((lambda k: 0, lambda k: len(k) - 1, lambda k: len(k) // 2)):
        for number, k in enumerate(kinds.values()):
            p, errors = k[place(k)], k[0].errors()
            if turn == 0 or p not in [q for q, _ in picked]:
                picked.append((p, errors[(number + turn) % len(errors)]))
    must = len({p.kind for p in points if p.confines})
    return sorted(picked, key=lambda one: not one[0].confines), must


@functools.cache
def copy_for_all():
    """The binary, for other users too, wherever the tree is."""
    copy = binary_for_all()
    atexit.register(shutil.rmtree, os.path.dirname(copy), ignore_errors=True)
    return copy


class Injected:
    """A command under the injector, which takes orders and says what happened."""

    def __init__(self, command, orders=(), uid=0, before=(), more=True):
        """more: orders will follow"""
        if platform.machine() != "x86_64":
            pytest.skip("faults are injected on x86-64 only")
        if os.geteuid() != 0:
            pytest.skip("the processes of a sandbox are traced by root only")
        if LEAVES_ROOT:
            pytest.skip("needs CAP_SYS_ADMIN, for level full")
        self.said = queue.Queue()
        self.text = []
        self.proc = subprocess.Popen(
            [*before, INJECT, *([] if more else ["-1"]), *(["-u", str(uid)] if uid else []), *orders,
             "--", copy_for_all() if uid else BINARY, *command],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={"PATH": os.environ["PATH"]}, start_new_session=True,
        )  # fmt: skip
        for stream, take in ((self.proc.stdout, self.said.put), (self.proc.stderr, self.text.append)):
            threading.Thread(target=self._follow, args=(stream, take), daemon=True).start()
        while True:
            line = self.next(20 * SLOW)
            if line.startswith("main "):
                self.main = int(line.split()[1])
                break

    @staticmethod
    def _follow(stream, take):
        for line in stream:
            take(line.decode(errors="replace").rstrip("\n"))
        take(None)

    def next(self, seconds):
        """The next line that it says; None at its end."""
        try:
            return self.said.get(timeout=seconds)
        except queue.Empty:
            self.proc.kill()
            raise AssertionError(f"nothing for {seconds} s; so far:\n{self.output()}") from None

    def lines(self, until=None, seconds=60):
        """What it says, up to its end or that line."""
        end, found = time.monotonic() + seconds * SLOW, []
        while True:
            line = self.next(max(end - time.monotonic(), 0.01))
            if line is None or line == until:
                return found
            found.append(line)

    def order(self, text):
        self.proc.stdin.write(f"{text}\n".encode())
        self.proc.stdin.flush()
        return self.lines("ready", 20)

    def output(self):
        return "\n".join(line for line in self.text if line is not None)

    def wait(self):
        """Its status, when all of its output is here."""
        status = self.proc.wait(20 * SLOW)
        end = time.monotonic() + 10
        while not self.text or self.text[-1] is not None:
            assert time.monotonic() < end
            time.sleep(0.005)
        self.proc.stdin.close()
        return status


def number_of(name):
    return getattr(errno, name)

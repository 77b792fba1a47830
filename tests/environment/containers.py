# SPDX-License-Identifier: GPL-2.0-only
"""Containers made by runc from a directory: no image, no registry, a start in a moment.

The root holds this host's /usr, read-only, a few files in /etc and the binary under test.
The seccomp profiles begin with the one of the package golang-github-containers-common; what
Docker and Kubernetes forbid beyond it is in the lists below.
"""

import itertools
import json
import os
import re
import shutil
import subprocess
import tempfile

PROFILE = "/usr/share/containers/seccomp.json"
LINKS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SECRET = "/etc/canary"  # everybody on the container may read it, a run must not

DOCKER_CAPS = (
    "AUDIT_WRITE CHOWN DAC_OVERRIDE FOWNER FSETID KILL MKNOD NET_BIND_SERVICE NET_RAW SETFCAP "
    "SETGID SETPCAP SETUID SYS_CHROOT"
).split()

MASKED = [
    "/proc/acpi",
    "/proc/asound",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/scsi",
    "/proc/sched_debug",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys/firmware",
]
READ_ONLY = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"]

# What Docker's profile allows to who has the capability, and to nobody.
BY_CAPABILITY = {
    "SYS_ADMIN": "bpf clone3 fanotify_init fsconfig fsmount fsopen fspick lookup_dcookie mount "
    "mount_setattr move_mount open_tree perf_event_open quotactl quotactl_fd setdomainname "
    "sethostname setns syslog umount umount2 unshare",
    "SYS_CHROOT": "chroot",
    "SYS_NICE": "get_mempolicy mbind set_mempolicy set_mempolicy_home_node",
    "SYS_PTRACE": "kcmp pidfd_getfd process_madvise",
}
NOBODY = (
    "add_key io_pgetevents io_uring_enter io_uring_register io_uring_setup keyctl move_pages "
    "nfsservctl pivot_root request_key userfaultfd vmsplice"
)
NAMESPACE_FLAGS = 0x7E020000  # every CLONE_NEW... of clone(2)
EPERM, ENOSYS = 1, 38


def need_profile():
    """Why there is no profile to begin with, or None."""
    return None if os.path.exists(PROFILE) else f"no {PROFILE}"


def _fits(rule, caps):
    has = {"CAP_" + c for c in caps}
    only, never = rule.get("includes") or {}, rule.get("excludes") or {}
    if not set(only.get("caps") or []) <= has or set(never.get("caps") or []) & has:
        return False
    return not only.get("arches") or "amd64" in only["arches"]


def podman_profile(caps):
    """As podman gives it to a container with these capabilities: namespaces can be made."""
    with open(PROFILE, encoding="utf-8") as f:
        whole = json.load(f)
    rules = []
    for rule in whole["syscalls"]:
        if _fits(rule, caps):
            kept = {k: rule[k] for k in ("names", "action", "errnoRet") if rule.get(k) is not None}
            rules.append({**kept, "args": rule.get("args") or []})
    return {
        "defaultAction": whole["defaultAction"],
        "defaultErrnoRet": whole.get("defaultErrnoRet", EPERM),
        "architectures": ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"],
        "syscalls": rules,
    }


def docker_profile(caps):
    """As Docker and containerd (RuntimeDefault) do it: no namespaces, clone3 not there."""
    profile = podman_profile(caps)
    gone = set(NOBODY.split()) | {"socket", "clone", "clone3"}
    for cap, names in BY_CAPABILITY.items():
        if cap not in caps:
            gone.update(names.split())
    rules = []
    for rule in profile["syscalls"]:
        names = [n for n in rule["names"] if n not in gone]
        if names and rule["action"] == "SCMP_ACT_ALLOW":
            rules.append({**rule, "names": names})

    def allow(name, index, op, value, second=0):
        arg = {"index": index, "op": "SCMP_CMP_" + op, "value": value, "valueTwo": second}
        rules.append({"names": [name], "action": "SCMP_ACT_ALLOW", "args": [arg]})

    allow("clone", 0, "MASKED_EQ", NAMESPACE_FLAGS)
    rules.append({"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": ENOSYS})
    for op, family in (("LT", 38), ("EQ", 39), ("GT", 40)):  # AF_ALG and AF_VSOCK left out
        allow("socket", 0, op, family)
    return {**profile, "defaultErrnoRet": EPERM, "syscalls": rules}


def mountless_profile(caps):
    """Namespaces can be made, but nothing can be mounted in them."""
    del caps
    names = "mount umount umount2 pivot_root fsopen fsmount fspick open_tree move_mount mount_setattr"
    rule = {"names": names.split(), "action": "SCMP_ACT_ERRNO", "errnoRet": EPERM}
    return {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [rule]}


def shipped_profile(caps):
    """The one that deploy/kubernetes has for nodes."""
    del caps
    here = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    with open(os.path.join(here, "deploy/kubernetes/seccomp/sandbox-server.json"), encoding="utf-8") as f:
        return json.load(f)


def our_caps():
    """What root has here; a container cannot have more."""
    with open("/usr/include/linux/capability.h", encoding="ascii") as f:
        names = re.findall(r"^#define CAP_([A-Z_]+)\s+(\d+)$", f.read(), re.M)
    with open("/proc/self/status", encoding="ascii") as f:
        mine = int(re.search(r"CapBnd:\s*(\w+)", f.read()).group(1), 16)
    return [name for name, bit in names if mine >> int(bit) & 1]


class Place:
    """A root for containers, and runc's own state; made once."""

    def __init__(self, binary):
        self.top = tempfile.mkdtemp(prefix="environment-")
        os.chmod(self.top, 0o755)
        self.root = os.path.join(self.top, "root")
        self.numbers = itertools.count(1)
        self.binds = ["/usr"]
        for name in ("proc", "dev", "sys", "tmp", "usr", "etc", "opt", "state", "var", "run"):
            os.makedirs(os.path.join(self.root, name), mode=0o755)
        for name in LINKS:
            if os.path.islink("/" + name):
                os.symlink(os.readlink("/" + name), os.path.join(self.root, name))
            elif os.path.isdir("/" + name):
                os.mkdir(os.path.join(self.root, name))
                self.binds.append("/" + name)
        os.chmod(os.path.join(self.root, "tmp"), 0o1777)
        shutil.copy(binary, os.path.join(self.root, "opt/sandbox-server"))
        # a build of `make cover` counts in files beside it
        self.counters = os.path.join(os.path.dirname(os.path.abspath(binary)), "profile")
        if os.path.isdir(self.counters):
            os.makedirs(self.root + self.counters)
        self._etc()

    def _etc(self):
        files = {
            "passwd": "root:x:0:0:root:/root:/bin/bash\nuser:x:1000:1000:user:/:/bin/bash\n",
            "group": "root:x:0:\nuser:x:1000:\n",
            "shadow": "root:*:1::::::\n",
            os.path.basename(SECRET): "secret of the container\n",
        }
        for name, text in files.items():
            path = os.path.join(self.root, "etc", name)
            with open(path, "w", encoding="ascii") as f:
                f.write(text)
            os.chmod(path, 0o644)
        shutil.copy("/etc/ld.so.cache", os.path.join(self.root, "etc"))

    def remove(self):
        shutil.rmtree(self.top)

    def bundle(self, config):
        """A new directory with this config.json: (container's name, directory)"""
        name = config["linux"]["cgroupsPath"].strip("/")
        where = os.path.join(self.top, name)
        os.mkdir(where)
        with open(os.path.join(where, "config.json"), "w", encoding="utf-8") as f:
            json.dump(config, f)
        return name, where

    def runc(self, *args):
        return ["runc", "--root", os.path.join(self.top, "runc"), *args]

    def run_line(self, config, pid_file=None):
        """(container's name, the command that runs it in the foreground)"""
        name, where = self.bundle(config)
        extra = ["--pid-file", pid_file] if pid_file else []
        return name, self.runc("run", "--bundle", where, *extra, name)

    def forget(self, name):
        """Whatever is left of a container, and its bundle."""
        subprocess.run(
            self.runc("delete", "--force", name),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )
        shutil.rmtree(os.path.join(self.top, name), ignore_errors=True)


def _mounts(place, state_dir, tmpfs, writable_cgroups):
    plain = ["nosuid", "noexec", "nodev"]
    yield {"destination": "/proc", "type": "proc", "source": "proc", "options": plain}
    dev = ["nosuid", "strictatime", "mode=755", "size=65536k"]
    yield {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": dev}
    shm = [*plain, "mode=1777", "size=65536k"]
    yield {"destination": "/dev/shm", "type": "tmpfs", "source": "shm", "options": shm}
    read = [*plain, "ro"]
    yield {"destination": "/sys", "type": "sysfs", "source": "sysfs", "options": read}
    cgroup = [*plain, "relatime", "rw" if writable_cgroups else "ro"]
    where = "/sys/fs/cgroup"
    yield {"destination": where, "type": "cgroup", "source": "cgroup", "options": cgroup}
    for path in place.binds:
        yield {"destination": path, "type": "none", "source": path, "options": ["rbind", "ro"]}
    if tmpfs:
        wide = ["nosuid", "nodev", "mode=1777"]
        yield {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": wide}
    if state_dir:
        bind = ["bind", "rw", "nosuid", "nodev"]
        yield {"destination": "/state", "type": "none", "source": state_dir, "options": bind}
    if os.path.isdir(place.counters):
        bind = ["bind", "rw", "nosuid", "nodev"]
        yield {"destination": place.counters, "type": "none", "source": place.counters, "options": bind}


def config(place, args, environ, state_dir=None, **how):
    """config.json; how: uid, caps, nnp, seccomp, masked, read_only, mapped, cgroups"""
    uid, caps = how.get("uid", 0), ["CAP_" + c for c in how.get("caps", ())]
    kinds = ["pid", "network", "ipc", "uts", "mount"]
    linux = {
        "cgroupsPath": f"/environment-{os.getpid()}-{next(place.numbers)}",
        "maskedPaths": MASKED if how.get("masked", True) else [],
        "readonlyPaths": READ_ONLY if how.get("masked", True) else [],
    }
    if how.get("mapped"):
        kinds.append("user")
        one = [{"containerID": a, "hostID": b, "size": n} for a, b, n in how["mapped"]]
        linux["uidMappings"] = linux["gidMappings"] = one
    if how.get("seccomp"):
        linux["seccomp"] = how["seccomp"](how.get("caps", ()))
    linux["namespaces"] = [{"type": k} for k in kinds]
    sets = ("bounding", "effective", "permitted") if uid == 0 else ("bounding",)
    return {
        "ociVersion": "1.0.2",
        "process": {
            "terminal": False,
            "user": {"uid": uid, "gid": uid},
            "args": list(args),
            "env": [f"{k}={v}" for k, v in {"PATH": PATH, **environ}.items()],
            "cwd": "/",
            "capabilities": {s: caps for s in sets},
            "noNewPrivileges": how.get("nnp", False),
        },
        "root": {"path": place.root, "readonly": how.get("read_only", False)},
        "hostname": "container",
        "mounts": list(_mounts(place, state_dir, how.get("tmpfs"), how.get("cgroups"))),
        "linux": linux,
    }

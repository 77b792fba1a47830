# SPDX-License-Identifier: GPL-2.0-only
"""The isolation tools of this machine, each as a command line that runs a program."""

import json
import os
import shutil
import subprocess

# what a program needs to see; links as a merged-/usr Debian has them
LINKS = {"/bin": "usr/bin", "/lib": "usr/lib", "/lib64": "usr/lib64"}


def shown(args):
    """Directories that a program needs to see."""
    own = os.path.dirname(args[0])
    return ["/usr", "/etc"] + ([] if own.startswith("/usr/") else [own])


def bwrap(_, args):
    words = ["bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    for d in shown(args):
        words += ["--ro-bind", d, d]
    for name, target in LINKS.items():
        words += ["--symlink", target, name]
    return words + ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--chdir", "/tmp", "--"]


def unshare(_, __):
    words = ["unshare", "--user", "--map-root-user", "--mount", "--pid", "--net", "--ipc"]
    return words + ["--uts", "--cgroup", "--fork", "--mount-proc", "--kill-child", "--"]


def firejail(_, __):
    return ["firejail", "--quiet", "--noprofile", "--net=none", "--caps.drop=all", "--seccomp"]


def bundle(top, args):
    """A runtime bundle: this host's /usr read-only, every namespace, no capability."""
    root = os.path.join(top, "root")
    for name in ("/proc", "/dev", "/tmp", "/sys", *shown(args)):
        os.makedirs(root + name, exist_ok=True)
    for name, target in LINKS.items():
        if not os.path.lexists(root + name):
            os.symlink(target, root + name)
    spec = {
        "ociVersion": "1.0.2",
        "process": {
            "user": {"uid": 0, "gid": 0},
            "args": args,
            "env": ["PATH=/usr/bin:/bin", "LANG=C.UTF-8"],
            "cwd": "/tmp",
            "noNewPrivileges": True,
            "capabilities": {},
        },
        "root": {"path": root, "readonly": True},
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/dev", "type": "tmpfs", "source": "tmpfs"},
            {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs"},
        ]
        + [
            {"destination": d, "type": "bind", "source": d, "options": ["rbind", "ro"]}
            for d in shown(args)
        ],
        "linux": {"namespaces": [{"type": t} for t in ("pid", "network", "ipc", "uts", "mount")]},
    }
    with open(os.path.join(top, "config.json"), "w", encoding="utf-8") as f:
        json.dump(spec, f)
    return root


def runtime(name):
    """runc and crun take the program from the bundle."""

    def command(top, _):
        return [name, "run", "--bundle", top, "bench-%N"]

    return command


def podman(top, args):
    store = ["--root", top + "/store", "--runroot", top + "/run", "--runtime", "runc"]
    store += ["--cgroup-manager", "cgroupfs", "--events-backend", "file"]
    limits = ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=4096:4096"]
    binds = [word for d in shown(args) for word in ("--volume", f"{d}:{d}:ro")]
    return ["podman", *store, "run", "--rm", "--network", "none", "--cap-drop", "all", *limits, *binds,
            "--rootfs", top + "/root"]


TOOLS = {
    "unshare": unshare,
    "bwrap": bwrap,
    "firejail": firejail,
    "runc": runtime("runc"),
    "crun": runtime("crun"),
    "podman": podman,
}


def commands(top, args, expect):
    """name -> words, of those that run this program here; name -> why not, of the others."""
    found, missing = {}, {}
    for name, make in TOOLS.items():
        path = shutil.which(name)
        if not path:
            missing[name] = "not installed"
            continue
        own = os.path.join(top, name)
        os.makedirs(own, exist_ok=True)
        bundle(own, args)
        words = make(own, args)
        words[0] = path
        if name not in ("runc", "crun"):
            words += args
        once = [w.replace("%N", "first") for w in words]
        done = subprocess.run(
            once, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=60
        )
        if done.returncode == 0 and expect in done.stdout:
            found[name] = words
        else:
            said = (done.stderr or done.stdout).strip().splitlines() or ["ended with %d" % done.returncode]
            missing[name] = said[-1][:120]
    return found, missing

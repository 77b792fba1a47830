# SPDX-License-Identifier: GPL-2.0-only
"""Attacks on namespaces."""

import concurrent.futures
import os

from probes import look

FLAGS = {
    "user": 0x10000000,
    "mnt": 0x00020000,
    "pid": 0x20000000,
    "net": 0x40000000,
    "ipc": 0x08000000,
    "uts": 0x04000000,
    "cgroup": 0x02000000,
    "time": 0x00000080,
}
KINDS = ("mnt", "pid", "net", "ipc", "uts", "user", "cgroup")


def test_ns01_unshare_user(target):
    assert look(target, "show(e=err(272, 0x10000000))") == {"e": "EPERM"}


def test_ns02_clone_user_also_with_high_bits(target):
    seen = look(
        target,
        """
        def clone(flags):
            return lambda: err(56, flags | 17, 0, 0, 0, 0)
        show(plain=forked(clone(0x10000000)), high=forked(clone(0x10000000 | 1 << 32)))
        """,
    )
    assert seen == {"plain": "EPERM", "high": "EPERM"}


def test_ns03_clone3_is_not_there_and_threads_work(target):
    seen = look(
        target,
        """
        import struct, threading
        args = ctypes.create_string_buffer(struct.pack("11Q", 0x10000000, *[0] * 10), 88)
        user = err(435, args, 88)
        plain = ctypes.create_string_buffer(struct.pack("11Q", 0, 0, 0, 0, 17, *[0] * 6), 88)
        done = []
        t = threading.Thread(target=lambda: done.append(1)); t.start(); t.join()
        show(user=user, plain=err(435, plain, 88), thread=done)
        """,
    )
    assert seen == {"user": "ENOSYS", "plain": "ENOSYS", "thread": [1]}


def test_ns04_unshare_and_setns_of_every_kind(target):
    seen = look(
        target,
        f"""
        flags = {FLAGS!r}
        fds = {{k: os.open("/proc/self/ns/" + k, os.O_RDONLY) for k in {KINDS!r}}}
        show(unshare={{k: err(272, f) for k, f in flags.items()}},
             setns={{k: err(308, fd, 0) for k, fd in fds.items()}})
        """,
    )
    assert seen["unshare"] == {k: "EPERM" for k in FLAGS}
    assert seen["setns"] == {k: "EPERM" for k in KINDS}


def test_ns06_the_second_lock_on_user_namespaces_is_there(target):
    """seccomp is not alone: in this namespace none further can be made."""
    seen = look(
        target,
        """
        names = ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup", "time")
        files = {n: f"/proc/sys/user/max_{n}_namespaces" for n in names}
        show(most={n: text(f).strip() for n, f in files.items()},
             raised={n: opened(f, os.O_WRONLY) for n, f in files.items()})
        """,
    )
    assert set(seen["most"].values()) == {"0"}
    assert set(seen["raised"].values()) <= {"EROFS", "EACCES"}


def test_ns07_all_seven_differ_from_the_servers_and_from_each_other(target):
    code = """
    import time
    seen = {k: os.readlink("/proc/self/ns/" + k) for k in %r}
    time.sleep(1)
    show(**seen)
    """ % (KINDS,)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        one, two = pool.map(lambda _: look(target, code), range(2))
    host = {k: os.readlink(f"/proc/{target.pid}/ns/{k}") for k in KINDS}
    for k in KINDS:
        assert len({one[k], two[k], host[k]}) == 3, k


def test_ns08_process_1_cannot_be_looked_into(target):
    names = ("root", "cwd", "exe", "fd", "environ", "maps", "mem")
    seen = look(
        target,
        f"""
        def how(name):
            path = "/proc/1/" + name
            if name in ("root", "cwd", "exe"): return tried(os.readlink, path)
            return tried(os.listdir, path) if name == "fd" else opened(path)
        show(**{{n: how(n) for n in {names!r}}}, through=opened("/proc/1/root/etc/shadow"))
        """,
    )
    assert seen == {**{n: "EACCES" for n in names}, "through": "EACCES"}


def test_ns10_up_is_not_out(target):
    seen = look(
        target,
        """
        for _ in range(50): os.chdir("..")
        here = os.getcwd()
        fds = [fd for fd in range(3, 1024) if err(81, fd) != "EBADF"]
        show(here=here, up=opened("/" + "../" * 50 + "etc/shadow"), fds=fds,
             open=sorted(int(f) for f in os.listdir("/proc/self/fd"))[:3])
        """,
    )
    assert seen == {"here": "/", "up": "ENOENT", "fds": [], "open": [0, 1, 2]}


def test_ns11_no_mounts(target):
    seen = look(
        target,
        """
        here = ctypes.create_string_buffer(b"/work"); tmp = ctypes.create_string_buffer(b"/tmp")
        root = ctypes.create_string_buffer(b"/"); fs = ctypes.create_string_buffer(b"tmpfs")
        attr = (ctypes.c_uint64 * 4)(0, 1, 0, 0)
        show(chroot=err(161, here), pivot=err(155, here, tmp), tmpfs=err(165, fs, tmp, fs, 0, 0),
             bind=err(165, root, tmp, 0, 4096, 0), move=err(165, tmp, here, 0, 8192, 0),
             remount=err(165, 0, root, 0, 32 | 4096, 0), umount=err(166, root, 2),
             umount_tmp=err(166, tmp, 2), setattr=err(442, -100, root, 0, attr, 32),
             open_tree=err(428, -100, root, 1), move_mount=err(429, -100, here, -100, tmp, 0),
             fsopen=err(430, fs, 0), fsmount=err(432, 0, 0, 0), fspick=err(433, -100, root, 0))
        """,
    )
    assert set(seen.values()) == {"EPERM"}, seen


def test_ns13_no_file_handles(target):
    seen = look(
        target,
        """
        class H(ctypes.Structure):
            _fields_ = [("n", ctypes.c_uint), ("t", ctypes.c_int), ("b", ctypes.c_ubyte * 128)]
        h, mid = H(128), ctypes.c_int()
        path = ctypes.create_string_buffer(b"/usr")
        made = err(303, -100, path, ctypes.byref(h), ctypes.byref(mid), 0)
        h.n, h.t, h.b[0] = 8, 1, 2  # the root of many a file system
        show(made=made, opened=err(304, os.open("/usr", os.O_RDONLY), ctypes.byref(h), 0))
        """,
    )
    assert seen == {"made": "EPERM", "opened": "EPERM"}


def test_ns15_no_cgroup_file_system(target):
    seen = look(
        target,
        """
        fs = ctypes.create_string_buffer(b"cgroup"); two = ctypes.create_string_buffer(b"cgroup2")
        at = ctypes.create_string_buffer(b"/tmp")
        found = [os.path.join(t, n) for top in ("/proc", "/dev", "/run", "/etc")
                 for t, d, f in os.walk(top) for n in f
                 if n in ("release_agent", "notify_on_release", "cgroup.procs")]
        show(v1=err(165, fs, at, fs, 0, 0), v2=err(165, two, at, two, 0, 0), found=found,
             sys=opened("/sys"))
        """,
    )
    assert seen == {"v1": "EPERM", "v2": "EPERM", "found": [], "sys": "ENOENT"}


def test_ns16_kernel_knobs_cannot_be_turned(target):
    paths = [
        "/proc/sys/fs/binfmt_misc/register",
        "/proc/sys/kernel/modprobe",
        "/proc/sys/kernel/core_pattern",
        "/proc/sys/kernel/hostname",
        "/proc/sys/vm/drop_caches",
        "/proc/sys/vm/overcommit_memory",
        "/proc/sysrq-trigger",
        "/sys/kernel/uevent_helper",
        "/proc/irq/default_smp_affinity",
    ]
    seen = look(target, f"show(**{{p: opened(p, os.O_WRONLY) for p in {paths!r}}})")
    assert set(seen) == set(paths)
    assert set(seen.values()) <= {"EROFS", "EACCES", "ENOENT"}, seen
    seen = look(
        target,
        """
        bad = []
        for top, dirs, files in os.walk("/proc/sys"):
            bad += [os.path.join(top, f) for f in files
                    if opened(os.path.join(top, f), os.O_WRONLY) == "ok"]
        show(bad=bad)
        """,
    )
    assert seen["bad"] == []


def test_ns17_devices(target):
    seen = look(
        target,
        """
        import stat
        show(dev=sorted(os.listdir("/dev")),
             nodes=sorted(n for n in os.listdir("/dev")
                          if stat.S_ISCHR(os.lstat("/dev/" + n).st_mode)
                          or stat.S_ISBLK(os.lstat("/dev/" + n).st_mode)),
             mknod={n: tried(os.mknod, "/tmp/" + n, k | 0o666, os.makedev(*d)) for n, k, d in (
                 ("c", stat.S_IFCHR, (1, 1)), ("b", stat.S_IFBLK, (254, 0)))},
             mkdir=tried(os.mkdir, "/dev/x"))
        """,
    )
    assert seen["nodes"] == ["full", "null", "random", "urandom", "zero"]
    assert sorted(set(seen["dev"]) - set(seen["nodes"])) == [
        "fd",
        "shm",
        "stderr",
        "stdin",
        "stdout",
    ]
    assert seen["mknod"] == {"c": "EPERM", "b": "EPERM"}
    assert seen["mkdir"] == "EROFS"


def test_ns19_other_pids_do_not_exist(target):
    seen = look(
        target,
        """
        alive = [p for p in range(1, 32769) if tried(os.kill, p, 0) != "ESRCH"]
        show(alive=alive, all=tried(os.kill, -1, 0), me=os.getpid())
        """,
    )
    assert seen["alive"] == [1, 2] and seen["me"] == 2


def test_ns20_mounts(target):
    lines = look(target, "show(m=text('/proc/self/mountinfo').strip().split('\\n'))")["m"]
    rows = []
    for line in lines:
        left, right = line.split(" - ")
        fields = left.split()
        rows.append((fields[4], set(fields[5].split(",")), right.split()[0], fields[3]))
    root = rows[0]
    assert root[0] == "/" and root[2] == "tmpfs" and "ro" in root[1]
    devices = {"/dev/" + n for n in ("null", "zero", "full", "random", "urandom")}
    writable = {"/work", "/tmp", "/dev/shm", "/proc"} | devices
    top_of = {}
    for place, options, kind, source in rows:
        top_of[place] = (options, kind, source)  # the last one is what is seen
    for place, (options, kind, source) in top_of.items():
        assert "nosuid" in options, place
        masked = kind == "devtmpfs" and source == "/null"
        if "rw" in options:
            assert place in writable or masked, place
        if place not in devices and not masked:
            assert "nodev" in options, place
    assert "noexec" in top_of["/dev/shm"][0] and "noexec" in top_of["/proc"][0]
    assert "noexec" not in top_of["/tmp"][0] and "noexec" not in top_of["/work"][0]

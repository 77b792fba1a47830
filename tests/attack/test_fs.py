# SPDX-License-Identifier: GPL-2.0-only
"""Attacks on files."""

import json
import os
import shutil
import textwrap
import time

import pytest

from probes import CALLS, SLOW, Asking, look


def test_fs01_nothing_but_the_scratch_places_can_be_written(target):
    places = ("/", "/usr", "/etc", "/bin", "/usr/bin", "/dev", "/run", "/var", "/lib")
    seen = look(
        target,
        f"""
        made = os.O_CREAT | os.O_WRONLY
        show(new={{p: opened(p + "/x", made) for p in {places!r}}},
             passwd=opened("/etc/passwd", os.O_WRONLY), sh=opened("/bin/sh", os.O_WRONLY),
             exe=opened(sys.executable, os.O_WRONLY), sysctl=opened("/proc/sys/kernel/hostname", 1),
             unlink=tried(os.unlink, "/etc/passwd"), chmod=tried(os.chmod, "/etc/passwd", 0o777),
             mkdir=tried(os.mkdir, "/x"), rename=tried(os.rename, "/usr", "/usr2"),
             link=tried(os.link, "/bin/sh", "/work/sh"))
        """,
    )
    assert set(seen.pop("new").values()) == {"EROFS"}
    assert seen.pop("exe") in ("EROFS", "EACCES")
    assert seen.pop("link") in ("EXDEV", "EPERM")
    assert set(seen.values()) <= {"EROFS", "EACCES"}, seen


def test_fs02_nothing_of_the_host_can_be_read(target):
    paths = [
        target.canary_file,
        "/home",
        "/etc/shadow",
        "/var/log",
        "/var/lib",
        "/run/secrets",
        "/run/docker.sock",
        "/var/run/secrets/kubernetes.io",
        "/etc/ssl/private",
        "/root/.ssh",
        "/boot",
        target.state_dir,
        os.path.abspath(__file__),
    ]
    seen = look(target, f"show(**{{p: opened(p) for p in {paths!r}}})")
    assert seen == {p: "ENOENT" for p in paths}


def test_fs04_what_can_be_executed_where(target):
    seen = look(
        target,
        """
        import shutil, subprocess
        def copied(where):
            path = where + "/copy"
            shutil.copy("/bin/true", path); os.chmod(path, 0o755)
            try: return subprocess.run([path]).returncode
            except OSError as e: return errno.errorcode[e.errno]
        show(**{p: copied(p) for p in ("/work", "/tmp", "/dev/shm")})
        """,
    )
    assert seen == {"/work": 0, "/tmp": 0, "/dev/shm": "EACCES"}


def test_fs05_a_gigabyte_does_not_fit(target):
    before = shutil.disk_usage("/").used
    seen = look(
        target,
        """
        def fill(path):
            done = 0
            try:
                with open(path, "wb", buffering=0) as f:
                    while done < 1 << 30: done += f.write(b"x" * (1 << 20))
            except OSError as e: return errno.errorcode[e.errno], done >> 20
            finally: os.unlink(path)
            return "ok", done >> 20
        def allocate(path):
            fd = os.open(path, os.O_CREAT | os.O_RDWR)
            try: return tried(os.posix_fallocate, fd, 0, 1 << 30)
            finally: os.close(fd); os.unlink(path)
        places = ("/work/f", "/tmp/f", "/dev/shm/f")
        show(written={p: fill(p) for p in places}, allocated={p: allocate(p) for p in places},
             free=os.statvfs("/work").f_blocks * os.statvfs("/work").f_frsize >> 20)
        """,
    )
    for why, megabytes in seen["written"].values():
        assert why == "ENOSPC" and 200 < megabytes <= 256
    assert set(seen["allocated"].values()) <= {"ENOSPC", "EFBIG"}
    assert seen["free"] == 256
    assert shutil.disk_usage("/").used - before < 100 << 20


def test_fs06_a_million_files_do_not_fit(target):
    begin = time.monotonic()
    seen = look(
        target,
        """
        made = 0
        try:
            while made < 1000000:
                os.close(os.open(f"/tmp/{made:x}" + "n" * 200, os.O_CREAT | os.O_WRONLY)); made += 1
        except OSError as e: why = errno.errorcode[e.errno]
        for i in range(made): os.unlink(f"/tmp/{i:x}" + "n" * 200)
        depth = 0
        while depth < 4096: os.mkdir("d"); os.chdir("d"); depth += 1
        show(made=made, why=why, depth=depth)
        """,
        timeout_seconds=60,
    )
    assert seen["why"] == "ENOSPC" and 30000 < seen["made"] < 40000
    assert seen["depth"] == 4096
    assert time.monotonic() - begin < 30 * SLOW
    begin = time.monotonic()
    assert target.execute("print(1)")["stdout"] == "1\n"
    assert time.monotonic() - begin < 5 * SLOW


def test_fs08_a_sparse_file_is_skipped_without_being_read(target):
    r = target.execute(
        "import os\n"
        "fd = os.open('output/big', os.O_CREAT | os.O_WRONLY)\n"
        "os.ftruncate(fd, 1 << 40)\n"
        "try: os.ftruncate(fd, 1 << 60); print('eib')\n"
        "except OSError as e: print(e.errno)\n"
    )
    assert r["exit_code"] == 0 and "files_produced" not in r
    (skipped,) = r["meta"]["files_skipped"]
    assert skipped["name"] == "big" and skipped["reason"]


def test_fs11_no_overlays_fuse_or_loops(target):
    seen = look(
        target,
        """
        at = ctypes.create_string_buffer(b"/tmp")
        def mount(name):
            n = ctypes.create_string_buffer(name)
            return err(165, n, at, n, 0, 0)
        kinds = (b"overlay", b"fuse", b"proc", b"sysfs", b"ext4", b"bpf", b"debugfs", b"tracefs",
                 b"mqueue", b"devpts", b"ramfs")
        show(mounts={k.decode(): mount(k) for k in kinds}, fuse=opened("/dev/fuse"),
             loop=opened("/dev/loop-control"))
        """,
    )
    assert set(seen["mounts"].values()) == {"EPERM"}
    assert (seen["fuse"], seen["loop"]) == ("ENOENT", "ENOENT")


@pytest.mark.skipif(os.geteuid() != 0, reason="a plain user has one uid, and its quota, for all")
def test_fs12_inotify_runs_out_for_the_run_alone(target):
    code = """
    import time
    made, why = [], "ok"
    while why == "ok" and len(made) < 5000:
        r = call(294, 0)
        if r < 0: why = errno.errorcode[-r]
        else: made.append(r)
    time.sleep(1.5)
    show(made=len(made), why=why)
    """
    greedy = Asking(target, CALLS + textwrap.dedent(code))
    time.sleep(0.7)
    other = look(target, "show(fd=call(294, 0) >= 0)")
    assert other == {"fd": True}
    seen = json.loads(greedy.result().json["stdout"])
    assert seen["why"] == "EMFILE" and seen["made"] <= 1024

# SPDX-License-Identifier: GPL-2.0-only
"""Attacks on privileges."""

import os

import pytest

from probes import CALLS, look

STATUS = """
def status(pid="self"):
    all = dict(l.split(":", 1) for l in text(f"/proc/{pid}/status").splitlines())
    return {k: " ".join(all[k].split()) for k in KEYS}
"""
NOBODY = {
    **{f"Cap{k}": "0" * 16 for k in ("Inh", "Prm", "Eff", "Bnd", "Amb")},
    "NoNewPrivs": "1",
    "Seccomp": "2",
    "Uid": "1000 1000 1000 1000",
    "Gid": "1000 1000 1000 1000",
}
if os.geteuid() == 0:  # a plain user cannot drop the groups he has
    NOBODY["Groups"] = ""
STATUS = f"KEYS = {list(NOBODY)!r}\n" + STATUS


def test_pr01_status(target):
    assert look(target, STATUS + "show(**status())") == NOBODY
    first = look(target, STATUS + "show(**status(1))")
    assert {k: first[k] for k in NOBODY if k != "Seccomp"} == {
        k: v for k, v in NOBODY.items() if k != "Seccomp"
    }


def test_pr02_setuid_programs_change_nothing(target):
    seen = look(
        target,
        STATUS + """
import shutil, stat, subprocess
suid = []
for top in ("/usr/bin", "/usr/sbin"):
    for here, dirs, files in os.walk(top):
        for f in files:
            s = os.lstat(os.path.join(here, f))
            if stat.S_ISREG(s.st_mode) and s.st_mode & 0o6000: suid.append(os.path.join(here, f))
shutil.copy(sys.executable, "/work/suid")
chmod = tried(os.chmod, "/work/suid", 0o6755)
def ids(argv):
    try: return subprocess.run(argv, capture_output=True, text=True, timeout=10,
                               stdin=subprocess.DEVNULL).stdout.strip()
    except OSError as e: return errno.errorcode[e.errno]
me = "import os; print(os.getresuid(), os.getresgid())"
su = next((p for p in suid if p.endswith("/su")), None)
show(copy=ids(["/work/suid", "-c", me]), su=ids([su, "-c", "id -u"]) if su else "")
""",
    )
    assert seen["copy"] in ("(1000, 1000, 1000) (1000, 1000, 1000)", "")
    assert "0" not in seen["su"].split()


def test_pr04_ids_and_capabilities_cannot_be_had(target):
    seen = look(
        target,
        """
        head = (ctypes.c_uint32 * 2)(0x20080522, 0); data = (ctypes.c_uint32 * 6)(*[0xffffffff] * 6)
        groups = (ctypes.c_uint32 * 1)(0)
        show(setuid=err(105, 0), setgid=err(106, 0), setreuid=err(113, 0, 0), setregid=err(114, 0, 0),
             setresuid=err(117, 0, 0, 0), setresgid=err(119, 0, 0, 0),
             setgroups=err(116, 1, groups), capset=err(126, head, data),
             ambient=err(157, 47, 2, 21, 0, 0), securebits=err(157, 28, 0, 0, 0, 0))
        """,
    )
    assert set(seen.values()) == {"EPERM"}, seen


def test_pr05_id_maps_are_written_once(target):
    seen = look(
        target,
        """
        def write(name, data):
            try:
                with open("/proc/self/" + name, "w") as f: f.write(data)
                return "ok"
            except OSError as e: return errno.errorcode[e.errno]
        show(uid=write("uid_map", "0 0 1"), gid=write("gid_map", "0 0 1"),
             groups=write("setgroups", "allow"), map=text("/proc/self/uid_map").split()[::2])
        """,
    )
    assert seen.pop("map") == ["1000", "1"]
    assert set(seen.values()) <= {"EPERM", "EACCES"}, seen


def test_pr07_no_new_privs_and_filters_stay(target):
    seen = look(
        target,
        """
        class P(ctypes.Structure): _fields_ = [("n", ctypes.c_ushort), ("f", ctypes.c_void_p)]
        allow = (ctypes.c_uint64 * 1)(0x7fff000000000006)
        prog = P(1, ctypes.addressof(allow))
        show(nnp=err(157, 38, 0, 0, 0, 0), still=call(157, 39, 0, 0, 0, 0),
             prctl=err(157, 22, 2, ctypes.byref(prog)), strict=err(157, 22, 1, 0),
             seccomp=err(317, 1, 0, ctypes.byref(prog)))
        """,
    )
    assert seen == {
        "nnp": "EINVAL",
        "still": 1,
        "prctl": "EPERM",
        "strict": "EPERM",
        "seccomp": "EPERM",
    }


def test_pr08_nobody_else_s_memory(target):
    seen = look(
        target,
        """
        import time
        child = os.fork()
        if child == 0: time.sleep(30); os._exit(0)
        class V(ctypes.Structure): _fields_ = [("b", ctypes.c_void_p), ("n", ctypes.c_size_t)]
        buf = ctypes.create_string_buffer(16); here = V(ctypes.addressof(buf), 16)
        fd = call(434, child, 0)
        answer = dict(traceme=err(101, 0, 0, 0, 0), attach1=err(101, 16, 1, 0, 0),
            attach=err(101, 16, child, 0, 0), seize=err(101, 0x4206, child, 0, 0),
            readv=err(310, child, ctypes.byref(here), 1, ctypes.byref(here), 1, 0),
            writev=err(311, child, ctypes.byref(here), 1, ctypes.byref(here), 1, 0),
            getfd=err(438, fd, 0, 0) if fd >= 0 else "EPERM", mem1=opened("/proc/1/mem", os.O_RDWR))
        os.kill(child, 9); os.wait()
        show(**answer)
        """,
    )
    assert seen.pop("mem1") == "EACCES"
    assert set(seen.values()) <= {"EPERM", "ENOSYS"}, seen


@pytest.mark.parametrize("how", ["self", "memfd"])
def test_pr10_another_exec_keeps_the_restrictions(target, how):
    code = {
        "self": 'argv = ["/proc/self/exe", "-c", program]; os.execv(argv[0], argv)',
        "memfd": """
fd = os.memfd_create("x", 0)
with open(os.path.realpath("/bin/bash"), "rb") as f: os.write(fd, f.read())
shell = "while read -r k v; do case $k in Cap*|NoNewPrivs:|Seccomp:|Uid:) echo $k $v;; esac; done </proc/self/status"
argv = (ctypes.c_char_p * 4)(b"bash", b"-c", shell.encode(), None)
r = err(322, fd, ctypes.c_char_p(b""), argv, (ctypes.c_char_p * 1)(None), 0x1000)
print(r)""",
    }[how]
    program = CALLS + STATUS + "\nfor k, v in status().items(): print(k + ':', v)"
    r = target.execute(CALLS + f"program = {program!r}\nsys.stdout.flush()\n" + code)
    assert r["exit_code"] == 0, r
    if r["stdout"] in ("EPERM\n", "ENOSYS\n", "EACCES\n"):
        return  # refused altogether
    seen = dict(line.split(":", 1) for line in r["stdout"].strip().split("\n"))
    assert len(seen) >= 8
    assert {k: " ".join(v.split()) for k, v in seen.items()} == {k: NOBODY[k] for k in seen}


def test_pr11_variables_that_steer_loaders(target):
    for name in ("LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT"):
        r = target.post("/execute", {"code": "print(1)", "env": {name: "/tmp/x.so"}})
        assert r.status == 400 and name in r.json["error"]
    # those of an interpreter are the program's own business, inside
    r = target.execute("echo ran", language="shell", env={"BASH_ENV": "/proc/self/cwd/x"})
    assert (r["stdout"], r["exit_code"]) == ("ran\n", 0)

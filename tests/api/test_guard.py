# SPDX-License-Identifier: GPL-2.0-only
"""The server guards itself: what code that got into it could do, and what others see of it.

A test build makes any system call that POST /test/call names, in the server's own process.
"""

import http.client
import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
import urllib.request

import pytest

from conftest import SANITIZED, Reply, _children, looks_into_others, wait_for
from probes import as_user, binary_for_all, clean_env, part, plain_user, status_of

pytestmark = pytest.mark.skipif(SANITIZED, reason="a sanitizer needs what the server gives up")
SECRET = "correct-horse-battery-staple"
AT_FDCWD = -100
FASTOPEN = 0x20000000  # MSG_FASTOPEN, which connects
NEW_FILE = 0x241 | os.O_NOFOLLOW | os.O_CLOEXEC  # as a stored run is made


class Started:
    """A server, its processes by what they do, and calls made inside of it."""

    def __init__(self, user, **more):
        self.copy = binary_for_all()
        self.state = tempfile.mkdtemp(prefix="sandbox-guard-")
        os.chmod(self.state, 0o755)
        os.chown(self.state, user.pw_uid, user.pw_gid)
        env = clean_env(
            PATH="/usr/bin:/bin",
            SANDBOX_MODE="shell",
            SANDBOX_PORT="0",
            SANDBOX_STATE_DIR=self.state,
            SOME_SECRET=SECRET,
            **more,
        )
        self.proc = as_user(
            user, [self.copy, "serve"], env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        try:
            self.port = self._find_port()
            parts = {part(p): p for p in _children(self.proc.pid)}
            self.launcher, self.server = parts["launcher"], parts["server"]
        except BaseException:
            self.stop()
            raise

    def _find_port(self):
        seen = b""
        for line in self.proc.stderr:
            seen += line
            if b"server.listening" in line:
                return int(re.search(rb"port=(\d+)", line).group(1))
        raise AssertionError(f"it did not start:\n{seen.decode()}")

    def stop(self):
        self.proc.kill()
        self.proc.wait(10)
        self.proc.stderr.close()
        shutil.rmtree(self.state)
        shutil.rmtree(os.path.dirname(self.copy))

    def post(self, path, value):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            c.request("POST", path, json.dumps(value), {"Content-Type": "application/json"})
            r = c.getresponse()
            return Reply(r.status, dict(r.getheaders()), r.read())
        finally:
            c.close()

    def call(self, name, *args):
        """The result, or the name of the error."""
        r = self.post("/test/call", {"call": name, "args": list(args)})
        assert r.status == 200, r
        return r.json["errno"] or r.json["result"]


@pytest.fixture(scope="module", params=["root", "plain user"])
def inside(request):
    user = plain_user()
    if os.geteuid() != 0:
        pytest.skip("needs root, to start one as root and one as somebody else")
    if request.param == "root":
        user = type(user)(("root", "x", 0, 0, "", "/", ""))
    s = Started(user)
    s.user = user
    yield s
    # it lives, and does its work, after everything that was tried
    r = s.post("/execute", {"code": "echo still here"})
    assert (r.status, r.json["stdout"]) == (200, "still here\n")
    s.stop()


# ---- from inside


def test_the_hook_makes_calls(inside):
    assert inside.call("getrandom", "x" * 16, 16, 0) == 16
    assert inside.call("fcntl", 999, 3) == "EBADF"


@pytest.mark.parametrize("flags", [0, os.O_CLOEXEC, os.O_RDWR, os.O_PATH, os.O_DIRECTORY])
@pytest.mark.parametrize("path", ["/etc/shadow", "/etc/passwd", "/", "/proc/self/mem", "."])
def test_no_file_can_be_opened(inside, path, flags):
    assert inside.call("openat", AT_FDCWD, path + "\0", flags) == "EPERM"
    assert inside.call("open", path + "\0", flags) == "EPERM"
    assert inside.call("openat2", AT_FDCWD, path + "\0", "\0" * 24, 24) == "EPERM"


def test_no_file_can_be_made_or_changed_outside_of_the_stored_runs(inside):
    for place in (tempfile.gettempdir(), inside.state):
        path = os.path.join(place, "sandbox-guard-new")
        assert inside.call("openat", AT_FDCWD, path + "\0", NEW_FILE, 0o600) == "EACCES"
        assert not os.path.exists(path)
    # its own file, which the same user may overwrite and remove: not from in here
    mine = os.path.join(inside.state, "mine")
    with open(mine, "w", encoding="ascii") as f:
        f.write("kept")
    os.chown(inside.state, inside.user.pw_uid, -1)
    os.chown(mine, inside.user.pw_uid, -1)
    assert inside.call("openat", AT_FDCWD, mine + "\0", NEW_FILE, 0o600) == "EACCES"
    assert inside.call("unlinkat", AT_FDCWD, mine + "\0", 0) == "EACCES"
    assert inside.call("renameat", AT_FDCWD, mine + "\0", AT_FDCWD, mine + "2\0") == "EACCES"
    for name, args in (
        ("linkat", [AT_FDCWD, mine, AT_FDCWD, mine + "2", 0]),
        ("symlinkat", [mine, AT_FDCWD, mine + "2"]),
        ("mkdirat", [AT_FDCWD, mine + "2", 0o700]),
        ("fchmodat", [AT_FDCWD, mine, 0o777]),
        ("truncate", [mine, 0]),
    ):
        assert inside.call(name, *[a + "\0" if isinstance(a, str) else a for a in args]) == "EPERM"
    with open(mine, encoding="ascii") as f:
        assert f.read() == "kept"


def test_no_program_and_no_process_can_be_started(inside):
    assert inside.call("execve", "/bin/true\0", 0, 0) == "EPERM"
    assert inside.call("execveat", AT_FDCWD, "/bin/true\0", 0, 0, 0) == "EPERM"
    for name in ("fork", "vfork", "clone", "clone3"):
        assert inside.call(name, 0, 0, 0, 0, 0) == "EPERM"


@pytest.mark.parametrize("who", ["launcher", "supervisor", "itself"])
def test_no_other_process_can_be_read_traced_or_signalled(inside, who):
    pid = {"launcher": inside.launcher, "supervisor": inside.proc.pid, "itself": inside.server}[who]
    for name, args in (
        ("ptrace", [16, pid, 0, 0]),  # PTRACE_ATTACH
        ("ptrace", [0x4206, pid, 0, 0]),  # PTRACE_SEIZE
        ("process_vm_readv", [pid, "\0" * 16, 1, "\0" * 16, 1, 0]),
        ("process_vm_writev", [pid, "\0" * 16, 1, "\0" * 16, 1, 0]),
        ("pidfd_open", [pid, 0]),
        ("kcmp", [pid, pid, 0, 0, 0]),
        ("kill", [pid, 9]),
        ("tkill", [pid, 9]),
        ("tgkill", [pid, pid, 9]),
        ("tkill", [pid, 6]),
        *([("tgkill", [pid, pid, 6])] if who != "itself" else []),  # SIGABRT
        ("rt_sigqueueinfo", [pid, 9, "\0" * 128]),
        ("prlimit64", [pid, 7, 0, "\0" * 16]),
        ("fcntl", [1, 8, pid]),  # F_SETOWN: its signals would go there
        ("sched_setscheduler", [pid, 0, "\0" * 8]),
    ):
        assert inside.call(name, *args) == "EPERM", name
    for file in ("mem", "maps", "environ", "status", "root", "fd/0"):
        assert inside.call("openat", AT_FDCWD, f"/proc/{pid}/{file}\0", 0) == "EPERM"
    assert os.path.exists(f"/proc/{pid}")


def test_no_socket_can_be_made_and_nobody_reached(inside):
    families = [getattr(socket, f) for f in dir(socket) if f.startswith("AF_")]
    assert len(families) > 10
    for family in families:
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW):
            assert inside.call("socket", int(family), int(kind), 0) == "EPERM"
    assert inside.call("socketpair", 1, 1, 0, "\0" * 8) == "EPERM"
    address = "\x02\0\0\x09\x7f\0\0\x01" + "\0" * 8  # 127.0.0.1:9
    for fd in range(16):
        assert inside.call("connect", fd, address, 16) == "EPERM"
        assert inside.call("bind", fd, address, 16) == "EPERM"
        assert inside.call("listen", fd, 1) == "EPERM"
        assert inside.call("sendto", fd, "x", 1, 0x40, address, 16) == "EPERM"
        assert inside.call("sendto", fd, "x", 1, 0, address, 16) == "EPERM"
        # a listening socket does not become one that may connect, nor a message a connection
        for how in (socket.SHUT_RD, socket.SHUT_RDWR):
            assert inside.call("shutdown", fd, how) == "EPERM"
        for flags in (0, FASTOPEN, FASTOPEN | 0x40, FASTOPEN | 0x4040):
            assert inside.call("sendmsg", fd, "\0" * 56, flags) == "EPERM"
            assert inside.call("sendmmsg", fd, "\0" * 64, 1, flags) == "EPERM"
        assert inside.call("sendto", fd, "x", 1, FASTOPEN, 0, 0) == "EPERM"


def test_no_right_can_be_raised(inside):
    before = status_of(inside.server)
    for name, args in (
        ("setuid", [0]),
        ("setresuid", [0, 0, 0]),
        ("setgroups", [0, 0]),
        ("capset", ["\x22\x05\x08\x20\0\0\0\0", "\x7f" * 24]),
        ("prctl", [4, 1, 0, 0, 0]),  # PR_SET_DUMPABLE
        ("prctl", [47, 2, 21, 0, 0]),  # PR_CAP_AMBIENT_RAISE, CAP_SYS_ADMIN
        ("unshare", [0x10000000]),  # CLONE_NEWUSER
        ("setns", [0, 0]),
        ("mount", ["none\0", "/tmp\0", "tmpfs\0", 0, 0]),
        ("chroot", ["/\0"]),
        ("pivot_root", [".\0", ".\0"]),
        ("personality", [0x400000]),
        ("seccomp", [0, 0, 0]),
        ("bpf", [0, 0, 0]),
        ("io_uring_setup", [1, "\0" * 120]),
        ("userfaultfd", [1]),
        ("perf_event_open", ["\0" * 128, 0, -1, -1, 0]),
        ("keyctl", [0, -3, 0, 0, 0]),
        ("memfd_secret", [0]),
    ):
        assert inside.call(name, *args) == "EPERM", name
    after = status_of(inside.server)
    for key in ("Uid", "Gid", "Groups", "CapEff", "CapPrm", "CapBnd", "NoNewPrivs", "Seccomp"):
        assert before[key] == after[key]


def test_no_code_can_be_made(inside):
    for prot in (4, 5, 6, 7):
        assert inside.call("mmap", 0, 4096, prot, 0x22, -1, 0) == "EPERM"
        assert inside.call("mprotect", 0, 4096, prot) == "EPERM"
    page = inside.call("mmap", 0, 4096, 3, 0x22, -1, 0)
    assert page > 0
    assert inside.call("mprotect", page, 4096, 5) == "EPERM"
    assert inside.call("munmap", page, 4096) == 0


# ---- from outside


def test_the_kernel_says_that_it_has_no_rights(inside):
    s = status_of(inside.server)
    for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb"):
        # a plain user's bounding set is not his to empty: it gives nothing with no_new_privs
        if kind != "Bnd" or inside.user.pw_uid == 0:
            assert s[f"Cap{kind}"] == "0" * 16, kind
    outer = int(status_of("self")["Seccomp_filters"])  # a container's
    assert (s["NoNewPrivs"], s["Seccomp"], s["Seccomp_filters"]) == ("1", "2", str(outer + 2))
    uid = 599999 if inside.user.pw_uid == 0 else inside.user.pw_uid
    assert set(s["Uid"].split()) == set(s["Gid"].split()) | {str(uid)}
    assert s["Groups"] == ""
    assert s["Threads"] == "1"


def test_nobody_but_root_can_look_into_it(inside):
    names = ("environ", "maps", "mem", "fd", "exe", "cwd", "root", "auxv", "stack")
    for pid in (inside.server, inside.launcher, inside.proc.pid):
        for name in names:
            st = os.lstat(f"/proc/{pid}/{name}")
            assert (st.st_uid, st.st_gid) == (0, 0), name
    # its own user is not let in
    code = (
        "import os, sys\n"
        "for f in sys.argv[2:]:\n"
        "    p = f'/proc/{sys.argv[1]}/{f}'\n"
        "    try:\n"
        "        os.listdir(p) if f == 'fd' else open(p, 'rb').read(1)\n"
        "        print(f, 'let in')\n"
        "    except PermissionError:\n"
        "        print(f, 'refused')\n"
    )
    uid = int(status_of(inside.server)["Uid"].split()[0])
    user = type(inside.user)(("x", "x", uid, uid, "", "/", ""))
    # the supervisor, which has the secrets, where that is the same user
    pids = [inside.server] + [inside.proc.pid] * (inside.user.pw_uid != 0)
    for pid in pids:
        args = ["/usr/bin/python3", "-c", code, str(pid), "environ", "maps", "mem", "fd"]
        p = as_user(user, args, {"PATH": "/usr/bin:/bin"}, stdout=subprocess.PIPE)
        out = p.communicate(timeout=30)[0].decode().split("\n")
        assert out[:-1] == [f"{f} refused" for f in ("environ", "maps", "mem", "fd")]


def readable_memory(pid):
    with open(f"/proc/{pid}/maps", encoding="ascii", errors="replace") as maps:
        areas = [line.split() for line in maps]
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as mem:
        for area in areas:
            if "r" not in area[1] or area[-1] in ("[vvar]", "[vsyscall]", "[vvar_vclock]"):
                continue
            first, last = (int(x, 16) for x in area[0].split("-"))
            mem.seek(first)
            yield mem.read(last - first)


@looks_into_others
def test_no_secret_is_in_its_environment_or_memory(inside):
    with open(f"/proc/{inside.proc.pid}/environ", "rb") as f:
        assert SECRET.encode() in f.read()  # it was given, and is found like this
    for pid in (inside.server, inside.launcher):
        with open(f"/proc/{pid}/environ", "rb") as f:
            assert f.read().strip(b"\0") == b""
        assert not any(SECRET.encode() in area for area in readable_memory(pid))
    assert any(SECRET.encode() in area for area in readable_memory(inside.proc.pid))


@looks_into_others
def test_its_descriptors_are_known_ones(inside):
    allowed = r"socket:\[|pipe:\[|anon_inode:\[?(eventpoll|signalfd|pidfd)|/dev/null|"
    allowed += re.escape(inside.state) + "/(artifacts|session-index)"
    for fd in os.listdir(f"/proc/{inside.server}/fd"):
        what = os.readlink(f"/proc/{inside.server}/fd/{fd}")
        assert re.match(allowed, what), (fd, what)
        with open(f"/proc/{inside.server}/fdinfo/{fd}", encoding="ascii") as f:
            flags = int(re.search(r"flags:\s*(\d+)", f.read()).group(1), 8)
        assert int(fd) <= 2 or flags & os.O_CLOEXEC, (fd, what)


def test_an_abort_ends_it_as_one_and_everything_with_it(inside):
    s = Started(inside.user)
    parts = [s.proc.pid, s.launcher, s.server]
    try:
        with pytest.raises((ConnectionError, http.client.HTTPException)):
            s.call("abort")
        assert s.proc.wait(20) == 1
        assert b"server.died signal=6\n" in s.proc.stderr.read()
        wait_for(lambda: not any(os.path.exists(f"/proc/{p}/exe") for p in parts))
    finally:
        s.stop()


# ---- and what it can tell the launcher


def seqpackets(pid):
    """Its sockets that talk to the launcher and the supervisor."""
    with open("/proc/net/unix", encoding="ascii", errors="replace") as f:
        inodes = {line.split()[6] for line in f if line.split()[4] == "0005"}
    found = []
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            what = re.match(r"socket:\[(\d+)\]", os.readlink(f"/proc/{pid}/fd/{fd}"))
        except FileNotFoundError:
            continue  # a connection that has ended meanwhile
        if what and what.group(1) in inodes:
            found.append(int(fd))
    return found


def isolation(inside):
    with urllib.request.urlopen(f"http://127.0.0.1:{inside.port}/isolation", timeout=10) as r:
        return json.load(r)


@looks_into_others
def test_what_is_no_message_is_counted_and_ends_the_launcher_alone(inside):
    assert isolation(inside)["refused_messages"] == 0
    for times in (1, 2):
        launcher = wait_for(lambda: {part(p): p for p in _children(inside.proc.pid)}.get("launcher"))
        sockets = seqpackets(inside.server)
        assert sockets
        for fd in sockets:
            assert inside.call("sendto", fd, "no message", 10, 0, 0, 0) == 10
        wait_for(lambda launcher=launcher: not os.path.exists(f"/proc/{launcher}/exe"))
        # the count is that of all launchers, and the next one works
        wait_for(
            lambda: inside.post("/execute", {"code": "echo ran"}).status == 200,
            seconds=20,
        )
        wait_for(lambda times=times: isolation(inside)["refused_messages"] == times)
    inside.launcher = {part(p): p for p in _children(inside.proc.pid)}["launcher"]

# SPDX-License-Identifier: GPL-2.0-only
"""Level landlock under attack: the server's processes and another run as targets.

Everything of them is in sight there: pids, paths, the network.
"""

import json
import os
import platform
import shutil
import signal
import socket
import subprocess
import tempfile
import textwrap

import pytest

from conftest import _name, _tree, wait_for
from probes import CALLS, SLOW, launcher_pid, look, status_of
from shared import KINDS, Locked, nobody, server  # noqa: F401, a fixture
from support import Later, check_healthy, marked, new_mark
from test_12_failing_steps import hooked

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become somebody else"),
    pytest.mark.skipif(platform.machine() != "x86_64", reason="the filter is for x86-64"),
]


NEIGHBOUR = """
import os, sys, time
secret = "SECRET" + sys.argv[2]
open("mine", "w").write(secret); open(os.environ["TMPDIR"] + "/mine", "w").write(secret)
os.write(1, f"{os.getcwd()} {os.environ['TMPDIR']}\\n".encode())
time.sleep(120)
"""


@pytest.fixture
def neighbour(server):
    """A run beside: its pid and its directories."""

    class Neighbour:
        mark = new_mark()

    events = server.events(NEIGHBOUR, language="python", args=[Neighbour.mark, "x"], timeout_seconds=60,
                           env={"HIDDEN": "of the neighbour"})
    for name, data in events:
        if name == "stdout":
            Neighbour.work, Neighbour.tmp = data["text"].split()
            break
    (Neighbour.pid,) = marked(Neighbour.mark)
    yield Neighbour
    for pid in marked(Neighbour.mark):
        os.kill(pid, signal.SIGKILL)
    assert [name for name, _ in events][-1] == "result"


def targets(server, neighbour):
    return {
        "supervisor": server.pid,
        "server": server.server_pid,
        "launcher": launcher_pid(server),
        "neighbour": neighbour.pid,
    }


REACH = """
def reach(pid):
    buf = ctypes.create_string_buffer(64)
    vec = (ctypes.c_ulong * 2)(ctypes.addressof(buf), 8)
    far = (ctypes.c_ulong * 2)(0x400000, 8)
    cpus = ctypes.create_string_buffer(b"\\1" + b"\\0" * 127)
    limit = ctypes.create_string_buffer(16)
    info = ctypes.create_string_buffer(128)
    proc = f"/proc/{pid}"
    seen = {f: opened(f"{proc}/{f}") for f in ("environ", "mem", "maps", "auxv", "status", "cmdline")}
    for f in ("root", "cwd", "exe", "fd/0", "fd/3"):
        try: seen["link " + f] = os.readlink(f"{proc}/{f}")
        except OSError as e: seen["link " + f] = errno.errorcode[e.errno]
    seen["through root"] = opened(f"{proc}/root/etc/hostname")
    seen["through cwd"] = tried(os.listdir, f"{proc}/cwd")
    seen["fd"] = tried(os.listdir, f"{proc}/fd")
    for name, nr, args in (
        ("ptrace attach", 101, (16, pid, 0, 0)), ("ptrace seize", 101, (0x4206, pid, 0, 0)),
        ("vm read", 310, (pid, vec, 1, far, 1, 0)), ("vm write", 311, (pid, vec, 1, far, 1, 0)),
        ("pidfd_open", 434, (pid, 0)), ("pidfd_getfd", 438, (0, 0, 0)),
        ("kill", 62, (pid, 0)), ("kill 9", 62, (pid, 9)), ("kill group", 62, (-pid, 9)),
        ("tkill", 200, (pid, 9)), ("tgkill", 234, (pid, pid, 9)),
        ("sigqueue", 129, (pid, 9, info)), ("tgsigqueue", 297, (pid, pid, 9, info)),
        ("prlimit get", 302, (pid, 7, 0, limit)), ("prlimit set", 302, (pid, 7, limit, 0)),
        ("setaffinity", 203, (pid, 128, cpus)), ("setscheduler", 144, (pid, 0, limit)),
        ("setparam", 142, (pid, limit)), ("setattr", 314, (pid, limit, 0)),
        ("setpriority", 141, (0, pid, 19)), ("setpriority group", 141, (1, pid, 19)),
        ("setpriority user", 141, (2, 0, 19)), ("ioprio_set", 251, (1, pid, 0x6000)),
        ("kcmp", 312, (pid, os.getpid(), 0, 0, 0)), ("move_pages", 279, (pid, 0, 0, 0, 0, 0)),
        ("migrate_pages", 256, (pid, 0, 0, 0)), ("process_madvise", 440, (0, vec, 1, 4, 0)),
        ("get_robust_list", 274, (pid, info, info)), ("setpgid", 109, (pid, pid)),
    ):
        seen[name] = err(nr, *args)
    return seen
"""
REFUSED = {"EPERM", "EACCES", "ENOSYS", "ESRCH", "EBADF", "ENOENT", "EINVAL"}
# by which it must be: nothing that only happens to fail
EXACTLY = {
    "environ": {"EACCES"}, "mem": {"EACCES"}, "through root": {"EACCES"}, "fd": {"EACCES"},
    "ptrace attach": {"EPERM"}, "vm read": {"EPERM"}, "vm write": {"EPERM"},
    "pidfd_open": {"ENOSYS"}, "pidfd_getfd": {"EPERM"}, "kill": {"EPERM"}, "kill 9": {"EPERM"},
    "tkill": {"EPERM"}, "tgkill": {"EPERM"}, "sigqueue": {"EPERM"}, "tgsigqueue": {"EPERM"},
    "prlimit get": {"EPERM"}, "prlimit set": {"EPERM"}, "setaffinity": {"EPERM"},
    "setpriority": {"EPERM"}, "setpriority group": {"EPERM"}, "setpriority user": {"EPERM"},
    "ioprio_set": {"EPERM"}, "link root": {"EACCES"}, "link fd/0": {"EACCES", "ENOENT"},
}


@pytest.mark.parametrize("whom", ["supervisor", "server", "launcher", "neighbour"])
def test_nothing_of_another_process_can_be_read_or_changed(server, neighbour, whom):
    pid = targets(server, neighbour)[whom]
    before, priority = status_of(pid), os.getpriority(os.PRIO_PROCESS, pid)
    with open(f"/proc/{pid}/limits", encoding="ascii") as f:
        limits = f.read()
    priority = os.getpriority(os.PRIO_PROCESS, pid)
    seen = look(server, REACH + f"show(**reach({pid}))")
    bad = {k: v for k, v in seen.items() if v not in EXACTLY.get(k, REFUSED)}
    assert bad == {}
    after = status_of(pid)
    assert after["Cpus_allowed"] == before["Cpus_allowed"] and after["State"][0] in "SR"
    with open(f"/proc/{pid}/limits", encoding="ascii") as f:
        assert f.read() == limits
    assert os.getpriority(os.PRIO_PROCESS, pid) == priority
    assert server.execute("echo 42", language="shell")["stdout"] == "42\n"


def test_the_caller_itself_is_still_its_own(server):
    seen = look(server, """
        import resource, signal
        resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
        os.sched_setaffinity(0, os.sched_getaffinity(0)); os.nice(1)
        child = os.fork()
        if child == 0: signal.pause()
        os.kill(child, 9)
        show(status=os.waitpid(child, 0)[1], pair=tried(__import__("socket").socketpair))
        """)
    assert seen == {"status": 9, "pair": "ok"}


def test_kill_of_everybody_reaches_nobody_else(server, neighbour):
    seen = look(server, "show(all=err(62, -1, 9), group=err(62, 0, 0))")
    assert seen == {"all": "EPERM", "group": "ok"}
    assert marked(neighbour.mark) == [neighbour.pid]


def test_signals_that_a_descriptor_sends_reach_nobody_else(server, neighbour):
    """F_SETOWN names who gets F_SETSIG's signal when there is something to read."""
    pids = list(targets(server, neighbour).values())
    seen = look(server, f"""
        import fcntl, select
        sent = 0
        for owner in [os.getpid()] + [n for pid in {pids} for n in (pid, -pid)]:
            r, w = os.pipe()
            if sent == 0:
                import signal; got = []; signal.signal(10, lambda *a: got.append(1))
            try:
                fcntl.fcntl(r, fcntl.F_SETOWN, owner)
                fcntl.fcntl(r, fcntl.F_SETSIG, 10 if sent == 0 else 9)
                fcntl.fcntl(r, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
                os.write(w, b"x")
                sent += 1
            except OSError: pass
        show(own=len(got))
        """)
    assert seen == {"own": 1}  # it would work
    assert marked(neighbour.mark) == [neighbour.pid]
    assert all(status_of(pid)["State"][0] in "SR" for pid in pids)
    assert pids == list(targets(server, neighbour).values())


def test_kill_loop_over_every_pid_ends_only_the_caller(server, neighbour):
    alive = {n for n in map(_name, _tree(server.pid)) if n}
    seen = look(server, """
        me, hit = os.getpid(), []
        for pid in range(1, 70000):
            if pid != me and call(62, pid, 0) == 0: hit.append(pid)
        show(hit=hit)
        """)
    assert seen == {"hit": []}
    assert marked(neighbour.mark) == [neighbour.pid]
    assert {n for n in map(_name, _tree(server.pid)) if n} >= {
        n for n in alive if n[0] in (server.pid, server.server_pid, launcher_pid(server))}


def test_there_is_no_network_and_no_socket_with_a_name(server):
    seen = look(server, """
        import socket, fcntl
        pair = socket.socketpair()
        out = {f"family {f}": err(41, f, t, 0) for f in (1, 2, 10, 16, 17, 38, 40) for t in (1, 2, 3)}
        ifconf = {hex(c): tried(fcntl.ioctl, pair[0], c, bytes(64)) for c in (0x8912, 0x8913, 0x8927)}
        show(families=out, ifconf=ifconf)
        """)
    assert set(seen["families"].values()) == {"EAFNOSUPPORT"}
    assert set(seen["ifconf"].values()) == {"EPERM"}


def test_no_datagram_reaches_a_socket_of_the_hosts(server):
    """One of a pair of datagram sockets could send to any name, /dev/log for one. Streams have one peer."""
    place = tempfile.mkdtemp(prefix="sandbox-host-")
    path, name = place + "/log", f"\0sandbox-test-{os.getpid()}"
    try:
        os.chmod(place, 0o755)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as log, \
             socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:  # fmt: skip
            for s, at in ((log, path), (other, name)):
                s.bind(at)
                s.setblocking(False)
            os.chmod(path, 0o777)
            r = server.execute(CALLS + textwrap.dedent(f"""
                import asyncio, socket
                from socket import SOCK_DGRAM, SOCK_RAW, SOCK_SEQPACKET, SOCK_STREAM
                def sends(kind):
                    a, b = socket.socketpair(socket.AF_UNIX, kind)
                    return [tried(a.sendto, b"x", to) for to in ({path!r}, {name!r})]
                show(refused=[tried(sends, k) for k in (SOCK_DGRAM, SOCK_RAW, SOCK_SEQPACKET)],
                     stream=tried(socket.socketpair, socket.AF_UNIX, SOCK_STREAM),
                     loop=tried(asyncio.run, asyncio.sleep(0)))
                """), language="python")
            seen = json.loads(r["stdout"])
            assert seen == {"refused": ["ESOCKTNOSUPPORT"] * 3, "stream": "ok", "loop": "ok"}
            for s in (log, other):
                with pytest.raises(BlockingIOError):
                    s.recv(1)
    finally:
        shutil.rmtree(place)
    told = [v for v in r["meta"]["violations"] if v["syscall"] == "socketpair"]
    assert {v["args"][1] for v in told} == {"0x80002", "0x80003", "0x80005"}, told
    assert {(v["errno"], v["hint"]) for v in told} == {
        ("ESOCKTNOSUPPORT", "only pairs of SOCK_STREAM sockets can be made here")
    }


@hooked
def test_landlock_alone_closes_files_tcp_and_signals():
    """The second lock: without the filter it holds what it can, which is all but UDP."""
    s = Locked("plain", "python", SANDBOX_TEST_FAULT="-seccomp", SANDBOX_MAX_CONCURRENT="1")
    name = f"\0sandbox-test-{os.getpid()}"
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(name)
        listener.listen()
        seen = look(s, f"""
            import socket
            tcp = [tried(f, address) for f, address in (
                (socket.socket().connect, ("127.0.0.1", {s.port})),
                (socket.socket().bind, ("127.0.0.1", 0)))]
            name = tried(socket.socket(socket.AF_UNIX).connect, {name!r})
            show(tcp=tcp, abstract=name, ptrace=err(101, 0, 0, 0, 0), file=opened("/etc/hostname"),
                 signals=[err(62, pid, 0) for pid in ({s.pid}, {s.server_pid})])
            """)
        assert seen.pop("ptrace") == "ok"  # PTRACE_TRACEME: there is no filter
        assert seen.pop("abstract") == "EPERM"
        assert seen == {"tcp": ["EACCES"] * 2, "file": "EACCES", "signals": ["EPERM"] * 2}
    finally:
        listener.close()
        s.stop()


def test_the_neighbours_directories_are_closed_even_by_name(server, neighbour):
    seen = look(server, f"""
        work, tmp = {neighbour.work!r}, {neighbour.tmp!r}
        show(read=opened(work + "/mine"), tmp=opened(tmp + "/mine"), list=tried(os.listdir, work),
             above=tried(os.listdir, os.path.dirname(work)),
             slots=tried(os.listdir, os.path.join(work, "../../..")),
             write=opened(work + "/other", os.O_CREAT | os.O_WRONLY),
             unlink=tried(os.unlink, work + "/mine"), rename=tried(os.rename, work + "/mine", work + "/y"),
             link=tried(os.link, work + "/mine", "mine"), trunc=tried(os.truncate, work + "/mine", 0),
             mkdir=tried(os.mkdir, work + "/d"), chmod=tried(os.chmod, work, 0),
             utime=tried(os.utime, work + "/mine"),
             xattr=tried(os.setxattr, work + "/mine", "user.x", b"y"),
             watch=err(254, call(294, 0), ctypes.create_string_buffer(work.encode()), 0x100))
        """)
    assert set(seen.values()) <= {"EACCES", "EPERM", "EXDEV", "ENOSYS"}, seen
    assert os.path.exists(neighbour.work + "/mine") and os.listdir(neighbour.work) != []


def test_what_belongs_to_the_host_is_closed(server, tmp_path):
    token = "/var/run/secrets/kubernetes.io/serviceaccount"
    made = None
    if not os.path.exists(token):
        made = "/run/secrets"
        os.makedirs(token)
        with open(token + "/token", "w", encoding="ascii") as f:
            f.write("TOKEN")
        subprocess.run(["chmod", "-R", "a+rX", made], check=True)
    seen_by_all = "/var/tmp/sandbox-test-everybody"
    with open(seen_by_all, "w", encoding="ascii") as f:
        f.write("x")
    os.chmod(seen_by_all, 0o666)
    try:
        seen = look(server, f"""
            paths = [{token!r} + "/token", {seen_by_all!r}, "/etc/passwd", "/etc/shadow", "/etc/hosts",
                     "/etc/resolv.conf", "/proc/self/status", "/proc/self/environ", "/proc/cpuinfo",
                     "/proc/sys/kernel/hostname", "/sys/kernel/mm", "/dev/shm", "/tmp", "/var/tmp",
                     "/home", "/root", "/run", "/var", "/", "/etc", "/dev", "/proc", "/dev/tty",
                     {server.state_dir!r}, {server.state_dir!r} + "/artifacts", {server.copy!r}]
            out = {{p: opened(p) for p in paths}}
            made = {{p: opened(p + "/sandbox-made", os.O_CREAT | os.O_WRONLY) for p in
                    ("/dev/shm", "/tmp", "/var/tmp", "/usr", "/etc", "/", {server.state_dir!r})}}
            over = opened({seen_by_all!r}, os.O_WRONLY | os.O_TRUNC)
            show(out=out, made=made, over=over, chmod=tried(os.chmod, {server.state_dir!r}, 0),
                 exe=tried(os.execv, {server.copy!r}, ["x", "--version"]))
            """)
    finally:
        os.unlink(seen_by_all)
        if made:
            shutil.rmtree(made)
    assert {k: v for k, v in seen["out"].items() if v not in ("EACCES", "ENOENT", "ENXIO")} == {}
    for path in (token + "/token", seen_by_all, "/etc/passwd", "/proc/self/status", "/tmp",
                 "/dev/shm", server.state_dir):
        assert seen["out"][path] == "EACCES"
    assert set(seen["made"].values()) == {"EACCES"}
    assert (seen["over"], seen["exe"], seen["chmod"]) == ("EACCES", "EACCES", "EPERM")


SENDER = """
import array, os, socket, time
fds, pairs = array.array("i", [1] * 250), []
try:
    while True:
        pairs.append(socket.socketpair())
        pairs[-1][0].setblocking(False)
        try:
            while True: pairs[-1][0].sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
        except BlockingIOError: pass
except OSError as e:
    os.write(1, os.strerror(e.errno).encode())
time.sleep(60)
"""


def test_descriptors_that_nobody_takes_keep_no_other_run_from_starting(server):
    """The kernel counts them by user: of all runs together, where they share one."""
    events = server.events(SENDER, language="python", timeout_seconds=50)
    for name, data in events:
        if name == "stdout":
            assert data["text"] == "Too many references: cannot splice"
            break
    else:
        pytest.fail("nothing was sent")
    for _ in range(2):
        assert server.execute("print(6*7)", language="python")["stdout"] == "42\n"
    events.close()
    wait_for(lambda: server.load() == 0, 10)


def test_a_runtime_of_the_servers_own_user_stays_as_it_is():
    """It may only be read, but who has it open may change its mode."""
    place = tempfile.mkdtemp(dir="/var/tmp")
    python = shutil.copy("/usr/bin/python3", f"{place}/python3")
    for path in (place, python):
        os.chmod(path, 0o755)
        os.chown(path, nobody(), nobody())
    s = Locked("plain", "python", PATH=f"{place}:/usr/bin:/bin")
    before = os.stat(python)
    try:
        seen = look(s, """
import fcntl
fd = os.open(sys.executable, os.O_RDONLY)
show(path=sys.executable, mode=tried(os.fchmod, fd, 0), owner=tried(os.fchown, fd, -1, -1),
     attribute=tried(os.setxattr, fd, "user.x", b"1"), lost=tried(os.removexattr, fd, "user.x"),
     flags=tried(fcntl.ioctl, fd, 0x40086602, bytes(8)),
     lease=tried(fcntl.fcntl, fd, fcntl.F_SETLEASE, fcntl.F_RDLCK))
""")
        assert seen.pop("path") == python
        assert set(seen.values()) == {"EPERM"}, seen
        after = os.stat(python)
        assert (after.st_mode, after.st_ctime_ns) == (before.st_mode, before.st_ctime_ns)
        check_healthy(s)
    finally:
        s.stop()
        shutil.rmtree(place)


def test_the_program_has_no_right_and_cannot_gain_one(server):
    seen = look(server, """
        show(uid=os.getresuid(), gid=os.getresgid(), groups=os.getgroups(), nnp=call(157, 39, 0, 0, 0, 0),
             seccomp=call(157, 21), root=err(117, 0, 0, 0), unshare=err(272, 0x10000000),
             clone=err(56, 0x10000000 | 17), chroot=err(161, ctypes.create_string_buffer(b"/")),
             fds=[fd for fd in range(3, 1024) if call(72, fd, 1) >= 0])
        """)
    uid = nobody() if server.kind == "plain" else seen["uid"][0]
    assert uid != 0 and seen["uid"] == [uid] * 3 and seen["groups"] in ([], [uid])
    assert (seen["nnp"], seen["seccomp"], seen["fds"]) == (1, 2, [])
    assert {seen[k] for k in ("root", "unshare", "clone", "chroot")} == {"EPERM"}


def test_refusals_are_reported_with_their_rules_errors(server):
    r = server.execute(CALLS + "print(err(62, -1, 9), err(203, 1, 8, 0), err(101, 16, 1, 0, 0))",
                       language="python")
    assert r["stdout"] == "EPERM EPERM EPERM\n"
    told = {v["syscall"]: v["errno"] for v in r["meta"]["violations"]}
    assert {"kill": "EPERM", "sched_setaffinity": "EPERM", "ptrace": "EPERM"}.items() <= told.items()


# ---- the server's own processes


def test_none_of_the_servers_processes_can_be_looked_into(server):
    """Not dumpable: /proc/PID belongs to root then, whoever the process is."""
    for pid in _tree(server.pid):
        owner = os.stat(f"/proc/{pid}/environ").st_uid
        assert owner == 0, status_of(pid)["Name"]


def leave(kind, whom, state_dir, servers):
    """A server with a run that has daemons, killed; what was left of it."""
    s = Locked(kind, "python", state_dir=state_dir)
    servers.append(s)
    mark = new_mark()
    code = "import os, time\nfor _ in range(3):\n  if os.fork() == 0: os.setsid()\ntime.sleep(300)"
    asked = Later(s, code, language="python", args=[mark], timeout_seconds=200)
    wait_for(lambda: len(marked(mark)) >= 4, 30)
    if whom == "launcher":
        os.kill(launcher_pid(s), signal.SIGKILL)
        wait_for(lambda: marked(mark) == [], 10 * SLOW)
        asked.thread.join(30)
        s.wait_ready()
        s.stop()
    else:
        s.pids()
        os.kill(s.pid if whom == "supervisor" else s.server_pid, signal.SIGKILL)
        s.proc.wait(20)
        s.stopped = True
        wait_for(lambda: marked(mark) == [], 10 * SLOW)
        s.check_processes_gone()
        s._remove_state()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("whom", ["launcher", "server", "supervisor"])
def test_nothing_is_left_after_a_kill(kind, whom):
    state = tempfile.mkdtemp(prefix="sandbox-state-")
    servers = []
    try:
        leave(kind, whom, state, servers)
        s = Locked(kind, "python", state_dir=state)
        servers.append(s)
        assert len([d for d in os.listdir(state) if d.startswith("sandbox-runs.")]) == 1
        check_healthy(s)
        s.stop()
        assert not [d for d in os.listdir(state) if d.startswith("sandbox-runs.")]
    finally:
        for s in servers:
            if not s.stopped:
                s.kill()
        shutil.rmtree(state, ignore_errors=True)


def test_a_killed_init_ends_its_run_and_leaves_nobody(server):
    code = "import os, time\nfor _ in range(3):\n  if os.fork() == 0: os.setsid()\ntime.sleep(60)"
    mark = new_mark()
    asked = Later(server, code, language="python", args=[mark], timeout_seconds=50)
    wait_for(lambda: len(marked(mark)) >= 4, 20)
    known = set(marked(mark))
    inits = {int(status_of(p)["PPid"]) for p in known} - known
    assert len(inits) == 1
    os.kill(inits.pop(), signal.SIGKILL)
    wait_for(lambda: marked(mark) == [], 10)
    asked.thread.join(30)
    assert asked.over()
    check_healthy(server)

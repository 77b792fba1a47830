# SPDX-License-Identifier: GPL-2.0-only
"""Must hold 10: what the code does not see."""

import json
import os
import platform
import secrets
import sys

import pytest

from conftest import TOP, Server, wait_for
from probes import Asking, host_name, look

CANARY = "canary" + secrets.token_hex(12)
RT_SIGACTION = {"x86_64": 13, "aarch64": 134}.get(platform.machine())


@pytest.fixture(scope="module")
def watched():
    """A server with a secret in its environment."""
    s = Server({"CANARY": CANARY, "AWS_SECRET_ACCESS_KEY": CANARY}, (), "python,shell")
    yield s
    s.stop()


@pytest.fixture(scope="module")
def canary_files():
    """Files with the secret, readable by all, at places of the host that are not bound."""
    made = []
    for where in ("/var/tmp", "/tmp", os.path.expanduser("~"), TOP + "/build", "/dev/shm", "/srv"):
        path = os.path.join(where, "sandbox-canary-" + secrets.token_hex(6))
        try:
            with open(path, "w", encoding="ascii") as f:
                f.write(CANARY)
            os.chmod(path, 0o644)
            made.append(path)
        except OSError:
            pass  # not ours to write
    assert made
    yield made
    for path in made:
        os.unlink(path)


def test_the_environment_is_the_documented_one(watched):
    seen = look(watched, "show(env=dict(os.environ))")["env"]
    assert sorted(seen) == [
        "HOME",
        "LANG",
        "OUTPUT_DIR",
        "PATH",
        "PYTHONDONTWRITEBYTECODE",
        "PYTHONUNBUFFERED",
        "TMPDIR",
    ]
    assert (seen["HOME"], seen["TMPDIR"], seen["OUTPUT_DIR"]) == ("/tmp", "/tmp", "/work/output")
    assert seen["LANG"] == "C.UTF-8"
    r = watched.execute("tr '\\0' '\\n' </proc/$$/environ", language="shell")
    names = {line.split("=")[0] for line in r["stdout"].splitlines()}
    assert names == {"HOME", "LANG", "OUTPUT_DIR", "PATH", "TMPDIR"}


def test_no_environment_of_the_server_anywhere_in_proc(watched):
    seen = look(
        watched,
        """
        found = {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            for name in ("environ", "cmdline", "maps", "mem"):
                found[pid + "/" + name] = opened(f"/proc/{pid}/{name}")
        whole = ""
        for pid in filter(str.isdigit, os.listdir("/proc")):
            for name in ("environ", "cmdline", "comm", "status"):
                try: whole += text(f"/proc/{pid}/{name}")
                except OSError: pass
        show(found=found, whole=whole)
        """,
    )
    assert CANARY not in seen["whole"]
    assert seen["found"]["1/environ"] == seen["found"]["1/mem"] == "EACCES"
    assert seen["found"]["1/maps"] == "EACCES"


def test_the_port_is_not_seen(watched):
    hex_port = f"{watched.port:04X}"
    seen = look(
        watched,
        f"""
        import socket
        tables = {{}}
        for name in ("tcp", "tcp6", "udp", "udp6", "unix"):
            try: tables[name] = text("/proc/net/" + name).strip().split("\\n")[1:]
            except OSError as e: tables[name] = errno.errorcode[e.errno]
        def connect():
            with socket.socket() as s:
                s.connect(("127.0.0.1", {watched.port}))
        devices = [l.split(":")[0].strip() for l in text("/proc/net/dev").split("\\n")[2:] if l]
        show(tables=tables, connect=tried(connect), devices=devices)
        """,
    )
    assert hex_port not in json.dumps(seen["tables"])
    assert all(v in ([], "ENOENT") for v in seen["tables"].values()), seen["tables"]
    assert seen["connect"] == "EAFNOSUPPORT"
    assert seen["devices"] == ["lo"]


def test_the_files_of_another_run_are_not_seen(watched):
    mark = "mark" + secrets.token_hex(8)
    other = Asking(
        watched,
        "for d in /work /tmp /dev/shm; do echo secret > $d/" + mark + "; done; sleep 4",
        language="shell",
    )
    wait_for(lambda: watched.load() == 1)
    seen = look(
        watched,
        f"""
        import time
        found = []
        for _ in range(3):
            for top in ("/work", "/tmp", "/dev/shm", "/var", "/run", "/proc"):
                for here, dirs, files in os.walk(top):
                    found += [os.path.join(here, n) for n in dirs + files if {mark[:5]!r} in n
                              and {mark[5:]!r} in n]
            time.sleep(0.3)
        show(found=found, work=sorted(os.listdir("/work")), tmp=os.listdir("/tmp"),
             shm=os.listdir("/dev/shm"))
        """,
    )
    assert watched.load() == 1, "the other one was there all the time"
    assert seen == {"found": [], "work": ["output", "script.py"], "tmp": [], "shm": []}
    assert other.result().json["exit_code"] == 0
    # nor afterwards, whichever slot it was
    for _ in range(3):
        r = watched.execute("ls -A /work /tmp /dev/shm", language="shell")
        assert r["stdout"] == "/dev/shm:\n\n/tmp:\n\n/work:\noutput\nscript.sh\n"


def test_the_processes_of_another_run_and_of_the_host_are_not_seen(watched):
    other = Asking(watched, "sleep 3.25", language="shell")
    wait_for(lambda: watched.load() == 1)
    seen = look(
        watched,
        """
        all = sorted((int(p), text(f"/proc/{p}/comm").strip()) for p in os.listdir("/proc")
                     if p.isdigit())
        alive = []
        for pid in range(1, 40000):
            try:
                os.kill(pid, 0)
                alive.append(pid)
            except ProcessLookupError: pass
            except PermissionError: alive.append(pid)
        show(all=all, me=os.getpid(), parent=os.getppid(), alive=alive)
        """,
    )
    assert seen["me"] == 2 and seen["parent"] == 1
    assert [pid for pid, _ in seen["all"]] == [1, 2] == seen["alive"]
    assert seen["all"][0][1] in ("sandbox-worker", "sandbox-init")
    assert "python" in seen["all"][1][1]
    assert other.result().json["exit_code"] == 0


def test_host_files_outside_the_runtime_are_not_there(watched, canary_files):
    wanted = canary_files + [
        "/etc/shadow",
        "/etc/machine-id",
        "/etc/ssh",
        "/etc/environment",
        "/etc/resolv.conf",
        "/boot",
        "/home",
        "/opt",
        "/srv",
        "/mnt",
        "/media",
        "/sys",
        "/run/docker.sock",
        "/var/lib",
        "/var/log",
        "/var/run",
        TOP + "/Makefile",
        watched.state_dir,
    ]
    wanted = [w for w in wanted if not w.startswith("/usr/")]
    seen = look(watched, f"show(errors={{p: opened(p) for p in {wanted!r}}})")["errors"]
    assert seen == {p: "ENOENT" for p in wanted}


def test_the_root_has_only_what_it_should(watched):
    seen = look(
        watched,
        """
        show(root=sorted(os.listdir("/")), run=os.listdir("/run"), var=sorted(os.listdir("/var")),
             dev=sorted(os.listdir("/dev")), etc=sorted(os.listdir("/etc")),
             passwd=text("/etc/passwd"), exe=sys.executable)
        """,
    )
    always = {"bin", "dev", "etc", "lib", "proc", "run", "sbin", "tmp", "usr", "var", "work"}
    perhaps = {"lib32", "lib64", "libx32", "go-cache", "packages", "node_modules", seen["exe"].split("/")[1]}
    assert always <= set(seen["root"]) <= always | perhaps
    assert seen["run"] == [] and seen["var"] == ["tmp"]
    assert seen["dev"] == [
        "fd", "full", "null", "random", "shm", "stderr", "stdin", "stdout", "urandom", "zero",
    ]  # fmt: skip
    for name in ("shadow", "machine-id", "resolv.conf", "gshadow", "ssh", "sudoers", "fstab"):
        assert name not in seen["etc"]
    assert [line.split(":")[0] for line in seen["passwd"].split()] == ["sandbox", "nobody"]


def test_of_directories_on_the_way_to_a_runtime_only_the_way_is_seen(watched):
    """An interpreter in a home directory brings itself, not its neighbours."""
    seen = look(
        watched,
        """
        ways, at = {}, os.path.dirname(sys.prefix)
        while at not in ("/", "/usr"):
            ways[at] = sorted(os.listdir(at))
            at = os.path.dirname(at)
        show(ways=ways, prefix=sys.prefix)
        """,
    )
    if seen["prefix"].startswith("/usr"):
        assert seen["ways"] == {}
    for names in seen["ways"].values():
        assert len(names) == 1, seen["ways"]


def test_host_process_names_are_nowhere_in_proc(watched):
    seen = look(
        watched,
        """
        whole = {}
        for top, dirs, files in os.walk("/proc"):
            if top == "/proc": dirs[:] = [d for d in dirs if d != "self" and d != "thread-self"]
            if top.count("/") > 4: dirs[:] = []
            for name in files:
                path = os.path.join(top, name)
                if name in ("kmsg", "mem", "pagemap", "clear_refs", "trace_pipe"): continue
                try:
                    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
                    try: data = os.read(fd, 100000)
                    finally: os.close(fd)
                except OSError: continue
                for word in (b"sandbox-http", b"sandbox-launch", b"pytest", b"systemd-journal"):
                    if word in data: whole[path] = word.decode()
        show(whole=whole)
        """,
    )
    assert seen["whole"] == {}


def test_cgroup_paths_are_not_seen(watched):
    seen = look(
        watched,
        """
        mounts = text("/proc/self/mountinfo")
        show(cgroup=text("/proc/self/cgroup"), first=text("/proc/1/cgroup"),
             mounted=[l for l in mounts.split("\\n") if " - cgroup" in l],
             sys=opened("/sys"), there=opened("/sys/fs/cgroup"))
        """,
    )
    for lines in (seen["cgroup"], seen["first"]):
        assert lines.strip() and all(x.split(":", 2)[2] == "/" for x in lines.strip().split("\n"))
    assert seen["mounted"] == []
    assert seen["sys"] == seen["there"] == "ENOENT"


def test_mounts_name_no_place_of_the_server(watched):
    seen = look(watched, "show(m=text('/proc/self/mountinfo'), n=os.uname().nodename)")
    for word in (watched.state_dir, os.path.basename(watched.state_dir), "sandbox-state"):
        assert word not in seen["m"]
    assert seen["n"] == host_name(watched)


def test_the_canary_is_in_no_file_that_can_be_read(watched, canary_files):
    """A search of everything but the runtime; of the searching script it is known."""
    r = watched.execute(
        f"grep -rsl {CANARY} /etc /work /tmp /dev/shm /run /var 2>/dev/null; echo end",
        language="shell",
    )
    assert r["stdout"] == "/work/script.sh\nend\n"


class Deaf(Server):
    """A server whose parent ignored every signal, those of the C library too."""

    def command_line(self, args, env):
        code = (
            "import ctypes, os, sys\n"
            "for n in range(1, 65):\n"
            "    ignore = (ctypes.c_ulong * 4)(1)\n"
            f"    ctypes.CDLL(None).syscall({RT_SIGACTION}, n, ignore, None, 8)\n"
            "os.execv(sys.argv[1], sys.argv[1:])"
        )
        return [sys.executable, "-c", code, *super().command_line(args, env)]


@pytest.mark.skipif(not RT_SIGACTION, reason="the number of the call is not known here")
@pytest.mark.parametrize("warm", ["0", "1"])
def test_signals_are_as_at_a_first_start(warm):
    s = Deaf({"SANDBOX_WARM": warm}, (), "shell")
    try:
        wait_for(lambda: warm == "0" or s.get("/health").json["warm"]["ready"]["shell"])
        r = s.execute("grep -E '^Sig(Ign|Blk)' /proc/self/status")
        assert r["stdout"].split()[1::2] == ["0" * 16] * 2
    finally:
        s.stop()

# SPDX-License-Identifier: GPL-2.0-only
"""Attempts by hostile code and by a server taken over, and odd ways to be started."""

import contextlib
import ctypes
import fcntl
import http.client
import json
import os
import re
import resource
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time

import pytest
from conftest import BINARY, SANITIZED, TOP, wait_for
from probes import launcher_pid
from support import Later, check_healthy, timed

F_ADD_SEALS = 1033
ALL_SEALS = 0xF
PIDFD_GETFD = 438
MSG_RUN, MSG_KILL, MSG_DONE, MSG_FAILED, MSG_WARM = 1, 2, 7, 8, 9
VERDICT_TIMEOUT = 2


def test_a_signal_that_means_cpu_time_is_no_evidence_for_it(server):
    answer = server.execute("import os, signal\nos.kill(os.getpid(), signal.SIGXCPU)")
    assert answer["meta"]["verdict"] == "signal"
    assert answer["meta"]["signal"] == signal.SIGXCPU
    assert answer["exit_code"] == 128 + signal.SIGXCPU


def test_cpu_time_is_judged_by_time(server):
    answer = server.execute("while True: pass", limits={"cpu_seconds": 1}, timeout_seconds=20)
    assert answer["meta"]["verdict"] == "cpu_timeout"


def test_nobody_sees_which_programs_the_host_starts(server):
    code = """
import ctypes, fcntl, os
libc = ctypes.CDLL(None, use_errno=True)
fd = libc.inotify_init1(0)
for mask in 0x1, 0x10, 0x20, 0xfff:
    print(libc.inotify_add_watch(fd, b"/usr/bin", mask), ctypes.get_errno())
try:
    fcntl.fcntl(os.open("/usr/bin", os.O_RDONLY), 1026, 1)
except PermissionError as e:
    print(e.errno)
print(libc.inotify_add_watch(fd, b"/tmp", 0x302))  # IN_MODIFY, IN_CREATE, IN_DELETE
"""
    answer = server.execute(code)
    assert answer["stdout"] == "-1 1\n" * 4 + "1\n1\n"


SPIN = """
import os, time
for call in (lambda: os.setpriority(os.PRIO_PROCESS, 1, 19),
             lambda: os.setpriority(os.PRIO_USER, 0, 19),
             lambda: os.sched_setaffinity(1, {0})):
    try:
        call()
        print("worked")
    except PermissionError:
        pass
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
for _ in range(55):
    if os.fork() == 0:
        while True: pass
"""


def test_process_1_cannot_be_slowed_down(server):
    answer, seconds = timed(lambda: server.execute(SPIN + "time.sleep(60)", timeout_seconds=1))
    assert answer["meta"]["verdict"] == "timeout"
    assert answer["stdout"] == ""
    assert seconds < (6 if SANITIZED else 2)


def test_many_that_spin_do_not_delay_the_answer(server):
    answer, seconds = timed(lambda: server.execute(SPIN + "os._exit(3)"))
    assert (answer["meta"]["verdict"], answer["exit_code"]) == ("nonzero_exit", 3)
    assert seconds < (6 if SANITIZED else 2)


def test_no_helper_is_run_for_a_core(server):
    """Exactly 1 is what the kernel takes for no: at 0 a helper would still be run, as root."""
    if resource.getrlimit(resource.RLIMIT_CORE)[1] == 0:
        pytest.skip("the hard limit is 0 already")
    answer = server.execute("import resource\nprint(resource.getrlimit(resource.RLIMIT_CORE))")
    assert answer["stdout"] == "(1, 1)\n"


@pytest.mark.skipif(SANITIZED, reason="the launcher's own processes are too large for that")
def test_too_little_memory_to_begin_with_is_no_fault_of_ours(server):
    """And whoever comes next into the same slot does not notice."""
    counted = server.get("/health").json["isolation"]["layers"]["memory_limit"]
    for _ in range(12):
        answer = server.execute("pass", limits={"memory_mb": 8})
        if answer["meta"]["verdict"] == "nonzero_exit" and not counted:
            assert "MemoryError" in answer["stderr"]  # refused before anybody looked
        elif answer["meta"]["verdict"] != "ok":
            assert answer["meta"]["verdict"] == "out_of_memory"
            assert answer["exit_code"] == 137
        assert server.execute("print(1)")["stdout"] == "1\n"


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1, 2)])
def test_started_without_standard_descriptors(tmp_path, closed):
    script = tmp_path / "script.sh"
    script.write_text("echo out; echo err >&2; exit 3\n")
    done = subprocess.run(
        [BINARY, "run", "--mode", "shell", "--state-dir", str(tmp_path), str(script)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: [os.close(fd) for fd in closed],
        timeout=60,
    )
    assert done.returncode == 3
    assert done.stdout == (b"" if 1 in closed else b"out\n")
    assert done.stderr == (b"" if 2 in closed else b"err\n")


def test_a_reader_of_the_log_that_goes_away_takes_nobody_along(tmp_path):
    """The launcher speaks when a slot is rebuilt, which code can bring about."""
    r, w = os.pipe()
    proc = subprocess.Popen(
        [BINARY, "serve", "--mode", "shell", "--port", "0", "--state-dir", str(tmp_path)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=w,
    )
    os.close(w)
    try:
        text = b""
        while b"server.listening" not in text:
            piece = os.read(r, 4096)
            assert piece, text
            text += piece
        os.close(r)
        port = int(re.search(rb"port=(\d+)", text).group(1))
        for code in "tail /dev/zero", "echo hi":
            c = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            body = json.dumps({"code": code, "limits": {"memory_mb": 16}})
            c.request("POST", "/execute", body, {"Content-Type": "application/json"})
            answer = json.loads(c.getresponse().read())
            c.close()
        assert answer["stdout"] == "hi\n"
        assert proc.poll() is None
    finally:
        proc.terminate()
        assert proc.wait(40) == 0


@pytest.mark.skipif(SANITIZED, reason="a sanitizer needs what is taken here")
def test_the_server_can_open_nothing_and_start_nothing(server):
    with open(f"/proc/{server.server_pid}/status", encoding="ascii") as f:
        status = dict(line.split(":", 1) for line in f if ":" in line)
    assert status["Seccomp"].strip() == "2"
    assert status["NoNewPrivs"].strip() == "1"
    assert int(status["CapEff"], 16) == int(status["CapPrm"], 16) == 0


def test_who_waits_for_a_turn_outlives_the_launcher(start):
    s = start(mode="shell", SANDBOX_MAX_CONCURRENT="1", SANDBOX_QUEUE="1")
    running = threading.Thread(target=lambda: s.post("/execute", {"code": "sleep 20"}))
    running.start()
    wait_for(lambda: s.load() == 1)
    waiting = Later(s, "echo still here")
    launcher = [p for p in s.pids() if p not in (s.pid, s.server_pid)][0]
    with open(f"/proc/{launcher}/comm", encoding="ascii") as f:
        assert f.read() == "sandbox-launch\n"
    time.sleep(0.2)  # until the second one is in the queue, which nothing shows
    os.kill(launcher, signal.SIGKILL)
    assert waiting.result(30)["stdout"] == "still here\n"
    running.join()


# ---- a server taken over, from wire/message.h and wire/input.h


def message_bytes():
    """sizeof(struct message), which every change of the wire may change."""
    code = '#include "wire/message.h"\n#include <stdio.h>\nint main(void)'
    code += '{ printf("%zu", sizeof(struct message)); }'
    with tempfile.TemporaryDirectory() as d:
        cc = os.environ.get("CC", "gcc").split()
        flags = ["-D_GNU_SOURCE", f"-I{TOP}/src", "-x", "c", "-", "-o", d + "/size"]
        subprocess.run([*cc, *flags], input=code.encode(), check=True)
        return int(subprocess.run([d + "/size"], stdout=subprocess.PIPE, check=True).stdout)


class Stolen:
    """The server's end of the launcher's socket; the server itself stands still."""

    def __init__(self, server):
        self.server = server
        self.launcher = launcher_pid(server)
        Stolen.size = message_bytes()
        os.kill(server.server_pid, signal.SIGSTOP)
        try:
            self.socket = self._find()
        except BaseException:
            os.kill(server.server_pid, signal.SIGCONT)
            raise

    def _find(self):
        libc = ctypes.CDLL(None, use_errno=True)
        pid_fd = os.pidfd_open(self.server.server_pid)
        try:
            for number, what in sorted(self.server.fds().items()):
                if not what.startswith("socket:"):
                    continue
                fd = libc.syscall(PIDFD_GETFD, pid_fd, number, 0)
                if fd < 0:
                    pytest.skip("descriptors of other processes cannot be had here")
                s = socket.socket(fileno=fd)
                if s.family == socket.AF_UNIX and s.type == socket.SOCK_SEQPACKET:
                    try:  # the supervisor's socket does not answer
                        self.run(s, 1, b"true")
                        self.end_of(s, 1, 3)
                        return s
                    except TimeoutError:
                        pass
                s.close()
        finally:
            os.close(pid_fd)
        raise AssertionError("no socket to the launcher")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """Numbers of runs never come again, and the server does not know which we took."""
        self.socket.close()
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.launcher, signal.SIGKILL)
        os.kill(self.server.server_pid, signal.SIGCONT)

        def answers():
            return self.server.post("/execute", {"code": "true", "language": "shell"}).status == 200

        wait_for(answers, 30)

    @staticmethod
    def record(kind, name, data):
        text = struct.pack("<IIQ", kind, len(name), len(data)) + name + b"\0" + data + b"\0"
        return text + b"\0" * (-len(text) % 8)

    @classmethod
    def message(cls, kind, fds, run, rest=b""):
        text = struct.pack("<IIQ", kind, fds, run) + rest
        return text + b"\0" * (cls.size - len(text))

    @classmethod
    def run(cls, s, number, code, seals=ALL_SEALS, wall_ms=5000, row=0):
        text = cls.record(1, b"", code) + cls.record(0, b"", b"")
        fd = os.memfd_create("input", os.MFD_ALLOW_SEALING)
        os.write(fd, text)
        fcntl.fcntl(fd, F_ADD_SEALS, seals)
        plan = struct.pack("<2I6IQ", row, 0, wall_ms, 5000, 64, 16, 16, 10, len(text))
        s.settimeout(2)
        try:
            socket.send_fds(s, [cls.message(MSG_RUN, 1, number, plan)], [fd])
        finally:
            os.close(fd)

    @classmethod
    def end_of(cls, s, number, seconds):
        """(type, what follows its head) of the last message about a run"""
        s.settimeout(seconds)
        while True:
            text, fds, _, _ = socket.recv_fds(s, cls.size, 8)
            for fd in fds:
                os.close(fd)
            kind, _, run = struct.unpack_from("<IIQ", text)
            if run == number and kind in (MSG_DONE, MSG_FAILED):
                return kind, text[16:]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can take the server's socket")
class TestServerTakenOver:
    def test_an_input_that_can_change_is_refused(self, start):
        """Whoever sends one is no server of ours: the launcher ends, and there is a new one."""
        for seals in (0, 0x2, 0x8, 0x7 & ~0x4):
            s = start(mode="shell")
            with Stolen(s) as stolen:
                stolen.run(stolen.socket, 10, b"true", seals=seals)
                stolen.socket.settimeout(10)
                while said := stolen.socket.recv(stolen.size):  # until then it may tell what waits
                    assert struct.unpack_from("<I", said)[0] == MSG_WARM
            check_healthy(s, "shell")

    def test_a_flood_of_messages_does_not_stretch_a_deadline(self, start):
        s = start(mode="shell")
        over = threading.Event()
        with Stolen(s) as stolen:
            flood = stolen.socket.dup()
            nothing = stolen.message(MSG_KILL, 0, 99)

            def send():
                while not over.is_set():
                    try:
                        flood.send(nothing, socket.MSG_DONTWAIT)
                    except BlockingIOError:
                        time.sleep(0)

            stolen.run(stolen.socket, 2, b"sleep 30", wall_ms=500)
            threads = [threading.Thread(target=send) for _ in range(2)]
            for t in threads:
                t.start()
            begin = time.monotonic()
            kind, rest = stolen.end_of(stolen.socket, 2, 20)
            over.set()
            for t in threads:
                t.join()
            flood.close()
            assert (kind, struct.unpack_from("<I", rest)[0]) == (MSG_DONE, VERDICT_TIMEOUT)
            assert time.monotonic() - begin < (10 if SANITIZED else 3)
        check_healthy(s, "shell")

    def test_a_server_that_asks_and_never_reads_is_left(self, start):
        s = start(mode="shell")
        with Stolen(s) as stolen:
            with pytest.raises(OSError):  # the launcher has hung up
                for number in range(100, 20000):
                    stolen.run(stolen.socket, number, b"true", row=7)
        s.wait_log(r"launcher\.lost")
        s.wait_ready()
        check_healthy(s, "shell")

# SPDX-License-Identifier: GPL-2.0-only
"""From start to end: draining, a launcher that dies, and who the processes are."""

import os
import re
import resource
import shutil
import signal
import subprocess
import time

import pytest

from conftest import (
    BINARY,
    LEAVES_ROOT,
    Raw,
    _cgroups,
    _children,
    _name,
    _tree,
    get,
    looks_into_others,
    post,
    wait_for,
)
from probes import (
    SLOW,
    Asking,
    as_user,
    binary_for_all,
    clean_env,
    launcher_pid,
    look,
    own_place,
    path_of,
    plain_user,
    processes_of_uids,
    status_of,
)

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
NO_CAPS = {f"Cap{kind}": "0" * 16 for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb")}


def terminate(server):
    """SIGTERM, and the first thing that shows it was heard."""
    server.pids()
    server.proc.send_signal(signal.SIGTERM)
    wait_for(lambda: "server.draining" in server.log())


# ---- the end


def test_sigterm_without_runs_ends_at_once_with_0(start):
    s = start(mode="shell")
    begin = time.monotonic()
    s.stop()
    assert time.monotonic() - begin < 2 * SLOW


def test_sigterm_answers_the_running_and_refuses_the_new(start):
    s = start(mode="shell")
    # connections from before: an idle one is kept until the end, a new one may not come in
    running = Asking(s, "echo begun; sleep 3; echo ended")
    wait_for(lambda: s.load() == 1)
    probes = [Raw(s.port) for _ in range(4)]
    terminate(s)
    answers = []
    for c, request in zip(
        probes, (get("/readyz"), get("/health"), post({"code": "echo new"}), get("/healthz"))
    ):
        c.send(request)
        answers.append(c.reply())
    ready, health, new, alive = answers
    assert (ready.status, ready.json) == (503, {"status": "draining"})
    assert (health.status, health.json["status"]) == (503, "draining")
    assert health.json["current_load"] == 1
    assert (new.status, new.json["code"]) == (503, "draining")
    assert alive.status == 200
    assert [a.headers.get("retry-after") for a in answers] == ["1", "1", "1", None]
    for c in probes:
        c.close()
    answer = running.result()
    assert (answer.status, answer.json["stdout"]) == (200, "begun\nended\n")
    s.proc.wait(10)  # by itself
    s.stop(status=0)


def test_sigint_is_a_sigterm(start):
    s = start(mode="shell")
    running = Asking(s, "sleep 1; echo ended")
    wait_for(lambda: s.load() == 1)
    s.stop(signal.SIGINT)
    assert running.result().json["stdout"] == "ended\n"


def asleep(server, count=1):
    """Programs that have come as far as `sleep 60`, seen from outside."""
    found = 0
    for pid in _tree(launcher_pid(server)):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                found += f.read() == b"sleep\0" + b"60\0"
        except OSError:
            pass  # it ended in between
    return found == count


ENDED = "killed by signal 9 (SIGKILL): the server is shutting down"


def killed(answer):
    """The answer of a run that said `begun`, and was killed since the server ends."""
    assert answer.status == 200, answer
    r = answer.json
    assert (r["exit_code"], r["meta"]["verdict"], r["meta"]["signal"]) == (137, "signal", 9), r
    assert (r["stdout"], r["stderr"], r["meta"]["message"]) == ("begun\n", ENDED + "\n", ENDED), r
    return True


def test_a_second_sigterm_kills_the_runs_and_answers_them(start):
    s = start(mode="shell")
    with s.raw(post({"code": "trap '' TERM; echo begun; sleep 60"})) as c:
        wait_for(lambda: asleep(s))
        terminate(s)
        assert s.proc.poll() is None
        begin = time.monotonic()
        s.stop()
        assert time.monotonic() - begin < 3 * SLOW
        assert killed(c.reply()) and c.ended()
    assert "request.gone" not in s.log()


def test_the_grace_period_ends_it_too(start):
    s = start(mode="shell", SANDBOX_GRACE_SEC="1")
    with s.raw(post({"code": "echo begun; sleep 60"})) as c:
        wait_for(lambda: asleep(s))
        begin = time.monotonic()
        s.stop()
        assert 1 <= time.monotonic() - begin < 4 * SLOW
        assert "server.grace_over" in s.log()
        assert killed(c.reply()) and c.ended()
    assert "request.gone" not in s.log()


def test_a_client_that_never_reads_does_not_outlive_the_grace_period(start):
    s = start(mode="shell", SANDBOX_GRACE_SEC="1")
    idle = [s.raw() for _ in range(20)]
    half = [s.raw(b"POST /execute HTTP/1.1\r\n") for _ in range(20)]
    begin = time.monotonic()
    s.stop()
    assert time.monotonic() - begin < 4 * SLOW
    assert all(c.ended() for c in idle + half)


# ---- a launcher that dies


def test_when_the_launcher_dies_the_run_is_500_and_the_next_request_works(start):
    s = start(mode="shell")
    running = [Asking(s, "sleep 60") for _ in range(2)]
    wait_for(lambda: s.load() == 2)
    s.pids()
    first = launcher_pid(s)
    os.kill(first, signal.SIGKILL)
    for r in running:
        answer = r.result(10)
        assert (answer.status, answer.json["code"]) == (500, "launcher_lost")
    wait_for(lambda: s.get("/readyz").status == 200)
    assert s.execute("echo again")["stdout"] == "again\n"
    assert launcher_pid(s) != first
    assert s.load() == 0
    assert "launcher.died" in s.log()


def test_while_there_is_no_launcher_requests_are_told_so(start):
    s = start(mode="shell")
    os.kill(launcher_pid(s), signal.SIGKILL)
    seen = set()

    def back():
        r = s.post("/execute", {"code": "true"})
        seen.add((r.status, r.json.get("code")))
        return r.status == 200

    wait_for(back, step=0)
    assert seen - {(200, None)} <= {(503, "not_ready"), (500, "launcher_lost")}
    assert s.get("/healthz").status == 200


def test_when_the_server_dies_everything_ends_with_1(start):
    s = start(mode="shell")
    with s.raw(post({"code": "sleep 60"})):
        wait_for(lambda: s.load() == 1)
        s.pids()
        os.kill(s.server_pid, signal.SIGKILL)
        s.proc.wait(10)  # by itself
        s.stop(status=1)


def test_a_worker_that_dies_is_replaced(start):
    s = start(mode="shell", SANDBOX_MAX_CONCURRENT="1", SANDBOX_WARM="0")
    (worker,) = lasting_children(launcher_pid(s))
    os.kill(worker, signal.SIGKILL)
    wait_for(lambda: _children(launcher_pid(s)) not in ([], [worker]))
    assert s.execute("echo again")["stdout"] == "again\n"


# ---- who they are


def environment_of(pid):
    with open(f"/proc/{pid}/environ", "rb") as f:
        return f.read().strip(b"\0")


@as_root
def test_the_server_process_has_no_rights(start):
    s = start(mode="shell", CANARY="canary-in-the-environment")
    status = status_of(s.server_pid)
    assert {k: status[k] for k in NO_CAPS} == NO_CAPS
    assert status["NoNewPrivs"] == "1"
    assert status["Uid"].split() == status["Gid"].split() == ["599999"] * 4
    assert status["Groups"] == ""


@as_root
@looks_into_others
def test_the_server_has_an_empty_environment_and_no_directory(start):
    s = start(mode="shell", CANARY="canary-in-the-environment")
    assert environment_of(s.server_pid) == b""
    assert os.readlink(f"/proc/{s.server_pid}/cwd") == "/"


def lasting_children(launcher):
    """Not the process that tidies the layers at the start: that one soon ends."""
    seen = []

    def the_same():
        seen.append(_children(launcher))
        return len(seen) > 5 and all(s == seen[-1] for s in seen[-5:])

    wait_for(the_same)
    return seen[-1]


@as_root
@looks_into_others
def test_the_launcher_has_an_empty_environment(start):
    s = start(mode="shell", CANARY="canary-in-the-environment")
    launcher = launcher_pid(s)
    for pid in [launcher, *lasting_children(launcher)]:
        assert environment_of(pid) == b""


@as_root
def test_the_launcher_has_one_thread_and_workers_without_rights(start):
    s = start(mode="shell", SANDBOX_WARM="0")
    launcher = launcher_pid(s)
    for pid in [launcher, *lasting_children(launcher)]:
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            assert f.read() == b"sandbox-server\0launcher\0"
    assert int(status_of(launcher)["Threads"]) == 1

    def settled():
        """Slots are made one after another; a worker that is ready has given up everything."""
        found = [status_of(w) for w in _children(launcher)]
        kinds = ("CapInh", "CapPrm", "CapEff", "CapAmb")
        return len(found) == 3 and all(s[k] == NO_CAPS[k] for s in found for k in kinds)

    wait_for(settled)
    uids = {status_of(w)["Uid"] for w in _children(launcher)}
    assert uids == {"\t".join([str(600000 + n)] * 4) for n in range(1 if LEAVES_ROOT else 3)}, uids


@as_root
def test_runs_have_the_uid_of_their_slot_outside(start):
    s = start(mode="shell", SANDBOX_UID_BASE="720000")
    with s.raw(post({"code": "id -u; sleep 30"})):
        wait_for(lambda: s.load() == 1)
        found = wait_for(lambda: [p for p, c in processes_of_uids(720000, 720002) if b"sleep" in c])
        status = status_of(found[0])
        assert len(set(status["Uid"].split())) == 1 and status["Groups"] == ""
        assert {k: status[k] for k in NO_CAPS} == NO_CAPS
        assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")


def test_run_output_says_uid_1000_inside(server):
    r = server.execute("id", language="shell")
    assert r["stdout"] == "uid=1000(sandbox) gid=1000(sandbox) groups=1000(sandbox)\n"


# ---- as a plain user


@pytest.fixture
def plain():
    """A server started by somebody who is not root: (process, port)."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to become somebody else")
    user, copy = plain_user(), binary_for_all()
    place = own_place()
    state = os.path.join(place, "state")
    os.mkdir(state)
    os.chown(state, user.pw_uid, user.pw_gid)
    env = clean_env(
        PATH=path_of(place + "/bin", "bash") + ":/usr/bin:/bin",
        SANDBOX_MODE="shell,python",
        SANDBOX_PORT="0",
        SANDBOX_STATE_DIR=state,
    )
    p = as_user(user, [copy, "serve"], env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        for line in p.stderr:
            if b"server.listening" in line:
                break
        else:
            raise AssertionError("it did not start")
        yield p, int(re.search(rb"port=(\d+)", line).group(1))
    finally:
        p.kill()
        p.wait(10)
        p.stderr.close()
        shutil.rmtree(place)
        shutil.rmtree(os.path.dirname(copy))


def ask(port, code, **fields):
    with Raw(port, post({"code": code, **fields})) as c:
        r = c.reply()
    assert r.status == 200, r
    return r.json


def test_a_plain_user_has_a_server_that_works(plain):
    p, port = plain
    user = plain_user()
    r = ask(port, "id -u; id -g; cat /proc/self/uid_map; echo x >output/f")
    inside, group, uid_map = r["stdout"].split("\n")[:3]
    assert (inside, group) == ("1000", "1000")
    assert uid_map.split()[0] == "1000" and uid_map.split()[2] == "1"
    assert r["files_produced"] == {"f": "eAo="}
    assert r["meta"]["isolation"] == "namespaces"
    with Raw(port, get("/health")) as c:
        health = c.reply().json
    assert health["isolation"]["level"] == "namespaces"
    assert set(health["isolation"]["missing"]) == {"memory_limit", "cpu_limit"}
    # nothing of it is root's
    found = [n[0] for n in map(_name, _tree(p.pid)) if n]
    assert len(found) >= 5
    for pid in found:
        status = status_of(pid)
        assert set(status["Uid"].split()) == {str(user.pw_uid)}
        # the launcher's are over its own namespace; the others have none
    assert {k: status_of(p.pid)[k] for k in ("CapPrm", "CapEff")} == {
        "CapPrm": "0" * 16,
        "CapEff": "0" * 16,
    }


def test_a_plain_users_runs_are_isolated_too(plain):
    _, port = plain

    class Proxy:
        def execute(self, code, **fields):
            return ask(port, code, **fields)

    seen = look(
        Proxy(),
        """
        status = dict(l.split(":", 1) for l in text("/proc/self/status").splitlines())
        show(pid=os.getpid(), caps=status["CapEff"].strip(), bounding=status["CapBnd"].strip(),
             seccomp=status["Seccomp"].strip(), nnp=status["NoNewPrivs"].strip(),
             shadow=opened("/etc/shadow"), write=opened("/usr/x", os.O_CREAT | os.O_WRONLY),
             unshare=err(272, 0x10000000), inet=err(41, 2, 1, 0), home=opened("/home"))
        """,
    )
    assert seen == {
        "pid": 2,
        "caps": "0" * 16,
        "bounding": "0" * 16,
        "seccomp": "2",
        "nnp": "1",
        "shadow": "ENOENT",
        "write": "EROFS",
        "unshare": "EPERM",
        "inet": "EAFNOSUPPORT",
        "home": "ENOENT",
    }


def test_a_plain_users_limits_hold(plain):
    _, port = plain
    r = ask(port, "while :; do :; done", timeout_seconds=1)
    assert (r["exit_code"], r["meta"]["verdict"]) == (-1, "timeout")
    code = "x=[]\nwhile True: x.append(bytearray(1 << 20))"
    r = ask(port, code, language="python", limits={"memory_mb": 64})
    assert r["meta"]["verdict"] in ("out_of_memory", "nonzero_exit")
    assert r["exit_code"] != 0
    assert ask(port, "echo still here")["stdout"] == "still here\n"


# ---- descriptors


def too_few(*args, soft=32, hard=32):
    """What a command says when so many descriptors are all it may have."""
    return subprocess.run(
        [BINARY, *args],
        env={"PATH": os.environ["PATH"], "SANDBOX_PORT": "0", "SANDBOX_MODE": "python"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard)),
    )


def test_too_few_descriptors_are_said_at_the_start():
    for status, *args in ((1, "serve"), (125, "run", "/dev/null"), (1, "check")):
        done = too_few(*args)
        assert done.returncode == status and done.stdout == ""
        assert re.fullmatch(
            r"sandbox-server: RLIMIT_NOFILE \(ulimit -n\) is 32, needed is \d+"
            r"( for SANDBOX_MAX_CONCURRENT=3, SANDBOX_WARM=0 and SANDBOX_QUEUE=0)?\n",
            done.stderr,
        )


@pytest.mark.parametrize("capacity, queue, fork", [(3, 0, "on"), (10, 5, "off")])
def test_the_least_number_of_descriptors_is_enough(start, capacity, queue, fork):
    """For every place and the whole queue, with as many idle connections as get in."""
    args = ["--max-concurrent", str(capacity), "--queue", str(queue), "--warm-fork", fork]
    least = int(re.search(r"needed is (\d+)", too_few("serve", *args).stderr).group(1))
    assert too_few("serve", *args, soft=least - 1, hard=least - 1).returncode == 1
    s = start(
        nofile=least,
        SANDBOX_MAX_CONCURRENT=str(capacity),
        SANDBOX_QUEUE=str(queue),
        SANDBOX_WARM="0",
        SANDBOX_WARM_FORK=fork,
        SANDBOX_MEMORY_MB="64",
    )
    s.wait_log(r"limit\.lower.*max_connections")
    body = {"code": "import time\ntime.sleep(2)\nopen('output/x', 'w').write('y')"}
    asked = [s.raw(post(body)) for _ in range(capacity + queue)]
    wait_for(lambda: s.load() == capacity)
    idle = [s.raw() for _ in range(300)]
    for c in asked:
        r = c.reply()
        assert r.status == 200 and r.json["files_produced"], r
        c.close()
    for c in idle:
        c.close()
    wait_for(lambda: s.load() == 0)
    assert not re.search("lost|failed|server.full", s.log()), s.log()


def test_a_low_soft_limit_of_descriptors_is_raised(start):
    s = start(nofile=(32, 4096))
    assert s.execute("print(1)")["stdout"] == "1\n"


# ---- the end before the beginning


@pytest.mark.parametrize("signo", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_while_it_prepares_is_an_ordinary_end(tmp_path, signo):
    """A runtime that does not say what it is: it is waited for, and what there is is undone."""
    asked = tmp_path / "asked"
    python = tmp_path / "python3"
    python.write_text(f"#!/bin/sh\n/bin/touch {asked}\nexec /bin/sleep 1000\n")
    python.chmod(0o755)
    state = tmp_path / "state"
    proc = subprocess.Popen(
        [BINARY, "serve", "--port", "0", "--mode", "auto", "--state-dir", str(state)],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        wait_for(asked.exists)
        below = {_name(p) for p in _tree(proc.pid)} - {_name(proc.pid)}
        assert below
        proc.send_signal(signo)
        _, said = proc.communicate(timeout=30)
    finally:
        proc.kill()
    assert proc.returncode == 0, said
    assert "launcher.report" not in said and "server.listening" not in said
    assert not [n for n in below if n and _name(n[0]) == n]
    assert not [c for c in _cgroups() if str(proc.pid) in c.split(".")]

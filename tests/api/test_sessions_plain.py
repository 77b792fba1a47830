# SPDX-License-Identifier: GPL-2.0-only
"""Sessions of a server that a plain user started: no rights, no cgroup, one uid for all.

What the tests of sessions say holds here too: those that are imported run again, with such a
server. The others are about what is different: only namespaces keep two sessions apart, and what
a command's processes are is found out by looking.
"""

import json
import os
import signal
import time

import pytest

from conftest import Server, _children, wait_for
from plain import Plain
from probes import CALLS, SLOW
from test_12_failing_steps import hooked
from test_session_disk import KEEP, LIMIT_MB, NAMELESS
from test_session_roots import (  # noqa: F401
    served,
    test_an_image_is_the_root,
    test_an_image_that_is_added_is_there_at_once_and_none_in_use_is_removed,
    test_links_in_an_image_lead_nowhere,
    test_read_only_leaves_work_and_tmp,
    test_volumes_are_there_as_the_operator_said,
)
from test_session_versions import (  # noqa: F401
    test_a_fork_waits_for_no_command_and_ends_none_unless_told,
    test_all_of_it_survives_the_end_of_everything,
    test_forks_have_the_same_files_and_go_their_own_ways,
    test_what_was_comes_back,
    versioned,
)
from test_sessions import (  # noqa: F401
    Session,
    call,
    files_left,
    on,
    shared,
    test_a_command_has_what_a_run_has_and_no_more,
    test_a_link_that_is_swapped_meanwhile_leads_nowhere_else,
    test_a_session_has_room_for_sixteen_commands,
    test_a_timeout_ends_the_command_alone,
    test_closing_ends_what_runs,
    test_commands_run_side_by_side_with_verdicts_of_their_own,
    test_files_that_are_nobodys_session_are_not_entered,
    test_limits_of_a_session,
    test_links_and_special_files_are_contained_and_never_waited_for,
    test_ten_opens_at_once_make_one_and_scopes_see_nothing_of_each_other,
    test_three_agents_of_a_workflow_share_one_environment,
    test_what_was_acknowledged_survives_the_end_of_everything,
    test_who_leaves_ends_his_command_alone,
)

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become a plain user")


@pytest.fixture(scope="module")
def new_server():
    return Plain


@pytest.fixture(scope="module")
def here():
    s = Plain({"SANDBOX_SESSIONS": "on", "SANDBOX_MEMORY_MB": "64", "SANDBOX_PIDS": "24"}, mode="shell")
    yield s
    s.stop()


def python(one, code, **fields):
    assert one.write("look.py", (CALLS + code).encode())[0] == 200
    return one.out("python3 look.py", **fields)


def test_it_says_what_it_is(here):
    one = Session(here)
    r = one.exec("true")
    assert r["meta"]["isolation"] == "namespaces"
    usage = r["meta"]["usage"]
    assert usage["pids_peak"] is None and usage["unavailable"] == {"pids_peak": "no cgroup is in use"}
    assert usage["memory_peak_kb"] > 0
    one.close()


LOOK = """
own = [int(p) for p in os.listdir("/proc") if p.isdigit()]
print(json.dumps({{
    "words": " ".join(text(f"/proc/{{p}}/cmdline") for p in own),
    "signals": sorted({{tried(os.kill, p, 0) for p in {pids} if p not in own}}),
    "ptrace": err(101, 16, {victim}, 0, 0),
    "read": err(310, {victim}, 0, 0, 0, 0, 0),
    "state": [opened("{state}"), opened("{state}/sessions/layers")],
    "outer": [opened("/proc/1/root"), opened("/proc/1/ns/mnt")],
    "setns": err(308, os.open("/proc/self/ns/user", os.O_RDONLY), 0),
}}))
"""


def test_one_uid_reaches_nothing_of_another_session(here):
    """Nor of a run, the launcher and the server, which all have the same uid outside."""
    one, two = Session(here, "victim"), Session(here, "thief")
    one.out("echo secret > /work/f; exec -a victim-sleeps sleep 1000 >/dev/null 2>&1 &")
    wait_for(lambda: [p for p in here.pids() if cmdline(p).startswith(b"victim-sleeps")])
    (victim,) = [p for p in here.pids() if cmdline(p).startswith(b"victim-sleeps")]
    assert os.stat(f"/proc/{victim}").st_uid == Plain.uid
    seen = json.loads(python(two, LOOK.format(pids=here.pids(), victim=victim, state=here.state_dir)))
    assert "victim" not in seen["words"] and seen["words"].count("look.py") == 1, seen
    assert seen["signals"] == ["ESRCH"], seen  # by the numbers that the host knows them by
    assert seen["ptrace"] in ("EPERM", "ESRCH") and seen["read"] in ("EPERM", "ENOSYS", "ESRCH"), seen
    assert seen["state"] == ["ENOENT", "ENOENT"] and seen["outer"] == ["EACCES", "EACCES"], seen
    assert seen["setns"] == "EPERM", seen
    # a listener of one is no name in the other
    listen = "import socket, time; s = socket.socket(socket.AF_UNIX); s.bind(b'\\0name'); s.listen(); time.sleep(999)"
    one.out(f'python3 -c "{listen}" >/dev/null 2>&1 &')
    reach = "python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(b\"\\0name\")'"
    wait_for(lambda: one.exec(reach)["exit_code"] == 0, 30)
    assert "ConnectionRefusedError" in two.exec(reach)["stderr"]
    one.close()
    two.close()
    wait_for(lambda: files_left(here) == [], 60)


def cmdline(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            return f.read()
    except OSError:
        return b""


def sleepers(one):
    return [line.split()[-1] for line in one.out("pgrep -fa '^sleep'").splitlines()]


def test_who_kills_his_init_takes_his_tree_along(here):
    """Its tree has no other holder: so it goes, and what others left stays."""
    one = Session(here, "kills")
    one.out("sleep 6001 >/dev/null 2>&1 &")
    r = one.exec("(setsid sleep 6002 >/dev/null 2>&1 &); kill -9 $PPID; sleep 6003")
    assert (r["exit_code"], r["meta"]["verdict"]) == (137, "signal"), r
    assert sleepers(one) == ["6001"]
    # also of one that has ended and whose init stays for what it left
    one.out("(sleep 6004 >/dev/null 2>&1 &) ; kill -9 $(ps -o ppid= $(pgrep -f '[s]leep 6001'))")
    wait_for(lambda: sleepers(one) == ["6004"], 20)
    assert "session.ended" not in here.log()
    one.close()


HOG = "python3 -c 'import time; a = bytearray({mb} << 20); a[::4096] = b\"x\" * len(a[::4096]); {then}'"


def test_what_commands_left_is_bounded_too(here):
    one = Session(here, "left")
    # each below its limit, not all together: 64 MB are the session's
    for _ in range(2):
        one.out(HOG.format(mb=4, then="time.sleep(7001)") + " >/dev/null 2>&1 &")
    one.out(HOG.format(mb=50, then="time.sleep(7002)") + " >/dev/null 2>&1 &")
    here.wait_log("session.memory", 30)
    wait_for(lambda: one.exec("pgrep -fc '[s]leep.7002'")["stdout"] == "0\n", 20)
    assert one.out("pgrep -fc '[s]leep.7001'") == "2\n"
    r = one.exec(HOG.format(mb=100, then="time.sleep(30)"))
    assert r["meta"]["verdict"] == "out_of_memory", r
    assert one.out("echo usable") == "usable\n"
    one.close()
    two = Session(here, "shm")
    two.out("head -c 24M /dev/zero > /dev/shm/x")  # nobody's memory, and counted with the next one's
    r = two.exec(HOG.format(mb=48, then="time.sleep(30)"))
    assert r["meta"]["verdict"] == "out_of_memory", r
    two.close()


def test_processes_and_cpu_seconds_of_a_command_are_counted(here):
    one = Session(here, "many")
    one.out("sleep 8001 >/dev/null 2>&1 &")
    r = one.exec("for i in $(seq 60); do sleep 8002 & done; wait")
    assert r["meta"]["verdict"] == "signal", r
    assert one.out("pgrep -fc '[s]leep 800'") == "1\n"
    r = one.exec("while :; do :; done", timeout_seconds=1)
    assert r["meta"]["verdict"] in ("timeout", "cpu_timeout")
    assert r["meta"]["usage"]["cpu_ms"] > 0
    one.close()


def test_what_commands_left_holds_up_no_end(start):
    s = on(start)
    Session(s, "left").out("sleep 9000 >/dev/null 2>&1 &")
    began = time.monotonic()
    s.stop()
    assert time.monotonic() - began < 8 * SLOW


def test_nothing_is_left_when_all_is_killed(start, tmp_path):
    s = on(start, state_dir=str(tmp_path))
    one = Session(s, "kept")
    one.out("sleep 9001 >/dev/null 2>&1 & echo 1 > f")
    pids = s.pids()
    (launcher,) = [p for p in _children(s.pid) if b"launcher" in cmdline(p)]
    os.kill(launcher, signal.SIGKILL)  # another one takes over: with it all its processes went
    wait_for(lambda: [p for p in _children(s.pid) if b"launcher" in cmdline(p) and p != launcher], 30)
    wait_for(lambda: not [p for p in pids if b"9001" in cmdline(p)], 30)
    wait_for(lambda: s.post(f"{one.path}/exec", {"command": "cat f"}).status == 200, 30)
    assert one.out("cat f; pgrep sleep | wc -l") == "1\n0\n"
    pids = s.pids()
    s.kill()
    wait_for(lambda: not [p for p in pids if b"sandbox" in cmdline(p)], 30)
    again = on(start, state_dir=str(tmp_path))
    assert Session(again, "kept").opened["created"] is False
    call(again, "DELETE", one.path)
    wait_for(lambda: files_left(again) == [], 60)


@hooked
def test_where_no_overlay_can_be_mounted_that_is_said(start):
    s = on(start, SANDBOX_TEST_FAULT="overlay")
    r = s.post("/sessions", {})
    assert r.status == 501 and r.json["code"] == "sessions_unavailable", r
    assert "no overlay can be mounted on the state directory: Operation not permitted" in r.json["error"]
    assert s.execute("echo still")["stdout"] == "still\n"


def test_the_network_and_agents_have_it_too(start):
    s = on(start, SANDBOX_NETWORK="listed.test")
    one = Session(s, "net", allow_network=True)
    fetch = "for h in listed other; do curl -sS -m 20 http://$h.test/; done"
    said = one.out(fetch)
    assert "listed.test: this host is not known" in said and "other.test: this host and port are not on" in said
    r = s.post("/execute", {"command": "pwd"})
    assert r.status == 200 and r.json["stdout"] == "/work\n", r


def before(line, command):
    """The command in a mount namespace of its own, in which this was done first."""
    return ["unshare", "-m", "sh", "-c", f'{line} && exec "$@"', "sh", *command]


class Masked(Plain):
    """In a container that hides parts of /proc: there a session has none."""

    def command_line(self, args, env):
        return before("mount -t tmpfs -o ro none /proc/fs", super().command_line(args, env))


class WithoutCgroup(Server):
    """As root, where no cgroup can be written: a uid for each session, and nothing that counts."""

    def command_line(self, args, env):
        return before("mount -t tmpfs -o ro none /sys/fs/cgroup", super().command_line(args, env))


class FewRights(Server):
    """Root of an ordinary container: its launcher becomes somebody else, and has one uid for all."""

    def command_line(self, args, env):
        few = ["--bounding-set", "-sys_admin", "--inh-caps", "-sys_admin"]
        return ["setpriv", *few, *super().command_line(args, env)]


@pytest.mark.parametrize("kind", [Masked, WithoutCgroup, FewRights])
def test_it_is_the_same_with_less(kind):
    s = kind({"SANDBOX_SESSIONS": "on", "SANDBOX_WARM": "0", "SANDBOX_MEMORY_MB": "64"}, mode="shell")
    try:
        layers = s.get("/isolation").json["layers"]
        assert not layers["memory_limit"]["active"] and layers["proc"]["active"] == (kind is not Masked)
        one = Session(s, "less")
        assert (one.out("ls /proc") == "") == (kind is Masked)
        one.out("python3 -m http.server 8000 --directory /work >/dev/null 2>&1 & echo here > /work/x")
        assert one.exec("(setsid sleep 5001 &) ; sleep 5002 & sleep 5003", timeout_seconds=1)["timed_out"]
        assert not [p for p in s.pids() if cmdline(p).startswith(b"sleep")]
        fetch = "exec 3<>/dev/tcp/127.0.0.1/8000; printf 'GET /x HTTP/1.0\\r\\n\\r\\n' >&3; tail -1 <&3"
        wait_for(lambda: one.exec(fetch)["stdout"] == "here\n", 60)
        assert one.exec(HOG.format(mb=100, then="time.sleep(30)"))["meta"]["verdict"] == "out_of_memory"
        for _ in range(2):
            one.out(HOG.format(mb=40, then="time.sleep(7001)") + " >/dev/null 2>&1 &")
        s.wait_log("session.memory", 20)
        one.close()
        wait_for(lambda: files_left(s) == [], 60)
    finally:
        s.stop()


HIDDEN = """
import os
os.mkdir("deep")
for n in range(400):
    os.chmod("deep", 0o700)
    with open("deep/" + str(n), "wb") as f:
        os.chmod("deep", 0)
        f.write(bytes(1 << 20))
"""


@pytest.mark.parametrize("keep", KEEP)
def test_files_without_a_name_count(keep):
    s = Plain({"SANDBOX_SESSIONS": "on", "SANDBOX_WARM": "0", "SANDBOX_DISK_MB": str(LIMIT_MB)}, mode="shell")
    try:
        one = Session(s)
        # nor in a directory that its owner may not enter himself
        one.out("mkdir closed; chmod 0 closed")
        for code in (NAMELESS.format(keep=KEEP[keep], place="n"), HIDDEN):
            assert one.write("fill.py", code.encode())[0] == 200
            r = one.exec("python3 fill.py; sleep 30")
            assert r["meta"]["verdict"] == "disk_full", r
            one.out("test ! -e deep || chmod 700 deep; rm -rf deep")
            assert one.out("echo room > small; cat small") == "room\n"
    finally:
        s.stop()

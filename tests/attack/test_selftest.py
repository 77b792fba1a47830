# SPDX-License-Identifier: GPL-2.0-only
"""The battery in the binary: all of it holds here, and each layer it needs can be missed.

The cases about the sandbox itself are one table in src/attack, run by `selftest`; here it is
run as its users run it. A case that could not fail would show nothing: every layer is left out
once, by a build with test hooks, and its cases must fail.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import xml.etree.ElementTree as ElementTree

import pytest
from conftest import BINARY, LEAVES_ROOT, SANITIZED, TOP, _children
from probes import as_user, binary_for_all, clean_env, part, plain_user

GROUPS = {"NS", "FS", "PR", "SY", "RS", "PC", "NW", "XS", "IL", "IN", "DG"}
# without sessions; with packages of the tests' own: test_in.py
PENDING = {"XS05", "IN01", "IN02", "IN04", "IN06", "IN08", "IN09", "IN10"}
# what cannot be tried on a host like this one, with every layer there
NOT_HERE = {"PC13"}
# quotas of each uid; and what the kernel keeps, when there is no cgroup either
NOT_FOR_ONE_UID = {"FS12", "RS15"}

pytestmark = pytest.mark.skipif(SANITIZED, reason="a sanitizer takes more than a sandbox gives")


def selftest(*args, **env):
    done = subprocess.run(
        [BINARY, "selftest", *args],
        env=clean_env(**{"HOME": os.environ.get("HOME"), **env}),
        capture_output=True,
        timeout=280,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    done.stdout = done.stdout.decode()
    done.stderr = done.stderr.decode(errors="replace")
    return done


def failed(answer):
    return {c["id"]: c["observed"] for c in answer["cases"] if c["status"] == "failed"}


def check_answer(answer):
    """Everything holds, everything was tried, and the sums are right."""
    assert failed(answer) == {} and answer["ok"], answer["beside"]
    ids = [c["id"] for c in answer["cases"]]
    assert len(ids) == len(set(ids)) and {i[:2] for i in ids} == GROUPS
    assert {c["id"] for c in answer["cases"] if c["status"] == "pending"} == PENDING
    for c in answer["cases"]:
        assert c["group"] == c["id"][:2] and c["tried"] and c["expected"] and c["observed"], c
    assert set(answer["groups"]) == GROUPS
    for status in ("ok", "failed", "skipped", "pending"):
        count = sum(c["status"] == status for c in answer["cases"])
        assert answer["all"][status] == count
        assert sum(g[status] for g in answer["groups"].values()) == count


@pytest.mark.timeout(300)
def test_the_whole_battery_as_root_or_whoever_runs_this():
    done = selftest("--json")
    answer = json.loads(done.stdout)
    check_answer(answer)
    assert done.returncode == 0 and "\r" not in done.stderr
    assert len(answer["cases"]) >= 97
    skipped = {c["id"] for c in answer["cases"] if c["status"] == "skipped"}
    if answer["level"] == "full" and os.geteuid() == 0:
        assert skipped == NOT_HERE


@pytest.mark.timeout(300)
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_the_whole_battery_as_a_plain_user():
    user, home = plain_user(), tempfile.mkdtemp(prefix="sandbox-home-")
    os.chown(home, user.pw_uid, user.pw_gid)
    env = clean_env(PATH="/usr/local/bin:/usr/bin:/bin", HOME=home)
    try:
        proc = as_user(
            user,
            [binary_for_all(), "selftest", "--junit"],
            env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
        )
        out, err = proc.communicate(timeout=280)
    finally:
        assert os.listdir(home) in ([], [".local"]), "it left something behind"
        subprocess.run(["rm", "-rf", home], check=True)
    suites = ElementTree.fromstring(out)
    assert suites.tag == "testsuites", err
    assert {s.get("name") for s in suites} == GROUPS | {"all"}
    skipped = {c.get("name").split()[0]: c.find("skipped").get("message")
               for c in suites.iter("testcase") if c.find("skipped") is not None}  # fmt: skip
    assert {i for i, why in skipped.items() if why.startswith("pending: ")} == PENDING
    assert all(skipped.values()) and set(skipped) <= PENDING | NOT_HERE | NOT_FOR_ONE_UID, skipped
    failures = [c.get("name") + ": " + c.find("failure").get("message")
                for c in suites.iter("testcase") if c.find("failure") is not None]  # fmt: skip
    assert failures == [] and proc.returncode == 0, err
    for s in suites:
        cases = s.findall("testcase")
        assert len(cases) == int(s.get("tests"))
        assert sum(c.find("skipped") is not None for c in cases) == int(s.get("skipped"))
    assert sum(int(s.get("tests")) for s in suites) >= 89


FORKED = (  # not those that take long
    "NS,FS,PR,XS,IL01,IL02,IL04,IL05,IL06,IL07,IL09,IL12,"
    "SY02,SY04,SY05,SY06,SY08,SY10,SY13,SY14,RS03,PC01,PC12,NW10"
)


def forks(cases, **env):
    """What selftest says of cases whose programs are forked from a started python."""
    done = selftest("--json", "--mode", "python", "--case", cases, SANDBOX_WARM_FORK="on", **env)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def test_attacks_from_forked_runs_fail_too():
    """Each was one, or its case fails; XS10 says so itself."""
    status, answer = forks(FORKED)
    assert failed(answer) == {} and status == 0, answer["beside"]
    if answer["level"] != "full":
        pytest.skip("nothing is forked here")
    assert {c["id"] for c in answer["cases"] if c["status"] != "ok"} <= PENDING
    assert len(answer["cases"]) >= 55
    (said,) = [c["observed"] for c in answer["cases"] if c["id"] == "XS10"]
    assert "program: 4 of 4 runs had waited; python: 4 of 4 runs had waited" in said


def test_attacks_fail_where_no_sandbox_waits():
    """The whole battery has some that wait; here a few of each kind that begin cold, XS10 among them."""
    done = selftest("--json", "--mode", "python", "--case", "NS06,FS02,PR07,SY01,PC01,XS10", SANDBOX_WARM="0")
    answer = json.loads(done.stdout)
    assert failed(answer) == {} and done.returncode == 0, answer["beside"]
    (said,) = [c["observed"] for c in answer["cases"] if c["id"] == "XS10"]
    assert "program: 0 of 4 runs had waited; python: 0 of 4 runs had waited" in said, said


@pytest.mark.skipif(os.geteuid() != 0, reason="a plain user lacks layers of his own accord")
def test_a_layer_that_a_forked_run_lacks_is_missed():
    for step in ("seccomp", "landlock"):
        cases = LEFT_OUT[step] & {"NS01", "PR08"}
        status, answer = forks(",".join(sorted(cases)), SANDBOX_TEST_FAULT="-" + step)
        assert status == 1 and set(failed(answer)) == cases, answer


def test_forks_want_a_python():
    done = selftest("--mode", "shell", "--case", "NS01", SANDBOX_WARM_FORK="on")
    assert done.returncode == 1 and "SANDBOX_WARM_FORK=on: python is not served" in done.stderr


def test_lines_for_people():
    done = selftest("--case", "PR07")
    assert done.returncode == 0
    first, rest = done.stdout.split("\n", 1)
    assert first == (
        "ok       PR07  no_new_privs off; another filter: expected EINVAL; EPERM; "
        "observed EINVAL; EPERM"
    )
    assert "PR      1 ok    0 failed    0 skipped    0 pending  privileges" in rest


# A layer that is left out, and cases that must miss it (others may miss it too).
LEFT_OUT = {
    "seccomp": {"NS01", "PR07", "SY02", "SY06", "NW10"},
    "landlock": {"FS01", "PR08", "DG01"},
    "limits": {"RS04"},
    "proc": {"NS20", "IL04"},
    "proc_masks": {"IL04"},
    "namespace_limits": {"NS06"},
    "cgroup_namespace": {"NS07", "IL04", "DG01"},
    "hostname": {"IL06"},
}


@pytest.mark.timeout(200)
@pytest.mark.skipif(os.geteuid() != 0, reason="a plain user lacks layers of his own accord")
@pytest.mark.parametrize("step", sorted(LEFT_OUT))
def test_a_layer_that_is_left_out_is_missed(step):
    if LEAVES_ROOT and step in ("hostname", "proc"):
        pytest.skip("needs CAP_SYS_ADMIN: a container leaves it out of its own accord")
    missed = {}
    for case in sorted(LEFT_OUT[step]):
        # a sandbox that waited gets its limits a second time
        done = selftest("--json", "--case", case, SANDBOX_TEST_FAULT="-" + step, SANDBOX_WARM="0")
        assert done.returncode == 1, (case, done.stdout, done.stderr)
        missed.update(failed(json.loads(done.stdout)))
    assert set(missed) == LEFT_OUT[step]


def test_the_second_lock_holds_without_the_first():
    """NS06 with seccomp left out: it is the count that refuses."""
    done = selftest("--json", "--case", "NS06", SANDBOX_TEST_FAULT="-seccomp")
    (case,) = json.loads(done.stdout)["cases"]
    assert case["status"] == "ok" and "ENOSPC" in case["observed"], case


def test_a_step_that_fails_leaves_nothing_to_try():
    done = selftest("--case", "NS02", SANDBOX_TEST_FAULT="seccomp")
    assert done.returncode == 1 and 'sandbox step "seccomp" failed' in done.stderr
    done = selftest("--case", "NS02", SANDBOX_TEST_FAULT="-capabilities")  # a later step notices
    assert done.returncode == 1 and 'sandbox step "identity" failed' in done.stderr


@pytest.fixture
def policies(tmp_path):
    """The policies that programs have, as files of an operator's."""
    for name in os.listdir(f"{TOP}/policy"):
        if name not in ("server.json", "broker.json", "image.json"):
            shutil.copy(f"{TOP}/policy/{name}", tmp_path)
    return tmp_path


def rewrite(file, change):
    text = json.loads(file.read_text())
    text["syscalls"] = change(text["syscalls"])
    file.write_text(json.dumps(text))


def allowing(*names):
    """Rules that let these calls through, which all others refuse."""
    def change(rules):
        for rule in rules:
            rule["names"] = [n for n in rule["names"] if n not in names]
        return rules + [{"names": names, "action": "SCMP_ACT_ALLOW"}]
    return change


def without(*comments):
    """Rules but for those that say that."""
    def change(rules):
        left = [r for r in rules if not r.get("comment", "").startswith(comments)]
        assert len(left) <= len(rules) - len(comments)
        return left
    return change


# a change of a file, and what cases say of it
HOLES = {
    "calls that the kernel would serve": (
        "base", allowing("process_madvise", "process_mrelease", "quotactl_fd"),
        {"SY01": "440 is not refused; 448 is not refused; base.json lets through",
         "SY06": "process_madvise: EBADF"}),
    "calls that the kernel refuses by itself": (
        "base", allowing("vhangup", "kexec_file_load"),
        {"SY01": "base.json lets through what ours refuses: kexec_file_load; "
                 "base.json lets through what ours refuses: vhangup"}),
    "a call by its number": (
        "base", lambda rules: rules + [{"names": ["468"], "action": "SCMP_ACT_ALLOW"}],
        {"SY01": "base.json lets through what ours refuses: "}),
    "requests": (
        "arguments", without("TIOCSTI", "TIOCLINUX", "F_SETLEASE", "SOL_SOCKET, SO_ATTACH_FILTER"),
        {"SY10": "TIOCSTI: ENOTTY", "SY01": "arguments.json lets through what ours refuses: ioctl"}),
    "a level that is not this one": (
        "shared-pids", without("SOCK_DGRAM"),
        {"SY01": "shared-pids.json lets through what ours refuses: socketpair"}),
}  # fmt: skip


@pytest.mark.parametrize("hole", HOLES)
def test_a_hole_in_the_operators_policies_is_noticed(policies, hole):
    name, change, wanted = HOLES[hole]
    rewrite(policies / f"{name}.json", change)
    done = selftest("--json", "--case", "SY01,SY06,SY10", SANDBOX_POLICY_DIR=str(policies))
    assert done.stdout, done.stderr
    missed = failed(json.loads(done.stdout))
    assert done.returncode == 1 and set(missed) == set(wanted), missed
    for case, said in wanted.items():
        assert said in missed[case], missed


def test_the_same_policies_from_a_directory_hold(policies):
    done = selftest("--json", "--case", "SY", SANDBOX_POLICY_DIR=str(policies))
    assert done.returncode == 0 and failed(json.loads(done.stdout)) == {}, done.stderr


def interrupted(cases, after, what, before=(), **env):
    """what(pid) is done when the line of this case is there: status, the lines by case."""
    proc = subprocess.Popen(
        [*before, BINARY, "selftest", "--case", cases],
        env=clean_env(HOME=os.environ.get("HOME"), **env),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
    )
    try:
        lines = []
        while not (lines and lines[-1].split()[1:2] == [after]):
            lines.append(proc.stdout.readline())
            assert lines[-1], proc.stderr.read()
        what(proc.pid)
        out, err = proc.communicate(timeout=60)
    finally:
        proc.kill()
        proc.communicate()
    found = [line.split(None, 2) for line in [*lines, *out.split("\n")] if line.count("  ") > 1]
    return proc.returncode, {i: (status, text) for status, i, text in found if i[2:].isdigit()}, err


def kill_launcher(pid):
    (launcher,) = [p for p in _children(pid) if part(p) == "launcher"]
    os.kill(launcher, signal.SIGKILL)


def test_a_launcher_that_dies_between_cases_is_named_and_nothing_is_tried_without_it():
    """It has nothing to do while DG04 starts others: nobody but the pidfd tells of it."""
    begin = time.monotonic()
    status, said, err = interrupted("NS01,IL01,IL05,DG04,DG06", "IL05", kill_launcher)
    assert time.monotonic() - begin < 40, "it waited for answers of the dead"
    assert status == 1 and set(said) == {"NS01", "IL01", "IL05", "DG04", "DG06"}, (said, err)
    assert {said[i][0] for i in ("NS01", "IL01", "IL05")} == {"ok"}
    assert said["DG04"][0] == "FAILED" and "the launcher died" in said["DG04"][1]
    assert said["DG06"][0] == "FAILED"
    assert "not tried: the launcher died in or before DG04" in said["DG06"][1]


def test_a_launcher_that_dies_in_a_case_is_named():
    status, said, err = interrupted("NS01,SY01,IL01", "NS01", kill_launcher)  # which takes seconds
    assert status == 1, (said, err)
    assert said["SY01"][0] == "FAILED" and "launcher died" in said["SY01"][1], said
    assert said["IL01"][0] == "FAILED" and "died in or before SY01" in said["IL01"][1], said


def test_a_directory_of_runs_that_is_left_is_noticed(tmp_path):
    def leave(_):
        os.mkdir(tmp_path / "sandbox-runs.left")

    status, said, err = interrupted("NS01,SY01,IL01", "NS01", leave, TMPDIR=str(tmp_path))
    assert status == 1 and said["NS01"][0] == "ok", (said, err)
    assert said["SY01"][0] == "FAILED"
    assert "G3: 1 directories of launchers that are gone, not 0" in said["SY01"][1], said


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount there")
@pytest.mark.skipif(LEAVES_ROOT, reason="needs CAP_SYS_ADMIN, to mount there")
def test_a_mount_that_is_left_is_noticed():
    def leave(pid):
        line = ["nsenter", "-m", "-t", str(pid), "mount", "-t", "tmpfs", "none", "/dev/shm"]
        subprocess.run(line, check=True)

    status, said, err = interrupted("NS01,SY01,IL01", "NS01", leave, ["unshare", "-m"])
    assert status == 1 and said["NS01"][0] == "ok", (said, err)
    assert said["SY01"][0] == "FAILED" and re.search(r"G3: \d+ mounts, not", said["SY01"][1]), said


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can write below /usr")
def test_a_secret_that_comes_back_is_noticed():
    """Runs see /usr, so the secret that lies there is not hidden from them."""
    with tempfile.TemporaryDirectory(prefix="sandbox-home-", dir="/usr/local") as home:
        os.chmod(home, 0o755)
        done = selftest("--json", "--case", "FS02,IL01", HOME=home)
        assert os.listdir(home) == []
    (opened, other) = json.loads(done.stdout)["cases"]
    assert done.returncode == 1 and opened["status"] == "failed", opened
    assert "a path of the host's: ok, not" in opened["observed"], opened
    assert "G5: a secret of the host came back" in opened["observed"], opened
    assert other["status"] == "ok", other


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can write below /usr")
def test_a_secret_that_any_run_of_a_case_gives_back_is_noticed():
    """RS11's runs say nothing of themselves, and this shell tells the secret before each."""
    with tempfile.TemporaryDirectory(prefix="sandbox-home-", dir="/usr/local") as home:
        os.chmod(home, 0o755)
        with open(home + "/bash", "w", encoding="ascii") as f:
            f.write('#!/bin/bash\n[ "$1" = --version ] || '
                    f'cat {home}/sandbox-canary-*\nexec /bin/bash "$@"\n')  # fmt: skip
        os.chmod(home + "/bash", 0o755)
        args = ("--json", "--mode", "shell", "--case", "RS11,IL05")
        done = selftest(*args, HOME=home, PATH=f"{home}:/usr/bin:/bin")
    (bombs, other) = json.loads(done.stdout)["cases"]
    assert done.returncode == 1 and bombs["status"] == "failed", (bombs, done.stderr)
    assert bombs["observed"] == "G5: a secret of the host came back", bombs
    assert other["status"] == "ok", other


@pytest.mark.parametrize("how", ["--json", "--junit"])
def test_a_gate_does_not_open_when_nothing_was_tried(how):
    """XS05 is pending and PC13 cannot be tried: neither held."""
    done = selftest(how, "--case", "XS05,PC13")
    assert done.returncode == 1, done.stdout
    assert done.stderr == "sandbox-server: nothing was tried: every chosen case is skipped or pending\n"
    if how == "--json":
        assert json.loads(done.stdout)["ok"] is False
    else:
        (failure,) = ElementTree.fromstring(done.stdout).iter("failure")
        assert failure.get("message").startswith("nothing was tried")


def test_what_the_host_must_give():
    answer = json.loads(selftest("--json", "--case", "NS02").stdout)
    level = answer["level"]
    assert answer["level_wanted"] == level
    done = selftest("--json", "--case", "NS02,NS06", "--level", "landlock")
    first, second = json.loads(done.stdout)["cases"]
    assert first["required"] and not second["required"] and done.returncode == 0
    if level != "full":
        done = selftest("--json", "--case", "NS02", "--level", "full")
        assert done.returncode == 1 and not json.loads(done.stdout)["ok"]
    done = selftest("--min-isolation", "full", "--case", "NS02")
    assert done.returncode == (0 if level == "full" else 1)


def test_a_failure_beyond_the_level_asked_for_is_told_and_forgiven():
    if json.loads(selftest("--json", "--case", "NS02").stdout)["level"] == "landlock":
        pytest.skip("there are no namespaces here")
    with_layer_gone = {"SANDBOX_TEST_FAULT": "-namespace_limits"}
    done = selftest("--json", "--case", "NS06", **with_layer_gone)
    assert done.returncode == 1
    done = selftest("--json", "--case", "NS06", "--level", "landlock", **with_layer_gone)
    answer = json.loads(done.stdout)
    assert done.returncode == 0 and answer["ok"] and answer["all"]["not_required"] == 1


@pytest.mark.parametrize(
    "args, said",
    [
        (["--case", "XX01"], "--case XX01: there is no such case or group"),
        (["--level", "high"], "--level high: want full, namespaces, landlock or process"),
        (["--level"], "--level wants a value"),
        (["--json=1"], "--json has no value"),
        (["--memory-mb", "x"], "--memory-mb x"),
        (["more"], "unknown argument 'more'"),
    ],
)
def test_bad_arguments(args, said):
    done = selftest(*args)
    assert done.returncode == 1 and said in done.stderr and done.stdout == ""

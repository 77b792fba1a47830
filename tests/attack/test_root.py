# SPDX-License-Identifier: GPL-2.0-only
"""The cases of NS, FS, PR, SY and XS inside sessions whose user is root.

They are `selftest`'s own, written for runs of an ordinary user without a session. What they
find here that is otherwise stands below, word for word: a session's own files and loopback,
and the eight rights of its root. Whatever else they find is a hole.
"""

import concurrent.futures
import json
import os
import re
import shutil
import subprocess
import tempfile
import time

import pytest

from conftest import CANARY, Target
from probes import SLOW

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="sessions need a server started as root")

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
GROUPS = "NS FS PR SY XS".split()
FILES = "ns mounts fs pr sy xs warm".split()
# What takes disk, processes or time until a limit stops it: apart, in sessions that may have little.
GREEDY = {"FS05", "FS06", "XS06", "XS09"}
BY_HTTP = {"XS05"}  # test_sessions.py
BY_TWO = {"NS19", "XS01", "XS02", "XS03"}
LEVEL, LAYERS = 4, 0xFFFF  # full, all of them
LIMITS = "64 256 64 20000"
EIGHT = (0, 1, 3, 4, 5, 6, 7, 18)

# more than an ordinary user of a session finds
ROOT = {
    "NS11": "chroot: ok, not EPERM",
    "PR01": "CapPrm: is 00000000000400fb; CapEff: is 00000000000400fb; CapBnd: is 00000000000400fb; "
    "Uid: is 0.0.0.0; Gid: is 0.0.0.0; there are capabilities; "
    + "".join(f"capability {n} can be got; " for n in EIGHT)
    + "the uids are 0 0 0",
    "PR04": "; ".join(
        f"{c}: ok, not EPERM"
        for c in "setuid setgid setreuid setregid setresuid setresgid setfsuid setgroups keepcaps".split()
    ),
    "PR10": "/proc/self/exe has other rights; memfd has other rights",
    "FS01": "; ".join(
        f"{d}/attack: {n}, not EROFS" for d in ("/", "/etc", "/run", "/var") for n in ("ok", "EEXIST")
    )
    + "; /etc/passwd: ok, not EROFS|EACCES|ENOENT|ETXTBSY; unlink: ok, not EROFS|EACCES|EPERM;"
    " chmod: ENOENT, not EROFS|EACCES|EPERM",
}
# what every session has: loopback, a root on disk, a volume, other processes, no variable of the case
SESSION = {
    "FS08": "1 TiB: EFBIG, not ok",
    "NS20": "the root is overlay, rw,nosuid,nodev,relatime; / can be written; /volumes/tool comes from TOOL",
    "PR11": "a variable is missing",
    "SY04": "family 2: ok, not EAFNOSUPPORT|EPERM; family 10: ok, not EAFNOSUPPORT|EPERM",
}


def cases():
    text = ""
    for name in FILES:
        with open(f"{TOP}/src/attack/attack_{name}.c", encoding="utf-8") as f:
            text += f.read()
    ids = set(re.findall(r'\{\s*"([A-Z]{2}\d\d)"', text))
    return sorted(i for i in ids if i[:2] in GROUPS and i not in GREEDY | BY_HTTP | BY_TWO)


@pytest.fixture(scope="module")
def server():
    yield from serve()


@pytest.fixture(scope="module")
def small():
    yield from serve(SANDBOX_DISK_MB="64", SANDBOX_PIDS="64", SANDBOX_MEMORY_MB="256")


def serve(**limits):
    from conftest import BINARY

    tool = tempfile.mkdtemp(prefix="sandbox-tool-")
    os.chmod(tool, 0o755)
    shutil.copy(BINARY, f"{tool}/attack")
    env = {"SANDBOX_SESSIONS": "on", "SANDBOX_WARM": "0", "CANARY": CANARY}
    s = Target({**env, **limits, "SANDBOX_VOLUMES": f"tool={tool}"}, (), "shell")
    s.tool = tool
    yield s
    s.stop()
    shutil.rmtree(tool)


def open_one(server, user="root"):
    r = server.post("/sessions", {"user": user, "volumes": ["tool"]})
    assert r.status == 200 and r.json["user"] == user, r
    return "/sessions/" + r.json["session_id"]


def program(case, words, level=LEVEL):
    words = " ".join(map(str, words))
    return f"exec -a /usr/bin/sandbox-attack /volumes/tool/attack {case} {level} {LAYERS} {LIMITS} {words}"


CALLS_HEX = 151  # digits of what SY01 is told, four calls each
NEWER = {"fchmodat2": 452, "mseal": 462}  # than the headers may be


def calls_of(policy):
    """What a policy lets through, for some arguments at least: a bit for each number."""
    line = ["cc", "-E", "-dM", "-include", "sys/syscall.h", "-x", "c", "/dev/null"]
    header = subprocess.run(line, capture_output=True, text=True, check=True).stdout
    number = NEWER | {m[1]: int(m[2]) for m in re.finditer(r"^#define __NR_(\w+) (\d+)$", header, re.M)}
    with open(f"{TOP}/policy/{policy}.json", encoding="utf-8") as f:
        rules = json.load(f)["syscalls"]
    let = [r for r in rules if r["action"] == "SCMP_ACT_ALLOW" or r.get("errnoRet", 1) not in (1, 38)]
    names = {n for r in let for n in r["names"]}
    bits = sum(1 << number[n] for n in names if n in number)
    return "".join(f"{bits >> 4 * at & 15:x}" for at in range(CALLS_HEX))


def attack(server, path, case, *words):
    """What the case says, which has to come to its end."""
    words = words or (["root"] if case.startswith("PR") else [calls_of("root")] if case == "SY01" else [])
    r = server.post(f"{path}/exec", {"command": program(case, words), "timeout_seconds": 20 * SLOW})
    assert r.status == 200, r
    said = dict(re.findall(r"^(tried|wrong|skipped|seen): (.*)$", r.json["stdout"], re.M))
    assert said and r.json["exit_code"] == 0, r.json
    return said


def of_root(server, case, said):
    expected = {**SESSION, **ROOT}.get(case, "").replace("TOOL", server.tool)
    if case == "SY01":  # how many, is compared below
        return bool(re.fullmatch(r"\d+ calls get through", said["wrong"]))
    return said["wrong"] == expected


@pytest.mark.timeout(120)
def test_every_case_finds_what_root_may_and_nothing_else(server):
    path = open_one(server)
    done = {}
    server.post(f"{path}/exec", {"command": "mkdir output"})  # as a run has
    for case in cases():
        done[case] = attack(server, path, case)
    assert len(done) > 35, done
    assert {c: s["wrong"] for c, s in done.items() if not of_root(server, c, s)} == {}
    assert [c for c, s in done.items() if s["skipped"]] == []
    # the system calls: those of an ordinary user in a session, and ten more
    plain = open_one(server, "sandbox")
    through = [int(s["seen"].split()[0]) for s in (done["SY01"], attack(server, plain, "SY01", calls_of("base")))]
    assert through[0] - through[1] == 10, through
    for each in (path, plain):
        server.request("DELETE", each)


def descendants(pid):
    found, new = [], [pid]
    while new:
        pid = new.pop()
        try:
            for task in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as f:
                    children = [int(c) for c in f.read().split()]
                found += children
                new += children
        except OSError:
            pass
    return found


@pytest.mark.parametrize(
    "case, victim, attacker",
    [
        ("XS01", ("victim", "attack-victim"), ("attacker", "attack-victim")),
        ("XS02", ("victim",), ("attacker",)),
        ("XS03", ("victim", "attack-name"), ("attacker", "attack-name")),
        ("NS19", ("victim",), ("''",)),
    ],
)
def test_root_of_one_session_attacks_another(server, case, victim, attacker):
    one, two = open_one(server), open_one(server)
    begin = f"({program(case, victim)}) > said 2>&1 &"
    wait = " for i in $(seq 200); do grep -qs here said && exit 0; sleep 0.05; done; cat said; exit 1"
    r = server.post(f"{one}/exec", {"command": begin + wait})
    assert r.json["exit_code"] == 0, r.json
    if case == "XS02":
        attacker += tuple(sorted(descendants(server.pid))[-8:])
    said = attack(server, two, case, *attacker)
    if case == "NS19":  # in a session there are others: its own process 1, and the init of the command
        assert re.fullmatch(r"own number is \d+; [12] other processes are there", said["wrong"]), said
    else:
        assert said["wrong"] == "", said
    # the victim is there, and was not disturbed
    r = server.post(f"{one}/exec", {"command": "cat said; pgrep -c -f sandbox-attac[k]"})
    assert "here" in r.json["stdout"] and r.json["stdout"].splitlines()[-1] != "0", r.json
    for each in (one, two):
        server.request("DELETE", each)


@pytest.mark.parametrize("case", ["FS05", "FS06", "XS06"])
def test_a_greedy_root_is_stopped_and_others_do_not_notice(small, case):
    one, two = open_one(small), open_one(small)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        # XS06, which a file that is too large would end, does without, and goes on for ever
        level, seconds = (2, 8 * SLOW) if case == "XS06" else (LEVEL, 60)
        ask = {"command": program(case, [], level), "timeout_seconds": seconds}
        greedy = pool.submit(small.post, f"{one}/exec", ask)
        time.sleep(1)
        for path, body in ((f"{two}/exec", {"command": "echo a > f; cat f"}), ("/execute", {"code": "echo a"})):
            begin = time.monotonic()
            r = small.post(path, body)
            assert (r.status, r.json["stdout"]) == (200, "a\n"), r
            assert time.monotonic() - begin < 2 * SLOW
        r = greedy.result()
    verdict = r.json["meta"]["verdict"]
    if case == "XS06":
        assert verdict == "timeout", r.json
    elif verdict == "ok":  # every way was refused
        assert re.search(r"^wrong: $", r.json["stdout"], re.M), r.json
    else:
        assert verdict == "disk_full", r.json
    # it is over, and what it left can be removed
    tidy = "cd /; pgrep -c -f sandbox-attac[k]; find /work /tmp -mindepth 1 -delete; find /work"
    r = small.post(f"{one}/exec", {"command": tidy})
    assert r.json["stdout"].split() == ["0", "/work"], r.json
    for each in (one, two):
        small.request("DELETE", each)


def test_processes_of_one_session_are_not_counted_for_another(small):
    one, two = open_one(small), open_one(small)
    begin = f"({program('XS09', ['victim', 'counted'])}) > said 2>&1 &"
    wait = " for i in $(seq 200); do grep -qs here said && exit 0; sleep 0.05; done; cat said; exit 1"
    r = small.post(f"{one}/exec", {"command": begin + wait})
    assert r.status == 200, r
    said = attack(small, two, "XS09", "attacker", "counted")
    assert said["wrong"] == "", said
    for each in (one, two):
        small.request("DELETE", each)

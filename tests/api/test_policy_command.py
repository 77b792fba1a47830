# SPDX-License-Identifier: GPL-2.0-only
"""sandbox-server policy: what the rules say, for those who write them."""

import json
import os
import re
import subprocess
import sys

import pytest

from conftest import BINARY, TOP
from probes import command

NAMES = sorted(f[:-5] for f in os.listdir(os.path.join(TOP, "policy")) if f.endswith(".json"))
ALLOWED_AT_MOST = 240


def policy(*args, **env):
    return command("policy", *args, **env)


def text(name):
    with open(os.path.join(TOP, "policy", name + ".json"), encoding="utf-8") as f:
        return f.read()


@pytest.fixture
def policies(tmp_path):
    """A directory with all policies, to be changed."""
    for name in NAMES:
        (tmp_path / (name + ".json")).write_text(text(name))
    return tmp_path


def test_list_has_every_policy_and_at_most_240_calls_are_allowed():
    done = policy("list")
    assert done.returncode == 0 and done.stderr == ""
    rows = {line.split()[0]: line.split() for line in done.stdout.splitlines()[1:]}
    assert sorted(rows) == NAMES
    assert len({line.rindex("  ") for line in done.stdout.splitlines()}) == 1, "columns"
    assert rows["base"][1] == "ENOSYS" and 150 < int(rows["base"][2]) <= ALLOWED_AT_MOST


@pytest.mark.parametrize("name", NAMES)
def test_show_prints_a_policy_as_it_is(name):
    done = policy("show", name)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == text(name)
    json.loads(done.stdout)


def test_show_sorts_every_call_by_its_outcome():
    done = policy("show")
    assert done.returncode == 0
    groups = {}
    for part in done.stdout.strip().split("\n\n"):
        head, _, names = part.partition(":\n")
        if names:
            outcome, _, count = head.rpartition(", ")
            groups[outcome] = names.split()
            assert len(groups[outcome]) == int(count)
    assert {"read", "execve", "futex"} <= set(groups["allowed"])
    assert {"ptrace", "mount", "bpf"} <= set(groups["EPERM"])
    assert {"clone3", "io_uring_setup"} <= set(groups["ENOSYS"])
    assert {"sync", "syncfs"} == set(groups["does nothing"])
    assert {"clone", "socket", "ioctl"} <= set(groups["allowed but for some arguments"])
    assert "personality" in groups["ENOSYS but for some arguments"]
    assert done.stdout.endswith("every other call: ENOSYS\n")
    every = [name for names in groups.values() for name in names]
    assert len(every) == len(set(every))


def line_of(name, needle):
    return 1 + text(name)[: text(name).index(needle)].count("\n")


def test_explain_names_outcome_file_and_line():
    done = policy("explain", "ptrace")
    line = line_of("base", '"ptrace"')
    assert done.returncode == 0
    head, rule = done.stdout.splitlines()
    assert head == "ptrace (101): EPERM, Operation not permitted"
    assert rule.startswith(f"  policy/base.json:{line}: EPERM (")


def test_explain_by_number_and_a_call_without_a_rule():
    done = policy("explain", "101", "511")
    assert "ptrace (101): EPERM" in done.stdout
    assert "511 (511): ENOSYS" in done.stdout
    assert "  policy/base.json: ENOSYS, as every call without a rule\n" in done.stdout


def test_explain_shows_the_conditions():
    done = policy("explain", "clone", "socket", "personality")
    assert "clone (56): allowed; but for some arguments\n" in done.stdout
    assert re.search(
        r"policy/arguments.json:\d+: EPERM when argument 0 & 0x10000000 = 0x10000000"
        r" \(CLONE_NEWUSER\)\n",
        done.stdout,
    )
    assert "EAFNOSUPPORT when argument 0 = 0x2 in its low 32 bits (AF_INET)\n" in done.stdout
    assert "= 0x10 in its low 32 bits and argument 2 != 0x0" in done.stdout
    assert "personality (135): ENOSYS, Function not implemented; but for some" in done.stdout
    assert "allowed when argument 0 = 0x0 (PER_LINUX)\n" in done.stdout


def test_explain_tells_what_else_holds_without_namespaces():
    done = policy("explain", "pidfd_open", "fchmod", "read")
    lines = done.stdout.splitlines()
    assert lines[0].endswith("): allowed") and "policy/base.json:" in lines[1]
    assert lines[2] == " programs at the levels landlock and process, too:"
    assert re.match(r"  policy/shared-pids\.json:\d+: ENOSYS ", lines[3])
    assert lines[4].startswith("fchmod (")
    assert lines[6] == " programs at landlock and process with the server's uid, too:"
    assert re.match(r"  policy/shared-uid\.json:\d+: EPERM ", lines[7])
    assert lines[8].startswith(" otherwise by policy show shared-uid-install: installs with")
    assert lines[9].startswith("read (") and len(lines) == 11


def test_explain_tells_what_else_holds_where_no_cgroup_counts():
    (said,) = re.findall(r"\n programs where no cgroup counts memory, too:\n((?:  .*\n)+)",
                         policy("explain", "socketpair").stdout)  # fmt: skip
    assert "uncounted.json:" in said and "ESOCKTNOSUPPORT when argument 0 = 0x1" in said, said
    assert "no cgroup" not in policy("explain", "read").stdout


def test_explain_names_the_policies_that_others_have_instead():
    done = policy("explain", "socket", "setuid")
    sockets, ids = done.stdout.split("setuid (")
    for name in ("network-broker", "network-pod", "shared-network"):
        assert f"\n otherwise by policy show {name}: programs that " in sockets
    assert "policy show root" not in sockets
    assert ids.endswith("\n otherwise by policy show root: " + "programs of sessions whose user is root: "
                        "which calls, instead of base\n")  # fmt: skip


def test_explain_follows_the_directory(policies):
    file = policies / "arguments.json"
    rules = json.loads(file.read_text())
    rules["syscalls"].insert(0, {"names": ["read"], "action": "SCMP_ACT_ERRNO", "errnoRet": 5})
    file.write_text(json.dumps(rules))
    for args, env in (
        (("--policy-dir", str(policies)), {}),
        ((), {"SANDBOX_POLICY_DIR": str(policies)}),
    ):
        done = policy(*args, "explain", "read", **env)
        assert done.stdout.startswith("read (0): EIO, Input/output error\n")
        assert f"  {file}:1: EIO\n" in done.stdout
        assert f"  {policies}/base.json:" in done.stdout


def test_check_compiles_for_every_architecture():
    files = [os.path.join(TOP, "policy", n + ".json") for n in NAMES]
    done = policy("check", *files)
    assert (done.returncode, done.stderr) == (0, "")
    for file in files:
        for arch in ("x86-64", "aarch64"):
            line = rf"^{re.escape(file)}: \d+ rules, \d+ instructions on {arch}$"
            assert re.search(line, done.stdout, re.M)


BAD = {
    "unknown key": ('"action"', '"acton"', 'unknown key "acton"'),
    "unknown call": ('"ptrace"', '"ptrase"', 'unknown system call "ptrase"'),
    "unknown action": ("SCMP_ACT_ALLOW", "SCMP_ACT_ALOW", 'unknown action "SCMP_ACT_ALOW"'),
    "no JSON": ("{", "<", "expected '{', not '<'"),
}


@pytest.mark.parametrize("name", BAD)
def test_check_names_file_line_and_mistake(policies, name):
    old, new, message = BAD[name]
    file = policies / "base.json"
    line = line_of("base", old)
    file.write_text(text("base").replace(old, new, 1))
    done = policy("check", str(file))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"sandbox-server: {file}:{line}: {message}\n"


def without_execve(policies):
    """Nothing is misspelt, but no program can be started."""
    base = json.loads(text("base"))
    for rule in base["syscalls"]:
        rule["names"] = [n for n in rule["names"] if n != "execve"]
    (policies / "base.json").write_text(json.dumps(base))
    return policies / "base.json", "base.json: 'execve' must be allowed: no program can be started without"


def too_many_rules(policies):
    """More than the launcher has room for, beside those of the other files."""
    arguments = json.loads(text("arguments"))
    rule = {"names": ["ioctl"], "action": "SCMP_ACT_ERRNO", "errnoRet": 1}
    for n in range(500):
        one = [{"index": 1, "value": 1000 + n, "op": "SCMP_CMP_EQ"}]
        arguments["syscalls"].append({**rule, "args": one})
    (policies / "arguments.json").write_text(json.dumps(arguments))
    return policies / "arguments.json", "more than 512 rules that refuse"


@pytest.mark.parametrize("spoil", [without_execve, too_many_rules])
def test_check_refuses_what_a_start_refuses(policies, spoil):
    file, message = spoil(policies)
    started = command("serve", "--port", "0", SANDBOX_POLICY_DIR=str(policies))
    assert started.returncode == 1 and message in started.stderr
    for how in ((), ("--policy-dir", str(policies))):
        checked = policy("check", *how, str(file))
        assert (checked.returncode, checked.stdout) == (1, "")
        assert message in checked.stderr
    # what has not the name of a policy is nobody's yet
    os.rename(file, policies / "found.json")
    assert policy("check", str(policies / "found.json")).returncode == 0


@pytest.mark.parametrize(
    "args, message",
    [
        ((), "policy wants a verb (try policy --help)"),
        (("fly",), "unknown verb 'policy fly' (try policy --help)"),
        (("explain",), "policy explain: an argument is missing"),
        (("check",), "policy check: an argument is missing"),
        (("list", "x"), "policy list: unknown argument 'x'"),
        (("show", "nothing"), "no policy 'nothing' (try policy list)"),
        (("explain", "nothing"), "unknown system call 'nothing'"),
        (("check", "/nonexistent/no.json"), "read policy '/nonexistent/no.json': No such file or directory"),
        (("--fly", "high", "list"), "unknown flag '--fly'"),
        (("list", "--policy-dir", "/nonexistent"), "SANDBOX_POLICY_DIR has no '/nonexistent/network-none.json':"),
    ],
)
def test_a_mistake_is_one_line_and_exit_1(args, message):
    done = policy(*args)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"sandbox-server: {message}") and done.stderr.count("\n") == 1


# ---- observe

# calls that the filters of containers allow: theirs would answer, and nobody would be told
CURIOUS = """
import ctypes, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
for i in range(2):
    libc.ptrace(0, 0, 0, 0)
libc.shmget(0, 1, 0)
try:
    socket.socket(socket.AF_INET)
except OSError as e:
    print(e.errno)
libc.socketpair(2, 1, 0, ctypes.create_string_buffer(8))
print(sys.argv[1:], file=sys.stderr)
"""


@pytest.fixture
def observe(tmp_path):
    """Observes a python program: the process, and its policy as JSON when there is one."""

    def run(code, *args, **env):
        script = tmp_path / "program.py"
        script.write_text(code)
        done = policy("observe", "--mode", "python", str(script), *args, **env)
        return done, json.loads(done.stdout) if done.returncode == 0 else None

    return run


def rules(found):
    return {
        r["names"][0]: [(a["index"], a["value"], a["op"]) for a in r.get("args", [])]
        for r in found["syscalls"]
    }


def test_observe_prints_a_policy_that_allows_just_what_was_refused(observe, tmp_path):
    done, found = observe(CURIOUS, "--json", "two words")
    assert done.returncode == 0
    # the program's own output is not the policy's, and its calls were refused all the same
    assert done.stderr == "97\n['--json', 'two words']\n"
    assert rules(found) == {
        "ptrace": [],
        "shmget": [],
        "socket": [(0, 2, "SCMP_CMP_EQ"), (2, 0, "SCMP_CMP_EQ")],
        "socketpair": [(0, 2, "SCMP_CMP_EQ")],
    }
    comments = [r["comment"] for r in found["syscalls"]]
    line = line_of("base", '"ptrace"')
    assert comments[0] == f"2 times; EPERM by line {line} of base.json"
    file = tmp_path / "found.json"
    file.write_text(done.stdout)
    assert policy("check", str(file)).returncode == 0


def test_what_was_observed_and_added_is_allowed(observe, policies):
    _, found = observe(CURIOUS)
    base = json.loads(text("base"))
    wanted = [r for r in found["syscalls"] if r["names"] == ["ptrace"]]
    for rule in base["syscalls"]:
        rule["names"] = [n for n in rule["names"] if n != "ptrace"]
    base["syscalls"] += wanted
    (policies / "base.json").write_text(json.dumps(base))
    done, found = observe(CURIOUS, SANDBOX_POLICY_DIR=str(policies))
    assert done.returncode == 0, done.stderr
    assert "ptrace" not in rules(found) and "shmget" in rules(found)


EACH = """
import ctypes
libc = ctypes.CDLL(None)
for args in ((2, 1, 0), (2, 1, 6), (2, 2, 17), (2, 1, 6)):
    libc.socket(*args)
"""


def test_every_set_of_arguments_is_a_rule(observe, tmp_path):
    done, found = observe(EACH)
    sockets = [r for r in found["syscalls"] if r["names"] == ["socket"]]
    assert [[a["value"] for a in r["args"]] for r in sockets] == [[2, 0], [2, 6], [2, 17]]
    assert [r["comment"].split(";")[0] for r in sockets] == ["1 time", "2 times", "1 time"]
    file = tmp_path / "found.json"
    file.write_text(done.stdout)
    assert policy("check", str(file)).returncode == 0


def test_what_is_too_much_to_be_noted_is_said(observe):
    done, _ = observe("import ctypes\nfor n in range(1100): ctypes.CDLL(None).socket(2, 1, n)")
    assert done.returncode == 125
    assert done.stderr.endswith("there were more calls than can be noted: this is not all\n")
    assert json.loads(done.stdout)["syscalls"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to take namespaces away")
def test_without_namespaces_nothing_is_observed(tmp_path):
    script = tmp_path / "program.py"
    script.write_text("print(1)")
    words = ["policy", "observe", "--min-isolation", "landlock", "--mode", "python", str(script)]
    locked = [sys.executable, os.path.join(os.path.dirname(__file__), "locked.py"), BINARY, *words]
    env = {"PATH": "/usr/bin:/bin"}
    done = subprocess.run(locked, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (125, "")
    assert "with namespaces only" in done.stderr


def test_an_honest_program_needs_nothing(observe):
    done, found = observe("print('fine')")
    assert done.stderr == "fine\n" and found["syscalls"] == []


def test_observe_and_a_program_that_fails(observe):
    done, found = observe("import sys; sys.exit(3)")
    assert done.returncode == 0 and found["syscalls"] == []


@pytest.mark.parametrize(
    "args, message",
    [
        ((), "no script given (try policy observe --help)"),
        (("--json", "x"), "policy observe has no --json"),
        (("--mode", "python", "/nonexistent/no.py"), "open '/nonexistent/no.py': "),
    ],
)
def test_observe_and_mistakes(args, message):
    done = policy("observe", *args)
    assert (done.returncode, done.stdout) == (125, "")
    assert done.stderr.startswith(f"sandbox-server: {message}")


def test_help():
    assert "policy observe" in policy("observe", "--help").stdout
    done = policy("--help")
    assert done.returncode == 0 and done.stderr == ""
    for verb in ("list", "show", "check", "explain", "observe"):
        assert f"sandbox-server policy {verb}" in done.stdout

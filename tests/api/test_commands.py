# SPDX-License-Identifier: GPL-2.0-only
"""The command line: run, check, versions and help."""

import json
import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time

import pytest

from conftest import BINARY, TOP, wait_for
from probes import SLOW, as_user, binary_for_all, clean_env, command, plain_user


@pytest.fixture
def script():
    """Writes a program and gives its path."""
    with tempfile.TemporaryDirectory(prefix="sandbox-script-") as top:

        def write(text, name="program"):
            path = os.path.join(top, name)
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
            return path

        yield write


def run(*args, stdin=b"", **env):
    """sandbox-server run, for shell unless told otherwise."""
    env.setdefault("SANDBOX_MODE", "shell")
    return command("run", *args, stdin=stdin, **env)


def outcome(done):
    return done.stdout, done.stderr, done.returncode


# ---- run


def test_run_passes_output_and_exit_code_through(script):
    code = "echo out; echo err >&2; exit 3"
    assert outcome(run(script(code))) == ("out\n", "err\n", 3)


@pytest.mark.parametrize(
    "code, status", [("true", 0), ("false", 1), ("exit 300", 44), ("no_such 2>&-", 127)]
)
def test_run_exits_with_the_programs_code(script, code, status):
    assert run(script(code)).returncode == status


def test_run_of_a_program_that_a_signal_ended(script):
    done = run(script("echo before; kill -SEGV $$"))
    assert done.stdout == "before\n"
    assert done.stderr == "killed by signal 11 (SIGSEGV)\n"
    assert done.returncode == 128 + 11


def test_run_of_a_program_that_takes_too_long_exits_124(script):
    begin = time.monotonic()
    done = run("--timeout", "1", script("echo before; sleep 60"))
    assert outcome(done) == ("before\n", "execution timed out after 1 seconds\n", 124)
    assert 1 <= time.monotonic() - begin < 4 * SLOW
    assert run("--timeout=0.5", script("sleep 60")).returncode == 124


def test_run_when_the_sandbox_fails_exits_125(script):
    done = run(script("echo ran"), SANDBOX_TEST_FAULT="seccomp")
    assert done.stdout == "" and done.returncode == 125
    assert 'sandbox step "seccomp" failed' in done.stderr


@pytest.mark.parametrize(
    "args, message",
    [
        ((), "no script given (try run --help)"),
        (("/no/such/script",), "open '/no/such/script': No such file or directory"),
        (("--timeout", "0", "-"), "--timeout 0: want seconds, more than 0"),
        (("--timeout", "x", "-"), "--timeout x: want seconds, more than 0"),
        (("--timeout",), "--timeout wants a value"),
        (("--file", "a", "-"), "--file a: want NAME=PATH with a relative NAME"),
        (
            ("--file", "/a=/etc/hostname", "-"),
            "--file /a=/etc/hostname: want NAME=PATH with a relative NAME",
        ),
        (
            ("--file", "../a=/etc/hostname", "-"),
            "--file ../a=/etc/hostname: want NAME=PATH with a relative NAME",
        ),
        (("--file", "a=/no/such", "-"), "open '/no/such': No such file or directory"),
        (("--nonsense", "-"), "unknown flag '--nonsense'"),
        (
            ("--mode", "ruby", "-"),
            'unsupported mode "ruby" (supported: python, golang, node, shell)',
        ),
    ],
)
def test_run_refuses_by_name(args, message):
    assert outcome(run(*args)) == ("", f"sandbox-server: {message}\n", 125)


def test_run_does_not_let_a_file_replace_the_script(script):
    for name, whose in (
        ("script.sh", "script's own"),
        ("script.sh/x", "script's own"),
        ("output", "output directory's"),
        ("output/x", "output directory's"),
    ):
        done = run("--file", f"{name}=/etc/passwd", script("echo ran"))
        message = f"sandbox-server: --file {name}: that name is the {whose}\n"
        assert outcome(done) == ("", message, 125)


def test_run_reads_the_program_from_standard_input():
    assert outcome(run("-", stdin="echo $((6*7)); cat")) == ("42\n", "", 0)


def test_run_gives_standard_input_only_when_asked(script):
    path = script("wc -c")
    assert outcome(run(path, stdin=b"12345")) == ("0\n", "", 0)
    assert outcome(run("--stdin", path, stdin=b"12345")) == ("5\n", "", 0)
    assert outcome(run("--stdin", path, stdin=b"x" * 3000000)) == ("3000000\n", "", 0)


def test_run_puts_files_into_the_working_directory(script):
    a, b = script("first", "a"), script("second", "b")
    code = script("cat in.txt deep/er/b; ls output")
    done = run("--file", f"in.txt={a}", f"--file=deep/er/b={b}", code)
    assert outcome(done) == ("firstsecond", "", 0)


def test_run_passes_arguments_on(script):
    path = script('printf "%s|" "$@"')
    assert run(path, "a b", "--mode", "", "-").stdout == "a b|--mode||-|"


def test_run_in_every_mode(mode, script):
    code = {
        "python": "print('hi')",
        "golang": 'package main\nimport "fmt"\nfunc main() { fmt.Println("hi") }',
        "node": "console.log('hi')",
        "shell": "echo hi",
    }[mode]
    # a compile cache that is there already is used; without one it takes a while
    state = os.path.join(TOP, "build/go-state")
    done = command(
        "run",
        "--mode",
        mode,
        "--timeout",
        "100",
        script(code),
        timeout=110,
        SANDBOX_STATE_DIR=state,
    )
    assert outcome(done) == ("hi\n", "", 0)


def test_run_passes_output_through_live(script):
    path = script("echo first; sleep 30; echo second")
    with subprocess.Popen(
        [BINARY, "run", path],
        env=clean_env(SANDBOX_MODE="shell"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as p:
        begin = time.monotonic()
        assert p.stdout.readline() == b"first\n"
        assert time.monotonic() - begin < 10 * SLOW
        assert p.poll() is None
        p.terminate()
        assert p.wait(10) == 128 + 15


def test_run_does_not_cut_the_output(script):
    done = run(
        script("head -c 3000000 /dev/zero | tr '\\0' x; head -c 20000 /dev/zero | tr '\\0' y >&2")
    )
    assert (len(done.stdout), len(done.stderr), done.returncode) == (3000000, 20000, 0)


def test_run_passes_bytes_through_as_they_are():
    done = subprocess.run(
        [BINARY, "run", "-"],
        input=b"printf '\\377\\000\\200x'",
        env=clean_env(SANDBOX_MODE="shell"),
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout, done.returncode) == (b"\xff\x00\x80x", 0)


def test_run_json_prints_the_result_object(script):
    done = run("--json", script("echo out; echo err >&2; echo made >output/f; exit 3"))
    r = json.loads(done.stdout)
    assert done.stdout.endswith("}\n") and done.stderr == "" and done.returncode == 3
    assert (r["status"], r["stdout"], r["stderr"]) == ("error", "out\n", "err\n")
    assert (r["exit_code"], r["files_produced"]) == (3, {"f": "bWFkZQo="})
    assert r["meta"]["mode"] == "shell" and r["meta"]["verdict"] == "nonzero_exit"
    assert isinstance(r["execution_time_ms"], int)


def test_run_json_of_a_timeout(script):
    done = run("--json", "--timeout", "1", script("echo before; sleep 60"))
    r = json.loads(done.stdout)
    assert (r["exit_code"], r["meta"]["verdict"], done.returncode) == (-1, "timeout", 124)
    assert (r["stdout"], r["stderr"]) == ("before\n", "execution timed out after 1 seconds\n")


def test_run_whose_reader_goes_away_ends_as_in_any_pipeline(script):
    path = script("yes")
    begin = time.monotonic()
    with subprocess.Popen(
        [BINARY, "run", "--timeout", "20", path],
        env=clean_env(SANDBOX_MODE="shell"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as p:
        assert p.stdout.read(4) == b"y\ny\n"
        p.stdout.close()
        assert p.wait(40) == 128 + 13
    assert time.monotonic() - begin < 10 * SLOW


def test_run_that_is_killed_takes_its_program_along(script):
    mark = f"7{os.getpid()}.25"
    with subprocess.Popen(
        [BINARY, "run", script(f"echo begun; sleep {mark}")],
        env=clean_env(SANDBOX_MODE="shell"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    ) as p:
        assert p.stdout.readline() == b"begun\n"
        p.kill()
        p.wait(10)

    def left():
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as f:
                    if mark.encode() in f.read().split(b"\0"):
                        found.append(pid)
            except OSError:
                pass
        return found

    wait_for(lambda: not left())


# ---- check


LAYERS = """
    user_namespace mount_namespace pid_namespace network_namespace ipc_namespace uts_namespace
    cgroup_namespace root proc memory_limit pids_limit cpu_limit identity capabilities
    no_new_privs seccomp landlock violations
""".split()


def test_check_prints_a_table():
    done = command("check", SANDBOX_MODE="shell")
    assert done.returncode == 0 and done.stderr == ""
    lines = done.stdout.split("\n")
    assert lines[0].split() == ["layer", "active", "evidence"]
    rows = [line.split() for line in lines[1:] if line and not line.startswith(" ")]
    assert [r[0] for r in rows[:-1]] == LAYERS
    assert all(r[1] in ("yes", "NO", "off") and len(r) > 2 for r in rows[:-1])
    assert rows[-1][0] == "level:" and rows[-1][2:] == ["(minimum:", "namespaces)"]


def test_check_json_is_what_the_server_says(start):
    done = command("check", "--json", SANDBOX_MODE="shell")
    assert done.returncode == 0 and done.stdout.count("\n") == 1
    told = json.loads(done.stdout)
    assert list(told["layers"]) == LAYERS
    for layer in told["layers"].values():
        assert layer["active"] is False or layer["evidence"]
        assert layer["active"] is True or layer["reason"]
    s = start(mode="shell")
    served = s.get("/isolation").json
    assert told["level"] == served["level"]
    assert {k: v["active"] for k, v in told["layers"].items()} == {
        k: v["active"] for k, v in served["layers"].items()
    }


def test_a_canary_that_got_too_little_cpu_time_to_be_throttled_is_not_the_last():
    told, again = (
        json.loads(command("check", "--json", SANDBOX_MODE="shell", **env).stdout)["layers"]
        for env in ({}, {"SANDBOX_TEST_FAULT": "idle"})
    )
    assert again["cpu_limit"]["active"] == told["cpu_limit"]["active"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become somebody with less")
def test_check_below_the_minimum_exits_1_and_says_what_to_do():
    """A plain user has no cgroups here, so not everything holds."""
    copy = binary_for_all()
    env = clean_env(SANDBOX_MODE="shell", SANDBOX_MIN_ISOLATION="full", PATH="/usr/bin:/bin")
    with as_user(plain_user(), [copy, "check"], env, stdout=subprocess.PIPE) as p:
        said = p.stdout.read().decode()
    shutil.rmtree(os.path.dirname(copy))
    if "level: full" in said:
        pytest.skip("a plain user has cgroups of his own here")
    assert p.returncode == 1
    assert "level: namespaces (minimum: full)" in said
    lines = said.split("\n")
    missing = [i for i, line in enumerate(lines) if line.split()[1:2] == ["NO"]]
    assert {lines[i].split()[0] for i in missing} == {"memory_limit", "cpu_limit"}
    for i in missing:  # a reason may stand between
        below = [line.strip() for line in lines[i + 1 : i + 3]]
        assert any(line.startswith("fix: ") for line in below), said


def test_check_needs_no_runtime():
    done = command("check", PATH="/nonexistent")
    assert done.returncode == 0 and "level: " in done.stdout


# ---- versions, help, mistakes


def test_version():
    done = command("--version")
    assert done.returncode == 0 and done.stderr == ""
    name, number = done.stdout.split()
    assert name == "sandbox-server" and number[0].isdigit()


@pytest.mark.parametrize(
    "args", [("--help",), ("serve", "--help"), ("run", "--help"), ("check", "--help")]
)
def test_help(args):
    done = command(*args)
    assert done.returncode == 0 and done.stderr == ""
    assert done.stdout.count("usage: sandbox-server") == 1
    if args == ("--help",):
        for word in ("serve", "run", "check", "ready", "token", "audit", "policy", "--version"):
            assert word in done.stdout
        assert "launcher" not in done.stdout
    else:
        assert "--max-concurrent" in done.stdout and "--token-file" in done.stdout
        for flag in {"run": ("--timeout", "--file", "--stdin", "--json"), "check": ("--json",)}.get(
            args[0], ()
        ):
            assert flag in done.stdout


def test_an_unknown_command():
    assert outcome(command("fly")) == (
        "",
        "sandbox-server: unknown command 'fly' (try --help)\n",
        2,
    )


@pytest.mark.parametrize("name", ["serve", "run", "check"])
def test_an_unknown_flag(name):
    done = command(name, "--fly", "high")
    status = 125 if name == "run" else 1
    assert outcome(done) == ("", "sandbox-server: unknown flag '--fly'\n", status)


def test_the_launcher_is_not_for_people():
    done = command("launcher")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("sandbox-server: 'launcher' ") and "'serve'" in done.stderr


# ---- ready


def ready(port, *args):
    return outcome(command("ready", "--port", str(port), *args))


def test_ready_asks_a_server_that_runs(start):
    s = start()
    assert ready(s.port) == ready(s.port, "--listen", "0.0.0.0") == ("", "", 0)
    s.stop()
    gone = f"sandbox-server: connect to '127.0.0.1' port {s.port}: Connection refused\n"
    assert ready(s.port) == ("", gone, 1)


@pytest.mark.parametrize(
    "says, words",
    [
        (b"HTTP/1.1 503 Service Unavailable\r\n\r\n", "not ready: /readyz answers 503"),
        (b"SSH-2.0-nobody of yours\r\n", "Protocol error"),
        (b"HTTP/1.1 2", "Connection reset by peer"),
        (None, "Connection timed out"),
    ],
)
def test_ready_trusts_no_other_answer(says, words):
    with socket.create_server(("127.0.0.1", 0)) as s:

        def answer():
            c, _ = s.accept()
            with c:
                if says:
                    c.recv(1000)
                    c.sendall(says)
                else:
                    c.settimeout(30)
                    while c.recv(1000):
                        pass

        thread = threading.Thread(target=answer)
        thread.start()
        out, err, status = ready(s.getsockname()[1])
        thread.join()
    assert (out, status) == ("", 1) and words in err


def test_ready_names_what_is_wrong():
    assert ready(0) == ("", "sandbox-server: port 0 is any free one: which is it?\n", 1)
    assert ready(1, "extra")[1] == "sandbox-server: unknown argument 'extra' (try ready --help)\n"

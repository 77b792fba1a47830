# SPDX-License-Identifier: GPL-2.0-only
"""Must hold 15: which runtime is served, and what is said when it cannot be."""

import os
import shutil
import subprocess
import time

import pytest

from conftest import LEAVES_ROOT, RUNTIMES, found_modes
from probes import command, own_place, path_of, real_program, write_program

NONE_FOUND = "no supported runtime found in PATH (tried: python3, go, node, bash)"
HELLO = {
    "python": "print('hello')",
    "golang": 'package main\nfunc main() { println("hello") }',
    "node": "console.log('hello')",
    "shell": "echo hello",
}


@pytest.fixture
def place():
    """A directory at which a run can see a runtime."""
    made = own_place()
    yield made
    shutil.rmtree(made)


def refused(message, *args, **env):
    """serve ends with 1 and this one line."""
    done = command("serve", "--port", "0", *args, SANDBOX_STATE_DIR="/nonexistent/x", **env)
    assert (done.returncode, done.stderr, done.stdout) == (1, f"sandbox-server: {message}\n", "")


# ---- found by itself


def test_path_with_a_single_runtime(start, mode, place):
    s = start(mode=None, PATH=path_of(place, RUNTIMES[mode]))
    h = s.get("/health").json
    assert h["mode"] == mode and "modes" not in h
    assert "mode.skip" not in s.log()
    if mode != "golang":  # compiling without a cache takes a minute
        assert s.execute(HELLO[mode])["stdout"] == "hello\n"


def test_path_with_all_takes_the_first_there_is(start, place):
    order = found_modes()
    assert order == [m for m in RUNTIMES if m in order]
    path_of(place, *(RUNTIMES[m] for m in order))
    for mode in order:
        s = start(mode="auto", PATH=place)
        assert s.get("/health").json["mode"] == mode
        s.stop()
        os.unlink(os.path.join(place, RUNTIMES[mode]))
    refused(NONE_FOUND, PATH=place)


def test_path_with_none(place):
    refused(NONE_FOUND, PATH=place)
    refused(NONE_FOUND, PATH="/nonexistent:" + place)
    refused(NONE_FOUND, PATH="")
    refused(NONE_FOUND, PATH=None)
    refused(NONE_FOUND, PATH=place, SANDBOX_MODE="auto")


def break_it(place, how):
    """A python3 that is there, but does not run."""
    path = os.path.join(place, "python3")
    if how == "fails":
        write_program(path, "#!/bin/sh\nexit 1\n")
    elif how == "says nothing":
        write_program(path, "#!/bin/sh\nexit 0\n")
    elif how == "lies":
        write_program(path, "#!/bin/sh\necho Python 3.12.0\n")
    elif how == "no interpreter":
        write_program(path, "#!/nonexistent\n")
    elif how == "not a program":
        write_program(path, "\x7fELF rubbish\n")
    elif how == "dies":
        write_program(path, "#!/bin/sh\nkill -9 $$\n")
    elif how == "hangs":
        write_program(path, "#!/bin/sh\nexec /bin/sleep 60\n")


BROKEN = ["fails", "says nothing", "lies", "no interpreter", "not a program", "dies"]


def test_a_broken_one_is_skipped_with_a_warning(start, place):
    path_of(place, "bash")
    break_it(place, "fails")
    s = start(mode=None, PATH=place)
    assert s.get("/health").json["mode"] == "shell"
    line = s.wait_log(r"mode\.skip", 1)
    assert "warn" in line and "mode=python" in line and f"program={place}/python3 " in line


@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_one_that_was_named(place, how):
    break_it(place, how)
    message = "mode=python but 'python3' does not run"
    refused(message, PATH=place, SANDBOX_MODE="python")
    refused(message, "--mode", "python", PATH=place, SANDBOX_MODE="shell")


def test_one_that_hangs_has_five_seconds(start, place):
    path_of(place, "bash")
    break_it(place, "hangs")
    begin = time.monotonic()
    refused("mode=python but 'python3' does not run", "--mode=python", PATH=place)
    assert 4.5 < time.monotonic() - begin < 20
    s = start(mode=None, PATH=place)
    assert s.get("/health").json["mode"] == "shell"
    assert "no answer in time" in s.wait_log(r"mode\.skip", 1)


def test_what_is_no_program_is_not_found(place):
    path_of(place, "bash")
    os.mkdir(os.path.join(place, "python3"))
    os.symlink("/nonexistent", os.path.join(place, "go"))
    with open(os.path.join(place, "node"), "w", encoding="ascii") as f:
        f.write("#!/bin/sh\n")  # not executable
    for mode, program in (("python", "python3"), ("golang", "go"), ("node", "node")):
        refused(f"mode={mode} but '{program}' not found in PATH", PATH=place, SANDBOX_MODE=mode)


# ---- named


@pytest.mark.parametrize("mode", RUNTIMES)
def test_a_named_mode_that_is_absent(mode, place):
    message = f"mode={mode} but '{RUNTIMES[mode]}' not found in PATH"
    refused(message, PATH=place, SANDBOX_MODE=mode)
    refused(message, "--mode", mode, PATH=place)


def test_an_unsupported_mode(place):
    message = 'unsupported mode "ruby" (supported: python, golang, node, shell)'
    refused(message, SANDBOX_MODE="ruby")
    refused(message, "--mode=ruby")
    refused(message, SANDBOX_MODE="shell,ruby")
    refused(message, SANDBOX_SUPPORTED_LANGUAGES="ruby", PATH=place)
    refused('unsupported mode "Python" (supported: python, golang, node, shell)', "--mode=Python")
    refused('unsupported mode "" (supported: python, golang, node, shell)', "--mode=shell,")
    refused("SANDBOX_MODE=: must not be empty", SANDBOX_MODE="")


def test_the_flag_beats_the_variable(start):
    s = start("--mode", "shell", mode="python")
    h = s.get("/health").json
    assert h["mode"] == "shell" and "modes" not in h
    assert s.execute("echo $0")["stdout"] == "script.sh\n"


def test_a_list_serves_several_the_first_by_default(start):
    s = start(mode="shell,python,shell")
    h = s.get("/health").json
    assert (h["mode"], h["modes"]) == ("shell", ["shell", "python"])
    assert s.execute("echo $((6*7))")["stdout"] == "42\n"
    for alias in ("python", "py"):
        assert s.execute("print(6*7)", language=alias)["stdout"] == "42\n"
    for alias in ("shell", "bash", "sh"):
        assert s.execute("echo $((6*7))", language=alias)["stdout"] == "42\n"
    r = s.post("/execute", {"code": "1", "language": "node"})
    assert (r.status, r.json) == (
        400,
        {
            "error": 'unsupported language "node" (supported: shell, python)',
            "code": "unsupported_language",
        },
    )


def test_supported_languages_adds_to_the_mode(start):
    s = start(mode="shell", SANDBOX_SUPPORTED_LANGUAGES="python")
    assert s.get("/health").json["modes"] == ["shell", "python"]
    s.stop()
    s = start(mode=None, SANDBOX_SUPPORTED_LANGUAGES="python,shell")
    h = s.get("/health").json
    assert (h["mode"], h["modes"]) == ("python", ["python", "shell"])


# ---- /health


def test_health_of_a_mode(start, mode):
    s = start(mode=mode, SANDBOX_WARM="0")
    h = s.get("/health").json
    assert list(h) == [
        "status",
        "mode",
        "runtime_version",
        "capacity",
        "current_load",
        "uptime_seconds",
        "preinstalled_packages",
        "isolation",
        *(["installer", "package_layers"] if mode in ("python", "node") else []),
        "version",
    ]
    flag = "version" if mode == "golang" else "--version"
    said = subprocess.run(
        [real_program(RUNTIMES[mode]), flag], capture_output=True, text=True, check=True
    )
    assert h["runtime_version"] == said.stdout.split("\n")[0]
    assert (h["status"], h["mode"], h["capacity"], h["current_load"]) == ("healthy", mode, 3, 0)
    assert isinstance(h["uptime_seconds"], int) and 0 <= h["uptime_seconds"] < 60
    packages = h["preinstalled_packages"]
    if mode in ("golang", "shell"):
        assert packages == []
    else:
        assert packages == sorted(set(packages)) and all(isinstance(p, str) for p in packages)
    assert h["isolation"]["level"] in ("full", "namespaces")
    assert list(h["isolation"]) == ["level", "layers", "missing"]
    assert s.get("/health").json["version"] == command("--version").stdout.split()[1]


def test_the_packages_of_python_are_those_it_can_import(start):
    s = start(mode="python")
    told = s.get("/health").json["preinstalled_packages"]
    code = (
        "from importlib import metadata\n"
        "names = {d.metadata['Name'] for d in metadata.distributions()}\n"
        "print('\\n'.join(sorted(n for n in names if n)))"
    )
    r = s.execute(code, limits={"max_output_kb": 1024})
    assert r["stdout"].split() == told


# ---- interpreters elsewhere


def closed(place):
    """Only root, or whoever runs the tests, can enter it."""
    os.chmod(place, 0o700)
    return place


def told_to_open(place, mode, path):
    """Whether root's launcher cannot enter it here, as a start says in one line."""
    if not LEAVES_ROOT:
        return False
    refused(
        f"'{place}' has a runtime and only root can enter it, but without CAP_SYS_ADMIN sandboxes "
        "are made by uid 600000: open it, or move the runtime",
        SANDBOX_MODE=mode,
        PATH=path,
    )
    return True


def test_bash_in_a_directory_that_only_root_can_enter(start, place):
    os.makedirs(place + "/shell/bin")
    shutil.copy(real_program("bash"), place + "/shell/bin/bash")
    with open(place + "/neighbour", "w", encoding="ascii") as f:
        f.write("secret")
    if told_to_open(closed(place), "shell", place + "/shell/bin"):
        return
    s = start(mode="shell", PATH=place + "/shell/bin")
    r = s.execute("echo $BASH; /bin/ls -A " + place)
    assert (r["stdout"], r["stderr"]) == (f"{place}/shell/bin/bash\nshell\n", "")


def test_bash_whose_own_directories_only_root_can_enter(start, place):
    os.makedirs(place + "/shell/bin")
    os.makedirs(place + "/shell/deep/deeper/deepest/secret")
    shutil.copy(real_program("bash"), place + "/shell/bin/bash")
    os.symlink("bin/bash", place + "/shell/sh")
    for closed_one in ("", "/bin", "/deep", "/deep/deeper", "/deep/deeper/deepest"):
        os.chmod(place + "/shell" + closed_one, 0o700)
    if told_to_open(place + "/shell", "shell", place + "/shell/bin"):
        return
    s = start(mode="shell", PATH=place + "/shell/bin")
    r = s.execute(f"cd {place}/shell; echo $BASH; ./sh -c 'echo by link'; /bin/ls deep/deeper/deepest")
    if os.geteuid() == 0:
        assert r["stdout"] == f"{place}/shell/bin/bash\nby link\n"
        assert "Permission denied" in r["stderr"]
    else:  # whoever runs the tests may look into his own
        assert (r["stdout"], r["stderr"]) == (f"{place}/shell/bin/bash\nby link\nsecret\n", "")


def test_a_virtual_environment_in_a_directory_that_only_root_can_enter(start, place):
    python = real_program("python3")
    subprocess.run([python, "-m", "venv", "--without-pip", place + "/venv"], check=True)
    lib = subprocess.run(
        [
            place + "/venv/bin/python3",
            "-c",
            "import sysconfig; print(sysconfig.get_path('purelib'))",
        ],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    with open(lib + "/only_here.py", "w", encoding="ascii") as f:
        f.write("value = 42\n")
    with open(place + "/neighbour", "w", encoding="ascii") as f:
        f.write("secret")
    path = place + "/venv/bin:" + os.environ["PATH"]
    if told_to_open(closed(place), "python", path):
        return
    s = start(mode="python", PATH=path)
    r = s.execute(
        "import os, sys, only_here\n"
        f"print(only_here.value, sys.prefix, os.path.exists({place + '/neighbour'!r}))"
    )
    assert (r["stdout"], r["stderr"]) == (f"42 {place}/venv False\n", "")


def test_a_shim_script_in_front_of_the_runtime(start, place):
    write_program(place + "/python3", f'#!/bin/sh\nexec {real_program("python3")} "$@"\n')
    s = start(mode="python", PATH=place)
    r = s.execute("import sys; print(sys.executable)")
    assert r["stdout"] == real_program("python3") + "\n"


def test_packages_for_modes_that_have_none_are_ignored(start):
    s = start(mode="shell,golang", SANDBOX_WARM="0")
    assert s.execute("echo here", requirements=["nosuchpackage"])["stdout"] == "here\n"
    code = 'package main\n\nfunc main() { println("here") }'
    assert s.execute(code, language="go", requirements=["nosuchpackage"])["stderr"] == "here\n"
    assert "install" not in s.log()

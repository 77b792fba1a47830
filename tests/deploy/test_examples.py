# SPDX-License-Identifier: GPL-2.0-only
"""Every command of README.md and of the manuals is typed, and says what the page says it does.

Changed are the port, the places that are not the test's own, and how long it takes. What is not typed
here is in ELSEWHERE, with who does it, or why nobody can.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "tests/api"))
from conftest import BINARY, Server  # noqa: E402
from packages import place_with_uv, wheel  # noqa: E402

MANUALS = ["sandbox-server.8", "sandbox-api.7", "sandbox-policy.5", "sandbox-server.conf.5"]
ELSEWHERE = {
    "make run": "below, without the building",
    "make test": "this",
    "make image": "tests/image",
    "podman run --rm -p 127.0.0.1:8080:8080": "tests/image types the longer ones of deploy/docker",
    "make deb": "make test-systemd",
    "apt-get install ./build/sandbox-server_*.deb": "tests/systemd",
    "kill -TERM $(pgrep": "tests/systemd: here it would find another's server",
    "systemd-run --user": "needs a user's own systemd",
    "podman save": "below, with an image of the test's own",
    "sandbox-server image add": "the same",
    "vi ": "the change that the page shows is made below",
    "sandbox-server serve --mode python --network 'example.org": "test_network_example.py, which makes a world",
    "curl -s localhost:8080/execute -H 'Content-Type: application/json' -d '{\"code\":\"import pandas": "the same",
}


def text(name):
    with open(os.path.join(TOP, name), encoding="utf-8") as f:
        return f.read()


def whole(command):
    """Is it one, or does it go on in the next line?"""
    if command.endswith("\\") or ("<<'END'" in command and not command.endswith("\nEND")):
        return False
    return subprocess.run(["bash", "-n", "-c", command], capture_output=True, check=False).returncode == 0


def typed(lines, prompt):
    """[(command, what is shown after it)] of lines; commands begin with the prompt."""
    found = []
    for line in lines:
        if found and not whole(found[-1][0]):
            found[-1][0] += "\n" + line
        elif re.match(prompt, line):
            found.append([re.sub(prompt, "", line, count=1), ""])
        elif found:
            found[-1][1] += line + "\n"
    return [tuple(f) for f in found]


def manual(name):
    """Of its section EXAMPLES, and of displays elsewhere that show commands."""
    page = text("man/" + name)
    blocks = re.findall(r"^\.Bd -literal.*\n((?:.*\n)*?)\.Ed$|^\.Dl (.*)$", page, re.M)
    lines = "\n".join(a.rstrip("\n") or b for a, b in blocks).replace("\\e", "\\").split("\n")
    return typed(lines, r"[$#] (?=(?:sandbox-server|curl|echo|export|for|kill|mkdir|podman|systemd-run|vi) )")


def readme():
    lines = re.findall(r"^    (.*)$", text("README.md"), re.M)
    return typed(lines, r"(?=make |curl |echo |build/|podman |apt-get )")


def example_file():
    """What sandbox-server.conf(5) shows, as it stands there."""
    return re.search(r"^\.Bd -literal.*\n((?:.*\n)*?)\.Ed$", text("man/sandbox-server.conf.5"), re.M)[1]


COMMANDS = {name: manual(name) for name in MANUALS} | {"README.md": readme()}


def is_elsewhere(command):
    flat = re.sub(r"\s+", " ", command.replace("\\\n", " "))
    return any(flat.startswith(e) for e in ELSEWHERE)


@pytest.fixture(scope="module")
def place():
    """A directory with the server and uv on its PATH, and what the examples take for granted."""
    top = pathlib.Path(place_with_uv())
    shutil.copy(BINARY, top / "bin/sandbox-server")
    (top / "job.py").write_text("print(open('in.csv').read())\n")
    (top / "script.py").write_text("print(1)\n")
    (top / "a.csv").write_text("1,2\n")
    (top / "sandbox-server.conf").write_text(example_file())
    yield top
    shutil.rmtree(top)


@pytest.fixture(scope="module")
def index(place):
    """The packages that the examples install, from here."""
    for name in ("six", "numpy", "pandas"):
        where = place / "index/simple" / name
        where.mkdir(parents=True)
        made = os.path.basename(wheel(str(where), name, "1.0", {f"{name}.py": "__version__ = '1.0'\n"}))
        (where / "index.html").write_text(f'<a href="{made}">{made}</a>\n')

    class Quiet(SimpleHTTPRequestHandler):
        def __init__(self, *args):
            super().__init__(*args, directory=str(place / "index"))

        def log_message(self, *args):
            pass

    s = ThreadingHTTPServer(("127.0.0.1", 0), Quiet)
    threading.Thread(target=s.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{s.server_port}/simple"
    s.shutdown()
    s.server_close()


@pytest.fixture(scope="module")
def type_it(place, index):
    """type_it(command): as a person does, below a server; what it printed."""
    env = {"PATH": f"{place}/bin:{os.environ['PATH']}", "SANDBOX_PYTHON_INDEX": index}
    server = Server({**env, "SANDBOX_WARM": "0"}, (), "python,shell")

    def run(command, **more):
        command = command.replace("localhost:8080", f"127.0.0.1:{server.port}")
        command = command.replace("127.0.0.1:8080", f"127.0.0.1:{server.port}")
        command = command.replace("/etc/sandbox-policy", f"{place}/policy").replace("/tmp/a.csv", "a.csv")
        command = command.replace("build/release/", "").replace("server selftest", "server selftest --case NS01")
        command = command.replace("sleep 1;", "sleep 0.1;")
        home = {"HOME": str(place), "SANDBOX_STATE_DIR": str(place / "state"), "LC_ALL": "C.UTF-8"}
        done = subprocess.run(
            ["bash", "-c", command], env={**env, **home, **more}, cwd=more.get("PWD", place),
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 0, (command, done.stdout[-500:], done.stderr[-500:])
        return done.stdout

    yield run
    server.stop()


def test_every_command_is_found():
    assert {name: len(found) for name, found in COMMANDS.items()} == {
        "sandbox-server.8": 10, "sandbox-api.7": 6, "sandbox-policy.5": 8, "sandbox-server.conf.5": 1, "README.md": 11,
    }  # fmt: skip
    every = [c for found in COMMANDS.values() for c, _ in found]
    assert "\tkill -TERM $(pgrep -o -x sandbox-server)\n" in text("tests/systemd/inside.sh")
    for start in ELSEWHERE:
        assert any(re.sub(r"\s+", " ", c.replace("\\\n", " ")).startswith(start) for c in every), start


HERE = [(n, c, shown) for n in ("README.md", "sandbox-api.7", "sandbox-server.conf.5", "sandbox-server.8")
        for c, shown in COMMANDS[n] if not is_elsewhere(c) and " serve " not in c]  # fmt: skip


@pytest.mark.parametrize("page, command, shown", HERE, ids=[f"{n}-{c[:40]}" for n, c, _ in HERE])
def test_it_does_what_the_page_says(type_it, page, command, shown):
    said = type_it(command)
    if page == "sandbox-api.7" and shown:
        assert said.strip() == shown.strip()
    elif "DELETE" in command:
        assert json.loads(said) == {"closed": 0}
    elif "run_python_code" in command:
        assert said == "45\n"
    elif page == "sandbox-api.7":
        assert said.count('"event":"stdout"') == 3, said
    elif "/execute" in command:
        answer = json.loads(said)
        assert answer["exit_code"] == 0 and answer["stdout"] in ("42\n", "1.0\n"), said
    elif "server run " in command:
        assert said == ("42\n" if command.endswith(" -") else "1,2\n\n")
    elif page == "sandbox-server.conf.5":
        lines = example_file().splitlines()
        for number, line in enumerate(lines[1:], 2):
            shown = re.escape(line.replace('"', ""))
            assert re.search(rf"^{shown} +\./sandbox-server\.conf:{number}$", said, re.M), (line, said)
        assert len(lines) == 6
    else:
        assert said


@pytest.mark.skipif(os.geteuid() != 0, reason="podman's store here is root's")
def test_an_image_of_podman_is_added(type_it, place):
    wanted = "podman save", "sandbox-server image add"
    save, add = [c for c, _ in COMMANDS["sandbox-server.8"] if c.startswith(wanted)]
    store = f"--storage-driver vfs --root {place}/store --runroot {place}/run"
    (place / "bin/podman").write_text(f'#!/bin/sh\nexec /usr/bin/podman {store} "$@"\n')
    (place / "bin/podman").chmod(0o755)
    (place / "files/etc").mkdir(parents=True)
    (place / "files/etc/tools").write_text("those of the team\n")
    type_it("tar -C files -c . | podman import - localhost/team/tools:1")
    type_it(save)
    type_it(add)
    (listed,) = json.loads(type_it("sandbox-server image list --json"))
    assert listed["name"] == "team/tools:1" and listed["source"] == "oci-archive"
    (found,) = (place / "state/images").glob("**/etc/tools")
    assert found.read_text() == "those of the team\n"


def test_servers_start_as_the_manual_says():
    (command,) = [c for c, _ in COMMANDS["sandbox-server.8"] if " serve --mode shell" in c]
    words = subprocess.run(["bash", "-c", command.replace("sandbox-server", "printf '%s\\n'", 1)],
                           capture_output=True, text=True, check=True).stdout.split()  # fmt: skip
    assert words[0] == "serve"
    s = Server({"SANDBOX_WARM": "0"}, words[1:])
    try:
        health = s.get("/health").json
        assert health["mode"] == "shell" and health["capacity"] == 6
    finally:
        s.stop()


class Made(Server):
    """As make run starts it, of a build that is there."""

    def command_line(self, args, env):
        del args
        return ["make", "-C", TOP, "-s", "-o", "all", "run", f"BUILD={self.build}"]


def test_make_run_serves(place):
    (place / "build/release").mkdir(parents=True)
    shutil.copy(BINARY, place / "build/release/sandbox-server")
    Made.build = str(place / "build")
    s = Made({"SANDBOX_WARM": "0"}, (), "python")
    try:
        assert s.execute("print(6*7)")["stdout"] == "42\n"
    finally:
        s.proc.terminate()  # make ends what it started
        s.proc.wait(30)
        shutil.rmtree(s.state_dir)


def test_a_policy_is_changed_as_the_manual_says(type_it, place):
    page = COMMANDS["sandbox-policy.5"]
    rules = re.search(r'^\{\n  "comment": "not in this house",\n(?:.*\n)*?\}$', text("man/sandbox-policy.5"), re.M)[0]
    here = str(place / "policy")
    for command, _ in page[:2]:
        type_it(command, **({} if command.startswith("mkdir") else {"PWD": here}))
    path = place / "policy/arguments.json"
    policy = path.read_text()
    at = policy.index('"syscalls": [') + len('"syscalls": [')
    path.write_text(policy[:at] + "\n" + rules + "," + policy[at:])
    more = {"PWD": here, "SANDBOX_POLICY_DIR": here}
    for command, shown in page[4:]:
        said = type_it(command, **more)
        if "explain" in command:
            expected = re.sub(r":\d+:", ":", shown)
            assert re.sub(r":\d+:", ":", said.replace(here, "/etc/sandbox-policy")) == expected
    (observe,) = [c for c, _ in page if "observe" in c]
    type_it(observe)
    json.loads((place / "needed.json").read_text())

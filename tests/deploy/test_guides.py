# SPDX-License-Identifier: GPL-2.0-only
"""The guides and the security page: short, and no command in them that nobody has run.

deploy/docker is typed as it stands by `tests/image/run guide`. What wants a cluster cannot be run here:
test_kubernetes.py builds what it would apply, and checks that. The security page's are run below.
"""

import os
import re
import shlex
import subprocess
import sys

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from test_kubernetes import ALL, PLACES, TOP, pods  # noqa: E402

DOCKER, KUBERNETES, SECURITY = "deploy/docker/README.md", "deploy/kubernetes/README.md", "SECURITY.md"


def text(name):
    with open(os.path.join(TOP, name), encoding="utf-8") as f:
        return f.read()


def commands(page):
    """What is indented, a command a list of words."""
    lines = "\n".join(re.findall(r"^    (.*)$", text(page), re.M)).replace("\\\n", " ")
    return [shlex.split(line, comments=True) for line in lines.splitlines()]


def goals():
    suites = re.search(r"^SUITES := (.*)$", text("Makefile"), re.M)[1].split()
    return set(re.findall(r"^([a-z-]+):(?!=)", text("Makefile"), re.M)) | {"test-" + s for s in suites}


@pytest.mark.parametrize("page", [DOCKER, KUBERNETES, SECURITY])
def test_it_is_one_page(page):
    lines = text(page).splitlines()
    assert len(lines) <= 110 and max(map(len, lines)) <= 120


@pytest.mark.parametrize("page", [DOCKER, KUBERNETES])
def test_goals_that_it_names_are_there(page):
    named = [c[1] for c in commands(page) if c[0] == "make"] + re.findall(r"`make ([a-z-]+)", text(page))
    assert named and set(named) <= goals()


def test_the_image_tests_type_the_docker_guide():
    assert f"\nGUIDE={DOCKER}\n" in text("tests/image/guide.sh")
    assert {c[0] for c in commands(DOCKER)} == {"make", "podman", "curl", "mkdir", "head", "tail", "mv"}


def test_what_the_kubernetes_guide_applies_is_checked():
    applied = [c for c in commands(KUBERNETES) if c[0] == "kubectl"]
    assert len(applied) == 3 and [c[0] for c in commands(KUBERNETES)].count("make") == len(commands(KUBERNETES)) - 3
    for c in applied:
        assert c[:3] == ["kubectl", "apply", "-k"] and len(c) == 4
        assert os.path.relpath(c[3], "deploy/kubernetes") in PLACES


def test_commands_of_the_security_page_work():
    binary = os.path.abspath(os.environ.get("SANDBOX_SERVER", os.path.join(TOP, "build/test/sandbox-server")))
    named = re.findall(r"`make ([a-z-]+)`", text(SECURITY))
    assert len(named) > 5 and set(named) <= goals()
    done = []
    for c in commands(SECURITY):
        assert c[0] == "build/release/sandbox-server", c
        # all its cases are what tests/attack runs
        some = ["--case", "NS01"] if c[1] == "selftest" else []
        got = subprocess.run([binary, *c[1:], *some], capture_output=True, text=True, timeout=100, check=False)
        assert got.returncode == 0 and got.stdout, (c, got.stdout[-500:], got.stderr[-500:])
        done.append(c[1])
    assert done == ["check", "selftest", "policy", "policy"]


def test_images_are_what_the_manifests_want():
    file = text("Containerfile")
    targets = re.findall(r"^FROM server AS (\w+)\nCOPY --from=(\w+)-root / /\nENV SANDBOX_MODE=(\w+)$", file, re.M)
    modes = {name: mode for name, root, mode in targets if name == root}
    assert len(modes) == len(targets) == 5 and targets[-1][0] == "python"  # the last is the default
    assert set(re.search(r"^FLAVOURS := (.*)$", text("Makefile"), re.M)[1].split()) == set(modes)
    used = {}
    for place in PLACES:
        for pod in pods(ALL[place]):
            (c,) = pod["spec"]["containers"]
            name, tag = c["image"].split(":")
            assert name == "sandbox-server" and modes[tag] == {e["name"]: e["value"] for e in c["env"]}["SANDBOX_MODE"]
            used[pod["metadata"]["name"]] = tag
    assert set(used.values()) == set(modes)
    base = {m: v for m, v in re.findall(r"^ARG \w+_BASE=(python|golang|node):([0-9.]+)", file, re.M)}
    packages = set(re.search(r"pip install [-\w= ]*ignore ([a-z -]+) ", file)[1].split())
    tools = set(re.search(r"image.sh shell ([a-z -]+) &&", file)[1].split()) - {"ca-certificates"}
    for thing in ALL["agent-sandbox"]:
        if thing["kind"] != "SandboxTemplate":
            continue
        notes, mode = thing["metadata"]["annotations"], modes[used[thing["metadata"]["name"]]]
        version = notes["sandbox-server/runtime-version"].split()[1]
        assert version == base.get(mode, "5")
        listed = set(filter(None, notes["sandbox-server/packages"].split(", ")))
        wanted = {"python-datascience": packages, "shell": tools}.get(thing["metadata"]["name"], set())
        assert listed == wanted

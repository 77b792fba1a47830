# SPDX-License-Identifier: GPL-2.0-only
"""deploy/systemd: what `make install` puts where, and takes away. `make test-systemd` is the rest."""

import os
import re
import shutil
import subprocess

import pytest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HERE = os.path.join(TOP, "deploy/systemd")


@pytest.fixture
def make(tmp_path):
    """make(GOAL, NAME=value...) with a binary that needs no building; what is below DESTDIR then."""
    (tmp_path / "build/release").mkdir(parents=True)
    shutil.copy("/bin/true", tmp_path / "build/release/sandbox-server")

    def run(goal, **variables):
        variables = {"DESTDIR": tmp_path / "root", "BUILD": tmp_path / "build", **variables}
        words = ["make", "-C", TOP, "-s", "-o", "all", goal, *(f"{k}={v}" for k, v in variables.items())]
        subprocess.run(words, check=True, timeout=60, env={"PATH": os.environ["PATH"]})
        root = tmp_path / "root"
        return {str(f.relative_to(root)) for f in root.rglob("*") if f.is_file()}

    run.root = tmp_path / "root"
    return run


def test_units_are_installed_for_the_prefix_and_taken_away(make):
    there = make("install")
    units = {f"usr/local/lib/systemd/system/sandbox-server.{kind}" for kind in ("service", "socket")}
    assert units | {"usr/local/lib/sysusers.d/sandbox-server.conf", "etc/sandbox-server.conf"} <= there
    service = (make.root / "usr/local/lib/systemd/system/sandbox-server.service").read_text()
    assert re.search("^ExecStart=/usr/local/sbin/sandbox-server serve$", service, re.M)
    assert make("uninstall") == set()


def test_directories_can_be_named(make):
    names = {"prefix": "/usr", "systemdunitdir": "/lib/systemd/system", "sysusersdir": "/x", "confdir": "/y"}
    there = make("install", **names)
    assert {"lib/systemd/system/sandbox-server.service", "x/sandbox-server.conf", "y/sandbox-server.conf"} <= there
    assert "ExecStart=/usr/sbin/sandbox-server" in (make.root / "lib/systemd/system/sandbox-server.service").read_text()
    assert make("uninstall", **names) == set()


def test_settings_of_the_operator_stay(make):
    conf = make.root / "etc/sandbox-server.conf"
    conf.parent.mkdir(parents=True)
    conf.write_text("SANDBOX_PORT=1\n")
    make("install")
    assert conf.read_text() == "SANDBOX_PORT=1\n"
    assert make("uninstall") == {"etc/sandbox-server.conf"}


def test_the_settings_that_are_installed_are_the_defaults():
    """Each line of the file, without its #, is what `config` calls the default; and all of it is taken."""
    binary = os.environ.get("SANDBOX_SERVER", os.path.join(TOP, "build/test/sandbox-server"))

    def config(path):
        env = {"PATH": os.environ["PATH"], "HOME": "/", "SANDBOX_CONFIG": path}
        done = subprocess.run([binary, "config"], env=env, capture_output=True, text=True, check=True, timeout=20)
        return done.stdout.splitlines()

    with open(f"{HERE}/sandbox-server.conf", encoding="ascii") as f:
        lines = re.findall(r"^#(SANDBOX_[A-Z_]+=.*)$", f.read(), re.M)
    assert len(lines) >= 5
    defaults = {re.split(r"\s{2,}", line)[0] for line in config("")}
    for line in lines:
        assert line in defaults or line.endswith("=") and line[:-1] in defaults, line
    config(f"{HERE}/sandbox-server.conf")


def test_every_command_of_the_page_is_in_a_section_that_the_test_runs():
    with open(f"{HERE}/README.md", encoding="utf-8") as f:
        sections = re.split(r"^## ", f.read(), flags=re.M)[1:]
    with open(os.path.join(TOP, "tests/systemd/inside.sh"), encoding="utf-8") as f:
        inside = f.read()
    with_commands = [s.split("\n")[0] for s in sections if re.search("^    ", s, re.M)]
    assert len(with_commands) > 6
    for name in with_commands:
        assert re.search(rf"page '?{name}'?\b", inside), name

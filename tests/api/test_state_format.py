# SPDX-License-Identifier: GPL-2.0-only
"""The state directory says which form it has: ours is stamped, a newer one is left as it is."""

import os
import subprocess

import pytest

from probes import command
from test_sessions import Session, on

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")

NEWER = "has form 2, of a newer sandbox-server; this one knows 1: start that one, or give this one another directory"
COMMANDS = (
    ("serve",), ("mcp",), ("check",), ("layers", "list"), ("layers", "remove", "01234567"), ("image", "list"),
    ("image", "add", "one", "/nonexistent"), ("image", "remove", "one"),
)  # fmt: skip


def refused(state, *args, why):
    done = command(*args, SANDBOX_STATE_DIR=str(state), SANDBOX_PORT="0")
    assert done.returncode == 1 and done.stdout == "", (args, done)
    assert done.stderr.splitlines()[-1].startswith("sandbox-server: ") and why in done.stderr, (args, done)


def test_a_new_directory_gets_the_number(start, tmp_path):
    file = tmp_path / "format"
    for _ in range(2):
        start(mode="shell", state_dir=str(tmp_path)).stop()
        assert file.read_text() == "1\n" and file.stat().st_mode & 0o777 == 0o644
    assert command("layers", "list", SANDBOX_STATE_DIR=str(tmp_path)).returncode == 0


@root_only
def test_one_from_before_there_was_a_number_is_taken_over(start, tmp_path):
    os.chmod(tmp_path, 0o755)
    s = on(start, state_dir=str(tmp_path))
    assert Session(s, "kept").out("echo old > f; cat f") == "old\n"
    s.stop()
    (tmp_path / "format").unlink()
    for what in "layers", "image":
        done = command(what, "list", SANDBOX_STATE_DIR=str(tmp_path))
        assert done.returncode == 0, done
    assert not (tmp_path / "format").exists()  # they only look
    s = on(start, state_dir=str(tmp_path))
    assert Session(s, "kept").out("cat f") == "old\n"
    assert (tmp_path / "format").read_text() == "1\n"


def test_the_first_image_is_added_with_the_number(tmp_path):
    tree, state = tmp_path / "tree", tmp_path / "state"
    (tree / "bin").mkdir(parents=True)
    (tree / "bin/sh").write_text("x")
    done = command("image", "add", "one", str(tree), SANDBOX_STATE_DIR=str(state))
    assert done.returncode == 0, done
    assert (state / "format").read_text() == "1\n"


@pytest.mark.parametrize("args", COMMANDS, ids=" ".join)
def test_a_newer_one_is_not_touched(tmp_path, args):
    (tmp_path / "format").write_text("2\n")
    refused(tmp_path, *args, why=f"the state directory '{tmp_path}' {NEWER}")
    assert os.listdir(tmp_path) == ["format"] and (tmp_path / "format").read_text() == "2\n"


@pytest.mark.parametrize("text", ["", "\n", "0\n", "-1\n", "1x\n", "1\n1\n", "1\0\n", "one\n", "1" * 9999])
def test_what_is_no_number_is_refused(tmp_path, text):
    (tmp_path / "format").write_text(text)
    for args in ("serve",), ("layers", "list"), ("image", "list"):
        refused(tmp_path, *args, why=f"'{tmp_path}/format' is no number of a form")
    assert os.listdir(tmp_path) == ["format"] and (tmp_path / "format").read_text() == text


@root_only
def test_a_directory_that_nobody_may_write_to_stays_without(start, tmp_path):
    subprocess.run(["mount", "-t", "tmpfs", "-o", "ro,mode=755", "none", tmp_path], check=True)
    try:
        s = start(mode="shell", SANDBOX_STATE_DIR=str(tmp_path))
        s.wait_log(r"state\.format .*Read-only file system")
        assert s.execute("echo 1")["stdout"] == "1\n"
        s.stop()
    finally:
        subprocess.run(["umount", tmp_path], check=True)

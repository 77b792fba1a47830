# SPDX-License-Identifier: GPL-2.0-only
"""A store of images for a test, and an image that has of everything one."""

import json
import os
import stat
import subprocess
import tarfile
import tempfile

import pytest

from archives import directory, entry, hardlink, symlink, tar
from conftest import BINARY
from probes import clean_env, command


class Store:
    """A state directory of its own, and the command on it."""

    def __init__(self, top):
        self.top = str(top)
        os.chmod(self.top, 0o755)
        self.state = f"{self.top}/state"
        self.images = f"{self.state}/images"

    def run(self, *args, **more):
        return command("image", *args, SANDBOX_STATE_DIR=self.state, **more)

    def write(self, data, name="archive.tar"):
        path = f"{self.top}/{name}"
        with open(path, "wb") as f:
            f.write(data)
        return path

    def add(self, name, data, *flags):
        """Adds an archive, which must work; the path of its root."""
        done = self.run("add", name, self.write(data), *flags)
        assert (done.returncode, done.stderr) == (0, ""), done
        self.said = done.stdout
        return self.root(name)

    def root(self, name):
        return f"{self.images}/{name.replace(':', '%3a').replace('/', '%2f')}/rootfs"

    def refused(self, data, *flags, name="x"):
        """Adds an archive, which must not work and leave nothing; why."""
        done = self.run("add", name, self.write(data), *flags)
        assert (done.returncode, done.stdout) == (1, ""), done
        assert done.stderr.startswith(f"sandbox-server: '{name}' was not added: "), done.stderr
        assert done.stderr.count("\n") == 1
        assert os.listdir(self.images) == []
        return done.stderr.split(": ", 2)[2].rstrip("\n")

    def names(self):
        return [i["name"] for i in json.loads(self.run("list", "--json").stdout)]

    def start(self, *args, **more):
        env = clean_env(SANDBOX_STATE_DIR=self.state)
        return subprocess.Popen([BINARY, "image", *args], env=env, stderr=subprocess.PIPE, **more)


@pytest.fixture
def store():
    with tempfile.TemporaryDirectory(prefix="sandbox-images-") as top:
        yield Store(top)


def tree(top):
    """Path to what is there: b"bytes", a link's "-> target", or None of a directory."""
    found = {}
    for at, dirs, files in os.walk(top):
        for name in dirs + files:
            path = os.path.join(at, name)
            if os.path.islink(path):
                what = "-> " + os.readlink(path)
            elif os.path.isdir(path):
                what = None
            else:
                with open(path, "rb") as f:
                    what = f.read()
            found[os.path.relpath(path, top)] = what
    return found


def mode(path):
    return stat.S_IMODE(os.lstat(path).st_mode)


FIRST = tar(
    directory("./"),
    directory("etc"),
    entry("etc/old", b"old"),
    entry("etc/both", b"first"),
    directory("opaque"),
    entry("opaque/gone", b"gone"),
    directory("opaque/deep"),
    entry("opaque/deep/gone", b"gone"),
    directory("bin"),
    entry("bin/tool", b"#!/bin/sh\n", mode=0o4750, uid=12, gid=34),
    hardlink("bin/same", "bin/tool"),
    symlink("sbin", "bin"),
    entry("etc/shadow", b"secret", mode=0o600),
    directory("tmp", 0o1777),
    entry("dev/null", type=tarfile.CHRTYPE, devmajor=1, devminor=3),
    entry("fifo", type=tarfile.FIFOTYPE),
    entry("a/directory/that/has/no/entry", b"x"),
)
SECOND = tar(
    entry("etc/.wh.old"),
    entry("etc/both", b"second"),
    entry("opaque/new", b"new"),
    entry("opaque/deep/new", b"new"),
    entry("opaque/.wh..wh..opq"),
    entry(".wh.a"),
    entry("nothing/here/.wh.either"),
    entry("tmp/.wh..wh.plnk"),
    entry("bin/" + "n" * 150, b"long"),
)
UNPACKED = {
    "etc": None,
    "etc/both": b"second",
    "etc/shadow": b"secret",
    "opaque": None,
    "opaque/new": b"new",
    "opaque/deep": None,
    "opaque/deep/new": b"new",
    "bin": None,
    "bin/tool": b"#!/bin/sh\n",
    "bin/same": b"#!/bin/sh\n",
    "bin/" + "n" * 150: b"long",
    "sbin": "-> bin",
    "tmp": None,
    "dev": None,
}

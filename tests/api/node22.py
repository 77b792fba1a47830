# SPDX-License-Identifier: GPL-2.0-only
"""A newer node than this host may have."""

import fcntl
import os
import shutil
import subprocess

import pytest

from conftest import TOP
from probes import own_place

NODE22 = os.path.join(TOP, "build/node22")


def from_npm(place, *packages, options=()):
    """These packages in this directory, installed once; skips where that cannot be."""
    wanted = " ".join(packages)
    if not shutil.which("npm"):
        pytest.skip("npm is not on PATH")
    os.makedirs(place, exist_ok=True)
    with open(place + ".lock", "w", encoding="ascii") as lock, open(place + "/has", "a+", encoding="ascii") as has:
        fcntl.flock(lock, fcntl.LOCK_EX)
        has.seek(0)
        if has.read() == wanted:
            return
        done = subprocess.run(
            ["npm", "install", "--no-audit", "--no-fund", *options, "--prefix", place, *packages],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=280,
            check=False,
        )
        if done.returncode != 0:
            pytest.skip(f"{wanted} cannot be had from npm: " + done.stderr[-300:])
        has.truncate(0)
        has.write(wanted)


def node22_program():
    """One that strips types and knows proxies, from npm."""
    from_npm(NODE22, "node@22")
    return os.path.join(NODE22, "node_modules/node/bin/node")


@pytest.fixture(scope="module")
def node22():
    """Its directory for PATH, where a run can see it."""
    program = node22_program()
    place = own_place()
    try:
        os.mkdir(place + "/bin")
        shutil.copy(program, place + "/bin/node")
        yield place + "/bin"
    finally:
        shutil.rmtree(place)

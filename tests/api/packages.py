# SPDX-License-Identifier: GPL-2.0-only
"""Packages that tests build themselves, and the installers that install them."""

import base64
import fcntl
import hashlib
import io
import os
import shutil
import subprocess
import tarfile
import zipfile

import pytest

from conftest import TOP
from probes import own_place

UV = os.path.join(TOP, "build/uv")


def from_pypi(place, *packages, options=()):
    """These packages in this directory, installed once; skips where that cannot be."""
    wanted = " ".join(packages)
    os.makedirs(place, exist_ok=True)
    with open(place + ".lock", "w", encoding="ascii") as lock, open(place + "/has", "a+", encoding="ascii") as has:
        fcntl.flock(lock, fcntl.LOCK_EX)
        has.seek(0)
        if has.read() == wanted:
            return place
        done = subprocess.run(
            ["/usr/bin/python3", "-m", "pip", "install", "-q", "--no-compile", *options]
            + ["--only-binary", ":all:", "--upgrade", "--target", place, *packages],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=280,
            check=False,
        )
        if done.returncode != 0:
            pytest.skip(f"{wanted} cannot be had from the registry: " + done.stderr[-300:])
        has.truncate(0)
        has.write(wanted)
    return place


def uv_program():
    """uv, from the Python registry into build/uv; skips where it cannot be had."""
    return os.path.join(from_pypi(UV, "uv", options=["--no-deps"]), "bin/uv")


def place_with_uv():
    """A directory that runs can see, with bin/uv in it; the caller removes it."""
    place = own_place()
    os.chmod(place, 0o755)
    os.mkdir(place + "/bin")
    shutil.copy(uv_program(), place + "/bin/uv")
    return place


def wheel(directory, name, version, files, requires=()):
    """A wheel of these files: {"module.py": "text"}; a number stands for so many MiB of zeros."""
    info = f"{name}-{version}.dist-info"
    meta = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    meta += "".join(f"Requires-Dist: {r}\n" for r in requires)
    files = dict(files)
    files[f"{info}/METADATA"] = meta
    files[f"{info}/WHEEL"] = "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    record = ""
    path = os.path.join(directory, f"{name}-{version}-py3-none-any.whl")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as z:
        for member, text in files.items():
            data, times = (bytes(1 << 20), text) if isinstance(text, int) else (text, 1)
            data = data.encode() if isinstance(data, str) else data
            total = hashlib.sha256()
            with z.open(member, "w", force_zip64=times > 1) as f:
                for _ in range(times):
                    total.update(data)
                    f.write(data)
            digest = base64.urlsafe_b64encode(total.digest()).rstrip(b"=").decode()
            record += f"{member},sha256={digest},{len(data) * times}\n"
        z.writestr(f"{info}/RECORD", record + f"{info}/RECORD,,\n")
    return path


def sdist(directory, name, version, setup, **more):
    """A source distribution whose setup.py is this text; more: other files, __ for a dot."""
    path = os.path.join(directory, f"{name}-{version}.tar.gz")
    meta = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    with tarfile.open(path, "w:gz") as t:
        files = {"setup.py": setup, "PKG-INFO": meta}
        files.update({k.replace("__", "."): v for k, v in more.items()})
        for member, text in files.items():
            head = tarfile.TarInfo(f"{name}-{version}/{member}")
            head.size = len(text.encode())
            t.addfile(head, io.BytesIO(text.encode()))
    return path

# SPDX-License-Identifier: GPL-2.0-only
"""Archives of images, as docker save and the tools of OCI write them, and as they should not be."""

import gzip
import hashlib
import io
import json
import platform
import tarfile

ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
TIME = 1_000_000_000


def entry(name, data=b"", **fields):
    """A file, or what fields make of it: (TarInfo, bytes)."""
    info = tarfile.TarInfo(name)
    info.mtime = TIME
    info.mode = 0o644
    info.size = len(data)
    for key, value in fields.items():
        setattr(info, key, value)
    return info, data


def directory(name, mode=0o755):
    return entry(name, type=tarfile.DIRTYPE, mode=mode)


def symlink(name, target):
    return entry(name, type=tarfile.SYMTYPE, linkname=target, mode=0o777)


def hardlink(name, target):
    return entry(name, type=tarfile.LNKTYPE, linkname=target)


def tar(*entries, form=tarfile.GNU_FORMAT):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as t:
        for info, data in entries:
            t.addfile(info, io.BytesIO(data))
    return out.getvalue()


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def config(layers, **fields):
    value = {
        "architecture": ARCHITECTURE,
        "os": "linux",
        "config": {"Env": ["PATH=/bin", "A=b=c"], "Cmd": ["/bin/sh"]},
        "rootfs": {"type": "layers", "diff_ids": [digest(layer) for layer in layers]},
        **fields,
    }
    return json.dumps(value).encode()


def docker_save(layers, tags=("x:1",), about=None):
    """docker save's older form; a layer is the bytes of its tar."""
    about = about or config(layers)
    name = hashlib.sha256(about).hexdigest() + ".json"
    files = [entry(name, about)]
    names = []
    for i, layer in enumerate(layers):
        names.append(f"{i}/layer.tar")
        files.append(entry(names[-1], layer))
    listed = [{"Config": name, "RepoTags": list(tags), "Layers": names}]
    return tar(*files, entry("manifest.json", json.dumps(listed).encode()))


def blob(data):
    return entry("blobs/sha256/" + hashlib.sha256(data).hexdigest(), data)


def oci_files(layers, about=None, platform_=None, change=lambda blobs: blobs):
    """An OCI layout: (TarInfo, bytes) each; layers are compressed."""
    about = about or config(layers)
    packed = [gzip.compress(layer, 6, mtime=0) for layer in layers]
    manifest = json.dumps(
        {
            "schemaVersion": 2,
            "config": {"digest": digest(about), "size": len(about)},
            "layers": [{"digest": digest(p), "size": len(p)} for p in packed],
        }
    ).encode()
    one = {"digest": digest(manifest), "size": len(manifest)}
    if platform_:
        one["platform"] = platform_
    index = json.dumps({"schemaVersion": 2, "manifests": [one]}).encode()
    blobs = [blob(b) for b in [*packed, about, manifest]]
    return [
        entry("oci-layout", b'{"imageLayoutVersion":"1.0.0"}'),
        entry("index.json", index),
        *change(blobs),
    ]


def oci_archive(layers, **more):
    return tar(*oci_files(layers, **more))

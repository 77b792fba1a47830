# SPDX-License-Identifier: GPL-2.0-only
"""Archives of images that must not be: refused by the name of what is wrong, and nothing is left."""

import gzip
import json
import os
import re
import tarfile

import pytest

import archives
from archives import directory, docker_save, entry, hardlink, oci_archive, symlink, tar
from image_store import FIRST, SECOND, store, tree  # noqa: F401

ABSOLUTE = "the entry '/etc/passwd' has an absolute name"
DOTS = "the entry '%s' has '..' in its name, or one too long or too deep"
OUTSIDE = "the entry 'x' is a hard link to something outside"
NO_FILE = "the entry 'x' is a hard link to no file of the image"
THROUGH = "the entry 'l/x' leads through a symbolic link or a file"
BAD_LAYERS = {
    "absolute": ([entry("/etc/passwd")], ABSOLUTE),
    "dots": ([entry("../x")], DOTS % "../x"),
    "dots inside": ([entry("a/../../x")], DOTS % "a/../../x"),
    "too deep": ([entry("d/" * 300 + "x")], DOTS % ("d/" * 60 + "...")),
    "a long name": ([entry("n" * 256)], DOTS % ("n" * 120 + "...")),
    "through a link out": ([symlink("l", "/etc"), entry("l/x")], THROUGH),
    "through a link inside": ([directory("d"), symlink("l", "d"), entry("l/x")], THROUGH),
    "through a link up": ([symlink("l", ".."), entry("l/x")], THROUGH),
    "through a file": ([entry("l"), entry("l/x")], THROUGH),
    "a whiteout through a link": (
        [symlink("l", "/"), entry("l/.wh.etc")],
        "the entry 'l/.wh.etc' leads through a symbolic link or a file",
    ),
    "a whiteout of dots": ([entry(".wh...")], "the entry '.wh...' removes something outside"),
    "a whiteout of here": ([entry("d/.wh..")], "the entry 'd/.wh..' removes something outside"),
    "a hard link out": ([hardlink("x", "../../etc/passwd")], OUTSIDE),
    "an absolute hard link": ([hardlink("x", "/etc/passwd")], OUTSIDE),
    "a hard link to nothing": ([hardlink("x", "y")], NO_FILE),
    "a hard link to a directory": ([directory("d"), hardlink("x", "d")], NO_FILE),
    "a hard link through a link": ([symlink("l", "/etc"), hardlink("x", "l/passwd")], NO_FILE),
    "a link to nothing": ([symlink("x", "")], "the entry 'x' is a link to nothing"),
    "the root as a file": ([entry(".", b"x")], "the entry '.' is no directory"),
    "an unknown kind": ([entry("x", type=b"Q")], "the entry 'x' is of an unknown kind"),
    "sparse": ([entry("x", type=tarfile.GNUTYPE_SPARSE)], "the entry 'x' is sparse, which is not supported"),
    "a name for a terminal": ([entry("\x1b[2J/../x")], DOTS % "?[2J/../x"),
}


@pytest.mark.parametrize("what", BAD_LAYERS)
def test_a_hostile_entry(store, what):
    entries, why = BAD_LAYERS[what]
    os.makedirs(store.images)
    layer = tar(*entries)
    assert store.refused(layer) == why
    assert store.refused(oci_archive([FIRST, layer])) == "layer 2: " + why


def test_a_link_of_one_layer_leads_nowhere_in_the_next(store):
    os.makedirs(store.images)
    out = f"{store.top}/out"
    os.mkdir(out)
    first, second = tar(symlink("l", out)), tar(entry("l/x", b"got out"))
    assert store.refused(oci_archive([first, second])) == "layer 2: " + THROUGH
    assert os.listdir(out) == []
    # as a name of its own it is replaced, not followed
    second = tar(directory("l"), entry("l/x", b"stays"))
    assert tree(store.add("y", oci_archive([first, second]))) == {"l": None, "l/x": b"stays"}
    assert os.listdir(out) == []


def pax(**pairs):
    return entry("x", b"12345678", pax_headers=pairs)


def broken_header(**change):
    """A header with a field of our own, and the sum that belongs to it."""
    data = bytearray(tar(entry("x", b"data")))
    for at, text in change.values():
        data[at : at + len(text)] = text
    data[148:156] = b" " * 8
    data[148:156] = b"%06o\0 " % sum(data[:512])
    return bytes(data)


BAD_ARCHIVES = {
    "nothing": (lambda: b"", "the archive is cut short"),
    "no tar": (lambda: b"PK\3\4" + b"x" * 2000, "it is no tar archive, or a damaged one (at byte 0)"),
    "no end": (lambda: tar(entry("x"))[:512], "the archive is cut short"),
    "a cut file": (lambda: tar(entry("x", b"x" * 5000))[:3000], "the archive is cut short"),
    "a cut header": (lambda: tar(entry("x"))[:300], "the archive is cut short"),
    "a wrong sum": (
        lambda: tar(entry("y"), entry("x")).replace(b"x\0\0", b"z\0\0", 1),
        "it is no tar archive, or a damaged one (at byte 512)",
    ),
    "a negative size": (
        lambda: broken_header(size=(124, b"\xff" * 12)),
        "the entry 'x' has no size",
    ),
    "an impossible size": (
        lambda: broken_header(size=(124, b"\x80\0\0\0\x7f" + b"\xff" * 7)),
        "the entry 'x' has an impossible size",
    ),
    "an enormous size": (lambda: broken_header(size=(124, b"77777777777\0")), "the archive is cut short"),
    "an enormous size in a layer": (
        lambda: oci_archive([broken_header(size=(124, b"77777777777\0"))]),
        "layer 1: the entry 'x' has 8589934591 bytes: more than --max-mb leaves for it",
    ),
    "a mode of letters": (lambda: broken_header(mode=(100, b"rwxr-xr-")), "the entry 'x' has a damaged header"),
    "a sparse pax": (
        lambda: tar(pax(**{"GNU.sparse.size": "5"}), form=tarfile.PAX_FORMAT),
        "the archive has sparse files, which are not supported",
    ),
    "a size of letters": (
        lambda: tar(pax(size="1x"), form=tarfile.PAX_FORMAT),
        "a size in the archive is no number",
    ),
    "a name with a NUL": (
        lambda: tar(pax(path="a\0b"), form=tarfile.PAX_FORMAT),
        "the entry 'a' has an impossible name",
    ),
    "zstd": (lambda: b"\x28\xb5\x2f\xfd" + b"x" * 600, "it is compressed by zstd; only gzip is known here: "
             "compress it by that, or not at all"),
    "xz": (lambda: b"\xfd7zXZ\0" + b"x" * 600, "it is compressed by xz; only gzip is known here: "
           "compress it by that, or not at all"),
    "a cut gzip": (lambda: gzip.compress(FIRST)[:-9], "the compressed data is cut short"),
    "a gzip with another sum": (
        lambda: gzip.compress(FIRST)[:-8] + b"12345678",
        "the compressed data is damaged",
    ),
    "a gzip and something": (lambda: gzip.compress(FIRST) + b"something else", "the compressed data is damaged"),
}


@pytest.mark.parametrize("what", BAD_ARCHIVES)
def test_a_broken_archive(store, what):
    make, why = BAD_ARCHIVES[what]
    os.makedirs(store.images)
    assert store.refused(make(), "--max-mb", "100") == why


def test_every_cut_of_an_archive_is_refused(store):
    os.makedirs(store.images)
    whole = oci_archive([FIRST])
    end = len(whole.rstrip(b"\0"))
    for length in range(100, end, end // 8):
        assert "cut short" in store.refused(whole[:length])


BOMB = 24 << 20


def test_a_bomb_is_bounded(store):
    os.makedirs(store.images)
    layer = tar(*[entry(f"f{i}", bytes(BOMB // 4)) for i in range(4)])
    packed = gzip.compress(layer, 1)
    assert len(packed) < 1 << 20
    more = "it unpacks to more than 4 MB; --max-mb allows more"
    assert store.refused(packed, "--max-mb", "4") == more
    # a file's own size is looked at before its first byte
    too_much = "the entry 'f0' has 6291456 bytes: more than --max-mb leaves for it"
    assert store.refused(oci_archive([layer]), "--max-mb=5") == "layer 1: " + too_much
    # headers count, too: of one entry they can be without end
    headers = tar(*[pax(comment="x" * 1000) for _ in range(900)], form=tarfile.PAX_FORMAT)
    assert store.refused(headers, "--max-mb", "1") == "it unpacks to more than 1 MB; --max-mb allows more"


def flip(at):
    """Changes one byte of a blob and leaves its name."""

    def change(blobs):
        info, data = blobs[at]
        blobs[at] = (info, data[:20] + bytes([data[20] ^ 1]) + data[21:])
        return blobs

    return change


@pytest.mark.parametrize("which, what", [(0, "a layer"), (1, "the configuration"), (2, "the manifest")])
def test_a_blob_that_is_not_what_its_digest_says(store, which, what):
    os.makedirs(store.images)
    why = store.refused(oci_archive([FIRST], change=flip(which)))
    assert re.search(r"what should be sha256:(\w{64}) is sha256:(?!\1)\w{64}: it was changed or damaged", why), what


def test_wrong_digests_of_layers(store):
    os.makedirs(store.images)
    about = archives.config([SECOND])
    expected = f"layer 1: a layer that should be {archives.digest(SECOND)} is {archives.digest(FIRST)}"
    assert store.refused(oci_archive([FIRST], about=about)) == expected
    assert store.refused(docker_save([FIRST], about=about)) == expected


def without(at):
    return lambda blobs: blobs[:at] + blobs[at + 1 :]


def test_images_that_do_not_fit(store):
    os.makedirs(store.images)
    other = {"amd64": "arm64", "arm64": "amd64"}[archives.ARCHITECTURE]
    here = f"this is linux/{archives.ARCHITECTURE}"
    about = archives.config([FIRST], architecture=other)
    assert store.refused(docker_save([FIRST], about=about)) == f"it is for 'linux/{other}', and {here}"
    data = oci_archive([FIRST], platform_={"os": "linux", "architecture": other})
    assert store.refused(data) == f"it has no image for {archives.ARCHITECTURE}"
    about = archives.config([FIRST, SECOND])
    assert "does not name its layers" in store.refused(oci_archive([FIRST], about=about))
    for at in range(3):
        assert "the archive has no 'blobs/sha256/" in store.refused(oci_archive([FIRST], change=without(at)))
    two = [{"Config": "c", "RepoTags": [t], "Layers": []} for t in ("a:1", "b:1")]
    data = tar(entry("manifest.json", json.dumps(two).encode()))
    assert store.refused(data) == "it has more than one image, and not one that is called 'x'"
    assert store.refused(data, name="b:1") == "the archive has no 'c'"
    for text in (b"", b"[", b"[]", b"3", b'{"manifests":"x"}', b"\xff"):
        assert store.refused(tar(entry("manifest.json", text)))
        assert store.refused(tar(entry("oci-layout"), entry("index.json", text)))

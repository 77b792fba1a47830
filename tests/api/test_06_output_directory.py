# SPDX-License-Identifier: GPL-2.0-only
"""Whatever the output directory holds: a bounded answer on time, nothing from outside."""

import json
import os
import secrets
import tempfile

import pytest
from support import Later, check_healthy, marked, new_mark, skipped, timed, unpack

HOSTILE = """
import os, socket, sys
o = "output/"
for n, target in enumerate(sys.argv[1:]):
    os.symlink(target, o + "link%d" % n)
os.symlink("/etc", o + "dirlink")
os.symlink("loop", o + "loop")
os.symlink("missing", o + "dangling")
os.mkfifo(o + "fifo")
s = socket.socket(socket.AF_UNIX)
s.bind(o + "socket")
s.listen()
open(o + "locked", "w").write("locked away")
os.chmod(o + "locked", 0)
os.mkdir(o + "closed")
open(o + "closed/x", "w").write("x")
os.chmod(o + "closed", 0)
with open(o + "sparse", "wb") as f:
    f.truncate(1 << 40)
open(b"output/bad\\xff", "w").write("x")
os.mkdir(o + "sub")
os.symlink("/etc/passwd", o + "sub/passwd")
os.symlink("../../script.py", o + "sub/script")
open(o + "sub/fine", "w").write("fine")
open(o + "fine", "w").write("fine too")
os.link(o + "fine", o + "hard")
print("done")
"""


@pytest.fixture
def secret():
    """A file outside that everybody may read, and the word in it."""
    with tempfile.NamedTemporaryFile("w", prefix="outside-", suffix=".txt") as f:
        word = secrets.token_hex(16)
        f.write(word)
        f.flush()
        os.chmod(f.name, 0o644)
        yield f.name, word


def answer_of(server, code, **fields):
    """(answer, its bytes); it came within 3 s of the program's end."""
    body = {"code": code, "language": "python", **fields}
    r, seconds = timed(lambda: server.post("/execute", body))
    assert r.status == 200, r
    assert seconds - r.json["execution_time_ms"] / 1000 < 3
    return r.json, r.body


def test_hostile_entries_are_skipped_and_the_rest_comes(server, secret):
    path, word = secret
    targets = [
        path,
        "../" * 20 + path,
        "/proc/self/root" + path,
        "/etc/passwd",
        "/etc/shadow",
        "/proc/1/environ",
        "/proc/self/environ",
        "/dev/zero",
        "../script.py",
        "..",
        "/",
    ]
    r, body = answer_of(server, HOSTILE, args=targets)
    assert (r["stdout"], r["stderr"], r["exit_code"]) == ("done\n", "", 0)
    assert unpack(r) == {"fine": b"fine too", "hard": b"fine too", "sub/fine": b"fine"}
    assert skipped(r) == {
        **{f"link{n}": "symlink" for n in range(len(targets))},
        "dirlink": "symlink",
        "loop": "symlink",
        "dangling": "symlink",
        "sub/passwd": "symlink",
        "sub/script": "symlink",
        "fifo": "not_a_regular_file",
        "socket": "not_a_regular_file",
        "locked": "unreadable",
        "closed": "unreadable",
        "sparse": "too_large",
        "bad\ufffd": "bad_name",
    }
    assert word.encode() not in body and b"root:x:" not in body
    assert len(body) < 10000
    check_healthy(server)


@pytest.mark.parametrize(
    "make, reason",
    [
        ("os.symlink('/etc', 'output')", "symlink"),
        ("os.symlink('/proc/self/root/etc', 'output')", "symlink"),
        ("os.symlink('.', 'output')", "symlink"),
        ("os.symlink('output', 'output')", "symlink"),
        ("os.mkdir('o'); open('o/x', 'w').write('x'); os.symlink('o', 'output')", "symlink"),
        ("os.mkfifo('output')", "not_a_directory"),
        ("open('output', 'w').write('x')", "not_a_directory"),
        ("os.mkdir('output', 0)", "unreadable"),
    ],
)
def test_the_output_directory_replaced(server, make, reason):
    r, body = answer_of(server, f"import os\nos.rmdir('output')\n{make}\nprint('done')")
    assert (r["stdout"], r["exit_code"]) == ("done\n", 0)
    assert "files_produced" not in r
    assert skipped(r) == {"output": reason}
    assert b"root" not in body


def test_the_output_directory_replaced_by_a_link_to_a_secret(server, secret):
    path, word = secret
    code = (
        "import os, sys\nos.rmdir('output')\nos.symlink(sys.argv[1], 'output')\n"
        "print(os.path.lexists('output'))"
    )
    r, body = answer_of(server, code, args=[os.path.dirname(path)])
    assert r["stdout"] == "True\n" and "files_produced" not in r
    assert skipped(r) == {"output": "symlink"}
    assert word.encode() not in body


def test_the_output_directory_removed(server):
    r, _ = answer_of(server, "import os\nos.rmdir('output')")
    assert r["exit_code"] == 0
    assert "files_produced" not in r and "files_skipped" not in r["meta"]


def test_a_daemon_cannot_swap_files_under_the_collector(server, secret):
    """It has to be dead before anything is read."""
    path, word = secret
    code = """
import os, sys
open("output/x", "w").write("mine")
os.symlink(sys.argv[1], "link")
open("plain", "w").write("mine")
ready, go = os.pipe()
if os.fork() == 0:
    os.setsid()
    os.write(go, b"x")
    while True:
        os.link("link", "n"); os.rename("n", "output/x")
        os.link("plain", "n"); os.rename("n", "output/x")
os.read(ready, 1)
"""
    mark = new_mark()
    for _ in range(5):
        run = Later(server, code, language="python", args=[path, mark])
        r = run.result()
        assert marked(mark) == []
        assert (r["stderr"], r["exit_code"]) == ("", 0)
        if "files_produced" in r:
            assert unpack(r) == {"x": b"mine"} and skipped(r) == {}
        else:
            assert skipped(r) == {"x": "symlink"}
        assert word not in json.dumps(r)


def test_a_hundred_thousand_files_are_a_bounded_answer(start):
    s = start(SANDBOX_MEMORY_MB="2048", SANDBOX_DISK_MB="1024")
    code = """
import os
os.chdir("output")
for n in range(100_000):
    os.mknod("%06d" % n)
print(len(os.listdir(".")))
"""
    r, body = answer_of(s, code, timeout_seconds=120)
    assert (r["stdout"], r["stderr"]) == ("100000\n", "")
    files = unpack(r)
    assert len(files) == 200 and set(files.values()) == {b""}
    assert all(len(name) == 6 and name.isdigit() for name in files)
    left_out = r["meta"]["files_skipped"]
    assert left_out[0] == {"name": "", "reason": "too_many_entries"}
    assert {f["reason"] for f in left_out[1:-1]} == {"too_many_files"}
    assert left_out[-1] == {"name": "", "reason": "more"}
    assert len(left_out) == 101
    assert len(body) < 20000
    check_healthy(s)


def test_a_deep_tree_is_a_bounded_answer(server):
    code = """
import os
os.chdir("output")
for _ in range(1000):
    open("f", "w").write("x")
    os.mkdir("d")
    os.chdir("d")
print("done")
"""
    r, _ = answer_of(server, code)
    assert r["stdout"] == "done\n"
    assert unpack(r) == {"d/" * depth + "f": b"x" for depth in range(17)}
    assert skipped(r) == {"/".join(["d"] * 17): "too_deep"}


def test_sparse_files_do_not_add_up(server):
    """Each within the limit, together far above it, and not a page of them written."""
    code = """
for n in range(50):
    with open("output/%02d" % n, "wb") as f:
        f.truncate(9 << 20)
"""
    before = server.rss_kb()
    r, _ = answer_of(server, code)
    assert unpack(r) == {"00": b"\0" * (9 << 20)}
    assert skipped(r) == {"%02d" % n: "total_size_limit" for n in range(1, 50)}
    check_healthy(server)
    assert server.rss_kb() - before < 16 * 1024


def test_long_names_are_a_bounded_answer(server):
    code = "for n in range(300): open('output/%03d' % n + 'n' * 252, 'w').close()"
    r, body = answer_of(server, code)
    files = unpack(r)
    assert len(files) == 200 and all(len(name) == 255 for name in files)
    assert min(files)[:3] == "000" and max(files)[:3] == "199"
    assert len(body) < 200000

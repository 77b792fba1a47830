# SPDX-License-Identifier: GPL-2.0-only
"""Files in, files out."""

import hashlib
import json

import pytest
from support import b64, unpack

TREE = """
import os
for top, dirs, names in sorted(os.walk(".")):
    for name in sorted(names):
        path = os.path.join(top, name)
        print(path[2:], open(path, "rb").read() if name != "script.py" else "")
"""


def refuse(server, files, **fields):
    body = {"code": "print('ran')", "language": "python", "files": files, **fields}
    r = server.post("/execute", body)
    assert r.status == 400, r
    assert set(r.json) == {"error", "code"}
    return r.json


# ---- in


def test_nested_names_work(server):
    files = {
        "in.txt": b64(b"data"),
        "a/b/c/deep.bin": b64(bytes(range(256))),
        "a/b/side": b64(b""),
        "a.b/ü n/ß.txt": b64("é".encode()),
        "...": b64(b"dots"),
        "-rf": b64(b"dash"),
        ".hidden": b64(b"h"),
        "x" * 255: b64(b"long"),
    }
    r = server.execute(TREE, language="python", files=files)
    assert (r["stderr"], r["exit_code"]) == ("", 0)
    lines = r["stdout"].splitlines()
    assert sorted(lines) == sorted(
        [
            "script.py ",
            "in.txt b'data'",
            f"a/b/c/deep.bin {bytes(range(256))!r}",
            "a/b/side b''",
            f"a.b/ü n/ß.txt {'é'.encode()!r}",
            "... b'dots'",
            "-rf b'dash'",
            ".hidden b'h'",
            "x" * 255 + " b'long'",
        ]
    )
    assert "files_produced" not in r  # what was given is not what was made


def test_files_are_the_programs_own(server):
    code = (
        "import os\nos.rename('d/in', 'd/out')\nopen('d/out', 'a').write('!')\n"
        "print(open('d/out').read(), os.stat('d').st_uid == os.getuid(), os.getcwd())"
    )
    r = server.execute(code, language="python", files={"d/in": b64(b"mine")})
    assert (r["stdout"], r["stderr"]) == ("mine! True /work\n", "")


def test_a_large_file_arrives_whole(server):
    data = bytes(i * 7 % 251 for i in range(1 << 20)) * 5
    code = "import hashlib\nprint(hashlib.sha256(open('big', 'rb').read()).hexdigest())"

    r = server.execute(code, language="python", files={"big": b64(data)})
    assert r["stdout"] == hashlib.sha256(data).hexdigest() + "\n"


BAD_NAMES = [
    "",
    ".",
    "..",
    "/",
    "/etc/x",
    "//x",
    "../x",
    "a/../../x",
    "a/..",
    "a/../b",
    "./a",
    "a/./b",
    "a/.",
    "a//b",
    "a/",
    "a/b/",
    "new\nline",
    "tab\there",
    "\x7f",
    "y" * 256,
    "d/" + "y" * 256,
    "d/" * 2100 + "x",
    "script.py",
    "script.py/x",
    "output",
    "output/x",
    "output/../x",
]


@pytest.mark.parametrize("name", BAD_NAMES, ids=lambda n: repr(n)[:24])
def test_a_bad_file_name_is_refused(server, name):
    body = refuse(server, {"good.txt": b64(b"x"), name: b64(b"x")})
    assert body["code"] == "bad_file_name"
    assert body["error"].startswith('file name "' + name[:100])
    # nothing of this machine's own paths in it
    assert "/work" not in body["error"] and "sandbox-" not in body["error"]
    assert server.state_dir not in body["error"]


def test_a_name_with_nul_is_refused(server):
    body = b'{"code":"print(1)","files":{"a\\u0000b":"eA=="}}'
    r = server.post("/execute", body)
    assert r.status == 400
    assert r.json == {"error": "invalid JSON: NUL in a member name", "code": "invalid_json"}


@pytest.mark.parametrize("first, second", [("a", "a/b"), ("a/b/c", "a/b"), ("a", "a/b/c/d")])
def test_a_file_that_is_also_a_directory_is_refused(server, first, second):
    body = refuse(server, {first: "", "a.txt": "", second: ""})
    short = min(first, second, key=len)
    assert body == {
        "error": f'file name "{short}" is also the directory of another file',
        "code": "bad_file_name",
    }


@pytest.mark.parametrize("language, script", [("shell", "script.sh"), ("node", "script.js")])
def test_the_scripts_own_name_is_the_modes(server, language, script):
    body = refuse(server, {script: ""}, language=language)
    assert body["error"] == f'file name "{script}" is the script\'s own'
    code = "print(open('script.sh').read())"
    r = server.execute(code, language="python", files={"script.sh": "eA=="})
    assert r["stdout"] == "x\n"


@pytest.mark.parametrize(
    "text",
    ["*", "YQ", "YQ=", "YQ===", "Y Q=", "YQ==\n", "YR==", "a-_b", "YWJj=", "=", "YQ==YQ=="],
)
def test_bad_base64_names_its_file(server, text):
    body = refuse(server, {"ok": b64(b"x"), "dir/x.bin": text})
    assert body == {"error": 'failed to decode file "dir/x.bin"', "code": "bad_base64"}


def test_files_that_do_not_fit_are_refused(server):
    files = {f"f{i}": b64(b"x" * (256 << 10)) for i in range(5)}
    body = refuse(server, files, limits={"disk_mb": 1})
    assert body == {
        "error": "files do not fit into the disk limit of 1 MB",
        "code": "files_too_large",
    }


# ---- out

MAKE_FILES = """
import os
out = os.environ["OUTPUT_DIR"]
open(out + "/r.csv", "w").write("a,b\\n1,2\\n")
open("output/all.bin", "wb").write(bytes(range(256)) * 3)
open("output/empty", "w").close()
os.makedirs("output/sub/deeper")
open("output/sub/deeper/n.txt", "w").write("nested")
open("output/é ü.txt", "w").write("name")
os.mkdir("output/nothing")
open("elsewhere.txt", "w").write("not an output")
"""

MADE = {
    "r.csv": b"a,b\n1,2\n",
    "all.bin": bytes(range(256)) * 3,
    "empty": b"",
    "sub/deeper/n.txt": b"nested",
    "é ü.txt": b"name",
}


@pytest.mark.parametrize(
    "end, exit_code, verdict",
    [
        ("", 0, "ok"),
        ("import sys; sys.exit(2)", 2, "nonzero_exit"),
        ("import time; time.sleep(60)", -1, "timeout"),
        ("os.abort()", 134, "signal"),
        ("1/0", 1, "nonzero_exit"),
    ],
    ids=["on_success", "on_exit_2", "on_timeout", "on_a_signal", "on_an_exception"],
)
def test_files_come_out(server, end, exit_code, verdict):
    limit = 2 if verdict == "timeout" else 30
    r = server.execute(MAKE_FILES + end, language="python", timeout_seconds=limit)
    assert (r["exit_code"], r["meta"]["verdict"]) == (exit_code, verdict)
    assert unpack(r) == MADE
    assert "files_skipped" not in r["meta"]


def test_files_come_out_of_every_mode_without_go(server):
    shell = 'printf "a,b\\n" > "$OUTPUT_DIR/r.csv"; mkdir output/d; : > output/d/e'
    assert unpack(server.execute(shell, language="shell")) == {"r.csv": b"a,b\n", "d/e": b""}
    node = (
        "require('fs').writeFileSync(process.env.OUTPUT_DIR + '/n.bin', Buffer.from([0, 255, 10]))"
    )
    assert unpack(server.execute(node, language="node")) == {"n.bin": b"\0\xff\n"}


def test_the_output_directory_is_absolute_and_relative(server):
    code = "import os\nd = os.environ['OUTPUT_DIR']\nprint(d, os.path.samefile('output', d))"
    assert server.execute(code, language="python")["stdout"] == "/work/output True\n"


def test_runs_do_not_see_each_others_files(server):
    for _ in range(4):  # every slot, one more than once
        r = server.execute(TREE + MAKE_FILES, language="python", files={"in": b64(b"1")})
        assert r["stdout"] == "in b'1'\nscript.py \n"
        assert unpack(r) == MADE


def test_the_output_directory_has_another_name(start):
    s = start(SANDBOX_OUTPUT_DIR="results")
    code = "import os\nopen('results/x', 'w').write(os.environ['OUTPUT_DIR'])"
    assert unpack(s.execute(code)) == {"x": b"/work/results"}
    assert unpack(s.execute(code, files={"output/a": ""})) == {"x": b"/work/results"}
    r = s.post("/execute", json.dumps({"code": code, "files": {"results/x": ""}}))
    assert r.status == 400 and r.json["code"] == "bad_file_name"


def test_produced_files_have_limits_in_number_and_size(start):
    s = start(SANDBOX_MAX_FILES="3", SANDBOX_MAX_FILES_MB="1")
    r = s.execute("for n in 'edcba': open('output/' + n, 'w').write(n)")
    assert unpack(r) == {"a": b"a", "b": b"b", "c": b"c"}
    assert r["meta"]["files_skipped"] == [
        {"name": "d", "reason": "too_many_files"},
        {"name": "e", "reason": "too_many_files"},
    ]
    r = s.execute(
        "open('output/a', 'wb').write(b'x' * (1 << 20))\nopen('output/b', 'w').write('x')\n"
        "open('output/c', 'wb').write(b'x' * ((1 << 20) + 1))\nopen('output/d', 'w').close()"
    )
    assert unpack(r) == {"a": b"x" * (1 << 20), "d": b""}
    assert r["meta"]["files_skipped"] == [
        {"name": "b", "reason": "total_size_limit"},
        {"name": "c", "reason": "too_large"},
    ]

# SPDX-License-Identifier: GPL-2.0-only
"""The import guard: every form of import is found, and nothing that only looks like one."""

import pytest

from conftest import Server, post, wait_for

ON = {"SANDBOX_BLOCK_DANGEROUS_IMPORTS": "true"}

FOUND = {
    "plain": "import os",
    "several": "import json, os",
    "dotted": "import os.path",
    "renamed": "import os.path as p",
    "from": "from os import path",
    "from below": "from os.path import join as j",
    "star": "from os import *",
    "in a function": "def f():\n    def g():\n        import os\n",
    "in an async function": "async def f():\n    import os\n",
    "in a class": "class A:\n    import os\n",
    "conditional": "if 0:\n    import os\nelse:\n    pass",
    "tried": "try:\n    import os\nexcept ImportError:\n    pass\nfinally:\n    pass",
    "handled": "try:\n    pass\nexcept ValueError:\n    import os",
    "in a loop": "while False:\n    import os",
    "in with": "with open('x') as f:\n    import os",
    "in match": "match 1:\n    case 2:\n        import os",
    "after a semicolon": "x = 1; import os",
    "continued": "import \\\n    os",
    "another width": "import ｏｓ",
    "encoded": "# coding: utf-7\n+AGkAbQBwAG8AcgB0ACAAbwBz-",
    "call": "__import__('os')",
    "call of what is below": "__import__('os.path')",
    "call by keyword": "__import__(name='os')",
    "call of builtins": "import builtins\nbuiltins.__import__('os')",
    "call in a default": "def f(x=__import__('os')): pass",
    "call in a lambda": "f = lambda: __import__('os')",
    "call in a comprehension": "[__import__('os') for _ in ()]",
    "call in a decorator": "@__import__('os').x\ndef f(): pass",
    "call in an annotation": "x: __import__('os') = 1",
    "call in an f-string": "print(f\"{__import__('os').name}\")",
    "call behind a walrus": "if (m := __import__('os')): pass",
    "walrus for the function": "(f := __import__)('os')",
    "name in an f-string": "__import__(f'os')",
    "name in two pieces": "__import__('o' 's')",
    "other name": "f = __import__\nf('os')",
    "other name's name": "g = f\nf = h = __import__\ng('os')",
    "annotated name": "f: object = __import__\nf('os')",
    "importlib": "import importlib\nimportlib.import_module('os')",
    "importlib renamed": "import importlib as i\ni.import_module('os')",
    "importlib's function": "from importlib import import_module\nimport_module('os')",
    "that renamed": "from importlib import import_module as f\nf('os')",
    "that assigned": "import importlib\nf = importlib.import_module\nf(name='os')",
    "importlib's other": "import importlib\nimportlib.__import__('os')",
    "importlib by itself": "__import__('importlib').import_module('os')",
    "relative": "import importlib\nimportlib.import_module('.path', 'os')",
    "builtins renamed": "from builtins import __import__ as f\nf('os')",
    "importlib's star": "from importlib import *\nimport_module('os')",
    "among several names": "import importlib\nf, g = importlib.import_module, 1\nf('os')",
    "names in names": "(a, [b, c]), d = (1, (2, __import__)), 3\nc('os')",
    "name of a loop": "for f in (len, __import__):\n    f('os')",
    "names of a loop": "for n, f in [(1, len), (2, __import__)]:\n    f('os')",
    "name of a comprehension": "[f('os') for f in {__import__}]",
    "default": "def h(i=__import__):\n    i('os')\n",
    "default of the last": "def h(a, /, b, c=1, i=__import__):\n    i('os')\n",
    "default by keyword": "async def h(*, a, b=1, i=__import__):\n    i('os')\n",
    "default of a lambda": "h = lambda a, i=__import__: i('os')",
    "call with a row": "__import__(*['os'])",
    "call with rows": "import importlib\nimportlib.import_module(*(*['.path'], 'os'))",
    "call with a dictionary": "__import__(**{'name': 'os'})",
    "what does not compile": "import os\nreturn 1",
    "beside long numbers": "x = " + "1" * 5000 + "\nimport os",
}

LEFT_ALONE = {
    "comment": "# import os\nprint(1)",
    "type comment": "x = []  # type: import os\nprint(1)",
    "string": "'import os'\nprint(1)",
    "docstring": "'''\nimport os\n'''\nprint(1)",
    "f-string": "f'import os'\nprint(1)",
    "other module": "import json, string\nprint(1)",
    "name that begins so": "import operator\nprint(1)",
    "attribute": "class A: pass\nA.os = 1\nprint(A.os)",
    "name": "os = 1\nprint(os)",
    "its own function": "def import_os(name): return 1\nprint(import_os('os'))",
    "name that is not literal": "def f(n): return __import__(n)\nprint(1)",
    "alias of its own": "import json as os\nprint(1)",
    "function of another name": "f = len\nf('os')\nprint(1)",
    "function beside it": "f, g = __import__, len\ng('os')\nprint(1)",
    "function in a row beside it": "for f, g in ((len, __import__),):\n    f('os')\nprint(1)",
    "default beside it": "def h(a, i=__import__, *, b=len):\n    b('os')\nh(1)\nprint(1)",
    "keyword without a default": "def h(i=__import__, *, b, c=len):\n    b('os'), c('os')\nh(b=len)\nprint(1)",
    "what is behind a row that is not known": "def h(*x): return __import__(*x, 'os')\nprint(1)",
    "dictionary that is not known": "def h(**x): return __import__(**x, **{'level': 0, **x})\nprint(1)",
}

SYNTAX = {
    "half": "import os\ndef f(:\n",
    "indented": "  import os",
    "open": "import os\nx = (1,\n",
    "brackets": "import os\nx = " + "(" * 300 + ")" * 300,
    "encoding": "# coding: no-such\nimport os",
    "not that encoding": "# coding: ascii\nprint('é')\nimport os",
    "empty name": "import\n",
    "walrus": "x = (import os)",
}


@pytest.fixture(scope="module")
def guarded():
    s = Server(ON, (), "python,shell")
    yield s
    s.stop()


@pytest.fixture(scope="module")
def plain():
    s = Server({}, (), "python")
    yield s
    s.stop()


def blocked(answer, *names):
    meta = answer["meta"]
    assert (meta["verdict"], meta["blocked_imports"]) == ("blocked_import", list(names))
    assert (answer["status"], answer["exit_code"]) == ("error", 1)
    assert answer["stdout"] == "" and answer["execution_time_ms"] == 0
    return answer["stderr"]


@pytest.mark.parametrize("code", FOUND.values(), ids=FOUND.keys())
def test_every_form_is_found(guarded, code):
    said = blocked(guarded.execute("print('ran')\n" * (not code.startswith("#")) + code), "os")
    assert said == "Security policy blocked import: os"


@pytest.mark.parametrize("code", LEFT_ALONE.values(), ids=LEFT_ALONE.keys())
def test_what_only_looks_like_one_is_left_alone(guarded, code):
    answer = guarded.execute(code)
    assert (answer["exit_code"], answer["stdout"], answer["stderr"]) == (0, "1\n", "")
    assert (answer["meta"]["verdict"], answer["meta"]["blocked_imports"]) == ("ok", [])


@pytest.mark.parametrize("code", SYNTAX.values(), ids=SYNTAX.keys())
def test_what_is_no_program_is_pythons_to_say(guarded, plain, code):
    ours, theirs = guarded.execute(code), plain.execute(code)
    for answer in ours, theirs:
        assert answer["exit_code"] == 1 and "Error" in answer["stderr"]
    for field in ("stdout", "stderr", "exit_code", "status"):
        assert ours[field] == theirs[field]


def test_all_names_are_told_in_their_order(guarded):
    code = "import socket\ndef f():\n    import subprocess as s, shutil\nimport os, socket\n"
    said = blocked(guarded.execute(code), "socket", "subprocess", "shutil", "os")
    assert said == "Security policy blocked import: socket,subprocess,shutil,os"
    line = wait_for(lambda: next((x for x in guarded.lines if "imports.blocked" in x and "shutil" in x), None))
    assert 'alternatives="os: pathlib, tempfile, platform; shutil: pathlib, zipfile; socket: io"' in line


def test_what_nobody_can_read_is_not_run(guarded):
    deep = "x = 1\nprint(" + "-" * 3000 + "x)"
    said = blocked(guarded.execute(deep))
    assert said.startswith("Security policy could not check imports: it is ")
    # more memory than a guard may have; and the server is as before
    said = blocked(guarded.execute("x=[" + "1," * 4000000 + "]"))
    assert said.startswith("Security policy could not check imports: ")
    assert guarded.execute("print(1)")["stdout"] == "1\n"


def test_nothing_of_the_program_runs_while_it_is_looked_at(guarded):
    code = "import json\nopen('output/x', 'w').write('1')\nimport os"
    assert "files_produced" not in guarded.execute(code)
    # what could stand in the way of the guard is not there for it
    files = {n: "cmFpc2UgU3lzdGVtRXhpdA==" for n in ("_ast.py", "sys.py", "ast.py", "usercustomize.py")}
    said = blocked(guarded.execute("import os", files=files, env={"PYTHONPATH": "/work"}, args=["x"]), "os")
    assert said == "Security policy blocked import: os"
    # a number that only the program may read, by a variable of its own
    long = "x = " + "1" * 5000 + "\nimport os"
    blocked(guarded.execute(long, env={"PYTHONINTMAXSTRDIGITS": "0"}), "os")


def test_other_languages_and_fields_are_as_ever(guarded):
    assert guarded.execute("import os 2>/dev/null; echo 1", language="shell")["stdout"] == "1\n"
    code = "import sys\nprint(sys.stdin.read(), sys.argv[1:], open('a').read())"
    answer = guarded.execute(code, stdin="in", args=["x"], files={"a": "Yg=="})
    assert answer["stdout"] == "in ['x'] b\n"
    assert guarded.get("/health").json["current_load"] == 0


def test_a_list_of_ones_own(start):
    s = start(SANDBOX_BLOCKED_IMPORTS="xml.sax,ctypes", **ON)
    assert s.execute("import os, xml\nimport xml.dom\nprint(1)")["stdout"] == "1\n"
    for code in ("from xml import sax", "import xml.sax.handler", "from xml.sax import handler"):
        assert blocked(s.execute(code), "xml.sax") == "Security policy blocked import: xml.sax"


def test_a_place_is_one_place(start):
    """A guard takes no second place of its request's; who goes away takes it along."""
    s = start(SANDBOX_MAX_CONCURRENT="1", **ON)
    for _ in range(3):
        assert s.execute("print(1)")["stdout"] == "1\n"
    raw = s.raw(post({"code": "import time\n" + "x = 1\n" * 20000 + "time.sleep(60)"}))
    assert wait_for(lambda: s.load() == 1)
    raw.close()
    assert wait_for(lambda: s.get("/health").json["current_load"] == 0)
    assert blocked(s.execute("import os"), "os")


def test_a_guard_has_a_waiting_sandbox_too(start):
    """What it costs is a second one of those, not the start of an interpreter."""
    s = start(SANDBOX_WARM="3", SANDBOX_LOG_LEVEL="debug", **ON)
    assert wait_for(lambda: s.get("/health").json["warm"]["ready"].get("python") == 3)
    assert s.execute("print(1)")["meta"]["usage"]["warm"] is True
    assert wait_for(lambda: any("imports.looked" in line and "warm=1" in line for line in s.lines))

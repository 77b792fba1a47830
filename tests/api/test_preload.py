# SPDX-License-Identifier: GPL-2.0-only
"""SANDBOX_PRELOAD: a waiting python has modules imported already, and else is as it was."""

import fcntl
import os
import shutil
import subprocess

import pytest

from conftest import TOP, Server
from probes import command, own_place, real_program, write_program
from support import b64, unpack
from test_warm import can_wait, used, wait_warm, what_is_equal
from warm_programs import PROGRAMS

MODULES = "xml.dom,decimal"
IMPORT = "import xml.dom, decimal\n"
NUMPY = os.path.join(TOP, "build/numpy")


@pytest.fixture(scope="module")
def warm():
    s = Server({"SANDBOX_WARM": "2", "SANDBOX_PRELOAD": MODULES}, mode="python")
    if not can_wait(s):
        s.stop()
        pytest.skip("no sandbox waits here")
    yield s
    s.stop()


@pytest.fixture(scope="module")
def cold():
    s = Server({"SANDBOX_WARM": "0"}, mode="python")
    yield s
    s.stop()


# a module may have read variables: with some a run starts cold
# some: test_warm.py has the same object loaded, and all of them
@pytest.mark.parametrize("name", [p[1] for p in PROGRAMS if p[0] == "python" and "env" not in p[3]][::4])
def test_a_program_sees_nothing_but_the_modules(cold, warm, name):
    code, fields = next(p[2:] for p in PROGRAMS if p[:2] == ("python", name))
    wait_warm(warm, "python")
    if name == "modules":
        code = IMPORT + "import sys\nprint(sorted(sys.modules))"
    first = cold.execute(code, **fields)
    second = warm.execute(code, **fields)
    assert not used(first) and used(second)
    assert what_is_equal(first) == what_is_equal(second)


def test_modules_are_there_and_work(warm):
    wait_warm(warm, "python")
    r = warm.execute(
        "import sys\nprint('decimal' in sys.modules, 'xml.dom' in sys.modules)\n"
        "import decimal\nprint(decimal.Decimal(2).sqrt())"
    )
    assert used(r) and r["stdout"].startswith("True True\n1.41"), r
    r = warm.execute("import sys\nprint('decimal' in sys.modules)", env={"A": "b"})
    assert not used(r) and r["stdout"] == "False\n", r


def test_what_was_imported_is_frozen_and_what_a_program_makes_is_not(warm):
    """Its end would take long else; what it has of its own ends as ever, in circles too."""
    wait_warm(warm, "python")
    r = warm.execute(
        "import gc, sys\n"
        "class C:\n"
        "    def __del__(self): print('gone', sys is not None)\n"
        "a, b = C(), C()\n"
        "a.b, b.a = b, a\n"
        "def f(): return a\n"
        "print(gc.get_freeze_count() > 1000, gc.is_tracked(globals()))"
    )
    assert used(r) and r["stdout"] == "True True\ngone True\ngone True\n", r


@pytest.mark.parametrize("end", ["", "raise ValueError('x')", "raise SystemExit(7)", "raise SystemExit('x')"])
def test_a_file_that_a_module_has_is_written_at_the_end(cold, warm, end):
    """What is frozen is not the collector's, and what it has would be lost."""
    code = IMPORT + "f = open('output/x', 'w')\nf.write('text')\nxml.dom.Node.own = f\ndel f\n" + end
    wait_warm(warm, "python")
    first, second = cold.execute(code), warm.execute(code)
    assert used(second) and unpack(second) == {"x": b"text"}, second
    assert what_is_equal(first) == what_is_equal(second)


def test_a_module_beside_the_script_is_found(warm):
    wait_warm(warm, "python")
    r = warm.execute("import fractions\nprint(fractions.x)", files={"fractions.py": "eCA9IDUK"})
    assert used(r) and r["stdout"] == "5\n", r


@pytest.mark.parametrize("name", ["decimal.py", "numbers/__init__.py", "xml/dom.py", "_decimal.cpython-1.so/x"])
def test_a_module_of_the_request_is_the_one_that_is_imported(cold, warm, name):
    """Whatever a preloaded one has in its place, or imported with it: then the run starts cold."""
    code = (
        "import importlib, sys\nprint('decimal' in sys.modules)\n"
        f"try:\n    m = importlib.import_module('{name.partition('.')[0].partition('/')[0]}')\n"
        "    print(m.__name__, getattr(m, '__file__', None), getattr(m, 'x', None))\n"
        "except ImportError as e:\n    print(e)"
    )
    wait_warm(warm, "python")
    first, second = [s.execute(code, files={name: b64(b"x = 5\n")}) for s in (cold, warm)]
    assert not used(second) and first["stdout"].startswith("False\n"), (first, second)
    assert what_is_equal(first) == what_is_equal(second)


def test_a_file_that_is_no_module_of_its_name_is_none(warm):
    wait_warm(warm, "python")
    r = warm.execute("print(open('decimals.py').read())", files={"decimals.py": b64(b"x"), "d/decimal.py": b64(b"y")})
    assert used(r) and r["stdout"] == "x\n", r


@pytest.mark.parametrize(
    "names,said",
    [
        ("decimal,no_such_thing", "'no_such_thing': ModuleNotFoundError"),
        ("import", "'import': ModuleNotFoundError"),
        ("decimal,this", "a module writes when it is imported: The Zen"),
        ("a..b", "must be names of modules"),
        ("a,", "must be names of modules"),
        ("os;print", "must be names of modules"),
        ("1a", "must be names of modules"),
        pytest.param("a" * 384, "is too long", id="long"),
    ],
)
def test_what_cannot_be_imported_stops_the_start(names, said):
    r = command("serve", SANDBOX_PRELOAD=names, SANDBOX_MODE="python", SANDBOX_PORT="0")
    assert r.returncode == 1 and "SANDBOX_PRELOAD=" in r.stderr and said in r.stderr, r.stderr


def test_without_python_it_stops_the_start():
    r = command("serve", SANDBOX_PRELOAD="decimal", SANDBOX_MODE="shell", SANDBOX_PORT="0")
    assert r.returncode == 1 and "SANDBOX_PRELOAD=decimal: python is not served" in r.stderr


def test_a_python_that_loads_nothing_stops_the_start(warm):
    """One behind a program that keeps what was meant for it: it would never be ready."""
    assert warm
    place = own_place()
    try:
        os.mkdir(place + "/bin")
        python = real_program("python3")
        write_program(
            place + "/bin/python3",
            f'#!/bin/sh\nif [ "$1" = -I ]; then\n{python} "$@" | sed "s|^exe.*|exe\t$0|"\n'
            f'else exec {python} "$@"; fi\n',
        )
        r = command(
            "serve",
            SANDBOX_PRELOAD="decimal",
            SANDBOX_MODE="python",
            SANDBOX_PORT="0",
            PATH=f"{place}/bin:/usr/bin:/bin",
        )
    finally:
        shutil.rmtree(place)
    assert r.returncode == 1 and "this python does not load a shared object" in r.stderr, r.stderr


def _has_numpy(python):
    return subprocess.run([python, "-c", "import numpy"], capture_output=True, check=False).returncode == 0


@pytest.fixture(scope="module")
def numpy_path():
    """PATH of a python that has numpy: the host's own, or one with that of the registry."""
    python = real_program("python3")
    if _has_numpy(python):
        yield os.environ["PATH"]
        return
    os.makedirs(NUMPY, exist_ok=True)
    with open(NUMPY + ".lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.isdir(NUMPY + "/numpy"):
            done = subprocess.run(
                [python, "-m", "pip", "install", "-q", "--only-binary", ":all:", "--target", NUMPY, "numpy"],
                capture_output=True,
                text=True,
                timeout=280,
                check=False,
            )
            if done.returncode != 0:
                pytest.skip("numpy cannot be had from the registry: " + done.stderr[-300:])
    place = own_place()
    try:
        subprocess.run([python, "-m", "venv", "--without-pip", place + "/venv"], check=True)
        (site,) = [d[0] for d in os.walk(place + "/venv/lib") if d[0].endswith("/site-packages")]
        shutil.copytree(NUMPY, site, dirs_exist_ok=True)
        yield f"{place}/venv/bin:" + os.environ["PATH"]
    finally:
        shutil.rmtree(place)


@pytest.mark.timeout(400)
def test_numpy_is_there_at_once(numpy_path):
    s = Server({"SANDBOX_WARM": "1", "SANDBOX_PRELOAD": "numpy", "PATH": numpy_path}, mode="python")
    try:
        if not can_wait(s):
            pytest.skip("no sandbox waits here")
        wait_warm(s, "python")
        r = s.execute(
            "import sys\nprint('numpy' in sys.modules)\n"
            "import numpy\nprint(numpy.ones((3, 3)) @ numpy.arange(3.0))"
        )
        assert used(r) and r["stdout"] == "True\n[3. 3. 3.]\n", r
        wait_warm(s, "python")
        first = s.execute("import numpy\nprint(numpy.random.rand(), hash('a'))")["stdout"]
        wait_warm(s, "python")
        second = s.execute("import numpy\nprint(numpy.random.rand(), hash('a'))")["stdout"]
        assert not set(first.split()) & set(second.split())
        wait_warm(s, "python")
        ahead = s.execute("import numpy; print(1)")["meta"]["usage"]["cpu_ms"]
        alone = s.execute("import numpy; print(1)", env={"A": "b"})["meta"]["usage"]["cpu_ms"]
        assert ahead < 0.5 * alone, (ahead, alone)
    finally:
        s.stop()

# SPDX-License-Identifier: GPL-2.0-only
"""What people do on a machine of their own, done in a session: clone, build, install, test.

With the runtime of the host, and by network against its registries, found as test_network_clients does.
"""

import os

import pytest

from test_network_clients import online, place, urls  # noqa: F401, fixtures
from test_sessions import Session, call

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="sessions need a server started as root")

PROJECT = {
    "src/half.h": "int half(int n);\n",
    "src/half.c": '#include "half.h"\n\nint half(int n) { return n / 2; }\n',
    "src/main.c": '#include <stdio.h>\n#include "half.h"\n\nint main(void) { return printf("%d\\n", half(84)) < 0; }\n',
    "Makefile": "CFLAGS = -Wall -Werror -O2\nobjects = src/main.o src/half.o\n\n"
    "half: $(objects)\n\t$(CC) -o $@ $^\n$(objects): src/half.h\n"
    "check: half\n\ttest \"$$(./half)\" = 42\nclean:\n\trm -f half $(objects)\n.PHONY: check clean\n",
}


@pytest.fixture
def begin(online):
    made = []

    def one(**fields):
        made.append(Session(online, **fields))
        return made[-1]

    yield one
    for s in made:
        s.close()


def write(one, files):
    for path, text in files.items():
        assert one.write(path, text.encode())[0] == 200


def done(one, command, seconds=120):
    r = one.exec(command, timeout_seconds=seconds)
    assert r["exit_code"] == 0, r
    return r["stdout"]


def done_online(one, command, name):
    """The same with the help of a registry, which may not be there."""
    r = one.exec(command, timeout_seconds=120)
    counts = call(one.server, "GET", one.path)["network"]
    if r["exit_code"] and not counts["received_bytes"]:
        pytest.skip(f"the registry of {name} cannot be reached: {counts} {(r['stdout'] + r['stderr'])[-300:]}")
    assert r["exit_code"] == 0, (r, counts)
    return r["stdout"]


def test_git_clones_a_repository(begin):
    one = begin()
    write(one, {f"origin/{path}": text for path, text in PROJECT.items()})
    who = "-c user.name=a -c user.email=a@example.com"
    done(one, f"cd origin && git init -q -b main && git add . && git {who} commit -q -m first")
    done(one, "git clone -q origin copy && git clone -q --bare file:///work/origin bare.git")
    assert done(one, "cd copy && git log --format=%s && git status --short") == "first\n"
    done(one, f"cd copy && echo >> Makefile && git {who} commit -q -a -m second && git push -q ../bare.git main")
    assert done(one, "git -C bare.git log --format=%s") == "second\nfirst\n"


def test_make_builds_a_project(begin):
    one = begin()
    write(one, PROJECT)
    assert "half" in done(one, "make -j4 check")
    assert done(one, "./half") == "42\n"
    assert "up to date" in done(one, "make half")
    write(one, {"src/half.c": '#include "half.h"\n\nint half(int n) { return n; }\n'})
    r = one.exec("make check")
    assert r["exit_code"] == 2 and "half.o" in r["stdout"]
    done(one, "make clean && test ! -e half")


def test_npm_installs_and_tests(begin, urls):
    if not urls["npm"]:
        pytest.skip("npm is missing on this host, or names no registry")
    one = begin(allow_network=True, env={"npm_config_registry": urls["npm"]})
    write(
        one,
        {
            "package.json": '{"name": "p", "version": "1.0.0", "scripts": {"test": "node test.js"},'
            ' "dependencies": {"left-pad": "1.3.0"}}\n',
            "test.js": "require('assert').equal(require('left-pad')('a', 3), '  a');console.log('tested')\n",
        },
    )
    assert "tested\n" in done_online(one, "npm install --no-audit --no-fund >&2 && npm test", "npm")
    # what was installed stays, and needs nobody any more
    assert "tested\n" in done(one, "npm test --offline && test -e package-lock.json")


def test_pip_installs(begin, urls):
    if not urls["python"]:
        pytest.skip("pip is missing on this host, or names no index")
    one = begin(allow_network=True, env={"PIP_INDEX_URL": urls["python"]})
    venv = "/usr/bin/python3 -m venv --without-pip v 2>&1"
    pip = "/usr/bin/python3 -m pip -q --disable-pip-version-check --no-cache-dir"
    done(one, venv)
    done_online(one, f"{pip} --python v/bin/python3 install six >&2", "python")
    assert done(one, "v/bin/python3 -c 'import six; print(six.__name__, six.__file__)'").startswith("six /work/v/lib/")

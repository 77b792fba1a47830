# SPDX-License-Identifier: GPL-2.0-only
"""Packages in sandboxes that were waiting: the same as in cold ones."""

import http.server
import io
import json
import os
import shutil
import tarfile
import threading

import pytest

from conftest import Server, found_modes
from packages import place_with_uv, wheel
from test_warm import can_wait, has_hooks, used, wait_warm, what_is_equal

GREET = {
    "greet/__init__.py": "from greet.word import WORD\n",
    "greet/word.py": "WORD = 'hello'\n",
    "greet/data.txt": "data\n",
}

PYTHON = {
    "what it imports": (
        "import greet, greet.word\n"
        "print(greet, greet.WORD, greet.__path__, greet.__spec__.origin, greet.word.__cached__)"
    ),
    "where it looks": (
        "import sys, greet\n"
        "print(sys.path, list(sys.path_importer_cache), len(sys.path_hooks), sys.flags)\n"
        "print([repr(f).split(' at ')[0] for f in sys.meta_path])\n"
        "print(sorted(sys.modules), sys.path_importer_cache['/packages'])"
    ),
    "its environment": (
        "import os, subprocess, sys\n"
        "print(list(os.environ.items()), os.environb[b'PYTHONPATH'], sys.argv, sys.orig_argv)\n"
        "subprocess.run(['env'])\n"
        "subprocess.run([sys.executable, '-c', 'import greet, sys; print(greet.WORD, sys.path)'])"
    ),
    "nothing is compiled": (
        "from importlib.machinery import SourceFileLoader\n"
        "def compiles(*a): raise SystemError('compiled')\n"
        "SourceFileLoader.source_to_code = compiles\n"
        "import greet, greet.word\n"
        "print(greet.WORD)"
    ),
    "what it may do with it": (
        "import os\n"
        "for f in (lambda: open('/packages/x', 'w'), lambda: os.unlink('/packages/greet/word.py'),\n"
        "          lambda: os.chmod('/packages/greet', 0o777), lambda: os.rmdir('/packages')):\n"
        "    try: f(); print('done')\n"
        "    except OSError as e: print(e.errno)\n"
        "print(sorted(os.listdir('/packages')), os.stat('/packages/greet').st_mode, os.statvfs('/packages').f_flag)\n"
        "print([l.split()[4:6] for l in open('/proc/self/mountinfo') if '/packages ' in l])"
    ),
    "resources and metadata": (
        "import importlib.resources as r, importlib.metadata as m\n"
        "print(r.files('greet').joinpath('data.txt').read_text(), m.version('greet'), m.distribution('greet').files)"
    ),
    "a module that is not there": "import greet\nimport greet.nothing",
    "a script that has its name": "import greet; print(greet.__file__, greet.OWN)",
    "a process of its own": (
        "import multiprocessing as m, greet\n"
        "if __name__ == '__main__':\n"
        "    m.set_start_method('spawn')\n"
        "    p = m.Process(target=print, args=(greet.WORD,)); p.start(); p.join()"
    ),
}  # fmt: skip
FIELDS = {
    "its environment": {"env": {"NAME": "v"}, "args": ["a", "b"]},
    "a script that has its name": {"files": {"greet.py": "T1dOID0gMQo="}},
}

NODE = {
    "require": (
        "const p = require('polite');"
        "console.log(p.word, require.resolve('polite'), require('polite/package.json').version)"
    ),
    "import": "import('polite').then(m => console.log(m.default.word, Object.keys(m)))",
    "a module of the other kind": "import('modern').then(m => console.log(m.word, m.from))",
    "where it looks": (
        "console.log(module.paths, process.env, process.argv, require('fs').readdirSync('/node_modules'))"
    ),
    "what it may do with it": (
        "try { require('fs').writeFileSync('/node_modules/x', '') } catch (e) { console.log(e.code) }"
    ),
    "a worker": "new (require('worker_threads').Worker)(\"console.log(require('polite').word)\", {eval: true})",
    "a child": (
        "const {execFileSync} = require('child_process');"
        "const code = 'console.log(require(\"/node_modules/polite\").word)';"
        "console.log(execFileSync(process.execPath, ['-e', code]).toString())"
    ),
    "a module that is not there": "try { require('nothing') } catch (e) { console.log(e.code, e.requireStack) }",
}
NODE_PACKAGES = {
    "polite": {"index.js": "module.exports = {word: 'please'}\n"},
    "modern": {"index.mjs": "import p from 'polite'\nexport const word = p.word, from = import.meta.url\n"},
}
NODE_WANTED = sorted(NODE_PACKAGES)


def tarball(name):
    main = "index.mjs" if name == "modern" else "index.js"
    files = {"package.json": json.dumps({"name": name, "version": "1.0.0", "main": main, "exports": {
        ".": "./" + main, "./package.json": "./package.json"}}), **NODE_PACKAGES[name]}  # fmt: skip
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as t:
        for member, text in files.items():
            head = tarfile.TarInfo("package/" + member)
            head.size = len(text)
            t.addfile(head, io.BytesIO(text.encode()))
    return out.getvalue()


class Registry(http.server.BaseHTTPRequestHandler):
    """/NAME tells of a package, /NAME.tgz is it."""

    def do_GET(self):
        name = self.path.strip("/").split("?")[0]
        if name.endswith(".tgz"):
            body = tarball(name[:-4])
        elif name in NODE_PACKAGES:
            url = f"http://127.0.0.1:{self.server.server_port}/{name}.tgz"
            version = {"name": name, "version": "1.0.0", "dist": {"tarball": url}}
            body = json.dumps({"name": name, "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}).encode()
        else:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


@pytest.fixture(scope="module")
def place():
    top = place_with_uv()
    os.mkdir(top + "/wheels")
    wheel(top + "/wheels", "greet", "1.0", GREET)
    wheel(top + "/wheels", "custom", "1.0", {"sitecustomize.py": "import sys; sys.custom = 'was here'\n"})
    wheel(top + "/wheels", "shadows", "1.0", {"io.py": "raise SystemExit(3)\n"})
    yield top
    shutil.rmtree(top)


@pytest.fixture(scope="module")
def registry():
    s = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Registry)
    s.daemon_threads, s.block_on_close = True, False
    threading.Thread(target=s.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{s.server_port}/"
    s.shutdown()
    s.server_close()


def settings(place, **more):
    return {
        "SANDBOX_PYTHON_INDEX": place + "/wheels",
        "PATH": place + "/bin:" + os.environ["PATH"],
        "SANDBOX_MODE": "python",
        **more,
    }


def pair(place, registry, modes):
    """A server whose sandboxes wait, and one whose do not."""
    warm = Server(settings(place, SANDBOX_WARM="2", SANDBOX_MODE=modes, SANDBOX_NPM_REGISTRY=registry))
    if not can_wait(warm):
        warm.stop()
        pytest.skip("no sandbox waits here")
    return warm, Server(settings(place, SANDBOX_WARM="0", SANDBOX_MODE=modes, SANDBOX_NPM_REGISTRY=registry))


@pytest.fixture(scope="module")
def both(place, registry):
    warm, cold = pair(place, registry, "python,node" if "node" in found_modes() else "python")
    for s in (warm, cold):
        s.execute("pass", requirements=["greet"])
        if "node" in found_modes():
            assert s.execute("0", language="node", requirements=NODE_WANTED)["exit_code"] == 0
    yield warm, cold
    warm.stop()
    cold.stop()


@pytest.fixture(scope="module")
def forks(place, both):
    """A server whose runs are forked from started interpreters, and one whose are not."""
    s = Server(settings(place, SANDBOX_WARM="0", SANDBOX_WARM_FORK="on"))
    s.execute("pass", requirements=["greet"])
    yield s, both[1]
    s.stop()


def same(both, code, language, **fields):
    """The warm one's answer, when it is what the cold one says."""
    warm, cold = both
    wait_warm(warm, language)
    first = cold.execute(code, language=language, **fields)
    second = warm.execute(code, language=language, **fields)
    assert used(second) and not used(first)
    assert what_is_equal(first) == what_is_equal(second)
    return second


@pytest.mark.parametrize("name", PYTHON)
def test_python_cannot_tell(both, name):
    r = same(both, PYTHON[name], "python", requirements=["greet"], **FIELDS.get(name, {}))
    assert (r["exit_code"] == 0) == (name != "a module that is not there"), r


@pytest.mark.skipif("node" not in found_modes(), reason="node is not there")
@pytest.mark.parametrize("name", NODE)
def test_node_cannot_tell(both, name):
    r = same(both, NODE[name], "node", requirements=NODE_WANTED)
    assert r["exit_code"] == 0 and r["stdout"], r


@pytest.mark.parametrize("name", PYTHON)
def test_python_that_is_forked_cannot_tell(forks, name):
    r = same(forks, PYTHON[name], "python", requirements=["greet"], **FIELDS.get(name, {}))
    assert (r["exit_code"] == 0) == (name != "a module that is not there"), r
    assert same(forks, "import os; print(os.listdir('/packages'))", "python")["stdout"] == "[]\n"


def test_the_next_run_has_none(both):
    same(both, "import greet", "python", requirements=["greet"])
    for language in found_modes():
        if language in ("python", "node"):
            code = {"python": "import os; print(os.listdir('/packages'), os.environ.get('PYTHONPATH'))",
                    "node": "console.log(require('fs').readdirSync('/node_modules'))"}[language]  # fmt: skip
            assert same(both, code, language)["stdout"] in ("[] None\n", "[]\n")


@pytest.mark.parametrize(
    "wanted, code", [("custom", "import sys; print(sys.custom)"), ("shadows", "import io; print(io.__file__)")]
)
def test_what_python_had_found_at_its_start_starts_cold(both, forks, wanted, code):
    for pair_of in (both, forks):
        for s in pair_of:
            s.execute("pass", requirements=[wanted])
        wait_warm(pair_of[0], "python")
        first = pair_of[1].execute(code, requirements=[wanted])
        second = pair_of[0].execute(code, requirements=[wanted])
        assert not used(second) and what_is_equal(first) == what_is_equal(second)
        same(pair_of, "print(1)", "python", requirements=["greet"])


def test_modules_that_are_imported_already_start_cold(start, place):
    s = start(**settings(place, SANDBOX_WARM="1", SANDBOX_PRELOAD="json"))
    s.execute("pass", requirements=["greet"])
    wait_warm(s, "python")
    r = s.execute("import greet; print(greet.WORD)", requirements=["greet"])
    assert not used(r) and r["stdout"] == "hello\n", r
    assert used(s.execute("print(1)"))


@pytest.mark.skipif(not has_hooks(), reason="a build without test hooks")
def test_a_layer_that_cannot_be_moved_starts_cold(start, place):
    s = start(**settings(place, SANDBOX_WARM="2", SANDBOX_TEST_FAULT="layer_move"))
    s.execute("pass", requirements=["greet"])
    for _ in range(2):
        wait_warm(s, "python")
        r = s.execute("import greet; print(greet.WORD)", requirements=["greet"])
        assert not used(r) and r["stdout"] == "hello\n", r
    assert s.log().count("reason=layer ") == 1
    assert used(s.execute("print(1)"))

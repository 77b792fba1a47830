# SPDX-License-Identifier: GPL-2.0-only
"""Packages from where the host's own pip, uv and npm are told to get them: passwords, tokens,
extra indexes, directories and certificates of an authority that nobody else knows."""

import base64
import http.server
import json
import os
import shutil
import ssl
import subprocess
import threading

import pytest

from conftest import Server, found_modes, wait_for
from packages import place_with_uv, wheel
from support import Later
from test_requirements import SHOW, failed
from test_requirements_attack import tarball
from test_sessions import Session

PASSWORD, TOKEN = "pw-d41d8cd98f", "token-900150983c"
NPM = "node" in found_modes() and shutil.which("npm")


def openssl(place, *words):
    subprocess.run(["openssl", *words], check=True, capture_output=True, cwd=place)


def certificates(place):
    """ca.pem, and leaf.pem with its key for 127.0.0.1, which npm behind a proxy calls localhost."""
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    openssl(place, "req", "-x509", *key, "-days", "2", "-subj", "/CN=own", "-keyout", "ca.key", "-out", "ca.pem")
    openssl(place, "req", *key, "-subj", "/CN=127.0.0.1", "-keyout", "leaf.key", "-out", "leaf.csr")
    with open(place + "/ext", "w", encoding="ascii") as f:
        f.write("subjectAltName=IP:127.0.0.1,DNS:localhost\nbasicConstraints=CA:FALSE\n")
    openssl(place, "x509", "-req", "-in", "leaf.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
            "-days", "2", "-extfile", "ext", "-out", "leaf.pem")  # fmt: skip
    os.chmod(place + "/ca.pem", 0o644)


class Host(http.server.BaseHTTPRequestHandler):
    """/NAME/simple/... has the wheels of that directory; /corp/... is a registry of npm's.
    Each wants self.server.wanted[NAME] as its Authorization."""

    def do_GET(self):
        top, *rest = self.path.strip("/").split("/")
        self.server.asked.append(self.path)
        wanted = self.server.wanted.get(top)
        if wanted and self.headers.get("Authorization") != wanted:
            return self.answer(401, b"")
        if rest[-1:] == ["hangs"]:
            self.server.over.wait(30)
            return self.answer(404, b"")
        return self.npm(rest) if top in ("corp", "plain") else self.wheels(f"{self.server.place}/{top}", top, rest)

    do_HEAD = do_GET

    def wheels(self, directory, top, rest):
        if rest[0] == "simple":
            names = [n for n in sorted(os.listdir(directory)) if n.startswith(rest[1] + "-")]
            return self.answer(200 if names else 404,
                               "".join(f'<a href="/{top}/files/{n}">{n}</a>\n' for n in names).encode())  # fmt: skip
        with open(f"{directory}/{rest[1]}", "rb") as f:
            return self.answer(200, f.read(), "application/zip")

    def npm(self, rest):
        name = "/".join(rest).replace("%2f", "/").replace("%2F", "/")
        if name.endswith(".tgz"):
            return self.answer(200, self.server.package, "application/gzip")
        url = f"https://127.0.0.1:{self.server.server_port}{self.path}/-/x-1.2.0.tgz"
        versions = {v: {"name": name, "version": v, "dist": {"tarball": url}} for v in ("1.2.0", "2.0.0")}
        body = {"name": name, "dist-tags": {"latest": "2.0.0"}, "versions": versions}
        return self.answer(200, json.dumps(body).encode(), "application/json")

    def answer(self, status, body, kind="text/html"):
        self.send_response(status)
        if status == 401:
            self.send_header("WWW-Authenticate", "Basic")
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *args):
        pass


@pytest.fixture(scope="module")
def host():
    place = place_with_uv()
    certificates(place)
    for name, version, where in (("greet", "1.0", "main"), ("extra", "1.0", "more"), ("linked", "1.0", "links")):
        os.mkdir(f"{place}/{where}")
        word = {"greet": "hello"}.get(name, name)
        wheel(f"{place}/{where}", name, version, {f"{name}.py": f"WORD = '{word}'\n"})
    for name, main, more in (("older", "1.0", "2.0"), ("newer", "2.0", "1.0")):
        wheel(place + "/main", name, main, {f"{name}.py": f"WORD = 'main {main}'\n"})
        wheel(place + "/more", name, more, {f"{name}.py": f"WORD = 'more {more}'\n"})
    s = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Host)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(place + "/leaf.pem", place + "/leaf.key")
    s.socket = context.wrap_socket(s.socket, server_side=True, do_handshake_on_connect=False)
    s.daemon_threads, s.block_on_close = True, False
    basic = "Basic " + base64.b64encode(f"me:{PASSWORD}".encode()).decode()
    s.wanted = {"main": basic, "corp": f"Bearer {TOKEN}"}
    s.place, s.asked, s.over = place, [], threading.Event()
    s.package = tarball({"package.json": '{"name":"x","version":"1.2.0"}', "index.js": "exports.word = 'mine'"})
    threading.Thread(target=s.serve_forever, daemon=True).start()
    os.makedirs(place + "/home/.config/pip")
    at = f"127.0.0.1:{s.server_port}"
    with open(place + "/home/.config/pip/pip.conf", "w", encoding="ascii") as f:
        f.write(f"[global]\nindex-url = https://me:{PASSWORD}@{at}/main/simple\nextra-index-url =\n"
                f"    https://{at}/more/simple\nfind-links = {place}/links\ncert = {place}/ca.pem\n")  # fmt: skip
    with open(place + "/home/.npmrc", "w", encoding="ascii") as f:
        f.write(f"registry=https://{at}/plain/\n@corp:registry=https://{at}/corp/\n"
                f"//{at}/corp/:_authToken=${{CORP_TOKEN}}\ncafile={place}/ca.pem\n")  # fmt: skip
    yield s
    s.over.set()
    s.shutdown()
    s.server_close()
    shutil.rmtree(place)


@pytest.fixture(scope="module")
def told(host):
    env = {k: None for k in os.environ if k.upper().startswith(("PIP_", "UV_", "NPM_CONFIG_", "SSL_CERT"))}
    env.update(HOME=host.place + "/home", PATH=f"{host.place}/bin:{os.environ['PATH']}", CORP_TOKEN=TOKEN)
    env["SANDBOX_INSTALL_TIMEOUT_SEC"] = "40"
    s = Server(env, (), "python,node" if NPM else "python")
    if s.get("/health").json["isolation"]["level"] not in ("full", "namespaces"):
        s.stop()
        pytest.skip("tests/api/test_requirements_landlock.py has it")
    yield s
    s.stop()


def secrets_in(text):
    return [s for s in (PASSWORD, TOKEN, base64.b64encode(f"me:{PASSWORD}".encode()).decode()) if s in text]


def in_files(top):
    done = subprocess.run(["grep", "-rlE", f"{PASSWORD}|{TOKEN}", top], capture_output=True, text=True, check=False)
    return done.stdout


def test_an_index_with_a_password_and_certificates_of_its_own(told, host):
    r = told.execute(SHOW, requirements=["greet"])
    assert r["stdout"] == "hello /packages/greet.py\n", r["stderr"]
    assert any(p.startswith("/main/files/") for p in host.asked)


def test_an_extra_index(told, host):
    r = told.execute("import extra; print(extra.WORD)", requirements=["extra"])
    assert r["stdout"] == "extra\n", r["stderr"]
    assert any(p.startswith("/more/files/") for p in host.asked)


def test_of_pips_indexes_the_best_version_counts(told):
    """As for pip itself. To uv a name is of the first index that has it, which is no order that pip has."""
    code = "import older, newer; print(older.WORD, newer.WORD)"
    r = told.execute(code, requirements=["older", "newer"])
    assert r["stdout"] == "more 2.0 main 2.0\n", r["stderr"]


def at_home(host, name, files):
    """The environment of a server whose user has these files."""
    env = {k: None for k in os.environ if k.upper().startswith(("PIP_", "UV_", "SSL_CERT"))}
    env.update(HOME=f"{host.place}/{name}", PATH=f"{host.place}/bin:{os.environ['PATH']}")
    for below, text in files.items():
        path = f"{env['HOME']}/{below}"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="ascii") as f:
            f.write(text.replace("PLACE", host.place).replace("HOST", f"127.0.0.1:{host.server_port}"))
    return env


PIP_CONF = "[global]\nindex-url = https://HOST/main/simple\ncert = PLACE/ca.pem\n"


def test_a_password_in_a_netrc_file(start, host):
    netrc = f"machine 127.0.0.1\n    login me\n    password {PASSWORD}\n"
    s = start(**at_home(host, "netrc", {".config/pip/pip.conf": PIP_CONF, ".netrc": netrc}), SANDBOX_MODE="python")
    r = s.execute(SHOW, requirements=["greet"])
    assert r["stdout"] == "hello /packages/greet.py\n", r["stderr"]
    assert not secrets_in(s.log()) and in_files(s.state_dir) == ""


def test_pips_file_of_the_python_that_runs(start, host):
    """It is not in an activated environment; its own file is at its prefix."""
    env = at_home(host, "site", {"venv/pip.conf": PIP_CONF.replace("//", f"//me:{PASSWORD}@")})
    subprocess.run(["/usr/bin/python3", "-m", "venv", "--without-pip", env["HOME"] + "/venv"], check=True)
    env["PATH"] = f"{env['HOME']}/venv/bin:{env['PATH']}"
    r = start(**env, SANDBOX_MODE="python").execute("import greet; print(greet.WORD)", requirements=["greet"])
    assert r["stdout"] == "hello\n", r["stderr"]


def test_a_netrc_file_that_is_not_understood_turns_installs_off(start, host):
    netrc = f'machine 127.0.0.1 login me password "{PASSWORD}"\n'
    s = start(**at_home(host, "odd", {".config/pip/pip.conf": PIP_CONF, ".netrc": netrc}), SANDBOX_MODE="python")
    said = failed(s.execute("1", requirements=["greet"]), "no_installer")
    assert "netrc" in said and not secrets_in(said + s.log())


@pytest.mark.parametrize("links", ["/", "/etc", "/root", "HOME"])
def test_a_directory_that_holds_more_than_packages_is_shown_to_nobody(start, host, links):
    """Programs see what an install does: it turns installs off, and not the server."""
    env = at_home(host, "private", {"secret": "s3cret"})
    links = links.replace("HOME", env["HOME"])
    env.update(PIP_CONFIG_FILE="/dev/null", PIP_FIND_LINKS=f"{host.place}/links {links}")
    s = start(**env, SANDBOX_MODE="python")
    said = failed(s.execute("1", requirements=["linked"]), "no_installer")
    assert f"'{links}' is not a directory of its own" in said
    code = f"import os; print([p for p in ('{env['HOME']}/secret', '{host.place}/links') if os.path.exists(p)])"
    if s.get("/health").json["isolation"]["level"] != "process":
        assert s.execute(code)["stdout"] == "[]\n"


def test_certificates_of_runs_in_a_directory_of_packages_turn_installs_from_it_off(start, host):
    """Runs see the certificates, and would see the packages: neither that, nor a server that does not start."""
    links, name = f"{host.place}/links", f"{host.place}/links/ca.pem"
    shutil.copy(f"{host.place}/ca.pem", name)
    env = at_home(host, "inside", {})
    env.update(SANDBOX_PYTHON_INDEX=links, SANDBOX_NETWORK="127.0.0.1:1", SSL_CERT_FILE=name)
    try:
        s = start(**env, SANDBOX_MODE="python")
        said = failed(s.execute("1", requirements=["linked"]), "no_installer")
        assert f"'{name}' is in '{links}', which is for installs alone" in said
        code = f"import os; print([os.path.exists(p) for p in ('{name}', '{links}')], os.listdir('{links}'))"
        if s.get("/health").json["isolation"]["level"] != "process":
            assert s.execute(code)["stdout"] == "[True, True] ['ca.pem']\n"
    finally:
        os.unlink(name)


@pytest.mark.skipif(not NPM, reason="no npm here")
def test_an_npm_cache_that_holds_more_is_shown_to_nobody(start):
    s = start(SANDBOX_MODE="node", SANDBOX_NPM_REGISTRY="/etc")
    assert "'/etc' is not a directory of its own" in failed(s.execute("1", requirements=["x"]), "no_installer")


def test_directories_that_do_not_fit_into_the_arguments_of_an_install(start, host):
    """Left out, the packages in them would come from elsewhere."""
    env = at_home(host, "long", {})
    places = [f"{host.place}/links{i}/" + "/".join(["d" * 200] * 4) for i in range(6)]
    for place in places:
        os.makedirs(place)
    env.update(PIP_CONFIG_FILE="/dev/null", PIP_FIND_LINKS=" ".join(places))
    s = start(**env, SANDBOX_MODE="python")
    assert "do not fit into 4096 bytes" in failed(s.execute("1", requirements=["linked"]), "no_installer")


def test_a_directory_of_wheels(told):
    r = told.execute("import linked; print(linked.WORD)", requirements=["linked"])
    assert r["stdout"] == "linked\n", r["stderr"]


LOOK = """
import os
try: print(os.listdir('%s'))
except OSError as e: print(e.strerror)
"""


def test_a_directory_of_wheels_is_seen_by_installs_alone(told, host):
    links = host.place + "/links"
    for more in ({}, {"requirements": ["linked"]}):
        assert told.execute(LOOK % links, **more)["stdout"] == "[]\n"
    if os.geteuid() == 0:
        session = Session(told)
        assert "No such file" in session.out(f"ls {links} 2>&1; true")
        session.close()


@pytest.mark.skipif(not NPM, reason="no npm here")
def test_a_scope_has_its_registry_and_token(told, host):
    code = """
console.log(require('@corp/thing').word, require('other').word, Object.values(process.env).join().includes('token-'));
"""
    r = told.execute(code, language="node", requirements=["@corp/thing@^1", "other@~1.2"])
    assert r["stdout"] == "mine mine false\n", r["stderr"]
    for begin in ("/corp/@corp", "/plain/other"):
        assert [p for p in host.asked if p.startswith(begin)]
    code = "const fs=require('fs'); console.log(fs.readdirSync('.').concat(fs.readdirSync('/tmp')).join())"
    r = told.execute(code, language="node", requirements=["@corp/thing@^1", "other@~1.2"])
    assert ".npmrc" not in r["stdout"]


@pytest.mark.skipif(not NPM, reason="no npm here")
def test_credentials_in_the_url_of_a_registry_are_used_and_never_shown(host):
    """By npm for all that it gets there; told as part of the URL, a name would be in its messages."""
    host.wanted["plain"] = "Basic " + base64.b64encode(f"{TOKEN}:".encode()).decode()
    rc = host.place + "/npmrc"
    with open(rc, "w", encoding="ascii") as f:
        f.write(f"registry=https://{TOKEN}@127.0.0.1:{host.server_port}/plain/\ncafile={host.place}/ca.pem\n")
    s = Server({"NPM_CONFIG_USERCONFIG": rc, "SANDBOX_INSTALL_TIMEOUT_SEC": "40"}, (), "node")
    try:
        r = s.execute("console.log(require('other').word)", requirements=["other@~1.2"])
        assert r["stdout"] == "mine\n", r["stderr"]
        host.wanted["plain"] = "another"
        r = s.post("/execute", {"code": "1", "requirements": ["another"]})
        failed(r.json, "unreachable")
        assert not secrets_in(r.body.decode() + s.log()) and in_files(s.state_dir) == ""
    finally:
        del host.wanted["plain"]
        s.stop()


def test_passwords_are_in_no_arguments_answers_logs_or_layers(told, host):
    r = told.post("/execute", {"code": "1", "requirements": ["greet==9"]})
    assert "greet==9" in failed(r.json, "missing_package") and not secrets_in(r.body.decode())
    asked = Later(told, "1", requirements=["hangs"])
    wait_for(lambda: [p for p in host.asked if "hangs" in p], 30)
    lines = []
    for pid in told.pids():
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                lines.append(f.read().decode(errors="replace"))
        except OSError:
            pass  # it is over
    host.over.set()
    asked.result()
    assert [line for line in lines if "hangs" in line] and not secrets_in("".join(lines))
    assert not secrets_in(told.log())
    assert in_files(told.state_dir) == ""

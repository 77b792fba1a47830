# SPDX-License-Identifier: GPL-2.0-only
"""GET /: a page for people, used as they do, in Chromium; pictures of it go to build/page."""

import base64
import hashlib
import os
import re

import pytest

from browser import Browser
from conftest import TOP, Server, wait_for
from tokens import TokenFile

HTML = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
PICTURES = os.path.join(TOP, "build/page")
DONE = "return !document.getElementById('run').disabled && document.querySelector('#verdict .chip')?.innerText"


@pytest.fixture(scope="module")
def served():
    s = Server({"SANDBOX_SESSIONS": "on" if os.geteuid() == 0 else "off", "SANDBOX_WARM": "1"}, (), "python,shell")
    yield s
    s.stop()


@pytest.fixture(scope="module")
def chromium():
    with Browser() as b:
        yield b


@pytest.fixture
def page(served, chromium):
    chromium.look(1280, 900)
    chromium.open(served.url + "/")
    chromium.wait("return document.querySelectorAll('#layers tr').length > 5 && document.getElementById('code').value")
    yield chromium
    assert chromium.log() == []  # nothing that the policy refused, no error of the script


def give(page, code, language="python"):
    page.run(
        "const l = document.getElementById('language'); l.value = arguments[1];"
        "l.dispatchEvent(new Event('change')); document.getElementById('code').value = arguments[0];"
        "document.getElementById('run').click()",
        code,
        language,
    )


# ---- what is sent


def test_programs_get_the_status_of_agent_sandbox(served):
    status = {"status": "ok", "message": "Sandbox Runtime is active."}
    for headers in ({}, {"Accept": "*/*"}, {"Accept": "application/json, text/html"}):
        r = served.request("GET", "/", headers=headers)
        assert r.json == status and r.headers["content-type"] == "application/json"
        assert r.headers["vary"] == "Accept"
    assert served.request("POST", "/", b"{}").status == 405


def test_the_page_loads_nothing_and_runs_only_itself(served):
    r = served.request("GET", "/", headers=HTML)
    assert r.status == 200 and r.headers["content-type"] == "text/html; charset=utf-8"
    assert r.headers["vary"] == "Accept" and r.headers["x-frame-options"] == "DENY"
    text = r.body.decode()
    assert len(r.body) < 40960
    policy = dict(p.strip().split(" ", 1) for p in r.headers["content-security-policy"].split(";"))
    for tag, rule in (("style", "style-src"), ("script", "script-src")):
        inside = re.search(f"<{tag}>(.*)</{tag}>", text, re.S).group(1)
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert policy[rule] == f"'sha256-{digest}'"
    assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert policy["connect-src"] == "'self'"
    assert not re.search(r"\son\w+=|\sstyle=", text.split("<script>")[0])
    assert set(re.findall(r"https?://[^\s'\"`]+", text)) == {"http://www.w3.org/2000/svg"}
    tag = r.headers["etag"]
    assert served.request("GET", "/", headers=HTML | {"If-None-Match": tag}).status == 304


# ---- what people see


def test_it_shows_the_server(served, page):
    assert page.run("return [...document.getElementById('language').options].map(o => o.value)") == ["python", "shell"]
    assert page.text("#load") == "0 of 3"
    level = served.get("/health").json["isolation"]["level"]
    assert page.text("#level") == level
    rows = page.text("#layers")
    for name, layer in served.get("/isolation").json["layers"].items():
        assert name.replace("_", " ") in rows and layer["evidence"].split(";")[0] in rows
    if os.geteuid() == 0:
        served.post("/sessions", {"scope_type": "agent", "scope_id": "page"})
        page.open(served.url + "/")
        page.wait("return document.getElementById('session-rows').innerText.includes('agent_page_sandbox')")


def test_a_picture_is_shown_as_output_comes(page):
    page.run("document.getElementById('run').click()")  # the first example
    page.wait("return document.querySelector('#details img')?.naturalWidth === 360")
    assert page.wait(DONE) == "ok"
    assert page.text("#output").splitlines()[0] == "row 0 of 220" and page.text("#output").endswith("done\n")
    assert "mandelbrot.png" in page.text("#details") and "of 512 MB" in page.text("#details")
    os.makedirs(PICTURES, exist_ok=True)
    for name, size in (("desktop", (1280, 900)), ("dark", (1280, 900)), ("phone", (390, 844))):
        page.look(*size, dark=name == "dark", mobile=name == "phone")
        page.screenshot(f"{PICTURES}/{name}.png")
        assert page.run("return document.documentElement.scrollWidth <= innerWidth"), f"{name}: wider than it is"


def test_output_comes_before_the_end_and_escape_ends_it(served, page):
    give(page, "echo first; sleep 100; echo last", "shell")
    page.wait("return document.getElementById('output').textContent === 'first\\n'")
    assert page.run("return document.getElementById('run').disabled")
    page.keys("Escape")
    assert page.wait(DONE) == "stopped"
    wait_for(lambda: served.load() == 0, 10)


def test_what_was_refused_is_explained(page):
    give(page, "import socket\ntry: socket.socket()\nexcept OSError: print('none')")
    assert page.wait(DONE) == "ok"
    shown = page.text(".violations")
    assert "socket 1 time, answered with EAFNOSUPPORT" in shown and "network is off" in shown


def test_bad_ends_and_bad_requests_are_told(page):
    give(page, "import sys; sys.exit(3)")
    assert page.wait(DONE) == "failed" and "exit code 3" in page.text("#verdict")
    give(page, "")
    assert page.wait(DONE) == "not run" and "code is required" in page.text("#verdict")
    assert any("400" in line for line in page.log())  # Chromium's own note of it


def test_nothing_that_a_program_says_is_markup(page):
    evil = "<img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script>"
    give(
        page,
        f"import os, sys\nprint({evil!r}); print({evil!r}, file=sys.stderr)\n"
        "os.chdir(os.environ['OUTPUT_DIR'])\n"
        f"open('<b>a.txt', 'w').write({evil!r})\n"
        "open('a.svg', 'w').write('<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"9\" height=\"9\">"
        "<script>top.document.title=1</script></svg>')",
    )
    assert page.wait(DONE) == "ok"
    assert page.text("#output").count(evil) == 2 and "<b>a.txt" in page.text("#details")
    page.wait("return document.querySelector('#details img')?.naturalWidth === 9")
    assert page.run("return document.title") == "sandbox-server"
    assert page.run("return document.querySelectorAll('#result script, #result b:not(.usage b)').length") == 0


def test_where_a_token_is_wanted_it_asks_for_one(start, chromium, tmp_path):
    file = TokenFile(tmp_path)
    token = file.token("page")
    s = start(mode="shell", SANDBOX_WARM="0", SANDBOX_TOKEN_FILE=file.path)
    chromium.open(s.url + "/")
    chromium.wait("return !document.getElementById('token-form').hidden")
    assert chromium.run("return document.activeElement.id") == "token"
    chromium.type(token)
    chromium.keys("Enter")
    chromium.wait("return document.querySelectorAll('#layers tr').length > 5")
    chromium.open(s.url + "/")  # the tab remembers
    chromium.wait("return document.querySelectorAll('#layers tr').length > 5")
    give(chromium, "echo 42", "shell")
    assert chromium.wait(DONE) == "ok" and chromium.text("#output") == "42\n"
    told = chromium.log()
    assert all("401" in line or "/sessions" in line for line in told), told  # which are off here


def focused(page):
    return page.run("return document.activeElement.id")


def test_the_keyboard_alone_will_do(page):
    page.run("document.activeElement.blur()")
    seen = []
    while "code" not in seen:
        page.keys("Tab")
        seen.append(focused(page))
        assert len(seen) < 12, seen
    assert "language" in seen and "sample" in seen
    page.keys("Control", "a")
    page.type("print(6*7)")
    page.keys("Control", "Enter")
    assert page.wait(DONE) == "ok" and page.text("#output") == "42\n"
    for wanted in ("run", "output"):
        for _ in range(8):
            page.keys("Tab")
            if focused(page) == wanted:
                break
        assert focused(page) == wanted
    assert page.run("return getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_everything_has_a_name(page):
    """As a screen reader asks for it: of each field and button, and of each region."""
    tree = page.command("Accessibility.getFullAXTree")["nodes"]
    roles = {"textbox", "combobox", "button", "spinbutton", "checkbox", "region", "log", "form"}
    named = [
        (n["role"]["value"], n.get("name", {}).get("value"))
        for n in tree
        if not n.get("ignored") and n["role"]["value"] in roles
    ]
    assert {"textbox", "combobox", "button", "log", "region"} <= {role for role, _ in named}
    assert all(name for _, name in named), named

# SPDX-License-Identifier: GPL-2.0-only
"""Chromium without a screen, as its own driver speaks: WebDriver, in a few lines."""

import base64
import http.client
import json
import os
import re
import shutil
import subprocess
import tempfile
import time

OPTIONS = (
    "headless=new no-sandbox disable-gpu disable-quic no-first-run disable-background-networking "
    "disable-component-update disable-sync disable-dev-shm-usage no-default-browser-check "
    "disable-default-apps disable-extensions force-color-profile=srgb"
)
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
KEYS = {"Tab": "\ue004", "Enter": "\ue007", "Escape": "\ue00c", "Control": "\ue009", "End": "\ue010", "Down": "\ue015"}


class Browser:
    """One window. with Browser() as b: b.open(url) ..."""

    def __enter__(self):
        self.place = tempfile.mkdtemp(prefix="sandbox-browser-")
        self.driver = subprocess.Popen(
            [shutil.which("chromedriver"), "--port=0"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={"PATH": os.environ["PATH"], "HOME": self.place, "LANG": "C.UTF-8"},
            text=True,
        )
        try:
            for line in self.driver.stdout:
                found = re.search(r"successfully on port (\d+)", line)
                if found:
                    self.port = int(found.group(1))
                    break
            args = [f"--{o}" for o in OPTIONS.split()] + [f"--user-data-dir={self.place}/user"]
            wanted = {"goog:chromeOptions": {"args": args}, "goog:loggingPrefs": {"browser": "ALL"}}
            self.base = ""
            made = self.ask("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
            self.base = f"/session/{made['sessionId']}"
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        try:
            if getattr(self, "base", None):
                self.ask("DELETE", "")
        finally:
            self.driver.terminate()
            self.driver.wait(10)
            self.driver.stdout.close()
            shutil.rmtree(self.place, ignore_errors=True)

    def ask(self, method, path, body=None):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            text = None if method == "GET" else json.dumps(body or {})
            c.request(method, self.base + path, text, {"Content-Type": "application/json"})
            r = c.getresponse()
            value = json.loads(r.read())["value"]
        finally:
            c.close()
        assert r.status == 200, value
        return value

    def open(self, url):
        self.ask("POST", "/url", {"url": url})

    def run(self, script, *args):
        """The value of a script's return statement."""
        return self.ask("POST", "/execute/sync", {"script": script, "args": list(args)})

    def wait(self, script, seconds=20):
        """Its value, as soon as it is true."""
        end = time.monotonic() + seconds
        while True:
            value = self.run(script)
            if value:
                return value
            assert time.monotonic() < end, f"never true: {script}\n{self.text()}\n{self.log()}"
            time.sleep(0.05)

    def text(self, selector="body"):
        return self.run("return document.querySelector(arguments[0]).innerText", selector)

    def keys(self, *names):
        """Presses these keys, those before the last one held: keys("Control", "Enter")."""
        values = [KEYS.get(n, n) for n in names]
        down = [{"type": "keyDown", "value": v} for v in values]
        up = [{"type": "keyUp", "value": v} for v in reversed(values)]
        self.ask("POST", "/actions", {"actions": [{"type": "key", "id": "keys", "actions": down + up}]})

    def type(self, text):
        acts = [{"type": kind, "value": c} for c in text for kind in ("keyDown", "keyUp")]
        self.ask("POST", "/actions", {"actions": [{"type": "key", "id": "keys", "actions": acts}]})

    def command(self, name, **params):
        """Of the protocol of Chromium's own tools."""
        return self.ask("POST", "/goog/cdp/execute", {"cmd": name, "params": params})

    def look(self, width, height, dark=False, mobile=False):
        self.command(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.command("Emulation.setEmulatedMedia", features=[scheme])

    def screenshot(self, path, whole=True):
        shot = self.command("Page.captureScreenshot", captureBeyondViewport=whole)
        with open(path, "wb") as f:
            f.write(base64.b64decode(shot["data"]))

    def log(self):
        """What it complained of: errors, and what the page's policy refused."""
        told = self.ask("POST", "/se/log", {"type": "browser"})
        return [e["message"] for e in told if e["level"] in ("WARNING", "SEVERE")]

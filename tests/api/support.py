# SPDX-License-Identifier: GPL-2.0-only
"""What tests of runs share: marks to find processes by, requests side by side, base64."""

import base64
import os
import secrets
import threading
import time


def b64(data):
    return base64.b64encode(data).decode()


def unpack(answer):
    """The produced files of an answer, as bytes."""
    return {k: base64.b64decode(v, validate=True) for k, v in answer["files_produced"].items()}


def skipped(answer):
    """What was left out of an answer: name to reason."""
    return {f["name"]: f["reason"] for f in answer["meta"].get("files_skipped", [])}


def new_mark():
    """A word that nothing else on this machine has; given as an argument it is found again."""
    return "mark" + secrets.token_hex(8)


def marked(mark):
    """Living processes with this word in their command line, whoever owns them."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                if mark.encode() in f.read().split(b"\0"):
                    found.append(int(pid))
        except OSError:
            pass  # it ended in between
    return found


class Later:
    """A request that is under way; result() waits for its answer."""

    def __init__(self, server, code, **fields):
        self.answer = self.seconds = self.error = None
        self.thread = threading.Thread(target=self._ask, args=(server, code, fields))
        self.thread.start()

    def _ask(self, server, code, fields):
        begin = time.monotonic()
        try:
            self.answer = server.execute(code, **fields)
        except BaseException as e:
            self.error = e
        self.seconds = time.monotonic() - begin

    def over(self):
        return not self.thread.is_alive()

    def result(self, seconds=120):
        self.thread.join(seconds)
        assert self.over(), f"no answer after {seconds} s"
        if self.error:
            raise self.error
        return self.answer


def timed(call):
    """(what it returned, seconds it took)"""
    begin = time.monotonic()
    value = call()
    return value, time.monotonic() - begin


def check_healthy(server, language="python"):
    """Still there, nothing running, and the next run is an ordinary one."""
    assert server.get("/healthz").status == 200
    code = {"python": "print(6*7)", "shell": "echo 42"}[language]
    r = server.execute(code, language=language)
    assert (r["stdout"], r["stderr"], r["exit_code"]) == ("42\n", "", 0)
    assert server.load() == 0

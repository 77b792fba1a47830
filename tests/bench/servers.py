# SPDX-License-Identifier: GPL-2.0-only
"""Servers that are measured, and the C program that measures."""

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time

START_SECONDS = 60
READY_SECONDS = 60
FULL_SECONDS = 1


def say(text):
    print(f"bench: {text}", file=sys.stderr, flush=True)


def show(text):
    """A line that the next one replaces, for who watches."""
    if sys.stderr.isatty():
        print(f"\r\033[Kbench: {text}", end="", file=sys.stderr, flush=True)


def clear():
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr, flush=True)


class Server:
    """A server of ours on a free port, and what it holds."""

    def __init__(self, binary, modes, state, **settings):
        env = {
            "PATH": os.environ["PATH"],
            "HOME": os.environ.get("HOME", "/"),
            "SANDBOX_PORT": "0",
            "SANDBOX_MODE": ",".join(modes),
            "SANDBOX_STATE_DIR": state,
            "SANDBOX_STORE_CODE": "never",
            "SANDBOX_WARM": "0",
            "SANDBOX_CPU_SEC": "60",  # what ends in time here ends by its deadline
            **settings,
        }
        self.log, self.port, self.level, self.modes = [], None, None, list(modes)
        self.process = subprocess.Popen(
            [binary, "serve"], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        self.heard = threading.Condition()
        threading.Thread(target=self._listen, daemon=True).start()
        found = self.wait_log(r"server\.listening.* port=(\d+).* isolation=(\w+)", START_SECONDS)
        if not found:
            self.stop()
            sys.exit("bench: the server did not start: " + "".join(self.log[-3:]))
        self.port, self.level = int(found.group(1)), found.group(2)

    def _listen(self):
        for line in self.process.stderr:
            with self.heard:
                self.log.append(line.decode(errors="replace"))
                del self.log[:-200]
                self.heard.notify_all()
        with self.heard:
            self.heard.notify_all()

    def wait_log(self, pattern, seconds):
        end = time.monotonic() + seconds
        with self.heard:
            while time.monotonic() < end:
                for line in self.log:
                    found = re.search(pattern, line)
                    if found:
                        return found
                if self.process.poll() is not None and not self.heard.wait(0.5):
                    return None
                self.heard.wait(0.5)
        return None

    def ask(self, method, path, body=None, seconds=60):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=seconds)
        try:
            head = {"Content-Type": "application/json"} if body is not None else {}
            c.request(method, path, body, head)
            answer = c.getresponse()
            return answer.status, answer.read()
        finally:
            c.close()

    def execute(self, **fields):
        status, body = self.ask("POST", "/execute", json.dumps(fields))
        answer = json.loads(body)
        if status != 200:
            sys.exit(f"bench: {status} {answer}")
        return answer

    def health(self):
        return json.loads(self.ask("GET", "/health")[1])

    def wait_warm(self, modes):
        """Until each mode has one that waits; False: that does not come about."""
        end = time.monotonic() + READY_SECONDS
        while time.monotonic() < end:
            ready = self.health().get("warm", {}).get("ready", {})
            if ready and all(ready.get(m, 0) for m in modes if m in ready):
                return True
            time.sleep(0.02)
        return False

    def wait_full(self):
        """Until no more come to wait: what makes them takes CPU from who is measured."""
        seen, since, end = None, time.monotonic(), time.monotonic() + READY_SECONDS
        while time.monotonic() < end and (seen is None or time.monotonic() - since < FULL_SECONDS):
            ready = self.health().get("warm", {}).get("ready", {})
            if ready != seen:
                seen, since = ready, time.monotonic()
            time.sleep(0.05)

    def _each(self, file):
        """What /proc has of all processes, in a file of this name."""
        pids = [self.process.pid]
        for pid in pids:
            try:
                with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
                    pids += [int(p) for p in f.read().split()]
                with open(f"/proc/{pid}/{file}", encoding="utf-8", errors="replace") as f:
                    yield f.read()
            except OSError:
                continue  # it ended in between

    def shared_kb(self):
        """Memory of all of them, what several have in common counted once."""
        return sum(int(kb) for text in self._each("smaps_rollup") for kb in re.findall(r"^Pss:\s+(\d+)", text, re.M))

    def processes(self):
        """name -> KiB of resident memory, of all of them."""
        found = {}
        for text in self._each("status"):
            name = re.search(r"Name:\s+(\S+)", text).group(1)
            rss = re.search(r"VmRSS:\s+(\d+)", text)
            found.setdefault(name, []).append(int(rss.group(1)) if rss else 0)
        return found

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)


class Drive:
    """The C program that measures; times and flights as it tells them."""

    def __init__(self, path):
        self.process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.times, self.setups, self.missed = {}, {}, {}

    def order(self, *words):
        try:
            print("\t".join(str(w) for w in words), file=self.process.stdin, flush=True)
        except OSError:
            sys.exit("bench: the measuring program ended early")

    def _listen(self, what):
        for line in self.process.stdout:
            kind, *words = line.rstrip("\n").split("\t")
            if kind == "time":
                self.times.setdefault(words[0], []).append(int(words[1]) / 1000)
            elif kind == "setup":
                self.setups.setdefault(words[0], []).append(int(words[1]))
            elif kind == "missed":
                self.missed[words[0]] = self.missed.get(words[0], 0) + 1
            elif kind == "round":
                show(f"{what}: {words[0]}/{words[1]}")
                if words[0] == words[1]:
                    clear()
                    return
        sys.exit("bench: the measuring program ended early")

    def rounds(self, names, count, skip, what):
        for name in names:
            self.times.pop(name, None)
            self.setups.pop(name, None)
        self.order("rounds", count, skip, *names)
        self._listen(what)

    def series(self, name, count, what):
        self.times.pop(name, None)
        self.order("series", name, count)
        self._listen(what)
        return self.times[name]

    def flight(self, name, at_once, ms):
        self.order("flight", name, at_once, ms)
        line = self.process.stdout.readline().rstrip("\n").split("\t")
        if line[:1] != ["flight"]:
            sys.exit("bench: the measuring program ended early")
        return float(line[3])

    def done(self):
        try:
            self.process.stdin.close()
        except OSError:
            pass  # it ended, which was said
        self.process.wait(60)

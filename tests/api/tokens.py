# SPDX-License-Identifier: GPL-2.0-only
"""Token files, as an operator makes them."""

import os
import signal

from probes import command
from raw import wait_for


class TokenFile:
    """A file of named tokens: token("ci", "rate=5/m") makes one and adds its line."""

    def __init__(self, directory):
        self.path = os.path.join(directory, "tokens")
        self.write([])

    def write(self, lines, mode=0o600):
        """All at once, as operators should: a new file takes the old one's place."""
        self.lines = lines
        new = self.path + ".new"
        with open(new, "w", encoding="ascii") as f:
            f.write("".join(line + "\n" for line in lines))
        os.chmod(new, mode)
        os.rename(new, self.path)

    def token(self, name, *limits):
        token, line = make(name, *limits)
        self.write([*self.lines, line])
        return token


def make(name, *limits):
    done = command("token", "new", name, *limits)
    assert done.returncode == 0 and done.stderr == "", done
    token, line = done.stdout.splitlines()
    return token, line


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


def reload(server):
    """SIGHUP, and the log line that tells what came of it."""
    before = len(server.lines)
    server.proc.send_signal(signal.SIGHUP)

    def told():
        return [x for x in server.lines[before:] if x and ("tokens.loaded" in x or "tokens.refused" in x)]

    return wait_for(told)[0]

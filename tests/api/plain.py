# SPDX-License-Identifier: GPL-2.0-only
"""Servers that a plain user started: no rights, no cgroup, one uid for all."""

import atexit
import os
import shutil
import tempfile

from conftest import BINARY, Server, open_to_all


class Plain(Server):
    """A running server."""

    plain = True
    uid, gid = 31337, 31338  # not the same number, which would hide whose is whose
    place = None

    def __init__(self, env, args=(), mode=None, state_dir=None, ready=True, nofile=None):
        own = state_dir is None
        state_dir = state_dir or tempfile.mkdtemp(prefix="sandbox-state-")
        Plain.give(env.get("SANDBOX_STATE_DIR", state_dir))
        try:
            super().__init__(env, args, mode, state_dir, ready, nofile)
        except BaseException:
            if own:
                shutil.rmtree(state_dir, ignore_errors=True)
            raise
        self.own_state = own

    @staticmethod
    def give(path):
        """All of it, and the way to it, once."""
        if os.stat(path).st_uid == Plain.uid:
            return
        for top, dirs, files in os.walk(path):
            for name in [".", *dirs, *files]:
                os.chown(f"{top}/{name}", Plain.uid, Plain.gid, follow_symlinks=False)
        open_to_all(os.path.dirname(path))

    def command_line(self, args, env):
        if not Plain.place:  # where every user may enter
            Plain.place = tempfile.mkdtemp(prefix="sandbox-bin-")
            atexit.register(shutil.rmtree, Plain.place, ignore_errors=True)
            os.chmod(Plain.place, 0o755)
            shutil.copy(BINARY, f"{Plain.place}/sandbox-server")
        user = [f"--reuid={Plain.uid}", f"--regid={Plain.gid}", "--clear-groups"]
        return ["setpriv", *user, f"{Plain.place}/sandbox-server", *args]

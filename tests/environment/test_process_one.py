# SPDX-License-Identifier: GPL-2.0-only
"""The server as process 1 of a container: what others leave there is its to take away."""

import os
import signal

from conftest import _children, wait_for


def test_what_a_dead_launcher_leaves_is_reaped(there, place):
    if place.container is None:
        return  # somebody else is process 1
    parts = there.parts()
    workers = _children(parts["launcher"])
    ours = len(_children(parts["supervisor"]))
    assert workers and ours == len(parts) - 1
    os.kill(parts["launcher"], signal.SIGKILL)
    wait_for(lambda: there.parts().get("launcher", parts["launcher"]) != parts["launcher"], 20)
    wait_for(lambda: there.get("/readyz").status == 200, 30)
    wait_for(lambda: not any(os.path.exists(f"/proc/{p}") for p in workers), 10)
    assert len(_children(parts["supervisor"])) == ours
    assert there.execute("print(6*7)")["stdout"] == "42\n"

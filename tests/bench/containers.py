# SPDX-License-Identifier: GPL-2.0-only
"""What a container for each run costs, with podman and an image of this host's own files."""

import os
import shutil
import statistics
import subprocess
import sys
import time

from servers import show

COUNT = 5

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "api"))

import engine  # noqa: E402


def docker(bench):
    if os.geteuid() != 0 or not shutil.which("podman") or "python" not in bench.modes:
        return  # the store is one of root's
    show("an image for podman")
    try:
        path = engine.path(bench.binary)
    except (OSError, subprocess.SubprocessError) as e:
        bench.missing["docker"] = f"podman has no image: {e}"[:120]
        return
    settings = {"SANDBOX_TYPE": "docker", "DOCKER_IMAGE": engine.IMAGE, "DOCKER_RUNTIME": "runc", "PATH": path}
    server = bench.start(["python"], **settings)
    took = []
    try:
        for i in range(COUNT):
            show(f"containers: {i + 1}/{COUNT}")
            begin = time.monotonic()
            answer = server.execute(code="print(1)")
            took.append((time.monotonic() - begin - answer["duration"]) * 1000)
    finally:
        server.stop()
    bench.m.probes["docker"] = statistics.median(took)

# SPDX-License-Identifier: GPL-2.0-only
"""Runs with a layer of packages, beside runs of a server that keeps a thousand of them."""

import hashlib
import json
import os
import shutil
import statistics
import subprocess

from servers import show

COUNT = 1000
ROUNDS, SKIP = 60, 4
FIELDS = {"code": "import layered; print(layered.number)", "language": "python", "requirements": ["layered"]}


def _settings(bench, state):
    return {
        "PATH": bench.true_dir + ":" + os.environ["PATH"],  # where its installer is
        "SANDBOX_PYTHON_INDEX": bench.true_dir,
        "SANDBOX_STATE_DIR": state,
        "SANDBOX_MAX_CONCURRENT": "4",
        "SANDBOX_WARM": "2",  # what finding a layer takes is more of a short run
    }


def _fill(bench, few, many):
    """The layer that `few` has made, and copies of it under other keys."""
    (layer,) = os.listdir(few + "/layers")
    for i in range(COUNT):
        name = hashlib.sha256(b"%d" % i).hexdigest() if i else layer
        shutil.copytree(f"{few}/layers/{layer}", f"{many}/layers/{name}", copy_function=os.link)
    for directory in (many, many + "/layers"):
        shutil.copymode(directory.replace(many, few), directory)
    known = subprocess.run(
        [bench.binary, "layers", "list"],
        env={**os.environ, "SANDBOX_STATE_DIR": many}, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    if len(known.splitlines()) != COUNT:
        raise SystemExit(f"bench: not {COUNT} layers: {known[:300]}")


def layers(bench):
    if "python" not in bench.programs or not bench.true:
        bench.missing["cached layers"] = "no python, or no directory that a sandbox can see"
        return
    shutil.copy(os.path.join(bench.build, "bench/uv"), bench.true_dir)
    states = {name: f"{bench.top}/layers-{name}" for name in ("few", "many")}
    servers = {}
    try:
        for name, state in states.items():
            show(f"cached layers: {name}")
            if name == "many":
                _fill(bench, states["few"], state)
            servers[name] = bench.start(["python"], **_settings(bench, state))
            answer = servers[name].execute(**FIELDS)
            if answer["stdout"] != "1\n" or not servers[name].wait_warm(["python"]):
                raise SystemExit(f"bench: no layer, or no sandbox waits: {answer}")
            bench.drive.order("http", f"layers {name}", '"warm":true', servers[name].port, json.dumps(FIELDS))
        bench.drive.rounds([f"layers {n}" for n in states], ROUNDS, SKIP, "cached layers")
        took = {n: statistics.median(bench.drive.times.pop(f"layers {n}")) for n in states}
    finally:
        for name, server in servers.items():
            bench.drive.order("end", f"layers {name}")
            bench.drive.setups.pop(f"layers {name}", None)
            bench.drive.missed.pop(f"layers {name}", None)
            server.stop()
        for state in states.values():
            shutil.rmtree(state, ignore_errors=True)
    bench.m.probes["layers"] = took["many"] / took["few"]

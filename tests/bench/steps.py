# SPDX-License-Identifier: GPL-2.0-only
"""What a sandbox itself is made of: its steps, its filters, go's compile cache."""

import os
import shutil
import statistics
import subprocess
import sys

from servers import Server, say, show

SEED_SECONDS = 600
RUNS = 100


def _seeds(cache):
    return [d.path for d in os.scandir(cache) if not d.name.endswith(".new")]


def _copy_seeds(source, target):
    for seed in _seeds(source):
        shutil.copytree(seed, os.path.join(target, os.path.basename(seed)), dirs_exist_ok=True)


def seed_go(bench):
    """The cache that tests fill too: without it every go run takes long."""
    kept, ours = os.path.join(bench.build, "go-state/go-cache"), bench.top + "/state/go-cache"
    for path in (kept, ours):
        os.makedirs(path, exist_ok=True)
    os.chmod(bench.top + "/state", 0o755)
    _copy_seeds(kept, ours)
    if not shutil.which("go") or _seeds(ours):
        return
    say("filling go's compile cache, once")
    server = bench.start(["golang"])
    done = server.wait_log(r"seed\.(done|none|directory)", SEED_SECONDS)
    server.stop()
    if not done or not done.group().endswith("done"):
        sys.exit("bench: go's compile cache was not filled")
    _copy_seeds(ours, kept)


def copy_go_cache(bench):
    """For go outside of a sandbox: as warm, and taken away afterwards."""
    copy = bench.top + "/go-build"
    for seed in _seeds(bench.top + "/state/go-cache")[-1:]:
        shutil.copytree(seed, copy)
    return copy


def measure(bench, test_binary):
    """step -> median microseconds of a cold run, from the variant that tells; and all of it."""
    server = Server(
        test_binary, ["shell"], bench.top + "/state", SANDBOX_TEST_FAULT="times", SANDBOX_MAX_CONCURRENT="2"
    )
    took, whole = {}, []
    try:
        for i in range(RUNS):
            show(f"steps of a sandbox: {i + 1}/{RUNS}")
            answer = server.execute(code=":", language="shell")
            told = [line.split() for line in answer["stderr"].splitlines()]
            for (name, begin), (_, end) in zip(told, told[1:]):
                took.setdefault(name, []).append((int(end) - int(begin)) / 1000)
            whole.append(answer["meta"]["usage"]["setup_us"])
    finally:
        server.stop()
    found = {name: statistics.median(v) for name, v in took.items()}
    total = statistics.median(whole)
    found["launcher, clone and execve"] = max(0.0, total - sum(found.values()))
    found["all of it (setup_us)"] = total
    return found


def filters(build):
    """The table of bench-filters, as it prints it."""
    show("filters")
    env = {**os.environ, "FILTER_ROUNDS": "60"}
    done = subprocess.run([build + "/bench/filters"], env=env, capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else f"bench-filters ended with {done.returncode}\n{done.stderr}"

# SPDX-License-Identifier: GPL-2.0-only
"""What a sandbox itself is made of: its steps, its filters, go's compile cache."""

import os
import shutil
import statistics
import subprocess

from servers import Server, say, show

SEED_SECONDS = 600
RUNS = 100


def share_go_cache(build, top):
    """The one that tests fill too: without it every go run takes long."""
    cache = os.path.join(build, "go-state/go-cache")
    os.makedirs(cache, exist_ok=True)
    os.makedirs(top + "/state", exist_ok=True)
    os.chmod(top + "/state", 0o755)
    os.symlink(os.path.realpath(cache), top + "/state/go-cache")


def _seeds(bench):
    cache = bench.top + "/state/go-cache/"
    return [cache + d for d in sorted(os.listdir(cache)) if not d.endswith(".new")]


def seed_go(bench):
    if not shutil.which("go") or _seeds(bench):
        return
    say("filling go's compile cache, once")
    server = bench.start(["golang"])
    if not server.wait_log(r"seed\.(done|none)", SEED_SECONDS):
        bench.missing["go"] = "its compile cache was not filled"
    server.stop()


def copy_go_cache(bench):
    """For go outside of a sandbox: as warm, and taken away afterwards."""
    copy = bench.top + "/go-build"
    seeds = _seeds(bench)
    if seeds:
        shutil.copytree(seeds[-1], copy)
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

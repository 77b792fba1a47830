# SPDX-License-Identifier: GPL-2.0-only
"""manifests.py against the real kustomize, on machines that have kubectl: elsewhere there is no such test."""

import glob
import os
import shutil
import subprocess
import sys

import pytest
import yaml

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from manifests import HERE, build  # noqa: E402

PLACES = sorted(os.path.dirname(p) for p in glob.glob(f"{HERE}/*/kustomization.yaml"))


def by_name(things):
    return sorted(things, key=lambda t: (t["kind"], t["metadata"]["name"]))


if shutil.which("kubectl"):

    @pytest.mark.parametrize("place", PLACES, ids=os.path.basename)
    def test_kustomize_makes_the_same(place):
        env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "KUBECONFIG": "/dev/null"}
        done = subprocess.run(["kubectl", "kustomize", place], env=env, capture_output=True, text=True, timeout=60,
                              check=False)  # fmt: skip
        assert done.returncode == 0, done.stderr
        made = [t for t in yaml.safe_load_all(done.stdout) if t]
        assert made and by_name(made) == by_name(build(place))

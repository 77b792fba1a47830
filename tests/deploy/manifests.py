# SPDX-License-Identifier: GPL-2.0-only
"""What kustomize makes of deploy/kubernetes, as far as that uses it; and the pods that come of it."""

import copy
import os

import yaml

HERE = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "deploy/kubernetes")
PODS = "template", "podTemplate"  # members of a spec


def patched(thing, operations):
    """JSON patches, of the kinds that the overlays have."""
    thing = copy.deepcopy(thing)
    for o in operations:
        *way, last = o["path"].strip("/").split("/")
        at = thing
        for step in way:
            at = at[int(step)] if isinstance(at, list) else at[step]
        if isinstance(at, list):
            assert o["op"] == "add" and last == "-", o
            at.append(o["value"])
        else:
            assert o["op"] in ("add", "replace") and (o["op"] == "add") == (last not in at), o
            at[last] = o["value"]
    return thing


def build(where):
    """Every object of a directory's kustomization."""
    with open(os.path.join(where, "kustomization.yaml"), encoding="utf-8") as f:
        plan = yaml.safe_load(f)
    assert set(plan) <= {"apiVersion", "kind", "resources", "patches"}, plan
    things = []
    for name in plan["resources"]:
        path = os.path.normpath(os.path.join(where, name))
        if os.path.isdir(path):
            assert not os.path.join(where, "").startswith(path + "/"), "kustomize takes no base around its overlay"
            things += build(path)
        else:
            with open(path, encoding="utf-8") as f:
                things += [t for t in yaml.safe_load_all(f) if t]
    for patch in plan.get("patches", []):
        used = [t["kind"] == patch["target"]["kind"] for t in things]
        assert any(used), patch
        operations = yaml.safe_load(patch["patch"])
        things = [patched(t, operations) if u else t for t, u in zip(things, used)]
    return things


def pods(things):
    """Every pod that they would make, as one."""
    for thing in things:
        for member in PODS:
            made = thing.get("spec", {}).get(member)
            if made:
                about = {**made["metadata"], "name": thing["metadata"]["name"]}
                yield {"apiVersion": "v1", "kind": "Pod", "metadata": about, "spec": made["spec"]}

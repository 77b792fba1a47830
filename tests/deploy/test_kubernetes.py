# SPDX-License-Identifier: GPL-2.0-only
"""deploy/kubernetes against the schemas of Kubernetes and of agent-sandbox, and the restricted standard.

The schemas are the real ones: Kubernetes' from the package kubernetes-validate, agent-sandbox's
definitions from its Go module, both fetched once into build.
"""

import copy
import glob
import json
import os
import re
import subprocess
import sys
import tomllib

import jsonschema
import pytest
import yaml

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(1, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "api"))
from manifests import HERE, build, pods  # noqa: E402
from packages import TOP, from_pypi  # noqa: E402

KUBERNETES = "v1.37.0-local-strict"
DEFINITIONS = "https://kubernetes.io/api/_definitions.json"  # as the schemas call it; it is a local file
AGENT_SANDBOX = "sigs.k8s.io/agent-sandbox@v0.5.6"
FLAVOURS = {"python": "python", "python-datascience": "python", "golang": "golang", "node": "node", "shell": "shell"}


@pytest.fixture(scope="module")
def core():
    """A validator of whole objects: core(object)."""
    place = from_pypi(os.path.join(TOP, "build/kubernetes"), "kubernetes-validate==1.37.0", options=["--no-deps"])
    where = os.path.join(place, "kubernetes_validate/kubernetes-json-schema", KUBERNETES)
    with open(os.path.join(where, "_definitions.json"), encoding="utf-8") as f:
        store = {DEFINITIONS: json.load(f)}

    def check(thing):
        group = thing["apiVersion"].split("/")[0].split(".")[0] + "-" if "/" in thing["apiVersion"] else ""
        name = f"{thing['kind']}-{group}{thing['apiVersion'].split('/')[-1]}.json".lower()
        with open(os.path.join(where, name), encoding="utf-8") as f:
            schema = json.load(f)
        resolver = jsonschema.RefResolver(DEFINITIONS.replace("_definitions.json", name), schema, store)
        jsonschema.Draft7Validator(schema, resolver=resolver).validate(thing)

    return check


def strict(schema):
    """A definition's schema as an API server applies it: what it does not name is not there."""
    if isinstance(schema, list):
        return [strict(s) for s in schema]
    if not isinstance(schema, dict):
        return schema
    out = {k: strict(v) for k, v in schema.items() if k != "format"}
    if isinstance(schema.get("properties"), dict) and not schema.get("x-kubernetes-preserve-unknown-fields"):
        out.setdefault("additionalProperties", False)
    if schema.get("x-kubernetes-int-or-string"):
        out.pop("type", None)
    return out


@pytest.fixture(scope="module")
def agent_sandbox():
    """Its source."""
    env = os.environ | {"GOFLAGS": "-mod=mod", "GO111MODULE": "on"}
    done = subprocess.run(
        ["go", "mod", "download", "-json", AGENT_SANDBOX],
        cwd="/", env=env, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        pytest.skip(f"{AGENT_SANDBOX} cannot be had: {done.stdout[-300:]}")
    return json.loads(done.stdout)["Dir"]


@pytest.fixture(scope="module")
def custom(agent_sandbox):
    """A validator as core() for what agent-sandbox defines."""
    kinds = {}
    for path in glob.glob(os.path.join(agent_sandbox, "k8s/crds/*.yaml")):
        with open(path, encoding="utf-8") as f:
            spec = yaml.safe_load(f)["spec"]
        for version in spec["versions"]:
            whole = strict(version["schema"]["openAPIV3Schema"])
            whole["properties"]["metadata"] = {"type": "object"}
            kinds[f"{spec['group']}/{version['name']}", spec["names"]["kind"]] = whole

    def check(thing):
        schema = kinds[thing["apiVersion"], thing["kind"]]
        jsonschema.Draft7Validator(schema).validate(thing)

    return check


PLACES = ["server", "server-full", "agent-sandbox", "agent-sandbox-full", "runtime-class"]
ALL = {place: build(os.path.join(HERE, place)) for place in PLACES}


def test_everything_is_used():
    known = {os.path.join(HERE, p, "kustomization.yaml") for p in PLACES}
    assert set(glob.glob(HERE + "/**/kustomization.yaml", recursive=True)) == known
    kinds = sorted(t["kind"] for t in ALL["server"])
    assert kinds == ["Deployment", "NetworkPolicy", "Service"]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("place", PLACES)
def test_schemas_take_them(place, core, custom):
    for thing in ALL[place]:
        (custom if "agents.x-k8s.io" in thing["apiVersion"] else core)(thing)
    for pod in pods(ALL[place]):
        core(pod)


@pytest.mark.timeout(300)
def test_schemas_would_refuse_a_wrong_one(core, custom):
    for check, thing, way in (
        (core, ALL["server"][0], ("spec", "template", "spec", "hostUser")),
        (core, ALL["server"][0], ("spec", "replica")),
        (custom, ALL["agent-sandbox"][0], ("spec", "podTemplates")),
        (custom, ALL["agent-sandbox"][0], ("spec", "podTemplate", "spec", "hostUser")),
    ):
        bad = copy.deepcopy(thing)
        at = bad
        for step in way[:-1]:
            at = at[step]
        at[way[-1]] = False
        with pytest.raises(jsonschema.ValidationError):
            check(bad)


def restricted(spec):
    """What the restricted standard finds wrong with a pod, control by control."""
    context = spec.get("securityContext", {})
    for field in ("hostNetwork", "hostPID", "hostIPC"):
        if spec.get(field):
            yield field
    for volume in spec.get("volumes", []):
        allowed = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected"}
        if set(volume) - {"name"} - (allowed | {"secret"}):
            yield f"volume {volume}"
    if set(context.get("sysctls", [])):
        yield "sysctls"
    for c in spec["containers"] + spec.get("initContainers", []):
        own = c.get("securityContext", {})
        seccomp = own.get("seccompProfile", context.get("seccompProfile", {})).get("type")
        caps = own.get("capabilities", {})
        rules = {
            "privileged": not own.get("privileged"),
            "allowPrivilegeEscalation": own.get("allowPrivilegeEscalation") is False,
            "runAsNonRoot": own.get("runAsNonRoot", context.get("runAsNonRoot")) is True,
            "runAsUser": own.get("runAsUser", context.get("runAsUser", 1)) != 0,
            "seccompProfile": seccomp in ("RuntimeDefault", "Localhost"),
            "capabilities": caps.get("drop") == ["ALL"] and set(caps.get("add", [])) <= {"NET_BIND_SERVICE"},
            "hostPort": not any(p.get("hostPort") for p in c.get("ports", [])),
            # with a user namespace of its own a pod may have it uncovered
            "procMount": own.get("procMount", "Default") == "Default" or spec.get("hostUsers") is False,
        }
        yield from (name for name, holds in rules.items() if not holds)


@pytest.mark.parametrize("place", PLACES[:4])
def test_pods_are_restricted_and_more(place):
    made = list(pods(ALL[place]))
    assert len(made) == (5 if "agent" in place else 1)
    for pod in made:
        spec = pod["spec"]
        assert list(restricted(spec)) == [], pod["metadata"]
        assert spec["automountServiceAccountToken"] is False
        (c,) = spec["containers"]
        assert c["securityContext"]["readOnlyRootFilesystem"] is True
        assert {p["containerPort"] for p in c["ports"]} == {8080, 8888}
        assert c["livenessProbe"]["httpGet"]["path"] == "/healthz"
        assert c["readinessProbe"]["httpGet"]["path"] == c["startupProbe"]["httpGet"]["path"] == "/readyz"
        assert {"memory", "cpu"} <= set(c["resources"]["limits"])
        env = {e["name"]: e["value"] for e in c["env"]}
        assert env["SANDBOX_AGENT_PORT"] == "8888"
        # calls at once wait: agent-sandbox's SDK does not try again what is 429
        assert env.get("SANDBOX_QUEUE") == ("64" if "agent" in place else None)
        full = place.endswith("full")
        assert env.get("SANDBOX_MIN_ISOLATION") == ("full" if full else None)
        assert (spec.get("hostUsers"), c["securityContext"].get("procMount")) == (
            (False, "Unmasked") if full else (None, None)
        )
        profile = spec["securityContext"]["seccompProfile"]
        assert profile["type"] == ("Localhost" if full else "RuntimeDefault")
        assert spec.get("runtimeClassName") == ("cgroup-writable" if full else None)
        notes = pod["metadata"].get("annotations", {})
        assert notes.get("io.kubernetes.cri-o.cgroup2-mount-hierarchy-rw") == ("true" if full else None)
        if full:
            assert os.path.exists(os.path.join(HERE, "seccomp", profile["localhostProfile"]))
            (runtime,) = [t for t in ALL[place] if t["kind"] == "RuntimeClass"]
            assert runtime["metadata"]["name"] == runtime["handler"] == spec["runtimeClassName"]


def test_each_flavour_has_template_pool_and_claim():
    by_kind = {}
    for thing in ALL["agent-sandbox"]:
        by_kind.setdefault(thing["kind"], {})[thing["metadata"]["name"]] = thing
    assert set(by_kind["SandboxTemplate"]) == set(by_kind["SandboxClaim"]) == set(FLAVOURS)
    for name, mode in FLAVOURS.items():
        template = by_kind["SandboxTemplate"][name]
        notes = template["metadata"]["annotations"]
        (c,) = template["spec"]["podTemplate"]["spec"]["containers"]
        assert notes["sandbox-server/mode"] == mode == {e["name"]: e["value"] for e in c["env"]}["SANDBOX_MODE"]
        assert notes["sandbox-server/runtime-version"] and "sandbox-server/packages" in notes
        pool = by_kind["SandboxWarmPool"][f"{name}-pool"]
        assert pool["spec"]["sandboxTemplateRef"] == {"name": name}
        assert pool["spec"]["updateStrategy"] == {"type": "Recreate"}
        assert by_kind["SandboxClaim"][name]["spec"]["warmPoolRef"] == {"name": f"{name}-pool"}
    replicas = {n: p["spec"]["replicas"] for n, p in by_kind["SandboxWarmPool"].items()}
    assert replicas["python-datascience-pool"] == 2 and replicas["golang-pool"] == 1


def test_service_and_policy_find_the_pods_and_no_sandbox():
    """Sandboxes of agent-sandbox may be in the same namespace."""
    deployment, service, policy = ALL["server"]
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    selectors = [
        deployment["spec"]["selector"]["matchLabels"],
        service["spec"]["selector"],
        policy["spec"]["podSelector"]["matchLabels"],
    ]
    sandboxes = [pod["metadata"]["labels"] for pod in pods(ALL["agent-sandbox"])]
    assert len(sandboxes) == 5
    for selector in selectors:
        assert selector.items() <= labels.items()
        assert not any(selector.items() <= sandbox.items() for sandbox in sandboxes)
    # what a client made is in one of the pods
    assert deployment["spec"]["replicas"] == 1 or service["spec"]["sessionAffinity"] == "ClientIP"
    assert {p["targetPort"] for p in service["spec"]["ports"]} == {"http", "agent"}
    assert policy["spec"]["egress"] == [] and "Egress" in policy["spec"]["policyTypes"]


def peer(found):
    """Who a peer of a policy is: (labels of its namespace or None for the policy's own, labels of the pod)."""
    assert set(found) <= {"namespaceSelector", "podSelector"} and found["podSelector"]["matchLabels"], found
    return found.get("namespaceSelector", {}).get("matchLabels"), found["podSelector"]["matchLabels"]


def test_who_may_talk_to_it():
    system = {"kubernetes.io/metadata.name": "agent-sandbox-system"}
    router, client = {"app": "sandbox-router"}, {"sandbox-client": "true"}
    for template in (t for t in ALL["agent-sandbox"] if t["kind"] == "SandboxTemplate"):
        (rule,) = template["spec"]["networkPolicy"]["ingress"]
        assert [peer(p) for p in rule["from"]] == [(system, router), (None, router), (None, client)]
        assert rule["ports"] == [{"port": 8080}, {"port": 8888}]
        assert template["spec"]["networkPolicy"]["egress"] == []
    deployment, _, policy = ALL["server"]
    clients, prometheus = policy["spec"]["ingress"]
    assert [peer(p) for p in clients["from"]] == [(None, client)]
    assert [peer(p) for p in prometheus["from"]] == [
        ({"kubernetes.io/metadata.name": "monitoring"}, {"app.kubernetes.io/name": "prometheus"})
    ]
    notes = deployment["spec"]["template"]["metadata"]["annotations"]
    assert prometheus["ports"] == [{"port": int(notes["prometheus.io/port"])}]
    assert notes["prometheus.io/path"] == "/metrics"


def test_the_router_is_where_agent_sandbox_expects_it(agent_sandbox):
    """As its own default policy says, which a template's replaces."""
    source = os.path.join(agent_sandbox, "extensions/controllers/sandboxtemplate_controller.go")
    with open(source, encoding="utf-8") as f:
        default = f.read().split("func buildDefaultNetworkPolicySpec", 1)[1].split("Egress:", 1)[0]
    assert re.findall(r'^\s+"([^"]+)": +"([^"]+)",$', default, re.M) == [
        ("kubernetes.io/metadata.name", "agent-sandbox-system"),
        ("app", "sandbox-router"),
    ]


# ---- what a pod has, and what its settings allow


BINARY = os.environ.get("SANDBOX_SERVER", os.path.join(TOP, "build/test/sandbox-server"))
SERVER_MB = 256  # supervisor, launcher and server: bodies and answers in memory among it
SLACK_SEC = 10  # the last six seconds of the server, and its launcher's cleaning up
SLACK_MB = 64


def settings(container):
    """The numbers in force in a pod, as `config` says them; of its mode, where that matters."""
    env = {e["name"]: e["value"] for e in container["env"]} | {"PATH": os.environ["PATH"], "HOME": "/"}
    done = subprocess.run([BINARY, "config"], env=env, capture_output=True, text=True, check=True, timeout=20)
    found = dict(re.findall(r"^(SANDBOX_[A-Z_]+)=(\d+) ", done.stdout, re.M))
    for name, usual, golang in re.findall(r"^(SANDBOX_[A-Z_]+) +\((\d+), golang (\d+)\)", done.stdout, re.M):
        found[name] = golang if env["SANDBOX_MODE"] == "golang" else usual
    return {name: int(value) for name, value in found.items()}


def megabytes(quantity):
    return int(quantity[:-2]) * {"Mi": 1, "Gi": 1024}[quantity[-2:]]


@pytest.mark.parametrize("place", PLACES[:4])
def test_what_the_settings_allow_fits_into_the_pod(place):
    for pod in pods(ALL[place]):
        (c,) = pod["spec"]["containers"]
        has, s = c["resources"]["limits"], settings(c)
        runs = s["SANDBOX_MAX_CONCURRENT"]
        memory = runs * s["SANDBOX_MEMORY_MB"] + s["SANDBOX_WARM_MEMORY_MB"] + SERVER_MB
        assert memory <= megabytes(has["memory"]), pod["metadata"]["name"]
        # on disk where there are no namespaces; one more is what agent-sandbox's requests keep
        kept = s["SANDBOX_LAYER_CACHE_MB"] + s["SANDBOX_ARTIFACT_MAX_MB"]
        volumes = {v["name"]: megabytes(v["emptyDir"]["sizeLimit"]) for v in pod["spec"]["volumes"]}
        assert (runs + 1) * s["SANDBOX_DISK_MB"] + kept + SLACK_MB <= volumes["state"], pod["metadata"]["name"]
        assert sum(volumes.values()) <= megabytes(has["ephemeral-storage"]), pod["metadata"]["name"]


@pytest.mark.parametrize("place", PLACES[:4])
def test_a_pod_serves_on_and_then_has_its_grace(place):
    for pod in pods(ALL[place]):
        (c,) = pod["spec"]["containers"]
        before = c["lifecycle"]["preStop"]["sleep"]["seconds"]
        assert before >= 5
        least = before + settings(c)["SANDBOX_GRACE_SEC"] + SLACK_SEC
        assert pod["spec"]["terminationGracePeriodSeconds"] >= least, pod["metadata"]["name"]


def test_nodes_have_the_runtime_that_pods_name():
    (runtime,) = ALL["runtime-class"]
    with open(os.path.join(HERE, "node/containerd.toml"), "rb") as f:
        found = tomllib.load(f)
    assert found["version"] == 3
    ((name, handler),) = found["plugins"]["io.containerd.cri.v1.runtime"]["containerd"]["runtimes"].items()
    assert name == runtime["handler"] and handler["cgroup_writable"] is True
    assert handler["options"] == {"SystemdCgroup": True}
    with open(os.path.join(HERE, "node/crio.conf"), "rb") as f:
        ((name, handler),) = tomllib.load(f)["crio"]["runtime"]["runtimes"].items()
    (pod,) = pods(ALL["server-full"])
    assert name == runtime["handler"] and set(handler["allowed_annotations"]) <= set(pod["metadata"]["annotations"])

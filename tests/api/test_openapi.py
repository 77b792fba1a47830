# SPDX-License-Identifier: GPL-2.0-only
"""GET /openapi.json: every example in it is sent, and every answer is held to it."""

import json
import os
import subprocess
import urllib.parse

import jsonschema
import pytest

from conftest import TOP, Server
from packages import from_pypi

METHODS = ("get", "put", "post", "delete", "patch", "options", "trace")
ROOT = os.geteuid() == 0
SCOPE = {"scope_type": "workflow", "scope_id": "run-7"}


@pytest.fixture(scope="module")
def served():
    s = Server({"SANDBOX_SESSIONS": "on" if ROOT else "off", "SANDBOX_WARM": "0"}, (), "python,shell")
    yield s
    s.stop()


@pytest.fixture(scope="module")
def doc(served):
    return served.get("/openapi.json").json


def deref(doc, value):
    while "$ref" in value:
        at = doc
        for name in value["$ref"].removeprefix("#/").split("/"):
            at = at[name]
        value = at
    return value


def operations(doc):
    return [
        (path, method, item[method])
        for path, item in doc["paths"].items()
        for method in METHODS
        if method in item
    ]


def fits(doc, schema, value):
    return jsonschema.Draft202012Validator({**schema, "components": doc["components"]}).is_valid(value)


def unnamed(doc, schema, value, where=""):
    """Members of an answer that its schema does not name: nobody would find them there."""
    schema = deref(doc, schema)
    if "anyOf" in schema:
        # it fits one of them; what it has must have a name in one that it fits
        return min((unnamed(doc, s, value, where) for s in schema["anyOf"] if fits(doc, s, value)), key=len)
    if isinstance(value, list):
        return [u for v in value for u in unnamed(doc, schema.get("items", {}), v, where + "[]")]
    if not isinstance(value, dict) or "properties" not in schema and not schema.get("additionalProperties"):
        return []
    found, more = [], schema.get("additionalProperties")
    for name, v in value.items():
        if name in schema.get("properties", {}):
            found += unnamed(doc, schema["properties"][name], v, f"{where}.{name}")
        elif more is True:
            continue
        elif isinstance(more, dict):
            found += unnamed(doc, more, v, f"{where}.{name}")
        else:
            found.append(f"{where}.{name}")
    return found


class Contract:
    """A document, and what its words make of an answer."""

    def __init__(self, doc):
        self.doc = doc

    def fits(self, schema, value):
        whole = {**schema, "components": self.doc["components"]}
        jsonschema.Draft202012Validator(whole).validate(value)
        assert not unnamed(self.doc, schema, value)

    def check(self, operation, reply, accept=None):
        """The answer is one that the operation has."""
        responses = operation["responses"]
        response = responses.get(str(reply.status), responses.get("default"))
        assert response, f"{operation['operationId']} says nothing of {reply.status}: {reply.body}"
        content = deref(self.doc, response).get("content")
        assert len(reply.headers["x-request-id"]) >= 8
        if not content:
            assert reply.body == b"", reply
            return
        kind = reply.headers["content-type"].split(";")[0]
        assert kind in content, (operation["operationId"], kind)
        if accept and reply.status == 200:
            assert kind == accept
        schema = content[kind]["schema"]
        if kind == "application/json":
            self.fits(schema, reply.json)
        elif kind == "application/x-ndjson":
            for line in reply.body.decode().splitlines():
                self.fits(schema, json.loads(line))
        elif kind == "text/event-stream":
            for event in reply.body.decode().removesuffix("\n\n").split("\n\n"):
                name, data = event.split("\n", 1)
                whole = {"event": name.removeprefix("event: "), "data": json.loads(data.removeprefix("data: "))}
                self.fits(schema, whole)


@pytest.fixture(scope="module")
def contract(doc):
    return Contract(doc)


def parameters(doc, path, operation):
    listed = doc["paths"][path].get("parameters", []) + operation.get("parameters", [])
    return [deref(doc, p) for p in listed]


def target(doc, path, operation, optional=False):
    """Path and headers with the examples in place; optional: of parameters that may be missing too."""
    query, headers = {}, {}
    for p in parameters(doc, path, operation):
        if p["in"] == "path":
            path = path.replace("{" + p["name"] + "}", p["example"])
        elif optional and "example" in p:
            where = query if p["in"] == "query" else headers
            where[p["name"]] = json.dumps(p["example"]) if isinstance(p["example"], bool) else p["example"]
    assert "{" not in path, "a parameter of the path has no example"
    return path + ("?" + urllib.parse.urlencode(query) if query else ""), headers


def bodies(operation):
    """(content type, bytes) of every example."""
    content = operation.get("requestBody", {}).get("content", {})
    for kind, media in content.items():
        values = [e["value"] for e in media.get("examples", {}).values()]
        values += [media["example"]] if "example" in media else []
        assert values, f"{operation['operationId']} has no example of {kind}"
        for value in values:
            if kind == "multipart/form-data":
                head = 'Content-Disposition: form-data; name="file"; filename="dir/b.txt"'
                form = f"--b\r\n{head}\r\n\r\n{value['file']}\r\n--b--\r\n"
                yield kind + "; boundary=b", form.encode(), value
            else:
                yield kind, value.encode() if isinstance(value, str) else json.dumps(value).encode(), value


def prepare(served, operation):
    """What the examples speak of is there."""
    if ROOT and "agent-sandbox" in operation["tags"]:
        made = served.post("/execute", {"command": "mkdir -p dir; echo 0123 > dir/a.txt"})
        assert made.status == 200 and made.json["exit_code"] == 0, made
    if not ROOT or not set(operation["tags"]) & {"sessions", "tools"}:
        return
    opened = served.post("/sessions", SCOPE).json
    for _, _, value in bodies(operation):
        named = value.get("path", ".") if isinstance(value, dict) else "."
        if named != ".":
            served.request("PUT", f"/sessions/{opened['session_id']}/files/{named}", b"text")
    r = served.request("PUT", f"/sessions/{opened['session_id']}/files/dir/a.txt", b"0123456789")
    assert r.status == 200, r
    if operation["operationId"] in ("restoreSession", "diffSession"):
        r = served.post(f"/sessions/{opened['session_id']}/checkpoints", {})
        assert r.status == 200, r


def fine(operation, reply):
    if ROOT or reply.status != 501:
        assert reply.status < 300, (operation["operationId"], reply)


def test_the_document_is_openapi(doc):
    # a process of its own: it wants other versions of what pytest has loaded
    place = from_pypi(os.path.join(TOP, "build/openapi"), "openapi-spec-validator")
    program = "import json, sys, openapi_spec_validator as v; v.validate(json.load(sys.stdin))"
    done = subprocess.run(
        ["/usr/bin/python3", "-c", program],
        input=json.dumps(doc),
        env=os.environ | {"PYTHONPATH": place},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert doc["openapi"].startswith("3.1.")


def test_it_is_one_constant(served):
    first = served.get("/openapi.json")
    assert first.headers["content-type"] == "application/json"
    assert first.headers["cache-control"] == "no-cache"
    tag = first.headers["etag"]
    again = served.get("/openapi.json")
    assert again.body == first.body and again.headers["etag"] == tag
    for known in (tag, f'"x", W/{tag}', "*"):
        r = served.request("GET", "/openapi.json", headers={"If-None-Match": known})
        assert r.status == 304 and r.body == b"" and r.headers["etag"] == tag
    assert served.request("GET", "/openapi.json", headers={"If-None-Match": '"x"'}).status == 200
    head = served.request("HEAD", "/openapi.json")
    assert head.headers["content-length"] == str(len(first.body)) and head.body == b""


def test_schemas_are_those_of_mcp(served, doc):
    listed = served.post("/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).json["result"]["tools"]
    assert len(listed) == (10 if ROOT else 3)
    for tool in listed:
        assert doc["components"]["schemas"][f"{tool['name']}.input"] == tool["inputSchema"]
        if "outputSchema" in tool:
            assert doc["components"]["schemas"][f"{tool['name']}.output"] == tool["outputSchema"]
        assert f"/tools/{tool['name']}" in doc["paths"]


def test_every_example_is_answered_as_it_says(served, doc, contract):
    sent = 0
    for path, method, operation in operations(doc):
        accepts = deref(doc, operation["responses"]["200"])["content"]
        for kind, body, value in list(bodies(operation)) or [(None, None, None)]:
            if kind == "application/json":
                contract.fits(operation["requestBody"]["content"][kind]["schema"], value)
            for accept in accepts:
                for optional in (False, True):
                    prepare(served, operation)
                    where, headers = target(doc, path, operation, optional)
                    if optional and not headers and "?" not in where:
                        continue
                    headers |= {"Accept": accept} | ({"Content-Type": kind} if kind else {})
                    r = served.request(method.upper(), where, body, headers)
                    fine(operation, r)
                    # a part is bytes, and a command of agent-sandbox is never streamed
                    same = r.status != 206 and not (isinstance(value, dict) and "command" in value)
                    contract.check(operation, r, accept if same else None)
                    sent += 1
    assert sent > 40


BAD = (b"", b"{", b"[]", b'{"code":5}', b'{"code":"x","language":"cobol"}', b'{"command":1}', b'{"path":"/etc/passwd"}')


def test_what_is_refused_is_refused_as_it_says(served, doc, contract):
    for path, method, operation in operations(doc):
        if "requestBody" not in operation:
            continue
        where, _ = target(doc, path, operation)
        prepare(served, operation)
        for body in BAD:
            r = served.request(method.upper(), where, body, {"Content-Type": "application/json"})
            contract.check(operation, r)
        if method == "post":
            r = served.request("POST", where, b"a=b", {"Content-Type": "application/x-www-form-urlencoded"})
            contract.check(operation, r)
    for path, method, operation in operations(doc):
        if "session_id" in path:
            where, _ = target(doc, path, operation)
            where = where.replace("workflow_run-7", "workflow_run-8")
            r = served.request(method.upper(), where, b"{}" if method in ("put", "post") else None)
            assert r.status == (404 if ROOT else 501), r
            contract.check(operation, r)


def test_methods_that_it_does_not_have_are_none(served, doc):
    for path, item in doc["paths"].items():
        where, _ = target(doc, path, next(item[m] for m in METHODS if m in item))
        for method in METHODS:
            # a file and a directory are one path to whoever routes them
            if method in item or where.endswith("/") and len(where) > 1:
                continue
            r = served.request(method.upper(), where, b"{}" if method in ("put", "post", "patch") else None)
            assert r.status in ((404, 405) if ROOT else (404, 405, 501)), (method, where, r)

# SPDX-License-Identifier: GPL-2.0-only
"""The rows of tests/unit/json.tests as bodies of requests: what is JSON is read, what is not is told so."""

import os
import re

import pytest

ROWS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "unit", "json.tests")


def decode(text):
    text = re.sub(r"%\((\d+)\)(.*?)%\)", lambda m: m[2] * int(m[1]), text)
    return re.sub(rb"%([0-9A-F]{2})", lambda m: bytes.fromhex(m[1].decode()), text.encode())


def rows():
    with open(ROWS, encoding="ascii") as f:
        for line in f:
            line = line.rstrip("\n")
            if line and not line.startswith("#"):
                kind, name, text = re.fullmatch(r"(.*?) \| (.*?) \| ?(.*)", line).groups()
                yield kind, name, decode(text)


@pytest.mark.parametrize("kinds", [("yes", "taken"), ("no", "refused"), ("strict",)], ids="-".join)
def test_every_case_gets_its_answer(server, kinds):
    tried = 0
    for kind, name, body in rows():
        kind, _, why = kind.partition(": ")
        if kind not in kinds:
            continue
        r = server.post("/execute", body)
        # none of them is a request that could be run: what is JSON is refused for another reason
        wanted = "invalid_json"
        if kind in ("yes", "taken"):
            wanted = "code_required" if body.startswith(b"{") else "bad_request"
        assert (r.status, r.json["code"]) == (400, wanted), f"{kind}, {name}: {r}"
        assert not why or r.json["error"] == f"invalid JSON: {why}", name
        tried += 1
    assert tried == {"yes": 97, "no": 218, "strict": 3}[kinds[0]]
    assert server.get("/healthz").status == 200

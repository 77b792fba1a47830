# SPDX-License-Identifier: GPL-2.0-only
"""Live output: before the end, the same as the plain answer, and only while somebody reads."""

import pytest
from conftest import post, wait_for
from support import marked, new_mark

KINDS = ["text/event-stream", "application/x-ndjson"]

# nothing of this differs between two runs
STEADY = ("status", "stdout", "stderr", "exit_code", "files_produced")


def steady(answer):
    meta = {k: v for k, v in answer["meta"].items() if k != "usage"}
    return {k: answer.get(k) for k in STEADY} | {"keys": list(answer), "meta": meta}


PROGRAMS = {
    "quiet": ("pass", {}),
    "both_streams": ("import sys\nprint('o')\nprint('e', file=sys.stderr)\nsys.exit(3)", {}),
    "files": ("open('output/x', 'w').write('y')", {}),
    "cut": ("import sys\nsys.stdout.write('€' * 9000)\nsys.stderr.write('e' * 10241)", {}),
    "not_utf8": ("import sys\nsys.stdout.buffer.write(b'a\\xff\\xe2\\x82')", {}),
    "timeout": ("import time\nprint('o', flush=True)\ntime.sleep(60)", {"timeout_seconds": 1}),
    "memory": ("x = []\nwhile True: x.append(bytearray(1 << 22))", {"limits": {"memory_mb": 48}}),
}


@pytest.mark.parametrize("accept", KINDS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_the_result_event_is_the_plain_answer(server, accept, program):
    code, fields = PROGRAMS[program]
    events = list(server.events(code, accept, language="python", **fields))
    plain = server.execute(code, language="python", **fields)
    assert [name for name, _ in events].count("result") == 1
    assert events[-1][0] == "result"
    result = events[-1][1]
    assert steady(result) == steady(plain)
    for stream in ("stdout", "stderr"):  # the pieces are the whole, marker and message too
        pieces = [data["text"] for name, data in events if name == stream]
        assert "".join(pieces) == result[stream]
        assert all(pieces)


@pytest.mark.parametrize("accept", KINDS)
def test_output_arrives_while_the_program_runs(server, accept):
    """It ends only by its deadline, so what comes before the result came live."""
    mark = new_mark()
    code = (
        "import sys, time\nprint('one', flush=True)\n"
        "print('two', file=sys.stderr, flush=True)\ntime.sleep(60)"
    )
    seen = {"stdout": "", "stderr": ""}
    fields = {"language": "python", "timeout_seconds": 3, "args": [mark]}
    for name, data in server.events(code, accept, **fields):
        if name == "result":
            break
        if data["text"] != "execution timed out after 3 seconds\n":
            assert len(marked(mark)) == 1  # alive
        seen[name] += data["text"]
    assert seen == {"stdout": "one\n", "stderr": "two\nexecution timed out after 3 seconds\n"}
    assert data["exit_code"] == -1
    assert marked(mark) == []


@pytest.mark.parametrize("accept", KINDS)
def test_the_head_comes_when_the_program_starts(server, accept):
    """It says nothing and ends only by its deadline: clients do not wait that long for a head."""
    mark = new_mark()
    body = {"code": "import time\ntime.sleep(60)", "timeout_seconds": 4, "args": [mark]}
    with server.raw(post({**body, "language": "python"}, headers=[f"Accept: {accept}"])) as c:
        head = c.reply(head_only=True)
        assert head.status == 200 and head.headers["content-type"] == accept
        assert c.got == b""  # no event yet
        wait_for(lambda: len(marked(mark)) == 1, 3)  # alive
        events = b"".join(c.chunks())
    assert b"execution timed out after 4 seconds" in events
    assert marked(mark) == []


@pytest.mark.parametrize("accept", KINDS + ["application/json"])
@pytest.mark.parametrize("how", ["close", "reset"])
def test_closing_the_connection_kills_the_run(server, accept, how):
    mark = new_mark()
    code = """
import os, time
if os.fork() == 0:
    os.setsid()
print("x", flush=True)
time.sleep(1000)
"""
    body = {"code": code, "language": "python", "timeout_seconds": 60, "args": [mark]}
    c = server.raw(post(body, headers=[f"Accept: {accept}"]))
    if accept in KINDS:
        assert c.reply(head_only=True).status == 200
    wait_for(lambda: len(marked(mark)) == 2)
    assert server.load() == 1
    getattr(c, how)()
    wait_for(lambda: not marked(mark), 5)
    wait_for(lambda: server.load() == 0, 5)


def test_a_character_is_never_split_between_events(server):
    code = (
        "import os, time\n"
        "for byte in 'é€😀\\n'.encode():\n    os.write(1, bytes([byte]))\n    time.sleep(0.02)"
    )
    events = list(server.events(code, language="python"))
    pieces = [data["text"] for name, data in events if name == "stdout"]
    assert "".join(pieces) == "é€😀\n" and len(pieces) > 1

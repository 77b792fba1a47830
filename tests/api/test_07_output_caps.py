# SPDX-License-Identifier: GPL-2.0-only
"""Output is cut at the cap: exactly there, between characters, and in bounded memory."""

import threading

import pytest
from conftest import SANITIZED, wait_for
from support import Later, check_healthy, timed

CAP = 10240
MARKER = "\n... (output truncated)"
KEPT = CAP - 32


def output(server, stream, char, count, before=b"", **fields):
    """What became of count times char on a stream, and meta.truncated."""
    code = (
        "import sys\n"
        f"f = sys.{stream}.buffer\nf.write({before!r} + {char!r}.encode() * {count})\nf.flush()"
    )
    r = server.execute(code, language="python", **fields)
    assert r["exit_code"] == 0 and r["meta"]["verdict"] == "ok"
    other = "stderr" if stream == "stdout" else "stdout"
    assert r[other] == ""
    return r[stream], r["meta"]["truncated"]


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
@pytest.mark.parametrize("count", [0, 1, KEPT, KEPT + 1, CAP - 1, CAP])
def test_10240_bytes_are_untouched(server, stream, count):
    assert output(server, stream, "x", count) == ("x" * count, False)


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
@pytest.mark.parametrize("count", [CAP + 1, CAP + 2, 3 * CAP, 1_000_000])
def test_10241_bytes_are_cut(server, stream, count):
    assert output(server, stream, "x", count) == ("x" * KEPT + MARKER, True)


@pytest.mark.parametrize("char", ["é", "€", "😀"])
@pytest.mark.parametrize("shift", [0, 1, 2, 3])
def test_no_character_is_split(server, char, shift):
    size = len(char.encode())
    text, truncated = output(server, "stdout", char, CAP // size + 1, b"a" * shift)
    whole = (KEPT - shift) // size
    assert truncated is True
    assert text == "a" * shift + char * whole + MARKER
    assert KEPT - size < len(text.encode()) - len(MARKER) <= KEPT


@pytest.mark.parametrize("char", ["é", "€", "😀"])
def test_10240_bytes_of_characters_are_untouched(server, char):
    size = len(char.encode())
    text, truncated = output(server, "stdout", char, CAP // size, b"a" * (CAP % size))
    assert (text, truncated) == ("a" * (CAP % size) + char * (CAP // size), False)


def test_a_cut_within_what_is_no_character(server):
    code = "import sys\nsys.stdout.buffer.write(b'\\xff' * 10241)"
    r = server.execute(code, language="python")
    assert r["stdout"] == "\ufffd" * KEPT + MARKER


def test_bytes_that_are_not_utf8_are_replaced(server):
    data = b"a\xffb\xc3(\xed\xa0\x80\x00\x1b[1m\xe2\x82"
    code = f"import sys\nsys.stdout.buffer.write({data!r})"
    r = server.execute(code, language="python")
    assert r["stdout"] == "a\ufffdb\ufffd(" + "\ufffd" * 3 + "\0\x1b[1m\ufffd"
    assert r["meta"]["truncated"] is False


def test_the_two_streams_are_cut_apart(server):
    code = "import sys\nsys.stdout.write('o' * 10240)\nsys.stderr.write('e' * 10241)"
    r = server.execute(code, language="python")
    assert r["stdout"] == "o" * CAP
    assert r["stderr"] == "e" * KEPT + MARKER
    assert r["meta"]["truncated"] is True


def test_the_program_is_not_ended_for_its_output(server):
    code = (
        "import sys\nfor _ in range(1000): sys.stdout.write('x' * 10000)\n"
        "open('output/end', 'w').write('reached')\nsys.exit(3)"
    )
    r = server.execute(code, language="python")
    assert r["exit_code"] == 3
    assert r["files_produced"] == {"end": "cmVhY2hlZA=="}
    assert r["stdout"] == "x" * KEPT + MARKER


@pytest.mark.parametrize("asked, given", [(1, 1), (20, 20), (1024, 1024), (5000, 1024)])
def test_a_request_may_ask_for_another_cap(server, asked, given):
    cap = given * 1024
    limits = {"max_output_kb": asked}
    assert output(server, "stdout", "x", cap, limits=limits) == ("x" * cap, False)
    wanted = "x" * (cap - 32) + MARKER
    assert output(server, "stdout", "x", cap + 1, limits=limits) == (wanted, True)
    r = server.execute("print(1)", language="python", limits=limits)
    assert r["meta"]["resource_limits"]["max_output_kb"] == given


def test_the_server_has_a_cap_and_a_ceiling(start):
    s = start(SANDBOX_MAX_OUTPUT_KB="1", SANDBOX_OUTPUT_CEILING_KB="2")
    assert output(s, "stdout", "x", 1025) == ("x" * 992 + MARKER, True)
    assert output(s, "stdout", "x", 2049, limits={"max_output_kb": 9}) == (
        "x" * 2016 + MARKER,
        True,
    )


class Watch:
    """The most memory the server had while this was on."""

    def __init__(self, server):
        self.server, self.most, self.stop = server, 0, threading.Event()
        self.thread = threading.Thread(target=self._look)

    def _look(self):
        while not self.stop.wait(0.02):
            self.most = max(self.most, self.server.rss_kb())

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *exc):
        self.stop.set()
        self.thread.join()
        assert self.most > 0 or SANITIZED


def test_100_mb_of_stdout_are_cut_in_bounded_memory(start):
    s = start()
    s.execute("print('x' * 20000)")
    before = s.rss_kb()
    code = "import os\nfor _ in range(1600): os.write(1, b'x' * 65536)\nos.write(2, b'through')"
    with Watch(s) as w:
        r = s.execute(code, timeout_seconds=120)
    assert (r["exit_code"], r["stderr"]) == (0, "through")  # all 104 857 600 were read
    assert r["stdout"] == "x" * KEPT + MARKER
    assert r["meta"]["truncated"] is True
    assert max(w.most, s.rss_kb()) - before < 16 * 1024


def test_floods_at_once_are_cut_in_bounded_memory_and_delay_nobody(start):
    s = start(SANDBOX_MAX_CONCURRENT="3")
    s.execute("print('x' * 20000)")
    before = s.rss_kb()
    code = "import os\nwhile True:\n    os.write(1, b'x' * 65536)\n    os.write(2, b'y' * 65536)"
    with Watch(s) as w:
        floods = [Later(s, code, timeout_seconds=3) for _ in range(2)]
        wait_for(lambda: s.load() == 2)
        r, seconds = timed(lambda: s.execute("print('control')"))
        assert not any(f.over() for f in floods)
        for f in floods:
            answer = f.result()
            assert answer["stdout"] == "x" * KEPT + MARKER
            last = "\nexecution timed out after 3 seconds\n"
            assert answer["stderr"] == "y" * KEPT + MARKER + last
            assert f.seconds < 4
    assert r["stdout"] == "control\n" and seconds < 3
    assert w.most - before < 16 * 1024
    check_healthy(s)

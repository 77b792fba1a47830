# SPDX-License-Identifier: GPL-2.0-only
"""Files and output of sessions: what counts, how lists end, what a killed write leaves, forms of answers."""

import base64
import concurrent.futures
import json
import os
import urllib.parse

import pytest

from conftest import wait_for
from raw import post
from test_sessions import Session, call, on

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="they have uids of their own here, for which root is needed")

MIB10 = 10 << 20


@pytest.fixture(scope="module")
def served(new_server):
    server = new_server({"SANDBOX_SESSIONS": "on", "SANDBOX_WARM": "0"}, mode="shell")
    yield server
    server.stop()


@pytest.fixture
def one(served, request):
    """A session of the test's own."""
    session = Session(served, request.node.name.split("[")[0][-100:])
    yield session
    session.close()


def limited(served, files):
    return Session(served, limits={"max_files": files})


def tool(server, name, status=200, **args):
    r = server.post(f"/tools/sandbox_{name}", args)
    assert r.status == status, r.body
    return r.json


def pages(one, path="", **options):
    """The names of a listing, page by page; it ends, or this does."""
    seen, sizes = [], []
    for _ in range(20):
        page = call(one.server, "GET", one.file(f"{path}?{urllib.parse.urlencode(options)}"))
        seen += [e["name"] for e in page["entries"]]
        sizes.append(len(page["entries"]))
        if "next" not in page:
            return seen, sizes
        options["cursor"] = page["next"]
    raise AssertionError(f"it does not end: {sizes}")


# ---- max_files: how many there are that sandbox_fs_write made


def test_files_that_are_gone_make_room(served):
    two = limited(served, 3)
    for n in "abc":
        assert two.write(f"d/{n}", b"x")[0] == 200
    assert two.write("d/e", b"x")[1]["code"] == "too_many_files"
    call(served, "DELETE", two.file("d?recursive=true"))
    for n in "fgh":
        assert two.write(n, b"x")[0] == 200
    assert two.write("i", b"x")[1]["code"] == "too_many_files"
    # by a command too, and by a rename; what a command makes does not count, nor does it make room
    two.out("rm f; mv g moved; touch own1 own2")
    assert two.write("f", b"x")[0] == two.write("own1", b"x")[0] == two.write("j", b"x")[0] == 200
    assert two.write("k", b"x")[1]["code"] == "too_many_files"
    for path in ("own1", "own2"):
        call(served, "DELETE", two.file(path))
    assert two.write("k", b"x")[1]["code"] == "too_many_files"
    # one that is there is said to be
    body = {"content": "", "overwrite": False}
    assert call(served, "PUT", two.file("f"), body, 409)["code"] == "file_exists"
    assert call(served, "PUT", two.file("k"), body, 409)["code"] == "too_many_files"
    fork = Session(served)
    fork.path = "/sessions/" + call(served, "POST", f"{two.path}/fork", {})["sessions"][0]["session_id"]
    assert fork.write("k", b"x")[1]["code"] == "too_many_files"
    assert fork.write("h", b"again")[0] == 200


def test_writes_at_once_are_not_more_than_one_after_the_other(served):
    two = limited(served, 5)
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        done = list(pool.map(lambda n: two.write(f"f{n}", b"x"), range(12)))
    made = sum(status == 200 for status, _ in done)
    assert 1 <= made <= 5 and {a["code"] for s, a in done if s != 200} == {"too_many_files"}
    more = [two.write(f"g{n}", b"x")[0] for n in range(6)]
    assert more == [200] * (5 - made) + [409] * (1 + made)
    assert two.out("ls | wc -l") == "5\n"


def test_they_count_after_the_end_of_everything(start, tmp_path):
    os.chmod(tmp_path, 0o755)
    s = on(start, state_dir=str(tmp_path))
    two = Session(s, "kept", limits={"max_files": 2})
    assert two.write("a", b"x")[0] == two.write("b%C3%A9%22%5C", b"x")[0] == 200
    s.kill()
    two.server = on(start, state_dir=str(tmp_path))
    assert two.write("c", b"x")[1]["code"] == "too_many_files"
    assert two.write("a", b"x")[0] == 200
    two.out("rm b*")
    assert two.write("c", b"x")[0] == 200
    assert two.write("d", b"x")[1]["code"] == "too_many_files"


# ---- lists


def test_names_that_are_no_text_have_an_end(one):
    one.out("mkdir d && cd d && for n in $(seq -w 1200); do echo > $'\\xff'$n; done; touch $'a\\nb' $'\\xc3\\xa9'")
    seen, sizes = pages(one, "d/")
    assert sizes == [1000, 202]
    assert seen == ["a\nb", "\u00e9"] + [f"\ufffd{n:04}" for n in range(1, 1201)]
    assert sorted(pages(one, recursive="true")[0]) == sorted(["d"] + [f"d/{n}" for n in seen])
    for cursor in ("x", "AA==", "%zz", "A" * 8000):
        r = one.server.request("GET", one.file(f"d/?cursor={cursor}"))
        assert r.status == 400 and "cursor" in r.json["error"], r
    assert tool(one.server, "fs_list", 400, session_id=one.opened["session_id"], cursor="x")["code"] == "bad_request"


def test_a_tree_is_listed_whole(one):
    one.out(
        "mkdir -p t/a/b t/a.b t/z && cd t && touch a/b/{1..700} a.b/{1..700} z/{1..700} a-b"
        " && ln -s .. a/up && ln -s /usr z/usr && mkfifo z/fifo && mkdir -m 0 shut"
    )
    # what is too deep to be named, and what goes away meanwhile, stops nothing
    one.out("cd t; for n in $(seq 60); do d=$(printf %0100d $n); mkdir $d && cd $d; done")
    one.out("cd t; (while mkdir -p going/on; do rmdir going/on going; done) >/dev/null 2>&1 & echo $! > ../pid")
    names, sizes = pages(one, "t/", recursive="true")
    one.exec("kill $(cat pid); rm pid; rm -rf t/going")
    names = [n for n in names if not n.startswith("going")]
    seen = "-mindepth 1 -path './0*' -prune -o -path './going*' -prune -o -mindepth 1 -printf '%P\\n'"
    real = one.out(f"cd t; find . {seen} 2>/dev/null | wc -l")
    assert sizes[:2] == [1000, 1000] and len(names) == len(set(names))
    assert names == sorted(names, key=str.encode)
    shallow = [n for n in names if not n.startswith("0")]
    assert len(shallow) == int(real) and {"a/b/1", "a-b", "a/up", "z/usr", "shut"} <= set(shallow)
    assert not any(n.startswith(("a/up/", "z/usr/")) for n in names)
    assert 30 < len(names) - len(shallow) < 41
    assert call(one.server, "GET", one.file("?recursive=yes"), status=400)["error"] == "recursive must be true or false"


def test_a_directory_that_is_swapped_for_a_link_is_not_left(one):
    one.out("mkdir -p s/real && touch s/real/mine")
    one.exec("cd s; while :; do mv real at; rm at/; mv at real; ln -s /usr at; rm at; done >/dev/null 2>&1 &")
    for _ in range(10):
        names = set(pages(one, "s/", recursive="true")[0])
        assert names <= {"real", "real/mine", "at", "at/mine"}, names


# ---- what a killed write leaves


def test_what_a_killed_write_left_stops_no_other_and_is_not_shown(one):
    one.write("d/f", b"old")
    one.out("cd d; for n in $(seq 0 600); do echo half > .sandbox-$n.partial; done")
    for n in range(3):
        assert one.write("d/f", b"%d" % n)[0] == one.write(f"d/new{n}", b"x")[0] == 200
        assert one.read("d/f") == (200, b"%d" % n)
    names = ["f", "new0", "new1", "new2"]
    assert [e["name"] for e in call(one.server, "GET", one.file("d/"))["entries"]] == names
    assert one.out("ls -A d").split() == names
    # nor does it keep a directory from being empty
    one.out("mkdir e; touch e/.sandbox-7.partial")
    assert pages(one, recursive="true")[0] == ["d"] + [f"d/{n}" for n in names] + ["e"]
    one.out("touch e/.sandbox-7.partial")
    assert call(one.server, "DELETE", one.file("e"))["deleted"]
    # one that is being written is nobody else's
    hold = "import fcntl,time; f=open('.sandbox-0.partial','w'); fcntl.flock(f,2); open('held','w'); time.sleep(1000)"
    one.exec(f'cd d; python3 -c "{hold}" >/dev/null 2>&1 &')
    wait_for(lambda: one.read("d/held")[0] == 200, 60)
    assert one.write("d/f", b"other")[0] == 200
    assert [e["name"] for e in call(one.server, "GET", one.file("d/"))["entries"]] == ["f", "held"] + names[1:]
    assert one.out("ls -A d").split()[0] == ".sandbox-0.partial"
    # and nobody may write one by that name
    assert one.write("d/.sandbox-1.partial", b"x")[1]["code"] == "blocked_path"


def test_a_write_is_seen_whole_or_not_at_all(one):
    one.write("f", b"a" * 100000)
    one.exec("while [ ! -e stop ]; do tr -d '\\n' < f | fold -w 1 | sort -u | wc -l; done > seen 2>&1 &")
    for n in range(8):
        one.write("f", bytes([ord("a") + n]) * 100000)
    one.write("stop", b"")
    wait_for(lambda: one.exec("pgrep -x fold")["exit_code"] == 1, 60)
    assert set(one.read("seen")[1].split()) <= {b"1"}


# ---- what is no file


def test_special_files_are_refused_at_once_and_left_alone(one):
    one.out("mkfifo fifo; ln -s /dev/zero zero")
    one.out("python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"sock\")'")
    one.exec("echo given > fifo &")
    for name in ("fifo", "sock", "zero"):
        status, answer = one.read(name)
        assert (status, json.loads(answer)["code"]) == (400, "not_a_file"), name
        assert tool(one.server, "fs_read", 400, session_id=one.opened["session_id"], path=name)["code"] == "not_a_file"
        assert call(one.server, "GET", one.file(name + "/"), status=400)["code"] == "not_a_directory"
        assert call(one.server, "DELETE", one.file(name + "/"), status=400)["code"] == "not_a_directory"
    # who waits for a reader still does
    assert one.out("timeout 50 cat fifo") == "given\n"
    kinds = {e["name"]: (e["type"], "size_bytes" in e) for e in call(one.server, "GET", one.file(""))["entries"]}
    assert kinds == {"fifo": ("fifo", False), "sock": ("socket", False), "zero": ("symlink", False)}
    for name in ("fifo", "sock", "zero"):
        assert one.write(name, b"now a file")[0] == 200
        assert one.read(name) == (200, b"now a file")


# ---- forms


def test_where_no_directory_can_be_made_is_not_the_sessions_own(one):
    for path in ("/usr/new", "/usr/new/file", "/usr/new/and/more/file"):
        status, answer = one.write(path, b"x")
        assert (status, answer["code"]) == (403, "blocked_path"), path
    one.out("ln -s nowhere dangling")
    status, answer = one.write("dangling/file", b"x")
    assert (status, answer["code"]) == (404, "no_such_file")


def test_text_that_is_cut_stays_text(one):
    text = "a\u00e9\u20ac\U0001f600"
    one.write("u", text.encode())
    for most in range(len(text.encode()) + 1):
        r = json.loads(one.server.get(one.file(f"u?max_bytes={most}"), Accept="application/json").body)
        fits = text.encode()[:most].decode(errors="ignore")
        assert (r["content"], r["encoding"], r["size_bytes"]) == (fits, "text", 10)
        assert r["truncated"] is (fits != text)
    one.write("bytes", b"ab\xff\xe2\x82")
    for most, content in ((2, "ab"), (3, None), (4, None), (5, None)):
        args = {"session_id": one.opened["session_id"], "path": "bytes", "max_bytes": most}
        r = tool(one.server, "fs_read", **args)
        if content is None:
            assert (r["encoding"], base64.b64decode(r["content"])) == ("base64", b"ab\xff\xe2\x82"[:most])
        else:
            assert (r["encoding"], r["content"]) == ("text", content)
    # one that only begins, at the end of a whole file, is no text
    one.write("half", b"ab\xe2\x82")
    assert tool(one.server, "fs_read", session_id=one.opened["session_id"], path="half")["encoding"] == "base64"


def test_a_slash_at_the_end_is_a_directorys(one):
    for status, answer in (one.write("x/", b"1"), one.write("x/y/", b"1")):
        assert (status, answer["code"]) == (400, "bad_path")
    me = {"session_id": one.opened["session_id"]}
    for name, more in (("fs_write", {"content": "x"}), ("fs_read", {})):
        assert tool(one.server, name, 400, path="x/", **more, **me)["code"] == "bad_path"
    assert pages(one)[0] == []
    one.write("f", b"x")
    assert call(one.server, "DELETE", one.file("f/"), status=400)["code"] == "not_a_directory"
    one.out("mkdir d")
    assert call(one.server, "DELETE", one.file("d/")) == {"deleted": True, "path": "/work/d"}


def test_the_ends_of_a_file(one):
    one.write("f", b"0123456789")
    for wanted, status, got in (
        ("bytes=-3", 206, b"789"), ("bytes=-30", 206, b"0123456789"), ("bytes=8-", 206, b"89"),
        ("bytes=8-30", 206, b"89"), ("bytes=-0", 416, None), ("bytes=10-", 416, None),
        (f"bytes={2**64 - 1}-", 416, None), ("bytes=3-2", 200, b"0123456789"), ("bytes=x", 200, b"0123456789"),
    ):
        r = one.server.get(one.file("f"), Range=wanted)
        assert r.status == status and (got is None or r.body == got), (wanted, r)
        if status == 206:
            first = 10 - len(got) if wanted.startswith("bytes=-") else 8
            assert r.headers["content-range"] == f"bytes {first}-9/10"


def test_ten_mebibytes_and_not_a_byte_more(one):
    assert one.write("big", b"x" * MIB10) == (200, {"path": "/work/big", "size_bytes": MIB10})
    assert one.read("big") == (200, b"x" * MIB10)
    for head in (f"Content-Length: {MIB10 + 1}\r\n\r\n", f"Transfer-Encoding: chunked\r\n\r\n{MIB10 + 1:x}\r\n"):
        with one.server.raw(f"PUT {one.file('big')} HTTP/1.1\r\nHost: localhost\r\n{head}".encode()) as c:
            r = c.reply()
        assert (r.status, r.json["code"]) == (413, "file_too_large"), r
    r = one.server.post("/execute", b"", {"Content-Length": str(MIB10 + 1)})
    assert (r.status, r.json["code"]) == (413, "body_too_large")
    # longer ones, which commands make, come in parts
    one.out("head -c 10485761 /dev/zero > big")
    assert json.loads(one.read("big")[1])["code"] == "file_too_large"
    assert one.read("big", Range="bytes=-1") == (206, b"\0")
    r = json.loads(one.server.get(one.file("big"), Accept="application/json").body)
    assert (r["size_bytes"], r["truncated"], len(r["content"])) == (MIB10 + 1, True, MIB10)


@pytest.mark.parametrize(
    "accept,form,raw",
    [
        ("*/*", "json", True),
        ("application/json, */*", "json", False),
        ("application/json;q=0.1, */*;q=0.9", "json", True),
        ("application/json;q=0, text/event-stream;q=0.1", "sse", True),
        ("application/json;q=0.5, text/event-stream", "sse", False),
        ("application/x-ndjson;q=0.1 , text/event-stream ;q=0.9", "sse", True),
        ("text/html, application/x-ndjson, */*;q=0.1", "ndjson", True),
        ("text/event-stream;q=0, application/x-ndjson;q=0.001", "ndjson", True),
    ],
)
def test_accept_chooses_the_form(shared_file, accept, form, raw):
    one = shared_file
    for path, more in ((f"{one.path}/exec", {}), ("/tools/sandbox_exec", {"session_id": one.opened["session_id"]})):
        r = one.server.post(path, {"command": "echo hi", **more}, {"Accept": accept})
        begin = {"json": b'{"exit_code":0', "sse": b"event: ", "ndjson": b'{"event":'}[form]
        assert r.status == 200 and r.body.startswith(begin), r
    assert (one.read("f", Accept=accept)[1] == b"text") is raw


@pytest.fixture(scope="module")
def shared_file(served):
    one = Session(served, "form")
    one.write("f", b"text")
    return one


def events(server, path, body, accept):
    """As they come: (name, data)."""
    with server.raw(post(body, path=path, headers=[f"Accept: {accept}"])) as c:
        assert c.reply(head_only=True).status == 200
        text, sse = b"", accept == "text/event-stream"
        for piece in c.chunks():
            text += piece
            while (end := b"\n\n" if sse else b"\n") in text:
                line, text = text.split(end, 1)
                if sse:
                    name, data = line.decode().split("\n", 1)
                    yield name.removeprefix("event: "), json.loads(data.removeprefix("data: "))
                else:
                    value = json.loads(line)
                    yield value["event"], value["data"]


@pytest.mark.parametrize("accept", ["text/event-stream", "application/x-ndjson"])
def test_output_of_a_command_comes_while_it_runs(one, accept):
    wait = "echo one; until [ -e go ]; do sleep 0.01; done; echo two >&2; rm go; exit 3"
    for path, more in ((f"{one.path}/exec", {}), ("/tools/sandbox_exec", {"session_id": one.opened["session_id"]})):
        got = events(one.server, path, {"command": wait, **more}, accept)
        assert next(got) == ("stdout", {"text": "one\n"})
        assert one.write("go", b"")[0] == 200
        assert next(got) == ("stderr", {"text": "two\n"})
        name, result = next(got)
        assert name == "result" and (result["exit_code"], result["stdout"], result["stderr"]) == (3, "one\n", "two\n")
        assert list(got) == []
    # what fails before it runs is a plain error
    r = one.server.post(f"{one.path}/exec", {"command": ["x"]}, {"Accept": accept})
    assert (r.status, r.json["error"]) == (400, "command must be a string")


# ---- scopes, and the rest of the contract


def test_the_end_of_a_scope_is_the_end_of_its_forks(served):
    one, other = Session(served, "ends"), Session(served, "stays")
    one.write("f", b"x")
    forks = call(served, "POST", f"{one.path}/fork", {"count": 3})["sessions"]
    assert all(set(f) == set(one.opened) and f["disk"]["limit_mb"] > 0 for f in forks), forks
    ids = [f["session_id"] for f in forks]
    (deeper,) = call(served, "POST", f"/sessions/{ids[0]}/fork", {})["sessions"]
    assert call(served, "GET", f"/sessions/{ids[1]}")["scope_id"] == "ends"
    # opening the scope finds its own, not a fork
    assert Session(served, "ends").opened["session_id"] == one.opened["session_id"]
    assert call(served, "DELETE", "/scopes/workflow/ends") == {"closed": 5}
    for gone in [*ids, deeper["session_id"], one.opened["session_id"]]:
        assert served.get(f"/sessions/{gone}").status == 404
    assert call(served, "DELETE", "/scopes/workflow/ends") == {"closed": 0}
    assert other.close()["closed"]
    # also when its first session is closed before
    one = Session(served, "ends")
    (fork,) = call(served, "POST", f"{one.path}/fork", {})["sessions"]
    one.close()
    assert served.get(f"/sessions/{fork['session_id']}").status == 200
    assert call(served, "DELETE", "/scopes/workflow/ends") == {"closed": 1}


@pytest.mark.parametrize(
    "method,path,allow",
    [
        ("PUT", "/sessions", "GET, HEAD, POST"),
        ("POST", "{}", "GET, HEAD, DELETE"),
        ("GET", "{}/exec", "POST"),
        ("GET", "{}/fork", "POST"),
        ("POST", "{}/diff", "GET, HEAD"),
        ("PATCH", "{}/files/f", "GET, HEAD, PUT, DELETE"),
        ("GET", "/scopes/workflow/x", "DELETE"),
    ],
)
def test_which_methods_work_is_said(shared_file, method, path, allow):
    r = shared_file.server.request(method, path.format(shared_file.path), b"" if method != "GET" else None)
    assert (r.status, r.headers["allow"]) == (405, allow), r


def test_what_is_no_number_or_no_json_is_named(served, shared_file):
    for limits, says in (
        ({"max_files": 0.5}, "limits.max_files must be a whole number"),
        ({"max_file_size_bytes": 1.5}, "limits.max_file_size_bytes must be a whole number"),
        ({"max_files": -1}, "limits.max_files must be above 0"),
        ({"timeout_seconds": "5"}, "limits.timeout_seconds must be a number"),
    ):
        assert tool(served, "open", 400, limits=limits)["error"] == says
    me = {"session_id": shared_file.opened["session_id"], "path": "f"}
    assert tool(served, "fs_read", 400, max_bytes=1.5, **me)["error"] == "max_bytes must be a whole number"
    # as of POST /execute, a body of another type is none
    r = served.request("POST", f"{shared_file.path}/exec", b'{"command":"id"}', {"Content-Type": "text/plain"})
    assert (r.status, r.json["code"]) == (415, "unsupported_media_type")


def test_words_that_are_too_many_together_are_the_clients_mistake(served):
    one = Session(served, env={f"A{n}": "x" * 130000 for n in range(8)})
    more = {f"B{n}": "x" * 130000 for n in range(8)}
    r = one.exec("echo ok #" + "y" * 120000, status=400, env=more)
    assert r["code"] == "bad_request" and "env" in r["error"]
    assert one.out("echo ok") == "ok\n"
    one.close()

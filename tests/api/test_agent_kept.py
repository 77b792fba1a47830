# SPDX-License-Identifier: GPL-2.0-only
"""agent-sandbox's runtime at level landlock: no session, but a directory that stays."""

import json
import os
import platform
import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor

import pytest

from conftest import TOP, wait_for
from packages import from_pypi
from probes import launcher_pid
from shared import Locked, nobody, runs_of
from support import marked, new_mark
from test_agent_sandbox import PROGRAM, path, run, upload
from tokens import TokenFile, bearer

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become somebody else"),
    pytest.mark.skipif(platform.machine() != "x86_64", reason="the filter is for x86-64"),
]


@pytest.fixture(scope="module")
def served():
    s = Locked("plain", "python,shell", SANDBOX_DISK_MB="16")
    yield s
    s.stop()


@pytest.fixture(autouse=True)
def empty(served):
    yield
    # whatever a test left; one that is full lets things be removed, too
    run(served, "rm -rf ./* ./.[!.]*")
    assert served.get("/list/.").json == []


@pytest.mark.timeout(420)
def test_its_own_client_works(served):
    place = from_pypi(os.path.join(TOP, "build/agent-sandbox"), "k8s-agent-sandbox")
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": place, "LANG": "C.UTF-8", "no_proxy": "*"}
    line = ["/usr/bin/python3", "-c", PROGRAM, served.url]
    done = subprocess.run(line, env=env, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    (said,) = json.loads(done.stdout)
    assert said == {
        "result": ["256\nfirst line", "oops\n", 3, False],
        "slow": ["before\n", True],
        "bytes": True,
        "list": [["dir", "directory", 0], ["text.txt", "file", 10]],
        "below": [["ä b.bin", 256, True]],
        "exists": [True, True, False, False],
        "missing": True,
    }


def test_files_go_from_call_to_call(served):
    assert upload(served, "/a//b.txt", b"x").json == {"message": "File 'a//b.txt' uploaded successfully."}
    assert upload(served, "/a/b.txt", b"xy").status == 200  # once more, over it
    r = run(served, "cat a/b.txt; stat -c %a a/b.txt; echo 1 > made; mkdir d", env={"A": "b"})
    assert (r["stdout"], r["exit_code"]) == ("xy644\n", 0), r
    assert r["meta"]["isolation"] == "landlock"
    assert served.get("/download/made").body == b"1\n"
    assert {(e["name"], e["type"]) for e in served.get("/list/.").json} == {
        ("a", "directory"), ("d", "directory"), ("made", "file")}
    assert served.get("/exists/made").json == {"path": "made", "exists": True}
    assert served.get("/exists/other").json["exists"] is False
    r = run(served, "pwd; cat b.txt", workdir="/work/a")
    assert r["stdout"].endswith("/a\nxy") and r["exit_code"] == 0
    assert run(served, "cat a/b.txt", stdin="", cmd=None)["stdout"] == "xy"


def test_more_files_can_be_uploaded_than_a_tool_may_write(served):
    done = {upload(served, f"many/{i}", b"x").status for i in range(105)}  # each a run: not at once
    assert done == {200}
    assert len(served.get("/list/many").json) == 105


def test_only_the_working_directory_stays(served):
    r = run(served, "echo 1 > $TMPDIR/x; echo 1 > ~/y; mkdir output; echo 1 > output/z; ls -A")
    assert r["stdout"] == "output\n"
    assert run(served, "cat $TMPDIR/x ~/y; cat output/z")["stdout"] == "1\n"


LOOK = """
import os, sys
where = sys.argv[1]
for what in (lambda: os.listdir(where), lambda: open(where + "/secret").read(),
             lambda: open(where + "/new", "w"), lambda: os.listdir(os.path.dirname(where)),
             lambda: os.unlink(where + "/secret"), lambda: os.rename(where + "/secret", "taken"),
             lambda: os.link(where + "/secret", "linked")):
    try:
        print("did", what())
    except OSError as e:
        print(e.errno)
"""


def test_no_other_run_reaches_it_though_it_knows_the_name(served):
    where = run(served, "echo 1 > secret; pwd")["stdout"].strip()
    assert os.path.basename(where).startswith("kept.") and len(os.path.basename(where)) == 37
    r = served.execute(LOOK, language="python", args=[where])
    assert len(r["stdout"].split()) == 7 and set(r["stdout"].split()) <= {"13", "18"}, r  # EACCES, EXDEV
    assert run(served, "ls -A; cat secret")["stdout"] == "secret\n1\n"
    # nor can it be found: what is above lists nothing to anybody
    r = run(served, "ls ..; ls ../..; mv ../kept.* x; rmdir $PWD")
    assert r["stdout"] == "" and r["exit_code"] != 0
    assert run(served, "ls -A")["stdout"] == "secret\n"


@pytest.fixture
def beside(served):
    """A file and its directory that modes open to everybody."""
    name = f"{served.state_dir}/beside"
    with open(name, "w", encoding="ascii") as f:
        f.write("root:beside")
    os.chmod(name, 0o666)
    os.chmod(served.state_dir, 0o777)
    yield name
    os.unlink(name)


def test_nothing_leads_out(served, beside):
    state = served.state_dir
    run(served, f"ln -s {beside} out; ln -s {state} up; ln -s /proc/self/environ environ; ln -s / top")
    for where in ("out", "up/beside", "environ", "top/proc/1/environ"):
        r = served.get("/download/" + path(where))
        assert r.status == 403 and r.json["code"] == "blocked_path", (where, r)
    for where in ("up", "top", "top/proc"):
        assert served.get("/list/" + path(where)).status == 403, where
    for where in ("up/made", "up/beside", "up/new/made", "top/tmp/made"):
        assert upload(served, where, b"x").status in (403, 404), where
    assert upload(served, "out", b"x").status == 200  # the link is replaced, not followed
    with open(beside, encoding="ascii") as f:
        assert f.read() == "root:beside"
    assert not os.path.exists(f"{state}/made") and not os.path.exists(f"{state}/new")


def test_paths_are_below_it(served):
    for where in ("../x", "a/../../x"):
        assert upload(served, where, b"x").status == 400
        assert served.get("/download/" + path(where)).status == 400
    for workdir in ("..", "/etc", "/workx"):
        r = served.post("/execute", {"command": "pwd", "workdir": workdir})
        assert r.status == 400 and r.json["code"] == "bad_path", (workdir, r)
    r = served.post("/execute", {"command": "pwd", "workdir": "nothing"})
    assert r.status == 400 and r.json["code"] == "bad_workdir", r


def test_a_timeout_ends_it_and_what_it_left_ends_with_it(served):
    mark = new_mark()
    r = run(served, f"echo before; exec -a {mark} sleep 60", timeout_seconds=1)
    assert (r["stdout"], r["timed_out"], r["meta"]["verdict"]) == ("before\n", True, "timeout")
    assert marked(mark) == []
    r = run(served, f"(exec -a {mark} setsid sleep 60) >/dev/null 2>&1 & echo over")
    assert r["stdout"] == "over\n" and marked(mark) == []


def test_commands_may_be_there_at_once_and_refused_calls_are_told(served):
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(run, served, "until [ -e go ]; do sleep 0.05; done; cat go", timeout_seconds=30)
        r = run(served, "echo 1 > made; chmod 600 made; mv made go")
        assert any("chmod" in v["syscall"] for v in r["meta"]["violations"]), r
        assert waiting.result()["stdout"] == "1\n"


def test_the_disk_limit_is_of_all_that_is_kept(served):
    fill = "for i in 1 2 3; do head -c 6M /dev/zero > $1.$i; done; sleep 5"
    assert run(served, "head -c 12M /dev/zero > a")["meta"]["verdict"] == "ok"
    r = run(served, f"set -- b; {fill}")
    assert r["meta"]["verdict"] == "disk_full", r
    # then nothing is written any more, but something can be removed
    r = upload(served, "c", b"x" * 100)
    assert r.status == 507 and r.json["code"] == "disk_full", r
    assert run(served, "echo 1 > d")["meta"]["verdict"] == "disk_full"
    assert run(served, "rm -f b.* d")["exit_code"] == 0
    assert upload(served, "c", b"x" * 100).status == 200
    assert served.get("/download/c").body == b"x" * 100


def test_a_closed_directory_closes_nothing_else(served):
    r = run(served, "echo 1 > mine; mkdir -m 300 closed; head -c 4M /dev/zero > closed/x; ls closed; mkdir -m 0 shut")
    assert r["exit_code"] == 0 and "Permission denied" in r["stderr"], r
    assert run(served, "cat mine; ls closed")["stdout"] == "1\nx\n"  # opened: what is in it counts
    assert run(served, "head -c 15M /dev/zero > rest; sleep 5")["meta"]["verdict"] == "disk_full"


DEEP = "import os\nfor i in range(200):\n    os.mkdir('d'); os.chdir('d')"
MUCH = """import os
for i in range(20):
    os.posix_fallocate(os.open(f"f{i}", os.O_CREAT | os.O_RDWR), 0, 15 << 20)
"""


def test_what_nobody_can_count_is_removed_and_said(served):
    r = run(served, f'python3 -c "{DEEP}"')
    if r["meta"]["verdict"] == "ok":  # it was quicker than who looks
        r = served.post("/execute", {"command": "true"})
        assert r.status == 507 and r.json["code"] == "disk_full" and "removed" in r.json["message"], r
    else:
        assert r["meta"]["verdict"] == "disk_full", r
    assert served.get("/list/.").json == []
    assert upload(served, "a", b"x").status == 200


def test_far_too_much_does_not_stay(served):
    upload(served, "fill.py", MUCH.encode())
    for end in ("", "; sleep 5"):  # looked at when it is over, and on the way
        r = run(served, f"python3 fill.py{end}")
        assert r["meta"]["verdict"] == "disk_full", r
        assert {e["name"] for e in served.get("/list/.").json} <= {"fill.py"}
        assert upload(served, "fill.py", MUCH.encode()).status == 200


def test_many_files_are_not_the_launchers_to_look_at():
    s = Locked("plain", "python,shell")

    def cost():
        before = s.cpu_seconds(launcher_pid(s))
        for command in ("true", "false", "sleep 1", "exit 3") * 2:
            assert run(s, command)["meta"]["verdict"] in ("ok", "nonzero_exit")
        return s.cpu_seconds(launcher_pid(s)) - before

    try:
        usual = cost()
        run(s, "python3 -c 'for i in range(40000): open(str(i), \"w\").close()'", timeout_seconds=60)
        # each look at all of them is a tenth of a second and more, for which all others would wait
        assert cost() < usual + 0.3
        assert run(s, "ls | wc -l")["stdout"] == "40000\n"
    finally:
        s.stop()


def test_sessions_themselves_are_as_before(served):
    for r in (served.post("/sessions", {}), served.get("/sessions"), served.get("/sessions/kept"),
              served.post("/tools/sandbox_exec", {"session_id": "kept", "command": "true"})):
        assert r.status == 501 and r.json["code"] == "sessions_unavailable", r


def test_nothing_is_left_of_it():
    s = Locked("plain", "shell")
    try:
        where = run(s, "mkdir -m 000 closed; echo 1 > x; pwd")["stdout"].strip()
        assert os.path.isfile(f"{where}/x")
        assert s.execute("echo fine")["stdout"] == "fine\n"
        state = s.state_dir
    finally:
        s.stop()
    assert not os.path.exists(where) and not os.path.exists(os.path.dirname(where)), state


def test_calls_at_once_wait_where_there_is_a_queue():
    s = Locked("plain", "shell", SANDBOX_MAX_CONCURRENT="2", SANDBOX_QUEUE="64")  # as in deploy/kubernetes
    try:
        with ThreadPoolExecutor(16) as pool:
            done = list(pool.map(lambda i: upload(s, f"f{i}", b"x").status, range(32)))
        assert set(done) == {200}, done
        assert len(s.get("/list/.").json) == 32
    finally:
        s.stop()


def test_where_slots_have_uids_of_their_own_there_is_none():
    s = Locked("root", "shell")
    try:
        for r in (s.post("/execute", {"command": "true"}), s.get("/list/."), upload(s, "a", b"x")):
            assert r.status == 501 and r.json["code"] == "sessions_unavailable" and r.json["message"], r
        wait_for(lambda: runs_of(s) == [], 20)
    finally:
        s.stop()


def test_it_is_one_tokens():
    file = TokenFile(tempfile.mkdtemp(prefix="sandbox-tokens-"))
    one, other = bearer(file.token("one")), bearer(file.token("other"))
    os.chown(file.path, nobody(), nobody())
    os.chown(os.path.dirname(file.path), nobody(), nobody())
    s = Locked("plain", "shell", SANDBOX_TOKEN_FILE=file.path)
    try:
        assert s.post("/execute", {"command": "echo 1 > x"}, one).status == 200
        for r in (s.post("/execute", {"command": "cat x"}, other), s.request("GET", "/download/x", headers=other)):
            assert r.status == 501 and r.json["code"] == "sessions_unavailable", r
        assert s.request("GET", "/download/x", headers=one).body == b"1\n"
    finally:
        s.stop()
        shutil.rmtree(os.path.dirname(file.path))

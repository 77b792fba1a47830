# SPDX-License-Identifier: GPL-2.0-only
"""What a session's root is made of: an image, its own layer, volumes."""

import os
import shutil
import subprocess

import pytest

from conftest import open_to_all, wait_for
from test_sessions import Session, call, on

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="they have uids of their own here, for which root is needed")


def make_image(state_dir, name, **files):
    """A root of busybox alone, as it lies in the store."""
    root = f"{state_dir}/images/{name}/rootfs"
    os.makedirs(f"{root}/bin")
    os.makedirs(f"{root}/etc")
    shutil.copy(shutil.which("busybox"), f"{root}/bin/busybox")
    for tool in "sh ls cat echo mkdir rm touch id ln stat mount sleep".split():
        os.symlink("busybox", f"{root}/bin/{tool}")
    with open(f"{root}/etc/release", "w", encoding="ascii") as f:
        f.write("small\n")
    for path, target in files.items():
        os.symlink(target, f"{root}/{path}")
    with open(f"{state_dir}/images/{name}/image.json", "w", encoding="ascii") as f:
        f.write('{"env":["PATH=/bin:/opt/x","FROM_IMAGE=yes"],"source":"directory"}')
    return root


@pytest.fixture(scope="module")
def served(new_server, tmp_path_factory):
    state = str(tmp_path_factory.mktemp("state"))
    open_to_all(state)
    root = make_image(state, "small")
    make_image(state, "hostile", proc="/", dev="/etc", work="/usr", tmp="../..")
    volumes = str(tmp_path_factory.mktemp("volumes"))
    os.chmod(volumes, 0o755)
    data, shared = f"{volumes}/data", f"{volumes}/shared"
    os.mkdir(data)
    with open(f"{data}/table", "w", encoding="ascii") as f:
        f.write("1 2 3\n")
    os.mkdir(shared)
    os.chmod(shared, 0o777)
    server = new_server(
        {
            "SANDBOX_SESSIONS": "on",
            "SANDBOX_WARM": "0",
            "SANDBOX_STATE_DIR": state,
            "SANDBOX_VOLUMES": f"data={data}, shared={shared}:rw",
        },
        mode="shell",
    )
    server.state_dir = state
    server.image_root, server.shared = root, shared
    yield server
    server.stop()


def test_an_image_is_the_root(served):
    one = Session(served, image="small")
    assert one.opened["image"] == "small"
    # sh where there is no bash, the variables of the image, nothing of the host
    assert one.out("cat /etc/release; echo $PATH $FROM_IMAGE; ls /") == (
        "small\n/bin:/opt/x yes\nbin\ndev\netc\nnode_modules\npackages\nproc\nrun\ntmp\nvar\nwork\n"
    ).replace("dev\netc\n", "dev\netc\ngo-cache\n")
    assert one.exec("ls /usr")["exit_code"] != 0
    assert one.out("echo $FROM_IMAGE", env={"FROM_IMAGE": "call"}) == "call\n"
    # files too, without a library of ours
    assert one.write("a/b", b"text") == (200, {"path": "/work/a/b", "size_bytes": 4})
    assert one.read("a/b") == (200, b"text")
    names = [e["name"] for e in call(served, "GET", one.file("/etc/"))["entries"]]
    assert "release" in names
    # an ordinary user: nothing of the image is his, unless one user has all; nothing of it changes
    spoiled = one.exec("echo x > /etc/release; rm /bin/ls")
    assert (spoiled["exit_code"] == 0) == served.plain
    assert ("Permission denied" in spoiled["stderr"]) != served.plain
    assert sorted(os.listdir(served.image_root)) == ["bin", "etc"]
    assert "ls" in os.listdir(f"{served.image_root}/bin")
    with open(f"{served.image_root}/etc/release", encoding="ascii") as f:
        assert f.read() == "small\n"
    one.close()


def test_links_in_an_image_lead_nowhere(served):
    before = sorted(os.listdir("/usr"))
    answer = call(served, "POST", "/sessions", {"image": "hostile"}, 500)
    assert answer["code"] == "sandbox_setup_failed" and '"session_mounts"' in answer["error"]
    assert sorted(os.listdir("/usr")) == before
    assert call(served, "GET", "/sessions")["sessions"] == []
    assert Session(served).close()["closed"] is True


def test_read_only_leaves_work_and_tmp(served):
    one = Session(served, read_only=True, image="small")
    r = one.exec("touch /work/a /tmp/b /dev/shm/c && echo fine; touch /etc/x /bin/x /run/x /x")
    assert r["stdout"] == "fine\n" and r["stderr"].count("Read-only file system") == 4, r
    assert one.write("/etc/x", b"x")[1]["code"] == "blocked_path"
    one.close()


def test_volumes_are_there_as_the_operator_said(served):
    one = Session(served, volumes=["data", "shared"])
    assert one.out("cat /volumes/data/table; echo kept > /volumes/shared/f; ls /volumes") == (
        "1 2 3\ndata\nshared\n"
    )
    assert "Read-only file system" in one.exec("touch /volumes/data/x")["stderr"]
    with open(f"{served.shared}/f", encoding="ascii") as f:
        assert f.read() == "kept\n"
    one.close()
    none = Session(served)
    assert none.exec("ls /volumes")["exit_code"] != 0
    none.close()
    answer = call(served, "POST", "/sessions", {"volumes": ["data", "other"]}, 400)
    assert answer["code"] == "no_such_volume" and "'other'" in answer["error"]
    assert call(served, "POST", "/sessions", {"volumes": [1]}, 400)["code"] == "bad_request"


def test_a_volume_that_is_taken_back_costs_no_file(start, tmp_path):
    os.chmod(tmp_path, 0o755)
    state, data = str(tmp_path / "state"), str(tmp_path / "data")
    os.mkdir(state, 0o755)
    os.mkdir(data)
    s = on(start, state_dir=state, SANDBOX_VOLUMES=f"data={data}")
    Session(s, "v", volumes=["data"]).out("echo kept > a")
    s.kill()
    s = on(start, state_dir=state)
    path = "/sessions/workflow_v_sandbox"
    for asked, body in (("exec", {"command": "true"}), ("fork", {}), ("checkpoints", {})):
        answer = call(s, "POST", f"{path}/{asked}", body, 409)
        assert answer["code"] == "no_such_volume" and "SANDBOX_VOLUMES" in answer["error"], answer
    assert call(s, "GET", f"{path}/diff", status=409)["code"] == "no_such_volume"
    # by when another one's layer is gone it has been swept
    Session(s, "w").close()
    wait_for(lambda: len(os.listdir(f"{state}/sessions/layers")) == 1, 60)
    s.kill()
    s = on(start, state_dir=state, SANDBOX_VOLUMES=f"data={data}")
    again = Session(s, "v", volumes=["data"])
    assert not again.opened["created"] and again.out("cat a; ls /volumes") == "kept\ndata\n"


def test_an_image_that_is_added_is_there_at_once_and_none_in_use_is_removed(served):
    def image(*words):
        env = {**os.environ, "SANDBOX_STATE_DIR": served.state_dir}
        line = served.command_line(["image", *words], {})
        run = subprocess.run(line, env=env, capture_output=True, text=True, timeout=60)
        return run.returncode, run.stdout + run.stderr

    assert image("add", "added:1", served.image_root)[0] == 0
    wait_for(lambda: "added:1" in served.post("/sessions", {"image": "none"}).json["error"])
    one = Session(served, image="added:1")
    assert one.out("cat /etc/release") == "small\n"
    status, said = image("remove", "added:1")
    assert status == 1 and "added:1" in said, said
    one.close()
    wait_for(lambda: image("remove", "added:1")[0] == 0)
    wait_for(lambda: served.post("/sessions", {"image": "added:1"}).status == 400)


def test_what_image_there_is_not_is_said_with_those_there_are(served):
    answer = call(served, "POST", "/sessions", {"image": "golang:1.22"}, 400)
    assert answer["code"] == "image_not_found"
    assert "small" in answer["error"] and "host" in answer["error"]
    for name in ("../small", "small/../small", "", "a" * 300, "/etc"):
        assert call(served, "POST", "/sessions", {"image": name}, 400)["code"] == "image_not_found"
    for shortcut in ("linux", "python", "node", "go", "bash", "shell"):
        one = Session(served, image=shortcut)
        assert one.opened["image"] == "host"
        one.close()
    assert call(served, "GET", "/sessions")["sessions"] == []

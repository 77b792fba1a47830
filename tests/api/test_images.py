# SPDX-License-Identifier: GPL-2.0-only
"""sandbox-server image: what is added is whole, appears at once and goes at once."""

import contextlib
import fcntl
import gzip
import http.server
import json
import os
import re
import shutil
import signal
import subprocess
import tarfile
import threading

import pytest

import archives
from archives import docker_save, entry, hardlink, oci_archive, oci_files, symlink, tar
from conftest import SANITIZED, wait_for
from image_store import FIRST, SECOND, UNPACKED, mode, store, tree  # noqa: F401
from probes import as_user, binary_for_all, clean_env, path_of, plain_user

ROOT = os.geteuid() == 0
UID_BASE = 600000
confined = pytest.mark.skipif(SANITIZED, reason="a sanitized process is not confined")

# ---- what is added


def test_layers_of_docker_save_lie_on_each_other(store):
    root = store.add("team/x:1", docker_save([FIRST, SECOND]))
    assert tree(root) == UNPACKED
    assert os.stat(f"{root}/bin/tool").st_ino == os.stat(f"{root}/bin/same").st_ino
    assert (mode(f"{root}/bin/tool"), mode(f"{root}/etc/shadow")) == (0o755, 0o644)
    assert mode(f"{root}/tmp") == 0o1777
    assert os.stat(f"{root}/etc/both").st_mtime == archives.TIME
    assert "left out: 2 devices" in store.said
    assert "set-id bits or capabilities of 1 file" in store.said
    assert "made readable for everybody: 2 files" in store.said
    listed = json.loads(store.run("list", "--json").stdout)
    assert [(i["name"], i["source"], i["architecture"], i["env"]) for i in listed] == [
        ("team/x:1", "docker-archive", archives.ARCHITECTURE, ["PATH=/bin", "A=b=c"])
    ]
    with open(os.path.join(root, "../owners"), encoding="ascii") as f:
        assert "12 34 4750 bin/tool" in f.read().split("\0")
    shown = store.run("list").stdout
    assert re.search(r"^NAME +SIZE +ADDED +SOURCE\n(?m:team/x:1 +0\.0 MB +20\S+Z  docker-archive)$", shown)
    owner = UID_BASE - 2 if ROOT else os.geteuid()
    assert {os.lstat(f"{root}/{p}").st_uid for p in UNPACKED} == {owner}


def test_every_form_of_one_image_is_the_same_image(store):
    layout = f"{store.top}/layout"
    for info, data in oci_files([FIRST, SECOND]):
        path = f"{layout}/{info.name}"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as f:
            f.write(data)
    saved = docker_save([FIRST, SECOND])
    forms = {
        "oci": store.write(oci_archive([FIRST, SECOND]), "oci.tar"),
        "layout": layout,
        "docker": store.write(saved, "docker.tar"),
        "gz": store.write(gzip.compress(saved), "docker.tar.gz"),
        "members": store.write(gzip.compress(saved[:1000]) + gzip.compress(saved[1000:], 1), "two.gz"),
    }
    for name, path in forms.items():
        done = store.run("add", name, path)
        assert done.returncode == 0, done
        assert tree(store.root(name)) == UNPACKED
    for name in ("docker", "gz"):
        with open(forms[name], "rb") as f:
            assert store.run("add", "piped" + name, "-", stdin=f.read()).returncode == 0
        assert tree(store.root("piped" + name)) == UNPACKED
    # and the files themselves, as a tar and as a directory
    files = f"{store.top}/files"
    shutil.copytree(store.root("docker"), files, symlinks=True)
    assert store.run("add", "directory", files).returncode == 0
    subprocess.run(["tar", "-C", files, "-cf", f"{store.top}/files.tar", "."], check=True)
    assert store.run("add", "tar", f"{store.top}/files.tar").returncode == 0
    assert tree(store.root("directory")) == tree(store.root("tar")) == UNPACKED


def test_what_runs_in_an_image_is_there_to_run(store):
    """busybox, as a program of an image that is only files."""
    with open(shutil.which("busybox"), "rb") as f:
        data = f.read()
    layer = tar(entry("bin/busybox", data, mode=0o700), symlink("bin/sh", "busybox"))
    root = store.add("busybox", oci_archive([layer]))
    done = subprocess.run([f"{root}/bin/sh", "-c", "echo yes"], capture_output=True, check=True)
    assert done.stdout == b"yes\n"


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_forms_of_tar(store, form):
    deep = "/".join(["d" * 40] * 3)
    entries = [entry(f"{deep}/f", b"deep"), entry("empty"), symlink("l", "t" * 90)]
    expected = {deep + "/f": b"deep", "empty": b"", "l": "-> " + "t" * 90}
    if form != tarfile.USTAR_FORMAT:
        entries += [entry("x/" + "n" * 255, b"long"), symlink("far", "t/" * 900)]
        entries += [hardlink("y/" + "m" * 200, "x/" + "n" * 255)]
        expected.update({"x/" + "n" * 255: b"long", "y/" + "m" * 200: b"long"})
        expected["far"] = "-> " + "t/" * 900
    if form == tarfile.PAX_FORMAT:
        entries += [entry("f\u00fcr", b"\n", pax_headers={"comment": "a=b\n"}, mtime=1.5)]
        expected["f\u00fcr"] = b"\n"
    found = tree(store.add("x", tar(*entries, form=form)))
    assert {k: v for k, v in found.items() if v is not None} == expected


def test_an_image_made_by_skopeo(store):
    """Not our reading of the format, but somebody else's writing."""
    source = store.write(docker_save([FIRST, SECOND]), "docker.tar")
    for kind, name in (("oci-archive", "archive"), ("oci", "layout")):
        to = f"{store.top}/{name}"
        subprocess.run(
            ["skopeo", "copy", "-q", "--insecure-policy", f"docker-archive:{source}", f"{kind}:{to}"],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        assert store.run("add", name, to).returncode == 0
        assert tree(store.root(name)) == UNPACKED


# ---- names, and who is there


def test_names(store):
    for name in ("", "host", "..", "a/../b", "/a", "a b", "-", "a:", "x" * 201, "a\nb"):
        done = store.run("add", name, store.top)
        assert done.returncode == 1 and "is no name of an image" in done.stderr, name
    none = f"{store.top}/none"
    done = store.run("add", "x", none)
    assert done.stderr == f"sandbox-server: 'x' was not added: open '{none}': No such file or directory\n"
    assert store.run("remove", "x").stderr == "sandbox-server: there is no image 'x'\n"
    assert store.names() == []
    for args in ([], ["show"], ["add", "x"], ["pull"], ["remove"], ["list", "x"], ["list", "--none"]):
        assert store.run(*args).returncode == 1
    done = store.run("add", "x", "y", "--max-mb", "0")
    assert done.stderr == "sandbox-server: --max-mb 0: must be a number from 1 to 16777216\n"
    assert "usage: sandbox-server image list" in store.run("--help").stdout


def test_a_directory_of_its_own(store):
    path = store.write(FIRST)
    other = f"{store.top}/elsewhere/images"
    assert store.run("add", "x", path, "--image-dir", other).returncode == 0
    assert os.listdir(other) == ["x"] and not os.path.exists(store.images)
    assert store.run("list", "--json", SANDBOX_IMAGE_DIR=other).stdout.startswith('[{"name":"x"')
    assert mode(other) == (0o750 if ROOT else 0o700)


def test_there_already_and_removed(store):
    store.add("x:1", FIRST)
    done = store.run("add", "x:1", store.write(SECOND))
    assert done.stderr == "sandbox-server: 'x:1' is there already: remove it first\n"
    assert store.run("remove", "x:1").returncode == 0
    assert os.listdir(store.images) == [] and store.names() == []


def test_of_two_at_once_one_wins(store):
    os.makedirs(store.images)
    ends = [os.pipe() for _ in range(2)]
    both = [store.start("add", "x", "-", stdin=read) for read, _ in ends]
    for read, _ in ends:
        os.close(read)
    wait_for(lambda: len([n for n in os.listdir(store.images) if n.startswith(".new-")]) == 2, 20)
    for _, write in ends:
        with os.fdopen(write, "wb") as f:
            f.write(FIRST)
    said = sorted(p.communicate(timeout=60)[1].decode() for p in both)
    assert sorted(p.returncode for p in both) == [0, 1]
    assert said[0] == "" and said[1].endswith("'x' is there already: somebody else added it meanwhile\n")
    assert os.listdir(store.images) == ["x"]


def half_made(store):
    """An add that waits for the rest of its archive: (process, the pipe's end)."""
    read, write = os.pipe()
    os.makedirs(store.images, exist_ok=True)
    proc = store.start("add", "x", "-", stdin=read, stdout=subprocess.PIPE)
    os.close(read)
    os.write(write, FIRST[:1000])
    wait_for(lambda: len(children(proc.pid)) == 1 and os.listdir(store.images), 20)
    return proc, write


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
        return [int(p) for p in f.read().split()]


def test_a_signal_ends_it_and_leaves_nothing(store):
    proc, write = half_made(store)
    (child,) = children(proc.pid)
    proc.send_signal(signal.SIGTERM)
    assert proc.wait(20) == 128 + signal.SIGTERM
    assert os.listdir(store.images) == []
    assert not os.path.exists(f"/proc/{child}")
    os.close(write)


def killed(store):
    proc, write = half_made(store)
    (child,) = children(proc.pid)
    proc.kill()
    proc.wait(20)
    wait_for(lambda: not os.path.exists(f"/proc/{child}"), 20)
    os.close(write)
    assert [n[:5] for n in os.listdir(store.images)] == [".new-"]


def test_what_a_kill_left_is_swept_by_the_next_command(store):
    killed(store)
    other, write = half_made(store)  # and this one is not
    assert store.names() == []
    assert len(os.listdir(store.images)) == 1
    os.close(write)
    assert other.wait(20) == 1
    assert os.listdir(store.images) == []


def test_what_a_kill_left_is_swept_by_a_server(store, start):
    killed(store)
    server = start(mode="shell", SANDBOX_IMAGE_DIR=store.images)
    assert os.listdir(store.images) == []
    server.stop()


@confined
@pytest.mark.skipif(not ROOT, reason="needs root, to be another one there")
def test_who_unpacks_has_no_rights(store):
    proc, write = half_made(store)
    (child,) = children(proc.pid)

    def status():
        with open(f"/proc/{child}/status", encoding="ascii") as f:
            return dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)

    wait_for(lambda: status()["Seccomp"].strip() == "2", 20)
    s = status()
    uid = str(UID_BASE - 2)
    assert s["Uid"].split() == [uid] * 4 and s["Gid"].split() == [uid] * 4
    assert s["Groups"].split() == []
    assert {int(s[c], 16) for c in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {0}
    assert s["NoNewPrivs"].strip() == "1"
    # the standard ones, the archive, the image, the spool, its report, the root, the owners
    assert sorted(int(f) for f in os.listdir(f"/proc/{child}/fd")) == list(range(9))
    with open(f"/proc/{child}/environ", "rb") as f:
        assert f.read().strip(b"\0") == b""
    os.close(write)
    proc.wait(20)


@pytest.mark.skipif(not ROOT, reason="needs root, to be somebody else")
def test_a_directory_with_files_that_are_others(store):
    """Whoever its files belong to, root may add it, and it is nobody's secret inside."""
    top = f"{store.top}/root"
    os.makedirs(f"{top}/private/deep")
    for name in ("private/file", "file", "setuid"):
        with open(f"{top}/{name}", "w", encoding="ascii") as f:
            f.write(name)
        os.chown(f"{top}/{name}", 1234, 1234)
    os.chmod(f"{top}/file", 0)
    os.chmod(f"{top}/setuid", 0o4711)
    os.chmod(f"{top}/private", 0)
    os.chown(f"{top}/private", 1234, 1234)
    os.mkfifo(f"{top}/fifo")
    os.link(f"{top}/file", f"{top}/link")
    done = store.run("add", "x", top)
    assert done.returncode == 0, done
    root = store.root("x")
    found = tree(root)
    assert found == {
        "private": None,
        "private/deep": None,
        "private/file": b"private/file",
        "file": b"file",
        "link": b"file",
        "setuid": b"setuid",
    }
    assert mode(f"{root}/setuid") == 0o755 and mode(f"{root}/private") == 0o755
    assert os.stat(f"{root}/file").st_nlink == 2
    assert "left out: 1 devices" in done.stdout


@pytest.mark.skipif(not ROOT, reason="needs root, to become a plain user")
def test_a_plain_user_has_images_of_his_own(store):
    copy, user = binary_for_all(), plain_user()
    state = f"{store.top}/his"
    os.mkdir(state)
    os.chown(state, user.pw_uid, user.pw_gid)
    os.chmod(store.top, 0o755)
    path = store.write(oci_archive([FIRST, SECOND]))
    env = clean_env(SANDBOX_STATE_DIR=state)
    try:
        for args, status in (
            (["add", "x", path], 0),
            (["add", "x", path], 1),
            (["list"], 0),
        ):
            with as_user(user, [copy, "image", *args], env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as p:
                said = p.stdout.read()
            assert p.returncode == status, said
        assert tree(f"{state}/images/x/rootfs") == UNPACKED
        os.mkdir(f"{store.top}/closed", 0o700)
        args = [copy, "image", "add", "y", store.top]
        with as_user(user, args, env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as p:
            said = p.stdout.read().decode()
        assert p.returncode == 1 and "Permission denied" in said and "closed" in said
        assert os.listdir(f"{state}/images") == ["x"]
    finally:
        shutil.rmtree(os.path.dirname(copy))


# ---- removing


def test_one_in_use_is_not_removed(store):
    root = store.add("x:1", FIRST)
    index = f"{store.state}/session-index"
    os.makedirs(index)
    for i, image in enumerate(("x:1", "y", "x:1")):
        with open(f"{index}/{i}.json", "w", encoding="ascii") as f:
            json.dump({"id": str(i), "image": image}, f)
    done = store.run("remove", "x:1")
    assert done.stderr == "sandbox-server: 'x:1' is in use by 2 sessions: close them first\n"
    # a session may have variables of a megabyte; of which a byte may take six
    for i in (0, 2):
        os.unlink(f"{index}/{i}.json")
    with open(f"{index}/0.json", "w", encoding="ascii") as f:
        json.dump({"id": "0", "env": [f"A{n}=" + "\1" * 125000 for n in range(8)], "image": "x:1"}, f)
    done = store.run("remove", "x:1")
    assert done.stderr == "sandbox-server: 'x:1' is in use by 1 session: close it first\n"
    # one that is being written, or that a crash left, says nothing of its own
    with open(f"{index}/0.json.partial", "w", encoding="ascii") as f:
        f.write('{"id"')
    assert store.run("remove", "x:1").stderr == done.stderr
    # what tells nothing may be of any
    for broken in ("", '{"id": "0", "ima', " " * (16 << 20)):
        with open(f"{index}/0.json", "w", encoding="ascii") as f:
            f.write(broken)
        done = store.run("remove", "x:1")
        assert done.stderr == "sandbox-server: 'x:1' may be in use: session-index/0.json cannot be read\n"
        assert done.returncode == 1 and tree(root)
    shutil.rmtree(index)
    fd = os.open(os.path.dirname(root), os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(fd, fcntl.LOCK_SH)  # as whoever has it open does
    assert store.run("remove", "x:1").stderr == "sandbox-server: 'x:1' is in use\n"
    assert tree(root)
    os.close(fd)
    assert store.run("remove", "x:1").returncode == 0
    assert os.listdir(store.images) == []


# ---- pulling


def test_without_a_tool_it_says_what_to_do(store):
    empty = path_of(f"{store.top}/empty")
    done = store.run("pull", "team/golang:1.22", PATH=empty)
    assert done.returncode == 1
    assert "none of skopeo, podman and docker is on PATH" in done.stderr
    assert "podman save --format oci-archive -o x.tar team/golang:1.22" in done.stderr
    assert "sandbox-server image add team/golang:1.22 x.tar" in done.stderr
    for name in ("host", "a b", "docker://-x", "docker://", "oci:/etc"):
        assert "is no name of an image" in store.run("pull", name).stderr, name
    assert os.listdir(store.images) == []


def test_a_tool_that_fails(store):
    place = path_of(f"{store.top}/bin")
    os.symlink(shutil.which("false"), f"{place}/podman")
    done = store.run("pull", "x:1", PATH=place)
    assert done.stderr == "sandbox-server: 'x:1' was not added: 'podman pull' failed (exit status 1)\n"
    assert os.listdir(store.images) == []


def own_store(store):
    """Where skopeo and podman keep images, and trust all of them: nothing of this host's."""
    conf = f"{store.top}/storage.conf"
    with open(conf, "w", encoding="ascii") as f:
        f.write(
            f'[storage]\ndriver = "vfs"\ngraphroot = "{store.top}/graph"\nrunroot = "{store.top}/run"\n'
        )
    policy = f"{store.top}/home/.config/containers/policy.json"
    os.makedirs(os.path.dirname(policy))
    with open(policy, "w", encoding="ascii") as f:
        f.write('{"default":[{"type":"insecureAcceptAnything"}]}')
    return {"CONTAINERS_STORAGE_CONF": conf, "HOME": f"{store.top}/home"}


@contextlib.contextmanager
def registry(name, layers):
    """One on loopback that has this image alone; its port."""
    blobs = {"sha256:" + info.name[13:]: data for info, data in oci_files(layers) if info.name.startswith("blobs/")}
    last = json.loads(list(blobs.values())[-1])
    image = "application/vnd.oci.image."
    last["mediaType"], last["config"]["mediaType"] = f"{image}manifest.v1+json", f"{image}config.v1+json"
    for layer in last["layers"]:
        layer["mediaType"] = f"{image}layer.v1.tar+gzip"
    manifest = json.dumps(last).encode()
    found = {f"/v2/{name}/blobs/{digest}": data for digest, data in blobs.items()}
    found |= {f"/v2/{name}/manifests/{tag}": manifest for tag in ("1", archives.digest(manifest))} | {"/v2/": b"{}"}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            data = found.get(self.path, b"{}")
            self.send_response(200 if self.path in found else 404)
            self.send_header("Content-Length", len(data))
            self.send_header("Docker-Content-Digest", archives.digest(data))
            self.send_header("Content-Type", last["mediaType"] if data is manifest else "application/octet-stream")
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(data)

        do_HEAD = do_GET

        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.skipif(not ROOT, reason="podman without root wants a range of ids")
@pytest.mark.parametrize("tool", ["skopeo", "podman"])
def test_pulled_from_a_registry_and_from_a_store_of_this_host(store, tool):
    env = {**own_store(store), "PATH": path_of(f"{store.top}/bin", tool)}
    layers = [FIRST, tar(entry("etc/.wh.old"), entry("new", b"new"))]
    with registry("team/x", layers) as port:
        name = f"localhost:{port}/team/x:1"
        with open(f"{store.top}/home/.config/containers/registries.conf", "w", encoding="ascii") as f:
            f.write(f'[[registry]]\nlocation = "localhost:{port}"\ninsecure = true\n')
        done = store.run("pull", name, **env)
        assert done.returncode == 0 and store.names() == [name], done
        assert store.run("pull", f"localhost:{port}/team/none:1", **env).returncode == 1
    found = tree(store.root(name))
    assert "etc/old" not in found and found["new"] == b"new"
    assert found == tree(store.add("y", docker_save(layers)))
    if tool == "podman":  # which has it now
        assert store.run("remove", name).returncode == 0
        done = store.run("pull", f"containers-storage:{name}", **env)
        assert done.returncode == 0 and tree(store.root(name)) == found, done


def test_pulled_by_skopeo_from_a_store_of_this_host(store):
    env = own_store(store)
    layers = [FIRST, tar(entry("etc/.wh.old"), entry("new", b"new"))]
    source = store.write(docker_save(layers), "docker.tar")
    subprocess.run(
        ["skopeo", "copy", "-q", f"docker-archive:{source}", "containers-storage:localhost/x:1"],
        env=clean_env(**env),
        check=True,
        stdout=subprocess.DEVNULL,
    )
    done = store.run("pull", "containers-storage:localhost/x:1", **env)
    assert done.returncode == 0, done
    assert store.names() == ["localhost/x:1"]
    assert os.listdir(store.images) == ["localhost%2fx%3a1"]
    found = tree(store.root("localhost/x:1"))
    assert "etc/old" not in found and found["new"] == b"new"
    assert found == tree(store.add("y", docker_save(layers)))
    done = store.run("pull", "containers-storage:localhost/none:1", **env)
    assert done.returncode == 1 and "'skopeo copy' failed" in done.stderr

# SPDX-License-Identifier: GPL-2.0-only
"""podman with a store of its own below build, and an image made of this host's own files.

The image has python3, bash and the server that is tested. Its base is made once; when the
server changes, another one is put into it.
"""

import glob
import hashlib
import os
import re
import shutil
import subprocess

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DIR = os.environ.get("TESTS_ENGINE_DIR", os.path.join(TOP, "build/engine"))
IMAGE = "localhost/sandbox-server:latest"
PROGRAMS = ("bash", "cat", "ls", "sleep", "seq", "head", "mkdir", "ln", "id", "setsid")

# runc knows every layout of cgroups, and limits are given since this root may not raise them
CONF = """\
[containers]
default_ulimits = ["nproc=4096:4096", "nofile=4096:4096"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
"""
CLIENT = """\
#!/bin/sh
CONTAINERS_CONF={dir}/containers.conf
export CONTAINERS_CONF
exec /usr/bin/podman --root {dir}/store --runroot {dir}/run "$@"
"""


def podman(*args, **more):
    return subprocess.run(
        [f"{DIR}/bin/podman", *args], check=True, capture_output=True, timeout=300, **more
    ).stdout.decode()


def _libraries(path):
    said = subprocess.run(["ldd", path], capture_output=True, text=True, check=False).stdout
    return re.findall(r"(/\S+) \(0x", said)


def _copy(path, root):
    """A file to where it is on a system whose /lib is in /usr, with what it needs."""
    for one in [path, *_libraries(path)]:
        place = root + (one if one.startswith("/usr") else "/usr" + one)
        os.makedirs(os.path.dirname(place), exist_ok=True)
        if not os.path.exists(place):
            shutil.copy(os.path.realpath(one), place)


def _make_root(root, binary):
    shutil.rmtree(root, ignore_errors=True)
    for name in ("usr/bin", "usr/lib", "usr/lib64", "etc", "tmp", "work", "proc", "sys", "dev"):
        os.makedirs(f"{root}/{name}")
    for name in ("bin", "lib", "lib64"):
        os.symlink("usr/" + name, f"{root}/{name}")
    for name in PROGRAMS:
        _copy("/usr/bin/" + name, root)
    version = os.path.basename(os.path.realpath("/usr/bin/python3"))
    _copy("/usr/bin/" + version, root)
    os.symlink(version, f"{root}/usr/bin/python3")
    os.symlink("bash", f"{root}/usr/bin/sh")
    skipped = shutil.ignore_patterns("test", "__pycache__", "idlelib", "dist-packages", "config-*")
    shutil.copytree(f"/usr/lib/{version}", f"{root}/usr/lib/{version}", symlinks=False,
                    ignore=skipped, ignore_dangling_symlinks=True)  # fmt: skip
    for name in glob.glob(f"/usr/lib/{version}/lib-dynload/*.so") + [binary]:
        for one in _libraries(name):
            _copy(one, root)
    with open(f"{root}/etc/passwd", "w", encoding="ascii") as f:
        f.write("root:x:0:0::/:/bin/sh\nsandbox:x:65532:65532::/tmp:/bin/sh\n")


def _make_base(binary):
    root = f"{DIR}/root"
    _make_root(root, binary)
    with subprocess.Popen(["tar", "-C", root, "-c", "."], stdout=subprocess.PIPE) as tar:
        podman("import", "--change", "ENV PATH=/usr/bin", "-", "localhost/base", stdin=tar.stdout)
    assert tar.returncode == 0
    shutil.rmtree(root)


def path(binary):
    """The PATH of a server that finds our podman; the image is there, with this server in it."""
    os.makedirs(f"{DIR}/bin", exist_ok=True)
    with open(f"{DIR}/containers.conf", "w", encoding="ascii") as f:
        f.write(CONF)
    with open(f"{DIR}/bin/podman", "w", encoding="ascii") as f:
        f.write(CLIENT.format(dir=DIR))
    os.chmod(f"{DIR}/bin/podman", 0o755)
    with open(binary, "rb") as f:
        mark = hashlib.sha256(f.read()).hexdigest()[:16]
    tags = podman("images", "--format", "{{.Repository}}:{{.Tag}}").split()
    if "localhost/base:latest" not in tags:
        _make_base(binary)
    if f"localhost/made:{mark}" not in tags:
        made = podman("create", "localhost/base", "sh").strip()
        podman("cp", binary, made + ":/usr/bin/sandbox-server")
        podman("commit", "-q", made, f"localhost/made:{mark}")
        podman("rm", "-f", made)
    podman("tag", f"localhost/made:{mark}", IMAGE)
    return f"{DIR}/bin:/usr/bin:/bin"

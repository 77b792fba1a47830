# SPDX-License-Identifier: GPL-2.0-only
"""In a chroot the kernel makes no user namespace; `check` says that it is one, and exits 1."""

import os
import subprocess

import pytest

from conftest import BINARY, LEAVES_ROOT, SANITIZED

# in a mount namespace of its own: nothing of it stays
MAKE = """
set -e
if [ "$2" = mount ]; then mount -t tmpfs tmpfs "$1"; fi
cd "$1"
mkdir dev etc proc srv sys tmp usr
for l in bin lib lib32 lib64 libx32 sbin; do ln -s "usr/$l" "$l"; done
for d in dev etc proc sys usr; do mount --rbind "/$d" "$d"; done
if [ "$3" = bare ]; then umount -l proc; fi
cp "$4" srv/sandbox-server
# this shell stays outside, as the one from which a person calls chroot does
status=0
env -i PATH=/usr/sbin:/usr/bin SANDBOX_MODE=shell chroot . /srv/sandbox-server check || status=$?
exit $status
"""


ROOT_OF_A_NAMESPACE = ["--user", "--map-root-user"] if os.geteuid() else []


@pytest.mark.skipif(LEAVES_ROOT, reason="needs CAP_SYS_ADMIN, to mount")
@pytest.mark.parametrize("kind", ["directory", "bare directory", "mount point"])
def test_check_says_that_it_is_in_a_chroot(kind, tmp_path):
    if SANITIZED and "bare" in kind:
        pytest.skip("a sanitizer needs /proc")
    where = tmp_path / "root"
    where.mkdir()
    words = ["mount" if kind == "mount point" else "", "bare" if "bare" in kind else ""]
    done = subprocess.run(
        ["unshare", *ROOT_OF_A_NAMESPACE, "--mount", "sh", "-c", MAKE, "sh", str(where),
         *words, os.path.abspath(BINARY)],
        capture_output=True, text=True, timeout=60,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "user namespaces refused: running in a chroot" in done.stdout, done.stdout
    assert "start it outside the chroot" in done.stdout

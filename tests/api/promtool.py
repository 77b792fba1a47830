# SPDX-License-Identifier: GPL-2.0-only
"""promtool, taken out of Debian's package: installing that would start a server."""

import glob
import os
import shutil
import subprocess
import tempfile

from conftest import TOP


def promtool():
    """Its path; fetched once."""
    found = shutil.which("promtool")
    kept = os.path.join(TOP, "build/promtool")
    if found or os.path.exists(kept):
        return found or kept
    with tempfile.TemporaryDirectory(prefix="promtool-") as work:
        os.chmod(work, 0o755)
        fetch = ["apt-get", "-qq", "-o", "APT::Sandbox::User=root", "download", "prometheus"]
        subprocess.run(fetch, cwd=work, check=True, timeout=100)
        (package,) = glob.glob(f"{work}/*.deb")
        subprocess.run(["dpkg-deb", "-x", package, f"{work}/tree"], check=True, timeout=60)
        shutil.copy(f"{work}/tree/usr/bin/promtool", f"{kept}.{os.getpid()}")
    os.rename(f"{kept}.{os.getpid()}", kept)
    return kept

# SPDX-License-Identifier: GPL-2.0-only
"""apt-get install in a session of a Debian image, through the broker, from the real mirror."""

import pytest

from conftest import wait_for
from test_session_versions import checkpoint, diff, fork, restore
from test_sessions import Session, call, files_left

MINUTES = {"timeout_seconds": 240}
QUIET = "DEBIAN_FRONTEND=noninteractive apt-get -qy"


@pytest.mark.timeout(600)
def test_root_installs_packages_as_on_a_real_machine(served):
    one = Session(served, user="root", image="debian", allow_network=True)
    assert one.opened["user"] == "root"
    one.out(f"{QUIET} update", **MINUTES)
    # apt dropped its rights for the download: the directory is that user's
    assert one.out("stat -c %U /var/lib/apt/lists/partial") == "_apt\n"
    assert "Get:" in one.out(f"{QUIET} install --no-install-recommends hello cron", **MINUTES)
    assert one.out("hello; dpkg --audit") == "Hello, world!\n"
    # groups, owners and modes that only root gives; the bit is there and gives nothing
    owned = one.out("stat -c '%U %G %a' /var/spool/cron/crontabs /usr/bin/crontab")
    assert owned == "root crontab 1730\nroot crontab 2755\n"
    one.out("adduser --system --group --home /srv/me me")
    assert one.out("chmod 777 .; runuser -u me -- sh -c 'id -un; touch mine'; stat -c %U mine") == "me\nme\n"
    # the download went through the broker, to the mirror alone
    sums = call(served, "GET", one.path)["network"]
    assert sums["connections"] > 0 and sums["refused"] == 0
    # what was installed is what has changed, and can be had again
    changed = diff(one)
    assert "/usr/bin/hello" in changed["added"] and "/etc" not in changed["modified"]
    assert "/var/lib/dpkg/status" in changed["modified"] and "/var/lib/dpkg" not in changed["modified"]
    assert all(path.startswith("/var/lib/apt/lists/") for path in changed["deleted"])
    name = checkpoint(one)
    one.out(f"{QUIET} purge hello", **MINUTES)
    assert one.exec("hello")["exit_code"] == 127
    (two,) = fork(one)
    restore(one, name)
    assert one.out("hello; stat -c '%U %G' /var/spool/cron/crontabs") == "Hello, world!\nroot crontab\n"
    assert two.exec("hello")["exit_code"] == 127 and two.out("stat -c %U /work/mine") == "me\n"
    one.close()
    two.close()
    wait_for(lambda: files_left(served) == [], 60)


def test_an_ordinary_user_installs_nothing(served):
    one = Session(served, image="debian", allow_network=True)
    assert one.opened["user"] == "sandbox" and one.exec(f"{QUIET} install hello")["exit_code"] == 100
    one.close()

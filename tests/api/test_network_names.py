# SPDX-License-Identifier: GPL-2.0-only
"""The name that is checked is the name that is resolved, whatever /etc/resolv.conf adds to names.

As in a pod of Kubernetes: a search list, and names of fewer than five dots are tried with it first.
"""

import os
import tempfile

import pytest

from conftest import BINARY
from node22 import node22  # noqa: F401, a fixture
from outside import Outside, ask, world  # noqa: F401, fixtures

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for network namespaces")


class Searching(Outside):
    def command_line(self, args, env):
        resolv, hosts = f"{self.etc}/resolv.conf", f"{self.etc}/hosts"
        script = f'mount --bind {resolv} /etc/resolv.conf && mount --bind {hosts} /etc/hosts && exec "$@"'
        return ["unshare", "--mount", "sh", "-c", script, "sh", BINARY, *args]


@pytest.fixture(name="serve")
def _serve(world):
    servers = []

    def serve(**settings):
        s = Searching({"SANDBOX_WARM": "0", "SANDBOX_NETWORK": "ok.test,*.ok.test,hosted.test,db",
                       "PATH": Outside.path, **settings}, (), "shell")  # fmt: skip
        servers.append(s)
        return s

    with tempfile.TemporaryDirectory() as Searching.etc:
        os.chmod(Searching.etc, 0o755)
        with open(f"{Searching.etc}/resolv.conf", "w", encoding="ascii") as f:
            f.write("search search.test\nnameserver 10.77.0.2\noptions ndots:5\n")
        with open(f"{Searching.etc}/hosts", "w", encoding="ascii") as f:
            f.write("127.0.0.1 localhost\n11.1.1.1 hosted.test\n")
        yield serve
        for s in servers:
            s.stop()


def names_of(world, server, url):
    """What it says, and the names that the resolver was asked for."""
    before = len(world.asked()["names"])
    said = ask(server, "shell", url)[0]
    return said, set(world.asked()["names"][before:])


def test_no_domain_is_added_to_a_name_with_a_dot(serve, world):
    s = serve()
    said, names = names_of(world, s, "http://ok.test/")
    assert "world ok.test" in said and names == {"ok.test"}
    said, names = names_of(world, s, "http://absent.ok.test/")
    assert "(not_resolved)" in said and names == {"absent.ok.test"}


def test_a_name_without_a_dot_is_found_as_pods_find_services(serve, world):
    said, names = names_of(world, serve(), "http://db/")
    assert "world db" in said and names == {"db.search.test"}


def test_a_name_of_the_hosts_file_is_found_and_nobody_is_asked(serve, world):
    said, names = names_of(world, serve(), "http://hosted.test/")
    assert "world hosted.test" in said and not names


def test_the_proxy_of_this_host_is_found_as_its_programs_find_it(serve, world):
    s = serve(SANDBOX_EGRESS_PROXY="http://squid.infra:80")
    said, names = names_of(world, s, "http://ok.test/")
    assert "world ok.test" in said and names == {"ok.test", "squid.infra.search.test"}

# SPDX-License-Identifier: GPL-2.0-only
"""Hosts that nobody but an index names: where its files are, and where it redirects to.

Server and broker are in a network namespace with no way out but to world.py's, which has none.
"""

import os
import shutil

import pytest

from node22 import node22  # noqa: F401, a fixture
from outside import Outside, make, world  # noqa: F401, fixtures
from packages import place_with_uv, wheel
from support import check_healthy
from test_requirements import SHOW, failed

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for network namespaces")


@pytest.fixture(scope="module")
def place():
    top = place_with_uv()
    yield top
    shutil.rmtree(top)


@pytest.fixture(scope="module", params=["index.test", "private.test"], name="from_index")
def _from_index(request, world, place):
    """A server whose index is public, and one whose index is not."""
    wheels = os.path.dirname(Outside.certificate) + "/wheels"
    os.makedirs(wheels, exist_ok=True)
    for name in ("greet", "near", "here", "odd", "bare"):
        wheel(wheels, name, "1.0", {f"{name}.py": "WORD = 'hello'\n"})
    s = make({"SANDBOX_PYTHON_INDEX": f"http://{request.param}/simple", "PATH": f"{place}/bin:{Outside.path}"})
    s.index = request.param
    yield s
    s.stop()


def test_the_host_of_an_indexs_files_is_learned_once(from_index):
    for wanted in (["greet"], ["greet==1.0"]):
        r = from_index.execute(SHOW, requirements=wanted)
        assert r["stdout"] == "hello /packages/greet.py\n", r["stderr"]
    assert from_index.log().count("install.host") == 1
    from_index.wait_log(r"install\.host .*host=files\.test port=80")


REFUSED = "has an index's files and is not public: name it in SANDBOX_PYTHON_INDEX"


@pytest.mark.parametrize(
    "wanted, says",
    [
        ("here", f"host 'loop.test' {REFUSED}"),
        ("odd", "host 'files.test' is not of an index"),
        ("bare", "host '10.77.0.2' is not of an index"),
        ("to-odd", "host 'files.test' is not of an index"),
        ("to-bare", "host '10.77.0.2' is not of an index"),
    ],
)
def test_what_is_near_or_at_an_odd_port_or_has_no_name_is_not(from_index, world, wanted, says):
    refused(from_index, world, wanted, says)


@pytest.mark.parametrize("wanted", ["near", "to-near"])
def test_a_private_host_is_one_where_the_index_is_private_itself(from_index, world, wanted):
    if from_index.index == "index.test":
        refused(from_index, world, wanted, f"host 'store.test' {REFUSED}")
    else:
        asked = len(world.asked()["hits"])
        r = from_index.execute("1", requirements=[wanted])
        assert "refused_host" not in r["stderr"] and REFUSED not in r["stderr"], r
        assert ("store.test" in {h for h, _ in world.asked()["hits"][asked:]}), r


def test_one_public_index_keeps_private_hosts_closed(world, place):
    index = "http://private.test/simple http://index.test/simple"
    s = make({"SANDBOX_PYTHON_INDEX": index, "PATH": f"{place}/bin:{Outside.path}"})
    try:
        r = s.execute("1", requirements=["near"])
        assert f"host 'store.test' {REFUSED}" in failed(r, "refused_host"), r["stderr"]
    finally:
        s.stop()


def refused(server, world, wanted, says):
    before = len(world.asked()["hits"])
    r = server.execute("1", requirements=[wanted])
    assert says in failed(r, "refused_host"), r["stderr"]
    hits = world.asked()["hits"][before:]
    assert hits and {h for h, _ in hits} == {server.index}, hits
    check_healthy(server)

# SPDX-License-Identifier: GPL-2.0-only
"""Settings from a file, and `sandbox-server config`, which says where each value is from."""

import json

import pytest

from probes import command

FILE = """\
# for this host
SANDBOX_MODE=shell
SANDBOX_MAX_CONCURRENT="2"
; and for systemd
SANDBOX_EGRESS_PROXY='http://user:hunter2@proxy.example:3128'
"""


@pytest.fixture
def conf(tmp_path):
    def write(text=FILE):
        path = tmp_path / "server.conf"
        path.write_text(text)
        return str(path)

    return write


def shown(*args, **env):
    done = command("config", "--json", *args, **env)
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    return found["file"], {s.pop("name"): s for s in found["settings"]}


def test_each_value_says_where_it_is_from(conf):
    path = conf()
    file, settings = shown("--queue", "5", SANDBOX_CONFIG=path, SANDBOX_MAX_CONCURRENT="7")
    assert file == path
    assert settings["SANDBOX_MODE"] == {"flag": "--mode", "value": "shell", "from": "file", "line": 2}
    assert settings["SANDBOX_MAX_CONCURRENT"] == {
        "flag": "--max-concurrent", "value": "7", "from": "environment",
    }  # fmt: skip
    assert settings["SANDBOX_QUEUE"] == {"flag": "--queue", "value": "5", "from": "flag"}
    assert settings["SANDBOX_PORT"] == {"flag": "--port", "value": "8080", "from": "default"}
    assert settings["SANDBOX_MEMORY_MB"] == {
        "flag": "--memory-mb", "value": None, "from": "default", "unset": "512, golang 2048",
    }  # fmt: skip
    assert settings["SANDBOX_EGRESS_PROXY"]["value"] == "http://***@proxy.example:3128"


def test_for_people_it_is_a_line_each(conf):
    path = conf()
    done = command("config", "--config", path, "--queue=5")
    assert (done.returncode, done.stderr) == (0, "")
    lines = {line.split("=")[0].split()[0]: line.split() for line in done.stdout.splitlines()}
    assert lines["SANDBOX_MODE"] == ["SANDBOX_MODE=shell", path + ":2"]
    assert lines["SANDBOX_QUEUE"] == ["SANDBOX_QUEUE=5", "flag"]
    assert lines["SANDBOX_CONFIG"] == ["SANDBOX_CONFIG=" + path, "flag"]
    assert "hunter2" not in done.stdout


def test_every_setting_of_the_help_is_shown_and_no_other():
    _, settings = shown()
    text = command("config", "--help").stdout
    flags = [line.split()[0] for line in text.splitlines() if line.startswith("  --")]
    assert [s["flag"] for s in settings.values()] == flags and len(flags) > 40


def test_a_mistake_is_named_and_nothing_starts(conf):
    path = conf("SANDBOX_MODE=shell\nSANDBOX_PORT=abc\n")
    for subcommand in ("config", "serve", "check", "run"):
        done = command(subcommand, "--config", path)
        assert done.returncode in (1, 125) and done.stdout == ""
        assert done.stderr == f"sandbox-server: {path}:2: SANDBOX_PORT=abc: must be a number from 0 to 65535\n"
    done = command("config", "--config", path + ".gone")
    assert done.returncode == 1
    assert done.stderr.endswith(f"read settings from '{path}.gone': No such file or directory\n")
    assert command("config", "extra").stderr == "sandbox-server: unknown argument 'extra' (try config --help)\n"


def test_a_server_serves_by_its_file(start, conf):
    s = start("--max-files", "1", mode=None, SANDBOX_CONFIG=conf())
    health = s.get("/health").json
    assert (health["mode"], health["capacity"]) == ("shell", 2)

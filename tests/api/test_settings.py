# SPDX-License-Identifier: GPL-2.0-only
"""Settings that stop the start name the flag or variable, and what is wrong with it."""

import pytest

from probes import command

WRONG = [
    ("PORT", "abc", "must be a number from 0 to 65535"),
    ("PORT", "65536", "must be a number from 0 to 65535"),
    ("PORT", "-1", "must be a number from 0 to 65535"),
    ("PORT", "", "must be a number from 0 to 65535"),
    ("PORT", "80x", "must be a number from 0 to 65535"),
    ("LISTEN", "localhost", "must be an address, such as 127.0.0.1 or ::"),
    ("MAX_CONCURRENT", "0", "must be a number from 1 to 256"),
    ("QUEUE", "-1", "must be a number from 0 to 10000"),
    ("WARM", "257", "must be a number from 0 to 256"),
    ("WARM", "-1", "must be a number from 0 to 256"),
    ("WARM_MEMORY_MB", "0", "must be a number from 1 to 1048576"),
    ("TIMEOUT_SEC", "0", "must be a number from 1 to 86400"),
    ("CPUS", "0", "must be a number from 0.01 to 1024"),
    ("CPUS", "nan", "must be a number from 0.01 to 1024"),
    ("MEMORY_MB", "15", "must be a number from 16 to 1048576"),
    ("OUTPUT_DIR", "../x", "must be a plain name of 1 to 63 bytes, the first not a dot"),
    ("OUTPUT_DIR", "script.py", "is the name of a script"),
    ("STORE_CODE", "maybe", "must be one of on_error, always, never"),
    ("MIN_ISOLATION", "total", "must be one of full, namespaces, landlock, process"),
    ("STATE_DIR", "relative", "must be an absolute path"),
    ("LOG_LEVEL", "loud", "must be one of debug, info, warn, error"),
    ("LOG_FORMAT", "xml", "must be one of text, json"),
]

# name, a value that asks for it, whether the value is repeated, a value that does not ask
LATER = [
    ("TOKEN_FILE", "/etc/token", False, None),
    ("NETWORK", "allow", True, "off"),
    ("NETWORK_DEFAULT", "true", True, "false"),
    ("EGRESS_PROXY", "http://127.0.0.1:1", False, None),
    ("BLOCK_DANGEROUS_IMPORTS", "true", True, "false"),
    ("BLOCKED_IMPORTS", "os", False, None),
    ("WARM_FORK", "on", True, "off"),
    ("PRELOAD", "numpy", False, None),
    ("PYTHON_INDEX", "http://127.0.0.1:1/", False, None),
    ("NPM_REGISTRY", "http://127.0.0.1:1/", False, None),
    ("INSTALL_TIMEOUT_SEC", "120", False, None),
    ("ALLOW_BUILD", "true", True, "false"),
    ("LAYER_CACHE_MB", "4096", False, None),
    ("SESSIONS", "on", True, "off"),
    ("SESSION_IDLE_TIMEOUT", "30m", False, None),
    ("SESSION_MAX_LIFETIME", "4h", False, None),
    ("IMAGE_DIR", "/images", False, None),
    ("VOLUMES", "a=/b", False, None),
    ("AUDIT_FILE", "/audit", False, None),
    ("AGENT_PORT", "1", False, None),
]


def said(*args, **env):
    """What serve says instead of starting. The mode is never found: nothing starts here."""
    done = command(
        "serve", *args, SANDBOX_STATE_DIR=env.pop("SANDBOX_STATE_DIR", "/nonexistent/x"), **env
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("sandbox-server: ") and done.stderr.count("\n") == 1
    return done.stderr[len("sandbox-server: ") : -1]


def flag(name):
    return "--" + name.lower().replace("_", "-")


@pytest.mark.parametrize("name, value, wrong", WRONG)
def test_a_wrong_value(name, value, wrong):
    assert said(**{"SANDBOX_" + name: value}) == f"SANDBOX_{name}={value}: {wrong}"
    assert said(flag(name), value) == f"{flag(name)} {value}: {wrong}"
    assert said(f"{flag(name)}={value}") == f"{flag(name)} {value}: {wrong}"


@pytest.mark.parametrize("name, value, repeated, off", LATER)
def test_what_is_not_available_yet(name, value, repeated, off):
    shown = f"SANDBOX_{name}={value}" if repeated else f"SANDBOX_{name}"
    assert said(**{"SANDBOX_" + name: value}) == f"{shown} is not available yet"
    shown = f"{flag(name)} {value}" if repeated else flag(name)
    assert said(flag(name), value) == f"{shown} is not available yet"
    if off:  # asks for nothing: the start goes on, to the mode that is not there
        env = {"SANDBOX_" + name: off, "SANDBOX_MODE": "ruby"}
        assert said(**env).startswith('unsupported mode "ruby"')


def test_the_type():
    assert said(SANDBOX_TYPE="docker") == "SANDBOX_TYPE=docker is not available yet"
    unsupported = "is not supported (supported: local, docker)"
    assert said(SANDBOX_TYPE="e2b") == f"SANDBOX_TYPE=e2b {unsupported}"
    assert said("--type", "gvisor") == f"--type gvisor {unsupported}"


def test_names_that_do_not_exist():
    assert said(SANDBOX_MAX_CONCURENT="3") == "SANDBOX_MAX_CONCURENT is not a setting"
    assert said("--max-concurent", "3") == "unknown flag '--max-concurent'"
    assert said("--max-concurent=3") == "unknown flag '--max-concurent'"
    assert said("-x") == "unknown flag '-x'"
    assert said("--port") == "--port needs a value"
    assert said("serve") == "unknown argument 'serve' (try --help)"


def test_settings_that_contradict_each_other():
    assert (
        said(SANDBOX_TIMEOUT_SEC="301")
        == "SANDBOX_MAX_TIMEOUT_SEC=300 is below SANDBOX_TIMEOUT_SEC=301"
    )
    assert (
        said(SANDBOX_MAX_OUTPUT_KB="1025")
        == "SANDBOX_OUTPUT_CEILING_KB=1024 is below SANDBOX_MAX_OUTPUT_KB=1025"
    )


def test_variables_of_a_kubernetes_service_are_not_settings():
    env = {
        "SANDBOX_SERVICE_HOST": "10.0.0.1",
        "SANDBOX_SERVICE_PORT": "80",
        "SANDBOX_PORT": "tcp://10.0.0.1:80",
        "SANDBOX_PORT_80_TCP_ADDR": "10.0.0.1",
        "SANDBOX_SERVER_SERVICE_PORT_HTTP": "8080",
        "SANDBOX_MODE": "ruby",
    }
    assert said(**env).startswith('unsupported mode "ruby"')


def test_a_port_that_is_taken(server):
    message = said("--port", str(server.port), "--mode", "shell")
    assert message == f"listen on '127.0.0.1' port {server.port}: Address already in use"

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
    ("WARM", "257", "must be auto or a number from 0 to 256"),
    ("WARM", "-1", "must be auto or a number from 0 to 256"),
    ("NETWORK_DEFAULT", "maybe", "must be one of true, false"),
    ("EGRESS_CONNECTIONS", "257", "must be a number from 1 to 256"),
    ("EGRESS_MB", "0", "must be a number from 1 to 1048576"),
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
    ("IMAGE_DIR", "relative", "must be an absolute path"),
    ("LOG_LEVEL", "loud", "must be one of debug, info, warn, error"),
    ("LOG_FORMAT", "xml", "must be one of text, json"),
    ("PYTHON_INDEX", "wheels", "must be http(s) URLs, absolute paths of directories, host or none"),
    ("NPM_REGISTRY", "/nonexistent/cache", "must be http(s) URLs, absolute paths of directories, host or none"),
    ("INSTALL_TIMEOUT_SEC", "0", "must be a number from 1 to 3600"),
    ("ALLOW_BUILD", "maybe", "must be one of true, false"),
    ("LAYER_CACHE_MB", "0", "must be a number from 1 to 1048576"),
    ("TOKEN_FILE", "tokens", "must be an absolute path"),
    ("AUDIT_FILE", "audit", "must be an absolute path"),
    ("TOKEN_FILE", "", "must not be empty"),
    ("BLOCK_DANGEROUS_IMPORTS", "maybe", "must be one of true, false"),
    ("BLOCKED_IMPORTS", "os subprocess", "must be names of modules, such as numpy,os.path"),
    ("BLOCKED_IMPORTS", "", "must not be empty"),
    ("SESSION_IDLE_TIMEOUT", "1x", "must be a time of at least a second as in 90s, 30m, 4h, or 0"),
    ("SESSION_MAX_LIFETIME", "5ms", "must be a time of at least a second as in 90s, 30m, 4h, or 0"),
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


def test_the_type():
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

# SPDX-License-Identifier: GPL-2.0-only
"""Attempts to learn what is nobody's business."""

import os
import platform
import re
import secrets

from conftest import CANARY
from probes import Asking, look

EMPTY = """
    kallsyms modules keys key-users timer_list config.gz cmdline kcore kpagecount kpageflags
    kpagecgroup iomem ioports vmallocinfo slabinfo sched_debug interrupts diskstats partitions swaps
""".split()


def test_il01_the_environment(target):
    seen = look(target, "show(**dict(os.environ))")
    path = seen.pop("PATH")
    assert seen == {
        "HOME": "/tmp",
        "LANG": "C.UTF-8",
        "TMPDIR": "/tmp",
        "OUTPUT_DIR": "/work/output",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
    }
    assert path.endswith("/usr/local/bin:/usr/bin:/bin")
    seen = look(target, "show(**dict(os.environ))", env={"MINE": "1"})
    assert seen["MINE"] == "1" and len(seen) == 8


def test_il02_no_secrets_in_memory_or_files(target):
    """Its own memory is the interpreter's; what others sent is in none of it."""
    word = "secret" + secrets.token_hex(12)
    target.execute(f"x = '{word}'\nprint(len(x))")
    other = Asking(target, f"import time\nx = '{word}'\ntime.sleep(2)")
    half, rest, token, tail = word[:9], word[9:], CANARY[:9], CANARY[9:]
    seen = look(
        target,
        f"""
        # in two parts, never together in this program's own memory
        words = [(b"{half}", b"{rest}"), (b"{token}", b"{tail}")]
        found, looked = [], 0
        with open("/proc/self/mem", "rb", 0) as mem:
            for line in text("/proc/self/maps").splitlines():
                span, mode = line.split()[:2]
                if "r" not in mode or "[v" in line: continue
                a, b = (int(x, 16) for x in span.split("-"))
                try: mem.seek(a); data = mem.read(b - a)
                except (OSError, ValueError, OverflowError): continue
                looked += len(data)
                for first, second in words:
                    at = data.find(first)
                    while at >= 0:
                        if data.startswith(second, at + len(first)): found.append(line)
                        at = data.find(first, at + 1)
        assert looked > 1000000
        show(found=found)
        """,
    )
    assert seen == {"found": []}
    assert other.result().json["exit_code"] == 0


def test_il04_what_proc_tells(target):
    seen = look(
        target,
        f"""
        def content(name):
            try: return text("/proc/" + name)
            except OSError as e: return errno.errorcode[e.errno]
        show(empty={{n: content(n) for n in {EMPTY!r}}}, cgroup=content("self/cgroup"),
             sockets=[content("net/" + n).strip().split("\\n")[1:] for n in ("tcp", "udp", "unix")])
        """,
    )
    for name, content in seen["empty"].items():
        assert content in ("", "ENOENT", "EACCES"), name
    assert {line.split(":", 2)[2] for line in seen["cgroup"].strip().split("\n")} == {"/"}
    assert seen["sockets"] == [[], [], []]


def test_il05_no_kernel_log(target):
    seen = look(
        target,
        """
        buf = ctypes.create_string_buffer(4096)
        show(read=err(103, 3, buf, 4096), size=err(103, 10, 0, 0), dev=opened("/dev/kmsg"),
             proc=opened("/proc/kmsg"))
        """,
    )
    assert (seen["read"], seen["size"], seen["dev"]) == ("EPERM", "EPERM", "ENOENT")
    assert seen["proc"] in ("EPERM", "EACCES", "ENOENT")


def test_il06_names_of_the_host(target):
    seen = look(
        target,
        """
        import socket
        def content(path):
            try: return text(path).strip()
            except OSError as e: return errno.errorcode[e.errno]
        show(node=os.uname().nodename, name=socket.gethostname(), domain=content("/proc/sys/kernel/domainname"),
             etc=content("/etc/hostname"), machine=content("/etc/machine-id"), hosts=content("/etc/hosts"),
             dbus=content("/var/lib/dbus/machine-id"), dmi=content("/sys/class/dmi/id/product_uuid"),
             mac=content("/sys/class/net"))
        """,
    )
    assert (seen["node"], seen["name"], seen["etc"]) == ("sandbox", "sandbox", "sandbox")
    assert {seen[k] for k in ("machine", "dbus", "dmi", "mac")} == {"ENOENT"}
    assert seen["hosts"].split("\n") == ["127.0.0.1 localhost", "::1 localhost"]
    if platform.node() not in ("", "sandbox", "localhost"):
        assert platform.node() not in str(seen)


def test_il07_errors_tell_nothing_of_the_host(target):
    bodies = [
        b"{",
        b'{"code":"x","files":{"../x":"eA=="}}',
        b'{"code":"x","language":"/bin/sh"}',
        b'{"code":"x","files":{"a":"%%%"}}',
        b'{"code":"x","env":{"LD_PRELOAD":"x"}}',
        b'{"code":1}',
    ]
    for body in bodies:
        r = target.post("/execute", body)
        assert r.status == 400
        said = r.body.decode().replace("/bin/sh", "").replace("../x", "")
        for word in (
            target.state_dir,
            os.path.expanduser("~"),
            "/proc",
            "/tmp",
            str(target.pid),
            "0x",
        ):
            assert word not in said, (body, word)
    r = target.execute("raise SystemExit(open('/nonexistent'))")
    assert not re.search(r"sandbox-(state|launch|http|worker)", r["stderr"])


def test_il11_layouts_differ(target):
    code = """
    maps = text("/proc/self/maps").split("\\n")
    show(at=[next(l for l in maps if w in l).split("-")[0] for w in ("[stack]", "[heap]", "[vdso]")],
         random=text("/proc/sys/kernel/randomize_va_space").strip(), how=call(135, 0xffffffff))
    """
    seen = [look(target, code) for _ in range(12)]
    for n in range(3):
        assert len({one["at"][n] for one in seen}) == len(seen)
    assert {one["how"] for one in seen} <= {0, -1}

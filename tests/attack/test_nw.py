# SPDX-License-Identifier: GPL-2.0-only
"""Attacks on the network. Sockets are refused when they are made: nothing is ever sent."""

import os
import socket
import tempfile

from probes import look


def test_nw01_no_socket_that_could_reach_anything(target):
    seen = look(
        target,
        f"""
        import socket
        def made(family, kind, protocol=0):
            return tried(socket.socket, family, kind, protocol)
        inet, six = socket.AF_INET, socket.AF_INET6
        def to_server(): socket.create_connection(("127.0.0.1", {target.port}), 2)
        show(tcp=made(inet, socket.SOCK_STREAM), udp=made(inet, socket.SOCK_DGRAM),
             icmp=made(inet, socket.SOCK_DGRAM, 1), raw=made(inet, socket.SOCK_RAW, 1),
             tcp6=made(six, socket.SOCK_STREAM), udp6=made(six, socket.SOCK_DGRAM),
             server=tried(to_server))
        """,
    )
    assert set(seen.values()) == {"EAFNOSUPPORT"}, seen


def test_nw01_there_is_no_way_out_behind_it(target):
    """The second lock: a network namespace with a dead loopback, and no route."""
    seen = look(
        target,
        """
        def lines(name):
            try: return text("/proc/net/" + name).strip().split("\\n")[1:]
            except OSError: return []
        devices = [l.split(":")[0].strip() for l in text("/proc/net/dev").strip().split("\\n")[2:]]
        show(devices=devices, route=lines("route"), arp=lines("arp"), addresses=lines("if_inet6"))
        """,
    )
    assert seen == {"devices": ["lo"], "route": [], "arp": [], "addresses": []}


def test_nw02_names_are_not_resolved(target):
    seen = look(
        target,
        """
        import socket
        def resolve(name):
            try: socket.getaddrinfo(name, 80); return "ok"
            except socket.gaierror as e: return "gaierror"
            except OSError as e: return errno.errorcode[e.errno]
        show(outside=resolve("example.com"), resolv=opened("/etc/resolv.conf"),
             nscd=opened("/run/nscd/socket"), resolve1=opened("/run/systemd/resolve"))
        """,
    )
    assert seen["outside"] != "ok"
    assert {seen[k] for k in ("resolv", "nscd", "resolve1")} == {"ENOENT"}


def test_nw03_unix_sockets_of_the_host(target):
    place = tempfile.mkdtemp(prefix="sandbox-unix-", dir="/dev/shm")
    name = "sandbox-abstract-" + os.path.basename(place)
    with socket.socket(socket.AF_UNIX) as file, socket.socket(socket.AF_UNIX) as abstract:
        file.bind(place + "/s")
        os.chmod(place, 0o755)
        os.chmod(place + "/s", 0o777)
        file.listen()
        abstract.bind("\0" + name)
        abstract.listen()
        try:
            seen = look(
                target,
                f"""
                import socket
                def connect(path):
                    with socket.socket(socket.AF_UNIX) as s: s.connect(path)
                paths = ["/run/docker.sock", "/var/run/docker.sock", "/run/dbus/system_bus_socket",
                         "/tmp/.X11-unix/X0", {place + "/s"!r}, "\\0" + {name!r}]
                show(**{{p.strip("\\0"): tried(connect, p) for p in paths}})
                """,
            )
        finally:
            os.unlink(place + "/s")
            os.rmdir(place)
    assert seen.pop(name) in ("ECONNREFUSED", "EPERM")
    assert set(seen.values()) == {"ENOENT"}, seen


def test_nw05_no_port_can_be_had(target):
    seen = look(
        target,
        """
        import socket
        def bind(port):
            with socket.socket() as s: s.bind(("127.0.0.1", port)); s.listen()
        show(low=tried(bind, 80), any=tried(bind, 0))
        """,
    )
    assert seen == {"low": "EAFNOSUPPORT", "any": "EAFNOSUPPORT"}


def test_nw07_no_socket_of_the_launcher_is_reachable(target):
    seen = look(
        target,
        """
        fds = {f: os.readlink("/proc/self/fd/" + f).split(":")[0] for f in os.listdir("/proc/self/fd")
               if os.path.exists("/proc/self/fd/" + f) or f in "012"}
        import stat
        kinds = {n: stat.S_ISFIFO(os.fstat(n).st_mode) for n in (0, 1, 2)}
        sockets = [f for f, what in fds.items() if what == "socket"]
        show(sockets=sockets, pipes=kinds, unix=text("/proc/net/unix").strip().split("\\n")[1:])
        """,
    )
    assert seen == {"sockets": [], "pipes": {"0": True, "1": True, "2": True}, "unix": []}


def test_nw09_asking_for_a_network_gets_none(target):
    for wanted in (True, ["example.com"], ["*"]):
        r = target.post("/execute", {"code": "print(1)", "network": wanted})
        assert r.status in (403, 501), r
        assert r.json["code"] in ("network_not_allowed", "not_available_yet")
    for wanted in (False, None):
        seen = target.execute(
            "import socket\ntry: socket.socket()\nexcept OSError as e: print(e.errno)",
            network=wanted,
        )
        assert seen["stdout"] == "97\n"

# SPDX-License-Identifier: GPL-2.0-only
"""A world of its own for tests of the network: hosts, and a resolver that lies.

Run in a network namespace that nothing but a veth leads to: whatever a bug sends, it goes nowhere
else. Its first line of input says that the veth is there; it answers with a line when it serves.
What it was asked is told at http://10.77.0.2:81/. Its arguments: a certificate and its key.
"""

import http.server
import json
import os
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time
import urllib.parse

HERE = "10.77.0.2"
PUBLIC, PUBLIC6 = "11.1.1.1", "2a00::1"
NAMES = {
    "ok.test": [PUBLIC],
    "sub.ok.test": [PUBLIC],
    "example.org": [PUBLIC],
    "other.test": [PUBLIC],
    "index.test": [PUBLIC],
    "files.test": [PUBLIC],
    "ok.test.search.test": [PUBLIC],
    "absent.ok.test.search.test": [PUBLIC],
    "db.search.test": [PUBLIC],
    "squid.infra.search.test": [PUBLIC],
    "six.test": [PUBLIC6],
    "private.test": [HERE],
    "store.test": [HERE],
    "loop.test": ["127.0.0.1"],
    "metadata.test": ["169.254.169.254"],
    "zero.test": ["0.0.0.0"],
    "carrier.test": ["100.64.0.1"],
    "own.test": ["11.2.2.2"],
    "six-loop.test": ["::1"],
    "mapped.test": ["::ffff:127.0.0.1"],
    "mapped-private.test": ["::ffff:10.77.0.2"],
    "compatible.test": ["::127.0.0.1"],
    "nat64.test": ["64:ff9b::7f00:1"],
    "6to4.test": ["2002:7f00:1::"],
    "local.test": ["fd77::2"],
    "link.test": ["fe80::1"],
    "both.test": ["127.0.0.1", PUBLIC],
    "rebind.test": None,  # another answer each time
}
FILES = {  # where an index says that the wheel of a package is
    "greet": "http://files.test",
    "near": "http://store.test",
    "here": "http://loop.test",
    "odd": "http://files.test:22",
    "bare": "http://10.77.0.2",
}
asked = {"names": [], "hits": []}
turns = iter(range(1 << 30))


def answer(query):
    """What a resolver says to one question."""
    labels, at = [], 12
    while query[at]:
        labels.append(query[at + 1 : at + 1 + query[at]].decode("ascii", "replace"))
        at += 1 + query[at]
    name = ".".join(labels).lower()
    kind = struct.unpack(">H", query[at + 1 : at + 3])[0]
    question = query[12 : at + 5]
    asked["names"].append(name)
    found = NAMES.get(name, [])
    if found is None:
        found = [PUBLIC] if kind == 28 or next(turns) % 2 == 0 else ["127.0.0.1"]
    records = []
    for text in found:
        family = socket.AF_INET6 if ":" in text else socket.AF_INET
        if kind == (28 if family == socket.AF_INET6 else 1):
            data = socket.inet_pton(family, text)
            records.append(b"\xc0\x0c" + struct.pack(">HHIH", kind, 1, 0, len(data)) + data)
    code = 0x8180 if name in NAMES else 0x8183
    return query[:2] + struct.pack(">HHHHH", code, 1, len(records), 0, 0) + question + b"".join(records)


def resolver():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind((HERE, 53))
    while True:
        query, who = s.recvfrom(4096)
        s.sendto(answer(query), who)


class Host(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def do_GET(self):
        path = urllib.parse.urlsplit(self.path)
        if self.server.server_port == 81:
            return self.say(json.dumps(asked).encode())
        asked["hits"].append([self.headers["Host"], self.path])
        if path.path == "/to":
            self.send_response(302)
            self.send_header("Location", urllib.parse.parse_qs(path.query)["u"][0])
            self.send_header("Content-Length", "0")
            return self.end_headers()
        if path.path.startswith(("/git/", "/wheels/")):
            return self.file(path.path)
        if path.path in ("/slow", "/endless", "/simple/slow/"):
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            try:
                while True:
                    self.wfile.write(b"x" * (65536 if path.path == "/endless" else 1))
                    time.sleep(0 if path.path == "/endless" else 0.2)
            except OSError:
                return None
        if path.path.startswith("/simple/"):
            return self.index(path.path.split("/")[2])
        return self.say(f"world {self.headers['Host']}".encode())

    do_HEAD = do_GET

    def index(self, name):
        """The page of a package; a redirect, for one whose name says where to."""
        if name.startswith("to-"):
            self.send_response(302)
            self.send_header("Location", FILES[name[3:]] + "/simple/greet/")
            self.send_header("Content-Length", "0")
            return self.end_headers()
        wheel = f"{name}-1.0-py3-none-any.whl"
        body = f'<a href="{FILES[name]}/wheels/{wheel}">{wheel}</a>\n'.encode() if name in FILES else b""
        return self.say(body, 200 if body else 404, "text/html")

    def file(self, path):
        """Of a repository that lies beside the certificate, as any web server would have it."""
        try:
            with open(os.path.dirname(sys.argv[1]) + path, "rb") as f:
                return self.say(f.read())
        except OSError:
            return self.say(b"", 404)

    def say(self, body, status=200, kind="application/octet-stream"):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)


class Server(http.server.ThreadingHTTPServer):
    def __init__(self, address, port):
        self.address_family = socket.AF_INET6 if ":" in address else socket.AF_INET
        super().__init__((address, port), Host)
        if port == 443:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(sys.argv[1], sys.argv[2])
            self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)


def main():
    sys.stdin.readline()
    for words in (
        "link set lo up",
        f"addr add {HERE}/24 dev v1",
        "addr add fd77::2/64 dev v1 nodad",
        "link set v1 up",
        f"addr add {PUBLIC}/32 dev lo",
        f"addr add {PUBLIC6}/128 dev lo nodad",
        "addr add 169.254.169.254/32 dev lo",
        "addr add 100.64.0.1/32 dev lo",
    ):
        subprocess.run(["ip", *words.split()], check=True)
    places = [(HERE, 80), (HERE, 81), (PUBLIC, 80), (PUBLIC, 443), (PUBLIC, 22), (PUBLIC6, 80)]
    for place in [*places, ("169.254.169.254", 80), ("100.64.0.1", 80), ("fd77::2", 80)]:
        threading.Thread(target=Server(*place).serve_forever, daemon=True).start()
    threading.Thread(target=resolver, daemon=True).start()
    print("ready", flush=True)
    sys.stdin.readline()  # the test ends


main()

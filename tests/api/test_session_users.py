# SPDX-License-Identifier: GPL-2.0-only
"""Sessions whose user is root: of the session, and of nothing else."""

import os
import re
import shutil
import tempfile

import pytest

from conftest import BINARY, Server, open_to_all, wait_for
from test_12_failing_steps import hooked
from test_session_roots import make_image
from test_session_versions import checkpoint, diff, fork, restore
from test_sessions import Session, call, files_left, on
from test_sessions_plain import WithoutCgroup

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="sessions need a server started as root")

# CHOWN DAC_OVERRIDE FOWNER FSETID KILL SETGID SETUID SYS_CHROOT
CAPS = sum(1 << n for n in (0, 1, 3, 4, 5, 6, 7, 18))
IDS = 65536


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    state = str(tmp_path_factory.mktemp("state"))
    open_to_all(state)
    root = make_image(state, "small")
    os.mkdir(f"{root}/set-id")
    shutil.copy(f"{root}/bin/busybox", f"{root}/set-id/busybox")
    os.chmod(f"{root}/set-id/busybox", 0o4755)
    env = {"SANDBOX_SESSIONS": "on", "SANDBOX_WARM": "0", "SANDBOX_DISK_MB": "64"}
    server = Server({**env, "SANDBOX_STATE_DIR": state}, mode="shell")
    server.state_dir, server.image_root = state, root
    yield server
    server.stop()


@pytest.fixture
def root(served):
    one = Session(served, user="root")
    yield one
    one.close()


def test_what_is_mounted_is_not_even_roots(root):
    assert call(root.server, "DELETE", root.file("/usr"), status=403)["code"] == "blocked_path"
    assert root.out("echo still here") == "still here\n"


def python(one, code):
    one.write("try.py", code.encode())
    return one.out("python3 -u try.py; rm try.py")


def status(one):
    text = one.out("cat /proc/self/status")
    return dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)


def first_id(one):
    inside, outside, count = map(int, one.out("cat /proc/self/uid_map").split())
    assert (inside, count) == (0, IDS) and one.out("cat /proc/self/gid_map").split() == ["0", str(outside), str(IDS)]
    return outside


def test_root_has_eight_rights_over_ids_of_its_own(root, served):
    assert root.opened["user"] == "root" and call(served, "GET", root.path)["user"] == "root"
    assert root.out("id") == "uid=0(root) gid=0(root) groups=0(root)\n"
    first = first_id(root)
    assert first > IDS and first % IDS != 0
    seen = status(root)
    for which in ("CapPrm", "CapEff", "CapBnd"):
        assert int(seen[which], 16) == CAPS, (which, seen[which])
    assert int(seen["CapInh"], 16) == int(seen["CapAmb"], 16) == 0
    assert (seen["NoNewPrivs"], seen["Seccomp"], seen["Groups"].strip()) == ("1", "2", "")
    # process 1 and, when it has started it, a command's own init have none of them
    look = "grep -hE 'Cap(Prm|Eff)|NoNewPrivs' /proc/1/status /proc/$PPID/status"
    none = ["CapPrm:", "0" * 16, "CapEff:", "0" * 16, "NoNewPrivs:", "1"] * 2
    wait_for(lambda: root.out(f"sleep 0.2; {look}").split() == none)
    # what others do not do with it
    assert root.out("touch /new /etc/new; chown 5:6 /new; stat -c '%u %g' /new") == "5 6\n"
    assert root.out("mkdir -p j/bin; cp /usr/bin/busybox j/bin; /usr/sbin/chroot j /bin/busybox pwd") == "/\n"


def test_others_are_not_root(served):
    one = Session(served)
    assert one.opened["user"] == "sandbox" and call(served, "GET", one.path)["user"] == "sandbox"
    assert one.out("id -u") == "1000\n" and int(status(one)["CapBnd"], 16) == 0
    one.close()
    assert served.execute("id -u")["stdout"] == "1000\n"
    r = served.post("/execute", {"code": "id -u", "user": "root"})
    assert r.status == 400 or r.json["stdout"] == "1000\n"
    for wrong in ("admin", "", "0"):
        assert call(served, "POST", "/sessions", {"user": wrong}, 400)["error"] == "user must be sandbox or root"
    call(served, "POST", "/sessions", {"user": 0}, 400)
    assert files_left(served) == []


def test_who_it_becomes_has_nothing_left_and_no_way_back(root):
    root.out("cp /usr/bin/id set-id; chmod 6755 set-id; chmod 777 .")
    code = """
import os
os.setgroups([20, 30]); os.setresgid(33, 33, 33); os.setresuid(34, 34, 34)
print(os.getgroups(), os.getresuid(), os.getresgid())
print([l.split()[1] for l in open("/proc/self/status") if l.startswith(("CapPrm", "CapEff", "CapInh"))])
for back in (lambda: os.setuid(0), lambda: os.setgid(0), lambda: os.setgroups([0]), lambda: os.chown("set-id", 34, 34)):
    try:
        print("worked", back())
    except PermissionError as e:
        print("no")
os.execv("./set-id", ["id", "-u"])
"""
    none = "0" * 16
    assert python(root, code) == (
        f"[20, 30] (34, 34, 34) (33, 33, 33)\n{[none] * 3}\nno\nno\nno\nno\n34\n"
    )


def test_what_only_the_hosts_root_may_is_refused(root):
    code = r"""
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *args):
    r = libc.syscall(number, *args)
    return errno.errorcode[ctypes.get_errno()] if r < 0 else "ok"
for name, number, *args in (
    ("mount", 165, b"x", b"/tmp", b"tmpfs", 0, 0), ("remount", 165, None, b"/proc/sys", None, 32 | 4096, None),
    ("umount", 166, b"/proc", 2), ("pivot_root", 155, b"/", b"/tmp"), ("fsopen", 430, b"tmpfs", 0),
    ("open_tree", 428, -100, b"/", 1), ("unshare", 272, 0x10000000), ("setns", 308, 0, 0),
    ("mknod", 133, b"/tmp/d", 0o20666, 0x103),
    ("sethostname", 170, b"x", 1), ("ptrace", 101, 16, 1, 0, 0), ("bpf", 321, 0, 0, 0), ("capset", 126, 0, 0),
    ("init_module", 175, 0, 0, 0), ("reboot", 169, 0, 0, 0, 0), ("open_by_handle_at", 304, -100, 0, 0),
):
    print(name, call(number, *args))
def deny(what, f):
    try:
        f(); print(what, "ok")
    except OSError as e:
        print(what, errno.errorcode[e.errno])
open("/tmp/f", "w").close()
caps = bytes([0, 0, 0, 2]) + bytes([255]) * 8 + bytes(8)
deny("file capabilities", lambda: os.setxattr("/tmp/f", "security.capability", caps))
deny("trusted", lambda: os.setxattr("/tmp/f", "trusted.overlay.opaque", b"y"))
deny("ids beyond", lambda: os.chown("/tmp/f", 65536, 0))
deny("null", lambda: os.chmod("/dev/null", 0))
deny("dev", lambda: open("/dev/new", "w"))
deny("sysctl", lambda: open("/proc/sys/net/ipv4/ip_forward", "w"))
deny("namespaces", lambda: open("/proc/sys/user/max_user_namespaces", "w"))
deny("usr", lambda: open("/usr/new", "w"))
deny("process 1", lambda: os.readlink("/proc/1/root"))
deny("its memory", lambda: open("/proc/1/mem", "rb"))
deny("map", lambda: os.write(os.open("/proc/self/uid_map", os.O_WRONLY), b"0 0 1"))
import socket
deny("raw", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))
deny("packet", lambda: socket.socket(17, socket.SOCK_RAW, 0))
"""
    answers = dict(line.rsplit(" ", 1) for line in python(root, code).splitlines())
    assert {n for n, a in answers.items() if a == "ok"} == set(), answers
    assert answers["file capabilities"] == "EPERM" and answers["ids beyond"] == "EINVAL"
    assert answers["mount"] == answers["unshare"] == answers["capset"] == answers["ptrace"] == "EPERM"


def test_root_of_one_has_nothing_of_another(served, root):
    other = Session(served, user="root")
    one, two = first_id(root), first_id(other)
    assert abs(one - two) >= IDS
    for n, s in enumerate((root, other)):
        s.out(
            f"echo secret > mine; echo secret > /tmp/mine; echo secret > /dev/shm/mine; echo secret > /etc/mine{n};"
            " chmod 600 mine; sleep 1000 >/dev/null 2>&1 &"
        )
    names = "python3 -c 'import socket; s=socket.socket(socket.AF_UNIX); s.bind(\"\\0name\"); s.listen(99); input()'"
    other.out(f"(sleep 999 | {names}) >/dev/null 2>&1 & python3 -m http.server 8123 >/dev/null 2>&1 &")
    other.out("rm /tmp/mine; echo other > mine")
    reach = """
import socket
for family, at in ((socket.AF_UNIX, "\\0name"), (socket.AF_INET, ("127.0.0.1", 8123))):
    try:
        socket.socket(family).connect(at); print("reached")
    except ConnectionRefusedError:
        print("refused")
"""
    wait_for(lambda: python(other, reach) == "reached\nreached\n")
    assert python(root, reach) == "refused\nrefused\n"
    assert root.out("cat mine; cat /tmp/mine; ls /etc/mine*") == "secret\nsecret\n/etc/mine0\n"
    # a kill of everybody reaches one's own, and not process 1
    ended = root.exec("kill -9 1; kill -9 -1")
    assert (ended["exit_code"], ended["meta"]["verdict"]) == (137, "signal")
    wait_for(lambda: root.out("pgrep -c sleep || true") == "0\n")
    assert other.out("pgrep -c sleep; cat mine") == "2\nother\n"
    # on the host: nobody has an id of another
    layers = os.walk(f"{served.state_dir}/sessions/layers")
    owners = {os.lstat(os.path.join(d, n)).st_uid for d, ds, fs in layers for n in ds + fs} - {0}
    assert owners and all(one <= u < one + IDS or two <= u < two + IDS for u in owners), owners
    other.close()


def test_files_of_many_owners_are_read_listed_and_removed(root):
    root.out("mkdir d d/e; echo text > d/f; echo deep > d/e/g; chown 7:8 d/f; chown -R 9:9 d/e")
    root.out("chmod 700 d/e; chmod 0 d/f d/e/g")
    assert root.read("d/f") == (200, b"text\n") and root.read("d/e/g") == (200, b"deep\n")
    names = [e["name"] for e in call(root.server, "GET", root.file("d/"))["entries"]]
    assert names == ["e", "f"]
    assert root.write("d/e/new", b"x")[0] == 200 and root.out("stat -c %u d/e/new d/f") == "0\n7\n"
    assert root.write("/opt/new", b"x")[0] == 200
    assert root.read("/etc/passwd")[0] == 403
    assert root.server.request("DELETE", root.file("d?recursive=true")).status == 200
    assert root.out("ls") == ""


def test_versions_keep_every_owner(served):
    one = Session(served, user="root", image="small")
    first = first_id(one)
    # its image's files are root's here, whoever has them outside, and stay as they are there
    assert one.out("stat -c '%u %g' /etc/release /bin/busybox /") == "0 0\n" * 3
    code = "stat -c '%u %g %a' /srv /srv/a f /etc/release"
    one.out("echo mine > /etc/release; mkdir /srv; echo a > /srv/a; touch f gone")
    one.out("busybox chown 5:6 /srv/a; busybox chown 0:8 /srv")
    one.out("busybox chmod 2755 /srv; busybox chown 65535:65535 f; busybox chmod 751 /")
    owned = one.out(code)
    assert owned == "0 8 2755\n5 6 644\n65535 65535 644\n0 0 644\n"
    with open(f"{served.image_root}/etc/release", encoding="ascii") as f:
        assert f.read() == "small\n"
    added = ["/srv", "/srv/a", "/work/f", "/work/gone"]
    assert diff(one) == {"added": added, "modified": ["/etc/release"], "deleted": []}
    name = checkpoint(one)
    assert one.out(code) == owned and one.out("stat -c %a /") == "751\n"
    one.out("busybox chown 7 /srv/a; rm gone; echo b > /srv/b")
    assert diff(one, name) == {"added": ["/srv/b"], "modified": ["/srv/a"], "deleted": ["/work/gone"]}
    (two,) = fork(one)
    assert call(served, "GET", two.path)["user"] == "root"
    assert first_id(two) == first_id(one)
    assert two.out("stat -c %u /srv/a; ls /srv") == "7\na\nb\n"
    restore(one, name)
    assert one.out(code) == owned and one.out("ls") == "f\ngone\n"
    two.out("rm -r /srv")
    assert one.out("ls /srv") == "a\n"
    # many layers become one
    for n in range(30):
        two.out(f"echo {n} > all; busybox chown {n + 1}:{n + 2} all")
        two.out(f"mkdir -p g; busybox chown 0:9 g; busybox chmod 2775 g; touch g/{n}")
        checkpoint(two)
    wait_for(lambda: "session.flat" in served.log(), 60)
    assert two.out("stat -c '%u %g %a' all g /") == "30 31 644\n0 9 2775\n0 0 751\n"
    assert first == first_id(one) == first_id(two)
    one.close()
    two.close()
    wait_for(lambda: files_left(served) == [], 60)


def test_what_has_changed_where_root_may_change_everything(root):
    root.out("echo x > /etc/hosts; rm /etc/hostname; echo new > /etc/new; touch /root/.x")
    root.out("mkdir -p /opt/y; echo z > /work/z")
    assert diff(root) == {
        "added": ["/etc/new", "/opt", "/opt/y", "/root/.x", "/work/z"],
        "modified": ["/etc/hosts"],
        "deleted": ["/etc/hostname"],
    }
    name = checkpoint(root)
    root.out("rm /etc/hosts /etc/new; chown 7 /work/z")
    assert diff(root, name) == {"added": [], "modified": ["/work/z"], "deleted": ["/etc/hosts", "/etc/new"]}


def test_who_removes_the_shell_is_told_so(served):
    one = Session(served, user="root", image="small")
    one.out("busybox mkdir /kept; busybox mv /bin /kept/bin")
    answer = call(served, "POST", f"{one.path}/exec", {"command": "true"}, status=409)
    assert answer["code"] == "no_shell" and "/bin/sh" in answer["error"]
    one.close()


def test_no_file_of_an_image_or_a_layer_gives_more(served):
    """Neither one that the image has with that bit, nor one that root made so."""
    one = Session(served, user="root", image="small")
    one.out("echo 'nobody:x:99:99::/:/bin/sh' > /etc/passwd; echo 'n:x:99:' > /etc/group")
    one.out("mkdir /layer; busybox cp /bin/busybox /layer/busybox; busybox chmod 6755 /layer/busybox")
    assert one.out("stat -c '%a %u' /set-id/busybox /layer/busybox") == "4755 0\n6755 0\n"
    for program in ("/set-id/busybox", "/layer/busybox"):
        ids = f"{program} id -u; {program} id -g; {program} grep CapEff /proc/self/status"
        assert one.out(f'busybox su -s /bin/sh nobody -c "{ids}"') == f"99\n99\nCapEff:\t{0:016x}\n"
    one.close()


def test_the_disk_quota_counts_files_of_all(root):
    r = root.exec("touch a; chown 5:5 a; chmod 666 a; head -c 200M /dev/zero > a; sleep 5; echo not ended")
    assert r["meta"]["verdict"] == "disk_full" and "not ended" not in r["stdout"]
    assert root.out("rm a; echo fine") == "fine\n"


def test_it_is_root_after_the_end_of_everything(start, tmp_path):
    os.chmod(tmp_path, 0o755)
    s = on(start, state_dir=str(tmp_path))
    one, plain = Session(s, "r", user="root"), Session(s, "p")
    one.out("echo kept > a; chown 5 a")
    first = first_id(one)
    s.kill()
    s = on(start, state_dir=str(tmp_path))
    again = Session(s, "r")
    assert (again.opened["created"], again.opened["user"]) == (False, "root")
    assert first_id(again) == first and again.out("cat a; stat -c %u a; id -u") == "kept\n5\n0\n"
    assert Session(s, "p", user="root").opened["user"] == "sandbox"
    # files that came from elsewhere are no reason to be somebody
    again.close()
    wait_for(lambda: len(files_left(s)) == 2, 60)


def test_it_is_not_entered_where_none_could_be_opened(start, tmp_path):
    os.chmod(tmp_path, 0o755)
    s = on(start, state_dir=str(tmp_path))
    Session(s, "r", user="root").out("echo kept > a")
    s.kill()
    less = WithoutCgroup({"SANDBOX_SESSIONS": "on", "SANDBOX_WARM": "0"}, (), "shell", str(tmp_path))
    try:
        for path, body in (("/sessions/workflow_r_sandbox/exec", {"command": "id"}), ("/sessions", {"user": "root"})):
            r = less.post(path, body)
            assert (r.status, r.json["code"]) == (400, "root_not_available") and "cgroup" in r.json["error"], r
    finally:
        less.stop()
    assert Session(on(start, state_dir=str(tmp_path)), "r").out("cat a; id -u") == "kept\n0\n"


@hooked
def test_an_image_is_not_shown_to_root_where_no_overlay_takes_it_mapped(start, served, tmp_path):
    """As before Linux 5.19; which is found by trying, and so it is here."""
    assert "without=images" not in served.log()
    os.chmod(tmp_path, 0o755)
    make_image(str(tmp_path), "small")
    s = on(start, state_dir=str(tmp_path))
    Session(s, "r", user="root", image="small").out("echo kept > a")
    s.kill()
    s = on(start, state_dir=str(tmp_path), SANDBOX_TEST_FAULT="mapped_overlay")
    assert "without=images" in s.wait_log(r"session\.root ")
    tried = {"/sessions/workflow_r_sandbox/exec": {"command": "id"}, "/sessions": {"user": "root", "image": "small"}}
    for path, body in tried.items():
        r = s.post(path, body)
        assert (r.status, r.json["code"]) == (400, "root_not_available") and "Linux 5.19" in r.json["error"], r
    # what needs no mapping is there
    assert Session(s, user="root").out("id -u") == "0\n"
    assert Session(s, image="small").out("cat /etc/release") == "small\n"


class Elsewhere(Server):
    """Where others have the ids, by the file that says so."""

    def command_line(self, args, env):
        return ["unshare", "-m", "sh", "-c", f'mount --bind {self.taken} /etc/subuid && exec "$@"', "sh", BINARY, *args]


def test_ids_of_others_are_not_taken():
    with tempfile.NamedTemporaryFile("w", suffix=".subuid") as f:
        f.write("somebody:640000:65536\n")
        f.flush()
        Elsewhere.taken = f.name
        s = Elsewhere({"SANDBOX_SESSIONS": "on", "SANDBOX_WARM": "0"}, mode="shell")
        try:
            answer = call(s, "POST", "/sessions", {"user": "root"}, 400)
            assert answer["code"] == "root_not_available" and "/etc/subuid" in answer["error"]
            assert not os.path.exists(f"{s.state_dir}/sessions/layers") or files_left(s) == []
            assert Session(s).out("id -u") == "1000\n"
        finally:
            s.stop()


def test_ranges_are_behind_all_other_ids():
    s = Server({"SANDBOX_SESSIONS": "on", "SANDBOX_WARM": "0", "SANDBOX_UID_BASE": "10000"}, mode="shell")
    try:
        assert first_id(Session(s, user="root")) >= 65536
        text = Session(s).out("cat /proc/self/uid_map").split()
        assert re.fullmatch("1[01][0-9]{3}", text[1])
    finally:
        s.stop()

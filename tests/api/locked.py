# SPDX-License-Identifier: GPL-2.0-only
"""Runs a command as in a container that allows no namespaces.

    python3 locked.py [--uid UID] [--drop] [--no-landlock] COMMAND ...

A filter as container engines have it: no new namespace, no mount, no chroot, no keyrings;
clone3 is unknown. --uid: as that user, who has no rights; --drop: root with the rights that
engines leave it, and without CAP_SYS_ADMIN; --bare: root without a right; --no-landlock: a
kernel without it.
"""

import ctypes
import os
import struct
import sys

ENOSYS, EPERM, EOPNOTSUPP = 38, 1, 95
ALLOW, ERRNO, KILL = 0x7FFF0000, 0x00050000, 0x80000000
AUDIT_ARCH_X86_64 = 0xC000003E
NEW_NAMESPACES = 0x7E020000  # CLONE_NEW*
# mount, umount2, pivot_root, chroot, setns, fsopen, fsmount, open_tree, move_mount,
# mount_setattr, keyctl, add_key, request_key, bpf, sethostname
REFUSED = (165, 166, 155, 161, 308, 430, 432, 428, 429, 442, 250, 248, 249, 321, 170)
CLONE, UNSHARE, CLONE3, LANDLOCK = 56, 272, 435, 444
# chown, dac_override, fowner, fsetid, kill, setgid, setuid, setpcap, net_bind_service,
# net_raw, sys_chroot, mknod, audit_write, setfcap
ENGINES_LEAVE = (0, 1, 3, 4, 5, 6, 7, 8, 10, 13, 18, 27, 29, 31)

libc = ctypes.CDLL(None, use_errno=True)


def check(result, what):
    if result < 0:
        raise OSError(ctypes.get_errno(), what)


def filter_of(landlock):
    load, jump_eq, jump_set, ret = 0x20, 0x15, 0x45, 0x06
    lines = [
        (load, 0, 0, 4),
        (jump_eq, 1, 0, AUDIT_ARCH_X86_64),
        (ret, 0, 0, KILL),
        (load, 0, 0, 0),
    ]
    refused = {nr: EPERM for nr in REFUSED} | {CLONE3: ENOSYS}
    if not landlock:
        refused[LANDLOCK] = EOPNOTSUPP
    for nr, errno in refused.items():
        lines += [(jump_eq, 0, 1, nr), (ret, 0, 0, ERRNO | errno)]
    lines += [(jump_eq, 1, 0, CLONE), (jump_eq, 0, 3, UNSHARE), (load, 0, 0, 16)]
    lines += [(jump_set, 0, 1, NEW_NAMESPACES), (ret, 0, 0, ERRNO | EPERM), (ret, 0, 0, ALLOW)]
    return b"".join(struct.pack("HBBI", *line) for line in lines), len(lines)


def install(landlock):
    code, count = filter_of(landlock)
    code = ctypes.create_string_buffer(code, len(code))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", count, ctypes.addressof(code)))
    if libc.prctl(22, 2, ctypes.byref(program), 0, 0) < 0:  # without CAP_SYS_ADMIN
        check(libc.prctl(38, 1, 0, 0, 0), "no_new_privs")
        check(libc.prctl(22, 2, ctypes.byref(program), 0, 0), "seccomp")


def keep_rights(wanted):
    """None that is not wanted; engines differ in what they give."""
    with open("/proc/self/status", encoding="ascii") as f:
        have = int(next(line for line in f if line.startswith("CapPrm")).split()[1], 16)
    kept = [c for c in wanted if have >> c & 1]
    for cap in range(64):
        if cap not in kept:
            libc.prctl(24, cap, 0, 0, 0)  # what the kernel does not know fails
    mask = sum(1 << c for c in kept)
    low, high = mask & 0xFFFFFFFF, mask >> 32
    data = struct.pack("6I", low, low, 0, high, high, 0)
    check(libc.capset(struct.pack("Ii", 0x20080522, 0), data), "capset")


def main():
    args, uid, landlock, kept = sys.argv[1:], None, True, None
    while args and args[0].startswith("--"):
        flag = args.pop(0)
        if flag == "--uid":
            uid = int(args.pop(0))
        elif flag == "--no-landlock":
            landlock = False
        else:
            kept = {"--drop": ENGINES_LEAVE, "--bare": ()}[flag]
    if uid is not None:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    install(landlock)
    if kept is not None:
        keep_rights(kept)
    os.execv(args[0], args)


main()

# SPDX-License-Identifier: GPL-2.0-only
"""A container runtime with a seccomp listener of its own: outer_listener.py PROGRAM ARGUMENT...

Loads a filter that reports one call nobody needs (getpmsg), leaves a process that lets every
reported call go on, and becomes the program.
"""

import array
import ctypes
import os
import select
import socket
import struct
import sys

import fcntl

GETPMSG = 181
SECCOMP = 317
RECV = 0xC0502100
SEND = 0xC0182101
GO_ON = 1


def instruction(code, jt, jf, k):
    return struct.pack("HBBI", code, jt, jf, k)


def load():
    libc = ctypes.CDLL(None, use_errno=True)
    filter_ = b"".join(
        [
            instruction(0x20, 0, 0, 0),  # the call's number
            instruction(0x15, 0, 1, GETPMSG),
            instruction(0x06, 0, 0, 0x7FC00000),  # notify
            instruction(0x06, 0, 0, 0x7FFF0000),  # allow
        ]
    )
    text = ctypes.create_string_buffer(filter_)
    program = struct.pack("HxxxxxxP", len(filter_) // 8, ctypes.addressof(text))
    if libc.prctl(38, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "no_new_privs")
    fd = libc.syscall(SECCOMP, 1, 8, program)
    if fd < 0:
        raise OSError(ctypes.get_errno(), "seccomp")
    return fd


def hold(fd):
    """Until nobody is left who could call."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    while not poll.poll()[0][1] & select.POLLHUP:
        notice = bytearray(80)
        fcntl.ioctl(fd, RECV, notice)
        fcntl.ioctl(fd, SEND, bytearray(notice[:8] + struct.pack("qiI", 0, 0, GO_ON)))


def main():
    ours, theirs = socket.socketpair()
    if os.fork() == 0:  # twice: the program shall have no child it did not make
        if os.fork() == 0:
            theirs.close()
            _, control, _, _ = ours.recvmsg(1, socket.CMSG_LEN(4))
            os.setsid()
            for n in range(3):
                os.close(n)
            hold(array.array("i", control[0][2][:4])[0])
        os._exit(0)
    os.wait()
    ours.close()
    fd = load()
    theirs.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))])
    os.close(fd)
    os.execv(sys.argv[1], sys.argv[1:])


main()

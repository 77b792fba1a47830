/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * caps.h - rights of our own processes; the only libcap user
 *
 * Not for the child between clone3 and execve: libcap allocates.
 */
#ifndef BASE_CAPS_H
#define BASE_CAPS_H

#include <linux/capability.h>
#include <linux/securebits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* keep what the launcher needs of what it was given; the rest goes, bounding set too */
int caps_keep_for_launcher(void);
/* Of root inside a session, in the user namespace of that session: what installing
 * software takes, and nothing that concerns mounts, networks, devices or the kernel. */
#define CAPS_ROOT_INSIDE                                                     \
	((1u << CAP_CHOWN) | (1u << CAP_DAC_OVERRIDE) | (1u << CAP_FOWNER) | \
	 (1u << CAP_FSETID) | (1u << CAP_KILL) | (1u << CAP_SETGID) |        \
	 (1u << CAP_SETUID) | (1u << CAP_SYS_CHROOT))
/* Root's usual ways of losing them stay, and no other way of keeping them across execve
 * than to be root. What programs say before they change their uid is not refused: it
 * keeps rights that are not in effect, and capset() is. */
#define CAPS_ROOT_INSIDE_BITS                                   \
	(SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP_LOCKED | \
	 SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED)

/* become uid:gid without groups, without a capability, with no_new_privs; verified */
int caps_become_nobody(uid_t uid, gid_t gid);
/* the same, but it may read every file, if the caller may */
int caps_become_reader(uid_t uid, gid_t gid);
/* in another user namespace, with all rights there: become its root, with those above */
int caps_become_root_inside(void);
/* become nobody, keeping the present ids */
int caps_drop_all(void);
bool caps_have(const char *name); /* "cap_sys_admin", effective */

#endif

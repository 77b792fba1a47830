/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * caps.h - rights of our own processes; the only libcap user
 *
 * Not for the child between clone3 and execve: libcap allocates.
 */
#ifndef BASE_CAPS_H
#define BASE_CAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* keep what the launcher needs of what it was given; the rest goes, bounding set too */
int caps_keep_for_launcher(void);
/* become uid:gid without groups, without a capability, with no_new_privs; verified */
int caps_become_nobody(uid_t uid, gid_t gid);
/* as above, keeping the present ids */
int caps_drop_all(void);
bool caps_have(const char *name); /* "cap_sys_admin", effective */

#endif

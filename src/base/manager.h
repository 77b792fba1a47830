/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * manager.h - the service manager that started us, if it wants to be told how we are
 */
#ifndef BASE_MANAGER_H
#define BASE_MANAGER_H

#include <stdbool.h>

/* NOTIFY_SOCKET is set */
bool manager_listens(void);
/*
 * The assignments of sd_notify(3), a line each. 0, also when nobody listens; -1 with
 * errno. Waits while the manager's socket is full: what it is not told it would wait for.
 */
int manager_tell(const char *state);

#endif

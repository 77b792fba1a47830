/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * inside.h - what the parts of our binary inside a session share; for inside*.c only
 */
#ifndef SESSION_INSIDE_H
#define SESSION_INSIDE_H

#include <stdbool.h>

int inside_status(int num);     /* the exit status of an errno */
bool inside_is_kernels(int fd); /* proc, sysfs: nobody's files, by whatever name */
int inside_list(char **words);  /* inside_list.c */

/* --- inside_partial.c: names of files that are being written
 *
 * ".sandbox-N.partial". Who has one holds a lock on its file; one without is what was
 * left by a write that was killed, and never shown. */
bool partial_is(const char *name);
/* removes it, if it was left */
void partial_sweep(int dir_fd, const char *name);
void partial_sweep_all(int dir_fd);
/* a new file that has one; its descriptor, or -1 with errno */
int partial_open(int dir_fd, char out_name[32]);
/* gives one to an open file, which must be locked; 0, or -1 with errno */
int partial_link(int fd, int dir_fd, char out_name[32]);

#endif

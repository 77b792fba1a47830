/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * finish.h - a forked run's program, and a short end
 */
#ifndef PYTHON_FINISH_H
#define PYTHON_FINISH_H

#include <stdio.h>

/* in the template, with python's lock held, before anything is frozen */
void finish_prepare(void);
/* in a run, with python's lock held: runs the script and ends the process */
_Noreturn void finish_run(FILE *script, const char *path);

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * fork.h - a started interpreter as a slot's worker
 */
#ifndef PYTHON_FORK_H
#define PYTHON_FORK_H

void fork_begin(void); /* before main(): takes the descriptors of launcher/fork.h */
/* says why to the launcher, and ends */
_Noreturn void fork_fail(const char *step, int num);
/* returns in a run's program only, with python's lock held */
void fork_serve(void);

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * huge.h - what an interpreter has before its program, in pages that count as one
 */
#ifndef PYTHON_HUGE_H
#define PYTHON_HUGE_H

/* as far as the kernel does it; to be called last, when little is written any more */
void huge_all(int proc_fd);

#endif

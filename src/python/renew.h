/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * renew.h - what a forked run must not have from the interpreter it was forked from
 */
#ifndef PYTHON_RENEW_H
#define PYTHON_RENEW_H

void renew_prepare(void); /* before the first fork, with python's lock */
void renew_all(void);     /* in the program, before any of its code */

#endif

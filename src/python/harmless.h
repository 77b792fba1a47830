/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * harmless.h - a program that has ended, and whose objects' end nobody can see
 */
#ifndef PYTHON_HARMLESS_H
#define PYTHON_HARMLESS_H

#include <stdbool.h>

/* in the template, with python's lock held, before and after all there is is frozen */
void harmless_prepare(void *gc); /* the collector's module */
void harmless_begin(void);
/* at the program's end, when its streams were flushed: nothing else of it, nor of what
 * was there before, has anything left to say */
bool harmless_all(void);

#endif

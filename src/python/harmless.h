/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * harmless.h - objects whose end nobody can see
 */
#ifndef PYTHON_HARMLESS_H
#define PYTHON_HARMLESS_H

#include <stdbool.h>

/* in the template, with python's lock held, before and after all there is is frozen */
void harmless_prepare(void *gc); /* the collector's module */
void harmless_begin(void);
/* all that the program made and the collector knows of; what it does not know of are
 * plain values, as long as no other modules are there than the template had */
bool harmless_all(void);

#endif

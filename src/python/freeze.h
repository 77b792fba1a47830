/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * freeze.h - what an interpreter has before its program, out of its collector's way
 */
#ifndef PYTHON_FREEZE_H
#define PYTHON_FREEZE_H

int freeze_all(void); /* with python's lock held; -1: this python cannot */

#endif

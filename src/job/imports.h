/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * imports.h - the program that looks for imports, which the binary carries
 */
#ifndef JOB_IMPORTS_H
#define JOB_IMPORTS_H

extern const char imports_script[]; /* src/job/imports.py, and a NUL */

#endif

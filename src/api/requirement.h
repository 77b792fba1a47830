/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * requirement.h - a package that a program needs, as its installer may be told
 *
 * Only what names a package of the index and which of its versions will do. What an
 * installer would take for an option, an address, a path or a repository is refused
 * here, before anything is started. Pure functions.
 */
#ifndef API_REQUIREMENT_H
#define API_REQUIREMENT_H

#include <stdbool.h>
#include <stddef.h>

struct err;

#define REQUIREMENT_MOST 512  /* bytes of one, as it came */
#define REQUIREMENT_ROOM 1536 /* in one form of it, with the NUL */
#define REQUIREMENTS_MOST 100 /* of a request */

/*
 * Each writes the one form that all spellings of the same requirement have. 0, or -1 and
 * 400 bad_requirement that names the element; out changes on success only.
 */
/* PEP 508 without addresses: name, extras, versions, marker */
int requirement_python(const char *text, size_t len, char out[REQUIREMENT_ROOM],
		       struct err *e);
/* name or @scope/name, then @ and a version, a range or a tag */
int requirement_npm(const char *text, size_t len, char out[REQUIREMENT_ROOM],
		    struct err *e);

/* requirement_version.c: PEP 440; of a release at least so many numbers */
bool requirement_version(const char *at, const char *end, int least);

/* requirement_python.c: 400 bad_requirement; the element as it is, cut and made
 * printable */
int requirement_refuse(const char *text, size_t len, const char *why, struct err *e);

#endif

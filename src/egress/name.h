/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * name.h - one spelling of a host, or none
 *
 * What a client writes is compared with a list and then given to a resolver. Both must
 * read the same, so whatever some reader takes for something else is refused: NUL and
 * other control bytes, spaces, userinfo, percent signs, zones, empty labels, numbers that
 * only some libraries take for an address (0x7f.1, 2130706433, 0177.0.0.1).
 */
#ifndef EGRESS_NAME_H
#define EGRESS_NAME_H

#include <stdbool.h>
#include <stddef.h>

#include "egress/address.h"

#define NAME_ROOM 254 /* a name of 253 bytes, the most that DNS takes */

struct name {
	bool is_address;
	struct address address;
	char text[NAME_ROOM]; /* in lower case, without a last dot; an address too */
};

/* of these bytes, which need no NUL; IPv6 with or without brackets. -1: refused */
int name_parse(const char *bytes, size_t len, struct name *out);

#endif

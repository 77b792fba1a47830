/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * accept.h - which of our types an Accept header would rather have
 */
#ifndef HTTP_ACCEPT_H
#define HTTP_ACCEPT_H

#include "http/admit.h"

/* The index of the best of types, which a NULL ends: of the highest q, and of the same q
 * the one that is named first. The first of types is what is meant by a wildcard, by no
 * header, and by one that names none of them: a client gets it rather than nothing. */
size_t accept_best(struct span accept, const char *const types[]);
/* it is named, with a q above 0 */
bool accept_names(struct span accept, const char *type);

#endif

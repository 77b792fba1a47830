/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * refusal.h - what the launcher does not take from the server
 */
#ifndef LAUNCHER_REFUSAL_H
#define LAUNCHER_REFUSAL_H

#include <stdint.h>

struct message;
struct setup;

enum refusal {
	REFUSAL_NONE,
	REFUSAL_FRAME,     /* size, type, descriptors: wire/message.c */
	REFUSAL_DIRECTION, /* a type that only the launcher sends */
	REFUSAL_NUMBER,    /* a run's number that is 0 or was used before */
	REFUSAL_ROW,
	REFUSAL_ERRAND,
	REFUSAL_LAYER, /* for a row that has none, or an installer without */
	REFUSAL_LIMITS,
	REFUSAL_INPUT, /* its size, or not that of the descriptor */
	REFUSAL_NETWORK,
	REFUSAL_CHOICE,  /* of none of the values that there are */
	REFUSAL_SESSION, /* for a row that is not a session's, or the other way round */
	REFUSAL_UNKNOWN, /* to kill a run that was never asked for */
	REFUSAL_COUNT
};

/* of a message whose frame is right; last_run: the highest number so far */
enum refusal refusal_of(const struct setup *setup, const struct message *m,
			const int *fds, uint64_t last_run);
/* "limits", ... */
const char *refusal_name(enum refusal why);

#endif

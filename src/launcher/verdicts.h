/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * verdicts.h - from what the canaries saw to layers and a level
 */
#ifndef LAUNCHER_VERDICTS_H
#define LAUNCHER_VERDICTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "launcher/child.h"
#include "wire/report.h"

struct launcher;

struct probe_facts {
	bool looked; /* seen is valid */
	struct canary_seen seen;
	bool memory_stopped;
	uint64_t throttled;
	uint64_t reported;        /* how often a refused call of the canary was */
	bool unshare_reported;    /* else a container's own filter refused it first */
	bool forks_stopped;       /* processes beyond the limit, where they are counted */
	struct report apart;      /* why there are no namespaces: of that attempt */
	struct report locked;     /* why there is no Landlock: of that one */
	int refused[LAYER_COUNT]; /* errno of what was given up */
	int fatal_num;
	char fatal_step[32]; /* "": a sandbox can be made */
};

/* for verdicts*.c */
void verdicts_say(char *out, size_t room, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
#define EVIDENCE(layer, ...) \
	verdicts_say((layer)->evidence, sizeof((layer)->evidence), __VA_ARGS__)
#define REASON(layer, ...) \
	verdicts_say((layer)->reason, sizeof((layer)->reason), __VA_ARGS__)
#define FIX(layer, ...) verdicts_say((layer)->fix, sizeof((layer)->fix), __VA_ARGS__)
/* there the kernel refuses user namespaces to everybody, root included. A chroot onto a
 * mount point is noticed by somebody outside it: where /proc shows one */
bool verdicts_in_chroot(void);
const char *verdicts_word(int num); /* "EPERM"; 0: "allowed" */
void verdicts_shared(const struct launcher *l, const struct probe_facts *f,
		     struct report *r);
uint32_t verdicts_shared_level(const struct launcher *l, const struct probe_facts *f,
			       struct report *r);

void verdicts_report(const struct launcher *l, const struct probe_facts *f,
		     struct report *out);

#endif

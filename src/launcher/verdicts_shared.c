/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * verdicts_shared.c - the same where runs share the host's namespaces
 *
 * Runs in: the launcher, at the end of the probe. What is missing has its reason from the
 * attempt with namespaces, which came first.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "launcher/launcher.h"
#include "launcher/verdicts.h"

static void look_namespaces(const struct launcher *l, const struct probe_facts *f,
			    struct report *r)
{
	char path[24];
	struct stat st;
	int ns;

	for (ns = 0; ns < NS_COUNT; ns++) {
		const struct layer *tried = &f->apart.layer[LAYER_USER_NAMESPACE + ns];
		struct layer *out = &r->layer[LAYER_USER_NAMESPACE + ns];

		snprintf(path, sizeof(path), "self/ns/%s", child_ns_names[ns]);
		if (fstatat(l->proc_fd, path, &st, 0) == 0 && f->seen.ns[ns])
			EVIDENCE(out, "%s:[%llu] inside, %s:[%llu] outside",
				 child_ns_names[ns], (unsigned long long)f->seen.ns[ns],
				 child_ns_names[ns], (unsigned long long)st.st_ino);
		else
			EVIDENCE(out, "the run was not given one");
		REASON(out, "%s", tried->reason[0] ? tried->reason : f->apart.summary);
		FIX(out, "%s", tried->fix);
	}
}

static void look_files(const struct launcher *l, const struct probe_facts *f,
		       struct report *r)
{
	struct layer *root = &r->layer[LAYER_ROOT], *proc = &r->layer[LAYER_PROC];
	const struct canary_seen *s = &f->seen;
	const bool locked = l->abilities.level == LEVEL_LANDLOCK;

	EVIDENCE(root,
		 "/etc/shadow: %s; creating a file in /usr: %s; a readable file outside: "
		 "%s; a directory of its own for each run",
		 verdicts_word(s->shadow_err), verdicts_word(s->write_err),
		 verdicts_word(s->outside_err));
	REASON(root, "no mount namespace: %s",
	       locked ? "Landlock closes files, but stat() tells that they exist, and "
			"there is no /dev/shm"
		      : "every file that this uid may read is open to runs");
	EVIDENCE(proc, "opening /proc/self/status: %s", verdicts_word(s->proc_err));
	REASON(proc, "no mount namespace: %s",
	       locked ? "the host's /proc is closed to runs"
		      : "the host's /proc is open to runs");
}

static void look_rights(const struct launcher *l, const struct probe_facts *f,
			struct report *r)
{
	const struct canary_seen *s = &f->seen;
	struct layer *id = &r->layer[LAYER_IDENTITY];
	struct layer *caps = &r->layer[LAYER_CAPABILITIES];
	struct layer *nnp = &r->layer[LAYER_NO_NEW_PRIVS];
	struct layer *sec = &r->layer[LAYER_SECCOMP];

	id->active = s->uid == (int32_t)l->slots[0].uid && s->uid != 0 &&
		     (s->groups == 0 || l->abilities.one_uid);
	EVIDENCE(id, "uid %d, %s; %d supplementary groups", s->uid,
		 l->abilities.one_uid ? "the server's own and that of every run"
				      : "one for each run at a time",
		 s->groups);
	caps->active = s->caps == 0;
	EVIDENCE(caps, "permitted, effective, inheritable sets %s; bounding set %s",
		 s->caps ? "NOT empty" : "empty",
		 s->bounding ? "not empty, which no_new_privs makes void" : "empty");
	nnp->active = s->no_new_privs == 1;
	EVIDENCE(nnp, "no_new_privs is %d", s->no_new_privs);
	sec->active = s->seccomp_mode == 2 && s->unshare_err == EPERM &&
		      s->inet_err == EAFNOSUPPORT && s->unix_err != 0 &&
		      s->prlimit_err == EPERM && s->affinity_err == EPERM;
	EVIDENCE(sec,
		 "mode %d; unshare: %s; socket(AF_INET): %s, (AF_UNIX): %s; of the "
		 "launcher: prlimit64 %s, sched_setaffinity %s",
		 s->seccomp_mode, verdicts_word(s->unshare_err),
		 verdicts_word(s->inet_err), verdicts_word(s->unix_err),
		 verdicts_word(s->prlimit_err), verdicts_word(s->affinity_err));
}

static void look_landlock(const struct launcher *l, const struct probe_facts *f,
			  struct layer *out)
{
	const struct canary_seen *s = &f->seen;

	if (l->abilities.level < LEVEL_LANDLOCK) {
		REASON(out, "%s",
		       f->locked.layer[LAYER_LANDLOCK].reason[0]
			       ? f->locked.layer[LAYER_LANDLOCK].reason
			       : f->locked.summary);
		FIX(out, "%s", f->locked.layer[LAYER_LANDLOCK].fix);
		return;
	}
	out->active = s->signal_err == EPERM && s->launcher_err == EPERM &&
		      s->supervisor_err == EPERM && s->outside_err == EACCES &&
		      s->proc_err == EACCES;
	EVIDENCE(out,
		 "ABI %d; signal to its own init: %s, launcher: %s, supervisor: %s; a "
		 "readable file outside: %s",
		 l->abilities.landlock_abi, verdicts_word(s->signal_err),
		 verdicts_word(s->launcher_err), verdicts_word(s->supervisor_err),
		 verdicts_word(s->outside_err));
	if (!out->active) {
		REASON(out, "Landlock does not hold here: it must close files and "
			    "scope signals (interface 6)");
		FIX(out, "a kernel from 6.12 on with landlock in lsm=");
	}
}

static void look_pids(const struct launcher *l, const struct probe_facts *f,
		      struct layer *out)
{
	if (!launcher_counts_pids(l))
		return; /* as elsewhere: fork is refused at the limit */
	out->active = f->forks_stopped;
	EVIDENCE(out,
		 "limit 8: a program with 32 processes was %s; runs share a uid, so they "
		 "are looked at every 20 ms",
		 f->forks_stopped ? "ended" : "NOT ended");
}

void verdicts_shared(const struct launcher *l, const struct probe_facts *f,
		     struct report *r)
{
	look_namespaces(l, f, r);
	look_files(l, f, r);
	look_rights(l, f, r);
	look_landlock(l, f, &r->layer[LAYER_LANDLOCK]);
	look_pids(l, f, &r->layer[LAYER_PIDS_LIMIT]);
}

/* what makes the level: without one of these it is not given */
static const struct {
	enum layer_id layer;
	int from; /* enum isolation_level */
} needed[] = {
	{LAYER_LANDLOCK, LEVEL_LANDLOCK},    {LAYER_IDENTITY, LEVEL_PROCESS},
	{LAYER_CAPABILITIES, LEVEL_PROCESS}, {LAYER_NO_NEW_PRIVS, LEVEL_PROCESS},
	{LAYER_SECCOMP, LEVEL_PROCESS},      {LAYER_PIDS_LIMIT, LEVEL_PROCESS},
};

uint32_t verdicts_shared_level(const struct launcher *l, const struct probe_facts *f,
			       struct report *r)
{
	const uint32_t level = (uint32_t)l->abilities.level;
	unsigned i;

	for (i = 0; i < sizeof(needed) / sizeof(needed[0]); i++) {
		const struct layer *n = &r->layer[needed[i].layer];

		if (l->abilities.level < needed[i].from || n->active)
			continue;
		verdicts_say(r->summary, sizeof(r->summary), "%s is missing: %s",
			     report_layer_name(needed[i].layer),
			     n->reason[0] ? n->reason : n->evidence);
		return LEVEL_NONE;
	}
	verdicts_say(r->summary, sizeof(r->summary), "%s", f->apart.summary);
	if (level < LEVEL_LANDLOCK && f->locked.summary[0])
		verdicts_say(r->summary, sizeof(r->summary), "%s; %s", f->apart.summary,
			     f->locked.summary);
	if (level < l->setup->min_level) {
		const size_t len = strlen(r->summary);

		verdicts_say(r->summary + len, sizeof(r->summary) - len,
			     "; with SANDBOX_MIN_ISOLATION=%s it would start%s",
			     report_level_name(level),
			     level == LEVEL_PROCESS ? ", with next to no isolation" : "");
	}
	return level;
}

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * verdicts.c - from what the canaries saw to layers and a level
 *
 * Runs in: the launcher, at the end of the probe. A layer is active when its effect was
 * seen, not when it was configured.
 */
#include "launcher/verdicts.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/sys.h"
#include "launcher/launcher.h"

void verdicts_say(char *out, size_t room, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(out, room, fmt, args);
	va_end(args);
}

const char *verdicts_word(int num)
{
	return num ? strerrorname_np(num) : "allowed";
}

static void look_namespace(const struct launcher *l, const struct canary_seen *s, int ns,
			   struct layer *out)
{
	char path[24];
	struct stat st;

	snprintf(path, sizeof(path), "self/ns/%s", child_ns_names[ns]);
	if (s->ns[ns] == 0 || fstatat(l->proc_fd, path, &st, 0) < 0) {
		REASON(out, "which %s namespace a run has could not be found out",
		       child_ns_names[ns]);
		return;
	}
	out->active = s->ns[ns] != st.st_ino;
	EVIDENCE(out, "%s:[%llu] inside, %s:[%llu] outside", child_ns_names[ns],
		 (unsigned long long)s->ns[ns], child_ns_names[ns],
		 (unsigned long long)st.st_ino);
	if (!out->active)
		REASON(out, "the run shares the launcher's %s namespace",
		       child_ns_names[ns]);
}

static void look_root(const struct launcher *l, const struct probe_facts *f,
		      struct layer *out)
{
	const struct canary_seen *s = &f->seen;

	out->active = s->shadow_err == ENOENT && s->write_err == EROFS;
	EVIDENCE(out, "/etc/shadow: %s; creating a file in /usr: %s; entered by %s",
		 verdicts_word(s->shadow_err), verdicts_word(s->write_err),
		 l->abilities.pivot ? "pivot_root" : "chroot, the old root covered");
	if (!l->abilities.pivot) {
		REASON(out, "pivot_root refused: %s", strerror(f->refused[LAYER_ROOT]));
		FIX(out, "allow pivot_root in the container's seccomp profile");
	}
}

static void look_proc(const struct launcher *l, const struct probe_facts *f,
		      struct layer *out)
{
	const struct canary_seen *s = &f->seen;

	out->active = l->abilities.private_proc && s->processes > 0 && s->processes <= 3;
	if (out->active) {
		EVIDENCE(out, "%d processes in /proc, own pid %d", s->processes, s->pid);
		return;
	}
	EVIDENCE(out, "/proc is empty");
	REASON(out, "mounting a private /proc refused: %s",
	       strerror(f->refused[LAYER_PROC]));
	FIX(out, "unmask /proc (procMount: Unmasked, or --security-opt unmask=ALL)");
}

static void look_limits(const struct launcher *l, const struct probe_facts *f,
			struct report *r)
{
	static const enum layer_id of_cgroup[] = {LAYER_MEMORY_LIMIT, LAYER_CPU_LIMIT};
	struct layer *memory = &r->layer[LAYER_MEMORY_LIMIT];
	struct layer *pids = &r->layer[LAYER_PIDS_LIMIT];
	struct layer *cpu = &r->layer[LAYER_CPU_LIMIT];
	unsigned i;

	pids->active = f->seen.forks < 16 && f->seen.fork_err == EAGAIN;
	EVIDENCE(pids, "limit 8: fork refused (%s) after %d",
		 verdicts_word(f->seen.fork_err), f->seen.forks);
	if (l->cgroups.kind != CGROUP_NONE) {
		memory->active = f->memory_stopped;
		EVIDENCE(memory, "limit 24 MB: a program using 256 MB was %s",
			 f->memory_stopped ? "stopped" : "not stopped");
		cpu->active = f->throttled > 0;
		EVIDENCE(cpu,
			 "quota 0.02 CPU: a spinning program was throttled %llu times",
			 (unsigned long long)f->throttled);
		return;
	}
	for (i = 0; i < 2; i++) {
		REASON(&r->layer[of_cgroup[i]], "%s", l->cgroups.reason);
		FIX(&r->layer[of_cgroup[i]], "%s", l->cgroups.fix);
	}
	r->counts_sockets = launcher_counts_sockets(l);
	EVIDENCE(memory, "no cgroup; the run's processes%s are looked at every 20 ms",
		 r->counts_sockets ? " and sockets" : ", but not its sockets,");
	EVIDENCE(cpu, "no cgroup, no quota; CPU seconds are looked at every 20 ms");
}

static void look_rights(const struct launcher *l, const struct canary_seen *s,
			struct report *r)
{
	struct layer *id = &r->layer[LAYER_IDENTITY],
		     *caps = &r->layer[LAYER_CAPABILITIES];
	struct layer *nnp = &r->layer[LAYER_NO_NEW_PRIVS],
		     *sec = &r->layer[LAYER_SECCOMP];

	id->active = s->uid == CHILD_UID && l->slots[0].uid != 0 &&
		     (s->groups == 0 || l->own_user_ns);
	if (l->setup->uid_base)
		EVIDENCE(id, "uid %d inside is %u outside, %d supplementary groups",
			 s->uid, (unsigned)l->slots[0].uid, s->groups);
	else
		EVIDENCE(id,
			 "uid %d inside is the one we were started with, which is not "
			 "host root's; %d supplementary groups",
			 s->uid, s->groups);
	caps->active = s->caps == 0 && s->bounding == 0;
	EVIDENCE(caps, "all five sets %s", caps->active ? "empty" : "NOT empty");
	nnp->active = s->no_new_privs == 1;
	EVIDENCE(nnp, "no_new_privs is %d", s->no_new_privs);
	sec->active = s->seccomp_mode == 2 && s->unshare_err == EPERM &&
		      s->inet_err == EAFNOSUPPORT;
	EVIDENCE(sec, "mode %d; unshare: %s; socket(AF_INET): %s", s->seccomp_mode,
		 verdicts_word(s->unshare_err), verdicts_word(s->inet_err));
}

static void look_landlock(const struct launcher *l, const struct probe_facts *f,
			  struct layer *out)
{
	const int abi = l->abilities.landlock_abi, num = f->refused[LAYER_LANDLOCK];
	const struct canary_seen *s = &f->seen;

	/* a kernel that lacks it says so in one of these two ways; any other answer is
	 * somebody's refusal, and the layer is missing */
	out->requested = abi > 0 || (num != ENOSYS && num != EOPNOTSUPP);
	if (abi <= 0 && out->requested) {
		REASON(out, "Landlock refused: %s", strerror(num));
		FIX(out, "allow landlock_create_ruleset, landlock_add_rule and "
			 "landlock_restrict_self to the server");
		return;
	}
	if (abi <= 0) {
		REASON(out, "this kernel has no Landlock, or it is not in the lsm= list");
		FIX(out, "boot with landlock in lsm=");
		return;
	}
	out->active = s->comm_err == EACCES || (abi >= 6 && s->signal_err == EPERM);
	EVIDENCE(out, "ABI %d; writing /proc/self/comm: %s; signal to process 1: %s", abi,
		 verdicts_word(s->comm_err), verdicts_word(s->signal_err));
	if (out->active)
		return;
	/* what else it forbids the mounts and the filter refuse too, and before it */
	if (abi < 6 && !l->abilities.private_proc) {
		REASON(out,
		       "every run has it, but nothing shows: there is no /proc to write "
		       "to, and signals are its concern from ABI 6 on");
		FIX(out, "unmask /proc (procMount: Unmasked, or --security-opt "
			 "unmask=ALL), or Linux 6.12");
	} else {
		REASON(out, "nothing that Landlock forbids was refused");
		FIX(out, "use another kernel: this one takes the rules and "
			 "does not keep them");
	}
}

static void look_violations(const struct launcher *l, const struct probe_facts *f,
			    struct layer *out)
{
	const int num = f->refused[LAYER_VIOLATIONS];

	out->active = l->abilities.notify && f->reported > 0;
	if (out->active) {
		EVIDENCE(out, "%s refused (%s), and the launcher was told",
			 launcher_shares(l) ? "sched_setaffinity" : "unshare",
			 verdicts_word(launcher_shares(l) ? f->seen.affinity_err
							  : f->seen.unshare_err));
		if (!f->unshare_reported)
			REASON(out, "what the container's own filter refuses, unshare "
				    "for one, is not reported");
		else if (l->abilities.poll_memory && !l->abilities.sockets &&
			 !launcher_shares(l))
			REASON(out, "AF_NETLINK, whose memory nobody counts here, is "
				    "refused by a filter that does not report");
	} else if (num == EBUSY) {
		REASON(out, "whoever started this server has a seccomp listener already, "
			    "and there can be one");
		FIX(out, "take SCMP_ACT_NOTIFY out of the container's seccomp profile");
	} else if (num == ENOMSG) {
		REASON(out, "a refused call of the canary was not reported");
	} else {
		REASON(out, "seccomp user notification refused: %s", strerror(num));
		FIX(out, "Linux 5.0 or newer, and seccomp allowed to the server");
	}
}

/* what is seen of it stays the evidence */
static void give_up_network(struct layer *out)
{
	out->requested = 0;
	REASON(out, "given up by the operator: SANDBOX_NETWORK=pod");
	FIX(out, "%s", "");
}

static void look(const struct launcher *l, const struct probe_facts *f, struct report *r)
{
	int ns;

	look_limits(l, f, r);
	look_violations(l, f, &r->layer[LAYER_VIOLATIONS]);
	if (launcher_shares(l)) {
		verdicts_shared(l, f, r);
		if (l->abilities.pod)
			give_up_network(&r->layer[LAYER_NETWORK_NAMESPACE]);
		return;
	}
	for (ns = 0; ns < NS_COUNT; ns++)
		look_namespace(l, &f->seen, ns, &r->layer[LAYER_USER_NAMESPACE + ns]);
	if (l->abilities.pod)
		give_up_network(&r->layer[LAYER_NETWORK_NAMESPACE]);
	look_root(l, f, &r->layer[LAYER_ROOT]);
	look_proc(l, f, &r->layer[LAYER_PROC]);
	look_rights(l, &f->seen, r);
	look_landlock(l, f, &r->layer[LAYER_LANDLOCK]);
	if (!l->abilities.hostname) {
		REASON(&r->layer[LAYER_UTS_NAMESPACE], "sethostname refused: %s",
		       strerror(f->refused[LAYER_UTS_NAMESPACE]));
		FIX(&r->layer[LAYER_UTS_NAMESPACE],
		    "allow sethostname in the container's seccomp profile");
	} else if (strcmp(f->seen.hostname, "sandbox") != 0) {
		r->layer[LAYER_UTS_NAMESPACE].active = 0;
	}
}

static void no_user_namespace(const struct probe_facts *f, struct report *r)
{
	struct layer *out = &r->layer[LAYER_USER_NAMESPACE];

	EVIDENCE(out, "making one: %s", verdicts_word(f->fatal_num));
	if (verdicts_in_chroot()) {
		REASON(out, "user namespaces refused: running in a chroot");
		FIX(out, "start it outside the chroot, or in a container");
	} else if (f->fatal_num == ENOSPC) {
		REASON(out,
		       "user namespaces refused: none left (user.max_user_namespaces)");
		FIX(out, "sysctl -w user.max_user_namespaces=15000");
	} else {
		REASON(out, "user namespaces refused: %s", strerror(f->fatal_num));
		FIX(out,
		    "sysctl -w kernel.unprivileged_userns_clone=1, or allow unshare and "
		    "clone in the container's seccomp profile");
	}
}

/* below this a run is not what we call a sandbox */
static const enum layer_id needed[] = {
	LAYER_USER_NAMESPACE, LAYER_MOUNT_NAMESPACE,
	LAYER_PID_NAMESPACE,  LAYER_NETWORK_NAMESPACE,
	LAYER_IPC_NAMESPACE,  LAYER_UTS_NAMESPACE,
	LAYER_ROOT,           LAYER_IDENTITY,
	LAYER_CAPABILITIES,   LAYER_NO_NEW_PRIVS,
	LAYER_SECCOMP,        LAYER_PIDS_LIMIT,
};

static uint32_t level_of(struct report *r)
{
	unsigned i;

	for (i = 0; i < sizeof(needed) / sizeof(needed[0]); i++) {
		struct layer *n = &r->layer[needed[i]];

		if (n->requested && !n->active) {
			verdicts_say(r->summary, sizeof(r->summary), "%s is missing: %s",
				     report_layer_name(needed[i]),
				     n->reason[0] ? n->reason : n->evidence);
			return LEVEL_NONE;
		}
	}
	for (i = 0; i < LAYER_COUNT; i++) {
		struct layer *n = &r->layer[i];

		/* active with a reason: it holds, but not in its full form. Given up is
		 * no less than that: only a kernel without Landlock is excused. Telling
		 * what was refused is not isolation */
		if (i != LAYER_VIOLATIONS && (n->requested || i != LAYER_LANDLOCK) &&
		    (!n->active || n->reason[0])) {
			verdicts_say(r->summary, sizeof(r->summary), "%s: %s",
				     report_layer_name(i),
				     n->reason[0] ? n->reason : n->evidence);
			return LEVEL_NAMESPACES;
		}
	}
	return LEVEL_FULL;
}

/* what else must work before a run is tried at all */
static const struct {
	const char *step;
	enum layer_id layer;
	const char *reason, *fix;
	bool with_errno;
} preparations[] = {
	{"slot_identity", LAYER_IDENTITY,
	 "started as root without the right to become another user: code never runs as "
	 "root",
	 "start as another user, or with CAP_SETUID and CAP_SETGID", false},
	{"run_directory", LAYER_ROOT,
	 "no directory for runs: neither the state directory, TMPDIR nor /tmp can be "
	 "written and executed from",
	 "mount a writable volume without noexec, and name it in SANDBOX_STATE_DIR",
	 false},
	{"slot_runtime", LAYER_ROOT, "a runtime cannot be executed by the uid of runs",
	 "install it where every user may read and execute it", true},
	{"landlock", LAYER_LANDLOCK,
	 "this kernel has no Landlock, or it is not in the lsm= list",
	 "boot with landlock in lsm=", false},
	{"host_proc", LAYER_PROC, "/proc is not mounted", "mount -t proc proc /proc",
	 false},
};

/* the layer that the step which failed is for; LAYER_COUNT: it is for all of them */
static enum layer_id explain(const struct probe_facts *f, struct report *r)
{
	for (size_t i = 0; i < sizeof(preparations) / sizeof(preparations[0]); i++) {
		struct layer *out = &r->layer[preparations[i].layer];

		if (strcmp(f->fatal_step, preparations[i].step) != 0)
			continue;
		REASON(out, "%s%s%s", preparations[i].reason,
		       preparations[i].with_errno ? ": " : "",
		       preparations[i].with_errno ? strerror(f->fatal_num) : "");
		FIX(out, "%s", preparations[i].fix);
		return preparations[i].layer;
	}
	return LAYER_COUNT;
}

void verdicts_report(const struct launcher *l, const struct probe_facts *f,
		     struct report *out)
{
	enum layer_id which = LAYER_USER_NAMESPACE;
	unsigned i;

	memset(out, 0, sizeof(*out));
	for (i = 0; i < LAYER_COUNT; i++)
		out->layer[i].requested = 1;
	if (f->looked)
		look(l, f, out);
	if (!f->fatal_step[0]) {
		out->level = launcher_shares(l) ? verdicts_shared_level(l, f, out)
						: level_of(out);
		return;
	}
	out->level = LEVEL_NONE;
	/* root gets further than that in a chroot, but not far enough */
	if (!launcher_shares(l) &&
	    (verdicts_in_chroot() || strcmp(f->fatal_step, "clone") == 0 ||
	     strcmp(f->fatal_step, "user_namespace") == 0))
		no_user_namespace(f, out);
	else
		which = explain(f, out);
	if (which < LAYER_COUNT)
		verdicts_say(out->summary, sizeof(out->summary), "%s",
			     out->layer[which].reason);
	else
		verdicts_say(out->summary, sizeof(out->summary),
			     "sandbox step \"%s\" failed: %s", f->fatal_step,
			     strerror(f->fatal_num));
}

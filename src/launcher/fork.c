/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * fork.c - slots whose worker is a started interpreter that runs are forked from
 *
 * Runs in: the launcher; fork_become() in the slot's worker, which is then python3.
 */
#include "launcher/fork.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/defer.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/sys.h"
#include "launcher/child.h"
#include "launcher/launcher.h"

#if defined(__x86_64__)
#define OUR_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define OUR_ARCH AUDIT_ARCH_AARCH64
#else
#error "which architecture is this for seccomp?"
#endif

#define MS 1000000ull
#define AGE_MS 300000     /* then another one is started, with other addresses, */
#define RUNS_MOST 500     /* and after so many runs */
#define LOOK_MS 10        /* at one that starts */
#define FULL_MS 60000     /* until there may be room for another one */
#define OUT_OF_THE_WAY 32 /* above all numbers below */

static int split(const struct setup_words *w, const char **out)
{
	const char *at = w->text;
	int n;

	for (n = 0; *at && n < CHILD_WORDS; n++, at += strlen(at) + 1)
		out[n] = strcmp(at, AHEAD_HIDES) == 0 ? AHEAD_LOAD : at;
	out[n] = NULL;
	return n;
}

/* streams that are pipes, as a run's are; then what fork.h names, in its order */
static int place_descriptors(int socket_fd, int start_fd, const struct fork_given *g)
{
	int p[3][2], i;

	for (i = 0; i < 3; i++) {
		if (pipe2(p[i], O_CLOEXEC) < 0)
			return -1;
	}
	int given[FORK_FDS] = {p[0][0],      p[1][1],    p[2][1],     socket_fd,
			       g->object_fd, g->proc_fd, g->setup_fd, start_fd,
			       p[1][0],      p[2][0],    g->cover_fd};

	for (i = 0; i < FORK_FDS; i++) {
		given[i] = fcntl(given[i], F_DUPFD_CLOEXEC, OUT_OF_THE_WAY);
		if (given[i] < 0)
			return -1;
	}
	for (i = 0; i < FORK_FDS; i++) {
		if (dup2(given[i], i) < 0)
			return -1;
	}
	return sys_close_range(FORK_FDS, ~0U, 0);
}

/* What makes a run, in clone.c and child.c, and a run's own filter refuses. */
static const int making[] = {
	SYS_clone,
	SYS_clone3,
	SYS_mount,
	SYS_move_mount,
	SYS_unshare,
	SYS_setsid,
	SYS_sethostname,
	SYS_keyctl,
	SYS_capset,
	SYS_prctl,
	SYS_prlimit64,
	SYS_seccomp,
	SYS_personality,
	SYS_landlock_create_ruleset,
	SYS_landlock_add_rule,
	SYS_landlock_restrict_self,
};

#define MAKING (sizeof(making) / sizeof(making[0]))
#define LOAD(field) \
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define RETURN(what) BPF_STMT(BPF_RET | BPF_K, what)

/*
 * A run's filter, without what makes runs. Runs inherit it and have their own on top, so
 * that it may never be the one that answers there: of two answers the kernel takes an
 * errno, or a report to the launcher, before "ask the tracer". Nobody traces, and what
 * nobody allows is not done: ENOSYS.
 */
static int confine(const struct launcher *l)
{
	const struct setup_filter *f = &l->setup->reporting[REPORTING_APART].plain;
	static struct sock_filter insns[SETUP_INSNS];
	struct sock_fprog program = {.filter = insns};
	unsigned n = 0, i;

	if (f->len + 2 * MAKING + 3 > SETUP_INSNS) {
		errno = E2BIG;
		return -1;
	}
	/* another architecture has other numbers, and the rest kills it */
	insns[n++] = (struct sock_filter)LOAD(arch);
	insns[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, OUR_ARCH, 0,
						  2 * MAKING + 1);
	insns[n++] = (struct sock_filter)LOAD(nr);
	for (i = 0; i < MAKING; i++) {
		insns[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
							  (unsigned)making[i], 0, 1);
		insns[n++] = (struct sock_filter)RETURN(SECCOMP_RET_ALLOW);
	}
	for (i = 0; i < f->len; i++, n++) {
		insns[n] = f->insns[i];
		if (insns[n].code == (BPF_RET | BPF_K) &&
		    (insns[n].k & SECCOMP_RET_ACTION_FULL) == SECCOMP_RET_ERRNO)
			insns[n].k = SECCOMP_RET_TRACE;
	}
	program.len = (unsigned short)n;
	return sys_seccomp(SECCOMP_SET_MODE_FILTER, 0, &program);
}

void fork_become(const struct slot *s, int *socket_fd, const struct fork_given *g)
{
	const struct launcher *l = s->launcher;
	const struct setup_row *row = &l->setup->row[l->setup->fork_row];
	const struct fork_start start = {.row = l->setup->fork_row,
					 .uid = s->uid,
					 .gid = s->gid,
					 .launcher = getppid(),
					 .supervisor = l->supervisor,
					 .keeper = g->keeper,
					 .abilities = l->abilities};
	const char *argv[CHILD_WORDS + 1], *envp[CHILD_WORDS + 1];
	int start_fd = fs_sealed("start", &start, sizeof(start));

	errno = ENOENT;
	if (split(&row->argv, argv) == 0 || split(&row->env, envp) == 0 || start_fd < 0 ||
	    chdir("/work") < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    place_descriptors(*socket_fd, start_fd, g) < 0)
		return;
	*socket_fd = FORK_SOCKET_FD;
	/* where its memory lies and how large a thread's stack is, execve decides */
	if (child_stack() < 0 || personality(PER_LINUX) < 0 || child_signals() < 0 ||
	    confine(l) < 0)
		return;
	execve(argv[0], (char *const *)argv, (char *const *)envp);
}

bool fork_possible(const struct launcher *l)
{
	return l->setup->forks > 0 && !launcher_shares(l) && l->abilities.private_proc &&
	       l->cgroups.kind != CGROUP_NONE;
}

static void on_old(void *arg)
{
	struct slot *s = arg;

	s->failures = 0;
	s->condemned = true; /* when its run is over, */
	if (s->state == SLOT_FREE)
		slot_reset(s); /* or now */
}

/* what the interpreter has in memory; 0: nobody can tell. On v2 it is not in the cgroup
 * of runs: then with what it has of files, which others may have too */
static uint64_t size_kb(const struct slot *s)
{
	const uint64_t counted = cgroup_memory_kb(&s->cgroup);
	char name[32], text[128] = "";
	auto_fd int fd = -1;
	char *resident;

	if (s->cgroup.kind == CGROUP_V1 && counted != CGROUP_UNKNOWN64)
		return counted;
	snprintf(name, sizeof(name), "%d/statm", (int)s->worker);
	fd = openat(s->launcher->proc_fd, name, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
		return 0;
	resident = strchr(text, ' ');
	return resident ? strtoull(resident, NULL, 10) *
				  ((uint64_t)sysconf(_SC_PAGESIZE) / 1024)
			: 0;
}

/* it holds so much; false: there is no room for that */
static bool take_room(struct slot *s, uint64_t kb)
{
	s->held_kb = 0;
	if (!warm_has_room(s->launcher, kb))
		return false;
	s->held_kb = kb;
	return true;
}

static void full(struct slot *s, uint64_t kb)
{
	struct launcher *l = s->launcher;

	log_warn("fork.full", "slot=%u memory_kb=%llu", s->n, (unsigned long long)kb);
	if (!warm_holds(l))
		snprintf(l->warm.fork_failed, sizeof(l->warm.fork_failed), "fork_memory");
	l->warm.fork_kb = kb;
	slot_unbuild(s);
	slot_build_later(s, FULL_MS);
	warm_tell(l);
}

/* what one takes while it starts counts from the start */
static void on_look(void *arg)
{
	struct slot *s = arg;
	const uint64_t kb = size_kb(s);

	if (loop_now_ns() >= s->build_by_ns) {
		slot_build_failed(s, "fork_time", ETIMEDOUT);
		return;
	}
	if (kb > s->held_kb && !take_room(s, kb)) {
		full(s, kb);
		fork_fill(s->launcher);
		return;
	}
	loop_timer_at(s->launcher->loop, &s->old, loop_now_ns() + LOOK_MS * MS);
}

bool fork_may_build(struct slot *s)
{
	struct launcher *l = s->launcher;
	unsigned building = 0;

	for (unsigned i = 0; i < l->slot_count; i++)
		building += l->slots[i].forks && l->slots[i].state == SLOT_BUILDING;
	/* what the first one needs nobody knows: the others wait for it */
	if (building > 0 && l->warm.fork_kb == 0)
		return false;
	if (!take_room(s, l->warm.fork_kb)) {
		full(s, l->warm.fork_kb);
		return false;
	}
	s->build_by_ns = loop_now_ns() + FORK_START_MS * MS;
	s->old.fn = on_look;
	s->old.arg = s;
	loop_timer_at(l->loop, &s->old, loop_now_ns() + LOOK_MS * MS);
	return true;
}

void fork_fill(struct launcher *l)
{
	for (unsigned i = 0; i < l->slot_count && !l->lost.now; i++) {
		struct slot *s = &l->slots[i];

		if (s->forks && s->state == SLOT_EMPTY && !s->retry.place)
			slot_build(s);
	}
	warm_tell(l);
}

static uint64_t age_ms(const struct slot *s)
{
#ifdef SANDBOX_TEST_HOOKS
	if (strcmp(s->launcher->setup->test_fault, "old") == 0)
		return 1000;
#endif
	return AGE_MS - (uint64_t)s->n % 16 * 1000; /* not all at once */
}

bool fork_ready(struct slot *s)
{
	struct launcher *l = s->launcher;
	const uint64_t kb = size_kb(s);

	s->forked = 0;
	l->warm.fork_kb = kb;
	if (!take_room(s, kb)) {
		full(s, kb);
		fork_fill(l);
		return false;
	}
	l->warm.fork_failed[0] = '\0';
	s->old.fn = on_old;
	s->old.arg = s;
	loop_timer_at(l->loop, &s->old, loop_now_ns() + age_ms(s) * MS);
	return true;
}

bool fork_is_missed(const struct slot *s)
{
	const struct launcher *l = s->launcher;

	for (unsigned i = 0; i < l->slot_count; i++) {
		const struct slot *other = &l->slots[i];

		if (other->forks && other->state == SLOT_FREE && !other->condemned)
			return false;
	}
	return s->forked > 0;
}

bool fork_is_old(struct slot *s)
{
	s->failures = 0; /* it was of use */
	return ++s->forked >= RUNS_MOST;
}

/* one that cannot be starts cold after all, as one that had waited; -1: none is begun */
static int start(struct slot *s, const struct message *m, int input_fd, int *layer_fd,
		 uint64_t arrived_ns)
{
	struct run *r = &s->run;

	run_clear(r);
	r->input_fd = fcntl(input_fd, F_DUPFD_CLOEXEC, 0);
	if (r->input_fd < 0)
		return -1;
	r->layer_fd = take_fd(layer_fd);
	r->warm = true;
	r->id = m->run;
	r->plan = m->plan;
	r->arrived_ns = arrived_ns;
	s->state = SLOT_BUSY;
	slot_clone(s, input_fd, -1);
	return 0;
}

bool fork_take(struct launcher *l, const struct message *m, int input_fd,
	       uint64_t arrived_ns)
{
	auto_fd int layer_fd = -1;
	unsigned i;

	if (!l->setup->forks || m->plan.network || m->plan.cold == COLD_ALWAYS ||
	    m->plan.row != l->setup->fork_row || l->report.level < l->setup->min_level)
		return false;
	/* a cold start finds that it is not there too */
	if (m->plan.has_layer && (layer_fd = layers_open(l, &m->plan)) < 0)
		return false;
	for (i = 0; i < l->slot_count; i++) {
		struct slot *s = &l->slots[i];

		if (!s->forks || s->state != SLOT_FREE || s->condemned ||
		    warm_is_too_large(s->held_kb, &m->plan))
			continue;
		/* that one less is ready is told when it has started */
		return start(s, m, input_fd, &layer_fd, arrived_ns) == 0;
	}
	return false;
}

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * session.c - asked for by the server; made, entered, ended
 *
 * Runs in: the launcher. The server names a session by a key and never by a path or uid.
 * A session is started when somebody asks for it and its processes are not there: at its
 * opening, and after a restart, of which its files know nothing. It ends when it is
 * closed, or with its process 1.
 */
#include "launcher/session.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/defer.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sys.h"
#include "launcher/launcher.h"
#include "launcher/session_parts.h"

#define FIRST_SLOT 1000 /* of a cgroup's name: behind all slots of runs */
#define ENDING_MS 10    /* between looks whether all has ended */
#define LOOK_MS 250

bool session_entered(const struct slot *s)
{
	return s->session && &s->session->slot != s;
}

bool session_gives_up(const struct slot *s)
{
	return session_entered(s) && s->session->state == SESSION_ENDING;
}

const int *session_namespaces(const struct slot *s)
{
	return s->session->ns_fd;
}

const struct session_root *session_root(const struct slot *s)
{
	return s->session ? &s->session->root : NULL;
}

const struct cgroup_base *session_cgroups(const struct slot *s)
{
	return session_entered(s) ? &s->session->cgroups : &s->launcher->cgroups;
}

uint32_t session_pids(const struct plan *p)
{
	return p->errand == ERRAND_SESSION ? 2 * p->limits.pids + CHILD_SESSION_INITS
					   : p->limits.pids;
}

/* ---- life ---- */

/* nothing of it is alive, and nobody waits for it */
static void session_free(struct session *s)
{
	struct launcher *l = s->launcher;
	struct session **at = &l->sessions.first;
	int i;

	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	if (l->sessions.looker.at == s)
		l->sessions.looker.at = NULL;
	run_clear(&s->slot.run);
	slot_unbuild(&s->slot);
	loop_timer_stop(l->loop, &s->look);
	loop_timer_stop(l->loop, &s->slot.retry);
	for (i = 0; i < NS_COUNT; i++)
		defer_close(&s->ns_fd[i]);
	defer_close(&s->files_fd);
	defer_close(&s->image_fd);
	defer_close(&s->egress_fd);
	free(s->flat); /* the next start finds its layer */
	l->sessions.places--;
	session_bury(l, s);
}

/* when its last command is gone too */
static void session_finish(struct session *s)
{
	struct launcher *l = s->launcher;
	struct session_late *late = take_ptr(&s->late);
	const bool asked_for = s->orders;

	session_flat_put(s);
	session_obey(s);
	/* never ready, and nobody was told; or the next start tries */
	if (s->made && !asked_for)
		(void)session_dir_drop(s->launcher, s->key);
	session_tell_ended(s->launcher, s->key);
	session_free(s);
	session_late_run(l, late);
}

/* process 1 goes, and the kernel ends all in its pid namespace */
void session_end(struct session *s, const char *step, int num)
{
	struct command *c, *next;

	s->state = SESSION_ENDING;
	for (c = s->commands; c; c = next) {
		next = c->next;
		if (c->started || c->lingers) {
			c->slot.run.killed = true;
			run_kill(&c->slot.run);
			continue;
		}
		if (!c->cancelled)
			session_tell_failed(s->launcher, c->asked.message.run, step, num);
		session_command_free(c);
	}
	s->slot.run.killed = true;
	if (!s->slot.run.dead)
		run_kill(&s->slot.run);
	session_look_soon(s, 0);
}

/* ---- looks ---- */

/* one that was asked for and is not known yet comes to know that it is not wanted */
static bool holder_gone(const struct session *s)
{
	return s->slot.run.dead || (s->slot.run.pid_fd < 0 && s->slot.state != SLOT_BUSY);
}

static void on_look(void *arg)
{
	struct session *s = arg;
	struct command *c, *next;
	uint64_t ms = LOOK_MS;
	bool soon = false;

	for (c = s->commands; c; c = next) {
		next = c->next;
		if (!c->lingers)
			continue;
		if (s->state == SESSION_ENDING)
			session_command_end_left(c);
		if (session_command_gone(c))
			session_command_free(c);
		else if (c->slot.run.dead && session_by_tree(&c->slot))
			soon = true; /* what it left is on its way */
	}
	if (s->state == SESSION_ENDING) {
		if (!s->commands && holder_gone(s))
			session_finish(s);
		else
			session_look_soon(s, ENDING_MS);
		return;
	}
	if (!s->commands)
		return; /* nothing can change */
	if (session_disk_out(s, loop_now_ns()))
		session_end_writers(s, loop_now_ns());
	if (s->launcher->abilities.poll_memory)
		ms = session_tree_look(s);
	session_look_soon(s, soon ? ENDING_MS : ms);
}

/* ---- process 1 ---- */

void session_hold(struct slot *s)
{
	struct run *r = &s->run;
	const struct setup *setup = s->launcher->setup;

	run_clear(r);
	r->plan = (struct plan){.row = setup->session_row,
				.errand = ERRAND_SESSION,
				.network = s->session->egress_fd < 0 ? NETWORK_NONE
								     : NETWORK_BROKER,
				.limits = setup->row[setup->session_row].ceiling,
				.root = s->session->stack.root};
	r->arrived_ns = loop_now_ns();
	s->state = SLOT_BUSY;
	slot_clone(s, s->launcher->proc_fd, s->session->egress_fd);
}

void session_take_namespace(struct run *r, int which, int *fd)
{
	struct session *s = r->slot->session;

	if (s && which >= 0 && which < NS_COUNT && s->ns_fd[which] < 0)
		s->ns_fd[which] = take_fd(fd);
}

void session_started(struct run *r)
{
	struct session *s = r->slot->session;
	const struct cgroup_limits all = slot_limits(r->slot, &r->plan);
	struct command *c, *next;
	struct err e = {0};
	int i;

	if (s->state == SESSION_ENDING)
		return; /* it said so before it was killed */
	for (i = 0; i < NS_COUNT && s->ns_fd[i] >= 0; i++)
		;
	if (i < NS_COUNT || cgroup_below(&r->slot->cgroup, &s->cgroups) < 0 ||
	    cgroup_limit_all(&r->slot->cgroup, &all, &e) < 0) {
		log_error("session.start", "namespaces=%d error=\"%s\"", i, e.text);
		session_end(s, "session_start", EIO);
		return;
	}
	slot_drop_worker(r->slot); /* it has nothing left to do */
	s->made = false;
	s->state = SESSION_READY;
	for (c = s->commands; c; c = next) {
		next = c->next;
		session_command_go(c);
	}
}

void session_ended(struct run *r)
{
	struct session *s = r->slot->session;

	if (s->state != SESSION_ENDING)
		log_warn("session.ended", "uid=%u", (unsigned)s->uid);
	session_end(s, "session_end", ECHILD);
}

void session_slot_failed(struct slot *slot, const char *step, int num)
{
	struct session *s = slot->session;
	struct command *c = (struct command *)slot;
	int layer;

	if (session_entered(slot)) {
		if (!c->cancelled)
			session_tell_failed(s->launcher, c->asked.message.run, step, num);
		log_error("session.command", "step=%s error=\"%s\"", step, strerror(num));
		session_command_free(c);
		return;
	}
	log_error("session.failed", "step=%s error=\"%s\"", step, strerror(num));
	layer = lost_layer_of(s->launcher, step, num);
	if (layer >= 0)
		lost_begin(s->launcher, layer, step, num);
	slot->run.dead = true;
	session_end(s, step, num);
}

/* ---- asked for ---- */

struct session *session_find(const struct launcher *l, const uint8_t *key)
{
	struct session *s = l->sessions.first;

	while (s && memcmp(s->key, key, SESSION_KEY) != 0)
		s = s->next;
	return s;
}

static unsigned session_number(const struct launcher *l)
{
	const struct session *s;
	unsigned n = FIRST_SLOT;
	bool again = true;

	while (again) {
		again = false;
		for (s = l->sessions.first; s; s = s->next)
			again = again || s->slot.n == n;
		n += again;
	}
	return n;
}

/* as image.h says of who uses one */
static int hold_image(struct session *s)
{
	auto_fd int fd = -1;
	char path[SETUP_PATH + SESSION_IMAGE];

	s->image_fd = -1;
	if (!s->stack.image[0])
		return 0;
	snprintf(path, sizeof(path), "%s/%s", s->launcher->setup->image_dir,
		 s->stack.image);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || flock(fd, LOCK_SH | LOCK_NB) < 0)
		return -1;
	s->image_fd = take_fd(&fd);
	return 0;
}

/* nothing of it is left behind */
static struct session *session_undo(struct session *s)
{
	int saved = errno;

	defer_close(&s->files_fd);
	if (s->made)
		(void)session_dir_drop(s->launcher, s->key); /* the next start tries */
	free(s);
	errno = saved;
	return NULL;
}

/* NULL: a session's user can be root here, of this image if any; else why not */
static const char *no_root(const struct launcher *l, const char *image)
{
	if (image[0] && l->sessions.unmapped)
		return "session_mapping";
	if (l->abilities.one_uid)
		return "session_ranges";
	if (l->cgroups.kind == CGROUP_NONE)
		return "session_cgroup";
	/* who may call chroot must have nothing above its root */
	return l->abilities.pivot ? NULL : "session_pivot";
}

/* NULL with errno; *why: what it cannot have, a user who is root or its image; or NULL */
static struct session *session_new(struct launcher *l, const struct plan *p,
				   const char **why)
{
	struct session *s = mem_zero(sizeof(*s));
	int i, made;

	s->launcher = l;
	s->egress_fd = -1;
	memcpy(s->key, p->session_key, SESSION_KEY);
	s->owner = p->owner;
	made = session_dir_take(l, s->key, p->session == SESSION_OPEN ? &p->open : NULL,
				&s->stack, &s->uid);
	s->made = made > 0;
	s->files_fd = -1;
	*why = made >= 0 && s->stack.root ? no_root(l, s->stack.image) : NULL;
	if (*why) {
		errno = EOPNOTSUPP; /* it was made when there was more */
		return session_undo(s);
	}
	if (made >= 0)
		s->files_fd = stack_open_top(&s->stack, l->sessions.pool_fd);
	if (s->files_fd < 0 || session_disk_begin(s) < 0)
		return session_undo(s);
	if (hold_image(s) < 0) {
		*why = "session_image";
		return session_undo(s);
	}
	s->root = (struct session_root){&s->stack, s->uid};
	for (i = 0; i < NS_COUNT; i++)
		s->ns_fd[i] = -1;
	slot_init(&s->slot, l, session_number(l));
	if (!l->abilities.one_uid)
		s->slot.uid = s->slot.gid = s->uid;
	s->slot.session = s;
	s->look.fn = on_look;
	s->look.arg = s;
	s->next = l->sessions.first;
	l->sessions.first = s;
	l->sessions.places++;
	return s;
}

/* A broker ends before its session when something is wrong with it: then the socket that
 * programs connect to is gone, and only another process 1 can make one. */
static bool has_its_network(const struct session *s)
{
	struct pollfd p = {.fd = s->egress_fd};

	return s->egress_fd < 0 || poll(&p, 1, 0) == 0;
}

/* what concerns its processes: with the network that it is to have, or not at all */
static void session_run(struct launcher *l, struct session *s, const struct message *m,
			int *fds, uint64_t arrived_ns)
{
	const bool network = m->plan.network != NETWORK_NONE;
	const char *why;

	if (s && s->state != SESSION_ENDING &&
	    (network != (s->egress_fd >= 0) || !has_its_network(s)))
		session_end(s, "session_end", ECHILD);
	if (network && m->plan.network != launcher_network(l)) {
		session_tell_failed(l, m->run, "network", EOPNOTSUPP);
	} else if (m->plan.open.root && (why = no_root(l, m->plan.open.image))) {
		session_tell_failed(l, m->run, why, EOPNOTSUPP);
	} else if (s && s->state == SESSION_ENDING && s->yields && !network) {
		session_late_add(s, m, fds, arrived_ns);
	} else if (s && s->state == SESSION_ENDING) {
		session_tell_failed(l, m->run, "session_end", EBUSY);
	} else if ((why = session_no_room(l, m->plan.owner, !s))) {
		session_tell_failed(l, m->run, why, EBUSY);
	} else if (s) {
		session_command_new(s, m, fds, arrived_ns);
	} else if (!(s = session_new(l, &m->plan, &why))) {
		session_tell_failed(l, m->run, why ? why : "session_files", errno);
	} else {
		if (network)
			s->egress_fd = take_fd(&fds[RUN_EGRESS]);
		session_command_new(s, m, fds, arrived_ns);
		slot_build(&s->slot);
	}
}

void session_ask(struct launcher *l, const struct message *m, int *fds,
		 uint64_t arrived_ns)
{
	struct session *s = session_find(l, m->plan.session_key);

	if (l->sessions.dir_fd < 0) {
		session_tell_failed(l, m->run, "session_unavailable", EOPNOTSUPP);
	} else if (m->plan.session == SESSION_DIFF) {
		session_diff(l, m);
	} else if (session_orders(&m->plan)) {
		session_order(l, s, m);
	} else {
		session_run(l, s, m, fds, arrived_ns);
		if (m->plan.network != NETWORK_NONE &&
		    !session_find(l, m->plan.session_key))
			session_tell_ended(l, m->plan.session_key);
	}
}

static bool slot_has(const struct slot *s, pid_t pid)
{
	return (s->worker_pid_fd >= 0 && s->worker == pid) ||
	       (s->run.pid_fd >= 0 && s->run.pid == pid);
}

bool sessions_know(const struct launcher *l, pid_t pid)
{
	const struct session *s;
	const struct command *c;

	if ((l->sessions.remover_fd >= 0 && l->sessions.remover == pid) ||
	    (l->sessions.looker.pid_fd >= 0 && l->sessions.looker.pid == pid) ||
	    session_works_know(l, pid))
		return true;
	for (s = l->sessions.first; s; s = s->next) {
		if (slot_has(&s->slot, pid))
			return true;
		for (c = s->commands; c; c = c->next)
			if (slot_has(&c->slot, pid))
				return true;
	}
	return false;
}

void sessions_start(struct launcher *l)
{
	if (!l->report.sessions || l->sessions.dir_fd >= 0)
		return;
	l->sessions.dir_fd = session_dir_open(l);
	if (l->sessions.dir_fd >= 0 && session_dir_begin(l) == 0) {
		session_dir_sweep(l);
		session_count_places(l);
		return;
	}
	log_error("session.off", "error=\"%s\"", strerror(errno));
	defer_close(&l->sessions.dir_fd);
	defer_close(&l->sessions.pool_fd);
	l->sessions.dir_fd = l->sessions.pool_fd = -1;
}

void sessions_done(struct launcher *l)
{
	struct session *s;

	while ((s = l->sessions.first)) {
		/* process 1 is the last: it waits for who has a parent outside */
		while (s->commands) {
			run_end(&s->commands->slot.run);
			session_command_free(s->commands);
		}
		run_end(&s->slot.run);
		session_late_drop(s);
		session_free(s);
	}
	session_looker_end(l);
	session_works_done(l);
	session_dir_done(l);
	session_remove_done(l);
	defer_close(&l->sessions.dir_fd);
	defer_close(&l->sessions.pool_fd);
	l->sessions.dir_fd = l->sessions.pool_fd = -1;
}

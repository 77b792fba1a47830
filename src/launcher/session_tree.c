/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * session_tree.c - the processes of a session that no cgroup holds
 *
 * Runs in: the launcher. A command's tree is what is below its init, which takes in every
 * orphan of it and ends with the last one. When an init is killed, by us or by somebody
 * in the session, all that it had comes to the session's process 1: so whatever is below
 * that one is of a command that is to end, and of no other.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"
#include "base/log.h"
#include "launcher/sample.h"
#include "launcher/session_parts.h"

#define BUSY_MS 20 /* between looks at what a session uses, as a run has */
#define QUIET_MS 100

bool session_by_tree(const struct slot *s)
{
	return session_entered(s) && s->launcher->abilities.poll_memory;
}

/* ---- ending ---- */

struct rest {
	pid_t top;
	unsigned found;
};

static void end_one(int proc_fd, pid_t pid, void *arg)
{
	struct rest *r = arg;

	if (child_below(proc_fd, pid, r->top) == 0)
		return;
	r->found++;
	child_kill_below(proc_fd, pid, r->top);
}

bool session_rest_gone(const struct slot *s)
{
	const struct run *holder = &s->session->slot.run;
	struct rest r = {.top = holder->pid};

	if (!session_by_tree(s)) {
		cgroup_kill(&s->cgroup, s->worker);
		return cgroup_empty(&s->cgroup, s->worker);
	}
	if (holder->pid_fd < 0 || holder->dead)
		return true; /* and with it all of its pid namespace */
	/* a /proc that cannot be read says nothing: look again */
	return child_each_process(s->launcher->proc_fd, end_one, &r) == 0 && r.found == 0;
}

bool session_command_gone(const struct command *c)
{
	if (!session_by_tree(&c->slot))
		return cgroup_empty(&c->slot.cgroup, 0);
	if (c->slot.run.pid_fd < 0 || c->slot.run.init_ended)
		return true;
	return c->slot.run.dead && session_rest_gone(&c->slot);
}

void session_command_end_left(struct command *c)
{
	if (session_by_tree(&c->slot))
		run_kill(&c->slot.run);
	else
		cgroup_kill(&c->slot.cgroup, 0);
}

/* ---- looking ---- */

/* the number that it has in its session; 0: unknown */
static pid_t inner_pid(int proc_fd, pid_t pid)
{
	char name[32], text[8192];
	const char *at, *end;

	snprintf(name, sizeof(name), "%d/status", (int)pid);
	if (fs_read_at(proc_fd, name, text, sizeof(text)) < 0)
		return 0;
	at = strstr(text, "\nNSpid:"); /* the last one is of the innermost namespace */
	end = at ? strchr(at + 1, '\n') : NULL;
	while (end && end > at && end[-1] != '\t')
		end--;
	return end ? (pid_t)strtol(end, NULL, 10) : 0;
}

/* in the session's own /proc, where it has one: there are few others in it */
static void sample_command(struct command *c, int shm_fd, enum sample_how how,
			   struct sample *out)
{
	const struct launcher *l = c->slot.launcher;
	const int proc_fd = c->slot.session->slot.run.proc_fd;

	if (proc_fd >= 0 && c->inner == 0)
		c->inner = inner_pid(l->proc_fd, c->slot.run.pid);
	if (proc_fd >= 0 && c->inner > 0)
		sample_tree(proc_fd, c->inner, shm_fd, how, out);
	else
		sample_tree(l->proc_fd, c->slot.run.pid, shm_fd, how, out);
}

static bool is_alive(const struct command *c)
{
	return c->slot.run.pid_fd >= 0 && !c->slot.run.dead;
}

/* all of a session whose /proc is empty */
static void sample_commands(const struct session *s, enum sample_how how,
			    struct sample *out)
{
	int shm_fd = s->slot.run.work_fd; /* counted once */
	struct command *c;
	struct sample one;

	memset(out, 0, sizeof(*out));
	for (c = s->commands; c; c = c->next) {
		if (!is_alive(c))
			continue;
		sample_command(c, shm_fd, how, &one);
		shm_fd = -1;
		out->memory_kb += one.memory_kb;
		out->most_kb += one.most_kb;
		out->cpu_us += one.cpu_us;
	}
}

void session_sample(struct run *r, enum sample_how how, struct sample *out)
{
	if (session_entered(r->slot))
		sample_command((struct command *)r->slot, -1, how, out);
	else if (r->proc_fd >= 0)
		sample_take(r->proc_fd, r->work_fd, how, out);
	else
		sample_commands(r->slot->session, how, out);
}

static uint64_t limit_kb(const struct run *r)
{
	return (uint64_t)r->plan.limits.memory_mb << 10;
}

static void end_for_memory(struct command *c)
{
	log_info("session.memory", "uid=%u lingers=%d", (unsigned)c->slot.uid,
		 c->lingers);
	c->slot.run.memory_out = true;
	run_kill(&c->slot.run);
}

/* each alone where nobody looks at it any more, and the largest when all are too much */
static void look_at_commands(struct session *s, uint64_t all_kb)
{
	struct command *c, *largest = NULL;
	uint64_t most_kb = 0;
	struct sample now;

	for (c = s->commands; c; c = c->next)
		if (c->slot.run.memory_out)
			return; /* what it had is on its way, and its memory with it */
	for (c = s->commands; c; c = c->next) {
		if (!is_alive(c) || (all_kb <= limit_kb(&s->slot.run) &&
				     (!c->lingers || all_kb <= limit_kb(&c->slot.run))))
			continue;
		sample_command(c, -1, SAMPLE_SIZES, &now);
		if (c->lingers && now.memory_kb > limit_kb(&c->slot.run)) {
			end_for_memory(c);
		} else if (now.memory_kb >= most_kb) {
			most_kb = now.memory_kb;
			largest = c;
		}
	}
	if (all_kb > limit_kb(&s->slot.run) && largest)
		end_for_memory(largest);
}

uint64_t session_tree_look(struct session *s)
{
	struct sample now;
	bool busy;

	run_measure(&s->slot.run, &now);
	look_at_commands(s, now.memory_kb);
	busy = now.cpu_us != s->cpu_us;
	s->cpu_us = now.cpu_us;
	return busy ? BUSY_MS : QUIET_MS;
}

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * notify.c - refused calls of a run: answered, counted, told to the server
 *
 * Runs in: the launcher. A call waits until it is answered, always with the errno of its
 * rule: none is ever let go on, and nothing of the caller's memory is read, since both
 * can be changed behind our back. What a program can make us do is bounded: after
 * CALLS_MOST answers the listener is closed, and from then on the kernel itself refuses,
 * with ENOSYS.
 */
#include "launcher/notify.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/defer.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sys.h"
#include "launcher/launcher.h"

#define CALLS_MOST 1000
#define WINDOW_NS 100000000ull /* where all is reported: that many calls in this time */

/* the kernel's structs may grow; it writes as much as its own have */
#define ROOM 256

struct notify_record {
	struct violation v;
	uint32_t rule; /* of the setup's denials; their number: none */
};

int notify_usable(void)
{
	struct seccomp_notif_sizes sizes = {0};

	if (sys_seccomp(SECCOMP_GET_NOTIF_SIZES, 0, &sizes) < 0)
		return -1;
	if (sizes.seccomp_notif > ROOM || sizes.seccomp_notif_resp > ROOM ||
	    sizes.seccomp_data < sizeof(struct seccomp_data)) {
		errno = EPROTO;
		return -1;
	}
	return 0;
}

unsigned notify_most(const struct setup *setup)
{
	return setup->reporting[0].wide ? VIOLATIONS_MOST : VIOLATIONS_USUAL;
}

static const struct setup_reporting *reporting(const struct run *r)
{
	const struct launcher *l = r->slot->launcher;

	return &l->setup->reporting[child_reporting(l->setup, &l->abilities, &r->plan)];
}

static bool holds(uint32_t op, uint64_t arg, uint64_t value, uint64_t value_two)
{
	switch ((enum denial_op)op) {
	case DENIAL_NE:
		return arg != value;
	case DENIAL_LT:
		return arg < value;
	case DENIAL_LE:
		return arg <= value;
	case DENIAL_EQ:
		return arg == value;
	case DENIAL_GE:
		return arg >= value;
	case DENIAL_GT:
		return arg > value;
	case DENIAL_MASKED_EQ:
		return (arg & value) == value_two;
	}
	return false;
}

static bool fits(const struct setup_denial *d, const struct seccomp_data *call)
{
	uint32_t i;

	if (d->nr != call->nr)
		return false;
	for (i = 0; i < d->args; i++) {
		if (!holds(d->arg[i].op, call->args[d->arg[i].index], d->arg[i].value,
			   d->arg[i].value_two))
			return false;
	}
	return true;
}

int notify_errno(const struct setup_reporting *s, const struct seccomp_data *call,
		 uint32_t *out_rule)
{
	uint32_t i = 0;

	while (i < s->denials && !fits(&s->denial[i], call))
		i++;
	*out_rule = i;
	return (int)(i < s->denials ? s->denial[i].errno_ret : s->else_errno);
}

/* rules tell calls of this number apart by their arguments */
static bool has_arguments(const struct setup_reporting *s, int nr)
{
	uint32_t i;

	for (i = 0; i < s->denials; i++)
		if (s->denial[i].nr == nr && s->denial[i].args)
			return true;
	return false;
}

/* Refused by the same rule; and one that stands for many values, as "AF_PACKET and above"
 * does, for the same value. Who observes wants to know each. */
static bool same(const struct setup_reporting *s, const struct notify_record *known,
		 uint32_t rule, const struct seccomp_data *call)
{
	const struct setup_denial *d = &s->denial[rule];
	uint32_t i;

	if (known->rule != rule || known->v.nr != call->nr)
		return false;
	if (s->wide && has_arguments(s, call->nr))
		return memcmp(known->v.args, call->args, sizeof(call->args)) == 0;
	for (i = 0; rule < s->denials && i < d->args; i++) {
		const uint32_t at = d->arg[i].index;

		if (d->arg[i].op != DENIAL_EQ && d->arg[i].op != DENIAL_MASKED_EQ &&
		    known->v.args[at] != call->args[at])
			return false;
	}
	return true;
}

static void record(struct run *r, uint32_t rule, int num, const struct seccomp_data *call)
{
	const unsigned most = notify_most(r->slot->launcher->setup);
	struct notify *n = &r->notify;
	unsigned i = 0;

	while (i < n->records && !same(reporting(r), &n->record[i], rule, call))
		i++;
	if (i == most) {
		n->cut = true;
		return;
	}
	if (!n->record)
		n->record = mem_array(most, sizeof(*n->record));
	if (i == n->records) {
		n->record[n->records++] = (struct notify_record){
			.v = {.nr = call->nr, .errno_ret = (uint32_t)num}, .rule = rule};
		memcpy(n->record[i].v.args, call->args, sizeof(call->args));
	}
	n->record[i].v.count++;
}

static void close_listener(struct run *r)
{
	loop_remove(r->slot->launcher->loop, r->notify.fd);
	close(take_fd(&r->notify.fd));
}

static void answer(struct run *r, uint64_t id, int num)
{
	union {
		char room[ROOM]; /* first: all of it is zeroed */
		struct seccomp_notif_resp resp;
	} a = {{0}};

	a.resp.id = id;
	a.resp.error = -num;
	/* ENOENT: the caller was killed meanwhile */
	if (ioctl(r->notify.fd, SECCOMP_IOCTL_NOTIF_SEND, &a) < 0 && errno != ENOENT) {
		log_error("notify.send", "slot=%u error=\"%s\"", r->slot->n,
			  strerror(errno));
		r->notify.cut = true;
		close_listener(r); /* whoever waits is refused by the kernel */
	}
}

static void on_again(void *arg)
{
	struct run *r = arg;

	if (r->notify.fd >= 0 &&
	    loop_change(r->slot->launcher->loop, r->notify.fd, EPOLLIN) < 0)
		close_listener(r);
}

/* true: this one is not for us any more. Where all is reported there is no end, but a
 * pace. */
static bool too_many(struct run *r)
{
	struct notify *n = &r->notify;
	const uint64_t now = loop_now_ns();

	if (!reporting(r)->wide)
		return n->calls == CALLS_MOST;
	if (now - n->since_ns > WINDOW_NS) {
		n->since_ns = now;
		n->lately = 0;
	}
	if (++n->lately > CALLS_MOST) {
		n->again.fn = on_again;
		n->again.arg = r;
		loop_timer_at(r->slot->launcher->loop, &n->again,
			      n->since_ns + WINDOW_NS);
		if (loop_change(r->slot->launcher->loop, n->fd, 0) < 0)
			return true;
	}
	return false;
}

/*
 * One call each time: deadlines and other runs have their turn. After EPOLLIN receiving
 * does not wait, not even when the caller is gone: that is ENOENT.
 */
static void on_call(void *arg, uint32_t events)
{
	struct run *r = arg;
	union {
		char room[ROOM];
		struct seccomp_notif call;
	} m = {{0}};
	uint32_t rule;
	int num;

	if (!(events & EPOLLIN)) {
		close_listener(r); /* nobody is left who could call */
		return;
	}
	if (too_many(r)) {
		r->notify.cut = true;
		close_listener(r);
		return;
	}
	r->notify.calls++; /* one that was taken back by a signal has cost us as much */
	if (ioctl(r->notify.fd, SECCOMP_IOCTL_NOTIF_RECV, &m) < 0) {
		if (errno == ENOENT || errno == EINTR)
			return;
		log_error("notify.receive", "slot=%u error=\"%s\"", r->slot->n,
			  strerror(errno));
		r->notify.cut = true;
		close_listener(r);
		return;
	}
	num = notify_errno(reporting(r), &m.call.data, &rule);
	record(r, rule, num, &m.call.data);
	answer(r, m.call.id, num);
}

int notify_take(struct run *r, int *listener_fd)
{
	if (loop_add(r->slot->launcher->loop, *listener_fd, EPOLLIN, on_call, r) < 0)
		return -1;
	r->notify.fd = take_fd(listener_fd);
	r->notify.taken = true;
	return 0;
}

uint64_t notify_count(const struct run *r, int nr)
{
	uint64_t count = 0;
	unsigned i;

	for (i = 0; i < r->notify.records; i++) {
		if (r->notify.record[i].v.nr == nr)
			count += r->notify.record[i].v.count;
	}
	return count;
}

void notify_tell(const struct run *r)
{
	struct message m = {.type = MSG_VIOLATION, .run = r->id};
	unsigned i;

	for (i = 0; i < r->notify.records; i++) {
		m.violation = r->notify.record[i].v;
		launcher_send(r->slot->launcher, &m, NULL);
	}
}

enum violations_known notify_known(const struct run *r)
{
	/* a program that runs has handed it over, or its calls were nobody's to answer */
	if (!r->slot->launcher->abilities.notify || (r->started && !r->notify.taken))
		return VIOLATIONS_UNKNOWN;
	return r->notify.cut ? VIOLATIONS_CUT : VIOLATIONS_ALL;
}

void notify_clear(struct run *r)
{
	loop_timer_stop(r->slot->launcher->loop, &r->notify.again);
	if (r->notify.fd >= 0)
		close_listener(r);
	free(r->notify.record);
	r->notify = (struct notify){.fd = -1};
}

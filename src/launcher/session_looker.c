/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * session_looker.c - looks at what a session has on the disk that may take long
 *
 * Runs in: a process that the launcher forks, one at a time for all sessions, so that
 * nobody waits for it but who has so many files. It sees what has a name, and what only
 * an open descriptor keeps; the latter first, since what loses its name in between would
 * count twice. Who wants to be looked at has his turn: the one who waits longest is next.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/defer.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sys.h"
#include "launcher/sample.h"
#include "launcher/session_parts.h"

#define LOOK_MS 20000 /* it hangs, and others want to be looked at */
#define NAMELESS_MS 10000
#define NAMELESS_MOST (1u << 20)

/* process 1, and the inits of its commands: everything of it is below one of them */
static struct sample_run who_is_in(const struct session *s, pid_t *tops)
{
	const struct command *c;
	size_t count = 0;

	tops[count++] = s->slot.run.pid;
	for (c = s->commands; c; c = c->next)
		if (c->slot.run.pid > 0)
			tops[count++] = c->slot.run.pid;
	return (struct sample_run){.tops = tops,
				   .top_count = count,
				   .uid = s->uid,
				   .uids = s->stack.root ? SETUP_ROOT_IDS : 1,
				   .owner = s->slot.uid,
				   .gid = s->slot.gid,
				   .host_usr = !s->stack.image[0],
				   .most = NAMELESS_MOST,
				   .ms = NAMELESS_MS};
}

static _Noreturn void look(const struct session *s, uint64_t most, int out_fd,
			   pid_t parent)
{
	const int proc_fd = s->launcher->proc_fd;
	/* the streams of runs are among the others, whose ends somebody waits for */
	const struct sessions *all = &s->launcher->sessions;
	const int fds[] = {s->files_fd, proc_fd, out_fd, all->dir_fd, all->pool_fd};
	pid_t tops[SESSION_COMMANDS + 1];
	struct sample_run who = who_is_in(s, tops);
	struct disk_seen seen = {0};
	struct disk_use named;
	struct stat ns = {0};

	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != parent ||
	    (s->ns_fd[NS_PID] >= 0 && fstat(s->ns_fd[NS_PID], &ns) < 0) ||
	    sys_keep_fds(fds, sizeof(fds) / sizeof(fds[0])) < 0)
		_exit(1);
	if (!s->kept_known && !session_kept(s->launcher, s->key, UINT64_MAX, &seen.kept))
		_exit(3);
	who.pid_ns = ns.st_ino;
	if (who.pid_ns)
		sample_nameless(proc_fd, &who, &seen.use);
	sample_disk(s->files_fd, most, &named);
	sample_add(&seen.use, &named);
	_exit(write(out_fd, &seen, sizeof(seen)) == sizeof(seen) ? 0 : 2);
}

/* the one whose last look is the longest ago */
static struct session *next_of(const struct launcher *l)
{
	struct session *s, *found = NULL;

	for (s = l->sessions.first; s; s = s->next)
		if (s->disk_wants && (!found || s->disk_seen_ns < found->disk_seen_ns))
			found = s;
	return found;
}

static void on_late(void *arg)
{
	struct launcher *l = arg;

	log_warn("session.look", "error=\"it takes too long\"");
	(void)sys_pidfd_send_signal(l->sessions.looker.pid_fd, SIGKILL);
}

static void on_looked(void *arg, uint32_t events)
{
	struct launcher *l = arg;
	const struct looker k = l->sessions.looker;
	struct disk_seen seen;
	const bool whole = read(k.out_fd, &seen, sizeof(seen)) == sizeof(seen);
	struct session *next;

	(void)events;
	session_looker_end(l);
	if (!whole)
		log_warn("session.look", "error=\"it told nothing\"");
	if (k.at)
		session_disk_looked(k.at, whole ? &seen : NULL, &k);
	next = next_of(l);
	if (next)
		(void)session_disk_ask(next);
	session_commands_go_on(l);
}

/* it has ended, or does so now */
void session_looker_end(struct launcher *l)
{
	struct looker *k = &l->sessions.looker;

	if (k->pid_fd < 0)
		return;
	(void)sys_pidfd_send_signal(k->pid_fd, SIGKILL);
	loop_remove(l->loop, k->pid_fd);
	loop_timer_stop(l->loop, &k->deadline);
	(void)sys_reap(k->pid, NULL, NULL);
	close(take_fd(&k->pid_fd));
	close(take_fd(&k->out_fd));
	k->at = NULL;
}

/* a process that is there already: it is ended if nobody can wait for it */
static bool watch(struct launcher *l, struct looker *k)
{
	k->pid_fd = sys_pidfd_open(k->pid, 0);
	if (k->pid_fd >= 0 && loop_add(l->loop, k->pid_fd, EPOLLIN, on_looked, l) == 0)
		return true;
	kill(k->pid, SIGKILL); /* not reaped yet: the number is still its own */
	(void)sys_reap(k->pid, NULL, NULL);
	defer_close(&k->pid_fd);
	k->pid_fd = -1;
	return false;
}

bool session_looker_start(struct session *s, uint64_t most)
{
	struct launcher *l = s->launcher;
	struct looker *k = &l->sessions.looker;
	const pid_t parent = getpid();
	auto_fd int read_fd = -1, write_fd = -1;
	int pair[2];

	s->disk_wants = k->pid_fd >= 0;
	if (s->disk_wants)
		return true;
	if (pipe2(pair, O_CLOEXEC | O_NONBLOCK) < 0)
		return false;
	read_fd = pair[0];
	write_fd = pair[1];
	k->at = s;
	k->began_ns = loop_now_ns();
	k->free_bytes = session_disk_free(s);
	k->pid = fork();
	if (k->pid == 0)
		look(s, most, write_fd, parent);
	if (k->pid < 0 || !watch(l, k)) {
		k->at = NULL;
		return false;
	}
	k->out_fd = take_fd(&read_fd);
	k->deadline = (struct loop_timer){.fn = on_late, .arg = l};
	loop_timer_at(l->loop, &k->deadline, k->began_ns + LOOK_MS * 1000000ull);
	return true;
}

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * fork.c - a started interpreter as a slot's worker
 *
 * Runs in: python3, which the slot's worker has become (launcher/fork.h): the slot's uid,
 * no capability, no network, its read-only root, its cgroup. It never runs a program's
 * code; of a request it reads the plan, and no byte of the input, which passes by as a
 * descriptor. Whoever returns from fork_serve() is a run's program, in its sandbox,
 * behind its filters.
 */
#include "python/fork.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/defer.h"
#include "base/fdpass.h"
#include "base/sys.h"
#include "launcher/fork.h"
#include "launcher/worker.h"
#include "python/call.h"
#include "python/finish.h"
#include "python/freeze.h"
#include "python/harmless.h"
#include "python/huge.h"
#include "python/renew.h"
#include "python/words.h"

#define DESCRIPTORS 256 /* that are looked at */
#define QUIET_TRIES 200 /* a millisecond each */
#define NAME_BYTES 16   /* of a process */
#define PAGE 65536      /* the largest there is */
#define STACK_BYTES PAGE

/* on pages of its own, which a run drops as they are */
static struct {
	struct fork_start start;
	const struct setup *setup;
	struct sigaction signals[NSIG];
	char name[NAME_BYTES];
	struct child child;
	stack_t signal_stack;
	int last_fd;    /* of the last run's process 1, -1: there was none */
	int gate[2];    /* of the next one's, which waits for a byte; -1 as well */
	bool forking;   /* it is in fork(), and so may be what that locks */
	jmp_buf before; /* where the program of a run goes on */
	char guard[PAGE] __attribute__((aligned(PAGE)));
	char stack[STACK_BYTES]; /* of a process 1; on the last page of all */
} __attribute__((aligned(PAGE))) self;

static void answer(const char *step, int num)
{
	struct worker_answer a = {.num = num};

	memcpy(a.step, step, strlen(step) + 1);
	if (fdpass_send(FORK_SOCKET_FD, &a, sizeof(a), NULL, 0) < 0)
		_exit(1); /* the launcher is gone */
}

_Noreturn void fork_fail(const char *step, int num)
{
	answer(step, num);
	_exit(1);
}

void fork_begin(void)
{
	int i;

	for (i = FORK_SOCKET_FD; i < FORK_FDS; i++) {
		if (i != FORK_OBJECT_FD && fcntl(i, F_SETFD, FD_CLOEXEC) < 0)
			_exit(1);
	}
	/* execve may have cleared it, and the launcher may be gone since */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 ||
	    pread(FORK_START_FD, &self.start, sizeof(self.start), 0) !=
		    (ssize_t)sizeof(self.start) ||
	    getppid() != self.start.launcher)
		_exit(1);
	self.setup = mmap(NULL, sizeof(*self.setup), PROT_READ, MAP_PRIVATE,
			  FORK_SETUP_FD, 0);
	if (self.setup == MAP_FAILED)
		fork_fail("fork_setup", errno);
}

static unsigned long threads(void)
{
	struct stat st;

	if (fstatat(FORK_PROC_FD, "self/task", &st, 0) < 0 || st.st_nlink < 3)
		fork_fail("fork_threads", ESRCH);
	return st.st_nlink - 2;
}

/* A library that knows fork ends its threads for it, and starts them again when it needs
 * them: so one fork that nobody needs is all it takes. */
static void end_threads(void)
{
	const struct timespec moment = {0, 1000000};
	int i;
	pid_t pid;

	if (threads() == 1)
		return;
	pid = fork();
	if (pid == 0)
		_exit(0);
	if (pid < 0 || waitpid(pid, NULL, 0) < 0)
		fork_fail("fork_threads", errno);
	for (i = 0; i < QUIET_TRIES && threads() > 1; i++)
		nanosleep(&moment, NULL);
	if (threads() > 1)
		fork_fail("fork_threads", EBUSY);
}

/* what a module left open, or wrote, would be in every run */
static void check_quiet(void)
{
	struct pollfd p[] = {{.fd = FORK_OUT_FD, .events = POLLIN},
			     {.fd = FORK_ERR_FD, .events = POLLIN}};
	int i;

	if (poll(p, 2, 0) != 0)
		fork_fail("fork_output", EBUSY);
	for (i = FORK_FDS; i < DESCRIPTORS; i++) {
		if (fcntl(i, F_GETFD) >= 0)
			fork_fail("fork_descriptors", EBUSY);
	}
	if (fcntl(FORK_OBJECT_FD, F_GETFD) >= 0)
		fork_fail("fork_descriptors", EBUSY);
}

/*
 * Memory that is shared with the others would be so in every run, whether it may be
 * written or a run has yet to ask for that: "ms" and "mw" of "VmFlags: rd mr mw me ms". A
 * file that was opened to be read has no "mw".
 */
static bool is_private(void)
{
	const int fd = openat(FORK_PROC_FD, "self/smaps", O_RDONLY | O_CLOEXEC);
	FILE *maps = fd < 0 ? NULL : fdopen(fd, "r");
	char line[4600]; /* a path and its numbers */
	bool seen = false, shared = false;

	while (maps && fgets(line, sizeof(line), maps)) {
		if (strncmp(line, "VmFlags:", 8) != 0)
			continue;
		seen = true;
		if (strstr(line, " ms") && strstr(line, " mw"))
			shared = true;
	}
	if (!maps || ferror(maps))
		shared = true;
	if (maps)
		fclose(maps);
	return seen && !shared;
}

/* no module sees anything from here on, and a run mounts a /proc of its own */
static void take_cover_off(void)
{
	char byte = 0;

	if (write(FORK_COVER_FD, &byte, 1) != 1 || read(FORK_COVER_FD, &byte, 1) != 1 ||
	    close(FORK_COVER_FD) < 0)
		fork_fail("fork_proc", EPERM);
	/* nobody is there to be waited for where a module ignores its children's end */
	(void)waitpid(self.start.keeper, NULL, 0);
}

static void remember(void)
{
	int i;

	for (i = 1; i < NSIG; i++)
		(void)sigaction(i, NULL, &self.signals[i]); /* 32 and 33: not for us */
	if (prctl(PR_GET_NAME, self.name, 0, 0, 0) < 0)
		fork_fail("fork_name", errno);
	if (sigaltstack(NULL, &self.signal_stack) < 0)
		fork_fail("fork_signals", errno);
}

static pid_t fork_program(void)
{
	pid_t pid;

	self.forking = true;
	pid = fork();
	self.forking = false;
	return pid;
}

/* what process 1 of a run is to know */
static void describe(const struct worker_order *o, const int *fds, const struct pipes *s)
{
	struct child *c = &self.child;

	c->setup = self.setup;
	c->row = &self.setup->row[o->plan.row];
	c->abilities = self.start.abilities;
	c->plan = o->plan;
	c->waits = WAITS_NOT;
	c->script_fd = c->self_fd = c->object_fd = c->work_fd = c->listener_fd =
		c->egress_fd = -1;
	c->layer_fd = o->with_layer ? fds[ORDER_CGROUP + (o->into_cgroup ? 1 : 0)] : -1;
	c->input_fd = fds[ORDER_INPUT];
	c->news_fd = fds[ORDER_NEWS];
	c->proc_fd = FORK_PROC_FD;
	memcpy(c->stream_fd, s->child, sizeof(c->stream_fd));
	c->outer_uid = self.start.uid;
	c->outer_gid = self.start.gid;
	c->keeps_groups = self.start.abilities.one_uid;
	c->launcher = self.start.launcher;
	c->supervisor = self.start.supervisor;
	c->fork = fork_program;
}

/* python's would write to our memory when its program sends a signal */
static void drop_handlers(void)
{
	const struct sigaction standard = {.sa_handler = SIG_DFL};
	int i;

	for (i = 1; i < NSIG; i++) {
		if (self.signals[i].sa_handler != SIG_DFL &&
		    self.signals[i].sa_handler != SIG_IGN)
			(void)sigaction(i, &standard, NULL);
	}
}

/*
 * Process 1 of a run: it has our memory, so that the program's copy is the only one. No
 * byte of its input comes into that memory, and nobody else runs in it meanwhile: we wait
 * for the next order then, and it for us until we do, since errno is one for both.
 */
static void be_first(void *arg)
{
	char byte;

	(void)arg;
	close(self.gate[1]);
	if (read(self.gate[0], &byte, 1) != 1)
		_exit(127); /* the interpreter is gone */
	close(self.gate[0]);
	drop_handlers();
	/* one of ours, whoever looks */
	prctl(PR_SET_NAME, "sandbox-worker", 0, 0, 0);
	child_main(&self.child); /* returns in the program, */
	longjmp(self.before, 1); /* whose stack is another */
}

static void let_go(int *fd)
{
	const int taken = take_fd(fd);

	if (taken >= 0)
		close(taken);
}

/* the last process 1 is gone, and so is what it has left; -1: not so, with the step */
static int begin_anew(const char **step)
{
	struct pollfd p = {.fd = self.last_fd, .events = POLLIN};

	let_go(&self.gate[0]);
	let_go(&self.gate[1]);
	*step = "fork_last";
	if (self.last_fd >= 0 && (poll(&p, 1, -1) != 1 || !(p.revents & POLLIN)))
		return -1;
	let_go(&self.last_fd);
	if (self.forking) {
		errno = EOWNERDEAD; /* whatever it had locked stays so */
		return -1;
	}
	*step = "fork_stack";
	if (madvise(self.stack, sizeof(self.stack), MADV_DONTNEED) < 0)
		return -1;
	*step = "fork_dumpable"; /* it may have died while it was */
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return -1;
	*step = "pipes";
	return pipe2(self.gate, O_CLOEXEC);
}

/* Nothing follows here that may fail, so errno is process 1's from now on. We have the
 * other end too: whoever died meanwhile is no reason for a signal. */
static void open_gate(void)
{
	if (write(self.gate[1], "", 1) != 1)
		_exit(1);
}

/* true: there is a process 1, and it waits */
static bool obey(const struct worker_order *o, const int *fds, size_t count)
{
	struct worker_answer a = {.num = 0};
	struct pipes s;
	const struct clone_within within = {be_first, NULL, self.stack,
					    sizeof(self.stack)};
	const char *step;
	int out[4];

	if (o->plan.errand != ERRAND_NONE || o->plan.row != self.start.row || o->waits ||
	    o->plan.network || o->plan.cold == COLD_ALWAYS ||
	    o->plan.has_layer != o->with_layer ||
	    count != 2u + (o->into_cgroup ? 1 : 0) + (o->with_layer ? 1 : 0)) {
		answer("fork_order", EPROTO);
		return false;
	}
	if (begin_anew(&step) < 0) {
		answer(step, errno);
		return false;
	}
	if (pipes_make(&s) < 0) {
		answer("pipes", errno);
		pipes_close(&s);
		return false;
	}
	describe(o, fds, &s);
	a.pid = clone_into(RUN_NAMESPACES, o->into_cgroup ? fds[ORDER_CGROUP] : -1,
			   &within, &self.last_fd);
	if (a.pid < 0) {
		self.last_fd = -1; /* the kernel may have had a number for it */
		answer("clone", errno);
		pipes_close(&s);
		return false;
	}
	out[0] = self.last_fd;
	memcpy(out + 1, s.ours, sizeof(s.ours));
	if (fdpass_send(FORK_SOCKET_FD, &a, sizeof(a), out, 4) < 0)
		_exit(1);
	pipes_close(&s);
	explicit_bzero(&a, sizeof(a)); /* the program has our stack: no pid of the host */
	return true;
}

/* returns in the program */
static void serve(void)
{
	struct worker_order order = {0};
	int fds[FDPASS_MAX];
	size_t count, i;

	self.last_fd = self.gate[0] = self.gate[1] = -1;
	if (mprotect(self.guard, sizeof(self.guard), PROT_NONE) < 0)
		fork_fail("fork_stack", errno);
	if (setjmp(self.before) != 0)
		return;
	answer("", 0);
	while (fdpass_receive(FORK_SOCKET_FD, &order, sizeof(order), fds, &count,
			      FDPASS_WAIT) == 1) {
		const bool waits = obey(&order, fds, count);

		for (i = 0; i < count; i++)
			close(fds[i]);
		if (waits)
			open_gate();
	}
	_exit(0);
}

static size_t add_words(const char *const *from, char *to)
{
	size_t len = 0;

	for (; *from; from++) {
		const size_t with_nul = strlen(*from) + 1;

		if (to)
			memcpy(to + len, *from, with_nul);
		len += with_nul;
	}
	return len;
}

/* those of the request come behind the row's own; where its layer is belongs to them */
static void take_words(const struct child *c)
{
	const int own_envc = c->envc - (child_has_layer(c) ? 1 : 0);
	const char *const *args = c->argv + c->argc, *const *env = c->envp + own_envc;
	const struct ahead_words w = {(uint32_t)add_words(args, NULL),
				      (uint32_t)add_words(env, NULL)};
	char *text;

	if (w.args_len + w.env_len == 0)
		return;
	text = malloc((size_t)w.args_len + w.env_len);
	if (!text)
		_exit(127);
	add_words(args, text);
	add_words(env, text + w.args_len);
	if (words_set(&w, text, true) < 0) {
		errno = CHILD_HAS_ALREADY;
		child_fail(c, child_step_find("order"));
	}
	free(text);
}

/* nothing of ours, of the host or of the launcher is left to be read */
static void forget(void)
{
	const int news_fd = self.child.news_fd, started_fd = self.child.started_fd;
	int i;

	for (i = 1; i < NSIG; i++) {
		if (self.signals[i].sa_handler != SIG_DFL) /* as all of them are now */
			(void)sigaction(i, &self.signals[i], NULL);
	}
	if (prctl(PR_SET_NAME, self.name, 0, 0, 0) < 0 ||
	    (!(self.signal_stack.ss_flags & SS_DISABLE) &&
	     sigaltstack(&self.signal_stack, NULL) < 0) ||
	    munmap((void *)(uintptr_t)self.child.input, self.child.plan.input_bytes) <
		    0 ||
	    munmap((void *)(uintptr_t)self.setup, sizeof(*self.setup)) < 0)
		_exit(127);
	/* to write zeros would be a copy of each page first */
	if (madvise(&self, sizeof(self), MADV_DONTNEED) < 0)
		_exit(127);
	/* process 1 hears by the last that the program starts */
	if (close(news_fd) < 0 || close(started_fd) < 0)
		_exit(127);
}

void fork_serve(void)
{
	void (*before)(void) = call_need("PyOS_BeforeFork");
	void (*after)(void) = call_need("PyOS_AfterFork_Child");

	(void)call_begin(); /* and for the run's whole life: finish_run() is python's */
	finish_prepare();
	if (freeze_all() < 0)
		fork_fail("fork_freeze", ENOSYS);
	harmless_begin();
	end_threads();
	if (!is_private())
		fork_fail("fork_shared", EBUSY);
	check_quiet();
	remember();
	renew_prepare();
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		fork_fail("fork_dumpable", errno);
	huge_all(FORK_PROC_FD);
	before(); /* and never "after" here: we do nothing but clone */
	take_cover_off();
	serve();
	after();
	renew_all();
	take_words(&self.child);
	forget();
}

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * prepare.c - settings, modes, filters and cgroups to what a launcher is started with
 *
 * Runs in: the supervisor, and in `run` and `check`, which are supervisors of one
 * launcher too. Everything is compiled, looked up and opened once, here.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/caps.h"
#include "base/defer.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sys.h"
#include "cmd/cmd.h"
#include "config/binds.h"
#include "config/filter.h"
#include "config/policy.h"
#include "http/server.h"

#define REPORT_WAIT_MS 30000
#define END_WAIT_MS 10000 /* it may have directories of runs to remove */

/* the launcher's descriptors, fixed so that it needs no arguments */
enum { LAUNCHER_START_FD = 3, LAUNCHER_SOCKET_FD = 4, LAUNCHER_LEDGER_FD = 5 };

/* slots of their own: whatever waits, capacity is what it is */
static int add_warm_slots(const struct settings *s, struct setup *setup, struct err *e)
{
	unsigned i, rows = 0;

	for (i = 0; i < setup->rows; i++)
		rows += setup->row[i].waits != WAITS_NOT;
	if (setup->slots + s->warm * rows > SETUP_SLOTS)
		return err_bad(e,
			       "SANDBOX_WARM=%u: %u modes and SANDBOX_MAX_CONCURRENT=%u "
			       "make more than %d sandboxes",
			       (unsigned)s->warm, rows, setup->slots, SETUP_SLOTS);
	setup->warm = (uint32_t)s->warm;
	setup->warm_memory_mb = (uint32_t)s->warm_memory_mb;
	setup->slots += setup->warm * rows;
	return 0;
}

static int fill_setup(struct prepared *p, unsigned slots, enum prepare_why why,
		      struct err *e)
{
	const struct settings *s = &p->settings;
	struct setup *setup = &p->start->setup;

	setup->magic = SETUP_MAGIC;
	setup->size = sizeof(*p->start);
	setup->slots = slots;
	setup->min_level = (uint32_t)s->min_isolation;
	setup->cpu_milli = (uint32_t)(s->cpus * 1000);
	setup->max_files = (uint32_t)s->max_files;
	setup->max_files_bytes = s->max_files_mb << 20;
	setup->uid_base = (uid_t)s->uid_base;
	setup->log_level = (uint32_t)s->log_level;
	setup->log_format = (uint32_t)s->log_format;
	snprintf(setup->output_dir, sizeof(setup->output_dir), "%s", s->output_dir);
#ifdef SANDBOX_TEST_HOOKS
	if (getenv("SANDBOX_TEST_FAULT"))
		snprintf(setup->test_fault, sizeof(setup->test_fault), "%s",
			 getenv("SANDBOX_TEST_FAULT"));
#endif
	if (modes_find(&p->modes, s, setup, e) < 0) {
		if (why != TO_CHECK && why != TO_SELFTEST)
			return -1;
		/* isolation can be looked at without a program to run */
		setup->rows = 0;
		if (binds_system(setup, e) < 0)
			return -1;
	}
	if (why == TO_SELFTEST && modes_self_rows(s, setup, e) < 0)
		return -1;
	if (why == TO_SERVE && add_warm_slots(s, setup, e) < 0)
		return -1;
	policy_set_dir(s->policy_dir);
	setup->reporting[0].wide = why == TO_OBSERVE;
	return filters_compile(setup, e);
}

/* root that keeps too few rights to make sandboxes as it is: the launcher becomes the
 * first slot's uid for that (launcher/start.c) */
static bool leaves_root(const struct setup *setup)
{
	return setup->uid_base && !caps_have("cap_sys_admin");
}

/* that uid reaches runtimes by what directories allow to everybody */
static int check_reach(const struct setup *setup, struct err *e)
{
	char path[SETUP_PATH];
	struct stat st;
	unsigned i;
	char *end;

	for (i = 0; leaves_root(setup) && i < setup->binds; i++) {
		snprintf(path, sizeof(path), "%s", setup->bind[i].path);
		for (end = path + strlen(path); end > path; end = strrchr(path, '/')) {
			*end = '\0';
			if (stat(path, &st) < 0 || !S_ISDIR(st.st_mode) ||
			    st.st_mode & S_IXOTH || st.st_uid == setup->uid_base)
				continue;
			return err_ours(e,
					"'%s' has a runtime and only root can enter it, "
					"but without CAP_SYS_ADMIN sandboxes are made by "
					"uid %u: open it, or move the runtime",
					path, (unsigned)setup->uid_base);
		}
	}
	return 0;
}

static char *state_path(const struct settings *s)
{
	const char *base = getenv("XDG_STATE_HOME"), *home = getenv("HOME");

	if (s->state_dir)
		return mem_copy(s->state_dir);
	if (s->uid_base)
		return mem_copy("/var/lib/sandbox-server");
	if (base && base[0] == '/')
		return mem_printf("%s/sandbox-server", base);
	if (home && home[0] == '/')
		return mem_printf("%s/.local/state/sandbox-server", home);
	return NULL;
}

/*
 * Opened here, with the rights to make it. The directory itself stays ours: what the
 * server may write is below it, and a server gone wrong must not be able to put a compile
 * cache there.
 */
static int open_state(struct prepared *p, const char *path)
{
	auto_fd int root_fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_fd int state_fd = -1;
	const uid_t uid = (uid_t)p->settings.uid_base - 1;

	if (root_fd < 0)
		return -1;
	state_fd = fs_make_path(root_fd, path + 1, 0755);
	if (state_fd < 0)
		return -1;
	p->artifacts_fd = fs_make_path(state_fd, "artifacts", 0755);
	if (p->artifacts_fd < 0)
		return -1;
	if (p->settings.uid_base && fchown(p->artifacts_fd, uid, uid) < 0)
		return -1;
	return faccessat(p->artifacts_fd, ".", W_OK, 0);
}

/* a directory name from "go version go1.25.1 linux/amd64" */
static void name_seed(struct prepared *p, const char *path)
{
	struct setup *setup = &p->start->setup;
	size_t i, at;
	int len;

	for (i = 0; i < p->modes.count && p->modes.mode[i].id != MODE_GOLANG; i++)
		;
	if (i == p->modes.count)
		return;
	len = snprintf(setup->go_seed_dir, sizeof(setup->go_seed_dir), "%s/go-cache/%s",
		       path, p->modes.mode[i].runtime_version);
	if (len < 0 ||
	    (size_t)len >= sizeof(setup->go_seed_dir) - 24) { /* ".12345.new" */
		setup->go_seed_dir[0] = '\0';
		return;
	}
	for (at = strlen(path) + strlen("/go-cache/"); setup->go_seed_dir[at]; at++) {
		if (!strchr("0123456789.abcdefghijklmnopqrstuvwxyz",
			    setup->go_seed_dir[at]))
			setup->go_seed_dir[at] = '-';
	}
}

/* whoever builds compile caches: a launcher that keeps root's rights, or the uid that it
 * takes when it has too few of them */
static int open_seeds(const struct prepared *p, const char *state)
{
	auto_free char *path = mem_printf("%s/go-cache", state);
	auto_fd int root_fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_fd int fd = root_fd < 0 ? -1 : fs_make_path(root_fd, path + 1, 0755);
	const struct setup *setup = &p->start->setup;
	const uid_t uid = leaves_root(setup) ? setup->uid_base : 0;

	if (fd < 0 || (setup->uid_base && fchown(fd, uid, uid) < 0))
		return -1;
	return take_fd(&fd);
}

static void find_state(struct prepared *p, bool serving)
{
	auto_free char *path = state_path(&p->settings);
	auto_fd int seeds_fd = -1;

	if (!path || path[0] != '/') {
		snprintf(p->state_note, sizeof(p->state_note),
			 "no state directory: set SANDBOX_STATE_DIR to an absolute path");
		return;
	}
	name_seed(p, path);
	if (!serving)
		return;
	if (open_state(p, path) < 0) {
		snprintf(p->state_note, sizeof(p->state_note),
			 "the state directory cannot be used: %s", strerror(errno));
		defer_close(&p->artifacts_fd);
		p->artifacts_fd = -1;
		return;
	}
	seeds_fd = p->start->setup.go_seed_dir[0] ? open_seeds(p, path) : -1;
	p->start->setup.go_seed_build = seeds_fd >= 0;
}

/* Raised for all processes of ours; a program gets a limit of its own. Without enough of
 * them slots could not be built, and be tried again for ever. */
static int raise_descriptors(const struct settings *s, unsigned slots,
			     enum prepare_why why, struct err *e)
{
	uint64_t need = launcher_descriptors(why == TO_SERVE ? slots + 1 : slots);
	char why_many[128];
	struct rlimit r;

	if (why == TO_SERVE && http_server_descriptors(s) > need)
		need = http_server_descriptors(s);
	if (getrlimit(RLIMIT_NOFILE, &r) < 0)
		return err_errno(e, "ask for RLIMIT_NOFILE");
	snprintf(why_many, sizeof(why_many),
		 " for SANDBOX_MAX_CONCURRENT=%llu, SANDBOX_WARM=%llu and "
		 "SANDBOX_QUEUE=%llu",
		 (unsigned long long)s->max_concurrent, (unsigned long long)s->warm,
		 (unsigned long long)s->queue);
	if (r.rlim_max < need)
		return err_ours(e, "RLIMIT_NOFILE (ulimit -n) is %llu, needed is %llu%s",
				(unsigned long long)r.rlim_max, (unsigned long long)need,
				why == TO_SERVE ? why_many : "");
	r.rlim_cur = r.rlim_max;
	return setrlimit(RLIMIT_NOFILE, &r) < 0 ? err_errno(e, "raise RLIMIT_NOFILE") : 0;
}

/* where runs without a mount namespace may have their directories, the best first */
static void find_run_dirs(struct prepared *p)
{
	auto_free char *state = state_path(&p->settings);
	const char *paths[SETUP_RUN_DIRS] = {state, getenv("TMPDIR"), "/tmp"};
	struct setup *setup = &p->start->setup;
	int i, n = 0;

	for (i = 0; i < SETUP_RUN_DIRS; i++) {
		if (paths[i] && paths[i][0] == '/' && strlen(paths[i]) < SETUP_PATH / 2)
			snprintf(setup->run_dir[n++], SETUP_PATH, "%s", paths[i]);
	}
}

int prepare(struct prepared *p, unsigned slots, enum prepare_why why, struct err *e)
{
	p->start_fd = p->artifacts_fd = p->ledger_fd = -1;
	p->start = mem_zero(sizeof(*p->start));
	if (slots > SETUP_SLOTS)
		return err_ours(e, "SANDBOX_MAX_CONCURRENT=%u is above %d", slots,
				SETUP_SLOTS);
	if (identity_decide(&p->settings, e) < 0 || fill_setup(p, slots, why, e) < 0 ||
	    raise_descriptors(&p->settings, p->start->setup.slots, why, e) < 0 ||
	    check_reach(&p->start->setup, e) < 0)
		return -1;
	if (why == TO_SERVE) {
		p->server_calls = mem_zero(sizeof(*p->server_calls));
		if (filter_compile_server(p->server_calls, e) < 0)
			return -1;
	}
	find_state(p, why == TO_SERVE);
	find_run_dirs(p);
	cgroup_claim(&p->start->cgroups);
	p->start_fd = fs_sealed("launcher-start", p->start, sizeof(*p->start));
	if (p->start_fd < 0)
		return err_errno(e, "seal the launcher's start");
	p->ledger_fd = ledger_make();
	if (p->ledger_fd < 0)
		return err_errno(e, "make the launchers' ledger");
	return 0;
}

void prepared_done(struct prepared *p)
{
	if (p->start)
		cgroup_release(&p->start->cgroups);
	free(p->start);
	p->start = NULL;
	free(p->server_calls);
	p->server_calls = NULL;
	defer_close(&p->start_fd);
	defer_close(&p->ledger_fd);
	defer_close(&p->artifacts_fd);
	modes_done(&p->modes);
	settings_done(&p->settings);
}

static _Noreturn void exec_launcher(const struct prepared *p, int socket_fd)
{
	char *const argv[] = {"sandbox-server", "launcher", NULL};
	char *const no_env[] = {NULL};
	int start_fd, ledger_fd;
	sigset_t none;

	/* refused: then the launcher finds the same, and says so */
	(void)identity_leave_root(&p->settings);
	/* out of the way first: one may be where the other must be */
	start_fd = fcntl(p->start_fd, F_DUPFD, 10);
	socket_fd = fcntl(socket_fd, F_DUPFD, 10);
	ledger_fd = fcntl(p->ledger_fd, F_DUPFD, 10);
	if (start_fd < 0 || socket_fd < 0 || ledger_fd < 0 ||
	    dup2(start_fd, LAUNCHER_START_FD) < 0 ||
	    dup2(socket_fd, LAUNCHER_SOCKET_FD) < 0 ||
	    dup2(ledger_fd, LAUNCHER_LEDGER_FD) < 0)
		_exit(126);
	sys_close_range(LAUNCHER_LEDGER_FD + 1, ~0U, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	setsid(); /* a terminal's ^C is for the supervisor, which decides */
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	execve("/proc/self/exe", argv, no_env);
	/* no /proc: the launcher will say so, but it must get that far */
	execve((const char *)getauxval(AT_EXECFN), argv, no_env);
	_exit(126);
}

int launch(const struct prepared *p, struct launched *out, struct err *e)
{
	auto_fd int theirs = -1;
	auto_fd int ours = -1;
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_errno(e, "make the launcher's socket");
	ours = pair[0];
	theirs = pair[1];
	if (fcntl(ours, F_SETFL, O_NONBLOCK) < 0)
		return err_errno(e, "make the launcher's socket");
	out->pid = fork();
	if (out->pid < 0)
		return err_errno(e, "fork the launcher");
	if (out->pid == 0)
		exec_launcher(p, theirs);
	out->pid_fd = sys_pidfd_open(out->pid, 0);
	if (out->pid_fd < 0) {
		err_errno(e, "watch the launcher");
		kill(out->pid, SIGKILL);
		waitpid(out->pid, NULL, 0);
		return -1;
	}
	out->socket_fd = take_fd(&ours);
	return 0;
}

void launched_done(struct launched *l)
{
	struct pollfd p = {.fd = l->pid_fd, .events = POLLIN};

	defer_close(&l->socket_fd);
	l->socket_fd = -1;
	if (l->pid_fd < 0)
		return;
	if (poll(&p, 1, END_WAIT_MS) != 1)
		sys_pidfd_send_signal(l->pid_fd, SIGKILL);
	waitpid(l->pid, NULL, 0);
	close(take_fd(&l->pid_fd));
}

int launched_report(const struct launched *l, struct report *out, struct err *e)
{
	struct pollfd p = {.fd = l->socket_fd, .events = POLLIN};
	int fds[MESSAGE_FDS], status;
	struct message m;

	if (poll(&p, 1, REPORT_WAIT_MS) != 1)
		return err_ours(e, "the launcher said nothing for %d s",
				REPORT_WAIT_MS / 1000);
	if (message_receive(l->socket_fd, &m, fds) != 1 || m.type != MSG_REPORT)
		return err_ours(e, "the launcher died at its start");
	status = message_read_report(fds[0], out);
	close(fds[0]);
	return status < 0 ? err_errno(e, "read the launcher's report") : 0;
}

void explain_level(const struct report *r, uint32_t min_level)
{
	unsigned i;

	fprintf(stderr,
		"sandbox-server: isolation level '%s' is below the minimum '%s': %s\n",
		report_level_name(r->level), report_level_name(min_level), r->summary);
	for (i = 0; i < LAYER_COUNT; i++) {
		const struct layer *l = &r->layer[i];

		if (l->requested && l->reason[0] && l->fix[0])
			fprintf(stderr, "  %s: %s\n    fix: %s\n", report_layer_name(i),
				l->reason, l->fix);
	}
}

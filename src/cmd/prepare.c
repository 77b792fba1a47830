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
#include "base/num.h"
#include "base/sys.h"
#include "cmd/cmd.h"
#include "config/binds.h"
#include "config/filter.h"
#include "config/policy.h"

#define REPORT_WAIT_MS 30000
#define END_WAIT_MS 2000

/* the launcher's descriptors, fixed so that it needs no arguments */
enum { LAUNCHER_START_FD = 3, LAUNCHER_SOCKET_FD = 4 };

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
		if (why != TO_CHECK)
			return -1;
		/* isolation can be looked at without a program to run */
		setup->rows = 0;
		if (binds_system(setup, e) < 0)
			return -1;
	}
	policy_set_dir(s->policy_dir);
	return filters_compile(setup, e);
}

/* "name:first:count" of /etc/subuid; false for a line that newuidmap would ignore too */
static bool subuid_line(char *line, char **name, uint64_t *first, uint64_t *count)
{
	char *rest = line;

	*name = strsep(&rest, ":");
	line[strcspn(line, "\n")] = '\0';
	if (!rest)
		return false;
	rest[strcspn(rest, "\n")] = '\0';
	return num_u64(strsep(&rest, ":"), first) == 0 && rest &&
	       num_u64(rest, count) == 0;
}

/* uids of ours must not be anybody's: an overlap would give code another's files */
static int check_uids(const struct prepared *p, struct err *e)
{
	const uint64_t base = p->settings.uid_base, last = base + SETUP_SLOTS;
	uint64_t first, count;
	char line[256], *name;
	bool overlaps = false;
	FILE *f;

	if (geteuid() != 0)
		return 0;
	f = fopen("/etc/subuid", "re");
	if (!f)
		return 0;
	while (!overlaps && fgets(line, sizeof(line), f))
		overlaps = subuid_line(line, &name, &first, &count) && first <= last &&
			   first + count > base - 2;
	fclose(f);
	if (!overlaps)
		return 0;
	return err_ours(e,
			"SANDBOX_UID_BASE=%llu overlaps the range of '%s' in /etc/subuid",
			(unsigned long long)base, name);
}

static char *state_path(const struct settings *s)
{
	const char *base = getenv("XDG_STATE_HOME"), *home = getenv("HOME");

	if (s->state_dir)
		return mem_copy(s->state_dir);
	if (geteuid() == 0)
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
	if (geteuid() == 0 && fchown(p->artifacts_fd, uid, uid) < 0)
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

static void find_state(struct prepared *p, bool serving)
{
	auto_free char *path = state_path(&p->settings);
	auto_free char *seeds = NULL;
	auto_fd int root_fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
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
	seeds = mem_printf("%s/go-cache", path);
	seeds_fd = p->start->setup.go_seed_dir[0] ? fs_make_path(root_fd, seeds + 1, 0755)
						  : -1;
	p->start->setup.go_seed_build = seeds_fd >= 0;
}

int prepare(struct prepared *p, unsigned slots, enum prepare_why why, struct err *e)
{
	p->start_fd = p->artifacts_fd = -1;
	p->start = mem_zero(sizeof(*p->start));
	if (slots > SETUP_SLOTS)
		return err_ours(e, "SANDBOX_MAX_CONCURRENT=%u is above %d", slots,
				SETUP_SLOTS);
	if (check_uids(p, e) < 0 || fill_setup(p, slots, why, e) < 0)
		return -1;
	find_state(p, why == TO_SERVE);
	cgroup_claim(&p->start->cgroups);
	p->start_fd = fs_sealed("launcher-start", p->start, sizeof(*p->start));
	if (p->start_fd < 0)
		return err_errno(e, "seal the launcher's start");
	return 0;
}

void prepared_done(struct prepared *p)
{
	if (p->start)
		cgroup_release(&p->start->cgroups);
	free(p->start);
	p->start = NULL;
	defer_close(&p->start_fd);
	defer_close(&p->artifacts_fd);
	modes_done(&p->modes);
	settings_done(&p->settings);
}

static _Noreturn void exec_launcher(int start_fd, int socket_fd)
{
	char *const argv[] = {"sandbox-server", "launcher", NULL};
	char *const no_env[] = {NULL};
	sigset_t none;

	/* out of the way first: one may be where the other must be */
	start_fd = fcntl(start_fd, F_DUPFD, 10);
	socket_fd = fcntl(socket_fd, F_DUPFD, 10);
	if (start_fd < 0 || socket_fd < 0 || dup2(start_fd, LAUNCHER_START_FD) < 0 ||
	    dup2(socket_fd, LAUNCHER_SOCKET_FD) < 0)
		_exit(126);
	sys_close_range(LAUNCHER_SOCKET_FD + 1, ~0U, 0);
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
		exec_launcher(p->start_fd, theirs);
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

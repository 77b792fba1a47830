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
#include "egress/broker.h"
#include "job/share.h"
#include "session/session.h"

#define REPORT_WAIT_MS 30000
#define FORK_SPARE 2
#define SEEDER 1          /* the slot that a server fills the compile cache in */
#define SESSION_PLACES 8  /* sessions and commands that sandboxes leave room for */
#define END_WAIT_MS 10000 /* it may have directories of runs to remove */

/* the launcher's descriptors, fixed so that it needs no arguments */
enum { LAUNCHER_START_FD = 3, LAUNCHER_SOCKET_FD = 4, LAUNCHER_LEDGER_FD = 5 };

/* those that fork runs are the last: as many as may run, and a few for those that are
 * started anew */
static int choose_forks(const struct prepared *p, struct setup *setup, struct err *e)
{
	const struct settings *s = &p->settings;
	size_t i;

	if (!s->warm_fork)
		return 0;
	for (i = 0; i < p->modes.count && p->modes.mode[i].id != MODE_PYTHON; i++)
		;
	if (i == p->modes.count)
		return err_bad(e, "SANDBOX_WARM_FORK=on: python is not served");
	setup->fork_row = p->modes.mode[i].row;
	setup->row[setup->fork_row].waits = WAITS_NOT;
	setup->forks = setup->slots + FORK_SPARE;
	if (setup->slots + setup->forks > SETUP_SLOTS)
		return err_bad(e,
			       "SANDBOX_WARM_FORK=on: SANDBOX_MAX_CONCURRENT=%u makes "
			       "more than %d sandboxes",
			       setup->slots, SETUP_SLOTS);
	return 0;
}

/* as many as may run at once; fewer where slots or descriptors would not do for them, and
 * for some sessions */
static uint32_t warm_most(const struct settings *s, const struct setup *setup,
			  unsigned rows)
{
	const uint32_t others = setup->slots + setup->forks;
	const uint64_t sessions = s->sessions
					  ? launcher_session_descriptors(SESSION_PLACES)
					  : 0;
	uint32_t n = setup->slots;
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r) < 0)
		return 0;
	while (n > 0 &&
	       (others + n * rows > SETUP_SLOTS ||
		launcher_descriptors(others + n * rows + SEEDER) + sessions > r.rlim_max))
		n--;
	return n;
}

/* slots of their own: whatever waits, capacity is what it is */
static int add_warm_slots(struct settings *s, struct setup *setup, struct err *e)
{
	unsigned i, rows = 0;

	for (i = 0; i < setup->rows; i++)
		rows += setup->row[i].waits != WAITS_NOT;
	setup->warm_asked = s->warm != WARM_AUTO;
	if (!setup->warm_asked)
		s->warm = warm_most(s, setup, rows);
	if (setup->slots + setup->forks + s->warm * rows > SETUP_SLOTS)
		return err_bad(e,
			       "SANDBOX_WARM=%u: %u modes and SANDBOX_MAX_CONCURRENT=%u "
			       "make more than %d sandboxes",
			       (unsigned)s->warm, rows, setup->slots, SETUP_SLOTS);
	setup->warm = (uint32_t)s->warm;
	setup->warm_memory_mb = (uint32_t)s->warm_memory_mb;
	setup->warm_slots = setup->warm * rows;
	setup->slots += setup->warm_slots + setup->forks;
	return 0;
}

/* packages come from somewhere else than this host */
static bool installs_online(const struct modes *m)
{
	for (size_t i = 0; i < m->count; i++)
		if (m->mode[i].install_row >= 0 && !m->mode[i].install_offline)
			return true;
	return false;
}

/* one that is not there would be missed by every session that asks for it */
static int take_volumes(const struct settings *s, struct setup *setup, struct err *e)
{
	struct stat st;

	(void)volumes_take(s->volumes, setup->volume, &setup->volumes); /* it was read */
	for (uint32_t i = 0; i < setup->volumes; i++)
		if (stat(setup->volume[i].path, &st) < 0 || !S_ISDIR(st.st_mode))
			return err_bad(e, "SANDBOX_VOLUMES: '%s' is not a directory",
				       setup->volume[i].path);
	return 0;
}

/* the engine's client: the first that there is */
static int fill_engine(const struct settings *s, enum prepare_why why,
		       struct setup_engine *g, struct err *e)
{
	static const char *const clients[] = {"docker", "podman", "nerdctl"};
	const struct passwd *who = getpwuid(geteuid());
	auto_free char *exe = NULL;

	if (why == TO_SELFTEST || why == TO_OBSERVE || why == TO_PREFETCH)
		return err_bad(e,
			       "SANDBOX_TYPE=docker: only serve, mcp and run have that");
	for (size_t i = 0; !exe && i < sizeof(clients) / sizeof(*clients); i++)
		exe = program_find(clients[i]);
	g->on = 1;
	g->memory_mb = (uint32_t)s->docker_memory_mb;
	g->cpu_milli = (uint32_t)(s->docker_cpus * 1000 + 0.5);
	g->network = s->network_pod;
	snprintf(g->exe, sizeof(g->exe), "%s", exe ? exe : "");
	snprintf(g->image, sizeof(g->image), "%s", s->docker_image);
	snprintf(g->runtime, sizeof(g->runtime), "%s",
		 s->docker_runtime ? s->docker_runtime : "");
	snprintf(g->host, sizeof(g->host), "%s", s->docker_host ? s->docker_host : "");
	snprintf(g->home, sizeof(g->home), "%s", who ? who->pw_dir : "/");
	return 0;
}

static int fill_setup(struct prepared *p, unsigned slots, enum prepare_why why,
		      struct err *e)
{
	struct settings *s = &p->settings;
	struct setup *setup = &p->start->setup;

	setup->magic = SETUP_MAGIC;
	setup->size = sizeof(*p->start);
	setup->slots = slots;
	setup->min_level = (uint32_t)s->min_isolation;
	setup->cpu_milli = (uint32_t)(s->cpus * 1000);
	setup->max_files = (uint32_t)s->max_files;
	setup->network = s->network_pod     ? NETWORK_POD
			 : s->network_rules ? NETWORK_BROKER
					    : NETWORK_NONE;
	setup->max_files_bytes = s->max_files_mb << 20;
	setup->uid_base = (uid_t)s->uid_base;
	identity_root(s, setup);
	setup->log_level = (uint32_t)s->log_level;
	setup->log_format = (uint32_t)s->log_format;
	snprintf(setup->output_dir, sizeof(setup->output_dir), "%s", s->output_dir);
#ifdef SANDBOX_TEST_HOOKS
	if (getenv("SANDBOX_TEST_FAULT"))
		snprintf(setup->test_fault, sizeof(setup->test_fault), "%s",
			 getenv("SANDBOX_TEST_FAULT"));
#endif
	if (s->docker && fill_engine(s, why, &setup->engine, e) < 0)
		return -1;
	if (modes_find(&p->modes, s, setup, e) < 0) {
		if (why != TO_CHECK && why != TO_SELFTEST)
			return -1;
		/* isolation can be looked at without a program to run */
		setup->rows = 0;
		if (binds_system(setup, e) < 0)
			return -1;
	}
	if (why == TO_SERVE && s->preload && !setup->preload[0])
		return err_bad(e, "SANDBOX_PRELOAD=%s: python is not served", s->preload);
	if (why == TO_SELFTEST && modes_self_rows(s, setup, e) < 0)
		return -1;
	if ((why == TO_SERVE || why == TO_SELFTEST) && !s->docker &&
	    (choose_forks(p, setup, e) < 0 || add_warm_slots(s, setup, e) < 0))
		return -1;
	if ((why == TO_SERVE || why == TO_PREFETCH) && installs_online(&p->modes))
		setup->install_network = NETWORK_BROKER;
	if (s->network_pod && !s->docker && binds_names(setup, e) < 0)
		return -1;
	if (why == TO_SERVE && s->sessions && !s->docker &&
	    (modes_session_rows(s, SESSION_SELF, setup, e) < 0 ||
	     take_volumes(s, setup, e) < 0))
		return -1;
	policy_set_dir(s->policy_dir);
	setup->reporting[0].wide = why == TO_OBSERVE;
	return filters_compile(setup, e);
}

/* root that keeps too few rights to make sandboxes as it is: the launcher becomes the
 * first slot's uid for that (launcher/start.c) */
bool leaves_root(const struct setup *setup)
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

/* Raised for all processes of ours; a program gets a limit of its own. Without enough of
 * them slots could not be built, and be tried again for ever. */
static int raise_descriptors(const struct settings *s, unsigned slots,
			     enum prepare_why why, struct err *e)
{
	uint64_t need = launcher_descriptors(why == TO_SERVE ? slots + SEEDER : slots);
	char why_many[160];
	struct rlimit r;

	if (why == TO_SERVE && share_least(s) > need)
		need = share_least(s);
	if (getrlimit(RLIMIT_NOFILE, &r) < 0)
		return err_errno(e, "ask for RLIMIT_NOFILE");
	snprintf(why_many, sizeof(why_many),
		 " for SANDBOX_MAX_CONCURRENT=%llu, SANDBOX_WARM=%llu%s and "
		 "SANDBOX_QUEUE=%llu",
		 (unsigned long long)s->max_concurrent, (unsigned long long)s->warm,
		 s->warm_fork ? ", SANDBOX_WARM_FORK=on" : "",
		 (unsigned long long)s->queue);
	if (r.rlim_max < need)
		return err_ours(e, "RLIMIT_NOFILE (ulimit -n) is %llu, needed is %llu%s",
				(unsigned long long)r.rlim_max, (unsigned long long)need,
				why == TO_SERVE ? why_many : "");
	r.rlim_cur = r.rlim_max;
	return setrlimit(RLIMIT_NOFILE, &r) < 0 ? err_errno(e, "raise RLIMIT_NOFILE") : 0;
}

/* no broker, after all: what installs over the network says why */
static void refuse_online(struct prepared *p, const char *why)
{
	for (size_t i = 0; i < p->modes.count; i++) {
		struct mode *m = &p->modes.mode[i];

		if (m->install_row < 0 || m->install_offline)
			continue;
		m->install_row = -1;
		m->installer = NULL;
		m->no_installer = mem_copy(why);
	}
	p->start->setup.install_network = NETWORK_NONE;
	free(take_ptr(&p->broker_calls));
}

/* what a broker needs, where runs may have network, or installs */
static int prepare_broker(struct prepared *p, struct err *e)
{
	const struct settings *s = &p->settings;
	struct setup *setup = &p->start->setup;

	if (!setup->network && !setup->install_network)
		return 0;
	/* elsewhere than where a run sees them anyway */
	if (s->ca_bundle && binds_tree(setup, s->ca_bundle, e) < 0 &&
	    (!modes_drop_directories(&p->modes, setup, e->text) ||
	     binds_tree(setup, s->ca_bundle, e) < 0))
		return -1;
	if (setup->network != NETWORK_BROKER && !setup->install_network)
		return 0; /* runs that have a network of the host's need none */
	p->broker_calls = mem_zero(sizeof(*p->broker_calls));
	p->world = mem_zero(sizeof(*p->world));
	if (filter_compile_own(POLICY_BROKER, p->broker_calls, e) < 0)
		return -1;
	if (upstream_find(s->egress_proxy, p->world, e) == 0)
		return 0;
	if (setup->network == NETWORK_BROKER || s->egress_proxy)
		return -1;
	/* somebody's variable, for what nobody may ever ask of us */
	log_warn("install.no_proxy", "error=\"%s\"", e->text);
	refuse_online(p, e->text);
	return 0;
}

int prepare(struct prepared *p, unsigned slots, enum prepare_why why, struct err *e)
{
	p->start_fd = p->artifacts_fd = p->ledger_fd = -1;
	p->sessions_fd = p->sessions_lock_fd = p->images_fd = p->own.fd = p->own.all_fd =
		-1;
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
		if (filter_compile_own(POLICY_SERVER, p->server_calls, e) < 0)
			return -1;
	}
	if (why != TO_CHECK && prepare_broker(p, e) < 0)
		return -1;
	if (state_find(p, why, e) < 0)
		return -1;
	state_run_dirs(p);
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
	free(p->broker_calls);
	p->broker_calls = NULL;
	free(p->world);
	p->world = NULL;
	reload_done(p);
	own_done(&p->own);
	defer_close(&p->start_fd);
	defer_close(&p->ledger_fd);
	defer_close(&p->artifacts_fd);
	defer_close(&p->sessions_fd);
	defer_close(&p->sessions_lock_fd);
	defer_close(&p->images_fd);
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

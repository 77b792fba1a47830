/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * broker.c - the process that forks a broker for each run with network
 *
 * Runs in: the supervisor, and the new process up to mother_main(). It is not executed
 * anew: what it has of the supervisor's memory is its settings, its environment is wiped
 * like the server's. What brokers may be told is found before the fork: the server, which
 * orders them, reads hostile bytes.
 */
#include <errno.h>
#include <fcntl.h>
#include <nss.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/defer.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sys.h"
#include "cmd/cmd.h"
#include "egress/broker.h"
#include "job/job.h"

enum { MOTHER_SOCKET_FD = 3 };

/* Modules of the name service are libraries that somebody else chose; these two are part
 * of the C library. A resolver that does not answer is not waited for long. */
static int choose_resolver(void)
{
	return __nss_configure_lookup("hosts", "files dns") < 0 ||
			       setenv("RES_OPTIONS", "timeout:2 attempts:2", 1) < 0
		       ? -1
		       : 0;
}

/* an install is told of hosts by the indexes themselves, too: then it may be any that is
 * public */
static int find_ceiling(const struct prepared *p, struct egress_ceiling *out,
			struct err *e)
{
	const struct settings *s = &p->settings;

	if (s->network_rules)
		out->runs = *s->network_rules;
	for (size_t i = 0; i < p->modes.count; i++) {
		const struct mode *m = &p->modes.mode[i];

		if (m->install_row < 0 || !m->install_hosts)
			continue;
		if (rules_add_all(&out->installs, m->install_hosts, e) < 0)
			return -1;
		if (install_learns(s, m))
			rules_add_any(&out->installs);
	}
	out->listens = s->min_isolation <= LEVEL_LANDLOCK;
	return 0;
}

static _Noreturn void become_mother(const struct prepared *p,
				    const struct egress_ceiling *most, int socket_fd)
{
	const struct settings *s = &p->settings;

	prctl(PR_SET_NAME, "sandbox-egress", 0, 0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	setsid(); /* a terminal's ^C is for the supervisor, which decides */
	log_setup((enum log_level)s->log_level, (enum log_format)s->log_format, "egress");
	if (dup2(socket_fd, MOTHER_SOCKET_FD) < 0)
		_exit(126);
	sys_close_range(MOTHER_SOCKET_FD + 1, ~0U, 0);
	if (confine_rights(s, RIGHTS_BROKER) < 0 || choose_resolver() < 0 ||
	    confine_broker(p->broker_calls) < 0) {
		log_error("egress.confine", "errno=%d", errno);
		_exit(1);
	}
	_exit(mother_main(MOTHER_SOCKET_FD, p->world, most));
}

int broker_start(const struct prepared *p, struct launched *out, struct err *e)
{
	auto_free struct egress_ceiling *most = NULL;
	auto_fd int theirs = -1;
	auto_fd int ours = -1;
	int pair[2];

	if (!p->broker_calls)
		return 0;
	most = mem_zero(sizeof(*most));
	if (find_ceiling(p, most, e) < 0)
		return -1;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_errno(e, "make the brokers' socket");
	ours = pair[0];
	theirs = pair[1];
	out->pid = fork();
	if (out->pid < 0)
		return err_errno(e, "fork the brokers' mother");
	if (out->pid == 0)
		become_mother(p, most, theirs);
	out->pid_fd = sys_pidfd_open(out->pid, 0);
	if (out->pid_fd < 0) {
		err_errno(e, "watch the brokers' mother");
		kill(out->pid, SIGKILL);
		waitpid(out->pid, NULL, 0);
		return -1;
	}
	out->socket_fd = take_fd(&ours);
	return 0;
}

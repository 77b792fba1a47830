/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * broker.c - the process that forks a broker for each run with network
 *
 * Runs in: the supervisor, and the new process up to mother_main(). It is not executed
 * anew: what it has of the supervisor's memory is its settings, its environment is wiped
 * like the server's.
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
#include "base/sys.h"
#include "cmd/cmd.h"
#include "egress/broker.h"

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

static _Noreturn void become_mother(const struct prepared *p, int socket_fd)
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
	_exit(mother_main(MOTHER_SOCKET_FD, p->world));
}

int broker_start(const struct prepared *p, struct launched *out, struct err *e)
{
	auto_fd int theirs = -1;
	auto_fd int ours = -1;
	int pair[2];

	if (!p->broker_calls)
		return 0;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_errno(e, "make the brokers' socket");
	ours = pair[0];
	theirs = pair[1];
	out->pid = fork();
	if (out->pid < 0)
		return err_errno(e, "fork the brokers' mother");
	if (out->pid == 0)
		become_mother(p, theirs);
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

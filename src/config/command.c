/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * command.c - ask a program something: run it, read what it prints, not for long
 */
#include "config/command.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/defer.h"
#include "base/mem.h"
#include "base/sys.h"

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* extra, then what of our environment extra does not replace; the strings are not copied
 */
static char **environment(const char *const *extra)
{
	size_t ours = 0, count = 0;
	char **env;

	while (environ && environ[ours])
		ours++;
	for (; extra && extra[count];)
		count++;
	env = mem_array(ours + count + 1, sizeof(*env));
	for (size_t i = 0; i < count; i++)
		env[i] = (char *)extra[i];
	for (size_t i = 0; i < ours; i++) {
		size_t j = 0, name = strcspn(environ[i], "=") + 1;

		while (extra && extra[j] && strncmp(extra[j], environ[i], name) != 0)
			j++;
		if (!extra || !extra[j])
			env[count++] = environ[i];
	}
	return env;
}

static _Noreturn void child(const char *const *argv, char **env, int out_fd)
{
	int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	sigset_t none;

	sigemptyset(&none);
	setpgid(0, 0);
	if (null_fd < 0 || dup2(null_fd, 0) < 0 || dup2(out_fd, 1) < 0 ||
	    dup2(null_fd, 2) < 0 || sigprocmask(SIG_SETMASK, &none, NULL) < 0)
		_exit(127);
	execve(argv[0], (char *const *)argv, env);
	_exit(127);
}

/* what is there now; 1: more may come, 0: end of file, -1: too much of it */
static int drain(int fd, struct buf *out)
{
	char bytes[4096];
	ssize_t got;

	while ((got = read(fd, bytes, sizeof(bytes))) > 0)
		if (buf_add(out, bytes, (size_t)got) < 0)
			return -1;
	return got < 0 && (errno == EAGAIN || errno == EINTR);
}

/* until the program has ended: a grandchild that keeps the pipe open is not waited for */
static int listen_to(int pid_fd, int out_fd, int64_t deadline, struct buf *out)
{
	struct pollfd p[2] = {{.fd = pid_fd, .events = POLLIN},
			      {.fd = out_fd, .events = POLLIN}};
	int64_t left;
	int more;

	for (;;) {
		left = deadline - now_ms();
		if (left <= 0) {
			errno = ETIMEDOUT;
			return -1;
		}
		if (poll(p, 2, (int)left) < 0 && errno != EINTR)
			return -1;
		more = drain(out_fd, out);
		if (more < 0)
			return -1;
		if (p[0].revents)
			return 0;
		if (more == 0)
			p[1].fd = -1;
	}
}

static int finish(pid_t pid, int rc)
{
	int saved = errno, status;

	kill(-pid, SIGKILL);
	kill(pid, SIGKILL); /* it may not have made its group yet */
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	errno = saved;
	if (rc == 0 && (!WIFEXITED(status) || WEXITSTATUS(status) != 0)) {
		errno = EIO;
		rc = -1;
	}
	return rc;
}

int command_run(const char *const *argv, const char *const *extra, unsigned deadline_ms,
		struct buf *out)
{
	auto_free char **env = environment(extra);
	int64_t deadline = now_ms() + deadline_ms;
	auto_fd int pid_fd = -1;
	auto_fd int read_fd = -1;
	auto_fd int write_fd = -1;
	int ends[2], rc;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -1;
	read_fd = ends[0];
	write_fd = ends[1];
	if (fcntl(read_fd, F_SETFL, O_NONBLOCK) < 0)
		return -1;
	pid = fork();
	if (pid < 0)
		return -1;
	if (pid == 0)
		child(argv, env, write_fd);
	setpgid(pid, pid); /* both sides: whoever comes first */
	close(take_fd(&write_fd));
	pid_fd = sys_pidfd_open(pid, 0);
	rc = pid_fd < 0 ? -1 : listen_to(pid_fd, read_fd, deadline, out);
	return finish(pid, rc);
}

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * ready.c - is the server that has these settings ready? The health check of images that
 * have no other program to ask with
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/defer.h"
#include "base/err.h"
#include "cmd/cmd.h"

#define READY_MS 4000

static const char usage[] =
	"usage: sandbox-server ready [SETTINGS]\n\n"
	"Asks the server that listens where these settings say, by GET /readyz. Exit\n"
	"0: it takes requests; 1: it does not, is not there, or gave no answer in 4 s.\n";

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int await(int fd, short events, int64_t until_ms)
{
	struct pollfd p = {.fd = fd, .events = events};
	int rc;

	do {
		const int64_t left_ms = until_ms - now_ms();

		rc = poll(&p, 1, left_ms > 0 ? (int)left_ms : 0);
	} while (rc < 0 && errno == EINTR);
	if (rc == 0)
		errno = ETIMEDOUT;
	return rc > 0 ? 0 : -1;
}

/* a server that listens on every address has the loopback's too, and that is where Linux
 * leads who connects to 0.0.0.0 or :: */
static int connect_to(const struct settings *s, int64_t until_ms)
{
	struct sockaddr_in four = {.sin_family = AF_INET,
				   .sin_port = htons((uint16_t)s->port)};
	struct sockaddr_in6 six = {.sin6_family = AF_INET6,
				   .sin6_port = htons((uint16_t)s->port)};
	const bool is_four = inet_pton(AF_INET, s->listen, &four.sin_addr) == 1;
	auto_fd int fd = socket(is_four ? AF_INET : AF_INET6,
				SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int error = 0, rc;
	socklen_t len = sizeof(error);

	if (fd < 0 || (!is_four && inet_pton(AF_INET6, s->listen, &six.sin6_addr) != 1))
		return -1;
	rc = is_four ? connect(fd, (struct sockaddr *)&four, sizeof(four))
		     : connect(fd, (struct sockaddr *)&six, sizeof(six));
	if (rc < 0 && (errno != EINPROGRESS || await(fd, POLLOUT, until_ms) < 0 ||
		       getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0))
		return -1;
	errno = error;
	return error ? -1 : take_fd(&fd);
}

/* the status of the answer, or -1 */
static int ask(int fd, int64_t until_ms)
{
	static const char question[] =
		"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
	static const char head[] = "HTTP/1.1 ";
	const size_t head_len = sizeof(head) - 1;
	char answer[16];
	size_t len = 0;

	if (send(fd, question, sizeof(question) - 1, MSG_NOSIGNAL) !=
	    (ssize_t)sizeof(question) - 1)
		return -1;
	while (len < head_len + 3) {
		const ssize_t n = recv(fd, answer + len, head_len + 3 - len, 0);

		if (n == 0)
			errno = ECONNRESET;
		if (n == 0 ||
		    (n < 0 && (errno != EAGAIN || await(fd, POLLIN, until_ms) < 0)))
			return -1;
		len += n > 0 ? (size_t)n : 0;
	}
	errno = EPROTO;
	if (memcmp(answer, head, head_len) != 0)
		return -1;
	return (answer[head_len] - '0') * 100 + (answer[head_len + 1] - '0') * 10 +
	       answer[head_len + 2] - '0';
}

static int find_out(const struct settings *s, struct err *e)
{
	const int64_t until_ms = now_ms() + READY_MS;
	auto_fd int fd = -1;
	int status;

	if (s->port == 0)
		return err_bad(e, "port 0 is any free one: which is it?");
	fd = connect_to(s, until_ms);
	if (fd < 0)
		return err_errno(e, "connect to '%s' port %u", s->listen,
				 (unsigned)s->port);
	status = ask(fd, until_ms);
	if (status < 0)
		return err_errno(e, "ask '%s' port %u", s->listen, (unsigned)s->port);
	return status == 200 ? 0 : err_bad(e, "not ready: /readyz answers %d", status);
}

int cmd_ready(int argc, char **argv)
{
	struct settings s = {0};
	struct err e = {0};
	int rc;

	if (argc == 1 && strcmp(argv[0], "--help") == 0) {
		print_usage(usage);
		return 0;
	}
	rc = settings_load(&s, argc, argv, NULL, &e);
	if (rc >= 0 && rc < argc)
		rc = err_bad(&e, "unknown argument '%s' (try ready --help)", argv[rc]);
	if (rc >= 0)
		rc = find_out(&s, &e);
	if (rc < 0)
		fprintf(stderr, "sandbox-server: %s\n", e.text);
	settings_done(&s);
	return rc < 0 ? 1 : 0;
}

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * engine_relay.c - what comes out of a run's container, to those that it is for
 *
 * Runs in: a process for each run, forked by the launcher, without rights: the bytes it
 * reads come from where hostile code is. It may wait as long as it wants to; nobody waits
 * for it but its own run.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/caps.h"
#include "base/fs.h"
#include "base/sys.h"
#include "launcher/engine.h"
#include "wire/engine.h"

static int read_all(int fd, void *to, size_t len)
{
	size_t at = 0;
	ssize_t n;

	while (at < len) {
		n = read(fd, (char *)to + at, len - at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -1;
		at += (size_t)n;
	}
	return 0;
}

static int on_hello(const char *bytes, size_t len)
{
	struct engine_hello hello;

	if (len != sizeof(hello))
		return -1;
	memcpy(&hello, bytes, len);
	return hello.magic == ENGINE_MAGIC && hello.size == sizeof(struct outcome) ? 0
										   : -1;
}

static int on_files(const struct relay *r, const char *bytes, size_t len)
{
	struct stat st;

	if (fstat(r->files_fd, &st) < 0 || (uint64_t)st.st_size + len > r->files_most)
		return -1;
	return fs_write_all(r->files_fd, bytes, len);
}

static int on_fixed(const struct relay *r, uint32_t kind, const char *bytes, size_t len)
{
	struct engine_news news = {.kind = kind};
	const size_t want = kind == ENGINE_VIOLATION ? sizeof(news.violation)
			    : kind == ENGINE_DONE    ? sizeof(news.outcome)
			    : kind == ENGINE_STARTED ? 0
						     : len;

	if (len != want || (kind == ENGINE_FAILED && len >= sizeof(news.text)))
		return -1;
	memcpy(&news.outcome, bytes, len);
	return fs_write_all(r->news_fd, &news, sizeof(news));
}

static int on_frame(const struct relay *r, uint32_t kind, const char *bytes, size_t len)
{
	switch (kind) {
	case ENGINE_HELLO:
		return on_hello(bytes, len);
	case ENGINE_OUT:
	case ENGINE_ERR:
		/* who does not read any more does not end the run */
		(void)fs_write_all(kind == ENGINE_OUT ? r->out_fd : r->err_fd, bytes,
				   len);
		return 0;
	case ENGINE_FILES:
		return on_files(r, bytes, len);
	case ENGINE_STARTED:
	case ENGINE_VIOLATION:
	case ENGINE_DONE:
	case ENGINE_FAILED:
		return on_fixed(r, kind, bytes, len);
	default:
		return -1;
	}
}

static int relay(const struct relay *r)
{
	char bytes[ENGINE_FRAME_MOST];
	struct engine_frame frame;
	uint32_t want = ENGINE_HELLO;

	for (;;) {
		if (read_all(r->from_fd, &frame, sizeof(frame)) < 0 ||
		    (want && frame.kind != want) || frame.len > sizeof(bytes) ||
		    read_all(r->from_fd, bytes, frame.len) < 0 ||
		    on_frame(r, frame.kind, bytes, frame.len) < 0)
			return 1;
		want = 0;
		if (frame.kind == ENGINE_DONE || frame.kind == ENGINE_FAILED)
			return 0;
	}
}

_Noreturn void relay_main(const struct relay *r, uid_t uid)
{
	const struct sigaction ignore = {.sa_handler = SIG_IGN};
	char sink[4096];
	int status;

	sigaction(SIGPIPE, &ignore, NULL);
	if (geteuid() == 0 ? caps_become_nobody(uid, uid) < 0 : caps_drop_all() < 0)
		_exit(2);
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
		_exit(2);
	status = relay(r);
	/* the engine's client ends when all it has is read */
	while (read(r->from_fd, sink, sizeof(sink)) > 0)
		;
	_exit(status);
}

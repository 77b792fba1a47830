/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * streams.c - the pipes of a run: stdin written, stdout and stderr read as they come
 *
 * One wake-up moves at most WAKE_BYTES, so that a program that floods its output has no
 * more of the loop than its share. After the cap it is read all the same: a program is
 * not stopped for talking too much.
 */
#include "job/jobs.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/defer.h"
#include "base/log.h"

#define WAKE_BYTES (256 * 1024)
#define REST_BYTES (2 * 1024 * 1024) /* more than a pipe can hold: it may have 1 MiB */

static void close_pipe(struct job_pipe *p)
{
	if (p->fd < 0)
		return;
	loop_remove(p->job->jobs->loop, p->fd);
	close(take_fd(&p->fd));
	p->watched = false;
}

/* may end in the job being forgotten: the observer can do that */
static void give_live(struct job_pipe *p, size_t end)
{
	struct job *job = p->job;
	size_t from = p->live_at;

	if (!job->live || job->forgotten || end <= from)
		return;
	p->live_at = end;
	job->jobs->observer.on_output(job->jobs->observer.arg, job->who, p->stream,
				      p->capture->kept.bytes + from, end - from);
}

/* nothing is kept, cut or checked: for somebody who reads along and wants the bytes */
static void pass_on(struct job_pipe *p, const char *bytes, size_t len)
{
	const struct job_observer *o = &p->job->jobs->observer;

	p->capture->seen_bytes += len;
	if (!p->job->forgotten)
		o->on_output(o->arg, p->job->who, p->stream, bytes, len);
}

static void read_some(struct job_pipe *p, size_t budget)
{
	static char chunk[64 * 1024]; /* one thread, one loop */
	ssize_t n;

	while (p->fd >= 0 && budget > 0) {
		n = read(p->fd, chunk, budget < sizeof(chunk) ? budget : sizeof(chunk));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n <= 0) {
			close_pipe(p);
			break;
		}
		if (p->job->request.pass_through)
			pass_on(p, chunk, (size_t)n);
		else
			capture_add(p->capture, chunk, (size_t)n);
		budget -= (size_t)n;
	}
}

static void on_output_ready(void *arg, uint32_t events)
{
	struct job_pipe *p = arg;

	(void)events; /* read() says what is the matter */
	read_some(p, WAKE_BYTES);
	give_live(p, capture_settled(p->capture));
	job_settle(p->job);
}

void streams_close_stdin(struct job *job)
{
	if (job->stdin_fd >= 0) {
		if (job->stdin_watched)
			loop_remove(job->jobs->loop, job->stdin_fd);
		close(take_fd(&job->stdin_fd));
	}
	job->stdin_watched = false;
	buf_done(&job->request.stdin_text);
}

static void feed_stdin(struct job *job);

static void on_stdin_ready(void *arg, uint32_t events)
{
	(void)events;
	feed_stdin(arg);
}

static void feed_stdin(struct job *job)
{
	const struct buf *text = &job->request.stdin_text;
	size_t budget = WAKE_BYTES;

	while (job->stdin_at < text->len && budget > 0) {
		size_t left = text->len - job->stdin_at;
		ssize_t n = write(job->stdin_fd, text->bytes + job->stdin_at,
				  left < budget ? left : budget);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n < 0) { /* EPIPE: the program does not want it, which is its right */
			streams_close_stdin(job);
			return;
		}
		job->stdin_at += (size_t)n;
		budget -= (size_t)n;
	}
	if (job->stdin_at == text->len) {
		streams_close_stdin(job);
		return;
	}
	if (job->stdin_watched)
		return;
	if (loop_add(job->jobs->loop, job->stdin_fd, EPOLLOUT, on_stdin_ready, job) < 0) {
		log_error("job.stdin", LOG_IDS " errno=%d", JOB_IDS(job), errno);
		streams_close_stdin(job);
		return;
	}
	job->stdin_watched = true;
}

void streams_take(struct job *job, int fds[3])
{
	for (int i = 0; i < 3; i++) {
		int flags = fcntl(fds[i], F_GETFL);

		/* ours alone: the program's end has flags of its own */
		if (flags < 0 || fcntl(fds[i], F_SETFL, flags | O_NONBLOCK) < 0)
			log_error("job.streams", LOG_IDS " errno=%d", JOB_IDS(job),
				  errno);
	}
	job->have_streams = true;
	job->stdin_fd = take_fd(&fds[0]);
	job->pipe[JOB_STDOUT].fd = take_fd(&fds[1]);
	job->pipe[JOB_STDERR].fd = take_fd(&fds[2]);
	if (job->forgotten) {
		streams_close(job);
		return;
	}
	streams_watch(job);
	feed_stdin(job);
}

/* A paused pipe is taken out, not only muted: its hang-up cannot be muted. */
void streams_watch(struct job *job)
{
	for (int i = 0; i < 2; i++) {
		struct job_pipe *p = &job->pipe[i];
		bool wanted = p->fd >= 0 && !job->paused;

		if (wanted == p->watched)
			continue;
		if (!wanted) {
			loop_remove(job->jobs->loop, p->fd);
		} else if (loop_add(job->jobs->loop, p->fd, EPOLLIN, on_output_ready, p) <
			   0) {
			/* its bytes are then read when the run has ended */
			log_error("job.streams", LOG_IDS " errno=%d", JOB_IDS(job),
				  errno);
			continue;
		}
		p->watched = wanted;
	}
}

void streams_rest(struct job *job)
{
	for (int i = 0; i < 2; i++) {
		read_some(&job->pipe[i], REST_BYTES);
		close_pipe(&job->pipe[i]);
	}
}

void streams_flush(struct job *job)
{
	for (int i = 0; i < 2; i++)
		give_live(&job->pipe[i], job->pipe[i].capture->kept.len);
}

void streams_close(struct job *job)
{
	streams_close_stdin(job);
	for (int i = 0; i < 2; i++)
		close_pipe(&job->pipe[i]);
}

bool streams_ended(const struct job *job)
{
	return job->pipe[JOB_STDOUT].fd < 0 && job->pipe[JOB_STDERR].fd < 0;
}

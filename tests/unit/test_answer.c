/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_answer.c - large answers to slow readers
 *
 * mongoose's buffer moves all its bytes at every write and stays as large as it ever was:
 * what is in it at a time must be little, or a large answer costs quadratic time.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/socket.h>

#include <mongoose.h>

#include "base/err.h"
#include "http/clients.h"
#include "http_fixture.h"
#include "tap.h"

enum {
	READERS = 3,
	BODY_BYTES = 10 << 20,
	TURNS_AT_LEAST = 500 /* else the socket took too much at once to tell anything */
};

/* a connection whose kernel buffer is small, as that of a slow reader is when full */
static struct conn *connect_reader(int *out_fd)
{
	int pair[2], room = 4096;

	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) ==
	      0);
	CHECK(setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &room, sizeof(room)) == 0);
	conn_open(server, pair[0]);
	*out_fd = pair[1];
	return server->mgr->conns->fn_data;
}

static void answer_with(struct conn *k, size_t len)
{
	struct buf body;

	buf_init(&body, len);
	CHECK(buf_reserve(&body, len) == 0);
	for (size_t i = 0; i < len; i++)
		body.bytes[i] = (char)('a' + i % 23);
	body.len = len;
	answer_json(k, 200, NULL, &body);
}

/* what came, which must be the right bytes */
static void take(int fd, size_t *got, bool *in_body)
{
	char text[8192];
	ssize_t n = read(fd, text, sizeof(text) - 1);
	size_t from = 0;

	CHECK(n > 0 || (n < 0 && errno == EAGAIN));
	if (n <= 0)
		return;
	if (!*in_body) {
		const char *end;

		text[n] = 0;
		end = strstr(text, "\r\n\r\n"); /* the head comes in one piece */
		CHECK(end);
		from = (size_t)(end + 4 - text);
		*in_body = true;
	}
	for (size_t i = from; i < (size_t)n; i++)
		CHECK(text[i] == (char)('a' + (*got)++ % 23));
}

TEST(a_large_answer_never_fills_the_librarys_buffer)
{
	size_t got[READERS] = {0}, done = 0, turns = 0;
	bool in_body[READERS] = {false};
	struct conn *k[READERS];
	int fd[READERS];

	open_server();
	for (int i = 0; i < READERS; i++) {
		k[i] = connect_reader(&fd[i]);
		answer_with(k[i], BODY_BYTES);
		CHECK(answer_unsent(k[i]) > BODY_BYTES / 2);
	}
	while (done < READERS) {
		done = 0;
		turns++;
		for (int i = 0; i < READERS; i++) {
			CHECK(k[i]->c->send.len <= SLICE_BYTES);
			CHECK(k[i]->c->send.size <= 2 * SLICE_BYTES);
			take(fd[i], &got[i], &in_body[i]);
			done += got[i] == BODY_BYTES;
		}
		mg_mgr_poll(server->mgr, 0);
	}
	CHECK(turns > TURNS_AT_LEAST);
	for (int i = 0; i < READERS; i++) {
		/* answered, ready for the next request, and holding no buffer */
		CHECK(k[i]->state == CONN_HEAD && answer_unsent(k[i]) == 0);
		CHECK(k[i]->c->send.size == 0 && !k[i]->tail.bytes && !k[i]->held);
		close(fd[i]);
	}
	CHECK(server->unsent_bytes == 0);
	close_server();
}

TEST(what_does_not_fit_is_the_largest_of_who_has_most)
{
	static const size_t bytes[] = {3 << 20, 5 << 20, 4 << 20, 6 << 20};
	struct client hog = {.refs = 3}, other = {.refs = 1};
	struct conn *k[4];
	struct err e;
	int fd[4];

	open_server();
	server->unsent_budget = 12 << 20;
	for (int i = 0; i < 4; i++) {
		k[i] = connect_reader(&fd[i]);
		k[i]->client = i < 3 ? &hog : &other;
		answer_with(k[i], bytes[i]);
	}
	CHECK(hog.held >= 12 << 20 && other.held >= 6 << 20);
	CHECK(unread_admit(k[0], &e) < 0 && strstr(e.text, "this token"));
	CHECK(unread_admit(k[3], &e) < 0 && e.status == 503);
	CHECK(unread_room(k[3], 1 << 20, &e) < 0 && e.status == 503);
	/* half as much again is borne, and stops nobody who has nothing of it */
	server->unsent_budget = server->unsent_bytes / 3 * 2 + 1;
	k[3]->client = NULL;
	CHECK(unread_admit(k[3], &e) == 0);
	k[3]->client = &other;
	unread_shed(server);
	CHECK(k[1]->held && !k[1]->c->is_closing);
	server->unsent_budget -= 2;
	unread_shed(server);
	CHECK(k[1]->c->is_closing && !k[1]->held);
	CHECK(k[0]->held && k[2]->held && k[3]->held);
	CHECK(server->unsent_bytes == hog.held + other.held);
	for (int i = 0; i < 4; i++) {
		answer_forget(k[i]);
		k[i]->client = NULL; /* not of the server's own */
		close(fd[i]);
	}
	CHECK(hog.held == 0 && other.held == 0 && server->unsent_bytes == 0);
	close_server();
}

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * drive.c - start programs and send requests, and say how long each took
 *
 * usage: drive <PLAN      a line an order, words separated by tabs:
 *
 *	spawn NAME EXPECT ARGUMENT...   a contender: a program, and what it must print;
 *	                                %N in an argument: a number never used before
 *	http NAME EXPECT PORT BODY      a contender: POST /execute, what the answer holds
 *	pipe NAME EXPECT ARGUMENT...    a contender: a program that stays, has a line and
 *	                                answers with one
 *	end NAME                        it is not needed any more
 *	rounds COUNT SKIP NAME...       each of them once a round, in random order; the
 *	                                first SKIP rounds are not told
 *	series NAME COUNT               one contender, again and again
 *	flight NAME AT_ONCE MS          one contender, so many at once, for a while
 *
 * and on standard output "time NAME MICROSECONDS", "setup NAME MICROSECONDS" (what the
 * answer says of itself), "missed NAME" and "flight NAME AT_ONCE PER_SECOND". After each
 * run of a contender that expects "warm":true there is a moment in which the next sandbox
 * is made; it is asked again when none was ready. Anything else unexpected ends it.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CONTENDERS 256
#define ARGUMENTS 64
#define REFILL_US 60000 /* that a waiting interpreter takes to start */
#define TRIES 50
#define TEXT 65536

#define NUMBER(text) ((int)strtol(text, NULL, 10)) /* of our own script */

struct contender {
	char *name;
	char *expect;
	char *argv[ARGUMENTS + 1]; /* NULL: a request */
	int port;
	char *request;
	size_t request_len;
	int fd;     /* of the sequential rounds; of a pipe: what it says */
	int ask_fd; /* of a pipe */
	pid_t pid;  /* of a pipe */
	int wants_warm;
};

static struct contender contenders[CONTENDERS];
static unsigned contender_count;
static atomic_uint numbers;
extern char **environ;

static _Noreturn void die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fprintf(stderr, "drive: ");
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	va_end(ap);
	exit(1);
}

static uint64_t now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u;
}

/* 1: as expected; 0: only no sandbox was waiting */
static int check(const struct contender *c, const char *text)
{
	if (strstr(text, c->expect))
		return 1;
	if (c->wants_warm && strstr(text, "\"warm\":false"))
		return 0;
	die("%s: wanted '%s', got: %.800s", c->name, c->expect, text);
}

/* ---- programs */

static void number_arguments(const struct contender *c, char **out, char *room)
{
	unsigned i;

	for (i = 0; c->argv[i]; i++) {
		const char *at = strstr(c->argv[i], "%N");

		out[i] = c->argv[i];
		if (!at)
			continue;
		snprintf(room, 256, "%.*s%u%s", (int)(at - c->argv[i]), c->argv[i],
			 atomic_fetch_add(&numbers, 1), at + 2);
		out[i] = room;
		room += 256;
	}
	out[i] = NULL;
}

static void spawn_one(const struct contender *c)
{
	char text[4096], room[4 * 256], *argv[ARGUMENTS + 1];
	posix_spawn_file_actions_t actions;
	size_t len = 0;
	int out[2], status, rc;
	ssize_t n;
	pid_t pid;

	number_arguments(c, argv, room);
	if (pipe2(out, O_CLOEXEC) < 0)
		die("pipe: %s", strerror(errno));
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&actions, out[1], 1);
	rc = posix_spawn(&pid, argv[0], &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	if (rc)
		die("%s: %s", argv[0], strerror(rc));
	close(out[1]);
	while ((n = read(out[0], text + len, sizeof(text) - 1 - len)) > 0)
		len += (size_t)n;
	close(out[0]);
	text[len] = 0;
	if (waitpid(pid, &status, 0) != pid || status != 0)
		die("%s: ended with %d, said: %s", c->name, status, text);
	(void)check(c, text); /* it is none that waits */
}

static pid_t spawn_piped(char **argv, int *out_ask_fd, int *out_say_fd)
{
	posix_spawn_file_actions_t actions;
	int ask[2], told[2], rc;
	pid_t pid;

	if (pipe2(ask, O_CLOEXEC) < 0 || pipe2(told, O_CLOEXEC) < 0)
		die("pipe: %s", strerror(errno));
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, ask[0], 0);
	posix_spawn_file_actions_adddup2(&actions, told[1], 1);
	rc = posix_spawn(&pid, argv[0], &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	if (rc)
		die("%s: %s", argv[0], strerror(rc));
	close(ask[0]);
	close(told[1]);
	*out_ask_fd = ask[1];
	*out_say_fd = told[0];
	return pid;
}

/* ---- requests */

static int connect_to(int port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		die("connect to port %d: %s", port, strerror(errno));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return fd;
}

/* the whole answer, by its Content-Length */
static void read_answer(const struct contender *c, int fd, char *text)
{
	size_t len = 0, want = 0;
	const char *head, *length;
	ssize_t n;

	do {
		n = read(fd, text + len, TEXT - 1 - len);
		if (n <= 0)
			die("%s: the answer ended early", c->name);
		len += (size_t)n;
		text[len] = 0;
		head = strstr(text, "\r\n\r\n");
		length = strcasestr(text, "content-length:");
		if (head && !want) {
			if (!length)
				die("%s: %.400s", c->name, text);
			want = (size_t)(head + 4 - text) + strtoul(length + 15, NULL, 10);
		}
	} while (!want || len < want);
}

/* of a pipe: a line, or several */
static size_t read_lines(const struct contender *c, int fd, char *text)
{
	size_t len = 0, lines = 0;
	ssize_t n;

	do {
		n = read(fd, text + len, TEXT - 1 - len);
		if (n <= 0)
			die("%s: the answer ended early", c->name);
		len += (size_t)n;
		text[len] = 0;
	} while (text[len - 1] != '\n');
	for (size_t i = 0; i < len; i++)
		lines += text[i] == '\n';
	return lines;
}

/* 1: as expected, 0: not from a waiting sandbox */
static int request_one(const struct contender *c, int fd, long *out_setup_us)
{
	static _Thread_local char text[TEXT];
	const char *setup;

	if (c->pid) {
		if (write(c->ask_fd, "\n", 1) != 1)
			die("%s: write: %s", c->name, strerror(errno));
		(void)read_lines(c, fd, text);
	} else {
		if (write(fd, c->request, c->request_len) != (ssize_t)c->request_len)
			die("%s: write: %s", c->name, strerror(errno));
		read_answer(c, fd, text);
	}
	setup = strstr(text, "\"setup_us\":");
	*out_setup_us = setup ? strtol(setup + 11, NULL, 10) : -1;
	return check(c, text);
}

/* ---- orders */

static struct contender *find(const char *name)
{
	for (unsigned i = contender_count; i > 0; i--) {
		if (strcmp(contenders[i - 1].name, name) == 0)
			return &contenders[i - 1];
	}
	die("no contender '%s'", name);
}

static void add_contender(unsigned words, char **word)
{
	struct contender *c = &contenders[contender_count++];
	unsigned i;

	if (contender_count > CONTENDERS || words < 4 || words > ARGUMENTS)
		die("a plan that does not fit");
	c->name = strdup(word[1]);
	c->expect = strdup(word[2]);
	c->wants_warm = strstr(c->expect, "\"warm\":true") != NULL;
	c->fd = -1;
	if (strcmp(word[0], "http") != 0) {
		for (i = 3; i < words; i++)
			c->argv[i - 3] = strdup(word[i]);
		if (strcmp(word[0], "pipe") == 0)
			c->pid = spawn_piped(c->argv, &c->ask_fd, &c->fd);
		return;
	}
	c->port = NUMBER(word[3]);
	c->request_len = (size_t)asprintf(
		&c->request,
		"POST /execute HTTP/1.1\r\nHost: 127.0.0.1\r\n"
		"Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
		strlen(word[4]), word[4]);
	c->fd = connect_to(c->port);
}

static void end_contender(struct contender *c)
{
	if (c->pid) {
		close(c->ask_fd);
		waitpid(c->pid, NULL, 0);
	}
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
	c->name[0] = 0;
}

/* a run, timed; tried again when it should have found a waiting sandbox and did not */
static void measure(const struct contender *c, int tell)
{
	uint64_t begin, took;
	long setup = -1;
	int i;

	for (i = 0; i < TRIES; i++) {
		int good = 1;

		begin = now_us();
		if (c->fd >= 0)
			good = request_one(c, c->fd, &setup);
		else
			spawn_one(c);
		took = now_us() - begin;
		if (c->wants_warm)
			usleep(REFILL_US);
		if (good)
			break;
		printf("missed\t%s\n", c->name);
	}
	if (i == TRIES)
		die("%s: no sandbox was ever waiting", c->name);
	if (!tell)
		return;
	printf("time\t%s\t%llu\n", c->name, (unsigned long long)took);
	if (setup >= 0)
		printf("setup\t%s\t%ld\n", c->name, setup);
}

/* a server closes connections that had nothing to say for long */
static struct contender *refreshed(const char *name)
{
	struct contender *c = find(name);

	if (c->request) {
		close(c->fd);
		c->fd = connect_to(c->port);
	}
	return c;
}

static void rounds(int count, int skip, unsigned names, char **name)
{
	const struct contender *order[CONTENDERS], *t;
	unsigned i, j;

	if (names > CONTENDERS)
		die("too many contenders");
	for (i = 0; i < names; i++)
		order[i] = refreshed(name[i]);
	for (int r = 0; r < count + skip; r++) {
		for (i = names; i > 1; i--) {
			j = (unsigned)(random() % i);
			t = order[i - 1];
			order[i - 1] = order[j];
			order[j] = t;
		}
		for (i = 0; i < names; i++)
			measure(order[i], r >= skip);
		printf("round\t%d\t%d\n", r + 1, count + skip);
		fflush(stdout);
	}
}

static void series(const struct contender *c, int count)
{
	for (int i = 0; i < count; i++) {
		measure(c, 1);
		if (i % 100 == 99 || i == count - 1) {
			printf("round\t%d\t%d\n", i + 1, count);
			fflush(stdout);
		}
	}
}

struct flight {
	const struct contender *c;
	uint64_t end_us;
	atomic_int done;
};

static void *fly(void *arg)
{
	struct flight *f = arg;
	int fd = f->c->request ? connect_to(f->c->port) : -1;
	long setup;

	while (now_us() < f->end_us) {
		if (fd >= 0)
			(void)request_one(f->c, fd, &setup);
		else
			spawn_one(f->c);
		atomic_fetch_add(&f->done, 1);
	}
	if (fd >= 0)
		close(fd);
	return NULL;
}

/* of a pipe: as many lines are on their way */
static void fly_piped(struct flight *f, int at_once)
{
	static char text[TEXT];
	int on_way = 0;

	while (now_us() < f->end_us || on_way > 0) {
		while (now_us() < f->end_us && on_way < at_once) {
			if (write(f->c->ask_fd, "\n", 1) != 1)
				die("%s: write: %s", f->c->name, strerror(errno));
			on_way++;
		}
		if (on_way > 0) {
			int got = (int)read_lines(f->c, f->c->fd, text);

			(void)check(f->c, text);
			on_way -= got;
			atomic_fetch_add(&f->done, got);
		}
	}
}

static void flight(const struct contender *c, int at_once, int ms)
{
	const uint64_t begin = now_us();
	struct flight f = {c, begin + (uint64_t)ms * 1000, 0};
	pthread_t threads[64];
	int i;

	if (at_once < 1 || at_once > 64)
		die("no flight of %d %s", at_once, c->name);
	if (c->pid)
		fly_piped(&f, at_once);
	for (i = 0; !c->pid && i < at_once; i++)
		if (pthread_create(&threads[i], NULL, fly, &f))
			die("no thread");
	for (i = 0; !c->pid && i < at_once; i++)
		pthread_join(threads[i], NULL);
	printf("flight\t%s\t%d\t%.1f\n", c->name, at_once,
	       atomic_load(&f.done) * 1e6 / (double)(now_us() - begin));
	fflush(stdout);
}

static void obey(unsigned words, char **word)
{
	if (strcmp(word[0], "spawn") == 0 || strcmp(word[0], "http") == 0 ||
	    strcmp(word[0], "pipe") == 0)
		add_contender(words, word);
	else if (strcmp(word[0], "end") == 0 && words == 2)
		end_contender(find(word[1]));
	else if (strcmp(word[0], "rounds") == 0 && words > 3)
		rounds(NUMBER(word[1]), NUMBER(word[2]), words - 3, word + 3);
	else if (strcmp(word[0], "series") == 0 && words == 3)
		series(refreshed(word[1]), NUMBER(word[2]));
	else if (strcmp(word[0], "flight") == 0 && words == 4)
		flight(find(word[1]), NUMBER(word[2]), NUMBER(word[3]));
	else
		die("no order '%s'", word[0]);
}

int main(void)
{
	static char line[TEXT];
	char *word[CONTENDERS + 4];
	unsigned words;

	while (fgets(line, sizeof(line), stdin)) {
		char *at = line;

		line[strcspn(line, "\n")] = 0;
		for (words = 0; at && words < CONTENDERS + 3; words++)
			word[words] = strsep(&at, "\t");
		word[words] = NULL;
		obey(words, word);
	}
	for (unsigned i = 0; i < contender_count; i++)
		end_contender(&contenders[i]);
	return 0;
}

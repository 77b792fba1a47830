/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * drive.c - start programs and send requests, and say how long each took
 *
 * usage: drive <PLAN      a line an order, words separated by tabs:
 *
 *	spawn NAME EXPECT ARGUMENT...   a contender: a program, and what it must print;
 *	                                %N in an argument: a number never used before
 *	http NAME EXPECT PORT BODY      a contender: POST /execute, what the answer holds
 *	rounds COUNT SKIP               every contender once a round, in random order;
 *	                                the first SKIP rounds are not told
 *	flight NAME AT_ONCE COUNT       COUNT times one contender, so many at once
 *
 * and on standard output "time NAME MICROSECONDS", "setup NAME MICROSECONDS" (what the
 * answer says of itself) and "flight NAME AT_ONCE PER_SECOND". Anything unexpected ends
 * it.
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

#define CONTENDERS 128
#define ARGUMENTS 64
#define TEXT 65536

#define NUMBER(text) ((int)strtol(text, NULL, 10)) /* of our own script */

struct contender {
	char *name;
	char *expect;
	char *argv[ARGUMENTS + 1]; /* NULL: a request */
	int port;
	char *request;
	size_t request_len;
	int fd; /* of the sequential rounds */
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

static void check(const struct contender *c, const char *text)
{
	if (!strstr(text, c->expect))
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
	check(c, text);
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

static long request_one(const struct contender *c, int fd)
{
	static _Thread_local char text[TEXT];
	const char *setup;

	if (write(fd, c->request, c->request_len) != (ssize_t)c->request_len)
		die("%s: write: %s", c->name, strerror(errno));
	read_answer(c, fd, text);
	check(c, text);
	setup = strstr(text, "\"setup_us\":");
	return setup ? strtol(setup + 11, NULL, 10) : -1;
}

/* ---- orders */

static void add_contender(unsigned words, char **word)
{
	struct contender *c = &contenders[contender_count++];
	unsigned i;

	if (contender_count > CONTENDERS || words < 4 || words > ARGUMENTS)
		die("a plan that does not fit");
	c->name = strdup(word[1]);
	c->expect = strdup(word[2]);
	c->fd = -1;
	if (strcmp(word[0], "spawn") == 0) {
		for (i = 3; i < words; i++)
			c->argv[i - 3] = strdup(word[i]);
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

static void measure(const struct contender *c, int tell)
{
	uint64_t begin = now_us(), took;
	long setup = -1;

	if (c->request)
		setup = request_one(c, c->fd);
	else
		spawn_one(c);
	took = now_us() - begin;
	if (!tell)
		return;
	printf("time\t%s\t%llu\n", c->name, (unsigned long long)took);
	if (setup >= 0)
		printf("setup\t%s\t%ld\n", c->name, setup);
}

static void rounds(int count, int skip)
{
	unsigned order[CONTENDERS], i, j, t;

	for (i = 0; i < contender_count; i++)
		order[i] = i;
	for (int r = 0; r < count + skip; r++) {
		for (i = contender_count; i > 1; i--) {
			j = (unsigned)(random() % i);
			t = order[i - 1];
			order[i - 1] = order[j];
			order[j] = t;
		}
		for (i = 0; i < contender_count; i++)
			measure(&contenders[order[i]], r >= skip);
		printf("round\t%d\t%d\n", r + 1, count + skip);
		fflush(stdout);
	}
}

struct flight {
	const struct contender *c;
	atomic_int left;
};

static void *fly(void *arg)
{
	struct flight *f = arg;
	int fd = f->c->request ? connect_to(f->c->port) : -1;

	while (atomic_fetch_sub(&f->left, 1) > 0) {
		if (fd >= 0)
			request_one(f->c, fd);
		else
			spawn_one(f->c);
	}
	if (fd >= 0)
		close(fd);
	return NULL;
}

static void flight(const char *name, int at_once, int count)
{
	struct flight f = {NULL, count};
	pthread_t threads[64];
	uint64_t begin;
	int i;

	for (i = 0; i < (int)contender_count; i++)
		if (strcmp(contenders[i].name, name) == 0)
			f.c = &contenders[i];
	if (!f.c || at_once < 1 || at_once > 64)
		die("no flight of %d %s", at_once, name);
	begin = now_us();
	for (i = 0; i < at_once; i++)
		if (pthread_create(&threads[i], NULL, fly, &f))
			die("no thread");
	for (i = 0; i < at_once; i++)
		pthread_join(threads[i], NULL);
	printf("flight\t%s\t%d\t%.1f\n", name, at_once,
	       count * 1e6 / (double)(now_us() - begin));
	fflush(stdout);
}

int main(void)
{
	static char line[TEXT];
	char *word[ARGUMENTS + 4];
	unsigned words;

	while (fgets(line, sizeof(line), stdin)) {
		char *at = line;

		line[strcspn(line, "\n")] = 0;
		for (words = 0; at && words < ARGUMENTS + 3; words++)
			word[words] = strsep(&at, "\t");
		word[words] = NULL;
		if (strcmp(word[0], "spawn") == 0 || strcmp(word[0], "http") == 0)
			add_contender(words, word);
		else if (strcmp(word[0], "rounds") == 0 && words == 3)
			rounds(NUMBER(word[1]), NUMBER(word[2]));
		else if (strcmp(word[0], "flight") == 0 && words == 4)
			flight(word[1], NUMBER(word[2]), NUMBER(word[3]));
		else
			die("no order '%s'", word[0]);
	}
	return 0;
}

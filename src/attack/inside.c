/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * inside.c - `sandbox-attack CASE`: the program of a run, with every layer on it
 *
 * Runs in: a sandbox, executed like any interpreter. It tries what the case says and
 * prints what it saw in lines that battery.c reads.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "attack/attack.h"
#include "base/num.h"

struct tried try_open(const char *path, int flags)
{
	struct tried r = tried(open(path, flags | O_CLOEXEC | O_NONBLOCK, 0600));

	if (r.value >= 0)
		close((int)r.value);
	return r;
}

long read_text(const char *path, char *out, size_t room)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	size_t len = 0;
	ssize_t n = 0;

	out[0] = '\0';
	if (fd < 0)
		return -1;
	while (len + 1 < room && (n = read(fd, out + len, room - 1 - len)) > 0)
		len += (size_t)n;
	out[len] = '\0';
	close(fd);
	return n < 0 ? -1 : (long)len;
}

struct tried copy_program(const char *to)
{
	static const char *const from[] = {"/bin/true", "/usr/bin/true", "/bin/busybox"};
	char block[65536];
	int in = -1, out;
	ssize_t n = 0;
	unsigned i;

	for (i = 0; in < 0 && i < sizeof(from) / sizeof(from[0]); i++)
		in = open(from[i], O_RDONLY | O_CLOEXEC);
	if (in < 0)
		return tried(-1);
	out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
	while (out >= 0 && (n = read(in, block, sizeof(block))) > 0) {
		if (write(out, block, (size_t)n) != n)
			break;
	}
	close(in);
	if (out < 0 || n != 0)
		return tried(-1);
	close(out);
	return tried(0);
}

/* in the child: stdout into the pipe, then the program; its errno when there is none */
static _Noreturn void become(const char *const *argv, int out_fd, int errno_fd)
{
	const int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	int num;

	alarm(15);
	dup2(null_fd, STDIN_FILENO);
	dup2(out_fd, STDOUT_FILENO);
	dup2(null_fd, STDERR_FILENO);
	execv(argv[0], (char *const *)argv);
	num = errno;
	_exit(write(errno_fd, &num, sizeof(num)) == (ssize_t)sizeof(num) ? 127 : 126);
}

int run_program(const char *const *argv, char *out, size_t room)
{
	int text[2], fail[2], status = 0, num = 0;
	size_t len = 0;
	ssize_t n;
	pid_t pid;

	out[0] = '\0';
	if (pipe2(text, O_CLOEXEC) < 0 || pipe2(fail, O_CLOEXEC) < 0)
		return -1;
	pid = fork();
	if (pid == 0)
		become(argv, text[1], fail[1]);
	close(text[1]);
	close(fail[1]);
	while (len + 1 < room && (n = read(text[0], out + len, room - 1 - len)) > 0)
		len += (size_t)n;
	out[len] = '\0';
	n = read(fail[0], &num, sizeof(num));
	close(text[0]);
	close(fail[0]);
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return -1;
	if (n > 0) {
		errno = num;
		return -1;
	}
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void say(const char *fmt, ...)
{
	char line[2 * TRIES_TEXT];
	va_list args;
	int len;

	va_start(args, fmt);
	len = vsnprintf(line, sizeof(line), fmt, args);
	va_end(args);
	if (len > 0 && write(STDOUT_FILENO, line, strlen(line)) < 0)
		_exit(3); /* nobody reads: nobody can be told */
}

uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

void sleep_ms(unsigned ms)
{
	struct timespec t = {ms / 1000, (long)(ms % 1000) * 1000000};

	nanosleep(&t, NULL);
}

_Noreturn void wait_forever(void)
{
	for (;;)
		pause();
}

/* What every ordinary program does: a file, a process, memory, a word. A patient one
 * waits a while for its process: where all runs are one uid, another run can have too
 * many for as long as it takes to end it. */
static int control(bool patient)
{
	const uint64_t end = now_ms() + (patient ? 1000 : 0);
	char text[16] = "", *bytes;
	int fd = open("control", O_CREAT | O_RDWR | O_CLOEXEC, 0600), status = -1;
	pid_t pid;

	if (fd < 0 || write(fd, "fine", 4) != 4 || pread(fd, text, 4, 0) != 4)
		return 1;
	while ((pid = fork()) < 0 && errno == EAGAIN && now_ms() < end)
		sleep_ms(1);
	if (pid == 0)
		_exit(7);
	if (pid < 0)
		return 2;
	if (waitpid(pid, &status, 0) != pid || WEXITSTATUS(status) != 7)
		return 3;
	bytes = malloc(1 << 20);
	if (!bytes)
		return 4;
	memset(bytes, 1, 1 << 20);
	free(bytes);
	say("%s\n", text);
	return 0;
}

static const struct attack *find(const char *id)
{
	const struct attack_group *g;
	const struct attack *a;

	for (g = attack_groups; g->name; g++) {
		for (a = g->attacks; a->id; a++) {
			if (strcmp(a->id, id) == 0)
				return a;
		}
	}
	return NULL;
}

static int read_words(struct tries *t, int argc, char **argv)
{
	uint64_t n[6];
	int i;

	if (argc < 8)
		return -1;
	for (i = 0; i < 6; i++) {
		if (num_range(argv[2 + i], 0, UINT32_MAX, &n[i]) < 0)
			return -1;
	}
	t->level = (uint32_t)n[0];
	t->layers = (uint32_t)n[1];
	t->limits.pids = (uint32_t)n[2];
	t->limits.memory_mb = (uint32_t)n[3];
	t->limits.disk_mb = (uint32_t)n[4];
	t->limits.wall_ms = (uint32_t)n[5];
	t->words = argv + 8;
	t->word_count = argc - 8;
	return 0;
}

int attack_main(int argc, char **argv)
{
	static struct tries t;
	const struct attack *a;

	/* fork bombs and their like belong into a sandbox */
	if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1) {
		fprintf(stderr, "sandbox-attack: this is no sandbox\n");
		return 2;
	}
	if (argc > 1 && strcmp(argv[1], "control") == 0)
		return control(false);
	if (argc > 1 && strcmp(argv[1], "patient") == 0)
		return control(true);
	a = argc > 1 ? find(argv[1]) : NULL;
	if (!a || !a->inside || read_words(&t, argc, argv) < 0) {
		fprintf(stderr, "sandbox-attack: not for people\n");
		return 2;
	}
	a->inside(&t);
	say("\ntried: %u %u\nseen: %s\n", t.count, t.wrong_count, t.seen);
	say("wrong: %s\nskipped: %s\nuntested: %s\ntold\n", t.wrong, t.skipped,
	    t.untested);
	return 0;
}

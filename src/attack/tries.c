/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * tries.c - notes what was tried and what came of it
 *
 * Used on both sides: by the program in the sandbox, and by what starts it.
 */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attack/attack.h"

struct tried tried(long result)
{
	return (struct tried){.value = result, .num = result == -1 ? errno : 0};
}

struct tried tried_apart(long (*call)(void *arg), void *arg)
{
	struct tried r = {.value = -1, .num = ECHILD};
	int pipe_fd[2], status = 0;
	pid_t pid;

	if (pipe(pipe_fd) < 0)
		return tried(-1);
	pid = fork();
	if (pid == 0) {
		r = tried(call(arg));
		_exit(write(pipe_fd[1], &r, sizeof(r)) == (ssize_t)sizeof(r) ? 0 : 1);
	}
	close(pipe_fd[1]);
	if (pid < 0)
		r = tried(-1);
	else {
		(void)!read(pipe_fd[0], &r, sizeof(r)); /* nothing came: it died */
		waitpid(pid, &status, 0);
		if (WIFSIGNALED(status))
			r = (struct tried){.value = -1, .signal = WTERMSIG(status)};
	}
	close(pipe_fd[0]);
	return r;
}

const char *tried_word(const struct tried *r, char room[24])
{
	const char *name = r->signal ? sigabbrev_np(r->signal) : strerrorname_np(r->num);

	if (!r->signal && !r->num)
		return "ok";
	if (name)
		snprintf(room, 24, "%s%s", r->signal ? "SIG" : "", name);
	else
		snprintf(room, 24, "%s %d", r->signal ? "signal" : "errno",
			 r->signal ? r->signal : r->num);
	return room;
}

/* a piece behind the others; one that does not fit is left out */
__attribute__((format(printf, 3, 0))) static void add(char *text, size_t room,
						      const char *fmt, va_list args)
{
	size_t len = strlen(text), at;
	char piece[TRIES_TEXT];

	vsnprintf(piece, sizeof(piece), fmt, args);
	if (len + 3 + strlen(piece) >= room)
		return;
	if (len)
		len += (size_t)snprintf(text + len, room - len, "; ");
	snprintf(text + len, room - len, "%s", piece);
	for (at = len; text[at]; at++) {
		if ((unsigned char)text[at] < ' ' || (unsigned char)text[at] > '~')
			text[at] = '.';
	}
}

#define ADD(where)                                      \
	do {                                            \
		va_list args;                           \
		va_start(args, fmt);                    \
		add((where), sizeof(where), fmt, args); \
		va_end(args);                           \
	} while (0)

void expect(struct tries *t, bool holds, const char *fmt, ...)
{
	t->count++;
	if (holds)
		return;
	t->wrong_count++;
	ADD(t->wrong);
}

void invariant(struct tries *t, bool holds, const char *fmt, ...)
{
	if (holds)
		return;
	t->wrong_count++;
	ADD(t->wrong);
}

void observe(struct tries *t, const char *fmt, ...)
{
	ADD(t->seen);
}

void skip(struct tries *t, const char *fmt, ...)
{
	ADD(t->skipped);
}

void untested(struct tries *t, const char *fmt, ...)
{
	ADD(t->untested);
}

__attribute__((format(printf, 2, 3))) static void add_wrong(struct tries *t,
							    const char *fmt, ...)
{
	ADD(t->wrong);
}

void wrong_too(struct tries *t, const char *text)
{
	add_wrong(t, "%s", text);
}

/* is it one of "EPERM|ENOSYS"? */
static bool wanted_word(const char *wanted, const char *word)
{
	const size_t len = strlen(word);

	while (wanted) {
		if (strncmp(wanted, word, len) == 0 &&
		    (wanted[len] == '\0' || wanted[len] == '|'))
			return true;
		wanted = strchr(wanted, '|');
		wanted = wanted ? wanted + 1 : NULL;
	}
	return false;
}

/* each word once */
static void saw(struct tries *t, const char *word)
{
	const char *at = t->seen;
	const size_t len = strlen(word);

	while ((at = strstr(at, word))) {
		if ((at == t->seen || at[-1] == ' ') && (!at[len] || at[len] == ';'))
			return;
		at += len;
	}
	observe(t, "%s", word);
}

void expect_tried(struct tries *t, const char *what, struct tried r, const char *wanted)
{
	char room[24];
	const char *word = tried_word(&r, room);

	if (wanted_word(wanted, word))
		saw(t, word);
	expect(t, wanted_word(wanted, word), "%s: %s, not %s", what, word, wanted);
}

void expect_call(struct tries *t, const char *what, long result, const char *wanted)
{
	expect_tried(t, what, tried(result), wanted);
}

bool tries_layer(const struct tries *t, enum layer_id layer)
{
	return t->layers & 1u << layer;
}

bool tries_shared(const struct tries *t)
{
	return t->level < LEVEL_NAMESPACES;
}

const char *tries_hidden(const struct tries *t)
{
	/* EPERM: a cgroup of devices was asked first */
	return tries_shared(t) ? "EACCES|ENOENT|EPERM" : "ENOENT";
}

const char *tries_word(const struct tries *t, int n)
{
	return n < t->word_count ? t->words[n] : "";
}

enum attack_status tries_status(const struct tries *t)
{
	if (t->wrong_count)
		return ATTACK_FAILED;
	if (t->skipped[0])
		return ATTACK_SKIPPED;
	return t->count ? ATTACK_OK : ATTACK_FAILED; /* nothing tried: nothing shown */
}

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * kernel_log.c - G6: what the kernel said since the last time we looked
 *
 * Runs in: `selftest`. The end of the log is the mark; what follows it the next time is
 * new. Lines have their time, so that no two are the same.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/klog.h>

#include "attack/battery.h"
#include "base/defer.h"
#include "base/mem.h"

enum { READ_ALL = 3, SIZE_BUFFER = 10 }; /* SYSLOG_ACTION_... */

/* the whole of it, NUL-terminated, the caller's to free; NULL: it cannot be read */
static char *read_log(size_t *out_len)
{
	const int room = klogctl(SIZE_BUFFER, NULL, 0);
	char *text;
	int len;

	if (room <= 0)
		return NULL;
	text = mem_zero((size_t)room + 1);
	len = klogctl(READ_ALL, text, room);
	if (len < 0) {
		free(text);
		return NULL;
	}
	*out_len = (size_t)len;
	return text;
}

static void set_mark(struct battery *b, const char *text, size_t len)
{
	const size_t most = sizeof(b->log_mark) - 1, n = len < most ? len : most;

	memcpy(b->log_mark, text + len - n, n);
	b->log_mark[n] = '\0';
}

bool kernel_log_begin(struct battery *b)
{
	size_t len = 0;
	auto_free char *text = read_log(&len);

	if (!text)
		return false;
	set_mark(b, text, len);
	return true;
}

/* where the last one of these ends, NULL: it is not there */
static const char *behind_last(const char *text, const char *mark)
{
	const char *found = NULL, *at = text;

	while (mark[0] && (at = strstr(at, mark))) {
		at += strlen(mark);
		found = at;
	}
	return mark[0] ? found : text;
}

/* "traps:" is about a program: its fault is not the kernel's */
static bool is_fault(const char *line)
{
	static const char *const words[] = {"BUG:",
					    "WARNING:",
					    "Oops",
					    "general protection fault",
					    "Unable to handle",
					    "KASAN:",
					    "UBSAN:",
					    "KCSAN:",
					    "kernel BUG at",
					    "Kernel panic",
					    "KFENCE:",
					    "blocked for more than",
					    "detected stalls",
					    "soft lockup"};
	unsigned i;

	if (strstr(line, "] traps: "))
		return false;
	for (i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strstr(line, words[i]))
			return true;
	}
	return false;
}

int kernel_log_scan(const char *text, const char *mark, char *out, size_t room)
{
	const char *from = behind_last(text, mark);
	auto_free char *copy = from ? mem_copy(from) : NULL;
	char *line, *rest = copy;

	if (!from)
		return -1;
	while ((line = strsep(&rest, "\n"))) {
		if (!is_fault(line))
			continue;
		snprintf(out, room, "%s", line);
		return 1;
	}
	return 0;
}

int kernel_log_fault(struct battery *b, char *out, size_t room)
{
	size_t len = 0;
	auto_free char *text = read_log(&len);
	const int found = text ? kernel_log_scan(text, b->log_mark, out, room) : -1;

	if (found >= 0)
		set_mark(b, text, len);
	return found;
}

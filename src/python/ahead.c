/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * ahead.c - in a started interpreter, when it opens its script: modules before, words
 *	after
 *
 * Runs in: python3 or node, in the sandbox, as a shared object that its loader was told
 * to load first (wire/ahead.h). It knows python by the names of a few functions that
 * every python 3 has, looked up when needed: nothing of it is compiled in.
 * Before: no byte of any request is in the sandbox. After: the modules are in
 * sys.modules, the request's arguments and variables (words.c) at their places, and
 * nothing else of python's can tell; the script is read as if we were not there.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "python/call.h"
#include "python/finish.h"
#include "python/fork.h"
#include "python/freeze.h"
#include "python/harmless.h"
#include "python/node.h"
#include "python/words.h"
#include "wire/ahead.h"

#define OURS __attribute__((visibility("default")))

static struct ahead_tail tail;
static bool begun;
static struct {
	void *fopen, *fopen64, *open, *open64;
} next; /* those that ours stand before, looked up once */
static const char python_script[] = "script.py";
static const char node_script[] = "script.js";

static void *find(const char *name, void **known)
{
	if (!*known)
		*known = dlsym(RTLD_NEXT, name);
	return *known;
}

_Noreturn void call_give_up(const char *why)
{
	if (tail.forks)
		fork_fail("fork_python", ENOSYS);
	/* nobody listens: then our end says it */
	ssize_t n = write(STDERR_FILENO, why, strlen(why));

	(void)n;
	_exit(1);
}

/* before main(): the variable that loaded us turns into the one whose place it has; as
 * the last one it has nobody's, and goes */
static __attribute__((constructor)) void take_place(int argc, char **argv, char **envp)
{
	struct stat st;

	(void)argc;
	(void)argv;
	while (*envp && strcmp(*envp, AHEAD_LOAD) != 0)
		envp++;
	if (!*envp)
		call_give_up("ahead: not loaded as it should be\n");
	if (envp[1]) {
		memcpy(*envp, AHEAD_HIDES, sizeof(AHEAD_HIDES));
	} else {
		memset(*envp, 0, sizeof(AHEAD_LOAD));
		*envp = NULL;
	}
	if (fstat(AHEAD_FD, &st) < 0 || st.st_size <= (off_t)sizeof(tail) ||
	    pread(AHEAD_FD, &tail, sizeof(tail), st.st_size - (off_t)sizeof(tail)) !=
		    (ssize_t)sizeof(tail) ||
	    close(AHEAD_FD) < 0)
		call_give_up("ahead: the names cannot be read\n");
	tail.names[sizeof(tail.names) - 1] = '\0';
	if (tail.forks)
		fork_begin();
	/* in a forked run it would be from the start, each time */
	(void)find("fopen", &next.fopen);
	(void)find("open", &next.open);
}

/* The script's own directory is left out: what is in it later would not be seen. */
static const char program[] =
	"import sys\n"
	"first = sys.path[:1]\n"
	"del sys.path[:1]\n"
	"for name in names.split(','):\n"
	"    try:\n"
	"        __import__(name)\n"
	"    except BaseException as e:\n"
	"        sys.stderr.write(\"'%s': %s: %s\\n\" % (name, type(e).__name__, e))\n"
	"        raise\n"
	"sys.path[:0] = first\n";

static void import_all(void)
{
	/* python may have given its lock up for the call that we stand for */
	const int lock = call_begin();

	if (call_run(program, tail.names) < 0) {
		if (tail.forks)
			fork_fail("fork_modules", ENOENT);
		_exit(1); /* it has said why */
	}
	if (!tail.forks) {
		finish_prepare();
		if (freeze_all() < 0)
			call_give_up("ahead: what was imported cannot be frozen\n");
		harmless_begin();
	}
	call_end(lock);
}

static bool is_script(const char *path, const char *script)
{
	const char *slash = strrchr(path, '/');

	return strcmp(slash ? slash + 1 : path, script) == 0;
}

enum opened { NOT_OURS, OF_A_FORK, OF_ONE_THAT_WAITS };

/* A FIFO that nobody may read yet is a script that nobody may start without us. */
static enum opened before_open(const char *path, const char *script)
{
	struct stat st;

	if (begun || !is_script(path, script))
		return NOT_OURS;
	begun = true;
	if (tail.names[0] && script == python_script)
		import_all();
	if (tail.forks) {
		fork_serve(); /* whoever returns is a run, and has a script */
		return OF_A_FORK;
	}
	if (stat(path, &st) < 0)
		call_give_up("ahead: the script is not there\n");
	if (!S_ISFIFO(st.st_mode) || (script == node_script && !node_shows()))
		return NOT_OURS;
	if (chmod(path, AHEAD_FIFO) < 0)
		call_give_up("ahead: the script cannot be marked\n");
	return OF_ONE_THAT_WAITS;
}

/* python */
static FILE *open_stream(void *real, const char *path, const char *mode)
{
	FILE *(*call)(const char *, const char *) = real;
	const enum opened how = before_open(path, python_script);
	FILE *f = call(path, mode);

	if (how == OF_A_FORK && !f)
		_exit(127);
	if (how == OF_A_FORK)
		finish_run(f, path);
	if (how == OF_ONE_THAT_WAITS && f) {
		words_take(fileno(f), true);
		if (tail.names[0]) {
			(void)call_begin(); /* python's, to its end */
			finish_run(f, path);
		}
	}
	return f;
}

OURS FILE *fopen(const char *restrict path, const char *restrict mode)
{
	return open_stream(find("fopen", &next.fopen), path, mode);
}

OURS FILE *fopen64(const char *restrict path, const char *restrict mode)
{
	return open_stream(find("fopen64", &next.fopen64), path, mode);
}

/* node; what it has in process.env it asks of environ each time */
static int open_file(void *real, const char *path, int flags, mode_t mode)
{
	int (*call)(const char *, int, ...) = real;
	const enum opened how = before_open(path, node_script);
	const int fd = call(path, flags, mode);

	if (how == OF_ONE_THAT_WAITS && fd >= 0)
		words_take(fd, false);
	return fd;
}

static mode_t mode_of(int flags, va_list args)
{
	return flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(args, mode_t)
								   : 0;
}

OURS int open(const char *path, int flags, ...)
{
	mode_t mode;
	va_list args;

	va_start(args, flags);
	mode = mode_of(flags, args);
	va_end(args);
	return open_file(find("open", &next.open), path, flags, mode);
}

OURS int open64(const char *path, int flags, ...)
{
	mode_t mode;
	va_list args;

	va_start(args, flags);
	mode = mode_of(flags, args);
	va_end(args);
	return open_file(find("open64", &next.open64), path, flags, mode);
}

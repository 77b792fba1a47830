/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * words.c - arguments and variables of a request, for an interpreter that has started
 *
 * Runs in: python3 or node, in the sandbox, while it opens its script. What python made
 * of argv and environ at its start gets the request's words behind its own, and so does
 * environ itself, for libraries and children. A variable that is there already stays: of
 * two of one name getenv() and python both take the first.
 */
#include "python/words.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "python/node.h"
#include "wire/ahead.h"

#define PY_FILE_INPUT 257 /* Py_file_input, the same since python 1 */

/*
 * os.environ is made of posix.environ, and has it as its data. PYTHONPATH is a layer of
 * packages, no request's own: python has it behind the script's directory, and has looked
 * into it before all others. Where it would have found something there by now, this
 * python is not the one that it would be.
 */
static const char program[] =
	"import posix, sys\n"
	"for word in env.split(b'\\0')[:-1]:\n"
	"    name, _, value = word.partition(b'=')\n"
	"    posix.environ.setdefault(name, value)\n"
	"    if name == b'PYTHONPATH':\n"
	"        path = value.decode(sys.getfilesystemencoding())\n"
	"        known = {n.partition('.')[0] for n in sys.modules}\n"
	"        known |= {'sitecustomize', 'usercustomize'}\n"
	"        for found in posix.listdir(path):\n"
	"            if found.partition('.')[0] in known:\n"
	"                raise ImportError\n"
	"        sys.path.insert(1, path)\n"
	"        cache = sys.path_importer_cache\n"
	"        later = dict(cache)\n"
	"        cache.clear()\n"
	"        sys.modules['_frozen_importlib_external'].PathFinder."
	"_path_importer_cache(path)\n"
	"        cache.update(later)\n"
	"for word in args.split(b'\\0')[:-1]:\n"
	"    word = word.decode(sys.getfilesystemencoding(), "
	"sys.getfilesystemencodeerrors())\n"
	"    sys.argv.append(word)\n"
	"    sys.orig_argv.append(word)\n";

static _Noreturn void give_up(void)
{
	static const char why[] = "ahead: the words of the request cannot be set\n";
	ssize_t n = write(STDERR_FILENO, why, sizeof(why) - 1);

	(void)n; /* nobody listens: then our end says it */
	_exit(1);
}

static void read_all(int fd, void *to, size_t len)
{
	char *at = to;
	ssize_t n;

	while (len > 0) {
		n = read(fd, at, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n == 0)
			_exit(1); /* there is no request, and will be none */
		if (n < 0)
			give_up();
		at += n;
		len -= (size_t)n;
	}
}

static void *need(const char *name)
{
	void *at = dlsym(RTLD_DEFAULT, name);

	if (!at)
		give_up();
	return at;
}

static int tell_python(const struct ahead_words *w, const char *text)
{
	int (*ensure)(void) = need("PyGILState_Ensure");
	void (*release)(int) = need("PyGILState_Release");
	void *(*new_dict)(void) = need("PyDict_New");
	void *(*bytes)(const char *, ssize_t) = need("PyBytes_FromStringAndSize");
	int (*set)(void *, const char *, void *) = need("PyDict_SetItemString");
	void *(*run)(const char *, int, void *, void *) = need("PyRun_String");
	void (*drop)(void *) = need("Py_DecRef");
	const int gil = ensure(); /* python gave it up to open the file */
	void *args = bytes(text, (ssize_t)w->args_len);
	void *env = bytes(text + w->args_len, (ssize_t)w->env_len);
	void *globals = new_dict(), *done;

	if (!args || !env || !globals || set(globals, "args", args) < 0 ||
	    set(globals, "env", env) < 0)
		give_up();
	done = run(program, PY_FILE_INPUT, globals, globals);
	if (!done)
		return -1;
	drop(done);
	drop(globals);
	drop(env);
	drop(args);
	release(gil);
	return 0;
}

static void set_environ(const char *at, const char *end)
{
	for (; at < end; at += strlen(at) + 1) {
		const size_t len = strcspn(at, "=");
		char *name = strndup(at, len);

		if (!name || !at[len] || setenv(name, at + len + 1, 0) < 0)
			give_up();
		free(name);
	}
}

int words_set(const struct ahead_words *w, const char *text, bool python)
{
	const size_t len = (size_t)w->args_len + w->env_len;

	if (len == 0)
		return 0;
	if (text[len - 1] != '\0' || (w->args_len && text[w->args_len - 1] != '\0'))
		give_up();
	set_environ(text + w->args_len, text + len);
	if (python)
		return tell_python(w, text);
	if (w->args_len && node_add_args(text, w->args_len) < 0)
		give_up();
	return 0;
}

void words_take(int script_fd, bool python)
{
	struct ahead_words w;
	char *text;
	size_t len;

	read_all(script_fd, &w, sizeof(w));
	len = (size_t)w.args_len + w.env_len;
	if (len == 0)
		return;
	text = malloc(len);
	if (!text)
		give_up();
	read_all(script_fd, text, len);
	if (words_set(&w, text, python) < 0 || fchmod(script_fd, AHEAD_TAKEN) < 0)
		give_up();
	free(text);
}

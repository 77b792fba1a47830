/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * child_input.c - the script, files, arguments and environment out of the sealed memfd
 *
 * Runs in: process 1 of the sandbox, or the program of a forked run, writing with the
 * run's own uid on the run's own tmpfs. The bytes come from a server that parses hostile
 * text, so every length and name is checked again.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/sys.h"
#include "launcher/child.h"

#define INPUT_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

struct cursor {
	const char *at;
	uint64_t left;
};

static int child_bad(void)
{
	errno = EBADMSG;
	return -1;
}

/* the next record; name and data end in a NUL that the record contains */
static int child_next(struct cursor *k, struct input_record *r, const char **name,
		      const char **data)
{
	uint64_t size;

	if (k->left < sizeof(*r))
		return child_bad();
	memcpy(r, k->at, sizeof(*r));
	if (r->name_len > k->left || r->data_len > k->left)
		return child_bad();
	size = input_size(r->name_len, r->data_len);
	if (size > k->left)
		return child_bad();
	*name = k->at + sizeof(*r);
	*data = *name + r->name_len + 1;
	if ((*name)[r->name_len] != '\0' || (*data)[r->data_len] != '\0')
		return child_bad();
	if (memchr(*name, '\0', r->name_len))
		return child_bad();
	k->at += size;
	k->left -= size;
	return 0;
}

/* relative, plain components only */
static bool child_name_ok(const char *name, size_t len)
{
	size_t i, start = 0;

	if (len == 0 || len > 4096)
		return false;
	for (i = 0; i <= len; i++) {
		if (i < len && name[i] != '/')
			continue;
		if (i == start || i - start > 255)
			return false;
		if (name[start] == '.' &&
		    (i - start == 1 || (i - start == 2 && name[start + 1] == '.')))
			return false;
		start = i + 1;
	}
	return true;
}

static int child_parents(int dir_fd, const char *name)
{
	static char path[4097];
	size_t i;

	for (i = 0; name[i]; i++) {
		if (name[i] == '/') {
			path[i] = '\0';
			if (mkdirat(dir_fd, path, 0755) < 0 && errno != EEXIST)
				return -1;
		}
		path[i] = name[i];
	}
	return 0;
}

static int child_file(struct child *c, const char *name, const char *data, uint64_t len)
{
	const int how = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
	int fd, saved;
	ssize_t n = 0;

	/* no link that an earlier command left is followed from here */
	if (c->kept || !child_name_ok(name, strlen(name)))
		return child_bad();
	if (child_parents(c->work_fd, name) < 0)
		return -1;
	fd = openat(c->work_fd, name, how, 0644);
	if (fd < 0)
		return -1;
	while (len > 0 && (n = write(fd, data, len)) > 0) {
		data += n;
		len -= (uint64_t)n;
	}
	saved = errno;
	close(fd);
	errno = saved;
	return len == 0 ? 0 : -1;
}

/* a row's own words into argv or envp; the count, or -1 */
static int child_words(const struct setup_words *w, const char **out)
{
	const char *at = w->text;
	int n = 0;

	while (*at) {
		if (n == CHILD_WORDS)
			return child_bad();
		out[n++] = at;
		at += strlen(at) + 1;
	}
	return n;
}

/* NAME=/tmp/x to NAME=PLACE/tmp/x: without a mount namespace the places of a run are
 * below a directory of its own */
static int child_own_places(struct child *c, int envc)
{
	static const struct {
		const char *usual, *own;
	} places[] = {{"/tmp", "/tmp"}, {"/work", "/work"}, {"/go-cache", "/cache"}};
	char *at = c->words, *end = c->words + sizeof(c->words);
	unsigned p;
	int i;

	for (i = 0; i < envc; i++) {
		const char *word = c->envp[i], *value = strchr(word, '=');

		for (p = 0; value && p < sizeof(places) / sizeof(places[0]); p++) {
			const size_t len = strlen(places[p].usual);
			const bool seed = c->seed_dir && p == 2;
			const char *parts[] = {seed ? c->seed_dir : c->place,
					       seed ? "" : places[p].own,
					       value + 1 + len};
			unsigned k;

			if (strncmp(value + 1, places[p].usual, len) != 0 ||
			    (value[1 + len] != '\0' && value[1 + len] != '/'))
				continue;
			if (end - at < (long)(strlen(word) + 2 * SETUP_PATH))
				return child_bad();
			c->envp[i] = at;
			memcpy(at, word, (size_t)(value + 1 - word));
			at += value + 1 - word;
			for (k = 0; k < 3; k++) {
				memcpy(at, parts[k], strlen(parts[k]));
				at += strlen(parts[k]);
			}
			*at++ = '\0';
			break;
		}
	}
	return 0;
}

/* the environment of an image may say what a session's does: it has the last word */
static bool child_replaces(struct child *c, int envc, const char *word)
{
	const char *end = strchr(word, '=');
	int i = 0;

	while (end && i < envc &&
	       strncmp(c->envp[i], word, (size_t)(end + 1 - word)) != 0)
		i++;
	if (!end || i == envc)
		return false;
	c->envp[i] = word;
	return true;
}

static int child_records(struct child *c)
{
	int argc = c->argc, envc = c->envc;
	const int argc_most = argc + INPUT_ARGS_MAX, envc_most = envc + INPUT_ENV_MAX;
	struct cursor k = {c->input, c->plan.input_bytes};
	const char *name, *data;
	struct input_record r;

	for (;;) {
		if (child_next(&k, &r, &name, &data) < 0)
			return -1;
		switch (r.kind) {
		case INPUT_END:
			c->argv[argc] = c->envp[envc] = NULL;
			return 0;
		case INPUT_SCRIPT:
			if (child_file(c, c->row->script, data, r.data_len) < 0)
				return -1;
			break;
		case INPUT_FILE:
			if (child_file(c, name, data, r.data_len) < 0)
				return -1;
			break;
		case INPUT_ARG:
			if (argc == argc_most || strlen(data) != r.data_len)
				return child_bad();
			c->argv[argc++] = data;
			break;
		case INPUT_ENV:
			if (strlen(data) != r.data_len)
				return child_bad();
			if (child_is_command(c) && child_replaces(c, envc, data))
				break;
			if (envc == envc_most)
				return child_bad();
			c->envp[envc++] = data;
			break;
		case INPUT_CWD:
			if (strlen(data) != r.data_len)
				return child_bad();
			c->cwd = data;
			break;
		default:
			return child_bad();
		}
	}
}

int child_script(const struct child *c, const char **out_code, uint64_t *out_len)
{
	struct cursor k = {c->input, c->plan.input_bytes};
	struct input_record r;
	const char *name;

	do {
		if (child_next(&k, &r, &name, out_code) < 0)
			return -1;
	} while (r.kind != INPUT_SCRIPT && r.kind != INPUT_END);
	*out_len = r.data_len;
	return r.kind == INPUT_SCRIPT ? 0 : child_bad();
}

int child_inputs(struct child *c)
{
	c->argc = child_words(&c->row->argv, c->argv);
	c->envc = child_words(&c->row->env, c->envp);
	if (c->argc < 0 || c->envc < 0 ||
	    (child_shares(c) && child_own_places(c, c->envc) < 0))
		return -1;
	/* git gives up when it may not read what it sees in /etc */
	if (child_shares(c) && c->envc < CHILD_WORDS)
		c->envp[c->envc++] = "GIT_CONFIG_NOSYSTEM=1";
	if (child_layer_env(c) < 0)
		return -1;
	if (child_is_command(c))
		return child_take_input(c);
	if (mkdirat(c->work_fd, c->setup->output_dir, 0755) < 0)
		return -1;
	if (c->plan.errand != ERRAND_NONE)
		return 0;
	if (c->argc == 0)
		return child_bad();
	if (c->waits == WAITS_NOT)
		return child_take_input(c);
	/* the interpreter opens its script when it has started, and waits there; one that
	 * is to import modules before that cannot until it has */
	if (c->waits == WAITS_STARTED)
		return mknodat(c->work_fd, c->row->script,
			       S_IFIFO | (c->ahead && c->row->ahead == AHEAD_IMPORTS
						  ? 0200
						  : 0600),
			       0);
	return 0;
}

int child_take_input(struct child *c)
{
	const uint64_t len = c->plan.input_bytes;
	struct stat st;
	void *map;
	int seals;

	/* what is checked below must still be there when it is used */
	seals = fcntl(c->input_fd, F_GET_SEALS);
	if (seals < 0 || (seals & INPUT_SEALS) != INPUT_SEALS)
		return child_bad();
	if (fstat(c->input_fd, &st) < 0)
		return -1;
	if (len == 0 || (uint64_t)st.st_size != len)
		return child_bad();
	map = mmap(NULL, len, PROT_READ, MAP_PRIVATE, c->input_fd, 0);
	if (map == MAP_FAILED)
		return -1;
	c->input = map;
	return child_records(c);
}

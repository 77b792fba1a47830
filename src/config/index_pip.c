/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * index_pip.c - what the host's own pip is told of indexes
 *
 * Runs in: the supervisor, once, at start. Of each option the first place that says
 * something counts, as it does for pip: the environment, then the section for installs of
 * all files, then the one for everything of all files: of the file that the environment
 * names, the virtual environment's, python's own, the user's unless one is named, the
 * host's. What a file has in DEFAULT is in every section of that file that has not its
 * own. What pip does not understand is an error, as for pip: passed over, the public
 * index would be asked.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/defer.h"
#include "base/err.h"
#include "base/mem.h"
#include "config/index.h"
#include "config/index_add.h"

#define BLANK " \t\r\n"
#define USUAL "DEFAULT"

static const struct {
	const char *variable, *key;
	void (*take)(struct index *x, const char *text);
} options[] = {
	{"PIP_INDEX_URL", "index-url", index_set_main},
	{"PIP_PYPI_URL", "pypi-url", index_set_main},
	{"PIP_EXTRA_INDEX_URL", "extra-index-url", index_set_extra},
	{"PIP_FIND_LINKS", "find-links", index_add_links},
	{"PIP_NO_INDEX", "no-index", index_set_alone},
	{"PIP_CERT", "cert", index_set_cert},
	{"PIP_KEYRING_PROVIDER", "keyring-provider", index_set_keyring},
};
#define OPTIONS (sizeof(options) / sizeof(options[0]))

struct pip {
	struct index *x;
	const char *section; /* that is wanted */
	bool said[OPTIONS];
	bool empty[OPTIONS]; /* a file has it in this section, without a value */
	bool here[OPTIONS];  /* this file has it in this section */
	size_t option;    /* whose value is being read; OPTIONS: of none that we need */
	struct buf value; /* of that: lines that are indented more go on with it */
	size_t indent;
	bool goes_on; /* an option has been in this section */
	bool in_section;
	bool ours; /* in the section that is wanted, */
	bool met;  /* which this file has */
};

/* an empty one hides what files further on say, but not what other sections do */
static void say(struct pip *p, size_t option, const char *value)
{
	if (p->said[option] || p->empty[option])
		return;
	p->said[option] = value[strspn(value, BLANK)];
	p->empty[option] = !p->said[option];
	if (p->said[option])
		options[option].take(p->x, value);
}

static void end_option(struct pip *p)
{
	if (p->option < OPTIONS && buf_text(&p->value) == 0)
		say(p, p->option, p->value.bytes);
	p->option = OPTIONS;
	p->value.len = 0;
}

/* index_url and --index-url are index-url too */
static size_t find_option(const char *key, size_t len)
{
	const size_t lead = len > 2 && strspn(key, "-_") >= 2 ? 2 : 0;

	key += lead;
	len -= lead;
	for (size_t i = 0; i < OPTIONS; i++) {
		size_t n = 0;

		while (n < len &&
		       options[i].key[n] ==
			       (key[n] == '_' ? '-' : tolower((unsigned char)key[n])))
			n++;
		if (n == len && !options[i].key[n])
			return i;
	}
	return OPTIONS;
}

/* -1: pip does not understand it */
static int take_line(struct pip *p, char *line)
{
	const size_t indent = strspn(line, BLANK), len = strlen(p->section);
	char *key = line + indent, *equals = key + strcspn(key, "=:");
	const size_t option = find_option(key, strcspn(key, BLANK "=:"));
	const char *cr = strchr(line, '\r');

	if (cr && cr[1]) /* an end of a line to pip, and that of none here */
		return -1;
	if (!*key || *key == '#' || *key == ';')
		return 0;
	if (p->goes_on && indent > p->indent) {
		if (p->ours && option < OPTIONS) /* pip takes it for the one above */
			return -1;
		if (p->option < OPTIONS)
			(void)buf_printf(&p->value, " %s", key);
		return 0;
	}
	end_option(p);
	p->indent = indent;
	if (*key == '[' && strchr(key, ']')) {
		p->ours = strncmp(key + 1, p->section, len) == 0 && key[1 + len] == ']';
		if (p->ours && p->met && strcmp(p->section, USUAL) != 0) /* twice */
			return -1;
		p->met = p->met || p->ours;
		p->in_section = true;
		p->goes_on = false;
		return 0;
	}
	if (!p->in_section || !*equals || equals == key)
		return -1;
	p->goes_on = true;
	if (p->ours && option < OPTIONS) {
		if (p->here[option]) /* twice */
			return -1;
		p->here[option] = true;
		p->option = option;
		(void)buf_puts(&p->value, equals + 1);
	}
	return 0;
}

static int take_section(struct pip *p, const char *section, const char *all,
			const char *path, struct err *e)
{
	auto_free char *text = mem_copy(all);
	char *rest = text, *line;
	unsigned at = 0;

	memset(p->here, 0, sizeof(p->here));
	p->section = section;
	p->in_section = p->goes_on = p->ours = p->met = false;
	while ((line = strsep(&rest, "\n"))) {
		at++;
		if (take_line(p, line) < 0)
			return err_bad(e, "%s: line %u: not what pip understands", path,
				       at);
	}
	end_option(p);
	return 0;
}

static int from_file(struct pip *p, const char *path, struct err *e)
{
	auto_free char *text = mem_zero(INDEX_FILE_MOST);
	const char *wanted = p->section;
	bool said[OPTIONS], own[OPTIONS];
	int rc;

	if (index_read(path, text, e) < 0)
		return -1;
	rc = take_section(p, wanted, text, path, e);
	if (rc == 0 && p->met) {
		memcpy(said, p->said, sizeof(said));
		memcpy(own, p->here, sizeof(own));
		for (size_t i = 0; i < OPTIONS; i++) /* these it has of its own */
			p->said[i] = p->said[i] || own[i];
		rc = take_section(p, USUAL, text, path, e);
		for (size_t i = 0; i < OPTIONS; i++)
			p->said[i] = own[i] ? said[i] : p->said[i];
	}
	p->section = wanted;
	return rc;
}

static int from_below(struct pip *p, const char *top, const char *below, struct err *e)
{
	auto_free char *path = top && *top ? mem_printf("%s/%s", top, below) : NULL;

	return path ? from_file(p, path, e) : 0;
}

/* of several directories the last one counts first */
static int from_dirs(struct pip *p, const char *dirs, struct err *e)
{
	auto_free char *all = mem_copy(dirs);
	char *colon;
	int rc = 0;

	while (rc == 0 && (colon = strrchr(all, ':'))) {
		rc = from_below(p, colon + 1, "pip/pip.conf", e);
		*colon = '\0';
	}
	return rc == 0 ? from_below(p, all, "pip/pip.conf", e) : rc;
}

static int from_files(struct pip *p, const char *prefix, const char *own,
		      const char *dirs, struct err *e)
{
	const char *named = getenv("PIP_CONFIG_FILE");
	const bool alone = named && *named && access(named, F_OK) == 0;

	/* so pip is told to read no file at all */
	if (named && strcmp(named, "/dev/null") == 0)
		return 0;
	memset(p->empty, 0, sizeof(p->empty));
	if ((named && *named && from_file(p, named, e) < 0) ||
	    from_below(p, getenv("VIRTUAL_ENV"), "pip.conf", e) < 0 ||
	    from_below(p, prefix, "pip.conf", e) < 0 ||
	    from_below(p, alone ? NULL : own, "pip/pip.conf", e) < 0 ||
	    from_below(p, alone ? NULL : index_home(), ".pip/pip.conf", e) < 0 ||
	    from_below(p, "/etc", "pip.conf", e) < 0)
		return -1;
	return from_dirs(p, dirs, e);
}

int index_of_pip(struct index *x, const char *prefix, const char *own, const char *dirs,
		 struct err *e)
{
	static const char *const sections[] = {"install", "global"};
	struct pip p = {.x = x, .option = OPTIONS};
	int rc = 0;

	for (size_t i = 0; i < OPTIONS; i++) {
		const char *value = getenv(options[i].variable);

		if (value)
			say(&p, i, value);
	}
	buf_init(&p.value, INDEX_FILE_MOST);
	for (size_t i = 0; rc == 0 && i < sizeof(sections) / sizeof(sections[0]); i++) {
		p.section = sections[i];
		rc = from_files(&p, prefix, own, dirs, e);
	}
	buf_done(&p.value);
	return rc;
}

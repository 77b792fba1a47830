/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * settings_show.c - settings for people: the lines of --help, and the values in force
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/defer.h"
#include "base/mem.h"
#include "config/settings.h"
#include "config/settings_rows.h"

#define PREFIX "SANDBOX_"

void setting_flag(const struct setting *row, char out[SETTING_FLAG])
{
	const size_t skip = strncmp(row->key, PREFIX, sizeof(PREFIX) - 1) == 0
				    ? sizeof(PREFIX) - 1
				    : 0;
	size_t len = (size_t)snprintf(out, SETTING_FLAG, "--");

	for (const char *p = row->key + skip; *p && len + 1 < SETTING_FLAG; p++)
		out[len++] = *p == '_' ? '-' : (char)tolower((unsigned char)*p);
	out[len] = 0;
}

/* of one word: from after its scheme to its last @ */
static void hide_word(struct buf *out, const char *word, size_t len)
{
	const char *at = memrchr(word, '@', len);
	const char *scheme = memmem(word, len, "://", 3);
	size_t start = scheme && scheme < at ? (size_t)(scheme - word) + 3 : 0;

	if (!at) {
		(void)buf_add(out, word, len);
		return;
	}
	(void)buf_add(out, word, start);
	(void)buf_puts(out, "***");
	(void)buf_add(out, at, len - (size_t)(at - word));
}

char *setting_hide(const char *value)
{
	struct buf out;
	char *copy;
	size_t len;

	/* each word grows by three bytes at most, and they are shorter than all of it */
	buf_init(&out, strlen(value) * 4 + 1);
	while (*value) {
		len = strcspn(value, " \t");
		hide_word(&out, value, len);
		value += len;
		len = strspn(value, " \t");
		(void)buf_add(&out, value, len);
		value += len;
	}
	copy = mem_copy_n(out.bytes ? out.bytes : "", out.len);
	buf_done(&out);
	return copy;
}

void settings_help(struct buf *out)
{
	char flag[SETTING_FLAG];

	for (size_t i = 0; i < setting_count; i++) {
		const struct setting *row = &setting_rows[i];

		setting_flag(row, flag);
		/* the cap is the caller's: a help text cut short is no failure */
		(void)buf_printf(out, "  %-22s %s", flag, row->help);
		if (row->initial)
			(void)buf_printf(out, " (%s)", row->initial);
		(void)buf_puts(out, "\n");
	}
}

/* what an unset one is, in words: the end of its help; "none" */
static char *unset(const struct setting *row)
{
	const char *open = strrchr(row->help, '(');
	const size_t len = open ? strlen(open) : 0;

	return open && open[len - 1] == ')' ? mem_copy_n(open + 1, len - 2)
					    : mem_copy("none");
}

static const char *const from_names[] = {
	[FROM_DEFAULT] = "default",
	[FROM_FILE] = "file",
	[FROM_ENVIRONMENT] = "environment",
	[FROM_FLAG] = "flag",
};

static int show_line(const struct settings *s, size_t i, struct buf *out)
{
	const struct setting *row = &setting_rows[i];
	const struct setting_source *from = &s->sources[i];
	auto_free char *hidden = setting_hide(from->text ? from->text : "");
	auto_free char *words = unset(row);
	auto_free char *value = from->text ? mem_printf("=%s", hidden)
					   : mem_printf("    (%s)", words);
	auto_free char *line = mem_printf("%s%s", row->key, value);

	if (from->from == FROM_FILE)
		return buf_printf(out, "%-48s  %s:%u\n", line, s->file, from->line);
	return buf_printf(out, "%-48s  %s\n", line, from_names[from->from]);
}

static int add_member(struct buf *out, const char *name, const char *text)
{
	if (buf_printf(out, ",\"%s\":", name) < 0)
		return -1;
	return text ? buf_json_string(out, text, strlen(text)) : buf_puts(out, "null");
}

static int show_object(const struct settings *s, size_t i, struct buf *out)
{
	const struct setting *row = &setting_rows[i];
	const struct setting_source *from = &s->sources[i];
	auto_free char *hidden = from->text ? setting_hide(from->text) : NULL;
	auto_free char *words = from->text ? NULL : unset(row);
	char flag[SETTING_FLAG];

	setting_flag(row, flag);
	if (buf_printf(out, "{\"name\":\"%s\"", row->key) < 0 ||
	    add_member(out, "flag", flag) < 0 || add_member(out, "value", hidden) < 0 ||
	    add_member(out, "from", from_names[from->from]) < 0)
		return -1;
	if (words && add_member(out, "unset", words) < 0)
		return -1;
	if (from->line && buf_printf(out, ",\"line\":%u", from->line) < 0)
		return -1;
	return buf_puts(out, "}");
}

static int begin(const struct settings *s, bool json, struct buf *out)
{
	if (!json)
		return 0;
	if (buf_puts(out, "{\"file\":") < 0)
		return -1;
	if ((s->file ? buf_json_string(out, s->file, strlen(s->file))
		     : buf_puts(out, "null")) < 0)
		return -1;
	return buf_puts(out, ",\"settings\":[");
}

int settings_show(const struct settings *s, bool json, struct buf *out)
{
	bool first = true;

	if (begin(s, json, out) < 0)
		return -1;
	for (size_t i = 0; i < setting_count; i++) {
		if (json && !first && buf_puts(out, ",") < 0)
			return -1;
		first = false;
		if ((json ? show_object(s, i, out) : show_line(s, i, out)) < 0)
			return -1;
	}
	return json ? buf_puts(out, "]}\n") : 0;
}

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * log.c - one line an event on stderr, key=value or JSON
 *
 * Where a key or a value begins and ends is told by the format, never by what was put
 * into it: the format's own quotes, spaces and equal signs become marks before it is
 * filled in. So a value that holds a space, a quote or a newline cannot pass for another
 * key or line.
 */
#include "base/log.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/utf8.h"

enum {
	MARK_QUOTE = 1,
	MARK_SPACE = 2,
	MARK_EQUAL = 3,
	LINE_MOST = 2048,
	LINE_END = 8, /* kept for "...", a quote, a brace and the newline */
};

struct line {
	char bytes[LINE_MOST];
	size_t len;
	bool full; /* something did not fit: nothing more is added */
};

static enum log_level log_least = LOG_INFO;
static enum log_format log_form = LOG_TEXT;
static char log_process[32] = "sandbox-server";
static unsigned long log_lost, log_lost_ever;

void log_setup(enum log_level least, enum log_format format, const char *process)
{
	log_least = least;
	log_form = format;
	snprintf(log_process, sizeof(log_process), "%s", process);
}

/* all of it or none */
static bool put(struct line *l, const char *bytes, size_t len)
{
	if (l->full || len > LINE_MOST - LINE_END - l->len) {
		l->full = true;
		return false;
	}
	memcpy(l->bytes + l->len, bytes, len);
	l->len += len;
	return true;
}

static void puts_line(struct line *l, const char *text)
{
	put(l, text, strlen(text));
}

/* past the reserve; LINE_END is enough for what is closed this way */
static void put_end(struct line *l, const char *text)
{
	size_t len = strlen(text);

	memcpy(l->bytes + l->len, text, len);
	l->len += len;
}

/* a C1 control, which some terminals obey */
static bool is_c1(const char *p, size_t n)
{
	return n == 2 && (unsigned char)p[0] == 0xc2 && (unsigned char)p[1] < 0xa0;
}

/* One character, escaped as JSON does it; returns the bytes read. */
static size_t put_char(struct line *l, const char *p, size_t len)
{
	static const char shorts[128] = {
		['"'] = '"', ['\\'] = '\\', ['\n'] = 'n', ['\r'] = 'r', ['\t'] = 't'};
	unsigned char c = (unsigned char)p[0];
	size_t n = utf8_char(p, len);
	char text[8] = {'\\'};

	if (n == 0) {
		put(l, "\xef\xbf\xbd", 3);
		return utf8_bad(p, len);
	}
	if (c < 128 && shorts[c]) {
		text[1] = shorts[c];
		put(l, text, 2);
	} else if (c < 0x20 || c == 0x7f || is_c1(p, n)) {
		snprintf(text, sizeof(text), "\\u%04x", n == 2 ? (unsigned char)p[1] : c);
		put(l, text, 6);
	} else {
		put(l, p, n);
	}
	return n;
}

/* Always closes its quote: a line that is full ends with a value that says so. */
static void put_quoted(struct line *l, const char *p, size_t len)
{
	if (!put(l, "\"", 1))
		return;
	for (size_t i = 0; i < len && !l->full;)
		i += put_char(l, p + i, len - i);
	if (l->full)
		put_end(l, "...\"");
	else if (!put(l, "\"", 1))
		put_end(l, "\"");
}

/* needs no quotes in the text form; what is not ASCII gets them */
static bool is_bare(const char *p, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)p[i] <= ' ' || (unsigned char)p[i] >= 0x7f ||
		    strchr("\"\\=", p[i]))
			return false;
	return len > 0;
}

static bool is_name(const char *p, size_t len)
{
	static const char ok[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				 "0123456789_.-";

	for (size_t i = 0; i < len; i++)
		if (!memchr(ok, p[i], sizeof(ok) - 1))
			return false;
	return len > 0;
}

static void put_pair(struct line *l, const char *key, size_t key_len, const char *value,
		     size_t len)
{
	bool json = log_form == LOG_JSON;

	/* a pair begins only where its key and an empty value have room */
	if (l->full || key_len + 8 > LINE_MOST - LINE_END - l->len) {
		l->full = true;
		return;
	}
	put(l, json ? ",\"" : " ", json ? 2 : 1);
	put(l, key, key_len);
	put(l, json ? "\":" : "=", json ? 2 : 1);
	if (!json && is_bare(value, len) && len <= LINE_MOST - LINE_END - l->len)
		put(l, value, len);
	else
		put_quoted(l, value, len);
}

/*
 * The format with marks for its own quotes, spaces and equal signs. Returns how many
 * there are, -1 when it does not fit. What belongs to a conversion stays ("% d").
 */
static int mark_format(const char *fmt, char *out, size_t room)
{
	bool inside = false, quoted = false;
	size_t len = strlen(fmt);
	int marks = 0;

	if (len >= room)
		return -1;
	for (size_t i = 0; i <= len; i++) {
		char c = fmt[i];

		if (inside) {
			inside = !strchr("diouxXeEfFgGaAcspm%", c);
		} else if (c == '%') {
			inside = true;
		} else if (c == '"') {
			quoted = !quoted;
			c = MARK_QUOTE;
		} else if (c == ' ' && !quoted) {
			c = MARK_SPACE;
		} else if (c == '=' && !quoted) {
			c = MARK_EQUAL;
		}
		marks += c == MARK_QUOTE || c == MARK_SPACE || c == MARK_EQUAL;
		out[i] = c;
	}
	return marks;
}

static int count_marks(const char *text)
{
	int marks = 0;

	for (; *text; text++)
		marks += *text == MARK_QUOTE || *text == MARK_SPACE ||
			 *text == MARK_EQUAL;
	return marks;
}

/* marks back to what they stood for; quotes vanish when `unquote` */
static size_t unmark(char *p, size_t len, bool unquote)
{
	static const char meaning[] = {
		[MARK_QUOTE] = '"', [MARK_SPACE] = ' ', [MARK_EQUAL] = '='};
	size_t o = 0;

	for (size_t i = 0; i < len; i++) {
		if (p[i] == MARK_QUOTE && unquote)
			continue;
		if (p[i] >= MARK_QUOTE && p[i] <= MARK_EQUAL)
			p[o++] = meaning[(unsigned char)p[i]];
		else
			p[o++] = p[i];
	}
	return o;
}

/* length of the key a token begins with, 0 when it has none; "key?" has its mark */
static size_t key_of(const char *token)
{
	const char marks[] = {MARK_EQUAL, MARK_SPACE, 0};
	size_t len = strcspn(token, marks);
	size_t name = len && token[len - 1] == '?' ? len - 1 : len;

	return token[len] == MARK_EQUAL && is_name(token, name) ? len : 0;
}

/* "key=value", or "key?=value", which is only there when there is a value */
static void put_token(struct line *l, char *text, size_t key, size_t len)
{
	const bool optional = text[key - 1] == '?';
	char *value = text + key + 1;
	const size_t value_len = unmark(value, len - key - 1, true);

	if (value_len || !optional)
		put_pair(l, text, key - (optional ? 1 : 0), value, value_len);
}

/* words without a key are one message together */
static void put_tokens(struct line *l, char *text)
{
	const char space[] = {MARK_SPACE, 0};
	size_t key, len;

	for (; *text; text += len) {
		len = strspn(text, space);
		if (len)
			continue;
		key = key_of(text);
		len = strcspn(text, space);
		if (key) {
			put_token(l, text, key, len);
			continue;
		}
		while (text[len] && !key_of(text + len + 1))
			len += 1 + strcspn(text + len + 1, space);
		put_pair(l, "message", 7, text, unmark(text, len, false));
	}
}

static void put_head(struct line *l, enum log_level level, const char *event)
{
	static const char *const names[] = {"debug", "info", "warn", "error"};
	struct timespec now = {0};
	struct tm tm = {0};
	char ts[64];

	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &tm);
	snprintf(ts, sizeof(ts), "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", tm.tm_year + 1900,
		 tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec,
		 (int)(now.tv_nsec / 1000000));
	puts_line(l, log_form == LOG_JSON ? "{\"ts\":\"" : "");
	puts_line(l, ts);
	puts_line(l, log_form == LOG_JSON ? "\",\"level\":\"" : " ");
	puts_line(l, names[level]);
	puts_line(l, log_form == LOG_JSON ? "\",\"process\":\"" : " ");
	for (size_t i = 0, len = strlen(log_process); i < len;)
		i += put_char(l, log_process + i, len - i);
	puts_line(l, log_form == LOG_JSON ? "\",\"event\":\"" : " ");
	for (size_t i = 0, len = strnlen(event, 64); i < len;)
		i += put_char(l, event + i, len - i);
	puts_line(l, log_form == LOG_JSON ? "\"" : "");
}

/*
 * A log that cannot be written must not stop the work, and neither must one that nobody
 * reads: a pipe that says it has room takes a line of this size at once. What it had no
 * room for is counted, and told when it has.
 */
static void emit(const struct line *l)
{
	struct pollfd p = {.fd = STDERR_FILENO, .events = POLLOUT};
	const unsigned long lost = log_lost;

	if (poll(&p, 1, 0) == 0) {
		log_lost++;
		log_lost_ever++;
		return;
	}
	log_lost = 0;
	if (lost)
		log_warn("log.lost", "lines=%lu", lost);
	if (write(STDERR_FILENO, l->bytes, l->len) < 0)
		errno = 0;
}

unsigned long log_lost_total(void)
{
	return log_lost_ever;
}

void log_event(enum log_level level, const char *event, const char *fmt, ...)
{
	int saved = errno, marks, len;
	struct line l;
	char marked[512], text[2 * LINE_MOST];
	va_list ap;

	if (level < log_least)
		return;
	l.len = 0;
	l.full = false;
	put_head(&l, level, event);
	marks = mark_format(fmt, marked, sizeof(marked));
	va_start(ap, fmt);
	errno = saved; /* for %m */
/* the caller's compiler has checked fmt */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	len = vsnprintf(text, sizeof(text), marks < 0 ? fmt : marked, ap);
#pragma GCC diagnostic pop
	va_end(ap);
	if (len < 0)
		text[0] = 0;
	/* Marks that came in with a value make the bounds doubtful: then it is one value.
	 * So do marks that were cut off. */
	if (marks >= 0 && count_marks(text) == marks && len < (int)sizeof(text))
		put_tokens(&l, text);
	else
		put_pair(&l, "message", 7, text, unmark(text, strlen(text), false));
	put_end(&l, log_form == LOG_JSON ? "}\n" : "\n");
	emit(&l);
	errno = saved;
}

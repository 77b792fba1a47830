/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * err.c - fill in a failure
 */
#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

/* Made with room to spare, so that the cut can see the character it falls in. */
static __attribute__((format(printf, 3, 0))) void put_text(struct err *e,
							   const char *suffix,
							   const char *fmt, va_list ap)
{
	char whole[2 * sizeof(e->text)];
	size_t tail = strnlen(suffix, 128), len;

	if (vsnprintf(whole, sizeof(whole), fmt, ap) < 0)
		whole[0] = 0;
	len = utf8_cut(whole, strlen(whole), sizeof(e->text) - 1 - tail);
	memcpy(e->text, whole, len);
	memcpy(e->text + len, suffix, tail);
	e->text[len + tail] = 0;
}

static void put_kind(struct err *e, enum err_kind kind, int status, const char *code)
{
	e->kind = kind;
	e->num = 0;
	e->status = status;
	snprintf(e->code, sizeof(e->code), "%s", code);
}

#define PUT(e, kind, status, code, fmt)                      \
	do {                                                 \
		int saved_ = errno;                          \
		va_list ap_;                                 \
		if (e) {                                     \
			put_kind((e), (kind), status, code); \
			va_start(ap_, fmt);                  \
			put_text((e), "", fmt, ap_);         \
			va_end(ap_);                         \
		}                                            \
		errno = saved_;                              \
	} while (0)

int err_bad(struct err *e, const char *fmt, ...)
{
	PUT(e, ERR_THEIRS, 400, "bad_request", fmt);
	return -1;
}

int err_client(struct err *e, int status, const char *code, const char *fmt, ...)
{
	PUT(e, ERR_THEIRS, status, code, fmt);
	return -1;
}

int err_busy(struct err *e, const char *fmt, ...)
{
	PUT(e, ERR_BUSY, 429, "at_capacity", fmt);
	return -1;
}

int err_ours(struct err *e, const char *fmt, ...)
{
	PUT(e, ERR_OURS, 500, "internal_error", fmt);
	return -1;
}

int err_server(struct err *e, int status, const char *code, const char *fmt, ...)
{
	PUT(e, ERR_OURS, status, code, fmt);
	return -1;
}

int err_errno(struct err *e, const char *fmt, ...)
{
	int saved = errno;
	const char *known = strerrordesc_np(saved);
	char suffix[128];
	va_list ap;

	if (e) {
		if (known)
			snprintf(suffix, sizeof(suffix), ": %s", known);
		else
			snprintf(suffix, sizeof(suffix), ": errno %d", saved);
		put_kind(e, ERR_OURS, 500, "internal_error");
		e->num = saved;
		va_start(ap, fmt);
		errno = saved; /* for a %m of the caller's */
		put_text(e, suffix, fmt, ap);
		va_end(ap);
	}
	errno = saved;
	return -1;
}

int err_status(const struct err *e)
{
	if (e->status)
		return e->status;
	switch (e->kind) {
	case ERR_THEIRS:
		return 400;
	case ERR_BUSY:
		return 429;
	case ERR_NONE:
	case ERR_OURS:
		break;
	}
	return 500;
}

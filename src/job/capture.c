/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * capture.c - what is kept of a stream: cut at the cap
 *
 * A stream of more than cap bytes becomes its first cap - 32 bytes, less where that would
 * split a character, and the marker. It is only known at byte cap + 1 that a stream is
 * too long, so up to then cap bytes are kept, and never more.
 */
#include "job/jobs.h"

#include <assert.h>
#include <string.h>

#include "base/utf8.h"

#define MARKER "\n... (output truncated)"
#define SPARE_BYTES 32 /* below the cap, for the marker */
#define LINE_BYTES 256 /* above the cap, for the last line */
static_assert(sizeof(MARKER) - 1 <= SPARE_BYTES, "the marker must stay below the cap");

void capture_init(struct capture *c, uint32_t cap_kb)
{
	memset(c, 0, sizeof(*c));
	c->cap_bytes = (size_t)cap_kb * 1024;
	assert(c->cap_bytes > SPARE_BYTES);
	buf_init(&c->kept, c->cap_bytes + LINE_BYTES);
}

void capture_done(struct capture *c)
{
	buf_done(&c->kept);
}

static void cut(struct capture *c)
{
	c->truncated = true;
	c->kept.len = utf8_cut(c->kept.bytes, c->kept.len, c->cap_bytes - SPARE_BYTES);
	/* fails only where memory is gone: then the flag has to do */
	(void)buf_puts(&c->kept, MARKER);
}

void capture_add(struct capture *c, const char *bytes, size_t len)
{
	size_t room = c->cap_bytes - c->kept.len;

	c->seen_bytes += len;
	if (c->truncated)
		return;
	if (buf_add(&c->kept, bytes, len < room ? len : room) < 0 || len > room)
		cut(c);
}

void capture_last_line(struct capture *c, const char *text)
{
	/* the cap of the buffer has room for this; without memory the message stands in
	 * the result alone */
	if (c->kept.len && c->kept.bytes[c->kept.len - 1] != '\n')
		(void)buf_puts(&c->kept, "\n");
	(void)buf_printf(&c->kept, "%s\n", text);
}

/* how many bytes a character has that begins so; 1 for what begins none */
static size_t announced(unsigned char lead)
{
	if (lead >= 0xf0 && lead <= 0xf4)
		return 4;
	if (lead >= 0xe0)
		return lead <= 0xef ? 3 : 1;
	return lead >= 0xc2 ? 2 : 1;
}

size_t capture_settled(const struct capture *c)
{
	size_t end = c->kept.len, back;

	if (c->truncated)
		return end;
	if (end > c->cap_bytes - SPARE_BYTES)
		end = c->cap_bytes - SPARE_BYTES;
	/* a character that may still be completed waits for its other bytes */
	for (back = 1; back <= 3 && back <= end; back++) {
		unsigned char byte = (unsigned char)c->kept.bytes[end - back];

		if ((byte & 0xc0) != 0x80)
			return announced(byte) > back ? end - back : end;
	}
	return end;
}

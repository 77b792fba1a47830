/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * chain.c - lines of JSON that are chained by hash
 */
#include "base/chain.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/num.h"

#define HEX_LEN (CHAIN_HEX - 1)
#define LINE_NAME ",\"line\":"
#define PREV_NAME ",\"prev\":\""
#define HASH_NAME ",\"hash\":\""

static const char nothing[] =
	"0000000000000000000000000000000000000000000000000000000000000000";

void chain_hash(const void *bytes, size_t len, char out[CHAIN_HEX])
{
	uint8_t hash[SHA256_BYTES];
	struct sha256 h;

	sha256_begin(&h);
	sha256_add(&h, bytes, len);
	sha256_end(&h, hash);
	for (size_t i = 0; i < sizeof(hash); i++)
		snprintf(out + 2 * i, 3, "%02x", hash[i]);
}

int chain_seal(struct chain *c, struct buf *line)
{
	struct chain next = {.line = c->line + 1};

	if (buf_printf(line, LINE_NAME "%" PRIu64 PREV_NAME "%s\"", next.line,
		       c->line ? c->hash : nothing) < 0)
		return -1;
	chain_hash(line->bytes, line->len, next.hash);
	if (buf_printf(line, HASH_NAME "%s\"}\n", next.hash) < 0)
		return -1;
	*c = next;
	return 0;
}

/* "NAME<64 hex>\"" ends at *end: the digits to out, *end to where NAME begins */
static int take_hash(const char *line, size_t *end, const char *name, char out[CHAIN_HEX])
{
	const size_t name_len = strlen(name), all = name_len + HEX_LEN + 1;
	const char *at = line + *end - all;

	if (*end < all || memcmp(at, name, name_len) != 0 || line[*end - 1] != '"')
		return -1;
	memcpy(out, at + name_len, HEX_LEN);
	out[HEX_LEN] = '\0';
	*end -= all;
	return strspn(out, "0123456789abcdef") == HEX_LEN ? 0 : -1;
}

/* "NAME<digits>" ends at end */
static int take_number(const char *line, size_t end, uint64_t *out)
{
	const size_t name_len = strlen(LINE_NAME);
	char digits[24];
	size_t at = end;

	while (at && line[at - 1] >= '0' && line[at - 1] <= '9')
		at--;
	if (end - at >= sizeof(digits) || at < name_len ||
	    memcmp(line + at - name_len, LINE_NAME, name_len) != 0)
		return -1;
	memcpy(digits, line + at, end - at);
	digits[end - at] = '\0';
	return num_u64(digits, out);
}

int chain_read(const char *line, size_t len, struct chain *out, char out_prev[CHAIN_HEX],
	       struct err *e)
{
	char prev[CHAIN_HEX], real[CHAIN_HEX];
	struct chain c;
	size_t end = len - 1;

	if (len < 2 || line[0] != '{' || line[end] != '}' ||
	    take_hash(line, &end, HASH_NAME, c.hash) < 0)
		return err_bad(e, "this is no line of an audit file");
	chain_hash(line, end, real);
	if (strcmp(real, c.hash) != 0)
		return err_bad(e, "it was changed: its hash is another one");
	if (take_hash(line, &end, PREV_NAME, prev) < 0 ||
	    take_number(line, end, &c.line) < 0 || c.line == 0)
		return err_bad(e, "this is no line of an audit file");
	*out = c;
	memcpy(out_prev, prev, CHAIN_HEX);
	return 0;
}

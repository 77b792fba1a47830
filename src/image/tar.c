/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * tar.c - reads tar archives that somebody hostile may have made
 */
#include "image/tar.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/num.h"

#define META_MOST (1u << 20) /* a pax header: attributes may be long */
#define NAME_MOST 255
#define TIME_MOST (INT64_C(1) << 33)

/* a header, byte by byte */
struct field {
	size_t at, len;
};
static const struct field NAME = {0, 100}, MODE = {100, 8}, UID = {108, 8},
			  GID = {116, 8}, SIZE = {124, 12}, MTIME = {136, 12},
			  CHECKSUM = {148, 8}, LINKNAME = {157, 100}, MAGIC = {257, 6},
			  PREFIX = {345, 155};
#define TYPE_AT 156

void tar_init(struct tar *t, const struct tar_handler *handler)
{
	memset(t, 0, sizeof(*t));
	t->handler = *handler;
	buf_init(&t->text, META_MOST);
}

void tar_done(struct tar *t)
{
	buf_done(&t->text);
}

const char *tar_shown(const char *name, char out[TAR_SHOWN])
{
	size_t i;

	for (i = 0; i < TAR_SHOWN - 4 && name[i]; i++) {
		const unsigned char c = (unsigned char)name[i];

		out[i] = c < 0x20 || c >= 0x7f ? '?' : name[i];
	}
	memcpy(out + i, "...", sizeof("..."));
	if (!name[i])
		out[i] = '\0';
	return out;
}

int tar_clean(const char *name, char out[TAR_PATH])
{
	size_t len = 0, depth = 0;

	if (name[0] == '/')
		return -1;
	while (*name) {
		const size_t n = strcspn(name, "/");
		const bool here = n == 0 || (n == 1 && name[0] == '.');

		if (n > NAME_MOST || (n == 2 && memcmp(name, "..", 2) == 0))
			return -1;
		if (!here) {
			if (len + n + 2 > TAR_PATH || ++depth > TAR_DEPTH)
				return -1;
			if (len)
				out[len++] = '/';
			memcpy(out + len, name, n);
			len += n;
		}
		name += n + (name[n] == '/');
	}
	out[len] = '\0';
	return 0;
}

/* octal, or GNU's binary form of what is too large for that; -1: neither */
static int read_number(const unsigned char *block, struct field f, uint64_t *out)
{
	const unsigned char *p = block + f.at, *end = p + f.len;
	uint64_t n = 0;

	if (*p & 0x80) {
		if (*p++ != 0x80)
			return -1; /* negative */
		for (; p < end; p++) {
			if (n >> 55)
				return -1;
			n = n << 8 | *p;
		}
		*out = n;
		return 0;
	}
	while (p < end && *p == ' ')
		p++;
	for (; p < end && *p >= '0' && *p <= '7'; p++)
		n = n << 3 | (uint64_t)(*p - '0');
	while (p < end && (*p == ' ' || *p == '\0'))
		p++;
	if (p != end)
		return -1;
	*out = n;
	return 0;
}

static bool checksum_holds(const unsigned char *block)
{
	uint64_t want, sum = 0;

	if (read_number(block, CHECKSUM, &want) < 0)
		return false;
	for (size_t i = 0; i < TAR_BLOCK; i++)
		sum += i - CHECKSUM.at < CHECKSUM.len ? ' ' : block[i];
	return sum == want;
}

static void read_text(const unsigned char *block, struct field f, char *out)
{
	const size_t n = strnlen((const char *)block + f.at, f.len);

	memcpy(out, block + f.at, n);
	out[n] = '\0';
}

static bool is_zero(const unsigned char *block)
{
	for (size_t i = 0; i < TAR_BLOCK; i++)
		if (block[i])
			return false;
	return true;
}

/* name and prefix as they are */
static void read_name(const unsigned char *block, char out[TAR_PATH])
{
	size_t len = 0;

	if (memcmp(block + MAGIC.at, "ustar", MAGIC.len) == 0 && block[PREFIX.at]) {
		read_text(block, PREFIX, out);
		len = strlen(out);
		out[len++] = '/';
	}
	read_text(block, NAME, out + len);
}

static int bad(const char *name, const char *why, struct err *e)
{
	char shown[TAR_SHOWN];

	return err_bad(e, "the entry '%s' %s", tar_shown(name, shown), why);
}

static int clean_names(struct tar *t, struct err *e)
{
	struct tar_entry *n = &t->entry;
	char raw[TAR_PATH];

	memcpy(raw, n->path, sizeof(raw));
	if (tar_clean(raw, n->path) < 0)
		return bad(raw,
			   raw[0] == '/' ? "has an absolute name"
					 : "has '..' in its name, or one too "
					   "long or too deep",
			   e);
	if (n->kind == TAR_SYMLINK && !n->target[0])
		return bad(raw, "is a link to nothing", e);
	if (n->kind != TAR_HARDLINK)
		return 0;
	memcpy(raw, n->target, sizeof(raw));
	if (tar_clean(raw, n->target) < 0 || !n->target[0])
		return bad(n->path, "is a hard link to something outside", e);
	return 0;
}

static const struct {
	char type;
	enum tar_kind kind;
} kinds[] = {
	{'0', TAR_FILE},     {'\0', TAR_FILE},     {'7', TAR_FILE},
	{'1', TAR_HARDLINK}, {'2', TAR_SYMLINK},   {'3', TAR_SPECIAL},
	{'4', TAR_SPECIAL},  {'5', TAR_DIRECTORY}, {'6', TAR_SPECIAL},
};

static int find_kind(struct tar *t, char type, struct err *e)
{
	char raw[TAR_PATH];
	size_t i = 0;

	while (i < sizeof(kinds) / sizeof(kinds[0]) && kinds[i].type != type)
		i++;
	read_name(t->block, raw);
	if (type == 'S')
		return bad(raw, "is sparse, which is not supported", e);
	if (i == sizeof(kinds) / sizeof(kinds[0]))
		return bad(raw, "is of an unknown kind", e);
	t->entry.kind = kinds[i].kind;
	/* before there was a type for directories */
	if (type == '\0' && raw[0] && raw[strlen(raw) - 1] == '/')
		t->entry.kind = TAR_DIRECTORY;
	return 0;
}

/* what a header says, where nothing before it said something else */
static int read_fields(struct tar *t, struct err *e)
{
	struct tar_entry *n = &t->entry;
	uint64_t mode, uid, gid, size, mtime;
	char raw[TAR_PATH];

	read_name(t->block, raw);
	/* no time, or one before there were any, is no reason to refuse it */
	if (read_number(t->block, MTIME, &mtime) < 0 || mtime > TIME_MOST)
		mtime = 0;
	if (read_number(t->block, MODE, &mode) < 0 ||
	    read_number(t->block, UID, &uid) < 0 || read_number(t->block, GID, &gid) < 0)
		return bad(raw, "has a damaged header", e);
	if (!t->given.size && read_number(t->block, SIZE, &size) < 0)
		return bad(raw, "has no size", e);
	n->mode = (uint32_t)mode & 07777;
	if (!t->given.path)
		memcpy(n->path, raw, sizeof(raw));
	if (!t->given.target)
		read_text(t->block, LINKNAME, n->target);
	if (!t->given.size)
		n->size = size;
	if (!t->given.uid)
		n->uid = uid;
	if (!t->given.gid)
		n->gid = gid;
	if (!t->given.mtime)
		n->mtime_sec = (int64_t)mtime;
	return 0;
}

static void set_body(struct tar *t, enum tar_body body, uint64_t size)
{
	t->body = body;
	t->left = size;
	t->pad = (TAR_BLOCK - size % TAR_BLOCK) % TAR_BLOCK;
}

static int end_body(struct tar *t, struct err *e);

static int take_entry(struct tar *t, struct err *e)
{
	struct tar_entry *n = &t->entry;
	int rc;

	if (find_kind(t, (char)t->block[TYPE_AT], e) < 0 || read_fields(t, e) < 0 ||
	    clean_names(t, e) < 0)
		return -1;
	if (n->kind != TAR_FILE)
		n->size = 0; /* it has none, whatever its header says */
	if (n->size > INT64_MAX / 2)
		return bad(n->path, "has an impossible size", e);
	rc = t->handler.on_entry(t->handler.arg, n, e);
	if (rc < 0)
		return -1;
	set_body(t, rc == TAR_UNWANTED ? TAR_BODY_SKIP : TAR_BODY_DATA, n->size);
	if (n->kind != TAR_FILE)
		t->body = TAR_BODY_NONE;
	memset(&t->given, 0, sizeof(t->given));
	n->has_caps = false;
	return t->left == 0 ? end_body(t, e) : 0;
}

/* GNU's long names and pax headers: about the entry that follows */
static int take_meta(struct tar *t, struct err *e)
{
	uint64_t size;

	if (read_number(t->block, SIZE, &size) < 0 || size > META_MOST)
		return err_bad(e, "a header of the archive is damaged or too long");
	t->meta = (char)t->block[TYPE_AT];
	buf_done(&t->text);
	buf_init(&t->text, META_MOST);
	/* what is said of all entries: times and comments, nothing that we take */
	set_body(t, t->meta == 'g' ? TAR_BODY_SKIP : TAR_BODY_META, size);
	return t->left == 0 ? end_body(t, e) : 0;
}

static int take_header(struct tar *t, struct err *e)
{
	const char type = (char)t->block[TYPE_AT];

	if (is_zero(t->block)) {
		t->ended = true;
		return 0;
	}
	if (!checksum_holds(t->block))
		return err_bad(e, "it is no tar archive, or a damaged one (at byte %llu)",
			       (unsigned long long)(t->offset - TAR_BLOCK));
	return type && strchr("LKxg", type) ? take_meta(t, e) : take_entry(t, e);
}

static int take_long(struct tar *t, char *out, bool *given, struct err *e)
{
	const size_t len = strnlen(t->text.bytes, t->text.len);

	if (len == 0 || len >= TAR_PATH)
		return err_bad(e, "a name in the archive is empty or too long");
	memcpy(out, t->text.bytes, len);
	out[len] = '\0';
	*given = true;
	return 0;
}

/* one line of a pax header; the value has a NUL behind it */
static int take_pair(struct tar *t, const char *key, const char *value, size_t len,
		     struct err *e)
{
	struct tar_entry *n = &t->entry;
	const bool path = strcmp(key, "path") == 0, link = strcmp(key, "linkpath") == 0;
	char whole[24];

	if (path || link) {
		if (len == 0 || len >= TAR_PATH || strlen(value) != len)
			return bad(value, "has an impossible name", e);
		memcpy(path ? n->path : n->target, value, len + 1);
		*(path ? &t->given.path : &t->given.target) = true;
	} else if (strcmp(key, "size") == 0) {
		if (num_u64(value, &n->size) < 0)
			return err_bad(e, "a size in the archive is no number");
		t->given.size = true;
	} else if (strcmp(key, "uid") == 0) {
		t->given.uid = num_u64(value, &n->uid) == 0;
	} else if (strcmp(key, "gid") == 0) {
		t->given.gid = num_u64(value, &n->gid) == 0;
	} else if (strcmp(key, "mtime") == 0) {
		uint64_t sec;

		snprintf(whole, sizeof(whole), "%.*s", (int)strcspn(value, "."), value);
		t->given.mtime = num_range(whole, 0, TIME_MOST, &sec) == 0;
		n->mtime_sec = t->given.mtime ? (int64_t)sec : 0;
	} else if (strncmp(key, "GNU.sparse.", 11) == 0) {
		return err_bad(e,
			       "the archive has sparse files, which are not supported");
	} else if (strcmp(key, "SCHILY.xattr.security.capability") == 0) {
		n->has_caps = true;
	}
	return 0;
}

/* "LENGTH KEY=VALUE\n", the length counting all of it; its length, or -1 */
static int take_line(struct tar *t, char *line, size_t room, struct err *e)
{
	const size_t digits = strspn(line, "0123456789");
	char *key = line + digits + 1, *equals;
	uint64_t len = 0;

	if (digits == 0 || digits > 8 || digits >= room || line[digits] != ' ')
		return -1;
	line[digits] = '\0';
	if (num_range(line, digits + 3, room, &len) < 0 || line[len - 1] != '\n')
		return -1;
	line[len - 1] = '\0';
	equals = strchr(key, '=');
	if (!equals || equals == key)
		return -1;
	*equals = '\0';
	if (take_pair(t, key, equals + 1, (size_t)(line + len - 1 - (equals + 1)), e) < 0)
		return -1;
	return (int)len;
}

static int take_pax(struct tar *t, struct err *e)
{
	size_t at = 0;
	int n;

	while (at < t->text.len) {
		n = take_line(t, t->text.bytes + at, t->text.len - at, e);
		if (n < 0)
			return e && e->kind != ERR_NONE
				       ? -1
				       : err_bad(e, "a pax header of the archive is "
						    "damaged");
		at += (size_t)n;
	}
	return 0;
}

static int end_meta(struct tar *t, struct err *e)
{
	if (buf_text(&t->text) < 0)
		return err_errno(e, "read a header of the archive");
	if (t->meta == 'L')
		return take_long(t, t->entry.path, &t->given.path, e);
	if (t->meta == 'K')
		return take_long(t, t->entry.target, &t->given.target, e);
	return take_pax(t, e);
}

static int end_body(struct tar *t, struct err *e)
{
	const enum tar_body body = t->body;

	t->body = TAR_BODY_NONE;
	if (body == TAR_BODY_META)
		return end_meta(t, e);
	return body == TAR_BODY_DATA ? t->handler.on_end(t->handler.arg, e) : 0;
}

static int take_body(struct tar *t, const char *bytes, size_t len, struct err *e)
{
	if (t->body == TAR_BODY_META && buf_add(&t->text, bytes, len) < 0)
		return err_errno(e, "read a header of the archive");
	if (t->body == TAR_BODY_DATA &&
	    t->handler.on_data(t->handler.arg, bytes, len, e) < 0)
		return -1;
	t->left -= len;
	return t->left == 0 ? end_body(t, e) : 0;
}

static size_t least(uint64_t a, size_t b)
{
	return a < b ? (size_t)a : b;
}

/* a part of a header, a body or what fills its last block; how much of it was taken */
static size_t take_some(struct tar *t, const char *bytes, size_t len)
{
	size_t n;

	if (t->left) {
		n = least(t->left, len);
	} else if (t->pad) {
		n = least(t->pad, len);
		t->pad -= n;
	} else {
		n = least(TAR_BLOCK - t->have, len);
		memcpy(t->block + t->have, bytes, n);
		t->have += n;
	}
	return n;
}

int tar_feed(struct tar *t, const char *bytes, size_t len, struct err *e)
{
	while (len > 0 && !t->ended) {
		const bool in_body = t->left > 0;
		const size_t n = take_some(t, bytes, len);

		t->offset += n;
		if (in_body && take_body(t, bytes, n, e) < 0)
			return -1;
		if (t->have == TAR_BLOCK) {
			t->have = 0;
			if (take_header(t, e) < 0)
				return -1;
		}
		bytes += n;
		len -= n;
	}
	return 0;
}

int tar_end(const struct tar *t, struct err *e)
{
	return t->ended ? 0 : err_bad(e, "the archive is cut short");
}

uint64_t tar_skippable(const struct tar *t)
{
	return t->body == TAR_BODY_SKIP ? t->left + t->pad : 0;
}

void tar_skip(struct tar *t)
{
	t->offset += t->left + t->pad;
	t->left = t->pad = 0;
	t->body = TAR_BODY_NONE;
}

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * unpack.c - an archive or a stream as an image that is being made
 */
#include "image/unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/defer.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/sha256.h"
#include "image/blobs.h"
#include "image/inflate.h"
#include "image/manifest.h"
#include "image/tar.h"

#define CHUNK (64u << 10)
#define PROGRESS_NS 200000000
#define ENV_BYTES 8192 /* of one variable */

static const struct {
	const char *begin;
	size_t len;
	const char *name;
} others[] = {
	{"\x28\xb5\x2f\xfd", 4, "zstd"},
	{"\xfd"
	 "7zXZ",
	 5, "xz"},
	{"BZh", 3, "bzip2"},
};

struct work {
	const struct unpack *u;
	struct tree tree;
	struct tar tar;
	struct sha256 sum;
	bool sums;            /* somebody said what it should be */
	uint64_t stream_left; /* of all that is unpacked, headers included */
	struct timespec told;
	char chunk[CHUNK];
};

/* a part of a file, or what comes through a pipe; from its begin to its end */
struct reader {
	const struct blobs *blobs;
	const struct blob *blob; /* NULL: blobs->fd is a pipe */
	uint64_t at;
	char first[6]; /* what was looked at ahead */
	size_t firsts;
};

static int refuse_compressed(const char *begin, size_t len, struct err *e)
{
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (len >= others[i].len &&
		    memcmp(begin, others[i].begin, others[i].len) == 0)
			return err_bad(e,
				       "it is compressed by %s; only gzip is known here: "
				       "compress it by that, or not at all",
				       others[i].name);
	return 0;
}

static void tell(struct work *w)
{
	struct timespec now;
	char line[96];
	int n;

	if (w->u->progress_fd < 0 || clock_gettime(CLOCK_MONOTONIC, &now) < 0)
		return;
	if ((now.tv_sec - w->told.tv_sec) * 1000000000 + now.tv_nsec - w->told.tv_nsec <
	    PROGRESS_NS)
		return;
	w->told = now;
	n = snprintf(line, sizeof(line), "\r  %llu MB, %llu entries \033[K",
		     (unsigned long long)((w->u->bytes_most - w->stream_left) >> 20),
		     (unsigned long long)w->tree.counts.entries);
	(void)fs_write_all(w->u->progress_fd, line, (size_t)n); /* it is only a wish */
}

static int charge(struct work *w, size_t len, struct err *e)
{
	if (len > w->stream_left)
		return err_bad(e, "it unpacks to more than %llu MB; --max-mb allows more",
			       (unsigned long long)(w->u->bytes_most >> 20));
	w->stream_left -= len;
	tell(w);
	return 0;
}

/* of a layer */
static int on_layer_bytes(void *arg, const char *bytes, size_t len, struct err *e)
{
	struct work *w = arg;

	if (charge(w, len, e) < 0)
		return -1;
	if (w->sums)
		sha256_add(&w->sum, bytes, len);
	return tar_feed(&w->tar, bytes, len, e);
}

static ssize_t read_pipe(int fd, char *bytes, size_t room, struct err *e)
{
	ssize_t n;

	do
		n = read(fd, bytes, room);
	while (n < 0 && errno == EINTR);
	return n < 0 ? err_errno(e, "read the archive") : n;
}

static ssize_t read_next(struct reader *r, char *bytes, size_t room, struct err *e)
{
	ssize_t n;

	if (!r->blob)
		return read_pipe(r->blobs->fd, bytes, room, e);
	n = blobs_read(r->blobs, r->blob, r->at, bytes, room, e);
	r->at += n > 0 ? (uint64_t)n : 0;
	return n;
}

static int look_ahead(struct reader *r, struct err *e)
{
	ssize_t n = 1;

	while (n > 0 && r->firsts < sizeof(r->first)) {
		n = read_next(r, r->first + r->firsts, sizeof(r->first) - r->firsts, e);
		r->firsts += n > 0 ? (size_t)n : 0;
	}
	return n < 0 ? -1 : refuse_compressed(r->first, r->firsts, e);
}

/* bytes of a reader, and who gets them */
struct pour {
	struct reader *from;
	struct work *to;
	int (*take)(void *arg, const char *bytes, size_t len, struct err *e);
};

static ssize_t on_fill(void *arg, char *bytes, size_t room, struct err *e)
{
	struct reader *r = ((struct pour *)arg)->from;
	const size_t n = r->firsts; /* room is more */

	if (n == 0)
		return read_next(r, bytes, room, e);
	memcpy(bytes, r->first, n);
	r->firsts = 0;
	return (ssize_t)n;
}

static int on_sink(void *arg, const char *bytes, size_t len, struct err *e)
{
	const struct pour *p = arg;

	return p->take(p->to, bytes, len, e);
}

/* compressed or not; it was looked ahead */
static int pour(struct pour *p, struct err *e)
{
	const struct inflate_io io = {p, on_fill, on_sink};
	ssize_t n;

	if (inflate_knows(p->from->first, p->from->firsts))
		return inflate_gzip(&io, e);
	while ((n = on_fill(p, p->to->chunk, CHUNK, e)) > 0)
		if (on_sink(p, p->to->chunk, (size_t)n, e) < 0)
			return -1;
	return (int)n;
}

static void begin_layer(struct work *w)
{
	const struct tar_handler handler = tree_handler(&w->tree);

	tree_next_layer(&w->tree);
	tar_init(&w->tar, &handler);
	sha256_begin(&w->sum);
}

/* diff_id: NULL where nobody said what it should be */
static int end_layer(struct work *w, const char *diff_id, struct err *e)
{
	uint8_t sum[SHA256_BYTES];
	char text[BLOB_DIGEST];

	sha256_end(&w->sum, sum);
	blob_digest_text(sum, text);
	/* first: whatever else is wrong follows from it */
	if (diff_id && strcmp(diff_id, text) != 0)
		return err_bad(e, "a layer that should be %s is %s", diff_id, text);
	return tar_end(&w->tar, e);
}

static int unpack_layer(struct work *w, const struct blobs *b, const struct blob *blob,
			const char *diff_id, struct err *e)
{
	struct reader from = {.blobs = b, .blob = blob};
	struct pour p = {&from, w, on_layer_bytes};
	int rc;

	begin_layer(w);
	w->sums = diff_id != NULL;
	rc = look_ahead(&from, e) < 0 || pour(&p, e) < 0 || end_layer(w, diff_id, e) < 0
		     ? -1
		     : 0;
	tar_done(&w->tar);
	return rc;
}

static int unpack_image(struct work *w, const struct blobs *b, const struct manifest *m,
			struct err *e)
{
	for (size_t i = 0; i < m->layers; i++) {
		const struct blob *blob = blobs_find(b, m->layer[i].name);
		struct err why = {0};

		if ((m->layer[i].digest[0] &&
		     blobs_check(b, blob, m->layer[i].digest, &why) < 0) ||
		    unpack_layer(w, b, blob, m->layer[i].diff_id, &why) < 0)
			return why.kind == ERR_OURS
				       ? err_ours(e, "layer %zu: %.400s", i + 1, why.text)
				       : err_bad(e, "layer %zu: %.400s", i + 1, why.text);
	}
	return 0;
}

/* the tar of a directory, as it comes */
static int unpack_stream(struct work *w, struct err *e)
{
	const struct blobs pipe = {.fd = w->u->source_fd};

	return unpack_layer(w, &pipe, NULL, NULL, e);
}

static int on_spool_bytes(void *arg, const char *bytes, size_t len, struct err *e)
{
	struct work *w = arg;

	if (charge(w, len, e) < 0)
		return -1;
	return fs_write_all(w->u->spool_fd, bytes, len) < 0
		       ? err_errno(e, "keep the archive")
		       : 0;
}

/* a file that can be read anywhere and is not compressed as a whole: the source itself,
 * or the spool */
static int readable(struct work *w, struct err *e)
{
	const struct blobs source = {.fd = w->u->source_fd};
	struct blob whole = {0};
	struct reader from = {.blobs = &source};
	struct pour p = {&from, w, on_spool_bytes};
	struct stat st;

	if (fstat(source.fd, &st) < 0)
		return err_errno(e, "read the archive");
	if (S_ISREG(st.st_mode)) {
		whole.size = (uint64_t)st.st_size;
		from.blob = &whole;
	}
	if (look_ahead(&from, e) < 0)
		return -1;
	if (from.blob && !inflate_knows(from.first, from.firsts))
		return source.fd;
	if (pour(&p, e) < 0)
		return -1;
	w->stream_left = w->u->bytes_most; /* that was the archive, not its content */
	return w->u->spool_fd;
}

static int add_env(struct buf *out, const struct json *config)
{
	const struct json *env = json_member(json_member(config, "config"), "Env");
	unsigned n = 0;

	for (size_t i = 0; i < json_count(env) && n < IMAGE_ENV; i++) {
		size_t len = 0;
		const char *text = json_text(json_item(env, i), &len);

		if (!text || strlen(text) != len || len > ENV_BYTES || text[0] == '=' ||
		    !strchr(text, '='))
			continue;
		if ((n++ && buf_puts(out, ",") < 0) ||
		    buf_json_string(out, text, len) < 0)
			return -1;
	}
	return 0;
}

static int add_text(struct buf *out, const char *key, const char *text)
{
	return buf_printf(out, ",\"%s\":", key) < 0 ||
			       buf_json_string(out, text, strlen(text)) < 0
		       ? -1
		       : 0;
}

static int write_info(const struct work *w, const struct unpacked *u,
		      const struct manifest *m, struct err *e)
{
	const struct tree_counts *c = &w->tree.counts;
	const time_t now = time(NULL);
	char added[32] = "";
	struct buf b;
	struct tm t;
	int rc;

	if (gmtime_r(&now, &t))
		strftime(added, sizeof(added), "%Y-%m-%dT%H:%M:%SZ", &t);
	buf_init(&b, IMAGE_TEXT - 1);
	rc = buf_puts(&b, "{\"reference\":") < 0 ||
			     buf_json_string(&b, w->u->name, strlen(w->u->name)) < 0 ||
			     add_text(&b, "source", u->source) < 0 ||
			     add_text(&b, "digest", m->digest) < 0 ||
			     add_text(&b, "architecture", m->architecture) < 0 ||
			     add_text(&b, "added", added) < 0 ||
			     buf_printf(
				     &b,
				     ",\"bytes\":%llu,\"entries\":%llu,\"special\":%llu,"
				     "\"set_id\":%llu,\"opened\":%llu,\"env\":[",
				     (unsigned long long)c->bytes,
				     (unsigned long long)c->entries,
				     (unsigned long long)c->special,
				     (unsigned long long)c->set_id,
				     (unsigned long long)c->opened) < 0 ||
			     add_env(&b, m->config) < 0 || buf_puts(&b, "]}\n") < 0
		     ? err_bad(e, "its environment is too long")
		     : 0;
	if (rc == 0 &&
	    (fs_create_whole(w->u->staged_fd, IMAGE_INFO, b.bytes, b.len) < 0 ||
	     fchmodat(w->u->staged_fd, IMAGE_INFO, 0644, 0) < 0)) /* the server's too */
		rc = err_errno(e, "write " IMAGE_INFO);
	buf_done(&b);
	return rc;
}

/* an archive: an image, or the files themselves */
static int unpack_archive(struct work *w, struct unpacked *out, struct manifest *m,
			  struct err *e)
{
	struct blobs b = {0};
	struct blob whole = {0};
	struct stat st = {0};
	const int fd = readable(w, e);
	int rc = -1;

	if (fd >= 0 && fstat(fd, &st) == 0 && blobs_init(&b, fd, e) == 0) {
		whole.size = (uint64_t)st.st_size;
		if (manifest_kind(&b) == MANIFEST_NONE) {
			snprintf(out->source, sizeof(out->source), "tar");
			rc = unpack_layer(w, &b, &whole, NULL, e);
			m->layers = 0;
			out->layers = 1;
		} else if (manifest_read(m, &b, w->u->name, e) == 0) {
			snprintf(out->source, sizeof(out->source), "%s",
				 m->kind == MANIFEST_OCI ? "oci-archive"
							 : "docker-archive");
			rc = unpack_image(w, &b, m, e);
			out->layers = (unsigned)m->layers;
		}
	}
	blobs_done(&b);
	return rc;
}

static int unpack_all(struct work *w, struct unpacked *out, struct manifest *m,
		      struct err *e)
{
	int rc;

	if (w->u->directory) {
		snprintf(out->source, sizeof(out->source), "directory");
		out->layers = 1;
		rc = unpack_stream(w, e);
	} else {
		rc = unpack_archive(w, out, m, e);
	}
	if (rc < 0 || tree_finish(&w->tree, e) < 0 || write_info(w, out, m, e) < 0)
		return -1;
	out->counts = w->tree.counts;
	return 0;
}

int unpack_run(const struct unpack *u, struct unpacked *out, struct err *e)
{
	struct work *w = mem_zero(sizeof(*w));
	struct manifest *m = mem_zero(sizeof(*m));
	auto_fd int root_fd = -1;
	auto_fd int owners_fd = -1;
	int rc = -1;

	w->u = u;
	w->stream_left = u->bytes_most;
	root_fd = fs_make_path(u->staged_fd, IMAGE_ROOT, 0755);
	owners_fd = openat(u->staged_fd, IMAGE_OWNERS,
			   O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (root_fd < 0 || owners_fd < 0) {
		err_errno(e, "make the image's directory");
	} else {
		tree_init(&w->tree, root_fd, owners_fd, u->bytes_most, UNPACK_ENTRIES);
		rc = unpack_all(w, out, m, e);
		tree_done(&w->tree);
	}
	manifest_done(m);
	free(m);
	free(w);
	return rc;
}

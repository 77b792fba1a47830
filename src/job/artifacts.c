/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * artifacts.c - stored runs
 *
 * Runs in: the server, on its loop. A file is written to a name of its own and renamed,
 * without fsync: to the page cache that takes a moment, to the disk it could take
 * seconds, and a crash of the machine may cost the last stored runs. The directory is
 * read once, at the start; from then on its contents are known. Names begin with the
 * time, so their order is their age.
 */
#include "job/artifacts.h"

#include <dirent.h>
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
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "job/mask.h"

#ifndef SANDBOX_VERSION
#define SANDBOX_VERSION "dev"
#endif

#define PARTIAL ".partial"
#define COUNT_MAX 20000   /* files, whatever their size */
#define REMOVALS_MAX 1000 /* by one store */
#define NAME_BYTES 42     /* 20250131T235959.999Z_0123456789abcdef.json */

struct stored {
	char name[NAME_BYTES + 1];
	uint64_t bytes;
};

/* the oldest is at `first`; what is before it has been removed */
struct artifacts {
	int dir_fd;
	uint64_t cap_bytes;
	uint64_t total_bytes;
	uint64_t counter;
	struct stored *list;
	size_t first, end, room;
};

static bool is_ours(const char *name)
{
	const char *form = "00000000T000000.000Z_xxxxxxxxxxxxxxxx.json";

	for (size_t i = 0; i <= NAME_BYTES; i++) {
		if (form[i] == '0'   ? name[i] < '0' || name[i] > '9'
		    : form[i] == 'x' ? !name[i] || !strchr("0123456789abcdef", name[i])
				     : name[i] != form[i])
			return false;
	}
	return true;
}

static void remember(struct artifacts *a, const char *name, uint64_t bytes)
{
	if (a->end == a->room) {
		size_t count = a->end - a->first;
		struct stored *list;

		a->room = count * 2 + 64;
		list = mem_array(a->room, sizeof(*list));
		if (count)
			memcpy(list, a->list + a->first, count * sizeof(*list));
		free(a->list);
		a->list = list;
		a->first = 0;
		a->end = count;
	}
	memcpy(a->list[a->end].name, name, NAME_BYTES + 1);
	a->list[a->end++].bytes = bytes;
	a->total_bytes += bytes;
}

static int by_name(const void *left, const void *right)
{
	const struct stored *a = left, *b = right;

	return strcmp(a->name, b->name);
}

static void look_around(struct artifacts *a)
{
	int fd = openat(a->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;
	struct stat st;

	if (!dir) {
		log_warn("artifact.list", "errno=%d", errno);
		if (fd >= 0)
			close(fd);
		return;
	}
	(void)unlinkat(a->dir_fd, PARTIAL,
		       0); /* a crash left it; mostly it is not there */
	while ((entry = readdir(dir)))
		if (is_ours(entry->d_name) &&
		    fstatat(a->dir_fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		    S_ISREG(st.st_mode))
			remember(a, entry->d_name, (uint64_t)st.st_size);
	closedir(dir);
	if (a->end)
		qsort(a->list, a->end, sizeof(*a->list), by_name);
}

struct artifacts *artifacts_new(int dir_fd, uint64_t cap_bytes)
{
	struct artifacts *a;

	if (dir_fd < 0)
		return NULL;
	if (cap_bytes == 0) {
		close(dir_fd);
		return NULL;
	}
	a = mem_zero(sizeof(*a));
	a->dir_fd = dir_fd;
	a->cap_bytes = cap_bytes;
	look_around(a);
	return a;
}

void artifacts_free(struct artifacts *a)
{
	if (!a)
		return;
	close(a->dir_fd);
	free(a->list);
	free(a);
}

/* the oldest go until so much more fits; -1: it does not, for now or ever */
static int make_room(struct artifacts *a, uint64_t bytes)
{
	if (bytes > a->cap_bytes)
		return -1;
	for (int i = 0; i < REMOVALS_MAX; i++) {
		if (a->total_bytes + bytes <= a->cap_bytes &&
		    a->end - a->first < COUNT_MAX)
			return 0;
		if (unlinkat(a->dir_fd, a->list[a->first].name, 0) < 0 && errno != ENOENT)
			return -1;
		a->total_bytes -= a->list[a->first++].bytes;
	}
	return -1;
}

static uint64_t mix(uint64_t hash, const void *bytes, size_t len)
{
	const unsigned char *p = bytes;

	for (size_t i = 0; i < len; i++)
		hash = (hash ^ p[i]) * 0x100000001b3u; /* FNV-1a: a name, not a proof */
	return hash;
}

static void make_name(struct artifacts *a, const struct artifact *what,
		      char out_name[NAME_BYTES + 1], char out_time[32])
{
	uint64_t hash = mix(0xcbf29ce484222325u, what->code, what->code_len);
	struct timespec now;
	char day[16], hour[16];
	struct tm tm;
	unsigned ms;

	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &tm);
	ms = (unsigned)(now.tv_nsec / 1000000);
	hash = mix(hash, what->request_id, strlen(what->request_id));
	a->counter++;
	hash = mix(hash, &a->counter, sizeof(a->counter));
	strftime(day, sizeof(day), "%Y%m%d", &tm);
	strftime(hour, sizeof(hour), "%H%M%S", &tm);
	snprintf(out_name, NAME_BYTES + 1, "%.8sT%.6s.%03uZ_%016llx.json", day, hour,
		 ms % 1000, (unsigned long long)hash);
	strftime(day, sizeof(day), "%Y-%m-%d", &tm);
	strftime(hour, sizeof(hour), "%H:%M:%S", &tm);
	snprintf(out_time, 32, "%.10sT%.8s.%03uZ", day, hour, ms % 1000);
}

/* null where masking would hold up the loop: better not stored than stored with secrets
 */
static int add_masked(struct buf *out, const struct mask *m, const char *json, size_t len)
{
	if (mask_json(m, out, json, len) == 0)
		return 0;
	return errno == E2BIG ? buf_puts(out, "null") : -1;
}

static int add_code(struct buf *out, const struct mask *m, const struct artifact *what)
{
	struct buf code;
	int rc;

	buf_init(&code, what->code_len * 6 + 2);
	rc = buf_json_string(&code, what->code, what->code_len);
	if (rc == 0)
		rc = add_masked(out, m, code.bytes, code.len);
	buf_done(&code);
	return rc;
}

static int compose(struct buf *out, const struct artifact *what, const char *when)
{
	struct mask *m = mask_new(what->env);
	int rc = -1;

	if (m && buf_printf(out, "{\"timestamp\":\"%s\",\"code\":", when) == 0 &&
	    add_code(out, m, what) == 0 && buf_puts(out, ",\"result\":") == 0 &&
	    add_masked(out, m, what->result_json, what->result_len) == 0 &&
	    buf_puts(out, ",\"metadata\":{\"request_id\":") == 0 &&
	    buf_json_string(out, what->request_id, strlen(what->request_id)) == 0)
		rc = buf_printf(out,
				",\"code_bytes\":%zu,\"version\":\"" SANDBOX_VERSION
				"\"}}\n",
				what->code_len);
	mask_free(m);
	return rc;
}

/* policy/server.json allows these flags and no others */
static int write_whole(const struct artifacts *a, const char *name, const struct buf *doc)
{
	auto_fd int fd = openat(a->dir_fd, PARTIAL,
				O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC,
				0600);
	int saved;

	if (fd < 0)
		return -1;
	if (fs_write_all(fd, doc->bytes, doc->len) == 0 &&
	    renameat(a->dir_fd, PARTIAL, a->dir_fd, name) == 0)
		return 0;
	saved = errno;
	(void)unlinkat(a->dir_fd, PARTIAL,
		       0); /* if that fails the next store truncates it */
	errno = saved;
	return -1;
}

void artifacts_store(struct artifacts *a, const struct artifact *what)
{
	char name[NAME_BYTES + 1], when[32];
	const char *why = NULL;
	struct buf doc;

	if (!a)
		return;
	make_name(a, what, name, when);
	buf_init(&doc, a->cap_bytes);
	errno = 0;
	if (compose(&doc, what, when) < 0)
		why = "compose";
	else if (make_room(a, doc.len) < 0)
		why = "make room";
	else if (write_whole(a, name, &doc) < 0)
		why = "write";
	if (why)
		log_warn("artifact.lost", "request=%s step=\"%s\" bytes=%zu errno=%d",
			 what->request_id, why, doc.len, errno);
	else
		remember(a, name, doc.len);
	buf_done(&doc);
}

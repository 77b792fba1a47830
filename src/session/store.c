/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * store.c - which sessions there are, kept in files that survive everything
 *
 * Runs in: the server. One file a session, named by its key, whole or not there; written
 * and on the disk before a client hears of the session, and removed after its files are.
 * So files without a name can never be left. What is read here is what we wrote, at the
 * start, before the server gives up reading. A file says which form it has: an older one
 * is written anew, and that of a newer server stops the start, since nobody here could
 * keep all that is in it.
 */
#include "session/store.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/defer.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/sha256.h"
#include "config/mode.h"
#include "config/settings.h"
#include "config/tokens.h"
#include "job/share.h"
#include "wire/setup.h"

#define FILE_BYTES (16 << 20) /* variables and paths: a byte may take six */
#define NAME_BYTES (2 * SESSION_KEY + sizeof(".json"))
#define VERSION 1 /* of the form of a file; the first had none, and the same members */

static_assert(STORE_MOST == TOKEN_SESSIONS_MOST, "a token may have all");

uint64_t store_now_sec(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec;
}

/* those of different owners may have the same id */
static void key_of(const char *owner, const char *id, uint8_t out[SESSION_KEY])
{
	uint8_t hash[SHA256_BYTES];
	struct sha256 h;

	sha256_begin(&h);
	if (owner[0])
		sha256_add(&h, owner, strlen(owner) + 1);
	sha256_add(&h, id, strlen(id));
	sha256_end(&h, hash);
	memcpy(out, hash, SESSION_KEY);
}

static void key_text(const uint8_t key[SESSION_KEY], char out[2 * SESSION_KEY + 1])
{
	for (size_t i = 0; i < SESSION_KEY; i++)
		snprintf(out + 2 * i, 3, "%02x", key[i]);
}

static void file_name(const struct session *one, char out[NAME_BYTES])
{
	key_text(one->key, out);
	memcpy(out + (size_t)2 * SESSION_KEY, ".json", sizeof(".json"));
}

bool store_owned(const struct session *one, const char *owner)
{
	return strcmp(one->owner, owner ? owner : "") == 0;
}

struct session *store_find(const struct sessions *s, const char *owner, const char *id,
			   size_t len)
{
	struct session *one = s->first;

	while (one && (strlen(one->id) != len || memcmp(one->id, id, len) != 0 ||
		       !store_owned(one, owner)))
		one = one->next;
	return one;
}

struct session *store_of(const struct sessions *s, const struct session_call *c)
{
	return c->kept ? s->kept : store_find(s, c->owner, c->id, strlen(c->id));
}

/* whose; NULL: anybody's. With forks on their way */
static size_t kept_by(const struct sessions *s, const char *owner)
{
	size_t count = 0;

	for (const struct session *one = s->first; one; one = one->next)
		count += !owner || store_owned(one, owner);
	for (const struct session_call *c = s->calls; c; c = c->next)
		if (!owner || strcmp(c->owner, owner) == 0)
			count += c->count;
	return count;
}

int store_room(const struct sessions *s, const struct session_request *q, size_t more,
	       struct err *e)
{
	const size_t own = q->owner_most ? kept_by(s, q->owner) : 0;

	if (q->owner_most && own + more > q->owner_most)
		return err_client(e, 429, "too_many_sessions",
				  "this token keeps at most %u sessions, and has %zu; "
				  "close some",
				  q->owner_most, own);
	/* how many others have is not told */
	if (kept_by(s, NULL) + more > STORE_MOST)
		return err_client(e, 429, "too_many_sessions",
				  "this server keeps at most %d sessions; close some",
				  STORE_MOST);
	return 0;
}

struct session *store_add(struct sessions *s, const char *owner, const char *id)
{
	struct session *one = mem_zero(sizeof(*one));

	snprintf(one->id, sizeof(one->id), "%s", id);
	snprintf(one->owner, sizeof(one->owner), "%s", owner ? owner : "");
	key_of(one->owner, one->id, one->key);
	one->created_sec = one->used_sec = store_now_sec();
	one->next = s->first;
	s->first = one;
	return one;
}

void store_free(struct session *one)
{
	for (char **w = one->env; w && *w; w++)
		free(*w);
	free(one->env);
	written_free(one);
	free(one->checkpoint);
	free(one->allow_network);
	free(one);
}

void store_remove(struct sessions *s, struct session *one)
{
	struct session **at = &s->first;
	char name[NAME_BYTES];

	file_name(one, name);
	if (unlinkat(s->index_fd, name, 0) < 0 && errno != ENOENT)
		log_error("session.index", "errno=%d", errno);
	if (s->jobs)
		jobs_close_network(s->jobs, one->key);
	while (*at != one)
		at = &(*at)->next;
	*at = one->next;
	store_free(one);
}

static int describe(const struct session *one, struct buf *b)
{
	char key[2 * SESSION_KEY + 1];

	if (buf_printf(
		    b,
		    "{\"version\":%d,\"id\":\"%s\",\"owner\":\"%s\","
		    "\"scope_type\":\"%s\",\"scope_id\":\"%s\","
		    "\"image\":\"%s\",\"read_only\":%d,\"root\":%d,\"allow_network\":%s,"
		    "\"created\":%llu,\"timeout_ms\":%u,\"max_file_bytes\":%llu,"
		    "\"max_files\":%llu,\"env\":[",
		    VERSION, one->id, one->owner, one->scope_type, one->scope_id,
		    one->image, one->read_only, one->root,
		    one->allow_network ? one->allow_network : "false",
		    (unsigned long long)one->created_sec, one->timeout_ms,
		    (unsigned long long)one->max_file_bytes,
		    (unsigned long long)one->max_files) < 0)
		return -1;
	for (char **w = one->env; w && *w; w++)
		if ((w != one->env && buf_puts(b, ",") < 0) ||
		    buf_json_string(b, *w, strlen(*w)) < 0)
			return -1;
	if (buf_puts(b, "],\"written\":[") < 0 || written_describe(one, b) < 0 ||
	    buf_puts(b, "],\"checkpoints\":[") < 0)
		return -1;
	for (size_t i = 0; i < one->checkpoint_count; i++) {
		key_text(one->checkpoint[i].key, key);
		if (buf_printf(b, "%s{\"id\":\"%s\",\"created\":%llu}", i ? "," : "", key,
			       (unsigned long long)one->checkpoint[i].created_sec) < 0)
			return -1;
	}
	key_text(one->key, key);
	return buf_printf(b, "],\"key\":\"%s\"}\n", key);
}

/* as stored runs are written, which is all that the server may still do; but these are on
 * the disk before anybody is told */
static int write_whole(int dir_fd, const char *name, const struct buf *b)
{
	char partial[NAME_BYTES + sizeof(SESSION_PARTIAL)];
	auto_fd int fd = -1;

	snprintf(partial, sizeof(partial), "%s" SESSION_PARTIAL, name);
	fd = openat(dir_fd, partial,
		    O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -1;
	if (fs_write_all(fd, b->bytes, b->len) < 0 || fsync(fd) < 0 ||
	    renameat(dir_fd, partial, dir_fd, name) < 0 || fsync(dir_fd) < 0) {
		int saved = errno;

		(void)unlinkat(dir_fd, partial, 0); /* swept at the next start else */
		errno = saved;
		return -1;
	}
	return 0;
}

int store_save(const struct sessions *s, const struct session *one, struct err *e)
{
	char name[NAME_BYTES];
	struct buf b;
	int rc;

	buf_init(&b, FILE_BYTES);
	file_name(one, name);
	rc = describe(one, &b) < 0 ? -1 : write_whole(s->index_fd, name, &b);
	buf_done(&b);
	if (rc == 0)
		return 0;
	if (errno == ENOSPC || errno == EDQUOT)
		return err_server(e, 507, "disk_full",
				  "the state directory of this server is full");
	return err_errno(e, "keep a session");
}

static void get_text(const struct json *v, const char *name, char *out, size_t room)
{
	const struct json *m = json_member(v, name);
	const char *text = m ? json_text(m, NULL) : NULL;

	snprintf(out, room, "%s", text ? text : "");
}

static uint64_t get_number(const struct json *v, const char *name)
{
	const struct json *m = json_member(v, name);

	return m && json_is_number(m) ? (uint64_t)json_double(m) : 0;
}

static bool take_key(const struct json *v, const char *name, uint8_t out[SESSION_KEY])
{
	const struct json *m = json_member(v, name);
	const char *text = m ? json_text(m, NULL) : NULL;
	unsigned byte;

	if (!text || strlen(text) != 2 * (size_t)SESSION_KEY ||
	    strspn(text, "0123456789abcdef") != 2 * (size_t)SESSION_KEY)
		return false;
	for (size_t i = 0; i < SESSION_KEY; i++) {
		const char two[3] = {text[2 * i], text[2 * i + 1], 0};

		byte = (unsigned)strtoul(two, NULL, 16);
		out[i] = (uint8_t)byte;
	}
	return true;
}

static void fill_checkpoints(struct session *one, const struct json *list)
{
	const size_t count = json_count(list);

	one->checkpoint = mem_array(count + 1, sizeof(*one->checkpoint));
	for (size_t i = 0; i < count; i++) {
		const struct json *v = json_item(list, i);
		struct session_checkpoint *c = &one->checkpoint[one->checkpoint_count];

		c->created_sec = get_number(v, "created");
		one->checkpoint_count += take_key(v, "id", c->key);
	}
}

static void fill(struct session *one, const struct json *v)
{
	const struct json *env = json_member(v, "env");
	const size_t count = json_count(env);

	get_text(v, "scope_type", one->scope_type, sizeof(one->scope_type));
	get_text(v, "scope_id", one->scope_id, sizeof(one->scope_id));
	get_text(v, "image", one->image, sizeof(one->image));
	one->read_only = get_number(v, "read_only") != 0;
	one->root = get_number(v, "root") != 0;
	one->allow_network = session_network_text(json_member(v, "allow_network"));
	one->created_sec = get_number(v, "created");
	one->timeout_ms = (uint32_t)get_number(v, "timeout_ms");
	one->max_file_bytes = get_number(v, "max_file_bytes");
	one->max_files = get_number(v, "max_files");
	one->env = mem_array(count + 1, sizeof(*one->env));
	for (size_t i = 0; i < count; i++) {
		const char *text = json_text(json_item(env, i), NULL);

		one->env[i] = mem_copy(text ? text : "");
	}
	written_fill(one, json_member(v, "written"));
	fill_checkpoints(one, json_member(v, "checkpoints"));
	(void)take_key(v, "key", one->key); /* a fork's is none of its name */
}

/* 0: taken, or none that we know of; -1 and *e */
static int take_one(struct sessions *s, const char *name, const struct json *v,
		    struct err *e)
{
	const uint64_t version = get_number(v, "version");
	char id[SESSION_ID], owner[SESSION_OWNER], own[NAME_BYTES];
	struct session *one;

	if (version > VERSION)
		return err_ours(e,
				"session-index/%s in the state directory has form %llu, "
				"of a newer sandbox-server; this one knows %d: start "
				"that one again, or set another SANDBOX_STATE_DIR",
				name, (unsigned long long)version, VERSION);
	get_text(v, "id", id, sizeof(id));
	get_text(v, "owner", owner, sizeof(owner));
	one = store_add(s, owner, id);
	fill(one, v);
	file_name(one, own);
	if (strcmp(own, name) != 0) {
		log_warn("session.index", "unreadable=%s", name);
		s->first = one->next;
		store_free(one);
		return 0;
	}
	return version == VERSION ? 0 : store_save(s, one, e);
}

/* one that is not whole is left as it is */
static int load_one(struct sessions *s, const char *name, struct err *e)
{
	struct stat st;
	const bool fits = fstatat(s->index_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
			  st.st_size < FILE_BYTES;
	/* no larger than it is: malloc keeps whatever is as large as what it once gave
	 * back */
	const size_t room = fits ? (size_t)st.st_size + 1 : 1;
	auto_free char *text = mem_zero(room);
	const ssize_t len = fits ? fs_read_at(s->index_fd, name, text, room) : -1;
	struct json *v = NULL;
	int rc;

	if (len > 0)
		v = json_parse(text, (size_t)len, &json_request_limits, NULL);
	if (!v) {
		log_warn("session.index", "unreadable=%s", name);
		return 0;
	}
	rc = take_one(s, name, v, e);
	json_free(v);
	return rc;
}

int sessions_load(struct sessions *s, struct err *e)
{
	auto_fd int fd = -1;
	struct dirent *d;
	DIR *dir;
	int rc = 0;

	if (s->index_fd < 0)
		return 0;
	fd = openat(s->index_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir)
		return err_errno(e, "read the sessions that there are");
	(void)take_fd(&fd);
	while (rc == 0 && (d = readdir(dir))) {
		const size_t len = strlen(d->d_name);

		if (d->d_name[0] == '.')
			continue;
		if (len > strlen(SESSION_PARTIAL) &&
		    strcmp(d->d_name + len - strlen(SESSION_PARTIAL), SESSION_PARTIAL) ==
			    0)
			(void)unlinkat(s->index_fd, d->d_name, 0); /* never told of */
		else
			rc = load_one(s, d->d_name, e);
	}
	closedir(dir);
	return rc;
}

size_t sessions_count(const struct sessions *s)
{
	size_t n = 0;

	for (const struct session *one = s->first; one; one = one->next)
		n++;
	return n;
}

struct sessions *sessions_new(struct loop *l, const struct settings *set, int index_fd,
			      const char *why)
{
	struct sessions *s = mem_zero(sizeof(*s));
	uint64_t ms = 0;

	s->loop = l;
	s->settings = set;
	s->index_fd = index_fd;
	if (why)
		snprintf(s->why, sizeof(s->why), "%s", why);
	/* both were looked at when the settings were read */
	s->idle_sec = num_duration_ms(set->session_idle, &ms) == 0 ? ms / 1000 : 0;
	s->lifetime_sec = num_duration_ms(set->session_lifetime, &ms) == 0 ? ms / 1000
									   : 0;
	s->mode = mem_zero(sizeof(*s->mode));
	s->mode->id = MODE_SHELL;
	s->mode->name = "session";
	s->mode->on_disk = true;
	s->mode->install_row = s->mode->typescript_row = -1;
	return s;
}

static void tell_share(const struct settings *settings)
{
	const struct share share = share_now(settings);
	const unsigned long long limit = share.limit;

	if (share.fewer_commands)
		log_warn("limit.lower",
			 "commands_in_sessions=%u reason=\"RLIMIT_NOFILE is %llu\"",
			 share.commands, limit);
	if (share.fewer_brokers)
		log_warn("limit.lower",
			 "sessions_with_network=%u reason=\"RLIMIT_NOFILE is %llu\"",
			 share.brokers, limit);
}

void sessions_set_jobs(struct sessions *s, struct jobs *j, const struct setup *setup)
{
	s->jobs = j;
	s->exec_row = setup->session_row;
	s->image_row = setup->session_row + 1;
	s->files_row = setup->session_row + 2;
	if (!setup->root_ranges)
		memcpy(s->root_why, setup->root_why, sizeof(s->root_why));
	s->volume_count = setup->volumes;
	for (uint32_t i = 0; i < setup->volumes; i++)
		memcpy(s->volume[i], setup->volume[i].name, sizeof(s->volume[i]));
	modes_session_limits(s->settings, &s->mode->defaults);
	tell_share(s->settings);
	sweep_start(s);
}

void sessions_free(struct sessions *s)
{
	struct session *one;

	if (!s)
		return;
	loop_timer_stop(s->loop, &s->sweep);
	while (s->calls)
		session_call_free(s, s->calls);
	while ((one = s->first)) {
		s->first = one->next;
		store_free(one);
	}
	if (s->kept)
		store_free(s->kept);
	sessions_set_images(s, "", 0);
	defer_close(&s->index_fd);
	free(s->mode);
	free(s);
}

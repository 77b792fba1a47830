/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * prepare.c - settings + mode + request to a plan and an input memfd
 *
 * Limits are clamped here and nowhere else in the server; the launcher has the ceilings
 * too and refuses what is above them.
 */
#include "job/job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/fs.h"
#include "base/mem.h"
#include "base/sha256.h"
#include "config/mode.h"
#include "config/settings.h"
#include "job/jobs.h"
#include "wire/input.h"

#define PIPE_BYTES 65536 /* that fit into a new pipe */
#define INSTALL_BYTES \
	(256u << 10) /* of a list of requirements, as many as there may be */

static void free_words(char **words)
{
	for (char **w = words; w && *w; w++)
		free(*w);
	free(words);
}

static void free_files(struct run_request *r)
{
	for (size_t i = 0; i < r->file_count; i++) {
		free(r->files[i].name);
		buf_done(&r->files[i].data);
	}
	free(r->files);
	r->files = NULL;
	r->file_count = 0;
}

void request_done(struct run_request *r)
{
	if (!r)
		return;
	buf_done(&r->code);
	buf_done(&r->stdin_text);
	free_files(r);
	free_words(r->args);
	free_words(r->env);
	free(r->network);
	free_words(r->requirements);
	free(r->session.cwd);
	free(r->session.name);
	memset(r, 0, sizeof(*r));
}

/* the launcher tells them apart, and needs no names */
static uint64_t owner_number(const char *token)
{
	uint8_t hash[SHA256_BYTES];
	struct sha256 h;
	uint64_t n;

	if (!token[0])
		return 0;
	sha256_begin(&h);
	sha256_add(&h, token, strlen(token));
	sha256_end(&h, hash);
	memcpy(&n, hash, sizeof(n));
	return n | 1;
}

/* what is wanted, or the default where that is 0, but never above the ceiling */
static uint32_t clamp(uint32_t wanted, uint64_t usual, uint64_t ceiling)
{
	uint64_t n = wanted ? wanted : usual;

	if (n > ceiling)
		n = ceiling;
	return n > UINT32_MAX ? UINT32_MAX : (uint32_t)n;
}

void job_limits(const struct settings *s, const struct mode *m,
		const struct limits *wanted, struct limits *out)
{
	const struct limits *own = &m->defaults;
	uint64_t memory_mb = s->memory_mb ? s->memory_mb : own->memory_mb;
	uint64_t pids = s->pids ? s->pids : own->pids;
	uint64_t disk_mb = s->disk_mb ? s->disk_mb : own->disk_mb;
	struct limits l = {0};
	uint64_t cpu_ms;

	l.wall_ms = clamp(wanted->wall_ms, s->timeout_sec * 1000,
			  s->max_timeout_sec * 1000);
	cpu_ms = s->cpu_sec ? s->cpu_sec * 1000 : l.wall_ms;
	l.cpu_ms = clamp(wanted->cpu_ms, cpu_ms, cpu_ms);
	l.memory_mb = clamp(wanted->memory_mb, memory_mb, memory_mb);
	l.pids = clamp(wanted->pids, pids, pids);
	l.disk_mb = clamp(wanted->disk_mb, disk_mb, disk_mb);
	/* the tmpfs is memory: a full disk must not look like a lack of memory */
	if (l.disk_mb > l.memory_mb / 2 && !m->on_disk)
		l.disk_mb = l.memory_mb / 2;
	l.output_kb = clamp(wanted->output_kb, s->max_output_kb, s->output_ceiling_kb);
	*out = l;
}

static int add_record(struct buf *b, enum input_kind kind, const char *name,
		      const void *data, size_t len)
{
	static const char zeros[INPUT_ALIGN];
	struct input_record head = {
		.kind = kind, .name_len = (uint32_t)strlen(name), .data_len = len};
	size_t end = b->len + input_size(head.name_len, len);

	if (buf_add(b, &head, sizeof(head)) < 0 ||
	    buf_add(b, name, head.name_len + 1u) < 0 || buf_add(b, data, len) < 0)
		return -1;
	return buf_add(b, zeros, end - b->len); /* the NUL behind the data, and padding */
}

static int add_words(struct buf *b, enum input_kind kind, char *const *words)
{
	for (char *const *w = words; w && *w; w++)
		if (add_record(b, kind, "", *w, strlen(*w)) < 0)
			return -1;
	return 0;
}

static int add_traceparent(struct buf *b, const char *traceparent)
{
	char text[128];

	if (!traceparent[0])
		return 0;
	snprintf(text, sizeof(text), "TRACEPARENT=%s", traceparent);
	return add_record(b, INPUT_ENV, "", text, strlen(text));
}

static bool is_set(char *const *env, const char *word)
{
	const size_t len = strcspn(word, "=") + 1;

	while (env && *env && strncmp(*env, word, len) != 0)
		env++;
	return env && *env;
}

static bool has_network(const struct run_request *r)
{
	return r->network || r->pod;
}

/* a request's own come first, and stay what they are */
static int add_network(struct buf *b, const struct settings *s,
		       const struct run_request *r, const char *proxy)
{
	char text[NETWORK_WORD];

	for (size_t i = 0; has_network(r) && network_word(s, proxy, i, text); i++)
		if (text[0] && !is_set(r->env, text) &&
		    !(r->session.image && network_word_of_host(i)) &&
		    add_record(b, INPUT_ENV, "", text, strlen(text)) < 0)
			return -1;
	return 0;
}

static size_t words_size(char *const *words)
{
	size_t n = 0;

	for (char *const *w = words; w && *w; w++)
		n += input_size(0, strlen(*w));
	return n;
}

static size_t whole_size(const struct run_request *r)
{
	/* the code, a TRACEPARENT, the end */
	size_t n = input_size(0, r->code.len) + input_size(0, 128) + input_size(0, 0);

	n += input_size(0, r->stdin_text.len);

	if (r->session.cwd)
		n += input_size(0, strlen(r->session.cwd));
	if (has_network(r))
		n += NETWORK_WORDS * input_size(0, NETWORK_WORD);

	for (size_t i = 0; i < r->file_count; i++)
		n += input_size(strlen(r->files[i].name), r->files[i].data.len);
	return n + words_size(r->args) + words_size(r->env);
}

static int fill(struct buf *b, const struct settings *s, const struct run_request *r)
{
	if (r->session.how == SESSION_NOT && !r->session.kept &&
	    add_record(b, INPUT_SCRIPT, "", r->code.bytes, r->code.len) < 0)
		return -1;
	if (s->docker && r->stdin_text.len &&
	    add_record(b, INPUT_STDIN, "", r->stdin_text.bytes, r->stdin_text.len) < 0)
		return -1;
	if (r->session.cwd &&
	    add_record(b, INPUT_CWD, "", r->session.cwd, strlen(r->session.cwd)) < 0)
		return -1;
	for (size_t i = 0; i < r->file_count; i++)
		if (add_record(b, INPUT_FILE, r->files[i].name, r->files[i].data.bytes,
			       r->files[i].data.len) < 0)
			return -1;
	if (add_words(b, INPUT_ARG, r->args) < 0 || add_words(b, INPUT_ENV, r->env) < 0 ||
	    add_traceparent(b, r->traceparent) < 0 ||
	    add_network(b, s, r, r->pod ? "" : NULL) < 0)
		return -1;
	return add_record(b, INPUT_END, "", NULL, 0);
}

/* "coding: utf-8", of which `name` is what follows the word */
static bool is_utf8(const char *name, const char *end)
{
	while (name < end && (*name == ':' || *name == '=' || *name == ' '))
		name++;
	return end - name > 5 && strncasecmp(name, "utf-8", 5) == 0 &&
	       strchr(" \t\r\n", name[5]);
}

/* `at` is in a line that is all comment, of text that begins at `code` */
static bool in_comment(const char *code, const char *at)
{
	static const char mark[] = "\xef\xbb\xbf"; /* of utf-8, before the first line */
	const char *line = at;

	while (line > code && line[-1] != '\n' && line[-1] != '\r')
		line--;
	if (line == code && at - line >= 3 && memcmp(line, mark, 3) == 0)
		line += 3;
	while (*line == ' ' || *line == '\t' || *line == '\f')
		line++;
	return *line == '#';
}

/* A comment in one of the first two lines may name an encoding that is not UTF-8: python
 * then reads its script a second time, from its beginning. */
static bool names_encoding(const char *code, size_t len)
{
	const char *const behind = code + len;
	const char *end = code, *at = code;

	for (int lines = 0; lines < 2 && end < behind; lines++) {
		end = memchr(end, '\n', (size_t)(behind - end));
		end = end ? end + 1 : behind;
	}
	while (at < end && (at = memmem(at, (size_t)(end - at), "coding", 6))) {
		at += 6;
		if (!is_utf8(at, end) && in_comment(code, at))
			return true;
	}
	return false;
}

/* Variables that an interpreter or its C library looks at when it starts; a '*' stands
 * for any end. */
static const char *const read_at_start[] = {
	"PYTHON*", "NODE_*",     "UV_*", "OPENSSL_*", "SSL_*", "LD_*",
	"GLIBC_*", "MALLOC_*",   "LANG", "LANGUAGE",  "LC_*",  "LOCPATH",
	"NLSPATH", "GCONV_PATH", "TZ",   "TZDIR",
};

static bool is_read_at_start(const char *variable)
{
	const size_t len = strcspn(variable, "=");

	for (size_t i = 0; i < sizeof(read_at_start) / sizeof(*read_at_start); i++) {
		const char *name = read_at_start[i];
		const size_t known = strcspn(name, "*");

		if (strncmp(name, variable, known) == 0 && (name[known] || known == len))
			return true;
	}
	return false;
}

/* Beside its script a request may have a module of its own, by whose name a preloaded
 * python has imported another already. */
static bool has_imported(const struct mode *mode, const char *file)
{
	const size_t len = strcspn(file, "./");

	if (!mode->imported)
		return true;
	for (char *const *name = mode->imported; *name; name++)
		if (strncmp(*name, file, len) == 0 && !(*name)[len])
			return true;
	return false;
}

/* what an interpreter looks at when it starts cannot be given to one that has started */
static enum plan_cold cold_of(const struct settings *s, const struct run_request *r)
{
	const enum mode_id id = r->mode->id;
	/* python has a word for where its packages are */
	const bool words = (r->args && r->args[0]) || (r->env && r->env[0]) ||
			   r->traceparent[0] || (r->requirements && id == MODE_PYTHON);

	if (id != MODE_PYTHON && id != MODE_NODE)
		return 0;
	/* it may have other versions of the modules that are imported already */
	if (r->requirements && s->preload && id == MODE_PYTHON)
		return COLD_ALWAYS;
	for (char *const *w = r->env; w && *w; w++) /* a module may have looked too */
		if ((s->preload && id == MODE_PYTHON) || is_read_at_start(*w))
			return COLD_ALWAYS;
	/* it would be read, and understood, before the end of it starts the clock */
	if (r->code.len > PIPE_BYTES)
		return COLD_ALWAYS;
	for (size_t i = 0; i < r->file_count; i++)
		if (id == MODE_NODE
			    ? strcmp(r->files[i].name, "package.json") == 0
			    : s->preload && has_imported(r->mode, r->files[i].name))
			return COLD_ALWAYS;
	if (id == MODE_PYTHON && names_encoding(r->code.bytes, r->code.len))
		return COLD_ALWAYS;
	return words ? COLD_UNLESS_WORDS : 0;
}

/* what an installer is given: the list as its arguments, and as a file for people; npm
 * takes the directory with a package.json for its own */
static int fill_install(struct buf *b, const struct job *install,
			const struct run_request *wanted)
{
	const struct run_request *r = &install->request;
	static const char project[] = "{\"private\":true}\n";
	char proxy[EGRESS_SECRET + 64];
	struct buf list;
	int rc = 0;

	snprintf(proxy, sizeof(proxy), "http://install:%s@127.0.0.1:%u", install->secret,
		 install->egress.port);
	buf_init(&list, INSTALL_BYTES);
	for (char *const *w = wanted->requirements; rc == 0 && *w; w++)
		rc = buf_printf(&list, "%s\n", *w);
	if (rc == 0)
		rc = add_record(b, INPUT_FILE, "requirements.txt", list.bytes, list.len);
	if (rc == 0 && wanted->mode->id == MODE_NODE)
		rc = add_record(b, INPUT_FILE, "package.json", project, strlen(project));
	if (rc == 0 && wanted->mode->npmrc)
		rc = add_record(b, INPUT_FILE, ".npmrc", wanted->mode->npmrc,
				strlen(wanted->mode->npmrc));
	buf_done(&list);
	if (rc < 0 || add_words(b, INPUT_ARG, wanted->requirements) < 0 ||
	    add_words(b, INPUT_ENV, r->env) < 0 ||
	    add_network(b, install->jobs->settings, r,
			install->secret[0] ? proxy : NULL) < 0)
		return -1;
	return add_record(b, INPUT_END, "", NULL, 0);
}

int prepare_install(struct job *install, const struct run_request *wanted, struct err *e)
{
	struct buf input;

	buf_init(&input, 4 * INSTALL_BYTES);
	if (fill_install(&input, install, wanted) < 0) {
		buf_done(&input);
		return err_errno(e, "pack the input of an install");
	}
	install->plan = (struct plan){.row = install->request.row,
				      .limits = install->request.limits,
				      .input_bytes = input.len,
				      .has_layer = 1,
				      .cold = COLD_ALWAYS};
	install_key(wanted, install->plan.layer);
	if (install->request.network) {
		install->plan.network = install->hears ? NETWORK_HOST_PORT
						       : NETWORK_BROKER;
		install->plan.port = install->egress.port;
	}
	install->input_fd = fs_sealed("input", input.bytes, input.len);
	buf_done(&input);
	return install->input_fd < 0 ? err_errno(e, "seal the input of an install") : 0;
}

int prepare_job(struct job *job, struct err *e)
{
	struct run_request *r = &job->request;
	struct buf input;

	buf_init(&input, whole_size(r));
	if (buf_reserve(&input, input.cap_bytes) < 0 ||
	    fill(&input, job->jobs->settings, r) < 0) {
		buf_done(&input);
		return err_errno(e, "pack the input of a run");
	}
	job->plan = (struct plan){.row = r->row, .limits = r->limits};
	job->plan.input_bytes = input.len;
	job->plan.network = r->pod       ? NETWORK_POD
			    : r->network ? NETWORK_BROKER
					 : NETWORK_NONE;
	job->plan.cold = r->ahead ? COLD_ALWAYS : cold_of(job->jobs->settings, r);
	job->plan.ahead = r->ahead;
	job->plan.session = r->session.how;
	job->plan.kept = r->session.kept;
	memcpy(job->plan.session_key, r->session.key, SESSION_KEY);
	job->plan.owner = r->session.how == SESSION_NOT ? 0 : owner_number(r->token);
	job->plan.open = r->session.open;
	memcpy(job->plan.other_key, r->session.other_key, SESSION_KEY);
	job->plan.count = r->session.count;
	job->plan.force = r->session.force;
	if (r->requirements) {
		job->plan.has_layer = 1;
		install_key(r, job->plan.layer);
	}
	job->input_fd = fs_sealed("input", input.bytes, input.len);
	buf_done(&input);
	if (job->input_fd < 0)
		return err_errno(e, "seal the input of a run");
	free_files(r);
	free_words(r->args);
	r->args = NULL;
	if (job->jobs->settings->docker)
		buf_done(&r->stdin_text); /* it is in there too */
	return 0;
}

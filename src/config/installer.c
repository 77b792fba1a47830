/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * installer.c - what installs packages for a mode: uv for python, npm for node
 *
 * Runs in: the supervisor, once, at start. An installer is a row like any program's: it
 * runs in a sandbox, with limits of its own, and what it is told is all here. What it
 * leaves in `layer` becomes a layer of packages.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/defer.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sha256.h"
#include "config/binds.h"
#include "config/index.h"
#include "config/mode_parts.h"
#include "config/settings.h"
#include "egress/rules.h"

#define LAYER_FORMAT "2" /* of what a layer is made; another one makes all of them anew */

/* a program, and not a script that looks for one elsewhere: that would not find it in a
 * sandbox */
static bool is_program(const char *path)
{
	auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
	char magic[SELFMAG];

	return fd >= 0 && read(fd, magic, sizeof(magic)) == (ssize_t)sizeof(magic) &&
	       memcmp(magic, ELFMAG, SELFMAG) == 0;
}

/* where the module of that name says uv is, if python has it */
static char *ask_uv(const struct runtime *r)
{
	const char *const argv[] = {r->exe, "-c",
				    "import uv; print(uv.find_uv_bin(), end='')", NULL};

	return runtime_say(argv);
}

static char *find_uv(const struct runtime *r)
{
	char *found = runtime_find("uv", is_program);

	if (!found)
		found = ask_uv(r);
	if (found && (found[0] != '/' || !is_program(found))) {
		free(found);
		found = NULL;
	}
	return found;
}

static bool is_script(const char *path)
{
	auto_free char *real = realpath(path, NULL);
	const size_t len = real ? strlen(real) : 0;

	return len > 3 && strcmp(real + len - 3, ".js") == 0;
}

/* the directory that many levels above a file */
static char *above(const char *path, int levels)
{
	char *top = mem_copy(path), *slash;

	while (levels-- > 0 && (slash = strrchr(top, '/')) && slash > top)
		*slash = '\0';
	return top;
}

/* npm is a program for node: the one beside it, else the one in PATH */
static char *find_npm(const struct runtime *r)
{
	auto_free char *beside = r->modules
					 ? mem_printf("%s/npm/bin/npm-cli.js", r->modules)
					 : NULL;
	auto_free char *found = NULL;

	if (beside && access(beside, R_OK) == 0)
		return take_ptr(&beside);
	found = runtime_find("npm", is_script);
	return found ? realpath(found, NULL) : NULL;
}

/* -1: one has no host that can be reached; an installer would show it whole in its error,
 * with its password */
static int add_hosts(struct mode *m, char *const *urls, size_t count, struct err *e)
{
	int rc = 0;

	if (count && !m->install_hosts)
		m->install_hosts = mem_zero(sizeof(*m->install_hosts));
	for (size_t i = 0; rc == 0 && i < count; i++)
		rc = index_host(urls[i], m->install_hosts, e);
	return rc;
}

/* taken over; NULL: not known */
static int add_default(struct mode *m, char *url, struct err *e)
{
	auto_free char *own = url;

	return add_hosts(m, &own, own ? 1 : 0, e);
}

/* the index that uv has of its own is in its help: "(by default: <https://...>)" */
static char *ask_default(const char *uv)
{
	static const char lead[] = "package index (by default: <";
	const char *const argv[] = {uv,        "pip",   "install", "--help",
				    "--color", "never", NULL};
	auto_free char *said = runtime_say_all(argv);
	const char *at = said ? strstr(said, lead) : NULL;

	if (!at)
		return NULL;
	at += strlen(lead);
	return mem_copy_n(at, strcspn(at, ">"));
}

/* taken over */
static void give_word(struct mode *m, char *word)
{
	char **words;
	size_t n = 0;

	while (m->install_env && m->install_env[n])
		n++;
	words = mem_array(n + 2, sizeof(*words));
	if (n)
		memcpy(words, m->install_env, n * sizeof(*words));
	words[n] = word;
	free(m->install_env);
	m->install_env = words;
}

/* as variables: everybody on this host can read the arguments of a process, and there may
 * be a password in a URL */
static void give_indexes(struct mode *m, const struct index *x)
{
	char *more = mem_copy("UV_INDEX="), *longer;
	const size_t none = strlen(more);

	if (x->url_count)
		give_word(m, mem_printf("UV_DEFAULT_INDEX=%s", x->urls[0]));
	for (size_t i = 0; i < x->url_count + x->extra_count; i++) {
		const char *url = i < x->url_count ? x->urls[i]
						   : x->extra[i - x->url_count];

		if (i == 0 && x->url_count)
			continue;
		longer = mem_printf("%s%s%s", more, more[none] ? " " : "", url);
		free(more);
		more = longer;
	}
	if (more[none])
		give_word(m, take_ptr(&more));
	free(more);
}

/* a file that the host's own installer is pointed to; NULL: none is */
static int give_certificates(struct setup *setup, struct mode *m, const char *name,
			     const char *path, struct err *e)
{
	if (!path)
		return 0;
	if (binds_tree(setup, path, e) < 0)
		return -1;
	give_word(m, mem_printf("%s=%s", name, path));
	return 0;
}

static int give_args(struct setup_row *row, const char *const *words, struct err *e)
{
	for (; *words; words++)
		if (row_arg(row, *words) < 0)
			return err_bad(e,
				       "the arguments of an install do not fit into "
				       "%d bytes",
				       SETUP_WORDS);
	return 0;
}

/* a directory of packages: code of a package may see it, so it has to be one of its own.
 * Returns where it really is, or NULL */
static char *give_directory(struct setup *setup, const char *path, struct err *e)
{
	auto_free char *real = realpath(path, NULL);
	int rc;

	if (!real) {
		(void)err_errno(e, "look at '%s'", path);
		return NULL;
	}
	rc = binds_packages(setup, real, e);
	if (rc == 0)
		(void)err_bad(e,
			      "'%s' is not a directory of its own, and installs would "
			      "see all that is in it: move the packages into one",
			      real);
	return rc > 0 ? take_ptr(&real) : NULL;
}

static int give_links(struct setup *setup, struct mode *m, const struct index *x,
		      struct err *e)
{
	struct setup_row *row = &setup->row[setup->rows];

	m->install_directories = x->link_count > 0;
	for (size_t i = 0; i < x->link_count; i++) {
		auto_free char *real = give_directory(setup, x->links[i], e);

		const char *const words[] = {"--find-links", real, NULL};

		if (!real || give_args(row, words, e) < 0)
			return -1;
	}
	return 0;
}

static int add_python_index(const struct settings *s, const struct runtime *r,
			    struct setup *setup, const char *uv, struct mode *m,
			    struct err *e)
{
	struct setup_row *row = &setup->row[setup->rows];
	static const char *const none[] = {"--no-index", NULL};
	static const char *const best[] = {"--index-strategy", "unsafe-best-match", NULL};
	struct index x;
	int rc = 0;

	if (index_python(s, r->prefix_count ? r->prefixes[0] : NULL, &x, e) < 0) {
		index_done(&x);
		return -1;
	}
	if (!x.alone)
		give_indexes(m, &x);
	if (x.alone || x.best)
		rc = give_args(row, x.alone ? none : best, e);
	if (rc == 0)
		rc = give_certificates(setup, m, "SSL_CERT_FILE",
				       getenv("SSL_CERT_FILE") ? NULL : x.cert, e);
	if (rc == 0)
		rc = give_links(setup, m, &x, e);
	m->install_offline = x.alone;
	if (rc == 0 && !x.alone && x.url_count == 0)
		rc = add_default(m, ask_default(uv), e);
	if (rc == 0 && !x.alone)
		rc = add_hosts(m, x.urls, x.url_count, e);
	if (rc == 0 && !x.alone)
		rc = add_hosts(m, x.extra, x.extra_count, e);
	index_done(&x);
	return rc;
}

static int uv_row(const struct settings *s, const struct runtime *r, struct setup *setup,
		  const char *uv, struct mode *m, struct err *e)
{
	const char *const words[] = {
		"pip",
		"install",
		"--no-config",
		"--color",
		"never",
		"--no-progress",
		"--target",
		"packages",
		"--link-mode",
		"hardlink",
		"--compile-bytecode",
		"--python",
		r->exe,
		s->allow_build ? NULL : "--only-binary",
		":all:",
		NULL,
	};
	struct setup_row *row = &setup->row[setup->rows];

	if (give_args(row, words, e) < 0)
		return -1;
	/* beside the target: files then have one copy, by links */
	if (row_env_word(row, "UV_CACHE_DIR=/work/.uv") < 0 ||
	    row_env_word(row, "UV_PYTHON_DOWNLOADS=never") < 0)
		return err_bad(e, "the environment of uv is too long");
	return add_python_index(s, r, setup, uv, m, e);
}

/* the host's registries, tokens and certificates */
static int give_npmrc(const struct settings *s, const struct runtime *r,
		      struct setup *setup, const char *top, struct mode *m, struct err *e)
{
	const char *extra = getenv("NODE_EXTRA_CA_CERTS");
	struct npmrc x;
	int rc;

	rc = index_npm(s, r->exe, top, &x, e);
	if (x.text.len)
		m->npmrc = mem_printf("%s\n", x.text.bytes + 1);
	if (rc == 0 && !m->install_offline)
		rc = add_hosts(m, x.urls, x.url_count, e);
	if (rc == 0 && !x.has_main && !m->install_offline)
		rc = add_default(m, index_npm_default(top), e);
	if (rc == 0 && x.cafile)
		rc = binds_tree(setup, x.cafile, e) < 0 ? -1 : 0;
	if (extra && (extra[0] != '/' || access(extra, R_OK) < 0))
		extra = NULL;
	if (rc == 0)
		rc = give_certificates(setup, m, "NODE_EXTRA_CA_CERTS", extra, e);
	npmrc_done(&x);
	return rc;
}

/* npm does without a cache that it may not write: one of its own, of links */
static int give_cache(const struct settings *s, const struct runtime *r,
		      struct setup *setup, struct err *e)
{
	static const char with_cache[] = "cp -rs \"$0/.\" \"$HOME/.npm\" && exec \"$@\"";
	auto_free char *cache = give_directory(setup, s->npm_registry, e);
	const char *const words[] = {"/bin/sh", "-c", with_cache, cache, r->exe, NULL};
	struct setup_row *row = &setup->row[setup->rows];

	if (!cache)
		return -1;
	memset(&row->argv, 0, sizeof(row->argv));
	return give_args(row, words, e);
}

static int npm_row(const struct settings *s, const struct runtime *r, struct setup *setup,
		   const char *npm, struct mode *m, struct err *e)
{
	auto_free char *top = above(npm, 2); /* NPM/bin/npm-cli.js */
	struct setup_row *row = &setup->row[setup->rows];
	const char *const words[] = {
		npm,
		"install",
		"--no-audit",
		"--no-fund",
		"--no-progress",
		"--color=false",
		"--no-update-notifier",
		"--logs-max=0",
		/* else an index that is not there takes 70 seconds */
		"--fetch-retry-mintimeout=1000",
		"--fetch-retry-maxtimeout=3000",
		s->allow_build ? NULL : "--ignore-scripts",
		NULL,
	};
	static const char *const offline[] = {"--offline", NULL};

	m->install_offline = s->npm_registry && s->npm_registry[0] == '/';
	m->install_directories = m->install_offline;
	if (m->install_offline && give_cache(s, r, setup, e) < 0)
		return -1;
	if (give_args(row, words, e) < 0 ||
	    (m->install_offline && give_args(row, offline, e) < 0))
		return -1;
	/* a cache is known by its registry too */
	return give_npmrc(s, r, setup, top, m, e);
}

/* all that decides what a list of packages becomes, but the list */
static void make_seed(const struct runtime *r, const struct setup_row *row,
		      struct mode *m)
{
	struct utsname host = {0};
	struct sha256 h;

	(void)uname(&host);
	sha256_begin(&h);
	sha256_add(&h, LAYER_FORMAT, sizeof(LAYER_FORMAT));
	sha256_add(&h, host.machine, strlen(host.machine) + 1);
	sha256_add(&h, r->version, strlen(r->version) + 1);
	sha256_add(&h, r->exe, strlen(r->exe) + 1);
	sha256_add(&h, row->argv.text, sizeof(row->argv.text));
	sha256_add(&h, row->env.text, sizeof(row->env.text));
	for (char *const *w = m->install_env; w && *w; w++)
		sha256_add(&h, *w, strlen(*w) + 1);
	if (m->npmrc)
		sha256_add(&h, m->npmrc, strlen(m->npmrc) + 1);
	sha256_end(&h, m->layer_seed);
}

static void install_limits(const struct settings *s, struct limits *out)
{
	*out = (struct limits){
		.wall_ms = (uint32_t)(s->install_timeout_sec * 1000),
		.cpu_ms = (uint32_t)(s->install_timeout_sec * 1000),
		.memory_mb = 2048,
		.pids = 256,
		.disk_mb = 1024,
		.output_kb = 256,
	};
}

/* what a sandbox must see for it, and what it is told */
static int fill_row(const struct settings *s, const struct runtime *r,
		    struct setup *setup, const char *tool, struct mode *m, struct err *e)
{
	auto_free char *top = above(tool, 2); /* NPM/bin/npm-cli.js */
	static const char *const end[] = {"--", NULL};
	const bool python = r->id == MODE_PYTHON;

	if (binds_program(setup, tool, e) < 0 ||
	    (python ? uv_row : npm_row)(s, r, setup, tool, m, e) < 0)
		return -1;
	if (!m->install_offline && !m->install_hosts)
		return err_bad(e,
			       "%s does not tell which index it has of its own: set %s",
			       python ? "uv" : "npm",
			       python ? "SANDBOX_PYTHON_INDEX" : "SANDBOX_NPM_REGISTRY");
	if (!python && !binds_cover(setup, top) && binds_tree(setup, top, e) < 0)
		return -1;
	return give_args(&setup->row[setup->rows], end, e);
}

/* what did not become one leaves nothing that programs would see */
static int fill_or_undo(const struct settings *s, const struct runtime *r,
			struct setup *setup, const char *tool, struct mode *m,
			struct err *e)
{
	auto_free struct setup_bind *before = mem_array(SETUP_BINDS, sizeof(*before));
	const uint32_t count = setup->binds;

	memcpy(before, setup->bind, sizeof(setup->bind));
	if (fill_row(s, r, setup, tool, m, e) == 0)
		return 0;
	memcpy(setup->bind, before, sizeof(setup->bind));
	setup->binds = count;
	memset(&setup->row[setup->rows], 0, sizeof(setup->row[0]));
	return -1;
}

int installer_row(const struct settings *s, const struct runtime *r, struct setup *setup,
		  struct mode *m, struct err *e)
{
	static const char *const missing[] = {
		"npm is not installed on this host: it comes with node, or with the "
		"package npm",
		"uv is not installed on this host: pip install uv, or put its program "
		"into a directory of PATH"};
	const bool python = r->id == MODE_PYTHON;
	const char *name = python ? "SANDBOX_PYTHON_INDEX" : "SANDBOX_NPM_REGISTRY";
	const char *from = python ? s->python_index : s->npm_registry;
	auto_free char *tool = NULL;
	struct setup_row *row = &setup->row[setup->rows];
	struct runtime as = *r;
	struct err why = {0};

	m->install_row = -1;
	if (from && strcmp(from, INDEX_NONE) == 0) {
		m->no_installer = mem_printf("this server installs none: %s=none", name);
		return 0;
	}
	tool = python ? find_uv(r) : find_npm(r);
	if (!tool) {
		m->no_installer = mem_copy(missing[python]);
		return 0;
	}
	as.exe = python ? tool : r->exe;
	if (mode_row_add(s, &as, python ? "install-python" : "install-node", "", setup,
			 e) < 0)
		return -1;
	/* nobody may ever ask for packages: no reason not to start */
	if (fill_or_undo(s, r, setup, tool, m, &why) < 0) {
		m->no_installer = mem_copy(why.text);
		return 0;
	}
	snprintf(row->layer, sizeof(row->layer), "%s",
		 python ? "packages" : "node_modules");
	row->installs = 1;
	row->no_scripts = !python && !s->allow_build;
	install_limits(s, &row->ceiling);
	m->install_limits = row->ceiling;
	make_seed(r, row, m);
	m->install_row = (int)setup->rows++;
	m->installer = python ? "uv" : "npm";
	return 0;
}

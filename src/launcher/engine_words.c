/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * engine_words.c - what the engine's client is told: the container of a run
 *
 * Every word that takes something away from a container stands here, and none that gives
 * it anything of the host: no mount, no socket, no device, no right.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "launcher/engine.h"
#include "wire/setup.h"

__attribute__((format(printf, 2, 3))) static void word(struct engine_words *w,
						       const char *fmt, ...)
{
	const size_t room = sizeof(w->text) - w->len;
	va_list args;
	int n;

	va_start(args, fmt);
	n = vsnprintf(w->text + w->len, room, fmt, args);
	va_end(args);
	if (n < 0 || (size_t)n >= room || w->count == ENGINE_WORDS) {
		w->len = sizeof(w->text); /* and so it stays */
		return;
	}
	w->word[w->count++] = w->text + w->len;
	w->len += (size_t)n + 1;
}

static int end(struct engine_words *w)
{
	w->word[w->count] = NULL;
	return w->len < sizeof(w->text) ? 0 : -1;
}

static void limits(struct engine_words *w, const struct setup_engine *g,
		   const struct plan *p)
{
	const unsigned disk_mb = p->limits.disk_mb;

	word(w, "--tmpfs=/tmp:rw,exec,nosuid,nodev,mode=1777,size=%um", disk_mb);
	word(w, "--tmpfs=/work:rw,exec,nosuid,nodev,mode=1777,size=%um", disk_mb);
	word(w, "--pids-limit=%u", p->limits.pids + ENGINE_PIDS_OWN);
	word(w, "--memory=%um", g->memory_mb);
	word(w, "--memory-swap=%um", g->memory_mb); /* of both: or it has as much swap */
	word(w, "--cpus=%u.%03u", g->cpu_milli / 1000, g->cpu_milli % 1000);
	word(w, "--ulimit=nofile=4096:4096");
	word(w, "--ulimit=nproc=4096:4096");
}

/* the words of cmd/inside.c */
static void inside(struct engine_words *w, const struct setup *setup,
		   const struct plan *p)
{
	const struct limits *l = &p->limits;

	word(w, "inside");
	word(w, "%s", setup->row[p->row].name);
	word(w, "%u", l->wall_ms);
	word(w, "%u", l->cpu_ms);
	word(w, "%u", l->memory_mb);
	word(w, "%u", l->pids);
	word(w, "%u", l->disk_mb);
	word(w, "%u", p->network == NETWORK_POD);
	word(w, "%u", setup->max_files);
	word(w, "%u", (unsigned)(setup->max_files_bytes >> 20));
	word(w, "%s", setup->output_dir);
}

int engine_words_run(struct engine_words *w, const struct setup *setup,
		     const struct plan *p, const char *name)
{
	const struct setup_engine *g = &setup->engine;

	w->len = w->count = 0;
	word(w, "%s", g->exe);
	word(w, "run");
	word(w, "--rm");
	word(w, "--interactive");
	word(w, "--pull=never");
	word(w, "--name=%s", name);
	word(w, "--label=sandbox-server=run");
	word(w, "--network=%s", p->network == NETWORK_POD ? "bridge" : "none");
	word(w, "--cap-drop=ALL");
	word(w, "--security-opt=no-new-privileges");
	word(w, "--read-only");
	word(w, "--user=%u:%u", ENGINE_UID, ENGINE_UID);
	word(w, "--workdir=/work");
	limits(w, g, p);
	if (g->runtime[0])
		word(w, "--runtime=%s", g->runtime);
	word(w, "--entrypoint=sandbox-server");
	word(w, "%s", g->image);
	inside(w, setup, p);
	return end(w);
}

int engine_words_short(struct engine_words *w, const struct setup *setup, const char *a,
		       const char *b)
{
	w->len = w->count = 0;
	word(w, "%s", setup->engine.exe);
	word(w, "%s", a);
	word(w, "%s", b);
	return end(w);
}

int engine_words_env(struct engine_words *w, const struct setup *setup)
{
	w->len = w->count = 0;
	word(w, "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
	word(w, "HOME=%s", setup->engine.home);
	word(w, "LANG=C.UTF-8");
	if (setup->engine.host[0])
		word(w, "DOCKER_HOST=%s", setup->engine.host);
	return end(w);
}

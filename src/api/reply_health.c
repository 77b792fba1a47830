/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * reply_health.c - GET /health and GET /isolation
 */
#include "api/api.h"

#include <inttypes.h>
#include <string.h>

#include "base/loop.h"
#include "config/mode.h"
#include "config/settings.h"

#ifndef SANDBOX_VERSION
#define SANDBOX_VERSION "dev"
#endif

static int add_text(struct buf *b, const char *text)
{
	return buf_json_string(b, text, strlen(text));
}

static int add_packages(struct buf *b, const struct mode *m)
{
	if (buf_puts(b, ",\"preinstalled_packages\":[") < 0)
		return -1;
	for (size_t i = 0; m->packages && m->packages[i]; i++)
		if ((i && buf_puts(b, ",") < 0) || add_text(b, m->packages[i]) < 0)
			return -1;
	return buf_puts(b, "]");
}

static int add_modes(struct buf *b, const struct modes *m)
{
	if (m->count < 2)
		return 0;
	if (buf_puts(b, ",\"modes\":[") < 0)
		return -1;
	for (size_t i = 0; i < m->count; i++)
		if (buf_printf(b, "%s\"%s\"", i ? "," : "", m->mode[i].name) < 0)
			return -1;
	return buf_puts(b, "]");
}

static int add_layers(struct buf *b, const struct report *r)
{
	if (buf_puts(b, ",\"layers\":{") < 0)
		return -1;
	for (int i = 0; r && i < LAYER_COUNT; i++)
		if (buf_printf(b, "%s\"%s\":%s", i ? "," : "",
			       report_layer_name((enum layer_id)i),
			       r->layer[i].active ? "true" : "false") < 0)
			return -1;
	return buf_puts(b, "}");
}

static int add_missing(struct buf *b, const struct report *r)
{
	const char *comma = "";

	if (buf_puts(b, ",\"missing\":[") < 0)
		return -1;
	for (int i = 0; r && i < LAYER_COUNT; i++) {
		if (!r->layer[i].requested || r->layer[i].active)
			continue;
		if (buf_printf(b, "%s\"%s\"", comma,
			       report_layer_name((enum layer_id)i)) < 0)
			return -1;
		comma = ",";
	}
	return buf_puts(b, "]");
}

/* "lost": what is gone now and why; "last_lost": what was, and is back */
static int add_loss(struct buf *b, const struct report *r, const struct loss *l)
{
	const uint64_t end_ns = l && l->ended_ns ? l->ended_ns : loop_now_ns();
	const struct layer *layer;

	if (!r || !l || !l->began_ns)
		return 0;
	if (buf_printf(b, ",\"%s\":{\"layer\":\"%s\",\"seconds\":%.1f",
		       l->ended_ns ? "last_lost" : "lost",
		       report_layer_name((enum layer_id)l->layer),
		       (double)(end_ns - l->began_ns) / 1e9) < 0)
		return -1;
	if (l->ended_ns)
		return buf_printf(b, ",\"restored_seconds_ago\":%.1f}",
				  (double)(loop_now_ns() - l->ended_ns) / 1e9);
	layer = &r->layer[l->layer];
	if (buf_puts(b, ",\"reason\":") < 0 || add_text(b, layer->reason) < 0)
		return -1;
	return buf_puts(b, "}");
}

static int add_isolation(struct buf *b, const struct report *r, const struct loss *l)
{
	if (buf_printf(b, ",\"isolation\":{\"level\":\"%s\"",
		       report_level_name(r ? r->level : LEVEL_NONE)) < 0 ||
	    add_layers(b, r) < 0 || add_missing(b, r) < 0 || add_loss(b, r, l) < 0)
		return -1;
	return buf_puts(b, "}");
}

/* sandboxes that wait, by mode; nothing where none is wanted */
static int add_warm(struct buf *b, const struct health *h)
{
	const char *comma = "";

	if (!h->settings->warm && !h->settings->warm_fork)
		return 0;
	if (buf_printf(b, ",\"warm\":{\"wanted\":%" PRIu64 ",\"ready\":{",
		       h->settings->warm) < 0)
		return -1;
	for (size_t i = 0; i < h->modes->count; i++) {
		const struct mode *m = &h->modes->mode[i];

		if (buf_printf(b, "%s\"%s\":%u", comma, m->name,
			       h->warm && m->row < h->warm->rows ? h->warm->ready[m->row]
								 : 0) < 0)
			return -1;
		comma = ",";
	}
	return buf_printf(b, "},\"memory_mb\":%.1f,\"memory_limit_mb\":%" PRIu64 "}",
			  h->warm ? (double)h->warm->memory_kb / 1024 : 0.0,
			  h->settings->warm_memory_mb);
}

/* what installs packages for the mode that is the default, and what is kept of them */
static int add_installer(struct buf *b, const struct health *h)
{
	const struct mode *m = &h->modes->mode[0];

	if (m->id != MODE_PYTHON && m->id != MODE_NODE)
		return 0;
	if (m->installer ? buf_printf(b, ",\"installer\":\"%s\"", m->installer) < 0
			 : buf_puts(b, ",\"installer\":null") < 0)
		return -1;
	return buf_printf(
		b, ",\"package_layers\":{\"count\":%" PRIu64 ",\"bytes\":%" PRIu64 "}",
		h->layers ? h->layers->count : 0, h->layers ? h->layers->bytes : 0);
}

int reply_health(struct buf *out, const struct health *h)
{
	const struct mode *first = &h->modes->mode[0];

	if (buf_printf(out, "{\"status\":\"%s\",\"mode\":\"%s\",\"runtime_version\":",
		       h->draining ? "draining" : "healthy", first->name) < 0 ||
	    add_text(out, first->runtime_version ? first->runtime_version : "") < 0 ||
	    buf_printf(out,
		       ",\"capacity\":%" PRIu64 ",\"current_load\":%u,"
		       "\"uptime_seconds\":%lu",
		       h->settings->max_concurrent, h->running, h->uptime_sec) < 0 ||
	    add_packages(out, first) < 0 || add_modes(out, h->modes) < 0 ||
	    add_isolation(out, h->report, h->loss) < 0 || add_warm(out, h) < 0 ||
	    add_installer(out, h) < 0)
		return -1;
	if (h->state_note && (buf_puts(out, ",\"state_directory\":") < 0 ||
			      add_text(out, h->state_note) < 0))
		return -1;
	return buf_puts(out, ",\"version\":\"" SANDBOX_VERSION "\"}");
}

static int add_layer(struct buf *b, const struct layer *l)
{
	if (buf_printf(b, "{\"requested\":%s,\"active\":%s,\"evidence\":",
		       l->requested ? "true" : "false",
		       l->active ? "true" : "false") < 0 ||
	    add_text(b, l->evidence) < 0)
		return -1;
	if (l->reason[0] &&
	    (buf_puts(b, ",\"reason\":") < 0 || add_text(b, l->reason) < 0))
		return -1;
	if (l->fix[0] && (buf_puts(b, ",\"fix\":") < 0 || add_text(b, l->fix) < 0))
		return -1;
	return buf_puts(b, "}");
}

static const char *network_name(const struct report *r)
{
	static const char *const names[NETWORK_COUNT] = {[NETWORK_NONE] = "none",
							 [NETWORK_BROKER] = "broker",
							 [NETWORK_HOST_PORT] = "installs",
							 [NETWORK_POD] = "pod"};

	if (!r->network && r->install_network)
		return "installs";
	return names[r->network];
}

int reply_isolation(struct buf *out, const struct report *r, const struct loss *l)
{
	if (buf_printf(out, "{\"level\":\"%s\",\"layers\":{",
		       report_level_name(r ? r->level : LEVEL_NONE)) < 0)
		return -1;
	for (int i = 0; r && i < LAYER_COUNT; i++)
		if (buf_printf(out, "%s\"%s\":", i ? "," : "",
			       report_layer_name((enum layer_id)i)) < 0 ||
		    add_layer(out, &r->layer[i]) < 0)
			return -1;
	if (buf_puts(out, "}") < 0 || add_loss(out, r, l) < 0)
		return -1;
	if (r && buf_printf(out, ",\"network\":\"%s\",\"refused_messages\":%" PRIu64,
			    network_name(r), r->refused) < 0)
		return -1;
	if (r && r->summary[0] &&
	    (buf_puts(out, ",\"summary\":") < 0 || add_text(out, r->summary) < 0))
		return -1;
	return buf_puts(out, "}");
}

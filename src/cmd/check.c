/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * check.c - which isolation layers work on this host
 *
 * Starts a launcher as `serve` would and shows what its canaries saw. Exit 0 when the
 * minimum holds.
 */
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "base/buf.h"
#include "base/defer.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "cmd/cmd.h"

#define JSON_CAP (256u << 10)

static const char usage[] =
	"usage: sandbox-server check [SETTINGS] [--json]\n\n"
	"Prints every isolation layer: is it active, what a canary run inside a\n"
	"real sandbox saw, and for a missing one the reason and a fix.\n"
	"Exit 0: the minimum (SANDBOX_MIN_ISOLATION) holds; 1: it does not.\n";

static void print_network(const struct settings *s, const struct report *r)
{
	if (s->network_pod)
		printf("network: that of this host, as SANDBOX_NETWORK says\n");
	else if (s->network_rules)
		printf("network: %s\n", r->network
						? "by a broker, as SANDBOX_NETWORK says"
						: "none, below the level namespaces");
}

static void print_table(const struct report *r, uint32_t min_level)
{
	unsigned i;

	printf("%-18s %-7s %s\n", "layer", "active", "evidence");
	for (i = 0; i < LAYER_COUNT; i++) {
		const struct layer *l = &r->layer[i];

		printf("%-18s %-7s %s\n", report_layer_name(i),
		       l->active      ? "yes"
		       : l->requested ? "NO"
				      : "off",
		       l->evidence[0] ? l->evidence : l->reason);
		if (l->reason[0] && l->evidence[0])
			printf("%-26s %s\n", "", l->reason);
		if (l->requested && l->fix[0])
			printf("%-26s fix: %s\n", "", l->fix);
	}
	printf("\nlevel: %s (minimum: %s)\n", report_level_name(r->level),
	       report_level_name(min_level));
	if (r->level < min_level)
		printf("%s\n", r->summary);
}

static int print_report(const struct report *r, const struct settings *s, bool json)
{
	const uint32_t min_level = (uint32_t)s->min_isolation;
	struct buf b;

	if (!json) {
		print_table(r, min_level);
		print_network(s, r);
	} else {
		buf_init(&b, JSON_CAP);
		if (reply_isolation(&b, r, NULL) < 0 || buf_text(&b) < 0)
			return 1;
		printf("%s\n", b.bytes);
		buf_done(&b);
	}
	return r->level >= min_level ? 0 : 1;
}

/* our own flags may stand anywhere between the settings; 1, 0 for help, -1 */
static int read_arguments(struct settings *s, int argc, char **argv, bool *json,
			  struct err *e)
{
	auto_free char **rest = mem_array((size_t)argc + 1, sizeof(char *));
	int i, used, count = 0;

	for (i = 0; i < argc; i++) {
		if (strcmp(argv[i], "--help") == 0) {
			print_usage(usage);
			return 0;
		}
		if (strcmp(argv[i], "--json") == 0)
			*json = true;
		else
			rest[count++] = argv[i];
	}
	used = settings_load(s, count, rest, NULL, e);
	if (used >= 0 && used < count)
		return err_bad(e, "unknown argument '%s' (try check --help)", rest[used]);
	return used < 0 ? -1 : 1;
}

int cmd_check(int argc, char **argv)
{
	struct launched launcher = {.pid_fd = -1, .socket_fd = -1};
	struct prepared p = {.start_fd = -1,
			     .artifacts_fd = -1,
			     .sessions_fd = -1,
			     .sessions_lock_fd = -1,
			     .images_fd = -1,
			     .own = {-1, -1, "", ""},
			     .ledger_fd = -1};
	struct report report;
	struct err e = {0};
	bool json = false;
	int go_on, status = 0;

	log_setup(LOG_ERROR, LOG_TEXT, "check");
	go_on = read_arguments(&p.settings, argc, argv, &json, &e);
	p.settings.log_level = LOG_ERROR;
	if (go_on > 0 && prepare(&p, 1, TO_CHECK, &e) == 0 &&
	    launch(&p, &launcher, &e) == 0 &&
	    launched_report(&launcher, &report, &e) == 0) {
		status = print_report(&report, &p.settings, json);
	} else if (go_on != 0) {
		fprintf(stderr, "sandbox-server: %s\n", e.text);
		status = 1;
	}
	launched_done(&launcher);
	prepared_done(&p);
	return status;
}

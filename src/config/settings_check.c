/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * settings_check.c - what settings become together, and what must hold between them
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/defer.h"
#include "base/err.h"
#include "base/mem.h"
#include "config/settings.h"
#include "config/settings_rows.h"
#include "egress/rules.h"
#include "wire/engine.h"

/* SANDBOX_MODE names the default, SANDBOX_SUPPORTED_LANGUAGES what is served besides */
static void settle_mode(struct settings *s)
{
	char *all;

	if (s->mode && strcmp(s->mode, "auto") == 0) {
		free(s->mode);
		s->mode = NULL;
	}
	if (s->languages) {
		all = s->mode ? mem_printf("%s,%s", s->mode, s->languages)
			      : mem_copy(s->languages);
		free(s->mode);
		s->mode = all;
		free(s->languages);
		s->languages = NULL;
	}
	s->mode_named = s->mode != NULL;
}

/* "FILE:LINE: " of a value that is found wrong late; "" unless a file has it */
static char *found_at(const struct settings *s, const char *key)
{
	const struct setting *row = setting_find(key, strlen(key));

	return setting_source(s, row)->from == FROM_FILE
		       ? mem_printf("%s:%u: ", s->file, setting_source(s, row)->line)
		       : mem_copy("");
}

/* none is no rules at all: an empty list allows nothing */
static int settle_network(struct settings *s, struct err *e)
{
	auto_free char *where = found_at(s, "SANDBOX_NETWORK");
	struct rules *r = mem_zero(sizeof(*r));
	struct err why = {0};
	int rc = 0;

	s->network_pod = strcmp(s->network, "pod") == 0;
	if (strcmp(s->network, "allow") == 0)
		rules_add_any(r);
	else if (!s->network_pod && strcmp(s->network, "off") != 0 &&
		 rules_parse(r, s->network, &why) < 0)
		rc = err_bad(e, "%sSANDBOX_NETWORK: %s", where, why.text);
	free(s->network_rules);
	s->network_rules = rc == 0 && r->count ? take_ptr(&r) : NULL;
	free(r);
	return rc;
}

/* what libraries are pointed to; where they look by themselves differs */
static void find_ca_bundle(struct settings *s)
{
	static const char *const usual[] = {"/etc/ssl/certs/ca-certificates.crt",
					    "/etc/ssl/certs/ca-bundle.crt"};
	const char *found = getenv("SSL_CERT_FILE");

	if (found && (found[0] != '/' || access(found, R_OK) < 0))
		found = NULL;
	for (size_t i = 0; !found && i < sizeof(usual) / sizeof(usual[0]); i++)
		if (access(usual[i], R_OK) == 0)
			found = usual[i];
	free(s->ca_bundle);
	s->ca_bundle = found ? mem_copy(found) : NULL;
}

/* what a container has is more than its program's; the network is the engine's */
static int settle_docker(struct settings *s, struct err *e)
{
	uint64_t most;

	s->docker = strcmp(s->type, "docker") == 0;
	s->docker_memory_mb = setting_memory_mb(s->docker_memory);
	if (!s->docker)
		return 0;
	if (strcmp(s->network, "off") != 0)
		return err_bad(e,
			       "SANDBOX_NETWORK=%s: with SANDBOX_TYPE=docker it is "
			       "DOCKER_NETWORK_ENABLED that allows a network",
			       s->network);
	if (s->warm_fork || s->preload)
		return err_bad(e, "%s: no sandbox waits with SANDBOX_TYPE=docker",
			       s->preload ? "SANDBOX_PRELOAD" : "SANDBOX_WARM_FORK=on");
	s->network_pod = s->docker_network;
	s->warm = 0;
	most = s->docker_memory_mb - ENGINE_MEMORY_OWN;
	if (s->memory_mb == 0 || s->memory_mb > most)
		s->memory_mb = most;
	return 0;
}

int settings_check(struct settings *s, struct err *e)
{
	settle_mode(s);
	if (settle_network(s, e) < 0 || settle_docker(s, e) < 0)
		return -1;
	find_ca_bundle(s);
	if (s->max_timeout_sec < s->timeout_sec)
		return err_bad(e,
			       "SANDBOX_MAX_TIMEOUT_SEC=%" PRIu64
			       " is below SANDBOX_TIMEOUT_SEC=%" PRIu64,
			       s->max_timeout_sec, s->timeout_sec);
	if (s->output_ceiling_kb < s->max_output_kb)
		return err_bad(e,
			       "SANDBOX_OUTPUT_CEILING_KB=%" PRIu64
			       " is below SANDBOX_MAX_OUTPUT_KB=%" PRIu64,
			       s->output_ceiling_kb, s->max_output_kb);
	return 0;
}

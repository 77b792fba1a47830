/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * reply_store.c - runs that are kept: which, and what of them
 */
#include <string.h>

#include "api/api.h"
#include "config/settings.h"
#include "job/artifacts.h"

#define STORED_CAP_BYTES (256u << 20)

void reply_store(struct artifacts *a, const struct settings *s, const struct result *r,
		 const char *request_id)
{
	const uint64_t which = s->store_code;
	struct buf json;

	if (!a || which == STORE_NEVER || (which != STORE_ALWAYS && r->exit_code == 0))
		return;
	buf_init(&json, STORED_CAP_BYTES);
	if (reply_result_stored(&json, r) == 0) {
		struct artifact stored = {
			.code = r->request->code.bytes,
			.code_len = r->request->code.len,
			.env = r->request->env,
			.result_json = json.bytes,
			.result_len = json.len,
			.request_id = request_id,
		};
		artifacts_store(a, &stored);
	}
	buf_done(&json);
}

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * parts.h - inside of mcp/: what receive.c asks put.c for
 */
#ifndef MCP_PARTS_H
#define MCP_PARTS_H

#include "mcp/mcp.h"

enum rpc_code {
	RPC_PARSE = -32700,
	RPC_INVALID = -32600,
	RPC_NO_METHOD = -32601,
	RPC_BAD_PARAMS = -32602,
	RPC_INTERNAL = -32603,
	MCP_HEADER_MISMATCH = -32020,
	MCP_BAD_VERSION = -32022,
};

extern const char *const mcp_legacy[]; /* the newest first; ends with NULL */

/* members of a result; each begins and ends without a comma. 0 or -1 */
int put_initialize(struct buf *b, const char *version);
int put_discover(struct buf *b);
int put_tools(struct buf *b, const struct request_world *w, bool modern);
/* around them */
int put_begin(struct buf *b, const struct mcp_call *c);
int put_end(struct buf *b);
/* requested: NULL, or the version that is not served */
int put_refusal(struct buf *b, const struct mcp_call *c, enum rpc_code code,
		const char *text, const char *requested);

#endif

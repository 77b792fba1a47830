/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * http_fixture.h - the HTTP front on a free loopback port, without jobs behind it
 */
#pragma once

#include "base/err.h"
#include "base/loop.h"
#include "config/mode.h"
#include "config/settings.h"
#include "http/conn.h"
#include "http/server.h"
#include "tap.h"

static struct settings settings = {.max_connections = 100, .max_body_mb = 10};
static struct modes modes;
static struct loop *loop;
static struct http_server *server;

static inline void open_server(void)
{
	struct err e;
	int fd = http_listen("127.0.0.1", 0, &e);

	CHECK(fd >= 0);
	loop = loop_new();
	server = http_server_new(loop, &settings, &modes, fd, &e);
	CHECK(loop && server);
}

static inline void close_server(void)
{
	http_server_free(server);
	loop_free(loop);
}

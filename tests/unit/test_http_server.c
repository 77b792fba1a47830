/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_http_server.c - accepting when there are no descriptors left
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>

#include "http_fixture.h"
#include "tap.h"

enum { CLIENTS = 20 };

static void connect_clients(void)
{
	struct sockaddr_in at = {.sin_family = AF_INET,
				 .sin_port = htons((uint16_t)server->port),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

	for (int i = 0; i < CLIENTS; i++)
		CHECK(connect(socket(AF_INET, SOCK_STREAM, 0), (struct sockaddr *)&at,
			      sizeof(at)) == 0);
}

static void stop(void *arg)
{
	loop_stop(arg);
}

static void turn(unsigned ms)
{
	struct loop_timer t = {.fn = stop, .arg = loop};

	loop_timer_at(loop, &t, loop_now_ns() + ms * 1000000ull);
	CHECK(loop_run(loop) == 0);
	loop_timer_stop(loop, &t);
}

TEST(running_out_of_descriptors_does_not_spin)
{
	struct rlimit before, none;
	clock_t begin;
	int fd;

	open_server();
	if (fork() == 0) { /* ends with the test's group */
		connect_clients();
		pause();
	}
	fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	CHECK(fd >= 0 && close(fd) == 0 && getrlimit(RLIMIT_NOFILE, &before) == 0);
	none = before;
	none.rlim_cur = (rlim_t)fd;
	CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
	begin = clock();
	turn(1500);
	CHECK((double)(clock() - begin) / CLOCKS_PER_SEC < 0.3);
	CHECK(server->conn_count == 0 && server->told_ns != 0);
	CHECK(setrlimit(RLIMIT_NOFILE, &before) == 0);
	turn(500);
	CHECK(server->conn_count == CLIENTS);
	close_server();
}

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_http_server.c - accepting many, and without descriptors; what the library prints
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>

#include <mongoose.h>

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

static unsigned turns;

static void count_turn(void *arg)
{
	(void)arg;
	turns++;
}

/* a turn costs as much as there are connections: one accept a turn would be quadratic */
TEST(all_who_wait_are_accepted_in_one_turn)
{
	open_server();
	connect_clients();
	loop_before_wait(loop, count_turn, NULL);
	turn(50);
	CHECK(server->conn_count == CLIENTS);
	CHECK(turns < CLIENTS / 2);
	close_server();
}

/* the library prints bytes of requests, at any level of its log, to stdout */
TEST(nothing_the_library_prints_comes_out)
{
	int saved = dup(STDOUT_FILENO), pair[2];
	char text[64];

	CHECK(saved >= 0 && pipe2(pair, O_CLOEXEC | O_NONBLOCK) == 0);
	open_server();
	CHECK(fflush(stdout) == 0 && dup2(pair[1], STDOUT_FILENO) == STDOUT_FILENO);
	mg_hexdump("bytes of a request", 18);
	mg_log("a line");
	CHECK(fflush(stdout) == 0 && dup2(saved, STDOUT_FILENO) == STDOUT_FILENO);
	CHECK(read(pair[0], text, sizeof(text)) < 0);
	close_server();
}

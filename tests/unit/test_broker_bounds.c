/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_broker_bounds.c - how many connections a broker takes in its life, and how long
 * that is
 */
#define TAP_SECONDS 60 /* as many connections as a session may have */

#include "broker_fixture.h"

#define AHEAD 128
#define IN_VAIN (8 * AHEAD) /* more than the kernel keeps for who listens */

/* a client who goes at once, and whose port is free again */
static bool came_and_went(unsigned port)
{
	const struct sockaddr_in a = {.sin_family = AF_INET,
				      .sin_port = htons((uint16_t)port),
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	const struct linger at_once = {.l_onoff = 1};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	const bool came = connect(fd, (const struct sockaddr *)&a, sizeof(a)) == 0;

	setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
	close(fd);
	return came;
}

/* how many it has taken until nobody listens any more; one stays, so that there is no
 * room for the others. They are told before the next handful comes; the kernel may have
 * taken some at the end that nobody will hear of */
static uint64_t taken_by(struct egress_order *o, unsigned most)
{
	struct egress_channel c;
	struct egress_news n;
	unsigned come = 1, told = 0;
	int fd;

	o->connections = 1;
	c = opened(mother(), o);
	fd = listening(&c.port);
	CHECK(listen(fd, 2 * AHEAD) == 0 && fdpass_send(c.run_fd, "S", 1, &fd, 1) == 0);
	close(fd);
	(void)dial(c.port);
	while (come < most + IN_VAIN && came_and_went(c.port))
		if (++come - told > AHEAD && come < most)
			while (told < come - 1 && news(&c, &n) == 1)
				told++;
	CHECK(come >= most && come < most + IN_VAIN);
	egress_end(&c);
	while (news(&c, &n) == 1)
		;
	return c.count.connections + c.count.refused;
}

TEST(a_run_has_so_many_connections_and_no_more)
{
	struct egress_order o;

	leave();
	o = order("");
	CHECK(taken_by(&o, BROKER_TOTAL) == BROKER_TOTAL);
}

TEST(a_session_has_more_of_them_and_no_more)
{
	struct egress_order o;

	leave();
	o = order("");
	o.stays = 1;
	CHECK(taken_by(&o, BROKER_STAYS_TOTAL) == BROKER_STAYS_TOTAL);
}

TEST(a_broker_ends_when_its_time_is_over_whatever_comes)
{
	struct egress_channel c;
	struct egress_order o;
	struct egress_news n;
	const uint64_t began_ns = broker_now_ns();
	uint64_t ms;
	int fd;

	leave();
	o = order("");
	o.time_ms = 700;
	c = served(mother(), &o);
	fd = dial(c.port);
	CHECK(news(&c, &n) == 1 && n.verdict == EGRESS_TOO_SLOW);
	CHECK(news(&c, &n) == 0);
	ms = (broker_now_ns() - began_ns) / 1000000;
	CHECK(ms >= 700 && ms < 5000);
	CHECK(read(fd, &n, 1) <= 0);
	close(fd);
}

TEST(that_of_a_session_has_no_such_time)
{
	struct egress_channel c;
	struct egress_order o;
	struct pollfd p;

	leave();
	o = order("");
	o.time_ms = 1;
	o.stays = 1;
	c = served(mother(), &o);
	p = (struct pollfd){.fd = c.control_fd, .events = POLLIN};
	CHECK(poll(&p, 1, 100) == 0);
	CHECK(strstr(ask(c.port, "x\r\n\r\n", 5), " 400 "));
}

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_broker.c - what a broker lets through, and when it ends
 */
#include "broker_fixture.h"

TEST(a_listed_host_is_reached_and_counted)
{
	struct egress_channel c;
	struct egress_order o;
	struct egress_news n;
	char list[64], text[200], *got;
	unsigned port;

	leave();
	port = target();
	snprintf(list, sizeof(list), "127.0.0.1:%u", port);
	o = order(list);
	c = served(mother(), &o);
	snprintf(text, sizeof(text), "http://127.0.0.1:%u/path", port);
	CHECK(verdict_of(&c, text, &got) == EGRESS_OK);
	CHECK(strstr(got, ">GET /path HTTP/1.1\r\nHost: 127.0.0.1:"));
	snprintf(text, sizeof(text), "CONNECT 127.0.0.1:%u HTTP/1.1\r\n\r\nhello", port);
	got = ask(c.port, text, strlen(text));
	CHECK(strncmp(got, "HTTP/1.1 200 ", 13) == 0 && strstr(got, ">hello"));
	CHECK(news(&c, &n) == 1 && n.verdict == EGRESS_OK && n.port == port);
	CHECK(n.sent_bytes == 5 && n.received_bytes == 25 &&
	      strcmp(n.host, "127.0.0.1") == 0);
	CHECK(c.count.connections == 2 && c.count.refused == 0);
	egress_end(&c);
	CHECK(news(&c, &n) == 0);
}

TEST(socks_reaches_the_same)
{
	char text[64] = "\5\1\0\5\1\0\1\x7f\0\0\1", list[64], *got;
	struct egress_channel c;
	struct egress_order o;
	struct egress_news n;
	unsigned port;

	leave();
	port = target();
	snprintf(list, sizeof(list), "127.0.0.1:%u", port);
	o = order(list);
	c = served(mother(), &o);
	text[11] = (char)(port >> 8);
	text[12] = (char)port;
	memcpy(text + 13, "hello", 5);
	got = ask(c.port, text, 18);
	CHECK(memcmp(got, "\5\0\5\0\0\1\0\0\0\0\0\0", 12) == 0);
	CHECK(strstr(got + 12, ">hello"));
	CHECK(news(&c, &n) == 1 && n.verdict == EGRESS_OK);
	/* not on the list */
	text[12]++;
	got = ask(c.port, text, 18);
	CHECK(memcmp(got, "\5\0\5\2", 4) == 0);
	CHECK(news(&c, &n) == 1 && n.verdict == EGRESS_NOT_LISTED);
}

TEST(what_is_not_listed_or_near_is_refused)
{
	static const struct {
		const char *uri;
		enum egress_verdict verdict;
	} rows[] = {
		{"http://other.test/", EGRESS_NOT_LISTED},
		{"http://listed.test.evil.test/", EGRESS_NOT_LISTED},
		{"http://listed.test:22/", EGRESS_NOT_LISTED},
		{"http://8.8.8.8/", EGRESS_NOT_LISTED},
		{"http://listed.test@evil.test/", EGRESS_BAD_NAME},
		{"http://0x7f.1/", EGRESS_BAD_NAME},
		{"http://2130706433/", EGRESS_BAD_NAME},
		{"https://listed.test/", EGRESS_BAD_REQUEST},
		{"/", EGRESS_BAD_REQUEST},
		{"http://localhost/", EGRESS_BAD_ADDRESS},
		{"http://listed.test/", EGRESS_NOT_RESOLVED},
	};
	struct egress_channel c;
	struct egress_order o;
	char *got;

	leave();
	o = order("listed.test,localhost");
	c = served(mother(), &o);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (verdict_of(&c, rows[i].uri, &got) != rows[i].verdict ||
		    !strstr(got, egress_verdict_name(rows[i].verdict)))
			tap_fail(__FILE__, __LINE__, rows[i].uri);
	CHECK(c.count.connections == 0 && c.count.refused == 11);
}

TEST(everything_is_not_this_host)
{
	static const char *const near[] = {"http://127.0.0.1/",
					   "http://[::1]/",
					   "http://[::ffff:127.0.0.1]/",
					   "http://[64:ff9b::7f00:1]/",
					   "http://169.254.169.254/",
					   "http://10.0.0.1/",
					   "http://0.0.0.0/",
					   "http://localhost/"};
	struct egress_channel c;
	struct egress_order o;

	leave();
	o = order("*");
	c = served(mother(), &o);
	for (size_t i = 0; i < sizeof(near) / sizeof(near[0]); i++)
		if (verdict_of(&c, near[i], NULL) != EGRESS_BAD_ADDRESS)
			tap_fail(__FILE__, __LINE__, near[i]);
	o = order("");
	c = served(mother(), &o);
	CHECK(verdict_of(&c, "http://8.8.8.8/", NULL) == EGRESS_NOT_LISTED);
}

TEST(a_secret_has_to_be_known)
{
	static const char without[] = "CONNECT 127.0.0.1:9 HTTP/1.1\r\n\r\n";
	static const char wrong[] = "CONNECT 127.0.0.1:9 HTTP/1.1\r\n"
				    "Proxy-Authorization: Basic eDp5\r\n\r\n";
	/* x:secret */
	static const char right[] = "CONNECT 127.0.0.1:9 HTTP/1.1\r\n"
				    "Proxy-Authorization: Basic eDpzZWNyZXQ=\r\n\r\n";
	struct egress_channel c;
	struct egress_order o;
	struct egress_news n;

	leave();
	o = order("127.0.0.1:9");
	snprintf(o.secret, sizeof(o.secret), "secret");
	o.listens = 1;
	ceiling.installs = o.rules;
	ceiling.listens = true;
	c = opened(mother(), &o);
	CHECK(news(&c, &n) == 1 && n.type == EGRESS_LISTENS && c.port != 0);
	CHECK(strstr(ask(c.port, without, strlen(without)), " 407 "));
	CHECK(news(&c, &n) == 1 && n.verdict == EGRESS_NO_SECRET);
	CHECK(strstr(ask(c.port, wrong, strlen(wrong)), " 407 "));
	CHECK(news(&c, &n) == 1 && n.verdict == EGRESS_NO_SECRET);
	CHECK(strstr(ask(c.port, right, strlen(right)), " 502 "));
	CHECK(news(&c, &n) == 1 && n.verdict == EGRESS_NOT_CONNECTED);
	CHECK(memcmp(ask(c.port, "\5\1\0", 3), "\5\xff", 2) == 0);
	CHECK(news(&c, &n) == 1 && n.verdict == EGRESS_NO_SECRET);
	CHECK(memcmp(ask(c.port, "\5\1\2\1\1x\6secret\5\1\0\1\x7f\0\0\1\0\11", 23),
		     "\5\2\1\0\5\5", 6) == 0);
	CHECK(news(&c, &n) == 1 && n.verdict == EGRESS_NOT_CONNECTED);
}

TEST(connections_and_bytes_are_bounded)
{
	struct egress_channel c;
	struct egress_order o;
	struct egress_news n;
	char list[64], text[200];
	unsigned port;
	int first;

	leave();
	port = target();
	snprintf(list, sizeof(list), "127.0.0.1:%u", port);
	o = order(list);
	o.connections = 1;
	o.bytes = 10;
	c = served(mother(), &o);
	first = dial(c.port);
	CHECK(!ask(c.port, "x", 1)[0]);
	CHECK(news(&c, &n) == 1 && n.verdict == EGRESS_TOO_MANY);
	snprintf(text, sizeof(text), "CONNECT 127.0.0.1:%u HTTP/1.1\r\n\r\n", port);
	CHECK(send(first, text, strlen(text), 0) == (ssize_t)strlen(text));
	CHECK(read(first, text, sizeof(text)) > 0);
	CHECK(send(first, "12345678901", 11, 0) == 11);
	CHECK(news(&c, &n) == 1 && n.verdict == EGRESS_TOO_MUCH);
	close(first);
	/* what comes with the head is bytes too, and so is a head that is sent on */
	snprintf(text, sizeof(text), "CONNECT 127.0.0.1:%u HTTP/1.1\r\n\r\n12345678901",
		 port);
	CHECK(!strchr(ask(c.port, text, strlen(text)), '>'));
	CHECK(news(&c, &n) == 1 && n.verdict == EGRESS_TOO_MUCH && n.sent_bytes == 0);
	snprintf(text, sizeof(text), "http://127.0.0.1:%u/", port);
	CHECK(verdict_of(&c, text, NULL) == EGRESS_TOO_MUCH);
}

TEST(a_silent_client_ends_with_its_run)
{
	struct egress_channel c;
	struct egress_order o;
	struct egress_news n;

	leave();
	o = order("");
	c = served(mother(), &o);
	(void)dial(c.port);
	CHECK(strstr(ask(c.port, "x\r\n\r\n", 5), " 400 "));
	CHECK(news(&c, &n) == 1 && n.verdict == EGRESS_BAD_REQUEST);
	egress_end(&c);
	CHECK(news(&c, &n) == 1 && n.verdict == EGRESS_TOO_SLOW);
	CHECK(news(&c, &n) == 0);
}

/* it has read that it is refused, and does not go before its run ends */
TEST(a_refused_client_that_stays_is_told_as_refused)
{
	static const char text[] = "CONNECT other.test:443 HTTP/1.1\r\n\r\n";
	struct egress_order o;
	struct egress_channel c;
	struct egress_news n;
	char got[13] = "";
	int fd;

	leave();
	o = order("listed.test");
	c = served(mother(), &o);
	fd = dial(c.port);
	CHECK(send(fd, text, strlen(text), 0) == (ssize_t)strlen(text));
	CHECK(recv(fd, got, sizeof(got) - 1, MSG_WAITALL) == 12);
	CHECK(strcmp(got, "HTTP/1.1 403") == 0);
	egress_end(&c);
	CHECK(news(&c, &n) == 1 && n.verdict == EGRESS_NOT_LISTED);
	close(fd);
}

TEST(a_socket_of_another_namespace_is_served)
{
	struct egress_channel c;
	struct egress_order o;
	char list[64], text[200];
	unsigned port;
	int mother_fd;

	leave();
	port = target();
	snprintf(list, sizeof(list), "127.0.0.1:%u", port);
	o = order(list);
	mother_fd = mother();
	c = opened(mother_fd, &o);
	CHECK(unshare(CLONE_NEWNET) == 0 && lo_up());
	give_socket(&c);
	snprintf(text, sizeof(text), "CONNECT 127.0.0.1:%u HTTP/1.1\r\n\r\nhello", port);
	CHECK(strstr(ask(c.port, text, strlen(text)), ">hello"));
}

TEST(one_that_stays_takes_the_socket_of_each_that_comes)
{
	struct egress_channel c;
	struct egress_order o;
	struct egress_news n;
	char list[64], text[200];
	unsigned port;
	int mother_fd, first[2];

	leave();
	port = target();
	snprintf(list, sizeof(list), "127.0.0.1:%u", port);
	snprintf(text, sizeof(text), "CONNECT 127.0.0.1:%u HTTP/1.1\r\n\r\nhello", port);
	o = order(list);
	o.stays = 1;
	o.time_ms = 0; /* whose end nobody knows */
	mother_fd = mother();
	c = opened(mother_fd, &o);
	for (int i = 0; i < 3; i++) {
		CHECK(unshare(CLONE_NEWNET) == 0 && lo_up());
		give_socket(&c);
		CHECK(strstr(ask(c.port, text, strlen(text)), ">hello"));
		CHECK(news(&c, &n) == 1 && n.verdict == EGRESS_OK);
	}
	CHECK(c.count.connections == 3);
	/* what is no such socket ends it: nobody of ours sends that */
	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, first) == 0);
	CHECK(fdpass_send(c.run_fd, "S", 1, first, 1) == 0);
	CHECK(news(&c, &n) == 0);
}

/* it ends, and nothing that it gave is listened on */
static bool is_refused(int mother_fd, const struct egress_order *o)
{
	struct egress_channel c = opened(mother_fd, o);
	struct egress_news n;
	const bool over = news(&c, &n) == 0;

	egress_close(&c);
	return over;
}

TEST(an_order_that_makes_no_sense_ends_at_once)
{
	struct egress_channel c;
	struct egress_order o, bad;
	int mother_fd;

	leave();
	o = order("*");
	mother_fd = mother();
	bad = o;
	bad.connections = BROKER_CONNECTIONS + 1;
	CHECK(is_refused(mother_fd, &bad));
	bad = o;
	bad.rules.count = RULES_MAX + 1;
	CHECK(is_refused(mother_fd, &bad));
	bad = o;
	memset(bad.secret, 'x', sizeof(bad.secret));
	CHECK(is_refused(mother_fd, &bad));
	c = served(mother_fd, &o);
	CHECK(verdict_of(&c, "http://10.0.0.1/", NULL) == EGRESS_BAD_ADDRESS);
}

/* the next line of a log ends so */
static bool next_line(int log_fd, const char *end)
{
	struct pollfd p = {.fd = log_fd, .events = POLLIN};
	char line[512];
	size_t len = 0;

	while (len < sizeof(line) - 1 && poll(&p, 1, 8000) == 1 &&
	       read(log_fd, line + len, 1) == 1 && line[len] != '\n')
		len++;
	line[len] = '\0';
	return len >= strlen(end) && strcmp(line + len - strlen(end), end) == 0;
}

/* the server may have become somebody else's */
TEST(an_order_beyond_the_operators_word_is_refused_and_counted)
{
	struct egress_order o, bad;
	int mother_fd, log_fd[2];

	leave();
	CHECK(pipe2(log_fd, O_CLOEXEC) == 0 && dup2(log_fd[1], STDERR_FILENO) >= 0);
	o = order("example.org");
	mother_fd = mother();
	dup2(STDOUT_FILENO, STDERR_FILENO);
	bad = order("*");
	bad.rules.rule[0].reach = REACH_NEAR;
	CHECK(is_refused(mother_fd, &bad));
	CHECK(next_line(log_fd[0], " order.refused reason=rules refused=1"));
	bad = o;
	bad.listens = 1;
	CHECK(is_refused(mother_fd, &bad));
	CHECK(next_line(log_fd[0], " order.refused reason=listens refused=2"));
	CHECK(fdpass_send(mother_fd, "no order", 8, NULL, 0) == 0);
	CHECK(next_line(log_fd[0], " order.refused reason=frame refused=3"));
	bad = o;
	bad.rules.rule[0].port = 22;
	/* sixteen are told each, and then the powers of two */
	for (int i = 4; i <= 32; i++) {
		char end[64];

		CHECK(is_refused(mother_fd, &bad));
		snprintf(end, sizeof(end), " order.refused reason=rules refused=%d", i);
		if (i <= 16 || i == 32)
			CHECK(next_line(log_fd[0], end));
	}
	(void)served(mother_fd, &o);
}

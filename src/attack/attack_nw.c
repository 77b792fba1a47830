/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * attack_nw.c - the network
 *
 * Nothing must ever be sent: a socket that could be made is the failure already, and is
 * connected only where there is no route, or to the loopback.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "attack/battery.h"
#include "base/defer.h"
#include "base/fs.h"
#include "base/num.h"

#define NO_SOCKET "EAFNOSUPPORT|ENETUNREACH"

/* is there any way out of this network namespace? A dead loopback is none */
static bool has_route(void)
{
	char text[8192], *rest = text, *line;

	if (read_text("/proc/net/route", text, sizeof(text)) < 0 ||
	    (strchr(text, '\n') && strchr(text, '\n')[1]))
		return true;
	if (read_text("/proc/net/ipv6_route", text, sizeof(text)) < 0)
		return false;
	while ((line = strsep(&rest, "\n")) && *line) {
		const size_t len = strlen(line);

		if (len < 3 || strcmp(line + len - 3, " lo") != 0)
			return true;
	}
	return false;
}

static struct tried connect_to(const char *address, unsigned port, int type)
{
	struct sockaddr_in four = {.sin_family = AF_INET,
				   .sin_port = htons((uint16_t)port)};
	struct sockaddr_in6 six = {.sin6_family = AF_INET6,
				   .sin6_port = htons((uint16_t)port)};
	const bool is_six = strchr(address, ':');
	const bool loopback = strncmp(address, "127.", 4) == 0 ||
			      strcmp(address, "::1") == 0;
	struct tried r;
	int fd = socket(is_six ? AF_INET6 : AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK,
			0);

	r = tried(fd);
	if (fd < 0)
		return r;
	if (loopback || !has_route()) {
		if (is_six)
			inet_pton(AF_INET6, address, &six.sin6_addr);
		else
			inet_pton(AF_INET, address, &four.sin_addr);
		r = tried(is_six ? connect(fd, (struct sockaddr *)&six, sizeof(six))
				 : connect(fd, (struct sockaddr *)&four, sizeof(four)));
	}
	close(fd);
	return r;
}

static void nw01(struct tries *t)
{
	static const char *const addresses[] = {
		"1.1.1.1",  "127.0.0.1", "::1",         "169.254.169.254",
		"10.0.0.1", "10.96.0.1", "192.168.0.1", "fd00::1"};
	uint64_t port = 80;
	unsigned i;

	(void)num_u64(tries_word(t, 0), &port); /* of a listener of the host's */
	for (i = 0; i < sizeof(addresses) / sizeof(addresses[0]); i++) {
		expect_tried(t, addresses[i],
			     connect_to(addresses[i], (unsigned)port, SOCK_STREAM),
			     NO_SOCKET);
		expect_tried(t, addresses[i], connect_to(addresses[i], 53, SOCK_DGRAM),
			     NO_SOCKET);
	}
	expect_call(t, "ICMP", socket(AF_INET, SOCK_DGRAM, IPPROTO_ICMP), "EAFNOSUPPORT");
	expect_call(t, "raw", socket(AF_INET, SOCK_RAW, IPPROTO_ICMP),
		    "EAFNOSUPPORT|EPERM");
	if (tries_layer(t, LAYER_NETWORK_NAMESPACE) && tries_layer(t, LAYER_PROC))
		expect(t, !has_route(), "there is a route");
}

static void nw01_outside(struct battery *b, struct tries *t)
{
	struct sockaddr_in at = {.sin_family = AF_INET,
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	auto_fd int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct attack_run r = {.attack = "NW01"};
	socklen_t len = sizeof(at);
	char port[16] = "80";

	if (fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0 &&
	    listen(fd, 5) == 0 && getsockname(fd, (struct sockaddr *)&at, &len) == 0)
		snprintf(port, sizeof(port), "%u", ntohs(at.sin_port));
	else
		untested(t, "a listener of the host's: none could be made");
	r.words[0] = port;
	run_inside(b, t, &r);
	expect(t, fd < 0 || accept(fd, NULL, NULL) < 0, "it reached the host's loopback");
	run_done(&r);
}

static void nw02(struct tries *t)
{
	static const char *const files[] = {"/etc/resolv.conf", "/run/nscd/socket",
					    "/run/systemd/resolve", "/var/run/nscd"};
	struct addrinfo *found = NULL;
	unsigned i;

	/* the first is the pod's where that is the network of runs that ask for it */
	for (i = !tries_layer(t, LAYER_NETWORK_NAMESPACE);
	     i < sizeof(files) / sizeof(files[0]); i++)
		expect_tried(t, files[i], try_open(files[i], O_RDONLY), tries_hidden(t));
	expect_tried(t, "port 53", connect_to("127.0.0.53", 53, SOCK_DGRAM), NO_SOCKET);
	expect_tried(t, "port 853", connect_to("1.1.1.1", 853, SOCK_STREAM), NO_SOCKET);
	expect_tried(t, "port 443", connect_to("1.1.1.1", 443, SOCK_STREAM), NO_SOCKET);
	if (t->wrong_count)
		return; /* a name would be asked for over a socket that works */
	expect(t, getaddrinfo("example.com", "80", NULL, &found) != 0,
	       "a name was resolved");
	if (found)
		freeaddrinfo(found);
	observe(t, "no name is resolved");
}

/* "@name" is an abstract one; 0: it is too long */
static socklen_t name_unix(const char *path, struct sockaddr_un *out_at)
{
	const size_t len = strlen(path);

	*out_at = (struct sockaddr_un){.sun_family = AF_UNIX};
	if (len >= sizeof(out_at->sun_path))
		return 0;
	memcpy(out_at->sun_path, path, len);
	if (path[0] == '@')
		out_at->sun_path[0] = '\0';
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
}

static struct tried connect_unix(const char *path)
{
	struct sockaddr_un at;
	const socklen_t len = name_unix(path, &at);
	struct tried r;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	r = tried(fd);
	if (fd < 0 || !len)
		return r;
	r = tried(connect(fd, (struct sockaddr *)&at, len));
	close(fd);
	return r;
}

/* one of a pair of datagram sockets may send to any other, without socket() */
static struct tried send_unix(const char *path, int type)
{
	struct sockaddr_un at;
	const socklen_t len = name_unix(path, &at);
	struct tried r;
	int pair[2];

	r = tried(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, pair));
	if (r.num || !len)
		return r;
	r = tried(sendto(pair[0], "x", 1, MSG_DONTWAIT, (struct sockaddr *)&at, len));
	if (r.num && r.num != EAGAIN)
		r = tried(connect(pair[0], (struct sockaddr *)&at, len));
	close(pair[0]);
	close(pair[1]);
	return r;
}

static void nw03_datagrams(struct tries *t, bool none)
{
	static const char *const names[] = {"/dev/log", "/run/systemd/notify",
					    "/run/systemd/journal/socket"};
	/* such a pair is refused too where its memory is not a cgroup's to count */
	const char *by_path = none ? "ESOCKTNOSUPPORT|EPERM|ENOSYS"
				   : "ENOENT|ESOCKTNOSUPPORT";
	const char *by_name = none ? by_path : "ECONNREFUSED|EPERM|ESOCKTNOSUPPORT";
	static const int types[] = {SOCK_DGRAM, SOCK_RAW};
	unsigned i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		expect_tried(t, names[i], send_unix(names[i], SOCK_DGRAM), by_path);
	for (i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		expect_tried(t, "a datagram to a socket of the host's",
			     send_unix(tries_word(t, 2), types[i]), by_path);
		expect_tried(t, "a datagram to an abstract one",
			     send_unix(tries_word(t, 3), types[i]), by_name);
	}
	if (none)
		expect_tried(t, "a pair of SOCK_SEQPACKET",
			     send_unix(tries_word(t, 2), SOCK_SEQPACKET), by_path);
}

static void nw03(struct tries *t)
{
	static const char *const sockets[] = {"/run/docker.sock",
					      "/var/run/docker.sock",
					      "/run/containerd/containerd.sock",
					      "/run/dbus/system_bus_socket",
					      "/run/systemd/private",
					      "/tmp/.X11-unix/X0"};
	/* in a network of others there are no such sockets at all */
	const bool none = !tries_layer(t, LAYER_NETWORK_NAMESPACE);
	const char *wanted = none ? "EAFNOSUPPORT|EACCES|EPERM|ENOSYS" : "ENOENT";
	unsigned i;

	for (i = 0; i < sizeof(sockets) / sizeof(sockets[0]); i++)
		expect_tried(t, sockets[i], connect_unix(sockets[i]), wanted);
	expect_tried(t, "a socket of the host's", connect_unix(tries_word(t, 0)), wanted);
	expect_tried(t, "an abstract one of the host's", connect_unix(tries_word(t, 1)),
		     none ? wanted : "ECONNREFUSED|EPERM");
	nw03_datagrams(t, none);
}

/* open to all: it is not file modes that are tried here */
static int listen_unix(const char *path, int type)
{
	struct sockaddr_un at;
	const socklen_t len = name_unix(path, &at);
	auto_fd int fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0 || !len || bind(fd, (struct sockaddr *)&at, len) < 0 ||
	    (type == SOCK_STREAM && listen(fd, 5) < 0) ||
	    (path[0] != '@' && chmod(path, 0777) < 0))
		return -1;
	return take_fd(&fd);
}

static bool was_reached(int fd, int type)
{
	char byte;

	return type == SOCK_STREAM ? accept(fd, NULL, NULL) >= 0
				   : recv(fd, &byte, 1, MSG_DONTWAIT) >= 0;
}

static void nw03_outside(struct battery *b, struct tries *t)
{
	static const int types[4] = {SOCK_STREAM, SOCK_STREAM, SOCK_DGRAM, SOCK_DGRAM};
	struct attack_run r = {.attack = "NW03"};
	char dir[] = "/tmp/sandbox-attack-XXXXXX", name[4][64];
	int fd[4];
	unsigned i;

	if (!mkdtemp(dir) || chmod(dir, 0755) < 0) {
		skip(t, "no directory for a socket can be made in /tmp");
		return;
	}
	for (i = 0; i < 4; i++) {
		snprintf(name[i], sizeof(name[i]), i % 2 ? "@%s%u" : "%s/%u",
			 i % 2 ? dir + 5 : dir, i);
		fd[i] = listen_unix(name[i], types[i]);
		if (fd[i] < 0)
			untested(t, "%s: such a socket of the host's cannot be made",
				 name[i]);
		r.words[i] = name[i];
	}
	run_inside(b, t, &r);
	for (i = 0; i < 4; i++) {
		expect(t, fd[i] < 0 || !was_reached(fd[i], types[i]), "%s was reached",
		       name[i]);
		defer_close(&fd[i]);
	}
	(void)fs_remove_tree(AT_FDCWD, dir); /* an empty directory is no harm */
	run_done(&r);
}

static struct tried bind_port(unsigned port)
{
	struct sockaddr_in at = {.sin_family = AF_INET,
				 .sin_port = htons((uint16_t)port),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct tried r;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	r = tried(fd);
	if (fd < 0)
		return r;
	r = tried(bind(fd, (struct sockaddr *)&at, sizeof(at)));
	close(fd);
	return r;
}

static void nw05(struct tries *t)
{
	expect_tried(t, "port 80", bind_port(80), "EAFNOSUPPORT");
	expect_tried(t, "any port", bind_port(0), "EAFNOSUPPORT");
	expect_tried(t, "8080 by loopback", connect_to("127.0.0.1", 8080, SOCK_STREAM),
		     NO_SOCKET);
}

static void nw07(struct tries *t)
{
	char text[4096], *second;
	struct ucred who;
	socklen_t len;
	struct stat st;
	int fd;

	for (fd = 0; fd < 1024; fd++) {
		len = sizeof(who);
		if (fd < 3)
			expect(t, fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode),
			       "descriptor %d is no pipe", fd);
		expect_call(t, "SO_PEERCRED",
			    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len),
			    fd < 3 ? "ENOTSOCK" : "EBADF");
	}
	if (!tries_layer(t, LAYER_PROC) || !tries_layer(t, LAYER_NETWORK_NAMESPACE))
		return;
	read_text("/proc/net/unix", text, sizeof(text));
	second = strchr(text, '\n');
	expect(t, second && !second[1], "there are sockets in sight");
}

static void nw10(struct tries *t)
{
	static const char *const helpers[] = {"/bin/ping", "/usr/bin/ping", "/usr/bin/nc",
					      "/usr/bin/curl", "/usr/bin/wget"};
	char out[256];
	unsigned i, ran = 0;

	expect_call(t, "UDP", socket(AF_INET, SOCK_DGRAM, 0), "EAFNOSUPPORT");
	expect_call(t, "UDP 6", socket(AF_INET6, SOCK_DGRAM, 0), "EAFNOSUPPORT");
	expect_call(t, "UDP lite", socket(AF_INET, SOCK_DGRAM, 136), "EAFNOSUPPORT");
	if (t->wrong_count)
		return; /* the helpers would send something */
	for (i = 0; i < sizeof(helpers) / sizeof(helpers[0]); i++) {
		/* the loopback, in case one of them gets through */
		const char *const ping[] = {helpers[i], "-c1", "-W1", "127.0.0.1", NULL};
		const char *const get[] = {helpers[i], "http://127.0.0.1:9/", NULL};
		const int status = run_program(i < 2 ? ping : get, out, sizeof(out));

		if (status < 0)
			continue;
		ran++;
		expect(t, status != 0, "%s gets through", helpers[i]);
	}
	observe(t, "%u helpers fail", ran);
}

const struct attack attacks_nw[] = {
	{"NW01",
	 "TCP, UDP and ICMP to the world, the host, metadata and cluster addresses",
	 "EAFNOSUPPORT or ENETUNREACH", LEVEL_PROCESS, nw01, nw01_outside, NULL, NULL},
	{"NW02", "names: getaddrinfo, resolvers, DNS ports", "none is resolved",
	 LEVEL_LANDLOCK, nw02, NULL, NULL, NULL},
	{"NW03", "unix sockets of the host, by path and abstract, and datagrams to them",
	 "ENOENT; ECONNREFUSED or EPERM", LEVEL_LANDLOCK, nw03, nw03_outside, NULL,
	 "no such socket at all"},
	{"NW05", "listen on a port; the server's own by loopback", "EAFNOSUPPORT",
	 LEVEL_PROCESS, nw05, NULL, NULL, NULL},
	{"NW07", "sockets of the launcher: descriptors, credentials", "none in reach",
	 LEVEL_PROCESS, nw07, NULL, NULL, NULL},
	{"NW08", "tricks with host names and addresses past an allow list", "refused",
	 LEVEL_LANDLOCK, nw08, nw08_outside, NULL, NULL},
	{"NW09", "an allow list that is empty, null or missing", "nothing is allowed",
	 LEVEL_LANDLOCK, nw09, nw09_outside, NULL, NULL},
	{"NW10", "UDP, and helpers: ping, nc, curl, wget", "no socket", LEVEL_PROCESS,
	 nw10, NULL, NULL, NULL},
	{.id = NULL},
};

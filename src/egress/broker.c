/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * broker.c - a run's broker: accepts, counts, tells, ends
 *
 * Runs in: a process of its own, forked for this run and confined before. The run's
 * program can say what it wants to it; whoever it takes over has the rights of this
 * process: to connect, and to read what a resolver reads. One thread a connection, each
 * bounded in time; the first one accepts and watches the server's end, and whatever state
 * the others are in, the process ends when that does.
 */
#include "egress/broker.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/defer.h"
#include "base/fdpass.h"
#include "base/mem.h"
#include "base/sys.h"

#define STACK_BYTES (256u << 10)
#define BACKLOG 64

uint64_t broker_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* threads, and no process: the mother needs what a broker does not */
static int forbid_processes(void)
{
#ifdef __SANITIZE_ADDRESS__
	return 0; /* its end looks for leaks in a process of its own */
#else
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, args[0])),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {.len = sizeof(code) / sizeof(code[0]),
				     .filter = code};

	return sys_seccomp(SECCOMP_SET_MODE_FILTER, 0, &program);
#endif
}

static void read_order(int fd, const struct egress_ceiling *most,
		       struct egress_order *out)
{
	enum order_fault why = ORDER_FRAME;

	if (pread(fd, out, sizeof(*out), 0) == (ssize_t)sizeof(*out))
		why = order_judge(out, most);
	if (why != ORDER_FINE)
		_exit(BROKER_REFUSES + (int)why);
	close(fd);
}

static void tell(struct broker *b, const struct egress_news *n)
{
	/* waits while the server is behind; when it is gone, so are we */
	if (send(b->control_fd, n, sizeof(*n), MSG_NOSIGNAL) != (ssize_t)sizeof(*n))
		_exit(0);
}

/* with the lock */
static void tell_connection(struct connection *c, enum egress_verdict verdict)
{
	struct egress_news n = {
		.type = EGRESS_CONNECTION,
		.verdict = verdict,
		.port = c->request.port,
		.ms = (uint32_t)((broker_now_ns() - c->began_ns) / 1000000),
		.sent_bytes = c->sent_bytes,
		.received_bytes = c->received_bytes,
	};

	if (c->request.host_ok)
		memcpy(n.host, c->request.host.text, sizeof(n.host));
	tell(c->broker, &n);
}

static enum egress_verdict verdict_so_far(const struct connection *c)
{
	if (c->refused != EGRESS_OK || c->server_fd >= 0)
		return c->refused;
	return EGRESS_TOO_SLOW;
}

/* the server's end has ended: what is told then is all there is */
static _Noreturn void end(struct broker *b)
{
	pthread_mutex_lock(&b->lock);
	for (unsigned i = 0; i < b->order.connections; i++)
		if (b->connection[i].used)
			tell_connection(&b->connection[i],
					verdict_so_far(&b->connection[i]));
	_exit(0);
}

static void *on_thread(void *arg)
{
	struct connection *c = arg;
	struct broker *b = c->broker;
	const enum egress_verdict verdict = connection_serve(c);

	pthread_mutex_lock(&b->lock);
	tell_connection(c, verdict);
	defer_close(&c->client_fd);
	defer_close(&c->server_fd);
	c->used = false;
	b->active--;
	pthread_mutex_unlock(&b->lock);
	return NULL;
}

/* with the lock; NULL: there are as many as may be */
static struct connection *free_one(struct broker *b)
{
	for (unsigned i = 0; i < b->order.connections; i++)
		if (!b->connection[i].used)
			return &b->connection[i];
	return NULL;
}

/* with the lock; takes the descriptor */
static void begin(struct broker *b, int client_fd)
{
	struct connection spare = {.broker = b}, *c = free_one(b);
	pthread_attr_t attr;
	pthread_t thread;
	int rc;

	if (!c)
		c = &spare;
	memset(&c->request, 0, sizeof(c->request));
	c->broker = b;
	c->client_fd = client_fd;
	c->server_fd = -1;
	c->began_ns = broker_now_ns();
	c->sent_bytes = c->received_bytes = 0;
	c->refused = EGRESS_OK;
	if (c != &spare) {
		pthread_attr_init(&attr);
		pthread_attr_setstacksize(&attr, STACK_BYTES);
		pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
		c->used = true;
		rc = pthread_create(&thread, &attr, on_thread, c);
		pthread_attr_destroy(&attr);
		if (rc == 0) {
			b->active++;
			return;
		}
		c->used = false;
	}
	tell_connection(c, EGRESS_TOO_MANY);
	close(client_fd);
}

static void take_client(struct broker *b)
{
	int fd = accept4(b->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0) {
		/* the client went; or there is no room for it: some time for others */
		if (errno != EAGAIN && errno != ECONNABORTED)
			poll(NULL, 0, 10);
		return;
	}
	pthread_mutex_lock(&b->lock);
	begin(b, fd);
	pthread_mutex_unlock(&b->lock);
	if (++b->total >= (b->order.stays ? BROKER_STAYS_TOTAL : BROKER_TOTAL)) {
		close(b->listen_fd);
		b->listen_fd = -1;
	}
}

/* what the run's child made; -1: it is not that */
static int take_socket(int run_fd)
{
	int fds[FDPASS_MAX], domain = 0, listens = 0, type = 0;
	socklen_t len = sizeof(int);
	size_t count;
	char byte = 0;

	if (fdpass_receive(run_fd, &byte, 1, fds, &count, FDPASS_NOW) != 1)
		return -1;
	if (count == 1 && getsockopt(fds[0], SOL_SOCKET, SO_DOMAIN, &domain, &len) == 0 &&
	    getsockopt(fds[0], SOL_SOCKET, SO_TYPE, &type, &len) == 0 &&
	    getsockopt(fds[0], SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) == 0 &&
	    domain == AF_INET && type == SOCK_STREAM && listens &&
	    fcntl(fds[0], F_SETFL, O_NONBLOCK) == 0)
		return fds[0];
	return -1; /* it ends with us: closing may wait */
}

static int listen_here(struct broker *b)
{
	struct sockaddr_in a = {.sin_family = AF_INET};
	struct egress_news n = {.type = EGRESS_LISTENS};
	socklen_t len = sizeof(a);
	auto_fd int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 ||
	    listen(fd, BACKLOG) < 0 || getsockname(fd, (struct sockaddr *)&a, &len) < 0)
		return -1;
	b->listen_fd = take_fd(&fd);
	n.port = ntohs(a.sin_port);
	tell(b, &n);
	return 0;
}

static _Noreturn void loop(struct broker *b, int run_fd)
{
	for (;;) {
		const uint64_t now = broker_now_ns();
		struct pollfd p[3] = {{.fd = b->control_fd, .events = POLLIN},
				      {.fd = b->listen_fd, .events = POLLIN},
				      {.fd = run_fd, .events = POLLIN}};
		const uint64_t left = b->deadline_ns > now ? b->deadline_ns - now : 0;
		const int wait_ms = b->order.stays ? -1 : (int)(left / 1000000) + 1;

		if (poll(p, 3, wait_ms) < 0 && errno != EINTR)
			_exit(1);
		/* nothing ever comes but its end */
		if (p[0].revents || (left == 0 && !b->order.stays))
			end(b);
		if (p[2].revents) {
			defer_close(&b->listen_fd);
			b->listen_fd = take_socket(run_fd);
			if (b->listen_fd < 0)
				end(b); /* the run failed before it was one */
			if (!b->order.stays) {
				close(run_fd);
				run_fd = -1;
			}
		} else if (p[1].revents) {
			take_client(b);
		}
	}
}

_Noreturn void broker_main(const struct egress_world *w,
			   const struct egress_ceiling *most, int fds[])
{
	struct broker *b = mem_zero(sizeof(*b));
	int run_fd = take_fd(&fds[ORDER_RUN]);

	prctl(PR_SET_NAME, "sandbox-egress", 0, 0, 0);
	/* with the mother; if she is gone already, the server's end is, or will be */
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	b->world = w;
	b->control_fd = take_fd(&fds[ORDER_CONTROL]);
	b->listen_fd = -1;
	pthread_mutex_init(&b->lock, NULL);
	read_order(take_fd(&fds[ORDER_WHAT]), most, &b->order);
	if (forbid_processes() < 0)
		_exit(1);
	b->bytes_left = b->order.bytes;
	b->deadline_ns = broker_now_ns() + (uint64_t)b->order.time_ms * 1000000u;
	if (b->order.listens) {
		close(run_fd);
		run_fd = -1;
		if (listen_here(b) < 0)
			_exit(1);
	}
	loop(b, run_fd);
}

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * attack_memory.c - more memory than the limit, by every way there is
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "attack/battery.h"
#include "base/sys.h"

#define LIMIT_MB 48
#define MOST_BYTES \
	(512ull << 20) /* then nobody stopped us, and the host needs the rest */
/* beyond the limit: what the kernel counts late, or what a program gets between two looks
 * where nobody but the launcher counts, on a busy host */
#define ESCAPE_MB 32
#define ESCAPE_SAMPLED_MB 256
#define PARTS 4 /* processes that share the work */
#define PART_BYTES (MOST_BYTES / PARTS)

/* ---- RS02: plain memory ---- */

void rs02(struct tries *t)
{
	const char *way = tries_word(t, 0);
	const int populate = strcmp(way, "populate") == 0 ? MAP_POPULATE : 0;
	const size_t piece = 4u << 20;
	uint64_t have;
	char *bytes;

	if (strcmp(way, "mlock") == 0) {
		bytes = mmap(NULL, 256u << 20, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		expect_call(t, "mlock", mlock(bytes, 256u << 20), "ENOMEM|EPERM|EAGAIN");
		expect_call(t, "mlockall", mlockall(MCL_CURRENT | MCL_FUTURE),
			    "ENOMEM|EPERM|EAGAIN");
		return;
	}
	for (have = 0; have < MOST_BYTES; have += piece) {
		bytes = mmap(NULL, piece, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | populate, -1, 0);
		if (bytes == MAP_FAILED)
			break;
		memset(bytes, 1, piece);
	}
	say("got %llu\n", (unsigned long long)have >> 20);
	expect(t, have < MOST_BYTES, "%s: nobody stopped it", way);
	/* sampled: what is allocated must be there when the launcher looks */
	sleep_ms(200);
}

/* ended for it, or refused more than that */
static void expect_bounded(struct tries *t, const struct attack_run *r, const char *way)
{
	const char *got = r->out ? strstr(r->out, "got ") : NULL;
	const unsigned long mb = got ? strtoul(got + 4, NULL, 10) : 0;
	const unsigned most = r->in_force.memory_mb + (tries_layer(t, LAYER_MEMORY_LIMIT)
							       ? ESCAPE_MB
							       : ESCAPE_SAMPLED_MB);

	if (!r->failed && (r->outcome.verdict == VERDICT_OUT_OF_MEMORY ||
			   r->outcome.verdict == VERDICT_DISK_FULL)) {
		expect(t, true, "%s", way);
		observe(t, "%s: %s", way, verdict_name(r->outcome.verdict));
	} else if (got) {
		expect(t, mb <= most, "%s: %lu MB of %u", way, mb, r->in_force.memory_mb);
		observe(t, "%s: refused at %lu MB", way, mb);
	} else {
		expect(t, false, "%s: %s", way,
		       r->failed ? r->error.text : verdict_name(r->outcome.verdict));
	}
	if (r->outcome.memory_peak_kb != USAGE_UNKNOWN)
		expect(t, r->outcome.memory_peak_kb <= (uint64_t)most << 10,
		       "%s: %llu kB were used", way,
		       (unsigned long long)r->outcome.memory_peak_kb);
}

void rs02_outside(struct battery *b, struct tries *t)
{
	static const char *const ways[] = {"touch", "populate"};
	struct attack_run locked = {.attack = "RS02", .words = {"mlock"}};
	unsigned i;

	for (i = 0; i < 2; i++) {
		struct attack_run r = {.attack = "RS02",
				       .words = {ways[i]},
				       .limits = {.memory_mb = LIMIT_MB}};

		run_whole(b, &r);
		if (tries_layer(t, LAYER_MEMORY_LIMIT))
			expect(t,
			       r.outcome.verdict == VERDICT_OUT_OF_MEMORY &&
				       r.exit_code == 137,
			       "%s: %s", ways[i], verdict_name(r.outcome.verdict));
		expect_bounded(t, &r, ways[i]);
		run_done(&r);
	}
	run_inside(b, t, &locked);
	run_done(&locked);
}

/* ---- RS03: memory by other names ---- */

static uint64_t by_files(struct tries *t)
{
	static char block[1 << 20];
	int fd = open("fill", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	uint64_t have = 0;
	ssize_t n;

	(void)t;
	while (fd >= 0 && have < MOST_BYTES && (n = write(fd, block, sizeof(block))) > 0)
		have += (uint64_t)n;
	return have;
}

static uint64_t by_memfd(struct tries *t)
{
	static char block[1 << 20];
	int fd = memfd_create("fill", MFD_CLOEXEC);
	uint64_t have = 0;
	ssize_t n;

	(void)t;
	while (fd >= 0 && have < MOST_BYTES && (n = write(fd, block, sizeof(block))) > 0)
		have += (uint64_t)n;
	return have;
}

/* as much as a descriptor takes without waiting */
static uint64_t fill(int fd)
{
	static char block[65536];
	uint64_t have = 0;
	ssize_t n;

	while ((n = write(fd, block, sizeof(block))) > 0)
		have += (uint64_t)n;
	return have;
}

/* one process's part */
static uint64_t fill_pipes(void)
{
	uint64_t have = 0;
	int fd[2];

	while (have < PART_BYTES && pipe2(fd, O_NONBLOCK | O_CLOEXEC) == 0) {
		(void)fcntl(fd[1], F_SETPIPE_SZ, 1 << 20); /* there is a quota for it */
		have += fill(fd[1]);
	}
	return have;
}

static uint64_t fill_sockets(void)
{
	const int size = 4 << 20;
	uint64_t have = 0;
	int fd[2], how = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;

	while (have < PART_BYTES && socketpair(AF_UNIX, how, 0, fd) == 0) {
		(void)setsockopt(fd[0], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
		(void)setsockopt(fd[1], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
		have += fill(fd[0]) + fill(fd[1]);
	}
	return have;
}

/* what was sent is still there when the sender is not */
static uint64_t fill_and_close(void)
{
	uint64_t have = 0;
	int fd[2], how = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;

	while (have < PART_BYTES && socketpair(AF_UNIX, how, 0, fd) == 0) {
		have += fill(fd[0]);
		close(fd[0]);
	}
	return have;
}

static uint64_t fill_datagrams(void)
{
	static char block[65536];
	uint64_t have = 0;
	int fd[2], how = SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC;
	ssize_t n;

	while (have < PART_BYTES && socketpair(AF_UNIX, how, 0, fd) == 0) {
		while ((n = send(fd[0], block, sizeof(block), 0)) > 0)
			have += (uint64_t)n;
		close(fd[0]);
	}
	return have;
}

/* in several processes, since each has only so many descriptors */
static uint64_t by_parts(uint64_t (*get)(void))
{
	struct part {
		uint64_t have;
		bool done;
	} volatile *parts = mmap(NULL, PARTS * sizeof(*parts), PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint64_t have = 0;
	unsigned i;

	if (parts == MAP_FAILED)
		return 0;
	for (i = 0; i < PARTS; i++) {
		const pid_t pid = fork();

		if (pid == 0) {
			parts[i].have = get();
			parts[i].done = true;
			wait_forever();
		}
		if (pid < 0)
			parts[i].done = true;
	}
	for (i = 0; i < PARTS; i++) {
		while (!parts[i].done)
			sleep_ms(1);
		have += parts[i].have;
	}
	sleep_ms(200); /* where it is looked at now and then */
	return have;
}

static uint64_t by_pipes(struct tries *t)
{
	(void)t;
	return by_parts(fill_pipes);
}

static uint64_t by_sockets(struct tries *t)
{
	(void)t;
	return by_parts(fill_sockets);
}

static uint64_t by_closed_sockets(struct tries *t)
{
	(void)t;
	return by_parts(fill_and_close);
}

static uint64_t by_datagrams(struct tries *t)
{
	(void)t;
	return by_parts(fill_datagrams);
}

static uint64_t by_names(struct tries *t)
{
	expect_call(t, "shmget", syscall(SYS_shmget, 4711, 1 << 20, 01666), "ENOSYS");
	expect_call(t, "msgget", syscall(SYS_msgget, 4711, 01666), "ENOSYS");
	expect_call(t, "semget", syscall(SYS_semget, 4711, 100, 01666), "ENOSYS");
	expect_call(t, "mq_open", syscall(SYS_mq_open, "x", O_CREAT | O_RDWR, 0600, 0),
		    "ENOSYS");
	return 0;
}

/* one page of zeros, seen in many places: only the tables to find it weigh anything */
static uint64_t by_page_tables(struct tries *t)
{
	const uint64_t step = 2u << 20, span = 1ull << 37;
	const volatile char *bytes = mmap(NULL, span, PROT_READ,
					  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
					  0);
	uint64_t at;

	(void)t;
	if (bytes == MAP_FAILED)
		return 0;
	for (at = 0; at < span; at += step)
		(void)bytes[at];
	sleep_ms(200); /* where it is looked at now and then */
	return span / step * 4096;
}

static void *use_stack(void *arg)
{
	volatile char big[256 << 10];
	size_t i;

	for (i = 0; i < sizeof(big); i += 4096)
		big[i] = 1;
	(void)arg;
	for (;;)
		pause();
	return NULL;
}

static uint64_t by_stacks(struct tries *t)
{
	pthread_t thread;
	unsigned n;

	(void)t;
	for (n = 0; n < 100000; n++) {
		if (pthread_create(&thread, NULL, use_stack, NULL) != 0)
			break;
	}
	sleep_ms(100);
	return n * (256ull << 10);
}

enum counted { BY_ANY, BY_QUOTA, BY_LOOK }; /* where there is no cgroup */

static const struct {
	const char *name;
	uint64_t (*get)(struct tries *t);
	enum counted counted;
} ways[] = {
	{"tmpfs", by_files, BY_ANY},
	{"memfd", by_memfd, BY_ANY},
	{"pipes", by_pipes, BY_QUOTA},
	{"sockets", by_sockets, BY_LOOK},
	{"closed sockets", by_closed_sockets, BY_LOOK},
	{"datagrams", by_datagrams, BY_LOOK},
	{"names", by_names, BY_ANY},
	{"page tables", by_page_tables, BY_ANY},
	{"thread stacks", by_stacks, BY_ANY},
};
#define WAYS (sizeof(ways) / sizeof(ways[0]))

void rs03(struct tries *t)
{
	unsigned i;

	for (i = 0; i < WAYS; i++) {
		if (strcmp(ways[i].name, tries_word(t, 0)) == 0)
			say("got %llu\n", (unsigned long long)ways[i].get(t) >> 20);
	}
}

/* is there a bound? If not, that is said */
static bool bounded(const struct battery *b, struct tries *t, unsigned way)
{
	uint64_t quota_mb = 0;
	char text[32];

	if (tries_layer(t, LAYER_MEMORY_LIMIT) || ways[way].counted == BY_ANY)
		return true;
	if (ways[way].counted == BY_LOOK && !b->report->counts_sockets) {
		untested(t, "%s: nobody counts what they hold", ways[way].name);
		return false;
	}
	if (ways[way].counted == BY_LOOK)
		return true;
	/* of pages, for all of a uid; 0: none */
	if (read_text("/proc/sys/fs/pipe-user-pages-soft", text, sizeof(text)) >= 0)
		quota_mb = strtoul(text, NULL, 10) >> 8;
	if (quota_mb == 0 || quota_mb > ESCAPE_SAMPLED_MB / 2) {
		untested(t, "%s: the host's quota is %llu MB", ways[way].name,
			 (unsigned long long)quota_mb);
		return false;
	}
	return true;
}

void rs03_outside(struct battery *b, struct tries *t)
{
	unsigned i;

	for (i = 0; i < WAYS; i++) {
		struct attack_run r = {.attack = "RS03",
				       .words = {ways[i].name},
				       .limits = {.memory_mb = LIMIT_MB,
						  .disk_mb = LIMIT_MB / 2,
						  .pids = 64}};

		if (!bounded(b, t, i))
			continue;
		run_whole(b, &r);
		expect_bounded(t, &r, ways[i].name);
		run_done(&r);
	}
}

/* ---- RS15: names that are not there ---- */

void rs15(struct tries *t)
{
	const uint64_t end = now_ms() + 5000; /* where that takes long, it is bounded */
	char path[64];
	struct stat st;
	unsigned i;

	for (i = 0; i < 1000000 && (i % 1024 || now_ms() < end); i++) {
		snprintf(path, sizeof(path), "%s/not-%x-%x", i % 2 ? "/usr/lib" : "", i,
			 (unsigned)getpid());
		if (stat(path, &st) == 0)
			break;
	}
	expect(t, stat(path, &st) < 0, "%s is there", path);
	observe(t, "%u names", i);
}

static uint64_t slab_kb(void)
{
	char text[4096];
	const char *at;

	if (read_text("/proc/meminfo", text, sizeof(text)) < 0)
		return 0;
	at = strstr(text, "\nSlab:");
	return at ? strtoul(at + 6, NULL, 10) : 0;
}

void rs15_outside(struct battery *b, struct tries *t)
{
	uint64_t before, after, grown = 0;
	unsigned i;

	if (!tries_layer(t, LAYER_MEMORY_LIMIT)) {
		skip(t, "without a cgroup the kernel keeps names for nobody, until it "
			"needs the memory");
		return;
	}
	/* others use the kernel's memory too, and what they add is not ours: thrice */
	for (i = 0; i < 3; i++) {
		struct attack_run r = {.attack = "RS15",
				       .limits = {.wall_ms = 30000, .memory_mb = 64}};

		before = slab_kb();
		run_inside(b, t, &r);
		after = slab_kb();
		run_done(&r);
		grown = after > before ? after - before : 0;
		if (grown < 64u << 10)
			break;
	}
	expect(t, grown < 64u << 10, "the kernel's memory grew by %llu kB",
	       (unsigned long long)grown);
	observe(t, "the kernel's memory grew by %llu kB", (unsigned long long)grown);
}

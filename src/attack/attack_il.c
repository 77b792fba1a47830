/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * attack_il.c - what a program can learn that is nobody's business
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/klog.h>
#include <sys/personality.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "api/api.h"
#include "attack/battery.h"
#include "base/err.h"
#include "base/sys.h"

extern char **environ;

static void il01(struct tries *t)
{
	/* the last one only where the host's /etc is in sight, and closed */
	static const char *const wanted[] = {
		"PATH=",   "HOME=",       "LANG=",
		"TMPDIR=", "OUTPUT_DIR=", "GIT_CONFIG_NOSYSTEM="};
	const unsigned count = tries_shared(t) ? 6 : 5;
	/* behind the arguments, where the kernel put them: ours may have been added to */
	char **given = t->words + t->word_count + 1;
	unsigned n, i;

	for (n = 0; given[n]; n++) {
		for (i = 0; i < count && strncmp(given[n], wanted[i], strlen(wanted[i]));
		     i++)
			;
		expect(t, i < count, "%.40s", given[n]);
	}
	expect(t, n == count, "%u variables", n);
	observe(t, "PATH HOME LANG TMPDIR OUTPUT_DIR");
}

/* ---- IL02: secrets in memory and files ---- */

#define VEIL 0x5a /* the secret itself is never in our memory */

struct needle {
	unsigned char veiled[64];
	size_t len;
};

static struct needle needle_of(const char *hex)
{
	struct needle n = {.len = 0};
	unsigned byte;

	while (n.len < sizeof(n.veiled) && hex[0] && hex[1]) {
		const char two[3] = {hex[0], hex[1], '\0'};

		byte = (unsigned)strtoul(two, NULL, 16);
		n.veiled[n.len++] = (unsigned char)byte;
		hex += 2;
	}
	return n;
}

static bool holds(const unsigned char *bytes, size_t len, const struct needle *n)
{
	size_t i, k;

	for (i = 0; n->len && i + n->len <= len; i++) {
		for (k = 0; k < n->len && (bytes[i + k] ^ VEIL) == n->veiled[k]; k++)
			;
		if (k == n->len)
			return true;
	}
	return false;
}

static void search_memory(struct tries *t, const struct needle *n)
{
	static unsigned char block[1 << 16];
	int fd = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512], *end;
	uint64_t searched = 0;

	while (maps && fd >= 0 && fgets(line, sizeof(line), maps)) {
		uint64_t at = strtoull(line, &end, 16), to = strtoull(end + 1, &end, 16);

		for (; at < to && end[1] == 'r'; at += sizeof(block) - 64) {
			const size_t want = to - at < sizeof(block) ? to - at
								    : sizeof(block);
			const ssize_t got = pread(fd, block, want, (off_t)at);

			if (got <= 0)
				break;
			searched += (uint64_t)got;
			expect(t, !holds(block, (size_t)got, n), "it is in %.60s", line);
		}
	}
	if (maps)
		fclose(maps);
	if (fd >= 0)
		close(fd);
	expect(t, searched > 100000, "only %llu bytes of memory were seen",
	       (unsigned long long)searched);
}

static void search_files(struct tries *t, const struct needle *n)
{
	static const char *const files[] = {
		"/proc/self/environ", "/proc/1/environ",      "/proc/self/cmdline",
		"/proc/1/cmdline",    "/etc/passwd",          "/etc/hosts",
		"/etc/hostname",      "/proc/self/mountinfo", "script",
	};
	static char text[65536];
	unsigned i;

	for (i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		const long len = read_text(files[i], text, sizeof(text));

		expect(t, len <= 0 || !holds((unsigned char *)text, (size_t)len, n),
		       "it is in %s", files[i]);
	}
}

static void il02(struct tries *t)
{
	int i;

	if (strcmp(tries_word(t, 0), "victim") == 0) {
		say("here\n");
		wait_forever();
	}
	for (i = 0; i < t->word_count; i++) {
		const struct needle n = needle_of(tries_word(t, i));

		if (tries_layer(t, LAYER_PROC))
			search_memory(t, &n);
		search_files(t, &n);
	}
	if (!tries_layer(t, LAYER_PROC))
		untested(t, "memory: no /proc to read it by");
}

static void veil(const char *text, char *out, size_t room)
{
	size_t i;

	for (i = 0; text[i] && 2 * i + 3 <= room; i++)
		snprintf(out + 2 * i, 3, "%02x", (unsigned char)text[i] ^ VEIL);
}

static void il02_outside(struct battery *b, struct tries *t)
{
	char secret[64], words[2][129] = {"", ""};
	struct attack_run before = {.attack = "control", .code = secret};
	struct attack_run victim = {
		.attack = "IL02", .words = {"victim"}, .code = secret};
	struct attack_run r = {.attack = "IL02"};

	snprintf(secret, sizeof(secret), "code of another: %.16s", b->canary + 8);
	veil(b->canary, words[0], sizeof(words[0]));
	veil(secret, words[1], sizeof(words[1]));
	run_whole(b, &before); /* one that was there before, and one that is there now */
	run_done(&before);
	run_start(b, &victim);
	expect(t, run_said(b, &victim, "here"), "the other run did not start");
	r.words[0] = words[0];
	r.words[1] = words[1];
	run_inside(b, t, &r);
	run_cancel(b, &victim);
	observe(t, "not found");
	run_done(&r);
}

/* ---- IL04, IL05, IL06: the host ---- */

static unsigned count_processes(void)
{
	DIR *dir = opendir("/proc");
	struct dirent *d;
	unsigned n = 0;

	while (dir && (d = readdir(dir)))
		n += d->d_name[0] >= '0' && d->d_name[0] <= '9';
	if (dir)
		closedir(dir);
	return n;
}

static bool in_pod(const struct tries *t)
{
	return !tries_shared(t) && !tries_layer(t, LAYER_NETWORK_NAMESPACE);
}

static void il04(struct tries *t)
{
	static const char *const hidden[] = {
		"kallsyms",    "modules",    "keys",      "key-users",   "timer_list",
		"config.gz",   "cmdline",    "kcore",     "kpagecount",  "kpageflags",
		"kpagecgroup", "iomem",      "ioports",   "vmallocinfo", "slabinfo",
		"sched_debug", "interrupts", "diskstats", "partitions",  "swaps"};
	static const char *const nets[] = {"tcp", "udp", "unix", "arp", "route"};
	char path[40], text[8192], *at;
	unsigned i;

	for (i = 0; i < sizeof(hidden) / sizeof(hidden[0]); i++) {
		snprintf(path, sizeof(path), "/proc/%s", hidden[i]);
		expect(t, read_text(path, text, sizeof(text)) <= 0, "%s tells something",
		       path);
	}
	/* by process: where there is no network namespace, nothing can cover it */
	for (i = 0; i < sizeof(nets) / sizeof(nets[0]) && !in_pod(t); i++) {
		snprintf(path, sizeof(path), "/proc/net/%s", nets[i]);
		if (read_text(path, text, sizeof(text)) <= 0)
			continue;
		at = strchr(text, '\n');
		expect(t, at && !at[1], "%s has entries", path);
	}
	if (!tries_shared(t))
		expect(t, count_processes() <= 4, "%u processes are in sight",
		       count_processes());
	if (read_text("/proc/self/cgroup", text, sizeof(text)) > 0 &&
	    tries_layer(t, LAYER_CGROUP_NAMESPACE)) {
		char *rest = text, *line;

		while ((line = strsep(&rest, "\n")) && *line) {
			at = strrchr(line, ':');
			expect(t, at && strcmp(at, ":/") == 0, "cgroup %.80s", line);
		}
	}
	observe(t, "empty, absent, or its own");
}

static void il05(struct tries *t)
{
	char text[256];

	expect_call(t, "syslog read", klogctl(3, text, sizeof(text)), "EPERM");
	expect_call(t, "syslog size", klogctl(10, NULL, 0), "EPERM");
	expect_tried(t, "/dev/kmsg", try_open("/dev/kmsg", O_RDONLY), tries_hidden(t));
	expect_tried(t, "/proc/kmsg", try_open("/proc/kmsg", O_RDONLY),
		     "EPERM|EACCES|ENOENT");
	expect_call(t, "perf", syscall(SYS_perf_event_open, text, 0, -1, -1, 0), "EPERM");
}

static void il06(struct tries *t)
{
	static const char *const files[] = {"/etc/machine-id", "/var/lib/dbus/machine-id",
					    "/sys/class/dmi/id/product_uuid",
					    "/sys/class/net/eth0/address",
					    "/sys/devices/virtual/dmi/id/board_serial"};
	struct utsname names;
	char text[128];
	unsigned i;

	for (i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		expect_tried(t, files[i], try_open(files[i], O_RDONLY), tries_hidden(t));
	if (tries_layer(t, LAYER_UTS_NAMESPACE)) {
		if (strcmp(tries_word(t, 0), "kept") == 0)
			untested(t, "the name: it cannot be changed in this container");
		else
			expect(t,
			       uname(&names) == 0 &&
				       strcmp(names.nodename, "sandbox") == 0,
			       "the host's name is %.60s", names.nodename);
		expect(t,
		       read_text("/etc/hostname", text, sizeof(text)) > 0 &&
			       strcmp(text, "sandbox\n") == 0,
		       "/etc/hostname is %.60s", text);
	} else {
		untested(t, "the name: it is the host's or the container's here");
	}
	/* shared with the kernel, and documented: uptime, load, boot_id */
	observe(t, "uptime, load and boot id are the kernel's");
}

static void il06_outside(struct battery *b, struct tries *t)
{
	const bool kept = b->report->layer[LAYER_UTS_NAMESPACE].reason[0];
	struct attack_run r = {.attack = "IL06", .words = {kept ? "kept" : "ours"}};

	run_inside(b, t, &r);
	run_done(&r);
}

/* ---- IL07, IL09: our own answers ---- */

static void il07_outside(struct battery *b, struct tries *t)
{
	static const char *const bodies[] = {
		"{",
		"{\"code\":1}",
		"{\"code\":\"x\",\"language\":\"cobol\"}",
		"{\"code\":\"x\",\"files\":{\"..\":\"eA==\"}}",
		"{\"code\":\"x\",\"files\":{\"a\":\"%%%\"}}",
		"{\"code\":\"x\",\"env\":{\"LD_PRELOAD\":\"x\"}}"};
	struct attack_run missing = {.mode = &b->self, .row = b->missing_row};
	const bool telling = getpid() > 999; /* in a container it is 1 */
	char pid[16];
	unsigned i;

	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	if (!telling)
		untested(t, "our own number: %s may stand for anything", pid);
	for (i = 0; b->modes->count && i < sizeof(bodies) / sizeof(bodies[0]); i++) {
		struct run_request q = {0};
		struct err e = {0};

		expect(t,
		       request_parse(bodies[i], strlen(bodies[i]), b->settings, b->modes,
				     &q, &e) < 0,
		       "%s is taken", bodies[i]);
		expect(t,
		       !strchr(e.text, '/') && !strstr(e.text, "0x") &&
			       !(telling && strstr(e.text, pid)),
		       "%.100s", e.text);
		request_done(&q);
	}
	run_whole(b, &missing);
	expect(t, missing.failed && !strchr(missing.error.text, '/'),
	       "a failed set-up tells a path: %s", missing.error.text);
	observe(t, "step names, no paths");
	run_done(&missing);
}

static void il09(struct tries *t)
{
	static char bytes[4096];
	const char *dir = getenv("OUTPUT_DIR");
	char path[300];
	int fd;

	snprintf(path, sizeof(path), "%.280s/zeros", dir ? dir : "output");
	fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	expect(t, fd >= 0 && ftruncate(fd, 300) == 0, "no file");
	memset(bytes, 'b', sizeof(bytes));
	(void)!write(STDOUT_FILENO, bytes, strtoul(tries_word(t, 0), NULL, 10));
	_exit(0);
}

static void il09_outside(struct battery *b, struct tries *t)
{
	static const char *const lengths[] = {"1",    "991",  "992", "1023",
					      "1024", "1025", "4096"};
	static const char marker[] = "\n... (output truncated)";
	unsigned i;

	for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		struct attack_run r = {.attack = "IL09",
				       .words = {lengths[i]},
				       .limits = {.output_kb = 1}};
		const size_t len = strtoul(lengths[i], NULL, 10);
		size_t same = 0, zeros;
		const char *file;

		run_whole(b, &r);
		while (same < r.out_len && r.out[same] == 'b')
			same++;
		expect(t,
		       len <= 1024 ? same == len && r.out_len == len
				   : r.out_len == same + strlen(marker) &&
					     strcmp(r.out + same, marker) == 0,
		       "%s bytes: %zu of %zu are its own", lengths[i], same, r.out_len);
		file = r.json ? strstr(r.json, "\"zeros\":\"") : NULL;
		zeros = file ? strspn(file + 9, "A") : 0;
		expect(t, zeros == 400, "a file of zeros has %zu of 400", zeros);
		run_done(&r);
	}
	observe(t, "every byte is the program's");
}

/* ---- IL11, IL12 ---- */

static void il11(struct tries *t)
{
	const unsigned char *random = (const unsigned char *)getauxval(AT_RANDOM);
	volatile int here = 0;

	expect(t, (personality(0xffffffff) & ADDR_NO_RANDOMIZE) == 0, "no randomness");
	say("at %p %p %lx %02x%02x%02x%02x end\n", (void *)&here, sbrk(0),
	    getauxval(AT_SYSINFO_EHDR), random[0], random[1], random[2], random[3]);
}

#define LAYOUTS 100
#define AT_ONCE 3

static void il11_outside(struct battery *b, struct tries *t)
{
	static char seen[LAYOUTS][4][24];
	struct attack_run r[AT_ONCE];
	unsigned n = 0, i, k, f, same[4] = {0};

	while (n < LAYOUTS && !b->stopped) {
		for (i = 0; i < AT_ONCE; i++) {
			r[i] = (struct attack_run){.attack = "IL11"};
			run_start(b, &r[i]);
		}
		for (i = 0; i < AT_ONCE; i++) {
			char *rest = r[i].said;

			run_wait(b, &r[i]);
			(void)strsep(&rest, " ");
			for (f = 0; f < 4 && rest && n < LAYOUTS; f++)
				snprintf(seen[n][f], 24, "%.23s", strsep(&rest, " "));
			expect(t, f == 4 || n == LAYOUTS, "a run said nothing: %.60s",
			       r[i].failed ? r[i].error.text : r[i].said);
			n += n < LAYOUTS;
			run_done(&r[i]);
		}
	}
	for (i = 0; i < n; i++) {
		for (k = 0; k < i; k++) {
			for (f = 0; f < 4; f++)
				same[f] += strcmp(seen[i][f], seen[k][f]) == 0;
		}
	}
	expect(t, same[0] == 0 && same[3] == 0 && same[1] <= 2 && same[2] <= 2,
	       "%u stacks, %u heaps, %u vdsos, %u seeds are the same", same[0], same[1],
	       same[2], same[3]);
	observe(t, "%u runs, no two alike", n);
}

static void il12(struct tries *t)
{
	static const char *const files[] = {"/etc/shadow", "/etc/sudoers",
					    "/root/.bashrc", "/var/log/syslog"};
	unsigned i, there = 0;
	struct stat st;

	for (i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		if (tries_shared(t))
			there += stat(files[i], &st) == 0;
		else
			expect_call(t, files[i], stat(files[i], &st), "ENOENT");
	}
	if (tries_shared(t)) {
		expect(t, try_open(files[0], O_RDONLY).num != 0, "it can be read");
		observe(t, "%u of %u can be asked for their size, none can be read",
			there, i);
	}
}

const struct attack attacks_il[] = {
	{"IL01", "the environment", "PATH HOME LANG TMPDIR OUTPUT_DIR and no other",
	 LEVEL_PROCESS, il01, NULL, NULL, NULL},
	{"IL02", "secrets of ours and code of others, in memory and files", "not found",
	 LEVEL_LANDLOCK, il02, il02_outside, NULL, NULL},
	{"IL04", "kallsyms, keys, kcore and 17 others of /proc; sockets; cgroup paths",
	 "empty, absent, or its own", LEVEL_LANDLOCK, il04, NULL, NULL, NULL},
	{"IL05", "the kernel's log; perf", "EPERM; ENOENT", LEVEL_LANDLOCK, il05, NULL,
	 NULL, "EPERM; EACCES"},
	{"IL06", "names of the host: hostname, machine id, DMI, addresses",
	 "sandbox; ENOENT", LEVEL_LANDLOCK, il06, il06_outside, NULL,
	 "EACCES; the host's name is documented"},
	{"IL07", "error messages", "no paths, process numbers, addresses", LEVEL_PROCESS,
	 NULL, il07_outside, NULL, NULL},
	{"IL09", "bytes of others in cut output and sparse files", "none", LEVEL_PROCESS,
	 il09, il09_outside, NULL, NULL},
	{"IL11", "address layouts of 100 runs", "no two alike", LEVEL_PROCESS, il11,
	 il11_outside, NULL, NULL},
	{"IL12", "stat of hidden files", "ENOENT", LEVEL_LANDLOCK, il12, NULL, NULL,
	 "documented: size and times can be asked for"},
	{.id = NULL},
};

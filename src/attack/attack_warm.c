/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * attack_warm.c - XS10: what a run finds of the one before it
 *
 * The same program a few times, one after the other: from sandboxes that waited where
 * they do, cold where they do not. Each looks for what the one before left, leaves the
 * same, and tells what no two may have in common.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "attack/battery.h"

#define TIMES 4
#define FACTS 5
#define PLACES 2 /* of them: an address and a hash, which forks of one python share */
#define FACT 40
#define OPEN_MOST 256
#define MARK "xs10-left"

/* the first line a run writes: words that must differ, then those that must not */
struct told {
	char differs[FACTS][FACT];
	char same[512];
};

static void hex(const unsigned char *bytes, char out[33])
{
	for (int i = 0; i < 16; i++)
		snprintf(out + 2 * (size_t)i, 3, "%02x", bytes[i]);
}

static unsigned count_environment(void)
{
	unsigned n = 0;

	while (environ[n])
		n++;
	return n;
}

void xs10(struct tries *t)
{
	static const char *const places[] = {".", "/tmp", "/dev/shm"};
	unsigned char fresh[16] = {0};
	char given[33], drawn[33], path[64];
	int i, others = 0, local = 0;
	void *map;

	for (i = 0; i < (int)(sizeof(places) / sizeof(places[0])); i++) {
		snprintf(path, sizeof(path), "%s/" MARK, places[i]);
		expect_tried(t, path, try_open(path, O_RDONLY), tries_hidden(t));
		(void)try_open(path, O_WRONLY | O_CREAT); /* where it may */
	}
	expect(t, !getenv(MARK), "a variable of the run before");
	(void)setenv(MARK, "1", 1);
	for (i = 3; i < OPEN_MOST; i++)
		others += fcntl(i, F_GETFD) >= 0;
	expect(t, others == 0, "%d descriptors besides the streams", others);
	expect(t, getrandom(fresh, sizeof(fresh), 0) == (ssize_t)sizeof(fresh),
	       "no random bytes");
	map = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	hex((const unsigned char *)getauxval(AT_RANDOM), given);
	hex(fresh, drawn);
	say("%p %p %p %s %s %u\n", (void *)&local, map, (void *)(uintptr_t)xs10, given,
	    drawn, count_environment());
}

static const char python_code[] =
	"import os, random\n"
	"left = [p for p in ('.', '/tmp', '/dev/shm') if os.path.exists(p + '/" MARK
	"')]\n"
	"for p in '.', '/tmp':\n"
	"    try: open(p + '/" MARK "', 'w').close()\n"
	"    except PermissionError: pass\n" /* without namespaces there is no /tmp */
	"print(id(object()), hash('a'), os.urandom(8).hex(), random.getrandbits(64),\n"
	"      int.from_bytes(random.randbytes(8), 'big'), 'left:', left,\n"
	"      os.path.basename(os.getcwd()),\n"
	"      [f for f in range(3, 99) if os.path.exists('/proc/self/fd/%d' % f)],\n"
	"      sorted(os.environ))\n"
	"os.environ['" MARK "'] = '1'\n";

static bool read_told(const char *text, struct told *out)
{
	size_t len;

	for (int i = 0; i < FACTS; i++) {
		len = strcspn(text, " \n");
		if (len == 0 || len >= FACT || text[len] != ' ')
			return false;
		memcpy(out->differs[i], text, len);
		text += len + 1;
	}
	len = strcspn(text, "\n");
	if (len == 0 || len >= sizeof(out->same))
		return false;
	memcpy(out->same, text, len);
	return true;
}

static void compare(struct tries *t, const char *what, const struct told *told, int n,
		    int from)
{
	for (int i = 0; i < n; i++) {
		expect(t, strcmp(told[i].same, told[n].same) == 0, "%s: '%.60s', '%.60s'",
		       what, told[i].same, told[n].same);
		for (int f = from; f < FACTS; f++)
			expect(t, strcmp(told[i].differs[f], told[n].differs[f]) != 0,
			       "%s: two runs both have %s", what, told[n].differs[f]);
	}
}

static void repeat(struct battery *b, struct tries *t, struct attack_run *r)
{
	const struct mode *python = battery_mode(b, MODE_PYTHON);
	const bool forks = battery_forks(b) && (!r->mode || r->mode == python);
	const bool waits = forks || battery_warm(b);
	const char *what = r->mode ? r->mode->name : "program";
	const unsigned row = forks ? python->row : r->mode ? r->row : b->self_row;
	struct told told[TIMES] = {0};
	unsigned warm = 0;

	for (int i = 0; i < TIMES && !b->stopped; i++) {
		if (waits)
			expect(t, battery_wait_warm(b, row), "%s: none waits", what);
		if (r->attack)
			run_inside(b, t, r);
		else
			run_whole(b, r);
		warm += r->outcome.warm;
		expect(t, r->out && read_told(r->out, &told[i]), "%s said: %.60s %.60s",
		       what, r->out ? r->out : "", r->err ? r->err : "");
		compare(t, what, told, i, forks && r->mode ? PLACES : 0);
		run_done(r);
	}
	expect(t, !waits || warm == TIMES, "%s: only %u of %d had waited", what, warm,
	       TIMES);
	observe(t, "%s: %u of %d runs had waited", what, warm, TIMES);
}

void xs10_outside(struct battery *b, struct tries *t)
{
	const struct mode *python = battery_mode(b, MODE_PYTHON);
	struct attack_run ours = {.attack = "XS10"};
	struct attack_run theirs = {.code = python_code, .mode = python};

	repeat(b, t, &ours);
	if (!python)
		return;
	theirs.row = python->row;
	repeat(b, t, &theirs);
}

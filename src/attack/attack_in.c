/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * attack_in.c - packages: what is asked for, and what they do where they are installed
 *
 * Hostile packages need an index that has them, which a host under test has not: the
 * tests of the source tree build them and serve them, case by case.
 */
#include <stddef.h>
#include <string.h>

#include "api/requirement.h"
#include "attack/attack.h"
#include "attack/battery.h"
#include "base/err.h"

#define BY_TESTS "it needs an index with packages of its own: tests/attack/test_in.py"

static void in05_outside(struct battery *b, struct tries *t)
{
	static const char *const bad[] = {
		"-r /etc/passwd",
		"--index-url=http://127.0.0.1/",
		"-",
		"git+https://127.0.0.1/x",
		"file:///etc/x",
		"a @ http://127.0.0.1/a.whl",
		"./a",
		"../a",
		"/etc/passwd",
		"a; os.system",
		"$(id)",
		"`id`",
		"a\nb",
		"a|b",
		"a && b",
		"",
		" ",
		"a==1 --no-binary :all:",
	};
	char form[REQUIREMENT_ROOM];
	struct err e = {0};

	(void)b;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		const size_t len = strlen(bad[i]);

		expect(t, requirement_python(bad[i], len, form, &e) < 0,
		       "uv would be given '%s'", bad[i]);
		expect(t, requirement_npm(bad[i], len, form, &e) < 0,
		       "npm would be given '%s'", bad[i]);
	}
	expect(t, requirement_python("a[b]>=1", 7, form, &e) == 0, "a[b]>=1 is refused");
	expect(t, requirement_npm("@a/b@^1", 7, form, &e) == 0, "@a/b@^1 is refused");
	observe(t, "all are refused, and names are taken");
}

const struct attack attacks_in[] = {
	{"IN01", "a package that is built reads secrets and phones elsewhere",
	 "nothing is found; its index alone is reached", LEVEL_LANDLOCK, NULL, NULL,
	 BY_TESTS, NULL},
	{"IN02", "a script of npm's leaves a daemon for the run", "dead before the run",
	 LEVEL_LANDLOCK, NULL, NULL, BY_TESTS, NULL},
	{"IN04", "a program changes the packages it was given", "EROFS", LEVEL_LANDLOCK,
	 NULL, NULL, BY_TESTS, NULL},
	{"IN05", "options, addresses, paths and shell words as names of packages",
	 "refused", LEVEL_PROCESS, NULL, in05_outside, NULL, NULL},
	{"IN06", "another index has the same name", "the named index is the only one",
	 LEVEL_LANDLOCK, NULL, NULL, BY_TESTS, NULL},
	{"IN08", "a package writes what another list reads",
	 "others have what the index has", LEVEL_LANDLOCK, NULL, NULL, BY_TESTS, NULL},
	{"IN09", "the network of an install, used by the run after it", "no socket",
	 LEVEL_LANDLOCK, NULL, NULL, BY_TESTS, NULL},
	{"IN10", "packages that run code, where the operator did not allow it",
	 "not run; the error says why", LEVEL_LANDLOCK, NULL, NULL, BY_TESTS, NULL},
	{.id = NULL},
};

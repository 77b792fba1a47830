/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * policy.c - for authors of policies: what is allowed, what is refused, and by which line
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/defer.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "cmd/cmd.h"
#include "config/explain.h"
#include "config/filter.h"

#define TEXT_CAP (1u << 20)
#define LINE_WIDTH 90

static const char usage[] =
	"usage: sandbox-server policy list\n"
	"       sandbox-server policy show [NAME]\n"
	"       sandbox-server policy check FILE...\n"
	"       sandbox-server policy explain SYSCALL...\n"
	"       sandbox-server policy observe [--mode M] SCRIPT\n\n"
	"  list     the policies in force, how much each allows and refuses\n"
	"  show     the text of one; without a NAME every call by what happens to it\n"
	"  check    read and compile files, each in the place of the policy of its name\n"
	"           (base.json); the first mistake with its line, and exit 1\n"
	"  explain  what happens to a call, and which file and line says so\n"
	"  observe  run a program, and print what it called beyond the policy, as a\n"
	"           policy (observe --help)\n\n"
	"They are those of the binary, or of SANDBOX_POLICY_DIR (--policy-dir).\n"
	"sandbox-policy(5) describes the files.\n";

/* a program's: of two errors the last one's counts */
static const struct {
	const char *name;
	const char *what;
} policies[] = {
	{"network-none", "programs: which sockets"},
	{"arguments", "programs: calls by their arguments"},
	{"base", "programs: which calls at all"},
	{"init", "process 1 of a sandbox"},
	{"shared-pids", "programs at the levels landlock and process, too"},
	{"shared-uid", "programs at landlock and process with the server's uid, too"},
	{"uncounted", "programs where no cgroup counts memory, too"},
	{"init-shared-pids", "in place of init at the levels landlock and process"},
	{"network-broker", "programs that have network: which sockets, instead"},
	{"network-port", "installs at landlock: what of network-broker they have not"},
	{"shared-uid-install", "installs with the server's uid: instead of its errors"},
	{"network-pod", "programs that have the pod's network: which sockets, instead"},
	{"shared-network", "programs that share the pod's and have none, too"},
	{"root", "programs of sessions whose user is root: which calls, instead of base"},
	{POLICY_SERVER, "the server itself; always the binary's"},
	{POLICY_BROKER, "who connects for runs that have network; always the binary's"},
	{POLICY_IMAGE, "who unpacks images; always the binary's"},
};

#define POLICY_COUNT (sizeof(policies) / sizeof(policies[0]))

/* those that programs have as well where they share pids, or the uid too, or have no
 * cgroup; and those that some have in the place of others */
enum { SHARED_FIRST = 4, SHARED_COUNT = 3, OTHERS_FIRST = 8, OTHERS_COUNT = 6 };

int policy_set_load(struct policy *set[POLICY_SET], struct err *e)
{
	for (size_t i = 0; i < POLICY_SET; i++)
		set[i] = NULL;
	for (size_t i = 0; i < POLICY_SET; i++) {
		set[i] = policy_load(policies[i].name, e);
		if (!set[i])
			return -1;
	}
	return 0;
}

void policy_set_free(struct policy *set[POLICY_SET])
{
	for (size_t i = 0; i < POLICY_SET; i++)
		policy_free(set[i]);
}

static int print(struct buf *b, struct err *e)
{
	int rc = 0;

	if (buf_text(b) < 0)
		rc = err_errno(e, "make the text");
	else if (fputs(b->bytes, stdout) < 0 || fflush(stdout) < 0)
		rc = err_errno(e, "write");
	buf_done(b);
	return rc;
}

/* calls that have a rule which allows (or refuses) at least some of their arguments */
static unsigned count_calls(const struct policy *p, bool allowed)
{
	bool seen[EXPLAIN_NUMBERS] = {false};
	unsigned count = 0;

	for (size_t i = 0; i < p->rules; i++) {
		const struct policy_rule *r = &p->rule[i];
		bool allows = r->action == POLICY_ALLOW || r->action == POLICY_LOG;

		if (allows != allowed || r->number < 0 || r->number >= EXPLAIN_NUMBERS ||
		    seen[r->number])
			continue;
		seen[r->number] = true;
		count++;
	}
	return count;
}

static int list_one(struct buf *b, size_t i, struct err *e)
{
	struct policy *p = policy_load(policies[i].name, e);
	struct setup_filter *f = mem_zero(sizeof(*f));
	size_t at = b->len;
	int rc = -1;

	if (p && filter_compile(p, f, e) == 0) {
		buf_printf(b, "%-18s ", policies[i].name);
		explain_action(b, p->default_action, p->default_errno);
		while (b->len - at < 27)
			buf_puts(b, " ");
		buf_printf(b, "%7u %7u %12u  %s\n", count_calls(p, true),
			   count_calls(p, false), f->len, policies[i].what);
		rc = 0;
	}
	free(f);
	policy_free(p);
	return rc;
}

static int policy_list(int argc, char **argv, struct err *e)
{
	struct buf b;

	(void)argc;
	(void)argv;
	buf_init(&b, TEXT_CAP);
	buf_printf(&b, "%-18s %-7s %7s %7s %12s  %s\n", "policy", "default", "allowed",
		   "refused", "instructions", "for");
	for (size_t i = 0; i < POLICY_COUNT; i++) {
		if (list_one(&b, i, e) < 0) {
			buf_done(&b);
			return -1;
		}
	}
	return print(&b, e);
}

/* every call with this outcome, as a paragraph; nothing when there is none */
static void show_outcome(struct buf *b, const struct outcome_of *all,
			 const struct outcome_of *like, bool exceptions)
{
	size_t line = 0;
	char name[POLICY_NAME];
	unsigned count = 0;
	struct buf names;

	buf_init(&names, TEXT_CAP);
	for (int n = 0; n < EXPLAIN_NUMBERS; n++) {
		if (!all[n].has_rule || all[n].action != like->action ||
		    (like->action == POLICY_ERRNO &&
		     all[n].errno_ret != like->errno_ret) ||
		    all[n].exceptions != exceptions)
			continue;
		filter_name(n, name);
		if (line + 1 + strlen(name) > LINE_WIDTH) {
			buf_puts(&names, "\n ");
			line = 0;
		}
		buf_printf(&names, " %s", name);
		line += 1 + strlen(name);
		count++;
	}
	if (count) {
		explain_action(b, like->action, like->errno_ret);
		buf_printf(b, "%s, %u:\n ", exceptions ? " but for some arguments" : "",
			   count);
		buf_add(b, names.bytes, names.len);
		buf_puts(b, "\n\n");
	}
	buf_done(&names);
}

static int show_all(struct err *e)
{
	struct outcome_of *all = mem_array(EXPLAIN_NUMBERS, sizeof(*all));
	struct policy *set[POLICY_SET];
	int rc = policy_set_load(set, e);
	struct buf b;

	for (int n = 0; rc == 0 && n < EXPLAIN_NUMBERS; n++)
		all[n] = explain_call(set, POLICY_SET, n);
	buf_init(&b, TEXT_CAP);
	for (int with = 0; rc == 0 && with < 2; with++) {
		struct outcome_of like = {.action = POLICY_ALLOW};

		show_outcome(&b, all, &like, with);
		like.action = POLICY_LOG;
		show_outcome(&b, all, &like, with);
		like.action = POLICY_KILL_PROCESS;
		show_outcome(&b, all, &like, with);
		like.action = POLICY_ERRNO;
		for (like.errno_ret = 0; like.errno_ret < 4096; like.errno_ret++)
			show_outcome(&b, all, &like, with);
	}
	free(all);
	if (rc == 0) {
		buf_puts(&b, "every other call: ");
		explain_action(&b, set[POLICY_SET - 1]->default_action,
			       set[POLICY_SET - 1]->default_errno);
		buf_puts(&b, "\n");
		rc = print(&b, e);
	}
	buf_done(&b);
	policy_set_free(set);
	return rc;
}

static int policy_show(int argc, char **argv, struct err *e)
{
	auto_free char *file = NULL;
	auto_free char *text = NULL;
	size_t len;

	if (argc == 0)
		return show_all(e);
	for (size_t i = 0; i < POLICY_COUNT; i++) {
		if (strcmp(argv[0], policies[i].name) != 0)
			continue;
		text = policy_find(argv[0], &file, &len, e);
		if (!text)
			return -1;
		if (fwrite(text, 1, len, stdout) != len || fflush(stdout) < 0)
			return err_errno(e, "write");
		return 0;
	}
	return err_bad(e, "no policy '%s' (try policy list)", argv[0]);
}

/* "/some/base.json": base; the rest of the path when it ends otherwise */
static char *name_of(const char *path)
{
	const char *slash = strrchr(path, '/');
	const char *file = slash ? slash + 1 : path;
	const char *dot = strrchr(file, '.');

	return dot && strcmp(dot, ".json") == 0 ? mem_copy_n(file, (size_t)(dot - file))
						: mem_copy(file);
}

/* by itself, for each architecture that it is for */
static int check_alone(const struct policy *p, const char *path, struct err *e)
{
	auto_free struct setup_filter *f = mem_zero(sizeof(*f));

	if (!(p->archs & FILTER_ARCH))
		return err_bad(e, "%s: not for this machine's architecture", path);
	for (unsigned arch = POLICY_X86_64; arch <= POLICY_AARCH64; arch <<= 1) {
		if (!(p->archs & arch))
			continue;
		if (filter_compile_for(p, (enum policy_arch)arch, f, e) < 0)
			return -1;
		printf("%s: %zu rules, %u instructions on %s\n", path, p->rules, f->len,
		       arch == POLICY_X86_64 ? "x86-64" : "aarch64");
	}
	return 0;
}

static int check_file(const char *path, struct err *e)
{
	auto_free char *name = name_of(path);
	auto_free char *text = NULL;
	struct policy *p = NULL;
	size_t len;
	int rc = -1;

	text = policy_read(path, &len, e);
	if (text)
		p = policy_parse(path, text, len, e);
	/* as a start does it, first: what it would refuse is not praised by a line */
	if (p)
		rc = filters_check(name, p, e);
	if (rc >= 0)
		rc = check_alone(p, path, e);
	policy_free(p);
	return rc;
}

static int policy_check(int argc, char **argv, struct err *e)
{
	for (int i = 0; i < argc; i++) {
		if (check_file(argv[i], e) < 0)
			return -1;
	}
	return 0;
}

/* what a file adds that not every program has */
static void explain_shared(struct buf *b, struct policy *p, const char *what, int number)
{
	if (!explain_call(&p, 1, number).has_rule)
		return;
	buf_printf(b, " %s:\n", what);
	explain_rules(b, p, number);
}

/* what some programs have in the place of these, by name: their rules would be pages */
static int explain_others(struct buf *b, struct policy *const *set, int number,
			  struct err *e)
{
	const struct outcome_of usual = explain_call(set + POLICY_SET - 1, 1, number);

	for (size_t i = OTHERS_FIRST; i < OTHERS_FIRST + OTHERS_COUNT; i++) {
		struct policy *p = policy_load(policies[i].name, e);
		struct outcome_of o;

		if (!p)
			return -1;
		o = explain_call(&p, 1, number);
		policy_free(p);
		/* root says as much as base does, and mostly the same */
		if (o.has_rule &&
		    (o.action != usual.action || o.errno_ret != usual.errno_ret ||
		     o.exceptions != usual.exceptions))
			buf_printf(b, " otherwise by policy show %s: %s\n",
				   policies[i].name, policies[i].what);
	}
	return 0;
}

/* set: a program's, then the shared ones */
static int explain_one(struct buf *b, struct policy *const *set, const char *word,
		       struct err *e)
{
	int number = filter_number(FILTER_ARCH, word);
	struct outcome_of o;
	char name[POLICY_NAME];

	if (number == FILTER_UNKNOWN)
		return err_bad(e, "unknown system call '%s'", word);
	if (number == FILTER_ELSEWHERE) {
		buf_printf(b, "%s: this architecture has no such call\n", word);
		return 0;
	}
	filter_name(number, name);
	o = explain_call(set, POLICY_SET, number);
	buf_printf(b, "%s (%d): ", name, number);
	explain_action(b, o.action, o.errno_ret);
	if (o.action == POLICY_ERRNO && o.errno_ret)
		buf_printf(b, ", %s", strerror((int)o.errno_ret));
	buf_puts(b, o.exceptions ? "; but for some arguments\n" : "\n");
	for (size_t i = 0; i < POLICY_SET; i++)
		explain_rules(b, set[i], number);
	for (size_t i = 0; i < SHARED_COUNT; i++)
		explain_shared(b, set[POLICY_SET + i], policies[SHARED_FIRST + i].what,
			       number);
	return explain_others(b, set, number, e);
}

static int policy_explain(int argc, char **argv, struct err *e)
{
	struct policy *set[POLICY_SET + SHARED_COUNT] = {NULL};
	struct buf b;
	int rc;

	buf_init(&b, TEXT_CAP);
	rc = policy_set_load(set, e);
	for (int i = 0; rc == 0 && i < SHARED_COUNT; i++) {
		set[POLICY_SET + i] = policy_load(policies[SHARED_FIRST + i].name, e);
		rc = set[POLICY_SET + i] ? 0 : -1;
	}
	for (int i = 0; rc == 0 && i < argc; i++)
		rc = explain_one(&b, set, argv[i], e);
	policy_set_free(set);
	for (int i = 0; i < SHARED_COUNT; i++)
		policy_free(set[POLICY_SET + i]);
	if (rc == 0)
		return print(&b, e);
	buf_done(&b);
	return rc;
}

static const struct {
	const char *name;
	int least, most; /* arguments */
	int (*run)(int argc, char **argv, struct err *e);
} verbs[] = {
	{"list", 0, 0, policy_list},
	{"show", 0, 1, policy_show},
	{"check", 1, 4096, policy_check},
	{"explain", 1, 4096, policy_explain},
};

static int run_verb(int argc, char **argv, struct err *e)
{
	if (argc == 0)
		return err_bad(e, "policy wants a verb (try policy --help)");
	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
		if (strcmp(argv[0], verbs[i].name) != 0)
			continue;
		if (argc - 1 < verbs[i].least)
			return err_bad(e, "policy %s: an argument is missing", argv[0]);
		if (argc - 1 > verbs[i].most)
			return err_bad(e, "policy %s: unknown argument '%s'", argv[0],
				       argv[verbs[i].most + 1]);
		return verbs[i].run(argc - 1, argv + 1, e);
	}
	return err_bad(e, "unknown verb 'policy %s' (try policy --help)", argv[0]);
}

/* settings may stand before and behind the verb; the rest is the verb's */
int cmd_policy(int argc, char **argv)
{
	auto_free char **flags = mem_array((size_t)argc + 1, sizeof(char *));
	auto_free char **rest = mem_array((size_t)argc + 1, sizeof(char *));
	struct settings settings = {0};
	int i, flag_count = 0, count = 0, status = 1;
	struct err e = {0};

	/* a program's arguments are its own, whatever they look like */
	if (argc > 0 && strcmp(argv[0], "observe") == 0)
		return cmd_observe(argc - 1, argv + 1);
	log_setup(LOG_ERROR, LOG_TEXT, "policy");
	for (i = 0; i < argc; i++) {
		if (strcmp(argv[i], "--help") == 0) {
			fputs(usage, stdout);
			return 0;
		}
		if (strncmp(argv[i], "--", 2) != 0) {
			rest[count++] = argv[i];
			continue;
		}
		flags[flag_count++] = argv[i];
		if (!strchr(argv[i], '=') && i + 1 < argc)
			flags[flag_count++] = argv[++i];
	}
	if (settings_load(&settings, flag_count, flags, NULL, &e) >= 0) {
		policy_set_dir(settings.policy_dir);
		status = run_verb(count, rest, &e) < 0 ? 1 : 0;
	}
	if (status)
		fprintf(stderr, "sandbox-server: %s\n", e.text);
	policy_set_dir(NULL);
	settings_done(&settings);
	return status;
}

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_reporting.c - the filter that reports: which calls, and that no answer changes
 */
#include <errno.h>
#include <linux/audit.h>
#include <sched.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <unistd.h>

#include "answers.h"
#include "base/err.h"
#include "config/filter.h"
#include "tap.h"

#define HIGH 0x100000000u /* a bit that the kernel cuts off an int, and a filter sees */

static void set_native(struct seccomp_data *d)
{
	d->arch = FILTER_ARCH == POLICY_X86_64 ? AUDIT_ARCH_X86_64 : AUDIT_ARCH_AARCH64;
}

/* values around those that a rule looks at */
static uint64_t near(const struct setup_denial *d, unsigned arg, unsigned which)
{
	uint64_t value = d->arg[arg].op == DENIAL_MASKED_EQ ? d->arg[arg].value_two
							    : d->arg[arg].value;
	const uint64_t more[] = {value,  value + 1, value - 1, value | HIGH,
				 ~value, 0,         1,         UINT64_MAX};

	return more[which];
}

/* each rule that refuses with values that fit and values beside; every number besides */
static void compare_all(void)
{
	const struct setup_reporting *r = &answers_setup.reporting[answers_of];
	struct seccomp_data d = {0};

	set_native(&d);
	for (int nr = -2; nr < 1100; nr++)
		for (uint64_t a = 0; a < 40; a++) {
			d.nr = nr;
			d.args[0] = d.args[1] = d.args[2] = a;
			CHECK(answer_reported(&d) == answer_plain(&d));
		}
	for (uint32_t i = 0; i < r->denials; i++)
		for (unsigned a = 0; a < 8; a++)
			for (unsigned b = 0; b < 8; b++) {
				memset(d.args, 0, sizeof(d.args));
				d.nr = r->denial[i].nr;
				for (unsigned n = 0; n < r->denial[i].args; n++)
					d.args[r->denial[i].arg[n].index] = near(
						&r->denial[i], n, n ? b : a);
				CHECK(answer_reported(&d) == answer_plain(&d));
			}
}

TEST(reporting_changes_no_answer)
{
	answers_compile();
	CHECK(answers_setup.reporting[0].denials > 100);
	for (answers_of = 0; answers_of < REPORTING_COUNT; answers_of++)
		compare_all();
}

TEST(reporting_everything_changes_no_answer)
{
	answers_setup.reporting[0].wide = 1;
	answers_compile();
	for (answers_of = 0; answers_of < REPORTING_COUNT; answers_of++)
		compare_all();
}

static bool is_asked(const char *name, uint64_t arg0)
{
	struct seccomp_data d = {.nr = filter_number(FILTER_ARCH, name), .args = {arg0}};

	set_native(&d);
	return answer_asked(&d) == SECCOMP_RET_USER_NOTIF;
}

TEST(refusals_are_reported_and_what_has_a_fallback_is_not)
{
	static const char *const quiet[] = {"clone3", "io_uring_setup", "splice", "sync",
					    "shmget", "getpid",         "1000"};

	answers_compile();
	CHECK(is_asked("ptrace", 0) && is_asked("seccomp", 1) &&
	      is_asked("prlimit64", 7));
	CHECK(is_asked("socket", AF_INET) && is_asked("socket", AF_ALG));
	CHECK(is_asked("clone", CLONE_NEWUSER) && is_asked("socketpair", AF_INET));
	CHECK(!is_asked("socket", AF_UNIX) && !is_asked("clone", SIGCHLD));
	for (size_t i = 0; i < sizeof(quiet) / sizeof(quiet[0]); i++)
		CHECK(!is_asked(quiet[i], 0));
}

TEST(who_wants_to_know_all_is_told_all_that_is_not_allowed)
{
	answers_compile();
	CHECK(!is_asked("personality", 1)); /* by the default, not by a rule */
	answers_setup.reporting[0].wide = 1;
	answers_compile();
	CHECK(is_asked("clone3", 0) && is_asked("splice", 0) && is_asked("1000", 0));
	CHECK(is_asked("ptrace", 0) && is_asked("socket", AF_INET));
	CHECK(is_asked("personality", 1) && !is_asked("personality", 0));
	CHECK(!is_asked("getpid", 0) && !is_asked("sync", 0));
}

static uint32_t answer_to(enum setup_reporting_id of, int number)
{
	const struct seccomp_data d = {.nr = number,
				       .arch = FILTER_ARCH == POLICY_X86_64
						       ? AUDIT_ARCH_X86_64
						       : AUDIT_ARCH_AARCH64};

	answers_of = of;
	return answer_plain(&d);
}

/* what is allowed to it is what its policy is for, and base may not change alone */
TEST(root_of_a_session_may_call_ten_more_than_others_in_one)
{
	static const char *const more[] = {
		"setuid",    "setgid",   "setreuid", "setregid",  "setresuid",
		"setresgid", "setfsuid", "setfsgid", "setgroups", "chroot"};
	unsigned differ = 0;

	answers_compile();
	for (size_t i = 0; i < sizeof(more) / sizeof(more[0]); i++) {
		const int number = filter_number(FILTER_ARCH, more[i]);

		CHECK(answer_to(REPORTING_ROOT, number) == SECCOMP_RET_ALLOW);
		CHECK(answer_to(REPORTING_BROKER, number) == (SECCOMP_RET_ERRNO | EPERM));
	}
	for (int number = 0; number < 1024; number++)
		differ += answer_to(REPORTING_ROOT, number) !=
			  answer_to(REPORTING_BROKER, number);
	CHECK(differ == sizeof(more) / sizeof(more[0]));
}

static const char *const names[] = {"network-none",
				    "arguments",
				    "base",
				    "init",
				    "shared-pids",
				    "shared-uid",
				    "network-port",
				    "shared-uid-install",
				    "init-shared-pids",
				    "network-broker",
				    "network-pod",
				    "shared-network",
				    "uncounted",
				    "root"};
enum { NAMES = sizeof(names) / sizeof(names[0]) };

static const char *write_policies(const char *arguments, const char *base)
{
	static char dir[] = "/tmp/test-policies-XXXXXX";
	const char *const texts[NAMES] = {"", arguments, base};
	char path[64];
	FILE *f;

	CHECK(mkdtemp(dir));
	for (int i = 0; i < NAMES; i++) {
		snprintf(path, sizeof(path), "%s/%s.json", dir, names[i]);
		f = fopen(path, "we");
		CHECK(f);
		fprintf(f,
			"{\"defaultAction\": \"%s\", \"architectures\": "
			"[\"SCMP_ARCH_X86_64\", \"SCMP_ARCH_AARCH64\"], "
			"\"syscalls\": [%s]}",
			i == 2 ? "SCMP_ACT_ERRNO" : "SCMP_ACT_ALLOW",
			texts[i] ? texts[i] : "");
		fclose(f);
	}
	return dir;
}

static void remove_policies(const char *dir)
{
	char path[64];

	for (int i = 0; i < NAMES; i++) {
		snprintf(path, sizeof(path), "%s/%s.json", dir, names[i]);
		unlink(path);
	}
	rmdir(dir);
	policy_set_dir(NULL);
}

#define RULE(names, action) \
	"{\"names\": [" names "], \"action\": \"SCMP_ACT_" action "\"}"
#define NEEDED "\"sendmsg\", \"close\", \"setrlimit\", \"execve\""

/* killing wins over any error, an error over logging and logging over allowing, as the
 * kernel has it */
TEST(policies_that_kill_and_log_keep_doing_so)
{
	const char *arguments = RULE("\"kcmp\", \"getuid\"", "KILL_PROCESS") "," RULE(
		"\"getgid\", \"getppid\"", "ERRNO");
	const char *base = RULE("\"getuid\", \"getgid\", " NEEDED,
				"ALLOW") "," RULE("\"getpid\", \"getppid\"", "LOG");
	const char *dir = write_policies(arguments, base);
	struct seccomp_data d = {0};

	policy_set_dir(dir);
	answers_compile();
	set_native(&d);
	compare_all();
	d.nr = filter_number(FILTER_ARCH, "kcmp");
	CHECK(answer_reported(&d) == SECCOMP_RET_KILL_PROCESS);
	d.nr = filter_number(FILTER_ARCH, "getpid");
	CHECK(answer_reported(&d) == SECCOMP_RET_LOG);
	CHECK(is_asked("getgid", 0) && is_asked("getppid", 0) && !is_asked("getuid", 0) &&
	      !is_asked("read", 0));
	remove_policies(dir);
}

TEST(a_policy_that_no_program_can_start_with_is_refused)
{
	const char *dir = write_policies("", RULE("\"execve\", \"close\"", "ALLOW"));
	struct err e = {0};

	policy_set_dir(dir);
	CHECK(filters_compile(&answers_setup, &e) == -1);
	CHECK(strstr(e.text, "base.json: 'sendmsg' must be allowed"));
	remove_policies(dir);
}

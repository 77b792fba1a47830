/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_policies.c - the policies of policy/, compiled, against the rows of *.tests
 *
 * A row is `call[@i386|@x32] argument... -> allow|errno NAME|kill`. An argument is
 * numbers and names of the table below, joined by '|'; what is not given is 0.
 * program.tests is about the filter of a program, as a run loads it, plain and
 * with its refusals reported; init.tests about the one of process 1, server.tests about
 * the server's own; shared.tests and init-shared.tests about the first two where there
 * are no namespaces.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <net/if.h>
#include <sched.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "answers.h"
#include "base/err.h"
#include "bpf.h"
#include "config/embedded.h"
#include "config/filter.h"
#include "tap.h"
#include "wire/setup.h"

#define HIGH 0x100000000u /* a bit that the kernel cuts off an int, and a filter sees */

#define NAMED(n)                  \
	{                         \
#n, (uint64_t)(n) \
	}
static const struct {
	const char *name;
	uint64_t value;
} constants[] = {
	NAMED(HIGH),
	NAMED(AF_UNSPEC),
	NAMED(AF_UNIX),
	NAMED(AF_INET),
	NAMED(AF_INET6),
	NAMED(AF_KEY),
	NAMED(AF_NETLINK),
	NAMED(AF_PACKET),
	NAMED(AF_CAN),
	NAMED(AF_TIPC),
	NAMED(AF_BLUETOOTH),
	NAMED(AF_ALG),
	NAMED(AF_VSOCK),
	NAMED(AF_SMC),
	NAMED(AF_XDP),
	NAMED(SOCK_STREAM),
	NAMED(SOCK_RAW),
	NAMED(SOCK_CLOEXEC),
	NAMED(SOCK_NONBLOCK),
	NAMED(CLONE_VM),
	NAMED(CLONE_FS),
	NAMED(CLONE_FILES),
	NAMED(CLONE_SIGHAND),
	NAMED(CLONE_THREAD),
	NAMED(CLONE_SYSVSEM),
	NAMED(CLONE_VFORK),
	NAMED(CLONE_PIDFD),
	NAMED(CLONE_SETTLS),
	NAMED(CLONE_PARENT_SETTID),
	NAMED(CLONE_CHILD_CLEARTID),
	NAMED(CLONE_NEWNS),
	NAMED(CLONE_NEWCGROUP),
	NAMED(CLONE_NEWUTS),
	NAMED(CLONE_NEWIPC),
	NAMED(CLONE_NEWUSER),
	NAMED(CLONE_NEWPID),
	NAMED(CLONE_NEWNET),
	NAMED(SIGCHLD),
	NAMED(IN_ACCESS),
	NAMED(IN_MODIFY),
	NAMED(IN_ATTRIB),
	NAMED(IN_CREATE),
	NAMED(IN_DELETE),
	NAMED(IN_CLOSE_WRITE),
	NAMED(IN_CLOSE_NOWRITE),
	NAMED(IN_OPEN),
	NAMED(F_NOTIFY),
	NAMED(F_SETFL),
	NAMED(TCGETS),
	NAMED(TIOCGWINSZ),
	NAMED(FIONREAD),
	NAMED(FIOCLEX),
	NAMED(TIOCSTI),
	NAMED(TIOCLINUX),
	NAMED(TIOCCONS),
	NAMED(TIOCSETD),
	NAMED(PR_SET_NAME),
	NAMED(PR_SET_PDEATHSIG),
	NAMED(PR_SET_NO_NEW_PRIVS),
	NAMED(PR_SET_SECCOMP),
	NAMED(PR_SET_TSC),
	NAMED(PR_SET_MM),
	NAMED(PR_SET_SPECULATION_CTRL),
	NAMED(PR_SET_IO_FLUSHER),
	NAMED(PR_SET_SYSCALL_USER_DISPATCH),
	NAMED(PR_SCHED_CORE),
	{"PR_SET_MEMORY_MERGE", 67},
	{"PR_FUTEX_HASH", 78},
	{"PR_SET_VMA", 0x53564d41},
	NAMED(S_IFREG),
	NAMED(S_IFIFO),
	NAMED(S_IFSOCK),
	NAMED(S_IFCHR),
	NAMED(S_IFBLK),
	NAMED(MSG_OOB),
	NAMED(MSG_NOSIGNAL),
	NAMED(MSG_DONTWAIT),
	NAMED(MSG_FASTOPEN),
	NAMED(SHUT_RD),
	NAMED(SHUT_WR),
	NAMED(SHUT_RDWR),
	NAMED(SOL_SOCKET),
	NAMED(SO_REUSEADDR),
	NAMED(SO_PASSCRED),
	NAMED(SO_ATTACH_FILTER),
	NAMED(SO_ATTACH_BPF),
	NAMED(SO_ATTACH_REUSEPORT_CBPF),
	NAMED(SO_ATTACH_REUSEPORT_EBPF),
	{"SOL_TCP", 6},
	{"TCP_ULP", 31},
	{"ARCH_SET_FS", 0x1002},
	{"ARCH_SET_CPUID", 0x1012},
	{"ARCH_MAP_VDSO_X32", 0x2001},
	{"ARCH_MAP_VDSO_32", 0x2002},
	{"ARCH_MAP_VDSO_64", 0x2003},
	{"READ_IMPLIES_EXEC", 0x400000},
	{"ADDR_NO_RANDOMIZE", 0x40000},
};

struct row {
	const char *file;
	unsigned line;
	struct seccomp_data data;
	uint32_t wanted;
};

static _Noreturn void row_fail(const struct row *r, const char *what, const char *word)
{
	fprintf(stderr, "# %s:%u: %s '%s'\n", r->file, r->line, what, word);
	exit(1);
}

static uint64_t constant(const struct row *r, const char *word)
{
	uint64_t n;
	char *end;

	for (size_t i = 0; i < sizeof(constants) / sizeof(constants[0]); i++)
		if (strcmp(constants[i].name, word) == 0)
			return constants[i].value;
	errno = 0;
	n = strtoull(word, &end, 0);
	if (end == word || *end || errno)
		row_fail(r, "not a number or a known name:", word);
	return n;
}

static uint64_t argument(const struct row *r, char *text)
{
	uint64_t n = 0;

	for (char *save, *word = strtok_r(text, "|", &save); word;
	     word = strtok_r(NULL, "|", &save))
		n |= constant(r, word);
	return n;
}

static void call(struct row *r, char *word)
{
	char *entry = strchr(word, '@');

	r->data.arch = FILTER_ARCH == POLICY_X86_64 ? AUDIT_ARCH_X86_64
						    : AUDIT_ARCH_AARCH64;
	if (entry)
		*entry++ = 0;
	r->data.nr = filter_number(FILTER_ARCH, word);
	if (r->data.nr == FILTER_UNKNOWN)
		row_fail(r, "unknown call", word);
	if (entry && strcmp(entry, "i386") == 0)
		r->data.arch = AUDIT_ARCH_I386;
	else if (entry && strcmp(entry, "x32") == 0)
		r->data.nr |= 0x40000000;
	else if (entry)
		row_fail(r, "unknown entry", entry);
}

static uint32_t verdict(const struct row *r, const char *word, const char *name)
{
	if (word && strcmp(word, "allow") == 0 && !name)
		return SECCOMP_RET_ALLOW;
	if (word && strcmp(word, "kill") == 0 && !name)
		return SECCOMP_RET_KILL_PROCESS;
	if (!word || strcmp(word, "errno") != 0 || !name)
		row_fail(r, "not a verdict:", word ? word : "");
	if (strcmp(name, "0") == 0)
		return SECCOMP_RET_ERRNO;
	for (unsigned i = 1; i < 200; i++)
		if (strerrorname_np((int)i) && strcmp(strerrorname_np((int)i), name) == 0)
			return SECCOMP_RET_ERRNO | i;
	row_fail(r, "not an errno:", name);
}

/* false: an empty line or a comment */
static int parse(struct row *r, char *text)
{
	char *save, *word;
	unsigned args = 0;

	text[strcspn(text, "#\n")] = 0;
	word = strtok_r(text, " \t", &save);
	if (!word)
		return 0;
	call(r, word);
	while ((word = strtok_r(NULL, " \t", &save)) && strcmp(word, "->") != 0) {
		if (args == 6)
			row_fail(r, "a seventh argument:", word);
		r->data.args[args++] = argument(r, word);
	}
	word = strtok_r(NULL, " \t", &save);
	r->wanted = verdict(r, word, strtok_r(NULL, " \t", &save));
	return 1;
}

static struct setup_filter server_calls;

static uint32_t answer_server(const struct seccomp_data *d)
{
	struct err e = {0};

	if (!server_calls.len && filter_compile_own(POLICY_SERVER, &server_calls, &e) < 0)
		fprintf(stderr, "# %s\n", e.text);
	CHECK(e.kind == ERR_NONE);
	return bpf_run(&server_calls, d);
}

static uint32_t answer_broker(const struct seccomp_data *d)
{
	static struct setup_filter calls;
	struct err e = {0};

	CHECK(calls.len || filter_compile_own(POLICY_BROKER, &calls, &e) == 0);
	return bpf_run(&calls, d);
}

static uint32_t answer_image(const struct seccomp_data *d)
{
	static struct setup_filter calls;
	struct err e = {0};

	CHECK(calls.len || filter_compile_own(POLICY_IMAGE, &calls, &e) == 0);
	return bpf_run(&calls, d);
}

static void expect_rows(const char *name, uint32_t (*answer)(const struct seccomp_data *))
{
	unsigned line = 0, rows = 0, wrong = 0;
	char path[256], text[256];
	FILE *f;

	snprintf(path, sizeof(path), "%.*s%s",
		 (int)(strrchr(__FILE__, '/') + 1 - __FILE__), __FILE__, name);
	f = fopen(path, "re");
	CHECK(f);
	answers_compile();
	while (fgets(text, sizeof(text), f)) {
		struct row r = {.file = path, .line = ++line};
		uint32_t got;

		if (!parse(&r, text) || r.data.nr == FILTER_ELSEWHERE)
			continue;
		rows++;
		got = answer(&r.data);
		if (got != r.wanted) {
			fprintf(stderr, "# %s:%u: answer 0x%08x, not 0x%08x\n", path,
				line, got, r.wanted);
			wrong++;
		}
	}
	fclose(f);
	CHECK(rows > 0 && wrong == 0);
}

TEST(a_program_gets_the_answers_of_program_tests)
{
	expect_rows("program.tests", answer_plain);
}

TEST(a_program_gets_the_same_where_refusals_are_reported)
{
	expect_rows("program.tests", answer_reported);
}

TEST(a_program_gets_the_answers_of_the_tests_for_its_network_and_user)
{
	static const enum setup_reporting_id with[] = {REPORTING_BROKER,
						       REPORTING_POD,
						       REPORTING_POD_NONE,
						       REPORTING_ONE_UID_POD,
						       REPORTING_ROOT,
						       REPORTING_ROOT,
						       REPORTING_APART_UNCOUNTED,
						       REPORTING_BROKER_UNCOUNTED,
						       REPORTING_ROOT_UNCOUNTED};
	static const char *const rows[] = {
		"network.tests",    "pod.tests",       "pod-none.tests",
		"pod-shared.tests", "network.tests",   "root.tests",
		"uncounted.tests",  "uncounted.tests", "uncounted.tests"};

	for (size_t i = 0; i < sizeof(with) / sizeof(with[0]); i++) {
		answers_of = with[i];
		expect_rows(rows[i], answer_plain);
		expect_rows(rows[i], answer_reported);
	}
}

TEST(process_1_gets_the_answers_of_init_tests)
{
	expect_rows("init.tests", answer_init);
}

TEST(without_namespaces_a_program_gets_the_answers_of_shared_tests)
{
	answers_of = REPORTING_ONE_UID;
	expect_rows("shared.tests", answer_plain);
	expect_rows("shared.tests", answer_reported);
}

TEST(without_namespaces_an_install_gets_the_answers_of_install_tests)
{
	answers_of = REPORTING_ONE_UID_PORT;
	expect_rows("install.tests", answer_plain);
	expect_rows("install.tests", answer_reported);
}

TEST(only_an_install_with_a_uid_of_its_own_sets_modes)
{
	answers_of = REPORTING_PORT;
	expect_rows("install-uid.tests", answer_plain);
	expect_rows("install-uid.tests", answer_reported);
}

TEST(without_namespaces_init_gets_the_answers_of_init_shared_tests)
{
	expect_rows("init-shared.tests", answer_init_shared);
}

TEST(the_server_gets_the_answers_of_server_tests)
{
	expect_rows("server.tests", answer_server);
}

TEST(who_unpacks_images_gets_the_answers_of_image_tests)
{
	expect_rows("image.tests", answer_image);
}

TEST(a_broker_gets_the_answers_of_broker_tests)
{
	expect_rows("broker.tests", answer_broker);
}

TEST(the_server_may_make_a_few_dozen_calls)
{
	unsigned allowed = 0;
	struct err e = {0};
	struct policy *p = policy_load(POLICY_SERVER, &e);
	char seen[1024] = {0};

	CHECK(p && p->default_action == POLICY_ERRNO && p->default_errno == EPERM);
	for (size_t i = 0; i < p->rules; i++) {
		CHECK(p->rule[i].action == POLICY_ALLOW);
		if (p->rule[i].number >= 0)
			allowed += !seen[p->rule[i].number]++;
	}
	policy_free(p);
	fprintf(stderr, "# %u calls\n", allowed);
	CHECK(allowed < 50);
}

static uint32_t ask(int nr, uint64_t arg0, uint64_t arg2)
{
	struct seccomp_data d = {.nr = nr, .args = {arg0, 0, arg2}};

	d.arch = FILTER_ARCH == POLICY_X86_64 ? AUDIT_ARCH_X86_64 : AUDIT_ARCH_AARCH64;
	return answer_plain(&d);
}

TEST(only_unix_and_route_sockets_can_be_made_whatever_the_high_bits)
{
	static const uint64_t high[] = {0, HIGH, 0xffffffff00000000, 0x8000000000000000};
	int nr = filter_number(FILTER_ARCH, "socket");

	answers_compile();
	for (uint64_t family = 0; family < 1024; family++)
		for (size_t i = 0; i < 4; i++)
			for (uint64_t protocol = 0; protocol < 32; protocol++) {
				int good = i == 0 &&
					   (family == AF_UNIX ||
					    (family == AF_NETLINK && protocol == 0));

				CHECK(ask(nr, family | high[i], protocol) ==
				      (good ? SECCOMP_RET_ALLOW
					    : SECCOMP_RET_ERRNO | EAFNOSUPPORT));
			}
	CHECK(ask(nr, AF_NETLINK, HIGH) == (SECCOMP_RET_ERRNO | EAFNOSUPPORT));
}

TEST(no_bit_of_clone_flags_opens_a_namespace)
{
	const uint64_t spaces = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS |
				CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID |
				CLONE_NEWNET;
	int nr = filter_number(FILTER_ARCH, "clone");

	answers_compile();
	for (unsigned bit = 0; bit < 64; bit++)
		for (unsigned other = 0; other < 64; other++) {
			uint64_t flags = UINT64_C(1) << bit | UINT64_C(1) << other;

			CHECK(ask(nr, flags, 0) == (flags & spaces
							    ? SECCOMP_RET_ERRNO | EPERM
							    : SECCOMP_RET_ALLOW));
		}
}

TEST(every_other_number_is_refused_with_an_errno)
{
	unsigned allowed = 0;

	answers_compile();
	for (int nr = 0; nr < 2048; nr++) {
		uint32_t got = ask(nr, 0, 0);

		allowed += got == SECCOMP_RET_ALLOW;
		CHECK(got == SECCOMP_RET_ALLOW ||
		      (got & SECCOMP_RET_ACTION_FULL) == SECCOMP_RET_ERRNO);
		CHECK(nr < 470 || got == (SECCOMP_RET_ERRNO | ENOSYS));
	}
	CHECK(allowed > 200);
}

TEST(at_most_240_calls_are_allowed_in_any_form)
{
	char seen[1024] = {0};
	unsigned allowed = 0;
	struct err e = {0};
	struct policy *p = policy_load("base", &e);

	CHECK(p && p->default_action == POLICY_ERRNO);
	for (size_t i = 0; i < p->rules; i++) {
		int nr = p->rule[i].number;

		if (p->rule[i].action == POLICY_ERRNO || nr < 0 || seen[nr])
			continue;
		seen[nr] = 1;
		allowed++;
	}
	policy_free(p);
	fprintf(stderr, "# %u calls\n", allowed);
	CHECK(allowed <= 240);
}

/* an int argument keeps its meaning when a caller sets bits that the kernel cuts off */
TEST(allows_compare_exactly_and_denials_ignore_high_bits)
{
	for (size_t n = 0; n < embedded_policies_count; n++) {
		struct err e = {0};
		struct policy *p = policy_load(embedded_policies[n].name, &e);

		CHECK(p);
		for (size_t i = 0; i < p->rules; i++)
			for (unsigned a = 0; a < p->rule[i].args; a++) {
				enum policy_op op = p->rule[i].arg[a].op;

				if (p->rule[i].action == POLICY_ALLOW)
					CHECK(op == POLICY_EQ);
				else
					CHECK(op == POLICY_MASKED_EQ || op == POLICY_NE ||
					      op == POLICY_GE);
			}
		policy_free(p);
	}
}

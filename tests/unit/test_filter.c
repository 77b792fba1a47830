/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_filter.c - rules to BPF programs; what they answer is for tests/policy
 */
#include <errno.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/err.h"
#include "base/sys.h"
#include "config/embedded.h"
#include "config/filter.h"
#include "tap.h"
#include "wire/setup.h"

static struct setup_filter f;
static struct setup setup;
static struct err e;

static struct policy *parse(const char *text)
{
	struct policy *p = policy_parse("p.json", text, strlen(text), &e);

	if (!p)
		fprintf(stderr, "# %s\n", e.text);
	CHECK(p);
	return p;
}

static int compile(const char *text)
{
	struct policy *p = parse(text);
	int rc;

	memset(&e, 0, sizeof(e));
	rc = filter_compile(p, &f, &e);
	policy_free(p);
	return rc;
}

#define ENOSYS_ELSE "{\"defaultAction\": \"SCMP_ACT_ERRNO\", \"defaultErrnoRet\": 38, "
#define BOTH "\"architectures\": [\"SCMP_ARCH_X86_64\", \"SCMP_ARCH_AARCH64\"]"

TEST(numbers_are_those_of_the_architecture)
{
	CHECK(filter_number(POLICY_X86_64, "read") == 0);
	CHECK(filter_number(POLICY_AARCH64, "read") == 63);
	CHECK(filter_number(POLICY_X86_64, "open") == 2);
	CHECK(filter_number(POLICY_AARCH64, "open") == FILTER_ELSEWHERE);
	CHECK(filter_number(POLICY_X86_64, "mseal") == 462);
	CHECK(filter_number(POLICY_X86_64, "file_setattr") == 469);
	CHECK(filter_number(POLICY_X86_64, "uretprobe") == 335);
	CHECK(filter_number(POLICY_AARCH64, "uretprobe") == FILTER_ELSEWHERE);
	CHECK(filter_number(POLICY_X86_64, "77") == 77);
	CHECK(filter_number(POLICY_X86_64, "nonsense") == FILTER_UNKNOWN);
	CHECK(filter_number(POLICY_X86_64, "-5") == FILTER_UNKNOWN);
	/* of 32-bit ARM alone, but a name */
	CHECK(filter_number(POLICY_X86_64, "socketcall") == FILTER_ELSEWHERE);
}

TEST(numbers_have_their_names_back)
{
	static const char *const names[] = {"read", "ptrace", "mseal", "uretprobe"};
	char name[POLICY_NAME];

	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		int number = filter_number(FILTER_ARCH, names[i]);

		if (number < 0)
			continue; /* uretprobe, on aarch64 */
		filter_name(number, name);
		CHECK(strcmp(name, names[i]) == 0);
	}
	filter_name(1000, name);
	CHECK(strcmp(name, "1000") == 0);
}

TEST(all_policies_compile_for_both_architectures)
{
	static const enum policy_arch archs[] = {POLICY_X86_64, POLICY_AARCH64};

	for (size_t i = 0; i < embedded_policies_count; i++)
		for (size_t j = 0; j < 2; j++) {
			struct policy *p = policy_load(embedded_policies[i].name, &e);

			CHECK(p);
			CHECK(filter_compile_for(p, archs[j], &f, &e) == 0);
			CHECK(f.len > 4 && f.len <= SETUP_INSNS);
			policy_free(p);
		}
}

TEST(a_setup_gets_all_filters)
{
	setup.network = NETWORK_POD;
	setup.install_network = NETWORK_BROKER;
	setup.rows = 1;
	setup.row[0].installs = 1;
	setup.session_row = setup.root_ranges = 1;
	CHECK(filters_compile(&setup, &e) == 0);
	for (int i = 0; i < FILTER_COUNT; i++)
		CHECK(setup.filter[i].len > 4);
	for (int i = 0; i < REPORTING_COUNT; i++)
		CHECK(setup.reporting[i].plain.len > 100 &&
		      setup.reporting[i].notify.len > 100);
}

TEST(a_setup_gets_one_filter_that_reports_and_all_refusals)
{
	const struct setup_reporting *r = &setup.reporting[0];
	uint32_t len, denials;

	CHECK(filters_compile(&setup, &e) == 0);
	CHECK(r->denials > 100 && r->else_errno == EPERM);
	for (uint32_t i = 0; i < r->denials; i++)
		CHECK(r->denial[i].errno_ret && r->denial[i].errno_ret != ENOSYS);
	len = r->notify.len;
	denials = r->denials;
	CHECK(filters_compile(&setup, &e) == 0);
	CHECK(r->notify.len == len && r->denials == denials);
	setup.reporting[0].wide = 1;
	CHECK(filters_compile(&setup, &e) == 0 && r->else_errno == ENOSYS);
}

TEST(rules_equal_to_the_default_are_left_out)
{
	uint32_t len;

	CHECK(compile(ENOSYS_ELSE BOTH
		      ", \"syscalls\": [{\"names\": [\"read\"], \"action\": "
		      "\"SCMP_ACT_ALLOW\"}]}") == 0);
	len = f.len;
	CHECK(compile(ENOSYS_ELSE BOTH
		      ", \"syscalls\": [{\"names\": [\"read\"], \"action\": "
		      "\"SCMP_ACT_ALLOW\"}, {\"names\": [\"clone3\"], \"action\": "
		      "\"SCMP_ACT_ERRNO\", \"errnoRet\": 38}]}") == 0);
	CHECK(f.len == len);
}

TEST(a_policy_for_another_architecture_is_refused)
{
	CHECK(compile("{\"defaultAction\": \"SCMP_ACT_ALLOW\", \"architectures\": [], "
		      "\"syscalls\": []}") == -1);
	CHECK(strncmp(e.text, "p.json: not for SCMP_ARCH_", 26) == 0);
}

TEST(a_program_that_is_too_long_is_refused)
{
	static char text[1 << 20];
	size_t len;

	len = (size_t)snprintf(text, sizeof(text),
			       "{\"defaultAction\": \"SCMP_ACT_ALLOW\", " BOTH
			       ", \"syscalls\": [");
	for (int i = 0; i < 2500; i++)
		len += (size_t)snprintf(
			text + len, sizeof(text) - len,
			"%s{\"names\": [\"ioctl\"], \"action\": \"SCMP_ACT_ERRNO\", "
			"\"args\": [{\"index\": 1, \"value\": %d, "
			"\"op\": \"SCMP_CMP_EQ\"}]}",
			i ? "," : "", i);
	snprintf(text + len, sizeof(text) - len, "]}");
	f.len = 7;
	CHECK(compile(text) == -1);
	CHECK(strstr(e.text, "p.json: compiles to more than 4096 instructions"));
	CHECK(f.len == 7);
}

/* a child of ours is asked for by the kernel; answered, it has that errno */
TEST(the_kernel_takes_the_filter_that_reports)
{
	struct seccomp_notif call = {0};
	struct seccomp_notif_resp answer = {0};
	struct sock_fprog program;
	int listener_fd, status;
	pid_t pid;

	CHECK(filters_compile(&setup, &e) == 0);
	program.len = (unsigned short)setup.reporting[0].notify.len;
	program.filter = setup.reporting[0].notify.insns;
	CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	listener_fd = sys_seccomp(SECCOMP_SET_MODE_FILTER,
				  SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
	CHECK(listener_fd >= 0);
	pid = fork();
	if (pid == 0)
		_exit(syscall(SYS_ptrace, 16, 1, 0, 0) == -1 && errno == EXDEV ? 7 : 8);
	CHECK(ioctl(listener_fd, SECCOMP_IOCTL_NOTIF_RECV, &call) == 0);
	CHECK(call.data.nr == SYS_ptrace && call.data.args[0] == 16);
	answer.id = call.id;
	answer.error = -EXDEV;
	CHECK(ioctl(listener_fd, SECCOMP_IOCTL_NOTIF_SEND, &answer) == 0);
	CHECK(waitpid(pid, &status, 0) == pid && status == 7 << 8);
	close(listener_fd);
	CHECK(syscall(SYS_ptrace, 0, 0, 0, 0) == -1 && errno == ENOSYS);
	_exit(0); /* a leak checker would want to ptrace */
}

static long filtered(unsigned number, unsigned long a, unsigned long b)
{
	return syscall((long)number, a, b, 0, 0, 0, 0);
}

/* the kernel itself takes the program and answers as it says */
TEST(the_kernel_takes_the_filter)
{
	struct sock_fprog program;

	CHECK(filters_compile(&setup, &e) == 0);
	CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	program.len = (unsigned short)setup.reporting[0].plain.len;
	program.filter = setup.reporting[0].plain.insns;
	CHECK(sys_seccomp(SECCOMP_SET_MODE_FILTER, 0, &program) == 0);
	CHECK(filtered(SYS_getpid, 0, 0) == getpid());
	CHECK(filtered(SYS_unshare, 0, 0) == -1 && errno == EPERM);
	CHECK(filtered(SYS_clone3, 0, 0) == -1 && errno == ENOSYS);
	CHECK(filtered(SYS_socket, 2, 1) == -1 && errno == EAFNOSUPPORT);
	CHECK(filtered(SYS_socket, 0x100000001, 1) == -1 && errno == EAFNOSUPPORT);
	CHECK(filtered(SYS_socket, 1, 1) >= 0);
	CHECK(filtered(SYS_ioctl, 0, 0x5412) == -1 && errno == EPERM);
	CHECK(filtered(SYS_sync, 0, 0) == 0);
	CHECK(filtered(1000, 0, 0) == -1 && errno == ENOSYS);
	CHECK(sys_seccomp(SECCOMP_SET_MODE_FILTER, 0, &program) == -1 && errno == EPERM);
	_exit(0); /* a leak checker would want to ptrace */
}

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_verdicts.c - what the canaries saw decides, and each thing that must be refused
 */
#include "launcher/verdicts.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/stat.h>

#include "launcher/launcher.h"
#include "tap.h"

static struct launcher l;
static struct setup setup;
static struct slot slots[1];
static struct probe_facts good;

/* all layers there, and all that was tried refused */
static void start(int level)
{
	setup.uid_base = 200000;
	slots[0].uid = 200000;
	l = (struct launcher){.setup = &setup,
			      .slots = slots,
			      .slot_count = 1,
			      .proc_fd = open("/proc", O_PATH | O_CLOEXEC)};
	CHECK(l.proc_fd >= 0);
	l.cgroups.kind = CGROUP_V1;
	l.abilities = (struct abilities){.level = level,
					 .pivot = true,
					 .private_proc = true,
					 .hostname = true,
					 .landlock_abi = 6,
					 .notify = true};
	good = (struct probe_facts){.looked = true,
				    .memory_stopped = true,
				    .throttled = 3,
				    .reported = 1,
				    .unshare_reported = true,
				    .forks_stopped = true};
	good.seen = (struct canary_seen){.pid = 2,
					 .processes = 2,
					 .shadow_err = ENOENT,
					 .write_err = EROFS,
					 .unshare_err = EPERM,
					 .inet_err = EAFNOSUPPORT,
					 .comm_err = EACCES,
					 .signal_err = EPERM,
					 .forks = 6,
					 .fork_err = EAGAIN,
					 .no_new_privs = 1,
					 .seccomp_mode = 2,
					 .uid = CHILD_UID,
					 .hostname = "sandbox"};
	for (int i = 0; i < NS_COUNT; i++)
		good.seen.ns[i] = 1; /* which no namespace of ours is called */
}

static void start_shared(int level)
{
	start(level);
	good.seen.uid = 200000;
	good.seen.outside_err = good.seen.proc_err = EACCES;
	good.seen.launcher_err = good.seen.supervisor_err = EPERM;
	good.seen.prlimit_err = good.seen.affinity_err = EPERM;
	good.seen.unix_err = EAFNOSUPPORT;
	snprintf(good.apart.summary, sizeof(good.apart.summary), "no namespaces");
}

static struct report report_of(const struct probe_facts *f)
{
	struct report r;

	verdicts_report(&l, f, &r);
	return r;
}

/* one number that the canary saw, and what it takes away */
struct sight {
	size_t at;
	int32_t value;
	enum layer_id layer;
	uint32_t level;
};

#define SEEN(field) offsetof(struct canary_seen, field)

/* each of them alone, and only that layer */
static void check_sights(const struct sight *all, size_t count)
{
	const struct report whole = report_of(&good);

	for (size_t i = 0; i < count; i++) {
		struct probe_facts f = good;
		struct report r;

		memcpy((char *)&f.seen + all[i].at, &all[i].value, sizeof(int32_t));
		r = report_of(&f);
		for (int n = 0; n < LAYER_COUNT; n++)
			CHECK(r.layer[n].active ==
			      (whole.layer[n].active && n != (int)all[i].layer));
		CHECK(r.level == all[i].level);
		CHECK(r.level == LEVEL_FULL || r.summary[0]);
		CHECK(r.layer[all[i].layer].evidence[0]);
	}
}

TEST(all_that_was_tried_refused_is_the_level_full)
{
	struct report r;

	start(LEVEL_NAMESPACES);
	r = report_of(&good);
	for (int i = 0; i < LAYER_COUNT; i++) {
		CHECK(r.layer[i].requested && r.layer[i].active);
		CHECK(r.layer[i].evidence[0] && !r.layer[i].reason[0]);
	}
	CHECK(r.level == LEVEL_FULL && !r.summary[0]);
}

TEST(what_a_canary_could_do_is_a_layer_that_is_missing)
{
	static const struct sight rows[] = {
		{SEEN(shadow_err), 0, LAYER_ROOT, LEVEL_NONE},
		{SEEN(shadow_err), EACCES, LAYER_ROOT, LEVEL_NONE}, /* it is there */
		{SEEN(write_err), 0, LAYER_ROOT, LEVEL_NONE},
		{SEEN(processes), 4, LAYER_PROC, LEVEL_NAMESPACES},
		{SEEN(processes), -1, LAYER_PROC, LEVEL_NAMESPACES},
		{SEEN(forks), 16, LAYER_PIDS_LIMIT, LEVEL_NONE},
		{SEEN(fork_err), 0, LAYER_PIDS_LIMIT, LEVEL_NONE},
		{SEEN(uid), 0, LAYER_IDENTITY, LEVEL_NONE},
		{SEEN(groups), 1, LAYER_IDENTITY, LEVEL_NONE},
		{SEEN(caps), 1, LAYER_CAPABILITIES, LEVEL_NONE},
		{SEEN(bounding), 1, LAYER_CAPABILITIES, LEVEL_NONE},
		{SEEN(no_new_privs), 0, LAYER_NO_NEW_PRIVS, LEVEL_NONE},
		{SEEN(seccomp_mode), 0, LAYER_SECCOMP, LEVEL_NONE},
		{SEEN(unshare_err), 0, LAYER_SECCOMP, LEVEL_NONE},
		{SEEN(unshare_err), ENOSPC, LAYER_SECCOMP, LEVEL_NONE}, /* not by it */
		{SEEN(inet_err), 0, LAYER_SECCOMP, LEVEL_NONE},
		{SEEN(hostname), 0, LAYER_UTS_NAMESPACE, LEVEL_NONE},
	};

	start(LEVEL_NAMESPACES);
	check_sights(rows, sizeof(rows) / sizeof(*rows));
}

TEST(landlock_is_seen_by_one_effect_or_the_other)
{
	struct probe_facts f;

	start(LEVEL_NAMESPACES);
	f = good;
	f.seen.comm_err = 0;
	CHECK(report_of(&f).level == LEVEL_FULL);
	f.seen.signal_err = 0;
	CHECK(!report_of(&f).layer[LAYER_LANDLOCK].active);
	CHECK(report_of(&f).level == LEVEL_NAMESPACES);
	f = good;
	f.seen.comm_err = 0;
	l.abilities.landlock_abi = 5; /* which scopes no signals: that was another */
	CHECK(report_of(&f).level == LEVEL_NAMESPACES);
}

TEST(landlock_that_shows_no_effect_is_told_why)
{
	struct probe_facts f;
	struct layer seen;

	start(LEVEL_NAMESPACES);
	f = good;
	f.seen.comm_err = ENOENT;
	CHECK(!report_of(&f)
		       .layer[LAYER_LANDLOCK]
		       .reason[0]); /* the signal was refused */
	l.abilities.private_proc = false;
	l.abilities.landlock_abi = 5;
	f.seen.signal_err = 0;
	seen = report_of(&f).layer[LAYER_LANDLOCK];
	CHECK(!seen.active && strstr(seen.reason, "no /proc") && seen.fix[0]);
	CHECK(report_of(&f).level == LEVEL_NAMESPACES);
	/* but where there was something to see, it does not hold */
	l.abilities.private_proc = true;
	f.seen.comm_err = 0;
	seen = report_of(&f).layer[LAYER_LANDLOCK];
	CHECK(!seen.active && strstr(seen.reason, "was refused") && seen.fix[0]);
	l.abilities.private_proc = false;
	l.abilities.landlock_abi = 6;
	seen = report_of(&f).layer[LAYER_LANDLOCK];
	CHECK(!seen.active && strstr(seen.reason, "was refused"));
}

TEST(a_kernel_without_landlock_is_excused_and_who_refuses_it_is_not)
{
	static const struct {
		int num;
		uint32_t requested, level;
	} rows[] = {{ENOSYS, 0, LEVEL_FULL},
		    {EOPNOTSUPP, 0, LEVEL_FULL},
		    {EPERM, 1, LEVEL_NAMESPACES}};

	start(LEVEL_NAMESPACES);
	l.abilities.landlock_abi = 0;
	for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct probe_facts f = good;
		struct report r;

		f.refused[LAYER_LANDLOCK] = rows[i].num;
		r = report_of(&f);
		CHECK(r.layer[LAYER_LANDLOCK].requested == rows[i].requested);
		CHECK(!r.layer[LAYER_LANDLOCK].active && r.level == rows[i].level);
		CHECK(r.layer[LAYER_LANDLOCK].reason[0] &&
		      r.layer[LAYER_LANDLOCK].fix[0]);
	}
}

TEST(a_namespace_that_is_ours_is_none_of_the_runs)
{
	start(LEVEL_NAMESPACES);
	for (int i = 0; i < NS_COUNT; i++) {
		const bool cgroup = LAYER_USER_NAMESPACE + i == LAYER_CGROUP_NAMESPACE;
		struct probe_facts f = good;
		struct stat st;
		char path[32];

		snprintf(path, sizeof(path), "/proc/self/ns/%s", child_ns_names[i]);
		CHECK(stat(path, &st) == 0);
		for (int known = 1; known >= 0; known--) {
			f.seen.ns[i] = known ? st.st_ino : 0;
			CHECK(!report_of(&f).layer[LAYER_USER_NAMESPACE + i].active);
			CHECK(report_of(&f).layer[LAYER_USER_NAMESPACE + i].reason[0]);
			CHECK(report_of(&f).level ==
			      (cgroup ? LEVEL_NAMESPACES : LEVEL_NONE));
		}
	}
}

TEST(a_limit_that_stopped_nobody_is_none)
{
	struct probe_facts f;

	start(LEVEL_NAMESPACES);
	f = good;
	f.memory_stopped = false;
	CHECK(!report_of(&f).layer[LAYER_MEMORY_LIMIT].active);
	CHECK(report_of(&f).level == LEVEL_NAMESPACES);
	f = good;
	f.throttled = 0;
	CHECK(!report_of(&f).layer[LAYER_CPU_LIMIT].active);
	CHECK(report_of(&f).level == LEVEL_NAMESPACES);
	snprintf(l.cgroups.reason, sizeof(l.cgroups.reason), "none here");
	l.cgroups.kind = CGROUP_NONE; /* whatever was seen */
	CHECK(!report_of(&good).layer[LAYER_MEMORY_LIMIT].active);
	CHECK(strcmp(report_of(&good).layer[LAYER_CPU_LIMIT].reason, "none here") == 0);
	CHECK(report_of(&good).level == LEVEL_NAMESPACES);
}

TEST(violations_that_nobody_heard_of_have_a_reason)
{
	static const int nums[] = {EBUSY, ENOMSG, EINVAL};

	start(LEVEL_NAMESPACES);
	for (unsigned i = 0; i < 3; i++) {
		struct probe_facts f = good;

		f.reported = 0;
		f.refused[LAYER_VIOLATIONS] = nums[i];
		CHECK(!report_of(&f).layer[LAYER_VIOLATIONS].active);
		CHECK(report_of(&f).layer[LAYER_VIOLATIONS].reason[0]);
		CHECK(report_of(&f).level == LEVEL_FULL); /* telling is no isolation */
	}
	l.abilities.notify = false;
	CHECK(!report_of(&good).layer[LAYER_VIOLATIONS].active);
}

TEST(a_refusal_that_is_not_reported_is_told_with_the_layer)
{
	struct layer v;

	start(LEVEL_NAMESPACES);
	l.abilities.poll_memory = true;
	v = report_of(&good).layer[LAYER_VIOLATIONS];
	CHECK(v.active && strstr(v.reason, "AF_NETLINK"));
	l.abilities.sockets = true;
	CHECK(!report_of(&good).layer[LAYER_VIOLATIONS].reason[0]);
	l.abilities.sockets = false;
	l.abilities.poll_memory = false;
	CHECK(!report_of(&good).layer[LAYER_VIOLATIONS].reason[0]);
}

TEST(what_holds_in_part_is_not_the_level_full)
{
	struct report r;

	start(LEVEL_NAMESPACES);
	l.abilities.pivot = false;
	r = report_of(&good);
	CHECK(r.layer[LAYER_ROOT].active && r.layer[LAYER_ROOT].reason[0]);
	CHECK(r.level == LEVEL_NAMESPACES);
	start(LEVEL_NAMESPACES);
	l.abilities.hostname = false;
	CHECK(report_of(&good).level == LEVEL_NAMESPACES);
	start(LEVEL_NAMESPACES);
	l.abilities.pod = true;
	r = report_of(&good);
	CHECK(!r.layer[LAYER_NETWORK_NAMESPACE].requested);
	CHECK(r.level == LEVEL_NAMESPACES);
}

TEST(without_namespaces_landlock_and_the_filter_must_hold_for_everything)
{
	static const struct sight rows[] = {
		{SEEN(signal_err), 0, LAYER_LANDLOCK, LEVEL_NONE},
		{SEEN(launcher_err), 0, LAYER_LANDLOCK, LEVEL_NONE},
		{SEEN(supervisor_err), 0, LAYER_LANDLOCK, LEVEL_NONE},
		{SEEN(outside_err), 0, LAYER_LANDLOCK, LEVEL_NONE},
		{SEEN(proc_err), 0, LAYER_LANDLOCK, LEVEL_NONE},
		{SEEN(uid), 0, LAYER_IDENTITY, LEVEL_NONE},
		{SEEN(uid), 200001, LAYER_IDENTITY, LEVEL_NONE},
		{SEEN(groups), 1, LAYER_IDENTITY, LEVEL_NONE},
		{SEEN(caps), 1, LAYER_CAPABILITIES, LEVEL_NONE},
		{SEEN(no_new_privs), 0, LAYER_NO_NEW_PRIVS, LEVEL_NONE},
		{SEEN(seccomp_mode), 0, LAYER_SECCOMP, LEVEL_NONE},
		{SEEN(unshare_err), 0, LAYER_SECCOMP, LEVEL_NONE},
		{SEEN(inet_err), 0, LAYER_SECCOMP, LEVEL_NONE},
		{SEEN(unix_err), 0, LAYER_SECCOMP, LEVEL_NONE},
		{SEEN(prlimit_err), 0, LAYER_SECCOMP, LEVEL_NONE},
		{SEEN(affinity_err), 0, LAYER_SECCOMP, LEVEL_NONE},
		{SEEN(fork_err), 0, LAYER_PIDS_LIMIT, LEVEL_NONE},
	};
	struct report r;

	start_shared(LEVEL_LANDLOCK);
	r = report_of(&good);
	CHECK(r.level == LEVEL_LANDLOCK && strcmp(r.summary, "no namespaces") == 0);
	for (int i = LAYER_USER_NAMESPACE; i <= LAYER_PROC; i++)
		CHECK(!r.layer[i].active && r.layer[i].reason[0]);
	check_sights(rows, sizeof(rows) / sizeof(*rows));
}

TEST(processes_of_one_uid_are_ended_or_there_is_no_limit)
{
	struct probe_facts f;

	start_shared(LEVEL_LANDLOCK);
	l.abilities.one_uid = true;
	l.cgroups.kind = CGROUP_NONE;
	f = good;
	f.seen.groups = 3; /* they are the server's own, whom nobody can take them from */
	CHECK(launcher_counts_pids(&l) && report_of(&f).level == LEVEL_LANDLOCK);
	f.forks_stopped = false;
	CHECK(!report_of(&f).layer[LAYER_PIDS_LIMIT].active);
	CHECK(report_of(&f).level == LEVEL_NONE);
}

TEST(the_level_process_says_what_it_lacks_and_what_would_do)
{
	struct probe_facts f;
	struct report r;

	start_shared(LEVEL_PROCESS);
	f = good;
	f.seen.outside_err = f.seen.launcher_err = 0; /* nobody says otherwise */
	snprintf(f.locked.summary, sizeof(f.locked.summary), "no Landlock");
	setup.min_level = LEVEL_LANDLOCK;
	r = report_of(&f);
	CHECK(r.level == LEVEL_PROCESS && !r.layer[LAYER_LANDLOCK].active);
	CHECK(strcmp(r.summary, "no namespaces; no Landlock; with "
				"SANDBOX_MIN_ISOLATION=process it would start, with next "
				"to no isolation") == 0);
	f.seen.seccomp_mode = 0;
	CHECK(report_of(&f).level == LEVEL_NONE);
}

TEST(a_step_that_failed_is_no_level_and_has_its_reason)
{
	static const struct {
		const char *step;
		int num, layer; /* LAYER_COUNT: of all of them */
	} rows[] = {
		{"slot_identity", EPERM, LAYER_IDENTITY},
		{"run_directory", EROFS, LAYER_ROOT},
		{"slot_runtime", EACCES, LAYER_ROOT},
		{"landlock", ENOSYS, LAYER_LANDLOCK},
		{"host_proc", ENOENT, LAYER_PROC},
		{"seccomp", EINVAL, LAYER_COUNT},
	};

	start_shared(LEVEL_LANDLOCK);
	for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct probe_facts f = {.fatal_num = rows[i].num};
		struct report r;

		snprintf(f.fatal_step, sizeof(f.fatal_step), "%s", rows[i].step);
		r = report_of(&f);
		CHECK(r.level == LEVEL_NONE && r.summary[0]);
		for (int n = 0; n < LAYER_COUNT; n++) {
			CHECK(!r.layer[n].active);
			CHECK((r.layer[n].reason[0] != 0) == (n == rows[i].layer));
		}
	}
}

TEST(user_namespaces_that_are_refused_are_told_apart)
{
	static const int nums[] = {ENOSPC, EPERM};

	start(LEVEL_NAMESPACES);
	for (unsigned i = 0; i < 2; i++) {
		struct probe_facts f = {.fatal_num = nums[i], .fatal_step = "clone"};
		const struct report r = report_of(&f);
		const struct layer *user = &r.layer[LAYER_USER_NAMESPACE];

		CHECK(r.level == LEVEL_NONE && strcmp(r.summary, user->reason) == 0);
		if (!verdicts_in_chroot())
			CHECK((strstr(user->fix, "max_user_namespaces") != NULL) ==
			      (nums[i] == ENOSPC));
	}
}

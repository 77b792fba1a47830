/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * attack_dg.c - do we say so when the host gives less?
 *
 * Our own binary is started again: in surroundings that refuse something, and with
 * policies that are no policies.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attack/battery.h"
#include "base/caps.h"
#include "base/defer.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/sys.h"
#include "config/embedded.h"
#include "config/settings.h"

/* ---- DG01: what is reported, and what a program finds ---- */

static const struct {
	enum layer_id layer;
	const char *name;
} namespaces[] = {
	{LAYER_USER_NAMESPACE, "user"}, {LAYER_MOUNT_NAMESPACE, "mnt"},
	{LAYER_PID_NAMESPACE, "pid"},   {LAYER_NETWORK_NAMESPACE, "net"},
	{LAYER_IPC_NAMESPACE, "ipc"},   {LAYER_CGROUP_NAMESPACE, "cgroup"},
};
#define NAMESPACES (sizeof(namespaces) / sizeof(namespaces[0]))

static unsigned fork_until_refused(void)
{
	unsigned n = 0;
	pid_t pid;

	while (n < 5000 && (pid = fork()) >= 0) {
		if (pid == 0)
			wait_forever();
		n++;
	}
	return n;
}

static void dg01(struct tries *t)
{
	struct __user_cap_data_struct none[2] = {{0}}, now[2];
	char path[40], name[64];
	unsigned i;
	ssize_t len;

	for (i = 0; i < NAMESPACES; i++) {
		snprintf(path, sizeof(path), "/proc/self/ns/%s", namespaces[i].name);
		len = readlink(path, name, sizeof(name) - 1);
		name[len > 0 ? len : 0] = '\0';
		say("%d=%s\n", namespaces[i].layer, name);
	}
	say("%d=%d\n", LAYER_ROOT,
	    try_open("/etc/shadow", O_RDONLY).num == ENOENT &&
		    try_open("/usr/attack", O_WRONLY | O_CREAT).num == EROFS);
	say("%d=%d\n", LAYER_PROC, try_open("/proc/self/status", O_RDONLY).num == 0);
	say("%d=%d\n", LAYER_CAPABILITIES,
	    sys_capget(now) == 0 && memcmp(now, none, sizeof(now)) == 0);
	say("%d=%d\n", LAYER_NO_NEW_PRIVS, prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1);
	say("%d=%d\n", LAYER_SECCOMP, prctl(PR_GET_SECCOMP, 0, 0, 0, 0) == 2);
	say("%d=%d\n", LAYER_IDENTITY, getuid() != 0 && geteuid() == getuid());
	say("%d=%d\n", LAYER_LANDLOCK,
	    try_open("/proc/self/comm", O_WRONLY).num == EACCES);
	if (strcmp(tries_word(t, 0), "sampled") != 0)
		say("%d=%d\n", LAYER_PIDS_LIMIT, fork_until_refused() < t->limits.pids);
	expect(t, true, "looked");
}

/* "12=1" */
static const char *found(const char *out, enum layer_id layer, char room[64])
{
	char word[16];
	const char *at;

	snprintf(word, sizeof(word), "%d=", layer);
	at = strncmp(out, word, strlen(word)) == 0 ? out : NULL;
	if (!at) {
		snprintf(word, sizeof(word), "\n%d=", layer);
		at = strstr(out, word);
	}
	room[0] = '\0';
	if (at)
		snprintf(room, 64, "%.*s", (int)strcspn(at + strlen(word), "\n"),
			 at + strlen(word));
	return room;
}

static void compare(struct battery *b, struct tries *t, enum layer_id layer, bool seen)
{
	const bool said = b->report->layer[layer].active;

	expect(t, seen == said, "%s is reported as %s, and is %s",
	       report_layer_name(layer), said ? "active" : "missing",
	       seen ? "active" : "missing");
}

/* "user:[123]" of a process; "": it cannot be looked at */
static const char *namespace_of(pid_t pid, const char *name, char room[64])
{
	char path[40];
	ssize_t len;

	snprintf(path, sizeof(path), "/proc/%d/ns/%s", (int)pid, name);
	len = readlink(path, room, 63);
	room[len > 0 ? len : 0] = '\0';
	return room;
}

/* Is it another one than ours? Where it is given up half-way, the launcher keeps one of
 * its own, which all runs then share. */
static void compare_namespaces(struct battery *b, struct tries *t, const char *out)
{
	char ours[64], launchers[64], room[64];
	unsigned i;

	for (i = 0; i < NAMESPACES; i++) {
		const enum layer_id layer = namespaces[i].layer;
		const char *name = namespaces[i].name;
		const bool apart = strcmp(found(out, layer, room),
					  namespace_of(getpid(), name, ours)) != 0;

		if (!room[0])
			untested(t, "%s: no /proc to see it by", name);
		else if (*namespace_of(b->launcher, name, launchers))
			compare(b, t, layer, apart && strcmp(room, launchers) != 0);
		else if (apart && !b->report->layer[layer].active)
			untested(t, "%s: only root may see whether it is the launcher's",
				 name);
		else
			compare(b, t, layer, apart);
	}
}

static void dg01_outside(struct battery *b, struct tries *t)
{
	static const enum layer_id plain[] = {
		LAYER_ROOT,    LAYER_PROC,     LAYER_CAPABILITIES, LAYER_NO_NEW_PRIVS,
		LAYER_SECCOMP, LAYER_IDENTITY, LAYER_PIDS_LIMIT,   LAYER_LANDLOCK};
	struct attack_run r = {
		.attack = "DG01",
		.words = {tries_shared(t) && battery_one_uid(b) ? "sampled" : "counted"}};
	char room[64];
	unsigned i;

	run_whole(b, &r);
	if (!run_tell(&r, t)) {
		run_done(&r);
		return;
	}
	for (i = 0; i < sizeof(plain) / sizeof(plain[0]); i++) {
		if (plain[i] == LAYER_LANDLOCK && !tries_layer(t, LAYER_PROC) &&
		    !tries_shared(t))
			untested(t, "landlock: no /proc to see it by");
		else if (plain[i] == LAYER_PIDS_LIMIT && tries_shared(t) &&
			 battery_one_uid(b))
			untested(t, "pids_limit: it is looked at, as RS01 tries");
		else
			compare(b, t, plain[i], found(r.out, plain[i], room)[0] == '1');
	}
	compare_namespaces(b, t, r.out);
	observe(t, "%u layers are as reported", t->count);
	run_done(&r);
}

/* ---- DG02, DG06, DG08: hosts that give less ---- */

static void dg02_outside(struct battery *b, struct tries *t)
{
	static const char *const check[] = {"check", "--min-isolation", "full", NULL};
	static const char *const attack[] = {
		"selftest", "--min-isolation", "full", "--case", "NS02", NULL};
	struct binary_said said;

	(void)b;
	binary_run(REFUSE_NAMESPACES, check, NULL, &said);
	expect(t, said.status == 1, "check gives %d", said.status);
	expect(t,
	       strstr(said.text, "minimum: full") && strstr(said.text, "user_namespace"),
	       "check does not name what is missing: %.200s", said.text);
	binary_run(REFUSE_NAMESPACES, attack, NULL, &said);
	expect(t, said.status == 1 && strstr(said.text, "below the minimum"),
	       "it starts: %d: %.200s", said.status, said.text);
	observe(t, "exit 1, the layer is named");
}

static void dg06_outside(struct battery *b, struct tries *t)
{
	static const char *const check[] = {"check", "--min-isolation", "namespaces",
					    NULL};
	struct binary_said said;

	(void)b;
	binary_run(REFUSE_MOUNTS, check, NULL, &said);
	expect(t, said.status == 1, "check gives %d", said.status);
	expect(t,
	       !strstr(said.text, "level: namespaces") &&
		       !strstr(said.text, "level: full"),
	       "it is not noticed: %.200s", said.text);
	observe(t, "noticed by what does not work");
}

/* as in a user namespace with one uid: nobody is left to run code as */
static bool is_only_root(const struct battery *b)
{
	return !b->settings->uid_base || !caps_have("cap_setuid") ||
	       !caps_have("cap_setgid");
}

static void dg08_outside(struct battery *b, struct tries *t)
{
	static const char *const check[] = {
		"check", "--mode", "shell", "--min-isolation", "process", "--json", NULL};
	static const char *const attack[] = {
		"selftest", "--mode", "shell",           "--warm-fork", "off", "--case",
		"DG01",     "--json", "--min-isolation", "process",     NULL};
	const enum refusal all = (enum refusal)(REFUSE_NAMESPACES | REFUSE_LANDLOCK);
	struct binary_said said;

	binary_run(all, check, NULL, &said);
	if (getuid() == 0 && is_only_root(b)) {
		expect(t,
		       said.status == 1 && strstr(said.text, "code never runs as root"),
		       "check gives %d: %.200s", said.status, said.text);
		observe(t, "refused even then: root here can become nobody else");
		return;
	}
	if (strstr(said.text, "cannot be executed by")) {
		skip(t, "a runtime here cannot be executed by the uid of runs");
		return;
	}
	expect(t, said.status == 0 && strstr(said.text, "\"level\":\"process\""),
	       "check gives %d: %.200s", said.status, said.text);
	binary_run(all, attack, NULL, &said);
	expect(t, strstr(said.text, "\"level\":\"process\"") != NULL,
	       "a run is not stamped: %.200s", said.text);
	observe(t, "only when asked for by name, and it says so");
}

/* ---- DG04: policies that are none ---- */

static int write_policies(const char *dir, const char *broken, const char *instead)
{
	auto_fd int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	size_t i;

	for (i = 0; fd >= 0 && i < embedded_policies_count; i++) {
		const struct embedded_file *p = &embedded_policies[i];
		auto_free char *name = mem_printf("%s.json", p->name);
		const bool it = strcmp(p->name, broken) == 0;

		(void)unlinkat(fd, name, 0); /* of the case before */
		if (it && !instead)
			continue;
		if (fs_create_whole(fd, name, it ? instead : p->text,
				    it ? strlen(instead) : p->len) < 0)
			return -1;
	}
	return fd < 0 ? -1 : 0;
}

static char *with_typo(void)
{
	size_t i;
	char *text, *at;

	for (i = 0; i < embedded_policies_count; i++) {
		if (strcmp(embedded_policies[i].name, "base") == 0)
			break;
	}
	if (i == embedded_policies_count)
		return NULL;
	text = mem_copy(embedded_policies[i].text);
	at = strstr(text, "\"read\"");
	if (at)
		memcpy(at, "\"raed\"", 6);
	return text;
}

static void dg04_outside(struct battery *b, struct tries *t)
{
	char dir[] = "/tmp/sandbox-policy-XXXXXX";
	auto_free char *typo = with_typo();
	const struct {
		const char *what, *text;
	} rows[] = {{"missing", NULL},
		    {"empty", ""},
		    {"no JSON", "{\"defaultAction\":"},
		    {"no policy", "{}"},
		    {"unknown call", typo}};
	const char *const words[] = {"check", "--policy-dir", dir, NULL};
	struct binary_said said;
	unsigned i;

	(void)b;
	if (!mkdtemp(dir)) {
		skip(t, "no directory for policies can be made in /tmp");
		return;
	}
	expect(t, typo && write_policies(dir, "", NULL) == 0, "no policies");
	binary_run(REFUSE_NOTHING, words, NULL, &said);
	expect(t, said.status == 0, "good policies are refused: %.200s", said.text);
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		expect(t, write_policies(dir, "base", rows[i].text) == 0, "no policies");
		binary_run(REFUSE_NOTHING, words, NULL, &said);
		expect(t, said.status == 1 && strstr(said.text, "base"),
		       "%s: status %d: %.100s", rows[i].what, said.status, said.text);
	}
	(void)fs_remove_tree(AT_FDCWD, dir); /* a few small files are no harm */
	observe(t, "exit 1, the file is named");
}

const struct attack attacks_dg[] = {
	{"DG01", "the layers as reported, and as a program finds them", "the same",
	 LEVEL_PROCESS, dg01, dg01_outside, NULL, NULL},
	{"DG02", "minimum full where namespaces are refused",
	 "no start; the missing layer is named", LEVEL_PROCESS, NULL, dg02_outside, NULL,
	 NULL},
	{"DG04", "policies: missing, empty, no JSON, no policy, an unknown call",
	 "no start; the file is named", LEVEL_PROCESS, NULL, dg04_outside, NULL, NULL},
	{"DG06", "namespaces that can be made, mounts that cannot", "noticed",
	 LEVEL_PROCESS, NULL, dg06_outside, NULL, NULL},
	{"DG08", "no isolation at all, asked for by name", "every answer says so",
	 LEVEL_PROCESS, NULL, dg08_outside, NULL, NULL},
	{.id = NULL},
};

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * identity.c - the host uids that the server and its runs get
 *
 * Runs in: the supervisor, before anything is started. Root gives every place for a run a
 * uid of its own, if the user namespace it is in has that many. A root that is somebody
 * ordinary outside and has no others (unshare -Ur, a rootless container) does as a plain
 * user does: one uid for all. Nothing may run with the uid of the host's own root,
 * whatever that is called in here.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/magic.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fs.h"
#include "base/idmap.h"
#include "base/num.h"
#include "cmd/cmd.h"

#define USUAL_BASE 600000
#define LEAST_BASE 10000 /* below are people and daemons */
#define LAST_BEFORE_NOBODY 65533

/* base-1 is the server, base-2 is kept for package layers, base-3 connects for runs,
 * base+n are places for runs */
#define FIRST_OF(base) ((base)-3)
#define LAST_OF(base) ((base) + SETUP_SLOTS)

struct ids {
	struct idmap uids, gids;
	bool setgroups; /* groups may be changed */
};

/* 1; 0: no /proc here, without which the launcher starts nothing; -1 */
static int read_ids(struct ids *ids, struct err *e)
{
	char word[16] = "";
	struct statfs fs;

	if (statfs("/proc", &fs) < 0 || fs.f_type != PROC_SUPER_MAGIC)
		return 0;
	if (idmap_read(&ids->uids, "/proc/self/uid_map") < 0 ||
	    idmap_read(&ids->gids, "/proc/self/gid_map") < 0) {
		if (errno != ENOENT)
			return err_errno(e, "read the ids of this user namespace");
		/* a kernel without user namespaces has all of them */
		(void)idmap_parse(&ids->uids, "0 0 4294967295");
		ids->gids = ids->uids;
	}
	ids->setgroups = fs_read_at(AT_FDCWD, "/proc/self/setgroups", word,
				    sizeof(word)) < 0 ||
			 strcmp(word, "deny\n") != 0;
	return 1;
}

/*
 * Are we, by whatever number, the host's uid 0? It owns /proc. A uid that is not mapped
 * here looks like "nobody"; if that is who we are, the map must tell.
 */
static bool is_host_root(const struct ids *ids)
{
	char text[16] = "65534";
	uint64_t unmapped = 65534, outer;
	struct stat st;

	if (stat("/proc", &st) < 0)
		return geteuid() == 0;
	if (st.st_uid != geteuid())
		return false;
	(void)fs_read_at(AT_FDCWD, "/proc/sys/kernel/overflowuid", text, sizeof(text));
	text[strcspn(text, "\n")] = '\0';
	(void)num_u64(text, &unmapped); /* its usual value else */
	if (geteuid() != unmapped)
		return true;
	return !idmap_outer(&ids->uids, geteuid(), &outer) || outer == 0;
}

static bool usable(const struct ids *ids, uint64_t base)
{
	return ids->setgroups && idmap_has(&ids->uids, FIRST_OF(base), LAST_OF(base)) &&
	       idmap_has(&ids->gids, FIRST_OF(base), LAST_OF(base));
}

/* the end of a range that is there; 0: none has room */
static uint64_t find_base(const struct ids *ids)
{
	uint64_t last, base;

	for (unsigned i = 0; i < ids->uids.count; i++) {
		last = ids->uids.extent[i].last;
		if (last < LAST_OF((uint64_t)LEAST_BASE))
			continue;
		if (last > LAST_BEFORE_NOBODY &&
		    FIRST_OF(last - SETUP_SLOTS) <= LAST_BEFORE_NOBODY + 2)
			last = LAST_BEFORE_NOBODY;
		base = last - SETUP_SLOTS;
		if (usable(ids, base))
			return base;
	}
	return 0;
}

/* the one that was asked for is not there */
static int refuse_base(const struct ids *ids, uint64_t base, struct err *e)
{
	uint64_t other = find_base(ids);
	char uids[120], gids[120], fix[64];

	idmap_text(&ids->uids, uids, sizeof(uids));
	idmap_text(&ids->gids, gids, sizeof(gids));
	if (other)
		snprintf(fix, sizeof(fix), "set SANDBOX_UID_BASE=%llu",
			 (unsigned long long)other);
	else
		snprintf(fix, sizeof(fix), "leave SANDBOX_UID_BASE out");
	return err_ours(e,
			"SANDBOX_UID_BASE=%llu: uids and gids %llu to %llu are needed, "
			"but this user namespace has only uids %s and gids %s%s; fix: %s",
			(unsigned long long)base, (unsigned long long)FIRST_OF(base),
			(unsigned long long)LAST_OF(base), uids, gids,
			ids->setgroups ? "" : ", and setgroups is denied", fix);
}

static int refuse_root(const struct ids *ids, struct err *e)
{
	char uids[120];

	idmap_text(&ids->uids, uids, sizeof(uids));
	return err_ours(e,
			"uid %u is the host's root, and this user namespace has no range "
			"of other uids and gids (it has uids %s%s): code would run as "
			"root; fix: map %d of them, or start as a plain user",
			(unsigned)geteuid(), uids,
			ids->setgroups ? "" : ", and setgroups is denied",
			SETUP_SLOTS + 3);
}

/* "name:first:count" of /etc/subuid; false for a line that newuidmap would ignore too */
static bool subuid_line(char *line, char **name, uint64_t *first, uint64_t *count)
{
	char *rest = line;

	*name = strsep(&rest, ":");
	line[strcspn(line, "\n")] = '\0';
	if (!rest)
		return false;
	rest[strcspn(rest, "\n")] = '\0';
	return num_u64(strsep(&rest, ":"), first) == 0 && rest &&
	       num_u64(rest, count) == 0;
}

/* uids of ours must not be anybody's: an overlap would give code another's files */
static int check_subuid(uint64_t base, struct err *e)
{
	uint64_t first, count;
	char line[256], *name;
	bool overlaps = false;
	FILE *f;

	f = fopen("/etc/subuid", "re");
	if (!f)
		return 0;
	while (!overlaps && fgets(line, sizeof(line), f))
		overlaps = subuid_line(line, &name, &first, &count) &&
			   first <= LAST_OF(base) + SETUP_SESSION_UIDS &&
			   first + count > FIRST_OF(base);
	fclose(f);
	if (!overlaps)
		return 0;
	return err_ours(e,
			"SANDBOX_UID_BASE=%llu overlaps the range of '%s' in /etc/subuid",
			(unsigned long long)base, name);
}

/* for root: a range of uids; 0: only our own */
static int choose_base(const struct ids *ids, uint64_t asked, uint64_t *out,
		       struct err *e)
{
	uint64_t base = asked ? asked : USUAL_BASE;

	if (!usable(ids, base)) {
		if (asked)
			return refuse_base(ids, asked, e);
		base = find_base(ids);
	}
	if (base && check_subuid(base, e) < 0)
		return -1;
	*out = base;
	return 0;
}

/* whole ranges from first to before end that are in one piece of the map, as a line of
 * another map must be */
static uint32_t ranges_in(const struct idmap *m, uint64_t first, uint64_t end)
{
	uint64_t last;

	for (unsigned i = 0; i < m->count; i++) {
		last = m->extent[i].last < end - 1 ? m->extent[i].last : end - 1;
		if (m->extent[i].first <= first && last >= first)
			return (uint32_t)((last + 1 - first) / SETUP_ROOT_IDS);
	}
	return 0;
}

/* the first id from first to before end that somebody has by this file; else end */
static uint64_t others_from(const char *file, uint64_t first, uint64_t end)
{
	uint64_t begin, count;
	char line[256], *name;
	FILE *f = fopen(file, "re");

	if (!f)
		return end;
	while (fgets(line, sizeof(line), f))
		if (subuid_line(line, &name, &begin, &count) && begin < end &&
		    begin + count > first)
			end = begin > first ? begin : first;
	fclose(f);
	return end;
}

void identity_root(const struct settings *s, struct setup *setup)
{
	uint64_t first = LAST_OF(s->uid_base) + 1 + SETUP_SESSION_UIDS, end;
	struct ids ids = {0};
	struct err e;
	uint32_t uids, gids;

	setup->root_ranges = 0;
	if (!s->uid_base || read_ids(&ids, &e) <= 0) {
		snprintf(setup->root_why, sizeof(setup->root_why),
			 "it was not started as root, with ids of its own");
		return;
	}
	/* daemons, people and nobody are below */
	if (first <= UINT16_MAX)
		first = UINT16_MAX + 1;
	end = first + (uint64_t)SETUP_ROOT_RANGES * SETUP_ROOT_IDS;
	end = others_from("/etc/subuid", first, end);
	end = others_from("/etc/subgid", first, end);
	uids = end > first ? ranges_in(&ids.uids, first, end) : 0;
	gids = end > first ? ranges_in(&ids.gids, first, end) : 0;
	setup->root_base = (uid_t)first;
	setup->root_ranges = ids.setgroups ? uids < gids ? uids : gids : 0;
	if (!setup->root_ranges)
		snprintf(setup->root_why, sizeof(setup->root_why),
			 "the uids and gids from %llu on are not all of this user "
			 "namespace, or somebody else's by /etc/subuid or /etc/subgid",
			 (unsigned long long)first);
}

int identity_leave_root(const struct settings *s)
{
	char uid_line[40], gid_line[40];

	if (s->uid_base || geteuid() != 0)
		return 0;
	snprintf(uid_line, sizeof(uid_line), "%d %u 1", CHILD_UID, (unsigned)geteuid());
	snprintf(gid_line, sizeof(gid_line), "%d %u 1", CHILD_UID, (unsigned)getegid());
	(void)setgroups(0, NULL); /* mostly denied: they are kept, as a plain user's */
	if (unshare(CLONE_NEWUSER) < 0 ||
	    fs_write_at(AT_FDCWD, "/proc/self/setgroups", "deny") < 0 ||
	    fs_write_at(AT_FDCWD, "/proc/self/gid_map", gid_line) < 0)
		return -1;
	return fs_write_at(AT_FDCWD, "/proc/self/uid_map", uid_line);
}

int identity_decide(struct settings *s, struct err *e)
{
	uint64_t base = 0;
	struct ids ids = {0};
	int there = read_ids(&ids, e);

	if (there < 0)
		return -1;
	if (there == 0) {
		(void)idmap_parse(&ids.uids, "0 0 4294967295");
		ids.gids = ids.uids;
		ids.setgroups = true;
	}
	if (geteuid() == 0 && choose_base(&ids, s->uid_base, &base, e) < 0)
		return -1;
	if (there && base == 0 && is_host_root(&ids))
		return refuse_root(&ids, e);
	s->uid_base = base;
	return 0;
}

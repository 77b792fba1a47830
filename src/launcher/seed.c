/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * seed.c - fills the compile cache in the background
 *
 * Runs in: the launcher, after the probe, when a row wants a compile cache and none is
 * complete. `go build std` runs in a sandbox like any program, in a slot of its own whose
 * /go-cache is the seed's directory. Requests are served meanwhile without it; when it is
 * complete it gets its name, and the slots are rebuilt with it below every run's private
 * layer.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/defer.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "launcher/launcher.h"

#define SEED_WALL_MS 1800000u

static int seed_row(const struct setup *setup)
{
	unsigned i;

	for (i = 0; i < setup->rows; i++) {
		if (setup->row[i].go_cache)
			return (int)i;
	}
	return -1;
}

/*
 * What launchers that died left behind; "NAME.PID.new". Servers may share a state
 * directory, so a living one's is left alone.
 */
static void remove_stale(const char *final)
{
	const char *base = strrchr(final, '/') + 1;
	auto_free char *parent = mem_copy_n(final, (size_t)(base - final));
	struct dirent *d;
	uint64_t pid;
	DIR *dir;

	dir = opendir(parent);
	if (!dir)
		return;
	while ((d = readdir(dir))) {
		auto_free char *name = mem_copy(d->d_name);
		char *end = strrchr(name, '.');
		char *number;

		if (!end || strcmp(end, ".new") != 0)
			continue;
		*end = '\0';
		number = strrchr(name, '.');
		if (number && num_u64(number + 1, &pid) == 0 && kill((pid_t)pid, 0) < 0 &&
		    errno == ESRCH)
			(void)fs_remove_tree(dirfd(dir),
					     d->d_name); /* the next start tries again */
	}
	closedir(dir);
}

/* an empty directory that the seeding slot may write */
static int make_directory(const char *path, uid_t uid, gid_t gid)
{
	if (fs_remove_tree(AT_FDCWD, path) < 0 && errno != ENOENT)
		return -1;
	if (mkdir(path, 0755) < 0 || chmod(path, 0755) < 0)
		return -1;
	return chown(path, uid, gid);
}

void seed_start(struct launcher *l)
{
	struct slot *s;
	char *dir;

	if (!l->setup->go_seed_build || l->abilities.go_seed ||
	    (!l->abilities.overlay && !launcher_shares(l)) || seed_row(l->setup) < 0)
		return;
	l->seeder = s = mem_zero(sizeof(*s));
	slot_init(s, l, l->slot_count);
	remove_stale(l->setup->go_seed_dir);
	dir = mem_printf("%s.%d.new", l->setup->go_seed_dir, (int)getpid());
	s->seed_dir = dir;
	if (make_directory(dir, s->uid, s->gid) < 0) {
		log_warn("seed.failed", "step=directory error=\"%s\"", strerror(errno));
		seed_over(l, false);
		return;
	}
	log_info("seed.start", "directory=%s", dir);
	slot_build(s);
}

void seed_slot_ready(struct launcher *l)
{
	struct message m = {.type = MSG_RUN};

	m.plan.row = (uint32_t)seed_row(l->setup);
	m.plan.errand = ERRAND_SEED;
	m.plan.limits = l->setup->row[m.plan.row].ceiling;
	m.plan.limits.wall_ms = SEED_WALL_MS;
	m.plan.limits.cpu_ms = SEED_WALL_MS;
	slot_start_run(l->seeder, &m, (const int[]){l->proc_fd, -1}, loop_now_ns());
}

/* every slot is built again, the busy ones when their run is over */
static void rebuild_slots(struct launcher *l)
{
	unsigned i;

	warm_drop(l);
	for (i = 0; i < l->slot_count; i++) {
		l->slots[i].condemned = l->slots[i].state != SLOT_EMPTY;
		if (l->slots[i].state == SLOT_FREE)
			slot_reset(&l->slots[i]);
	}
}

void seed_over(struct launcher *l, bool complete)
{
	struct slot *s = l->seeder;

	l->seeder = NULL;
	run_clear(&s->run);
	if (s->state != SLOT_EMPTY)
		slot_unbuild(s);
	if (complete && rename(s->seed_dir, l->setup->go_seed_dir) < 0 &&
	    errno != ENOTEMPTY &&
	    errno != EEXIST) { /* another server was quicker: its seed is as good */
		log_warn("seed.failed", "step=rename error=\"%s\"", strerror(errno));
		complete = false;
	}
	if (complete) {
		log_info("seed.done", "directory=%s", l->setup->go_seed_dir);
		l->abilities.go_seed = true;
		rebuild_slots(l);
	} else {
		log_warn("seed.none", "effect=\"every go run compiles what it imports\"");
	}
	(void)fs_remove_tree(AT_FDCWD, s->seed_dir); /* unless it became the seed */
	free((char *)s->seed_dir);
	free(s);
}

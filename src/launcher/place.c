/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * place.c - the directories of runs that have no mount namespace
 *
 *	DIR/sandbox-runs.RANDOM        the launcher's, locked as long as it lives
 *	    /N                         a slot's, of the slot's uid
 *	        /RANDOM/work,tmp,cache a run's
 *	    /kept.RANDOM           the working directory of plan.kept
 *
 * Runs in: the launcher, and place_slot, place_make and place_clean in its workers. What
 * Landlock does not see (stat, readlink) needs a name: so names cannot be guessed, and it
 * lets nobody list them. The lock tells the next start whose owner is dead, whatever pid
 * namespace that one lived in.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/defer.h"
#include "base/fs.h"
#include "base/log.h"
#include "launcher/launcher.h"

#define PREFIX "sandbox-runs."
#define KEPT "/kept."

static int random_name(char out[PLACE_NAME])
{
	unsigned char bytes[(PLACE_NAME - 1) / 2];
	size_t i;

	if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
		return -1;
	for (i = 0; i < sizeof(bytes); i++)
		snprintf(out + 2 * i, 3, "%02x", bytes[i]);
	return 0;
}

/* every directory on the way can be entered by any uid */
static bool open_to_all(const char *path)
{
	char part[SETUP_PATH];
	struct stat st;
	size_t i;

	for (i = 1; path[i - 1]; i++) {
		if (path[i] != '/' && path[i] != '\0')
			continue;
		memcpy(part, path, i);
		part[i] = '\0';
		if (stat(part, &st) < 0 || !(st.st_mode & S_IXOTH))
			return false;
	}
	return true;
}

/* 0, or errno */
static int usable(const struct launcher *l, const char *path, int dir_fd)
{
	struct statvfs fs;

	if (faccessat(dir_fd, ".", R_OK | W_OK | X_OK, AT_EACCESS) < 0 ||
	    fstatvfs(dir_fd, &fs) < 0)
		return errno;
	if (fs.f_flag & ST_NOEXEC)
		return ENOEXEC;
	return l->abilities.one_uid || open_to_all(path) ? 0 : EACCES;
}

/* what launchers that died left behind */
static void sweep(int dir_fd)
{
	int copy = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = copy < 0 ? NULL : fdopendir(copy);
	struct dirent *d;

	while (dir && (d = readdir(dir))) {
		auto_fd int fd = -1;
		struct stat st;

		if (strncmp(d->d_name, PREFIX, strlen(PREFIX)) != 0)
			continue;
		fd = openat(dir_fd, d->d_name,
			    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0 || fstat(fd, &st) < 0 || st.st_uid != geteuid() ||
		    flock(fd, LOCK_EX | LOCK_NB) < 0)
			continue; /* somebody else's, or alive */
		if (fs_remove_tree(dir_fd, d->d_name) < 0)
			log_warn("place.left", "name=%s error=\"%s\"", d->d_name,
				 strerror(errno)); /* the next start tries again */
		else
			log_info("place.swept", "name=%s", d->d_name);
	}
	if (dir)
		closedir(dir);
}

/* a file that modes open to every run, for the canary to be refused */
static int make_canary(int dir_fd)
{
	auto_fd int fd = openat(dir_fd, "canary", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
				0644);

	return fd < 0 ? -1 : fchmod(fd, 0644);
}

/* Only where all runs have one uid: they are in slots as it happens, and it is theirs. No
 * rule of Landlock opens it to another run, and its name is as hard to guess. */
static int make_kept(struct launcher *l)
{
	char random[PLACE_NAME];

	if (!l->abilities.one_uid)
		return 0;
	if (random_name(random) < 0)
		return -1;
	if (snprintf(l->kept, sizeof(l->kept), "%s" KEPT "%s", l->place, random) >=
	    (int)sizeof(l->kept)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	if (mkdirat(l->place_fd, l->kept + strlen(l->place) + 1, 0700) < 0)
		return -1;
	l->kept_fd = open(l->kept, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return l->kept_fd < 0 ? -1 : 0;
}

/* a new directory, locked; who sweeps at the same moment may be quicker: then another */
static int make(struct launcher *l, int dir_fd, const char *parent)
{
	char random[PLACE_NAME], name[sizeof(PREFIX) + PLACE_NAME];
	auto_fd int fd = -1;
	struct stat st;

	if (random_name(random) < 0)
		return -1;
	snprintf(name, sizeof(name), PREFIX "%s", random);
	if (snprintf(l->place, sizeof(l->place), "%s/%s", parent, name) >=
	    (int)sizeof(l->place) - 2 * PLACE_NAME) {
		errno = ENAMETOOLONG;
		return -1;
	}
	if (mkdirat(dir_fd, name, 0700) < 0)
		return -1;
	fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	/* slots of other uids pass through; only root could see what is in it */
	if (fd < 0 || fchmod(fd, l->abilities.one_uid ? 0700 : 0711) < 0 ||
	    flock(fd, LOCK_EX | LOCK_NB) < 0 || fstat(fd, &st) < 0)
		return -1;
	if (st.st_nlink == 0) {
		errno = EAGAIN;
		return -1;
	}
	if (make_canary(fd) < 0)
		return -1;
	l->place_fd = take_fd(&fd);
	/* without it runs go on as they would, and who asks for it is told */
	if (make_kept(l) < 0)
		log_warn("place.kept", "error=\"%s\"", strerror(errno));
	return 0;
}

int place_open(struct launcher *l)
{
	int i, tries, num = ENOENT;

	for (i = 0; i < SETUP_RUN_DIRS && l->setup->run_dir[i][0]; i++) {
		/* as a run will be told where it is */
		auto_free char *path = realpath(l->setup->run_dir[i], NULL);
		auto_fd int dir_fd = -1;

		if (path)
			dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		num = dir_fd < 0 ? errno : usable(l, path, dir_fd);
		if (num) {
			log_info("place.unusable", "directory=%s error=\"%s\"",
				 l->setup->run_dir[i],
				 num == ENOEXEC ? "mounted noexec" : strerror(num));
			continue;
		}
		sweep(dir_fd);
		for (tries = 0; tries < 3; tries++) {
			if (make(l, dir_fd, path) == 0)
				return 0;
			num = errno;
		}
	}
	errno = num;
	return -1;
}

void place_close(struct launcher *l)
{
	if (l->place_fd < 0)
		return;
	if (fs_remove_tree(AT_FDCWD, l->place) < 0)
		log_warn("place.left", "directory=%s error=\"%s\"", l->place,
			 strerror(errno));
	close(take_fd(&l->place_fd));
	defer_close(&l->kept_fd);
	l->kept_fd = -1;
}

int place_slot(const struct launcher *l, const struct slot *s)
{
	auto_fd int fd = -1;
	char name[16];

	snprintf(name, sizeof(name), "%u", s->n);
	if (mkdirat(l->place_fd, name, 0700) < 0 && errno != EEXIST)
		return -1;
	fd = openat(l->place_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || (!l->abilities.one_uid && fchown(fd, s->uid, s->gid) < 0))
		return -1;
	return take_fd(&fd);
}

int place_make(const struct slot *s, int slot_fd, char out[SETUP_PATH])
{
	char name[PLACE_NAME];

	if (random_name(name) < 0 || mkdirat(slot_fd, name, 0700) < 0)
		return -1;
	if (snprintf(out, SETUP_PATH, "%s/%u/%s", s->launcher->place, s->n, name) >=
	    SETUP_PATH) {
		errno = ENAMETOOLONG;
		return -1;
	}
	return 0;
}

int place_clean(int slot_fd)
{
	int copy = openat(slot_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = copy < 0 ? NULL : fdopendir(copy);
	struct dirent *d;
	int num = 0;

	if (!dir) {
		defer_close(&copy);
		return -1;
	}
	while ((d = readdir(dir))) {
		if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0 &&
		    fs_remove_tree(slot_fd, d->d_name) < 0)
			num = errno;
	}
	closedir(dir);
	errno = num;
	return num ? -1 : 0;
}

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * session_ids.c - the uids of sessions, and the ranges of those whose user is root
 *
 * Runs in: the launcher. A session's directory belongs to its uid, or to the first of its
 * range: so the file system itself remembers which are taken, and forks, which have files
 * of each other, have the same. No two of slots, server, layers, uids and ranges overlap:
 * uids are behind slots, ranges behind uids.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/defer.h"
#include "base/fs.h"
#include "base/log.h"
#include "launcher/launcher.h"
#include "launcher/session_parts.h"

/* of uids, or of ranges */
struct kind {
	uid_t first;
	uint32_t each, count;
};

static struct kind kind_of(const struct setup *setup, bool root)
{
	return root ? (struct kind){setup->root_base, SETUP_ROOT_IDS, setup->root_ranges}
		    : (struct kind){setup->uid_base + SETUP_SLOTS + 1, 1,
				    SETUP_SESSION_UIDS};
}

/* which of them it is in; -1: none */
static int place_of(const struct kind *k, uid_t uid)
{
	return uid >= k->first && (uid - k->first) / k->each < k->count
		       ? (int)((uid - k->first) / k->each)
		       : -1;
}

bool session_ids_ours(const struct launcher *l, uid_t uid, bool *out_root)
{
	const struct kind one = kind_of(l->setup, false), range = kind_of(l->setup, true);

	*out_root = false;
	if (l->abilities.one_uid)
		return uid == getuid();
	*out_root = place_of(&range, uid) >= 0 && (uid - range.first) % range.each == 0;
	return *out_root || place_of(&one, uid) >= 0;
}

int session_ids_free(const struct launcher *l, bool root, uid_t *out)
{
	const struct kind k = kind_of(l->setup, root);
	bool taken[SETUP_SESSION_UIDS + SETUP_ROOT_RANGES] = {false};
	auto_fd int fd = session_dir_open(l);
	struct dirent *d;
	struct stat st;
	uint32_t i;
	int at;
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (!dir)
		return -1;
	(void)take_fd(&fd);
	while ((d = readdir(dir))) {
		if (fstatat(dirfd(dir), d->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		    (at = place_of(&k, st.st_uid)) >= 0)
			taken[at] = true;
	}
	closedir(dir);
	for (i = 0; i < k.count && taken[i]; i++)
		;
	if (i == k.count) {
		errno = EUSERS;
		return -1;
	}
	*out = k.first + i * k.each;
	return 0;
}

bool session_is_root(const struct slot *s)
{
	return s->session && s->session->stack.root;
}

static int write_map(const struct slot *s, const char *name)
{
	char path[48], line[48];

	snprintf(path, sizeof(path), "%d/%s", (int)s->run.pid, name);
	snprintf(line, sizeof(line), "0 %u %u", (unsigned)s->uid,
		 (unsigned)SETUP_ROOT_IDS);
	return fs_write_at(s->launcher->proc_fd, path, line);
}

/* it is not reaped, so its number is its own; it has done nothing but wait for this */
void session_ids_give(const struct slot *s)
{
	if (!session_is_root(s) || session_entered(s))
		return;
	if (s->uid == 0 || write_map(s, "gid_map") < 0 || write_map(s, "uid_map") < 0 ||
	    send(s->run.news_fd, "", 1, MSG_NOSIGNAL) != 1) {
		log_error("session.ids", "uid=%u error=\"%s\"", (unsigned)s->uid,
			  strerror(errno));
		/* then it sees the end of it */
		(void)shutdown(s->run.news_fd, SHUT_WR);
	}
}

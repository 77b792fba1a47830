/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * layer_scripts.c - whether packages of npm's have scripts for their installation
 *
 * Runs in: the process that makes a layer. npm's own list of what it installed tells, and
 * is read in our copy of it, for one word: whatever else is in there, this process does
 * not depend on it.
 */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/defer.h"
#include "base/fs.h"
#include "launcher/layer.h"

#define LIST ".package-lock.json"
#define CHUNK 65536

bool layer_has_scripts(int staged_fd, const char *tree)
{
	static const char word[] = "\"hasInstallScript\": true";
	static char text[CHUNK];
	const size_t most = sizeof(word) - 2; /* of it, at the end of one read */
	auto_fd int tree_fd = fs_open_beneath(staged_fd, tree, O_RDONLY | O_DIRECTORY, 0);
	auto_fd int fd = -1;
	size_t kept = 0;
	ssize_t n;

	if (tree_fd >= 0)
		fd = fs_open_beneath(tree_fd, LIST, O_RDONLY | O_NONBLOCK | O_NOFOLLOW,
				     0);
	while (fd >= 0 && (n = read(fd, text + kept, sizeof(text) - kept)) > 0) {
		const size_t len = kept + (size_t)n;

		if (memmem(text, len, word, sizeof(word) - 1))
			return true;
		kept = len < most ? len : most;
		memmove(text, text + len - kept, kept);
	}
	return false;
}

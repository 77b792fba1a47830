/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * state_format.c - which form everything in the state directory has
 *
 * A number in its file `format`. What is older is brought into our form by whoever adds
 * the first step to that; so far there is only form 1, which began without the file. What
 * is newer nobody here may touch: its files could mean something else.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/defer.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/num.h"
#include "cmd/cmd.h"

#define FILE_NAME "format"
#define FORM 1
#define FORM_TEXT "1\n"

/* for everybody to read: `layers list` needs no rights. A directory that nobody may write
 * to stays without, which is still true of it */
static void stamp_it(int state_fd, const char *path)
{
	if (fs_create_whole(state_fd, FILE_NAME, FORM_TEXT, strlen(FORM_TEXT)) < 0 ||
	    fchmodat(state_fd, FILE_NAME, 0644, 0) < 0)
		log_warn("state.format", "path=\"%s/" FILE_NAME "\" error=\"%s\"", path,
			 strerror(errno));
}

int state_format(const char *path, bool stamp, struct err *e)
{
	auto_fd int fd = path ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	char text[32];
	ssize_t len;
	uint64_t form;

	if (fd < 0)
		return 0;
	len = fs_read_at(fd, FILE_NAME, text, sizeof(text));
	if (len < 0 && errno == ENOENT) {
		if (stamp)
			stamp_it(fd, path);
		return 0;
	}
	if (len < 0 && errno != EFBIG)
		return err_errno(e, "read '%s/" FILE_NAME "'", path);
	if (len > 0 && text[len - 1] == '\n')
		text[--len] = '\0';
	if (len <= 0 || strlen(text) != (size_t)len || num_u64(text, &form) < 0 ||
	    form == 0)
		return err_bad(e, "'%s/" FILE_NAME "' is no number of a form", path);
	if (form > FORM)
		return err_bad(e,
			       "the state directory '%s' has form %" PRIu64
			       ", of a newer sandbox-server; this one knows %d: start "
			       "that one, or give this one another directory",
			       path, form, FORM);
	return 0;
}

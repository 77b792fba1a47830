/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * files.c - read collected files; no length in them is trusted
 *
 * Runs in: the server.
 */
#include "wire/files.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/utf8.h"

static const char *const words[] = {
	[FILES_SYMLINK] = "symlink",
	[FILES_NOT_REGULAR] = "not_a_regular_file",
	[FILES_NOT_DIRECTORY] = "not_a_directory",
	[FILES_UNREADABLE] = "unreadable",
	[FILES_TOO_LARGE] = "too_large",
	[FILES_TOO_MANY] = "too_many_files",
	[FILES_TOTAL_SIZE] = "total_size_limit",
	[FILES_TOO_DEEP] = "too_deep",
	[FILES_TIME] = "time_limit",
	[FILES_TOO_MANY_ENTRIES] = "too_many_entries",
	[FILES_BAD_NAME] = "bad_name",
	[FILES_MORE] = "more",
};
static_assert(sizeof(words) / sizeof(words[0]) == FILES_REASONS,
	      "a reason lacks its word");

const char *files_reason_text(enum files_reason reason)
{
	assert(reason < FILES_REASONS);
	return words[reason];
}

int files_open(struct files_reader *r, int fd)
{
	const int need = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;
	void *map;

	memset(r, 0, sizeof(*r));
	if (seals < 0 || fstat(fd, &st) < 0)
		return -1;
	if ((seals & need) !=
	    need) { /* a file that shrinks under a mapping kills its reader */
		errno = EPERM;
		return -1;
	}
	if (st.st_size == 0)
		return 0;
	map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (map == MAP_FAILED)
		return -1;
	r->bytes = map;
	r->len = (size_t)st.st_size;
	return 0;
}

/* where the record at `at` ends with its padding, or 0 when it cannot be one */
static size_t record_end(const struct files_reader *r, const struct files_head *head)
{
	size_t left = r->len - r->at - sizeof(*head);
	size_t used;

	if (head->name_len > FILES_NAME_MAX || head->name_len > left)
		return 0;
	left -= head->name_len;
	if (head->data_len > left)
		return 0;
	left -= (size_t)head->data_len;
	used = sizeof(*head) + head->name_len + (size_t)head->data_len;
	if (-used % FILES_ALIGN > left)
		return 0;
	return r->at + used + -used % FILES_ALIGN;
}

int files_next(struct files_reader *r, struct files_record *out)
{
	struct files_head head;
	const char *name;
	size_t end;

	if (r->at == r->len)
		return 0;
	errno = EBADMSG;
	if (r->len - r->at < sizeof(head))
		return -1;
	memcpy(&head, r->bytes + r->at, sizeof(head));
	end = record_end(r, &head);
	if (!end || (head.kind != FILES_FILE && head.kind != FILES_SKIPPED))
		return -1;
	name = r->bytes + r->at + sizeof(head);
	if (memchr(name, 0, head.name_len) || !utf8_valid(name, head.name_len))
		return -1;
	*out = (struct files_record){.kind = (enum files_kind)head.kind,
				     .name = name,
				     .name_len = head.name_len,
				     .data = name + head.name_len,
				     .data_len = (size_t)head.data_len};
	r->at = end;
	return 1;
}

void files_close(struct files_reader *r)
{
	if (r->bytes)
		munmap((void *)(uintptr_t)r->bytes, r->len);
	memset(r, 0, sizeof(*r));
}

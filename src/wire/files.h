/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * files.h - what a program left in its output directory, in a sealed memfd
 *
 * A sequence of records, each 8-byte aligned: the head, the name, the data, zero bytes up
 * to the next multiple of eight. Names are valid UTF-8 without a NUL and relative to the
 * output directory; when it is that one itself that was skipped, its own name. Written by
 * the collector, which has looked at what hostile code made: the reader trusts no length
 * in it.
 */
#ifndef WIRE_FILES_H
#define WIRE_FILES_H

#include <stddef.h>
#include <stdint.h>

enum files_kind {
	FILES_FILE = 1, /* data: the file's bytes */
	FILES_SKIPPED,  /* data: why, as one of the words below */
};

enum files_reason {
	FILES_SYMLINK,
	FILES_NOT_REGULAR,
	FILES_NOT_DIRECTORY, /* of the output directory itself */
	FILES_UNREADABLE,
	FILES_TOO_LARGE,
	FILES_TOO_MANY,
	FILES_TOTAL_SIZE,
	FILES_TOO_DEEP,
	FILES_TIME,
	FILES_TOO_MANY_ENTRIES,
	FILES_BAD_NAME,
	FILES_MORE, /* name "": the list of what was skipped was cut here */
	FILES_REASONS,
};

#define FILES_ALIGN 8
#define FILES_NAME_MAX 4096
#define FILES_SKIPPED_MAX 100 /* then one FILES_MORE */

struct files_head {
	uint32_t kind;
	uint32_t name_len;
	uint64_t data_len;
};

/* points into the reader's mapping; neither is NUL-terminated */
struct files_record {
	enum files_kind kind;
	const char *name;
	size_t name_len;
	const char *data;
	size_t data_len;
};

struct files_reader {
	const char *bytes;
	size_t len;
	size_t at;
};

/* a word for clients: "too_large" */
const char *files_reason_text(enum files_reason reason);
/* maps a memfd, which must be sealed; -1 with errno. fd may be closed afterwards */
int files_open(struct files_reader *r, int fd);
/* 1: *out is the next record; 0: that was all; -1, errno EBADMSG: not a collector's */
int files_next(struct files_reader *r, struct files_record *out);
/* unmaps; also takes a zeroed reader */
void files_close(struct files_reader *r);

#endif

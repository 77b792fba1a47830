/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * fs.h - files through directory descriptors
 */
#ifndef BASE_FS_H
#define BASE_FS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* a whole small file as text with a NUL behind it: its length; -1, errno EFBIG when it
 * has more than room - 1 bytes; out changes on success only */
ssize_t fs_read_at(int dir_fd, const char *name, char *out, size_t room);
/* all bytes into an existing file (kernel knobs too) */
int fs_write_at(int dir_fd, const char *name, const char *text);
/* a new file, complete or not there: temporary name, write, fsync, rename; mode 0600 */
int fs_create_whole(int dir_fd, const char *name, const void *bytes, size_t len);
int fs_write_all(int fd, const void *bytes, size_t len);
/* mkdir -p; no component may be a link or ".."; from the root only with AT_FDCWD; returns
 * an fd of the last directory */
int fs_make_path(int dir_fd, const char *path, mode_t mode);
/* open beneath dir_fd: no links, no .., no other mounts (openat2); flags as open */
int fs_open_beneath(int dir_fd, const char *path, int flags, mode_t mode);
/* remove a tree, iteratively, following no link; -1 with the first errno, having gone on;
 * a name that is not there is success */
int fs_remove_tree(int dir_fd, const char *name);
/* a directory of our own that shuts us out: it is opened to us, mode 0700; its fd */
int fs_open_shut(int dir_fd, const char *name);
/* a relative path in UTF-8, 1 to `most` bytes, of components of at most 255 bytes: none
 * empty, "." or ".."; no control characters */
bool fs_name_ok(const char *path, size_t len, size_t most);
/* seal an anonymous file that nobody writes any more against every change */
int fs_seal(int fd);
/* an anonymous file holding these bytes, sealed against every change; close-on-exec */
int fs_sealed(const char *label, const void *bytes, size_t len);

#endif

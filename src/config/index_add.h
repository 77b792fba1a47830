/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * index_add.h - what pip and uv are told, on its way into a struct index
 */
#ifndef CONFIG_INDEX_ADD_H
#define CONFIG_INDEX_ADD_H

struct err;
struct index;

#include <stdbool.h>

#define INDEX_FILE_MOST (64u << 10)

/* of what is find-links: an absolute path or file://; beside: the file of uv's that says
 * it, whose paths may be relative and are there; NULL: pip's, which passes over what is
 * not there, and knows ~/ */
void index_add_directory(struct index *x, const char *word, const char *beside);
void index_add_links(struct index *x, const char *text);    /* pip's: at blanks */
void index_add_uv_links(struct index *x, const char *text); /* uv's: at commas */
void index_set_main(struct index *x, const char *text);     /* the first counts */
void index_set_extra(struct index *x, const char *text);
void index_set_alone(struct index *x, const char *text);
void index_set_cert(struct index *x, const char *text); /* the first counts */
void index_set_keyring(struct index *x, const char *text);
/* true: an index of that name was there before, which is the one that counts */
bool index_is_second(struct index *x, const char *name);
/* main: the first counts; name: what variables of who asks have, or NULL */
void index_add(struct index *x, bool main, const char *name, const char *url);
bool index_has_password(const char *url);
/* the URL with the user and password of whoever asks */
char *index_login(struct index *x, const char *name, const char *url);
/* HOME, without it what the system has for this user, as pip and npm have it; or
 * NULL */
const char *index_home(void);
/* a file of settings: 1; 0: there is none that can be read, errno says why; -1: it is too
 * large, or no text */
int index_read(const char *path, char out[INDEX_FILE_MOST], struct err *e);

/* own: the user's directory of settings, or NULL; dirs: the host's, with colons */
int index_of_uv(struct index *x, const char *own, const char *dirs, struct err *e);
/* prefix: of the python that it is for, or NULL */
int index_of_pip(struct index *x, const char *prefix, const char *own, const char *dirs,
		 struct err *e);

#endif

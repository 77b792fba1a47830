/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * index_add.h - what pip and uv are told, on its way into a struct index
 */
#ifndef CONFIG_INDEX_ADD_H
#define CONFIG_INDEX_ADD_H

struct err;
struct index;

#define INDEX_FILE_MOST (64u << 10)

/* beside: the file that says it, or NULL */
void index_add_directory(struct index *x, const char *word, const char *beside);
void index_add_links(struct index *x, const char *text);
void index_set_main(struct index *x, const char *text); /* the first counts */
void index_set_extra(struct index *x, const char *text);
void index_set_alone(struct index *x, const char *text);
void index_set_cert(struct index *x, const char *text); /* the first counts */
/* a file of settings: 1; 0: there is none that can be read, errno says why; -1: it is too
 * large, or no text */
int index_read(const char *path, char out[INDEX_FILE_MOST], struct err *e);

/* own: the user's directory of settings, or NULL; dirs: the host's, with colons */
int index_of_uv(struct index *x, const char *own, const char *dirs, struct err *e);
int index_of_pip(struct index *x, const char *own, const char *dirs, struct err *e);

#endif

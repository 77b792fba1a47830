/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * words.h - arguments and variables of a request, for an interpreter that has started
 */
#ifndef PYTHON_WORDS_H
#define PYTHON_WORDS_H

#include <stdbool.h>

/* The script's FIFO is open: reads what comes before the script, and sets it. Returns
 * when that is done; ends the process when it cannot be. */
void words_take(int script_fd, bool python);
/* The same with what was read already. -1: this python has imported what it would have
 * found among the request's packages. */
struct ahead_words;
int words_set(const struct ahead_words *w, const char *text, bool python);

#endif

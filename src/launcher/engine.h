/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * engine.h - SANDBOX_TYPE=docker: the launcher that has runs made by a container engine
 */
#ifndef LAUNCHER_ENGINE_H
#define LAUNCHER_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/loop.h"
#include "launcher/launcher.h"
#include "wire/engine.h"

struct engine;

/* does not return before the server is gone; the exit status */
int engine_main(const struct launcher_start *start, int server_fd);

/* a message that refusal_of() has let in, if that is what the launcher is; l is then a
 * part of what engine_main() made */
bool engine_take(struct launcher *l, const struct message *m, int *fds);

#define ENGINE_NAME 48

/* a process of ours that is waited for */
struct helper {
	pid_t pid;
	int pid_fd; /* -1: it is over, or never was */
	int status;
};

struct engine_run {
	struct engine *engine;
	uint64_t id; /* 0: free */
	char name[ENGINE_NAME];
	struct plan plan;
	struct helper client, relay, killer;
	int news_fd, files_fd, errors_fd;
	uint64_t arrived_ns, started_ns;
	bool done, killed, timed_out;
	bool suspect; /* nothing came of it: is the engine there? */
	struct outcome outcome;
	char failed[ENGINE_TEXT];
	struct loop_timer timer;
};

struct engine {
	struct launcher launcher; /* of which messages need a part */
	const struct setup *setup;
	struct engine_run *runs;
	bool told; /* the server, whether the engine is there */
	bool there;
	struct helper look;
	struct loop_timer look_again;
};

/* a client of the engine's; fds: standard ones, -1 for nothing. 0, or -1 with errno */
struct engine_words;
int engine_client(const struct engine *g, struct engine_words *w, const int fds[3],
		  struct helper *out);
void engine_reap(struct engine *g, struct helper *h); /* it is over */
void engine_look(struct engine *g);                   /* whether the engine is there */

/* engine_run.c */
void engine_begin(struct engine_run *r, const struct message *m, int input_fd);
void engine_kill(struct engine_run *r); /* its end follows */
void engine_suspects(struct engine *g); /* those that waited for engine_look() */

/* engine_words.c: the words of a command for the engine's client, in one block */
#define ENGINE_WORDS 80
struct engine_words {
	char text[8192];
	size_t len;
	char *word[ENGINE_WORDS + 1];
	unsigned count;
};
/* to run a plan in a container of that name; -1: too long */
int engine_words_run(struct engine_words *w, const struct setup *setup,
		     const struct plan *p, const char *name);
/* `exe a b` */
int engine_words_short(struct engine_words *w, const struct setup *setup, const char *a,
		       const char *b);
/* its environment, which is the same for all */
int engine_words_env(struct engine_words *w, const struct setup *setup);

/* engine_relay.c */
struct relay {
	int from_fd;           /* the engine's client */
	int out_fd, err_fd;    /* of the program, to the server */
	int files_fd, news_fd; /* its files, and struct engine_news for the launcher */
	uint64_t files_most;   /* bytes */
};
_Noreturn void relay_main(const struct relay *r, uid_t uid);

#endif

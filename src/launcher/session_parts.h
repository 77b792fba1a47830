/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * session_parts.h - inside of sessions: one, and the commands in it; for session*.c only
 */
#ifndef LAUNCHER_SESSION_PARTS_H
#define LAUNCHER_SESSION_PARTS_H

#include "launcher/launcher.h"
#include "launcher/sample.h"
#include "launcher/session_stack.h"
#include "launcher/template.h"

#define SESSION_NEW ".new-"   /* directories that are not whole yet, */
#define SESSION_GONE ".gone-" /* or to be removed: this, its name, a number */
#define SESSION_HALF \
	SESSION_NEW "gone"  /* says which layers go, and is not named so yet */
#define SESSION_COMMANDS 16 /* at once */
#define SESSION_GONE_NAME (sizeof(SESSION_GONE) + SESSION_NAME + 16)

enum session_state {
	SESSION_STARTING,
	SESSION_READY,
	SESSION_ENDING,
};

struct command {
	struct slot slot; /* first: who has the slot has the command */
	struct command *next;
	struct waiting asked; /* until it is started */
	uint64_t wants_ns;    /* to begin, since */
	bool waits;           /* until it is known what the session has on the disk */
	bool started;
	bool cancelled; /* answered before it was */
	bool lingers;   /* its outcome was told, and something of it is still alive */
	pid_t inner;    /* its init's number in the session; 0: nobody asked */
};

/* what was frozen when it was looked at, and one layer that shows the same */
struct session_flat {
	struct session_stack frozen;
	char made[STACK_NAME];
};

struct disk_seen {
	struct disk_use use;  /* of the layer that is written to, */
	struct disk_use kept; /* and of those that were frozen, if that was not known */
};

struct session {
	struct slot slot; /* of its process 1 */
	struct session *next;
	struct launcher *launcher;
	enum session_state state;
	uint8_t key[SESSION_KEY];
	uint64_t owner; /* as in its plan */
	struct session_stack stack;
	struct session_root root;
	uid_t uid;     /* of root's range: the first */
	bool made;     /* just now, and it is not ready yet */
	int files_fd;  /* what it writes */
	int image_fd;  /* locked: nobody removes it meanwhile; -1: it has none */
	int egress_fd; /* to its broker; -1: it has no network */
	int ns_fd[NS_COUNT];
	struct cgroup_base cgroups;
	struct command *commands;
	bool yields;               /* it ends to make room, and */
	struct session_late *late; /* these want it when it has */
	uint64_t used_ns;
	struct session_order *orders; /* for its end: what is done then, in their order */
	struct session_flat *flat;    /* and before that, if not NULL */
	struct loop_timer look;
	uint32_t project;      /* that its files count for; 0: nobody counts but us */
	uint64_t disk_look_ns; /* when it is to be looked at again, and */
	uint64_t disk_seen_ns; /* when the last one began that took its time */
	bool disk_wants;       /* to be looked at, when the one who looks has time */
	bool disk_seen_odd;    /* too deep or too many, at the last look, and */
	bool disk_odd;         /* when the last command began */
	bool disk_large;       /* too large to be looked at in passing */
	uint64_t disk_free, disk_room; /* of the file system, and left of its own, when
					  all was seen */
	uint64_t cpu_us; /* that it had used at the last look, where no cgroup counts */
	uint64_t disk_bytes; /* what it may have now: its quota, or what it had already */
	uint64_t disk_used_bytes; /* when it was last looked at */
	struct disk_use kept;     /* beside: what was frozen, as far as */
	bool kept_known;          /* it was looked at, or all of it */
};

/* --- session.c */
void session_hold(struct slot *s); /* its process 1 */
/* its processes; commands that wait are told the step and errno */
void session_end(struct session *s, const char *step, int num);
struct session *session_find(const struct launcher *l, const uint8_t *key);

/* --- session_tree.c */
bool session_command_gone(const struct command *c); /* nothing of it is alive */
void session_command_end_left(struct command *c);   /* what it left behind */
/* at what a session without a cgroup uses; in how many ms again */
uint64_t session_tree_look(struct session *s);

/* --- session_room.c */
struct session_late;
void session_count_places(struct launcher *l); /* at the start */
/* for a command, or another session too, of this owner; makes some for the next. NULL:
 * there is, else why not */
const char *session_no_room(struct launcher *l, uint64_t owner, bool another);
void session_late_add(struct session *s, const struct message *m, int *fds,
		      uint64_t arrived_ns);
/* nothing of the session is alive; takes them over */
void session_late_run(struct launcher *l, struct session_late *late);
void session_late_drop(struct session *s);
void session_late_refuse(struct session *s);             /* and tell them */
bool session_late_kill(struct session *s, uint64_t run); /* true: it was one */

/* --- session_order.c */
bool session_orders(const struct plan *p); /* it wants the session's end */
/* now, or when it has ended; s: its processes, or NULL */
void session_order(struct launcher *l, struct session *s, const struct message *m);
void session_obey(struct session *s); /* nothing of it is alive */
/* its layers stay as they are for a while, and who wants another is told why (errno) */
void session_not_merged(struct launcher *l, const uint8_t key[SESSION_KEY], int num);
/* why it is so at the moment; 0: it is not */
int session_unmerged(const struct launcher *l, const uint8_t key[SESSION_KEY]);

/* --- session_diff.c: since `then`; root: where that is the user, the first of its ids,
 * else 0; -1 with errno */
struct buf;
struct view;
int session_diff_write(struct view *now, struct view *then, bool host, uid_t root,
		       struct buf *out);
/* as the one file of an answer */
int session_diff_send(int mem_fd, const struct buf *text);

/* --- session_merge.c: into an empty layer; -1 with errno */
int session_merge(struct view *v, int to_fd);

/* --- session_work.c: in a process of its own, whose end answers */
void session_diff(struct launcher *l, const struct message *m);
/* when it has grown deep: one layer of many, in the background, which the session has in
 * their place as soon as nothing of it is alive */
void session_flatten(struct launcher *l, const uint8_t key[SESSION_KEY]);
void session_flat_put(struct session *s); /* nothing of it is */
bool session_works_know(const struct launcher *l, pid_t pid);
void session_works_done(struct launcher *l);

/* --- session_remove.c */
/* calls fn for each name; -1: some of it failed */
int session_each_name(int dir_fd, int (*fn)(int dir_fd, const char *name, void *arg),
		      void *arg);
int session_remove_named(int all_fd, const char *begin); /* -1: some are still there */
/* of a launcher that died: before anything is made; -1 with errno */
int session_remove_begin(struct launcher *l);
void session_removed(struct launcher *l, int status); /* one who removed has ended */
void session_read_over(struct launcher *l);           /* who held up one who removes */
void session_remove_done(struct launcher *l);
_Noreturn void session_remove_all(const struct launcher *l, pid_t parent);

/* stands still where a test wants that: it made ".test-hold", which is ".test-held" then,
 * until it removes that */
void session_test_hold(const struct launcher *l, const char *where);

/* --- session_command.c */
void session_tell_done(struct launcher *l, uint64_t run);
void session_tell_failed(struct launcher *l, uint64_t run, const char *step, int num);
/* nothing of it is alive: the server ends what it has for its processes */
void session_tell_ended(struct launcher *l, const uint8_t key[SESSION_KEY]);
/* somebody further up may still be in it: freed when the loop has its turn */
void session_bury(struct launcher *l, void *what);
void session_look_soon(struct session *s, uint64_t ms);

/* --- session_kept.c */
/* what it has beside the layer that it writes to: frozen, of its own and of checkpoints;
 * false: there is more, which takes longer than `most` entries to look at */
bool session_kept(const struct launcher *l, const uint8_t key[SESSION_KEY], uint64_t most,
		  struct disk_use *out);
void session_kept_merged(int files_fd); /* of a layer just made: remembers what it has */

/* --- session_looker.c */
/* unless one is at it; false: there is none */
bool session_looker_start(struct session *s, uint64_t most);
void session_looker_end(struct launcher *l);

/* --- session_disk.c */
/* before anything of it runs: what it may have, where the file system can see to it; -1
 * with errno */
int session_disk_begin(struct session *s);
/* a command cannot begin before somebody has looked */
bool session_disk_wait(struct session *s, uint64_t since_ns);
/* it has more than it may: a command may remove some, and write nothing */
bool session_disk_over(struct session *s);
/* somebody who took his time has seen this much; NULL: he has told nothing */
void session_disk_looked(struct session *s, const struct disk_seen *seen,
			 const struct looker *by);
bool session_disk_ask(struct session *s); /* somebody to do so; false: nobody can */
uint64_t session_disk_free(const struct session *s); /* of the file system */
/* it went on to grow all the same: none may begin any more */
bool session_disk_never(const struct session *s);
/* more has been written than may be; asks the disk only now and then */
bool session_disk_out(struct session *s, uint64_t now);
void session_end_writers(struct session *s, uint64_t before_ns);
/* nothing of it is alive: it has more than it may, and would have more if what is in
 * files_fd, which it writes to, were frozen */
bool session_disk_full(const struct launcher *l, const uint8_t key[SESSION_KEY],
		       int files_fd);
/* what its client is told of it */
void session_disk_tell(struct session *s, struct outcome *out);
void session_command_new(struct session *s, const struct message *m, int *fds,
			 uint64_t arrived_ns);
void session_command_go(struct command *c);      /* the session is ready */
void session_commands_go_on(struct launcher *l); /* those that waited for a look */
void session_command_free(struct command *c);

#endif

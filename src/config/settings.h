/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * settings.h - what the operator decided; constant once loaded
 *
 * One row a setting in settings.c: SANDBOX_NAME, --name, type, bounds, default, help
 * text, whether it is available yet. A value that does not parse stops the start with its
 * name.
 */
#ifndef CONFIG_SETTINGS_H
#define CONFIG_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct buf;
struct err;

enum store_code { STORE_ON_ERROR, STORE_ALWAYS, STORE_NEVER };

struct settings {
	uint64_t port; /* 0: any free one (tests); the log names it */
	char *listen;  /* an address: 127.0.0.1, 0.0.0.0, ::1, :: */
	char *mode;    /* NULL: auto; else "python" or "python,shell"
			  (SANDBOX_SUPPORTED_LANGUAGES too) */
	uint64_t max_concurrent;
	uint64_t queue;
	uint64_t warm; /* sandboxes of each mode that wait for a request; 0: none */
	uint64_t warm_memory_mb; /* the most that they hold together */
	uint64_t timeout_sec;
	uint64_t max_timeout_sec;
	uint64_t max_output_kb;
	uint64_t output_ceiling_kb;
	uint64_t max_body_mb;
	uint64_t memory_mb; /* 0: the mode's own default */
	double cpus;
	uint64_t cpu_sec; /* 0: as the timeout */
	uint64_t pids;    /* 0: the mode's */
	uint64_t disk_mb; /* 0: the mode's */
	uint64_t max_files;
	uint64_t max_files_mb;
	char *output_dir;
	uint64_t store_code; /* enum store_code */
	char *artifact_dir;  /* NULL: artifacts/executions below the state directory */
	uint64_t artifact_max_mb;
	uint64_t min_isolation; /* enum isolation_level */
	char *state_dir;     /* NULL: /var/lib/sandbox-server, or below $XDG_STATE_HOME */
	uint64_t uid_base;   /* 0: not given; what it becomes then, identity.c decides */
	char *allowed_hosts; /* NULL or comma list; "*" allows all */
	char *allowed_origins;    /* NULL or comma list */
	uint64_t log_level;       /* enum log_level; SANDBOX_LOG_LEVEL */
	uint64_t log_format;      /* enum log_format; SANDBOX_LOG_FORMAT */
	uint64_t grace_sec;       /* after SIGTERM; SANDBOX_GRACE_SEC, 25 */
	uint64_t max_connections; /* SANDBOX_MAX_CONNECTIONS, 4096 */
	char *policy_dir; /* NULL: the policies in the binary; SANDBOX_POLICY_DIR */
	char *languages;  /* SANDBOX_SUPPORTED_LANGUAGES; already part of mode */
	char *type;       /* "local" */
	/* where the effective mode came from, for messages */
	bool mode_named;
};

/*
 * Environment first, then flags; argv[0] is the first argument after the subcommand.
 * Consumes flags and returns how many arguments were used (the rest are the subcommand's
 * own), -1 and *e with "SANDBOX_PORT=abc: ..." or "--port abc: ...". An unknown flag is
 * an error unless it is in `own`, a NULL-terminated list of the subcommand's flags (NULL:
 * none), where scanning stops.
 */
int settings_load(struct settings *s, int argc, char **argv, const char *const *own,
		  struct err *e);
/*
 * For subcommands whose own flags may stand between ours: the setting's flag at argv[0],
 * with its value. How many arguments that were, 0 when argv[0] is no flag of a setting,
 * -1 and *e.
 */
int settings_flag(struct settings *s, int argc, char **argv, struct err *e);
/* what must hold between settings; settings_load has done it, settings_flag has not */
int settings_check(struct settings *s, struct err *e);
void settings_done(struct settings *s);
void settings_help(struct buf *out); /* one line a setting, for --help */

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * settings.h - what the operator decided; constant once loaded
 *
 * One row a setting in settings_rows.c: SANDBOX_NAME, --name, type, bounds, default, help
 * text. A value that does not parse stops the start with its name.
 */
#ifndef CONFIG_SETTINGS_H
#define CONFIG_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct buf;
struct err;
struct rules;

#define SETTINGS_FILE "/etc/sandbox-server.conf"

/* the weakest first */
enum setting_from { FROM_DEFAULT, FROM_FILE, FROM_ENVIRONMENT, FROM_FLAG };
/* where the value of a row comes from */
struct setting_source {
	enum setting_from from;
	unsigned line; /* of the file; 0: of none */
	char *text;    /* as it was given; NULL: it was not */
};

enum store_code { STORE_ON_ERROR, STORE_ALWAYS, STORE_NEVER };

struct settings {
	char *config; /* the file that was asked for; NULL: the usual one, or none */
	char *file;   /* the one that was read; NULL: none */
	struct setting_source *sources; /* of each row of settings_rows.c */
	uint64_t port;                  /* 0: any free one (tests); the log names it */
	uint64_t agent_port;            /* 0: none */
	char *listen;                   /* an address: 127.0.0.1, 0.0.0.0, ::1, :: */
	char *mode;                     /* NULL: auto; else "python" or "python,shell"
			  (SANDBOX_SUPPORTED_LANGUAGES too) */
	uint64_t max_concurrent;
	uint64_t queue;
	uint64_t warm;       /* sandboxes of each mode that wait for a request; 0: none */
#define WARM_AUTO UINT64_MAX /* until prepare() has found how many there can be */
	uint64_t warm_memory_mb; /* the most that they hold together */
	char *preload;           /* NULL or comma list of python's modules */
	uint64_t warm_fork;      /* 1: python runs are forked from started interpreters */
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
	char *network;          /* off, allow, pod, or a list of hosts */
	struct rules
		*network_rules;   /* of that; NULL: runs can have no broker's network */
	bool network_pod;         /* but that of the server itself */
	uint64_t network_default; /* 1: a request that does not say has it */
	char *egress_proxy;       /* NULL: as the environment says; "none" */
	uint64_t egress_connections; /* of a run, at the same time */
	uint64_t egress_mb;          /* of a run, both ways */
	char *ca_bundle;             /* that programs are pointed to; NULL: none */
	char *state_dir;     /* NULL: /var/lib/sandbox-server, or below $XDG_STATE_HOME */
	char *image_dir;     /* NULL: images below that */
	char *volumes;       /* NULL, or as volumes_take() reads it */
	uint64_t uid_base;   /* 0: not given; what it becomes then, identity.c decides */
	char *allowed_hosts; /* NULL or comma list; "*" allows all */
	char *allowed_origins;    /* NULL or comma list */
	char *audit_file;         /* NULL: none */
	char *token_file;         /* NULL: everybody may use the server */
	uint64_t log_level;       /* enum log_level; SANDBOX_LOG_LEVEL */
	uint64_t log_format;      /* enum log_format; SANDBOX_LOG_FORMAT */
	uint64_t grace_sec;       /* after SIGTERM; SANDBOX_GRACE_SEC, 25 */
	uint64_t max_connections; /* SANDBOX_MAX_CONNECTIONS, 4096 */
	char *python_index;       /* both: see index.h */
	char *npm_registry;
	uint64_t install_timeout_sec;
	uint64_t allow_build; /* 1: packages may run code of their own when installed */
	uint64_t layer_cache_mb;
	uint64_t sessions;      /* 1: there are sessions */
	char *session_idle;     /* as num_duration_ms() reads it; 0: for ever */
	char *session_lifetime; /* the same */
	uint64_t block_imports; /* 1: python programs are looked at before they run */
	char *blocked_imports;  /* for these modules, comma list */
	char *policy_dir;       /* NULL: the policies in the binary; SANDBOX_POLICY_DIR */
	char *languages;        /* SANDBOX_SUPPORTED_LANGUAGES; already part of mode */
	char *type;             /* "local" or "docker" */
	bool docker;            /* the latter: runs are made by a container engine */
	char *docker_image;
	uint64_t docker_network; /* 1: runs may have the engine's network */
	double docker_cpus;
	char *docker_memory; /* as people write it, */
	uint64_t docker_memory_mb;
	char *docker_runtime; /* NULL: the engine's own */
	char *docker_host;
	/* where the effective mode came from, for messages */
	bool mode_named;
};

/*
 * The file first, then the environment, then flags, each beating those before; argv[0] is
 * the first argument after the subcommand. Consumes flags and returns how many arguments
 * were used (the rest are the subcommand's own), -1 and *e with "SANDBOX_PORT=abc: ...",
 * "--port abc: ..." or "FILE:LINE: SANDBOX_PORT=abc: ...". An unknown flag is an error
 * unless it is in `own`, a NULL-terminated list of the subcommand's flags (NULL: none),
 * where scanning stops.
 */
int settings_load(struct settings *s, int argc, char **argv, const char *const *own,
		  struct err *e);
void settings_done(struct settings *s);
/* settings_show.c: one line a setting, for --help */
void settings_help(struct buf *out);
/* the values in force and where each comes from, a line each or one JSON object; 0, or -1
 * with errno */
int settings_show(const struct settings *s, bool json, struct buf *out);

/* --- volumes.c: NULL, or what is wrong with the text; out: SETUP_VOLUMES of them */
struct setup_volume;
const char *volumes_take(const char *text, struct setup_volume *out, uint32_t *out_count);
const char *volumes_ok(const char *text);

#endif

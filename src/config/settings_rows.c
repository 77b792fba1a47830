/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * settings_rows.c - the table of settings
 *
 * sandbox-server(8) has an entry for every row.
 */
#include "config/settings_rows.h"

#include <arpa/inet.h>
#include <string.h>

#include "base/fs.h"
#include "base/log.h"
#include "config/settings.h"
#include "wire/report.h"
#include "wire/setup.h"

#define DAY_SEC 86400
#define TIB_MB (1 << 20)

static const char *ok_address(const char *text)
{
	unsigned char address[16];

	return inet_pton(AF_INET, text, address) == 1 ||
			       inet_pton(AF_INET6, text, address) == 1
		       ? NULL
		       : "must be an address, such as 127.0.0.1 or ::";
}

static const char *ok_path(const char *text)
{
	return text[0] == '/' ? NULL : "must be an absolute path";
}

/* it stands beside the script in the working directory */
static const char *ok_output_dir(const char *text)
{
	static const char *const scripts[] = {"script.py", "script.go", "script.js",
					      "script.ts", "script.sh"};
	size_t len = strlen(text);

	if (!fs_name_ok(text, len, sizeof(((struct setup *)NULL)->output_dir) - 1) ||
	    strchr(text, '/') || text[0] == '.')
		return "must be a plain name of 1 to 63 bytes, the first not a dot";
	for (size_t i = 0; i < sizeof(scripts) / sizeof(scripts[0]); i++)
		if (strcmp(scripts[i], text) == 0)
			return "is the name of a script";
	return NULL;
}

static const struct setting_choice store_choices[] = {
	{"on_error", STORE_ON_ERROR, false},
	{"always", STORE_ALWAYS, false},
	{"never", STORE_NEVER, false},
	{NULL, 0, false},
};

static const struct setting_choice isolation_choices[] = {
	{"full", LEVEL_FULL, false},
	{"namespaces", LEVEL_NAMESPACES, false},
	{"landlock", LEVEL_LANDLOCK, false},
	{"process", LEVEL_PROCESS, false},
	{NULL, 0, false},
};

static const struct setting_choice level_choices[] = {
	{"debug", LOG_DEBUG, false}, {"info", LOG_INFO, false}, {"warn", LOG_WARN, false},
	{"error", LOG_ERROR, false}, {NULL, 0, false},
};

static const struct setting_choice format_choices[] = {
	{"text", LOG_TEXT, false},
	{"json", LOG_JSON, false},
	{NULL, 0, false},
};

#define AT(field) offsetof(struct settings, field)
#define COUNT(key, field, least, most, initial, help)                                 \
	{                                                                             \
		key, SETTING_COUNT, AT(field), least, most, initial, help, NULL, NULL \
	}
#define TEXT(key, field, initial, ok, help)                                 \
	{                                                                   \
		key, SETTING_TEXT, AT(field), 0, 0, initial, help, NULL, ok \
	}
#define LIST(key, field, help)                                             \
	{                                                                  \
		key, SETTING_LIST, AT(field), 0, 0, NULL, help, NULL, NULL \
	}
#define CHOICE(key, field, choices, initial, help)                                 \
	{                                                                          \
		key, SETTING_CHOICE, AT(field), 0, 0, initial, help, choices, NULL \
	}
#define LATER(key, off)                                            \
	{                                                          \
		key, SETTING_LATER, 0, 0, 0, off, NULL, NULL, NULL \
	}

const struct setting setting_rows[] = {
	COUNT("SANDBOX_PORT", port, 0, 65535, "8080",
	      "port to listen on; 0: any free one"),
	TEXT("SANDBOX_LISTEN", listen, "127.0.0.1", ok_address, "address to listen on"),
	TEXT("SANDBOX_MODE", mode, NULL, NULL,
	     "python, golang, node, shell, a list of them, or auto"),
	LIST("SANDBOX_SUPPORTED_LANGUAGES", languages, "further modes to serve"),
	COUNT("SANDBOX_MAX_CONCURRENT", max_concurrent, 1, SETUP_SLOTS, "3",
	      "runs at the same time"),
	COUNT("SANDBOX_QUEUE", queue, 0, 10000, "0",
	      "requests that may wait for a place"),
	COUNT("SANDBOX_WARM", warm, 0, SETUP_SLOTS, "0",
	      "sandboxes of each mode that wait for a request"),
	COUNT("SANDBOX_WARM_MEMORY_MB", warm_memory_mb, 1, TIB_MB, "512",
	      "memory of waiting sandboxes, all together"),
	COUNT("SANDBOX_TIMEOUT_SEC", timeout_sec, 1, DAY_SEC, "30",
	      "seconds a run has when the request names none"),
	COUNT("SANDBOX_MAX_TIMEOUT_SEC", max_timeout_sec, 1, DAY_SEC, "300",
	      "the most seconds a request may ask for"),
	COUNT("SANDBOX_MAX_OUTPUT_KB", max_output_kb, 1, TIB_MB, "10",
	      "KB kept of each output stream"),
	COUNT("SANDBOX_OUTPUT_CEILING_KB", output_ceiling_kb, 1, TIB_MB, "1024",
	      "the most KB of output a request may ask for"),
	COUNT("SANDBOX_MAX_BODY_MB", max_body_mb, 1, 1024, "10", "the largest request"),
	COUNT("SANDBOX_MEMORY_MB", memory_mb, 16, TIB_MB, NULL,
	      "memory of a run (512, golang 2048)"),
	{"SANDBOX_CPUS", SETTING_DECIMAL, AT(cpus), 10, 1024 * 1000, "1",
	 "processors a run may keep busy", NULL, NULL},
	COUNT("SANDBOX_CPU_SEC", cpu_sec, 1, DAY_SEC, NULL,
	      "processor seconds of a run (as the timeout)"),
	COUNT("SANDBOX_PIDS", pids, 1, 32768, NULL,
	      "processes and threads of a run (64, golang 256)"),
	COUNT("SANDBOX_DISK_MB", disk_mb, 1, TIB_MB, NULL,
	      "what a run may write, half of its memory at most (256, golang 1024)"),
	COUNT("SANDBOX_MAX_FILES", max_files, 0, 100000, "200",
	      "files an answer may hold"),
	COUNT("SANDBOX_MAX_FILES_MB", max_files_mb, 0, 1024, "10", "and their size"),
	TEXT("SANDBOX_OUTPUT_DIR", output_dir, "output", ok_output_dir,
	     "name of the directory whose files are answered"),
	CHOICE("SANDBOX_STORE_CODE", store_code, store_choices, "on_error",
	       "which runs are stored: on_error, always, never"),
	TEXT("SANDBOX_ARTIFACT_DIR", artifact_dir, NULL, ok_path,
	     "where (artifacts/executions below the state directory)"),
	COUNT("SANDBOX_ARTIFACT_MAX_MB", artifact_max_mb, 0, TIB_MB, "100",
	      "how much of them is kept"),
	CHOICE("SANDBOX_MIN_ISOLATION", min_isolation, isolation_choices, "namespaces",
	       "do not start with less: full, namespaces, landlock, process"),
	TEXT("SANDBOX_STATE_DIR", state_dir, NULL, ok_path,
	     "state directory (/var/lib/sandbox-server, or $XDG_STATE_HOME)"),
	TEXT("SANDBOX_POLICY_DIR", policy_dir, NULL, ok_path,
	     "directory with system call policies instead of the built-in ones"),
	COUNT("SANDBOX_UID_BASE", uid_base, 10000, 4294000000, NULL,
	      "first host uid of sandboxes, when started as root (600000)"),
	LIST("SANDBOX_ALLOWED_HOSTS", allowed_hosts, "further Host names, or *"),
	LIST("SANDBOX_ALLOWED_ORIGINS", allowed_origins,
	     "origins of web pages that may ask"),
	COUNT("SANDBOX_MAX_CONNECTIONS", max_connections, 1, 65536, "4096",
	      "connections at the same time"),
	COUNT("SANDBOX_GRACE_SEC", grace_sec, 0, 3600, "25",
	      "seconds that runs have left after SIGTERM"),
	CHOICE("SANDBOX_LOG_LEVEL", log_level, level_choices, "info",
	       "debug, info, warn, error"),
	CHOICE("SANDBOX_LOG_FORMAT", log_format, format_choices, "text", "text, json"),
	TEXT("SANDBOX_TYPE", type, "local", NULL, "who runs programs: local"),

	LATER("SANDBOX_TOKEN_FILE", NULL),
	LATER("SANDBOX_NETWORK", "off"),
	LATER("SANDBOX_NETWORK_DEFAULT", "false"),
	LATER("SANDBOX_EGRESS_PROXY", NULL),
	LATER("SANDBOX_BLOCK_DANGEROUS_IMPORTS", "false"),
	LATER("SANDBOX_BLOCKED_IMPORTS", NULL),
	LATER("SANDBOX_WARM_FORK", "off"),
	LATER("SANDBOX_PRELOAD", NULL),
	LATER("SANDBOX_PYTHON_INDEX", NULL),
	LATER("SANDBOX_NPM_REGISTRY", NULL),
	LATER("SANDBOX_INSTALL_TIMEOUT_SEC", NULL),
	LATER("SANDBOX_ALLOW_BUILD", "false"),
	LATER("SANDBOX_LAYER_CACHE_MB", NULL),
	LATER("SANDBOX_SESSIONS", "off"),
	LATER("SANDBOX_SESSION_IDLE_TIMEOUT", NULL),
	LATER("SANDBOX_SESSION_MAX_LIFETIME", NULL),
	LATER("SANDBOX_IMAGE_DIR", NULL),
	LATER("SANDBOX_VOLUMES", NULL),
	LATER("SANDBOX_AUDIT_FILE", NULL),
	LATER("SANDBOX_AGENT_PORT", NULL),
};
const size_t setting_count = sizeof(setting_rows) / sizeof(setting_rows[0]);

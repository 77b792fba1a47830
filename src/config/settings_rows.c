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
#include "base/num.h"
#include "config/index.h"
#include "config/settings.h"
#include "wire/ahead.h"
#include "wire/engine.h"
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

static const char *ok_duration(const char *text)
{
	uint64_t ms;

	return num_duration_ms(text, &ms) == 0 && (ms == 0 || ms >= 1000)
		       ? NULL
		       : "must be a time of at least a second as in 90s, 30m, 4h, or 0";
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

/* what python takes for one, in ASCII; a keyword is found when it is imported */
static const char *ok_modules(const char *text)
{
	static const char first[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
	static const char other[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
	const char *at = text;

	if (strlen(text) >= AHEAD_NAMES)
		return "is too long";
	while (*text) {
		if (!*at || !strchr(first, *at))
			return "must be names of modules, such as numpy,os.path";
		at += strspn(at, other);
		if (!*at)
			break;
		if (*at != ',' && *at != '.')
			return "must be names of modules, such as numpy,os.path";
		at++;
	}
	return NULL;
}

/* an argument of the engine's client, which must not be taken for a flag */
static const char *ok_word(const char *text)
{
	for (const char *p = text; *p; p++)
		if (*p <= ' ' || *p == 0x7f)
			return "must not have blanks";
	if (strlen(text) >= ENGINE_TEXT)
		return "is too long";
	return text[0] == '-' ? "must not begin with -" : NULL;
}

uint64_t setting_memory_mb(const char *text)
{
	static const char units[] = "bkmg";
	size_t len = strspn(text, "0123456789");
	char digits[16];
	uint64_t n;
	const char *unit = text[len] ? strchr(units, text[len]) : units;

	if (len == 0 || len >= sizeof(digits) || !unit || (text[len] && text[len + 1]))
		return 0;
	memcpy(digits, text, len);
	digits[len] = 0;
	if (num_range(digits, 1, (uint64_t)1 << 40, &n) < 0 ||
	    n > ((uint64_t)1 << 40) >> (10 * (unit - units)))
		return 0;
	return (n << (10 * (unit - units))) >> 20;
}

static const char *ok_memory(const char *text)
{
	return setting_memory_mb(text) >= ENGINE_MEMORY_LEAST
		       ? NULL
		       : "must be a size of at least 64m, as in 256m or 1g";
}

static const char *ok_registry(const char *text)
{
	const char *wrong = index_ok(text);

	return !wrong && strpbrk(text, " \t,") ? "must be one URL or directory" : wrong;
}

static const struct setting_choice store_choices[] = {
	{"on_error", STORE_ON_ERROR},
	{"always", STORE_ALWAYS},
	{"never", STORE_NEVER},
	{NULL, 0},
};

static const struct setting_choice isolation_choices[] = {
	{"full", LEVEL_FULL},
	{"namespaces", LEVEL_NAMESPACES},
	{"landlock", LEVEL_LANDLOCK},
	{"process", LEVEL_PROCESS},
	{NULL, 0},
};

static const struct setting_choice level_choices[] = {
	{"debug", LOG_DEBUG}, {"info", LOG_INFO}, {"warn", LOG_WARN},
	{"error", LOG_ERROR}, {NULL, 0},
};

static const struct setting_choice switch_choices[] = {
	{"off", 0},
	{"on", 1},
	{NULL, 0},
};

static const struct setting_choice format_choices[] = {
	{"text", LOG_TEXT},
	{"json", LOG_JSON},
	{NULL, 0},
};

static const struct setting_choice warm_word[] = {
	{"auto", WARM_AUTO},
	{NULL, 0},
};

static const struct setting_choice flag_choices[] = {
	{"true", 1},
	{"false", 0},
	{NULL, 0},
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
#define LIST(key, field, ok, help)                                       \
	{                                                                \
		key, SETTING_LIST, AT(field), 0, 0, NULL, help, NULL, ok \
	}
#define CHOICE(key, field, choices, initial, help)                                 \
	{                                                                          \
		key, SETTING_CHOICE, AT(field), 0, 0, initial, help, choices, NULL \
	}
const struct setting setting_rows[] = {
	LIST("SANDBOX_CONFIG", config, NULL,
	     "a file with settings; empty: none (" SETTINGS_FILE ")"),
	COUNT("SANDBOX_PORT", port, 0, 65535, "8080",
	      "port to listen on; 0: any free one"),
	COUNT("SANDBOX_AGENT_PORT", agent_port, 0, 65535, "0",
	      "a second port, for the SDK of agent-sandbox: 8888; 0: none"),
	TEXT("SANDBOX_LISTEN", listen, "127.0.0.1", ok_address, "address to listen on"),
	TEXT("SANDBOX_MODE", mode, "auto", NULL,
	     "python, golang, node, shell, a list of them, or auto"),
	LIST("SANDBOX_SUPPORTED_LANGUAGES", languages, NULL, "further modes to serve"),
	COUNT("SANDBOX_MAX_CONCURRENT", max_concurrent, 1, SETUP_SLOTS, "3",
	      "runs at the same time"),
	COUNT("SANDBOX_QUEUE", queue, 0, 10000, "0",
	      "requests that may wait for a place"),
	{"SANDBOX_WARM", SETTING_COUNT, AT(warm), 0, SETUP_SLOTS, "auto",
	 "sandboxes of each mode that wait for a request; auto: as many as may run",
	 warm_word, NULL},
	COUNT("SANDBOX_WARM_MEMORY_MB", warm_memory_mb, 1, TIB_MB, "512",
	      "memory of waiting sandboxes, all together"),
	LIST("SANDBOX_PRELOAD", preload, ok_modules,
	     "modules that a waiting python has imported already"),
	CHOICE("SANDBOX_WARM_FORK", warm_fork, switch_choices, "off",
	       "on: python runs are forked from started interpreters"),
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
	CHOICE("SANDBOX_BLOCK_DANGEROUS_IMPORTS", block_imports, flag_choices, "false",
	       "true: python programs that import what follows are not run"),
	TEXT("SANDBOX_BLOCKED_IMPORTS", blocked_imports, "os,subprocess,shutil,socket",
	     ok_modules, "modules that they may not import"),
	CHOICE("SANDBOX_STORE_CODE", store_code, store_choices, "on_error",
	       "which runs are stored: on_error, always, never"),
	TEXT("SANDBOX_ARTIFACT_DIR", artifact_dir, NULL, ok_path,
	     "where (artifacts/executions below the state directory)"),
	COUNT("SANDBOX_ARTIFACT_MAX_MB", artifact_max_mb, 0, TIB_MB, "100",
	      "how much of them is kept"),
	CHOICE("SANDBOX_MIN_ISOLATION", min_isolation, isolation_choices, "namespaces",
	       "do not start with less: full, namespaces, landlock, process"),
	TEXT("SANDBOX_NETWORK", network, "off", NULL,
	     "what runs may reach: off, allow (all public), pod, or a list of hosts"),
	CHOICE("SANDBOX_NETWORK_DEFAULT", network_default, flag_choices, "false",
	       "whether a request that does not say has it: true, false"),
	TEXT("SANDBOX_EGRESS_PROXY", egress_proxy, NULL, NULL,
	     "http://host:port that leads out, or none (https_proxy, http_proxy)"),
	COUNT("SANDBOX_EGRESS_CONNECTIONS", egress_connections, 1, 256, "64",
	      "connections of a run at the same time"),
	COUNT("SANDBOX_EGRESS_MB", egress_mb, 1, TIB_MB, "1024",
	      "what a run may send and receive"),
	TEXT("SANDBOX_PYTHON_INDEX", python_index, INDEX_HOST, index_ok,
	     "where python packages come from: URLs, directories of wheels, host, none"),
	TEXT("SANDBOX_NPM_REGISTRY", npm_registry, INDEX_HOST, ok_registry,
	     "where node packages come from: a URL, an npm cache directory, host, none"),
	COUNT("SANDBOX_INSTALL_TIMEOUT_SEC", install_timeout_sec, 1, 3600, "120",
	      "seconds that installing the packages of a request may take"),
	CHOICE("SANDBOX_ALLOW_BUILD", allow_build, flag_choices, "false",
	       "let packages run their own code when they are installed"),
	COUNT("SANDBOX_LAYER_CACHE_MB", layer_cache_mb, 1, TIB_MB, "4096",
	      "installed packages that are kept"),
	CHOICE("SANDBOX_SESSIONS", sessions, switch_choices, "on",
	       "environments that stay, at /sessions: on, off"),
	TEXT("SANDBOX_SESSION_IDLE_TIMEOUT", session_idle, "30m", ok_duration,
	     "a session that nobody used for so long is closed; 0: never"),
	TEXT("SANDBOX_SESSION_MAX_LIFETIME", session_lifetime, "4h", ok_duration,
	     "and one that is so old; 0: never"),
	TEXT("SANDBOX_IMAGE_DIR", image_dir, NULL, ok_path,
	     "where images of sessions are (images below the state directory)"),
	LIST("SANDBOX_VOLUMES", volumes, volumes_ok,
	     "directories sessions may ask for: name=/path[:rw],..."),
	TEXT("SANDBOX_STATE_DIR", state_dir, NULL, ok_path,
	     "state directory (/var/lib/sandbox-server, or $XDG_STATE_HOME)"),
	TEXT("SANDBOX_POLICY_DIR", policy_dir, NULL, ok_path,
	     "directory with system call policies instead of the built-in ones"),
	COUNT("SANDBOX_UID_BASE", uid_base, 10000, 4294000000, NULL,
	      "first host uid of sandboxes, when started as root (600000)"),
	LIST("SANDBOX_ALLOWED_HOSTS", allowed_hosts, NULL, "further Host names, or *"),
	LIST("SANDBOX_ALLOWED_ORIGINS", allowed_origins, NULL,
	     "origins of web pages that may ask"),
	TEXT("SANDBOX_TOKEN_FILE", token_file, NULL, ok_path,
	     "names, hashes and limits of the tokens that clients need"),
	TEXT("SANDBOX_AUDIT_FILE", audit_file, NULL, ok_path,
	     "a line for every run, chained by hash, is appended to this"),
	COUNT("SANDBOX_MAX_CONNECTIONS", max_connections, 1, 65536, "4096",
	      "connections at the same time"),
	COUNT("SANDBOX_GRACE_SEC", grace_sec, 0, 3600, "25",
	      "seconds that runs have left after SIGTERM"),
	CHOICE("SANDBOX_LOG_LEVEL", log_level, level_choices, "info",
	       "debug, info, warn, error"),
	CHOICE("SANDBOX_LOG_FORMAT", log_format, format_choices, "text", "text, json"),
	TEXT("SANDBOX_TYPE", type, "local", NULL,
	     "who runs programs: local, or docker: a container each"),
	TEXT("DOCKER_IMAGE", docker_image, "sandbox-server:latest", ok_word,
	     "with docker: the image, which has sandbox-server in it"),
	CHOICE("DOCKER_NETWORK_ENABLED", docker_network, flag_choices, "false",
	       "whether requests may have the engine's network: true, false"),
	{"DOCKER_CPU_LIMIT", SETTING_DECIMAL, AT(docker_cpus), 10, 1024 * 1000, "0.5",
	 "processors of a container", NULL, NULL},
	TEXT("DOCKER_MEMORY_LIMIT", docker_memory, "256m", ok_memory,
	     "memory of a container"),
	LIST("DOCKER_RUNTIME", docker_runtime, ok_word, "runtime (the engine's)"),
	LIST("DOCKER_HOST", docker_host, ok_word, "where the engine is (the engine's)"),

};
const size_t setting_count = sizeof(setting_rows) / sizeof(setting_rows[0]);

const struct setting *setting_find(const char *key, size_t len)
{
	for (size_t i = 0; i < setting_count; i++)
		if (strncmp(setting_rows[i].key, key, len) == 0 &&
		    !setting_rows[i].key[len])
			return &setting_rows[i];
	return NULL;
}

struct setting_source *setting_source(const struct settings *s, const struct setting *row)
{
	return &s->sources[row - setting_rows];
}

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * install_why.c - why packages could not be installed
 *
 * First what the launcher knows: time, memory, disk, the tree that was left. Then what uv
 * and npm are known to say; neither has exit codes that tell these apart. That a host was
 * refused the broker knows better than either.
 */
#include <stdio.h>
#include <string.h>

#include "job/jobs.h"

#define REFUSES                                       \
	"an index refuses to answer: it wants other " \
	"credentials, or does not have a package"

/* the first that is found counts */
static const struct {
	const char *said, *reason, *text;
} sayings[] = {
	{"No space left on device", "disk",
	 "the packages are larger than the disk limit"},
	{"ENOSPC", "disk", "the packages are larger than the disk limit"},
	{"no usable wheels", "needs_build",
	 "a package must be built from source, which SANDBOX_ALLOW_BUILD=true permits"},
	{"no wheels", "needs_build",
	 "a package must be built from source, which SANDBOX_ALLOW_BUILD=true permits"},
	{"building source distributions is disabled", "needs_build",
	 "a package must be built from source, which SANDBOX_ALLOW_BUILD=true permits"},
	/* before "was not found", which uv says of it first; some have no other answer
	 * for what they do not have */
	{"lack of valid authentication credentials", "unreachable", REFUSES},
	{"403 Forbidden", "unreachable", REFUSES},
	{"code E401", "unreachable", REFUSES},
	{"code E403", "unreachable", REFUSES},
	{"E404", "missing_package", "a package does not exist"},
	{"ETARGET", "missing_package", "no version of a package fits"},
	{"ENOVERSIONS", "missing_package", "no version of a package fits"},
	{"ENOTCACHED", "missing_package", "a package is not in the cache"},
	{"was not found in the", "missing_package", "a package does not exist"},
	{"there is no version of", "missing_package", "no version of a package fits"},
	{"there are no versions of", "missing_package", "no version of a package fits"},
	{"requirements are unsatisfiable", "missing_package",
	 "no set of versions fits all requirements"},
	{"ERESOLVE", "missing_package", "no set of versions fits all requirements"},
	{"error sending request", "unreachable", "the index cannot be reached"},
	{"Failed to fetch", "unreachable", "the index cannot be reached"},
	/* what the broker says then */
	{"code E502", "unreachable", "the index cannot be reached"},
	{"ECONNREFUSED", "unreachable", "the index cannot be reached"},
	{"ENOTFOUND", "unreachable", "the index cannot be reached"},
	{"EAI_AGAIN", "unreachable", "the index cannot be reached"},
	{"ETIMEDOUT", "unreachable", "the index cannot be reached"},
	{"ECONNRESET", "unreachable", "the index cannot be reached"},
	{"ERR_SOCKET_TIMEOUT", "unreachable", "the index cannot be reached"},
	{"npm error network", "unreachable", "the index cannot be reached"},
	{"npm ERR! network", "unreachable", "the index cannot be reached"},
};

static const struct {
	const char *reason, *text;
} trees[] = {
	[LAYER_NOT_MADE] = {"failed", "the installer failed"},
	[LAYER_BAD_LINK] = {"bad_package",
			    "a package has a link that leads out of its directory"},
	[LAYER_SPECIAL] = {"bad_package", "a package has something that is no file"},
	[LAYER_UNREADABLE] = {"bad_package", "a package has a file that cannot be read"},
	[LAYER_TOO_LARGE] = {"disk", "the packages have too many files or bytes"},
	[LAYER_NO_ROOM] = {"disk", "the state directory is full"},
	[LAYER_FAULT] = {"failed", "what was installed could not be kept"},
};

static const char *const refused[] = {
	[REFUSED_UNLISTED] = "is not of an index",
	[REFUSED_NEAR] = "of an index leads to this host or its link: name it by its "
			 "address",
	[REFUSED_LEARNED] = "has an index's files and is not public: name it in "
			    "SANDBOX_PYTHON_INDEX",
};

static bool says(const struct capture *c, const char *text)
{
	return c->kept.len && memmem(c->kept.bytes, c->kept.len, text, strlen(text));
}

static void put(struct install_why *out, const char *reason, const char *text)
{
	out->reason = reason;
	snprintf(out->text, sizeof(out->text), "%s", text);
}

static void by_words(const struct job *install, struct install_why *out)
{
	const struct result *r = &install->result;

	out->reason = "failed";
	snprintf(out->text, sizeof(out->text), "the installer exited with %d",
		 r->outcome.exit_code);
	for (size_t i = 0; i < sizeof(sayings) / sizeof(sayings[0]); i++)
		if (says(&r->err, sayings[i].said) || says(&r->out, sayings[i].said)) {
			put(out, sayings[i].reason, sayings[i].text);
			break;
		}
	if (install->refused_host[0] && (strcmp(out->reason, "failed") == 0 ||
					 strcmp(out->reason, "unreachable") == 0)) {
		out->reason = "refused_host";
		snprintf(out->text, sizeof(out->text), "host '%s' %s",
			 install->refused_host, refused[install->refused]);
	}
}

void install_explain(const struct job *install, struct install_why *out)
{
	const struct result *r = &install->result;
	const struct limits *l = &r->limits;
	char seconds[16];

	switch ((enum verdict)r->outcome.verdict) {
	case VERDICT_TIMEOUT:
	case VERDICT_CPU_TIMEOUT:
		out->reason = "timeout";
		snprintf(out->text, sizeof(out->text), "timed out after %s seconds",
			 job_seconds(l->wall_ms, seconds));
		break;
	case VERDICT_DISK_FULL:
		out->reason = "disk";
		snprintf(out->text, sizeof(out->text),
			 "the packages are larger than the disk limit of %u MB",
			 l->disk_mb);
		break;
	case VERDICT_OUT_OF_MEMORY:
		out->reason = "memory";
		snprintf(out->text, sizeof(out->text),
			 "the memory limit of %u MB was exceeded", l->memory_mb);
		break;
	case VERDICT_OK:
		put(out, trees[r->outcome.layer].reason, trees[r->outcome.layer].text);
		break;
	default:
		by_words(install, out);
		break;
	}
}

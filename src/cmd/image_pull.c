/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * image_pull.c - gets an image by skopeo, podman or docker, then adds it
 *
 * What they have to say of registries, names, proofs and passwords is theirs: they run
 * with the rights and the environment of who calls us. They write an archive; unpacking
 * it is image_add's.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/defer.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/sys.h"
#include "cmd/cmd.h"
#include "image/image.h"

#define ARCHIVE "pulled.tar"
#define OCI_ARCHIVE "oci-archive:pulled.tar"
#define WORDS 10

/* what comes before a reference when it is not a registry's */
static const char *const transports[] = {"docker://",
					 "containers-storage:", "docker-daemon:"};

#define TRANSPORTS (sizeof(transports) / sizeof(transports[0]))

enum where { REGISTRY, PODMAN_STORE, DOCKER_STORE };

/*
 * The first tool that is there and knows the place. "@" stands for the reference, "@@"
 * for that with its transport; a second line saves what the first one got.
 */
static const struct {
	const char *tool;
	bool knows[3]; /* by enum where */
	const char *get[WORDS];
	const char *save[WORDS];
} ways[] = {
	{"skopeo",
	 {true, true, true},
	 {NULL},
	 {"skopeo", "copy", "--quiet", "@@", OCI_ARCHIVE}},
	{"podman",
	 {true, false, false},
	 {"podman", "pull", "--quiet", "@"},
	 {"podman", "save", "--quiet", "--format", "oci-archive", "-o", ARCHIVE, "@"}},
	{"podman",
	 {false, true, false},
	 {NULL},
	 {"podman", "save", "--quiet", "--format", "oci-archive", "-o", ARCHIVE, "@"}},
	{"docker",
	 {true, false, false},
	 {"docker", "pull", "--quiet", "@"},
	 {"docker", "save", "-o", ARCHIVE, "@"}},
	{"docker", {false, false, true}, {NULL}, {"docker", "save", "-o", ARCHIVE, "@"}},
};

#define WAYS (sizeof(ways) / sizeof(ways[0]))

static enum where where_is(const char *reference)
{
	if (strncmp(reference, transports[1], strlen(transports[1])) == 0)
		return PODMAN_STORE;
	if (strncmp(reference, transports[2], strlen(transports[2])) == 0)
		return DOCKER_STORE;
	return REGISTRY;
}

const char *image_pull_name(const char *reference)
{
	for (size_t i = 0; i < TRANSPORTS; i++)
		if (strncmp(reference, transports[i], strlen(transports[i])) == 0)
			return reference + strlen(transports[i]);
	return reference;
}

static bool on_path(const char *tool)
{
	const char *path = getenv("PATH");
	auto_free char *copy = mem_copy(path ? path : "/usr/local/bin:/usr/bin:/bin");
	char *rest = copy, *dir;

	while ((dir = strsep(&rest, ":"))) {
		auto_free char *file = mem_printf("%s/%s", dir, tool);

		if (dir[0] == '/' && access(file, X_OK) == 0)
			return true;
	}
	return false;
}

static _Noreturn void become_tool(int dir_fd, const char *const *words,
				  const char *reference)
{
	const struct sigaction plain = {.sa_handler = SIG_DFL};
	const char *const name = image_pull_name(reference);
	char *argv[WORDS + 1] = {NULL};

	for (size_t i = 0; i < WORDS && words[i]; i++) {
		if (strcmp(words[i], "@") == 0)
			argv[i] = mem_copy(name);
		else if (strcmp(words[i], "@@") == 0)
			argv[i] = where_is(reference) == REGISTRY
					  ? mem_printf("docker://%s", name)
					  : mem_copy(reference);
		else
			argv[i] = mem_copy(words[i]);
	}
	for (int signo = 1; signo < NSIG; signo++)
		(void)sigaction(signo, &plain, NULL); /* not all can be changed */
	/* what it prints is news, and ours is the last word */
	if (fchdir(dir_fd) < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
		_exit(126);
	execvp(argv[0], argv);
	_exit(127);
}

static int run_tool(int dir_fd, const char *const *words, const char *reference,
		    struct err *e)
{
	int status = 0;
	pid_t pid;

	pid = image_fork(0);
	if (pid < 0)
		return err_errno(e, "start %s", words[0]);
	if (pid == 0)
		become_tool(dir_fd, words, reference);
	image_reap(0, &status);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	return err_bad(e, "'%s' was not added: '%s %s' failed (%s %d)",
		       image_pull_name(reference), words[0], words[1],
		       WIFEXITED(status) ? "exit status" : "signal",
		       WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
}

static int no_tool(enum where where, const char *name, struct err *e)
{
	static const char *const wanted[] = {"skopeo, podman and docker is",
					     "skopeo and podman is",
					     "skopeo and docker is"};

	return err_bad(e,
		       "none of %s on PATH; where one is: podman save --format "
		       "oci-archive -o x.tar %s, and here: sandbox-server image add %s "
		       "x.tar",
		       wanted[where], name, name);
}

static int pull_into(int dir_fd, const char *reference, struct err *e)
{
	const enum where where = where_is(reference);
	size_t i = 0;

	while (i < WAYS && (!ways[i].knows[where] || !on_path(ways[i].tool)))
		i++;
	if (i == WAYS)
		return no_tool(where, image_pull_name(reference), e);
	if (isatty(STDERR_FILENO))
		fprintf(stderr, "pulling %s by %s ...\n", image_pull_name(reference),
			ways[i].tool);
	if (ways[i].get[0] && run_tool(dir_fd, ways[i].get, reference, e) < 0)
		return -1;
	return run_tool(dir_fd, ways[i].save, reference, e);
}

int image_pull(struct image_wish *wish, struct err *e)
{
	char staged[IMAGE_STAGED];
	auto_free char *path = NULL;
	auto_fd int fd = image_stage(wish->store_fd, staged);
	int rc;

	if (fd < 0)
		return err_errno(e, "make a place for the archive");
	rc = pull_into(fd, wish->path, e);
	if (image_signal())
		rc = 128 + image_signal();
	if (rc == 0) {
		path = mem_printf("/proc/self/fd/%d/" ARCHIVE, fd);
		wish->path = path;
		rc = image_add(wish, e);
	}
	if (fs_remove_tree(wish->store_fd, staged) < 0)
		fprintf(stderr, "sandbox-server: '%s' could not be removed: %s\n", staged,
			strerror(errno));
	return rc;
}

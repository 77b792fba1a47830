/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * image_add.c - makes an image, in a process without rights
 *
 * Runs in: `sandbox-server image`, which opens the source and the place, and starts who
 * reads the one and writes the other: not root, no capability, no program, no connection,
 * no file but below the new image's own directory. A directory is passed on as a tar by a
 * second process, which may read it, whoever its files belong to, and write nothing.
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
#include "base/sys.h"
#include "cmd/cmd.h"
#include "config/filter.h"
#include "image/image.h"
#include "image/pack.h"
#include "image/unpack.h"
#include "wire/setup.h"

enum { PACKER, UNPACKER, CHILDREN };
enum { FIRST_FD = 3, FREE_FD = 64 };

/* what a child says at its end; small enough for one write to a pipe */
struct said {
	int rc;
	int kind;
	char text[sizeof(((struct err *)NULL)->text)];
	struct unpacked done;
};
static_assert(sizeof(struct said) <= 4096, "it must fit into a pipe at once");

/* an image on its way */
struct adding {
	const struct image_wish *wish;
	struct setup_filter calls;
	int source_fd;
	bool directory; /* a root file system */
	bool layout;    /* a directory that is an archive: an OCI layout */
	char staged[IMAGE_STAGED];
	int staged_fd;
	int spool_fd;
};

static volatile pid_t children[CHILDREN];
static pid_t parent; /* of those */
static volatile sig_atomic_t caught;

static void on_signal(int signo)
{
	caught = signo;
	for (unsigned i = 0; i < CHILDREN; i++)
		if (children[i] > 0)
			kill(children[i], SIGKILL);
}

int image_signal(void)
{
	return caught;
}

static void set_signals(void (*handler)(int))
{
	const struct sigaction act = {.sa_handler = handler};

	sigaction(SIGINT, &act, NULL);
	sigaction(SIGTERM, &act, NULL);
	sigaction(SIGHUP, &act, NULL);
}

void image_signals(void)
{
	set_signals(on_signal);
}

pid_t image_fork(unsigned which)
{
	sigset_t ending, before;
	pid_t pid = -1;

	sigemptyset(&ending);
	sigaddset(&ending, SIGINT);
	sigaddset(&ending, SIGTERM);
	sigaddset(&ending, SIGHUP);
	fflush(NULL);
	/* one that comes in between would find nobody to end */
	sigprocmask(SIG_BLOCK, &ending, &before);
	errno = EINTR;
	parent = getpid();
	if (!caught)
		pid = fork();
	if (pid == 0)
		set_signals(SIG_DFL);
	else if (pid > 0)
		children[which] = pid;
	sigprocmask(SIG_SETMASK, &before, NULL);
	return pid;
}

void image_reap(unsigned which, int *out_status)
{
	const pid_t pid = children[which];

	while (waitpid(pid, out_status, 0) < 0 && errno == EINTR)
		;
	children[which] = 0;
}

/* the child keeps these descriptors and the standard ones, from FIRST_FD on */
static int keep_only(int *fds[], unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		*fds[i] = fcntl(*fds[i], F_DUPFD_CLOEXEC, FREE_FD);
		if (*fds[i] < 0)
			return -1;
	}
	for (unsigned i = 0; i < count; i++) {
		if (dup2(*fds[i], (int)(FIRST_FD + i)) < 0)
			return -1;
		*fds[i] = (int)(FIRST_FD + i);
	}
	return sys_close_range(FIRST_FD + count, ~0U, 0);
}

/* killed before we asked to go with it, it would have us wait for ever */
static int check_parent(void)
{
	errno = EPIPE;
	return getppid() == parent ? 0 : -1;
}

static int close_input(void)
{
	auto_fd int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	return fd < 0 ? -1 : dup2(fd, STDIN_FILENO);
}

static _Noreturn void say(int fd, int rc, const struct unpacked *done,
			  const struct err *e)
{
	struct said s = {.rc = rc, .kind = (int)e->kind};

	memcpy(s.text, e->text, sizeof(s.text));
	if (done)
		s.done = *done;
	_exit(fs_write_all(fd, &s, sizeof(s)) < 0 ? 1 : 0);
}

static _Noreturn void pack_child(struct adding *a, int out_fd, int said_fd)
{
	int *fds[] = {&a->source_fd, &out_fd, &said_fd};
	struct err e = {0};
	int rc = -1;

	if (keep_only(fds, sizeof(fds) / sizeof(fds[0])) < 0 || close_input() < 0 ||
	    confine_reader(a->wish->settings, RIGHTS_LAYERS) < 0 || check_parent() < 0 ||
	    confine_image(-1, a->source_fd, &a->calls) < 0)
		err_errno(&e, "confine the process that reads the directory");
	else
		rc = pack_tree(a->source_fd, out_fd, &e);
	say(said_fd, rc, NULL, &e);
}

static _Noreturn void unpack_child(struct adding *a, int in_fd, int said_fd)
{
	int *fds[] = {&in_fd, &a->staged_fd, &a->spool_fd, &said_fd};
	struct unpacked done = {0};
	struct err e = {0};
	struct unpack u = {
		.name = a->wish->name,
		.directory = a->directory && !a->layout,
		.bytes_most = a->wish->max_mb << 20,
		.progress_fd = a->wish->quiet || !isatty(STDERR_FILENO) ? -1
									: STDERR_FILENO,
	};
	int rc = -1;

	umask(0022);
	if (keep_only(fds, sizeof(fds) / sizeof(fds[0])) < 0 || close_input() < 0 ||
	    confine_rights(a->wish->settings, RIGHTS_LAYERS) < 0 || check_parent() < 0 ||
	    confine_image(a->staged_fd, -1, &a->calls) < 0) {
		err_errno(&e, "confine the process that unpacks");
	} else {
		u.source_fd = in_fd;
		u.spool_fd = a->spool_fd;
		u.staged_fd = a->staged_fd;
		rc = unpack_run(&u, &done, &e);
	}
	say(said_fd, rc, &done, &e);
}

/* what a child said, and its end; a text that it was made to say is only printed */
static void hear(unsigned which, int said_fd, struct said *out)
{
	struct said s = {0};
	size_t len = 0;
	ssize_t n = 1;
	int status = 0;

	while (len < sizeof(s) && n != 0) {
		n = read(said_fd, (char *)&s + len, sizeof(s) - len);
		if (n < 0 && errno != EINTR)
			break;
		len += n > 0 ? (size_t)n : 0;
	}
	image_reap(which, &status);
	*out = (struct said){.rc = -1, .kind = ERR_OURS};
	if (len == sizeof(s)) {
		*out = s;
		out->text[sizeof(out->text) - 1] = '\0';
		for (char *c = out->text; *c; c++)
			if ((unsigned char)*c < 0x20 || *c == 0x7f)
				*c = '?';
	} else {
		snprintf(out->text, sizeof(out->text),
			 "the process that %s ended early (status %d)",
			 which == PACKER ? "reads the directory" : "unpacks", status);
	}
}

static int start(struct adding *a, unsigned which, int data_fd, int *out_said_fd,
		 struct err *e)
{
	int pair[2];
	pid_t pid;

	if (pipe2(pair, O_CLOEXEC) < 0)
		return err_errno(e, "make a pipe");
	pid = image_fork(which);
	if (pid == 0) {
		if (which == PACKER)
			pack_child(a, data_fd, pair[1]);
		unpack_child(a, data_fd, pair[1]);
	}
	close(pair[1]);
	if (pid < 0) {
		close(pair[0]);
		return err_errno(e, "start a process");
	}
	*out_said_fd = pair[0];
	return 0;
}

static int wrong(const struct said *s, struct err *e)
{
	return s->kind == ERR_THEIRS ? err_bad(e, "%s", s->text)
				     : err_ours(e, "%s", s->text);
}

/* the packer's own trouble is why the other one got too little, unless that one ended
 * first: then nobody took what it had */
static int judge(const struct adding *a, const struct said *packed,
		 const struct said *unpacked, struct err *e)
{
	if (unpacked->rc == 0 && (!a->directory || packed->rc == 0))
		return 0;
	if (a->directory && packed->rc < 0 && !strstr(packed->text, "Broken pipe"))
		return wrong(packed, e);
	return wrong(unpacked, e);
}

static int run_children(struct adding *a, struct unpacked *out, struct err *e)
{
	struct said packed = {.rc = 0}, unpacked;
	auto_fd int packed_fd = -1;
	auto_fd int unpacked_fd = -1;
	auto_fd int in_fd = -1;
	auto_fd int out_fd = -1;
	int pair[2];

	if (a->directory) {
		if (pipe2(pair, O_CLOEXEC) < 0)
			return err_errno(e, "make a pipe");
		in_fd = pair[0];
		out_fd = pair[1];
		if (start(a, PACKER, out_fd, &packed_fd, e) < 0)
			return -1;
		close(take_fd(&out_fd));
	}
	if (start(a, UNPACKER, a->directory ? in_fd : a->source_fd, &unpacked_fd, e) <
	    0) {
		if (a->directory) {
			kill(children[PACKER], SIGKILL);
			hear(PACKER, packed_fd, &packed);
		}
		return -1;
	}
	defer_close(&in_fd); /* the packer is to feel it when the other one ends */
	in_fd = -1;
	hear(UNPACKER, unpacked_fd, &unpacked);
	if (a->directory)
		hear(PACKER, packed_fd, &packed);
	if (judge(a, &packed, &unpacked, e) < 0)
		return -1;
	*out = unpacked.done;
	return 0;
}

static int open_source(struct adding *a, struct err *e)
{
	const char *path = a->wish->path;
	struct stat st;

	a->source_fd = strcmp(path, "-") == 0
			       ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, FIRST_FD)
			       : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (a->source_fd < 0 || fstat(a->source_fd, &st) < 0)
		return err_errno(e, "open '%.200s'", path);
	a->directory = S_ISDIR(st.st_mode);
	a->layout = a->directory && faccessat(a->source_fd, "oci-layout", F_OK, 0) == 0 &&
		    faccessat(a->source_fd, "index.json", F_OK, 0) == 0;
	return 0;
}

/* a place that the child may fill, and a file that has no name */
static int make_place(struct adding *a, struct err *e)
{
	const struct settings *s = a->wish->settings;
	const uid_t uid = (uid_t)s->uid_base - RIGHTS_LAYERS;

	a->staged_fd = image_stage(a->wish->store_fd, a->staged);
	if (a->staged_fd < 0) {
		a->staged[0] = '\0';
		return err_errno(e, "make a place for the image");
	}
	a->spool_fd = openat(a->staged_fd, "spool", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC,
			     0600);
	if (a->spool_fd < 0 || unlinkat(a->staged_fd, "spool", 0) < 0 ||
	    (s->uid_base && fchown(a->staged_fd, uid, uid) < 0))
		return err_errno(e, "make a place for the image");
	return 0;
}

static int publish(struct adding *a, struct err *e)
{
	const struct image_wish *wish = a->wish;

	if (wish->settings->uid_base && fchown(a->staged_fd, 0, 0) < 0)
		return err_errno(e, "take the image over");
	if (image_publish(wish->store_fd, a->staged, a->staged_fd, wish->name) == 0) {
		a->staged[0] = '\0';
		return 0;
	}
	return errno == EEXIST ? err_bad(e,
					 "'%s' is there already: somebody else added "
					 "it meanwhile",
					 wish->name)
			       : err_errno(e, "keep the image '%s'", wish->name);
}

/* what differs from what the archive has */
static void report(const struct adding *a, const struct unpacked *u)
{
	const struct tree_counts *c = &u->counts;

	printf("added %s: %.1f MB, %llu entries, %u layer%s (%s)\n", a->wish->name,
	       (double)c->bytes / (1 << 20), (unsigned long long)c->entries, u->layers,
	       u->layers == 1 ? "" : "s", u->source);
	if (c->special)
		printf("  left out: %llu devices, FIFOs and sockets\n",
		       (unsigned long long)c->special);
	if (c->set_id)
		printf("  taken away: set-id bits or capabilities of %llu files\n",
		       (unsigned long long)c->set_id);
	if (c->opened)
		printf("  made readable for everybody: %llu files and directories\n",
		       (unsigned long long)c->opened);
}

static int make(struct adding *a, struct err *e)
{
	struct unpacked done = {0};
	const bool progress = !a->wish->quiet && isatty(STDERR_FILENO);
	int rc;

	if (filter_compile_own(POLICY_IMAGE, &a->calls, e) < 0 || open_source(a, e) < 0 ||
	    make_place(a, e) < 0)
		return -1;
	rc = run_children(a, &done, e);
	if (progress)
		fprintf(stderr, "\r\033[K");
	if (caught)
		return 128 + caught;
	if (rc < 0 || publish(a, e) < 0)
		return -1;
	report(a, &done);
	return 0;
}

int image_add(const struct image_wish *wish, struct err *e)
{
	struct adding *a = calloc(1, sizeof(*a));
	struct err why = {0};
	int rc;

	if (!a)
		return err_errno(e, "add an image");
	a->wish = wish;
	a->source_fd = a->staged_fd = a->spool_fd = -1;
	rc = make(a, &why);
	if (a->staged[0] && fs_remove_tree(wish->store_fd, a->staged) < 0)
		fprintf(stderr, "sandbox-server: '%s' could not be removed: %s\n",
			a->staged, strerror(errno));
	defer_close(&a->source_fd);
	defer_close(&a->staged_fd);
	defer_close(&a->spool_fd);
	free(a);
	if (rc < 0)
		return err_bad(e, "'%s' was not added: %.400s", wish->name, why.text);
	return rc;
}

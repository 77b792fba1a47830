/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * reload.c - files that may change while we serve: SIGHUP reads them again
 *
 * Runs in: the supervisor, since the server has given up opening files. What is read goes
 * to the server over their socket. A new file that is no good changes nothing but the
 * log.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/defer.h"
#include "base/err.h"
#include "base/fdpass.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "cmd/cmd.h"
#include "config/tokens.h"
#include "session/session.h"

/* bytes is the caller's to free, also after a failure */
static int read_tokens(const char *path, struct tokens *out, struct buf *bytes,
		       struct err *e)
{
	struct err why;
	int is_open;

	buf_init(bytes, 0);
	if (tokens_read(path, bytes, &is_open, &why) < 0)
		return err_bad(e, "SANDBOX_TOKEN_FILE: %s", why.text);
	if (tokens_parse(bytes->bytes, bytes->len, out, &why) < 0)
		return err_bad(e, "SANDBOX_TOKEN_FILE: '%s': %s", path, why.text);
	if (is_open)
		log_warn("tokens.readable", "file=\"%s\" fix=\"chmod o-r\"", path);
	return 0;
}

static int first_tokens(struct prepared *p, struct err *e)
{
	struct buf bytes;
	int rc;

	p->tokens = mem_zero(sizeof(*p->tokens));
	rc = read_tokens(p->settings.token_file, p->tokens, &bytes, e);
	buf_done(&bytes);
	return rc;
}

static int first_audit(struct prepared *p, struct err *e)
{
	struct err why;

	p->audit = mem_zero(sizeof(*p->audit));
	p->audit->fd = audit_open(p->settings.audit_file, &p->audit->end, &why);
	return p->audit->fd < 0 ? err_bad(e, "SANDBOX_AUDIT_FILE: %s", why.text) : 0;
}

int reload_first(struct prepared *p, bool clients, struct err *e)
{
	if (clients && p->settings.token_file && first_tokens(p, e) < 0)
		return -1;
	return p->settings.audit_file ? first_audit(p, e) : 0;
}

void reload_done(struct prepared *p)
{
	free(p->tokens);
	p->tokens = NULL;
	if (p->audit)
		defer_close(&p->audit->fd);
	free(p->audit);
	p->audit = NULL;
}

struct watched {
	const struct prepared *prepared;
	const int *control_fd;
	int inotify_fd;
};

static int send_tokens(const char *path, int control_fd, struct err *e)
{
	auto_free struct tokens *t = mem_zero(sizeof(*t));
	const char what = CONTROL_TOKENS;
	struct buf bytes;
	int rc = read_tokens(path, t, &bytes, e);

	if (rc == 0) {
		auto_fd int fd = fs_sealed("tokens", bytes.bytes, bytes.len);

		if (fd < 0 || fdpass_send(control_fd, &what, 1, &fd, 1) < 0)
			rc = err_errno(e, "give the tokens to the server");
	}
	buf_done(&bytes);
	return rc;
}

/* the file was moved away: another one of its name, which is new, takes over */
static int send_audit(const struct prepared *p, int control_fd, struct err *e)
{
	const char *path = p->settings.audit_file;
	const char what = CONTROL_AUDIT;
	struct stat here, there;
	auto_fd int fd = -1;
	struct audit_end end;

	if (fstat(p->audit->fd, &here) == 0 && lstat(path, &there) == 0 &&
	    here.st_dev == there.st_dev && here.st_ino == there.st_ino)
		return 0;
	fd = audit_open(path, &end, e);
	if (fd < 0)
		return -1;
	if (end.chain.line || end.has_torn)
		return err_bad(e, "'%s' is not empty", path);
	if (fdpass_send(control_fd, &what, 1, &fd, 1) < 0)
		return err_errno(e, "give the audit file to the server");
	close(p->audit->fd);
	p->audit->fd = take_fd(&fd);
	return 0;
}

void reload_again(const struct prepared *p, int control_fd)
{
	const struct settings *s = &p->settings;
	struct err e;

	if (p->audit && send_audit(p, control_fd, &e) < 0)
		log_error("audit.refused", "effect=\"the old file goes on\" error=\"%s\"",
			  e.text);

	if (p->tokens && send_tokens(s->token_file, control_fd, &e) < 0)
		log_error("tokens.refused", "effect=\"the old ones stay\" error=\"%s\"",
			  e.text);
	log_info("server.reloaded", "signal=HUP");
}

static void on_images(void *arg, uint32_t events)
{
	const struct watched *w = arg;
	char news[4096] __attribute__((aligned(8)));
	const char what = CONTROL_IMAGES;
	auto_fd int fd = -1;
	struct buf images;

	(void)events;
	while (read(w->inotify_fd, news, sizeof(news)) > 0)
		; /* that there are any is enough */
	if (session_images_pack(w->prepared->images_fd, &images) == 0)
		fd = fs_sealed("images", images.bytes, images.len);
	buf_done(&images);
	if (fd < 0 || fdpass_send(*w->control_fd, &what, 1, &fd, 1) < 0)
		log_error("images.list", "error=\"%s\"", strerror(errno));
}

int reload_watch(const struct prepared *p, struct loop *l, int *control_fd, struct err *e)
{
	static struct watched w; /* as long as the supervisor */
	const uint32_t what = IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE;

	if (p->images_fd < 0)
		return 0;
	w = (struct watched){p, control_fd, inotify_init1(IN_NONBLOCK | IN_CLOEXEC)};
	if (w.inotify_fd < 0 ||
	    inotify_add_watch(w.inotify_fd, p->start->setup.image_dir, what) < 0 ||
	    loop_add(l, w.inotify_fd, EPOLLIN, on_images, &w) < 0)
		return err_errno(e, "watch the images");
	return 0;
}

int reload_tokens(int fd, struct tokens *out, struct err *e)
{
	auto_free char *text = mem_array(TOKENS_BYTES, 1);
	const ssize_t len = pread(fd, text, TOKENS_BYTES, 0);

	if (len < 0)
		return err_errno(e, "read the tokens");
	return tokens_parse(text, (size_t)len, out, e);
}

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_log.c - one line an event, whatever the values hold
 */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>

#include "../tap.h"
#include "base/err.h"
#include "base/json.h"
#include "base/utf8.h"

static char line[8192];

/* Runs one log call and keeps what it wrote to descriptor 2 in `line`. */
#define LOGGED(call)                          \
	do {                                  \
		int saved_ = capture_start(); \
		call;                         \
		capture_end(saved_);          \
	} while (0)

static int pipe_fd;

static int capture_start(void)
{
	int ends[2], saved = dup(2);

	CHECK(saved >= 0 &&
	      pipe2(ends, O_NONBLOCK | O_DIRECT) == 0); /* a packet a write */
	dup2(ends[1], 2);
	close(ends[1]);
	pipe_fd = ends[0];
	return saved;
}

static void capture_end(int saved)
{
	ssize_t len;
	char more;

	dup2(saved, 2);
	close(saved);
	len = read(pipe_fd, line, sizeof(line) - 1);
	line[len > 0 ? len : 0] = 0;
	CHECK(read(pipe_fd, &more, 1) <= 0); /* one write only */
	close(pipe_fd);
}

static const char *field(struct json *doc, const char *name)
{
	const char *text = json_text(json_member(doc, name), NULL);

	return text ? text : "(none)";
}

static struct json *parsed(void)
{
	struct err e = {0};
	struct json *doc = json_parse(line, strlen(line), &json_request_limits, &e);

	if (!doc)
		fprintf(stderr, "# %s: %s\n", e.text, line);
	CHECK(doc);
	CHECK(strchr(line, '\n') == line + strlen(line) - 1);
	return doc;
}

TEST(text_lines_have_time_level_process_event)
{
	static const char form[] = "dddd-dd-ddTdd:dd:dd.dddZ";

	log_setup(LOG_INFO, LOG_TEXT, "server");
	LOGGED(log_info("job.done", "job=%s wall_ms=%u", "7f3a", 5u));
	for (size_t i = 0; i < sizeof(form) - 1; i++)
		CHECK(form[i] == 'd' ? line[i] >= '0' && line[i] <= '9'
				     : line[i] == form[i]);
	CHECK(!strcmp(line + sizeof(form) - 1,
		      " info server job.done job=7f3a wall_ms=5\n"));
}

TEST(a_key_with_a_question_mark_is_left_out_without_a_value)
{
	log_setup(LOG_INFO, LOG_TEXT, "server");
	LOGGED(log_info("a.b", "request=%s trace?=%s end=%s", "r1", "", ""));
	CHECK(strstr(line, " a.b request=r1 end=\"\"\n"));
	LOGGED(log_info("a.b", "request=%s trace?=%s", "r1", "t1"));
	CHECK(strstr(line, " a.b request=r1 trace=t1\n"));
	log_setup(LOG_INFO, LOG_JSON, "server");
	LOGGED(log_info("a.b", "a?=%s b?=%s", "", "x"));
	CHECK(strstr(line, "\"event\":\"a.b\",\"b\":\"x\"}\n"));
	json_free(parsed());
}

TEST(levels_below_the_least_are_silent)
{
	log_setup(LOG_WARN, LOG_TEXT, "server");
	LOGGED(log_info("a.b", "k=%d", 1));
	CHECK(line[0] == 0);
	LOGGED(log_debug("a.b", "k=%d", 1));
	CHECK(line[0] == 0);
	LOGGED(log_warn("a.b", "k=%d", 1));
	CHECK(strstr(line, " warn server a.b k=1\n"));
	LOGGED(log_error("a.b", "k=%d", 1));
	CHECK(strstr(line, " error server a.b k=1\n"));
}

TEST(errno_is_kept_and_can_be_told)
{
	log_setup(LOG_INFO, LOG_TEXT, "server");
	errno = ENOENT;
	LOGGED(log_info("a.b", "why=\"%m\""));
	CHECK(errno == ENOENT);
	CHECK(strstr(line, "why=\"No such file or directory\""));
	errno = EBADF;
	close(2);
	log_info("a.b", "k=%d", 1);
	CHECK(errno == EBADF);
}

TEST(values_cannot_pass_for_lines_or_keys)
{
	log_setup(LOG_INFO, LOG_TEXT, "server");
	LOGGED(log_info("a.b", "who=%s n=%d", "x\n2020 error server evil n=9", 1));
	CHECK(strchr(line, '\n') == line + strlen(line) - 1);
	CHECK(strstr(line, " who=\"x\\n2020 error server evil n=9\" n=1\n"));
	LOGGED(log_info("a.b", "who=\"%s\" n=%d", "a\" n=9 b=\"", 1));
	CHECK(strstr(line, " who=\"a\\\" n=9 b=\\\"\" n=1\n"));
	LOGGED(log_info("a.b", "why=\"could not n=%d\" m=%d", 1, 2));
	CHECK(strstr(line, " a.b why=\"could not n=1\" m=2\n"));
	LOGGED(log_info("a.b", "who=%s", "\x1b[31m\x7f\xc2\x9b"));
	CHECK(strstr(line, " who=\"\\u001b[31m\\u007f\\u009b\"\n"));
	LOGGED(log_info("a.b", "who=%s n=%d", "\x02m\x03\x02", 1));
	CHECK(strstr(line, " a.b message=\"who= m=") && strstr(line, " n=1\"\n"));
}

TEST(json_says_the_same)
{
	struct json *doc;

	log_setup(LOG_INFO, LOG_JSON, "launcher");
	LOGGED(log_warn("a.b", "who=\"%s\" path=%s n=%d empty=\"%s\"", "say \"x\", y=1\n",
			"/a b", 7, ""));
	doc = parsed();
	CHECK(strlen(field(doc, "ts")) == 24);
	CHECK(!strcmp(field(doc, "level"), "warn"));
	CHECK(!strcmp(field(doc, "process"), "launcher"));
	CHECK(!strcmp(field(doc, "event"), "a.b"));
	CHECK(!strcmp(field(doc, "who"), "say \"x\", y=1\n"));
	CHECK(!strcmp(field(doc, "path"), "/a b"));
	CHECK(!strcmp(field(doc, "n"), "7"));
	CHECK(!strcmp(field(doc, "empty"), ""));
	CHECK(json_count(doc) == 8);
	json_free(doc);
}

TEST(words_without_a_key_are_one_message)
{
	struct json *doc;

	log_setup(LOG_INFO, LOG_JSON, "launcher");
	LOGGED(log_info("a.b", "could not open %s today n=%d", "x", 1));
	doc = parsed();
	CHECK(!strcmp(field(doc, "message"), "could not open x today"));
	CHECK(!strcmp(field(doc, "n"), "1"));
	json_free(doc);
}

TEST(no_keys_is_no_trouble)
{
	log_setup(LOG_INFO, LOG_JSON, "launcher");
	LOGGED(log_info("a.b", "%s", ""));
	json_free(parsed());
	CHECK(strstr(line, "\"event\":\"a.b\"}\n"));
}

TEST(long_lines_are_cut_and_stay_whole)
{
	static char value[6000];

	for (int form = LOG_TEXT; form <= LOG_JSON; form++) {
		for (size_t len = 1800; len < 2100; len++) {
			log_setup(LOG_INFO, (enum log_format)form, "server");
			memset(value, len % 2 ? 'a' : '\n', len);
			value[len] = 0;
			LOGGED(log_info("a.b", "k=%s l=\"%s\" m=%d", value, value, 1));
			CHECK(strlen(line) <= 2048 && line[strlen(line) - 1] == '\n');
			if (form == LOG_JSON)
				json_free(parsed());
		}
	}
	memset(value, '\xe2', sizeof(value) - 1); /* nothing of it is UTF-8 */
	LOGGED(log_info("a.b", "k=%s", value));
	CHECK(utf8_valid(line, strlen(line)));
	json_free(parsed());
}

TEST(a_reader_that_stopped_stops_nobody_and_hears_later_how_much_it_missed)
{
	const int saved = dup(2);
	int ends[2], i;
	ssize_t len;

	CHECK(saved >= 0 && pipe(ends) == 0); /* an ordinary one, that waits for room */
	CHECK(dup2(ends[1], 2) == 2 && close(ends[1]) == 0);
	for (i = 0; i < 2000; i++)
		log_info("test.line", "n=%d", i);
	while ((len = read(ends[0], line, sizeof(line) - 1)) == (ssize_t)sizeof(line) - 1)
		;
	log_info("test.line", "n=2000");
	CHECK(dup2(saved, 2) == 2 && close(saved) == 0);
	len = read(ends[0], line, sizeof(line) - 1);
	CHECK(len > 0);
	line[len > 0 ? len : 0] = 0;
	CHECK(strstr(line, " log.lost lines="));
	CHECK(log_lost_total() > 0 && log_lost_total() < 2000);
	CHECK(strstr(line, " test.line n=2000\n"));
	CHECK(read(ends[0], line, 1) == 0);
	close(ends[0]);
}

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_prepare.c - limits, and the sealed input record by record
 */
#include "job_fixture.h"

#include <sys/mman.h>
#include <sys/stat.h>

static struct limits wanted, got;

static void clamp(void)
{
	job_limits(&f.settings, &f.modes.mode[0], &wanted, &got);
}

TEST(zero_means_the_default)
{
	fixture_settings();
	clamp();
	CHECK(got.wall_ms == 30000 && got.cpu_ms == 30000 && got.memory_mb == 512);
	CHECK(got.pids == 64 && got.disk_mb == 256 && got.output_kb == 10);
}

TEST(wishes_below_the_ceiling_are_granted)
{
	fixture_settings();
	wanted = (struct limits){500, 400, 64, 8, 16, 1024};
	clamp();
	CHECK(memcmp(&got, &wanted, sizeof(got)) == 0);
}

TEST(wishes_above_the_ceiling_are_clamped)
{
	fixture_settings();
	memset(&wanted, 0xff, sizeof(wanted));
	clamp();
	CHECK(got.wall_ms == 300000 && got.memory_mb == 512 && got.pids == 64);
	CHECK(got.disk_mb == 256 && got.output_kb == 1024 && got.cpu_ms == 300000);
}

TEST(the_operators_settings_beat_the_modes)
{
	fixture_settings();
	f.settings.memory_mb = 100;
	f.settings.pids = 10;
	f.settings.disk_mb = 20;
	f.settings.cpu_sec = 5;
	clamp();
	CHECK(got.memory_mb == 100 && got.pids == 10 && got.disk_mb == 20);
	CHECK(got.cpu_ms == 5000 && got.wall_ms == 30000);
	wanted.memory_mb = 200;
	clamp();
	CHECK(got.memory_mb == 100);
}

TEST(seconds_are_written_without_needless_digits)
{
	char room[16];

	CHECK(strcmp(job_seconds(1000, room), "1") == 0);
	CHECK(strcmp(job_seconds(500, room), "0.5") == 0);
	CHECK(strcmp(job_seconds(10, room), "0.01") == 0);
	CHECK(strcmp(job_seconds(300000, room), "300") == 0);
	CHECK(strcmp(job_seconds(UINT32_MAX, room), "4294967.295") == 0);
	CHECK(strcmp(job_seconds(0, room), "0") == 0);
}

/* the next record of an input; checks what the reader in the sandbox checks */
static const char *expect(const char *at, enum input_kind kind, const char *name,
			  const char *data)
{
	struct input_record r;

	memcpy(&r, at, sizeof(r));
	CHECK(r.kind == kind && r.name_len == strlen(name) && r.data_len == strlen(data));
	CHECK(strcmp(at + sizeof(r), name) == 0);
	CHECK(strcmp(at + sizeof(r) + r.name_len + 1, data) == 0);
	return at + input_size(r.name_len, r.data_len);
}

static void fill_request(struct run_request *r)
{
	static const char *const args[] = {"-v", "", NULL};

	*r = (struct run_request){.mode = &f.modes.mode[0], .row = 5};
	clamp();
	r->limits = got;
	buf_init(&r->code, 100);
	CHECK(buf_puts(&r->code, "print(1)") == 0);
	r->files = mem_array(2, sizeof(*r->files));
	r->file_count = 2;
	r->files[0].name = mem_copy("d/a.txt");
	buf_init(&r->files[0].data, 10);
	CHECK(buf_puts(&r->files[0].data, "data") == 0);
	r->files[1].name = mem_copy("empty");
	r->args = mem_array(3, sizeof(*r->args));
	for (int i = 0; args[i]; i++)
		r->args[i] = mem_copy(args[i]);
	r->env = mem_array(2, sizeof(*r->env));
	r->env[0] = mem_copy("A=b");
	snprintf(r->traceparent, sizeof(r->traceparent), "00-ab-cd-01");
}

TEST(the_input_has_everything_in_its_order_and_is_sealed)
{
	struct run_request r;
	struct message m = {0};
	int fds[MESSAGE_FDS];
	struct stat st;
	const char *map, *at;

	fixture_open();
	fill_request(&r);
	CHECK(jobs_submit(f.jobs, 1, &r, false, &f.err) == 0);
	CHECK(!r.code.bytes && !r.files); /* taken over */
	CHECK(message_receive(f.peer_fd, &m, fds) == 1 && m.type == MSG_RUN);
	CHECK(m.plan.row == 5 && m.plan.errand == 0 && m.plan.limits.pids == 64);
	CHECK(fstat(fds[0], &st) == 0 && (uint64_t)st.st_size == m.plan.input_bytes);
	CHECK((fcntl(fds[0], F_GET_SEALS) &
	       (F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW)) ==
	      (F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW));
	map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fds[0], 0);
	CHECK(map != MAP_FAILED);
	at = expect(map, INPUT_SCRIPT, "", "print(1)");
	at = expect(at, INPUT_FILE, "d/a.txt", "data");
	at = expect(at, INPUT_FILE, "empty", "");
	at = expect(at, INPUT_ARG, "", "-v");
	at = expect(at, INPUT_ARG, "", "");
	at = expect(at, INPUT_ENV, "", "A=b");
	at = expect(at, INPUT_ENV, "", "TRACEPARENT=00-ab-cd-01");
	at = expect(at, INPUT_END, "", "");
	CHECK(at == map + st.st_size);
	munmap((void *)(uintptr_t)map, (size_t)st.st_size);
	close(fds[0]);
	fixture_close();
}

/* what the plan says of a request with this code, and perhaps one file */
static bool starts_cold(enum mode_id id, const char *code, const char *file)
{
	struct run_request r = {.mode = &f.modes.mode[0], .limits = {.output_kb = 10}};
	struct message m = {0};
	int fds[MESSAGE_FDS];

	fixture_open();
	f.modes.mode[0].id = id;
	buf_init(&r.code, 1 << 20);
	CHECK(buf_puts(&r.code, code) == 0);
	if (file) {
		r.files = mem_array(1, sizeof(*r.files));
		r.file_count = 1;
		r.files[0].name = mem_copy(file);
	}
	CHECK(jobs_submit(f.jobs, 1, &r, false, &f.err) == 0);
	CHECK(message_receive(f.peer_fd, &m, fds) == 1 && m.type == MSG_RUN);
	close(fds[0]);
	fixture_close();
	return m.plan.cold;
}

TEST(only_what_an_interpreter_reads_at_its_start_is_cold)
{
	static const struct {
		enum mode_id id;
		const char *code, *file;
		bool cold;
	} rows[] = {
		{MODE_PYTHON, "", NULL, false},
		{MODE_PYTHON, "print(1)", "a.py", false},
		{MODE_PYTHON, "# coding: utf-8\nx", NULL, false},
		{MODE_PYTHON, "# -*- coding: UTF-8 -*-", NULL, false},
		{MODE_PYTHON, "\n# vim: set fileencoding=utf-8 :\n", NULL, false},
		{MODE_PYTHON, "# coding: latin-1\n", NULL, true},
		{MODE_PYTHON, "# coding: utf-8-sig\n", NULL, true},
		{MODE_PYTHON, "#!/x\n# coding=ascii", NULL, true},
		{MODE_PYTHON, "# coding: utf-8 \n# coding: ascii\n", NULL, true},
		{MODE_PYTHON, "# coding", NULL, true},
		{MODE_PYTHON, "\n\n# coding: ascii", NULL, false},
		{MODE_PYTHON, "print(open('a', encoding='utf-8').read())", NULL, false},
		{MODE_PYTHON, "x = 1 # coding: ascii\ny.encoding", NULL, false},
		{MODE_PYTHON, "\xef\xbb\xbf# coding: ascii", NULL, true},
		{MODE_PYTHON, "x\r \t\f# coding: ascii\n", NULL, true},
		{MODE_NODE, "// coding: ascii", "d/package.json", false},
		{MODE_NODE, "", "package.json", true},
		{MODE_SHELL, "# coding: ascii", "package.json", false},
		{MODE_GOLANG, "// coding: ascii", "package.json", false},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (starts_cold(rows[i].id, rows[i].code, rows[i].file) != rows[i].cold)
			CHECK(!rows[i].code);
}

TEST(code_that_a_pipe_does_not_hold_is_cold)
{
	static char code[65536 + 2];

	memset(code, '#', sizeof(code) - 1);
	CHECK(starts_cold(MODE_PYTHON, code, NULL));
	CHECK(starts_cold(MODE_NODE, code, NULL));
	CHECK(!starts_cold(MODE_SHELL, code, NULL));
	code[65536] = '\0';
	CHECK(!starts_cold(MODE_PYTHON, code, NULL));
	CHECK(!starts_cold(MODE_NODE, code, NULL));
}

/* what a request of fill_request, with this variable when it is not NULL, starts with */
static uint32_t cold_of(enum mode_id id, const char *variable)
{
	struct message m = {0};
	struct run_request r;
	int fds[MESSAGE_FDS];

	fixture_open();
	fill_request(&r);
	if (variable) {
		free(r.env[0]);
		r.env[0] = mem_copy(variable);
	}
	f.modes.mode[0].id = id;
	CHECK(jobs_submit(f.jobs, 1, &r, false, &f.err) == 0);
	CHECK(message_receive(f.peer_fd, &m, fds) == 1);
	close(fds[0]);
	fixture_close();
	return m.plan.cold;
}

TEST(words_are_for_those_who_take_them)
{
	CHECK(cold_of(MODE_PYTHON, NULL) == COLD_UNLESS_WORDS);
	CHECK(cold_of(MODE_NODE, NULL) == COLD_UNLESS_WORDS);
	CHECK(cold_of(MODE_GOLANG, NULL) == 0);
	CHECK(cold_of(MODE_SHELL, NULL) == 0);
}

TEST(what_is_read_at_the_start_starts_an_interpreter_cold)
{
	static const char *const some[] = {
		"PYTHONX=1",  "PYTHON=",    "TZ=",   "LC_ALL=C",
		"NODE_ENV=a", "MALLOC_X=1", "LANG=C"};
	static const char *const others[] = {"TZX=1",    "LANGUA=", "LC=C",
					     "MALLOC=1", "XTZ=",    "PYTHO=1"};

	for (size_t i = 0; i < sizeof(some) / sizeof(*some); i++) {
		CHECK(cold_of(MODE_PYTHON, some[i]) == COLD_ALWAYS);
		CHECK(cold_of(MODE_SHELL, some[i]) == 0);
	}
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		CHECK(cold_of(MODE_PYTHON, others[i]) == COLD_UNLESS_WORDS);
}

TEST(a_half_filled_request_can_be_ended_twice)
{
	struct run_request r = {0};

	request_done(&r);
	fixture_settings();
	fill_request(&r);
	request_done(&r);
	request_done(&r);
	request_done(NULL);
}

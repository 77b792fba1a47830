/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_mode.c - which runtimes are served, and what their runs need
 *
 * The runtimes are scripts in a directory of the test's own, which is all that PATH has.
 * It is not below /tmp: what is there cannot be seen in a sandbox.
 */
#include <errno.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <time.h>

#define TAP_SECONDS 60 /* a runtime that hangs costs 5 */
#include "base/err.h"
#include "config/binds.h"
#include "config/mode.h"
#include "config/settings.h"
#include "tap.h"
#include "tree_fixture.h"
#include "wire/setup.h"

static struct setup setup;
static struct settings s;
static struct modes m;
static struct err e;

static void begin(const char *mode)
{
	char *none[] = {NULL};

	make_top();
	clearenv();
	setenv("PATH", name("%s/bin", top), 1);
	setenv("HOME", "/nowhere", 1);
	CHECK(settings_load(&s, 0, none, NULL, &e) == 0);
	s.mode = mode ? strdup(mode) : NULL;
}

static int find(void)
{
	int rc = modes_find(&m, &s, &setup, &e);

	if (rc < 0)
		fprintf(stderr, "# %s\n", e.text);
	return rc;
}

static void end(void)
{
	modes_done(&m);
	settings_done(&s);
}

static void make_python(void)
{
	make_file(name("%s/py/bin/python3", top), "#!/bin/sh\n");
	make_file(name("%s/bin/python3", top),
		  name("#!/bin/sh\n"
		       "case $1 in --version)\n"
		       "echo Python 3.99.1; echo more; exit ;; esac\n"
		       "printf 'exe\\t%s/py/bin/python3\\nprefix\\t%s/py\\n'\n"
		       "printf 'prefix\\t/usr\\npackage\\tzeta\\n'\n"
		       "printf 'package\\tAlpha\\nnoise\\npackage\\tzeta\\n'\n",
		       top, top));
}

static void make_go(void)
{
	make_file(name("%s/go/bin/go", top), "#!/bin/sh\n");
	make_file(name("%s/bin/go", top),
		  name("#!/bin/sh\n"
		       "[ \"$GOTOOLCHAIN\" = local ] || exit 9\n"
		       "case $1 in version)\n"
		       "echo go version go1.99.2 linux/amd64; exit ;; esac\n"
		       "echo %s/go\n",
		       top));
}

static void make_node(const char *version)
{
	make_file(name("%s/nodejs/bin/node", top), "#!/bin/sh\n");
	make_file(name("%s/nodejs/lib/node_modules/npm/package.json", top), "");
	make_file(name("%s/nodejs/lib/node_modules/@scope/one/package.json", top), "");
	make_file(name("%s/nodejs/lib/node_modules/.bin/x", top), "");
	make_file(name("%s/bin/node", top),
		  name("#!/bin/sh\n"
		       "if [ \"$1\" = --version ]; then echo %s; exit; fi\n"
		       "printf 'exe\\t%s/nodejs/bin/node\\n'\n",
		       version, top));
}

static void make_bash(void)
{
	make_file(name("%s/bin/bash", top),
		  "#!/bin/sh\necho 'GNU bash, version 5.99.3(1)-release'\necho more\n");
}

static bool is_bound(const char *path)
{
	for (unsigned i = 0; i < setup.binds; i++)
		if (strcmp(setup.bind[i].path, path) == 0)
			return true;
	return false;
}

/* the words of argv or environment, joined by spaces */
static const char *joined(const struct setup_words *w)
{
	static char text[SETUP_WORDS + 1];
	size_t len = 0;

	for (const char *p = w->text; *p; p += strlen(p) + 1)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s",
					len ? " " : "", p);
	return text;
}

static bool has_env(unsigned row, const char *word)
{
	for (const char *p = setup.row[row].env.text; *p; p += strlen(p) + 1)
		if (strcmp(p, word) == 0)
			return true;
	return false;
}

TEST(python_alone_is_found)
{
	begin(NULL);
	make_python();
	CHECK(find() == 0 && m.count == 1 && m.mode[0].id == MODE_PYTHON);
	CHECK(strcmp(m.mode[0].name, "python") == 0);
	CHECK(strcmp(m.mode[0].runtime_version, "Python 3.99.1") == 0);
	CHECK(strcmp(m.mode[0].version_number, "3.99.1") == 0);
	CHECK(strcmp(m.mode[0].packages[0], "Alpha") == 0);
	CHECK(strcmp(m.mode[0].packages[1], "zeta") == 0 && !m.mode[0].packages[2]);
	CHECK(m.mode[0].row == 0 && setup.rows == 1 && m.mode[0].typescript_row == -1);
	CHECK(strcmp(setup.row[0].name, "python") == 0);
	CHECK(strcmp(joined(&setup.row[0].argv),
		     name("%s/py/bin/python3 script.py", top)) == 0);
	CHECK(has_env(0, name("PATH=%s/py/bin:/usr/local/bin:/usr/bin:/bin", top)));
	CHECK(has_env(0, "HOME=/tmp") && has_env(0, "LANG=C.UTF-8"));
	CHECK(has_env(0, "TMPDIR=/tmp") && has_env(0, "OUTPUT_DIR=/work/output"));
	CHECK(has_env(0, "PYTHONUNBUFFERED=1"));
	CHECK(is_bound("/usr") && is_bound(name("%s/py", top)));
	CHECK(!is_bound(name("%s/bin", top)) && !is_bound(top));
	end();
}

TEST(go_alone_is_found)
{
	begin(NULL);
	make_go();
	CHECK(find() == 0 && m.count == 1 && m.mode[0].id == MODE_GOLANG);
	CHECK(strcmp(m.mode[0].runtime_version, "go version go1.99.2 linux/amd64") == 0);
	CHECK(strcmp(m.mode[0].version_number, "1.99.2") == 0);
	CHECK(!m.mode[0].packages[0]);
	CHECK(strcmp(joined(&setup.row[0].argv),
		     name("%s/go/bin/go run script.go", top)) == 0);
	CHECK(setup.row[0].go_cache == 1 && has_env(0, "GOCACHE=/go-cache"));
	CHECK(has_env(0, "GOTOOLCHAIN=local") && has_env(0, "GOPROXY=off"));
	CHECK(is_bound(name("%s/go", top)));
	end();
}

TEST(node_alone_is_found)
{
	begin(NULL);
	make_node("v20.1.2");
	CHECK(find() == 0 && m.count == 1 && m.mode[0].id == MODE_NODE);
	CHECK(strcmp(m.mode[0].version_number, "20.1.2") == 0);
	CHECK(strcmp(m.mode[0].packages[0], "@scope/one") == 0);
	CHECK(strcmp(m.mode[0].packages[1], "npm") == 0 && !m.mode[0].packages[2]);
	CHECK(strcmp(joined(&setup.row[0].argv),
		     name("%s/nodejs/bin/node script.js", top)) == 0);
	CHECK(has_env(0, name("NODE_PATH=%s/nodejs/lib/node_modules", top)));
	CHECK(is_bound(name("%s/nodejs", top)));
	CHECK(setup.rows == 1 && m.mode[0].typescript_row == -1);
	end();
}

TEST(bash_alone_is_found)
{
	begin(NULL);
	make_bash();
	CHECK(find() == 0 && m.count == 1 && m.mode[0].id == MODE_SHELL);
	CHECK(strcmp(m.mode[0].runtime_version, "GNU bash, version 5.99.3(1)-release") ==
	      0);
	CHECK(strcmp(m.mode[0].version_number, "5.99.3") == 0);
	CHECK(strcmp(joined(&setup.row[0].argv), name("%s/bin/bash script.sh", top)) ==
	      0);
	end();
}

TEST(of_all_python_is_the_first)
{
	begin("auto");
	make_bash();
	make_node("v20.1.2");
	make_go();
	make_python();
	CHECK(find() == 0 && m.count == 1 && m.mode[0].id == MODE_PYTHON);
	end();
}

TEST(none_is_an_error)
{
	begin(NULL);
	CHECK(find() == -1 && m.count == 0);
	CHECK(strcmp(e.text, "no supported runtime found in PATH "
			     "(tried: python3, go, node, bash)") == 0);
	unsetenv("PATH");
	CHECK(find() == -1);
	setenv("PATH", "::relative:", 1);
	CHECK(find() == -1);
	end();
}

TEST(what_is_no_executable_file_is_not_found)
{
	begin(NULL);
	make_file(name("%s/bin/python3/inner", top), "");
	make_file(name("%s/bin/go", top), "");
	chmod(name("%s/bin/go", top), 0644);
	make_bash();
	CHECK(find() == 0 && m.mode[0].id == MODE_SHELL);
	end();
}

TEST(a_broken_runtime_is_skipped_unless_it_was_named)
{
	begin(NULL);
	make_file(name("%s/bin/python3", top), "#!/bin/sh\necho Python 3.1\nexit 1\n");
	make_file(name("%s/bin/go", top), "#!/nowhere/interpreter\n");
	make_file(name("%s/bin/node", top), "#!/bin/sh\nexit 0\n"); /* says nothing */
	make_bash();
	CHECK(find() == 0 && m.mode[0].id == MODE_SHELL);
	modes_done(&m);
	s.mode = strdup("python");
	CHECK(find() == -1);
	CHECK(strcmp(e.text, "mode=python but 'python3' does not run") == 0);
	free(s.mode);
	s.mode = strdup("golang");
	CHECK(find() == -1);
	CHECK(strcmp(e.text, "mode=golang but 'go' does not run") == 0);
	free(s.mode);
	s.mode = strdup("node");
	CHECK(find() == -1);
	CHECK(strcmp(e.text, "mode=node but 'node' does not run") == 0);
	end();
}

TEST(a_runtime_that_has_a_version_and_no_place_is_broken)
{
	begin("python");
	make_file(name("%s/bin/python3", top),
		  "#!/bin/sh\n[ \"$1\" = --version ] && echo Python 3.1\nexit 0\n");
	CHECK(find() == -1);
	CHECK(strcmp(e.text, "mode=python but 'python3' does not run") == 0);
	end();
}

TEST(a_runtime_that_hangs_is_given_up)
{
	struct timespec t0, t1;

	begin(NULL);
	make_file(name("%s/bin/python3", top), "#!/bin/sh\nexec /bin/sleep 1000\n");
	make_bash();
	clock_gettime(CLOCK_MONOTONIC, &t0);
	CHECK(find() == 0 && m.mode[0].id == MODE_SHELL);
	clock_gettime(CLOCK_MONOTONIC, &t1);
	CHECK(t1.tv_sec - t0.tv_sec >= 4 && t1.tv_sec - t0.tv_sec <= 8);
	end();
}

TEST(a_named_mode_that_is_absent_is_an_error)
{
	begin("golang");
	make_python();
	CHECK(find() == -1);
	CHECK(strcmp(e.text, "mode=golang but 'go' not found in PATH") == 0);
	free(s.mode);
	s.mode = strdup("ruby");
	CHECK(find() == -1);
	CHECK(strcmp(e.text, "unsupported mode \"ruby\" "
			     "(supported: python, golang, node, shell)") == 0);
	free(s.mode);
	s.mode = strdup("python,");
	CHECK(find() == -1);
	CHECK(strncmp(e.text, "unsupported mode \"\"", 19) == 0);
	free(s.mode);
	s.mode = strdup("python,ruby");
	CHECK(find() == -1);
	CHECK(strncmp(e.text, "unsupported mode \"ruby\"", 23) == 0);
	end();
}

TEST(a_list_serves_all_of_it_the_first_by_default)
{
	unsigned row = 9;

	begin("shell,python,shell");
	make_python();
	make_bash();
	CHECK(find() == 0 && m.count == 2 && setup.rows == 2);
	CHECK(m.mode[0].id == MODE_SHELL && m.mode[1].id == MODE_PYTHON);
	CHECK(modes_for_language(&m, NULL, &row, &e) == &m.mode[0] && row == 0);
	CHECK(modes_for_language(&m, "py", &row, &e) == &m.mode[1] && row == 1);
	CHECK(modes_for_language(&m, "python", &row, &e) == &m.mode[1]);
	CHECK(modes_for_language(&m, "bash", &row, &e) == &m.mode[0]);
	CHECK(modes_for_language(&m, "sh", &row, &e) == &m.mode[0] && row == 0);
	row = 9;
	CHECK(!modes_for_language(&m, "js", &row, &e) && row == 9);
	CHECK(err_status(&e) == 400 && strcmp(e.code, "unsupported_language") == 0);
	CHECK(strcmp(e.text, "unsupported language \"js\" (supported: shell, python)") ==
	      0);
	CHECK(!modes_for_language(&m, "cobol", &row, &e));
	CHECK(!modes_for_language(&m, "", &row, &e));
	end();
}

static void expect_typescript(const char *version, const char *flags)
{
	unsigned row = 9;

	make_node(version);
	CHECK(find() == 0);
	if (!flags) {
		CHECK(m.mode[0].typescript_row == -1 && setup.rows == 1);
		CHECK(!modes_for_language(&m, "ts", &row, &e));
		CHECK(err_status(&e) == 400 &&
		      strstr(e.text, "needs node 22.6 or later"));
	} else {
		CHECK(m.mode[0].typescript_row == 1 && setup.rows == 2);
		CHECK(modes_for_language(&m, "typescript", &row, &e) == &m.mode[0] &&
		      row == 1);
		CHECK(modes_for_language(&m, "javascript", &row, &e) == &m.mode[0] &&
		      row == 0);
		CHECK(strcmp(setup.row[1].script, "script.ts") == 0);
		CHECK(strcmp(joined(&setup.row[1].argv),
			     name("%s/nodejs/bin/node%s script.ts", top, flags)) == 0);
	}
	modes_done(&m);
}

/* what runs need is not hidden with the packages, nor are those shown with it */
TEST(a_runtime_in_a_directory_of_packages_turns_installs_from_it_off)
{
	static const bool inside[] = {false, true};

	begin("python,golang");
	make_python();
	make_file(name("%s/bin/uv", top), "\177ELF");
	make_file(name("%s/wheels/x", top), "");
	free(s.python_index);
	s.python_index = strdup(name("%s/wheels", top));
	for (size_t i = 0; i < 2; i++) {
		const char *root = name("%s%s/go", top, inside[i] ? "/wheels" : "");

		make_file(name("%s/bin/go", root), "#!/bin/sh\n");
		make_file(name("%s/bin/go", top),
			  name("#!/bin/sh\ncase $1 in version)\n"
			       "echo go version go1.99.2 linux/amd64; exit ;; esac\n"
			       "echo %s\n",
			       root));
		CHECK(find() == 0 && m.count == 2);
		CHECK(is_bound(root) && is_bound(name("%s/wheels", top)) == !inside[i]);
		CHECK((m.mode[0].install_row < 0) == inside[i]);
		CHECK(!inside[i] == !m.mode[0].no_installer);
		CHECK(!inside[i] || strstr(m.mode[0].no_installer, "for installs alone"));
		modes_done(&m);
	}
	settings_done(&s);
}

TEST(typescript_depends_on_the_version_of_node)
{
	static const char plain[] = " --disable-warning=ExperimentalWarning";
	static const char flagged[] =
		" --experimental-strip-types --disable-warning=ExperimentalWarning";

	begin("node");
	expect_typescript("v20.20.2", NULL);
	expect_typescript("v22.5.1", NULL);
	expect_typescript("v22.6.0", flagged);
	expect_typescript("v22.17.9", flagged);
	expect_typescript("v22.18.0", plain);
	expect_typescript("v23.0.0", flagged);
	expect_typescript("v23.5.0", flagged);
	expect_typescript("v23.6.0", plain);
	expect_typescript("v24.0.0", plain);
	expect_typescript("v100.0.0", plain);
	expect_typescript("odd", NULL);
	end();
}

TEST(limits_are_the_modes_own_unless_set)
{
	begin("python,golang");
	make_python();
	make_go();
	CHECK(find() == 0);
	CHECK(m.mode[0].defaults.memory_mb == 512 && m.mode[0].defaults.pids == 64);
	CHECK(m.mode[0].defaults.disk_mb == 256 && m.mode[0].defaults.wall_ms == 30000);
	CHECK(m.mode[0].defaults.cpu_ms == 30000 && m.mode[0].defaults.output_kb == 10);
	CHECK(m.mode[1].defaults.memory_mb == 2048 && m.mode[1].defaults.pids == 256);
	CHECK(m.mode[1].defaults.disk_mb == 1024);
	CHECK(setup.row[0].ceiling.wall_ms == 300000 &&
	      setup.row[0].ceiling.cpu_ms == 300000);
	CHECK(setup.row[0].ceiling.memory_mb == 512 &&
	      setup.row[1].ceiling.memory_mb == 2048);
	modes_done(&m);
	s.memory_mb = 100;
	s.disk_mb = 90;
	s.pids = 5;
	s.cpu_sec = 7;
	CHECK(find() == 0);
	CHECK(m.mode[1].defaults.memory_mb == 100 && m.mode[1].defaults.disk_mb == 50);
	CHECK(m.mode[1].defaults.pids == 5 && m.mode[1].defaults.cpu_ms == 7000);
	CHECK(setup.row[1].ceiling.cpu_ms == 7000 && setup.row[1].ceiling.disk_mb == 50);
	end();
}

TEST(a_runtime_in_a_home_itself_is_bound_in_pieces)
{
	begin("node");
	make_node("v20.1.2");
	setenv("HOME", name("%s/nodejs", top), 1);
	CHECK(find() == 0);
	CHECK(!is_bound(name("%s/nodejs", top)));
	CHECK(is_bound(name("%s/nodejs/bin/node", top)));
	CHECK(is_bound(name("%s/nodejs/lib/node_modules", top)));
	modes_done(&m);
	make_go();
	setenv("HOME", name("%s/go", top), 1);
	free(s.mode);
	s.mode = strdup("golang");
	CHECK(find() == -1 && strstr(e.text, "is not a directory of its own"));
	end();
}

/* whatever is really installed here */
TEST(the_runtimes_of_this_machine_describe_themselves)
{
	static const char *const modes[] = {"python", "golang", "node", "shell"};
	const char *path = getenv("PATH");
	unsigned found = 0;

	path = strdup(path ? path : "");
	begin(NULL);
	setenv("PATH", path, 1);
	setenv("HOME", "/root", 1);
	for (size_t i = 0; i < 4; i++) {
		free(s.mode);
		s.mode = strdup(modes[i]);
		if (modes_find(&m, &s, &setup, &e) < 0) {
			fprintf(stderr, "# %s\n", e.text);
			CHECK(strstr(e.text, "not found in PATH"));
			continue;
		}
		found++;
		fprintf(stderr, "# %s: %s\n", m.mode[0].runtime_version,
			joined(&setup.row[0].argv));
		CHECK(binds_cover(&setup, setup.row[0].argv.text));
		CHECK(access(setup.row[0].argv.text, X_OK) == 0);
		modes_done(&m);
	}
	CHECK(found > 0);
	free((char *)path);
	end();
}

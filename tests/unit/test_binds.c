/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_binds.c - what of the host a run may see
 */
#include <errno.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "base/err.h"
#include "config/binds.h"
#include "tap.h"
#include "tree_fixture.h"
#include "wire/setup.h"

static struct setup setup;
static struct err e;

static void begin(void)
{
	make_top();
	setenv("HOME", "/nowhere", 1);
}

static bool is_bound(const char *path)
{
	for (unsigned i = 0; i < setup.binds; i++)
		if (strcmp(setup.bind[i].path, path) == 0)
			return true;
	return false;
}

static void add(const char *path)
{
	CHECK(binds_add(&setup, path, &e) == 0);
}

TEST(of_nested_paths_the_outer_one_is_bound)
{
	begin();
	make_file(name("%s/a/b/c", top), "");
	make_file(name("%s/ab/c", top), "");
	add(name("%s/a/b", top));
	add(name("%s/ab", top));
	add(name("%s/a/b/c", top));
	CHECK(setup.binds == 2);
	add(name("%s/a", top));
	add(name("%s/none", top));
	CHECK(setup.binds == 2 && is_bound(name("%s/a", top)) &&
	      is_bound(name("%s/ab", top)));
	CHECK(!is_bound(name("%s/a/b", top)));
	CHECK(binds_cover(&setup, name("%s/a/x", top)) && !binds_cover(&setup, top));
}

TEST(homes_and_what_holds_them_are_never_bound)
{
	static const char *const bad[] = {"/", "/home", "/root", "/var", "/etc"};

	begin();
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK(binds_tree(&setup, bad[i], &e) <= 0 && setup.binds == 0);
	make_file(name("%s/people/me/.local/share/x", top), "");
	make_file(name("%s/people/me/.pyenv/x", top), "");
	setenv("HOME", name("%s/people/me", top), 1);
	CHECK(binds_tree(&setup, top, &e) == 0);
	CHECK(binds_tree(&setup, name("%s/people", top), &e) == 0);
	CHECK(binds_tree(&setup, name("%s/people/me", top), &e) == 0);
	CHECK(binds_tree(&setup, name("%s/people/me/.local", top), &e) == 0);
	CHECK(setup.binds == 0);
	CHECK(binds_tree(&setup, name("%s/people/me/.pyenv", top), &e) == 1);
	CHECK(setup.binds == 1);
}

TEST(a_home_by_another_name_is_none_either)
{
	begin();
	make_file(name("%s/me/x", top), "");
	setenv("HOME", name("%s/me", top), 1);
	CHECK(symlink(name("%s/me", top), name("%s/link", top)) == 0);
	CHECK(binds_tree(&setup, name("%s/link", top), &e) == 0 && setup.binds == 0);
}

TEST(a_tree_is_bound_under_both_its_names)
{
	begin();
	make_file(name("%s/real/x", top), "");
	CHECK(symlink("real", name("%s/link", top)) == 0);
	CHECK(binds_tree(&setup, name("%s/link", top), &e) == 1);
	CHECK(setup.binds == 2 && is_bound(name("%s/link", top)));
	CHECK(is_bound(name("%s/real", top)));
	CHECK(binds_tree(&setup, name("%s/link/../link/.", top), &e) == 1 &&
	      setup.binds == 2);
}

TEST(every_link_to_a_program_is_bound)
{
	begin();
	make_file(name("%s/venv/bin/x", top), "");
	make_file(name("%s/hop/x", top), "");
	make_file(name("%s/real/python", top), "");
	CHECK(symlink("../real/python", name("%s/hop/python", top)) == 0);
	CHECK(symlink(name("%s/hop/python", top), name("%s/venv/bin/python", top)) == 0);
	add(name("%s/venv", top));
	CHECK(binds_program(&setup, name("%s/venv/bin/python", top), &e) == 0);
	CHECK(setup.binds == 3 && is_bound(name("%s/hop/python", top)));
	CHECK(is_bound(name("%s/real/python", top)));
	CHECK(binds_program(&setup, name("%s/none", top), &e) == -1);
}

static bool is_for_installs(const char *path)
{
	for (unsigned i = 0; i < setup.binds; i++)
		if (strcmp(setup.bind[i].path, path) == 0)
			return setup.bind[i].installs;
	return false;
}

TEST(a_directory_of_packages_is_for_installs_unless_runs_see_it_anyway)
{
	begin();
	make_file(name("%s/python/bin/x", top), "");
	make_file(name("%s/python/wheels/x", top), "");
	make_file(name("%s/wheels/more/x", top), "");
	make_file(name("%s/cache/x", top), "");
	add(name("%s/python", top));
	CHECK(binds_packages(&setup, top, &e) == 0 && setup.binds == 1);
	CHECK(binds_packages(&setup, "/etc", &e) == 0 && setup.binds == 1);
	CHECK(binds_packages(&setup, name("%s/python/wheels", top), &e) == 1);
	CHECK(setup.binds == 1 && !is_for_installs(name("%s/python", top)));
	CHECK(binds_packages(&setup, name("%s/wheels", top), &e) == 1);
	CHECK(binds_packages(&setup, name("%s/wheels/more", top), &e) == 1);
	CHECK(binds_packages(&setup, name("%s/cache", top), &e) == 1);
	CHECK(setup.binds == 3 && is_for_installs(name("%s/wheels", top)));
	CHECK(is_for_installs(name("%s/cache", top)));
	/* seen by all, a runtime in it would make the rest seen, too */
	CHECK(binds_tree(&setup, name("%s/wheels/more", top), &e) == -1);
	CHECK(strstr(e.text, name("%s/wheels/more", top)) && strstr(e.text, "installs"));
	CHECK(binds_program(&setup, name("%s/wheels/more/x", top), &e) == -1);
	CHECK(setup.binds == 3 && is_for_installs(name("%s/wheels", top)));
	add(name("%s/wheels", top));
	CHECK(setup.binds == 3 && !is_for_installs(name("%s/wheels", top)));
	add(name("%s", top));
	CHECK(setup.binds == 1 && !is_for_installs(top));
}

TEST(directories_of_packages_can_be_dropped)
{
	begin();
	make_file(name("%s/python/x", top), "");
	make_file(name("%s/wheels/more/x", top), "");
	add(name("%s/python", top));
	CHECK(!binds_drop_packages(&setup) && setup.binds == 1);
	CHECK(binds_packages(&setup, name("%s/wheels", top), &e) == 1);
	CHECK(binds_drop_packages(&setup) && setup.binds == 1);
	CHECK(is_bound(name("%s/python", top)));
	add(name("%s/wheels/more", top));
	CHECK(setup.binds == 2 && !is_for_installs(name("%s/wheels/more", top)));
}

TEST(what_a_run_has_of_its_own_cannot_hold_a_runtime)
{
	char dir[] = "/tmp/test_binds.XXXXXX";

	begin();
	CHECK(mkdtemp(dir));
	CHECK(binds_tree(&setup, dir, &e) == -1);
	CHECK(strstr(e.text, "a run has a /tmp of its own"));
	CHECK(setup.binds == 0);
	rmdir(dir);
}

TEST(the_systems_own_files_are_few)
{
	static const char *const never[] = {
		"/etc",         "/etc/passwd",      "/etc/group",
		"/etc/shadow",  "/etc/resolv.conf", "/etc/hosts",
		"/etc/hostname"};

	begin();
	CHECK(binds_system(&setup, &e) == 0);
	CHECK(is_bound("/usr"));
	for (size_t i = 0; i < sizeof(never) / sizeof(never[0]); i++)
		CHECK(!binds_cover(&setup, never[i]));
	CHECK(!binds_cover(&setup, "/etc/ssl/private"));
	for (unsigned i = 0; i < setup.binds; i++) {
		struct stat st;

		CHECK(stat(setup.bind[i].path, &st) == 0);
	}
}

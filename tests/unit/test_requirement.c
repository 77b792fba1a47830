/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_requirement.c - what installers may be told, and in which one form
 */
#include "api/requirement.h"

#include <stdbool.h>
#include <string.h>

#include "../tap.h"
#include "base/err.h"

typedef int (*reader)(const char *text, size_t len, char *out, struct err *e);

static bool becomes(reader read, const char *text, const char *form)
{
	char out[REQUIREMENT_ROOM] = "untouched";
	struct err e = {0};

	if (read(text, strlen(text), out, &e) == 0)
		return strcmp(out, form) == 0;
	return false;
}

static bool refused(reader read, const char *text, size_t len)
{
	char out[REQUIREMENT_ROOM] = "untouched";
	struct err e = {0};

	return read(text, len, out, &e) < 0 && err_status(&e) == 400 &&
	       strcmp(e.code, "bad_requirement") == 0 && strcmp(out, "untouched") == 0;
}

TEST(python_requirements_have_one_form)
{
	static const char *const rows[][2] = {
		{"six", "six"},
		{"  Six\t", "six"},
		{"Flask_Login", "flask-login"},
		{"zope.._-interface", "zope-interface"},
		{"a", "a"},
		{"requests[security,socks]>=2.0,<3", "requests[security,socks]<3,>=2.0"},
		{"requests [ socks , Security ] <3 , >= 2.0",
		 "requests[security,socks]<3,>=2.0"},
		{"requests[]", "requests"},
		{"six (>=1.0,!=1.5.*)", "six!=1.5.*,>=1.0"},
		{"six==1.16.0,==1.16.0", "six==1.16.0"},
		{"six~=1.0", "six~=1.0"},
		{"six===1.0-weird", "six===1.0-weird"},
		{"six==1!2.0.post1+local.1", "six==1!2.0.post1+local.1"},
		{"six==v1.0", "six==v1.0"},
		{"six>=1.0.RC-1", "six>=1.0.RC-1"},
		{"six>=1a.dev1", "six>=1a.dev1"},
		{"six>=2.0-alpha.1", "six>=2.0-alpha.1"},
		{"six==1.0-2.dev3+u.b-1", "six==1.0-2.dev3+u.b-1"},
		{"six!=2024.10.1.post0.*", "six!=2024.10.1.post0.*"},
		{"six===1.0.tar.gz", "six===1.0.tar.gz"},
		{"six;python_version<'3.12'", "six ; python_version < \"3.12\""},
		{"six>=1 ; ( os_name == \"posix\" or 'linux' in sys_platform ) and "
		 "python_version not  in '2.7 3.0'",
		 "six>=1 ; (os_name == \"posix\" or \"linux\" in sys_platform) and "
		 "python_version not in \"2.7 3.0\""},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		CHECK(becomes(requirement_python, rows[i][0], rows[i][1]));
}

TEST(python_options_addresses_paths_and_shell_are_refused)
{
	static const char *const rows[] = {
		"",
		" ",
		"-r /etc/passwd",
		"--index-url=http://evil",
		"-e .",
		"-six",
		"git+https://example.org/a.git",
		"file:///etc/passwd",
		"/etc/passwd",
		"./six",
		"../six",
		"six.whl/x",
		"https://example.org/six.whl",
		"six @ https://example.org/six.whl",
		"six@file:///x",
		"pkg; os.system",
		"pkg; os.system('id')",
		"$(id)",
		"six$(id)",
		"six`id`",
		"six|id",
		"six&id",
		"six\nflask",
		"six flask",
		"six,flask",
		"six>",
		"six>=",
		"six=1",
		"six==*",
		"six>=1.*",
		"six==1.*.2",
		"six~=1",
		"six==1.0.tar.gz",
		"six==one",
		"six==1.0.whl",
		"six>=1..0",
		"six==1!",
		"six==1!2!3",
		"six==1.0+a..b",
		"six==1.0+a+b",
		"six==1.0rc1rc2",
		"six==1.0;",
		"six;",
		"six[",
		"six[a",
		"six[a,]",
		"six[-a]",
		"_six",
		"six_",
		".six",
		"six==1.0 --hash=sha256:00",
		"six;python_version<'3';x",
		"six;'a'=='a'",
		"six;python_version<3",
		"six;python_version<'$(id)'",
		"six;(python_version<'3'",
		"six;((((((((((python_version<'3'))))))))))",
		"six>=1,,<2",
		"six(>=1",
		"s\xc3\xa9x",
		"six==1.0\\",
		"six #comment",
	};
	char longest[REQUIREMENT_MOST + 2];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		CHECK(refused(requirement_python, rows[i], strlen(rows[i])));
	CHECK(refused(requirement_python, "six\0x", 5));
	memset(longest, 'a', sizeof(longest));
	CHECK(refused(requirement_python, longest, 101));
	CHECK(refused(requirement_python, longest, sizeof(longest)));
}

TEST(npm_requirements_have_one_form)
{
	static const char *const rows[][2] = {
		{"left-pad", "left-pad"},
		{"JSONStream", "JSONStream"},
		{"@types/node", "@types/node"},
		{"@types/node@20", "@types/node@20"},
		{"left-pad@1.3.0", "left-pad@1.3.0"},
		{"left-pad@v1.3.0-rc.1+b.2", "left-pad@v1.3.0-rc.1+b.2"},
		{"left-pad@^1.2", "left-pad@^1.2"},
		{"left-pad@>=1  <2", "left-pad@>=1 <2"},
		{"left-pad@>= 1 < 2.x", "left-pad@>=1 <2.x"},
		{"left-pad@1.x||~2.1", "left-pad@1.x || ~2.1"},
		{"left-pad@1.0.0 - 2.0.0", "left-pad@1.0.0 - 2.0.0"},
		{"left-pad@*", "left-pad@*"},
		{"left-pad@latest", "left-pad@latest"},
		{"left-pad@next-11", "left-pad@next-11"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		CHECK(becomes(requirement_npm, rows[i][0], rows[i][1]));
}

TEST(npm_options_addresses_paths_and_shell_are_refused)
{
	static const char *const rows[] = {
		"",
		" ",
		" left-pad",
		"-g",
		"--registry=http://evil",
		"-left",
		"./left",
		"../left",
		"/etc/passwd",
		"~/left",
		"left/pad",
		"left-pad.tgz",
		"a.tar.gz",
		"left-pad@x.tgz",
		"left-pad@file:x",
		"left-pad@npm:right-pad@1",
		"git+ssh://example.org/a",
		"https://example.org/a.tgz",
		"user/repo",
		"github:user/repo",
		"left-pad@user/repo",
		"left-pad@git+https://x",
		"left-pad@http://x",
		"@types",
		"@types/",
		"@/node",
		"@types/node/x",
		"@-a/b",
		"left-pad@",
		"left-pad@1 -",
		"left-pad@|| 1",
		"left-pad@1 ||",
		"left-pad@>",
		"left-pad@1.2.3.4",
		"left-pad@$(id)",
		"left-pad;id",
		"left-pad@1;id",
		"left-pad`id`",
		"left-pad\nx",
		"left-pad x",
		".hidden",
		"_left",
		"left-pad@../x",
		"left-pad@.",
		"left-pad@1-rc",
		"l\xc3\xbdst",
		"left-pad@1.0.0-",
		"left-pad@>>>1",
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		CHECK(refused(requirement_npm, rows[i], strlen(rows[i])));
	CHECK(refused(requirement_npm, "left\0pad", 8));
	CHECK(refused(requirement_npm,
		      "left@\0"
		      "1",
		      7));
	CHECK(refused(requirement_npm, "left@a\0", 7));
}

TEST(a_refusal_names_the_element)
{
	char out[REQUIREMENT_ROOM];
	struct err e = {0};

	CHECK(requirement_python("-r x", 4, out, &e) < 0);
	CHECK(strstr(e.text, "\"-r x\""));
	CHECK(requirement_npm("a\nb", 3, out, &e) < 0);
	CHECK(strstr(e.text, "\"a?b\""));
}

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_policy.c - policy files to rules, and their mistakes with file and line
 */
#include <errno.h>
#include <sys/stat.h>

#include "base/err.h"
#include "config/embedded.h"
#include "config/policy.h"
#include "tap.h"

static struct err e;

static struct policy *parse(const char *text)
{
	memset(&e, 0, sizeof(e));
	return policy_parse("p.json", text, strlen(text), &e);
}

static void expect_error(const char *text, const char *message)
{
	struct policy *p = parse(text);

	if (!p && strcmp(e.text, message) != 0)
		fprintf(stderr, "# got: %s\n# not: %s\n", e.text, message);
	CHECK(!p && e.kind == ERR_THEIRS);
	CHECK(strcmp(e.text, message) == 0);
}

#define HEAD                                                           \
	"{\"defaultAction\": \"SCMP_ACT_ERRNO\",\n\"architectures\": " \
	"[\"SCMP_ARCH_X86_64\", \"SCMP_ARCH_AARCH64\"],\n\"syscalls\": [\n"
#define TAIL "]}\n"
#define RULE(rest) HEAD "{\"names\": [\"read\"], " rest "}\n" TAIL
#define ALLOW "\"action\": \"SCMP_ACT_ALLOW\""
#define ERRNO "\"action\": \"SCMP_ACT_ERRNO\""

TEST(a_rule_of_several_names_becomes_several)
{
	struct policy *p = parse(
		HEAD "{\"comment\": \"x\", \"names\": [\"read\",\n\"462\", "
		     "\"mseal\"], " ALLOW "},\n"
		     "{\"names\": [\"clone\"], " ERRNO ", \"errnoRet\": 13, "
		     "\"args\": [{\"index\": 0, \"value\": 131072, "
		     "\"valueTwo\": 131072, \"op\": \"SCMP_CMP_MASKED_EQ\"}]}" TAIL);

	CHECK(p);
	CHECK(p->default_action == POLICY_ERRNO && p->default_errno == EPERM);
	CHECK(p->archs == (POLICY_X86_64 | POLICY_AARCH64));
	CHECK(p->rules == 3); /* 462 is mseal: once is enough */
	CHECK(strcmp(p->rule[0].name, "read") == 0 && p->rule[0].line == 4);
	CHECK(strcmp(p->rule[1].name, "462") == 0 && p->rule[1].line == 5);
	CHECK(p->rule[1].number == 462 && p->rule[1].action == POLICY_ALLOW);
	CHECK(p->rule[2].errno_ret == 13 && p->rule[2].args == 1);
	CHECK(p->rule[2].arg[0].op == POLICY_MASKED_EQ);
	CHECK(p->rule[2].arg[0].value == 131072 && p->rule[2].arg[0].value_two == 131072);
	policy_free(p);
}

TEST(numbers_keep_all_of_their_64_bits)
{
	struct policy *p = parse(RULE(ALLOW
				      ", \"args\": [{\"index\": 5, \"value\": "
				      "18446744073709551615, \"op\": \"SCMP_CMP_EQ\"}]"));

	CHECK(p && p->rule[0].arg[0].value == UINT64_MAX && p->rule[0].arg[0].index == 5);
	policy_free(p);
	expect_error(RULE(ALLOW ", \"args\": [{\"index\": 5, \"value\": "
				"18446744073709551616, \"op\": \"SCMP_CMP_EQ\"}]"),
		     "p.json:4: a number above 18446744073709551615");
}

TEST(unknown_words_are_named_with_their_line)
{
	expect_error(HEAD "{\"names\": [\"read\",\n\"raed\"], " ALLOW "}" TAIL,
		     "p.json:5: unknown system call \"raed\"");
	expect_error(RULE("\n\"action\": \"SCMP_ACT_FOO\""),
		     "p.json:5: unknown action \"SCMP_ACT_FOO\"");
	expect_error(RULE(ALLOW ",\n\"includes\": {}"),
		     "p.json:5: unknown key \"includes\"");
	expect_error(
		RULE(ALLOW ", \"args\": [{\"index\": 0, \"value\": 1, \"op\": \"EQ\"}]"),
		"p.json:4: unknown operator \"EQ\"");
	expect_error("{\n\"flags\": []}", "p.json:2: unknown key \"flags\"");
	expect_error("{\"architectures\": [\n\"SCMP_ARCH_X32\"]}",
		     "p.json:2: unknown architecture \"SCMP_ARCH_X32\"");
	expect_error(RULE(ALLOW ", \"args\": [{\"indx\": 0}]"),
		     "p.json:4: unknown key \"indx\"");
	expect_error(HEAD "{\"names\": [\"1024\"], " ALLOW "}" TAIL,
		     "p.json:4: unknown system call \"1024\"");
	expect_error(HEAD "{\"names\": [\"\"], " ALLOW "}" TAIL,
		     "p.json:4: unknown system call \"\"");
}

TEST(a_contradiction_is_an_error)
{
	expect_error(HEAD "{\"names\": [\"read\"], " ALLOW
			  "},\n{\"names\": [\"read\"], " ERRNO "}" TAIL,
		     "p.json:5: \"read\" has another action in line 4");
	expect_error(HEAD "{\"names\": [\"mseal\"], " ALLOW
			  "},\n{\"names\": [\"462\"], " ERRNO "}" TAIL,
		     "p.json:5: \"462\" has another action in line 4");
	expect_error(HEAD "{\"names\": [\"read\"], " ALLOW
			  "},\n{\"names\": [\"read\"], " ERRNO
			  ", \"args\": [{\"index\": 0, \"value\": 1, "
			  "\"op\": \"SCMP_CMP_EQ\"}]}" TAIL,
		     "p.json:5: \"read\" has a rule without a condition in line 4");
	expect_error(RULE(ALLOW ", \"args\": [{\"index\": 0, \"value\": 1, \"op\": "
				"\"SCMP_CMP_GE\"}, {\"index\": 0, \"value\": 9, \"op\": "
				"\"SCMP_CMP_LE\"}]"),
		     "p.json:4: argument 0 twice in one rule");
}

TEST(saying_the_same_twice_is_not)
{
	struct policy *p = parse(HEAD "{\"names\": [\"read\", \"read\"], " ALLOW
				      "},\n{\"names\": [\"read\"], " ALLOW "}" TAIL);

	CHECK(p && p->rules == 1);
	policy_free(p);
}

TEST(what_does_not_belong_together_is_an_error)
{
	expect_error(RULE(ALLOW ", \"errnoRet\": 1"),
		     "p.json:4: errnoRet is for SCMP_ACT_ERRNO only");
	expect_error(RULE(ERRNO ", \"errnoRet\": 4096"), "p.json:4: a number above 4095");
	expect_error(RULE(ALLOW ", " ALLOW), "p.json:4: \"action\" twice");
	expect_error(HEAD "{" ALLOW "}" TAIL, "p.json:4: \"names\" is missing");
	expect_error(HEAD "{\"names\": [], " ALLOW "}" TAIL,
		     "p.json:4: \"names\" is empty");
	expect_error(RULE("\"comment\": \"x\""), "p.json:4: \"action\" is missing");
	expect_error(RULE(ALLOW ", \"args\": [{\"index\": 0, \"value\": 1}]"),
		     "p.json:4: \"op\" is missing");
	expect_error(RULE(ALLOW ", \"args\": [{\"index\": 6, \"value\": 1, \"op\": "
				"\"SCMP_CMP_EQ\"}]"),
		     "p.json:4: a number above 5");
	expect_error(RULE(ALLOW
			  ", \"args\": [{\"index\": 0, \"value\": 1, \"valueTwo\": 1, "
			  "\"op\": \"SCMP_CMP_EQ\"}]"),
		     "p.json:4: valueTwo is for SCMP_CMP_MASKED_EQ only");
	expect_error(RULE(ALLOW
			  ", \"args\": [{\"index\": 0, \"value\": 1, \"valueTwo\": 2, "
			  "\"op\": \"SCMP_CMP_MASKED_EQ\"}]"),
		     "p.json:4: valueTwo has bits that the mask lacks");
	expect_error("{\"defaultAction\": \"SCMP_ACT_ALLOW\", \"defaultErrnoRet\": 1, "
		     "\"architectures\": [], \"syscalls\": []}",
		     "p.json:1: defaultErrnoRet is for SCMP_ACT_ERRNO only");
}

TEST(text_that_is_not_json_is_an_error)
{
	expect_error("", "p.json:1: expected '{', not the end of the file");
	expect_error("[]", "p.json:1: expected '{', not '['");
	expect_error("{}", "p.json:1: \"defaultAction\" is missing");
	expect_error("{\"a", "p.json:1: a string without an end");
	expect_error("{\"defaultAction\"}", "p.json:1: expected ':', not '}'");
	expect_error("{\"defaultAction\": 1}", "p.json:1: expected a string, not '1'");
	expect_error("{\n,}", "p.json:2: expected a string, not ','");
	expect_error(HEAD "{\"names\": [\"read\",]", "p.json:4: a comma before ']'");
	expect_error(HEAD "{\"names\": [\"read\" \"write\"]",
		     "p.json:4: expected ',' or ']', not '\"'");
	expect_error(HEAD "{\"names\": [\"re\\u0061d\"]",
		     "p.json:4: an escape that is not supported");
	expect_error(HEAD "{\"names\": [\"re\tad\"]",
		     "p.json:4: a control character in a string");
	expect_error(RULE(ERRNO ", \"errnoRet\": 01"),
		     "p.json:4: a number that begins with 0");
	expect_error(RULE(ERRNO ", \"errnoRet\": 1.5"),
		     "p.json:4: a number that is not whole");
	expect_error(RULE(ERRNO ", \"errnoRet\": -1"),
		     "p.json:4: expected a number from 0, not '-'");
	expect_error(HEAD TAIL "\n{}", "p.json:6: expected the end of the file, not '{'");
	expect_error(HEAD "\xff", "p.json:4: expected '{', not byte 0xff");
}

TEST(every_cut_of_a_file_is_an_error_and_no_crash)
{
	static const char text[] = RULE(
		ALLOW
		", \"args\": [{\"index\": 0, \"value\": 1, \"op\": \"SCMP_CMP_EQ\"}]");
	struct policy *p;

	for (size_t len = 0; len < sizeof(text) - 2; len++) {
		/* a copy of just these bytes, so that a sanitizer sees what is read
		 * behind them */
		char *cut = malloc(len + 1);

		memcpy(cut, text, len);
		memset(&e, 0, sizeof(e));
		p = policy_parse("p.json", cut, len, &e);
		CHECK(!p && e.kind == ERR_THEIRS);
		free(cut);
	}
}

TEST(the_policies_in_the_binary_load)
{
	CHECK(embedded_policies_count > 0);
	for (size_t i = 0; i < embedded_policies_count; i++) {
		struct policy *p = policy_load(embedded_policies[i].name, &e);

		CHECK(p && p->rules > 0);
		policy_free(p);
	}
	CHECK(!policy_load("none-such", &e));
	CHECK(strstr(e.text, "none-such"));
}

TEST(a_directory_replaces_them)
{
	char dir[] = "/tmp/test_policy.XXXXXX", path[64];
	struct policy *p;
	FILE *f;

	CHECK(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/base.json", dir);
	policy_set_dir(dir);
	CHECK(!policy_load("base", &e) && strstr(e.text, path) &&
	      strstr(e.text, "policy show base"));
	f = fopen(path, "we");
	CHECK(f && fputs(RULE(ALLOW), f) >= 0 && fclose(f) == 0);
	p = policy_load("base", &e);
	CHECK(p && p->rules == 1 && strcmp(p->file, path) == 0);
	policy_free(p);
	f = fopen(path, "we");
	CHECK(f && fputs("\n?", f) >= 0 && fclose(f) == 0);
	p = policy_load("base", &e);
	CHECK(!p && strncmp(e.text, path, strlen(path)) == 0);
	CHECK(strcmp(e.text + strlen(path), ":2: expected '{', not '?'") == 0);
	policy_set_dir(NULL);
	unlink(path);
	rmdir(dir);
}

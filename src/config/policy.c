/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * policy.c - policy/NAME.json (OCI linux.seccomp form) to rules
 *
 * Runs in: the supervisor, once, at start.
 */
#include "config/policy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/defer.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/mem.h"
#include "config/embedded.h"
#include "config/filter.h"
#include "config/policy_text.h"

#define ERRNO_MAX 4095     /* the kernel's MAX_ERRNO */
#define FILE_MAX (1 << 18) /* a policy of ours has 8 KB */
#define DEFAULT_ERRNO 1    /* EPERM, as OCI says */
#define TEXT_MAX 256

static const char *policy_dir;

static const char *const action_names[] = {
	[POLICY_ALLOW] = "SCMP_ACT_ALLOW",
	[POLICY_ERRNO] = "SCMP_ACT_ERRNO",
	[POLICY_KILL_PROCESS] = "SCMP_ACT_KILL_PROCESS",
	[POLICY_LOG] = "SCMP_ACT_LOG",
};

static const char *const op_names[POLICY_OP_COUNT] = {
	[POLICY_NE] = "SCMP_CMP_NE",
	[POLICY_LT] = "SCMP_CMP_LT",
	[POLICY_LE] = "SCMP_CMP_LE",
	[POLICY_EQ] = "SCMP_CMP_EQ",
	[POLICY_GE] = "SCMP_CMP_GE",
	[POLICY_GT] = "SCMP_CMP_GT",
	[POLICY_MASKED_EQ] = "SCMP_CMP_MASKED_EQ",
};

static const char *const arch_names[] = {"SCMP_ARCH_X86_64", "SCMP_ARCH_AARCH64"};

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static int find(const char *const *names, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(names[i], name) == 0)
			return (int)i;
	return -1;
}

/* a string that must be one of `names`: its number */
static int read_one_of(struct policy_text *t, const char *what, const char *const *names,
		       size_t count)
{
	char text[TEXT_MAX];
	int i;

	if (policy_text_string(t, text, sizeof(text)) < 0)
		return -1;
	i = find(names, count, text);
	if (i < 0)
		return policy_text_fail(t, "unknown %s \"%s\"", what, text);
	return i;
}

/*
 * The next key of an object: its number in `keys`, -1 on failure, -2 at the end. `seen`
 * has a bit for every key read so far.
 */
static int next_key(struct policy_text *t, const char *const *keys, size_t count,
		    unsigned *seen)
{
	bool first = *seen == 0;
	int more = policy_text_next(t, '}', &first);
	int key;

	if (more <= 0)
		return more < 0 ? -1 : -2;
	key = read_one_of(t, "key", keys, count);
	if (key < 0)
		return -1;
	if (*seen & 1u << key)
		return policy_text_fail(t, "\"%s\" twice", keys[key]);
	*seen |= 1u << key;
	return policy_text_expect(t, ':') < 0 ? -1 : key;
}

/* what an object must have: `need` is a set of key numbers; `line` is where it began */
static int check_keys(struct policy_text *t, const char *const *keys, unsigned seen,
		      unsigned need, unsigned line)
{
	unsigned missing = need & ~seen;

	if (!missing)
		return 0;
	t->token_line = line;
	return policy_text_fail(t, "\"%s\" is missing", keys[__builtin_ctz(missing)]);
}

enum { ARG_INDEX, ARG_VALUE, ARG_VALUE_TWO, ARG_OP };
static const char *const arg_keys[] = {"index", "value", "valueTwo", "op"};

static int check_arg(struct policy_text *t, const struct policy_arg *a, unsigned line)
{
	t->token_line = line;
	if (a->op != POLICY_MASKED_EQ && a->value_two)
		return policy_text_fail(t, "valueTwo is for SCMP_CMP_MASKED_EQ only");
	if (a->op == POLICY_MASKED_EQ && a->value_two & ~a->value)
		return policy_text_fail(t, "valueTwo has bits that the mask lacks");
	return 0;
}

static int read_arg(struct policy_text *t, struct policy_arg *out)
{
	unsigned seen = 0, line;
	uint64_t n;
	int key, op;

	if (policy_text_expect(t, '{') < 0)
		return -1;
	line = t->token_line;
	while ((key = next_key(t, arg_keys, COUNT(arg_keys), &seen)) >= 0) {
		if (key == ARG_OP) {
			op = read_one_of(t, "operator", op_names, COUNT(op_names));
			if (op < 0)
				return -1;
			out->op = (enum policy_op)op;
			continue;
		}
		if (policy_text_u64(t, key == ARG_INDEX ? 5 : UINT64_MAX, &n) < 0)
			return -1;
		if (key == ARG_INDEX)
			out->index = (unsigned)n;
		else if (key == ARG_VALUE)
			out->value = n;
		else
			out->value_two = n;
	}
	if (key == -1 ||
	    check_keys(t, arg_keys, seen,
		       1u << ARG_INDEX | 1u << ARG_VALUE | 1u << ARG_OP, line) < 0)
		return -1;
	return check_arg(t, out, line);
}

static int read_args(struct policy_text *t, struct policy_rule *r)
{
	struct policy_arg arg;
	bool first = true;
	int more;

	if (policy_text_expect(t, '[') < 0)
		return -1;
	while ((more = policy_text_next(t, ']', &first)) > 0) {
		memset(&arg, 0, sizeof(arg));
		if (read_arg(t, &arg) < 0)
			return -1;
		/* the compiler knows one comparison an argument; two would not mean "and"
		 */
		for (unsigned i = 0; i < r->args; i++)
			if (r->arg[i].index == arg.index)
				return policy_text_fail(
					t, "argument %u twice in one rule", arg.index);
		r->arg[r->args++] = arg; /* six indexes, so never more than six */
	}
	return more;
}

static bool same_args(const struct policy_rule *a, const struct policy_rule *b)
{
	if (a->args != b->args)
		return false;
	for (unsigned i = 0; i < a->args; i++) {
		unsigned j = 0;

		while (j < b->args &&
		       memcmp(&a->arg[i], &b->arg[j], sizeof(a->arg[i])) != 0)
			j++;
		if (j == b->args)
			return false;
	}
	return true;
}

/* a name and a number may mean the same call */
static bool same_call(const struct policy_rule *a, const struct policy_rule *b)
{
	return a->number >= 0 ? a->number == b->number : strcmp(a->name, b->name) == 0;
}

/* add a rule for one call; an earlier one may say the same, but nothing else about it */
static int add_rule(struct policy_text *t, struct policy *p, const struct policy_rule *r)
{
	struct policy_rule *grown;

	for (size_t i = 0; i < p->rules; i++) {
		const struct policy_rule *old = &p->rule[i];

		if (!same_call(old, r))
			continue;
		t->token_line = r->line;
		if (same_args(old, r) && old->action == r->action &&
		    old->errno_ret == r->errno_ret)
			return 0;
		if (same_args(old, r))
			return policy_text_fail(t, "\"%s\" has another action in line %u",
						r->name, old->line);
		if (!old->args || !r->args)
			return policy_text_fail(
				t, "\"%s\" has a rule without a condition in line %u",
				r->name, old->args ? r->line : old->line);
	}
	grown = reallocarray(p->rule, p->rules + 1, sizeof(*grown));
	if (!grown)
		return err_errno(t->e, "read policy '%s'", t->file);
	p->rule = grown;
	p->rule[p->rules++] = *r;
	return 0;
}

struct name_list {
	struct policy_rule *name; /* .name, .number and .line */
	size_t count;
};

static int read_names(struct policy_text *t, struct name_list *out)
{
	struct policy_rule *grown;
	char text[POLICY_NAME];
	bool first = true;
	int more, number;

	if (policy_text_expect(t, '[') < 0)
		return -1;
	while ((more = policy_text_next(t, ']', &first)) > 0) {
		if (policy_text_string(t, text, sizeof(text)) < 0)
			return -1;
		number = filter_number(FILTER_ARCH, text);
		if (number == FILTER_UNKNOWN)
			return policy_text_fail(t, "unknown system call \"%s\"", text);
		grown = reallocarray(out->name, out->count + 1, sizeof(*grown));
		if (!grown)
			return err_errno(t->e, "read policy '%s'", t->file);
		out->name = grown;
		memcpy(grown[out->count].name, text, sizeof(text));
		grown[out->count].number = number;
		grown[out->count++].line = t->token_line;
	}
	if (more == 0 && out->count == 0)
		return policy_text_fail(t, "\"names\" is empty");
	return more;
}

enum { RULE_NAMES, RULE_ACTION, RULE_ERRNO, RULE_ARGS, RULE_COMMENT };
static const char *const rule_keys[] = {"names", "action", "errnoRet", "args", "comment"};

static int read_rule_value(struct policy_text *t, int key, struct policy_rule *r,
			   struct name_list *names)
{
	uint64_t n;
	int i;

	switch (key) {
	case RULE_NAMES:
		return read_names(t, names);
	case RULE_ACTION:
		i = read_one_of(t, "action", action_names, COUNT(action_names));
		if (i >= 0)
			r->action = (enum policy_action)i;
		return i < 0 ? -1 : 0;
	case RULE_ERRNO:
		if (policy_text_u64(t, ERRNO_MAX, &n) < 0)
			return -1;
		r->errno_ret = (unsigned)n;
		return 0;
	case RULE_ARGS:
		return read_args(t, r);
	default:
		return policy_text_string(t, r->comment, sizeof(r->comment));
	}
}

static int read_rule(struct policy_text *t, struct policy *p)
{
	struct policy_rule r = {.errno_ret = DEFAULT_ERRNO};
	struct name_list names = {NULL, 0};
	unsigned seen = 0, line;
	int key, rc = 0;

	if (policy_text_expect(t, '{') < 0)
		return -1;
	line = t->token_line;
	while (rc == 0 && (key = next_key(t, rule_keys, COUNT(rule_keys), &seen)) != -2)
		rc = key < 0 ? -1 : read_rule_value(t, key, &r, &names);
	if (rc == 0)
		rc = check_keys(t, rule_keys, seen, 1u << RULE_NAMES | 1u << RULE_ACTION,
				line);
	if (rc == 0 && seen & 1u << RULE_ERRNO && r.action != POLICY_ERRNO) {
		t->token_line = line;
		rc = policy_text_fail(t, "errnoRet is for SCMP_ACT_ERRNO only");
	}
	for (size_t i = 0; rc == 0 && i < names.count; i++) {
		memcpy(r.name, names.name[i].name, sizeof(r.name));
		r.number = names.name[i].number;
		r.line = names.name[i].line;
		rc = add_rule(t, p, &r);
	}
	free(names.name);
	return rc;
}

static int read_rules(struct policy_text *t, struct policy *p)
{
	bool first = true;
	int more;

	if (policy_text_expect(t, '[') < 0)
		return -1;
	while ((more = policy_text_next(t, ']', &first)) > 0)
		if (read_rule(t, p) < 0)
			return -1;
	return more;
}

static int read_archs(struct policy_text *t, struct policy *p)
{
	bool first = true;
	int more, i;

	if (policy_text_expect(t, '[') < 0)
		return -1;
	while ((more = policy_text_next(t, ']', &first)) > 0) {
		i = read_one_of(t, "architecture", arch_names, COUNT(arch_names));
		if (i < 0)
			return -1;
		p->archs |= 1u << i;
	}
	return more;
}

enum { TOP_ACTION, TOP_ERRNO, TOP_ARCHS, TOP_RULES };
static const char *const top_keys[] = {"defaultAction", "defaultErrnoRet",
				       "architectures", "syscalls"};

static int read_top_value(struct policy_text *t, int key, struct policy *p)
{
	uint64_t n;
	int i;

	switch (key) {
	case TOP_ACTION:
		i = read_one_of(t, "action", action_names, COUNT(action_names));
		if (i >= 0)
			p->default_action = (enum policy_action)i;
		return i < 0 ? -1 : 0;
	case TOP_ERRNO:
		if (policy_text_u64(t, ERRNO_MAX, &n) < 0)
			return -1;
		p->default_errno = (unsigned)n;
		return 0;
	case TOP_ARCHS:
		return read_archs(t, p);
	default:
		return read_rules(t, p);
	}
}

static int read_top(struct policy_text *t, struct policy *p)
{
	unsigned seen = 0;
	int key;

	if (policy_text_expect(t, '{') < 0)
		return -1;
	while ((key = next_key(t, top_keys, COUNT(top_keys), &seen)) != -2)
		if (key < 0 || read_top_value(t, key, p) < 0)
			return -1;
	if (policy_text_end(t) < 0)
		return -1;
	if (check_keys(t, top_keys, seen,
		       1u << TOP_ACTION | 1u << TOP_ARCHS | 1u << TOP_RULES, 1) < 0)
		return -1;
	if (seen & 1u << TOP_ERRNO && p->default_action != POLICY_ERRNO) {
		t->token_line = 1;
		return policy_text_fail(t, "defaultErrnoRet is for SCMP_ACT_ERRNO only");
	}
	return 0;
}

struct policy *policy_parse(const char *file, const char *text, unsigned long len,
			    struct err *e)
{
	struct policy *p = mem_zero(sizeof(*p));
	struct policy_text t;

	p->file = mem_copy(file);
	p->default_errno = DEFAULT_ERRNO;
	policy_text_init(&t, file, text, len, e);
	if (read_top(&t, p) < 0) {
		policy_free(p);
		return NULL;
	}
	return p;
}

void policy_free(struct policy *p)
{
	if (!p)
		return;
	free(p->file);
	free(p->rule);
	free(p);
}

void policy_set_dir(const char *dir)
{
	policy_dir = dir;
}

char *policy_read(const char *path, size_t *out_len, struct err *e)
{
	auto_free char *text = mem_zero(FILE_MAX);
	ssize_t len = fs_read_at(AT_FDCWD, path, text, FILE_MAX);

	if (len < 0) {
		err_errno(e, "read policy '%s'", path);
		return NULL;
	}
	*out_len = (size_t)len;
	return take_ptr(&text);
}

/* one that lacks a file has all that a program was refused by it allowed: so it must be
 * whole, and a later version may have more files */
static char *policy_of_dir(const char *name, const char *path, size_t *out_len,
			   struct err *e)
{
	char *text = policy_read(path, out_len, e);

	if (!text && e && e->num == ENOENT)
		err_bad(e,
			"SANDBOX_POLICY_DIR has no '%s': without that setting "
			"'sandbox-server policy show %s' prints the one of the binary",
			path, name);
	return text;
}

char *policy_find(const char *name, char **out_file, size_t *out_len, struct err *e)
{
	const bool own = strcmp(name, POLICY_SERVER) == 0 ||
			 strcmp(name, POLICY_BROKER) == 0 ||
			 strcmp(name, POLICY_IMAGE) == 0;
	const char *dir = own ? NULL : policy_dir;

	*out_file = mem_printf("%s/%s.json", dir ? dir : "policy", name);
	if (dir)
		return policy_of_dir(name, *out_file, out_len, e);
	for (size_t i = 0; i < embedded_policies_count; i++) {
		if (strcmp(embedded_policies[i].name, name) == 0) {
			*out_len = embedded_policies[i].len;
			return mem_copy_n(embedded_policies[i].text, *out_len);
		}
	}
	err_ours(e, "no policy '%s' in this binary", *out_file);
	return NULL;
}

struct policy *policy_load(const char *name, struct err *e)
{
	auto_free char *file = NULL;
	auto_free char *text = NULL;
	size_t len;

	text = policy_find(name, &file, &len, e);
	return text ? policy_parse(file, text, len, e) : NULL;
}

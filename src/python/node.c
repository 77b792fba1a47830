/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * node.c - arguments of a request, for a node that has started
 *
 * Runs in: node, in the sandbox, while it opens its script: its one thread is in a call
 * that its own code made. process.argv is made by then, and gets the words behind its
 * own. v8 is known by the names of functions that every addon finds there; its handles
 * are pointers, passed and returned as such.
 */
#include "python/node.h"

#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

#define SCOPE_WORDS 8 /* a HandleScope has 3 */

typedef void *handle; /* v8::Local or MaybeLocal; NULL: nothing */

enum { CURRENT, ENTER, LEAVE, CONTEXT, GLOBAL, STRING, GET, SET, LENGTH, NAMES };
static const char *const names[NAMES] = {
	[CURRENT] = "_ZN2v87Isolate10GetCurrentEv",
	[ENTER] = "_ZN2v811HandleScopeC1EPNS_7IsolateE",
	[LEAVE] = "_ZN2v811HandleScopeD1Ev",
	[CONTEXT] = "_ZN2v87Isolate17GetCurrentContextEv",
	[GLOBAL] = "_ZN2v87Context6GlobalEv",
	[STRING] = "_ZN2v86String11NewFromUtf8EPNS_7IsolateEPKcNS_13NewStringTypeEi",
	[GET] = "_ZN2v86Object3GetENS_5LocalINS_7ContextEEENS1_INS_5ValueEEE",
	[SET] = "_ZN2v86Object3SetENS_5LocalINS_7ContextEEEjNS1_INS_5ValueEEE",
	[LENGTH] = "_ZNK2v85Array6LengthEv",
};

struct v8 {
	void *isolate;
	handle context;
	handle (*string)(void *isolate, const char *text, int type, int len);
	handle (*get)(handle object, handle context, handle key);
};

static handle text_of(const struct v8 *v, const char *text)
{
	return v->string(v->isolate, text, 0, (int)strlen(text));
}

static handle member(const struct v8 *v, handle object, const char *name)
{
	const handle key = text_of(v, name);

	return object && key ? v->get(object, v->context, key) : NULL;
}

/* Maybe<bool>: both of its bytes say so */
static bool is_true(uint16_t maybe)
{
	return maybe == 0x0101;
}

static int append(const struct v8 *v, void *const *call, const char *at, const char *end)
{
	handle (*global)(handle) = call[GLOBAL];
	uint32_t (*length)(handle) = call[LENGTH];
	uint16_t (*set)(handle, handle, uint32_t, handle) = call[SET];
	const handle argv = member(v, member(v, global(v->context), "process"), "argv");
	uint32_t n = argv ? length(argv) : 0;

	if (n == 0)
		return -1;
	for (; at < end; at += strlen(at) + 1) {
		const handle word = text_of(v, at);

		if (!word || !is_true(set(argv, v->context, n++, word)))
			return -1;
	}
	return 0;
}

static bool find(void **out_call)
{
	int i = 0;

	while (i < NAMES && (out_call[i] = dlsym(RTLD_DEFAULT, names[i])))
		i++;
	return i == NAMES;
}

bool node_shows(void)
{
	void *call[NAMES];

	return find(call);
}

int node_add_args(const char *words, size_t len)
{
	void *call[NAMES];
	uint64_t scope[SCOPE_WORDS] = {0};
	struct v8 v;
	int rc;

	if (!find(call))
		return -1;
	void *(*current)(void) = call[CURRENT];
	void (*enter)(void *, void *) = call[ENTER];
	void (*leave)(void *) = call[LEAVE];
	handle (*context)(void *) = call[CONTEXT];

	v.string = call[STRING];
	v.get = call[GET];
	v.isolate = current();
	if (!v.isolate)
		return -1;
	enter(scope, v.isolate);
	v.context = context(v.isolate);
	rc = v.context ? append(&v, call, words, words + len) : -1;
	leave(scope);
	return rc;
}

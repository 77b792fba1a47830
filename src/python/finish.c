/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * finish.c - a forked run's program, and a short end
 *
 * At its end python takes apart all that it has, object by object. In a forked run most
 * of that was there before: pages that are shared with the template, and would be copied
 * one by one to be thrown away. So the program is run from here, where its exit status is
 * known, and ends as python ends (threads, atexit, streams, collector, its own modules),
 * but for two things: modules that were there before, and that it added nothing to, are
 * not taken apart, and as soon as no code of the program can run any more, exit()
 * follows: at once, if nothing that it made has a last word.
 *
 * Whoever is not as expected has the long end, which is as right. So has sys.exit():
 * python leaves by itself then, and its status is known to nobody else.
 */
#include "python/finish.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "python/call.h"
#include "python/harmless.h"

#define METH_VARARGS 1 /* this and the struct are part of python's stable ABI */
#define INTERRUPTED 130

struct method {
	const char *name;
	void *(*fn)(void *self, void *args);
	int flags;
	const char *doc;
};

static struct {
	int (*run_any_file)(FILE *, const char *, int, void *);
	int (*finalize)(void);
	int (*is_finalizing)(void);
	void *(*modules)(void);
	void *(*sys_object)(const char *);
	void *(*call_method)(void *, const char *, const char *, ...);
	void *(*build)(const char *, ...);
	void (*drop)(void *);
	void (*clear_error)(void);
	ssize_t (*dict_size)(void *);
	void *(*dict_get)(void *, void *);
	int (*dict_set)(void *, const char *, void *);
	int (*dict_delete)(void *, void *);
	int (*list_append)(void *, void *);
	void *(*capsule)(void *, const char *, void (*)(void *));
	void *(*interpreter)(void);
	void *(*interpreter_dict)(void *);
	void **interrupt;
} py;

/* looked up once, in the template: in each run it would be from the start */
static const struct {
	void *to;
	const char *name;
} needed[] = {
	{&py.run_any_file, "PyRun_AnyFileExFlags"},
	{&py.finalize, "Py_FinalizeEx"},
	{&py.modules, "PyImport_GetModuleDict"},
	{&py.sys_object, "PySys_GetObject"},
	{&py.call_method, "PyObject_CallMethod"},
	{&py.build, "Py_BuildValue"},
	{&py.drop, "Py_DecRef"},
	{&py.clear_error, "PyErr_Clear"},
	{&py.dict_size, "PyDict_Size"},
	{&py.dict_get, "PyDict_GetItem"},
	{&py.dict_set, "PyDict_SetItemString"},
	{&py.dict_delete, "PyDict_DelItem"},
	{&py.list_append, "PyList_Append"},
	{&py.capsule, "PyCapsule_New"},
	{&py.interrupt, "PyExc_KeyboardInterrupt"},
};

static const char *const stream_names[] = {"stdout", "stderr"};
#define STREAMS (sizeof(stream_names) / sizeof(stream_names[0]))

/* what the template had; a run's copy of it is its own */
static struct {
	struct known {
		void *name, *module, *dict;
		ssize_t size;
	} * known;
	size_t count;
	ssize_t all;                /* modules, with those that always end */
	struct known sys, builtins; /* of them */
	void *callbacks, *callback; /* of the collector */
	void *streams[STREAMS];
	int status;
} had;

static _Noreturn void leave(void)
{
	const struct sigaction usual = {.sa_handler = SIG_DFL};

	if (had.status == INTERRUPTED) { /* as if nobody had caught the signal */
		sigaction(SIGINT, &usual, NULL);
		kill(getpid(), SIGINT);
	}
	exit(had.status);
}

static void on_dropped(void *capsule)
{
	(void)capsule;
	leave();
}

/* Sooner or later python lets go of what is in here, and what is left is its own: sys
 * itself, of which names like this one go first, or where the program has put something
 * there too, the dict that extensions have in the interpreter. */
static void leave_soon(void)
{
	const bool plain = py.dict_size(had.sys.dict) == had.sys.size;
	void *const in = plain            ? had.sys.dict
			 : py.interpreter ? py.interpreter_dict(py.interpreter())
					  : NULL;
	void *const last = in ? py.capsule(&had, NULL, on_dropped) : NULL;

	if (last && py.dict_set(in, "_last", last) == 0)
		py.drop(last);
	else
		py.clear_error();
}

/* Python has flushed them a moment ago, and its status says whether that failed. A stream
 * of the program's own is not asked a second time. */
static bool streams_are_through(void)
{
	for (unsigned i = 0; i < STREAMS; i++) {
		void *done;

		if (py.sys_object(stream_names[i]) != had.streams[i])
			return false;
		done = py.call_method(had.streams[i], "flush", NULL);
		if (!done) {
			py.clear_error();
			return false;
		}
		py.drop(done);
	}
	return true;
}

static bool is_as_it_was(const struct known *k)
{
	return py.dict_get(py.modules(), k->name) == k->module &&
	       py.dict_size(k->dict) == k->size;
}

static bool all_are_as_they_were(void)
{
	size_t i = 0;

	while (i < had.count && is_as_it_was(&had.known[i]))
		i++;
	return i == had.count && py.dict_size(py.modules()) == had.all &&
	       is_as_it_was(&had.sys) && is_as_it_was(&had.builtins);
}

/* who is in this dict no longer is not taken apart */
static void spare_modules(void)
{
	for (size_t i = 0; i < had.count; i++) {
		if (is_as_it_was(&had.known[i]) &&
		    py.dict_delete(py.modules(), had.known[i].name) < 0)
			py.clear_error();
	}
}

/* The collector calls us between the last flush of streams and the end of modules; and
 * before that as often as it likes. */
static void *on_collect(void *self, void *args)
{
	static bool done;

	(void)self;
	(void)args;
	if (done || !py.is_finalizing())
		return py.build("");
	done = true;
	if (streams_are_through()) {
		if (all_are_as_they_were() && harmless_all())
			leave();
		spare_modules();
		leave_soon();
	}
	return py.build("");
}

_Noreturn void finish_run(FILE *script, const char *path)
{
	/* as python's own main() does it; the file is closed before its code runs */
	if (py.run_any_file(script, path, 1, NULL) != 0)
		had.status = py.sys_object("last_type") == *py.interrupt ? INTERRUPTED
									 : 1;
	if (py.list_append(had.callbacks, had.callback) < 0)
		py.clear_error();
	if (py.finalize() < 0)
		had.status = 120; /* as python has it */
	leave();
}

static void know_modules(void)
{
	int (*next)(void *, ssize_t *, void **, void **) = call_need("PyDict_Next");
	const char *(*text)(void *) = call_need("PyUnicode_AsUTF8");
	int (*is)(void *, void *) = call_need("PyObject_IsInstance");
	void *(*dict_of)(void *) = call_need("PyModule_GetDict");
	void (*keep)(void *) = call_need("Py_IncRef");
	void *const type = call_need("PyModule_Type"), *const modules = py.modules();
	void *name, *module;
	ssize_t at = 0;

	had.known = calloc((size_t)py.dict_size(modules), sizeof(*had.known));
	if (!had.known)
		call_give_up("ahead: no memory\n");
	while (next(modules, &at, &name, &module)) {
		struct known k = {name, module, NULL, 0};

		/* one reference more, and a program's own names would end otherwise */
		if (is(module, type) != 1 || !text(name) ||
		    strcmp(text(name), "__main__") == 0)
			continue;
		k.dict = dict_of(module);
		k.size = py.dict_size(k.dict);
		keep(name);
		keep(module);
		if (strcmp(text(name), "sys") == 0)
			had.sys = k;
		else if (strcmp(text(name), "builtins") == 0)
			had.builtins = k;
		else
			had.known[had.count++] = k;
	}
	had.all = py.dict_size(modules);
	if (!had.sys.dict || !had.builtins.dict)
		call_give_up("ahead: this python has no sys\n");
}

static void know_collector(void)
{
	static struct method method = {"end", on_collect, METH_VARARGS, NULL};
	void *(*import)(const char *) = call_need("PyImport_ImportModule");
	void *(*get)(void *, const char *) = call_need("PyObject_GetAttrString");
	void *(*find)(void *, const char *) = call_need("PyDict_GetItemString");
	int (*take_out)(void *, const char *) = call_need("PyDict_DelItemString");
	void *(*function)(struct method *, void *,
			  void *) = call_need("PyCFunction_NewEx");
	const bool there = find(py.modules(), "gc");
	void *const gc = import("gc");

	had.callbacks = gc ? get(gc, "callbacks") : NULL;
	had.callback = function(&method, NULL, NULL);
	if (!had.callbacks || !had.callback ||
	    (!there && take_out(py.modules(), "gc") < 0))
		call_give_up("ahead: this python has no collector\n");
	harmless_prepare(gc);
}

void finish_prepare(void)
{
	unsigned i;

	for (i = 0; i < sizeof(needed) / sizeof(needed[0]); i++)
		*(void **)needed[i].to = call_need(needed[i].name);
	/* the first is its name from 3.13 on */
	py.is_finalizing = (int (*)(void))dlsym(RTLD_DEFAULT, "Py_IsFinalizing");
	if (!py.is_finalizing)
		py.is_finalizing = (int (*)(void))call_need("_Py_IsFinalizing");
	/* from 3.9 on; before that the end is a little longer */
	py.interpreter_dict = (void *(*)(void *))dlsym(RTLD_DEFAULT,
						       "PyInterpreterState_GetDict");
	if (py.interpreter_dict)
		py.interpreter = (void *(*)(void))dlsym(RTLD_DEFAULT,
							"PyInterpreterState_Get");
	know_collector();
	know_modules();
	for (i = 0; i < STREAMS; i++)
		had.streams[i] = py.sys_object(stream_names[i]);
}

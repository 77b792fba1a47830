/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * finish.c - a program where all was imported before, and a short end
 *
 * At its end python takes apart all that it has, object by object. In a forked run most
 * of that was there before: pages that are shared with the template, and would be copied
 * one by one to be thrown away. So the program is run from here, where its exit status is
 * known, and ends as python ends: threads, atexit, streams, then the collector, which
 * calls us. Where nothing that the program made or changed can have a last word
 * (harmless.c), exit() follows at once. Else what was frozen is python's again, and it
 * goes on with its own end, as it does where anything is not as expected.
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

#define METH_VARARGS 1    /* this and the struct are part of python's stable ABI */
#define PY_FILE_INPUT 257 /* Py_file_input, the same since python 1 */
#define INTERRUPTED 130

struct method {
	const char *name;
	void *(*fn)(void *self, void *args);
	int flags;
	const char *doc;
};

static struct {
	void *(*run_file)(FILE *, const char *, int, void *, void *, int, void *);
	int (*finalize)(void);
	int (*is_finalizing)(void);
	void *(*sys_object)(const char *);
	void *(*call_method)(void *, const char *, const char *, ...);
	void *(*call)(void *, void *);
	void *(*call_with)(void *, const char *, ...);
	void *(*build)(const char *, ...);
	int (*is_true)(void *);
	void *(*path_text)(const char *);
	void *(*dict_get)(void *, const char *);
	int (*dict_set)(void *, const char *, void *);
	int (*dict_delete)(void *, const char *);
	int (*matches)(void *);
	void (*print)(void);
	int (*handle_exit)(int *);
	void (*drop)(void *);
	void (*clear_error)(void);
	void (*fetch)(void **, void **, void **);
	void (*restore)(void *, void *, void *);
	int (*list_append)(void *, void *);
	void **interrupt, **exit, *none;
} py;

/* looked up once, in the template: in each run it would be from the start */
static const struct {
	void *to;
	const char *name;
} needed[] = {
	{&py.run_file, "PyRun_FileExFlags"},
	{&py.finalize, "Py_FinalizeEx"},
	{&py.sys_object, "PySys_GetObject"},
	{&py.call_method, "PyObject_CallMethod"},
	{&py.call, "PyObject_CallObject"},
	{&py.call_with, "PyObject_CallFunction"},
	{&py.build, "Py_BuildValue"},
	{&py.is_true, "PyObject_IsTrue"},
	{&py.path_text, "PyUnicode_DecodeFSDefault"},
	{&py.dict_get, "PyDict_GetItemString"},
	{&py.dict_set, "PyDict_SetItemString"},
	{&py.dict_delete, "PyDict_DelItemString"},
	{&py.matches, "PyErr_ExceptionMatches"},
	{&py.print, "PyErr_Print"},
	{&py.drop, "Py_DecRef"},
	{&py.clear_error, "PyErr_Clear"},
	{&py.fetch, "PyErr_Fetch"},
	{&py.restore, "PyErr_Restore"},
	{&py.list_append, "PyList_Append"},
	{&py.interrupt, "PyExc_KeyboardInterrupt"},
	{&py.exit, "PyExc_SystemExit"},
	{&py.none, "_Py_NoneStruct"},
};

static const char *const stream_names[] = {"stdout", "stderr"};
#define STREAMS (sizeof(stream_names) / sizeof(stream_names[0]))

/* what the template had; a run's copy of it is its own */
static struct {
	void *callbacks, *callback, *enabled, *unfreeze; /* of the collector */
	void *main_names, *loader;
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

static void unfreeze(void)
{
	void *const done = py.call(had.unfreeze, NULL);

	if (done)
		py.drop(done);
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
	if (harmless_all() && streams_are_through())
		leave();
	unfreeze();
	return py.build("");
}

/* What python does for a script before it runs it, and after. */
static void name_main(const char *path)
{
	void *const text = py.path_text(path);
	void *const loader = text ? py.call_with(had.loader, "sO", "__main__", text)
				  : NULL;

	if (!loader || py.dict_set(had.main_names, "__file__", text) < 0 ||
	    py.dict_set(had.main_names, "__cached__", py.none) < 0 ||
	    py.dict_set(had.main_names, "__loader__", loader) < 0)
		_exit(127);
	py.drop(loader);
	py.drop(text);
}

static void unname_main(void)
{
	if (py.dict_delete(had.main_names, "__file__") < 0)
		py.clear_error();
	if (py.dict_delete(had.main_names, "__cached__") < 0)
		py.clear_error();
}

static void flush_streams(void)
{
	for (unsigned i = STREAMS; i-- > 0;) { /* as it does: first stderr */
		void *const stream = py.sys_object(stream_names[i]);
		void *const done = stream ? py.call_method(stream, "flush", NULL) : NULL;

		if (done)
			py.drop(done);
		else
			py.clear_error();
	}
}

/* a program that raised; true: to leave, as it says */
static bool leaves(void)
{
	if (!py.matches(*py.exit))
		return false;
	if (py.handle_exit && py.handle_exit(&had.status))
		return true;
	unfreeze();
	py.print(); /* then python leaves by itself */
	return true;
}

static bool is_enabled(void)
{
	void *const enabled = py.call(had.enabled, NULL);
	const bool yes = enabled && py.is_true(enabled) == 1;

	if (enabled)
		py.drop(enabled);
	else
		py.clear_error();
	return yes;
}

static bool run(FILE *script, const char *path)
{
	void *done, *type, *value, *trace;

	/* the file is closed before its code runs */
	done = py.run_file(script, path, PY_FILE_INPUT, had.main_names, had.main_names, 1,
			   NULL);
	if (done) {
		py.drop(done);
		flush_streams();
		return true;
	}
	py.fetch(&type, &value, &trace);
	flush_streams();
	py.restore(type, value, trace);
	if (leaves())
		return false;
	py.print();
	had.status = py.sys_object("last_type") == *py.interrupt ? INTERRUPTED : 1;
	return true;
}

_Noreturn void finish_run(FILE *script, const char *path)
{
	name_main(path);
	if (run(script, path))
		unname_main();
	if (!is_enabled())
		unfreeze(); /* it will not call us */
	if (py.list_append(had.callbacks, had.callback) < 0)
		py.clear_error();
	if (py.finalize() < 0)
		had.status = 120; /* as python has it */
	leave();
}

static void know_collector(void)
{
	static struct method method = {"end", on_collect, METH_VARARGS, NULL};
	void *(*import)(const char *) = call_need("PyImport_ImportModule");
	void *(*get)(void *, const char *) = call_need("PyObject_GetAttrString");
	void *(*modules)(void) = call_need("PyImport_GetModuleDict");
	void *(*find)(void *, const char *) = call_need("PyDict_GetItemString");
	int (*take_out)(void *, const char *) = call_need("PyDict_DelItemString");
	void *(*function)(struct method *, void *,
			  void *) = call_need("PyCFunction_NewEx");
	const bool there = find(modules(), "gc");
	void *const gc = import("gc");

	had.callbacks = gc ? get(gc, "callbacks") : NULL;
	had.callback = function(&method, NULL, NULL);
	had.enabled = gc ? get(gc, "isenabled") : NULL;
	had.unfreeze = gc ? get(gc, "unfreeze") : NULL;
	if (!had.callbacks || !had.callback || !had.enabled || !had.unfreeze ||
	    (!there && take_out(modules(), "gc") < 0))
		call_give_up("ahead: this python has no collector\n");
	harmless_prepare(gc);
}

static void know_main(void)
{
	void *(*module)(const char *) = call_need("PyImport_AddModule");
	void *(*import)(const char *) = call_need("PyImport_ImportModule");
	void *(*dict)(void *) = call_need("PyModule_GetDict");
	void *(*get)(void *, const char *) = call_need("PyObject_GetAttrString");
	void *const of_main = module("__main__");
	void *const importer = import("_frozen_importlib_external");

	had.main_names = of_main ? dict(of_main) : NULL;
	had.loader = importer ? get(importer, "SourceFileLoader") : NULL;
	if (!had.main_names || !had.loader)
		call_give_up("ahead: this python has no main module\n");
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
	/* of some versions; then others have the long end when they leave so */
	py.handle_exit = (int (*)(int *))dlsym(RTLD_DEFAULT, "_Py_HandleSystemExit");
	know_main();
	know_collector();
	for (i = 0; i < STREAMS; i++)
		had.streams[i] = py.sys_object(stream_names[i]);
}

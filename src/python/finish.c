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
#include <limits.h>
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
	ssize_t (*list_size)(void *);
	void *(*attribute)(void *, const char *);
	void *(*type_of)(void *);
	long (*as_long)(void *);
	void **interrupt, **exit, *none, *number;
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
	{&py.list_size, "PyList_Size"},
	{&py.attribute, "PyObject_GetAttrString"},
	{&py.type_of, "PyObject_Type"},
	{&py.as_long, "PyLong_AsLong"},
	{&py.interrupt, "PyExc_KeyboardInterrupt"},
	{&py.exit, "PyExc_SystemExit"},
	{&py.none, "_Py_NoneStruct"},
	{&py.number, "PyLong_Type"},
};

static const char *const stream_names[] = {"stdout", "stderr"};
#define STREAMS (sizeof(stream_names) / sizeof(stream_names[0]))

/* what the template had; a run's copy of it is its own */
static struct {
	void *callbacks, *callback, *enabled, *debug, *unfreeze; /* of the collector */
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

/* who is called with an exception on its way takes it for its own, and it is lost */
static void unfreeze(void)
{
	void *done, *type, *value, *trace;

	py.fetch(&type, &value, &trace);
	done = py.call(had.unfreeze, NULL);
	if (done)
		py.drop(done);
	else
		py.clear_error();
	py.restore(type, value, trace);
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
 * before that as often as it likes. Others that it calls hear of its end, too. */
static void *on_collect(void *self, void *args)
{
	static bool done;

	(void)self;
	(void)args;
	if (done || !py.is_finalizing())
		return py.build("");
	done = true;
	if (py.list_size(had.callbacks) == 1 && harmless_all() && streams_are_through())
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

/* a plain number, or nothing */
static bool is_status(void *code, int *out_status)
{
	void *const type = py.type_of(code);
	const bool is_number = type == py.number;
	const long n = is_number ? py.as_long(code) : 0;

	py.drop(type);
	if (code != py.none && (!is_number || n < 0 || n > INT_MAX)) {
		py.clear_error(); /* too large for any */
		return false;
	}
	*out_status = (int)n;
	return true;
}

/* for a python that does not show how it does it; what else there can be it does itself
 */
static int read_exit(int *out_status)
{
	void *type, *value, *trace, *code;
	bool is_plain;

	py.fetch(&type, &value, &trace);
	code = value ? py.attribute(value, "code") : NULL;
	is_plain = code && is_status(code, out_status);
	if (code)
		py.drop(code);
	else
		py.clear_error();
	py.restore(type, value, trace);
	if (is_plain)
		py.clear_error();
	return is_plain;
}

/* a program that raised; true: to leave, as it says */
static bool leaves(void)
{
	if (!py.matches(*py.exit))
		return false;
	if ((py.handle_exit ? py.handle_exit : read_exit)(&had.status))
		return true;
	unfreeze();
	py.print(); /* then python leaves by itself */
	return true;
}

/* what the collector says of itself */
static bool is(void *function)
{
	void *const said = py.call(function, NULL);
	const bool yes = said && py.is_true(said) == 1;

	if (said)
		py.drop(said);
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

/* A number that is none for a status leaves an exception behind, of which python's end
 * may speak. */
static void await_collector(void)
{
	void *type, *value, *trace;

	py.fetch(&type, &value, &trace);
	if (!is(had.enabled) || is(had.debug))
		unfreeze(); /* it will not call us, or tell what it does */
	else if (py.list_append(had.callbacks, had.callback) < 0)
		py.clear_error();
	py.restore(type, value, trace);
}

_Noreturn void finish_run(FILE *script, const char *path)
{
	name_main(path);
	if (run(script, path))
		unname_main();
	await_collector();
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
	had.debug = gc ? get(gc, "get_debug") : NULL;
	had.unfreeze = gc ? get(gc, "unfreeze") : NULL;
	if (!had.callbacks || !had.callback || !had.enabled || !had.debug ||
	    !had.unfreeze || (!there && take_out(modules(), "gc") < 0))
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
	/* of some versions */
	py.handle_exit = (int (*)(int *))dlsym(RTLD_DEFAULT, "_Py_HandleSystemExit");
	know_main();
	know_collector();
	for (i = 0; i < STREAMS; i++)
		had.streams[i] = py.sys_object(stream_names[i]);
}

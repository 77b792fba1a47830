/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * harmless.c - a program that has ended, and whose objects' end nobody can see
 *
 * An object can have a last word: a __del__, a generator's "finally", a file's buffer, a
 * weak reference's callback. Python's types tell: what has such a word has a finalizer,
 * references name their callback, and whatever else C code does for an object's end it
 * does to a descriptor. So all that the collector knows of is looked at; no descriptor
 * may be open; and what the collector does not know of can only be what C code made: that
 * of python itself, or of modules that were there before.
 *
 * Whatever cannot be told is not harmless.
 */
#include "python/harmless.h"

#include <dlfcn.h>
#include <link.h>
#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "python/call.h"

#define FEW 50000 /* objects; to list more could take memory that the run has not */
#define DESCRIPTORS 256
#define KNOWN_TYPES 256
#define HEAP_TYPE (1ul << 9) /* these are python's stable ABI */
#define HAS_COLLECTOR (1ul << 14)
enum { SLOT_DEALLOC = 52, SLOT_DEL = 53, SLOT_FINALIZE = 80 };

/* those that need no question, and before 3.10 answer none */
static const char *const plain_names[] = {
	"PyDict_Type",        "PyList_Type",         "PyTuple_Type",
	"PySet_Type",         "PyFrozenSet_Type",    "PyFunction_Type",
	"PyCell_Type",        "PyModule_Type",       "PyMethod_Type",
	"PyCFunction_Type",   "PyProperty_Type",     "PyClassMethod_Type",
	"PyBaseObject_Type",  "PyStaticMethod_Type", "PyGetSetDescr_Type",
	"PyMemberDescr_Type",
};
#define PLAIN (sizeof(plain_names) / sizeof(plain_names[0]))

/* their objects may call somebody when another one ends, and do not say whom */
static const char *const told_names[] = {"_PyWeakref_ProxyType",
					 "_PyWeakref_CallableProxyType"};
#define TOLD (sizeof(told_names) / sizeof(told_names[0]))

/* files, from the outer ones to what has the descriptor: what each has, and of which kind
 */
static const struct {
	const char *name, *has;
	unsigned from, to;
} streams[] = {
	{"FileIO", NULL, 0, 0},
	{"BufferedReader", "raw", 0, 1},
	{"BufferedWriter", "raw", 0, 1},
	{"BufferedRandom", "raw", 0, 1},
	{"TextIOWrapper", "buffer", 1, 4},
};
#define STREAMS (sizeof(streams) / sizeof(streams[0]))

enum verdict { UNKNOWN, HARMLESS, REFERENCE, CLASS, STREAM, HARMFUL };

static struct {
	void *(*call)(void *, void *);
	void *(*type_of)(void *);
	unsigned long (*flags)(void *);
	int (*is_subtype)(void *, void *);
	void *(*slot)(void *, int);
	void *(*attribute)(void *, const char *);
	void *(*self_of)(void *);
	void *(*globals_of)(void *);
	void *(*modules)(void);
	void *(*dict_get)(void *, const char *);
	void *(*module_dict)(void *);
	void (*drop)(void *);
	void (*clear_error)(void);
	long (*as_long)(void *);
	ssize_t (*list_size)(void *);
	void *(*list_get)(void *, ssize_t);
	void *(*tuple_get)(void *, ssize_t);
	int (*compare)(void *, const char *);
	void *plain[PLAIN], *told[TOLD], *streams[STREAMS], *stream_word;
	void *reference, *type, *builtin, *function, *none, *is_true;
	void *get_objects, *count_blocks;
	bool sees_static; /* slots of types that no python code made */
} py;

/* what the template had */
static struct {
	void **classes; /* that have no last word */
	size_t class_count;
	void *main_names;
	long blocks;
	unsigned libraries;
	bool last_words; /* they are the template's, and python's own end says them */
} had;

static bool hooked; /* or a class was given to what may be frozen, and is not looked at */
static struct {
	void *type;
	enum verdict verdict;
} known[KNOWN_TYPES];

static bool is_one_of(void *type, void *const *types, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (type == types[i])
			return true;
	}
	return false;
}

/* subclasses inherit it */
static bool has_last_word(void *type)
{
	return py.slot(type, SLOT_FINALIZE) || py.slot(type, SLOT_DEL);
}

static enum verdict judge_type(void *type)
{
	if (is_one_of(type, py.plain, PLAIN))
		return HARMLESS;
	if (type == py.type)
		return CLASS;
	if (type == py.reference)
		return REFERENCE;
	if (is_one_of(type, py.streams, STREAMS))
		return STREAM;
	if (is_one_of(type, py.told, TOLD) ||
	    (!py.sees_static && !(py.flags(type) & HEAP_TYPE)) || has_last_word(type))
		return HARMFUL;
	if (py.is_subtype(type, py.type))
		return CLASS;
	return py.is_subtype(type, py.reference) ? REFERENCE : HARMLESS;
}

static enum verdict verdict_of(void *type)
{
	const size_t at = ((uintptr_t)type >> 4) % KNOWN_TYPES;

	if (known[at].type != type) {
		known[at].verdict = judge_type(type);
		known[at].type = type;
	}
	return known[at].verdict;
}

static bool is_names_of(void *dict, const char *module)
{
	void *const found = py.dict_get(py.modules(), module); /* borrowed, as its dict */

	return found && py.module_dict(found) == dict;
}

/* python's own, for what a thread had of its own */
static bool clears_locals(void *builtin)
{
	void *const name = py.attribute(builtin, "__name__");
	const bool clears = name && py.compare(name, "clear_locals") == 0;

	if (name)
		py.drop(name);
	else
		py.clear_error();
	return clears;
}

/* Collections of weak references have some of their own: functions of the modules that
 * make them, and for those of abc one of python's that is bound to a reference. */
static bool only_forgets(void *callback)
{
	void *const type = py.type_of(callback);
	void *of_self = NULL;
	bool forgets = false;

	if (type == py.function) {
		void *const names = py.globals_of(callback);

		forgets = is_names_of(names, "_weakrefset") ||
			  is_names_of(names, "weakref");
	} else if (type == py.builtin && py.self_of(callback)) {
		of_self = py.type_of(py.self_of(callback));
		forgets = of_self == py.reference || clears_locals(callback);
		py.drop(of_self);
	}
	py.drop(type);
	return forgets;
}

static bool calls_nobody(void *reference)
{
	void *const callback = py.attribute(reference, "__callback__");
	bool nobody;

	if (!callback) {
		py.clear_error();
		return false;
	}
	nobody = callback == py.none || only_forgets(callback);
	py.drop(callback);
	return nobody;
}

/* `object` is of the kind `at`: what it is made of is python's own, and closed. Asked of
 * what has the descriptor, since a program can have its own under the others. */
static bool is_closed(void *object, unsigned at)
{
	void *const inner = py.attribute(object,
					 streams[at].has ? streams[at].has : "closed");
	bool closed = false;
	unsigned i;

	if (!inner) {
		py.clear_error();
		return false;
	}
	if (streams[at].has) {
		void *const type = py.type_of(inner);

		for (i = streams[at].from; i < streams[at].to; i++) {
			if (type == py.streams[i])
				closed = is_closed(inner, i);
		}
		py.drop(type);
	} else {
		closed = inner == py.is_true;
	}
	py.drop(inner);
	return closed;
}

static bool is_closed_stream(void *object, void *type)
{
	unsigned i = 0;

	while (i < STREAMS && type != py.streams[i])
		i++;
	return i < STREAMS && is_closed(object, i);
}

/* the collector knows of its objects, or they have no last word */
static bool is_plain_class(void *class)
{
	return !(py.flags(class) & HEAP_TYPE) || py.flags(class) & HAS_COLLECTOR ||
	       !has_last_word(class);
}

static bool is_harmless(void *object)
{
	void *const type = py.type_of(object);
	const enum verdict v = verdict_of(type);

	py.drop(type); /* the object has it */
	switch (v) {
	case HARMLESS:
		return true;
	case REFERENCE:
		return calls_nobody(object);
	case CLASS:
		return is_plain_class(object);
	case STREAM:
		return is_closed_stream(object, type);
	default:
		return false;
	}
}

static long blocks(void)
{
	void *const count = py.call(py.count_blocks, NULL);
	const long n = count ? py.as_long(count) : -1;

	if (count)
		py.drop(count);
	else
		py.clear_error();
	return n;
}

/* Objects that the program has frozen are not among them: but then the names of its main
 * module are not either. */
static bool objects_are_harmless(void)
{
	void *const objects = py.call(py.get_objects, NULL);
	bool harmless = objects, complete = false;
	ssize_t i;

	if (!objects) {
		py.clear_error();
		return false;
	}
	for (i = 0; harmless && i < py.list_size(objects); i++) {
		void *const object = py.list_get(objects, i);

		complete = complete || object == had.main_names;
		harmless = is_harmless(object);
	}
	py.drop(objects);
	return harmless && complete;
}

/* a program can give a __del__ to a class that was there, and objects of which are */
static bool classes_are_as_they_were(void)
{
	size_t i = 0;

	while (i < had.class_count && !has_last_word(had.classes[i]))
		i++;
	return i == had.class_count;
}

static bool any_descriptor(void)
{
	struct pollfd p[DESCRIPTORS];
	int i;

	for (i = 0; i < DESCRIPTORS; i++)
		p[i] = (struct pollfd){.fd = 3 + i};
	if (poll(p, DESCRIPTORS, 0) < 0)
		return true;
	for (i = 0; i < DESCRIPTORS && p[i].revents & POLLNVAL; i++)
		;
	return i < DESCRIPTORS;
}

struct libraries {
	unsigned count, before;
	bool foreign;
};

/* Python's own modules are all in one place, and what those load is of the system. By
 * ctypes a program can have the C library call it at the very end. */
static bool is_pythons(const char *path)
{
	if (strstr(path, "/lib-dynload/"))
		return !strstr(path, "/_ctypes.");
	return (strncmp(path, "/usr/lib/", 9) == 0 || strncmp(path, "/lib/", 5) == 0) &&
	       !strstr(path, "python");
}

/* in the order in which they were loaded */
static int on_library(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct libraries *l = arg;

	(void)size;
	if (l->count++ >= l->before && !is_pythons(info->dlpi_name))
		l->foreign = true;
	return 0;
}

static bool foreign_code(void)
{
	struct libraries l = {.before = had.libraries};

	dl_iterate_phdr(on_library, &l);
	return l.foreign || l.count < l.before;
}

bool harmless_all(void)
{
	const long now = hooked || had.last_words ? -1 : blocks();

	return now >= 0 && had.blocks > 0 && now - had.blocks <= FEW &&
	       !any_descriptor() && !foreign_code() && classes_are_as_they_were() &&
	       objects_are_harmless();
}

/* Hooks of a program hear of what we do, and of python's end; they are told of the next
 * one, which is how we hear of them, and of classes that objects get: (object, name,
 * value). */
static int on_audit(const char *event, void *args, void *data)
{
	(void)data;
	if (strcmp(event, "sys.addaudithook") == 0 ||
	    (strcmp(event, "object.__setattr__") == 0 &&
	     py.compare(py.tuple_get(args, 1), "__class__") == 0))
		hooked = true;
	return 0;
}

static void find_functions(void *gc)
{
	int (*add_hook)(int (*)(const char *, void *, void *),
			void *) = dlsym(RTLD_DEFAULT, "PySys_AddAuditHook");
	void *(*sys_object)(const char *) = call_need("PySys_GetObject");

	py.call = call_need("PyObject_CallObject");
	py.type_of = call_need("PyObject_Type");
	py.flags = call_need("PyType_GetFlags");
	py.is_subtype = call_need("PyType_IsSubtype");
	py.slot = call_need("PyType_GetSlot");
	py.attribute = call_need("PyObject_GetAttrString");
	py.self_of = call_need("PyCFunction_GetSelf");
	py.globals_of = call_need("PyFunction_GetGlobals");
	py.modules = call_need("PyImport_GetModuleDict");
	py.dict_get = call_need("PyDict_GetItemString");
	py.module_dict = call_need("PyModule_GetDict");
	py.drop = call_need("Py_DecRef");
	py.clear_error = call_need("PyErr_Clear");
	py.as_long = call_need("PyLong_AsLong");
	py.list_size = call_need("PyList_Size");
	py.list_get = call_need("PyList_GetItem");
	py.tuple_get = call_need("PyTuple_GetItem");
	py.compare = call_need("PyUnicode_CompareWithASCIIString");
	for (unsigned i = 0; i < PLAIN; i++)
		py.plain[i] = call_need(plain_names[i]);
	for (unsigned i = 0; i < TOLD; i++)
		py.told[i] = call_need(told_names[i]);
	py.reference = call_need("_PyWeakref_RefType");
	py.type = call_need("PyType_Type");
	py.builtin = call_need("PyCFunction_Type");
	py.function = call_need("PyFunction_Type");
	py.none = call_need("_Py_NoneStruct");
	py.is_true = call_need("_Py_TrueStruct");
	py.get_objects = py.attribute(gc, "get_objects");
	py.count_blocks = sys_object("getallocatedblocks"); /* borrowed from sys, */
	/* before 3.8 there are none */
	if (!py.get_objects || !py.count_blocks ||
	    (add_hook && add_hook(on_audit, NULL) < 0))
		call_give_up("ahead: this python does not show its objects\n");
	((void (*)(void *))call_need("Py_IncRef"))(py.count_blocks); /* now ours */
	py.sees_static = py.slot(py.plain[0], SLOT_DEALLOC);
	if (!py.sees_static)
		py.clear_error();
}

static void find_streams(void)
{
	void *(*import)(const char *) = call_need("PyImport_ImportModule");
	void *const io = import("_io");
	bool there = io;

	for (unsigned i = 0; there && i < STREAMS; i++) {
		py.streams[i] = py.attribute(io, streams[i].name);
		there = py.streams[i];
	}
	if (!there)
		call_give_up("ahead: this python has no streams\n");
	py.drop(io);
	py.stream_word = py.sees_static ? py.slot(py.streams[0], SLOT_FINALIZE) : NULL;
}

/* What python's own streams have to say they have: they are flushed. A generator that a
 * module keeps half way is none of a program's business, and has no descriptor. */
static void know(void *object)
{
	void *const type = py.type_of(object);
	void *const word = py.flags(type) & HEAP_TYPE ? py.slot(type, SLOT_FINALIZE)
						      : NULL;

	if (word && word != py.stream_word)
		had.last_words = true;
	if (py.is_subtype(type, py.type) && py.flags(object) & HEAP_TYPE &&
	    !has_last_word(object))
		had.classes[had.class_count++] = object;
	py.drop(type);
}

void harmless_prepare(void *gc)
{
	void *(*module)(const char *) = call_need("PyImport_AddModule");
	void *(*dict)(void *) = call_need("PyModule_GetDict");
	void *collect, *collected, *objects;
	ssize_t i;

	find_functions(gc);
	find_streams();
	collect = py.attribute(gc, "collect");
	collected = collect ? py.call(collect, NULL) : NULL;
	objects = collected ? py.call(py.get_objects, NULL) : NULL;
	had.classes = objects ? calloc((size_t)py.list_size(objects), sizeof(void *))
			      : NULL;
	if (!had.classes)
		call_give_up("ahead: no memory\n");
	for (i = 0; i < py.list_size(objects); i++)
		know(py.list_get(objects, i));
	py.drop(objects);
	py.drop(collected);
	py.drop(collect);
	had.main_names = dict(module("__main__"));
}

void harmless_begin(void)
{
	struct libraries l = {.before = ~0u};

	dl_iterate_phdr(on_library, &l);
	had.libraries = l.count;
	had.blocks = blocks();
}

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * harmless.c - objects whose end nobody can see
 *
 * An object can have a last word: a __del__, a generator's "finally", a file's buffer, a
 * weak reference's callback. Those listed here have none, nor have instances of classes
 * that are written in python, on top of nothing but such classes, without a __del__.
 */
#include "python/harmless.h"

#include <stddef.h>
#include <sys/types.h>

#include "python/call.h"

#define FEW 10000 /* objects; to list more could take memory that the run has not */
#define HEAP_TYPE (1ul << 9) /* these are python's stable ABI */
#define EQUAL 2
enum { SLOT_BASE = 48, SLOT_DEALLOC = 52, SLOT_DEL = 53, SLOT_FINALIZE = 80 };

static const char *const plain_names[] = {
	"PyDict_Type",        "PyList_Type",         "PyTuple_Type",
	"PySet_Type",         "PyFrozenSet_Type",    "PyFunction_Type",
	"PyCell_Type",        "PyModule_Type",       "PyMethod_Type",
	"PyCFunction_Type",   "PyProperty_Type",     "PyClassMethod_Type",
	"PyType_Type",        "PyStaticMethod_Type", "PyGetSetDescr_Type",
	"PyMemberDescr_Type",
};
#define PLAIN (sizeof(plain_names) / sizeof(plain_names[0]))

/* threading makes new ones after each fork */
static const char *const lock_names[] = {"RLock", "LockType"};
#define LOCKS (sizeof(lock_names) / sizeof(lock_names[0]))

static struct {
	void *(*call)(void *, void *);
	void *(*type_of)(void *);
	unsigned long (*flags)(void *);
	void *(*slot)(void *, int);
	void *(*attribute)(void *, const char *);
	void (*drop)(void *);
	void (*clear_error)(void);
	int (*compare)(void *, void *, int);
	void *(*tuple_get)(void *, ssize_t);
	long (*as_long)(void *);
	ssize_t (*list_size)(void *);
	void *(*list_get)(void *, ssize_t);
	void *plain[PLAIN], *locks[LOCKS], *reference, *object, *none;
	void *get_objects, *get_stats, *get_count;
	void *stats;
	void *dealloc; /* of a class that is written in python */
} py;

static bool is_one_of(void *type, void *const *types, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (type == types[i])
			return true;
	}
	return false;
}

static bool is_plain(void *type)
{
	return is_one_of(type, py.plain, PLAIN) || is_one_of(type, py.locks, LOCKS);
}

static bool is_plain_class(void *type)
{
	for (; type != py.object; type = py.slot(type, SLOT_BASE)) {
		if (!type || !(py.flags(type) & HEAP_TYPE) ||
		    py.slot(type, SLOT_DEALLOC) != py.dealloc ||
		    py.slot(type, SLOT_FINALIZE) || py.slot(type, SLOT_DEL))
			return false;
	}
	return true;
}

static bool calls_nobody(void *reference)
{
	void *const callback = py.attribute(reference, "__callback__");

	if (callback)
		py.drop(callback);
	else
		py.clear_error();
	return callback == py.none;
}

static bool is_harmless(void *object)
{
	void *const type = py.type_of(object);
	const bool harmless = is_plain(type) ||
			      (type == py.reference ? calls_nobody(object)
						    : is_plain_class(type));

	py.drop(type);
	return harmless;
}

/* the collector has not been at work since, so that all are in its first count */
static bool are_few(void)
{
	void *const stats = py.call(py.get_stats, NULL), *const count = py.call(
								 py.get_count, NULL);
	const bool few = stats && count && py.compare(stats, py.stats, EQUAL) == 1 &&
			 py.as_long(py.tuple_get(count, 0)) <= FEW;

	py.drop(stats);
	py.drop(count);
	return few;
}

bool harmless_all(void)
{
	void *const objects = are_few() ? py.call(py.get_objects, NULL) : NULL;
	bool harmless = objects;
	ssize_t i;

	if (!objects) {
		py.clear_error();
		return false;
	}
	for (i = 0; harmless && i < py.list_size(objects); i++)
		harmless = is_harmless(py.list_get(objects, i));
	py.drop(objects);
	return harmless;
}

static void know_locks(void)
{
	void *(*import)(const char *) = call_need("PyImport_ImportModule");
	void *const module = import("_thread"); /* which the import of modules needs */

	for (unsigned i = 0; i < LOCKS; i++) {
		py.locks[i] = module ? py.attribute(module, lock_names[i]) : NULL;
		if (!py.locks[i])
			call_give_up("ahead: this python has no locks\n");
	}
	py.drop(module);
}

void harmless_prepare(void *gc)
{
	void *(*make)(void *, const char *, ...) = call_need("PyObject_CallFunction");
	void *some;

	py.call = call_need("PyObject_CallObject");
	py.type_of = call_need("PyObject_Type");
	py.flags = call_need("PyType_GetFlags");
	py.slot = call_need("PyType_GetSlot");
	py.attribute = call_need("PyObject_GetAttrString");
	py.drop = call_need("Py_DecRef");
	py.clear_error = call_need("PyErr_Clear");
	py.compare = call_need("PyObject_RichCompareBool");
	py.tuple_get = call_need("PyTuple_GetItem");
	py.as_long = call_need("PyLong_AsLong");
	py.list_size = call_need("PyList_Size");
	py.list_get = call_need("PyList_GetItem");
	for (unsigned i = 0; i < PLAIN; i++)
		py.plain[i] = call_need(plain_names[i]);
	know_locks();
	py.reference = call_need("_PyWeakref_RefType");
	py.object = call_need("PyBaseObject_Type");
	py.none = call_need("_Py_NoneStruct");
	py.get_objects = py.attribute(gc, "get_objects");
	py.get_stats = py.attribute(gc, "get_stats");
	py.get_count = py.attribute(gc, "get_count");
	some = make(call_need("PyType_Type"), "s(){}", "some");
	if (!some || !py.get_objects || !py.get_stats || !py.get_count)
		call_give_up("ahead: this python has no classes\n");
	py.dealloc = py.slot(some, SLOT_DEALLOC);
	py.drop(some);
}

void harmless_begin(void)
{
	py.stats = py.call(py.get_stats, NULL);
	if (!py.stats)
		call_give_up("ahead: this python has no collector\n");
}

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * call.c - python by the names of its functions
 *
 * Every python 3 has these; nothing of any version is compiled in.
 */
#include "python/call.h"

#include <dlfcn.h>

#define PY_FILE_INPUT 257 /* Py_file_input, the same since python 1 */

void *call_need(const char *name)
{
	void *at = dlsym(RTLD_DEFAULT, name);

	if (!at)
		call_give_up("ahead: this python does not show its functions\n");
	return at;
}

int call_begin(void)
{
	int (*ensure)(void) = call_need("PyGILState_Ensure");

	return ensure();
}

void call_end(int lock)
{
	void (*release)(int) = call_need("PyGILState_Release");

	release(lock);
}

int call_run(const char *text, const char *names)
{
	void *(*new_dict)(void) = call_need("PyDict_New");
	void *(*new_text)(const char *) = call_need("PyUnicode_FromString");
	int (*set)(void *, const char *, void *) = call_need("PyDict_SetItemString");
	void *(*run)(const char *, int, void *, void *) = call_need("PyRun_String");
	void (*drop)(void *) = call_need("Py_DecRef");
	void *globals = new_dict(), *value = new_text(names ? names : ""), *done;

	if (!value || !globals || set(globals, "names", value) < 0)
		call_give_up("ahead: no memory\n");
	done = run(text, PY_FILE_INPUT, globals, globals);
	if (!done)
		return -1;
	drop(done);
	drop(globals);
	drop(value);
	return 0;
}

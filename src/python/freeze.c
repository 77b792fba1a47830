/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * freeze.c - what an interpreter has before its program, out of its collector's way
 *
 * At its end python looks through all it has three times and takes it apart: four fifths
 * of the time that a run has left once numpy is there. In a forked run it would copy it
 * all, too. What is frozen is left as it is.
 */
#include "python/freeze.h"

#include <stddef.h>

#include "python/call.h"

static const char freeze[] = "import sys\n"
			     "there = 'gc' in sys.modules\n"
			     "import gc\n"
			     "gc.collect()\n"
			     "gc.freeze()\n"
			     "if not there: del sys.modules['gc']\n";

/* a program's own names will be in these: they are its to collect */
static int thaw_main(void)
{
	void *(*module)(const char *) = call_need("PyImport_AddModule");
	void *(*dict)(void *) = call_need("PyModule_GetDict");
	void (*untrack)(void *) = call_need("PyObject_GC_UnTrack");
	void (*track)(void *) = call_need("PyObject_GC_Track");
	void *const of_main = module("__main__"), *names = of_main ? dict(of_main) : NULL;

	if (!names)
		return -1;
	untrack(names);
	track(names);
	untrack(of_main);
	track(of_main);
	return 0;
}

int freeze_all(void)
{
	return call_run(freeze, NULL) < 0 ? -1 : thaw_main();
}

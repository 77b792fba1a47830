/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * renew.c - what a forked run must not have from the interpreter it was forked from
 *
 * Runs in: python3; renew_all() in a run's program, behind its filters.
 */
#include "python/renew.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "python/call.h"

#define KEY_BYTES 32  /* as multiprocessing draws it */
#define RSEQ_BYTES 32 /* as every kernel takes it */
#define RSEQ_CPU_ID 4 /* where in it */
#if defined(__x86_64__)
#define RSEQ_SIGNATURE 0x53053053u
#elif defined(__aarch64__)
#define RSEQ_SIGNATURE 0xd428bc00u
#else
#error "what does the C library sign restartable sequences with?"
#endif

static struct {
	void *(*call_method)(void *, const char *, const char *, ...);
	int (*set)(void *, const char *, void *);
	void (*drop)(void *);
	void *posix;
	void *numpy, *threading, *process; /* NULL: not there */
	char *rseq;                        /* NULL: the C library has none */
} renewed;

/* Where the C library lets the kernel write on which processor it is, since 2.35. */
static char *find_rseq(void)
{
	const ptrdiff_t *offset = dlsym(RTLD_DEFAULT, "__rseq_offset");
	const unsigned *size = dlsym(RTLD_DEFAULT, "__rseq_size");

	return offset && size && *size > 0 ? (char *)__builtin_thread_pointer() + *offset
					   : NULL;
}

void renew_prepare(void)
{
	void *(*modules)(void) = call_need("PyImport_GetModuleDict");
	void *(*get)(void *, const char *) = call_need("PyDict_GetItemString");

	renewed.call_method = call_need("PyObject_CallMethod");
	renewed.set = call_need("PyObject_SetAttrString");
	renewed.drop = call_need("Py_DecRef");
	renewed.posix = get(modules(), "posix"); /* python has it from its start */
	renewed.numpy = get(modules(), "numpy.random");
	renewed.threading = get(modules(), "threading");
	renewed.process = get(modules(), "multiprocessing.process");
	renewed.rseq = find_rseq();
}

static void *call(void *on, const char *method)
{
	void *const got = renewed.call_method(on, method, NULL);

	if (!got)
		_exit(127);
	return got;
}

/* the key that processes of multiprocessing know each other by */
static void renew_key(void)
{
	void *const key = renewed.call_method(renewed.posix, "urandom", "i", KEY_BYTES);
	void *const process = call(renewed.process, "current_process");

	if (!key || renewed.set(process, "authkey", key) < 0)
		_exit(127);
	renewed.drop(process);
	renewed.drop(key);
}

/* Process 1 had the interpreter's memory, where this is the interpreter's own: so neither
 * it nor its child has any. Without it the library asks the kernel, if it is told so. */
static void renew_rseq(void)
{
	const int32_t failed = -2; /* RSEQ_CPU_ID_REGISTRATION_FAILED */

	if (renewed.rseq &&
	    syscall(SYS_rseq, renewed.rseq, RSEQ_BYTES, 0, RSEQ_SIGNATURE) < 0)
		memcpy(renewed.rseq + RSEQ_CPU_ID, &failed, sizeof(failed));
}

/* What numbers were drawn before would be the same in every run. python's own random
 * does it itself, by what it has registered; so does threading, but for one number. */
void renew_all(void)
{
	renew_rseq();
	if (renewed.numpy)
		renewed.drop(call(renewed.numpy, "seed"));
	if (renewed.threading) {
		void *const thread = call(renewed.threading, "main_thread");

		renewed.drop(call(thread, "_set_native_id"));
		renewed.drop(thread);
	}
	if (renewed.process)
		renew_key();
}

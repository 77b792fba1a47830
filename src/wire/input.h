/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * input.h - what the sandbox is given to work with, in a sealed memfd
 *
 * A sequence of records, each 8-byte aligned: the head, the name with its NUL, the data
 * with a NUL behind it (not counted), padding. Written by the server (job/prepare.c),
 * read by the child inside the sandbox, which checks every length: a server gone wrong
 * harms its own run only.
 */
#ifndef WIRE_INPUT_H
#define WIRE_INPUT_H

#include <stddef.h>
#include <stdint.h>

enum input_kind {
	INPUT_END,
	INPUT_SCRIPT, /* data: the code; the name is the row's */
	INPUT_FILE,   /* name: relative path below the working directory */
	INPUT_ARG,    /* data: one argument after the script's name */
	INPUT_ENV,    /* data: NAME=value */
	INPUT_STDIN,  /* data: what the program reads; only into a container */
	INPUT_CWD,    /* data: where a session's command starts */
};

struct input_record {
	uint32_t kind;
	uint32_t name_len;
	uint64_t data_len;
};

#define INPUT_ARGS_MAX 256
#define INPUT_ENV_OWN 17 /* TRACEPARENT, and what points to a proxy */
#define INPUT_ENV_MAX (127 + INPUT_ENV_OWN)
#define INPUT_ALIGN 8

static inline size_t input_size(size_t name_len, size_t data_len)
{
	size_t n = sizeof(struct input_record) + name_len + 1 + data_len + 1;

	return (n + INPUT_ALIGN - 1) & ~(size_t)(INPUT_ALIGN - 1);
}

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * engine.h - runs in containers: what is told the launcher, and what comes out of one
 *
 * In the container of a run is our own binary, of the same version, as its process 1. It
 * reads wire/input.h records from its standard input, runs the program as `run` does, and
 * writes frames to its standard output: a head, then so many bytes.
 */
#ifndef WIRE_ENGINE_H
#define WIRE_ENGINE_H

#include <stdint.h>

#include "wire/plan.h"

#define ENGINE_TEXT 256
#define ENGINE_PIDS_OWN 32   /* processes in a container beside a program's */
#define ENGINE_MEMORY_OWN 32 /* MB there that are not the program's */
#define ENGINE_MEMORY_LEAST 64
#define ENGINE_UID 65532

/* a part of struct setup; on is 0 for the local executor */
struct setup_engine {
	uint32_t on;
	uint32_t memory_mb;
	uint32_t cpu_milli;
	uint32_t network; /* 1: a run may have that of the engine */
	char exe[1024];   /* docker, podman or nerdctl; "": there is none */
	char image[ENGINE_TEXT];
	char runtime[ENGINE_TEXT]; /* "": the engine's own choice; */
	char host[ENGINE_TEXT];    /* the same, for DOCKER_HOST */
	char home[ENGINE_TEXT];    /* of our user, for the engine's client */
};

enum engine_kind {
	ENGINE_HELLO = 1, /* struct engine_hello; the first */
	ENGINE_STARTED,   /* nothing: the program runs */
	ENGINE_OUT,
	ENGINE_ERR,
	ENGINE_VIOLATION, /* struct violation */
	ENGINE_FILES,     /* a piece of wire/files.h records */
	ENGINE_DONE,      /* struct outcome; the last */
	ENGINE_FAILED,    /* a sentence; the last */
	ENGINE_KINDS
};

struct engine_frame {
	uint32_t kind;
	uint32_t len;
};
#define ENGINE_FRAME_MOST 65536

struct engine_hello {
	uint32_t magic;
	uint32_t size; /* of struct outcome: as a sign of the same version */
};
#define ENGINE_MAGIC 0x73627865u

/* what the relay tells the launcher of them */
struct engine_news {
	uint32_t kind; /* enum engine_kind */
	union {
		struct outcome outcome;
		struct violation violation;
		char text[ENGINE_TEXT];
	};
};

#endif

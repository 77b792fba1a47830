/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * call.h - python by the names of its functions
 */
#ifndef PYTHON_CALL_H
#define PYTHON_CALL_H

/* the function of that name; ends the process when this python does not show it */
void *call_need(const char *name);
/* who calls python has its lock */
int call_begin(void);
void call_end(int lock);
/* runs a text that sees `names`, or nothing, in a namespace of its own; -1: it raised */
int call_run(const char *text, const char *names);
/* ends the process, and says why to whoever started it */
_Noreturn void call_give_up(const char *why);

#endif

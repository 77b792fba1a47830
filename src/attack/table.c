/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * table.c - all groups of attacks
 */
#include "attack/attack.h"

const struct attack_group attack_groups[] = {
	{"NS", "namespaces", attacks_ns},
	{"FS", "files", attacks_fs},
	{"PR", "privileges", attacks_pr},
	{"SY", "system calls", attacks_sy},
	{"RS", "resources", attacks_rs},
	{"PC", "processes and time", attacks_pc},
	{"NW", "network", attacks_nw},
	{"XS", "other runs", attacks_xs},
	{"IL", "what leaks", attacks_il},
	{"IN", "packages", attacks_in},
	{"DG", "honesty about less", attacks_dg},
	{NULL, NULL, NULL},
};

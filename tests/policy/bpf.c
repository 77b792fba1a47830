/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * bpf.c - seccomp filters run on one call's data, as the kernel does
 */
#include "bpf.h"

#include <linux/filter.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire/setup.h"

static uint32_t load(const struct seccomp_data *data, uint32_t offset)
{
	uint32_t word;

	if (offset % 4 || offset > sizeof(*data) - sizeof(word))
		abort();
	memcpy(&word, (const char *)data + offset, sizeof(word));
	return word;
}

static int jumps(const struct sock_filter *i, uint32_t a)
{
	switch (BPF_OP(i->code)) {
	case BPF_JEQ:
		return a == i->k;
	case BPF_JGT:
		return a > i->k;
	case BPF_JGE:
		return a >= i->k;
	case BPF_JSET:
		return (a & i->k) != 0;
	default:
		abort();
	}
}

unsigned bpf_steps;

uint32_t bpf_run(const struct setup_filter *f, const struct seccomp_data *data)
{
	const struct sock_filter *i = f->insns, *end = f->insns + f->len;
	uint32_t a = 0;

	bpf_steps = 0;
	for (; i < end; i++) {
		bpf_steps++;
		if (i->code == (BPF_LD | BPF_W | BPF_ABS))
			a = load(data, i->k);
		else if (i->code == (BPF_ALU | BPF_AND | BPF_K))
			a &= i->k;
		else if (i->code == (BPF_RET | BPF_K))
			return i->k;
		else if (i->code == (BPF_JMP | BPF_JA))
			i += i->k;
		else if (BPF_CLASS(i->code) == BPF_JMP && BPF_SRC(i->code) == BPF_K)
			i += jumps(i, a) ? i->jt : i->jf;
		else
			break;
	}
	fprintf(stderr, "# a program that cannot be run here\n");
	abort();
}

uint32_t bpf_stack(const struct setup_filter *const *filters, size_t count,
		   const struct seccomp_data *data)
{
	uint32_t answer = SECCOMP_RET_ALLOW, one;

	/* the newest runs first; a later one must be stricter to count; KILL_PROCESS is
	 * below 0 */
	while (count > 0) {
		one = bpf_run(filters[--count], data);
		if ((int32_t)(one & SECCOMP_RET_ACTION_FULL) <
		    (int32_t)(answer & SECCOMP_RET_ACTION_FULL))
			answer = one;
	}
	return answer;
}

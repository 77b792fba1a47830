/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * forked.c - attacks from runs that were forked from a started python
 *
 * Runs in: `selftest`, with SANDBOX_WARM_FORK=on. Such a run is python's before it is
 * anybody's: its program is one that becomes ours, which it is given as a file and which
 * is gone before the case looks.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "attack/battery.h"
#include "base/defer.h"
#include "base/mem.h"

#define FILE_NAME "attack"
#define BINARY_MOST (256u << 20)

/* it leaves to ours what every mode has */
static const char become[] =
	"import os, sys\n"
	"f = os.open('" FILE_NAME "', os.O_RDONLY | os.O_CLOEXEC)\n"
	"os.fchmod(f, 0o700)\n"
	"os.unlink('" FILE_NAME "')\n"
	"del os.environ['PYTHONDONTWRITEBYTECODE'], os.environ['PYTHONUNBUFFERED']\n"
	"os.execv('/proc/self/fd/%d' % f, ['" MODE_SELF "', *sys.argv[1:]])\n";

bool battery_forks(const struct battery *b)
{
	return b->forks && battery_mode(b, MODE_PYTHON) &&
	       b->report->level >= LEVEL_NAMESPACES &&
	       b->report->layer[LAYER_MEMORY_LIMIT].active;
}

void battery_wait_forks(struct battery *b, unsigned count)
{
	const struct mode *python = battery_mode(b, MODE_PYTHON);

	if (python)
		(void)battery_wait_many(b, python->row, count);
}

bool run_forks(const struct battery *b, const struct attack_run *r)
{
	return r->attack && !r->mode && !r->network && !r->env[0] && battery_forks(b);
}

static int add_binary(struct buf *out)
{
	auto_fd int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct stat st;
	ssize_t n = 1;

	if (fd < 0 || fstat(fd, &st) < 0 || buf_reserve(out, (size_t)st.st_size) < 0)
		return -1;
	while (n > 0 && out->len < (size_t)st.st_size) {
		n = read(fd, out->bytes + out->len, (size_t)st.st_size - out->len);
		out->len += n > 0 ? (size_t)n : 0;
	}
	return out->len == (size_t)st.st_size ? 0 : -1;
}

int run_fork(const struct battery *b, struct run_request *q)
{
	q->mode = battery_mode(b, MODE_PYTHON);
	q->row = q->mode->row;
	q->files = mem_array(1, sizeof(*q->files));
	q->file_count = 1;
	q->files[0].name = mem_copy(FILE_NAME);
	buf_init(&q->files[0].data, BINARY_MOST);
	return buf_puts(&q->code, become) < 0 || add_binary(&q->files[0].data) < 0 ? -1
										   : 0;
}

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * uv.c - stands for uv where only what becomes of a layer is measured
 *
 * It installs one module, whatever it is told: no registry is asked and none is needed.
 */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

int main(void)
{
	static const char text[] = "number = 1\n";
	int fd;

	if (mkdir("packages", 0755) < 0)
		return 1;
	fd = open("packages/layered.py", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (fd < 0 || write(fd, text, sizeof(text) - 1) != (ssize_t)sizeof(text) - 1)
		return 1;
	return close(fd) < 0;
}

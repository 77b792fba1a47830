/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * replay.c - run a fuzz harness over its kept inputs, as a test
 *
 * Linked with tests/fuzz/fuzz_NAME.c it becomes replay_NAME, which feeds every file of
 * tests/fuzz/corpus/NAME, and the empty input, to the harness: one process and one line
 * of TAP each. Run it from the top of the tree.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define INPUT_MAX_BYTES (16 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int number, failed;

static void feed(int dir_fd, const char *name)
{
	int fd = dir_fd < 0 ? -1 : openat(dir_fd, name, O_RDONLY | O_CLOEXEC);
	uint8_t *data = malloc(INPUT_MAX_BYTES);
	ssize_t len = fd < 0 ? 0 : read(fd, data, INPUT_MAX_BYTES);
	uint8_t *exact = malloc(len > 0 ? (size_t)len : 1);

	/* a buffer of just that size: a sanitizer sees the first byte read beyond it */
	if (!data || !exact || len < 0)
		_exit(2);
	memcpy(exact, data, (size_t)len);
	free(data);
	alarm(10);
	LLVMFuzzerTestOneInput(exact, (size_t)len);
	free(exact);
	exit(0);
}

static void replay(int dir_fd, const char *name)
{
	int status = -1;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		dup2(2, 1);
		feed(dir_fd, name);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		status = -1;
	failed += status != 0;
	printf("%s %d - %s\n", status == 0 ? "ok" : "not ok", ++number, name);
}

int main(int argc, char **argv)
{
	const char *name = argc > 0 ? strrchr(argv[0], '/') : NULL;
	char path[256];
	DIR *dir;

	if (!name || strncmp(name, "/replay_", 8) != 0)
		return 2;
	snprintf(path, sizeof(path), "tests/fuzz/corpus/%s", name + 8);
	replay(-1, "the empty input");
	dir = opendir(path);
	for (struct dirent *e = dir ? readdir(dir) : NULL; e; e = readdir(dir))
		if (e->d_name[0] != '.')
			replay(dirfd(dir), e->d_name);
	if (dir)
		closedir(dir);
	printf("1..%d\n", number);
	return failed != 0;
}

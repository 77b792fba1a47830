/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * main.c - the subcommands
 *
 * One request, top to bottom:
 *
 *	cmd/serve.c          the supervisor: reads settings, starts launcher and server
 *	cmd/server.c         the server: no rights from here on
 *	http/server.c        bytes become a request, after http/admit.c let it in
 *	http/routes.c        method and path choose a handler
 *	http/on_execute.c    body in, answer later, by connection id
 *	api/request.c        JSON to struct run_request, every field checked
 *	job/queue.c          admit now, queue, or refuse as busy
 *	job/prepare.c        settings + mode + request to a plan and a sealed memfd
 *	job/client.c         plan and memfd out, news in
 *	launcher/loop.c      the launcher's end of that socket
 *	launcher/slot.c      a free slot: cgroups, namespaces, uid and worker
 *	launcher/worker.c    in the slot: clone3
 *	launcher/child.c     the step table, ending in execve
 *	launcher/watch.c     pidfd, deadline and memory events end it
 *	launcher/judge.c     and decide the verdict
 *	launcher/notify.c    refused system calls: answered and counted
 *	launcher/collect.c   what the program left in its output directory
 *	job/capture.c        stdout and stderr, cut at the cap
 *	job/result.c         verdict, exit code, message
 *	api/reply.c          struct result to JSON
 */
#include <fcntl.h>
#ifdef SANDBOX_STATIC
#include <nss.h>
#endif
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "attack/attack.h"
#include "cmd/cmd.h"
#include "session/session.h"

#ifndef SANDBOX_VERSION
#define SANDBOX_VERSION "dev"
#endif

static const struct command {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *help; /* NULL: not for people */
} commands[] = {
	{"serve", cmd_serve, "serve over HTTP (the default)"},
	{"mcp", cmd_mcp,
	 "serve the client that started it, by MCP over stdin and stdout"},
	{"run", cmd_run, "run one program in a sandbox, without HTTP"},
	{"config", cmd_config, "show the settings in force and where each comes from"},
	{"check", cmd_check, "show which isolation layers work on this host"},
	{"ready", cmd_ready, "ask a server that runs whether it takes requests"},
	{"layers", cmd_layers, "show, remove and prefetch packages of requests"},
	{"token", cmd_token, "make a token for a client"},
	{"audit", cmd_audit, "check that an audit file is what the server wrote"},
	{"image", cmd_image, "show, add, pull and remove images of sessions"},
	{"policy", cmd_policy, "show, check and explain the rules for system calls"},
	{"selftest", cmd_selftest, "attack the sandbox of this host, and say what holds"},
	{"launcher", cmd_launcher, NULL},
	{"inside", cmd_inside, NULL},
};

#define COMMANDS (sizeof(commands) / sizeof(commands[0]))

static void print_help(void)
{
	size_t i;

	printf("sandbox-server %s - other people's code, each run in a fresh sandbox\n\n"
	       "usage: sandbox-server [COMMAND] [OPTIONS]\n\n",
	       SANDBOX_VERSION);
	for (i = 0; i < COMMANDS; i++) {
		if (commands[i].help)
			printf("  %-10s %s\n", commands[i].name, commands[i].help);
	}
	printf("\n  --version  print the version\n"
	       "  --help     this text; COMMAND --help for its options\n\n"
	       "sandbox-server(8) has it all.\n");
}

/* Started with one of them closed, a descriptor of ours would get its number, and logs
 * and output would be written into it. */
static int open_standard(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd > STDERR_FILENO)
		close(fd);
	return fd < 0 && fcntl(STDERR_FILENO, F_GETFD) < 0 ? -1 : 0;
}

/* A static binary has files and DNS in itself. For other services its C library would
 * load shared objects of whatever the image has, made for whatever C library that has. */
static int stay_static(void)
{
#ifdef SANDBOX_STATIC
	return __nss_configure_lookup("hosts", "files dns") |
	       __nss_configure_lookup("passwd", "files");
#else
	return 0;
#endif
}

int main(int argc, char **argv)
{
	const struct sigaction ignore = {.sa_handler = SIG_IGN};
	const struct sigaction plain = {.sa_handler = SIG_DFL};
	size_t i;

	if (open_standard() < 0)
		return 1; /* and nowhere to say so */
	if (stay_static() != 0)
		return 1;
	if (argc > 0 && strcmp(argv[0], MODE_SELF) == 0)
		return attack_main(argc, argv); /* inside a sandbox that selftest made */
	if (argc > 0 && strcmp(argv[0], SESSION_SELF) == 0)
		/* inside a session, where a sanitizer could not look for leaks */
		_exit(session_inside_main(argc, argv));
	/* whoever reads our log may go away: that ends neither us nor what runs. A
	 * program gets all its signals back. */
	sigaction(SIGPIPE, &ignore, NULL);
	sigaction(SIGXFSZ, &ignore, NULL); /* a low ulimit -f: an error, not the end */
	sigaction(SIGCHLD, &plain, NULL);  /* if ignored, nobody could wait for a child */
	if (argc < 2 || (argv[1][0] == '-' && strcmp(argv[1], "--version") != 0 &&
			 strcmp(argv[1], "--help") != 0))
		return cmd_serve(argc - 1, argv + 1);
	if (strcmp(argv[1], "--version") == 0) {
		printf("sandbox-server %s\n", SANDBOX_VERSION);
		return 0;
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0) {
		print_help();
		return 0;
	}
	for (i = 0; i < COMMANDS; i++) {
		if (strcmp(argv[1], commands[i].name) == 0)
			return commands[i].run(argc - 2, argv + 2);
	}
	fprintf(stderr, "sandbox-server: unknown command '%s' (try --help)\n", argv[1]);
	return 2;
}

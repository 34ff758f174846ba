/* SPDX-License-Identifier: BSD-3-Clause */
/* The front door: finds the subcommand and hands it the rest of the command line. */
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "conformance/engine/conform.h"
#include "families.h"
#include "fuzz/campaign/command.h"
#include "host/engine/command.h"
#include "pcap/tools/command.h"
#include "target/engine/command.h"
#include "target/rpc/ctl.h"

static int conform(int argc, char **argv)
{
        return conform_command(conform_families(), argc, argv);
}

static int target(int argc, char **argv)
{
        return target_command(target_families(), argc, argv);
}

static int host(int argc, char **argv)
{
        return host_command(host_families(), argc, argv);
}

static int pcap(int argc, char **argv)
{
        return pcap_command(trace_families(), argc, argv);
}

static const struct command {
        const char *name, *says;
        int (*run)(int argc, char **argv); /* returns the exit code */
} commands[] = {
        { "conform", "run the conformance suite against a target (without -a: the embedded one)",
          conform },
        { "target", "serve NVM subsystems and discovery over NVMe/TCP and NVMe/RDMA", target },
        { "ctl", "change and show a running target by its RPC", ctl_command },
        { "host", "discover, identify, read, write, verify and measure a target", host },
        { "fuzz", "send mutated sessions to a target; play, minimise and merge sequences",
          fuzz_command },
        { "pcap", "decode and check captured traffic", pcap },
};
enum { COMMANDS = sizeof(commands) / sizeof(commands[0]), EXIT_USAGE = 2, EXIT_BROKEN = 3 };

static void usage(FILE *out)
{
        fprintf(out, "usage: nvmfspec COMMAND [OPTION...]\n\n");
        for (size_t i = 0; i < COMMANDS; i++)
                fprintf(out, "  %-8s  %s\n", commands[i].name, commands[i].says);
        fprintf(out, "\n"
                     "'nvmfspec COMMAND --help' lists the options of a command.\n");
}

static int dispatch(int argc, char **argv)
{
        if (argc < 2) {
                usage(stderr);
                return EXIT_USAGE;
        }
        for (size_t i = 0; i < COMMANDS; i++)
                if (strcmp(argv[1], commands[i].name) == 0)
                        return commands[i].run(argc - 1, argv + 1);
        if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
                usage(stdout);
                return 0;
        }
        if (strcmp(argv[1], "--version") == 0) {
                puts("nvmfspec 0.1.0");
                return 0;
        }
        fprintf(stderr, "nvmfspec: no command '%s'\n", argv[1]);
        usage(stderr);
        return EXIT_USAGE;
}

/* --- standard input and output ---------------------------------------------------------------- */

/* Those that are closed are taken, to refuse each use: else the first sockets would be standard output
 * and error, and what is printed would go to the peer. */
static void hold_standard(void)
{
        for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
                if (fcntl(fd, F_GETFD) < 0 &&
                    open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd)
                        return;
}

/* What was printed has to have arrived: success without it is none. */
static int finish(int code)
{
        if (fflush(stdout) == 0 && !ferror(stdout))
                return code;
        fprintf(stderr, "nvmfspec: standard output could not be written completely\n");
        return code ? code : EXIT_BROKEN;
}

int main(int argc, char **argv)
{
        hold_standard();
        return finish(dispatch(argc, argv));
}

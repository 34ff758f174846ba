/* SPDX-License-Identifier: BSD-3-Clause */
#include "command.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pdu/io/option_table.h"

#define AT(member) .at = offsetof(struct host_args, member)
#define ANY        .group = UINT32_MAX

/* clang-format off */
static const struct option_row where[] = {
        { 't', "transport", "TYPE", NULL, OPTION_CHOICE, HOST_WHERE, AT(transport) },
        { 0 },
};

static const struct option_row how[] = {
        { 0, "file", "PATH", "file to write data to or read it from; -: standard output or input", OPTION_STRING, HOST_FILE, AT(file) },
        { 0, "pattern", "BYTE", "a byte to fill the blocks with, in place of a file", OPTION_NUMBER, HOST_PATTERN, AT(pattern), .max = 255 },
        { 0, "iodepth", "N", "commands outstanding per queue (32)", OPTION_NUMBER, HOST_LOAD, AT(iodepth), .min = 1, .max = 4096 },
        { 0, "range", "SIZE", "bytes of the namespace that are used", OPTION_SIZE, HOST_LOAD, AT(range), .min = 512 },
        { 0, "time", "SEC", "run time in seconds (perf: 10)", OPTION_SECONDS, HOST_LOAD, AT(time), .min = 1, .max = 864000000 },
        { 0, "seed", "N", "seed of all random choices (1)", OPTION_NUMBER, HOST_LOAD, AT(seed) },
        { 0, "size", "SIZE", "largest command (128k)", OPTION_SIZE, HOST_VERIFY, AT(size), .min = 512, .max = 1 << 26 },
        { 0, "passes", "N", "how often the range is written (1, or until --time is over)", OPTION_NUMBER, HOST_VERIFY, AT(passes), .min = 1, .max = UINT32_MAX },
        { 0, "rw", "KIND", "read, write, randread, randwrite, rw or randrw (randread)", OPTION_CHOICE, HOST_PERF, AT(rw), .choices = "read|write|randread|randwrite|rw|randrw" },
        { 0, "mix", "PERCENT", "percentage of reads in rw and randrw (50)", OPTION_NUMBER, HOST_PERF, AT(mix), .max = 100 },
        { 0, "bs", "SIZE", "bytes of a command (4k)", OPTION_SIZE, HOST_PERF, AT(block_size), .min = 512, .max = 1 << 26 },
        { 0, "warmup", "SEC", "time in seconds before the measurement starts (0)", OPTION_SECONDS, HOST_PERF, AT(warmup), .max = 864000000 },
        { 0, "cpu", "LIST", "run a thread pinned to each of these CPUs, such as 1 or 2-5,8", OPTION_STRING, HOST_PERF, AT(cpu) },
        { 0, "no-busy-poll", NULL, "sleep instead of polling while nothing arrives", OPTION_FLAG, HOST_PERF, AT(no_busy_poll) },
        { 'o', "output-format", "FORM", "text or json (text)", OPTION_CHOICE, HOST_OUTPUT, AT(output), .choices = "text|json" },
        { 'v', "verbose", NULL, "print more on standard error", OPTION_FLAG, ANY, AT(verbose) },
        { 'h', "help", NULL, "print this help", OPTION_FLAG, ANY, AT(help) },
        { 0 },
};
/* clang-format on */

static const struct host_args defaults = {
        .output = "text",
        .blocks = 1,
        .pattern = HOST_NO_PATTERN,
        .iodepth = 32,
        .seed = 1,
        .size = 128 * 1024,
        .rw = "randread",
        .mix = 50,
        .block_size = 4096,
};

/* --- help -------------------------------------------------------------------------------------- */

static void usage(const struct host_family *f, FILE *out)
{
        const struct host_subcommand *s;

        fprintf(out, "usage: nvmfspec host SUBCOMMAND %s[OPTION...]\n\n", f->address);
        for (unsigned i = 0; (s = f->subcommand(i)) != NULL; i++)
                fprintf(out, "  %-12s %s\n", s->name, s->says);
        fputs("\n"
              "'nvmfspec host SUBCOMMAND --help' lists the options of a subcommand.\n"
              "Exit: 0 done, 1 a command failed or data differs, 2 usage error, 3 no "
              "connection.\n",
              out);
}

static void help(const struct host_subcommand *s, const struct option_table *t)
{
        printf("usage: nvmfspec host %s%s%s [OPTION...]\n%s\n\n", s->name, *s->words ? " " : "",
               s->words, s->says);
        option_help(t->rows, s->groups, stdout);
}

static const struct host_subcommand *find(const struct host_family *f, const char *name)
{
        const struct host_subcommand *s = NULL;

        for (unsigned i = 0; (s = f->subcommand(i)) != NULL && strcmp(s->name, name) != 0; i++)
                ;
        return s;
}

/* --- a call ------------------------------------------------------------------------------------ */

static int parse(const struct host_family *f, const struct option_table *t, uint32_t groups,
                 int argc, char **argv, void *args, char ***words, struct host_error *e)
{
        int first;

        *(struct host_args *)args = defaults;
        if (f->defaults)
                f->defaults(args);
        first = option_parse(t->rows, groups, argc, argv, args, e->line, sizeof(e->line));
        if (first < 0) {
                e->kind = HOST_USAGE;
                return -1;
        }
        *words = argv + first;
        return f->addresses ? f->addresses(args, argc - first, *words, e) : argc - first;
}

int host_parse(const struct host_family *f, uint32_t groups, int argc, char **argv, void *args,
               char ***words, struct host_error *e)
{
        const struct host_family *const alone[] = { f, NULL };
        struct option_table t;

        option_table_make(&t, (const void *const *)alone, where, f->options, how);
        return parse(f, &t, groups, argc, argv, args, words, e);
}

static int run_with(const struct host_family *f, const struct host_subcommand *s,
                    const struct option_table *t, void *args, int argc, char **argv,
                    struct host_error *e)
{
        const struct host_args *a = args;
        char **words;
        int count = parse(f, t, s->groups, argc, argv, args, &words, e);

        if (count < 0)
                return -1;
        if (a->help) {
                help(s, t);
                return 0;
        }
        if (count > 0 && !*s->words)
                return host_fail(e, HOST_USAGE, "'%s' is not an option", words[0]);
        return f->run(s, args, count, words, e);
}

static int run(const struct host_family *const *families, const struct host_family *f,
               const struct host_subcommand *s, int argc, char **argv, struct host_error *e)
{
        void *args = calloc(1, f->args_size);
        struct option_table t;
        int rc;

        if (!args)
                return host_fail(e, HOST_BROKEN, "%s", strerror(ENOMEM));
        option_table_make(&t, (const void *const *)families, where, f->options, how);
        rc = run_with(f, s, &t, args, argc, argv, e);
        if (f->forget)
                f->forget(args);
        free(args);
        return rc;
}

/* "host -t TYPE SUBCOMMAND" is "host SUBCOMMAND -t TYPE". */
static void put_subcommand_first(int argc, char **argv)
{
        int words =
            argc > 3 && (strcmp(argv[1], "-t") == 0 || strcmp(argv[1], "--transport") == 0) ? 2
            : argc > 2 &&
                    (strncmp(argv[1], "-t", 2) == 0 || strncmp(argv[1], "--transport=", 12) == 0)
                ? 1
                : 0;
        char *subcommand = argv[words + 1 < argc ? words + 1 : 0];

        if (words == 0)
                return;
        memmove(argv + 2, argv + 1, (size_t)words * sizeof(*argv));
        argv[1] = subcommand;
}

int host_command(const struct host_family *const *families, int argc, char **argv)
{
        const struct host_family *f = option_family((const void *const *)families, argc, argv);
        const struct host_subcommand *s;
        struct host_error e = { 0 };

        put_subcommand_first(argc, argv);
        s = argc > 1 ? find(f, argv[1]) : NULL;
        if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
                usage(f, stdout);
                return 0;
        }
        if (!s) {
                fprintf(stderr,
                        argc > 1 ? "nvmfspec host: no subcommand '%s'; --help lists them\n"
                                 : "nvmfspec host: no subcommand given; --help lists them\n",
                        argc > 1 ? argv[1] : "");
                return HOST_USAGE;
        }
        if (run(families, f, s, argc - 1, argv + 1, &e) == 0)
                return 0;
        fflush(stdout);
        fprintf(stderr, "nvmfspec host %s: %s\n", s->name, e.line);
        return (int)e.kind;
}

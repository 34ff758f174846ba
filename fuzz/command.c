/* SPDX-License-Identifier: BSD-3-Clause */
#include "command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "seq_mutate.h"
#include "session.h"

enum { FUZZ_OK, FUZZ_USAGE = 2, FUZZ_UNREADABLE = 3, WIDTH = 300 };

static struct sequence seq;

static bool load(const char *path)
{
        static char text[SEQ_TEXT];
        FILE *f = fopen(path, "re");
        char err[200] = "cannot be read";
        size_t n;
        bool ok;

        if (!f) {
                perror(path);
                return false;
        }
        n = fread(text, 1, sizeof(text), f);
        ok = !ferror(f) && n < sizeof(text) && seq_parse(&seq, text, n, err, sizeof(err));
        fclose(f);
        if (!ok)
                fprintf(stderr, "%s: %s\n", path, n == sizeof(text) ? "too long" : err);
        return ok;
}

static int show(const char *path)
{
        static char text[SEQ_TEXT];

        if (!load(path))
                return FUZZ_UNREADABLE;
        seq_print(&seq, text, sizeof(text));
        fputs(text, stdout);
        return FUZZ_OK;
}

static void on_pdu(void *user, enum party sender, const union pdu *h)
{
        char line[WIDTH];
        struct text t = text_in(line, sizeof(line));

        (void)user;
        pdu_line(&t, h, !(seq.config & SESSION_IO));
        printf("%s %s\n", sender == PARTY_HOST ? "host      >" : "controller<", line);
}

static int repro(const char *path)
{
        struct session_report r = { .pdu = on_pdu };

        if (!load(path))
                return FUZZ_UNREADABLE;
        session_play(&seq, SESSION_DECLARED, &r);
        if (is_fault(r.fault))
                printf("%s: the %s: %s\n", rule_get(r.fault.rule)->id,
                       party_name(rule_get(r.fault.rule)->bound), rule_get(r.fault.rule)->says);
        printf("%s after %u steps, %u PDUs back\n", r.end, r.steps, r.pdus);
        return FUZZ_OK;
}

static int mutate(const char *path, uint64_t seed)
{
        static char text[SEQ_TEXT];

        if (!load(path))
                return FUZZ_UNREADABLE;
        seq_mutate(&seq, &seed);
        seq_print(&seq, text, sizeof(text));
        fputs(text, stdout);
        return FUZZ_OK;
}

static int usage(FILE *out)
{
        fputs("usage: nvmfspec fuzz repro FILE...      plays sequences to our own machines in "
              "memory\n"
              "       nvmfspec fuzz show FILE...       reads sequences and prints them\n"
              "       nvmfspec fuzz mutate FILE SEED   the mutant that this seed makes\n\n"
              "A sequence is a text, a step on a line; fuzz/sequence.h says how it is written.\n"
              "Exit: 0 done, 2 usage, 3 a file that is no sequence.\n",
              out);
        return out == stdout ? FUZZ_OK : FUZZ_USAGE;
}

static int with_each(int (*run)(const char *path), int n, char **paths)
{
        int rc = FUZZ_OK;

        for (; n > 0; n--, paths++) {
                int one = run(*paths);

                rc = rc == FUZZ_OK ? one : rc;
        }
        return rc;
}

int fuzz_command(int argc, char **argv)
{
        const char *what = argc > 1 ? argv[1] : "";

        if (strcmp(what, "--help") == 0 || strcmp(what, "-h") == 0)
                return usage(stdout);
        if (argc > 2 && strcmp(what, "repro") == 0)
                return with_each(repro, argc - 2, argv + 2);
        if (argc > 2 && strcmp(what, "show") == 0)
                return with_each(show, argc - 2, argv + 2);
        if (argc == 4 && strcmp(what, "mutate") == 0)
                return mutate(argv[2], strtoull(argv[3], NULL, 0));
        return usage(stderr);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* `nvmfspec pcap` in this process. */
#ifndef NVMF_PCAP_TESTS_RUN_H
#define NVMF_PCAP_TESTS_RUN_H

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include "pcap/tools/command.h"

/* The exit code; what it prints goes to `to`, its remarks are dropped. */
static int run_pcap(const struct trace_family *const *families, char **argv, int argc, char *to,
                    size_t size)
{
        int saved[2] = { dup(1), dup(2) }, null = open("/dev/null", O_WRONLY), rc;
        FILE *f = tmpfile();
        size_t n;

        assert_non_null(f);
        fflush(stdout);
        dup2(fileno(f), 1);
        dup2(null, 2);
        rc = pcap_command(families, argc, argv);
        fflush(stdout);
        dup2(saved[0], 1);
        dup2(saved[1], 2);
        close(saved[0]);
        close(saved[1]);
        close(null);
        rewind(f);
        n = fread(to, 1, size - 1, f);
        to[n] = 0;
        fclose(f);
        return rc;
}

#endif

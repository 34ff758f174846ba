/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A trace of commands as `nvmfspec pcap stat` reads it, a line after the other.
 *
 * Input: the file.
 */
#include <stdio.h>

#include "fuzz/fuzz.h"
#include "pcap/tools/trace_line.h"

/* What is printed of it gives no orders to a terminal. */
static void look_at_text(const char *text, size_t size)
{
        must(memchr(text, 0, size) != NULL);
        for (; *text; text++)
                must(*text >= ' ' && *text < 0x7f);
}

static void look_at(const struct trace_line *l)
{
        if (l->kind != TRACE_LINE_COMMAND)
                return;
        look_at_text(l->transport, sizeof(l->transport));
        look_at_text(l->hostnqn, sizeof(l->hostnqn));
        look_at_text(l->subnqn, sizeof(l->subnqn));
        look_at_text(l->opcode, sizeof(l->opcode));
        look_at_text(l->status_text, sizeof(l->status_text));
        must(l->status < 0x800 && l->qid <= UINT16_MAX && l->conn <= UINT32_MAX && l->time_ns >= 0);
        must(l->states > 0 && l->states <= TRACE_LINE_STATES);
        for (unsigned i = 0; i < l->states; i++) {
                look_at_text(l->state[i].name, sizeof(l->state[i].name));
                must(i == 0 || l->state[i].at >= l->state[i - 1].at);
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
        static char text[TRACE_LINE_MAX];
        static struct trace_line l;
        char error[120] = "";
        FILE *f = size > 0 ? fmemopen((void *)(uintptr_t)input, size, "r") : NULL;
        int rc = 1;

        while (f && rc == 1 && (rc = trace_line_next(f, text, error, sizeof(error))) == 1) {
                must(!strchr(text, '\n') && error[0] == '\0');
                if (trace_line_read(&l, text, error, sizeof(error)))
                        look_at(&l);
                else
                        rc = -1;
        }
        must((rc < 0) == (error[0] != '\0') && !strchr(error, '\n'));
        if (f)
                fclose(f);
        return 0;
}

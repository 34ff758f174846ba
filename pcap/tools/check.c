/* SPDX-License-Identifier: BSD-3-Clause */
#include "pcap/trace/check.h"

#include "call.h"
#include "command.h"

static bool selects(void *user, const struct trace_record *r)
{
        struct pcap_call *call = user;
        bool selected = args_select_conn(call->args, r->e->conn);

        call->selected = call->selected || selected;
        return selected;
}

int pcap_check(struct pcap_call *call)
{
        const struct args *a = call->args;
        struct check_options options = {
                .all = a->all,
                .json = args_json(a),
                .waived = a->waived,
                .selects = a->conn || a->qid != ARG_ANY ? selects : NULL,
                .user = call,
        };
        struct check_counts counts;
        struct trace_totals totals;

        call->selected = !a->conn && a->qid == ARG_ANY;
        if (capture_check(call->file, a->families, &a->trace, &options, stdout, &counts, &totals,
                          call->err, sizeof(call->err)) == 0)
                (void)pcap_sealed(call, &totals);
        pcap_remarks(call, &totals);
        if (counts.of[GRADE_MUST] > 0 || (a->strict && counts.of[GRADE_SHOULD] > 0))
                return PCAP_BROKEN;
        if (counts.judged > 0)
                return PCAP_OK;
        if (call->selected && !*call->err)
                fprintf(stderr, "%s: nothing could be judged; this is no clean verdict\n",
                        call->file);
        return PCAP_UNJUDGED;
}

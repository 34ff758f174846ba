/* SPDX-License-Identifier: BSD-3-Clause */
#include "pcap/trace/check.h"

#include "call.h"
#include "command.h"

static bool selects(void *user, const struct trace_verdict *v)
{
        struct pcap_call *call = user;
        bool selected = args_select_queue(call->args, v->record);

        call->selected = call->selected || selected;
        return selected;
}

int pcap_check(struct pcap_call *call)
{
        const struct args *a = call->args;
        struct check_options options = {
                .all = a->all,
                .json = args_json(a),
                .waived = &a->waived,
                .selects = a->conn || a->qid != ARG_ANY ? selects : NULL,
                .user = call,
        };
        struct check_counts counts;
        struct trace_totals totals;

        call->selected = !a->conn && a->qid == ARG_ANY;
        (void)capture_check(call->file, &nvme_capture, &a->trace, &options, stdout, &counts,
                            &totals, call->err, sizeof(call->err));
        pcap_remarks(call, &totals);
        return counts.musts > 0 || (a->strict && counts.shoulds > 0) ? PCAP_BROKEN : PCAP_OK;
}

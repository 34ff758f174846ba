/* SPDX-License-Identifier: BSD-3-Clause */
/* stat of a trace of commands (trace_line.h), in place of a capture. */
#ifndef NVMF_PCAP_STAT_TRACE_H
#define NVMF_PCAP_STAT_TRACE_H

#include <json-c/json.h>

#include "call.h"
#include "stat.h"

/* Fills s, which is as stat makes it for a capture, and s->trace; totals.frames are lines. False: the file is none.
 * What is wrong with it goes to call->err, and s has what came before. */
bool stat_trace_read(struct pcap_call *call, struct stats *s, struct trace_totals *totals);
/* What a capture does not show, where there is s->trace: states, the slowest commands, what is missing. As text; as
 * members of o. */
void stat_trace_print(const struct stats *s);
void stat_trace_put(const struct stats *s, struct json_object *o);
void stat_trace_free(struct stats *s);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* An NVMe/TCP PDU of a trace as bytes of the wire again. Private to the room. */
#ifndef NVMF_PCAP_WIREBYTES_H
#define NVMF_PCAP_WIREBYTES_H

#include "family.h"
#include "pcap/trace/tracer.h"

struct wire_parts { /* offsets in the PDU */
        size_t data, ddgst;
        bool has_ddgst;
};

/* Its header, with the digest that it had, after what is in `out`. False: no memory. */
bool wire_head(struct bytes *out, const struct trace_pdu *p);
/* Into `out`, from its start: all before its data; how many bytes follow that. False: no memory. */
bool wire_front(struct bytes *out, const struct trace_pdu *p);
uint32_t wire_rest(const struct trace_pdu *p);
/* Into `out`, from its start; its data was kept, or it has none. False: no memory. */
bool wire_bytes(struct bytes *out, const struct trace_pdu *p, struct wire_parts *parts);
/* Its DDGST over the data as it is now; wrong: any other value. */
void wire_sum(struct bytes *pdu, const struct wire_parts *parts, bool wrong);

#endif

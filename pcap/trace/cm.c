/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages of the InfiniBand communication manager: IBTA 12.6; private data of RDMA IP CM: A11. */
#include "tracer.h"

enum {
        MAD_LEN = 256,
        MAD_HEAD = 24,
        MAD_CLASS_CM = 0x07,
        IP_CM_HEAD = 36, /* before the consumer's data of a REQ */
};

/* Where the private data begins in the message, and how long it is. */
static const struct layout {
        enum cm_attribute attribute;
        uint8_t at, len;
} layouts[] = {
        { CM_REQ, 140 + IP_CM_HEAD, 92 - IP_CM_HEAD },
        { CM_REJ, 84, 148 },
        { CM_REP, 36, 196 },
        { CM_RTU, 8, 224 },
        { CM_DREQ, 12, 220 },
        { CM_DREP, 8, 224 },
};

static const struct layout *layout_of(unsigned attribute)
{
        for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++)
                if (layouts[i].attribute == attribute)
                        return &layouts[i];
        return NULL;
}

uint16_t cm_service_port(uint64_t service)
{
        return service >> 16 == 0x0106 ? (uint16_t)service : 0;
}

static void parse_req(const uint8_t *p, struct cm_message *out)
{
        unsigned mtu = p[50] >> 4;

        out->service = be64_at(p + 8);
        out->qpn = be24_at(p + 32);
        out->reads_in = p[35];
        out->reads_out = p[39];
        out->psn = be24_at(p + 44);
        out->service_type = p[43] >> 1 & 3;
        out->rnr_retry = p[50] & 7;
        out->mtu = mtu >= 1 && mtu <= 5 ? 128u << mtu : 0;
        out->active_port = be16_at(p + 140 + 2);
}

static void parse_rep(const uint8_t *p, struct cm_message *out)
{
        out->qpn = be24_at(p + 12);
        out->psn = be24_at(p + 20);
        out->reads_in = p[24];
        out->reads_out = p[25];
}

bool cm_parse(const uint8_t *mad, size_t n, struct cm_message *out)
{
        const struct layout *l;
        const uint8_t *p = mad + MAD_HEAD;

        if (n < MAD_LEN || mad[1] != MAD_CLASS_CM || !(l = layout_of(be16_at(mad + 16))))
                return false;
        *out = (struct cm_message) {
                .attribute = l->attribute,
                .local_id = be32_at(p),
                .remote_id = l->attribute == CM_REQ ? 0 : be32_at(p + 4),
                .data = p + l->at,
                .len = l->len,
        };
        if (l->attribute == CM_REQ)
                parse_req(p, out);
        else if (l->attribute == CM_REP)
                parse_rep(p, out);
        else if (l->attribute == CM_REJ)
                out->reason = be16_at(p + 10);
        return true;
}

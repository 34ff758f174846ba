/* SPDX-License-Identifier: BSD-3-Clause */
#include "login.h"

#include <string.h>

static bool is_for(const struct srp_login_req *r, const struct srp_port *port)
{
        static const srp_port_id any;

        return memcmp(port->id, any, sizeof(any)) == 0 ||
               memcmp(port->id, r->target_port_id, sizeof(port->id)) == 0;
}

static bool is_multi(const struct srp_login_req *r)
{
        return (r->req_flags & SRP_ACTION) == SRP_ACTION_MULTI;
}

/* In the order in which a request is looked at; SRP_REJECT_FIRST stands for "no reason". */
static uint32_t reason_against(const struct srp_login_req *r, const struct srp_port *port,
                               unsigned channels, const struct rule_set *waived)
{
        uint32_t len = be32_get(r->req_it_iu_len);
        const struct {
                bool broken;
                enum srp_rule rule; /* of the initiator; SRP_RULE_NONE: it is just not to be had */
                uint32_t reason;
        } checks[] = {
                { r->opcode != SRP_LOGIN_REQ, SRP_TYPE_I, SRP_REJECT_FIRST },
                { len < sizeof(union srp_iu), SRP_LOGIN_IT_LEN, SRP_REJECT_IU_LENGTH },
                { len > port->it_iu_max, SRP_RULE_NONE, SRP_REJECT_IU_LENGTH },
                { be16_get(r->req_buf_fmt) & ~port->formats, SRP_LOGIN_FORMATS,
                  SRP_REJECT_FORMATS },
                { (r->req_flags & SRP_ACTION) > SRP_ACTION_MULTI, SRP_LOGIN_ACTION,
                  SRP_REJECT_FIRST },
                { !is_for(r, port), SRP_LOGIN_PORT, SRP_REJECT_NEXUS },
                { is_multi(r) && port->channels_max <= 1, SRP_RULE_NONE, SRP_REJECT_MULTI },
                { is_multi(r) && channels >= port->channels_max, SRP_RULE_NONE,
                  SRP_REJECT_CHANNELS },
        };

        for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++)
                if (checks[i].broken &&
                    (checks[i].rule == SRP_RULE_NONE || !rule_in(waived, checks[i].rule)))
                        return checks[i].reason;
        return 0;
}

static uint8_t flags_of(const struct srp_login_req *r, const struct srp_port *port,
                        unsigned channels)
{
        uint16_t at = be16_get(r->imm_data_offset);
        uint8_t flags = SRP_RESULT_NONE;

        if (channels > 0)
                flags = is_multi(r) ? SRP_RESULT_MAINTAINED : SRP_RESULT_TERMINATED;
        if (r->req_flags & SRP_IMMEDIATE && at >= sizeof(struct srp_cmd) + 4 &&
            at <= port->immediate_max)
                flags |= SRP_IMMEDIATE;
        return flags;
}

static struct srp_login_rej srp_login_refuse(const struct srp_login_req *r,
                                             const struct srp_port *port, uint32_t reason)
{
        return (struct srp_login_rej) {
                .opcode = SRP_LOGIN_REJ,
                .reason = be32(reason),
                .tag = r->tag,
                .buf_fmt = be16(port->formats),
        };
}

struct srp_login_answer srp_login_decide(const struct srp_login_req *r, const struct srp_port *port,
                                         unsigned channels, const struct rule_set *waived)
{
        struct srp_login_answer a = { .reason = reason_against(r, port, channels, waived) };

        if (a.reason) {
                a.rej = srp_login_refuse(r, port, a.reason);
                return a;
        }
        a.terminates = channels > 0 && !is_multi(r);
        a.rsp = (struct srp_login_rsp) {
                .opcode = SRP_LOGIN_RSP,
                .req_lim_delta = be32(port->request_limit),
                .tag = r->tag,
                .max_it_iu_len = r->req_it_iu_len,
                .max_ti_iu_len = be32(port->ti_iu_max),
                .buf_fmt = be16(port->formats),
                .rsp_flags = flags_of(r, port, channels),
        };
        return a;
}

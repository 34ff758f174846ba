/* SPDX-License-Identifier: BSD-3-Clause */
/* Reservation commands that have succeeded, as far as each shows by itself. */
#include "judge.h"
#include "pdu/nvme/wire/reservation.h"

static bool is_of_all(uint8_t type)
{
        return type == WRITE_EXCLUSIVE_ALL || type == EXCLUSIVE_ACCESS_ALL;
}

/* Whether as many hold it as a reservation of this type has holders. */
static bool holders_fit(uint8_t type, unsigned holders, unsigned registrants)
{
        if (type == RESERVATION_NONE)
                return holders == 0;
        return is_of_all(type) ? holders == registrants && holders > 0 : holders == 1;
}

static unsigned count_holders(const struct session_cmd *cmd, unsigned registrants)
{
        const struct reservation_entry_extended *e = (const void *)(cmd->data + REPORT_HEADER);
        unsigned holders = 0;

        for (unsigned i = 0; i < registrants; i++)
                holders += e[i].rcsts & RCSTS_HOLDER;
        return holders;
}

/* All that there is, or as much as was asked for, and no more. */
static void judge_report(const struct session_cmd *cmd, bool measured, struct rule_set *found)
{
        const struct reservation_status *s = (const void *)cmd->data;
        uint64_t asked = ((uint64_t)le32_get(cmd->sqe.cdw10) + 1) * 4, all, due;
        unsigned n;

        judge_finds(found, !(le32_get(cmd->sqe.cdw11) & REPORT_EXTENDED), RESV_EDS);
        if (!cmd->data || cmd->data_cut || cmd->data_len < sizeof(*s) ||
            !(le32_get(cmd->sqe.cdw11) & REPORT_EXTENDED))
                return;
        n = le16_get(s->registrants);
        all = REPORT_HEADER + (uint64_t)n * sizeof(struct reservation_entry_extended);
        due = asked < all ? asked : all;
        judge_finds(found,
                    (measured ? cmd->data_len != due : cmd->data_len < due) ||
                        s->type > EXCLUSIVE_ACCESS_ALL || s->ptpls > 1 ||
                        (cmd->data_len >= all && !holders_fit(s->type, count_holders(cmd, n), n)),
                    RESV_STATUS);
}

void judge_reservation(const struct session_cmd *cmd, bool measured, struct rule_set *found)
{
        uint8_t opc = cmd->sqe.opc;

        if (opc == NVME_RESERVATION_REPORT)
                judge_report(cmd, measured, found);
        judge_finds(found,
                    (opc == NVME_RESERVATION_ACQUIRE || opc == NVME_RESERVATION_RELEASE) &&
                        le32_get(cmd->sqe.cdw10) & RESERVATION_IEKEY,
                    RESV_IEKEY);
}

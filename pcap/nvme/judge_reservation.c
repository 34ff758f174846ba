/* SPDX-License-Identifier: BSD-3-Clause */
/* Reservation commands that have succeeded, as far as each shows by itself. */
#include <string.h>

#include "judge.h"
#include "pdu/nvme/wire/commands.h"
#include "pdu/nvme/wire/reservation.h"

static bool is_of_all(uint8_t type)
{
        return type == WRITE_EXCLUSIVE_ALL || type == EXCLUSIVE_ACCESS_ALL;
}

struct holders {
        unsigned entries, others; /* that hold it; of these: of another host than the first one's */
};

static struct holders count_holders(const struct session_cmd *cmd, unsigned registrants)
{
        const struct reservation_entry_extended *e = (const void *)(cmd->data + REPORT_HEADER);
        const uint8_t *first = NULL;
        struct holders n = { 0 };

        for (unsigned i = 0; i < registrants; i++) {
                if (!(e[i].rcsts & RCSTS_HOLDER))
                        continue;
                first = first ? first : e[i].hostid;
                n.entries++;
                n.others += memcmp(e[i].hostid, first, sizeof(e[i].hostid)) != 0;
        }
        return n;
}

/* Whether as many hold it as a reservation of this type has holders. Up to 2.0 entries are controllers: a host
 * has several, or none that is left (B2.2 7.8); so it may be where the version is not known. */
static bool holders_fit(uint8_t type, struct holders n, unsigned registrants, uint32_t version)
{
        bool all = version >= NVME_VERSION(2, 1, 0);

        if (type == RESERVATION_NONE)
                return n.entries == 0;
        if (is_of_all(type))
                return n.entries == registrants && (n.entries > 0 || !all);
        return n.others == 0 && (n.entries > 0 || !all);
}

/* All that there is, or as much as was asked for, and no more. EDS was added in 1.3. measured: the bytes of data are
 * those that moved, not those that there was room for. */
static void judge_report(const struct session_cmd *cmd, bool measured, uint32_t version,
                         struct rule_set *found)
{
        const struct reservation_status *s = (const void *)cmd->data;
        uint64_t asked = ((uint64_t)le32_get(cmd->sqe.cdw10) + 1) * 4, all, due;
        unsigned n;

        judge_finds(found,
                    version >= NVME_VERSION(1, 3, 0) &&
                        !(le32_get(cmd->sqe.cdw11) & REPORT_EXTENDED),
                    RESV_EDS);
        if (!cmd->data || cmd->data_cut || cmd->data_len < sizeof(*s) ||
            !(le32_get(cmd->sqe.cdw11) & REPORT_EXTENDED))
                return;
        n = le16_get(s->registrants);
        all = REPORT_HEADER + (uint64_t)n * sizeof(struct reservation_entry_extended);
        due = asked < all ? asked : all;
        judge_finds(
            found,
            (measured ? cmd->data_len != due : cmd->data_len < due) ||
                s->type > EXCLUSIVE_ACCESS_ALL || s->ptpls > 1 ||
                (cmd->data_len >= all && !holders_fit(s->type, count_holders(cmd, n), n, version)),
            RESV_STATUS);
}

/* IEKEY means what it does since 1.3 where RESCAP says so (B2.2 8.1.22). */
void judge_reservation(const struct session *s, const struct session_cmd *cmd,
                       struct rule_set *found)
{
        const struct ns_format *ns = past_format(s->assoc, le32_get(cmd->sqe.nsid));
        uint8_t opc = cmd->sqe.opc;

        if (opc == NVME_RESERVATION_REPORT)
                judge_report(cmd, s->conn->transport == TRACE_TCP, past_version(s->assoc), found);
        judge_finds(found,
                    (opc == NVME_RESERVATION_ACQUIRE || opc == NVME_RESERVATION_RELEASE) && ns &&
                        ns->refuses_iekey && le32_get(cmd->sqe.cdw10) & RESERVATION_IEKEY,
                    RESV_IEKEY);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Namespaces while their controller would tell of changes. What is not in the list of active namespaces and serves
 * an I/O command all the same is judged once the next list does not have it either.
 */
#include <string.h>

#include "judge.h"
#include "pdu/nvme/wire/identify.h"

static bool is_listed(const struct ns_list *l, uint32_t nsid)
{
        for (unsigned i = 0; i < l->count; i++)
                if (l->nsids[i] == nsid)
                        return true;
        return false;
}

void ns_lists(struct ns_past *p, const struct session_cmd *cmd, uint64_t frame,
              struct rule_set *found)
{
        size_t count = ns_list_count(cmd->data, IDENTIFY_LEN);
        struct ns_list *l = &p->list;

        *l = (struct ns_list) { .known = count <= NS_LISTED, .frame = frame };
        for (size_t i = 0; l->known && i < count; i++)
                l->nsids[l->count++] = ns_list_get(cmd->data, i);
        judge_finds(found,
                    l->known && p->stranger && cmd->at.frame > p->stranger_frame &&
                        !is_listed(l, p->stranger),
                    NS_UNATTACHED);
        p->stranger = 0;
}

void ns_serves(struct ns_past *p, const struct session_cmd *cmd, uint64_t frame)
{
        uint8_t opc = cmd->sqe.opc;
        uint32_t nsid = le32_get(cmd->sqe.nsid);

        if ((opc != NVME_READ && opc != NVME_WRITE && opc != NVME_COMPARE) || !p->list.known ||
            nsid == NSID_ALL || cmd->at.frame <= p->list.frame || is_listed(&p->list, nsid))
                return;
        p->stranger = nsid;
        p->stranger_frame = frame;
}

static bool is_same(const struct ns_group *g, const struct id_ns *ns)
{
        return memcmp(g->nguid, ns->nguid, sizeof(g->nguid)) == 0 &&
               memcmp(g->eui64, ns->eui64, sizeof(g->eui64)) == 0;
}

void ns_is_in_group(struct ns_past *p, uint32_t nsid, const struct id_ns *ns,
                    struct rule_set *found)
{
        uint32_t group = le32_get(ns->anagrpid);
        struct ns_group *g;
        unsigned i = 0;

        while (i < NS_GROUPS && p->groups[i].nsid != nsid)
                i++;
        g = &p->groups[i < NS_GROUPS ? i : p->next_group++ % NS_GROUPS];
        judge_finds(found,
                    i < NS_GROUPS && is_same(g, ns) && g->group && group && g->group != group,
                    ANA_FIXED);
        *g = (struct ns_group) { .nsid = nsid, .group = group };
        memcpy(g->nguid, ns->nguid, sizeof(g->nguid));
        memcpy(g->eui64, ns->eui64, sizeof(g->eui64));
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Asymmetric Namespace Access in captures. What a log page says holds until its change count moves: so what
 * a controller has done between two log pages of the same count it has done in the states that they
 * show. Whatever looks wrong is suspected until then.
 */
#include <stdlib.h>
#include <string.h>

#include "judge.h"
#include "pcap/trace/keep.h"
#include "pdu/nvme/wire/identify.h"
#include "pdu/nvme/wire/logs.h"

enum {
        LSP_RGO_BIT = 8, /* of cdw10 */
        OT_BIT = 23,     /* of cdw14 */
        LOG_MOST = 1 << 20,
};

/* A host that reads of a change has commands under way, and other logs to read. */
#define SETTLES_NS INT64_C(2000000000)

struct ana_past {
        struct keep *logs;
        uint8_t *log;              /* NULL: none was seen since the last reset */
        uint32_t len;              /* of its header and groups */
        uint64_t frame;            /* by which it was there */
        struct rule_set suspected; /* since then */
        struct rule_set asked;     /* ... as they were when the next one was asked for */
        uint64_t asked_frame;
        int64_t read_ns; /* when it was asked for */
        bool changed;    /* it may show other states since */
};

struct ana_past *ana_past_new(struct keep *logs)
{
        struct ana_past *p = calloc(1, sizeof(*p));

        if (p)
                p->logs = logs;
        return p;
}

void ana_past_reset(struct ana_past *p)
{
        if (!p)
                return;
        keep_less(p->logs, p->len);
        free(p->log);
        *p = (struct ana_past) { .logs = p->logs };
}

void ana_past_free(struct ana_past *p)
{
        ana_past_reset(p);
        free(p);
}

/* --- the log ---------------------------------------------------------------------------------- */

struct group {
        const struct ana_group *g;
        const void *nsids;
        size_t count;
};

static bool next_group(const uint8_t *log, uint32_t len, size_t *at, struct group *g)
{
        g->g = ana_group_next(log, len, at, &g->nsids, &g->count);
        return g->g && g->count == le32_get(g->g->nnsids);
}

/* Bytes of the groups that its header counts; 0: it is not whole. */
static uint32_t whole(const uint8_t *log, uint32_t len)
{
        size_t at = sizeof(struct log_ana);
        struct group g;

        if (len < at)
                return 0;
        for (unsigned n = le16_get(((const struct log_ana *)(const void *)log)->ngrps); n > 0; n--)
                if (!next_group(log, len, &at, &g))
                        return 0;
        return (uint32_t)at;
}

static uint64_t count_of(const uint8_t *log)
{
        return le64_get(((const struct log_ana *)(const void *)log)->chgcnt);
}

/* The state of a group; 0: it is not there. */
static uint8_t state_of(const uint8_t *log, uint32_t len, uint32_t id)
{
        size_t at = sizeof(struct log_ana);
        struct group g;

        while (at < len && next_group(log, len, &at, &g))
                if (le32_get(g.g->grpid) == id)
                        return g.g->state & 15;
        return 0;
}

static const struct ana_group *group_with(const struct ana_past *p, uint32_t nsid)
{
        size_t at = sizeof(struct log_ana);
        struct group g;

        while (p->log && at < p->len && next_group(p->log, p->len, &at, &g))
                for (size_t i = 0; i < g.count; i++)
                        if (ns_list_get(g.nsids, i) == nsid)
                                return g.g;
        return NULL;
}

static bool revives(const struct ana_past *p, const uint8_t *log, uint32_t len)
{
        size_t at = sizeof(struct log_ana);
        struct group g;

        while (at < p->len && next_group(p->log, p->len, &at, &g)) {
                uint8_t now = state_of(log, len, le32_get(g.g->grpid));

                if ((g.g->state & 15) == ANA_PERSISTENT_LOSS && now && now != ANA_PERSISTENT_LOSS)
                        return true;
        }
        return false;
}

static void compare(const struct ana_past *p, const uint8_t *log, uint32_t len, uint64_t asked,
                    struct rule_set *found)
{
        bool same = count_of(log) == count_of(p->log);

        judge_finds(found, revives(p, log, len), ANA_LOSS_STAYS);
        judge_finds(found,
                    count_of(log) < count_of(p->log) ||
                        (same && (len != p->len || memcmp(log, p->log, len) != 0)),
                    ANA_CHANGES);
        if (!same || p->asked_frame != asked)
                return;
        rule_each_in (&p->asked, rule)
                rule_add(found, rule);
}

static bool is_plain(const union sqe *s)
{
        return !(le32_get(s->cdw10) >> LSP_RGO_BIT & 1) && !(le32_get(s->cdw14) >> OT_BIT & 1) &&
               le32_get(s->cdw12) == 0 && le32_get(s->cdw13) == 0;
}

void ana_asks(struct ana_past *p, const struct session_cmd *cmd)
{
        if (!p || !is_plain(&cmd->sqe) || cmd->at.frame <= p->frame)
                return;
        p->asked = p->suspected;
        p->asked_frame = cmd->at.frame;
}

void ana_reads(struct ana_past *p, const struct session_cmd *cmd, uint64_t frame,
               struct rule_set *found)
{
        bool usable = p && cmd->data && !cmd->data_cut && is_plain(&cmd->sqe);
        uint32_t len = usable ? whole(cmd->data, cmd->data_len) : 0;
        uint8_t *copy;

        if (len == 0 || len > LOG_MOST || (p->log && cmd->at.frame <= p->frame))
                return;
        if (p->log)
                compare(p, cmd->data, len, cmd->at.frame, found);
        ana_past_reset(p);
        if (!keep_more(p->logs, len, len))
                return;
        copy = malloc(len);
        if (!copy) {
                keep_less(p->logs, len);
                return;
        }
        p->log = memcpy(copy, cmd->data, len);
        p->len = len;
        p->frame = frame;
        p->read_ns = cmd->at.time_ns;
}

/* A transition that has failed is told of, and the log may be what it was (8.1.1.9). */
void ana_told(struct ana_past *p)
{
        if (!p)
                return;
        p->changed = true;
        p->suspected = p->asked = (struct rule_set) { 0 };
}

uint8_t ana_shown(const struct ana_past *p, uint32_t nsid, int64_t now_ns)
{
        const struct ana_group *g = p && p->log ? group_with(p, nsid) : NULL;

        return g && !p->changed && now_ns > p->read_ns + SETTLES_NS ? g->state & 15 : 0;
}

/* --- what is suspected ------------------------------------------------------------------------ */

/* The status of a state, and what breaks it: success, or the status of another state. */
static const struct {
        uint8_t state;
        uint16_t status;
        enum rule_id rule;
} closed[] = { { ANA_INACCESSIBLE, NVME_ANA_INACCESSIBLE, ANA_INACCESSIBLE_STATUS },
               { ANA_PERSISTENT_LOSS, NVME_ANA_LOSS, ANA_LOSS_STATUS },
               { ANA_CHANGE, NVME_ANA_TRANSITION, ANA_TRANSITION_STATUS } };

static bool is_of_ana(uint16_t status)
{
        return status >= NVME_ANA_LOSS && status <= NVME_ANA_TRANSITION;
}

/* Transitions need not show in the log, nor in its count, before they have ended (8.1.1.8); there are none from
 * persistent loss. */
static bool may_be_in_transition(uint8_t state, uint16_t status)
{
        return status == NVME_ANA_TRANSITION && state != ANA_PERSISTENT_LOSS;
}

/* Of a command that has begun since the log was there. */
static const struct ana_group *group_of(const struct ana_past *p, const struct session_cmd *cmd)
{
        return p && p->log && cmd->at.frame > p->frame ? group_with(p, le32_get(cmd->sqe.nsid))
                                                       : NULL;
}

void ana_io(struct ana_past *p, const struct session_cmd *cmd, uint16_t status)
{
        const struct ana_group *g = group_of(p, cmd);
        uint8_t state = g ? g->state & 15 : 0;

        if (!g || cmd->sqe.opc >= 0x80) /* vendors' */
                return;
        if (status == NVME_SUCCESS || is_of_ana(status))
                p->changed |= is_of_ana(status) != (state >= ANA_INACCESSIBLE);
        if (may_be_in_transition(state, status))
                return;
        judge_finds(&p->suspected,
                    (state == ANA_OPTIMIZED || state == ANA_NONOPTIMIZED) && is_of_ana(status),
                    ANA_ACCESSIBLE);
        for (size_t i = 0; i < sizeof(closed) / sizeof(closed[0]); i++)
                judge_finds(&p->suspected,
                            state == closed[i].state && status != closed[i].status &&
                                (status == NVME_SUCCESS || is_of_ana(status)),
                            closed[i].rule);
}

/* Of Error Recovery, which needs the namespace; NSID FFFFFFFFh: if any is in such a state. */
static bool is_closed(const struct ana_past *p, uint32_t nsid)
{
        size_t at = sizeof(struct log_ana);
        struct group g;

        while (at < p->len && next_group(p->log, p->len, &at, &g)) {
                bool open =
                    (g.g->state & 15) == ANA_OPTIMIZED || (g.g->state & 15) == ANA_NONOPTIMIZED;

                for (size_t i = 0; i < g.count && !open; i++)
                        if (nsid == NSID_ALL || ns_list_get(g.nsids, i) == nsid)
                                return true;
        }
        return false;
}

void ana_feature(struct ana_past *p, const struct session_cmd *cmd, uint16_t status)
{
        const union sqe *s = &cmd->sqe;
        bool set = s->opc == NVME_SET_FEATURES;
        uint32_t nsid = le32_get(s->nsid);

        if (!p || !p->log || cmd->at.frame <= p->frame || status != NVME_SUCCESS ||
            (le32_get(s->cdw10) & 0xff) != FEAT_ERROR_RECOVERY || !is_closed(p, nsid))
                return;
        rule_add(&p->suspected, !set               ? ANA_FEATURE_GET
                                : nsid == NSID_ALL ? ANA_FEATURE_ALL
                                                   : ANA_FEATURE_SET);
}

void ana_identifies(struct ana_past *p, const struct session_cmd *cmd, const struct id_ns *ns)
{
        static const uint8_t none[16];
        const struct ana_group *g = group_of(p, cmd);
        uint8_t state = g ? g->state & 15 : 0;

        if (!g || le64_get(ns->nsze) == 0)
                return;
        judge_finds(&p->suspected, le32_get(ns->anagrpid) != le32_get(g->grpid), ANA_MEMBERS);
        judge_finds(&p->suspected,
                    (state == ANA_INACCESSIBLE || state == ANA_PERSISTENT_LOSS) &&
                        (le64_get(ns->nuse) || memcmp(ns->nvmcap, none, sizeof(none)) != 0),
                    ANA_CAPACITY);
}

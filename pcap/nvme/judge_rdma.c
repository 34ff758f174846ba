/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What NVMe/RDMA shows below its capsules: refusals of the transport, READs that are outstanding
 * together, and who goes on where there is nothing to go on with.
 */
#include <stdlib.h>
#include <string.h>

#include "judge.h"
#include "pcap/nvme/family.h"
#include "pcap/trace/tracer.h"

enum {
        READS = 256, /* what the CM can express */
        RNR_FOREVER = 7,
        /* Terminate messages, RFC 5040 4.8 and 5041 7 */
        LAYER_RDMAP = 0,
        LAYER_DDP = 1,
        REMOTE_PROTECTION = 1, /* error types */
        TAGGED_BUFFER = 1,
        UNTAGGED_BUFFER = 2,
        NO_BUFFER = 2, /* code */
};
#define PATIENCE INT64_C(5000000000) /* ns; nobody prescribes one */

struct outstanding {
        uint64_t addr;
        uint32_t key;
        uint64_t frame; /* in which it was asked for */
        unsigned with;  /* those that were asked for before it and answered after it */
};

struct rdma_watch {
        struct outstanding
            read[READS]; /* of the controller, in the order in which they were sent */
        unsigned reads;
        uint16_t crqsize; /* 0: not known */
        bool blamed[2];   /* has broken some rule: what the other side refuses may be due to it */
        bool dead;        /* one side refused an access: there is no queue pair any more */
        int64_t foreign_key_ns; /* the controller invalidated what it was not offered; 0: never */
};

struct rdma_watch *rdma_watch_new(void)
{
        return calloc(1, sizeof(struct rdma_watch));
}

/* How many commands are outstanding is no longer known. */
void rdma_watch_gap(struct rdma_watch *w)
{
        w->crqsize = 0;
}

/* --- READs ------------------------------------------------------------------------------------ */

/* The first `n` are over. */
static void remove_reads(struct rdma_watch *w, unsigned n)
{
        w->reads -= n;
        memmove(w->read, w->read + n, w->reads * sizeof(w->read[0]));
}

static unsigned find_read(const struct rdma_watch *w, const struct trace_memory *m)
{
        unsigned at = 0;

        while (at < w->reads && (w->read[at].addr != m->addr || w->read[at].key != m->key))
                at++;
        return at;
}

/* Whoever READs the same again has had it before, seen or not. */
static void begin_read(struct rdma_watch *w, const struct trace_event *e)
{
        const struct trace_memory *m = &e->memory;
        unsigned at = find_read(w, m);

        if (at < w->reads)
                remove_reads(w, at + 1);
        if (w->reads == READS)
                remove_reads(w, 1);
        w->read[w->reads++] =
            (struct outstanding) { .addr = m->addr, .key = m->key, .frame = e->at.frame };
}

/*
 * Its answer passes here now, so that it was outstanding all the time; READs are answered in turn,
 * so that those before it are over. A READ counts with those whose answer was seen to come later: over RoCE
 * so much later that the two were not merely caught in the other order, which TCP would tell.
 */
static void end_read(struct rdma_watch *w, const struct trace_event *e, struct rdma_track *t,
                     struct rule_set *found)
{
        uint64_t late = e->conn->transport == TRACE_ROCE ? TRACE_LATE : 0;
        unsigned at = find_read(w, &e->memory), most = 0;

        if (at == w->reads)
                return;
        for (unsigned i = at + 1; i < w->reads; i++) {
                w->read[i].with += e->at.frame > w->read[i].frame + late;
                if (w->read[i].with > most)
                        most = w->read[i].with;
        }
        judge_finds(found, rule_in(rdma_track_reads(t, most + 1), RDMA_READ_LIMIT),
                    RDMA_READ_LIMIT);
        remove_reads(w, at + 1);
}

/* --- refusals --------------------------------------------------------------------------------- */

static enum trace_refusal why_terminated(const struct trace_capsule *c)
{
        unsigned layer, type, code;

        if (c->len < 2)
                return TRACE_REFUSED_OTHERWISE;
        layer = c->data[0] >> 4;
        type = c->data[0] & 15;
        code = c->data[1];
        if (layer == LAYER_DDP && type == UNTAGGED_BUFFER && code == NO_BUFFER)
                return TRACE_NOT_READY;
        if ((layer == LAYER_RDMAP && type == REMOTE_PROTECTION) ||
            (layer == LAYER_DDP && type == TAGGED_BUFFER))
                return TRACE_NO_ACCESS;
        return TRACE_REFUSED_OTHERWISE;
}

static void refused(struct rdma_watch *w, enum party by, enum trace_refusal why,
                    unsigned outstanding, struct rule_set *found)
{
        bool fair = !w->blamed[peer_of(by)];

        if (by == PARTY_HOST) {
                judge_finds(found, fair && why == TRACE_NOT_READY, RDMA_HOST_RECEIVES);
                judge_finds(found, fair && why == TRACE_NO_ACCESS, RDMA_KEY);
        } else {
                judge_finds(found,
                            fair && why == TRACE_NOT_READY && w->crqsize &&
                                outstanding <= w->crqsize,
                            RDMA_CREDITS);
        }
        w->dead |= why != TRACE_NOT_READY;
}

/* --- the whole -------------------------------------------------------------------------------- */

static void on_accept(struct rdma_watch *w, const struct trace_cm *cm)
{
        struct rdma_accept a;

        if (rdma_accept_read(cm->data, cm->len, &a))
                w->crqsize = le16_get(a.crqsize);
}

static void on_request(const struct trace_cm *cm, struct rule_set *found)
{
        judge_finds(found,
                    cm->retries && cm->service_type != TRACE_SERVICE_RC &&
                        cm->service_type != TRACE_SERVICE_RD,
                    RDMA_REQ_RELIABLE);
        judge_finds(found, cm->retries && cm->rnr_retry != 0 && cm->rnr_retry != RNR_FOREVER,
                    RDMA_REQ_RNR);
}

/* Which queues it can have, and of what size, a controller knows itself. */
static void on_reject(const struct trace_event *e, struct rule_set *found)
{
        struct rdma_reject r;
        uint16_t sts;

        if (e->sender != PARTY_CONTROLLER || e->cm.reason != CM_REJECTED_BY_CONSUMER ||
            !rdma_reject_read(e->cm.data, e->cm.len, &r) || le16_get(r.recfmt) != 0)
                return;
        sts = le16_get(r.sts);
        judge_finds(found, sts == RDMA_REJECT_QID, RDMA_REQ_QID);
        judge_finds(found, sts == RDMA_REJECT_HSQSIZE, RDMA_REQ_HSQSIZE);
}

static void on_capsule(struct rdma_watch *w, const struct trace_event *e, struct rule_set *found)
{
        int64_t now = e->at.time_ns;

        if (e->sender == PARTY_CONTROLLER)
                judge_finds(found, w->dead, RDMA_ERROR_ENDS);
        else
                judge_finds(found, w->foreign_key_ns && now > w->foreign_key_ns + PATIENCE,
                            RDMA_HOST_KEY_CHECK);
        if (!w->foreign_key_ns &&
            (rule_in(found, RDMA_INV_UNASKED) || rule_in(found, RDMA_INV_KEY)))
                w->foreign_key_ns = now;
}

void rdma_watch_event(struct rdma_watch *w, const struct trace_event *e, struct rdma_track *t,
                      struct rule_set *found)
{
        bool controller = e->sender == PARTY_CONTROLLER;

        if (e->kind == TRACE_REQUEST)
                on_request(&e->cm, found);
        else if (e->kind == TRACE_ACCEPT)
                on_accept(w, &e->cm);
        else if (e->kind == TRACE_REJECT)
                on_reject(e, found);
        else if (e->kind == TRACE_CAPSULE)
                on_capsule(w, e, found);
        else if (e->kind == TRACE_READ && controller)
                begin_read(w, e);
        else if (e->kind == TRACE_READ_END && !controller)
                end_read(w, e, t, found);
        else if (e->kind == TRACE_REFUSAL)
                refused(w, e->sender, e->refusal, rdma_track_outstanding(t), found);
        else if (e->kind == TRACE_TERMINATE)
                refused(w, e->sender, why_terminated(&e->capsule), rdma_track_outstanding(t),
                        found);
        w->blamed[e->sender] |= !rule_set_empty(found);
}

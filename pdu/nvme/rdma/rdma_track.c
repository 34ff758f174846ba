/* SPDX-License-Identifier: BSD-3-Clause */
#include "rdma_track.h"

#include <stdlib.h>
#include <string.h>

#include "pdu/nvme/machine/queue_track.h"

enum {
        SPANS = 8,
        ENDED_KEPT = 16,   /* commands, remembered to name what comes after them */
        LEAST_BLOCK = 512, /* bytes of a logical block (LBADS 9) */
        MOST_BLOCK = 65536,
};

/* Bytes of a command's data, counted through its descriptors. */
struct span {
        uint32_t from, to;
};

struct record {
        struct queue_cmd queue; /* first */
        struct rdma_track_cmd cmd;
        enum nvme_xfer xfer;
        unsigned spans;
        struct span moved[SPANS]; /* apart from each other, in no order */
};

struct ended {
        struct rdma_data data;
        bool invalidated;
};

struct rdma_track {
        struct queue_track queue;
        struct rule_set broken; /* as handed out: findings and fault */

        struct rdma_request request;
        bool requested, host_ird_known;
        uint16_t host_ird;
        bool closed; /* by the controller */
        bool sees_data;

        struct rdma_format format; /* of I/O queues */
        bool format_known;

        struct record *last;
        struct ended ended[ENDED_KEPT];
        unsigned ended_n;
};

static const struct queue_kind rdma_queue = {
        .cmd_size = sizeof(struct record),
        .cmd_cid = RDMA_CMD_CID,
        .rsp_cid = RDMA_RSP_CID,
        .rsp_reserved = RDMA_RSP_RSVD,
        .keyed = true,
};

static void finds(struct rdma_track *t, bool broken, enum rule_id rule)
{
        queue_finds(&t->queue, broken, rule);
}

static struct record *record_of(struct queue_cmd *cmd)
{
        return (struct record *)(void *)cmd;
}

/* --- life ------------------------------------------------------------------------------------- */

struct rdma_track *rdma_track_new(uint16_t depth_max, bool passive, const struct rule_set *waived)
{
        struct rdma_track *t = calloc(1, sizeof(*t));

        if (!t)
                return NULL;
        if (queue_track_init(&t->queue, &rdma_queue, depth_max, waived) < 0) {
                rdma_track_free(t);
                return NULL;
        }
        t->queue.looks = true;
        t->queue.passive = t->sees_data = passive;
        return t;
}

void rdma_track_free(struct rdma_track *t)
{
        if (!t)
                return;
        queue_track_fini(&t->queue);
        free(t);
}

/* Where memory does not suffice for as many commands as there may be, those that find no room overrun the queue. */
void rdma_track_mid_stream(struct rdma_track *t)
{
        (void)queue_track_mid_stream(&t->queue);
}

void rdma_track_closed(struct rdma_track *t, enum party sender)
{
        t->closed |= sender == PARTY_CONTROLLER;
}

void rdma_track_format(struct rdma_track *t, uint32_t in_capsule, uint16_t icdoff, uint8_t msdbd)
{
        t->format =
            (struct rdma_format) { .in_capsule = in_capsule, .icdoff = icdoff, .msdbd = msdbd };
        t->format_known = true;
}

static void start_message(struct rdma_track *t, enum party sender)
{
        queue_track_begin(&t->queue, sender);
        t->last = NULL;
        finds(t, t->closed && sender == PARTY_CONTROLLER, RDMA_LATE_SEND);
}

static const struct rule_set *found_now(struct rdma_track *t)
{
        t->broken = t->queue.findings;
        if (is_fault(t->queue.fault))
                rule_add(&t->broken, t->queue.fault.rule);
        return &t->broken;
}

/* --- connection management -------------------------------------------------------------------- */

const struct rule_set *rdma_track_request(struct rdma_track *t, const void *data, size_t len,
                                          uint16_t reads_in, uint16_t reads_out)
{
        struct rule_set found = { 0 };

        (void)reads_out;
        start_message(t, PARTY_HOST);
        rdma_request_findings(data, len, reads_in, &found);
        t->requested = rdma_request_read(data, len, &t->request);
        t->host_ird = reads_in;
        t->host_ird_known = reads_in != RDMA_READS_UNKNOWN;
        queue_track_collects(&t->queue, &found);
        return found_now(t);
}

/* The initiator depth of the acceptance: so many READs the controller may send at a time. */
const struct rule_set *rdma_track_accept(struct rdma_track *t, const void *data, size_t len,
                                         uint16_t reads_in, uint16_t reads_out)
{
        static const struct rdma_request unseen = { .hsqsize = { { 0xff, 0xff } } };
        struct rule_set found = { 0 };

        start_message(t, PARTY_CONTROLLER);
        rdma_accept_check(data, len, reads_in, t->requested ? &t->request : &unseen, &found);
        queue_track_collects(&t->queue, &found);
        finds(t, t->host_ird_known && reads_out != RDMA_READS_UNKNOWN && reads_out > t->host_ird,
              RDMA_READ_LIMIT);
        return found_now(t);
}

const struct rule_set *rdma_track_reject(struct rdma_track *t, const void *data, size_t len)
{
        struct rule_set found = { 0 };

        start_message(t, PARTY_CONTROLLER);
        rdma_reject_check(data, len, &found);
        queue_track_collects(&t->queue, &found);
        return found_now(t);
}

/* --- commands --------------------------------------------------------------------------------- */

/* The queue that a command is sent on; Connect is judged by its own word where there is no other. */
static int queue_of(const struct rdma_track *t, const union sqe *s)
{
        int qid = rdma_track_qid(t);

        return qid < 0 && sqe_is_connect(s) ? le16_get(s->connect.qid) : qid;
}

static struct rdma_format format_of(const struct rdma_track *t, const union sqe *s)
{
        struct rdma_format f = t->format;

        f.admin = queue_of(t, s) == 0;
        return f;
}

/* Fabrics commands of I/O queues come with their data in the capsule, whatever IOCCSZ says: Linux's
 * Connect does. */
static void judge_length(struct rdma_track *t, const union sqe *s, uint32_t len)
{
        struct rdma_format f = format_of(t, s);
        uint32_t max = rdma_capsule_max(&f);
        bool fabrics = !f.admin && s->opc == NVME_FABRICS;
        bool known = f.admin || (t->format_known && !fabrics);

        finds(t, known && len > max, RDMA_CMD_LONG);
}

static void judge_connect(struct rdma_track *t, const union sqe *s)
{
        const struct rdma_request *r = &t->request;

        if (!t->requested)
                return;
        finds(t, le16_get(s->connect.sqsize) != le16_get(r->hsqsize), RDMA_REQ_SQSIZE);
        finds(t, le16_get(s->connect.qid) != le16_get(r->qid), RDMA_REQ_SAME_QID);
}

static bool moves_blocks(const struct rdma_track *t, const union sqe *s)
{
        return rdma_track_qid(t) > 0 &&
               (s->opc == NVME_READ || s->opc == NVME_WRITE || s->opc == NVME_COMPARE);
}

static uint32_t blocks(const union sqe *s)
{
        return (le32_get(s->cdw12) & RW_NLB_MASK) + 1;
}

/* What the SQE alone tells, at least. */
static uint32_t least(const struct rdma_track *t, const union sqe *s)
{
        return moves_blocks(t, s) ? blocks(s) * LEAST_BLOCK : 0;
}

/* The size of a block is not known here, and descriptors may say more than a command moves. */
static bool can_be_blocks(uint32_t bytes, uint32_t count)
{
        uint32_t size = bytes / count;

        return bytes % count == 0 && size >= LEAST_BLOCK && size <= MOST_BLOCK &&
               (size & (size - 1)) == 0;
}

static uint32_t needs_of(const struct rdma_track *t, const union sqe *s, const struct rdma_data *d)
{
        uint32_t needs = t->queue.past.qid == 0 ? admin_delivers(s) : 0;

        if (d->count == 0)
                return 0;
        if (sqe_is_connect(s))
                needs = CONNECT_DATA_LEN;
        else if (moves_blocks(t, s) && can_be_blocks(d->len, blocks(s)))
                needs = d->len;
        return needs <= d->len ? needs : 0;
}

/* Neither ICDOFF nor whether it is an admin queue is known. */
static bool knows_no_format(const struct rdma_track *t)
{
        return t->queue.past.mid_stream && !t->format_known && rdma_track_qid(t) < 0;
}

/* Also of a description that is wrong something may be used: its key may be invalidated. */
static void describe_data(struct rdma_track *t, struct record *r, const void *capsule, uint32_t len)
{
        const union sqe *s = &r->cmd.sqe;
        struct rdma_format format = format_of(t, s);
        struct fault fault = rdma_data_read(capsule, len, &format, r->xfer, least(t, s),
                                            t->queue.waived, &r->cmd.data);
        struct rule_set all;

        if (is_fault(fault)) {
                finds(t, !knows_no_format(t), fault.rule);
                memset(&all, 0xff, sizeof(all));
                (void)rdma_data_read(capsule, len, &format, r->xfer, 0, &all, &r->cmd.data);
        }
        r->cmd.described = r->cmd.data.in_capsule || r->cmd.data.count > 0;
        r->cmd.needs = needs_of(t, s, &r->cmd.data);
}

static void set_record(struct rdma_track *t, struct record *r, const void *capsule, uint32_t len)
{
        memset((uint8_t *)r + sizeof(r->queue), 0, sizeof(*r) - sizeof(r->queue));
        memcpy(&r->cmd.sqe, capsule, sizeof(r->cmd.sqe));
        r->xfer = sqe_moves(&r->cmd.sqe);
        describe_data(t, r, capsule, len);
}

static void take_command(struct rdma_track *t, const void *capsule, uint32_t len)
{
        struct queue_cmd *old;
        struct record *r;
        union sqe sqe;
        bool fresh;

        memcpy(&sqe, capsule, sizeof(sqe));
        old = queue_track_cmd(&t->queue, le16_get(sqe.cid));
        judge_length(t, &sqe, len);
        if (queue_track_refuses(&t->queue, old))
                return;
        if (sqe_is_connect(&sqe))
                judge_connect(t, &sqe);
        r = record_of(queue_track_takes(&t->queue, old, &sqe, &fresh));
        if (r && fresh)
                set_record(t, r, capsule, len);
        t->last = r;
}

const struct rule_set *rdma_track_command(struct rdma_track *t, const void *capsule, uint32_t len)
{
        start_message(t, PARTY_HOST);
        if (len < sizeof(union sqe))
                finds(t, true, RDMA_CMD_SHORT);
        else
                take_command(t, capsule, len);
        return found_now(t);
}

/* --- responses -------------------------------------------------------------------------------- */

/* Where one descriptor asks and a later one does not, texts differ on whose key it is: both are. */
static void judge_invalidation(struct rdma_track *t, const struct rdma_data *d, uint32_t key)
{
        bool asked = false, named = d->count > 0 && d->keyed[d->count - 1].key == key;
        uint32_t last = 0;

        for (unsigned i = 0; i < d->count; i++) {
                if (!d->keyed[i].invalidate)
                        continue;
                asked = true;
                last = d->keyed[i].key;
        }
        finds(t, !asked, RDMA_INV_UNASKED);
        finds(t, asked && key != last && !named, RDMA_INV_KEY);
}

static void judge_success(struct rdma_track *t, const struct record *r)
{
        bool lacks = t->sees_data && r->cmd.moved < r->cmd.needs;

        finds(t, lacks && (r->xfer & XFER_C2H), RDMA_WRITE_WHOLE);
        finds(t, lacks && (r->xfer & XFER_H2C), RDMA_READ_WHOLE);
}

static void remember(struct rdma_track *t, const struct record *r, bool invalidated)
{
        struct ended *e = &t->ended[t->ended_n++ % ENDED_KEPT];

        e->data = r->cmd.data;
        e->invalidated = invalidated;
}

static void take_response(struct rdma_track *t, const struct cqe *cqe, bool invalidated,
                          uint32_t key)
{
        struct record *r = record_of(queue_track_cmd(&t->queue, le16_get(cqe->cid)));

        if (!r) { /* mid-stream it may be of a command that nobody saw */
                (void)queue_breaks(&t->queue,
                                   !queue_track_answers_unknown(&t->queue, cqe) &&
                                       !t->queue.past.mid_stream,
                                   rdma_queue.rsp_cid);
                return;
        }
        t->last = r;
        if (invalidated)
                judge_invalidation(t, &r->cmd.data, key);
        if (!cqe_status(cqe))
                judge_success(t, r);
        remember(t, r, invalidated);
        queue_track_answers(&t->queue, &r->queue, cqe);
}

const struct rule_set *rdma_track_response(struct rdma_track *t, const void *capsule, uint32_t len,
                                           bool invalidated, uint32_t key)
{
        struct cqe cqe;

        start_message(t, PARTY_CONTROLLER);
        finds(t, len != sizeof(cqe), RDMA_RSP_LENGTH);
        if (len >= sizeof(cqe)) {
                memcpy(&cqe, capsule, sizeof(cqe));
                take_response(t, &cqe, invalidated, key);
        }
        return found_now(t);
}

/* --- data ------------------------------------------------------------------------------------- */

/* The rules of either direction. */
struct way {
        enum rule_id range, dir, late;
        enum nvme_xfer xfer;
};

static const struct way writes = { RDMA_WRITE_RANGE, RDMA_WRITE_DIR, RDMA_WRITE_BEFORE, XFER_C2H };
static const struct way reads = { RDMA_READ_RANGE, RDMA_READ_DIR, RDMA_READ_WHOLE, XFER_H2C };

/* The descriptor that addr with key lies in, -1: none; an empty one holds nothing. *before: bytes
 * of the descriptors before it. */
static int block_at(const struct rdma_data *d, uint32_t key, uint64_t addr, uint32_t *before)
{
        *before = 0;
        for (unsigned i = 0; i < d->count; i++) {
                const struct rdma_buffer *b = &d->keyed[i];

                if (b->key == key && addr >= b->addr && addr - b->addr < b->len)
                        return (int)i;
                *before += b->len;
        }
        return -1;
}

static bool is_of(struct rdma_track *t, const struct record *r, uint32_t key, uint64_t addr)
{
        uint32_t before;

        return r->cmd.data.count > 0 && block_at(&r->cmd.data, key, addr, &before) >= 0 &&
               queue_track_cmd(&t->queue, r->queue.cid) == &r->queue;
}

/* Where several commands share memory, one that lacks data of this way. */
static struct record *record_by_key(struct rdma_track *t, uint32_t key, uint64_t addr,
                                    enum nvme_xfer xfer)
{
        struct record *any = NULL;

        for (unsigned i = 0; i < t->queue.cids.slots; i++) {
                struct record *r = record_of(queue_track_at(&t->queue, (int)i));

                if (!is_of(t, r, key, addr))
                        continue;
                if (r->xfer & xfer && r->cmd.moved < r->cmd.needs)
                        return r;
                any = any ? any : r;
        }
        return any;
}

static const struct ended *ended_by_key(const struct rdma_track *t, uint32_t key, uint64_t addr)
{
        uint32_t before;

        for (unsigned i = 0; i < ENDED_KEPT && i < t->ended_n; i++) {
                const struct ended *e = &t->ended[(t->ended_n - 1 - i) % ENDED_KEPT];

                if (block_at(&e->data, key, addr, &before) >= 0)
                        return e;
        }
        return NULL;
}

/* Bytes that move for the first time. Where too many pieces lie apart the rest counts as new. */
static uint32_t add_span(struct record *r, struct span s)
{
        uint32_t more = s.to - s.from;

        for (unsigned i = 0; i < r->spans;) {
                struct span *o = &r->moved[i];

                if (s.from > o->to || o->from > s.to) {
                        i++;
                        continue;
                }
                more -= (s.to < o->to ? s.to : o->to) - (s.from > o->from ? s.from : o->from);
                s.from = s.from < o->from ? s.from : o->from;
                s.to = s.to > o->to ? s.to : o->to;
                *o = r->moved[--r->spans];
        }
        if (r->spans < SPANS)
                r->moved[r->spans++] = s;
        return more;
}

/* As far as its descriptor goes; how far that is. */
static uint32_t moves(struct record *r, uint64_t addr, uint32_t key, uint32_t len)
{
        uint32_t before, offset, left;
        int i = block_at(&r->cmd.data, key, addr, &before);

        offset = (uint32_t)(addr - r->cmd.data.keyed[i].addr);
        left = r->cmd.data.keyed[i].len - offset;
        if (len > left)
                len = left;
        r->cmd.moved += add_span(r, (struct span) { before + offset, before + offset + len });
        return left;
}

/* Which of the commands that share memory it is for does not show: it counts for all of them. */
static void move(struct rdma_track *t, struct record *r, const struct way *way, uint64_t addr,
                 uint32_t key, uint32_t len)
{
        t->last = r;
        finds(t, !(r->xfer & way->xfer), way->dir);
        for (unsigned i = 0; i < t->queue.cids.slots; i++) {
                struct record *o = record_of(queue_track_at(&t->queue, (int)i));

                if (o->xfer & way->xfer && is_of(t, o, key, addr))
                        finds(t, moves(o, addr, key, len) < len && o == r, way->range);
        }
}

/* For a command that was answered: too late; for none: nobody described it. */
static void stray(struct rdma_track *t, const struct way *way, uint64_t addr, uint32_t key)
{
        const struct ended *e = ended_by_key(t, key, addr);

        finds(t, e && e->invalidated, RDMA_INV_EARLY);
        finds(t, e && !e->invalidated, way->late);
        finds(t, !e && !t->queue.past.mid_stream && t->queue.unknown == 0, way->range);
}

static const struct rule_set *transfer(struct rdma_track *t, enum party sender,
                                       const struct way *way, uint64_t addr, uint32_t key,
                                       uint32_t len)
{
        struct record *r = NULL;

        start_message(t, sender);
        t->sees_data = true;
        if (sender == PARTY_HOST) {
                finds(t, true, RDMA_HOST_READS);
                return found_now(t);
        }
        if (len > 0)
                r = record_by_key(t, key, addr, way->xfer);
        if (r)
                move(t, r, way, addr, key, len);
        else if (len > 0)
                stray(t, way, addr, key);
        return found_now(t);
}

const struct rule_set *rdma_track_read(struct rdma_track *t, enum party sender, uint64_t addr,
                                       uint32_t key, uint32_t len)
{
        return transfer(t, sender, &reads, addr, key, len);
}

const struct rule_set *rdma_track_write(struct rdma_track *t, enum party sender, uint64_t addr,
                                        uint32_t key, uint32_t len)
{
        return transfer(t, sender, &writes, addr, key, len);
}

const struct rule_set *rdma_track_reads(struct rdma_track *t, unsigned outstanding)
{
        start_message(t, PARTY_HOST);
        finds(t, t->host_ird_known && outstanding > t->host_ird, RDMA_READ_LIMIT);
        return found_now(t);
}

/* --- what the owner asks ---------------------------------------------------------------------- */

static struct rdma_track_cmd *cmd_of(struct record *r)
{
        return r ? &r->cmd : NULL;
}

struct rdma_track_cmd *rdma_track_cmd(struct rdma_track *t, uint16_t cid)
{
        return cmd_of(record_of(queue_track_cmd(&t->queue, cid)));
}

struct rdma_track_cmd *rdma_track_last(struct rdma_track *t)
{
        return cmd_of(t->last);
}

int rdma_track_qid(const struct rdma_track *t)
{
        if (t->queue.past.qid >= 0)
                return t->queue.past.qid;
        return t->requested ? le16_get(t->request.qid) : -1;
}

unsigned rdma_track_outstanding(const struct rdma_track *t)
{
        return t->queue.outstanding;
}

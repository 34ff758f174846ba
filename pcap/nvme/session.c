/* SPDX-License-Identifier: BSD-3-Clause */
#include "session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "family.h"
#include "pcap/nvme/judge.h"
#include "pcap/trace/keep.h"
#include "pdu/nvme/wire/commands.h"
#include "pdu/nvme/wire/reservation.h"

enum {
        CMD_BUCKETS = 64,      /* at first: as many as there are commands, or more */
        KEY_SEARCH_MAX = 1024, /* outstanding commands whose keys are compared */
        ADMIN_DATA_MAX = 1 << 20,
        WHY_MAX = 512,
        COMMANDS_ALL = 1 << 17, /* outstanding, of all connections */
};
#define FAILED_NS INT64_C(1000000000)

struct session_private {
        struct session pub;
        struct judge *judge;
        struct session_cmd **bucket, *few[CMD_BUCKETS];
        unsigned buckets, outstanding;
        struct session_cmd *oldest, *newest;
        uint64_t gap[2]; /* the last command before something that this side sent is missing */
        struct session_cmd *by_key;   /* found last; NULL: that is over */
        struct rule_set of_header[2]; /* findings of the TCP PDU in hand, by sender */
        struct auth_past auth;
        struct tls_past tls;
        struct rdma_request request; /* of NVMe/RDMA; */
        bool requested;              /* it was seen */
        uint16_t nvmsetid;           /* of its Connect */
        bool leaving;                /* a Disconnect is outstanding, or has succeeded */
        union sqe first;             /* the last command, if it is the first of a fused pair */
};

struct reader {
        struct session_options options;
        record_fn *fn;
        void *user;
        struct association *associations;
        struct session_cmd *spare;             /* records of commands that are over */
        struct session_cmd *lost, **lost_last; /* given up with the event in hand */
        unsigned outstanding;                  /* commands of all sessions */
        struct keep keep;                      /* of their data */
        struct keep logs;                      /* that are compared with later ones */
        struct auth_memory auth;
        struct tls_memory tls;
        struct host_memory hosts;
        unsigned numbered;
        bool no_memory;
        char why[WHY_MAX]; /* of the record in hand */
};

/* --- commands --------------------------------------------------------------------------------- */

static struct session_cmd **bucket_of(struct session_private *p, uint16_t cid)
{
        return &p->bucket[(cid ^ cid >> 8) % p->buckets];
}

static struct session_cmd *find_cmd(struct session_private *p, uint16_t cid)
{
        for (struct session_cmd *c = *bucket_of(p, cid); c; c = c->next)
                if (c->cid == cid)
                        return c;
        return NULL;
}

struct session_cmd *session_find(const struct session *s, uint16_t cid)
{
        return find_cmd(s->private, cid);
}

static void unlink_cmd(struct session_private *p, struct session_cmd *cmd)
{
        struct session_cmd **at = bucket_of(p, cmd->cid);

        while (*at != cmd)
                at = &(*at)->next;
        *at = cmd->next;
        *(cmd->older ? &cmd->older->newer : &p->oldest) = cmd->newer;
        *(cmd->newer ? &cmd->newer->older : &p->newest) = cmd->older;
        p->outstanding--;
        if (p->by_key == cmd)
                p->by_key = NULL;
        if (p->outstanding > 0 || p->bucket == p->few)
                return;
        free(p->bucket);
        p->bucket = p->few;
        p->buckets = CMD_BUCKETS;
        memset(p->few, 0, sizeof(p->few));
}

/* When memory runs out, chains get longer, that is all. */
static void grow_buckets(struct session_private *p)
{
        unsigned n = 4 * p->buckets;
        struct session_cmd **bucket = calloc(n, sizeof(struct session_cmd *));

        if (!bucket)
                return;
        if (p->bucket != p->few)
                free(p->bucket);
        p->bucket = bucket;
        p->buckets = n;
        for (struct session_cmd *c = p->oldest; c; c = c->newer) {
                struct session_cmd **at = bucket_of(p, c->cid);

                c->next = *at;
                *at = c;
        }
}

static void link_cmd(struct session_private *p, struct session_cmd *cmd)
{
        struct session_cmd **at;

        if (p->outstanding == p->buckets)
                grow_buckets(p);
        at = bucket_of(p, cmd->cid);
        cmd->next = *at;
        *at = cmd;
        cmd->older = p->newest;
        *(p->newest ? &p->newest->newer : &p->oldest) = cmd;
        p->newest = cmd;
        p->outstanding++;
}

static void drop_data(struct reader *r, struct session_cmd *cmd)
{
        keep_less(&r->keep, cmd->data_len);
        cmd->data_len = 0;
        free(cmd->data);
        cmd->data = NULL;
}

static void free_cmd(struct reader *r, struct session_cmd *cmd)
{
        drop_data(r, cmd);
        r->outstanding--;
        cmd->next = r->spare;
        r->spare = cmd;
}

static void give_up(struct reader *r, struct session_private *p, struct session_cmd *cmd)
{
        unlink_cmd(p, cmd);
        cmd->next = NULL;
        *(r->lost ? r->lost_last : &r->lost) = cmd;
        r->lost_last = &cmd->next;
}

/* The connection ends: what was outstanding may still be worked on. */
static void lose_all(struct reader *r, struct session_private *p, int64_t now_ns)
{
        const struct association *a = p->pub.assoc;
        int64_t until_ns = a && a->past ? past_busy_until(a->past, now_ns) : 0;

        past_closed(&p->pub, now_ns);
        if (p->pub.qid <= 0 || !until_ns)
                return;
        for (struct session_cmd *c = p->oldest; c; c = c->newer)
                memory_lost(&r->hosts, a, c, until_ns);
}

static void report_lost(struct reader *r, struct record rec)
{
        while (r->lost) {
                rec.cmd = r->lost;
                r->lost = rec.cmd->next;
                if (r->options.lost)
                        r->options.lost(r->user, &rec);
                free_cmd(r, rec.cmd);
        }
}

/* Where both sides have gaps, a command may have been answered, and its CID be another's now. */
static void take_gap(struct reader *r, struct session_private *p, enum party sender)
{
        p->pub.gapped = true;
        p->gap[sender] = p->pub.commands;
        while (p->oldest && p->oldest->serial <= p->gap[PARTY_HOST] &&
               p->oldest->serial <= p->gap[PARTY_CONTROLLER])
                give_up(r, p, p->oldest);
}

/* There are too many: the oldest one of a queue goes for a new one, as if what answers it were missing. */
static void make_room(struct reader *r, struct session_private *p)
{
        if (r->outstanding < COMMANDS_ALL || !p->oldest)
                return;
        p->pub.gapped = true;
        give_up(r, p, p->oldest);
}

static struct session_cmd *new_cmd(struct reader *r)
{
        struct session_cmd *cmd = r->spare;

        if (!cmd)
                return malloc(sizeof(*cmd));
        r->spare = cmd->next;
        return cmd;
}

/* One that is still outstanding under this CID was answered unseen, or its CID is used twice. */
static struct session_cmd *add_cmd(struct reader *r, struct session_private *p, const union sqe *s,
                                   const struct capture_place *at)
{
        uint16_t cid = le16_get(s->cid);
        struct session_cmd *old = find_cmd(p, cid), *cmd;

        if (old)
                give_up(r, p, old);
        else
                make_room(r, p);
        cmd = new_cmd(r);
        if (!cmd) {
                r->no_memory = true;
                return NULL;
        }
        r->outstanding++;
        *cmd =
            (struct session_cmd) { .cid = cid, .sqe = *s, .at = *at, .serial = ++p->pub.commands };
        link_cmd(p, cmd);
        return cmd;
}

bool session_admin(const struct session *s, const union sqe *sqe)
{
        uint32_t nsid = le32_get(sqe->nsid);

        if (s->qid >= 0)
                return s->qid == 0;
        return sqe->opc == NVME_FABRICS || nsid == 0 || nsid == UINT32_MAX;
}

/* --- their data ------------------------------------------------------------------------------- */

/* What it checks the reader can check, too. */
static bool is_checked_read(const struct session *s, const union sqe *sqe)
{
        const struct ns_format *f = past_format(s->assoc, le32_get(sqe->nsid));
        uint32_t cdw12 = le32_get(sqe->cdw12);

        return s->qid > 0 && sqe->opc == NVME_READ && f && f->pi && f->guard && cdw12 & RW_PRCHK &&
               !(cdw12 & RW_PRACT);
}

static uint32_t data_max(const struct reader *r, const struct session *s,
                         const struct session_cmd *cmd)
{
        if (r->options.keep_data)
                return SESSION_DATA_MAX;
        return cmd->sqe.opc == NVME_FABRICS || session_admin(s, &cmd->sqe) ||
                       is_reservation_command(cmd->sqe.opc) || cmd->sqe.opc == NVME_COPY ||
                       is_checked_read(s, &cmd->sqe)
                   ? ADMIN_DATA_MAX
                   : 0;
}

/* With zeroes; n bytes of what is new are there. False: there is no room. */
static bool lengthen_data(struct reader *r, struct session_cmd *cmd, uint32_t len, uint32_t n)
{
        uint32_t more = len - cmd->data_len;
        uint8_t *data;

        if (!keep_more(&r->keep, more, n))
                return false;
        data = realloc(cmd->data, len);
        if (!data) {
                keep_less(&r->keep, more);
                r->no_memory = true;
                return false;
        }
        memset(data + cmd->data_len, 0, more);
        cmd->data = data;
        cmd->data_len = len;
        return true;
}

static void keep_data(struct reader *r, const struct session *s, struct session_cmd *cmd,
                      uint64_t offset, const uint8_t *p, uint32_t n)
{
        uint32_t max = data_max(r, s, cmd);
        uint64_t end = offset + n;

        if (max == 0)
                return;
        cmd->data_cut |= end > max || !p;
        if (end > max || cmd->data_dropped)
                return;
        keep_saw(&r->keep, p ? n : 0);
        if (end > cmd->data_len && !lengthen_data(r, cmd, (uint32_t)end, p ? n : 0)) {
                drop_data(r, cmd);
                cmd->data_cut = cmd->data_dropped = true;
        } else if (p) {
                memcpy(cmd->data + offset, p, n);
        }
}

static void take_data(struct reader *r, const struct session *s, struct session_cmd *cmd,
                      const struct trace_event *e, uint64_t offset, const uint8_t *p, uint32_t n)
{
        if (n == 0)
                return;
        if (cmd->data_first.frame == 0)
                cmd->data_first = e->first;
        cmd->data_last = e->at;
        *(e->sender == PARTY_HOST ? &cmd->h2c : &cmd->c2h) += n;
        keep_data(r, s, cmd, offset, p, n);
}

static void ask(struct session_cmd *cmd, const struct trace_event *e)
{
        if (cmd->asks++ == 0)
                cmd->asked = e->at;
}

/* --- associations ----------------------------------------------------------------------------- */

static struct association *new_association(struct reader *r, const struct session_cmd *cmd,
                                           uint16_t cntlid)
{
        struct association *a = calloc(1, sizeof(*a));

        if (!a) {
                r->no_memory = true;
                return NULL;
        }
        a->number = ++r->numbered;
        a->cntlid = cntlid;
        a->named = cmd->data && cmd->data_len >= sizeof(a->connect) && !cmd->data_cut;
        if (a->named)
                memcpy(&a->connect, cmd->data, sizeof(a->connect));
        a->discovery = a->named && strncmp(a->connect.subnqn, NQN_DISCOVERY, NQN_FIELD) == 0;
        a->past = r->options.judge ? past_new(cmd, &r->logs) : NULL;
        a->next = r->associations;
        r->associations = a;
        return a;
}

static void leave(struct reader *r, struct session *s)
{
        struct association **at = &r->associations, *a = s->assoc;
        struct session **it;

        s->assoc = NULL;
        if (!a)
                return;
        for (it = &a->first; *it != s; it = &(*it)->sibling)
                continue;
        *it = s->sibling;
        a->holed |= s->gapped;
        if (a->first)
                return;
        while (*at != a)
                at = &(*at)->next;
        *at = a->next;
        if (!a->holed)
                memory_ends(&r->hosts, a);
        past_free(a->past);
        free(a);
}

static void join(struct session *s, struct association *a)
{
        s->assoc = a;
        if (!a)
                return;
        s->sibling = a->first;
        a->first = s;
}

static const struct connect_data *connect_data(const struct session_cmd *cmd)
{
        bool whole = cmd->data && cmd->data_len >= sizeof(struct connect_data) && !cmd->data_cut;

        return whole ? (const struct connect_data *)(const void *)cmd->data : NULL;
}

static bool same_host(const struct connect_data *a, const struct connect_data *b)
{
        return memcmp(a->hostid, b->hostid, sizeof(a->hostid)) == 0 &&
               strncmp(a->hostnqn, b->hostnqn, NQN_FIELD) == 0;
}

static bool same_ends(const struct trace_conn *a, const struct trace_conn *b)
{
        for (enum party p = PARTY_HOST; p <= PARTY_CONTROLLER; p++)
                if (memcmp(a->end[p].addr, b->end[p].addr, sizeof(a->end[p].addr)) != 0)
                        return false;
        return true;
}

enum fit { FIT_NONE, FIT_ENDS, FIT_NAMES, FIT_ALL };

/* HOSTID 0 of an I/O queue is not looked at (B2.2 6.3). */
static bool same_names(const struct association *a, const struct connect_data *c)
{
        return (same_host(&a->connect, c) ||
                (is_nobody(c->hostid) &&
                 strncmp(a->connect.hostnqn, c->hostnqn, NQN_FIELD) == 0)) &&
               strncmp(a->connect.subnqn, c->subnqn, NQN_FIELD) == 0;
}

static enum fit fit(const struct association *a, const struct session *s,
                    const struct connect_data *c)
{
        bool ends = same_ends(a->first->conn, s->conn);

        if (!a->named || a->cntlid != le16_get(c->cntlid))
                return FIT_NONE;
        if (same_names(a, c))
                return ends ? FIT_ALL : FIT_NAMES;
        return ends && !a->discovery ? FIT_ENDS : FIT_NONE;
}

/* The association that a Connect of an I/O queue joins: controllers of several subsystems may have
 * the same CNTLID, so that it is one of the same names; and where the same traffic was caught twice,
 * on both sides of a NAT, that between the same addresses. `least`: FIT_ENDS also finds one of other names. */
static struct association *find_association(const struct reader *r, const struct session *s,
                                            const struct connect_data *c, enum fit least)
{
        struct association *found = NULL;
        enum fit best = least - 1;

        for (struct association *a = r->associations; a; a = a->next) {
                enum fit fits = fit(a, s, c);

                if (fits <= best)
                        continue;
                best = fits;
                found = a;
        }
        return found;
}

static void connected(struct reader *r, struct session_private *p, struct session_cmd *cmd,
                      const struct cqe *cqe)
{
        const struct connect_data *data = connect_data(cmd);
        struct session *s = &p->pub;

        s->qid = le16_get(cmd->sqe.connect.qid);
        s->asked = le32_get(cqe->dw0) >> CONNECT_AUTHREQ_SHIFT;
        p->nvmsetid = s->qid > 0 ? le16_get(cmd->sqe.connect.nvmsetid) : 0;
        if (s->assoc)
                leave(r, s);
        if (s->qid == 0)
                join(s, new_association(r, cmd, (uint16_t)le32_get(cqe->dw0)));
        else if (data)
                join(s, find_association(r, s, data, FIT_NAMES));
        if (s->assoc)
                s->assoc->io |= s->qid > 0 && !s->assoc->discovery;
        if (s->assoc && s->assoc->identified && p->judge)
                judge_identified(p->judge, s->assoc);
}

/* What Identify Controller has returned; NULL: the command is another one, or its data is not all there. */
static const struct id_ctrl *id_ctrl_of(const struct session_private *p,
                                        const struct session_cmd *cmd)
{
        bool identifies = cmd->sqe.opc == NVME_IDENTIFY && session_admin(&p->pub, &cmd->sqe) &&
                          (le32_get(cmd->sqe.cdw10) & 0xff) == CNS_CTRL;
        bool whole = cmd->data && cmd->data_len >= sizeof(struct id_ctrl) && !cmd->data_cut;

        return identifies && whole ? (const struct id_ctrl *)(const void *)cmd->data : NULL;
}

/* Before anything is judged by it: a discovery subsystem may have a name of its own (B2.2 3.1.3.3), so that
 * of other names than the well-known one Identify alone tells. */
static void learn_type(const struct session_private *p, const struct record *rec)
{
        struct association *a = p->pub.assoc;
        bool success = rec->ends && rec->cmd && (!rec->cqe || !cqe_status(rec->cqe));
        const struct id_ctrl *id = success ? id_ctrl_of(p, rec->cmd) : NULL;

        if (!a || !id)
                return;
        a->discovery |= id->cntrltype == CNTRLTYPE_DISCOVERY;
        a->io = !a->discovery && (a->io || a->named || id->cntrltype == CNTRLTYPE_IO);
}

static void identified(struct session_private *p, const struct session_cmd *cmd)
{
        const struct id_ctrl *id = id_ctrl_of(p, cmd);
        struct association *a = p->pub.assoc;
        uint32_t ioccsz;

        if (!a || !id)
                return;
        ioccsz = le32_get(id->ioccsz);
        if (ioccsz < 4 || ioccsz > UINT32_MAX / 16) /* discovery controllers do not have it */
                return;
        a->in_capsule = ioccsz * 16 - (uint32_t)sizeof(union sqe);
        a->icdoff = le16_get(id->icdoff);
        a->msdbd = id->msdbd;
        a->long_sgls = le32_get(id->sgls) & SGLS_LLDTS;
        a->identified = true;
}

/* --- events ----------------------------------------------------------------------------------- */

static void take_command(struct reader *r, struct session_private *p, struct record *rec,
                         const union sqe *s, const uint8_t *data, uint32_t len, bool cut)
{
        struct session_cmd *cmd;

        if (sqe_is_connect(s) && p->pub.qid < 0 && !p->pub.conn->midstream)
                p->pub.qid = le16_get(s->connect.qid);
        cmd = add_cmd(r, p, s, &rec->e->at);
        rec->cmd = cmd;
        rec->sqe = s;
        if (!cmd)
                return;
        if (len > 0)
                take_data(r, &p->pub, cmd, rec->e, 0, data, len);
        cmd->data_cut |= cut;
}

static void take_response(struct session_private *p, struct record *rec, const struct cqe *cqe)
{
        rec->cqe = cqe;
        rec->cmd = find_cmd(p, le16_get(cqe->cid));
        rec->ends = rec->cmd != NULL;
}

static void take_pdu(struct reader *r, struct session_private *p, struct record *rec)
{
        const struct trace_pdu *pdu = rec->e->pdu;
        const union pdu *h = pdu->h;

        switch (h->ch.type) {
        case PDU_CAPSULE_CMD:
                take_command(r, p, rec, &h->cmd.sqe, pdu->data, pdu->data_len, pdu->cut);
                return;
        case PDU_CAPSULE_RESP:
                take_response(p, rec, &h->resp.cqe);
                return;
        case PDU_R2T:
        case PDU_H2C_DATA:
        case PDU_C2H_DATA:
                rec->cmd = find_cmd(p, le16_get(h->data.cccid));
                break;
        default:
                return;
        }
        if (!rec->cmd)
                return;
        if (h->ch.type == PDU_R2T) {
                ask(rec->cmd, rec->e);
                return;
        }
        take_data(r, &p->pub, rec->cmd, rec->e, le32_get(h->data.offset), pdu->data, pdu->data_len);
        rec->cmd->data_cut |= pdu->cut;
        rec->ends = h->ch.type == PDU_C2H_DATA && h->ch.flags & PDU_SUCCESS;
}

/* Where the command's data is: read as it stands, since whoever judges it does so elsewhere. */
static void read_description(const struct session *s, struct session_cmd *cmd,
                             const struct trace_capsule *c)
{
        const struct association *a = s->assoc;
        struct rdma_format format = {
                .admin = s->qid <= 0,
                .icdoff = a && s->qid > 0 ? a->icdoff : 0,
                .in_capsule = UINT32_MAX / 2,
        };
        struct rule_set all;

        memset(&all, 0xff, sizeof(all)); /* all waived */
        (void)rdma_data_read(c->data, c->len, &format, sqe_xfer(&cmd->sqe), 0, &all, &cmd->rdma);
}

/* A request whose acceptance was not seen, and then something else than its Connect: what follows may be another
 * connection's, whose beginning was lost. */
static void doubt_queue(struct session_private *p, const union sqe *first)
{
        if (p->pub.commands == 0 && p->pub.gapped && p->requested && !sqe_is_connect(first))
                p->pub.qid = -1;
}

static void take_capsule(struct reader *r, struct session_private *p, struct record *rec)
{
        const struct trace_capsule *c = &rec->e->capsule;
        struct session_cmd *cmd;

        if (!judge_knows(rec->e)) {
                take_gap(r, p, rec->e->sender);
                return;
        }
        if (rec->e->sender == PARTY_CONTROLLER) {
                if (c->len >= sizeof(struct cqe))
                        take_response(p, rec, (const void *)c->data);
                return;
        }
        if (c->len < sizeof(union sqe))
                return;
        doubt_queue(p, (const void *)c->data);
        take_command(r, p, rec, (const void *)c->data, NULL, 0, c->known < c->len);
        cmd = rec->cmd;
        if (!cmd)
                return;
        read_description(&p->pub, cmd, c);
        if (cmd->rdma.in_capsule && cmd->rdma.offset + (uint64_t)cmd->rdma.len <= c->len)
                take_data(r, &p->pub, cmd, rec->e, 0, c->data + cmd->rdma.offset, cmd->rdma.len);
}

/* Whether its descriptors hold this address, and where in its data that is. */
static bool has_key(const struct session_cmd *c, uint32_t key, uint64_t addr, uint64_t *offset)
{
        *offset = 0;
        for (unsigned k = 0; k < c->rdma.count; k++) {
                const struct rdma_buffer *b = &c->rdma.keyed[k];

                if (b->key == key && addr >= b->addr && addr - b->addr < b->len) {
                        *offset += addr - b->addr;
                        return true;
                }
                *offset += b->len;
        }
        return false;
}

/* The outstanding command of this address: most often that of the packet before. */
static struct session_cmd *find_by_key(struct session_private *p, uint32_t key, uint64_t addr,
                                       uint64_t *offset)
{
        unsigned looked = 0;

        if (p->by_key && has_key(p->by_key, key, addr, offset))
                return p->by_key;
        for (struct session_cmd *c = p->newest; c && looked < KEY_SEARCH_MAX;
             c = c->older, looked++)
                if (has_key(c, key, addr, offset))
                        return p->by_key = c;
        return NULL;
}

static void take_memory(struct reader *r, struct session_private *p, struct record *rec)
{
        const struct trace_memory *m = &rec->e->memory;
        uint64_t offset;

        rec->cmd = find_by_key(p, m->key, m->addr, &offset);
        if (!rec->cmd)
                return;
        rec->offset = offset;
        if (rec->e->kind == TRACE_READ)
                ask(rec->cmd, rec->e);
        else if (rec->e->kind == TRACE_READ_DATA || rec->e->kind == TRACE_WRITE_DATA)
                take_data(r, &p->pub, rec->cmd, rec->e, offset + m->offset, m->data, m->len);
        else
                rec->cmd->data_cut |= m->cut;
}

/* --- judging ---------------------------------------------------------------------------------- */

static void merge(struct rule_set *into, const struct rule_set *from)
{
        for (size_t i = 0; i < sizeof(into->bits) / sizeof(into->bits[0]); i++)
                into->bits[i] |= from->bits[i];
}

/* What a header breaks is told with its PDU, or with what kept that from being whole. */
static void take_header_findings(struct session_private *p, struct record *rec)
{
        enum trace_kind kind = rec->e->kind;

        for (enum party s = PARTY_HOST; s <= PARTY_CONTROLLER; s++) {
                if (kind != TRACE_CLOSED && s != rec->e->sender)
                        continue;
                merge(&rec->broken, &p->of_header[s]);
                p->of_header[s] = (struct rule_set) { 0 };
        }
}

/* What the host wrote into a command. What it did not do before it connected an I/O queue is only sure
 * when the admin queue has gone on without a gap. */
static void judge_fields(struct reader *r, const struct session_private *p, struct record *rec)
{
        struct command_view v = { .sqe = rec->sqe,
                                  .qid = p->pub.qid,
                                  .tcp = p->pub.conn->transport == TRACE_TCP,
                                  .leaving = p->leaving,
                                  .outstanding =
                                      rec->cmd && !p->pub.gapped ? p->outstanding - 1 : 0,
                                  .first = p->first.flags ? &p->first : NULL };
        struct text why = text_in(r->why, sizeof(r->why));

        past_view(p->pub.assoc, &v);
        command_judge(&v, &rec->broken, &why);
        if (p->pub.qid == 0 && past_joined(p->pub.assoc, &v, &rec->broken))
                command_judge(&v, &rec->broken, &why);
        if (why.len > 0)
                rec->why = r->why;
}

/* A Write goes with the Compare before it. */
static void note_pair(struct session_private *p, const union sqe *s)
{
        struct session_cmd *first = p->first.flags ? find_cmd(p, le16_get(p->first.cid)) : NULL;

        if (!first || (s->flags & SQE_FUSE_MASK) != SQE_FUSE_SECOND || s->opc != NVME_WRITE ||
            first->sqe.opc != NVME_COMPARE)
                return;
        first->second = le16_get(s->cid);
        first->has_second = true;
}

static void judge_pair(struct session_private *p, struct record *rec, uint16_t status)
{
        struct session_cmd *second = rec->cmd->has_second ? find_cmd(p, rec->cmd->second) : NULL;

        if (status == NVME_COMPARE_FAILURE && second && second != rec->cmd)
                second->voided = true;
        judge_finds(&rec->broken, rec->cmd->voided && status == NVME_SUCCESS, NVM_FUSED_ENDS);
}

static void judge_set(const struct session_private *p, struct record *rec)
{
        const struct ns_format *f = past_format(p->pub.assoc, le32_get(rec->sqe->nsid));

        judge_finds(&rec->broken,
                    p->nvmsetid && rec->sqe->opc != NVME_FABRICS && f && f->nvmsetid &&
                        f->nvmsetid != p->nvmsetid,
                    CMD_NVM_SET);
}

static bool has_io(const struct association *a)
{
        for (const struct session *s = a->first; s; s = s->sibling)
                if (s->qid > 0 && !s->gapped && !s->disconnected)
                        return true;
        return false;
}

/* Read, Write and their like: what else a host does on a path may be about that. */
static bool moves_blocks(const union sqe *s)
{
        return s->opc == NVME_READ || s->opc == NVME_WRITE || s->opc == NVME_COMPARE ||
               s->opc == NVME_WRITE_ZEROES;
}

static bool is_accessible(uint8_t state)
{
        return state == ANA_OPTIMIZED || state == ANA_NONOPTIMIZED;
}

/* Another controller of the subsystem that takes this host's commands. The names tell most of them apart, at little cost. */
static bool is_other_path(const struct association *a, const struct association *b, int64_t now_ns)
{
        return b != a && b->named && same_host(&a->connect, &b->connect) &&
               strncmp(a->connect.subnqn, b->connect.subnqn, NQN_FIELD) == 0 && has_io(b) &&
               past_lives(b, now_ns);
}

/* Of ANA states; 0: it is not known. */
static bool is_better(uint8_t there, uint8_t here)
{
        if (!there || !here)
                return false;
        return is_accessible(here) ? here != ANA_OPTIMIZED && there == ANA_OPTIMIZED
                                   : is_accessible(there);
}

/* 8.1.1, 8.1.2.1: the host has another controller that serves the namespace better. */
static void judge_path(const struct reader *r, const struct session_private *p, struct record *rec)
{
        const struct association *a = p->pub.assoc;
        uint32_t nsid = le32_get(rec->sqe->nsid);
        int64_t now = rec->e->at.time_ns;

        if (!a || !a->named || p->pub.qid <= 0 || p->pub.gapped || !moves_blocks(rec->sqe))
                return;
        for (const struct association *b = r->associations; b; b = b->next)
                judge_finds(&rec->broken,
                            is_other_path(a, b, now) && is_better(past_ana_shown(b, nsid, now),
                                                                  past_ana_shown(a, nsid, now)),
                            ANA_HOST_PATH);
}

/* After what it is judged by. */
static void keep_command(struct session_private *p, const union sqe *s)
{
        bool leaves = sqe_is_fabrics(s, FCTYPE_DISCONNECT);

        note_pair(p, s);

        p->leaving |= leaves && p->pub.qid > 0;
        p->first = (union sqe) { 0 };
        if ((s->flags & SQE_FUSE_MASK) == SQE_FUSE_FIRST && !p->pub.gapped)
                p->first = *s;
}

/* Of the admin queue; NULL: it is not known. */
static const struct tls_past *admin_tls(const struct association *a)
{
        for (const struct session *s = a ? a->first : NULL; s; s = s->sibling)
                if (s->qid == 0)
                        return &s->private->tls;
        return NULL;
}

/* The controller finds fault with something in the data, or does not say with what. */
static bool refuses_names(const struct cqe *cqe)
{
        uint32_t dw0 = le32_get(cqe->dw0);

        return cqe_status(cqe) == NVME_CONNECT_PARAM &&
               (dw0 & CONNECT_IATTR_DATA || !(dw0 & UINT16_MAX));
}

/* Whether the host has a discovery service here, all of whose commands are there. */
static bool is_discovery_watched(const struct reader *r, const struct connect_data *host)
{
        for (const struct association *a = r->associations; a; a = a->next)
                if (a->discovery && a->named &&
                    strncmp(a->connect.hostnqn, host->hostnqn, NQN_FIELD) == 0 && !past_gapped(a))
                        return true;
        return false;
}

static void judge_joining(struct reader *r, const struct session_private *p, struct record *rec,
                          const struct cqe *cqe)
{
        const struct connect_data *data = connect_data(rec->cmd);
        uint16_t status = cqe_status(cqe);
        const struct association *a = NULL, *meant = NULL;

        if (!data)
                return;
        judge_names(data, &rec->broken);
        if (le16_get(rec->cmd->sqe.connect.qid)) {
                a = find_association(r, &p->pub, data, FIT_NAMES);
                meant = a || !refuses_names(cqe) ? a : find_association(r, &p->pub, data, FIT_ENDS);
        } else {
                judge_return(&r->hosts, data, &rec->broken);
                if (r->hosts.restarted)
                        judge_restart(&r->hosts, data, is_discovery_watched(r, data), &rec->broken);
        }
        if (status == NVME_CONNECT_RESTART_DISCOVERY)
                memory_restarts(&r->hosts, data);
        if (p->pub.conn->transport == TRACE_TCP && !p->pub.conn->midstream)
                judge_channel(&p->tls, &r->tls, admin_tls(a), rec->cmd, &rec->broken);
        judge_finds(&rec->broken,
                    a && p->requested && le16_get(p->request.cntlid) != le16_get(data->cntlid),
                    RDMA_REQ_CTRL);
        judge_connect(rec->cmd, cqe, meant, &rec->broken);
        if (a)
                past_joins(a, &p->pub, rec->cmd, status, &rec->broken);
}

/* Of a fused command it may be the one before that is wrong; and before Base 2.2 no status is printed
 * for an NSID that is not used. */
static bool is_doubtful(unsigned rule)
{
        return rule == FUSE_ALONE || rule == FAB_NSID_UNUSED;
}

/* Whether the channel was secured no recording of what went on inside says: who replaces a PSK is believed.
 * What is left to do after AUTH_Failure2 is to disconnect; slack is for what is on its way. With the
 * discovery service a host does not authenticate unasked, and never the controller. */
static void judge_authentication(struct reader *r, struct session_private *p, struct record *rec,
                                 bool success)
{
        const struct association *a = p->pub.assoc;
        bool well_known = a->named && strncmp(a->connect.subnqn, NQN_DISCOVERY, NQN_FIELD) == 0;
        bool says = rec->cmd->sqe.fctype == FCTYPE_AUTH_SEND;

        judge_auth(&p->auth, &r->auth, rec->cmd, success, &rec->broken);
        judge_keys(&p->tls, &r->tls, &a->connect, &p->auth, rec->cmd, &rec->broken);
        judge_finds(&rec->broken,
                    says && success && p->auth.last == AUTH_NEGOTIATE && p->auth.sc_c &&
                        (p->pub.qid != 0 || p->pub.conn->transport != TRACE_TCP),
                    FAB_AUTH_CONCAT);
        judge_finds(&rec->broken, well_known && says && success && (!p->pub.asked || p->auth.asked),
                    FAB_AUTH_DISC);
}

static void judge_failed(const struct session_private *p, struct record *rec)
{
        judge_finds(&rec->broken,
                    p->auth.keyed_ns && rec->e->at.time_ns > p->auth.keyed_ns + FAILED_NS,
                    FAB_AUTH_CONCAT);
        judge_finds(&rec->broken,
                    p->auth.failed_ns && rec->e->at.time_ns > p->auth.failed_ns + FAILED_NS,
                    FAB_AUTH_HOST_ENDS);
}

/* What the command itself shows to be wrong, whatever state the controller is in. */
static void note_wrong(struct record *rec)
{
        if (!rec->cmd || rec->e->sender != PARTY_HOST)
                return;
        rule_each_in (&rec->broken, id) {
                const struct rule *rule = rule_get(id);

                if (rule->reaction == REACT_STATUS && rule->reacts == BASIS_PRINTED &&
                    !is_doubtful(id))
                        rec->cmd->wrong = id;
        }
}

static void discovers(struct reader *r, const struct association *a, const struct session_cmd *cmd)
{
        remember_entries(&r->tls, cmd);
        if (cmd->sqe.opc == NVME_GET_LOG_PAGE && a->named)
                memory_discovers(&r->hosts, &a->connect);
}

static void judge_result(struct reader *r, struct session_private *p, struct record *rec)
{
        static const struct cqe implied; /* by SUCCESS: no error, no result */
        const struct cqe *cqe = rec->cqe ? rec->cqe : &implied;
        bool success = !cqe_status(cqe);

        note_wrong(rec);
        if (rec->sqe) {
                judge_failed(p, rec);
                if (p->pub.assoc && p->pub.qid > 0)
                        judge_again(&r->hosts, p->pub.assoc, rec->sqe, rec->e->at.time_ns,
                                    &rec->broken);
                judge_command(&p->pub, rec->sqe, &rec->broken);
                judge_fields(r, p, rec);
                judge_set(p, rec);
                judge_path(r, p, rec);
                keep_command(p, rec->sqe);
        }
        if (rec->sqe && rec->cmd)
                past_command(&p->pub, rec->cmd, &rec->broken);
        judge_finds(&rec->broken, rec->sqe && p->pub.doubled && !p->pub.gapped,
                    FAB_CONNECT_QID_USED);
        if (rec->sqe)
                p->pub.doubled = false;
        if (!rec->ends || !rec->cmd)
                return;
        judge_finds(&rec->broken, success && rec->cmd->wrong && !p->pub.gapped, FAB_REFUSED);
        if (!p->pub.gapped && p->pub.qid > 0)
                judge_pair(p, rec, cqe_status(cqe));
        if (!p->pub.gapped)
                judge_description(&p->pub, rec->cmd, &rec->broken);
        if (success)
                judge_transfer(&p->pub, rec->cmd, &rec->broken);
        if (!success) {
                judge_refusal(&p->pub, rec->cmd, cqe, &rec->broken);
                p->leaving &=
                    rec->cmd->sqe.fctype != FCTYPE_DISCONNECT || rec->cmd->sqe.opc != NVME_FABRICS;
        }
        if (sqe_is_connect(&rec->cmd->sqe)) {
                judge_joining(r, p, rec, cqe);
                return;
        }
        past_answer(&p->pub, rec->cmd, cqe, rec->e, &rec->broken);
        if (sqe_is_auth(&rec->cmd->sqe) && p->pub.assoc && !p->pub.gapped)
                judge_authentication(r, p, rec, success);
        if (success)
                judge_data(&p->pub, rec->cmd, cqe, &rec->broken);
        if (success && p->pub.assoc && p->pub.assoc->discovery)
                discovers(r, p->pub.assoc, rec->cmd);
}

/* 5.1.1.1: data of a command that was aborted at once; slack is for what was on its way. */
static bool is_too_late(const struct record *rec)
{
        const struct trace_event *e = rec->e;
        bool moves = e->kind == TRACE_PDU || e->kind == TRACE_READ || e->kind == TRACE_WRITE_DATA;

        return moves && e->sender == PARTY_CONTROLLER && rec->cmd && !rec->cqe && !rec->ends &&
               rec->cmd->aborted_ns && e->at.time_ns > rec->cmd->aborted_ns + FAILED_NS;
}

static void judge_record(struct reader *r, struct session_private *p, struct record *rec)
{
        const struct trace_event *e = rec->e;

        if (!p->judge)
                return;
        if (e->kind == TRACE_HEADER) {
                judge_event(p->judge, e, &p->of_header[e->sender]);
                return;
        }
        judge_event(p->judge, e, &rec->broken);
        if (e->kind == TRACE_SECURED)
                judge_hello(&p->tls, &r->tls, &e->hello, &rec->broken);
        judge_finds(&rec->broken, is_too_late(rec), ABORT_WHICH);
        if ((e->kind == TRACE_DISCONNECT || e->kind == TRACE_DISCONNECTED) && p->pub.qid == 0 &&
            p->pub.assoc)
                past_disconnects(p->pub.assoc->past, e->at.time_ns);
        if (e->kind == TRACE_DISCONNECT && e->sender == PARTY_HOST && !p->leaving)
                past_leaves(&p->pub, e->at.time_ns);
        if (e->kind == TRACE_DISCONNECT || e->kind == TRACE_TERMINATE || e->kind == TRACE_CLOSED)
                lose_all(r, p, e->at.time_ns);
        if (e->kind == TRACE_PDU || e->kind == TRACE_FAULT || e->kind == TRACE_GAP ||
            e->kind == TRACE_CLOSED)
                take_header_findings(p, rec);
        judge_result(r, p, rec);
}

static void weigh(struct reader *r, struct session_private *p, struct record *rec)
{
        const struct rule_set *waived = r->options.waived;
        bool in_doubt = false;

        if (rule_set_empty(&rec->broken))
                return;
        for (size_t i = 0; waived && i < sizeof(waived->bits) / sizeof(waived->bits[0]); i++)
                rec->broken.bits[i] &= ~waived->bits[i];
        rule_each_in (&rec->broken, id) {
                rec->is_broken = true;
                rec->is_must |= rule_grade(rule_get(id)) == GRADE_MUST;
                in_doubt |= !(rule_get(id)->seen & SEEN_ALONE);
        }
        /* A refusal also says that all before it was there. */
        rec->unproven = in_doubt && p->pub.conn->transport == TRACE_ROCE &&
                        !trace_proven(p->pub.conn, rec->e->sender, rec->e->at.frame);
        p->pub.broken += rec->is_must;
}

/* --- a session -------------------------------------------------------------------------------- */

static struct session_private *open_session(struct reader *r, const struct trace_event *e)
{
        struct session_private *p = calloc(1, sizeof(*p));

        if (!p) {
                r->no_memory = true;
                return NULL;
        }
        p->bucket = p->few;
        p->buckets = CMD_BUCKETS;
        p->pub = (struct session) {
                .conn = e->conn,
                .qid = -1,
                .gapped = e->conn->midstream,
                .opened = e->at,
                .private = p,
        };
        if (r->options.judge && !(p->judge = judge_new(e->conn, r->options.waived)))
                r->no_memory = true;
        return p;
}

static void close_session(struct reader *r, struct session_private *p)
{
        leave(r, &p->pub);
        judge_free(p->judge);
        if (p->bucket != p->few)
                free(p->bucket);
        free(p);
}

static void take_event(struct reader *r, struct session_private *p, struct record *rec)
{
        switch (rec->e->kind) {
        case TRACE_PDU:
                take_pdu(r, p, rec);
                break;
        case TRACE_CAPSULE:
                take_capsule(r, p, rec);
                break;
        case TRACE_READ:
        case TRACE_READ_DATA:
        case TRACE_READ_END:
        case TRACE_WRITE_DATA:
        case TRACE_WRITE:
                take_memory(r, p, rec);
                break;
        case TRACE_REQUEST:
                p->requested = rdma_request_read(rec->e->cm.data, rec->e->cm.len, &p->request);
                if (p->requested)
                        p->pub.qid = le16_get(p->request.qid);
                break;
        case TRACE_OPENED:
        case TRACE_CLOSED:
        case TRACE_SECURED:
        case TRACE_FOUND:
        case TRACE_HEADER:
        case TRACE_FAULT:
        case TRACE_ACCEPT:
        case TRACE_REJECT:
        case TRACE_READY:
        case TRACE_DISCONNECT:
        case TRACE_DISCONNECTED:
        case TRACE_TERMINATE:
        case TRACE_REFUSAL:
                break;
        case TRACE_GAP:
                take_gap(r, p, rec->e->sender);
                break;
        }
        if (rec->ends && rec->cmd) /* pieces that did not come leave holes */
                rec->cmd->data_cut |= rec->cmd->h2c + rec->cmd->c2h < rec->cmd->data_len;
}

static bool succeeds(const struct record *rec)
{
        return rec->ends && rec->cmd && rec->cqe && cqe_status(rec->cqe) == NVME_SUCCESS;
}

/* What a completion changes, once everybody has seen it. */
static void after(struct reader *r, struct session_private *p, struct record *rec)
{
        if (!rec->ends || !rec->cmd)
                return;
        if (succeeds(rec))
                identified(p, rec->cmd);
        if (succeeds(rec) && sqe_is_fabrics(&rec->cmd->sqe, FCTYPE_DISCONNECT))
                p->pub.disconnected = true;
        unlink_cmd(p, rec->cmd);
        free_cmd(r, rec->cmd);
}

void reader_event(struct reader *r, const struct trace_event *e)
{
        struct session_private *p = e->conn->user;
        struct record rec = { .e = e };

        if (e->kind == TRACE_OPENED)
                e->conn->user = p = open_session(r, e);
        if (!p)
                return;
        rec.session = &p->pub;
        take_event(r, p, &rec);
        learn_type(p, &rec);
        judge_record(r, p, &rec);
        if (succeeds(&rec) && sqe_is_connect(&rec.cmd->sqe))
                connected(r, p, rec.cmd, rec.cqe);
        weigh(r, p, &rec);
        r->fn(r->user, &rec);
        after(r, p, &rec);
        if (e->kind == TRACE_CLOSED)
                while (p->oldest)
                        give_up(r, p, p->oldest);
        report_lost(r, rec);
        if (e->kind == TRACE_CLOSED)
                close_session(r, p);
}

struct reader *reader_new(const struct session_options *options, record_fn *fn, void *user)
{
        struct reader *r = calloc(1, sizeof(*r));

        if (!r)
                return NULL;
        r->options = *options;
        r->tls.shown = options->shows_tls;
        r->keep = keep_most(options->keep_data ? KEEP_DATA : KEEP_SOME);
        r->logs = keep_most(KEEP_SOME);
        r->fn = fn;
        r->user = user;
        return r;
}

bool reader_free(struct reader *r)
{
        bool whole = !r->no_memory;

        while (r->spare) {
                struct session_cmd *cmd = r->spare;

                r->spare = cmd->next;
                free(cmd);
        }
        free(r);
        return whole;
}

static void on_event(void *user, const struct trace_event *e)
{
        struct reader *r = user;

        if (e->conn->family == &nvme_capture)
                reader_event(r, e);
        else if (e->kind == TRACE_OPENED && r->options.other)
                r->options.other(r->user, e->conn);
}

int session_read(const char *path, const struct trace_options *trace,
                 const struct session_options *options, record_fn *fn, void *user,
                 struct trace_totals *totals, char *err, size_t err_size)
{
        struct reader *r = reader_new(options, fn, user);
        int rc = r ? trace_read(path, &nvme_capture, trace, on_event, r, totals, err, err_size) : 0;

        if ((!r || !reader_free(r)) && rc == 0) {
                snprintf(err, err_size, "%s: out of memory", path);
                rc = -1;
        }
        return rc;
}

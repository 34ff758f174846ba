/* SPDX-License-Identifier: BSD-3-Clause */
#include "seq_bind.h"

#include <string.h>

#include "pdu/core/crc32c.h"
#include "pdu/nvme/rdma/spoil_rdma.h"
#include "pdu/nvme/tcp/spoil_tcp.h"
#include "pdu/nvme/wire/fabrics.h"

/* A PDU that is being made. */
struct draft {
        union {
                union pdu h;
                union seq_work w; /* RDMA */
        };
        uint8_t data[SEQ_DATA_MAX];
        uint32_t len;
        union sqe sqe; /* of the command that it answers */
        bool answers;
        struct bind_cmd *cmd; /* ... or NULL */
        struct bind_r2t *r2t; /* that it serves, or NULL */
};

void seq_bind_init(struct seq_bind *b, enum party side, const char *hostnqn, const char *subnqn)
{
        memset(b, 0, sizeof(*b));
        b->side = side;
        b->hostnqn = hostnqn;
        b->subnqn = subnqn;
        b->cntlid = CNTLID_DYNAMIC;
        memset(b->hostid, 0x48, sizeof(b->hostid));
}

/* --- what the peer says ------------------------------------------------------------------------- */

static void agree(struct seq_bind *b, unsigned dgst, uint8_t peer_pda)
{
        b->out.hdgst = b->in.hdgst = dgst & PDU_DGST_HEADER;
        b->out.ddgst = b->in.ddgst = dgst & PDU_DGST_DATA;
        b->out.pda = peer_pda <= PDU_PDA_MAX ? peer_pda : 0;
        b->in.pda = b->asked_pda <= PDU_PDA_MAX ? b->asked_pda : 0;
}

static void bind_command(struct seq_bind *b, const union sqe *sqe)
{
        if (b->cmds < BIND_CMDS)
                b->cmd[b->cmds++] = (struct bind_cmd) { .sqe = *sqe };
}

static void hear_r2t(struct seq_bind *b, const struct pdu_data *p)
{
        if (b->r2ts < BIND_R2TS)
                b->r2t[b->r2ts++] = (struct bind_r2t) { le16_get(p->cccid), le16_get(p->ttag),
                                                        le32_get(p->offset), le32_get(p->length) };
}

/* --- authentication ----------------------------------------------------------------------------- */

void seq_bind_auth(struct seq_bind *b, const struct auth_crypto *crypto,
                   const struct auth_keys *keys)
{
        b->auth.cfg = (struct auth_config) { .role = PARTY_HOST,
                                             .crypto = crypto,
                                             .hostnqn = b->hostnqn,
                                             .subnqn = b->subnqn,
                                             .keys = *keys,
                                             .t_id = 1 };
        auth_start(&b->auth.a, &b->auth.cfg);
}

/* What is due; one that is over begins again. 0: it is not our turn. */
static uint32_t auth_message(struct bind_auth *b, uint8_t message[AUTH_MESSAGE_MAX])
{
        if (!b->cfg.crypto)
                return 0;
        if (auth_turn(&b->a) == AUTH_DONE || auth_turn(&b->a) == AUTH_REFUSED)
                auth_start(&b->a, &b->cfg);
        return auth_turn(&b->a) == AUTH_SPEAK ? (uint32_t)auth_speak(&b->a, message) : 0;
}

static void hear_auth(struct bind_auth *b)
{
        struct auth_view v;

        if (b->n > 0 && auth_view(&v, b->message, b->n) == 0)
                b->succeeded |= v.message == AUTH_SUCCESS1;
        if (b->cfg.crypto && b->n > 0 && auth_turn(&b->a) == AUTH_LISTEN)
                auth_hear(&b->a, b->message, b->n);
        b->n = 0;
}

void seq_bind_received_data(struct seq_bind *b, const union pdu *h, const uint8_t *data)
{
        uint32_t offset = le32_get(h->data.offset), len = le32_get(h->data.length);

        if (h->ch.type != PDU_C2H_DATA || le16_get(h->data.cccid) != b->auth.cid || !data ||
            offset > sizeof(b->auth.message) || len > sizeof(b->auth.message) - offset)
                return;
        memcpy(b->auth.message + offset, data, len);
        b->auth.n = offset + len;
        if (h->ch.flags & PDU_SUCCESS)
                hear_auth(&b->auth);
}

/* Over RDMA the message lies in the host's memory. */
static void hear_auth_response(struct seq_bind *b)
{
        if (b->memory.at) {
                b->auth.n = sizeof(b->auth.message);
                memcpy(b->auth.message, b->memory.at + seq_bind_place(b->auth.cid), b->auth.n);
        }
        hear_auth(&b->auth);
}

static void bind_response(struct seq_bind *b, const struct cqe *cqe)
{
        if (le16_get(cqe->cid) == b->auth.cid && cqe_status(cqe) == 0)
                hear_auth_response(b);
        if (b->cntlid == CNTLID_DYNAMIC && cqe_status(cqe) == 0)
                b->cntlid = (uint16_t)le32_get(cqe->dw0);
}

void seq_bind_received(struct seq_bind *b, const struct message *m)
{
        const struct cqe *cqe = message_cqe(m);

        if (message_sqe(m)) {
                bind_command(b, message_sqe(m));
        } else if (cqe) {
                bind_response(b, cqe);
        } else if (message_is(m, PDU_ICRESP)) {
                agree(b, m->pdu.icresp.dgst, m->pdu.icresp.cpda);
        } else if (message_is(m, PDU_ICREQ)) {
                b->peer_dgst = m->pdu.icreq.dgst;
                b->out.pda = m->pdu.icreq.hpda;
        } else if (message_is(m, PDU_R2T)) {
                hear_r2t(b, &m->pdu.data);
        }
}

void seq_bind_asked(struct seq_bind *b, const struct rdma_request *r)
{
        b->hsqsize = le16_get(r->hsqsize);
}

/* --- templates, filled in ----------------------------------------------------------------------- */

static void fill_data(struct draft *d, struct seq_bind *b, const struct nvme_template *t)
{
        uint32_t n;

        d->len = t->data == SEQ_NO_DATA ? 0 : t->base.data_len;
        memset(d->data, 0x5a, d->len);
        if (t->data == SEQ_AUTH && (n = auth_message(&b->auth, d->data)) > 0)
                d->len = n;
        if (t->data == SEQ_CONNECT) {
                struct connect_data data = { .cntlid =
                                                 le16(b->admin ? b->admin->cntlid : b->cntlid) };

                memcpy(data.hostid, b->hostid, sizeof(data.hostid));
                text_fill(data.subnqn, sizeof(data.subnqn), b->subnqn);
                text_fill(data.hostnqn, sizeof(data.hostnqn), b->hostnqn);
                memcpy(d->data, &data, sizeof(data));
        }
}

static void own_data(struct draft *d, const struct sequence *s, const struct seq_step *step)
{
        if (step->has_data && step->is_literal) {
                d->len = step->bytes.len;
                memcpy(d->data, s->pool + step->bytes.at, d->len);
        } else if (step->has_data) {
                memset(d->data, 0xa5, step->data_len);
                d->len = step->data_len;
        }
        for (uint32_t i = 0; i < step->poke.len && step->poke_at + i < d->len; i++)
                d->data[step->poke_at + i] = s->pool[step->poke.at + i];
}

static void fill_connect(struct connect_cmd *cmd, const struct seq_bind *b)
{
        cmd->qid = le16(b->qid);
        cmd->sqsize = le16(ADMIN_SQ_MIN - 1);
}

static void fill_sqe(union sqe *sqe, struct seq_bind *b, const struct seq_step *step)
{
        const struct nvme_template *t = nvme_template(step->template);

        *sqe = (union sqe) { .opc = t->opc, .flags = SQE_PSDT_SGL };
        sqe->cid = le16(++b->last_cid);
        if (t->opc == NVME_FABRICS)
                sqe->fctype = t->fctype;
        else
                sqe->nsid = le32(t->nsid);
        sqe->cdw10 = le32(t->cdw10);
        sqe->cdw11 = le32(t->cdw11);
        sqe->cdw12 = le32(t->cdw12);
        if (t->opc == NVME_ABORT) /* of the command before, or one earlier */
                sqe->cdw10 = le32((uint32_t)(uint16_t)(b->last_cid - 1 - step->of) << 16);
        if (t->fctype == FCTYPE_CONNECT && t->opc == NVME_FABRICS)
                fill_connect(&sqe->connect, b);
        if (t->fctype == FCTYPE_AUTH_RECEIVE && t->opc == NVME_FABRICS)
                b->auth.cid = b->last_cid;
}

/* TL and AL are as long as the data that is described. */
static void fill_auth_len(union sqe *sqe, uint32_t len)
{
        if (sqe->opc == NVME_FABRICS &&
            (sqe->fctype == FCTYPE_AUTH_SEND || sqe->fctype == FCTYPE_AUTH_RECEIVE))
                sqe->auth.len = le32(len);
}

static void fill_command(struct draft *d, struct seq_bind *b, const struct nvme_template *t,
                         const struct seq_step *step)
{
        union sqe *sqe = &d->h.cmd.sqe;

        fill_sqe(sqe, b, step);
        sqe->sgl.id = t->sgl ? t->sgl : SGL_TRANSPORT;
        sqe->sgl.len = le32(t->sgl == SGL_IN_CAPSULE ? d->len : t->base.data_len);
        /* data=N of a command whose data does not go with it is what it describes */
        if (t->sgl == SGL_TRANSPORT && step->has_data && !step->is_literal) {
                sqe->sgl.len = le32(d->len);
                d->len = 0;
        }
        fill_auth_len(sqe, le32_get(sqe->sgl.len));
}

static struct bind_cmd *waiting(struct seq_bind *b, const struct seq_step *step)
{
        return b->cmds > 0 ? &b->cmd[step->of % b->cmds] : NULL;
}

static uint32_t all_of(const struct bind_cmd *c)
{
        uint32_t len = c ? sgl_len(&c->sqe.sgl) : 0;

        return c && c->moved < len ? len - c->moved : 0;
}

/* H2CData for an R2T: all that it still wants, or as much as the step says. */
static void fill_h2c(struct draft *d, struct seq_bind *b, const struct seq_step *step)
{
        struct bind_r2t *r = b->r2ts > 0 ? &b->r2t[step->of % b->r2ts] : NULL;
        uint32_t want = r ? r->left : 512;

        if (!step->has_data) {
                d->len = want < SEQ_DATA_MAX ? want : SEQ_DATA_MAX;
                memset(d->data, 0x5a, d->len);
        }
        d->h.data.cccid = le16(r ? r->cid : b->last_cid);
        d->h.data.ttag = le16(r ? r->ttag : 0);
        d->h.data.offset = le32(r ? r->offset : 0);
        d->h.data.length = le32(d->len);
        d->h.ch.flags = !r || d->len >= r->left ? PDU_LAST : 0;
        d->r2t = r;
}

/* C2HData: all that the command still wants. */
static void fill_c2h(struct draft *d, struct seq_bind *b, const struct seq_step *step)
{
        uint32_t want = all_of(d->cmd);

        (void)b;
        if (!step->has_data) {
                d->len = want < SEQ_DATA_MAX ? want : SEQ_DATA_MAX;
                memset(d->data, 0x5a, d->len);
        }
        d->h.data.cccid = d->cmd ? d->cmd->sqe.cid : le16(0);
        d->h.data.offset = le32(d->cmd ? d->cmd->moved : 0);
        d->h.data.length = le32(d->len);
        d->h.ch.flags = d->len >= want ? PDU_LAST : 0;
}

static void fill_r2t(struct draft *d, struct seq_bind *b)
{
        d->h.data.cccid = d->cmd ? d->cmd->sqe.cid : le16(0);
        d->h.data.ttag = le16(b->ttag++);
        d->h.data.offset = le32(d->cmd ? d->cmd->moved : 0);
        d->h.data.length = le32(d->cmd ? all_of(d->cmd) : 512);
        d->len = 0;
}

static void fill_response(struct cqe *cqe, const struct draft *d, struct seq_bind *b)
{
        const union sqe *sqe = d->cmd ? &d->cmd->sqe : NULL;

        cqe->cid = sqe ? sqe->cid : le16(0);
        cqe->sqhd = le16(++b->answered);
        if (sqe && sqe->opc == NVME_FABRICS && sqe->fctype == FCTYPE_CONNECT)
                cqe->dw0 = le32(1);
}

static void fill(struct draft *d, struct seq_bind *b, const struct seq_step *step)
{
        const struct nvme_template *t = nvme_template(step->template);
        bool dgst = b->side == PARTY_CONTROLLER;

        d->cmd = dgst ? waiting(b, step) : NULL;
        if (t->base.type == PDU_CAPSULE_CMD)
                fill_command(d, b, t, step);
        else if (t->base.type == PDU_H2C_DATA)
                fill_h2c(d, b, step);
        else if (t->base.type == PDU_C2H_DATA)
                fill_c2h(d, b, step);
        else if (t->base.type == PDU_R2T)
                fill_r2t(d, b);
        else if (t->base.type == PDU_CAPSULE_RESP)
                fill_response(&d->h.resp.cqe, d, b);
        else if (t->base.type == PDU_ICRESP)
                d->h.icresp = (struct pdu_icresp) { .ch = d->h.ch,
                                                    .dgst = b->peer_dgst & 3,
                                                    .maxh2cdata = le32(131072) };
        else if (t->base.type == PDU_H2C_TERM || t->base.type == PDU_C2H_TERM)
                d->h.term.fes = le16(FES_SEQUENCE_ERROR);
}

/* --- bytes -------------------------------------------------------------------------------------- */

static size_t put(uint8_t *out, size_t at, const void *p, size_t n)
{
        if (n > 0)
                memcpy(out + at, p, n);
        return at + n;
}

static size_t put_digest(uint8_t *out, size_t at, uint32_t crc)
{
        le32_t v = le32(crc);

        return put(out, at, &v, sizeof(v));
}

struct layout { /* of a PDU before it was changed: what is where */
        uint8_t hlen;
        bool hdgst, ddgst;
        uint32_t crc;
};

static size_t write_pdu(const struct spoil *sp, const struct layout *l, const struct seq_step *step,
                        uint8_t *out)
{
        size_t at = put(out, 0, sp->h, l->hlen);

        if (l->hdgst)
                at = put_digest(out, at,
                                (step->stale ? l->crc : crc32c(sp->h, l->hlen)) ^ sp->hdgst_xor ^
                                    step->hdgst_xor);
        memset(out + at, 0, sp->pad);
        at = put(out, at + sp->pad, sp->data, sp->data_len);
        if (l->ddgst && sp->data_len > 0)
                at = put_digest(out, at,
                                crc32c(sp->data, sp->data_len) ^ sp->ddgst_xor ^ step->ddgst_xor);
        return at;
}

static size_t write_draft(struct draft *d, const struct seq_bind *b, const struct seq_step *step,
                          uint8_t *out)
{
        struct spoil sp = { .h = &d->h, .data = d->data, .data_writable = true };
        struct rule_set violated = { 0 };
        struct layout l;
        size_t n;

        pdu_lay_out(&d->h, &b->out, d->len);
        l = (struct layout) { d->h.ch.hlen, d->h.ch.flags & PDU_HDGSTF, d->h.ch.flags & PDU_DDGSTF,
                              crc32c(&d->h, d->h.ch.hlen) };
        sp.data_len = d->len;
        sp.pad = d->h.ch.pdo > 0 ? d->h.ch.pdo - pdu_head_len(&d->h, &b->out) : 0;
        if (d->cmd) {
                d->sqe = d->cmd->sqe;
                sp.sqe = &d->sqe;
        }
        if (step->violates != RULE_NONE) {
                rule_add(&violated, step->violates);
                spoil_pdu(&violated, b->side, &sp);
        }
        seq_apply(step, &d->h);
        n = write_pdu(&sp, &l, step, out);
        if (sp.twice) {
                memcpy(out + n, out, n);
                n *= 2;
        }
        return n;
}

/* --- what was said ------------------------------------------------------------------------------ */

static void drop_cmd(struct seq_bind *b, const struct bind_cmd *c)
{
        size_t i = (size_t)(c - b->cmd);

        b->cmds--;
        memmove(&b->cmd[i], &b->cmd[i + 1], (b->cmds - i) * sizeof(b->cmd[0]));
}

static void serve(struct seq_bind *b, struct bind_r2t *r, uint32_t len)
{
        size_t i = (size_t)(r - b->r2t);

        r->offset += len;
        r->left -= len < r->left ? len : r->left;
        if (r->left > 0)
                return;
        b->r2ts--;
        memmove(&b->r2t[i], &b->r2t[i + 1], (b->r2ts - i) * sizeof(b->r2t[0]));
}

static void said(struct seq_bind *b, const struct draft *d)
{
        uint8_t type = d->h.ch.type;

        if (type == PDU_ICREQ) {
                b->asked_pda = d->h.icreq.hpda;
        } else if (type == PDU_ICRESP) {
                b->asked_pda = d->h.icresp.cpda;
                agree(b, d->h.icresp.dgst, b->out.pda);
        } else if (d->r2t) {
                serve(b, d->r2t, d->len);
        } else if (d->cmd && type == PDU_CAPSULE_RESP) {
                drop_cmd(b, d->cmd);
        } else if (d->cmd && (type == PDU_C2H_DATA || type == PDU_R2T)) {
                d->cmd->moved += le32_get(d->h.data.length);
                if (d->h.ch.flags & PDU_SUCCESS)
                        drop_cmd(b, d->cmd);
        }
}

size_t seq_bind_encode(struct seq_bind *b, const struct sequence *s, const struct seq_step *step,
                       uint8_t *out)
{
        struct draft d;
        size_t n;

        if (step->kind == SEQ_RAW)
                return put(out, 0, s->pool + step->bytes.at, step->bytes.len);
        d.h = (union pdu) { .ch.type = step->template->type };
        d.r2t = NULL;
        fill_data(&d, b, nvme_template(step->template));
        own_data(&d, s, step);
        fill(&d, b, step);
        n = write_draft(&d, b, step, out);
        said(b, &d);
        return n;
}

/* --- RDMA: capsules ----------------------------------------------------------------------------- */

/* A command's part of the memory. */
uint32_t seq_bind_place(uint16_t cid)
{
        return cid % BIND_PLACES * SEQ_DATA_MAX;
}

static void put_in_memory(struct seq_bind *b, const uint8_t *data, uint32_t len)
{
        uint32_t *written = &b->memory.written[b->last_cid % BIND_PLACES];

        memcpy(b->memory.at + seq_bind_place(b->last_cid), data, len);
        if (*written < len)
                *written = len;
}

/* Bytes that the command describes. */
static uint32_t described(const struct draft *d, const struct nvme_template *t,
                          const struct seq_step *step)
{
        return d->len > 0 || step->has_data || t->sgl != SGL_TRANSPORT ? d->len : t->base.data_len;
}

unsigned seq_bind_keys(const struct seq_step *step)
{
        const struct nvme_template *t = nvme_template(step->template);

        return step->keys > 0 ? step->keys - 1u : t->sgl != SGL_IN_CAPSULE || t->nsid == 0;
}

/* The nth of so many keyed descriptors of len bytes. */
static struct sgl keyed(const struct seq_bind *b, uint32_t len, unsigned nth, unsigned keys)
{
        uint32_t part = len / keys, at = seq_bind_place(b->last_cid) + nth * part;
        struct rdma_buffer buffer = { .addr = b->memory.addr + at,
                                      .len = nth + 1 == keys ? len - nth * part : part,
                                      .key = b->memory.key };
        struct sgl sgl;

        if (len == 0)
                buffer = (struct rdma_buffer) { 0 };
        sgl_put_keyed(&sgl, &buffer);
        return sgl;
}

/* What follows the SQE of a capsule: data, or descriptors; bytes. */
static uint32_t fill_capsule(struct draft *d, struct seq_bind *b, const struct seq_step *step,
                             uint8_t *out)
{
        struct sgl *sgl = &d->w.sqe.sgl;
        unsigned keys = seq_bind_keys(step);
        uint32_t len = described(d, nvme_template(step->template), step), data = d->len;

        if (keys == 0) {
                sgl_put_in_capsule(sgl, 0, len);
                memcpy(out, d->data, data);
                return data;
        }
        if (data > 0 && b->memory.at)
                put_in_memory(b, d->data, data);
        if (keys == 1) {
                *sgl = keyed(b, len, 0, 1);
                return 0;
        }
        *sgl =
            (struct sgl) { .len = le32(keys * (uint32_t)sizeof(*sgl)), .id = SGL_LAST_IN_CAPSULE };
        for (unsigned i = 0; i < keys; i++) {
                struct sgl one = keyed(b, len, i, keys);

                memcpy(out + i * sizeof(one), &one, sizeof(one));
        }
        return keys * (uint32_t)sizeof(*sgl);
}

static void only(struct rule_set *violated, const struct seq_step *step)
{
        *violated = (struct rule_set) { 0 };
        if (step->violates != RULE_NONE)
                rule_add(violated, step->violates);
}

static void work_command(struct draft *d, struct seq_bind *b, const struct seq_step *step,
                         struct bind_work *w, uint8_t *out)
{
        union sqe *sqe = &d->w.sqe;
        uint32_t area = (uint32_t)sizeof(*sqe) + b->format.icdoff * 16u, more;
        struct spoil_capsule sp = { .bytes = out, .room = BIND_ROOM, .format = &b->format };
        struct rule_set violated;

        fill_sqe(sqe, b, step);
        fill_auth_len(sqe, described(d, nvme_template(step->template), step));
        memset(out, 0, area);
        more = fill_capsule(d, b, step, out + area);
        sp.len = more > 0 ? area + more : (uint32_t)sizeof(*sqe);
        if (nvme_template(step->template)->data == SEQ_CONNECT &&
            d->len >= sizeof(struct connect_data))
                sp.connect_data = seq_bind_keys(step) == 0 ? out + area
                                  : b->memory.at ? b->memory.at + seq_bind_place(b->last_cid)
                                                 : NULL;
        memcpy(out, sqe, sizeof(*sqe));
        only(&violated, step);
        spoil_capsule(&violated, &sp);
        memcpy(sqe, out, sizeof(*sqe));
        d->w.len = le32(sp.len);
        seq_apply(step, &d->w);
        memcpy(out, sqe, sizeof(*sqe));
        w->len = le32_get(d->w.len);
        w->times = sp.twice ? 2 : 1;
        if (w->len > BIND_ROOM)
                w->len = BIND_ROOM;
        if (w->len > sp.len)
                memset(out + sp.len, 0, w->len - sp.len);
}

/* How a command that waits describes its data: by one key, as far as we look. */
static void data_of(const struct bind_cmd *c, struct rdma_data *data)
{
        *data = (struct rdma_data) { 0 };
        if (!c || !sgl_get_keyed(&c->sqe.sgl, &data->keyed[0]))
                return;
        data->count = data->keyed[0].len > 0;
        data->len = data->keyed[0].len;
        data->invalidate = data->keyed[0].invalidate;
        data->invalidate_key = data->keyed[0].key;
}

static void work_response(struct draft *d, struct seq_bind *b, const struct seq_step *step,
                          struct bind_work *w, uint8_t *out)
{
        struct rdma_data data;
        struct rule_set violated;
        struct cqe *cqe = &d->w.cqe;
        struct spoil_response sp = { .sqe = &d->sqe, .data = &data, .bytes = (uint8_t *)cqe };

        d->cmd = waiting(b, step);
        fill_response(cqe, d, b);
        data_of(d->cmd, &data);
        sp.len = sizeof(*cqe);
        sp.invalidate = data.invalidate;
        sp.key = data.invalidate_key;
        if (d->cmd) {
                d->sqe = d->cmd->sqe;
                only(&violated, step);
                spoil_completion(&violated, &d->sqe, cqe, NULL, 0);
                spoil_response(&violated, &sp);
        }
        d->w.len = le32(sp.len);
        d->w.key = le32(sp.key);
        d->w.invalidate = sp.invalidate;
        seq_apply(step, &d->w);
        w->len = le32_get(d->w.len) < SEQ_DATA_MAX ? le32_get(d->w.len) : SEQ_DATA_MAX;
        w->key = le32_get(d->w.key);
        w->invalidate = d->w.invalidate;
        w->times = !sp.drop;
        memset(out, 0, w->len);
        memcpy(out, cqe, w->len < sizeof(*cqe) ? w->len : sizeof(*cqe));
        if (d->cmd)
                drop_cmd(b, d->cmd);
}

/* --- RDMA: READs and WRITEs, private data ------------------------------------------------------- */

static void work_transfer(struct draft *d, struct seq_bind *b, const struct seq_step *step,
                          struct bind_work *w)
{
        struct rdma_data data;
        struct rule_set violated;
        struct spoil_transfer sp = { .last = true };

        d->cmd = waiting(b, step);
        data_of(d->cmd, &data);
        sp.op = w->type == SEQ_READ ? VERBS_READ : VERBS_WRITE;
        sp.addr = data.keyed[0].addr + (d->cmd ? d->cmd->moved : 0);
        sp.key = data.keyed[0].key;
        sp.len = all_of(d->cmd);
        if (d->cmd) {
                sp.sqe = &d->cmd->sqe;
                only(&violated, step);
                spoil_transfer(&violated, &sp);
        }
        d->w.transfer.addr = le64(sp.addr);
        d->w.transfer.rkey = le32(sp.key);
        d->w.transfer.bytes = le32(sp.len);
        seq_apply(step, &d->w);
        w->type = sp.op == VERBS_READ ? SEQ_READ : SEQ_WRITE;
        w->addr = le64_get(d->w.transfer.addr);
        w->key = le32_get(d->w.transfer.rkey);
        w->len = le32_get(d->w.transfer.bytes);
        w->times = !sp.drop;
        if (d->cmd)
                d->cmd->moved += w->len;
}

enum { HRQSIZE = 32, READS = 16 };

static uint8_t fill_private(struct draft *d, const struct seq_bind *b, uint8_t type)
{
        switch (type) {
        case SEQ_REQUEST:
                d->w.request.qid = le16(b->qid);
                d->w.request.hrqsize = le16(HRQSIZE);
                d->w.request.hsqsize = le16(HRQSIZE - 1);
                d->w.reads_in = READS;
                return sizeof(d->w.request);
        case SEQ_ACCEPT:
                d->w.accept.crqsize = le16((uint16_t)(b->hsqsize + 1));
                d->w.reads_out = READS;
                return sizeof(d->w.accept);
        default:
                d->w.reject.sts = le16(RDMA_REJECT_RESOURCES);
                return sizeof(d->w.reject);
        }
}

static void work_private(struct draft *d, struct seq_bind *b, const struct seq_step *step,
                         struct bind_work *w, uint8_t *out)
{
        struct rule_set violated;
        struct spoil_cm sp = { .message = w->type == SEQ_REQUEST  ? SPOIL_REQUEST
                                          : w->type == SEQ_ACCEPT ? SPOIL_ACCEPT
                                                                  : SPOIL_REJECT,
                               .data = &d->w };

        sp.len = fill_private(d, b, w->type);
        sp.reads_in = d->w.reads_in;
        sp.reads_out = d->w.reads_out;
        only(&violated, step);
        spoil_cm(&violated, &sp);
        d->w.private_len = sp.len;
        d->w.reads_in = sp.reads_in;
        d->w.reads_out = sp.reads_out;
        seq_apply(step, &d->w);
        w->len = d->w.private_len < VERBS_PRIVATE_MAX ? d->w.private_len : VERBS_PRIVATE_MAX;
        w->reads_in = d->w.reads_in;
        w->reads_out = d->w.reads_out;
        memset(out, 0, w->len);
        memcpy(out, &d->w,
               w->len < sizeof(struct rdma_request) ? w->len : sizeof(struct rdma_request));
        if (w->type == SEQ_REQUEST)
                b->qid = le16_get(d->w.request.qid);
}

struct bind_work seq_bind_work(struct seq_bind *b, const struct sequence *s,
                               const struct seq_step *step, uint8_t *out)
{
        struct bind_work w = { .type = b->side == PARTY_HOST ? PDU_CAPSULE_CMD : PDU_CAPSULE_RESP,
                               .times = 1 };
        struct draft d;

        if (step->kind == SEQ_RAW) {
                w.len = (uint32_t)put(out, 0, s->pool + step->bytes.at, step->bytes.len);
                return w;
        }
        w.type = step->template->type;
        d.w = (union seq_work) { 0 };
        d.cmd = NULL;
        if (w.type == PDU_CAPSULE_CMD) {
                fill_data(&d, b, nvme_template(step->template));
                own_data(&d, s, step);
                work_command(&d, b, step, &w, out);
        } else if (w.type == PDU_CAPSULE_RESP) {
                work_response(&d, b, step, &w, out);
        } else if (w.type == SEQ_READ || w.type == SEQ_WRITE) {
                work_transfer(&d, b, step, &w);
        } else {
                work_private(&d, b, step, &w, out);
        }
        return w;
}

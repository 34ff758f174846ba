/* SPDX-License-Identifier: BSD-3-Clause */
/* The sending words. */
#include <string.h>

#include "case_auth.h"
#include "pdu/nvme/machine/judge.h"
#include "pdu/nvme/wire/text.h"
#include "words.h"

/* --- changes to what comes next ------------------------------------------------------------ */

void mutate(struct queue *q, const char *field, uint64_t value)
{
        struct suite_conn *c = q->conn;

        if (c->changes == CONN_CHANGES)
                broke(q->t, "more than %d changes to one PDU", CONN_CHANGES);
        c->change[c->changes++] = (struct conn_change) { field, value };
        provoke(q);
}

/* --- commands ------------------------------------------------------------------------------ */

struct command *find_command(const struct queue *q, uint16_t cid)
{
        struct command *c = q->commands;

        while (c && c->cid != cid)
                c = c->next;
        return c;
}

struct command *command_of(struct queue *q, uint16_t cid)
{
        struct command *c = find_command(q, cid);

        if (!c)
                broke(q->t, "no command %u was sent on this queue", cid);
        return c;
}

static uint16_t next_cid(const struct queue *q)
{
        return q->commands ? (uint16_t)(q->commands->cid + 1) : 1;
}

static struct sgl sgl_for(enum nvme_xfer xfer, bool in_capsule, uint32_t len)
{
        if (xfer == XFER_NONE)
                return (struct sgl) { .id = SGL_TRANSPORT };
        return (struct sgl) { .len = le32(len), .id = in_capsule ? SGL_IN_CAPSULE : SGL_TRANSPORT };
}

/* The data in the capsule or remembered for R2Ts. */
static void tcp_submit(struct queue *q, struct command *c, const struct transfer *x)
{
        union pdu h = { .cmd = { .ch = { .type = PDU_CAPSULE_CMD }, .sqe = c->sqe } };
        bool in_capsule = x->in_capsule && c->xfer == XFER_H2C;

        if (x->hand)
                broke(q->t, "an SGL by hand in a case that runs over TCP");
        tcp_send(q, &h, in_capsule ? c->data : NULL, in_capsule ? x->bytes : 0);
}

/* Many a command returns as much as there is, and its buffer may be longer. */
static uint32_t least_of(const struct queue *q, const union sqe *sqe, uint32_t bytes)
{
        uint32_t least = q->conn->admin ? admin_delivers(sqe) : sqe->opc == NVME_READ ? bytes : 0;

        return least < bytes ? least : bytes;
}

static uint16_t submit(struct queue *q, union sqe sqe, struct transfer x)
{
        struct command *c = t_alloc(q->t, sizeof(*c));
        enum nvme_xfer xfer = x.bytes > 0 || x.sgl_len > 0 ? sqe_xfer(&sqe) : XFER_NONE;
        uint32_t described = x.sgl_len >= 0 ? (uint32_t)x.sgl_len : x.bytes;

        sqe.sgl = xfer == XFER_NONE && sqe.opc == NVME_FABRICS && sqe.fctype != FCTYPE_CONNECT
                      ? sqe.sgl
                      : sgl_for(xfer, x.in_capsule, described);
        *c = (struct command) {
                .next = q->commands,
                .cid = le16_get(sqe.cid),
                .sqe = sqe,
                .xfer = xfer,
                .bytes = described > x.bytes ? described : x.bytes,
                .least = x.sgl_len < 0 ? least_of(q, &sqe, x.bytes) : 0,
                .data = x.data ? x.data : pattern(q->t, x.bytes),
        };
        q->commands = c;
        if (t_is_rdma(q->t))
                rdma_submit(q, c, &x);
        else
                tcp_submit(q, c, &x);
        return c->cid;
}

/* Blocks with metadata between them, of which nothing is said. */
static void add_metadata(struct queue *q, struct cmd *c)
{
        uint32_t block = caps(q->t)->block, unit = block + caps(q->t)->ms, n = c->bytes / block;
        const uint8_t *from = c->data ? c->data : pattern(q->t, c->bytes);
        uint8_t *to = t_alloc(q->t, (size_t)n * unit);

        for (uint32_t i = 0; i < n; i++)
                memcpy(to + (size_t)i * unit, from + (size_t)i * block, block);
        c->data = to;
        c->bytes = n * unit;
        c->in_capsule &= c->bytes <= caps(q->t)->in_capsule;
}

/* Where metadata is protection information and nothing else, cases need not know of it: the controller
 * makes it and takes it off. In type 1 reference tags begin with SLBA. */
static void protect(struct queue *q, struct cmd *c)
{
        bool made = c->opc == NVME_READ || c->opc == NVME_WRITE || c->opc == NVME_WRITE_ZEROES;
        bool tagged = made || c->opc == NVME_COMPARE || c->opc == NVME_VERIFY;

        if (!caps(q->t)->made || c->as_is || q->qid == 0 || c->nsid != caps(q->t)->nsid || !tagged)
                return;
        if (made)
                c->cdw12 |= RW_PRACT;
        c->cdw14 = c->cdw10;
        if (c->opc == NVME_COMPARE)
                add_metadata(q, c);
}

/* More data than MDTS allows is refused, whatever else is right or wrong about the command (5.1.13.2.1). */
static void require_mdts(const struct queue *q, const struct cmd *c)
{
        enum { TO_OR_FROM_HOST = 3 }; /* of an opcode */
        uint32_t mdts = caps(q->t)->mdts;
        bool limited = c->opc != NVME_FABRICS && c->opc & TO_OR_FROM_HOST &&
                       strcmp(q->subnqn, peer(q->t)->subnqn) == 0;

        require(q->t, !limited || c->any_size || mdts == 0 || c->bytes <= mdts,
                "MDTS allows %u bytes, and this case needs %u", mdts, c->bytes);
}

uint16_t queue_cmd(struct queue *q, struct cmd c)
{
        protect(q, &c);
        require_mdts(q, &c);

        union sqe s = {
                .opc = c.opc,
                .flags = c.flags,
                .cid = le16(c.cid >= 0 ? (uint16_t)c.cid : next_cid(q)),
                .nsid = le32(c.nsid),
                .cdw2 = le32(c.cdw2),
                .cdw3 = le32(c.cdw3),
                .cdw10 = le32(c.cdw10),
                .cdw11 = le32(c.cdw11),
                .cdw12 = le32(c.cdw12),
                .cdw13 = le32(c.cdw13),
                .cdw14 = le32(c.cdw14),
                .cdw15 = le32(c.cdw15),
        };

        if (c.opc == NVME_FABRICS)
                s.fctype = c.fctype;
        return submit(q, s,
                      (struct transfer) {
                          .data = c.data,
                          .bytes = c.bytes,
                          .in_capsule = c.in_capsule,
                          .sgl_len = c.sgl_len,
                          .hand = c.sgl,
                      });
}

static uint32_t whole_blocks(struct t *t, uint32_t bytes)
{
        uint32_t block = caps(t)->block;

        require(t, caps(t)->nsid, "the subsystem has no namespace to read or write");
        if (bytes == 0)
                return 1;
        require(t, bytes % block == 0, "blocks of %u bytes", block);
        return bytes / block;
}

struct command block_read(struct queue *q)
{
        uint64_t slba = world(q->t)->slba;
        uint16_t cid = next_cid(q);

        require(q->t, caps(q->t)->nsid, "the subsystem has no namespace to read");
        return (struct command) {
                .next = q->commands,
                .cid = cid,
                .sqe = { .opc = NVME_READ,
                         .flags = SQE_PSDT_SGL,
                         .cid = le16(cid),
                         .nsid = le32(caps(q->t)->nsid),
                         .cdw10 = le32((uint32_t)slba),
                         .cdw11 = le32((uint32_t)(slba >> 32)),
                         .cdw12 = le32(caps(q->t)->made ? RW_PRACT : 0),
                         .cdw14 = le32((uint32_t)slba) },
                .xfer = XFER_C2H,
                .bytes = caps(q->t)->block,
                .least = caps(q->t)->block,
        };
}

uint16_t queue_blocks(struct queue *q, uint8_t opc, struct blocks b)
{
        struct t *t = q->t;
        uint32_t n = whole_blocks(t, b.bytes);
        uint64_t slba = world(t)->slba + b.slba;

        require(t, b.slba >= caps(t)->blocks || slba + n <= caps(t)->blocks,
                "the namespace is too small: %u blocks", n);
        if ((opc == NVME_WRITE || opc == NVME_WRITE_ZEROES) &&
            (!t->test->writes || b.slba + n > world(t)->blocks))
                broke(t, "the case may not write there");
        require(t, opc == NVME_READ || opc == NVME_COMPARE || !caps(t)->read_only,
                "the namespace is write protected (NSATTR)");
        return queue_cmd(q, (struct cmd) {
                                .opc = opc,
                                .flags = (uint8_t)(SQE_PSDT_SGL | b.fuse),
                                .cid = -1,
                                .nsid = b.nsid ? b.nsid : caps(t)->nsid,
                                .cdw10 = (uint32_t)slba,
                                .cdw11 = (uint32_t)(slba >> 32),
                                .cdw12 = (n - 1) | b.cdw12,
                                .bytes = n * caps(t)->block,
                                .data = b.data,
                                .in_capsule = b.in_capsule,
                                .sgl_len = b.sgl_len,
                                .sgl = b.sgl,
                                .as_is = b.sgl != NULL && opc == NVME_COMPARE,
                                .any_size = b.any_size,
                            });
}

/* --- Fabrics commands ---------------------------------------------------------------------- */

static bool joined(const struct queue *q)
{
        return q->admin && q->admin != q;
}

static uint16_t cntlid_of(const struct queue *q)
{
        if (joined(q))
                return q->admin->cntlid;
        return caps(q->t)->fixed ? CNTLID_STATIC : CNTLID_DYNAMIC;
}

struct connect_data connect_data(struct queue *q)
{
        struct connect_data d = { .cntlid = le16(cntlid_of(q)) };

        char hostnqn[NQN_FIELD];

        case_identity(q->t, q->host, d.hostid, hostnqn);
        text_fill(d.hostnqn, sizeof(d.hostnqn), hostnqn);
        text_fill(d.subnqn, sizeof(d.subnqn), joined(q) ? q->admin->subnqn : peer(q->t)->subnqn);
        return d;
}

static struct connect_data data_of(struct queue *q, const struct connect *c)
{
        struct connect_data d = c->data ? *c->data : connect_data(q);

        if (c->data)
                return d;
        if (c->subnqn && !joined(q) && strcmp(c->subnqn, peer(q->t)->subnqn) != 0)
                d.cntlid = le16(CNTLID_DYNAMIC); /* whatever the model of the tested one is */
        if (c->cntlid != AS_FITS)
                d.cntlid = le16((uint16_t)c->cntlid);
        if (c->hostid)
                memcpy(d.hostid, c->hostid, sizeof(d.hostid));
        if (c->hostnqn)
                text_fill(d.hostnqn, sizeof(d.hostnqn), c->hostnqn);
        if (c->subnqn)
                text_fill(d.subnqn, sizeof(d.subnqn), c->subnqn);
        return d;
}

uint16_t fitting_sqsize(struct t *t, uint16_t qid, uint16_t sqsize)
{
        uint16_t mqes = CAP_MQES(caps(t)->cap);

        return qid > 0 && mqes > 0 && sqsize > mqes ? mqes : sqsize;
}

/* A discovery controller without persistent connections has to refuse any KATO but 0 (3.1.3.3.3). */
static uint32_t kato_of(const struct queue *q, uint32_t kato, const struct connect_data *d)
{
        static const char nqn[] = NQN_DISCOVERY;

        if (q->qid > 0)
                return 0;
        return kato == KATO_USUAL && !caps(q->t)->persistent &&
                       memcmp(d->subnqn, nqn, sizeof(nqn)) == 0
                   ? 0
                   : kato;
}

uint16_t queue_connect(struct queue *q, struct connect c)
{
        uint16_t qid = c.qid == AS_FITS ? joined(q) : (uint16_t)c.qid;
        uint16_t sqsize = c.sqsize == AS_FITS ? fitting_sqsize(q->t, qid, 31) : (uint16_t)c.sqsize;
        union sqe s = { .connect = {
                            .opc = NVME_FABRICS,
                            .flags = SQE_PSDT_SGL,
                            .cid = le16(next_cid(q)),
                            .fctype = FCTYPE_CONNECT,
                            .recfmt = le16(c.recfmt),
                            .qid = le16(qid),
                            .sqsize = le16(sqsize),
                            .cattr = c.cattr,
                            .nvmsetid = le16(c.nvmsetid),
                        } };
        struct connect_data d = data_of(q, &c);
        uint8_t *data = t_alloc(q->t, c.bytes + sizeof(d));

        memcpy(data, &d, sizeof(d));
        q->conn->admin = qid == 0;
        q->qid = qid;
        q->sqsize = sqsize;
        s.connect.kato = le32(kato_of(q, c.kato, &d));
        memcpy(q->subnqn, d.subnqn, sizeof(d.subnqn));
        return submit(q, s,
                      (struct transfer) {
                          .data = data,
                          .bytes = c.bytes,
                          .in_capsule = is_rdma(q) ? c.in_capsule : !c.through_r2t,
                          .sgl_len = c.sgl_len,
                          .hand = c.sgl,
                      });
}

/* Over RDMA capsules of Fabrics commands are an SQE and nothing more (R1.0 3.3). */
static uint32_t capsule_room(const struct queue *q)
{
        if (is_rdma(q))
                return 0;
        return q->qid == 0 ? PDU_ADMIN_IN_CAPSULE : caps(q->t)->in_capsule;
}

static uint16_t send_auth(struct queue *q, uint8_t fctype, const void *data, uint32_t bytes,
                          uint8_t secp)
{
        union sqe s = { .auth = {
                            .opc = NVME_FABRICS,
                            .flags = SQE_PSDT_SGL,
                            .cid = le16(next_cid(q)),
                            .fctype = fctype,
                            .spsp0 = AUTH_SPSP,
                            .spsp1 = AUTH_SPSP,
                            .secp = secp,
                            .len = le32(bytes),
                        } };

        return submit(q, s,
                      (struct transfer) {
                          .data = data,
                          .bytes = bytes,
                          .in_capsule = fctype == FCTYPE_AUTH_SEND && bytes <= capsule_room(q),
                          .sgl_len = -1,
                      });
}

uint16_t send_auth_send(struct queue *q, const void *data, uint32_t bytes, uint8_t secp)
{
        return send_auth(q, FCTYPE_AUTH_SEND, data, bytes, secp);
}

uint16_t send_auth_receive(struct queue *q, uint32_t bytes)
{
        return send_auth(q, FCTYPE_AUTH_RECEIVE, NULL, bytes, AUTH_SECP);
}

static uint16_t send_property(struct queue *q, uint8_t fctype, uint32_t ofst, unsigned attrib,
                              uint64_t value)
{
        union sqe s = { .property = {
                            .opc = NVME_FABRICS,
                            .flags = SQE_PSDT_SGL,
                            .cid = le16(next_cid(q)),
                            .fctype = fctype,
                            .attrib = (uint8_t)attrib,
                            .ofst = le32(ofst),
                            .value = le64(value),
                        } };

        return submit(q, s, (struct transfer) { .sgl_len = -1 });
}

uint16_t send_property_get(struct queue *q, uint32_t ofst, unsigned attrib)
{
        return send_property(q, FCTYPE_PROPERTY_GET, ofst, attrib, 0);
}

uint16_t send_property_set(struct queue *q, uint32_t ofst, unsigned attrib, uint64_t value)
{
        return send_property(q, FCTYPE_PROPERTY_SET, ofst, attrib, value);
}

uint16_t send_disconnect(struct queue *q, uint16_t recfmt)
{
        union sqe s = { .disconnect = {
                            .opc = NVME_FABRICS,
                            .flags = SQE_PSDT_SGL,
                            .cid = le16(next_cid(q)),
                            .fctype = FCTYPE_DISCONNECT,
                            .recfmt = le16(recfmt),
                        } };

        return submit(q, s, (struct transfer) { .sgl_len = -1 });
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The controller's RDMA machine against a host and a device that do whatever the input says: capsules
 * of any kind, completions in order but late, failing, or flushed; an owner that defers, aborts, and
 * has no buffers. At the end everything has come back.
 *
 * Input: configuration (8 bytes), then steps: what (1), its numbers.
 */
#include <stdlib.h>

#include "fuzz/fuzz.h"
#include "pdu/machine/rdma_controller.h"
#include "pdu/wire/fabrics.h"

enum { POSTED = 64, BUFFER = 8192, BUFFERS = 8, PARKED = 64, SEND_WRS = 24, KEY = 7 };
enum { CFG_ADMIN = 1, CFG_WAIVED = 2, CFG_INLINE = 4, CFG_VIOLATES = 8 };

struct rig {
        struct bytes in;
        struct rdma_controller *c;
        struct rdma_format format;
        struct rule_policy policy;
        struct verbs_wr *posted[POSTED];
        unsigned first, n, capacity;
        struct request *parked[PARKED];
        unsigned n_parked;
        uint8_t *buffers[BUFFERS];
        unsigned lent, lendable; /* buffers */
        unsigned receives, responses;
        bool defers, over;
};

/* --- the owner ---------------------------------------------------------------------------------- */

static uint16_t admit(void *user, struct request *r)
{
        (void)user;
        if (r->sqe.opc == 0xfe)
                return NVME_INVALID_OPCODE | STATUS_DNR;
        r->xfer = sqe_xfer(&r->sqe);
        r->len = r->xfer == XFER_NONE ? 0 : le32_get(r->sqe.cdw12) % (2 * BUFFER) + 1;
        return 0;
}

static void finish(struct rig *rig, struct request *r)
{
        uint32_t digest = FUZZ_DIGEST_START;

        if (r->xfer == XFER_H2C)
                fuzz_digest(&digest, r->data, r->len); /* it can be read */
        r->c2h_len = r->xfer == XFER_C2H ? r->len - le32_get(r->sqe.cdw13) % r->len : 0;
        r->no_response = r->sqe.opc == 0xfd;
        r->cqe.sf = status_field(r->sqe.opc == 0xfc ? NVME_DATA_TRANSFER_ERROR : NVME_SUCCESS);
        rdma_controller_complete(rig->c, r);
}

static void execute(void *user, struct request *r)
{
        struct rig *rig = user;

        if (r->xfer == XFER_C2H)
                memset(r->data, 0x5c, r->len);
        if (r->in_place || !rig->defers || rig->n_parked == PARKED)
                finish(rig, r);
        else
                rig->parked[rig->n_parked++] = r;
}

static uint8_t *buffer_get(void *user, uint32_t len, uint32_t *lkey)
{
        struct rig *rig = user;
        uint8_t *buf = rig->lent < rig->lendable ? malloc(len) : NULL;

        rig->lent += buf != NULL;
        *lkey = KEY;
        return buf;
}

static void buffer_put(void *user, uint8_t *buf, uint32_t len)
{
        struct rig *rig = user;

        memset(buf, 0xee, len);
        rig->lent--;
        free(buf);
}

static void recv_put(void *user, struct rdma_recv *rx)
{
        struct rig *rig = user;

        rig->receives--;
        free(rx->wr.sge[0].addr);
        free(rx);
}

static void *response_memory(void *user, uint32_t bytes, uint32_t *lkey)
{
        struct rig *rig = user;
        void *p = malloc(bytes);

        *lkey = KEY;
        rig->responses += p != NULL;
        return p;
}

static void response_memory_put(void *user, void *memory, uint32_t bytes)
{
        struct rig *rig = user;

        memset(memory, 0xee, bytes);
        rig->responses--;
        free(memory);
}

static const struct rdma_controller_ops ops = {
        .request = { .admit = admit,
                     .execute = execute,
                     .buffer_get = buffer_get,
                     .buffer_put = buffer_put },
        .recv_put = recv_put,
        .response_memory = response_memory,
        .response_memory_put = response_memory_put,
};

/* --- the device --------------------------------------------------------------------------------- */

static void carry_out(const struct verbs_wr *wr)
{
        must(wr->op == VERBS_SEND || wr->op == VERBS_SEND_INVALIDATE || wr->op == VERBS_READ ||
             wr->op == VERBS_WRITE);
        must(wr->n_sge <= VERBS_SGES);
        for (unsigned i = 0; i < wr->n_sge; i++) {
                const struct verbs_sge *s = &wr->sge[i];
                uint32_t digest = FUZZ_DIGEST_START;

                must((wr->flags & VERBS_INLINE) || s->lkey == KEY);
                if (wr->op == VERBS_READ)
                        memset(s->addr, 0xa5, s->len);
                else
                        fuzz_digest(&digest, s->addr, s->len);
        }
}

static void post(struct rig *rig)
{
        for (struct verbs_wr *wr = rdma_controller_take(rig->c); wr; wr = wr->next) {
                must(rig->n < rig->capacity);
                rig->posted[(rig->first + rig->n++) % POSTED] = wr;
        }
        rig->over |= is_fault(rdma_controller_fault(rig->c));
}

static void complete_one(struct rig *rig, enum verbs_status status)
{
        struct verbs_wc wc = { .status = status };

        if (rig->n == 0)
                return;
        wc.wr = rig->posted[rig->first];
        rig->first = (rig->first + 1) % POSTED;
        rig->n--;
        if (status == VERBS_SUCCESS) {
                carry_out(wc.wr);
                if (!(wc.wr->flags & VERBS_SIGNALED))
                        return;
        }
        if (rdma_controller_completed(rig->c, &wc))
                rig->over = true;
        else
                must(status == VERBS_SUCCESS || status == VERBS_FLUSHED);
}

/* --- the host ----------------------------------------------------------------------------------- */

/* A command of few words: what a fuzzer reaches by itself. */
static void short_command(struct rig *rig, union sqe *sqe)
{
        static const uint8_t opcodes[] = { NVME_WRITE, NVME_READ, NVME_FLUSH, NVME_FABRICS,
                                           0xfe,       0xfd,      0xfc,       0xc1 };
        static const uint8_t sgls[] = { SGL_KEYED, SGL_KEYED_INVALIDATE, SGL_IN_CAPSULE,
                                        SGL_LAST_IN_CAPSULE };
        unsigned kind = bytes_u8(&rig->in);

        *sqe = (union sqe) { .opc = opcodes[kind % 8], .flags = SQE_PSDT_SGL };
        sqe->cid = le16(bytes_u8(&rig->in) % 32);
        sqe->cdw12 = le32(bytes_u16(&rig->in));
        sqe->sgl.len = le32(le32_get(sqe->cdw12) + 1 + (kind & 0x40 ? 4 : 0));
        sqe->sgl.id = sgls[kind >> 3 & 3];
        if (kind & 0x20)
                sqe->fctype = FCTYPE_CONNECT;
}

static void capsule(struct rig *rig)
{
        unsigned how = bytes_u8(&rig->in);
        uint32_t max = rdma_capsule_max(&rig->format),
                 len = sizeof(union sqe) + bytes_u16(&rig->in);
        struct rdma_recv *rx = calloc(1, sizeof(*rx));
        union sqe sqe;
        uint8_t *p;

        len = len < max + 64 ? len : max + 64;
        if (how & 2)
                len = bytes_u8(&rig->in) % sizeof(union sqe);
        if (how & 1)
                bytes_copy(&rig->in, &sqe, sizeof(sqe));
        else
                short_command(rig, &sqe);
        p = malloc(len + 1); /* one more, as malloc(0) may be NULL */
        if (!rx || !p) {
                free(rx);
                free(p);
                return;
        }
        memset(p, 0x11, len);
        memcpy(p, &sqe, len < sizeof(sqe) ? len : sizeof(sqe));
        if (len > sizeof(sqe))
                bytes_copy(&rig->in, p + sizeof(sqe),
                           len - sizeof(sqe) < 48 ? len - sizeof(sqe) : 48);
        rx->wr = (struct verbs_wr) { .op = VERBS_RECV, .n_sge = 1, .sge = { { p, len, KEY } } };
        rx->bytes = len;
        rig->receives++;
        if (rdma_controller_received(rig->c, rx)) {
                must(is_fault(rdma_controller_fault(rig->c)));
                rig->over = true;
        }
}

/* --- steps -------------------------------------------------------------------------------------- */

static void unpark(struct rig *rig, unsigned which)
{
        struct request *r;

        if (rig->n_parked == 0)
                return;
        r = rig->parked[which %= rig->n_parked];
        rig->parked[which] = rig->parked[--rig->n_parked];
        finish(rig, r);
}

static void abort_one(struct rig *rig, uint16_t cid)
{
        struct request *r = rdma_controller_request(rig->c, cid);

        if (!r)
                return;
        for (unsigned i = 0; i < rig->n_parked; i++)
                if (rig->parked[i] == r) {
                        unpark(rig, i);
                        return;
                }
        r->cqe.sf = status_field(NVME_ABORT_REQUESTED);
        rdma_controller_complete(rig->c, r);
}

static void step(struct rig *rig)
{
        unsigned what = bytes_u8(&rig->in);

        switch (what % 12) {
        case 0:
        case 1:
        case 2:
                capsule(rig);
                break;
        case 3:
                post(rig);
                break;
        case 4:
        case 5:
                complete_one(rig, VERBS_SUCCESS);
                break;
        case 6:
                complete_one(rig, bytes_u8(&rig->in) % VERBS_STATUSES);
                break;
        case 7:
                unpark(rig, what / 12);
                break;
        case 8:
                rig->lendable = bytes_u8(&rig->in) % BUFFERS;
                rdma_controller_buffers(rig->c);
                break;
        case 9:
                abort_one(rig, (uint16_t)(what / 12));
                break;
        case 10:
                (void)rdma_controller_set_depth(rig->c, bytes_u8(&rig->in) % 64 + 1);
                break;
        default:
                rig->defers = !rig->defers;
                fuzz_scarce(what / 12 % 2 ? what / 24 : 0);
                break;
        }
}

static void end(struct rig *rig)
{
        fuzz_scarce(0);
        while (rig->n > 0)
                complete_one(rig, VERBS_FLUSHED);
        rdma_controller_end(rig->c);
        while (rig->n_parked > 0)
                unpark(rig, 0);
        must(rdma_controller_executing(rig->c) == 0);
        rdma_controller_free(rig->c);
        must(rig->lent == 0 && rig->receives == 0 && rig->responses == 0);
}

static bool begin(struct rig *rig)
{
        unsigned bits = bytes_u8(&rig->in);
        struct rdma_controller_config cfg = { .send_wrs = SEND_WRS, .max_transfer = 2 * BUFFER };

        rig->format = (struct rdma_format) { .admin = bits & CFG_ADMIN };
        rig->format.icdoff = bytes_u8(&rig->in) % 4;
        rig->format.in_capsule = bits & CFG_ADMIN ? 0 : bytes_u8(&rig->in) * 64u;
        rig->format.msdbd = bytes_u8(&rig->in) % (RDMA_DESCRIPTORS + 1);
        cfg.format = rig->format;
        cfg.reads = bytes_u8(&rig->in) % 5;
        cfg.inline_bytes = bits & CFG_INLINE ? 16 : 0;
        cfg.depth = (uint16_t)(bytes_u8(&rig->in) % 32 + 1);
        rig->lendable = bytes_u8(&rig->in) % BUFFERS;
        rig->capacity = SEND_WRS;
        if (bits & CFG_WAIVED)
                rig->policy.waived = *fuzz_all_rules();
        if (bits & CFG_VIOLATES)
                rule_add(&rig->policy.violated, 1 + bytes_u8(&rig->in) % (RULES - 1));
        cfg.policy = &rig->policy;
        rig->c = rdma_controller_new(&cfg, &ops, rig);
        return rig->c != NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
        struct rig rig = { .in = bytes_of(input, size) };

        if (!begin(&rig))
                return 0;
        while (rig.in.left > 0 && !rig.over)
                step(&rig);
        end(&rig);
        return 0;
}

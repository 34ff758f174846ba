/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The host's RDMA machine against a controller and a device that do whatever the input says. However
 * it ends, each command is called back once, and the memory has come back.
 *
 * Input: configuration (6 bytes), then steps: what (1), its numbers.
 */
#include <stdlib.h>

#include "fuzz/fuzz.h"
#include "pdu/machine/rdma_host.h"
#include "pdu/wire/fabrics.h"

enum { DEPTH = 8, DATA = 4096, POSTED = 64, KEY = 7, COMMAND_KEY = 0x99 };
enum { CFG_INLINE = 1, CFG_WAIVED = 2, CFG_VIOLATES = 4, CFG_UNREGISTERED = 8 };

struct ring { /* work requests that are the device's */
        struct verbs_wr *wr[POSTED];
        unsigned first, n;
};

struct rig {
        struct bytes in;
        struct rdma_host *h;
        struct rule_policy policy;
        struct ring sends, recvs;
        struct host_cmd cmd[DEPTH];
        bool busy[DEPTH];
        uint16_t cid[DEPTH]; /* of capsules that went out */
        unsigned cids, memories;
        uint8_t *data;
        bool unregistered, over;
};

/* --- the owner ---------------------------------------------------------------------------------- */

static void *memory(void *user, size_t bytes, uint32_t *lkey)
{
        struct rig *rig = user;
        void *p = malloc(bytes);

        *lkey = KEY;
        rig->memories += p != NULL;
        return p;
}

static void memory_put(void *user, void *p, size_t bytes)
{
        struct rig *rig = user;

        memset(p, 0xee, bytes);
        rig->memories--;
        free(p);
}

static bool data_keys(void *user, const void *data, uint32_t len, uint32_t *lkey, uint32_t *rkey)
{
        struct rig *rig = user;

        must((const uint8_t *)data >= rig->data && len <= DATA);
        *lkey = KEY;
        *rkey = COMMAND_KEY;
        return !rig->unregistered;
}

static void done(struct host_cmd *cmd, void *user)
{
        struct rig *rig = user;

        must(rig->busy[cmd - rig->cmd]);
        rig->busy[cmd - rig->cmd] = false;
}

static void submit(struct rig *rig)
{
        static const uint8_t opcodes[] = { NVME_WRITE, NVME_READ, NVME_FLUSH, NVME_FABRICS };
        unsigned i = 0, kind = bytes_u8(&rig->in);
        struct host_cmd *cmd;

        while (i < DEPTH && rig->busy[i])
                i++;
        if (i == DEPTH)
                return;
        cmd = &rig->cmd[i];
        *cmd = (struct host_cmd) { .done = done, .user = rig, .command_buffer = kind & 0x10 };
        cmd->sqe.opc = opcodes[kind % 4];
        cmd->sqe.fctype = FCTYPE_CONNECT;
        cmd->xfer = sqe_xfer(&cmd->sqe);
        if (cmd->xfer != XFER_NONE) {
                cmd->data = rig->data + i * (size_t)DATA;
                cmd->len = bytes_u16(&rig->in) % (DATA + 1);
        }
        if (cmd->sqe.opc == NVME_FABRICS)
                cmd->len = CONNECT_DATA_LEN;
        rig->busy[i] = true;
        if (rdma_host_submit(rig->h, cmd) != 0)
                rig->busy[i] = false;
}

/* --- the device --------------------------------------------------------------------------------- */

static void ring_add(struct ring *r, struct verbs_wr *chain)
{
        for (; chain; chain = chain->next) {
                must(r->n < POSTED);
                r->wr[(r->first + r->n++) % POSTED] = chain;
        }
}

static struct verbs_wr *ring_take(struct ring *r)
{
        struct verbs_wr *wr = r->wr[r->first];

        r->first = (r->first + 1) % POSTED;
        r->n--;
        return wr;
}

static void post(struct rig *rig)
{
        ring_add(&rig->recvs, rdma_host_take_recvs(rig->h));
        ring_add(&rig->sends, rdma_host_take(rig->h));
}

static void note_capsule(struct rig *rig, const struct verbs_wr *wr)
{
        union sqe sqe;
        uint32_t digest = FUZZ_DIGEST_START;

        for (unsigned i = 0; i < wr->n_sge; i++) {
                must((wr->flags & VERBS_INLINE) || wr->sge[i].lkey == KEY);
                fuzz_digest(&digest, wr->sge[i].addr, wr->sge[i].len);
        }
        if (wr->n_sge == 0 || wr->sge[0].len < sizeof(sqe))
                return;
        memcpy(&sqe, wr->sge[0].addr, sizeof(sqe));
        rig->cid[rig->cids++ % DEPTH] = le16_get(sqe.cid);
}

static void completes(struct rig *rig, const struct verbs_wc *wc)
{
        bool fails = wc->status != VERBS_SUCCESS && wc->status != VERBS_FLUSHED;

        if (rdma_host_completed(rig->h, wc))
                rig->over = true;
        else
                must(!fails);
}

static void complete_send(struct rig *rig, enum verbs_status status)
{
        struct verbs_wc wc = { .status = status };

        if (rig->sends.n == 0)
                return;
        wc.wr = ring_take(&rig->sends);
        if (status == VERBS_SUCCESS) {
                note_capsule(rig, wc.wr);
                if (!(wc.wr->flags & VERBS_SIGNALED))
                        return;
        }
        completes(rig, &wc);
}

/* --- the controller ----------------------------------------------------------------------------- */

static void respond(struct rig *rig, unsigned how)
{
        struct verbs_wc wc = { .status = VERBS_SUCCESS, .bytes = sizeof(struct cqe) };
        struct cqe cqe = { .dw0 = le32(1) };
        uint8_t bytes[256];

        if (rig->recvs.n == 0)
                return;
        wc.wr = ring_take(&rig->recvs);
        if (how & 1)
                bytes_copy(&rig->in, &cqe, sizeof(cqe));
        else
                cqe.cid = le16(rig->cid[bytes_u8(&rig->in) % DEPTH]);
        if (how & 2)
                wc.bytes = bytes_u8(&rig->in);
        if (how & 4) {
                wc.invalidated = true;
                wc.invalid_key = how & 8 ? COMMAND_KEY : bytes_u8(&rig->in);
        }
        if (wc.bytes > wc.wr->sge[0].len)
                wc.bytes = wc.wr->sge[0].len;
        memset(bytes, 0x33, sizeof(bytes));
        memcpy(bytes, &cqe, sizeof(cqe));
        memcpy(wc.wr->sge[0].addr, bytes, wc.bytes);
        completes(rig, &wc);
}

static void fail_recv(struct rig *rig, enum verbs_status status)
{
        struct verbs_wc wc = { .status = status };

        if (rig->recvs.n == 0 || status == VERBS_SUCCESS)
                return;
        wc.wr = ring_take(&rig->recvs);
        completes(rig, &wc);
}

/* --- steps -------------------------------------------------------------------------------------- */

static void step(struct rig *rig)
{
        unsigned what = bytes_u8(&rig->in);

        switch (what % 10) {
        case 0:
        case 1:
                submit(rig);
                break;
        case 2:
        case 3:
                post(rig);
                break;
        case 4:
                complete_send(rig, VERBS_SUCCESS);
                break;
        case 5:
                complete_send(rig, bytes_u8(&rig->in) % VERBS_STATUSES);
                break;
        case 6:
        case 7:
                respond(rig, what / 10);
                break;
        case 8:
                fail_recv(rig, bytes_u8(&rig->in) % VERBS_STATUSES);
                break;
        default:
                if (what / 10 % 2)
                        rdma_host_set_in_capsule(rig->h, bytes_u16(&rig->in) % 4096,
                                                 (uint16_t)(what / 20));
                else
                        rig->unregistered = !rig->unregistered;
                break;
        }
}

static void end(struct rig *rig)
{
        while (rig->sends.n > 0)
                complete_send(rig, VERBS_FLUSHED);
        while (rig->recvs.n > 0)
                fail_recv(rig, VERBS_FLUSHED);
        rdma_host_fail_all(rig->h, NVME_TRANSIENT_TRANSPORT);
        must(rdma_host_outstanding(rig->h) == 0);
        for (unsigned i = 0; i < DEPTH; i++)
                must(!rig->busy[i]);
        rdma_host_free(rig->h);
        must(rig->memories == 0);
}

static bool begin(struct rig *rig)
{
        static const struct rdma_host_ops ops = { memory, memory_put, data_keys };
        unsigned bits = bytes_u8(&rig->in);
        struct rdma_host_config cfg = { .depth = DEPTH, .policy = &rig->policy };

        cfg.qid = bytes_u8(&rig->in) & 1;
        cfg.icdoff = bytes_u8(&rig->in) % 4;
        cfg.in_capsule = bytes_u8(&rig->in) * 64u;
        cfg.capsule_max = 64u + cfg.icdoff * 16u + cfg.in_capsule + 1024u;
        cfg.msdbd = bytes_u8(&rig->in) % 17;
        cfg.inline_bytes = bits & CFG_INLINE ? 64 : 0;
        if (bits & CFG_WAIVED)
                rig->policy.waived = *fuzz_all_rules();
        if (bits & CFG_VIOLATES)
                rule_add(&rig->policy.violated, 1 + bytes_u8(&rig->in) % (RULES - 1));
        fuzz_scarce(bytes_u8(&rig->in) % 16);
        rig->h = rdma_host_new(&cfg, &ops, rig);
        fuzz_scarce(0);
        must(rig->h || rig->memories == 0);
        return rig->h != NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
        static uint8_t data[DEPTH * DATA];
        struct rig rig = { .in = bytes_of(input, size), .data = data };

        if (!begin(&rig))
                return 0;
        while (rig.in.left > 0 && !rig.over)
                step(&rig);
        end(&rig);
        return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The life of a queue pair under events in any order. States only increase, each action is asked for
 * once and in its order, nothing is released before it is drained and idle, and who is told to give
 * up comes to the end.
 *
 * Input: bits (1 byte); then events, a byte each.
 */
#include "pdu/verbs/rdma_life.h"
#include "fuzz/fuzz.h"

enum { BIT_QP = 1, BUSY = LIFE_EVENTS, FLUSHED };

struct rig {
        struct rdma_life l;
        struct verbs_wr *sent[2]; /* sentinels that are out */
        unsigned given;           /* actions so far */
};

static void flushed(struct rig *rig, unsigned i)
{
        struct verbs_wr other = { 0 };

        must(!life_sentinel_flushed(&rig->l, &other));
        if (rig->sent[i])
                must(life_sentinel_flushed(&rig->l, rig->sent[i]));
        rig->sent[i] = NULL;
}

static void acts(struct rig *rig, unsigned actions)
{
        must(!(rig->given & actions));
        must(!(rig->given & LIFE_DO_RELEASE) || actions == 0);
        rig->given |= actions;
        must(!(actions & LIFE_DO_RELEASE) || (rig->given & LIFE_DO_END));
        must((rig->l.state == LIFE_RELEASED) == !!(rig->given & LIFE_DO_RELEASE));
        must((rig->l.state >= LIFE_DEAD) == !!(rig->given & LIFE_DO_END));
        if (actions & LIFE_DO_FAIL) {
                rig->sent[0] = life_send_sentinel(&rig->l);
                rig->sent[1] = life_recv_sentinel(&rig->l);
        }
}

static void happens(struct rig *rig, enum life_event e)
{
        enum life_state before = rig->l.state;

        if (e == LIFE_DRAINED && rig->l.sentinels > 0)
                return; /* its owner has not seen them all */
        acts(rig, life_event(&rig->l, e));
        must(rig->l.state >= before && life_state_name(rig->l.state) && life_event_name(e));
        must((rig->l.state > before) == life_moves(before, e));
        must((rig->l.cause == LIFE_EVENTS) == (rig->l.state <= LIFE_LIVE));
}

static void one_step(struct rig *rig, unsigned what)
{
        unsigned e = what % (FLUSHED + 1);

        if (e == FLUSHED)
                flushed(rig, what >> 7);
        else if (e != BUSY)
                happens(rig, (enum life_event)e);
        else if (rig->l.state < LIFE_RELEASED)
                life_busy(&rig->l);
}

static void come_to_an_end(struct rig *rig)
{
        happens(rig, LIFE_ABORT);
        flushed(rig, 0);
        flushed(rig, 1);
        happens(rig, LIFE_DRAINED);
        happens(rig, LIFE_IDLE);
        must(rig->l.state == LIFE_RELEASED);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
        struct fuzz_input b = bytes_of(input, size);
        struct rig rig = { 0 };

        life_init(&rig.l);
        rig.l.has_qp = bytes_u8(&b) & BIT_QP;
        while (b.left > 0)
                one_step(&rig, bytes_u8(&b));
        come_to_an_end(&rig);
        return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "seq_fit.h"

#include <string.h>

static bool is_all(const uint8_t *p, size_t n, uint8_t v)
{
        return n == 0 || (p[0] == v && memcmp(p, p + 1, n - 1) == 0);
}

/* Bytes of the data that differ from those the step has by itself, if they are few. */
static void poke(struct fit *f, const uint8_t *is, size_t n)
{
        struct seq_step *step = &f->trial.step[0];
        const uint8_t *want = f->want.data;
        size_t from = 0, to = n;

        while (from < to && want[from] == is[from])
                from++;
        while (to > from && want[to - 1] == is[to - 1])
                to--;
        if (to - from > 0 && to - from <= FIT_CONTENTS && to - from <= f->room) {
                step->poke_at = (uint16_t)from;
                (void)seq_pool(&f->trial, want + from, to - from, &step->poke);
        }
}

/* Bytes that stand in the text as such; false: they would be too many, or nobody knows them. */
static bool set_literal(struct fit *f, size_t n)
{
        struct seq_step *step = &f->trial.step[0];
        size_t most = f->want.apart && f->room > FIT_CONTENTS ? (size_t)FIT_CONTENTS : f->room;

        if (!f->want.data || n > most || is_all(f->want.data, n, 0xa5))
                return false;
        return seq_pool(&f->trial, f->want.data, n, &step->bytes);
}

static void set_data(struct fit *f)
{
        struct seq_step *step = &f->trial.step[0];
        size_t n = f->want.data_len;

        step->has_data = n <= SEQ_DATA_MAX;
        if (!step->has_data)
                return;
        step->is_literal = set_literal(f, n);
        step->data_len = step->is_literal ? 0 : (uint16_t)n;
}

/* Data that only the memory of a host has: said if they are short, or as a pattern. */
static void set_contents(struct fit *f, const struct fit_message *is)
{
        const uint8_t *data = f->want.data;
        size_t n = f->want.data_len;

        if (data && is->data && memcmp(data, is->data, n) != 0 &&
            (n <= FIT_CONTENTS || is_all(data, n, 0xa5)))
                set_data(f);
}

static void fit_data(struct fit *f)
{
        static uint8_t own[BIND_ROOM];
        const struct seq_step *step = &f->trial.step[0];
        struct fit_message is;

        f->ops->render(f, own, &is);
        if (f->want.data_len != is.data_len)
                set_data(f);
        else if (is.apart && !step->has_data && nvme_template(step->template)->data == SEQ_NO_DATA)
                set_contents(f, &is);
        else if (f->want.data && is.data)
                poke(f, is.data, is.data_len);
}

static void fit_fields(struct fit *f)
{
        static uint8_t own[BIND_ROOM];
        struct seq_step *step = &f->trial.step[0];
        struct fit_message is;

        f->ops->render(f, own, &is);
        for (const struct field *const *at =
                 seq_fields(&nvme_fuzz, f->ops->transport, step->template);
             *at && step->changes < SEQ_CHANGES; at++) {
                uint64_t v = field_get(*at, &f->want.head), old = field_get(*at, &is.head);

                if (v == old)
                        continue;
                field_put(*at, &is.head, v);
                step->change[step->changes++] = f->ops->is_live(*at, v, v ^ old)
                                                    ? (struct seq_change) { *at, SEQ_FLIP, v ^ old }
                                                    : (struct seq_change) { *at, SEQ_SET, v };
        }
}

static bool try_template(struct fit *f, const struct seq_template *t, unsigned nth)
{
        f->trial.steps = 1;
        f->trial.pooled = 0;
        f->trial.step[0] = seq_step_of(t);
        f->plain = false;
        f->ops->vary(f, nth);
        if (!f->plain)
                fit_data(f);
        fit_fields(f);
        return f->ops->same(f);
}

static unsigned cost(const struct fit *f, const struct sequence *one)
{
        const struct seq_step *step = &one->step[0];
        const struct nvme_template *t = nvme_template(step->template);
        const union sqe *sqe =
            f->ops->transport == SEQ_RDMA ? &f->want.head.work.sqe : &f->want.head.pdu.cmd.sqe;
        bool other = t->base.type == PDU_CAPSULE_CMD &&
                     (sqe->opc != t->opc || (t->opc == NVME_FABRICS && sqe->fctype != t->fctype));

        return 64u * other + 4u * step->changes + one->pooled / 4 + (step->of > 0) +
               (step->has_data ? 1 : 0) + (step->keys > 0);
}

bool seq_fit(struct fit *f)
{
        size_t count;
        const struct seq_template *const *t =
            seq_templates(&nvme_fuzz, f->ops->transport, PARTY_HOST, &count);
        bool found = false;

        for (size_t i = 0; i < count; i++) {
                unsigned n = f->ops->variants(f, t[i]);

                for (unsigned nth = 0; nth < n; nth++)
                        if (try_template(f, t[i], nth) &&
                            (!found || cost(f, &f->trial) < cost(f, &f->best))) {
                                f->best = f->trial;
                                found = true;
                        }
        }
        return found;
}

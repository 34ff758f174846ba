/* SPDX-License-Identifier: BSD-3-Clause */
#include "minimise.h"

struct search {
        struct sequence *best;
        seq_bad_fn *bad;
        void *user;
        unsigned trials;
};

/* A smaller one takes the place of the best one if it is bad. */
static bool attempt(struct search *m, const struct sequence *s)
{
        m->trials++;
        if (!m->bad(s, m->user))
                return false;
        *m->best = *s;
        return true;
}

/* --- steps -------------------------------------------------------------------------------------- */

static bool without(struct search *m, unsigned at, unsigned n)
{
        struct sequence s = *m->best;

        while (n-- > 0)
                seq_remove(&s, at);
        return attempt(m, &s);
}

/* From the end: what comes after the fault goes first. */
static bool fewer_steps(struct search *m)
{
        unsigned before = m->best->steps;

        for (unsigned n = before / 2; n > 0; n /= 2)
                for (unsigned end = m->best->steps; end >= n; end -= n < end ? n : end)
                        if (m->best->steps > n)
                                without(m, end - n, n);
        return m->best->steps < before;
}

/* --- what is in a step -------------------------------------------------------------------------- */

/* Each makes a step a little simpler in its nth way; false: it has no nth way. */
typedef bool simplify_fn(struct seq_step *step, unsigned nth);

static bool drop_change(struct seq_step *step, unsigned nth)
{
        if (nth >= step->changes)
                return false;
        for (unsigned i = nth + 1; i < step->changes; i++)
                step->change[i - 1] = step->change[i];
        step->changes--;
        return true;
}

/* What is there or not, a part at a time. */
static bool drop_part(struct seq_step *step, unsigned nth)
{
        const bool there[] = { step->stale || step->hdgst_xor || step->ddgst_xor,
                               step->violates != RULE_NONE,
                               step->cuts > 0,
                               step->has_data,
                               step->poke.len > 0,
                               step->of > 0,
                               step->keys > 0 };
        unsigned part = 0;

        while (part < sizeof(there) && !(there[part] && nth-- == 0))
                part++;
        switch (part) {
        case 0:
                step->stale = false;
                step->hdgst_xor = step->ddgst_xor = 0;
                return true;
        case 1:
                step->violates = RULE_NONE;
                return true;
        case 2:
                step->cuts = 0;
                return true;
        case 3:
                step->has_data = step->is_literal = false;
                return true;
        case 4:
                step->poke.len = step->poke_at = 0;
                return true;
        case 5:
                step->of = 0;
                return true;
        case 6:
                step->keys = 0;
                return true;
        default:
                return false;
        }
}

static bool drop_cut(struct seq_step *step, unsigned nth)
{
        if (nth >= step->cuts)
                return false;
        for (unsigned i = nth + 1; i < step->cuts; i++)
                step->cut[i - 1] = step->cut[i];
        step->cuts--;
        return true;
}

/* To nothing, to an nth part less ... to one less. */
static bool lower(uint32_t *v, unsigned nth)
{
        uint32_t less = nth < 32 ? *v >> nth : 0;

        *v -= less;
        return less > 0;
}

static bool shorten_data(struct seq_step *step, unsigned nth)
{
        uint32_t len = step->is_literal ? step->bytes.len : step->data_len;

        if (!step->has_data || !lower(&len, nth))
                return false;
        if (step->is_literal)
                step->bytes.len = (uint16_t)len;
        else
                step->data_len = (uint16_t)len;
        return true;
}

static bool shorten_raw(struct seq_step *step, unsigned nth)
{
        uint32_t len = step->bytes.len;

        if (step->kind != SEQ_RAW || !lower(&len, nth))
                return false;
        step->bytes.len = (uint16_t)len;
        return true;
}

static bool shorten_delay(struct seq_step *step, unsigned nth)
{
        return step->kind == SEQ_DELAY && lower(&step->ms, nth);
}

static bool simpler_step(struct search *m, unsigned at, simplify_fn *simplify)
{
        bool better = false;

        for (unsigned nth = 0;;) {
                struct sequence s = *m->best;

                if (!simplify(&s.step[at], nth))
                        return better;
                if (attempt(m, &s))
                        better = true; /* the nth way is another one now */
                else
                        nth++;
        }
}

static bool simpler_steps(struct search *m)
{
        static simplify_fn *const ways[] = { drop_change,  drop_part,   drop_cut,
                                             shorten_data, shorten_raw, shorten_delay };
        bool better = false;

        for (unsigned at = 0; at < m->best->steps; at++)
                for (unsigned i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
                        better |= simpler_step(m, at, ways[i]);
        return better;
}

/* --- all of it ---------------------------------------------------------------------------------- */

static bool simpler_head(struct search *m)
{
        struct sequence s = *m->best;
        bool better = false;

        s.scarce = 0;
        if (m->best->scarce != 0)
                better |= attempt(m, &s);
        s = *m->best;
        s.violates = RULE_NONE;
        if (m->best->violates != RULE_NONE)
                better |= attempt(m, &s);
        for (unsigned bit = 0; bit < 32; bit++) {
                s = *m->best;
                s.config &= ~(UINT32_C(1) << bit);
                if (s.config != m->best->config)
                        better |= attempt(m, &s);
        }
        return better;
}

/* Bytes of steps that went, or that were shortened, stay in the pool until it is made again. */
static void compact(struct sequence *s)
{
        struct sequence old = *s;

        s->steps = 0;
        s->pooled = 0;
        for (unsigned i = 0; i < old.steps; i++)
                seq_insert(s, i, &old, &old.step[i]);
}

unsigned seq_minimise(struct sequence *s, seq_bad_fn *bad, void *user)
{
        struct search m = { s, bad, user, 0 };
        bool better;

        do {
                better = fewer_steps(&m);
                better |= simpler_head(&m);
                better |= simpler_steps(&m);
        } while (better);
        compact(s);
        return m.trials;
}

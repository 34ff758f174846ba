/* SPDX-License-Identifier: BSD-3-Clause */
#include "seq_mutate.h"

#include <string.h>

#include "pdu/core/rng.h"

enum { LIMITS = 16 };

static uint64_t limits[LIMITS];
static unsigned n_limits, n_reloads;

static struct seq_step *any_step(struct sequence *s, uint64_t *seed)
{
        return s->steps > 0 ? &s->step[fuzz_any(seed, s->steps)] : NULL;
}

struct seq_step *seq_any_pdu(struct sequence *s, uint64_t *seed)
{
        for (unsigned i = 0; i < 4; i++) {
                struct seq_step *step = any_step(s, seed);

                if (step && step->kind == SEQ_PDU)
                        return step;
        }
        return NULL;
}

/* --- steps -------------------------------------------------------------------------------------- */

/* Where a step that is inserted at `at` is said: mostly where the one before it was. */
static uint8_t any_queue(const struct sequence *s, unsigned at, uint64_t *seed)
{
        if (at > 0 && !seq_is_for_all(&s->step[at - 1]) && fuzz_any(seed, 4) > 0)
                return s->step[at - 1].on;
        return (uint8_t)fuzz_any(seed, s->queues);
}

/* Where it is then; the number of steps: there was no room. */
static unsigned insert_any(struct sequence *s, uint64_t *seed)
{
        size_t n;
        const struct seq_template *const *t = seq_templates(s->family, s->transport, s->side, &n);
        struct seq_step step = seq_step_of(t[fuzz_any(seed, (unsigned)n)]);
        unsigned at = fuzz_any(seed, s->steps + 1);

        step.on = any_queue(s, at, seed);
        return seq_insert(s, at, s, &step) ? at : s->steps;
}

static void insert_pdu(struct sequence *s, uint64_t *seed)
{
        (void)insert_any(s, seed);
}

/* What belongs together: other mutators break it up. */
static void insert_group(struct sequence *s, uint64_t *seed)
{
        static struct sequence group;
        const char *const *groups = seq_transport(s)->groups;
        unsigned at = fuzz_any(seed, s->steps + 1), n = 0;
        uint8_t on = any_queue(s, at, seed);
        char err[100];

        if (s->side != PARTY_HOST || !groups)
                return;
        while (groups[n])
                n++;
        if (!seq_parse_steps(&group, s, groups[fuzz_any(seed, n)], err, sizeof(err)))
                return;
        for (unsigned i = 0; i < group.steps; i++) {
                if (!seq_is_for_all(&group.step[i]))
                        group.step[i].on = on;
                seq_insert(s, at + i, &group, &group.step[i]);
        }
}

static void insert_reload(struct sequence *s, uint64_t *seed)
{
        struct seq_step step = { .kind = SEQ_RELOAD };

        if (n_reloads == 0 || s->side != PARTY_HOST)
                return;
        step.of = (uint8_t)fuzz_any(seed, n_reloads);
        seq_insert(s, fuzz_any(seed, s->steps + 1), s, &step);
}

static void insert_other(struct sequence *s, uint64_t *seed)
{
        static const enum seq_kind kinds[] = { SEQ_DELAY, SEQ_DELAY, SEQ_RAW,   SEQ_CLOSE,
                                               SEQ_RESET, SEQ_FAIL,  SEQ_REMOVE };
        struct seq_step step = { .kind = kinds[fuzz_any(seed, seq_transport(s)->device ? 7 : 5)] };
        uint8_t bytes[24];

        if (step.kind == SEQ_FAIL) {
                step.status = VERBS_SUCCESS + 1 + fuzz_any(seed, VERBS_STATUSES - 1);
                step.of = (uint8_t)fuzz_any(seed, 4);
        }

        step.ms = 1u << fuzz_any(seed, 17);
        if (step.kind != SEQ_DELAY)
                step.on = (uint8_t)fuzz_any(seed, s->queues);
        for (size_t i = 0; i < sizeof(bytes); i++)
                bytes[i] = (uint8_t)fuzz_any(seed, fuzz_any(seed, 2) ? 256 : 12);
        if (step.kind == SEQ_RAW && !seq_pool(s, bytes, fuzz_any(seed, sizeof(bytes)), &step.bytes))
                return;
        seq_insert(s, fuzz_any(seed, s->steps + 1), s, &step);
}

/* Longer or shorter than some deadline; a session without a delay gets one. */
static void change_delay(struct sequence *s, uint64_t *seed)
{
        unsigned from = fuzz_any(seed, s->steps), n = 0;
        struct seq_step fresh = { .kind = SEQ_DELAY };
        struct seq_step *step = &fresh;

        while (n < s->steps && s->step[(from + n) % s->steps].kind != SEQ_DELAY)
                n++;
        if (n < s->steps)
                step = &s->step[(from + n) % s->steps];
        step->ms = 1u << fuzz_any(seed, 20);
        if (step == &fresh)
                seq_insert(s, fuzz_any(seed, s->steps + 1), s, step);
}

static void delete_step(struct sequence *s, uint64_t *seed)
{
        if (s->steps > 1)
                seq_remove(s, fuzz_any(seed, s->steps));
}

static void duplicate_step(struct sequence *s, uint64_t *seed)
{
        struct seq_step copy;

        if (s->steps == 0)
                return;
        copy = *any_step(s, seed);
        seq_insert(s, fuzz_any(seed, s->steps + 1), s, &copy);
}

/* As many as it takes to fill something. */
static void repeat_step(struct sequence *s, uint64_t *seed)
{
        unsigned at = fuzz_any(seed, s->steps), n = 1 + fuzz_any(seed, 20);
        struct seq_step copy;

        if (s->steps == 0)
                return;
        copy = s->step[at];
        while (n-- > 0 && seq_insert(s, at, s, &copy))
                ;
}

/* Another connection is there from here on, up to an I/O queue that is connected. */
static void insert_queue(struct sequence *s, uint64_t *seed)
{
        unsigned at = fuzz_any(seed, s->steps + 1), on = 1 + fuzz_any(seed, s->queues - 1u);

        for (unsigned i = 0; s->queues > 1 && i < FUZZ_OPENING; i++) {
                const char *name = seq_transport(s)->opening[i];
                struct seq_step step;

                if (!name)
                        return;
                step = seq_step_of(seq_template(s->family, s->transport, PARTY_HOST, name));
                step.on = (uint8_t)on;
                seq_insert(s, at + i, s, &step);
        }
}

static void change_queue(struct sequence *s, uint64_t *seed)
{
        struct seq_step *step = any_step(s, seed);

        if (step && !seq_is_for_all(step))
                step->on = (uint8_t)fuzz_any(seed, s->queues);
}

static void swap_steps(struct sequence *s, uint64_t *seed)
{
        unsigned a = fuzz_any(seed, s->steps), b = fuzz_any(seed, s->steps);
        struct seq_step step;

        if (s->steps < 2)
                return;
        step = s->step[a];
        s->step[a] = s->step[b];
        s->step[b] = step;
}

/* --- what a step says --------------------------------------------------------------------------- */

uint64_t seq_boundary(uint64_t *seed, unsigned bits)
{
        static const uint32_t known[] = {
                0,      1,      2,      3,       4,       5,       7,       8,     23,    24,
                25,     28,     31,     32,      63,      64,      72,      76,    127,   128,
                144,    152,    255,    256,     511,     512,     1023,    1024,  1025,  4092,
                4095,   4096,   4097,   8191,    8192,    8193,    16383,   16384, 16385, 20480,
                0x7fff, 0x8000, 0xffff, 0x10000, 0x1ffff, 0x20000, 0xfffffc
        };
        uint64_t mask = bits >= 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;

        switch (fuzz_any(seed, n_limits > 0 ? 6 : 5)) {
        case 5:
                return (limits[fuzz_any(seed, n_limits)] + fuzz_any(seed, 3) - 1) & mask;
        case 4: /* what code forgets the most often */
                return 0;
        case 0:
                return mask - fuzz_any(seed, 8);
        case 1:
                return (UINT64_C(1) << fuzz_any(seed, bits)) & mask;
        case 2:
                return fuzz_random(seed) & mask;
        default:
                return known[fuzz_any(seed, sizeof(known) / sizeof(known[0]))] & mask;
        }
}

static bool is_field_of(const struct sequence *s, const struct seq_template *t,
                        const struct field *f, bool own)
{
        return !s->family->is_field_of || s->family->is_field_of(t, f, own);
}

static const struct field *any_field(const struct sequence *s, const struct seq_step *step,
                                     uint64_t *seed)
{
        const struct field *const *f = seq_fields(s->family, s->transport, step->template);
        const struct field *chosen = NULL;
        bool own = step->template->command && fuzz_any(seed, 2);
        unsigned n = 0;

        while (f[n])
                n++;
        for (unsigned i = 0; n > 0 && i < 8; i++) {
                chosen = f[fuzz_any(seed, n)];
                if (is_field_of(s, step->template, chosen, own))
                        break;
        }
        return chosen;
}

static unsigned bits_of(const struct field *f)
{
        unsigned bytes = f->size < 8 ? f->size : 8;

        return f->bits ? f->bits : bytes * 8;
}

static struct seq_change *room_for(struct seq_step *step, const struct field *f)
{
        for (unsigned i = 0; i < step->changes; i++)
                if (step->change[i].field == f)
                        return &step->change[i];
        return step->changes < SEQ_CHANGES ? &step->change[step->changes++] : &step->change[0];
}

static void change_field_of(struct sequence *s, struct seq_step *step, uint64_t *seed)
{
        const struct field *f = any_field(s, step, seed);
        enum seq_op op = fuzz_any(seed, 3);
        uint64_t value;

        if (!f)
                return;
        if (op == SEQ_SET || fuzz_any(seed, 2))
                value = seq_boundary(seed, bits_of(f));
        else if (op == SEQ_FLIP)
                value = UINT64_C(1) << fuzz_any(seed, bits_of(f));
        else
                value = fuzz_any(seed, 2) ? 4 : (uint64_t)-4;
        *room_for(step, f) = (struct seq_change) { f, op, value };
}

static void change_field(struct sequence *s, uint64_t *seed)
{
        struct seq_step *step = seq_any_pdu(s, seed);

        if (step)
                change_field_of(s, step, seed);
}

void seq_set(struct sequence *s, struct seq_step *step, const char *name, uint64_t value)
{
        const struct field *f = seq_field(s->family, s->transport, step->template, name);

        if (f)
                *room_for(step, f) = (struct seq_change) { f, SEQ_SET, value };
}

static void mend(struct sequence *s, uint64_t *seed)
{
        struct seq_step *step = seq_any_pdu(s, seed);

        if (!step)
                return;
        if (step->changes > 0)
                step->changes--;
        step->hdgst_xor = step->ddgst_xor = 0;
        step->violates = RULE_NONE;
        step->stale = false;
}

/* About as much data as some step has: what belongs together differs by a dword at most. */
static unsigned kindred_length(struct sequence *s, uint64_t *seed)
{
        const struct seq_step *other = seq_any_pdu(s, seed);
        unsigned len = !other ? 0 : other->has_data ? other->data_len : other->template->data_len;

        return len + 4 - 4 * fuzz_any(seed, len >= 4 ? 3 : 2);
}

/* Some boundary, as much as others have, or less than the step has by itself: what a peer fills, or reads, without
 * asking how long it is. */
static uint16_t any_length(struct sequence *s, const struct seq_step *step, uint64_t *seed)
{
        uint64_t len;

        switch (fuzz_any(seed, 4)) {
        case 0:
                len = kindred_length(s, seed);
                break;
        case 1:
                len = fuzz_any(seed, step->template->data_len + 1u);
                break;
        default:
                len = seq_boundary(seed, 15);
        }
        return (uint16_t)(len % (SEQ_DATA_MAX + 1));
}

/* Of lengths, counts and flags in what commands carry those that code forgets, as often as any other. */
static uint8_t any_byte(uint64_t *seed)
{
        static const uint8_t known[] = { 0, 1, 2, 0x7f, 0x80, 0xff };

        return fuzz_any(seed, 2) ? known[fuzz_any(seed, sizeof(known))]
                                 : (uint8_t)fuzz_any(seed, 256);
}

static void change_data_of(struct sequence *s, struct seq_step *step, uint64_t *seed)
{
        const unsigned keys = seq_transport(s)->keys;
        uint8_t bytes[8];

        if (fuzz_any(seed, 3) > 0) {
                step->has_data = fuzz_any(seed, 8);
                step->is_literal = false;
                step->data_len = any_length(s, step, seed);
                if (keys > 0 && step->template->command)
                        step->keys = (uint8_t)fuzz_any(seed, fuzz_any(seed, 2) ? 4 : keys + 2);
                return;
        }
        for (size_t i = 0; i < sizeof(bytes); i++)
                bytes[i] = any_byte(seed);
        step->poke_at = (uint16_t)(seq_boundary(seed, 10) % SEQ_DATA_MAX);
        step->poke = (struct seq_bytes) { 0 };
        (void)seq_pool(s, bytes, 1 + fuzz_any(seed, sizeof(bytes)), &step->poke);
}

static void change_data(struct sequence *s, uint64_t *seed)
{
        struct seq_step *step = seq_any_pdu(s, seed);

        if (step)
                change_data_of(s, step, seed);
}

void seq_change(struct sequence *s, struct seq_step *step, uint64_t *seed)
{
        if (fuzz_any(seed, step->template->data_len > 0 ? 2 : 6) == 0)
                change_data_of(s, step, seed);
        else
                change_field_of(s, step, seed);
}

/* A step that says something else than by itself from its first moment on: alone it would often be no news, and not
 * be kept until somebody changes it. */
static void insert_changed(struct sequence *s, uint64_t *seed)
{
        unsigned at = insert_any(s, seed);

        if (at < s->steps)
                seq_change(s, &s->step[at], seed);
}

static unsigned any_rule(const struct sequence *s, uint64_t *seed)
{
        return 1 + fuzz_any(seed, s->family->family->rules->count - 1);
}

static void violate(struct sequence *s, uint64_t *seed)
{
        struct seq_step *step = seq_any_pdu(s, seed);

        for (unsigned i = 0; step && i < 32; i++) {
                unsigned rule = any_rule(s, seed);

                if (s->family->can_violate && s->family->can_violate(s->transport, rule) &&
                    seq_rule_get(s->family, rule)->bound == s->side) {
                        step->violates = rule;
                        return;
                }
        }
}

static void break_digest(struct sequence *s, uint64_t *seed)
{
        struct seq_step *step = seq_any_pdu(s, seed);
        uint32_t bit = 1u << fuzz_any(seed, 32);

        if (!step || !seq_transport(s)->stream)
                return;
        if (fuzz_any(seed, 4) == 0)
                step->stale = !step->stale;
        else if (fuzz_any(seed, 2))
                step->hdgst_xor ^= bit;
        else
                step->ddgst_xor ^= bit;
}

static void change_cuts(struct sequence *s, uint64_t *seed)
{
        struct seq_step *step = any_step(s, seed);
        unsigned last = 0;

        if (!step || !seq_transport(s)->stream || (step->kind != SEQ_PDU && step->kind != SEQ_RAW))
                return;
        step->cuts = (uint8_t)fuzz_any(seed, SEQ_CUTS + 1);
        for (unsigned i = 0; i < step->cuts; i++) {
                last += 1 + fuzz_any(seed, i % 2 ? 1000 : 80);
                step->cut[i] = (uint16_t)last;
        }
}

static void change_order(struct sequence *s, uint64_t *seed)
{
        struct seq_step *step = seq_any_pdu(s, seed);

        if (step)
                step->of = (uint8_t)fuzz_any(seed, 4);
}

/* A rule that the other side breaks, or none any more. */
static void change_violation(struct sequence *s, uint64_t *seed)
{
        unsigned rule = any_rule(s, seed);

        if (fuzz_any(seed, 2) || seq_rule_get(s->family, rule)->bound == s->side)
                rule = RULE_NONE;
        s->violates = rule;
}

static void change_config(struct sequence *s, uint64_t *seed)
{
        unsigned what = fuzz_any(seed, 8);

        if (what == 0)
                change_violation(s, seed);
        else if (what < 3)
                s->scarce = fuzz_any(seed, 2) ? fuzz_any(seed, 24) : 0;
        else
                s->config ^= 1u << fuzz_any(seed, 18);
}

/* --- all of it ---------------------------------------------------------------------------------- */

/* Steps point at their bytes, and nobody frees any: only those that steps have are kept. */
static void tidy(struct sequence *s)
{
        static struct sequence old;

        old = *s;
        s->steps = 0;
        s->pooled = 0;
        for (unsigned i = 0; i < old.steps; i++)
                seq_insert(s, s->steps, &old, &old.step[i]);
}

void seq_mutate_limits(const uint64_t *limit, unsigned n)
{
        n_limits = n < LIMITS ? n : LIMITS;
        for (unsigned i = 0; i < n_limits; i++)
                limits[i] = limit[i];
}

void seq_mutate_reloads(unsigned n)
{
        n_reloads = n < SEQ_RELOADS ? n : SEQ_RELOADS;
}

void seq_mutate(struct sequence *s, uint64_t *seed)
{
        static fuzz_mutator *const mutators[] = {
                insert_pdu,     insert_pdu,   insert_changed, insert_changed, insert_other,
                delete_step,    delete_step,  swap_steps,     change_field,   change_field,
                change_field,   change_field, mend,           change_data,    change_data,
                duplicate_step, violate,      break_digest,   change_cuts,    change_order,
                change_config,  repeat_step,  change_queue,   insert_queue,   insert_group,
                insert_reload,  change_delay,
        };
        enum { COMMON = sizeof(mutators) / sizeof(mutators[0]) };
        static fuzz_mutator *const none[] = { NULL };
        fuzz_mutator *const *own = s->family->mutators ? s->family->mutators : none;
        unsigned n = 1 + fuzz_any(seed, 4) * fuzz_any(seed, 2), all = COMMON;

        while (own[all - COMMON])
                all++;
        if (s->steps == 0)
                seq_begin(s, s->family, s->transport, s->side, seed);
        while (n-- > 0) {
                unsigned which = fuzz_any(seed, all);

                (which < COMMON ? mutators[which] : own[which - COMMON])(s, seed);
        }
        tidy(s);
}

void seq_splice(struct sequence *s, const struct sequence *other, uint64_t *seed)
{
        unsigned from, n, at;

        if (other->steps == 0 || other->family != s->family || other->side != s->side ||
            other->transport != s->transport)
                return;
        from = fuzz_any(seed, other->steps);
        n = 1 + fuzz_any(seed, other->steps - from);
        at = fuzz_any(seed, s->steps + 1);
        if (fuzz_any(seed, 2))
                while (s->steps > at)
                        seq_remove(s, s->steps - 1);
        tidy(s);
        for (unsigned i = 0; i < n; i++)
                seq_insert(s, at + i, other, &other->step[from + i]);
        tidy(s);
}

void seq_begin(struct sequence *s, const struct fuzz_family *f, unsigned transport, enum party side,
               uint64_t *seed)
{
        memset(s, 0, sizeof(*s));
        s->family = f;
        s->transport = transport;
        s->side = side;
        s->queues = 1;
        if (f->begin)
                f->begin(s, seed);
}

size_t seq_mutate_text(uint8_t *data, size_t size, size_t max, unsigned seed, unsigned transport,
                       enum party side)
{
        static struct sequence s;
        static char text[SEQ_TEXT];
        uint64_t state = seed;
        char err[100];
        size_t n;

        if (!seq_parse(&s, (const char *)data, size, err, sizeof(err)) || s.side != side ||
            s.transport != transport)
                seq_begin(&s, fuzz_families[0], transport, side, &state);
        seq_mutate(&s, &state);
        n = seq_print(&s, text, sizeof(text));
        if (n > max)
                return size <= max ? size : 0;
        memcpy(data, text, n);
        return n;
}

size_t seq_splice_text(const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size,
                       uint8_t *out, size_t max, unsigned seed)
{
        static struct sequence s, other;
        static char text[SEQ_TEXT];
        uint64_t state = seed;
        char err[100];
        size_t n;

        if (!seq_parse(&s, (const char *)a, a_size, err, sizeof(err)) ||
            !seq_parse(&other, (const char *)b, b_size, err, sizeof(err)))
                return 0;
        seq_splice(&s, &other, &state);
        /* libFuzzer splices as often as it mutates, which alone says little that is new */
        if (fuzz_any(&state, 2))
                seq_mutate(&s, &state);
        n = seq_print(&s, text, sizeof(text));
        if (n > max)
                return 0;
        memcpy(out, text, n);
        return n;
}

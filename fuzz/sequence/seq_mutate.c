/* SPDX-License-Identifier: BSD-3-Clause */
#include "seq_mutate.h"

#include <string.h>

#include "fuzz/fuzz.h"
#include "pdu/nvme/machine/spoil.h"
#include "pdu/nvme/wire/fabrics.h"

enum { LIMITS = 16, GROUPS = 8 };

static uint64_t limits[LIMITS];
static unsigned n_limits;

static unsigned any(uint64_t *seed, unsigned n)
{
        return n > 0 ? fuzz_random(seed) % n : 0;
}

static struct seq_step *any_step(struct sequence *s, uint64_t *seed)
{
        return s->steps > 0 ? &s->step[any(seed, s->steps)] : NULL;
}

static struct seq_step *any_pdu(struct sequence *s, uint64_t *seed)
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
        if (at > 0 && s->step[at - 1].kind != SEQ_DELAY && any(seed, 4) > 0)
                return s->step[at - 1].on;
        return (uint8_t)any(seed, s->queues);
}

static void insert_pdu(struct sequence *s, uint64_t *seed)
{
        size_t n;
        const struct seq_template *t = seq_templates(s->transport, s->side, &n);
        struct seq_step step = seq_step_of(&t[any(seed, (unsigned)n)]);
        unsigned at = any(seed, s->steps + 1);

        step.on = any_queue(s, at, seed);
        seq_insert(s, at, s, &step);
}

/* What belongs together: other mutators break it up. */
static void insert_group(struct sequence *s, uint64_t *seed)
{
        static const char *const groups[2][GROUPS] = {
                { "compare sqe.flags=0x41\nwrite_icd sqe.flags=0x42\n",
                  "compare_r2t sqe.flags=0x41\nwrite sqe.flags=0x42\nh2c\nh2c\n",
                  "write\nh2c data=2048\nh2c\n", "write\nabort\nh2c\n", "connect_r2t\nh2c\n",
                  "aer\nabort\n", "disable\nenable\n", "set_kato cdw11=1000\ndelay 3000\n" },
                { "compare sqe.flags=0x41\nwrite_icd sqe.flags=0x42\n",
                  "compare_r2t sqe.flags=0x41\nwrite sqe.flags=0x42\n",
                  "write keys=3\nread keys=3\n", "write\nabort\n", "aer\nabort\n",
                  "disable\nenable\n", "set_kato cdw11=1000\ndelay 3000\n", "write\nflush\n" },
        };
        static struct sequence group;
        char text[160], err[100];
        unsigned at = any(seed, s->steps + 1);
        uint8_t on = any_queue(s, at, seed);
        struct text t = text_in(text, sizeof(text));

        if (s->side != PARTY_HOST)
                return;
        text_add(&t, "sequence host%s\n%s", s->transport == SEQ_RDMA ? " rdma" : "",
                 groups[s->transport][any(seed, GROUPS)]);
        must(seq_parse(&group, text, t.len, err, sizeof(err)));
        for (unsigned i = 0; i < group.steps; i++) {
                if (group.step[i].kind != SEQ_DELAY)
                        group.step[i].on = on;
                seq_insert(s, at + i, &group, &group.step[i]);
        }
}

static void insert_other(struct sequence *s, uint64_t *seed)
{
        static const enum seq_kind kinds[] = { SEQ_DELAY, SEQ_DELAY, SEQ_RAW,   SEQ_CLOSE,
                                               SEQ_RESET, SEQ_FAIL,  SEQ_REMOVE };
        struct seq_step step = { .kind = kinds[any(seed, s->transport == SEQ_RDMA ? 7 : 5)] };
        uint8_t bytes[24];

        if (step.kind == SEQ_FAIL) {
                step.status = VERBS_SUCCESS + 1 + any(seed, VERBS_STATUSES - 1);
                step.of = (uint8_t)any(seed, 4);
        }

        step.ms = 1u << any(seed, 17);
        if (step.kind != SEQ_DELAY)
                step.on = (uint8_t)any(seed, s->queues);
        for (size_t i = 0; i < sizeof(bytes); i++)
                bytes[i] = (uint8_t)any(seed, any(seed, 2) ? 256 : 12);
        if (step.kind == SEQ_RAW && !seq_pool(s, bytes, any(seed, sizeof(bytes)), &step.bytes))
                return;
        seq_insert(s, any(seed, s->steps + 1), s, &step);
}

static void delete_step(struct sequence *s, uint64_t *seed)
{
        if (s->steps > 1)
                seq_remove(s, any(seed, s->steps));
}

static void duplicate_step(struct sequence *s, uint64_t *seed)
{
        struct seq_step copy;

        if (s->steps == 0)
                return;
        copy = *any_step(s, seed);
        seq_insert(s, any(seed, s->steps + 1), s, &copy);
}

/* As many as it takes to fill something. */
static void repeat_step(struct sequence *s, uint64_t *seed)
{
        unsigned at = any(seed, s->steps), n = 1 + any(seed, 20);
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
        static const char *const words[2][2] = { { "icreq", "connect" }, { "request", "connect" } };
        unsigned at = any(seed, s->steps + 1), on = 1 + any(seed, s->queues - 1u);

        for (unsigned i = 0; s->queues > 1 && i < 2; i++) {
                struct seq_step step =
                    seq_step_of(seq_template(s->transport, PARTY_HOST, words[s->transport][i]));

                step.on = (uint8_t)on;
                seq_insert(s, at + i, s, &step);
        }
}

static void change_queue(struct sequence *s, uint64_t *seed)
{
        struct seq_step *step = any_step(s, seed);

        if (step && step->kind != SEQ_DELAY)
                step->on = (uint8_t)any(seed, s->queues);
}

static void swap_steps(struct sequence *s, uint64_t *seed)
{
        unsigned a = any(seed, s->steps), b = any(seed, s->steps);
        struct seq_step step;

        if (s->steps < 2)
                return;
        step = s->step[a];
        s->step[a] = s->step[b];
        s->step[b] = step;
}

/* --- what a step says --------------------------------------------------------------------------- */

static uint64_t boundary(uint64_t *seed, unsigned bits)
{
        static const uint32_t known[] = {
                0,      1,      2,      3,       4,       5,       7,       8,     23,    24,
                25,     28,     31,     32,      63,      64,      72,      76,    127,   128,
                144,    152,    255,    256,     511,     512,     1023,    1024,  1025,  4092,
                4095,   4096,   4097,   8191,    8192,    8193,    16383,   16384, 16385, 20480,
                0x7fff, 0x8000, 0xffff, 0x10000, 0x1ffff, 0x20000, 0xfffffc
        };
        uint64_t mask = bits >= 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;

        switch (any(seed, n_limits > 0 ? 6 : 5)) {
        case 5:
                return (limits[any(seed, n_limits)] + any(seed, 3) - 1) & mask;
        case 4: /* what code forgets the most often */
                return 0;
        case 0:
                return mask - any(seed, 8);
        case 1:
                return (UINT64_C(1) << any(seed, bits)) & mask;
        case 2:
                return fuzz_random(seed) & mask;
        default:
                return known[any(seed, sizeof(known) / sizeof(known[0]))] & mask;
        }
}

/* Where in a capsule the dwords begin that each command has a use of its own for. */
enum { COMMANDS_OWN = offsetof(struct pdu_capsule_cmd, sqe.cdw10) };

/* Whether it is this command's; others give the same bytes other names. */
static bool is_its_own(const struct seq_template *t, const struct field *f)
{
        if (t->type != PDU_CAPSULE_CMD || f->offset < COMMANDS_OWN)
                return true;
        return (t->opc == NVME_FABRICS) != (strncmp(f->name, "sqe.cdw", 7) == 0);
}

static const struct field *any_field(const struct sequence *s, const struct seq_step *step,
                                     uint64_t *seed)
{
        const struct field *const *f = seq_fields(s->transport, step->template);
        const struct field *chosen = NULL;
        bool dwords = step->template->type == PDU_CAPSULE_CMD && any(seed, 2);
        unsigned n = 0;

        while (f[n])
                n++;
        for (unsigned i = 0; n > 0 && i < 8; i++) {
                chosen = f[any(seed, n)];
                if (is_its_own(step->template, chosen) &&
                    (!dwords || chosen->offset >= COMMANDS_OWN))
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

static void change_field(struct sequence *s, uint64_t *seed)
{
        struct seq_step *step = any_pdu(s, seed);
        const struct field *f = step ? any_field(s, step, seed) : NULL;
        enum seq_op op = any(seed, 3);
        uint64_t value;

        if (!f)
                return;
        if (op == SEQ_SET || any(seed, 2))
                value = boundary(seed, bits_of(f));
        else if (op == SEQ_FLIP)
                value = UINT64_C(1) << any(seed, bits_of(f));
        else
                value = any(seed, 2) ? 4 : (uint64_t)-4;
        *room_for(step, f) = (struct seq_change) { f, op, value };
}

static void set(struct sequence *s, struct seq_step *step, const char *name, uint64_t value)
{
        const struct field *f = seq_field(s->transport, step->template, name);

        if (f)
                *room_for(step, f) = (struct seq_change) { f, SEQ_SET, value };
}

static bool has_blocks(const struct seq_template *t)
{
        return t->type == PDU_CAPSULE_CMD &&
               (t->opc == NVME_READ || t->opc == NVME_WRITE || t->opc == NVME_COMPARE ||
                t->opc == NVME_WRITE_ZEROES);
}

/* So many blocks and the data for them, at the end of what some limit says or at the start; one of
 * the three may be a little off. */
static void change_blocks(struct sequence *s, uint64_t *seed)
{
        struct seq_step *step = any_pdu(s, seed);
        uint64_t blocks = 1 + boundary(seed, 8), off = any(seed, 6), end = boundary(seed, 16);

        if (!step || !has_blocks(step->template))
                return;
        set(s, step, "cdw12", blocks - 1 + (off == 0));
        set(s, step, "cdw10", any(seed, 2) && end >= blocks ? end - blocks + (off == 1) : 0);
        if (step->template->sgl == SGL_TRANSPORT) {
                set(s, step, "sgl.len", blocks * 512 + (off == 2 ? 4 : 0));
        } else if (blocks * 512 <= SEQ_DATA_MAX) {
                step->has_data = true;
                step->is_literal = false;
                step->data_len = (uint16_t)(blocks * 512 - (off == 2 ? 4 : 0));
        }
}

static void mend(struct sequence *s, uint64_t *seed)
{
        struct seq_step *step = any_pdu(s, seed);

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
        const struct seq_step *other = any_pdu(s, seed);
        unsigned len = !other ? 0 : other->has_data ? other->data_len : other->template->data_len;

        return len + 4 - 4 * any(seed, len >= 4 ? 3 : 2);
}

static void change_data(struct sequence *s, uint64_t *seed)
{
        struct seq_step *step = any_pdu(s, seed);
        uint8_t bytes[8];

        if (!step)
                return;
        if (any(seed, 3) > 0) {
                step->has_data = any(seed, 8);
                step->is_literal = false;
                step->data_len =
                    (uint16_t)((any(seed, 3) ? boundary(seed, 15) : kindred_length(s, seed)) %
                               (SEQ_DATA_MAX + 1));
                if (s->transport == SEQ_RDMA && step->template->type == PDU_CAPSULE_CMD)
                        step->keys = (uint8_t)any(seed, any(seed, 2) ? 4 : RDMA_DESCRIPTORS + 2);
                return;
        }
        for (size_t i = 0; i < sizeof(bytes); i++)
                bytes[i] = (uint8_t)any(seed, 256);
        step->poke_at = (uint16_t)(boundary(seed, 10) % SEQ_DATA_MAX);
        step->poke = (struct seq_bytes) { 0 };
        (void)seq_pool(s, bytes, 1 + any(seed, sizeof(bytes)), &step->poke);
}

static void violate(struct sequence *s, uint64_t *seed)
{
        struct seq_step *step = any_pdu(s, seed);

        for (unsigned i = 0; step && i < 32; i++) {
                enum rule_id rule = 1 + any(seed, RULES - 1);

                if ((s->transport == SEQ_RDMA ? spoil_can_rdma(rule) : spoil_can(rule)) &&
                    rule_get(rule)->bound == s->side) {
                        step->violates = rule;
                        return;
                }
        }
}

static void break_digest(struct sequence *s, uint64_t *seed)
{
        struct seq_step *step = any_pdu(s, seed);
        uint32_t bit = 1u << any(seed, 32);

        if (!step || s->transport == SEQ_RDMA)
                return;
        if (any(seed, 4) == 0)
                step->stale = !step->stale;
        else if (any(seed, 2))
                step->hdgst_xor ^= bit;
        else
                step->ddgst_xor ^= bit;
}

static void change_cuts(struct sequence *s, uint64_t *seed)
{
        struct seq_step *step = any_step(s, seed);
        unsigned last = 0;

        if (!step || s->transport == SEQ_RDMA || (step->kind != SEQ_PDU && step->kind != SEQ_RAW))
                return;
        step->cuts = (uint8_t)any(seed, SEQ_CUTS + 1);
        for (unsigned i = 0; i < step->cuts; i++) {
                last += 1 + any(seed, i % 2 ? 1000 : 80);
                step->cut[i] = (uint16_t)last;
        }
}

static void change_order(struct sequence *s, uint64_t *seed)
{
        struct seq_step *step = any_pdu(s, seed);

        if (step)
                step->of = (uint8_t)any(seed, 4);
}

/* A rule that the other side breaks, or none any more. */
static void change_violation(struct sequence *s, uint64_t *seed)
{
        enum rule_id rule = 1 + any(seed, RULES - 1);

        if (any(seed, 2) || rule_get(rule)->bound == s->side)
                rule = RULE_NONE;
        s->violates = rule;
}

static void change_config(struct sequence *s, uint64_t *seed)
{
        unsigned what = any(seed, 8);

        if (what == 0)
                change_violation(s, seed);
        else if (what < 3)
                s->scarce = any(seed, 2) ? any(seed, 24) : 0;
        else
                s->config ^= 1u << any(seed, 18);
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

void seq_mutate(struct sequence *s, uint64_t *seed)
{
        static void (*const mutators[])(struct sequence * s, uint64_t * seed) = {
                insert_pdu,   insert_pdu,   insert_pdu,   insert_other,   delete_step,
                delete_step,  swap_steps,   change_field, change_field,   change_field,
                change_field, mend,         change_data,  duplicate_step, violate,
                break_digest, change_cuts,  change_order, change_config,  repeat_step,
                change_queue, insert_queue, insert_group, change_blocks,
        };
        unsigned n = 1 + any(seed, 4) * any(seed, 2);

        if (s->steps == 0)
                seq_begin(s, s->transport, s->side, seed);
        while (n-- > 0)
                mutators[any(seed, sizeof(mutators) / sizeof(mutators[0]))](s, seed);
        tidy(s);
}

void seq_splice(struct sequence *s, const struct sequence *other, uint64_t *seed)
{
        unsigned from, n, at;

        if (other->steps == 0 || other->side != s->side || other->transport != s->transport)
                return;
        from = any(seed, other->steps);
        n = 1 + any(seed, other->steps - from);
        at = any(seed, s->steps + 1);
        if (any(seed, 2))
                while (s->steps > at)
                        seq_remove(s, s->steps - 1);
        tidy(s);
        for (unsigned i = 0; i < n; i++)
                seq_insert(s, at + i, other, &other->step[from + i]);
        tidy(s);
}

void seq_begin(struct sequence *s, enum seq_transport transport, enum party side, uint64_t *seed)
{
        static const char *const words[2][2][6] = {
                { { "icreq", "connect", "read", "write", "h2c", "write_icd" },
                  { "icresp", "resp", "c2h", "resp", "r2t", "resp" } },
                { { "request", "connect", "read", "write", "flush", "write_icd" },
                  { "accept", "resp", "write", "resp", "read", "resp" } },
        };

        memset(s, 0, sizeof(*s));
        s->transport = transport;
        s->side = side;
        s->queues = 1;
        s->config = any(seed, 2) ? 0 : fuzz_random(seed) & 0x3ffff & ~0x80u;
        for (unsigned i = 0; i < 6; i++) {
                struct seq_step step =
                    seq_step_of(seq_template(transport, side, words[transport][side][i]));
                const struct field *qid = seq_field(transport, step.template, "qid");

                if (qid && (step.template->type == SEQ_REQUEST || i == 1) && any(seed, 2)) {
                        step.change[0] = (struct seq_change) { qid, SEQ_SET, 1 };
                        step.changes = 1;
                }
                seq_insert(s, i, s, &step);
        }
}

size_t seq_mutate_text(uint8_t *data, size_t size, size_t max, unsigned seed,
                       enum seq_transport transport, enum party side)
{
        static struct sequence s;
        static char text[SEQ_TEXT];
        uint64_t state = seed;
        char err[100];
        size_t n;

        if (!seq_parse(&s, (const char *)data, size, err, sizeof(err)) || s.side != side ||
            s.transport != transport)
                seq_begin(&s, transport, side, &state);
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
        n = seq_print(&s, text, sizeof(text));
        if (n > max)
                return 0;
        memcpy(out, text, n);
        return n;
}

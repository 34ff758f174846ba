/* SPDX-License-Identifier: BSD-3-Clause */
#include "commands.h"

#include <inttypes.h>
#include <string.h>

/* --- what the rows of commands.def ask ---------------------------------------------------------- */

#define BITS_OF(value, high, low) ((value) >> (low) & ((UINT64_C(1) << ((high) - (low) + 1)) - 1))
#define DW(n, high, low)          BITS_OF(le_get(s->bytes + 4 * (n), 4), high, low)
#define CC(high, low)             DW(12, high, low)
#define CAP(high, low)            BITS_OF(v->cap, high, low)
#define OPCODE(name)              (s->opc == NVME_##name)
#define FABRICS(name)             (s->opc == NVME_FABRICS && s->fctype == FCTYPE_##name)
#define SETS_CC                   (FABRICS(PROPERTY_SET) && le32_get(s->property.ofst) == PROP_CC)

static bool has_data(const union sqe *s)
{
        return sqe_xfer(s) != XFER_NONE && sgl_len(&s->sgl) > 0;
}

/* Descriptors of its own after the SQE describe its data. */
static bool is_list(const union sqe *s)
{
        return s->sgl.id == SGL_LAST_IN_CAPSULE;
}

/* 4.3.2: a length has to be that of the data, and this command's is its first descriptor's. */
static bool lengths_agree(const struct command_view *v)
{
        return v->id && !(le32_get(v->id->sgls) & SGLS_LLDTS) && !is_list(v->sqe);
}

static uint64_t log_dwords(const union sqe *s)
{
        return (DW(10, 31, 16) | DW(11, 15, 0) << 16) + 1;
}

/* CNS, LID or FID is. */
#define BYTES(...)  ((const uint8_t[]) { __VA_ARGS__ })
#define ONE_OF(...) (memchr(BYTES(__VA_ARGS__), s->cdw10.b[0], sizeof(BYTES(__VA_ARGS__))) != NULL)

static uint64_t most_data(const struct command_view *v)
{
        uint64_t shift = v->id && v->has_cap ? v->id->mdts : 0;

        return shift == 0 || shift > 32 ? UINT64_MAX : UINT64_C(1) << (12 + CAP(51, 48) + shift);
}

/* SQES, CQES: maximum in bits 7:4, required in 3:0. */
static bool is_between(uint8_t sizes, uint32_t chosen)
{
        return (chosen & 15) >= (sizes & 15u) && (chosen & 15) <= sizes >> 4;
}

/* --- the rows ----------------------------------------------------------------------------------- */

enum { ANY, ADMIN, IO, JOINS };
enum { MASKS = 12 };
#define ALL UINT32_MAX

enum {
#define COMMAND(sym, ...)  sym,
#define RESERVED(sym, ...) sym,
#include "commands.def"
#undef COMMAND
#undef RESERVED
        ROWS
};

struct row {
        struct command_duty duty;
        int queue;
        struct mask {
                unsigned dword;
                uint32_t bits;
        } masks[MASKS]; /* ended by bits 0 */
};

#define NEVER    false
#define SPOIL(c) true
static const struct row rows[ROWS] = {
/* clang-format off */
#define COMMAND(sym, rule, queue, when, key, says, field, holds, spoils)                           \
        [sym] = { { rule, key, says, spoils }, queue, { { 0, 0 } } },
#define RESERVED(sym, queue, when, key, says, ...)                                                 \
        [sym] = { { CMD_RSVD, key, says, true }, queue, { __VA_ARGS__ } },
#include "commands.def"
#undef COMMAND
#undef RESERVED
        /* clang-format on */
};
#undef NEVER
#undef SPOIL

const struct command_duty *command_duty(unsigned i)
{
        return i < ROWS ? &rows[i].duty : NULL;
}

static bool applies(const struct command_view *v, unsigned i)
{
        const union sqe *s = v->sqe;
        int queue = rows[i].queue;

        if ((queue == JOINS) != v->joins || (queue == ADMIN && v->qid != 0) ||
            (queue == IO && (v->qid <= 0 || !v->nvm)))
                return false;
        switch (i) {
#define COMMAND(sym, rule, queue, when, ...)                                                       \
        case sym:                                                                                  \
                return (when);
#define RESERVED(sym, queue, when, ...)                                                            \
        case sym:                                                                                  \
                return (when);
#include "commands.def"
#undef COMMAND
#undef RESERVED
        default:
                return false;
        }
}

static bool is_reserved_clear(const union sqe *s, const struct mask *m, uint64_t *seen)
{
        for (; m->bits; m++)
                if ((*seen = le_get(s->bytes + 4 * m->dword, 4) & m->bits))
                        return false;
        return true;
}

static bool holds(const struct command_view *v, unsigned i, uint64_t *seen)
{
        const union sqe *s = v->sqe;

        switch (i) {
#define COMMAND(sym, rule, queue, when, key, says, field, holds, spoils)                           \
        case sym:                                                                                  \
                *seen = (field);                                                                   \
                return (holds);
#define RESERVED(sym, ...)
#include "commands.def"
#undef COMMAND
#undef RESERVED
        default:
                return is_reserved_clear(s, rows[i].masks, seen);
        }
}

void command_judge(const struct command_view *v, struct rule_set *found, struct text *why)
{
        uint64_t seen;

        for (unsigned i = 0; i < ROWS; i++) {
                if (!applies(v, i) || holds(v, i, &seen))
                        continue;
                rule_add(found, rows[i].duty.rule);
                if (why)
                        text_add(why, "%s%s (%s): seen %" PRIX64 "h", why->len > 0 ? "; " : "",
                                 rows[i].duty.says, rows[i].duty.key, seen);
        }
}

/* --- breaking them ------------------------------------------------------------------------------ */

static void spoil_row(union sqe *c, unsigned i)
{
        const struct mask *m = rows[i].masks;

        switch (i) {
#define NEVER       (void)c
#define SPOIL(what) what
#define COMMAND(sym, rule, queue, when, key, says, field, holds, spoils)                           \
        case sym:                                                                                  \
                spoils;                                                                            \
                break;
#define RESERVED(sym, ...)
#include "commands.def"
#undef COMMAND
#undef RESERVED
        default:
                for (unsigned b = 0; b < 4; b++)
                        c->bytes[4 * m->dword + b] |= (uint8_t)(m->bits >> 8 * b);
        }
}

/* Opcodes of I/O and admin queues overlap; only the former have the NSID of a single namespace. */
static int guess_queue(const union sqe *s)
{
        uint32_t nsid = le32_get(s->nsid);

        return nsid > 0 && nsid < NSID_ALL && s->opc != NVME_IDENTIFY && s->opc != NVME_FABRICS;
}

bool command_spoil(const struct rule_set *violated, union sqe *sqe)
{
        struct command_view v = { .sqe = sqe,
                                  .qid = guess_queue(sqe),
                                  .nvm = true,
                                  .tcp = sqe->sgl.id == SGL_TRANSPORT ||
                                         sqe->sgl.id == SGL_IN_CAPSULE };
        bool any = false;

        for (unsigned i = 0; i < ROWS; i++) {
                if (!rows[i].duty.breakable || !rule_in(violated, rows[i].duty.rule) ||
                    !applies(&v, i))
                        continue;
                spoil_row(sqe, i);
                any = true;
        }
        return any;
}

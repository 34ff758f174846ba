/* SPDX-License-Identifier: BSD-3-Clause */
#include "answers.h"

#include "fabrics.h"

/* --- what the rows of answers.def ask ------------------------------------------------------------ */

enum { ANY_FAILURE = 0xffff };

/* Rows override what the macros below begin with. */
#ifdef __clang__
#pragma clang diagnostic ignored "-Winitializer-overrides"
#else
#pragma GCC diagnostic ignored "-Woverride-init"
#endif

#define U(field)     le_get((const uint8_t *)&(field), sizeof(field))
#define BIT(v, n)    ((v) >> (n)&1)
#define SELECTS      BIT(U(c->oncs), 4)
#define CSI_RESERVED (UINT32_C(0x20) << 24)
/* In 2.0 CAP.CSS bit 6 says whether CSI is looked at (3.1.3.1). */
#define CSI_USED(a) ((a)->vs >= V(2, 1) || BIT((a)->cap, 43))
#define ASK(...)    __VA_ARGS__
#define STATUS(...) { __VA_ARGS__ }, sizeof((const uint16_t[]) { __VA_ARGS__ }) / sizeof(uint16_t)
#define GET_LOG(lid, len)                                                                          \
        .opc = NVME_GET_LOG_PAGE, .nsid = NSID_ALL,                                                \
        .cdw10 = (lid) | 1u << 15 | ((len) / 4 - 1) << 16, .bytes = (len)
#define IDENTIFY(cns)    .opc = NVME_IDENTIFY, .cdw10 = (cns), .bytes = IDENTIFY_LEN
#define GET_FEATURE(fid) .opc = NVME_GET_FEATURES, .cdw10 = (fid)
#define SET_FEATURE(fid) .opc = NVME_SET_FEATURES, .cdw10 = (fid)

/* --- the rows ------------------------------------------------------------------------------------ */

#define V(major, minor) NVME_VERSION(major, minor, 0)
#define TYPE(t)         (1u << (t))
#define IO              TYPE(CNTRLTYPE_IO)
#define NOT_DISCOVERY   (IO | TYPE(CNTRLTYPE_ADMIN))

/* Of each row two functions of its own: whether a controller has the duty, and the command. */
#define VALUE(sym, rule, types, since, key, says, needs, command, ...)                             \
        static bool needs_##sym(const struct answerer *a)                                          \
        {                                                                                          \
                const struct id_ctrl *c = a->ctrl;                                                 \
                                                                                                   \
                (void)c;                                                                           \
                return (needs);                                                                    \
        }                                                                                          \
        static struct ask ask_##sym(const struct answerer *a)                                      \
        {                                                                                          \
                const struct id_ctrl *c = a->ctrl;                                                 \
                                                                                                   \
                (void)c;                                                                           \
                return (struct ask) { command };                                                   \
        }
#include "answers.def"
#undef VALUE

static const struct {
        struct answer_duty duty;
        bool (*needs)(const struct answerer *a);
        struct ask (*ask)(const struct answerer *a);
} rows[] = {
#define VALUE(sym, rule, types, since, key, says, needs, command, ...)                             \
        { { rule, types, since, key, says, __VA_ARGS__ }, needs_##sym, ask_##sym },
#include "answers.def"
#undef VALUE
};
enum { ANSWERS = sizeof(rows) / sizeof(rows[0]) };

const struct answer_duty *answer_duty(unsigned i)
{
        return i < ANSWERS ? &rows[i].duty : NULL;
}

bool answer_applies(const struct answerer *a, unsigned i)
{
        const struct answer_duty *d = &rows[i].duty;

        return a->ctrl && a->vs >= d->since && d->types & TYPE(a->cntrltype) && rows[i].needs(a);
}

struct ask answer_ask(const struct answerer *a, unsigned i)
{
        return rows[i].ask(a);
}

bool answer_is_right(unsigned i, uint16_t status)
{
        const struct answer_duty *d = &rows[i].duty;

        for (unsigned k = 0; k < d->n; k++)
                if (d->statuses[k] == status ||
                    (d->statuses[k] == ANY_FAILURE && status != NVME_SUCCESS))
                        return true;
        return false;
}

bool answer_is_judged(enum rule_id rule)
{
        for (unsigned i = 0; i < ANSWERS; i++)
                if (rows[i].duty.rule == rule)
                        return true;
        return false;
}

/* RAE and the length do not matter. */
static bool is_asked(const struct ask *a, const union sqe *s)
{
        uint32_t mask = a->opc == NVME_GET_LOG_PAGE ? 0x7fff : UINT32_MAX;

        return s->opc == a->opc && le32_get(s->nsid) == a->nsid &&
               (le32_get(s->cdw10) & mask) == (a->cdw10 & mask) && le32_get(s->cdw11) == a->cdw11 &&
               le32_get(s->cdw12) == a->cdw12 && le32_get(s->cdw13) == a->cdw13 &&
               le32_get(s->cdw14) == a->cdw14;
}

void answer_judge(const struct answerer *a, const union sqe *sqe, uint16_t status,
                  struct rule_set *found)
{
        for (unsigned i = 0; i < ANSWERS && status == NVME_SUCCESS; i++) {
                struct ask ask;

                if (answer_is_right(i, status) || !answer_applies(a, i))
                        continue;
                ask = answer_ask(a, i);
                if (is_asked(&ask, sqe))
                        rule_add(found, rows[i].duty.rule);
        }
}

/* Of the rows that are the same whatever the controller is. */
uint16_t answer_spoil(enum rule_id rule, const union sqe *sqe, uint16_t status)
{
        static const struct id_ctrl nothing;
        static const struct answerer unknown = { .ctrl = &nothing, .active = 1 };

        for (unsigned i = 0; i < ANSWERS; i++) {
                struct ask ask = answer_ask(&unknown, i);

                if (rows[i].duty.rule == rule && answer_is_right(i, status) && is_asked(&ask, sqe))
                        return answer_is_right(i, NVME_SUCCESS) ? NVME_INTERNAL_ERROR
                                                                : NVME_SUCCESS;
        }
        return status;
}

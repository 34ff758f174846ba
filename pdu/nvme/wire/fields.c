/* SPDX-License-Identifier: BSD-3-Clause */
#include "fields.h"

#include <inttypes.h>

#include "fabrics.h"

/* --- what the rows of fields.def ask ------------------------------------------------------------ */

#define U(field)                  le_get((const uint8_t *)&(field), sizeof(field))
#define BITS_OF(value, high, low) ((value) >> (low) & ((UINT64_C(1) << ((high) - (low) + 1)) - 1))
#define BITS(field, high, low)    BITS_OF(U(field), high, low)
#define CAP(high, low)            BITS_OF(f->cap, high, low)
#define CRTO(high, low)           BITS_OF((uint64_t)f->crto, high, low)
#define ANA                       BITS(c->cmic, 3, 3)
#define OPTPERF                   BITS(n->nsfeat, 5, 4)
#define PROTECTED                 BITS(n->dps, 2, 0) /* the format in use has protection information */
#define FORMAT                    x->elbaf[id_ns_format(n)]
/* What is reserved may mean something to later revisions than those that we know. */
#define LATER (f->vs > NVME_VERSION(2, 2, 0xff))

struct id_bytes { /* of Identify Controller */
        uint16_t first, last;
};

/* B2.2 5.1.13.2.1 (figure 313): marked R for discovery controllers; SUBNQN is not, by its text. */
static const struct id_bytes discovery_reserved[] = {
        { 0, 3 },     { 72, 76 },   { 84, 91 },   { 100, 107 },   { 110, 110 },   { 112, 134 },
        { 256, 258 }, { 260, 260 }, { 263, 319 }, { 322, 355 },   { 360, 361 },   { 368, 383 },
        { 512, 513 }, { 516, 535 }, { 540, 569 }, { 1792, 1805 }, { 2048, 3071 }, { 0, 0 },
};
static const struct id_bytes controller_reserved[] = {
        { 103, 103 }, { 108, 109 }, { 135, 239 },   { 359, 359 },   { 362, 367 }, { 385, 385 },
        { 388, 511 }, { 588, 767 }, { 1024, 1791 }, { 1807, 2047 }, { 0, 0 },
};

static bool is_null(const void *bytes, size_t n)
{
        const uint8_t *p = bytes;

        while (n > 0 && p[n - 1] == 0)
                n--;
        return n == 0;
}

/* The first of these bytes that is not zero; 0 if there is none. (Byte 0 is never alone: VID.) */
static unsigned first_byte(const struct id_ctrl *c, const struct id_bytes *list)
{
        for (; list->last > 0; list++)
                for (unsigned i = list->first; i <= list->last; i++)
                        if (((const uint8_t *)c)[i])
                                return i > 0 ? i : 1;
        return 0;
}

static bool power_is_relative(const struct id_ctrl *c, const struct id_power_state *p)
{
        return (p->rrt & 31) <= c->npss && (p->rrl & 31) <= c->npss && (p->rwt & 31) <= c->npss &&
               (p->rwl & 31) <= c->npss;
}

static bool power_has_workload(const struct id_ctrl *c, const struct id_power_state *p)
{
        (void)c;
        return le16_get(p->actp) == 0 || (p->aps & 7);
}

static bool power_has_scale(const struct id_ctrl *c, const struct id_power_state *p)
{
        (void)c;
        return !(p->aps & 7) || p->aps >> 6 == 1 || p->aps >> 6 == 2;
}

static bool power_all(const struct id_ctrl *c,
                      bool (*is)(const struct id_ctrl *c, const struct id_power_state *p))
{
        for (unsigned i = 0; i <= c->npss && i < 32; i++)
                if (!is(c, &c->psd[i]))
                        return false;
        return true;
}

/* Bits of the formats whose blocks are shorter than any may be. */
static uint64_t short_formats(const struct id_ns *n)
{
        uint64_t bits = 0;

        for (unsigned i = 0; i <= (unsigned)n->nlbaf + n->nulbaf && i < 64; i++)
                if (n->lbaf[i].lbads > 0 && n->lbaf[i].lbads < LBADS_MIN)
                        bits |= UINT64_C(1) << i;
        return bits;
}

/* An atomic write unit in force: the namespace's own one, unless it is 0 or not reported. */
static uint64_t unit(const struct id_ns *n, le16_t own, le16_t general)
{
        return BITS(n->nsfeat, 1, 1) && U(own) ? U(own) : U(general);
}

/* A boundary size is 0 (none), or at least what the controller and the namespace write at once. */
static bool bounds(const struct id_ns *n, le16_t boundary, le16_t own, le16_t general)
{
        return !U(boundary) || (U(boundary) >= U(general) && U(boundary) >= unit(n, own, general));
}

static bool is_uniform(const struct id_ns *n, const struct id_ctrl *c)
{
        return U(n->nabsn) == U(n->nabspf) && U(n->nabsn) == unit(n, n->nawun, c->awun) &&
               U(n->nabsn) == unit(n, n->nawupf, c->awupf);
}

/* Whether the size in a field (0's based) is so many times that in another one. */
static bool is_times(le16_t size, le16_t of)
{
        return (U(size) + 1) % (U(of) + 1) == 0;
}

/* Whether so many blocks (0's based) can be transferred at once, by MDTS in pages of 2^(12 + mpsmin). */
static bool is_transferable(const struct fields *f, le16_t size)
{
        const struct id_ns *n = f->ns;
        unsigned lbads = n->lbaf[id_ns_format(n)].lbads, most = f->ctrl->mdts + 12u + CAP(51, 48);

        return !f->ctrl->mdts || lbads + 16u >= 64 || most >= 63 ||
               (U(size) + 1) << lbads <= UINT64_C(1) << most;
}

enum { GUARD_16, GUARD_32, GUARD_64, GUARDS };

/* Protection information of the format in use: its guard. */
static unsigned guard_of(const struct id_ns *n, const struct id_nvm_ns *x)
{
        const le32_t e = x->elbaf[id_ns_format(n)];

        return (unsigned)(BITS(e, 8, 7) == 3 ? BITS(e, 12, 9) : BITS(e, 8, 7));
}

static bool is_storage_tag_allowed(const struct id_ns *n, const struct id_nvm_ns *x)
{
        static const uint8_t least[GUARDS] = { 0, 16, 0 }, most[GUARDS] = { 32, 64, 48 };
        unsigned guard = guard_of(n, x);
        uint64_t sts = BITS(x->elbaf[id_ns_format(n)], 6, 0);

        return guard >= GUARDS || (sts >= least[guard] && sts <= most[guard]);
}

static bool is_mask_whole(const struct id_ns *n, const struct id_nvm_ns *x)
{
        unsigned sts = (unsigned)BITS(x->elbaf[id_ns_format(n)], 6, 0);
        uint64_t mask = sts < 64 ? (UINT64_C(1) << sts) - 1 : UINT64_MAX;

        return (U(x->lbstm) & mask) == mask;
}

/* What only a namespace that exists has. */
static bool is_common(const struct id_ns *n)
{
        return is_null(n, offsetof(struct id_ns, nsfeat)) && is_null(n->nvmcap, 16) &&
               !U(n->nvmsetid) && !U(n->endgid) && is_null(n->nguid, 16) && is_null(n->eui64, 8);
}

static bool is_nvm_common(const struct id_nvm_ns *x)
{
        return !U(x->lbstm) && !U(x->npdgl) && !U(x->nprg) && !U(x->npra) && !U(x->nors) &&
               !U(x->npdal) && !U(x->lbapss);
}

/* Of two optional fields that mean the same one may be left out. */
static bool is_told_alike(uint64_t a, uint64_t b)
{
        return !a || !b || a == b;
}

/* Descriptors beyond ND. */
static bool is_unused(const struct id_granularity *g)
{
        return g->nd >= 64 || is_null(&g->ngd[g->nd + 1], (63u - g->nd) * sizeof(g->ngd[0]));
}

/* --- the rows ----------------------------------------------------------------------------------- */

enum {
#define VALUE(sym, ...) sym,
#include "fields.def"
#undef VALUE
        FIELDS
};

#define V(major, minor) NVME_VERSION(major, minor, 0)
#define TYPE(t)         (1u << (t))
#define ANY             0
#define IO              TYPE(CNTRLTYPE_IO)
#define DISCOVERY       TYPE(CNTRLTYPE_DISCOVERY)
#define NOT_DISCOVERY   (IO | TYPE(CNTRLTYPE_ADMIN))

static const struct field_duty duties[FIELDS] = {
#define VALUE(sym, rule, looks, types, since, key, says, seen, holds)                              \
        [sym] = { rule, looks, types, since, key, says },
#include "fields.def"
#undef VALUE
};

const struct field_duty *field_duty(unsigned i)
{
        return i < FIELDS ? &duties[i] : NULL;
}

bool field_applies(const struct fields *f, unsigned i)
{
        const struct field_duty *d = &duties[i];

        return (f->known & d->looks) == d->looks && f->vs >= d->since &&
               (d->types == ANY || d->types & TYPE(f->cntrltype));
}

bool field_holds(const struct fields *f, unsigned i, uint64_t *seen)
{
        const struct id_ctrl *c = f->ctrl;
        const struct id_ns *n = f->ns;
        const struct id_ns_independent *nsi = f->nsi;
        const struct id_nvm_ctrl *v = f->nvm;
        const struct id_nvm_ns *x = f->nvm_ns;
        const struct id_granularity *g = f->granularity;
        uint64_t unused;

        if (!seen)
                seen = &unused;
        switch (i) {
#define VALUE(sym, rule, looks, types, since, key, says, field, holds)                             \
        case sym:                                                                                  \
                *seen = (field);                                                                   \
                return (holds);
#include "fields.def"
#undef VALUE
        default:
                return true;
        }
}

void fields_judge(const struct fields *f, unsigned news, struct rule_set *found)
{
        for (unsigned i = 0; i < FIELDS; i++)
                if (duties[i].looks & news && field_applies(f, i) && !field_holds(f, i, NULL))
                        rule_add(found, duties[i].rule);
}

unsigned fields_explain(const struct fields *f, enum rule_id rule, struct text *text)
{
        unsigned n = 0;
        uint64_t seen;

        for (unsigned i = 0; i < FIELDS; i++)
                if (duties[i].rule == rule && field_applies(f, i) && !field_holds(f, i, &seen))
                        text_add(text, "%s%s (%s): seen %" PRIX64 "h", n++ > 0 ? "; " : "",
                                 duties[i].says, duties[i].key, seen);
        return n;
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "pages.h"

#include <inttypes.h>
#include <string.h>

#include "discovery.h"
#include "fabrics.h"
#include "identify.h"
#include "logs.h"

/* --- what the rows of pages.def ask ------------------------------------------------------------- */

#define U(field)   le_get((const uint8_t *)&(field), sizeof(field))
#define BIT(v, n)  ((v) >> (n)&1)
#define D(at)      ((uint32_t)le_get(p->data + (at), 4))
#define ENTRY(i)   D((i)*4u)
#define FIRST(bad) first_entry(p, bad)
#define SLOTS      (c->frmw >> 1 & 7u)
#define LATER      (p->vs > NVME_VERSION(2, 2, 0xff))

static bool zero(const struct page *p, size_t first, size_t last)
{
        for (size_t i = first; i <= last; i++)
                if (p->data[i])
                        return false;
        return true;
}

/* Bit 0: LSUPP, CSUPP or FSUPP of a log page, command (I/O commands from 100h on) or feature. */
static bool has(const struct page *p, unsigned i)
{
        return ENTRY(i) & 1;
}

static bool changes(const struct page *p, unsigned opcode)
{
        return !has(p, opcode) || BIT(ENTRY(opcode), 1);
}

static unsigned entries(const struct page *p)
{
        switch (p->lid) {
        case LOG_ERROR:
                return (unsigned)(p->len / sizeof(struct log_error));
        case LOG_EFFECTS:
                return 512;
        case LOG_DISCOVERY:
                return (unsigned)(p->len / DISC_ENTRY_LEN - 1);
        default:
                return 256;
        }
}

static unsigned first_entry(const struct page *p, bool (*bad)(const struct page *p, unsigned i))
{
        for (unsigned i = 0; i < entries(p); i++)
                if (bad(p, i))
                        return i + 1;
        return 0;
}

/* --- supported log pages, commands and features */

struct range {
        uint8_t first, last;
};

static bool in_ranges(const struct range *list, size_t n, unsigned i)
{
        for (size_t k = 0; k < n; k++)
                if (i >= list[k].first && i <= list[k].last)
                        return true;
        return false;
}
#define IN(list, i) in_ranges(list, sizeof(list) / sizeof((list)[0]), i)

static bool indexed(const struct page *p, unsigned lid)
{
        return BIT(ENTRY(lid), 1);
}

static bool sup_reserved(const struct page *p, unsigned lid)
{
        return ENTRY(lid) & 0xfffc;
}

/* B2.2 3.1.3.5 (figure 31) */
static bool not_of_discovery(const struct page *p, unsigned lid)
{
        static const struct range none[] = { { 0x02, 0x04 }, { 0x06, 0x0d }, { 0x0f, 0x11 },
                                             { 0x14, 0x17 }, { 0x19, 0x1c }, { 0x20, 0x23 },
                                             { 0x80, 0x81 } };

        return has(p, lid) && IN(none, lid);
}

/* B2.2 3.1.3.4 (figure 28) */
static bool not_of_io(const struct page *p, unsigned opcode)
{
        static const struct range none[] = { { 0x21, 0x22 }, { 0x25, 0x25 }, { 0x28, 0x2a },
                                             { 0x2d, 0x2d }, { 0x31, 0x31 }, { 0x35, 0x35 },
                                             { 0x39, 0x39 } };

        return opcode < 256 && has(p, opcode) && IN(none, opcode);
}

static bool command_not_of_discovery(const struct page *p, unsigned opcode)
{
        static const struct range none[] = {
                { 0x0d, 0x0d }, { 0x10, 0x11 }, { 0x14, 0x15 }, { 0x19, 0x1a }, { 0x1c, 0x1e },
                { 0x20, 0x20 }, { 0x24, 0x24 }, { 0x28, 0x28 }, { 0x2a, 0x2a }, { 0x2d, 0x2d },
                { 0x31, 0x31 }, { 0x35, 0x35 }, { 0x3d, 0x3e }, { 0x41, 0x42 }, { 0x45, 0x45 },
                { 0x7c, 0x7c }, { 0x80, 0x82 }, { 0x84, 0x86 }, { 0x88, 0x89 },
        };

        return has(p, opcode) && (opcode > 255 || IN(none, opcode));
}

/* B2.2 3.1.3.6 (figure 32) */
static bool feature_not_of_discovery(const struct page *p, unsigned fid)
{
        static const struct range none[] = { { 0x01, 0x02 }, { 0x04, 0x04 }, { 0x06, 0x09 },
                                             { 0x0c, 0x0e }, { 0x10, 0x14 }, { 0x16, 0x1b },
                                             { 0x1d, 0x1f }, { 0x21, 0x21 }, { 0x80, 0x85 } };

        return has(p, fid) && IN(none, fid);
}

static bool feature_not_of_admin(const struct page *p, unsigned fid)
{
        static const struct range none[] = {
                { 0x01, 0x01 }, { 0x06, 0x09 }, { 0x19, 0x1a }, { 0x1d, 0x1e }, { 0x82, 0x83 }
        };

        return has(p, fid) && IN(none, fid);
}

static bool io_command(const struct page *p, unsigned opcode)
{
        return opcode > 255 && has(p, opcode);
}

/* Commands that a bit of OACS or ONCS announces: { opcode, bit }. */
struct announced {
        uint8_t opcode, bit;
};

static bool differs(const struct page *p, const struct announced *list, size_t n, unsigned from,
                    uint64_t bits, unsigned opcode)
{
        for (size_t k = 0; k < n; k++)
                if (from + list[k].opcode == opcode)
                        return has(p, opcode) != BIT(bits, list[k].bit);
        return false;
}

/* Get LBA Status may be supported for its action 02h alone, which RALBAS announces and not OACS (N1.2 4.1.5.4). */
static bool not_as_oacs(const struct page *p, unsigned opcode)
{
        enum { GET_LBA_STATUS = 0x86, GLSS = 9 };
        static const struct announced list[] = {
                { 0x81, 0 }, { 0x82, 0 }, { 0x80, 1 }, { 0x10, 2 }, { 0x11, 2 },
                { 0x0d, 3 }, { 0x15, 3 }, { 0x14, 4 }, { 0x19, 5 }, { 0x1a, 5 },
                { 0x1d, 6 }, { 0x1e, 6 }, { 0x1c, 7 }, { 0x7c, 8 }, { 0x24, 10 },
        };
        uint64_t oacs = U(p->ctrl->oacs);

        if (opcode == GET_LBA_STATUS)
                return BIT(oacs, GLSS) && !has(p, opcode);
        return differs(p, list, sizeof(list) / sizeof(list[0]), 0, oacs, opcode);
}

/* Others may be announced by a size limit instead (since NVMe 2.0). */
static bool not_as_oncs(const struct page *p, unsigned opcode)
{
        static const struct announced exactly[] = { { 0x05, 0 }, { 0x0d, 5 }, { 0x0e, 5 },
                                                    { 0x11, 5 }, { 0x15, 5 }, { 0x19, 8 } };
        static const struct announced limited[] = {
                { 0x04, 1 }, { 0x09, 2 }, { 0x08, 3 }, { 0x0c, 7 }
        };
        uint64_t oncs = U(p->ctrl->oncs);

        return differs(p, exactly, sizeof(exactly) / sizeof(exactly[0]), 0x100, oncs, opcode) ||
               (!has(p, opcode) &&
                differs(p, limited, sizeof(limited) / sizeof(limited[0]), 0x100, oncs, opcode));
}

static bool eff_none(const struct page *p, unsigned opcode)
{
        return !has(p, opcode) && ENTRY(opcode);
}

static bool eff_cser(const struct page *p, unsigned opcode)
{
        return (ENTRY(opcode) >> 14 & 3) == 1 && (ENTRY(opcode) >> 16 & 7) != 1;
}

static bool eff_reserved(const struct page *p, unsigned opcode)
{
        uint32_t e = ENTRY(opcode);

        return e & 0xfc003fe0 || (e >> 16 & 7) > 2 || (e >> 14 & 3) > 1;
}

static bool fid_none(const struct page *p, unsigned fid)
{
        return !has(p, fid) && ENTRY(fid);
}

static bool fid_reserved(const struct page *p, unsigned fid)
{
        return ENTRY(fid) & 0xf807ffe0;
}

/* B2.2 5.1.25 (figure 386), N1.2 4.1.3 (figure 91): bit of the scope; those with a single one. */
static bool fid_scope(const struct page *p, unsigned fid)
{
        enum {
                NS = 1 << 0,
                CTRL = 1 << 1,
                NVM_SET = 1 << 2,
                GROUP = 1 << 3,
                DOMAIN = 1 << 4,
                SUBSYSTEM = 1 << 5
        };
        static const uint8_t scopes[256] = {
                [0x01] = CTRL, [0x02] = CTRL,      [0x03] = NS,        [0x04] = CTRL,
                [0x05] = NS,   [0x06] = CTRL,      [0x07] = CTRL,      [0x0a] = CTRL,
                [0x0b] = CTRL, [0x0c] = CTRL,      [0x0e] = CTRL,      [0x0f] = CTRL,
                [0x10] = CTRL, [0x11] = CTRL,      [0x13] = NVM_SET,   [0x14] = NVM_SET,
                [0x15] = CTRL, [0x16] = CTRL,      [0x17] = SUBSYSTEM, [0x18] = GROUP,
                [0x19] = CTRL, [0x1a] = SUBSYSTEM, [0x1b] = DOMAIN,    [0x1d] = GROUP,
                [0x1f] = NS,   [0x78] = SUBSYSTEM, [0x79] = SUBSYSTEM, [0x7d] = CTRL,
                [0x7e] = CTRL, [0x80] = CTRL,      [0x81] = CTRL,      [0x82] = NS,
                [0x83] = NS,   [0x84] = NS,        [0x85] = CTRL,
        };

        return has(p, fid) && scopes[fid] && ENTRY(fid) >> 20 != scopes[fid];
}

static bool two_scopes(const struct page *p, unsigned opcode)
{
        uint32_t scope = ENTRY(opcode) >> 20;

        return scope & (scope - 1);
}

/* --- error log */

static const struct log_error *error(const struct page *p, unsigned i)
{
        return (const struct log_error *)(const void *)p->data + i;
}

static bool used(const struct page *p, unsigned i)
{
        return U(error(p, i)->count);
}

static bool err_order(const struct page *p, unsigned i)
{
        return i > 0 && used(p, i) && used(p, i - 1) &&
               U(error(p, i)->count) >= U(error(p, i - 1)->count);
}

static bool err_no_command(const struct page *p, unsigned i)
{
        const struct log_error *e = error(p, i);

        return used(p, i) && U(e->sqid) == 0xffff && (U(e->cid) != 0xffff || U(e->pel) != 0xffff);
}

static bool err_trtype(const struct page *p, unsigned i)
{
        uint8_t type = error(p, i)->trtype;

        return used(p, i) && type > TRTYPE_TCP && type != TRTYPE_LOOP;
}

static bool err_pel(const struct page *p, unsigned i)
{
        uint64_t pel = U(error(p, i)->pel);

        return used(p, i) && pel != 0xffff &&
               (pel & 0xff) >= sizeof(union sqe); /* bits 15:11 are reserved */
}

/* ICReq and ICResp are the longest headers. */
static bool err_ttsi(const struct page *p, unsigned i)
{
        const struct log_error *e = error(p, i);

        return used(p, i) && e->trtype == TRTYPE_TCP && U(e->ttsi) >= 128;
}

static bool err_lpver(const struct page *p, unsigned i)
{
        return used(p, i) && error(p, i)->lpver != 1;
}

static bool err_vsia(const struct page *p, unsigned i)
{
        return used(p, i) && error(p, i)->vsia && error(p, i)->vsia < 0x80;
}

static bool err_reserved(const struct page *p, unsigned i)
{
        return used(p, i) &&
               !zero(p, i * sizeof(struct log_error) + 42, i * sizeof(struct log_error) + 62);
}

/* --- lists of namespaces: number + 1 of the first entry that has no place in one */

static unsigned list_fault(const struct page *p)
{
        size_t n = p->len / 4 < LOG_CHANGED_NS_MAX ? p->len / 4 : LOG_CHANGED_NS_MAX;
        uint32_t last = 0;
        bool ended = false;

        for (size_t i = 0; i < n; i++) {
                uint32_t nsid = ns_list_get(p->data, i);

                if (nsid && (ended || nsid <= last || (nsid == UINT32_MAX && i > 0)))
                        return (unsigned)i + 1;
                ended = nsid == 0 || nsid == UINT32_MAX;
                last = nsid;
        }
        return 0;
}

/* --- ANA: the number of the first group, from 1, for which it is so; groups that are there */

struct group {
        const struct ana_group *g, *before;
        const void *nsids;
        size_t count;
        const struct id_ctrl *ctrl;
};

static unsigned ana_fault(const struct page *p, bool (*bad)(const struct group *g))
{
        const struct log_ana *log = (const void *)p->data;
        size_t at = sizeof(*log);
        struct group g = { .ctrl = p->ctrl };

        for (unsigned i = 0; i < le16_get(log->ngrps); i++, g.before = g.g) {
                g.g = ana_group_next(p->data, p->len, &at, &g.nsids, &g.count);
                if (!g.g)
                        return 0;
                if (bad(&g))
                        return i + 1;
        }
        return 0;
}

static bool ana_group_order(const struct group *g)
{
        return g->before && U(g->g->grpid) <= U(g->before->grpid);
}

static bool ana_nsids(const struct group *g)
{
        for (size_t i = 1; i < g->count; i++)
                if (ns_list_get(g->nsids, i) <= ns_list_get(g->nsids, i - 1))
                        return true;
        return false;
}

static bool ana_empty(const struct group *g)
{
        return U(g->g->nnsids) == 0;
}

static bool ana_filled(const struct group *g)
{
        return U(g->g->nnsids) != 0;
}

static bool ana_state(const struct group *g)
{
        uint8_t state = g->g->state & 15;

        return state == 0 || (state > ANA_PERSISTENT_LOSS && state != ANA_CHANGE);
}

/* States that are none are another duty's. */
static bool ana_unannounced(const struct group *g)
{
        uint8_t state = g->g->state & 15;
        unsigned bit = state == ANA_CHANGE ? 4 : state - 1u;

        return !ana_state(g) && !(g->ctrl->anacap >> bit & 1);
}

static bool ana_id(const struct group *g)
{
        return U(g->g->grpid) == 0 || U(g->g->grpid) > U(g->ctrl->anagrpmax);
}

static bool ana_reserved(const struct group *g)
{
        return g->g->state >> 4 || le_get(g->g->rsvd17, 8) || le_get(g->g->rsvd17 + 8, 7);
}

/* --- Persistent Event: the number of the first event, from 1, for which it is so. bad NULL: whose
 * length does not fit the log's. Events that are not wholly there are not looked at. */

static unsigned pel_fault(const struct page *p, bool (*bad)(const struct log_pel_event *e))
{
        const struct log_pel *log = (const void *)p->data;
        uint64_t at = sizeof(*log), end = U(log->tll);
        unsigned i = 0;

        for (; i < U(log->tnev) && at + sizeof(struct log_pel_event) <= p->len; i++) {
                const struct log_pel_event *e = (const void *)(p->data + at);

                if (!e->type && !e->ehl) /* emptied by who made the capture */
                        return 0;
                at += e->ehl + 3u + U(e->el);
                if (!bad && (at > end || U(e->vsil) > U(e->el)))
                        return i + 1;
                if (at > p->len)
                        return 0;
                if (bad && bad(e))
                        return i + 1;
        }
        return !bad && i == U(log->tnev) && at != end ? i + 1 : 0;
}

static bool pel_port(const struct log_pel_event *e)
{
        unsigned type = e->ehai & 3;

        return type == 0 || (type == 3 && U(e->port));
}

static bool pel_revision(const struct log_pel_event *e)
{
        static const uint8_t revisions[] = { 0, 1, 1, 1, 1, 2, 2, 1, 2, 1, 1, 1, 1, 1 };

        return e->type < sizeof(revisions) && e->revision != revisions[e->type];
}

static bool pel_reset(const struct log_pel_event *e)
{
        enum { RESET = 4, FIRMWARE = 8, DESCRIPTOR = 36 };
        uint64_t n = U(e->el) - U(e->vsil) - FIRMWARE;

        return e->type == RESET && (n == 0 || n % DESCRIPTOR || n > UINT16_MAX);
}

/* --- discovery: entries that are within NUMREC; where extended ones may be among them nothing tells where they are */

static const struct disc_entry *disc(const struct page *p, unsigned i)
{
        static const struct disc_entry none = { .cntlid = { .b = { 0xff, 0xff } } };
        const struct disc_header *h = (const void *)p->data;
        bool extended = p->lsp & 1 || h->flags & DLPF_EXTENDED;
        const struct disc_entry *e = extended ? NULL : disc_log_entry(p->data, p->len, i);

        return e ? e : &none;
}

static bool disc_cntlid(const struct page *p, unsigned i)
{
        uint64_t cntlid = U(disc(p, i)->cntlid);

        return cntlid > CNTLID_MAX && cntlid < CNTLID_STATIC;
}

static bool disc_mixed(const struct page *p, unsigned i)
{
        const struct disc_entry *e = disc(p, i);

        for (unsigned k = 0; k < i && e->subtype == SUBTYPE_NVM; k++) {
                const struct disc_entry *o = disc(p, k);

                if (o->subtype == SUBTYPE_NVM && strncmp(o->subnqn, e->subnqn, NQN_FIELD) == 0 &&
                    (U(o->cntlid) == CNTLID_DYNAMIC) != (U(e->cntlid) == CNTLID_DYNAMIC))
                        return true;
        }
        return false;
}

static bool disc_name(const struct page *p, unsigned i)
{
        const struct disc_entry *e = disc(p, i);

        return memchr(e->subnqn, 0, sizeof(e->subnqn)) && !nqn_is_formed(e->subnqn);
}

static bool disc_treq(const struct page *p, unsigned i)
{
        uint8_t treq = disc(p, i)->treq;

        return (treq & 3) == 3 || (treq >> 4 & 3) == 3;
}

static bool disc_duplicate(const struct page *p, unsigned i)
{
        const struct disc_entry *e = disc(p, i);

        return U(e->eflags) & EFLAGS_DUPRETINFO && e->subtype != SUBTYPE_CURRENT;
}

static bool disc_persistent(const struct page *p, unsigned i)
{
        const struct disc_entry *e = disc(p, i);

        return U(e->eflags) & EFLAGS_EPCSD && e->subtype == SUBTYPE_NVM;
}

static bool disc_unconnected(const struct page *p, unsigned i)
{
        return BIT(U(disc(p, i)->eflags), 2);
}

static bool disc_reserved(const struct page *p, unsigned i)
{
        const struct disc_entry *e = disc(p, i);
        bool set = e->treq & 0xc0 || U(e->eflags) & 0xfff8;

        for (unsigned k = 0; k < sizeof(e->rsvd12); k++)
                set |= e->rsvd12[k] != 0;
        for (unsigned k = 0; k < sizeof(e->rsvd64); k++)
                set |= e->rsvd64[k] != 0;
        return set;
}

/* --- the rows ----------------------------------------------------------------------------------- */

enum {
#define VALUE(sym, ...) sym,
#include "pages.def"
#undef VALUE
        PAGES
};

#define V(major, minor) NVME_VERSION(major, minor, 0)
#define TYPE(t)         (1u << (t))
#define ANY             0
#define IO              TYPE(CNTRLTYPE_IO)
#define DISCOVERY       TYPE(CNTRLTYPE_DISCOVERY)
#define ADMIN           TYPE(CNTRLTYPE_ADMIN)
#define NOT_DISCOVERY   (IO | ADMIN)

static const struct page_duty duties[PAGES] = {
#define VALUE(sym, rule, lid, least, types, ctrl, since, key, says, seen, holds)                   \
        [sym] = { rule, lid, least, types, ctrl, since, key, says },
#include "pages.def"
#undef VALUE
};

const struct page_duty *page_duty(unsigned i)
{
        return i < PAGES ? &duties[i] : NULL;
}

bool page_applies(const struct page *p, unsigned i)
{
        const struct page_duty *d = &duties[i];

        return p->lid == d->lid && p->len >= d->least && p->vs >= d->since &&
               (!d->ctrl || p->ctrl) && (d->types == ANY || d->types & TYPE(p->cntrltype));
}

bool page_holds(const struct page *p, unsigned i, uint64_t *seen)
{
        const struct id_ctrl *c = p->ctrl;
        uint64_t unused;

        if (!seen)
                seen = &unused;
        switch (i) {
#define VALUE(sym, rule, lid, least, types, ctrl, since, key, says, shown, holds)                  \
        case sym:                                                                                  \
                *seen = (shown);                                                                   \
                return (holds);
#include "pages.def"
#undef VALUE
        default:
                return true;
        }
}

void page_judge(const struct page *p, struct rule_set *found)
{
        for (unsigned i = 0; i < PAGES; i++)
                if (page_applies(p, i) && !page_holds(p, i, NULL))
                        rule_add(found, duties[i].rule);
}

unsigned page_explain(const struct page *p, enum rule_id rule, struct text *text)
{
        unsigned n = 0;
        uint64_t seen;

        for (unsigned i = 0; i < PAGES; i++)
                if (duties[i].rule == rule && page_applies(p, i) && !page_holds(p, i, &seen))
                        text_add(text, "%slog page %02Xh: %s (%s): seen %" PRIX64 "h",
                                 n++ > 0 ? "; " : "", duties[i].lid, duties[i].says, duties[i].key,
                                 seen);
        return n;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Each requirement of fields.def: a right controller keeps it, one change breaks it and no other. */
#include "pdu/core/tests/check.h"

#include "pdu/nvme/wire/fabrics.h"
#include "pdu/nvme/wire/fields.h"

struct world {
        struct id_ctrl ctrl;
        struct id_ns ns;
        struct id_ns_independent nsi;
        struct id_nvm_ctrl nvm;
        struct id_nvm_ns nvm_ns, nvm_common;
        struct id_ns common;
        struct id_granularity granularity;
        struct fields f;
};

/* NVMe 2.2, with nothing that is optional. */
static void make(struct world *w, uint8_t cntrltype)
{
        bool io = cntrltype == CNTRLTYPE_IO;

        memset(w, 0, sizeof(*w));
        w->f = (struct fields) { .known = ~0u,
                                 .cntrltype = cntrltype,
                                 .vs = NVME_VERSION(2, 2, 0),
                                 .cap = CAP_CSS_NVM | UINT64_C(2) << 24,
                                 .crto = 2,
                                 .ctrl = &w->ctrl,
                                 .ns = &w->ns,
                                 .nsi = &w->nsi,
                                 .nvm = &w->nvm,
                                 .nvm_ns = &w->nvm_ns,
                                 .common = &w->common,
                                 .nvm_common = &w->nvm_common,
                                 .granularity = &w->granularity };
        w->ctrl.ver = le32(w->f.vs);
        w->ctrl.oaes = le32(io ? 0 : OAES_DISCOVERY);
        w->ctrl.kas = le16(io ? 0 : 10);
        if (!io)
                return;
        w->ctrl.acl = w->ctrl.aerl = 3;
        w->ctrl.frmw = 2;
        w->ctrl.rsvd102[0] = 1;
        w->ctrl.wctemp = w->ctrl.cctemp = le16(300);
        w->ctrl.vwc = 4;
        w->ns.lbaf[0].lbads = 9;
        w->nvm.ver = le32(NVME_VERSION(1, 2, 0));
}

/* What breaks one requirement: bytes of a structure, and what else has to be so for it to count. */
struct place {
        enum {
                IN_CAP,
                IN_CRTO,
                IN_CTRL,
                IN_NS,
                IN_NSI,
                IN_NVM,
                IN_NVM_NS,
                IN_COMMON,
                IN_NVM_COMMON,
                IN_GRANULARITY
        } where;
        uint16_t at;
        uint8_t bytes;
        uint64_t value;
};
struct change {
        const char *key;
        struct place it;
        bool discovery;
};
struct combined { /* of an I/O controller */
        const char *key;
        struct place of[4];
};
#define C(member) IN_CTRL, offsetof(struct id_ctrl, member), sizeof(((struct id_ctrl *)0)->member)
#define N(member) IN_NS, offsetof(struct id_ns, member), sizeof(((struct id_ns *)0)->member)
#define I(member)                                                                                  \
        IN_NSI, offsetof(struct id_ns_independent, member),                                        \
            sizeof(((struct id_ns_independent *)0)->member)
#define BIT(n) (UINT64_C(1) << (n))
#define RIGHT  (CAP_CSS_NVM | UINT64_C(2) << 24)

#define V(member)                                                                                  \
        IN_NVM, offsetof(struct id_nvm_ctrl, member), sizeof(((struct id_nvm_ctrl *)0)->member)
#define X(member)                                                                                  \
        IN_NVM_NS, offsetof(struct id_nvm_ns, member), sizeof(((struct id_nvm_ns *)0)->member)
/* Of the format in use, whose protection information counts with TYPE_1. */
#define ELBAF(pif, sts)                                                                            \
        {                                                                                          \
                X(elbaf[0]), (pif) << 7 | (sts)                                                    \
        }
#define TYPE_1                                                                                     \
        {                                                                                          \
                N(dps), 1                                                                          \
        }

static const struct change changes[] = {
        { "B2.2/3.1.4.1/a", { IN_CAP, 0, 8, RIGHT | BIT(61) }, false },
        { "B2.2/3.1.4.1/a", { IN_CAP, 0, 8, RIGHT | BIT(58) | BIT(36) | BIT(46) }, false },
        { "B2.2/3.1.4.1/b", { IN_CAP, 0, 8, RIGHT | BIT(58) | BIT(46) }, false },
        { "B2.2/3.1.4.1/e", { IN_CAP, 0, 8, RIGHT | BIT(58) | BIT(36) | BIT(61) }, false },
        { "B2.2/3.1.4.1/j", { IN_CAP, 0, 8, UINT64_C(2) << 24 }, false },
        { "B2.2/3.1.4.1/n", { IN_CAP, 0, 8, CAP_CSS_NVM | UINT64_C(1) << 24 }, false },
        { "B2.2/3.1.4.21/b", { IN_CRTO, 0, 4, 0x10002 }, false },
        { "B2.2/3.1.4.21/d", { IN_CRTO, 0, 4, 0x30002 }, false },
        { "B2.2/3.1.4.21/c", { IN_CRTO, 0, 4, 0x1000fff }, false },
        { "B2.2/3.1.4.1/i", { IN_CAP, 0, 8, RIGHT | CAP_CSS_IOCSS }, true },
        { "B2.2/5.1.13.2.1/af", { C(frmw), 1 }, false },
        { "B2.2/5.1.13.2.1/aj", { C(npss), 32 }, false },
        { "B2.2/5.1.13.2.1/ak", { C(wctemp), 0 }, false },
        { "B2.2/5.1.13.2.1/ak", { C(cctemp), 0 }, false },
        { "B2.2/5.1.13.2.1/ap", { C(sanicap), 1 }, false },
        { "B2.2/5.1.13.2.1/ap", { C(sanicap), UINT32_C(1) << 30 | 8 }, false },
        { "B2.2/5.1.13.2.1/bf", { C(vwc), 1 }, false },
        { "B2.2/5.1.13.2.1/be", { C(fna), 9 }, false },
        { "B2.2/5.1.13.2.1/n", { C(ver), 0 }, false },
        { "N1.2/4.1.5.2/a", { C(awupf), 1 }, false },
        { "B2.2/5.1.13.2.1/ca", { C(dctype), 1 }, false },
        { "B2.2/5.1.13.2.1/v", { C(ctratt), BIT(19) | BIT(11) }, false },
        { "B2.2/5.1.13.2.1/v", { C(ctratt), BIT(7) }, false },
        { "B2.2/5.1.13.2.1/al", { C(hmmin), 1 }, false },
        { "B2.2/5.1.13.2.1/an", { C(rpmbs), 1 }, false },
        { "B2.2/5.1.13.2.1", { C(dsto), 2 }, false },
        { "B2.2/5.1.13.2.1/ar", { C(anacap), 0x80 }, false },
        { "B2.2/5.1.13.2.1/at", { C(domainid), 1 }, false },
        { "B2.2/5.1.13.2.1/at", { C(ctratt), BIT(10) }, false },
        { "B2.2/5.1.13.2.1/au", { IN_CTRL, 360, 2, 1 }, false },
        { "B2.2/5.1.13.2.1/bi", { C(nwpc), 2 }, false },
        { "N1.2/4.1.5.2/b", { C(acwu), 1 }, false },
        { "B2.2/5.1.13.2.1/aq", { C(anatt), 1 }, false },
        { "B2.2/5.1.13.2.1/aq", { C(anagrpmax), 1 }, false },
        { "B2.2/5.1.13.2.1/aq", { C(nanagrpid), 1 }, false },
        { "B2.2/5.1.13.2.1/aq", { C(cmic), 8 }, false },
        { "B2.2/8.1.1.1/d", { C(cmic), 8 }, false },
        { "B2.2/8.1.1.1/f", { C(cmic), 8 }, false },
        { "B2.2/5.1.13.2.1/cd", { C(psd[0].rwl), 1 }, false },
        { "B2.2/5.1.13.2.1/ce", { C(psd[0].actp), 1 }, false },
        { "B2.2/5.1.13.2.1/ce", { C(psd[0].aps), 1 }, false },
        { "B2.2/5.1.13.2.1/c", { C(sn[3]), 'x' }, true },
        { "B2.2/5.1.13.2.1/r", { C(ctratt), 1 }, true },
        { "B2.2/5.1.13.2.1/cb", { C(vid), 0x1000 }, true },
        { "B2.2/5.1.13.2.1/cb", { IN_CTRL, 3071, 1, 1 }, true },
        { "B2.2/5.1.13.2.1/ca", { C(dctype), 3 }, true },
        { "B2.2/5.1.13.2.1/cc", { IN_CTRL, 2047, 1, 1 }, true },
        { "N1.2/4.1.5.1/j", { N(flbas), 1 }, false },
        { "N1.2/4.1.5.1/l", { N(lbaf[0].ms), 8 }, false },
        { "N1.2/4.1.5.1/ad", { N(lbaf[0].lbads), 8 }, false },
        { "N1.2/4.1.5.1/m", { N(dpc), 8 }, false },
        { "N1.2/4.1.5.1/n", { N(dps), 8 }, false },
        { "N1.2/4.1.5.1/n", { N(dps), 1 }, false },
        { "N1.2/4.1.5.1/ae", { N(dps), 1 }, false },
        { "N1.2/4.1.5.1/s", { N(nabo), 1 }, false },
        { "N1.2/4.1.5.1/z", { N(kpios), 1 }, false },
        { "N1.2/4.1.5.1/y", { C(oncs), BIT(8) }, false },
        { "B2.2/5.1.13.2.8/i", { N(anagrpid), 1 }, false },
        { "B2.2/5.1.13.2.8/l", { N(nvmsetid), 1 }, false },
        { "B2.2/5.1.13.2.8/l", { N(endgid), 1 }, false },
        { "N1.2/4.1.5.1/g", { N(nacwu), 1 }, false },
        { "N1.2/4.1.5.1/p", { N(dlfeat), 3 }, false },
        { "N1.2/4.1.5.4/d", { IN_NVM, 17, 1, 1 }, false },
        { "N1.2/4.1.5.4/c", { C(oncs), BIT(11) | BIT(3) }, false },
        { "B2.2/5.1.13.2.1/bc", { C(oncs), BIT(12) }, false },
        { "B2.2/5.1.13.2.8/c", { I(nsfeat), 8 }, false },
        { "B2.2/5.1.13.2.8/d", { I(nmic), 2 }, false },
        { "B2.2/8.1.22/k", { N(rescap), 0x82 }, false },
        { "B2.2/5.1.13.2.8/g", { I(rescap), 1 }, false },
        { "B2.2/5.1.13.2.8/h", { I(fpi), 1 }, false },
        { "B2.2/5.1.13.2.8/h", { I(fpi), 0xff }, false },
        { "B2.2/5.1.13.2.8/n", { I(kpios), 1 }, false },
        { "N1.2/4.1.5.1/o", { I(anagrpid), 1 }, false },
        { "N1.2/2.1.1/e", { N(nsze), 1 }, false },
        { "N1.2/5.5/a", { N(nulbaf), 64 }, false },
        { "N1.2/4.1.5.1/v", { N(nows), 1 }, false },
        { "N1.2/4.1.5.1/ac", { N(rsvd83), 1 }, false },
        { "N1.2/3.3.3.1/a", { V(dmrl), 1 }, false },
        { "N1.2/3.3.2.2/a", { C(oncs), BIT(8) }, false },
        { "N1.2/3.3.2/e", { C(oncs), BIT(8) | BIT(9) }, false },
        { "N1.2/4.1.5.4/g", { V(ver), 0x10300 }, false },
        { "N1.2/4.1.5.4/e", { V(aocs), 2 }, false },
        { "N1.2/4.1.5.3/c", { X(pic), 1 }, false },
        { "N1.2/4.1.5.3/e", { X(pifa), 2 }, false },
        { "N1.2/4.1.5.3/h", { X(npdal), 1 }, false },
        { "N1.2/4.1.5.3/h", { X(nors), 1 }, false },
        { "N1.2/4.1.5.3/i", { X(rsvd10[1]), 1 }, false },
        { "B2.2/5.1.13.2.1/g", { C(cmic), 4 }, false },
        { "B2.2/5.1.13.2.1/g", { C(cmic), 0x10 }, false },
        { "B2.2/5.1.13.2.1/aa", { IN_CTRL, 254, 1, 1 }, false },
        { "B2.2/5.1.13.2.1/ad", { C(acl), 2 }, false },
        { "B2.2/5.1.13.2.1/ae", { C(aerl), 2 }, false },
        { "B2.2/5.1.13.2.1/am", { C(oacs), 8 }, false },
        { "B2.2/5.1.13.2.1/bp", { C(maxcna), 1 }, false },
        { "B2.2/5.1.13.2.1/bq", { IN_CTRL, 575, 1, 1 }, false },
        { "B2.2/5.1.13.2.1", { IN_CTRL, 568, 1, 1 }, false },
        { "B2.2/3.1.3.3/l", { C(oaes), 0 }, true },
        { "B2.2/5.1.13.2.1/p", { C(oaes), 1 }, false },
        { "B2.2/5.1.13.2.1/bd", { C(fuses), 2 }, false },
        { "B2.2/5.1.13.2.1/bj", { C(cdfs), 0x20 }, false },
        { "B2.2/5.1.13.2.1/bx", { C(fcatt), 4 }, false },
        { "B2.2/5.1.13.2.8/p", { I(rsvd9), 1 }, false },
        { "B2.2/5.1.13.2.1/w", { IN_CTRL, 102, 1, 0 }, false },
        { "B2.2/5.1.13.2.1/w", { IN_CTRL, 102, 1, 3 }, false },
        { "B2.2/5.1.13.2.8/o", { I(rgrpid), 1 }, false },
        { "N1.2/4.1.5.1/c", { IN_COMMON, 0, 8, 1 }, false },
        { "N1.2/4.1.5.1/c", { IN_COMMON, 48, 8, 1 }, false },
        { "N1.2/4.1.5.1/c", { IN_COMMON, 100, 2, 1 }, false },
        { "N1.2/4.1.5.1/c", { IN_COMMON, 102, 2, 1 }, false },
        { "N1.2/4.1.5.1/c", { IN_COMMON, 104, 8, 1 }, false },
        { "N1.2/4.1.5.1/c", { IN_COMMON, 120, 8, 1 }, false },
        { "N1.2/4.1.5.3/a", { IN_NVM_COMMON, 0, 8, 1 }, false },
        { "N1.2/4.1.5.3/a", { IN_NVM_COMMON, 268, 4, 1 }, false },
        { "N1.2/4.1.5.3/a", { IN_NVM_COMMON, 272, 4, 1 }, false },
        { "N1.2/4.1.5.3/a", { IN_NVM_COMMON, 276, 4, 1 }, false },
        { "N1.2/4.1.5.3/a", { IN_NVM_COMMON, 280, 4, 1 }, false },
        { "N1.2/4.1.5.3/a", { IN_NVM_COMMON, 284, 4, 1 }, false },
        { "N1.2/4.1.5.3/a", { IN_NVM_COMMON, 288, 4, 1 }, false },
        { "N1.2/4.1.5.8/a", { IN_GRANULARITY, 4, 1, 1 }, false },
        { "N1.2/4.1.5.8/a", { IN_GRANULARITY, 0, 5, UINT64_C(2) << 32 | 1 }, false },
        { "N1.2/4.1.5.8/a", { IN_GRANULARITY, 4, 1, 64 }, false },
        { "N1.2/4.1.5.8/b", { IN_GRANULARITY, 48, 8, 512 }, false },
        { "N1.2/4.1.5.8/b", { IN_GRANULARITY, 0, 4, 2 }, false },
        { "N1.2/4.1.5.8/b", { IN_GRANULARITY, 31, 1, 1 }, false },
        { "N1.2/4.1.5.1/t", { C(oacs), 8 }, false },
        { "N1.2/5.2.1/b", { C(oacs), BIT(9) }, false },
};

static const struct combined combined[] = {
        { "N1.2/2.1.4.1/b", { { N(nawun), 1 }, { N(nsfeat), 2 }, { C(awun), 2 } } },
        { "N1.2/2.1.4.1/b", { { N(nawupf), 1 }, { N(nsfeat), 2 }, { C(awupf), 2 } } },
        { "N1.2/2.1.4.1/b", { { N(nacwu), 1 }, { N(nsfeat), 2 }, { C(acwu), 2 } } },
        { "N1.2/2.1.4.1/c", { { N(nawupf), 2 }, { N(nsfeat), 2 }, { N(nawun), 1 } } },
        { "N1.2/2.1.4.4/b", { { N(nabsn), 1 }, { C(awun), 2 } } },
        { "N1.2/2.1.4.4/b", { { N(nabspf), 1 }, { C(awupf), 2 } } },
        { "N1.2/2.1.4.5/a", { { N(nabsn), 1 }, { N(nsfeat), 0x40 } } },
        { "N1.2/4.1.5.1/v", { { N(npdg), 1 }, { N(nsfeat), 0x20 } } },
        { "N1.2/4.1.5.1/w", { { N(npwg), 1 }, { N(nsfeat), 0x10 }, { N(npwa), 2 } } },
        { "N1.2/4.1.5.1/w", { { N(npdg), 1 }, { N(nsfeat), 0x10 }, { N(npda), 2 } } },
        { "N1.2/4.1.5.1/w", { { N(nows), 1 }, { N(nsfeat), 0x10 }, { N(npwg), 2 } } },
        { "N1.2/4.1.5.1/w", { { N(nows), 16 }, { N(nsfeat), 0x10 }, { C(mdts), 1 } } },
        { "N1.2/4.1.5.3/c", { ELBAF(1u, 16u), TYPE_1 } },
        { "N1.2/4.1.5.3/b", { ELBAF(0u, 8u), TYPE_1, { X(pic), 3 } } },
        { "N1.2/4.1.5.3/d", { ELBAF(3u, 0u), TYPE_1, { X(pic), 8 }, { X(pifa), 2 } } },
        { "N1.2/4.1.5.3/f", { ELBAF(3u, 0u), TYPE_1 } },
        { "N1.2/4.1.5.3/g", { ELBAF(2u, 49u), TYPE_1 } },
        { "N1.2/5.3.1/a", { ELBAF(0u, 1u), TYPE_1 } },
        { "N1.2/5.3.1.2/a", { ELBAF(1u, 16u), TYPE_1 } },
        { "N1.2/5.3.1.3/a", { ELBAF(2u, 0u), TYPE_1 } },
        { "B2.2/3.1.4.1/f", { { IN_CAP, 0, 8, RIGHT | BIT(47) } } },
        { "B2.2/5.1.13.2.1/br", { { IN_CTRL, 582, 2, 2 }, { IN_CTRL, 584, 2, 1 } } },
        { "N1.2/5.2.1/b", { { C(oacs), BIT(9) }, { C(oaes), BIT(13) } } },
        { "B2.2/4.3.2/h", { { C(sgls), 2 << 8 }, { C(msdbd), 1 } } },
};

static void put(struct world *w, const struct place *p)
{
        uint8_t *base[] = {
                [IN_CTRL] = (uint8_t *)&w->ctrl,
                [IN_NS] = (uint8_t *)&w->ns,
                [IN_NSI] = (uint8_t *)&w->nsi,
                [IN_NVM] = (uint8_t *)&w->nvm,
                [IN_NVM_NS] = (uint8_t *)&w->nvm_ns,
                [IN_COMMON] = (uint8_t *)&w->common,
                [IN_NVM_COMMON] = (uint8_t *)&w->nvm_common,
                [IN_GRANULARITY] = (uint8_t *)&w->granularity,
        };

        if (p->where == IN_CAP)
                w->f.cap = p->value;
        else if (p->where == IN_CRTO)
                w->f.crto = (uint32_t)p->value;
        else
                le_put(base[p->where] + p->at, p->bytes, p->value);
}

static void test_right(void **state)
{
        static const uint8_t types[] = { CNTRLTYPE_IO, CNTRLTYPE_DISCOVERY };
        static struct world w;

        (void)state;
        for (size_t k = 0; k < sizeof(types); k++) {
                make(&w, types[k]);
                for (unsigned i = 0; field_duty(i); i++)
                        if (field_applies(&w.f, i) && !field_holds(&w.f, i, NULL))
                                fail_msg("%s: %s", field_duty(i)->key, field_duty(i)->says);
        }
}

static bool broken[512];

static void want_broken(const struct world *w, const char *key)
{
        bool any = false;

        for (unsigned i = 0; field_duty(i); i++)
                if (field_applies(&w->f, i) && !field_holds(&w->f, i, NULL)) {
                        broken[i] = true;
                        any |= strcmp(field_duty(i)->key, key) == 0;
                }
        if (!any)
                fail_msg("nothing breaks %s where something should", key);
}

static void test_broken(void **state)
{
        static struct world w;

        (void)state;
        for (size_t k = 0; k < sizeof(changes) / sizeof(changes[0]); k++) {
                make(&w, changes[k].discovery ? CNTRLTYPE_DISCOVERY : CNTRLTYPE_IO);
                put(&w, &changes[k].it);
                want_broken(&w, changes[k].key);
        }
        for (size_t k = 0; k < sizeof(combined) / sizeof(combined[0]); k++) {
                make(&w, CNTRLTYPE_IO);
                for (size_t i = 0; i < 4 && combined[k].of[i].bytes > 0; i++)
                        put(&w, &combined[k].of[i]);
                want_broken(&w, combined[k].key);
        }
        for (unsigned i = 0; field_duty(i); i++)
                if (!broken[i])
                        fail_msg("nothing here breaks %s: %s", field_duty(i)->key,
                                 field_duty(i)->says);
}

/* Base 2.2 figure 320 and NVM Command Set 1.2 4.1.5.1: what both structures have is optional in each. */
static void test_optional(void **state)
{
        static struct world w;
        struct rule_set found = { 0 };

        (void)state;
        make(&w, CNTRLTYPE_IO);
        w.ns.nmic = 1;
        w.nsi.endgid = le16(1);
        fields_judge(&w.f, FIELDS_NS_INDEPENDENT, &found);
        assert_false(rule_in(&found, ID_NS_INDEPENDENT));
        w.ns.endgid = le16(2);
        fields_judge(&w.f, FIELDS_NS_INDEPENDENT, &found);
        assert_true(rule_in(&found, ID_NS_INDEPENDENT));
}

/* Base 2.2 3.1.3.3: without persistent connections there is neither Keep Alive nor a notice. */
static void test_no_notices(void **state)
{
        static struct world w;
        struct rule_set found = { 0 };

        (void)state;
        make(&w, CNTRLTYPE_DISCOVERY);
        w.ctrl.oaes = le32(0);
        w.ctrl.kas = le16(0);
        fields_judge(&w.f, FIELDS_CTRL, &found);
        assert_false(rule_in(&found, ID_DISCOVERY));
}

static void test_bound(void **state)
{
        static struct world w;
        struct rule_set found = { 0 };
        char buf[512];
        struct text text = text_in(buf, sizeof(buf));

        (void)state;
        make(&w, CNTRLTYPE_IO);
        w.ctrl.vwc = 1;
        fields_judge(&w.f, FIELDS_NS, &found);
        assert_false(rule_in(&found, ID_CTRL_FIELDS)); /* nothing new about it */
        fields_judge(&w.f, FIELDS_CTRL, &found);
        assert_true(rule_in(&found, ID_CTRL_FIELDS));
        assert_int_equal(fields_explain(&w.f, ID_CTRL_FIELDS, &text), 1);
        assert_string_equal(buf, "VWC bits 2:1 are 10b or 11b (B2.2/5.1.13.2.1/bf): seen 1h");
        w.f.vs = NVME_VERSION(1, 3, 0);
        assert_int_equal(fields_explain(&w.f, ID_CTRL_FIELDS, &text), 0);
        make(&w, CNTRLTYPE_IO);
        w.ctrl.rsvd388[0] = 1;
        assert_int_equal(fields_explain(&w.f, ID_RESERVED, &text), 1);
        w.f.vs = NVME_VERSION(2, 3, 0); /* there it may have become a field */
        assert_int_equal(fields_explain(&w.f, ID_RESERVED, &text), 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_right),    cmocka_unit_test(test_broken),
                cmocka_unit_test(test_optional), cmocka_unit_test(test_no_notices),
                cmocka_unit_test(test_bound),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

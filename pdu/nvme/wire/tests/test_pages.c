/* SPDX-License-Identifier: BSD-3-Clause */
/* Each requirement of pages.def: a right log page keeps it, and one change breaks it. */
#include "pdu/core/tests/check.h"

#include "pdu/nvme/wire/fabrics.h"
#include "pdu/nvme/wire/pages.h"

struct world {
        uint8_t data[4096];
        struct id_ctrl ctrl;
        struct page p;
};

static void put(struct world *w, size_t at, unsigned bytes, uint64_t value)
{
        le_put(w->data + at, bytes, value);
}

static void entries(struct world *w, const uint8_t *list, size_t n, uint32_t entry)
{
        for (size_t i = 0; i < n; i++)
                put(w, list[i] * 4u, 4, entry);
}
#define ENTRIES(w, entry, ...)                                                                     \
        entries((w), (const uint8_t[]) { __VA_ARGS__ }, sizeof((const uint8_t[]) { __VA_ARGS__ }), \
                (entry))

enum { CTRL_SCOPE = 1 << 21, ANA_GROUP = 36 };

enum { IO, DISCOVERY, ADMIN }; /* whose page it is */

static void fill(struct world *w, uint8_t lid, unsigned of)
{
        bool io = of == IO;
        size_t group = w->p.lsp ? 32 : ANA_GROUP;

        switch (lid) {
        case LOG_SUPPORTED:
                if (of != DISCOVERY)
                        ENTRIES(w, 1, 0, 1, 2, 3, 5, 0x12);
                else
                        ENTRIES(w, 1, 0, 5, 0x70);
                break;
        case LOG_ERROR:
                for (unsigned i = 0; i < 2; i++) {
                        put(w, i * 64, 8, 2 - i);
                        put(w, i * 64 + 14, 2, 0xffff);
                        put(w, i * 64 + 63, 1, 1);
                }
                break;
        case LOG_EFFECTS:
                ENTRIES(w, 1, 2, 6);
                if (!io)
                        break;
                ENTRIES(w, 1, 8, 9, 0xa, 0xc, 0x18);
                put(w, 0x100 * 4, 4, 1);
                put(w, 0x101 * 4, 4, 3);
                put(w, 0x102 * 4, 4, 1);
                break;
        case LOG_ANA:
                put(w, 8, 2, 2);
                for (unsigned i = 0; i < 2; i++) {
                        put(w, 16 + i * group, 4, i + 1);
                        put(w, 16 + i * group + 4, 4, !w->p.lsp);
                        put(w, 16 + i * group + 16, 1, ANA_OPTIMIZED);
                        if (!w->p.lsp)
                                put(w, 16 + i * group + 32, 4, i + 1);
                }
                break;
        case LOG_PERSISTENT:
                put(w, 0, 1, LOG_PERSISTENT);
                put(w, 4, 4, 1);
                put(w, 8, 8, 512 + 24 + 44);
                put(w, 16, 1, 3);
                put(w, 18, 2, 492);
                put(w, 480, 1, 0x3c);
                put(w, 512, 4, 4 | 1 << 8 | 21 << 16 | 1 << 24); /* a reset */
                put(w, 512 + 22, 2, 44);
                break;
        case LOG_FEATURE_EFFECTS:
                if (io)
                        ENTRIES(w, 1 | CTRL_SCOPE, 1, 2, 4, 7, 0xb, 0xf);
                break;
        case LOG_SANITIZE:
                put(w, 0, 2, 0xffff);
                break;
        case LOG_DISCOVERY: /* two entries of one subsystem, then itself, of three that are to be there */
                put(w, 8, 8, 3);
                for (unsigned i = 1; i <= 2; i++) {
                        put(w, i * 1024 + 2, 1, SUBTYPE_NVM);
                        put(w, i * 1024 + 6, 2, 0xffff);
                        put(w, i * 1024 + 256, 1, 'a');
                }
                put(w, 3 * 1024 + 2, 1, SUBTYPE_CURRENT);
                put(w, 3 * 1024 + 6, 2, 0xffff);
                break;
        default:
                break;
        }
}

/* NVMe 2.2, with nothing that is optional. */
static void make_of(struct world *w, uint8_t lid, unsigned of, uint8_t lsp)
{
        static const uint8_t types[] = { CNTRLTYPE_IO, CNTRLTYPE_DISCOVERY, CNTRLTYPE_ADMIN };

        memset(w, 0, sizeof(*w));
        w->ctrl.frmw = 2;
        w->ctrl.wctemp = w->ctrl.cctemp = le16(300);
        w->ctrl.anagrpmax = w->ctrl.nanagrpid = le32(2);
        w->ctrl.anacap = 1;
        w->p = (struct page) { .lid = lid,
                               .lsp = lsp,
                               .cntrltype = types[of],
                               .vs = NVME_VERSION(2, 2, 0),
                               .ctrl = &w->ctrl,
                               .data = w->data,
                               .len = sizeof(w->data) };
        fill(w, lid, of);
}

static void make(struct world *w, uint8_t lid, bool io, uint8_t lsp)
{
        make_of(w, lid, io ? IO : DISCOVERY, lsp);
}

static const struct change {
        const char *key;
        uint8_t lid;
        uint16_t at; /* from CTRL on: of Identify Controller */
        uint8_t bytes;
        uint64_t value;
        uint8_t of; /* false: IO, true: DISCOVERY */
        uint8_t lsp;
} changes[] = {
#define CTRL     0x8000
#define C(field) CTRL + offsetof(struct id_ctrl, field), sizeof(((struct id_ctrl *)0)->field)
        { "B2.2/5.1.12.1.1/c", 0x00, 1 * 4, 4, 3, false, 0 },
        { "B2.2/3.1.3.5/a", 0x00, 0x12 * 4, 4, 0, false, 0 },
        { "B2.2/3.1.3.5/b", 0x00, 0x73 * 4, 4, 1, false, 0 },
        { "B2.2/3.1.3.5/c", 0x00, 0x70 * 4, 4, 0, true, 0 },
        { "B2.2/3.1.3.5/d", 0x00, 0x02 * 4, 4, 1, true, 0 },
        { "B2.2/5.1.13.2.1/ag", 0x00, C(lpa), 1 << 3, false, 0 },
        { "B2.2/5.1.13.2.1/q", 0x00, C(oaes), 1 << 8, false, 0 },
        { "B2.2/5.1.12.1.13/a", 0x00, C(cmic), 1 << 3, false, 0 },
        { "B2.2/5.1.12.1.33/a", 0x00, C(sanicap), 1, false, 0 },
        { "B2.2/8.1.22/j", 0x00, C(oncs), 1 << 5, false, 0 },
        { "B2.2/5.1.12.1.1/d", 0x00, 1 * 4, 4, 5, false, 0 },
        { "N1.2/5.2.1/b", 0x00, C(oacs), 1 << 9, false, 0 },
        { "N1.2/5.2.1/b", 0x12, C(oacs), 1 << 9, false, 0 },
        { "B2.2/5.1.12.1.2/a", 0x01, 64, 8, 2, false, 0 },
        { "B2.2/5.1.12.1.2/g", 0x01, 8, 2, 0xffff, false, 0 },
        { "B2.2/5.1.12.1.2/i", 0x01, 29, 1, 4, false, 0 },
        { "B2.2/5.1.12.1.2/j", 0x01, 14, 2, 64, false, 0 },
        { "B2.2/5.1.12.1.2/l", 0x01, 63, 1, 0, false, 0 },
        { "B2.2/5.1.12.1.2/n", 0x01, 28, 1, 0x7f, false, 0 },
        { "B2.2/5.1.12.1.2/n", 0x01, 64 + 62, 1, 1, false, 0 },
        { "B2.2/5.1.12.1.3/h", 0x02, 3, 1, 101, false, 0 },
        { "B2.2/5.1.12.1.3/h", 0x02, 4, 1, 101, false, 0 },
        { "B2.2/5.1.12.1.3/p", 0x02, 192, 4, 1, false, 0 },
        { "B2.2/5.1.12.1.3/p", 0x02, 196, 4, 1, false, 0 },
        { "B2.2/5.1.12.1.3/f", 0x02, 0, 1, 0x80, false, 0 },
        { "B2.2/5.1.12.1.3/r", 0x02, 511, 1, 1, false, 0 },
        { "B2.2/5.1.12.1.4/b", 0x03, 16, 1, 'x', false, 0 },
        { "B2.2/5.1.12.1.4/a", 0x03, 0, 1, 2, false, 0 },
        { "B2.2/5.1.12.1.4/d", 0x03, 0, 1, 8, false, 0 },
        { "B2.2/5.1.12.1.5/b", 0x04, 4, 4, 1, false, 0 },
        { "B2.2/5.1.12.1.27/a", 0x1c, 0, 8, UINT64_MAX, false, 0 },
        { "B2.2/5.1.12.1.6/b", 0x05, 3 * 4, 4, 2, false, 0 },
        { "B2.2/5.1.12.1.6/c", 0x05, 2 * 4, 4, 1 | 1 << 14, false, 0 },
        { "B2.2/5.1.12.1.6/e", 0x05, 0x101 * 4, 4, 1, false, 0 },
        { "B2.2/3.1.3.4/b", 0x05, 0xc * 4, 4, 0, false, 0 },
        { "B2.2/3.1.3.4/c", 0x05, 5 * 4, 4, 1, false, 0 },
        { "B2.2/3.1.3.4/d", 0x05, 0x39 * 4, 4, 1, false, 0 },
        { "B2.2/3.1.3.4/e", 0x05, 6 * 4, 4, 0, true, 0 },
        { "B2.2/3.1.3.4/f", 0x05, 0x18 * 4, 4, 1, true, 0 },
        { "B2.2/3.1.3.4/g", 0x05, 0x102 * 4, 4, 1, true, 0 },
        { "B2.2/3.1.3.4/m", 0x05, 0x100 * 4, 4, 0, false, 0 },
        { "B2.2/5.1.13.2.1/ab", 0x05, C(oacs), 1 << 4, false, 0 },
        { "B2.2/5.1.13.2.1/ba", 0x05, C(oncs), 1, false, 0 },
        { "B2.2/5.1.12.1.6/d", 0x05, 2 * 4, 4, 1 | 3 << 16, false, 0 },
        { "B2.2/5.1.12.1.6/a", 0x05, 4095, 1, 1, false, 0 },
        { "B2.2/5.1.12.1.13/b", 0x0c, 16 + ANA_GROUP, 4, 1, false, 0 },
        { "B2.2/5.1.12.1.13/c", 0x0c, 16 + 4, 4, 10, false, 0 },
        { "B2.2/5.1.12.1.13/d", 0x0c, 16 + 4, 4, 0, false, 0 },
        { "B2.2/5.1.12.1.13/e", 0x0c, 16 + 4, 4, 1, false, 1 },
        { "B2.2/5.1.12.1.13/l", 0x0c, 16 + 16, 1, 5, false, 0 },
        { "B2.2/5.1.12.1.13/l", 0x0c, 10, 1, 5, false, 0 },
        { "B2.2/5.1.12.1.13/m", 0x0c, C(anagrpmax), 1, false, 0 },
        { "B2.2/5.1.13.2.1/ar", 0x0c, 16 + 16, 1, ANA_INACCESSIBLE, false, 0 },
        { "B2.2/5.1.13.2.1/ar", 0x0c, 16 + 16, 1, ANA_CHANGE, false, 0 },
        { "B2.2/5.1.13.2.1/aq", 0x0c, C(nanagrpid), 1, false, 0 },
        { "B2.2/5.1.12.1.14/m", 0x0d, 0, 1, 0, false, 0 },
        { "B2.2/5.1.12.1.14/m", 0x0d, 16, 1, 2, false, 0 },
        { "B2.2/5.1.12.1.14/p", 0x0d, 115, 1, 'x', false, 0 },
        { "B2.2/5.1.12.1.14/r", 0x0d, 374, 4, 1, false, 0 },
        { "B2.2/5.1.12.1.14/s", 0x0d, 480, 1, 0x3d, false, 0 },
        { "B2.2/5.1.12.1.14/n", 0x0d, 18, 2, 512, false, 0 },
        { "B2.2/5.1.12.1.14/w", 0x0d, 480, 1, 0x38, false, 0 },
        { "B2.2/5.1.12.1.14/w", 0x0d, C(oacs), 2, false, 0 },
        { "B2.2/5.1.12.1.14/t", 0x0d, 8, 8, 4096, false, 0 },
        { "B2.2/5.1.12.1.14/t", 0x0d, 8, 8, 536, false, 0 },
        { "B2.2/5.1.12.1.14/u", 0x0d, 515, 1, 0, false, 0 },
        { "B2.2/5.1.12.1.14.2/a", 0x0d, 513, 1, 2, false, 0 },
        { "B2.2/5.1.12.1.14.2/b", 0x0d, 512 + 20, 2, 36, false, 0 },
        { "B2.2/5.1.12.1.18/a", 0x12, 3 * 4, 4, 2, false, 0 },
        { "B2.2/5.1.12.1.18/b", 0x12, 1 * 4, 4, 1 | 1 << 20, false, 0 },
        { "B2.2/5.1.12.1.18/d", 0x12, 1 * 4, 4, 1 | CTRL_SCOPE | 1 << 5, false, 0 },
        { "B2.2/3.1.3.6/b", 0x12, 4 * 4, 4, 0, false, 0 },
        { "B2.2/3.1.3.6/c", 0x12, 9 * 4, 4, 1, false, 0 },
        { "B2.2/3.1.3.6/d", 0x12, 0xb * 4, 4, 1 | CTRL_SCOPE, true, 0 },
        { "B2.2/3.1.3.6/e", 0x12, 0x81 * 4, 4, 1 | CTRL_SCOPE, true, 0 },
        { "B2.2/3.1.3.6/f", 0x12, C(oncs), 1 << 5, false, 0 },
        { "B2.2/8.1.22/j", 0x12, C(oncs), 1 << 5, false, 0 },
        { "B2.2/5.1.25.1.4/a", 0x12, C(vwc), 1, false, 0 },
        { "B2.2/5.1.25.1.7/a", 0x12, C(oncs), 1 << 6, false, 0 },
        { "B2.2/5.1.12.1.19/a", 0x13, 1024, 1, 1, false, 0 },
        { "B2.2/5.1.12.1.19/b", 0x13, 0, 4, 1 | 3 << 20, false, 0 },
        { "B2.2/5.1.12.1.32/b", 0x80, 0, 8, 1, false, 0 },
        { "B2.2/5.1.12.1.32/e", 0x80, 8, 1, 4, false, 0 },
        { "B2.2/5.1.12.1.32/g", 0x80, 63, 1, 1, false, 0 },
        { "B2.2/5.1.12.1.33/b", 0x81, 0, 2, 0, false, 0 },
        { "B2.2/5.1.12.1.33/c", 0x81, 2, 2, 7, false, 0 },
        { "B2.2/5.1.12.1.33/e", 0x81, 2, 2, 1 << 3, false, 0 },
        { "B2.2/5.1.12.1.33/j", 0x81, 2, 2, 1 << 15, false, 0 },
        { "B2.2/3.1.3.5/f", 0x00, 5 * 4, 4, 0, ADMIN, 0 },
        { "B2.2/3.1.3.5/e", 0x00, C(dctype), DCTYPE_CDC, true, 0 },
        { "B2.2/5.1.12.3.1/c", 0x00, C(dctype), DCTYPE_CDC, true, 0 },
        { "B2.2/3.1.3.5/h", 0x00, C(ctratt), 1 << 19, false, 0 },
        { "B2.2/5.1.12.1.14/v", 0x00, 0xd * 4, 4, 1, false, 0 },
        { "B2.2/3.1.3.6/a", 0x05, 9 * 4, 4, 0, false, 0 },
        { "B2.2/3.1.3.4/i", 0x05, 6 * 4, 4, 0, ADMIN, 0 },
        { "B2.2/3.1.3.2/d", 0x05, 0x102 * 4, 4, 1, ADMIN, 0 },
        { "B2.2/3.1.3.4/h", 0x05, C(dctype), DCTYPE_CDC, true, 0 },
        { "B2.2/3.1.3.4/o", 0x05, C(ctratt), 1 << 19, false, 0 },
        { "B2.2/9.6.3.2.1/a", 0x05, 0x102 * 4, 4, 3, false, 0 },
        { "B2.2/3.1.3.6/g", 0x12, 7 * 4, 4, 1 | CTRL_SCOPE, ADMIN, 0 },
        { "B2.2/5.1.12.3.1/ah", 0x70, 20, 4, 1024, true, 0 },
        { "B2.2/5.1.12.3.1/u", 0x70, 1024 + 6, 2, 0xfff0, true, 0 },
        { "B2.2/5.1.12.3.1/m", 0x70, 2048 + 6, 2, 1, true, 0 },
        { "B2.2/5.1.12.3.1/q", 0x70, 1024 + 3, 1, 0x30, true, 0 },
        { "B2.2/5.1.12.3.1/x", 0x70, 1024 + 10, 2, 1, true, 0 },
        { "B2.2/5.1.12.3.1/y", 0x70, 1024 + 10, 2, 2, true, 0 },
        { "B2.2/5.1.12.3.1/z", 0x70, 1024 + 10, 2, 4, true, 0 },
        { "B2.2/5.1.12.3.1/ac", 0x70, 18, 1, 8, true, 0 },
        { "B2.2/5.1.12.3.1/ac", 0x70, 1024 + 255, 1, 1, true, 0 },
        { "B2.2/5.1.12.3.2/e", 0x71, 16, 2, 1, true, 0 },
        { "B2.2/3.1.3.5/g", 0x00, C(rsvd134), 1, false, 0 },
        { "B2.2/5.1.12.1.2/k", 0x01, 40, 2, 128, false, 0 },
        { "B2.2/5.1.12.1.14/o", 0x0d, 26, 1, 0x10, false, 0 },
        { "B2.2/5.1.12.3.1/e", 0x70, 18, 1, 1, true, 0 },
        { "B2.2/4.7/c", 0x70, 1024 + 256, 1, 'n', true, 0 },
};

static void test_right(void **state)
{
        static struct world w;

        (void)state;
        for (unsigned lid = 0; lid < 256; lid++)
                for (unsigned kind = 0; kind < 6; kind++) {
                        make_of(&w, (uint8_t)lid, kind % 3, (uint8_t)(kind / 3));
                        for (unsigned i = 0; page_duty(i); i++)
                                if (page_applies(&w.p, i) && !page_holds(&w.p, i, NULL))
                                        fail_msg("%s: %s", page_duty(i)->key, page_duty(i)->says);
                }
}

static void change(struct world *w, const struct change *c)
{
        make_of(w, c->lid, c->of, c->lsp);
        if (strcmp(c->key, "B2.2/5.1.12.1.3/p") == 0)
                w->ctrl.cctemp = le16(0);
        if (strcmp(c->key, "B2.2/5.1.12.1.2/k") == 0)
                w->data[29] = TRTYPE_TCP;
        if (strcmp(c->key, "B2.2/4.7/c") == 0)
                memcpy(w->data + 2 * 1024 - 768, "?qn.2026-01.org.nvmexpress:x", 29);
        if (strcmp(c->key, "B2.2/5.1.12.3.1/z") == 0)
                w->ctrl.dctype = 1;
        if (c->at & CTRL)
                le_put((uint8_t *)&w->ctrl + (c->at - CTRL), c->bytes, c->value);
        else
                put(w, c->at, c->bytes, c->value);
}

static void test_broken(void **state)
{
        static bool broken[512];
        static struct world w;

        (void)state;
        for (size_t k = 0; k < sizeof(changes) / sizeof(changes[0]); k++) {
                bool any = false;

                change(&w, &changes[k]);
                for (unsigned i = 0; page_duty(i); i++)
                        if (page_applies(&w.p, i) && !page_holds(&w.p, i, NULL)) {
                                broken[i] = true;
                                any |= strcmp(page_duty(i)->key, changes[k].key) == 0;
                        }
                if (!any)
                        fail_msg("change %zu does not break %s", k, changes[k].key);
        }
        for (unsigned i = 0; page_duty(i); i++)
                if (!broken[i])
                        fail_msg("nothing here breaks %s: %s", page_duty(i)->key,
                                 page_duty(i)->says);
}

/* What a row does not look at, or does not know, is not judged. */
static void test_bound(void **state)
{
        static struct world w;
        struct rule_set found = { 0 }, none = { 0 };
        char buf[512];
        struct text text = text_in(buf, sizeof(buf));

        (void)state;
        make(&w, LOG_SMART, true, 0);
        w.data[3] = 101;
        page_judge(&w.p, &found);
        assert_true(rule_in(&found, LOG_SMART_FIELDS));
        assert_int_equal(page_explain(&w.p, LOG_SMART_FIELDS, &text), 1);
        assert_non_null(strstr(buf, "seen 65h"));
        w.p.len = 3;
        found = none;
        page_judge(&w.p, &found);
        assert_memory_equal(&found, &none, sizeof(none));
        make(&w, LOG_FW_SLOT, true, 0);
        w.data[0] = 7;
        w.p.ctrl = NULL;
        page_judge(&w.p, &found);
        assert_memory_equal(&found, &none, sizeof(none));
        make(&w, LOG_ANA, true, 0); /* says that there are more groups than were read */
        le_put(w.data + 8, 2, 9);
        w.ctrl.nanagrpid = le32(9);
        w.p.len = 60;
        page_judge(&w.p, &found);
        assert_memory_equal(&found, &none, sizeof(none));
}

/* Base 2.0 5.16.1.18 has scopes that may be left out; from 2.1 on each supported feature has one. */
static void test_scope(void **state)
{
        static struct world w;
        struct rule_set found = { 0 };

        (void)state;
        make(&w, LOG_FEATURE_EFFECTS, true, 0);
        ENTRIES(&w, 1, 1, 2);
        w.p.vs = NVME_VERSION(2, 0, 0);
        page_judge(&w.p, &found);
        assert_false(rule_in(&found, LOG_FEATURE_FIELDS));
        w.p.vs = NVME_VERSION(2, 1, 0);
        page_judge(&w.p, &found);
        assert_true(rule_in(&found, LOG_FEATURE_FIELDS));
}

/* Commands Supported and Effects was optional for I/O controllers in Base 2.0 (figure 24). */
static void test_effects_supported(void **state)
{
        static struct world w;
        struct rule_set found = { 0 };

        (void)state;
        make(&w, LOG_SUPPORTED, true, 0);
        put(&w, 5 * 4, 4, 0);
        w.p.vs = NVME_VERSION(2, 0, 0);
        page_judge(&w.p, &found);
        assert_false(rule_in(&found, LOG_SUPPORTED_FIELDS));
        w.p.vs = NVME_VERSION(2, 1, 0);
        page_judge(&w.p, &found);
        assert_true(rule_in(&found, LOG_SUPPORTED_FIELDS));
}

/* Base 2.0 figure 206 has byte 63 of an entry reserved; 2.2 has LPVER there. */
static void test_error_version(void **state)
{
        static struct world w;
        struct rule_set found = { 0 };

        (void)state;
        make(&w, LOG_ERROR, true, 0);
        put(&w, 63, 1, 0);
        w.p.vs = NVME_VERSION(2, 0, 0);
        page_judge(&w.p, &found);
        assert_false(rule_in(&found, LOG_ERROR_FIELDS));
        w.p.vs = NVME_VERSION(2, 2, 0);
        page_judge(&w.p, &found);
        assert_true(rule_in(&found, LOG_ERROR_FIELDS));
}

/* N1.2 4.1.5.4: of Get LBA Status action 02h is announced elsewhere than in OACS. */
static void test_lba_status(void **state)
{
        static struct world w;
        struct rule_set found = { 0 };

        (void)state;
        make(&w, LOG_EFFECTS, true, 0);
        put(&w, 0x86 * 4, 4, 1);
        page_judge(&w.p, &found);
        assert_false(rule_in(&found, LOG_EFFECTS_FIELDS));
        w.ctrl.oacs = le16(OACS_LBA_STATUS);
        page_judge(&w.p, &found);
        assert_false(rule_in(&found, LOG_EFFECTS_FIELDS));
        put(&w, 0x86 * 4, 4, 0);
        page_judge(&w.p, &found);
        assert_true(rule_in(&found, LOG_EFFECTS_FIELDS));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_right),         cmocka_unit_test(test_broken),
                cmocka_unit_test(test_error_version), cmocka_unit_test(test_bound),
                cmocka_unit_test(test_scope),         cmocka_unit_test(test_effects_supported),
                cmocka_unit_test(test_lba_status),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

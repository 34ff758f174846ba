/* SPDX-License-Identifier: BSD-3-Clause */
#include "pdu/core/tests/check.h"

#include "pdu/nvme/wire/fabrics.h"
#include "pdu/nvme/wire/tcp.h"
#include "pdu/nvme/wire/text.h"

/* All formats that can be negotiated. */
enum { FORMATS = (PDU_PDA_MAX + 1) * 4 };

static struct pdu_format format_number(unsigned i)
{
        return (struct pdu_format) { .hdgst = i & 1, .ddgst = i & 2, .pda = (uint8_t)(i / 4) };
}

static const uint8_t types[] = { PDU_ICREQ,    PDU_ICRESP,      PDU_H2C_TERM,
                                 PDU_C2H_TERM, PDU_CAPSULE_CMD, PDU_CAPSULE_RESP,
                                 PDU_H2C_DATA, PDU_C2H_DATA,    PDU_R2T };

static bool is_term(uint8_t type)
{
        return type == PDU_H2C_TERM || type == PDU_C2H_TERM;
}

/* A PDU of the type that breaks no rule, with len bytes of data where the type may have any. */
static union pdu valid(unsigned type, const struct pdu_format *f, uint32_t len)
{
        union pdu h = { .ch.type = (uint8_t)type };
        const struct pdu_info *info = pdu_info(h.ch.type);

        if (!info->has_data && !is_term(h.ch.type))
                len = 0;
        if (type == PDU_H2C_DATA || type == PDU_C2H_DATA)
                h.data.length = le32(len);
        if (type == PDU_R2T)
                h.data.length = le32(8192);
        if (type == PDU_ICRESP)
                h.icresp.maxh2cdata = le32(131072);
        if (is_term(h.ch.type))
                h.term.fes = le16(FES_SEQUENCE_ERROR);
        pdu_lay_out(&h, f, len);
        return h;
}

/* The first fault in the order in which a receiver sees them. */
static struct fault check(const union pdu *h, enum party sender, const struct pdu_format *f,
                          const struct rule_set *waived)
{
        struct fault fault = pdu_check_common(&h->ch, sender, f, waived);

        return is_fault(fault) ? fault : pdu_check_header(h, f, waived);
}

static void assert_fault(struct fault f, enum rule_id rule)
{
        const char *got = is_fault(f) ? rule_get(f.rule)->id : "no fault";

        assert_string_equal(got, rule ? rule_get(rule)->id : "no fault");
}

/* --- layout ----------------------------------------------------------------------------------- */

static void check_layout(uint8_t type, const struct pdu_format *f, uint32_t len)
{
        union pdu h = valid(type, f, len);
        uint32_t align = (f->pda + 1u) * 4, head = pdu_head_len(&h, f);
        uint32_t data = pdu_data_len(&h, f), start = pdu_data_start(&h, f);
        bool takes = pdu_info(type)->has_data;

        assert_fault(check(&h, pdu_info(type)->sender, f, NULL), RULE_NONE);
        assert_fault(pdu_check_overlooked(&h, pdu_info(type)->sender, f), RULE_NONE);
        assert_int_equal(h.ch.hlen, pdu_info(type)->hlen);
        assert_int_equal(head, h.ch.hlen + (f->hdgst && pdu_info(type)->has_hdgst ? 4 : 0));
        assert_int_equal(data, takes || is_term(type) ? len : 0);
        assert_int_equal(pdu_has_ddgst(&h, f), takes && f->ddgst && len > 0);
        assert_int_equal(le32_get(h.ch.plen), start + data + (pdu_has_ddgst(&h, f) ? 4 : 0));
        if (takes && len > 0) {
                assert_int_equal(h.ch.pdo, start);
                assert_int_equal(start % align, 0);
                assert_in_range(start, head, head + align - 1);
                assert_in_range(start, 24, PDU_PDO_MAX);
        } else {
                assert_int_equal(h.ch.pdo, 0);
                assert_int_equal(start, head);
        }
}

static void check_layouts(uint8_t type, const struct pdu_format *f)
{
        static const uint32_t lens[] = { 0, 4, PDU_TERM_DATA_MAX, 512, 4096, 131072, 0x7ffffffc };
        bool data = type == PDU_H2C_DATA || type == PDU_C2H_DATA;
        size_t n = is_term(type) ? 3 : COUNT(lens); /* a TermReq carries 128 bytes at most */

        for (size_t i = data ? 1 : 0; i < n; i++)
                check_layout(type, f, lens[i]);
}

static void test_layout(void **state)
{
        (void)state;
        for (unsigned i = 0; i < FORMATS; i++) {
                struct pdu_format f = format_number(i);

                for (size_t t = 0; t < COUNT(types); t++)
                        check_layouts(types[t], &f);
        }
}

static void test_layout_keeps_flags(void **state)
{
        struct pdu_format on = { .hdgst = true, .ddgst = true }, off = { 0 };
        union pdu h = { .ch = { PDU_C2H_DATA, PDU_LAST | PDU_SUCCESS, 0, 0, le32(0) } };

        (void)state;
        pdu_lay_out(&h, &on, 512);
        assert_int_equal(h.ch.flags, PDU_LAST | PDU_SUCCESS | PDU_HDGSTF | PDU_DDGSTF);
        pdu_lay_out(&h, &off, 512);
        assert_int_equal(h.ch.flags, PDU_LAST | PDU_SUCCESS);
}

static void test_largest_pdo(void **state)
{
        union pdu h = { .ch.type = PDU_CAPSULE_CMD };
        uint8_t largest = 0;

        (void)state;
        for (unsigned i = 0; i < FORMATS; i++) {
                struct pdu_format f = format_number(i);

                if (pdu_data_offset(&h, &f) > largest)
                        largest = pdu_data_offset(&h, &f);
        }
        assert_int_equal(largest, PDU_PDO_MAX);
        assert_int_equal(pdu_data_offset(&h, &(struct pdu_format) { .hdgst = true, .pda = 17 }),
                         144);
        assert_int_equal(pdu_data_offset(&h, &(struct pdu_format) { .pda = 255 }), 128);
}

/* --- one broken rule each --------------------------------------------------------------------- */

static const struct pdu_format plain = { 0 };
static const struct pdu_format digests = { .hdgst = true, .ddgst = true };
static const struct pdu_format aligned = { .pda = 15 }; /* 64 bytes */
static const struct pdu_format bounded = { .max_data = 8192 };

static const struct violation {
        enum rule_id rule;
        enum pdu_type type;
        const struct pdu_format *format;
        uint32_t data_len;
        const char *field; /* set to value after the layout; NULL: sent by the wrong side */
        uint64_t value;
        uint16_t fes;
        uint32_t fei;
} violations[] = {
        { TCP_TYPE_H2C, PDU_CAPSULE_CMD, &plain, 0, "type", 0x08, 1, 0 },
        { TCP_TYPE_H2C, PDU_CAPSULE_CMD, &plain, 0, "type", 0x0c, 1, 0 },
        { TCP_TYPE_H2C, PDU_CAPSULE_CMD, &plain, 0, "type", 0xff, 1, 0 },
        { TCP_TYPE_H2C, PDU_CAPSULE_CMD, &plain, 0, "type", PDU_KDREQ, 1, 0 },
        { TCP_TYPE_C2H, PDU_CAPSULE_RESP, &plain, 0, "type", PDU_KDRESP, 1, 0 },
        { TCP_TYPE_C2H, PDU_CAPSULE_RESP, &plain, 0, "type", 0x0d, 1, 0 },
        { TCP_DIR_H2C, PDU_C2H_DATA, &plain, 512, NULL, 0, 1, 0 },
        { TCP_DIR_H2C, PDU_R2T, &plain, 0, NULL, 0, 1, 0 },
        { TCP_DIR_H2C, PDU_ICRESP, &plain, 0, NULL, 0, 1, 0 },
        { TCP_DIR_H2C, PDU_C2H_TERM, &plain, 24, NULL, 0, 1, 0 },
        { TCP_DIR_C2H, PDU_CAPSULE_CMD, &plain, 512, NULL, 0, 1, 0 },
        { TCP_DIR_C2H, PDU_H2C_DATA, &plain, 512, NULL, 0, 1, 0 },
        { TCP_DGSTF_H2C, PDU_CAPSULE_CMD, &plain, 0, "flags", PDU_HDGSTF, 1, 1 },
        { TCP_DGSTF_H2C, PDU_CAPSULE_CMD, &plain, 0, "flags", PDU_DDGSTF, 1, 1 },
        { TCP_DGSTF_H2C, PDU_CAPSULE_CMD, &digests, 0, "flags", 0, 1, 1 },
        { TCP_DGSTF_H2C, PDU_CAPSULE_CMD, &digests, 512, "flags", PDU_HDGSTF, 1, 1 },
        { TCP_DGSTF_H2C, PDU_H2C_DATA, &digests, 512, "flags", PDU_DDGSTF, 1, 1 },
        { TCP_DGSTF_C2H, PDU_CAPSULE_RESP, &digests, 0, "flags", 0, 1, 1 },
        { TCP_DGSTF_C2H, PDU_C2H_DATA, &plain, 512, "flags", PDU_DDGSTF, 1, 1 },
        { TCP_DGSTF_C2H, PDU_R2T, &plain, 0, "flags", PDU_HDGSTF, 1, 1 },
        { TCP_TERM_DIGEST_C2H, PDU_C2H_TERM, &digests, 24, "flags", PDU_HDGSTF, 0, 0 },
        { TCP_HLEN_H2C, PDU_ICREQ, &plain, 0, "hlen", 127, 1, 2 },
        { TCP_HLEN_H2C, PDU_CAPSULE_CMD, &plain, 512, "hlen", 0, 1, 2 },
        { TCP_HLEN_H2C, PDU_CAPSULE_CMD, &digests, 0, "hlen", 76, 1, 2 },
        { TCP_HLEN_H2C, PDU_H2C_DATA, &plain, 512, "hlen", 255, 1, 2 },
        { TCP_HLEN_C2H, PDU_ICRESP, &plain, 0, "hlen", 129, 1, 2 },
        { TCP_HLEN_C2H, PDU_R2T, &plain, 0, "hlen", 8, 1, 2 },
        { TCP_PDO_H2C, PDU_CAPSULE_CMD, &plain, 512, "pdo", 0, 1, 3 },
        { TCP_PDO_H2C, PDU_CAPSULE_CMD, &plain, 512, "pdo", 71, 1, 3 },
        { TCP_PDO_H2C, PDU_CAPSULE_CMD, &plain, 512, "pdo", 74, 1, 3 },
        { TCP_PDO_H2C, PDU_CAPSULE_CMD, &digests, 512, "pdo", 72, 1, 3 },
        { TCP_PDO_H2C, PDU_H2C_DATA, &aligned, 512, "pdo", 72, 1, 3 },
        { TCP_PDO_C2H, PDU_C2H_DATA, &plain, 4, "pdo", 26, 1, 3 },
        { TCP_PLEN_H2C, PDU_ICREQ, &plain, 0, "plen", 0, 1, 4 },
        { TCP_PLEN_H2C, PDU_ICREQ, &plain, 0, "plen", 127, 1, 4 },
        { TCP_PLEN_H2C, PDU_ICREQ, &plain, 0, "plen", 132, 1, 4 },
        { TCP_PLEN_H2C, PDU_CAPSULE_CMD, &plain, 0, "plen", 71, 1, 4 },
        { TCP_PLEN_H2C, PDU_CAPSULE_CMD, &plain, 0, "plen", 7, 1, 4 },
        { TCP_PLEN_H2C, PDU_CAPSULE_CMD, &digests, 512, "plen", 80, 1, 4 }, /* DDGST alone */
        { TCP_PLEN_H2C, PDU_CAPSULE_CMD, &bounded, 512, "plen", 72 + 8192 + 1, 1, 4 },
        { TCP_PLEN_H2C, PDU_CAPSULE_CMD, &bounded, 512, "plen", UINT32_MAX, 1, 4 },
        { TCP_PLEN_C2H, PDU_CAPSULE_RESP, &plain, 0, "plen", 28, 1, 4 },
        { TCP_PLEN_C2H, PDU_CAPSULE_RESP, &digests, 0, "plen", 24, 1, 4 },
        { TCP_PLEN_C2H, PDU_R2T, &plain, 0, "plen", UINT32_MAX, 1, 4 },
        { TCP_PLEN_C2H, PDU_ICRESP, &plain, 0, "plen", UINT32_MAX, 1, 4 },
        { TCP_TERM_LEN_H2C, PDU_H2C_TERM, &plain, 72, "plen", 23, 0, 0 },
        { TCP_TERM_LEN_H2C, PDU_H2C_TERM, &plain, 72, "plen", 153, 0, 0 },
        { TCP_TERM_LEN_H2C, PDU_H2C_TERM, &plain, 72, "plen", 0, 0, 0 },
        { TCP_TERM_LEN_C2H, PDU_C2H_TERM, &plain, 72, "plen", UINT32_MAX, 0, 0 },
        { TCP_ICREQ_PFV, PDU_ICREQ, &plain, 0, "pfv", 1, 1, 8 },
        { TCP_ICREQ_PFV, PDU_ICREQ, &plain, 0, "pfv", 0x100, 1, 8 },
        { TCP_ICREQ_HPDA, PDU_ICREQ, &plain, 0, "hpda", 32, 1, 10 },
        { TCP_ICREQ_HPDA, PDU_ICREQ, &plain, 0, "hpda", 255, 1, 10 },
        { TCP_ICRESP_PFV, PDU_ICRESP, &plain, 0, "pfv", 0xffff, 1, 8 },
        { TCP_ICRESP_CPDA, PDU_ICRESP, &plain, 0, "cpda", 32, 1, 10 },
        { TCP_ICRESP_MAXH2C, PDU_ICRESP, &plain, 0, "maxh2cdata", 4098, 1, 12 },
        { TCP_ICRESP_MAXH2C, PDU_ICRESP, &plain, 0, "maxh2cdata", UINT32_MAX, 1, 12 },
        { TCP_ICRESP_MAXH2C_MIN, PDU_ICRESP, &plain, 0, "maxh2cdata", 4092, 1, 12 },
        { TCP_TERM_FES_C2H, PDU_C2H_TERM, &plain, 24, "fes", 0, 0, 0 },
        { TCP_TERM_FES_C2H, PDU_C2H_TERM, &plain, 24, "fes", 7, 0, 0 },
        { TCP_H2C_DATAL, PDU_H2C_DATA, &plain, 512, "datal", 508, 1, 4 },
        { TCP_H2C_DATAL, PDU_H2C_DATA, &digests, 512, "datal", 516, 1, 4 },
        { TCP_H2C_DATAL, PDU_H2C_DATA, &plain, 512, "datal", UINT32_MAX - 3, 1, 4 },
        { TCP_H2C_DWORD_OFFSET, PDU_H2C_DATA, &plain, 512, "datao", 2, 1, 12 },
        { TCP_H2C_DWORD_LENGTH, PDU_H2C_DATA, &plain, 511, NULL, 0, 1, 16 },
        { TCP_H2C_EMPTY, PDU_H2C_DATA, &digests, 0, NULL, 0, 1, 16 },
        { TCP_C2H_SUCCESS_LAST, PDU_C2H_DATA, &plain, 512, "flags", PDU_SUCCESS, 1, 1 },
        { TCP_C2H_DATAL, PDU_C2H_DATA, &plain, 512, "datal", 0, 1, 4 },
        { TCP_C2H_DWORD_OFFSET, PDU_C2H_DATA, &plain, 512, "datao", UINT32_MAX, 1, 12 },
        { TCP_C2H_DWORD_LENGTH, PDU_C2H_DATA, &plain, 510, NULL, 0, 1, 16 },
        { TCP_R2T_DWORD_OFFSET, PDU_R2T, &plain, 0, "r2to", 1, 1, 12 },
        { TCP_R2T_DWORD_LENGTH, PDU_R2T, &plain, 0, "r2tl", 4097, 1, 16 },
        { TCP_R2T_EMPTY, PDU_R2T, &plain, 0, "r2tl", 0, 1, 16 },
};

static bool from_wrong_side(enum rule_id rule)
{
        return rule == TCP_DIR_H2C || rule == TCP_DIR_C2H;
}

static void test_one_broken_rule(void **state)
{
        (void)state;
        for (size_t i = 0; i < COUNT(violations); i++) {
                const struct violation *v = &violations[i];
                union pdu h = valid(v->type, v->format, v->data_len);
                enum party sender = pdu_info((uint8_t)v->type)->sender;
                struct rule_set waived = { 0 };
                struct fault fault;

                if (v->field)
                        field_put(pdu_field((uint8_t)v->type, v->field), &h, v->value);
                if (from_wrong_side(v->rule))
                        sender = peer_of(sender);
                fault = check(&h, sender, v->format, NULL);
                assert_fault(fault, v->rule);
                assert_int_equal(fault.code, v->fes);
                assert_int_equal(fault.place, v->fei);
                rule_add(&waived, v->rule);
                assert_fault(pdu_check_common(&h.ch, sender, v->format, &waived), RULE_NONE);
                assert_int_not_equal(pdu_check_header(&h, v->format, &waived).rule, v->rule);
        }
}

/* Every rule that a header shows by itself is among the violations above. */
static void test_violations_are_complete(void **state)
{
        static const enum rule_id stateless[] = {
                TCP_TYPE_H2C,         TCP_TYPE_C2H,         TCP_DIR_H2C,
                TCP_DIR_C2H,          TCP_HLEN_H2C,         TCP_HLEN_C2H,
                TCP_PLEN_H2C,         TCP_PLEN_C2H,         TCP_PDO_H2C,
                TCP_PDO_C2H,          TCP_DGSTF_H2C,        TCP_DGSTF_C2H,
                TCP_ICREQ_PFV,        TCP_ICREQ_HPDA,       TCP_ICRESP_PFV,
                TCP_ICRESP_CPDA,      TCP_ICRESP_MAXH2C,    TCP_ICRESP_MAXH2C_MIN,
                TCP_TERM_LEN_H2C,     TCP_TERM_LEN_C2H,     TCP_TERM_FES_C2H,
                TCP_TERM_DIGEST_C2H,  TCP_C2H_SUCCESS_LAST, TCP_C2H_DATAL,
                TCP_C2H_DWORD_OFFSET, TCP_C2H_DWORD_LENGTH, TCP_R2T_DWORD_OFFSET,
                TCP_R2T_DWORD_LENGTH, TCP_R2T_EMPTY,        TCP_H2C_DATAL,
                TCP_H2C_DWORD_OFFSET, TCP_H2C_DWORD_LENGTH, TCP_H2C_EMPTY,
        };
        struct rule_set broken = { 0 }, named = { 0 };

        (void)state;
        for (size_t i = 0; i < COUNT(violations); i++)
                rule_add(&broken, violations[i].rule);
        for (size_t i = 0; i < COUNT(stateless); i++)
                rule_add(&named, stateless[i]);
        rule_each (id)
                assert_int_equal(rule_in(&broken, id), rule_in(&named, id));
}

static void test_lowest_offset_wins(void **state)
{
        union pdu h = valid(PDU_CAPSULE_CMD, &plain, 512);

        (void)state;
        h.ch.plen = le32(73);
        h.ch.pdo = 3;
        assert_fault(check(&h, PARTY_HOST, &plain, NULL), TCP_PDO_H2C);
        h.ch.hlen = 3;
        assert_fault(check(&h, PARTY_HOST, &plain, NULL), TCP_HLEN_H2C);
        h.ch.flags = PDU_HDGSTF;
        assert_fault(check(&h, PARTY_HOST, &plain, NULL), TCP_DGSTF_H2C);
        assert_fault(check(&h, PARTY_CONTROLLER, &plain, NULL), TCP_DIR_C2H);
        h = valid(PDU_ICREQ, &plain, 0);
        h.icreq.pfv = le16(1);
        h.icreq.hpda = 32;
        assert_fault(check(&h, PARTY_HOST, &plain, NULL), TCP_ICREQ_PFV);
}

/* --- arithmetic at the edges ------------------------------------------------------------------ */

#define DIGESTS .hdgst = true, .ddgst = true
/* clang-format off */
static const struct {
        uint8_t type, flags, hlen, pdo;
        uint32_t plen;
        struct pdu_format format;
        enum rule_id rule;
        uint32_t start, len; /* of its data, as its receiver takes it */
} edges[] = {
        /* the largest PDU there can be, and one byte */
        { PDU_CAPSULE_CMD, 0, 72, 72, UINT32_MAX, { 0 },       RULE_NONE, 72, UINT32_MAX - 72 },
        { PDU_CAPSULE_CMD, 0, 72, 72, 73,         { 0 },       RULE_NONE, 72, 1 },
        { PDU_CAPSULE_CMD, 3, 72, 76, UINT32_MAX, { DIGESTS }, RULE_NONE, 76, UINT32_MAX - 80 },
        /* PDO 144, and the multiple of 72 that lies inside the header */
        { PDU_CAPSULE_CMD, 1, 72, 144, 656, { .hdgst = true, .pda = 17 }, RULE_NONE,   144, 512 },
        { PDU_CAPSULE_CMD, 1, 72, 72,  656, { .hdgst = true, .pda = 17 }, TCP_PDO_H2C, 76,  580 },
        /* PDO at the end of the PDU, and after it */
        { PDU_H2C_DATA, 0, 24, 28, 28,  { 0 }, TCP_PDO_H2C, 28, 0 },
        { PDU_H2C_DATA, 0, 24, 252, 28, { 0 }, TCP_PDO_H2C, 28, 0 },
        /* more padding than needed is the receiver's loss only */
        { PDU_H2C_DATA, 0, 24, 128, 128 + 4, { 0 }, RULE_NONE, 128, 4 },
        /* a capsule without data: PDO says nothing */
        { PDU_CAPSULE_CMD, 0, 72, 72, 72,  { 0 },         RULE_NONE, 72, 0 },
        { PDU_CAPSULE_CMD, 0, 72, 255, 72, { .pda = 31 }, RULE_NONE, 72, 0 },
        { PDU_CAPSULE_CMD, 1, 72, 0, 76,   { DIGESTS },   RULE_NONE, 76, 0 },
        { PDU_CAPSULE_CMD, 3, 72, 0, 76,   { DIGESTS },   RULE_NONE, 76, 0 },
        /* PLEN below HLEN */
        { PDU_CAPSULE_CMD, 0, 72, 72, 24, { 0 }, TCP_PLEN_H2C, 72, 0 },
        { PDU_H2C_DATA,    0, 24, 24, 0,  { 0 }, TCP_PLEN_H2C, 24, 0 },
        /* nothing but a digest after the header */
        { PDU_H2C_DATA, 2, 24, 24, 28, { .ddgst = true }, TCP_PLEN_H2C, 24, 0 },
        { PDU_H2C_DATA, 2, 24, 24, 25, { .ddgst = true }, TCP_PLEN_H2C, 24, 0 },
        /* TermReq: 24 to 152, its data at 24 whatever the alignment */
        { PDU_H2C_TERM, 0, 24, 0, 24,  { 0 },                  RULE_NONE, 24, 0 },
        { PDU_H2C_TERM, 0, 24, 0, 152, { DIGESTS, .pda = 31 }, RULE_NONE, 24, 128 },
        { PDU_H2C_TERM, 0, 24, 0, 153, { 0 },                  TCP_TERM_LEN_H2C, 24, 129 },
        { PDU_H2C_TERM, 0, 24, 0, 23,  { 0 },                  TCP_TERM_LEN_H2C, 24, 0 },
        { PDU_H2C_TERM, 0, 72, 0, 24,  { 0 },                  RULE_NONE, 24, 0 },
};
/* clang-format on */
#undef DIGESTS

static void test_edges(void **state)
{
        (void)state;
        for (size_t i = 0; i < COUNT(edges); i++) {
                union pdu h = { .ch = { edges[i].type, edges[i].flags, edges[i].hlen, edges[i].pdo,
                                        le32(edges[i].plen) } };

                assert_fault(pdu_check_common(&h.ch, PARTY_HOST, &edges[i].format, NULL),
                             edges[i].rule);
                assert_int_equal(pdu_data_start(&h, &edges[i].format), edges[i].start);
                assert_int_equal(pdu_data_len(&h, &edges[i].format), edges[i].len);
        }
}

/* Whatever the header says and whichever rules are waived, the lengths stay within the PDU. */
static void test_lengths_are_safe(void **state)
{
        uint64_t seed = 3;

        (void)state;
        for (int i = 0; i < 300000; i++) {
                uint64_t bits = random_next(&seed);
                struct pdu_format f = { bits & 1, bits & 2, (uint8_t)(bits >> 8), 0 };
                union pdu h;
                uint64_t end;
                uint32_t plen;

                random_fill(&seed, &h, sizeof(struct pdu_ch));
                h.ch.type %= 14;
                if (bits & 4) /* a small PDU */
                        h.ch.plen = le32((uint32_t)(bits >> 16 & 0xff));
                plen = le32_get(h.ch.plen);
                end = (uint64_t)pdu_data_start(&h, &f) + pdu_data_len(&h, &f) +
                      (pdu_has_ddgst(&h, &f) ? 4 : 0);
                assert_true(pdu_data_start(&h, &f) >= pdu_head_len(&h, &f));
                assert_true(end <= (plen > pdu_head_len(&h, &f) ? plen : pdu_head_len(&h, &f)));
                if (!is_fault(pdu_check_common(&h.ch, h.ch.type & 1 ? PARTY_CONTROLLER : PARTY_HOST,
                                               &f, NULL)))
                        assert_int_equal(end, plen);
        }
}

/* --- what a receiver overlooks ---------------------------------------------------------------- */

static void test_overlooked(void **state)
{
        static const struct {
                enum rule_id rule;
                uint8_t type;
                const struct pdu_format *format;
                uint32_t data_len;
                const char *field;
                uint64_t value;
        } slips[] = {
                { TCP_FLAGS_H2C, PDU_ICREQ, &plain, 0, "flags", PDU_KDCONN },
                { TCP_FLAGS_H2C, PDU_CAPSULE_CMD, &plain, 0, "flags", 0x10 },
                { TCP_FLAGS_H2C, PDU_CAPSULE_CMD, &digests, 0, "flags", 3 },
                { TCP_FLAGS_H2C, PDU_H2C_TERM, &plain, 24, "flags", 1 },
                { TCP_FLAGS_H2C, PDU_ICREQ, &plain, 0, "pdo", 128 },
                { TCP_FLAGS_C2H, PDU_CAPSULE_RESP, &plain, 0, "flags", PDU_LAST },
                { TCP_FLAGS_C2H, PDU_R2T, &plain, 0, "pdo", 24 },
                { TCP_HLEN_H2C, PDU_H2C_TERM, &plain, 24, "hlen", 72 },
                { TCP_PAD_MIN_C2H, PDU_C2H_DATA, &plain, 512, "pdo", 28 },
                { TCP_PAD_MIN_H2C, PDU_CAPSULE_CMD, &plain, 512, "pdo", 128 },
                { TCP_ICREQ_RSVD, PDU_ICREQ, &plain, 0, "dgst", 0x83 },
                { TCP_ICRESP_RSVD, PDU_ICRESP, &plain, 0, "dgst", 4 },
                { TCP_RESP_RSVD, PDU_CAPSULE_RESP, &plain, 0, "cqe.sqid", 1 },
                { TCP_RESP_RSVD, PDU_CAPSULE_RESP, &plain, 0, "cqe.sf", 1 },
        };

        (void)state;
        for (size_t i = 0; i < COUNT(slips); i++) {
                union pdu h = valid(slips[i].type, slips[i].format, slips[i].data_len);
                enum party sender = pdu_info(slips[i].type)->sender;

                field_put(pdu_field(slips[i].type, slips[i].field), &h, slips[i].value);
                assert_fault(pdu_check_overlooked(&h, sender, slips[i].format), slips[i].rule);
                assert_fault(pdu_check_common(&h.ch, sender, slips[i].format, NULL), RULE_NONE);
        }
}

static void test_reserved_bytes(void **state)
{
        (void)state;
        for (size_t i = 0; i < sizeof(((struct pdu_icreq *)0)->rsvd); i++) {
                union pdu h = valid(PDU_ICREQ, &plain, 0);

                h.icreq.rsvd[i] = 1;
                assert_fault(pdu_check_overlooked(&h, PARTY_HOST, &plain), TCP_ICREQ_RSVD);
                assert_fault(check(&h, PARTY_HOST, &plain, NULL), RULE_NONE);
        }
}

/* --- names and fields ------------------------------------------------------------------------- */

static void test_names(void **state)
{
        (void)state;
        assert_string_equal(pdu_info(PDU_R2T)->name, "R2T");
        assert_string_equal(pdu_info(PDU_KDREQ)->name, "KDReq");
        assert_null(pdu_info(0x08));
        assert_null(pdu_info(0x0c));
        assert_null(pdu_info(0xff));
        assert_string_equal(pdu_fes_name(5, PARTY_HOST), "R2T Limit Exceeded");
        assert_string_equal(pdu_fes_name(5, PARTY_CONTROLLER), "Data Transfer Limit Exceeded");
        assert_string_equal(pdu_fes_name(3, PARTY_HOST), "Header Digest Error");
        assert_string_equal(pdu_fes_name(0, PARTY_HOST), "?");
        assert_string_equal(pdu_fes_name(7, PARTY_HOST), "?");
        assert_string_equal(pdu_fes_name(0xffff, PARTY_HOST), "?");
}

static void test_fields(void **state)
{
        (void)state;
        for (unsigned t = 0; t < 256; t++) {
                const struct field *f = pdu_fields((uint8_t)t);

                assert_int_equal(f != NULL, pdu_info((uint8_t)t) != NULL);
                for (; f && f->name; f++)
                        assert_true(f->offset + f->size <=
                                    (pdu_info((uint8_t)t)->hlen ? pdu_info((uint8_t)t)->hlen : 8));
        }
        assert_int_equal(pdu_field(PDU_H2C_DATA, "ttag")->offset, 10);
        assert_int_equal(pdu_field(PDU_C2H_TERM, "fei")->offset, 10);
        assert_int_equal(pdu_field(PDU_CAPSULE_CMD, "sqe.cid")->offset, 10);
        assert_int_equal(pdu_field(PDU_CAPSULE_CMD, "sqe.sgl.id")->offset, 8 + 39);
        assert_int_equal(pdu_field(PDU_CAPSULE_CMD, "sqe.kato")->offset, 8 + 48);
        assert_int_equal(pdu_field(PDU_CAPSULE_RESP, "cqe.sqhd")->offset, 16);
        assert_null(pdu_field(PDU_R2T, "datao"));
        assert_null(pdu_field(0x08, "type"));
}

/* --- one line --------------------------------------------------------------------------------- */

static void assert_line(const union pdu *h, bool admin, const char *want)
{
        char buf[256];
        struct text t = text_in(buf, sizeof(buf));

        pdu_line(&t, h, admin);
        assert_string_equal(buf, want);
}

static void test_lines(void **state)
{
        union pdu h = valid(PDU_ICREQ, &plain, 0);

        (void)state;
        assert_line(&h, true, "ICReq pfv 0 hpda 0 digests none maxr2t 0");
        h = valid(PDU_ICRESP, &plain, 0);
        h.icresp.dgst = 3;
        h.icresp.cpda = 31;
        assert_line(&h, true, "ICResp pfv 0 cpda 31 digests header+data maxh2cdata 131072");
        h = valid(PDU_C2H_TERM, &plain, 24);
        h.term.fes = le16(1);
        h.term.fei = le32(10);
        assert_line(&h, true, "C2HTermReq Invalid PDU Header Field fei 10");
        h.term.fes = le16(9);
        assert_line(&h, true, "C2HTermReq fes 9 fei 10");
        h = valid(PDU_H2C_DATA, &plain, 512);
        h.data.cccid = le16(5);
        h.data.ttag = le16(7);
        h.ch.flags = PDU_LAST;
        assert_line(&h, true, "H2CData cccid 5 ttag 7 datao 0 datal 512 LAST");
        h.ch.type = PDU_C2H_DATA;
        h.ch.flags = PDU_LAST | PDU_SUCCESS;
        assert_line(&h, true, "C2HData cccid 5 datao 0 datal 512 LAST SUCCESS");
        h.ch.type = PDU_R2T;
        h.ch.flags = 0;
        assert_line(&h, true, "R2T cccid 5 ttag 7 r2to 0 r2tl 512");
        h.ch.type = 0x08;
        assert_line(&h, true, "PDU 08h plen 536");
        h.ch.type = PDU_KDREQ;
        assert_line(&h, true, "KDReq plen 536");
}

static void test_capsule_lines(void **state)
{
        union pdu h = valid(PDU_CAPSULE_CMD, &plain, 0);

        (void)state;
        h.cmd.sqe = (union sqe) { .opc = NVME_READ,
                                  .cid = le16(5),
                                  .nsid = le32(1),
                                  .sgl = { .len = le32(4096), .id = SGL_TRANSPORT },
                                  .cdw12 = le32(7) };
        assert_line(&h, false, "CapsuleCmd cid 5 Read nsid 1 slba 0 nlb 8 sgl 5Ah 4096");
        h.cmd.sqe = (union sqe) { .opc = NVME_IDENTIFY,
                                  .cid = le16(9),
                                  .sgl = { .len = le32(4096), .id = SGL_TRANSPORT },
                                  .cdw10 = le32(CNS_CTRL) };
        assert_line(&h, true, "CapsuleCmd cid 9 Identify cns Controller sgl 5Ah 4096");
        h.cmd.sqe = (union sqe) { .property = { .opc = NVME_FABRICS,
                                                .fctype = FCTYPE_PROPERTY_SET,
                                                .ofst = le32(PROP_CC),
                                                .value = le64(0x460001) } };
        assert_line(&h, true, "CapsuleCmd cid 0 Property Set attrib 4 bytes ofst CC value 4587521");
        h = valid(PDU_CAPSULE_RESP, &plain, 0);
        h.resp.cqe = (struct cqe) { .cid = le16(5), .sqhd = le16(3) };
        assert_line(&h, true, "CapsuleResp cid 5 sqhd 3 Success");
        h.resp.cqe.sf = status_field(NVME_CONNECT_PARAM | STATUS_DNR);
        h.resp.cqe.dw0 = le32(0x10100);
        assert_line(&h, true,
                    "CapsuleResp cid 5 sqhd 3 Connect Invalid Parameters DNR dw0 00010100h dw1 "
                    "00000000h");
        h.resp.cqe = (struct cqe) { .sf = status_field(0x7ff) };
        assert_line(&h, true, "CapsuleResp cid 0 sqhd 0 Unknown Status 7h/FFh");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_layout),
                cmocka_unit_test(test_layout_keeps_flags),
                cmocka_unit_test(test_largest_pdo),
                cmocka_unit_test(test_one_broken_rule),
                cmocka_unit_test(test_violations_are_complete),
                cmocka_unit_test(test_lowest_offset_wins),
                cmocka_unit_test(test_edges),
                cmocka_unit_test(test_lengths_are_safe),
                cmocka_unit_test(test_overlooked),
                cmocka_unit_test(test_reserved_bytes),
                cmocka_unit_test(test_names),
                cmocka_unit_test(test_fields),
                cmocka_unit_test(test_lines),
                cmocka_unit_test(test_capsule_lines),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

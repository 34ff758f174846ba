/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One PDU header, in every format: checked, described, and if nothing is wrong with it laid out
 * again, which has to give the same bytes.
 *
 * Input: sender and digests (1 byte), alignment (1), the header (up to 128), its data.
 */
#include "fuzz/fuzz.h"

enum { BIT_CONTROLLER = 1, BIT_HDGST = 2, BIT_DDGST = 4, BIT_ADMIN = 8, BIT_LIMIT = 16 };

static void describes(const union pdu *h, bool admin, const void *data, size_t n)
{
        struct fuzz_reader reader;
        struct describe d = fuzz_describer(&reader);
        char line[300], small[20];
        struct text t = text_in(line, sizeof(line)), cut = text_in(small, sizeof(small));

        describe_pdu(&d, h, admin, data, n);
        fuzz_described(&reader);
        pdu_line(&t, h, admin);
        pdu_line(&cut, h, admin);
        must(t.len < sizeof(line) && cut.len < sizeof(small));
        must(memcmp(line, small, cut.len < t.len ? cut.len : t.len) == 0);
}

/* What is read of a field and written again changes nothing. */
static void fields_hold(const union pdu *h)
{
        const struct field *f = pdu_fields(h->ch.type);
        union pdu copy = *h;

        for (; f && f->name; f++) {
                must(pdu_field(h->ch.type, f->name) != NULL);
                if (f->size <= 8)
                        field_put(f, &copy, field_get(f, h));
        }
        must(memcmp(copy.bytes, h->bytes, sizeof(copy.bytes)) == 0);
}

/* Also of a header that nobody would believe, if its rules are waived. */
static void stays_within(const union pdu *h, const struct pdu_format *f)
{
        uint32_t start = pdu_data_start(h, f), len = pdu_data_len(h, f),
                 plen = le32_get(h->ch.plen);

        must(len == 0 || (uint64_t)start + len <= plen);
        must(len == 0 || start >= sizeof(struct pdu_ch));
        must(!pdu_has_ddgst(h, f) || (uint64_t)start + len + PDU_DIGEST_LEN <= plen);
}

static bool same_common(const struct pdu_ch *a, const struct pdu_ch *b)
{
        return memcmp(a, b, sizeof(*a)) == 0;
}

static void encodes(const union pdu *h, enum party sender, const struct pdu_format *f)
{
        union pdu again = *h;

        if (is_fault(pdu_check_header(h, f, NULL)) || is_fault(pdu_check_overlooked(h, sender, f)))
                return;
        again.ch = (struct pdu_ch) { .type = h->ch.type, .flags = h->ch.flags };
        pdu_lay_out(&again, f, pdu_data_len(h, f));
        if (pdu_data_len(h, f) == 0)
                again.ch.pdo = h->ch.pdo; /* means nothing then */
        must(same_common(&again.ch, &h->ch));
        must(pdu_data_len(h, f) == 0 || h->ch.pdo == 0 || h->ch.pdo == pdu_data_offset(h, f));
        must(!is_fault(pdu_check_common(&again.ch, sender, f, NULL)));
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
        struct fuzz_input b = bytes_of(input, size);
        unsigned bits = bytes_u8(&b);
        struct pdu_format f = { .hdgst = bits & BIT_HDGST, .ddgst = bits & BIT_DDGST };
        enum party sender = bits & BIT_CONTROLLER ? PARTY_CONTROLLER : PARTY_HOST;
        union pdu h;

        f.pda = bytes_u8(&b) % (PDU_PDA_MAX + 1);
        f.max_data = bits & BIT_LIMIT ? 1 << 16 : 0;
        bytes_copy(&b, &h, sizeof(h));
        describes(&h, bits & BIT_ADMIN, b.p, b.left);
        fields_hold(&h);
        if (!is_fault(pdu_check_common(&h.ch, sender, &f, NULL)))
                encodes(&h, sender, &f);
        if (!is_fault(pdu_check_common(&h.ch, sender, &f, fuzz_all_rules()))) {
                (void)pdu_check_header(&h, &f, fuzz_all_rules());
                stays_within(&h, &f);
        }
        return 0;
}

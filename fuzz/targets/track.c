/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tracker of NVMe/TCP: what both sides say, in any order, and what it makes of it.
 *
 * Input: bits (1 byte), the allocation that fails (1), a seed for the rules that are waived (1); then
 * PDUs: bits (1), type (1), the header after the common one, that is laid out unless a bit says that
 * it is there, too.
 */
#include "pdu/nvme/tcp/track.h"
#include "fuzz/fuzz.h"

enum { BIT_FINDINGS = 1, BIT_PASSIVE = 2, BIT_ASSUME = 4, BIT_IN_CAPSULE = 8 };
enum { PDU_CONTROLLER = 1, PDU_RAW = 2, PDU_DDGST_BAD = 4, PDU_DATA = 8 };

static struct rule_set some_rules(uint8_t seed)
{
        uint64_t state = seed;
        struct rule_set set = { 0 };

        if (seed == 0xff)
                return *fuzz_all_rules();
        rule_each (rule)
                if (seed && fuzz_random(&state) % 4 == 0)
                        rule_add(&set, rule);
        return set;
}

static union pdu next_header(struct fuzz_input *b, unsigned bits, const struct pdu_format *f)
{
        union pdu h = { .ch.type = bytes_u8(b) % PDU_TYPES };
        const struct pdu_info *info = pdu_info(h.ch.type);
        uint8_t *own = h.bytes + sizeof(h.ch);

        if (!info || !info->hlen)
                return h;
        if (bits & PDU_RAW)
                bytes_copy(b, h.bytes + 1, info->hlen - 1u);
        else {
                h.ch.flags = bytes_u8(b) & info->flags;
                bytes_copy(b, own, info->hlen - sizeof(h.ch));
                pdu_lay_out(&h, f, bits & PDU_DATA ? le32_get(h.data.length) & 0xfffff : 0);
        }
        return h;
}

static void check_findings(const struct track *t, const struct rule_set *waived)
{
        const struct rule_set *found = track_findings(t);

        must(!rule_in(found, RULE_NONE));
        for (size_t i = 0; i < sizeof(found->bits) / sizeof(found->bits[0]); i++)
                must((found->bits[i] & waived->bits[i]) == 0);
        must(is_fault(track_warning(t)) || rule_set_empty(found));
}

static void one_pdu(struct track *t, struct fuzz_input *b, const struct rule_set *waived)
{
        unsigned bits = bytes_u8(b), before = track_outstanding(t), r2ts = track_r2ts(t);
        enum party sender = bits & PDU_CONTROLLER ? PARTY_CONTROLLER : PARTY_HOST;
        const struct pdu_format *f = track_format(t, sender);
        union pdu h = next_header(b, bits, f);
        struct fault fault = pdu_check_common(&h.ch, sender, f, waived);

        if (!pdu_info(h.ch.type) || !pdu_info(h.ch.type)->hlen || is_fault(fault) ||
            is_fault(pdu_check_header(&h, f, waived)))
                return; /* the framer lets none through */
        fault = track_header(t, sender, &h);
        must(!rule_in(waived, fault.rule) || !is_fault(fault));
        check_findings(t, waived);
        if (is_fault(fault)) {
                must(track_outstanding(t) == before && track_r2ts(t) == r2ts);
                return;
        }
        (void)track_last_cmd(t);
        fault = track_pdu(t, sender, &h, bits & PDU_DDGST_BAD);
        must(!is_fault(fault) || rule_get(fault.rule)->reaction == REACT_STATUS);
        check_findings(t, waived);
        must(!track_r2t(t, track_free_ttag(t)));
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
        struct fuzz_input b = bytes_of(input, size);
        unsigned bits = bytes_u8(&b);
        const struct track_limits limits = { .depth_max = 64,
                                             .r2ts_max = 16,
                                             .findings = bits & BIT_FINDINGS,
                                             .passive = bits & BIT_PASSIVE };
        const struct pdu_format none = { 0 };
        struct rule_set waived;
        struct track *t;

        fuzz_scarce(bytes_u8(&b) % 16);
        waived = some_rules(bytes_u8(&b));
        t = track_new(&limits, &waived);
        if (t && (bits & BIT_ASSUME) && track_assume(t, &none, &none, 4096, 1) != 0) {
                track_free(t);
                t = NULL;
        }
        if (t && (bits & BIT_IN_CAPSULE))
                track_set_in_capsule(t, 8192);
        while (t && b.left > 0)
                one_pdu(t, &b, &waived);
        if (t)
                track_free(t);
        fuzz_scarce(0);
        return 0;
}

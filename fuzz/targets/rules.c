/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tables and sums: the rulebook by name and by number and the outcomes that it accepts, the names of
 * all that has one, lines of text for those fields, and CRC32C, which all implementations and all
 * ways of cutting the data have to agree on.
 *
 * Input: a rule (2 bytes), an outcome (2 + 4 + 4), where to cut (2), bytes.
 */
#include "fuzz/fuzz.h"
#include "pdu/nvme/machine/spoil.h"
#include "pdu/nvme/wire/auth.h"
#include "pdu/nvme/wire/nvme.h"
#include "pdu/nvme/wire/tcp.h"
#include "pdu/verbs/verbs.h"

static void check_rule(enum rule_id id, uint16_t code, uint32_t place, uint32_t digest)
{
        const struct rule *r = rule_get(id);
        struct fault fault = rule_fault(id);
        struct rule_set set = { 0 };

        must(!rule_accepts(id, code, place, digest) || (r && code != 0));
        if (!r) {
                must(!is_fault(fault));
                return;
        }
        must(rule_by_name(r->id) == id && fault.rule == id);
        (void)spoil_can(id);
        (void)spoil_can_rdma(id);
        must(*level_name(r->level) && *rulebook_reaction(&nvme_rules, r->reaction) &&
             *party_name(r->bound));
        must(*basis_name(rule_basis(r, r->bound)));
        must(r->unowed || rule_basis(r, peer_of(r->bound)) == r->reacts);
        must(rulebook_flaw_by_name(&nvme_rules, r->id) == 0); /* no fault has a rule's name */
        must(rule_set_empty(&set));
        rule_add(&set, id);
        must(rule_in(&set, id) && !rule_set_empty(&set));
        if (r->accept[0].code && r->accept[0].place != PLACE_DIGEST)
                must(rule_accepts(id, fault.code, fault.place, digest));
        if (r->accept[0].code && r->accept[0].place == PLACE_DIGEST)
                must(rule_accepts(id, fault.code, digest, digest));
}

static void check_names(const uint8_t *p, size_t n)
{
        struct fuzz_input b = bytes_of(p, n);
        union sqe sqe;
        char small[24], cut[24], pad[24], fill[24];
        size_t len = text_len((const char *)p, n);

        must(len <= n);
        bytes_copy(&b, &sqe, sizeof(sqe));
        must(*status_name(le16_get(sqe.cid)));
        (void)feature_name(sqe.opc);
        (void)log_name(sqe.opc);
        (void)sqe_name(&sqe, n % 2);
        must(*verbs_op_name(sqe.opc) && *verbs_status_name(sqe.flags) &&
             *verbs_event_name(sqe.opc));
        (void)auth_group_name(sqe.opc);
        (void)auth_failure_name(sqe.opc);
        must(auth_group_len(sqe.opc) % 128 == 0 && auth_hash_len(sqe.opc) <= AUTH_HASH_MAX);
        text_copy(small, sizeof(small), (const char *)p, n);
        must(strlen(small) <= len && strlen(small) < sizeof(small));
        text_pad(pad, sizeof(pad), small);
        text_fill(fill, sizeof(fill), small);
        must(memchr(pad, 0, sizeof(pad)) == NULL);
        text_copy(cut, sizeof(cut), pad, sizeof(pad));
        must(text_len(fill, sizeof(fill)) == strlen(cut));
        if (memchr(p, 0, n)) {
                enum rule_id id = rule_by_name((const char *)p);

                must(id == RULE_NONE || strcmp(rule_get(id)->id, (const char *)p) == 0);
        }
}

static void check_sums(const uint8_t *p, size_t n, size_t cut)
{
        uint32_t whole = crc32c(p, n);

        cut = cut < n ? cut : n;
        must(crc32c_more(crc32c(p, cut), p + cut, n - cut) == whole);
        for (enum crc32c_impl i = 0; i < CRC32C_IMPLS; i++) {
                must(*crc32c_name(i));
                if (crc32c_has(i))
                        must(crc32c_with(i, crc32c_with(i, 0, p, cut), p + cut, n - cut) == whole);
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
        struct fuzz_input b = bytes_of(input, size);
        enum rule_id id = bytes_u16(&b) % (RULES + 1);
        uint16_t code = bytes_u16(&b);
        uint32_t place = bytes_u32(&b), digest = bytes_u32(&b);
        size_t cut = bytes_u16(&b);

        check_rule(id, code, place, digest);
        check_names(b.p, b.left);
        check_sums(b.p, b.left, cut);
        return 0;
}

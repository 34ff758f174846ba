/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A discovery log as a host reads it: as long as it is, whatever NUMREC says.
 *
 * Input: the log.
 */
#include "pdu/nvme/wire/discovery.h"
#include "fuzz/fuzz.h"
#include "pdu/nvme/wire/logs.h"

static void check_entry(const struct disc_entry *e)
{
        struct rule_set found = { 0 };
        struct fuzz_reader reader;
        struct describe d = fuzz_describer(&reader);
        struct disc_entry own;
        char traddr[257], subnqn[257], port[33];

        describe_disc_entry(&d, e);
        fuzz_described(&reader);
        disc_entry_check(e, &found);
        must(!rule_in(&found, RULE_NONE));
        text_copy(traddr, sizeof(traddr), e->traddr, sizeof(e->traddr));
        text_copy(subnqn, sizeof(subnqn), e->subnqn, sizeof(e->subnqn));
        text_copy(port, sizeof(port), e->trsvcid, sizeof(e->trsvcid));
        disc_entry_tcp(&own, e->subtype, e->adrfam, traddr, disc_entry_port(e), subnqn);
        must(disc_entry_port(&own) == disc_entry_port(e));
        found = (struct rule_set) { 0 };
        disc_entry_check(&own, &found);
        rule_remove(&found, DISC_TRADDR); /* the address and the port are the input's */
        rule_remove(&found, DISC_PORT);
        must(disc_entry_port(e) == 0 || rule_set_empty(&found));
        disc_entry_rdma(&own, e->subtype, e->adrfam, traddr, disc_entry_port(e), subnqn,
                        e->tsas[1]);
        must(disc_entry_port(&own) == disc_entry_port(e));
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
        struct fuzz_reader reader;
        struct describe d = fuzz_describer(&reader);
        const struct disc_entry *e;
        struct text_lines lines;
        uint64_t i = 0;

        for (; (e = disc_log_entry(input, size, i)); i++) {
                must((const uint8_t *)(e + 1) <= input + size);
                check_entry(e);
                if (i > 0)
                        must(disc_entry_twins(e, e - 1) == disc_entry_twins(e - 1, e));
        }
        must(!disc_log_entry(input, size, UINT64_MAX));
        must(!disc_log_entry(input, size, UINT64_MAX / sizeof(*e)));
        must(i * sizeof(*e) <= size);
        (void)describe_log(&d, LOG_DISCOVERY, input, size);
        fuzz_described(&reader);
        d = fuzz_liner(&lines);
        (void)describe_log(&d, LOG_DISCOVERY, input, size);
        fuzz_lined(&lines);
        return 0;
}

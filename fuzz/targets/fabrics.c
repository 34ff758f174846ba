/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fabrics: Connect data, NQNs, commands and properties as both sides read them.
 *
 * Input: bits (1 byte), a property's offset (4) and value (8), a command (64), Connect data.
 */
#include "pdu/nvme/wire/fabrics.h"
#include "fuzz/fuzz.h"
#include "pdu/nvme/machine/judge.h"

/* What is valid strictly is valid; what is valid ends within its field and is not too long. */
static void check_nqn(const char *nqn, size_t size)
{
        bool valid = nqn_valid(nqn, size, false), strictly = nqn_valid(nqn, size, true);

        must(valid || !strictly);
        must(!valid || (memchr(nqn, 0, size) && strlen(nqn) <= NQN_MAX));
}

static void check_property(uint32_t ofst, uint64_t value)
{
        struct fuzz_reader reader;
        struct describe d = fuzz_describer(&reader);

        must((property_size(ofst) > 0) == (property_name(ofst) != NULL));
        describe_property(&d, ofst, value);
        fuzz_described(&reader);
}

static void check_command(const union sqe *sqe, unsigned bits, uint64_t value)
{
        const struct queue_past past = { .qid = (int)(bits & 3) - 1,
                                         .connected = bits & 4,
                                         .mid_stream = bits & 8,
                                         .keyed = bits & 16,
                                         .cc = (uint32_t)value };
        struct rule_set found = { 0 };
        struct fuzz_reader reader;
        struct describe d = fuzz_describer(&reader);
        char line[300];
        struct text t = text_in(line, sizeof(line));
        struct cqe cqe;

        describe_sqe(&d, sqe, bits & 32);
        fuzz_described(&reader);
        sqe_line(&t, sqe, bits & 32);
        judge_sqe(&found, &past, sqe);
        memcpy(&cqe, (const uint8_t *)sqe + 48, sizeof(cqe));
        judge_cqe(&found, &past, sqe->opc, sqe->fctype, &cqe);
        must(!rule_in(&found, RULE_NONE));
        (void)sqe_needs(&past, sqe);
        (void)sqe_moves(sqe);
        d = fuzz_describer(&reader);
        describe_cqe(&d, &cqe);
        fuzz_described(&reader);
        cqe_line(&t, &cqe);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
        struct fuzz_input b = bytes_of(input, size);
        unsigned bits = bytes_u8(&b);
        uint32_t ofst = bytes_u32(&b);
        uint64_t value = bytes_take(&b, 8);
        struct fuzz_reader reader;
        struct describe d = fuzz_describer(&reader);
        struct connect_data data;
        union sqe sqe;

        bytes_copy(&b, &sqe, sizeof(sqe));
        check_command(&sqe, bits, value);
        check_property(ofst, value);
        check_nqn((const char *)b.p, b.left); /* a field that ends where the input does */
        bytes_copy(&b, &data, sizeof(data));
        check_nqn(data.subnqn, sizeof(data.subnqn));
        check_nqn(data.hostnqn, sizeof(data.hostnqn));
        describe_connect_data(&d, &data);
        fuzz_described(&reader);
        return 0;
}

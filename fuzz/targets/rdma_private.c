/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The private data of RDMA connection management.
 *
 * Input: the controller's limits and the CM's numbers (8 bytes), length of the request (1), the
 * request, the answer.
 */
#include "fuzz/fuzz.h"
#include "pdu/nvme/wire/rdma.h"

static struct fault check_request(const void *data, size_t len, const struct rdma_limits *limits,
                                  uint8_t in, uint8_t out)
{
        struct fault f = rdma_request_check(data, len, in, out, limits, NULL);
        struct rdma_request request;
        struct rule_set found = { 0 };

        must(!is_fault(f) || (rule_get(f.rule)->reaction == REACT_REJECT &&
                              f.code >= RDMA_REJECT_LENGTH && f.code <= RDMA_REJECT_CNTLID));
        must(!is_fault(rdma_request_check(data, len, in, out, limits, fuzz_all_rules())));
        must(rdma_request_read(data, len, &request) == (len >= sizeof(request)));
        must(is_fault(f) || len >= sizeof(request));
        rdma_request_findings(data, len, in, &found);
        must(!rule_in(&found, RULE_NONE));
        return f;
}

static void check_answers(const void *data, size_t len, const struct rdma_request *request,
                          uint8_t in)
{
        struct rule_set found = { 0 };
        struct rdma_accept accept;
        struct rdma_reject reject;
        struct fuzz_reader reader;
        struct describe d = fuzz_describer(&reader);

        must(rdma_accept_read(data, len, &accept) == (len >= sizeof(accept)));
        must(rdma_reject_read(data, len, &reject) == (len >= sizeof(reject)));
        must(rdma_reject_len(data, len) == 0 || rdma_reject_len(data, len) == len);
        rdma_accept_check(data, len, in, request, &found);
        rdma_reject_check(data, len, &found);
        must(!rule_in(&found, RULE_NONE));
        describe_rdma_accept(&d, &accept);
        describe_rdma_reject(&d, &reject);
        must(rdma_reject_name(le16_get(reject.sts)) != NULL);
        fuzz_described(&reader);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
        struct fuzz_input b = bytes_of(input, size);
        struct rdma_limits limits = { .queues = bytes_u8(&b), .entries = bytes_u16(&b) };
        struct rdma_request request;
        struct fuzz_reader reader;
        struct describe d = fuzz_describer(&reader);
        uint8_t in, out;
        size_t len;

        limits.hrqsize_min = bytes_u8(&b);
        limits.reads_in_min = bytes_u8(&b) % 4;
        limits.reads_out_min = bytes_u8(&b) % 4;
        in = bytes_u8(&b);
        out = bytes_u8(&b);
        len = bytes_u8(&b);
        len = len < b.left ? len : b.left;
        (void)check_request(b.p, len, &limits, in, out);
        (void)rdma_request_read(b.p, len, &request);
        describe_rdma_request(&d, &request);
        fuzz_described(&reader);
        check_answers(b.p + len, b.left - len, &request, in);
        (void)check_request(NULL, 0, &limits, in, out);
        return 0;
}

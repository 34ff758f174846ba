/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Identify data of any CNS, of any length, as hosts read them.
 *
 * Input: CNS (1 byte), the data.
 */
#include "pdu/nvme/wire/identify.h"
#include "fuzz/fuzz.h"

static void check_descriptors(const uint8_t *list, size_t len)
{
        uint8_t copy[4096];
        size_t at = 0, to = 0, last = 0;
        struct ns_id id;

        while (ns_desc_next(list, len, &at, &id)) {
                must(at > last && at <= len);
                must(id.len > 0 && id.bytes + id.len <= list + len);
                must(id.bytes >= list + last);
                if (ns_desc_put(copy, sizeof(copy), &to, &id))
                        must(to <= sizeof(copy));
                last = at;
        }
}

static void check_list(const uint8_t *list, size_t len)
{
        size_t n = ns_list_count(list, len);

        must(n * 4 <= len);
        for (size_t i = 0; i < n; i++)
                must(ns_list_get(list, i) != 0);
}

/* A fault has words. */
static void on_fault(const char *fault)
{
        must(!fault || *fault);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
        struct fuzz_input b = bytes_of(input, size);
        uint8_t cns = bytes_u8(&b), whole[IDENTIFY_LEN] = { 0 };
        struct text_lines lines;
        struct fuzz_reader reader;
        struct describe d = fuzz_describer(&reader);
        struct id_ns ns;
        uint32_t block;

        if (!describe_identify(&d, cns, b.p, b.left))
                must(reader.digest == FUZZ_DIGEST_START);
        fuzz_described(&reader);
        memcpy(whole, b.p, b.left < sizeof(whole) ? b.left : sizeof(whole));
        d = fuzz_liner(&lines);
        (void)describe_identify(&d, cns, whole, sizeof(whole)); /* as long as it has to be */
        fuzz_lined(&lines);
        check_descriptors(b.p, b.left);
        check_list(b.p, b.left);
        on_fault(ns_descs_fault(b.p, b.left));
        on_fault(id_text_fault((const struct id_ctrl *)whole));
        bytes_copy(&b, &ns, sizeof(ns));
        on_fault(id_ns_fault(&ns));
        block = id_ns_block_size(&ns);
        must(block == 0 || (block >= 512 && block <= 1 << 20 && (block & (block - 1)) == 0));
        return 0;
}

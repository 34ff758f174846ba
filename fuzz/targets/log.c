/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Log pages of any identifier, of any length, as hosts read them; and the ANA log group by group.
 *
 * Input: LID (1 byte), the data.
 */
#include "fuzz/fuzz.h"
#include "pdu/nvme/wire/identify.h"
#include "pdu/nvme/wire/logs.h"

enum { LOG_MOST = 5000 };

static void check_groups(const uint8_t *log, size_t len)
{
        size_t at = sizeof(struct log_ana), last = at, count;
        const struct ana_group *g;
        const void *nsids;

        while ((g = ana_group_next(log, len, &at, &nsids, &count))) {
                must((const uint8_t *)(g + 1) <= log + len);
                must(at > last && count <= len / 4);
                for (size_t i = 0; i < count; i++)
                        (void)ns_list_get(nsids, i);
                last = at;
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
        struct fuzz_input b = bytes_of(input, size);
        static uint8_t whole[LOG_MOST];
        uint8_t lid = bytes_u8(&b);
        struct text_lines lines;
        struct fuzz_reader reader;
        struct describe d = fuzz_describer(&reader);

        if (!describe_log(&d, lid, b.p, b.left))
                must(reader.digest == FUZZ_DIGEST_START);
        fuzz_described(&reader);
        memset(whole, 0, sizeof(whole));
        memcpy(whole, b.p, b.left < sizeof(whole) ? b.left : sizeof(whole));
        d = fuzz_liner(&lines);
        (void)describe_log(&d, lid, whole, sizeof(whole)); /* as long as it has to be */
        fuzz_lined(&lines);
        check_groups(b.p, b.left);
        return 0;
}

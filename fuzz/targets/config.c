/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The target's configuration file.
 *
 * Input: the file; it is read a second time with an allocation that fails.
 */
#include "target/nvme/config.h"
#include "fuzz/fuzz.h"

static void load(const uint8_t *input, size_t size)
{
        struct config c;
        char error[300] = "";
        bool ok = config_load(&c, fuzz_file(input, size), error, sizeof(error));

        must(memchr(error, 0, sizeof(error)) != NULL);
        must(ok == (error[0] == '\0'));
        must(!strchr(error, '\n'));
        if (ok)
                must(config_check(&c, "again", error, sizeof(error)));
        config_free(&c);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
        uint32_t digest = FUZZ_DIGEST_START;

        load(input, size);
        fuzz_digest(&digest, input, size);
        fuzz_scarce(1 + digest % 48);
        load(input, size);
        fuzz_scarce(0);
        return 0;
}

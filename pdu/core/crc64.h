/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CRC-64 of NVMe's 64b guard (polynomial AD93D235_94C93659h, reflected, initial value and final xor all
 * ones; NVM Command Set 1.2 section 5.3.1.3.4). The CRC of "123456789" is AE8B1486_0A799888h, as the CRC
 * catalogues have it; the check value that is printed there is not, but the test cases of 5.3.1.3.5 are right.
 */
#ifndef NVMF_CORE_CRC64_H
#define NVMF_CORE_CRC64_H

#include <stddef.h>
#include <stdint.h>

/* Continues a digest: crc64_more(crc64_more(0, a), b) is that of a followed by b. */
uint64_t crc64_more(uint64_t crc, const void *data, size_t len);

#endif

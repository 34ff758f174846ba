/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CRC-16 of T10 DIF (polynomial 8BB7h, not reflected, initial value 0, no final xor; SBC-4, as used by
 * NVM Command Set 1.2 section 5.3.1.1). crc16() of "123456789" is D0DBh.
 */
#ifndef NVMF_CORE_CRC16_H
#define NVMF_CORE_CRC16_H

#include <stddef.h>
#include <stdint.h>

/* Continues a digest: crc16_more(crc16_more(0, a), b) is that of a followed by b. */
uint16_t crc16_more(uint16_t crc, const void *data, size_t len);

#endif

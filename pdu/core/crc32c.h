/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CRC32C (Castagnoli, reflected, initial value and final xor all ones; RFC 3385 as used by
 * NVMe/TCP 1.0 section 3.3.1.1). crc32c() of "123456789" is E3069283h.
 *
 * Three implementations: libisal (when built with it), the SSE4.2 instruction, a table. The best
 * one that this processor has is chosen at run time.
 */
#ifndef NVMF_WIRE_CRC32C_H
#define NVMF_WIRE_CRC32C_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum crc32c_impl { CRC32C_ISAL, CRC32C_SSE42, CRC32C_TABLE, CRC32C_IMPLS };

/* The digest of len bytes. */
uint32_t crc32c(const void *data, size_t len);

/* Continues a digest: crc32c_more(crc32c(a), b) == crc32c(a followed by b); start with 0. */
uint32_t crc32c_more(uint32_t crc, const void *data, size_t len);

/* As crc32c_more with one implementation; only where crc32c_has(impl). */
uint32_t crc32c_with(enum crc32c_impl impl, uint32_t crc, const void *data, size_t len);
/* Whether this build has it, and this processor can run it; crc32c_name(): "isal", ... */
bool crc32c_has(enum crc32c_impl impl);
const char *crc32c_name(enum crc32c_impl impl);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * End-to-end protection information, as SCSI and NVMe have it (T10 SBC; NVM Command Set 1.2, 5.3): the last 8 bytes
 * of a block's metadata, or 16 with a guard of 32 or 64 bits, big endian. The guard covers the block and the metadata
 * before. Between the application tag and the end a storage tag may come before the reference tag.
 */
#ifndef NVMF_CORE_PROTECT_H
#define NVMF_CORE_PROTECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PI_LEN = 8, PI_LEN_WIDE = 16, PI_TYPES = 3, PI_NO_CHECK = 0xffff /* an application tag */ };

struct pi_format {
        uint8_t type;  /* 1 to PI_TYPES; 0: there is none */
        uint8_t guard; /* bits: 16, 32 or 64 */
        uint8_t sts;   /* bits of the storage tag: 0 to 32, 16 to 64, or 0 to 48 */
};
/* Whether there is such a format. */
bool pi_is_format(const struct pi_format *f);
/* Whether hosts have to enable it (LBAFEE). */
static inline bool pi_is_extended(const struct pi_format *f)
{
        return f->type && (f->guard > 16 || f->sts > 0);
}
static inline unsigned pi_len(const struct pi_format *f)
{
        return f->guard > 16 ? PI_LEN_WIDE : PI_LEN;
}
/* The reference tag has so many bits; 0: there is none. */
unsigned pi_ref_bits(const struct pi_format *f);
/* What of a reference tag, and of a storage tag, the format has room for. */
uint64_t pi_ref_mask(const struct pi_format *f);
uint64_t pi_storage_mask(const struct pi_format *f);

/* What a command asks for: PRINFO and its tags. */
struct pi_use {
        bool act;             /* PRACT: made on the way in, taken off on the way out */
        bool guard, app, ref; /* PRCHK */
        bool stc;             /* STC: the storage tag */
        bool strict;          /* a fault: checks also what its tags exempt */
        bool odd;             /* a fault: the guard is another one */
        uint16_t tag, mask;   /* (E)LBAT, (E)LBATM */
        uint64_t first;       /* (E)ILBRT: reference tag of the first block */
        uint64_t storage;     /* (E)LBST */
};

struct pi_wide { /* of a block, whatever its format */
        uint64_t guard, storage, ref;
        uint16_t app;
};
/* tuple has pi_len(f) bytes. Of ref the low pi_ref_bits(f) bits are written. */
struct pi_wide pi_wide_get(const struct pi_format *f, const uint8_t *tuple);
void pi_wide_put(const struct pi_format *f, uint8_t *tuple, const struct pi_wide *pi);
/* The guard: `crc` continued, 0 at first. */
uint64_t pi_crc(const struct pi_format *f, uint64_t crc, const void *bytes, size_t len);

struct pi { /* of a block, with a 16b guard and no storage tag */
        uint16_t guard, app;
        uint32_t ref;
};
/* The same of a 16b guard without storage tag. */
struct pi pi_get(const uint8_t tuple[PI_LEN]);
void pi_put(uint8_t tuple[PI_LEN], struct pi pi);
/* With PRACT: what is written for block i of a command, whose covered bytes have this CRC. */
void pi_make(const struct pi_format *f, const struct pi_use *u, uint32_t i, uint64_t crc,
             uint8_t *tuple);

enum pi_result { PI_RIGHT, PI_GUARD_WRONG, PI_APP_WRONG, PI_STORAGE_WRONG, PI_REF_WRONG };
/* What the tuple of block i says of it. crc: of what the guard covers; not looked at where it is not checked. */
enum pi_result pi_check(const struct pi_use *u, const struct pi_format *f, const uint8_t *tuple,
                        uint32_t i, uint64_t crc);
/* Whether pi_check() needs the CRC for this. */
static inline bool pi_needs_crc(const struct pi_use *u)
{
        return u->guard;
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Submission queue entries by name; CID, PSDT and SGL are filled in when they are submitted. NLB
 * and NUMD come as counts of blocks and bytes here and become 0's based there.
 */
#ifndef NVMF_HOST_BUILD_H
#define NVMF_HOST_BUILD_H

#include "pdu/nvme/wire/fabrics.h"

static inline union sqe build_admin(uint8_t opc, uint32_t nsid, uint32_t cdw10, uint32_t cdw11)
{
        return (union sqe) {
                .opc = opc, .nsid = le32(nsid), .cdw10 = le32(cdw10), .cdw11 = le32(cdw11)
        };
}

static inline union sqe build_identify(uint8_t cns, uint32_t nsid)
{
        return build_admin(NVME_IDENTIFY, nsid, cns, 0);
}

/* len and offset in bytes, multiples of 4; len > 0. rae: keep the event that the page belongs to.
 */
static inline union sqe build_get_log(uint8_t lid, uint32_t nsid, uint64_t offset, uint32_t len,
                                      bool rae)
{
        uint32_t numd = len / 4 - 1;
        union sqe s = build_admin(NVME_GET_LOG_PAGE, nsid,
                                  lid | (uint32_t)rae << 15 | (numd & 0xffff) << 16, numd >> 16);

        s.cdw12 = le32((uint32_t)offset);
        s.cdw13 = le32((uint32_t)(offset >> 32));
        return s;
}

/* Read, Write, Compare, Write Zeroes, Verify; control: RW_FUA and the like. */
static inline union sqe build_rw(uint8_t opc, uint32_t nsid, uint64_t slba, uint32_t blocks,
                                 uint32_t control)
{
        union sqe s = build_admin(opc, nsid, (uint32_t)slba, (uint32_t)(slba >> 32));

        s.cdw12 = le32(((blocks - 1) & RW_NLB_MASK) | control);
        return s;
}

/* entries: a count, 2 or more. Properties are 8 bytes wide where the specification has them so
 * (Base 3.1.4). */
union sqe build_connect(uint16_t qid, uint16_t entries, uint8_t cattr, uint32_t kato_ms);
union sqe build_property_get(uint32_t ofst);
union sqe build_property_set(uint32_t ofst, uint64_t value);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
#include "build.h"

union sqe build_connect(uint16_t qid, uint16_t entries, uint8_t cattr, uint32_t kato_ms)
{
        return (union sqe) { .connect = { .opc = NVME_FABRICS,
                                          .fctype = FCTYPE_CONNECT,
                                          .qid = le16(qid),
                                          .sqsize = le16((uint16_t)(entries - 1)),
                                          .cattr = cattr,
                                          .kato = le32(kato_ms) } };
}

static union sqe build_property(uint8_t fctype, uint32_t ofst, uint64_t value)
{
        return (union sqe) { .property = { .opc = NVME_FABRICS,
                                           .fctype = fctype,
                                           .attrib = property_size(ofst) == 8 ? PROP_ATTRIB_8
                                                                              : PROP_ATTRIB_4,
                                           .ofst = le32(ofst),
                                           .value = le64(value) } };
}

union sqe build_property_get(uint32_t ofst)
{
        return build_property(FCTYPE_PROPERTY_GET, ofst, 0);
}

union sqe build_property_set(uint32_t ofst, uint64_t value)
{
        return build_property(FCTYPE_PROPERTY_SET, ofst, value);
}

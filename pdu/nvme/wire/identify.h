/* SPDX-License-Identifier: BSD-3-Clause */
/* Identify data (Base 2.2 5.1.13, NVM Command Set 4.1.5): description, and lists read with care. */
#ifndef NVMF_WIRE_IDENTIFY_H
#define NVMF_WIRE_IDENTIFY_H

#include "nvme.h"
#include "text.h"

/* All fields, and of LBA formats those that NLBAF counts. */
void describe_id_ns(const struct describe *d, const struct id_ns *n);
/* Identify data of `cns`; false: not known, or len is too short for it: nothing said. */
bool describe_identify(const struct describe *d, uint8_t cns, const void *data, size_t len);

/* Which LBA format is in use: bits 3:0 of FLBAS, and 6:5 where there are more than 16. */
unsigned id_ns_format(const struct id_ns *n);
/* Bytes of a block of the format in use; 0 if the structure names none from 512 to 1 MiB. */
uint32_t id_ns_block_size(const struct id_ns *n);
/* Bytes of metadata that each such block has besides. */
unsigned id_ns_metadata(const struct id_ns *n);

/* One namespace identification descriptor; bytes points into the list. */
struct ns_id {
        uint8_t type; /* NIDT_* */
        uint8_t len;
        const uint8_t *bytes;
};
/*
 * The descriptor at offset *at of a list of len bytes, and *at moved past it; start with 0.
 * False: the list has ended (NIDT 0), or its next descriptor is empty or does not fit.
 */
bool ns_desc_next(const void *list, size_t len, size_t *at, struct ns_id *id);
/* Writes one at offset *at and moves it past that; false if it does not fit. */
bool ns_desc_put(void *list, size_t len, size_t *at, const struct ns_id *id);

/* By ID_TEXT: the name of the first of SN, MN and FR that is at fault; NULL if none is. */
const char *id_text_fault(const struct id_ctrl *id);

/* By ID_QES: whether SQES and CQES are as they have to be. */
bool id_entry_sizes_right(const struct id_ctrl *id);

/* What is wrong with them by ID_NS and by ID_NS_DESCS (an IDENTIFY_LEN list, or its beginning): a
 * static text, NULL if nothing is. An inactive namespace has no size, and nothing wrong with it. */
const char *id_ns_fault(const struct id_ns *n);
const char *ns_descs_fault(const void *list, size_t len);

/* Entries of a list of 4-byte namespace identifiers: up to the first zero or the end. */
size_t ns_list_count(const void *list, size_t len);
uint32_t ns_list_get(const void *list, size_t i); /* i < ns_list_count() */

#endif

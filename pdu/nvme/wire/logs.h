/* SPDX-License-Identifier: BSD-3-Clause */
/* Log pages (Base 2.2 5.1.12) described; the discovery log has a file of its own. */
#ifndef NVMF_WIRE_LOGS_H
#define NVMF_WIRE_LOGS_H

#include "nvme.h"
#include "text.h"

/*
 * The group at offset *at of an ANA log of len bytes, and *at moved past it and its namespaces;
 * start with sizeof(struct log_ana), and take no more than NGRPS. NULL: len ends before it. nsids
 * (ns_list_get()) has *count entries, those that are there.
 */
const struct ana_group *ana_group_next(const void *log, size_t len, size_t *at, const void **nsids,
                                       size_t *count);

/*
 * A log page of len bytes (of the error log: entries up to the first that is not used; of the
 * discovery log: the entries that are there); false: not known or too short, nothing said.
 */
bool describe_log(const struct describe *d, uint8_t lid, const void *data, size_t len);

#endif

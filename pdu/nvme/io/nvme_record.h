/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The recorder of verbs (pdu/io/verbs/verbs_record.h) with what it takes to know NVMe. The controller's port becomes 4420
 * unless it is 8009. READs and WRITEs of the peer are made up by the host's end when a command has succeeded: one for each
 * descriptor of its data, as long as that is (or its memory), with what the memory holds when the response comes.
 */
#ifndef NVMF_NVME_IO_NVME_RECORD_H
#define NVMF_NVME_IO_NVME_RECORD_H

#include "pdu/io/verbs/verbs_record.h"

/* As verbs_record_new(); it goes by verbs_record_free(). */
struct verbs_provider *nvme_record_new(struct verbs_provider *of, struct capture_writer *w);

#endif

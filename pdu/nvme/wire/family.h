/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NVMF_WIRE_FAMILY_H
#define NVMF_WIRE_FAMILY_H

#include "pdu/core/family.h"

extern const struct family nvme_family; /* NVMe over Fabrics, by TCP and RDMA */

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NVMF_HOST_NVME_COMMAND_H
#define NVMF_HOST_NVME_COMMAND_H

#include "host/engine/command.h"

extern const struct host_family nvme_host; /* `nvmfspec host` of NVMe */

#endif

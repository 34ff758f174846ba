/* SPDX-License-Identifier: BSD-3-Clause */
/* What `nvmfspec fuzz` has of NVMe's own: who is asked, and by whom. */
#ifndef NVMF_FUZZ_NVME_COMMAND_H
#define NVMF_FUZZ_NVME_COMMAND_H

#include "fuzz/campaign/command.h"
#include "peer.h"

extern const struct fuzz_command nvme_fuzz_command;

#endif

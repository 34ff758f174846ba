/* SPDX-License-Identifier: BSD-3-Clause */
/* What `nvmfspec target` has of NVMe's own: its options, and the target with its RPC that they ask for. */
#ifndef NVMF_TARGET_NVME_COMMAND_H
#define NVMF_TARGET_NVME_COMMAND_H

#include "target/engine/command.h"

extern const struct target_command nvme_command;

#endif

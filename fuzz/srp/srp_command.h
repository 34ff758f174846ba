/* SPDX-License-Identifier: BSD-3-Clause */
/* What `nvmfspec fuzz -t srp` has of its own: which target port, and the target of its own where no address is given. */
#ifndef NVMF_FUZZ_SRP_COMMAND_H
#define NVMF_FUZZ_SRP_COMMAND_H

#include "fuzz/campaign/command.h"
#include "srp_live.h"

extern const struct fuzz_command srp_fuzz_command;

#endif

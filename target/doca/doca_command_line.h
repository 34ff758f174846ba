/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NVMF_TARGET_DOCA_COMMAND_LINE_H
#define NVMF_TARGET_DOCA_COMMAND_LINE_H

#include "target/engine/command.h"

extern const struct target_command doca_command_line;

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NVMF_DOCA_WIRE_FAMILY_H
#define NVMF_DOCA_WIRE_FAMILY_H

#include "pdu/core/family.h"

extern const struct family doca_family;

#endif

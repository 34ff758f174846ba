/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NVMF_SRP_WIRE_FAMILY_H
#define NVMF_SRP_WIRE_FAMILY_H

#include "pdu/core/family.h"

extern const struct family srp_family;

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NVMF_CONFORMANCE_CONFORM_H
#define NVMF_CONFORMANCE_CONFORM_H

extern const char nvme_spec[]; /* the tables in conformance/spec, one after the other */

extern const struct conform_family nvme_conform; /* `nvmfspec conform` of NVMe targets and hosts */

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NVMF_CONFORMANCE_CONFORM_H
#define NVMF_CONFORMANCE_CONFORM_H

extern const char nvme_spec[]; /* the tables in conformance/spec, one after the other */

/* `nvmfspec conform`: judges NVMe targets and hosts by the suite; as conform_run() (engine/conform.h). */
int conform_command(int argc, char **argv);

#endif

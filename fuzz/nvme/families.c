/* SPDX-License-Identifier: BSD-3-Clause */
/* What a program that links all of NVMe's fuzzer has, unless it says something else. */
#include "templates.h"

const struct fuzz_family *const fuzz_families[] = { &nvme_fuzz, NULL };

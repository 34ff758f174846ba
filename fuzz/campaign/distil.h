/* SPDX-License-Identifier: BSD-3-Clause */
/* `nvmfspec fuzz min` and `fuzz merge`: less of what there is. */
#ifndef NVMF_FUZZ_DISTIL_H
#define NVMF_FUZZ_DISTIL_H

#include "campaign.h"

enum fuzz_exit { FUZZ_OK, FUZZ_FOUND, FUZZ_USAGE, FUZZ_UNREADABLE };

/*
 * Makes a sequence small that crashes our own machines (each trial in a child process), or that
 * brings trouble to the target of config (live). enum fuzz_exit: FUZZ_FOUND and the smaller one in
 * *s, or FUZZ_OK if nothing is wrong with it.
 */
int distil_min(const struct campaign_config *config, bool live, struct sequence *s);

/* Writes those of a corpus that show something that none before them did to `folder`, a file each,
 * short ones first. enum fuzz_exit. */
int distil_merge(const struct campaign_config *config, bool live, struct corpus *c,
                 const char *folder);

#endif

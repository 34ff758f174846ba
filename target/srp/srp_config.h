/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The section "srp" of a configuration file, which may have sections of other families beside:
 *
 *      { "srp": { "listen": [ { "traddr": "10.0.0.2", "trsvcid": "5555" } ],
 *                 "target_id": "0002c90300a0b0c00002c90300a0b0c0",
 *                 "luns": [ { "lun": 0, "path": "mem:64M" } ],
 *                 "request_limit": 64, "channels": 8, "it_iu": 8260, "max_transfer": 1048576,
 *                 "immediate": true } }
 */
#ifndef NVMF_TARGET_SRP_CONFIG_H
#define NVMF_TARGET_SRP_CONFIG_H

#include "srp_server.h"

/* Into o, whose strings it allocates. False: error names the place; srp_config_free() is to follow all the same. */
bool srp_config_load(struct srp_options *o, const char *file, char *error, size_t size);
void srp_config_free(struct srp_options *o);
/* A copy of spec becomes that LUN's. False: out of memory, or the number is above 255. */
bool srp_config_lun(struct srp_options *o, uint32_t lun, const char *spec);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* Arguments of `nvmfspec host -t srp`. */
#ifndef NVMF_HOST_SRP_ARGS_H
#define NVMF_HOST_SRP_ARGS_H

#include "channels.h"
#include "host/engine/command.h"

enum { /* groups of options */
       SRP_LUN = HOST_OWN,
       SRP_BLOCKS = HOST_OWN << 1,
       SRP_FORM = HOST_OWN << 2,
       SRP_CHANNELS = HOST_OWN << 3,
       SRP_SLBA = HOST_OWN << 4,
};

struct srp_args {
        struct host_args base; /* first */
        const char *traddr, *trsvcid, *form;
        srp_port_id initiator, target;
        uint64_t lun, channels, pieces, timeout, it_iu, reconnect;
        bool no_immediate;
        struct rule_policy policy;
        struct verbs_provider *verbs; /* NULL: the machine's */
};

extern const struct host_family srp_host_family;
extern const struct option_row srp_host_options[];

/* As host_family.defaults(). */
void srp_args_defaults(void *args);
/* What to connect with, where -i does not say with `channels`. -1: e says what is missing. */
int srp_args_params(const struct srp_args *a, unsigned channels, struct srp_params *p,
                    struct host_error *e);
enum srp_form srp_args_form(const struct srp_args *a);

#endif

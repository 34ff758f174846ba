/* SPDX-License-Identifier: BSD-3-Clause */
/* The service's side of a control channel: requests out, one at a time, and what is wrong with their responses. */
#ifndef NVMF_DOCA_MACHINE_DOCA_SERVICE_H
#define NVMF_DOCA_MACHINE_DOCA_SERVICE_H

#include "control.h"
#include "frames.h"

struct doca_service {
        struct doca_control control;
        const struct rule_policy *policy;
        struct doca_buffer in, out;
        uint32_t next_id;
        size_t taken; /* bytes of `in` that the last response was in */
};

/* policy outlives it. */
void doca_service_init(struct doca_service *s, const struct doca_dialect *d,
                       enum doca_after_error after_error, const struct rule_policy *policy);
void doca_service_fini(struct doca_service *s);

/* Puts the request, with ids of its own, to what is to be sent (s->out). False: out of memory, or the dialect has no such
 * request. */
bool doca_service_ask(struct doca_service *s, struct doca_msg request);
/* Bytes have come. False: out of memory. */
bool doca_service_receive(struct doca_service *s, const void *p, size_t n);

enum doca_got { DOCA_GOT_NOTHING, DOCA_GOT_RESPONSE, DOCA_GOT_FAULT };
/* The next message of the target, whose bytes are good until the next call of either. FAULT: it breaks a rule that is not
 * waived and not our own reading; *rule is the first of these, and m as far as it could be read. */
enum doca_got doca_service_next(struct doca_service *s, struct doca_msg *m, enum doca_rule *rule);

#endif

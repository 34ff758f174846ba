/* SPDX-License-Identifier: BSD-3-Clause */
/* What ns.c and the backends share. */
#ifndef NVMF_TARGET_NS_BACKEND_H
#define NVMF_TARGET_NS_BACKEND_H

#include "ns.h"

struct ns_spec {         /* what a specification says, in parts */
        const char *arg; /* behind "mem:", "null:" or "file:" */
        uint64_t bytes;  /* of SIZE or size=; 0: not given */
        uint8_t lbads;
        struct ns_times {
                uint64_t least, most; /* us, of delay=; most 0: none */
        } delay;
};

/* Set ops, store and blocks of the namespace; false: `error` says why (without the spec). */
bool ns_mem_open(struct ns *ns, const struct ns_spec *spec, char *error, size_t size);
bool ns_null_open(struct ns *ns, const struct ns_spec *spec, char *error, size_t size);
bool ns_file_open(struct ns *ns, const struct ns_spec *spec, char *error, size_t size);

/* --- delay (ns_delay.c) ------------------------------------------------------------------------- */

enum { NS_DELAY_MAX = 60000000 /* us */ };

/* "5ms", "0-200us"; false: it is none, is empty, or longer than NS_DELAY_MAX. */
bool ns_delay_parse(const char *text, struct ns_times *t);
/* A thread of its own. NULL: errno says why. */
struct ns_delay *ns_delay_new(struct ns *ns, const struct ns_times *t);
void ns_delay_free(struct ns_delay *d); /* nobody waits */
/* After its time: to the disk if w is durable, else done. */
void ns_delay_begin(struct ns_delay *d, struct ns_wait *w);

#endif

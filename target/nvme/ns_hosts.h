/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The hosts that a namespace is attached to, where these are not all: a list that never changes once it is
 * made, so the I/O path looks into it without a lock. Another list is put in place of it.
 */
#ifndef NVMF_TARGET_NS_HOSTS_H
#define NVMF_TARGET_NS_HOSTS_H

#include <stdbool.h>

struct ns_hosts;

/* Copies the names, of less than NQN_FIELD bytes each. NULL: out of memory. */
struct ns_hosts *ns_hosts_new(char *const *nqns, unsigned n);
void ns_hosts_free(struct ns_hosts *h); /* or NULL */
/* Whether the host is one of them; h NULL: every host is. hostnqn NULL: a host without a name. */
bool ns_hosts_has(const struct ns_hosts *h, const char *hostnqn);
/* Whether both are the same hosts; either may be NULL. */
bool ns_hosts_equal(const struct ns_hosts *a, const struct ns_hosts *b);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files with cases of hosts share: how a case is written, and what its play comes to. Private to them. */
#ifndef NVMF_CONFORMANCE_HOST_JUDGE_H
#define NVMF_CONFORMANCE_HOST_JUDGE_H

#include "host_cases.h"
#include "play.h"

struct host_case {
        struct test_case test;
        struct play play;
};

#define PLAY_OF(run_, rules_, only_, id_, level_, says_, ...)                                      \
        {                                                                                          \
                .test = { .family = &nvme_conform,                                                 \
                          .id = id_,                                                               \
                          .level = level_,                                                         \
                          .rules = rules_,                                                         \
                          .only = only_,                                                           \
                          .says = says_,                                                           \
                          .run = run_ },                                                           \
                .play = {                                                                          \
                        __VA_ARGS__                                                                \
                }                                                                                  \
        }

/* 32 bytes for SHA-256, as both have it. */
#define PSK    "NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:"
#define TLS(k) .psk = (k), .told_psk = (k), .target.tls_required = true

/* Those about TLS record by record; they are static. */
const struct host_case *tls_host_cases(size_t *count);

/* That of the case that runs. */
const struct play *play_of(const struct t *t);
/* Plays it, and ends the case where that says nothing about the host. */
struct played play_own(struct t *t);
/* Skips the case where the host does not use TLS although it has a right key and is told so. */
void want_tls(struct t *t);

/* All of these end the case where it is not so. */

/* It has done its work with the subsystem: who moves no data keeps to all that concerns data. */
void want_work(struct t *t, const struct played *seen);
/* It is not content although it cannot be, and does not go on waiting for what cannot come. */
void want_failure(struct t *t, const struct played *seen, const char *expected);
/* That a host fails which always fails has no meaning; how it says so (seen->accepted) may have one. */
void want_meaning(struct t *t, const struct played *seen);

#endif

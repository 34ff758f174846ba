/* SPDX-License-Identifier: BSD-3-Clause */
/* A play that is on: what its parts share. Private to them. */
#ifndef NVMF_CONFORMANCE_STAGE_H
#define NVMF_CONFORMANCE_STAGE_H

#include "play.h"

#define PLAY_NQN "nqn.2026-01.io.nvmfspec:play-" /* how the subsystems of all plays begin */

struct stage {
        struct t *t;
        const struct play *play;
        struct played *seen;
        struct auth_keys keys; /* the target's */
        struct stage_tls tls;  /* the same */
        struct target *target;
        struct verbs_provider *verbs;       /* RDMA */
        struct verbs_provider *memory;      /* the same, if it is ours */
        char trsvcid[8], subnqn[NQN_FIELD]; /* the latter another one for each play */
        int64_t through_ns;                 /* when the host was through, or its time */
        int64_t over_ns; /* the same, and the target had seen what the host has ended */
        uint64_t busy;   /* ms: when its last command but Keep Alive was read; 0: none yet */
        uint64_t heard;  /* ms: when its last command was */
        bool untold;     /* the reference host does without TLS: the log tells of none */
        unsigned newest; /* number of the newest association that had one */
};

/* The host under test does what the play asks of it: s->seen->status, says. */
void stage_call_hook(struct stage *s);
void stage_call_reference(struct stage *s);

/* Reads the capture: all of s->seen but these. -1: error has one line. */
int stage_see(struct stage *s, char *error, size_t size);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The target's side of a control channel: bytes in, requests to whoever does them, bytes out. It refuses what is not due
 * and what cannot be understood, answers with the ids of the request, and has one request in hand at a time.
 */
#ifndef NVMF_DOCA_MACHINE_DOCA_TARGET_H
#define NVMF_DOCA_MACHINE_DOCA_TARGET_H

#include "control.h"
#include "frames.h"

struct doca_target_ops {
        /* Does what is asked for, which is due and within its bounds, and then calls doca_target_answer() or
         * doca_target_refuse(), at once or later. m is good until then, its bytes until
         * more are received. */
        void (*run)(void *user, const struct doca_msg *m);
        /* A request was refused, or was not well formed: for a log. May be NULL. */
        void (*refused)(void *user, const struct doca_msg *m, enum doca_rule rule, const char *why);
};

struct doca_target {
        struct doca_control control;
        const struct doca_target_ops *ops;
        const struct rule_policy *policy;
        void *user;
        struct doca_buffer in, out;
        struct doca_msg request; /* in hand */
        size_t request_len;      /* of its frame, at the beginning of `in` */
        bool busy, pumping;
        bool failed;          /* the channel is to be closed once `out` is sent */
        enum doca_rule fault; /* that ended it; DOCA_RULE_NONE: out of memory, if it failed */
};

/* ops, policy and user outlive it. */
void doca_target_init(struct doca_target *t, const struct doca_dialect *d,
                      enum doca_after_error after_error, const struct doca_target_ops *ops,
                      const struct rule_policy *policy, void *user);
void doca_target_fini(struct doca_target *t);

/* Bytes have come. False: it has failed; what waits in t->out is to be sent, and the channel closed. */
bool doca_target_receive(struct doca_target *t, const void *p, size_t n);
/* The response to the request in hand; its ids are set. The next request may be run before this returns. */
void doca_target_answer(struct doca_target *t, struct doca_msg response);
void __attribute__((format(printf, 3, 4)))
doca_target_refuse(struct doca_target *t, enum doca_error code, const char *why, ...);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A target by a script: who tests initiators hears all that they say, and changes what the target says, at any place. The
 * target itself knows nothing of that, and goes on as though its own words had been said.
 */
#ifndef NVMF_TARGET_SRP_SCRIPT_H
#define NVMF_TARGET_SRP_SCRIPT_H

#include "pdu/srp/machine/srp_target.h"

enum { SRP_SCRIPT_MORE = 4 /* IUs beside its own that may be out, of a channel */ };

struct srp_said {     /* that the target is about to say */
        uint8_t *iu;  /* SRP_IU_OUT bytes that may be changed */
        uint32_t len; /* of it, may be changed up to that; of login responses and rejections too */
        uint8_t more[SRP_IU_OUT]; /* another IU, to be sent after it: not of those two */
        uint32_t more_len;        /* 0: none */
        unsigned more_times;      /* that it is sent, SRP_SCRIPT_MORE at most */
};

struct srp_script {
        /* What an initiator has said: a login request as an IU, or a SEND. channel: tells them apart, as long as it is
         * there. On the reactor, as what follows. */
        void (*heard)(void *user, const void *channel, const void *iu, uint32_t n);
        /* channel NULL: a rejection. */
        void (*say)(void *user, const void *channel, struct srp_said *said);
        void *user;
};

struct srp_conn;
struct srp_service;

struct srp_more { /* an IU that the script has added */
        struct verbs_wr wr;
        uint8_t iu[SRP_IU_OUT];
        bool out;
};

/* A login request, or what a RECV has brought. */
void srp_script_heard(const struct srp_conn *c, const void *iu, uint32_t n);
/* A login response (c) or rejection (NULL) of *len bytes at iu. */
void srp_script_login(const struct srp_service *s, const struct srp_conn *c, uint8_t *iu,
                      uint8_t *len);
/* The SENDs of a chain are changed, and others put between them. */
void srp_script_edit(struct srp_conn *c, struct verbs_wr *chain);
/* True: it was one of those. */
bool srp_script_completed(struct srp_conn *c, const struct verbs_wr *wr);

#endif

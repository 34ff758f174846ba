/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One play with the host under test: a reference target for it alone, which departs from the usual as
 * the play says, what the host is asked to do there, and what it did, as the capture of it shows.
 */
#ifndef NVMF_CONFORMANCE_PLAY_H
#define NVMF_CONFORMANCE_PLAY_H

#include "conformance/words/words.h"
#include "stage_tls.h"
#include "target/nvme/target.h"

struct play {
        struct target_options target; /* what is not as usual: limits, CPDA, namespaces, ... */
        enum rule_id breaks;          /* the rule that the target breaks, or RULE_NONE */
        enum flaw_id flaw;            /* that the target has, or FLAW_NONE */
        enum rule_id cause; /* one that the target makes the host break, or RULE_NONE: no fault */

        /* The host's key (DHHC-1:...), as the target has it and as the host is told; the subsystem's, as
         * both have it. NULL: none. Only these hash functions and DH groups will do, bits 1 << id; 0: all
         * of them. */
        const char *key, *secret, *ctrl_key;
        uint8_t hashes, groups;
        /* Over TCP: the configured PSK (NVMeTLSkey-1:...), as the target has it and as the host is told. */
        const char *psk, *told_psk;
        enum tls_act act; /* what the target does in TLS, where a PSK is used */
        uint8_t alert;    /* that the host owes for it; 0: any, or none */

        /* The host is to */
        bool hdgst, ddgst;   /* ask for these digests */
        bool concat;         /* generate a PSK for TLS when it authenticates itself */
        bool stranger;       /* go to a subsystem that is none of the target's */
        unsigned grace;      /* ms, 0: 10 s: and end its connections so soon after it has ended */
        unsigned kato, idle; /* s: ask for this KATO, 0: its own; be idle for so long, then go on */
};

/* status: the host can't do what it was asked for; it did not come to an end, or could not be run. */
enum { PLAY_CANNOT = 77, PLAY_HUNG = -1 };

struct played {
        int status;             /* of the host: 0: all went well; else something did not */
        char says[RESULT_TEXT]; /* its first words */
        char wrong[1024];       /* a hook's last ones on standard error, lines */
        unsigned connections;
        unsigned associations;  /* with the subsystem */
        unsigned tries;         /* Connects of an admin queue to what is no discovery service */
        unsigned commands;      /* to the subsystem; */
        unsigned io;            /* of these, I/O commands, whatever became of them; */
        unsigned secured;       /* of these, over TLS */
        uint64_t written, read; /* bytes, by Write and Read commands that succeeded */
        bool refused;           /* a Connect was */
        bool unsupported;       /* it called CPDA so, by H2CTermReq */
        bool hdgst, ddgst;      /* the host asked for them */
        bool caused;            /* it broke play.cause */
        bool negotiated;        /* it began to authenticate itself */
        bool proven;            /* the controller authenticated itself, as the host asked */
        unsigned hellos;        /* ClientHellos of TLS; */
        unsigned modes;         /* key exchange that one of 1.3 offers, bits of enum tls_psk_mode */
        bool interleaved;       /* C2HData of a command came between those of another one */
        bool implied;           /* a Read ended by SUCCESS */
        bool overtaken;         /* an I/O command was answered before one that was older */
        uint32_t kato;          /* ms: what it asked for */
        uint64_t idle;          /* ms: the longest time without a command but Keep Alive, */
        bool renewed;           /* which it ended by those of a new association */
        uint64_t silent;        /* ms: the longest time without any command of it */

        /* The connections on which the target was seen to break the rule: */
        bool broken;   /* there are any */
        bool accepted; /* the host ended one by H2CTermReq or Failure2 as the rule says; */
        bool said;     /* or by another one, with this FES or RCODEEX, and FEI */
        uint16_t code;
        uint32_t place;
        struct tls_seen tls; /* what the host made of play.act; .done is as broken */
        bool left; /* one of them was open until the target ended, or the host that hung was */
};

/*
 * Plays, on the thread that calls it; rules that the host broke are noticed (t_breach()) as far as the
 * target gave no cause for it. Ends the case as an ERROR if the target or the capture fails.
 */
void play(struct t *t, const struct play *p, struct played *seen);

#endif

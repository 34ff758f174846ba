/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `nvmfspec fuzz SUBCOMMAND`: sequences on the command line, whatever family they are of. What a live target is asked
 * and told beside that is the family's (struct fuzz_command).
 */
#ifndef NVMF_FUZZ_COMMAND_H
#define NVMF_FUZZ_COMMAND_H

#include "campaign.h"
#include "pdu/io/option.h"

enum fuzz_group { /* of options: what a subcommand takes */
                  FUZZ_LIVE = 1 << 0,
                  FUZZ_CAMPAIGN = 1 << 1,
                  FUZZ_ORACLE = 1 << 2,
                  FUZZ_MIN = 1 << 3,
                  FUZZ_MERGE = 1 << 4,
                  FUZZ_ANY = 1 << 5,
};

struct fuzz_args {                     /* what a family's arguments begin with */
        struct campaign_config config; /* of the arguments; target.peer is the family's to set */
        const char *transport, *traddr, *trsvcid;
        uint64_t timeout, settle, hang, delay; /* ms */
        const char *reload;
        uint64_t reloads, revokes;
        struct rule_policy policy; /* what it waives */
        bool allow_write, help;
};

struct fuzz_command {
        /* Of a live target: FUZZ_LIVE. args begin with a struct fuzz_args. NULL: none. */
        const struct option_row *options;
        size_t args_size;
        void (*defaults)(void *args); /* NULL: all zero */
        /* They fit together: sets config.target.peer, which has to live as long as args. False: error says in a line
         * what is wrong. */
        bool (*complete)(void *args, char *error, size_t size);
        /* No address is given: starts a target of its own and makes it the one that is played to; whatever harm comes to it
         * is nobody's. False: error has one line. NULL: there is none. */
        bool (*embed)(void *args, char *error, size_t size);
        void (*stop)(
            void *args); /* ... and ends it, if there is one; NULL: nothing is to be ended */
        /* A message of remote_session.message as a line of text. NULL: none is. */
        void (*line)(struct text *t, unsigned on, enum party sender, const void *message);
};

/* argv[0] is "fuzz". Of fuzz_families[] the first one, unless -t says another's transport. The exit code: 0 done, nothing
 * found, 1 something was found, 2 usage, 3 a file that is no sequence, or no target. */
int fuzz_command(int argc, char **argv);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A family of protocols as the fuzzer knows it: the messages that sequences are made of, how a live
 * target of it is played to, asked and described. The engine (fuzz/sequence, fuzz/remote,
 * fuzz/campaign) includes no header of a family; a program says which it has in fuzz_families[].
 */
#ifndef NVMF_FUZZ_FAMILY_H
#define NVMF_FUZZ_FAMILY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pdu/core/family.h"
#include "pdu/core/rule.h"
#include "pdu/core/text.h"

struct corpus;
struct fuzz_command;
struct oracle_limits;
struct remote_answer;
struct remote_target;
struct remote_transport;
struct sequence;

enum { FUZZ_FIELD_TABLES = 2, FUZZ_OPENING = 2 };

/* What a step says by itself, before anything is changed. A family's rows begin with one. */
struct seq_template {
        const char *name;    /* in texts: "h2c" */
        const char *message; /* of the specification, for errors: "H2CData"; NULL: as name */
        enum party side;     /* who says it */
        uint8_t type;        /* the family's number of the message: fields are of it */
        bool command;        /* fields of it have more meanings than one; data may have keys */
        uint16_t data_len;   /* bytes of data that it has, or describes */
};

/* What goes over one of the family's transports, in the order of family->transports; the first one is
 * that of texts which name none. */
struct fuzz_transport {
        bool stream;                       /* of bytes: it can be cut, PDUs have digests */
        bool device;                       /* completions fail, devices are removed */
        uint8_t keys;                      /* a command's descriptors by key, at most; 0: none */
        const char *opening[FUZZ_OPENING]; /* what a connection of a host begins with; NULL: none */
        const char *const *groups;         /* steps of a host that belong together; ended by NULL */
        const char *const *seeds;          /* sessions that keep the rules; ended by NULL */
        const struct remote_transport *remote; /* NULL: not to live targets */
};

typedef void fuzz_mutator(struct sequence *s, uint64_t *seed);

struct fuzz_family { /* NULL: it has nothing of the kind */
        const struct family *family;
        const struct fuzz_transport *transports;

        /* The nth template, NULL after the last one. */
        const struct seq_template *(*template)(unsigned transport, enum party side, unsigned n);
        /* Tables of fields that a step of it may change (each ended by name NULL), the first of one
         * name counts. A name's part after its first dot does, too. */
        void (*fields)(unsigned transport, const struct seq_template *t,
                       const struct field *table[FUZZ_FIELD_TABLES]);
        /* Whether a field is that of this message; own: and of no other one. */
        bool (*is_field_of)(const struct seq_template *t, const struct field *f, bool own);
        /* Whether a step can break this rule by a violator. */
        bool (*can_violate)(unsigned transport, unsigned rule);
        fuzz_mutator *const *mutators; /* of its own, ended by NULL */
        /* Makes a session that keeps the rules of an empty sequence, whose side and so on are set. */
        fuzz_mutator *begin;

        /* What may change data or settings goes out of a sequence. */
        void (*tame)(struct sequence *s);
        /* Adds what a capture holds. False: err has one line. */
        bool (*read_capture)(struct corpus *c, const char *path, char *err);
        /* Plays it to machines of our own, in memory, which may crash. a->why: the state that they are left in. message
         * (NULL: nobody): each one that goes either way, as remote_session.message has it. */
        void (*play)(const struct sequence *s, struct remote_answer *a,
                     void (*message)(void *user, unsigned on, enum party sender,
                                     const void *message),
                     void *user);

        /* As oracle.h says. */
        bool (*alive)(const struct remote_target *target, char *why);
        struct oracle_limits (*limits)(const struct remote_target *target);

        const struct fuzz_command
            *command; /* what the command line has of it: campaign/command.h */
};

/* What this program has, ended by NULL; the first one is that of texts which name none. The program's
 * to define. */
extern const struct fuzz_family *const fuzz_families[];

#endif

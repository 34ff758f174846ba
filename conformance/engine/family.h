/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the suite knows of a family: how its peers are started, asked and described, and what a running
 * case of it has open. One table a family; all members are set unless it says NULL.
 */
#ifndef NVMF_CONFORMANCE_FAMILY_H
#define NVMF_CONFORMANCE_FAMILY_H

#include "options.h"
#include "pdu/core/family.h"
#include "pdu/io/lease.h"

/* What the probe saw go wrong, or broken on the way, of a peer that can be judged. */
enum { PROBES = 16 };
struct probed {
        struct result results[PROBES];
        size_t count;
};

enum { RANGE_PIECES = 6 };

struct conform_family {
        const struct family *family;

        /* --- the command line; args begin with a struct options ------------------------------ */
        const struct option_row *options; /* before those of each group (enum option_group) */
        size_t args_size;
        const char *intro, *more; /* for the help: what is judged; the end. NULL: nothing */
        /* After the parser, which has set suite.embedded where a target has no address: 0; 2: it was wrong, and why is said
         * on stderr. Sets suite.peer. NULL: it is right. */
        int (*check)(struct options *o);

        /* --- who is tested ------------------------------------------------------------------- */
        /* Makes it ready, with this policy if it is a reference peer of ours: fills in the address, and as
         * s->peer a copy of it. What stop() gets; NULL: error says why. */
        void *(*start)(const struct options *o, const struct rule_policy *policy, struct suite *s,
                       char *error, size_t size);
        void (*stop)(void *started);
        /* What it can do: kept with s->peer. What it gets wrong is in p, the last of it in error. False:
         * there is nobody to judge, or nobody for us, and error says why. */
        bool (*probe)(struct suite *s, struct probed *p, char *error, size_t size);
        /* Who it is and what it can do, for the head of reports. NULL: where it is. */
        void (*describe)(const struct suite *s, struct run *run);
        const char *(*entity)(const struct suite *s); /* what is tested there: a subsystem's NQN */
        /* A case of no rule that passes if it is still there. NULL, or returns NULL: it can't be asked. */
        const struct test_case *(*liveness)(const struct suite *s);
        /* A case that fails if another run has written to t->range since this one began. NULL: nobody can
         * tell. */
        const struct test_case *sharing;
        /* Its connections are recorded in s->record from now on, or no more; false if out of memory. May be
         * NULL. */
        bool (*record)(struct suite *s, bool on);

        /* --- cases --------------------------------------------------------------------------- */
        /* Those of ROLE_HOST, in any order: the array is the caller's to free, the cases are static. One
         * thread at a time. NULL: there are none. */
        const struct test_case **(*host_cases)(size_t *count);
        /* Its reference host notices what no reaction is prescribed for, too, where that is not waived. */
        bool notices;
        const char *const
            *needs; /* names of the bits of test_case.needs, for --explain; "": none */
        /* Why the case can't be run; NULL: it can. range: it has one, see ranges(). NULL: all can. */
        const char *(*why_not)(const struct suite *s, const struct test_case *c, bool range);
        /* How many cases may write at once, each in a range of its own: t->range is its number. NULL: none. */
        unsigned (*ranges)(const struct suite *s);
        /* A name of the i-th of at most RANGE_PIECES of a range, by which other runs on this machine know
         * it. False: it has fewer, or nobody else can have it. */
        bool (*range_piece)(const struct suite *s, unsigned range, unsigned i,
                            char name[LEASE_NAME]);
        /* The same of all that is stored, which cases that are alone need for themselves. */
        bool (*whole)(const struct suite *s, char name[LEASE_NAME]);

        /* --- a running case ------------------------------------------------------------------ */
        /* NULL, each: there is nothing to do. */
        void (*begin)(struct t *t);  /* makes t->world; may end the case */
        void (*settle)(struct t *t); /* its body is through: what still waits is looked at, too */
        void (*end)(struct t *t);    /* closes and frees all of t->world, if there is one */

        /* --- text ---------------------------------------------------------------------------- */
        /* The fields of a line's header, a line each. */
        void (*fields)(const struct exchange_line *l, char *buf, size_t size);
        /* One of the outcomes that a rule accepts: "Invalid Field in Command (0/02h)". NULL: its number. */
        void (*outcome)(const struct rule *r, const struct outcome *o, char *buf, size_t size);
        uint16_t port; /* of the controller, in captures of transcripts */

        const char *spec; /* its specification as a table, see spec.h; NULL: there is none */

        unsigned by_case; /* which of rule.violators is no machine, but what a case sends */
};

/* What neither a run nor a report can be made without; NULL: says so, and ends the program. */
void *must_have(void *memory);

#endif

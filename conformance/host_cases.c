/* SPDX-License-Identifier: BSD-3-Clause */
#include "host_cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pdu/machine/spoil.h"
#include "play.h"
#include "words.h"

enum { SAYS = 320 };

struct host_case {
        struct test_case test;
        struct play play;
};

static void play_legal(struct t *t);
static void play_refusal(struct t *t);
static void play_breach(struct t *t);

/* --- what is legal ------------------------------------------------------------------------- */

#define PLAY(run_, id_, level_, says_, ...)                                                        \
        {                                                                                          \
                .test = { .id = id_,                                                               \
                          .level = level_,                                                         \
                          .rules = NO_RULE,                                                        \
                          .says = says_,                                                           \
                          .run = run_ },                                                           \
                .play = {                                                                          \
                        __VA_ARGS__                                                                \
                }                                                                                  \
        }
#define LEGAL(...) PLAY(play_legal, __VA_ARGS__)

static const char *const large_blocks[] = { "mem:8M,bs=4096", NULL };

/* clang-format off */
static const struct host_case written[] = {
        LEGAL("fab/6.3/works", MUST, "It connects, writes, reads back what it wrote, and goes", .breaks = RULE_NONE),
        LEGAL("fab/6.3/one-io-queue", MUST, "It makes do with one I/O queue",
              .target.limits.queues = 1),
        LEGAL("fab/6.3/small-queues", MUST, "It keeps to queues of 16 entries",
              .target.limits.queue_entries = 16),
        LEGAL("fab/6.3/flow-control-kept", MUST, "It goes by SQHD where SQ flow control stays enabled",
              .target.no_sqfc_disable = true),
        LEGAL("base/5.1.13/mdts", MUST, "It keeps to an MDTS of 8 KiB",
              .target.limits.max_transfer = KIB(8)),
        LEGAL("base/nvm/large-blocks", MUST, "It works with blocks of 4,096 bytes",
              .target.ns = large_blocks),
        LEGAL("tcp/3.1/no-digests", INFO, "It goes on without the digests that it asked for", .hdgst = true,
              .ddgst = true, .target.no_hdgst = true, .target.no_ddgst = true),
        LEGAL("tcp/3.3/cpda-3", MUST, "It pads data to multiples of 16 bytes", .target.cpda = 3),
        LEGAL("tcp/3.3/cpda-31", MUST, "It pads data to multiples of 128 bytes", .target.cpda = 31),
        LEGAL("tcp/3.3.1/small-capsules", MUST, "It keeps to 512 bytes of in-capsule data",
              .target.limits.in_capsule = 512),
        LEGAL("tcp/3.3.1/large-capsules", MUST, "It works with capsules of 16 KiB",
              .target.limits.in_capsule = KIB(16)),
        LEGAL("tcp/3.3.1.1/header-digest", MUST, "It works with header digests", .hdgst = true),
        LEGAL("tcp/3.3.1.1/data-digest", MUST, "It works with data digests", .ddgst = true),
        LEGAL("tcp/3.3.1.1/both-digests", MUST, "It works with header and data digests", .hdgst = true,
              .ddgst = true),
        LEGAL("tcp/3.3.1.1/digests-padded", MUST, "It works with digests and padding", .hdgst = true,
              .ddgst = true, .target.cpda = 31),
        LEGAL("tcp/3.3.2.1/no-success", MUST, "It waits for responses where SUCCESS is not used",
              .target.no_success = true),
        LEGAL("tcp/3.6.2.3/small-maxh2cdata", MUST, "It keeps to a MAXH2CDATA of 4,096 bytes",
              .target.limits.maxh2cdata = KIB(4)),
        LEGAL("rdma/3.3/no-in-capsule", MUST, "It works without in-capsule data", .target.no_in_capsule = true),
        LEGAL("rdma/3.3/one-descriptor", MUST, "It keeps to an MSDBD of 1", .target.msdbd = 1),
        LEGAL("rdma/3.3/in-capsule-offset", INFO, "It keeps to an ICDOFF of 1", .target.icdoff = 1),
        PLAY(play_refusal, "fab/6.3/refused", MUST, "It reports that its Connect was refused",
             .stranger = true),
};
/* clang-format on */

enum { WRITTEN = sizeof(written) / sizeof(written[0]) };

const struct test_case *host_liveness(void)
{
        return &written[0].test;
}

static const struct play *play_of(const struct t *t)
{
        return &((const struct host_case *)(const void *)t->test)->play;
}

/* Plays, and ends the case where that says nothing about the host. */
static struct played play_own(struct t *t)
{
        const struct play *p = play_of(t);
        struct played seen;

        play(t, p, &seen);
        if (seen.status == PLAY_CANNOT && t->suite->hosted->hook)
                skip(t, "the host can't do it: %s", seen.says);
        if (seen.connections == 0)
                broke(t, "no host connected; the hook ended with %d: %s", seen.status, seen.says);
        if (seen.status == 0 && ((p->hdgst && !seen.hdgst) || (p->ddgst && !seen.ddgst)))
                skip(t, "the host did not ask for these digests");
        return seen;
}

static void want_success(struct t *t, const struct played *seen)
{
        if (seen->status != 0)
                fail(t, "the host does its work", "it failed with %d: %s", seen->status,
                     seen->says);
}

/* A host that is content although it cannot be. */
static void want_failure(struct t *t, const struct played *seen, const char *expected)
{
        if (seen->status == 0)
                fail(t, expected, "it went on as though nothing had happened");
}

static void play_legal(struct t *t)
{
        struct played seen = play_own(t);

        want_success(t, &seen);
        if (seen.commands == 0)
                broke(t, "the host sent no command");
}

static void play_refusal(struct t *t)
{
        struct played seen = play_own(t);

        want_failure(t, &seen, "an error");
}

/* --- what breaks a rule -------------------------------------------------------------------- */

static struct host_case breaches[RULES];
static char sentences[RULES][SAYS];

/* What the host is to do, behind the rule's own sentence. */
static const char *const answers[] = {
        [REACT_NONE] = "survives it",
        [REACT_TERM] = "ends the connection",
        [REACT_STATUS] = "fails the command",
        [REACT_CLOSE] = "closes the connection",
        [REACT_ANY] = "fails the command or ends the connection",
        [REACT_REJECT] = "does not connect",
        [REACT_AUTH] = "does not go on",
        [REACT_TOLERATE] = "goes on",
};

static void judge_term(struct t *t, const struct played *seen)
{
        static const char expected[] = "the end of the connection, by H2CTermReq as the rule says";

        want_failure(t, seen, expected);
        if (seen->left)
                fail(t, expected, "the host left it open (and failed with %d: %s)", seen->status,
                     seen->says);
        if (!seen->termed)
                lenient(t, expected, "it closed the connection without a word");
        else if (!seen->accepted)
                lenient(t, expected, "H2CTermReq with FES %02Xh, FEI %u", seen->fes, seen->fei);
}

static void judge_status(struct t *t, const struct played *seen)
{
        static const char expected[] = "the failure of the command, on a connection that goes on";

        want_failure(t, seen, expected);
        if (seen->termed)
                lenient(t, expected, "the end of the connection");
}

static void judge_breach(struct t *t, const struct played *seen)
{
        switch (rule_get(t->rule)->reaction) {
        case REACT_TERM:
        case REACT_CLOSE:
                judge_term(t, seen);
                break;
        case REACT_STATUS:
                judge_status(t, seen);
                break;
        case REACT_ANY:
        case REACT_REJECT:
        case REACT_AUTH:
                want_failure(t, seen, "the failure of the command, or the end of the connection");
                break;
        case REACT_TOLERATE:
                want_success(t, seen);
                break;
        case REACT_NONE: /* what it makes of it is its own affair; whether it lives is asked next */
                if (seen->status != 0)
                        note(t, "the host failed with %d: %.200s", seen->status, seen->says);
                break;
        }
}

static void play_breach(struct t *t)
{
        struct played seen;

        t->negative = true;
        seen = play_own(t);
        if (!seen.broken)
                skip(t, "the host gave no occasion for it");
        judge_breach(t, &seen);
}

/* Its own TermReqs a target sends to a host that has broken something: there is no occasion. What a
 * key is needed for is not played; nor what no capture shows. What ends a connection is broken by its
 * own machine where no table of violators has it. */
static bool is_played(const struct rule *r, enum rule_id rule)
{
        return r->bound == PARTY_CONTROLLER && r->level != LEVEL_INFO &&
               r->reaction != REACT_CLOSE && r->reaction != REACT_AUTH && rule != FAB_ANSWERED &&
               (spoil_can(rule) || spoil_can_rdma(rule) || r->reaction == REACT_TERM ||
                r->reaction == REACT_ANY);
}

static void make_breach(struct host_case *c, enum rule_id rule, char *says)
{
        static enum rule_id rules[RULES][2];
        const struct rule *r = rule_get(rule);

        rules[rule][0] = rule;
        rules[rule][1] = RULE_NONE;
        snprintf(says, SAYS, "%.*s; else the host %s", (int)strlen(r->says) - 1, r->says,
                 answers[r->reaction]);
        *c = (struct host_case) {
                .test = { .id = r->id,
                          .level = r->level,
                          .rules = rules[rule],
                          .says = says,
                          .run = play_breach,
                          .tcp_only = !spoil_can_rdma(rule) || rule == ID_ICDOFF },
                .play = { .breaks = rule,
                          .hdgst = rule == TCP_HDGST_C2H,
                          .ddgst = rule == TCP_DDGST_C2H,
                          .target.limits.maxh2cdata = KIB(64) },
        };
}

/* --- all of them --------------------------------------------------------------------------- */

const struct test_case **host_cases(size_t *count)
{
        const struct test_case **all = calloc(WRITTEN + (size_t)RULES, sizeof(struct test_case *));
        size_t n = 0;

        if (!all)
                abort();
        for (size_t i = 0; i < WRITTEN; i++)
                all[n++] = &written[i].test;
        rule_each (rule) {
                if (!is_played(rule_get(rule), rule))
                        continue;
                make_breach(&breaches[rule], rule, sentences[rule]);
                all[n++] = &breaches[rule].test;
        }
        *count = n;
        return all;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How fast the fuzzer is, in seconds of one core (its processor time: others may use the machine,
 * too): sessions of 8 to 32 PDUs with each machine and with the whole target, bare and as a fuzzer has
 * them (text in, mutated, text out, text in, played); the sequence's and the PDU's parser with the
 * mutator alone; and how often a session allocates.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "fuzz/fuzz.h"
#include "fuzz/inproc/inproc_target.h"
#include "fuzz/inproc/session.h"
#include "fuzz/nvme/templates.h"
#include "fuzz/sequence/seq_mutate.h"

enum { SESSIONS = 200, PDUS_MIN = 8, PDUS_MAX = 32, MUTATIONS = 6 };
static const double rounds_s = 1;

static struct sequence sessions[SESSIONS];
static char texts[SESSIONS][SEQ_TEXT];
static size_t lengths[SESSIONS];
static unsigned pdus; /* of all sessions */

/* Plays it; PDUs that went either way. */
static unsigned (*play_one)(const struct sequence *s);

static unsigned play_machine(const struct sequence *s)
{
        struct session_report r = { 0 };

        session_play(s, SESSION_DECLARED, &r);
        return r.steps + r.pdus;
}

static unsigned play_target(const struct sequence *s)
{
        struct inproc_report r = { 0 };

        inproc_play(s, &r);
        return r.steps + r.pdus;
}

static double now(void)
{
        struct timespec t;

        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
        return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* How often a second `run` can do its part for one session. */
static double rate(void (*run)(unsigned session, uint64_t *seed))
{
        double began = now(), took;
        uint64_t seed = 1;
        unsigned n = 0;

        do
                for (unsigned i = 0; i < SESSIONS; i++, n++)
                        run(i, &seed);
        while ((took = now() - began) < rounds_s);
        return n / took;
}

/* Lawful ones, changed a little, that come to the length wanted. */
static void make_sessions(enum seq_transport transport, enum party side)
{
        uint64_t seed = 7;

        pdus = 0;
        for (unsigned i = 0; i < SESSIONS;) {
                unsigned n;

                seq_begin(&sessions[i], &nvme_fuzz, transport, side, &seed);
                sessions[i].config &= ~(unsigned)SESSION_WAIVED;
                for (unsigned k = 0; k < MUTATIONS; k++)
                        seq_mutate(&sessions[i], &seed);
                sessions[i].scarce = 0;
                n = play_one(&sessions[i]);
                if (n < PDUS_MIN || n > PDUS_MAX)
                        continue;
                pdus += n;
                lengths[i] = seq_print(&sessions[i], texts[i], SEQ_TEXT);
                i++;
        }
}

static void play(unsigned i, uint64_t *seed)
{
        (void)seed;
        (void)play_one(&sessions[i]);
}

static uint8_t text[SEQ_TEXT];

static size_t mutate(unsigned i, uint64_t *seed)
{
        memcpy(text, texts[i], lengths[i]);
        return seq_mutate_text(text, lengths[i], sizeof(text), fuzz_random(seed),
                               sessions[i].transport, sessions[i].side);
}

/* A sequence's text in, changed, out, and in again: what comes before a session. */
static void parse_and_mutate(unsigned i, uint64_t *seed)
{
        static struct sequence s;
        char err[100];

        must(seq_parse(&s, (const char *)text, mutate(i, seed), err, sizeof(err)));
}

static void fuzz(unsigned i, uint64_t *seed)
{
        static struct sequence s;
        char err[100];

        must(seq_parse(&s, (const char *)text, mutate(i, seed), err, sizeof(err)));
        s.scarce = 0;
        (void)play_one(&s);
}

int main(void)
{
        static const struct {
                const char *name;
                enum seq_transport transport;
                enum party side;
                unsigned (*play)(const struct sequence *s);
        } machines[] = {
                { "tcp_controller", SEQ_TCP, PARTY_HOST, play_machine },
                { "tcp_host", SEQ_TCP, PARTY_CONTROLLER, play_machine },
                { "rdma_controller", SEQ_RDMA, PARTY_HOST, play_machine },
                { "rdma_host", SEQ_RDMA, PARTY_CONTROLLER, play_machine },
                { "target", SEQ_TCP, PARTY_HOST, play_target },
        };

        printf("%-16s %10s %12s %16s %12s %8s\n", "a second", "sessions", "text, mutate",
               "and play, text", "allocations", "PDUs");
        for (size_t i = 0; i < sizeof(machines) / sizeof(machines[0]); i++) {
                unsigned long before;

                play_one = machines[i].play;
                make_sessions(machines[i].transport, machines[i].side);
                before = fuzz_heap.allocations;
                for (unsigned k = 0; k < SESSIONS; k++)
                        play(k, NULL);
                before = fuzz_heap.allocations - before;
                printf("%-16s %10.0f %12.0f %16.0f %12.1f %8.1f\n", machines[i].name, rate(play),
                       rate(parse_and_mutate), rate(fuzz), (double)before / SESSIONS,
                       (double)pdus / SESSIONS);
        }
        return EXIT_SUCCESS;
}

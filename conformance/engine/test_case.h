/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A case of any family: what it says of itself, and the words by which it ends. A family's own words
 * (connect, send, expect) stand in a header of its own, which includes this one and names the family
 * that its cases are of:
 *
 *      #define CASE_FAMILY nvme_conform
 *
 * The id is a topic and a name, forever. The level is the case's own (MUST, SHOULD, INFO: see enum
 * level). The first rule is the one that the case is about. Every rule named that binds the party under
 * test is also watched: a message that breaks it fails the case, whatever the body is doing.
 *
 * A word that does not see what it expects ends the case there; whatever the case opened is closed
 * by the runner, so a case has no clean-up and no error path.
 */
#ifndef NVMF_CONFORMANCE_TEST_CASE_H
#define NVMF_CONFORMANCE_TEST_CASE_H

#include "pdu/core/rule.h"

struct t; /* a case that is running */
struct conform_family;
struct family;

struct test_case {
        const char *id;
        enum level level;
        const unsigned *rules; /* ended by RULE_NONE; the first one is what it is about */
        const char *says;      /* the requirement, one sentence without full stop */
        void (*run)(struct t *t);
        const struct conform_family *family;
        const char *file, *source; /* text of that file; source NULL: one of a table */
        int line;

        /* may follow the sentence in CASE() */
        bool writes;  /* it changes what is stored: needs permission, gets a range of its own */
        bool changes; /* makes the target change: others run meanwhile only if they are unmoved */
        bool alone;   /* what it does to all that is stored others would notice: no other case runs
                           * meanwhile, and of other runs on this machine none */
        bool storm;   /* it takes more than is left for others: run after them, alone */
        void (*after)(
            struct t *t);    /* however it ended: leaves all as it was. Its own failures count
                                     * for nothing */
        bool slow;           /* it waits, most of the time: begun before those that work */
        bool unmoved;        /* a change of the target (see changes) cannot make it fail */
        const char *only;    /* over this transport; ids that begin with one say it themselves */
        unsigned needs;      /* bits, the family's: what has to be there */
        const char *related; /* known bugs that it would have found */
};

#define RULES(...)                  ((const unsigned[]) { __VA_ARGS__, RULE_NONE })
#define NO_RULE                     RULES(RULE_NONE) /* robustness: it is only that the target goes on */
#define MUST                        LEVEL_MUST
#define SHOULD                      LEVEL_SHOULD
#define INFO                        LEVEL_INFO
#define CASE(id, level, rules, ...) CASE_NAMED(__COUNTER__, id, level, rules, __VA_ARGS__)
#define CASE_NAMED(n, ...)          CASE_DEFINED(n, __VA_ARGS__)
#define CASE_DEFINED(n, id_, level_, rules_, says_, ...)                                           \
        static void case_##n(struct t *t);                                                         \
        static const struct test_case test_case_##n = { .id = id_,                                 \
                                                        .level = level_,                           \
                                                        .rules = rules_,                           \
                                                        .says = says_,                             \
                                                        .run = case_##n,                           \
                                                        .family = &CASE_FAMILY,                    \
                                                        .file = __FILE__,                          \
                                                        .source = case_source,                     \
                                                        .line = __LINE__,                          \
                                                        ##__VA_ARGS__ };                           \
        static const struct test_case *const test_case_entry_##n                                   \
            __attribute__((used, section("suite_cases"))) = &test_case_##n;                        \
        static void case_##n(struct t *t)

/* The text of the file that includes this, for --explain: a case is its own best description. The directive stands in two
 * pieces since ccache keeps nothing that has it in one, for fear of other files: this one is what is compiled. */
extern const char case_source[] __attribute__((visibility("hidden")));
__asm__(".pushsection .rodata\ncase_source: .inc"
        "bin \"" __BASE_FILE__ "\"\n.byte 0\n.popsection");

/* Ends the case: it can't be judged on this target, and why. */
void skip(struct t *t, const char *why, ...) __attribute__((noreturn, format(printf, 2, 3)));
#define require(t, condition, ...)                                                                 \
        do {                                                                                       \
                if (!(condition))                                                                  \
                        skip(t, __VA_ARGS__);                                                      \
        } while (0)

/* The rule that the next expectations are about, of those that the case names. */
void about(struct t *t, unsigned rule);
/* ... or another one, which is broken where nobody looks for it: a failure that the case's own rule has no part in is
 * of this one. */
void blame(struct t *t, unsigned rule);

/*
 * fail() and lenient() are judged by what the rule rests on (t->rule, see about()): for a rule that binds
 * who is tested its basis, for one that we broke the basis of its reaction. Where that is our own
 * reading, or nothing is prescribed, the verdict is advice.
 */

#define want(t, condition, expected, ...)                                                          \
        do {                                                                                       \
                if (!(condition))                                                                  \
                        fail(t, expected, __VA_ARGS__);                                            \
        } while (0)
/* A value: fails as "expected WHAT N", "seen WHAT M". Of n bytes `what` says what is expected, and the first one
 * that differs is named. */
void want_eq(struct t *t, const char *what, uint64_t seen, uint64_t expected);
void want_bytes(struct t *t, const char *what, const void *seen, const void *expected, size_t n);
/* Ends the case. Reports have both texts: what was expected, and (as printf()) what was seen. */
void fail(struct t *t, const char *expected, const char *seen, ...)
    __attribute__((noreturn, format(printf, 3, 4)));
/* Fails whatever the rule rests on: whoever is tested died, hangs, corrupted data or disturbed another
 * connection. No breach of ours and no reading of a sentence excuses that. */
void harm(struct t *t, const char *expected, const char *seen, ...)
    __attribute__((noreturn, format(printf, 3, 4)));
/* Data that was stored or transferred; a difference is harm. */
void want_data(struct t *t, const char *what, const void *seen, const void *expected, size_t n);
/* Passes only at the base grade: a reaction that is printed was met inexactly. */
void lenient(struct t *t, const char *expected, const char *seen, ...)
    __attribute__((format(printf, 3, 4)));
/* Worth a word to the maker, never a failure: no sentence asks for what was expected. */
void advise(struct t *t, const char *expected, const char *seen, ...)
    __attribute__((format(printf, 3, 4)));
/* A remark for the report; the verdict stays. */
void note(struct t *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Of a case that does something `most` times only for there to be many: n are enough. They are where all are done,
 * and where half of the case's time is over, which is noted: how fast the target is is no question of right. */
bool is_enough(struct t *t, unsigned n, unsigned most);

/* ms of the run's clock; a pause of so many ms, whatever --timeout-scale says: some are measured against the target's
 * own timers. Who waits for the target wants give_ms(). */
uint64_t now_ms(void);
void pause_ms(struct t *t, unsigned ms);
/* A pause that gives the target time: as much longer as --timeout-scale says, never shorter. */
void give_ms(struct t *t, unsigned ms);

#endif

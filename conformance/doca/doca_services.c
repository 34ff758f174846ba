/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cases about services: our target plays for each, good, with one rule broken, or with lawful trouble, and the service has
 * a session with it. All are of tables: one for each rule of targets that ours can break, one for each kind of trouble.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "doca_words.h"
#include "pdu/io/shell.h"
#include "target/doca/doca_server.h"

enum { SESSION_MS = 5000, HOOK_SECONDS = 30, COMMAND = 4096 };

struct play {
        struct t *t;
        struct doca_server *target;
        pthread_mutex_t lock;
        struct rule_set broken; /* by the service */
        char said[SHELL_LINE];  /* by the service, where it failed */
        bool ok;                /* all went well, it says */
        bool trusts;            /* our requester believes results: what it reads is not compared */
};

static void note_broken(void *user, enum doca_rule rule)
{
        struct play *p = user;

        pthread_mutex_lock(&p->lock);
        rule_add(&p->broken, rule);
        pthread_mutex_unlock(&p->lock);
}

/* --- the target --------------------------------------------------------------------------------- */

static void start_target(struct play *p, enum doca_rule breaks, const char *fault)
{
        const struct suite *s = p->t->suite;
        const struct doca_peer *peer = s->peer;
        struct doca_options o = { .listen = { { s->traddr, s->trsvcid } },
                                  .listens = 1,
                                  .ns = "mem:1M",
                                  .dialect = peer->dialect,
                                  .quiet = true,
                                  .record = s->record,
                                  .verbs = s->verbs, /* NULL: the machine's, as the service has */
                                  .broken = note_broken,
                                  .user = p };
        char error[RESULT_TEXT];

        if (breaks != DOCA_RULE_NONE)
                rule_add(&o.policy.violated, breaks);
        if (!fault || doca_fault_add(&o.faults, fault, error, sizeof(error)))
                p->target = doca_server_start(&o, error, sizeof(error));
        if (!p->target)
                snprintf(p->said, sizeof(p->said), "%.*s", (int)sizeof(p->said) - 1, error);
}

static void end_target(struct play *p)
{
        if (p->target)
                doca_server_stop(p->target);
        pthread_mutex_destroy(&p->lock);
}

/* --- the service -------------------------------------------------------------------------------- */

static int write_and_read(struct doca_session *s, bool trusts, struct host_error *e)
{
        uint8_t written[512], read[512] = { 0 };

        memset(written, 0x3c, sizeof(written));
        if (s->block_size != sizeof(written))
                return host_fail(e, HOST_BROKEN, "blocks of %u bytes", s->block_size);
        if (doca_transfer(s, 0, true, 5, 1, written, e) < 0)
                return -1;
        memset(s->exported, 0, s->exported_len);
        if (doca_transfer(s, 0, false, 5, 1, read, e) < 0)
                return -1;
        return trusts || memcmp(written, read, sizeof(read)) == 0
                   ? 0
                   : host_fail(e, HOST_BROKEN, "what was read is not what was written");
}

static int whole_session(struct play *p, const struct doca_params *params, struct host_error *e)
{
        struct doca_session *s = calloc(1, sizeof(*s));
        int rc = s ? doca_session_open(s, params, e) : -1;

        if (rc == 0) {
                rc = doca_session_start(s, e) == 0 && write_and_read(s, p->trusts, e) == 0 ? 0 : -1;
                rule_each_in (&s->found, id)
                        if (!rule_in(&params->policy.waived, id))
                                rc = -1;
                if (doca_session_close(s, true, rc == 0 ? e : NULL) < 0)
                        rc = -1;
        }
        free(s);
        return rc;
}

static void run_requester(struct play *p)
{
        const struct doca_peer *peer = p->t->suite->peer;
        struct host_error e = { 0 };
        struct doca_params params = { .traddr = p->t->suite->traddr,
                                      .trsvcid = doca_server_port(p->target, 0),
                                      .dialect = peer->dialect,
                                      .cores = 1,
                                      .depth = 2,
                                      .io_bytes = 4096,
                                      .storage = 1 << 20,
                                      .timeout = (unsigned)t_scaled(p->t, SESSION_MS),
                                      .policy = peer->policy,
                                      .verbs = p->t->suite->verbs };

        p->ok = whole_session(p, &params, &e) == 0;
        if (!p->ok)
                snprintf(p->said, sizeof(p->said), "%.*s", (int)sizeof(p->said) - 1, e.line);
}

static void run_hook(struct play *p)
{
        const struct doca_peer *peer = p->t->suite->peer;
        char command[COMMAND];
        int n = snprintf(command, sizeof(command),
                         "export NVMF_TRADDR='%s' NVMF_TRSVCID='%s' NVMF_DIALECT='%s' "
                         "NVMF_SECONDS=%d\n%s",
                         p->t->suite->traddr, doca_server_port(p->target, 0), peer->dialect->name,
                         HOOK_SECONDS, peer->hook);

        p->ok = n < COMMAND && shell_run(command, p->said, HOOK_SECONDS * 1000) == 0;
}

/* --- verdicts ----------------------------------------------------------------------------------- */

static void say_breaches(struct t *t, const struct rule_set *broken)
{
        rule_each_in (broken, id) {
                t->rule = id;
                fail(t, t_rule(t, id)->says, "%s", t_rule(t, id)->id);
        }
}

/* Ends the case where the service broke something itself, or the target could not be started. */
static bool plays(struct t *t, enum doca_rule breaks, const char *fault, char said[SHELL_LINE])
{
        struct play p = { .t = t, .trusts = fault };
        bool started;

        pthread_mutex_init(&p.lock, NULL);
        start_target(&p, breaks, fault);
        started = p.target;
        if (started && peer_of_case(t)->hook)
                run_hook(&p);
        else if (started)
                run_requester(&p);
        end_target(&p);
        memcpy(said, p.said, SHELL_LINE);
        if (!started)
                broke(t, "%s", said);
        say_breaches(t, &p.broken);
        return p.ok;
}

static void have_session(struct t *t)
{
        char said[SHELL_LINE];

        if (!plays(t, DOCA_RULE_NONE, NULL, said))
                fail(t, "a session that works", "%s", said);
}

const struct test_case doca_service_session = {
        .id = "doca/order/session",
        .level = LEVEL_MUST,
        .rules = RULES(RULE_NONE),
        .says = "A session with a correct target works, and breaks no rule",
        .run = have_session,
        .family = &doca_conform,
        .file = __FILE__,
        .line = __LINE__
};

/* Nothing obliges a service to notice: who does not is advised. One that looks late may find what came late: three times
 * are no chance. */
static void have_bad_session(struct t *t)
{
        enum doca_rule rule = (enum doca_rule)t->test->rules[0];
        unsigned tries = rule == DOCA_DATA_FIRST ? 3 : 1;
        char said[SHELL_LINE];

        while (tries > 0 && plays(t, rule, NULL, said))
                tries--;
        if (tries == 0)
                fail(t, "a service that reports an error", "success");
}

static bool can_be_played(enum doca_rule rule)
{
        const struct rule *r = doca_rule_get(rule);

        return r->bound == PARTY_CONTROLLER && r->violators != 0 && r->level == LEVEL_MUST;
}

/* --- lawful trouble ----------------------------------------------------------------------------- */

static const struct {
        const char *id, *says;
        const char *fault; /* of the target: see doca_fault_add() */
        bool waits;        /* the service does, until it gives up */
} troubles[] = {
        { "doca/refused/query", "A refused query_storage ends without success", "refuse@query",
          false },
        { "doca/refused/init", "A refused init_storage ends without success", "refuse@init",
          false },
        { "doca/refused/connection", "A refused connection ends without success", "refuse@create",
          false },
        { "doca/refused/start", "A refused start_storage ends without success", "refuse@start",
          false },
        { "doca/refused/read", "A read whose result is an error is no success", "refuse@read",
          false },
        { "doca/refused/write", "A write whose result is an error is no success", "refuse@write",
          false },
        { "doca/silent/query", "A query_storage without response ends without success",
          "silent@query", true },
        { "doca/silent/init", "An init_storage without response ends without success",
          "silent@init", true },
        { "doca/silent/connection", "A connection without response ends without success",
          "silent@create", true },
        { "doca/silent/start", "A start_storage without response ends without success",
          "silent@start", true },
        { "doca/silent/read", "A read without result ends without success", "silent@read", true },
        { "doca/silent/write", "A write without result ends without success", "silent@write",
          true },
        { "doca/closed/query", "A channel that ends at query_storage ends without success",
          "close@query", false },
        { "doca/closed/init", "A channel that ends at init_storage ends without success",
          "close@init", false },
        { "doca/closed/connection", "A channel that ends at a connection ends without success",
          "close@create", false },
        { "doca/closed/start", "A channel that ends at start_storage ends without success",
          "close@start", false },
};
enum { TROUBLES = sizeof(troubles) / sizeof(troubles[0]) };

static unsigned trouble_of(const struct test_case *c)
{
        unsigned i = 0;

        while (i + 1 < TROUBLES && strcmp(troubles[i].id, c->id) != 0)
                i++;
        return i;
}

/* Data did not move, or was not to be relied on: who reports success says what is not so. */
static void have_trouble(struct t *t)
{
        char said[SHELL_LINE];

        if (plays(t, DOCA_RULE_NONE, troubles[trouble_of(t->test)].fault, said))
                harm(t, "a service that reports an error", "success");
}

/* --- the tables --------------------------------------------------------------------------------- */

static const struct test_case *case_of_rule(enum doca_rule rule)
{
        static unsigned rules[DOCA_RULES][2];
        static struct test_case cases[DOCA_RULES];

        rules[rule][0] = rule;
        cases[rule] =
            (struct test_case) { .id = doca_rule_get(rule)->id,
                                 .level = LEVEL_MUST,
                                 .rules = rules[rule],
                                 .says = "A service notices a target that breaks this rule",
                                 .run = have_bad_session,
                                 .needs = rule == DOCA_ANSWER_ID    ? NEEDS_IDS
                                          : rule == DOCA_QUERY_SIZE ? NEEDS_QUERY
                                                                    : 0,
                                 .family = &doca_conform,
                                 .file = __FILE__,
                                 .line = __LINE__ };
        return &cases[rule];
}

static const struct test_case *case_of_trouble(unsigned i)
{
        static const unsigned nothing[] = { RULE_NONE };
        static struct test_case cases[TROUBLES];

        cases[i] =
            (struct test_case) { .id = troubles[i].id,
                                 .level = LEVEL_MUST,
                                 .rules = nothing,
                                 .says = troubles[i].says,
                                 .run = have_trouble,
                                 .needs = strstr(troubles[i].fault, "@query") ? NEEDS_QUERY : 0,
                                 .family = &doca_conform,
                                 .file = __FILE__,
                                 .line = __LINE__,
                                 .slow = troubles[i].waits };
        return &cases[i];
}

const struct test_case **doca_service_cases(size_t *count)
{
        const struct test_case **list = must_have(calloc(DOCA_RULES + TROUBLES, sizeof(*list)));

        *count = 0;
        list[(*count)++] = &doca_service_session;
        for (unsigned i = 1; i < DOCA_RULES; i++)
                if (can_be_played((enum doca_rule)i))
                        list[(*count)++] = case_of_rule((enum doca_rule)i);
        for (unsigned i = 0; i < TROUBLES; i++)
                list[(*count)++] = case_of_trouble(i);
        return list;
}

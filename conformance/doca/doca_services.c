/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cases about services: our target plays for each, good or with one rule broken, and the service has a session with it. A
 * case of a table: one for each rule of targets that ours can break.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "doca_words.h"
#include "pdu/io/shell.h"
#include "pdu/io/verbs/verbs_memory.h"
#include "target/doca/doca_server.h"

enum { SESSION_MS = 5000, HOOK_SECONDS = 30, COMMAND = 4096 };

struct play {
        struct t *t;
        struct verbs_provider
            *memory; /* of our requester; NULL: the service has its own machine's */
        struct doca_server *target;
        pthread_mutex_t lock;
        struct rule_set broken; /* by the service */
        char said[SHELL_LINE];  /* by the service, where it failed */
        bool ok;                /* all went well, it says */
};

static void note_broken(void *user, enum doca_rule rule)
{
        struct play *p = user;

        pthread_mutex_lock(&p->lock);
        rule_add(&p->broken, rule);
        pthread_mutex_unlock(&p->lock);
}

/* --- the target --------------------------------------------------------------------------------- */

static void start_target(struct play *p, enum doca_rule breaks)
{
        const struct suite *s = p->t->suite;
        const struct doca_peer *peer = s->peer;
        struct doca_options o = { .listen = { { s->traddr, s->trsvcid } },
                                  .listens = 1,
                                  .ns = "mem:1M",
                                  .dialect = peer->dialect,
                                  .quiet = true,
                                  .broken = note_broken,
                                  .user = p };
        char error[RESULT_TEXT];

        if (!peer->hook)
                p->memory = verbs_memory_new(NULL);
        o.verbs = p->memory;
        if (breaks != DOCA_RULE_NONE)
                rule_add(&o.policy.violated, breaks);
        p->target = doca_server_start(&o, error, sizeof(error));
        if (!p->target)
                snprintf(p->said, sizeof(p->said), "%.*s", (int)sizeof(p->said) - 1, error);
}

static void end_target(struct play *p)
{
        if (p->target)
                doca_server_stop(p->target);
        if (p->memory)
                verbs_memory_free(p->memory);
        pthread_mutex_destroy(&p->lock);
}

/* --- the service -------------------------------------------------------------------------------- */

static int write_and_read(struct doca_session *s, struct host_error *e)
{
        uint8_t written[512], read[512] = { 0 };

        memset(written, 0x3c, sizeof(written));
        if (s->block_size != sizeof(written))
                return host_fail(e, HOST_BROKEN, "blocks of %u bytes", s->block_size);
        if (doca_transfer(s, true, 5, 1, written, e) < 0)
                return -1;
        memset(s->exported, 0, s->exported_len);
        if (doca_transfer(s, false, 5, 1, read, e) < 0)
                return -1;
        return memcmp(written, read, sizeof(read)) == 0
                   ? 0
                   : host_fail(e, HOST_BROKEN, "what was read is not what was written");
}

static int whole_session(struct play *p, const struct doca_params *params, struct host_error *e)
{
        struct doca_session *s = calloc(1, sizeof(*s));
        int rc = s ? doca_session_open(s, params, e) : -1;

        if (rc == 0) {
                rc = doca_session_start(s, e) == 0 && write_and_read(s, e) == 0 ? 0 : -1;
                rule_each_in (&s->found, id)
                        if (!rule_in(&params->policy.waived, id))
                                rc = -1;
                if (doca_session_close(s, true, rc == 0 ? e : NULL) < 0)
                        rc = -1;
        }
        free(s);
        (void)p;
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
                                      .verbs = p->memory };

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
static bool plays(struct t *t, enum doca_rule breaks, char said[SHELL_LINE])
{
        struct play p = { .t = t };
        bool started;

        pthread_mutex_init(&p.lock, NULL);
        start_target(&p, breaks);
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

        if (!plays(t, DOCA_RULE_NONE, said))
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

/* Nothing obliges a service to notice: who does not is advised. */
static void have_bad_session(struct t *t)
{
        char said[SHELL_LINE];

        if (plays(t, (enum doca_rule)t->test->rules[0], said))
                fail(t, "a service that reports an error", "success");
}

static bool can_be_played(enum doca_rule rule)
{
        const struct rule *r = doca_rule_get(rule);

        return r->bound == PARTY_CONTROLLER && r->violators != 0 && r->level == LEVEL_MUST;
}

const struct test_case **doca_service_cases(size_t *count)
{
        static unsigned rules[DOCA_RULES][2];
        static struct test_case cases[DOCA_RULES];
        const struct test_case **list = must_have(calloc(DOCA_RULES, sizeof(*list)));

        *count = 0;
        list[(*count)++] = &doca_service_session;
        for (unsigned i = 1; i < DOCA_RULES; i++) {
                if (!can_be_played((enum doca_rule)i))
                        continue;
                rules[i][0] = i;
                cases[i] =
                    (struct test_case) { .id = doca_rule_get(i)->id,
                                         .level = LEVEL_MUST,
                                         .rules = rules[i],
                                         .says = "A service notices a target that breaks this rule",
                                         .run = have_bad_session,
                                         .family = &doca_conform,
                                         .file = __FILE__,
                                         .line = __LINE__ };
                list[(*count)++] = &cases[i];
        }
        return list;
}

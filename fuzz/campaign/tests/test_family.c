/* SPDX-License-Identifier: BSD-3-Clause */
/* A family of two messages and a target in memory that breaks a rule: nothing here, and nothing in the
 * engine, knows another protocol. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/campaign/campaign.h"
#include "fuzz/remote/schedule.h"

#include <cmocka.h>

/* --- the family --------------------------------------------------------------------------------- */

struct message {
        uint8_t type, len;
};
enum { HELLO, PUT };

static const struct rule rows[] = {
        { .id = "" },
        { .id = "toy/put/len",
          .bound = PARTY_CONTROLLER,
          .level = LEVEL_MUST,
          .says = "A PUT has 200 bytes at most." },
};
static const struct rulebook book = { .name = "toy", .rows = rows, .count = 2 };
static const char *const names[] = { "memory", NULL };
static const struct family toy = { .name = "toy", .rules = &book, .transports = names };

static const struct seq_template *template_at(unsigned transport, enum party side, unsigned n)
{
        static const struct seq_template templates[] = { { .name = "hello", .type = HELLO },
                                                         { .name = "put", .type = PUT } };

        return transport == 0 && side == PARTY_HOST && n < 2 ? &templates[n] : NULL;
}

static void fields(unsigned transport, const struct seq_template *t,
                   const struct field *table[FUZZ_FIELD_TABLES])
{
        static const struct field own[] = { FIELD_AT("len", offsetof(struct message, len), 1),
                                            { 0 } };

        (void)transport;
        table[0] = t->type == PUT ? own : NULL;
}

/* --- its target: after a HELLO, a PUT of more than 200 bytes is what it cannot bear ---------------- */

static struct memory_session {
        struct remote_session base;
        struct remote_conn conn[SEQ_QUEUES];
        bool greeted[SEQ_QUEUES];
} memory[2];

static struct remote_session *memory_new(void)
{
        static unsigned used;
        struct memory_session *m = &memory[used++ % 2];

        for (unsigned i = 0; i < SEQ_QUEUES; i++)
                m->base.conn[i] = &m->conn[i];
        return &m->base;
}

static void memory_free(struct remote_session *s)
{
        (void)s;
}

static bool memory_open(struct remote_conn *c, const struct seq_step *step)
{
        (void)step;
        ((struct memory_session *)(void *)c->session)->greeted[c->on] = false;
        conn_live(c);
        return true;
}

static bool memory_send(struct remote_conn *c, const struct seq_step *step)
{
        bool *greeted = &((struct memory_session *)(void *)c->session)->greeted[c->on];
        struct rule_set broken = { 0 };
        struct message m;

        if (step->kind != SEQ_PDU)
                return true;
        m = (struct message) { step->template->type, 8 };
        seq_apply(step, &m);
        if (m.type == PUT && *greeted && m.len > 200)
                rule_add(&broken, 1);
        *greeted |= m.type == HELLO;
        conn_broke(c, &broken);
        conn_received_word(c, m.type);
        return true;
}

static void memory_half_close(struct remote_conn *c)
{
        conn_ended(c, false);
}

static bool memory_alive(const struct remote_target *target, char *why)
{
        (void)target, (void)why;
        return true;
}

static const struct remote_transport in_memory = {
        .new = memory_new,
        .free = memory_free,
        .open = memory_open,
        .send = memory_send,
        .half_close = memory_half_close,
};
static const char *const seeds[] = { "sequence host\nput\nhello\nput len=3\nput\ndelay 1\n", NULL };
static const struct fuzz_transport transports[] = { { .seeds = seeds, .remote = &in_memory } };
static const struct fuzz_family family = { .family = &toy,
                                           .transports = transports,
                                           .template = template_at,
                                           .fields = fields,
                                           .alive = memory_alive };
const struct fuzz_family *const fuzz_families[] = { &family, NULL };

/* --- a campaign --------------------------------------------------------------------------------- */

static void finds_makes_small_and_saves(void **state)
{
        char folder[] = "/tmp/test_family.XXXXXX", path[100], err[CORPUS_ERROR], command[100];
        struct campaign_config config = {
                .seed = 1, .runs = 5000, .findings = 1, .jobs = 1, .look = 1000, .minimise = 5000
        };
        struct corpus c = { 0 };

        (void)state;
        config.target = (struct remote_target) {
                .family = &family, .timeout = 100, .settle = 1, .hang = 100, .allow_write = true
        };
        config.out = mkdtemp(folder);
        assert_non_null(config.out);
        assert_int_equal(campaign_run(&config), CAMPAIGN_FOUND);
        snprintf(path, sizeof(path), "%s/001-rule-toy-put-len.seq", folder);
        if (!corpus_load(&c, path, NULL, err))
                fail_msg("%s", err);
        assert_int_equal(c.n, 1);
        assert_int_equal(c.at[0]->steps, 2);
        assert_string_equal(c.at[0]->step[0].template->name, "hello");
        assert_string_equal(c.at[0]->step[1].template->name, "put");
        assert_int_equal(c.at[0]->step[1].changes, 1);
        corpus_free(&c);
        snprintf(command, sizeof(command), "rm -r %s", folder);
        assert_int_equal(system(command), 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(finds_makes_small_and_saves) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

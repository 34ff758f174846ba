/* SPDX-License-Identifier: BSD-3-Clause */
/* Task management of SRP targets. */
#include "conformance/srp/srp_words.h"

static uint32_t slow_unit(const struct t *t)
{
        return srp_peer_of(t->suite)->slow_lun;
}

/* --- functions without a task -------------------------------------------------------------------------- */

#define FUNCTION(name, rules, function, says, ...)                                                 \
        CASE("srp/task-management/" name, SHOULD, rules, says, ##__VA_ARGS__)                      \
        {                                                                                          \
                struct chan *c = ready_channel(t);                                                 \
                struct answer a = run_function(c, function, 0x7777);                               \
                                                                                                   \
                expect_code(c, &a, 0);                                                             \
                attend(c);                                                                         \
                expect_served(c);                                                                  \
        }

FUNCTION("abort-nothing", RULES(SRP_TM_RESULT), SRP_TM_ABORT_TASK,
         "ABORT TASK of a task that there is not is complete")
FUNCTION("abort-set-nothing", RULES(SRP_TM_RESULT), SRP_TM_ABORT_TASK_SET,
         "ABORT TASK SET without tasks is complete")
FUNCTION("clear-set-nothing", RULES(SRP_TM_RESULT), SRP_TM_CLEAR_TASK_SET,
         "CLEAR TASK SET without tasks is complete", .alone = true)
FUNCTION("reset-nothing", RULES(SRP_TM_RESULT), SRP_TM_LUN_RESET,
         "LOGICAL UNIT RESET without tasks is complete", .alone = true)

CASE("srp/task-management/answer", SHOULD, RULES(SRP_TM_ANSWER),
     "The response to task management has response data")
{
        struct chan *c = ready_channel(t);
        struct answer a = run_function(c, SRP_TM_ABORT_TASK, 0x7777);

        want(t, a.code >= 0, "response data", "none");
}

CASE("srp/task-management/clear-aca", INFO, RULES(SRP_TM_ANSWER), "CLEAR ACA is answered")
{
        struct chan *c = ready_channel(t);
        struct answer a = run_function(c, SRP_TM_CLEAR_ACA, 0);

        note(t, "response code %d", a.code);
}

#define RESERVED(name, value, says)                                                                \
        CASE("srp/task-management/" name, SHOULD, RULES(SRP_TM_FUNCTION), says)                    \
        {                                                                                          \
                struct chan *c = ready_channel(t);                                                 \
                struct answer a;                                                                   \
                                                                                                   \
                t->negative = true;                                                                \
                a = run_function(c, value, 0);                                                     \
                expect_code(c, &a, 4);                                                             \
        }

RESERVED("function-none", 0x00, "Function 00h is not supported")
RESERVED("function-reserved", 0x20, "A reserved function is not supported")
RESERVED("function-all", 0xff, "Function FFh is not supported")

CASE("srp/task-management/lun-absent", SHOULD, RULES(SRP_TM_RESULT),
     "A reset of a logical unit that there is not fails")
{
        struct chan *c = ready_channel(t);
        struct answer a = expect_rsp_to(c, send_function_to(c, 0x3ff0, SRP_TM_LUN_RESET, 0));

        expect_code(c, &a, 5);
}

CASE("srp/task-management/at-once", MUST, RULES(SRP_RSP_ANSWERED, SRP_TM_ANSWER),
     "As many functions at once as the limit permits are all answered")
{
        struct chan *c = ready_channel(t);
        unsigned n = limit_of(c);

        for (unsigned i = 0; i < n; i++)
                (void)send_function(c, SRP_TM_ABORT_TASK, 0x7777);
        for (unsigned i = 0; i < n; i++)
                (void)expect_rsp(c);
}

/* --- with tasks ----------------------------------------------------------------------------------------- */

/* Where a function was not carried out the tasks go on (SAM-5 7.1). */
static void need_complete(struct t *t, const struct answer *a)
{
        require(t, a->code == 0, "the function was not carried out: response code %d", a->code);
}

static void abort_it(const struct order *o)
{
        struct chan *c = o->chan;
        struct answer a =
            expect_rsp_to(c, send_function_to(c, slow_unit(c->t), SRP_TM_ABORT_TASK, o->tag));

        need_complete(c->t, &a);
}

CASE("srp/task-management/abort", SHOULD, RULES(SRP_TM_RESULT),
     "ABORT TASK of a task that is outstanding is complete, and the channel works on",
     .needs = NEEDS_SLOW)
{
        struct chan *c = slow_channel(t);
        struct order *o = order_slow(c);
        struct answer a;

        send_order(o);
        a = expect_rsp_to(c, send_function_to(c, slow_unit(t), SRP_TM_ABORT_TASK, o->tag));
        expect_code(c, &a, 0);
        expect_served(c);
}

CASE("srp/task-management/abort-last", MUST, RULES(SRP_TAG_RESPONSE),
     "Nothing is said of a task once the response to its abort has come", .needs = NEEDS_SLOW)
{
        enum { LONGER_MS = 400 };
        struct chan *c = slow_channel(t);
        struct order *o = order_slow(c);
        uint64_t until;

        send_order(o);
        abort_it(o);
        until = now_ms() + t_scaled(t, LONGER_MS);
        while (chan_has_iu(c, until)) {
                const struct chan_iu *iu = chan_take(c);

                if (iu->p[0] == SRP_RSP && be_get(iu->p + 8, 8) == o->tag)
                        fail(t, "no response to the task", "SRP_RSP");
        }
}

CASE("srp/task-management/abort-one", SHOULD, RULES(SRP_RSP_ANSWERED),
     "ABORT TASK ends no other task", .needs = NEEDS_SLOW)
{
        struct chan *c = slow_channel(t);
        struct order *o = order_slow(c), *other = order_slow(c);
        uint64_t tag, seen;

        send_order(o);
        send_order(other);
        tag = send_function_to(c, slow_unit(t), SRP_TM_ABORT_TASK, o->tag);
        for (seen = 0; !(seen & 1) || !(seen & 2);) {
                struct answer a = expect_rsp(c);

                seen |= a.tag == other->tag ? 1 : a.tag == tag ? 2 : 0;
                if (a.tag == other->tag)
                        expect_good(c, &a);
        }
}

CASE("srp/task-management/abort-again", SHOULD, RULES(SRP_TM_RESULT),
     "ABORT TASK of a task that was aborted is complete", .needs = NEEDS_SLOW)
{
        struct chan *c = slow_channel(t);
        struct order *o = order_slow(c);
        struct answer a;

        send_order(o);
        for (unsigned i = 0; i < 2; i++) {
                a = expect_rsp_to(c, send_function_to(c, slow_unit(t), SRP_TM_ABORT_TASK, o->tag));
                expect_code(c, &a, 0);
        }
}

CASE("srp/task-management/tag-again", MUST, RULES(SRP_TAG_RESPONSE),
     "The tag of a task that was aborted can be used again", .needs = NEEDS_SLOW)
{
        struct chan *c = slow_channel(t);
        struct order *o = order_slow(c), *again;
        struct answer a;

        send_order(o);
        abort_it(o);
        again = order_of(c, SCSI_TEST_UNIT_READY, 0, 0, 0, 0, 0);
        order_set_tag(again, o->tag);
        a = run_order(again);
        expect_good(c, &a);
}

/* Of all tasks, with a function that ends them. */
#define ENDS_ALL(name, function, says)                                                             \
        CASE("srp/task-management/" name, SHOULD, RULES(SRP_TM_RESULT), says, .needs = NEEDS_SLOW, \
             .alone = true)                                                                        \
        {                                                                                          \
                struct chan *c = slow_channel(t);                                                  \
                struct answer a;                                                                   \
                                                                                                   \
                for (unsigned i = 0; i < 4; i++)                                                   \
                        send_order(order_slow(c));                                                 \
                a = expect_rsp_to(c, send_function_to(c, slow_unit(t), function, 0));              \
                expect_code(c, &a, 0);                                                             \
                attend(c);                                                                         \
                attend_unit(c, slow_unit(t));                                                      \
                expect_served(c);                                                                  \
        }

ENDS_ALL("abort-set", SRP_TM_ABORT_TASK_SET,
         "ABORT TASK SET of four tasks is complete, and the channel works on")
ENDS_ALL("clear-set", SRP_TM_CLEAR_TASK_SET,
         "CLEAR TASK SET of four tasks is complete, and the channel works on")
ENDS_ALL("reset", SRP_TM_LUN_RESET,
         "LOGICAL UNIT RESET of four tasks is complete, and the channel works on")

CASE("srp/task-management/reset-told", SHOULD, NO_RULE,
     "After a LOGICAL UNIT RESET another initiator is told by UNIT ATTENTION", .alone = true)
{
        struct chan *c = ready_channel(t), *other = ready_channel(t, .other = 1);
        struct order *o;
        struct answer a;

        a = run_function(c, SRP_TM_LUN_RESET, 0);
        need_complete(t, &a);
        o = order_of(other, SCSI_TEST_UNIT_READY, 0, 0, 0, 0, 0);
        send_order(o);
        a = expect_rsp_to(other, o->tag);
        if (a.status == SCSI_GOOD || (a.has_sense && a.sense.key != SCSI_UNIT_ATTENTION))
                advise(t, "UNIT ATTENTION", "%s", scsi_status_name(a.status));
        attend(other);
}

CASE("srp/task-management/limit-of-one", MUST, RULES(SRP_RSP_ANSWERED),
     "The request that is kept back of the limit does for task management", .needs = NEEDS_SLOW)
{
        struct chan *c = slow_channel(t);
        unsigned n = limit_of(c);
        struct order *o = NULL;
        uint64_t tag;

        for (unsigned i = 0; i + 1 < n; i++) {
                o = order_slow(c);
                send_order(o);
        }
        tag = send_function_to(c, slow_unit(t), SRP_TM_ABORT_TASK, o ? o->tag : 0);
        (void)expect_rsp_to(c, tag);
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <unistd.h>

#include "pdu/io/loop.h"

static struct loop loop;

struct pipe_end {
        struct loop_source source;
        int other;
        unsigned calls;
        struct pipe_end *victim; /* removed when this one is called */
};

static void on_ready(struct loop_source *s, uint32_t events)
{
        struct pipe_end *p = (struct pipe_end *)s;
        char c;

        assert_true(events & EPOLLIN);
        assert_int_equal(read(s->fd, &c, 1), 1);
        p->calls++;
        if (p->victim)
                loop_remove(&loop, &p->victim->source);
}

static struct pipe_end new_pipe(void)
{
        int fd[2];

        assert_int_equal(pipe(fd), 0);
        return (struct pipe_end) { .source = { .fd = fd[0], .ready = on_ready }, .other = fd[1] };
}

static void test_sources(void **state)
{
        struct pipe_end a = new_pipe(), b = new_pipe();

        (void)state;
        loop_add(&loop, &a.source, EPOLLIN);
        loop_add(&loop, &b.source, EPOLLIN);
        assert_int_equal(loop_turn(&loop, 0), 0);
        assert_int_equal(write(a.other, "x", 1), 1);
        assert_int_equal(loop_turn(&loop, -1), 1);
        assert_int_equal(a.calls, 1);
        a.victim = &b; /* whichever is first: the other one must not be called */
        b.victim = &a;
        assert_int_equal(write(a.other, "x", 1), 1);
        assert_int_equal(write(b.other, "x", 1), 1);
        assert_int_equal(loop_turn(&loop, -1), 2);
        assert_int_equal(a.calls + b.calls, 2);
        assert_int_equal(loop_turn(&loop, 0), 0);
        for (unsigned i = 0; i < 2; i++) {
                close(i ? a.other : b.other);
                close(i ? a.source.fd : b.source.fd);
        }
}

enum { THREADS = 4, EACH = 5000 };

struct note {
        struct loop_message message;
        unsigned number; /* set by the poster, read by the loop */
        _Atomic bool free;
};

static unsigned got[THREADS];

static void on_note(struct loop_message *m)
{
        struct note *n = (struct note *)m;

        assert_int_equal(n->number % EACH, got[n->number / EACH]++); /* in order of each poster */
        atomic_store(&n->free, true);
}

static void *poster(void *arg)
{
        unsigned me = (unsigned)(uintptr_t)arg;
        static struct note notes[THREADS][16];

        for (unsigned i = 0; i < EACH; i++) {
                struct note *n = &notes[me][i % 16];

                while (i >= 16 && !atomic_load(&n->free))
                        usleep(10);
                n->free = false;
                n->message.run = on_note;
                n->number = me * EACH + i;
                assert_true(loop_post(&loop, &n->message));
        }
        return NULL;
}

static void test_messages_of_many_threads(void **state)
{
        pthread_t t[THREADS];
        unsigned sum = 0;

        (void)state;
        for (uintptr_t i = 0; i < THREADS; i++)
                pthread_create(&t[i], NULL, poster, (void *)i);
        while (sum < THREADS * EACH) {
                assert_true(loop_turn(&loop, 5000) > 0);
                sum = got[0] + got[1] + got[2] + got[3];
        }
        for (unsigned i = 0; i < THREADS; i++)
                pthread_join(t[i], NULL);
}

static unsigned runs;

static void count_run(struct loop_message *m)
{
        if (++runs < 3)
                loop_post(&loop, m); /* from within: next turn */
}

static void test_a_message_is_posted_once(void **state)
{
        struct loop_message m = { .run = count_run };

        (void)state;
        assert_true(loop_post(&loop, &m));
        assert_false(loop_post(&loop, &m));
        assert_true(loop_posted(&m));
        for (unsigned i = 1; i <= 3; i++) {
                loop_turn(&loop, -1);
                assert_int_equal(runs, i);
        }
        assert_false(loop_posted(&m));
}

static int start(void **state)
{
        (void)state;
        return loop_init(&loop);
}

static int stop(void **state)
{
        (void)state;
        loop_fini(&loop);
        return 0;
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_sources),
                cmocka_unit_test(test_messages_of_many_threads),
                cmocka_unit_test(test_a_message_is_posted_once),
        };

        return cmocka_run_group_tests(tests, start, stop);
}

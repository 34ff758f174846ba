/* SPDX-License-Identifier: BSD-3-Clause */
/* Generated PSKs: whose they are, how long they live, and who has to go. */
#include <stdio.h>

#include "pdu/core/tests/check.h"

#include "target/nvme/psk_store.h"

static struct generated_psk psk_of(unsigned n)
{
        struct generated_psk p = { .psk.len = 32, .by.host.len = 32 };

        memcpy(p.psk.bytes, &n, sizeof(n));
        return p;
}

static void add(struct psk_store *s, const char *host, unsigned n, uint64_t now, uint64_t dies)
{
        struct generated_psk p = psk_of(n);

        psk_store_add(s, host, "s", &p, now, dies);
}

/* These, the newest first, and no others; 0 ends. */
static void want(struct psk_store *s, const char *host, uint64_t now, const unsigned *numbers)
{
        struct generated_psk got[PSKS_OF_PAIR];
        unsigned n = psk_store_find(s, host, "s", now, got), i = 0;

        for (; numbers[i]; i++) {
                struct generated_psk p = psk_of(numbers[i]);

                assert_true(i < n);
                assert_memory_equal(&got[i], &p, sizeof(p));
        }
        assert_int_equal(n, i);
}
#define WANT(s, host, now, ...) want(s, host, now, (const unsigned[]) { __VA_ARGS__, 0 })

static void whose(void **state)
{
        struct psk_store *s = psk_store_new();
        struct generated_psk first = psk_of(1), got[PSKS_OF_PAIR];

        (void)state;
        want(s, "a", 0, (const unsigned[]) { 0 });
        add(s, "a", 1, 0, 10);
        add(s, "b", 2, 0, 10);
        add(s, "a", 3, 0, 10);
        WANT(s, "a", 1, 3, 1);
        WANT(s, "b", 1, 2);
        assert_int_equal(psk_store_find(s, "a", "other", 1, got), 0);
        psk_store_remove(s, &first.psk);
        WANT(s, "a", 1, 3);
        psk_store_free(s);
        psk_store_free(NULL);
}

static void lifetime(void **state)
{
        struct psk_store *s = psk_store_new();

        (void)state;
        add(s, "a", 1, 0, 10);
        add(s, "a", 2, 5, 15);
        WANT(s, "a", 9, 2, 1);
        WANT(s, "a", 10, 2);
        want(s, "a", 15, (const unsigned[]) { 0 });
        psk_store_free(s);
}

static void the_oldest_go(void **state)
{
        struct psk_store *s = psk_store_new();
        char name[16];

        (void)state;
        for (unsigned i = 1; i <= PSKS_OF_PAIR + 2; i++)
                add(s, "a", i, 0, 10);
        WANT(s, "a", 0, 6, 5, 4, 3);
        for (unsigned i = 0; i < PSKS_MAX; i++) {
                snprintf(name, sizeof(name), "host %u", i);
                add(s, name, 100 + i, 0, 10);
        }
        want(s, "a", 0, (const unsigned[]) { 0 });
        WANT(s, "host 0", 0, 100);
        WANT(s, name, 0, 100 + PSKS_MAX - 1);
        psk_store_free(s);
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(whose), cmocka_unit_test(lifetime),
                                            cmocka_unit_test(the_oldest_go) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "splits.h"

#include "pdu/nvme/machine/tags.h"

static void finds_what_was_added(void **state)
{
        struct tags t;
        int a, b;

        (void)state;
        assert_int_equal(tags_init(&t, 8), 0);
        a = tags_add(&t, 0);
        b = tags_add(&t, 0xffff);
        assert_int_equal(a, 0);
        assert_int_equal(b, 1);
        assert_int_equal(tags_find(&t, 0), a);
        assert_int_equal(tags_find(&t, 0xffff), b);
        assert_int_equal(tags_find(&t, 1), TAGS_NONE);
        assert_int_equal(tags_remove(&t, 1), TAGS_NONE);
        assert_int_equal(t.used, 2);
        tags_fini(&t);
}

static void a_removed_slot_waits_to_be_freed(void **state)
{
        struct tags t;
        int slot;

        (void)state;
        assert_int_equal(tags_init(&t, 2), 0);
        slot = tags_add(&t, 7);
        tags_add(&t, 8);
        assert_int_equal(tags_add(&t, 9), TAGS_NONE);
        assert_int_equal(tags_remove(&t, 7), slot);
        assert_int_equal(tags_find(&t, 7), TAGS_NONE);
        assert_int_equal(tags_add(&t, 9), TAGS_NONE);
        tags_free(&t, slot);
        tags_free(&t, TAGS_NONE);
        assert_int_equal(tags_add(&t, 9), slot);
        tags_fini(&t);
}

static void slots_stay_when_it_grows(void **state)
{
        struct tags t;
        int slots[16];

        (void)state;
        assert_int_equal(tags_init(&t, 16), 0);
        for (unsigned i = 0; i < 16; i++)
                slots[i] = tags_add(&t, (uint16_t)(i * 4096 + 5));
        tags_free(&t, tags_remove(&t, 5));
        assert_int_equal(tags_grow(&t, 1000), 0);
        assert_int_equal(tags_grow(&t, 10), 0); /* it never shrinks */
        assert_int_equal(t.slots, 1000);
        for (unsigned i = 1; i < 16; i++)
                assert_int_equal(tags_find(&t, (uint16_t)(i * 4096 + 5)), slots[i]);
        for (unsigned i = 15; i < 1000; i++)
                assert_in_range(tags_add(&t, (uint16_t)(i + 100)), 0, 999);
        assert_int_equal(tags_add(&t, 50000), TAGS_NONE);
        tags_fini(&t);
}

static void it_is_bounded(void **state)
{
        struct tags t;

        (void)state;
        assert_int_equal(tags_init(&t, 100000), 0);
        assert_int_equal(t.slots, TAGS_MAX);
        for (unsigned i = 0; i < TAGS_MAX; i++)
                assert_int_equal(tags_add(&t, (uint16_t)(i * 2)), i);
        assert_int_equal(tags_add(&t, 1), TAGS_NONE);
        tags_fini(&t);
}

/* Tags that collide as badly as they can, against a table that says the truth. */
static void random_work_agrees_with_a_plain_table(void **state)
{
        static int truth[1 << 16];
        static const unsigned strides[] = { 1, 64, 128, 4096 };
        uint64_t seed = 7;

        (void)state;
        for (unsigned round = 0; round < 4; round++) {
                struct tags t;

                assert_int_equal(tags_init(&t, 64), 0);
                for (unsigned i = 0; i < 1 << 16; i++)
                        truth[i] = TAGS_NONE;
                for (unsigned i = 0; i < 20000; i++) {
                        uint16_t tag = (uint16_t)(splits_rand(&seed) % 100 * strides[round]);
                        int slot = tags_find(&t, tag);

                        assert_int_equal(slot, truth[tag]);
                        if (slot < 0) {
                                truth[tag] = tags_add(&t, tag);
                        } else if (splits_rand(&seed) % 2) {
                                tags_free(&t, tags_remove(&t, tag));
                                truth[tag] = TAGS_NONE;
                        }
                }
                tags_fini(&t);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(finds_what_was_added),
                cmocka_unit_test(a_removed_slot_waits_to_be_freed),
                cmocka_unit_test(slots_stay_when_it_grows),
                cmocka_unit_test(it_is_bounded),
                cmocka_unit_test(random_work_agrees_with_a_plain_table),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

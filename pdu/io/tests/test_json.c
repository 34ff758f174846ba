/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "pdu/io/json.h"
#include "pdu/nvme/wire/identify.h"

static struct json_object *at(struct json_object *o, const char *name)
{
        struct json_object *found = NULL;

        assert_true(json_object_object_get_ex(o, name, &found));
        return found;
}

static void test_capsule(void **state)
{
        struct json_object *o = json_object_new_object(), *sqe;
        struct json_groups groups;
        struct describe d = json_describer(&groups, o);
        union pdu h = { .cmd = {
                            .ch = { .type = PDU_CAPSULE_CMD },
                            .sqe = { .opc = NVME_READ, .cid = le16(9), .sgl = { .id = 0x5a } } } };

        (void)state;
        describe_pdu(&d, &h, false, NULL, 0);
        assert_string_equal(json_object_get_string(at(o, "type_text")), "CapsuleCmd");
        sqe = at(o, "sqe");
        assert_int_equal(json_object_get_uint64(at(sqe, "cid")), 9);
        assert_string_equal(json_object_get_string(at(sqe, "opc_text")), "Read");
        assert_int_equal(json_object_get_uint64(at(at(sqe, "sgl"), "id")), 0x5a);
        assert_int_equal(groups.depth, 0);
        json_object_put(o);
}

static void test_lists(void **state)
{
        static const struct id_ns ns = { .nlbaf = 1, .lbaf = { { .lbads = 9 }, { .lbads = 12 } } };
        struct json_object *o = json_object_new_object(), *formats;
        struct json_groups groups;
        struct describe d = json_describer(&groups, o);

        (void)state;
        describe_id_ns(&d, &ns);
        formats = at(o, "lbaf");
        assert_int_equal(json_object_array_length(formats), 2);
        assert_int_equal(json_object_get_uint64(at(json_object_array_get_idx(formats, 1), "lbads")),
                         12);
        json_object_put(o);
}

static void test_any_bytes(void **state)
{
        struct json_object *o = json_object_new_object(), *back;
        struct json_groups groups;
        struct describe d = json_describer(&groups, o);
        const char *text;

        (void)state;
        d.string(d.arg, "s", "a\xff\"\n\x80", 5);
        text = json_object_to_json_string(o);
        back = json_tokener_parse(text);
        assert_non_null(back);
        assert_string_equal(json_object_get_string(at(back, "s")), "a\xc3\xbf\"\n\xc2\x80");
        json_object_put(back);
        json_object_put(o);
}

static void test_too_deep(void **state)
{
        struct json_object *o = json_object_new_object();
        struct json_groups groups;
        struct describe d = json_describer(&groups, o);

        (void)state;
        for (int i = 0; i < JSON_GROUPS + 4; i++) {
                d.group(d.arg, i % 2 ? "g[]" : "g");
                d.number(d.arg, "n", 1, 8, "one");
                d.string(d.arg, "s", "x", 1);
        }
        for (int i = 0; i < JSON_GROUPS + 4; i++)
                d.group(d.arg, NULL);
        assert_int_equal(groups.depth, 0);
        d.number(d.arg, "after", 2, 8, NULL);
        assert_int_equal(json_object_get_uint64(at(o, "after")), 2);
        json_object_put(o);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_capsule),
                cmocka_unit_test(test_lists),
                cmocka_unit_test(test_any_bytes),
                cmocka_unit_test(test_too_deep),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

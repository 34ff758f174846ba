/* SPDX-License-Identifier: BSD-3-Clause */
#include "pdu/core/tests/check.h"
#include "pdu/core/tests/rounds.h"

#include "pdu/nvme/wire/identify.h"

static char buf[65536];

/* The description of Identify data as text; NULL if it is refused. */
static const char *described(uint8_t cns, const void *data, size_t len)
{
        struct text_lines lines = { text_in(buf, sizeof(buf)), 0 };
        struct describe d = text_describer(&lines);

        return describe_identify(&d, cns, data, len) ? buf : NULL;
}

static void assert_has(const char *text, const char *line)
{
        if (!text || !strstr(text, line))
                fail_msg("no \"%s\" in:\n%s", line, text ? text : "(refused)");
}

static void test_controller(void **state)
{
        static struct id_ctrl c;
        const char *text;

        (void)state;
        text_pad(c.sn, sizeof(c.sn), "S1");
        c.ver = le32(0x20100);
        c.mdts = 5;
        c.cntrltype = CNTRLTYPE_DISCOVERY;
        c.oaes = le32(OAES_DISCOVERY | OAES_NS);
        c.kas = le16(10);
        c.sqes = 0x66;
        c.ioccsz = le32(4);
        c.npss = 255; /* a lie: there are 32 */
        text = described(CNS_CTRL, &c, sizeof(c));
        assert_has(text, "sn           : S1\n");
        assert_has(text, "ver          : 131328 (2.1.0)\n");
        assert_has(text, "mdts         : 5 (128 KiB where MPSMIN is 4 KiB)\n");
        assert_has(text, "cntrltype    : 2 (discovery)\n");
        assert_has(text, "(namespace, discovery)\n");
        assert_has(text, "kas          : 10 (1000 ms)\n");
        assert_has(text, "sqes         : 102 (64 to 64 bytes)\n");
        assert_has(text, "ioccsz       : 4 (64 bytes)\n");
        assert_null(described(CNS_CTRL, &c, sizeof(c) - 1));
        assert_null(described(0xfe, &c, sizeof(c)));
}

static void test_namespace(void **state)
{
        static struct id_ns n;
        const char *text;

        (void)state;
        n.nsze = le64(1000);
        n.nlbaf = 1;
        n.flbas = 1;
        n.lbaf[0].lbads = 9;
        n.lbaf[1].lbads = 12;
        text = described(CNS_NS, &n, sizeof(n));
        assert_has(text, "nsze         : 1000\n");
        assert_has(text, "nlbaf        : 1 (2)\n");
        assert_has(text,
                   "  in_use       : 1\n  ms           : 0\n  lbads        : 12 (4096 bytes)\n");
        assert_int_equal(id_ns_block_size(&n), 4096);
        n.flbas = 0x20; /* format 16, where there are so many */
        assert_int_equal(id_ns_block_size(&n), 512);
        n.nlbaf = 16;
        assert_int_equal(id_ns_block_size(&n), 0);
        n.lbaf[16].lbads = 9;
        assert_int_equal(id_ns_block_size(&n), 512);
        assert_int_equal(id_ns_metadata(&n), 0);
        n.lbaf[16].ms = le16(8);
        assert_int_equal(id_ns_metadata(&n), 8);
        n.lbaf[16].lbads = 63;
        assert_int_equal(id_ns_block_size(&n), 0);
        n.nlbaf = 255;
        assert_non_null(described(CNS_NS, &n, sizeof(n)));
        n.flbas = 0xff;
        assert_int_equal(id_ns_block_size(&n), 0);
}

static void test_ids(void **state)
{
        static uint8_t list[IDENTIFY_LEN];
        static const uint8_t bytes[16] = { 0x11, 0x22 }, csi = 0;
        size_t at = 0;
        struct ns_id id;

        (void)state;
        assert_true(ns_desc_put(list, sizeof(list), &at, &(struct ns_id) { NIDT_UUID, 16, bytes }));
        assert_true(ns_desc_put(list, sizeof(list), &at, &(struct ns_id) { NIDT_CSI, 1, &csi }));
        assert_int_equal(at, 4 + 16 + 4 + 1);
        assert_has(described(CNS_NS_DESCS, list, sizeof(list)),
                   "uuid         : 11220000-0000-0000-0000-000000000000\n");
        assert_has(buf, "csi          : 0 (NVM)\n");
        at = 0;
        assert_true(ns_desc_next(list, sizeof(list), &at, &id));
        assert_int_equal(id.type, NIDT_UUID);
        assert_int_equal(id.len, 16);
        assert_memory_equal(id.bytes, bytes, 16);
        assert_true(ns_desc_next(list, sizeof(list), &at, &id));
        assert_int_equal(id.type, NIDT_CSI);
        assert_false(ns_desc_next(list, sizeof(list), &at, &id));
}

static void test_what_is_wrong_with_ids(void **state)
{
        static uint8_t list[64];
        static const uint8_t bytes[16];
        size_t at = 0;

        (void)state;
        assert_string_equal(ns_descs_fault(list, sizeof(list)),
                            "no EUI64, NGUID or UUID is present");
        assert_true(ns_desc_put(list, sizeof(list), &at, &(struct ns_id) { NIDT_CSI, 1, bytes }));
        assert_string_equal(ns_descs_fault(list, sizeof(list)),
                            "no EUI64, NGUID or UUID is present");
        assert_true(ns_desc_put(list, sizeof(list), &at, &(struct ns_id) { 0x77, 3, bytes }));
        assert_true(ns_desc_put(list, sizeof(list), &at, &(struct ns_id) { NIDT_EUI64, 8, bytes }));
        assert_null(ns_descs_fault(list, sizeof(list)));
        assert_null(ns_descs_fault(list, at));
        list[at] = NIDT_UUID;
        assert_null(ns_descs_fault(list, sizeof(list))); /* NIDL 0: the end */
        list[at + 1] = 8;
        assert_string_equal(ns_descs_fault(list, sizeof(list)),
                            "NIDL is not the length of its NIDT");
        list[at + 1] = 200;
        assert_string_equal(ns_descs_fault(list, sizeof(list)),
                            "a descriptor extends beyond the end of the list");
        assert_true(ns_desc_put(list, sizeof(list), &at, &(struct ns_id) { NIDT_CSI, 1, bytes }));
        assert_string_equal(ns_descs_fault(list, sizeof(list)), "an NIDT occurs twice");
}

static void test_what_is_wrong_with_a_namespace(void **state)
{
        static struct id_ns n;

        (void)state;
        assert_null(id_ns_fault(&n)); /* inactive */
        n.nsze = le64(8);
        n.ncap = le64(9);
        assert_string_equal(id_ns_fault(&n), "NCAP is above NSZE");
        n.ncap = le64(7);
        n.nuse = le64(8);
        assert_string_equal(id_ns_fault(&n), "NUSE is above NCAP");
        n.nuse = le64(7);
        n.flbas = 1;
        n.lbaf[0].lbads = 12;
        assert_non_null(id_ns_fault(&n));
        n.lbaf[1].lbads = 9;
        assert_null(id_ns_fault(&n));
        n.lbaf[1].lbads = 8;
        assert_non_null(id_ns_fault(&n));
}

static void test_ids_that_lie(void **state)
{
        uint8_t list[32] = { NIDT_UUID, 29 };
        struct ns_id id;
        size_t at = 0;

        (void)state;
        assert_false(ns_desc_next(list, sizeof(list), &at, &id)); /* one byte too long */
        list[1] = 28;
        assert_true(ns_desc_next(list, sizeof(list), &at, &id));
        assert_int_equal(at, 32);
        assert_false(ns_desc_next(list, sizeof(list), &at, &id));
        at = 0;
        list[1] = 0; /* would never end */
        assert_false(ns_desc_next(list, sizeof(list), &at, &id));
        at = 30; /* half a descriptor */
        assert_false(ns_desc_next(list, sizeof(list), &at, &id));
        at = 33;
        assert_false(ns_desc_next(list, sizeof(list), &at, &id));
        at = 12;
        assert_false(ns_desc_put(list, sizeof(list), &at, &(struct ns_id) { NIDT_UUID, 17, list }));
        assert_int_equal(at, 12);
}

/* A known type with too few bytes is told by type and length only. */
static void test_short_id(void **state)
{
        static uint8_t list[IDENTIFY_LEN] = { NIDT_NGUID, 4, 0, 0, 1, 2, 3, 4, 9, 1, 0, 0, 7 };

        (void)state;
        assert_has(described(CNS_NS_DESCS, list, sizeof(list)), "nidl         : 4\n");
        assert_null(strstr(buf, "nguid"));
        assert_has(buf, "nidt         : 9\n");
}

static void test_random_lists(void **state)
{
        static uint8_t list[IDENTIFY_LEN];
        uint64_t seed = 6;

        (void)state;
        for (unsigned round = 0; round < random_rounds(500); round++) {
                struct ns_id id;
                size_t at = 0;

                random_fill(&seed, list, sizeof(list));
                while (ns_desc_next(list, sizeof(list), &at, &id))
                        assert_true(id.bytes + id.len <= list + sizeof(list));
                for (uint8_t cns = 0; cns < 0x20; cns++)
                        described(cns, list, sizeof(list));
        }
}

static void test_ns_list(void **state)
{
        static le32_t list[1024];

        (void)state;
        assert_int_equal(ns_list_count(list, sizeof(list)), 0);
        for (uint32_t i = 0; i < 1024; i++)
                list[i] = le32(i + 5);
        assert_int_equal(ns_list_count(list, sizeof(list)), 1024);
        assert_int_equal(ns_list_get(list, 1023), 1028);
        list[3] = le32(0);
        assert_int_equal(ns_list_count(list, sizeof(list)), 3);
        assert_int_equal(ns_list_count(list, 11), 2);
        assert_has(described(CNS_NS_LIST, list, sizeof(list)), "  nsid         : 7\n");
}

static void texts(void **state)
{
        struct id_ctrl id;

        (void)state;
        memset(&id, ' ', sizeof(id));
        assert_null(id_text_fault(&id));
        memcpy(id.mn, "a model", 7);
        assert_null(id_text_fault(&id));
        memcpy(id.sn, " 123", 4);
        assert_string_equal(id_text_fault(&id), "SN");
        memcpy(id.sn, "\xc4 23", 4);
        assert_string_equal(id_text_fault(&id), "SN");
        memcpy(id.sn, "0123", 4);
        id.mn[39] = '\0';
        assert_string_equal(id_text_fault(&id), "MN");
        id.mn[39] = '~';
        id.fr[0] = '\x7f';
        assert_string_equal(id_text_fault(&id), "FR");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_controller),
                cmocka_unit_test(test_namespace),
                cmocka_unit_test(test_ids),
                cmocka_unit_test(test_ids_that_lie),
                cmocka_unit_test(test_what_is_wrong_with_ids),
                cmocka_unit_test(test_what_is_wrong_with_a_namespace),
                cmocka_unit_test(test_short_id),
                cmocka_unit_test(test_random_lists),
                cmocka_unit_test(test_ns_list),
                cmocka_unit_test(texts),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

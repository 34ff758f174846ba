/* SPDX-License-Identifier: BSD-3-Clause */
#include "pdu/core/tests/check.h"

#include <stdio.h>

#include "pdu/nvme/wire/auth.h"

/* --- keys ------------------------------------------------------------------------------------- */

/* Made by nvme gen-dhchap-key of nvme-cli 2.3. */
#define KEY_32 "DHHC-1:00:1CHbpfXmr73jzc42DEC/OQ/Kto+ArN0KpzOyG0l8sA3I9aUY:"
#define KEY_48 "DHHC-1:02:qp/44WRcvnAgOZY0ClbKKAmGy1tsUOWCEmOxD7wd1AiDUSwAwy5F/4mMg1OouLxyllYE9w==:"
#define KEY_64                                                                                     \
        "DHHC-1:03:j/2Ee22vdCugFzi5rUtvK1cA7xl+aEO8/gKUH9fFx93w/iLfvbqjoGSSHqQONFPvppJdXpwQDPT2"   \
        "+8nasEyVqz6LpMU=:"

static void keys_of_nvme_cli(void **state)
{
        static const struct {
                const char *text;
                uint8_t hash, len, first, last;
        } keys[] = {
                { KEY_32, 0, 32, 0xd4, 0x0d },
                { KEY_48, 2, 48, 0xaa, 0x72 },
                { KEY_64, 3, 64, 0x8f, 0xab },
        };

        (void)state;
        for (size_t i = 0; i < COUNT(keys); i++) {
                struct auth_key key;

                assert_null(auth_key_parse(&key, keys[i].text));
                assert_int_equal(key.hash, keys[i].hash);
                assert_int_equal(key.len, keys[i].len);
                assert_int_equal(key.bytes[0], keys[i].first);
                assert_int_equal(key.bytes[key.len - 1], keys[i].last);
        }
}

static void what_is_no_key(void **state)
{
        static const struct {
                const char *text, *says;
        } wrong[] = {
                { "", "form" },
                { "DHHC-1:", "form" },
                { "DHHC-1:00", "form" },
                { "DHHC-1:00:", "form" },
                { "DHHC-2:00:1CHbpfXmr73jzc42DEC/OQ/Kto+ArN0KpzOyG0l8sA3I9aUY:", "form" },
                { "DHHC-1:00:1CHbpfXmr73jzc42DEC/OQ/Kto+ArN0KpzOyG0l8sA3I9aUY", "form" },
                { "DHHC-1:00:1CHbpfXmr73jzc42DEC/OQ/Kto+ArN0KpzOyG0l8sA3I9aUY:x", "form" },
                { "DHHC-1:04:1CHbpfXmr73jzc42DEC/OQ/Kto+ArN0KpzOyG0l8sA3I9aUY:", "hash" },
                { "DHHC-1:x0:1CHbpfXmr73jzc42DEC/OQ/Kto+ArN0KpzOyG0l8sA3I9aUY:", "hash" },
                { "DHHC-1:00:1CHbpfXmr73jzc42DEC/OQ/Kto+ArN0KpzOyG0l8sA3I9aU:", "base64" },
                { "DHHC-1:00:1CHbpfXmr73jzc42DEC/OQ/Kto+ArN0KpzOyG0l8sA3I9aU*:", "base64" },
                { "DHHC-1:00:1CHb===mr73jzc42DEC/OQ/Kto+ArN0KpzOyG0l8sA3I9aUY:", "base64" },
                { "DHHC-1:00:====:", "base64" },
                { "DHHC-1:00::", "bytes long" },
                { "DHHC-1:00:1CHb:", "bytes long" },
                { "DHHC-1:00:1CHbpfXmr73jzc42DEC/OQ/Kto+ArN0KpzOyG0l8sA3I9aUZ:", "checksum" },
                { "DHHC-1:00:2CHbpfXmr73jzc42DEC/OQ/Kto+ArN0KpzOyG0l8sA3I9aUY:", "checksum" },
        };
        struct auth_key key = { .len = 7 };
        char text[400] = "DHHC-1:00:";

        (void)state;
        for (size_t i = 0; i < COUNT(wrong); i++) {
                const char *says = auth_key_parse(&key, wrong[i].text);

                assert_non_null(says);
                if (!strstr(says, wrong[i].says))
                        fail_msg("'%s': %s", wrong[i].text, says);
        }
        memset(text + 10, 'A', 300);
        strcpy(text + 310, ":");
        assert_non_null(auth_key_parse(&key, text));
        assert_int_equal(key.len, 7);
}

/* A key with any one letter changed is noticed: a CRC sees every burst of up to 32 bits. */
static void a_typing_error_is_noticed(void **state)
{
        char text[] = KEY_32;
        struct auth_key key;

        (void)state;
        for (size_t i = 10; i < sizeof(KEY_32) - 2; i++) {
                text[i] = text[i] == 'Q' ? 'R' : 'Q';
                assert_non_null(auth_key_parse(&key, text));
                text[i] = KEY_32[i];
        }
        assert_null(auth_key_parse(&key, text));
}

/* PSKs of TLS have the same form; the first is the example of T1.0 3.6.1.5. */
static void keys_of_tls(void **state)
{
        static const uint8_t bytes[] = { 0x55, 0x12, 0xdb, 0xb6, 0x73, 0x7d, 0x01, 0x06,
                                         0xf6, 0x59, 0x75, 0xb7, 0x73, 0xdf, 0xb0, 0x11,
                                         0xff, 0xc3, 0x44, 0xbc, 0xf4, 0x42, 0xe2, 0xdd,
                                         0x6d, 0x8b, 0xc4, 0x87, 0x0b, 0x5d, 0x5b, 0x03 };
        static const struct {
                const char *text, *says;
        } wrong[] = {
                { "", "form" },
                { KEY_32, "form" },
                { "NVMeTLSkey-2:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:", "form" },
                { "NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ", "form" },
                { "NVMeTLSkey-1:03:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:", "hash" },
                { "NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9Lr!:", "base64" },
                { "NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf:", "32 or 48" },
                { "NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrA:", "checksum" },
        };
        struct auth_key key = { .len = 7 };
        char text[200];

        (void)state;
        for (size_t i = 0; i < COUNT(wrong); i++) {
                const char *says = tls_key_parse(&key, wrong[i].text);

                if (!says || !strstr(says, wrong[i].says))
                        fail_msg("'%s': %s", wrong[i].text, says ? says : "taken");
        }
        snprintf(text, sizeof(text), "NVMeTLSkey-1:00:%088d:", 0); /* 66 bytes */
        assert_non_null(tls_key_parse(&key, text));
        assert_int_equal(key.len, 7);
        assert_null(tls_key_parse(
            &key, "NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:"));
        assert_int_equal(key.hash, AUTH_SHA256);
        assert_int_equal(key.len, sizeof(bytes));
        assert_memory_equal(key.bytes, bytes, sizeof(bytes));
}

/* --- messages --------------------------------------------------------------------------------- */

static const struct {
        enum auth_message message;
        size_t len;
        uint8_t set[8][2]; /* offset, value */
} messages[] = {
        { AUTH_NEGOTIATE, 8, { { 0 } } },
        { AUTH_NEGOTIATE, 8 + 2 * 64, { { 7, 2 } } },
        { AUTH_FAILURE1, 8, { { 6, 1 }, { 7, 4 } } },
        { AUTH_FAILURE2, 8, { { 6, 1 }, { 7, 4 } } },
        { AUTH_CHALLENGE, 16 + 48 + 256, { { 6, 48 }, { 8, 2 }, { 9, 1 }, { 11, 1 } } },
        { AUTH_CHALLENGE, 16 + 32, { { 6, 32 }, { 8, 1 } } },
        { AUTH_REPLY, 16 + 2 * 64 + 384, { { 6, 64 }, { 8, 1 }, { 10, 128 }, { 11, 1 } } },
        { AUTH_SUCCESS1, 16 + 32, { { 6, 32 }, { 8, 1 } } },
        { AUTH_SUCCESS2, 16, { { 0 } } },
};

static void make(uint8_t *p, size_t i)
{
        memset(p, 0, 1000);
        p[0] = (uint8_t)(messages[i].message >> 8);
        p[1] = (uint8_t)messages[i].message;
        p[4] = 0x34;
        p[5] = 0x12;
        for (size_t k = 0; k < 8; k++)
                if (messages[i].set[k][0])
                        p[messages[i].set[k][0]] = messages[i].set[k][1];
}

/* At every length that is too short, out of a block of just that length. */
static void a_message_has_to_be_whole(void **state)
{
        uint8_t p[1000];
        struct auth_view v;

        (void)state;
        for (size_t i = 0; i < COUNT(messages); i++) {
                make(p, i);
                assert_int_equal(auth_view(&v, p, sizeof(p)), 0);
                assert_int_equal(v.message, messages[i].message);
                assert_int_equal(v.len, messages[i].len);
                assert_int_equal(v.t_id, 0x1234);
                for (size_t len = 0; len < messages[i].len; len++) {
                        uint8_t *cut = test_malloc(len + 1);

                        memcpy(cut + 1, p, len);
                        assert_int_equal(auth_view(&v, cut + 1, len), AUTH_BAD_PAYLOAD);
                        test_free(cut);
                }
        }
        make(p, 0);
        p[1] = 1;
        assert_int_equal(auth_view(&v, p, sizeof(p)), AUTH_BAD_MESSAGE);
        p[0] = 2;
        assert_int_equal(auth_view(&v, p, sizeof(p)), AUTH_BAD_MESSAGE);
}

static void the_parts_of_a_reply(void **state)
{
        uint8_t p[1000];
        struct auth_view v;

        (void)state;
        make(p, 6);
        assert_int_equal(auth_view(&v, p, sizeof(p)), 0);
        assert_ptr_equal(v.rval, p + 16);
        assert_ptr_equal(v.cval, p + 16 + 64);
        assert_ptr_equal(v.dhv, p + 16 + 128);
        assert_int_equal(v.dhvlen, 384);
        make(p, 4);
        assert_int_equal(auth_view(&v, p, sizeof(p)), 0);
        assert_null(v.rval);
        assert_ptr_equal(v.dhv, p + 16 + 48);
}

/* --- words ------------------------------------------------------------------------------------ */

static const char *described(const void *p, size_t len)
{
        static char buf[8192];
        struct text_lines lines = { .text = text_in(buf, sizeof(buf)) };
        struct describe d = text_describer(&lines);

        describe_auth(&d, p, len);
        return buf;
}

static void a_negotiate_in_words(void **state)
{
        uint8_t p[1000];
        const char *says;

        (void)state;
        make(p, 1);
        p[8] = 1;
        p[10] = 2;
        p[11] = 3;
        p[12] = AUTH_SHA256;
        p[13] = 0x44;
        p[8 + 34] = AUTH_NO_DH;
        p[8 + 35] = AUTH_FFDHE8192;
        says = described(p, sizeof(p));
        assert_non_null(strstr(says, "AUTH_Negotiate"));
        assert_non_null(strstr(says, "SHA-256, 44h\n"));
        assert_non_null(strstr(says, "NULL, ffdhe8192, NULL\n"));
        p[10] = p[11] = 255; /* HALEN and DHLEN that lie */
        described(p, sizeof(p));
}

static void others_in_words(void **state)
{
        uint8_t p[1000];

        (void)state;
        make(p, 2);
        assert_non_null(strstr(described(p, 8), "hash function not usable"));
        assert_null(strstr(described(p, 7), "rcode"));
        assert_string_equal(described(p, 5), "");
        make(p, 6);
        memset(p + 16, 0xab, 64);
        assert_non_null(strstr(described(p, sizeof(p)), "abababab"));
        make(p, 0);
        p[0] = 9;
        assert_non_null(strstr(described(p, 8), "t_id"));
        assert_null(strstr(described(p, 8), "message"));
}

static void anything_is_described(void **state)
{
        uint64_t seed = 5;

        (void)state;
        for (unsigned i = 0; i < 20000; i++) {
                size_t len = random_next(&seed) % 300;
                uint8_t *p = test_malloc(len + 1);

                random_fill(&seed, p, len);
                if (len > 1 && i % 8) {
                        p[0] = (uint8_t)(messages[i % COUNT(messages)].message >> 8);
                        p[1] = (uint8_t)messages[i % COUNT(messages)].message;
                }
                described(p, len);
                test_free(p);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(keys_of_nvme_cli),          cmocka_unit_test(what_is_no_key),
                cmocka_unit_test(a_typing_error_is_noticed), cmocka_unit_test(keys_of_tls),
                cmocka_unit_test(a_message_has_to_be_whole), cmocka_unit_test(the_parts_of_a_reply),
                cmocka_unit_test(a_negotiate_in_words),      cmocka_unit_test(others_in_words),
                cmocka_unit_test(anything_is_described),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

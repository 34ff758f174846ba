/* SPDX-License-Identifier: BSD-3-Clause */
/* Blocks to and from files, of a family that has them in memory. */
#include "host/engine/command.h"
#include "host/engine/verify.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pdu/core/crc32c.h"
#include "pdu/io/json.h"

enum { BLOCK = 512, BLOCKS = 100, MOST = 8 };

static char path[] = "/tmp/test_blocks.XXXXXX";
static uint8_t store[BLOCKS * BLOCK], buf[MOST * BLOCK];
static unsigned requests, longest;

static int transfer(void *user, bool write, uint64_t block, uint32_t blocks, struct host_error *e)
{
        assert_ptr_equal(user, store);
        requests++;
        longest = blocks > longest ? blocks : longest;
        if (block + blocks > BLOCKS)
                return host_fail(e, HOST_STATUS, "beyond the end");
        if (write)
                memcpy(store + block * BLOCK, buf, (size_t)blocks * BLOCK);
        else
                memcpy(buf, store + block * BLOCK, (size_t)blocks * BLOCK);
        return 0;
}

static void show(void *user, struct json_object *o)
{
        (void)user;
        put_number(o, "unit", 7);
}

static const struct host_blocks all = { .block_size = BLOCK,
                                        .max_blocks = MOST,
                                        .buf = buf,
                                        .transfer = transfer,
                                        .show = show,
                                        .user = store };

static struct host_args args(uint64_t slba, uint64_t blocks)
{
        return (struct host_args) { .output = "text",
                                    .slba = slba,
                                    .blocks = blocks,
                                    .file = path,
                                    .pattern = HOST_NO_PATTERN };
}

static int set_up(void **state)
{
        int fd = mkstemp(path);

        (void)state;
        for (size_t i = 0; i < sizeof(store); i++)
                store[i] = (uint8_t)(i ^ i >> 8);
        requests = longest = 0;
        return fd < 0 ? -1 : close(fd);
}

static int tear_down(void **state)
{
        (void)state;
        unlink(path);
        memset(path + strlen(path) - 6, 'X', 6);
        return 0;
}

static size_t file_has(uint8_t *p, size_t most)
{
        FILE *f = fopen(path, "rb");
        size_t n;

        assert_non_null(f);
        n = fread(p, 1, most, f);
        fclose(f);
        return n;
}

static void put_file(const void *p, size_t n)
{
        FILE *f = fopen(path, "wb");

        assert_non_null(f);
        assert_int_equal(fwrite(p, 1, n, f), n);
        fclose(f);
}

static void blocks_are_read_to_a_file(void **state)
{
        static uint8_t back[sizeof(store)];
        struct host_args a = args(3, 20);
        struct host_error e = { 0 };

        (void)state;
        assert_int_equal(host_blocks_read(&all, &a, &e), 0);
        assert_int_equal(file_has(back, sizeof(back)), 20 * BLOCK);
        assert_memory_equal(back, store + 3 * BLOCK, 20 * BLOCK);
        assert_int_equal(requests, 3); /* 8, 8 and 4 */
        assert_int_equal(longest, MOST);
}

static void blocks_are_written_from_a_file(void **state)
{
        static uint8_t data[20 * BLOCK], before[sizeof(store)];
        struct host_args a = args(50, 20);
        struct host_error e = { 0 };

        (void)state;
        memcpy(before, store, sizeof(store));
        memset(data, 0x5a, sizeof(data));
        put_file(data, sizeof(data));
        assert_int_equal(host_blocks_write(&all, &a, &e), 0);
        assert_memory_equal(store + 50 * BLOCK, data, sizeof(data));
        assert_memory_equal(store, before, 50 * BLOCK);
        assert_memory_equal(store + 70 * BLOCK, before + 70 * BLOCK, 30 * BLOCK);
        assert_int_equal(requests, 3);
}

static void or_are_filled_with_a_byte(void **state)
{
        struct host_args a = args(1, 9);
        struct host_error e = { 0 };

        (void)state;
        a.file = NULL;
        a.pattern = 0;
        assert_int_equal(host_blocks_check(&a, &e), 0);
        assert_int_equal(host_blocks_write(&all, &a, &e), 0);
        for (size_t i = BLOCK; i < 10 * BLOCK; i++)
                assert_int_equal(store[i], 0);
        assert_int_equal(store[10 * BLOCK + 1], (uint8_t)((10 * BLOCK + 1) ^ 10 * BLOCK >> 8));
}

static void a_short_input_is_told(void **state)
{
        struct host_args a = args(0, 20);
        struct host_error e = { 0 };

        (void)state;
        put_file(store, 10 * BLOCK + 1);
        assert_int_equal(host_blocks_write(&all, &a, &e), -1);
        assert_int_equal(e.kind, HOST_USAGE);
        assert_string_equal(e.line, "the input ends before block 16");
        assert_int_equal(requests, 1);
}

static void what_fails_ends_it(void **state)
{
        struct host_args a = args(90, 20);
        struct host_error e = { 0 };
        struct host_blocks none = all;

        (void)state;
        assert_int_equal(host_blocks_read(&all, &a, &e), -1);
        assert_string_equal(e.line, "beyond the end");
        assert_int_equal(requests, 2);
        a.file = "/nowhere/at/all";
        assert_int_equal(host_blocks_read(&all, &a, &e), -1);
        assert_int_equal(e.kind, HOST_USAGE);
        assert_int_equal(host_blocks_write(&all, &a, &e), -1);
        assert_int_equal(e.kind, HOST_USAGE);
        assert_int_equal(requests, 2);
        none.max_blocks = 0;
        a.file = path;
        assert_int_equal(host_blocks_read(&none, &a, &e), -1);
        assert_string_equal(e.line, "blocks of 512 bytes are longer than a request");
        assert_int_equal(host_blocks_write(&none, &a, &e), -1);
        assert_int_equal(requests, 2);
}

/* A backup is not emptied for what can't be read. */
static void a_file_is_kept_until_there_is_something_for_it(void **state)
{
        static uint8_t back[sizeof(store)];
        struct host_args a = args(BLOCKS, 1);
        struct host_error e = { 0 };
        struct host_blocks none = all;

        (void)state;
        put_file(store, 20 * BLOCK);
        assert_int_equal(host_blocks_read(&all, &a, &e), -1);
        none.max_blocks = 0;
        assert_int_equal(host_blocks_read(&none, &a, &e), -1);
        assert_int_equal(file_has(back, sizeof(back)), 20 * BLOCK);
        assert_memory_equal(back, store, 20 * BLOCK);
        a = args(5, 2);
        assert_int_equal(host_blocks_read(&all, &a, &e), 0);
        assert_int_equal(file_has(back, sizeof(back)), 2 * BLOCK);
        a.file = "/dev/null";
        assert_int_equal(host_blocks_read(&all, &a, &e), 0);
}

/* Nor is there anything to be verified by it: no request would ever be taken. */
static void verify_needs_room_for_a_block(void **state)
{
        static const struct load_ops ops = { .io_bytes = sizeof(struct load_io) };
        const struct verify_options o = {
                .range = 1 << 20, .max_size = 512, .depth = 1, .passes = 1
        };
        struct load l = {
                .ops = &ops, .queues = 1, .depth = 1, .block_size = 4096, .blocks = 1 << 20
        };
        struct verify_result r;
        struct host_error e = { 0 };

        (void)state;
        assert_int_equal(verify_run(&l, &o, &r, &e), -1);
        assert_int_equal(e.kind, HOST_USAGE);
        assert_string_equal(e.line, "blocks of 4096 bytes are longer than a request");
}

static void a_file_and_a_pattern_exclude_each_other(void **state)
{
        struct host_args a = args(0, 1);
        struct host_error e = { 0 };

        (void)state;
        assert_int_equal(host_blocks_check(&a, &e), 0);
        a.pattern = 7;
        assert_int_equal(host_blocks_check(&a, &e), -1);
        assert_int_equal(e.kind, HOST_USAGE);
}

/* With "-", and none named, the object takes the place of the data. */
static void json_is_said_of_what_was_read(void **state)
{
        struct host_args a = args(2, 10);
        struct host_error e = { 0 };
        struct json_object *o, *field;
        char text[400], hex[9];
        int saved = dup(1), rc;
        FILE *f = tmpfile();

        (void)state;
        assert_non_null(f);
        a.output = "json";
        a.file = "-";
        fflush(stdout);
        dup2(fileno(f), 1);
        rc = host_blocks_read(&all, &a, &e);
        fflush(stdout);
        dup2(saved, 1);
        close(saved);
        assert_int_equal(rc, 0);
        rewind(f);
        text[fread(text, 1, sizeof(text) - 1, f)] = '\0';
        fclose(f);
        o = json_tokener_parse(text);
        assert_non_null(o);
        snprintf(hex, sizeof(hex), "%08x", crc32c(store + 2 * BLOCK, 10 * BLOCK));
        assert_true(json_object_object_get_ex(o, "crc32c", &field));
        assert_string_equal(json_object_get_string(field), hex);
        assert_true(json_object_object_get_ex(o, "unit", &field));
        assert_int_equal(json_object_get_int(field), 7);
        assert_true(json_object_object_get_ex(o, "slba", &field));
        assert_int_equal(json_object_get_int(field), 2);
        assert_true(json_object_object_get_ex(o, "blocks", &field));
        assert_int_equal(json_object_get_int(field), 10);
        assert_true(json_object_object_get_ex(o, "block_size", &field));
        assert_int_equal(json_object_get_int(field), BLOCK);
        json_object_put(o);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        const struct CMUnitTest tests[] = {
                TEST(blocks_are_read_to_a_file),
                TEST(blocks_are_written_from_a_file),
                TEST(or_are_filled_with_a_byte),
                TEST(a_short_input_is_told),
                TEST(what_fails_ends_it),
                TEST(a_file_is_kept_until_there_is_something_for_it),
                TEST(verify_needs_room_for_a_block),
                TEST(a_file_and_a_pattern_exclude_each_other),
                TEST(json_is_said_of_what_was_read),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

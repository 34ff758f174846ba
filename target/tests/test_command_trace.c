/* SPDX-License-Identifier: BSD-3-Clause */
/* The lines of the trace of commands, read as JSON. */
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

#include "target/nvme/command_trace.h"

static struct json_object *head, *line; /* of the last file */

static struct json_object *read_line(FILE *f)
{
        static char text[2 * JOURNAL_LINE];
        struct json_object *o;

        assert_non_null(fgets(text, sizeof(text), f));
        o = json_tokener_parse(text);
        assert_non_null(o);
        return o;
}

/* Through a file, as the target has it. */
static void write_one(const struct trace_record *r)
{
        char path[] = "/tmp/test_command_trace.XXXXXX", error[200] = "";
        struct journal *j;
        FILE *f;

        close(mkstemp(path));
        j = command_trace_open(path, 0, 1, error, sizeof(error));
        assert_non_null(j);
        command_trace_add(j, r);
        assert_int_equal(journal_close(j), 0);
        f = fopen(path, "r");
        head = read_line(f);
        line = read_line(f);
        assert_int_equal(fgetc(f), EOF);
        fclose(f);
        unlink(path);
}

static int forget(void **state)
{
        (void)state;
        json_object_put(head);
        json_object_put(line);
        head = line = NULL;
        return 0;
}

static struct json_object *member(struct json_object *of, const char *name)
{
        struct json_object *v = NULL;

        if (!json_object_object_get_ex(of, name, &v))
                fail_msg("%s is missing: %s", name, json_object_to_json_string(of));
        return v;
}

static void is_number(const char *name, uint64_t n)
{
        assert_int_equal(json_object_get_uint64(member(line, name)), n);
}

static void is_text(const char *name, const char *text)
{
        assert_string_equal(json_object_get_string(member(line, name)), text);
}

static bool has(const char *name)
{
        return json_object_object_get_ex(line, name, NULL);
}

static void is_state(unsigned i, const char *name, uint64_t at)
{
        struct json_object *s = json_object_array_get_idx(member(line, "states"), i);

        assert_string_equal(json_object_get_string(member(s, "state")), name);
        assert_int_equal(json_object_get_uint64(member(s, "at")), at);
}

static struct trace_record a_read(void)
{
        struct trace_record r = {
                .sqe = { .opc = NVME_READ,
                         .cid = le16(77),
                         .nsid = le32(3),
                         .cdw10 = le32(0x10),
                         .cdw11 = le32(1),
                         .cdw12 = le32(7) },
                .conn = 5,
                .qid = 2,
                .cntlid = 9,
                .bytes = 4096,
                .xfer = XFER_C2H,
                .status = NVME_INVALID_FIELD | STATUS_DNR,
                .rdma = true,
                .ended = true,
                .answered = true,
                .hostnqn = "nqn.host",
                .subnqn = "nqn.sub",
        };

        trace_times_begin(&r.times, 1790000000123456789, 1000);
        trace_times_enter(&r.times, REQUEST_EXECUTING, 1500);
        trace_times_enter(&r.times, REQUEST_COMPLETED, 4000);
        return r;
}

static void test_a_read(void **state)
{
        struct trace_record r = a_read();

        (void)state;
        write_one(&r);
        assert_int_equal(json_object_get_int(member(head, "nvmfspec_trace")), 1);
        assert_int_equal(json_object_get_int(member(head, "part")), 0);
        is_number("time", 1790000000123456789);
        is_number("conn", 5);
        is_text("transport", "rdma");
        is_text("hostnqn", "nqn.host");
        is_text("subnqn", "nqn.sub");
        is_number("cntlid", 9);
        is_number("qid", 2);
        is_number("cid", 77);
        is_text("opcode", "Read");
        is_number("opc", 2);
        is_number("nsid", 3);
        is_number("slba", 0x100000010);
        is_number("nlb", 8);
        is_number("bytes", 4096);
        is_text("data", "c2h");
        is_text("status", "0/02h");
        is_text("status_text", "Invalid Field in Command");
        assert_true(json_object_get_boolean(member(line, "dnr")));
        assert_false(has("ended"));
        assert_int_equal(json_object_array_length(member(line, "states")), 3);
        is_state(0, "new", 0);
        is_state(1, "executing", 500);
        is_state(2, "completed", 3000);
}

static void test_without_an_answer(void **state)
{
        struct trace_record r = a_read();

        (void)state;
        r.answered = r.ended = r.rdma = false;
        r.hostnqn[0] = r.subnqn[0] = '\0';
        write_one(&r);
        assert_null(member(line, "status"));
        assert_false(has("status_text") || has("dnr") || has("hostnqn") || has("cntlid"));
        assert_false(json_object_get_boolean(member(line, "ended")));
        is_text("transport", "tcp");
}

/* Of an admin or a Fabrics command the dwords are no blocks. */
static void test_where_there_are_no_blocks(void **state)
{
        struct trace_record r = a_read();

        (void)state;
        r.qid = 0;
        write_one(&r);
        is_text("opcode", "Get Log Page");
        assert_false(has("slba") || has("nlb"));
        forget(NULL);
        r.sqe.opc = NVME_FABRICS;
        r.sqe.fctype = FCTYPE_CONNECT;
        r.qid = 1;
        write_one(&r);
        is_text("opcode", "Connect");
        is_number("fctype", FCTYPE_CONNECT);
        assert_false(has("slba") || has("nsid"));
        forget(NULL);
        r.sqe.opc = NVME_FLUSH;
        r.sqe.nsid = le32(3); /* FCTYPE lies there */
        write_one(&r);
        assert_false(has("slba"));
        is_number("nsid", 3);
}

/* Whatever a host calls itself, and whatever numbers there are, it is a line of JSON. */
static void test_the_longest_line(void **state)
{
        struct trace_record r;

        (void)state;
        memset(&r, 0xff, sizeof(r));
        r.sqe.opc = NVME_WRITE;
        r.xfer = XFER_H2C;
        r.qid = 0xffff;
        r.rdma = r.ended = r.answered = true;
        memset(r.hostnqn, '\x9b', NQN_MAX);
        memset(r.subnqn, '"', NQN_MAX);
        r.hostnqn[NQN_MAX] = r.subnqn[NQN_MAX] = '\0';
        strcpy(r.hostnqn, "\\\n\x1b");
        trace_times_begin(&r.times, INT64_MAX, 0);
        for (unsigned i = 1; i < TRACE_STATES; i++)
                trace_times_enter(&r.times, REQUEST_TRANSFERRING_H2C, UINT64_MAX);
        write_one(&r);
        is_text("hostnqn", "\\\n\x1b");
        assert_int_equal(strlen(json_object_get_string(member(line, "subnqn"))), NQN_MAX);
        is_number("slba", UINT64_MAX);
        is_number("nlb", 65536);
        forget(NULL);
        memset(r.hostnqn, '\x9b', NQN_MAX);
        write_one(&r);
        assert_int_equal(json_object_array_length(member(line, "states")), TRACE_STATES);
}

static void test_more_states_than_there_is_room_for(void **state)
{
        struct trace_record r = a_read();

        (void)state;
        for (unsigned i = 0; i < 2 * TRACE_STATES; i++)
                trace_times_enter(&r.times, REQUEST_H2C_PENDING, 5000 + i);
        trace_times_enter(&r.times, REQUEST_COMPLETED, 9000);
        write_one(&r);
        assert_int_equal(json_object_array_length(member(line, "states")), TRACE_STATES);
        is_state(0, "new", 0);
        is_state(TRACE_STATES - 1, "completed", 8000);
}

/* Bytes are those that have moved. */
static void test_bytes(void **state)
{
        struct request r = { .xfer = XFER_H2C, .len = 8192, .wire_len = 8192 };
        struct trace_times t;

        (void)state;
        trace_times_begin(&t, 0, 0);
        assert_int_equal(trace_times_bytes(&t, &r), 0);
        r.in_place = true;
        assert_int_equal(trace_times_bytes(&t, &r), 8192);
        r.in_place = false;
        trace_times_enter(&t, REQUEST_TRANSFERRING_H2C, 5);
        assert_int_equal(trace_times_bytes(&t, &r), 8192);
        r.xfer = XFER_C2H;
        r.c2h_len = 512;
        assert_int_equal(trace_times_bytes(&t, &r), 512);
        r.xfer = XFER_NONE;
        assert_int_equal(trace_times_bytes(&t, &r), 0);
}

static void test_a_line_that_does_not_fit(void **state)
{
        struct trace_record r = a_read();
        char text[100];

        (void)state;
        assert_int_equal(command_trace_line(&r, sizeof(r), text, sizeof(text)), 0);
}

#define EACH(test) cmocka_unit_test_teardown(test, forget)

int main(void)
{
        const struct CMUnitTest tests[] = {
                EACH(test_a_read),
                EACH(test_without_an_answer),
                EACH(test_where_there_are_no_blocks),
                EACH(test_the_longest_line),
                EACH(test_more_states_than_there_is_room_for),
                EACH(test_bytes),
                EACH(test_a_line_that_does_not_fit),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Captures of SRP over RoCEv2, written from the sessions that the channel is tested with: correct ones
 * are shown and break nothing, and each rule that an IU can break is found in one.
 */
#include "srp_capture.h"

#include <json-c/json.h>

/* --- checking --------------------------------------------------------------------------------- */

static void test_correct_sessions(void **state)
{
        (void)state;
        begin();
        for (int i = 0; i < SESSIONS; i++) {
                sessions[i](&session);
                write_session(session.n, -1);
        }
        end();
        check(NULL);
        assert_found(RULE_NONE);
        assert_non_null(strstr(out, "\"connections\":3,\"gaps\":0"));
}

static void test_each_rule(void **state)
{
        (void)state;
        for (unsigned rule = 1; rule < SRP_RULES; rule++) {
                struct rule_set waived[2] = { 0 }; /* of NVMe and of SRP */

                rule_add(&waived[1], rule);
                for (int i = 0; i < SESSIONS; i++) {
                        bool twice = false;
                        int at;

                        sessions[i](&session);
                        at = session_spoil(&session, (enum srp_rule)rule, &twice);
                        if (at < 0)
                                continue;
                        begin();
                        write_session((unsigned)at + 1, twice ? at : -1);
                        end();
                        check(NULL);
                        assert_found(rule);
                        check(waived);
                        assert_found(RULE_NONE);
                }
        }
}

/* Those that no single IU breaks. */
static void test_limit_and_memory(void **state)
{
        (void)state;
        begin();
        session_of_one_channel(&session);
        session.n = 2;
        for (unsigned i = 0; i < 9; i++)
                (void)say_cmd(&session, i, 0);
        write_session(session.n, -1);
        end();
        check(NULL);
        assert_found(SRP_LIMIT_OVERRUN);
        begin();
        session_of_one_channel(&session);
        session.n = 3;
        say_transfer(&session, true, 0x10001, 0x11, 36);
        write_session(session.n, -1);
        end();
        check(NULL);
        assert_found(SRP_TRANSFER);
        assert_non_null(strstr(out, "RDMA WRITE 36 bytes at 10001h key 00000011h"));
}

/* A LUN reset on one channel of a nexus, and the commands that it ends on another. */
static void test_a_reset_on_another_channel(void **state)
{
        struct capture_rdma first;
        struct session other;

        (void)state;
        for (int nexus = 0; nexus < 2; nexus++) {
                begin();
                session_of_one_channel(&session);
                session.n = 2;
                (void)say_cmd(&session, 1, 0);
                write_session(3, -1);
                first = flow;
                other = session;
                session_of_one_channel(&session);
                session.says[0].p[32] ^= (uint8_t)nexus;
                session.n = 2;
                say_tsk_mgmt(&session, 7, SRP_TM_LUN_RESET, 0);
                say_rsp(&session, 7, SRP_RSPVALID);
                write_session(4, -1);
                flow = first;
                write_one(&other.says[2]);
                write_end();
                end();
                check(NULL);
                assert_found(nexus ? SRP_TAG_UNIQUE : RULE_NONE);
        }
}

static void test_a_lost_frame_is_nobodys_fault(void **state)
{
        (void)state;
        for (unsigned lost = 2; lost < 40; lost++) {
                begin();
                session_of_one_channel(&session);
                flow = (struct capture_rdma) { 0 };
                capture_rdma_open(writer, &flow, NULL, NULL, now);
                for (unsigned i = 0; i < session.n; i++)
                        if (i != lost)
                                write_one(&session.says[i]);
                        else if (session.says[i].kind == SAY_IU)
                                capture_rdma_gap(&flow, session.says[i].sender, 1);
                write_end();
                end();
                check(NULL);
                assert_found(RULE_NONE);
        }
}

/* --- the Linux kernel's initiator and target ---------------------------------------------------- */

static const char *const kernel[] = { "pcap/tests/captures/srp-rxe-6.12.pcap",
                                      "pcap/tests/captures/srp-tables-rxe-6.12.pcap" };

static void test_kernel_traffic(void **state)
{
        struct capfile c;

        (void)state;
        for (int i = 0; i < 2; i++) {
                cap_load(&c, kernel[i]);
                cap_write_bytes(path, c.bytes, c.len);
                cap_free(&c);
                check(NULL);
                assert_found(RULE_NONE);
                assert_non_null(strstr(out, "\"connections\":2,\"gaps\":0"));
        }
}

/* Whatever the capture lost, nothing is found that counts; what may be due to it may be told. */
static void test_kernel_traffic_with_losses(void **state)
{
        uint64_t seed = 1;
        struct capfile c;

        (void)state;
        for (unsigned round = 0; round < 400; round++) {
                cap_load(&c, kernel[round % 2]);
                (void)cap_write_lossy(&c, path, 4 + round % 40, &seed);
                cap_free(&c);
                check(NULL);
                if (count_of("\"proven\":true") > 0)
                        fail_msg("round %u: %s", round, out);
        }
}

/* By the operation of the BTH, where the packet has one. */
static bool is_management(const struct capfile *c, unsigned packet)
{
        size_t bth = c->at[packet] + CAP_PACKET_HEAD + 14 + 20 + 8;

        return bth < c->at[packet + 1] && c->bytes[bth] == 0x64;
}

/* Without connection management nobody knows that it is SRP; it is nothing else, either. */
static void test_kernel_traffic_without_management(void **state)
{
        struct capfile c;

        (void)state;
        for (int i = 0; i < 2; i++) {
                FILE *f = fopen(path, "wb");

                assert_non_null(f);
                cap_load(&c, kernel[i]);
                fwrite(c.bytes, 1, CAP_HEAD, f);
                for (unsigned j = 0; j < c.packets; j++)
                        if (!is_management(&c, j))
                                fwrite(c.bytes + c.at[j], 1, c.at[j + 1] - c.at[j], f);
                assert_int_equal(fclose(f), 0);
                cap_free(&c);
                check(NULL);
                assert_found(RULE_NONE);
                assert_non_null(strstr(out, "\"connections\":0"));
        }
}

/* One byte of a response of the kernel's target, the tag, is another one. */
static void test_kernel_traffic_spoilt(void **state)
{
        struct capfile c;

        (void)state;
        cap_load(&c, kernel[0]);
        for (unsigned i = 0; i < c.packets; i++) {
                uint8_t *bth = c.bytes + c.at[i] + CAP_PACKET_HEAD + 14 + 20 + 8;

                if (c.at[i + 1] - c.at[i] > CAP_PACKET_HEAD + 42 + 12 + 36 && bth[0] == 4 &&
                    bth[12] == SRP_RSP) {
                        bth[12 + 15] ^= 0x80;
                        break;
                }
        }
        cap_write_bytes(path, c.bytes, c.len);
        cap_free(&c);
        check(NULL);
        assert_int_equal(count_of("\"rule\":\"srp/tag/response\""), 1);
        assert_int_equal(count_of("\"proven\":true"), count_of("\"rule\":"));
}

/* --- the tools -------------------------------------------------------------------------------- */

static void write_broken(void)
{
        bool twice;
        int at;

        begin();
        session_of_one_channel(&session);
        at = session_spoil(&session, SRP_TAG_RESPONSE, &twice);
        write_session((unsigned)at + 1, -1);
        end();
}

static void test_check_prints_it(void **state)
{
        (void)state;
        write_broken();
        assert_int_equal(RUN("check", path), PCAP_BROKEN);
        assert_non_null(
            strstr(out, "target must srp/tag/response: SRP_RSP has the tag of a request"));
        assert_non_null(strstr(out, ", SRP on a port of NVMe)\n"));
        assert_non_null(strstr(out, "  < SRP_RSP tag 4001h req_lim_delta 1 status GOOD\n"));
        assert_int_equal(RUN("check", path, "-o", "json"), PCAP_BROKEN);
        assert_non_null(strstr(out, "\"protocol\":\"SRP\",\"sender\":\"target\""));
        assert_int_equal(RUN("check", path, "--waive", "srp/tag/response"), PCAP_OK);
        assert_int_equal(RUN("check", path, "--conn", "1"), PCAP_BROKEN);
        assert_int_equal(RUN("check", path, "--conn", "2"), PCAP_USAGE);
        assert_int_equal(RUN("check", path, "--qid", "1"), PCAP_USAGE);
        assert_int_equal(RUN("check", path, "--waive", "srp/none"), PCAP_USAGE);
}

static void test_show(void **state)
{
        static const char *const lines[] = {
                "SRP on a port of NVMe\n",
                "> REQUEST SRP_LOGIN_REQ tag 1122334455667788h req_it_iu_len 8260 req_buf_fmt 6h",
                "< ACCEPT SRP_LOGIN_RSP tag 1122334455667788h req_lim_delta 8 max_it_iu_len 8260",
                "> READY\n",
                "> SRP_CMD tag 1h lun 1 INQUIRY in 36 direct\n",
                "> SRP_CMD tag 2h lun 1 READ(10) in 8192 indirect, 2 of 2 entries in line\n",
                "< RDMA WRITE 4096 bytes at 30000h key 00000033h\n",
                "< RDMA READ 512 bytes at 50000h key 00000055h\n",
                "> SRP_TSK_MGMT tag 8h function abort task lun 1\n",
                "< SRP_RSP tag 8h req_lim_delta 1 status GOOD response code 0\n",
                "< SRP_T_LOGOUT tag 66h reason no reason\n",
                "< REJECT SRP_LOGIN_REJ tag 1122334455667788h reason 10003h (cannot associate",
                "> SRP_CMD tag 1h lun 1 WRITE(10) out 512 immediate\n",
        };

        (void)state;
        begin();
        for (int i = 0; i < SESSIONS; i++) {
                sessions[i](&session);
                write_session(session.n, -1);
        }
        end();
        assert_int_equal(RUN("show", path), PCAP_OK);
        for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
                if (!strstr(out, lines[i]))
                        fail_msg("no '%s' in\n%s", lines[i], out);
        assert_null(strstr(out, "!"));
        assert_int_equal(RUN("show", path, "-v", "--conn", "2"), PCAP_OK);
        assert_non_null(strstr(out, "initiator_port_id : 74686520696e69746961746f72277300"));
        assert_null(strstr(out, "READ(10)"));
        assert_int_equal(RUN("show", path, "--violations"), PCAP_OK);
        assert_string_equal(out, "");
        assert_int_equal(RUN("show", path, "--opcode", "read"), PCAP_OK);
        assert_string_equal(out, "");
        assert_int_equal(RUN("show", path, "--qid", "0"), PCAP_USAGE);
        assert_int_equal(RUN("show", path, "--count"), PCAP_OK);
}

/* A line of JSON for each line of text, each an object with its fields. */
static void test_show_json(void **state)
{
        unsigned n = 0, broken = 0;

        (void)state;
        write_broken();
        assert_int_equal(RUN("show", path, "-o", "json"), PCAP_OK);
        for (char *line = strtok(out, "\n"); line; line = strtok(NULL, "\n"), n++) {
                struct json_object *o = json_tokener_parse(line), *v;

                assert_non_null(o);
                assert_true(json_object_object_get_ex(o, "protocol", &v));
                assert_string_equal(json_object_get_string(v), "SRP");
                assert_true(json_object_object_get_ex(o, "fields", &v));
                assert_true(json_object_object_get_ex(o, "state", &v));
                broken += json_object_object_get_ex(o, "broken", &v) ? 1 : 0;
                json_object_put(o);
        }
        assert_int_equal(broken, 1);
        assert_true(n > 7);
        assert_int_equal(RUN("show", path), PCAP_OK);
        assert_int_equal(count_of("\n        ! target must srp/tag/response"), 1);
        assert_int_equal(count_of("\n") - 1, n);
}

/* Of each request to its response; one whose task was aborted has none, and a table of descriptors is no data. */
static void test_stat(void **state)
{
        static const char *const parts[] = {
                "\"commands\":9,\"completed\":8,\"errors\":1,\"unanswered\":1,\"depth_max\":2",
                "\"command\":\"abort task\",\"io\":false,\"count\":1,\"errors\":0,",
                "\"protocol\":\"SRP\",\"command\":\"INQUIRY\",\"io\":true,\"count\":1,\"errors\":0,"
                "\"h2c_bytes\":0,\"c2h_bytes\":0,\"whole_ns\":{\"count\":1,\"min\":2000,",
                "\"command\":\"READ(10)\",\"io\":true,\"count\":2,\"errors\":0,\"h2c_bytes\":0,"
                "\"c2h_bytes\":8192,",
                "\"command\":\"WRITE(10)\",\"io\":true,\"count\":1,\"errors\":1,\"h2c_bytes\":512,",
        };
        const char *immediate = "\"command\":\"WRITE(10)\",\"io\":true,\"count\":1,\"errors\":0,"
                                "\"h2c_bytes\":512,";

        (void)state;
        for (int i = 0; i < 2; i++) {
                sessions[i](&session);
                begin();
                write_session(session.n, -1);
                end();
                assert_int_equal(RUN("stat", path, "-o", "json"), PCAP_OK);
                for (size_t j = 0; i == 0 && j < sizeof(parts) / sizeof(parts[0]); j++)
                        if (!strstr(out, parts[j]))
                                fail_msg("no '%s' in\n%s", parts[j], out);
                assert_int_equal(strstr(out, immediate) != NULL, i == 1);
        }
        assert_int_equal(RUN("stat", path), PCAP_OK);
        assert_non_null(strstr(out, "\nSRP commands: latency in us "));
        assert_null(strstr(out, "queues: latency"));
}

/* The kernel's traffic of NVMe/TCP and of SRP in one file. */
static void write_two_families(void)
{
        FILE *f = fopen(path, "wb");
        struct capfile c;

        assert_non_null(f);
        cap_load(&c, captures[0]);
        fwrite(c.bytes, 1, c.len, f);
        cap_free(&c);
        cap_load(&c, kernel[0]);
        fwrite(c.bytes + CAP_HEAD, 1, c.len - CAP_HEAD, f);
        cap_free(&c);
        assert_int_equal(fclose(f), 0);
}

/* Each is shown and judged by its own family, and filters ask for any of them. */
static void test_two_families_in_one_file(void **state)
{
        unsigned of_srp, of_both;

        (void)state;
        write_two_families();
        assert_int_equal(RUN("show", path), PCAP_OK);
        of_both = count_of("\n") - count_of("        ! ");
        assert_true(count_of(" CapsuleCmd ") > 0 && count_of(" SRP_CMD ") > 0);
        assert_true(count_of("tcp/capsule/cqe-reserved") > 0 &&
                    count_of("! target must srp/") == 0);
        assert_int_equal(RUN("show", path, "-o", "json"), PCAP_OK);
        assert_int_equal(count_of("\n"), of_both);
        of_srp = count_of("\"protocol\":\"SRP\"");
        assert_in_range(of_srp, 100, of_both - 100);
        assert_int_equal(RUN("show", path, "--opcode", "inquiry"), PCAP_OK);
        assert_true(count_of(" SRP_CMD ") > 0 && count_of(" SRP_RSP ") == count_of(" SRP_CMD "));
        assert_int_equal(count_of(" INQUIRY "), count_of(" SRP_CMD "));
        assert_int_equal(count_of("Capsule"), 0);
        assert_int_equal(RUN("show", path, "--status", "error"), PCAP_OK);
        assert_int_equal(count_of("\n") - count_of("        ! "),
                         count_of(" CapsuleResp ") + count_of(" SRP_RSP "));
        assert_true(count_of("status CHECK CONDITION") > 0 && count_of("status GOOD") == 0);
        assert_int_equal(RUN("show", path, "--opcode", "no such command"), PCAP_USAGE);
        assert_int_equal(RUN("show", path, "--count"), PCAP_OK);
        assert_true(strstr(out, "  CapsuleCmd ") && strstr(out, "  SRP_CMD "));
        assert_true(strstr(out, "  Connect ") && strstr(out, "  INQUIRY "));
        assert_true(strstr(out, "  0/00h ") && strstr(out, "  00h GOOD "));
        assert_int_equal(RUN("stat", path), PCAP_OK);
        assert_true(strstr(out, "\nI/O queues: ") && strstr(out, "\nSRP commands: "));
        assert_true(strstr(out, "\n02h CHECK CONDITION ") && strstr(out, ", SRP "));
        assert_int_equal(RUN("stat", path, "--qid", "1"), PCAP_OK);
        assert_null(strstr(out, "SRP"));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_correct_sessions),
                cmocka_unit_test(test_each_rule),
                cmocka_unit_test(test_limit_and_memory),
                cmocka_unit_test(test_a_reset_on_another_channel),
                cmocka_unit_test(test_a_lost_frame_is_nobodys_fault),
                cmocka_unit_test(test_kernel_traffic),
                cmocka_unit_test(test_kernel_traffic_with_losses),
                cmocka_unit_test(test_kernel_traffic_without_management),
                cmocka_unit_test(test_kernel_traffic_spoilt),
                cmocka_unit_test(test_check_prints_it),
                cmocka_unit_test(test_show),
                cmocka_unit_test(test_show_json),
                cmocka_unit_test(test_stat),
                cmocka_unit_test(test_two_families_in_one_file),
        };

        return cmocka_run_group_tests(tests, set_up, tear_down);
}

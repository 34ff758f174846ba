/* SPDX-License-Identifier: BSD-3-Clause */
/* The SRP target over RDMA in memory: logins, data in each form, residuals, and initiators that do wrong. */
#include "srp_fixture.h"

#include <unistd.h>

#include "pdu/srp/machine/channel.h"
#include "pdu/srp/machine/spoil.h"

/* --- logging in ------------------------------------------------------------------------------- */

static void test_login(void **state)
{
        struct fixture f = start();
        struct srp_peer *p = login(&f, (struct srp_peer_options) { 0 });

        (void)state;
        assert_int_equal(be64_get(p->rsp.tag), 77);
        assert_int_equal(be32_get(p->rsp.req_lim_delta), 64);
        assert_int_equal(be32_get(p->rsp.max_it_iu_len), 8260);
        assert_int_equal(be32_get(p->rsp.max_ti_iu_len), 64);
        assert_int_equal(be16_get(p->rsp.buf_fmt), SRP_FORMAT_DIRECT | SRP_FORMAT_INDIRECT);
        assert_int_equal(p->rsp.rsp_flags, SRP_RESULT_NONE);
        attend(p);
        is_good(run_cdb(p, 0, (uint8_t[]) { SCSI_TEST_UNIT_READY }, 1));
        peer_close(p);
        stop(&f);
}

static void test_login_as_an_iu(void **state)
{
        struct memory_caps caps;
        struct srp_peer *p;
        struct fixture f;

        (void)state;
        memory_caps_default(&caps);
        caps.no_padding = true;
        f = start_on(&caps, (struct srp_options) { 0 });
        p = login(&f, (struct srp_peer_options) { .native = true, .flags = SRP_IMMEDIATE });
        assert_int_equal(p->rsp.rsp_flags, SRP_RESULT_NONE | SRP_IMMEDIATE);
        attend(p);
        peer_close(p);
        stop(&f);
}

static void rejects(struct fixture *f, struct srp_peer_options o, uint32_t reason)
{
        struct srp_peer *p = try_login(f, o);

        assert_true(p->rejected);
        assert_false(p->established);
        assert_int_equal(be32_get(p->rej.reason), reason);
        if (!o.data)
                assert_int_equal(be64_get(p->rej.tag), 77);
        peer_close(p);
}

static void test_each_reject_reason(void **state)
{
        struct srp_options one = { .channels = 1, .id = "another target" }, two = { .channels = 2 };
        struct srp_peer *p, *q;
        struct memory_caps caps;
        struct fixture f;

        (void)state;
        memory_caps_default(&caps);
        caps.no_padding = true;
        f = start_on(&caps, two);
        rejects(&f, (struct srp_peer_options) { .flags = 2 }, SRP_REJECT_FIRST);
        rejects(&f, (struct srp_peer_options) { .data = "too short", .len = 9 }, SRP_REJECT_FIRST);
        rejects(&f, (struct srp_peer_options) { .data = "", .len = 0 }, SRP_REJECT_FIRST);
        rejects(&f, (struct srp_peer_options) { .it_iu = 63 }, SRP_REJECT_IU_LENGTH);
        rejects(&f, (struct srp_peer_options) { .it_iu = 8261 }, SRP_REJECT_IU_LENGTH);
        rejects(&f, (struct srp_peer_options) { .formats = 0x0106 }, SRP_REJECT_FORMATS);
        p = login(&f, (struct srp_peer_options) { .flags = SRP_ACTION_MULTI });
        q = login(&f, (struct srp_peer_options) { .flags = SRP_ACTION_MULTI });
        rejects(&f, (struct srp_peer_options) { .flags = SRP_ACTION_MULTI }, SRP_REJECT_CHANNELS);
        srp_server_disable(f.s);
        rejects(&f, (struct srp_peer_options) { .initiator = 1 }, SRP_REJECT_RESOURCES);
        peer_close(p);
        peer_close(q);
        stop(&f);
        f = start_on(NULL, one);
        rejects(&f, (struct srp_peer_options) { 0 }, SRP_REJECT_NEXUS);
        stop(&f);
        one = (struct srp_options) { .channels = 1 };
        f = start_on(NULL, one);
        rejects(&f, (struct srp_peer_options) { .flags = SRP_ACTION_MULTI }, SRP_REJECT_MULTI);
        stop(&f);
}

static void test_channels_of_a_nexus(void **state)
{
        struct fixture f = start();
        struct srp_peer *a = login(&f, (struct srp_peer_options) { 0 });
        struct srp_peer *b = login(&f, (struct srp_peer_options) { .flags = SRP_ACTION_MULTI });
        struct srp_peer *other = login(&f, (struct srp_peer_options) { .initiator = 1 });

        (void)state;
        assert_int_equal(a->rsp.rsp_flags, SRP_RESULT_NONE);
        assert_int_equal(b->rsp.rsp_flags, SRP_RESULT_MAINTAINED);
        assert_int_equal(other->rsp.rsp_flags, SRP_RESULT_NONE);
        attend(a);
        is_good(run_cdb(b, 0, (uint8_t[]) { SCSI_TEST_UNIT_READY }, 1)); /* one nexus was told */
        attend(other);
        peer_close(a);
        peer_close(b);
        peer_close(other);
        stop(&f);
}

/* The older channels are told why, and end; another initiator's stay. */
static void test_relogin(void **state)
{
        struct fixture f = start_on(NULL, (struct srp_options) { .reactors = 2 });
        struct srp_peer *a = login(&f, (struct srp_peer_options) { 0 });
        struct srp_peer *b = login(&f, (struct srp_peer_options) { .flags = SRP_ACTION_MULTI });
        struct srp_peer *other = login(&f, (struct srp_peer_options) { .initiator = 1 });
        struct srp_peer *again = login(&f, (struct srp_peer_options) { 0 }), *older[] = { a, b };

        (void)state;
        assert_int_equal(again->rsp.rsp_flags, SRP_RESULT_TERMINATED);
        for (unsigned i = 0; i < 2; i++) {
                const struct srp_got *g = peer_next(older[i]);

                assert_non_null(g);
                assert_int_equal(g->p[0], SRP_T_LOGOUT);
                assert_int_equal(be_get(g->p + 4, 4), 4);
                assert_true(peer_closed(older[i]));
                peer_close(older[i]);
        }
        attend(other);
        is_good(run_cdb(other, 0, (uint8_t[]) { SCSI_TEST_UNIT_READY }, 1));
        peer_close(again);
        peer_close(other);
        stop(&f);
}

static void test_logouts(void **state)
{
        static const struct srp_logout logout = { .opcode = SRP_I_LOGOUT };
        struct fixture f = start();
        struct srp_peer *p = login(&f, (struct srp_peer_options) { 0 }), *q;
        const struct srp_got *g;

        (void)state;
        peer_send(p, &logout, sizeof(logout));
        assert_true(peer_closed(p));
        assert_int_equal(p->got_n, 0);
        peer_close(p);
        q = login(&f, (struct srp_peer_options) { 0 });
        verbs_disconnect(q->ep); /* without SRP_I_LOGOUT, as Linux */
        assert_true(peer_closed(q));
        peer_close(q);
        q = login(&f, (struct srp_peer_options) { 0 });
        assert_int_equal(q->rsp.rsp_flags, SRP_RESULT_NONE);
        attend(q); /* the target knows that it is established */
        srp_server_disable(f.s);
        g = peer_next(q);
        assert_non_null(g);
        assert_int_equal(g->p[0], SRP_T_LOGOUT);
        assert_int_equal(be_get(g->p + 4, 4), 0);
        assert_true(peer_closed(q));
        peer_close(q);
        stop(&f);
}

/* --- data ------------------------------------------------------------------------------------- */

enum form { DIRECT, INDIRECT, EXTERNAL, IMMEDIATE };

/* `len` bytes of the arena from `at` on. */
static void describe(struct srp_peer *p, struct peer_cmd *c, bool out, enum form form, size_t at,
                     uint32_t len)
{
        enum { PIECES = 7, TABLE_AT = 1 << 20 };
        struct srp_desc list[PIECES];
        uint32_t each = len / PIECES;

        for (unsigned i = 0; i < PIECES; i++) {
                list[i] = peer_desc(p, at + i * each, i + 1 < PIECES ? each : len - i * each);
                srp_desc_put(p->arena + TABLE_AT + i * SRP_DESC_LEN, &list[i]);
        }
        if (form == DIRECT)
                cmd_direct(c, out, peer_desc(p, at, len));
        else if (form == IMMEDIATE)
                cmd_immediate(c, p->arena + at, len);
        else
                cmd_indirect(c, out, peer_desc(p, TABLE_AT, sizeof(list)), len, list,
                             form == INDIRECT ? PIECES : 1);
}

static void write_and_read(struct srp_peer *p, enum form form, uint32_t blocks, uint32_t block)
{
        uint32_t len = blocks * 512;
        struct peer_cmd c;

        for (uint32_t i = 0; i < len; i++)
                p->arena[i] = (uint8_t)(i * 7 + block + (i >> 9) + form);
        memset(p->arena + (512 << 10), 0, len);
        cmd_rw(&c, p->tag++, 0, true, block, (uint16_t)blocks);
        describe(p, &c, true, form, 0, len);
        is_good(run(p, &c));
        cmd_rw(&c, p->tag++, 0, false, block, (uint16_t)blocks);
        describe(p, &c, false, form == IMMEDIATE ? DIRECT : form, 512 << 10, len);
        is_good(run(p, &c));
        assert_memory_equal(p->arena, p->arena + (512 << 10), len);
}

static void all_forms(struct fixture *f, struct srp_peer_options o)
{
        static const uint32_t sizes[] = { 1, 2, 16, 255, 1024 };
        struct srp_peer *p;

        o.flags |= SRP_IMMEDIATE;
        p = login(f, o);
        assert_true(p->rsp.rsp_flags & SRP_IMMEDIATE);
        attend(p);
        for (unsigned i = 0; i < COUNT(sizes); i++)
                for (enum form form = DIRECT; form < IMMEDIATE; form++)
                        write_and_read(p, form, sizes[i], i * 3 + 1);
        write_and_read(p, IMMEDIATE, 1, 3);
        write_and_read(p, IMMEDIATE, 16, 9); /* 8,260 bytes: what Linux asks for */
        peer_close(p);
}

static void test_each_form(void **state)
{
        struct fixture f = start();

        (void)state;
        all_forms(&f, (struct srp_peer_options) { 0 });
        all_forms(&f, (struct srp_peer_options) { .reads = 1, .initiator = 1 });
        stop(&f);
}

static void test_device_without_srq_or_inline(void **state)
{
        struct memory_caps caps;
        struct fixture f;

        (void)state;
        memory_caps_default(&caps);
        caps.device.srq_wrs = 0;
        caps.device.inline_bytes = 0;
        f = start_on(&caps, (struct srp_options) { 0 });
        all_forms(&f, (struct srp_peer_options) { 0 });
        stop(&f);
}

static void test_slow_rdma(void **state)
{
        (void)state;
        for (uint32_t seed = 1; seed <= 5; seed++) {
                struct fixture f = start_over(verbs_memory_new_slow(NULL, seed),
                                              (struct srp_options) { .reactors = 2 });

                all_forms(&f, (struct srp_peer_options) { .reads = 2 });
                stop(&f);
        }
}

/* Who answers no READs can still read, and write immediate data. */
static void test_no_reads(void **state)
{
        struct fixture f = start();
        struct srp_peer *p =
            login(&f, (struct srp_peer_options) { .no_reads = true, .flags = SRP_IMMEDIATE });
        struct peer_cmd c;

        (void)state;
        attend(p);
        cmd_rw(&c, p->tag++, 0, true, 0, 1);
        describe(p, &c, true, DIRECT, 0, 512);
        has_sense(run(p, &c), SCSI_ABORTED_COMMAND, SCSI_ASC_DATA_PHASE);
        cmd_rw(&c, p->tag++, 0, true, 0, 1);
        describe(p, &c, true, IMMEDIATE, 0, 512);
        is_good(run(p, &c));
        cmd_rw(&c, p->tag++, 0, false, 0, 1);
        describe(p, &c, false, DIRECT, 0, 512);
        is_good(run(p, &c));
        peer_close(p);
        stop(&f);
}

/* Who has no room for a response does not hold the target up forever. */
static void test_stalled(void **state)
{
        struct fixture f = start_on(NULL, (struct srp_options) { .stall_timeout = 200 });
        struct srp_peer *p = login(&f, (struct srp_peer_options) { .no_receives = true });
        struct peer_cmd c;

        (void)state;
        cmd_begin(&c, 1, 0, (uint8_t[]) { SCSI_TEST_UNIT_READY }, 1);
        peer_send(p, c.p, c.n);
        assert_true(peer_closed(p));
        assert_int_equal(p->got_n, 0);
        peer_close(p);
        stop(&f);
}

static void lose_next(struct memory_fabric *f, void *arg)
{
        struct verbs_ep *ep;

        (void)arg;
        for (unsigned i = 0; (ep = memory_ep(f, i)) != NULL; i++)
                if (!memory_connects(ep) && memory_qp_state(ep) != MEMORY_QP_NONE)
                        memory_fail_work(ep, 1, VERBS_RETRY_EXCEEDED);
}

/* Who is silent stays, as long as its device answers; nobody else would say that it has lost its power. */
static void test_silence(void **state)
{
        struct fixture f = start_on(NULL, (struct srp_options) { .probe = 60 });
        struct srp_peer *p = login(&f, (struct srp_peer_options) { 0 });

        (void)state;
        attend(p);
        usleep(500000);
        is_good(run_cdb(p, 0, (uint8_t[]) { SCSI_TEST_UNIT_READY }, 1));
        verbs_memory_do(f.v, lose_next, NULL);
        assert_true(peer_closed(p));
        peer_close(p);
        stop(&f);
}

static void test_additional_cdb(void **state)
{
        struct fixture f = start();
        struct srp_peer *p = login(&f, (struct srp_peer_options) { 0 });
        struct peer_cmd c;

        (void)state;
        attend(p);
        cmd_rw(&c, p->tag++, 0, false, 0, 1);
        c.p[31] = 16; /* 16 bytes that READ(10) has no use for */
        c.n += 16;
        describe(p, &c, false, DIRECT, 0, 512);
        is_good(run(p, &c));
        peer_close(p);
        stop(&f);
}

/* --- residuals -------------------------------------------------------------------------------- */

static void residual(const struct peer_rsp *r, uint8_t flags, uint32_t count)
{
        uint8_t all = SRP_DOOVER | SRP_DOUNDER | SRP_DIOVER | SRP_DIUNDER;
        bool out = flags & (SRP_DOOVER | SRP_DOUNDER);

        assert_int_equal(r->rsp.flags & all, flags);
        assert_int_equal(be32_get(out ? r->rsp.out_residual : r->rsp.in_residual), count);
}

static void test_residuals(void **state)
{
        static const struct {
                bool write;
                uint32_t size;
                uint8_t flags;
                uint32_t count;
        } rows[] = {
                { false, 512, 0, 0 },
                { false, 1024, SRP_DIUNDER, 512 },
                { false, 200, SRP_DIOVER, 312 },
                { false, 0, SRP_DIOVER, 512 },
                { true, 512, 0, 0 },
                { true, 1024, SRP_DOUNDER, 512 },
                { true, 200, SRP_DOOVER, 312 },
                { true, 0, SRP_DOOVER, 512 },
        };
        struct fixture f = start();
        struct srp_peer *p = login(&f, (struct srp_peer_options) { 0 });

        (void)state;
        attend(p);
        for (unsigned i = 0; i < COUNT(rows); i++) {
                struct peer_rsp r;
                struct peer_cmd c;

                memset(p->arena, 0xee, 2048);
                cmd_rw(&c, p->tag++, 0, rows[i].write, 0, 1);
                if (rows[i].size > 0)
                        cmd_direct(&c, rows[i].write, peer_desc(p, 0, rows[i].size));
                r = run(p, &c);
                residual(&r, rows[i].flags, rows[i].count);
                if (rows[i].write && rows[i].size < 512) {
                        has_sense(r, SCSI_ILLEGAL_REQUEST, SCSI_ASC_CDB_FIELD);
                } else {
                        is_good(r);
                        assert_int_equal(p->arena[rows[i].size < 512 ? rows[i].size : 512], 0xee);
                }
        }
        peer_close(p);
        stop(&f);
}

static void test_residual_of_what_fails(void **state)
{
        static const uint8_t unknown[] = { 0x4d }, inquiry[] = { SCSI_INQUIRY, 0, 0, 0, 36 };
        struct fixture f = start();
        struct srp_peer *p = login(&f, (struct srp_peer_options) { 0 });
        struct peer_rsp r;
        struct peer_cmd c;

        (void)state;
        attend(p);
        cmd_begin(&c, p->tag++, 0, unknown, sizeof(unknown));
        cmd_direct(&c, false, peer_desc(p, 0, 100));
        r = run(p, &c);
        has_sense(r, SCSI_ILLEGAL_REQUEST, SCSI_ASC_OPCODE);
        residual(&r, SRP_DIUNDER, 100);
        cmd_begin(&c, p->tag++, 0, inquiry, sizeof(inquiry));
        cmd_direct(&c, false, peer_desc(p, 0, 96));
        r = run(p, &c);
        is_good(r);
        residual(&r, SRP_DIUNDER, 60);
        r = run_cdb(p, 9, (uint8_t[]) { SCSI_TEST_UNIT_READY }, 1);
        has_sense(r, SCSI_ILLEGAL_REQUEST, SCSI_ASC_LUN);
        peer_close(p);
        stop(&f);
}

/* --- descriptors that cannot be --------------------------------------------------------------- */

static void test_bad_descriptors(void **state)
{
        struct fixture f = start();
        struct srp_peer *p = login(&f, (struct srp_peer_options) { 0 });
        struct srp_desc list[2] = { peer_desc(p, 0, 256), peer_desc(p, 256, 100) };
        struct peer_rsp r;
        struct peer_cmd c;

        (void)state;
        attend(p);
        /* the list has less than the total: the command has as little */
        cmd_rw(&c, p->tag++, 0, true, 0, 1);
        cmd_indirect(&c, true, peer_desc(p, 4096, 32), 512, list, 2);
        r = run(p, &c);
        has_sense(r, SCSI_ILLEGAL_REQUEST, SCSI_ASC_CDB_FIELD);
        residual(&r, SRP_DOOVER, 512 - 356);
        /* so has the table that is READ */
        srp_desc_put(p->arena + 4096, &list[0]);
        srp_desc_put(p->arena + 4112, &list[1]);
        cmd_rw(&c, p->tag++, 0, true, 0, 1);
        cmd_indirect(&c, true, peer_desc(p, 4096, 32), 512, list, 1);
        has_sense(run(p, &c), SCSI_ABORTED_COMMAND, SCSI_ASC_DATA_PHASE);
        /* an address that goes round the end of all memory */
        cmd_rw(&c, p->tag++, 0, true, 0, 1);
        cmd_direct(&c, true, (struct srp_desc) { UINT64_MAX - 10, p->mr.rkey, 512 });
        has_sense(run(p, &c), SCSI_ABORTED_COMMAND, SCSI_ASC_DATA_PHASE);
        /* a table that is too long */
        cmd_rw(&c, p->tag++, 0, false, 0, 1);
        cmd_indirect(&c, false, peer_desc(p, 0, 1 << 20), 512, list, 1);
        has_sense(run(p, &c), SCSI_ABORTED_COMMAND, SCSI_ASC_DATA_PHASE);
        is_good(run_cdb(p, 0, (uint8_t[]) { SCSI_TEST_UNIT_READY }, 1));
        /* a key that nobody has given: the queue pair fails */
        cmd_rw(&c, p->tag++, 0, true, 0, 1);
        cmd_direct(&c, true, (struct srp_desc) { 4096, 0x12345, 512 });
        peer_send(p, c.p, c.n);
        assert_true(peer_closed(p));
        peer_close(p);
        stop(&f);
}

/* --- rules ------------------------------------------------------------------------------------ */

/* A command that any violator can work on: a table of two pieces, or immediate data. */
static void say_spoilt(struct srp_peer *p, enum srp_rule rule, bool *fits)
{
        struct rule_set violated = { 0 };
        struct srp_desc list[2] = { peer_desc(p, 0, 256), peer_desc(p, 256, 256) };

        rule_add(&violated, rule);
        *fits = false;
        for (unsigned form = 0; form < 4 && !*fits; form++) {
                struct srp_logout answer = { .opcode = SRP_CRED_RSP, .tag = be64(5) };
                struct srp_spoil s = { .asked = &p->asked };
                struct peer_cmd c;

                cmd_rw(&c, p->tag, 0, true, 0, 1);
                if (form == 0)
                        cmd_indirect(&c, true, peer_desc(p, 4096, 32), 512, list, 2);
                else if (form == 1)
                        cmd_immediate(&c, p->arena, 512);
                else if (form == 2)
                        cmd_direct(&c, true, peer_desc(p, 0, 512));
                s.iu = form == 3 ? (uint8_t *)&answer : c.p;
                s.len = form == 3 ? sizeof(answer) : c.n;
                *fits = srp_spoil(&violated, &s) && !s.twice;
                if (*fits)
                        peer_send(p, s.iu, s.len);
        }
}

/* What has to end the channel does so, unless it is waived. */
static void test_rules_of_initiators(void **state)
{
        unsigned tried = 0;

        (void)state;
        for (unsigned id = 1; id < SRP_RULES; id++) {
                const struct rule *rule = srp_rule_get(id);
                struct srp_options waives = { 0 };

                if (rule->bound != PARTY_HOST || rule->reaction != REACT_CLOSE)
                        continue;
                rule_add(&waives.policy.waived, id);
                for (unsigned waived = 0; waived < 2; waived++) {
                        struct fixture f =
                            start_on(NULL, waived ? waives : (struct srp_options) { 0 });
                        struct srp_peer *p =
                            login(&f, (struct srp_peer_options) { .flags = SRP_IMMEDIATE });
                        const struct srp_got *g;
                        bool fits;

                        attend(p);
                        say_spoilt(p, (enum srp_rule)id, &fits);
                        tried += fits;
                        if (fits && !waived) {
                                g = peer_next(p);
                                if (!g || g->p[0] != SRP_T_LOGOUT)
                                        fail_msg("%s: no logout", rule->id);
                                assert_true(peer_closed(p));
                        } else if (fits) {
                                is_good(run_at_last(p, 9999));
                        }
                        peer_close(p);
                        stop(&f);
                }
        }
        assert_true(tried >= 2 * 7);
}

static void mutate(struct peer_cmd *c, uint64_t *seed)
{
        for (unsigned n = 1 + (unsigned)(random_next(seed) % 4); n > 0; n--)
                c->p[random_next(seed) % 120] = (uint8_t)(random_next(seed) >> 20);
        if (random_next(seed) % 4 == 0)
                c->n = (uint32_t)(random_next(seed) % 200);
        if (random_next(seed) % 2)
                c->p[0] = (uint8_t)srp_info_at((unsigned)(random_next(seed) % 12))->type;
}

/* Whatever is sent: the target is there for the next one, and nothing is left behind. */
static void test_any_bytes(void **state)
{
        struct srp_options waives = { .reactors = 2, .channels = 1 };
        uint64_t seed = 11;

        (void)state;
        for (unsigned id = 1; id < SRP_RULES; id++)
                if (srp_rule_get(id)->bound == PARTY_HOST)
                        rule_add(&waives.policy.waived, id);
        for (unsigned waived = 0; waived < 2; waived++) {
                struct fixture f =
                    start_on(NULL, waived ? waives : (struct srp_options) { .reactors = 2 });
                struct srp_peer *q;

                for (unsigned round = 0; round < 200; round++) {
                        struct srp_peer *p =
                            login(&f, (struct srp_peer_options) { .flags = SRP_IMMEDIATE });
                        struct peer_cmd c;

                        for (unsigned i = 0; i < 8 && !p->failed && !p->disconnected; i++) {
                                cmd_rw(&c, p->tag++, 0, random_next(&seed) % 2, 0, 1);
                                describe(p, &c, c.p[32] == SCSI_WRITE_10,
                                         (enum form)(random_next(&seed) % 3), 0, 512);
                                mutate(&c, &seed);
                                peer_send(p, c.p, c.n);
                                (void)peer_poll(p);
                        }
                        peer_close(p);
                }
                q = login(&f, (struct srp_peer_options) { .initiator = 9 });
                attend(q);
                peer_close(q);
                stop(&f);
        }
}

/* A session in which everything is said that the target says; a channel looks on. */
static void watch_session(struct fixture *f, struct rule_set *found)
{
        static struct srp_channel c;
        struct srp_peer *p = try_login(f, (struct srp_peer_options) { 0 });
        struct peer_cmd cmd;

        srp_channel_init(&c);
        if (p->established) {
                struct rule_set unused = { 0 };
                static const uint8_t unknown[] = { 0x4d };

                srp_channel_login(&c, &p->asked, sizeof(p->asked), true, &unused);
                srp_channel_accept(&c, &p->rsp, sizeof(p->rsp), found);
                for (unsigned i = 0; i < 3; i++) {
                        const struct srp_got *g;

                        cmd_begin(&cmd, p->tag++, 0, unknown, sizeof(unknown));
                        if (i == 1)
                                cmd_begin(&cmd, p->tag++, 0,
                                          (uint8_t[]) { SCSI_INQUIRY, 0, 0, 0, 0 }, 5);
                        if (i < 2) {
                                srp_channel_iu(&c, PARTY_HOST, cmd.p, cmd.n, &unused);
                                peer_send(p, cmd.p, cmd.n);
                        } else {
                                struct srp_tsk_mgmt t = { .opcode = SRP_TSK_MGMT,
                                                          .tag = be64(p->tag++),
                                                          .function = SRP_TM_ABORT_TASK,
                                                          .task_tag = be64(12345) };

                                srp_channel_iu(&c, PARTY_HOST, &t, sizeof(t), &unused);
                                peer_send(p, &t, sizeof(t));
                        }
                        while ((g = peer_next(p)) != NULL) {
                                srp_channel_iu(&c, PARTY_CONTROLLER, g->p, g->n, found);
                                if (peer_is_silent(p, 20))
                                        break;
                        }
                }
        }
        peer_close(p);
}

static void watch_rejection(struct fixture *f, struct rule_set *found)
{
        static struct srp_channel c;
        struct rule_set unused = { 0 };
        struct srp_peer *p = try_login(f, (struct srp_peer_options) { .it_iu = 9999 });

        srp_channel_init(&c);
        srp_channel_login(&c, &p->asked, sizeof(p->asked), true, &unused);
        srp_channel_reject(&c, &p->rej, sizeof(p->rej), found);
        peer_close(p);
}

/* Without any of them nothing is found. */
static void test_rules_that_the_target_breaks(void **state)
{
        unsigned seen = 0;

        (void)state;
        for (unsigned id = 0; id < SRP_RULES; id++) {
                const struct rule *rule = srp_rule_get(id);
                struct srp_options o = { 0 };
                struct rule_set found = { 0 };
                struct fixture f;

                if (rule && (rule->bound != PARTY_CONTROLLER || !(rule->violators & SRP_V_SPOILS)))
                        continue;
                if (rule)
                        rule_add(&o.policy.violated, id);
                f = start_on(NULL, o);
                watch_session(&f, &found);
                watch_rejection(&f, &found);
                if (!rule)
                        assert_true(rule_set_empty(&found));
                seen += rule && rule_in(&found, id);
                stop(&f);
        }
        assert_true(seen >= 24);
}

int main(void)
{
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_login),
                cmocka_unit_test(test_login_as_an_iu),
                cmocka_unit_test(test_each_reject_reason),
                cmocka_unit_test(test_channels_of_a_nexus),
                cmocka_unit_test(test_relogin),
                cmocka_unit_test(test_logouts),
                cmocka_unit_test(test_each_form),
                cmocka_unit_test(test_device_without_srq_or_inline),
                cmocka_unit_test(test_slow_rdma),
                cmocka_unit_test(test_no_reads),
                cmocka_unit_test(test_stalled),
                cmocka_unit_test(test_silence),
                cmocka_unit_test(test_additional_cdb),
                cmocka_unit_test(test_residuals),
                cmocka_unit_test(test_residual_of_what_fails),
                cmocka_unit_test(test_bad_descriptors),
                cmocka_unit_test(test_rules_of_initiators),
                cmocka_unit_test(test_any_bytes),
                cmocka_unit_test(test_rules_that_the_target_breaks),
        };

        return cmocka_run_group_tests_name("srp_target", tests, NULL, NULL);
}

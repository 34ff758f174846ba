/* SPDX-License-Identifier: BSD-3-Clause */
#include "pdu/core/tests/check.h"

#include <stdio.h>

#include "pdu/nvme/rdma/rdma_track.h"
#include "pdu/nvme/rdma/spoil_rdma.h"
#include "pdu/nvme/wire/fabrics.h"

/* A host and a controller that follow a script, spoilt on demand, and what the tracker says. */
struct session {
        struct rdma_track *track;
        const struct rule_set *violated, *waived; /* may be NULL */
        bool passive;
        struct rdma_format format;
        struct rule_set found;
        bool struck, refused;
        uint16_t sqhd;
};

enum { KEY = 0x1200, DEPTH = 32, IRD = 16, ROOM = 8192 };
#define MEMORY UINT64_C(0x7f0000001000)

static void notes(struct session *s, const struct rule_set *found)
{
        rule_each (r)
                if (rule_in(found, r))
                        rule_add(&s->found, r);
}

static void begin(struct session *s)
{
        s->found = (struct rule_set) { 0 };
        s->struck = s->refused = false;
        s->sqhd = 0;
        s->track = rdma_track_new(128, s->passive, s->waived);
        assert_non_null(s->track);
}

static void end(struct session *s)
{
        rdma_track_free(s->track);
        s->track = NULL;
}

/* --- what is said ----------------------------------------------------------------------------- */

static void say_request(struct session *s, uint16_t qid)
{
        static const struct rdma_limits limits = { 64, DEPTH, 1, 1, 0 };
        struct rdma_request q = { .qid = le16(qid),
                                  .hrqsize = le16(DEPTH),
                                  .hsqsize = le16(DEPTH - 1),
                                  .cntlid = le16(qid > 0 ? 7 : 0) };
        struct spoil_cm m = { SPOIL_REQUEST, &q, sizeof(q), IRD, 0 };
        enum rule_id rule;

        if (s->violated)
                s->struck |= spoil_cm(s->violated, &m);
        notes(s, rdma_track_request(s->track, m.data, m.len, m.reads_in, m.reads_out));
        rule = rdma_request_check(m.data, m.len, m.reads_in, m.reads_out, &limits, s->waived).rule;
        s->refused = rule != RULE_NONE;
        if (s->refused)
                rule_add(&s->found, rule);
}

static void say_accept(struct session *s)
{
        struct rdma_accept a = { .crqsize = le16(DEPTH) };
        struct spoil_cm m = { SPOIL_ACCEPT, &a, sizeof(a), 0, IRD };

        if (s->violated)
                s->struck |= spoil_cm(s->violated, &m);
        notes(s, rdma_track_accept(s->track, m.data, m.len, m.reads_in, m.reads_out));
}

static void say_reject(struct session *s)
{
        struct rdma_reject j = { .sts = le16(RDMA_REJECT_RESOURCES) };
        struct spoil_cm m = { SPOIL_REJECT, &j, sizeof(j), 0, 0 };

        if (s->violated)
                s->struck |= spoil_cm(s->violated, &m);
        notes(s, rdma_track_reject(s->track, m.data, m.len));
}

struct command {
        union sqe sqe;
        uint8_t rest[ROOM - sizeof(union sqe)];
        uint32_t len;
        struct rdma_data data; /* by the script */
};

static struct command a_command(uint16_t cid, uint8_t opc)
{
        return (struct command) {
                .sqe = { { .opc = opc, .flags = SQE_PSDT_SGL, .cid = le16(cid) } }, .len = 64
        };
}

static struct command a_fabrics(uint16_t cid, uint8_t fctype)
{
        struct command c = a_command(cid, NVME_FABRICS);

        c.sqe.fctype = fctype;
        return c;
}

static struct command an_io(uint16_t cid, uint8_t opc, unsigned blocks)
{
        struct command c = a_command(cid, opc);

        c.sqe.nsid = le32(1);
        c.sqe.cdw12 = le32(blocks - 1);
        return c;
}

/* Its key is KEY + CID, its memory MEMORY + CID pages of 64 KiB. */
static struct command keyed(struct command c, uint32_t len, bool invalidate)
{
        uint16_t cid = le16_get(c.sqe.cid);

        c.data = (struct rdma_data) { .count = 1, .len = len, .invalidate = invalidate };
        c.data.keyed[0] =
            (struct rdma_buffer) { MEMORY + cid * 0x10000u, len, KEY + cid, invalidate };
        sgl_put_keyed(&c.sqe.sgl, &c.data.keyed[0]);
        return c;
}

static struct command listed(struct command c, unsigned n, uint32_t each)
{
        uint16_t cid = le16_get(c.sqe.cid);

        c.data = (struct rdma_data) { .count = n, .len = n * each };
        for (unsigned i = 0; i < n; i++) {
                c.data.keyed[i] = (struct rdma_buffer) { MEMORY + cid * 0x10000u + i * 2 * each,
                                                         each, KEY + cid * 16u + i, false };
                sgl_put_keyed((struct sgl *)(void *)(c.rest + i * 16), &c.data.keyed[i]);
        }
        c.sqe.sgl = (struct sgl) { .len = le32(n * 16), .id = SGL_LAST_IN_CAPSULE };
        c.len = 64 + n * 16;
        return c;
}

static struct command in_capsule(struct command c, uint32_t len)
{
        sgl_put_in_capsule(&c.sqe.sgl, 0, len);
        c.len = 64 + len;
        return c;
}

static void say_command(struct session *s, const struct command *c)
{
        static struct command sent;
        struct spoil_capsule x = {
                .bytes = sent.sqe.bytes, .len = c->len, .room = ROOM, .format = &s->format
        };

        sent = *c;
        if (s->violated)
                s->struck |= spoil_capsule(s->violated, &x);
        notes(s, rdma_track_command(s->track, x.bytes, x.len));
        if (x.twice)
                notes(s, rdma_track_command(s->track, x.bytes, x.len));
}

static void say_transfer(struct session *s, const struct command *c, uint64_t addr, uint32_t key,
                         uint32_t len, bool last)
{
        bool reads = sqe_xfer(&c->sqe) == XFER_H2C;
        struct spoil_transfer x = { .sqe = &c->sqe,
                                    .op = reads ? VERBS_READ : VERBS_WRITE,
                                    .last = last,
                                    .addr = addr,
                                    .key = key,
                                    .len = len };

        if (s->violated)
                s->struck |= spoil_transfer(s->violated, &x);
        if (x.drop)
                return;
        if (x.op == VERBS_READ)
                notes(s, rdma_track_read(s->track, PARTY_CONTROLLER, x.addr, x.key, x.len));
        else
                notes(s, rdma_track_write(s->track, PARTY_CONTROLLER, x.addr, x.key, x.len));
}

/* In pieces of 1,024 bytes at most, as packets come. */
static void say_data(struct session *s, const struct command *c)
{
        for (unsigned i = 0; i < c->data.count; i++) {
                const struct rdma_buffer *b = &c->data.keyed[i];

                for (uint32_t at = 0; at < b->len; at += 1024)
                        say_transfer(s, c, b->addr + at, b->key,
                                     b->len - at < 1024 ? b->len - at : 1024,
                                     i + 1 == c->data.count && at + 1024 >= b->len);
        }
}

static struct cqe a_cqe(struct session *s, const struct command *c, uint16_t status)
{
        s->sqhd = (uint16_t)((s->sqhd + 1) % DEPTH);
        return (
            struct cqe) { .sqhd = le16(s->sqhd), .cid = c->sqe.cid, .sf = status_field(status) };
}

static void say_response(struct session *s, const struct spoil_response *x)
{
        if (!x->drop)
                notes(s, rdma_track_response(s->track, x->bytes, x->len, x->invalidate, x->key));
}

/* Its data and its response, in the order that they should have. */
static void complete(struct session *s, const struct command *c)
{
        struct cqe cqe = a_cqe(s, c, NVME_SUCCESS);
        struct spoil_response x = { .sqe = &c->sqe,
                                    .data = &c->data,
                                    .bytes = (uint8_t *)&cqe,
                                    .len = sizeof(cqe),
                                    .invalidate = c->data.invalidate,
                                    .key = c->data.keyed[0].key };

        if (s->violated)
                s->struck |= spoil_response(s->violated, &x);
        if (x.early)
                say_response(s, &x);
        say_data(s, c);
        if (!x.early)
                say_response(s, &x);
}

static void does(struct session *s, struct command c)
{
        say_command(s, &c);
        complete(s, &c);
}

/* --- two sessions that keep every rule -------------------------------------------------------- */

static struct command a_connect(uint16_t cid, uint16_t qid)
{
        struct command c = a_fabrics(cid, FCTYPE_CONNECT);

        c.sqe.connect.qid = le16(qid);
        c.sqe.connect.sqsize = le16(DEPTH - 1);
        return c;
}

static struct command an_enable(uint16_t cid)
{
        struct command c = a_fabrics(cid, FCTYPE_PROPERTY_SET);

        c.sqe.property.ofst = le32(PROP_CC);
        c.sqe.property.value = le64(CC_EN | CC_IOSQES | CC_IOCQES);
        return c;
}

static void admin_session(struct session *s)
{
        struct command aer = a_command(5, NVME_AER), id = a_command(3, NVME_IDENTIFY);

        say_request(s, 0);
        if (s->refused)
                return;
        say_accept(s);
        s->format = (struct rdma_format) { .admin = true };
        does(s, keyed(a_connect(1, 0), CONNECT_DATA_LEN, false));
        does(s, an_enable(2));
        id.sqe.cdw10 = le32(CNS_CTRL);
        does(s, keyed(id, IDENTIFY_LEN, true));
        say_command(s, &aer);
        does(s, a_command(6, NVME_KEEP_ALIVE));
}

static void io_session(struct session *s)
{
        struct command late = keyed(an_io(20, NVME_WRITE, 4), 2048, false);

        say_request(s, 1);
        if (s->refused)
                return;
        say_accept(s);
        s->format = (struct rdma_format) { .in_capsule = 4096, .msdbd = 4 };
        does(s, in_capsule(a_connect(1, 1), CONNECT_DATA_LEN)); /* as Linux does */
        rdma_track_format(s->track, 4096, 0, 4);
        does(s, keyed(an_io(2, NVME_READ, 8), 4096, true));
        does(s, keyed(an_io(3, NVME_READ, 8), 4096, false));
        does(s, keyed(an_io(4, NVME_WRITE, 8), 4096, true));
        does(s, in_capsule(an_io(5, NVME_WRITE, 1), 512));
        does(s, in_capsule(an_io(6, NVME_WRITE, 8), 4096));
        does(s, listed(an_io(7, NVME_READ, 4), 4, 512));
        does(s, listed(an_io(8, NVME_WRITE, 6), 3, 1024));
        does(s, an_io(9, NVME_FLUSH, 1));
        say_command(s, &late);
        does(s, keyed(an_io(21, NVME_READ, 1), 512, false));
        complete(s, &late);
}

static void refused_session(struct session *s)
{
        say_request(s, 1);
        say_reject(s);
}

static void (*const sessions[])(struct session *s) = { admin_session, io_session, refused_session };

static void run(struct session *s, size_t which)
{
        begin(s);
        sessions[which](s);
        end(s);
}

static void assert_only(const struct session *s, enum rule_id only)
{
        rule_each (r)
                if (rule_in(&s->found, r) != (r == only))
                        fail_msg("%s: %s", rule_get(r)->id, r == only ? "not found" : "found");
}

static void sessions_keep_every_rule(void **state)
{
        (void)state;
        for (size_t i = 0; i < COUNT(sessions); i++) {
                struct session s = { .passive = i & 1 };

                run(&s, i);
                assert_only(&s, RULE_NONE);
                s.passive = !s.passive;
                run(&s, i);
                assert_only(&s, RULE_NONE);
        }
}

/* --- each violator ---------------------------------------------------------------------------- */

/* The keys are not the tracker's, and who is not answered does not tell when. */
static bool is_out_of_sight(enum rule_id rule)
{
        return rule == RDMA_KEY || rule == FAB_ANSWERED || rule == RDMA_REQ_CTRL;
}

/* What cannot but be broken as well: data that went elsewhere is not where it belongs. */
static bool comes_along(enum rule_id rule, enum rule_id other)
{
        static const enum rule_id along[][2] = {
                { RDMA_WRITE_RANGE, RDMA_WRITE_WHOLE },  { RDMA_READ_RANGE, RDMA_READ_WHOLE },
                { RDMA_WRITE_DIR, RDMA_READ_WHOLE },     { RDMA_READ_DIR, RDMA_WRITE_WHOLE },
                { RDMA_WRITE_BEFORE, RDMA_WRITE_WHOLE }, { RDMA_INV_EARLY, RDMA_WRITE_WHOLE },
        };

        for (size_t i = 0; i < COUNT(along); i++)
                if (along[i][0] == rule && along[i][1] == other)
                        return true;
        return rule == other;
}

static void assert_nothing_else(const struct session *s, enum rule_id rule)
{
        rule_each (r)
                if (rule_in(&s->found, r) && rule_get(r)->bound == rule_get(rule)->bound &&
                    !comes_along(rule, r))
                        fail_msg("%s also breaks %s", rule_get(rule)->id, rule_get(r)->id);
}

static void break_rule(enum rule_id rule)
{
        struct rule_set one = { 0 };
        bool struck = false, seen = false;

        rule_add(&one, rule);
        for (size_t i = 0; i < COUNT(sessions); i++) {
                struct session s = { .violated = &one, .passive = true };

                run(&s, i);
                struck |= s.struck;
                seen |= rule_in(&s.found, rule);
                assert_nothing_else(&s, rule);
                s.waived = &one;
                run(&s, i);
                if (rule_in(&s.found, rule))
                        fail_msg("%s is reported though it is waived", rule_get(rule)->id);
        }
        if (!struck)
                fail_msg("%s is never broken", rule_get(rule)->id);
        if (seen == is_out_of_sight(rule))
                fail_msg("%s is%s seen", rule_get(rule)->id, seen ? "" : " not");
}

static void each_violator_breaks_just_its_rule(void **state)
{
        unsigned n = 0;

        (void)state;
        rule_each (rule) {
                if (strncmp(rule_get(rule)->id, "rdma/", 5) != 0 || !spoil_can_rdma(rule) ||
                    (rule_get(rule)->violators & V_RDMA_CQE)) /* values */
                        continue;
                break_rule(rule);
                n++;
        }
        break_rule(FAB_ANSWERED);
        assert_in_range(n, 44, RULES);
}

/* --- by hand ---------------------------------------------------------------------------------- */

static void live(struct session *s, bool passive)
{
        *s = (struct session) { .passive = passive };
        begin(s);
        say_request(s, 1);
        say_accept(s);
        s->format = (struct rdma_format) { .in_capsule = 4096 };
        does(s, in_capsule(a_connect(1, 1), CONNECT_DATA_LEN));
        rdma_track_format(s->track, 4096, 0, 0);
        assert_only(s, RULE_NONE);
}

static void hosts_start_no_transfers(void **state)
{
        struct session s;

        (void)state;
        live(&s, true);
        notes(&s, rdma_track_read(s.track, PARTY_HOST, 0, 0, 4));
        assert_only(&s, RDMA_HOST_READS);
        s.found = (struct rule_set) { 0 };
        notes(&s, rdma_track_write(s.track, PARTY_HOST, 0, 0, 4));
        assert_only(&s, RDMA_HOST_READS);
        end(&s);
}

static void reads_stay_within_ird(void **state)
{
        struct rdma_accept a = { .crqsize = le16(DEPTH) };
        struct session s;

        (void)state;
        live(&s, true);
        notes(&s, rdma_track_reads(s.track, IRD));
        assert_only(&s, RULE_NONE);
        notes(&s, rdma_track_reads(s.track, IRD + 1));
        assert_only(&s, RDMA_READ_LIMIT);
        end(&s);
        begin(&s);
        say_request(&s, 1);
        notes(&s, rdma_track_accept(s.track, &a, sizeof(a), 0, IRD + 1));
        assert_only(&s, RDMA_READ_LIMIT);
        end(&s);
}

static void quiet_once_it_has_ended(void **state)
{
        struct command c = keyed(an_io(2, NVME_READ, 1), 512, false);
        struct session s;

        (void)state;
        live(&s, true);
        say_command(&s, &c);
        rdma_track_closed(s.track, PARTY_HOST);
        say_data(&s, &c); /* was under way */
        assert_only(&s, RULE_NONE);
        rdma_track_closed(s.track, PARTY_CONTROLLER);
        say_data(&s, &c);
        assert_only(&s, RDMA_LATE_SEND);
        end(&s);
}

static void unseen_transfers_are_not_missed(void **state)
{
        struct command c = keyed(an_io(2, NVME_READ, 8), 4096, false);
        struct cqe cqe;
        struct session s;

        (void)state;
        for (int passive = 0; passive < 2; passive++) {
                live(&s, passive);
                say_command(&s, &c);
                cqe = a_cqe(&s, &c, NVME_SUCCESS);
                notes(&s, rdma_track_response(s.track, &cqe, sizeof(cqe), false, 0));
                assert_only(&s, passive ? RDMA_WRITE_WHOLE : RULE_NONE);
                end(&s);
        }
}

/* Two commands that share memory: the data of one is not missed by the other, whoever ends first. */
static void shared_memory(void **state)
{
        struct command a = keyed(an_io(2, NVME_READ, 8), 4096, false), b = a;
        struct session s;

        (void)state;
        b.sqe.cid = le16(3);
        for (int second = 0; second < 2; second++) {
                live(&s, true);
                say_command(&s, &a);
                say_command(&s, &b);
                for (int i = 0; i < 2; i++) {
                        struct cqe cqe = a_cqe(&s, i == second ? &b : &a, NVME_SUCCESS);

                        say_data(&s, &a);
                        notes(&s, rdma_track_response(s.track, &cqe, sizeof(cqe), false, 0));
                        assert_only(&s, RULE_NONE);
                }
                end(&s);
        }
}

/* An error delivers nothing, and one that knows better than the SGL what is needed says so. */
static void not_all_has_to_be_moved(void **state)
{
        struct command c = keyed(an_io(2, NVME_READ, 8), 8192, false);
        struct cqe cqe;
        struct session s;

        (void)state;
        live(&s, true);
        say_command(&s, &c);
        cqe = a_cqe(&s, &c, NVME_LBA_RANGE);
        notes(&s, rdma_track_response(s.track, &cqe, sizeof(cqe), false, 0));
        c.sqe.cid = le16(3);
        say_command(&s, &c);
        assert_int_equal(rdma_track_last(s.track)->needs, 8192);
        rdma_track_last(s.track)->needs = 4096;
        say_transfer(&s, &c, c.data.keyed[0].addr, c.data.keyed[0].key, 4096, false);
        cqe = a_cqe(&s, &c, NVME_SUCCESS);
        notes(&s, rdma_track_response(s.track, &cqe, sizeof(cqe), false, 0));
        assert_only(&s, RULE_NONE);
        end(&s);
}

/* In any order, again and again, in more pieces than are remembered. */
static void pieces(void **state)
{
        struct command c = keyed(an_io(2, NVME_READ, 32), 16384, false);
        const struct rdma_buffer *b = &c.data.keyed[0];
        struct session s;
        uint64_t seed = 3;

        (void)state;
        live(&s, true);
        say_command(&s, &c);
        for (int i = 0; i < 6; i++)
                say_transfer(&s, &c, b->addr + 1024u * (unsigned)(i % 3), b->key, 1024, false);
        assert_int_equal(rdma_track_cmd(s.track, 2)->moved, 3072);
        say_transfer(&s, &c, b->addr + 512, b->key, 8192, false);
        assert_int_equal(rdma_track_cmd(s.track, 2)->moved, 8704);
        for (int i = 0; i < 1000; i++) {
                uint32_t at = (uint32_t)(random_next(&seed) % 16384);

                say_transfer(&s, &c, b->addr + at, b->key, 1, false);
        }
        say_transfer(&s, &c, b->addr, b->key, b->len, true);
        assert_in_range(rdma_track_cmd(s.track, 2)->moved, b->len, b->len + 1000);
        complete(&s, &c);
        assert_only(&s, RULE_NONE);
        end(&s);
}

static void what_is_outstanding(void **state)
{
        struct command c = listed(an_io(2, NVME_READ, 4), 4, 512);
        struct session s;

        (void)state;
        live(&s, true);
        say_command(&s, &c);
        assert_int_equal(rdma_track_qid(s.track), 1);
        assert_int_equal(rdma_track_outstanding(s.track), 1);
        assert_int_equal(rdma_track_cmd(s.track, 2)->data.count, 4);
        assert_null(rdma_track_cmd(s.track, 3));
        complete(&s, &c);
        assert_non_null(rdma_track_last(s.track)); /* it has ended, and can be looked at */
        assert_null(rdma_track_cmd(s.track, 2));
        end(&s);
}

static void mid_stream_knows_less(void **state)
{
        struct command c = keyed(an_io(2, NVME_READ, 8), 4096, true);
        struct session s = { .passive = true };
        struct cqe cqe;

        (void)state;
        begin(&s);
        rdma_track_mid_stream(s.track);
        cqe = a_cqe(&s, &c, NVME_SUCCESS);
        notes(&s, rdma_track_response(s.track, &cqe, sizeof(cqe), true, 99));
        notes(&s, rdma_track_write(s.track, PARTY_CONTROLLER, 0x999, 99, 512));
        does(&s, c);
        assert_int_equal(rdma_track_qid(s.track), -1);
        assert_only(&s, RULE_NONE);
        say_command(&s, &c);
        say_transfer(&s, &c, c.data.keyed[0].addr + 4095, c.data.keyed[0].key, 2, true);
        assert_only(&s, RDMA_WRITE_RANGE);
        end(&s);
}

/* Either reading of whose key it is will do. */
static void mixed_invalidation(void **state)
{
        static const struct {
                uint32_t key;
                enum rule_id rule;
        } rows[] = { { KEY + 32, RULE_NONE }, { KEY + 33, RULE_NONE }, { KEY + 34, RDMA_INV_KEY } };
        struct session s;

        (void)state;
        for (size_t i = 0; i < COUNT(rows); i++) {
                struct command c = listed(an_io(2, NVME_READ, 2), 2, 512);
                struct cqe cqe;

                c.rest[15] = SGL_KEYED_INVALIDATE;
                live(&s, true);
                say_command(&s, &c);
                say_data(&s, &c);
                cqe = a_cqe(&s, &c, NVME_SUCCESS);
                notes(&s, rdma_track_response(s.track, &cqe, sizeof(cqe), true, rows[i].key));
                assert_only(&s, rows[i].rule);
                end(&s);
        }
}

/* A description that is refused has a key all the same. */
static void refused_commands_may_be_invalidated(void **state)
{
        struct command c = keyed(an_io(2, NVME_READ, 8), 2048, true);
        struct session s;
        struct cqe cqe;

        (void)state;
        live(&s, true);
        say_command(&s, &c);
        assert_only(&s, RDMA_SGL_LENGTH);
        cqe = a_cqe(&s, &c, NVME_SGL_LENGTH);
        notes(&s, rdma_track_response(s.track, &cqe, sizeof(cqe), true, KEY + 2));
        assert_only(&s, RDMA_SGL_LENGTH);
        end(&s);
}

static void queue_rules_hold_here_too(void **state)
{
        struct command c = an_io(2, NVME_FLUSH, 1);
        struct session s;
        struct cqe cqe;

        (void)state;
        live(&s, true);
        for (uint16_t cid = 100; cid < 100 + DEPTH - 1; cid++) {
                c.sqe.cid = le16(cid);
                say_command(&s, &c);
        }
        assert_only(&s, RULE_NONE);
        c.sqe.cid = le16(200);
        say_command(&s, &c);
        assert_only(&s, FAB_OVERRUN);
        s.found = (struct rule_set) { 0 };
        c.sqe.cid = le16(100);
        cqe = a_cqe(&s, &c, NVME_SUCCESS);
        cqe.sqhd = le16(0x1234);
        notes(&s, rdma_track_response(s.track, &cqe, sizeof(cqe), false, 0));
        assert_only(&s, FAB_SQHD);
        end(&s);
}

static void first_is_connect(void **state)
{
        struct session s = { .passive = true };
        struct command c = an_io(2, NVME_FLUSH, 1);

        (void)state;
        begin(&s);
        say_request(&s, 1);
        say_accept(&s);
        say_command(&s, &c);
        assert_only(&s, FAB_FIRST_CONNECT);
        end(&s);
}

/* Whatever comes, in whatever order and length: it is told, and nothing is touched that is not ours
 * (under the sanitizers). */
static void noise(void **state)
{
        static const uint8_t ids[] = { SGL_KEYED, SGL_KEYED_INVALIDATE, SGL_IN_CAPSULE,
                                       SGL_LAST_IN_CAPSULE, SGL_TRANSPORT };
        uint8_t bytes[2048];
        uint64_t seed = 11;

        (void)state;
        for (int round = 0; round < 200; round++) {
                struct session s = { .passive = round & 1 };

                begin(&s);
                if (round % 3 == 0)
                        rdma_track_mid_stream(s.track);
                if (round % 4 == 0)
                        say_request(&s, (uint16_t)(round % 8));
                for (int i = 0; i < 300; i++) {
                        uint32_t len = (uint32_t)(random_next(&seed) % 300), key;

                        random_fill(&seed, bytes, sizeof(bytes));
                        bytes[2] &= 15; /* few CIDs */
                        bytes[3] = bytes[12] = bytes[13] = 0;
                        bytes[39] = ids[i % 5];
                        memset(bytes + 24, i % 3, 15);
                        key = (uint32_t)le_get(bytes + 35, 4);
                        notes(&s, rdma_track_command(s.track, bytes, len));
                        bytes[12] = (uint8_t)(random_next(&seed) & 15);
                        notes(&s, rdma_track_write(s.track, PARTY_CONTROLLER,
                                                   le_get(bytes + 24, 8) + (i & 255), key, len));
                        notes(&s, rdma_track_read(s.track, PARTY_CONTROLLER, le_get(bytes + 24, 8),
                                                  key, UINT32_MAX));
                        notes(&s, rdma_track_response(s.track, bytes, len % 20, i & 1, key));
                        notes(&s, rdma_track_accept(s.track, bytes, len, 0, 0));
                        notes(&s, rdma_track_reject(s.track, bytes, len % 6));
                }
                end(&s);
        }
        rdma_track_free(NULL);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(sessions_keep_every_rule),
                cmocka_unit_test(each_violator_breaks_just_its_rule),
                cmocka_unit_test(hosts_start_no_transfers),
                cmocka_unit_test(reads_stay_within_ird),
                cmocka_unit_test(quiet_once_it_has_ended),
                cmocka_unit_test(unseen_transfers_are_not_missed),
                cmocka_unit_test(shared_memory),
                cmocka_unit_test(not_all_has_to_be_moved),
                cmocka_unit_test(pieces),
                cmocka_unit_test(what_is_outstanding),
                cmocka_unit_test(mid_stream_knows_less),
                cmocka_unit_test(mixed_invalidation),
                cmocka_unit_test(refused_commands_may_be_invalidated),
                cmocka_unit_test(queue_rules_hold_here_too),
                cmocka_unit_test(first_is_connect),
                cmocka_unit_test(noise),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

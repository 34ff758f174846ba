/* SPDX-License-Identifier: BSD-3-Clause */
/* The controller machine: rows of input and what has to come of them; time is an argument. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "pdu/nvme/machine/controller.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

enum { IDLE = 120000, CC_ON = CC_EN | CC_IOSQES | CC_IOCQES };

static struct rule_policy policy;

static const struct controller_config io_config = {
        .type = CONTROLLER_IO,
        .mqes = 127,
        .queues_max = 8,
        .kas = 1,
        .kato_min = 500,
        .idle_timeout = IDLE,
        .aerl = 3,
        .policy = &policy,
};
static const struct controller_config disc_config = {
        .type = CONTROLLER_DISCOVERY,
        .persistent = true,
        .mqes = 127,
        .kas = 1,
        .kato_min = 500,
        .idle_timeout = IDLE,
        .aerl = 3,
        .policy = &policy,
};
static const struct controller_config short_lived_config = {
        .type = CONTROLLER_DISCOVERY,
        .mqes = 127,
        .kas = 1,
        .kato_min = 500,
        .idle_timeout = IDLE,
        .policy = &policy,
};

static const struct controller_config whole_config = {
        .type = CONTROLLER_IO,
        .whole = true,
        .mqes = 127,
        .queues_max = 8,
        .kas = 1,
        .kato_min = 500,
        .aerl = 3,
        .policy = &policy,
};

static int setup(void **state)
{
        (void)state;
        memset(&policy, 0, sizeof(policy));
        return 0;
}

static struct controller made(const struct controller_config *cfg)
{
        struct controller c;

        controller_init(&c, cfg, 0);
        return c;
}

static uint16_t set(struct controller *c, uint32_t ofst, uint8_t attrib, uint64_t value,
                    uint64_t now)
{
        struct property_cmd cmd = { .ofst = le32(ofst), .attrib = attrib, .value = le64(value) };
        struct cqe cqe;

        memset(&cqe, 0xff, sizeof(cqe));
        controller_property_set(c, &cmd, &cqe, now);
        assert_int_equal(le64_get(cqe.result), 0);
        return cqe_status(&cqe);
}

static uint16_t get_at(struct controller *c, uint32_t ofst, uint8_t attrib, uint64_t *value,
                       uint64_t now)
{
        struct property_cmd cmd = { .ofst = le32(ofst), .attrib = attrib };
        struct cqe cqe;

        memset(&cqe, 0xff, sizeof(cqe));
        controller_property_get(c, &cmd, &cqe, now);
        *value = le64_get(cqe.result);
        return cqe_status(&cqe);
}

static uint16_t get(struct controller *c, uint32_t ofst, uint8_t attrib, uint64_t *value)
{
        return get_at(c, ofst, attrib, value, 0);
}

static void set_cc(struct controller *c, uint32_t cc, uint64_t now)
{
        assert_int_equal(set(c, PROP_CC, PROP_ATTRIB_4, cc, now), 0);
}

static struct controller enabled(const struct controller_config *cfg, uint32_t kato)
{
        struct controller c = made(cfg);

        assert_int_equal(controller_connect_kato(&c, kato), 0);
        set_cc(&c, CC_ON, 0);
        assert_int_equal(c.csts, CSTS_RDY);
        return c;
}

/* --- properties ------------------------------------------------------------------------------- */

static void ready_in_time(void **state)
{
        struct controller_config cfg = io_config;
        struct controller c;
        uint64_t value;

        (void)state;
        cfg.ready_time = 3000;
        c = made(&cfg);
        for (int asked = 0; asked < 2; asked++) { /* by a tick, or as it is asked */
                set_cc(&c, CC_ON, 1000);
                assert_true(controller_tick(&c, 3999));
                assert_int_equal(get_at(&c, PROP_CSTS, PROP_ATTRIB_4, &value, 3999), 0);
                assert_int_equal(value, 0);
                assert_true(asked || controller_tick(&c, 4000));
                assert_int_equal(get_at(&c, PROP_CSTS, PROP_ATTRIB_4, &value, asked ? 4000 : 0), 0);
                assert_int_equal(value, CSTS_RDY);
                set_cc(&c, 0, 4500);
        }
        set_cc(&c, CC_ON, 4600);
        assert_int_equal(get(&c, PROP_CAP, PROP_ATTRIB_8, &value), 0);
        assert_true(CAP_TO(value) * 500 > 3000);
        assert_int_equal(get(&c, PROP_CRTO, PROP_ATTRIB_4, &value), 0);
        assert_true((value & 0xffff) * 500 > 3000);
        set_cc(&c, 0, 5000);
        set_cc(&c, CC_ON, 6000);
        set_cc(&c, 0, 7000); /* before it was ready */
        assert_true(controller_tick(&c, 9000));
        assert_int_equal(c.csts, 0);
}

static void property_rows(void **state)
{
        static const struct {
                const struct controller_config *cfg;
                bool write;
                uint32_t ofst;
                uint8_t attrib;
                uint16_t status;
                enum rule_id rule; /* whose waiver lets it pass */
        } rows[] = {
                { &io_config, false, PROP_CAP, PROP_ATTRIB_8, 0, RULE_NONE },
                { &io_config, false, PROP_VS, PROP_ATTRIB_4, 0, RULE_NONE },
                { &io_config, false, PROP_CC, PROP_ATTRIB_4, 0, RULE_NONE },
                { &io_config, false, PROP_CSTS, PROP_ATTRIB_4, 0, RULE_NONE },
                { &io_config, false, PROP_CRTO, PROP_ATTRIB_4, 0, RULE_NONE },
                { &disc_config, false, PROP_CAP, PROP_ATTRIB_8, 0, RULE_NONE },
                { &disc_config, false, PROP_CRTO, PROP_ATTRIB_4, 2, FAB_PROP_OFFSET },
                { &io_config, false, PROP_CAP, 0xf8 | PROP_ATTRIB_8, 0, RULE_NONE },
                { &io_config, false, PROP_CAP, PROP_ATTRIB_4, 2, FAB_PROP_SIZE },
                { &io_config, false, PROP_VS, PROP_ATTRIB_8, 2, FAB_PROP_SIZE },
                { &io_config, false, PROP_VS, 2, 2, FAB_PROP_SIZE },
                { &io_config, false, 0x04, PROP_ATTRIB_4, 2, FAB_PROP_OFFSET },
                { &io_config, false, 0x0c, PROP_ATTRIB_4, 2, FAB_PROP_OFFSET },
                { &io_config, false, 0x24, PROP_ATTRIB_4, 2, FAB_PROP_OFFSET },
                { &io_config, false, PROP_NSSR, PROP_ATTRIB_4, 2, FAB_PROP_OFFSET },
                { &io_config, false, 0xfffffffc, PROP_ATTRIB_4, 2, FAB_PROP_OFFSET },
                { &io_config, true, PROP_CC, PROP_ATTRIB_4, 0, RULE_NONE },
                { &io_config, true, PROP_CC, PROP_ATTRIB_8, 2, FAB_PROP_SIZE },
                { &io_config, true, PROP_CAP, PROP_ATTRIB_8, 2, FAB_PROP_RO },
                { &io_config, true, PROP_VS, PROP_ATTRIB_4, 2, FAB_PROP_RO },
                { &io_config, true, PROP_CSTS, PROP_ATTRIB_4, 2, FAB_PROP_RO },
                { &io_config, true, PROP_NSSR, PROP_ATTRIB_4, 2, FAB_PROP_OFFSET },
                { &io_config, true, 0x24, PROP_ATTRIB_4, 2, FAB_PROP_OFFSET },
        };

        (void)state;
        for (size_t i = 0; i < COUNT(rows); i++) {
                for (int waived = 0; waived < 2; waived++) {
                        struct controller c = made(rows[i].cfg);
                        uint16_t want = waived ? 0 : rows[i].status, status;
                        uint64_t value;

                        memset(&policy, 0, sizeof(policy));
                        if (waived)
                                rule_add(&policy.waived, rows[i].rule);
                        if (rows[i].write)
                                status = set(&c, rows[i].ofst, rows[i].attrib, 0, 0);
                        else
                                status = get(&c, rows[i].ofst, rows[i].attrib, &value);
                        if (status != want)
                                fail_msg("row %zu: status %xh", i, status);
                }
        }
}

static void property_values(void **state)
{
        struct controller c = made(&io_config);
        uint64_t cap, vs, crto, cc;

        (void)state;
        assert_int_equal(get(&c, PROP_CAP, PROP_ATTRIB_8, &cap), 0);
        assert_int_equal(CAP_MQES(cap), 127);
        assert_true(cap & CAP_CQR);
        assert_int_equal(CAP_DSTRD(cap), 0);
        assert_int_equal(cap >> 37 & 0xff, 1); /* CSS: NVM */
        assert_true(cap & CAP_CRMS_CRWMS);
        get(&c, PROP_VS, PROP_ATTRIB_4, &vs);
        assert_int_equal(vs, NVME_VERSION(2, 0, 0));
        get(&c, PROP_CRTO, PROP_ATTRIB_4, &crto);
        assert_true(crto >= CAP_TO(cap)); /* or the Linux host complains */
        set_cc(&c, 0xffffffff & ~CC_EN & ~(3u << 14), 0);
        get(&c, PROP_CC, PROP_ATTRIB_4, &cc);
        assert_int_equal(cc, 0x01ff3ff0); /* reserved bits read 0 */
}

/* --- enable, shutdown, reset ------------------------------------------------------------------ */

enum { RDY = CSTS_RDY, DONE = CSTS_SHST_COMPLETE };

static void cc_sequences(void **state)
{
        static const struct {
                const struct controller_config *cfg;
                struct {
                        uint32_t cc, csts;
                } step[5];
        } rows[] = {
                { &io_config, { { CC_ON, RDY }, { 0, 0 }, { CC_ON, RDY } } },
                { &io_config, { { CC_EN, RDY } } },
                { &disc_config, { { CC_EN, RDY }, { 0, 0 } } },
                { &disc_config, { { CC_EN | 3u << 16, RDY } } }, /* reserved there */
                /* shut down, restart by EN 1 -> 0 -> 1 */
                { &io_config,
                  { { CC_ON, RDY },
                    { CC_ON | CC_SHN_NORMAL, RDY | DONE },
                    { CC_ON, RDY | DONE }, /* no restart without EN 0 */
                    { 0, 0 },
                    { CC_ON, RDY } } },
                { &io_config, { { CC_ON, RDY }, { CC_ON | CC_SHN_ABRUPT, RDY | DONE }, { 0, 0 } } },
                /* one write that resets and shuts down, and one that restarts */
                { &io_config, { { CC_ON, RDY }, { CC_SHN_NORMAL, DONE }, { CC_ON, RDY } } },
                { &io_config, { { CC_SHN_ABRUPT, DONE }, { CC_ON, RDY } } },
                /* what CC asks for is not there */
                { &io_config, { { CC_ON | 6u << 4, CSTS_CFS }, { 0, 0 }, { CC_ON, RDY } } },
                { &io_config, { { CC_ON | 7u << 4, CSTS_CFS } } },
                { &io_config, { { CC_ON | 1u << 7, CSTS_CFS } } },
                { &io_config, { { CC_ON | 1u << 11, CSTS_CFS } } },
                { &io_config, { { CC_EN | 5u << 16 | CC_IOCQES, CSTS_CFS } } },
                { &io_config, { { CC_EN | CC_IOSQES | 5u << 20, CSTS_CFS } } },
                { &disc_config, { { CC_EN | 1u << 7, CSTS_CFS } } },
        };

        (void)state;
        for (size_t i = 0; i < COUNT(rows); i++) {
                struct controller c = made(rows[i].cfg);

                for (size_t n = 0;
                     n < 5 && (n == 0 || rows[i].step[n].cc || rows[i].step[n - 1].cc); n++) {
                        set_cc(&c, rows[i].step[n].cc, 0);
                        if (c.csts != rows[i].step[n].csts || c.cc != rows[i].step[n].cc)
                                fail_msg("row %zu, step %zu: CSTS %xh", i, n, c.csts);
                }
        }
}

static void broken_on_request(void **state)
{
        struct controller c = made(&io_config);

        (void)state;
        rule_add(&policy.violated, FAB_RDY);
        set_cc(&c, CC_ON, 0);
        assert_int_equal(c.csts, 0);
        memset(&policy, 0, sizeof(policy));
        rule_add(&policy.violated, FAB_SHST);
        c = made(&io_config);
        set_cc(&c, CC_ON, 0);
        set_cc(&c, CC_ON | CC_SHN_NORMAL, 0);
        assert_int_equal(CSTS_SHST(c.csts), 1);
}

/* --- which command when ----------------------------------------------------------------------- */

enum when { NOT_CONNECTED, DISABLED, ENABLED, SHUT_DOWN };

static struct controller in_phase(const struct controller_config *cfg, enum when when)
{
        struct controller c = made(cfg);

        if (when == ENABLED || when == SHUT_DOWN)
                set_cc(&c, CC_ON, 0);
        if (when == SHUT_DOWN)
                set_cc(&c, CC_ON | CC_SHN_NORMAL, 0);
        return c;
}

static void admission(void **state)
{
        enum { FAB = NVME_FABRICS };
        static const struct {
                const struct controller_config *cfg;
                enum when when;
                uint16_t qid;
                uint8_t opc, fctype, flags;
                uint16_t status;
                enum rule_id rule;
        } rows[] = {
                { &io_config, NOT_CONNECTED, 0, FAB, FCTYPE_CONNECT, 0x40, 0, 0 },
                { &io_config, NOT_CONNECTED, 0, FAB, FCTYPE_PROPERTY_GET, 0, 0x00c, 0 },
                { &io_config, NOT_CONNECTED, 0, NVME_IDENTIFY, 0, 0x40, 0x00c, 0 },
                { &io_config, DISABLED, 0, FAB, FCTYPE_CONNECT, 0, 0x00c, FAB_CONNECT_ONCE },
                { &io_config, DISABLED, 0, FAB, FCTYPE_PROPERTY_GET, 0x80, 0, 0 },
                { &io_config, DISABLED, 0, FAB, FCTYPE_PROPERTY_SET, 0x40, 0, 0 },
                { &io_config, DISABLED, 0, FAB, 0x02, 0, 0x002, FAB_FCTYPE },
                { &io_config, DISABLED, 0, FAB, 0xc0, 0, 0x002, FAB_FCTYPE },
                { &io_config, DISABLED, 0, FAB, FCTYPE_AUTH_SEND, 0, 0x002, FAB_FCTYPE },
                { &io_config, DISABLED, 0, FAB, FCTYPE_DISCONNECT, 0, 0x185, FAB_DISCONNECT_ADMIN },
                { &io_config, ENABLED, 1, FAB, FCTYPE_DISCONNECT, 0, 0, 0 },
                { &io_config, ENABLED, 1, FAB, FCTYPE_PROPERTY_GET, 0, 0x002, FAB_PROP_QUEUE },
                { &io_config, ENABLED, 1, FAB, FCTYPE_PROPERTY_SET, 0, 0x002, FAB_PROP_QUEUE },
                { &io_config, DISABLED, 0, NVME_IDENTIFY, 0, 0x40, 0x00c, FAB_ENABLED },
                { &io_config, DISABLED, 1, NVME_READ, 0, 0x40, 0x00c, FAB_ENABLED },
                { &io_config, ENABLED, 0, NVME_IDENTIFY, 0, 0x40, 0, 0 },
                { &io_config, ENABLED, 0, NVME_IDENTIFY, 0, 0x41, 0x002, 0 },
                { &io_config, ENABLED, 0, NVME_KEEP_ALIVE, 0, 0x40, 0, 0 },
                { &io_config, ENABLED, 0, NVME_AER, 0, 0x40, 0, 0 },
                { &io_config, ENABLED, 0, NVME_CREATE_SQ, 0, 0x40, 0x001, FAB_OPCODE },
                { &io_config, ENABLED, 0, NVME_CREATE_CQ, 0, 0x40, 0x001, FAB_OPCODE },
                { &io_config, ENABLED, 0, NVME_DELETE_SQ, 0, 0x40, 0x001, FAB_OPCODE },
                { &io_config, ENABLED, 0, NVME_DELETE_CQ, 0, 0x40, 0x001, FAB_OPCODE },
                { &io_config, ENABLED, 0, 0x80, 0, 0x40, 0x001, FAB_OPCODE },
                { &io_config, ENABLED, 1, NVME_READ, 0, 0x41, 0, 0 },
                { &io_config, SHUT_DOWN, 0, NVME_IDENTIFY, 0, 0x40, 0x00c, FAB_SHUTDOWN },
                { &io_config, SHUT_DOWN, 1, NVME_READ, 0, 0x40, 0x00c, FAB_SHUTDOWN },
                { &io_config, SHUT_DOWN, 0, FAB, FCTYPE_PROPERTY_GET, 0, 0, 0 },
                { &disc_config, ENABLED, 0, NVME_GET_LOG_PAGE, 0, 0x40, 0, 0 },
                { &disc_config, ENABLED, 0, NVME_AER, 0, 0x40, 0, 0 },
                { &disc_config, ENABLED, 0, NVME_CREATE_SQ, 0, 0x40, 0x001, FAB_OPCODE },
                { &disc_config, ENABLED, 0, 0x10, 0, 0x40, 0x001, DISC_PROHIBITED },
                { &short_lived_config, ENABLED, 0, NVME_IDENTIFY, 0, 0x40, 0, 0 },
                { &short_lived_config, ENABLED, 0, NVME_AER, 0, 0x40, 0x001, DISC_PROHIBITED },
                { &short_lived_config, ENABLED, 0, NVME_KEEP_ALIVE, 0, 0x40, 0x001,
                  DISC_PROHIBITED },
                { &short_lived_config, ENABLED, 0, NVME_SET_FEATURES, 0, 0x40, 0x001,
                  DISC_PROHIBITED },
        };

        (void)state;
        for (size_t i = 0; i < COUNT(rows); i++) {
                struct controller c = in_phase(rows[i].cfg, rows[i].when);
                union sqe sqe = { .opc = rows[i].opc, .flags = rows[i].flags };
                bool connected = rows[i].when != NOT_CONNECTED;
                uint16_t status;

                memset(&policy, 0, sizeof(policy));
                if (rows[i].opc == FAB)
                        sqe.fctype = rows[i].fctype;
                status = controller_admit(&c, rows[i].qid, connected, &sqe);
                if (status != rows[i].status)
                        fail_msg("row %zu: status %xh", i, status);
                if (!connected)
                        assert_int_equal(controller_admit(NULL, 0, false, &sqe), rows[i].status);
                if (rows[i].rule == RULE_NONE)
                        continue;
                rule_add(&policy.waived, rows[i].rule);
                assert_int_equal(controller_admit(&c, rows[i].qid, connected, &sqe), 0);
        }
}

static void disconnect_format(void **state)
{
        struct controller c = in_phase(&io_config, ENABLED);
        union sqe sqe = { .disconnect = { .opc = NVME_FABRICS,
                                          .fctype = FCTYPE_DISCONNECT,
                                          .recfmt = le16(1) } };

        (void)state;
        assert_int_equal(controller_admit(&c, 1, true, &sqe), NVME_CONNECT_FORMAT);
        rule_add(&policy.waived, FAB_DISCONNECT_RECFMT);
        assert_int_equal(controller_admit(&c, 1, true, &sqe), 0);
}

static void aer_refused_on_request(void **state)
{
        struct controller c = in_phase(&disc_config, ENABLED);
        union sqe sqe = { .opc = NVME_AER };

        (void)state;
        rule_add(&policy.violated, DISC_PERSISTENT);
        assert_int_equal(controller_admit(&c, 0, true, &sqe), NVME_INVALID_OPCODE);
}

/* --- Keep Alive ------------------------------------------------------------------------------- */

static void kato_rounding(void **state)
{
        static const struct {
                uint16_t kas;
                uint32_t min, asked, granted;
        } rows[] = {
                { 1, 500, 0, 0 },           { 1, 500, 1, 500 },
                { 1, 500, 501, 600 },       { 1, 500, 600, 600 },
                { 10, 0, 1, 1000 },         { 10, 0, 1001, 2000 },
                { 10, 0, 120000, 120000 },  { 1, 0, UINT32_MAX, 4294967200u },
                { 3, 500, 120000, 120000 },
        };

        (void)state;
        for (size_t i = 0; i < COUNT(rows); i++) {
                struct controller_config cfg = io_config;
                struct controller c;

                cfg.kas = rows[i].kas;
                cfg.kato_min = rows[i].min;
                c = made(&cfg);
                assert_int_equal(controller_connect_kato(&c, rows[i].asked), 0);
                assert_int_equal(c.kato, rows[i].granted);
        }
}

static void keep_alive(struct controller *c, uint64_t now, uint16_t status)
{
        struct cqe cqe;

        memset(&cqe, 0xff, sizeof(cqe));
        controller_keep_alive(c, &cqe, now);
        assert_int_equal(cqe_status(&cqe), status);
        assert_int_equal(le64_get(cqe.result), 0);
}

/* Time rows: at each moment something happens, then the timer is looked at. */
static void kato_timing(void **state)
{
        enum { KA = 1, IO, FABRICS, OFF, ON, SHN, NOTHING };
        static const struct {
                const char *what;
                struct {
                        uint64_t now;
                        int event;
                        bool alive;
                } step[8];
        } rows[] = {
                { "silence", { { 999, NOTHING, true }, { 1000, NOTHING, false } } },
                { "Keep Alive",
                  { { 900, KA, true }, { 1899, NOTHING, true }, { 1900, NOTHING, false } } },
                { "traffic takes up to two intervals",
                  { { 1, IO, true },
                    { 1000, NOTHING, true },
                    { 1999, NOTHING, true },
                    { 2000, NOTHING, false } } },
                { "Keep Alive forgets the traffic before it",
                  { { 1, IO, true }, { 2, KA, true }, { 1002, NOTHING, false } } },
                { "Fabrics commands do not count",
                  { { 500, FABRICS, true }, { 1000, NOTHING, false } } },
                { "not while disabled",
                  { { 500, OFF, true },
                    { 5000, NOTHING, true },
                    { 6000, ON, true },
                    { 6999, NOTHING, true },
                    { 7000, NOTHING, false } } },
                { "not after shutdown", { { 500, SHN, true }, { 50000, NOTHING, true } } },
        };

        (void)state;
        for (size_t i = 0; i < COUNT(rows); i++) {
                struct controller c = enabled(&io_config, 1000);

                for (size_t n = 0; n < 8 && rows[i].step[n].event; n++) {
                        uint64_t now = rows[i].step[n].now;

                        if (rows[i].step[n].event == KA)
                                keep_alive(&c, now, 0);
                        else if (rows[i].step[n].event == IO)
                                controller_traffic(&c, false, now);
                        else if (rows[i].step[n].event == FABRICS)
                                controller_traffic(&c, true, now);
                        else if (rows[i].step[n].event == OFF)
                                set_cc(&c, 0, now);
                        else if (rows[i].step[n].event == ON)
                                set_cc(&c, CC_ON, now);
                        else if (rows[i].step[n].event == SHN)
                                set_cc(&c, CC_ON | CC_SHN_NORMAL, now);
                        if (controller_tick(&c, now) != rows[i].step[n].alive)
                                fail_msg("%s: step %zu", rows[i].what, n);
                }
        }
}

static void expiry_is_final(void **state)
{
        struct controller c = enabled(&io_config, 1000);

        (void)state;
        assert_false(controller_tick(&c, 1000));
        assert_true(c.dead);
        assert_true(c.csts & CSTS_CFS);
        keep_alive(&c, 1001, 0);
        assert_false(controller_tick(&c, 1002));
}

static void keep_alive_broken_on_request(void **state)
{
        struct controller c;

        (void)state;
        rule_add(&policy.violated, KA_EXPIRY);
        c = enabled(&io_config, 1000);
        assert_true(controller_tick(&c, 1000000));
        memset(&policy, 0, sizeof(policy));
        rule_add(&policy.violated, KA_ALIVE);
        c = enabled(&io_config, 1000);
        controller_traffic(&c, false, 900);
        keep_alive(&c, 900, 0);
        assert_false(controller_tick(&c, 1000));
        memset(&policy, 0, sizeof(policy));
        rule_add(&policy.violated, KA_COMMAND);
        c = enabled(&io_config, 1000);
        keep_alive(&c, 900, NVME_INVALID_FIELD);
}

static void idle_timing(void **state)
{
        static const struct {
                const struct controller_config *cfg;
                uint32_t kato, cc;
                uint64_t at;
                bool alive;
        } rows[] = {
                { &io_config, 5000, 0, IDLE - 1, true }, /* never enabled */
                { &io_config, 5000, 0, IDLE, false },
                { &io_config, 0, CC_ON, 100 * IDLE, true }, /* Keep Alive is off */
                { &io_config, 0, CC_ON | CC_SHN_NORMAL, IDLE - 1, true },
                { &io_config, 0, CC_ON | CC_SHN_NORMAL, IDLE, false },
                { &disc_config, 0, CC_ON, IDLE - 1, true }, /* not persistent */
                { &disc_config, 0, CC_ON, IDLE, false },
                { &disc_config, 2 * IDLE, CC_ON, 2 * IDLE - 1, true }, /* persistent */
                { &disc_config, 2 * IDLE, CC_ON, 2 * IDLE, false },
        };
        struct controller_config forever = disc_config;
        struct controller c;

        (void)state;
        for (size_t i = 0; i < COUNT(rows); i++) {
                c = made(rows[i].cfg);
                controller_connect_kato(&c, rows[i].kato);
                set_cc(&c, rows[i].cc, 0);
                if (controller_tick(&c, rows[i].at) != rows[i].alive)
                        fail_msg("row %zu", i);
        }
        c = enabled(&disc_config, 0);
        controller_traffic(&c, true, IDLE - 1);
        assert_true(controller_tick(&c, IDLE - 2)); /* by a clock that is behind */
        assert_true(controller_tick(&c, 2 * IDLE - 2));
        assert_false(controller_tick(&c, 2 * IDLE - 1));
        forever.idle_timeout = 0;
        c = enabled(&forever, 0);
        assert_true(controller_tick(&c, 1000 * IDLE));
}

static void kato_of_discovery(void **state)
{
        struct controller c = made(&short_lived_config);

        (void)state;
        assert_int_equal(controller_connect_kato(&c, 0), 0);
        assert_int_equal(controller_connect_kato(&c, 5000), NVME_CONNECT_PARAM);
        c = made(&disc_config);
        assert_int_equal(controller_connect_kato(&c, 0), 0);
        assert_int_equal(c.aec, 0);
        assert_int_equal(controller_connect_kato(&c, 5000), 0);
        assert_int_equal(c.aec, AEC_DISCOVERY); /* without being asked */
}

/* --- features --------------------------------------------------------------------------------- */

static uint16_t feature(struct controller *c, uint8_t opc, uint32_t dw10, uint32_t dw11,
                        uint32_t *dw0)
{
        union sqe sqe = { .opc = opc, .cdw10 = le32(dw10), .cdw11 = le32(dw11) };
        struct cqe cqe;

        memset(&cqe, 0xff, sizeof(cqe));
        assert_true(controller_feature(c, &sqe, &cqe, 0));
        assert_int_equal(le32_get(cqe.dw1), 0);
        *dw0 = le32_get(cqe.dw0);
        return cqe_status(&cqe);
}

static void feature_rows(void **state)
{
        enum { SET = NVME_SET_FEATURES, GET = NVME_GET_FEATURES, SV = 1u << 31, SEL = 1 << 8 };
        static const struct {
                const struct controller_config *cfg;
                uint8_t opc;
                uint32_t dw10, dw11;
                uint16_t status;
                uint32_t dw0, after; /* after: Get Features of the current value */
        } rows[] = {
                { &io_config, SET, FEAT_KATO, 700, 0, 0, 700 },
                { &io_config, SET, FEAT_KATO, 701, 0, 0, 800 },
                { &io_config, SET, FEAT_KATO, 1, 0, 0, 500 },
                { &io_config, SET, FEAT_KATO, 0, 0x01a, 0, 5000 },
                { &io_config, SET, SV | FEAT_KATO, 700, 0x10d, 0, 5000 },
                { &io_config, GET, FEAT_KATO, 0, 0, 5000, 5000 },
                { &io_config, GET, 1 * SEL | FEAT_KATO, 0, 0, 120000, 5000 },
                { &io_config, GET, 3 * SEL | FEAT_KATO, 0, 0, FEATURE_CHANGEABLE, 5000 },
                { &io_config, GET, 4 * SEL | FEAT_KATO, 0, 0x002, 0, 5000 },
                { &io_config, SET, FEAT_QUEUES, 0x00030003, 0, 0x00030003, 0x00030003 },
                { &io_config, SET, FEAT_QUEUES, 0x00000003, 0, 0, 0 },
                { &io_config, SET, FEAT_QUEUES, 0x00ff00ff, 0, 0x00070007, 0x00070007 },
                { &io_config, SET, FEAT_QUEUES, 0x0003ffff, 0x002, 0, 0x00070007 },
                { &io_config, SET, FEAT_QUEUES, 0xffff0003, 0x002, 0, 0x00070007 },
                { &io_config, GET, 2 * SEL | FEAT_QUEUES, 0, 0, 0x00070007, 0x00070007 },
                { &io_config, SET, FEAT_AEC, AEC_NS, 0, 0, AEC_NS },
                { &io_config, SET, FEAT_AEC, AEC_NS | 0x1f, 0, 0, AEC_NS | 0x1f },
                { &io_config, SET, FEAT_AEC, AEC_DISCOVERY, 0x002, 0, 0 },
                { &io_config, SET, FEAT_AEC, AEC_ANA, 0x002, 0, 0 },
                { &disc_config, GET, FEAT_AEC, 0, 0, AEC_DISCOVERY, AEC_DISCOVERY },
                { &disc_config, SET, FEAT_AEC, 0, 0, 0, 0 },
                { &disc_config, SET, FEAT_AEC, AEC_NS, 0x002, 0, AEC_DISCOVERY },
        };

        (void)state;
        for (size_t i = 0; i < COUNT(rows); i++) {
                struct controller c = enabled(rows[i].cfg, 5000);
                uint32_t dw0, now;
                uint16_t status;

                status = feature(&c, rows[i].opc, rows[i].dw10, rows[i].dw11, &dw0);
                feature(&c, GET, rows[i].dw10 & 0xff, 0, &now);
                if (status != rows[i].status || dw0 != rows[i].dw0 || now != rows[i].after)
                        fail_msg("row %zu: status %xh dw0 %xh, then %xh", i, status, dw0, now);
        }
}

static void features_elsewhere(void **state)
{
        struct controller c = enabled(&disc_config, 0);
        union sqe sqe = { .opc = NVME_GET_FEATURES, .cdw10 = le32(FEAT_QUEUES) };
        struct cqe cqe;

        (void)state;
        assert_false(controller_feature(&c, &sqe, &cqe, 0));
        sqe.cdw10 = le32(FEAT_WRITE_CACHE);
        c = enabled(&io_config, 0);
        assert_false(controller_feature(&c, &sqe, &cqe, 0));
}

static void queues_are_fixed_once_used(void **state)
{
        struct controller c = enabled(&io_config, 0);
        uint32_t dw0;

        (void)state;
        c.io_queues = 1;
        assert_int_equal(feature(&c, NVME_SET_FEATURES, FEAT_QUEUES, 0x10001, &dw0),
                         NVME_SEQUENCE_ERROR);
        assert_int_equal(c.queues, 8);
}

static void kato_zero_waived(void **state)
{
        struct controller c = enabled(&io_config, 1000);
        uint32_t dw0;

        (void)state;
        rule_add(&policy.waived, KA_ZERO);
        assert_int_equal(feature(&c, NVME_SET_FEATURES, FEAT_KATO, 0, &dw0), 0);
        assert_true(controller_tick(&c, 1000000));
}

static void reset_brings_defaults(void **state)
{
        struct controller c = enabled(&io_config, 5000);
        struct cqe cqe;
        uint32_t dw0;

        (void)state;
        feature(&c, NVME_SET_FEATURES, FEAT_KATO, 900, &dw0);
        feature(&c, NVME_SET_FEATURES, FEAT_AEC, AEC_NS, &dw0);
        feature(&c, NVME_SET_FEATURES, FEAT_QUEUES, 0, &dw0);
        controller_event(&c, AEN_NOTICE, AEN_INFO_NS_CHANGED, LOG_CHANGED_NS);
        set_cc(&c, 0, 0);
        assert_int_equal(c.kato, 5000);
        assert_int_equal(c.aec, 0);
        assert_int_equal(c.queues, 8);
        set_cc(&c, CC_ON, 0);
        assert_int_equal(controller_aer(&c, 1, &c), 0);
        assert_null(controller_aer_pop(&c, &cqe));
}

/* --- asynchronous events ---------------------------------------------------------------------- */

static void ns_event(struct controller *c)
{
        controller_event(c, AEN_NOTICE, AEN_INFO_NS_CHANGED, LOG_CHANGED_NS);
}

static void disc_event(struct controller *c)
{
        controller_event(c, AEN_NOTICE, AEN_INFO_DISCOVERY, LOG_DISCOVERY);
}

static struct controller listening(void)
{
        struct controller c = enabled(&io_config, 0);
        uint32_t dw0;

        feature(&c, NVME_SET_FEATURES, FEAT_AEC, AEC_NS, &dw0);
        return c;
}

static void event_is_masked_until_read(void **state)
{
        struct controller c = listening();
        int first, second;
        struct cqe cqe;

        (void)state;
        assert_int_equal(controller_aer(&c, 7, &first), 0);
        assert_null(controller_aer_pop(&c, &cqe));
        ns_event(&c);
        assert_ptr_equal(controller_aer_pop(&c, &cqe), &first);
        assert_int_equal(le32_get(cqe.dw0), 0x00040002);
        assert_int_equal(le16_get(cqe.cid), 7);
        assert_int_equal(le16_get(cqe.sf), 0);
        assert_int_equal(controller_aer(&c, 8, &second), 0);
        ns_event(&c); /* masked */
        assert_null(controller_aer_pop(&c, &cqe));
        controller_log_read(&c, LOG_SMART); /* not its log */
        ns_event(&c);
        assert_null(controller_aer_pop(&c, &cqe));
        controller_log_read(&c, LOG_CHANGED_NS);
        assert_null(controller_aer_pop(&c, &cqe)); /* what happened meanwhile was in the log */
        ns_event(&c);
        assert_ptr_equal(controller_aer_pop(&c, &cqe), &second);
}

/* What another log page tells is not lost meanwhile. */
static void event_of_another_log_waits_behind_the_mask(void **state)
{
        struct controller c = listening();
        int first, second;
        struct cqe cqe;
        uint32_t dw0;

        (void)state;
        assert_int_equal(feature(&c, NVME_SET_FEATURES, FEAT_AEC, AEC_NS | AEC_ANA, &dw0),
                         NVME_INVALID_FIELD);
        c.cfg.ana = true;
        assert_int_equal(feature(&c, NVME_SET_FEATURES, FEAT_AEC, AEC_NS | AEC_ANA, &dw0), 0);
        assert_int_equal(controller_aer(&c, 7, &first), 0);
        assert_int_equal(controller_aer(&c, 8, &second), 0);
        ns_event(&c);
        assert_ptr_equal(controller_aer_pop(&c, &cqe), &first);
        controller_event(&c, AEN_NOTICE, AEN_INFO_ANA, LOG_ANA);
        ns_event(&c);
        assert_null(controller_aer_pop(&c, &cqe));
        controller_log_read(&c, LOG_CHANGED_NS);
        assert_ptr_equal(controller_aer_pop(&c, &cqe), &second);
        assert_int_equal(le32_get(cqe.dw0), AEN_NOTICE | AEN_INFO_ANA << 8 | LOG_ANA << 16);
        assert_int_equal(c.events, 0);
}

static void lba_status_is_told_where_it_is_asked_for(void **state)
{
        struct controller c = listening();
        struct cqe cqe;
        uint32_t dw0;
        int aer;

        (void)state;
        assert_int_equal(controller_aer(&c, 7, &aer), 0);
        controller_event(&c, AEN_NOTICE, AEN_INFO_LBA_STATUS, LOG_LBA_STATUS);
        assert_null(controller_aer_pop(&c, &cqe));
        assert_int_equal(feature(&c, NVME_SET_FEATURES, FEAT_AEC, AEC_LBA_STATUS, &dw0), 0);
        controller_event(&c, AEN_NOTICE, AEN_INFO_LBA_STATUS, LOG_LBA_STATUS);
        assert_ptr_equal(controller_aer_pop(&c, &cqe), &aer);
        assert_int_equal(le32_get(cqe.dw0),
                         AEN_NOTICE | AEN_INFO_LBA_STATUS << 8 | LOG_LBA_STATUS << 16);
}

static void event_waits_for_aer(void **state)
{
        struct controller c = listening();
        struct cqe cqe;
        int aer;

        (void)state;
        ns_event(&c);
        ns_event(&c); /* the same one */
        assert_null(controller_aer_pop(&c, &cqe));
        assert_int_equal(controller_aer(&c, 1, &aer), 0);
        assert_ptr_equal(controller_aer_pop(&c, &cqe), &aer);
        assert_int_equal(c.events, 0);
        controller_log_read(&c, LOG_CHANGED_NS);
        ns_event(&c);
        controller_log_read(&c, LOG_CHANGED_NS); /* the host knows already */
        assert_int_equal(controller_aer(&c, 2, &aer), 0);
        assert_null(controller_aer_pop(&c, &cqe));
}

static void event_has_to_be_wanted(void **state)
{
        struct controller c = enabled(&io_config, 0);

        (void)state;
        ns_event(&c);
        disc_event(&c);
        controller_event(&c, AEN_NOTICE, AEN_INFO_ANA, LOG_ANA);
        controller_event(&c, AEN_NOTICE, 0x77, 0);
        assert_int_equal(c.events, 0);
        controller_event(&c, AEN_ERROR, 1, LOG_ERROR);
        assert_int_equal(c.events, 1);
        c = enabled(&disc_config, 5000);
        disc_event(&c);
        assert_int_equal(c.events, 1);
        assert_int_equal(c.event[0].dw0, 0x0070f002);
}

static void events_are_bounded(void **state)
{
        struct controller c = enabled(&io_config, 0);

        (void)state;
        for (unsigned i = 0; i < 300; i++)
                controller_event(&c, AEN_SMART, (uint8_t)i, LOG_SMART);
        assert_int_equal(c.events, CONTROLLER_EVENTS);
}

static void aer_limit(void **state)
{
        struct controller c = enabled(&io_config, 0);
        unsigned n;

        (void)state;
        for (n = 0; n < 4; n++)
                assert_int_equal(controller_aer(&c, (uint16_t)n, &c), 0);
        assert_int_equal(controller_aer(&c, 4, &c), NVME_AER_LIMIT);
        rule_add(&policy.waived, AER_LIMIT);
        for (; n < CONTROLLER_AERS; n++)
                assert_int_equal(controller_aer(&c, (uint16_t)n, &c), 0);
        assert_int_equal(controller_aer(&c, 99, &c), NVME_AER_LIMIT);
}

static void aers_are_taken_away(void **state)
{
        struct controller c = enabled(&io_config, 0);
        int one, two;

        (void)state;
        controller_aer(&c, 1, &one);
        controller_aer(&c, 2, &two);
        assert_null(controller_aer_take(&c, 3));
        assert_ptr_equal(controller_aer_take(&c, 2), &two);
        assert_ptr_equal(controller_aer_take(&c, UINT32_MAX), &one);
        assert_null(controller_aer_take(&c, UINT32_MAX));
}

static void aer_not_held_on_request(void **state)
{
        struct controller c = enabled(&io_config, 0);
        struct cqe cqe;

        (void)state;
        rule_add(&policy.violated, AER_HELD);
        controller_aer(&c, 1, &c);
        assert_ptr_equal(controller_aer_pop(&c, &cqe), &c);
        c = enabled(&disc_config, 0);
        controller_aer(&c, 1, &c);
        assert_ptr_equal(controller_aer_pop(&c, &cqe), &c);
        assert_int_equal(le32_get(cqe.dw0), 0x0070f002);
}

/* --- Connect ---------------------------------------------------------------------------------- */

#define SUBNQN  "nqn.2026-01.io.nvmfspec:sub"
#define HOSTNQN "nqn.2026-01.io.nvmfspec:host"

struct connect {
        struct connect_cmd cmd;
        struct connect_data data;
        struct controller *admin;
};

static struct connect good(struct controller *admin)
{
        struct connect c = {
                .cmd = { .qid = le16(admin ? 1 : 0), .sqsize = le16(31) },
                .data = { .hostid = { 1 },
                          .cntlid = le16(admin ? admin->cntlid : CNTLID_DYNAMIC),
                          .subnqn = SUBNQN,
                          .hostnqn = HOSTNQN },
                .admin = admin,
        };

        return c;
}

static void no_nul(char field[NQN_FIELD])
{
        size_t len = strlen(field);

        memset(field + len, 'x', NQN_FIELD - len);
}

static void break_recfmt(struct connect *c)
{
        c->cmd.recfmt = le16(1);
}
static void break_qid(struct connect *c)
{
        c->cmd.qid = le16(9);
}
static void break_qid_ffff(struct connect *c)
{
        c->cmd.qid = le16(0xffff);
}
static void break_sqsize_zero(struct connect *c)
{
        c->cmd.sqsize = le16(0);
}
static void break_sqsize_max(struct connect *c)
{
        c->cmd.sqsize = le16(128);
}
static void break_cntlid(struct connect *c)
{
        c->data.cntlid = le16(1);
}
static void break_cntlid_static(struct connect *c)
{
        c->data.cntlid = le16(CNTLID_STATIC);
}
static void break_subnqn_nul(struct connect *c)
{
        no_nul(c->data.subnqn);
}
static void break_subnqn_month(struct connect *c)
{
        memcpy(c->data.subnqn, "nqn.2026-13", 11);
}
static void break_subnqn_case(struct connect *c)
{
        memcpy(c->data.subnqn, "NQN", 3);
}
static void break_hostnqn_nul(struct connect *c)
{
        no_nul(c->data.hostnqn);
}
static void break_hostnqn_empty(struct connect *c)
{
        c->data.hostnqn[0] = '\0';
}
static void break_hostid_zero(struct connect *c)
{
        c->data.hostid[0] = 0;
}
static void break_io_hostnqn(struct connect *c)
{
        c->data.hostnqn[strlen(HOSTNQN)] = '2';
}
static void break_io_subnqn(struct connect *c)
{
        c->data.subnqn[strlen(SUBNQN)] = '2';
}
static void break_io_hostid(struct connect *c)
{
        c->data.hostid[15] = 1;
}
static void disable(struct connect *c)
{
        set_cc(c->admin, 0, 0);
}
static void shut_down(struct connect *c)
{
        set_cc(c->admin, CC_ON | CC_SHN_NORMAL, 0);
}
static void make_discovery(struct connect *c)
{
        c->admin->cfg.type = CONTROLLER_DISCOVERY;
}
static void nothing(struct connect *c)
{
        (void)c;
}
static void io_hostid_zero(struct connect *c)
{
        memset(c->data.hostid, 0, sizeof(c->data.hostid));
}
static void odd_but_legal(struct connect *c)
{
        c->cmd.cattr = 0xff;
        c->cmd.nvmsetid = le16(7);
        memset(c->cmd.rsvd54, 0xff, sizeof(c->cmd.rsvd54));
        memset(c->data.rsvd18, 0xff, sizeof(c->data.rsvd18));
        c->cmd.sqsize = le16(1);
}

static void connect_rows(void **state)
{
        enum { SQE = 0, DATA = CONNECT_IATTR_DATA };
        static const struct {
                void (*change)(struct connect *c);
                bool io;
                enum rule_id rule;
                uint16_t status;
                uint32_t ipo;
        } rows[] = {
                { nothing, false, RULE_NONE, 0, 0 },
                { nothing, true, RULE_NONE, 0, 0 },
                { odd_but_legal, false, RULE_NONE, 0, 0 },
                { odd_but_legal, true, RULE_NONE, 0, 0 },
                { io_hostid_zero, true, RULE_NONE, 0, 0 },
                { break_recfmt, false, FAB_CONNECT_RECFMT, 0x180, 0 },
                { break_recfmt, true, FAB_CONNECT_RECFMT, 0x180, 0 },
                { break_qid, true, FAB_CONNECT_QID_GRANTED, 0x182, SQE | 42 },
                { break_qid_ffff, true, FAB_CONNECT_QID, 0x182, SQE | 42 },
                { break_qid_ffff, false, FAB_CONNECT_QID, 0x182, SQE | 42 },
                { break_sqsize_zero, false, FAB_CONNECT_SQSIZE_ZERO, 0x182, SQE | 44 },
                { break_sqsize_zero, true, FAB_CONNECT_SQSIZE_ZERO, 0x182, SQE | 44 },
                { break_sqsize_max, false, FAB_CONNECT_SQSIZE_MAX, 0x182, SQE | 44 },
                { break_sqsize_max, true, FAB_CONNECT_SQSIZE_MAX, 0x182, SQE | 44 },
                { break_cntlid, false, FAB_CONNECT_CNTLID_DYN, 0x182, DATA | 16 },
                { break_cntlid_static, false, FAB_CONNECT_CNTLID_DYN, 0x182, DATA | 16 },
                { break_subnqn_nul, false, FAB_CONNECT_SUBNQN_SYNTAX, 0x182, DATA | 256 },
                { break_subnqn_month, false, FAB_CONNECT_SUBNQN_SYNTAX, 0x182, DATA | 256 },
                { break_subnqn_case, false, FAB_CONNECT_SUBNQN_SYNTAX, 0x182, DATA | 256 },
                { break_hostnqn_nul, false, FAB_CONNECT_HOSTNQN_SYNTAX, 0x182, DATA | 512 },
                { break_hostnqn_empty, false, FAB_CONNECT_HOSTNQN_SYNTAX, 0x182, DATA | 512 },
                { break_hostid_zero, false, FAB_CONNECT_HOSTID_ZERO, 0x182, DATA | 0 },
                { break_io_hostnqn, true, FAB_CONNECT_IO_HOSTNQN, 0x182, DATA | 512 },
                { break_io_subnqn, true, FAB_CONNECT_IO_SUBNQN, 0x182, DATA | 256 },
                { break_io_hostid, true, FAB_CONNECT_IO_HOSTID, 0x182, DATA | 0 },
                { disable, true, FAB_CONNECT_IO_ENABLED, 0x182, 0 },
                { shut_down, true, FAB_CONNECT_IO_ENABLED, 0x182, 0 },
                { make_discovery, true, FAB_DISC_IO, 0x182, 0 },
        };

        (void)state;
        for (size_t i = 0; i < COUNT(rows); i++) {
                struct controller admin = enabled(&io_config, 0);
                struct connect c = good(rows[i].io ? &admin : NULL);
                uint32_t ipo = 0xdead;
                uint16_t status;

                admin.cntlid = 1;
                memcpy(admin.hostid, c.data.hostid, sizeof(admin.hostid));
                memcpy(admin.hostnqn, c.data.hostnqn, sizeof(admin.hostnqn));
                memcpy(admin.subnqn, c.data.subnqn, sizeof(admin.subnqn));
                rows[i].change(&c);
                memset(&policy, 0, sizeof(policy));
                status = connect_check(&c.cmd, &c.data, c.admin, 127, &policy, &ipo);
                if (status != rows[i].status || ipo != rows[i].ipo)
                        fail_msg("row %zu: status %xh IPO %xh", i, status, ipo);
                rule_add(&policy.waived, rows[i].rule);
                if (rows[i].rule == FAB_CONNECT_QID) /* nor was FFFFh granted */
                        rule_add(&policy.waived, FAB_CONNECT_QID_GRANTED);
                assert_int_equal(connect_check(&c.cmd, &c.data, c.admin, 127, &policy, &ipo), 0);
                assert_int_equal(ipo, 0);
        }
}

static void entries(void **state)
{
        static const uint16_t rows[][2] = { { 0, 2 },     { 1, 2 },     { 31, 32 },
                                            { 127, 128 }, { 128, 128 }, { 0xffff, 128 } };

        (void)state;
        for (size_t i = 0; i < COUNT(rows); i++) {
                struct connect_cmd cmd = { .sqsize = le16(rows[i][0]) };

                assert_int_equal(connect_entries(&cmd, 127), rows[i][1]);
        }
}

static void heads(void **state)
{
        const struct connect_cmd largest = { .sqsize = le16(0xffff) };
        struct sq sq = { 0 };

        (void)state;
        sq_free(&sq); /* before Connect */
        assert_int_equal(sq_head(&sq), 0);
        sq_init(&sq, 3, false);
        for (uint16_t i = 1; i < 10; i++) {
                sq_free(&sq);
                assert_int_equal(sq_head(&sq), i % 3);
        }
        sq_init(&sq, 3, true);
        sq_free(&sq);
        assert_int_equal(sq_head(&sq), 0);
        sq_init(&sq, connect_entries(&largest, 0xffff), false); /* SQHD uses all its bits */
        for (uint32_t i = 1; i <= 65537; i++) {
                sq_free(&sq);
                assert_int_equal(sq_head(&sq), i % 65536);
        }
}

/* --- the subsystem as a whole ----------------------------------------------------------------- */

static void subsystem_wishes(void **state)
{
        struct controller c = enabled(&whole_config, 0), other = enabled(&io_config, 0);
        uint64_t value;

        (void)state;
        assert_true(controller_cap(&whole_config) & CAP_NSSRS);
        assert_true(controller_supports(&whole_config, NVME_FORMAT));
        assert_false(controller_supports(&io_config, NVME_FORMAT));
        assert_int_not_equal(set(&other, PROP_NSSR, PROP_ATTRIB_4, NSSR_RESET, 0), 0);
        assert_int_equal(get(&c, PROP_NSSR, PROP_ATTRIB_4, &value), 0);
        assert_int_equal(value, 0);
        assert_int_not_equal(set(&c, PROP_NSSR, PROP_ATTRIB_8, NSSR_RESET, 0), 0);
        assert_int_equal(set(&c, PROP_NSSR, PROP_ATTRIB_4, 1, 0), 0);
        assert_int_equal(c.wish, WISH_NONE);
        assert_int_equal(set(&c, PROP_NSSR, PROP_ATTRIB_4, NSSR_RESET, 0), 0);
        assert_int_equal(c.wish, WISH_RESET);
        assert_int_equal(set(&c, PROP_NSSD, PROP_ATTRIB_4, NSSD_NORMAL, 0), 0);
        assert_int_equal(c.wish, WISH_SHUTDOWN);
        assert_int_equal(set(&c, PROP_NSSD, PROP_ATTRIB_4, NSSD_ABRUPT, 0), 0);
        assert_int_equal(c.wish, WISH_ABRUPT_SHUTDOWN);
        assert_int_equal(set(&c, PROP_NSSD, PROP_ATTRIB_4, 1, 0), 0);
        assert_int_equal(c.wish, WISH_NONE);
        rule_add(&policy.flaws, FLAW_NSSR_ANY);
        rule_add(&policy.flaws, FLAW_NSSD_ANY);
        set(&c, PROP_NSSR, PROP_ATTRIB_4, 1, 0);
        assert_int_equal(c.wish, WISH_RESET);
        set(&c, PROP_NSSD, PROP_ATTRIB_4, 1, 0);
        assert_int_equal(c.wish, WISH_SHUTDOWN);
}

static void subsystem_was_reset(void **state)
{
        struct controller c = made(&whole_config);

        (void)state;
        controller_subsystem_state(&c, false, true);
        assert_int_equal(c.csts, CSTS_NSSRO);
        set_cc(&c, CC_ON, 0);
        assert_int_equal(c.csts, CSTS_NSSRO | CSTS_RDY);
        set_cc(&c, 0, 0);
        assert_int_equal(c.csts, CSTS_NSSRO);
        set_cc(&c, CC_EN | 1 << 7, 0);
        assert_int_equal(c.csts, CSTS_NSSRO | CSTS_CFS);
        rule_add(&policy.flaws, FLAW_NSSRO_STAYS);
        assert_int_equal(set(&c, PROP_CSTS, PROP_ATTRIB_4, CSTS_NSSRO, 0), 0);
        assert_true(c.csts & CSTS_NSSRO);
        setup(NULL);
        assert_int_equal(set(&c, PROP_CSTS, PROP_ATTRIB_4, CSTS_NSSRO, 0), 0);
        assert_false(c.csts & CSTS_NSSRO);
        rule_add(&policy.flaws, FLAW_NSSR_UNTOLD);
        controller_subsystem_state(&c, false, true);
        assert_false(c.csts & CSTS_NSSRO);
}

static void subsystem_shuts_down(void **state)
{
        enum { DOWN = CSTS_ST | CSTS_SHST_COMPLETE };
        struct controller c = enabled(&whole_config, 0);
        struct cqe cqe;
        int request;

        (void)state;
        assert_int_equal(controller_aer(&c, 1, &request), 0);
        controller_subsystem_shutdown(&c, true, false);
        assert_int_equal(c.csts, CSTS_RDY | CSTS_ST | CSTS_SHST_OCCURS);
        assert_ptr_equal(controller_aer_pop(&c, &cqe), &request);
        assert_int_equal(le32_get(cqe.dw0), AEN_IMMEDIATE);
        assert_int_equal(c.masked, 0);
        controller_subsystem_shutdown(&c, true, true);
        assert_int_equal(c.csts, CSTS_RDY | DOWN);
        assert_int_equal(c.events, 0);
        set_cc(&c, CC_ON | CC_SHN_NORMAL, 0);
        assert_int_equal(c.csts, CSTS_RDY | DOWN);
        set_cc(&c, 0, 0);
        assert_int_equal(c.csts, DOWN);
        set_cc(&c, CC_ON, 0);
        assert_int_equal(c.csts, DOWN);
        rule_add(&policy.flaws, FLAW_NSS_CLEARED);
        set_cc(&c, 0, 0);
        assert_int_equal(c.csts, 0);
        c = made(&whole_config);
        controller_subsystem_state(&c, true, false);
        assert_int_equal(c.csts, DOWN);
}

static void subsystem_shuts_down_wrongly(void **state)
{
        struct controller c = enabled(&whole_config, 0);
        int request;

        (void)state;
        c.cntlid = 1;
        assert_int_equal(controller_aer(&c, 1, &request), 0);
        rule_add(&policy.flaws, FLAW_NSS_SILENT);
        rule_add(&policy.flaws, FLAW_NSS_UNFINISHED);
        rule_add(&policy.flaws, FLAW_NSS_TYPE);
        controller_subsystem_shutdown(&c, true, false);
        assert_int_equal(c.events, 0);
        controller_subsystem_shutdown(&c, true, true);
        assert_int_equal(c.csts, CSTS_RDY | CSTS_SHST_OCCURS);
}

static void independent_of_media(void **state)
{
        union sqe identify = { .opc = NVME_IDENTIFY };
        struct controller c = made(&io_config), disc = made(&disc_config);
        uint64_t before, with;

        (void)state;
        get(&c, PROP_CRTO, PROP_ATTRIB_4, &before);
        set_cc(&disc, CC_CRIME, 0);
        assert_false(disc.cc & CC_CRIME);
        set_cc(&c, CC_ON | CC_CRIME, 0);
        assert_true(c.cc & CC_CRIME);
        assert_int_equal(controller_admit(&c, 0, true, &identify), 0);
        get(&c, PROP_CRTO, PROP_ATTRIB_4, &with);
        assert_int_equal(with, before);
        rule_add(&policy.flaws, FLAW_CRIME_MEDIA);
        rule_add(&policy.flaws, FLAW_CRIME_CRTO);
        rule_add(&policy.flaws, FLAW_CC_INITIAL);
        assert_int_equal(controller_admit(&c, 0, true, &identify), NVME_MEDIA_NOT_READY);
        get(&c, PROP_CRTO, PROP_ATTRIB_4, &with);
        assert_int_not_equal(with, before);
        assert_int_not_equal(made(&io_config).cc, 0);
}

static void kato_default(void **state)
{
        union sqe sqe = { .opc = NVME_GET_FEATURES, .cdw10 = le32(FEAT_KATO | 1 << 8) };
        struct controller c = enabled(&io_config, 5000);
        struct cqe cqe = { 0 };

        (void)state;
        assert_true(controller_feature(&c, &sqe, &cqe, 0));
        assert_int_equal(le32_get(cqe.dw0), 120000);
        rule_add(&policy.flaws, FLAW_KATO_DEFAULT);
        assert_true(controller_feature(&c, &sqe, &cqe, 0));
        assert_int_equal(le32_get(cqe.dw0), 0);
}

int main(void)
{
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup(property_rows, setup),
                cmocka_unit_test_setup(property_values, setup),
                cmocka_unit_test_setup(ready_in_time, setup),
                cmocka_unit_test_setup(cc_sequences, setup),
                cmocka_unit_test_setup(broken_on_request, setup),
                cmocka_unit_test_setup(admission, setup),
                cmocka_unit_test_setup(disconnect_format, setup),
                cmocka_unit_test_setup(aer_refused_on_request, setup),
                cmocka_unit_test_setup(kato_rounding, setup),
                cmocka_unit_test_setup(kato_timing, setup),
                cmocka_unit_test_setup(expiry_is_final, setup),
                cmocka_unit_test_setup(keep_alive_broken_on_request, setup),
                cmocka_unit_test_setup(idle_timing, setup),
                cmocka_unit_test_setup(kato_of_discovery, setup),
                cmocka_unit_test_setup(feature_rows, setup),
                cmocka_unit_test_setup(features_elsewhere, setup),
                cmocka_unit_test_setup(queues_are_fixed_once_used, setup),
                cmocka_unit_test_setup(kato_zero_waived, setup),
                cmocka_unit_test_setup(reset_brings_defaults, setup),
                cmocka_unit_test_setup(event_is_masked_until_read, setup),
                cmocka_unit_test_setup(event_of_another_log_waits_behind_the_mask, setup),
                cmocka_unit_test_setup(lba_status_is_told_where_it_is_asked_for, setup),
                cmocka_unit_test_setup(event_waits_for_aer, setup),
                cmocka_unit_test_setup(event_has_to_be_wanted, setup),
                cmocka_unit_test_setup(events_are_bounded, setup),
                cmocka_unit_test_setup(aer_limit, setup),
                cmocka_unit_test_setup(aers_are_taken_away, setup),
                cmocka_unit_test_setup(aer_not_held_on_request, setup),
                cmocka_unit_test_setup(connect_rows, setup),
                cmocka_unit_test_setup(entries, setup),
                cmocka_unit_test_setup(subsystem_wishes, setup),
                cmocka_unit_test_setup(subsystem_was_reset, setup),
                cmocka_unit_test_setup(subsystem_shuts_down, setup),
                cmocka_unit_test_setup(subsystem_shuts_down_wrongly, setup),
                cmocka_unit_test_setup(independent_of_media, setup),
                cmocka_unit_test_setup(kato_default, setup),
                cmocka_unit_test_setup(heads, setup),
        };

        return cmocka_run_group_tests_name("controller", tests, NULL, NULL);
}

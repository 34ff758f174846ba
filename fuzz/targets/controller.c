/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The controller without transport: Connect's checks, properties, features, Keep Alive, asynchronous
 * events, in any order and at any time. Each AER that is parked comes back once.
 *
 * Input: configuration (8 bytes), then steps: what (1), its numbers.
 */
#include "pdu/nvme/machine/controller.h"
#include "fuzz/fuzz.h"

enum { CFG_DISCOVERY = 1, CFG_PERSISTENT = 2, CFG_WAIVED = 4, CFG_VIOLATES = 8, CFG_FREE = 16 };

struct rig {
        struct fuzz_input in;
        struct controller c;
        struct rule_policy policy;
        uint64_t now;
        unsigned parked, back;
        char tokens[CONTROLLER_AERS + 1];
        bool out[CONTROLLER_AERS + 1]; /* this token is parked */
};

static bool is_status(uint16_t status)
{
        return (status & ~STATUS_DNR) <= 0x7ff;
}

static union sqe take_sqe(struct rig *rig)
{
        static const uint8_t opcodes[] = { NVME_FABRICS,      NVME_IDENTIFY, NVME_SET_FEATURES,
                                           NVME_GET_FEATURES, NVME_AER,      NVME_GET_LOG_PAGE,
                                           NVME_KEEP_ALIVE,   NVME_ABORT };
        uint8_t how = bytes_u8(&rig->in);
        union sqe sqe = { .opc = opcodes[how % 8] };

        if (how & 0x80) {
                bytes_copy(&rig->in, &sqe, sizeof(sqe));
                return sqe;
        }
        sqe.fctype = bytes_u8(&rig->in);
        sqe.cdw10 = le32(bytes_u32(&rig->in));
        sqe.cdw11 = le32(bytes_u32(&rig->in));
        return sqe;
}

enum { CONNECT_JOINS = 1, CONNECT_VALID = 2, CONNECT_ADMIN = 4 };

/* One that nothing is wrong with, but for a few bytes of it. */
static void begin_connect(struct rig *rig, struct connect_cmd *cmd, struct connect_data *data,
                          uint16_t qid)
{
        *cmd = (struct connect_cmd) {
                .opc = NVME_FABRICS, .fctype = FCTYPE_CONNECT, .qid = le16(qid), .sqsize = le16(31)
        };
        *data = (struct connect_data) { .hostid = { 1 }, .cntlid = le16(CNTLID_DYNAMIC) };
        text_fill(data->subnqn, sizeof(data->subnqn), rig->c.subnqn);
        text_fill(data->hostnqn, sizeof(data->hostnqn), rig->c.hostnqn);
        for (unsigned n = bytes_u8(&rig->in) % 5; n > 0; n--) {
                uint16_t at = bytes_u16(&rig->in) % (sizeof(*cmd) + sizeof(*data));
                uint8_t to = bytes_u8(&rig->in);

                if (at < sizeof(*cmd))
                        ((uint8_t *)cmd)[at] = to;
                else
                        ((uint8_t *)data)[at - sizeof(*cmd)] = to;
        }
}

/* SQHD stays within the queue, however many commands come. */
static void check_sq(const struct connect_cmd *cmd, uint16_t max, unsigned ends)
{
        struct sq sq = { 0 };

        sq_free(&sq);
        must(sq_head(&sq) == 0);
        sq_init(&sq, connect_entries(cmd, max), cmd->cattr & CATTR_DISABLE_SQFC);
        while (ends-- > 0) {
                sq_free(&sq);
                must(sq_head(&sq) < sq.size && (!sq.no_flow_control || sq_head(&sq) == 0));
        }
}

static void connects(struct rig *rig)
{
        struct connect_data data;
        struct connect_cmd cmd;
        uint32_t ipo = 0;
        uint16_t max = bytes_u16(&rig->in), status;
        unsigned how = bytes_u8(&rig->in);
        bool joins = how & CONNECT_JOINS;

        if (how & CONNECT_VALID) {
                begin_connect(rig, &cmd, &data, how & CONNECT_ADMIN ? 0 : 1);
        } else {
                bytes_copy(&rig->in, &cmd, sizeof(cmd));
                bytes_copy(&rig->in, &data, sizeof(data));
        }
        status = connect_check(&cmd, &data, joins ? &rig->c : NULL, max, &rig->policy, &ipo);
        must(is_status(status));
        must(connect_entries(&cmd, max) >= 2);
        must((status & ~STATUS_DNR) != NVME_CONNECT_PARAM ||
             (ipo & 0xffff) < (ipo & CONNECT_IATTR_DATA ? sizeof(data) : sizeof(cmd)));
        check_sq(&cmd, max, how >> 3);
        (void)controller_connect_kato(&rig->c, le32_get(cmd.kato));
}

static void parks(struct rig *rig)
{
        unsigned i = 0;

        while (i < CONTROLLER_AERS && rig->out[i])
                i++;
        if (controller_aer(&rig->c, bytes_u8(&rig->in), &rig->tokens[i]) != 0)
                return;
        must(!rig->out[i]);
        rig->out[i] = true;
        rig->parked++;
}

static bool comes_back(struct rig *rig, const void *request)
{
        const char *token = request;

        if (!token)
                return false;
        must(token >= rig->tokens && token <= rig->tokens + CONTROLLER_AERS);
        must(rig->out[token - rig->tokens]);
        rig->out[token - rig->tokens] = false;
        rig->back++;
        return true;
}

static void take_events(struct rig *rig)
{
        struct cqe cqe = { 0 };

        while (comes_back(rig, controller_aer_pop(&rig->c, &cqe)))
                must(cqe_status(&cqe) == 0);
}

static void events(struct rig *rig)
{
        controller_event(&rig->c, bytes_u8(&rig->in) % 8, bytes_u8(&rig->in), bytes_u8(&rig->in));
        take_events(rig);
}

/* What its owner tells it of a shutdown, its own and that of the subsystem. */
static void shutdowns(struct rig *rig)
{
        uint8_t how = bytes_u8(&rig->in);

        if (how % 4 == 0)
                controller_shutdown_begin(&rig->c);
        else if (how % 4 == 1)
                controller_shutdown_end(&rig->c, how & 4);
        else if (how % 4 == 2)
                controller_subsystem_shutdown(&rig->c, how & 4, how & 8);
        else
                controller_subsystem_state(&rig->c, how & 4, how & 8);
        take_events(rig);
        rig->c.wish = WISH_NONE;
}

static void property(struct rig *rig)
{
        struct property_cmd cmd = { .opc = NVME_FABRICS, .fctype = FCTYPE_PROPERTY_GET };
        uint8_t how = bytes_u8(&rig->in);
        struct cqe cqe = { 0 };

        cmd.attrib = how & 7;
        cmd.ofst = le32(how & 8 ? bytes_u32(&rig->in) : (uint32_t)PROP_CC);
        cmd.value = le64(how & 16 ? bytes_take(&rig->in, 8) : CC_EN | CC_IOSQES | CC_IOCQES);
        if (how & 32)
                controller_property_get(&rig->c, &cmd, &cqe, rig->now);
        else
                controller_property_set(&rig->c, &cmd, &cqe, rig->now);
        must(is_status(cqe_status(&cqe)));
}

static void feature(struct rig *rig)
{
        union sqe sqe = take_sqe(rig);
        struct cqe cqe = { 0 };

        sqe.opc = sqe.fctype & 1 ? NVME_SET_FEATURES : NVME_GET_FEATURES;
        (void)feature_select(&sqe);
        (void)feature_check(&sqe);
        (void)controller_feature(&rig->c, &sqe, &cqe, rig->now);
        must(is_status(cqe_status(&cqe)));
}

static void step(struct rig *rig)
{
        unsigned what = bytes_u8(&rig->in);
        struct cqe cqe = { 0 };
        union sqe sqe;

        switch (what % 10) {
        case 0:
                connects(rig);
                break;
        case 1:
                sqe = take_sqe(rig);
                must(is_status(controller_admit(&rig->c, what / 10 & 1, what & 0x80, &sqe)));
                break;
        case 2:
                property(rig);
                break;
        case 3:
                feature(rig);
                break;
        case 4:
                rig->now += bytes_u16(&rig->in);
                (void)controller_tick(&rig->c, rig->now);
                break;
        case 5:
                parks(rig);
                break;
        case 6:
                events(rig);
                break;
        case 7:
                controller_log_read(&rig->c, bytes_u8(&rig->in));
                break;
        case 8:
                (void)comes_back(rig, controller_aer_take(&rig->c, bytes_u8(&rig->in)));
                break;
        default:
                if (what >= 200) {
                        shutdowns(rig);
                        break;
                }
                controller_traffic(&rig->c, what / 10 & 1, rig->now);
                controller_keep_alive(&rig->c, &cqe, rig->now);
                break;
        }
}

/* What a controller breaks by itself. */
static enum rule_id broken(uint16_t n)
{
        static enum rule_id rules[RULES];
        static unsigned count;

        if (count == 0)
                rule_each (rule)
                        if (rule_get(rule)->violators & V_CONTROLLER)
                                rules[count++] = rule;
        return rules[n % count];
}

static void start_rig(struct rig *rig)
{
        unsigned bits = bytes_u8(&rig->in), aers;
        struct controller_config cfg = { .policy = &rig->policy };

        cfg.type = bits & CFG_DISCOVERY ? CONTROLLER_DISCOVERY : CONTROLLER_IO;
        cfg.persistent = bits & CFG_PERSISTENT;
        cfg.mqes = bytes_u16(&rig->in);
        cfg.queues_max = bytes_u8(&rig->in);
        cfg.kas = 1 + bytes_u8(&rig->in);
        cfg.kato_min = bytes_u8(&rig->in) * 100u;
        cfg.idle_timeout = bytes_u8(&rig->in) * 100u;
        aers = bytes_u8(&rig->in);
        cfg.aerl = (uint8_t)(aers % CONTROLLER_AERS);
        cfg.whole = aers & 0x40;
        cfg.administrative = aers & 0x80;
        if (bits & CFG_WAIVED)
                rig->policy.waived = *fuzz_all_rules();
        if (bits & CFG_VIOLATES)
                rule_add(&rig->policy.violated, broken(bytes_u16(&rig->in)));
        if (bits & CFG_FREE)
                cfg.policy = NULL;
        controller_init(&rig->c, &cfg, rig->now);
        rig->c.io_queues = (uint16_t)(bits >> 5);
        text_fill(rig->c.subnqn, sizeof(rig->c.subnqn), "nqn.2026-01.org.example:subsystem");
        text_fill(rig->c.hostnqn, sizeof(rig->c.hostnqn), "nqn.2026-01.org.example:host");
        rig->c.hostid[0] = 1;
        rig->c.queues = 3;
        (void)controller_cap(&cfg);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
        struct rig rig = { .in = bytes_of(input, size) };

        start_rig(&rig);
        while (rig.in.left > 0)
                step(&rig);
        while (comes_back(&rig, controller_aer_take(&rig.c, UINT32_MAX)))
                ;
        must(rig.parked == rig.back);
        return 0;
}

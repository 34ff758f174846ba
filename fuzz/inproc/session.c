/* SPDX-License-Identifier: BSD-3-Clause */
#include "session.h"

#include "session_own.h"

static uint8_t disk[BLOCK * BLOCKS], host_data[COMMANDS][DATA];
static bool disk_written, data_written; /* in this run */

/* --- the owner of the controller's side --------------------------------------------------------- */

static uint16_t admit_io(struct request *r)
{
        uint32_t blocks = (le32_get(r->sqe.cdw12) & RW_NLB_MASK) + 1;

        r->xfer = sqe_xfer(&r->sqe);
        if (r->xfer == XFER_NONE)
                return 0;
        r->len = blocks * BLOCK;
        if (r->sqe.opc == NVME_READ || r->sqe.opc == NVME_WRITE)
                return blocks > BLOCKS || le32_get(r->sqe.cdw10) > BLOCKS - blocks ? NVME_LBA_RANGE
                                                                                   : 0;
        return 0;
}

static uint16_t admit_admin(struct request *r)
{
        r->xfer = sqe_xfer(&r->sqe);
        r->len =
            r->sqe.opc == NVME_IDENTIFY ? IDENTIFY_LEN : le32_get(r->sqe.sgl.len) % 20000 & ~3u;
        if (r->sqe.opc == NVME_SET_FEATURES || r->sqe.opc == NVME_GET_FEATURES)
                r->len = (le32_get(r->sqe.cdw10) & 0xff) == FEAT_HOSTID ? 16 : 0;
        return 0;
}

static bool is_fabrics(const struct request *r, enum fctype type)
{
        return r->sqe.opc == NVME_FABRICS && r->sqe.fctype == type;
}

static uint16_t admit(void *user, struct request *r)
{
        struct play *p = user;

        if (is_fabrics(r, FCTYPE_CONNECT)) {
                r->xfer = XFER_H2C;
                r->len = CONNECT_DATA_LEN;
                return p->owner.connected ? NVME_SEQUENCE_ERROR : 0;
        }
        if (!p->owner.connected)
                return NVME_SEQUENCE_ERROR;
        if (r->sqe.opc == NVME_FABRICS)
                return 0;
        return p->owner.qid == 0 ? admit_admin(r) : admit_io(r);
}

static void connect_queue(struct play *p, struct request *r)
{
        unsigned entries = le16_get(r->sqe.connect.sqsize) + 1u;

        if (p->owner.connected || entries < 2 || entries > 128 ||
            !toy_connect(&p->owner, r, entries))
                r->cqe.sf = status_field(NVME_CONNECT_PARAM);
}

/* Ends the command that it names, wherever that is, but for the Abort itself, and for a Connect: its
 * queue is made. */
static void abort_command(struct play *p, const struct request *abort)
{
        struct request *r =
            requests_find(abort->queue, (uint16_t)(le32_get(abort->sqe.cdw10) >> 16));

        if (!r || r == abort || (is_fabrics(r, FCTYPE_CONNECT) && p->owner.connected))
                return;
        for (unsigned i = 0; i < p->n_parked; i++)
                if (p->parked[i] == r) {
                        p->parked[i] = p->parked[--p->n_parked];
                        break;
                }
        r->cqe = (struct cqe) { .sf = status_field(NVME_ABORT_REQUESTED) };
        request_complete(r);
}

/* A Controller Reset ends all but Fabrics commands, without an answer. */
static void set_cc(struct play *p, const struct request *set)
{
        uint32_t cc = (uint32_t)le64_get(set->sqe.property.value), was = p->cc;
        unsigned kept = 0, n = p->n_parked;

        p->cc = cc;
        if (!(was & CC_EN) || (cc & CC_EN))
                return;
        requests_reset(set->queue);
        p->n_parked = 0;
        for (unsigned i = 0; i < n; i++) {
                struct request *r = p->parked[i];

                if (r->sqe.opc == NVME_FABRICS) {
                        p->parked[kept++] = r;
                        continue;
                }
                r->no_response = true;
                request_complete(r);
        }
        p->n_parked = kept;
}

static void carry_out(struct play *p, struct request *r)
{
        uint32_t digest = FUZZ_DIGEST_START;

        if (r->xfer == XFER_H2C)
                fuzz_digest(&digest, r->data, r->len);
        if (is_fabrics(r, FCTYPE_CONNECT)) {
                connect_queue(p, r);
        } else if (is_fabrics(r, FCTYPE_PROPERTY_SET)) {
                if (p->owner.qid == 0 && le32_get(r->sqe.property.ofst) == PROP_CC)
                        set_cc(p, r);
        } else if (r->sqe.opc == NVME_ABORT && p->owner.qid == 0) {
                abort_command(p, r);
        } else if (r->xfer == XFER_C2H) {
                for (uint32_t i = 0, n; i < r->len; i += n) {
                        n = r->len - i < sizeof(disk) ? r->len - i : (uint32_t)sizeof(disk);
                        memcpy(r->data + i, disk, n);
                }
                r->c2h_len = r->len;
        } else if (r->sqe.opc == NVME_WRITE && p->owner.qid > 0) {
                memcpy(disk + (size_t)le32_get(r->sqe.cdw10) * BLOCK, r->data, r->len);
                disk_written = true;
        }
}

static void execute(void *user, struct request *r)
{
        struct play *p = user;

        r->success_ok = is(p, SESSION_SUCCESS) && p->owner.no_flow_control;
        carry_out(p, r);
        if (!is(p, SESSION_DEFERS) || p->n_parked == PARKED || is_fabrics(r, FCTYPE_PROPERTY_SET))
                request_complete(r); /* a reset: what comes after it is not to be reset */
        else
                p->parked[p->n_parked++] = r;
}

void owner_unpark(struct play *p)
{
        while (p->n_parked > 0)
                request_complete(p->parked[--p->n_parked]);
}

const struct request_ops owner_ops = { .admit = admit,
                                       .execute = execute,
                                       .buffer_get = toy_buffer_get,
                                       .buffer_put = toy_buffer_put,
                                       .sqhd = toy_sqhd };

/* --- the owner of the host's side --------------------------------------------------------------- */

static void done(struct host_cmd *cmd, void *user)
{
        struct play *p = user;

        must(p->busy[cmd - p->cmd]);
        must(cmd->got <= cmd->len || cmd->xfer != XFER_C2H || is_lenient(p));
        p->busy[cmd - p->cmd] = false;
}

static void submit_one(struct play *p, unsigned i)
{
        static const uint8_t admin[] = { NVME_FABRICS, NVME_IDENTIFY, NVME_AER, NVME_SET_FEATURES };
        static const uint8_t io[] = { NVME_FABRICS, NVME_READ, NVME_WRITE, NVME_FLUSH };
        const uint8_t *opcodes = is(p, SESSION_IO) ? io : admin;
        unsigned n = p->submitted;
        struct host_cmd *cmd = &p->cmd[i];

        *cmd = (struct host_cmd) { .done = done, .user = p };
        cmd->sqe.opc = opcodes[n == 0 ? 0 : 1 + (n - 1) % 3];
        if (n == 0) {
                cmd->sqe.fctype = FCTYPE_CONNECT;
                cmd->sqe.connect.sqsize = le16(ADMIN_SQ_MIN - 1);
                cmd->sqe.connect.qid = le16(is(p, SESSION_IO) ? 1 : 0);
        }
        cmd->xfer = sqe_xfer(&cmd->sqe);
        if (cmd->sqe.opc == NVME_SET_FEATURES)
                cmd->xfer = XFER_NONE;
        cmd->command_buffer = n % 2;
        if (cmd->xfer != XFER_NONE) {
                cmd->data = n % 5 == 4 && cmd->xfer == XFER_C2H && p->s->transport == SEQ_TCP
                                ? NULL
                                : host_data[i];
                data_written |= cmd->xfer == XFER_C2H;
                cmd->len = n == 0 ? CONNECT_DATA_LEN : n % 3 == 0 ? 4096 : DATA;
        }
        p->busy[i] = true;
        if (p->submit(p, cmd) == 0)
                p->submitted++;
        else
                p->busy[i] = false;
}

void client_submit(struct play *p)
{
        for (unsigned i = 0; i < COMMANDS; i++)
                if (!p->busy[i])
                        submit_one(p, i);
}

uint8_t *client_data(size_t *len)
{
        *len = sizeof(host_data);
        return host_data[0];
}

/* --- all of it ---------------------------------------------------------------------------------- */

/* Only what the last run wrote is written again: it is more than most sessions touch. */
static void restore_data(void)
{
        static bool begun;

        if (disk_written || !begun)
                memset(disk, 0x11, sizeof(disk));
        if (data_written || !begun)
                memset(host_data, 0x22, sizeof(host_data));
        disk_written = data_written = false;
        begun = true;
}

void session_play(const struct sequence *s, int cuts, struct session_report *r)
{
        struct play p = { .s = s, .r = r, .owner.buffers_max = s->config & SESSION_HUNGRY ? 1 : 0 };

        *r = (struct session_report) { .digest = FUZZ_DIGEST_START,
                                       .end = "no memory",
                                       .message = r->message,
                                       .user = r->user };
        if (s->config & SESSION_WAIVED)
                p.policy.waived = *fuzz_all_rules();
        if (s->violates != RULE_NONE)
                rule_add(&p.policy.violated, s->violates);
        seq_bind_init(&p.bind, s->side, "nqn.2014-08.org.nvmexpress:uuid:fuzz", "nqn.fuzz");
        restore_data();
        fuzz_run_begin();
        fuzz_scarce(s->scarce);
        if (s->transport == SEQ_RDMA)
                session_play_rdma(&p);
        else
                session_play_tcp(&p, cuts);
        fuzz_scarce(0);
        fuzz_run_end();
}

void session_fuzz(enum seq_transport transport, enum party side, const uint8_t *input, size_t size)
{
        static struct sequence s;
        struct session_report report = { 0 }, again = { 0 };
        char err[100];

        if (!seq_parse(&s, (const char *)input, size, err, sizeof(err)) || s.side != side ||
            s.transport != transport)
                return;
        session_play(&s, SESSION_DECLARED, &report);
        if (report.digest % 8 != 0 || s.scarce > 0)
                return;
        session_play(&s, report.digest % 16 ? SESSION_BYTES : SESSION_WHOLE, &again);
        if (s.violates != RULE_NONE)
                return;
        must(again.fault.rule == report.fault.rule && again.fault.code == report.fault.code &&
             again.fault.place == report.fault.place);
        /* where rules are waived a peer that overran the queue may have it wait for its owner */
        must(again.digest == report.digest || (s.config & SESSION_WAIVED));
}

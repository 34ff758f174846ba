/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctrl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "build.h"
#include "host/engine/time.h"
#include "identity.h"
#include "pdu/core/wipe.h"
#include "pdu/nvme/wire/rdma.h"
#include "tls_flaws.h"

enum {
        CAP_TO_MS = 500,
        SHUTDOWN_MIN = 5000, /* ms */
        SHUTDOWN_MAX = 60000,
        QUIET_MAX = 120000,       /* ms that KAS may put off a reconnect */
        HASTY = 100,              /* ms */
        KEEP_LOOK = 20,           /* ms between looks for the answer to a Keep Alive that is late */
        IN_CAPSULE_MAX = 1 << 24, /* bytes; whatever IOCCSZ says */
        KEYED_MAX = SGL_KEYED_MAX & ~0xfff, /* bytes that one descriptor describes, in pages */
};

struct host_params host_params_default(void)
{
        static char hostnqn[256];
        struct host_params p = { .trsvcid = "4420",
                                 .hostnqn = hostnqn,
                                 .cntlid = CNTLID_DYNAMIC,
                                 .queue_size = HOST_QUEUE_SIZE,
                                 .kato = HOST_KATO,
                                 .timeout = HOST_TIMEOUT,
                                 .maxr2t = 1 };

        host_identity(p.hostid, hostnqn);
        return p;
}

static bool has_flaw(const struct host_ctrl *c, enum flaw_id flaw)
{
        return flawed(c->params.policy, flaw);
}

/* --- queues ----------------------------------------------------------------------------------- */

static int open_queue(struct host_queue *q, const struct host_ctrl *c, uint16_t qid,
                      unsigned entries, uint32_t in_capsule, struct host_error *e)
{
        const struct host_params *p = &c->params;
        struct host_queue_config cfg = { .transport = p->transport,
                                         .traddr = p->traddr,
                                         .trsvcid = p->trsvcid,
                                         .qid = qid,
                                         .entries = (uint16_t)entries,
                                         .timeout = p->timeout,
                                         .in_capsule = in_capsule,
                                         .policy = p->policy,
                                         .record = p->record,
                                         .tls = &p->tls,
                                         .hostnqn = p->hostnqn,
                                         .subnqn = p->subnqn,
                                         .tcp = { .hpda = p->hpda,
                                                  .hdgst = p->hdgst,
                                                  .ddgst = p->ddgst,
                                                  .require_digests = true,
                                                  .maxr2t = p->maxr2t },
                                         .verbs = p->verbs,
                                         .cntlid = c->cntlid,
                                         .icdoff = le16_get(c->id.icdoff),
                                         .msdbd = c->id.msdbd };

        if (qid > 0 && has_flaw(c, FLAW_HOST_TLS_ADMIN))
                cfg.tls = NULL;
        if (has_flaw(c, FLAW_HOST_TLS_NAMES))
                cfg.hostnqn = "nqn.2026-01.io.nvmfspec:another";
        return host_queue_open(q, &cfg, e);
}

/* What IPO and IATTR of a refused Connect point at (Base 6.3). */
static const struct {
        uint32_t dw0; /* CONNECT_IATTR_DATA | IPO */
        const char *name;
} parameters[] = {
        { 40, "RECFMT" },
        { 42, "QID" },
        { 44, "SQSIZE" },
        { 46, "CATTR" },
        { 48, "KATO" },
        { CONNECT_IATTR_DATA | 0, "HOSTID" },
        { CONNECT_IATTR_DATA | 16, "CNTLID" },
        { CONNECT_IATTR_DATA | 256, "SUBNQN" },
        { CONNECT_IATTR_DATA | 512, "HOSTNQN" },
};

static const char *parameter_name(uint32_t dw0)
{
        for (size_t i = 0; i < sizeof(parameters) / sizeof(parameters[0]); i++)
                if (parameters[i].dw0 == (dw0 & (CONNECT_IATTR_DATA | 0xffff)))
                        return parameters[i].name;
        return "unknown parameter";
}

static int explain_connect(const struct host_params *p, uint16_t qid, struct host_error *e)
{
        struct host_error refused = *e;

        if (e->kind != HOST_STATUS)
                return -1;
        host_error_set(e, HOST_STATUS, "Connect of queue %u to %s%s", qid, p->subnqn,
                       strchrnul(refused.line, ':')); /* after the command's name */
        e->status = refused.status;
        e->dw0 = refused.dw0;
        if (e->status == NVME_CONNECT_PARAM)
                host_error_add(e, ", %s (%s offset %u)", parameter_name(e->dw0),
                               e->dw0 & CONNECT_IATTR_DATA ? "data" : "command", e->dw0 & 0xffff);
        return -1;
}

/* --- authentication --------------------------------------------------------------------------- */

struct authenticating {
        struct host_ctrl *ctrl;
        struct host_queue *queue;
};

static int run_auth(void *user, const union sqe *sqe, void *data, uint32_t len,
                    struct host_error *e)
{
        struct authenticating *w = user;
        unsigned usual = w->queue->timeout;
        int rc;

        if (has_flaw(w->ctrl, FLAW_HOST_HASTY))
                w->queue->timeout = HASTY;
        rc = host_ctrl_run(w->ctrl, w->queue, sqe, data, len, NULL, e);
        w->queue->timeout = usual;
        return rc;
}

/* The channel is not secured yet: what is generated now is for those that will be. */
static bool concatenates(const struct host_ctrl *c)
{
        return c->params.concat && !nvme_tls_is_asked(&c->params.tls);
}

static int authenticate(struct host_ctrl *c, struct host_queue *q, uint32_t dw0,
                        struct host_error *e)
{
        struct authenticating who = { c, q };
        struct host_auth h = { .hostnqn = c->params.hostnqn,
                               .subnqn = c->params.subnqn,
                               .host = c->params.dhchap,
                               .ctrl = c->params.dhchap_ctrl,
                               .proven = c->params.tls.generated,
                               .sc_c = concatenates(c) ? AUTH_SC_NEW_PSK : AUTH_SC_NONE,
                               .run = run_auth,
                               .user = &who,
                               .policy = c->params.policy };
        struct auth_key psk = { 0 };
        struct host_error why;

        if (host_authenticate(&h, dw0, &psk, &why) == 0) {
                if (h.sc_c != AUTH_SC_NONE)
                        c->params.tls.key = psk;
                wipe(&psk, sizeof(psk));
                return 0;
        }
        *e = why;
        host_error_set(e, why.kind, "Connect of queue %u to %s: %s", q->qid, c->params.subnqn,
                       why.line);
        return -1;
}

static int send_connect(struct host_ctrl *c, struct host_queue *q, uint16_t cntlid,
                        unsigned entries, struct cqe *cqe, struct host_error *e)
{
        const struct host_params *p = &c->params;
        struct connect_data data = { .cntlid = le16(cntlid) };
        union sqe sqe =
            build_connect(q->qid, (uint16_t)entries, p->no_sqfc ? CATTR_DISABLE_SQFC : 0,
                          q->qid == 0 ? p->kato : 0);

        if (q->qid == 0 && has_flaw(c, FLAW_HOST_PRIORITY))
                sqe.connect.cattr |= 2;
        memcpy(data.hostid, p->hostid, sizeof(data.hostid));
        if (has_flaw(c, FLAW_HOST_ID_EACH))
                data.hostid[15] ^= (uint8_t)q->qid;
        snprintf(data.subnqn, sizeof(data.subnqn), "%s", p->subnqn);
        snprintf(data.hostnqn, sizeof(data.hostnqn), "%s", p->hostnqn);
        if (host_ctrl_run(c, q, &sqe, &data, sizeof(data), cqe, e) < 0)
                return explain_connect(p, q->qid, e);
        if (q->qid > 0 && has_flaw(c, FLAW_HOST_CONNECT_TWICE))
                (void)host_ctrl_run(c, q, &sqe, &data, sizeof(data), NULL, e);
        return authenticate(c, q, le32_get(cqe->dw0), e);
}

static int open_admin(struct host_ctrl *c, struct host_error *e)
{
        struct cqe cqe;

        if (open_queue(&c->admin, c, 0, ADMIN_SQ_MIN, PDU_ADMIN_IN_CAPSULE, e) < 0)
                return -1;
        if (send_connect(c, &c->admin, c->params.cntlid, ADMIN_SQ_MIN, &cqe, e) < 0) {
                host_queue_close(&c->admin);
                return -1;
        }
        c->cntlid = (uint16_t)le32_get(cqe.dw0);
        return 0;
}

/* Secure channel concatenation (8.3.4.3): a PSK by an admin queue without TLS, which is then closed. */
static int generate_psk(struct host_ctrl *c, struct host_error *e)
{
        if (open_admin(c, e) < 0)
                return -1;
        host_queue_close(&c->admin);
        c->params.tls.generated = true;
        if (has_flaw(c, FLAW_HOST_CONCAT_PLAIN))
                c->params.tls.key.len = 0;
        return 0;
}

/* Connect of the admin queue, and authentication: CC.EN stays 0. After an error of this, or of the
 * steps that follow (enable, I/O queues), host_ctrl_close(). */
static int host_ctrl_open(struct host_ctrl *c, const struct host_params *params,
                          struct host_error *e)
{
        *c = (struct host_ctrl) { .params = *params };
        c->discovery = strcmp(params->subnqn, NQN_DISCOVERY) == 0;
        if (params->concat) { /* that of the association before has had its time */
                c->params.tls.key = (struct auth_key) { 0 };
                c->params.tls.generated = false;
        }
        host_greet_wrongly(params);
        host_spoil_tls(&c->params.tls, params->policy);
        if (concatenates(c) && generate_psk(c, e) < 0)
                return -1;
        return open_admin(c, e);
}

/* --- commands --------------------------------------------------------------------------------- */

int host_ctrl_run(struct host_ctrl *c, struct host_queue *q, const union sqe *sqe, void *data,
                  uint32_t len, struct cqe *cqe, struct host_error *e)
{
        struct host_run run;

        host_run_start(&run, q, sqe, data, len);
        while (!host_run_over(&run)) {
                int keep = host_ctrl_next(c), left = host_run_left(&run);

                host_queue_wait(q, keep < left ? keep : left);
                host_ctrl_poll(c);
        }
        return host_run_end(&run, cqe, e);
}

int host_ctrl_admin(struct host_ctrl *c, const union sqe *sqe, void *data, uint32_t len,
                    struct cqe *cqe, struct host_error *e)
{
        return host_ctrl_run(c, &c->admin, sqe, data, len, cqe, e);
}

static int name_property(struct host_error *e, uint32_t ofst)
{
        if (e->kind == HOST_STATUS)
                host_error_add(e, " for %s", property_name(ofst));
        return -1;
}

/* A property by its byte offset (Base 2.2, 6.5 and 6.6), as wide as it is. -1: e says why. */
static int host_ctrl_property_get(struct host_ctrl *c, uint32_t ofst, uint64_t *value,
                                  struct host_error *e)
{
        union sqe sqe = build_property_get(ofst);
        struct cqe cqe;

        if (ofst == PROP_CAP && has_flaw(c, FLAW_HOST_CAP_HALF))
                sqe.property.attrib = PROP_ATTRIB_4;
        if (host_ctrl_admin(c, &sqe, NULL, 0, &cqe, e) < 0)
                return name_property(e, ofst);
        *value = property_size(ofst) == 8 ? le64_get(cqe.result) : le32_get(cqe.dw0);
        return 0;
}

static int host_ctrl_property_set(struct host_ctrl *c, uint32_t ofst, uint64_t value,
                                  struct host_error *e)
{
        union sqe sqe = build_property_set(ofst, value);

        return host_ctrl_admin(c, &sqe, NULL, 0, NULL, e) < 0 ? name_property(e, ofst) : 0;
}

int host_ctrl_identify(struct host_ctrl *c, uint8_t cns, uint32_t nsid, void *buf,
                       struct host_error *e)
{
        union sqe sqe = build_identify(cns, nsid);

        if (has_flaw(c, FLAW_HOST_IDENTIFY_CNTID))
                sqe.cdw10 = le32(cns | (uint32_t)c->cntlid << 16);
        memset(buf, 0, IDENTIFY_LEN);
        return host_ctrl_admin(c, &sqe, buf, IDENTIFY_LEN, NULL, e);
}

/* --- set-up ----------------------------------------------------------------------------------- */

/* Polls CSTS until the bits in mask are `want`, up to `ms`. Who stood still for longer than that looks once more. */
static int wait_csts(struct host_ctrl *c, uint32_t mask, uint32_t want, unsigned ms,
                     struct host_error *e)
{
        uint64_t end = loop_now_ns() + (uint64_t)ms * NS_PER_MS, csts;
        unsigned pause = 100; /* us */

        for (;;) {
                bool over = loop_now_ns() > end;

                if (host_ctrl_property_get(c, PROP_CSTS, &csts, e) < 0)
                        return -1;
                if ((csts & mask) == want)
                        return 0;
                if (csts & CSTS_CFS)
                        return host_fail(e, HOST_STATUS, "controller reports a fatal status");
                if (over)
                        return host_fail(e, HOST_STATUS,
                                         "timed out: CSTS & %xh is %xh after %u "
                                         "ms, not %xh",
                                         mask, (unsigned)csts & mask, ms, want);
                loop_sleep_us(pause);
                pause = pause < 20000 ? pause * 2 : pause;
        }
}

/* CC to enable with (facts of CAP): command set, smallest page size, entry sizes. */
static uint32_t enable_value(const struct host_ctrl *c)
{
        uint32_t css = c->cap >> 44 & 1 ? 7 : c->cap >> 43 & 1 ? 6 : 0;
        uint32_t mps = c->cap >> 48 & 0xf;

        if (has_flaw(c, FLAW_HOST_CC_MPS))
                mps = (c->cap >> 52 & 0xf) + 1;
        if (has_flaw(c, FLAW_HOST_CC_CSS))
                css = 6;
        if (c->discovery)
                return CC_EN;
        return CC_EN | css << 4 | mps << 7 | CC_IOSQES | CC_IOCQES;
}

static bool counts_traffic(const struct host_ctrl *c);
static void start_keep_alive(struct host_ctrl *c);
static int ask_queues(struct host_ctrl *c, unsigned *count, struct host_error *e);

/* What the flaw sends at a time when it should not, whatever the controller says to it. */
static void misbehave(struct host_ctrl *c, enum flaw_id flaw)
{
        union sqe keep_off = build_admin(NVME_SET_FEATURES, 0, FEAT_KATO, 0);
        struct host_error unused;
        unsigned one = 1;

        if (!has_flaw(c, flaw))
                return;
        if (flaw == FLAW_HOST_KATO_OFF)
                (void)host_ctrl_admin(c, &keep_off, NULL, 0, NULL, &unused);
        else if (flaw == FLAW_HOST_QUEUES_LATE)
                (void)ask_queues(c, &one, &unused);
        else
                (void)host_ctrl_identify(c, CNS_CTRL, 0, &c->id, &unused);
}

static unsigned ready_ms(const struct host_ctrl *c)
{
        return has_flaw(c, FLAW_HOST_READY_SOON) ? 1000 : (CAP_TO(c->cap) + 1) * CAP_TO_MS;
}

static int host_ctrl_enable(struct host_ctrl *c, struct host_error *e)
{
        uint64_t vs = 0;

        misbehave(c, FLAW_HOST_EARLY);
        if (host_ctrl_property_get(c, PROP_CAP, &c->cap, e) < 0 ||
            host_ctrl_property_get(c, PROP_VS, &vs, e) < 0 ||
            host_ctrl_property_set(c, PROP_CC, enable_value(c), e) < 0 ||
            wait_csts(c, CSTS_RDY, CSTS_RDY, ready_ms(c), e) < 0)
                return -1;
        c->vs = (uint32_t)vs;
        c->enabled = true;
        start_keep_alive(c);
        if (host_ctrl_identify(c, CNS_CTRL, 0, &c->id, e) < 0)
                return -1;
        c->discovery = c->discovery || c->id.cntrltype == CNTRLTYPE_DISCOVERY;
        if (!c->discovery)
                misbehave(c, FLAW_HOST_KATO_OFF);
        return 0;
}

/* Set Features, Number of Queues: how many of `count` the controller grants. */
static int ask_queues(struct host_ctrl *c, unsigned *count, struct host_error *e)
{
        union sqe sqe = build_admin(NVME_SET_FEATURES, 0, FEAT_QUEUES,
                                    (uint32_t)(*count - 1) << 16 | (uint32_t)(*count - 1));
        struct cqe cqe;
        unsigned granted;

        if (host_ctrl_admin(c, &sqe, NULL, 0, &cqe, e) < 0)
                return -1;
        granted = (le32_get(cqe.dw0) & 0xffff) + 1;
        if (granted < *count && !has_flaw(c, FLAW_HOST_GRANTED))
                *count = granted;
        return 0;
}

static uint32_t io_in_capsule(const struct host_ctrl *c)
{
        uint64_t capsule = le32_get(c->id.ioccsz), before = 4u + le16_get(c->id.icdoff);
        uint64_t bytes = capsule > before ? (capsule - before) * 16 : 0;

        if (has_flaw(c, FLAW_HOST_CAPSULES))
                return PDU_ADMIN_IN_CAPSULE;
        return bytes < IN_CAPSULE_MAX ? (uint32_t)bytes : IN_CAPSULE_MAX;
}

static int add_queue(struct host_ctrl *c, unsigned entries, struct host_error *e)
{
        struct host_queue *q = &c->io[c->io_count];
        struct cqe cqe;

        if (open_queue(q, c, (uint16_t)(c->io_count + 1), entries, io_in_capsule(c), e) < 0)
                return -1;
        c->io_count++;
        return send_connect(c, q, has_flaw(c, FLAW_HOST_CNTLID_ANY) ? CNTLID_DYNAMIC : c->cntlid,
                            entries, &cqe, e);
}

static int host_ctrl_add_queues(struct host_ctrl *c, unsigned count, struct host_error *e)
{
        unsigned entries = c->params.queue_size, most = CAP_MQES(c->cap) + 1u;

        if (count == 0 || count > HOST_IO_QUEUES_MAX)
                return host_fail(e, HOST_USAGE, "%u I/O queues: must be 1 to %u", count,
                                 HOST_IO_QUEUES_MAX);
        if (most < 2)
                return host_fail(e, HOST_STATUS, "CAP.MQES is 0: no I/O queue is possible");
        if (entries > most && !has_flaw(c, FLAW_HOST_MQES))
                entries = most;
        if (ask_queues(c, &count, e) < 0)
                return -1;
        c->io = calloc(count, sizeof(*c->io)); /* never moved: machines point into it */
        if (!c->io)
                return host_fail(e, HOST_BROKEN, "no memory for %u queues", count);
        while (c->io_count < count)
                if (add_queue(c, entries, e) < 0)
                        return -1;
        misbehave(c, FLAW_HOST_QUEUES_LATE);
        return 0;
}

int host_ctrl_connect(struct host_ctrl *c, const struct host_params *params, struct host_error *e)
{
        if (host_ctrl_open(c, params, e) < 0)
                return -1;
        if (host_ctrl_enable(c, e) == 0 &&
            (params->io_queues == 0 || host_ctrl_add_queues(c, params->io_queues, e) == 0))
                return 0;
        host_ctrl_close(c);
        return -1;
}

static int connect_as_before(struct host_ctrl *c, const struct host_params *p, struct host_error *e)
{
        if (host_ctrl_connect(c, p, e) < 0)
                return -1;
        if (c->io_count == p->io_queues)
                return 0;
        host_error_set(e, HOST_BROKEN, "controller grants %u I/O queues, %u before", c->io_count,
                       p->io_queues);
        host_ctrl_close(c);
        return -1;
}

/* ms until the controller can't process anything any more that was outstanding (Base 2.2, 9.6.2),
 * from now on, which is later than the last command. */
static uint64_t quiet_ms(const struct host_ctrl *c)
{
        unsigned step = le16_get(c->id.kas) * 100u, katt = c->params.kato;
        unsigned cqt = le16_get(c->id.cqt);

        if (step)
                katt = (katt + step - 1) / step * step;
        return (counts_traffic(c) ? 3 : 2) * (uint64_t)katt +
               (cqt ? cqt : c->params.reconnect_delay);
}

/* KAS of up to 65535 may make hours of a KATO of a second: more than anybody who did not ask for it waits for. */
static bool is_too_quiet(const struct host_ctrl *c)
{
        const struct host_params *p = &c->params;
        uint64_t pause = quiet_ms(c);
        uint16_t cqt = le16_get(c->id.cqt);

        return pause > QUIET_MAX && pause > p->ctrl_loss_tmo &&
               pause > UINT64_C(3) * p->kato + (cqt ? cqt : p->reconnect_delay);
}

int host_ctrl_reconnect(struct host_ctrl *c, struct host_error *e)
{
        struct host_params p = c->params;
        uint64_t pause = quiet_ms(c);
        uint64_t deadline = deadline_in(p.ctrl_loss_tmo);
        struct host_error last;

        p.io_queues = c->io_count;
        host_ctrl_close(c);
        if (is_too_quiet(c))
                return host_fail(e, HOST_BROKEN,
                                 "controller lost; by its KAS of %u s, what was outstanding may be "
                                 "executed for %u s, longer than --ctrl-loss-tmo",
                                 le16_get(c->id.kas) / 10, (unsigned)(pause / 1000));
        do {
                loop_sleep_us(pause * 1000);
                if (connect_as_before(c, &p, &last) == 0)
                        return 0;
                pause = p.reconnect_delay;
        } while (ms_until(deadline) > 0);
        return host_fail(e, HOST_BROKEN, "controller lost, not reconnected within %u s: %s",
                         p.ctrl_loss_tmo / 1000, last.line);
}

/* --- the end ---------------------------------------------------------------------------------- */

void host_ctrl_close(struct host_ctrl *c)
{
        for (unsigned i = 0; i < c->io_count; i++)
                host_queue_close(&c->io[i]);
        free(c->io);
        c->io = NULL;
        c->io_count = 0;
        host_queue_close(&c->admin);
}

unsigned host_ctrl_shutdown_ms(const struct host_ctrl *c)
{
        unsigned ms = le32_get(c->id.rtd3e) / 1000;

        if (ms > SHUTDOWN_MAX)
                return SHUTDOWN_MAX;
        return ms < SHUTDOWN_MIN ? SHUTDOWN_MIN : ms;
}

static int shut_down(struct host_ctrl *c, struct host_error *e)
{
        uint64_t cc;

        if (c->admin.state.broken) {
                *e = c->admin.state.error;
                return -1;
        }
        c->enabled = false; /* no Keep Alive any more: the controller's timer stops as well */
        if (host_ctrl_property_get(c, PROP_CC, &cc, e) < 0)
                return -1;
        if (has_flaw(c, FLAW_HOST_CC_CHANGED))
                cc ^= 1 << 7;
        if (c->discovery && has_flaw(c, FLAW_HOST_CC_DISCOVERY))
                cc |= 1 << 11;
        if (host_ctrl_property_set(c, PROP_CC, cc | CC_SHN_NORMAL, e) < 0)
                return -1;
        misbehave(c, FLAW_HOST_LATE);
        return wait_csts(c, CSTS_SHST_COMPLETE | CSTS_SHST_OCCURS, CSTS_SHST_COMPLETE,
                         host_ctrl_shutdown_ms(c), e);
}

int host_ctrl_disconnect(struct host_ctrl *c, struct host_error *e)
{
        int result = shut_down(c, e);

        host_ctrl_close(c);
        return result;
}

/* --- keep alive (Base 3.9) -------------------------------------------------------------------- */

static uint64_t traffic(const struct host_ctrl *c)
{
        uint64_t sum = c->admin.submitted;

        for (unsigned i = 0; i < c->io_count; i++)
                sum += __atomic_load_n(&c->io[i].submitted, __ATOMIC_RELAXED);
        return sum;
}

static bool counts_traffic(const struct host_ctrl *c)
{
        return le32_get(c->id.ctratt) & CTRATT_TBKAS;
}

static void start_keep_alive(struct host_ctrl *c)
{
        c->keep_traffic = traffic(c);
        c->keep_at =
            loop_now_ns() + (uint64_t)c->params.kato * NS_PER_MS / (counts_traffic(c) ? 4 : 2);
}

static void keep_done(struct host_cmd *cmd, void *user)
{
        struct host_ctrl *c = user;

        c->keep_busy = false;
        if (cmd->status && cmd->status != HOST_STATUS_ABORTED)
                host_queue_break(&c->admin, "Keep Alive: %s", status_name(cmd->status));
}

static void keep_alive(struct host_ctrl *c)
{
        bool idle = traffic(c) == c->keep_traffic;

        if (c->keep_busy && loop_now_ns() - c->keep_sent > (uint64_t)c->params.timeout * NS_PER_MS)
                host_queue_break(&c->admin, "no response to Keep Alive");
        if (c->keep_busy)
                return;
        if ((idle || !counts_traffic(c)) && !has_flaw(c, FLAW_HOST_KATO_SILENT)) {
                c->keep_sent = loop_now_ns();
                c->keep_cmd = (struct host_cmd) { .sqe = { .opc = NVME_KEEP_ALIVE },
                                                  .done = keep_done,
                                                  .user = c };
                if (has_flaw(c, FLAW_HOST_KATO_NSID))
                        c->keep_cmd.sqe.nsid = le32(NSID_ALL);
                c->keep_busy = host_queue_submit(&c->admin, &c->keep_cmd) == 0;
        }
        start_keep_alive(c);
}

/* What has arrived comes first: the answer to the last Keep Alive may be there. */
int host_ctrl_poll(struct host_ctrl *c)
{
        int n = host_queue_poll(&c->admin);

        if (n < 0 || !c->enabled || !c->params.kato || loop_now_ns() < c->keep_at)
                return n;
        keep_alive(c);
        return host_queue_send(&c->admin) < 0 ? -1 : n;
}

int host_ctrl_next(const struct host_ctrl *c)
{
        uint64_t now = loop_now_ns();

        if (!c->enabled || !c->params.kato)
                return HOST_TIMEOUT;
        if (now >= c->keep_at)
                return c->keep_busy ? KEEP_LOOK : 0;
        return (int)((c->keep_at - now) / NS_PER_MS + 1);
}

uint32_t host_ctrl_max_transfer(const struct host_ctrl *c)
{
        unsigned shift = c->id.mdts + 12u + (unsigned)(c->cap >> 48 & 0xf);
        bool unbound = c->id.mdts == 0 || shift > 31 || has_flaw(c, FLAW_HOST_MDTS);
        uint32_t most = unbound ? UINT32_MAX : 1u << shift;

        return c->params.transport == HOST_RDMA && most > KEYED_MAX ? KEYED_MAX : most;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A controller to test the host against, in a thread of its own: just enough of one on the
 * controller machine, with knobs to make it misbehave. It keeps nothing of target/.
 */
#ifndef NVMF_HOST_TESTS_FAKE_H
#define NVMF_HOST_TESTS_FAKE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "host/nvme/ctrl.h"
#include "pdu/nvme/io/link_stream.h"
#include "pdu/nvme/tcp/tcp_controller.h"
#include "pdu/nvme/wire/discovery.h"
#include "pdu/nvme/wire/identify.h"

#define FAKE_NQN "nqn.2026-01.io.nvmfspec:fake"

enum {
        FAKE_CONNS = 16,
        FAKE_BLOCKS = 16384, /* of 512 bytes */
        FAKE_AERS = 4,
        FAKE_BUF = 65536,
        FAKE_PATIENCE = 60000, /* ms; whoever waits for longer hangs */
};

enum fake_bug { /* what becomes of every `every`-th write */
                FAKE_SOUND,
                FAKE_LOST,      /* acknowledged and forgotten */
                FAKE_MISPLACED, /* one block further on */
                FAKE_TORN,      /* only its first half */
                FAKE_FLIPPED,   /* a bit of it */
};

struct fake_knobs {
        bool no_rdy;         /* CC.EN is taken, CSTS.RDY stays 0 */
        bool fatal;          /* CSTS.CFS instead */
        bool auth;           /* Connect asks for authentication */
        bool tbkas;          /* keep alive by traffic */
        uint16_t kas, crdt;  /* KAS, CRDT1 */
        bool no_queues;      /* Set Features, Number of Queues fails */
        uint32_t queues;     /* granted; 0: all */
        unsigned connect_ms; /* that each Connect takes */
        uint16_t status;     /* that Connect ends with, and */
        uint32_t dw0;
        int silent_opc; /* + 1: I/O command that is never answered */
        int close_opc;  /* + 1: I/O command at which the connection is closed */
        int term_opc;   /* + 1: ... ended with C2HTermReq */
        bool term_stop; /* fake_stop() sends C2HTermReq, and resets the connections */
        int fail_opc;   /* + 1: ... that ends with fail_status */
        uint16_t fail_status;
        unsigned fail_times; /* 0: each time */
        unsigned admin_dies; /* at that many I/O commands the admin connection ends */
        enum fake_bug bug;
        unsigned every;
        unsigned log_changes;  /* GENCTR moves on at that many readings of entries */
        unsigned log_restarts; /* ... or they end with Discover Restart */
        unsigned log_shrinks;  /* ... or it has become shorter than where they are read */
        uint16_t log_fails;    /* status that they all end with */
        uint64_t log_entries;
        const char *log_nqn; /* SUBNQN of every entry */
        uint16_t metadata;   /* bytes that blocks have besides */
        uint8_t mdts;
        uint32_t ioccsz;           /* 16-byte units */
        struct id_nvm_ctrl limits; /* CNS 06h; commands beyond them fail */
};

struct fake;

struct fake_conn {
        struct fake *fake;
        struct stream stream;
        struct tcp_controller *c;
        uint8_t *buf;
        bool admin, die;
        uint16_t size, head;
};

struct fake {
        struct fake_knobs k;
        struct stream_listener listener;
        int wake;
        uint16_t port;
        pthread_t thread;
        atomic_bool stop;
        atomic_int aen; /* complete an AER with this DW0 */
        struct fake_conn conns[FAKE_CONNS];
        struct request *aers[FAKE_AERS];
        struct fake_conn *aer_conn;
        unsigned aer_count;
        uint32_t cc, genctr, writes, ios;
        uint8_t *disk;
        atomic_uint keep_alives, shutdowns, connects, log_reads;
};

/* --- admin commands --------------------------------------------------------------------------- */

static inline void fake_end(struct request *r, uint16_t status)
{
        r->cqe.sf = status_field(status);
        if (status)
                r->c2h_len = 0;
        request_complete(r);
}

static inline uint64_t fake_property(const struct fake *f, uint32_t ofst)
{
        uint32_t shst = CC_SHN(f->cc) ? CSTS_SHST_COMPLETE : 0;
        bool ready = (f->cc & CC_EN) && !f->k.no_rdy && !f->k.fatal;

        switch (ofst) {
        case PROP_CAP:
                return 127 | CAP_CQR | UINT64_C(1) << 24 | CAP_CSS_NVM;
        case PROP_VS:
                return NVME_VERSION(2, 0, 0);
        case PROP_CC:
                return f->cc;
        default:
                return shst | (ready ? CSTS_RDY : 0) |
                       (f->k.fatal && (f->cc & CC_EN) ? CSTS_CFS : 0);
        }
}

static inline uint16_t fake_connect(struct fake_conn *fc, struct request *r)
{
        struct fake *f = fc->fake;

        f->connects++;
        usleep(f->k.connect_ms * 1000);
        fc->admin = le16_get(r->sqe.connect.qid) == 0;
        fc->size = (uint16_t)(le16_get(r->sqe.connect.sqsize) + 1);
        r->cqe.dw0 = le32(f->k.status ? f->k.dw0 : f->k.auth ? CONNECT_ATR | 1 : 1);
        if (!f->k.status)
                requests_set_depth(tcp_requests(fc->c), fc->size);
        return f->k.status;
}

static inline uint16_t fake_fabrics(struct fake_conn *fc, struct request *r)
{
        struct fake *f = fc->fake;

        switch (r->sqe.fctype) {
        case FCTYPE_CONNECT:
                return fake_connect(fc, r);
        case FCTYPE_PROPERTY_GET:
                r->cqe.result = le64(fake_property(f, le32_get(r->sqe.property.ofst)));
                return 0;
        case FCTYPE_PROPERTY_SET:
                f->cc = (uint32_t)le64_get(r->sqe.property.value);
                f->shutdowns += CC_SHN(f->cc) != 0;
                return 0;
        default:
                return NVME_INVALID_FIELD;
        }
}

static inline void fake_identify(const struct fake *f, struct request *r)
{
        struct id_ctrl *c = (struct id_ctrl *)r->data;
        struct id_ns *n = (struct id_ns *)r->data;

        memset(r->data, 0, r->len);
        r->c2h_len = r->len;
        if (le32_get(r->sqe.cdw10) == CNS_IOCS_CTRL) {
                memcpy(r->data, &f->k.limits, sizeof(f->k.limits));
        } else if (le32_get(r->sqe.cdw10) == CNS_CTRL) {
                c->mdts = f->k.mdts;
                c->ioccsz = le32(f->k.ioccsz ? f->k.ioccsz : 4);
                c->iorcsz = le32(1);
                c->ctratt = le32(f->k.tbkas ? CTRATT_TBKAS : 0);
                c->kas = le16(f->k.kas);
                c->crdt1 = le16(f->k.crdt);
                c->cntrltype = CNTRLTYPE_IO;
        } else {
                n->nsze = n->ncap = le64(FAKE_BLOCKS);
                n->lbaf[0] = (struct lbaf) { .lbads = 9, .ms = le16(f->k.metadata) };
        }
}

/* Header from f->genctr on; every entry carries its number in PORTID. */
static inline uint16_t fake_log(struct fake *f, struct request *r)
{
        uint64_t at = le32_get(r->sqe.cdw12);
        struct disc_header h = { .genctr = le64(f->genctr), .numrec = le64(f->k.log_entries) };

        f->log_reads++;
        r->c2h_len = r->len;
        memset(r->data, 0, r->len);
        if (at == 0) {
                memcpy(r->data, &h, r->len < sizeof(h) ? r->len : sizeof(h));
                return 0;
        }
        if (f->k.log_restarts > 0) {
                f->k.log_restarts--;
                return NVME_DISCOVER_RESTART;
        }
        if (f->k.log_shrinks > 0) {
                f->k.log_shrinks--;
                f->genctr++;
                f->k.log_entries /= 2;
                return NVME_INVALID_FIELD;
        }
        if (f->k.log_fails)
                return f->k.log_fails;
        if (f->k.log_changes > 0) {
                f->k.log_changes--;
                f->genctr++;
        }
        for (uint32_t i = 0; i < r->len / DISC_ENTRY_LEN; i++) {
                struct disc_entry *e = (struct disc_entry *)(r->data + (size_t)i * DISC_ENTRY_LEN);

                e->portid = le16((uint16_t)(at / DISC_ENTRY_LEN - 1 + i));
                if (f->k.log_nqn)
                        text_fill(e->subnqn, sizeof(e->subnqn), f->k.log_nqn);
        }
        return 0;
}

static inline uint16_t fake_set_features(struct fake *f, struct request *r)
{
        if (f->k.no_queues)
                return NVME_INVALID_FIELD;
        r->cqe.dw0 = f->k.queues ? le32((f->k.queues - 1) << 16 | (f->k.queues - 1)) : r->sqe.cdw11;
        return 0;
}

static inline void fake_admin(struct fake_conn *fc, struct request *r)
{
        struct fake *f = fc->fake;
        uint16_t status = NVME_INVALID_OPCODE;

        if (r->sqe.opc == NVME_AER && f->aer_count < FAKE_AERS) {
                f->aers[f->aer_count++] = r;
                f->aer_conn = fc;
                return;
        }
        if (r->sqe.opc == NVME_FABRICS)
                status = fake_fabrics(fc, r);
        else if (r->sqe.opc == NVME_GET_LOG_PAGE)
                status = fake_log(f, r);
        else if (r->sqe.opc == NVME_SET_FEATURES)
                status = fake_set_features(f, r);
        else if (r->sqe.opc == NVME_KEEP_ALIVE || r->sqe.opc == NVME_IDENTIFY)
                status = 0;
        if (r->sqe.opc == NVME_KEEP_ALIVE)
                f->keep_alives++;
        if (r->sqe.opc == NVME_IDENTIFY)
                fake_identify(f, r);
        fake_end(r, status);
}

/* --- I/O commands ----------------------------------------------------------------------------- */

static inline void fake_write(struct fake *f, uint8_t *at, const uint8_t *data, uint32_t len)
{
        enum fake_bug bug = f->k.every && ++f->writes % f->k.every == 0 ? f->k.bug : FAKE_SOUND;

        switch (bug) {
        case FAKE_LOST:
                return;
        case FAKE_MISPLACED:
                memcpy(at + 512, data, len);
                return;
        case FAKE_TORN:
                memcpy(at, data, len / 2);
                return;
        case FAKE_FLIPPED:
        case FAKE_SOUND:
                memcpy(at, data, len);
                at[len - 5] ^= bug == FAKE_FLIPPED;
        }
}

static inline void fake_end_admin(struct fake *f)
{
        for (int i = 0; i < FAKE_CONNS; i++)
                if (f->conns[i].c && f->conns[i].admin)
                        stream_half_close(&f->conns[i].stream);
}

static inline uint16_t fake_zeroes(struct fake *f, const struct request *r, uint8_t *at)
{
        uint32_t len = ((le32_get(r->sqe.cdw12) & RW_NLB_MASK) + 1) * 512;

        if (f->k.limits.wzsl && len > 4096u << f->k.limits.wzsl)
                return NVME_INVALID_FIELD;
        memset(at, 0, len);
        return 0;
}

static inline uint16_t fake_dsm(struct fake *f, const struct request *r)
{
        const struct dsm_range *range = (const struct dsm_range *)(const void *)r->data;
        const struct id_nvm_ctrl *limits = &f->k.limits;
        uint64_t total = 0;

        for (uint32_t i = 0; i < r->len / sizeof(*range); i++) {
                uint32_t blocks = le32_get(range[i].blocks);

                total += blocks;
                if ((limits->dmrl && i >= limits->dmrl) ||
                    (le32_get(limits->dmrsl) && blocks > le32_get(limits->dmrsl)) ||
                    (le64_get(limits->dmsl) && total > le64_get(limits->dmsl)))
                        return NVME_INVALID_FIELD;
                memset(f->disk + le64_get(range[i].slba) * 512, 0, (size_t)blocks * 512);
        }
        return 0;
}

static inline void fake_io(struct fake_conn *fc, struct request *r)
{
        struct fake *f = fc->fake;
        uint8_t *at = f->disk + (size_t)le32_get(r->sqe.cdw10) * 512;
        uint16_t status = 0;

        if (++f->ios == f->k.admin_dies)
                fake_end_admin(f);
        fc->die = r->sqe.opc + 1 == f->k.close_opc;
        if (fc->die || r->sqe.opc + 1 == f->k.silent_opc)
                return;
        if (r->sqe.opc + 1 == f->k.term_opc)
                link_terminate(tcp_controller_link(fc->c), rule_fault(TCP_H2C_TTAG));
        if (r->sqe.opc + 1 == f->k.fail_opc) {
                fake_end(r, f->k.fail_status);
                f->k.fail_opc = f->k.fail_times == 1 ? 0 : f->k.fail_opc;
                f->k.fail_times -= f->k.fail_times > 1;
                return;
        }
        if (r->sqe.opc == NVME_WRITE)
                fake_write(f, at, r->data, r->len);
        if (r->sqe.opc == NVME_READ) {
                memcpy(r->data, at, r->len);
                r->c2h_len = r->len;
        }
        if (r->sqe.opc == NVME_WRITE_ZEROES)
                status = fake_zeroes(f, r, at);
        if (r->sqe.opc == NVME_DSM)
                status = fake_dsm(f, r);
        fake_end(r, status);
}

/* --- the controller machine's owner ----------------------------------------------------------- */

static inline uint16_t fake_admit(void *user, struct request *r)
{
        struct fake_conn *fc = user;
        bool fabrics = r->sqe.opc == NVME_FABRICS;

        fc->head++;
        r->xfer = fabrics && r->sqe.fctype != FCTYPE_CONNECT ? XFER_NONE : sqe_xfer(&r->sqe);
        if (r->xfer == XFER_NONE)
                return 0;
        if (fabrics)
                r->len = CONNECT_DATA_LEN;
        else if (!fc->admin && r->sqe.opc == NVME_DSM)
                r->len = ((le32_get(r->sqe.cdw10) & 255) + 1) * (uint32_t)sizeof(struct dsm_range);
        else if (!fc->admin)
                r->len = ((le32_get(r->sqe.cdw12) & RW_NLB_MASK) + 1) * 512;
        else if (r->sqe.opc == NVME_GET_LOG_PAGE)
                r->len = ((le32_get(r->sqe.cdw10) >> 16) + 1) * 4;
        else if (r->sqe.opc == NVME_IDENTIFY)
                r->len = IDENTIFY_LEN;
        else
                r->xfer = XFER_NONE;
        return 0;
}

static inline void fake_execute(void *user, struct request *r)
{
        struct fake_conn *fc = user;

        if (r->sqe.opc == NVME_FABRICS || fc->admin)
                fake_admin(fc, r);
        else
                fake_io(fc, r);
}

static inline uint8_t *fake_buffer_get(void *user, uint32_t len, uint32_t *lkey)
{
        (void)user;
        (void)lkey;
        return malloc(len);
}

static inline void fake_buffer_put(void *user, uint8_t *buf, uint32_t len)
{
        (void)user;
        (void)len;
        free(buf);
}

static inline uint16_t fake_sqhd(void *user, const struct request *r)
{
        struct fake_conn *fc = user;

        (void)r;
        return (uint16_t)(fc->head % (fc->size ? fc->size : 1u << 16));
}

static inline void fake_accept(struct fake *f)
{
        static const struct request_ops ops = {
                .admit = fake_admit,
                .execute = fake_execute,
                .buffer_get = fake_buffer_get,
                .buffer_put = fake_buffer_put,
                .sqhd = fake_sqhd,
        };
        struct tcp_controller_config cfg = {
                .hdgst = true,
                .ddgst = true,
                .maxh2cdata = 8192,
                .io_in_capsule = f->k.ioccsz ? f->k.ioccsz * 16 - 64 : 0,
                .max_transfer = 1 << 20,
                .c2h_max = 16384,
                .r2t_max = 16384,
                .r2t_window = 2,
                .limits = { .depth_max = 256, .r2ts_max = 512 },
        };
        struct fake_conn *fc = f->conns;
        struct stream stream = { 0 };
        bool came = stream_accept(&f->listener, &stream);

        while (came && fc < f->conns + FAKE_CONNS && fc->c)
                fc++;
        if (!came || fc == f->conns + FAKE_CONNS)
                return;
        *fc = (struct fake_conn) { .fake = f, .stream = stream, .buf = malloc(FAKE_BUF) };
        fc->c = tcp_controller_new(&cfg, &ops, fc);
        framer_attach(&tcp_controller_link(fc->c)->rx, fc->buf, FAKE_BUF);
}

/* What still executes (AERs, unanswered commands) ends without anybody to hear it. */
static inline void fake_close(struct fake_conn *fc)
{
        link_kill(tcp_controller_link(fc->c));
        for (unsigned cid = 0; requests_executing(tcp_requests(fc->c)) > 0 && cid < 65536; cid++) {
                struct request *r = requests_find(tcp_requests(fc->c), (uint16_t)cid);

                if (r && r->state == REQUEST_EXECUTING)
                        request_complete(r);
        }
        if (fc->fake->aer_conn == fc)
                fc->fake->aer_count = 0;
        if (fc->admin)
                fc->fake->cc = 0;
        tcp_controller_free(fc->c);
        stream_close(&fc->stream, false);
        free(fc->buf);
        fc->c = NULL;
}

static inline void fake_send(struct fake_conn *fc)
{
        link_flush(tcp_controller_link(fc->c), &fc->stream);
}

static inline void fake_serve(struct fake_conn *fc)
{
        struct link *l = tcp_controller_link(fc->c);
        ssize_t n = link_fill(l, &fc->stream);

        if (n > 0)
                tcp_controller_received(fc->c, (size_t)n, 0);
        fake_send(fc);
        if (n < 0 || fc->die || l->state == LINK_CLOSING)
                fake_close(fc);
}

static inline void fake_tell(struct fake *f)
{
        int dw0 = atomic_exchange(&f->aen, 0);

        if (!dw0 || f->aer_count == 0)
                return;
        f->genctr++;
        f->aers[--f->aer_count]->cqe.dw0 = le32((uint32_t)dw0);
        fake_end(f->aers[f->aer_count], 0);
        fake_send(f->aer_conn);
}

static inline void *fake_run(void *arg)
{
        struct fake *f = arg;
        struct pollfd p[FAKE_CONNS + 2];
        uint64_t n;

        while (!f->stop) {
                p[0] = (struct pollfd) { .fd = f->listener.source.fd, .events = POLLIN };
                p[1] = (struct pollfd) { .fd = f->wake, .events = POLLIN };
                for (int i = 0; i < FAKE_CONNS; i++) {
                        struct fake_conn *fc = &f->conns[i];

                        p[i + 2] = (struct pollfd) { .fd = -1 };
                        if (fc->c)
                                stream_pollfd(&fc->stream, link_events(tcp_controller_link(fc->c)),
                                              &p[i + 2]);
                }
                poll(p, FAKE_CONNS + 2, -1);
                for (int i = 0; i < FAKE_CONNS; i++)
                        if (p[i + 2].revents && f->conns[i].c)
                                fake_serve(&f->conns[i]);
                if (p[0].revents)
                        fake_accept(f);
                if (p[1].revents && read(f->wake, &n, sizeof(n)) > 0)
                        fake_tell(f);
        }
        return NULL;
}

/* --- for tests -------------------------------------------------------------------------------- */

static inline void fake_wake(struct fake *f)
{
        uint64_t one = 1;

        assert_int_equal(write(f->wake, &one, sizeof(one)), sizeof(one));
}

static inline void fake_reset(struct fake_conn *fc)
{
        link_terminate(tcp_controller_link(fc->c), rule_fault(TCP_H2C_TTAG));
        fake_send(fc);
        stream_close(&fc->stream, true);
}

static inline void fake_stop(struct fake *f)
{
        f->stop = true;
        fake_wake(f);
        pthread_join(f->thread, NULL);
        for (int i = 0; i < FAKE_CONNS; i++) {
                if (f->conns[i].c && f->k.term_stop)
                        fake_reset(&f->conns[i]);
                if (f->conns[i].c)
                        fake_close(&f->conns[i]);
        }
        stream_unlisten(&f->listener);
        close(f->wake);
        free(f->disk);
        f->disk = NULL;
}

static inline void fake_start(struct fake *f, const struct fake_knobs *k)
{
        char error[NET_ERROR];

        if (f->disk) /* of a test that has failed: two threads on one fake hang */
                fake_stop(f);
        memset(f, 0, sizeof(*f));
        f->k = *k;
        f->disk = calloc(FAKE_BLOCKS + 256, 512);
        f->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        assert_int_equal(stream_listen(&f->listener, "127.0.0.1", "0", error, sizeof(error)), 0);
        f->port = stream_listener_port(&f->listener);
        assert_int_equal(pthread_create(&f->thread, NULL, fake_run, f), 0);
}

static inline struct host_params fake_params(const struct fake *f)
{
        static char port[8];
        struct host_params p = host_params_default();

        snprintf(port, sizeof(port), "%u", f->port);
        p.traddr = "127.0.0.1";
        p.trsvcid = port;
        p.subnqn = FAKE_NQN;
        p.timeout = FAKE_PATIENCE;
        return p;
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A target without connections: an inventory of two subsystems at two ports, and queues that
 * are played by the test. A command is admitted and executed as a connection would do it; what is
 * completed later lands in a list of the queue.
 */
#ifndef NVMF_TARGET_TESTS_CTRL_FIXTURE_H
#define NVMF_TARGET_TESTS_CTRL_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "target/nvme/ctrl.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define SUB1     "nqn.2026-01.io.nvmfspec:one"
#define SUB2     "nqn.2026-01.io.nvmfspec:two"
#define HOST1    "nqn.2026-01.io.nvmfspec:host1"
#define HOST2    "nqn.2026-01.io.nvmfspec:host2"

enum { CC_ON = CC_EN | CC_IOSQES | CC_IOCQES, LATER = 0xffff, LATER_MAX = 64 };

struct bed { /* test bed */
        struct inventory inv;
        struct subsystem *one, *two; /* two: HOST2 only; at port 2 alone */
        struct port *port, *other;
        struct target_limits limits;
        struct rule_policy policy;
        struct ctrl_env env;
        uint64_t now;
};

struct fake { /* a connection */
        struct ctrl_queue q;
        struct bed *bed;
        const struct port *port;
        struct request *later[LATER_MAX]; /* completed by q.complete, in order */
        _Atomic unsigned later_n;
        _Atomic bool closed;
        enum ctrl_verdict verdict; /* of the last command */
};

struct cmd {
        struct request r;
        uint8_t data[65536];
};

static inline void fake_close(struct ctrl_queue *q)
{
        ((struct fake *)q)->closed = true;
}

static inline void fake_complete(struct ctrl_queue *q, struct request *r)
{
        struct fake *f = (struct fake *)q;

        f->later[f->later_n++ % LATER_MAX] = r;
}

static inline void fake_init(struct fake *f, struct bed *b)
{
        memset(f, 0, sizeof(*f));
        f->bed = b;
        f->port = b->port;
        f->q.close = fake_close;
        f->q.complete = fake_complete;
}

static inline void bed_add_ns(struct subsystem *s, const char *spec, uint32_t nsid)
{
        char error[128];
        struct ns *ns = ns_open(&nvme_ns_family, spec, s->nqn, nsid, error, sizeof(error));

        if (!ns)
                fail_msg("%s", error);
        else
                subsystem_add_ns(s, ns);
}

static inline struct port *new_port(uint16_t id, const char *traddr, const char *trsvcid)
{
        struct port *p = port_new(id);

        if (!p)
                abort();
        text_fill(p->traddr, sizeof(p->traddr), traddr);
        text_fill(p->trsvcid, sizeof(p->trsvcid), trsvcid);
        return p;
}

static inline void bed_fill(struct bed *b)
{
        b->one = subsystem_new(SUB1);
        b->two = subsystem_new(SUB2);
        if (!b->one || !b->two)
                abort();
        b->port = new_port(1, "192.0.2.1", "4420");
        b->other = new_port(2, "0.0.0.0", "4421");
        b->two->allow_any_host = false;
        assert_true(hosts_add(&b->two->hosts, HOST2, NULL));
        bed_add_ns(b->one, "mem:1M", 1);
        bed_add_ns(b->one, "null:1G,bs=4096", 3);
        inventory_add_subsystem(&b->inv, b->one);
        inventory_add_subsystem(&b->inv, b->two);
        inventory_add_port(&b->inv, b->port);
        inventory_add_port(&b->inv, b->other);
        assert_true(port_subsystems_add(&b->port->subsystems, b->one));
        assert_true(port_subsystems_add(&b->other->subsystems, b->one));
        assert_true(port_subsystems_add(&b->other->subsystems, b->two));
}

static inline void bed_init(struct bed *b)
{
        memset(b, 0, sizeof(*b));
        inventory_init(&b->inv);
        bed_fill(b);
        b->limits = (struct target_limits) {
                .connections = 64,
                .queue_entries = 64,
                .queues = 4,
                .controllers = 8,
                .max_transfer = 65536,
                .in_capsule = 8192,
                .idle_timeout = 120000,
                .auth_timeout = 60000,
                .host_controllers = 8,
                .subsystem_controllers = 8,
                .unproven = 8,
        };
        b->env = (struct ctrl_env) {
                .inv = &b->inv,
                .limits = &b->limits,
                .policy = &b->policy,
                .sqfc_disable = true,
                .table = ctrl_table_new(b->limits.controllers),
        };
        b->now = 1000;
}

static inline void bed_fini(struct bed *b)
{
        ctrl_table_free(b->env.table);
        inventory_fini(&b->inv);
}

/* Something of the namespace is another than before. */
static inline void ns_changed(struct bed *b, const struct subsystem *s, uint32_t nsid)
{
        const struct ns *ns = s ? ns_find(s, nsid) : NULL;
        struct ns_change change = { .subsystem = s, .nsid = nsid, .is = true };

        change.after = ns ? nvme_ns(ns)->hosts : NULL;
        ctrl_table_ns_changed(b->env.table, &change);
}

/* The status, with verdict in f; LATER if it is parked. Data of commands goes through c->data. */
static inline uint16_t run(struct fake *f, struct cmd *c)
{
        struct bed *b = f->bed;
        uint16_t status;

        c->r.data = NULL;
        c->r.len = c->r.c2h_len = 0;
        c->r.xfer = XFER_NONE;
        c->r.no_response = false;
        memset(&c->r.cqe, 0xff, sizeof(c->r.cqe));
        f->verdict = CTRL_COMPLETE;
        status = ctrl_admit(&b->env, &f->q, &c->r, b->now) & STATUS_MASK;
        if (status)
                return status;
        assert_true(c->r.len <= sizeof(c->data));
        c->r.data = c->r.len > 0 ? c->data : NULL;
        f->verdict = ctrl_execute(&b->env, &f->q, f->port, &c->r, b->now);
        if (f->verdict == CTRL_PARKED)
                return LATER;
        c->r.cqe.sqhd = le16(ctrl_sqhd(&f->q, &c->r));
        return cqe_status(&c->r.cqe);
}

/* The last one that q.complete brought; its status. */
static inline uint16_t later(const struct fake *f, unsigned n, const struct cmd *c)
{
        assert_true(n < f->later_n);
        assert_ptr_equal(f->later[n], &c->r);
        return cqe_status(&c->r.cqe);
}

static inline struct connect_data *connect_data_of(struct cmd *c)
{
        return (struct connect_data *)c->data;
}

/* A Connect that is right for the controller of `admin` (NULL: an admin queue of SUB1). */
static inline void make_connect(struct cmd *c, const struct fake *admin, uint16_t qid)
{
        struct connect_data *d = connect_data_of(c);

        memset(c, 0, sizeof(*c));
        c->r.sqe.connect = (struct connect_cmd) {
                .opc = NVME_FABRICS,
                .fctype = FCTYPE_CONNECT,
                .sgl = { .len = le32(CONNECT_DATA_LEN), .id = SGL_IN_CAPSULE },
                .qid = le16(qid),
                .sqsize = le16(31),
        };
        d->hostid[0] = 1;
        d->cntlid = le16(CNTLID_DYNAMIC);
        strcpy(d->subnqn, SUB1);
        strcpy(d->hostnqn, HOST1);
        if (admin) {
                struct cmd *get = calloc(1, sizeof(*get));

                get->r.sqe = (union sqe) { .opc = NVME_IDENTIFY, .cdw10 = le32(CNS_CTRL) };
                assert_int_equal(run((struct fake *)(uintptr_t)admin, get), 0);
                d->cntlid = ((struct id_ctrl *)get->data)->cntlid;
                memcpy(d->subnqn, ((struct id_ctrl *)get->data)->subnqn, sizeof(d->subnqn));
                free(get);
        }
}

static inline uint16_t set_cc(struct fake *f, struct cmd *c, uint32_t cc)
{
        memset(&c->r, 0, sizeof(c->r));
        c->r.sqe.property = (struct property_cmd) { .opc = NVME_FABRICS,
                                                    .fctype = FCTYPE_PROPERTY_SET,
                                                    .ofst = le32(PROP_CC),
                                                    .value = le64(cc) };
        return run(f, c);
}

static inline uint32_t get_csts(struct fake *f, struct cmd *c)
{
        memset(&c->r, 0, sizeof(c->r));
        c->r.sqe.property = (struct property_cmd) { .opc = NVME_FABRICS,
                                                    .fctype = FCTYPE_PROPERTY_GET,
                                                    .ofst = le32(PROP_CSTS) };
        assert_int_equal(run(f, c), 0);
        return le32_get(c->r.cqe.dw0);
}

/* An admin queue whose controller is enabled. */
static inline void open_admin_to(struct fake *f, struct bed *b, const char *subnqn, uint32_t kato)
{
        struct cmd *c = calloc(1, sizeof(*c));

        fake_init(f, b);
        make_connect(c, NULL, 0);
        c->r.sqe.connect.kato = le32(kato);
        text_fill(connect_data_of(c)->subnqn, NQN_FIELD, subnqn);
        assert_int_equal(run(f, c), 0);
        assert_int_equal(f->verdict, CTRL_CONNECTED);
        assert_int_equal(set_cc(f, c, CC_ON), 0);
        free(c);
}

static inline void open_admin(struct fake *f, struct bed *b)
{
        open_admin_to(f, b, SUB1, 0);
}

static inline void open_io(struct fake *f, struct bed *b, const struct fake *admin, uint16_t qid)
{
        struct cmd *c = calloc(1, sizeof(*c));

        fake_init(f, b);
        make_connect(c, admin, qid);
        assert_int_equal(run(f, c), 0);
        assert_int_equal(f->verdict, CTRL_CONNECTED);
        free(c);
}

static inline uint16_t simple(struct fake *f, struct cmd *c, uint8_t opc, uint32_t nsid,
                              uint32_t dw10, uint32_t dw11)
{
        memset(&c->r, 0, sizeof(c->r));
        c->r.sqe.opc = opc;
        c->r.sqe.cid = le16(opc);
        c->r.sqe.nsid = le32(nsid);
        c->r.sqe.cdw10 = le32(dw10);
        c->r.sqe.cdw11 = le32(dw11);
        return run(f, c);
}

static inline uint16_t get_log(struct fake *f, struct cmd *c, uint8_t lid, bool rae, uint32_t bytes,
                               uint64_t offset)
{
        uint32_t numd = bytes / 4 - 1;

        memset(&c->r, 0, sizeof(c->r));
        memset(c->data, 0xee, sizeof(c->data));
        c->r.sqe.opc = NVME_GET_LOG_PAGE;
        c->r.sqe.cdw10 = le32(numd << 16 | (uint32_t)rae << 15 | lid);
        c->r.sqe.cdw11 = le32(numd >> 16);
        c->r.sqe.cdw12 = le32((uint32_t)offset);
        c->r.sqe.cdw13 = le32((uint32_t)(offset >> 32));
        return run(f, c);
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* A target over verbs in memory, with threads of its own, and what tests ask of it. */
#ifndef NVMF_TARGET_SRP_TESTS_SRP_FIXTURE_H
#define NVMF_TARGET_SRP_TESTS_SRP_FIXTURE_H

#include "pdu/core/tests/check.h"

#include "pdu/io/verbs/verbs_memory.h"
#include "srp_peer.h"
#include "target/srp/srp_server.h"

struct fixture {
        struct verbs_provider *v;
        struct srp_server *s;
};

/* LUN 0 and 1 of a MiB, LUN 2 slow; nothing else is said. */
static inline struct fixture start_over(struct verbs_provider *v, struct srp_options o)
{
        static const char *luns[] = { "mem:1M", "mem:1M,bs=4096", "mem:1M,delay=150ms" };
        struct fixture f = { .v = v };
        char error[300] = "";

        if (o.luns == 0) {
                o.lun = luns;
                o.luns = 3;
        }
        o.listen[0] = (struct srp_place) { "127.0.0.1", "0" };
        o.listens = 1;
        o.verbs = f.v;
        o.quiet = true;
        f.s = srp_server_start(&o, error, sizeof(error));
        if (!f.s)
                fail_msg("%s", error);
        return f;
}

static inline struct fixture start_on(const struct memory_caps *caps, struct srp_options o)
{
        return start_over(verbs_memory_new(caps), o);
}

static inline struct fixture start(void)
{
        return start_on(NULL, (struct srp_options) { 0 });
}

/* Whatever the tests did, nothing of it may be left. */
static inline void stop(struct fixture *f)
{
        struct memory_count c;

        srp_server_stop(f->s);
        c = verbs_memory_leaks(f->v);
        assert_int_equal(c.contexts, 0);
        assert_int_equal(c.listeners, 0);
        assert_int_equal(c.eps, 0);
        assert_int_equal(c.qps, 0);
        assert_int_equal(c.mrs, 0);
        verbs_memory_free(f->v);
}

static inline struct srp_peer *try_login(struct fixture *f, struct srp_peer_options o)
{
        return peer_open(f->v, "127.0.0.1", srp_server_port(f->s, 0), o);
}

/* Logged in, and with nothing that units have to tell it any more. */
static inline struct srp_peer *login(struct fixture *f, struct srp_peer_options o)
{
        struct srp_peer *p = try_login(f, o);

        assert_true(p->established);
        p->tag = 100;
        return p;
}

static inline struct peer_rsp run(struct srp_peer *p, struct peer_cmd *c)
{
        struct peer_rsp r;

        p->limit--;
        peer_send(p, c->p, c->n);
        assert_true(peer_response(p, &r));
        assert_int_equal(be64_get(r.rsp.tag), c->tag);
        return r;
}

/* Whatever comes before its response is passed over. */
static inline struct peer_rsp run_at_last(struct srp_peer *p, uint64_t tag)
{
        struct peer_rsp r;
        struct peer_cmd c;

        cmd_begin(&c, tag, 0, (uint8_t[]) { SCSI_TEST_UNIT_READY }, 1);
        peer_send(p, c.p, c.n);
        do
                assert_true(peer_response(p, &r));
        while (be64_get(r.rsp.tag) != tag);
        return r;
}

static inline struct peer_rsp run_cdb(struct srp_peer *p, uint32_t lun, const void *cdb, size_t n)
{
        struct peer_cmd c;

        cmd_begin(&c, p->tag++, lun, cdb, n);
        return run(p, &c);
}

static inline void attend(struct srp_peer *p)
{
        for (uint32_t lun = 0; lun < 3; lun++) {
                struct peer_rsp r = run_cdb(p, lun, (uint8_t[]) { SCSI_TEST_UNIT_READY }, 1);

                assert_int_equal(r.rsp.status, SCSI_CHECK);
                assert_int_equal(r.sense.key, SCSI_UNIT_ATTENTION);
        }
}

static inline void is_good(struct peer_rsp r)
{
        if (r.rsp.status == SCSI_CHECK)
                fail_msg("sense %x/%04x", r.sense.key, r.sense.asc);
        assert_int_equal(r.rsp.status, SCSI_GOOD);
}

static inline void has_sense(struct peer_rsp r, uint8_t key, uint16_t asc)
{
        assert_int_equal(r.rsp.status, SCSI_CHECK);
        assert_true(r.has_sense);
        assert_int_equal(r.sense.key, key);
        assert_int_equal(r.sense.asc, asc);
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* NVMe Base 3.3.2.4, 3.6.2, 3.9.2: what an association outlives, and what it does not. */
#include <string.h>

#include "conformance/engine/suite.h"
#include "conformance/words/case.h"
#include "pdu/nvme/wire/discovery.h"

enum {
        KATO = 1000,
        KATO_MOST = 5000, /* ms */
        LATE = 1000,      /* ms that a busy target may need to notice */
        LATER = 5000,     /* ... of which only a target that is late takes them all */
        CQT_MOST = 10000,
        QUIET_MS = 300,
        CHANGE_MS = 3000, /* until a change shows */
};

/* How long its Keep Alive timer may take to end an association of which nothing is heard: ms. */
static uint32_t patience(struct queue *admin)
{
        uint32_t kato = get_feature(admin, FEAT_KATO);

        require(admin->t, kato > 0 && kato <= KATO_MOST, "KATO is raised to %u ms", kato);
        require(admin->t, le16_get(caps(admin->t)->id.cqt) <= CQT_MOST, "CQT is %u ms",
                le16_get(caps(admin->t)->id.cqt));
        return 2 * kato + le16_get(caps(admin->t)->id.cqt) + LATE;
}

/* --- Keep Alive */

/* Of so many ms it has been quiet for QUIET_MS, and is so again. What ends another association, which has the usual
 * KATO, as well is not the timer: by 3.1.2 a reset or a shutdown may, however late. */
static void expect_no_expiry(struct queue *q, struct queue *other, unsigned ms, const char *why)
{
        pause_ms(q->t, ms - 2 * QUIET_MS);
        if (ends_within(q, QUIET_MS))
                require(q->t, !ends_within(other, QUIET_MS), "%s", why);
        expect_works(q);
}

CASE("fab/keep-alive/disabled", MUST, RULES(KA_INACTIVE),
     "The association survives a Controller Reset and a silence longer than KATO", .slow = true,
     .unmoved = true)
{
        struct queue *other = admin_queue(t), *q;
        uint32_t ms;

        set_cc(other, CC_RUN & ~CC_EN, CSTS_RDY, 0);
        q = admin_queue(t, .kato = KATO);
        ms = patience(q);
        set_cc(q, CC_RUN & ~CC_EN, CSTS_RDY, 0);
        require(t, !ends_within(q, QUIET_MS), ENDS_WITH_RESET);
        q->may_end = false;
        expect_no_expiry(q, other, ms, ENDS_WITH_RESET);
}

/* A controller may end the association by the shutdown (3.1.2), but not by the timer. */
CASE("fab/keep-alive/after-shutdown", MUST, RULES(KA_INACTIVE),
     "After a shutdown the Keep Alive timer does not end the association", .slow = true,
     .unmoved = true)
{
        static const char why[] = "the association ends with the shutdown (Base 3.1.2)";
        struct queue *other = admin_queue(t), *q;
        uint32_t ms;

        begin_shutdown(other, CC_SHN_NORMAL);
        q = admin_queue(t, .kato = KATO);
        ms = patience(q);
        begin_shutdown(q, CC_SHN_NORMAL);
        require(t, !ends_within(q, QUIET_MS), "%s", why);
        q->may_end = false;
        expect_no_expiry(q, other, ms, why);
}

CASE("fab/keep-alive/longer", MUST, RULES(KA_ALIVE),
     "A longer KATO set by Set Features takes effect at once", .slow = true, .unmoved = true)
{
        struct queue *q = admin_queue(t, .kato = KATO);
        uint32_t ms = patience(q);

        succeed(q, send_set_feature(q, FEAT_KATO, 60000));
        pause_ms(t, ms);
        expect_works(q);
}

CASE("fab/discovery/expiry", MUST, RULES(KA_EXPIRY),
     "When the Keep Alive timer of a discovery controller expires, the connection is closed",
     .needs = DISCOVERY, .slow = true, .unmoved = true)
{
        struct queue *q;

        require(t, caps(t)->persistent,
                "the discovery service does not support persistent connections");
        q = discovery_queue(t, .kato = KATO);
        expect_end_within(q, patience(q) - LATE + LATER);
}

/* --- single queues */

static struct queue *deleting(struct t *t)
{
        require(t, le16_get(caps(t)->id.ofcs) & OFCS_DISCONNECT, "Disconnect is not supported");
        return admin_queue(t, .cattr = CATTR_INDIVIDUAL_DELETE);
}

CASE("fab/disconnect/others", MUST, RULES(FAB_QUEUES_APART),
     "After Disconnect of an I/O queue the other one and the admin queue work on")
{
        struct queue *admin = deleting(t), *q = io_queue_of(admin, .qid = 1),
                     *other = io_queue_of(admin, .qid = 2);

        disconnect(q);
        give_ms(t, QUIET_MS);
        expect_works(other);
        expect_works(admin);
}

/* Commands are answered, whatever their status. */
static void expect_alive(struct queue *q)
{
        if (caps(q->t)->nsid)
                (void)expect_answer(q, send_read(q));
        want(q->t, !q->over, "the connection stays", "it ended");
}

CASE("fab/disconnect/connection-lost", MUST, RULES(FAB_QUEUES_APART),
     "Where both sides delete single I/O queues, the loss of one connection ends nothing else",
     .slow = true, .unmoved = true)
{
        struct queue *admin = deleting(t), *q = io_queue_of(admin, .qid = 1),
                     *other = io_queue_of(admin, .qid = 2);

        rst(q);
        pause_ms(t, 3000);
        expect_alive(other);
        expect_works(admin);
}

/* --- names and addresses */

/* Else a host that is not known may be refused as one whose NQN is wrong (6.3). */
static void require_any_host(struct t *t)
{
        struct queue *q = bare_queue(t);
        struct reply r = expect_answer(q, send_connect(q, .hostnqn = "nqn.2014-08.org.example:h"));

        require(t, r.status == NVME_SUCCESS && !q->over,
                "the subsystem does not allow other hosts");
        hang_up(q);
}

CASE("fab/connect/hostnqn-longest", MUST, RULES(FAB_NQN_MAX),
     "Connect with a HOSTNQN of 223 bytes is not refused for its length")
{
        char nqn[NQN_FIELD] = "nqn.2014-08.org.example:";
        struct queue *q;
        struct reply r;

        require_any_host(t);
        memset(nqn + strlen(nqn), 'h', NQN_MAX - strlen(nqn));
        q = bare_queue(t);
        r = expect_resp(q, send_connect(q, .hostnqn = nqn));
        require(t, r.status != NVME_CONNECT_HOST, "the subsystem does not allow this host");
        want(t, r.status != NVME_CONNECT_PARAM, "Success", "Connect Invalid Parameters, IPO %u",
             r.dw0 & 0xffff);
}

CASE("fab/discovery/traddr", MUST, RULES(DISC_TRADDR),
     "TRADDR of TCP and RDMA discovery log entries is an address", .needs = DISCOVERY)
{
        uint64_t n;
        const struct disc_header *h = whole_discovery_log(discovery_queue(t), 0, &n);

        for (uint64_t i = 0; i < n; i++) {
                const struct disc_entry *e = h->entries + i;
                struct rule_set found = { 0 };

                disc_entry_check(e, &found);
                want(t, !rule_in(&found, DISC_TRADDR), "an address for a Connect",
                     "'%.*s' with ADRFAM %u in entry %u",
                     (int)text_len(e->traddr, sizeof(e->traddr)), e->traddr, e->adrfam,
                     (unsigned)i);
        }
}

/* How many the discovery log has; its event is left (RAE). */
static uint64_t entries(struct queue *q)
{
        const struct disc_header *h = get_log(q, LOG_DISCOVERY, DISC_HEADER_LEN, 0);

        return le64_get(h->numrec);
}

CASE(
    "fab/discovery/event-default", MUST, RULES(DISC_NOTICES),
    "A change of the discovery log is reported to a host that has connected with a KATO and set no "
    "feature",
    .needs = DISCOVERY, .changes = true)
{
        struct queue *q;
        uint64_t before, end;
        uint16_t aer;

        require(t, caps(t)->persistent,
                "the discovery service does not support persistent connections");
        q = discovery_queue(t, .kato = 120000);
        aer = send_cmd(q, .opc = NVME_AER);
        before = entries(q);
        change(t, CHANGE_DISCOVERY);
        end = t_deadline(t, CHANGE_MS);
        while (entries(q) == before && now_ms() < end)
                give_ms(t, QUIET_MS);
        require(t, entries(q) != before, "the discovery log has as many entries as before");
        want_eq(t, "type, information and log page of the event", expect_success(q, aer).dw0,
                AEN_NOTICE | AEN_INFO_DISCOVERY << 8 | LOG_DISCOVERY << 16);
}

/* 4.8: what is received is not looked at as text. */
CASE("fab/connect/hostnqn-bytes", SHOULD, RULES(FAB_NQN_BYTES),
     "Connect with a HOSTNQN that is not UTF-8 is not refused for its syntax")
{
        struct queue *q;
        struct reply r;

        require_any_host(t);
        q = bare_queue(t);
        r = expect_answer(q, send_connect(q, .hostnqn = "nqn.2026-01.i\xff\xfe.example:host"));
        want(t, q->over || r.status != NVME_CONNECT_PARAM, "Success, or Connect Invalid Host",
             "Connect Invalid Parameters");
}

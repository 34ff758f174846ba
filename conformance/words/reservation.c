/* SPDX-License-Identifier: BSD-3-Clause */
/* The words of reservations. */
#include "case_reservation.h"

#include <string.h>

#include "words.h"

enum { REPORT_BYTES = 4096, HOSTS = 3 };

uint8_t rescap(struct queue *q)
{
        enum { ASKED = 1 << 8 };
        struct world *w = world(q->t);

        if (!w->rescap) {
                const struct id_ns *id = identify(q->admin, CNS_NS, caps(q->t)->nsid);

                w->rescap = ASKED | id->rescap;
        }
        return (uint8_t)w->rescap;
}

unsigned a_type(struct queue *q)
{
        unsigned type = WRITE_EXCLUSIVE, has = rescap(q);

        while (type < EXCLUSIVE_ACCESS_ALL && !(has >> type & 1))
                type++;
        return type;
}

struct queue *host_queue(struct t *t, unsigned host)
{
        return io_queue(t, .host = host);
}

/* --- commands */

uint16_t send_keys_to(struct queue *q, uint32_t nsid, uint8_t opc, uint32_t cdw10, uint64_t first,
                      uint64_t second)
{
        uint32_t bytes = opc == NVME_RESERVATION_RELEASE ? 8 : 16;
        uint8_t *data = t_alloc(q->t, 16);

        le_put(data, 8, first);
        le_put(data + 8, 8, second);
        return send_cmd(q, .opc = opc, .nsid = nsid, .cdw10 = cdw10, .bytes = bytes, .data = data,
                        .in_capsule = caps(q->t)->in_capsule >= bytes);
}

static uint16_t send_keys(struct queue *q, uint8_t opc, uint32_t cdw10, uint64_t first,
                          uint64_t second)
{
        return send_keys_to(q, caps(q->t)->nsid, opc, cdw10, first, second);
}

uint16_t send_register(struct queue *q, uint32_t cdw10, uint64_t crkey, uint64_t nrkey)
{
        return send_keys(q, NVME_RESERVATION_REGISTER, cdw10, crkey, nrkey);
}

uint16_t send_acquire(struct queue *q, uint32_t action, unsigned type, uint64_t crkey,
                      uint64_t prkey)
{
        bool assigned = type >= WRITE_EXCLUSIVE && type <= EXCLUSIVE_ACCESS_ALL;

        require(q->t, !assigned || rescap(q) >> type & 1, "RESCAP does not name type %u", type);
        return send_keys(q, NVME_RESERVATION_ACQUIRE, action | type << RESERVATION_TYPE_SHIFT,
                         crkey, prkey);
}

uint16_t send_release(struct queue *q, uint32_t action, unsigned type, uint64_t crkey)
{
        return send_keys(q, NVME_RESERVATION_RELEASE, action | type << RESERVATION_TYPE_SHIFT,
                         crkey, 0);
}

uint16_t send_report(struct queue *q, uint32_t bytes, uint32_t cdw11)
{
        return send_cmd(q, .opc = NVME_RESERVATION_REPORT, .nsid = caps(q->t)->nsid,
                        .cdw10 = bytes / 4 - 1, .cdw11 = cdw11, .bytes = bytes,
                        .sgl_len = (int64_t)bytes);
}

void expect_reserved(struct queue *q, uint16_t cid, uint16_t status)
{
        if (status)
                expect_error(q, cid, status);
        else
                succeed(q, cid);
}

bool comes_within(struct queue *q, uint16_t cid, unsigned ms)
{
        uint64_t end = t_deadline(q->t, ms);

        while (!answered(q, cid) && q->conn->end == CONN_OPEN)
                if (!conn_wait(q->conn, end))
                        break;
        if (!answered(q, cid))
                broke_if_late(q);
        return answered(q, cid);
}

/* --- Report */

enum { SEEN = sizeof(((struct report *)0)->of) / sizeof(struct registrant_seen) };

static const struct registrant_seen *entry_of(const struct report *r, const uint8_t *hostid)
{
        for (unsigned i = 0; i < r->count; i++)
                if (memcmp(r->of[i].hostid, hostid, 16) == 0)
                        return &r->of[i];
        return NULL;
}

/* Entries beyond those that a case makes are not looked at. Up to 2.0 there may be one for each controller of a
 * registrant (2.0 7.5): the first one stands for it. */
static void read_entries(struct t *t, struct report *r, const struct reply *reply)
{
        const struct reservation_entry_extended *e = (const void *)(reply->data + REPORT_HEADER);
        bool repeated = caps(t)->vs <= NVME_VERSION(2, 0, 0);

        for (unsigned i = 0; i < r->entries && r->count < SEEN; i++) {
                struct registrant_seen *to = &r->of[r->count];

                want(t, REPORT_HEADER + (i + 1) * sizeof(*e) <= reply->got,
                     "as many entries as REGSTRNT says", "%u of %u", i, r->entries);
                if (repeated && entry_of(r, e[i].hostid))
                        continue;
                to->key = le64_get(e[i].key);
                to->cntlid = le16_get(e[i].cntlid);
                to->holds = e[i].rcsts & RCSTS_HOLDER;
                memcpy(to->hostid, e[i].hostid, 16);
                r->count++;
        }
}

struct report report_of(struct queue *q)
{
        struct reply reply = succeed(q, send_report(q, REPORT_BYTES, REPORT_EXTENDED));
        const struct reservation_status *s = (const void *)reply.data;
        struct report r = { .bytes = reply.got };

        want(q->t, reply.got >= REPORT_HEADER, "the header of Reservation Status", "%u bytes",
             reply.got);
        r.gen = le32_get(s->gen);
        r.type = s->type;
        r.ptpls = s->ptpls;
        r.entries = le16_get(s->registrants);
        want(q->t, r.type <= EXCLUSIVE_ACCESS_ALL, "a type of 0 to 6", "%u", r.type);
        want(q->t, r.ptpls <= 1, "PTPLS of 0 or 1", "%u", r.ptpls);
        read_entries(q->t, &r, &reply);
        return r;
}

uint32_t report_bytes(struct queue *q, uint32_t bytes)
{
        return succeed(q, send_report(q, bytes, REPORT_EXTENDED)).got;
}

const struct registrant_seen *registrant_of(const struct report *r, struct queue *q)
{
        char nqn[NQN_FIELD];
        uint8_t hostid[16];

        case_identity(q->t, q->host, hostid, nqn);
        return entry_of(r, hostid);
}

bool is_registered(struct report r, struct queue *q)
{
        return registrant_of(&r, q);
}

bool holds(struct report r, struct queue *q)
{
        const struct registrant_seen *e = registrant_of(&r, q);

        return e && e->holds;
}

uint32_t each_nsid(const struct t *t)
{
        enum { MDS = 1 << 10 };

        return le32_get(caps(t)->id.ctratt) & MDS ? caps(t)->nsid : NSID_ALL;
}

uint32_t ptpl_of(struct queue *q)
{
        return succeed(q->admin,
                       send_cmd(q->admin, .opc = NVME_GET_FEATURES, .nsid = caps(q->t)->nsid,
                                .cdw10 = FEAT_RESERVATION_PERSISTENCE))
            .dw0;
}

/* --- before and after a case */

/* Whether there is a first entry, as far as that can be told of a report that may be wrong. */
static bool has_registrant(struct queue *q)
{
        struct reply r = finish(q, send_report(q, REPORT_BYTES, REPORT_EXTENDED));
        const struct reservation_entry_extended *e = (const void *)(r.data + REPORT_HEADER);
        static const uint8_t nobody[16];

        return r.status == NVME_SUCCESS && r.got >= REPORT_HEADER + sizeof(*e) &&
               memcmp(e->hostid, nobody, sizeof(nobody)) != 0;
}

struct queue *reserving_queue(struct t *t)
{
        struct queue *q;

        require(t, le16_get(caps(t)->id.oncs) & ONCS_RESERVATIONS,
                "ONCS does not announce reservations");
        q = io_queue(t);
        require(t, rescap(q), "the namespace has no reservations");
        require(t, !has_registrant(q),
                "somebody has registered with the namespace, and may need that");
        world(t)->reserves = true;
        return q;
}

void unreserve(struct t *t)
{
        struct queue *q;

        if (!world(t) || !world(t)->reserves)
                return;
        q = io_queue(t);
        finish(q, send_register(q, RREGA_REPLACE | RESERVATION_IEKEY, 0, KEY(0)));
        finish(q, do_clear(q, KEY(0)));
        for (unsigned host = 0; host < HOSTS && has_registrant(q); host++) {
                struct queue *each = host_queue(t, host);

                finish(each, send_register(each, RREGA_UNREGISTER | RESERVATION_IEKEY, 0, 0));
        }
        /* one mask for all controllers is as lawful as one for each */
        finish(q->admin, send_cmd(q->admin, .opc = NVME_SET_FEATURES, .nsid = each_nsid(t),
                                  .cdw10 = FEAT_RESERVATION_MASK));
        undo(t);
}

/* --- of a subsystem that may be changed */

struct queue *expendable_queue(struct t *t, unsigned host)
{
        return io_queue(t, .subnqn = caps(t)->expendable, .host = host);
}

struct queue *expendable_reserving_queue(struct t *t, uint32_t *nsid)
{
        struct queue *q;

        require(t, caps(t)->expendable, "no subsystem may be changed (--expendable-nqn)");
        q = expendable_queue(t, 0);
        require(t, le16_get(identify_ctrl(q->admin)->oncs) & ONCS_RESERVATIONS,
                "ONCS does not announce reservations");
        *nsid = (uint32_t)le_get(identify(q->admin, CNS_NS_LIST, 0), 4);
        require(t, *nsid, "the subsystem has no namespace");
        world(t)->reserves = true;
        return q;
}

void unreserve_expendable(struct t *t)
{
        struct queue *q;
        uint32_t nsid;

        if (!world(t) || !world(t)->reserves)
                return;
        q = expendable_queue(t, 0);
        nsid = (uint32_t)le_get(identify(q->admin, CNS_NS_LIST, 0), 4);
        finish(q, send_keys_to(q, nsid, NVME_RESERVATION_REGISTER,
                               RREGA_UNREGISTER | RESERVATION_IEKEY, 0, 0));
        undo(t);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* NVMe Base 5.1.12: whose entries log pages have and how many, and which log pages there are. */
#include <inttypes.h>
#include <string.h>

#include "conformance/engine/suite.h"
#include "conformance/words/case.h"

enum { LID_RESERVED = 0x6f, COUNT_MS = 3000 /* how soon a counter shows it nobody says */ };

static void make_error(struct queue *q)
{
        struct reply r = finish(q, send_get_log(q, LID_RESERVED, 512, 0));

        require(q->t, r.status != NVME_SUCCESS && r.more,
                "the failed command completed with M (More) cleared");
}

static uint64_t last_error(struct queue *q)
{
        return le64_get(((const struct log_error *)get_log(q, LOG_ERROR, 64, 0))->count);
}

CASE("base/log/error-full", SHOULD, RULES(LOG_ERROR_ORDER),
     "When the Error Information log is full it still begins with the latest error")
{
        struct queue *q = admin_queue(t);
        unsigned n = caps(t)->id.elpe + 1u;
        uint64_t before, after;

        for (unsigned i = 0; i < n; i++)
                make_error(q);
        before = last_error(q);
        make_error(q);
        after = last_error(q);
        want(t, before < after, "an error count that rises with a further error",
             "%" PRIu64 " and then %" PRIu64 " in a log of %u entries", before, after, n);
}

CASE("base/log/error-own", MUST, RULES(LOG_ERROR_OWN),
     "An error on one controller leaves the Error Information log of another one as it is")
{
        struct queue *q = admin_queue(t), *other = admin_queue(t);
        uint64_t before = last_error(other);

        make_error(q);
        make_error(q);
        want_eq(t, "the error count of the latest entry", last_error(other), before);
}

static uint64_t error_entries(struct queue *q)
{
        const struct log_smart *s = get_log(q, LOG_SMART, sizeof(*s), 0);

        return le_get(s->error_entries, 8);
}

CASE("base/log/error-entries", MUST, RULES(LOG_ERROR_COUNTED),
     "SMART / Health counts the entries of the Error Information log")
{
        struct queue *q = admin_queue(t);
        uint64_t before = error_entries(q), after;

        make_error(q);
        make_error(q);
        for (uint64_t end = t_deadline(t, COUNT_MS);
             (after = error_entries(q)) - before < 2 && now_ms() < end;)
                pause_ms(t, 100);
        want(t, after >= before + 2, "two entries more", "%" PRIu64 " and then %" PRIu64, before,
             after);
}

/* --- which there are */

static bool is_listed(const le32_t *list, unsigned lid)
{
        return le32_get(list[lid]) & 1;
}

/* The first 16 bytes of it, and what waits for it is left (RAE). */
static uint16_t try_log(struct queue *q, unsigned lid)
{
        return finish(q, send_cmd(q, .opc = NVME_GET_LOG_PAGE, .nsid = NSID_ALL,
                                  .cdw10 = lid | 1u << 15 | 3u << 16, .bytes = 16))
            .status;
}

CASE("base/log/supported-served", MUST, RULES(LOG_SERVED),
     "Get Log Page returns the log pages that Supported Log Pages names, and refuses the others")
{
        /* those that need nothing but their number */
        static const uint8_t plain[] = { 0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x12, 0x13 };
        enum { VENDOR = 0xc0 };
        struct queue *q = admin_queue(t);
        struct reply r = finish(q, send_get_log(q, LOG_SUPPORTED, 1024, 0));
        const le32_t *list = (const le32_t *)r.data;

        require(t, r.status == NVME_SUCCESS, "Supported Log Pages is not supported");
        for (unsigned lid = 0; lid < VENDOR; lid++) {
                bool served;

                if (is_listed(list, lid) && !memchr(plain, (int)lid, sizeof(plain)))
                        continue;
                served = try_log(q, lid) == NVME_SUCCESS;
                want(t, served == is_listed(list, lid), "a list of the log pages that there are",
                     "log page %02Xh is %sin the list and %s", lid,
                     is_listed(list, lid) ? "" : "not ", served ? "returned" : "refused");
        }
}

/* --- discovery */

static uint32_t supported(struct queue *q, uint8_t lid)
{
        struct reply r = finish(q, send_get_log(q, LOG_SUPPORTED, 1024, 0));

        require(q->t, r.status == NVME_SUCCESS, "Supported Log Pages is not supported");
        return le32_get(((const le32_t *)r.data)[lid]);
}

static uint16_t send_by_index(struct queue *q, uint32_t index)
{
        enum { DWORDS = DISC_ENTRY_LEN / 4, BY_INDEX = 1 << 23 };

        return send_cmd(q, .opc = NVME_GET_LOG_PAGE,
                        .cdw10 = LOG_DISCOVERY | 1u << 15 | (DWORDS - 1u) << 16, .cdw12 = index,
                        .cdw14 = BY_INDEX, .bytes = DISC_ENTRY_LEN);
}

static bool is_entry(struct queue *q, uint32_t index, const struct disc_entry *e)
{
        struct reply r = finish(q, send_by_index(q, index));

        return r.status == NVME_SUCCESS && memcmp(r.data, e, sizeof(*e)) == 0;
}

CASE("fab/discovery/index", MUST, RULES(DISC_INDEX),
     "Where index offsets are supported, index n of the discovery log is entry n - 1, and none "
     "beyond",
     .needs = DISCOVERY)
{
        enum { TRIES = 3 };
        struct queue *q = discovery_queue(t);
        const struct disc_header *h;
        uint64_t n, now;
        bool same = false;

        require(t, supported(q, LOG_DISCOVERY) & 2, "index offsets are not supported");
        for (int tries = 0; tries < TRIES && !same; tries++) { /* others may change it meanwhile */
                h = whole_discovery_log(q, 0, &n);
                require(t, n > 0 && n < 64 && !(h->flags & 1), "the log has %u entries",
                        (unsigned)n);
                same = true;
                for (uint32_t i = 1; i <= n && same; i++)
                        same = is_entry(q, i, h->entries + i - 1);
        }
        want(t, same, "entry n - 1 at index n", "another one, %d times", TRIES);
        want_bytes(t, "the log from index 0 on, after GENCTR",
                   succeed(q, send_by_index(q, 0)).data + sizeof(h->genctr),
                   (const uint8_t *)h + sizeof(h->genctr), DISC_ENTRY_LEN - sizeof(h->genctr));
        /* n + 1 is above the number of entries, or, if the header is one, equals it */
        if (finish(q, send_by_index(q, (uint32_t)n + 2)).status == NVME_SUCCESS) {
                whole_discovery_log(q, 0, &now);
                require(t, now == n, "the discovery log has changed");
        }
        expect_error(q, send_by_index(q, (uint32_t)n + 2), NVME_INVALID_FIELD);
}

/* PORTID tells the ports of one subsystem apart (figure 295); a referral is about another service. */
static void want_same_port(struct t *t, const struct disc_entry *a, const struct disc_entry *b)
{
        bool same = a->subtype == b->subtype && a->subtype != SUBTYPE_REFERRAL &&
                    strncmp(a->subnqn, b->subnqn, sizeof(a->subnqn)) == 0;

        if (same)
                want_eq(t, "the port of each entry of a subsystem", le16_get(b->portid),
                        le16_get(a->portid));
}

CASE("fab/discovery/port-local", MUST, RULES(DISC_LOCAL),
     "Port local discovery log entries of a subsystem are all of one port, and PORTLCL is 1",
     .needs = DISCOVERY)
{
        /* as many as each controller transfers, for they change between two commands */
        enum { PLEO = 1 << 9, ENTRIES = 3, DWORDS = (ENTRIES + 1) * DISC_ENTRY_LEN / 4 };
        struct queue *q = discovery_queue(t);
        const struct disc_header *h;
        const struct disc_entry *e;
        uint64_t n;

        require(t, supported(q, LOG_DISCOVERY) >> 16 & 2, "port local entries are not supported");
        h = (const void *)succeed(q, send_cmd(q, .opc = NVME_GET_LOG_PAGE,
                                              .cdw10 = LOG_DISCOVERY | PLEO | (DWORDS - 1u) << 16,
                                              .bytes = DWORDS * 4))
                .data;
        e = h->entries;
        n = le64_get(h->numrec);
        want_eq(t, "PORTLCL", h->flags >> 1 & 1, 1);
        for (uint64_t i = 1; i < n && i < ENTRIES && !(h->flags & 1); i++)
                for (uint64_t k = 0; k < i; k++)
                        want_same_port(t, &e[k], &e[i]);
}

CASE("base/log/error-reset", SHOULD, RULES(LOG_ERROR_RESET),
     "After a Controller Reset the Error Information log is empty")
{
        struct queue *q = admin_queue(t);
        const struct log_error *e;

        finish(q, send_get_log(q, 0x6f, 512, 0));
        e = get_log(q, LOG_ERROR, sizeof(*e), 0);
        require(t, le64_get(e->count), "a failed command makes no entry");
        set_cc(q, 0, CSTS_RDY, 0);
        set_cc(q, CC_RUN, CSTS_RDY, CSTS_RDY);
        e = get_log(q, LOG_ERROR, sizeof(*e), 0);
        want_eq(t, "the error count of the first entry", le64_get(e->count), 0);
}

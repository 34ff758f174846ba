/* SPDX-License-Identifier: BSD-3-Clause */
/* NVMe Base 3.1.3.3: the discovery service and its log. */
#include <string.h>

#include "conformance/words/case.h"
#include "pdu/nvme/wire/discovery.h"

/* The whole log, read at once. */
static const struct disc_header *read_log(struct queue *q, uint64_t *n)
{
        const struct disc_header *h = get_log(q, LOG_DISCOVERY, DISC_HEADER_LEN, 0);

        *n = le64_get(h->numrec);
        require(q->t, *n <= 120, "the log has %llu entries", (unsigned long long)*n);
        return get_log(q, LOG_DISCOVERY, DISC_HEADER_LEN + (uint32_t)*n * DISC_ENTRY_LEN, 0);
}

static const struct disc_entry *entries(const struct disc_header *h)
{
        return (const struct disc_entry *)(h + 1);
}

CASE("fab/discovery/connect", MUST, RULES(FAB_ANSWERED),
     "The discovery service can be connected by its well-known NQN", .needs = DISCOVERY)
{
        expect_works(discovery_queue(t));
}

CASE("fab/discovery/log-header", MUST, RULES(DISC_HEADER),
     "The discovery log has RECFMT 0 and contains NUMREC entries", .needs = DISCOVERY)
{
        uint64_t n;
        const struct disc_header *h = read_log(discovery_queue(t), &n);

        want_eq(t, "RECFMT", le16_get(h->recfmt), 0);
        want_eq(t, "NUMREC", le64_get(h->numrec), n);
        for (uint64_t i = 0; i < n; i++)
                want(t, entries(h)[i].trtype != 0, "a discovery log entry",
                     "zeroes in place of an entry");
}

CASE("fab/discovery/log-entry", MUST, RULES(DISC_ENTRY),
     "Discovery log entries have assigned types, a terminated NQN and an ASQSZ of at least 32",
     .needs = DISCOVERY)
{
        uint64_t n;
        const struct disc_header *h = read_log(discovery_queue(t), &n);

        for (uint64_t i = 0; i < n; i++) {
                const struct disc_entry *e = &entries(h)[i];

                want(t, (e->trtype >= 1 && e->trtype <= 3) || e->trtype == TRTYPE_LOOP,
                     "TRTYPE 1, 2, 3 or 254", "%u", e->trtype);
                want(t, e->subtype >= 1 && e->subtype <= 3, "SUBTYPE 1 to 3", "%u", e->subtype);
                want(t, e->adrfam <= 4 || e->trtype == TRTYPE_LOOP, "ADRFAM up to 4", "%u",
                     e->adrfam);
                want(t, memchr(e->subnqn, 0, NQN_MAX + 1), "a NUL-terminated NQN", "none");
                want(t, le16_get(e->asqsz) >= 32, "an ASQSZ of at least 32", "%u",
                     le16_get(e->asqsz));
        }
}

CASE("tcp/discovery/trsvcid", MUST, RULES(DISC_TRSVCID),
     "TRSVCID of TCP discovery log entries is a decimal port number", .needs = DISCOVERY)
{
        uint64_t n;
        const struct disc_header *h = read_log(discovery_queue(t), &n);

        for (uint64_t i = 0; i < n; i++) {
                char port[33] = { 0 };

                if (entries(h)[i].trtype != TRTYPE_TCP)
                        continue;
                memcpy(port, entries(h)[i].trsvcid, 32);
                want(t, port[0] > '0' && port[0] <= '9' && port[strspn(port, "0123456789 ")] == 0,
                     "a decimal port number", "'%s'", port);
        }
}

CASE("tcp/discovery/tsas", MUST, RULES(DISC_TSAS),
     "TSAS of TCP discovery log entries has SECTYPE 0, 1 or 2, and its other bytes are zero",
     .needs = DISCOVERY)
{
        static const uint8_t zeroes[255];
        uint64_t n;
        const struct disc_header *h = read_log(discovery_queue(t), &n);

        for (uint64_t i = 0; i < n; i++) {
                const struct disc_entry *e = &entries(h)[i];

                if (e->trtype != TRTYPE_TCP)
                        continue;
                want(t, e->tsas[0] <= 2, "SECTYPE 0 to 2", "%u", e->tsas[0]);
                want_bytes(t, "TSAS after SECTYPE", e->tsas + 1, zeroes, sizeof(zeroes));
        }
}

CASE("fab/discovery/genctr", MUST, RULES(DISC_GENCTR),
     "GENCTR does not change while the discovery log does not change", .needs = DISCOVERY,
     .related = "blktests nvme/030")
{
        uint64_t n, before = le64_get(read_log(discovery_queue(t), &n)->genctr);
        struct queue *q = discovery_queue(t);

        for (int i = 0; i < 4; i++)
                want_eq(t, "GENCTR", le64_get(read_log(q, &n)->genctr), before);
}

CASE("fab/discovery/log-offsets", MUST, RULES(DISC_OFFSETS),
     "The discovery log read in pieces at rising offsets equals the log read in one piece",
     .needs = DISCOVERY)
{
        struct queue *q = discovery_queue(t);
        uint64_t n;
        const uint8_t *whole = (const uint8_t *)read_log(q, &n);

        for (uint64_t at = 0; at < DISC_HEADER_LEN + n * DISC_ENTRY_LEN; at += 512)
                want_bytes(t, "a piece of the discovery log", get_log(q, LOG_DISCOVERY, 512, at),
                           whole + at, 512);
}

CASE("fab/discovery/listed", SHOULD, RULES(DISC_LISTED),
     "The subsystem under test is listed in the discovery log", .needs = DISCOVERY)
{
        uint64_t n;
        struct queue *q = admin_queue(t);
        const struct disc_header *h = read_log(discovery_queue(t), &n);

        for (uint64_t i = 0; i < n; i++)
                if (strncmp(entries(h)[i].subnqn, q->subnqn, sizeof(q->subnqn)) == 0)
                        return;
        fail(t, "an entry with its NQN", "%llu other entries", (unsigned long long)n);
}

/* What the discovery log says of the subsystem. */
static const struct disc_entry *our_entry(struct t *t)
{
        require(t, caps(t)->entry.trtype,
                "the discovery log has no entry of the subsystem "
                "under test");
        return &caps(t)->entry;
}

CASE("fab/discovery/entry-cntlid", MUST, NO_RULE,
     "CNTLID of a discovery log entry is FFFFh in the dynamic model, and not FFFFh in the static "
     "model")
{
        uint16_t cntlid = le16_get(our_entry(t)->cntlid);
        bool dynamic = !(identify_ctrl(admin_queue(t))->fcatt & 1);

        want(t, (cntlid == CNTLID_DYNAMIC) == dynamic,
             dynamic ? "FFFFh"
                     : "a CNTLID other than "
                       "FFFFh",
             "%Xh", cntlid);
}

CASE("fab/discovery/entry-asqsz", MUST, NO_RULE,
     "An admin queue can have as many entries as ASQSZ of its discovery log entry says")
{
        uint16_t sqsize = (uint16_t)(le16_get(our_entry(t)->asqsz) - 1);

        expect_works(admin_queue(t, .sqsize = sqsize, .judged = true));
}

CASE("fab/discovery/one-entry", MUST, RULES(DISC_ONE_DYNAMIC),
     "A subsystem of the dynamic model has one discovery log entry per port and address",
     .needs = DISCOVERY)
{
        uint64_t n;
        const struct disc_header *h = read_log(discovery_queue(t), &n);

        for (uint64_t i = 0; i < n; i++)
                for (uint64_t k = 0; k < i; k++)
                        want(t, !disc_entry_twins(&entries(h)[i], &entries(h)[k]), "one entry",
                             "entries %u and %u for %.223s", (unsigned)k, (unsigned)i,
                             entries(h)[i].subnqn);
}

CASE("fab/discovery/persistent", MUST, RULES(DISC_PERSISTENT),
     "A discovery controller refuses a KATO in Connect, or supports Keep Alive and AER",
     .needs = DISCOVERY)
{
        struct queue *q = bare_queue(t);
        struct reply r = expect_resp(q, send_connect(q, .subnqn = NQN_DISCOVERY, .kato = 60000));

        if (r.status != NVME_SUCCESS) {
                want_eq(t, "status", r.status, NVME_CONNECT_PARAM);
                return;
        }
        q = discovery_queue(t, .kato = 60000);
        expect_success(q, send_cmd(q, .opc = NVME_KEEP_ALIVE));
        send_cmd(q, .opc = NVME_AER);
        expect_silence(q, 100);
}

CASE("fab/discovery/no-io-queues", MUST, RULES(FAB_DISC_IO),
     "Connect of an I/O queue to a discovery controller is refused", .needs = DISCOVERY)
{
        struct queue *q = join(discovery_queue(t));

        expect_refusal(q, send_connect(q));
}

CASE("fab/discovery/disconnect", MUST, RULES(FAB_DISCONNECT_ADMIN),
     "Disconnect sent to a discovery controller is refused", .needs = DISCOVERY)
{
        struct queue *q = discovery_queue(t);

        expect_refusal(q, send_disconnect(q, 0));
        expect_works(q);
}

CASE("fab/discovery/prohibited", MUST, RULES(DISC_PROHIBITED),
     "A discovery controller refuses namespace, firmware, format, security and sanitize commands",
     .needs = DISCOVERY)
{
        static const uint8_t opcodes[] = { 0x0d, 0x10, 0x11, 0x15, 0x80, 0x81, 0x84 };
        struct queue *q = discovery_queue(t);

        for (unsigned i = 0; i < sizeof(opcodes); i++)
                expect_refusal(q, send_cmd(q, .opc = opcodes[i]));
        expect_works(q);
}

CASE("fab/discovery/prohibited-logs", MUST, RULES(DISC_LOGS),
     "A discovery controller refuses the logs SMART / Health, Firmware Slot and Changed Namespaces",
     .needs = DISCOVERY)
{
        static const uint8_t logs[] = { LOG_SMART, LOG_FW_SLOT, LOG_CHANGED_NS };
        struct queue *q = discovery_queue(t);

        for (unsigned i = 0; i < sizeof(logs); i++)
                expect_refusal(q, send_get_log(q, logs[i], 512, 0));
        expect_works(q);
}

CASE("fab/discovery/prohibited-features", MUST, RULES(DISC_FEATURES),
     "A discovery controller refuses the features Number of Queues and Host Identifier",
     .needs = DISCOVERY)
{
        struct queue *q = discovery_queue(t);

        expect_refusal(q, send_cmd(q, .opc = NVME_GET_FEATURES, .cdw10 = FEAT_QUEUES));
        expect_refusal(q, send_cmd(q, .opc = NVME_GET_FEATURES, .cdw10 = FEAT_HOSTID, .cdw11 = 1,
                                   .bytes = 16));
        expect_works(q);
}

CASE("fab/discovery/cap", MUST, RULES(FAB_CAP_DISC),
     "CAP of a discovery controller has MPSMIN, MPSMAX, NSSRS and AMS 0, and should have only bit "
     "0 of CSS",
     .needs = DISCOVERY)
{
        uint64_t cap = property_get(discovery_queue(t), PROP_CAP);

        want(t, cap_is_discovery(cap), "bits 55:48, 36 and 18:17 0", "CAP %016llX",
             (unsigned long long)cap);
        if (CAP_CSS(cap) != 1)
                lenient(t, "CSS 1", "CSS %Xh", CAP_CSS(cap));
}

CASE("fab/discovery/cntrltype", MUST, RULES(ID_CNTRLTYPE),
     "CNTRLTYPE of a discovery controller is 2", .needs = DISCOVERY)
{
        struct queue *q = discovery_queue(t);
        const struct id_ctrl *id = identify_ctrl(q);

        require(t, le32_get(id->ver) >= NVME_VERSION(1, 4, 0), "CNTRLTYPE was added in NVMe 1.4");
        want_eq(t, "CNTRLTYPE", id->cntrltype, CNTRLTYPE_DISCOVERY);
}

CASE("fab/discovery/subnqn", MUST, RULES(ID_SUBNQN),
     "SUBNQN of a discovery controller is the well-known NQN or the service's unique NQN",
     .needs = DISCOVERY)
{
        const struct id_ctrl *id = identify_ctrl(discovery_queue(t));

        want(t, nqn_valid(id->subnqn, sizeof(id->subnqn), false), "an NQN", "%.223s", id->subnqn);
}

CASE("fab/discovery/log-beyond", MUST, RULES(LOG_OFFSET),
     "A read of the discovery log from beyond its end is refused", .needs = DISCOVERY)
{
        struct queue *q = discovery_queue(t);

        expect_refusal(q, send_get_log(q, LOG_DISCOVERY, 1024, UINT64_C(1) << 40));
        expect_works(q);
}

CASE("fab/discovery/connect-storm", MUST, NO_RULE,
     "The discovery service works on after 50 connections that end midway", .needs = DISCOVERY,
     .related = "SPDK #1996")
{
        for (int i = 0; i < 50; i++) {
                struct queue *q = discovery_queue(t);

                send_get_log(q, LOG_DISCOVERY, 4096, 0);
                if (i & 1)
                        rst(q);
                else
                        hang_up(q);
        }
}

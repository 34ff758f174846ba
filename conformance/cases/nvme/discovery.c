/* SPDX-License-Identifier: BSD-3-Clause */
/* NVMe Base 3.1.3.3: the discovery service and its log. */
#include <string.h>

#include "conformance/words/case.h"
#include "pdu/nvme/wire/discovery.h"

CASE("fab/discovery/connect", MUST, RULES(FAB_ANSWERED),
     "The discovery service can be connected by its well-known NQN", .needs = DISCOVERY)
{
        expect_works(discovery_queue(t));
}

/* Returns whether NUMREC was told: it is not where the log has just changed. */
static bool tells_numrec(struct queue *q, uint64_t *n)
{
        struct reply r = finish(q, send_get_log(q, LOG_DISCOVERY, DISC_HEADER_LEN, 0));

        if (q->over || r.status == NVME_DISCOVER_RESTART)
                return false;
        want_eq(q->t, "the status of Get Log Page", r.status, NVME_SUCCESS);
        *n = le64_get(((const struct disc_header *)(const void *)r.data)->numrec);
        return true;
}

/* Whether there is an entry where NUMREC says that the last one is. */
static bool has_last_entry(struct queue *q, uint64_t n)
{
        struct reply r;

        if (n >= DISC_NUMREC_END)
                return false;
        r = finish(q, send_get_log(q, LOG_DISCOVERY, DISC_ENTRY_LEN, n * DISC_ENTRY_LEN));
        if (q->over || r.status == NVME_DISCOVER_RESTART)
                return true;
        return r.status == NVME_SUCCESS &&
               ((const struct disc_entry *)(const void *)r.data)->trtype != 0;
}

/* A log of more entries than are read here: that it has them the last one shows, unless the log changes. */
static void want_last_entry(struct queue *q)
{
        enum { TRIES = 5 };
        uint64_t n = 0, now = 0;

        for (int i = 0; i < TRIES; i++) {
                if (!tells_numrec(q, &n))
                        continue;
                if (n <= DISC_LOG_MOST || has_last_entry(q, n))
                        return;
                want(q->t, !tells_numrec(q, &now) || now != n, "as many entries as NUMREC says",
                     "NUMREC %llu, and no entry at the offset of the last one",
                     (unsigned long long)n);
        }
}

CASE("fab/discovery/log-header", MUST, RULES(DISC_HEADER),
     "The discovery log has RECFMT 0 and contains NUMREC entries", .needs = DISCOVERY)
{
        struct queue *q = discovery_queue(t);
        const struct disc_header *h;
        uint64_t n;

        want_last_entry(q);
        h = whole_discovery_log(q, 0, &n);
        want_eq(t, "RECFMT", le16_get(h->recfmt), 0);
        want_eq(t, "NUMREC", le64_get(h->numrec), n);
        for (uint64_t i = 0; i < n; i++)
                want(t, h->entries[i].trtype != 0, "a discovery log entry",
                     "zeroes in place of an entry");
}

CASE("fab/discovery/log-entry", MUST, RULES(DISC_ENTRY),
     "Discovery log entries have assigned types, a terminated NQN and an ASQSZ of at least 32",
     .needs = DISCOVERY)
{
        uint64_t n;
        const struct disc_header *h = whole_discovery_log(discovery_queue(t), 0, &n);

        for (uint64_t i = 0; i < n; i++) {
                const struct disc_entry *e = &h->entries[i];
                bool later = caps(t)->vs >= VS_LATER; /* it may have assigned more */

                want(t, later || (e->trtype >= 1 && e->trtype <= 3) || e->trtype == TRTYPE_LOOP,
                     "TRTYPE 1, 2, 3 or 254", "%u", e->trtype);
                want(t, later || (e->subtype >= 1 && e->subtype <= 3), "SUBTYPE 1 to 3", "%u",
                     e->subtype);
                want(t, later || e->adrfam <= 4 || e->trtype == TRTYPE_LOOP, "ADRFAM up to 4", "%u",
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
        const struct disc_header *h = whole_discovery_log(discovery_queue(t), 0, &n);

        for (uint64_t i = 0; i < n; i++) {
                struct rule_set found = { 0 };

                disc_entry_check(&h->entries[i], &found);
                want(t, !rule_in(&found, DISC_TRSVCID), "a decimal port number", "'%.32s'",
                     h->entries[i].trsvcid);
        }
}

CASE("tcp/discovery/tsas", MUST, RULES(DISC_TSAS),
     "TSAS of TCP discovery log entries has SECTYPE 0, 1 or 2", .needs = DISCOVERY)
{
        uint64_t n;
        const struct disc_header *h = whole_discovery_log(discovery_queue(t), 0, &n);

        for (uint64_t i = 0; i < n; i++) {
                const struct disc_entry *e = &h->entries[i];

                if (e->trtype != TRTYPE_TCP || caps(t)->vs >= VS_LATER)
                        continue;
                want(t, e->tsas[0] <= 2, "SECTYPE 0 to 2", "%u", e->tsas[0]);
        }
}

CASE("tcp/discovery/tsas-reserved", SHOULD, RULES(DISC_TSAS_RSVD),
     "TSAS of TCP discovery log entries is zero after SECTYPE", .needs = DISCOVERY)
{
        static const uint8_t zeroes[255];
        uint64_t n;
        const struct disc_header *h = whole_discovery_log(discovery_queue(t), 0, &n);

        for (uint64_t i = 0; i < n; i++)
                if (h->entries[i].trtype == TRTYPE_TCP)
                        want_bytes(t, "TSAS after SECTYPE", h->entries[i].tsas + 1, zeroes,
                                   sizeof(zeroes));
}

/* What disc_entry_check() finds in none of the entries. */
static void want_none(struct t *t, enum rule_id rule, const char *expected)
{
        uint64_t n;
        const struct disc_header *h = whole_discovery_log(discovery_queue(t), 0, &n);

        for (uint64_t i = 0; i < n; i++) {
                const struct disc_entry *e = &h->entries[i];
                struct rule_set found = { 0 };

                disc_entry_check(e, &found);
                want(t, !rule_in(&found, rule), expected,
                     "entry %llu: SUBTYPE %u CNTLID %04Xh EFLAGS %04Xh TREQ %02Xh TRSVCID '%.32s'",
                     (unsigned long long)i, e->subtype, le16_get(e->cntlid), le16_get(e->eflags),
                     e->treq, e->trsvcid);
        }
}

/* Whether the log says that our subsystem is served here over a secure channel only. */
static bool requires_tls(struct t *t)
{
        uint64_t n;
        const struct disc_header *h = whole_discovery_log(discovery_queue(t), 0, &n);

        for (uint64_t i = 0; i < n; i++) {
                const struct disc_entry *e = &h->entries[i];

                if (e->trtype == TRTYPE_TCP && is_tested(t, e) &&
                    (e->treq & TREQ_SECURE_MASK) == TREQ_SECURE_REQUIRED)
                        return true;
        }
        return false;
}

CASE("tcp/tls/required", MUST, RULES(TLS_REQUIRED),
     "Connect without TLS does not succeed where the log entry requires a secure channel",
     .needs = DISCOVERY, .only = "tcp")
{
        struct queue *q;
        struct reply r;

        require(t, requires_tls(t), "no log entry for the subsystem requires a secure channel");
        q = tcp_open_bare(t);
        send_icreq(q);
        r = expect_answer(q, send_connect(q));
        want(t, q->over || r.status != NVME_SUCCESS, "no success without TLS", "Connect succeeds");
}

CASE("tcp/discovery/port-8009", SHOULD, RULES(DISC_PORT),
     "NVM subsystems are not reached at TCP port 8009", .needs = DISCOVERY, .only = "tcp")
{
        want_none(t, DISC_PORT, "another port than 8009 for an NVM subsystem");
}

CASE("fab/discovery/entry-reserved", SHOULD, RULES(DISC_RSVD),
     "Reserved bytes of discovery log entries are zero", .needs = DISCOVERY)
{
        want_none(t, DISC_RSVD, "zeroes in reserved bytes");
}

/* Others may change it and change it back, which moves GENCTR once in a while. */
CASE("fab/discovery/genctr", MUST, RULES(DISC_GENCTR),
     "GENCTR does not change while the discovery log does not change", .needs = DISCOVERY,
     .related = "blktests nvme/030")
{
        enum { ROUNDS = 6 };
        struct queue *q = discovery_queue(t);
        uint64_t n, moved = 0, total = 0;
        const struct disc_header *before = whole_discovery_log(q, 0, &n), *after;

        for (int i = 0; i < ROUNDS; i++, before = after) {
                uint64_t entries_before = n;

                after = whole_discovery_log(i & 1 ? q : discovery_queue(t), 0, &n);
                if (n != entries_before ||
                    memcmp(before->entries, after->entries, n * DISC_ENTRY_LEN) != 0)
                        continue; /* it has changed */
                total++;
                moved += le64_get(after->genctr) != le64_get(before->genctr);
        }
        require(t, total > 0, "the discovery log changes all the time");
        want(t, moved * 2 <= total, "the same GENCTR",
             "another one with the same entries, %u times", (unsigned)moved);
}

enum { PIECE = 512 };

/* Of the log read in pieces, GENCTR apart; NULL: none does, "": somebody has changed the log. */
static const char *piece_that_differs(struct queue *q)
{
        uint64_t n, after;
        const struct disc_header *h = whole_discovery_log(q, 0, &n), *again;
        uint64_t len = DISC_HEADER_LEN + n * DISC_ENTRY_LEN, wrong = len;

        for (uint64_t at = 0; at < len && wrong == len; at += PIECE) {
                uint64_t from = at ? 0 : sizeof(h->genctr);
                struct reply r = finish(q, send_get_log(q, LOG_DISCOVERY, PIECE, at));

                if (r.status == NVME_DISCOVER_RESTART)
                        return "";
                want(q->t, r.status == NVME_SUCCESS, "Get Log Page: Success", "status %Xh",
                     r.status);
                if (memcmp(r.data + from, (const uint8_t *)h + at + from, PIECE - from) != 0)
                        wrong = at;
        }
        if (wrong == len)
                return NULL;
        again = whole_discovery_log(q, 0, &after);
        if (after != n || memcmp(again->entries, h->entries, n * DISC_ENTRY_LEN) != 0)
                return "";
        return wrong < DISC_HEADER_LEN ? "one of the header" : "one of the entries";
}

CASE("fab/discovery/log-offsets", MUST, RULES(DISC_OFFSETS),
     "The discovery log read in pieces at rising offsets equals the log read in one piece",
     .needs = DISCOVERY)
{
        enum { TRIES = 3 };
        struct queue *q = discovery_queue(t);
        const char *differs = "";

        require(t, identify_ctrl(q)->lpa & LPA_EXTENDED, "log page offsets are not supported");
        for (int i = 0; i < TRIES && differs; i++)
                differs = piece_that_differs(q);
        require(t, !differs || *differs, "the discovery log changes all the time");
        want(t, !differs, "pieces that equal the log", "%s", differs);
}

CASE("fab/discovery/listed", SHOULD, RULES(DISC_LISTED),
     "The subsystem under test is listed in the discovery log", .needs = DISCOVERY)
{
        uint64_t n;
        struct queue *q = admin_queue(t);
        const struct disc_header *h = whole_discovery_log(discovery_queue(t), 0, &n);

        for (uint64_t i = 0; i < n; i++)
                if (strncmp(h->entries[i].subnqn, q->subnqn, sizeof(q->subnqn)) == 0)
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
        const struct disc_header *h = whole_discovery_log(discovery_queue(t), 0, &n);

        for (uint64_t i = 0; i < n; i++)
                for (uint64_t k = 0; k < i; k++)
                        want(t, !disc_entry_twins(&h->entries[i], &h->entries[k]), "one entry",
                             "entries %u and %u for %.223s", (unsigned)k, (unsigned)i,
                             h->entries[i].subnqn);
}

CASE("fab/discovery/persistent", MUST, RULES(DISC_PERSISTENT),
     "A discovery controller refuses a KATO in Connect, or supports Keep Alive and AER",
     .needs = DISCOVERY)
{
        struct queue *q = bare_queue(t);
        struct reply r = expect_resp(q, send_connect(q, .subnqn = NQN_DISCOVERY, .kato = 60000));

        if (r.status != NVME_SUCCESS) {
                want_eq(t, "status", r.status, NVME_CONNECT_PARAM);
                q = discovery_queue(t);
                want(t, finish(q, send_cmd(q, .opc = NVME_KEEP_ALIVE)).status != NVME_SUCCESS,
                     "no Keep Alive without persistent connections", "Success");
                return;
        }
        q = discovery_queue(t, .kato = 60000);
        expect_success(q, send_cmd(q, .opc = NVME_KEEP_ALIVE));
        disable_events(q);
        send_cmd(q, .opc = NVME_AER);
        expect_held(q, 100, NULL, 0);
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
        struct queue *q = discovery_queue(t);
        const struct id_ctrl *id = identify_ctrl(q);
        const struct disc_header *h;
        uint64_t n;

        want(t, nqn_valid(id->subnqn, sizeof(id->subnqn), false), "an NQN", "%.223s", id->subnqn);
        h = whole_discovery_log(q, 0, &n);
        for (uint64_t i = 0; i < n; i++)
                want(t,
                     h->entries[i].subtype != SUBTYPE_CURRENT ||
                         strncmp(h->entries[i].subnqn, id->subnqn, NQN_FIELD) == 0,
                     "that NQN in the entry of the service itself", "%.223s", h->entries[i].subnqn);
        if (strcmp(id->subnqn, NQN_DISCOVERY) != 0) /* both are names of it */
                expect_works(discovery_queue(t, .subnqn = id->subnqn));
}

CASE("fab/discovery/log-beyond", MUST, RULES(LOG_OFFSET),
     "A read of the discovery log from beyond its end is refused", .needs = DISCOVERY)
{
        struct queue *q = discovery_queue(t);

        require(t, identify_ctrl(q)->lpa & LPA_EXTENDED, "log page offsets are not supported");
        expect_refusal(q, send_get_log(q, LOG_DISCOVERY, 1024, UINT64_C(1) << 40));
        expect_works(q);
}

CASE("fab/discovery/connect-storm", MUST, NO_RULE,
     "The discovery service works on after 50 connections that end midway", .needs = DISCOVERY,
     .storm = true, .related = "SPDK #1996")
{
        for (unsigned i = 0; !is_enough(t, i, 50); i++) {
                struct queue *q = discovery_queue(t);

                send_get_log(q, LOG_DISCOVERY, 4096, 0);
                if (i & 1)
                        rst(q);
                else
                        hang_up(q);
        }
}

CASE("fab/discovery/sqfc", MUST, RULES(DISC_SQFC),
     "SQ flow control is not disabled where the discovery log says that it is required",
     .needs = DISCOVERY)
{
        require(t, caps(t)->io, "the target has no I/O subsystem");
        if (!(tested_treq(t).all & TREQ_SQFC))
                want(t, !io_queue(t, .cattr = CATTR_DISABLE_SQFC)->sqfc_off,
                     "SQ flow control that stays on", "SQHD FFFFh in the response to Connect");
}

/* --- ALLSUBE: the log as no host sees it otherwise */

enum { LSP_LOCAL = 1 << 9, LSP_ALL = 1 << 10 };

static const struct disc_entry *find_entry(const struct disc_header *h, uint64_t n, const char *nqn)
{
        for (uint64_t i = 0; i < n; i++)
                if (strncmp(h->entries[i].subnqn, nqn, sizeof(h->entries[i].subnqn)) == 0)
                        return &h->entries[i];
        return NULL;
}

/* The port of the discovery service itself; -1: it is not listed. */
static int own_port(const struct disc_header *h, uint64_t n)
{
        for (uint64_t i = 0; i < n; i++)
                if (h->entries[i].subtype == SUBTYPE_CURRENT)
                        return le16_get(h->entries[i].portid);
        return -1;
}

CASE("fab/discovery/all-subsystems", MUST, RULES(DISC_ALL),
     "With ALLSUBE the discovery log has a subsystem that does not allow this host, and says so",
     .needs = DISCOVERY)
{
        enum { PLEOS = 1 << 17, ALLSUBES = 1 << 18 };
        struct queue *q = discovery_queue(t);
        struct reply r = finish(q, send_get_log(q, LOG_SUPPORTED, 1024, 0));
        const struct disc_header *h;
        const struct disc_entry *e;
        uint32_t can;
        uint64_t n;

        require(t, r.status == NVME_SUCCESS, "there is no log page 00h");
        can = (uint32_t)le_get(r.data + LOG_DISCOVERY * 4, 4);
        require(t, can & ALLSUBES, "ALLSUBE is not supported (ALLSUBES)");
        require(t, caps(t)->denied, "no subsystem is known that does not allow this host");
        h = whole_discovery_log(q, LSP_ALL, &n);
        e = find_entry(h, n, caps(t)->denied);
        want(t, e, "an entry of the subsystem that does not allow this host", "none");
        want_eq(t, "ALLSUB of DLPF", h->flags & DLPF_ALL, DLPF_ALL);
        if (!(can & PLEOS) || le16_get(e->portid) != own_port(h, n))
                return;
        h = whole_discovery_log(q, LSP_ALL | LSP_LOCAL, &n);
        want(t, find_entry(h, n, caps(t)->denied), "its entry with PLEO, too", "none");
        want_eq(t, "PORTLCL and ALLSUB of DLPF", h->flags & (DLPF_PORT_LOCAL | DLPF_ALL),
                DLPF_PORT_LOCAL | DLPF_ALL);
}

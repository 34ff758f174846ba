/* SPDX-License-Identifier: BSD-3-Clause */
/* What the target can do, found out with the cases' own words. */
#include <string.h>

#include "case_rdma.h"
#include "pdu/wire/text.h"
#include "runner.h"

/* The one place that writes caps: the suite of the probe is its own. */
static struct caps *found(struct t *t)
{
        return (struct caps *)(uintptr_t)&t->suite->caps;
}

static void probe_ics(struct t *t)
{
        struct queue *q = tcp_open(t);
        struct icresp r = ic(q, .hdgst = 1, .ddgst = 1);

        found(t)->hdgst = r.hdgst;
        found(t)->ddgst = r.ddgst;
        found(t)->cpda = r.cpda;
        found(t)->maxh2cdata = r.maxh2cdata;
}

static void probe_accept(struct t *t)
{
        struct accept a = expect_accept(rdma_open(t));

        found(t)->crqsize = le16_get(a.data.crqsize);
        found(t)->reads_out = a.reads_out;
        found(t)->pads = a.len > sizeof(a.data);
}

static void use_namespace(struct t *t, struct queue *q, uint32_t nsid)
{
        const struct id_ns *n = identify(q, CNS_NS, nsid);
        unsigned format = (n->flbas & 0x0fu) | (n->flbas >> 1 & 0x30u);
        unsigned shift = n->lbaf[format].lbads;

        if (le64_get(n->nsze) == 0 || shift < LBADS_MIN || shift > 31 || 1u << shift > SLOT_BYTES)
                return;
        found(t)->nsid = nsid;
        found(t)->block = 1u << shift;
        found(t)->blocks = le64_get(n->nsze);
}

/* Cases that write outside would blame the target. */
static void use_writable(struct t *t, struct queue *q)
{
        const struct suite *s = t->suite;
        uint64_t there;
        char expected[RESULT_TEXT];

        snprintf(expected, sizeof(expected), "NSID %u with the blocks of --allow-write",
                 s->write_nsid);
        if (finish(q, send_cmd(q, .opc = NVME_IDENTIFY, .nsid = s->write_nsid, .cdw10 = CNS_NS,
                               .bytes = IDENTIFY_LEN))
                .status != NVME_SUCCESS)
                fail(t, expected, "no such namespace");
        use_namespace(t, q, s->write_nsid);
        there = caps(t)->blocks;
        if (there == 0 || s->write_slba > there || s->write_blocks > there - s->write_slba)
                fail(t, expected, "%llu blocks that can be used", (unsigned long long)there);
}

static void probe_namespace(struct t *t, struct queue *q)
{
        const le32_t *list;

        if (t->suite->write_nsid) {
                use_writable(t, q);
                return;
        }
        list = identify(q, CNS_NS_LIST, 0);
        if (le32_get(list[0]) != 0)
                use_namespace(t, q, le32_get(list[0]));
}

/* IOCCSZ counts 16 bytes, with the SQE and what ICDOFF skips; what no PDU could hold is cut off. */
static uint32_t capsule_bytes(uint32_t ioccsz, uint32_t icdoff)
{
        enum { MOST = 16 << 20 };

        if (ioccsz <= 4 + icdoff)
                return 0;
        return ioccsz > MOST / 16 ? MOST : (ioccsz - 4 - icdoff) * 16;
}

/* In pages of CAP.MPSMIN; what no command can reach is no limit. */
static uint32_t bytes_of_mdts(uint8_t mdts, uint64_t cap)
{
        unsigned shift = 12 + (unsigned)(cap >> 48 & 0xf) + mdts;

        return mdts > 0 && shift < 32 ? 1u << shift : 0;
}

static void probe_controller(struct t *t)
{
        struct caps *c = found(t);
        struct queue *q = admin_queue(t);

        if (q->talk)
                c->auth = t->suite->subnqn;
        c->cap = property_get(q, PROP_CAP);
        c->vs = (uint32_t)property_get(q, PROP_VS);
        c->id = *identify_ctrl(q);
        c->icdoff = t_is_rdma(t) ? le16_get(c->id.icdoff) : 0;
        c->msdbd = c->id.msdbd;
        c->in_capsule = capsule_bytes(le32_get(c->id.ioccsz), c->icdoff);
        c->mdts = bytes_of_mdts(c->id.mdts, c->cap);
        c->io = c->id.cntrltype <= CNTRLTYPE_IO;
        if (c->io)
                probe_namespace(t, q);
}

static void probe_flow_control(struct t *t)
{
        found(t)->sqfc_off = io_queue(t, .cattr = CATTR_DISABLE_SQFC)->sqfc_off;
}

static bool is_ours(struct t *t, const struct disc_entry *e)
{
        size_t len = text_len(e->subnqn, sizeof(e->subnqn));

        return e->subtype == SUBTYPE_NVM && e->trtype == t->suite->trtype &&
               len == strlen(t->suite->subnqn) && memcmp(e->subnqn, t->suite->subnqn, len) == 0;
}

static void probe_discovery(struct t *t)
{
        struct queue *q = discovery_queue(t);
        const struct disc_header *h = get_log(q, LOG_DISCOVERY, DISC_HEADER_LEN, 0);
        uint64_t n = le64_get(h->numrec);
        const struct disc_entry *e;

        found(t)->discovery = true;
        for (uint64_t i = 0; i < n && i < 256; i++) {
                e = get_log(q, LOG_DISCOVERY, DISC_ENTRY_LEN, (i + 1) * DISC_ENTRY_LEN);
                if (is_ours(t, e))
                        found(t)->entry = *e;
        }
}

static void probe_persistence(struct t *t)
{
        struct queue *q = bare_queue(t);

        found(t)->persistent =
            expect_resp(q, send_connect(q, .subnqn = NQN_DISCOVERY)).status == NVME_SUCCESS;
}

/* Leaves the name in the note of the result. */
static void find_subsystem(struct t *t)
{
        struct queue *q = discovery_queue(t);
        const struct disc_header *h = get_log(q, LOG_DISCOVERY, DISC_HEADER_LEN, 0);
        uint64_t n = le64_get(h->numrec);

        for (uint64_t i = 0; i < n && i < 256; i++) {
                const struct disc_entry *e =
                    get_log(q, LOG_DISCOVERY, DISC_ENTRY_LEN, (i + 1) * DISC_ENTRY_LEN);

                if (e->subtype != SUBTYPE_NVM || e->trtype != t->suite->trtype)
                        continue;
                note(t, "%.*s", (int)text_len(e->subnqn, sizeof(e->subnqn)), e->subnqn);
                return;
        }
        fail(t, "the discovery log has an NVM subsystem of this transport", "%llu entries, none",
             (unsigned long long)n);
}

static const struct exchange_chunk *first_answer(const struct exchange *x)
{
        for (size_t i = 0; i < x->chunk_count; i++)
                if (!x->chunks[i].sent && x->chunks[i].kind == CHUNK_DATA)
                        return &x->chunks[i];
        return NULL;
}

/* An HTTP server, say: what there is to know is how it begins. */
static void tell_stranger(const struct t *t, char *error, size_t size)
{
        size_t said = strlen(error);
        const struct exchange_chunk *c = first_answer(&t->log);
        const uint8_t *p = c ? t->log.bytes + c->offset : NULL;
        struct text text;
        size_t n = 0;

        if (!c || t_is_rdma(t) || *p == PDU_ICRESP || *p == PDU_C2H_TERM)
                return;
        text = text_in(error + said, size - said);
        text_add(&text, "; that is not NVMe/TCP, it begins with ");
        while (n < c->len && n < 24 && p[n] >= ' ' && p[n] <= '~')
                n++;
        if (n >= 4)
                text_add(&text, "\"%.*s\"", (int)n, (const char *)p);
        for (size_t i = 0; n < 4 && i < c->len && i < 8; i++)
                text_add(&text, "%s%02X", i > 0 ? " " : "", p[i]);
}

/* Runs body; its note goes to `note`, of RESULT_TEXT bytes, if that is not NULL. */
static bool ask(struct suite *s, const char *what, void (*body)(struct t *t), uint32_t n,
                char *noted, char *error, size_t size)
{
        const struct test_case test = {
                .id = what, .rules = RULES(RULE_NONE), .says = what, .run = body
        };
        struct result r = { .id = "probe" };
        const struct notice *last;
        struct t t;

        t_start(&t, s, &test, &r, n);
        t_run(&t, body);
        if (noted)
                memcpy(noted, r.note, sizeof(r.note));
        if (r.verdict == VERDICT_PASS || r.verdict == VERDICT_LENIENT) {
                t_end(&t);
                return true;
        }
        last = r.notice_count > 0 ? &r.notices[r.notice_count - 1] : NULL;
        snprintf(error, size, "%s: %s%s%s%s%s%s%s", what, r.expected[0] ? r.expected : r.seen,
                 r.expected[0] ? "; seen: " : "", r.expected[0] ? r.seen : "",
                 last ? "; before that it broke " : "", last ? rule_get(last->rule)->id : "",
                 last ? ": " : "", last ? last->line : "");
        tell_stranger(&t, error, size);
        t_end(&t);
        return false;
}

bool probe(struct suite *s, char *error, size_t size)
{
        static const struct {
                const char *what;
                void (*body)(struct t *t);
                bool needed;
                uint8_t trtype; /* 0: any */
        } steps[] = {
                { "the ICs", probe_ics, true, TRTYPE_TCP },
                { "the connect request", probe_accept, true, TRTYPE_RDMA },
                { "the controller", probe_controller, true, 0 },
                { "disabling SQ flow control", probe_flow_control, false, 0 },
                { "the discovery service", probe_discovery, false, 0 },
                { "persistent discovery", probe_persistence, false, 0 },
        };
        char why[RESULT_TEXT * 3 + 128];

        for (uint32_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
                if (steps[i].trtype != 0 && steps[i].trtype != s->trtype)
                        continue;
                if (ask(s, steps[i].what, steps[i].body, UINT32_C(0x40000000) + i, NULL, why,
                        sizeof(why)) ||
                    !steps[i].needed)
                        continue;
                if (steps[i].body == probe_controller)
                        snprintf(error, size, "%s of %s%s", steps[i].what, s->subnqn,
                                 why + strlen(steps[i].what));
                else
                        snprintf(error, size, "%s", why);
                return false;
        }
        return true;
}

bool probe_subsystem(struct suite *s, char nqn[NQN_FIELD], char *error, size_t size)
{
        char noted[RESULT_TEXT] = "";

        s->subnqn = NQN_DISCOVERY;
        if (!ask(s, "looking for a subsystem (-n names one)", find_subsystem, UINT32_C(0x40000010),
                 noted, error, size))
                return false;
        snprintf(nqn, NQN_FIELD, "%.255s", noted);
        return true;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* What the target can do, found out with the cases' own words. */
#include <string.h>

#include "case_rdma.h"
#include "conformance/engine/standstill.h"
#include "conformance/engine/transcript.h"
#include "pdu/nvme/wire/identify.h"
#include "pdu/nvme/wire/protect.h"
#include "pdu/nvme/wire/text.h"
#include "words.h"

/* The one place that writes caps. */
static struct caps *found(struct t *t)
{
        return &peer(t)->caps;
}

static uint8_t trtype_of(const struct t *t)
{
        return t_is_rdma(t) ? TRTYPE_RDMA : TRTYPE_TCP;
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

/* IOCCSZ counts 16 bytes, with the SQE and what ICDOFF skips; what no PDU could hold is cut off. */
static uint32_t capsule_bytes(uint32_t ioccsz, uint32_t icdoff)
{
        enum { MOST = 16 << 20 };

        if (ioccsz <= 4 + icdoff)
                return 0;
        return ioccsz > MOST / 16 ? MOST : (ioccsz - 4 - icdoff) * 16;
}

/* In pages of CAP.MPSMIN; what no command can reach is no limit. */
uint32_t mdts_bytes(uint8_t mdts, uint64_t cap)
{
        unsigned shift = 12 + (unsigned)(cap >> 48 & 0xf) + mdts;

        return mdts > 0 && shift < 32 ? 1u << shift : 0;
}

/* The static model refuses CNTLID FFFFh and takes FFFEh (6.3). */
static void probe_model(struct t *t)
{
        struct queue *q = bare_queue(t), *other = bare_queue(t);

        if (expect_resp(q, send_connect(q)).status != NVME_CONNECT_PARAM ||
            expect_resp(other, send_connect(other, .cntlid = CNTLID_STATIC)).status != NVME_SUCCESS)
                return;
        found(t)->fixed = true;
        found(t)->statics = peer(t)->subnqn;
}

static void probe_connect(struct t *t)
{
        struct queue *q = admin_queue(t, .disabled = true);

        if (q->talk)
                found(t)->auth = peer(t)->subnqn;
        found(t)->io = strcmp(peer(t)->subnqn, NQN_DISCOVERY) != 0;
        found(t)->reach = REACH_CONNECT;
}

/* Before the controller is enabled: how long that may take stands in CAP.TO. */
static void probe_properties(struct t *t)
{
        struct queue *q = admin_queue(t, .disabled = true);

        found(t)->cap = property_get(q, PROP_CAP);
        found(t)->vs = (uint32_t)property_get(q, PROP_VS);
        if (found(t)->cap & CAP_CRMS_CRWMS) {
                struct reply r = finish(q, send_property_get(q, PROP_CRTO, PROP_ATTRIB_4));

                found(t)->crto = r.status == NVME_SUCCESS ? r.dw0 : 0; /* a case looks at that */
        }
        found(t)->reach = REACH_PROPERTIES;
}

static void probe_controller(struct t *t)
{
        struct caps *c = found(t);
        struct queue *q = admin_queue(t);

        c->id = *identify_ctrl(q);
        c->icdoff = t_is_rdma(t) ? le16_get(c->id.icdoff) : 0;
        c->msdbd = c->id.msdbd;
        c->in_capsule = capsule_bytes(le32_get(c->id.ioccsz), c->icdoff);
        c->mdts = mdts_bytes(c->id.mdts, c->cap);
        c->io = c->id.cntrltype <= CNTRLTYPE_IO;
        c->reach = REACH_CONTROLLER;
}

/* Where no other one is given: the one that is tested. */
static void probe_ana(struct t *t)
{
        struct caps *c = found(t);

        if (!c->ana && c->io && c->id.cmic & CMIC_ANA)
                c->ana = peer(t)->subnqn;
        if (c->ana)
                c->ana_id = *identify_ctrl(ana_queue(t));
}

/* Metadata comes with its block over Fabrics (B2.2 3.3.2.1.3). What may have a guard of 32 or 64 bits is
 * refused to hosts that do not enable it (N1.2 3.3). */
static bool can_transfer(struct t *t, const struct id_ns *n, unsigned ms)
{
        enum { EXTENDED = 1 << 4, ELBAS = 1 << 15 };
        bool longer = n->dps & 7 && ms > PI_LEN && le32_get(caps(t)->id.ctratt) & ELBAS;

        return ms == 0 || (n->flbas & EXTENDED && !longer);
}

/* Of `ms` bytes of metadata; DPS says where in them protection information lies. */
static unsigned before_protection(const struct id_ns *n, unsigned ms)
{
        enum { FIRST = 1 << 3 };

        if (!(n->dps & 7))
                return ms;
        return n->dps & FIRST ? 0 : ms - PI_LEN;
}

/* One that is write protected is none to write to (8.1.16). */
static bool use_namespace(struct t *t, const struct id_ns *n, uint32_t nsid)
{
        enum { PROTECTED = 1 };
        unsigned format = id_ns_format(n), shift = n->lbaf[format].lbads, ms = id_ns_metadata(n);

        if (le64_get(n->nsze) == 0 || shift < LBADS_MIN || shift > 31 || 1u << shift > SLOT_BYTES ||
            !can_transfer(t, n, ms) || (peer(t)->may_write && n->nsattr & PROTECTED))
                return false;
        found(t)->nsid = nsid;
        found(t)->pi = n->dps & 7;
        found(t)->ms = (uint16_t)ms;
        found(t)->made = found(t)->pi && ms == PI_LEN;
        found(t)->block = (1u << shift) + (found(t)->made ? 0 : ms);
        found(t)->plain = (1u << shift) + before_protection(n, ms);
        found(t)->blocks = le64_get(n->nsze);
        found(t)->read_only = n->nsattr & 1;
        return true;
}

static struct reply ask_namespace(struct queue *q, uint32_t nsid)
{
        return finish(q, send_cmd(q, .opc = NVME_IDENTIFY, .nsid = nsid, .cdw10 = CNS_NS,
                                  .bytes = IDENTIFY_LEN));
}

/* Cases that write outside would blame the target. */
static void use_writable(struct t *t, struct queue *q)
{
        const struct peer *s = peer(t);
        struct reply r = ask_namespace(q, s->write_nsid);
        uint64_t there;

        if (r.status != NVME_SUCCESS)
                broke(t, "NSID %u of --allow-write: no such namespace", s->write_nsid);
        use_namespace(t, (const struct id_ns *)r.data, s->write_nsid);
        there = caps(t)->blocks;
        if (there == 0 || s->write_slba > there || s->write_blocks > there - s->write_slba)
                broke(t, "NSID %u: %llu blocks that can be used, --allow-write names others",
                      s->write_nsid, (unsigned long long)there);
}

/* The first namespace of the list that can be used, from its entry i on; where the next one is. */
static unsigned next_namespace(struct t *t, struct queue *q, const le32_t *list, unsigned i)
{
        enum { LIST = IDENTIFY_LEN / sizeof(le32_t) };

        for (; i < LIST && le32_get(list[i]); i++) {
                struct reply r = ask_namespace(q, le32_get(list[i]));

                if (r.status == NVME_SUCCESS && /* else it may be of another command set */
                    use_namespace(t, (const struct id_ns *)r.data, le32_get(list[i])))
                        return i + 1;
        }
        return 0;
}

static void probe_namespace(struct t *t)
{
        const le32_t *list;
        struct queue *q;

        if (caps(t)->reach < REACH_CONTROLLER || !caps(t)->io)
                return;
        q = admin_queue(t);
        if (peer(t)->write_nsid) {
                use_writable(t, q);
                return;
        }
        list = identify(q, CNS_NS_LIST, 0);
        if (!next_namespace(t, q, list, 0) && le32_get(list[0]))
                identify(q, CNS_NS, le32_get(list[0]));
}

/* It is reached by another path (ANA: Inaccessible, Persistent Loss), or another host has reserved it. */
static bool is_barred(uint16_t status)
{
        enum { SCT_PATH = 3 };

        return status >> 8 == SCT_PATH || status == NVME_RESERVATION_CONFLICT;
}

/* One that is barred is none to test with. What fails for other reasons is for cases to see. */
static void probe_path(struct t *t)
{
        struct queue *q = io_queue(t);
        const le32_t *list;
        unsigned i = 0;

        require(t, caps(t)->nsid && !peer(t)->write_nsid, "there is nothing to choose");
        list = identify(q->admin, CNS_NS_LIST, 0);
        while ((i = next_namespace(t, q->admin, list, i)))
                if (!is_barred(finish(q, send_read(q)).status))
                        return;
        found(t)->nsid = 0;
}

static void probe_flow_control(struct t *t)
{
        found(t)->sqfc_off = io_queue(t, .cattr = CATTR_DISABLE_SQFC)->sqfc_off;
}

static bool is_ours(struct t *t, const struct disc_entry *e)
{
        size_t len = text_len(e->subnqn, sizeof(e->subnqn));

        return e->subtype == SUBTYPE_NVM && e->trtype == trtype_of(t) &&
               len == strlen(peer(t)->subnqn) && memcmp(e->subnqn, peer(t)->subnqn, len) == 0;
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
            expect_resp(q, send_connect(q, .subnqn = NQN_DISCOVERY, .kato = 60000)).status ==
            NVME_SUCCESS;
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

                if (e->subtype != SUBTYPE_NVM || e->trtype != trtype_of(t))
                        continue;
                note(t, "%.*s", (int)text_len(e->subnqn, sizeof(e->subnqn)), e->subnqn);
                return;
        }
        fail(t, "a discovery log entry of an NVM subsystem with this transport",
             "%llu other entries", (unsigned long long)n);
}

/* --- the steps ----------------------------------------------------------------------------- */

struct step { /* a case of its own, that is in the report only if something was wrong */
        struct test_case test;
        const char *only; /* this transport; NULL: any */
        const char *what; /* in an error; NULL: it may fail, that is what there is to know */
};
#define STEP(id_, run_, says_) .test = { .id = id_, .rules = nothing, .says = says_, .run = run_ }
static const unsigned nothing[] = { RULE_NONE };

static const struct step steps[] = {
        { STEP("probe/ics", probe_ics, "ICReq is answered with ICResp"), "tcp", "the ICs" },
        { STEP("probe/accept", probe_accept, "The connect request is accepted"), "rdma",
          "the connect request" },
        { STEP("probe/model", probe_model, "Connect tells the controller model") },
        { STEP("probe/connect", probe_connect, "Connect of an admin queue succeeds"), NULL,
          "the controller" },
        { STEP("probe/properties", probe_properties, "CAP and VS can be read"), NULL,
          "its properties" },
        { STEP("probe/controller", probe_controller,
               "The controller can be enabled and identified"),
          NULL, "the controller, enabled" },
        { STEP("probe/ana", probe_ana, "A subsystem with ANA Reporting can be used") },
        { STEP("probe/namespace", probe_namespace, "A listed namespace can be used"), NULL,
          "its namespace" },
        { STEP("probe/path", probe_path, "There is a path to the namespace") },
        { STEP("probe/flow-control", probe_flow_control, "SQ flow control can be disabled") },
        { STEP("probe/discovery", probe_discovery, "There is a discovery service") },
        { STEP("probe/persistence", probe_persistence, "The discovery service accepts a KATO") },
};

/* What went wrong while this machine stood still, or as somebody else had all controllers, is asked again. */
enum { PROBE_TRIES = 5, BUSY_MS = 250 };

enum answer { WELL, WRONG /* but the target can be judged */, NO_TARGET };

static const struct exchange_chunk *first_answer(const struct exchange *x)
{
        for (size_t i = 0; i < x->chunk_count; i++)
                if (!x->chunks[i].sent && x->chunks[i].kind == CHUNK_DATA)
                        return &x->chunks[i];
        return NULL;
}

/* Whether that is how a target begins; RDMA_CM has seen to it otherwise. */
static bool is_target(const struct t *t)
{
        const struct exchange_chunk *c = first_answer(&t->log);
        uint8_t type = c ? t->log.bytes[c->offset] : PDU_ICREQ;

        return t_is_rdma(t) || type == PDU_ICRESP || type == PDU_C2H_TERM;
}

/* An HTTP server, say: what there is to know is how it begins. */
static void describe_stranger(const struct t *t, struct text *text)
{
        const struct exchange_chunk *c = first_answer(&t->log);
        const uint8_t *p = c ? t->log.bytes + c->offset : NULL;
        size_t n = 0;

        if (!c || is_target(t))
                return;
        text_add(text, "; this is not NVMe/TCP, it begins with ");
        while (n < c->len && n < 24 && p[n] >= ' ' && p[n] <= '~')
                n++;
        if (n >= 4)
                text_add(text, "\"%.*s\"", (int)n, (const char *)p);
        for (size_t i = 0; n < 4 && i < c->len && i < 8; i++)
                text_add(text, "%s%02X", i > 0 ? " " : "", p[i]);
}

/* What can be judged is: a target that says what none may say, or that takes our Connect and goes wrong
 * then. `expected` is what words leave that did not see it. */
static bool is_finding(const struct t *t)
{
        return t->result->expected[0] &&
               (caps(t)->reach > REACH_NONE || (t->result->notice_count > 0 && is_target(t)));
}

static void describe_failure(const struct t *t, const struct step *step, char *error, size_t size)
{
        const struct result *r = t->result;
        const struct notice *last = r->notice_count > 0 ? &r->notices[r->notice_count - 1] : NULL;
        struct text text = text_in(error, size);

        text_add(&text, "%s", step->what);
        if (step->test.run == probe_connect)
                text_add(&text, " of %s", peer(t)->subnqn);
        text_add(&text, ": ");
        if (r->expected[0])
                text_add(&text, "%s; seen: ", r->expected);
        text_add(&text, "%s", r->seen);
        if (last)
                text_add(&text, "; before that it broke %s: %s", t_rule(t, last->rule)->id,
                         last->line);
        describe_stranger(t, &text);
}

static void take_step(struct suite *s, const struct step *step, uint32_t n, struct result *r,
                      struct t *t)
{
        *r = (struct result) { .test = &step->test, .level = step->test.level, .repeats = 1 };
        snprintf(r->id, sizeof(r->id), "%s", step->test.id);
        t_start(t, s, &step->test, r, n);
        t_run(t, step->test.run);
}

static void ask_fairly(struct suite *s, const struct step *step, uint32_t n, struct result *r,
                       struct t *t)
{
        struct standstill still;

        standstill_start(&still);
        for (unsigned tries = 0;; tries++) {
                uint64_t since = now_ms();

                take_step(s, step, n, r, t);
                if (r->verdict <= VERDICT_LENIENT || tries + 1 == PROBE_TRIES ||
                    !(t->busy || standstill_since(&still, since)))
                        break;
                t_end(t);
                if (t->busy)
                        pause_ms(NULL, (unsigned)t_scaled(t, (unsigned)BUSY_MS << tries));
        }
        standstill_stop(&still);
}

/* r is the step's result; error says in one line why it failed. */
static enum answer ask(struct suite *s, const struct step *step, uint32_t n, struct result *r,
                       char *error, size_t size)
{
        enum answer answer = WELL;
        struct t t;

        ask_fairly(s, step, n, r, &t);
        if (step->what && r->verdict > VERDICT_LENIENT) {
                answer = is_finding(&t) && !t.busy ? WRONG : NO_TARGET;
                r->verdict = VERDICT_FAIL;
                describe_failure(&t, step, error, size);
                t_keep_exchange(&t);
                if (s->transcripts)
                        transcript_write(s->transcripts, r, &t);
        }
        t_end(&t);
        return answer;
}

static bool find_peer(struct suite *s, char *error, size_t size)
{
        static const struct step step = { STEP("probe/subsystem", find_subsystem,
                                               "The discovery log names a subsystem"),
                                          .what = "looking for a subsystem (-n names one)" };
        struct peer *p = s->peer;
        struct result r;

        p->subnqn = NQN_DISCOVERY;
        if (ask(s, &step, UINT32_C(0x40000010), &r, error, size) != WELL) {
                p->subnqn = NULL;
                return false;
        }
        snprintf(p->found, sizeof(p->found), "%.255s", r.note);
        p->subnqn = p->found;
        return true;
}

bool probe(struct suite *s, struct probed *p, char *error, size_t size)
{
        enum { N = sizeof(steps) / sizeof(steps[0]) };
        struct peer *tested = s->peer;

        _Static_assert((int)N < (int)PROBES, "and one that is being made");
        p->count = 0;
        tested->caps = (struct caps) { .denied = tested->denied,
                                       .auth = tested->auth,
                                       .statics = tested->statics,
                                       .expendable = tested->expendable,
                                       .formats = tested->formats,
                                       .ana = tested->ana,
                                       .administrative = tested->administrative,
                                       .masked = tested->masked,
                                       .masked_nsid = tested->masked_nsid,
                                       .limited = tested->limited };
        if (!tested->subnqn && !find_peer(s, error, size))
                return false;
        for (uint32_t i = 0; i < N; i++) {
                struct result *r = &p->results[p->count];
                enum answer answer;

                if (steps[i].only && strcmp(steps[i].only, s->transport) != 0)
                        continue;
                answer = ask(s, &steps[i], UINT32_C(0x40000000) + i, r, error, size);
                if (answer == NO_TARGET)
                        return false;
                p->count += answer == WRONG || (steps[i].what && r->notice_count > 0);
        }
        return true;
}

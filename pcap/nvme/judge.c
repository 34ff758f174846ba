/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A capture is judged by the trackers that the endpoints use. After a gap they begin again, with
 * what was negotiated before; what then concerns a command that they do not know is from before the
 * gap, and is not judged.
 */
#include "judge.h"

#include <stdlib.h>
#include <string.h>

#include "pdu/nvme/tcp/track.h"

/* T1.0 3.5: so long a connection may last after a TermReq. */
#define TERM_PATIENCE INT64_C(30000000000)

enum { LATE_R2TS = 64 };

struct judge {
        enum trace_transport transport;
        const struct rule_set *waived;
        bool ok;                   /* there was memory */
        struct association format; /* what Identify said; .identified */

        /* NVMe/TCP */
        struct track *tcp;
        struct pdu_format pdu_format[2];
        bool lenient; /* the beginning is not known */
        bool stale;   /* a new tracker is needed */
        bool begun;   /* something was seen of a connection that is not known from its start */
        uint32_t maxh2cdata, maxr2t;
        struct fault fault[2]; /* of the header in hand */
        struct wrong {         /* the last faulty PDU of each side: */
                unsigned rule;
                union pdu header;
                uint32_t digest; /* HDGST as it was sent */
        } wrong[2];
        bool ended;               /* the controller has sent what ends the connection; */
        uint16_t late[LATE_R2TS]; /* TTAGs of R2Ts after that */
        unsigned lates;
        uint8_t heard[sizeof(struct pdu_ch)]; /* the last header of the host begins so */
        uint32_t heard_len;                   /* bytes of it that came */
        int64_t gave_up_ns[2];                /* who sent a TermReq; 0: it did not */

        struct rdma_track *rdma;
        struct rdma_watch *watch;
};

/* --- life ------------------------------------------------------------------------------------- */

static void start_tcp(struct judge *j)
{
        static const struct track_limits limits = { .findings = true, .passive = true };

        track_free(j->tcp);
        j->tcp = track_new(&limits, j->waived);
        j->ok = j->tcp;
        if (j->ok && j->lenient)
                j->ok =
                    track_assume(j->tcp, &j->pdu_format[PARTY_HOST],
                                 &j->pdu_format[PARTY_CONTROLLER], j->maxh2cdata, j->maxr2t) == 0;
        if (j->ok && j->format.identified)
                track_set_in_capsule(j->tcp, j->format.in_capsule);
        j->stale = false;
}

static void start_rdma(struct judge *j)
{
        rdma_track_free(j->rdma);
        j->rdma = rdma_track_new(0, true, j->waived);
        j->ok = j->rdma;
        if (j->ok && j->lenient)
                rdma_track_mid_stream(j->rdma);
        if (j->ok && j->format.identified)
                rdma_track_format(j->rdma, j->format.in_capsule, j->format.icdoff, j->format.msdbd);
        j->stale = false;
}

static void start(struct judge *j)
{
        if (j->transport == TRACE_TCP)
                start_tcp(j);
        else
                start_rdma(j);
}

struct judge *judge_new(const struct trace_conn *c, const struct rule_set *waived)
{
        struct judge *j = calloc(1, sizeof(*j));

        if (!j)
                return NULL;
        j->transport = c->transport;
        j->waived = waived;
        j->lenient = c->midstream;
        j->maxh2cdata = j->maxr2t = UINT32_MAX;
        start(j);
        if (c->transport != TRACE_TCP && !(j->watch = rdma_watch_new()))
                j->ok = false;
        if (j->ok)
                return j;
        judge_free(j);
        return NULL;
}

void judge_free(struct judge *j)
{
        if (!j)
                return;
        track_free(j->tcp);
        rdma_track_free(j->rdma);
        free(j->watch);
        free(j);
}

void judge_identified(struct judge *j, const struct association *a)
{
        j->format = *a;
        if (!j->ok)
                return;
        if (j->tcp)
                track_set_in_capsule(j->tcp, a->in_capsule);
        else
                rdma_track_format(j->rdma, a->in_capsule, a->icdoff, a->msdbd);
}

/* --- findings --------------------------------------------------------------------------------- */

static void add_all(struct rule_set *found, const struct rule_set *more)
{
        for (size_t i = 0; i < sizeof(found->bits) / sizeof(found->bits[0]); i++)
                found->bits[i] |= more->bits[i];
}

static void add(struct rule_set *found, struct fault fault)
{
        if (is_fault(fault))
                rule_add(found, fault.rule);
}

/* ... and what a TermReq of the other side has to say of it. */
static void add_of(struct judge *j, const struct trace_event *e, struct rule_set *found,
                   struct fault fault)
{
        add(found, fault);
        if (!is_fault(fault))
                return;
        j->wrong[e->sender].rule = fault.rule;
        j->wrong[e->sender].header = *e->pdu->h;
        j->wrong[e->sender].digest = e->pdu->hdgst;
}

/* Without the set-up some things cannot be known: the alignments that were agreed on. */
static void drop_unknowable(const struct judge *j, struct rule_set *found)
{
        rule_each_in (found, id)
                if (j->lenient && (rule_get(id)->seen & SEEN_SET_UP))
                        rule_remove(found, id);
}

/* --- NVMe/TCP --------------------------------------------------------------------------------- */

static bool is_known(struct judge *j, const union pdu *h)
{
        switch (h->ch.type) {
        case PDU_CAPSULE_RESP:
                return track_cmd(j->tcp, le16_get(h->resp.cqe.cid)) != NULL;
        case PDU_C2H_DATA:
        case PDU_R2T:
                return track_cmd(j->tcp, le16_get(h->data.cccid)) != NULL;
        case PDU_H2C_DATA:
                return track_r2t(j->tcp, le16_get(h->data.ttag)) != NULL;
        default:
                return true;
        }
}

static bool same_format(const struct pdu_format *a, const struct pdu_format *b)
{
        return a->hdgst == b->hdgst && a->ddgst == b->ddgst && a->pda == b->pda;
}

/* The first PDU of a connection whose handshake is missing may be the ICReq after all. Else what is
 * known of formats is what its PDUs show, and may turn out to be more. */
static void begin_tcp(struct judge *j, const struct trace_event *e)
{
        bool icreq = e->pdu->h->ch.type == PDU_ICREQ && e->sender == PARTY_HOST;

        if (!j->begun && icreq && j->lenient) {
                j->lenient = false;
                j->stale = true;
        } else if (j->lenient && !same_format(&j->pdu_format[e->sender], e->pdu->format)) {
                j->stale = true;
        }
        j->pdu_format[e->sender] = *e->pdu->format;
        j->begun = true;
        if (j->stale)
                start_tcp(j);
}

/* Half of a handshake: what it settles holds from here on. */
static bool is_ic(struct judge *j, const union pdu *h)
{
        if (h->ch.type == PDU_ICRESP && le32_get(h->icresp.maxh2cdata) > 0)
                j->maxh2cdata = le32_get(h->icresp.maxh2cdata);
        if (h->ch.type == PDU_ICREQ || h->ch.type == PDU_ICRESP)
                j->stale = true;
        return h->ch.type == PDU_ICREQ || h->ch.type == PDU_ICRESP;
}

static void on_header(struct judge *j, const struct trace_event *e, struct rule_set *found)
{
        begin_tcp(j, e);
        j->fault[e->sender] = (struct fault) { 0 };
        if (j->lenient && is_ic(j, e->pdu->h))
                return;
        if (!j->ok || (j->lenient && !is_known(j, e->pdu->h)))
                return;
        j->fault[e->sender] = track_header(j->tcp, e->sender, e->pdu->h);
        add_of(j, e, found, j->fault[e->sender]);
        add_all(found, track_findings(j->tcp));
        if (e->pdu->h->ch.type == PDU_ICRESP && track_live(j->tcp) && !j->lenient) {
                j->maxh2cdata = track_maxh2cdata(j->tcp);
                j->maxr2t = track_maxr2t(j->tcp);
        }
        drop_unknowable(j, found);
}

/* Bytes of the header that a TermReq has to copy; 0: of no such PDU. */
static uint32_t copied_len(uint8_t type)
{
        switch (type) {
        case PDU_ICREQ:
                return sizeof(struct pdu_icreq);
        case PDU_CAPSULE_CMD:
                return sizeof(struct pdu_capsule_cmd);
        case PDU_H2C_DATA:
                return sizeof(struct pdu_data);
        default:
                return 0;
        }
}

/* A controller's TermReq. That it crossed one of the host's is no fault: only the copy shows what
 * it is an answer to. */
static void judge_term(const struct judge *j, const struct trace_pdu *pdu, struct rule_set *found)
{
        const struct pdu_ch *copy = (const void *)pdu->data;
        uint32_t whole;

        if (!copy || pdu->cut || pdu->data_len < sizeof(*copy))
                return;
        whole = copied_len(copy->type);
        judge_finds(found,
                    copy->type == PDU_H2C_TERM && (le32_get(copy->plen) < sizeof(struct pdu_term) ||
                                                   le32_get(copy->plen) > PDU_TERM_MAX),
                    TCP_TERM_SILENCE);
        judge_finds(found,
                    whole && pdu->data_len != whole && pdu->data_len != whole + 4 && /* HDGST */
                        j->heard_len >= whole && memcmp(j->heard, copy, sizeof(*copy)) == 0,
                    TCP_TERM_COPY_LEN_C2H);
}

/* Whether a TermReq returns this header: as much of it as there is of both. PDUs of one type may begin alike. */
static bool returns_header(const struct trace_pdu *term, const union pdu *h)
{
        const struct pdu_info *info = pdu_info(h->ch.type);
        size_t len = info && info->hlen ? info->hlen : sizeof(h->ch);

        if (!term->data || term->cut || term->data_len < sizeof(h->ch))
                return false;
        return memcmp(term->data, h, len < term->data_len ? len : term->data_len) == 0;
}

/* A TermReq that hands back the header of a PDU whose fault is known, and whose FES and FEI stand in
 * the specification. */
static void judge_reason(const struct judge *j, const struct trace_event *e, struct rule_set *found)
{
        const struct pdu_term *term = &e->pdu->h->term;
        const struct wrong *w = &j->wrong[peer_of(e->sender)];
        const struct rule *rule = rule_get(w->rule);
        uint32_t fei = le32_get(term->fei);

        if (!rule || rule->reaction != REACT_TERM || rule->unowed || rule->reacts == BASIS_OWN ||
            !returns_header(e->pdu, &w->header))
                return;
        judge_finds(found, !rule_accepts(w->rule, le16_get(term->fes), fei, w->digest),
                    e->sender == PARTY_HOST ? TCP_TERM_FITS_H2C : TCP_TERM_FITS_C2H);
}

/* What TermReqs of one side show of the other. */
static void watch_terms(struct judge *j, const struct trace_event *e, struct rule_set *found)
{
        bool term = e->pdu->h->ch.type == PDU_H2C_TERM || e->pdu->h->ch.type == PDU_C2H_TERM;

        int64_t other = j->gave_up_ns[peer_of(e->sender)];

        judge_finds(found, other && e->at.time_ns > other + TERM_PATIENCE,
                    e->sender == PARTY_HOST ? TCP_TERM_CLOSE_H2C : TCP_TERM_CLOSE);
        if (term && !j->gave_up_ns[e->sender])
                j->gave_up_ns[e->sender] = e->at.time_ns;
        if (term && e->kind == TRACE_PDU)
                judge_reason(j, e, found);
        if (e->sender == PARTY_CONTROLLER) {
                if (term && e->kind == TRACE_PDU)
                        judge_term(j, e->pdu, found);
                return;
        }
        if (e->kind == TRACE_PDU)
                return;
        memcpy(j->heard, e->pdu->h, sizeof(j->heard));
        j->heard_len = e->kind == TRACE_FAULT ? e->pdu->header_len : UINT32_MAX;
}

/* The reaction to it is printed: it ends the connection. */
static bool is_fatal(const struct fault fault)
{
        const struct rule *rule = is_fault(fault) ? rule_get(fault.rule) : NULL;

        return rule && rule->reaction == REACT_TERM && !rule->unowed &&
               rule->reacts == BASIS_PRINTED;
}

/* What a controller asks for after a fatal PDU of its own, no host may answer: it does not process it. */
static void watch_end(struct judge *j, const struct trace_event *e, struct rule_set *found)
{
        const union pdu *h = e->pdu->h;
        uint16_t ttag = le16_get(h->data.ttag);

        if (h->ch.type == PDU_R2T && j->ended && j->lates < LATE_R2TS)
                j->late[j->lates++] = ttag;
        for (unsigned i = 0; h->ch.type == PDU_H2C_DATA && i < j->lates; i++)
                judge_finds(found, j->late[i] == ttag, TCP_TERM_STOPS_H2C);
}

static void on_pdu(struct judge *j, const struct trace_event *e, struct rule_set *found)
{
        struct fault fault = j->fault[e->sender];

        watch_end(j, e, found);
        if (j->ok && !is_fault(fault))
                add_of(j, e, found,
                       fault = track_pdu(j->tcp, e->sender, e->pdu->h, e->pdu->ddgst_bad));
        j->ended |= e->sender == PARTY_CONTROLLER && is_fatal(fault);
        judge_finds(found, e->pdu->pad_set, e->sender == PARTY_HOST ? TCP_RSVD_H2C : TCP_RSVD_C2H);
}

/* --- RDMA ------------------------------------------------------------------------------------- */

bool judge_knows(const struct trace_event *e)
{
        const struct trace_capsule *c = &e->capsule;
        const union sqe *s = (const void *)c->data;

        if (c->known == c->len)
                return true;
        return e->sender == PARTY_HOST && c->known >= sizeof(*s) &&
               s->sgl.id != SGL_LAST_IN_CAPSULE;
}

static void on_capsule(struct judge *j, const struct trace_event *e, struct rule_set *found)
{
        const struct trace_capsule *c = &e->capsule;

        if (e->sender == PARTY_HOST)
                add_all(found, rdma_track_command(j->rdma, c->data, c->len));
        else
                add_all(found,
                        rdma_track_response(j->rdma, c->data, c->len, c->invalidates, c->key));
}

/* The connection manager rejects for itself with the same reason, and then there is no data. */
static void on_reject(struct judge *j, const struct trace_cm *cm, struct rule_set *found)
{
        size_t len = rdma_reject_len(cm->data, cm->len);

        if (len > 0)
                add_all(found, rdma_track_reject(j->rdma, cm->data, len));
}

static void on_rdma(struct judge *j, const struct trace_event *e, struct rule_set *found)
{
        const struct trace_memory *m = &e->memory;
        const struct trace_cm *cm = &e->cm;
        bool depths = (e->kind == TRACE_REQUEST || e->kind == TRACE_ACCEPT) && cm->depths;
        uint16_t reads_in = depths ? cm->reads_in : RDMA_READS_UNKNOWN;
        uint16_t reads_out = depths ? cm->reads_out : RDMA_READS_UNKNOWN;

        if (j->stale)
                start_rdma(j);
        if (!j->ok)
                return;
        if (e->kind == TRACE_REQUEST)
                add_all(found, rdma_track_request(j->rdma, cm->data, cm->len, reads_in, reads_out));
        else if (e->kind == TRACE_ACCEPT) /* iWARP: the device says what it answers, not its user */
                add_all(found,
                        rdma_track_accept(j->rdma, cm->data, cm->len,
                                          j->transport == TRACE_IWARP ? 0 : reads_in, reads_out));
        else if (e->kind == TRACE_REJECT && cm->reason == 28 && e->sender == PARTY_CONTROLLER)
                on_reject(j, cm, found);
        else if (e->kind == TRACE_CAPSULE)
                on_capsule(j, e, found);
        else if (e->kind == TRACE_READ)
                add_all(found, rdma_track_read(j->rdma, e->sender, m->addr, m->key, m->len));
        else if (e->kind == TRACE_WRITE)
                add_all(found, rdma_track_write(j->rdma, e->sender, m->addr, m->key, m->len));
        else if (e->kind == TRACE_DISCONNECT || e->kind == TRACE_DISCONNECTED)
                rdma_track_closed(j->rdma, e->sender);
        rdma_watch_event(j->watch, e, j->rdma, found);
}

/* Something that a tracker has to know was not caught. Where a side of a connection is found in the middle of it, that
 * is what it has said before. */
static bool is_hole(const struct trace_event *e)
{
        return e->kind == TRACE_GAP || (e->kind == TRACE_CAPSULE && !judge_knows(e)) ||
               (e->kind == TRACE_FOUND && e->conn->midstream && e->conn->transport != TRACE_TCP);
}

void judge_event(struct judge *j, const struct trace_event *e, struct rule_set *found)
{
        if (is_hole(e)) {
                j->lenient = j->stale = true;
                if (j->watch)
                        rdma_watch_gap(j->watch);
                return;
        }
        if (e->kind == TRACE_FAULT || e->kind == TRACE_HEADER || e->kind == TRACE_PDU)
                watch_terms(j, e, found);
        if (e->kind == TRACE_FAULT) {
                add_of(j, e, found, e->pdu->fault);
                j->ended |= e->sender == PARTY_CONTROLLER && is_fatal(e->pdu->fault);
                j->lenient = j->stale = true; /* what it said is not known */
        } else if (j->transport != TRACE_TCP) {
                on_rdma(j, e, found);
        } else if (e->kind == TRACE_HEADER) {
                on_header(j, e, found);
        } else if (e->kind == TRACE_PDU) {
                on_pdu(j, e, found);
        }
}

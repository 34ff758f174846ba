/* SPDX-License-Identifier: BSD-3-Clause */
/* What the capture of a play shows of it. */
#include <stdlib.h>
#include <string.h>

#include "conformance/words/words.h"
#include "pcap/nvme/line.h"
#include "pdu/nvme/machine/tls_hello.h"
#include "stage.h"

#define NS_PER_MS 1000000

/* --- what the capture shows ---------------------------------------------------------------- */

struct sight {           /* of one connection */
        bool spoilt;     /* the rule was broken on it, */
        uint32_t digest; /* first by a PDU with this HDGST */
        bool secured;    /* it began with TLS */
        bool ended;      /* before its target did; */
        bool said;       /* the host said why, by these: */
        uint16_t code;   /* FES or RCODEEX */
        uint32_t place;
        uint64_t newest; /* number of the latest of the I/O commands that were answered */
        bool reading;    /* C2HData of a command has come that was not its last: */
        uint16_t cid;    /* this one's */
};

static bool is_pdu(const struct record *r, enum pdu_type type)
{
        return r->e->kind == TRACE_PDU && r->e->pdu->h->ch.type == type;
}

static void see_line(struct t *t, const struct record *r)
{
        char line[EXCHANGE_LINE];
        struct text words = text_in(line, sizeof(line));

        if (r->e->kind == TRACE_HEADER)
                return;
        line_words(&words, r);
        t->log.now = (uint64_t)r->e->at.time_ns / 1000;
        exchange_cm(&t->log, r->session->conn->number, r->e->sender == PARTY_CONTROLLER, "%s",
                    line);
}

/* Whether the target ends connections by C2HTermReq, for nothing. */
static bool ends_unprovoked(const struct play *p)
{
        return p->flaw == FLAW_TERM_UNPROVOKED || p->flaw == FLAW_TERM_CONNECT ||
               p->flaw == FLAW_IC_TERM;
}

/* What a header has shown is told with the rest of its PDU, or after what the host made of it. */
static void see_breach(const struct stage *s, const struct record *r)
{
        struct sight *c = r->session->user;
        bool begins = s->play->flaw == FLAW_IC_SILENT && r->e->kind == TRACE_OPENED;

        if (c->spoilt || (!rule_in(&r->broken, s->play->breaks) && !begins &&
                          (!ends_unprovoked(s->play) || !is_pdu(r, PDU_C2H_TERM))))
                return;
        c->spoilt = true;
        if (r->e->kind == TRACE_PDU || r->e->kind == TRACE_FAULT)
                c->digest = r->e->pdu->hdgst;
}

static bool is_fabrics(const struct session_cmd *c, uint8_t fctype)
{
        return c->sqe.opc == NVME_FABRICS && c->sqe.fctype == fctype;
}

/* A host that comes back by itself may look for the target of a former play, which had the same port. */
static bool is_late(const struct stage *s, const struct session_cmd *c)
{
        const struct connect_data *d;

        if (!c || !is_fabrics(c, FCTYPE_CONNECT) || c->data_len < sizeof(*d))
                return false;
        d = (const struct connect_data *)(const void *)c->data;
        return strncmp(d->subnqn, PLAY_NQN, strlen(PLAY_NQN)) == 0 &&
               strncmp(d->subnqn, s->subnqn, sizeof(d->subnqn)) != 0;
}

/* A target that breaks a rule excuses what the host does; but not how it says so. */
static void see_faults(const struct stage *s, const struct record *r)
{
        char line[EXCHANGE_LINE];
        struct text words = text_in(line, sizeof(line));
        struct record bare = *r;

        bare.why = NULL;
        if (!r->is_broken || is_late(s, r->cmd) ||
            (s->play->breaks != RULE_NONE && !is_pdu(r, PDU_H2C_TERM)))
                return;
        if (r->why) /* what is cut off is at the end */
                text_add(&words, "%s: ", r->why);
        line_words(&words, &bare);
        rule_each_in (&r->broken, rule)
                if (rule == s->play->cause)
                        s->seen->caused = true;
                else if (rule_get(rule)->bound == PARTY_HOST)
                        t_breach(s->t, rule, NULL, line);
}

/* --- what it does -------------------------------------------------------------------------- */

static bool is_apart(const struct record *r) /* from what a host is asked to do */
{
        return r->session->qid == 0 && (r->sqe->opc == NVME_KEEP_ALIVE || r->sqe->opc == NVME_AER);
}

static uint64_t ms_of(const struct record *r)
{
        return (uint64_t)r->e->at.time_ns / NS_PER_MS;
}

static bool is_of_subsystem(const struct record *r)
{
        return r->session->assoc && !r->session->assoc->discovery;
}

/* Of a host that is not through yet: what becomes of its connections afterwards is no silence of its. */
static void see_silence(struct stage *s, const struct record *r)
{
        uint64_t now = ms_of(r);

        if (!is_of_subsystem(r) || r->e->at.time_ns >= s->through_ns)
                return;
        if (s->heard && now - s->heard > s->seen->silent)
                s->seen->silent = now - s->heard;
        if (r->sqe)
                s->heard = now;
}

/* Of those to the subsystem. */
static void see_command(struct stage *s, const struct record *r)
{
        const struct association *a = r->session->assoc;
        uint64_t now = ms_of(r);

        if (r->cmd)
                r->cmd->user = (void *)(uintptr_t)r->session->commands; /* its number */
        if (!is_of_subsystem(r))
                return;
        s->seen->commands++;
        s->seen->io += r->session->qid > 0 && r->sqe->opc != NVME_FABRICS;
        s->seen->secured += ((const struct sight *)r->session->user)->secured;
        if (is_apart(r))
                return;
        if (s->busy && now - s->busy > s->seen->idle) {
                s->seen->idle = now - s->busy;
                s->seen->renewed = a->number > s->newest;
        }
        s->busy = now;
        if (a->number > s->newest)
                s->newest = a->number;
}

static void see_connect(struct played *seen, const struct record *r)
{
        const struct connect_cmd *c = &r->cmd->sqe.connect;

        if (le16_get(c->qid) != 0 || !r->session->assoc || r->session->assoc->discovery)
                return;
        seen->associations++;
        seen->kato = le32_get(c->kato);
}

/* Whether a response is right no capture tells; but that there is one. */
static void see_message(const struct stage *s, const struct record *r)
{
        struct sight *c = r->session->user;
        struct auth_view v;

        if (!r->cmd->data || auth_view(&v, r->cmd->data, r->cmd->data_len) != 0)
                return;
        if (v.message == AUTH_NEGOTIATE)
                s->seen->negotiated = true;
        if (v.message == AUTH_SUCCESS1 && v.success1->rvalid) {
                s->seen->proven = true;
                c->spoilt = c->spoilt || s->play->breaks == FAB_AUTH_R2;
        }
        if (v.message != AUTH_FAILURE2 || c->said)
                return;
        c->said = true;
        c->code = v.failure->rcodeex;
}

static bool succeeds(const struct record *r)
{
        return !r->cqe || cqe_status(r->cqe) == NVME_SUCCESS; /* without a response: by SUCCESS */
}

static void see_transfer(struct played *seen, const struct session_cmd *c)
{
        if (c->sqe.opc == NVME_WRITE)
                seen->written += c->h2c;
        if (c->sqe.opc == NVME_READ)
                seen->read += c->c2h;
}

/* A Connect of an admin queue to no discovery service. */
static bool is_for_work(const struct session_cmd *c)
{
        const struct connect_data *d = (const struct connect_data *)(const void *)c->data;

        return le16_get(c->sqe.connect.qid) == 0 && c->data_len >= sizeof(*d) &&
               strncmp(d->subnqn, NQN_DISCOVERY, sizeof(d->subnqn)) != 0;
}

static void see_result(struct stage *s, const struct record *r)
{
        struct sight *c = r->session->user;
        uint64_t number = (uintptr_t)r->cmd->user;

        if (is_fabrics(r->cmd, FCTYPE_CONNECT) && succeeds(r))
                see_connect(s->seen, r);
        if (is_fabrics(r->cmd, FCTYPE_CONNECT) && !succeeds(r) && !is_late(s, r->cmd))
                s->seen->refused = true;
        if (is_fabrics(r->cmd, FCTYPE_CONNECT) && is_for_work(r->cmd))
                s->seen->tries++;
        if (is_fabrics(r->cmd, FCTYPE_AUTH_SEND) || is_fabrics(r->cmd, FCTYPE_AUTH_RECEIVE))
                see_message(s, r);
        if (r->session->qid <= 0)
                return;
        if (succeeds(r))
                see_transfer(s->seen, r->cmd);
        s->seen->overtaken = s->seen->overtaken || number < c->newest;
        if (number > c->newest)
                c->newest = number;
}

/* --- how it ends --------------------------------------------------------------------------- */

static void see_end(const struct stage *s, const struct record *r)
{
        struct sight *c = r->session->user;

        if (is_pdu(r, PDU_H2C_TERM) && !c->said) {
                c->said = true;
                c->code = le16_get(r->e->pdu->h->term.fes);
                c->place = le32_get(r->e->pdu->h->term.fei);
                s->seen->unsupported |= c->code == FES_UNSUPPORTED_PARAMETER &&
                                        c->place == offsetof(struct pdu_icresp, cpda);
        }
        if (r->e->kind == TRACE_CLOSED || r->e->kind == TRACE_DISCONNECT)
                c->ended = c->ended || r->e->at.time_ns < s->over_ns;
}

/* Once it has found the fault on one connection a host may close the others at once. */
static void sum_up(const struct stage *s, const struct sight *c)
{
        struct played *seen = s->seen;

        seen->broken = true;
        seen->left = seen->left || !c->ended;
        if (!c->said)
                return;
        if (rule_accepts(s->play->breaks, c->code, c->place, c->digest))
                seen->accepted = true;
        seen->said = true;
        seen->code = c->code;
        seen->place = c->place;
}

static void see_data(struct played *seen, const struct record *r)
{
        const struct pdu_data *h = &r->e->pdu->h->data;
        struct sight *c = r->session->user;

        seen->interleaved |= c->reading && c->cid != le16_get(h->cccid);
        c->reading = !(h->ch.flags & PDU_LAST);
        c->cid = le16_get(h->cccid);
        seen->implied |= h->ch.flags & PDU_SUCCESS && r->session->qid > 0;
}

static void see_hello(struct played *seen, struct sight *c, const struct trace_hello *hello)
{
        struct tls_hello_view v;

        seen->hellos++;
        c->secured = true;
        if (tls_hello_read(&v, hello->p, hello->len) && v.version >= TLS_1_3)
                seen->modes |= v.modes;
}

static void see(void *user, const struct record *r)
{
        struct stage *s = user;
        struct played *seen = s->seen;
        struct sight *c;

        if (r->e->kind == TRACE_OPENED)
                r->session->user = t_alloc(s->t, sizeof(struct sight));
        c = r->session->user;
        see_line(s->t, r);
        seen->connections += r->e->kind == TRACE_OPENED;
        if (r->e->kind == TRACE_SECURED)
                see_hello(seen, c, &r->e->hello);
        see_silence(s, r);
        if (r->sqe)
                see_command(s, r);
        if (r->ends && r->cmd)
                see_result(s, r);
        if (is_pdu(r, PDU_ICREQ)) {
                seen->hdgst = seen->hdgst || r->e->pdu->h->icreq.dgst & PDU_DGST_HEADER;
                seen->ddgst = seen->ddgst || r->e->pdu->h->icreq.dgst & PDU_DGST_DATA;
        }
        if (is_pdu(r, PDU_C2H_DATA))
                see_data(seen, r);
        see_breach(s, r);
        see_faults(s, r);
        see_end(s, r);
        if (r->e->kind == TRACE_CLOSED && c->spoilt)
                sum_up(s, c);
}

/* --- TLS: the target has recorded what is inside, after the host's ClientHello ------------------- */

enum { RECORD_HEADER = 5 };

struct inside {
        uint8_t header[RECORD_HEADER];
        size_t got, left; /* of the header; of the record after it */
        bool plain;
};

static void *inside_open(const void *keys)
{
        (void)keys;
        return calloc(1, sizeof(struct inside));
}

static size_t skip_record(struct inside *in, const uint8_t *p, size_t n)
{
        size_t part;

        if (in->got < RECORD_HEADER) {
                in->header[in->got++] = *p;
                in->left = (size_t)in->header[3] << 8 | in->header[4];
                return 1;
        }
        part = n < in->left ? n : in->left;
        in->left -= part;
        in->plain = in->left == 0;
        return part;
}

static const char *
inside_read(void *conn, enum party sender, const uint8_t *p, size_t n,
            void (*plain)(void *user, enum party sender, const uint8_t *p, size_t n), void *user)
{
        struct inside *in = conn;

        while (sender == PARTY_HOST && !in->plain && n > 0) {
                size_t part = skip_record(in, p, n);

                p += part;
                n -= part;
        }
        if (n > 0)
                plain(user, sender, p, n);
        return NULL;
}

int stage_see(struct stage *s, char *error, size_t size)
{
        static const struct trace_tls inside = { .open = inside_open,
                                                 .read = inside_read,
                                                 .close = free };
        static const struct trace_options trace = { .tls = &inside };
        const struct peer *p = peer(s->t);
        bool tls = s->play->psk || s->play->told_psk || s->play->concat;
        struct session_options options = { .judge = true,
                                           .shows_tls = tls,
                                           .waived = p->hook ? &p->policy.waived : NULL };
        int rc =
            session_read(s->t->capture, tls ? &trace : NULL, &options, see, s, NULL, error, size);

        s->t->log.now = 0;
        return rc;
}

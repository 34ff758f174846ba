/* SPDX-License-Identifier: BSD-3-Clause */
/* The expecting words. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "case_rdma.h"
#include "conn_tcp.h"
#include "pdu/nvme/wire/text.h"
#include "words.h"

/* --- waiting ------------------------------------------------------------------------------- */

static bool of_command(const struct seen *s, uint16_t cid)
{
        const struct cqe *cqe = message_cqe(&s->m);

        if (cqe)
                return le16_get(cqe->cid) == cid;
        if (message_is(&s->m, PDU_C2H_DATA) || message_is(&s->m, PDU_R2T))
                return le16_get(s->m.pdu.data.cccid) == cid;
        return message_is(&s->m, PDU_C2H_TERM);
}

static bool is_term(const struct seen *s, uint16_t cid)
{
        (void)cid;
        return message_is(&s->m, PDU_C2H_TERM);
}

static bool is_icresp(const struct seen *s, uint16_t cid)
{
        return message_is(&s->m, PDU_ICRESP) || is_term(s, cid);
}

static bool is_response(const struct seen *s, uint16_t cid)
{
        return message_cqe(&s->m) || is_term(s, cid);
}

static bool anything(const struct seen *s, uint16_t cid)
{
        (void)s;
        (void)cid;
        return true;
}

/* Who authenticates itself may have to compute with 8,192 bits, and no text says for how long. */
static bool is_computing(const struct queue *q)
{
        for (const struct command *c = q->commands; c; c = c->next)
                if (!c->done && (sqe_is_fabrics(&c->sqe, FCTYPE_AUTH_SEND) ||
                                 sqe_is_fabrics(&c->sqe, FCTYPE_AUTH_RECEIVE)))
                        return true;
        return false;
}

static unsigned reply_ms(const struct queue *q)
{
        enum { COMPUTING_MS = 10000 };
        unsigned least = is_computing(q) ? COMPUTING_MS : REPLY_MS;

        return q->patience > least ? q->patience : least;
}

static bool breaks_a_must(const struct t *t)
{
        for (unsigned i = 0; i < t->result->notice_count; i++)
                if (t_rule(t, t->result->notices[i].rule)->level == LEVEL_MUST)
                        return true;
        return false;
}

/* How many PDUs a case keeps is its own limit: T1.0 3.3.2.1 sets no least DATAL, so that many are no fault by themselves. */
static void skip_if_flooded(const struct queue *q)
{
        require(q->t, q->conn->end != CONN_FLOODED || breaks_a_must(q->t),
                "the target sends more PDUs than a case keeps, and breaks no rule by that");
}

/* The next PDU that fits, out of the inbox and the caller's; NULL: the end, or the deadline. */
static struct seen *await(struct queue *q, seen_fits fits, uint16_t cid, uint64_t deadline)
{
        for (bool late = false;; late = loop_now_ms() > deadline) {
                struct seen *s = conn_take(q->conn, fits, cid);

                if (s) {
                        t_settle(q->t);
                        return s;
                }
                if (late || q->conn->end != CONN_OPEN || !conn_wait(q->conn, deadline)) {
                        t_settle(q->t);
                        skip_if_flooded(q);
                        return NULL;
                }
        }
}

/* --- what was seen instead, in words ------------------------------------------------------- */

static const char *end_says(enum conn_end e)
{
        static const char *const says[] = {
                [CONN_OPEN] = "no answer",
                [CONN_FIN] = "the target closed the connection",
                [CONN_RST] = "the target reset the connection",
                [CONN_UNREADABLE] = "bytes that are not a PDU",
                [CONN_FLOODED] = "more PDUs than a case reads",
                [CONN_REJECTED] = "the connect request was rejected",
                [CONN_DISCONNECTED] = "the target disconnected",
                [CONN_BROKEN] = "the connection broke",
                [CONN_CLOSED] = "the connection was closed by the case",
                [CONN_STARVED] = "out of memory",
        };

        return says[e];
}

/* Another association than the one that we have done something to. */
static bool is_bystander(const struct queue *q)
{
        const struct queue *p = world(q->t)->provoked;
        const struct rule *r = rule_get(q->t->rule);

        return p && p != q && !(p->admin && p->admin == q->admin) && r && r->bound == PARTY_HOST;
}

bool is_silent(const struct queue *q)
{
        for (const struct command *c = q->commands; c; c = c->next)
                if (!c->done && !c->solicited && !(q->conn->admin && c->sqe.opc == NVME_AER))
                        return true;
        return false;
}

void broke_if_late(const struct queue *q)
{
        if (q->conn->end == CONN_OPEN)
                broke_if_over(q->t);
}

/* Ends the case: s (may be NULL: nothing, or the end) came in place of what was expected. silence: it is
 * harm that nothing came. */
static void __attribute__((noreturn))
came_instead(struct queue *q, struct seen *s, const char *expected, bool silence)
{
        char line[RESULT_TEXT];
        struct text text = text_in(line, sizeof(line));

        if (!s)
                broke_if_late(q);
        if (!s && q->may_end && q->conn->end != CONN_OPEN) {
                q->t->negative = true; /* does it live? */
                skip(q->t, ENDS_WITH_RESET);
        }
        if (s)
                message_line(&text, &s->m, q->conn->admin);
        else
                text_add(&text, "%s", end_says(q->conn->end));
        if (!s && q->conn->end == CONN_OPEN && q->conn->inbox) {
                text_add(&text, " but ");
                message_line(&text, &q->conn->inbox->m, q->conn->admin);
        }
        if (is_bystander(q) || (silence && !s && q->conn->end == CONN_OPEN))
                harm(q->t, expected, "%s", line);
        fail(q->t, expected, "%s", line);
}

static void __attribute__((noreturn)) instead(struct queue *q, struct seen *s, const char *expected)
{
        came_instead(q, s, expected, is_silent(q));
}

static void add_name(struct text *t, const char *name, uint16_t status)
{
        text_add(t, "%s (%X/%02Xh)", name, status >> 8, status & 0xffu);
}

static void add_status(struct text *t, struct queue *q, uint16_t cid, uint16_t status)
{
        add_name(t, status_name_of(&command_of(q, cid)->sqe, status), status);
}

/* Some numbers mean another thing in Connect than in I/O commands. */
static const char *prescribed_name(const struct rule *r, uint16_t status)
{
        static const union sqe io = { .opc = NVME_WRITE };

        return strncmp(r->id, "nvm/", 4) == 0 ? status_name_of(&io, status) : status_name(status);
}

static void add_outcome(struct text *t, const struct rule *r, const struct outcome *o)
{
        bool data = r->reaction == REACT_STATUS && o->place >= CONNECT_IATTR_DATA;

        if (r->reaction == REACT_STATUS) {
                add_name(t, prescribed_name(r, o->code), o->code);
                if (o->place >= 0)
                        text_add(t, " IPO %u in the %s", o->place & 0xffff, data ? "data" : "SQE");
                return;
        }
        if (r->reaction == REACT_AUTH) {
                text_add(t, "\"%s\" (%02Xh)", auth_failure_name((uint8_t)o->code), o->code);
                return;
        }
        if (r->reaction == REACT_REJECT) {
                text_add(t, "STS %u (%s)", o->code, rdma_reject_name(o->code));
                return;
        }
        text_add(t, "%s (%02Xh)", pdu_fes_name(o->code, PARTY_CONTROLLER), o->code);
        if (o->place >= 0)
                text_add(t, " FEI %d", o->place);
        else if (o->place == PLACE_DIGEST)
                text_add(t, " FEI = the digest received");
}

const char *reaction_says(const struct rule *r, char *buf, size_t size)
{
        struct text t = text_in(buf, size);
        bool listed = r->reaction == REACT_TERM || r->reaction == REACT_STATUS ||
                      r->reaction == REACT_REJECT || r->reaction == REACT_AUTH;

        if (r->reaction == REACT_TERM)
                text_add(&t, "C2HTermReq ");
        else if (r->reaction == REACT_REJECT)
                text_add(&t, "the connect request is rejected with ");
        else if (r->reaction == REACT_AUTH)
                text_add(&t, "%s ", auth_message_name(AUTH_FAILURE1));
        else if (!listed)
                text_add(&t, "%s", rulebook_reaction(&nvme_rules, r->reaction));
        for (int i = 0; listed && i < RULE_OUTCOMES && r->accept[i].code; i++) {
                text_add(&t, i > 0 ? " or " : "");
                add_outcome(&t, r, &r->accept[i]);
        }
        return buf;
}

static const struct rule *rule_of(struct queue *q)
{
        const struct rule *rule = rule_get(q->t->rule);

        if (!rule)
                broke(q->t, "the case names no rule that says how");
        return rule;
}

/* --- set-up -------------------------------------------------------------------------------- */

struct icresp expect_icresp(struct queue *q)
{
        struct seen *s = await(q, is_icresp, 0, t_deadline(q->t, REPLY_MS));
        struct icresp r;

        if (!s || !message_is(&s->m, PDU_ICRESP))
                came_instead(q, s, "ICResp", true);
        r = (struct icresp) {
                .cpda = s->m.pdu.icresp.cpda,
                .hdgst = s->m.pdu.icresp.dgst & PDU_DGST_HEADER,
                .ddgst = s->m.pdu.icresp.dgst & PDU_DGST_DATA,
                .maxh2cdata = le32_get(s->m.pdu.icresp.maxh2cdata),
        };
        return r;
}

bool expect_icresp_unless(struct queue *q, uint32_t unsupported)
{
        static const char expected[] = "ICResp, or C2HTermReq that calls the parameter unsupported";
        struct seen *s = await(q, is_icresp, 0, t_deadline(q->t, REPLY_MS));

        if (s && message_is(&s->m, PDU_ICRESP))
                return true;
        if (!s && q->conn->end != CONN_OPEN)
                lenient(q->t, expected, "%s", end_says(q->conn->end));
        else if (!s || le16_get(s->m.pdu.term.fes) != FES_UNSUPPORTED_PARAMETER ||
                 le32_get(s->m.pdu.term.fei) != unsupported)
                came_instead(q, s, expected, true);
        q->over = true;
        return false;
}

struct icresp queue_ic(struct queue *q, struct ic i)
{
        queue_icreq(q, i);
        return expect_icresp(q);
}

/* --- data and responses -------------------------------------------------------------------- */

/* Where the data of the controller goes: zeroes until some comes, even if none ever does. Over RDMA
 * what the response left in memory. */
static uint8_t *buffer_of(struct queue *q, struct command *c)
{
        if (is_rdma(q))
                rdma_collect(q, c);
        if (!c->in && !c->by_hand)
                c->in = t_alloc(q->t, (size_t)c->bytes + 1);
        return c->in;
}

/* Whether that is all that s is needed for: what is empty, or more than the command has asked for, is kept and counted,
 * so that nobody can send it forever. */
static bool collect(struct queue *q, const struct seen *s)
{
        struct command *c = command_of(q, le16_get(s->m.pdu.data.cccid));
        uint32_t offset = le32_get(s->m.pdu.data.offset);

        if ((uint64_t)offset + s->len <= c->bytes)
                memcpy(buffer_of(q, c) + offset, s->data, s->len);
        c->got += s->len;
        return s->len > 0 && c->got <= c->bytes;
}

/* What the tracker can't know of a response: how many bytes the blocks have that were asked for. */
static void check_response(struct queue *q, struct command *c, const struct reply *r,
                           const struct message *m)
{
        if (!is_rdma(q) && r->status == NVME_SUCCESS && r->got < c->least)
                t_breach(q->t, TCP_C2H_COMPLETE, m, "success before all data came");
        if (c->done)
                t_breach(q->t, FAB_ANSWERED, m, "a second response");
        c->done = true;
        t_settle(q->t);
}

static struct reply reply_of(struct queue *q, struct command *c, const struct seen *s)
{
        const struct cqe *e = message_cqe(&s->m);
        uint8_t *data = buffer_of(q, c);
        struct reply r = { .cid = c->cid,
                           .data = data,
                           .got = c->got,
                           .invalidated = s->invalidated,
                           .key = s->key };

        if (!e) {
                r.success_flag = true;
        } else {
                r.status = cqe_status(e);
                r.more = cqe_more(e);
                r.dnr = cqe_dnr(e);
                r.retry_delay = le16_get(e->sf) >> 1 & STATUS_CRD;
                r.dw0 = le32_get(e->dw0);
                r.dw1 = le32_get(e->dw1);
                r.sqhd = le16_get(e->sqhd);
        }
        if (c->sqe.opc == NVME_FABRICS && c->sqe.fctype == FCTYPE_CONNECT)
                q->t->busy = r.status == NVME_CONNECT_BUSY;
        check_response(q, c, &r, &s->m);
        return r;
}

static bool ends_command(const struct seen *s)
{
        return message_cqe(&s->m) ||
               (message_is(&s->m, PDU_C2H_DATA) && s->m.pdu.ch.flags & PDU_SUCCESS);
}

/* The case ends if it asks for what the command does not have: no case could serve that. */
static struct r2t r2t_of(struct queue *q, const struct seen *s)
{
        struct r2t r = { le16_get(s->m.pdu.data.cccid), le16_get(s->m.pdu.data.ttag),
                         le32_get(s->m.pdu.data.offset), le32_get(s->m.pdu.data.length) };

        if (r.len == 0 || (uint64_t)r.offset + r.len > command_of(q, r.cid)->bytes)
                fail(q->t, "an R2T for bytes of the command's data", "R2TO %u R2TL %u", r.offset,
                     r.len);
        command_of(q, r.cid)->solicited = true;
        return r;
}

/* Bytes that were written for commands that have no response yet. */
static uint64_t written_for(const struct queue *q)
{
        uint64_t n = 0;

        for (const struct command *c = q->commands; c; c = c->next)
                n += c->done ? 0 : rdma_written(c);
        return n;
}

/*
 * The next PDU of the command. Its time runs while nothing comes on the queue: controllers serve commands in an order
 * of their own, and data of others takes its time.
 */
static struct seen *await_of(struct queue *q, seen_fits fits, uint16_t cid)
{
        uint64_t before, now = q->conn->filed, bytes_before, bytes = 0;
        struct seen *s;

        do {
                before = now;
                bytes_before = bytes;
                s = await(q, fits, cid, t_deadline(q->t, reply_ms(q)));
                now = q->conn->filed;
                bytes = s ? 0 : written_for(q);
        } while (!s && q->conn->end == CONN_OPEN && now_ms() < q->t->deadline &&
                 (now > before || bytes > bytes_before));
        return s;
}

static bool of_command_or_r2t(const struct seen *s, uint16_t cid)
{
        return message_is(&s->m, PDU_R2T) || of_command(s, cid);
}

/* An R2T of another command, whose data the controller may want first; those of no command are none. */
static bool is_of_other(const struct seen *s, uint16_t cid)
{
        return message_is(&s->m, PDU_R2T) && le16_get(s->m.pdu.data.cccid) != cid;
}

static void serve_other(struct queue *q, const struct seen *s)
{
        const struct command *c = q->commands;

        while (c && c->cid != le16_get(s->m.pdu.data.cccid))
                c = c->next;
        if (c && !c->done && c->xfer == XFER_H2C)
                serve(q, r2t_of(q, s));
}

/* C2HData of the command: true if it ends it. What is merged makes room for more. */
static bool take_data(struct queue *q, struct seen *s)
{
        bool merged = collect(q, s), last = ends_command(s);

        if (merged && !last)
                conn_let_go(q->conn, s);
        return last;
}

/* The PDU that ends the command, its data collected, its R2Ts served, and those of others that wait for data,
 * or (serving false) refused; NULL: none came, or a TermReq did, which is in *other then. */
static struct seen *last_of(struct queue *q, uint16_t cid, bool serving, struct seen **other)
{
        seen_fits fits = serving ? of_command_or_r2t : of_command;
        struct seen *s;

        *other = NULL;
        while ((s = await_of(q, fits, cid))) {
                if (is_of_other(s, cid)) {
                        serve_other(q, s);
                        continue;
                }
                if (message_is(&s->m, PDU_C2H_DATA)) {
                        if (take_data(q, s))
                                return s;
                        continue;
                }
                if (ends_command(s))
                        return s;
                if (message_is(&s->m, PDU_C2H_TERM) || (message_is(&s->m, PDU_R2T) && !serving)) {
                        *other = s;
                        return NULL;
                }
                if (message_is(&s->m, PDU_R2T))
                        serve(q, r2t_of(q, s));
        }
        return NULL;
}

static struct reply response(struct queue *q, uint16_t cid, bool serving)
{
        struct command *c = command_of(q, cid);
        struct seen *other, *s = last_of(q, cid, serving, &other);
        char expected[80];
        struct reply r;

        if (!s) {
                snprintf(expected, sizeof(expected), "the response to %s (CID %u)",
                         sqe_name(&c->sqe, q->conn->admin), cid);
                came_instead(q, other, expected, serving || is_silent(q));
        }
        r = reply_of(q, c, s);
        return r;
}

struct reply expect_resp(struct queue *q, uint16_t cid)
{
        return q->over ? (struct reply) { 0 } : response(q, cid, false);
}

struct reply expect_next(struct queue *q)
{
        struct seen *s = q->over ? NULL : await(q, is_response, 0, t_deadline(q->t, REPLY_MS));

        if (q->over)
                return (struct reply) { 0 };
        if (!s || !message_cqe(&s->m))
                instead(q, s, "a response");
        return reply_of(q, command_of(q, le16_get(message_cqe(&s->m)->cid)), s);
}

struct reply finish(struct queue *q, uint16_t cid)
{
        return q->over ? (struct reply) { 0 } : response(q, cid, true);
}

/* B2.2 3.1.3.4 (figures 28 to 30), N1.2 2.2 (figure 14): of each controller, or of an I/O controller, if that is what the
 * tested subsystem has, where its namespace is one of the NVM Command Set (CC.CSS 0). */
static bool is_mandatory(const struct queue *q, const union sqe *s)
{
        static const uint8_t admin[] = { NVME_ABORT, NVME_SET_FEATURES, NVME_GET_FEATURES,
                                         NVME_AER };
        bool io = caps(q->t)->io && q->admin && strcmp(q->subnqn, peer(q->t)->subnqn) == 0;

        if (s->opc == NVME_FABRICS)
                return sqe_is_fabrics(s, FCTYPE_PROPERTY_GET) ||
                       sqe_is_fabrics(s, FCTYPE_PROPERTY_SET);
        if (!q->conn->admin)
                return io && (s->opc == NVME_FLUSH || s->opc == NVME_WRITE || s->opc == NVME_READ);
        return s->opc == NVME_IDENTIFY || s->opc == NVME_GET_LOG_PAGE ||
               (io && memchr(admin, s->opc, sizeof(admin)));
}

/* Of cases that make a state themselves it is known when it ends. Those that format or sanitize run alone. */
static bool is_by_others(const struct queue *q, uint16_t status)
{
        const struct test_case *test = q->t->test;

        if (status == NVME_RESERVATION_CONFLICT)
                return !world(q->t)->reserves;
        return !test->changes &&
               !(test->alone && (status == NVME_FORMATTING || status == NVME_SANITIZING));
}

/* What passes by itself: the host may submit the command again (4.2.3.1, 4.2.3.4), and the case is run again. */
static bool passes_by(const struct queue *q, struct reply r)
{
        static const uint16_t statuses[] = { NVME_SANITIZING,          NVME_INTERRUPTED,
                                             NVME_TRANSIENT_TRANSPORT, NVME_MEDIA_NOT_READY,
                                             NVME_NS_NOT_READY,        NVME_FORMATTING,
                                             NVME_ANA_TRANSITION };

        for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++)
                if (statuses[i] == r.status)
                        return !r.dnr && is_by_others(q, r.status);
        return false;
}

/* How the state of a namespace, or what another host does to it, ends commands that are right. */
static bool is_state(const struct queue *q, uint8_t opc, uint16_t status)
{
        bool ana = caps(q->t)->id.cmic & CMIC_ANA;
        bool state = status == NVME_RESERVATION_CONFLICT || status == NVME_CAPACITY_EXCEEDED ||
                     (opc == NVME_COPY && status == NVME_COPY_RESOURCES) || /* N1.2 figure 42 */
                     (ana && (status == NVME_ANA_LOSS || status == NVME_ANA_INACCESSIBLE));

        return state && !q->conn->admin && is_by_others(q, status);
}

/* Blocks that nobody has written since the case began may be unreadable: media errors, deallocated ones, the
 * protection information of others. */
static bool is_of_medium(const struct queue *q, uint8_t opc, uint16_t status)
{
        enum { SCT_MEDIA = 2 };
        bool other = status == NVME_WRITE_FAULT || status == NVME_COMPARE_FAILURE ||
                     status == NVME_ACCESS_DENIED;

        return !q->conn->admin && !q->t->test->writes && status >> 8 == SCT_MEDIA && !other &&
               (opc == NVME_READ || opc == NVME_COMPARE || opc == NVME_VERIFY);
}

void note_passing(struct queue *q, struct reply r)
{
        q->t->busy |= passes_by(q, r);
}

static void check_status(struct queue *q, struct reply r, uint16_t status)
{
        const union sqe *sqe = &command_of(q, r.cid)->sqe;
        char expected[120], seen[120];
        struct text e = text_in(expected, sizeof(expected)), s = text_in(seen, sizeof(seen));

        if (r.status == status)
                return;
        require(q->t, status != NVME_SUCCESS || !is_state(q, sqe->opc, r.status),
                "the state of the namespace does not let it: %s", status_name(r.status));
        text_add(&e, "%s: ", sqe_name(sqe, q->conn->admin));
        add_status(&e, q, r.cid, status);
        add_status(&s, q, r.cid, r.status);
        q->t->busy |= passes_by(q, r);
        if (is_bystander(q))
                harm(q->t, expected, "%s", seen);
        require(q->t, status != NVME_SUCCESS || !is_of_medium(q, sqe->opc, r.status),
                "the medium does not give the blocks: %s", status_name(r.status));
        if (status == NVME_SUCCESS && r.status == NVME_INVALID_OPCODE && is_mandatory(q, sqe))
                blame(q->t, CMD_MANDATORY);
        fail(q->t, expected, "%s", seen);
}

struct reply expect_status(struct queue *q, uint16_t cid, uint16_t status)
{
        struct reply r = expect_resp(q, cid);

        if (!q->over)
                check_status(q, r, status);
        return r;
}

struct reply expect_success(struct queue *q, uint16_t cid)
{
        return expect_status(q, cid, NVME_SUCCESS);
}

/* 4.4, 5.1.11, 5.1.25; Lockdown prohibits features one by one. Who does not know a feature does not know of its data
 * either (nvmet). */
static bool is_unsupported(uint16_t status)
{
        static const uint16_t statuses[] = { NVME_INVALID_FIELD,
                                             NVME_SGL_LENGTH,
                                             NVME_PROHIBITED,
                                             NVME_FEATURE_NOT_SAVEABLE,
                                             NVME_FEATURE_NOT_CHANGEABLE,
                                             NVME_FEATURE_NOT_NS };

        for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++)
                if (statuses[i] == status)
                        return true;
        return false;
}

void require_feature(struct queue *q, struct reply r, const char *why, ...)
{
        char text[120];
        va_list ap;

        va_start(ap, why);
        vsnprintf(text, sizeof(text), why, ap);
        va_end(ap);
        require(q->t, !is_unsupported(r.status), "%s", text);
        if (!q->over)
                check_status(q, r, NVME_SUCCESS);
}

void check_success(struct queue *q, struct reply r)
{
        if (!q->over)
                check_status(q, r, NVME_SUCCESS);
}

struct reply succeed(struct queue *q, uint16_t cid)
{
        struct reply r = finish(q, cid);

        check_success(q, r);
        return r;
}

struct reply finish_slow(struct queue *q, uint16_t cid)
{
        enum { SLOW_MS = 60000 };
        uint64_t left = t_lend(q->t, SLOW_MS);
        unsigned usual = q->patience;
        struct reply r;

        q->patience = 2 * SLOW_MS; /* the case is over before that */
        r = finish(q, cid);
        q->patience = usual;
        t_repay(q->t, left);
        return r;
}

struct reply succeed_slow(struct queue *q, uint16_t cid)
{
        struct reply r = finish_slow(q, cid);

        check_success(q, r);
        return r;
}

struct reply succeed_long(struct queue *q, uint16_t cid)
{
        struct reply r = finish_slow(q, cid);
        bool supported = le32_get(caps(q->t)->id.sgls) & SGLS_LLDTS;

        require(q->t, q->over || supported || r.status != NVME_SGL_LENGTH,
                "SGLS bit 18 is 0, and SGLs longer than the data are refused");
        if (!q->over)
                check_status(q, r, NVME_SUCCESS);
        return r;
}

void expect_error(struct queue *q, uint16_t cid, uint16_t status)
{
        struct reply r = finish(q, cid);
        char expected[120], seen[120];
        struct text e = text_in(expected, sizeof(expected)), s = text_in(seen, sizeof(seen));

        if (q->over || r.status == status)
                return;
        q->t->busy |= passes_by(q, r);
        add_status(&e, q, r.cid, status);
        add_status(&s, q, r.cid, r.status);
        if (r.status == NVME_SUCCESS)
                fail(q->t, expected, "%s", seen);
        lenient(q->t, expected, "%s", seen);
}

void prefer_error(struct queue *q, uint16_t cid, uint16_t status)
{
        struct reply r = finish(q, cid);

        if (!q->over && r.status != status)
                lenient(q->t, status_name(status), "%s", status_name(r.status));
}

void expect_error_since(struct queue *q, uint32_t since, uint16_t cid, uint16_t status)
{
        if (caps(q->t)->vs >= since)
                expect_error(q, cid, status);
        else
                prefer_error(q, cid, status);
}

struct r2t expect_r2t(struct queue *q, uint16_t cid)
{
        struct seen *s = await(q, of_command, cid, t_deadline(q->t, REPLY_MS));
        struct r2t r;

        if (!s || !message_is(&s->m, PDU_R2T))
                instead(q, s, "R2T");
        r = r2t_of(q, s);
        return r;
}

/* --- the end ------------------------------------------------------------------------------- */

/* ms that a connection is looked at after its TermReq: a storm asks for more than that of them. */
static unsigned quiet_ms(const struct t *t)
{
        enum { DRAIN_MS = 20, GLANCE_MS = 2 };

        if (t->rule == TCP_TERM_STOPS || t->rule == TCP_TERM_QUIET)
                return DRAIN_MS;
        return t->test->storm ? 0 : GLANCE_MS;
}

/* The ICResp to what went out last, if that was an ICReq: it was taken for right, and the end that comes
 * in the end has another cause. */
static struct seen *taken_icreq(struct queue *q)
{
        const struct conn_tcp *c = t_is_rdma(q->t) ? NULL : tcp_of(q);

        if (!c || conn_last_sent(c) != PDU_ICREQ)
                return NULL;
        return await(q, is_icresp, 0, 0);
}

/* Responses came in place of the end: whoever was asked has tolerated it, and is not silent. */
static void take_responses(struct queue *q)
{
        struct seen *s;

        while ((s = await(q, is_response, 0, 0)) && message_cqe(&s->m)) {
                struct command *c = find_command(q, le16_get(message_cqe(&s->m)->cid));

                if (c) /* what was no command may have been taken for one */
                        (void)reply_of(q, c, s);
        }
}

static struct seen *await_term(struct queue *q, unsigned ms)
{
        uint64_t left;
        struct seen *s;

        if (!q->terminated || ms >= TERM_MS)
                return await(q, is_term, 0,
                             is_rdma(q) ? cm_deadline(q->t, ms) : t_deadline(q->t, ms));
        left = t_lend(q->t, TERM_MS + t_scaled(q->t, ms));
        s = await(q, is_term, 0, now_ms() + TERM_MS + t_scaled(q->t, ms));
        t_repay(q->t, left);
        return s;
}

/* The next TermReq, or NULL: the end of the connection. Neither within ms: fails. */
static struct seen *term_or_end(struct queue *q, unsigned ms, const char *expected)
{
        struct seen *s = await_term(q, ms), *answer;

        provoke(q);
        if (!s && q->conn->end == CONN_OPEN) {
                take_responses(q);
                instead(q, NULL, expected);
        }
        if (!s && (answer = taken_icreq(q)))
                instead(q, answer, expected);
        if (s) /* is it quiet after it? */
                (void)await(q, is_icresp, 0, loop_now_ms() + quiet_ms(q->t));
        q->over = true;
        return s;
}

static bool term_accepted(struct queue *q, const struct seen *s)
{
        const struct pdu_term *m = &s->m.pdu.term;

        return rule_accepts(q->t->rule, le16_get(m->fes), le32_get(m->fei), tcp_of(q)->hdgst_sent);
}

static void lenient_pdu(struct queue *q, const struct seen *s, const char *expected)
{
        char line[RESULT_TEXT];
        struct text text = text_in(line, sizeof(line));

        message_line(&text, &s->m, q->conn->admin);
        lenient(q->t, expected, "%s", line);
}

int expect_term(struct queue *q)
{
        char expected[RESULT_TEXT];
        struct seen *s;

        if (q->over)
                return -1;
        reaction_says(rule_of(q), expected, sizeof(expected));
        s = term_or_end(q, REPLY_MS, expected);
        if (!s)
                lenient(q->t, expected, "%s", end_says(q->conn->end));
        else if (!term_accepted(q, s))
                lenient_pdu(q, s, expected);
        return s ? (int)s->len : -1;
}

void expect_close(struct queue *q)
{
        bool silently = t_names(q->t, TCP_TERM_SILENCE);
        struct seen *s;

        if (q->over)
                return;
        s = term_or_end(q, REPLY_MS,
                        silently ? "the target closes without C2HTermReq" : "the target closes");
        if (s && silently) {
                t_breach(q->t, TCP_TERM_SILENCE, &s->m, NULL);
                t_settle(q->t);
        }
}

void expect_end(struct queue *q, unsigned ms)
{
        if (!q->over)
                (void)term_or_end(q, REPLY_MS + ms, "the end of the connection");
}

void expect_end_within(struct queue *q, unsigned ms)
{
        uint64_t at = is_rdma(q) ? cm_deadline(q->t, ms) : t_deadline(q->t, ms);
        char expected[80];

        snprintf(expected, sizeof(expected), "the end of the connection within %llu ms",
                 (unsigned long long)(at - now_ms()));
        if (!q->over)
                (void)term_or_end(q, ms, expected);
}

bool answered(struct queue *q, uint16_t cid)
{
        for (const struct seen *s = q->conn->inbox; s; s = s->next)
                if (ends_command(s) && of_command(s, cid))
                        return true;
        return false;
}

void expect_silence(struct queue *q, unsigned ms)
{
        struct seen *s;

        if (q->over)
                return;
        s = await(q, anything, 0, t_deadline(q->t, ms));
        if (s || q->conn->end != CONN_OPEN)
                instead(q, s, "nothing is received");
}

bool ends_within(struct queue *q, unsigned ms)
{
        (void)await(q, anything, 0, t_deadline(q->t, ms));
        return q->conn->end != CONN_OPEN;
}

/* --- refusals ------------------------------------------------------------------------------ */

/* The response is there: is it the status that the rule asks for? */
static void judge_status(struct queue *q, const struct rule *rule, struct reply r)
{
        char expected[RESULT_TEXT], seen[120];
        struct text text = text_in(seen, sizeof(seen));

        add_status(&text, q, r.cid, r.status);
        if (r.dw0 != 0)
                text_add(&text, " DW0 %08Xh", r.dw0);
        reaction_says(rule, expected, sizeof(expected));
        if (r.status == NVME_SUCCESS)
                fail(q->t, expected, "%s", seen);
        q->refused = true;
        if (rule->reaction == REACT_STATUS && !rule_accepts(q->t->rule, r.status, r.dw0, 0))
                lenient(q->t, expected, "%s", seen);
}

/* The connection ended where a status would have done. */
static void judge_end(struct queue *q, const struct rule *rule, struct seen *s)
{
        char expected[RESULT_TEXT];

        q->over = true;
        reaction_says(rule, expected, sizeof(expected));
        if (rule->reaction == REACT_STATUS && s)
                lenient_pdu(q, s, expected);
        else if (rule->reaction == REACT_STATUS)
                lenient(q->t, expected, "%s", end_says(q->conn->end));
}

static void refusal(struct queue *q, const struct rule *rule, uint16_t cid)
{
        char expected[RESULT_TEXT];
        struct seen *other, *s = last_of(q, cid, true, &other);

        if (s) {
                struct reply r = reply_of(q, command_of(q, cid), s);

                judge_status(q, rule, r);
        } else if (other || q->conn->end != CONN_OPEN) {
                judge_end(q, rule, other);
        } else {
                came_instead(q, NULL, reaction_says(rule, expected, sizeof(expected)), true);
        }
}

void expect_refusal(struct queue *q, uint16_t cid)
{
        const struct rule *rule = rule_of(q);

        if (q->over)
                return;
        provoke(q);
        switch (rule->reaction) {
        case REACT_TERM:
                expect_term(q);
                break;
        case REACT_CLOSE:
                expect_close(q);
                break;
        case REACT_STATUS:
        case REACT_ANY:
        case REACT_REFUSE:
                if (cid == 0)
                        expect_end(q, 0);
                else
                        refusal(q, rule, cid);
                break;
        case REACT_REJECT:
                expect_reject(q);
                break;
        case REACT_AUTH:
                broke(q->t, "%s is what expect_auth_failure() is for", rule->id);
        case REACT_TOLERATE:
        case REACT_NONE:
                if (cid == 0)
                        expect_works(q);
                else
                        succeed(q, cid);
                break;
        }
}

struct reply expect_answer(struct queue *q, uint16_t cid)
{
        struct reply none = { 0 };
        struct seen *other, *s;

        if (q->over)
                return none;
        provoke(q);
        s = last_of(q, cid, true, &other);
        if (s)
                return reply_of(q, command_of(q, cid), s);
        if (!other && q->conn->end == CONN_OPEN)
                came_instead(q, NULL, "a response, or the end of the connection", true);
        q->over = true;
        return none;
}

void prefer_refusal(struct queue *q, uint16_t cid)
{
        struct reply r = expect_answer(q, cid);

        if (!q->over && r.status == NVME_SUCCESS)
                advise(q->t, "an error status or the end of the connection", "it was accepted");
}

void expect_works(struct queue *q)
{
        if (q->over)
                return;
        if (q->conn->admin)
                (void)property_get(q, PROP_VS);
        else if (caps(q->t)->nsid)
                succeed(q, send_read(q));
}

/* --- what may come or not ------------------------------------------------------------------- */

int first_answered(struct queue *q, const uint16_t *cid, unsigned n, unsigned ms)
{
        uint64_t deadline = t_deadline(q->t, ms);

        do
                for (unsigned i = 0; i < n; i++)
                        if (answered(q, cid[i]))
                                return (int)i;
        while (!q->over && q->conn->end == CONN_OPEN && conn_wait(q->conn, deadline));
        return -1;
}

bool answers_within(struct queue *q, uint16_t cid, unsigned ms)
{
        return first_answered(q, &cid, 1, ms) == 0;
}

static bool is_r2t(const struct seen *s, uint16_t cid)
{
        return message_is(&s->m, PDU_R2T) || is_response(s, cid);
}

bool r2t_within(struct queue *q, unsigned ms, struct r2t *r)
{
        struct seen *s = await(q, is_r2t, 0, t_deadline(q->t, ms));

        if (!s && q->conn->end == CONN_OPEN)
                return false;
        if (!s || !message_is(&s->m, PDU_R2T))
                instead(q, s, "R2T");
        *r = r2t_of(q, s);
        return true;
}

static bool is_r2t_of(const struct seen *s, uint16_t cid)
{
        return message_is(&s->m, PDU_R2T) && of_command(s, cid);
}

bool asked_within(struct queue *q, uint16_t cid, unsigned ms, struct r2t *r)
{
        struct seen *s = await(q, is_r2t_of, cid, t_deadline(q->t, ms));

        if (s)
                *r = r2t_of(q, s);
        return s;
}

static void read_and_clear(struct queue *q, uint8_t lid, uint32_t bytes)
{
        finish(q, send_cmd(q, .opc = NVME_GET_LOG_PAGE, .nsid = NSID_ALL,
                           .cdw10 = lid | (bytes / 4 - 1) << 16, .bytes = bytes));
}

void disable_events(struct queue *q)
{
        bool discovery = strcmp(q->subnqn, NQN_DISCOVERY) == 0;

        finish(q, send_set_feature(q, FEAT_AEC, 0));
        if (discovery) {
                read_and_clear(q, LOG_DISCOVERY, DISC_HEADER_LEN);
                return;
        }
        read_and_clear(q, LOG_SMART, sizeof(struct log_smart));
        if (le32_get(caps(q->t)->id.oaes) & OAES_NS)
                read_and_clear(q, LOG_CHANGED_NS, 4096);
}

void require_events(struct queue *q, struct reply r)
{
        const struct caps *c = caps(q->t);
        bool optional = !c->io && (c->id.cntrltype == CNTRLTYPE_ADMIN || !c->persistent);

        require(q->t, !optional || r.status != NVME_INVALID_OPCODE,
                "the controller does not support Asynchronous Event Request");
}

/* An event that no bit of Asynchronous Event Configuration disables. */
static bool is_own_event(const struct reply *r)
{
        unsigned type = r->dw0 & 7;

        return r->status == NVME_SUCCESS && type != AEN_SMART && type != AEN_NOTICE;
}

bool reports_event(struct queue *q, uint16_t cid)
{
        for (const struct seen *s = q->conn->inbox; s; s = s->next) {
                const struct cqe *e = of_command(s, cid) ? message_cqe(&s->m) : NULL;

                if (e)
                        return is_own_event(
                            &(struct reply) { .status = cqe_status(e), .dw0 = le32_get(e->dw0) });
        }
        return false;
}

/* How a request from before a reset may come back: late for it (3.3.2.3), or, up to Base 2.0 (5.2), aborted: that it
 * should not came with 2.0, that it shall not with 2.1. */
static bool is_aborted(const struct queue *q, uint16_t status)
{
        return status == NVME_SEQUENCE_ERROR ||
               (status != NVME_SUCCESS && caps(q->t)->vs < NVME_VERSION(2, 1, 0));
}

void expect_held(struct queue *q, unsigned ms, const uint16_t *old, unsigned n)
{
        uint64_t deadline = t_deadline(q->t, ms);
        struct seen *s;

        while (!q->over && (s = await(q, anything, 0, deadline))) {
                const struct cqe *cqe = message_cqe(&s->m);
                struct command *c = cqe ? command_of(q, le16_get(cqe->cid)) : NULL;
                struct reply r = { .status = NVME_INTERNAL_ERROR };
                bool dropped = false;

                if (c && c->sqe.opc == NVME_AER)
                        r = reply_of(q, c, s);
                require_events(q, r);
                for (unsigned i = 0; c && i < n; i++)
                        dropped |= old[i] == c->cid && is_aborted(q, r.status);
                if (!dropped && !is_own_event(&r))
                        instead(q, s, "nothing is received");
                note(q->t, dropped ? "a request from before the reset is aborted"
                                   : "an asynchronous event is reported");
        }
        if (!q->over && q->conn->end != CONN_OPEN)
                instead(q, NULL, "nothing is received");
}

/* --- the end of an association ---------------------------------------------------------------- */

uint32_t expiry_ms(const struct t *t, uint32_t kato)
{
        enum { LATE_MS = 5000 };

        return 2 * kato + le16_get(caps(t)->id.cqt) + LATE_MS;
}

static bool is_served(struct queue *q)
{
        uint16_t cid = send_cmd(q, .opc = NVME_FLUSH, .nsid = caps(q->t)->nsid);

        return expect_answer(q, cid).status == NVME_SUCCESS && !q->over;
}

static bool ends_served(struct queue *q, uint64_t ms)
{
        uint64_t end = now_ms() + ms;

        while (now_ms() < end) {
                if (!is_served(q))
                        return true;
                pause_ms(q->t, 50);
        }
        return false;
}

/* Commands might start the Keep Alive timer again: none is sent. Two intervals may go by (3.9.4.2). */
static bool ends_by_keep_alive(struct queue *q, uint32_t kato)
{
        uint64_t ms = expiry_ms(q->t, kato), end = now_ms() + ms, left = t_lend(q->t, ms);
        bool ended = false;

        while (!ended && now_ms() < end)
                ended = ends_within(q, 100);
        t_repay(q->t, left);
        return ended || !is_served(q);
}

void expect_lost(struct queue *q, uint32_t kato)
{
        enum { GONE_MS = 4000 };

        require(q->t, caps(q->t)->nsid, "no namespace for Flush");
        if (ends_served(q, GONE_MS + le16_get(caps(q->t)->id.cqt)))
                return;
        require(q->t, kato <= LOST_KATO_MOST, "only Keep Alive may end it, in %u ms", kato);
        want(q->t, kato > 0 && ends_by_keep_alive(q, kato), "the end of the I/O queue",
             "Flush succeeds, for %u s, and after Keep Alive has expired", GONE_MS / 1000);
        lenient(q->t, "the end of the I/O queue", "Flush succeeds, until Keep Alive has expired");
}

void disconnect(struct queue *q)
{
        expect_disconnected(q, send_disconnect(q, 0));
}

void expect_disconnected(struct queue *q, uint16_t cid)
{
        struct reply r = finish(q, cid); /* commands before it may have to end first (3.3.2.4) */

        if (q->over)
                return;
        require(q->t, r.status != NVME_CONNECT_BUSY, "the I/O queue cannot be deleted now (6.4)");
        check_status(q, r, NVME_SUCCESS);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* What an SRP initiator says and hears, of which remote_verbs.c is the rest. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "fuzz/remote/remote_verbs.h"
#include "pdu/core/be.h"
#include "pdu/io/capture/capture_rdma.h"
#include "srp_live.h"

enum { REJECTED = 28 }; /* by the target itself (IBTA 12.6.7.2) */
_Static_assert((int)SRP_BIND_MEMORY <= (int)REMOTE_VERBS_DATA, "memory of a connection");
_Static_assert((int)SRP_BIND_IU <= (int)REMOTE_VERBS_SEND, "an IU");

struct talk {
        struct remote_conn *conn;
        struct srp_bind bind;
        struct srp_channel channel;
        struct verbs_ask login; /* what it connects with */
        struct capture_rdma flow;
        srp_port_id initiator; /* of connection 0: its session's */
        uint64_t played;       /* likewise: sessions */
        uint8_t out[SRP_BIND_IU];
};

static void init(void *talk, struct remote_conn *c)
{
        ((struct talk *)talk)->conn = c;
}

/* Each session is another initiator: none ends the channels of one that is played beside it. */
static void begin(void *first)
{
        struct talk *t = first;

        memcpy(t->initiator, "fuzz", 4);
        be_put(t->initiator + 4, 8, (uintptr_t)t >> 4);
        be_put(t->initiator + 12, 4, ++t->played);
}

static void where(const struct remote_target *to, struct verbs_where *at)
{
        const struct srp_params *p = &((const struct srp_remote_peer *)to->peer)->host;

        *at = (struct verbs_where) { p->traddr, p->trsvcid, p->verbs };
}

/* --- rules ------------------------------------------------------------------------------------ */

/* What the initiator has broken leaves it to the target how to go on. */
static void note_findings(struct talk *t, const struct rule_set *found)
{
        rule_each_in (found, id) {
                const struct rule *r = srp_rule_get(id);

                if (r->bound == PARTY_HOST && r->reaction != REACT_TOLERATE)
                        t->conn->wild = true;
        }
}

static void collect(struct talk *t, const struct rule_set *found)
{
        struct rule_set must = { 0 };

        if (t->conn->wild)
                return;
        rule_each_in (found, id)
                if (!rule_in(&srp_peer_of(t->conn->session)->host.policy.waived, id) &&
                    rule_grade(srp_rule_get(id)) == GRADE_MUST)
                        rule_add(&must, id);
        conn_broke(t->conn, &must);
}

/* n 0: a login. */
static bool is_avoided(const struct talk *t, const uint8_t *iu, uint32_t n,
                       const struct rule_set *found)
{
        return srp_avoids(srp_peer_of(t->conn->session)->avoid, iu, n,
                          srp_channel_immediate(&t->channel), found);
}

/* --- a capture of it -------------------------------------------------------------------------- */

static void record_cm(struct talk *t, enum party sender, const struct capture_cm *m)
{
        struct capture_writer *out = srp_peer_of(t->conn->session)->record;

        if (out)
                capture_rdma_cm(out, &t->flow, sender, m, loop_wall_ns());
}

static void record_iu(struct talk *t, enum party sender, const void *p, uint32_t n)
{
        struct capture_writer *out = srp_peer_of(t->conn->session)->record;
        struct iovec iov = { (void *)(uintptr_t)p, n };
        int64_t now = loop_wall_ns();

        if (out)
                capture_rdma_ack(out, &t->flow, peer_of(sender),
                                 capture_rdma_send(out, &t->flow, sender, &iov, 1, NULL, now),
                                 CAPTURE_ACK, now);
}

static void record_open(struct talk *t)
{
        struct capture_writer *out = srp_peer_of(t->conn->session)->record;

        t->flow = (struct capture_rdma) { 0 };
        if (out)
                capture_rdma_open(out, &t->flow, NULL, NULL, loop_wall_ns());
}

/* --- what is heard and said ------------------------------------------------------------------- */

static void message(struct talk *t, enum party sender, const void *p, uint32_t n, bool login)
{
        const struct srp_message m = { p, n, srp_channel_immediate(&t->channel), login };

        conn_message(t->conn, sender, &m);
}

/* An IU of the target as a word: what it is, how it went, and what it is about. */
static uint64_t word_of(const struct talk *t, const uint8_t *p, uint32_t n)
{
        const struct srp_request *r;
        struct rule_set unused = { 0 };
        struct srp_rsp_parts parts;
        struct scsi_sense sense = { 0 };
        union srp_iu iu;
        uint64_t word;

        if (!srp_read(p, n, &iu))
                return (uint64_t)(n > 0 ? p[0] : 0) << 48 | 1;
        word = (uint64_t)iu.opcode << 48;
        if (iu.opcode != SRP_RSP)
                return word;
        r = srp_channel_find(&t->channel, be64_get(iu.rsp.tag));
        (void)srp_rsp_read(p, n, &parts, &unused);
        word |= (uint64_t)iu.rsp.status << 40 | (uint64_t)(iu.rsp.flags & 0x3f) << 32;
        if (parts.resp_len >= 4)
                word |= (uint64_t)p[parts.resp_at + 3] << 24;
        if (parts.sense_len > 0 && scsi_sense_get(p + parts.sense_at, parts.sense_len, &sense))
                word |= (uint64_t)(sense.asc & 0xffff) << 8;
        return word | (r ? (uint64_t)r->type << 4 : 1);
}

static void heard(void *talk, const uint8_t *p, const struct verbs_wc *wc)
{
        struct rule_set found = { 0 };
        struct talk *t = talk;
        uint64_t word = word_of(t, p, wc->bytes);

        t->conn->session->answer.pdus++;
        record_iu(t, PARTY_CONTROLLER, p, wc->bytes);
        message(t, PARTY_CONTROLLER, p, wc->bytes, false);
        srp_channel_iu(&t->channel, PARTY_CONTROLLER, p, wc->bytes, &found);
        collect(t, &found);
        t->conn->term |= wc->bytes > 0 && p[0] == SRP_T_LOGOUT;
        conn_received_word(t->conn, word);
}

static bool expects(const void *talk)
{
        const struct talk *t = talk;

        return t->conn->wild || srp_channel_outstanding(&t->channel) > 0;
}

/* A request waits for the limit; who has no patience any more overruns it. */
static bool waits(const void *talk, const struct seq_step *step)
{
        const struct talk *t = talk;
        bool request = step->kind == SEQ_PDU && srp_info(step->template->type)->request;

        return request && !t->conn->wild && t->channel.agreed &&
               srp_channel_limit(&t->channel) == 0;
}

static bool say(void *talk, const struct sequence *s, const struct seq_step *step)
{
        struct talk *t = talk;
        struct remote_conn *c = t->conn;
        struct srp_bound b;

        if (step->kind == SEQ_PDU && step->template->type == SRP_LOGIN_REQ)
                return true; /* it has connected with it */
        b = srp_bind_step(&t->bind, s, step, t->out);
        conn_speaks(c);
        remote_acted(c->session);
        if (!c->session->target->allow_write && srp_harms(t->out, b.len))
                return false;
        for (unsigned i = 0; i < b.times; i++) {
                struct rule_set found = { 0 };

                srp_channel_iu(&t->channel, PARTY_HOST, t->out, b.len, &found);
                if (is_avoided(t, t->out, b.len, &found))
                        return false;
                note_findings(t, &found);
                message(t, PARTY_HOST, t->out, b.len, false);
                if (remote_verbs_post(c, t->out, b.len))
                        record_iu(t, PARTY_HOST, t->out, b.len);
        }
        return true;
}

/* --- connecting ----------------------------------------------------------------------------------- */

/* What comes first on a connection is its login, be it the step to come or not. */
static struct seq_step login_of(const struct seq_step *first)
{
        if (first->kind == SEQ_PDU && first->template->type == SRP_LOGIN_REQ)
                return *first;
        return seq_step_of(srp_template_at(0, PARTY_HOST, 0));
}

static void begin_bind(struct talk *t, const struct talk *first)
{
        const struct srp_params *p = &srp_peer_of(t->conn->session)->host;

        srp_channel_init(&t->channel);
        t->bind = (struct srp_bind) { .first = t == first, .channel = &t->channel, .tag = 1 };
        memcpy(t->bind.initiator, first->initiator, sizeof(srp_port_id));
        memcpy(t->bind.target, p->target, sizeof(srp_port_id));
}

static int ask(void *talk, void *first, const struct seq_step *next, struct verbs_ask *ask)
{
        struct talk *t = talk;
        struct seq_step step = login_of(next);
        struct rule_set found = { 0 };
        struct srp_bound b;

        begin_bind(t, first);
        b = srp_bind_step(&t->bind, t->conn->session->sequence, &step, t->out);
        t->bind.tag++;
        ask->len = b.len;
        ask->reads_in = b.reads_in;
        ask->reads_out = b.reads_out;
        memcpy(ask->data, t->out, sizeof(ask->data));
        t->login = *ask;
        srp_channel_login(&t->channel, ask->data, ask->len, false, &found);
        if (is_avoided(t, NULL, 0, &found))
                return 0;
        note_findings(t, &found);
        record_open(t);
        message(t, PARTY_HOST, ask->data, ask->len, true);
        return 1;
}

static void asking(void *talk, uint8_t *data, uint32_t key)
{
        struct talk *t = talk;
        const struct capture_cm m = { .kind = CAPTURE_REQUEST,
                                      .data = t->login.data,
                                      .len = t->login.len,
                                      .reads_in = t->login.reads_in,
                                      .reads_out = t->login.reads_out,
                                      .depths = true };

        t->bind.at = data;
        t->bind.addr = (uintptr_t)data;
        t->bind.key = key;
        record_cm(t, PARTY_HOST, &m);
}

static void accepted(void *talk, const struct verbs_event *e)
{
        struct talk *t = talk;
        const struct capture_cm accept = { .kind = CAPTURE_ACCEPT,
                                           .data = e->data,
                                           .len = e->param.len,
                                           .reads_in = e->param.reads_in,
                                           .reads_out = e->param.reads_out };
        const struct capture_cm ready = { .kind = CAPTURE_READY };
        struct rule_set found = { 0 };

        record_cm(t, PARTY_CONTROLLER, &accept);
        record_cm(t, PARTY_HOST, &ready);
        message(t, PARTY_CONTROLLER, e->data, e->param.len, false);
        srp_channel_accept(&t->channel, e->data, e->param.len, &found);
        collect(t, &found);
        conn_received_word(t->conn, (uint64_t)SRP_LOGIN_RSP << 48 |
                                        (uint64_t)t->channel.granted.rsp_flags << 8);
}

static void rejected(void *talk, const struct verbs_event *e)
{
        struct talk *t = talk;
        const struct capture_cm reject = { .kind = CAPTURE_REJECT,
                                           .data = e->data,
                                           .len = e->param.len,
                                           .reason = (uint16_t)e->reason };
        struct rule_set found = { 0 };
        union srp_iu iu = { 0 };

        record_cm(t, PARTY_CONTROLLER, &reject);
        if (e->reason == REJECTED && e->param.len > 0) {
                message(t, PARTY_CONTROLLER, e->data, e->param.len, false);
                srp_channel_reject(&t->channel, e->data, e->param.len, &found);
                collect(t, &found);
                (void)srp_read(e->data, e->param.len, &iu);
        }
        conn_received_word(t->conn, (uint64_t)SRP_LOGIN_REJ << 48 |
                                        (uint64_t)(be32_get(iu.login_rej.reason) & 0xff) << 8 |
                                        (uint64_t)(e->reason & 0xff) << 16);
}

static void leaves(void *talk)
{
        const struct capture_cm m = { .kind = CAPTURE_DISCONNECT };

        record_cm(talk, PARTY_HOST, &m);
}

static struct remote_session *new_session(void)
{
        static const struct verbs_talk_ops ops = { .bytes = sizeof(struct talk),
                                                   .init = init,
                                                   .begin = begin,
                                                   .where = where,
                                                   .ask = ask,
                                                   .asking = asking,
                                                   .accepted = accepted,
                                                   .rejected = rejected,
                                                   .waits = waits,
                                                   .say = say,
                                                   .heard = heard,
                                                   .expects = expects,
                                                   .leaves = leaves };

        return remote_verbs_new(&ops);
}

static bool record(const struct remote_target *target, const char *path,
                   bool (*play)(void *user, const struct remote_target *recorded), void *user,
                   bool *played, char *err, size_t size)
{
        struct srp_remote_peer peer = *(const struct srp_remote_peer *)target->peer;
        struct remote_target recorded = *target;

        peer.record = capture_writer_open(path, err, size);
        if (!peer.record)
                return false;
        recorded.peer = &peer;
        *played = play(user, &recorded);
        if (capture_writer_close(peer.record) == 0)
                return true;
        snprintf(err, size, "%.200s: %s", path, strerror(errno));
        return false;
}

const struct remote_transport srp_remote = REMOTE_VERBS(new_session, record);

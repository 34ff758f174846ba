/* SPDX-License-Identifier: BSD-3-Clause */
/* What an NVMe host says and hears over RDMA, of which remote_verbs.c is the rest. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "fuzz/remote/remote_verbs.h"
#include "pdu/io/capture/capture_writer.h"
#include "pdu/io/verbs/verbs_rdma.h"
#include "pdu/nvme/io/nvme_record.h"
#include "pdu/nvme/rdma/rdma_track.h"
#include "peer.h"
#include "seq_bind.h"

enum { DEPTH = 1024 };
_Static_assert((int)BIND_STRIDE == (int)REMOTE_VERBS_DATA, "captures know connections by it");

struct talk {
        struct remote_conn *conn;
        struct seq_bind bind;
        struct rdma_track *track;
        uint8_t out[BIND_ROOM];
};

/* Whether the two sides may see things differently from here on. */
static void note_findings(struct talk *t, const struct rule_set *found)
{
        rule_each_in (found, id) {
                const struct rule *r = rule_get(id);

                if (r->bound == PARTY_HOST &&
                    (r->reaction == REACT_TERM || r->reaction == REACT_CLOSE ||
                     r->reaction == REACT_ANY || r->reaction == REACT_REFUSE ||
                     r->reaction == REACT_REJECT))
                        t->conn->wild = true;
        }
}

static void collect(struct talk *t, const struct rule_set *found)
{
        if (!t->conn->wild)
                conn_broke(t->conn, found);
}

static void init(void *talk, struct remote_conn *c)
{
        ((struct talk *)talk)->conn = c;
}

static void fini(void *talk)
{
        rdma_track_free(((struct talk *)talk)->track);
}

static void where(const struct remote_target *to, struct verbs_where *at)
{
        const struct host_params *p = &((const struct nvme_peer *)to->peer)->host;

        *at = (struct verbs_where) { p->traddr, p->trsvcid, p->verbs };
}

/* --- commands and responses ----------------------------------------------------------------------- */

static bool is_avoided(const struct talk *t, const struct seq_step *step,
                       const union seq_work *message, const struct rule_set *broken)
{
        const struct avoid *avoid = peer_of_session(t->conn->session)->avoid;

        return avoid_rules(avoid, broken) ||
               (step->kind == SEQ_PDU && avoid_message(avoid, step->template, message));
}

/* A capsule as rules and readers see it. */
static union seq_work message_of(const uint8_t *capsule, uint32_t len)
{
        union seq_work m = { .len = le32(len) };

        memcpy(&m.sqe, capsule, len < sizeof(m.sqe) ? len : sizeof(m.sqe));
        return m;
}

static bool expects(const void *talk)
{
        const struct talk *t = talk;

        return t->conn->wild || rdma_track_outstanding(t->track) > t->conn->aers;
}

static bool waits(const void *talk, const struct seq_step *step)
{
        const struct talk *t = talk;

        return t->conn->joining || (seq_bind_is_auth(&t->bind, step) && expects(t));
}

static bool say(void *talk, const struct sequence *s, const struct seq_step *step)
{
        struct talk *t = talk;
        struct bind_work w = seq_bind_work(&t->bind, s, step, t->out);
        union seq_work m = message_of(t->out, w.len);
        struct remote_conn *c = t->conn;

        if (w.type != PDU_CAPSULE_CMD)
                return true; /* it has connected with it */
        conn_speaks(c);
        remote_acted(c->session);
        for (unsigned i = 0; i < w.times; i++) {
                const struct rule_set *broken = rdma_track_command(t->track, t->out, w.len);

                if (!nvme_may_command(c, &m.sqe, c->on == 0 && t->bind.qid == 0) ||
                    is_avoided(t, step, &m, broken))
                        return false;
                conn_message(c, PARTY_HOST,
                             &(const struct message) { .kind = MESSAGE_COMMAND, .sqe = m.sqe });
                note_findings(t, broken);
                (void)remote_verbs_post(c, t->out, w.len);
        }
        return true;
}

static void heard(void *talk, const uint8_t *p, const struct verbs_wc *wc)
{
        struct talk *t = talk;
        struct remote_conn *c = t->conn;
        struct message m = message_of_capsule(MESSAGE_RESPONSE, p, wc->bytes);
        const struct rdma_track_cmd *cmd;

        collect(t, rdma_track_response(t->track, p, wc->bytes, wc->invalidated, wc->invalid_key));
        cmd = rdma_track_last(t->track);
        if (cmd && cmd->sqe.opc == NVME_AER && c->aers > 0)
                c->aers--;
        c->session->answer.pdus++;
        conn_message(c, PARTY_CONTROLLER, &m);
        seq_bind_received(&t->bind, &m);
        nvme_answered(c, &m.cqe);
        c->joining = false;
        nvme_proven(c, &t->bind);
        conn_received_word(c, (uint64_t)wc->invalidated << 15 |
                                  nvme_response(&m.cqe, cmd ? &cmd->sqe.opc : NULL,
                                                cmd ? cmd->sqe.fctype : 0,
                                                cmd ? nvme_subject(&cmd->sqe, c->on == 0) : 0));
}

/* --- connecting ----------------------------------------------------------------------------------- */

/* False: what is asked for is to be avoided. */
static bool may_ask(struct talk *t, const struct seq_step *step, const struct verbs_ask *a)
{
        const struct rule_set *broken =
            rdma_track_request(t->track, a->data, a->len, a->reads_in, a->reads_out);
        union seq_work m = { .private_len = (uint8_t)a->len,
                             .reads_in = a->reads_in,
                             .reads_out = a->reads_out };

        memcpy(&m.request, a->data, a->len < sizeof(m.request) ? a->len : sizeof(m.request));
        note_findings(t, broken);
        return !is_avoided(t, step, &m, broken);
}

static void begin_bind(struct talk *t, const struct talk *first)
{
        const struct nvme_peer *peer = peer_of_session(t->conn->session);

        seq_bind_init(&t->bind, PARTY_HOST, peer->host.hostnqn, peer->host.subnqn);
        memcpy(t->bind.hostid, peer->host.hostid, sizeof(t->bind.hostid));
        peer_bind_auth(&t->bind, peer);
        t->bind.qid = (uint16_t)t->conn->on;
        t->bind.admin = t != first ? &first->bind : NULL;
}

static int ask(void *talk, void *first, const struct seq_step *next, struct verbs_ask *ask)
{
        struct talk *t = talk;
        const struct host_params *p = &peer_of_session(t->conn->session)->host;
        struct seq_step step = seq_step_of(nvme_template_by_name(SEQ_RDMA, PARTY_HOST, "request"));
        struct bind_work w;

        if (next->kind == SEQ_PDU && next->template->type == SEQ_REQUEST)
                step = *next;
        begin_bind(t, first);
        rdma_track_free(t->track);
        t->track = rdma_track_new(DEPTH, false, &p->policy->waived);
        w = seq_bind_work(&t->bind, t->conn->session->sequence, &step, t->out);
        ask->len = w.len;
        ask->reads_in = w.reads_in;
        ask->reads_out = w.reads_out;
        memcpy(ask->data, t->out, w.len);
        if (!t->track) {
                errno = ENOMEM;
                return -1;
        }
        return may_ask(t, &step, ask);
}

static void asking(void *talk, uint8_t *data, uint32_t key)
{
        ((struct talk *)talk)->bind.memory =
            (struct bind_memory) { .at = data, .addr = (uintptr_t)data, .key = key };
}

static void accepted(void *talk, const struct verbs_event *e)
{
        struct talk *t = talk;

        collect(t, rdma_track_accept(t->track, e->param.data, e->param.len, e->param.reads_in,
                                     e->param.reads_out));
}

static void rejected(void *talk, const struct verbs_event *e)
{
        size_t len = rdma_reject_len(e->param.data, e->param.len);
        struct talk *t = talk;
        uint32_t sts = 0;

        if (len > 0) {
                memcpy(&sts, e->param.data, len < sizeof(sts) ? len : sizeof(sts));
                collect(t, rdma_track_reject(t->track, e->param.data, len));
        }
        conn_received_word(t->conn, (uint64_t)sts << 8 | 1);
}

static struct remote_session *new_session(void)
{
        static const struct verbs_talk_ops ops = { .bytes = sizeof(struct talk),
                                                   .init = init,
                                                   .fini = fini,
                                                   .where = where,
                                                   .ask = ask,
                                                   .asking = asking,
                                                   .accepted = accepted,
                                                   .rejected = rejected,
                                                   .waits = waits,
                                                   .say = say,
                                                   .heard = heard,
                                                   .expects = expects };

        return remote_verbs_new(&ops);
}

static bool record(const struct remote_target *target, const char *path,
                   bool (*play)(void *user, const struct remote_target *recorded), void *user,
                   bool *played, char *err, size_t size)
{
        struct nvme_peer peer = *(const struct nvme_peer *)target->peer;
        struct remote_target recorded = *target;
        struct verbs_provider *of = peer.host.verbs ? peer.host.verbs : verbs_rdma(err, size);
        struct capture_writer *w = of ? capture_writer_open(path, err, size) : NULL;

        if (!w)
                return false;
        peer.host.verbs = nvme_record_new(of, w);
        recorded.peer = &peer;
        *played = peer.host.verbs && play(user, &recorded);
        verbs_record_free(peer.host.verbs);
        if (capture_writer_close(w) == 0)
                return true;
        snprintf(err, size, "%.200s: %s", path, strerror(errno));
        return false;
}

const struct remote_transport remote_rdma = REMOTE_VERBS(new_session, record);

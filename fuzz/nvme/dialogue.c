/* SPDX-License-Identifier: BSD-3-Clause */
#include "dialogue.h"

#include <stdlib.h>
#include <string.h>

#include "pdu/nvme/wire/fabrics.h"

enum { ROOM = FRAMER_BUFFER_MIN, DEPTH = 1024 };

/* --- life --------------------------------------------------------------------------------------- */

int dialogue_init(struct dialogue *d, struct remote_conn *c)
{
        *d = (struct dialogue) { .conn = c };
        for (int i = 0; i < 2; i++)
                if (!(d->room[i] = malloc(ROOM)))
                        return -1;
        return 0;
}

void dialogue_fini(struct dialogue *d)
{
        track_free(d->track);
        free(d->room[0]);
        free(d->room[1]);
        *d = (struct dialogue) { 0 };
}

int dialogue_begin(struct dialogue *d, const struct dialogue *admin)
{
        static const struct track_limits limits = { .depth_max = DEPTH, .findings = true };
        const struct host_params *p = &peer_of_session(d->conn->session)->host;

        track_free(d->track);
        *d = (struct dialogue) { .conn = d->conn, .room = { d->room[0], d->room[1] } };
        d->track = track_new(&limits, &p->policy->waived);
        if (!d->track)
                return -1;
        framer_init(&d->said, PARTY_HOST, NULL);
        framer_attach(&d->said, d->room[0], ROOM);
        framer_init(&d->heard, PARTY_CONTROLLER, &p->policy->waived);
        framer_attach(&d->heard, d->room[1], ROOM);
        seq_bind_init(&d->bind, PARTY_HOST, p->hostnqn, p->subnqn);
        memcpy(d->bind.hostid, p->hostid, sizeof(d->bind.hostid));
        peer_bind_auth(&d->bind, peer_of_session(d->conn->session));
        d->bind.qid = (uint16_t)d->conn->on;
        d->bind.admin = d->conn->on > 0 ? &admin->bind : NULL;
        return 0;
}

/* --- what the host says ------------------------------------------------------------------------- */

static void track_command(struct dialogue *d, const union sqe *sqe)
{
        struct track_cmd *cmd = d->conn->wild ? NULL : track_last_cmd(d->track);
        bool admin = track_qid(d->track) == 0;

        d->harms |= !nvme_may_command(d->conn, sqe, admin);
        if (cmd)
                cmd->user = (void *)(uintptr_t)nvme_subject(sqe, admin);
}

/* What is to be avoided; the tracker tells only as long as it is asked. */
static void note_findings(struct dialogue *d, struct fault fault)
{
        struct rule_set broken = { 0 };

        if (d->conn->wild || !peer_of_session(d->conn->session)->avoid)
                return;
        broken = *track_findings(d->track);
        if (is_fault(fault))
                rule_add(&broken, fault.rule);
        d->harms |= avoid_rules(peer_of_session(d->conn->session)->avoid, &broken);
}

static void track_sent(struct dialogue *d, const union pdu *h)
{
        struct message m = message_of_pdu(h);
        struct fault fault = { 0 };

        conn_message(d->conn, PARTY_HOST, &m);
        if (!d->conn->wild)
                fault = track_header(d->track, PARTY_HOST, h);
        note_findings(d, fault);
        if (is_fault(fault) && rule_get(fault.rule)->reaction != REACT_STATUS)
                d->conn->wild = true;
        d->asked |= h->ch.type == PDU_ICREQ && !track_live(d->track);
        if (h->ch.type == PDU_CAPSULE_CMD)
                track_command(d, &h->cmd.sqe);
}

/* After what we cannot frame: a target that can may take a step for what it is by itself. */
static void track_unframed(struct dialogue *d, const uint8_t *p, size_t n)
{
        struct pdu_capsule_cmd cmd;

        if (n < sizeof(cmd) || p[0] != PDU_CAPSULE_CMD)
                return;
        memcpy(&cmd, p, sizeof(cmd));
        d->harms |= !d->conn->session->target->allow_write &&
                    nvme_harms(&cmd.sqe, track_qid(d->track) == 0);
}

void dialogue_says(struct dialogue *d, const uint8_t *p, size_t n)
{
        enum framer_event e = FRAMER_MORE;

        conn_speaks(d->conn);
        for (size_t len; n > 0; p += len, n -= len) {
                if (is_fault(framer_fault(&d->said))) {
                        track_unframed(d, p, n);
                        return;
                }
                len = framer_feed(&d->said, p, n);
                while ((e = framer_next(&d->said)) != FRAMER_MORE && e != FRAMER_FAULT)
                        if (e == FRAMER_HEADER)
                                track_sent(d, framer_header(&d->said));
                        else if (!d->conn->wild)
                                note_findings(d, track_pdu(d->track, PARTY_HOST,
                                                           framer_header(&d->said),
                                                           framer_ddgst_bad(&d->said)));
                if (e == FRAMER_FAULT) {
                        note_findings(d, framer_fault(&d->said));
                        d->conn->wild = true;
                }
        }
}

/* --- what the controller says ------------------------------------------------------------------- */

static void breaks(struct dialogue *d, struct fault fault)
{
        struct rule_set found = { 0 };

        if (is_fault(fault))
                rule_add(&found, fault.rule);
        conn_broke(d->conn, &found);
}

static void collect(struct dialogue *d, struct fault fault)
{
        breaks(d, fault);
        conn_broke(d->conn, track_findings(d->track));
}

/* The word as a number: its type, and what it tells of an outcome. */
static void remember(struct dialogue *d, const union pdu *h, const struct track_cmd *cmd)
{
        uint64_t what = (uint64_t)h->ch.type << 8 | h->ch.flags;

        if (h->ch.type == PDU_CAPSULE_RESP)
                what |= nvme_response(&h->resp.cqe, cmd ? &cmd->opc : NULL, cmd ? cmd->fctype : 0,
                                      cmd ? (uintptr_t)cmd->user : 0);
        else if (h->ch.type == PDU_C2H_TERM)
                what |= (uint64_t)le16_get(h->term.fes) << 16 |
                        (uint64_t)(le32_get(h->term.fei) & 0xff) << 32;
        else if (h->ch.type == PDU_ICRESP)
                what |= (uint64_t)h->icresp.dgst << 16 | (uint64_t)h->icresp.cpda << 24;
        conn_received_word(d->conn, what);
}

static void receive_header(struct dialogue *d, const union pdu *h)
{
        const struct track_cmd *cmd = NULL;

        if (!d->conn->wild) {
                collect(d, track_header(d->track, PARTY_CONTROLLER, h));
                cmd = track_last_cmd(d->track);
        }
        if (h->ch.type == PDU_CAPSULE_RESP && cmd && cmd->opc == NVME_AER && d->conn->aers > 0)
                d->conn->aers--;
        if (h->ch.type == PDU_CAPSULE_RESP) {
                nvme_answered(d->conn, &h->resp.cqe);
                d->conn->joining = false;
        }
        remember(d, h, cmd);
}

/* Digests and alignment hold from here on; by our own reckoning where the tracker gave up. */
static void negotiate(struct dialogue *d)
{
        bool known = !d->conn->wild && track_live(d->track);

        d->asked = false;
        framer_negotiated(&d->heard,
                          known ? track_format(d->track, PARTY_CONTROLLER) : &d->bind.in);
        if (framer_idle(&d->said))
                framer_negotiated(&d->said,
                                  known ? track_format(d->track, PARTY_HOST) : &d->bind.out);
        else
                d->conn->wild = true; /* it sent on before it knew how */
}

static void receive_pdu(struct dialogue *d, const union pdu *h)
{
        struct message m = message_of_pdu(h);

        if (!d->conn->wild)
                collect(d, track_pdu(d->track, PARTY_CONTROLLER, h, framer_ddgst_bad(&d->heard)));
        d->conn->session->answer.pdus++;
        d->conn->term |= h->ch.type == PDU_C2H_TERM;
        conn_message(d->conn, PARTY_CONTROLLER, &m);
        seq_bind_received_data(&d->bind, h, framer_data(&d->heard));
        seq_bind_received(&d->bind, &m);
        nvme_proven(d->conn, &d->bind);
        if (h->ch.type == PDU_ICRESP && d->asked)
                negotiate(d);
}

int dialogue_room(struct dialogue *d, struct iovec iov[2])
{
        if (!d->deaf)
                return framer_recv_iov(&d->heard, iov);
        iov[0] = (struct iovec) { d->room[1], ROOM };
        return 1;
}

void dialogue_hears(struct dialogue *d, size_t n)
{
        enum framer_event e;

        if (d->deaf)
                return;
        framer_received(&d->heard, n);
        while ((e = framer_next(&d->heard)) != FRAMER_MORE && e != FRAMER_FAULT)
                if (e == FRAMER_HEADER)
                        receive_header(d, framer_header(&d->heard));
                else
                        receive_pdu(d, framer_header(&d->heard));
        if (e == FRAMER_FAULT) {
                d->deaf = true;
                if (!d->conn->wild || framer_header(&d->heard)->ch.type == PDU_C2H_TERM)
                        breaks(d, framer_fault(&d->heard));
                remote_answer_add(&d->conn->session->answer,
                                  (uint64_t)framer_fault(&d->heard).rule << 32);
                framer_detach(&d->heard); /* its room takes what is not listened to */
        }
}

/* --- what is to be waited for ------------------------------------------------------------------- */

static unsigned unanswered(const struct dialogue *d)
{
        unsigned waiting = d->conn->aers + track_r2ts(d->track);
        unsigned all = track_outstanding(d->track);

        return all > waiting ? all - waiting : 0;
}

bool dialogue_waits(const struct dialogue *d, const struct seq_step *step)
{
        if (step->kind != SEQ_PDU || d->deaf)
                return false;
        if (step->template->type == PDU_H2C_DATA && d->bind.r2ts > 0)
                return false;
        return d->asked || (d->conn->joining && d->bind.r2ts == 0) ||
               ((step->template->type == PDU_H2C_DATA || seq_bind_is_auth(&d->bind, step)) &&
                unanswered(d) > 0);
}

bool dialogue_expects(const struct dialogue *d)
{
        return d->conn->wild || d->asked || unanswered(d) > 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * capture_pdus FILE [COPY]: every NVMe/TCP PDU of a capture as a line of JSON, through the same
 * framer, tracker and tables that everything else uses. test_tshark.py lays the lines beside
 * tshark's. With COPY the streams are also written to a capture of our own making.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pdu/io/capture/capture_writer.h"
#include "pdu/io/json.h"
#include "pdu/nvme/tcp/framer.h"
#include "pdu/nvme/tcp/track.h"
#include "pdu/nvme/wire/identify.h"
#include "pdu/nvme/wire/logs.h"

/* One direction: the PDU in hand, with what the tracker said at its header. */
struct stream {
        struct framer framer;
        uint8_t buf[FRAMER_BUFFER_MIN];
        struct fault fault;
        struct rule_set findings;
        bool broken; /* a gap or a fault: nothing more can be told */
};

struct session {
        struct stream stream[2];
        struct track *track;
        struct capture_flow copy;
        union sqe sqe[UINT16_MAX + 1]; /* the last command of each CID */
};

static struct capture_writer *copy; /* NULL: no copy is made */

static struct sockaddr_storage address_of(const struct capture_end *e)
{
        struct sockaddr_storage ss = { .ss_family = e->family };

        if (e->family == AF_INET) {
                memcpy(&((struct sockaddr_in *)&ss)->sin_addr, e->addr, 4);
                ((struct sockaddr_in *)&ss)->sin_port = htons(e->port);
        } else {
                memcpy(&((struct sockaddr_in6 *)&ss)->sin6_addr, e->addr, 16);
                ((struct sockaddr_in6 *)&ss)->sin6_port = htons(e->port);
        }
        return ss;
}

static void copy_open(struct session *s, const struct capture_conn *c,
                      const struct capture_place *at)
{
        struct sockaddr_storage host = address_of(&c->end[PARTY_HOST]);
        struct sockaddr_storage controller = address_of(&c->end[PARTY_CONTROLLER]);

        capture_flow_open(copy, &s->copy, (struct sockaddr *)&host, (struct sockaddr *)&controller,
                          at->time_ns);
}

static void on_opened(void *user, struct capture_conn *c, const struct capture_place *at)
{
        static const struct track_limits limits = { .findings = true, .passive = true };
        struct session *s = calloc(1, sizeof(*s));

        (void)user;
        if (!s || !(s->track = track_new(&limits, NULL)))
                abort();
        for (enum party p = PARTY_HOST; p <= PARTY_CONTROLLER; p++) {
                framer_init(&s->stream[p].framer, p, NULL);
                framer_attach(&s->stream[p].framer, s->stream[p].buf, FRAMER_BUFFER_MIN);
        }
        c->user = s;
        if (copy)
                copy_open(s, c, at);
}

static void on_closed(void *user, struct capture_conn *c, const struct capture_place *at)
{
        struct session *s = c->user;

        (void)user;
        if (copy)
                capture_flow_close(copy, &s->copy, PARTY_HOST, false, at->time_ns);
        track_free(s->track);
        free(s);
}

static void on_gap(void *user, struct capture_conn *c, enum party sender, uint32_t n,
                   const struct capture_place *at)
{
        struct session *s = c->user;

        (void)user;
        s->stream[sender].broken = true;
        printf("{ \"frame\": %u, \"gap\": %u }\n", (unsigned)at->frame, n);
}

static struct describe within(struct json_groups *g, struct json_object *o, const char *name)
{
        struct json_object *inner = json_object_new_object();

        json_object_object_add(o, name, inner);
        return json_describer(g, inner);
}

/* The structure that a C2HData carries whole, told by the command it belongs to. */
static void add_structure(struct json_object *o, const struct session *s, const struct stream *st)
{
        const union pdu *h = framer_header(&st->framer);
        const uint8_t *data = framer_data(&st->framer);
        size_t len = framer_data_len(&st->framer);
        const union sqe *sqe = &s->sqe[le16_get(h->data.cccid)];
        struct json_groups g;
        struct describe d;

        if (h->ch.type != PDU_C2H_DATA || !data || le32_get(h->data.offset) != 0)
                return;
        if (sqe->opc == NVME_IDENTIFY) {
                d = within(&g, o, "identify");
                describe_identify(&d, (uint8_t)le32_get(sqe->cdw10), data, len);
        } else if (sqe->opc == NVME_GET_LOG_PAGE) {
                d = within(&g, o, "log");
                describe_log(&d, (uint8_t)le32_get(sqe->cdw10), data, len);
        }
}

static void add_broken(struct json_object *o, const struct stream *st)
{
        struct json_object *rules = json_object_new_array();

        json_object_object_add(o, "broken", rules);
        if (is_fault(st->fault))
                json_object_array_add(rules, json_object_new_string(rule_get(st->fault.rule)->id));
        rule_each (id)
                if (rule_in(&st->findings, id))
                        json_object_array_add(rules, json_object_new_string(rule_get(id)->id));
}

static void print_pdu(const struct session *s, const struct capture_conn *c,
                      const struct stream *st, const struct capture_place *at)
{
        const struct framer *f = &st->framer;
        struct json_object *o = json_object_new_object();
        struct json_groups g;
        struct describe d = within(&g, o, "pdu");
        int qid = track_qid(s->track);

        describe_pdu(&d, framer_header(f), qid <= 0, framer_data(f), framer_data_len(f));
        json_object_object_add(o, "frame", json_object_new_uint64(at->frame));
        json_object_object_add(o, "connection", json_object_new_uint64(c->number));
        json_object_object_add(o, "sender", json_object_new_string(party_name(f->sender)));
        json_object_object_add(o, "qid", json_object_new_int(qid));
        if (framer_header(f)->ch.flags & PDU_HDGSTF)
                json_object_object_add(o, "hdgst", json_object_new_uint64(f->hdgst));
        if (framer_header(f)->ch.flags & PDU_DDGSTF)
                json_object_object_add(o, "ddgst_bad", json_object_new_int(framer_ddgst_bad(f)));
        if (qid == 0)
                add_structure(o, s, st);
        add_broken(o, st);
        printf("%s\n", json_object_to_json_string(o));
        json_object_put(o);
}

static void take_header(struct session *s, struct stream *st)
{
        const union pdu *h = framer_header(&st->framer);
        struct fault slip = pdu_check_overlooked(h, st->framer.sender, &st->framer.format);

        st->fault = track_header(s->track, st->framer.sender, h);
        st->findings = *track_findings(s->track);
        if (is_fault(slip))
                rule_add(&st->findings, slip.rule);
        if (h->ch.type == PDU_CAPSULE_CMD)
                s->sqe[le16_get(h->cmd.sqe.cid)] = h->cmd.sqe;
}

static void take_pdu(struct session *s, const struct capture_conn *c, struct stream *st,
                     const struct capture_place *at)
{
        const union pdu *h = framer_header(&st->framer);

        if (!is_fault(st->fault))
                st->fault =
                    track_pdu(s->track, st->framer.sender, h, framer_ddgst_bad(&st->framer));
        print_pdu(s, c, st, at);
        if (h->ch.type != PDU_ICRESP)
                return;
        for (enum party p = PARTY_HOST; p <= PARTY_CONTROLLER; p++)
                framer_negotiated(&s->stream[p].framer, track_format(s->track, p));
}

static void take_events(struct session *s, struct capture_conn *c, struct stream *st,
                        const struct capture_place *at)
{
        enum framer_event event;

        while ((event = framer_next(&st->framer)) != FRAMER_MORE) {
                if (event == FRAMER_FAULT) {
                        st->fault = framer_fault(&st->framer);
                        st->broken = true;
                        print_pdu(s, c, st, at);
                        return;
                }
                if (event == FRAMER_HEADER)
                        take_header(s, st);
                else
                        take_pdu(s, c, st, at);
        }
}

static void on_data(void *user, struct capture_conn *c, enum party sender, const uint8_t *p,
                    size_t n, const struct capture_place *at)
{
        struct session *s = c->user;
        struct stream *st = &s->stream[sender];

        (void)user;
        if (copy)
                capture_flow_data(copy, &s->copy, sender, p, n, at->time_ns);
        while (n > 0 && !st->broken) {
                size_t part = framer_feed(&st->framer, p, n);

                p += part;
                n -= part;
                take_events(s, c, st, at);
        }
}

/* Controllers are at the ports of NVMe/TCP. */
static bool is_service(void *user, uint16_t port)
{
        (void)user;
        return port == NVME_TCP_PORT || port == NVME_DISC_PORT;
}

int main(int argc, char **argv)
{
        static const struct capture_ops ops = { .opened = on_opened,
                                                .data = on_data,
                                                .gap = on_gap,
                                                .closed = on_closed,
                                                .service = is_service };
        char err[256];
        int rc;

        if (argc != 2 && argc != 3) {
                fprintf(stderr, "usage: capture_pdus FILE [COPY]\n");
                return 2;
        }
        if (argc == 3 && !(copy = capture_writer_open(argv[2], err, sizeof(err)))) {
                fprintf(stderr, "capture_pdus: %s\n", err);
                return 1;
        }
        rc = capture_read(argv[1], &ops, NULL, err, sizeof(err));
        if (rc < 0)
                fprintf(stderr, "capture_pdus: %s\n", err);
        if (copy && capture_writer_close(copy) < 0)
                rc = -1;
        return rc < 0;
}

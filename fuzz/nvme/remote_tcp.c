/* SPDX-License-Identifier: BSD-3-Clause */
/* NVMe/TCP sessions over byte streams: a dialogue is the talk of a connection. */
#include <string.h>

#include "dialogue.h"
#include "fuzz/remote/remote_stream.h"

static int talk_init(void *talk, struct remote_conn *c)
{
        return dialogue_init(talk, c);
}

static void talk_fini(void *talk)
{
        dialogue_fini(talk);
}

static int talk_begin(void *talk, void *first)
{
        return dialogue_begin(talk, first);
}

static bool talk_waits(const void *talk, const struct seq_step *step)
{
        return dialogue_waits(talk, step);
}

static bool is_avoided(const struct dialogue *d, const struct seq_step *step, const uint8_t *p,
                       size_t n)
{
        union pdu h = { 0 };

        if (step->kind != SEQ_PDU || n == 0)
                return false;
        memcpy(&h, p, n < sizeof(h) ? n : sizeof(h));
        return avoid_message(peer_of_session(d->conn->session)->avoid, step->template, &h);
}

static bool talk_say(void *talk, const struct sequence *s, const struct seq_step *step, uint8_t *p,
                     size_t *n)
{
        struct dialogue *d = talk;

        *n = seq_bind_encode(&d->bind, s, step, p);
        dialogue_says(d, p, *n);
        return !d->harms && !is_avoided(d, step, p, *n);
}

static void talk_room(void *talk, struct iovec *iov)
{
        struct iovec both[2];

        (void)dialogue_room(talk, both);
        *iov = both[0];
}

static void talk_heard(void *talk, size_t n)
{
        dialogue_hears(talk, n);
}

static bool talk_expects(const void *talk)
{
        return dialogue_expects(talk);
}

static void where(const struct remote_target *to, const char **traddr, const char **trsvcid)
{
        const struct nvme_peer *peer = to->peer;

        *traddr = peer->host.traddr;
        *trsvcid = peer->host.trsvcid;
}

static struct remote_session *new_session(void)
{
        static const struct stream_talk_ops ops = { .bytes = sizeof(struct dialogue),
                                                    .room = BIND_ROOM,
                                                    .init = talk_init,
                                                    .fini = talk_fini,
                                                    .begin = talk_begin,
                                                    .waits = talk_waits,
                                                    .say = talk_say,
                                                    .room_for = talk_room,
                                                    .heard = talk_heard,
                                                    .expects = talk_expects,
                                                    .where = where };

        return remote_stream_new(&ops);
}

const struct remote_transport remote_tcp = REMOTE_STREAM(new_session);

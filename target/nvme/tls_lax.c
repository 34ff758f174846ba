/* SPDX-License-Identifier: BSD-3-Clause */
#include "tls_lax.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pdu/core/wipe.h"
#include "pdu/nvme/io/auth_openssl.h"
#include "pdu/nvme/io/tls_hand.h"
#include "pdu/nvme/io/tls_record.h"
#include "pdu/nvme/wire/rules.h"
#include "target/nvme/tls_spoil.h"

enum { HEADER = 5, MESSAGE = 4, ROOM = TLS_SEALED_MAX + 4096 };

static const enum rule_id its_rules[] = {
        TLS_REC_TAG,      TLS_REC_LONG,   TLS_REC_TYPE,    TLS_REC_NO_TYPE,  TLS_REC_PADDING,
        TLS_REC_EMPTY,    TLS_REC_CCS,    TLS_UPDATE_KEYS, TLS_UPDATE_VALUE, TLS_UPDATE_ANSWER,
        TLS_UPDATE_ALONE, TLS_LATE_HELLO, TLS_PROOF,       TLS_ALERT_FATAL,  TLS_ALERT_CLOSE,
};

struct lax {
        const struct rule_policy *policy;
        struct tls_hand hand;
        size_t hello_len; /* bytes of the ClientHello that are still to be passed over */
        bool open;        /* the client's Finished has come */
        bool owes_update, ended;
        uint8_t in[ROOM]; /* records, the last one perhaps not whole */
        size_t in_len;
        uint8_t data[ROOM]; /* for who reads */
        size_t data_at, data_len;
};

static struct lax *own(const struct stream *s)
{
        return s->own;
}

static bool breaks(const struct lax *l, enum rule_id rule)
{
        return rule_in(&l->policy->violated, rule);
}

static bool send_bytes(struct stream *s, void *p, size_t n)
{
        const struct iovec iov = { p, n };

        return n > 0 && stream_over_tcp.write(s, &iov, 1) == (ssize_t)n;
}

static bool send_record(struct stream *s, uint8_t type, const void *content, size_t len)
{
        uint8_t record[TLS_SEALED_MAX];

        return send_bytes(s, record, tls_hand_seal(&own(s)->hand, type, content, len, 0, record));
}

/* --- what comes ----------------------------------------------------------------------------------- */

/* All return false where the connection has to end. */

static bool take_finished(struct lax *l, const uint8_t *message, size_t len)
{
        uint8_t right[TLS_FINISHED_MAX];
        size_t n = tls_hand_finished(&l->hand, PARTY_HOST, right);
        bool good = n > 0 && n == len && memcmp(right, message, n) == 0;

        l->open = good || (message[0] == TLS_FINISHED && breaks(l, TLS_PROOF));
        return l->open && tls_hand_switch(&l->hand, PARTY_HOST) == 0;
}

static bool take_update(struct lax *l, const uint8_t *message, size_t len)
{
        uint8_t asks = len > MESSAGE ? message[MESSAGE] : 2;

        if ((len > MESSAGE + 1 && !breaks(l, TLS_UPDATE_ALONE)) ||
            (asks > 1 && !breaks(l, TLS_UPDATE_VALUE)))
                return false;
        l->owes_update |= asks == 1 && !breaks(l, TLS_UPDATE_ANSWER);
        return breaks(l, TLS_UPDATE_KEYS) || tls_hand_update(&l->hand, PARTY_HOST) == 0;
}

static bool take_message(struct lax *l, const uint8_t *message, size_t len)
{
        if (len < MESSAGE)
                return false;
        if (!l->open)
                return take_finished(l, message, len);
        return message[0] == TLS_KEY_UPDATE ? take_update(l, message, len)
                                            : breaks(l, TLS_LATE_HELLO);
}

static bool take_alert(struct lax *l, const uint8_t *alert, size_t len)
{
        l->ended = len == 2 && alert[1] == 0;
        return l->ended || breaks(l, TLS_ALERT_FATAL);
}

static bool take_content(struct lax *l, uint8_t type, const uint8_t *content, size_t len,
                         bool padded)
{
        if (type == 0)
                return breaks(l, TLS_REC_NO_TYPE);
        if (type == TLS_HANDSHAKE)
                return take_message(l, content, len);
        if (type == TLS_ALERTS)
                return take_alert(l, content, len);
        if (type != TLS_DATA || !l->open || (padded && breaks(l, TLS_REC_PADDING)) ||
            (len == 0 && breaks(l, TLS_REC_EMPTY)) || len > sizeof(l->data) - l->data_len)
                return false;
        memcpy(l->data + l->data_len, content, len);
        l->data_len += len;
        return true;
}

static bool take_record(struct lax *l, const uint8_t *record, size_t len)
{
        uint8_t content[ROOM], type;
        ssize_t n;

        if (record[0] == TLS_CHANGE_CIPHER && !l->open)
                return !breaks(l, TLS_REC_CCS);
        if (record[0] != TLS_DATA)
                return breaks(l, TLS_REC_TYPE);
        if (len > TLS_SEALED_MAX && !breaks(l, TLS_REC_LONG))
                return false;
        n = tls_hand_open(&l->hand, record, len, content, &type);
        if (n < 0) {
                l->hand.seq[PARTY_HOST]++;
                return breaks(l, TLS_REC_TAG);
        }
        return take_content(l, type, content, (size_t)n, (size_t)n + TLS_RECORD_MORE < len);
}

/* What is no record at all ends at the end of what has come. */
static bool take_records(struct lax *l)
{
        bool good = true;

        while (good && l->in_len > 0) {
                bool plain = l->in[0] < TLS_CHANGE_CIPHER || l->in[0] > TLS_DATA;
                size_t n = plain ? l->in_len : tls_record_len(l->in, l->in_len);

                if (n == 0)
                        return l->in_len < sizeof(l->in);
                good = take_record(l, l->in, n);
                l->in_len -= n;
                memmove(l->in, l->in + n, l->in_len);
        }
        return good;
}

/* --- as a stream ---------------------------------------------------------------------------------- */

/* Bytes that came, 0: the end, -1 with errno. */
static ssize_t fill(struct stream *s)
{
        struct lax *l = own(s);
        size_t room = l->hello_len > 0 ? l->hello_len : sizeof(l->in) - l->in_len;
        const struct iovec iov = { l->in + l->in_len, room };
        ssize_t n = stream_over_tcp.read(s, &iov, 1);

        if (n > 0 && l->hello_len > 0)
                l->hello_len -= (size_t)n;
        else if (n > 0)
                l->in_len += (size_t)n;
        return n;
}

static ssize_t hand_out(struct lax *l, const struct iovec *iov, int n)
{
        size_t sum = 0;

        for (int i = 0; i < n && l->data_at < l->data_len; i++) {
                size_t part = l->data_len - l->data_at;

                part = part < iov[i].iov_len ? part : iov[i].iov_len;
                memcpy(iov[i].iov_base, l->data + l->data_at, part);
                l->data_at += part;
                sum += part;
        }
        if (l->data_at == l->data_len)
                l->data_at = l->data_len = 0;
        return (ssize_t)sum;
}

static ssize_t lax_read(struct stream *s, const struct iovec *iov, int n)
{
        struct lax *l = own(s);
        ssize_t got;

        while (l->data_len == 0 && !l->ended) {
                got = fill(s);
                if (got <= 0)
                        return got;
                if (take_records(l))
                        continue;
                errno = EPROTO;
                return -1;
        }
        return l->data_len > 0 ? hand_out(l, iov, n) : 0;
}

/* After ours the peer's keys are others. */
static bool answer_update(struct stream *s)
{
        static const uint8_t update[] = { TLS_KEY_UPDATE, 0, 0, 1, 0 };
        struct lax *l = own(s);

        if (!l->owes_update)
                return true;
        l->owes_update = false;
        return send_record(s, TLS_HANDSHAKE, update, sizeof(update)) &&
               tls_hand_update(&l->hand, PARTY_CONTROLLER) == 0;
}

static ssize_t lax_write(struct stream *s, const struct iovec *iov, int n)
{
        size_t len = iov->iov_len < TLS_CONTENT_MAX ? iov->iov_len : TLS_CONTENT_MAX;

        (void)n;
        if (answer_update(s) && send_record(s, TLS_DATA, iov->iov_base, len))
                return (ssize_t)len;
        errno = EPROTO;
        return -1;
}

static int lax_half_close(struct stream *s)
{
        return stream_over_tcp.half_close(s);
}

static void lax_close(struct stream *s, bool reset)
{
        static const uint8_t close_notify[] = { 1, 0 };
        struct lax *l = own(s);

        if (!reset && !breaks(l, TLS_ALERT_CLOSE))
                send_record(s, TLS_ALERTS, close_notify, sizeof(close_notify));
        stream_over_tcp.close(s, reset);
        tls_hand_end(&l->hand);
        free(l);
        s->own = NULL;
}

static uint32_t lax_wants(const struct stream *s, uint32_t events)
{
        return events & EPOLLIN && own(s)->data_len > 0 ? events | STREAM_NOW : events;
}

static const struct stream_ops stream_lax = { .read = lax_read,
                                              .write = lax_write,
                                              .half_close = lax_half_close,
                                              .close = lax_close,
                                              .wants = lax_wants };

/* --- its first flight ----------------------------------------------------------------------------- */

/* EncryptedExtensions without any, and Finished. */
static bool send_flight(struct stream *s)
{
        static const uint8_t extensions[] = { TLS_EXTENSIONS, 0, 0, 2, 0, 0 };
        uint8_t flight[sizeof(extensions) + TLS_FINISHED_MAX];
        uint8_t *finished = flight + sizeof(extensions);
        struct tls_hand *h = &own(s)->hand;
        size_t n;

        memcpy(flight, extensions, sizeof(extensions));
        if (tls_hand_heard(h, extensions, sizeof(extensions)) < 0)
                return false;
        n = tls_hand_finished(h, PARTY_CONTROLLER, finished);
        return n > 0 && tls_hand_heard(h, finished, n) == 0 &&
               send_record(s, TLS_HANDSHAKE, flight, sizeof(extensions) + n) &&
               tls_hand_complete(h) == 0 && tls_hand_switch(h, PARTY_CONTROLLER) == 0;
}

/* The share that comes back is the client's own, as if the private key were 1. */
static bool greet(struct stream *s, const struct tls_hello_view *v, const struct tls_psk *psk)
{
        uint8_t record[TLS_ANSWER_MAX];
        size_t n = tls_answer_build(v, TLS_1_3, record);
        const struct auth_slice client = { v->message, v->message_len },
                                server = { record + HEADER, n - HEADER },
                                share = { v->share, v->share_len };

        return n > 0 &&
               tls_hand_begin(&own(s)->hand, PARTY_CONTROLLER, psk, &client, &server,
                              v->share_group, &share) == 0 &&
               send_bytes(s, record, n) && send_flight(s);
}

static bool has_to(const struct rule_policy *policy)
{
        for (size_t i = 0; i < sizeof(its_rules) / sizeof(its_rules[0]); i++)
                if (rule_in(&policy->violated, its_rules[i]))
                        return true;
        return false;
}

bool tls_lax_take(const struct nvme_tls_server *server, const struct rule_policy *policy,
                  struct stream *s, const uint8_t *hello, size_t len)
{
        struct tls_psk psk = { 0 };
        struct tls_hello_view v;
        struct lax *l;
        void *before = s->own;

        if (!has_to(policy) || !tls_hello_read(&v, hello, len) || v.version != TLS_1_3 ||
            v.share_group == TLS_FFDHE3072 || !tls_offered_key(server, &v, &psk) ||
            !tls_hello_proves(auth_openssl(), &v, &psk))
                return false;
        l = calloc(1, sizeof(*l));
        if (!l)
                return false;
        l->policy = policy;
        l->hello_len = len;
        s->own = l;
        if (greet(s, &v, &psk)) {
                s->ops = &stream_lax;
        } else {
                s->own = before;
                free(l);
                l = NULL;
        }
        wipe(&psk, sizeof(psk));
        return l != NULL;
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "tls_lax.h"

#include <stdlib.h>
#include <string.h>

#include "pdu/core/tls.h"
#include "pdu/core/wipe.h"
#include "pdu/nvme/io/auth_openssl.h"
#include "pdu/nvme/io/hand_stream.h"
#include "pdu/nvme/io/tls_record.h"
#include "pdu/nvme/wire/rules.h"
#include "target/nvme/tls_spoil.h"

enum { HEADER = 5, MESSAGE = 4 };

static const enum rule_id its_rules[] = {
        TLS_REC_TAG,      TLS_REC_LONG,   TLS_REC_TYPE,    TLS_REC_NO_TYPE,  TLS_REC_PADDING,
        TLS_REC_EMPTY,    TLS_REC_CCS,    TLS_UPDATE_KEYS, TLS_UPDATE_VALUE, TLS_UPDATE_ANSWER,
        TLS_UPDATE_ALONE, TLS_LATE_HELLO, TLS_PROOF,       TLS_ALERT_FATAL,  TLS_ALERT_CLOSE,
};

struct lax {
        struct hand_stream tls; /* first */
        const struct rule_policy *policy;
        bool open; /* the client's Finished has come */
        bool owes_update;
};

static struct lax *own(const struct stream *s)
{
        return s->own;
}

static bool breaks(const struct lax *l, enum rule_id rule)
{
        return rule_in(&l->policy->violated, rule);
}

/* --- what comes ----------------------------------------------------------------------------------- */

/* All return false where the connection has to end. */

static bool take_finished(struct lax *l, const uint8_t *message, size_t len)
{
        uint8_t right[TLS_FINISHED_MAX];
        size_t n = tls_hand_finished(&l->tls.hand, PARTY_HOST, right);
        bool good = n > 0 && n == len && memcmp(right, message, n) == 0;

        l->open = good || (message[0] == TLS_FINISHED && breaks(l, TLS_PROOF));
        return l->open && tls_hand_switch(&l->tls.hand, PARTY_HOST) == 0;
}

static bool take_update(struct lax *l, const uint8_t *message, size_t len)
{
        uint8_t asks = len > MESSAGE ? message[MESSAGE] : 2;

        if ((len > MESSAGE + 1 && !breaks(l, TLS_UPDATE_ALONE)) ||
            (asks > 1 && !breaks(l, TLS_UPDATE_VALUE)))
                return false;
        l->owes_update |= asks == 1 && !breaks(l, TLS_UPDATE_ANSWER);
        return breaks(l, TLS_UPDATE_KEYS) || tls_hand_update(&l->tls.hand, PARTY_HOST) == 0;
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
        l->tls.over = len == 2 && alert[1] == TLS_CLOSE_NOTIFY;
        return l->tls.over || breaks(l, TLS_ALERT_FATAL);
}

static bool take_content(struct stream *s, uint8_t type, const uint8_t *content, size_t len,
                         bool padded)
{
        struct lax *l = own(s);

        if (type == 0)
                return breaks(l, TLS_REC_NO_TYPE);
        if (type == TLS_HANDSHAKE)
                return take_message(l, content, len);
        if (type == TLS_ALERTS)
                return take_alert(l, content, len);
        if (type != TLS_DATA || !l->open || (padded && breaks(l, TLS_REC_PADDING)) ||
            (len == 0 && breaks(l, TLS_REC_EMPTY)))
                return false;
        return hand_stream_give(s, content, len);
}

static bool take_record(struct stream *s, const uint8_t *record, size_t len)
{
        struct lax *l = own(s);
        uint8_t content[HAND_IN], type;
        ssize_t n;

        if (record[0] == TLS_CHANGE_CIPHER && !l->open)
                return !breaks(l, TLS_REC_CCS);
        if (record[0] != TLS_DATA)
                return breaks(l, TLS_REC_TYPE);
        if (len > TLS_SEALED_MAX && !breaks(l, TLS_REC_LONG))
                return false;
        n = tls_hand_open(&l->tls.hand, record, len, content, &type);
        if (n < 0) {
                l->tls.hand.seq[PARTY_HOST]++;
                return breaks(l, TLS_REC_TAG);
        }
        return take_content(s, type, content, (size_t)n, (size_t)n + TLS_RECORD_MORE < len);
}

static size_t on_record(struct stream *s, uint8_t *record, size_t len)
{
        return take_record(s, record, len) ? len : 0;
}

/* After our KeyUpdate our keys are others. */
static bool on_sends(struct stream *s)
{
        struct lax *l = own(s);
        bool owes = l->owes_update;

        l->owes_update = false;
        return !owes || hand_stream_put_update(s, 0);
}

static void on_closes(struct stream *s)
{
        static const uint8_t close_notify[] = { 1, TLS_CLOSE_NOTIFY };

        if (!breaks(own(s), TLS_ALERT_CLOSE))
                hand_stream_put_record(s, TLS_ALERTS, close_notify, sizeof(close_notify), 0);
}

static const struct hand_stream_ops its_ops = { .record = on_record,
                                                .sends = on_sends,
                                                .closes = on_closes };

/* --- its first flight ----------------------------------------------------------------------------- */

/* EncryptedExtensions without any, and Finished. */
static bool send_flight(struct stream *s)
{
        static const uint8_t extensions[] = { TLS_EXTENSIONS, 0, 0, 2, 0, 0 };
        uint8_t flight[sizeof(extensions) + TLS_FINISHED_MAX];
        uint8_t *finished = flight + sizeof(extensions);
        struct tls_hand *h = &own(s)->tls.hand;
        size_t n;

        memcpy(flight, extensions, sizeof(extensions));
        if (tls_hand_heard(h, extensions, sizeof(extensions)) < 0)
                return false;
        n = tls_hand_finished(h, PARTY_CONTROLLER, finished);
        return n > 0 && tls_hand_heard(h, finished, n) == 0 &&
               hand_stream_put_record(s, TLS_HANDSHAKE, flight, sizeof(extensions) + n, 0) &&
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
               tls_hand_begin(&own(s)->tls.hand, PARTY_CONTROLLER, psk, &client, &server,
                              v->share_group, &share) == 0 &&
               hand_stream_put(s, record, n) && send_flight(s);
}

static bool has_to(const struct rule_policy *policy)
{
        for (size_t i = 0; i < sizeof(its_rules) / sizeof(its_rules[0]); i++)
                if (rule_in(&policy->violated, its_rules[i]))
                        return true;
        return false;
}

static bool can_take(const struct nvme_tls_server *server, const struct tls_hello_view *v,
                     struct tls_psk *psk)
{
        return v->version == TLS_1_3 && v->share_group != TLS_FFDHE3072 &&
               tls_offered_key(server, v, psk) && tls_hello_proves(auth_openssl(), v, psk);
}

bool tls_lax_take(const struct nvme_tls_server *server, const struct rule_policy *policy,
                  struct stream *s, const uint8_t *hello, size_t len)
{
        struct tls_psk psk = { 0 };
        struct tls_hello_view v;
        struct lax *l = NULL;

        if (has_to(policy) && tls_hello_read(&v, hello, len) && can_take(server, &v, &psk))
                l = calloc(1, sizeof(*l));
        if (l) {
                l->policy = policy;
                hand_stream_begin(s, &l->tls, &its_ops);
                l->tls.ready = true;
                l->tls.failed = !hand_stream_skip(s, len) || !greet(s, &v, &psk);
        }
        wipe(&psk, sizeof(psk));
        return l;
}

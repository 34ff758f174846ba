/* SPDX-License-Identifier: BSD-3-Clause */
#include "tls_loose.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pdu/core/le.h"
#include "pdu/core/tls.h"
#include "pdu/core/wipe.h"
#include "pdu/nvme/io/auth_openssl.h"
#include "pdu/nvme/io/hand_stream.h"
#include "pdu/nvme/io/tls_record.h"

enum {
        HEADER = 5,
        MESSAGE = 4,
        CLIENT_KEYS = 16, /* ClientKeyExchange of TLS 1.2 */
        EXT_ALPN = 16,
        EXT_SHARE = 51,
};

struct loose {
        struct hand_stream tls; /* first */
        const struct rule_policy *policy;
        struct tls_psk psk;
        struct tls_hello hello;
        struct tls_said said; /* before the ServerHello */
        unsigned retries;
        uint8_t cookie[256];
        struct auth_slice to_copy; /* of it, what has come */
        enum { WAITS_HELLO, IS_OLD, WAITS_EXTENSIONS, WAITS_FINISHED, IS_OPEN } at;
        uint8_t message[4096]; /* the beginning of one */
        size_t message_len;
        bool owes_update;
};

static struct loose *own(const struct stream *s)
{
        return s->own;
}

static bool has(const struct loose *l, enum flaw_id flaw)
{
        return flawed(l->policy, flaw);
}

/* --- ClientHellos ---------------------------------------------------------------------------------- */

static bool send_hello(struct stream *s)
{
        struct loose *l = own(s);
        uint8_t record[TLS_HELLO_MAX];
        size_t n = tls_hello_build(auth_openssl(), &l->hello, record);

        return n > 0 && tls_said_add(&l->said, record + HEADER, n - HEADER) &&
               hand_stream_put(s, record, n);
}

static uint16_t shared_group(const struct loose *l)
{
        return l->hello.shares_spare ? l->hello.spare_group : l->hello.group;
}

static bool is_offered(const struct loose *l, uint16_t group)
{
        return group == l->hello.group || group == l->hello.spare_group;
}

static bool hello_again(struct stream *s, const struct tls_answer *a)
{
        struct loose *l = own(s);

        if (a->group && is_offered(l, a->group))
                l->hello.shares_spare = a->group == l->hello.spare_group;
        if (a->cookie.len > sizeof(l->cookie))
                return false;
        if (a->cookie.p && !has(l, FLAW_HOST_TLS_COOKIE)) {
                memcpy(l->cookie, a->cookie.p, a->cookie.len);
                l->to_copy = (struct auth_slice) { l->cookie, a->cookie.len };
                l->hello.cookie = &l->to_copy;
        }
        l->hello.random[0] ^= has(l, FLAW_HOST_TLS_RETRY_SAME);
        l->retries++;
        return send_hello(s);
}

/* --- ServerHello and HelloRetryRequest: what can be wrong with one ---------------------------------- */

static bool is_old(const struct tls_answer *a)
{
        return a->version < TLS_1_3 && a->downgraded;
}

static bool is_last(const struct tls_answer *a)
{
        return a->kind == TLS_SERVER_HELLO && !is_old(a);
}

static bool has_other_session(const struct loose *l, const struct tls_answer *a)
{
        return a->session_len != l->hello.session_len ||
               memcmp(a->session, l->hello.random, a->session_len) != 0;
}

static bool has_other_suite(const struct loose *l, const struct tls_answer *a)
{
        return !is_old(a) && a->suite != (l->psk.suite == TLS_AES_128_GCM ? 0x1301 : 0x1302);
}

static bool is_compressed(const struct loose *l, const struct tls_answer *a)
{
        (void)l;
        return a->compression != 0;
}

static bool has_more(const struct loose *l, const struct tls_answer *a)
{
        (void)l;
        return a->over;
}

static bool has_other_version(const struct loose *l, const struct tls_answer *a)
{
        (void)l;
        return a->version != TLS_1_3 && !is_old(a);
}

static bool is_downgraded(const struct loose *l, const struct tls_answer *a)
{
        (void)l;
        return is_old(a);
}

static bool has_unasked(const struct loose *l, const struct tls_answer *a)
{
        (void)l;
        return a->strange;
}

static bool selects_another(const struct loose *l, const struct tls_answer *a)
{
        (void)l;
        return a->psk && a->identity != 0;
}

static bool takes_no_psk(const struct loose *l, const struct tls_answer *a)
{
        (void)l;
        return is_last(a) && !a->psk;
}

static bool has_unknown_group(const struct loose *l, const struct tls_answer *a)
{
        return is_last(a) && a->group && !is_offered(l, a->group);
}

static bool has_other_group(const struct loose *l, const struct tls_answer *a)
{
        return is_last(a) && is_offered(l, a->group) && a->group != shared_group(l);
}

static bool is_zero(const struct loose *l, const struct tls_answer *a)
{
        bool zero = a->share_len > 0;

        (void)l;
        for (size_t i = 0; i < a->share_len; i++)
                zero &= a->share[i] == 0;
        return zero;
}

static bool lacks_share(const struct loose *l, const struct tls_answer *a)
{
        return is_last(a) && !a->group && !(l->hello.modes & TLS_PSK_KE);
}

static bool retries(const struct loose *l, const struct tls_answer *a)
{
        (void)l;
        return a->kind == TLS_RETRY;
}

static bool retries_again(const struct loose *l, const struct tls_answer *a)
{
        return a->kind == TLS_RETRY && l->retries > 0;
}

static bool retries_shared(const struct loose *l, const struct tls_answer *a)
{
        return a->kind == TLS_RETRY && a->group == shared_group(l);
}

static bool retries_unknown(const struct loose *l, const struct tls_answer *a)
{
        return a->kind == TLS_RETRY && a->group && !is_offered(l, a->group);
}

static bool retries_nothing(const struct loose *l, const struct tls_answer *a)
{
        (void)l;
        return a->kind == TLS_RETRY && !a->group && !a->cookie.p;
}

static const struct {
        enum flaw_id flaw;
        bool (*met)(const struct loose *l, const struct tls_answer *a);
        bool lawful; /* who has the flaw ends for it; else who has not */
} checks[] = {
        { FLAW_HOST_TLS_ECHO, has_other_session, false },
        { FLAW_HOST_TLS_SUITE, has_other_suite, false },
        { FLAW_HOST_TLS_COMPRESSION, is_compressed, false },
        { FLAW_HOST_TLS_LENGTHS, has_more, false },
        { FLAW_HOST_TLS_SELECTED, has_other_version, false },
        { FLAW_HOST_TLS_DOWNGRADE, is_downgraded, false },
        { FLAW_HOST_TLS_UNASKED, has_unasked, false },
        { FLAW_HOST_TLS_SELECTS, selects_another, false },
        { FLAW_HOST_TLS_UNPROVEN, takes_no_psk, false },
        { FLAW_HOST_TLS_GROUP, has_unknown_group, false },
        { FLAW_HOST_TLS_RETRY_KEPT, has_other_group, false },
        { FLAW_HOST_TLS_POINT, is_zero, false },
        { FLAW_HOST_TLS_NEEDS_SHARE, lacks_share, false },
        { FLAW_HOST_TLS_RETRY, retries, true },
        { FLAW_HOST_TLS_RETRY_ONCE, retries_again, false },
        { FLAW_HOST_TLS_RETRY_SHARED, retries_shared, false },
        { FLAW_HOST_TLS_RETRY_GROUP, retries_unknown, false },
        { FLAW_HOST_TLS_RETRY_CHANGES, retries_nothing, false },
};

enum { CHECKS = sizeof(checks) / sizeof(checks[0]) };

static bool is_taken(const struct loose *l, const struct tls_answer *a)
{
        if ((a->kind != TLS_SERVER_HELLO && a->kind != TLS_RETRY) || a->twice)
                return false;
        for (size_t i = 0; i < CHECKS; i++)
                if (checks[i].met(l, a) && has(l, checks[i].flaw) == checks[i].lawful)
                        return false;
        return true;
}

static bool begin_keys(struct loose *l, const struct tls_answer *a, const uint8_t *message)
{
        const struct auth_slice before = { l->said.p, l->said.len },
                                server = { message, a->message_len },
                                share = { a->share, a->share_len };
        struct tls_psk psk = l->psk;
        int rc;

        if (!a->psk)
                memset(psk.key, 0, sizeof(psk.key));
        rc = tls_hand_begin(&l->tls.hand, PARTY_HOST, &psk, &before, &server,
                            a->group ? shared_group(l) : TLS_NO_GROUP, &share);
        wipe(&psk, sizeof(psk));
        l->at = WAITS_EXTENSIONS;
        return rc == 0;
}

/* As far as it takes to see that TLS 1.2 goes on: ClientKeyExchange, with an empty identity. */
static bool go_on_as_old(struct stream *s)
{
        static const uint8_t keys[] = { TLS_HANDSHAKE, 3, 3, 0, 6, CLIENT_KEYS, 0, 0, 2, 0, 0 };

        own(s)->at = IS_OLD;
        return hand_stream_put(s, keys, sizeof(keys));
}

static bool take_messages(struct stream *s, const uint8_t *p, size_t n);

static bool take_hello(struct stream *s, const uint8_t *record, size_t len)
{
        struct loose *l = own(s);
        struct tls_answer a = tls_answer_read(record, len);
        const uint8_t *message = record + HEADER;
        size_t more = len - HEADER - a.message_len;

        if (!is_taken(l, &a) || (more > 0 && !has(l, FLAW_HOST_TLS_ALIGNED)))
                return false;
        if (is_old(&a))
                return go_on_as_old(s);
        if (a.kind == TLS_RETRY)
                return (l->retries > 0 || tls_said_fold(&l->said, l->psk.suite)) &&
                       tls_said_add(&l->said, message, a.message_len) && hello_again(s, &a);
        return begin_keys(l, &a, message) &&
               (more == 0 || take_messages(s, message + a.message_len, more));
}

/* --- messages -------------------------------------------------------------------------------------- */

static bool has_extension(const uint8_t *message, size_t len, uint8_t type)
{
        for (size_t at = MESSAGE + 2; at + 4 <= len;
             at += 4u + (size_t)(message[at + 2] << 8 | message[at + 3]))
                if (message[at] == 0 && message[at + 1] == type)
                        return true;
        return false;
}

static bool take_extensions(struct loose *l, const uint8_t *message, size_t len)
{
        if ((l->at != WAITS_EXTENSIONS && !has(l, FLAW_HOST_TLS_ORDER)) ||
            (has_extension(message, len, EXT_ALPN) && !has(l, FLAW_HOST_TLS_UNASKED)) ||
            (has_extension(message, len, EXT_SHARE) && !has(l, FLAW_HOST_TLS_MISPLACED)))
                return false;
        l->at = WAITS_FINISHED;
        return tls_hand_heard(&l->tls.hand, message, len) == 0;
}

static bool is_right(const struct loose *l, const uint8_t *message, size_t len)
{
        uint8_t right[TLS_FINISHED_MAX];
        size_t n = tls_hand_finished(&l->tls.hand, PARTY_CONTROLLER, right);

        return n == len && memcmp(right, message, n) == 0;
}

static bool take_finished(struct stream *s, const uint8_t *message, size_t len)
{
        struct loose *l = own(s);
        struct tls_hand *h = &l->tls.hand;
        uint8_t ours[TLS_FINISHED_MAX];
        size_t n;

        if ((l->at != WAITS_FINISHED && !has(l, FLAW_HOST_TLS_ORDER)) ||
            (!is_right(l, message, len) && !has(l, FLAW_HOST_TLS_PROOF)) ||
            tls_hand_heard(h, message, len) < 0 || tls_hand_complete(h) < 0 ||
            tls_hand_switch(h, PARTY_CONTROLLER) < 0)
                return false;
        n = tls_hand_finished(h, PARTY_HOST, ours);
        l->at = IS_OPEN;
        l->tls.ready = true;
        return n > 0 && hand_stream_put_record(s, TLS_HANDSHAKE, ours, n, 0) &&
               tls_hand_switch(h, PARTY_HOST) == 0;
}

static bool take_update(struct loose *l, const uint8_t *message, size_t len)
{
        uint8_t asks = len > MESSAGE ? message[MESSAGE] : 2;

        if (has(l, FLAW_HOST_TLS_UPDATE_KEYS) || (asks > 1 && !has(l, FLAW_HOST_TLS_UPDATE_VALUE)))
                return false;
        l->owes_update |= asks == 1 && !has(l, FLAW_HOST_TLS_UPDATE_ANSWER);
        return tls_hand_update(&l->tls.hand, PARTY_CONTROLLER) == 0;
}

/* Before the target's Finished, and that. */
static bool take_early(struct stream *s, const uint8_t *message, size_t len)
{
        struct loose *l = own(s);

        switch (message[0]) {
        case TLS_EXTENSIONS:
                return take_extensions(l, message, len);
        case TLS_FINISHED:
                return take_finished(s, message, len);
        case TLS_KEY_UPDATE:
                return has(l, FLAW_HOST_TLS_UPDATE_EARLY);
        default:
                return has(l, FLAW_HOST_TLS_ORDER) &&
                       tls_hand_heard(&l->tls.hand, message, len) == 0;
        }
}

static bool take_late(struct loose *l, const uint8_t *message, size_t len)
{
        switch (message[0]) {
        case TLS_KEY_UPDATE:
                return take_update(l, message, len);
        case TLS_NEW_TICKET:
                return !has(l, FLAW_HOST_TLS_TICKET);
        case TLS_CERTIFICATE_REQUEST:
                return has(l, FLAW_HOST_TLS_LATE_CERTIFICATE);
        case 0: /* HelloRequest of TLS 1.2 */
                return has(l, FLAW_HOST_TLS_RENEGOTIATION);
        default:
                return false;
        }
}

static bool changes_keys(const struct loose *l, uint8_t type)
{
        return type == TLS_FINISHED || (type == TLS_KEY_UPDATE && l->at == IS_OPEN);
}

/* The first message is taken out. False: the connection has to end. */
static bool take_first(struct stream *s, size_t len)
{
        struct loose *l = own(s);
        uint8_t type = l->message[0];
        bool good =
            l->at == IS_OPEN ? take_late(l, l->message, len) : take_early(s, l->message, len);

        l->message_len -= len;
        memmove(l->message, l->message + len, l->message_len);
        if (!changes_keys(l, type) || l->message_len == 0)
                return good;
        l->message_len = 0;
        return good && has(l, FLAW_HOST_TLS_ALIGNED);
}

/* Bytes of the first message; 0: it is not there as a whole. */
static size_t first_len(const struct loose *l)
{
        const uint8_t *p = l->message;
        size_t len = MESSAGE;

        if (l->message_len >= MESSAGE)
                len += (size_t)(p[1] << 16 | p[2] << 8 | p[3]);
        return len <= l->message_len ? len : 0;
}

static bool take_messages(struct stream *s, const uint8_t *p, size_t n)
{
        struct loose *l = own(s);
        size_t len;

        if (n > sizeof(l->message) - l->message_len)
                return false;
        memcpy(l->message + l->message_len, p, n);
        l->message_len += n;
        while ((len = first_len(l)) > 0)
                if (!take_first(s, len))
                        return false;
        return l->message_len == 0 || !has(l, FLAW_HOST_TLS_PIECES);
}

/* --- records --------------------------------------------------------------------------------------- */

static bool take_alert(struct loose *l, const uint8_t *alert, size_t len)
{
        if (len != 2 || alert[1] != TLS_CLOSE_NOTIFY)
                return has(l, FLAW_HOST_TLS_ALERT_FATAL);
        l->tls.over = !has(l, FLAW_HOST_TLS_ALERT_CLOSED);
        return true;
}

static bool take_data(struct stream *s, const uint8_t *data, size_t len)
{
        const struct loose *l = own(s);

        if (l->at != IS_OPEN)
                return has(l, FLAW_HOST_TLS_DATA_EARLY);
        if (len == 0 && has(l, FLAW_HOST_TLS_EMPTY))
                return false;
        return hand_stream_give(s, data, len);
}

static bool take_content(struct stream *s, uint8_t type, const uint8_t *content, size_t len)
{
        struct loose *l = own(s);

        switch (type) {
        case 0:
                return has(l, FLAW_HOST_TLS_NO_TYPE);
        case TLS_ALERTS:
                return take_alert(l, content, len);
        case TLS_HANDSHAKE:
                return len > 0 ? take_messages(s, content, len) : has(l, FLAW_HOST_TLS_NO_MESSAGE);
        case TLS_DATA:
                return take_data(s, content, len);
        default:
                return false;
        }
}

static bool take_sealed(struct stream *s, const uint8_t *record, size_t len)
{
        struct loose *l = own(s);
        uint8_t content[HAND_IN], type;
        ssize_t n;

        if (l->at < WAITS_EXTENSIONS || (len > TLS_SEALED_MAX && !has(l, FLAW_HOST_TLS_REC_LONG)))
                return false;
        n = tls_hand_open(&l->tls.hand, record, len, content, &type);
        if (n < 0) {
                l->tls.hand.seq[PARTY_CONTROLLER]++;
                return has(l, FLAW_HOST_TLS_TAG);
        }
        if (len > (size_t)n + TLS_RECORD_MORE && has(l, FLAW_HOST_TLS_PADDING))
                return false;
        return take_content(s, type, content, (size_t)n);
}

static bool take_change_cipher(const struct loose *l, const uint8_t *record, size_t len)
{
        if (l->at == IS_OPEN)
                return has(l, FLAW_HOST_TLS_REC_TYPE);
        if (len != HEADER + 1 || record[HEADER] != 1)
                return has(l, FLAW_HOST_TLS_CCS_VALUE);
        return !has(l, FLAW_HOST_TLS_CCS);
}

static bool take_record(struct stream *s, const uint8_t *record, size_t len)
{
        const struct loose *l = own(s);

        switch (record[0]) {
        case TLS_DATA:
                return take_sealed(s, record, len);
        case TLS_CHANGE_CIPHER:
                return take_change_cipher(l, record, len);
        case TLS_HANDSHAKE:
                return l->at == WAITS_HELLO ? take_hello(s, record, len)
                                            : l->at == IS_OLD || has(l, FLAW_HOST_TLS_REC_TYPE);
        default:
                return false;
        }
}

/* What is no record is passed over, if it is, as the PDU that it is. */
static size_t on_record(struct stream *s, uint8_t *record, size_t len)
{
        enum { PLEN = 4, CH = 8 };
        bool plain = record[0] < TLS_CHANGE_CIPHER || record[0] > TLS_DATA;
        uint32_t plen;

        if (!plain)
                return take_record(s, record, len) ? len : 0;
        if (len < CH || own(s)->at != IS_OPEN || !has(own(s), FLAW_HOST_TLS_REC_TYPE))
                return 0;
        plen = le32_get(*(const le32_t *)(const void *)(record + PLEN));
        return plen < len ? plen : len;
}

static bool on_sends(struct stream *s)
{
        struct loose *l = own(s);
        bool owes = l->owes_update;

        l->owes_update = false;
        return !owes || hand_stream_put_update(s, 0);
}

static void on_closes(struct stream *s)
{
        static const uint8_t close_notify[] = { 1, TLS_CLOSE_NOTIFY };
        const struct loose *l = own(s);

        if (l->at == IS_OPEN && !has(l, FLAW_HOST_TLS_ALERT_CLOSE))
                hand_stream_put_record(s, TLS_ALERTS, close_notify, sizeof(close_notify), 0);
}

static void on_gone(struct stream *s)
{
        wipe(&own(s)->psk, sizeof(own(s)->psk));
}

static const struct hand_stream_ops its_ops = {
        .record = on_record, .sends = on_sends, .closes = on_closes, .gone = on_gone
};

/* --- the start ------------------------------------------------------------------------------------- */

/* Apart from those in checks[]. */
static const enum flaw_id others[] = {
        FLAW_HOST_TLS_RETRY_SAME,
        FLAW_HOST_TLS_COOKIE,
        FLAW_HOST_TLS_MISPLACED,
        FLAW_HOST_TLS_ORDER,
        FLAW_HOST_TLS_ALIGNED,
        FLAW_HOST_TLS_PIECES,
        FLAW_HOST_TLS_PROOF,
        FLAW_HOST_TLS_DATA_EARLY,
        FLAW_HOST_TLS_CCS,
        FLAW_HOST_TLS_CCS_VALUE,
        FLAW_HOST_TLS_TAG,
        FLAW_HOST_TLS_REC_LONG,
        FLAW_HOST_TLS_REC_TYPE,
        FLAW_HOST_TLS_NO_TYPE,
        FLAW_HOST_TLS_NO_MESSAGE,
        FLAW_HOST_TLS_PADDING,
        FLAW_HOST_TLS_EMPTY,
        FLAW_HOST_TLS_UPDATE_KEYS,
        FLAW_HOST_TLS_UPDATE_ANSWER,
        FLAW_HOST_TLS_UPDATE_VALUE,
        FLAW_HOST_TLS_UPDATE_EARLY,
        FLAW_HOST_TLS_TICKET,
        FLAW_HOST_TLS_LATE_CERTIFICATE,
        FLAW_HOST_TLS_RENEGOTIATION,
        FLAW_HOST_TLS_ALERT_FATAL,
        FLAW_HOST_TLS_ALERT_CLOSED,
        FLAW_HOST_TLS_ALERT_CLOSE,
};

bool host_tls_is_loose(const struct nvme_tls *tls, const struct rule_policy *policy)
{
        bool loose = false;

        for (size_t i = 0; i < CHECKS; i++)
                loose |= flawed(policy, checks[i].flaw);
        for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
                loose |= flawed(policy, others[i]);
        return loose && tls->key.len > 0 && auth_openssl();
}

static int derive(const struct nvme_tls *tls, const char *hostnqn, const char *subnqn,
                  struct tls_psk *psk)
{
        bool small = tls->key.len == tls_key_len(TLS_AES_128_GCM);
        struct tls_identity id = { .version = tls->version,
                                   .generated = tls->generated,
                                   .suite = tls->suite ? tls->suite
                                            : small    ? TLS_AES_128_GCM
                                                       : TLS_AES_256_GCM };

        snprintf(id.hostnqn, sizeof(id.hostnqn), "%s", hostnqn);
        snprintf(id.subnqn, sizeof(id.subnqn), "%s", subnqn);
        return tls_key_derive(auth_openssl(), &tls->key, &id, tls->derivation, psk);
}

int host_tls_connect(struct stream *s, const struct nvme_tls *tls, const struct rule_policy *policy,
                     const char *hostnqn, const char *subnqn, char *error, size_t size)
{
        struct loose *l = calloc(1, sizeof(*l));

        snprintf(error, size, "TLS: no key can be derived, or no memory for it");
        if (!l || derive(tls, hostnqn, subnqn, &l->psk) < 0 ||
            auth_openssl()->random(l->hello.random, sizeof(l->hello.random)) < 0) {
                if (l)
                        wipe(&l->psk, sizeof(l->psk));
                free(l);
                return -1;
        }
        l->policy = policy;
        l->hello.version = TLS_1_3;
        l->hello.suites = 1u << l->psk.suite;
        l->hello.modes = TLS_PSK_DHE_KE | (has(l, FLAW_HOST_TLS_NEEDS_SHARE) ? 0 : TLS_PSK_KE);
        l->hello.group = TLS_X25519;
        l->hello.spare_group = TLS_SECP256R1;
        l->hello.psk = &l->psk;
        if (!has(l, FLAW_HOST_TLS_CCS)) /* who has it gets ChangeCipherSpec from each target */
                l->hello.session_len = sizeof(l->hello.random);
        hand_stream_begin(s, &l->tls, &its_ops);
        return send_hello(s) ? 0 : -1;
}

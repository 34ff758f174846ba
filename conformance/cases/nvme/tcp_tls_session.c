/* SPDX-License-Identifier: BSD-3-Clause */
/* NVMe/TCP 3.6.1.1 and RFC 8446: what comes after the ClientHello, record by record. */
#include <string.h>

#include "conformance/words/case_tls.h"

enum alert {
        CLOSE_NOTIFY = 0,
        UNEXPECTED_MESSAGE = 10,
        BAD_RECORD_MAC = 20,
        RECORD_OVERFLOW = 22,
        ILLEGAL_PARAMETER = 47,
        DECRYPT_ERROR = 51,
};

static const char ends[] = "the connection ends", works[] = "ICReq is answered by ICResp";

/* --- the handshake */

CASE("tcp/tls/change-cipher", MUST, RULES(TLS_REC_CCS),
     "A ChangeCipherSpec record before the host's Finished means nothing")
{
        static const uint8_t change_cipher[] = { TLS_CHANGE_CIPHER, 3, 3, 0, 1, 1 };
        struct tls_session *s = begin_session(t);

        put_bytes(s, change_cipher, sizeof(change_cipher));
        send_finished(s, false);
        want_session_works(s, works);
}

CASE("tcp/tls/finished", MUST, RULES(TLS_PROOF), "A wrong Finished ends the connection")
{
        struct tls_session *s = begin_session(t);

        send_finished(s, true);
        put_icreq(s, 0);
        want_terminated(s, DECRYPT_ERROR, ends);
}

/* --- records */

CASE("tcp/tls/record-tag", MUST, RULES(TLS_REC_TAG),
     "A record that cannot be decrypted ends the connection")
{
        struct tls_session *s = open_session(t);
        static const uint8_t data[64];
        uint8_t record[sizeof(data) + 22];
        size_t n = tls_hand_seal(&s->hand, TLS_DATA, data, sizeof(data), 0, record);

        record[n - 1] ^= 1;
        put_bytes(s, record, n);
        put_icreq(s, 0);
        want_terminated(s, BAD_RECORD_MAC, ends);
}

CASE("tcp/tls/record-length", MUST, RULES(TLS_REC_LONG),
     "A record of more than 16,640 bytes ends the connection")
{
        enum { TAG = 16, TOO_LONG = 16384 + 256 + 1 };
        struct tls_session *s = open_session(t);

        put_icreq(s, TOO_LONG - TAG - 1 - 128);
        want_terminated(s, RECORD_OVERFLOW, ends);
}

/* Whether that is a type or a version that is not expected depends on what is looked at first. */
CASE("tcp/tls/record-type", MUST, RULES(TLS_REC_TYPE),
     "A PDU in clear after the handshake ends the connection")
{
        static const uint8_t icreq[128] = { [2] = 128, [4] = 128 };
        struct tls_session *s = open_session(t);

        put_bytes(s, icreq, sizeof(icreq));
        put_icreq(s, 0);
        want_terminated(s, ANY_ALERT, ends);
}

CASE("tcp/tls/record-change-cipher", MUST, RULES(TLS_REC_TYPE),
     "A ChangeCipherSpec record after the host's Finished ends the connection")
{
        static const uint8_t change_cipher[] = { TLS_CHANGE_CIPHER, 3, 3, 0, 1, 1 };
        struct tls_session *s = open_session(t);

        want_session_works(s, works);
        put_bytes(s, change_cipher, sizeof(change_cipher));
        put_icreq(s, 0);
        want_terminated(s, UNEXPECTED_MESSAGE, ends);
}

CASE("tcp/tls/record-no-type", MUST, RULES(TLS_REC_NO_TYPE),
     "A record that is nothing but padding ends the connection")
{
        struct tls_session *s = open_session(t);

        put_record(s, 0, "", 0, 15);
        put_icreq(s, 0);
        want_terminated(s, UNEXPECTED_MESSAGE, ends);
}

CASE("tcp/tls/record-padding", MUST, RULES(TLS_REC_PADDING), "A record with padding is taken")
{
        struct tls_session *s = open_session(t);

        put_icreq(s, 100);
        want(t, hears_data(s), works, "no data");
}

CASE("tcp/tls/record-empty", MUST, RULES(TLS_REC_EMPTY),
     "Records of application data that have none are taken")
{
        struct tls_session *s = open_session(t);

        for (int i = 0; i < 2; i++)
                put_record(s, TLS_DATA, "", 0, 0);
        want_session_works(s, works);
}

/* --- messages after the handshake */

CASE("tcp/tls/late-hello", MUST, RULES(TLS_LATE_HELLO),
     "A ClientHello after the handshake ends the connection")
{
        enum { HEADER = 5 };
        struct tls_session *s = open_session(t);

        put_record(s, TLS_HANDSHAKE, s->said->hello + HEADER, s->said->hello_len - HEADER, 0);
        put_icreq(s, 0);
        want_terminated(s, UNEXPECTED_MESSAGE, ends);
}

enum request { NOT_REQUESTED, REQUESTED, NEITHER };

CASE("tcp/tls/key-update", MUST, RULES(TLS_UPDATE_KEYS),
     "After the host's KeyUpdate its next keys are in force")
{
        struct tls_session *s = open_session(t);

        for (int i = 0; i < 2; i++)
                put_update(s, NOT_REQUESTED);
        want_session_works(s, works);
}

CASE("tcp/tls/key-update-answer", MUST, RULES(TLS_UPDATE_ANSWER),
     "A KeyUpdate that asks for it is answered by one before the next data")
{
        struct tls_session *s = open_session(t);

        put_update(s, REQUESTED);
        want_session_works(s, works);
        want(t, s->updated, "KeyUpdate before the next data", "ICResp without it");
}

CASE("tcp/tls/key-update-value", MUST, RULES(TLS_UPDATE_VALUE),
     "A KeyUpdate with a request_update of 2 ends the connection")
{
        struct tls_session *s = open_session(t);

        put_update(s, NEITHER);
        put_icreq(s, 0);
        want_terminated(s, ILLEGAL_PARAMETER, ends);
}

CASE("tcp/tls/key-update-alone", MUST, RULES(TLS_UPDATE_ALONE),
     "A message after KeyUpdate in the same record ends the connection")
{
        static const uint8_t two[] = { TLS_KEY_UPDATE, 0, 0, 1, 0, TLS_KEY_UPDATE, 0, 0, 1, 0 };
        struct tls_session *s = open_session(t);

        put_record(s, TLS_HANDSHAKE, two, sizeof(two), 0);
        if (tls_hand_update(&s->hand, PARTY_HOST) == 0)
                put_icreq(s, 0);
        want_terminated(s, UNEXPECTED_MESSAGE, ends);
}

/* --- alerts */

/* No alert has to answer one. */
static void want_closed(struct tls_session *s)
{
        struct t *t = s->said->queue->t;

        put_icreq(s, 0);
        if (hears_data(s))
                fail(t, ends, "data: a PDU of type %02Xh", s->content[0]);
        want(t, is_ended(s->said), ends, "it stays");
}

CASE("tcp/tls/alert-fatal", MUST, RULES(TLS_ALERT_FATAL),
     "An error alert ends the connection, also at another level, or with a description that is not "
     "known")
{
        static const uint8_t alerts[][2] = { { 2, 80 }, { 1, 20 }, { 2, 200 } };

        for (size_t i = 0; i < sizeof(alerts) / sizeof(alerts[0]); i++) {
                struct tls_session *s = open_session(t);

                put_record(s, TLS_ALERTS, alerts[i], 2, 0);
                want_closed(s);
        }
}

CASE("tcp/tls/close-notify", MUST, RULES(TLS_ALERT_CLOSE),
     "A connection that the target closes after close_notify has its close_notify")
{
        static const uint8_t close_notify[] = { 1, CLOSE_NOTIFY };
        struct tls_session *s = open_session(t);

        want_session_works(s, works);
        put_record(s, TLS_ALERTS, close_notify, sizeof(close_notify), 0);
        want(t, !hears_data(s), "close_notify", "data");
        require(t, s->said->queue->conn->end != CONN_OPEN, "the target does not close it");
        want(t, s->alerted && s->alert == CLOSE_NOTIFY, "close_notify before the end", "%s",
             s->alerted ? "another alert" : "the end without it");
}

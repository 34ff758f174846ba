/* SPDX-License-Identifier: BSD-3-Clause */
/* A TLS session by hand, once the server has taken our ClientHello. */
#include <string.h>

#include "case_tls.h"
#include "conn_tcp.h"
#include "pdu/nvme/io/auth_openssl.h"
#include "pdu/nvme/io/tls_record.h"

enum { HEADER = 5, MESSAGE = 4, ICREQ = 128, ICRESP_TYPE = 1, CLOSE_NOTIFY = 0 };

static struct t *test_of(const struct tls_session *s)
{
        return s->said->queue->t;
}

/* --- what goes out */

void put_bytes(struct tls_session *s, const void *bytes, size_t len)
{
        conn_send_bytes(conn_tcp(s->said->queue->conn), bytes, (uint32_t)len,
                        t_deadline(test_of(s), REPLY_MS));
}

void put_record(struct tls_session *s, uint8_t type, const void *content, size_t len, size_t pad)
{
        uint8_t *record = t_alloc(test_of(s), len + pad + TLS_RECORD_MORE);
        size_t n = tls_hand_seal(&s->hand, type, content, len, pad, record);

        if (n == 0)
                broke(test_of(s), "the record cannot be computed");
        put_bytes(s, record, n);
}

void put_icreq(struct tls_session *s, size_t pad)
{
        static const uint8_t icreq[ICREQ] = { [2] = ICREQ, [4] = ICREQ };

        put_record(s, TLS_DATA, icreq, sizeof(icreq), pad);
}

void put_update(struct tls_session *s, uint8_t request)
{
        const uint8_t update[] = { TLS_KEY_UPDATE, 0, 0, 1, request };

        put_record(s, TLS_HANDSHAKE, update, sizeof(update), 0);
        if (tls_hand_update(&s->hand, PARTY_HOST) < 0)
                broke(test_of(s), "the next keys cannot be computed");
}

/* --- what comes */

/* What the next record has, in s->content: its type; -1: none comes. Bytes that cannot be decrypted are an
 * alert in clear, or nothing that can be said anything of. */
static int next_content(struct tls_session *s, size_t *len)
{
        struct said *said = s->said;
        size_t at = next_record(said, s->at), n = tls_record_len(said->bytes + at, said->len - at);
        uint8_t type;
        ssize_t got;

        if (n == 0)
                return -1;
        s->at = at + n;
        if (said->bytes[at] == TLS_ALERTS && n >= HEADER + 2) {
                memcpy(s->content, said->bytes + at + HEADER, 2);
                *len = 2;
                return TLS_ALERTS;
        }
        got = tls_hand_open(&s->hand, said->bytes + at, n, s->content, &type);
        if (got < 0)
                fail(test_of(s), "records under the key of the session",
                     "one of %zu bytes that cannot be decrypted", n);
        *len = (size_t)got;
        return type;
}

/* Passes over tickets, follows KeyUpdate. */
static void take_message(struct tls_session *s, size_t len)
{
        if (len != MESSAGE + 1 || s->content[0] != TLS_KEY_UPDATE)
                return;
        s->updated = true;
        if (tls_hand_update(&s->hand, PARTY_CONTROLLER) < 0)
                broke(test_of(s), "the next keys cannot be computed");
}

bool hears_data(struct tls_session *s)
{
        size_t len;
        int type;

        while ((type = next_content(s, &len)) >= 0) {
                if (type == TLS_DATA && len > 0)
                        return true;
                if (type == TLS_HANDSHAKE)
                        take_message(s, len);
                if (type == TLS_ALERTS && len == 2) {
                        s->alerted = true;
                        s->alert = s->content[1];
                }
        }
        return false;
}

void want_session_works(struct tls_session *s, const char *expected)
{
        struct t *t = test_of(s);

        put_icreq(s, 0);
        if (!hears_data(s)) {
                broke_if_late(s->said->queue);
                if (s->alerted)
                        fail(t, expected, "alert %u", s->alert);
                fail(t, expected, "%s",
                     s->said->queue->conn->end == CONN_OPEN ? "nothing comes"
                                                            : "the connection ends");
        }
        want(t, s->content[0] == ICRESP_TYPE, expected, "a PDU of type %02Xh", s->content[0]);
}

void want_terminated(struct tls_session *s, unsigned alert, const char *expected)
{
        struct t *t = test_of(s);

        if (hears_data(s))
                fail(t, expected, "data: a PDU of type %02Xh", s->content[0]);
        want(t, is_ended(s->said), expected, "the connection stays");
        if (alert == ANY_ALERT)
                return;
        if (!s->alerted)
                lenient(t, "an alert that says why", "the connection ends without any");
        else if (s->alert != alert)
                lenient(t, "the alert that is printed for it", "alert %u, not %u", s->alert, alert);
}

/* --- the handshake */

/* Once a whole message is there, in s->content from *from on up to *end; bytes. */
static size_t next_message(struct tls_session *s, size_t *from, size_t *end)
{
        const uint8_t *p = s->content + *from;
        size_t n = *end - *from, len;

        if (n >= MESSAGE) {
                len = MESSAGE + (size_t)(p[1] << 16 | p[2] << 8 | p[3]);
                if (len <= n)
                        return len;
        }
        require(test_of(s), n == 0, "the server sends a message in several records");
        if (next_content(s, end) != TLS_HANDSHAKE)
                broke(test_of(s), "the server's Finished does not come");
        *from = 0;
        return next_message(s, from, end);
}

static void hear_flight(struct tls_session *s)
{
        uint8_t right[TLS_FINISHED_MAX];
        size_t from = 0, end = 0, len;
        bool finished = false;

        while (!finished) {
                const uint8_t *message;

                len = next_message(s, &from, &end);
                message = s->content + from;
                finished = message[0] == TLS_FINISHED;
                if (finished && (tls_hand_finished(&s->hand, PARTY_CONTROLLER, right) != len ||
                                 memcmp(right, message, len) != 0))
                        broke(test_of(s), "the server's Finished is not that of our key");
                if (tls_hand_heard(&s->hand, message, len) < 0)
                        broke(test_of(s), "the server's handshake is longer than we can keep");
                from += len;
        }
}

static void begin_keys(struct tls_session *s, const struct tls_psk *psk)
{
        const struct said *said = s->said;
        const struct tls_answer *a = &said->answer;
        const struct auth_slice client = { said->hello + HEADER, said->hello_len - HEADER },
                                server = { said->bytes + HEADER, a->len - HEADER },
                                share = { a->share, a->share_len };

        if (tls_hand_begin(&s->hand, PARTY_HOST, psk, &client, &server, a->group, &share) < 0)
                broke(test_of(s), "the keys of the session cannot be computed");
        s->at = a->len;
}

static struct said *say_taken(struct t *t, const struct tls_psk *psk)
{
        static const uint16_t groups[] = { TLS_NO_GROUP, TLS_X25519, TLS_SECP256R1, TLS_SECP384R1 };

        for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++) {
                struct said *s =
                    say_hello(t, HELLO(psk, .group = groups[i],
                                       .modes = groups[i] ? TLS_PSK_DHE_KE : TLS_PSK_KE));

                if (s->answer.kind == TLS_SERVER_HELLO && s->answer.psk)
                        return s;
        }
        skip(t, "the target takes neither PSK alone nor x25519, secp256r1 or secp384r1");
}

struct tls_session *begin_session(struct t *t)
{
        const struct tls_psk *psk = usual_psk(t);
        struct tls_session *s = t_alloc(t, sizeof(*s));

        s->said = say_taken(t, psk);
        begin_keys(s, psk);
        hear_flight(s);
        if (tls_hand_complete(&s->hand) < 0 || tls_hand_switch(&s->hand, PARTY_CONTROLLER) < 0)
                broke(t, "the keys of the session cannot be computed");
        return s;
}

void send_finished(struct tls_session *s, bool wrong)
{
        uint8_t message[TLS_FINISHED_MAX];
        size_t len = tls_hand_finished(&s->hand, PARTY_HOST, message);

        message[MESSAGE] ^= wrong;
        put_record(s, TLS_HANDSHAKE, message, len, 0);
        if (tls_hand_switch(&s->hand, PARTY_HOST) < 0)
                broke(test_of(s), "the keys of the session cannot be computed");
}

struct tls_session *open_session(struct t *t)
{
        struct tls_session *s = begin_session(t);

        send_finished(s, false);
        return s;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* NVMe/TCP 3.6.1.1 and RFC 8446: what a host makes of a target's TLS, from the ServerHello on. */
#include "host_judge.h"

static void play_ends(struct t *t);
static void play_ignores(struct t *t);
static void play_works(struct t *t);
static void play_careful(struct t *t);
static void play_closes(struct t *t);
static void play_truncated(struct t *t);

#define ACT(run_, rule_, id_, says_, ...)                                                          \
        PLAY_OF(run_, RULES(rule_), "tcp", id_, MUST, says_, TLS(PSK), __VA_ARGS__)
#define ENDS(rule, id, act_, alert_, says)                                                         \
        ACT(play_ends, rule, id, says, .act = (act_), .alert = (alert_))
#define IGNORES(rule, id, act_, says) ACT(play_ignores, rule, id, says, .act = (act_))
#define WORKS(rule, id, act_, says)   ACT(play_works, rule, id, says, .act = (act_))
#define CAREFUL(rule, id, act_, says) ACT(play_careful, rule, id, says, .act = (act_))
#define CLOSES(rule, id, act_, says)  ACT(play_closes, rule, id, says, .act = (act_))
/* No sentence says what the host has to make of it. */
#define OPEN(run, id, act_, says)                                                                  \
        PLAY_OF(run, NO_RULE, "tcp", id, INFO, says, TLS(PSK), .act = (act_))

/*
 * An alert is named where RFC 8446 prints one, and no sentence of it speaks for another: 6.2 has unsupported_extension for
 * what 4.2 calls an illegal_parameter, and missing_extension for what 4.2.11 does; a message of which nobody knows the type,
 * or ChangeCipherSpec with another value, is unexpected (4, 5) and an invalid enum (6).
 */
/* clang-format off */
static const struct host_case cases[] = {
        ENDS(TLS_HOST_ECHO, "tcp/tls/host-hello-session", TLS_ACT_SESSION, 47,
              "A ServerHello with another legacy_session_id ends the connection"),
        ENDS(TLS_HOST_SUITE, "tcp/tls/host-hello-suite", TLS_ACT_SUITE, 47,
              "A ServerHello with a cipher suite that was not offered ends the connection"),
        ENDS(TLS_HOST_COMPRESSION, "tcp/tls/host-hello-compression", TLS_ACT_COMPRESSION, 0,
              "A ServerHello with another compression method than null ends the connection"),
        ENDS(TLS_HOST_LENGTHS, "tcp/tls/host-hello-lengths", TLS_ACT_SHORT, 50,
              "A ServerHello with a byte after its extensions ends the connection"),
        ENDS(TLS_HOST_LENGTHS, "tcp/tls/host-hello-length-beyond", TLS_ACT_LONG, 50,
              "A ServerHello whose extensions are longer than it is ends the connection"),
        ENDS(TLS_HOST_SELECTED, "tcp/tls/host-hello-version", TLS_ACT_VERSION, 47,
              "A ServerHello with TLS 1.2 in supported_versions ends the connection"),
        ENDS(TLS_HOST_DOWNGRADE, "tcp/tls/host-downgrade", TLS_ACT_DOWNGRADE, 0,
              "A ServerHello of TLS 1.2 whose random says that TLS 1.3 was possible ends the connection"),
        ENDS(TLS_HOST_UNASKED, "tcp/tls/host-extension-unasked", TLS_ACT_UNASKED, 0,
              "A ServerHello with an extension that was not asked for ends the connection"),
        ENDS(TLS_HOST_UNASKED, "tcp/tls/host-extension-unasked-later", TLS_ACT_UNASKED_LATER, 110,
              "EncryptedExtensions with one that was not asked for end the connection"),
        ENDS(TLS_HOST_MISPLACED, "tcp/tls/host-extension-misplaced", TLS_ACT_MISPLACED, 0,
              "EncryptedExtensions with key_share end the connection"),
        ENDS(TLS_HOST_SELECTS, "tcp/tls/host-identity-range", TLS_ACT_IDENTITY, 47,
              "A selected identity beyond those offered ends the connection"),
        ENDS(TLS_HOST_UNPROVEN, "tcp/tls/host-psk-missing", TLS_ACT_NO_PSK, 0,
              "A handshake without a PSK and without a certificate ends the connection"),
        ENDS(TLS_HOST_GROUP, "tcp/tls/host-share-group", TLS_ACT_GROUP, 0,
              "A share of a group that was not offered ends the connection"),
        ENDS(TLS_HOST_POINT, "tcp/tls/host-share-value", TLS_ACT_POINT, 0,
              "A share of x25519 that is zero ends the connection"),
        ENDS(TLS_HOST_NEEDS_SHARE, "tcp/tls/host-share-missing", TLS_ACT_NO_SHARE, 0,
              "A ServerHello without a share, where the host wants one, ends the connection"),
        WORKS(TLS_HOST_RETRY, "tcp/tls/host-retry", TLS_ACT_RETRY,
              "The host works with a target that asks for another group by HelloRetryRequest"),
        CAREFUL(TLS_HOST_RETRY_SAME, "tcp/tls/host-retry-same", TLS_ACT_RETRY,
              "The second ClientHello differs in nothing but what HelloRetryRequest lets it change"),
        CAREFUL(TLS_HOST_COOKIE, "tcp/tls/host-cookie", TLS_ACT_COOKIE,
              "The second ClientHello has the cookie of HelloRetryRequest"),
        ENDS(TLS_HOST_RETRY_ONCE, "tcp/tls/host-retry-twice", TLS_ACT_RETRY_TWICE, 10,
              "A second HelloRetryRequest ends the connection"),
        ENDS(TLS_HOST_RETRY_SHARED, "tcp/tls/host-retry-shared", TLS_ACT_RETRY_SHARED, 47,
              "HelloRetryRequest for a group whose share was there ends the connection"),
        ENDS(TLS_HOST_RETRY_GROUP, "tcp/tls/host-retry-group", TLS_ACT_RETRY_GROUP, 47,
              "HelloRetryRequest for a group that was not offered ends the connection"),
        ENDS(TLS_HOST_RETRY_CHANGES, "tcp/tls/host-retry-nothing", TLS_ACT_RETRY_EMPTY, 47,
              "HelloRetryRequest that asks for no change ends the connection"),
        ENDS(TLS_HOST_RETRY_KEPT, "tcp/tls/host-retry-other-group", TLS_ACT_RETRY_OTHER, 47,
              "A ServerHello with another group than HelloRetryRequest ends the connection"),
        ENDS(TLS_HOST_ORDER, "tcp/tls/host-message-order", TLS_ACT_NO_EXTENSIONS, 10,
              "Finished without EncryptedExtensions ends the connection"),
        ENDS(TLS_HOST_ORDER, "tcp/tls/host-certificate-request", TLS_ACT_CERTIFICATE, 10,
              "CertificateRequest of a target that has taken the PSK ends the connection"),
        ENDS(TLS_HOST_ORDER, "tcp/tls/host-hello-missing", TLS_ACT_NO_HELLO, 10,
              "EncryptedExtensions in place of the ServerHello end the connection"),
        ENDS(TLS_HOST_ALIGNED, "tcp/tls/host-message-aligned", TLS_ACT_UNALIGNED, 10,
              "Bytes after the ServerHello in its record end the connection"),
        ENDS(TLS_HOST_ALIGNED, "tcp/tls/host-key-update-alone", TLS_ACT_UPDATE_MORE, 10,
              "A message after KeyUpdate in the same record ends the connection"),
        WORKS(TLS_HOST_PIECES, "tcp/tls/host-message-pieces", TLS_ACT_PIECES,
              "The host works with messages in records of 7 bytes, and data in records of 97"),
        ENDS(TLS_HOST_PROOF, "tcp/tls/host-finished", TLS_ACT_PROOF, 51,
              "A wrong Finished ends the connection"),
        ENDS(TLS_HOST_DATA_EARLY, "tcp/tls/host-data-early", TLS_ACT_EARLY, 10,
              "Data before the target's Finished ends the connection"),
        WORKS(TLS_HOST_CCS, "tcp/tls/host-change-cipher", TLS_ACT_CCS,
              "The host works with a target that sends ChangeCipherSpec three times"),
        ENDS(TLS_HOST_CCS_VALUE, "tcp/tls/host-change-cipher-value", TLS_ACT_CCS_VALUE, 0,
              "ChangeCipherSpec with a value of 2 ends the connection"),
        ENDS(TLS_HOST_TAG, "tcp/tls/host-record-tag", TLS_ACT_TAG, 20,
              "A record that cannot be decrypted ends the connection"),
        ENDS(TLS_HOST_REC_LONG, "tcp/tls/host-record-length", TLS_ACT_OVERFLOW, 22,
              "A record of 16,641 bytes ends the connection"),
        ENDS(TLS_HOST_REC_TYPE, "tcp/tls/host-record-type", TLS_ACT_TYPE, 0,
              "A PDU in clear after the handshake ends the connection"),
        ENDS(TLS_HOST_REC_TYPE, "tcp/tls/host-change-cipher-late", TLS_ACT_CCS_LATE, 10,
              "ChangeCipherSpec after the handshake ends the connection"),
        ENDS(TLS_HOST_REC_TYPE, "tcp/tls/host-plain-answer", TLS_ACT_PLAIN, 0,
              "ICResp in clear in place of the ServerHello ends the connection"),
        ENDS(TLS_HOST_REC_TYPE, "tcp/tls/host-hello-twice", TLS_ACT_TWO_HELLOS, 0,
              "A second ServerHello ends the connection"),
        ENDS(TLS_HOST_NO_TYPE, "tcp/tls/host-record-no-type", TLS_ACT_NO_TYPE, 10,
              "A record that is nothing but padding ends the connection"),
        ENDS(TLS_HOST_NO_MESSAGE, "tcp/tls/host-record-no-message", TLS_ACT_NO_MESSAGE, 10,
              "A handshake record without content ends the connection"),
        WORKS(TLS_HOST_PADDING, "tcp/tls/host-record-padding", TLS_ACT_PADDING,
              "The host works with padding in each record"),
        WORKS(TLS_HOST_EMPTY, "tcp/tls/host-record-empty", TLS_ACT_EMPTY,
              "The host works with two empty records before each record of data"),
        WORKS(TLS_HOST_UPDATE_KEYS, "tcp/tls/host-key-update", TLS_ACT_UPDATE,
              "The host works with a target that changes its keys by KeyUpdate four times"),
        CAREFUL(TLS_HOST_UPDATE_ANSWER, "tcp/tls/host-key-update-answer", TLS_ACT_UPDATE_ASKED,
              "A KeyUpdate that asks for it is answered by one before the next data"),
        ENDS(TLS_HOST_UPDATE_VALUE, "tcp/tls/host-key-update-value", TLS_ACT_UPDATE_VALUE, 47,
              "A KeyUpdate with a request_update of 2 ends the connection"),
        ENDS(TLS_HOST_UPDATE_EARLY, "tcp/tls/host-key-update-early", TLS_ACT_EARLY_UPDATE, 10,
              "KeyUpdate before the target's Finished ends the connection"),
        WORKS(TLS_HOST_TICKET, "tcp/tls/host-ticket", TLS_ACT_TICKET,
              "The host works with a target that sends NewSessionTicket with an unknown extension"),
        ENDS(TLS_HOST_LATE_CERTIFICATE, "tcp/tls/host-late-certificate-request", TLS_ACT_LATE_CERTIFICATE, 10,
              "CertificateRequest after the handshake ends the connection"),
        ENDS(TLS_HOST_RENEGOTIATION, "tcp/tls/host-hello-request", TLS_ACT_HELLO_REQUEST, 0,
              "HelloRequest of TLS 1.2 after the handshake ends the connection"),
        ENDS(TLS_HOST_ALERT_FATAL, "tcp/tls/host-alert-fatal", TLS_ACT_ALERT, 0,
              "A fatal alert ends the connection"),
        ENDS(TLS_HOST_ALERT_FATAL, "tcp/tls/host-alert-warning", TLS_ACT_ALERT_WARNING, 0,
              "An error alert with the level of a warning ends the connection"),
        ENDS(TLS_HOST_ALERT_FATAL, "tcp/tls/host-alert-unknown", TLS_ACT_ALERT_UNKNOWN, 0,
              "An alert that nobody knows ends the connection"),
        IGNORES(TLS_HOST_ALERT_CLOSED, "tcp/tls/host-data-after-close", TLS_ACT_CLOSED,
              "Data after close_notify is not taken"),
        CLOSES(TLS_HOST_ALERT_CLOSE, "tcp/tls/host-close-notify", TLS_ACT_USUAL,
              "A connection that the host closes has its close_notify"),
        OPEN(play_ends, "tcp/tls/host-extension-twice", TLS_ACT_TWICE,
             "A ServerHello with supported_versions twice ends the connection"),
        OPEN(play_works, "tcp/tls/host-key-update-many", TLS_ACT_UPDATES,
             "The host works with a target that sends KeyUpdate a hundred times in a row"),
        OPEN(play_truncated, "tcp/tls/host-no-close-notify", TLS_ACT_TRUNCATED,
             "The host reports an error when the connection ends without close_notify"),
};
/* clang-format on */

const struct host_case *tls_host_cases(size_t *count)
{
        *count = sizeof(cases) / sizeof(cases[0]);
        return cases;
}

static struct played play_act(struct t *t)
{
        struct played seen;

        want_tls(t);
        seen = play_own(t);
        if (!seen.tls.done)
                skip(t, "with what the host offers, this cannot be done");
        return seen;
}

/* --- what the host has to end the connection for --------------------------------------------------- */

static void judge_alert(struct t *t, const struct played *seen)
{
        uint8_t owed = play_of(t)->alert;

        if (owed == 0 || seen->accepted)
                return;
        if (seen->tls.alerted)
                lenient(t, "the alert that is printed for it", "alert %u, not %u", seen->tls.alert,
                        owed);
        else
                lenient(t, "an alert that says why", "the connection ends without any");
}

static const char ends[] = "the host ends the connection";

/* It can work with nothing that follows. */
static struct played play_broken(struct t *t)
{
        struct played seen;

        t->negative = true;
        seen = play_act(t);
        seen.accepted = seen.tls.alerted && seen.tls.alert == play_of(t)->alert;
        want_meaning(t, &seen);
        if (seen.tls.went_on)
                fail(t, ends, "the host continued on it");
        want_failure(t, &seen, ends);
        return seen;
}

static void play_ends(struct t *t)
{
        struct played seen = play_broken(t);

        if (seen.left)
                fail(t, ends, "the host left the connection open (and failed with %d: %s)",
                     seen.status, seen.says);
        judge_alert(t, &seen);
}

/* No sentence says when it has to end its own side of the connection. */
static void play_ignores(struct t *t)
{
        play_broken(t);
}

static void play_truncated(struct t *t)
{
        struct played seen;

        t->negative = true;
        seen = play_act(t);
        want_meaning(t, &seen);
        want_failure(t, &seen, "an error");
}

/* --- what it has to work with ---------------------------------------------------------------------- */

static void play_works(struct t *t)
{
        struct played seen = play_act(t);

        want_work(t, &seen);
}

static void play_careful(struct t *t)
{
        struct played seen = play_act(t);

        if (seen.tls.wrong)
                fail(t,
                     play_of(t)->act == TLS_ACT_UPDATE_ASKED ? "KeyUpdate before data"
                                                             : "the ClientHello as it has to be",
                     "%s", seen.tls.wrong);
        want_work(t, &seen);
}

static void play_closes(struct t *t)
{
        struct played seen = play_act(t);

        want_work(t, &seen);
        if (seen.tls.unclosed)
                fail(t, "close_notify before the end", "the end without it");
}

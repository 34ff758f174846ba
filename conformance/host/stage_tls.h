/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The TLS of a play's target, played by hand: a handshake with a pre-shared key and records as RFC 8446 has them, but for
 * one thing that is odd or wrong, and what the host makes of that.
 */
#ifndef NVMF_CONFORMANCE_STAGE_TLS_H
#define NVMF_CONFORMANCE_STAGE_TLS_H

#include "pdu/nvme/io/nvme_tls.h"

enum tls_act {               /* what is not as usual */
               TLS_ACT_NONE, /* the target's own TLS serves */
               TLS_ACT_USUAL,

               /* in the ServerHello */
               TLS_ACT_SESSION,     /* another legacy_session_id_echo */
               TLS_ACT_SUITE,       /* a suite that was not offered */
               TLS_ACT_COMPRESSION, /* legacy_compression_method 1 */
               TLS_ACT_LONG,        /* the length of all extensions goes beyond the message */
               TLS_ACT_SHORT,       /* ... and leaves a byte over */
               TLS_ACT_VERSION,     /* supported_versions has TLS 1.2 */
               TLS_ACT_DOWNGRADE,   /* TLS 1.2, and the random says that 1.3 was possible */
               TLS_ACT_UNASKED,     /* an extension that was not asked for */
               TLS_ACT_TWICE,       /* supported_versions twice */
               TLS_ACT_IDENTITY,    /* the identity after the last one that was offered */
               TLS_ACT_NO_PSK,      /* no PSK, and no certificate */
               TLS_ACT_GROUP,       /* a share of a group that was not offered */
               TLS_ACT_POINT,       /* a share of x25519 that is zero */
               TLS_ACT_NO_SHARE,    /* none, where the host wants one */
               TLS_ACT_PLAIN,       /* ICResp without TLS in its place */
               TLS_ACT_NO_HELLO,    /* EncryptedExtensions in its place */
               TLS_ACT_TWO_HELLOS,  /* it comes twice */

               /* a HelloRetryRequest */
               TLS_ACT_RETRY,        /* for another group that was offered */
               TLS_ACT_COOKIE,       /* with a cookie */
               TLS_ACT_RETRY_TWICE,  /* a second one after it */
               TLS_ACT_RETRY_SHARED, /* for a group whose share was there */
               TLS_ACT_RETRY_GROUP,  /* for one that was not offered */
               TLS_ACT_RETRY_EMPTY,  /* which asks for nothing */
               TLS_ACT_RETRY_OTHER,  /* and a ServerHello with another group */

               /* between ServerHello and Finished */
               TLS_ACT_MISPLACED,     /* EncryptedExtensions with key_share */
               TLS_ACT_UNASKED_LATER, /* ... with an extension that was not asked for */
               TLS_ACT_NO_EXTENSIONS, /* no EncryptedExtensions */
               TLS_ACT_CERTIFICATE,   /* CertificateRequest */
               TLS_ACT_PROOF,         /* Finished is wrong */
               TLS_ACT_EARLY,         /* data before Finished */
               TLS_ACT_EARLY_UPDATE,  /* KeyUpdate before Finished */
               TLS_ACT_UNALIGNED,     /* EncryptedExtensions in the record of the ServerHello */
               TLS_ACT_PIECES,        /* messages and data in records of a few bytes */
               TLS_ACT_CCS,           /* several ChangeCipherSpec records */
               TLS_ACT_CCS_VALUE,     /* one that has not 1 */

               /* before data */
               TLS_ACT_TAG,              /* a record that cannot be decrypted */
               TLS_ACT_OVERFLOW,         /* a record of 16,641 bytes */
               TLS_ACT_TYPE,             /* a PDU in clear */
               TLS_ACT_CCS_LATE,         /* ChangeCipherSpec */
               TLS_ACT_NO_TYPE,          /* a record that is nothing but padding */
               TLS_ACT_NO_MESSAGE,       /* a handshake record without content */
               TLS_ACT_PADDING,          /* padding in each record */
               TLS_ACT_EMPTY,            /* records of data without any */
               TLS_ACT_UPDATE,           /* KeyUpdate, again and again */
               TLS_ACT_UPDATE_ASKED,     /* KeyUpdate that asks for one */
               TLS_ACT_UPDATE_VALUE,     /* with a request_update of 2 */
               TLS_ACT_UPDATE_MORE,      /* with another message in its record */
               TLS_ACT_TICKET,           /* NewSessionTicket */
               TLS_ACT_LATE_CERTIFICATE, /* CertificateRequest */
               TLS_ACT_HELLO_REQUEST,    /* of TLS 1.2 */
               TLS_ACT_ALERT,            /* a fatal alert */
               TLS_ACT_ALERT_WARNING,    /* an error alert with the level of a warning */
               TLS_ACT_ALERT_UNKNOWN,    /* an alert that nobody knows */
               TLS_ACT_CLOSED,           /* close_notify, and data after it */
               TLS_ACT_UPDATES,          /* a hundred KeyUpdates in a row */
               TLS_ACT_TRUNCATED,        /* the end, without close_notify */
               TLS_ACTS,
};

/* What came of it, on all connections. */
struct tls_seen {
        bool done; /* it was done on one of them; there: */
        bool
            went_on; /* the host sent a message, data, or no TLS at all after what it had to end for */
        bool left;         /* ... or left one open until its target ended it */
        int64_t ended_ns;  /* loop_wall_ns() when it had ended the last one of them */
        bool alerted;      /* it sent an alert: */
        uint8_t alert;     /* the description of the first one of an error */
        bool unclosed;     /* one that had worked was closed without close_notify */
        const char *wrong; /* what else it did that it must not; NULL: nothing */
};

struct stage_tls { /* of a play */
        enum tls_act act;
        struct tls_seen *seen; /* the target's thread writes it */
};

/* For target_options.tls_take_over: serves the stream, if that can be done by hand for this host. */
bool stage_tls_take(void *stage_tls, const struct nvme_tls_server *server, struct stream *s,
                    const uint8_t *hello, size_t len);

#endif

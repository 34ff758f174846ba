/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers of TLS 1.3 (RFC 8446), as far as anybody here has to name them. */
#ifndef NVMF_CORE_TLS_H
#define NVMF_CORE_TLS_H

enum tls_content { TLS_CHANGE_CIPHER = 20, TLS_ALERTS, TLS_HANDSHAKE, TLS_DATA }; /* 5.1 */
enum tls_message {                                                                /* 4 */
                   TLS_NEW_TICKET = 4,
                   TLS_EXTENSIONS = 8,
                   TLS_CERTIFICATE_REQUEST = 13,
                   TLS_FINISHED = 20,
                   TLS_KEY_UPDATE = 24,
                   TLS_MESSAGE_HASH = 254,
};
enum tls_alert { /* 6 */
                 TLS_CLOSE_NOTIFY = 0,
                 TLS_UNEXPECTED_MESSAGE = 10,
                 TLS_BAD_RECORD_MAC = 20,
                 TLS_RECORD_OVERFLOW = 22,
                 TLS_HANDSHAKE_FAILURE = 40,
                 TLS_ILLEGAL_PARAMETER = 47,
                 TLS_USER_CANCELED = 90,
};

#endif

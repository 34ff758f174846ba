/* SPDX-License-Identifier: BSD-3-Clause */
/* Who reads what is inside TLS, for `pcap`: by which secrets. */
#ifndef NVMF_PCAP_SECRETS_H
#define NVMF_PCAP_SECRETS_H

#include "pcap/trace/trace.h"

struct trace_secrets {
        size_t size; /* bytes of what it keeps, zero at first */
        /* Values of --keylog and --tls-key. False: error says why. */
        bool (*take_keylog)(void *kept, const char *value, char *error, size_t size);
        bool (*take_tls_key)(void *kept, const char *value, char *error, size_t size);
        /* Those that the file brings itself, too: *tls reads with them; NULL: there are none. What it cannot read it tells
         * on stderr from now on. False: error says why. */
        bool (*open)(void *kept, const char *file, const struct trace_tls **tls, char *error,
                     size_t size);
        void (*close)(void *kept); /* forgets them, whatever became of the rest */
};

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The frames of a capture file, one after the other: pcapng, of interfaces with whatever link types
 * and snapshot lengths (capture_pcapng.h), and pcap, whose header libpcap reads, and all of it where
 * it is of an unusual version. Frames are handed out where they lie in the part that was read.
 * Sources: pcap-savefile(5); draft-ietf-opsawg-pcap.
 */
#ifndef NVMF_IO_CAPTURE_FILE_H
#define NVMF_IO_CAPTURE_FILE_H

#include <stddef.h>
#include <stdint.h>

enum { CAPTURED_MAX = 256 << 10 }; /* bytes of a frame; libpcap believes no more either */

struct capture_frame {
        const uint8_t *p; /* valid until the next one is asked for */
        size_t captured;  /* bytes at p */
        size_t whole;     /* ... and that it had on the wire */
        int64_t time_ns;  /* since 1970; 0 where the file says none, or a time beyond 2116 */
        int link;         /* DLT_ number: a file may have several */
        unsigned others;  /* records since the frame before that Wireshark counts, too */
};

struct capture_file;
/* "-": standard input. NULL with one line in err. */
struct capture_file *capture_file_open(const char *path, char *err, size_t err_size);
/* 1; 0: there are no more; -1: it is damaged here, capture_file_error() says how. */
int capture_file_next(struct capture_file *f, struct capture_frame *out);
const char *capture_file_error(const struct capture_file *f);
void capture_file_close(struct capture_file *f);

#endif

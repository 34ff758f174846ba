/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The frames of a capture file, one after the other. libpcap reads its header, and all of it where
 * it is a pcapng file or a pipe. The records of a plain pcap file are read in large parts and handed
 * out where they lie, which takes half the time. Sources: pcap-savefile(5); draft-ietf-opsawg-pcap.
 */
#ifndef NVMF_IO_CAPTURE_FILE_H
#define NVMF_IO_CAPTURE_FILE_H

#include <stddef.h>
#include <stdint.h>

struct capture_frame {
        const uint8_t *p; /* valid until the next one is asked for */
        size_t captured;  /* bytes at p */
        size_t whole;     /* ... and that it had on the wire */
        int64_t time_ns;  /* since 1970; 0 where the file says a time beyond 2116 */
};

struct capture_file;
/* "-": standard input. NULL with one line in err. */
struct capture_file *capture_file_open(const char *path, char *err, size_t err_size);
/* DLT_ number of its frames. */
int capture_file_link(const struct capture_file *f);
/* 1; 0: there are no more; -1: it is damaged here, capture_file_error() says how. */
int capture_file_next(struct capture_file *f, struct capture_frame *out);
const char *capture_file_error(const struct capture_file *f);
void capture_file_close(struct capture_file *f);

#endif

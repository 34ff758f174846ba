/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Capture files made up around the bytes of TCP streams, with Ethernet and IP headers, right
 * checksums and sequence numbers, so that Wireshark reassembles and dissects them. By itself it
 * takes only port 4420 for NVMe/TCP. A path that ends in .pcapng makes a pcapng file, which holds
 * comments; any other a classic pcap file. Several threads may write, each its own connections.
 */
#ifndef NVMF_IO_CAPTURE_WRITER_H
#define NVMF_IO_CAPTURE_WRITER_H

#include <stddef.h>
#include <sys/socket.h>

#include "capture.h"

struct capture_writer;

/* NULL with one line in err. */
struct capture_writer *capture_writer_open(const char *path, char *err, size_t err_size);
/*
 * Before the first packet: a file has at most so many bytes (0: no limit). The packet that does not fit
 * goes into the next of a ring of files, which are then PATH, PATH.1, ... PATH.(files - 1), and from PATH
 * over again; each begins as a capture of its own. With one file the recording has ended, and the log
 * says so.
 */
void capture_writer_limit(struct capture_writer *w, uint64_t bytes, unsigned files);
/* 0, or -1 when something could not be written (errno). Frees w. */
int capture_writer_close(struct capture_writer *w);

/* Packets that it has written until now, which is the number of the last frame; in which file of the
 * ring, 0: the first. */
uint64_t capture_writer_frames(struct capture_writer *w, unsigned *file);

/* One connection that is being written; the caller's memory, zero at first. Times are ns since
 * 1970. */
struct capture_flow {
        bool midstream; /* set before: it began earlier, its handshake is not written */
        struct capture_end end[2];
        uint32_t seq[2];     /* of the next byte of each side */
        const char *comment; /* goes with the next packet, where the format has comments; or NULL */
};

/* Its handshake; f->comment is set before. The ends are 10.0.0.1 and 10.0.0.2:4420 unless both
 * addresses are IP of one family. */
void capture_flow_open(struct capture_writer *w, struct capture_flow *f,
                       const struct sockaddr *host, const struct sockaddr *controller,
                       int64_t time_ns);
/* n bytes that `sender` sent. */
void capture_flow_data(struct capture_writer *w, struct capture_flow *f, enum party sender,
                       const void *p, size_t n, int64_t time_ns);
/* `who` ends it: by RST, or by a FIN that the other side returns. */
void capture_flow_close(struct capture_writer *w, struct capture_flow *f, enum party who,
                        bool reset, int64_t time_ns);

#endif

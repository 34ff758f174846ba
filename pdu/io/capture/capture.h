/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TCP streams and UDP datagrams out of capture files, pcap and pcapng (packet.h says of which links and
 * tunnels). Each direction of each TCP connection is handed out in order and once, whatever was
 * retransmitted or reordered; what the capture does not hold (drops, a cut snapshot) is reported as a
 * gap: as soon as the other side acknowledges it, or when too much waits behind it. Where frames of the
 * two directions were caught out of order, those that are acknowledged are taken first, if they are
 * among the next 64. Of bytes sent twice the first ones count. Memory does not grow with the capture.
 */
#ifndef NVMF_IO_CAPTURE_H
#define NVMF_IO_CAPTURE_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#include "pdu/core/rule.h"

struct capture_end {
        uint8_t family; /* AF_INET, AF_INET6 */
        uint8_t addr[16];
        uint16_t port;
};
enum { CAPTURE_END_TEXT = INET6_ADDRSTRLEN + 8 };
/* "192.0.2.1:4420", "[2001:db8::1]:4420" into buf; returns it. */
const char *capture_end_text(const struct capture_end *e, char buf[CAPTURE_END_TEXT]);

/* For tables of what a capture names: the key is drawn by each process, so that nobody who makes a
 * capture can make all names meet in one place. `more` is hashed with the address and the port. */
uint64_t capture_end_hash(const struct capture_end *e, uint64_t more);

/* A connection in the capture. */
struct capture_conn {
        unsigned number;           /* from 1, in order of appearance */
        struct capture_end end[2]; /* [PARTY_HOST] opened it */
        bool midstream; /* begins before the capture: who opened it is taken from the ports */
        bool accepted;  /* the controller's SYN was seen */
        void *user;     /* the caller's; NULL at first */
};

/* Where in the capture something was seen. */
struct capture_place {
        uint64_t frame;  /* from 1, as Wireshark counts */
        int64_t time_ns; /* since 1970 */
        /* The frame was stamped by a clock of its own (Linux leaves time since boot in some frames
         * of software RoCE): time_ns is that clock aligned with the frames around. */
        bool time_guessed;
};

/* Why a packet is not read. */
enum capture_skip {
        SKIP_FRAGMENT, /* of an IP datagram */
        SKIP_CUT,      /* the snapshot cut its headers off */
        SKIP_LINK,     /* its link type is not known, that of others is */
};

struct packet;

/* Called in the order of the capture, or what that should be; any but data and service may be NULL. Bytes are valid during the call. */
struct capture_ops {
        void (*opened)(void *user, struct capture_conn *c, const struct capture_place *at);
        /* The next n > 0 bytes that `sender` sent. */
        void (*data)(void *user, struct capture_conn *c, enum party sender, const uint8_t *p,
                     size_t n, const struct capture_place *at);
        /* n bytes (0: nobody knows how many) that `sender` sent are not in the capture; data goes on
         * after them. */
        void (*gap)(void *user, struct capture_conn *c, enum party sender, uint32_t n,
                    const struct capture_place *at);
        /* Both sides said FIN, one said RST within 16 MiB of what was awaited, another connection between the same ports
         * was answered (a SYN alone ends nothing: RFC 9293, 3.10.7.4), or the capture is over. Where only the reader has
         * no room for it any more, a gap of each side comes before. */
        void (*closed)(void *user, struct capture_conn *c, const struct capture_place *at);
        /* A UDP datagram. */
        void (*datagram)(void *user, const struct packet *p, const struct capture_place *at);
        /* A packet that cannot be read. */
        void (*skipped)(void *user, enum capture_skip why, const struct capture_place *at);
        /* Whether controllers listen there. */
        bool (*service)(void *user, uint16_t port);
        /* Each packet, before what comes of it. */
        void (*packet)(void *user, const struct capture_place *at);
};

/*
 * Reads `path` ("-": standard input) from end to end. 0, or -1 with one line in err: the file
 * cannot be read, is damaged (what stands before the damage was handed out), or none of its frames has
 * a link type that is known.
 */
int capture_read(const char *path, const struct capture_ops *ops, void *user, char *err,
                 size_t err_size);

#endif

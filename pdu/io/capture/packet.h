/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One captured packet, from its link layer to TCP or UDP: Ethernet (VLAN tags and PPPoE sessions
 * too), Linux cooked v1 and v2, raw IP and loopback; IPv4 and IPv6. Lengths that lie are cut to what
 * was captured.
 *
 * Frames in tunnels are read as if they had been caught outside: VXLAN, Geneve, GRE (ERSPAN of types
 * I to III too), IP in IP, MPLS with IP or an Ethernet pseudowire; within one another, too, up to five
 * IP headers. A UDP port alone is no proof: where the header after it is not a tunnel's, or holds
 * nothing that is known, it is a datagram like others. Addresses and ports are those of the innermost
 * headers; which tunnel it was is not told, so two networks (VNIs) that use the same inner addresses
 * and ports at the same time are taken for one. Where a mirror or a packet broker truncated a
 * frame, whatever length the capture gives it, the innermost IP header says how much there was.
 */
#ifndef NVMF_IO_PACKET_H
#define NVMF_IO_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "capture.h"

enum packet_kind {
        PACKET_TCP,
        PACKET_UDP,
        PACKET_FRAGMENT, /* of an IP datagram; not put together again */
        PACKET_CUT,      /* IP whose headers the snapshot does not hold */
        PACKET_LINK,     /* of a link type that is not known */
        PACKET_OTHER,
};

enum tcp_flags { TCP_FIN = 1, TCP_SYN = 2, TCP_RST = 4, TCP_ACK = 16 };

struct packet {
        struct capture_end from, to;
        uint32_t seq, ack; /* TCP */
        unsigned flags;    /* TCP: enum tcp_flags */
        const uint8_t *data;
        size_t n;     /* bytes of data in the capture */
        size_t whole; /* bytes of data in the packet */
};

struct packet_link;
/* By pcap's DLT_ number; NULL: not known. */
const struct packet_link *packet_link(int dlt);
/* A packet of `captured` bytes that had `whole` on the wire; link may be NULL (PACKET_LINK). Of those that
 * are neither TCP nor UDP nothing is set but, with IP, the addresses. */
enum packet_kind packet_parse(const struct packet_link *link, const uint8_t *p, size_t captured,
                              size_t whole, struct packet *out);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * NVMe/TCP PDUs: NVMe/TCP Transport Specification 1.0, section 3.6.2, figures 18 to 28.
 *
 * Layout on the wire: HDR (HLEN bytes) | HDGST (4, if on) | PAD | DATA (at PDO) | DDGST (4, if on).
 * HLEN does not count HDGST; PLEN counts everything.
 */
#ifndef NVMF_WIRE_TCP_H
#define NVMF_WIRE_TCP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nvme.h"
#include "pdu/core/le.h"
#include "rules.h"

enum pdu_type {
        PDU_ICREQ = 0x00,
        PDU_ICRESP = 0x01,
        PDU_H2C_TERM = 0x02,
        PDU_C2H_TERM = 0x03,
        PDU_CAPSULE_CMD = 0x04,
        PDU_CAPSULE_RESP = 0x05,
        PDU_H2C_DATA = 0x06,
        PDU_C2H_DATA = 0x07,
        PDU_R2T = 0x09, /* 08h is unassigned */
        PDU_KDREQ = 0x0a,
        PDU_KDRESP = 0x0b,
        PDU_TYPES
};

/* common header, byte 1 */
enum pdu_flags {
        PDU_HDGSTF = 1 << 0,
        PDU_DDGSTF = 1 << 1,
        PDU_LAST = 1 << 2,
        PDU_SUCCESS = 1 << 3,
        PDU_KDCONN = 1 << 7, /* ICReq of TCP 1.1 and later */
};

/* Fatal Error Status, figures 22 and 23 */
enum pdu_fes {
        FES_INVALID_HEADER_FIELD = 0x01,
        FES_SEQUENCE_ERROR = 0x02,
        FES_HEADER_DIGEST_ERROR = 0x03,
        FES_DATA_OUT_OF_RANGE = 0x04,
        FES_LIMIT_EXCEEDED = 0x05, /* host: R2T Limit; controller: Data Transfer Limit */
        FES_UNSUPPORTED_PARAMETER = 0x06,
};

enum {
        PDU_DGST_HEADER = 1 << 0, /* ICReq/ICResp DGST */
        PDU_DGST_DATA = 1 << 1,
        PDU_DIGEST_LEN = 4,
        PDU_PDA_MAX = 31, /* HPDA, CPDA: alignment is (value + 1) * 4 bytes */
        PDU_HEADER_MAX = 128,
        PDU_PDO_MAX = 144, /* CapsuleCmd with HDGST at CPDA 17 */
        PDU_TERM_DATA_MAX = 128,
        PDU_TERM_MAX = 24 + PDU_TERM_DATA_MAX,
        PDU_ADMIN_IN_CAPSULE = 8192, /* what every controller takes on the admin queue, 3.3.1 */
        PDU_MAXH2CDATA_MIN = 4096,   /* a "should" of 3.6.2.3 that hosts enforce */
        NVME_TCP_PORT = 4420,
        NVME_DISC_PORT = 8009,
};

struct pdu_ch {
        uint8_t type, flags, hlen, pdo;
        le32_t plen;
};

struct pdu_icreq {
        struct pdu_ch ch;
        le16_t pfv;
        uint8_t hpda, dgst;
        le32_t maxr2t; /* 0's based */
        uint8_t rsvd[112];
};

struct pdu_icresp {
        struct pdu_ch ch;
        le16_t pfv;
        uint8_t cpda, dgst;
        le32_t maxh2cdata; /* bytes, not 0's based */
        uint8_t rsvd[112];
};

struct pdu_term { /* H2CTermReq and C2HTermReq; DATA (the offending header) follows at 24 */
        struct pdu_ch ch;
        le16_t fes;
        le32_t fei; /* bytes 10..13: unaligned */
        uint8_t rsvd[10];
};

struct pdu_capsule_cmd {
        struct pdu_ch ch;
        union sqe sqe;
};

struct pdu_capsule_resp {
        struct pdu_ch ch;
        struct cqe cqe;
};

struct pdu_data { /* H2CData, C2HData (TTAG reserved); R2T: offset is R2TO, length is R2TL */
        struct pdu_ch ch;
        le16_t cccid, ttag;
        le32_t offset, length; /* DATAO, DATAL: bytes */
        uint8_t rsvd[4];
};

union pdu { /* the header of any PDU, without HDGST */
        struct pdu_ch ch;
        struct pdu_icreq icreq;
        struct pdu_icresp icresp;
        struct pdu_term term;
        struct pdu_capsule_cmd cmd;
        struct pdu_capsule_resp resp;
        struct pdu_data data;
        uint8_t bytes[PDU_HEADER_MAX];
};

_Static_assert(sizeof(struct pdu_ch) == 8, "common header");
_Static_assert(sizeof(struct pdu_icreq) == 128 && sizeof(struct pdu_icresp) == 128, "IC PDUs");
_Static_assert(offsetof(struct pdu_icreq, hpda) == 10, "HPDA");
_Static_assert(offsetof(struct pdu_icreq, dgst) == 11, "DGST");
_Static_assert(offsetof(struct pdu_icreq, maxr2t) == 12, "MAXR2T");
_Static_assert(sizeof(struct pdu_term) == 24 && offsetof(struct pdu_term, fei) == 10, "TermReq");
_Static_assert(sizeof(struct pdu_capsule_cmd) == 72, "CapsuleCmd");
_Static_assert(sizeof(struct pdu_capsule_resp) == 24, "CapsuleResp");
_Static_assert(sizeof(struct pdu_data) == 24 && offsetof(struct pdu_data, ttag) == 10, "data PDU");
_Static_assert(offsetof(struct pdu_data, offset) == 12, "DATAO");
_Static_assert(offsetof(struct pdu_data, length) == 16, "DATAL");
_Static_assert(sizeof(union pdu) == PDU_HEADER_MAX, "any header");

/* What is fixed for a type of PDU (figure 10). */
struct pdu_info {
        const char *name; /* "ICReq", ...; KDReq and KDResp are known by name only (hlen 0) */
        enum party sender;
        uint8_t hlen;
        uint8_t flags;  /* legal bits */
        bool has_hdgst; /* carries HDGST when negotiated */
        bool has_data;  /* may carry data at PDO, and DDGST with it */
};

/* NULL for a type that no specification assigns. */
const struct pdu_info *pdu_info(uint8_t type);
const char *pdu_fes_name(uint16_t fes, enum party sender); /* "?" if reserved */

/*
 * What the two ICs settled for PDUs that one side sends: the format of one direction. All zero
 * before the IC exchange.
 */
struct pdu_format {
        bool hdgst, ddgst;
        uint8_t pda; /* what the receiver asked for: HPDA for controller->host PDUs, CPDA else */
        /* Bounds PLEN for memory's sake; 0: no bound. In-capsule data and MAXH2CDATA have bounds of
         * their own, which the tracker checks. */
        uint32_t max_data;
};

/* Bytes of the header with its digest. */
uint32_t pdu_head_len(const union pdu *h, const struct pdu_format *f);
/* PDO for a PDU that carries data: pdu_head_len rounded up once to the alignment. */
uint8_t pdu_data_offset(const union pdu *h, const struct pdu_format *f);
/*
 * Where DATA begins, from byte 0 of the PDU, and its length, by PLEN, PDO and digests; 0 bytes if
 * there is none. The DATA of a TermReq is at 24. Also with rules waived the two stay within PLEN
 * and after the head; bytes of PLEN that nothing accounts for may then follow.
 */
uint32_t pdu_data_start(const union pdu *h, const struct pdu_format *f);
uint32_t pdu_data_len(const union pdu *h, const struct pdu_format *f);
/* Whether DDGST ends this PDU: digest on, and data is there. */
bool pdu_has_ddgst(const union pdu *h, const struct pdu_format *f);

/*
 * Encode: fills in HLEN, PDO, PLEN and the digest flags of a header whose type and own fields are
 * set, for data_len bytes of data (0: PDO 0). LAST and SUCCESS of ch.flags are kept.
 */
void pdu_lay_out(union pdu *h, const struct pdu_format *f, uint32_t data_len);

/*
 * Validate the common header (first 8 bytes) of a PDU that `sender` sent: type, direction, HLEN,
 * PLEN, and PDO against lengths and alignment, flags. It needs only those 8 bytes, so that the
 * rest is never read on a lie. First fault by lowest offset; rule 0 if none. Rules in `waived`
 * (may be NULL) are not checked. A faulty TermReq is never answered (REACT_CLOSE).
 */
struct fault pdu_check_common(const struct pdu_ch *ch, enum party sender,
                              const struct pdu_format *f, const struct rule_set *waived);

/*
 * Validate the fields after the common header that need no memory of other PDUs: PFV, HPDA/CPDA,
 * MAXH2CDATA, FES of C2HTermReq, SUCCESS without LAST, DATAL against PLEN, DATAO/DATAL dword
 * multiples, empty transfers. (Whether ICResp enables a digest unasked takes the ICReq to know.)
 * The rules on lengths in dwords come last: who knows that the command counts bytes may drop them.
 */
struct fault pdu_check_header(const union pdu *h, const struct pdu_format *f,
                              const struct rule_set *waived);

/*
 * The first rule broken of those that a receiver has to overlook and a judge of captures notes:
 * reserved flags and bytes (a DDGSTF without data among them), needless padding, HLEN of TermReq.
 */
struct fault pdu_check_overlooked(const union pdu *h, enum party sender,
                                  const struct pdu_format *f);

#endif

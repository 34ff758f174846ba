/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connection tracking: what both sides of one NVMe/TCP connection have said so far, and every
 * transport rule that needs memory of it. One model serves all uses: an endpoint feeds it what it
 * sends and what it receives, a capture check feeds it both directions, the suite feeds it what the
 * target says; each PDU gets the first rule it breaks, or none.
 *
 * It allocates only in track_init() and when Connect says the queue's size.
 */
#ifndef NVMF_MACHINE_TRACK_H
#define NVMF_MACHINE_TRACK_H

#include "pdu/wire/fabrics.h"
#include "pdu/wire/tcp.h"

struct track_cmd { /* a command that is outstanding */
        uint16_t cid;
        uint8_t opc, fctype; /* fctype: when opc is NVME_FABRICS */
        uint8_t sgl_id;
        bool in_use;
        bool h2c, c2h;    /* direction of data in the command data buffer (SGL_TRANSPORT) */
        bool last_seen;   /* C2HData with LAST_PDU went by */
        bool ddgst_bad;   /* some data of it failed its digest */
        bool answered;    /* a response went by, R2Ts of it are still open */
        uint16_t r2ts;    /* outstanding R2Ts */
        uint32_t buffer;  /* bytes of the command data buffer */
        uint32_t c2h_next; /* DATAO that the next C2HData has to have: bytes delivered so far */
        uint32_t r2t_next; /* R2TO that the next R2T has to have */
        uint32_t h2c_got;  /* bytes of H2CData so far */
        void *user;        /* the endpoint's own record of the command */
};

struct track_r2t {
        uint16_t ttag;
        bool in_use;
        struct track_cmd *cmd;
        uint32_t offset, length; /* R2TO, R2TL */
        uint32_t next;           /* DATAO that the next H2CData has to have */
};

struct track;

struct track_limits {
        uint16_t depth_max; /* entries of a queue, above: FAB_OVERRUN; bounds the memory */
        uint16_t r2ts_max;  /* outstanding R2Ts of the connection */
};

/* NULL if there is no memory. waived may be NULL and must outlive the track. */
struct track *track_new(const struct track_limits *limits, const struct rule_set *waived);
void track_free(struct track *t);

/*
 * At FRAMER_HEADER of a PDU that `sender` sent, or before an endpoint sends one: the first rule
 * it breaks. Without a fault (or with the rule waived, as far as that is safe) the model moves on.
 */
struct fault track_header(struct track *t, enum party sender, const union pdu *h);

/* At FRAMER_PDU: what only the whole PDU shows. A bad DDGST is a fault (not fatal: REACT_STATUS) and
 * is remembered in the command. */
struct fault track_pdu(struct track *t, enum party sender, const union pdu *h, bool ddgst_bad);

/* The formats in force; all zero before ICResp. */
const struct pdu_format *track_format(const struct track *t, enum party sender);
bool track_live(const struct track *t);        /* ICResp went by */
uint32_t track_maxh2cdata(const struct track *t); /* bytes */
uint32_t track_maxr2t(const struct track *t);     /* count (MAXR2T + 1, saturated) */
int track_qid(const struct track *t);          /* of Connect; -1 before it */
bool track_sqfc_disabled(const struct track *t);
unsigned track_outstanding(const struct track *t);
unsigned track_r2ts(const struct track *t); /* outstanding ones of all commands */

/*
 * For a session whose IC exchange was not seen (capture that starts mid-stream): take these as
 * negotiated.
 */
void track_assume(struct track *t, const struct pdu_format *h2c, const struct pdu_format *c2h,
                  uint32_t maxh2cdata, uint32_t maxr2t);

/* NULL if not outstanding. The pointer holds until the command ends. */
struct track_cmd *track_cmd(struct track *t, uint16_t cid);
struct track_r2t *track_r2t(struct track *t, uint16_t ttag);

/* The command of the PDU that the last track_header() saw (CapsuleCmd, CapsuleResp, C2HData, R2T,
 * H2CData); NULL if none. For CapsuleResp and SUCCESS the command has ended: valid until the next
 * call. */
struct track_cmd *track_last_cmd(struct track *t);

/* A TTAG that no outstanding R2T has. */
uint16_t track_free_ttag(struct track *t);

#endif

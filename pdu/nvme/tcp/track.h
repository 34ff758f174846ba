/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connection tracking: what both sides of one NVMe/TCP connection have said so far, and every rule
 * that needs memory of it. One model serves all uses: an endpoint feeds it what it sends and what
 * it receives, a capture check feeds it both directions, the suite feeds it what the target says.
 *
 * What it tells of a PDU is of two kinds. The fault that track_header() returns breaks a rule whose
 * prescribed reaction ends the connection (REACT_TERM, REACT_CLOSE, REACT_ANY); there is at most
 * one and whoever receives the PDU has to act on it. Findings are the rest: requirements that a
 * receiver overlooks or cannot act upon (REACT_NONE, REACT_TOLERATE, what is wrong with a TermReq),
 * and those that the controller answers with a status (REACT_STATUS, REACT_REFUSE), which
 * it decides for itself. Findings are for judges, who ask for them in track_limits and read them
 * with track_findings().
 *
 * Memory is taken in track_new() and once more when a Connect succeeds, for the queue's size.
 */
#ifndef NVMF_MACHINE_TRACK_H
#define NVMF_MACHINE_TRACK_H

#include "pdu/nvme/machine/queue_track.h"
#include "pdu/nvme/wire/tcp.h"

struct track_cmd { /* a command that is outstanding */
        union {
                struct queue_cmd queue;
                struct { /* its first members */
                        uint16_t cid;
                        uint8_t opc, fctype;
                };
        };
        uint8_t sgl_id;
        bool h2c, c2h;     /* direction of data in the command data buffer (SGL_TRANSPORT) */
        bool counts_bytes; /* its data need not be dwords: Security, Authentication */
        bool last_seen;    /* C2HData with LAST_PDU went by */
        bool ddgst_bad;    /* some data of it failed its digest */
        uint32_t r2ts;     /* outstanding R2Ts */
        uint32_t buffer;   /* bytes of the command data buffer */
        uint32_t needs;    /* bytes a success has to deliver, if the SQE alone tells; else 0 */
        uint32_t c2h_next; /* DATAO that the next C2HData has to have: bytes delivered so far */
        uint32_t r2t_next; /* R2TO that the next R2T has to have */
        uint32_t h2c_got;  /* bytes of H2CData so far */
        void *user;        /* the endpoint's own record of the command */
};

_Static_assert(offsetof(struct track_cmd, fctype) == offsetof(struct queue_cmd, fctype), "CID");

struct track_r2t { /* one that is not served yet */
        uint16_t ttag, cid;
        struct track_cmd *cmd;   /* NULL: answered meanwhile, what still comes is to be dropped */
        uint32_t offset, length; /* R2TO, R2TL */
        uint32_t next;           /* DATAO that the next H2CData has to have */
};

struct track;

struct track_limits {
        uint16_t depth_max; /* entries of a queue; more are an overrun. 0: 1024 */
        uint16_t r2ts_max;  /* outstanding R2Ts of the connection; more are TCP_R2T_LIMIT. 0: 256 */
        bool findings;      /* look for what ends nothing, too */
        bool passive;       /* a capture: where the two directions may race, one more is allowed */
};

/* NULL if there is no memory. waived may be NULL and must outlive the track. */
struct track *track_new(const struct track_limits *limits, const struct rule_set *waived);
void track_free(struct track *t);

/*
 * At FRAMER_HEADER of a PDU that `sender` sent, or before an endpoint sends one: the first rule
 * it breaks that ends the connection. Without a fault the model moves on; also where the rule is
 * waived, as far as that is safe (see track.c for each). A PDU with a fault changes nothing.
 */
struct fault track_header(struct track *t, enum party sender, const union pdu *h);

/* At FRAMER_PDU: what only the whole PDU shows. A bad DDGST is a fault (TCP_DDGST_*, REACT_STATUS:
 * not fatal, and a finding as well) and is remembered in the command. */
struct fault track_pdu(struct track *t, enum party sender, const union pdu *h, bool ddgst_bad);

/* Findings of the last track_header() and of the track_pdu() that belongs to it. */
const struct rule_set *track_findings(const struct track *t);
/* The gravest of them: must before should before info; rule RULE_NONE if there is none. */
struct fault track_warning(const struct track *t);

/* The formats in force; all zero before ICResp. */
const struct pdu_format *track_format(const struct track *t, enum party sender);
bool track_live(const struct track *t);           /* ICResp went by */
uint32_t track_maxh2cdata(const struct track *t); /* bytes; FFFFFFFFh before ICResp */
uint32_t track_maxr2t(const struct track *t);     /* count (MAXR2T + 1, saturated) */
int track_qid(const struct track *t);             /* of Connect; -1 before it */
unsigned track_outstanding(const struct track *t);
unsigned track_r2ts(const struct track *t); /* outstanding ones of all commands */

/* Bytes of in-capsule data that the controller takes on this I/O queue: IOCCSZ * 16 - 64, 0: none.
 * Until it is told, capsules of I/O commands are not measured. */
void track_set_in_capsule(struct track *t, uint32_t bytes);

/*
 * For a session whose beginning was not seen (a capture that starts mid-stream): take these as
 * negotiated. Queue, size and flow control stay unknown and are not judged. -1: out of memory.
 */
int track_assume(struct track *t, const struct pdu_format *h2c, const struct pdu_format *c2h,
                 uint32_t maxh2cdata, uint32_t maxr2t);

/* NULL if not outstanding. The pointer holds until the command ends. */
struct track_cmd *track_cmd(struct track *t, uint16_t cid);
/* The same, but it holds until the next R2T at most. */
struct track_r2t *track_r2t(struct track *t, uint16_t ttag);

/* The command of the PDU that the last track_header() saw (CapsuleCmd, CapsuleResp, C2HData, R2T,
 * H2CData); NULL if none, or at a fault. With CapsuleResp and SUCCESS the command has ended: valid
 * until the next track_header() for the same sender. */
struct track_cmd *track_last_cmd(struct track *t);

/* The controller ended this command and will say nothing of it: R2Ts of it give way to others, as
 * those of a command that was answered do. */
void track_release(struct track *t, struct track_cmd *cmd);

/* A TTAG that no outstanding R2T has. */
uint16_t track_free_ttag(struct track *t);

#endif

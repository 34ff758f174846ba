/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The words that the cases of NVMe over Fabrics are written in. A case connects, acts and expects:
 *
 *      CASE("tcp/h2cdata/ttag-unknown", MUST, RULES(TCP_H2C_TTAG),
 *           "H2CData with a TTAG that no R2T gave ends the connection", .writes = true)
 *      {
 *              struct queue *q = io_queue(t);
 *              struct r2t r = expect_r2t(q, send_write(q, .bytes = KIB(8)));
 *
 *              send_h2c(q, r, .ttag = r.ttag + 1);
 *              expect_term(q);
 *      }
 *
 * What expect_term() and expect_refusal() accept stands in the rulebook, with the case's first rule.
 * Every wait has a deadline. Words that take named arguments (.bytes = ...) have a default for each,
 * which is the legal one.
 */
#ifndef NVMF_CONFORMANCE_CASE_H
#define NVMF_CONFORMANCE_CASE_H

#include "pdu/nvme/wire/fabrics.h"
#include "pdu/nvme/wire/rules.h" /* takes its rows' MUST back, and has to come first */
#include "pdu/nvme/wire/tcp.h"

#include "conformance/engine/test_case.h"

extern const struct conform_family nvme_conform;
#define CASE_FAMILY nvme_conform
#define KIB(n)      ((n)*1024u)

/* What a case needs, as .needs = ... in CASE(). */
enum {
        DISCOVERY = 1, /* the discovery service, which it is about: skipped where there is none */
        ANY_CONTROLLER = 2, /* no more than any controller has: others of base/ are skipped on those
                             * without I/O */
};

/* Defaults are named first in the words' macros and named again by the case. */
#ifdef __clang__
#pragma clang diagnostic ignored "-Winitializer-overrides"
#else
#pragma GCC diagnostic ignored "-Woverride-init"
#pragma GCC diagnostic ignored "-Woverride-init-side-effects"
#endif

/* --- what the target can do ---------------------------------------------------------------- */

/* Found out once, before the first case. What the probe did not come to know is zero. */
struct caps {
        enum {
                REACH_NONE,       /* no queue could be connected */
                REACH_CONNECT,    /* Connect of an admin queue succeeds */
                REACH_PROPERTIES, /* the controller tells CAP and VS */
                REACH_CONTROLLER  /* it can be enabled and identified */
        } reach;
        uint64_t cap; /* property CAP of the I/O controller */
        uint32_t vs;
        uint32_t crto;       /* property CRTO; 0: it has none */
        uint32_t in_capsule; /* bytes of data in an I/O capsule; 0: none */
        uint16_t icdoff;     /* RDMA: where they begin, 16-byte units after the SQE */
        uint8_t msdbd;       /* RDMA: data block descriptors of a command; 0: no limit */
        uint16_t crqsize;    /* RDMA: of an acceptance of an admin queue of 32 entries */
        uint8_t reads_out;   /* RDMA: initiator depth that it says */
        bool pads;           /* RDMA_CM adds zeroes to private data: their length can't be seen */
        uint32_t mdts;       /* bytes; 0: no limit */
        uint32_t maxh2cdata; /* bytes; 0: RDMA, which knows no such limit */
        uint32_t nsid;       /* the namespace that is used; 0: there is none */
        uint32_t block;      /* bytes that a transfer has of each: with its metadata, but for ... */
        bool
            made; /* ... protection information, which the controller makes and takes off (PRACT) */
        uint32_t
            plain; /* bytes of it before its protection information: what Compare and DLFEAT are about */
        uint8_t pi;  /* type of protection information; 0: none */
        uint16_t ms; /* bytes of metadata */
        uint64_t blocks;
        bool read_only; /* it is write protected (NSATTR) */
        uint8_t cpda;
        bool hdgst, ddgst;      /* granted when asked for */
        bool sqfc_off;          /* SQ flow control can be disabled */
        bool io, discovery;     /* an I/O subsystem, the discovery service */
        bool persistent;        /* discovery with KATO is granted */
        bool fixed;             /* the subsystem is of the static controller model */
        const char *denied;     /* a subsystem that does not allow us, or NULL */
        const char *statics;    /* a subsystem of the static model, or NULL */
        const char *expendable; /* one that may be reset and shut down as a whole, or NULL */
        const char *formats;    /* one whose namespaces have extended formats, all ours, or NULL */
        const char *administrative; /* one with administrative controllers, or NULL */
        const char *ana;            /* one with ANA Reporting, or NULL */
        const char *limited;        /* one of ours whose commands have limits (CNS 06h), or NULL */
        const char *masked;         /* the one of masked_nsid; NULL: the tested one */
        uint32_t masked_nsid; /* a namespace that is not attached for our hosts; 0: none is known */
        const char *auth;     /* one that we have to authenticate ourselves to, or NULL */
        struct id_ctrl id;    /* of the I/O controller */
        struct id_ctrl ana_id;   /* of one of `ana` */
        struct disc_entry entry; /* of the subsystem in the discovery log */
};
/* Lives as long as the run. */
const struct caps *caps(const struct t *t);
bool t_is_rdma(const struct t *t);

/* --- connections --------------------------------------------------------------------------- */

/* A connection that is driven by hand, a queue once Connect has succeeded on it. */
struct queue {
        struct t *t;
        struct queue *admin; /* the association's admin queue: itself, if it is one; or NULL */
        uint16_t qid, cntlid;
        uint16_t sqsize; /* 0's based */
        unsigned host;   /* who we are on it: see struct setup */
        bool sqfc_off;   /* SQ flow control was asked off and granted */
        char subnqn[NQN_FIELD];
        struct suite_conn *conn;
        struct talk *talk; /* case_auth.h; NULL: Connect has not asked for authentication */
        const struct nvme_tls *tls; /* of a key of its own; NULL: TLS as the run has it */
        struct command *commands;   /* those that were sent, the last one first */
        unsigned queues_granted;    /* by Number of Queues (admin queue); 0: not asked yet */
        unsigned patience;          /* ms that a response may take, where that is more than usual */
        bool terminated;            /* we have sent H2CTermReq */
        bool over;    /* has ended in an accepted way: later words about it are idle */
        bool refused; /* ... by a status: the connection goes on */
        bool may_end; /* CC.EN is 0, or it is shut down: 3.1.2 ends the association, 3.6.2 keeps it
                                   * for two minutes. A case that needs it is skipped if the target ends it */
        struct queue *next;
};

enum {
        AS_RUN = -1,  /* as the run's own options say (-g, -G, --hpda) */
        AS_FITS = -1, /* what fits the queue */
};
enum {
        KATO_USUAL = 120000
}; /* ms; 0 where persistent connections to a discovery controller are refused */

struct ic { /* ICReq */
        int hpda, hdgst, ddgst;
        uint32_t maxr2t; /* 0's based */
        uint16_t pfv;
};
#define IC_DEFAULTS .hpda = AS_RUN, .hdgst = AS_RUN, .ddgst = AS_RUN

struct setup {
        int hpda, hdgst, ddgst;
        uint32_t maxr2t; /* 0's based */
        uint16_t sqsize; /* 0's based */
        uint16_t qid;
        uint8_t cattr;
        uint32_t kato; /* ms */
        bool disabled; /* leave CC.EN at 0 */
        bool near; /* Connect data that CPDA puts more than 128 bytes into the capsule go by R2T */
        bool judged;   /* that this queue can be had is what the case is about (io_queue(): the I/O
                        * queue); else what fails here breaks the case off */
        unsigned host; /* another host than the case's own, with a HOSTID of its own; 0: that */
        const char *subnqn, *hostnqn;
        const struct nvme_tls *tls; /* TLS with this key, for subnqn; NULL: as the run has it */
};
struct nvme_tls;
#define SETUP_DEFAULTS IC_DEFAULTS, .sqsize = 31, .qid = 1, .kato = KATO_USUAL

/* Whether a discovery log entry is that of the tested subsystem at the tested address. */
bool is_tested(const struct t *t, const struct disc_entry *e);
struct treq {
        uint8_t some, all;
};
/* Bits of TREQ that some, and that all of these entries have; none and all of them, where there is no such entry. */
struct treq tested_treq(struct t *t);

/* Until the target can be connected to, if it says that a reset may take so long (CAP.TO), 5 s at least. TCP. */
void await_target(struct t *t);
/* A TCP connection, nothing sent. */
struct queue *tcp_open(struct t *t);
/* ... without TLS, even where the run is over TLS. */
struct queue *tcp_open_bare(struct t *t);
/* A connection that is ready for Connect: ICs exchanged, or (as admin queue, if it does not say
 * .qid) accepted by RDMA_CM. */
#define bare_queue(t, ...)                                                                         \
        queue_bare((t), (struct setup) { SETUP_DEFAULTS, .qid = 0, ##__VA_ARGS__ })
/* ... that belongs to the association of `admin`, to be connected as one of its I/O queues. */
#define join(admin, ...) queue_join((admin), (struct setup) { SETUP_DEFAULTS, ##__VA_ARGS__ })
/* An association: ICs, Connect, CC.EN = 1, CSTS.RDY. cattr and sqsize are those of the Connect. */
#define admin_queue(t, ...) queue_admin((t), (struct setup) { SETUP_DEFAULTS, ##__VA_ARGS__ })
/* An association of its own and I/O queue qid; cattr and sqsize are those of the I/O queue. */
#define io_queue(t, ...) queue_io((t), (struct setup) { SETUP_DEFAULTS, ##__VA_ARGS__ })
/* An association with a subsystem that has ANA Reporting; skips the case where there is none. */
struct queue *ana_queue(struct t *t);
#define NO_ANA "no subsystem has ANA Reporting (CMIC bit 3)"
/* One more I/O queue. */
#define io_queue_of(admin, ...)                                                                    \
        queue_more((admin), (struct setup) { SETUP_DEFAULTS, ##__VA_ARGS__ })
/* I/O queue 2 beside q, which is I/O queue 1 of its association; NULL if the target does not grant so many with `spare` more
 * of them. */
struct queue *second_queue(struct queue *q, unsigned spare);
/* An association with the discovery service; kato != 0 asks for a persistent one. */
#define discovery_queue(t, ...)                                                                    \
        queue_admin((t), (struct setup) { SETUP_DEFAULTS, .kato = 0, .subnqn = NQN_DISCOVERY,      \
                                          ##__VA_ARGS__ })

/* Ends the connection: FIN or DREQ; RST or a queue pair that fails; FIN in our direction only. */
void hang_up(struct queue *q);
void rst(struct queue *q);
void half_close(struct queue *q);

/* How many commands may be outstanding on q, and are worked at together: `most`, if its size and MAXCMD
 * allow that. */
unsigned together(const struct queue *q, unsigned most);
#define ONE_AT_A_TIME "the queue size or MAXCMD allows only one command at a time"

/* --- sending ------------------------------------------------------------------------------- */

/*
 * Any of these in front of a sending word changes the next PDU that it sends, and that one only.
 * They add up. Digests are summed over what is sent in the end.
 */
/* A field of its header ("hlen", "ttag", "sqe.sgl.id": pdu_fields()). */
void mutate(struct queue *q, const char *field, uint64_t value);
/* Makes its header or data digest a wrong one. */
void wrong_hdgst(struct queue *q);
void wrong_ddgst(struct queue *q);
/* ... by flipping these bits of it. */
void flip_hdgst(struct queue *q, uint32_t bits);
void flip_ddgst(struct queue *q, uint32_t bits);
/* Breaks this rule, by its violator (machine/spoil.h); waits for a PDU that can break it. */
void violate(struct queue *q, enum rule_id rule);
/* Puts its data that many alignment steps further back than needed (as far as PDO reaches), after
 * PAD bytes of this value. */
void pad(struct queue *q, uint8_t steps, uint8_t value);
/* Holds back its last n bytes until release(). */
void hold_back(struct queue *q, uint32_t n);
void release(struct queue *q);
/* From here on every PDU goes out in TCP segments of n bytes; 0: whole. */
void dribble(struct queue *q, uint32_t n);

#define send_icreq(q, ...) queue_icreq((q), (struct ic) { IC_DEFAULTS, ##__VA_ARGS__ })
/* ICReq and its answer. */
#define ic(q, ...) queue_ic((q), (struct ic) { IC_DEFAULTS, ##__VA_ARGS__ })

struct cmd {
        uint8_t opc, fctype, flags;
        int cid; /* -1: the next free one */
        uint32_t nsid, cdw2, cdw3, cdw10, cdw11, cdw12, cdw13, cdw14, cdw15;
        uint32_t bytes;   /* of data, in the direction that the opcode says */
        const void *data; /* host's data; NULL: a pattern of this case's own */
        /* Data goes in the capsule (SGL 01h); else through a data buffer (5Ah) or by key (40h).
         * Over RDMA by key also on admin queues, and where it does not fit. */
        bool in_capsule;
        int64_t sgl_len;           /* what the SGL says; -1: bytes */
        const struct by_hand *sgl; /* RDMA, see case_rdma.h: in place of all that; NULL: no */
        bool as_is; /* caps.made: no PRACT is set, and Compare brings its metadata itself */
        bool
            any_size; /* it is about MDTS; else a case with more data than that allows is skipped */
};
#define CMD_DEFAULTS .flags = SQE_PSDT_SGL, .cid = -1, .sgl_len = -1
/* A command; returns its CID. */
#define send_cmd(q, ...) queue_cmd((q), (struct cmd) { CMD_DEFAULTS, ##__VA_ARGS__ })

struct blocks {         /* Read, Write, ... of the range that is this case's own */
        uint64_t slba;  /* from its start */
        uint32_t bytes; /* 0: one block */
        uint32_t nsid;  /* 0: the namespace that is tested */
        uint32_t cdw12; /* more bits of it */
        uint8_t fuse;   /* SQE_FUSE_* */
        const void *data;
        bool in_capsule;
        int64_t sgl_len;
        const struct by_hand *sgl;
        bool any_size; /* as that of struct cmd */
};
#define BLOCKS_DEFAULTS .sgl_len = -1
#define send_write(q, ...)                                                                         \
        queue_blocks((q), NVME_WRITE, (struct blocks) { BLOCKS_DEFAULTS, ##__VA_ARGS__ })
#define send_read(q, ...)                                                                          \
        queue_blocks((q), NVME_READ, (struct blocks) { BLOCKS_DEFAULTS, ##__VA_ARGS__ })
#define send_write_zeroes(q, ...)                                                                  \
        queue_blocks((q), NVME_WRITE_ZEROES, (struct blocks) { BLOCKS_DEFAULTS, ##__VA_ARGS__ })
#define send_compare(q, ...)                                                                       \
        queue_blocks((q), NVME_COMPARE, (struct blocks) { BLOCKS_DEFAULTS, ##__VA_ARGS__ })

struct connect {
        int qid;    /* AS_FITS: 0, or 1 on a queue that was join()ed */
        int cntlid; /* AS_FITS: FFFFh, or the one of its association */
        int sqsize; /* 0's based; AS_FITS: 31, or what I/O queues can have if that is less */
        uint16_t recfmt, nvmsetid;
        uint8_t cattr;
        uint32_t kato;
        const char *subnqn, *hostnqn;    /* NULL: the run's, this case's */
        const uint8_t *hostid;           /* 16 bytes; NULL: this case's */
        const struct connect_data *data; /* in place of all of the four above and cntlid */
        bool through_r2t;                /* data buffer (5Ah) in place of the capsule (TCP) */
        bool in_capsule;                 /* ... which over RDMA is not the usual way */
        uint32_t bytes;                  /* of data, the first 1024 of them are the Connect data */
        int64_t sgl_len;
        const struct by_hand *sgl; /* RDMA */
};
#define CONNECT_DEFAULTS                                                                           \
        .sqsize = AS_FITS, .qid = AS_FITS, .cntlid = AS_FITS, .kato = KATO_USUAL,                  \
        .bytes = CONNECT_DATA_LEN, .sgl_len = -1
/* Connect. */
#define send_connect(q, ...)                                                                       \
        queue_connect((q), (struct connect) { CONNECT_DEFAULTS, ##__VA_ARGS__ })
/* It succeeds, and where it asks for authentication that is done: the queue can be used. */
void expect_connected(struct queue *q, uint16_t cid);
/* What send_connect() would send as data, to be changed. */
struct connect_data connect_data(struct queue *q);

/* A command whose data has so many bytes, and whose SGL describes the first half of them; over TCP in the capsule if that
 * has room for all, for there are targets that ask for no R2T then. Returns the CID. */
uint16_t send_half(struct queue *q, uint8_t opc, uint32_t nsid, uint32_t cdw10, const void *data,
                   uint32_t bytes);

/* Each returns the CID. attrib: PROP_ATTRIB_4 or PROP_ATTRIB_8, right or wrong; recfmt: 0 is the legal one. */
uint16_t send_property_get(struct queue *q, uint32_t ofst, unsigned attrib);
uint16_t send_property_set(struct queue *q, uint32_t ofst, unsigned attrib, uint64_t value);
uint16_t send_disconnect(struct queue *q, uint16_t recfmt);

struct r2t {
        uint16_t cid, ttag;
        uint32_t offset, len;
};
struct h2c { /* AS_FITS: as the R2T asks */
        int cid, ttag;
        int64_t offset, len; /* DATAO, DATAL */
        int64_t datal;       /* what DATAL says, if it is not the length of the data */
        bool last;
};
#define H2C_DEFAULTS                                                                               \
        .cid = AS_FITS, .ttag = AS_FITS, .offset = AS_FITS, .len = AS_FITS, .datal = AS_FITS,      \
        .last = true
#define NO_R2T ((struct r2t) { .ttag = 0 })
/* H2CData that answers r in full, but for what is named. */
#define send_h2c(q, r, ...) queue_h2c((q), (r), (struct h2c) { H2C_DEFAULTS, ##__VA_ARGS__ })
/* Answers r in full, in as many PDUs as MAXH2CDATA asks for. */
void serve(struct queue *q, struct r2t r);

struct term {
        uint16_t fes;
        uint32_t fei, bytes; /* bytes of data: a header of 0xEE */
        int64_t plen;        /* what PLEN says; -1: 24 + bytes */
};
#define send_term(q, ...)                                                                          \
        queue_term((q), (struct term) {                                                            \
                            .fes = FES_SEQUENCE_ERROR, .bytes = 24, .plen = -1, ##__VA_ARGS__ })
/* A PDU of any type with len bytes of zeroes after the common header's 8; lengths are consistent.
 */
void send_pdu(struct queue *q, uint8_t type, uint32_t len);
/* Bytes as they are. */
void send_bytes(struct queue *q, const void *bytes, uint32_t n);

/* --- expecting ----------------------------------------------------------------------------- */

struct reply {
        uint16_t cid, status; /* SCT << 8 | SC */
        bool retry_delay;     /* CRD is not 0 */
        bool more;            /* M: the Error Information log has an entry about it */
        bool dnr;             /* DNR: the same command fails again */
        uint32_t dw0, dw1;
        uint16_t sqhd;
        const uint8_t *data; /* what the controller sent, got bytes; NULL: .sgl was by hand */
        uint32_t got;        /* RDMA: up to the last byte that was written */
        bool success_flag;   /* C2HData with SUCCESS was the response */
        bool invalidated;    /* RDMA: it came by SEND with invalidate, of key */
        uint32_t key;
};

struct icresp {
        uint8_t cpda;
        bool hdgst, ddgst;
        uint32_t maxh2cdata;
};
/* ICResp, as it is: its values are judged by who watches the connection. */
struct icresp expect_icresp(struct queue *q);
/* ... or C2HTermReq that calls the parameter at this offset of the ICReq unsupported (T1.0 3.1), or, which is lenient, the
 * end of the connection without it: false. */
bool expect_icresp_unless(struct queue *q, uint32_t unsupported);

/* The response to a command, whatever its status; an R2T instead of it is a failure. */
struct reply expect_resp(struct queue *q, uint16_t cid);
/* The next response, of commands without data: their order is the controller's affair. */
struct reply expect_next(struct queue *q);
/* The response to this command, with this status, or Success; another one fails. */
struct reply expect_status(struct queue *q, uint16_t cid, uint16_t status);
struct reply expect_success(struct queue *q, uint16_t cid);
/* The command fails, its R2Ts served: with this status, or (lenient) another one. */
void expect_error(struct queue *q, uint16_t cid, uint16_t status);
/* ... with a status that is only advised: any other one, success too, is lenient. */
void prefer_error(struct queue *q, uint16_t cid, uint16_t status);
/* expect_error() of controllers of revision `since` or later, prefer_error() of older ones. */
void expect_error_since(struct queue *q, uint32_t since, uint16_t cid, uint16_t status);
/* Serves the command's R2Ts until its response. */
struct reply finish(struct queue *q, uint16_t cid);
/* finish(), and the status is Success. */
struct reply succeed(struct queue *q, uint16_t cid);
/* What succeed() wants of a response that is there. */
void check_success(struct queue *q, struct reply r);
/* finish() and succeed() of a command for whose time there is no limit: a case that waits longer than a minute for it
 * is an error of its own, which says nothing about the target. */
struct reply finish_slow(struct queue *q, uint16_t cid);
struct reply succeed_slow(struct queue *q, uint16_t cid);
/* succeed(), of a command whose SGL is longer than its data. Skips the case where the controller does not
 * support that (SGLS bit 18, LLDTS) and ends the command with Data SGL Length Invalid (4.3.2). */
struct reply succeed_long(struct queue *q, uint16_t cid);
/* r is of Get or Set Features: the case is skipped, for this reason, if its status says that the feature or what is asked of
 * it is not supported, and fails by any other status but success. */
void require_feature(struct queue *q, struct reply r, const char *why, ...)
    __attribute__((format(printf, 3, 4)));

/* The next R2T of this command; anything else about the command fails. */
struct r2t expect_r2t(struct queue *q, uint16_t cid);
/* A Write that needs R2Ts, and its first R2T, for the H2CData that the case is about. */
#define open_r2t(q, ...) queue_open_r2t((q), (struct blocks) { BLOCKS_DEFAULTS, ##__VA_ARGS__ })
/* The first half of what it asks for: dwords. */
#define HALF(r) ((r).len / 8 * 4)
/* Bytes of such a Write: blocks, more than a capsule holds and 8 KiB at least if one H2CData
 * (MAXH2CDATA) and MDTS allow it. */
uint32_t r2t_bytes(struct t *t);
/* Bytes that MDTS of a controller allows, in units of CAP.MPSMIN; 0: any number. */
uint32_t mdts_bytes(uint8_t mdts, uint64_t cap);
/* VS of revisions that may have assigned what is reserved up to 2.2 (B2.2 1.4). */
#define VS_LATER NVME_VERSION(2, 3, 0)
/* Bytes of a transfer that is large, but not too large for the target: 256 KiB, MDTS or what is left. */
uint32_t large_bytes(struct t *t);
/* An I/O queue on which a Compare of a block, in its capsule, can be fused with a Write; skips the case where it can't. */
struct queue *fusing_queue(struct t *t);
/* Where this case's range starts: words that take blocks count from there. */
uint64_t own_lba(const struct t *t);
/* ... and how long it is: 256 KiB at least. */
uint32_t own_bytes(const struct t *t);
/* Where the blocks start that all cases of the run may write, and how many bytes they have: for cases that run alone. */
uint64_t run_lba(const struct t *t);
uint64_t run_bytes(const struct t *t);
/* Bytes of the namespace from there on. */
uint64_t bytes_left(struct t *t);

/*
 * The end of the connection. expect_term(): a TermReq with FES and FEI of the case's rule is the
 * strict grade, an end without or with another TermReq the lenient one; returns how many bytes of our
 * header the TermReq hands back, -1 without one. expect_close(): the end
 * without a TermReq is the strict grade. expect_end(): any end, within ms more than usual;
 * expect_end_within(): within ms and no more.
 */
int expect_term(struct queue *q);
void expect_close(struct queue *q);
void expect_end(struct queue *q, unsigned ms);
void expect_end_within(struct queue *q, unsigned ms);
/*
 * What the case's rule prescribes for a command (or, cid 0, for a PDU that is not one's): its
 * statuses are the strict grade, another error status or the end of the connection the lenient one.
 * After an end, later words about this queue are idle.
 */
void expect_refusal(struct queue *q, uint16_t cid);
/* Where the specification leaves it open: a response or the end of the connection, never silence. */
struct reply expect_answer(struct queue *q, uint16_t cid);
/* ... and where a refusal, by either, is the better answer (strict) than to take it (lenient). */
void prefer_refusal(struct queue *q, uint16_t cid);
/* Whether the response to this command has come by now, and nobody has asked for it. */
bool answered(struct queue *q, uint16_t cid);
/* Nothing comes for ms. */
void expect_silence(struct queue *q, unsigned ms);
/* Whether the target ends the connection within so many ms, scaled; a message ends the wait, too. */
bool ends_within(struct queue *q, unsigned ms);
/* The queue still does its work (Property Get on the admin queue, a Read of one block on others).
 */
void expect_works(struct queue *q);

/*
 * One change of the target, by whoever can make it (--change): the subsystem has a namespace more, or
 * less, or another one in its place; the discovery log shows us an entry more, or less; the state of an
 * ANA group is another; a namespace is in another ANA group; the namespace that our hosts are not shown is another.
 */
enum change {
        CHANGE_NAMESPACES,
        CHANGE_DISCOVERY,
        CHANGE_ANA,
        CHANGE_ANA_GROUP,
        CHANGE_MASKED,
        CHANGES
};
/* Returns when the change is made. Skips the case where that can't be changed; breaks it off where --change
 * fails. */
void change(struct t *t, enum change what);
/* The target may notice a change late: a pause of 20 ms, and whether to look for it once more, which is so for 3 s (both
 * scaled) from the first call on. *until: now_ms(), 0 at first. */
bool look_again(struct t *t, uint64_t *until);

/* --- whole commands, that have to succeed -------------------------------------------------- */

/* As wide as the property is (8 bytes: CAP). Set: 4 bytes. */
uint64_t property_get(struct queue *q, uint32_t ofst);
void property_set(struct queue *q, uint32_t ofst, uint64_t value);
/* cc with the command set that this controller has (CAP.CSS), if it is one for I/O; without the sizes of
 * I/O queues' entries, if it is not. */
uint32_t with_css(struct queue *q, uint32_t cc);
/* Sets CC, with_css(), and waits for CSTS & mask == value, as long as CAP.TO says. */
void set_cc(struct queue *q, uint32_t cc, uint32_t csts_mask, uint32_t csts);
/* property_set() of CC or NSSD, which may be answered as late as a reset or shutdown takes. */
void set_slowly(struct queue *q, uint32_t ofst, uint32_t value);
/* SHST as soon as it is no longer this, or after so many ms. */
uint32_t shst_after(struct queue *q, uint32_t shst, unsigned ms);
/* Sets CC.SHN, and waits until the shutdown is complete, as long as RTD3E says (5 s at least, 2 min at most): SHST
 * then. That it is not complete breaks nothing. The association may end with it. */
uint32_t begin_shutdown(struct queue *q, uint32_t shn);
#define ENDS_WITH_RESET "the association ends with the Controller Reset or shutdown (Base 3.1.2)"
enum { CC_RUN = 1 | 6 << 16 | 4 << 20 }; /* EN, IOSQES, IOCQES */
/* Valid until the case ends, like all data handed out here. */
const struct id_ctrl *identify_ctrl(struct queue *q);
const void *identify(struct queue *q, uint8_t cns, uint32_t nsid);
/* ... that may be refused, being optional, of another command set than the namespace's, or of one that is gone: NULL. */
const void *identify_optional(struct queue *q, uint8_t cns, uint32_t nsid);
enum { CHANGED_NSIDS = 1024 };
/* The Changed Attached Namespace List from its beginning, which clears the event of it. */
const le32_t *take_changed(struct queue *q);
/* absent: the lowest NSID that is not in the list of active ones. The case is skipped where it is above NN, as all are
 * active then, and fails by ID_NS_LIST, which it names, if those that are active are above NN as well. `rule`: what it
 * is about otherwise. */
void require_inactive(struct queue *q, unsigned rule, uint32_t absent);
/* RAE, for dword 10 of Get Log Page: the event of the page stays. 0 up to NVMe 1.2.1, where it is reserved. */
uint32_t retain_event(const struct queue *q);
/* From byte `offset` on; bytes: a multiple of 4. The event of the page stays. */
const void *get_log(struct queue *q, uint8_t lid, uint32_t bytes, uint64_t offset);
uint16_t send_get_log(struct queue *q, uint8_t lid, uint32_t bytes, uint64_t offset);
enum { DISC_LOG_MOST = 120 };
struct disc_header;
/* The whole discovery log, in pieces that any MDTS allows, and how many entries it has. lsp: bits of CDW10.
 * A case is skipped where the log says that it has more than DISC_LOG_MOST, or changes with each try. */
const struct disc_header *whole_discovery_log(struct queue *q, uint32_t lsp, uint64_t *entries);
/* Of Get Features dword 0, its current value; Set Features is only sent. */
uint32_t get_feature(struct queue *q, uint8_t fid);
uint16_t send_set_feature(struct queue *q, uint8_t fid, uint32_t cdw11);
/* What a case changes is noted first, and undone by undo(), which such a case has as .after, however it ends. A feature gets
 * the value back that it has now. cdw10: FID, and SV where only that sets it; cdw11: what selects the value; bytes of data.
 * Nothing is kept where Get Features fails, whose reply this is. */
struct reply keep_feature(struct queue *q, uint32_t cdw10, uint32_t nsid, uint32_t cdw11,
                          uint32_t bytes);
/* A namespace that was made is deleted. */
void note_made(struct queue *admin, uint32_t nsid);
/* It was deleted, or is to stay; NSID_ALL: all of them. */
void forget_made(struct t *t, uint32_t nsid);
void undo(struct t *t);
/* slba: from the start of the case's own range. bytes: whole blocks, 0: one. */
const void *read_blocks(struct queue *q, uint64_t slba, uint32_t bytes);

enum { SIX = 6, BLOCK_MAX = 4096 };
/* Blocks of the case's own range, one by one. In the capsule if it fits: there are targets that ask for no R2T
 * then. */
void put_block(struct queue *q, uint64_t slba, const uint8_t *data);
/* Six at its start, each unlike the others: what they contain. Skips the case where blocks are larger than
 * BLOCK_MAX. */
const uint8_t *write_six(struct queue *q);
/* Skips the case where MDTS is less than so many blocks. */
void require_carried(struct t *t, uint32_t blocks);
/* Whether they have this value in each byte but their protection information; bytes: whole blocks. */
bool are_filled(const struct t *t, const void *blocks, uint32_t bytes, uint8_t value);
/* The block reads as data; these blocks are written, from the start of the case's own range. */
void want_block(struct queue *q, uint64_t slba, const uint8_t *data);
void write_blocks(struct queue *q, uint64_t slba, uint32_t bytes, const void *data);
/* Ordinary work, and its data is right: on an I/O queue writes (if the case may), in the capsule
 * and through R2Ts, and reads; on an admin queue Identify. */
void exercise(struct queue *q);
/* A Write and a Read of large_bytes() but for three blocks, from the second block of the case's range on: with small
 * blocks neither start nor length is a multiple of 4 KiB. What they name is right, and so is what is around it. */
void exercise_unaligned(struct queue *q);
/*
 * A namespace whose blocks have metadata, and which the case may write: the tested one, or where the run
 * may write others one of those; the case's own range of blocks is its own there, too.
 */
struct space {
        uint32_t nsid, block, ms; /* bytes of a block, of its metadata, which follows */
        uint8_t pi;               /* type of protection information; 0: none */
        bool made;                /* PRACT leaves the metadata out of the transfer */
};
/* One that has such a type of protection information (a bit of `types` for each, bit 0: none) and at
 * least so many bytes of metadata; skips the case if there is none. */
struct space find_space(struct queue *q, unsigned types, uint32_t least);
/* The same; false: there is none. */
bool has_space(struct queue *q, unsigned types, uint32_t least, struct space *s);

/* The pattern that commands without .data write. */
const void *pattern(struct t *t, uint32_t bytes);

/* --- what may come or not -------------------------------------------------------------------- */

/* Which of these n commands, whose order is the controller's affair, is answered first: an index; -1: none is
 * within ms. Its response is still to be asked for. */
int first_answered(struct queue *q, const uint16_t *cid, unsigned n, unsigned ms);
/* Whether this one is answered within ms. */
bool answers_within(struct queue *q, uint16_t cid, unsigned ms);
/* The next R2T, of whichever command, if one comes within ms: for how many commands at a time a controller asks
 * for data, and in which order, is its affair (T1.0 3.3.2.2). */
bool r2t_within(struct queue *q, unsigned ms, struct r2t *r);
/* The next R2T of this command, if one comes within ms, whatever else comes meanwhile. */
bool asked_within(struct queue *q, uint16_t cid, unsigned ms, struct r2t *r);
/* No event is reported that can be disabled, and none from before waits: for what a target has to say at any
 * time (5.1.25.1.5) is no fault of it. */
void disable_events(struct queue *q);
/* A status that passes by itself, as Sanitize In Progress: should the case fail, it is run again. */
void note_passing(struct queue *q, struct reply r);
/* Whether the response to this Asynchronous Event Request is there, and is of such an event. */
bool reports_event(struct queue *q, uint16_t cid);
/* r is of such a request: the case is skipped where its status says that there are none, as administrative controllers may,
 * and discovery controllers without persistent connections (3.1.3.4). */
void require_events(struct queue *q, struct reply r);
/* For ms nothing comes but events that cannot be disabled, and (3.3.2.3) Command Sequence Error for the n
 * requests in `old`, which were sent before a reset and may have been late for it; up to Base 2.0 any error. */
void expect_held(struct queue *q, unsigned ms, const uint16_t *old, unsigned n);
/* ms until an association of which nothing is heard has ended by its Keep Alive timer (3.9.4.2, 3.9.5), which may be
 * late. */
uint32_t expiry_ms(const struct t *t, uint32_t kato);
enum { LOST_KATO = 8000, LOST_KATO_MOST = 10000 };
/* q is an I/O queue whose association has ended with its admin queue: it executes no more commands (3.1.2), at once or,
 * which is lenient, when the Keep Alive timer has expired. Nobody says how soon, nor whether its connection ends. kato:
 * what is in force of LOST_KATO; the case is skipped where that is longer than LOST_KATO_MOST. */
void expect_lost(struct queue *q, uint32_t kato);
/* Disconnect, which succeeds; skips the case where the queue cannot be deleted now (6.4). */
void disconnect(struct queue *q);
void expect_disconnected(struct queue *q, uint16_t cid);
/* Number of Queues, for a queue that the case connects by hand: some allocate them only when asked. */
void grant_queue(struct queue *admin);
/* ... an admin queue that has done so; NULL: of the tested subsystem. */
struct queue *granting_queue(struct t *t, const char *subnqn);

/* --- behind the macros --------------------------------------------------------------------- */

/* As the macros above say, whose defaults the structs have. */
struct queue *queue_bare(struct t *t, struct setup s);
struct queue *queue_join(struct queue *admin, struct setup s);
struct queue *queue_admin(struct t *t, struct setup s);
struct queue *queue_io(struct t *t, struct setup s);
struct queue *queue_more(struct queue *admin, struct setup s);
void queue_icreq(struct queue *q, struct ic ic);
struct icresp queue_ic(struct queue *q, struct ic ic);
uint16_t queue_cmd(struct queue *q, struct cmd c);
uint16_t queue_blocks(struct queue *q, uint8_t opc, struct blocks b);
uint16_t queue_connect(struct queue *q, struct connect c);
struct r2t queue_open_r2t(struct queue *q, struct blocks b);
void queue_h2c(struct queue *q, struct r2t r, struct h2c h);
void queue_term(struct queue *q, struct term m);

#endif

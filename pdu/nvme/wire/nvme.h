/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * NVMe commands, completions and the data structures of Identify, log pages and features.
 * Source: NVMe Base 2.2 chapters 3 and 5, NVM Command Set 1.2. Offsets are bytes from the start
 * of the structure; every structure is bytes only (see le.h).
 */
#ifndef NVMF_WIRE_NVME_H
#define NVMF_WIRE_NVME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pdu/core/le.h"

/* --- SGL descriptors (Base 4.3.2) ------------------------------------------------------------- */

/* Byte 15: type << 4 | subtype. */
enum sgl_id {
        SGL_DATA_BLOCK = 0x00,      /* address: not for message-based transports */
        SGL_IN_CAPSULE = 0x01,      /* data block, subtype offset */
        SGL_LAST_IN_CAPSULE = 0x31, /* RDMA: last segment, subtype offset */
        SGL_KEYED = 0x40,           /* RDMA */
        SGL_KEYED_INVALIDATE = 0x4f,
        SGL_TRANSPORT = 0x5a, /* command data buffer of NVMe/TCP */
};

struct sgl {
        le64_t addr; /* SGL_IN_CAPSULE: offset within the in-capsule data */
        le32_t len;  /* bytes */
        uint8_t rsvd[3], id;
};

struct sgl_keyed { /* what an SGL descriptor of type 4h is, whatever its subtype */
        le64_t addr;
        uint8_t len[3], key[4], id;
};

static inline bool sgl_is_keyed(const struct sgl *s)
{
        return s->id >> 4 == SGL_KEYED >> 4;
}

/* Bytes that it describes; of a segment: its own. */
static inline uint32_t sgl_len(const struct sgl *s)
{
        return sgl_is_keyed(s) ? le32_get(s->len) & 0xffffff : le32_get(s->len);
}

/* --- submission and completion queue entries -------------------------------------------------- */

/* SQE byte 1 */
enum sqe_flags {
        SQE_FUSE_FIRST = 0x01,
        SQE_FUSE_SECOND = 0x02,
        SQE_FUSE_MASK = 0x03,
        SQE_PSDT_SGL = 0x40, /* 01b: the Linux and SPDK hosts set it in every command */
        SQE_PSDT_MASK = 0xc0,
};

struct connect_cmd { /* Fabrics Connect, Base 6.3 */
        uint8_t opc, flags;
        le16_t cid;
        uint8_t fctype, rsvd5[19];
        struct sgl sgl;
        le16_t recfmt, qid;
        le16_t sqsize; /* 0's based */
        uint8_t cattr, rsvd47;
        le32_t kato; /* ms; admin queue only */
        le16_t nvmsetid;
        uint8_t rsvd54[10];
};

struct property_cmd { /* Property Get and Set, Base 6.5 and 6.6 */
        uint8_t opc, flags;
        le16_t cid;
        uint8_t fctype, rsvd5[35];
        uint8_t attrib, rsvd41[3];
        le32_t ofst;
        le64_t value; /* Set only */
        uint8_t rsvd56[8];
};

struct disconnect_cmd { /* Base 6.4 */
        uint8_t opc, flags;
        le16_t cid;
        uint8_t fctype, rsvd5[35];
        le16_t recfmt;
        uint8_t rsvd42[22];
};

struct auth_cmd { /* Authentication Send and Receive, Base 6.1 and 6.2 */
        uint8_t opc, flags;
        le16_t cid;
        uint8_t fctype, rsvd5[19];
        struct sgl sgl;
        uint8_t rsvd40, spsp0, spsp1, secp;
        le32_t len; /* TL or AL: bytes */
        uint8_t rsvd48[16];
};

union sqe {
        struct {
                uint8_t opc, flags;
                le16_t cid;
                le32_t nsid;
                le32_t cdw2, cdw3;
                le64_t mptr;
                struct sgl sgl;
                le32_t cdw10, cdw11, cdw12, cdw13, cdw14, cdw15;
        };
        struct {
                uint8_t rsvd0[4];
                uint8_t fctype; /* when opc is NVME_FABRICS */
        };
        struct connect_cmd connect;
        struct property_cmd property;
        struct disconnect_cmd disconnect;
        struct auth_cmd auth;
        uint8_t bytes[64];
};

struct cqe {
        union {
                struct {
                        le32_t dw0, dw1;
                };
                le64_t result;
        };
        le16_t sqhd;
        le16_t sqid; /* reserved over fabrics */
        le16_t cid;
        le16_t sf; /* bit 0 phase (reserved over fabrics), 15:1 status field */
};

_Static_assert(sizeof(struct sgl) == 16, "SGL descriptor");
_Static_assert(sizeof(struct sgl_keyed) == 16, "keyed SGL descriptor");
_Static_assert(sizeof(union sqe) == 64, "SQE");
_Static_assert(sizeof(struct cqe) == 16, "CQE");
_Static_assert(sizeof(struct connect_cmd) == 64 && offsetof(struct connect_cmd, recfmt) == 40 &&
                   offsetof(struct connect_cmd, kato) == 48,
               "Connect");
_Static_assert(sizeof(struct property_cmd) == 64 && offsetof(struct property_cmd, attrib) == 40 &&
                   offsetof(struct property_cmd, value) == 48,
               "Property");
_Static_assert(sizeof(struct disconnect_cmd) == 64 && offsetof(struct disconnect_cmd, recfmt) == 40,
               "Disconnect");
_Static_assert(sizeof(struct auth_cmd) == 64 && offsetof(struct auth_cmd, secp) == 43, "Auth");
_Static_assert(offsetof(union sqe, sgl) == 24 && offsetof(union sqe, cdw10) == 40, "SQE");

/* --- status (Base 4.2.3): SCT << 8 | SC; DNR, M and CRD apart --------------------------------- */

enum nvme_status {
        NVME_SUCCESS = 0x000,
        NVME_INVALID_OPCODE = 0x001,
        NVME_INVALID_FIELD = 0x002,
        NVME_CID_CONFLICT = 0x003,
        NVME_DATA_TRANSFER_ERROR = 0x004,
        NVME_POWER_LOSS_ABORT = 0x005,
        NVME_INTERNAL_ERROR = 0x006,
        NVME_ABORT_REQUESTED = 0x007,
        NVME_ABORT_SQ_DELETED = 0x008,
        NVME_ABORT_FAILED_FUSED = 0x009,
        NVME_ABORT_MISSING_FUSED = 0x00a,
        NVME_INVALID_NS = 0x00b,
        NVME_SEQUENCE_ERROR = 0x00c,
        NVME_SGL_SEGMENT = 0x00d,
        NVME_SGL_COUNT = 0x00e,
        NVME_SGL_LENGTH = 0x00f,
        NVME_SGL_METADATA_LENGTH = 0x010,
        NVME_SGL_TYPE = 0x011,
        NVME_OPERATION_DENIED = 0x015,
        NVME_SGL_OFFSET = 0x016,
        NVME_HOSTID_INCONSISTENT = 0x018,
        NVME_KATO_EXPIRED = 0x019,
        NVME_KATO_INVALID = 0x01a,
        NVME_PREEMPTED = 0x01b, /* the command was aborted by a Reservation Acquire */
        NVME_SGL_GRANULARITY = 0x01e,
        NVME_SANITIZE_FAILED = 0x01c,
        NVME_SANITIZING = 0x01d, /* Sanitize In Progress */
        NVME_WRITE_PROTECTED = 0x020,
        NVME_INTERRUPTED = 0x021,
        NVME_PROHIBITED = 0x023, /* by Lockdown */
        NVME_MEDIA_NOT_READY = 0x024,
        NVME_INVALID_FORMAT = 0x10a,
        NVME_TRANSIENT_TRANSPORT = 0x022,
        NVME_HOSTID_NOT_SET = 0x027, /* Host Identifier Not Initialized */
        NVME_LBA_RANGE = 0x080,
        NVME_CAPACITY_EXCEEDED = 0x081,
        NVME_NS_NOT_READY = 0x082,
        NVME_RESERVATION_CONFLICT = 0x083,
        NVME_FORMATTING = 0x084, /* Format in Progress */
        NVME_INVALID_QID = 0x101,
        NVME_ABORT_LIMIT = 0x103,
        NVME_AER_LIMIT = 0x105,
        NVME_INVALID_LOG_PAGE = 0x109,
        NVME_FEATURE_NOT_SAVEABLE = 0x10d,
        NVME_FEATURE_NOT_CHANGEABLE = 0x10e,
        NVME_FEATURE_NOT_NS = 0x10f,
        NVME_NS_CAPACITY = 0x115, /* Namespace Insufficient Capacity */
        NVME_NSID_UNAVAILABLE = 0x116,
        NVME_NS_ATTACHED = 0x118, /* already */
        NVME_NS_NOT_ATTACHED = 0x11a,
        NVME_THIN_PROVISIONING = 0x11b,
        NVME_CTRL_LIST_INVALID = 0x11c,
        NVME_NS_ATTACH_LIMIT = 0x127,
        NVME_LOCKDOWN_FAILED = 0x128,
        NVME_IOCS_UNSUPPORTED = 0x129, /* I/O Command Set Not Supported */
        NVME_CONNECT_FORMAT = 0x180,
        NVME_CONNECT_BUSY = 0x181,
        NVME_CONNECT_PARAM = 0x182,
        NVME_CONNECT_RESTART_DISCOVERY = 0x183,
        NVME_INVALID_PROTECTION = 0x181, /* the same number as another one, of I/O commands */
        NVME_COMMAND_SIZE = 0x183,       /* the same number, of Copy and Dataset Management */
        NVME_INCOMPATIBLE = 0x185,       /* of Copy, like the next two: namespaces or formats */
        NVME_NO_FAST_COPY = 0x186,
        NVME_OVERLAP = 0x187,
        NVME_NOT_REACHABLE = 0x188,  /* of Copy, like the next one */
        NVME_COPY_RESOURCES = 0x189, /* Insufficient Resources */
        NVME_CONNECT_HOST = 0x184,
        NVME_INVALID_CID = 0x184, /* of Cancel */
        NVME_INVALID_QUEUE_TYPE = 0x185,
        NVME_DISCOVER_RESTART = 0x190,
        NVME_AUTH_REQUIRED = 0x191,
        NVME_WRITE_FAULT = 0x280,
        NVME_UNRECOVERED_READ = 0x281,
        NVME_GUARD_CHECK = 0x282,
        NVME_APP_TAG_CHECK = 0x283,
        NVME_REF_TAG_CHECK = 0x284,
        NVME_COMPARE_FAILURE = 0x285,
        NVME_ACCESS_DENIED = 0x286,
        NVME_DEALLOCATED = 0x287,
        NVME_STORAGE_TAG_CHECK = 0x288,
        NVME_ANA_LOSS = 0x301,
        NVME_ANA_INACCESSIBLE = 0x302,
        NVME_ANA_TRANSITION = 0x303,
};

enum { /* of the 15-bit status field */
       STATUS_MORE = 1 << 13,
       STATUS_CRD = 3 << 11,
       STATUS_DNR = 1 << 14,
       STATUS_MASK = 0x7ff,
};

static inline uint16_t cqe_status(const struct cqe *c)
{
        return (le16_get(c->sf) >> 1) & STATUS_MASK;
}

static inline bool cqe_dnr(const struct cqe *c)
{
        return le16_get(c->sf) >> 15 & 1;
}

/* There is an entry in the Error Information log. */
static inline bool cqe_more(const struct cqe *c)
{
        return le16_get(c->sf) >> 14 & 1;
}

/* The status word for SCT << 8 | SC, to which STATUS_DNR and _MORE may be or'ed. */
static inline le16_t status_field(unsigned status)
{
        return le16((uint16_t)(status << 1));
}

const char *status_name(uint16_t status); /* SCT << 8 | SC; "Unknown Status" if not known */
/* As an answer to this command: I/O commands share numbers with Connect. */
const char *status_name_of(const union sqe *s, uint16_t status);

/* --- opcodes ---------------------------------------------------------------------------------- */

enum nvme_admin_opcode {
        NVME_DELETE_SQ = 0x00,
        NVME_CREATE_SQ = 0x01,
        NVME_GET_LOG_PAGE = 0x02,
        NVME_DELETE_CQ = 0x04,
        NVME_CREATE_CQ = 0x05,
        NVME_IDENTIFY = 0x06,
        NVME_ABORT = 0x08,
        NVME_SET_FEATURES = 0x09,
        NVME_GET_FEATURES = 0x0a,
        NVME_AER = 0x0c,
        NVME_NS_MANAGEMENT = 0x0d,
        NVME_NS_ATTACHMENT = 0x15,
        NVME_KEEP_ALIVE = 0x18,
        NVME_DISCOVERY_MANAGEMENT = 0x21,
        NVME_LOCKDOWN = 0x24,
        NVME_FABRICS = 0x7f,
        NVME_FORMAT = 0x80,
        NVME_SANITIZE = 0x84,
        NVME_GET_LBA_STATUS = 0x86,
};

enum nvme_io_opcode {
        NVME_FLUSH = 0x00,
        NVME_WRITE = 0x01,
        NVME_READ = 0x02,
        NVME_WRITE_UNCORRECTABLE = 0x04,
        NVME_COMPARE = 0x05,
        NVME_WRITE_ZEROES = 0x08,
        NVME_DSM = 0x09,
        NVME_VERIFY = 0x0c,
        NVME_RESERVATION_REGISTER = 0x0d,
        NVME_RESERVATION_REPORT = 0x0e,
        NVME_RESERVATION_ACQUIRE = 0x11,
        NVME_RESERVATION_RELEASE = 0x15,
        NVME_CANCEL = 0x18,
        NVME_COPY = 0x19,
};

/* Bits 1:0 of every opcode but Fabrics (there: of FCTYPE) say which way the data goes. */
enum nvme_xfer { XFER_NONE = 0, XFER_H2C = 1, XFER_C2H = 2, XFER_BOTH = 3 };

/* Direction of a command's data by its opcode or FCTYPE. */
static inline enum nvme_xfer sqe_xfer(const union sqe *s)
{
        return (enum nvme_xfer)((s->opc == NVME_FABRICS ? s->fctype : s->opc) & 3);
}

/* "Read", "Connect", "Get Log Page"...; "Unknown". admin: whether it was sent on an admin queue. */
const char *sqe_name(const union sqe *s, bool admin);
/* "SMART / Health", "Keep Alive Timer"...; NULL if not known. */
const char *log_name(uint8_t lid);
const char *feature_name(uint8_t fid);

/* cdw12 of Read, Write, ... */
enum {
        RW_NLB_MASK = 0xffff, /* 0's based */
        RW_NSZ = 1 << 23,     /* of Write Zeroes: the whole namespace */
        RW_STC = 1 << 24,
        RW_DEAC = 1 << 25,
        RW_PRCHK_REF = 1 << 26, /* PRINFO */
        RW_PRCHK_APP = 1 << 27,
        RW_PRCHK_GUARD = 1 << 28,
        RW_PRCHK = 7 << 26,
        RW_PRACT = 1 << 29,
        RW_PRINFO_SHIFT = 26,
        COPY_PRINFOR_SHIFT = 12,
        RW_FUA = 1 << 30,
        RW_LR = 1u << 31,
};

/* The blocks that an I/O command names in CDW10 to CDW12: Read, Write, Compare, Write Zeroes, Verify, Write
 * Uncorrectable. False: it names none there. */
bool sqe_blocks(const union sqe *s, uint64_t *slba, uint32_t *blocks);

struct copy_range { /* format 0h */
        le32_t snsid, rsvd4;
        le64_t slba;
        le16_t nlb, rsvd18; /* 0's based */
        le32_t rsvd20, elbt;
        le16_t elbat, elbatm;
};
_Static_assert(sizeof(struct copy_range) == 32, "Copy");

struct dsm_range {
        le32_t attributes, blocks;
        le64_t slba;
};
_Static_assert(sizeof(struct dsm_range) == 16, "DSM range");

/* --- Identify (Base 5.1.13) ------------------------------------------------------------------- */

enum identify_cns {
        CNS_NS = 0x00,
        CNS_CTRL = 0x01,
        CNS_NS_LIST = 0x02,
        CNS_NS_DESCS = 0x03,
        CNS_IOCS_NS = 0x05,   /* I/O command set specific namespace */
        CNS_IOCS_CTRL = 0x06, /* ... controller: of the NVM command set */
        CNS_IOCS_NS_LIST = 0x07,
        CNS_NS_INDEPENDENT = 0x08,
        CNS_ALLOCATED_NS_LIST = 0x10,
        CNS_ALLOCATED_NS = 0x11,
        CNS_GRANULARITY = 0x16,
        CNS_IOCS_ALLOCATED_NS_LIST = 0x1a,
        CNS_IOCS_ALLOCATED_NS = 0x1b,
        CNS_NS_FORMAT = 0x09, /* as of a namespace of this format */
        CNS_IOCS_NS_FORMAT = 0x0a,
        CNS_NS_CTRL_LIST = 0x12,
        CNS_CTRL_LIST = 0x13,
        CNS_UUIDS = 0x17,
        CNS_IOCS = 0x1c, /* I/O command set data structure */
};
enum { IDENTIFY_LEN = 4096 };

struct id_power_state {
        le16_t mp; /* centiwatts, or 0.1 mW with flags bit 0 */
        uint8_t rsvd2, flags;
        le32_t enlat, exlat; /* us */
        uint8_t rrt, rrl, rwt, rwl;
        le16_t idlp;
        uint8_t ips, rsvd19;
        le16_t actp;
        uint8_t aps, rsvd23[9];
};

struct id_ctrl {
        le16_t vid, ssvid;
        char sn[20], mn[40], fr[8]; /* space padded */
        uint8_t rab, ieee[3], cmic, mdts;
        le16_t cntlid;
        le32_t ver, rtd3r, rtd3e, oaes, ctratt;
        le16_t rrls;
        uint8_t rsvd102[9], cntrltype, fguid[16];
        le16_t crdt1, crdt2, crdt3;
        uint8_t rsvd134[122];
        le16_t oacs;
        uint8_t acl, aerl, frmw, lpa, elpe, npss, avscc, apsta;
        le16_t wctemp, cctemp, mtfa;
        le32_t hmpre, hmmin;
        uint8_t tnvmcap[16], unvmcap[16];
        le32_t rpmbs;
        le16_t edstt;
        uint8_t dsto, fwug;
        le16_t kas, hctma, mntmt, mxtmt; /* KAS: 100 ms units */
        le32_t sanicap, hmminds;
        le16_t hmmaxd, nsetidmax, endgidmax;
        uint8_t anatt, anacap;
        le32_t anagrpmax, nanagrpid, pels;
        le16_t domainid;
        uint8_t rsvd358[10], megcap[16];
        uint8_t tmpthha, rsvd385;
        le16_t cqt; /* ms */
        uint8_t rsvd388[124];
        uint8_t sqes, cqes;
        le16_t maxcmd;
        le32_t nn;
        le16_t oncs, fuses;
        uint8_t fna, vwc;
        le16_t awun, awupf; /* 0's based */
        uint8_t icsvscc, nwpc;
        le16_t acwu, cdfs;
        le32_t sgls, mnan;
        uint8_t maxdna[16];
        le32_t maxcna, oaqd;
        uint8_t rsvd568[200];
        char subnqn[256];
        uint8_t rsvd1024[768];
        le32_t ioccsz, iorcsz; /* 16-byte units */
        le16_t icdoff;
        uint8_t fcatt, msdbd;
        le16_t ofcs;
        uint8_t dctype, rsvd1807[241];
        struct id_power_state psd[32];
        uint8_t vs[1024];
};
_Static_assert(sizeof(struct id_power_state) == 32, "power state descriptor");
_Static_assert(sizeof(struct id_ctrl) == IDENTIFY_LEN, "Identify Controller");
_Static_assert(offsetof(struct id_ctrl, mdts) == 77, "MDTS");
_Static_assert(offsetof(struct id_ctrl, oaes) == 92, "OAES");
_Static_assert(offsetof(struct id_ctrl, cntrltype) == 111, "CNTRLTYPE");
_Static_assert(offsetof(struct id_ctrl, oacs) == 256, "OACS");
_Static_assert(offsetof(struct id_ctrl, aerl) == 259, "AERL");
_Static_assert(offsetof(struct id_ctrl, kas) == 320, "KAS");
_Static_assert(offsetof(struct id_ctrl, anacap) == 343, "ANACAP");
_Static_assert(offsetof(struct id_ctrl, cqt) == 386, "CQT");
_Static_assert(offsetof(struct id_ctrl, sqes) == 512, "SQES");
_Static_assert(offsetof(struct id_ctrl, oncs) == 520, "ONCS");
_Static_assert(offsetof(struct id_ctrl, sgls) == 536, "SGLS");
_Static_assert(offsetof(struct id_ctrl, subnqn) == 768, "SUBNQN");
_Static_assert(offsetof(struct id_ctrl, ioccsz) == 1792, "IOCCSZ");
_Static_assert(offsetof(struct id_ctrl, ofcs) == 1804, "OFCS");
_Static_assert(offsetof(struct id_ctrl, psd) == 2048, "PSD");

#define NSID_ALL UINT32_MAX /* of a command: every namespace */

enum {
        CMIC_ANA = 1 << 3,     /* ANA Reporting */
        ANACAP_FIXED = 1 << 6, /* ANAGRPID does not change while attached */
        CTRATT_HOSTID128 = 1 << 0,
        CTRATT_TBKAS = 1 << 6,
        CTRATT_ULIST = 1 << 9,
        CTRATT_MDS = 1 << 10,
        CTRATT_MEM = 1 << 16,
        CTRATT_RHII = 1 << 18,
        CTRATT_ELBAS = 1 << 15,
        SGLS_LLDTS = 1 << 18, /* lengths may be above those of the data */
        OAES_NS = 1 << 8,
        OAES_ANA = 1 << 11,
        OAES_LBA_STATUS = 1 << 13,
        OAES_ALLOCATED = 1 << 19, /* Allocated Namespace Attribute Notices */
        OAES_DISCOVERY = 1u << 31,
        OACS_LBA_STATUS = 1 << 9,
        CNTRLTYPE_IO = 1,
        CNTRLTYPE_DISCOVERY = 2,
        CNTRLTYPE_ADMIN = 3,
        DCTYPE_CDC = 2,
        ONCS_COMPARE = 1 << 0,
        ONCS_WRITE_UNCORRECTABLE = 1 << 1,
        ONCS_DSM = 1 << 2,
        ONCS_WRITE_ZEROES = 1 << 3,
        ONCS_SAVE = 1 << 4,
        ONCS_RESERVATIONS = 1 << 5,
        ONCS_TIMESTAMP = 1 << 6,
        ONCS_VERIFY = 1 << 7,
        ONCS_COPY = 1 << 8,
        ONCS_COPY_ATOMIC = 1 << 9, /* what a Copy writes is one write: NVMCSA */
        ONCS_COPY_FAST = 1 << 10,  /* every Copy is a fast one: NVMAFC */
        ONCS_NSZ = 1 << 12,
        FUSES_COMPARE_WRITE = 1 << 0,
        FCATT_STATIC = 1 << 0,
        LPA_SMART_NS = 1 << 0,
        LPA_EFFECTS = 1 << 1,
        LPA_EXTENDED = 1 << 2, /* NUMDU, LPO */
        LPA_PERSISTENT = 1 << 4,
        OFCS_DISCONNECT = 1 << 0,
};

struct lbaf {
        le16_t ms;
        uint8_t lbads, rp; /* block size is 1 << lbads bytes, LBADS_MIN at least */
};

enum { LBADS_MIN = 9, LBADS_MAX = 20 }; /* the latter is our own */

struct id_ns {
        le64_t nsze, ncap, nuse; /* blocks */
        uint8_t nsfeat, nlbaf, flbas, mc, dpc, dps, nmic, rescap, fpi, dlfeat;
        le16_t nawun, nawupf, nacwu, nabsn, nabo, nabspf, noiob;
        uint8_t nvmcap[16];
        le16_t npwg, npwa, npdg, npda, nows, mssrl;
        le32_t mcl;
        uint8_t msrc, kpios, nulbaf, rsvd83, kpiodaag[4], rsvd88[4];
        le32_t anagrpid;
        uint8_t rsvd96[3], nsattr;
        le16_t nvmsetid, endgid;
        uint8_t nguid[16], eui64[8];
        struct lbaf lbaf[64];
        uint8_t vs[3712];
};
_Static_assert(sizeof(struct id_ns) == IDENTIFY_LEN, "Identify Namespace");
_Static_assert(offsetof(struct id_ns, nguid) == 104 && offsetof(struct id_ns, lbaf) == 128,
               "Identify Namespace");
_Static_assert(offsetof(struct id_ns, anagrpid) == 92, "ANAGRPID");

struct id_ns_independent { /* CNS_NS_INDEPENDENT */
        uint8_t nsfeat, nmic, rescap, fpi;
        le32_t anagrpid;
        uint8_t nsattr, rsvd9;
        le16_t nvmsetid, endgid;
        uint8_t nstat, kpios;
        le16_t maxkt;
        uint8_t rsvd18[2];
        le32_t rgrpid;
        uint8_t rsvd24[4072];
};
struct id_nvm_ctrl { /* CNS_IOCS_CTRL of the NVM command set: 2^n pages of CAP.MPSMIN */
        uint8_t vsl, wzsl, wusl, dmrl;
        le32_t dmrsl;
        le64_t dmsl;
        uint8_t kpiocap, wzdsl;
        le16_t aocs;
        le32_t ver;
        uint8_t rsvd24[4072];
};
_Static_assert(sizeof(struct id_ns_independent) == IDENTIFY_LEN, "CNS 08h");
_Static_assert(sizeof(struct id_nvm_ctrl) == IDENTIFY_LEN, "CNS 06h");

enum { AOCS_ALLOCATED = 1 << 0 }; /* Get LBA Status tells allocated blocks */

struct id_nvm_ns { /* CNS_IOCS_NS of the NVM command set */
        le64_t lbstm;
        uint8_t pic, pifa, rsvd10[2];
        le32_t elbaf[64]; /* STS 6:0, PIF 8:7, QPIF 12:9 */
        le32_t npdgl, nprg, npra, nors, npdal, lbapss, tlbaag;
        uint8_t rsvd296[3800];
};
_Static_assert(sizeof(struct id_nvm_ns) == IDENTIFY_LEN, "CNS 05h");

struct id_granularity { /* CNS_GRANULARITY */
        le32_t nga;
        uint8_t nd, rsvd5[27]; /* 0's based */
        struct {
                le64_t size, capacity;
        } ngd[64];
        uint8_t rest[3040];
};
_Static_assert(sizeof(struct id_granularity) == IDENTIFY_LEN, "CNS 16h");

struct ns_desc { /* namespace identification descriptor; NIDL bytes follow */
        uint8_t nidt, nidl, rsvd[2];
};
enum { NIDT_EUI64 = 1, NIDT_NGUID = 2, NIDT_UUID = 3, NIDT_CSI = 4 };

/* --- log pages (Base 5.1.12) ------------------------------------------------------------------ */

enum log_id {
        LOG_SUPPORTED = 0x00,
        LOG_ERROR = 0x01,
        LOG_SMART = 0x02,
        LOG_FW_SLOT = 0x03,
        LOG_CHANGED_NS = 0x04,
        LOG_EFFECTS = 0x05,
        LOG_ANA = 0x0c,
        LOG_PERSISTENT = 0x0d,
        LOG_LBA_STATUS = 0x0e,
        LOG_FEATURE_EFFECTS = 0x12,
        LOG_MI_EFFECTS = 0x13,
        LOG_LOCKDOWN = 0x14,
        LOG_CHANGED_ALLOCATED = 0x1c,
        LOG_DISCOVERY = 0x70,
        LOG_HOSTS = 0x71, /* of a discovery controller */
        LOG_RESERVATION = 0x80,
        LOG_SANITIZE = 0x81,
};

struct log_error {
        le64_t count;
        le16_t sqid, cid, sf, pel; /* pel: IPO of the parameter at fault */
        le64_t lba;
        le32_t nsid;
        uint8_t vsia, trtype, csi, opc;
        le64_t csinfo;
        le16_t ttsi;
        uint8_t rsvd42[21], lpver;
};
struct log_smart {
        uint8_t critical, temp[2], spare, spare_threshold, used, egcw, rsvd7[25];
        uint8_t data_read[16], data_written[16], reads[16], writes[16], busy[16], power_cycles[16],
            power_on_hours[16], unsafe_shutdowns[16], media_errors[16], error_entries[16];
        uint8_t rsvd192[320];
};
struct log_fw_slot {
        uint8_t afi, rsvd1[7];
        char frs[7][8];
        uint8_t rsvd64[448];
};
struct log_effects {
        le32_t admin[256], io[256];
        uint8_t rsvd2048[2048];
};
struct log_ana { /* groups follow, each with its namespaces */
        le64_t chgcnt;
        le16_t ngrps;
        uint8_t rsvd10[6];
};
struct ana_group { /* nnsids identifiers of 4 bytes follow */
        le32_t grpid, nnsids;
        le64_t chgcnt;
        uint8_t state, rsvd17[15];
};
enum {
        ANA_OPTIMIZED = 1,
        ANA_NONOPTIMIZED = 2,
        ANA_INACCESSIBLE = 3,
        ANA_PERSISTENT_LOSS = 4,
        ANA_CHANGE = 15,
};
/* Persistent Event log, Base 5.1.12.1.14 */
enum { LOG_PEL_HEADER = 512, PEL_RCE = 1 << 18 };
struct log_pel {
        uint8_t lid, rsvd1[3];
        le32_t tnev;
        le64_t tll;
        uint8_t revision, rsvd17;
        le16_t lhl;
        uint8_t stamp[8], power_on_hours[16], power_cycles[8];
        le16_t vid, ssvid;
        char sn[20], mn[40], subnqn[256];
        le16_t generation;
        le32_t rci; /* PEL_RCE, type and number of the port */
        uint8_t rsvd378[102], events[32];
};
struct log_pel_event { /* el bytes follow */
        uint8_t type, revision, ehl, ehai;
        le16_t cntlid;
        uint8_t stamp[8];
        le16_t port;
        uint8_t rsvd16[4];
        le16_t vsil, el;
};
_Static_assert(sizeof(struct log_pel) == LOG_PEL_HEADER, "Persistent Event log");
_Static_assert(offsetof(struct log_pel, rci) == 374, "RCI");
_Static_assert(sizeof(struct log_pel_event) == 24, "persistent event");
_Static_assert(sizeof(struct log_ana) == 16 && sizeof(struct ana_group) == 32, "ANA log");
_Static_assert(sizeof(struct log_error) == 64, "Error Information");
_Static_assert(sizeof(struct log_smart) == 512, "SMART / Health");
_Static_assert(sizeof(struct log_fw_slot) == 512, "Firmware Slot");
_Static_assert(sizeof(struct log_effects) == 4096, "Commands Supported and Effects");

enum { LOG_CHANGED_NS_MAX = 1024 }; /* entries of 4 bytes; FFFFFFFFh alone: more than that */

/* discovery log, Base 5.1.12.3.1 */
enum {
        DISC_ENTRY_LEN = 1024,
        DISC_HEADER_LEN = 1024,
        TRTYPE_RDMA = 1,
        TRTYPE_FC = 2,
        TRTYPE_TCP = 3,
        TRTYPE_LOOP = 254,
        ADRFAM_IPV4 = 1,
        ADRFAM_IPV6 = 2,
        ADRFAM_IB = 3,
        ADRFAM_FC = 4,
        SUBTYPE_REFERRAL = 1,
        SUBTYPE_NVM = 2,
        SUBTYPE_CURRENT = 3,
        SECTYPE_NONE = 0,
        SECTYPE_TLS13 = 2, /* TSAS of TCP, T1.0 3.6.1.1: TLS 1.3 or later */
        TREQ_SECURE_MASK = 3,
        TREQ_SECURE_REQUIRED = 1,
        TREQ_SECURE_OPTIONAL = 2,
        TREQ_SQFC = 1 << 2,       /* controller can disable SQ flow control */
        TREQ_ZHIDS = 1 << 3,      /* HOSTID 0 is accepted on the admin queue */
        DLPF_EXTENDED = 1 << 0,   /* flags of the header: entries may be longer */
        DLPF_PORT_LOCAL = 1 << 1, /* ... those of this port */
        DLPF_ALL = 1 << 2,        /* ... every subsystem's entries */
        EFLAGS_DUPRETINFO = 1 << 0,
        EFLAGS_EPCSD = 1 << 1, /* explicit persistent connections */
};
struct disc_entry {
        uint8_t trtype, adrfam, subtype, treq;
        le16_t portid, cntlid, asqsz, eflags;
        uint8_t rsvd12[20];
        char trsvcid[32];
        uint8_t rsvd64[192];
        char subnqn[256], traddr[256];
        uint8_t tsas[256]; /* TCP: byte 0 SECTYPE */
};
struct disc_header {
        le64_t genctr, numrec;
        le16_t recfmt;
        uint8_t flags, rsvd19;
        le32_t tdlpl;
        uint8_t rsvd24[1000];
        struct disc_entry entries[];
};
_Static_assert(sizeof(struct disc_header) == DISC_HEADER_LEN, "discovery log header");
_Static_assert(sizeof(struct disc_entry) == DISC_ENTRY_LEN, "discovery log entry");
_Static_assert(offsetof(struct disc_entry, trsvcid) == 32 &&
                   offsetof(struct disc_entry, subnqn) == 256 &&
                   offsetof(struct disc_entry, tsas) == 768,
               "discovery log entry");

/* --- features (Base 5.1.25) ------------------------------------------------------------------- */

enum feature_id {
        FEAT_ARBITRATION = 0x01,
        FEAT_POWER = 0x02,
        FEAT_LBA_RANGES = 0x03,
        FEAT_TEMP = 0x04,
        FEAT_ERROR_RECOVERY = 0x05,
        FEAT_WRITE_CACHE = 0x06,
        FEAT_QUEUES = 0x07,
        FEAT_WRITE_ATOMICITY = 0x0a,
        FEAT_AEC = 0x0b,
        FEAT_TIMESTAMP = 0x0e,
        FEAT_KATO = 0x0f,
        FEAT_THERMAL_MANAGEMENT = 0x10,
        FEAT_LBA_STATUS = 0x15, /* LBA Status Information Attributes */
        FEAT_HOST_BEHAVIOR = 0x16,
        FEAT_SANITIZE = 0x17,    /* Sanitize Config */
        FEAT_PERFORMANCE = 0x1c, /* Performance Characteristics */
        FEAT_LABEL = 0x1f,       /* Namespace Admin Label */
        FEAT_AGENT = 0x78,       /* Embedded Management Controller Address */
        FEAT_HOST_AGENT = 0x79,  /* Host Management Agent Address */
        FEAT_PROGRESS = 0x80,    /* Software Progress Marker */
        FEAT_HOSTID = 0x81,
        FEAT_RESERVATION_MASK = 0x82,
        FEAT_RESERVATION_PERSISTENCE = 0x83,
        FEAT_WRITE_PROTECT = 0x84,
};

/* Bytes of their structures, and CDW11 (EXHID) of Host Identifier: of 128 bits, else of 64. */
enum {
        TIMESTAMP_LEN = 8,
        HOST_BEHAVIOR_LEN = 512,
        AGENT_LEN = 512,
        LBA_RANGE_LEN = 64,
        EXHID = 1 << 0,
};

/* AER completion DW0: type 2:0, info 15:8, LID 23:16 */
enum {
        AEN_ERROR = 0,
        AEN_SMART = 1,
        AEN_NOTICE = 2,
        AEN_IMMEDIATE = 3,
        AEN_ONE_SHOT = 4,
        AEN_COMMAND_SET = 6,
        AEN_VENDOR = 7,
        AEN_INFO_TEMPERATURE = 0x01, /* of AEN_SMART */
        AEN_INFO_NS_CHANGED = 0x00,
        AEN_INFO_ANA = 0x03,
        AEN_INFO_LBA_STATUS = 0x05,
        AEN_INFO_ALLOCATED = 0x09,
        AEN_INFO_DISCOVERY = 0xf0,
        AEN_INFO_RESERVATION = 0x00, /* of AEN_COMMAND_SET */
        AEN_INFO_SANITIZED = 0x01,   /* ... too */
        AEC_TEMPERATURE = 1 << 1,    /* feature 0Bh: bit 1 of the critical warnings */
        AEC_NS = 1 << 8,
        AEC_ANA = 1 << 11,
        AEC_LBA_STATUS = 1 << 13,
        AEC_ALLOCATED = 1 << 19,
        AEC_DISCOVERY = 1u << 31,
};

#endif

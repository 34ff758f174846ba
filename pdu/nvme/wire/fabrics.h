/* SPDX-License-Identifier: BSD-3-Clause */
/* NVMe over Fabrics: Base 2.2 chapters 3.1.4 (properties), 4.7 (NQNs) and 6 (Fabrics commands). */
#ifndef NVMF_WIRE_FABRICS_H
#define NVMF_WIRE_FABRICS_H

#include "nvme.h"
#include "text.h"

enum fctype {
        FCTYPE_PROPERTY_SET = 0x00,
        FCTYPE_CONNECT = 0x01,
        FCTYPE_PROPERTY_GET = 0x04,
        FCTYPE_AUTH_SEND = 0x05,
        FCTYPE_AUTH_RECEIVE = 0x06,
        FCTYPE_DISCONNECT = 0x08,
};
const char *fctype_name(uint8_t fctype); /* NULL if not assigned */

static inline bool sqe_is_fabrics(const union sqe *s, enum fctype type)
{
        return s->opc == NVME_FABRICS && s->fctype == type;
}

static inline bool sqe_is_connect(const union sqe *s)
{
        return sqe_is_fabrics(s, FCTYPE_CONNECT);
}

/* Authentication Send or Receive. */
static inline bool sqe_is_auth(const union sqe *s)
{
        return sqe_is_fabrics(s, FCTYPE_AUTH_SEND) || sqe_is_fabrics(s, FCTYPE_AUTH_RECEIVE);
}

enum {
        CONNECT_DATA_LEN = 1024,
        CATTR_PRIORITY = 3,
        CATTR_DISABLE_SQFC = 1 << 2,
        CATTR_INDIVIDUAL_DELETE = 1 << 3,
        CNTLID_DYNAMIC = 0xffff,
        CNTLID_STATIC = 0xfffe,
        CNTLID_MIN = 1,
        CNTLID_MAX = 0xffef,
        SQHD_DISABLED = 0xffff,
        CONNECT_IATTR_DATA = 1 << 16, /* response DW0: IPO counts within the data */
        CONNECT_ATR = 1 << 17,        /* response DW0 AUTHREQ: authentication required */
        CONNECT_ASCR = 1 << 18,
        CONNECT_AUTHREQ_SHIFT = 16,
        NQN_MAX = 223, /* bytes, without NUL */
        NQN_FIELD = 256,
        ADMIN_SQ_MIN = 32, /* entries */
};
#define NQN_DISCOVERY "nqn.2014-08.org.nvmexpress.discovery"

struct connect_data {
        uint8_t hostid[16];
        le16_t cntlid;
        uint8_t rsvd18[238];
        char subnqn[NQN_FIELD], hostnqn[NQN_FIELD];
        uint8_t rsvd768[256];
};
_Static_assert(sizeof(struct connect_data) == CONNECT_DATA_LEN, "Connect data");
_Static_assert(offsetof(struct connect_data, subnqn) == 256, "SUBNQN");
_Static_assert(offsetof(struct connect_data, hostnqn) == 512, "HOSTNQN");

/*
 * Syntax of an NQN in a field of `size` bytes (Base 4.7): NUL-terminated, at most 223 bytes,
 * "nqn.yyyy-mm." + reverse domain, with an optional ":" string, or the uuid form. strict also wants
 * the colon part (as 4.7 lists it) unless it is the discovery NQN.
 */
bool nqn_valid(const char *nqn, size_t size, bool strict);
/* Whether it has the form with a UUID, which belongs to NVM Express. NUL-terminated, as in the next. */
bool nqn_has_uuid(const char *nqn);
/* Whether it is none of NVM Express's own domain, or one of those that the specification defines there
 * (Base 4.7), or Linux before 4.13 used. */
bool nqn_is_formed(const char *nqn);

/* All fields. */
void describe_connect_data(const struct describe *d, const struct connect_data *c);
/* The fields after the SGL of a Fabrics command, NULL if FCTYPE is not assigned. */
const struct field *fabrics_fields(uint8_t fctype);

enum property {
        PROP_CAP = 0x00,
        PROP_VS = 0x08,
        PROP_CC = 0x14,
        PROP_CSTS = 0x1c,
        PROP_NSSR = 0x20,
        PROP_NSSD = 0x64,
        PROP_CRTO = 0x68,
        PROP_VENDOR = 0x1300, /* from here on */
};
enum { PROP_ATTRIB_4 = 0, PROP_ATTRIB_8 = 1 };
const char *property_name(uint32_t ofst); /* NULL if not a property of message-based controllers */
unsigned property_size(uint32_t ofst);    /* 4 or 8 bytes; 0 if not a property */
/* Whether message-based controllers have it reserved; a property may begin there; it can be written. */
bool property_is_reserved(uint32_t ofst);
bool property_begins(uint32_t ofst);
bool property_is_writable(uint32_t ofst);
/* The fields of CAP, VS, CC, CSTS or CRTO. */
void describe_property(const struct describe *d, uint32_t ofst, uint64_t value);

/* CAP */
#define CAP_MQES(cap)      ((uint16_t)(cap)) /* 0's based */
#define CAP_CQR            (UINT64_C(1) << 16)
#define CAP_TO(cap)        ((unsigned)((cap) >> 24 & 0xff)) /* 500 ms units */
#define CAP_DSTRD(cap)     ((unsigned)((cap) >> 32 & 0xf))
#define CAP_CSS(cap)       ((unsigned)((cap) >> 37 & 0xff))
#define CAP_CSS_NVM        (UINT64_C(1) << 37)
#define CAP_CSS_IOCSS      (UINT64_C(1) << 43) /* all command sets that there are */
#define CAP_CSS_NOIO       (UINT64_C(1) << 44) /* none for I/O */
#define CAP_CRMS_CRWMS     (UINT64_C(1) << 59)
#define CAP_CRMS_CRIMS     (UINT64_C(1) << 60)
#define CAP_CRMS(cap)      ((unsigned)((cap) >> 59 & 3))
#define CAP_NSSRS          (UINT64_C(1) << 36) /* NVM Subsystem Reset by NSSR */
#define CAP_CPS_WHOLE      (UINT64_C(3) << 46) /* shutdown is of the whole subsystem */
#define CAP_SHUTDOWN_ALL   (UINT64_C(1) << 58) /* NVM Subsystem Shutdown by NSSD */
#define CAP_SHUTDOWN_STAYS (UINT64_C(1) << 61)
#define CAP_MPSMAX         (UINT64_C(15) << 52)
#define CAP_RESERVED       (UINT64_C(3) << 62 | UINT64_C(0x1f) << 19)
/* MPSMIN, MPSMAX, NSSRS and AMS are 0: what discovery controllers shall have by B2.2 3.1.4.1. */
bool cap_is_discovery(uint64_t cap);

/* CC */
#define CC_EN         (1u << 0)
#define CC_SHN(cc)    ((cc) >> 14 & 3)
#define CC_SHN_NORMAL (1u << 14)
#define CC_SHN_ABRUPT (2u << 14)
#define CC_IOSQES     (6u << 16)
#define CC_CRIME      (1u << 24)
#define CC_IOCQES     (4u << 20)
#define CC_FIELDS     0xfff1u   /* without those of I/O queues */
#define CC_IO_FIELDS  0xff0000u /* IOSQES, IOCQES */

/* What is written to NSSR and NSSD: "NVMe", "Nrml" and "Abpt". */
enum { NSSR_RESET = 0x4e564d65, NSSD_NORMAL = 0x4e726d6c, NSSD_ABRUPT = 0x41627074 };

/* CSTS */
#define CSTS_RDY           (1u << 0)
#define CSTS_CFS           (1u << 1)
#define CSTS_SHST(csts)    ((csts) >> 2 & 3)
#define CSTS_SHST_OCCURS   (1u << 2)
#define CSTS_SHST_COMPLETE (2u << 2)
#define CSTS_NSSRO         (1u << 4)
#define CSTS_ST            (1u << 6)
#define CSTS_RESERVED      (~0x7fu)

#define NVME_VERSION(major, minor, tertiary)                                                       \
        ((uint32_t)(major) << 16 | (uint32_t)(minor) << 8 | (uint32_t)(tertiary))

enum { AUTH_SECP = 0xe9, AUTH_SPSP = 0x01 };

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Information units (IUs) of the SCSI RDMA Protocol: T10 1415-D revision 16a, 6.2 to 6.13, and the
 * bits for immediate data that Linux has added. All fields are big-endian; a tag is eight bytes that
 * its receiver gives back as they are. An initiator is PARTY_HOST, a target PARTY_CONTROLLER.
 *
 * Reading is bounded by the length that is given and total: whatever the bytes are, what they hold is
 * found, and what is wrong with them is a set of rules.
 */
#ifndef NVMF_SRP_WIRE_SRP_H
#define NVMF_SRP_WIRE_SRP_H

#include "pdu/core/be.h"
#include "pdu/core/text.h"
#include "rules.h"

enum srp_type {
        SRP_LOGIN_REQ = 0x00,
        SRP_TSK_MGMT = 0x01,
        SRP_CMD = 0x02,
        SRP_I_LOGOUT = 0x03,
        SRP_CRED_RSP = 0x41,
        SRP_AER_RSP = 0x42,
        SRP_T_LOGOUT = 0x80,
        SRP_CRED_REQ = 0x81,
        SRP_AER_REQ = 0x82,
        SRP_LOGIN_RSP = 0xc0,
        SRP_RSP = 0xc1,
        SRP_LOGIN_REJ = 0xc2,
};

enum { /* REQUIRED and SUPPORTED BUFFER FORMATS */
       SRP_FORMAT_DIRECT = 0x0002,
       SRP_FORMAT_INDIRECT = 0x0004,
};
enum { /* flags of a login request; the lowest two bits: multi-channel action */
       SRP_ACTION = 0x03,
       SRP_ACTION_SINGLE = 0,
       SRP_ACTION_MULTI = 1,
       SRP_LOSOLNT = 0x10,   /* solicited notification of logouts, */
       SRP_CRSOLNT = 0x20,   /* credit requests, */
       SRP_AESOLNT = 0x40,   /* asynchronous events */
       SRP_IMMEDIATE = 0x80, /* Linux: immediate data is wanted; in an acceptance: granted */
};
enum { /* flags of an acceptance; the lowest two bits: multi-channel result */
       SRP_RESULT = 0x03,
       SRP_RESULT_NONE = 0, /* there was no channel of the nexus */
       SRP_RESULT_TERMINATED = 1,
       SRP_RESULT_MAINTAINED = 2,
       SRP_SOLNTSUP = 0x10,
};
enum { /* solicited notification: as asked for by a request, as given by who answers */
       SRP_SCSOLNT = 0x02, /* if it succeeds */
       SRP_UCSOLNT = 0x04, /* if it does not */
       SRP_SOLNT = 0x01,
};
enum { /* flags of SRP_RSP */
       SRP_RSPVALID = 0x01,
       SRP_SNSVALID = 0x02,
       SRP_DOOVER = 0x04,
       SRP_DOUNDER = 0x08,
       SRP_DIOVER = 0x10,
       SRP_DIUNDER = 0x20,
};
enum { /* TASK ATTRIBUTE */
       SRP_SIMPLE = 0,
       SRP_HEAD_OF_QUEUE = 1,
       SRP_ORDERED = 2,
       SRP_ACA = 4,
};
enum {
        SRP_TM_ABORT_TASK = 0x01,
        SRP_TM_ABORT_TASK_SET = 0x02,
        SRP_TM_CLEAR_TASK_SET = 0x04,
        SRP_TM_LUN_RESET = 0x08,
        SRP_TM_CLEAR_ACA = 0x40,
};
enum {
        SRP_REJECT_FIRST = 0x00010000, /* no reason is named */
        SRP_REJECT_RESOURCES,
        SRP_REJECT_IU_LENGTH,
        SRP_REJECT_NEXUS,
        SRP_REJECT_FORMATS,
        SRP_REJECT_MULTI,
        SRP_REJECT_CHANNELS,
        SRP_REJECT_LAST = SRP_REJECT_CHANNELS,
};
enum { SRP_CHECK_CONDITION = 2 }; /* a STATUS (SAM) */

enum srp_format { SRP_NO_DATA, SRP_DIRECT, SRP_INDIRECT, SRP_IMMEDIATE_DATA, SRP_FORMATS };

typedef uint8_t srp_port_id[16];
enum { SRP_PORT_ID_TEXT = 2 * sizeof(srp_port_id) + 1 }; /* bytes as text, with the zero */
/* Between an identifier and its 32 hexadecimal digits. False: the text is something else. */
bool srp_port_id_read(srp_port_id id, const char *text);
void srp_port_id_text(const srp_port_id id, char text[SRP_PORT_ID_TEXT]);

struct srp_login_req {
        uint8_t opcode, rsvd1[7];
        be64_t tag;
        be32_t req_it_iu_len; /* bytes */
        uint8_t rsvd20[4];
        be16_t req_buf_fmt;
        uint8_t req_flags, rsvd27;
        be16_t imm_data_offset; /* Linux: of immediate data in a command, bytes */
        uint8_t rsvd30[2];
        srp_port_id initiator_port_id, target_port_id;
};

/* The same as private data of a connect request over RDMA CM, which has room for no more. */
struct srp_login_req_cm {
        be64_t tag;
        be16_t req_buf_fmt;
        uint8_t req_flags, opcode;
        be32_t req_it_iu_len;
        srp_port_id initiator_port_id, target_port_id;
        be16_t imm_data_offset;
        uint8_t rsvd50[6];
};

struct srp_login_rsp {
        uint8_t opcode, rsvd1[3];
        be32_t req_lim_delta;
        be64_t tag;
        be32_t max_it_iu_len, max_ti_iu_len;
        be16_t buf_fmt;
        uint8_t rsp_flags, rsvd27[25];
};

struct srp_login_rej {
        uint8_t opcode, rsvd1[3];
        be32_t reason;
        be64_t tag;
        uint8_t rsvd16[8];
        be16_t buf_fmt;
        uint8_t rsvd26[6];
};

struct srp_tsk_mgmt {
        uint8_t opcode, sol_not, rsvd2[6];
        be64_t tag;
        uint8_t rsvd16[4];
        be64_t lun;
        uint8_t rsvd28[2], function, rsvd31;
        be64_t task_tag;
        uint8_t rsvd40[8];
};

struct srp_cmd { /* then additional CDB, descriptors of data-out, of data-in */
        uint8_t opcode, sol_not, rsvd2[3];
        uint8_t buf_fmt; /* high four bits: data-out */
        uint8_t out_count, in_count;
        be64_t tag;
        uint8_t rsvd16[4];
        be64_t lun;
        uint8_t rsvd28, attr, rsvd30;
        uint8_t add_cdb_len; /* the highest six bits: units of four bytes */
        uint8_t cdb[16];
};

struct srp_logout { /* SRP_I_LOGOUT, SRP_CRED_RSP, SRP_AER_RSP: a tag and nothing else */
        uint8_t opcode, rsvd1[7];
        be64_t tag;
};

struct srp_t_logout {
        uint8_t opcode, sol_not, rsvd2[2];
        be32_t reason;
        be64_t tag;
};

struct srp_rsp { /* then response data, sense data */
        uint8_t opcode, sol_not, rsvd2[2];
        be32_t req_lim_delta; /* signed */
        be64_t tag;
        uint8_t rsvd16[2], flags, status;
        be32_t out_residual, in_residual;
        be32_t sense_len, resp_len; /* bytes */
};

struct srp_cred_req {
        uint8_t opcode, sol_not, rsvd2[2];
        be32_t req_lim_delta;
        be64_t tag;
};

struct srp_aer_req { /* then sense data */
        uint8_t opcode, sol_not, rsvd2[2];
        be32_t req_lim_delta;
        be64_t tag;
        uint8_t rsvd16[4];
        be64_t lun;
        be32_t sense_len;
        uint8_t rsvd32[4];
};

union srp_iu { /* the fixed part, by opcode */
        uint8_t opcode;
        struct srp_login_req login_req;
        struct srp_login_rsp login_rsp;
        struct srp_login_rej login_rej;
        struct srp_tsk_mgmt tsk_mgmt;
        struct srp_cmd cmd;
        struct srp_logout i_logout, cred_rsp, aer_rsp;
        struct srp_t_logout t_logout;
        struct srp_rsp rsp;
        struct srp_cred_req cred_req;
        struct srp_aer_req aer_req;
};

_Static_assert(sizeof(struct srp_login_req) == 64, "6.2");
_Static_assert(sizeof(struct srp_login_req_cm) == 56, "what RDMA CM leaves of 92 bytes");
_Static_assert(sizeof(struct srp_login_rsp) == 52, "6.3");
_Static_assert(sizeof(struct srp_login_rej) == 32, "6.4");
_Static_assert(sizeof(struct srp_logout) == 16, "6.5, 6.11, 6.13");
_Static_assert(sizeof(struct srp_t_logout) == 16, "6.6");
_Static_assert(sizeof(struct srp_tsk_mgmt) == 48, "6.7");
_Static_assert(sizeof(struct srp_cmd) == 48, "6.8");
_Static_assert(sizeof(struct srp_rsp) == 36, "6.9");
_Static_assert(sizeof(struct srp_cred_req) == 16, "6.10");
_Static_assert(sizeof(struct srp_aer_req) == 36, "6.12");
_Static_assert(sizeof(union srp_iu) == 64, "the longest fixed part");

/* --- types ------------------------------------------------------------------------------------ */

struct srp_info {
        const char *name; /* "SRP_CMD" */
        enum srp_type type;
        enum party sender;
        uint8_t len;   /* bytes of the fixed part */
        bool has_more; /* something of variable length follows it */
        bool request;  /* of the initiator: takes one from the request limit */
        bool grants;   /* of the target: REQUEST LIMIT DELTA at byte 4 is added to the limit */
        const struct field *fields; /* ended by name NULL */
};
/* NULL: no such type. */
const struct srp_info *srp_info(uint8_t opcode);
/* In order of their opcodes, by i from 0; NULL: there are no more. */
const struct srp_info *srp_info_at(unsigned i);

/* The fixed part of n bytes, beyond their end zeroes: false if there are fewer than the type's, or none
 * of a known type. */
bool srp_read(const void *p, size_t n, union srp_iu *out);
/* The fixed part to bytes; 0: its type is unknown, or cap is too small. Else its length. */
size_t srp_write(const union srp_iu *iu, void *p, size_t cap);

/* --- logging in ------------------------------------------------------------------------------- */

/* Between the two forms of a login request; what one has not is zero. */
struct srp_login_req srp_login_of_cm(const struct srp_login_req_cm *r);
struct srp_login_req_cm srp_login_to_cm(const struct srp_login_req *r);

/* A login request in a connect request's private data, padded with zeroes or not: in the form of RDMA CM
 * or, if `native`, of an IU. False: it is too short. */
bool srp_login_read(const void *p, size_t n, bool native, struct srp_login_req *out);

/* Whether the private data of a connect request over RDMA CM is a login request beyond doubt: the opcode,
 * a known format, a length that could be, and an initiator's name where others have nothing; either a target's, too, or
 * no other format: an initiator may leave it to the target which of its ports that is. */
bool srp_login_likely(const void *p, size_t n);

/* --- a command's data ------------------------------------------------------------------------- */

struct srp_desc { /* in the initiator's memory; len: bytes */
        uint64_t addr;
        uint32_t key, len;
};
enum { SRP_DESC_LEN = 16, SRP_TABLE_LEN = 20 /* of an indirect descriptor without its list */ };

/* What one direction of a command's data is. Offsets are from the IU's start, all lengths bytes. */
struct srp_data {
        enum srp_format format;
        uint32_t at, size;    /* the descriptor in the IU */
        uint32_t len;         /* of the data, as the initiator says */
        struct srp_desc desc; /* DIRECT: the data; INDIRECT: its table */
        uint32_t in_line;     /* INDIRECT: entries of the table that are in the IU, too, ... */
        uint32_t list_at;     /* ... here */
        uint32_t data_at;     /* IMMEDIATE_DATA: here */
};
struct srp_cmd_parts {
        uint32_t add_cdb_at, add_cdb_len;
        struct srp_data out, in; /* what does not fit into the IU has format SRP_NO_DATA */
};
/* The parts of a command of n bytes, whose immediate data begins at imm_at. Rules that it breaks are
 * added to found; true: all parts are in the IU. */
bool srp_cmd_read(const void *p, uint32_t n, uint32_t imm_at, struct srp_cmd_parts *out,
                  struct rule_set *found);
/* Entry i of an indirect descriptor's list, i < d->in_line. */
struct srp_desc srp_desc_at(const void *p, const struct srp_data *d, uint32_t i);
void srp_desc_put(void *p, const struct srp_desc *d); /* 16 bytes */

/* --- a response's data ------------------------------------------------------------------------ */

struct srp_rsp_parts {
        uint32_t resp_at, resp_len, sense_at, sense_len; /* within the IU; len 0: none */
};
/* As srp_cmd_read(). */
bool srp_rsp_read(const void *p, uint32_t n, struct srp_rsp_parts *out, struct rule_set *found);

/* --- rules of one IU -------------------------------------------------------------------------- */

/* What an IU breaks that shows in it alone, whole and of n bytes, sent by `sender`. imm_at: as above. */
void srp_check(const void *p, uint32_t n, enum party sender, uint32_t imm_at,
               struct rule_set *found);
/* Likewise of the fixed part of a login request. */
void srp_login_check(const struct srp_login_req *r, struct rule_set *found);

/* --- words ------------------------------------------------------------------------------------ */

/* All fields and parts of an IU. imm_at: as above. */
void srp_describe(const struct describe *d, const void *p, uint32_t n, uint32_t imm_at);
/* One line: "SRP_CMD tag 5h lun 0h READ(10) in 4096 direct", without line end. */
void srp_line(struct text *t, const void *p, uint32_t n, uint32_t imm_at);
const char *srp_reject_name(uint32_t reason); /* "reserved" */
const char *srp_command_name(uint8_t opcode); /* of SCSI: "READ(10)"; NULL: another one */

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
#include "spoil.h"

#include <string.h>

#include "pdu/wire/fabrics.h"

enum op { PUT, ADD, FLIP };

/* Little-endian field of a header, completion or data structure, and what is done to it. */
struct change {
        uint16_t offset, size;
        enum op op;
        uint64_t value;
};

static void make(uint8_t *base, const struct change *c)
{
        uint8_t *p = base + c->offset;
        uint64_t old = le_get(p, c->size);

        switch (c->op) {
        case PUT:
                le_put(p, c->size, c->value);
                break;
        case ADD:
                le_put(p, c->size, old + c->value);
                break;
        case FLIP:
                le_put(p, c->size, old ^ c->value);
                break;
        }
}

#define SIZE(type, member) sizeof(((type *)0)->member)
#define AT(type, member)   offsetof(type, member), SIZE(type, member)

/* Opcodes of I/O and admin queues overlap; only the former have the NSID of a single namespace. */
static bool has_nsid(const union sqe *sqe)
{
        uint32_t nsid = le32_get(sqe->nsid);

        return nsid > 0 && nsid < UINT32_MAX;
}

/* --- which PDU -------------------------------------------------------------------------------- */

typedef bool fits_fn(const struct spoil *s);

static bool always(const struct spoil *s)
{
        (void)s;
        return true;
}

static bool is_opcode(const struct spoil *s, uint8_t opc)
{
        return s->sqe && s->sqe->opc == opc;
}

/* Opcodes 01h and 02h: on an admin queue Get Log Page is a Read, too. */
static bool of_write(const struct spoil *s)
{
        return is_opcode(s, NVME_WRITE);
}

static bool of_read(const struct spoil *s)
{
        return is_opcode(s, NVME_READ);
}

static bool is_last(const struct spoil *s)
{
        return s->h->ch.flags & PDU_LAST;
}

static bool is_not_last(const struct spoil *s)
{
        return !is_last(s);
}

static bool is_last_of_read(const struct spoil *s)
{
        return of_read(s) && is_last(s);
}

static bool has_hdgst_of_write(const struct spoil *s)
{
        return of_write(s) && (s->h->ch.flags & PDU_HDGSTF);
}

static bool has_ddgst(const struct spoil *s)
{
        return s->h->ch.flags & PDU_DDGSTF;
}

static bool has_ddgst_of_read(const struct spoil *s)
{
        return of_read(s) && has_ddgst(s);
}

static bool ends_without_success(const struct spoil *s)
{
        return is_last_of_read(s) && !(s->h->ch.flags & PDU_SUCCESS);
}

static bool is_plain(const struct spoil *s)
{
        return s->h->cmd.sqe.opc != NVME_FABRICS;
}

static bool is_plain_with_hdgst(const struct spoil *s)
{
        return is_plain(s) && (s->h->ch.flags & PDU_HDGSTF);
}

static bool is_plain_with_ddgst(const struct spoil *s)
{
        return is_plain(s) && has_ddgst(s);
}

static bool is_plain_with_data(const struct spoil *s)
{
        return is_plain(s) && s->data_len > 0;
}

static bool is_plain_with_sgl(const struct spoil *s)
{
        return is_plain(s) && sqe_xfer(&s->h->cmd.sqe) != XFER_NONE &&
               le32_get(s->h->cmd.sqe.sgl.len) > 0;
}

/* Others may be answered before the next capsule is looked at. */
static bool stays_outstanding(const struct spoil *s)
{
        const union sqe *sqe = &s->h->cmd.sqe;
        bool waits_for_r2t = sqe->sgl.id == SGL_TRANSPORT && sqe_xfer(sqe) == XFER_H2C;

        return is_plain(s) && (sqe->opc == NVME_AER || (waits_for_r2t && le32_get(sqe->sgl.len)));
}

static bool is_fabrics(const struct spoil *s, enum fctype type)
{
        return s->h->cmd.sqe.opc == NVME_FABRICS && s->h->cmd.sqe.fctype == type;
}

static bool is_connect(const struct spoil *s)
{
        return is_fabrics(s, FCTYPE_CONNECT);
}

static bool is_admin_connect(const struct spoil *s)
{
        return is_connect(s) && le16_get(s->h->cmd.sqe.connect.qid) == 0;
}

static bool is_io_connect(const struct spoil *s)
{
        return is_connect(s) && le16_get(s->h->cmd.sqe.connect.qid) != 0;
}

static bool is_disconnect(const struct spoil *s)
{
        return is_fabrics(s, FCTYPE_DISCONNECT);
}

static bool is_property_get(const struct spoil *s)
{
        return is_fabrics(s, FCTYPE_PROPERTY_GET);
}

/* Not the one that enables the controller: then other rules would be broken after it. */
static bool is_shutdown(const struct spoil *s)
{
        return is_fabrics(s, FCTYPE_PROPERTY_SET) &&
               CC_SHN(le64_get(s->h->cmd.sqe.property.value)) != 0;
}

static bool is_keep_alive(const struct spoil *s)
{
        return s->h->cmd.sqe.opc == NVME_KEEP_ALIVE;
}

static bool is_identify_buffer(const struct spoil *s)
{
        return s->h->cmd.sqe.opc == NVME_IDENTIFY && s->h->cmd.sqe.sgl.id == SGL_TRANSPORT;
}

/* On an I/O queue the opcode is Dataset Management, which has data. */
static bool is_kato(const struct spoil *s)
{
        return s->h->cmd.sqe.opc == NVME_SET_FEATURES && le32_get(s->h->cmd.sqe.sgl.len) == 0 &&
               (le32_get(s->h->cmd.sqe.cdw10) & 0xff) == FEAT_KATO;
}

static bool is_get_features(const struct spoil *s)
{
        return s->h->cmd.sqe.opc == NVME_GET_FEATURES;
}

static bool is_log(const struct spoil *s)
{
        return s->h->cmd.sqe.opc == NVME_GET_LOG_PAGE && !has_nsid(&s->h->cmd.sqe);
}

static bool is_io(const struct spoil *s)
{
        uint8_t opc = s->h->cmd.sqe.opc;

        return (opc == NVME_READ || opc == NVME_WRITE || opc == NVME_FLUSH) &&
               has_nsid(&s->h->cmd.sqe);
}

static bool is_in_capsule(const struct spoil *s)
{
        return is_plain(s) && s->data_len > 0 && s->h->cmd.sqe.sgl.id == SGL_IN_CAPSULE;
}

/* --- what a field alone cannot say ------------------------------------------------------------ */

typedef bool break_fn(struct spoil *s);

/* An identifier that differs in this bit is unlikely to be in use as well. */
enum { STRANGE = 0x4000 };

static void add_plen(struct spoil *s, uint32_t n)
{
        s->h->ch.plen = le32(le32_get(s->h->ch.plen) + n);
}

static bool send_twice(struct spoil *s)
{
        s->twice = true;
        return true;
}

static bool flip_hdgst(struct spoil *s)
{
        s->hdgst_xor = 0x80000001;
        return true;
}

static bool flip_ddgst(struct spoil *s)
{
        s->ddgst_xor = 0x80000001;
        return true;
}

static bool set_flags(struct spoil *s, unsigned set, unsigned clear)
{
        s->h->ch.flags = (uint8_t)((s->h->ch.flags | set) & ~clear);
        return true;
}

static bool claim_success(struct spoil *s)
{
        return set_flags(s, PDU_SUCCESS, PDU_LAST);
}

static bool clear_last(struct spoil *s)
{
        return set_flags(s, 0, PDU_LAST);
}

/* Twice a PDO that is aligned is aligned, too. */
static bool pad_more(struct spoil *s)
{
        uint32_t pdo = s->h->ch.pdo;

        if (pdo == 0 || pdo * 2 > UINT8_MAX || s->pad + pdo > PDU_PDO_MAX)
                return false;
        s->h->ch.pdo = (uint8_t)(pdo * 2);
        s->pad += pdo;
        add_plen(s, pdo);
        return true;
}

/* DATAL and PLEN, and what is sent when it gets less. */
static bool resize(struct spoil *s, uint32_t len)
{
        add_plen(s, len - s->data_len);
        s->h->data.length = le32(len);
        if (len < s->data_len)
                s->data_len = len;
        return true;
}

static bool cut_half_dword(struct spoil *s)
{
        return s->data_len > 2 && resize(s, s->data_len - 2);
}

static bool cut_dword(struct spoil *s)
{
        return s->data_len > 4 && resize(s, s->data_len - 4);
}

static bool claim_dword(struct spoil *s)
{
        return s->data_len > 0 && resize(s, s->data_len + 4);
}

/* More than any MAXH2CDATA; of an R2T served in several PDUs it is enough to exceed the first. */
static bool claim_too_much(struct spoil *s)
{
        if (s->data_len == 0)
                return false;
        return resize(s, is_last(s) ? 0x40000000 : s->data_len + 4);
}

static bool past_buffer(struct spoil *s)
{
        uint32_t end = le32_get(s->sqe->sgl.len);

        return s->data_len > 0 && resize(s, end - le32_get(s->h->data.offset) + 4);
}

static bool r2t_past_buffer(struct spoil *s)
{
        uint32_t end = s->sqe ? le32_get(s->sqe->sgl.len) : 0;

        s->h->data.length = le32(end - le32_get(s->h->data.offset) + 4);
        return s->sqe != NULL;
}

/* Without data there is no PDO and no DDGST. */
static bool empty(struct spoil *s)
{
        s->h->data.length = le32(0);
        s->h->ch.plen = le32(24 + (s->h->ch.flags & PDU_HDGSTF ? (uint32_t)PDU_DIGEST_LEN : 0));
        s->h->ch.pdo = 0;
        s->data_len = s->pad = 0;
        return set_flags(s, 0, PDU_DDGSTF);
}

/* In place of the R2T for a Write: C2HData of no bytes, which has nothing else wrong. */
static bool answer_write_with_data(struct spoil *s)
{
        s->h->ch.type = PDU_C2H_DATA;
        s->h->data.ttag = le16(0);
        s->h->data.length = s->h->data.offset = le32(0);
        return set_flags(s, PDU_LAST, 0);
}

/* H2CData for a command that nobody knows. */
static bool answer_nobody(struct spoil *s)
{
        s->h->data.cccid = le16(le16_get(s->h->data.cccid) ^ STRANGE);
        s->h->data.ttag = le16(le16_get(s->h->data.ttag) ^ STRANGE);
        return true;
}

/* The first bytes of ICReq, read as a capsule. */
static bool skip_icreq(struct spoil *s)
{
        s->h->ch = (struct pdu_ch) { PDU_CAPSULE_CMD, 0, 72, 0, le32(72) };
        return true;
}

static bool no_copy(struct spoil *s)
{
        s->h->ch.plen = le32(sizeof(struct pdu_term));
        s->data_len = 0;
        return true;
}

/* A capsule that says it carries n bytes. */
static bool claim_in_capsule(struct spoil *s, uint32_t n)
{
        s->h->cmd.sqe.sgl.len = le32(n);
        add_plen(s, n - s->data_len);
        if (n < s->data_len)
                s->data_len = n;
        return true;
}

static bool huge_capsule(struct spoil *s)
{
        return claim_in_capsule(s, 1u << 24);
}

static bool halve_connect_data(struct spoil *s)
{
        if (s->data_len > 0)
                return claim_in_capsule(s, CONNECT_DATA_LEN / 2);
        s->h->cmd.sqe.sgl.len = le32(CONNECT_DATA_LEN / 2);
        return true;
}

static bool fill_nqn(struct spoil *s, size_t offset)
{
        memset(s->data + offset, 'x', NQN_FIELD);
        return true;
}

static bool fill_subnqn(struct spoil *s)
{
        return fill_nqn(s, offsetof(struct connect_data, subnqn));
}

static bool fill_hostnqn(struct spoil *s)
{
        return fill_nqn(s, offsetof(struct connect_data, hostnqn));
}

static bool change_nqn(struct spoil *s, size_t offset)
{
        char *nqn = (char *)s->data + offset;
        size_t len = strnlen(nqn, NQN_FIELD);

        if (len == 0 || len == NQN_FIELD)
                return false;
        nqn[len - 1] ^= 1;
        return true;
}

static bool change_subnqn(struct spoil *s)
{
        return change_nqn(s, offsetof(struct connect_data, subnqn));
}

static bool change_hostnqn(struct spoil *s)
{
        return change_nqn(s, offsetof(struct connect_data, hostnqn));
}

static bool other_hostid(struct spoil *s)
{
        s->data[offsetof(struct connect_data, hostid)] ^= 1;
        return true;
}

static bool zero_hostid(struct spoil *s)
{
        memset(s->data, 0, SIZE(struct connect_data, hostid));
        return true;
}

/* --- PDUs ------------------------------------------------------------------------------------- */

struct violator {
        enum rule_id rule;
        uint8_t type; /* of the PDU */
        bool in_data; /* Connect's, not the header */
        fits_fn *fits;
        break_fn *call; /* false: it cannot be done to this one; NULL: */
        struct change change;
};

#define CHANGE(name, kind, when, member, ...)                                                      \
        {                                                                                          \
                .rule = (name), .type = PDU_##kind, .fits = (when),                                \
                .change = { AT(union pdu, member), __VA_ARGS__ },                                  \
        }
#define BYTES(name, kind, when, member, ...)                                                       \
        {                                                                                          \
                .rule = (name), .type = PDU_##kind, .fits = (when),                                \
                .change = { offsetof(union pdu, member), __VA_ARGS__ },                            \
        }
#define CALL(name, kind, when, function)                                                           \
        {                                                                                          \
                .rule = (name), .type = PDU_##kind, .fits = (when), .call = (function),            \
        }
#define DATA(name, when, member, ...)                                                              \
        {                                                                                          \
                .rule = (name), .type = PDU_CAPSULE_CMD, .fits = (when), .in_data = true,          \
                .change = { AT(struct connect_data, member), __VA_ARGS__ },                        \
        }
#define CALL_DATA(name, when, function)                                                            \
        {                                                                                          \
                .rule = (name), .type = PDU_CAPSULE_CMD, .fits = (when), .in_data = true,          \
                .call = (function),                                                                \
        }

static const struct violator violators[] = {
        /* clang-format off */
        /* common header */
        CHANGE(TCP_TYPE_H2C, CAPSULE_CMD, is_plain, ch.type, PUT, 0x08),
        CHANGE(TCP_TYPE_C2H, CAPSULE_RESP, of_write, ch.type, PUT, 0x08),
        CHANGE(TCP_DIR_H2C, CAPSULE_CMD, is_plain, ch.type, PUT, PDU_CAPSULE_RESP),
        CHANGE(TCP_DIR_C2H, CAPSULE_RESP, of_write, ch.type, PUT, PDU_CAPSULE_CMD),
        CHANGE(TCP_HLEN_H2C, CAPSULE_CMD, is_plain, ch.hlen, ADD, 4),
        CHANGE(TCP_HLEN_C2H, CAPSULE_RESP, of_write, ch.hlen, ADD, 4),
        CHANGE(TCP_PLEN_H2C, ICREQ, always, ch.plen, ADD, 4),
        CHANGE(TCP_PLEN_C2H, CAPSULE_RESP, of_write, ch.plen, ADD, 4),
        CHANGE(TCP_FLAGS_H2C, CAPSULE_CMD, is_plain, ch.flags, FLIP, 0x40),
        CHANGE(TCP_FLAGS_C2H, CAPSULE_RESP, of_write, ch.flags, FLIP, 0x40),
        CHANGE(TCP_PDO_H2C, CAPSULE_CMD, is_plain_with_data, ch.pdo, ADD, 1),
        CHANGE(TCP_PDO_H2C, H2C_DATA, always, ch.pdo, ADD, 1),
        CHANGE(TCP_PDO_C2H, C2H_DATA, of_read, ch.pdo, ADD, 1),
        CALL(TCP_PAD_MIN_H2C, CAPSULE_CMD, is_plain, pad_more),
        CALL(TCP_PAD_MIN_H2C, H2C_DATA, always, pad_more),
        CALL(TCP_PAD_MIN_C2H, C2H_DATA, of_read, pad_more),
        /* connection set-up */
        CALL(TCP_ICREQ_FIRST, ICREQ, always, skip_icreq),
        CALL(TCP_ICREQ_ONCE, ICREQ, always, send_twice),
        CHANGE(TCP_ICREQ_PFV, ICREQ, always, icreq.pfv, PUT, 1),
        CHANGE(TCP_ICREQ_HPDA, ICREQ, always, icreq.hpda, PUT, PDU_PDA_MAX + 1),
        BYTES(TCP_ICREQ_RSVD, ICREQ, always, icreq.rsvd, 8, PUT, 1),
        CALL(TCP_ICRESP_ONCE, ICRESP, always, send_twice),
        CHANGE(TCP_ICRESP_PFV, ICRESP, always, icresp.pfv, PUT, 1),
        CHANGE(TCP_ICRESP_CPDA, ICRESP, always, icresp.cpda, PUT, PDU_PDA_MAX + 1),
        CHANGE(TCP_ICRESP_DGST, ICRESP, always, icresp.dgst, PUT, PDU_DGST_HEADER | PDU_DGST_DATA),
        CHANGE(TCP_ICRESP_MAXH2C, ICRESP, always, icresp.maxh2cdata, ADD, 2),
        CHANGE(TCP_ICRESP_MAXH2C_MIN, ICRESP, always, icresp.maxh2cdata, PUT, PDU_MAXH2CDATA_MIN / 2),
        BYTES(TCP_ICRESP_RSVD, ICRESP, always, icresp.rsvd, 8, PUT, 1),
        /* digests */
        CALL(TCP_HDGST_H2C, CAPSULE_CMD, is_plain_with_hdgst, flip_hdgst),
        CALL(TCP_HDGST_C2H, CAPSULE_RESP, has_hdgst_of_write, flip_hdgst),
        CALL(TCP_DDGST_H2C, CAPSULE_CMD, is_plain_with_ddgst, flip_ddgst),
        CALL(TCP_DDGST_H2C, H2C_DATA, has_ddgst, flip_ddgst),
        CALL(TCP_DDGST_C2H, C2H_DATA, has_ddgst_of_read, flip_ddgst),
        CHANGE(TCP_DGSTF_H2C, CAPSULE_CMD, is_plain, ch.flags, FLIP, PDU_HDGSTF),
        CHANGE(TCP_DGSTF_C2H, CAPSULE_RESP, of_write, ch.flags, FLIP, PDU_HDGSTF),
        /* capsules */
        CALL(TCP_ICD_LIMIT, CAPSULE_CMD, is_in_capsule, huge_capsule),
        CHANGE(TCP_ICD_LEN, CAPSULE_CMD, is_in_capsule, cmd.sqe.sgl.len, ADD, 4),
        CHANGE(TCP_SGL_TYPE, CAPSULE_CMD, is_plain_with_sgl, cmd.sqe.sgl.id, PUT, SGL_KEYED),
        CHANGE(TCP_RESP_CID, CAPSULE_RESP, of_write, resp.cqe.cid, FLIP, STRANGE),
        CALL(TCP_CMD_CID, CAPSULE_CMD, stays_outstanding, send_twice),
        CHANGE(TCP_RESP_RSVD, CAPSULE_RESP, of_write, resp.cqe.sqid, PUT, 1),
        /* controller to host data */
        CHANGE(TCP_C2H_CID, C2H_DATA, of_read, data.cccid, FLIP, STRANGE),
        CALL(TCP_C2H_DIR, R2T, of_write, answer_write_with_data),
        CHANGE(TCP_C2H_CONTIG, C2H_DATA, of_read, data.offset, ADD, 4),
        CALL(TCP_C2H_RANGE, C2H_DATA, of_read, past_buffer),
        CALL(TCP_C2H_AFTER_LAST, C2H_DATA, is_last_of_read, send_twice),
        CALL(TCP_C2H_LAST, C2H_DATA, ends_without_success, clear_last),
        CALL(TCP_C2H_SUCCESS_LAST, C2H_DATA, of_read, claim_success),
        CHANGE(TCP_C2H_DWORD_OFFSET, C2H_DATA, of_read, data.offset, ADD, 2),
        CALL(TCP_C2H_DWORD_LENGTH, C2H_DATA, of_read, cut_half_dword),
        CHANGE(TCP_C2H_DATAL, C2H_DATA, of_read, data.length, ADD, 4),
        /* host to controller data */
        CHANGE(TCP_R2T_CID, R2T, always, data.cccid, FLIP, STRANGE),
        CHANGE(TCP_R2T_CONTIG, R2T, always, data.offset, ADD, 4),
        CALL(TCP_R2T_RANGE, R2T, always, r2t_past_buffer),
        CHANGE(TCP_R2T_EMPTY, R2T, always, data.length, PUT, 0),
        CHANGE(TCP_R2T_DWORD_OFFSET, R2T, always, data.offset, ADD, 2),
        CHANGE(TCP_R2T_DWORD_LENGTH, R2T, always, data.length, ADD, (uint64_t)-2),
        CHANGE(TCP_H2C_TTAG, H2C_DATA, always, data.ttag, FLIP, STRANGE),
        CALL(TCP_H2C_UNSOLICITED, H2C_DATA, always, answer_nobody),
        CHANGE(TCP_H2C_CID, H2C_DATA, always, data.cccid, FLIP, STRANGE),
        CHANGE(TCP_H2C_CONTIG, H2C_DATA, always, data.offset, ADD, 4),
        CALL(TCP_H2C_RANGE, H2C_DATA, is_last, claim_dword),
        CALL(TCP_H2C_LIMIT, H2C_DATA, is_not_last, claim_too_much),
        CALL(TCP_H2C_LIMIT_RANGE, H2C_DATA, is_last, claim_too_much),
        CALL(TCP_H2C_LAST_EARLY, H2C_DATA, is_last, cut_dword),
        CHANGE(TCP_H2C_LAST_EARLY, H2C_DATA, is_not_last, ch.flags, FLIP, PDU_LAST),
        CALL(TCP_H2C_LAST_MISSING, H2C_DATA, is_last, clear_last),
        CHANGE(TCP_H2C_DATAL, H2C_DATA, always, data.length, ADD, 4),
        CALL(TCP_H2C_EMPTY, H2C_DATA, always, empty),
        CHANGE(TCP_H2C_DWORD_OFFSET, H2C_DATA, always, data.offset, ADD, 2),
        CALL(TCP_H2C_DWORD_LENGTH, H2C_DATA, always, cut_half_dword),
        /* termination */
        CHANGE(TCP_TERM_LEN_H2C, H2C_TERM, always, ch.plen, PUT, PDU_TERM_MAX + 1),
        CHANGE(TCP_TERM_LEN_C2H, C2H_TERM, always, ch.plen, PUT, PDU_TERM_MAX + 1),
        CHANGE(TCP_TERM_FES_C2H, C2H_TERM, always, term.fes, PUT, 0xff),
        CALL(TCP_TERM_COPY_C2H, C2H_TERM, always, no_copy),
        CHANGE(TCP_TERM_DIGEST_C2H, C2H_TERM, always, ch.flags, PUT, PDU_HDGSTF),
        /* commands */
        CHANGE(FAB_FCTYPE, CAPSULE_CMD, is_property_get, cmd.sqe.fctype, PUT, 0x0c),
        CHANGE(FAB_OPCODE, CAPSULE_CMD, is_keep_alive, cmd.sqe.opc, PUT, NVME_DELETE_SQ),
        CHANGE(FAB_FIRST_CONNECT, CAPSULE_CMD, is_connect, cmd.sqe.opc, PUT, NVME_KEEP_ALIVE),
        CHANGE(FAB_SGL_SHORT, CAPSULE_CMD, is_identify_buffer, cmd.sqe.sgl.len, ADD, (uint64_t)-4),
        CHANGE(FAB_NSID, CAPSULE_CMD, is_io, cmd.sqe.nsid, PUT, 0xfffffff0),
        CHANGE(FAB_DISCONNECT_RECFMT, CAPSULE_CMD, is_disconnect, cmd.sqe.disconnect.recfmt, PUT, 1),
        CHANGE(FAB_PROP_OFFSET, CAPSULE_CMD, is_property_get, cmd.sqe.property.ofst, PUT, 0x04),
        CHANGE(FAB_PROP_SIZE, CAPSULE_CMD, is_property_get, cmd.sqe.property.attrib, FLIP, 1),
        CHANGE(FAB_PROP_RO, CAPSULE_CMD, is_shutdown, cmd.sqe.property.ofst, PUT, PROP_VS),
        CHANGE(KA_ZERO, CAPSULE_CMD, is_kato, cmd.sqe.cdw11, PUT, 0),
        BYTES(FEAT_UNKNOWN, CAPSULE_CMD, is_get_features, cmd.sqe.cdw10, 1, PUT, 0x7f),
        BYTES(LOG_UNKNOWN, CAPSULE_CMD, is_log, cmd.sqe.cdw10, 1, PUT, 0xbf),
        CHANGE(LOG_OFFSET, CAPSULE_CMD, is_log, cmd.sqe.cdw13, PUT, 0x7fffffff),
        /* Connect */
        CHANGE(FAB_CONNECT_RECFMT, CAPSULE_CMD, is_connect, cmd.sqe.connect.recfmt, PUT, 1),
        CHANGE(FAB_CONNECT_SQSIZE_ZERO, CAPSULE_CMD, is_connect, cmd.sqe.connect.sqsize, PUT, 0),
        CHANGE(FAB_CONNECT_SQSIZE_MAX, CAPSULE_CMD, is_connect, cmd.sqe.connect.sqsize, PUT, 0xffff),
        CHANGE(FAB_CONNECT_QID, CAPSULE_CMD, is_io_connect, cmd.sqe.connect.qid, PUT, 0xffff),
        CALL(FAB_CONNECT_DATA, CAPSULE_CMD, is_connect, halve_connect_data),
        DATA(FAB_CONNECT_CNTLID_DYN, is_admin_connect, cntlid, PUT, CNTLID_MIN),
        DATA(FAB_CONNECT_CNTLID_IO, is_io_connect, cntlid, FLIP, STRANGE),
        CALL_DATA(FAB_CONNECT_SUBNQN, is_admin_connect, change_subnqn),
        CALL_DATA(FAB_CONNECT_SUBNQN_SYNTAX, is_connect, fill_subnqn),
        CALL_DATA(FAB_CONNECT_HOSTNQN_SYNTAX, is_connect, fill_hostnqn),
        CALL_DATA(FAB_CONNECT_HOST, is_admin_connect, change_hostnqn),
        CALL_DATA(FAB_CONNECT_IO_SUBNQN, is_io_connect, change_subnqn),
        CALL_DATA(FAB_CONNECT_IO_HOSTNQN, is_io_connect, change_hostnqn),
        CALL_DATA(FAB_CONNECT_IO_HOSTID, is_io_connect, other_hostid),
        CALL_DATA(FAB_CONNECT_HOSTID_ZERO, is_admin_connect, zero_hostid),
        /* clang-format on */
};

enum { VIOLATORS = sizeof(violators) / sizeof(violators[0]) };

static bool strike(const struct violator *v, struct spoil *s)
{
        bool writable = s->data && s->data_writable && s->data_len >= CONNECT_DATA_LEN;

        if (!v->fits(s) || (v->in_data && !writable))
                return false;
        if (v->call)
                return v->call(s);
        make(v->in_data ? s->data : s->h->bytes, &v->change);
        return true;
}

bool spoil_pdu(const struct rule_set *violated, enum party sender, struct spoil *s)
{
        const struct pdu_info *info = pdu_info(s->h->ch.type);
        uint8_t type = s->h->ch.type; /* one violator may change it under another */
        bool any = false;

        if (!info || info->sender != sender)
                return false;
        for (unsigned i = 0; i < VIOLATORS; i++)
                if (violators[i].type == type && rule_in(violated, violators[i].rule))
                        any |= strike(&violators[i], s);
        return any;
}

/* --- completions ------------------------------------------------------------------------------ */

struct done {
        const union sqe *sqe;
        struct cqe *cqe;
        uint8_t *data;
        uint32_t len;
};

static bool succeeded(const struct done *d)
{
        return cqe_status(d->cqe) == NVME_SUCCESS;
}

static bool done_connect(const struct done *d)
{
        return d->sqe->opc == NVME_FABRICS && d->sqe->fctype == FCTYPE_CONNECT;
}

static bool done_connected(const struct done *d)
{
        return done_connect(d) && succeeded(d);
}

static bool done_connect_failed(const struct done *d)
{
        return done_connect(d) && !succeeded(d);
}

static bool done_not_connect(const struct done *d)
{
        return !done_connect(d);
}

/* Commands without a result, on either kind of queue. */
static bool done_without_result(const struct done *d)
{
        return succeeded(d) && (d->sqe->opc == NVME_IDENTIFY || d->sqe->opc == NVME_WRITE);
}

static bool done_long_sgl(const struct done *d)
{
        uint32_t len = le32_get(d->sqe->sgl.len);
        uint32_t ranges = (le32_get(d->sqe->cdw10) & 0xff) + 1;

        if (d->sqe->opc == NVME_DSM && has_nsid(d->sqe))
                return len > ranges * sizeof(struct dsm_range);
        return d->sqe->opc == NVME_IDENTIFY && len > IDENTIFY_LEN;
}

static bool done_property(const struct done *d, enum property ofst)
{
        return succeeded(d) && d->sqe->opc == NVME_FABRICS &&
               d->sqe->fctype == FCTYPE_PROPERTY_GET && le32_get(d->sqe->property.ofst) == ofst;
}

static bool done_cap(const struct done *d)
{
        return done_property(d, PROP_CAP);
}

static bool done_vs(const struct done *d)
{
        return done_property(d, PROP_VS);
}

static bool done_cc(const struct done *d)
{
        return done_property(d, PROP_CC);
}

static bool done_id_ctrl(const struct done *d)
{
        return succeeded(d) && d->sqe->opc == NVME_IDENTIFY &&
               (le32_get(d->sqe->cdw10) & 0xff) == CNS_CTRL;
}

static bool done_get_kato(const struct done *d)
{
        return succeeded(d) && d->sqe->opc == NVME_GET_FEATURES &&
               (le32_get(d->sqe->cdw10) & 0xff) == FEAT_KATO;
}

static bool done_discovery(const struct done *d)
{
        return succeeded(d) && d->sqe->opc == NVME_GET_LOG_PAGE && !has_nsid(d->sqe) &&
               (le32_get(d->sqe->cdw10) & 0xff) == LOG_DISCOVERY;
}

/* LPO; the log has 1024 bytes of header and entries of 1024 bytes, so low halves are enough. */
static uint32_t log_offset(const struct done *d)
{
        return le32_get(d->sqe->cdw12);
}

struct completion {
        enum rule_id rule;
        enum { IN_CQE, IN_DATA, IN_LOG } where; /* IN_LOG: offset counts from the log's begin */
        bool (*fits)(const struct done *d);
        struct change change;
};

#define CQE(name, when, member, ...)                                                               \
        {                                                                                          \
                (name), IN_CQE, (when),                                                            \
                {                                                                                  \
                        AT(struct cqe, member), __VA_ARGS__                                        \
                }                                                                                  \
        }
#define ID(name, member, ...)                                                                      \
        {                                                                                          \
                (name), IN_DATA, done_id_ctrl,                                                     \
                {                                                                                  \
                        AT(struct id_ctrl, member), __VA_ARGS__                                    \
                }                                                                                  \
        }
#define ENTRY(name, member, ...)                                                                   \
        {                                                                                          \
                (name), IN_LOG, done_discovery,                                                    \
                {                                                                                  \
                        DISC_HEADER_LEN + offsetof(struct disc_entry, member), __VA_ARGS__         \
                }                                                                                  \
        }

static const struct completion completions[] = {
        /* clang-format off */
        CQE(FAB_SQHD, done_not_connect, sqhd, PUT, 0xfffe),
        CQE(FAB_CQE_ZERO, done_without_result, dw0, PUT, 0x5a5a5a5a),
        CQE(FAB_SGL_LONG, done_long_sgl, sf, PUT, NVME_SGL_LENGTH << 1),
        CQE(FAB_CONNECT_NOT_FIELD, done_connect_failed, sf, PUT, NVME_INVALID_FIELD << 1),
        CQE(FAB_CONNECT_NOT_FIELD, done_connect_failed, dw0, PUT, 0),
        CQE(FAB_CONNECT_RSVD, done_connected, dw1, PUT, 1),
        CQE(FAB_CAP, done_cap, result, FLIP, CAP_CQR),
        CQE(FAB_VS, done_vs, result, PUT, 0),
        CQE(FAB_CC_READBACK, done_cc, result, FLIP, CC_IOSQES),
        ID(ID_CNTLID, cntlid, FLIP, STRANGE),
        { ID_SUBNQN, IN_DATA, done_id_ctrl, { offsetof(struct id_ctrl, subnqn), 1, FLIP, 1 } },
        ID(ID_IOCCSZ, ioccsz, PUT, 3),
        ID(ID_ICDOFF, icdoff, PUT, 1),
        ID(ID_SGLS, sgls, PUT, 0),
        ID(ID_KAS, kas, PUT, 0),
        ID(ID_CNTRLTYPE, cntrltype, PUT, 0),
        ID(ID_MAXCMD, maxcmd, PUT, 0),
        ID(ID_QES, sqes, PUT, 0x77),
        CQE(KA_ROUND, done_get_kato, dw0, ADD, 1),
        { DISC_HEADER, IN_LOG, done_discovery, { AT(struct disc_header, recfmt), PUT, 1 } },
        ENTRY(DISC_ENTRY, trtype, 1, PUT, 0),
        ENTRY(DISC_TRSVCID, trsvcid, 2, PUT, 'x'),
        ENTRY(DISC_TSAS, tsas, 1, PUT, 0x77),
        /* clang-format on */
};

enum { COMPLETIONS = sizeof(completions) / sizeof(completions[0]) };

static bool spoil_bytes(uint8_t *base, uint32_t len, struct change c, uint32_t skipped)
{
        if (!base || c.offset < skipped || c.offset - skipped + (uint32_t)c.size > len)
                return false;
        c.offset = (uint16_t)(c.offset - skipped);
        make(base, &c);
        return true;
}

static bool spoil_done(const struct completion *v, struct done *d)
{
        if (!v->fits(d))
                return false;
        switch (v->where) {
        case IN_CQE:
                return spoil_bytes((uint8_t *)d->cqe, sizeof(*d->cqe), v->change, 0);
        case IN_DATA:
                return spoil_bytes(d->data, d->len, v->change, 0);
        case IN_LOG:
                return spoil_bytes(d->data, d->len, v->change, log_offset(d));
        }
        return false;
}

bool spoil_completion(const struct rule_set *violated, const union sqe *sqe, struct cqe *cqe,
                      uint8_t *data, uint32_t len)
{
        struct done d = { sqe, cqe, data, len };
        bool any = false;

        for (unsigned i = 0; i < COMPLETIONS; i++)
                if (rule_in(violated, completions[i].rule))
                        any |= spoil_done(&completions[i], &d);
        return any;
}

bool spoil_can(enum rule_id rule)
{
        for (unsigned i = 0; i < VIOLATORS; i++)
                if (violators[i].rule == rule)
                        return true;
        for (unsigned i = 0; i < COMPLETIONS; i++)
                if (completions[i].rule == rule)
                        return true;
        return false;
}

/*
 * What is broken elsewhere, by whoever checks the rule in policy->violated:
 *
 * link            TCP_TERM_CLOSE, TCP_TERM_SILENCE, TCP_TERM_QUIET
 * tcp_controller  TCP_ICRESP_FIRST, TCP_ICD_ADMIN, TCP_CDB, TCP_C2H_SUCCESS_SQFC,
 *                 TCP_C2H_SUCCESS_RESP, TCP_C2H_COMPLETE, TCP_R2T_LIMIT, TCP_R2T_TTAG, FAB_ANSWERED
 * controller      FAB_RDY, FAB_SHST, KA_EXPIRY, KA_ALIVE, KA_COMMAND, AER_HELD, DISC_PERSISTENT
 * target          FAB_SQFC_UNASKED, FAB_CONNECT_NO_LOG, FAB_DISCONNECT_LAST, FAB_RESET_CLEARS,
 *                 DISC_GENCTR, DISC_LISTED, DISC_OFFSETS
 *
 * What a host breaks by when it sends something: TCP_ICREQ_WAIT, TCP_IC_TIMEOUT, FAB_ENABLED,
 * FAB_SHUTDOWN, FAB_OVERRUN, FAB_CONNECT_QID_USED, FAB_CONNECT_ONCE, FAB_CONNECT_IO_ENABLED,
 * FAB_DISC_IO, FAB_DISCONNECT_ADMIN, FAB_PROP_QUEUE, AER_LIMIT, FEAT_HOSTID_FIXED, DISC_PROHIBITED,
 * DISC_LOGS: their cases send just that.
 */

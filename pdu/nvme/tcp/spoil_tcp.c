/* SPDX-License-Identifier: BSD-3-Clause */
/* What can be wrong with a PDU of NVMe/TCP. */
#include <string.h>

#include "pdu/nvme/machine/spoil_table.h"
#include "spoil_tcp.h"

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

static bool is_connect(const struct spoil *s)
{
        return sqe_is_connect(&s->h->cmd.sqe);
}

static bool is_in_capsule(const struct spoil *s)
{
        return is_plain(s) && s->data_len > 0 && s->h->cmd.sqe.sgl.id == SGL_IN_CAPSULE;
}

/* --- what a field alone cannot say ------------------------------------------------------------ */

typedef bool break_fn(struct spoil *s);

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

static bool cut_copy(struct spoil *s)
{
        if (s->data_len <= sizeof(struct pdu_ch))
                return false;
        add_plen(s, (uint32_t)-4);
        s->data_len -= 4;
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

/* --- PDUs ------------------------------------------------------------------------------------- */

struct violator {
        enum rule_id rule;
        uint8_t type; /* of the PDU */
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
        BYTES(TCP_RSVD_H2C, H2C_DATA, always, data.rsvd, 4, PUT, 1),
        BYTES(TCP_RSVD_C2H, C2H_DATA, of_read, data.rsvd, 4, PUT, 1),
        BYTES(TCP_RSVD_C2H, R2T, always, data.rsvd, 4, PUT, 1),
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
        CHANGE(TCP_TERM_FES_H2C, H2C_TERM, always, term.fes, PUT, 0xff),
        CHANGE(TCP_TERM_FITS_C2H, C2H_TERM, always, term.fes, FLIP, 3),
        CHANGE(TCP_TERM_FITS_H2C, H2C_TERM, always, term.fes, FLIP, 3),
        CALL(TCP_TERM_COPY_C2H, C2H_TERM, always, no_copy),
        CALL(TCP_TERM_COPY_H2C, H2C_TERM, always, no_copy),
        CALL(TCP_TERM_COPY_LEN_C2H, C2H_TERM, always, cut_copy),
        CHANGE(TCP_TERM_DIGEST_C2H, C2H_TERM, always, ch.flags, PUT, PDU_HDGSTF),
        /* commands */
        CALL(FAB_CONNECT_DATA, CAPSULE_CMD, is_connect, halve_connect_data),
        /* clang-format on */
};

enum { VIOLATORS = sizeof(violators) / sizeof(violators[0]) };

static bool apply(const struct violator *v, struct spoil *s)
{
        if (!v->fits(s))
                return false;
        if (v->call)
                return v->call(s);
        spoil_make(s->h->bytes, &v->change);
        return true;
}

static bool strike_command(const struct rule_set *violated, struct spoil *s)
{
        bool whole = s->data && s->data_writable && s->data_len >= CONNECT_DATA_LEN;
        struct spoil_sqe command = { &s->h->cmd.sqe, whole ? s->data : NULL };

        return spoil_sqe(violated, &command);
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
                        any |= apply(&violators[i], s);
        if (type == PDU_CAPSULE_CMD)
                any |= strike_command(violated, s);
        return any;
}

unsigned spoil_kinds_pdu(enum rule_id rule)
{
        return TABLE_HAS(violators, rule) ? V_PDU : 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* What can be wrong with private data, capsules and work requests of NVMe/RDMA. */
#include <string.h>

#include "pdu/nvme/machine/spoil_table.h"
#include "spoil_rdma.h"

/* A key that differs in these bits is of the same memory, but not valid for it. */
enum { STRANGE_KEY = 0x5a };

/* --- connection management -------------------------------------------------------------------- */

enum cm_field { CM_DATA, CM_LEN, CM_READS_IN };

static const struct {
        enum rule_id rule;
        enum spoil_cm_message message;
        enum cm_field field;
        struct change change;
} cm_violators[] = {
        /* clang-format off */
        { RDMA_REQ_LENGTH, SPOIL_REQUEST, CM_LEN, { 0, 1, PUT, 4 } },
        { RDMA_REQ_RECFMT, SPOIL_REQUEST, CM_DATA, { AT(struct rdma_request, recfmt), PUT, 1 } },
        { RDMA_REQ_QID, SPOIL_REQUEST, CM_DATA, { AT(struct rdma_request, qid), PUT, 0xffff } },
        { RDMA_REQ_HSQSIZE, SPOIL_REQUEST, CM_DATA, { AT(struct rdma_request, hsqsize), PUT, 0 } },
        { RDMA_REQ_HRQSIZE, SPOIL_REQUEST, CM_DATA, { AT(struct rdma_request, hrqsize), PUT, 0 } },
        { RDMA_REQ_CNTLID, SPOIL_REQUEST, CM_DATA, { AT(struct rdma_request, cntlid), PUT, 1 } },
        { RDMA_REQ_CTRL, SPOIL_REQUEST, CM_DATA, { AT(struct rdma_request, cntlid), FLIP, STRANGE } },
        { RDMA_REQ_RSVD, SPOIL_REQUEST, CM_DATA, { offsetof(struct rdma_request, rsvd10), 1, PUT, 1 } },
        { RDMA_REQ_IRD, SPOIL_REQUEST, CM_READS_IN, { 0, 1, PUT, 0 } },
        { RDMA_ACC_LENGTH, SPOIL_ACCEPT, CM_LEN, { 0, 1, PUT, 2 } },
        { RDMA_ACC_RECFMT, SPOIL_ACCEPT, CM_DATA, { AT(struct rdma_accept, recfmt), PUT, 1 } },
        { RDMA_ACC_CRQSIZE, SPOIL_ACCEPT, CM_DATA, { AT(struct rdma_accept, crqsize), PUT, 0xffff } },
        { RDMA_ACC_RSVD, SPOIL_ACCEPT, CM_DATA, { offsetof(struct rdma_accept, rsvd4), 1, PUT, 1 } },
        { RDMA_ACC_IRD, SPOIL_ACCEPT, CM_READS_IN, { 0, 1, PUT, 1 } },
        { RDMA_REJ_FORMAT, SPOIL_REJECT, CM_DATA, { AT(struct rdma_reject, recfmt), PUT, 1 } },
        { RDMA_REJ_STATUS, SPOIL_REJECT, CM_DATA, { AT(struct rdma_reject, sts), PUT, 0xff } },
        /* clang-format on */
};

enum { CM_VIOLATORS = sizeof(cm_violators) / sizeof(cm_violators[0]) };

static uint8_t *cm_field(struct spoil_cm *s, enum cm_field field)
{
        switch (field) {
        case CM_DATA:
                return s->data;
        case CM_LEN:
                return &s->len;
        case CM_READS_IN:
                return &s->reads_in;
        }
        return NULL;
}

/* CNTLID of an I/O queue may be set. */
static bool is_free_to(const struct spoil_cm *s, enum rule_id rule)
{
        const struct rdma_request *r = s->data;

        if (rule == RDMA_REQ_CTRL) /* of an I/O queue that names its controller */
                return le16_get(r->qid) == 0 || le16_get(r->cntlid) == 0;
        return rule == RDMA_REQ_CNTLID && le16_get(r->qid) != 0;
}

bool spoil_cm(const struct rule_set *violated, struct spoil_cm *s)
{
        bool any = false;

        for (unsigned i = 0; i < CM_VIOLATORS; i++) {
                if (cm_violators[i].message != s->message ||
                    !rule_in(violated, cm_violators[i].rule) || is_free_to(s, cm_violators[i].rule))
                        continue;
                spoil_make(cm_field(s, cm_violators[i].field), &cm_violators[i].change);
                any = true;
        }
        return any;
}

/* --- responses -------------------------------------------------------------------------------- */

static bool is_io(const union sqe *sqe, uint8_t opc)
{
        return sqe->opc == opc && spoil_has_nsid(sqe);
}

static bool asks(const struct rdma_data *d)
{
        for (unsigned i = 0; i < d->count; i++)
                if (d->keyed[i].invalidate)
                        return true;
        return false;
}

static bool of_write(const struct spoil_response *s)
{
        return is_io(s->sqe, NVME_WRITE);
}

static bool of_read_with_keys(const struct spoil_response *s)
{
        return is_io(s->sqe, NVME_READ) && s->data->count > 0;
}

static bool with_keys(const struct spoil_response *s)
{
        return (of_write(s) || is_io(s->sqe, NVME_READ)) && s->data->count > 0;
}

static bool unasked(const struct spoil_response *s)
{
        return with_keys(s) && !asks(s->data);
}

static bool asked(const struct spoil_response *s)
{
        return with_keys(s) && asks(s->data);
}

static bool asked_by_read(const struct spoil_response *s)
{
        return of_read_with_keys(s) && asks(s->data);
}

/* Flush, and one Identify in three. */
static bool is_to_be_lost(const struct spoil_response *s)
{
        return is_io(s->sqe, NVME_FLUSH) ||
               (s->sqe->opc == NVME_IDENTIFY && le16_get(s->sqe->cid) % 3 == 0);
}

static void invalidate(struct spoil_response *s, uint32_t xor)
{
        s->invalidate = true;
        s->key = s->data->keyed[s->data->count - 1].key ^ xor;
}

static void cut_response(struct spoil_response *s)
{
        s->len = sizeof(struct cqe) - 4;
}

static void other_cid(struct spoil_response *s)
{
        s->bytes[offsetof(struct cqe, cid) + 1] ^= STRANGE >> 8;
}

static void set_sqid(struct spoil_response *s)
{
        s->bytes[offsetof(struct cqe, sqid)] = 1;
}

static void invalidate_last(struct spoil_response *s)
{
        invalidate(s, 0);
}

static void invalidate_other(struct spoil_response *s)
{
        invalidate(s, STRANGE_KEY);
}

static void respond_early(struct spoil_response *s)
{
        s->invalidate = false;
        s->early = true;
}

static void invalidate_early(struct spoil_response *s)
{
        invalidate(s, 0);
        s->early = true;
}

static void lose(struct spoil_response *s)
{
        s->drop = true;
}

static const struct {
        enum rule_id rule;
        bool (*fits)(const struct spoil_response *s);
        void (*call)(struct spoil_response *s);
} response_violators[] = {
        { RDMA_RSP_LENGTH, of_write, cut_response },
        { RDMA_RSP_CID, of_write, other_cid },
        { RDMA_RSP_RSVD, of_write, set_sqid },
        { RDMA_INV_UNASKED, unasked, invalidate_last },
        { RDMA_INV_KEY, asked, invalidate_other },
        { RDMA_INV_EARLY, asked_by_read, invalidate_early },
        { RDMA_WRITE_BEFORE, of_read_with_keys, respond_early },
        { FAB_ANSWERED, is_to_be_lost, lose },
};

enum { RESPONSE_VIOLATORS = sizeof(response_violators) / sizeof(response_violators[0]) };

bool spoil_response(const struct rule_set *violated, struct spoil_response *s)
{
        bool any = false;

        for (unsigned i = 0; i < RESPONSE_VIOLATORS; i++) {
                if (!rule_in(violated, response_violators[i].rule) ||
                    !response_violators[i].fits(s))
                        continue;
                response_violators[i].call(s);
                any = true;
        }
        return any;
}

/* --- READs and WRITEs ------------------------------------------------------------------------- */

/* The range ends 8 bytes after the buffer. */
static void shift(struct spoil_transfer *s)
{
        s->addr += 8;
}

static void turn(struct spoil_transfer *s)
{
        s->op = s->op == VERBS_READ ? VERBS_WRITE : VERBS_READ;
}

static void shorten(struct spoil_transfer *s)
{
        s->drop = s->len <= 4;
        s->len -= s->drop ? 0 : 4;
}

static const struct {
        enum rule_id rule;
        enum verbs_op op; /* what it changes */
        void (*call)(struct spoil_transfer *s);
} transfer_violators[] = {
        { RDMA_WRITE_RANGE, VERBS_WRITE, shift },   { RDMA_READ_RANGE, VERBS_READ, shift },
        { RDMA_WRITE_DIR, VERBS_READ, turn },       { RDMA_READ_DIR, VERBS_WRITE, turn },
        { RDMA_WRITE_WHOLE, VERBS_WRITE, shorten }, { RDMA_READ_WHOLE, VERBS_READ, shorten },
};

enum { TRANSFER_VIOLATORS = sizeof(transfer_violators) / sizeof(transfer_violators[0]) };

bool spoil_transfer(const struct rule_set *violated, struct spoil_transfer *s)
{
        enum verbs_op op = s->op; /* one violator may change it under another */
        bool fits = s->last && is_io(s->sqe, op == VERBS_READ ? NVME_WRITE : NVME_READ);
        bool any = false;

        for (unsigned i = 0; fits && i < TRANSFER_VIOLATORS; i++) {
                if (transfer_violators[i].op != op ||
                    !rule_in(violated, transfer_violators[i].rule))
                        continue;
                transfer_violators[i].call(s);
                any = true;
        }
        return any;
}

/* --- command capsules: which ------------------------------------------------------------------ */

typedef bool fits_fn(const struct spoil_capsule *s);

static const union sqe *sqe_of(const struct spoil_capsule *s)
{
        return (const union sqe *)s->bytes;
}

static bool is_plain(const struct spoil_capsule *s)
{
        return sqe_of(s)->opc != NVME_FABRICS;
}

static bool has_data(const struct spoil_capsule *s)
{
        return is_plain(s) && sqe_xfer(sqe_of(s)) != XFER_NONE && sgl_len(&sqe_of(s)->sgl) > 0;
}

static bool has_key(const struct spoil_capsule *s)
{
        return has_data(s) && sgl_is_keyed(&sqe_of(s)->sgl);
}

static bool has_key_admin(const struct spoil_capsule *s)
{
        return has_key(s) && s->format->admin;
}

static bool has_key_io(const struct spoil_capsule *s)
{
        return has_key(s) && !s->format->admin;
}

static bool reads_by_key(const struct spoil_capsule *s)
{
        return has_key_io(s) && sqe_of(s)->opc == NVME_READ;
}

static bool is_in_capsule(const struct spoil_capsule *s)
{
        return has_data(s) && sqe_of(s)->sgl.id == SGL_IN_CAPSULE;
}

/* Others may be answered before the next capsule is looked at. */
static bool stays_outstanding(const struct spoil_capsule *s)
{
        if (s->format->admin)
                return sqe_of(s)->opc == NVME_AER;
        return has_key(s) && sqe_xfer(sqe_of(s)) == XFER_H2C;
}

static bool is_connect(const struct spoil_capsule *s)
{
        return sqe_is_connect(sqe_of(s));
}

static bool is_io_connect(const struct spoil_capsule *s)
{
        return is_connect(s) && !s->format->admin;
}

/* --- ... and what a field alone cannot say ---------------------------------------------------- */

static bool cut_capsule(struct spoil_capsule *s)
{
        s->len = sizeof(union sqe) / 2;
        return true;
}

static bool grow_to(struct spoil_capsule *s, uint32_t len)
{
        if (len > s->room)
                return false;
        if (len > s->len)
                memset(s->bytes + s->len, 0, len - s->len);
        s->len = len;
        return true;
}

static bool stretch_capsule(struct spoil_capsule *s)
{
        return grow_to(s, rdma_capsule_max(s->format) + 16);
}

static bool send_twice(struct spoil_capsule *s)
{
        s->twice = true;
        return true;
}

static bool describe_as(struct spoil_capsule *s, uint8_t id, uint32_t len)
{
        struct sgl sgl = { .len = le32(len), .id = id };

        memcpy(s->bytes + offsetof(union sqe, sgl), &sgl, sizeof(sgl));
        return true;
}

static bool claim_in_capsule(struct spoil_capsule *s)
{
        return describe_as(s, SGL_IN_CAPSULE, sgl_len(&sqe_of(s)->sgl));
}

static bool claim_list(struct spoil_capsule *s)
{
        return describe_as(s, SGL_LAST_IN_CAPSULE, sizeof(struct sgl));
}

static bool halve_descriptor(struct spoil_capsule *s)
{
        return describe_as(s, SGL_LAST_IN_CAPSULE, sizeof(struct sgl) / 2);
}

/* Its own descriptor, and as many empty ones that it is one too many. */
static bool list_too_many(struct spoil_capsule *s)
{
        uint32_t at = (uint32_t)sizeof(union sqe) + s->format->icdoff * 16u;
        uint32_t n = s->format->msdbd + 1u;
        struct sgl sgl = sqe_of(s)->sgl;

        if (s->format->msdbd == 0 || !grow_to(s, at + n * (uint32_t)sizeof(sgl)))
                return false;
        for (uint32_t i = 0; i < n; i++) {
                memcpy(s->bytes + at + i * sizeof(sgl), &sgl, sizeof(sgl));
                le_put((uint8_t *)&sgl + offsetof(struct sgl_keyed, len), 3, 0);
        }
        return describe_as(s, SGL_LAST_IN_CAPSULE, n * (uint32_t)sizeof(sgl));
}

/* --- ... and their violators ------------------------------------------------------------------ */

#define CHANGE(name, when, member, ...)                                                            \
        {                                                                                          \
                .rule = (name), .fits = (when), .change = { AT(union sqe, member), __VA_ARGS__ },  \
        }
#define KEYED(name, when, member, ...)                                                             \
        {                                                                                          \
                .rule = (name), .fits = (when),                                                    \
                .change = { offsetof(union sqe, sgl) + offsetof(struct sgl_keyed, member),         \
                            SIZE(struct sgl_keyed, member), __VA_ARGS__ },                         \
        }
#define CALL(name, when, function)                                                                 \
        {                                                                                          \
                .rule = (name), .fits = (when), .call = (function),                                \
        }

static const struct violator {
        enum rule_id rule;
        fits_fn *fits;
        bool (*call)(struct spoil_capsule *s); /* false: it cannot be done to this one; NULL: */
        struct change change;                  /* of the SQE */
} capsule_violators[] = {
        /* clang-format off */
        CALL(RDMA_CMD_SHORT, is_plain, cut_capsule),
        CALL(RDMA_CMD_LONG, is_plain, stretch_capsule),
        CALL(RDMA_CMD_CID, stays_outstanding, send_twice),
        CALL(RDMA_ICD_ADMIN, has_key_admin, claim_in_capsule),
        CHANGE(RDMA_ICD_OFFSET, is_in_capsule, sgl.addr, PUT, 0x100000),
        CHANGE(RDMA_ICD_LENGTH, is_in_capsule, sgl.len, ADD, 4),
        CALL(RDMA_ICD_DIR, reads_by_key, claim_in_capsule),
        CHANGE(RDMA_SGL_TYPE, has_key, sgl.id, PUT, SGL_TRANSPORT),
        CHANGE(RDMA_SGL_SUBTYPE, has_key, sgl.id, PUT, SGL_KEYED | 0xa),
        CALL(RDMA_SGL_SEGMENT, has_key_io, halve_descriptor),
        CALL(RDMA_SGL_COUNT, has_key_io, list_too_many),
        CALL(RDMA_SGL_ONE, has_key_admin, claim_list),
        KEYED(RDMA_SGL_LENGTH, has_key_io, len, ADD, (uint64_t)-4),
        CHANGE(RDMA_SGL_OVERFLOW, has_key_io, sgl.addr, PUT, UINT64_MAX),
        KEYED(RDMA_KEY, has_key, key, FLIP, STRANGE_KEY),
        CHANGE(RDMA_REQ_SQSIZE, is_connect, connect.sqsize, ADD, 0xffff),
        CHANGE(RDMA_REQ_SAME_QID, is_io_connect, connect.qid, ADD, 1),
        KEYED(FAB_CONNECT_DATA, is_connect, len, PUT, CONNECT_DATA_LEN / 2),
        /* clang-format on */
};

enum { CAPSULE_VIOLATORS = sizeof(capsule_violators) / sizeof(capsule_violators[0]) };

static bool apply(const struct violator *v, struct spoil_capsule *s)
{
        if (!v->fits(s))
                return false;
        if (v->call)
                return v->call(s);
        spoil_make(s->bytes, &v->change);
        return true;
}

bool spoil_capsule(const struct rule_set *violated, struct spoil_capsule *s)
{
        struct spoil_sqe command = { (union sqe *)s->bytes, s->connect_data };
        bool any = false;

        for (unsigned i = 0; i < CAPSULE_VIOLATORS; i++)
                if (rule_in(violated, capsule_violators[i].rule))
                        any |= apply(&capsule_violators[i], s);
        return spoil_sqe(violated, &command) || any;
}

/* ---------------------------------------------------------------------------------------------- */

unsigned spoil_kinds_rdma(enum rule_id rule)
{
        return (TABLE_HAS(cm_violators, rule) ? V_CM : 0u) |
               (TABLE_HAS(capsule_violators, rule) ? V_CAPSULE : 0u) |
               (TABLE_HAS(response_violators, rule) ? V_RESPONSE : 0u) |
               (TABLE_HAS(transfer_violators, rule) ? V_TRANSFER : 0u);
}

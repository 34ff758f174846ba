/* SPDX-License-Identifier: BSD-3-Clause */
#include "rdma.h"

#include "pdu/core/bytes.h"
#include "pdu/core/plant.h"

#include <string.h>

const char *rdma_reject_name(uint16_t sts)
{
        static const char *const names[] = {
                [RDMA_REJECT_LENGTH] = "invalid private data length",
                [RDMA_REJECT_RECFMT] = "invalid RECFMT",
                [RDMA_REJECT_QID] = "invalid QID",
                [RDMA_REJECT_HSQSIZE] = "invalid HSQSIZE",
                [RDMA_REJECT_HRQSIZE] = "invalid HRQSIZE",
                [RDMA_REJECT_RESOURCES] = "no resources",
                [RDMA_REJECT_IRD] = "invalid IRD",
                [RDMA_REJECT_ORD] = "invalid ORD",
                [RDMA_REJECT_CNTLID] = "invalid CNTLID",
        };

        return sts > 0 && sts < sizeof(names) / sizeof(names[0]) ? names[sts] : "reserved";
}

/* --- private data ----------------------------------------------------------------------------- */

static bool copy(void *out, size_t size, const void *data, size_t len)
{
        memset(out, 0, size);
        if (data && len > 0)
                memcpy(out, data, len < size ? len : size);
        return data && len >= size;
}

bool rdma_request_read(const void *data, size_t len, struct rdma_request *out)
{
        if (PLANTED(RDMA_PRIVATE_SHORT))
                len = sizeof(*out);
        return copy(out, sizeof(*out), data, len);
}

bool rdma_accept_read(const void *data, size_t len, struct rdma_accept *out)
{
        return copy(out, sizeof(*out), data, len);
}

bool rdma_reject_read(const void *data, size_t len, struct rdma_reject *out)
{
        return copy(out, sizeof(*out), data, len);
}

static bool wrong_hsqsize(const struct rdma_request *r, const struct rdma_limits *limits)
{
        uint32_t hsqsize = le16_get(r->hsqsize);

        return hsqsize == 0 || hsqsize + 1 > limits->entries;
}

static bool wrong_hrqsize(const struct rdma_request *r, const struct rdma_limits *limits)
{
        uint32_t hrqsize = le16_get(r->hrqsize);

        return hrqsize == 0 || hrqsize < limits->hrqsize_min;
}

static bool wrong_cntlid(const struct rdma_request *r)
{
        return le16_get(r->qid) == 0 && le16_get(r->cntlid) != 0;
}

struct fault rdma_request_check(const void *data, size_t len, uint16_t reads_in, uint16_t reads_out,
                                const struct rdma_limits *limits, const struct rule_set *waived)
{
        struct rdma_request r;
        bool whole = rdma_request_read(data, len, &r);
        const struct {
                bool broken;
                enum rule_id rule;
                enum rdma_reject_status sts;
        } checks[] = {
                { !whole, RDMA_REQ_LENGTH, RDMA_REJECT_LENGTH },
                { le16_get(r.recfmt) != 0, RDMA_REQ_RECFMT, RDMA_REJECT_RECFMT },
                { le16_get(r.qid) > limits->queues, RDMA_REQ_QID, RDMA_REJECT_QID },
                { wrong_hsqsize(&r, limits), RDMA_REQ_HSQSIZE, RDMA_REJECT_HSQSIZE },
                { wrong_hrqsize(&r, limits), RDMA_REQ_HRQSIZE, RDMA_REJECT_HRQSIZE },
                { reads_in < limits->reads_in_min, RDMA_REQ_IRD, RDMA_REJECT_IRD },
                { reads_out < limits->reads_out_min, RDMA_REQ_IRD, RDMA_REJECT_ORD },
                { wrong_cntlid(&r), RDMA_REQ_CNTLID, RDMA_REJECT_CNTLID },
        };

        for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++)
                if (checks[i].broken && !rule_in(waived, checks[i].rule))
                        return (struct fault) { checks[i].rule, (uint16_t)checks[i].sts, 0 };
        return (struct fault) { 0 };
}

void rdma_request_findings(const void *data, size_t len, uint16_t reads_in, struct rule_set *found)
{
        static const struct rdma_limits any = { UINT16_MAX, UINT32_MAX, 1, 1, 0 };
        struct rdma_request r;
        enum rule_id rule = rdma_request_check(data, len, reads_in, 0, &any, NULL).rule;

        rule_add_if(found, rule != RULE_NONE, rule);
        (void)rdma_request_read(data, len, &r);
        rule_add_if(found, any_set(r.rsvd10, sizeof(r.rsvd10)), RDMA_REQ_RSVD);
}

void rdma_accept_check(const void *data, size_t len, uint16_t reads_in,
                       const struct rdma_request *request, struct rule_set *found)
{
        struct rdma_accept a;
        uint16_t crqsize;

        rule_add_if(found, reads_in > 0 && reads_in != RDMA_READS_UNKNOWN, RDMA_ACC_IRD);
        if (!rdma_accept_read(data, len, &a)) {
                rule_add(found, RDMA_ACC_LENGTH);
                return;
        }
        crqsize = le16_get(a.crqsize);
        rule_add_if(found, le16_get(a.recfmt) != 0, RDMA_ACC_RECFMT);
        rule_add_if(found, crqsize == 0 || crqsize > le16_get(request->hsqsize) + 1u,
                    RDMA_ACC_CRQSIZE);
        rule_add_if(found, any_set(a.rsvd4, sizeof(a.rsvd4)), RDMA_ACC_RSVD);
}

size_t rdma_reject_len(const void *data, size_t len)
{
        const size_t n = sizeof(struct rdma_reject);

        return len > n && !any_set(data, n) ? 0 : len;
}

void rdma_reject_check(const void *data, size_t len, struct rule_set *found)
{
        struct rdma_reject r;
        bool whole = rdma_reject_read(data, len, &r);
        uint16_t sts = le16_get(r.sts);

        rule_add_if(found, !whole || le16_get(r.recfmt) != 0, RDMA_REJ_FORMAT);
        rule_add_if(found, whole && (sts == 0 || sts > RDMA_REJECT_CNTLID), RDMA_REJ_STATUS);
}

static const struct field fields_of_request[] = {
        FIELD(struct rdma_request, recfmt),
        FIELD(struct rdma_request, qid, .key = true),
        FIELD(struct rdma_request, hrqsize, .key = true),
        FIELD(struct rdma_request, hsqsize, .kind = FIELD_ZERO_BASED),
        FIELD(struct rdma_request, cntlid),
        { 0 },
};

void describe_rdma_request(const struct describe *d, const struct rdma_request *r)
{
        describe_fields(d, fields_of_request, r);
}

const struct field *rdma_request_fields(void)
{
        return fields_of_request;
}

static const struct field fields_of_accept[] = {
        FIELD(struct rdma_accept, recfmt),
        FIELD(struct rdma_accept, crqsize, .key = true),
        { 0 },
};

void describe_rdma_accept(const struct describe *d, const struct rdma_accept *a)
{
        describe_fields(d, fields_of_accept, a);
}

const struct field *rdma_accept_fields(void)
{
        return fields_of_accept;
}

static void sts_text(struct text *t, uint64_t sts)
{
        text_add(t, "%s", rdma_reject_name((uint16_t)sts));
}

static const struct field fields_of_reject[] = {
        FIELD(struct rdma_reject, recfmt),
        FIELD(struct rdma_reject, sts, .key = true, .say = sts_text),
        { 0 },
};

void describe_rdma_reject(const struct describe *d, const struct rdma_reject *r)
{
        describe_fields(d, fields_of_reject, r);
}

const struct field *rdma_reject_fields(void)
{
        return fields_of_reject;
}

/* --- descriptors ------------------------------------------------------------------------------ */

void sgl_put_keyed(struct sgl *s, const struct rdma_buffer *b)
{
        struct sgl_keyed k = { .addr = le64(b->addr),
                               .id = b->invalidate ? SGL_KEYED_INVALIDATE : SGL_KEYED };

        le_put(k.len, sizeof(k.len), b->len);
        le_put(k.key, sizeof(k.key), b->key);
        memcpy(s, &k, sizeof(k));
}

void sgl_put_in_capsule(struct sgl *s, uint64_t offset, uint32_t len)
{
        *s = (struct sgl) { .addr = le64(offset), .len = le32(len), .id = SGL_IN_CAPSULE };
}

static void read_keyed(const struct sgl *s, struct rdma_buffer *b)
{
        struct sgl_keyed k;

        memcpy(&k, s, sizeof(k));
        *b = (struct rdma_buffer) {
                .addr = le64_get(k.addr),
                .len = (uint32_t)le_get(k.len, sizeof(k.len)),
                .key = (uint32_t)le_get(k.key, sizeof(k.key)),
                .invalidate = k.id == SGL_KEYED_INVALIDATE,
        };
}

bool sgl_get_keyed(const struct sgl *s, struct rdma_buffer *b)
{
        if (s->id != SGL_KEYED && s->id != SGL_KEYED_INVALIDATE)
                return false;
        read_keyed(s, b);
        return true;
}

/* --- how the data of a command is described --------------------------------------------------- */

/* A capsule in hand. */
struct view {
        const uint8_t *capsule;
        uint32_t at, area; /* where in-capsule data begins, and how much of it the capsule holds */
        bool one;          /* exactly one descriptor: admin and Fabrics commands */
        const struct rdma_format *format;
        const struct rule_set *waived;
        struct rdma_data *out;
        struct fault fault;
};

uint32_t rdma_capsule_max(const struct rdma_format *f)
{
        if (f->admin || f->in_capsule == 0)
                return sizeof(union sqe);
        return (uint32_t)sizeof(union sqe) + f->icdoff * 16u + f->in_capsule;
}

static bool breaks(struct view *v, bool broken, enum rule_id rule, enum nvme_status status)
{
        if (!broken || rule_in(v->waived, rule))
                return false;
        v->fault = (struct fault) { rule, (uint16_t)status, 0 };
        return true;
}

/* Bytes of a block at `offset` of the in-capsule data that the capsule really holds. */
static uint32_t held(const struct view *v, uint64_t offset, uint32_t len)
{
        uint32_t left = offset < v->area ? v->area - (uint32_t)offset : 0;

        return len < left ? len : left;
}

static bool starts_outside(const struct view *v, uint64_t offset, uint32_t len)
{
        return offset > v->area || (offset == v->area && len > 0);
}

/* RDMA_ICD_OFFSET and RDMA_ICD_LENGTH waived: what the capsule holds of it. */
static void read_in_capsule(struct view *v, const struct sgl *s, enum nvme_xfer xfer)
{
        uint64_t offset = le64_get(s->addr);
        uint32_t len = le32_get(s->len), got = held(v, offset, len);

        if (PLANTED(RDMA_ICD_OFFSET))
                got = len;
        if (breaks(v, v->format->admin, RDMA_ICD_ADMIN, NVME_SGL_TYPE) ||
            breaks(v, xfer & XFER_C2H && len > 0, RDMA_ICD_DIR, NVME_SGL_TYPE) ||
            breaks(v, starts_outside(v, offset, len) && !PLANTED(RDMA_ICD_OFFSET), RDMA_ICD_OFFSET,
                   NVME_SGL_OFFSET) ||
            breaks(v, got < len, RDMA_ICD_LENGTH, NVME_SGL_LENGTH))
                return;
        v->out->in_capsule = true;
        v->out->offset = got > 0 ? v->at + (uint32_t)offset : v->at;
        v->out->len = got;
}

/* RDMA_SGL_SUBTYPE waived: as though it were 0h. RDMA_SGL_TYPE waived: it describes nothing. */
static bool add_keyed(struct view *v, const struct sgl *s)
{
        struct rdma_buffer *b = &v->out->keyed[v->out->count];
        bool keyed = sgl_is_keyed(s);

        if (breaks(v, !keyed, RDMA_SGL_TYPE, NVME_SGL_TYPE) ||
            breaks(v, keyed && s->id != SGL_KEYED && s->id != SGL_KEYED_INVALIDATE,
                   RDMA_SGL_SUBTYPE, NVME_SGL_TYPE))
                return false;
        if (!keyed)
                return true;
        read_keyed(s, b);
        if (breaks(v, b->len > 0 && b->addr > UINT64_MAX - (b->len - 1), RDMA_SGL_OVERFLOW,
                   NVME_SGL_LENGTH))
                return false;
        v->out->len += b->len; /* RDMA_DESCRIPTORS of 24 bits: cannot overflow */
        v->out->count++;
        v->out->invalidate = b->invalidate;
        v->out->invalidate_key = b->key;
        return true;
}

static uint32_t descriptors_max(const struct view *v)
{
        uint32_t msdbd = rule_in(v->waived, RDMA_SGL_COUNT) ? 0 : v->format->msdbd;

        return msdbd > 0 && msdbd < RDMA_DESCRIPTORS ? msdbd : RDMA_DESCRIPTORS;
}

/* RDMA_SGL_SEGMENT waived: the whole descriptors that the capsule holds. RDMA_SGL_COUNT waived: the
 * first RDMA_DESCRIPTORS of them. */
static void read_segment(struct view *v, const struct sgl *s)
{
        uint64_t offset = le64_get(s->addr);
        uint32_t len = le32_get(s->len), got = held(v, offset, len);
        uint32_t n = got / (uint32_t)sizeof(*s), max = descriptors_max(v);
        const uint8_t *at = v->capsule + v->at + (n > 0 ? offset : 0);
        struct sgl block;

        if (breaks(v, v->one, RDMA_SGL_ONE, NVME_SGL_TYPE) ||
            breaks(v, len == 0 || len % sizeof(*s), RDMA_SGL_SEGMENT, NVME_SGL_SEGMENT) ||
            breaks(v, starts_outside(v, offset, len), RDMA_SGL_SEGMENT, NVME_SGL_OFFSET) ||
            breaks(v, got < len, RDMA_SGL_SEGMENT, NVME_SGL_LENGTH) ||
            breaks(v, n > max && !PLANTED(RDMA_DESCRIPTORS), RDMA_SGL_COUNT, NVME_SGL_COUNT))
                return;
        for (uint32_t i = 0; i < n && (i < max || PLANTED(RDMA_DESCRIPTORS)); i++) {
                memcpy(&block, at + i * sizeof(block), sizeof(block));
                if (!add_keyed(v, &block))
                        return;
        }
}

static void read_sgl(struct view *v, const struct sgl *s, enum nvme_xfer xfer)
{
        if (s->id == SGL_IN_CAPSULE)
                read_in_capsule(v, s, xfer);
        else if (s->id == SGL_LAST_IN_CAPSULE)
                read_segment(v, s);
        else
                (void)add_keyed(v, s);
}

struct fault rdma_data_read(const void *capsule, uint32_t len, const struct rdma_format *format,
                            enum nvme_xfer xfer, uint32_t needs, const struct rule_set *waived,
                            struct rdma_data *out)
{
        struct view v = { .capsule = capsule, .format = format, .waived = waived, .out = out };
        union sqe sqe;

        memset(out, 0, sizeof(*out));
        if (len < sizeof(sqe)) /* there is nothing to overlook it with */
                return rule_fault(RDMA_CMD_SHORT);
        if (xfer == XFER_NONE)
                return v.fault;
        memcpy(&sqe, capsule, sizeof(sqe));
        v.one = format->admin || sqe.opc == NVME_FABRICS;
        v.at = (uint32_t)sizeof(sqe) + (format->admin ? 0 : format->icdoff * 16u);
        if (v.at > len)
                v.at = len;
        v.area = len - v.at;
        read_sgl(&v, &sqe.sgl, xfer);
        if (!is_fault(v.fault))
                breaks(&v, out->len < needs, RDMA_SGL_LENGTH, NVME_SGL_LENGTH);
        if (is_fault(v.fault))
                memset(out, 0, sizeof(*out));
        return v.fault;
}

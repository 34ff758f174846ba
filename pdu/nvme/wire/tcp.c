/* SPDX-License-Identifier: BSD-3-Clause */
#include "tcp.h"

#include <string.h>

#include "fabrics.h"
#include "pdu/core/bytes.h"
#include "pdu/core/plant.h"
#include "text.h"

/* Figure 10. */
static const struct pdu_info infos[PDU_TYPES] = {
        [PDU_ICREQ] = { "ICReq", PARTY_HOST, 128, 0, false, false },
        [PDU_ICRESP] = { "ICResp", PARTY_CONTROLLER, 128, 0, false, false },
        [PDU_H2C_TERM] = { "H2CTermReq", PARTY_HOST, 24, 0, false, false },
        [PDU_C2H_TERM] = { "C2HTermReq", PARTY_CONTROLLER, 24, 0, false, false },
        [PDU_CAPSULE_CMD] = { "CapsuleCmd", PARTY_HOST, 72, PDU_HDGSTF | PDU_DDGSTF, true, true },
        [PDU_CAPSULE_RESP] = { "CapsuleResp", PARTY_CONTROLLER, 24, PDU_HDGSTF, true, false },
        [PDU_H2C_DATA] = { "H2CData", PARTY_HOST, 24, PDU_HDGSTF | PDU_DDGSTF | PDU_LAST, true,
                           true },
        [PDU_C2H_DATA] = { "C2HData", PARTY_CONTROLLER, 24,
                           PDU_HDGSTF | PDU_DDGSTF | PDU_LAST | PDU_SUCCESS, true, true },
        [PDU_R2T] = { "R2T", PARTY_CONTROLLER, 24, PDU_HDGSTF, true, false },
        [PDU_KDREQ] = { "KDReq", PARTY_HOST, 0, 0, false, false },
        [PDU_KDRESP] = { "KDResp", PARTY_CONTROLLER, 0, 0, false, false },
};

const struct pdu_info *pdu_info(uint8_t type)
{
        return type < PDU_TYPES && infos[type].name ? &infos[type] : NULL;
}

const char *pdu_fes_name(uint16_t fes, enum party sender)
{
        static const char *const names[] = {
                [FES_INVALID_HEADER_FIELD] = "Invalid PDU Header Field",
                [FES_SEQUENCE_ERROR] = "PDU Sequence Error",
                [FES_HEADER_DIGEST_ERROR] = "Header Digest Error",
                [FES_DATA_OUT_OF_RANGE] = "Data Transfer Out of Range",
                [FES_LIMIT_EXCEEDED] = "Data Transfer Limit Exceeded",
                [FES_UNSUPPORTED_PARAMETER] = "Unsupported Parameter",
        };

        if (fes == FES_LIMIT_EXCEEDED && sender == PARTY_HOST)
                return "R2T Limit Exceeded";
        return fes > 0 && fes < sizeof(names) / sizeof(names[0]) ? names[fes] : "?";
}

/* --- layout ----------------------------------------------------------------------------------- */

/* A header with what its type, its format and its own lengths make of it. */
struct view {
        const struct pdu_ch *ch;
        const struct pdu_info *info;
        const struct pdu_format *format;
        enum party sender;
        uint32_t plen;
        uint32_t head; /* header and HDGST */
        bool has_data; /* bytes follow the head, of a type that may have them */
};

static inline struct view view_of(const struct pdu_ch *ch, const struct pdu_format *f)
{
        static const struct pdu_info unknown = { .name = "?", .hlen = sizeof(struct pdu_ch) };
        struct view v = { .ch = ch, .info = pdu_info(ch->type), .format = f };

        if (!v.info || !v.info->hlen)
                v.info = &unknown;
        v.sender = v.info->sender;
        v.plen = le32_get(ch->plen);
        v.head = v.info->hlen + (v.info->has_hdgst && f->hdgst ? (uint32_t)PDU_DIGEST_LEN : 0u);
        v.has_data = v.info->has_data && v.plen > v.head;
        return v;
}

static inline bool is_term(const struct view *v)
{
        return v->ch->type == PDU_H2C_TERM || v->ch->type == PDU_C2H_TERM;
}

static uint32_t alignment(const struct pdu_format *f)
{
        return ((f->pda < PDU_PDA_MAX ? f->pda : (uint32_t)PDU_PDA_MAX) + 1) * 4;
}

static uint32_t data_offset(const struct view *v)
{
        uint32_t align = alignment(v->format);

        return (v->head + align - 1) / align * align;
}

/* Where DATA begins: PDO, kept within the PDU and out of its head also where no rule did that. */
static inline uint32_t data_start(const struct view *v)
{
        if (!v->has_data || v->ch->pdo < v->head)
                return v->head;
        return v->ch->pdo < v->plen ? v->ch->pdo : v->plen;
}

static inline uint32_t data_len(const struct view *v)
{
        uint32_t around = data_start(v) + (v->format->ddgst ? (uint32_t)PDU_DIGEST_LEN : 0u);

        if (is_term(v))
                return v->plen > v->head ? v->plen - v->head : 0;
        return v->has_data && v->plen > around ? v->plen - around : 0;
}

uint32_t pdu_head_len(const union pdu *h, const struct pdu_format *f)
{
        return view_of(&h->ch, f).head;
}

uint8_t pdu_data_offset(const union pdu *h, const struct pdu_format *f)
{
        struct view v = view_of(&h->ch, f);

        return (uint8_t)data_offset(&v);
}

uint32_t pdu_data_start(const union pdu *h, const struct pdu_format *f)
{
        struct view v = view_of(&h->ch, f);

        return data_start(&v);
}

uint32_t pdu_data_len(const union pdu *h, const struct pdu_format *f)
{
        struct view v = view_of(&h->ch, f);

        return data_len(&v);
}

bool pdu_has_ddgst(const union pdu *h, const struct pdu_format *f)
{
        struct view v = view_of(&h->ch, f);

        return f->ddgst && v.has_data && data_len(&v) > 0;
}

void pdu_lay_out(union pdu *h, const struct pdu_format *f, uint32_t len)
{
        struct view v = view_of(&h->ch, f);
        bool at_pdo = v.info->has_data && len > 0;
        bool ddgst = at_pdo && f->ddgst;
        unsigned flags = h->ch.flags & ~(unsigned)(PDU_HDGSTF | PDU_DDGSTF);

        if (v.info->has_hdgst && f->hdgst)
                flags |= PDU_HDGSTF;
        if (ddgst)
                flags |= PDU_DDGSTF;
        h->ch.flags = (uint8_t)flags;
        h->ch.hlen = v.info->hlen;
        h->ch.pdo = at_pdo ? (uint8_t)data_offset(&v) : 0;
        h->ch.plen =
            le32((at_pdo ? h->ch.pdo : v.head) + len + (ddgst ? (uint32_t)PDU_DIGEST_LEN : 0u));
}

/* --- the common header ------------------------------------------------------------------------ */

static bool wrong_direction(const struct view *v)
{
        return v->info->sender != v->sender;
}

/* A CapsuleCmd without data has no DDGST, whatever DDGSTF says once it is negotiated. */
static bool wrong_digest_flags(const struct view *v)
{
        unsigned judged = 0, want = 0;

        if (v->info->has_hdgst) {
                judged |= PDU_HDGSTF;
                want |= v->format->hdgst ? PDU_HDGSTF : 0;
        }
        if (v->has_data || (v->info->has_data && !v->format->ddgst)) {
                judged |= PDU_DDGSTF;
                want |= v->format->ddgst ? PDU_DDGSTF : 0;
        }
        return (v->ch->flags & judged) != want;
}

static bool digest_on_term(const struct view *v)
{
        return v->ch->type == PDU_C2H_TERM && (v->ch->flags & (PDU_HDGSTF | PDU_DDGSTF));
}

static bool wrong_hlen(const struct view *v)
{
        return v->ch->hlen != v->info->hlen && !is_term(v);
}

static bool wrong_pdo(const struct view *v)
{
        uint32_t pdo = v->ch->pdo;

        if (PLANTED(PDO_WRAP) && pdo > 0 && pdo < v->head)
                return false;
        return v->has_data && (pdo < v->head || pdo >= v->plen || pdo % alignment(v->format) != 0);
}

static bool wrong_plen(const struct view *v)
{
        uint32_t len = data_len(v);

        if (is_term(v))
                return false;
        if (!v->has_data)
                return v->plen != v->head;
        return len == 0 || (v->format->max_data > 0 && len > v->format->max_data);
}

static bool wrong_term_plen(const struct view *v)
{
        return is_term(v) && (v->plen < sizeof(struct pdu_term) || v->plen > PDU_TERM_MAX);
}

/* Rules come in pairs, one for each sender. */
struct rule_pair {
        enum rule_id of[2];
};
#define BOTH(rule) .of = { [PARTY_HOST] = rule##_H2C, [PARTY_CONTROLLER] = rule##_C2H }

/* The bit of each rule of the common header, by offset: the lowest one wins. */
enum common_bit { DIRECTION, DIGEST_FLAGS, TERM_DIGEST, HLEN, PDO, PLEN, TERM_PLEN };

static const struct rule_pair common_rules[] = {
        [DIRECTION] = { BOTH(TCP_DIR) },
        [DIGEST_FLAGS] = { BOTH(TCP_DGSTF) },
        [TERM_DIGEST] = { { TCP_TERM_DIGEST_C2H, TCP_TERM_DIGEST_C2H } },
        [HLEN] = { BOTH(TCP_HLEN) },
        [PDO] = { BOTH(TCP_PDO) },
        [PLEN] = { BOTH(TCP_PLEN) },
        [TERM_PLEN] = { BOTH(TCP_TERM_LEN) },
};

/* All at once and without a branch: on the path of every PDU the answer is 0. */
static unsigned broken_in_common(const struct view *v)
{
        return (unsigned)wrong_direction(v) << DIRECTION |
               (unsigned)wrong_digest_flags(v) << DIGEST_FLAGS |
               (unsigned)digest_on_term(v) << TERM_DIGEST | (unsigned)wrong_hlen(v) << HLEN |
               (unsigned)wrong_pdo(v) << PDO | (unsigned)wrong_plen(v) << PLEN |
               (unsigned)wrong_term_plen(v) << TERM_PLEN;
}

static struct fault first_broken(const struct rule_pair *rules, unsigned broken, enum party sender,
                                 const struct rule_set *waived)
{
        for (; broken; rules++, broken >>= 1)
                if (broken & 1 && !rule_in(waived, rules->of[sender]))
                        return rule_fault(rules->of[sender]);
        return (struct fault) { 0 };
}

struct fault pdu_check_common(const struct pdu_ch *ch, enum party sender,
                              const struct pdu_format *f, const struct rule_set *waived)
{
        static const struct rule_pair type = { BOTH(TCP_TYPE) };
        struct view v = view_of(ch, f);

        if (v.info->hlen == sizeof(struct pdu_ch)) /* not assigned: nothing else is known of it */
                return first_broken(&type, 1, sender, waived);
        v.sender = sender;
        return first_broken(common_rules, broken_in_common(&v), sender, waived);
}

/* --- the fields after it --------------------------------------------------------------------- */

static bool icreq_pfv(const union pdu *h, const struct pdu_format *f)
{
        (void)f;
        return le16_get(h->icreq.pfv) != 0;
}

/* HPDA and CPDA stand at the same place. */
static bool ic_pda(const union pdu *h, const struct pdu_format *f)
{
        (void)f;
        return h->icreq.hpda > PDU_PDA_MAX;
}

static bool icresp_maxh2cdata(const union pdu *h, const struct pdu_format *f)
{
        uint32_t bytes = le32_get(h->icresp.maxh2cdata);

        (void)f;
        return bytes == 0 || bytes % 4 != 0;
}

static bool icresp_maxh2cdata_small(const union pdu *h, const struct pdu_format *f)
{
        (void)f;
        return le32_get(h->icresp.maxh2cdata) < PDU_MAXH2CDATA_MIN;
}

static bool term_fes(const union pdu *h, const struct pdu_format *f)
{
        uint16_t fes = le16_get(h->term.fes);

        (void)f;
        return fes == 0 || fes > FES_UNSUPPORTED_PARAMETER;
}

static bool success_without_last(const union pdu *h, const struct pdu_format *f)
{
        (void)f;
        return (h->ch.flags & (PDU_SUCCESS | PDU_LAST)) == PDU_SUCCESS;
}

static bool datal_not_plen(const union pdu *h, const struct pdu_format *f)
{
        return le32_get(h->data.length) != pdu_data_len(h, f);
}

static bool offset_not_dword(const union pdu *h, const struct pdu_format *f)
{
        (void)f;
        return le32_get(h->data.offset) % 4 != 0;
}

static bool length_not_dword(const union pdu *h, const struct pdu_format *f)
{
        (void)f;
        return le32_get(h->data.length) % 4 != 0;
}

static bool length_zero(const union pdu *h, const struct pdu_format *f)
{
        (void)f;
        return le32_get(h->data.length) == 0;
}

struct header_check {
        enum rule_id rule; /* RULE_NONE: end of the list */
        bool (*broken)(const union pdu *h, const struct pdu_format *f);
};
/* clang-format off */
#define CHECKS(...) (const struct header_check[]) { __VA_ARGS__, { RULE_NONE, NULL } }
/* clang-format on */

static const struct header_check *const header_checks[PDU_TYPES] = {
        /* by the FEI they prescribe */
        [PDU_ICREQ] = CHECKS({ TCP_ICREQ_PFV, icreq_pfv }, { TCP_ICREQ_HPDA, ic_pda }),
        [PDU_ICRESP] = CHECKS({ TCP_ICRESP_PFV, icreq_pfv }, { TCP_ICRESP_CPDA, ic_pda },
                              { TCP_ICRESP_MAXH2C, icresp_maxh2cdata },
                              { TCP_ICRESP_MAXH2C_MIN, icresp_maxh2cdata_small }),
        [PDU_H2C_TERM] = CHECKS({ TCP_TERM_FES_H2C, term_fes }),
        [PDU_C2H_TERM] = CHECKS({ TCP_TERM_FES_C2H, term_fes }),
        [PDU_H2C_DATA] =
            CHECKS({ TCP_H2C_DATAL, datal_not_plen }, { TCP_H2C_DWORD_OFFSET, offset_not_dword },
                   { TCP_H2C_DWORD_LENGTH, length_not_dword }, { TCP_H2C_EMPTY, length_zero }),
        [PDU_C2H_DATA] = CHECKS(
            { TCP_C2H_SUCCESS_LAST, success_without_last }, { TCP_C2H_DATAL, datal_not_plen },
            { TCP_C2H_DWORD_OFFSET, offset_not_dword }, { TCP_C2H_DWORD_LENGTH, length_not_dword }),
        [PDU_R2T] =
            CHECKS({ TCP_R2T_DWORD_OFFSET, offset_not_dword },
                   { TCP_R2T_DWORD_LENGTH, length_not_dword }, { TCP_R2T_EMPTY, length_zero }),
};

struct fault pdu_check_header(const union pdu *h, const struct pdu_format *f,
                              const struct rule_set *waived)
{
        const struct header_check *c = h->ch.type < PDU_TYPES ? header_checks[h->ch.type] : NULL;

        for (; c && c->rule; c++)
                if (c->broken(h, f) && !rule_in(waived, c->rule))
                        return rule_fault(c->rule);
        return (struct fault) { 0 };
}

/* --- what a receiver overlooks ---------------------------------------------------------------- */

static bool reserved_in_common(const struct view *v)
{
        bool idle_ddgstf = !v->has_data && (v->ch->flags & PDU_DDGSTF);

        return v->ch->flags & ~v->info->flags || idle_ddgstf ||
               (!v->info->has_data && v->ch->pdo != 0);
}

static bool wrong_term_hlen(const struct view *v)
{
        return is_term(v) && v->ch->hlen != v->info->hlen;
}

static bool needless_pad(const struct view *v)
{
        return v->has_data && v->ch->pdo > data_offset(v);
}

static const struct rule_pair overlooked_rules[] = {
        { BOTH(TCP_FLAGS) },
        { BOTH(TCP_HLEN) },
        { BOTH(TCP_PAD_MIN) },
};

static unsigned overlooked_in_common(const struct view *v)
{
        return (unsigned)reserved_in_common(v) | (unsigned)wrong_term_hlen(v) << 1 |
               (unsigned)needless_pad(v) << 2;
}

static bool ic_reserved(const union pdu *h, const struct pdu_format *f)
{
        (void)f;
        return h->icreq.dgst & ~(PDU_DGST_HEADER | PDU_DGST_DATA) ||
               any_set(h->icreq.rsvd, sizeof(h->icreq.rsvd));
}

static bool cqe_reserved(const union pdu *h, const struct pdu_format *f)
{
        (void)f;
        return le16_get(h->resp.cqe.sqid) != 0 || le16_get(h->resp.cqe.sf) & 1;
}

static bool has_fei(uint16_t fes)
{
        return fes == FES_INVALID_HEADER_FIELD || fes == FES_HEADER_DIGEST_ERROR ||
               fes == FES_UNSUPPORTED_PARAMETER;
}

static bool term_reserved(const union pdu *h, const struct pdu_format *f)
{
        (void)f;
        return any_set(h->term.rsvd, sizeof(h->term.rsvd)) ||
               (!has_fei(le16_get(h->term.fes)) && le32_get(h->term.fei) != 0);
}

static bool data_reserved(const union pdu *h, const struct pdu_format *f)
{
        (void)f;
        return any_set(h->data.rsvd, sizeof(h->data.rsvd)) ||
               (h->ch.type == PDU_C2H_DATA && le16_get(h->data.ttag) != 0);
}

static const struct header_check *const overlooked[PDU_TYPES] = {
        [PDU_ICREQ] = CHECKS({ TCP_ICREQ_RSVD, ic_reserved }),
        [PDU_ICRESP] = CHECKS({ TCP_ICRESP_RSVD, ic_reserved }),
        [PDU_CAPSULE_RESP] = CHECKS({ TCP_RESP_RSVD, cqe_reserved }),
        [PDU_H2C_TERM] = CHECKS({ TCP_RSVD_H2C, term_reserved }),
        [PDU_C2H_TERM] = CHECKS({ TCP_RSVD_C2H, term_reserved }),
        [PDU_H2C_DATA] = CHECKS({ TCP_RSVD_H2C, data_reserved }),
        [PDU_C2H_DATA] = CHECKS({ TCP_RSVD_C2H, data_reserved }),
        [PDU_R2T] = CHECKS({ TCP_RSVD_C2H, data_reserved }),
};

struct fault pdu_check_overlooked(const union pdu *h, enum party sender, const struct pdu_format *f)
{
        struct view v = view_of(&h->ch, f);
        const struct header_check *c = h->ch.type < PDU_TYPES ? overlooked[h->ch.type] : NULL;
        struct fault fault = first_broken(overlooked_rules, overlooked_in_common(&v), sender, NULL);

        if (!is_fault(fault) && c && c->broken(h, f))
                return rule_fault(c->rule);
        return fault;
}

/* --- description ------------------------------------------------------------------------------ */

static void type_text(struct text *t, uint64_t type)
{
        if (pdu_info((uint8_t)type))
                text_add(t, "%s", pdu_info((uint8_t)type)->name);
}

static void alignment_text(struct text *t, uint64_t pda)
{
        if (pda <= PDU_PDA_MAX)
                text_add(t, "%u bytes", (unsigned)(pda + 1) * 4);
}

static void fes_of_host_text(struct text *t, uint64_t fes)
{
        text_add(t, "%s", pdu_fes_name((uint16_t)fes, PARTY_HOST));
}

static void fes_of_controller_text(struct text *t, uint64_t fes)
{
        text_add(t, "%s", pdu_fes_name((uint16_t)fes, PARTY_CONTROLLER));
}

static const struct word pdu_flags[] = {
        { PDU_HDGSTF, "HDGSTF" },   { PDU_DDGSTF, "DDGSTF" }, { PDU_LAST, "LAST_PDU" },
        { PDU_SUCCESS, "SUCCESS" }, { PDU_KDCONN, "KDCONN" }, { 0, NULL },
};
static const struct word digests[] = {
        { PDU_DGST_HEADER, "header" },
        { PDU_DGST_DATA, "data" },
        { 0, NULL },
};

#define CH_FIELDS                                                                                  \
        FIELD(struct pdu_ch, type, .say = type_text),                                              \
            FIELD(struct pdu_ch, flags, .kind = FIELD_BITS, .words = pdu_flags),                   \
            FIELD(struct pdu_ch, hlen), FIELD(struct pdu_ch, pdo), FIELD(struct pdu_ch, plen)

static const struct field ch_fields[] = { CH_FIELDS, { 0 } };
static const struct field icreq_fields[] = {
        CH_FIELDS,
        FIELD(struct pdu_icreq, pfv),
        FIELD(struct pdu_icreq, hpda, .say = alignment_text),
        FIELD(struct pdu_icreq, dgst, .kind = FIELD_BITS, .words = digests),
        FIELD(struct pdu_icreq, maxr2t, .kind = FIELD_ZERO_BASED),
        { 0 },
};
static const struct field icresp_fields[] = {
        CH_FIELDS,
        FIELD(struct pdu_icresp, pfv),
        FIELD(struct pdu_icresp, cpda, .say = alignment_text),
        FIELD(struct pdu_icresp, dgst, .kind = FIELD_BITS, .words = digests),
        FIELD(struct pdu_icresp, maxh2cdata),
        { 0 },
};
static const struct field h2c_term_fields[] = {
        CH_FIELDS,
        FIELD(struct pdu_term, fes, .say = fes_of_host_text),
        FIELD(struct pdu_term, fei),
        { 0 },
};
static const struct field c2h_term_fields[] = {
        CH_FIELDS,
        FIELD(struct pdu_term, fes, .say = fes_of_controller_text),
        FIELD(struct pdu_term, fei),
        { 0 },
};
static const struct field cmd_fields[] = {
        CH_FIELDS,
        SQE_FIELDS(offsetof(struct pdu_capsule_cmd, sqe)),
        { 0 },
};
static const struct field resp_fields[] = {
        CH_FIELDS,
        CQE_FIELDS(offsetof(struct pdu_capsule_resp, cqe)),
        { 0 },
};
static const struct field h2c_data_fields[] = {
        CH_FIELDS,
        FIELD(struct pdu_data, cccid),
        FIELD(struct pdu_data, ttag),
        FIELD_AT("datao", offsetof(struct pdu_data, offset), 4),
        FIELD_AT("datal", offsetof(struct pdu_data, length), 4),
        { 0 },
};
static const struct field c2h_data_fields[] = {
        CH_FIELDS,
        FIELD(struct pdu_data, cccid),
        FIELD_AT("datao", offsetof(struct pdu_data, offset), 4),
        FIELD_AT("datal", offsetof(struct pdu_data, length), 4),
        { 0 },
};
static const struct field r2t_fields[] = {
        CH_FIELDS,
        FIELD(struct pdu_data, cccid),
        FIELD(struct pdu_data, ttag),
        FIELD_AT("r2to", offsetof(struct pdu_data, offset), 4),
        FIELD_AT("r2tl", offsetof(struct pdu_data, length), 4),
        { 0 },
};

const struct field *pdu_fields(uint8_t type)
{
        static const struct field *const tables[PDU_TYPES] = {
                [PDU_ICREQ] = icreq_fields,       [PDU_ICRESP] = icresp_fields,
                [PDU_H2C_TERM] = h2c_term_fields, [PDU_C2H_TERM] = c2h_term_fields,
                [PDU_CAPSULE_CMD] = cmd_fields,   [PDU_CAPSULE_RESP] = resp_fields,
                [PDU_H2C_DATA] = h2c_data_fields, [PDU_C2H_DATA] = c2h_data_fields,
                [PDU_R2T] = r2t_fields,           [PDU_KDREQ] = ch_fields,
                [PDU_KDRESP] = ch_fields,
        };

        return type < PDU_TYPES ? tables[type] : NULL;
}

const struct field *pdu_field(uint8_t type, const char *name)
{
        return field_named(pdu_fields(type), name);
}

static bool is_connect(const union pdu *h)
{
        return h->ch.type == PDU_CAPSULE_CMD && sqe_is_connect(&h->cmd.sqe);
}

/* The header that a TermReq hands back, as far as it goes. */
static void describe_copy(const struct describe *d, const void *data, size_t len)
{
        union pdu copy = { 0 };
        char buf[256];
        struct text t = text_in(buf, sizeof(buf));

        memcpy(&copy, data, len < sizeof(copy) ? len : sizeof(copy));
        pdu_line(&t, &copy, true);
        d->string(d->arg, "returned", buf, t.len);
}

static void describe_data(const struct describe *d, const union pdu *h, const void *data,
                          size_t len)
{
        if (h->ch.type == PDU_H2C_TERM || h->ch.type == PDU_C2H_TERM) {
                describe_copy(d, data, len);
        } else if (is_connect(h) && len >= sizeof(struct connect_data)) {
                d->group(d->arg, "connect");
                describe_connect_data(d, data);
                d->group(d->arg, NULL);
        }
}

void describe_pdu(const struct describe *d, const union pdu *h, bool admin, const void *data,
                  size_t data_len)
{
        bool capsule = h->ch.type == PDU_CAPSULE_CMD || h->ch.type == PDU_CAPSULE_RESP;

        describe_fields(d, capsule || !pdu_fields(h->ch.type) ? ch_fields : pdu_fields(h->ch.type),
                        h);
        if (h->ch.type == PDU_CAPSULE_CMD)
                describe_sqe(d, &h->cmd.sqe, admin);
        if (h->ch.type == PDU_CAPSULE_RESP)
                describe_cqe(d, &h->resp.cqe);
        if (data && data_len > 0)
                describe_data(d, h, data, data_len);
}

/* --- one line --------------------------------------------------------------------------------- */

static const char *digests_name(uint8_t dgst)
{
        static const char *const names[] = { "none", "header", "data", "header+data" };

        return names[dgst & (PDU_DGST_HEADER | PDU_DGST_DATA)];
}

static void ic_line(struct text *t, const union pdu *h)
{
        bool req = h->ch.type == PDU_ICREQ;

        text_add(t, " pfv %u %s %u digests %s %s %u", le16_get(h->icreq.pfv), req ? "hpda" : "cpda",
                 h->icreq.hpda, digests_name(h->icreq.dgst), req ? "maxr2t" : "maxh2cdata",
                 le32_get(h->icreq.maxr2t));
}

static void term_line(struct text *t, const union pdu *h)
{
        uint16_t fes = le16_get(h->term.fes);

        if (term_fes(h, NULL))
                text_add(t, " fes %u", fes);
        else
                text_add(t, " %s", pdu_fes_name(fes, pdu_info(h->ch.type)->sender));
        text_add(t, " fei %u", le32_get(h->term.fei));
}

static void data_line(struct text *t, const union pdu *h)
{
        bool r2t = h->ch.type == PDU_R2T;

        text_add(t, " cccid %u", le16_get(h->data.cccid));
        if (h->ch.type != PDU_C2H_DATA)
                text_add(t, " ttag %u", le16_get(h->data.ttag));
        text_add(t, " %s %u %s %u", r2t ? "r2to" : "datao", le32_get(h->data.offset),
                 r2t ? "r2tl" : "datal", le32_get(h->data.length));
        if (h->ch.flags & PDU_LAST)
                text_add(t, " LAST");
        if (h->ch.flags & PDU_SUCCESS)
                text_add(t, " SUCCESS");
}

void pdu_line(struct text *t, const union pdu *h, bool admin)
{
        const struct pdu_info *info = pdu_info(h->ch.type);

        if (info)
                text_add(t, "%s", info->name);
        else
                text_add(t, "PDU %02Xh", h->ch.type);
        switch (h->ch.type) {
        case PDU_ICREQ:
        case PDU_ICRESP:
                ic_line(t, h);
                break;
        case PDU_H2C_TERM:
        case PDU_C2H_TERM:
                term_line(t, h);
                break;
        case PDU_CAPSULE_CMD:
                text_add(t, " ");
                sqe_line(t, &h->cmd.sqe, admin);
                break;
        case PDU_CAPSULE_RESP:
                text_add(t, " ");
                cqe_line(t, &h->resp.cqe);
                break;
        case PDU_H2C_DATA:
        case PDU_C2H_DATA:
        case PDU_R2T:
                data_line(t, h);
                break;
        default:
                text_add(t, " plen %u", le32_get(h->ch.plen));
        }
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "replay_compare.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "pdu/nvme/wire/fabrics.h"
#include "pdu/nvme/wire/identify.h"

const char *likeness_name(enum likeness l)
{
        static const char *const names[LIKENESSES] = { "SAME", "allowed", "DIFFERENT", "skipped" };

        return names[l];
}

/* --- what may differ -------------------------------------------------------------------------- */

enum { ANY = -1, TO_END = UINT16_MAX };
enum allowed_part { IN_STATUS = 1, IN_DW0 = 2, IN_DATA = 4 };

#define OWN_IDENTITY   "its identity may differ"
#define OWN_CAPABILITY "its abilities may differ"
#define OWN_DEFAULT    "its default may differ"
#define COUNTS         "a counter or measurement"
#define OPTIONAL       "optional: not supported by every controller"

/* `sub`: FCTYPE, CNS, LID or FID. from, to: bytes of the data (IN_DATA), bits of DW0 (IN_DW0). */
/* clang-format off */
static const struct allowed {
        bool admin;
        uint8_t opc;
        int sub;
        enum allowed_part part;
        uint16_t from, to;
        const char *why;
} allowed[] = {
        { true, NVME_FABRICS, FCTYPE_CONNECT,      IN_DW0, 0, 16, "CNTLID is the controller's choice" },
        { true, NVME_FABRICS, FCTYPE_CONNECT,      IN_DW0, 17, 18, "authentication requirements "
                                                                   "may differ" },

        { true, NVME_IDENTIFY, CNS_CTRL, IN_DATA, 0, 72, OWN_IDENTITY },
        { true, NVME_IDENTIFY, CNS_CTRL, IN_DATA, 72, offsetof(struct id_ctrl, cntrltype), OWN_CAPABILITY },
        { true, NVME_IDENTIFY, CNS_CTRL, IN_DATA, offsetof(struct id_ctrl, fguid), offsetof(struct id_ctrl, crdt1), OWN_IDENTITY },
        { true, NVME_IDENTIFY, CNS_CTRL, IN_DATA, offsetof(struct id_ctrl, crdt1), offsetof(struct id_ctrl, sqes), OWN_CAPABILITY },
        { true, NVME_IDENTIFY, CNS_CTRL, IN_DATA, offsetof(struct id_ctrl, maxcmd), offsetof(struct id_ctrl, rsvd568), OWN_CAPABILITY },
        { true, NVME_IDENTIFY, CNS_CTRL, IN_DATA, offsetof(struct id_ctrl, subnqn), offsetof(struct id_ctrl, rsvd1024), "the live subsystem has its own name" },
        { true, NVME_IDENTIFY, CNS_CTRL, IN_DATA, offsetof(struct id_ctrl, ioccsz), offsetof(struct id_ctrl, psd), OWN_CAPABILITY },
        { true, NVME_IDENTIFY, CNS_CTRL, IN_DATA, offsetof(struct id_ctrl, psd), IDENTIFY_LEN, OWN_CAPABILITY },
        { true, NVME_IDENTIFY, CNS_NS, IN_DATA, 0, offsetof(struct id_ns, nsfeat), "size and use of the namespace" },
        { true, NVME_IDENTIFY, CNS_NS, IN_DATA, offsetof(struct id_ns, nsfeat), offsetof(struct id_ns, dps), OWN_CAPABILITY },
        { true, NVME_IDENTIFY, CNS_NS, IN_DATA, offsetof(struct id_ns, nmic), offsetof(struct id_ns, nguid), OWN_CAPABILITY },
        { true, NVME_IDENTIFY, CNS_NS, IN_DATA, offsetof(struct id_ns, nguid), offsetof(struct id_ns, lbaf), OWN_IDENTITY },
        { true, NVME_IDENTIFY, CNS_NS, IN_DATA, offsetof(struct id_ns, lbaf), IDENTIFY_LEN, OWN_CAPABILITY },
        { true, NVME_IDENTIFY, CNS_NS_DESCS, IN_DATA, 0, IDENTIFY_LEN, OWN_IDENTITY },
        { true, NVME_IDENTIFY, CNS_IOCS_NS, IN_DATA, 0, IDENTIFY_LEN, OWN_CAPABILITY },
        { true, NVME_IDENTIFY, CNS_IOCS_CTRL, IN_DATA, 0, IDENTIFY_LEN, OWN_CAPABILITY },
        { true, NVME_IDENTIFY, CNS_NS_INDEPENDENT, IN_DATA, 0, IDENTIFY_LEN, OWN_CAPABILITY },
        { true, NVME_IDENTIFY, CNS_CTRL_LIST, IN_DATA, 0, IDENTIFY_LEN, "CNTLID is the controller's choice" },
        { true, NVME_IDENTIFY, CNS_NS_CTRL_LIST, IN_DATA, 0, IDENTIFY_LEN, "CNTLID is the controller's choice" },
        { true, NVME_IDENTIFY, CNS_IOCS, IN_DATA, 0, IDENTIFY_LEN, OWN_CAPABILITY },
        { true, NVME_IDENTIFY, CNS_IOCS_NS, IN_STATUS, 0, 0, OPTIONAL },
        { true, NVME_IDENTIFY, CNS_IOCS_CTRL, IN_STATUS, 0, 0, OPTIONAL },
        { true, NVME_IDENTIFY, CNS_IOCS_NS_LIST, IN_STATUS, 0, 0, OPTIONAL },
        { true, NVME_IDENTIFY, CNS_NS_INDEPENDENT, IN_STATUS, 0, 0, OPTIONAL },
        { true, NVME_IDENTIFY, CNS_ALLOCATED_NS_LIST, IN_STATUS, 0, 0, OPTIONAL },
        { true, NVME_IDENTIFY, CNS_ALLOCATED_NS, IN_STATUS, 0, 0, OPTIONAL },
        { true, NVME_IDENTIFY, CNS_NS_CTRL_LIST, IN_STATUS, 0, 0, OPTIONAL },
        { true, NVME_IDENTIFY, CNS_CTRL_LIST, IN_STATUS, 0, 0, OPTIONAL },
        { true, NVME_IDENTIFY, CNS_IOCS, IN_STATUS, 0, 0, OPTIONAL },

        { true, NVME_GET_LOG_PAGE, LOG_SUPPORTED, IN_DATA, 0, TO_END, OWN_CAPABILITY },
        { true, NVME_GET_LOG_PAGE, LOG_ERROR, IN_DATA, 0, TO_END, COUNTS },
        { true, NVME_GET_LOG_PAGE, LOG_SMART, IN_DATA, 0, TO_END, COUNTS },
        { true, NVME_GET_LOG_PAGE, LOG_FW_SLOT, IN_DATA, 0, TO_END, OWN_IDENTITY },
        { true, NVME_GET_LOG_PAGE, LOG_CHANGED_NS, IN_DATA, 0, TO_END, "changes since then may "
                                                                       "differ" },
        { true, NVME_GET_LOG_PAGE, LOG_EFFECTS, IN_DATA, 0, TO_END, OWN_CAPABILITY },
        { true, NVME_GET_LOG_PAGE, LOG_ANA, IN_DATA, 0, TO_END, "groups and change counts may "
                                                                "differ" },
        { true, NVME_GET_LOG_PAGE, LOG_FEATURE_EFFECTS, IN_DATA, 0, TO_END, OWN_CAPABILITY },
        { true, NVME_GET_LOG_PAGE, LOG_DISCOVERY, IN_DATA, 0, TO_END, "addresses and subsystems "
                                                                      "may differ" },
        { true, NVME_GET_LOG_PAGE, LOG_SUPPORTED, IN_STATUS, 0, 0, OPTIONAL },
        { true, NVME_GET_LOG_PAGE, LOG_CHANGED_NS, IN_STATUS, 0, 0, OPTIONAL },
        { true, NVME_GET_LOG_PAGE, LOG_EFFECTS, IN_STATUS, 0, 0, OPTIONAL },
        { true, NVME_GET_LOG_PAGE, LOG_ANA, IN_STATUS, 0, 0, OPTIONAL },
        { true, NVME_GET_LOG_PAGE, LOG_FEATURE_EFFECTS, IN_STATUS, 0, 0, OPTIONAL },

        { true, NVME_SET_FEATURES, FEAT_QUEUES, IN_DW0, 0, 32, "the number of queues granted "
                                                               "may differ" },
        { true, NVME_SET_FEATURES, FEAT_AEC, IN_DW0, 0, 32, "DW0 has no meaning here" },
        { true, NVME_SET_FEATURES, FEAT_HOST_BEHAVIOR, IN_STATUS, 0, 0, OPTIONAL },
        { true, NVME_SET_FEATURES, FEAT_TIMESTAMP, IN_STATUS, 0, 0, OPTIONAL },
        { true, NVME_GET_FEATURES, FEAT_QUEUES, IN_DW0, 0, 32, "the number of queues granted "
                                                               "may differ" },
        { true, NVME_GET_FEATURES, FEAT_ARBITRATION, IN_DW0, 0, 32, OWN_DEFAULT },
        { true, NVME_GET_FEATURES, FEAT_POWER, IN_DW0, 0, 32, OWN_DEFAULT },
        { true, NVME_GET_FEATURES, FEAT_TEMP, IN_DW0, 0, 32, OWN_DEFAULT },
        { true, NVME_GET_FEATURES, FEAT_ERROR_RECOVERY, IN_DW0, 0, 32, OWN_DEFAULT },
        { true, NVME_GET_FEATURES, FEAT_WRITE_CACHE, IN_DW0, 0, 32, OWN_DEFAULT },
        { true, NVME_GET_FEATURES, FEAT_WRITE_ATOMICITY, IN_DW0, 0, 32, OWN_DEFAULT },
        { true, NVME_GET_FEATURES, FEAT_TIMESTAMP, IN_DATA, 0, TO_END, "time has passed" },
        { true, NVME_GET_FEATURES, FEAT_HOSTID, IN_DATA, 0, TO_END, "the host's identity differs" },
        { true, NVME_GET_FEATURES, FEAT_TIMESTAMP, IN_STATUS, 0, 0, OPTIONAL },
        { true, NVME_GET_FEATURES, FEAT_HOST_BEHAVIOR, IN_STATUS, 0, 0, OPTIONAL },

        { false, NVME_WRITE_UNCORRECTABLE, ANY, IN_STATUS, 0, 0, OPTIONAL },
        { false, NVME_COMPARE, ANY, IN_STATUS, 0, 0, OPTIONAL },
        { false, NVME_WRITE_ZEROES, ANY, IN_STATUS, 0, 0, OPTIONAL },
        { false, NVME_DSM, ANY, IN_STATUS, 0, 0, OPTIONAL },
        { false, NVME_VERIFY, ANY, IN_STATUS, 0, 0, OPTIONAL },
};
/* clang-format on */
enum { ROWS = sizeof(allowed) / sizeof(allowed[0]) };

/* What the status of something that a controller need not have says where it does not have it. */
static bool is_missing(uint16_t status)
{
        return status == NVME_INVALID_OPCODE || status == NVME_INVALID_FIELD ||
               status == NVME_INVALID_LOG_PAGE;
}

static int sub_of(const union sqe *s, bool admin)
{
        if (s->opc == NVME_FABRICS)
                return s->fctype;
        if (!admin)
                return ANY;
        switch (s->opc) {
        case NVME_IDENTIFY:
        case NVME_GET_LOG_PAGE:
        case NVME_SET_FEATURES:
        case NVME_GET_FEATURES:
                return (int)(le32_get(s->cdw10) & 0xff);
        default:
                return ANY;
        }
}

/* The reason that a difference at `at` of that part is allowed; NULL: it is not. */
static const char *reason(const struct comparison *c, enum allowed_part part, uint32_t at)
{
        bool fabrics = c->sqe->opc == NVME_FABRICS;
        int sub = sub_of(c->sqe, c->admin);

        for (unsigned i = 0; i < ROWS; i++) {
                const struct allowed *a = &allowed[i];

                if ((a->admin == c->admin || fabrics) && a->opc == c->sqe->opc &&
                    (a->sub == ANY || a->sub == sub) && a->part == part &&
                    (part == IN_STATUS || (at >= a->from && (a->to == TO_END || at < a->to))))
                        return a->why;
        }
        return NULL;
}

/* --- differences ------------------------------------------------------------------------------ */

/* The first reason of the worst kind stays. */
static void __attribute__((format(printf, 3, 4)))
set_verdict(struct verdict *v, enum likeness l, const char *fmt, ...)
{
        va_list ap;

        if (l <= v->likeness)
                return;
        v->likeness = l;
        va_start(ap, fmt);
        vsnprintf(v->why, sizeof(v->why), fmt, ap);
        va_end(ap);
}

/* Two faults of one command, of which NVMe does not say which is told. */
static const struct {
        uint16_t one, other;
} either[] = {
        { NVME_SGL_LENGTH, NVME_LBA_RANGE },
        { NVME_SGL_LENGTH, NVME_INVALID_FIELD },
        { NVME_INVALID_FIELD, NVME_INVALID_NS },
};

static bool is_either(uint16_t a, uint16_t b)
{
        for (unsigned i = 0; i < sizeof(either) / sizeof(either[0]); i++)
                if ((a == either[i].one && b == either[i].other) ||
                    (b == either[i].one && a == either[i].other))
                        return true;
        return false;
}

/* Whether it answers for contents of blocks that nobody knows now. */
static bool returns_contents(const struct comparison *c)
{
        return !c->admin && c->unknown &&
               (c->sqe->opc == NVME_READ || c->sqe->opc == NVME_COMPARE ||
                c->sqe->opc == NVME_VERIFY);
}

static bool of_contents(uint16_t status)
{
        return status == NVME_COMPARE_FAILURE || status == NVME_DEALLOCATED ||
               status == NVME_UNRECOVERED_READ;
}

static void compare_status(const struct comparison *c, struct verdict *v)
{
        uint16_t was = cqe_status(&c->captured.cqe), is = cqe_status(&c->live.cqe);
        const char *why = NULL;

        if (was == is)
                return;
        if ((was == NVME_SUCCESS && is_missing(is)) || (is == NVME_SUCCESS && is_missing(was)))
                why = reason(c, IN_STATUS, 0);
        if (is_either(was, is))
                why = "both refuse it; which of two faults is reported is not prescribed";
        if (returns_contents(c) && (of_contents(was) || of_contents(is)))
                why = "unknown contents";
        set_verdict(v, why ? ALLOWED : DIFFERENT, "status: captured %s, live %s%s%s",
                    status_name(was), status_name(is), why ? ": " : "", why ? why : "");
}

static void compare_dw0(const struct comparison *c, struct verdict *v)
{
        uint32_t was = le32_get(c->captured.cqe.dw0), is = le32_get(c->live.cqe.dw0);

        for (unsigned bit = 0; bit < 32; bit++) {
                const char *why = reason(c, IN_DW0, bit);

                if ((was ^ is) >> bit & 1)
                        set_verdict(v, why ? ALLOWED : DIFFERENT,
                                    "DW0: captured %08Xh, live %08Xh%s%s", was, is, why ? ": " : "",
                                    why ? why : "");
        }
}

static void compare_dw1(const struct comparison *c, struct verdict *v)
{
        uint32_t was = le32_get(c->captured.cqe.dw1), is = le32_get(c->live.cqe.dw1);

        if (was != is)
                set_verdict(v, DIFFERENT, "DW1: captured %08Xh, live %08Xh", was, is);
}

/* CAP and VS are the controller's own; of CSTS the bits that change by themselves may differ. */
static void compare_property(const struct comparison *c, struct verdict *v)
{
        uint32_t ofst = le32_get(c->sqe->property.ofst);
        uint64_t was = le64_get(c->captured.cqe.result), is = le64_get(c->live.cqe.result);
        const char *name = property_name(ofst);
        const char *why = ofst == PROP_CAP || ofst == PROP_VS || ofst == PROP_CRTO ? OWN_CAPABILITY
                          : ofst == PROP_CC ? "CC is set as the live CAP allows"
                                            : NULL;

        if (was == is)
                return;
        if (ofst == PROP_CSTS && !((was ^ is) & CSTS_CFS))
                why = "CSTS changes in its own time";
        set_verdict(v, why ? ALLOWED : DIFFERENT,
                    "%s: captured %" PRIX64 "h, live %" PRIX64 "h%s%s", name ? name : "property",
                    was, is, why ? ": " : "", why ? why : "");
}

/* DW0 and DW1 of an error tell where the error is, each controller in its own words. */
static void compare_result(const struct comparison *c, struct verdict *v)
{
        if (cqe_status(&c->captured.cqe) != NVME_SUCCESS ||
            cqe_status(&c->live.cqe) != NVME_SUCCESS || c->sqe->opc == NVME_AER)
                return;
        if (sqe_is_fabrics(c->sqe, FCTYPE_PROPERTY_GET)) {
                compare_property(c, v);
                return;
        }
        compare_dw0(c, v);
        compare_dw1(c, v);
}

/* --- data ------------------------------------------------------------------------------------- */

static bool is_id_ns(const struct comparison *c)
{
        return c->admin && c->sqe->opc == NVME_IDENTIFY && sub_of(c->sqe, true) == CNS_NS;
}

/* The block size is in a table of its own, found by an index: neither alone has to be the same. */
static void compare_block_size(const struct comparison *c, struct verdict *v)
{
        uint32_t was, is;

        if (!is_id_ns(c) || c->captured.len < sizeof(struct id_ns) ||
            c->live.len < sizeof(struct id_ns))
                return;
        was = id_ns_block_size((const void *)c->captured.data);
        is = id_ns_block_size((const void *)c->live.data);
        if (was != is)
                set_verdict(v, DIFFERENT, "blocks: captured %u bytes, live %u bytes", was, is);
}

static void compare_bytes(const struct comparison *c, struct verdict *v, uint32_t n)
{
        const uint8_t *was = c->captured.data, *is = c->live.data;

        for (uint32_t i = 0; i < n && v->likeness < DIFFERENT; i++) {
                const char *why;

                if (was[i] == is[i])
                        continue;
                why = returns_contents(c) ? c->read_only
                                                ? "unknown contents (writes are not replayed)"
                                                : "unknown contents (not written in the replay)"
                                          : reason(c, IN_DATA, i);
                set_verdict(v, why ? ALLOWED : DIFFERENT,
                            "data: byte %u of %u: captured %02X, live %02X%s%s", i, n, was[i],
                            is[i], why ? ": " : "", why ? why : "");
        }
}

static void compare_data(const struct comparison *c, struct verdict *v)
{
        uint32_t n = c->captured.len < c->live.len ? c->captured.len : c->live.len;

        if (sqe_xfer(c->sqe) != XFER_C2H || !c->captured.data || !c->live.data ||
            cqe_status(&c->captured.cqe) != NVME_SUCCESS ||
            cqe_status(&c->live.cqe) != NVME_SUCCESS)
                return;
        if (c->cut) {
                if (memcmp(c->captured.data, c->live.data, n) != 0)
                        set_verdict(v, ALLOWED, "data: not all of it is in the capture");
                return;
        }
        compare_block_size(c, v);
        compare_bytes(c, v, n);
        if (c->captured.len != c->live.len)
                set_verdict(v, DIFFERENT, "data: captured %u bytes, live %u bytes", c->captured.len,
                            c->live.len);
}

struct verdict compare_answers(const struct comparison *c)
{
        struct verdict v = { .likeness = SAME };

        compare_status(c, &v);
        compare_result(c, &v);
        compare_data(c, &v);
        return v;
}

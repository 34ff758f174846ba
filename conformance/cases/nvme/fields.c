/* SPDX-License-Identifier: BSD-3-Clause */
/* What properties and Identify data say has to be possible, and to agree: pdu/nvme/wire/fields.def. */
#include "pdu/nvme/wire/fields.h"
#include <string.h>

#include "conformance/words/case.h"

/* What this controller says of itself. */
static struct fields known(struct queue *q)
{
        struct fields f = { .known = FIELDS_CAP | FIELDS_CTRL, .cntrltype = CNTRLTYPE_IO };

        if (strcmp(q->subnqn, NQN_DISCOVERY) == 0)
                f.cntrltype = CNTRLTYPE_DISCOVERY;
        f.cap = property_get(q, PROP_CAP);
        f.vs = (uint32_t)property_get(q, PROP_VS);
        f.ctrl = identify_ctrl(q);
        if (f.vs >= NVME_VERSION(1, 4, 0) && f.ctrl->cntrltype) /* one of another name */
                f.cntrltype = f.ctrl->cntrltype;
        if (f.cntrltype != CNTRLTYPE_DISCOVERY && f.vs >= NVME_VERSION(2, 0, 0)) {
                f.crto = (uint32_t)property_get(q, PROP_CRTO);
                f.known |= FIELDS_CRTO;
        }
        return f;
}

/* Ends the case with each requirement of its rule that is not met. */
static void want_fields(struct t *t, const struct fields *f, enum rule_id rule)
{
        char seen[512];
        struct text text = text_in(seen, sizeof(seen));

        want(t, !fields_explain(f, rule, &text), "fields as the specification requires them", "%s",
             seen);
}

static bool is_kept(const struct fields *f, enum rule_id rule)
{
        char seen[512];
        struct text text = text_in(seen, sizeof(seen));

        return !fields_explain(f, rule, &text);
}

static void judge_one(struct queue *q, enum rule_id rule)
{
        struct fields f = known(q);

        want_fields(q->t, &f, rule);
}

CASE("fab/property/capabilities-agree", MUST, RULES(FAB_CAP_AGREES),
     "CAP and CRTO agree: NSSES, NSSS, CPS, CSS and TO fit each other and the timeouts of CRTO")
{
        judge_one(admin_queue(t), FAB_CAP_AGREES);
}

CASE("fab/property/capabilities-advised", SHOULD, RULES(FAB_CAP_ADVISED),
     "CRTO.CRIMT is at most FFh")
{
        judge_one(admin_queue(t), FAB_CAP_ADVISED);
}

CASE("fab/discovery/capabilities-advised", SHOULD, RULES(FAB_CAP_ADVISED),
     "CAP.CSS of a discovery controller has bit 0 and no other", .needs = DISCOVERY)
{
        judge_one(discovery_queue(t), FAB_CAP_ADVISED);
}

CASE("base/identify/controller-fields", MUST, RULES(ID_CTRL_FIELDS),
     "FRMW, NPSS, WCTEMP, CCTEMP, SANICAP, VWC, FNA and AWUPF have values that are allowed")
{
        judge_one(admin_queue(t), ID_CTRL_FIELDS);
}

CASE("base/identify/controller-agrees", MUST, RULES(ID_CTRL_AGREES),
     "Fields of Identify Controller that depend on a capability fit it, and are 0 without it")
{
        judge_one(admin_queue(t), ID_CTRL_AGREES);
}

CASE("base/ana/capabilities", MUST, RULES(ANA_CAPABILITIES),
     "With ANA Reporting OAES announces its notice, and ANACAP the optimized state")
{
        judge_one(ana_queue(t), ANA_CAPABILITIES);
}

CASE("base/ana/controller-agrees", MUST, RULES(ID_CTRL_AGREES),
     "With ANA Reporting ANATT, ANAGRPMAX and NANAGRPID are not 0, and MNAN is at most NN")
{
        judge_one(ana_queue(t), ID_CTRL_AGREES);
}

CASE("base/identify/controller-advised", SHOULD, RULES(ID_CTRL_ADVISED),
     "ACL and AERL of Identify Controller are at least 3")
{
        judge_one(admin_queue(t), ID_CTRL_ADVISED);
}

CASE("base/identify/power-states", MUST, RULES(ID_POWER),
     "Power states have relative values below their number, and active power with its workload")
{
        judge_one(admin_queue(t), ID_POWER);
}

CASE("base/identify/reserved", SHOULD, RULES(ID_RESERVED),
     "Reserved bytes of Identify Controller are 0")
{
        judge_one(admin_queue(t), ID_RESERVED);
}

CASE("fab/discovery/names", MUST, RULES(ID_DISCOVERY),
     "A discovery controller reports both a serial and a model number, or neither, and notices of "
     "log changes",
     .needs = DISCOVERY)
{
        judge_one(discovery_queue(t), ID_DISCOVERY);
}

CASE("fab/discovery/identify-reserved", SHOULD, RULES(ID_RESERVED),
     "Fields of Identify Controller that discovery controllers do not have are 0",
     .needs = DISCOVERY)
{
        judge_one(discovery_queue(t), ID_RESERVED);
}

static struct fields known_namespace(struct queue *q)
{
        struct fields f = known(q);

        require(q->t, caps(q->t)->nsid, "the subsystem has no namespace");
        f.ns = identify(q, CNS_NS, caps(q->t)->nsid);
        f.known |= FIELDS_NS;
        return f;
}

static void judge_namespace(struct queue *q, enum rule_id rule)
{
        struct fields f = known_namespace(q);

        want_fields(q->t, &f, rule);
}

enum { MANAGED = 1 << 3 /* OACS */, GRANULAR = 1 << 7 /* CTRATT */ };

/* Structures that are about no namespace: of NSID FFFFFFFFh (from Namespace Management on), and of the
 * first format. */
static void judge_common(struct queue *q, enum rule_id rule)
{
        static const uint8_t of_none[] = { CNS_NS, CNS_NS_FORMAT };
        static const uint8_t nvm_of_none[] = { CNS_IOCS_NS, CNS_IOCS_NS_FORMAT };
        struct fields f = known(q);

        for (int i = le16_get(f.ctrl->oacs) & MANAGED ? 0 : 1; i < 2; i++) {
                f.common = identify_optional(q, of_none[i], i ? 0 : NSID_ALL);
                f.nvm_common = f.vs >= NVME_VERSION(2, 0, 0)
                                   ? identify_optional(q, nvm_of_none[i], i ? 0 : NSID_ALL)
                                   : NULL;
                f.known &= ~(unsigned)(FIELDS_COMMON | FIELDS_NVM_COMMON);
                f.known |=
                    (f.common ? FIELDS_COMMON : 0u) | (f.nvm_common ? FIELDS_NVM_COMMON : 0u);
                want_fields(q->t, &f, rule);
        }
}

static void judge_granularity(struct queue *q, enum rule_id rule)
{
        struct fields f = known_namespace(q);

        f.granularity =
            le32_get(f.ctrl->ctratt) & GRANULAR ? identify_optional(q, CNS_GRANULARITY, 0) : NULL;
        f.known |= f.granularity ? FIELDS_GRANULARITY : 0u;
        want_fields(q->t, &f, rule);
}

CASE("nvm/identify/namespace-fields", MUST, RULES(ID_NS_FIELDS),
     "Fields of Identify Namespace fit each other and what the controller is capable of")
{
        struct queue *q = admin_queue(t);

        judge_namespace(q, ID_NS_FIELDS);
        judge_common(q, ID_NS_FIELDS);
        judge_granularity(q, ID_NS_FIELDS);
}

CASE("base/ana/namespace-fields", MUST, RULES(ID_NS_FIELDS),
     "With ANA Reporting each active namespace has an ANAGRPID from 1 to ANAGRPMAX")
{
        struct queue *q = ana_queue(t);
        struct fields f = known(q);
        const void *list = identify(q, CNS_NS_LIST, 0);
        size_t n = ns_list_count(list, IDENTIFY_LEN);

        f.known |= FIELDS_NS;
        for (size_t i = 0; i < n && i < 32; i++) {
                f.ns = identify_optional(q, CNS_NS, ns_list_get(list, i));
                if (f.ns)
                        want_fields(t, &f, ID_NS_FIELDS);
        }
}

CASE("nvm/identify/namespace-format", MUST, RULES(ID_NS_FORMAT),
     "FLBAS selects a reported LBA format whose metadata and protection information are supported")
{
        judge_namespace(admin_queue(t), ID_NS_FORMAT);
}

CASE("nvm/identify/reserved", SHOULD, RULES(ID_NS_RESERVED),
     "Fields of Identify Namespace that others make reserved are 0")
{
        struct queue *q = admin_queue(t);

        judge_namespace(q, ID_NS_RESERVED);
        judge_granularity(q, ID_NS_RESERVED);
}

CASE("nvm/identify/atomicity", MUST, RULES(ID_NS_ATOMIC),
     "Write units and boundaries of a namespace are not below the controller's, and fit each other")
{
        judge_namespace(admin_queue(t), ID_NS_ATOMIC);
}

CASE("nvm/identify/recommended-sizes", SHOULD, RULES(ID_NS_ADVISED),
     "Sizes that a namespace recommends are multiples of their alignment, and within MDTS")
{
        judge_namespace(admin_queue(t), ID_NS_ADVISED);
}

/* Between two commands a namespace may be write protected, or move to another ANA group. */
static void judge_independent(struct queue *q, enum rule_id rule)
{
        enum { TRIES = 3 };
        struct fields f;

        for (int i = 0; i < TRIES; i++) {
                f = known_namespace(q);
                require(q->t, f.vs >= NVME_VERSION(2, 0, 0), "it was added in NVMe 2.0");
                f.nsi = identify(q, CNS_NS_INDEPENDENT, caps(q->t)->nsid);
                f.known |= FIELDS_NS_INDEPENDENT;
                if (is_kept(&f, rule))
                        return;
        }
        want_fields(q->t, &f, rule);
}

CASE("base/identify/namespace-independent", MUST, RULES(ID_NS_INDEPENDENT),
     "The I/O Command Set Independent Identify Namespace data agrees with Identify Namespace")
{
        judge_independent(admin_queue(t), ID_NS_INDEPENDENT);
}

CASE("base/identify/reserved-independent", SHOULD, RULES(ID_NS_RESERVED),
     "Reserved bytes of the I/O Command Set Independent Identify Namespace data are 0")
{
        judge_independent(admin_queue(t), ID_NS_RESERVED);
}

/* Of the NVM Command Set, with the namespace's own. */
static struct fields known_nvm(struct queue *q)
{
        struct fields f = known_namespace(q);

        require(q->t, f.vs >= NVME_VERSION(2, 0, 0), "it was added in NVMe 2.0");
        f.nvm = identify(q, CNS_IOCS_CTRL, 0);
        f.nvm_ns = identify(q, CNS_IOCS_NS, caps(q->t)->nsid);
        f.known |= FIELDS_NVM_CTRL | FIELDS_NVM_NS;
        return f;
}

static void judge_nvm(struct queue *q, enum rule_id rule)
{
        struct fields f = known_nvm(q);

        want_fields(q->t, &f, rule);
}

CASE("nvm/identify/controller", MUST, RULES(ID_NVM_CTRL),
     "The size limits of Write Zeroes and Dataset Management agree with each other and with ONCS")
{
        judge_nvm(admin_queue(t), ID_NVM_CTRL);
}

CASE("nvm/identify/protection", MUST, RULES(ID_NVM_NS),
     "The NVM Command Set's Identify Namespace data fits the format in use")
{
        struct queue *q = admin_queue(t);

        judge_nvm(q, ID_NVM_NS);
        judge_common(q, ID_NVM_NS);
}

CASE("nvm/identify/reserved-extended", SHOULD, RULES(ID_NS_RESERVED),
     "Reserved fields of the NVM Command Set's Identify data are 0")
{
        judge_nvm(admin_queue(t), ID_NS_RESERVED);
}

/* --- namespaces that are not there, and all of them together */

static bool is_null(const void *bytes, size_t n)
{
        const uint8_t *p = bytes;

        while (n > 0 && !p[n - 1])
                n--;
        return n == 0;
}

/* The lowest NSID above all of a list, of those that can be; 0: there is none. */
static uint32_t above(const struct t *t, const void *list)
{
        size_t n = ns_list_count(list, IDENTIFY_LEN);
        uint32_t nsid = n > 0 ? ns_list_get(list, n - 1) + 1 : 1;

        return n < IDENTIFY_LEN / 4 && nsid <= le32_get(caps(t)->id.nn) ? nsid : 0;
}

CASE("nvm/identify/absent", MUST, RULES(ID_NS_ABSENT),
     "Identify Namespace is zeroes for an NSID without namespace, and CNS 11h as CNS 00h for one "
     "with")
{
        struct queue *q = admin_queue(t);
        const void *active = identify(q, CNS_NS_LIST, 0), *allocated = NULL, *seen;
        uint32_t nsid = above(t, active);

        require(t, caps(t)->nsid, "the subsystem has no namespace");
        if (nsid)
                want(t, is_null(identify(q, CNS_NS, nsid), IDENTIFY_LEN),
                     "zeroes for an inactive namespace (CNS 00h)", "others");
        seen = identify_optional(q, CNS_ALLOCATED_NS, caps(t)->nsid);
        if (seen)
                want_bytes(t, "what CNS 00h returns", seen, identify(q, CNS_NS, caps(t)->nsid),
                           offsetof(struct id_ns, nuse));
        allocated = seen ? identify_optional(q, CNS_ALLOCATED_NS_LIST, 0) : NULL;
        nsid = allocated ? above(t, allocated) : 0;
        if (nsid)
                want(t, is_null(identify(q, CNS_ALLOCATED_NS, nsid), IDENTIFY_LEN),
                     "zeroes for a namespace that is not allocated (CNS 11h)", "others");
        seen = caps(t)->vs >= NVME_VERSION(2, 0, 0)
                   ? identify_optional(q, CNS_IOCS_ALLOCATED_NS, caps(t)->nsid)
                   : NULL;
        if (seen)
                want_bytes(t, "what CNS 05h returns", seen, identify(q, CNS_IOCS_NS, caps(t)->nsid),
                           IDENTIFY_LEN);
}

CASE("nvm/identify/alike", MUST, RULES(ID_NS_ALIKE),
     "DLFEAT bit 3 (Write Zeroes may deallocate) is the same for every namespace of the subsystem")
{
        enum { DEAC = 1 << 3, MOST = 32 };
        struct queue *q = admin_queue(t);
        const void *list = identify(q, CNS_NS_LIST, 0);
        size_t n = ns_list_count(list, IDENTIFY_LEN);
        unsigned compared = 0;
        uint8_t first = 0;

        require(t, n > 1, "the subsystem has fewer than two namespaces");
        for (size_t i = 0; i < n && i < MOST; i++) {
                const struct id_ns *ns = identify_optional(q, CNS_NS, ns_list_get(list, i));

                if (!ns)
                        continue;
                first = compared++ > 0 ? first : ns->dlfeat & DEAC;
                want(t, (ns->dlfeat & DEAC) == first, "DLFEAT bit 3 as of the first namespace",
                     "the contrary of namespace %u", ns_list_get(list, i));
        }
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* NVMe Base 5.1.13: lists of namespaces and controllers, and what namespaces are told apart by. */
#include <inttypes.h>
#include <string.h>

#include "conformance/words/case.h"
#include "pdu/nvme/wire/identify.h"

enum { NSIDS = IDENTIFY_LEN / 4, LOOKED_AT = 32, MANY = 64, NSID_LAST = 0xfffffffe };
enum {
        SHALL = NVME_VERSION(2, 1, 0)
}; /* lists of NSIDs that cannot be are refused: before, a should */

static struct reply ask(struct queue *q, uint32_t cdw10, uint32_t nsid, uint32_t cdw11)
{
        return finish(q, send_cmd(q, .opc = NVME_IDENTIFY, .nsid = nsid, .cdw10 = cdw10,
                                  .cdw11 = cdw11, .bytes = IDENTIFY_LEN));
}

/* What is optional: the case is skipped where it is refused. */
static const uint8_t *offered(struct queue *q, uint32_t cdw10, uint32_t nsid)
{
        struct reply r = ask(q, cdw10, nsid, 0);

        require(q->t, r.status == NVME_SUCCESS, "Identify with CNS %02Xh is not supported",
                cdw10 & 0xff);
        return r.data;
}

static bool lists(const uint8_t *list, uint32_t nsid)
{
        for (size_t i = 0; i < NSIDS; i++)
                if (le_get(list + i * 4, 4) == nsid)
                        return true;
        return false;
}

static bool is_zero(const uint8_t *bytes, size_t n)
{
        return bytes[0] == 0 && memcmp(bytes, bytes + 1, n - 1) == 0;
}

/* The active namespaces, as many as are looked at; their number. */
static unsigned active(struct queue *q, uint32_t nsids[LOOKED_AT])
{
        const uint8_t *list = identify(q, CNS_NS_LIST, 0);
        unsigned n = 0;

        while (n < LOOKED_AT && le_get(list + n * 4, 4)) {
                nsids[n] = (uint32_t)le_get(list + n * 4, 4);
                n++;
        }
        return n;
}

/* --- namespaces */

CASE("base/identify/list-complete", MUST, RULES(ID_NS_LIST),
     "The list of active namespaces has exactly the NSIDs whose Identify Namespace is not zero")
{
        uint32_t nn = le32_get(caps(t)->id.nn), mnan = le32_get(caps(t)->id.mnan), n = 0;
        struct queue *q = admin_queue(t);
        const uint8_t *list = identify(q, CNS_NS_LIST, 0);
        uint32_t now = le32_get(identify_ctrl(q)->nn);

        nn = now > nn ? now : nn; /* with a namespace that was added it may grow */
        for (; n < NSIDS && le_get(list + n * 4, 4); n++)
                want(t, le_get(list + n * 4, 4) <= nn, "NSIDs up to NN", "NSID %u, and NN %u",
                     (unsigned)le_get(list + n * 4, 4), nn);
        want(t, mnan == 0 || n <= mnan, "no more namespaces than MNAN", "%u, and MNAN %u", n, mnan);
        for (uint32_t nsid = 1; nsid <= nn && nsid <= MANY; nsid++) {
                const uint8_t *data = identify_optional(q, CNS_NS, nsid);
                bool listed;

                if (!data || lists(list, nsid) == !is_zero(data, IDENTIFY_LEN))
                        continue; /* NULL: of another command set, or out of reach */
                listed = lists(identify(q, CNS_NS_LIST, 0), nsid); /* or it has come or gone */
                data = identify(q, CNS_NS, nsid);
                want(t, listed == !is_zero(data, IDENTIFY_LEN), "a list of the active namespaces",
                     "NSID %u %s, and its data is%s zeroes", nsid,
                     listed ? "is listed" : "is missing",
                     is_zero(data, IDENTIFY_LEN) ? "" : " not");
        }
}

CASE("base/identify/list-beyond", MUST, RULES(ID_NS_LIST),
     "The list of namespaces above FFFFFFFEh, or above FFFFFFFFh, fails with Invalid Namespace or "
     "Format")
{
        struct queue *q = admin_queue(t);

        expect_error_since(q, SHALL,
                           send_cmd(q, .opc = NVME_IDENTIFY, .cdw10 = CNS_NS_LIST,
                                    .nsid = NSID_LAST, .bytes = IDENTIFY_LEN),
                           NVME_INVALID_NS);
        expect_error_since(q, SHALL,
                           send_cmd(q, .opc = NVME_IDENTIFY, .cdw10 = CNS_NS_LIST, .nsid = NSID_ALL,
                                    .bytes = IDENTIFY_LEN),
                           NVME_INVALID_NS);
}

CASE("base/identify/allocated", MUST, RULES(ID_NS_LIST),
     "The list of allocated namespaces rises, and has all that are active")
{
        struct queue *q = admin_queue(t);
        uint8_t list[IDENTIFY_LEN];
        uint32_t nsids[LOOKED_AT];
        unsigned n;

        memcpy(list, offered(q, CNS_ALLOCATED_NS_LIST, 0), sizeof(list));
        for (size_t i = 1; i < NSIDS && le_get(list + i * 4, 4); i++)
                want(t, le_get(list + i * 4, 4) > le_get(list + i * 4 - 4, 4), "NSIDs that rise",
                     "NSID %u after %u", (unsigned)le_get(list + i * 4, 4),
                     (unsigned)le_get(list + i * 4 - 4, 4));
        n = active(q, nsids);
        for (unsigned i = 0; i < n; i++)
                want(t, lists(list, nsids[i]), "each active namespace in the list",
                     "NSID %u missing", nsids[i]);
}

/* A block of this namespace; its status. */
static uint16_t try_read(struct queue *q, uint32_t nsid, uint64_t lba, uint32_t block)
{
        return finish(q, send_cmd(q, .opc = NVME_READ, .nsid = nsid, .cdw10 = (uint32_t)lba,
                                  .cdw11 = (uint32_t)(lba >> 32), .bytes = block, .as_is = true))
            .status;
}

/* A Read failed for what has nothing to do with the size of its namespace: somebody holds or formats it, it is not
 * ready, locked, out of reach or damaged; of its zone; or because the host has not enabled extended formats, one of which
 * it has (N1.2 4.1.3.6.1). */
static bool is_of_state(const struct t *t, uint16_t status)
{
        enum { ZONE_FIRST = 0x1b8, ZONE_LAST = 0x1bf };
        bool extended = le32_get(caps(t)->id.ctratt) & CTRATT_ELBAS;
        static const uint16_t states[] = { NVME_INTERNAL_ERROR,      NVME_SANITIZE_FAILED,
                                           NVME_SANITIZING,          NVME_INTERRUPTED,
                                           NVME_MEDIA_NOT_READY,     NVME_TRANSIENT_TRANSPORT,
                                           NVME_NS_NOT_READY,        NVME_FORMATTING,
                                           NVME_RESERVATION_CONFLICT };

        for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++)
                if (states[i] == status)
                        return true;
        return status >> 8 >= 2 || /* media, paths, vendors */
               (status >= ZONE_FIRST && status <= ZONE_LAST) ||
               (extended && status == NVME_INVALID_NS);
}

CASE("base/identify/capacity", MUST, RULES(ID_NS_SIZE),
     "Of each namespace the last block that NSZE tells can be read, and the one after it not")
{
        struct queue *q = io_queue(t);
        uint32_t nsids[LOOKED_AT];
        unsigned n = active(q->admin, nsids), compared = 0;

        for (unsigned i = 0; i < n && i < 8; i++) {
                const struct id_ns *ns = identify_optional(q->admin, CNS_NS, nsids[i]);
                uint64_t size = ns ? le64_get(ns->nsze) : 0; /* NULL: of another command set */
                unsigned shift, ms;
                uint16_t first, last;
                uint32_t block;

                if (size == 0)
                        continue;
                shift = ns->lbaf[id_ns_format(ns)].lbads;
                ms = id_ns_metadata(ns);
                block = (1u << (shift & 31)) + ms;
                if (shift < LBADS_MIN || shift > 16 || (ms && !(ns->flbas & 1 << 4)))
                        continue;
                first = try_read(q, nsids[i], 0, block);
                last = try_read(q, nsids[i], size - 1, block);
                if (is_of_state(t, first) || is_of_state(t, last))
                        continue;
                compared++;
                want_eq(t, "the status of a Read of the first block", first, NVME_SUCCESS);
                want_eq(t, "the status of a Read of the last block", last, NVME_SUCCESS);
                want(t, try_read(q, nsids[i], size, block) != NVME_SUCCESS,
                     "an error after the last block", "Success for block %" PRIu64 " of NSID %u",
                     size, nsids[i]);
        }
        require(t, compared, "no namespace can be read");
}

CASE("base/identify/descriptors-inactive", MUST, RULES(ID_DESCS_ACTIVE, ID_NS_LIST),
     "Namespace descriptors of an NSID without a namespace are refused")
{
        uint32_t absent = 1;
        struct queue *q = admin_queue(t);
        const uint8_t *list = identify(q, CNS_NS_LIST, 0);

        require(t, caps(t)->vs >= NVME_VERSION(1, 3, 0),
                "namespace descriptors were added in NVMe 1.3");
        while (lists(list, absent))
                absent++;
        require_inactive(q, ID_DESCS_ACTIVE, absent);
        expect_error(q,
                     send_cmd(q, .opc = NVME_IDENTIFY, .cdw10 = CNS_NS_DESCS, .nsid = absent,
                              .bytes = IDENTIFY_LEN),
                     NVME_INVALID_FIELD);
}

static const uint8_t *identifier(const uint8_t *list, uint8_t type, uint8_t *len)
{
        struct ns_id id;

        for (size_t at = 0; ns_desc_next(list, IDENTIFY_LEN, &at, &id);)
                if (id.type == type) {
                        *len = id.len;
                        return id.bytes;
                }
        return NULL;
}

CASE("base/identify/unique", MUST, RULES(ID_UNIQUE),
     "EUI64, NGUID and UUID of namespace descriptors are not zero, and those of two namespaces "
     "differ")
{
        static const uint8_t types[] = { NIDT_EUI64, NIDT_NGUID, NIDT_UUID };
        struct queue *q = admin_queue(t);
        uint32_t nsids[LOOKED_AT];
        unsigned n = active(q, nsids);
        const uint8_t *lists_of[LOOKED_AT];

        require(t, caps(t)->vs >= NVME_VERSION(1, 3, 0),
                "namespace descriptors were added in NVMe 1.3");
        for (unsigned i = 0; i < n; i++)
                lists_of[i] = identify(q, CNS_NS_DESCS, nsids[i]);
        for (unsigned i = 0; i < n * 3; i++) {
                uint8_t len = 0, len_other;
                const uint8_t *id = identifier(lists_of[i / 3], types[i % 3], &len), *other;

                if (!id)
                        continue;
                want(t, !is_zero(id, len), "an identifier",
                     "zeroes as identifier (type %u) of NSID %u", types[i % 3], nsids[i / 3]);
                for (unsigned k = 0; k < i / 3; k++) {
                        other = identifier(lists_of[k], types[i % 3], &len_other);
                        want(t, !other || len_other != len || memcmp(id, other, len) != 0,
                             "identifiers that differ", "the same one (type %u) for NSID %u and %u",
                             types[i % 3], nsids[k], nsids[i / 3]);
                }
        }
}

CASE("base/identify/ready", MUST, RULES(ID_NS_READY),
     "CNS 08h says that a namespace is ready which serves Reads")
{
        enum { NSTAT = 14 };
        struct queue *q = io_queue(t);
        const uint8_t *ns;

        require(t, caps(t)->nsid, "the subsystem has no namespace");
        require(t, caps(t)->vs >= NVME_VERSION(2, 0, 0), "CNS 08h was added in NVMe 2.0");
        read_blocks(q, 0, 0);
        ns = offered(q->admin, CNS_NS_INDEPENDENT, caps(t)->nsid);
        want_eq(t, "NRDY", ns[NSTAT] & 1, 1);
}

CASE("base/identify/shared", MUST, RULES(ID_NS_SHARED),
     "A namespace that two controllers have attached is not private (NMIC bit 0)")
{
        struct queue *q = admin_queue(t), *other = admin_queue(t);
        uint32_t nsid = caps(t)->nsid;

        require(t, nsid, "the subsystem has no namespace");
        require(t, q->cntlid != other->cntlid && lists(identify(other, CNS_NS_LIST, 0), nsid),
                "no other controller has the namespace");
        want_eq(t, "NMIC bit 0", ((const struct id_ns *)identify(q, CNS_NS, nsid))->nmic & 1, 1);
}

/* --- I/O command sets */

/* Nothing follows the first combination that is zero. */
static void want_ended(struct t *t, const uint8_t *sets)
{
        size_t end = 0;

        while (end < IDENTIFY_LEN && !is_zero(sets + end, 8))
                end += 8;
        want(t, end == IDENTIFY_LEN || is_zero(sets + end, IDENTIFY_LEN - end),
             "zeroes after the first combination that is zero", "more after combination %u",
             (unsigned)end / 8);
}

CASE("base/identify/iocs", MUST, RULES(ID_IOCS),
     "The NVM command set is in combination 0, and each of its namespaces in its list")
{
        struct queue *q = admin_queue(t);
        uint32_t nsids[LOOKED_AT];
        unsigned n = active(q, nsids);
        const uint8_t *sets, *list;

        require(t, caps(t)->cap & CAP_CSS_IOCSS || caps(t)->vs >= NVME_VERSION(2, 0, 0),
                "I/O command sets were added in NVMe 2.0");
        sets = offered(q, CNS_IOCS | (uint32_t)CNTLID_DYNAMIC << 16, 0);
        want_ended(t, sets);
        require(t, is_zero(sets + 8, 8), "there are several combinations");
        list = offered(q, CNS_IOCS_NS_LIST, 0);
        for (unsigned i = 0; i < n; i++) {
                uint8_t len = 0;
                const uint8_t *csi =
                    identifier(identify(q, CNS_NS_DESCS, nsids[i]), NIDT_CSI, &len);

                if (!csi || csi[0] != 0)
                        continue;
                want_eq(t, "bit 0 (NVM command set) of the combination", sets[0] & 1, 1);
                want(t, lists(list, nsids[i]), "each namespace of the NVM command set in its list",
                     "NSID %u missing", nsids[i]);
        }
}

/* --- controllers */

struct controllers {
        unsigned n;
        const uint8_t *ids;
};

static uint16_t id_at(const struct controllers *c, unsigned i)
{
        return (uint16_t)le_get(c->ids + i * 2, 2);
}

/* nsid 0: of the subsystem; else of those that have this namespace attached. */
static struct controllers controllers_of(struct queue *q, uint32_t nsid, uint16_t cntid)
{
        uint8_t cns = nsid ? CNS_NS_CTRL_LIST : CNS_CTRL_LIST;
        const uint8_t *list = offered(q, cns | (uint32_t)cntid << 16, nsid);
        struct controllers c = { (unsigned)le_get(list, 2), list + 2 };

        want(q->t, c.n <= IDENTIFY_LEN / 2 - 1, "at most 2,047 identifiers", "%u", c.n);
        for (unsigned i = 0; i < c.n; i++)
                want(q->t, id_at(&c, i) >= cntid && (i == 0 || id_at(&c, i) > id_at(&c, i - 1)),
                     "identifiers that rise from the given one", "%04Xh at place %u (from %04Xh)",
                     id_at(&c, i), i, cntid);
        for (unsigned i = c.n; i < IDENTIFY_LEN / 2 - 1; i++)
                want(q->t, id_at(&c, i) == 0, "zeroes after the end of the list", "%04Xh",
                     id_at(&c, i));
        return c;
}

static struct controllers controllers_from(struct queue *q, uint16_t cntid)
{
        return controllers_of(q, 0, cntid);
}

static bool has_id(const struct controllers *c, uint16_t cntlid)
{
        for (unsigned i = 0; i < c->n; i++)
                if (id_at(c, i) == cntlid)
                        return true;
        return false;
}

CASE("base/identify/controllers", MUST, RULES(ID_CTRL_LIST),
     "The Controller List rises from the given identifier on, and has the controller itself")
{
        struct queue *q = admin_queue(t), *other = admin_queue(t);
        uint16_t high = other->cntlid > q->cntlid ? other->cntlid : q->cntlid;
        struct controllers c = controllers_from(q, 0);

        require(t, q->cntlid != other->cntlid, "the two controllers have one identifier");
        want(t, has_id(&c, q->cntlid), "the controller itself", "%u others", c.n);
        want(t, has_id(&c, other->cntlid), "the other controller of the subsystem", "%u others",
             c.n);
        c = controllers_from(q, high);
        want(t, has_id(&c, high), "a list that begins with the given identifier", "%u others", c.n);
}

CASE("base/identify/namespace-controllers", MUST, RULES(ID_CTRL_LIST),
     "The list of controllers that have a namespace attached rises, and has the controller itself")
{
        struct queue *q = admin_queue(t);
        struct controllers c;

        require(t, caps(t)->nsid, "the subsystem has no namespace");
        c = controllers_of(q, caps(t)->nsid, 0);
        want(t, has_id(&c, q->cntlid), "the controller itself", "%u others", c.n);
        c = controllers_of(q, caps(t)->nsid, q->cntlid);
        want(t, has_id(&c, q->cntlid), "a list that begins with the given identifier", "%u others",
             c.n);
}

CASE("base/identify/attached-controllers", MUST, RULES(ID_NS_CTRL_LIST),
     "The list of controllers that have a namespace attached is refused for NSID FFFFFFFFh")
{
        struct queue *q = admin_queue(t);

        require(t, caps(t)->nsid, "the subsystem has no namespace");
        offered(q, CNS_NS_CTRL_LIST, caps(t)->nsid);
        expect_error_since(q, SHALL,
                           send_cmd(q, .opc = NVME_IDENTIFY, .cdw10 = CNS_NS_CTRL_LIST,
                                    .nsid = NSID_ALL, .bytes = IDENTIFY_LEN),
                           NVME_INVALID_FIELD);
}

CASE("base/identify/descriptors-end", SHOULD, RULES(ID_DESCS_END),
     "The bytes after the last namespace descriptor are 0")
{
        struct queue *q = admin_queue(t);
        const uint8_t *list;
        struct ns_id id;
        size_t at = 0;

        require(t, caps(t)->nsid, "the subsystem has no namespace");
        require(t, caps(t)->vs >= NVME_VERSION(1, 3, 0),
                "namespace descriptors were added in NVMe 1.3");
        list = identify(q, CNS_NS_DESCS, caps(t)->nsid);
        while (ns_desc_next(list, IDENTIFY_LEN, &at, &id))
                ;
        want(t, is_zero(list + at, IDENTIFY_LEN - at), "zeroes after the last descriptor",
             "others from byte %zu on", at);
}

CASE("base/identify/uuid-list", MUST, RULES(ID_UUIDS),
     "The UUID List begins with a UUID, and has none after the first that is 0")
{
        enum { ULIST = 1 << 9, ENTRY = 32, UUID = 16, LAST = 127 };
        struct queue *q = admin_queue(t);
        const uint8_t *list;
        unsigned n = 1;

        require(t, le32_get(caps(t)->id.ctratt) & ULIST, "CTRATT announces no UUID List");
        list = identify(q, 0x17, 0);
        while (n <= LAST && !is_zero(list + n * ENTRY + UUID, 16))
                n++;
        want(t, n > 1, "a UUID 1 that is not 0", "0");
        want(t, n <= LAST, "a UUID 127 of 0", "another one");
        for (unsigned i = n; i <= LAST; i++)
                want(t, is_zero(list + i * ENTRY + UUID, 16), "no UUID after the first that is 0",
                     "UUID %u", i);
}

CASE("base/identify/command-sets-announced", MUST, RULES(ID_IOCSS),
     "A controller with another I/O command set than NVM says so in CAP.CSS (bit 43)")
{
        enum { COMBINATIONS = 512, NVM_ALONE = 1 };
        struct queue *q = admin_queue(t);
        struct reply r = finish(q, send_cmd(q, .opc = NVME_IDENTIFY,
                                            .cdw10 = CNS_IOCS | (uint32_t)q->cntlid << 16,
                                            .bytes = IDENTIFY_LEN));

        require(t, r.status == NVME_SUCCESS, "there is no list of I/O command sets (CNS 1Ch)");
        for (unsigned i = 0; i < COMBINATIONS; i++) {
                uint64_t sets = le_get(r.data + i * 8, 8);

                want(t, !(sets & ~(uint64_t)NVM_ALONE) || caps(t)->cap & CAP_CSS_IOCSS,
                     "the NVM command set alone, as CAP bit 43 is 0", "combination %u", i);
        }
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * NVMe Base 3.2.1.4, 3.2.1.5: a namespace that is there and attached to other hosts' controllers alone. To ours
 * its NSID is an inactive one. Nothing is ever written to it.
 */
#include <string.h>

#include "conformance/words/case.h"
#include "pdu/nvme/wire/identify.h"

enum { NSIDS = IDENTIFY_LEN / 4, SILENCE_MS = 150 };

static uint32_t masked(struct t *t)
{
        require(t, caps(t)->masked_nsid,
                "no namespace is known that our host is not shown (--masked-nsid)");
        return caps(t)->masked_nsid;
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

static struct reply ask(struct queue *q, uint8_t cns, uint32_t nsid)
{
        return finish(q, send_cmd(q, .opc = NVME_IDENTIFY, .cdw10 = cns, .nsid = nsid,
                                  .bytes = IDENTIFY_LEN));
}

/* Where the target tells of allocated namespaces, it has to be one of them. */
static struct queue *require_allocated(struct queue *q)
{
        uint32_t nsid = masked(q->t);
        struct reply r = ask(q, CNS_ALLOCATED_NS_LIST, nsid - 1);

        require(q->t, r.status != NVME_SUCCESS || lists(r.data, nsid),
                "there is no namespace %u (--masked-nsid)", nsid);
        return q;
}

static struct queue *masked_admin(struct t *t)
{
        masked(t);
        return require_allocated(caps(t)->masked ? admin_queue(t, .subnqn = caps(t)->masked)
                                                 : admin_queue(t));
}

static struct queue *masked_io(struct t *t)
{
        struct queue *q;

        masked(t);
        q = caps(t)->masked ? io_queue(t, .subnqn = caps(t)->masked) : io_queue(t);
        require_allocated(q->admin);
        return q;
}

CASE("base/namespace/masked-list", MUST, RULES(ID_NS_LIST),
     "The lists of active namespaces (CNS 02h, 07h) do not have one that is attached to other "
     "hosts alone")
{
        static const uint8_t lists_of[] = { CNS_NS_LIST, CNS_IOCS_NS_LIST };
        struct queue *q = masked_admin(t);

        for (size_t i = 0; i < sizeof(lists_of); i++) {
                struct reply r = ask(q, lists_of[i], masked(t) - 1);

                want(t, r.status != NVME_SUCCESS || !lists(r.data, masked(t)),
                     "a list of attached namespaces", "NSID %u in that of CNS %02Xh", masked(t),
                     lists_of[i]);
        }
}

CASE("base/namespace/masked-data", MUST, RULES(ID_NS_ABSENT),
     "Identify (CNS 00h, 05h, 08h) shows zeroes of a namespace that is attached to other hosts "
     "alone")
{
        static const uint8_t shown[] = { CNS_NS, CNS_IOCS_NS, CNS_NS_INDEPENDENT };
        struct queue *q = masked_admin(t);

        for (size_t i = 0; i < sizeof(shown); i++) {
                struct reply r = ask(q, shown[i], masked(t));

                want(t, r.status != NVME_SUCCESS || is_zero(r.data, IDENTIFY_LEN), "zeroes",
                     "other data of NSID %u (CNS %02Xh)", masked(t), shown[i]);
        }
}

CASE("base/namespace/masked-descriptors", MUST, RULES(ID_DESCS_ACTIVE),
     "Namespace descriptors of a namespace that is attached to other hosts alone are refused")
{
        struct queue *q = masked_admin(t);

        require(t, caps(t)->vs >= NVME_VERSION(1, 3, 0),
                "namespace descriptors were added in NVMe 1.3");
        expect_error(q,
                     send_cmd(q, .opc = NVME_IDENTIFY, .cdw10 = CNS_NS_DESCS, .nsid = masked(t),
                              .bytes = IDENTIFY_LEN),
                     NVME_INVALID_FIELD);
}

/* Bytes of a block, as another namespace of the subsystem has it. */
static uint32_t block_beside(struct queue *q)
{
        uint32_t nsid = (uint32_t)le_get(identify(q, CNS_NS_LIST, 0), 4);
        uint32_t block = nsid ? id_ns_block_size(identify(q, CNS_NS, nsid)) : 512;

        return block && block <= KIB(64) ? block : 512;
}

CASE("base/namespace/masked-io", MUST, RULES(NS_UNATTACHED),
     "Read and Flush of a namespace that is attached to other hosts alone fail with Invalid Field")
{
        struct queue *q = masked_io(t);
        uint32_t block = block_beside(q->admin);

        expect_error(
            q, send_cmd(q, .opc = NVME_READ, .nsid = masked(t), .bytes = block, .as_is = true),
            NVME_INVALID_FIELD);
        expect_error(q, send_cmd(q, .opc = NVME_FLUSH, .nsid = masked(t)), NVME_INVALID_FIELD);
}

CASE("base/namespace/masked-event", SHOULD, RULES(NS_EVENT_OTHERS),
     "A change of a namespace that is attached to other hosts alone is neither reported nor listed",
     .changes = true)
{
        struct queue *q = masked_admin(t);

        require(t, le32_get(identify_ctrl(q)->oaes) & OAES_NS,
                "OAES does not announce Namespace Attribute Notices");
        succeed(q, send_set_feature(q, FEAT_AEC, AEC_NS));
        take_changed(q);
        send_cmd(q, .opc = NVME_AER);
        change(t, CHANGE_MASKED);
        expect_silence(q, SILENCE_MS);
        want(t, !lists((const uint8_t *)take_changed(q), masked(t)),
             "a list of attached namespaces that have changed", "NSID %u in it", masked(t));
}

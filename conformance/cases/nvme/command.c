/* SPDX-License-Identifier: BSD-3-Clause */
/* NVMe Base 6 (FCTYPE), 6.4 (Disconnect), 6.5 and 6.6 (properties). */
#include "conformance/words/case.h"

#define NEEDS_DISCONNECT                                                                           \
        require(t, le16_get(caps(t)->id.ofcs) & OFCS_DISCONNECT, "Disconnect is not supported")

static struct queue *deletable(struct t *t)
{
        return io_queue_of(admin_queue(t, .cattr = CATTR_INDIVIDUAL_DELETE));
}

CASE("fab/command/fctype", MUST, RULES(FAB_FCTYPE),
     "A reserved FCTYPE on the admin queue is refused")
{
        struct queue *q = admin_queue(t);

        expect_refusal(q, send_cmd(q, .opc = NVME_FABRICS, .fctype = 0x20));
        expect_works(q);
}

CASE("fab/command/fctype-io", MUST, RULES(FAB_FCTYPE),
     "A reserved FCTYPE on an I/O queue is refused")
{
        struct queue *q = io_queue(t);

        expect_refusal(q, send_cmd(q, .opc = NVME_FABRICS, .fctype = 0x40));
        expect_works(q);
}

/* --- Disconnect */

CASE("fab/disconnect/admin", MUST, RULES(FAB_DISCONNECT_ADMIN),
     "Disconnect on the admin queue is refused, and the association continues")
{
        struct queue *q = admin_queue(t);

        expect_refusal(q, send_disconnect(q, 0));
        expect_works(q);
}

CASE("fab/disconnect/recfmt", MUST, RULES(FAB_DISCONNECT_RECFMT),
     "Disconnect with RECFMT 1 is refused")
{
        struct queue *q = deletable(t);

        expect_refusal(q, send_disconnect(q, 1));
}

CASE("fab/disconnect/last-response", MUST, RULES(FAB_DISCONNECT_LAST),
     "After the response to Disconnect the queue returns no further response")
{
        struct queue *q = deletable(t);

        NEEDS_DISCONNECT;
        expect_success(q, send_disconnect(q, 0));
        send_cmd(q, .opc = NVME_FLUSH, .nsid = caps(t)->nsid);
        pause_ms(t, 50);
        expect_works(q->admin);
}

CASE("fab/disconnect/again", MUST, RULES(FAB_ANSWERED),
     "After Disconnect the same QID can be connected again in the same association")
{
        struct queue *q = deletable(t);

        NEEDS_DISCONNECT;
        expect_success(q, send_disconnect(q, 0));
        hang_up(q);
        pause_ms(t, 50);
        expect_works(io_queue_of(q->admin));
        expect_works(q->admin);
}

/* --- properties */

CASE("fab/property/supported", MUST, RULES(FAB_ANSWERED), "CAP, VS, CC and CSTS can be read")
{
        static const uint32_t offsets[] = { PROP_CAP, PROP_VS, PROP_CC, PROP_CSTS };
        struct queue *q = admin_queue(t);

        for (int i = 0; i < 4; i++)
                property_get(q, offsets[i]);
}

CASE("fab/property/offset", MUST, RULES(FAB_PROP_OFFSET),
     "Property Get of INTMS, of AQA or at an offset far beyond all properties is refused")
{
        static const uint32_t offsets[] = { 0x0c, 0x24, 0xfffffffc };
        struct queue *q = admin_queue(t);

        for (int i = 0; i < 3; i++)
                expect_refusal(q, send_property_get(q, offsets[i], PROP_ATTRIB_4));
        expect_works(q);
}

CASE("fab/property/offset-within", MUST, RULES(FAB_PROP_OFFSET),
     "Property Get from the middle of a property is refused")
{
        struct queue *q = admin_queue(t);

        expect_refusal(q, send_property_get(q, PROP_CAP + 4, PROP_ATTRIB_4));
        expect_refusal(q, send_property_get(q, PROP_VS + 2, PROP_ATTRIB_4));
}

/* 3.1.4 binds the host to the width; 6.5 refuses but a property or offset that is none. */
CASE("fab/property/size", SHOULD, RULES(FAB_PROP_SIZE),
     "Property Get of 4 bytes of CAP, or of 8 of VS, is refused")
{
        struct queue *q = admin_queue(t);

        expect_refusal(q, send_property_get(q, PROP_CAP, PROP_ATTRIB_4));
        expect_refusal(q, send_property_get(q, PROP_VS, PROP_ATTRIB_8));
}

CASE("fab/property/size-reserved", SHOULD, RULES(FAB_PROP_SIZE),
     "Property Get with a reserved size is refused")
{
        struct queue *q = admin_queue(t);

        expect_refusal(q, send_property_get(q, PROP_VS, 2));
        expect_refusal(q, send_property_get(q, PROP_CAP, 7));
}

CASE("fab/property/get-io-queue", MUST, RULES(FAB_PROP_QUEUE),
     "Property Get on an I/O queue is refused")
{
        struct queue *q = io_queue(t);

        expect_refusal(q, send_property_get(q, PROP_VS, PROP_ATTRIB_4));
        expect_works(q);
}

CASE("fab/property/set-io-queue", MUST, RULES(FAB_PROP_QUEUE),
     "Property Set on an I/O queue is refused")
{
        struct queue *q = io_queue(t);

        expect_refusal(q, send_property_set(q, PROP_CC, PROP_ATTRIB_4, 0));
        expect_works(q->admin);
}

CASE("fab/property/read-only", MUST, RULES(FAB_PROP_RO), "Property Set of VS or CSTS is refused")
{
        struct queue *q = admin_queue(t);

        expect_refusal(q, send_property_set(q, PROP_VS, PROP_ATTRIB_4, 0));
        expect_refusal(q, send_property_set(q, PROP_CSTS, PROP_ATTRIB_4, 0));
        want_eq(t, "VS", property_get(q, PROP_VS), caps(t)->vs);
}

CASE("fab/property/read-only-cap", MUST, RULES(FAB_PROP_RO), "Property Set of CAP is refused")
{
        struct queue *q = admin_queue(t);

        expect_refusal(q, send_property_set(q, PROP_CAP, PROP_ATTRIB_8, 0));
        want_eq(t, "CAP", property_get(q, PROP_CAP), caps(t)->cap);
}

CASE("fab/property/set-offset", MUST, RULES(FAB_PROP_OFFSET), "Property Set of ASQ is refused")
{
        struct queue *q = admin_queue(t);

        expect_refusal(q, send_property_set(q, 0x28, PROP_ATTRIB_8, 0));
        expect_works(q);
}

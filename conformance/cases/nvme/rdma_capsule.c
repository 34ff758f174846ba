/* SPDX-License-Identifier: BSD-3-Clause */
/* NVMe/RDMA 3.3: command capsules, and data in them. */
#include <string.h>

#include "conformance/words/case_rdma.h"

#define NEEDS_ICD(bytes)                                                                           \
        require(t, caps(t)->in_capsule >= (bytes), "capsules have %u bytes of data",               \
                caps(t)->in_capsule)

/* Bytes of a capsule with n bytes of data. */
static uint32_t capsule_of(struct t *t, uint32_t n)
{
        return 64 + caps(t)->icdoff * 16u + n;
}

/* A Write of one block that describes its data so; the capsule has `held` bytes of it. */
static uint16_t write_described(struct queue *q, struct sgl sgl, uint32_t held)
{
        struct t *t = q->t;

        return send_write(q, .sgl = HAND(sgl, .behind = pattern(t, held), .len = held,
                                         .capsule = capsule_of(t, held)));
}

/* --- length */

CASE("rdma/capsule/empty", MUST, RULES(RDMA_CMD_SHORT), "A SEND of 0 bytes ends the connection")
{
        struct queue *q = admin_queue(t);

        send_capsule(q, NULL, 0);
        expect_refusal(q, 0);
}

CASE("rdma/capsule/1-byte", MUST, RULES(RDMA_CMD_SHORT), "A SEND of 1 byte ends the connection")
{
        struct queue *q = admin_queue(t);

        send_capsule(q, "\x02", 1);
        expect_refusal(q, 0);
}

CASE("rdma/capsule/16-bytes", MUST, RULES(RDMA_CMD_SHORT),
     "A capsule that ends before the SGL is refused or ends the connection")
{
        struct queue *q = admin_queue(t);

        expect_refusal(q, send_sized(q, NVME_KEEP_ALIVE, 16));
}

CASE("rdma/capsule/63-bytes", MUST, RULES(RDMA_CMD_SHORT),
     "A capsule of 63 bytes on the admin queue is refused or ends the connection")
{
        struct queue *q = admin_queue(t);

        expect_refusal(q, send_sized(q, NVME_KEEP_ALIVE, 63));
}

CASE("rdma/capsule/63-bytes-io", MUST, RULES(RDMA_CMD_SHORT),
     "A capsule of 63 bytes on an I/O queue is refused or ends the connection")
{
        struct queue *q = io_queue(t), *other = admin_queue(t);

        expect_refusal(q, send_sized(q, NVME_FLUSH, 63));
        expect_works(other);
}

CASE("rdma/capsule/short-first", MUST, RULES(RDMA_CMD_SHORT),
     "A short capsule in place of Connect ends the connection")
{
        struct queue *q = bare_queue(t);

        send_capsule(q, "not even an SQE.", 16);
        expect_refusal(q, 0);
}

/* It is the host that R1.0 3.3 binds: who has room for more may pass it over. */
CASE("rdma/capsule/65-bytes", MUST, RULES(RDMA_CMD_LONG),
     "A capsule of 65 bytes on the admin queue is refused or ends the connection")
{
        struct queue *q = admin_queue(t);

        prefer_refusal(q, send_sized(q, NVME_KEEP_ALIVE, 65));
}

CASE("rdma/capsule/long-admin", MUST, RULES(RDMA_CMD_LONG),
     "A capsule of 8 KiB on the admin queue is refused or ends the connection")
{
        struct queue *q = admin_queue(t);

        prefer_refusal(q, send_sized(q, NVME_KEEP_ALIVE, KIB(8)));
}

CASE("rdma/capsule/long-io", MUST, RULES(RDMA_CMD_LONG),
     "A capsule one byte longer than IOCCSZ allows is refused or ends the connection")
{
        struct queue *q = io_queue(t);
        uint32_t most = caps(t)->in_capsule > 0 ? capsule_of(t, caps(t)->in_capsule) : 64;

        prefer_refusal(q, send_sized(q, NVME_FLUSH, most + 1));
}

CASE("rdma/capsule/long-io-twice", MUST, RULES(RDMA_CMD_LONG),
     "A capsule twice as long as IOCCSZ allows is refused or ends the connection")
{
        struct queue *q = io_queue(t), *other = admin_queue(t);

        prefer_refusal(q, send_sized(q, NVME_FLUSH, 2 * capsule_of(t, caps(t)->in_capsule)));
        expect_works(other);
}

CASE("rdma/capsule/after-long", MUST, RULES(FAB_ANSWERED),
     "After a connection that sent a capsule too long, another connection of the host works",
     .writes = true)
{
        struct queue *q = io_queue(t), *other = io_queue(t);

        send_sized(q, NVME_FLUSH, 2 * capsule_of(t, caps(t)->in_capsule));
        exercise(other);
}

/* --- CIDs */

/* How many commands are searched for it is the controller's affair (B2.2 4.2.3.1, Command ID Conflict). */
CASE("rdma/capsule/cid", INFO, RULES(RDMA_CMD_CID),
     "A command with the CID of an outstanding command is refused or ends the connection")
{
        struct queue *q = admin_queue(t);
        uint16_t cid = send_cmd(q, .opc = NVME_AER);

        send_cmd(q, .opc = NVME_IDENTIFY, .cdw10 = CNS_CTRL, .cid = cid, .bytes = IDENTIFY_LEN);
        expect_refusal(q, cid);
}

CASE("rdma/response/cid", MUST, RULES(RDMA_RSP_CID, RDMA_RSP_LENGTH, FAB_ANSWERED),
     "Responses have 16 bytes and the CID of their command, even CID FFFFh", .writes = true)
{
        struct queue *q = io_queue(t);

        exercise(q);
        expect_success(q, send_cmd(q, .opc = NVME_FLUSH, .nsid = caps(t)->nsid, .cid = 0xffff));
        expect_success(q, send_cmd(q, .opc = NVME_FLUSH, .nsid = caps(t)->nsid, .cid = 0));
}

CASE("rdma/response/length", MUST, RULES(RDMA_RSP_LENGTH), "A response capsule has 16 bytes",
     .writes = true)
{
        struct queue *q = io_queue(t);

        exercise(q);
        exercise(q->admin);
}

CASE("rdma/response/reserved", SHOULD, RULES(RDMA_RSP_RSVD),
     "SQID and the phase bit of a response are 0", .writes = true)
{
        struct queue *q = io_queue(t);

        exercise(q);
        exercise(q->admin);
}

CASE("rdma/sgl/no-data", MUST, NO_RULE, "The SGL of a command that transfers no data is ignored")
{
        struct queue *q = io_queue(t);

        require(t, caps(t)->nsid, "no namespace for Flush");
        succeed(q, send_cmd(q, .opc = NVME_FLUSH, .nsid = caps(t)->nsid));
        expect_answer(q, send_cmd(q, .opc = NVME_FLUSH, .nsid = caps(t)->nsid,
                                  .sgl = HAND(in_capsule(UINT64_MAX, 0xffffffff))));
}

/* --- what Identify says of capsules */

CASE("rdma/identify/sgls", MUST, RULES(RDMA_SGLS),
     "SGLS reports SGL support without alignment (01b) and keyed descriptors (bit 2)")
{
        uint32_t sgls = le32_get(identify_ctrl(admin_queue(t))->sgls);

        want_eq(t, "SGLS bits 1:0", sgls & 3, 1);
        want(t, sgls & 4, "SGLS bit 2 set", "%Xh", sgls);
}

CASE("rdma/identify/icdoff", MUST, RULES(RDMA_ICDOFF),
     "IOCCSZ covers the SQE and, where in-capsule data is supported, ICDOFF")
{
        const struct id_ctrl *id = identify_ctrl(admin_queue(t));
        uint32_t ioccsz = le32_get(id->ioccsz), icdoff = le16_get(id->icdoff);

        want(t, ioccsz >= 4, "IOCCSZ at least 4", "%u", ioccsz);
        want(t, ioccsz == 4 || ioccsz >= 4 + icdoff, "IOCCSZ at least 4 + ICDOFF",
             "IOCCSZ %u, "
             "ICDOFF %u",
             ioccsz, icdoff);
}

/* --- data in the capsule */

CASE("rdma/in-capsule/write", MUST, NO_RULE, "A Write with in-capsule data succeeds",
     .writes = true)
{
        struct queue *q = io_queue(t);
        const void *data = pattern(t, caps(t)->block);

        NEEDS_ICD(caps(t)->block);
        succeed(q, send_write(q, .in_capsule = true));
        want_data(t, "what was written", read_blocks(q, 0, 0), data, caps(t)->block);
}

CASE("rdma/in-capsule/most", MUST, NO_RULE,
     "A Write whose in-capsule data fills the capsule to the last byte succeeds", .writes = true)
{
        struct queue *q = io_queue(t);
        uint32_t n = caps(t)->in_capsule;

        require(t, caps(t)->nsid && n >= caps(t)->block, "no block fits in a capsule");
        n = n / caps(t)->block * caps(t)->block;
        succeed(q, send_write(q, .bytes = n, .in_capsule = true));
        want_data(t, "what was written", read_blocks(q, 0, n), pattern(t, n), n);
}

CASE("rdma/in-capsule/after-command", MUST, NO_RULE,
     "A Write with in-capsule data at a nonzero offset uses the data at that offset",
     .writes = true)
{
        struct queue *q = io_queue(t);
        uint32_t n = caps(t)->block;
        const uint8_t *data = pattern(t, n + 512);

        NEEDS_ICD(n + 512);
        succeed(q, write_described(q, in_capsule(512, n), n + 512));
        want_data(t, "what was written", read_blocks(q, 0, 0), data + 512, n);
}

CASE("rdma/in-capsule/odd-offset", MUST, NO_RULE,
     "A Write with in-capsule data at an unaligned offset uses the data there or is refused",
     .writes = true)
{
        struct queue *q = io_queue(t);
        uint32_t n = caps(t)->block;
        const uint8_t *data = pattern(t, n + 3);
        uint16_t status;

        NEEDS_ICD(n + 3);
        status = expect_answer(q, write_described(q, in_capsule(3, n), n + 3)).status;
        if (!q->over && status == NVME_SUCCESS)
                want_data(t, "what was written", read_blocks(q, 0, 0), data + 3, n);
}

CASE("rdma/in-capsule/unused", MUST, NO_RULE,
     "In-capsule bytes that no descriptor names are ignored", .writes = true)
{
        struct queue *q = io_queue(t);
        uint32_t n = caps(t)->block;

        NEEDS_ICD(2 * n);
        succeed(q, write_described(q, in_capsule(0, n), 2 * n));
        want_data(t, "what was written", read_blocks(q, 0, 0), pattern(t, n), n);
}

CASE("rdma/in-capsule/connect", INFO, NO_RULE,
     "Connect of an I/O queue with in-capsule data, as Linux sends it, is accepted")
{
        struct queue *q = join(admin_queue(t));

        NEEDS_ICD(CONNECT_DATA_LEN);
        expect_connected(q, send_connect(q, .in_capsule = true));
        expect_works(q);
}

/* --- ... and in none */

CASE("rdma/in-capsule/offset-end", MUST, RULES(RDMA_ICD_OFFSET),
     "In-capsule data that starts at the end of the capsule is refused", .writes = true)
{
        struct queue *q = io_queue(t);
        uint32_t n = caps(t)->block;

        NEEDS_ICD(n);
        expect_refusal(q, write_described(q, in_capsule(n, n), n));
        expect_works(q);
}

CASE("rdma/in-capsule/offset-beyond", MUST, RULES(RDMA_ICD_OFFSET),
     "In-capsule data far beyond the end of the capsule is refused", .writes = true)
{
        struct queue *q = io_queue(t);
        uint32_t n = caps(t)->block;

        NEEDS_ICD(n);
        expect_refusal(q, write_described(q, in_capsule(1 << 20, n), n));
        expect_works(q);
}

CASE("rdma/in-capsule/offset-max", MUST, RULES(RDMA_ICD_OFFSET),
     "In-capsule data at offset FFFFFFFFFFFFFFFFh is refused", .writes = true)
{
        struct queue *q = io_queue(t);
        uint32_t n = caps(t)->block;

        NEEDS_ICD(n);
        expect_refusal(q, write_described(q, in_capsule(UINT64_MAX, n), n));
        expect_works(q);
}

CASE("rdma/in-capsule/offset-wraps", MUST, RULES(RDMA_ICD_OFFSET),
     "In-capsule data whose offset plus length overflows 64 bits is refused", .writes = true,
     .related = "nvmet-rdma 0d5ee2b2ab4f")
{
        struct queue *q = io_queue(t);
        uint32_t n = caps(t)->block;

        NEEDS_ICD(n);
        expect_refusal(q, write_described(q, in_capsule(-(uint64_t)n, n), n));
        expect_works(q);
}

CASE("rdma/in-capsule/offset-32-bits", MUST, RULES(RDMA_ICD_OFFSET),
     "In-capsule data at offset 100000000h is refused, as offsets have 64 bits", .writes = true)
{
        struct queue *q = io_queue(t);
        uint32_t n = caps(t)->block;

        NEEDS_ICD(n);
        expect_refusal(q, write_described(q, in_capsule(UINT64_C(1) << 32, n), n));
        expect_works(q);
}

CASE("rdma/in-capsule/length", MUST, RULES(RDMA_ICD_LENGTH),
     "In-capsule data longer than what the capsule holds is refused", .writes = true)
{
        struct queue *q = io_queue(t);
        uint32_t n = caps(t)->block;

        NEEDS_ICD(n);
        expect_refusal(q, write_described(q, in_capsule(0, n), n - 16));
        expect_works(q);
}

CASE("rdma/in-capsule/length-none", MUST, RULES(RDMA_ICD_LENGTH, RDMA_ICD_OFFSET),
     "A descriptor of in-capsule data in a capsule that carries none is refused", .writes = true)
{
        struct queue *q = io_queue(t);

        NEEDS_ICD(caps(t)->block);
        expect_refusal(q, write_described(q, in_capsule(0, caps(t)->block), 0));
        expect_works(q);
}

CASE("rdma/in-capsule/length-max", MUST, RULES(RDMA_ICD_LENGTH),
     "In-capsule data of FFFFFFFFh bytes is refused", .writes = true)
{
        struct queue *q = io_queue(t);
        uint32_t n = caps(t)->block;

        NEEDS_ICD(n);
        expect_refusal(q, write_described(q, in_capsule(0, 0xffffffff), n));
        expect_works(q);
}

CASE("rdma/in-capsule/reaches-out", MUST, RULES(RDMA_ICD_LENGTH),
     "In-capsule data that starts within the capsule and ends one byte beyond it is refused",
     .writes = true)
{
        struct queue *q = io_queue(t);
        uint32_t n = caps(t)->block;

        NEEDS_ICD(n);
        expect_refusal(q, write_described(q, in_capsule(1, n), n));
        expect_works(q);
}

CASE("rdma/in-capsule/beyond-ioccsz", MUST, RULES(RDMA_ICD_LENGTH),
     "In-capsule data longer than IOCCSZ allows is refused", .writes = true)
{
        struct queue *q = io_queue(t);
        uint32_t n = caps(t)->in_capsule;

        NEEDS_ICD(caps(t)->block);
        expect_refusal(q, write_described(q, in_capsule(0, n + caps(t)->block), n));
        expect_works(q);
}

CASE("rdma/in-capsule/admin", MUST, RULES(RDMA_ICD_ADMIN),
     "An admin command that describes its data as in-capsule data is refused")
{
        struct queue *q = admin_queue(t);

        expect_refusal(q, send_cmd(q, .opc = NVME_GET_LOG_PAGE, .nsid = 0xffffffff,
                                   .cdw10 = LOG_SMART | 127u << 16, .bytes = 512,
                                   .sgl = HAND(in_capsule(0, 512), .capsule = 64)));
        expect_works(q);
}

CASE("rdma/in-capsule/admin-identify", MUST, RULES(RDMA_ICD_ADMIN),
     "Identify that describes its data as in-capsule data is refused")
{
        struct queue *q = admin_queue(t);

        expect_refusal(q,
                       send_cmd(q, .opc = NVME_IDENTIFY, .cdw10 = CNS_CTRL, .bytes = IDENTIFY_LEN,
                                .sgl = HAND(in_capsule(0, IDENTIFY_LEN), .capsule = 64)));
        expect_works(q);
}

CASE("rdma/in-capsule/admin-sent", MUST, NO_RULE,
     "An admin command with 16 bytes after the SQE is refused or ends the connection")
{
        struct queue *q = admin_queue(t);

        prefer_refusal(q, send_cmd(q, .opc = NVME_SET_FEATURES, .cdw10 = FEAT_HOSTID, .bytes = 16,
                                   .sgl = HAND(in_capsule(0, 16), .capsule = 80)));
}

CASE("rdma/in-capsule/admin-connect", MUST, RULES(RDMA_ICD_ADMIN),
     "Connect of an admin queue with in-capsule data is refused or ends the connection")
{
        struct queue *q = bare_queue(t);
        struct connect_data d = connect_data(q);

        prefer_refusal(q, send_connect(q, .sgl = HAND(in_capsule(0, sizeof(d)), .behind = &d,
                                                      .len = sizeof(d))));
}

CASE("rdma/in-capsule/read", MUST, RULES(RDMA_ICD_DIR),
     "A Read that describes its data as in-capsule data is refused")
{
        struct queue *q = io_queue(t);
        uint32_t n = caps(t)->block;

        NEEDS_ICD(n);
        expect_refusal(q, send_read(q, .sgl = HAND(in_capsule(0, n), .capsule = capsule_of(t, n))));
        expect_works(q);
}

CASE("rdma/in-capsule/read-short", MUST, RULES(RDMA_ICD_DIR),
     "A Read that describes in-capsule data in a capsule that carries none is refused")
{
        struct queue *q = io_queue(t);

        NEEDS_ICD(caps(t)->block);
        expect_refusal(q, send_read(q, .sgl = HAND(in_capsule(0, caps(t)->block), .capsule = 64)));
        expect_works(q);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Responses of SRP targets: residuals, status and sense data, solicited notification. */
#include "conformance/srp/srp_words.h"

/* --- what is in each ------------------------------------------------------------------------------ */

/* Of an operation code that no disk has. */
static struct answer failed(struct chan *c)
{
        return run_order(order_of(c, SCSI_NOBODYS, 0, 0, 0, 0, 0));
}

#define FAILS(name, rule, level, says)                                                             \
        CASE("srp/response/" name, level, RULES(rule), says)                                       \
        {                                                                                          \
                struct chan *c = ready_channel(t);                                                 \
                struct answer a = failed(c);                                                       \
                                                                                                   \
                expect_no_success(c, &a);                                                          \
        }

FAILS("parts", SRP_RSP_PARTS, MUST, "Sense data lies within its response")
FAILS("sense", SRP_RSP_SENSE, SHOULD, "CHECK CONDITION comes with sense data")
FAILS("status", SRP_RSP_STATUS, MUST, "A command that nobody knows has another status than GOOD")

CASE("srp/response/answered", MUST, RULES(SRP_RSP_ANSWERED), "A command is answered")
{
        expect_served(ready_channel(t));
}

CASE("srp/response/once", MUST, RULES(SRP_TAG_RESPONSE), "A command is answered once")
{
        struct chan *c = ready_channel(t);

        expect_served(c);
        expect_quiet(c, 100);
}

CASE("srp/response/unmarked-length", SHOULD, RULES(SRP_RSP_UNMARKED),
     "The lengths of response and sense data are zero where there is none")
{
        expect_served(ready_channel(t));
}

CASE("srp/response/response-data", MUST, RULES(SRP_RSP_DATA), "Response data has four bytes")
{
        struct chan *c = ready_channel(t);

        (void)run_function(c, SRP_TM_ABORT_TASK, 0x7777);
}

/* --- sense data ----------------------------------------------------------------------------------- */

/* READ(16) is optional for a unit that READ(10) reaches the end of (SBC-2). */
static void expect_illegal(struct chan *c, struct order *o, uint16_t asc)
{
        struct answer a = run_order(o);

        want(c->t, a.sense_len == 0 || a.has_sense, "sense data of a known format",
             "%u bytes of another one", a.sense_len);
        require(c->t, asc == SCSI_ASC_OPCODE || !a.has_sense || a.sense.asc != SCSI_ASC_OPCODE,
                "the unit does not know the command");
        expect_sense(c, &a, SCSI_ILLEGAL_REQUEST, asc);
}

/* SPC-4 4.5, SBC-3. */
#define SENSE(name, asc, says, ...)                                                                \
        CASE("srp/response/sense-" name, SHOULD, RULES(SRP_RSP_STATUS, SRP_SENSE_FORM), says)      \
        {                                                                                          \
                struct chan *c = ready_channel(t);                                                 \
                                                                                                   \
                expect_illegal(c, order_of(c, __VA_ARGS__), asc);                                  \
        }

SENSE("opcode", SCSI_ASC_OPCODE,
      "A command that nobody knows ends with ILLEGAL REQUEST, invalid command operation code",
      SCSI_NOBODYS, 0, 0, 0, 0, 0)
SENSE("lba-16", SCSI_ASC_LBA,
      "READ(16) at the last block that could be ends with ILLEGAL REQUEST, logical block address "
      "out of range",
      SCSI_READ_16, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 1, 0, 0)
SENSE("page", SCSI_ASC_CDB_FIELD,
      "INQUIRY of a page that there is not ends with ILLEGAL REQUEST, invalid field in CDB",
      SCSI_INQUIRY, 1, 0x7f, 0, 36, 0)
SENSE("page-without-evpd", SCSI_ASC_CDB_FIELD,
      "INQUIRY of a page without EVPD ends with ILLEGAL REQUEST, invalid field in CDB",
      SCSI_INQUIRY, 0, 0x80, 0, 36, 0)

CASE("srp/response/sense-lba", SHOULD, RULES(SRP_RSP_STATUS, SRP_SENSE_FORM),
     "READ beyond the end of the unit ends with ILLEGAL REQUEST, logical block address out of "
     "range")
{
        struct chan *c = ready_channel(t);

        require(t, srp_peer_of(t->suite)->blocks <= 0xfffffff0, "READ(10) reaches no end of it");
        expect_illegal(c, order_of(c, SCSI_READ_10, 0, 0xff, 0xff, 0xff, 0xf0, 0, 0, 1, 0),
                       SCSI_ASC_LBA);
}

CASE("srp/response/sense-lun", SHOULD, RULES(SRP_RSP_STATUS, SRP_SENSE_FORM),
     "A command to a logical unit that there is not ends with ILLEGAL REQUEST, logical unit not "
     "supported")
{
        struct chan *c = ready_channel(t);
        struct answer a =
            run_order(order_cdb(c, 0x3ff0, (const uint8_t[6]) { SCSI_TEST_UNIT_READY }, 6));

        expect_sense(c, &a, SCSI_ILLEGAL_REQUEST, SCSI_ASC_LUN);
}

CASE("srp/response/sense-attention", SHOULD, NO_RULE,
     "The first command of an initiator that is new is told so once, by UNIT ATTENTION")
{
        struct chan *c = log_in(t);
        struct answer a = run_order(order_of(c, SCSI_TEST_UNIT_READY, 0, 0, 0, 0, 0));

        if (a.status == SCSI_GOOD) {
                advise(t, "UNIT ATTENTION", "GOOD");
                return;
        }
        attend(c);
        expect_served(c);
}

/* --- residuals -------------------------------------------------------------------------------------- */

/* READ of a block into so many bytes; 0: no buffer is described. */
static struct answer read_into(struct chan *c, uint32_t bytes)
{
        struct order *o = order_read(c, 1);

        if (bytes > 0)
                (void)data_in(o, bytes);
        return run_order(o);
}

#define READ_INTO(name, rule, bytes, flag, count, says)                                            \
        CASE("srp/response/read-" name, MUST, RULES(rule), says)                                   \
        {                                                                                          \
                struct chan *c = ready_channel(t);                                                 \
                uint32_t block = block_of(c);                                                      \
                struct answer a = read_into(c, bytes);                                             \
                                                                                                   \
                (void)block;                                                                       \
                expect_residual(c, &a, flag, count);                                               \
        }

READ_INTO("exact", SRP_RSP_RESIDUAL, block, 0, 0,
          "A READ into as much memory as it needs has no residual")
READ_INTO("neither", SRP_RSP_BOTH, block, 0, 0,
          "A residual is an overflow or an underflow, not both")
READ_INTO("underflow", SRP_RSP_UNDERFLOW, block, 0, 0,
          "An underflow is not more than there is memory for")
READ_INTO("under", SRP_RSP_COUNT, block + 512, SRP_DIUNDER, 512,
          "A READ into 512 bytes more than it needs has an underflow of 512")
READ_INTO("under-one", SRP_RSP_COUNT, block + 1, SRP_DIUNDER, 1,
          "A READ into a byte more than it needs has an underflow of one")
READ_INTO("over", SRP_RSP_COUNT, 200, SRP_DIOVER, block - 200,
          "A READ into 200 bytes has an overflow of the rest")
READ_INTO("over-one", SRP_RSP_COUNT, block - 1, SRP_DIOVER, 1,
          "A READ into a byte less than it needs has an overflow of one")
READ_INTO("none", SRP_RSP_COUNT, 0, SRP_DIOVER, block,
          "A READ into no buffer at all has an overflow of all of it")

CASE("srp/response/read-over-memory", MUST, RULES(SRP_TRANSFER),
     "A READ into too little memory writes nothing beyond that")
{
        struct chan *c = ready_channel(t);

        (void)read_into(c, 100);
        expect_served(c);
}

CASE("srp/response/read-under-table", MUST, RULES(SRP_RSP_COUNT),
     "A READ into a table with more than it needs has an underflow of the rest")
{
        struct chan *c = ready_channel(t);
        struct order *o = order_read(c, 1);
        struct answer a;

        (void)data_table(o, false, block_of(c) + 640, 3, 3);
        a = run_order(o);
        expect_good(c, &a);
        expect_residual(c, &a, SRP_DIUNDER, 640);
}

CASE("srp/response/inquiry-under", MUST, RULES(SRP_RSP_COUNT),
     "INQUIRY of 36 bytes into 96 has an underflow of 60")
{
        struct chan *c = ready_channel(t);
        struct order *o = order_of(c, SCSI_INQUIRY, 0, 0, 0, 36, 0);
        struct answer a;

        (void)data_in(o, 96);
        a = run_order(o);
        expect_good(c, &a);
        expect_residual(c, &a, SRP_DIUNDER, 60);
}

CASE("srp/response/failed-under", MUST, RULES(SRP_RSP_COUNT),
     "A command that fails at once has an underflow of all its memory")
{
        struct chan *c = ready_channel(t);
        struct order *o = order_of(c, SCSI_NOBODYS, 0, 0, 0, 0, 0);
        struct answer a;

        (void)data_in(o, 100);
        a = run_order(o);
        expect_no_success(c, &a);
        expect_residual(c, &a, SRP_DIUNDER, 100);
}

CASE("srp/response/unused-under", MUST, RULES(SRP_RSP_COUNT),
     "A command that moves no data has an underflow of all its memory")
{
        struct chan *c = ready_channel(t);
        struct order *o = order_of(c, SCSI_TEST_UNIT_READY, 0, 0, 0, 0, 0);
        struct answer a;

        (void)data_in(o, 100);
        a = run_order(o);
        expect_good(c, &a);
        expect_residual(c, &a, SRP_DIUNDER, 100);
}

CASE("srp/response/write-under", MUST, RULES(SRP_RSP_COUNT),
     "A WRITE from 512 bytes more than it needs has an underflow of 512", .writes = true)
{
        struct chan *c = ready_channel(t);
        struct order *o = order_write(c, 1);
        struct answer a;

        (void)data_out(o, block_of(c) + 512);
        a = run_order(o);
        need_writable(c, &a);
        expect_good(c, &a);
        expect_residual(c, &a, SRP_DOUNDER, 512);
}

CASE("srp/response/write-over", MUST, RULES(SRP_RSP_COUNT),
     "A WRITE from 200 bytes has an overflow of the rest", .writes = true)
{
        struct chan *c = ready_channel(t);
        struct order *o = order_write(c, 1);
        struct answer a;

        (void)data_out(o, 200);
        a = run_order(o);
        need_writable(c, &a);
        expect_residual(c, &a, SRP_DOOVER, block_of(c) - 200);
}

/* --- solicited notification --------------------------------------------------------------------------- */

CASE("srp/response/solicited", MUST, RULES(SRP_SOLICITED),
     "Notification is not solicited where nobody has asked")
{
        expect_served(ready_channel(t));
}

CASE("srp/response/solicited-asked", INFO, NO_RULE,
     "A command that asks for solicited notification is answered")
{
        struct chan *c = ready_channel(t);
        struct order *o = order_of(c, SCSI_TEST_UNIT_READY, 0, 0, 0, 0, 0);
        struct answer a;

        order_set(o, 1, SRP_SCSOLNT | SRP_UCSOLNT);
        a = run_order(o);
        expect_good(c, &a);
        note(t, a.sol_not & SRP_SOLNT ? "SOLNT is set" : "SOLNT is clear");
}

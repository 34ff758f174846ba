/* SPDX-License-Identifier: BSD-3-Clause */
/* Information units and commands of SRP initiators, right and wrong. */
#include <string.h>

#include "conformance/srp/srp_words.h"

static struct order *ready(struct chan *c)
{
        return order_of(c, SCSI_TEST_UNIT_READY, 0, 0, 0, 0, 0);
}

/* --- information units -------------------------------------------------------------------------- */

CASE("srp/iu/type-target", MUST, RULES(SRP_TYPE_T), "The target sends IUs of its own types")
{
        expect_served(ready_channel(t));
}

CASE("srp/iu/length-target", MUST, RULES(SRP_LENGTH_T), "The target's IUs have their fixed part")
{
        expect_served(ready_channel(t));
}

CASE("srp/iu/reserved-target", SHOULD, RULES(SRP_RESERVED_T), "The target clears what is reserved")
{
        expect_served(ready_channel(t));
}

CASE("srp/iu/reserved-initiator", SHOULD, RULES(SRP_RESERVED_I),
     "Reserved bytes of a command are not looked at")
{
        struct chan *c = ready_channel(t);
        struct order *o = ready(c);
        struct answer a;

        send_broken(o, SRP_RESERVED_I);
        a = expect_rsp_to(c, o->tag);
        expect_good(c, &a);
}

/* 64 bytes that begin with a type which no initiator sends. */
#define TYPE(name, type, says)                                                                     \
        CASE("srp/iu/type-" name, MUST, RULES(SRP_TYPE_I), says " ends the channel")               \
        {                                                                                          \
                struct chan *c = ready_channel(t);                                                 \
                                                                                                   \
                send_as_is(c, (const uint8_t[64]) { type }, 64);                                   \
                expect_ended(c);                                                                   \
        }

TYPE("unknown", 0x7f, "An IU of a type that nobody knows")
TYPE("highest", 0xff, "An IU of type FFh")
TYPE("response", SRP_RSP, "SRP_RSP from an initiator")
TYPE("credit-request", SRP_CRED_REQ, "SRP_CRED_REQ from an initiator")
TYPE("logout-target", SRP_T_LOGOUT, "SRP_T_LOGOUT from an initiator")
TYPE("login-response", SRP_LOGIN_RSP, "SRP_LOGIN_RSP from an initiator")

#define SHORT(name, type, n, says)                                                                 \
        CASE("srp/iu/short-" name, MUST, RULES(SRP_LENGTH_I), says " ends the channel")            \
        {                                                                                          \
                struct chan *c = ready_channel(t);                                                 \
                                                                                                   \
                send_as_is(c, (const uint8_t[64]) { type }, n);                                    \
                expect_ended(c);                                                                   \
        }

SHORT("command", SRP_CMD, 47, "SRP_CMD of 47 bytes")
SHORT("command-one", SRP_CMD, 1, "SRP_CMD of one byte")
SHORT("management", SRP_TSK_MGMT, 47, "SRP_TSK_MGMT of 47 bytes")
SHORT("logout", SRP_I_LOGOUT, 15, "SRP_I_LOGOUT of 15 bytes")

CASE("srp/iu/login-again", MUST, RULES(SRP_LOGIN_ONCE),
     "A login request on a channel that is live ends it, or is not looked at")
{
        struct chan *c = ready_channel(t);

        t->negative = true;
        chan_send(c, &c->asked, sizeof(c->asked), true);
        expect_ended_or_works(c);
}

CASE("srp/iu/longest", MUST, RULES(SRP_MAX_I),
     "A command that is longer than was granted is answered, or ends the channel")
{
        struct chan *c = ready_channel(t, .it_iu = 64);
        struct order *o = ready(c);

        t->negative = true;
        o->n = CHAN_SLOT;
        send_order(o);
        expect_ended_or_answered(c, o->tag);
}

/* --- data in each form -------------------------------------------------------------------------- */

struct form {
        uint16_t blocks;
        unsigned pieces, in_line; /* of a table; 0: direct */
        bool immediate;
};

static uint8_t *describe(struct order *o, const struct form *f, bool out)
{
        uint32_t len = f->blocks * block_of(o->chan);

        if (f->pieces > 0)
                return data_table(o, out, len, f->pieces, f->in_line);
        return out ? data_out(o, len) : data_in(o, len);
}

static void write_blocks(struct chan *c, const struct form *f, uint8_t *data)
{
        struct order *o = order_write(c, f->blocks);
        uint32_t len = f->blocks * block_of(c);
        struct answer a;

        fill(c, data, len, f->pieces + f->immediate);
        if (f->immediate)
                data_immediate(o, data, len);
        else
                memcpy(describe(o, f, true), data, len);
        a = run_order(o);
        need_writable(c, &a);
        require(c->t, f->in_line == f->pieces || a.status == SCSI_GOOD,
                "the target does not fetch tables of descriptors");
        expect_good(c, &a);
        expect_residual(c, &a, 0, 0);
}

/* What was written is what is read, each described so. */
static void write_and_read(struct t *t, const struct form *f)
{
        struct chan *c = ready_channel(t, .flags = f->immediate ? SRP_IMMEDIATE : 0);
        uint32_t len = f->blocks * block_of(c);
        uint8_t *data = t_alloc(t, len + 1u), *back;
        struct order *o;
        struct answer a;

        write_blocks(c, f, data);
        o = order_read(c, f->blocks);
        back = describe(o, f, false);
        a = run_order(o);
        expect_good(c, &a);
        expect_residual(c, &a, 0, 0);
        about(t, SRP_TRANSFER_WHOLE);
        want_data(t, "the blocks that were written", back, data, len);
}

#define FORM(name, needs_, says, ...)                                                              \
        CASE("srp/transfer/" name, MUST, RULES(SRP_TRANSFER, SRP_TRANSFER_WHOLE), says,            \
             .writes = true, .needs = needs_)                                                      \
        {                                                                                          \
                write_and_read(t, &(const struct form) { __VA_ARGS__ });                           \
        }

FORM("direct", 0, "Data moves by a direct descriptor", .blocks = 1)
FORM("direct-large", 0, "16 blocks move by a direct descriptor", .blocks = 16)
FORM("table", 0, "Data moves by a table of two entries", .blocks = 1, .pieces = 2, .in_line = 2)
FORM("table-one", 0, "Data moves by a table of one entry", .blocks = 1, .pieces = 1, .in_line = 1)
FORM("table-odd", 0, "Data moves by a table of seven entries of odd lengths", .blocks = 1,
     .pieces = 7, .in_line = 7)
FORM("table-long", 0, "Data moves by a table of 25 entries", .blocks = 16, .pieces = 25,
     .in_line = 25)
FORM("table-external", 0, "Data moves by a table, one entry of which is in the IU", .blocks = 4,
     .pieces = 5, .in_line = 1)
FORM("table-outside", 0, "Data moves by a table, no entry of which is in the IU", .blocks = 4,
     .pieces = 5, .in_line = 0)
FORM("immediate", NEEDS_IMMEDIATE, "Immediate data is written", .blocks = 1, .immediate = true)
FORM("immediate-large", NEEDS_IMMEDIATE, "8 blocks of immediate data are written", .blocks = 8,
     .immediate = true)

CASE("srp/transfer/unaligned", MUST, RULES(SRP_TRANSFER, SRP_TRANSFER_WHOLE),
     "Data moves to an odd address")
{
        struct chan *c = ready_channel(t);
        struct order *o = order_of(c, SCSI_INQUIRY, 0, 0, 0, 36, 0), *again;
        uint8_t *whole = data_in(o, 36), *odd;
        struct answer a = run_order(o);

        expect_good(c, &a);
        again = order_of(c, SCSI_INQUIRY, 0, 0, 0, 36, 0);
        odd = data_in(again, 37) + 1;
        srp_desc_put(again->iu + sizeof(struct srp_cmd),
                     &(struct srp_desc) { (uintptr_t)odd, c->mr.rkey, 36 });
        a = run_order(again);
        expect_good(c, &a);
        want_data(t, "the same INQUIRY data", odd, whole, 36);
}

CASE("srp/transfer/no-more-than-there-is", MUST, RULES(SRP_TRANSFER),
     "INQUIRY into more memory than it has data for writes no further than that", .writes = false)
{
        struct chan *c = ready_channel(t);
        struct order *o = order_of(c, SCSI_INQUIRY, 0, 0, 0, 36, 0);
        struct answer a;

        (void)data_in(o, 36);
        a = run_order(o);
        expect_good(c, &a);
}

/* --- commands that cannot be read ---------------------------------------------------------------- */

/* A READ of a block with a direct descriptor, or a table of two. */
static struct order *a_read(struct chan *c, bool table)
{
        struct order *o = order_read(c, 1);

        if (table)
                (void)data_table(o, false, block_of(c), 2, 2);
        else
                (void)data_in(o, block_of(c));
        return o;
}

/* What the target cannot make sense of is refused, or ends the channel. */
#define BROKEN_READ(name, rule, table, says)                                                       \
        CASE("srp/command/" name, MUST, RULES(rule), says)                                         \
        {                                                                                          \
                struct chan *c = ready_channel(t);                                                 \
                struct order *o = a_read(c, table);                                                \
                                                                                                   \
                send_broken(o, rule);                                                              \
                expect_ended_or_refused(c, o->tag);                                                \
        }

BROKEN_READ("additional-cdb", SRP_CMD_CDB, false,
            "An additional CDB that ends beyond the IU is refused, or ends the channel")
BROKEN_READ("format", SRP_CMD_FORMAT, false,
            "A buffer format that nobody knows is refused, or ends the channel")
BROKEN_READ("descriptors", SRP_CMD_DESCRIPTORS, false,
            "A descriptor that ends beyond the IU is refused, or ends the channel")
BROKEN_READ("descriptors-table", SRP_CMD_DESCRIPTORS, true,
            "A table that ends beyond the IU is refused, or ends the channel")
BROKEN_READ("table", SRP_CMD_TABLE, true, "A table of 33 bytes is refused, or ends the channel")

/* What may be overlooked is answered, or ends the channel. */
#define ODD_READ(name, rule, table, says)                                                          \
        CASE("srp/command/" name, MUST, RULES(rule), says)                                         \
        {                                                                                          \
                struct chan *c = ready_channel(t);                                                 \
                struct order *o = a_read(c, table);                                                \
                                                                                                   \
                send_broken(o, rule);                                                              \
                expect_ended_or_answered(c, o->tag);                                               \
        }

ODD_READ("count", SRP_CMD_COUNT, true,
         "More entries in the IU than the table has are answered, or end the channel")
ODD_READ("total", SRP_CMD_TOTAL, true,
         "A total that is not the sum of its entries is answered, or ends the channel")
ODD_READ("address", SRP_CMD_WRAP, false,
         "A buffer that ends beyond 64 bits is answered, or ends the channel")
ODD_READ("attribute", SRP_CMD_ATTRIBUTE, false,
         "A reserved task attribute is answered, or ends the channel")

#define FORMAT(name, value, says)                                                                  \
        CASE("srp/command/format-" name, MUST, RULES(SRP_CMD_FORMAT), says)                        \
        {                                                                                          \
                struct chan *c = ready_channel(t);                                                 \
                struct order *o = a_read(c, false);                                                \
                                                                                                   \
                t->negative = true;                                                                \
                order_set(o, 5, value);                                                            \
                send_order(o);                                                                     \
                expect_ended_or_refused(c, o->tag);                                                \
        }

FORMAT("in-15", 0x0f, "Data-in of format 15 is refused, or ends the channel")
FORMAT("in-immediate", 0x03, "Immediate data-in is refused, or ends the channel")
FORMAT("out-15", 0xf1, "Data-out of format 15 is refused, or ends the channel")

CASE("srp/command/immediate", MUST, RULES(SRP_CMD_IMMEDIATE),
     "Immediate data that ends beyond the IU is refused, or ends the channel",
     .needs = NEEDS_IMMEDIATE)
{
        struct chan *c = ready_channel(t, .flags = SRP_IMMEDIATE);
        struct order *o = ready(c);

        data_immediate(o, "sixteen bytes ..", 16);
        send_broken(o, SRP_CMD_IMMEDIATE);
        expect_ended_or_refused(c, o->tag);
}

CASE("srp/command/immediate-one-more", MUST, RULES(SRP_CMD_IMMEDIATE),
     "Immediate data that ends a byte beyond the IU is refused, or ends the channel",
     .needs = NEEDS_IMMEDIATE)
{
        struct chan *c = ready_channel(t, .flags = SRP_IMMEDIATE);
        struct order *o = ready(c);

        t->negative = true;
        data_immediate(o, "sixteen bytes ..", 16);
        o->n--;
        send_order(o);
        expect_ended_or_refused(c, o->tag);
}

CASE("srp/command/format-agreed", MUST, RULES(SRP_CMD_AGREED),
     "Immediate data that was not granted is refused, or ends the channel")
{
        struct chan *c = ready_channel(t);
        struct order *o = ready(c);

        t->negative = true;
        data_immediate(o, "sixteen bytes ..", 16);
        send_order(o);
        expect_ended_or_refused(c, o->tag);
}

CASE("srp/command/table-empty", MUST, RULES(SRP_CMD_TABLE),
     "A table without entries is refused, or ends the channel")
{
        struct chan *c = ready_channel(t);
        struct order *o = order_read(c, 1);

        t->negative = true;
        data_indirect(o, false, chan_desc(c, chan_memory(c, 64), 0), block_of(c), NULL, 0);
        send_order(o);
        expect_ended_or_refused(c, o->tag);
}

CASE("srp/command/table-huge", MUST, RULES(SRP_RSP_ANSWERED),
     "A table of 4 GiB is answered, or ends the channel")
{
        struct chan *c = ready_channel(t);
        struct order *o = order_read(c, 1);

        t->negative = true;
        data_indirect(o, false, chan_desc(c, chan_memory(c, 64), 0xfffffff0), block_of(c), NULL, 0);
        send_order(o);
        expect_ended_or_answered(c, o->tag);
}

CASE("srp/command/total-huge", MUST, RULES(SRP_CMD_TOTAL),
     "A total of 4 GiB is answered, or ends the channel")
{
        struct chan *c = ready_channel(t);
        struct order *o = order_read(c, 1);
        struct srp_desc list[2];
        uint8_t *p = chan_memory(c, block_of(c));

        t->negative = true;
        list[0] = chan_desc(c, p, 256);
        list[1] = chan_desc(c, p + 256, block_of(c) - 256);
        o->in[o->ins++] = (struct chan_range) { (uint32_t)(p - c->arena), block_of(c) };
        data_indirect(o, false, chan_desc(c, chan_memory(c, 64), 32), UINT32_MAX, list, 2);
        send_order(o);
        expect_ended_or_answered(c, o->tag);
}

/* --- memory that the target cannot reach ---------------------------------------------------------- */

#define REACH(name, says, d)                                                                       \
        CASE("srp/command/" name, MUST, RULES(SRP_RSP_ANSWERED),                                   \
             says " is answered, or ends the channel")                                             \
        {                                                                                          \
                struct chan *c = ready_channel(t);                                                 \
                struct order *o = order_read(c, 1);                                                \
                                                                                                   \
                t->negative = true;                                                                \
                data_direct(o, false, d);                                                          \
                send_order(o);                                                                     \
                expect_ended_or_answered(c, o->tag);                                               \
                expect_others_served(t);                                                           \
        }

REACH("key-unknown", "A key that nobody has given",
      ((struct srp_desc) { (uintptr_t)c->arena, c->mr.rkey ^ 0x00ffff00, block_of(c) }))
REACH("address-low", "An address before the memory of its key",
      ((struct srp_desc) { (uintptr_t)c->arena - 4096, c->mr.rkey, block_of(c) }))
REACH("address-null", "Address zero", ((struct srp_desc) { 0, c->mr.rkey, block_of(c) }))

CASE("srp/command/key-unknown-table", MUST, RULES(SRP_RSP_ANSWERED),
     "A table with a key that nobody has given is answered, or ends the channel")
{
        struct chan *c = ready_channel(t);
        struct order *o = order_read(c, 1);

        t->negative = true;
        data_indirect(o, false, (struct srp_desc) { 4096, 0x12345, 32 }, block_of(c), NULL, 0);
        send_order(o);
        expect_ended_or_answered(c, o->tag);
        expect_others_served(t);
}

CASE("srp/command/length-zero", MUST, RULES(SRP_RSP_ANSWERED),
     "A direct descriptor of no byte is answered, or ends the channel")
{
        struct chan *c = ready_channel(t);
        struct order *o = order_read(c, 1);

        t->negative = true;
        data_direct(o, false, chan_desc(c, c->arena, 0));
        send_order(o);
        expect_ended_or_answered(c, o->tag);
}

CASE("srp/command/length-zero-write", MUST, RULES(SRP_RSP_ANSWERED),
     "A WRITE from a direct descriptor of no byte is answered, or ends the channel", .writes = true)
{
        struct chan *c = ready_channel(t);
        struct order *o = order_write(c, 1);

        t->negative = true;
        data_direct(o, true, chan_desc(c, c->arena, 0));
        send_order(o);
        expect_ended_or_answered(c, o->tag);
}

CASE("srp/command/table-of-nothing", MUST, RULES(SRP_RSP_ANSWERED),
     "A table whose entries have no byte is answered, or ends the channel")
{
        struct chan *c = ready_channel(t);
        struct order *o = order_read(c, 1);
        const struct srp_desc list[2] = { chan_desc(c, c->arena, 0), chan_desc(c, c->arena, 0) };

        t->negative = true;
        data_indirect(o, false, chan_desc(c, chan_memory(c, 64), 32), 0, list, 2);
        send_order(o);
        expect_ended_or_answered(c, o->tag);
}

/* --- the rest of a command ------------------------------------------------------------------------ */

CASE("srp/command/additional-cdb-unused", MUST, RULES(SRP_RSP_ANSWERED),
     "An additional CDB that the command has no use for is answered, or ends the channel")
{
        struct chan *c = ready_channel(t);
        struct order *o = ready(c);

        order_set(o, 31, 16);
        o->n += 16;
        send_order(o);
        expect_ended_or_answered(c, o->tag);
}

CASE("srp/command/both-directions", MUST, RULES(SRP_RSP_ANSWERED),
     "A command with buffers for both directions is answered, or ends the channel")
{
        struct chan *c = ready_channel(t);
        struct order *o = ready(c);

        (void)data_out(o, 64);
        (void)data_in(o, 64);
        send_order(o);
        expect_ended_or_answered(c, o->tag);
}

#define ATTRIBUTE(name, value, says)                                                               \
        CASE("srp/command/attribute-" name, MUST, RULES(SRP_RSP_ANSWERED), says)                   \
        {                                                                                          \
                struct chan *c = ready_channel(t);                                                 \
                struct order *o = ready(c);                                                        \
                struct answer a;                                                                   \
                                                                                                   \
                order_set(o, offsetof(struct srp_cmd, attr), value);                               \
                a = run_order(o);                                                                  \
                if (value != SRP_ACA)                                                              \
                        expect_good(c, &a);                                                        \
        }

ATTRIBUTE("head", SRP_HEAD_OF_QUEUE, "A command for the head of the queue is served")
ATTRIBUTE("ordered", SRP_ORDERED, "An ordered command is served")
ATTRIBUTE("aca", SRP_ACA, "A command with the ACA attribute is answered")

CASE("srp/command/lun-format", MUST, RULES(SRP_RSP_STATUS),
     "A logical unit number of two levels that nobody has is refused")
{
        struct chan *c = ready_channel(t);
        struct order *o = ready(c);
        struct answer a;

        be_put(o->iu + offsetof(struct srp_cmd, lun), 8, UINT64_C(0x0001000200030004));
        a = run_order(o);
        expect_no_success(c, &a);
}

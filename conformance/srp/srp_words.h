/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The words of cases about SRP targets:
 *
 *      struct chan *c = ready_channel(t);
 *      struct order *o = order_read(c, 1);
 *      struct answer a;
 *
 *      data_in(o, 1024);
 *      a = run_order(o);
 *      expect_good(c, &a);
 *      expect_residual(c, &a, SRP_DIUNDER, 512);
 *
 * A word that does not see what it expects ends the case. Requests of the target (SRP_CRED_REQ, SRP_AER_REQ) are answered
 * on the way, unless the channel is mute. Where the request limit is zero sending waits, unless the channel overruns it.
 */
#ifndef NVMF_CONFORMANCE_SRP_WORDS_H
#define NVMF_CONFORMANCE_SRP_WORDS_H

#include "conformance/engine/test_case.h"
#include "pdu/scsi/scsi.h"
#include "srp_chan.h"
#include "srp_suite.h"

#define CASE_FAMILY srp_conform

/* --- logging in --------------------------------------------------------------------------------- */

/* The login is accepted; else the case ends, or is skipped where another channel is one too many. log_in(t, .flags = ...)
 * names what is not as usual. */
struct chan *log_in_as(struct t *t, struct chan_login how);
#define log_in(t, ...) log_in_as(t, (struct chan_login) { __VA_ARGS__ })
/* It is asked, and accepted or rejected. */
struct chan *ask_login_as(struct t *t, struct chan_login how);
#define ask_login(t, ...) ask_login_as(t, (struct chan_login) { __VA_ARGS__ })
/* The login was rejected with this reason (SRP_REJECT_*; 0: whichever). */
void expect_rejected(struct chan *c, uint32_t reason);
/* It was not, and the channel works; or it was, with some reason. */
void expect_works_or_rejected(struct chan *c);
/* Logged in, and with nothing that the unit has to tell it any more. */
struct chan *ready_channel_as(struct t *t, struct chan_login how);
#define ready_channel(t, ...) ready_channel_as(t, (struct chan_login) { __VA_ARGS__ })
/* The slow unit has nothing to tell, either. */
struct chan *slow_channel_as(struct t *t, struct chan_login how);
#define slow_channel(t, ...) slow_channel_as(t, (struct chan_login) { __VA_ARGS__ })
/* TEST UNIT READY until nothing more is told; skips the case where the unit does not get ready. */
void attend(struct chan *c);
void attend_unit(struct chan *c, uint32_t lun);

/* --- commands ----------------------------------------------------------------------------------- */

/* A command with this CDB for a logical unit, without data; its tag is new. */
struct order *order_cdb(struct chan *c, uint32_t lun, const void *cdb, size_t n);
#define order_of(c, ...)                                                                           \
        order_cdb(c, unit_of(c), ((const uint8_t[]) { __VA_ARGS__ }),                              \
                  sizeof((const uint8_t[]) { __VA_ARGS__ }))
/* READ(10), WRITE(10) of so many blocks from the start of the case's range. */
struct order *order_read(struct chan *c, uint16_t blocks);
struct order *order_write(struct chan *c, uint16_t blocks);
/* Blocks that have so many bytes together, or the least that are more. */
uint16_t blocks_in(const struct chan *c, uint32_t bytes);
/* READ(10) of a block of the slow unit. */
struct order *order_slow(struct chan *c);
/* An operation code that no command has: those from C0h on are vendors' (SPC-4 4.2.5.1). */
enum { SCSI_NOBODYS = 0x6f };
/* The unit, and the bytes of a block, of the tested one. */
uint32_t unit_of(const struct chan *c);
uint32_t block_of(const struct chan *c);

/* Their data: memory that a direct descriptor, or a table of `pieces` with so many of them in line, describes. What a
 * command is to write is put there before it is sent. */
uint8_t *data_in(struct order *o, uint32_t len);
uint8_t *data_out(struct order *o, uint32_t len);
uint8_t *data_table(struct order *o, bool out, uint32_t len, unsigned pieces, unsigned in_line);
/* Immediate data, which is copied. */
void data_immediate(struct order *o, const void *data, uint32_t len);
/* A descriptor of whatever is said, right or wrong; memory that it describes may be changed. */
void data_direct(struct order *o, bool out, struct srp_desc d);
/* The table of n entries at `list`, `in_line` of which are in the IU, with these lengths of table and total. */
void data_indirect(struct order *o, bool out, struct srp_desc table, uint32_t total,
                   const struct srp_desc *list, unsigned in_line);

/* Fields that are not as usual. */
void order_set(struct order *o, unsigned at, uint8_t value);
void order_set_tag(struct order *o, uint64_t tag);

/* --- answers ------------------------------------------------------------------------------------ */

struct answer {
        uint64_t tag;
        uint8_t status, flags, sol_not;
        bool has_sense; /* that can be read */
        uint32_t sense_len;
        struct scsi_sense sense;
        int code; /* of response data; -1: none */
        int32_t delta;
        uint32_t out_residual, in_residual;
};

/* From here on the target may use its memory. */
void send_order(struct order *o);
/* The judge does not follow what comes of it. */
void send_oddly(struct order *o);
/* Spoilt by a rule of initiators; ends the case as an error if that does not fit. */
void send_broken(struct order *o, enum srp_rule rule);
/* n bytes, which the judge does not follow. */
void send_as_is(struct chan *c, const void *p, uint32_t n);
/* An IU of a tag and nothing else. */
void send_small(struct chan *c, uint8_t type, uint64_t tag);
/* SRP_TSK_MGMT for the tested unit; its tag. */
uint64_t send_function(struct chan *c, uint8_t function, uint64_t task);
uint64_t send_function_to(struct chan *c, uint32_t lun, uint8_t function, uint64_t task);

/* The next response. */
struct answer expect_rsp(struct chan *c);
/* The response to this one; others that come before it are passed over. */
struct answer expect_rsp_to(struct chan *c, uint64_t tag);
struct answer run_order(struct order *o);
struct answer run_function(struct chan *c, uint8_t function, uint64_t task);
/* No response comes for so many ms; what the target says of itself is none. */
void expect_quiet(struct chan *c, unsigned ms);

/* GOOD, and no response code but 0. What a unit says of its state, and what passes, is tried again by the runner. */
void expect_good(struct chan *c, const struct answer *a);
/* Skips the case where a WRITE was not done since the unit is write-protected, or has no space left. */
void need_writable(struct chan *c, const struct answer *a);
/* CHECK CONDITION with this; about SRP_RSP_STATUS or SRP_RSP_SENSE, whichever the case names first. */
void expect_sense(struct chan *c, const struct answer *a, uint8_t key, uint16_t asc);
/* Another status than GOOD, or a response code other than 0. */
void expect_no_success(struct chan *c, const struct answer *a);
/* One of SRP_DOOVER, SRP_DOUNDER, SRP_DIOVER and SRP_DIUNDER with this count; 0: none of them. */
void expect_residual(struct chan *c, const struct answer *a, uint8_t flag, uint32_t count);
/* This response code; 0 is not asked of who says that he does not support the function. */
void expect_code(struct chan *c, const struct answer *a, int code);

/* The target ends the channel, with SRP_T_LOGOUT or without. */
void expect_ended(struct chan *c);
/* It does, or answers the request that is outstanding with an error. */
void expect_ended_or_refused(struct chan *c, uint64_t tag);
/* It does, or answers however, and works on. Silence of an answer is a failure. */
void expect_ended_or_answered(struct chan *c, uint64_t tag);
/* It does, or works on. */
void expect_ended_or_works(struct chan *c);
/* A TEST UNIT READY is answered with GOOD, once nothing more is told. */
void expect_served(struct chan *c);
bool is_live(struct chan *c);

/* --- ends --------------------------------------------------------------------------------------- */

/* DREQ, and its answer. */
void leave(struct chan *c);
/* The answer to the DREQ that is out. */
void expect_left(struct chan *c);
/* A login of another initiator works; that it does not is a failure, whatever the rules of the case rest on. */
void expect_others_served(struct t *t);

/* So many requests may be sent now, and can be at a time. */
unsigned limit_of(const struct chan *c);
/* The limit is `least` or above, with commands that follow at last. */
void expect_limit(struct chan *c, int64_t least);
/* TEST UNIT READY, n times at once; all are answered, as by TASK SET FULL. */
void run_burst(struct chan *c, unsigned n);

/* Bytes that differ from case to case and block to block. */
void fill(const struct chan *c, uint8_t *p, uint32_t len, unsigned salt);

/* --- the family (srp_conform.c) ----------------------------------------------------------------- */

enum { SRP_RANGE_BYTES = 64 << 10 };

#endif

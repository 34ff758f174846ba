/* SPDX-License-Identifier: BSD-3-Clause */
#include "scsi_task.h"

#include <string.h>

#include "scsi_own.h"

/* --- the commands ----------------------------------------------------------------------------- */

/* Bits: the control byte, the last one, has none: NACA is not supported. Protection information, DLD and the like
 * neither. */
/* clang-format off */
#define ALL 0xff
#define ALL4 ALL, ALL, ALL, ALL
#define NO SCSI_NO_ACTION
enum { ANY = SCSI_ANY_UNIT, QUIET = SCSI_UNATTENDED, W = SCSI_WRITES };

static const struct scsi_row rows[] = {
        { SCSI_TEST_UNIT_READY, NO, 6, 0, NULL, scsi_ready, "TEST UNIT READY", { 0 } },
        { SCSI_REQUEST_SENSE, NO, 6, ANY | QUIET, scsi_admit_sense, scsi_request_sense, "REQUEST SENSE", { 0, 0, 0, 0, ALL } },
        { SCSI_READ_6, NO, 6, 0, scsi_admit_read, scsi_read, "READ(6)", { 0, 0x1f, ALL, ALL, ALL } },
        { SCSI_WRITE_6, NO, 6, W, scsi_admit_write, scsi_write, "WRITE(6)", { 0, 0x1f, ALL, ALL, ALL } },
        { SCSI_INQUIRY, NO, 6, ANY | QUIET, scsi_admit_inquiry, scsi_inquiry, "INQUIRY", { 0, 0x01, ALL, ALL, ALL } },
        { SCSI_MODE_SENSE_6, NO, 6, 0, scsi_admit_mode_6, scsi_mode_sense, "MODE SENSE(6)", { 0, 0x08, ALL, ALL, ALL } },
        { SCSI_START_STOP, NO, 6, 0, scsi_admit_start, scsi_ready, "START STOP UNIT", { 0, 0x01, 0, 0x0f, 0xf7 } },
        { SCSI_READ_CAPACITY_10, NO, 10, 0, scsi_admit_capacity_10, scsi_capacity_10, "READ CAPACITY(10)", { 0 } },
        { SCSI_READ_10, NO, 10, 0, scsi_admit_read, scsi_read, "READ(10)", { 0, 0x18, ALL4, 0x1f, ALL, ALL } },
        { SCSI_WRITE_10, NO, 10, W, scsi_admit_write, scsi_write, "WRITE(10)", { 0, 0x18, ALL4, 0x1f, ALL, ALL } },
        { SCSI_VERIFY_10, NO, 10, 0, scsi_admit_verify, scsi_verify, "VERIFY(10)", { 0, 0x16, ALL4, 0x1f, ALL, ALL } },
        { SCSI_SYNC_CACHE_10, NO, 10, 0, scsi_admit_sync, scsi_sync, "SYNCHRONIZE CACHE(10)", { 0, 0x06, ALL4, 0x1f, ALL, ALL } },
        { SCSI_WRITE_SAME_10, NO, 10, W, scsi_admit_same, scsi_same, "WRITE SAME(10)", { 0, 0x08, ALL4, 0x1f, ALL, ALL } },
        { SCSI_UNMAP, NO, 10, W, scsi_admit_unmap, scsi_unmap, "UNMAP", { 0, 0, 0, 0, 0, 0, 0x1f, ALL, ALL } },
        { SCSI_MODE_SENSE_10, NO, 10, 0, scsi_admit_mode_10, scsi_mode_sense, "MODE SENSE(10)", { 0, 0x18, ALL, ALL, 0, 0, 0, ALL, ALL } },
        { SCSI_READ_16, NO, 16, 0, scsi_admit_read, scsi_read, "READ(16)", { 0, 0x18, ALL4, ALL4, ALL4, 0x1f } },
        { SCSI_COMPARE_WRITE, NO, 16, W, scsi_admit_compare, scsi_compare, "COMPARE AND WRITE", { 0, 0x18, ALL4, ALL4, 0, 0, 0, ALL, 0x1f } },
        { SCSI_WRITE_16, NO, 16, W, scsi_admit_write, scsi_write, "WRITE(16)", { 0, 0x18, ALL4, ALL4, ALL4, 0x1f } },
        { SCSI_VERIFY_16, NO, 16, 0, scsi_admit_verify, scsi_verify, "VERIFY(16)", { 0, 0x16, ALL4, ALL4, ALL4, 0x1f } },
        { SCSI_SYNC_CACHE_16, NO, 16, 0, scsi_admit_sync, scsi_sync, "SYNCHRONIZE CACHE(16)", { 0, 0x06, ALL4, ALL4, ALL4, 0x1f } },
        { SCSI_WRITE_SAME_16, NO, 16, W, scsi_admit_same, scsi_same, "WRITE SAME(16)", { 0, 0x09, ALL4, ALL4, ALL4, 0x1f } },
        { SCSI_SERVICE_IN_16, SCSI_READ_CAPACITY_16, 16, 0, scsi_admit_capacity_16, scsi_capacity_16, "READ CAPACITY(16)", { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, ALL4 } },
        { SCSI_REPORT_LUNS, NO, 12, ANY | QUIET, scsi_admit_luns, scsi_report_luns, "REPORT LUNS", { 0, 0, ALL, 0, 0, 0, ALL4 } },
        { SCSI_MAINTENANCE_IN, SCSI_REPORT_OPCODES, 12, 0, scsi_admit_opcodes, scsi_report_opcodes, "REPORT SUPPORTED OPERATION CODES", { 0, 0, 0x07, ALL, ALL, ALL, ALL4 } },
        { SCSI_READ_12, NO, 12, 0, scsi_admit_read, scsi_read, "READ(12)", { 0, 0x18, ALL4, ALL4, 0x1f } },
        { SCSI_WRITE_12, NO, 12, W, scsi_admit_write, scsi_write, "WRITE(12)", { 0, 0x18, ALL4, ALL4, 0x1f } },
};
/* clang-format on */

const struct scsi_row *scsi_row_at(unsigned i)
{
        return i < sizeof(rows) / sizeof(rows[0]) ? &rows[i] : NULL;
}

enum { ACTION = 0x1f }; /* of byte 1 */

/* NULL: none; *known: there are others of this operation code. */
static const struct scsi_row *row_of(const uint8_t *cdb, bool *known)
{
        const struct scsi_row *r;

        *known = false;
        for (unsigned i = 0; (r = scsi_row_at(i)) != NULL; i++) {
                if (r->op != cdb[0])
                        continue;
                *known = true;
                if (r->action == SCSI_NO_ACTION || r->action == (cdb[1] & ACTION))
                        return r;
        }
        return NULL;
}

/* --- how commands end ------------------------------------------------------------------------- */

bool scsi_fail(struct scsi_task *t, uint8_t key, uint16_t asc)
{
        t->status = SCSI_CHECK;
        t->sense = (struct scsi_sense) { .key = key, .asc = asc };
        t->in_len = 0;
        return false;
}

bool scsi_bad_field(struct scsi_task *t, unsigned field)
{
        scsi_fail(t, SCSI_ILLEGAL_REQUEST, SCSI_ASC_CDB_FIELD);
        t->sense.in_cdb = true;
        t->sense.field = (uint16_t)field;
        return false;
}

bool scsi_bad_parameter(struct scsi_task *t, unsigned field)
{
        scsi_fail(t, SCSI_ILLEGAL_REQUEST, SCSI_ASC_PARAMETER_FIELD);
        t->sense.in_data = true;
        t->sense.field = (uint16_t)field;
        return false;
}

/* NS_DONE and NS_BUSY apart. */
static void fail_for(struct scsi_task *t, enum ns_result result)
{
        static const struct {
                uint8_t key;
                uint16_t asc;
        } senses[NS_RESULTS] = {
                [NS_BEYOND] = { SCSI_ILLEGAL_REQUEST, SCSI_ASC_LBA },
                [NS_DIFFERS] = { SCSI_MISCOMPARE, SCSI_ASC_MISCOMPARE },
                [NS_READ_ERROR] = { SCSI_MEDIUM_ERROR, SCSI_ASC_READ_ERROR },
                [NS_WRITE_ERROR] = { SCSI_MEDIUM_ERROR, SCSI_ASC_WRITE_ERROR },
                [NS_DEALLOCATED] = { SCSI_MEDIUM_ERROR, SCSI_ASC_READ_ERROR },
                [NS_NO_SPACE] = { SCSI_DATA_PROTECT, SCSI_ASC_NO_SPACE },
                [NS_NO_MEMORY] = { SCSI_ABORTED_COMMAND, SCSI_ASC_RESOURCES },
                [NS_FIXED] = { SCSI_DATA_PROTECT, SCSI_ASC_WRITE_PROTECTED },
                [NS_GUARD_WRONG] = { SCSI_ABORTED_COMMAND, SCSI_ASC_GUARD },
                [NS_APP_WRONG] = { SCSI_ABORTED_COMMAND, SCSI_ASC_GUARD + 1 },
                [NS_STORAGE_WRONG] = { SCSI_ABORTED_COMMAND, SCSI_ASC_GUARD + 1 },
                [NS_REF_WRONG] = { SCSI_ABORTED_COMMAND, SCSI_ASC_GUARD + 2 },
        };

        if (result < NS_RESULTS)
                scsi_fail(t, senses[result].key, senses[result].asc);
        else
                scsi_fail(t, SCSI_HARDWARE_ERROR, SCSI_ASC_NONE);
}

static void end_with(struct scsi_task *t, enum ns_result result)
{
        if (result == NS_DONE)
                return;
        t->in_len = 0;
        if (result == NS_BUSY)
                t->status = SCSI_BUSY;
        else
                fail_for(t, result);
}

static void waited(struct ns_wait *w)
{
        struct scsi_task *t =
            (struct scsi_task *)(void *)((char *)w - offsetof(struct scsi_task, wait));

        end_with(t, w->result);
        t->done(t);
}

bool scsi_finish(struct scsi_task *t, enum ns_result result, bool durable)
{
        end_with(t, result);
        if (result != NS_DONE || !ns_waits(t->ns, durable))
                return true;
        t->wait = (struct ns_wait) { .durable = durable,
                                     .write = t->row->flags & SCSI_WRITES,
                                     .done = waited };
        return ns_await(t->ns, &t->wait);
}

bool scsi_returns(struct scsi_task *t, unsigned at, unsigned n)
{
        uint64_t room = be_get(t->cdb + at, n);

        t->in_max = room < SCSI_REPLY ? (uint32_t)room : SCSI_REPLY;
        return true;
}

bool scsi_reply(struct scsi_task *t, const uint8_t *p, uint32_t n)
{
        t->in_len = n < t->in_max ? n : t->in_max;
        if (t->in_len > 0)
                memcpy(t->data, p, t->in_len);
        return true;
}

/* --- attention -------------------------------------------------------------------------------- */

void scsi_nexus_attend(struct scsi_nexus *n, uint32_t lun, enum scsi_asc what)
{
        if (lun < SCSI_UNITS)
                atomic_store(&n->attention[lun], (uint16_t)what);
}

void scsi_nexus_init(struct scsi_nexus *n, const struct scsi_device *d)
{
        for (uint32_t i = 0; i < SCSI_UNITS; i++)
                atomic_init(&n->attention[i], d->unit[i] ? SCSI_ASC_POWER_ON : 0);
}

uint16_t scsi_take_attention(struct scsi_task *t)
{
        return t->ns ? atomic_exchange(&t->nexus->attention[t->number], 0) : 0;
}

/* --- tasks ------------------------------------------------------------------------------------ */

static bool find_unit(const struct scsi_device *d, struct scsi_task *t)
{
        t->number = scsi_lun_number(t->lun);
        t->ns = scsi_has_unit(d, t->number) ? d->unit[t->number] : NULL;
        return t->ns;
}

/* Bits that have no meaning here. */
static bool check_bits(struct scsi_task *t)
{
        const struct scsi_row *r = t->row;

        for (unsigned i = 1; i < r->len; i++) {
                uint8_t may = r->bits[i];

                if (i == 1 && r->action != SCSI_NO_ACTION)
                        may |= ACTION;
                if (t->cdb[i] & ~may)
                        return scsi_bad_field(t, i);
        }
        return true;
}

static bool is_protected(const struct scsi_task *t)
{
        return t->row->flags & SCSI_WRITES && atomic_load(&t->ns->protection);
}

static bool check(struct scsi_task *t, bool known)
{
        uint16_t attention;

        if (!t->ns && !(t->row && t->row->flags & SCSI_ANY_UNIT))
                return scsi_fail(t, SCSI_ILLEGAL_REQUEST, SCSI_ASC_LUN);
        attention = t->row && t->row->flags & SCSI_UNATTENDED ? 0 : scsi_take_attention(t);
        if (attention)
                return scsi_fail(t, SCSI_UNIT_ATTENTION, attention);
        if (!t->row && known)
                return scsi_bad_field(t, 1);
        if (!t->row)
                return scsi_fail(t, SCSI_ILLEGAL_REQUEST, SCSI_ASC_OPCODE);
        if (t->attr == SCSI_ACA) /* there never is one */
                return scsi_fail(t, SCSI_ILLEGAL_REQUEST, SCSI_ASC_MESSAGE);
        if (!check_bits(t))
                return false;
        if (is_protected(t))
                return scsi_fail(t, SCSI_DATA_PROTECT, SCSI_ASC_WRITE_PROTECTED);
        return !t->row->admit || t->row->admit(t);
}

bool scsi_admit(const struct scsi_device *d, struct scsi_nexus *n, struct scsi_task *t)
{
        bool known;

        t->device = d;
        t->nexus = n;
        t->out_len = t->in_max = t->in_len = 0;
        t->status = SCSI_GOOD;
        t->row = row_of(t->cdb, &known);
        (void)find_unit(d, t);
        if (!check(t, known))
                return false;
        /* All that the command needs has to be there: part of it is never written. */
        return t->out_len <= t->out_size || scsi_bad_field(t, t->row->len - 2u);
}

bool scsi_execute(struct scsi_task *t)
{
        return t->row->run(t);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* What the device and its units report: readiness, sense, LUNs, capacity, commands. */
#include <string.h>

#include "scsi_own.h"

/* --- TEST UNIT READY, START STOP UNIT ---------------------------------------------------------- */

bool scsi_ready(struct scsi_task *t)
{
        (void)t;
        return true;
}

/* There is no medium to eject, and no power condition to enter. */
bool scsi_admit_start(struct scsi_task *t)
{
        enum { LOEJ = 2, POWER_CONDITION = 0xf0 };

        return t->cdb[4] & (LOEJ | POWER_CONDITION) ? scsi_bad_field(t, 4) : true;
}

/* --- REQUEST SENSE ----------------------------------------------------------------------------- */

bool scsi_admit_sense(struct scsi_task *t)
{
        return scsi_returns(t, 4, 1);
}

/* Of commands sense data comes with their response: what is left to be told is what the unit has to tell. */
bool scsi_request_sense(struct scsi_task *t)
{
        struct scsi_sense s = { 0 };
        uint8_t p[SCSI_SENSE_LEN];

        if (!t->ns)
                s = (struct scsi_sense) { .key = SCSI_ILLEGAL_REQUEST, .asc = SCSI_ASC_LUN };
        else if ((s.asc = scsi_take_attention(t)) != 0)
                s.key = SCSI_UNIT_ATTENTION;
        scsi_sense_put(p, &s);
        return scsi_reply(t, p, sizeof(p));
}

/* --- REPORT LUNS ------------------------------------------------------------------------------- */

enum { SELECT_UNITS = 0, SELECT_WELL_KNOWN = 1, SELECT_ALL = 2 };

bool scsi_admit_luns(struct scsi_task *t)
{
        return t->cdb[2] > SELECT_ALL ? scsi_bad_field(t, 2) : scsi_returns(t, 6, 4);
}

bool scsi_report_luns(struct scsi_task *t)
{
        uint8_t p[8 + 8 * SCSI_UNITS] = { 0 };
        uint32_t n = 8;

        for (uint32_t lun = 0; lun < SCSI_UNITS && t->cdb[2] != SELECT_WELL_KNOWN; lun++)
                if (scsi_has_unit(t->device, lun)) {
                        be_put(p + n, 8, scsi_lun_of(lun));
                        n += 8;
                }
        be_put(p, 4, n - 8);
        return scsi_reply(t, p, n);
}

/* --- READ CAPACITY ----------------------------------------------------------------------------- */

bool scsi_admit_capacity_10(struct scsi_task *t)
{
        t->in_max = 8;
        return true;
}

bool scsi_capacity_10(struct scsi_task *t)
{
        uint64_t last = atomic_load(&t->ns->blocks) - 1;
        uint8_t p[8];

        be_put(p, 4, last > UINT32_MAX ? UINT32_MAX : last);
        be_put(p + 4, 4, scsi_block_bytes(t));
        return scsi_reply(t, p, sizeof(p));
}

bool scsi_admit_capacity_16(struct scsi_task *t)
{
        return scsi_returns(t, 10, 4);
}

bool scsi_capacity_16(struct scsi_task *t)
{
        enum { LBPME = 0x80 };
        uint8_t p[32] = { [14] = LBPME };

        be_put(p, 8, atomic_load(&t->ns->blocks) - 1);
        be_put(p + 8, 4, scsi_block_bytes(t));
        return scsi_reply(t, p, sizeof(p));
}

/* --- REPORT SUPPORTED OPERATION CODES ----------------------------------------------------------- */

enum { LIST_ALL, ONE_OPCODE, ONE_ACTION, ONE_OF_BOTH };
enum { HAS_ACTION = 1, NOT_SUPPORTED = 1, SUPPORTED = 3 };

bool scsi_admit_opcodes(struct scsi_task *t)
{
        return t->cdb[2] > ONE_OF_BOTH ? scsi_bad_field(t, 2) : scsi_returns(t, 6, 4);
}

static bool list_all(struct scsi_task *t)
{
        uint8_t p[SCSI_REPLY] = { 0 };
        const struct scsi_row *r;
        uint32_t n = 4;

        for (unsigned i = 0; (r = scsi_row_at(i)) != NULL; i++, n += 8) {
                p[n] = r->op;
                if (r->action != SCSI_NO_ACTION) {
                        be_put(p + n + 2, 2, r->action);
                        p[n + 5] = HAS_ACTION;
                }
                be_put(p + n + 6, 2, r->len);
        }
        be_put(p, 4, n - 4);
        return scsi_reply(t, p, n);
}

/* How the command is asked for has to be as it is: with a service action, or without. False: it is not. */
static bool fits(const struct scsi_task *t, const struct scsi_row *r)
{
        bool has = r->action != SCSI_NO_ACTION;

        return t->cdb[2] == ONE_OF_BOTH || has == (t->cdb[2] == ONE_ACTION);
}

static const struct scsi_row *find(struct scsi_task *t)
{
        uint16_t action = (uint16_t)be_get(t->cdb + 4, 2);
        const struct scsi_row *r;

        for (unsigned i = 0; (r = scsi_row_at(i)) != NULL; i++) {
                if (r->op != t->cdb[3])
                        continue;
                if (!fits(t, r)) {
                        scsi_bad_field(t, 2);
                        return NULL;
                }
                if (r->action == SCSI_NO_ACTION ? action == 0 || t->cdb[2] == ONE_OPCODE
                                                : r->action == action)
                        return r;
        }
        return NULL;
}

bool scsi_report_opcodes(struct scsi_task *t)
{
        const struct scsi_row *r = t->cdb[2] == LIST_ALL ? NULL : find(t);
        uint8_t p[4 + SCSI_CDB_LEN] = { [1] = r ? SUPPORTED : NOT_SUPPORTED };

        if (t->cdb[2] == LIST_ALL)
                return list_all(t);
        if (t->status != SCSI_GOOD || !r)
                return t->status != SCSI_GOOD || scsi_reply(t, p, 4);
        be_put(p + 2, 2, r->len);
        memcpy(p + 4, r->bits, r->len);
        p[4] = r->op;
        if (r->action != SCSI_NO_ACTION)
                p[5] |= r->action;
        return scsi_reply(t, p, 4u + r->len);
}

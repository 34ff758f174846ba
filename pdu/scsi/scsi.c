/* SPDX-License-Identifier: BSD-3-Clause */
#include "scsi.h"

#include <string.h>

#include "pdu/core/be.h"

enum { FIXED = 0x70, DESCRIPTOR = 0x72, VALID = 0x80, SKSV = 0x80, IN_CDB = 0x40 };

/* --- words ------------------------------------------------------------------------------------ */

const char *scsi_status_name(uint8_t status)
{
        static const struct word names[] = {
                { SCSI_GOOD, "GOOD" },
                { SCSI_CHECK, "CHECK CONDITION" },
                { SCSI_BUSY, "BUSY" },
                { SCSI_CONFLICT, "RESERVATION CONFLICT" },
                { SCSI_TASK_SET_FULL, "TASK SET FULL" },
                { SCSI_TASK_ABORTED, "TASK ABORTED" },
                { 0, NULL },
        };
        const char *name = word_for(names, status);

        return name ? name : "status";
}

static const char *key_name(uint8_t key)
{
        static const char *const names[16] = {
                "NO SENSE",       "RECOVERED ERROR", "NOT READY",      "MEDIUM ERROR",
                "HARDWARE ERROR", "ILLEGAL REQUEST", "UNIT ATTENTION", "DATA PROTECT",
                "BLANK CHECK",    "VENDOR SPECIFIC", "COPY ABORTED",   "ABORTED COMMAND",
                "key Ch",         "VOLUME OVERFLOW", "MISCOMPARE",     "COMPLETED",
        };

        return names[key & 15];
}

static const struct word codes[] = {
        { SCSI_ASC_WRITE_ERROR, "write error" },
        { SCSI_ASC_GUARD, "logical block guard check failed" },
        { SCSI_ASC_READ_ERROR, "unrecovered read error" },
        { SCSI_ASC_PARAMETER_LENGTH, "parameter list length error" },
        { SCSI_ASC_MISCOMPARE, "miscompare during verify operation" },
        { SCSI_ASC_OPCODE, "invalid command operation code" },
        { SCSI_ASC_LBA, "logical block address out of range" },
        { SCSI_ASC_CDB_FIELD, "invalid field in CDB" },
        { SCSI_ASC_LUN, "logical unit not supported" },
        { SCSI_ASC_PARAMETER_FIELD, "invalid field in parameter list" },
        { SCSI_ASC_WRITE_PROTECTED, "write protected" },
        { SCSI_ASC_NO_SPACE, "space allocation failed" },
        { SCSI_ASC_POWER_ON, "power on or reset occurred" },
        { SCSI_ASC_RESET, "reset function occurred" },
        { SCSI_ASC_CAPACITY, "capacity data has changed" },
        { SCSI_ASC_CLEARED, "commands cleared by another initiator" },
        { SCSI_ASC_MESSAGE, "invalid message error" },
        { SCSI_ASC_DATA_PHASE, "data phase error" },
        { SCSI_ASC_RESOURCES, "insufficient resources" },
        { 0, NULL },
};

void scsi_sense_text(struct text *t, const struct scsi_sense *s)
{
        const char *says = word_for(codes, s->asc);

        text_add(t, "%s %02Xh/%02Xh", key_name(s->key), s->asc >> 8, s->asc & 0xff);
        if (says)
                text_add(t, " (%s)", says);
        if (s->in_cdb || s->in_data)
                text_add(t, ", byte %u of the %s", s->field, s->in_cdb ? "CDB" : "parameters");
}

/* --- sense data ------------------------------------------------------------------------------- */

void scsi_sense_put(uint8_t out[SCSI_SENSE_LEN], const struct scsi_sense *s)
{
        memset(out, 0, SCSI_SENSE_LEN);
        out[0] =
            (uint8_t)(FIXED | s->deferred | (s->has_info && s->info <= UINT32_MAX ? VALID : 0));
        out[2] = s->key;
        if (out[0] & VALID)
                be_put(out + 3, 4, s->info);
        out[7] = SCSI_SENSE_LEN - 8;
        be_put(out + 12, 2, s->asc);
        if (s->in_cdb || s->in_data) {
                out[15] = (uint8_t)(SKSV | (s->in_cdb ? IN_CDB : 0));
                be_put(out + 16, 2, s->field);
        }
}

static void get_pointer(const uint8_t *p, struct scsi_sense *out)
{
        if (!(p[0] & SKSV) || out->key != SCSI_ILLEGAL_REQUEST)
                return;
        out->in_cdb = p[0] & IN_CDB;
        out->in_data = !out->in_cdb;
        out->field = (uint16_t)be_get(p + 1, 2);
}

static void get_fixed(const uint8_t *p, size_t n, struct scsi_sense *out)
{
        out->key = p[2] & 15;
        out->has_info = p[0] & VALID && n >= 7;
        if (out->has_info)
                out->info = be_get(p + 3, 4);
        if (n >= 14)
                out->asc = (uint16_t)be_get(p + 12, 2);
        if (n >= 18)
                get_pointer(p + 15, out);
}

static void get_descriptors(const uint8_t *p, size_t n, struct scsi_sense *out)
{
        enum { INFORMATION = 0, KEY_SPECIFIC = 2 };

        out->key = p[1] & 15;
        out->asc = (uint16_t)be_get(p + 2, 2);
        for (size_t at = 8; at + 2 <= n && at + 2 + p[at + 1] <= n; at += 2u + p[at + 1]) {
                if (p[at] == INFORMATION && p[at + 1] >= 10) {
                        out->has_info = p[at + 2] & VALID;
                        out->info = be_get(p + at + 4, 8);
                } else if (p[at] == KEY_SPECIFIC && p[at + 1] >= 6) {
                        get_pointer(p + at + 4, out);
                }
        }
}

bool scsi_sense_get(const uint8_t *p, size_t n, struct scsi_sense *out)
{
        uint8_t code = n > 0 ? p[0] & 0x7f : 0;

        *out = (struct scsi_sense) { .deferred = code & 1 };
        if ((code & 0x7e) == FIXED && n >= 8)
                get_fixed(p, n, out);
        else if ((code & 0x7e) == DESCRIPTOR && n >= 8)
                get_descriptors(p, n, out);
        else
                return false;
        return true;
}

/* --- numbers ---------------------------------------------------------------------------------- */

uint64_t scsi_lun_of(uint32_t lun)
{
        return (uint64_t)(lun < 256 ? lun : (lun & 0x3fff) | 0x4000) << 48;
}

uint32_t scsi_lun_number(uint64_t lun)
{
        uint32_t first = (uint32_t)(lun >> 48);

        if (lun << 16 != 0)
                return UINT32_MAX;
        if (first < 256)
                return first;
        return first >> 14 == 1 ? first & 0x3fff : UINT32_MAX;
}

unsigned scsi_cdb_len(uint8_t opcode)
{
        static const uint8_t by_group[8] = { 6, 10, 10, 0, 16, 12, 0, 0 };

        return by_group[opcode >> 5];
}

bool scsi_is_harmless(uint8_t opcode)
{
        static const uint8_t harmless[] = {
                SCSI_TEST_UNIT_READY,  SCSI_REQUEST_SENSE, SCSI_INQUIRY,       SCSI_MODE_SENSE_6,
                SCSI_MODE_SENSE_10,    SCSI_READ_6,        SCSI_READ_10,       SCSI_READ_12,
                SCSI_READ_16,          SCSI_VERIFY_10,     SCSI_VERIFY_16,     SCSI_SYNC_CACHE_10,
                SCSI_READ_CAPACITY_10, SCSI_SYNC_CACHE_16, SCSI_SERVICE_IN_16, SCSI_REPORT_LUNS,
                SCSI_MAINTENANCE_IN,
        };

        return memchr(harmless, opcode, sizeof(harmless));
}

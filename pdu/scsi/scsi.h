/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What of SCSI both ends of a transport have to know: operation codes, statuses, sense data (SPC-4 4.5), logical unit
 * numbers (SAM-5 4.7). All fields are big-endian.
 */
#ifndef NVMF_SCSI_SCSI_H
#define NVMF_SCSI_SCSI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pdu/core/text.h"

enum scsi_op {
        SCSI_TEST_UNIT_READY = 0x00,
        SCSI_REQUEST_SENSE = 0x03,
        SCSI_READ_6 = 0x08,
        SCSI_WRITE_6 = 0x0a,
        SCSI_INQUIRY = 0x12,
        SCSI_MODE_SENSE_6 = 0x1a,
        SCSI_START_STOP = 0x1b,
        SCSI_READ_CAPACITY_10 = 0x25,
        SCSI_READ_10 = 0x28,
        SCSI_WRITE_10 = 0x2a,
        SCSI_VERIFY_10 = 0x2f,
        SCSI_SYNC_CACHE_10 = 0x35,
        SCSI_WRITE_SAME_10 = 0x41,
        SCSI_UNMAP = 0x42,
        SCSI_MODE_SENSE_10 = 0x5a,
        SCSI_READ_16 = 0x88,
        SCSI_COMPARE_WRITE = 0x89,
        SCSI_WRITE_16 = 0x8a,
        SCSI_VERIFY_16 = 0x8f,
        SCSI_SYNC_CACHE_16 = 0x91,
        SCSI_WRITE_SAME_16 = 0x93,
        SCSI_SERVICE_IN_16 = 0x9e, /* service action 10h: READ CAPACITY(16) */
        SCSI_REPORT_LUNS = 0xa0,
        SCSI_MAINTENANCE_IN = 0xa3, /* service action 0Ch: REPORT SUPPORTED OPERATION CODES */
        SCSI_READ_12 = 0xa8,
        SCSI_WRITE_12 = 0xaa,
};
enum { SCSI_READ_CAPACITY_16 = 0x10, SCSI_REPORT_OPCODES = 0x0c }; /* service actions */

enum scsi_status {
        SCSI_GOOD = 0x00,
        SCSI_CHECK = 0x02, /* CHECK CONDITION: with sense data */
        SCSI_BUSY = 0x08,
        SCSI_CONFLICT = 0x18,
        SCSI_TASK_SET_FULL = 0x28,
        SCSI_TASK_ABORTED = 0x40,
};
const char *scsi_status_name(uint8_t status); /* "CHECK CONDITION"; "status" for unknown ones */

enum scsi_key {
        SCSI_NO_SENSE = 0x0,
        SCSI_NOT_READY = 0x2,
        SCSI_MEDIUM_ERROR = 0x3,
        SCSI_HARDWARE_ERROR = 0x4,
        SCSI_ILLEGAL_REQUEST = 0x5,
        SCSI_UNIT_ATTENTION = 0x6,
        SCSI_DATA_PROTECT = 0x7,
        SCSI_ABORTED_COMMAND = 0xb,
        SCSI_MISCOMPARE = 0xe,
};

enum { SCSI_SENSE_LEN = 18, SCSI_CDB_LEN = 16 };

/* Additional sense code and its qualifier as one number: 2400h is 24h/00h. */
enum scsi_asc {
        SCSI_ASC_NONE = 0x0000,
        SCSI_ASC_WRITE_ERROR = 0x0c00,
        SCSI_ASC_GUARD = 0x1001, /* 1002h, 1003h: the application and reference tag */
        SCSI_ASC_READ_ERROR = 0x1100,
        SCSI_ASC_PARAMETER_LENGTH = 0x1a00,
        SCSI_ASC_MISCOMPARE = 0x1d00,
        SCSI_ASC_OPCODE = 0x2000,
        SCSI_ASC_LBA = 0x2100,
        SCSI_ASC_CDB_FIELD = 0x2400,
        SCSI_ASC_LUN = 0x2500,
        SCSI_ASC_PARAMETER_FIELD = 0x2600,
        SCSI_ASC_WRITE_PROTECTED = 0x2700,
        SCSI_ASC_NO_SPACE = 0x2707,
        SCSI_ASC_POWER_ON = 0x2900,
        SCSI_ASC_RESET = 0x2903,
        SCSI_ASC_CAPACITY = 0x2a09,
        SCSI_ASC_CLEARED = 0x2f00, /* commands cleared by another initiator */
        SCSI_ASC_MESSAGE = 0x4900,
        SCSI_ASC_DATA_PHASE = 0x4b00,
        SCSI_ASC_RESOURCES = 0x5503,
};

struct scsi_sense {
        uint8_t key;
        uint16_t asc;  /* with qualifier */
        bool deferred; /* about a command before */
        bool has_info; /* info is valid: of a miscompare the offset, of an LBA the LBA */
        uint64_t info; /* of fixed format at most 32 bits */
        bool in_cdb; /* the field at `field` of the CDB, or (in_data) of the parameters, is wrong */
        bool in_data;
        uint16_t field; /* byte */
};

/* In fixed format: SCSI_SENSE_LEN bytes. */
void scsi_sense_put(uint8_t out[SCSI_SENSE_LEN], const struct scsi_sense *s);
/* Of either format, n bytes; false: it is none. */
bool scsi_sense_get(const uint8_t *p, size_t n, struct scsi_sense *out);
/* "ILLEGAL REQUEST 24h/00h (invalid field in CDB)" */
void scsi_sense_text(struct text *t, const struct scsi_sense *s);

/* The eight bytes of a LUN as a number: by peripheral (below 256) or flat addressing. */
uint64_t scsi_lun_of(uint32_t lun);
/* The other way round; UINT32_MAX: it is of another kind. */
uint32_t scsi_lun_number(uint64_t lun);

/* Whether commands of this operation code, whatever else is in them, change neither blocks nor settings. */
bool scsi_is_harmless(uint8_t opcode);

/* Bytes of a CDB of this operation code; 0: vendors decide, or it says so itself. */
unsigned scsi_cdb_len(uint8_t opcode);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* What the reservation commands transfer, and the Reservation Notification log (Base 2.2 7.5 to 7.8,
 * 5.1.12.1.32). */
#ifndef NVMF_WIRE_RESERVATION_H
#define NVMF_WIRE_RESERVATION_H

#include "nvme.h"

enum reservation_type {
        RESERVATION_NONE,
        WRITE_EXCLUSIVE,
        EXCLUSIVE_ACCESS,
        WRITE_EXCLUSIVE_REGISTRANTS,
        EXCLUSIVE_ACCESS_REGISTRANTS,
        WRITE_EXCLUSIVE_ALL,
        EXCLUSIVE_ACCESS_ALL,
};

/* Dword 10 */
enum {
        RESERVATION_ACTION_MASK = 7,
        RREGA_REGISTER = 0,
        RREGA_UNREGISTER = 1,
        RREGA_REPLACE = 2,
        RACQA_ACQUIRE = 0,
        RACQA_PREEMPT = 1,
        RACQA_PREEMPT_ABORT = 2,
        RRELA_RELEASE = 0,
        RRELA_CLEAR = 1,
        RESERVATION_IEKEY = 1 << 3,
        RESERVATION_TYPE_SHIFT = 8, /* of Acquire and Release: RTYPE */
        CPTPL_SHIFT = 30,           /* of Register */
        CPTPL_KEEP = 0,
        CPTPL_CLEAR = 2,
        CPTPL_SET = 3,
        REPORT_EXTENDED = 1 << 0, /* dword 11 of Report: EDS */
};

struct reservation_keys { /* data of Register and Acquire; Release has the first one alone */
        le64_t crkey, key;
};

struct reservation_status { /* data of Report; entries follow */
        le32_t gen;
        uint8_t type;
        le16_t registrants;
        uint8_t rsvd7[2], ptpls, rsvd10[14];
};
struct reservation_entry {
        le16_t cntlid;
        uint8_t rcsts, rsvd3[5], hostid[8];
        le64_t key;
};
enum { REPORT_HEADER = 64 }; /* bytes, with the extended data structure */
struct reservation_entry_extended {
        le16_t cntlid;
        uint8_t rcsts, rsvd3[5];
        le64_t key;
        uint8_t hostid[16], rsvd32[32];
};
enum { RCSTS_HOLDER = 1 << 0, CNTLID_NOT_ASSOCIATED = 0xffff };

struct log_reservation {
        le64_t count;
        uint8_t type, available;
        uint8_t rsvd10[2];
        le32_t nsid;
        uint8_t rsvd16[48];
};
enum reservation_notice {
        REGISTRATION_PREEMPTED = 1,
        RESERVATION_RELEASED = 2,
        RESERVATION_PREEMPTED = 3,
};
/* Dword 11 of the feature 82h: bit n masks notice n. */
enum { RESERVATION_MASKS = 0xe };

/* RESCAP of Identify Namespace: bit n is reservation type n */
enum { RESCAP_PTPL = 1 << 0, RESCAP_TYPES = 0x7e, RESCAP_IEKEY = 1 << 7 };

_Static_assert(sizeof(struct reservation_status) == 24, "Reservation Status");
_Static_assert(sizeof(struct reservation_entry) == 24, "Registrant");
_Static_assert(sizeof(struct reservation_entry_extended) == 64, "Registrant, extended");
_Static_assert(sizeof(struct log_reservation) == 64, "Reservation Notification");

static inline bool is_reservation_command(uint8_t opc)
{
        return opc == NVME_RESERVATION_REGISTER || opc == NVME_RESERVATION_REPORT ||
               opc == NVME_RESERVATION_ACQUIRE || opc == NVME_RESERVATION_RELEASE;
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The words of reservations. What is done sends a command and returns its CID:
 *
 *      struct queue *q = reserving_queue(t), *other = host_queue(t, 1);
 *
 *      expect_reserved(q, do_register(q, KEY(1)), NVME_SUCCESS);
 *      expect_reserved(other, do_acquire(other, WRITE_EXCLUSIVE, KEY(1)), NVME_RESERVATION_CONFLICT);
 */
#ifndef NVMF_CONFORMANCE_CASE_RESERVATION_H
#define NVMF_CONFORMANCE_CASE_RESERVATION_H

#include "case.h"
#include "pdu/nvme/wire/reservation.h"

/* What every case of reservations says: it writes, alone, and cleans up. */
#define RESERVES .writes = true, .alone = true, .after = unreserve

#define KEY(n)   (UINT64_C(0x6b65790000000000) + (n))

/* An I/O queue of host 0, where nobody is registered; skips the case where there are no reservations, or
 * where somebody else uses them. */
struct queue *reserving_queue(struct t *t);
/* ... of another host; and one more of host 0. */
struct queue *host_queue(struct t *t, unsigned host);
/* Nobody is registered any more. */
void unreserve(struct t *t);
/* The same of the first namespace of a subsystem that the run may change (--expendable-nqn). */
struct queue *expendable_reserving_queue(struct t *t, uint32_t *nsid);
struct queue *expendable_queue(struct t *t, unsigned host);
void unreserve_expendable(struct t *t);
/* RESCAP of the namespace; a type that it has. */
uint8_t rescap(struct queue *q);
unsigned a_type(struct queue *q);

/* Commands by their dword 10 and data. */
uint16_t send_register(struct queue *q, uint32_t cdw10, uint64_t crkey, uint64_t nrkey);
/* Any of these commands, of another namespace. */
uint16_t send_keys_to(struct queue *q, uint32_t nsid, uint8_t opc, uint32_t cdw10, uint64_t first,
                      uint64_t second);
uint16_t send_acquire(struct queue *q, uint32_t action, unsigned type, uint64_t crkey,
                      uint64_t prkey);
uint16_t send_release(struct queue *q, uint32_t action, unsigned type, uint64_t crkey);
uint16_t send_report(struct queue *q, uint32_t bytes, uint32_t cdw11);

static inline uint16_t do_register(struct queue *q, uint64_t key)
{
        return send_register(q, RREGA_REGISTER, 0, key);
}
static inline uint16_t do_unregister(struct queue *q, uint64_t key)
{
        return send_register(q, RREGA_UNREGISTER, key, 0);
}
static inline uint16_t do_replace(struct queue *q, uint64_t key, uint64_t by)
{
        return send_register(q, RREGA_REPLACE, key, by);
}
static inline uint16_t do_acquire(struct queue *q, unsigned type, uint64_t key)
{
        return send_acquire(q, RACQA_ACQUIRE, type, key, 0);
}
static inline uint16_t do_preempt(struct queue *q, unsigned type, uint64_t key, uint64_t other)
{
        return send_acquire(q, RACQA_PREEMPT, type, key, other);
}
static inline uint16_t do_release(struct queue *q, unsigned type, uint64_t key)
{
        return send_release(q, RRELA_RELEASE, type, key);
}
static inline uint16_t do_clear(struct queue *q, uint64_t key)
{
        return send_release(q, RRELA_CLEAR, 0, key);
}

/* The command ends with this status. Another error than the prescribed one is lenient. */
void expect_reserved(struct queue *q, uint16_t cid, uint16_t status);

/* Whether the response comes within so many ms, scaled; it stays there for who expects it. */
bool comes_within(struct queue *q, uint16_t cid, unsigned ms);

struct report {
        uint32_t gen, bytes; /* bytes: moved */
        unsigned type, ptpls;
        unsigned entries, count; /* count: registrants */
        struct registrant_seen {
                uint8_t hostid[16];
                uint64_t key;
                uint16_t cntlid;
                bool holds;
        } of[16];
};
/* All of it, whose form is right. */
struct report report_of(struct queue *q);
/* How much is moved by a Report of so many bytes. */
uint32_t report_bytes(struct queue *q, uint32_t bytes);
/* Of the host of that queue; NULL: it is not registered. */
const struct registrant_seen *registrant_of(const struct report *r, struct queue *q);
bool is_registered(struct report r, struct queue *q);
bool holds(struct report r, struct queue *q);
/* The NSID by which a feature is set for all namespaces: FFFFFFFFh, or, where several domains let that be refused
 * (Base 2.2 4.4), the one of the namespace that is tested. */
uint32_t each_nsid(const struct t *t);
/* The feature 83h. */
uint32_t ptpl_of(struct queue *q);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "srp_replay.h"
#include "tools.h"

const char *srp_likeness_name(enum srp_likeness l)
{
        static const char *const names[SRP_LIKENESSES] = { "same", "allowed", "DIFFERENT",
                                                           "skipped" };

        return names[l];
}

static struct srp_verdict verdict(enum srp_likeness l, const char *why)
{
        return (struct srp_verdict) { l, why };
}

bool srp_is_passing(uint8_t status, bool has_sense, const struct scsi_sense *s)
{
        return status == SCSI_BUSY || status == SCSI_TASK_SET_FULL ||
               (status == SCSI_CHECK && has_sense &&
                (s->key == SCSI_UNIT_ATTENTION || s->key == SCSI_NOT_READY));
}

/* What a target of disks need not have (SBC-3 4.19 names what it must). */
static bool is_optional(const uint8_t *cdb)
{
        static const uint8_t all_have[] = { SCSI_TEST_UNIT_READY,  SCSI_REPORT_LUNS,
                                            SCSI_READ_CAPACITY_10, SCSI_READ_10,
                                            SCSI_WRITE_10,         SCSI_READ_16,
                                            SCSI_WRITE_16,         SCSI_REQUEST_SENSE };

        if (cdb[0] == SCSI_INQUIRY)
                return cdb[1] & 1 && cdb[2] != 0;
        return !memchr(all_have, cdb[0], sizeof(all_have));
}

static bool is_refused(uint8_t status, bool has_sense, const struct scsi_sense *s)
{
        return status == SCSI_CHECK && has_sense && s->key == SCSI_ILLEGAL_REQUEST;
}

static struct srp_verdict compare_management(const struct srp_plan_cmd *c,
                                             const struct srp_request_out *live)
{
        enum { NOT_SUPPORTED = 4 };

        if (c->response == live->response && c->has_response == live->has_response)
                return verdict(SRP_SAME, NULL);
        if (c->response == NOT_SUPPORTED || live->response == NOT_SUPPORTED)
                return verdict(SRP_ALLOWED, "one of the targets does not support the function");
        return verdict(SRP_DIFFERENT, "another response code");
}

static struct srp_verdict compare_sense(const struct srp_plan_cmd *c,
                                        const struct srp_request_out *live)
{
        if (!c->has_sense || !live->has_sense)
                return c->has_sense == live->has_sense
                           ? verdict(SRP_SAME, NULL)
                           : verdict(SRP_DIFFERENT, "only one of the answers has sense data");
        if (c->sense.key != live->sense.key)
                return verdict(SRP_DIFFERENT, "another sense key");
        return c->sense.asc == live->sense.asc
                   ? verdict(SRP_SAME, NULL)
                   : verdict(SRP_ALLOWED, "another additional sense code");
}

static struct srp_verdict compare_status(const struct srp_plan_cmd *c,
                                         const struct srp_request_out *live)
{
        bool refused = is_refused(c->status, c->has_sense, &c->sense) ||
                       is_refused(live->status, live->has_sense, &live->sense);

        if (srp_is_passing(c->status, c->has_sense, &c->sense))
                return verdict(SRP_ALLOWED, "the captured answer is about a passing condition");
        if (srp_is_passing(live->status, live->has_sense, &live->sense))
                return verdict(SRP_ALLOWED, "the live answer is about a passing condition");
        if (refused && is_optional(c->cdb))
                return verdict(SRP_ALLOWED, "one of the targets does not support the command");
        return verdict(SRP_DIFFERENT, "another status");
}

static struct srp_verdict compare_data(const struct srp_plan_cmd *c, const void *data, uint32_t n,
                                       bool known)
{
        struct srp_blocks blocks;
        bool io = srp_blocks_of(c->cdb, &blocks);

        if (c->out || (!c->data && n == 0) || c->format == SRP_NO_DATA)
                return verdict(SRP_SAME, NULL);
        if (!c->data)
                return verdict(SRP_ALLOWED, "the captured data is not known");
        if (n == c->n && memcmp(c->data, data, n) == 0)
                return verdict(SRP_SAME, NULL);
        if (!io)
                return verdict(SRP_ALLOWED, "another unit's identity, size or settings");
        if (n != c->n)
                return verdict(SRP_DIFFERENT, "another length of data");
        return known ? verdict(SRP_DIFFERENT, "another content of blocks that were written before")
                     : verdict(SRP_ALLOWED, "blocks of other contents");
}

struct srp_verdict srp_replay_compare(const struct srp_plan_cmd *c,
                                      const struct srp_request_out *live, const void *data,
                                      uint32_t n, bool known)
{
        if (c->function)
                return compare_management(c, live);
        if ((c->has_response && c->response) != (live->has_response && live->response))
                return verdict(SRP_DIFFERENT, "only one of the targets could carry it out");
        if (c->status != live->status)
                return compare_status(c, live);
        if (c->status != SCSI_GOOD)
                return compare_sense(c, live);
        return compare_data(c, data, n, known);
}

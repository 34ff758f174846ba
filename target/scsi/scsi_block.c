/* SPDX-License-Identifier: BSD-3-Clause */
/* Commands on blocks (SBC-3 5). */
#include <stdlib.h>
#include <string.h>

#include "scsi_own.h"

enum { FUA = 0x08, UNMAP_BIT = 0x08, NO_DATA = 0x01, SAME_CHUNK = 64 << 10 };

/* --- where ------------------------------------------------------------------------------------ */

/* Of READ(6), and of CDBs of 10, 12 and 16 bytes: the address, then how many; where the latter is. */
static unsigned place(struct scsi_task *t)
{
        const uint8_t *p = t->cdb;

        switch (t->row->len) {
        case 6:
                t->block = be_get(p + 1, 3) & 0x1fffff;
                t->blocks = p[4] ? p[4] : 256;
                return 4;
        case 10:
                t->block = be_get(p + 2, 4);
                t->blocks = (uint32_t)be_get(p + 7, 2);
                return 7;
        case 12:
                t->block = be_get(p + 2, 4);
                t->blocks = (uint32_t)be_get(p + 6, 4);
                return 6;
        default:
                t->block = be_get(p + 2, 8);
                t->blocks = (uint32_t)be_get(p + 10, 4);
                return 10;
        }
}

/* The first one that is not there. */
static bool beyond(struct scsi_task *t)
{
        uint64_t end = atomic_load(&t->ns->blocks);

        scsi_fail(t, SCSI_ILLEGAL_REQUEST, SCSI_ASC_LBA);
        t->sense.has_info = true;
        t->sense.info = t->block > end ? t->block : end;
        return false;
}

uint32_t scsi_blocks_max(const struct scsi_task *t)
{
        return t->device->max_transfer >> t->ns->lbads;
}

static bool place_within(struct scsi_task *t, uint32_t most)
{
        unsigned at = place(t);

        if (!ns_has(t->ns, t->block, t->blocks))
                return beyond(t);
        return t->blocks <= most || scsi_bad_field(t, at);
}

static uint32_t bytes_of(const struct scsi_task *t)
{
        return t->blocks << t->ns->lbads;
}

/* --- reading and writing ---------------------------------------------------------------------- */

bool scsi_admit_read(struct scsi_task *t)
{
        if (!place_within(t, scsi_blocks_max(t)))
                return false;
        t->in_max = bytes_of(t);
        return true;
}

bool scsi_read(struct scsi_task *t)
{
        enum ns_result r = t->blocks ? ns_read(t->ns, t->block, t->blocks, t->data) : NS_DONE;

        t->in_len = bytes_of(t);
        return scsi_finish(t, r, false);
}

bool scsi_admit_write(struct scsi_task *t)
{
        if (!place_within(t, scsi_blocks_max(t)))
                return false;
        t->out_len = bytes_of(t);
        return true;
}

bool scsi_write(struct scsi_task *t)
{
        enum ns_result r = t->blocks ? ns_write(t->ns, t->block, t->blocks, t->data) : NS_DONE;

        return scsi_finish(t, r, t->row->len > 6 && t->cdb[1] & FUA);
}

/* --- VERIFY ----------------------------------------------------------------------------------- */

static unsigned byte_check(const struct scsi_task *t)
{
        return t->cdb[1] >> 1 & 3;
}

bool scsi_admit_verify(struct scsi_task *t)
{
        if (byte_check(t) > 1)
                return scsi_bad_field(t, 1);
        if (!place_within(t, scsi_blocks_max(t)))
                return false;
        t->out_len = byte_check(t) ? bytes_of(t) : 0;
        return true;
}

bool scsi_verify(struct scsi_task *t)
{
        enum ns_result r = NS_DONE;

        if (t->blocks > 0)
                r = byte_check(t) ? ns_compare(t->ns, t->block, t->blocks, t->data)
                                  : ns_verify(t->ns, t->block, t->blocks);
        return scsi_finish(t, r, false);
}

/* --- SYNCHRONIZE CACHE ------------------------------------------------------------------------- */

/* No blocks: all from there on. All of the unit is flushed anyway. */
bool scsi_admit_sync(struct scsi_task *t)
{
        return place_within(t, UINT32_MAX);
}

/* IMMED: it may still go on when it is answered; here it never does. */
bool scsi_sync(struct scsi_task *t)
{
        return scsi_finish(t, NS_DONE, true);
}

/* --- WRITE SAME -------------------------------------------------------------------------------- */

static bool has_data(const struct scsi_task *t)
{
        return t->row->len == 10 || !(t->cdb[1] & NO_DATA);
}

bool scsi_admit_same(struct scsi_task *t)
{
        unsigned at = t->row->len == 10 ? 7 : 10;

        if (!place_within(t, scsi_same_max(t)))
                return false;
        if (t->blocks == 0)
                return scsi_bad_field(t, at);
        t->out_len = has_data(t) ? scsi_block_bytes(t) : 0;
        return true;
}

static bool is_zero(const uint8_t *p, uint32_t n)
{
        uint8_t any = 0;

        while (n > 0)
                any |= p[--n];
        return any == 0;
}

static enum ns_result write_same(struct scsi_task *t)
{
        uint32_t each = scsi_block_bytes(t), chunk = SAME_CHUNK / each, left = t->blocks;
        uint8_t *buf = malloc(SAME_CHUNK);
        enum ns_result r = buf ? NS_DONE : NS_NO_MEMORY;

        for (uint32_t i = 0; buf && i < chunk; i++)
                memcpy(buf + i * each, t->data, each);
        for (uint64_t at = t->block; r == NS_DONE && left > 0;) {
                uint32_t n = left < chunk ? left : chunk;

                r = ns_write(t->ns, at, n, buf);
                at += n;
                left -= n;
        }
        free(buf);
        return r;
}

/* Blocks of zeroes may be unmapped, where they read as zeroes all the same. */
bool scsi_same(struct scsi_task *t)
{
        bool zero = !has_data(t) || is_zero(t->data, scsi_block_bytes(t));
        enum ns_result r =
            zero ? ns_zero(t->ns, t->block, t->blocks, t->cdb[1] & UNMAP_BIT) : write_same(t);

        return scsi_finish(t, r, false);
}

/* --- UNMAP ------------------------------------------------------------------------------------- */

enum { LIST_HEADER = 8, RANGE_LEN = 16 };

bool scsi_admit_unmap(struct scsi_task *t)
{
        uint32_t len = (uint32_t)be_get(t->cdb + 7, 2);

        if (len > 0 && len < LIST_HEADER)
                return scsi_fail(t, SCSI_ILLEGAL_REQUEST, SCSI_ASC_PARAMETER_LENGTH);
        t->out_len = len;
        return true;
}

/* All of the list is looked at before anything of it is done. */
static bool check_ranges(struct scsi_task *t, uint32_t n)
{
        uint64_t sum = 0;

        if (n > SCSI_UNMAP_RANGES)
                return scsi_bad_parameter(t, 2);
        for (uint32_t i = 0; i < n; i++) {
                const uint8_t *p = t->data + LIST_HEADER + i * RANGE_LEN;

                t->block = be_get(p, 8);
                t->blocks = (uint32_t)be_get(p + 8, 4);
                sum += t->blocks;
                if (!ns_has(t->ns, t->block, t->blocks))
                        return beyond(t);
                if (sum > scsi_unmap_max(t))
                        return scsi_bad_parameter(t, LIST_HEADER + i * RANGE_LEN + 8);
        }
        return true;
}

bool scsi_unmap(struct scsi_task *t)
{
        uint32_t room = t->out_len > 0 ? t->out_len - LIST_HEADER : 0, n = 0;
        enum ns_result r = NS_DONE;

        if (t->out_len > 0)
                n = (uint32_t)be_get(t->data + 2, 2);
        if (n > room)
                scsi_fail(t, SCSI_ILLEGAL_REQUEST, SCSI_ASC_PARAMETER_LENGTH);
        n /= RANGE_LEN;
        if (t->status != SCSI_GOOD || !check_ranges(t, n))
                return true;
        for (uint32_t i = 0; r == NS_DONE && i < n; i++) {
                const uint8_t *p = t->data + LIST_HEADER + i * RANGE_LEN;

                r = ns_deallocate(t->ns, be_get(p, 8), be_get(p + 8, 4));
        }
        return scsi_finish(t, r, false);
}

/* --- COMPARE AND WRITE ------------------------------------------------------------------------- */

bool scsi_admit_compare(struct scsi_task *t)
{
        (void)place(t);
        t->blocks = t->cdb[13];
        if (!ns_has(t->ns, t->block, t->blocks))
                return beyond(t);
        if (t->blocks > SCSI_COMPARE_MAX || 2 * t->blocks > scsi_blocks_max(t))
                return scsi_bad_field(t, 13);
        t->out_len = 2 * bytes_of(t);
        return true;
}

bool scsi_compare(struct scsi_task *t)
{
        enum ns_result r = NS_DONE;

        if (t->blocks > 0)
                r = ns_compare_write(t->ns, t->block, t->blocks, t->data, t->data + bytes_of(t));
        return scsi_finish(t, r, t->cdb[1] & FUA);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* MODE SENSE (SPC-4 6.11, 7.5). */
#include <string.h>

#include "scsi_own.h"

enum {
        NO_DESCRIPTOR = 0x08, /* DBD */
        CACHING = 0x08,
        CONTROL = 0x0a,
        ALL_PAGES = 0x3f,
        ALL_SUBPAGES = 0xff,
        CHANGEABLE = 1,
        SAVED = 3,
        NOT_SAVED = 0x3900, /* saving parameters is not supported */
        PROTECTED = 0x80,
        DPOFUA = 0x10,
        DESCRIPTOR_LEN = 8,
        CACHING_LEN = 20,
        CONTROL_LEN = 12,
};

static unsigned page_of(const struct scsi_task *t)
{
        return t->cdb[2] & 0x3f;
}

/* What a later SPC has beside these pages is not there. */
static bool admit(struct scsi_task *t)
{
        unsigned page = page_of(t), subpage = t->cdb[3];

        if (t->cdb[2] >> 6 == SAVED)
                return scsi_fail(t, SCSI_ILLEGAL_REQUEST, NOT_SAVED);
        if (page != CACHING && page != CONTROL && page != ALL_PAGES)
                return scsi_bad_field(t, 2);
        if (subpage != 0 && subpage != ALL_SUBPAGES)
                return scsi_bad_field(t, 3);
        return true;
}

bool scsi_admit_mode_6(struct scsi_task *t)
{
        return admit(t) && scsi_returns(t, 4, 1);
}

bool scsi_admit_mode_10(struct scsi_task *t)
{
        return admit(t) && scsi_returns(t, 7, 2);
}

/* WCE where what was written may still be in a cache. */
static uint32_t caching(const struct scsi_task *t, bool changeable, uint8_t *p)
{
        p[0] = CACHING;
        p[1] = CACHING_LEN - 2;
        if (!changeable && t->ns->ops->flush)
                p[2] = 0x04;
        return CACHING_LEN;
}

/* Commands of the simple attribute may come in another order; descriptor sense is not used. */
static uint32_t control(bool changeable, uint8_t *p)
{
        p[0] = CONTROL;
        p[1] = CONTROL_LEN - 2;
        if (!changeable)
                p[3] = 0x10;
        return CONTROL_LEN;
}

static uint32_t descriptor(const struct scsi_task *t, uint8_t *p)
{
        uint64_t blocks = atomic_load(&t->ns->blocks);

        be_put(p, 4, blocks > UINT32_MAX ? UINT32_MAX : blocks);
        be_put(p + 5, 3, scsi_block_bytes(t));
        return DESCRIPTOR_LEN;
}

bool scsi_mode_sense(struct scsi_task *t)
{
        bool is_10 = t->row->len == 10, changeable = t->cdb[2] >> 6 == CHANGEABLE;
        uint32_t header = is_10 ? 8 : 4, described = 0, n;
        uint8_t p[256] = { 0 };

        p[is_10 ? 3 : 2] = (uint8_t)(DPOFUA | (atomic_load(&t->ns->protection) ? PROTECTED : 0));
        if (!(t->cdb[1] & NO_DESCRIPTOR))
                described = descriptor(t, p + header);
        n = header + described;
        if (page_of(t) != CONTROL)
                n += caching(t, changeable, p + n);
        if (page_of(t) != CACHING)
                n += control(changeable, p + n);
        be_put(p, is_10 ? 2 : 1, n - (is_10 ? 2 : 1));
        be_put(p + (is_10 ? 6 : 3), is_10 ? 2 : 1, described);
        return scsi_reply(t, p, n);
}

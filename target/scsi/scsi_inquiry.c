/* SPDX-License-Identifier: BSD-3-Clause */
/* INQUIRY, and the pages of vital product data (SPC-4 6.6, 7.8; SBC-3 6.6). */
#include <stdio.h>
#include <string.h>

#include "scsi_own.h"

enum {
        EVPD = 1,
        NO_UNIT = 0x7f, /* qualifier 3, type 1Fh */
        HEADER = 4,
        STANDARD_LEN = 96,
        VERSION_SPC4 = 6,
        BLOCK_LIMITS_LEN = 64,
};
#define VENDOR  "NVMFSPEC"
#define PRODUCT "virtual disk"

bool scsi_admit_inquiry(struct scsi_task *t)
{
        if (!(t->cdb[1] & EVPD) && t->cdb[2] != 0)
                return scsi_bad_field(t, 2);
        return scsi_returns(t, 3, 2);
}

/* --- standard data ---------------------------------------------------------------------------- */

static bool standard(struct scsi_task *t)
{
        static const uint16_t versions[] = { 0x00a0 /* SAM-5 */, 0x0940 /* SRP */,
                                             0x0460 /* SPC-4 */, 0x04c0 /* SBC-3 */ };
        uint8_t p[STANDARD_LEN] = {
                [0] = t->ns ? 0 : NO_UNIT, [2] = VERSION_SPC4, [3] = 0x12, /* HISUP, format 2 */
                [4] = STANDARD_LEN - 5,    [7] = 0x02,                     /* CMDQUE */
        };

        text_pad((char *)p + 8, 8, VENDOR);
        text_pad((char *)p + 16, 16, PRODUCT);
        text_pad((char *)p + 32, 4, "1");
        for (unsigned i = 0; i < sizeof(versions) / sizeof(versions[0]); i++)
                be_put(p + 58 + 2 * i, 2, versions[i]);
        return scsi_reply(t, p, sizeof(p));
}

/* --- vital product data ----------------------------------------------------------------------- */

/* What follows the header, into p; how long that is. */
typedef uint32_t page_fn(const struct scsi_task *t, uint8_t *p);

static page_fn supported, serial, identification, block_limits, characteristics, provisioning;

static const struct {
        uint8_t page;
        page_fn *fill;
} pages[] = {
        { 0x00, supported },    { 0x80, serial },          { 0x83, identification },
        { 0xb0, block_limits }, { 0xb1, characteristics }, { 0xb2, provisioning },
};
enum { PAGES = sizeof(pages) / sizeof(pages[0]) };

static uint32_t supported(const struct scsi_task *t, uint8_t *p)
{
        (void)t;
        for (unsigned i = 0; i < PAGES; i++)
                p[i] = pages[i].page;
        return PAGES;
}

static uint32_t serial(const struct scsi_task *t, uint8_t *p)
{
        char text[2 * sizeof(t->ns->uuid) + 1];

        for (unsigned i = 0; i < sizeof(t->ns->uuid); i++)
                snprintf(text + 2 * i, 3, "%02x", t->ns->uuid[i]);
        memcpy(p, text, sizeof(text) - 1);
        return sizeof(text) - 1;
}

enum { CODE_BINARY = 1, CODE_ASCII = 2, PIV = 0x80, PORT = 0x10 };
enum { KIND_VENDOR = 1, KIND_NAA = 3, KIND_RELATIVE_PORT = 4 };

static uint8_t *designator(const struct scsi_task *t, uint8_t *p, uint8_t code, uint8_t kind,
                           uint8_t len)
{
        p[0] = (uint8_t)((kind & PORT ? t->device->protocol << 4 : 0) | code);
        p[1] = (uint8_t)(kind | (kind & PORT ? PIV : 0));
        p[3] = len;
        return p + HEADER;
}

/* By NAA 3h, locally assigned: 60 bits of the UUID. And by vendor and serial number; and the port, the only one. */
static uint32_t identification(const struct scsi_task *t, uint8_t *p)
{
        uint8_t *at = designator(t, p, CODE_BINARY, KIND_NAA, 8);

        memcpy(at, t->ns->uuid, 8);
        at[0] = (uint8_t)((at[0] & 0x0f) | 0x30);
        at = designator(t, at + 8, CODE_ASCII, KIND_VENDOR, 8 + 32);
        text_pad((char *)at, 8, VENDOR);
        (void)serial(t, at + 8);
        at = designator(t, at + 8 + 32, CODE_BINARY, KIND_RELATIVE_PORT | PORT, 4);
        be_put(at, 4, 1);
        return (uint32_t)(at + 4 - p);
}

static uint32_t block_limits(const struct scsi_task *t, uint8_t *p)
{
        p[0] = 1; /* WSNZ: WRITE SAME of no blocks is refused */
        p[1] = SCSI_COMPARE_MAX;
        be_put(p + 2, 2, 1);
        be_put(p + 4, 4, scsi_blocks_max(t));
        be_put(p + 8, 4, scsi_blocks_max(t));
        be_put(p + 16, 4, scsi_unmap_max(t));
        be_put(p + 20, 4, SCSI_UNMAP_RANGES);
        be_put(p + 24, 4, 1);
        be_put(p + 32, 8, scsi_same_max(t));
        return BLOCK_LIMITS_LEN - HEADER;
}

static uint32_t characteristics(const struct scsi_task *t, uint8_t *p)
{
        (void)t;
        be_put(p, 2, 1); /* does not rotate */
        return BLOCK_LIMITS_LEN - HEADER;
}

/* Whether blocks read as zeroes after UNMAP the storage decides: LBPRZ is not set. */
static uint32_t provisioning(const struct scsi_task *t, uint8_t *p)
{
        (void)t;
        p[1] = 0xe0; /* LBPU, LBPWS, LBPWS10 */
        p[2] = 2;    /* thin */
        return 4;
}

static bool vital(struct scsi_task *t)
{
        uint8_t p[SCSI_REPLY] = { [0] = 0, [1] = t->cdb[2] };
        unsigned i = 0;
        uint32_t n;

        while (i < PAGES && pages[i].page != t->cdb[2])
                i++;
        if (!t->ns || i == PAGES) {
                scsi_bad_field(t, 2);
                return true;
        }
        n = pages[i].fill(t, p + HEADER);
        be_put(p + 2, 2, n);
        return scsi_reply(t, p, HEADER + n);
}

bool scsi_inquiry(struct scsi_task *t)
{
        return t->cdb[1] & EVPD ? vital(t) : standard(t);
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include <json-c/json.h>
#include <stdio.h>

#include "family.h"
#include "pdu/core/be.h"
#include "pdu/scsi/scsi.h"
#include "tools.h"

bool srp_blocks_of(const uint8_t cdb[16], struct srp_blocks *out)
{
        static const struct {
                uint8_t op;
                bool write;
                uint8_t lba, lba_len, count, count_len;
        } forms[] = {
                { SCSI_READ_6, false, 1, 3, 4, 1 },   { SCSI_WRITE_6, true, 1, 3, 4, 1 },
                { SCSI_READ_10, false, 2, 4, 7, 2 },  { SCSI_WRITE_10, true, 2, 4, 7, 2 },
                { SCSI_READ_12, false, 2, 4, 6, 4 },  { SCSI_WRITE_12, true, 2, 4, 6, 4 },
                { SCSI_READ_16, false, 2, 8, 10, 4 }, { SCSI_WRITE_16, true, 2, 8, 10, 4 },
        };

        for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
                bool short_one = forms[i].lba_len == 3;

                if (forms[i].op != cdb[0])
                        continue;
                *out = (struct srp_blocks) {
                        be_get(cdb + forms[i].lba, forms[i].lba_len) &
                            (short_one ? 0x1fffff : UINT64_MAX),
                        (uint32_t)be_get(cdb + forms[i].count, forms[i].count_len), forms[i].write
                };
                if (short_one && out->count == 0)
                        out->count = 256; /* SBC-3 5.10 */
                return true;
        }
        return false;
}

/* A logical unit is the namespace after its number. */
static uint64_t nsid_of(const struct srp_kept *k)
{
        return scsi_lun_number(k->lun) + UINT64_C(1);
}

static bool succeeds(const struct srp_record *r)
{
        return r->kept && r->rsp && !r->kept->manages && r->rsp->status == SCSI_GOOD;
}

static bool blocks(struct extract_blocks *b, const void *record, uint64_t nsid)
{
        const struct srp_record *r = record;
        struct srp_blocks of;
        uint32_t n;

        if (!succeeds(r) || nsid_of(r->kept) != nsid || !srp_blocks_of(r->kept->cdb, &of) ||
            of.count == 0)
                return false;
        b->first = of.lba;
        b->count = of.count;
        b->data = srp_kept_data(r->kept, r->rsp, &n);
        b->len = n;
        return true;
}

static uint32_t block_size(const void *record, uint64_t nsid)
{
        const struct srp_record *r = record;
        const uint8_t *data, *cdb = r->kept ? r->kept->cdb : NULL;
        uint32_t n;

        if (!succeeds(r) || nsid_of(r->kept) != nsid)
                return 0;
        data = srp_kept_data(r->kept, r->rsp, &n);
        if (data && cdb[0] == SCSI_READ_CAPACITY_10 && n >= 8)
                return (uint32_t)be_get(data + 4, 4);
        if (data && cdb[0] == SCSI_SERVICE_IN_16 && (cdb[1] & 0x1f) == SCSI_READ_CAPACITY_16 &&
            n >= 12)
                return (uint32_t)be_get(data + 8, 4);
        return 0;
}

static void command(struct json_object *o, const void *record)
{
        const struct srp_record *r = record;
        const struct srp_kept *k = r->kept;
        const uint8_t *data;
        uint32_t n;

        if (!k)
                return;
        json_object_object_add(o, "lun", json_object_new_uint64(scsi_lun_number(k->lun)));
        if (!k->manages)
                json_object_object_add(o, "cdb", extract_hex(k->cdb, sizeof(k->cdb)));
        data = srp_kept_data(k, r->rsp, &n);
        if (data && n <= INT32_MAX / 4)
                json_object_object_add(o, k->out ? "sent_data" : "got_data", extract_hex(data, n));
}

enum { RANK_LOGIN = 0x100, RANK_ANSWER }; /* after those of IUs */

static bool seed(struct extract_seed *s, const void *record, struct bytes *room)
{
        const struct srp_record *r = record;
        const struct trace_event *e = r->e;
        const struct trace_capsule *c = &e->capsule;
        bool cm = e->kind == TRACE_REQUEST || e->kind == TRACE_ACCEPT;

        (void)room;
        if (cm) {
                s->rank = e->kind == TRACE_REQUEST ? RANK_LOGIN : RANK_ANSWER;
                snprintf(s->kind, sizeof(s->kind), "srp-%s",
                         e->kind == TRACE_REQUEST ? "login" : "accept");
                s->p = e->cm.data;
                s->n = e->cm.len;
        } else if (e->kind == TRACE_CAPSULE && c->known == c->len && c->len > 0) {
                const struct srp_info *info = srp_info(c->data[0]);

                s->rank = c->data[0];
                snprintf(s->kind, sizeof(s->kind), "%s", info ? info->name : "SRP_unknown");
                s->p = c->data;
                s->n = c->len;
        } else {
                return false;
        }
        return true;
}

const struct trace_extract srp_extract = {
        .blocks = blocks, .block_size = block_size, .command = command, .seed = seed
};

/* SPDX-License-Identifier: BSD-3-Clause */
/* What SRP's messages are when they name nobody. */
#include "pcap/tools/anonymize.h"

#include <string.h>

#include "family.h"
#include "pdu/core/be.h"
#include "pdu/scsi/scsi.h"
#include "tools.h"

enum { HEAD = 4, PAGE_SERIAL = 0x80, PAGE_NAMES = 0x83, PAGE_ATA = 0x89 };

/* --- logins ----------------------------------------------------------------------------------- */

/* Ports are called otherwise, the same ones the same. */
static void private_data(const struct scrub *s, const struct trace_event *e, uint8_t *p, uint32_t n)
{
        const uint32_t names[] = { offsetof(struct srp_login_req_cm, initiator_port_id),
                                   offsetof(struct srp_login_req_cm, target_port_id) };
        uint32_t whole = offsetof(struct srp_login_req_cm, rsvd50);

        if (e->kind != TRACE_REQUEST)
                whole = e->kind == TRACE_ACCEPT ? sizeof(struct srp_login_rsp)
                                                : sizeof(struct srp_login_rej);
        for (unsigned i = 0; e->kind == TRACE_REQUEST && i < 2; i++)
                if (names[i] + sizeof(srp_port_id) <= n)
                        scrub_bytes(s, p + names[i], sizeof(srp_port_id));
        if (n > whole)
                memset(p + whole, 0, n - whole);
}

/* --- data ------------------------------------------------------------------------------------- */

static bool is_kept_as_it_is(const uint8_t *cdb)
{
        static const uint8_t ops[] = { SCSI_READ_CAPACITY_10, SCSI_SERVICE_IN_16,
                                       SCSI_REPORT_LUNS,      SCSI_MODE_SENSE_6,
                                       SCSI_MODE_SENSE_10,    SCSI_REQUEST_SENSE,
                                       SCSI_MAINTENANCE_IN,   SCSI_UNMAP };
        static const uint8_t named[] = { PAGE_SERIAL, PAGE_NAMES, PAGE_ATA };

        if (cdb[0] != SCSI_INQUIRY)
                return memchr(ops, cdb[0], sizeof(ops));
        return cdb[1] & 1 && !memchr(named, cdb[2], sizeof(named)) && cdb[2] < 0xc0;
}

/* Vendor, product and revision of INQUIRY (SPC-4 6.6.2); of a page its header stays. */
static void scrub_inquiry(const struct scrub *s, const uint8_t *cdb, const struct scrub_piece *d)
{
        static const struct scrub_place standard[] = { { 8, 28, scrub_letters } };
        uint64_t head = cdb[1] & 1 ? HEAD : 36;

        if (!(cdb[1] & 1))
                scrub_places(s, d, 0, standard, 1);
        for (size_t i = 0; i < d->n; i++)
                if (d->offset + i >= head)
                        d->p[i] = 0;
}

static void scrub_data(const struct scrub *s, const struct srp_kept *k, uint64_t offset, uint8_t *p,
                       size_t n)
{
        const struct scrub_piece d = { offset, p, n };
        struct srp_blocks unused;
        bool known = k && !k->manages; /* else nobody knows what it is */
        bool io = known && srp_blocks_of(k->cdb, &unused);

        if (known && is_kept_as_it_is(k->cdb))
                return;
        if (known && k->cdb[0] == SCSI_INQUIRY)
                scrub_inquiry(s, k->cdb, &d);
        else if (!io || !s->keep_data)
                memset(p, 0, n);
}

/* Immediate data, and what lies beyond all that the IU has. */
static void scrub_command(const struct scrub *s, const struct srp_record *r, uint8_t *p, uint32_t n)
{
        struct rule_set unused = { 0 };
        struct srp_cmd_parts parts;

        if (!srp_cmd_read(p, n, r->imm_at, &parts, &unused)) {
                if (n > sizeof(struct srp_cmd))
                        memset(p + sizeof(struct srp_cmd), 0, n - sizeof(struct srp_cmd));
                return;
        }
        if (parts.out.format == SRP_IMMEDIATE_DATA && parts.out.data_at)
                scrub_data(s, r->kept, 0, p + parts.out.data_at, parts.out.len);
}

static void capsule(const struct scrub *s, const void *record, uint8_t *p, uint32_t n)
{
        const struct srp_record *r = record;
        union srp_iu iu;

        if (srp_read(p, n, &iu) && iu.opcode == SRP_CMD)
                scrub_command(s, r, p, n);
}

/* A table of descriptors is no data: addresses and keys name nobody. */
static void transfer(const struct scrub *s, const void *record, uint8_t *p, size_t n)
{
        const struct srp_record *r = record;

        if (r->is_table)
                return;
        scrub_data(s, r->kept, r->offset, p, n);
}

const struct trace_anonymize srp_anonymize = {
        .private_data = sizeof(struct srp_login_req_cm) + 8,
        .private_bytes = private_data,
        .capsule = capsule,
        .transfer = transfer,
};

/* SPDX-License-Identifier: BSD-3-Clause */
#include "scrub.h"

#include <stdio.h>
#include <string.h>

#include "judge.h"
#include "pdu/nvme/wire/auth.h"
#include "pdu/nvme/wire/identify.h"
#include "pdu/nvme/wire/reservation.h"

/* --- structures ------------------------------------------------------------------------------- */

static void scrub_nqn(const struct scrub *s, uint8_t *p, size_t n)
{
        size_t len = strnlen((const char *)p, n);
        uint64_t hash = scrub_hash(s, p, len);
        size_t date = len > 12 && memcmp(p, "nqn.", 4) == 0 ? 12 : 0; /* "nqn.yyyy-mm." */
        char name[64];

        if (len == 0 || strncmp((const char *)p, NQN_DISCOVERY, n) == 0)
                return;
        if (!nqn_valid((const char *)p, n, false)) {
                scrub_letters(s, p + date, len - date);
                memset(p + len, 0, n - len);
                return;
        }
        snprintf(name, sizeof(name), ANONYMOUS_NQN "%016llx", (unsigned long long)hash);
        text_fill((char *)p, n, name);
}

#define LISTED(list) list, sizeof(list) / sizeof((list)[0])

static const struct scrub_place in_connect[] = {
        SCRUB_PLACE(struct connect_data, hostid, scrub_bytes),
        SCRUB_PLACE(struct connect_data, subnqn, scrub_nqn),
        SCRUB_PLACE(struct connect_data, hostnqn, scrub_nqn),
};
static const struct scrub_place in_id_ctrl[] = {
        SCRUB_PLACE(struct id_ctrl, sn, scrub_letters),
        SCRUB_PLACE(struct id_ctrl, mn, scrub_letters),
        SCRUB_PLACE(struct id_ctrl, fr, scrub_letters),
        SCRUB_PLACE(struct id_ctrl, fguid, scrub_bytes),
        SCRUB_PLACE(struct id_ctrl, subnqn, scrub_nqn),
        SCRUB_PLACE(struct id_ctrl, vs, scrub_zero),
};
static const struct scrub_place in_id_ns[] = {
        SCRUB_PLACE(struct id_ns, nguid, scrub_bytes),
        SCRUB_PLACE(struct id_ns, eui64, scrub_bytes),
        SCRUB_PLACE(struct id_ns, vs, scrub_zero),
};
static const struct scrub_place in_disc_entry[] = {
        SCRUB_PLACE(struct disc_entry, subnqn, scrub_nqn),
        SCRUB_PLACE(struct disc_entry, traddr, scrub_address_text),
};
/* Each slot on its own: the revision in use is the same text as FR. */
enum { REVISION = 8 };
#define SLOT(i)                                                                                    \
        {                                                                                          \
                offsetof(struct log_fw_slot, frs) + (i)*REVISION, REVISION, scrub_letters          \
        }
static const struct scrub_place in_fw_slot[] = {
        SLOT(0), SLOT(1), SLOT(2), SLOT(3), SLOT(4), SLOT(5), SLOT(6),
};
static const struct scrub_place in_pel[] = {
        SCRUB_PLACE(struct log_pel, sn, scrub_letters),
        SCRUB_PLACE(struct log_pel, mn, scrub_letters),
        SCRUB_PLACE(struct log_pel, subnqn, scrub_nqn),
};
static const struct scrub_place in_hostid[] = { { 0, 16, scrub_bytes } };

/* What is known to name nobody is left as it is; what is not known is emptied: vendors' own, telemetry,
 * hosts' names, metadata that an administrator wrote. */
struct harmless {
        uint8_t first, last;
};
static const struct harmless harmless_cns[] = {
        { CNS_NS_LIST, CNS_NS_LIST },
        { CNS_IOCS_NS, CNS_NS_INDEPENDENT },
        { CNS_ALLOCATED_NS_LIST, CNS_ALLOCATED_NS_LIST },
        { CNS_NS_CTRL_LIST, CNS_CTRL_LIST },
        { CNS_IOCS_ALLOCATED_NS_LIST, CNS_IOCS_ALLOCATED_NS_LIST },
        { CNS_IOCS, CNS_IOCS },
};
static const struct harmless harmless_logs[] = {
        { LOG_SUPPORTED, 0x06 }, /* to self-tests */
        { LOG_ANA, LOG_ANA },
        { LOG_FEATURE_EFFECTS, LOG_FEATURE_EFFECTS },
        { LOG_RESERVATION, LOG_SANITIZE },
};
static const struct harmless harmless_features[] = {
        { FEAT_TIMESTAMP, FEAT_TIMESTAMP },
        { FEAT_HOST_BEHAVIOR, FEAT_HOST_BEHAVIOR },
};

static bool is_harmless(const struct harmless *list, size_t n, uint8_t id)
{
        for (size_t i = 0; i < n; i++)
                if (id >= list[i].first && id <= list[i].last)
                        return true;
        return false;
}

/* Identification descriptors follow each other from the start; without that they cannot be read. */
static void replace_descriptors(const struct scrub *s, const struct scrub_piece *d)
{
        size_t at = 0;
        struct ns_id id;

        if (d->offset > 0) {
                memset(d->p, 0, d->n);
                return;
        }
        while (ns_desc_next(d->p, d->n, &at, &id))
                if (id.type != NIDT_CSI)
                        scrub_bytes(s, d->p + (id.bytes - d->p), id.len);
}

static void scrub_identify(const struct scrub *s, uint8_t cns, const struct scrub_piece *d)
{
        switch (cns) {
        case CNS_CTRL:
                scrub_places(s, d, 0, LISTED(in_id_ctrl));
                break;
        case CNS_NS:
        case CNS_ALLOCATED_NS:
                scrub_places(s, d, 0, LISTED(in_id_ns));
                break;
        case CNS_NS_DESCS:
                replace_descriptors(s, d);
                break;
        default:
                if (!is_harmless(LISTED(harmless_cns), cns))
                        memset(d->p, 0, d->n);
                break;
        }
}

/* Events have text of vendors: they are emptied, and so is what does not begin as this log does. */
static void scrub_events(const struct scrub *s, const struct scrub_piece *d)
{
        bool other = d->offset == 0 && d->n > 0 && d->p[0] != LOG_PERSISTENT;
        uint64_t kept = !other && d->offset < LOG_PEL_HEADER ? LOG_PEL_HEADER - d->offset : 0;

        scrub_places(s, d, 0, LISTED(in_pel));
        if (kept < d->n)
                memset(d->p + kept, 0, d->n - (size_t)kept);
}

static void scrub_log(const struct scrub *s, const union sqe *sqe, struct scrub_piece d)
{
        enum { WITH_CONTEXT = 3 << 8 }; /* the header, whatever the offset */
        uint8_t lid = (uint8_t)le32_get(sqe->cdw10);
        uint64_t first;

        if (lid == LOG_PERSISTENT && (le32_get(sqe->cdw10) & WITH_CONTEXT) == WITH_CONTEXT) {
                scrub_events(s, &d);
                return;
        }
        first = d.offset += le32_get(sqe->cdw12) | (uint64_t)le32_get(sqe->cdw13) << 32;
        if (lid == LOG_PERSISTENT) {
                scrub_events(s, &d);
                return;
        }
        if (lid == LOG_FW_SLOT)
                scrub_places(s, &d, 0, LISTED(in_fw_slot));
        if (lid != LOG_DISCOVERY) {
                if (!is_harmless(LISTED(harmless_logs), lid))
                        memset(d.p, 0, d.n);
                return;
        }
        first = first < DISC_HEADER_LEN ? 0 : (first - DISC_HEADER_LEN) / DISC_ENTRY_LEN;
        for (uint64_t at = DISC_HEADER_LEN + first * DISC_ENTRY_LEN; at < d.offset + d.n;
             at += DISC_ENTRY_LEN)
                scrub_places(s, &d, at, LISTED(in_disc_entry));
}

static bool is_unit(const uint8_t *dhv, unsigned len)
{
        while (len > 1 && *dhv == 0)
                dhv++, len--;
        return len == 0 || (len == 1 && *dhv <= 1);
}

/* Random values, responses and DH values by others of their length; those that are wrong by themselves
 * stay. What nobody can read keeps the bytes that say what it is and how long. */
static void scrub_auth(const struct scrub *s, const struct scrub_piece *d)
{
        size_t head = d->n < sizeof(struct auth_challenge) ? d->n : sizeof(struct auth_challenge);
        struct auth_view v;

        if (d->offset > 0 || auth_view(&v, d->p, d->n) != 0) {
                head = d->offset > 0 ? 0 : head;
                scrub_bytes(s, d->p + head, d->n - head);
                return;
        }
        if (v.rval)
                scrub_bytes(s, d->p + (v.rval - d->p), v.hl);
        if (v.cval)
                scrub_bytes(s, d->p + (v.cval - d->p), v.hl);
        if (v.dhv && !is_unit(v.dhv, v.dhvlen))
                scrub_bytes(s, d->p + (v.dhv - d->p), v.dhvlen);
        scrub_bytes(s, d->p + v.len, d->n - v.len);
}

static void scrub_admin(const struct scrub *s, const union sqe *sqe, const struct scrub_piece *d)
{
        uint8_t selector = (uint8_t)le32_get(sqe->cdw10);
        bool feature = sqe->opc == NVME_SET_FEATURES || sqe->opc == NVME_GET_FEATURES;

        if (sqe_is_connect(sqe))
                scrub_places(s, d, 0, LISTED(in_connect));
        else if (sqe_is_auth(sqe))
                scrub_auth(s, d);
        else if (sqe->opc == NVME_IDENTIFY)
                scrub_identify(s, selector, d);
        else if (sqe->opc == NVME_GET_LOG_PAGE)
                scrub_log(s, sqe, *d);
        else if (feature && selector == FEAT_HOSTID)
                scrub_places(s, d, 0, LISTED(in_hostid));
        else if (!feature || !is_harmless(LISTED(harmless_features), selector))
                memset(d->p, 0, d->n);
}

/* By sectors, so that the same ones stay the same wherever they are read or written. */
static void scrub_blocks(const struct scrub *s, const struct scrub_piece *d)
{
        size_t done = 0;

        while (done < d->n) {
                size_t run = 512 - (size_t)((d->offset + done) % 512);

                if (run > d->n - done)
                        run = d->n - done;
                scrub_bytes(s, d->p + done, run);
                done += run;
        }
}

/* Keys and Host Identifiers of Reservation Report; who holds what stays. */
static void scrub_report(const struct scrub *s, bool extended, const struct scrub_piece *d)
{
        size_t head = extended ? REPORT_HEADER : sizeof(struct reservation_status);
        size_t entry =
            extended ? sizeof(struct reservation_entry_extended) : sizeof(struct reservation_entry);

        for (size_t i = 0; i < d->n; i++) {
                uint64_t at = d->offset + i;

                if (at >= head && (at - head) % entry >= offsetof(struct reservation_entry, hostid))
                        scrub_bytes(s, d->p + i, 1);
        }
}

void scrub_data(const struct scrub *s, const union sqe *sqe, bool admin, uint64_t offset,
                uint8_t *p, size_t n)
{
        struct scrub_piece d = { offset, p, n };

        if (admin || sqe->opc == NVME_FABRICS)
                scrub_admin(s, sqe, &d);
        else if (sqe->opc == NVME_RESERVATION_REPORT)
                scrub_report(s, le32_get(sqe->cdw11) & REPORT_EXTENDED, &d);
        else if (!s->keep_data && sqe->opc != NVME_DSM && sqe->opc != NVME_COPY)
                scrub_blocks(s, &d);
}

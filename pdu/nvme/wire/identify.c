/* SPDX-License-Identifier: BSD-3-Clause */
#include "identify.h"

#include <inttypes.h>
#include <string.h>

/* --- Identify Controller ---------------------------------------------------------------------- */

static void version_text(struct text *t, uint64_t v)
{
        text_add(t, "%u.%u.%u", (unsigned)(v >> 16), (unsigned)(v >> 8 & 0xff),
                 (unsigned)(v & 0xff));
}

static void mdts_text(struct text *t, uint64_t v)
{
        if (v == 0)
                text_add(t, "no limit");
        else if (v < 32)
                text_add(t, "%" PRIu64 " KiB where MPSMIN is 4 KiB", UINT64_C(4) << v);
}

static void kas_text(struct text *t, uint64_t v)
{
        text_add(t, "%" PRIu64 " ms", v * 100);
}

static void say_16_bytes(struct text *t, uint64_t v)
{
        text_add(t, "%" PRIu64 " bytes", v * 16);
}

static void us_text(struct text *t, uint64_t v)
{
        if (v)
                text_add(t, "%" PRIu64 " us", v);
}

static void ms_text(struct text *t, uint64_t v)
{
        if (v)
                text_add(t, "%" PRIu64 " ms", v);
}

static void kelvin_text(struct text *t, uint64_t v)
{
        if (v)
                text_add(t, "%d C", (int)v - 273);
}

static void entry_sizes_text(struct text *t, uint64_t v)
{
        text_add(t, "%u to %u bytes", 1u << (v & 15), 1u << (v >> 4 & 15));
}

static void no_limit_text(struct text *t, uint64_t v)
{
        if (v == 0)
                text_add(t, "no limit");
}

static const struct field id_ctrl_fields[] = {
        FIELD(struct id_ctrl, vid),
        FIELD(struct id_ctrl, ssvid),
        FIELD(struct id_ctrl, sn, .kind = FIELD_STRING),
        FIELD(struct id_ctrl, mn, .kind = FIELD_STRING),
        FIELD(struct id_ctrl, fr, .kind = FIELD_STRING),
        FIELD(struct id_ctrl, rab),
        FIELD(struct id_ctrl, ieee),
        FIELD(struct id_ctrl, cmic, .kind = FIELD_BITS,
              .words = WORDS({ 1 << 0, "several ports" }, { 1 << 1, "several controllers" },
                             { 1 << 2, "SR-IOV" }, { 1 << 3, "ANA" })),
        FIELD(struct id_ctrl, mdts, .say = mdts_text),
        FIELD(struct id_ctrl, cntlid),
        FIELD(struct id_ctrl, ver, .say = version_text),
        FIELD(struct id_ctrl, rtd3r, .say = us_text),
        FIELD(struct id_ctrl, rtd3e, .say = us_text),
        FIELD(struct id_ctrl, oaes, .kind = FIELD_BITS,
              .words = WORDS({ OAES_NS, "namespace" }, { 1 << 9, "firmware" }, { OAES_ANA, "ANA" },
                             { OAES_DISCOVERY, "discovery" })),
        FIELD(struct id_ctrl, ctratt, .kind = FIELD_BITS,
              .words =
                  WORDS({ CTRATT_HOSTID128, "128-bit host identifier" }, { 1 << 2, "NVM sets" },
                        { 1 << 4, "endurance groups" },
                        { CTRATT_TBKAS, "traffic based keep alive" }, { 1 << 8, "SQ associations" },
                        { 1 << 9, "UUID list" }, { 1 << 15, "extended LBA formats" })),
        FIELD(struct id_ctrl, rrls),
        FIELD(struct id_ctrl, cntrltype,
              .words = WORDS({ CNTRLTYPE_IO, "I/O" }, { CNTRLTYPE_DISCOVERY, "discovery" },
                             { CNTRLTYPE_ADMIN, "administrative" })),
        FIELD(struct id_ctrl, fguid, .kind = FIELD_UUID),
        FIELD(struct id_ctrl, crdt1),
        FIELD(struct id_ctrl, crdt2),
        FIELD(struct id_ctrl, crdt3),
        FIELD(struct id_ctrl, oacs, .kind = FIELD_BITS,
              .words = WORDS({ 1 << 0, "security" }, { 1 << 1, "format" }, { 1 << 2, "firmware" },
                             { 1 << 3, "namespace management" }, { 1 << 4, "self-test" },
                             { 1 << 5, "directives" }, { 1 << 6, "NVMe-MI" },
                             { 1 << 7, "virtualization" }, { 1 << 8, "doorbell buffer" },
                             { 1 << 9, "LBA status" }, { 1 << 10, "lockdown" })),
        FIELD(struct id_ctrl, acl, .kind = FIELD_ZERO_BASED),
        FIELD(struct id_ctrl, aerl, .kind = FIELD_ZERO_BASED),
        FIELD(struct id_ctrl, frmw),
        FIELD(struct id_ctrl, lpa, .kind = FIELD_BITS,
              .words = WORDS({ LPA_SMART_NS, "SMART per namespace" }, { LPA_EFFECTS, "effects" },
                             { LPA_EXTENDED, "extended data" }, { 1 << 3, "telemetry" },
                             { 1 << 4, "persistent events" }, { 1 << 5, "supported log pages" })),
        FIELD(struct id_ctrl, elpe, .kind = FIELD_ZERO_BASED),
        FIELD(struct id_ctrl, npss, .kind = FIELD_ZERO_BASED),
        FIELD(struct id_ctrl, avscc),
        FIELD(struct id_ctrl, apsta),
        FIELD(struct id_ctrl, wctemp, .say = kelvin_text),
        FIELD(struct id_ctrl, cctemp, .say = kelvin_text),
        FIELD(struct id_ctrl, mtfa),
        FIELD(struct id_ctrl, hmpre),
        FIELD(struct id_ctrl, hmmin),
        FIELD(struct id_ctrl, tnvmcap),
        FIELD(struct id_ctrl, unvmcap),
        FIELD(struct id_ctrl, rpmbs),
        FIELD(struct id_ctrl, edstt),
        FIELD(struct id_ctrl, dsto),
        FIELD(struct id_ctrl, fwug),
        FIELD(struct id_ctrl, kas, .say = kas_text),
        FIELD(struct id_ctrl, hctma),
        FIELD(struct id_ctrl, mntmt, .say = kelvin_text),
        FIELD(struct id_ctrl, mxtmt, .say = kelvin_text),
        FIELD(struct id_ctrl, sanicap),
        FIELD(struct id_ctrl, hmminds),
        FIELD(struct id_ctrl, hmmaxd),
        FIELD(struct id_ctrl, nsetidmax),
        FIELD(struct id_ctrl, endgidmax),
        FIELD(struct id_ctrl, anatt),
        FIELD(struct id_ctrl, anacap, .kind = FIELD_BITS,
              .words = WORDS({ 1 << 0, "optimized" }, { 1 << 1, "non-optimized" },
                             { 1 << 2, "inaccessible" }, { 1 << 3, "persistent loss" },
                             { 1 << 4, "change" }, { 1 << 6, "ANAGRPID static" },
                             { 1 << 7, "ANAGRPID in namespace management" })),
        FIELD(struct id_ctrl, anagrpmax),
        FIELD(struct id_ctrl, nanagrpid),
        FIELD(struct id_ctrl, pels),
        FIELD(struct id_ctrl, domainid),
        FIELD(struct id_ctrl, megcap),
        FIELD(struct id_ctrl, tmpthha),
        FIELD(struct id_ctrl, cqt, .say = ms_text),
        FIELD(struct id_ctrl, sqes, .say = entry_sizes_text),
        FIELD(struct id_ctrl, cqes, .say = entry_sizes_text),
        FIELD(struct id_ctrl, maxcmd),
        FIELD(struct id_ctrl, nn),
        FIELD(struct id_ctrl, oncs, .kind = FIELD_BITS,
              .words = WORDS(
                  { ONCS_COMPARE, "Compare" }, { ONCS_WRITE_UNCORRECTABLE, "Write Uncorrectable" },
                  { ONCS_DSM, "Dataset Management" }, { ONCS_WRITE_ZEROES, "Write Zeroes" },
                  { ONCS_SAVE, "save and select" }, { 1 << 5, "reservations" },
                  { ONCS_TIMESTAMP, "timestamp" }, { ONCS_VERIFY, "Verify" },
                  { ONCS_COPY, "Copy" })),
        FIELD(struct id_ctrl, fuses, .kind = FIELD_BITS,
              .words = WORDS({ 1 << 0, "Compare and Write" })),
        FIELD(struct id_ctrl, fna),
        FIELD(struct id_ctrl, vwc, .kind = FIELD_BITS, .words = WORDS({ 1 << 0, "present" })),
        FIELD(struct id_ctrl, awun, .kind = FIELD_ZERO_BASED),
        FIELD(struct id_ctrl, awupf, .kind = FIELD_ZERO_BASED),
        FIELD(struct id_ctrl, icsvscc),
        FIELD(struct id_ctrl, nwpc),
        FIELD(struct id_ctrl, acwu, .kind = FIELD_ZERO_BASED),
        FIELD(struct id_ctrl, cdfs),
        FIELD(struct id_ctrl, sgls, .kind = FIELD_BITS,
              .words =
                  WORDS({ 1 << 0, "supported" }, { 1 << 1, "dword aligned" }, { 1 << 2, "keyed" },
                        { 1 << 16, "bit bucket" }, { 1 << 17, "byte aligned metadata" },
                        { 1 << 18, "longer than data" }, { 1 << 19, "metadata by SGL" },
                        { 1 << 20, "offset" }, { 1 << 21, "transport" })),
        FIELD(struct id_ctrl, mnan),
        FIELD(struct id_ctrl, maxdna),
        FIELD(struct id_ctrl, maxcna),
        FIELD(struct id_ctrl, oaqd),
        FIELD(struct id_ctrl, subnqn, .kind = FIELD_STRING),
        FIELD(struct id_ctrl, ioccsz, .say = say_16_bytes),
        FIELD(struct id_ctrl, iorcsz, .say = say_16_bytes),
        FIELD(struct id_ctrl, icdoff, .say = say_16_bytes),
        FIELD(struct id_ctrl, fcatt, .bits = 1,
              .words = WORDS({ 0, "dynamic controllers" }, { 1, "static controllers" })),
        FIELD(struct id_ctrl, msdbd, .say = no_limit_text),
        FIELD(struct id_ctrl, ofcs, .kind = FIELD_BITS,
              .words = WORDS({ OFCS_DISCONNECT, "Disconnect" })),
        FIELD(struct id_ctrl, dctype,
              .words = WORDS({ 0, "not reported" }, { 1, "direct" }, { 2, "central" })),
        { 0 },
};

static const struct field power_state_fields[] = {
        FIELD(struct id_power_state, mp),
        FIELD(struct id_power_state, flags, .kind = FIELD_BITS,
              .words = WORDS({ 1 << 0, "in 0.1 mW" }, { 1 << 1, "non-operational" })),
        FIELD(struct id_power_state, enlat, .say = us_text),
        FIELD(struct id_power_state, exlat, .say = us_text),
        FIELD(struct id_power_state, rrt),
        FIELD(struct id_power_state, rrl),
        FIELD(struct id_power_state, rwt),
        FIELD(struct id_power_state, rwl),
        FIELD(struct id_power_state, idlp),
        FIELD(struct id_power_state, ips, .shift = 6, .bits = 2),
        FIELD(struct id_power_state, actp),
        FIELD(struct id_power_state, aps, .shift = 6, .bits = 2),
        { 0 },
};

static void describe_id_ctrl(const struct describe *d, const struct id_ctrl *c)
{
        unsigned states = c->npss < 32 ? c->npss + 1u : 32u;

        describe_fields(d, id_ctrl_fields, c);
        for (unsigned i = 0; i < states; i++) {
                d->group(d->arg, "psd[]");
                describe_fields(d, power_state_fields, &c->psd[i]);
                d->group(d->arg, NULL);
        }
}

/* --- Identify Namespace ----------------------------------------------------------------------- */

static const struct field id_ns_fields[] = {
        FIELD(struct id_ns, nsze),
        FIELD(struct id_ns, ncap),
        FIELD(struct id_ns, nuse),
        FIELD(struct id_ns, nsfeat, .kind = FIELD_BITS,
              .words = WORDS({ 1 << 0, "thin" }, { 1 << 1, "own atomic sizes" },
                             { 1 << 2, "error for deallocated blocks" },
                             { 1 << 3, "identifiers not reused" }, { 1 << 4, "optimal sizes" })),
        FIELD(struct id_ns, nlbaf, .kind = FIELD_ZERO_BASED),
        FIELD(struct id_ns, flbas),
        FIELD(struct id_ns, mc),
        FIELD(struct id_ns, dpc),
        FIELD(struct id_ns, dps),
        FIELD(struct id_ns, nmic, .kind = FIELD_BITS, .words = WORDS({ 1 << 0, "shared" })),
        FIELD(struct id_ns, rescap),
        FIELD(struct id_ns, fpi),
        FIELD(struct id_ns, dlfeat, .kind = FIELD_BITS,
              .words = WORDS({ 1 << 0, "deallocated blocks read 00h" },
                             { 1 << 1, "deallocated blocks read FFh" },
                             { 1 << 3, "deallocate in Write Zeroes" })),
        FIELD(struct id_ns, nawun, .kind = FIELD_ZERO_BASED),
        FIELD(struct id_ns, nawupf, .kind = FIELD_ZERO_BASED),
        FIELD(struct id_ns, nacwu, .kind = FIELD_ZERO_BASED),
        FIELD(struct id_ns, nabsn, .kind = FIELD_ZERO_BASED),
        FIELD(struct id_ns, nabo),
        FIELD(struct id_ns, nabspf, .kind = FIELD_ZERO_BASED),
        FIELD(struct id_ns, noiob),
        FIELD(struct id_ns, nvmcap),
        FIELD(struct id_ns, npwg, .kind = FIELD_ZERO_BASED),
        FIELD(struct id_ns, npwa, .kind = FIELD_ZERO_BASED),
        FIELD(struct id_ns, npdg, .kind = FIELD_ZERO_BASED),
        FIELD(struct id_ns, npda, .kind = FIELD_ZERO_BASED),
        FIELD(struct id_ns, nows, .kind = FIELD_ZERO_BASED),
        FIELD(struct id_ns, mssrl),
        FIELD(struct id_ns, mcl),
        FIELD(struct id_ns, msrc, .kind = FIELD_ZERO_BASED),
        FIELD(struct id_ns, anagrpid),
        FIELD(struct id_ns, nsattr, .kind = FIELD_BITS,
              .words = WORDS({ 1 << 0, "write protected" })),
        FIELD(struct id_ns, nvmsetid),
        FIELD(struct id_ns, endgid),
        FIELD(struct id_ns, nguid, .kind = FIELD_BYTES),
        FIELD(struct id_ns, eui64, .kind = FIELD_BYTES),
        { 0 },
};

static void block_text(struct text *t, uint64_t v)
{
        if (v >= 9 && v < 32)
                text_add(t, "%" PRIu64 " bytes", UINT64_C(1) << v);
}

static const struct field lbaf_fields[] = {
        FIELD(struct lbaf, ms),
        FIELD(struct lbaf, lbads, .say = block_text),
        FIELD(struct lbaf, rp, .bits = 2,
              .words = WORDS({ 0, "best" }, { 1, "better" }, { 2, "good" }, { 3, "degraded" })),
        { 0 },
};

unsigned id_ns_format(const struct id_ns *n)
{
        bool many = n->nlbaf + n->nulbaf >= 16; /* else bits 6:5 are ignored (N1.0 figure 97) */

        return (n->flbas & 0xfu) | (many ? (n->flbas >> 5 & 3u) << 4 : 0);
}

void describe_id_ns(const struct describe *d, const struct id_ns *n)
{
        unsigned formats = n->nlbaf < 64 ? n->nlbaf + 1u : 64u;

        describe_fields(d, id_ns_fields, n);
        for (unsigned i = 0; i < formats; i++) {
                d->group(d->arg, "lbaf[]");
                d->number(d->arg, "in_use", i == id_ns_format(n), 1, NULL);
                describe_fields(d, lbaf_fields, &n->lbaf[i]);
                d->group(d->arg, NULL);
        }
}

uint32_t id_ns_block_size(const struct id_ns *n)
{
        uint8_t lbads = n->lbaf[id_ns_format(n)].lbads;

        return lbads >= LBADS_MIN && lbads <= LBADS_MAX ? UINT32_C(1) << lbads : 0;
}

unsigned id_ns_metadata(const struct id_ns *n)
{
        return le16_get(n->lbaf[id_ns_format(n)].ms);
}

/* Left-justified, and padded with spaces. */
static bool is_text(const char *s, size_t n)
{
        bool empty = true;

        for (size_t i = 0; i < n; i++) {
                if (s[i] < ' ' || s[i] > '~')
                        return false;
                empty &= s[i] == ' ';
        }
        return empty || s[0] != ' ';
}

const char *id_text_fault(const struct id_ctrl *id)
{
        if (!is_text(id->sn, sizeof(id->sn)))
                return "SN";
        if (!is_text(id->mn, sizeof(id->mn)))
                return "MN";
        return is_text(id->fr, sizeof(id->fr)) ? NULL : "FR";
}

/* Bits 3:0 are the required size, bits 7:4 the maximum. */
bool id_entry_sizes_right(const struct id_ctrl *id)
{
        enum { SQE_LOG2 = 6, CQE_LOG2 = 4 };

        return (id->sqes & 0xf) == SQE_LOG2 && id->sqes >> 4 >= SQE_LOG2 &&
               (id->cqes & 0xf) == CQE_LOG2 && id->cqes >> 4 >= CQE_LOG2;
}

const char *id_ns_fault(const struct id_ns *n)
{
        uint64_t nsze = le64_get(n->nsze), ncap = le64_get(n->ncap);

        if (nsze == 0)
                return NULL;
        if (ncap > nsze)
                return "NCAP is above NSZE";
        if (le64_get(n->nuse) > ncap)
                return "NUSE is above NCAP";
        return n->lbaf[id_ns_format(n)].lbads < LBADS_MIN
                   ? "the LBA format that FLBAS selects does not have blocks of at least 512 bytes"
                   : NULL;
}

/* --- lists ------------------------------------------------------------------------------------ */

bool ns_desc_next(const void *list, size_t len, size_t *at, struct ns_id *id)
{
        const uint8_t *p = (const uint8_t *)list + *at;
        struct ns_desc head;

        if (*at > len || len - *at < sizeof(head))
                return false;
        memcpy(&head, p, sizeof(head));
        if (head.nidt == 0 || head.nidl == 0 || head.nidl > len - *at - sizeof(head))
                return false;
        *id = (struct ns_id) { head.nidt, head.nidl, p + sizeof(head) };
        *at += sizeof(head) + head.nidl;
        return true;
}

const char *ns_descs_fault(const void *list, size_t len)
{
        static const uint8_t lengths[] = {
                [NIDT_EUI64] = 8, [NIDT_NGUID] = 16, [NIDT_UUID] = 16, [NIDT_CSI] = 1
        };
        const uint8_t *p = list;
        uint32_t seen = 0;
        struct ns_id id;
        size_t at = 0;

        while (ns_desc_next(list, len, &at, &id)) {
                if (id.type > NIDT_CSI)
                        continue;
                if (id.len != lengths[id.type])
                        return "NIDL is not the length of its NIDT";
                if (seen & UINT32_C(1) << id.type)
                        return "an NIDT occurs twice";
                seen |= UINT32_C(1) << id.type;
        }
        if (len - at >= sizeof(struct ns_desc) && p[at] != 0 && p[at + 1] != 0)
                return "a descriptor extends beyond the end of the list";
        return seen & (1 << NIDT_EUI64 | 1 << NIDT_NGUID | 1 << NIDT_UUID)
                   ? NULL
                   : "no EUI64, NGUID or UUID is present";
}

bool ns_desc_put(void *list, size_t len, size_t *at, const struct ns_id *id)
{
        struct ns_desc head = { .nidt = id->type, .nidl = id->len };
        uint8_t *p = (uint8_t *)list + *at;

        if (*at > len || len - *at < sizeof(head) + id->len)
                return false;
        memcpy(p, &head, sizeof(head));
        memcpy(p + sizeof(head), id->bytes, id->len);
        *at += sizeof(head) + id->len;
        return true;
}

static const struct field ns_id_eui64[] = { FIELD_AT("eui64", 0, 8, .kind = FIELD_BYTES), { 0 } };
static const struct field ns_id_nguid[] = { FIELD_AT("nguid", 0, 16, .kind = FIELD_BYTES), { 0 } };
static const struct field ns_id_uuid[] = { FIELD_AT("uuid", 0, 16, .kind = FIELD_UUID), { 0 } };
static const struct field ns_id_csi[] = { FIELD_AT("csi", 0, 1, .words = WORDS({ 0, "NVM" })),
                                          { 0 } };

static const struct field *ns_id_fields(const struct ns_id *id)
{
        static const struct {
                uint8_t len;
                const struct field *fields;
        } known[] = {
                [NIDT_EUI64] = { 8, ns_id_eui64 },
                [NIDT_NGUID] = { 16, ns_id_nguid },
                [NIDT_UUID] = { 16, ns_id_uuid },
                [NIDT_CSI] = { 1, ns_id_csi },
        };

        if (id->type >= sizeof(known) / sizeof(known[0]) || id->len < known[id->type].len)
                return NULL;
        return known[id->type].fields;
}

static void describe_ns_descs(const struct describe *d, const void *list, size_t len)
{
        struct ns_id id;

        for (size_t at = 0; ns_desc_next(list, len, &at, &id);) {
                d->group(d->arg, "descriptor[]");
                d->number(d->arg, "nidt", id.type, 8, NULL);
                d->number(d->arg, "nidl", id.len, 8, NULL);
                if (ns_id_fields(&id))
                        describe_fields(d, ns_id_fields(&id), id.bytes);
                d->group(d->arg, NULL);
        }
}

uint32_t ns_list_get(const void *list, size_t i)
{
        return (uint32_t)le_get((const uint8_t *)list + i * 4, 4);
}

size_t ns_list_count(const void *list, size_t len)
{
        size_t n = 0;

        while (n < len / 4 && ns_list_get(list, n) != 0)
                n++;
        return n;
}

static void describe_ns_list(const struct describe *d, const void *list, size_t len)
{
        for (size_t i = 0; i < ns_list_count(list, len); i++) {
                d->group(d->arg, "namespace[]");
                d->number(d->arg, "nsid", ns_list_get(list, i), 32, NULL);
                d->group(d->arg, NULL);
        }
}

bool describe_identify(const struct describe *d, uint8_t cns, const void *data, size_t len)
{
        if (len < IDENTIFY_LEN)
                return false;
        switch (cns) {
        case CNS_CTRL:
                describe_id_ctrl(d, data);
                return true;
        case CNS_NS:
        case CNS_ALLOCATED_NS:
                describe_id_ns(d, data);
                return true;
        case CNS_NS_DESCS:
                describe_ns_descs(d, data, IDENTIFY_LEN);
                return true;
        case CNS_NS_LIST:
        case CNS_IOCS_NS_LIST:
        case CNS_ALLOCATED_NS_LIST:
        case CNS_IOCS_ALLOCATED_NS_LIST:
                describe_ns_list(d, data, IDENTIFY_LEN);
                return true;
        default:
                return false;
        }
}

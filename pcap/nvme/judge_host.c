/* SPDX-License-Identifier: BSD-3-Clause */
/* What hosts say and do beyond a command's fields: names, registrations, and what they have learnt in
 * associations that are over. */
#include <string.h>

#include "judge.h"
#include "pdu/core/bytes.h"

/* --- names -------------------------------------------------------------------------------------- */

void judge_names(const struct connect_data *c, struct rule_set *found)
{
        bool whole = memchr(c->hostnqn, 0, NQN_FIELD) && memchr(c->subnqn, 0, NQN_FIELD);

        judge_finds(found, whole && (!nqn_is_formed(c->hostnqn) || !nqn_is_formed(c->subnqn)),
                    FAB_NQN_FORM);
}

/* --- Discovery Information Management ----------------------------------------------------------- */

enum {
        TASK_UPDATE = 2,
        BASIC = 1,
        EXTENDED,
        OF_HOST = 1,
        OF_DDC,
        OF_CDC,
        BY_PORT = 0x3f,
        BY_TRADDR = 0x5f,
        ATTRIBUTE_HOSTID = 1,
        HOSTID_LEN = 16,
};

struct registration {
        le32_t tdl, rsvd4;
        le64_t nument;
        le16_t entfmt, etype;
        uint8_t portlcl, rsvd21;
        le16_t ektype;
        char eid[256], ename[256], ever[64];
        uint8_t rsvd600[424];
};
_Static_assert(sizeof(struct registration) == 1024, "Discovery Information Management");

struct extended_entry { /* attributes follow */
        uint8_t basic[1024];
        le32_t tel;
        le16_t numexat, rsvd1030;
};
struct attribute {
        le16_t type, len;
};

static bool names_host(const struct extended_entry *e, size_t room)
{
        size_t at = sizeof(*e);
        struct attribute a;

        for (unsigned n = le16_get(e->numexat); n > 0 && at + sizeof(a) <= room; n--) {
                memcpy(&a, (const uint8_t *)e + at, sizeof(a));
                if (le16_get(a.type) == ATTRIBUTE_HOSTID && le16_get(a.len) == HOSTID_LEN)
                        return true;
                at += sizeof(a) + le16_get(a.len);
        }
        return false;
}

/* Of those that are there. */
static bool all_name_hosts(const uint8_t *p, size_t len, uint64_t n)
{
        for (; n > 0 && len >= sizeof(struct extended_entry); n--) {
                const struct extended_entry *e = (const void *)p;
                size_t tel = le32_get(e->tel);

                if (!names_host(e, len))
                        return false;
                if (tel < sizeof(*e) || tel > len)
                        break;
                p += tel;
                len -= tel;
        }
        return true;
}

static bool is_right_kind(const struct registration *r)
{
        bool ddc = le16_get(r->etype) == OF_DDC;
        unsigned key = le16_get(r->ektype), format = le16_get(r->entfmt);

        return le16_get(r->etype) >= OF_HOST && le16_get(r->etype) <= OF_CDC &&
               (format == EXTENDED || (ddc && format == BASIC)) &&
               (key == BY_TRADDR || (ddc && key == BY_PORT)) && (ddc || !r->portlcl);
}

void judge_registration(const struct session_cmd *cmd, struct rule_set *found)
{
        const struct registration *r = (const void *)cmd->data;
        uint64_t n;
        bool update = (le32_get(cmd->sqe.cdw10) & 15) == TASK_UPDATE;

        if (!r || cmd->data_cut || cmd->data_len < sizeof(*r))
                return;
        n = le64_get(r->nument);
        judge_finds(found,
                    (update ? n != 2 : n == 0) || le32_get(r->tdl) > cmd->data_len ||
                        !is_right_kind(r) || !memchr(r->eid, 0, sizeof(r->eid)) ||
                        !nqn_has_uuid(r->eid) ||
                        (le16_get(r->etype) != OF_DDC &&
                         !all_name_hosts(cmd->data + sizeof(*r), cmd->data_len - sizeof(*r), n)),
                    DISC_REGISTRATION);
        judge_finds(found, le32_get(r->rsvd4) || r->rsvd21, CMD_RSVD);
}

/* In a log page of hosts, from its beginning; entries beyond what was read are not looked at. */
bool hosts_are_named(const uint8_t *log, size_t len)
{
        enum { HEADER = 1024, NUMREC = 8 };

        return len < HEADER || all_name_hosts(log + HEADER, len - HEADER, le_get(log + NUMREC, 8));
}

/* --- what commands describe ---------------------------------------------------------------------- */

enum {
        COPY_FORMAT_BIT = 8,
        COPY_RANGE = 32,   /* bytes of a source range of format 0h; */
        COPY_RANGE_1 = 40, /* ... of 1h */
        LBA_RANGE = 64,
        LBA_RANGES_MASK = 0x3f,
};

static bool overlap(uint64_t a, uint64_t a_len, uint64_t b, uint64_t b_len)
{
        return a < b + b_len && b < a + a_len;
}

static uint64_t copied(const uint8_t *range)
{
        return le_get(range + 16, 2) + 1;
}

/* Formats 0h and 1h: all is in one namespace. */
static bool overlaps_itself(const struct session_cmd *cmd)
{
        uint32_t cdw12 = le32_get(cmd->sqe.cdw12), format = cdw12 >> COPY_FORMAT_BIT & 15;
        size_t size = format ? COPY_RANGE_1 : COPY_RANGE, n = (cdw12 & 0xff) + 1;
        uint64_t to = le_get(cmd->sqe.bytes + 40, 8), blocks = 0;

        if (format > 1 || n * size > cmd->data_len)
                return false;
        for (size_t i = 0; i < n; i++)
                blocks += copied(cmd->data + i * size);
        for (size_t i = 0; i < n; i++)
                if (overlap(le_get(cmd->data + i * size + 8, 8), copied(cmd->data + i * size), to,
                            blocks))
                        return true;
        return false;
}

static bool ranges_overlap(const struct session_cmd *cmd)
{
        size_t n = (le32_get(cmd->sqe.cdw11) & LBA_RANGES_MASK) + 1;
        const uint8_t *d = cmd->data;

        for (size_t i = 1; i < n && (i + 1) * LBA_RANGE <= cmd->data_len; i++)
                for (size_t k = 0; k < i; k++)
                        if (overlap(le_get(d + i * LBA_RANGE + 16, 8),
                                    le_get(d + i * LBA_RANGE + 24, 8),
                                    le_get(d + k * LBA_RANGE + 16, 8),
                                    le_get(d + k * LBA_RANGE + 24, 8)))
                                return true;
        return false;
}

/* Of the NVM command set; what later revisions may have made of the rest is let pass. */
static bool creates_with_reserved(const struct session_cmd *cmd)
{
        const uint8_t *d = cmd->data;

        return le32_get(cmd->sqe.cdw11) >> 24 == 0 && cmd->data_len >= 104 &&
               (any_set(d + 16, 10) || any_set(d + 27, 2) || any_set(d + 31, 61) ||
                any_set(d + 96, 4));
}

void judge_description(const struct session *s, const struct session_cmd *cmd,
                       struct rule_set *found)
{
        const union sqe *sqe = &cmd->sqe;
        bool admin = s->qid == 0;

        if (!cmd->data || cmd->data_cut)
                return;
        judge_finds(found, s->qid > 0 && sqe->opc == NVME_COPY && overlaps_itself(cmd),
                    NVM_OVERLAPS);
        judge_finds(found,
                    admin && sqe->opc == NVME_SET_FEATURES && sqe->cdw10.b[0] == FEAT_LBA_RANGES &&
                        ranges_overlap(cmd),
                    NVM_OVERLAPS);
        judge_finds(found,
                    admin && sqe->opc == NVME_NS_MANAGEMENT && !(sqe->cdw10.b[0] & 15) &&
                        creates_with_reserved(cmd),
                    CMD_RSVD);
}

/* --- what a host remembers ---------------------------------------------------------------------- */

static bool same_names(const struct connect_data *a, const struct connect_data *b)
{
        return memcmp(a->hostid, b->hostid, sizeof(a->hostid)) == 0 &&
               strncmp(a->hostnqn, b->hostnqn, NQN_FIELD) == 0 &&
               strncmp(a->subnqn, b->subnqn, NQN_FIELD) == 0;
}

/* Commands that change blocks, and lead to the same when they are sent twice. */
static bool changes_blocks(uint8_t opc)
{
        static const uint8_t opcodes[] = { NVME_WRITE, NVME_WRITE_ZEROES,
                                           NVME_WRITE_UNCORRECTABLE };

        return memchr(opcodes, opc, sizeof(opcodes)) != NULL;
}

static bool same_blocks(const union sqe *a, const union sqe *b)
{
        return a->opc == b->opc && le32_get(a->nsid) == le32_get(b->nsid) &&
               memcmp(&a->cdw10, &b->cdw10, 8) == 0 &&
               !((le32_get(a->cdw12) ^ le32_get(b->cdw12)) & RW_NLB_MASK);
}

void memory_ends(struct host_memory *m, const struct association *a)
{
        if (!a->named)
                return;
        if (a->discovery)
                memory_watched(m, &a->connect);
        if (le16_get(a->connect.cntlid) != CNTLID_STATIC)
                return;
        m->known[m->knows++ % HOST_KNOWS] = a->connect;
}

void memory_lost(struct host_memory *m, const struct association *a, const struct session_cmd *cmd,
                 int64_t until_ns)
{
        if (!a->named || !changes_blocks(cmd->sqe.opc))
                return;
        m->lost[m->losses++ % HOST_LOST] = (struct lost_command) { a->connect, cmd->sqe, until_ns };
}

void judge_again(const struct host_memory *m, const struct association *a, const union sqe *s,
                 int64_t now_ns, struct rule_set *found)
{
        unsigned n = m->losses < HOST_LOST ? m->losses : HOST_LOST;

        if (!a->named || !changes_blocks(s->opc))
                return;
        for (unsigned i = 0; i < n; i++)
                judge_finds(found,
                            now_ns < m->lost[i].until_ns && same_blocks(&m->lost[i].sqe, s) &&
                                same_names(&m->lost[i].connect, &a->connect),
                            FAB_RETRY_WAITS);
}

void judge_return(const struct host_memory *m, const struct connect_data *c, struct rule_set *found)
{
        unsigned n = m->knows < HOST_KNOWS ? m->knows : HOST_KNOWS;

        for (unsigned i = 0; i < n; i++)
                judge_finds(found,
                            le16_get(c->cntlid) == CNTLID_STATIC && same_names(&m->known[i], c),
                            FAB_CONNECT_REMEMBERED);
}

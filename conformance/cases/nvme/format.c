/* SPDX-License-Identifier: BSD-3-Clause */
/* NVMe Base 5.1.10: Format NVM, of a subsystem that the run may do this to. */
#include <string.h>

#include "conformance/engine/suite.h"
#include "conformance/words/case.h"

enum { OACS_FORMAT = 1 << 1, FNS = 1 << 0, NO_BROADCAST = 1 << 3, LIST = 2 };

/* An I/O queue of it; its namespaces, ... */
struct formatted {
        struct queue *q;
        struct {
                uint32_t nsid, block;
                uint64_t last;
        } ns[LIST]; /* NSID 0: there are less */
        uint8_t fna;
};

static struct formatted formatted(struct t *t)
{
        struct formatted f = { 0 };
        const struct id_ctrl *id;
        const uint8_t *list;

        require(t, caps(t)->expendable, "no subsystem may be formatted (--expendable-nqn)");
        f.q = io_queue(t, .subnqn = caps(t)->expendable);
        id = identify_ctrl(f.q->admin);
        require(t, le16_get(id->oacs) & OACS_FORMAT, "OACS announces no Format NVM");
        f.fna = id->fna;
        list = identify(f.q->admin, CNS_NS_LIST, 0);
        for (unsigned i = 0; i < LIST && le_get(list + 4 * i, 4); i++) {
                uint32_t nsid = (uint32_t)le_get(list + 4 * i, 4);
                const struct id_ns *n = identify_optional(f.q->admin, CNS_NS, nsid);
                unsigned format = n ? n->flbas & 15 : 0;

                require(t, n && !le16_get(n->lbaf[format].ms) && !(n->flbas & 0x60),
                        "a namespace has metadata, more than 16 formats, or other than blocks");
                require(t, !(n->nsattr & 1), "a namespace is write protected");
                f.ns[i].nsid = nsid;
                f.ns[i].block = 1u << n->lbaf[format].lbads;
                f.ns[i].last = le64_get(n->nsze) - 1;
                require(t, f.ns[i].block <= BLOCK_MAX, "blocks of more than %u bytes", BLOCK_MAX);
        }
        require(t, f.ns[0].nsid, "the subsystem has no namespace");
        return f;
}

static uint16_t send_last(struct formatted *f, unsigned i, uint8_t opc, const void *data)
{
        return send_cmd(f->q, .opc = opc, .nsid = f->ns[i].nsid, .cdw10 = (uint32_t)f->ns[i].last,
                        .cdw11 = (uint32_t)(f->ns[i].last >> 32), .bytes = f->ns[i].block,
                        .data = data, .as_is = true,
                        .in_capsule =
                            opc == NVME_WRITE && caps(f->q->t)->in_capsule >= f->ns[i].block);
}

/* An unreadable block has not kept it either. */
static bool keeps(struct formatted *f, unsigned i, const uint8_t *data)
{
        struct reply r = finish(f->q, send_last(f, i, NVME_READ, NULL));

        return r.status == NVME_SUCCESS && memcmp(r.data, data, f->ns[i].block) == 0;
}

/* A pattern in the last block of each namespace. */
static const uint8_t *fill(struct formatted *f)
{
        const uint8_t *data = pattern(f->q->t, BLOCK_MAX);

        for (unsigned i = 0; i < LIST && f->ns[i].nsid; i++)
                succeed(f->q, send_last(f, i, NVME_WRITE, data));
        for (unsigned i = 0; i < LIST && f->ns[i].nsid; i++)
                require(f->q->t, keeps(f, i, data), "the last block of namespace %u cannot be read",
                        f->ns[i].nsid);
        return data;
}

/* With the format in use. */
static uint16_t send_format(struct formatted *f, uint32_t nsid, uint32_t more)
{
        const struct id_ns *n = identify(f->q->admin, CNS_NS, f->ns[0].nsid);

        return send_cmd(f->q->admin, .opc = NVME_FORMAT, .nsid = nsid,
                        .cdw10 = (n->flbas & 15u) | more);
}

CASE("base/format/erases", MUST, RULES(FORMAT_ERASES),
     "After Format NVM the old data of the last block is not returned, and the format is the one "
     "asked for",
     .alone = true)
{
        struct formatted f = formatted(t);
        const struct id_ns *before = identify(f.q->admin, CNS_NS, f.ns[0].nsid), *after;
        const uint8_t *data = fill(&f);

        succeed_slow(f.q->admin, send_format(&f, f.ns[0].nsid, 0));
        want(t, !keeps(&f, 0, data), "other data than before in the last block", "the same");
        after = identify(f.q->admin, CNS_NS, f.ns[0].nsid);
        want_eq(t, "FLBAS bits 3:0", after->flbas & 15, before->flbas & 15);
        want_eq(t, "DPS bits 2:0", after->dps & 7, 0);
}

CASE("base/format/scope", MUST, RULES(FORMAT_SCOPE),
     "Format NVM formats one namespace of two, or both for NSID FFFFFFFFh, as FNA says",
     .alone = true)
{
        struct formatted f = formatted(t);
        const uint8_t *data = fill(&f);

        require(t, f.ns[1].nsid, "the subsystem has less than two namespaces");
        succeed_slow(f.q->admin, send_format(&f, f.ns[0].nsid, 0));
        want(t, keeps(&f, 1, data) == !(f.fna & FNS),
             f.fna & FNS ? "no old data in the other namespace" : "the data of the other namespace",
             f.fna & FNS ? "the old data" : "other data");
        if (f.fna & NO_BROADCAST) {
                expect_error(f.q->admin, send_format(&f, NSID_ALL, 0), NVME_INVALID_FIELD);
                return;
        }
        fill(&f);
        succeed_slow(f.q->admin, send_format(&f, NSID_ALL, 0));
        want(t, !keeps(&f, 0, data) && !keeps(&f, 1, data), "no old data in either namespace",
             "the old data");
}

CASE("base/format/refused", MUST, RULES(FORMAT_REFUSED),
     "Format NVM of NSID 0, with a reserved secure erase, or to a format that there is not is "
     "refused",
     .alone = true)
{
        enum { SES = 9, LBAFU = 12 };
        struct formatted f = formatted(t);
        const struct id_ns *n = identify(f.q->admin, CNS_NS, f.ns[0].nsid);

        expect_error(f.q->admin, send_format(&f, 0, 0), NVME_INVALID_FIELD);
        expect_error(f.q->admin, send_format(&f, f.ns[0].nsid, 3u << SES), NVME_INVALID_FIELD);
        expect_error(f.q->admin, send_format(&f, f.ns[0].nsid, 7u << SES), NVME_INVALID_FIELD);
        if (n->nlbaf + n->nulbaf < 15)
                expect_error(f.q->admin, send_format(&f, f.ns[0].nsid, 15), NVME_INVALID_FORMAT);
        if (property_get(f.q->admin, PROP_VS) >= NVME_VERSION(2, 0, 0)) /* reserved bits before */
                succeed_slow(f.q->admin, send_format(&f, f.ns[0].nsid, 3u << LBAFU));
}

CASE("base/format/protected", MUST, RULES(FORMAT_REFUSED),
     "Format NVM of a write protected namespace fails with Namespace is Write Protected, as it "
     "does of all",
     .alone = true, .after = undo)
{
        struct formatted f = formatted(t);
        struct queue *q = f.q->admin;
        const uint8_t *data = fill(&f);
        uint16_t one, all;

        require(t, identify_ctrl(q)->nwpc & 1, "NWPC says that there is no write protection");
        keep_feature(q, FEAT_WRITE_PROTECT, f.ns[0].nsid, 0, 0);
        succeed(q, send_cmd(q, .opc = NVME_SET_FEATURES, .nsid = f.ns[0].nsid,
                            .cdw10 = FEAT_WRITE_PROTECT, .cdw11 = 1));
        one = finish_slow(q, send_format(&f, f.ns[0].nsid, 0)).status;
        all = finish_slow(q, send_format(&f, NSID_ALL, 0)).status;
        succeed(q, send_cmd(q, .opc = NVME_SET_FEATURES, .nsid = f.ns[0].nsid,
                            .cdw10 = FEAT_WRITE_PROTECT, .cdw11 = 0));
        want_eq(t, "the status of Format NVM", one, NVME_WRITE_PROTECTED);
        want(t, all == NVME_WRITE_PROTECTED || (f.fna & NO_BROADCAST && all == NVME_INVALID_FIELD),
             "Namespace is Write Protected for NSID FFFFFFFFh", "status %03Xh", all);
        want(t, keeps(&f, 0, data), "the data of the protected namespace", "other data");
}

/* --- NVM Command Set 4.1.2 */

/* Of formats without metadata, whose blocks the case can still read. */
static bool is_plain(const struct id_ns *n, unsigned i)
{
        return i <= n->nlbaf && !le16_get(n->lbaf[i].ms) && n->lbaf[i].lbads >= LBADS_MIN &&
               n->lbaf[i].lbads <= 12;
}

static uint16_t send_format_to(struct formatted *f, unsigned index, uint32_t more)
{
        return send_cmd(f->q->admin, .opc = NVME_FORMAT, .nsid = f->ns[0].nsid,
                        .cdw10 = index | more);
}

static unsigned format_of(struct formatted *f)
{
        const struct id_ns *n = identify(f->q->admin, CNS_NS, f->ns[0].nsid);

        return n->flbas & 15;
}

CASE("nvm/format/index", MUST, RULES(FORMAT_INDEX),
     "Format NVM to each format without metadata that Identify Namespace lists succeeds, and is "
     "told "
     "afterwards",
     .alone = true)
{
        struct formatted f = formatted(t);
        const struct id_ns *before = identify(f.q->admin, CNS_NS, f.ns[0].nsid);
        unsigned own = before->flbas & 15, format = own, told = own;
        uint16_t status = NVME_SUCCESS;

        for (unsigned i = 0; i < 16 && status == NVME_SUCCESS && told == format; i++) {
                if (i == own || !is_plain(before, i))
                        continue;
                format = i;
                status = finish_slow(f.q->admin, send_format_to(&f, i, 0)).status;
                told = format_of(&f);
        }
        succeed_slow(f.q->admin, send_format_to(&f, own, 0));
        want(t, status == NVME_SUCCESS, "Success", "status %03Xh for format %u", status, format);
        want_eq(t, "FLBAS bits 3:0", told, format);
        want_eq(t, "FLBAS bits 3:0", format_of(&f), own);
}

CASE("nvm/format/mset", MUST, RULES(FORMAT_MSET),
     "Format NVM to a format without metadata succeeds whatever MSET says", .alone = true)
{
        enum { MSET = 1 << 4 };
        struct formatted f = formatted(t);

        succeed_slow(f.q->admin, send_format(&f, f.ns[0].nsid, MSET));
        succeed_slow(f.q->admin, send_format(&f, f.ns[0].nsid, 0));
}

static void want_units(struct t *t, const struct id_ctrl *a, const struct id_ctrl *b)
{
        want_eq(t, "AWUN", le16_get(b->awun), le16_get(a->awun));
        want_eq(t, "AWUPF", le16_get(b->awupf), le16_get(a->awupf));
        want_eq(t, "ACWU", le16_get(b->acwu), le16_get(a->acwu));
}

CASE("nvm/atomic/same", MUST, RULES(NVM_ATOMIC_SAME),
     "AWUN, AWUPF and ACWU are the same after Format NVM to any format, and to another association",
     .alone = true)
{
        struct formatted f = formatted(t);
        const struct id_ctrl *first = identify_ctrl(f.q->admin);
        const struct id_ns *n = identify(f.q->admin, CNS_NS, f.ns[0].nsid);
        unsigned own = n->flbas & 15, count = 0;
        const struct id_ctrl *then[16];

        for (unsigned i = 0; i < 16; i++)
                if (i != own && is_plain(n, i) &&
                    finish_slow(f.q->admin, send_format_to(&f, i, 0)).status == NVME_SUCCESS)
                        then[count++] = identify_ctrl(f.q->admin);
        succeed_slow(f.q->admin, send_format_to(&f, own, 0));
        for (unsigned i = 0; i < count; i++)
                want_units(t, first, then[i]);
        want_units(t, first, identify_ctrl(f.q->admin));
        want_units(t, first, identify_ctrl(admin_queue(t, .subnqn = caps(t)->expendable)));
}

/* --- Write Zeroes of all: 3.3.8 */

static struct formatted cleared(struct t *t)
{
        struct formatted f = formatted(t);
        uint16_t oncs = le16_get(identify_ctrl(f.q->admin)->oncs);

        require(t, oncs & ONCS_WRITE_ZEROES && oncs & ONCS_NSZ,
                "ONCS.NSZS: Write Zeroes of whole namespaces is not supported");
        return f;
}

static uint16_t send_clear(struct formatted *f, uint32_t cdw12)
{
        return send_cmd(f->q, .opc = NVME_WRITE_ZEROES, .nsid = f->ns[0].nsid, .cdw10 = UINT32_MAX,
                        .cdw11 = UINT32_MAX, .cdw12 = RW_NSZ | RW_NLB_MASK | cdw12, .as_is = true);
}

static bool reads_zeroes(struct formatted *f)
{
        const struct id_ns *n = identify(f->q->admin, CNS_NS, f->ns[0].nsid);

        return (n->dlfeat & 7) == 1;
}

CASE("nvm/write-zeroes/namespace", MUST, RULES(NVM_NSZ),
     "Write Zeroes with NSZ and DEAC clears the whole namespace, whatever SLBA and NLB are",
     .alone = true)
{
        struct formatted f = cleared(t);
        struct reply r;
        const uint8_t *last;

        require(t, reads_zeroes(&f), "DLFEAT: deallocated blocks need not read as zeroes");
        fill(&f);
        r = succeed_slow(f.q, send_clear(&f, RW_DEAC));
        want_eq(t, "LBACZ of the completion", r.dw0 & 1, 1);
        last = succeed(f.q, send_last(&f, 0, NVME_READ, NULL)).data;
        for (uint32_t i = 0; i < f.ns[0].block; i++)
                want(t, last[i] == 0, "zeroes in the last block", "%02Xh at byte %u", last[i], i);
}

CASE("nvm/write-zeroes/namespace-deallocate", MUST, RULES(NVM_NSZ_DEAC),
     "Write Zeroes with NSZ and without DEAC is refused with Invalid Field", .alone = true)
{
        struct formatted f = cleared(t);
        const uint8_t *data = fill(&f);

        expect_error(f.q, send_clear(&f, 0), NVME_INVALID_FIELD);
        if (!reads_zeroes(&f))
                expect_error(f.q, send_clear(&f, RW_DEAC), NVME_INVALID_FIELD);
        want(t, keeps(&f, 0, data), "the data of the namespace", "other data");
}

/* --- beside other commands: whoever is aborted for that is told so */

static void want_one_of(struct t *t, const char *what, uint16_t status, uint16_t other)
{
        want(t, status == NVME_SUCCESS || status == other, what, "status %03Xh", status);
}

CASE("base/format/beside", MUST, RULES(FORMAT_BESIDE),
     "Format NVM and the commands beside it succeed, or are aborted with the status for that",
     .alone = true)
{
        struct formatted f = formatted(t);
        struct queue *admin = f.q->admin;
        uint16_t before, format, after;

        fill(&f);
        before = send_last(&f, 0, NVME_READ, NULL);
        format = send_format(&f, f.ns[0].nsid, 0);
        after = send_last(&f, 0, NVME_READ, NULL);
        want_one_of(t, "Success or Format in Progress for a Read", finish_slow(f.q, before).status,
                    NVME_FORMATTING);
        want_one_of(t, "Success or Command Sequence Error for Format NVM",
                    finish_slow(admin, format).status, NVME_SEQUENCE_ERROR);
        want_one_of(t, "Success or Format in Progress for a Read", finish_slow(f.q, after).status,
                    NVME_FORMATTING);
        fill(&f); /* both Reads may have been faster than Format NVM, on another queue */
}

CASE("base/format/beside-admin", MUST, RULES(FORMAT_BESIDE),
     "Format NVM and the admin commands beside it succeed, or are aborted with the status for "
     "that",
     .alone = true)
{
        enum { TRACKED = 0x11, DWORDS = 4 };
        struct formatted f = formatted(t);
        struct queue *admin = f.q->admin;
        uint32_t dw10;
        uint16_t status, cid[3];

        require(t, le16_get(identify_ctrl(admin)->oacs) & OACS_LBA_STATUS,
                "OACS announces no Get LBA Status");
        dw10 = ((const struct id_ns *)identify(admin, CNS_NS, f.ns[0].nsid))->flbas & 15u;
        status = finish(admin, send_cmd(admin, .opc = NVME_GET_LBA_STATUS, .nsid = f.ns[0].nsid,
                                        .cdw12 = DWORDS - 1, .cdw13 = (uint32_t)TRACKED << 24 | 1,
                                        .bytes = DWORDS * 4))
                     .status;
        require(t, status == NVME_SUCCESS, "Get LBA Status ends with status %03Xh", status);
        for (unsigned i = 0; i < 3; i++)
                cid[i] =
                    i == 1
                        ? send_cmd(admin, .opc = NVME_FORMAT, .nsid = f.ns[0].nsid, .cdw10 = dw10)
                        : send_cmd(admin, .opc = NVME_GET_LBA_STATUS, .nsid = f.ns[0].nsid,
                                   .cdw12 = DWORDS - 1, .cdw13 = (uint32_t)TRACKED << 24 | 1,
                                   .bytes = DWORDS * 4);
        for (unsigned i = 0; i < 3; i++)
                want_one_of(t,
                            i == 1 ? "Success or Command Sequence Error for Format NVM"
                                   : "Success or Format in Progress for Get LBA Status",
                            finish_slow(admin, cid[i]).status,
                            i == 1 ? NVME_SEQUENCE_ERROR : NVME_FORMATTING);
}

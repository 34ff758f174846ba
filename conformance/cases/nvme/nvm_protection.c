/* SPDX-License-Identifier: BSD-3-Clause */
/* NVM Command Set 5.2.3, 5.3: metadata, and protection information with a 16b guard. */
#include <string.h>

#include "conformance/words/case.h"

#include "conformance/engine/suite.h"
#include "pdu/core/crc16.h"
#include "pdu/nvme/wire/identify.h"
#include "pdu/nvme/wire/protect.h"

enum {
        ROW = 3,
        ANY = 0xe,
        TYPE_1 = 1 << 1,
        TAGGED = 1 << 1 | 1 << 2,
        TYPE_3 = 1 << 3,
        TAG = 0xa55a
};

/* --- blocks with their metadata, of which each case has a row of three */

static uint32_t unit(const struct space *s)
{
        return s->block + s->ms;
}

static uint8_t *tuple(const struct space *s, uint8_t *row, unsigned i)
{
        return row + (i + 1) * unit(s) - PI_LEN;
}

static uint16_t crc(const struct space *s, const uint8_t *row, unsigned i)
{
        return crc16_more(0, row + i * unit(s), unit(s) - PI_LEN);
}

static uint32_t low_lba(struct t *t, uint64_t slba)
{
        return (uint32_t)(own_lba(t) + slba);
}

/* Of data unlike any other and, where there is any, the right protection information with TAG. */
static uint8_t *new_row(struct t *t, const struct space *s)
{
        uint8_t *row = t_alloc(t, ROW * unit(s));

        memcpy(row, pattern(t, ROW * unit(s)), ROW * unit(s));
        for (unsigned i = 0; i < ROW && s->pi; i++)
                pi_put(tuple(s, row, i), (struct pi) { crc(s, row, i), TAG, low_lba(t, i) });
        return row;
}

struct io {
        uint8_t opc;
        uint32_t prinfo;      /* RW_PRACT, RW_PRCHK_* */
        uint32_t blocks;      /* 0: the row */
        uint64_t slba;        /* from the start of the case's range */
        uint32_t bits;        /* more of cdw12 */
        uint32_t off;         /* of the first reference tag from the right one */
        uint16_t tag, unmask; /* bits of the mask that are cleared */
        uint8_t fuse;
        uint32_t upper; /* cdw2, and 15:0 of cdw3 */
        const void *data;
};
#define IO_DEFAULTS        .tag = TAG
#define send_io(q, s, ...) io_send((q), (s), (struct io) { IO_DEFAULTS, ##__VA_ARGS__ })

/* Bytes that it transfers. */
static uint32_t bytes_of(const struct space *s, const struct io *io)
{
        uint32_t n = io->blocks ? io->blocks : ROW;

        if (!(io->opc & 3))
                return 0;
        return n * (s->made && io->prinfo & RW_PRACT ? s->block : unit(s));
}

static uint16_t io_send(struct queue *q, const struct space *s, struct io io)
{
        uint64_t lba = own_lba(q->t) + io.slba;
        uint32_t bytes = bytes_of(s, &io);

        return send_cmd(q, .opc = io.opc, .flags = (uint8_t)(SQE_PSDT_SGL | io.fuse),
                        .nsid = s->nsid, .cdw2 = io.upper, .cdw3 = io.upper & 0xffff,
                        .cdw10 = (uint32_t)lba, .cdw11 = (uint32_t)(lba >> 32),
                        .cdw12 = ((io.blocks ? io.blocks : ROW) - 1) | io.prinfo | io.bits,
                        .cdw14 = (uint32_t)lba + io.off,
                        .cdw15 = io.tag | (uint32_t)(uint16_t)~io.unmask << 16, .bytes = bytes,
                        .data = io.data, .as_is = true,
                        .in_capsule = io.opc != NVME_READ && caps(q->t)->in_capsule >= bytes);
}

/* Every check that there is; type 3 may refuse one of reference tags (5.3.3). */
static uint32_t all(const struct space *s)
{
        return s->pi == 3 ? RW_PRCHK_GUARD | RW_PRCHK_APP : RW_PRCHK;
}

/* As it is: nothing is checked. */
static void store(struct queue *q, const struct space *s, const uint8_t *row)
{
        succeed(q, send_io(q, s, .opc = NVME_WRITE, .data = row));
}

static const uint8_t *stored(struct queue *q, const struct space *s)
{
        return succeed(q, send_io(q, s, .opc = NVME_READ)).data;
}

static void want_row(struct queue *q, const struct space *s, const uint8_t *row)
{
        want_bytes(q->t, "what was written", stored(q, s), row, ROW * unit(s));
}

/* The data alone, for a transfer without metadata. */
static const uint8_t *blocks_of(struct t *t, const struct space *s, const uint8_t *row)
{
        uint8_t *data = t_alloc(t, ROW * s->block);

        for (unsigned i = 0; i < ROW; i++)
                memcpy(data + i * s->block, row + i * unit(s), s->block);
        return data;
}

static const void *with_pract(struct t *t, const struct space *s, const uint8_t *row)
{
        return s->made ? blocks_of(t, s, row) : row;
}

static void supports(struct queue *q, uint16_t oncs, const char *what)
{
        require(q->t, le16_get(caps(q->t)->id.oncs) & oncs, "%s is not supported", what);
}

/* --- what is stored */

CASE("nvm/metadata/stored", MUST, RULES(NVM_METADATA),
     "Metadata that a Write brings is read as it was written, protection information included",
     .writes = true)
{
        static const unsigned kinds[] = { 1 << 0, 1 << 1, 1 << 2, 1 << 3 };
        struct queue *q = io_queue(t);
        struct space s = find_space(q, 0xf, 1);

        for (unsigned i = 0; i < 4; i++) {
                const uint8_t *row;

                if (!has_space(q, kinds[i], 1, &s))
                        continue;
                row = pattern(t, ROW * unit(&s));
                store(q, &s, row);
                want_row(q, &s, row);
        }
}

CASE("nvm/metadata/compared", MUST, RULES(NVM_METADATA),
     "Compare compares metadata that is not protection information", .writes = true)
{
        struct queue *q = io_queue(t);
        struct space s;
        uint8_t *row;

        supports(q, ONCS_COMPARE, "Compare");
        require(t, has_space(q, 1, 1, &s) || has_space(q, ANY, PI_LEN + 1, &s),
                "no namespace that may be written has metadata besides protection information");
        row = new_row(t, &s);
        store(q, &s, row);
        succeed(q, send_io(q, &s, .opc = NVME_COMPARE, .data = row));
        row[s.block] ^= 1;
        expect_error(q, send_io(q, &s, .opc = NVME_COMPARE, .data = row), NVME_COMPARE_FAILURE);
}

/* Of the row, as it was made by a Write with PRACT. */
static void want_made(struct queue *q, const struct space *s, const uint8_t *row)
{
        const uint8_t *seen = stored(q, s);

        for (unsigned i = 0; i < ROW; i++) {
                struct pi pi = pi_get(seen + (i + 1) * unit(s) - PI_LEN);

                want_bytes(q->t, "the data and other metadata that were written",
                           seen + i * unit(s), row + i * unit(s), unit(s) - PI_LEN);
                want_eq(q->t, "the guard", pi.guard, crc(s, row, i));
                want_eq(q->t, "the application tag", pi.app, TAG);
                if (s->pi != 3)
                        want_eq(q->t, "the reference tag", pi.ref, low_lba(q->t, i));
        }
}

CASE("nvm/protection/inserted", MUST, RULES(NVM_PI_MADE),
     "A Write with PRACT stores the CRC, LBAT and rising reference tags as protection information",
     .writes = true)
{
        struct queue *q = io_queue(t);
        struct space s = find_space(q, ANY, PI_LEN);

        for (unsigned type = 1; type <= 3; type++) {
                uint8_t *row;

                if (!has_space(q, 1u << type, PI_LEN, &s))
                        continue;
                row = new_row(t, &s);
                for (unsigned i = 0; i < ROW;
                     i++) /* of longer metadata the last 8 bytes are replaced */
                        memset(tuple(&s, row, i), 0x11, PI_LEN);
                succeed(q, send_io(q, &s, .opc = NVME_WRITE, .prinfo = RW_PRACT,
                                   .data = with_pract(t, &s, row)));
                want_made(q, &s, row);
        }
}

CASE("nvm/protection/stripped", MUST, RULES(NVM_PI_LENGTH),
     "A Read with PRACT strips metadata that is protection information only, and no other",
     .writes = true)
{
        struct queue *q = io_queue(t);
        struct space s = find_space(q, ANY, PI_LEN);

        for (int longer = 0; longer < 2; longer++) {
                const uint8_t *row;
                struct reply r;

                if (!has_space(q, ANY, longer ? PI_LEN + 1 : PI_LEN, &s))
                        continue;
                row = new_row(t, &s);
                store(q, &s, row);
                r = succeed(q, send_io(q, &s, .opc = NVME_READ, .prinfo = RW_PRACT | all(&s)));
                want_bytes(t, "what was written", r.data, with_pract(t, &s, row),
                           ROW * (s.made ? s.block : unit(&s)));
        }
}

CASE("nvm/protection/read", MUST, RULES(NVM_PI_READ),
     "A Read that has everything checked returns the protection information that a Write brought",
     .writes = true)
{
        struct queue *q = io_queue(t);
        struct space s = find_space(q, ANY, PI_LEN);

        for (unsigned type = 1; type <= 3; type++) {
                const uint8_t *row;

                if (!has_space(q, 1u << type, PI_LEN, &s))
                        continue;
                row = new_row(t, &s);
                store(q, &s, row);
                want_bytes(t, "what was written",
                           succeed(q, send_io(q, &s, .opc = NVME_READ, .prinfo = all(&s))).data,
                           row, ROW * unit(&s));
        }
}

CASE("nvm/protection/upper-tags", MUST, RULES(NVM_PI_UPPER),
     "Read and Write ignore CDW2 and CDW3 with a 16b guard and no storage tag", .writes = true)
{
        struct queue *q = io_queue(t);
        struct space s = find_space(q, ANY, PI_LEN);
        const struct id_nvm_ns *n;
        uint32_t format;
        uint8_t *row;

        require(t, caps(t)->vs >= NVME_VERSION(2, 0, 0),
                "CDW2 and CDW3 were reserved before NVMe 2.0");
        n = identify(q->admin, CNS_IOCS_NS, s.nsid);
        format = le32_get(n->elbaf[id_ns_format(identify(q->admin, CNS_NS, s.nsid))]);
        require(t, !(format & 0x1ff), "the namespace has another guard, or a storage tag");
        row = new_row(t, &s);
        succeed(q, send_io(q, &s, .opc = NVME_WRITE, .prinfo = all(&s), .upper = UINT32_MAX,
                           .data = row));
        want_bytes(
            t, "what was written",
            succeed(q, send_io(q, &s, .opc = NVME_READ, .prinfo = all(&s), .upper = UINT32_MAX))
                .data,
            row, ROW * unit(&s));
}

/* --- what is checked */

struct wrong {
        uint32_t check;
        uint16_t status;
        struct pi change; /* by exclusive or */
};

/* Reading what has the fault in its middle block, and writing it, fails where that is checked. */
static void want_checked(struct queue *q, const struct space *s, const struct wrong *f)
{
        uint8_t *row = new_row(q->t, s);
        struct pi pi = pi_get(tuple(s, row, 1));

        store(q, s, row);
        succeed(q, send_io(q, s, .opc = NVME_READ, .prinfo = all(s)));
        succeed(q, send_io(q, s, .opc = NVME_WRITE, .prinfo = all(s), .data = row));
        pi.guard ^= f->change.guard;
        pi.app ^= f->change.app;
        pi.ref ^= f->change.ref;
        pi_put(tuple(s, row, 1), pi);
        expect_error(q, send_io(q, s, .opc = NVME_WRITE, .prinfo = f->check, .data = row),
                     f->status);
        store(q, s, row);
        expect_error(q, send_io(q, s, .opc = NVME_READ, .prinfo = f->check), f->status);
        expect_error(q, send_io(q, s, .opc = NVME_READ, .prinfo = RW_PRACT | f->check), f->status);
        succeed(q, send_io(q, s, .opc = NVME_READ, .prinfo = all(s) & ~f->check));
        want_row(q, s, row);
}

static void check_each(struct t *t, unsigned types, const struct wrong *f)
{
        struct queue *q = io_queue(t);
        struct space s = find_space(q, types, PI_LEN);

        for (unsigned type = 1; type <= 3; type++)
                if (types >> type & 1 && has_space(q, 1u << type, PI_LEN, &s))
                        want_checked(q, &s, f);
}

CASE("nvm/protection/guard", MUST, RULES(NVM_PI_CHECKED),
     "A wrong guard fails Read and Write with End-to-end Guard Check Error if it is checked, and "
     "only then",
     .writes = true)
{
        check_each(t, ANY, &(struct wrong) { RW_PRCHK_GUARD, NVME_GUARD_CHECK, { .guard = 1 } });
}

CASE("nvm/protection/reference-tag", MUST, RULES(NVM_PI_CHECKED),
     "A wrong reference tag (types 1, 2) fails Read and Write with its own status, and only if "
     "checked",
     .writes = true)
{
        check_each(t, TAGGED, &(struct wrong) { RW_PRCHK_REF, NVME_REF_TAG_CHECK, { .ref = 4 } });
}

CASE("nvm/protection/application-tag", MUST, RULES(NVM_PI_CHECKED),
     "A wrong application tag fails Read and Write if it is checked and the mask has the bit",
     .writes = true)
{
        struct wrong f = { RW_PRCHK_APP, NVME_APP_TAG_CHECK, { .app = 0x100 } };
        struct queue *q = io_queue(t);
        struct space s = find_space(q, ANY, PI_LEN);

        check_each(t, ANY, &f);
        store(q, &s, new_row(t, &s));
        succeed(q, send_io(q, &s, .opc = NVME_READ, .prinfo = RW_PRCHK_APP, .tag = TAG ^ 0x100,
                           .unmask = 0x100));
        expect_error(q,
                     send_io(q, &s, .opc = NVME_READ, .prinfo = RW_PRCHK_APP, .tag = TAG ^ 0x300,
                             .unmask = 0x100),
                     NVME_APP_TAG_CHECK);
}

CASE("nvm/protection/exempt", MUST, RULES(NVM_PI_EXEMPT),
     "Blocks with application tag FFFFh (type 3: and reference tag FFFFFFFFh) are not checked",
     .writes = true)
{
        struct queue *q = io_queue(t);
        struct space s = find_space(q, ANY, PI_LEN);

        for (unsigned type = 1; type <= 3; type++) {
                uint8_t *row;

                if (!has_space(q, 1u << type, PI_LEN, &s))
                        continue;
                row = new_row(t, &s);
                pi_put(tuple(&s, row, 1),
                       (struct pi) { 0x1234, PI_NO_CHECK, type == 3 ? UINT32_MAX : 5 });
                succeed(q, send_io(q, &s, .opc = NVME_WRITE, .prinfo = all(&s), .data = row));
                succeed(q, send_io(q, &s, .opc = NVME_READ, .prinfo = all(&s)));
                if (type != 3)
                        continue;
                pi_put(tuple(&s, row, 1),
                       (struct pi) { (uint16_t)~crc(&s, row, 1), PI_NO_CHECK, 5 });
                store(q, &s, row);
                expect_error(q, send_io(q, &s, .opc = NVME_READ, .prinfo = RW_PRCHK_GUARD),
                             NVME_GUARD_CHECK);
        }
}

CASE("nvm/protection/first-tag", MUST, RULES(NVM_PI_FIRST),
     "With type 1 a reference tag check that does not begin with SLBA is refused with Invalid "
     "Protection Information",
     .writes = true)
{
        struct queue *q = io_queue(t);
        struct space s = find_space(q, TYPE_1, PI_LEN);
        const uint8_t *row = new_row(t, &s);

        store(q, &s, row);
        expect_refusal(q, send_io(q, &s, .opc = NVME_READ, .prinfo = RW_PRCHK_REF, .off = 1));
        expect_refusal(
            q, send_io(q, &s, .opc = NVME_WRITE, .prinfo = RW_PRCHK_REF, .off = 1, .data = row));
        if (le16_get(caps(t)->id.oncs) & ONCS_COMPARE)
                expect_refusal(q, send_io(q, &s, .opc = NVME_COMPARE, .prinfo = RW_PRCHK_REF,
                                          .off = 1, .data = row));
        if (le16_get(caps(t)->id.oncs) & ONCS_VERIFY)
                expect_refusal(
                    q, send_io(q, &s, .opc = NVME_VERIFY, .prinfo = RW_PRCHK_REF, .off = 1));
        want_row(q, &s, row);
}

CASE(
    "nvm/protection/type-3", MUST, RULES(NVM_PI_TYPE_3),
    "With type 3 a reference tag check succeeds, or is refused with Invalid Protection Information",
    .writes = true)
{
        struct queue *q = io_queue(t);
        struct space s = find_space(q, TYPE_3, PI_LEN);
        struct reply r;

        store(q, &s, new_row(t, &s));
        r = finish(q, send_io(q, &s, .opc = NVME_READ, .prinfo = RW_PRCHK_REF, .off = 77));
        want(t, r.status == NVME_SUCCESS || r.status == NVME_INVALID_PROTECTION,
             "Success, or Invalid Protection Information", "status %u/%02Xh", r.status >> 8,
             r.status & 0xff);
}

/* By AWUPF even a controller that guarantees least does so for a block. */
CASE("nvm/protection/nothing-written", MUST, RULES(NVM_PI_ALL),
     "A Write of a block that fails its check leaves the old block", .writes = true)
{
        struct queue *q = io_queue(t);
        struct space s = find_space(q, ANY, PI_LEN);
        const uint8_t *row = new_row(t, &s);
        uint8_t *other = t_alloc(t, unit(&s));

        store(q, &s, row);
        memcpy(other, row + unit(&s), unit(&s));
        expect_error(q,
                     send_io(q, &s, .opc = NVME_WRITE, .blocks = 1, .prinfo = RW_PRCHK_GUARD,
                             .data = memset(other, 0x77, s.block)),
                     NVME_GUARD_CHECK);
        want_row(q, &s, row);
}

/* --- Compare, Verify */

CASE("nvm/protection/compare", MUST, RULES(NVM_PI_COMPARE),
     "Compare ignores differences of protection information, and checks it on both sides if asked "
     "to",
     .writes = true)
{
        struct queue *q = io_queue(t);
        struct space s = find_space(q, ANY, PI_LEN);
        uint8_t *row = new_row(t, &s), *bad = t_alloc(t, ROW * unit(&s));

        supports(q, ONCS_COMPARE, "Compare");
        memcpy(bad, row, ROW * unit(&s));
        tuple(&s, bad, 2)[0] ^= 0x40;
        store(q, &s, row);
        succeed(q, send_io(q, &s, .opc = NVME_COMPARE, .data = bad));
        succeed(q, send_io(q, &s, .opc = NVME_COMPARE, .prinfo = all(&s), .data = row));
        expect_error(q, send_io(q, &s, .opc = NVME_COMPARE, .prinfo = RW_PRCHK_GUARD, .data = bad),
                     NVME_GUARD_CHECK);
        store(q, &s, bad);
        expect_error(q, send_io(q, &s, .opc = NVME_COMPARE, .prinfo = RW_PRCHK_GUARD, .data = row),
                     NVME_GUARD_CHECK);
}

/* It fails; with which error is not said (3.3.5). */
CASE("nvm/protection/verify", MUST, RULES(NVM_PI_VERIFY),
     "Verify fails where protection information that it is asked to check is wrong", .writes = true)
{
        struct queue *q = io_queue(t);
        struct space s = find_space(q, ANY, PI_LEN);
        uint8_t *row = new_row(t, &s);

        supports(q, ONCS_VERIFY, "Verify");
        store(q, &s, row);
        succeed(q, send_io(q, &s, .opc = NVME_VERIFY, .prinfo = all(&s)));
        tuple(&s, row, 1)[1] ^= 2;
        store(q, &s, row);
        succeed(q, send_io(q, &s, .opc = NVME_VERIFY));
        want(t,
             finish(q, send_io(q, &s, .opc = NVME_VERIFY, .prinfo = RW_PRCHK_GUARD)).status !=
                 NVME_SUCCESS,
             "an error", "Success");
}

CASE("nvm/protection/verify-act", MUST, RULES(NVM_PI_VERIFY_ACT),
     "Verify with PRACT is refused with Invalid Field", .writes = true)
{
        struct queue *q = io_queue(t);
        struct space s = find_space(q, ANY, PI_LEN);

        supports(q, ONCS_VERIFY, "Verify");
        store(q, &s, new_row(t, &s));
        expect_refusal(q, send_io(q, &s, .opc = NVME_VERIFY, .prinfo = RW_PRACT));
}

/* --- Write Zeroes, Dataset Management */

static bool is_all(const uint8_t *bytes, uint32_t n, uint8_t value)
{
        return bytes[0] == value && memcmp(bytes, bytes + 1, n - 1) == 0;
}

/* As of a block that is deallocated (3.3.3.2.1), which Write Zeroes may do unasked where those read as zeroes. */
static bool is_gone(struct pi pi)
{
        return (pi.guard == 0xffff || pi.guard == 0) && pi.app == PI_NO_CHECK &&
               pi.ref == UINT32_MAX;
}

static void want_zeroes(struct queue *q, const struct space *s, const uint8_t *seen, bool made)
{
        const struct id_ns *ns = identify(q->admin, CNS_NS, s->nsid);

        for (unsigned i = 0; i < ROW; i++) {
                const uint8_t *block = seen + i * unit(s);
                struct pi pi = pi_get(block + unit(s) - PI_LEN);

                want(q->t, is_all(block, unit(s) - PI_LEN, 0), "zeroes", "other data in block %u",
                     i);
                if ((ns->dlfeat & 7) == 1 && is_gone(pi))
                        continue;
                want_eq(q->t, "the guard, CRC or 0", pi.guard, 0);
                want_eq(q->t, "the application tag", pi.app, made ? TAG : 0);
                if (s->pi != 3 || !made)
                        want_eq(q->t, "the reference tag", pi.ref, made ? low_lba(q->t, i) : 0);
        }
}

CASE("nvm/protection/zeroes", MUST, RULES(NVM_PI_ZEROES),
     "Write Zeroes stores protection information of zeroes without PRACT, and made from its tags "
     "with PRACT",
     .writes = true)
{
        struct queue *q = io_queue(t);
        struct space s = find_space(q, ANY, PI_LEN);

        supports(q, ONCS_WRITE_ZEROES, "Write Zeroes");
        for (unsigned type = 1; type <= 3; type++) {
                if (!has_space(q, 1u << type, PI_LEN, &s))
                        continue;
                store(q, &s, new_row(t, &s));
                succeed_slow(q, send_io(q, &s, .opc = NVME_WRITE_ZEROES));
                want_zeroes(q, &s, stored(q, &s), false);
                succeed_slow(q, send_io(q, &s, .opc = NVME_WRITE_ZEROES, .prinfo = RW_PRACT));
                want_zeroes(q, &s, stored(q, &s), true);
        }
}

/* With DEAC a block is deallocated, or is not (3.3.8): it has the one or the other. */
CASE("nvm/protection/deallocated", MUST, RULES(NVM_PI_DEALLOCATED),
     "Blocks that Write Zeroes deallocates have tags of FFh, and a guard of FFh or the right CRC",
     .writes = true)
{
        struct queue *q = io_queue(t);
        struct space s = find_space(q, ANY, PI_LEN);
        const struct id_ns *ns = identify(q->admin, CNS_NS, s.nsid);
        const uint8_t *seen;

        supports(q, ONCS_WRITE_ZEROES, "Write Zeroes");
        require(t, ns->dlfeat >> 3 & 1, "DLFEAT says that Write Zeroes does not deallocate");
        store(q, &s, new_row(t, &s));
        succeed_slow(q,
                     send_io(q, &s, .opc = NVME_WRITE_ZEROES, .prinfo = RW_PRACT, .bits = RW_DEAC));
        seen = stored(q, &s);
        for (unsigned i = 0; i < ROW; i++) {
                struct pi pi = pi_get(seen + (i + 1) * unit(&s) - PI_LEN);
                bool made = pi.guard == 0 && pi.app == TAG;

                want(t, is_all(seen + i * unit(&s), unit(&s) - PI_LEN, 0), "zeroes",
                     "other data in block %u", i);
                want(t, made || is_gone(pi),
                     "tags of FFh and a guard of FFh or the CRC, or those of PRACT",
                     "guard %04Xh, tags %04Xh and %08Xh", pi.guard, pi.app, pi.ref);
        }
        succeed(q, send_io(q, &s, .opc = NVME_READ, .prinfo = all(&s)));
}

/* --- Copy: block 0 of the row to block 2 */

static uint16_t send_copy(struct queue *q, const struct space *s, uint32_t read, uint32_t write)
{
        uint64_t lba = own_lba(q->t) + 2;
        struct copy_range *range = t_alloc(q->t, sizeof(*range));

        *range = (struct copy_range) { .slba = le64(own_lba(q->t)),
                                       .elbt = le32((uint32_t)own_lba(q->t)),
                                       .elbat = le16(TAG),
                                       .elbatm = le16(0xffff) };
        return send_cmd(q, .opc = NVME_COPY, .nsid = s->nsid, .cdw10 = (uint32_t)lba,
                        .cdw11 = (uint32_t)(lba >> 32),
                        .cdw12 = write | read >> (RW_PRINFO_SHIFT - COPY_PRINFOR_SHIFT),
                        .cdw14 = (uint32_t)lba, .cdw15 = 0xffff0000 | TAG, .bytes = sizeof(*range),
                        .data = range, .in_capsule = caps(q->t)->in_capsule >= sizeof(*range));
}

static void copies(struct queue *q)
{
        supports(q, ONCS_COPY, "Copy");
        require(q->t, le16_get(caps(q->t)->id.cdfs) & 1, "Copy does not support format 0h");
}

CASE("nvm/protection/copy", MUST, RULES(NVM_PI_COPY),
     "Copy keeps protection information, makes it again with PRACT, and checks what it reads",
     .writes = true)
{
        struct queue *q = io_queue(t);
        struct space s = find_space(q, TAGGED, PI_LEN);
        uint8_t *row = new_row(t, &s);
        uint32_t n = unit(&s);

        copies(q);
        store(q, &s, row);
        succeed(q, send_copy(q, &s, all(&s), 0));
        want_bytes(t, "the source block with its protection information", stored(q, &s) + 2 * n,
                   row, n);
        succeed(q, send_copy(q, &s, RW_PRACT | all(&s), RW_PRACT));
        want_eq(t, "the reference tag made for the block",
                pi_get(stored(q, &s) + 3 * n - PI_LEN).ref, low_lba(t, 2));
        tuple(&s, row, 0)[0] ^= 1;
        store(q, &s, row);
        expect_error(q, send_copy(q, &s, RW_PRCHK_GUARD, 0), NVME_GUARD_CHECK);
        want_bytes(t, "the blocks that were not to be written", stored(q, &s), row, 2 * n);
}

CASE("nvm/protection/copy-act", MUST, RULES(NVM_PI_COPY_ACT),
     "Copy whose PRINFOR and PRINFOW differ in PRACT is refused with Invalid Field", .writes = true)
{
        struct queue *q = io_queue(t);
        struct space s = find_space(q, ANY, PI_LEN);

        copies(q);
        store(q, &s, new_row(t, &s));
        expect_refusal(q, send_copy(q, &s, RW_PRACT, 0));
        expect_refusal(q, send_copy(q, &s, 0, RW_PRACT));
        expect_works(q);
}

/* --- fused */

CASE("nvm/protection/fused", MUST, RULES(NVM_FUSED_OWN),
     "A fused Write fails its check with its own status, and its Compare succeeds", .writes = true)
{
        struct queue *q = io_queue(t);
        struct space s = find_space(q, ANY, PI_LEN);
        uint8_t *row = new_row(t, &s), *bad = t_alloc(t, ROW * unit(&s));
        uint16_t compare, write;

        require(t, le16_get(caps(t)->id.fuses) & FUSES_COMPARE_WRITE, "FUSES is 0");
        require(t, together(q, 2) > 1, ONE_AT_A_TIME);
        require(t, t_is_rdma(t) || caps(t)->in_capsule >= unit(&s), "the capsule has no room");
        memcpy(bad, row, ROW * unit(&s));
        tuple(&s, bad, 0)[0] ^= 1;
        store(q, &s, row);
        compare = send_io(q, &s, .opc = NVME_COMPARE, .fuse = SQE_FUSE_FIRST, .blocks = 1,
                          .prinfo = all(&s), .data = row);
        write = send_io(q, &s, .opc = NVME_WRITE, .fuse = SQE_FUSE_SECOND, .blocks = 1,
                        .prinfo = RW_PRCHK_GUARD, .data = bad);
        succeed(q, compare);
        expect_error(q, write, NVME_GUARD_CHECK);
        want_row(q, &s, row);
}

/* What is transferred is what counts, with its metadata. */
CASE("base/identify/mdts-metadata", MUST, RULES(ID_MDTS),
     "A Read whose blocks fit in MDTS, but not with their metadata, fails with Invalid Field")
{
        enum { MEM = 1 << 16, MOST = 4 << 20 };
        struct queue *q = io_queue(t);
        struct space s = find_space(q, 0xf, 1);
        uint32_t mdts = caps(t)->mdts, blocks = mdts / s.block;

        require(t, !(le32_get(caps(t)->id.ctratt) & MEM), "CTRATT.MEM leaves metadata out of MDTS");
        require(t, mdts > 0 && mdts <= MOST, "MDTS sets no limit, or one too large for this case");
        require(t, blocks <= 0x10000 && (uint64_t)blocks * (s.block + s.ms) <= mdts * UINT64_C(2),
                "the metadata is longer than the blocks");
        expect_error(q,
                     send_cmd(q, .opc = NVME_READ, .nsid = s.nsid, .cdw12 = blocks - 1,
                              .bytes = blocks * (s.block + s.ms), .as_is = true, .any_size = true),
                     NVME_INVALID_FIELD);
        expect_works(q);
}

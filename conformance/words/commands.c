/* SPDX-License-Identifier: BSD-3-Clause */
/* Whole commands that have to succeed. */
#include <string.h>

#include "pdu/nvme/wire/identify.h"
#include "pdu/nvme/wire/protect.h"
#include "words.h"

uint64_t property_get(struct queue *q, uint32_t ofst)
{
        bool wide = property_size(ofst) == 8;
        struct reply r =
            expect_success(q, send_property_get(q, ofst, wide ? PROP_ATTRIB_8 : PROP_ATTRIB_4));

        return wide ? (uint64_t)r.dw1 << 32 | r.dw0 : r.dw0;
}

void property_set(struct queue *q, uint32_t ofst, uint64_t value)
{
        expect_success(q, send_property_set(q, ofst, PROP_ATTRIB_4, value));
}

/* A service under an NQN of its own is known by its CNTRLTYPE alone. */
static bool has_io(const struct queue *q)
{
        const struct caps *c = caps(q->t);

        return strcmp(q->subnqn, NQN_DISCOVERY) != 0 && (c->reach < REACH_CONTROLLER || c->io);
}

uint32_t with_css(struct queue *q, uint32_t cc)
{
        const uint32_t sizes = CC_RUN & ~CC_EN;
        uint64_t cap = caps(q->t)->cap;

        if (!has_io(q)) /* 3.1.4.5: its sizes are reserved or read-only 0, it has no command set */
                return cc & ~sizes;
        if (!(cc & sizes))
                return cc;
        if (cap == 0) /* not probed yet */
                cap = property_get(q, PROP_CAP);
        if (cap & CAP_CSS_NOIO)
                return cc | 7u << 4;
        return cap & CAP_CSS_IOCSS ? cc | 6u << 4 : cc;
}

unsigned announced_ms(const struct caps *c)
{
        enum { UNIT = 500, UNKNOWN = 30000 };
        unsigned to = CAP_TO(c->cap), crwmt = c->crto & 0xffff;

        if (c->cap == 0)
                return UNKNOWN;
        return (to > crwmt ? to : crwmt) * UNIT;
}

static unsigned shutdown_ms(const struct caps *c)
{
        enum { LEAST = 5000, MOST = 120000 };
        unsigned rtd3e = le32_get(c->id.rtd3e) / 1000;

        if (rtd3e < LEAST)
                return LEAST;
        return rtd3e < MOST ? rtd3e : MOST;
}

/* ms that a change of CC or NSSD may take until it is answered: nobody says that it is not when all is done. */
static unsigned slow_ms(const struct queue *q)
{
        unsigned ready = announced_ms(caps(q->t)), down = shutdown_ms(caps(q->t));

        return ready > down ? ready : down;
}

void set_slowly(struct queue *q, uint32_t ofst, uint32_t value)
{
        unsigned ms = slow_ms(q);
        uint64_t left = t_lend(q->t, t_scaled(q->t, ms));

        q->patience = ms;
        property_set(q, ofst, value);
        q->patience = 0;
        t_repay(q->t, left);
}

uint32_t shst_after(struct queue *q, uint32_t shst, unsigned ms)
{
        uint64_t begun = now_ms(), left = t_lend(q->t, t_scaled(q->t, ms));
        uint32_t csts;

        while (CSTS_SHST(csts = (uint32_t)property_get(q, PROP_CSTS)) == shst &&
               now_ms() - begun < ms)
                pause_ms(q->t, 1);
        t_repay(q->t, left);
        return CSTS_SHST(csts);
}

/* 3.6.1 has hosts wait for RTD3E or longer, and binds no controller to that; nor is it said how soon after CC.SHN a
 * shutdown shows. */
uint32_t begin_shutdown(struct queue *q, uint32_t shn)
{
        enum { NORMAL, OCCURRING, BEGIN_MS = 5000 };
        uint32_t shst;

        q->may_end = true;
        set_slowly(q, PROP_CC, with_css(q, CC_RUN | shn));
        shst = shst_after(q, NORMAL, BEGIN_MS);
        if (shst == OCCURRING)
                shst = shst_after(q, OCCURRING, shutdown_ms(caps(q->t)));
        return shst;
}

static void advise_ready(struct t *t, unsigned ms, uint64_t took)
{
        unsigned rule = t->rule;
        char expected[80];

        blame(t, FAB_RDY_TIME);
        snprintf(expected, sizeof(expected), "CSTS.RDY follows within %u ms", ms);
        advise(t, expected, "after %llu ms", (unsigned long long)took);
        t->rule = rule;
}

/* `ms` are what the host is told to wait: no sentence has the controller keep to that. */
static void await_csts(struct queue *q, uint32_t mask, uint32_t value, unsigned ms)
{
        enum { SLACK_MS = 500, LATE_MS = 2 * REPLY_MS - SLACK_MS };
        uint64_t began = now_ms(), told = began + t_scaled(q->t, ms + SLACK_MS);
        uint64_t end = began + t_scaled(q->t, 2 * ms + LATE_MS);
        uint32_t csts;

        while (((csts = (uint32_t)property_get(q, PROP_CSTS)) & mask) != value && !q->over) {
                char expected[80];

                snprintf(expected, sizeof(expected), "CSTS & %Xh is %Xh", mask, value);
                want(q->t, now_ms() < end, expected, "CSTS %Xh after %llu ms", csts,
                     (unsigned long long)(now_ms() - began));
                pause_ms(q->t, 1);
        }
        if (now_ms() > told && !q->t->setting_up && !q->over)
                advise_ready(q->t, ms, now_ms() - began);
}

void set_cc(struct queue *q, uint32_t cc, uint32_t mask, uint32_t value)
{
        unsigned ms = announced_ms(caps(q->t));
        uint32_t fit = with_css(q, cc);
        uint64_t left = t_lend(q->t, 2 * t_scaled(q->t, ms + REPLY_MS));

        q->may_end = !(cc & CC_EN);
        set_slowly(q, PROP_CC, fit);
        await_csts(q, mask, value, ms);
        t_repay(q->t, left);
}

const void *identify(struct queue *q, uint8_t cns, uint32_t nsid)
{
        return succeed(q, send_cmd(q, .opc = NVME_IDENTIFY, .nsid = nsid, .cdw10 = cns,
                                   .bytes = IDENTIFY_LEN))
            .data;
}

const void *identify_optional(struct queue *q, uint8_t cns, uint32_t nsid)
{
        struct reply r = finish(q, send_cmd(q, .opc = NVME_IDENTIFY, .nsid = nsid, .cdw10 = cns,
                                            .bytes = IDENTIFY_LEN));

        return r.status == NVME_SUCCESS ? r.data : NULL;
}

const struct id_ctrl *identify_ctrl(struct queue *q)
{
        return identify(q, CNS_CTRL, 0);
}

void require_inactive(struct queue *q, unsigned rule, uint32_t absent)
{
        uint32_t nn = le32_get(identify_ctrl(q)->nn), last = absent - 1;
        struct t *t = q->t;

        about(t, ID_NS_LIST);
        want(t, last <= nn, "active NSIDs up to NN", "NSID %u, and NN %u", last, nn);
        about(t, rule);
        require(t, absent <= nn, "all %u NSIDs are active", nn);
}

uint32_t retain_event(const struct queue *q)
{
        return caps(q->t)->vs >= NVME_VERSION(1, 3, 0) ? 1u << 15 : 0;
}

uint16_t send_get_log(struct queue *q, uint8_t lid, uint32_t bytes, uint64_t offset)
{
        uint32_t numd = bytes / 4 - 1;

        return send_cmd(q, .opc = NVME_GET_LOG_PAGE, .nsid = 0xffffffff,
                        .cdw10 = lid | retain_event(q) | numd << 16, .cdw11 = numd >> 16,
                        .cdw12 = (uint32_t)offset, .cdw13 = (uint32_t)(offset >> 32),
                        .bytes = bytes);
}

const le32_t *take_changed(struct queue *q)
{
        return (const le32_t *)succeed(q,
                                       send_cmd(q, .opc = NVME_GET_LOG_PAGE, .nsid = NSID_ALL,
                                                .cdw10 = LOG_CHANGED_NS | (CHANGED_NSIDS - 1) << 16,
                                                .bytes = 4 * CHANGED_NSIDS))
            .data;
}

const void *get_log(struct queue *q, uint8_t lid, uint32_t bytes, uint64_t offset)
{
        return succeed(q, send_get_log(q, lid, bytes, offset)).data;
}

/* NULL: the log has changed since its beginning was read. */
static const void *discovery_piece(struct queue *q, uint32_t lsp, uint64_t at, uint32_t bytes)
{
        uint16_t cid = send_cmd(q, .opc = NVME_GET_LOG_PAGE,
                                .cdw10 = LOG_DISCOVERY | lsp | (bytes / 4 - 1) << 16,
                                .cdw12 = (uint32_t)at, .bytes = bytes);
        struct reply r = finish(q, cid);

        if (r.status == NVME_DISCOVER_RESTART)
                return NULL;
        want(q->t, r.status == NVME_SUCCESS || q->over, "Get Log Page: Success", "status %Xh",
             r.status);
        return r.data;
}

/* The log, and whether it has stayed the same; NULL: it is to be read again. In pieces where there are offsets (LPA). */
static uint8_t *discovery_log_once(struct queue *q, uint32_t lsp, uint64_t *entries, bool *same)
{
        const struct id_ctrl *id = identify_ctrl(q);
        bool offsets = id->lpa & LPA_EXTENDED;
        uint64_t most = offsets ? KIB(4) : KIB(256);
        const struct disc_header *h = discovery_piece(q, lsp, 0, DISC_HEADER_LEN);
        const void *piece;
        uint64_t bytes;
        uint8_t *log;

        if (!h)
                return NULL;
        *entries = le64_get(h->numrec);
        require(q->t, *entries <= DISC_LOG_MOST, "the log has %llu entries",
                (unsigned long long)*entries);
        bytes = DISC_HEADER_LEN + *entries * DISC_ENTRY_LEN;
        require(q->t, offsets || !id->mdts || id->mdts > 8 || bytes <= KIB(4) << id->mdts,
                "the log is longer than MDTS, and there are no log page offsets");
        log = t_alloc(q->t, bytes);
        for (uint64_t at = 0; at < bytes; at += most) {
                uint32_t n = (uint32_t)(bytes - at < most ? bytes - at : most);

                if (!(piece = discovery_piece(q, lsp, at, n)))
                        return NULL;
                memcpy(log + at, piece, n);
        }
        piece = discovery_piece(q, lsp, 0, DISC_HEADER_LEN);
        *same = piece && memcmp(piece, log, DISC_HEADER_LEN) == 0 &&
                memcmp(piece, h, DISC_HEADER_LEN) == 0;
        return log;
}

/* Between two of its pieces it may change, or want to be read from its beginning (5.1.12.3.1). What counts on with
 * each reading is judged by who looks at that. */
const struct disc_header *whole_discovery_log(struct queue *q, uint32_t lsp, uint64_t *entries)
{
        enum { TRIES = 5 };
        const uint8_t *log = NULL;
        bool same = false;

        for (int i = 0; i < TRIES && !same; i++)
                log = discovery_log_once(q, lsp, entries, &same);
        require(q->t, log, "the discovery log changes all the time");
        return (const struct disc_header *)(const void *)log;
}

uint32_t get_feature(struct queue *q, uint8_t fid)
{
        return succeed(q, send_cmd(q, .opc = NVME_GET_FEATURES, .cdw10 = fid)).dw0;
}

uint16_t send_set_feature(struct queue *q, uint8_t fid, uint32_t cdw11)
{
        return send_cmd(q, .opc = NVME_SET_FEATURES, .cdw10 = fid, .cdw11 = cdw11);
}

struct deed {
        struct deed *next;
        char subnqn[NQN_FIELD];
        uint32_t cdw10, nsid, cdw11, bytes; /* cdw10 0: the namespace was made */
        const uint8_t *data;
};

static void note_deed(struct queue *admin, struct deed d)
{
        struct deed *made = t_alloc(admin->t, sizeof(*made));

        *made = d;
        memcpy(made->subnqn, admin->subnqn, sizeof(made->subnqn));
        made->next = world(admin->t)->deeds;
        world(admin->t)->deeds = made;
}

struct reply keep_feature(struct queue *q, uint32_t cdw10, uint32_t nsid, uint32_t cdw11,
                          uint32_t bytes)
{
        struct reply r = finish(q, send_cmd(q, .opc = NVME_GET_FEATURES, .nsid = nsid,
                                            .cdw10 = cdw10 & 0xff, .cdw11 = cdw11, .bytes = bytes));

        if (!q->over && r.status == NVME_SUCCESS)
                note_deed(q, (struct deed) { .cdw10 = cdw10,
                                             .nsid = nsid,
                                             .cdw11 = cdw11 | r.dw0,
                                             .bytes = bytes,
                                             .data = bytes ? r.data : NULL });
        return r;
}

void note_made(struct queue *admin, uint32_t nsid)
{
        note_deed(admin, (struct deed) { .nsid = nsid });
}

void forget_made(struct t *t, uint32_t nsid)
{
        for (struct deed **d = &world(t)->deeds; *d;)
                if (!(*d)->cdw10 && (nsid == NSID_ALL || (*d)->nsid == nsid))
                        *d = (*d)->next;
                else
                        d = &(*d)->next;
}

void undo(struct t *t)
{
        enum { DELETE = 1 };
        struct queue *q = NULL;

        for (const struct deed *d = world(t) ? world(t)->deeds : NULL; d; d = d->next) {
                if (!q || q->over || strcmp(q->subnqn, d->subnqn) != 0)
                        q = admin_queue(t, .subnqn = d->subnqn);
                if (d->cdw10)
                        finish(q, send_cmd(q, .opc = NVME_SET_FEATURES, .nsid = d->nsid,
                                           .cdw10 = d->cdw10, .cdw11 = d->cdw11, .bytes = d->bytes,
                                           .data = d->data));
                else
                        finish_slow(q, send_cmd(q, .opc = NVME_NS_MANAGEMENT, .cdw10 = DELETE,
                                                .nsid = d->nsid));
        }
}

struct queue *fusing_queue(struct t *t)
{
        struct queue *q = io_queue(t);

        require(t, le16_get(caps(t)->id.fuses) & FUSES_COMPARE_WRITE, "FUSES is 0");
        require(t, t_is_rdma(t) || caps(t)->in_capsule >= caps(t)->block,
                "the capsule has no room for data");
        require(t, together(q, 2) > 1, ONE_AT_A_TIME);
        return q;
}

uint16_t send_half(struct queue *q, uint8_t opc, uint32_t nsid, uint32_t cdw10, const void *data,
                   uint32_t bytes)
{
        bool fits = !t_is_rdma(q->t) && (q == q->admin || caps(q->t)->in_capsule >= bytes);

        return send_cmd(q, .opc = opc, .nsid = nsid, .cdw10 = cdw10,
                        .bytes = fits ? bytes / 2 : bytes, .sgl_len = bytes / 2, .data = data,
                        .in_capsule = fits);
}

void put_block(struct queue *q, uint64_t slba, const uint8_t *data)
{
        uint32_t block = caps(q->t)->block;

        succeed(q, send_write(q, .slba = slba, .bytes = block, .data = data,
                              .in_capsule = caps(q->t)->in_capsule >= block));
}

const uint8_t *write_six(struct queue *q)
{
        uint32_t block = caps(q->t)->block;
        const uint8_t *data = pattern(q->t, SIX * block);

        require(q->t, caps(q->t)->nsid && block <= BLOCK_MAX, "no blocks of at most %u bytes",
                BLOCK_MAX);
        for (uint32_t i = 0; i < SIX; i++)
                put_block(q, i, data + i * block);
        return data;
}

void require_carried(struct t *t, uint32_t blocks)
{
        require(t, !caps(t)->mdts || caps(t)->mdts / blocks >= caps(t)->block,
                "MDTS is less than %u blocks", blocks);
}

bool are_filled(const struct t *t, const void *blocks, uint32_t bytes, uint8_t value)
{
        uint32_t block = caps(t)->block, plain = caps(t)->plain < block ? caps(t)->plain : block;

        for (uint32_t at = 0; at < bytes; at += block) {
                const uint8_t *p = (const uint8_t *)blocks + at;

                if (p[0] != value || memcmp(p, p + 1, plain - 1) != 0)
                        return false;
        }
        return true;
}

void want_block(struct queue *q, uint64_t slba, const uint8_t *data)
{
        uint32_t block = caps(q->t)->block;

        want_bytes(q->t, "what was written", read_blocks(q, slba, block), data, block);
}

const void *read_blocks(struct queue *q, uint64_t slba, uint32_t bytes)
{
        return succeed(q, send_read(q, .slba = slba, .bytes = bytes)).data;
}

void write_blocks(struct queue *q, uint64_t slba, uint32_t bytes, const void *data)
{
        succeed(q, send_write(q, .slba = slba, .bytes = bytes, .data = data));
}

/* --- namespaces with metadata ----------------------------------------------------------------- */

/* One that has room for the case's range, and three of whose blocks fit in MDTS; protection information of 8 bytes, the
 * last ones, as others are longer than metadata that is 8 bytes, or are for hosts that enable them. */
static bool is_space(struct queue *q, uint32_t nsid, struct space *s)
{
        enum { EXTENDED = 1 << 4, ELBAS = 1 << 15, FIRST = 1 << 3, ROW = 3 };
        uint32_t mdts = caps(q->t)->mdts;
        const struct id_ns *n = identify_optional(q->admin, CNS_NS, nsid);
        unsigned shift, ms, pi;
        bool longer;

        if (!n || n->nsattr & 1)
                return false;
        shift = n->lbaf[id_ns_format(n)].lbads;
        ms = id_ns_metadata(n);
        pi = n->dps & 7;
        longer = pi && ms > PI_LEN && (le32_get(caps(q->t)->id.ctratt) & ELBAS || n->dps & FIRST);
        if (mdts && shift <= 12 && mdts / ROW < (1u << shift) + ms)
                return false;
        if (shift < LBADS_MIN || shift > 12 || !ms || !(n->flbas & EXTENDED) || longer ||
            le64_get(n->nsze) < own_lba(q->t) + world(q->t)->blocks)
                return false;
        *s = (struct space) { .nsid = nsid,
                              .block = 1u << shift,
                              .ms = ms,
                              .pi = (uint8_t)pi,
                              .made = pi && ms == PI_LEN };
        return true;
}

bool has_space(struct queue *q, unsigned types, uint32_t least, struct space *s)
{
        const le32_t *list = identify(q->admin, CNS_NS_LIST, 0);

        for (unsigned i = 0; i < IDENTIFY_LEN / 4 && le32_get(list[i]); i++) {
                uint32_t nsid = le32_get(list[i]);

                if ((nsid == caps(q->t)->nsid || peer(q->t)->every_ns) && is_space(q, nsid, s) &&
                    types >> s->pi & 1 && s->ms >= least)
                        return true;
        }
        return false;
}

struct space find_space(struct queue *q, unsigned types, uint32_t least)
{
        struct space s;

        require(q->t, has_space(q, types, least, &s),
                "no namespace that may be written has metadata of this kind");
        return s;
}

/* --- the target changes ---------------------------------------------------------------------- */

void change(struct t *t, enum change what)
{
        const struct changer *c = &peer(t)->changer;
        char error[RESULT_TEXT] = "";
        int rc = c->make(c->user, what, error, sizeof(error));

        if (rc == CHANGE_NOT)
                skip(t, "%s", *error ? error : "the target does not support this change");
        if (rc != 0)
                broke(t, "--change: %s", error);
}

bool look_again(struct t *t, uint64_t *until)
{
        enum { PAUSE_MS = 20, NOTICED_MS = 3000 };

        if (*until == 0)
                *until = t_deadline(t, NOTICED_MS);
        give_ms(t, PAUSE_MS);
        return now_ms() < *until;
}

unsigned together(const struct queue *q, unsigned most)
{
        unsigned maxcmd = le16_get(caps(q->t)->id.maxcmd); /* 0: not told */

        if (most > q->sqsize)
                most = q->sqsize;
        return maxcmd > 0 && most > maxcmd ? maxcmd : most;
}

/* --- ordinary work ------------------------------------------------------------------------- */

enum { WORK = 8192 }; /* bytes: a multiple of any usual block */

/* As many blocks as that is, with their metadata. */
static uint32_t work(const struct t *t)
{
        uint32_t block = caps(t)->block, data = caps(t)->made ? block : block - caps(t)->ms;

        return WORK / data * block;
}

static void usable(struct t *t)
{
        require(t, caps(t)->nsid && work(t) > 0, "no usable namespace");
}

uint32_t r2t_bytes(struct t *t)
{
        uint32_t capsule = caps(t)->in_capsule, bytes;
        uint32_t most =
            caps(t)->maxh2cdata - 1; /* so that 4 bytes more are not too many; 0: ever */

        usable(t);
        bytes = (capsule / work(t) + 1) * work(t);
        if (caps(t)->mdts > 0 && caps(t)->mdts < most)
                most = caps(t)->mdts;
        if (bytes > most)
                bytes = most / caps(t)->block * caps(t)->block;
        require(t, bytes > 0, "MAXH2CDATA is %u, less than a block", caps(t)->maxh2cdata);
        require(t, bytes <= SLOT_BYTES / 2, "capsules of %u bytes need no R2T", capsule);
        return bytes;
}

uint64_t own_lba(const struct t *t)
{
        return world(t)->slba;
}

uint32_t own_bytes(const struct t *t)
{
        return (uint32_t)(world(t)->blocks * caps(t)->block);
}

uint64_t run_lba(const struct t *t)
{
        return lease(peer(t)).slba;
}

uint64_t run_bytes(const struct t *t)
{
        struct lease l = lease(peer(t));

        return l.slots * l.slot * caps(t)->block;
}

uint64_t bytes_left(struct t *t)
{
        require(t, caps(t)->nsid && caps(t)->blocks > world(t)->slba, "no blocks to read");
        return (caps(t)->blocks - world(t)->slba) * caps(t)->block;
}

uint32_t large_bytes(struct t *t)
{
        uint32_t mdts = caps(t)->mdts;
        uint32_t most = mdts > 0 && mdts < SLOT_BYTES ? mdts : SLOT_BYTES;

        usable(t);
        return (bytes_left(t) < most ? (uint32_t)bytes_left(t) : most) / caps(t)->block *
               caps(t)->block;
}

struct r2t queue_open_r2t(struct queue *q, struct blocks b)
{
        if (b.bytes == 0)
                b.bytes = r2t_bytes(q->t);
        return expect_r2t(q, queue_blocks(q, NVME_WRITE, b));
}

static void work_reading(struct queue *q)
{
        read_blocks(q, 0, work(q->t));
        read_blocks(q, 0, 0);
}

static void work_writing(struct queue *q)
{
        uint32_t block = caps(q->t)->block, bytes = r2t_bytes(q->t);
        const uint8_t *data = pattern(q->t, bytes + block);

        write_blocks(q, 0, bytes, data);
        if (caps(q->t)->in_capsule >= block)
                succeed(q, send_write(q, .slba = bytes / block, .data = data + bytes,
                                      .in_capsule = true));
        succeed(q, send_cmd(q, .opc = NVME_FLUSH, .nsid = caps(q->t)->nsid));
        want_data(q->t, "what was written", read_blocks(q, 0, bytes), data, bytes);
        if (caps(q->t)->in_capsule >= block)
                want_data(q->t, "what was written", read_blocks(q, bytes / block, 0), data + bytes,
                          block);
}

void exercise(struct queue *q)
{
        if (q->admin == q) {
                identify_ctrl(q);
                return;
        }
        usable(q->t);
        if (q->t->test->writes)
                work_writing(q);
        else
                work_reading(q);
}

void exercise_unaligned(struct queue *q)
{
        enum { LESS = 3 };
        struct t *t = q->t;
        uint32_t block = caps(t)->block, n = large_bytes(t), odd;
        const uint8_t *old, *new, *seen;

        if (n <= LESS * block) {
                note(t, "MDTS or the namespace allows no more than %u blocks", LESS);
                return;
        }
        odd = n - LESS * block;
        old = pattern(t, n + odd);
        new = old + n;
        write_blocks(q, 0, n, old);
        write_blocks(q, 1, odd, new);
        want_data(t, "what was written from the second block on", read_blocks(q, 1, odd), new, odd);
        seen = read_blocks(q, 0, n);
        want_data(t, "the block before what was written", seen, old, block);
        want_data(t, "what was written", seen + block, new, odd);
        want_data(t, "the blocks after what was written", seen + block + odd, old + block + odd,
                  n - block - odd);
}

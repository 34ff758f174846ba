/* SPDX-License-Identifier: BSD-3-Clause */
/* Whole commands that have to succeed. */
#include <string.h>

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

/* CAP.TO is about CSTS.RDY; a shutdown takes as long as RTD3E says, or what hosts wait at least. */
static unsigned csts_ms(const struct caps *c, uint32_t mask)
{
        enum { SHUTDOWN_MS = 5000 };
        unsigned ready = c->cap ? CAP_TO(c->cap) * 500 : 30000;
        unsigned shutdown = le32_get(c->id.rtd3e) / 1000;

        if (!CSTS_SHST(mask))
                return ready;
        if (shutdown < SHUTDOWN_MS)
                shutdown = SHUTDOWN_MS;
        return shutdown > ready ? shutdown : ready;
}

void set_cc(struct queue *q, uint32_t cc, uint32_t mask, uint32_t value)
{
        unsigned to = csts_ms(caps(q->t), mask);
        uint64_t end = t_deadline(q->t, to + 500);
        uint32_t csts;

        property_set(q, PROP_CC, with_css(q, cc));
        while (((csts = (uint32_t)property_get(q, PROP_CSTS)) & mask) != value) {
                char expected[80];

                if (q->over)
                        return;
                snprintf(expected, sizeof(expected), "CSTS & %Xh is %Xh within %u ms", mask, value,
                         to);
                want(q->t, now_ms() < end, expected, "CSTS %Xh", csts);
                pause_ms(q->t, 1);
        }
}

const void *identify(struct queue *q, uint8_t cns, uint32_t nsid)
{
        return succeed(q, send_cmd(q, .opc = NVME_IDENTIFY, .nsid = nsid, .cdw10 = cns,
                                   .bytes = IDENTIFY_LEN))
            .data;
}

const struct id_ctrl *identify_ctrl(struct queue *q)
{
        return identify(q, CNS_CTRL, 0);
}

uint16_t send_get_log(struct queue *q, uint8_t lid, uint32_t bytes, uint64_t offset)
{
        uint32_t numd = bytes / 4 - 1;

        return send_cmd(q, .opc = NVME_GET_LOG_PAGE, .nsid = 0xffffffff,
                        .cdw10 = lid | 1u << 15 | numd << 16, .cdw11 = numd >> 16,
                        .cdw12 = (uint32_t)offset, .cdw13 = (uint32_t)(offset >> 32),
                        .bytes = bytes);
}

const void *get_log(struct queue *q, uint8_t lid, uint32_t bytes, uint64_t offset)
{
        return succeed(q, send_get_log(q, lid, bytes, offset)).data;
}

uint32_t get_feature(struct queue *q, uint8_t fid)
{
        return succeed(q, send_cmd(q, .opc = NVME_GET_FEATURES, .cdw10 = fid)).dw0;
}

uint16_t send_set_feature(struct queue *q, uint8_t fid, uint32_t cdw11)
{
        return send_cmd(q, .opc = NVME_SET_FEATURES, .cdw10 = fid, .cdw11 = cdw11);
}

const void *read_blocks(struct queue *q, uint64_t slba, uint32_t bytes)
{
        return succeed(q, send_read(q, .slba = slba, .bytes = bytes)).data;
}

void write_blocks(struct queue *q, uint64_t slba, uint32_t bytes, const void *data)
{
        succeed(q, send_write(q, .slba = slba, .bytes = bytes, .data = data));
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

unsigned together(const struct queue *q, unsigned most)
{
        unsigned maxcmd = le16_get(caps(q->t)->id.maxcmd); /* 0: not told */

        if (most > q->sqsize)
                most = q->sqsize;
        return maxcmd > 0 && most > maxcmd ? maxcmd : most;
}

/* --- ordinary work ------------------------------------------------------------------------- */

enum { WORK = 8192 }; /* bytes: a multiple of any usual block */

static void usable(struct t *t)
{
        require(t, caps(t)->nsid && WORK % caps(t)->block == 0, "no usable namespace");
}

uint32_t r2t_bytes(struct t *t)
{
        uint32_t capsule = caps(t)->in_capsule, bytes = (capsule / WORK + 1) * WORK;
        uint32_t most =
            caps(t)->maxh2cdata - 1; /* so that 4 bytes more are not too many; 0: ever */

        usable(t);
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
        return bytes_left(t) < most ? (uint32_t)bytes_left(t) : most;
}

struct r2t queue_open_r2t(struct queue *q, struct blocks b)
{
        if (b.bytes == 0)
                b.bytes = r2t_bytes(q->t);
        return expect_r2t(q, queue_blocks(q, NVME_WRITE, b));
}

static void work_reading(struct queue *q)
{
        read_blocks(q, 0, WORK);
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
        want_bytes(q->t, "what was written", read_blocks(q, 0, bytes), data, bytes);
        if (caps(q->t)->in_capsule >= block)
                want_bytes(q->t, "what was written", read_blocks(q, bytes / block, 0), data + bytes,
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

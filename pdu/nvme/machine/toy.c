/* SPDX-License-Identifier: BSD-3-Clause */
#include "toy.h"

#include <stdlib.h>
#include <string.h>

static bool is_connect(const struct request *r)
{
        return sqe_is_connect(&r->sqe);
}

static uint16_t admit_admin(struct request *r)
{
        if (r->sqe.opc == NVME_IDENTIFY) {
                r->xfer = XFER_C2H;
                r->len = IDENTIFY_LEN;
        } else if (r->sqe.opc == NVME_SET_FEATURES) {
                r->xfer = XFER_H2C;
                r->len = le32_get(r->sqe.cdw12);
        }
        return 0;
}

static uint16_t admit_io(const struct toy *t, struct request *r)
{
        uint32_t blocks = (le32_get(r->sqe.cdw12) & RW_NLB_MASK) + 1;

        r->xfer = sqe_xfer(&r->sqe);
        if (r->xfer != XFER_NONE)
                r->len = blocks * TOY_BLOCK;
        if (blocks > t->blocks || le32_get(r->sqe.cdw10) > t->blocks - blocks)
                return NVME_LBA_RANGE | STATUS_DNR;
        return 0;
}

static uint16_t admit(void *user, struct request *r)
{
        struct toy *t = user;

        t->admitted++;
        if (is_connect(r)) {
                r->xfer = XFER_H2C;
                r->len = CONNECT_DATA_LEN;
                return 0;
        }
        if (!t->connected)
                return NVME_SEQUENCE_ERROR;
        if (t->qid == 0 || r->sqe.opc == NVME_FABRICS)
                return admit_admin(r);
        return t->refuse ? t->refuse : admit_io(t, r);
}

bool toy_connect(struct toy *t, struct request *r, unsigned entries)
{
        const struct connect_cmd *cmd = &r->sqe.connect;

        if (requests_set_depth(r->queue, entries) != 0)
                return false;
        t->qid = le16_get(cmd->qid);
        t->sq_size = (uint16_t)entries;
        t->sq_head = 0;
        t->no_flow_control = cmd->cattr & CATTR_DISABLE_SQFC;
        t->connected = true;
        r->cqe.dw0 = le32(1);
        return true;
}

static void move_blocks(struct toy *t, struct request *r)
{
        uint8_t *at = t->disk + (size_t)le32_get(r->sqe.cdw10) * TOY_BLOCK;

        if (r->sqe.opc == NVME_WRITE)
                memcpy(at, r->data, r->len);
        if (r->sqe.opc == NVME_READ) {
                memcpy(r->data, at, r->len);
                r->c2h_len = r->len;
        }
}

static void carry_out(struct toy *t, struct request *r)
{
        if (is_connect(r)) {
                if (!toy_connect(t, r, le16_get(r->sqe.connect.sqsize) + 1u))
                        r->cqe.sf = status_field(NVME_INTERNAL_ERROR);
        } else if (t->qid > 0 && r->sqe.opc != NVME_FABRICS) {
                move_blocks(t, r);
        } else if (r->sqe.opc == NVME_IDENTIFY) {
                memset(r->data, TOY_IDENTIFY_BYTE, r->len);
                r->c2h_len = r->len;
        } else if (r->sqe.opc == NVME_SET_FEATURES) {
                memcpy(t->disk, r->data, r->len);
        }
}

static void execute(void *user, struct request *r)
{
        struct toy *t = user;

        t->executed++;
        t->in_place += r->in_place;
        r->success_ok = t->success_ok;
        carry_out(t, r);
        if (!t->defers) {
                request_complete(r);
                return;
        }
        r->next = NULL;
        if (t->parked)
                t->parked_last->next = r;
        else
                t->parked = r;
        t->parked_last = r;
}

void toy_complete(struct toy *t)
{
        struct request *r = t->parked;

        if (!r)
                return;
        t->parked = r->next;
        request_complete(r);
}

uint8_t *toy_buffer_get(void *user, uint32_t len, uint32_t *lkey)
{
        struct toy *t = user;
        uint8_t *buf = NULL;

        *lkey = TOY_LKEY;
        if (t->buffers_max == 0 || t->buffers < t->buffers_max)
                buf = malloc(len);
        t->buffers += buf != NULL;
        return buf;
}

void toy_buffer_put(void *user, uint8_t *buf, uint32_t len)
{
        struct toy *t = user;

        memset(buf, 0xee, len); /* whoever still looks at it will see */
        t->buffers--;
        free(buf);
}

uint16_t toy_sqhd(void *user, const struct request *r)
{
        struct toy *t = user;
        unsigned head = ++t->sq_head;

        if (t->sq_size > 0)
                head %= t->sq_size;
        if (t->no_flow_control)
                head = r->sqe.opc == NVME_FABRICS ? SQHD_DISABLED : 0;
        return (uint16_t)head;
}

static void completing(void *user, struct request *r)
{
        (void)r;
        ((struct toy *)user)->completing++;
}

const struct request_ops toy_ops = {
        .admit = admit,
        .execute = execute,
        .buffer_get = toy_buffer_get,
        .buffer_put = toy_buffer_put,
        .completing = completing,
        .sqhd = toy_sqhd,
};

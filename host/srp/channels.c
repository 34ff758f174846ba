/* SPDX-License-Identifier: BSD-3-Clause */
#include "channels.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host/engine/time.h"
#include "pdu/core/be.h"

enum {
        NAP_MS = 10,
        REOPEN_US = 100000,
        TRIES = 8,       /* of a command that is told something else first */
        LIMITS_LEN = 64, /* of the page that has them */
        CAPACITY_LEN = 32,
        MAX_BYTES = 1 << 20, /* of a command, where the device names no limit */
};

/* --- channels --------------------------------------------------------------------------------- */

static int open_all(struct srp_channels *s, struct host_error *e)
{
        const struct srp_params *p = &s->params;

        s->chan = calloc(p->channels, sizeof(*s->chan));
        if (!s->chan)
                return host_fail(e, HOST_BROKEN, "%s", strerror(ENOMEM));
        for (; s->channels < p->channels; s->channels++)
                if (srp_chan_open(&s->chan[s->channels], &s->params, s->channels + 1,
                                  s->channels == 0, e) < 0) {
                        srp_channels_close(s, false);
                        return -1;
                }
        return 0;
}

int srp_channels_open(struct srp_channels *s, const struct srp_params *p, struct host_error *e)
{
        *s = (struct srp_channels) { .params = *p };
        return open_all(s, e);
}

int srp_channels_reopen(struct srp_channels *s, struct host_error *e)
{
        uint64_t deadline = deadline_in(s->params.reconnect);

        srp_channels_close(s, false);
        while (open_all(s, e) < 0) {
                if (ms_until(deadline) == 0)
                        return -1;
                loop_sleep_us(REOPEN_US);
        }
        return 0;
}

void srp_channels_close(struct srp_channels *s, bool logout)
{
        while (s->channels > 0)
                srp_chan_close(&s->chan[--s->channels], logout);
        free(s->chan);
        s->chan = NULL;
}

void *srp_alloc(struct srp_chan *c, size_t len, struct host_error *e)
{
        uint32_t lkey;
        void *memory = rdma_memory_own(&c->conn.memory, len, &lkey);

        if (!memory)
                host_error_set(e, HOST_BROKEN, "no memory for %zu bytes: %s", len, strerror(errno));
        return memory;
}

/* --- commands --------------------------------------------------------------------------------- */

static void on_done(struct srp_request_out *r, void *user)
{
        (void)r;
        *(bool *)user = true;
}

/* 0: it has an end, of whatever status. */
static int run(struct srp_chan *c, struct srp_request_out *r, struct host_error *e)
{
        uint64_t deadline = deadline_in(c->params->timeout);
        bool done = false;

        r->done = on_done;
        r->user = &done;
        if (!c->state.broken && srp_chan_submit(c, r) < 0) {
                r->user = NULL;
                return host_fail(e, HOST_BROKEN, "channel %u: the request limit is reached",
                                 c->number);
        }
        while (!done && srp_chan_send(c) == 0) {
                if (host_rdma_receive(&c->conn) != 0)
                        continue;
                if (ms_until(deadline) == 0)
                        host_rdma_break(&c->conn, "no response within %u ms", c->params->timeout);
                else if (!done)
                        host_rdma_sleep(&c->conn, NAP_MS);
        }
        (void)srp_chan_send(c); /* answers to what came beside it */
        r->user = NULL;         /* a channel that breaks ends what is outstanding */
        if (done && r->outcome == SRP_DONE)
                return 0;
        *e = c->state.error;
        return -1;
}

int srp_fail_status(const struct srp_request_out *r, const char *what, struct host_error *e)
{
        char line[200] = "";
        struct text t = text_in(line, sizeof(line));

        if (r->has_sense)
                scsi_sense_text(&t, &r->sense);
        else if (r->has_response && r->response)
                text_add(&t, "response code %u", r->response);
        host_error_set(e, HOST_STATUS, "%s: %s%s%s", what, scsi_status_name(r->status),
                       line[0] ? ": " : "", line);
        e->status = r->status;
        return -1;
}

static bool is_told_something(const struct srp_request_out *r)
{
        return r->status == SCSI_BUSY || r->status == SCSI_TASK_SET_FULL ||
               (r->status == SCSI_CHECK && r->has_sense &&
                (r->sense.key == SCSI_UNIT_ATTENTION || r->sense.key == SCSI_NOT_READY));
}

int srp_run_well(struct srp_chan *c, struct srp_request_out *r, const char *what,
                 struct host_error *e)
{
        struct srp_request_out first = *r;

        for (unsigned i = 0; i < TRIES; i++) {
                *r = first;
                if (run(c, r, e) < 0)
                        return -1;
                if (!is_told_something(r))
                        break;
        }
        if (r->status == SCSI_GOOD && !(r->has_response && r->response))
                return 0;
        return srp_fail_status(r, what, e);
}

static struct srp_request_out plain(uint64_t lun, uint8_t op)
{
        return (struct srp_request_out) { .lun = lun, .cdb = { op } };
}

struct srp_request_out srp_rw(const struct srp_disk *d, bool write, uint64_t block, uint32_t blocks,
                              void *data)
{
        struct srp_request_out r = plain(d->lun, write ? SCSI_WRITE_16 : SCSI_READ_16);

        be_put(r.cdb + 2, 8, block);
        be_put(r.cdb + 10, 4, blocks);
        r.direction = write ? SRP_OUT : SRP_IN;
        r.data = data;
        r.len = blocks * d->block_size;
        return r;
}

static struct srp_request_out srp_in(uint64_t lun, uint8_t op, void *data, uint32_t n)
{
        struct srp_request_out r = plain(lun, op);

        memset(data, 0, n);
        r.direction = SRP_IN;
        r.data = data;
        r.len = n;
        return r;
}

struct srp_request_out srp_inquiry(uint64_t lun, int page, void *data, uint16_t n)
{
        struct srp_request_out r = srp_in(lun, SCSI_INQUIRY, data, n);

        r.cdb[1] = page >= 0;
        r.cdb[2] = page >= 0 ? (uint8_t)page : 0;
        be_put(r.cdb + 3, 2, n);
        return r;
}

struct srp_request_out srp_report_luns(void *data, uint32_t n)
{
        struct srp_request_out r = srp_in(0, SCSI_REPORT_LUNS, data, n);

        be_put(r.cdb + 6, 4, n);
        return r;
}

/* --- disks ------------------------------------------------------------------------------------ */

static int ask_capacity(struct srp_chan *c, struct srp_disk *d, uint8_t *p, struct host_error *e)
{
        struct srp_request_out r = srp_in(d->lun, SCSI_SERVICE_IN_16, p, CAPACITY_LEN);

        r.cdb[1] = SCSI_READ_CAPACITY_16;
        be_put(r.cdb + 10, 4, CAPACITY_LEN);
        if (srp_run_well(c, &r, "READ CAPACITY(16)", e) < 0)
                return -1;
        d->blocks = be_get(p, 8) + 1;
        d->block_size = (uint32_t)be_get(p + 8, 4);
        return d->block_size >= 512 && d->block_size % 512 == 0
                   ? 0
                   : host_fail(e, HOST_STATUS, "LUN %u has blocks of %u bytes",
                               scsi_lun_number(d->lun), d->block_size);
}

/* A device without that page has no limit. */
static int ask_limits(struct srp_chan *c, struct srp_disk *d, uint8_t *p, struct host_error *e)
{
        struct srp_request_out r = srp_inquiry(d->lun, 0xb0, p, LIMITS_LEN);
        uint32_t most = MAX_BYTES / d->block_size;

        if (run(c, &r, e) < 0)
                return -1;
        d->max_blocks = r.status == SCSI_GOOD ? (uint32_t)be_get(p + 8, 4) : 0;
        if (d->max_blocks == 0 || d->max_blocks > most)
                d->max_blocks = most;
        return 0;
}

int srp_disk_open(struct srp_chan *c, uint32_t lun, struct srp_disk *d, struct host_error *e)
{
        struct srp_request_out ready;
        uint8_t *p = srp_alloc(c, LIMITS_LEN, e);

        if (!p)
                return -1;
        *d = (struct srp_disk) { .lun = scsi_lun_of(lun) };
        ready = plain(d->lun, SCSI_TEST_UNIT_READY);
        if (srp_run_well(c, &ready, "TEST UNIT READY", e) < 0 || ask_capacity(c, d, p, e) < 0 ||
            ask_limits(c, d, p, e) < 0)
                return -1;
        rdma_memory_drop(&c->conn.memory, p);
        return 0;
}

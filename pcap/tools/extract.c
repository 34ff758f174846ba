/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a capture holds, taken out of it: the blocks of a namespace as commands moved them, the
 * commands of a connection as a sequence to be played again, or PDUs and capsules as seeds for a
 * fuzzer.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "call.h"
#include "command.h"
#include "pdu/io/json.h"
#include "pdu/io/output.h"
#include "pdu/nvme/wire/identify.h"
#include "wirebytes.h"

struct extractor {
        struct pcap_call *call;
        const struct args *args;
        uint64_t count, bytes, left_out;
        bool failed; /* call->err says why */

        struct output to;
        int image;           /* data */
        uint32_t block_size; /* of the namespace; 0: not known yet */
        FILE *out;           /* sequence */
        struct bytes pdu;    /* seeds */
        unsigned seeds[512]; /* written, by kind */
};

static void fail(struct extractor *x, const char *what)
{
        if (!x->failed)
                snprintf(x->call->err, sizeof(x->call->err), "%.200s: %.80s", what,
                         strerror(errno));
        x->failed = true;
}

static bool succeeds(const struct record *r)
{
        return r->ends && r->cmd && (!r->cqe || cqe_status(r->cqe) == NVME_SUCCESS);
}

/* --- data ------------------------------------------------------------------------------------- */

static void learn_block_size(struct extractor *x, const struct session_cmd *c)
{
        if (c->sqe.opc != NVME_IDENTIFY || (le32_get(c->sqe.cdw10) & 0xff) != CNS_NS ||
            le32_get(c->sqe.nsid) != x->args->nsid || c->data_cut ||
            c->data_len < sizeof(struct id_ns) || x->args->block_size)
                return;
        x->block_size = id_ns_block_size((const void *)c->data);
}

/* The blocks of [from, to) that lie within the region that was asked for, written to the image. */
static void write_blocks(struct extractor *x, const struct session_cmd *c, uint64_t slba,
                         uint64_t blocks)
{
        uint64_t from = slba > x->args->slba ? slba : x->args->slba, to = slba + blocks;
        size_t n;

        if (x->args->blocks && to > x->args->slba + x->args->blocks)
                to = x->args->slba + x->args->blocks;
        if (from >= to || to - from > SESSION_DATA_MAX)
                return;
        n = (size_t)(to - from) * x->block_size;
        if ((from - slba) * x->block_size + n > c->data_len) {
                x->left_out++;
                return;
        }
        if (pwrite(x->image, c->data + (from - slba) * x->block_size, n,
                   (off_t)((from - x->args->slba) * x->block_size)) != (ssize_t)n)
                fail(x, x->args->to);
        x->count += to - from;
        x->bytes += n;
}

static void take_data(struct extractor *x, const struct record *r)
{
        const struct session_cmd *c = r->cmd;
        uint64_t slba;

        if (!succeeds(r))
                return;
        if (session_admin(r->session, &c->sqe)) {
                learn_block_size(x, c);
                return;
        }
        if ((c->sqe.opc != NVME_WRITE && c->sqe.opc != NVME_READ) ||
            le32_get(c->sqe.nsid) != x->args->nsid || !args_select_conn(x->args, r->e->conn))
                return;
        slba = le32_get(c->sqe.cdw10) | (uint64_t)le32_get(c->sqe.cdw11) << 32;
        if (c->data_cut || x->block_size == 0 || slba > INT64_MAX / x->block_size)
                x->left_out++;
        else
                write_blocks(x, c, slba, (le32_get(c->sqe.cdw12) & RW_NLB_MASK) + 1);
}

/* --- a sequence ------------------------------------------------------------------------------- */

static struct json_object *hex(const uint8_t *p, size_t n)
{
        static const char digits[] = "0123456789abcdef";
        char *text = malloc(2 * n + 1);
        struct json_object *o;

        if (!text)
                return NULL;
        for (size_t i = 0; i < n; i++) {
                text[2 * i] = digits[p[i] >> 4];
                text[2 * i + 1] = digits[p[i] & 15];
        }
        o = json_object_new_string_len(text, (int)(2 * n));
        free(text);
        return o;
}

static void put(struct json_object *o, const char *name, uint64_t value)
{
        json_object_object_add(o, name, json_object_new_uint64(value));
}

/* A line for each command when it is over: when it was sent and answered says what may overlap. */
static void take_sequence(struct extractor *x, const struct record *r)
{
        const struct session_cmd *c = r->cmd;
        struct json_object *o;

        if (!r->ends || !c || !args_select_conn(x->args, r->e->conn))
                return;
        o = json_object_new_object();
        put(o, "schema", 1);
        put(o, "sent_frame", c->at.frame);
        put(o, "sent_ns", (uint64_t)c->at.time_ns);
        put(o, "answered_frame", r->e->at.frame);
        put(o, "answered_ns", (uint64_t)r->e->at.time_ns);
        put(o, "connection", r->e->conn->number);
        json_object_object_add(o, "qid", json_object_new_int(r->session->qid));
        json_object_object_add(
            o, "command",
            json_object_new_string(sqe_name(&c->sqe, session_admin(r->session, &c->sqe))));
        json_object_object_add(o, "sqe", hex(c->sqe.bytes, sizeof(c->sqe.bytes)));
        if (c->data && !c->data_cut && c->data_len <= INT32_MAX / 4)
                json_object_object_add(o, c->h2c ? "sent_data" : "got_data",
                                       hex(c->data, c->data_len));
        put(o, "status", r->cqe ? cqe_status(r->cqe) : NVME_SUCCESS);
        put(o, "dw0", r->cqe ? le32_get(r->cqe->dw0) : 0);
        put(o, "dw1", r->cqe ? le32_get(r->cqe->dw1) : 0);
        if (fprintf(x->out, "%s\n",
                    json_object_to_json_string_ext(o, JSON_C_TO_STRING_NOSLASHESCAPE)) < 0)
                fail(x, x->args->to);
        json_object_put(o);
        x->count++;
}

/* --- seeds ------------------------------------------------------------------------------------ */

enum { SEEDS_OF_A_KIND = 16 };

static void write_seed(struct extractor *x, const char *kind, unsigned slot, const uint8_t *p,
                       size_t n)
{
        char path[4096];
        FILE *f;

        if (x->seeds[slot]++ >= SEEDS_OF_A_KIND)
                return;
        snprintf(path, sizeof(path), "%s/%s-%02u", x->args->to, kind, x->seeds[slot]);
        f = fopen(path, "wb");
        if (!f || fwrite(p, 1, n, f) != n)
                fail(x, path);
        if (f && fclose(f) != 0)
                fail(x, path);
        x->count++;
        x->bytes += n;
}

static void take_seed(struct extractor *x, const struct record *r)
{
        const struct trace_capsule *c = &r->e->capsule;
        struct wire_parts parts;
        char kind[64];

        if (!args_select_conn(x->args, r->e->conn))
                return;
        if (r->e->kind == TRACE_PDU && !r->e->pdu->cut) {
                if (!wire_bytes(&x->pdu, r->e->pdu, &parts))
                        return;
                snprintf(kind, sizeof(kind), "tcp-%s", pdu_info(r->e->pdu->h->ch.type)->name);
                write_seed(x, kind, r->e->pdu->h->ch.type, x->pdu.p, x->pdu.n);
        } else if (r->e->kind == TRACE_CAPSULE && c->known == c->len) {
                snprintf(kind, sizeof(kind), "rdma-%s", r->sqe ? "command" : "response");
                write_seed(x, kind, r->sqe ? 256 : 257, c->data, c->len);
        } else if (r->e->kind == TRACE_REQUEST || r->e->kind == TRACE_ACCEPT) {
                snprintf(kind, sizeof(kind), "rdma-%s",
                         r->e->kind == TRACE_REQUEST ? "request" : "accept");
                write_seed(x, kind, 258 + (r->e->kind == TRACE_ACCEPT), r->e->cm.data,
                           r->e->cm.len);
        }
}

/* --- the command ------------------------------------------------------------------------------ */

static void on_record(void *user, const struct record *r)
{
        struct extractor *x = user;

        if (x->failed)
                return;
        if (x->args->kind[0] == 'd')
                take_data(x, r);
        else if (x->args->kind[1] == 'e' && x->args->kind[2] == 'q')
                take_sequence(x, r);
        else
                take_seed(x, r);
}

static bool is_seeds(const struct extractor *x)
{
        return x->args->kind[1] == 'e' && x->args->kind[2] == 'e';
}

static bool open_output(struct extractor *x)
{
        const char *to = x->args->to;

        x->image = -1;
        if (is_seeds(x)) {
                if (!output_folder(to))
                        fail(x, to);
                return !x->failed;
        }
        if (!output_begin(&x->to, x->call->file, to, x->call->err, sizeof(x->call->err)))
                return false;
        if (x->args->kind[0] == 'd')
                x->image = open(x->to.path, O_WRONLY | O_TRUNC | O_CLOEXEC);
        else
                x->out = fopen(x->to.path, "we");
        if (x->image >= 0 || x->out)
                return true;
        fail(x, to);
        output_end(&x->to, false);
        return false;
}

/* Of a capture that breaks off in the middle what was read until then is good. */
static void close_output(struct extractor *x)
{
        if (x->out && fclose(x->out) != 0)
                fail(x, x->args->to);
        if (x->image >= 0 && close(x->image) < 0)
                fail(x, x->args->to);
        if (!is_seeds(x) && !output_end(&x->to, !x->failed && (x->count || !*x->call->err)))
                fail(x, x->args->to);
        bytes_free(&x->pdu);
}

static void print_summary(const struct extractor *x)
{
        if (x->args->kind[0] == 'd')
                fprintf(stderr, "%s: %" PRIu64 " blocks of %u bytes\n", x->args->to, x->count,
                        x->block_size);
        else
                fprintf(stderr, "%s: %" PRIu64 " %s\n", x->args->to, x->count,
                        x->args->kind[2] == 'q' ? "commands" : "files");
        if (x->left_out)
                fprintf(stderr,
                        "%s: %" PRIu64 " commands skipped: their data or block size is not known\n",
                        x->args->to, x->left_out);
}

int pcap_extract(struct pcap_call *call)
{
        struct session_options options = { .keep_data = true };
        struct extractor *x;
        struct args args = *call->args;
        struct trace_totals totals;

        if (!args.to) {
                fputs("nvmfspec pcap extract: no output given: use --to\n", stderr);
                return PCAP_USAGE;
        }
        x = calloc(1, sizeof(*x));
        if (!x)
                return PCAP_UNREADABLE;
        x->call = call;
        x->args = call->args;
        x->block_size = (uint32_t)args.block_size;
        args.source.trace.data = true;
        if (open_output(x)) {
                call->args = &args;
                (void)pcap_sessions(call, &options, on_record, x, &totals);
                call->args = x->args;
                close_output(x);
                if (!x->failed)
                        print_summary(x);
        }
        free(x);
        return PCAP_OK;
}

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
#include "extract.h"
#include "pdu/io/json.h"
#include "pdu/io/output.h"
#include "tally.h"

enum { RUN_MAX = 32 << 20 }; /* blocks written at a time */

struct extractor {
        struct pcap_call *call;
        const struct args *args;
        uint64_t count, bytes, left_out;
        bool failed; /* call->err says why */

        struct output to;
        int image;           /* data */
        uint32_t block_size; /* of the namespace; 0: not known yet */
        FILE *out;           /* sequence */
        struct bytes room;   /* seeds */
        struct tally *seeds; /* written, by kind */
};

static void fail(struct extractor *x, const char *what)
{
        if (!x->failed)
                snprintf(x->call->err, sizeof(x->call->err), "%.200s: %.80s", what,
                         strerror(errno));
        x->failed = true;
}

/* --- data ------------------------------------------------------------------------------------- */

/* Those within the region that was asked for, written to the image. */
static void write_blocks(struct extractor *x, const struct extract_blocks *b)
{
        uint64_t from = b->first > x->args->slba ? b->first : x->args->slba;
        uint64_t to = b->first + b->count;
        size_t n, skipped;
        ssize_t put;

        if (x->args->blocks && to > x->args->slba + x->args->blocks)
                to = x->args->slba + x->args->blocks;
        if (from >= to || to - from > RUN_MAX)
                return;
        n = (size_t)(to - from) * x->block_size;
        skipped = (size_t)(from - b->first) * x->block_size;
        if (skipped + n > b->len) {
                x->left_out++;
                return;
        }
        put =
            pwrite(x->image, b->data + skipped, n, (off_t)((from - x->args->slba) * x->block_size));
        if (put < 0 && errno == EFBIG) { /* as far away as no file reaches */
                x->left_out++;
                return;
        }
        if (put != (ssize_t)n)
                fail(x, x->args->to);
        x->count += to - from;
        x->bytes += n;
}

static void take_data(struct extractor *x, const struct trace_record *r)
{
        const struct trace_extract *f = r->e->conn->family->extract;
        uint32_t size =
            x->args->block_size || !f->block_size ? 0 : f->block_size(r->record, x->args->nsid);
        struct extract_blocks b = { 0 };

        if (size)
                x->block_size = size;
        if (!args_select_conn(x->args, r->e->conn) || !f->blocks(&b, r->record, x->args->nsid))
                return;
        if (!b.data || x->block_size == 0 || b.first > INT64_MAX / x->block_size)
                x->left_out++;
        else
                write_blocks(x, &b);
}

/* --- a sequence ------------------------------------------------------------------------------- */

struct json_object *extract_hex(const uint8_t *p, size_t n)
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

/* A line for each command when it is over: when it was sent and answered says what may overlap. */
static void take_sequence(struct extractor *x, const struct trace_record *r)
{
        const struct trace_conn *conn = r->e->conn;
        struct trace_view v = { 0 };
        struct json_object *o;

        conn->family->view(&v, r->record);
        if (!v.ends || !args_select_conn(x->args, conn))
                return;
        o = json_object_new_object();
        put_number(o, "schema", 1);
        put_number(o, "sent_frame", v.command.at.frame);
        put_number(o, "sent_ns", (uint64_t)v.command.at.time_ns);
        put_number(o, "answered_frame", r->e->at.frame);
        put_number(o, "answered_ns", (uint64_t)r->e->at.time_ns);
        put_number(o, "connection", conn->number);
        if (conn->family->queue)
                json_object_object_add(o, "qid", json_object_new_int(conn->family->queue(conn)));
        put_string(o, "command", v.command.name);
        conn->family->extract->command(o, r->record);
        put_number(o, "status", v.status);
        if (fprintf(x->out, "%s\n",
                    json_object_to_json_string_ext(o, JSON_C_TO_STRING_NOSLASHESCAPE)) < 0)
                fail(x, x->args->to);
        json_object_put(o);
        x->count++;
}

/* --- seeds ------------------------------------------------------------------------------------ */

enum { SEEDS_OF_A_KIND = 16 };

static void write_seed(struct extractor *x, const struct extract_seed *seed, unsigned number)
{
        char path[4096];
        FILE *f;

        snprintf(path, sizeof(path), "%s/%s-%02u", x->args->to, seed->kind, number);
        f = fopen(path, "wb");
        if (!f || fwrite(seed->p, 1, seed->n, f) != seed->n)
                fail(x, path);
        if (f && fclose(f) != 0)
                fail(x, path);
        x->count++;
        x->bytes += seed->n;
}

static void take_seed(struct extractor *x, const struct trace_record *r)
{
        const struct trace_family *f = r->e->conn->family;
        struct extract_seed seed = { 0 };
        uint64_t number;

        if (!args_select_conn(x->args, r->e->conn) || !f->extract->seed(&seed, r->record, &x->room))
                return;
        number = tally_add(&x->seeds, args_key(x->args, f, seed.rank), seed.kind);
        if (number == 0)
                fail(x, x->args->to);
        else if (number <= SEEDS_OF_A_KIND)
                write_seed(x, &seed, (unsigned)number);
}

/* --- the command ------------------------------------------------------------------------------ */

static const struct kind {
        const char *name, *cannot;
        void (*take)(struct extractor *x, const struct trace_record *r);
        const char *unit;
} kinds[] = {
        { "data", "has no blocks that could be extracted", take_data, "blocks" },
        { "sequence", "has no commands that could be extracted", take_sequence, "commands" },
        { "seeds", "has no messages that could be extracted", take_seed, "files" },
};
enum { KIND_DATA, KIND_SEQUENCE, KIND_SEEDS };

static unsigned kind_of(const struct args *a)
{
        unsigned i = KIND_DATA;

        while (strcmp(kinds[i].name, a->kind) != 0)
                i++;
        return i;
}

static void on_record(void *user, const struct trace_record *r)
{
        struct extractor *x = user;

        if (!x->failed)
                kinds[kind_of(x->args)].take(x, r);
}

static bool can(const struct args *a, const struct trace_family *f)
{
        const struct trace_extract *e = f->extract;

        switch (kind_of(a)) {
        case KIND_DATA:
                return e && e->blocks;
        case KIND_SEQUENCE:
                return e && e->command && f->view;
        default:
                return e && e->seed;
        }
}

static bool is_seeds(const struct extractor *x)
{
        return kind_of(x->args) == KIND_SEEDS;
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
        if (kind_of(x->args) == KIND_DATA)
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
        bytes_free(&x->room);
        tally_free(&x->seeds);
}

static void print_summary(const struct extractor *x)
{
        unsigned kind = kind_of(x->args);

        fprintf(stderr, "%s: %" PRIu64 " %s", x->args->to, x->count, kinds[kind].unit);
        if (kind == KIND_DATA)
                fprintf(stderr, " of %u bytes", x->block_size);
        fputc('\n', stderr);
        if (x->left_out)
                fprintf(stderr,
                        "%s: %" PRIu64 " commands skipped: their data or block size is not known\n",
                        x->args->to, x->left_out);
}

int pcap_extract(struct pcap_call *call)
{
        struct extractor x = { .call = call,
                               .args = call->args,
                               .block_size = (uint32_t)call->args->block_size };
        const struct trace_reading how = { .keep_data = true, .record = on_record, .user = &x };
        struct trace_totals totals;

        if (!call->args->to) {
                fputs("nvmfspec pcap extract: no output given: use --to\n", stderr);
                return PCAP_USAGE;
        }
        call->can = can;
        call->cannot = kinds[kind_of(call->args)].cannot;
        call->data = true;
        if (!open_output(&x))
                return PCAP_OK;
        (void)pcap_records(call, &how, &totals);
        close_output(&x);
        if (!x.failed)
                print_summary(&x);
        return PCAP_OK;
}

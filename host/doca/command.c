/* SPDX-License-Identifier: BSD-3-Clause */
/* nvmfspec host -t doca query, read, write, verify, perf */
#include "command.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/engine/show.h"
#include "pdu/doca/wire/family.h"

enum { /* groups of options */
       DOCA_BLOCKS = HOST_OWN,
       DOCA_CONTEXTS = HOST_OWN << 1,
       DOCA_RANGE = HOST_OWN << 2,
};
enum { IO_BYTES = 128 << 10, DEPTH = 8 /* of read and write */ };

struct call {
        const struct doca_args *args;
        struct doca_session session;
        uint8_t buf[IO_BYTES]; /* of read and write */
};
typedef int call_fn(struct call *c, struct host_error *e);

static call_fn call_query, call_read, call_write, call_verify, call_perf;

/* clang-format off */
static const struct subcommand {
        struct host_subcommand base; /* first */
        call_fn *run;
        unsigned cores; /* where -i does not say; 0: nothing is started */
} subcommands[] = {
        { { "query", "", "ask for the size of the storage", HOST_WHERE | HOST_OUTPUT }, call_query, 0 },
        { { "read", "", "read blocks to a file or standard output", HOST_WHERE | HOST_OUTPUT | DOCA_RANGE | DOCA_BLOCKS | HOST_FILE }, call_read, 1 },
        { { "write", "", "write blocks from a file or a pattern", HOST_WHERE | DOCA_RANGE | DOCA_BLOCKS | HOST_FILE | HOST_PATTERN }, call_write, 1 },
        { { "verify", "", "write a pattern over many contexts and read it back; destroys data", HOST_WHERE | HOST_OUTPUT | HOST_LOAD | HOST_VERIFY | DOCA_CONTEXTS | DOCA_RANGE }, call_verify, 2 },
        { { "perf", "", "measure IOPS, bandwidth and latency; write loads destroy data", HOST_WHERE | HOST_OUTPUT | HOST_LOAD | HOST_PERF | DOCA_CONTEXTS }, call_perf, 1 },
};
enum { SUBCOMMANDS = sizeof(subcommands) / sizeof(subcommands[0]) };

/* --- options ------------------------------------------------------------------------------------ */

static bool take_waive(void *args, const char *value, char *error, size_t size)
{
        return option_rule_of(&doca_rules, &((struct doca_args *)args)->policy.waived, PARTY_CONTROLLER, value, error, size);
}

static bool take_violate(void *args, const char *value, char *error, size_t size)
{
        struct rule_set *violated = &((struct doca_args *)args)->policy.violated;

        if (!option_rule_of(&doca_rules, violated, PARTY_HOST, value, error, size))
                return false;
        if (doca_rule_get(rulebook_by_name(&doca_rules, value))->violators != 0)
                return true;
        snprintf(error, size, "this requester sends nothing that can break '%s'", value);
        return false;
}

#define AT(member) .at = offsetof(struct doca_args, member)

static const struct option_row options[] = {
        { 'a', "traddr", "ADDR", "address or name", OPTION_STRING, HOST_WHERE, AT(traddr) },
        { 's', "trsvcid", "PORT", "port (4421)", OPTION_STRING, HOST_WHERE, AT(trsvcid) },
        { 0, "dialect", "VERSION", "release of DOCA whose messages are spoken: " DOCA_DIALECT_NAMES " (3.2)", OPTION_CHOICE, HOST_WHERE, AT(dialect), .choices = DOCA_DIALECT_NAMES },
        { 0, "reference", NULL, "the target is as NVIDIA's: a request that fails has used its stage up", OPTION_FLAG, HOST_WHERE, AT(reference) },
        { 0, "device", "ADDR", "address of the RDMA device (that of the control channel)", OPTION_STRING, HOST_WHERE, AT(device) },
        { 0, "cm", NULL, "connections by the connection manager, as iWARP needs them, in place of queue pair numbers", OPTION_FLAG, HOST_WHERE, AT(by_cm) },
        { 0, "storage", "SIZE", "bytes of the storage, which 2.10 cannot ask for (64M)", OPTION_SIZE, HOST_WHERE, AT(storage), .min = 512, .max = UINT64_C(1) << 40 },
        { 0, "timeout", "MS", "timeout of each response in milliseconds (5000)", OPTION_NUMBER, HOST_WHERE, AT(timeout), .min = 1, .max = 86400000 },
        { 0, "waive", "RULE", "do not check this rule of targets; repeatable", OPTION_CALL, HOST_WHERE, .call = take_waive },
        { 0, "violate", "RULE", "break this rule of services; repeatable", OPTION_CALL, HOST_WHERE, .call = take_violate },
        { 'i', "cores", "N", "contexts, each of two queue pairs (verify: 2; perf: 1)", OPTION_NUMBER, DOCA_CONTEXTS, AT(cores), .min = 1, .max = 64 },
        { 0, "slba", "LBA", "first block (0)", OPTION_NUMBER, DOCA_RANGE, AT(base.slba) },
        { 0, "blocks", "N", "blocks (1)", OPTION_NUMBER, DOCA_BLOCKS, AT(base.blocks), .min = 1, .max = UINT32_MAX },
        { 0 },
};
/* clang-format on */

static void defaults(void *args)
{
        struct doca_args *a = args;

        a->trsvcid = "4421";
        a->dialect = "3.2";
        a->timeout = 5000;
        a->storage = 64 << 20;
}

/* --- subcommands -------------------------------------------------------------------------------- */

static int call_query(struct call *c, struct host_error *e)
{
        const struct doca_session *s = &c->session;
        struct show show;

        if (!doca_shape_of(s->params->dialect, DOCA_QUERY))
                return host_fail(e, HOST_USAGE, "2.10 has no query");
        show_begin(&show, host_json(&c->args->base));
        show.d.number(show.d.arg, "total_size", s->total_size, 64, NULL);
        show.d.number(show.d.arg, "block_size", s->block_size, 32, NULL);
        show.d.number(show.d.arg, "blocks", s->block_size ? s->total_size / s->block_size : 0, 64,
                      NULL);
        show_end(&show);
        return 0;
}

static int transfer(void *user, bool write, uint64_t block, uint32_t blocks, struct host_error *e)
{
        struct call *c = user;

        return doca_transfer(&c->session, 0, write, block, blocks, c->buf, e);
}

/* False: e says why not. */
static bool make_blocks(struct call *c, struct host_blocks *b, struct host_error *e)
{
        const struct doca_session *s = &c->session;
        const struct host_args *a = &c->args->base;
        uint64_t all = s->total_size / s->block_size;

        *b = (struct host_blocks) { .block_size = s->block_size,
                                    .max_blocks = IO_BYTES / s->block_size,
                                    .buf = c->buf,
                                    .transfer = transfer,
                                    .user = c };
        if (doca_within(a->slba, a->blocks, all))
                return true;
        host_error_set(e, HOST_USAGE, "the storage has %llu blocks of %u bytes",
                       (unsigned long long)all, s->block_size);
        return false;
}

static int call_read(struct call *c, struct host_error *e)
{
        struct host_blocks b;

        return make_blocks(c, &b, e) ? host_blocks_read(&b, &c->args->base, e) : -1;
}

static int call_write(struct call *c, struct host_error *e)
{
        struct host_blocks b;

        return make_blocks(c, &b, e) ? host_blocks_write(&b, &c->args->base, e) : -1;
}

static int call_verify(struct call *c, struct host_error *e)
{
        struct load l = doca_load(&c->session);

        return host_verify(&l, &c->args->base, e);
}

static int call_perf(struct call *c, struct host_error *e)
{
        struct load l = doca_load(&c->session);

        return host_perf(&l, &c->args->base, e);
}

/* --- a call ------------------------------------------------------------------------------------- */

/* The memory is exported once, so that all queue pairs have to be of one protection domain, which one thread has. */
static int check(const struct subcommand *s, const struct doca_args *a, struct host_error *e)
{
        if (!a->traddr)
                return host_fail(e, HOST_USAGE, "no address: use -a");
        if (host_blocks_check(&a->base, e) < 0)
                return -1;
        if (s->run == call_perf && a->base.cpu && strpbrk(a->base.cpu, ",-"))
                return host_fail(e, HOST_USAGE, "option --cpu: this load has one thread");
        return s->run == call_perf ? host_perf_check(&a->base, e) : 0;
}

static struct doca_params params_of(const struct subcommand *s, const struct doca_args *a)
{
        bool load = s->base.groups & HOST_LOAD;

        return (struct doca_params) {
                .traddr = a->traddr,
                .trsvcid = a->trsvcid,
                .device = a->device,
                .dialect = doca_dialect_named(a->dialect),
                .reference = a->reference,
                .by_cm = a->by_cm,
                .cores = a->cores ? (unsigned)a->cores : s->cores,
                .depth = load ? (unsigned)a->base.iodepth : DEPTH,
                .io_bytes = (uint32_t)(s->run == call_perf     ? a->base.block_size
                                       : s->run == call_verify ? a->base.size
                                                               : IO_BYTES),
                .storage = a->storage,
                .timeout = (unsigned)a->timeout,
                .policy = a->policy,
                .verbs = a->verbs,
        };
}

static int run(const struct host_subcommand *base, void *args, int count, char **words,
               struct host_error *e)
{
        const struct subcommand *s = (const struct subcommand *)base;
        struct call *c = calloc(1, sizeof(*c));
        struct doca_params p;
        int rc;

        (void)count, (void)words;
        if (!c)
                return host_fail(e, HOST_BROKEN, "%s", strerror(ENOMEM));
        c->args = args;
        rc = check(s, args, e);
        p = params_of(s, args);
        if (rc == 0 && (rc = doca_session_open(&c->session, &p, e)) == 0) {
                rc = s->cores > 0 ? doca_session_start(&c->session, e) : 0;
                if (rc == 0)
                        rc = s->run(c, e);
                if (doca_session_close(&c->session, rc == 0 || e->kind != HOST_BROKEN,
                                       rc == 0 ? e : NULL) < 0)
                        rc = -1;
        }
        free(c);
        return rc;
}

static const struct host_subcommand *subcommand(unsigned i)
{
        return i < SUBCOMMANDS ? &subcommands[i].base : NULL;
}

const struct host_family doca_host_family = {
        .family = &doca_family,
        .subcommand = subcommand,
        .address = "",
        .options = options,
        .args_size = sizeof(struct doca_args),
        .defaults = defaults,
        .run = run,
};

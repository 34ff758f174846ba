/* SPDX-License-Identifier: BSD-3-Clause */
#include "srp_command.h"

#include <stdio.h>
#include <string.h>

#include "pdu/io/verbs/verbs_memory.h"
#include "target/srp/srp_server.h"

enum { DEPTH = 8, IT_IU = 8260, OWN_CHANNELS = 16 };

struct srp_fuzz_args {
        struct fuzz_args base; /* first */
        srp_port_id target;
        struct srp_avoid avoid;
        struct srp_remote_peer peer; /* the target's */
        struct verbs_provider *verbs;
        struct srp_server *own; /* NULL: it is another one's */
};

static bool take_target(void *args, const char *value, char *error, size_t size)
{
        if (srp_port_id_read(((struct srp_fuzz_args *)args)->target, value))
                return true;
        snprintf(error, size, "'%s' is not 32 hexadecimal digits", value);
        return false;
}

static bool take_avoid(void *args, const char *value, char *error, size_t size)
{
        return srp_avoid_add(&((struct srp_fuzz_args *)args)->avoid, value, error, size);
}

/* clang-format off */
static const struct option_row options[] = {
        { 0, "target-id", "HEX", "target port identifier, id_ext and ioc_guid: 32 digits (zeroes)", OPTION_CALL, FUZZ_LIVE, .call = take_target },
        { 0, "avoid", "WHAT", "do not send what breaks this rule of initiators, or descriptors of a kind: external, empty or long; repeatable", OPTION_CALL, FUZZ_LIVE, .call = take_avoid },
        { 0 },
};
/* clang-format on */

static bool complete(void *args, char *error, size_t size)
{
        struct srp_fuzz_args *a = args;
        struct srp_params *p = &a->peer.host;
        uint64_t port;

        *p = (struct srp_params) { .traddr = a->base.traddr,
                                   .trsvcid = a->base.trsvcid,
                                   .channels = 1,
                                   .depth = DEPTH,
                                   .it_iu = IT_IU,
                                   .immediate = true,
                                   .timeout = (unsigned)a->base.timeout,
                                   .policy = a->base.policy };
        memcpy(p->target, a->target, sizeof(p->target));
        a->peer.avoid = &a->avoid;
        a->base.config.target.peer = &a->peer;
        if (option_number(a->base.trsvcid, &port) == 0 && port <= UINT16_MAX)
                return true;
        snprintf(error, size, "'%s' is not a port", a->base.trsvcid);
        return false;
}

static void stop(void *args)
{
        struct srp_fuzz_args *a = args;

        if (a->own)
                srp_server_stop(a->own);
        if (a->verbs)
                verbs_memory_free(a->verbs);
}

/* In this process, over verbs in memory: nothing of it is anybody's. */
static bool embed(void *args, char *error, size_t size)
{
        static const char *luns[] = { "mem:1M", "mem:1M,bs=4096" };
        struct srp_fuzz_args *a = args;
        struct srp_options o = { .listen = { { "127.0.0.1", "0" } },
                                 .listens = 1,
                                 .lun = luns,
                                 .luns = 2,
                                 .channels = OWN_CHANNELS,
                                 .quiet = true };

        snprintf(error, size, "no memory");
        o.verbs = a->verbs = verbs_memory_new(NULL);
        a->own = a->verbs ? srp_server_start(&o, error, size) : NULL;
        if (!a->own)
                return false;
        a->peer.host.verbs = a->verbs;
        a->peer.host.traddr = "127.0.0.1";
        a->peer.host.trsvcid = srp_server_port(a->own, 0);
        a->base.config.target.allow_write = true;
        return true;
}

static void defaults(void *args)
{
        ((struct fuzz_args *)args)->trsvcid = "5555";
}

static void line(struct text *t, unsigned on, enum party sender, const void *message)
{
        const struct srp_message *m = message;
        struct srp_login_req asked;

        (void)on;
        (void)sender;
        if (m->login && srp_login_read(m->p, m->n, false, &asked))
                srp_line(t, &asked, sizeof(asked), 0);
        else if (m->n > 0)
                srp_line(t, m->p, m->n, m->imm_at);
        else
                text_add(t, "nothing");
}

const struct fuzz_command srp_fuzz_command = {
        .options = options,
        .args_size = sizeof(struct srp_fuzz_args),
        .defaults = defaults,
        .complete = complete,
        .embed = embed,
        .stop = stop,
        .line = line,
};

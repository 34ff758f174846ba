/* SPDX-License-Identifier: BSD-3-Clause */
/* The host of a play: one that a hook makes connect, or the reference host. */
#include <stdio.h>
#include <string.h>

#include "host/engine/verify.h"
#include "host/nvme/discovery.h"
#include "host/nvme/nvme_load.h"
#include "pdu/io/capture/capture_writer.h"
#include "pdu/io/loop.h"
#include "pdu/io/shell.h"
#include "pdu/nvme/wire/identify.h"
#include "stage.h"

enum {
        HOOK_MS = 30000,
        REFERENCE_MS = 1000,       /* the reference host's patience, scaled, but at least ... */
        REFERENCE_LEAST_MS = 5000, /* ... as a slow machine needs where nobody has scaled it */
        NSID = 1,
        RANGE = 1 << 20,
        PIECE = 256 << 10,
        QUEUES = 2,
        POLL_MS = 5,
        MS_PER_S = 1000,
        NS_PER_MS = 1000000,
};

/* --- a hook -------------------------------------------------------------------------------- */

static const char *or_nothing(const char *text)
{
        return text ? text : "";
}

static void put_environment(const struct stage *s, struct text *command, unsigned ms)
{
        const struct suite *suite = s->t->suite;
        const struct play *p = s->play;

        text_add(command, "export NVMF_CASE=%s NVMF_TRTYPE=%s NVMF_TRADDR=%s NVMF_TRSVCID=%s",
                 s->t->test->id, suite->transport, suite->traddr, s->trsvcid);
        text_add(command, " NVMF_SUBNQN=%s NVMF_HDGST=%d NVMF_DDGST=%d", s->subnqn, p->hdgst,
                 p->ddgst);
        text_add(command, " NVMF_DHCHAP_SECRET=%s NVMF_DHCHAP_CTRL_SECRET=%s",
                 or_nothing(p->secret), or_nothing(p->ctrl_key));
        text_add(command, " NVMF_TLS_KEY=%s NVMF_CONCAT=%d", or_nothing(p->told_psk), p->concat);
        text_add(command, " NVMF_KATO=%u NVMF_IDLE=%u NVMF_SECONDS=%u\n", p->kato, p->idle,
                 ms / MS_PER_S);
}

/* What ends with a hook that took too long, the host did not end. */
void stage_call_hook(struct stage *s)
{
        char buf[HOOK_MAX + 2048], says[SHELL_LINE];
        struct text command = text_in(buf, sizeof(buf));
        unsigned ms = (unsigned)((HOOK_MS + s->play->grace) * s->t->suite->timeout_scale) +
                      s->play->idle * MS_PER_S;
        int64_t until = loop_wall_ns() + (int64_t)ms * NS_PER_MS;

        put_environment(s, &command, ms);
        text_add(&command, "%s", peer(s->t)->hook);
        s->seen->status = shell_hear(buf, says, s->seen->wrong, sizeof(s->seen->wrong), ms);
        if (s->seen->status == PLAY_HUNG)
                s->through_ns = s->over_ns = until;
        snprintf(s->seen->says, sizeof(s->seen->says), "%s", says);
}

/* --- the reference host -------------------------------------------------------------------- */

static bool has_flaw(const struct stage *s, enum flaw_id flaw)
{
        return flawed(&peer(s->t)->policy, flaw);
}

/* A key that is not one stays empty: reference() then says so. */
static void tell_psk(const struct stage *s, struct auth_key *key)
{
        if (tls_key_parse(key, s->play->told_psk) && has_flaw(s, FLAW_HOST_TLS_CRC) && s->play->psk)
                tls_key_parse(key, s->play->psk);
}

/* Likewise a secret. */
static void tell_secret(const struct stage *s, struct auth_key *key)
{
        if (auth_key_parse(key, s->play->secret) && has_flaw(s, FLAW_HOST_KEY_CRC))
                auth_key_parse(key, s->play->key);
}

static struct host_params reference(const struct stage *s)
{
        const struct suite *suite = s->t->suite;
        struct host_params p = host_params_default();

        p.transport = t_is_rdma(s->t) ? HOST_RDMA : HOST_TCP;
        p.verbs = s->verbs;
        p.traddr = suite->traddr;
        p.trsvcid = s->trsvcid;
        p.hostnqn = world(s->t)->hostnqn;
        memcpy(p.hostid, world(s->t)->hostid, sizeof(p.hostid));
        p.timeout = (unsigned)t_scaled(s->t, REFERENCE_MS);
        if (p.timeout < REFERENCE_LEAST_MS)
                p.timeout = REFERENCE_LEAST_MS;
        p.hdgst = s->play->hdgst;
        p.ddgst = s->play->ddgst;
        if (s->play->kato)
                p.kato = s->play->kato * MS_PER_S;
        if (s->play->secret)
                tell_secret(s, &p.dhchap);
        if (s->play->ctrl_key)
                auth_key_parse(&p.dhchap_ctrl, s->play->ctrl_key);
        if (s->play->told_psk)
                tell_psk(s, &p.tls.key);
        p.concat = s->play->concat;
        p.no_sqfc = true;
        p.policy = &peer(s->t)->policy;
        return p;
}

static bool tells_no_tls(const struct discovery_log *log)
{
        for (uint64_t i = 0; i < log->count; i++) {
                const struct disc_entry *e = disc_log_entry(log->page, log->len, i);

                if (e && e->subtype == SUBTYPE_NVM && e->tsas[0] != SECTYPE_NONE)
                        return false;
        }
        return true;
}

static int read_discovery(struct stage *s, struct host_error *e)
{
        struct host_params p = reference(s);
        struct discovery_log log;
        struct host_ctrl c;

        p.subnqn = NQN_DISCOVERY;
        p.io_queues = 0;
        p.kato = 0;
        if (host_ctrl_connect(&c, &p, e) < 0)
                return -1;
        if (discovery_read(&c, 0, &log, e) < 0) {
                host_ctrl_close(&c);
                return -1;
        }
        s->untold = has_flaw(s, FLAW_HOST_TLS_LOG) && tells_no_tls(&log);
        discovery_free(&log);
        return host_ctrl_disconnect(&c, e);
}

static int verify(const struct stage *s, struct host_ctrl *c, struct host_error *e)
{
        static const struct verify_options usual = {
                .range = RANGE, .max_size = PIECE, .depth = 8, .passes = 1, .asked_for = true
        };
        struct verify_options o = usual;
        struct verify_result r;
        struct load l;
        struct id_ns id;

        if (host_ctrl_identify(c, CNS_NS, NSID, &id, e) < 0)
                return -1;
        o.seed = s->t->suite->seed;
        if (id_ns_block_size(&id) == 0 || le64_get(id.nsze) == 0)
                return host_fail(e, HOST_STATUS, "namespace 1 has no usable blocks");
        l = nvme_load(c, NSID, id_ns_block_size(&id), le64_get(id.nsze));
        if (verify_run(&l, &o, &r, e) < 0)
                return -1;
        return r.differs ? host_fail(e, HOST_STATUS, "%s", r.line) : 0;
}

/* Nothing but Keep Alive. */
static int stay_idle(const struct stage *s, struct host_ctrl *c, struct host_error *e)
{
        uint64_t until = loop_now_ms() + (uint64_t)s->play->idle * MS_PER_S;

        while (loop_now_ms() < until) {
                if (host_ctrl_poll(c) < 0)
                        return host_fail(e, HOST_BROKEN, "the connection ended while it was idle");
                pause_ms(s->t, POLL_MS);
        }
        return 0;
}

static int work(const struct stage *s, struct host_ctrl *c, struct host_error *e)
{
        if (verify(s, c, e) < 0)
                return -1;
        if (s->play->idle == 0)
                return 0;
        return stay_idle(s, c, e) < 0 ? -1 : verify(s, c, e);
}

static int use_subsystem(const struct stage *s, bool without, struct host_error *e)
{
        struct host_params p = reference(s);
        struct host_ctrl c;

        if (s->untold || has_flaw(s, FLAW_HOST_TLS_PLAIN) || without)
                p.tls.key.len = 0;
        p.subnqn = s->subnqn;
        p.io_queues = QUEUES;
        if (host_ctrl_connect(&c, &p, e) < 0)
                return -1;
        if (work(s, &c, e) < 0) {
                host_ctrl_close(&c);
                return -1;
        }
        return host_ctrl_disconnect(&c, e);
}

/* The discovery service has no use for authentication: nor for a PSK that this would generate. */
static int read_before(struct stage *s, struct host_error *e)
{
        return s->play->concat ? 0 : read_discovery(s, e);
}

void stage_call_reference(struct stage *s)
{
        struct host_error e = { 0 };

        if (s->play->told_psk && !reference(s).tls.key.len)
                host_error_set(&e, HOST_USAGE, "the PSK is not a valid one");
        else if (s->play->secret && !reference(s).dhchap.len)
                host_error_set(&e, HOST_USAGE, "the secret is not a valid one");
        else if ((read_before(s, &e) == 0 && use_subsystem(s, false, &e) == 0) ||
                 (has_flaw(s, FLAW_HOST_TLS_FALLS) && use_subsystem(s, true, &e) == 0))
                return;
        s->seen->status = e.kind ? (int)e.kind : HOST_BROKEN;
        snprintf(s->seen->says, sizeof(s->seen->says), "%.*s", RESULT_TEXT - 1, e.line);
}

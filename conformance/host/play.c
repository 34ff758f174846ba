/* SPDX-License-Identifier: BSD-3-Clause */
#include "play.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conformance/engine/escape.h"
#include "pdu/core/wipe.h"
#include "pdu/io/capture/capture_writer.h"
#include "pdu/io/loop.h"
#include "pdu/io/verbs/verbs_memory.h"
#include "stage.h"

enum {
        GRACE_MS = 10000
}; /* hosts end connections when their hook is back already; where a play names no other time */

/* --- the target ---------------------------------------------------------------------------- */

static bool make_fabric(struct stage *s, char *error, size_t size)
{
        const struct suite *suite = s->t->suite;

        s->verbs = suite->verbs;
        if (!t_is_rdma(s->t) || s->verbs)
                return true;
        s->verbs = s->memory = verbs_memory_new(NULL);
        snprintf(error, size, "out of memory");
        return s->verbs;
}

static void take_key(struct stage *s, struct auth_key *key, const char *text)
{
        const char *wrong = text ? auth_key_parse(key, text) : NULL;

        if (wrong)
                broke(s->t, "%s: %s", text, wrong);
}

static const struct auth_keys *keys_of(struct stage *s)
{
        const struct play *p = s->play;

        take_key(s, &s->keys.host, p->key);
        take_key(s, &s->keys.ctrl, p->ctrl_key);
        s->keys.hashes = p->hashes;
        s->keys.groups = p->groups;
        return p->key ? &s->keys : NULL;
}

static void take_psk(struct stage *s, struct target_options *o)
{
        const char *wrong = s->play->psk ? tls_key_parse(&o->tls.key, s->play->psk) : NULL;

        if (wrong)
                broke(s->t, "%s: %s", s->play->psk, wrong);
        o->record_hello = s->play->psk || s->play->told_psk || s->play->concat;
        s->tls = (struct stage_tls) { s->play->act, &s->seen->tls };
        o->tls_take_over = s->play->act ? stage_tls_take : NULL;
        o->tls_user = &s->tls;
}

static void start_target(struct stage *s, struct capture_writer *record, char *error, size_t size)
{
        static const char *const one_ns[] = { "mem:8M", NULL };
        const struct suite *suite = s->t->suite;
        struct target_options o = s->play->target;

        o.trtype = t_is_rdma(s->t) ? TRTYPE_RDMA : TRTYPE_TCP;
        o.subnqn = s->subnqn;
        o.traddr = suite->traddr;
        o.trsvcid = suite->trsvcid;
        o.ns = o.ns ? o.ns : one_ns;
        o.keys = keys_of(s);
        take_psk(s, &o);
        o.quiet = true;
        o.record = record;
        if (peer(s->t)->hook)
                o.policy.waived = peer(s->t)->policy.waived;
        if (s->play->breaks != RULE_NONE)
                rule_add(&o.policy.violated, s->play->breaks);
        if (s->play->flaw != FLAW_NONE)
                rule_add(&o.policy.flaws, s->play->flaw);
        if (!make_fabric(s, error, size))
                return;
        o.verbs = s->verbs;
        s->target = target_start(&o, error, size);
        wipe(&o.tls, sizeof(o.tls));
        if (s->target)
                snprintf(s->trsvcid, sizeof(s->trsvcid), "%u", target_trsvcid(s->target));
        if (s->play->stranger)
                snprintf(s->subnqn, sizeof(s->subnqn), "nqn.2026-01.io.nvmfspec:nobody");
}

/* What the host has ended its target has not yet seen end. */
static void await_end(const struct stage *s)
{
        unsigned ms = s->play->grace ? s->play->grace : GRACE_MS;
        uint64_t until = loop_now_ms() + (uint64_t)(ms * s->t->suite->timeout_scale);

        while (target_connections(s->target) > 0 && loop_now_ms() < until)
                pause_ms(s->t, 1);
}

static void end_target(struct stage *s)
{
        if (s->target)
                await_end(s);
        if (s->over_ns == 0)
                s->over_ns = loop_wall_ns();
        if (s->target)
                target_stop(s->target);
        if (s->memory)
                verbs_memory_free(s->memory);
}

/* --- all of it ----------------------------------------------------------------------------- */

/* A case keeps the capture of its last play. */
static void name_capture(struct t *t)
{
        const char *folder = getenv("TMPDIR");
        int fd;

        if (t->capture[0])
                unlink(t->capture);
        snprintf(t->capture, sizeof(t->capture), "%s/nvmfspec-XXXXXX.pcap",
                 folder ? folder : "/tmp");
        fd = mkstemps(t->capture, (int)strlen(".pcap"));
        if (fd < 0)
                broke(t, "%s: %s", t->capture, strerror(errno));
        close(fd);
}

static void act(struct stage *s)
{
        char error[RESULT_TEXT] = "";
        struct capture_writer *record = capture_writer_open(s->t->capture, error, sizeof(error));

        if (record)
                start_target(s, record, error, sizeof(error));
        if (s->target && peer(s->t)->hook)
                stage_call_hook(s);
        else if (s->target)
                stage_call_reference(s);
        if (s->through_ns == 0)
                s->through_ns = loop_wall_ns();
        end_target(s);
        if (record && capture_writer_close(record) != 0)
                broke(s->t, "%s: %s", s->t->capture, strerror(errno));
        if (!s->target)
                broke(s->t, "%s", error);
}

/* What the hook complained about stands after what went over the connections. */
static void tell_errors(struct t *t, struct played *seen)
{
        char lines[sizeof(seen->wrong)], *rest = lines, *line, *last = NULL;

        memcpy(lines, seen->wrong, sizeof(lines));
        while ((line = strsep(&rest, "\r\n"))) {
                if (!*line)
                        continue;
                escape_text(line);
                exchange_event(&t->log, 0, "stderr: %s", line);
                last = line;
        }
        if (!*seen->says && last)
                snprintf(seen->says, sizeof(seen->says), "%.300s", last);
}

void play(struct t *t, const struct play *p, struct played *seen)
{
        static _Atomic unsigned plays;
        struct stage s = { .t = t, .play = p, .seen = seen };
        char error[RESULT_TEXT];

        *seen = (struct played) { 0 };
        snprintf(s.subnqn, sizeof(s.subnqn), PLAY_NQN "%d-%u", (int)getpid(),
                 atomic_fetch_add(&plays, 1));
        name_capture(t);
        act(&s);
        t->hung |= seen->status == PLAY_HUNG;
        if (stage_see(&s, error, sizeof(error)) < 0)
                broke(t, "%s", error);
        seen->broken |= seen->tls.done;
        seen->left |= seen->tls.left || seen->tls.ended_ns >= s.over_ns;
        tell_errors(t, seen);
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "srp_initiators.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/srp/channels.h"
#include "pdu/io/loop.h"
#include "pdu/io/shell.h"
#include "pdu/io/verbs/verbs_memory.h"
#include "pdu/srp/machine/channel.h"
#include "srp_words.h"
#include "target/srp/srp_script.h"
#include "target/srp/srp_server.h"

enum {
        SESSION_MS = 2000, /* of our initiator's login and of each command */
        HOOK_SECONDS = 30, /* as --timeout-scale makes of them */
        COMMAND = 4096,
        WATCHED = 8, /* channels; of more, not all is judged */
        PUTS = 3,
};

/* --- what is played ----------------------------------------------------------------------------- */

/* A place at which the target's words are not as usual. */
struct trick {
        uint8_t on;     /* type of the IU; SRP_LOGIN_REQ: there is none */
        unsigned first; /* the first of this type that is changed, from 0; */
        bool each;      /* ... and all after it */
        bool working;   /* all before the first command with data-out are not counted */
        struct put {
                uint8_t at, n; /* n 0: nothing */
                uint64_t value;
        } put[PUTS];
        int len; /* bytes that are sent of it; 0: all; -1: none */
        uint8_t
            more; /* type of an IU that follows it; SRP_LOGIN_REQ: none; SRP_RSP: the same again */
        int32_t delta;  /* of that */
        unsigned times; /* that it follows; 0: once */
        bool other_tag; /* the tag is that of a command on another channel */
};

struct play {
        struct srp_options target; /* what is not as usual */
        enum srp_rule breaks;      /* SRP_RULE_NONE: none */
        struct trick trick;
        bool rejects; /* logins are */
};

struct watched { /* what the initiator says on a channel */
        const void *channel;
        struct srp_channel seen;
        uint64_t tag; /* of the last command */
};

struct stage { /* a play that is on; what follows `lock` is under it */
        struct t *t;
        const struct play *play;
        struct verbs_provider *memory; /* of our initiator; NULL: theirs is another machine's */
        struct srp_server *target;
        char said[SHELL_LINE]; /* by the initiator, where it failed */
        bool ok, hung;
        pthread_mutex_t lock;
        unsigned count; /* IUs of the trick's type */
        bool working;   /* the initiator has sent data */
        bool tricked;
        struct watched watched[WATCHED];
        struct rule_set broken;  /* by the initiator, */
        char how[EXCHANGE_LINE]; /* ... the first of them */
        unsigned logins;         /* accepted or rejected */
};

/* --- the script --------------------------------------------------------------------------------- */

static struct srp_channel *watched(struct stage *s, const void *channel, bool login)
{
        struct watched *w = s->watched, *end = w + WATCHED;

        while (w < end && (login ? w->channel && w->channel != channel : w->channel != channel))
                w++;
        if (w == end)
                return NULL;
        w->channel = channel;
        if (login)
                srp_channel_init(&w->seen);
        return &w->seen;
}

static void note_command(struct stage *s, const void *channel, const struct srp_cmd *cmd)
{
        s->working |= cmd->buf_fmt >> 4;
        for (struct watched *w = s->watched; w < s->watched + WATCHED; w++)
                if (w->channel == channel)
                        w->tag = be64_get(cmd->tag);
}

static void heard(void *user, const void *channel, const void *iu, uint32_t n)
{
        struct stage *s = user;
        bool login = n > 0 && *(const uint8_t *)iu == SRP_LOGIN_REQ;
        struct srp_channel *c;
        char line[EXCHANGE_LINE];
        struct text text = text_in(line, sizeof(line));
        bool correct;

        pthread_mutex_lock(&s->lock);
        correct = rule_set_empty(&s->broken);
        s->logins += login;
        c = watched(s, channel, login);
        if (c && login)
                srp_channel_login(c, iu, n, true, &s->broken);
        else if (c)
                srp_channel_iu(c, PARTY_HOST, iu, n, &s->broken);
        if (n >= sizeof(struct srp_cmd) && *(const uint8_t *)iu == SRP_CMD)
                note_command(s, channel, iu);
        srp_line(&text, iu, n, c ? srp_channel_immediate(c) : 0);
        exchange_header(&s->t->log, 1, false, 1, iu, n, line);
        if (correct)
                memcpy(s->how, line, sizeof(line));
        pthread_mutex_unlock(&s->lock);
}

static void add_more(const struct trick *k, struct srp_said *said)
{
        struct srp_cred_req r = { .opcode = k->more,
                                  .req_lim_delta = be32((uint32_t)k->delta),
                                  .tag = be64(0x7ea5e) };
        struct srp_aer_req a = { .opcode = SRP_AER_REQ, .tag = be64(0x7ea5e) };

        if (k->more == SRP_RSP) {
                memcpy(said->more, said->iu, said->len);
                said->more_len = said->len;
        } else if (k->more == SRP_AER_REQ) {
                memcpy(said->more, &a, sizeof(a));
                said->more_len = sizeof(a);
        } else if (k->more) {
                memcpy(said->more, &r, sizeof(r));
                said->more_len = sizeof(r);
        }
        said->more_times = !k->more ? 0 : k->times ? k->times : 1;
}

static void put_other_tag(const struct stage *s, const void *channel, struct srp_said *said)
{
        for (const struct watched *w = s->watched; w < s->watched + WATCHED; w++)
                if (w->channel && w->channel != channel)
                        be_put(said->iu + offsetof(struct srp_rsp, tag), 8, w->tag);
}

static void play_trick(struct stage *s, const void *channel, struct srp_said *said)
{
        const struct trick *k = &s->play->trick;
        unsigned nth;

        if (k->on == SRP_LOGIN_REQ || said->iu[0] != k->on || (k->working && !s->working))
                return;
        nth = s->count++;
        if (nth < k->first || (nth > k->first && !k->each))
                return;
        s->tricked = true;
        for (unsigned i = 0; i < PUTS; i++)
                if (k->put[i].n > 0)
                        be_put(said->iu + k->put[i].at, k->put[i].n, k->put[i].value);
        if (k->other_tag)
                put_other_tag(s, channel, said);
        if (k->len)
                said->len = k->len > 0 ? (uint32_t)k->len : 0;
        add_more(k, said);
}

static void show(struct stage *s, const uint8_t *iu, uint32_t n)
{
        char line[EXCHANGE_LINE];
        struct text text = text_in(line, sizeof(line));

        srp_line(&text, iu, n, 0);
        exchange_header(&s->t->log, 1, true, 1, iu, n, line);
}

static void say(void *user, const void *channel, struct srp_said *said)
{
        struct stage *s = user;
        struct rule_set ours = { 0 };
        struct srp_channel *c;

        pthread_mutex_lock(&s->lock);
        s->logins += !channel; /* one that is rejected is not heard */
        play_trick(s, channel, said);
        c = channel ? watched(s, channel, false) : NULL;
        if (c && c->state == SRP_STATE_ASKED)
                srp_channel_accept(c, said->iu, said->len, &ours);
        else if (c)
                srp_channel_iu(c, PARTY_CONTROLLER, said->iu, said->len, &ours);
        for (unsigned i = 0; c && i < said->more_times; i++)
                srp_channel_iu(c, PARTY_CONTROLLER, said->more, said->more_len, &ours);
        show(s, said->iu, said->len);
        for (unsigned i = 0; i < said->more_times; i++)
                show(s, said->more, said->more_len);
        pthread_mutex_unlock(&s->lock);
}

/* --- the target --------------------------------------------------------------------------------- */

static void start_target(struct stage *s, struct srp_script *script)
{
        static const char *luns[] = { "mem:8M" };
        const struct suite *suite = s->t->suite;
        struct srp_options o = s->play->target;
        char error[RESULT_TEXT];

        *script = (struct srp_script) { heard, say, s };
        o.listen[0] = (struct srp_place) { suite->traddr, suite->trsvcid };
        o.listens = 1;
        if (!o.lun) {
                o.lun = luns;
                o.luns = 1;
        }
        if (s->play->rejects)
                memcpy(o.id, "another target ", sizeof(o.id));
        o.quiet = true;
        o.script = script;
        if (!srp_peer_of(suite)->hook)
                s->memory = verbs_memory_new(NULL);
        o.verbs = s->memory;
        if (s->play->breaks != SRP_RULE_NONE)
                rule_add(&o.policy.violated, s->play->breaks);
        if (s->play->trick.more) /* which the target knows nothing of */
                rule_add(&o.policy.waived, SRP_TAG_ANSWER);
        s->target = srp_server_start(&o, error, sizeof(error));
        if (!s->target)
                snprintf(s->said, sizeof(s->said), "%.*s", (int)sizeof(s->said) - 1, error);
}

static void end_target(struct stage *s)
{
        if (s->target)
                srp_server_stop(s->target);
        if (s->memory)
                verbs_memory_free(s->memory);
        pthread_mutex_destroy(&s->lock);
}

/* --- the initiator ------------------------------------------------------------------------------ */

static int compare(const uint8_t *a, const uint8_t *b, uint32_t n, struct host_error *e)
{
        return memcmp(a, b, n) == 0
                   ? 0
                   : host_fail(e, HOST_BROKEN, "what was read is not what was written");
}

/* Blocks are written and read back on each channel, in each form that there is. */
static int work_on(struct srp_chan *c, const struct srp_disk *d, unsigned n, struct host_error *e)
{
        static const enum srp_form forms[] = { SRP_FORM_DIRECT, SRP_FORM_INDIRECT,
                                               SRP_FORM_IMMEDIATE };
        enum { BLOCKS = 4 };
        uint32_t len = BLOCKS * d->block_size;
        uint8_t *out = srp_alloc(c, len, e), *in = out ? srp_alloc(c, len, e) : NULL;

        for (unsigned i = 0; in && i < sizeof(forms) / sizeof(forms[0]); i++) {
                struct srp_request_out w = srp_rw(d, true, n * BLOCKS, BLOCKS, out), r;

                memset(out, (int)(0x11 * (i + 1) + n), len);
                memset(in, 0, len);
                w.form = forms[i];
                r = srp_rw(d, false, n * BLOCKS, BLOCKS, in);
                r.form = i == 1 ? SRP_FORM_INDIRECT : SRP_FORM_DIRECT;
                if (srp_run_well(c, &w, "WRITE", e) < 0 || srp_run_well(c, &r, "READ", e) < 0 ||
                    compare(out, in, len, e) < 0)
                        return -1;
        }
        return in ? 0 : -1;
}

static int have_session(struct srp_channels *all, struct host_error *e)
{
        struct srp_disk disk;

        if (srp_disk_open(&all->chan[0], 0, &disk, e) < 0)
                return -1;
        for (unsigned i = 0; i < all->channels; i++)
                if (work_on(&all->chan[i], &disk, i, e) < 0)
                        return -1;
        return 0;
}

static void run_ours(struct stage *s)
{
        const struct srp_peer *peer = srp_peer_of(s->t->suite);
        struct srp_params p = { .traddr = s->t->suite->traddr,
                                .trsvcid = srp_server_port(s->target, 0),
                                .initiator = "nvmfspec session",
                                .channels = s->play->target.channels == 1 ? 1 : 2,
                                .depth = 4,
                                .it_iu = 8260,
                                .immediate = true,
                                .timeout = (unsigned)t_scaled(s->t, SESSION_MS),
                                .policy = peer->policy,
                                .verbs = s->memory };
        struct srp_channels all;
        struct host_error e = { 0 };

        memcpy(p.target, peer->target, sizeof(p.target));
        if (srp_channels_open(&all, &p, &e) == 0) {
                s->ok = have_session(&all, &e) == 0;
                srp_channels_close(&all, true);
        }
        if (!s->ok)
                snprintf(s->said, sizeof(s->said), "%.*s", (int)sizeof(s->said) - 1, e.line);
}

static void run_hook(struct stage *s)
{
        const struct srp_peer *peer = srp_peer_of(s->t->suite);
        char command[COMMAND], id[SRP_PORT_ID_TEXT];
        unsigned ms = (unsigned)t_scaled(s->t, HOOK_SECONDS * 1000);
        int n, status;

        srp_port_id_text(peer->target, id);
        n = snprintf(command, sizeof(command),
                     "export NVMF_TRTYPE=srp NVMF_TRADDR='%s' NVMF_TRSVCID='%s' NVMF_TARGET_ID=%s "
                     "NVMF_SECONDS=%u\n%s",
                     s->t->suite->traddr, srp_server_port(s->target, 0), id, ms / 1000, peer->hook);
        status = n < COMMAND ? shell_run(command, s->said, ms) : -1;
        s->ok = status == 0;
        s->hung = status < 0;
}

/* --- a play ------------------------------------------------------------------------------------- */

struct played {
        bool ok, tricked;
        bool owes; /* the answer to a request of the target */
        struct rule_set broken;
        char how[EXCHANGE_LINE], said[SHELL_LINE];
};

static bool owes_answer(const struct stage *s)
{
        for (const struct watched *w = s->watched; w < s->watched + WATCHED; w++)
                for (unsigned i = 0; w->channel && i < SRP_CHANNEL_ASKED; i++)
                        if (w->seen.target_request[i].used)
                                return true;
        return false;
}

static void perform(struct stage *s, struct played *seen)
{
        struct srp_script script;
        bool started;

        pthread_mutex_init(&s->lock, NULL);
        start_target(s, &script);
        started = s->target;
        if (started && srp_peer_of(s->t->suite)->hook)
                run_hook(s);
        else if (started)
                run_ours(s);
        end_target(s);
        *seen = (struct played) {
                .ok = s->ok, .tricked = s->tricked, .owes = owes_answer(s), .broken = s->broken
        };
        memcpy(seen->how, s->how, sizeof(seen->how));
        memcpy(seen->said, s->said, sizeof(seen->said));
        if (!started)
                broke(s->t, "%s", s->said);
        s->t->hung |= s->hung;
        if (s->hung)
                harm(s->t, "the initiator's command ends", "%s", s->said);
        if (s->logins == 0 && srp_peer_of(s->t->suite)->hook)
                broke(s->t, "the hook has not logged in: %s", s->said);
}

static void play(struct t *t, const struct play *p, struct played *seen)
{
        struct stage *s = t_alloc(t, sizeof(*s));

        *s = (struct stage) { .t = t, .play = p };
        t->negative = p->breaks != SRP_RULE_NONE || p->trick.on != SRP_LOGIN_REQ;
        perform(s, seen);
}

/* --- cases -------------------------------------------------------------------------------------- */

struct initiator_case {
        struct test_case test; /* first */
        struct play play;
};

static const struct play *play_of(const struct t *t)
{
        return &((const struct initiator_case *)(const void *)t->test)->play;
}

/* What is lawful has to work. */
static void works(struct t *t)
{
        struct played seen;

        play(t, play_of(t), &seen);
        rule_each_in (&seen.broken, id)
                if (srp_rule_get(id)->bound == PARTY_HOST)
                        t_notice(t, id, seen.how);
        t_settle(t);
        require(t, !seen.ok || play_of(t)->trick.on == SRP_LOGIN_REQ || seen.tricked,
                "the session came to no such place");
        if (play_of(t)->trick.more && seen.owes)
                advise(t, "an answer to the target's request", "none");
        if (seen.ok)
                return;
        if (t->test->rules[0] == RULE_NONE)
                fail(t, "a session that works", "%s", seen.said);
        blame(t, RULE_NONE); /* who gives up has answered nothing wrongly */
        lenient(t, "a session that works", "%s", seen.said);
}

/* Nothing obliges an initiator to notice: who does not is advised. */
static void notices(struct t *t)
{
        struct played seen;

        play(t, play_of(t), &seen);
        if (seen.ok)
                fail(t, "an initiator that reports an error", "success");
}

/* It goes on or gives up: both are right. What counts is that it works with a correct target afterwards. */
static void survives(struct t *t)
{
        struct played seen;

        play(t, play_of(t), &seen);
        if (play_of(t)->trick.on != SRP_LOGIN_REQ && !seen.tricked)
                skip(t, "the session came to no such place: %s", seen.said);
        note(t, seen.ok ? "it works on" : "it gives up: %s", seen.said);
}

/* Without a channel there is no session. */
static void gives_up(struct t *t)
{
        struct played seen;

        play(t, play_of(t), &seen);
        if (seen.ok)
                fail(t, "an initiator that reports an error", "success");
}

#define HOST_CASE(...) HOST_CASE_OF(LEVEL_MUST, __VA_ARGS__)
#define HOST_CASE_OF(level_, run_, id_, rules_, says_, ...)                                        \
        {                                                                                          \
                .test = { .id = id_,                                                               \
                          .level = level_,                                                         \
                          .rules = rules_,                                                         \
                          .says = says_,                                                           \
                          .run = run_,                                                             \
                          .family = &srp_conform,                                                  \
                          .file = __FILE__,                                                        \
                          .line = __LINE__ },                                                      \
                .play = {                                                                          \
                        __VA_ARGS__                                                                \
                }                                                                                  \
        }
/* What nobody is obliged to make do with is SHOULD. */
#define LAWFUL(level, id, says, ...) HOST_CASE_OF(level, works, id, NO_RULE, says, __VA_ARGS__)
#define ODD(id, says, ...)           HOST_CASE(survives, id, NO_RULE, says, .trick = { __VA_ARGS__ })
#define PUT(at, n, value)            .put = { { at, n, value } }

static const char *const large_blocks[] = { "mem:8M,bs=4096" };
static const char *const slow[] = { "mem:8M,delay=50ms" };

/* clang-format off */
static const struct initiator_case written[] = {
        LAWFUL(LEVEL_MUST, "srp/login/session", "The initiator logs in, writes, reads back what it wrote and logs out", .breaks = SRP_RULE_NONE),
        LAWFUL(LEVEL_SHOULD, "srp/limit/two", "The initiator works with a request limit of two", .target.request_limit = 2),
        LAWFUL(LEVEL_MUST, "srp/limit/large", "The initiator works with a request limit of 512", .target.request_limit = 512),
        LAWFUL(LEVEL_SHOULD, "srp/login/one-channel", "The initiator works with a target of one channel", .target.channels = 1),
        LAWFUL(LEVEL_MUST, "srp/login/no-immediate", "The initiator works where immediate data is not granted", .target.no_immediate = true),
        LAWFUL(LEVEL_SHOULD, "srp/command/large-blocks", "The initiator works with blocks of 4,096 bytes", .target.lun = (const char **)large_blocks, .target.luns = 1),
        LAWFUL(LEVEL_MUST, "srp/response/slow", "The initiator waits for commands that take 50 ms", .target.lun = (const char **)slow, .target.luns = 1),
        LAWFUL(LEVEL_SHOULD, "srp/command/small-transfers", "The initiator sends no transfer above 16 KiB where the unit's limit is that", .target.max_transfer = 16 << 10),
        HOST_CASE(works, "srp/tag/credit-request", RULES(SRP_TAG_ANSWER), "The initiator answers SRP_CRED_REQ with the tag of that",
                  .trick = { .on = SRP_RSP, .working = true, .more = SRP_CRED_REQ }),
        HOST_CASE(works, "srp/tag/event-request", RULES(SRP_TAG_ANSWER), "The initiator answers SRP_AER_REQ with the tag of that",
                  .trick = { .on = SRP_RSP, .working = true, .more = SRP_AER_REQ }),
        HOST_CASE(gives_up, "srp/reject/rejected", NO_RULE, "The initiator reports a login that is rejected", .rejects = true),

        /* the login response */
        ODD("srp/login/limit-none", "The initiator survives a request limit of zero", .on = SRP_LOGIN_RSP, .each = true, PUT(4, 4, 0)),
        ODD("srp/login/limit-one", "The initiator survives a request limit of one", .on = SRP_LOGIN_RSP, .each = true, PUT(4, 4, 1)),
        ODD("srp/login/limit-negative", "The initiator survives a request limit of -1", .on = SRP_LOGIN_RSP, .each = true, PUT(4, 4, 0xffffffff)),
        ODD("srp/login/limit-most", "The initiator survives a request limit of 7FFFFFFFh", .on = SRP_LOGIN_RSP, .each = true, PUT(4, 4, 0x7fffffff)),
        ODD("srp/login/ti-iu-none", "The initiator survives a MAX TI IU LEN of zero", .on = SRP_LOGIN_RSP, .each = true, PUT(20, 4, 0)),
        ODD("srp/login/ti-iu-huge", "The initiator survives a MAX TI IU LEN of 2 GiB", .on = SRP_LOGIN_RSP, .each = true, PUT(20, 4, 0x7fffffff)),
        ODD("srp/login/ti-iu-most", "The initiator survives a MAX TI IU LEN of 4 GiB", .on = SRP_LOGIN_RSP, .each = true, PUT(20, 4, 0xffffffff)),
        ODD("srp/login/it-iu-none", "The initiator survives a MAX IT IU LEN of zero", .on = SRP_LOGIN_RSP, .each = true, PUT(16, 4, 0)),
        ODD("srp/login/it-iu-least", "The initiator survives a MAX IT IU LEN of 64", .on = SRP_LOGIN_RSP, .each = true, PUT(16, 4, 64)),
        ODD("srp/login/it-iu-most", "The initiator survives a MAX IT IU LEN of 4 GiB", .on = SRP_LOGIN_RSP, .each = true, PUT(16, 4, 0xffffffff)),
        ODD("srp/login/no-formats-supported", "The initiator survives a target that supports no buffer format", .on = SRP_LOGIN_RSP, .each = true, PUT(24, 2, 0)),
        ODD("srp/login/opcode-response", "The initiator survives SRP_RSP in place of a login response", .on = SRP_LOGIN_RSP, .each = true, PUT(0, 1, SRP_RSP)),
        ODD("srp/login/opcode-rejection", "The initiator survives an acceptance with a login rejection", .on = SRP_LOGIN_RSP, .each = true, PUT(0, 1, SRP_LOGIN_REJ)),
        ODD("srp/login/cut", "The initiator survives a login response of 8 bytes", .on = SRP_LOGIN_RSP, .each = true, .len = 8),
        ODD("srp/login/empty", "The initiator survives an acceptance without login response", .on = SRP_LOGIN_RSP, .each = true, .len = -1),
        HOST_CASE(gives_up, "srp/reject/empty", NO_RULE, "The initiator reports a rejection without SRP_LOGIN_REJ", .rejects = true,
                  .trick = { .on = SRP_LOGIN_REJ, .each = true, .len = -1 }),
        HOST_CASE(gives_up, "srp/reject/unknown", NO_RULE, "The initiator reports a rejection for a reason that nobody knows", .rejects = true,
                  .trick = { .on = SRP_LOGIN_REJ, .each = true, PUT(4, 4, 0xffffffff) }),
        HOST_CASE(gives_up, "srp/reject/opcode", NO_RULE, "The initiator reports a rejection with a login response", .rejects = true,
                  .trick = { .on = SRP_LOGIN_REJ, .each = true, PUT(0, 1, SRP_LOGIN_RSP) }),

        /* responses */
        ODD("srp/response/tag-unknown", "The initiator survives a response with a tag that it has not given", .on = SRP_RSP, .working = true, PUT(8, 8, 0xfeedfacecafebeef)),
        ODD("srp/response/tag-of-another", "The initiator survives a response with the tag of a command on another channel", .on = SRP_RSP, .working = true, .first = 8, .other_tag = true),
        ODD("srp/response/tag-managed", "The initiator survives a response with a tag as Linux has them for task management", .on = SRP_RSP, .working = true, PUT(8, 8, 0x80000000)),
        ODD("srp/response/twice", "The initiator survives a response that comes twice", .on = SRP_RSP, .working = true, .more = SRP_RSP),
        ODD("srp/response/first-twice", "The initiator survives a first response that comes twice", .on = SRP_RSP, .more = SRP_RSP),
        ODD("srp/response/cut", "The initiator survives a response of 35 bytes", .on = SRP_RSP, .working = true, .len = 35),
        ODD("srp/response/cut-one", "The initiator survives a response of one byte", .on = SRP_RSP, .working = true, .len = 1),
        ODD("srp/response/empty", "The initiator survives an IU without a byte", .on = SRP_RSP, .working = true, .len = -1),
        ODD("srp/response/sense-beyond", "The initiator survives sense data that ends beyond its response", .on = SRP_RSP, .working = true,
            .put = { { 18, 1, SRP_SNSVALID }, { 19, 1, SRP_CHECK_CONDITION }, { 28, 4, 0xffffffff } }),
        ODD("srp/response/response-beyond", "The initiator survives response data that ends beyond its response", .on = SRP_RSP, .working = true,
            .put = { { 18, 1, SRP_RSPVALID }, { 32, 4, 0x7fffffff } }),
        ODD("srp/response/both-beyond", "The initiator survives lengths of response and sense data whose sum wraps", .on = SRP_RSP, .working = true,
            .put = { { 18, 1, SRP_RSPVALID | SRP_SNSVALID }, { 28, 4, 0x80000000 }, { 32, 4, 0x80000000 } }),
        ODD("srp/response/type-unknown", "The initiator survives an IU of a type that nobody knows", .on = SRP_RSP, .working = true, PUT(0, 1, 0xff)),
        ODD("srp/response/type-command", "The initiator survives SRP_CMD from a target", .on = SRP_RSP, .working = true, PUT(0, 1, SRP_CMD)),
        ODD("srp/response/busy", "The initiator survives BUSY", .on = SRP_RSP, .working = true, PUT(19, 1, 0x08)),
        ODD("srp/response/task-set-full", "The initiator survives TASK SET FULL", .on = SRP_RSP, .working = true, PUT(19, 1, 0x28)),
        ODD("srp/response/residual-huge", "The initiator survives a data-in underflow of 4 GiB", .on = SRP_RSP, .working = true,
            .put = { { 18, 1, SRP_DIUNDER }, { 24, 4, 0xffffffff } }),
        ODD("srp/limit/delta-most", "The initiator survives a delta of 7FFFFFFFh", .on = SRP_RSP, .working = true, PUT(4, 4, 0x7fffffff)),
        ODD("srp/limit/delta-most-twice", "The initiator survives deltas of 7FFFFFFFh, one after the other", .on = SRP_RSP, .working = true, .each = true, PUT(4, 4, 0x7fffffff)),
        ODD("srp/limit/delta-least", "The initiator survives a delta of 80000000h", .on = SRP_RSP, .working = true, PUT(4, 4, 0x80000000)),
        ODD("srp/limit/delta-none", "The initiator survives responses that give nothing back", .on = SRP_RSP, .working = true, .each = true, PUT(4, 4, 0)),

        /* the target's requests */
        ODD("srp/tag/credit-request-each", "The initiator survives SRP_CRED_REQ after each response", .on = SRP_RSP, .each = true, .more = SRP_CRED_REQ),
        ODD("srp/tag/credit-request-twice", "The initiator survives two requests of the target at once", .on = SRP_RSP, .working = true, .more = SRP_CRED_REQ, .times = 2),
        ODD("srp/tag/event-request-twice", "The initiator survives three SRP_AER_REQ at once", .on = SRP_RSP, .working = true, .more = SRP_AER_REQ, .times = 3),
        ODD("srp/tag/credit-taken", "The initiator survives SRP_CRED_REQ with a delta of 80000000h", .on = SRP_RSP, .working = true, .more = SRP_CRED_REQ, .delta = INT32_MIN),
        ODD("srp/logout/target", "The initiator survives SRP_T_LOGOUT while the connection stays", .on = SRP_RSP, .working = true, .more = SRP_T_LOGOUT),
        ODD("srp/logout/target-first", "The initiator survives SRP_T_LOGOUT after the first response", .on = SRP_RSP, .more = SRP_T_LOGOUT),
};
/* clang-format on */
enum { WRITTEN = sizeof(written) / sizeof(written[0]) };

static void have_correct_session(struct t *t)
{
        struct played seen;

        play(t, &written[0].play, &seen);
        if (!seen.ok)
                fail(t, "a session that works", "%s", seen.said);
}

const struct test_case srp_initiator_session = { .id = "liveness",
                                                 .rules = RULES(RULE_NONE),
                                                 .says = "A session with a correct target works",
                                                 .run = have_correct_session,
                                                 .family = &srp_conform };

/* --- a case for each rule that the target can break ---------------------------------------------- */

static bool is_of_rejections(enum srp_rule rule)
{
        return rule == SRP_REJECT_IU || rule == SRP_REJECT_REASON;
}

static bool can_be_played(const struct rule *r)
{
        return r->bound == PARTY_CONTROLLER && r->violators & SRP_V_SPOILS;
}

static struct initiator_case case_of(enum srp_rule rule, const unsigned *rules)
{
        const struct rule *r = srp_rule_get(rule);
        bool notices_it = r->reaction == REACT_CLOSE;

        return (struct initiator_case) {
                .test = { .id = r->id,
                          .level = LEVEL_MUST,
                          .rules = rules,
                          .says = notices_it
                                      ? "The initiator notices a target that breaks this rule"
                                      : "The initiator survives a target that breaks this rule",
                          .run = notices_it ? notices : survives,
                          .family = &srp_conform,
                          .file = __FILE__,
                          .line = __LINE__ },
                .play = { .breaks = rule, .rejects = is_of_rejections(rule) },
        };
}

const struct test_case **srp_initiator_cases(size_t *count)
{
        static unsigned rules[SRP_RULES][2];
        static struct initiator_case cases[SRP_RULES];
        const struct test_case **list = must_have(calloc(WRITTEN + SRP_RULES, sizeof(*list)));

        *count = 0;
        for (unsigned i = 0; i < WRITTEN; i++)
                list[(*count)++] = &written[i].test;
        for (unsigned i = 1; i < SRP_RULES; i++) {
                if (!can_be_played(srp_rule_get(i)))
                        continue;
                rules[i][0] = i;
                cases[i] = case_of((enum srp_rule)i, rules[i]);
                list[(*count)++] = &cases[i].test;
        }
        return list;
}

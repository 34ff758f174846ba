/* SPDX-License-Identifier: BSD-3-Clause */
#include "campaign.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "finding.h"
#include "fuzz/sequence/seq_mutate.h"
#include "pdu/core/rng.h"
#include "seeds.h"
#include "status.h"

enum {
        DEAF = 8,       /* refusals in a row after which it is looked at at once */
        FINDINGS = 256, /* shapes that are remembered */
        TURN_MS = 100,
        PARK_MS = 50, /* after so long a wait for the target's end a session is parked, ... */
        PARKED = 8,   /* ... so many of a job at most */
};

static const uint64_t NO_RUN = UINT64_MAX;

struct run {
        struct sequence sequence;
        struct remote_answer answer;
        struct remote_log log; /* of its own */
        bool done;
};

struct campaign {
        const struct campaign_config *config;
        struct loop loop;
        struct player *player, solo; /* `players` of them, opened as needed; and one for trials */
        unsigned players, playing;   /* playing: those that are neither over nor parked */
        unsigned ahead;              /* runs that may be begun and not judged */
        unsigned rooms;
        struct run *run;       /* of number i: run[i % rooms] */
        uint64_t next, judged; /* runs begun; runs judged */

        struct seeds seeds;
        struct sequence other; /* room, for splices */
        struct seeds past; /* all that was played since the target was seen to be well; since: ms */
        uint64_t looked;   /* runs judged by then */
        struct novelty seen;

        struct trouble trouble; /* to be studied: of run `of` */
        uint64_t of;
        char shape[FINDINGS][FINDING_SHAPE];
        unsigned shapes, refused;
        struct rule_set known; /* rules that are findings already */
        unsigned files;        /* findings of earlier runs in config->out */
        uint64_t probed, until;
        uint64_t heard; /* ms: all that had come by then was read */
        bool gone;
        struct status status;
};

/* Those that were opened. */
#define each_player(p, c)                                                                          \
        for (struct player *p = (c)->player; p < (c)->player + (c)->players && p->session; p++)

static volatile sig_atomic_t stopped;

static void on_signal(int sig)
{
        (void)sig;
        stopped = 1;
}

static struct run *run_at(struct campaign *c, uint64_t i)
{
        return &c->run[i % c->rooms];
}

/* --- what to play ------------------------------------------------------------------------------- */

static uint64_t seed_of(const struct campaign *c, uint64_t run)
{
        uint64_t z = c->config->seed + (run + 1) * UINT64_C(0x9e3779b97f4a7c15);

        z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        return (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
}

static void make(struct campaign *c, uint64_t i, struct sequence *s)
{
        uint64_t seed = seed_of(c, i);
        unsigned n = seeds_usable(&c->seeds, i);

        if (i < n && c->seeds.at[i].since == 0) { /* first all that there is, as it is */
                seeds_get(&c->seeds, (unsigned)i, s);
        } else {
                seeds_pick(&c->seeds, n, &seed, s);
                if (fuzz_random(&seed) % 8 == 0) {
                        seeds_pick(&c->seeds, n, &seed, &c->other);
                        seq_splice(s, &c->other, &seed);
                }
                seq_mutate(s, &seed);
        }
        s->config = s->scarce = 0;
        s->violates = RULE_NONE;
        if (!c->config->target.allow_write && s->family->tame)
                s->family->tame(s);
}

/* --- what came back ----------------------------------------------------------------------------- */

static void learn(struct campaign *c, const struct run *r)
{
        unsigned n = novelty_add(&c->seen, &r->answer);

        c->status.novelty += n;
        if (n == 0)
                return;
        c->status.last_new = loop_now_ms();
        if (seeds_add(&c->seeds, &r->sequence, c->judged + c->ahead,
                      r->answer.end == REMOTE_DONE || r->answer.end == REMOTE_LEFT))
                seeds_heard(&c->seeds, r->answer.word, r->answer.ways);
        c->status.corpus = c->seeds.n;
}

static void suspect(struct campaign *c, struct trouble t, uint64_t run)
{
        if (c->trouble.kind != TROUBLE_NONE)
                return;
        c->trouble = t;
        c->of = run;
}

static bool is_told(const struct campaign *c, const char *shape)
{
        for (unsigned i = 0; i < c->shapes; i++)
                if (strcmp(c->shape[i], shape) == 0)
                        return true;
        return false;
}

/* What an oracle says again; a target that can be started again for it is. */
static bool is_old(const struct campaign *c, const struct trouble *t)
{
        char shape[FINDING_SHAPE];

        return finding_shape(c->config->target.family, t, shape) && is_told(c, shape) &&
               !c->config->restart;
}

/* All but those that a late oracle may still complain of. */
static void acquit(struct campaign *c)
{
        uint64_t now = loop_now_ms();
        unsigned n = 0;

        while (n < c->past.n && c->past.at[n].since + c->config->late <= now)
                n++;
        seeds_drop(&c->past, n);
        c->looked = c->judged;
}

static bool stop_parked(struct campaign *c);

/* Parked sessions may have taken all that the target has room for. */
static bool is_alive(struct campaign *c, char *says)
{
        if (oracle_alive(&c->config->target, says))
                return true;
        return stop_parked(c) && oracle_alive(&c->config->target, says);
}

/* What the oracle knows of it says more than that nobody answers. */
static void explain_loss(const struct campaign *c, struct trouble *t)
{
        char says[ORACLE_LINE] = "";

        if (oracle_complains(c->config, c->config->late, says) && *says)
                memcpy(t->says, says, sizeof(says));
}

static void look(struct campaign *c)
{
        struct trouble t = { 0 };

        c->refused = 0;
        if (!is_alive(c, t.says)) {
                t.kind = TROUBLE_LOST;
                explain_loss(c, &t);
        } else if (oracle_complains(c->config, 0, t.says)) {
                t.kind = TROUBLE_ORACLE;
        }
        c->probed = loop_now_ms();
        if (t.kind != TROUBLE_NONE && !is_old(c, &t))
                suspect(c, t, c->next);
        else
                acquit(c);
}

static void accuse(struct campaign *c, const struct run *r)
{
        if (c->past.n == SEEDS_MAX)
                seeds_drop(&c->past, SEEDS_MAX / 2);
        seeds_add(&c->past, &r->sequence, loop_now_ms(), true);
}

static void judge(struct campaign *c, struct run *r)
{
        struct remote_answer rest = r->answer;
        struct trouble t;

        for (size_t i = 0; i < sizeof(rest.broken.bits) / sizeof(rest.broken.bits[0]); i++)
                rest.broken.bits[i] &= ~c->known.bits[i];
        t = player_judge(&c->solo, &rest);
        if (t.kind != TROUBLE_NONE)
                suspect(c, t, c->judged);
        c->refused = r->answer.end == REMOTE_REFUSED ? c->refused + 1 : 0;
        c->status.ends[r->answer.end]++;
        c->status.runs++;
        accuse(c, r);
        learn(c, r);
}

static void judge_all(struct campaign *c)
{
        for (; c->judged < c->next && run_at(c, c->judged)->done; c->judged++)
                judge(c, run_at(c, c->judged));
}

/* --- who plays ---------------------------------------------------------------------------------- */

/* Keeps what the session put on the wire: the player's own room goes on to the next one. */
static void take_log(struct run *r, const struct remote_log *l)
{
        free(r->log.bytes);
        r->log = (struct remote_log) { .bytes = malloc(l->len > 0 ? l->len : 1), .len = l->len };
        if (!r->log.bytes)
                r->log.len = 0;
        else if (l->len > 0)
                memcpy(r->log.bytes, l->bytes, l->len);
}

static void collect(struct campaign *c, struct player *p)
{
        struct run *r = run_at(c, p->run);

        if (!p->over || p->run == NO_RUN)
                return;
        p->run = NO_RUN;
        r->answer = p->session->answer;
        take_log(r, &p->session->log);
        r->done = true;
}

static bool is_time_to_look(const struct campaign *c)
{
        return c->trouble.kind == TROUBLE_NONE &&
               (c->refused >= DEAF || c->judged - c->looked >= CAMPAIGN_PAST ||
                loop_now_ms() - c->probed >= c->config->look);
}

static bool has_more(const struct campaign *c)
{
        return c->trouble.kind == TROUBLE_NONE && !stopped && loop_now_ms() < c->until &&
               (c->config->runs == 0 || c->next < c->config->runs);
}

/* An oracle is asked when no session is under way: what it does to the target is no session's fault. */
static bool may_begin(const struct campaign *c)
{
        return has_more(c) && !(c->config->oracle && is_time_to_look(c)) &&
               c->next - c->judged < c->ahead;
}

/* Who only waits for the target's end keeps nobody from playing. */
static bool is_parked(const struct player *p)
{
        return !p->over && remote_idle(p->session) >= PARK_MS;
}

static bool open_player(struct campaign *c, struct player *p)
{
        if (p->session)
                return true;
        if (player_init(p, c->config, &c->loop) < 0)
                return false;
        p->run = NO_RUN;
        return true;
}

/* NULL: there is none, or no memory for one more. */
static struct player *free_player(struct campaign *c)
{
        for (unsigned i = 0; i < c->players; i++) {
                struct player *p = &c->player[i];

                if (!open_player(c, p))
                        return NULL;
                if (p->over && p->run == NO_RUN)
                        return p;
        }
        return NULL;
}

static void begin_run(struct campaign *c, struct player *p)
{
        struct run *r = run_at(c, c->next);

        r->done = false;
        make(c, c->next, &r->sequence);
        p->run = c->next++;
        player_start(p, &r->sequence);
}

/* True: somebody plays. Late is who had not spoken when we listened: looks and questions to the oracle
 * take their time, and what comes meanwhile is not read yet. */
static bool serve(struct campaign *c)
{
        struct player *next;
        bool busy = false;

        c->playing = 0;
        each_player(p, c)
        {
                remote_late(p->session, c->heard);
                collect(c, p);
                c->playing += !p->over && !is_parked(p);
        }
        while (c->playing < c->config->jobs && may_begin(c) && (next = free_player(c))) {
                begin_run(c, next);
                c->playing++;
        }
        each_player(p, c) busy |= !p->over;
        judge_all(c);
        return busy;
}

static int next_due(const struct campaign *c)
{
        uint64_t now = loop_now_ms(), due = now + TURN_MS;

        each_player(p, c)
        {
                if (p->over && c->playing < c->config->jobs && may_begin(c))
                        return 0;
                if (!p->over && p->session->deadline < due)
                        due = p->session->deadline;
        }
        return due > now ? (int)(due - now) : 0;
}

static void stop(struct campaign *c, struct player *p, enum remote_end end)
{
        remote_stop(p->session);
        p->session->answer.end = end;
        p->over = true;
        collect(c, p);
}

/* Whoever still plays to a lost target. */
static void stop_all(struct campaign *c)
{
        each_player(p, c) if (!p->over) stop(c, p, REMOTE_REFUSED);
        judge_all(c);
}

/* Whether there was one. */
static bool stop_parked(struct campaign *c)
{
        bool any = false;

        each_player(p, c)
        {
                if (!is_parked(p))
                        continue;
                stop(c, p, REMOTE_LEFT);
                any = true;
        }
        return any;
}

/* --- findings ----------------------------------------------------------------------------------- */

static bool is_known(struct campaign *c, const struct finding *f)
{
        if (is_told(c, f->shape))
                return true;
        if (c->shapes < FINDINGS)
                memcpy(c->shape[c->shapes++], f->shape, sizeof(f->shape));
        return false;
}

static void report(struct campaign *c, struct finding *f)
{
        char err[CORPUS_ERROR];

        c->status.findings++;
        if (c->config->out && !finding_save(f, c->config, c->files + c->status.findings, err)) {
                fprintf(stderr, "nvmfspec fuzz remote: %s\n", err);
                f->file[0] = '\0';
        }
        status_finding(&c->status, f);
}

/* The one that did it is the last one, if it is known. */
static void find_out(struct campaign *c, struct finding *f)
{
        struct trouble t = c->trouble;
        const struct run *last = run_at(c, c->of < c->next ? c->of : c->next - 1);

        if (c->of + 1 < c->judged)
                accuse(c, last);
        finding_study(f, &c->solo, &t, &c->past, &last->log);
}

static void study(struct campaign *c)
{
        struct finding f;

        find_out(c, &f);
        if (f.trouble.rule != RULE_NONE) /* else the target was lost meanwhile: that comes first */
                rule_add(&c->known, f.trouble.rule);
        if (!is_known(c, &f))
                report(c, &f);
        c->gone = f.gone;
        finding_free(&f);
        c->gone = c->gone || !finding_hear_out(c->config, c->config->late);
        seeds_drop(&c->past, c->past.n);
        c->trouble = (struct trouble) { 0 };
        c->probed = loop_now_ms();
        c->looked = c->judged;
}

/* --- all of it ---------------------------------------------------------------------------------- */

static void turn(struct campaign *c)
{
        bool busy = serve(c);

        if (c->trouble.kind == TROUBLE_LOST) {
                stop_all(c);
                busy = false;
        }
        if (c->trouble.kind != TROUBLE_NONE && !busy) {
                study(c);
                return;
        }
        if (busy) {
                int due = next_due(c);

                c->heard = loop_now_ms();
                loop_turn(&c->loop, due);
        }
        if (is_time_to_look(c) && !(c->playing > 0 && c->config->oracle))
                look(c);
        status_show(&c->status, false);
}

static bool over(const struct campaign *c)
{
        if (c->gone || (c->config->findings > 0 && c->status.findings >= c->config->findings))
                return true;
        return c->judged == c->next && c->trouble.kind == TROUBLE_NONE && !has_more(c);
}

static void begin_seeds(struct campaign *c)
{
        struct corpus own = { 0 };
        const struct corpus *from = &c->config->corpus;

        if (from->n == 0) {
                corpus_begin(&own, c->config->target.family, c->config->target.transport);
                from = &own;
        }
        for (unsigned i = 0; i < from->n; i++)
                seeds_add(&c->seeds, from->at[i], 0, true);
        corpus_free(&own);
}

static int start_campaign(struct campaign *c)
{
        const struct campaign_config *config = c->config;
        struct oracle_limits limits;
        char why[ORACLE_LINE];

        if (!finding_awake(config, why)) {
                fprintf(stderr, "nvmfspec fuzz remote: %s\n", why);
                return CAMPAIGN_NOBODY;
        }
        c->files = config->out ? corpus_last(config->out) : 0;
        limits = oracle_limits(&config->target);
        seq_mutate_limits(limits.at, limits.n);
        seq_mutate_reloads(config->target.reload ? config->target.reloads : 0);
        begin_seeds(c);
        if (c->seeds.n == 0) {
                fprintf(stderr, "nvmfspec fuzz remote: no sequence to begin with\n");
                return CAMPAIGN_NOBODY;
        }
        c->players = (unsigned)config->jobs * (1 + PARKED);
        c->player = calloc(c->players, sizeof(*c->player));
        c->run = calloc(c->rooms, sizeof(*c->run));
        if (!c->player || !c->run || player_init(&c->solo, config, &c->loop) < 0)
                return CAMPAIGN_NOBODY;
        for (unsigned i = 0; i < config->jobs; i++)
                if (!open_player(c, &c->player[i]))
                        return CAMPAIGN_NOBODY;
        c->until = config->time > 0 ? loop_now_ms() + config->time : UINT64_MAX;
        c->probed = loop_now_ms();
        status_begin(&c->status, config->target.family);
        return CAMPAIGN_CLEAN;
}

static void end(struct campaign *c)
{
        if (c->player)
                each_player(p, c) player_fini(p);
        player_fini(&c->solo);
        for (unsigned i = 0; c->run && i < c->rooms; i++)
                free(c->run[i].log.bytes);
        seeds_free(&c->seeds);
        seeds_free(&c->past);
        free(c->player);
        free(c->run);
        loop_fini(&c->loop);
        free(c);
}

/* What showed something new, a file each, for the next time; after those of earlier runs. */
static void save_seeds(struct campaign *c)
{
        struct sequence *at[1] = { &c->other };
        const struct corpus one = { .at = at, .n = 1 };
        char path[CORPUS_ERROR], err[CORPUS_ERROR];
        unsigned last;

        snprintf(path, sizeof(path), "%s/corpus", c->config->out);
        mkdir(path, 0777);
        last = corpus_last(path);
        for (unsigned i = 0; i < c->seeds.n; i++) {
                seeds_get(&c->seeds, i, &c->other);
                snprintf(path, sizeof(path), "%s/corpus/%05u.seq", c->config->out, last + i + 1);
                if (!corpus_save(&one, path, NULL, err)) {
                        fprintf(stderr, "nvmfspec fuzz remote: %s\n", err);
                        return;
                }
        }
}

/* As long as there may be a complaint of the last sessions. */
static void look_to_the_end(struct campaign *c)
{
        const uint64_t until = loop_now_ms() + c->config->late;

        look(c);
        while (c->trouble.kind == TROUBLE_NONE && loop_now_ms() < until) {
                loop_sleep_us(TURN_MS * 1000);
                look(c);
        }
        if (c->trouble.kind != TROUBLE_NONE)
                study(c);
}

static void until_over(struct campaign *c)
{
        struct sigaction act = { .sa_handler = on_signal }, old[2];

        stopped = 0;
        sigaction(SIGINT, &act, &old[0]);
        sigaction(SIGTERM, &act, &old[1]);
        while (!over(c))
                turn(c);
        if (!c->gone && c->past.n > 0 && c->trouble.kind == TROUBLE_NONE)
                look_to_the_end(c);
        sigaction(SIGINT, &old[0], NULL);
        sigaction(SIGTERM, &old[1], NULL);
}

int campaign_run(const struct campaign_config *config)
{
        struct campaign *c = calloc(1, sizeof(*c));
        int rc;

        if (!c || loop_init(&c->loop) < 0) {
                perror("nvmfspec fuzz remote");
                free(c);
                return CAMPAIGN_NOBODY;
        }
        c->config = config;
        c->ahead = (unsigned)config->jobs * CAMPAIGN_AHEAD;
        c->rooms = c->ahead + 1; /* and the last one that was judged */
        rc = start_campaign(c);
        if (rc == CAMPAIGN_CLEAN) {
                until_over(c);
                status_end(&c->status);
                if (config->out)
                        save_seeds(c);
                if (c->status.findings > 0)
                        rc = CAMPAIGN_FOUND;
        }
        end(c);
        return rc;
}

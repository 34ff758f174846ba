/* SPDX-License-Identifier: BSD-3-Clause */
#include "finding.h"

#include <ctype.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/remote/schedule.h"
#include "minimise.h"
#include "pdu/io/capture/capture_writer.h"

enum {
        CAPTURE_PORT = 4420, /* of the target, in captures */
        NAP_MS = 20,
        ALONE = 64, /* of the last sessions: tried one by one */
        RECORDS = 8,
        UNKNOWN = 64, /* ... kept where none did it again */
        PARTS = 64,   /* questions to an oracle while all is played again */
        TRIES = 8,    /* of what was seen once */
        SURE = 2,
        TIMES = 5,
        SLACK_MS = 500,
        HANG_PARTS = 8, /* a trial waits for one of these */
        HANG_MS = 250,  /* ... or this, if that is more */
};

/* --- a target that comes back ------------------------------------------------------------------- */

bool finding_revive(const struct campaign_config *config, char says[ORACLE_LINE])
{
        char why[ORACLE_LINE];
        uint64_t until;

        if (config->restart)
                shell_run(config->restart, says, SHELL_MS);
        until = loop_now_ms() + config->target.timeout;
        while (!oracle_alive(&config->target, why)) {
                if (loop_now_ms() >= until) {
                        memcpy(says, why, sizeof(why));
                        return false;
                }
                loop_sleep_us(NAP_MS * 1000);
        }
        return true;
}

bool finding_awake(const struct campaign_config *config, char says[ORACLE_LINE])
{
        return oracle_alive(&config->target, says) ||
               (config->restart && finding_revive(config, says));
}

bool finding_hear_out(const struct campaign_config *config, uint64_t late)
{
        char says[ORACLE_LINE];

        if (!config->oracle || late == 0)
                return true;
        loop_sleep_us(late * UINT64_C(1000));
        return shell_run(config->oracle, says, SHELL_MS) == 0 || !config->restart ||
               finding_revive(config, says);
}

static const struct remote_transport *transport_of(const struct campaign_config *config)
{
        return config->target.family->transports[config->target.transport].remote;
}

/* --- trials ------------------------------------------------------------------------------------- */

struct study {
        struct finding *f;
        struct player *p;
        const struct seeds *past;
        uint64_t until, took;        /* ms; took: the last trouble to show */
        bool shown;                  /* by a trial */
        bool fresh;                  /* each trial meets a target that nobody has played to */
        struct trouble loss;         /* of the target, before that: to be studied first */
        unsigned tries;              /* of a sequence, before it is said to do no harm */
        struct sequence room, whole; /* whole: before it was made small */
};

static bool is_same(const struct study *y, const struct trouble *t)
{
        const struct remote_answer *a = &y->p->session->answer;
        char was[FINDING_SHAPE], is[FINDING_SHAPE];

        if (y->f->trouble.kind == TROUBLE_RULE)
                return rule_in(&a->broken, y->f->trouble.rule);
        if (y->f->trouble.kind == TROUBLE_HANG)
                return a->end == REMOTE_HANG;
        finding_shape(y->p->config->target.family, &y->f->trouble, was);
        finding_shape(y->p->config->target.family, t, is);
        return strcmp(was, is) == 0;
}

/* What the wire showed of it is kept. */
static void keep_log(struct finding *f, const struct remote_log *log)
{
        uint8_t *bytes = malloc(log->len > 0 ? log->len : 1);

        if (!bytes)
                return;
        if (log->len > 0)
                memcpy(bytes, log->bytes, log->len);
        free(f->log.bytes);
        f->log = (struct remote_log) { .bytes = bytes, .len = log->len };
}

/* A target that is lost, or does not please the oracle, is started again before the next trial, and so
 * is any other where what a trial leaves behind could be taken for the harm of the next one. What the oracle complains
 * of need not have harmed it: without --restart it goes on. */
static void recover(struct study *y, const struct trouble *t)
{
        bool lost = t->kind == TROUBLE_LOST;
        char says[ORACLE_LINE] = "";

        if (!lost && !y->fresh && (t->kind != TROUBLE_ORACLE || !y->p->config->restart))
                return;
        y->f->gone = !finding_revive(y->p->config, says);
        if (lost && *says && y->p->config->restart)
                memcpy(y->f->trouble.says, says, sizeof(says));
}

/* It may complain of other things meanwhile. */
static struct trouble ask_oracle(struct study *y, uint64_t late)
{
        const uint64_t asked = loop_now_ms();
        struct trouble t;

        do {
                y->took = loop_now_ms() - asked;
                t = player_ask(y->p, false, late > y->took ? late - y->took : 0);
                y->took = loop_now_ms() - asked;
        } while (t.kind == TROUBLE_ORACLE && !is_same(y, &t) && y->took < late &&
                 !y->p->config->restart);
        return t;
}

/* What the last session came to; whether it is what is looked for. An oracle is waited for, and what
 * it has still to say of these sessions is not to fall upon the next ones. */
static bool ask(struct study *y, uint64_t late)
{
        const struct campaign_config *config = y->p->config;
        struct finding *f = y->f;
        const enum trouble_kind k = f->trouble.kind;
        struct trouble t =
            k == TROUBLE_ORACLE ? ask_oracle(y, late) : player_ask(y->p, k == TROUBLE_LOST, 0);
        bool same = is_same(y, &t);

        f->trials++;
        y->shown |= same;
        if (same)
                keep_log(f, &y->p->session->log);
        if (same && k == TROUBLE_HANG && !*f->trouble.says) /* the oracle has noticed it, too */
                memcpy(f->trouble.says, t.says, sizeof(t.says));
        if (same && k == TROUBLE_ORACLE && y->took < f->wait && !config->restart)
                finding_hear_out(config, f->wait - y->took);
        recover(y, &t);
        return same;
}

static bool met_nobody(const struct player *p)
{
        const struct remote_answer *a = &p->session->answer;

        return a->end == REMOTE_REFUSED ||
               (transport_of(p->config)->answered_for && a->end == REMOTE_CLOSED && a->pdus == 0);
}

/* A target that an earlier session has killed says nothing of this one: it is started again, and the
 * session is played again. If nothing has shown yet, that it was killed is what counts. */
static void play(struct study *y, const struct sequence *s)
{
        struct trouble loss = { .kind = TROUBLE_LOST };
        char says[ORACLE_LINE];

        player_play(y->p, s);
        if (y->f->trouble.kind == TROUBLE_LOST || !met_nobody(y->p) ||
            oracle_alive(&y->p->config->target, loss.says))
                return;
        if (!y->shown) {
                y->loss = loss;
                return;
        }
        y->f->gone = !finding_revive(y->p->config, says);
        if (!y->f->gone)
                player_play(y->p, s);
}

static bool has_time(const struct study *y)
{
        return !y->f->gone && y->loss.kind == TROUBLE_NONE && loop_now_ms() < y->until;
}

/* The same of a single session: how long the oracle took is what the next ones are given, and more. */
static bool ask_of_one(struct study *y)
{
        if (!ask(y, y->f->wait))
                return false;
        if (2 * y->took + SLACK_MS < y->f->wait)
                y->f->wait = 2 * y->took + SLACK_MS;
        return true;
}

static bool try_once(struct study *y, const struct sequence *s)
{
        play(y, s);
        return ask_of_one(y);
}

static bool try_one(const struct sequence *s, void *user)
{
        struct study *y = user;

        for (unsigned i = 0; i < y->tries && has_time(y); i++)
                if (try_once(y, s))
                        return true;
        return false;
}

static void play_range(struct study *y, unsigned from, unsigned to)
{
        for (unsigned i = from; i < to; i++) {
                seeds_get(y->past, i, &y->room);
                play(y, &y->room);
        }
}

/* Those from..to-1 in turn, and then a question. */
static bool try_range(struct study *y, unsigned from, unsigned to)
{
        if (!has_time(y))
                return false;
        play_range(y, from, to);
        return to - from == 1 ? ask_of_one(y) : ask(y, y->f->wait);
}

/* All that the finding has. */
static bool try_kept(struct study *y)
{
        for (unsigned i = 0; i < y->f->sequences.n; i++)
                play(y, y->f->sequences.at[i]);
        return ask(y, y->f->wait);
}

/* --- which of them ------------------------------------------------------------------------------ */

/* What fails once is played some times: then it can be said how often it comes. */
static void count(struct study *y)
{
        struct finding *f = y->f;

        while (has_time(y) && f->played < (y->tries > 1 || f->again < f->played ? TIMES : 1)) {
                f->again += try_kept(y);
                f->played++;
        }
        f->reproduced = f->again > 0 || f->played == 0;
}

/* How long a hang is waited for: less by trials, so that there are enough of them. */
static void hurry(struct study *y, bool quick)
{
        unsigned *hang = &y->p->session->hang, whole = y->p->session->target->hang;

        *hang = whole;
        if (quick && y->f->trouble.kind == TROUBLE_HANG && whole > HANG_MS)
                *hang = whole / HANG_PARTS > HANG_MS ? whole / HANG_PARTS : HANG_MS;
}

/* A hang is looked for in earnest, even if there is no time left. */
static void keep_room(struct study *y)
{
        uint64_t least = loop_now_ms() + y->p->session->hang + SLACK_MS;

        if (y->f->trouble.kind == TROUBLE_HANG && y->until < least)
                y->until = least;
        corpus_free(&y->f->sequences);
        corpus_add(&y->f->sequences, &y->room);
        y->f->again = y->f->played = 0;
        count(y);
}

/* What trials took for a hang may have been an end that came late: then it is left as it was. */
static void shrink(struct study *y)
{
        y->whole = y->room;
        hurry(y, true);
        seq_minimise(&y->room, try_one, y);
        hurry(y, false);
        keep_room(y);
        if (y->f->reproduced || y->f->trouble.kind != TROUBLE_HANG)
                return;
        y->room = y->whole;
        keep_room(y);
}

/* The last one did it, at least once: how often it does so again says how often a trial is to be
 * played. If it does not at all, its later steps may have come at another time: some go. */
static bool last_one(struct study *y)
{
        unsigned times = 0, n = 0;

        seeds_get(y->past, y->past->n - 1, &y->room);
        for (; has_time(y) && n < (times > 0 ? SURE : TRIES); n++)
                times += try_once(y, &y->room);
        if (times > 0) {
                y->tries = times == n ? 1 : 2 * n / times;
                return true;
        }
        for (y->tries = SURE; !times && has_time(y) && y->room.steps > 1;) {
                seq_remove(&y->room, y->room.steps - 1u);
                times = try_one(&y->room, y);
        }
        y->tries = 1;
        return times > 0;
}

/* One after the other, the last one first: for what shows at once. */
static bool any_one(struct study *y)
{
        unsigned n = y->past->n, least = n > ALONE ? n - ALONE : 0;

        for (unsigned i = n; i-- > least;) {
                seeds_get(y->past, i, &y->room);
                if (try_one(&y->room, y))
                        return true;
        }
        return false;
}

static bool alone(struct study *y)
{
        const enum trouble_kind k = y->f->trouble.kind;

        return y->past->n > 0 && k != TROUBLE_ORACLE &&
               (k == TROUBLE_LOST ? any_one(y) : last_one(y));
}

static void keep(struct study *y, unsigned from, unsigned to)
{
        for (unsigned i = from; i < to; i++) {
                seeds_get(y->past, i, &y->room);
                corpus_add(&y->f->sequences, &y->room);
        }
}

/* Some at a time, until it shows: the number that were played by then; 0: it does not show. */
static unsigned in_turn(struct study *y, unsigned some)
{
        unsigned n = y->past->n, shown = 0;

        y->fresh = false;
        for (unsigned from = 0, to; !shown && from < n && has_time(y); from = to) {
                to = n - from > some ? from + some : n;
                play_range(y, from, to);
                shown = ask(y, to < n ? 0 : y->f->wait) ? to : 0;
        }
        y->fresh = y->p->config->fresh;
        return shown;
}

/* Up to where it shows; then without a half from the front or the end, a quarter and so on, as long as
 * what is left does it. */
static void together(struct study *y)
{
        unsigned part = y->past->n / PARTS + 1, from = 0, to = in_turn(y, part);

        if (to == 0 && y->past->n > 0 && try_range(y, 0, y->past->n))
                to = y->past->n;
        if (to == 0)
                return;
        if (to > part && try_range(y, to - part, to))
                from = to - part;
        for (part = (to - from) / 2; part > 0; part /= 2) {
                while (to - from > part && try_range(y, from + part, to))
                        from += part;
                while (to - from > part && try_range(y, from, to - part))
                        to -= part;
        }
        if (to - from == 1) {
                seeds_get(y->past, from, &y->room);
                shrink(y);
        } else {
                keep(y, from, to);
                count(y);
        }
}

/* Each number becomes one '#'. */
static void drop_numbers(char *s)
{
        char *to = s;

        for (; *s; s++)
                if (!isdigit((unsigned char)*s))
                        *to++ = *s;
                else if (!isdigit((unsigned char)s[1]))
                        *to++ = '#';
        *to = '\0';
}

bool finding_shape(const struct fuzz_family *f, const struct trouble *t, char shape[FINDING_SHAPE])
{
        struct text text = text_in(shape, FINDING_SHAPE);
        char says[ORACLE_LINE];

        text_add(&text, "%s", trouble_name(t->kind));
        if (t->rule != RULE_NONE) {
                text_add(&text, " %s", seq_rule_get(f, t->rule)->id);
                return true;
        }
        if (t->kind != TROUBLE_ORACLE)
                return false;
        memcpy(says, t->says, sizeof(says));
        drop_numbers(says);
        text_add(&text, " %s", says);
        return true;
}

/* Of one that does not tell by itself: the steps. */
static void shape(struct finding *f, const struct fuzz_family *family)
{
        const struct sequence *s = f->sequences.n > 0 ? f->sequences.at[f->sequences.n - 1] : NULL;
        struct text t;

        if (finding_shape(family, &f->trouble, f->shape))
                return;
        t = text_in(f->shape, sizeof(f->shape));
        text_add(&t, "%s", trouble_name(f->trouble.kind));
        for (unsigned i = 0; s && i < s->steps; i++)
                text_add(&t, " %s", s->step[i].kind == SEQ_PDU ? s->step[i].template->name : "-");
}

/* What an oracle says anyway, it would also say after a trial: then there is nothing to learn of them. */
static bool stays_unwell(struct study *y)
{
        const struct campaign_config *config = y->p->config;
        struct trouble t = { .kind = TROUBLE_ORACLE };

        if (y->f->trouble.kind != TROUBLE_ORACLE || !config->oracle ||
            shell_run(config->oracle, t.says, SHELL_MS) == 0 || !is_same(y, &t))
                return false;
        fputs("nvmfspec fuzz: the oracle reports the same without a trial, so trials are "
              "useless: it must report each problem once, or --restart must clear it\n",
              stderr);
        return true;
}

static void play_again(struct study *y)
{
        const struct campaign_config *config = y->p->config;
        struct trouble t = y->f->trouble;

        y->tries = 1;
        y->until = loop_now_ms() + config->minimise;
        recover(y, &t);
        if (t.kind == TROUBLE_ORACLE && !config->restart)
                finding_hear_out(config, y->f->wait);
        if (stays_unwell(y))
                return;
        if (alone(y))
                shrink(y);
        else
                together(y);
}

static void study_loss(struct study *y)
{
        y->f->trouble = y->loss;
        y->loss = (struct trouble) { 0 };
        play_again(y);
}

/* The last trial may have killed it. */
static void leave_alive(struct study *y)
{
        char says[ORACLE_LINE];

        if (y->p->config->restart && !y->f->gone)
                y->f->gone = !finding_awake(y->p->config, says);
}

void finding_study(struct finding *f, struct player *p, const struct trouble *t,
                   const struct seeds *past, const struct remote_log *last)
{
        struct study *y = calloc(1, sizeof(*y));

        *f = (struct finding) { .trouble = *t };
        if (!y)
                return;
        f->wait = p->config->late;
        *y = (struct study) { .f = f, .p = p, .past = past, .fresh = p->config->fresh };
        play_again(y);
        if (y->loss.kind != TROUBLE_NONE)
                study_loss(y);
        leave_alive(y);
        if (!f->reproduced) {
                corpus_free(&f->sequences);
                f->again = f->played = 0;
                keep(y, past->n > UNKNOWN ? past->n - UNKNOWN : 0, past->n);
                keep_log(f, last);
        }
        shape(f, p->config->target.family);
        free(y);
}

void finding_free(struct finding *f)
{
        corpus_free(&f->sequences);
        free(f->log.bytes);
        *f = (struct finding) { 0 };
}

/* --- files -------------------------------------------------------------------------------------- */

/* Each connection from a port of its own. */
static void open_flow(struct capture_writer *w, struct capture_flow *flow, const char *comment,
                      const struct remote_bytes *b)
{
        const struct sockaddr_in host = { .sin_family = AF_INET,
                                          .sin_port = htons((uint16_t)(50000 + b->on)),
                                          .sin_addr.s_addr = htonl(0x0a000001) };
        const struct sockaddr_in controller = { .sin_family = AF_INET,
                                                .sin_port = htons(CAPTURE_PORT),
                                                .sin_addr.s_addr = htonl(0x0a000002) };

        flow->comment = comment;
        capture_flow_open(w, flow, (const void *)&host, (const void *)&controller, b->time);
}

static bool save_capture(const struct remote_log *log, const char *path, const char *comment,
                         char err[CORPUS_ERROR])
{
        struct capture_writer *w = capture_writer_open(path, err, CORPUS_ERROR);
        struct capture_flow flow[SEQ_QUEUES] = { 0 };
        bool opened[SEQ_QUEUES] = { false };
        struct remote_bytes b = { 0 };

        if (!w)
                return false;
        for (size_t at = 0; at < log->len; at += sizeof(b) + b.n) {
                memcpy(&b, log->bytes + at, sizeof(b));
                if (!opened[b.on])
                        open_flow(w, &flow[b.on], comment, &b);
                opened[b.on] = true;
                capture_flow_data(w, &flow[b.on], b.sender, log->bytes + at + sizeof(b), b.n,
                                  b.time);
        }
        for (unsigned i = 0; i < SEQ_QUEUES; i++)
                if (opened[i])
                        capture_flow_close(w, &flow[i], PARTY_HOST, false, b.time);
        if (capture_writer_close(w) == 0)
                return true;
        snprintf(err, CORPUS_ERROR, "%.200s: %s", path, strerror(errno));
        return false;
}

struct record {
        struct finding *f;
        const struct campaign_config *config;
};

/* The target is harmed once more; whether it was. */
static bool play_all(void *user, const struct remote_target *recorded)
{
        const struct record *r = user;
        struct campaign_config config = *r->config;
        struct player p;
        struct study y = { .f = r->f, .p = &p, .shown = true };
        struct loop loop;
        bool same = false;

        config.target = *recorded;
        if (loop_init(&loop) < 0)
                return false;
        if (player_init(&p, &config, &loop) == 0) {
                same = try_kept(&y);
                player_fini(&p);
        }
        loop_fini(&loop);
        return same;
}

/* Until it shows again, within reason: answers may have come later than they were waited for, and are waited for twice as
 * long each time. */
static bool record_again(struct finding *f, const struct campaign_config *config, const char *path,
                         char err[CORPUS_ERROR])
{
        struct record r = { f, config };
        struct remote_target target = config->target;
        bool same = false;

        for (unsigned i = 0; i < RECORDS && !same && !f->gone; i++, target.settle *= 2)
                if (!transport_of(config)->record(&target, path, play_all, &r, &same, err,
                                                  CORPUS_ERROR))
                        return false;
        return true;
}

static void name_of(const struct finding *f, const struct campaign_config *config, unsigned number,
                    const char *ending, char *path, size_t size)
{
        struct text t = text_in(path, size);
        size_t slash;

        text_add(&t, "%s/", config->out);
        slash = t.len;
        text_add(&t, "%03u-%s", number, trouble_name(f->trouble.kind));
        if (f->trouble.rule != RULE_NONE)
                text_add(&t, "-%s", seq_rule_get(config->target.family, f->trouble.rule)->id);
        for (char *p = path + slash; (p = strchr(p, '/'));)
                *p = '-';
        text_add(&t, "%s", ending);
}

bool finding_save(struct finding *f, const struct campaign_config *config, unsigned number,
                  char err[CORPUS_ERROR])
{
        char note[ORACLE_LINE + 200], pcap[CORPUS_ERROR];
        struct text t = text_in(note, sizeof(note));

        text_add(&t, "%s: %s%s", f->shape, f->trouble.says,
                 f->reproduced ? "" : " (not reproduced)");
        if (f->again < f->played)
                text_add(&t, " (%u of %u times)", f->again, f->played);
        if (f->sequences.n > 1)
                text_add(&t, "; these together");
        name_of(f, config, number, ".seq", f->file, sizeof(f->file));
        name_of(f, config, number, ".pcap", pcap, sizeof(pcap));
        if (!corpus_save(&f->sequences, f->file, note, err))
                return false;
        if (transport_of(config)->record)
                return f->gone || record_again(f, config, pcap, err);
        return f->log.len == 0 || save_capture(&f->log, pcap, note, err);
}

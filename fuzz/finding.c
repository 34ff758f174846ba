/* SPDX-License-Identifier: BSD-3-Clause */
#include "finding.h"

#include <ctype.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "minimise.h"
#include "pdu/io/capture_writer.h"
#include "pdu/io/verbs_rdma.h"
#include "pdu/io/verbs_record.h"

enum {
        NAP_MS = 20,
        ALONE = 64, /* of the last sessions: tried one by one */
        RECORDS = 3,
        UNKNOWN = 64, /* ... kept where none did it again */
};

/* --- a target that comes back ------------------------------------------------------------------- */

static void nap(unsigned ms)
{
        nanosleep(&(struct timespec) { .tv_nsec = (long)ms * 1000000 }, NULL);
}

bool finding_revive(const struct campaign_config *config, char says[ORACLE_LINE])
{
        char why[ORACLE_LINE];
        uint64_t until;

        if (config->restart)
                oracle_command(config->restart, says);
        until = loop_now_ms() + config->target.host.timeout;
        while (!oracle_alive(&config->target, why)) {
                if (loop_now_ms() >= until) {
                        memcpy(says, why, sizeof(why));
                        return false;
                }
                nap(NAP_MS);
        }
        return true;
}

bool finding_awake(const struct campaign_config *config, char says[ORACLE_LINE])
{
        return oracle_alive(&config->target, says) ||
               (config->restart && finding_revive(config, says));
}

/* --- trials ------------------------------------------------------------------------------------- */

struct study {
        struct finding *f;
        struct player *p;
        const struct seeds *past;
        uint64_t until;
        struct sequence room;
};

static bool is_same(const struct study *y, const struct trouble *t)
{
        char was[FINDING_SHAPE], is[FINDING_SHAPE];

        if (y->f->trouble.kind == TROUBLE_RULE)
                return rule_in(&y->p->session->answer.broken, y->f->trouble.rule);
        finding_shape(&y->f->trouble, was);
        finding_shape(t, is);
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

/* A target that is lost, or does not please the oracle, is started afresh before the next trial. */
static void recover(struct study *y, const struct trouble *t)
{
        bool lost = t->kind == TROUBLE_LOST;
        char says[ORACLE_LINE] = "";

        if (!lost && (t->kind != TROUBLE_ORACLE || !y->p->config->restart))
                return;
        y->f->gone = !finding_revive(y->p->config, says);
        if (lost && *says)
                memcpy(y->f->trouble.says, says, sizeof(says));
}

/* What the last session came to; whether it is what is looked for. */
static bool ask(struct study *y)
{
        struct trouble t = player_ask(y->p, y->f->trouble.kind == TROUBLE_LOST);
        bool same = is_same(y, &t);

        y->f->trials++;
        if (same)
                keep_log(y->f, &y->p->session->log);
        recover(y, &t);
        return same;
}

static bool has_time(const struct study *y)
{
        return !y->f->gone && loop_now_ms() < y->until;
}

static bool try_one(const struct sequence *s, void *user)
{
        struct study *y = user;

        if (!has_time(y))
                return false;
        player_play(y->p, s);
        return ask(y);
}

/* Those from..to-1 in turn, and then a question. */
static bool try_range(struct study *y, unsigned from, unsigned to)
{
        if (!has_time(y))
                return false;
        for (unsigned i = from; i < to; i++) {
                seeds_get(y->past, i, &y->room);
                player_play(y->p, &y->room);
        }
        return ask(y);
}

/* --- which of them ------------------------------------------------------------------------------ */

static void shrink(struct study *y, unsigned i)
{
        seeds_get(y->past, i, &y->room);
        seq_minimise(&y->room, try_one, y);
        corpus_add(&y->f->sequences, &y->room);
        y->f->reproduced = true;
}

/* One after the other, the last one first: for what shows at once. */
static bool alone(struct study *y)
{
        unsigned n = y->past->n, least = n > ALONE ? n - ALONE : 0;

        for (unsigned i = n; i-- > least;) {
                seeds_get(y->past, i, &y->room);
                if (try_one(&y->room, y)) {
                        shrink(y, i);
                        return true;
                }
        }
        return false;
}

static void keep(struct study *y, unsigned from, unsigned to)
{
        for (unsigned i = from; i < to; i++) {
                seeds_get(y->past, i, &y->room);
                corpus_add(&y->f->sequences, &y->room);
        }
}

/* All of them, then without a half from the front or the end, a quarter and so on, as long as what
 * is left does it. */
static bool together(struct study *y)
{
        unsigned from = 0, to = y->past->n;

        if (to == 0 || !try_range(y, from, to))
                return false;
        for (unsigned part = to / 2; part > 0; part /= 2) {
                while (to - from > part && try_range(y, from + part, to))
                        from += part;
                while (to - from > part && try_range(y, from, to - part))
                        to -= part;
        }
        if (to - from == 1)
                shrink(y, from);
        else
                keep(y, from, to);
        y->f->reproduced = true;
        return true;
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

bool finding_shape(const struct trouble *t, char shape[FINDING_SHAPE])
{
        struct text text = text_in(shape, FINDING_SHAPE);

        text_add(&text, "%s", trouble_name(t->kind));
        if (t->rule != RULE_NONE) {
                text_add(&text, " %s", rule_get(t->rule)->id);
                return true;
        }
        if (t->kind != TROUBLE_ORACLE)
                return false;
        text_add(&text, " %s", t->says);
        drop_numbers(shape);
        return true;
}

/* Of one that does not tell by itself: the steps. */
static void shape(struct finding *f)
{
        const struct sequence *s = f->sequences.n > 0 ? f->sequences.at[f->sequences.n - 1] : NULL;
        struct text t;

        if (finding_shape(&f->trouble, f->shape))
                return;
        t = text_in(f->shape, sizeof(f->shape));
        text_add(&t, "%s", trouble_name(f->trouble.kind));
        for (unsigned i = 0; s && i < s->steps; i++)
                text_add(&t, " %s", s->step[i].kind == SEQ_PDU ? s->step[i].template->name : "-");
}

void finding_study(struct finding *f, struct player *p, const struct trouble *t,
                   const struct seeds *past, const struct remote_log *last)
{
        struct study *y = calloc(1, sizeof(*y));

        *f = (struct finding) { .trouble = *t };
        if (!y)
                return;
        *y = (struct study) { .f = f, .p = p, .past = past };
        y->until = loop_now_ms() + p->config->minimise;
        recover(y, t);
        if (!(t->kind != TROUBLE_ORACLE && alone(y)) && !together(y)) {
                keep(y, past->n > UNKNOWN ? past->n - UNKNOWN : 0, past->n);
                keep_log(f, last);
        }
        shape(f);
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
                                                .sin_port = htons(NVME_TCP_PORT),
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

/* The target is harmed once more; whether it was. */
static bool play_all(struct finding *f, const struct campaign_config *config)
{
        struct study y = { .f = f };
        struct trouble t = { 0 };
        struct player p;
        struct loop loop;
        bool same = false;

        if (loop_init(&loop) < 0)
                return false;
        if (player_init(&p, config, &loop) == 0) {
                y.p = &p;
                for (unsigned i = 0; i < f->sequences.n; i++)
                        player_play(&p, f->sequences.at[i]);
                t = player_ask(&p, f->trouble.kind == TROUBLE_LOST);
                same = is_same(&y, &t);
                recover(&y, &t);
                player_fini(&p);
        }
        loop_fini(&loop);
        return same;
}

static bool record_once(struct finding *f, const struct campaign_config *config,
                        struct verbs_provider *of, struct capture_writer *w, bool *same)
{
        struct campaign_config recorded = *config;

        recorded.target.host.verbs = verbs_record_new(of, w);
        if (recorded.target.host.verbs)
                *same = play_all(f, &recorded);
        verbs_record_free(recorded.target.host.verbs);
        return capture_writer_close(w) == 0;
}

/* Until it shows again, within reason: answers may have come later than they were waited for. */
static bool record_rdma(struct finding *f, const struct campaign_config *config, const char *path,
                        char err[CORPUS_ERROR])
{
        struct verbs_provider *of = config->target.host.verbs;
        bool same = false;

        if (!of)
                of = verbs_rdma(err, CORPUS_ERROR);
        for (unsigned i = 0; of && i < RECORDS && !same && !f->gone; i++) {
                struct capture_writer *w = capture_writer_open(path, err, CORPUS_ERROR);

                if (!w)
                        return false;
                if (!record_once(f, config, of, w, &same)) {
                        snprintf(err, CORPUS_ERROR, "%.200s: %s", path, strerror(errno));
                        return false;
                }
        }
        return of;
}

static void name_of(const struct finding *f, const char *folder, unsigned number,
                    const char *ending, char *path, size_t size)
{
        struct text t = text_in(path, size);
        size_t slash;

        text_add(&t, "%s/", folder);
        slash = t.len;
        text_add(&t, "%03u-%s", number, trouble_name(f->trouble.kind));
        if (f->trouble.rule != RULE_NONE)
                text_add(&t, "-%s", rule_get(f->trouble.rule)->id);
        for (char *p = path + slash; (p = strchr(p, '/'));)
                *p = '-';
        text_add(&t, "%s", ending);
}

bool finding_save(struct finding *f, const struct campaign_config *config, unsigned number,
                  char err[CORPUS_ERROR])
{
        char note[ORACLE_LINE + 200], pcap[CORPUS_ERROR];

        snprintf(note, sizeof(note), "%s: %s%s%s", f->shape, f->trouble.says,
                 f->reproduced ? "" : " (not reproduced)",
                 f->sequences.n > 1 ? "; these together" : "");
        name_of(f, config->out, number, ".seq", f->file, sizeof(f->file));
        name_of(f, config->out, number, ".pcap", pcap, sizeof(pcap));
        if (!corpus_save(&f->sequences, f->file, note, err))
                return false;
        if (config->target.host.transport == HOST_RDMA)
                return f->gone || record_rdma(f, config, pcap, err);
        return f->log.len == 0 || save_capture(&f->log, pcap, note, err);
}

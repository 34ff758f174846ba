/* SPDX-License-Identifier: BSD-3-Clause */
#include "distil.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "finding.h"
#include "minimise.h"
#include "pdu/io/output.h"

enum { CHILD_SECONDS = 5 };

/* --- min: in a child process -------------------------------------------------------------------- */

/* How the child that played it ended: its wait status; 0: well. */
static int play_apart(const struct sequence *s)
{
        struct remote_answer a = { 0 };
        int status = 0;
        pid_t pid;

        fflush(NULL);
        pid = fork();
        if (pid == 0) {
                if (!freopen("/dev/null", "w", stderr))
                        _exit(0);
                alarm(CHILD_SECONDS);
                s->family->play(s, &a, NULL, NULL);
                _exit(0);
        }
        if (pid > 0)
                waitpid(pid, &status, 0);
        return status;
}

struct apart {
        int status; /* of the sequence that came */
        unsigned trials;
};

static bool same_end(const struct sequence *s, void *user)
{
        struct apart *a = user;

        a->trials++;
        return play_apart(s) == a->status;
}

static int min_apart(struct sequence *s)
{
        struct apart a = { .status = play_apart(s) };

        if (a.status == 0) {
                fputs("nvmfspec fuzz min: the sequence does not harm our own machines\n", stderr);
                return FUZZ_OK;
        }
        seq_minimise(s, same_end, &a);
        fprintf(stderr, "%s %d, %u trials\n", WIFSIGNALED(a.status) ? "signal" : "exit",
                WIFSIGNALED(a.status) ? WTERMSIG(a.status) : WEXITSTATUS(a.status), a.trials);
        return FUZZ_FOUND;
}

/* --- min: live ---------------------------------------------------------------------------------- */

static int min_live(const struct campaign_config *config, struct sequence *s)
{
        struct loop loop;
        struct player p;
        struct trouble t;
        struct finding f;
        struct seeds past = { 0 };
        int rc = FUZZ_OK;

        if (!finding_awake(config, t.says)) {
                fprintf(stderr, "nvmfspec fuzz min: %s\n", t.says);
                return FUZZ_UNREADABLE;
        }
        if (loop_init(&loop) < 0 || player_init(&p, config, &loop) < 0) {
                perror("nvmfspec fuzz min");
                return FUZZ_UNREADABLE;
        }
        player_play(&p, s);
        t = player_ask(&p, true, config->late);
        if (t.kind != TROUBLE_NONE && seeds_add(&past, s, 0, true)) {
                finding_study(&f, &p, &t, &past, &p.session->log);
                if (f.sequences.n > 0)
                        *s = *f.sequences.at[0];
                fprintf(stderr, "%s: %s%s, %u trials\n", f.shape, f.trouble.says,
                        f.reproduced ? "" : " (not reproduced)", f.trials);
                finding_free(&f);
                seeds_free(&past);
                rc = FUZZ_FOUND;
        } else {
                fputs("nvmfspec fuzz min: the sequence does not harm the target\n", stderr);
        }
        player_fini(&p);
        loop_fini(&loop);
        return rc;
}

int distil_min(const struct campaign_config *config, bool live, struct sequence *s)
{
        if (live && !config->target.allow_write && s->family->tame)
                s->family->tame(s);
        return live ? min_live(config, s) : min_apart(s);
}

/* --- merge -------------------------------------------------------------------------------------- */

static int by_size(const void *a, const void *b)
{
        const struct sequence *s = *(struct sequence *const *)a, *t = *(struct sequence *const *)b;
        int steps = (int)s->steps - (int)t->steps;

        return steps != 0 ? steps : (int)s->pooled - (int)t->pooled;
}

static bool keep(const struct sequence *s, const char *folder, unsigned number)
{
        struct sequence *at[1] = { (struct sequence *)(uintptr_t)s };
        const struct corpus one = { .at = at, .n = 1 };
        char path[CORPUS_ERROR], err[CORPUS_ERROR];

        snprintf(path, sizeof(path), "%s/%05u.seq", folder, number);
        if (corpus_save(&one, path, NULL, err))
                return true;
        fprintf(stderr, "nvmfspec fuzz merge: %s\n", err);
        return false;
}

/* False: nobody is there any more, it was said. What is refused by a target that lives is played again:
 * that says nothing of the sequence. */
static bool answer_of_live(struct player *p, const struct sequence *s, struct remote_answer *a)
{
        char why[ORACLE_LINE];

        player_play(p, s);
        *a = p->session->answer;
        if (a->pdus > 0)
                return true;
        if (!oracle_alive(&p->config->target, why)) {
                fprintf(stderr, "nvmfspec fuzz merge: %s\n", why);
                return false;
        }
        if (a->end == REMOTE_REFUSED)
                player_play(p, s);
        *a = p->session->answer;
        return true;
}

int distil_merge(const struct campaign_config *config, bool live, struct corpus *c,
                 const char *folder)
{
        struct novelty *seen = calloc(1, sizeof(*seen));
        struct remote_answer a;
        struct loop loop;
        struct player p = { 0 };
        unsigned kept = 0, last;
        char why[ORACLE_LINE];
        bool ok;

        if (live && !finding_awake(config, why)) {
                fprintf(stderr, "nvmfspec fuzz merge: %s\n", why);
                free(seen);
                return FUZZ_UNREADABLE;
        }
        ok = seen && loop_init(&loop) == 0;
        if (!ok || (live && player_init(&p, config, &loop) < 0) || !output_folder(folder)) {
                fprintf(stderr, "nvmfspec fuzz merge: %s: %s\n", folder, strerror(errno));
                free(seen);
                return FUZZ_USAGE;
        }
        last = corpus_last(folder);
        if (c->n > 0)
                qsort(c->at, c->n, sizeof(c->at[0]), by_size);
        for (unsigned i = 0; i < c->n && ok; i++) {
                a = (struct remote_answer) { 0 };
                if (live)
                        ok = answer_of_live(&p, c->at[i], &a);
                else
                        c->at[i]->family->play(c->at[i], &a, NULL, NULL);
                if (ok && novelty_add(seen, &a) > 0)
                        ok = keep(c->at[i], folder, last + ++kept);
        }
        printf("%u of %u\n", kept, c->n);
        player_fini(&p);
        loop_fini(&loop);
        free(seen);
        return ok ? FUZZ_OK : FUZZ_UNREADABLE;
}

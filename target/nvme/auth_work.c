/* SPDX-License-Identifier: BSD-3-Clause */
#include "auth_work.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "pdu/core/wipe.h"

enum { NICE = 5 }; /* below those that serve, without starving on a busy machine */

struct auth_work {
        pthread_mutex_t lock;
        pthread_cond_t more;
        pthread_t thread;
        bool runs, by_hand, ends;
        unsigned most, waiting;
        struct auth_job *first;
        char served[64]; /* the address that was served last */
};

struct auth_job *auth_job_new(size_t room)
{
        return calloc(1, sizeof(struct auth_job) + room);
}

void auth_job_free(struct auth_job *job)
{
        wipe(job, sizeof(*job));
        free(job);
}

struct auth_work *auth_work_new(unsigned jobs)
{
        struct auth_work *w = calloc(1, sizeof(*w));

        if (!w)
                return NULL;
        pthread_mutex_init(&w->lock, NULL);
        pthread_cond_init(&w->more, NULL);
        w->most = jobs;
        return w;
}

void auth_work_free(struct auth_work *w)
{
        if (!w)
                return;
        pthread_mutex_lock(&w->lock);
        w->ends = true;
        pthread_cond_signal(&w->more);
        pthread_mutex_unlock(&w->lock);
        if (w->runs)
                pthread_join(w->thread, NULL);
        pthread_cond_destroy(&w->more);
        pthread_mutex_destroy(&w->lock);
        free(w);
}

/* The first of another address than the last one, or else the first. */
static struct auth_job *next_job(struct auth_work *w)
{
        struct auth_job **at = &w->first, *job;

        while (*at && strcmp((*at)->peer, w->served) == 0)
                at = &(*at)->next;
        if (!*at)
                at = &w->first;
        job = *at;
        *at = job->next;
        memcpy(w->served, job->peer, sizeof(w->served));
        w->waiting--;
        return job;
}

static void compute(struct auth_job *job)
{
        if (job->hears)
                auth_hear(&job->auth, job->message, job->len);
        else
                job->len = auth_speak(&job->auth, job->message);
        job->queue->complete(job->queue, job->r);
}

void auth_work_by_hand(struct auth_work *w)
{
        w->by_hand = true;
}

bool auth_work_step(struct auth_work *w)
{
        struct auth_job *job;

        pthread_mutex_lock(&w->lock);
        job = w->first ? next_job(w) : NULL;
        pthread_mutex_unlock(&w->lock);
        if (job)
                compute(job);
        return job;
}

static void *work(void *arg)
{
        struct auth_work *w = arg;

        /* on Linux that is this thread */
        setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + NICE);
        pthread_mutex_lock(&w->lock);
        while (!w->ends) {
                if (w->first) {
                        struct auth_job *job = next_job(w);

                        pthread_mutex_unlock(&w->lock);
                        compute(job);
                        pthread_mutex_lock(&w->lock);
                } else {
                        pthread_cond_wait(&w->more, &w->lock);
                }
        }
        pthread_mutex_unlock(&w->lock);
        return NULL;
}

/* A quarter is left for other addresses. */
static bool has_room(const struct auth_work *w, const char *peer)
{
        unsigned same = 0;

        for (const struct auth_job *job = w->first; job; job = job->next)
                same += strcmp(job->peer, peer) == 0;
        return w->waiting < w->most && same < w->most - w->most / 4;
}

bool auth_work_do(struct auth_work *w, struct auth_job *job)
{
        struct auth_job **at = &w->first;
        bool ok;

        pthread_mutex_lock(&w->lock);
        if (!w->runs && !w->by_hand)
                w->runs = pthread_create(&w->thread, NULL, work, w) == 0;
        ok = (w->runs || w->by_hand) && has_room(w, job->peer);
        if (ok) {
                while (*at)
                        at = &(*at)->next;
                *at = job;
                w->waiting++;
                pthread_cond_signal(&w->more);
        }
        pthread_mutex_unlock(&w->lock);
        return ok;
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "srp_nexus.h"

#include <stdlib.h>
#include <string.h>

#include "srp_conn.h"

static struct srp_nexus *find(struct srp_service *s, const struct srp_login_req *asked)
{
        struct srp_nexus *n = s->nexuses;

        while (n && (memcmp(n->initiator, asked->initiator_port_id, sizeof(n->initiator)) != 0 ||
                     memcmp(n->target, asked->target_port_id, sizeof(n->target)) != 0))
                n = n->next;
        return n;
}

/* Channels that stay unless somebody ends them. */
static unsigned count(const struct srp_nexus *n)
{
        unsigned channels = 0;

        for (const struct srp_conn *c = n ? n->channels : NULL; c; c = c->next)
                channels += !c->ousted;
        return channels;
}

static struct srp_nexus *new_nexus(struct srp_service *s, const struct srp_login_req *asked)
{
        struct srp_nexus *n = calloc(1, sizeof(*n));

        if (!n)
                return NULL;
        memcpy(n->initiator, asked->initiator_port_id, sizeof(n->initiator));
        memcpy(n->target, asked->target_port_id, sizeof(n->target));
        srp_port_id_text(n->initiator, n->name);
        scsi_nexus_init(&n->scsi, &s->device);
        n->next = s->nexuses;
        s->nexuses = n;
        return n;
}

/* On their reactors, each. How many. */
static unsigned oust_all(struct srp_nexus *n)
{
        unsigned told = 0;

        for (struct srp_conn *c = n->channels; c; c = c->next) {
                if (c->ousted)
                        continue;
                c->ousted = true;
                told++;
                loop_post(&c->base.reactor->loop, &c->oust);
        }
        return told;
}

static void add(struct srp_nexus *n, struct srp_conn *c)
{
        c->nexus = n;
        n->refs++;
        c->next = n->channels;
        c->at = &n->channels;
        if (c->next)
                c->next->at = &c->next;
        n->channels = c;
}

static void tell(const struct srp_service *s, const struct srp_conn *c, enum srp_happening what,
                 int64_t value)
{
        if (s->watch)
                s->watch(s->watch_user, c, what, value);
}

static struct srp_login_answer decide(const struct srp_service *s, const struct srp_nexus *n,
                                      const struct srp_login_req *asked)
{
        if (!s->enabled)
                return (struct srp_login_answer) { .reason = SRP_REJECT_RESOURCES };
        return srp_login_decide(asked, &s->port, count(n), &s->policy.waived);
}

struct srp_login_answer srp_nexus_ask(struct srp_service *s, const struct srp_login_req *asked)
{
        struct srp_login_answer a;

        pthread_mutex_lock(&s->lock);
        a = decide(s, find(s, asked), asked);
        pthread_mutex_unlock(&s->lock);
        return a;
}

/* Whether the older channels end; if rules are broken, the others. */
static bool ousts(const struct srp_service *s, const struct srp_conn *c,
                  const struct srp_login_answer *a)
{
        bool multi = (c->asked.req_flags & SRP_ACTION) == SRP_ACTION_MULTI;

        return multi ? rule_in(&s->policy.violated, SRP_LOGIN_KEEPS)
                     : a->terminates && !rule_in(&s->policy.violated, SRP_LOGIN_ENDS);
}

static bool join(struct srp_service *s, struct srp_conn *c, struct srp_login_answer *answer)
{
        struct srp_nexus *n = find(s, &c->asked);
        unsigned told = 0;

        *answer = decide(s, n, &c->asked);
        if (answer->reason)
                return true;
        if (!n)
                n = new_nexus(s, &c->asked);
        if (!n)
                return false;
        if (ousts(s, c, answer))
                told = oust_all(n);
        add(n, c);
        tell(s, c, SRP_HAS_REGISTERED, 0);
        tell(s, c, SRP_HAS_RELOGGED,
             2 * (int64_t)told +
                 ((answer->rsp.rsp_flags & SRP_RESULT) == SRP_RESULT_TERMINATED ? 1 : 0));
        return true;
}

bool srp_nexus_join(struct srp_service *s, struct srp_conn *c, struct srp_login_answer *answer)
{
        bool ok;

        pthread_mutex_lock(&s->lock);
        ok = join(s, c, answer);
        pthread_mutex_unlock(&s->lock);
        return ok;
}

void srp_nexus_close(struct srp_service *s, struct srp_conn *c)
{
        pthread_mutex_lock(&s->lock);
        c->ousted = true;
        pthread_mutex_unlock(&s->lock);
}

void srp_nexus_leave(struct srp_service *s, struct srp_conn *c)
{
        pthread_mutex_lock(&s->lock);
        if (c->at) {
                *c->at = c->next;
                if (c->next)
                        c->next->at = c->at;
                c->at = NULL;
                tell(s, c, SRP_HAS_UNREGISTERED, 0);
        }
        pthread_mutex_unlock(&s->lock);
}

void srp_nexus_put(struct srp_service *s, struct srp_conn *c)
{
        struct srp_nexus *n = c->nexus, **at = &s->nexuses;

        if (!n)
                return;
        pthread_mutex_lock(&s->lock);
        c->nexus = NULL;
        if (--n->refs == 0) {
                while (*at != n)
                        at = &(*at)->next;
                *at = n->next;
                free(n);
        }
        pthread_mutex_unlock(&s->lock);
}

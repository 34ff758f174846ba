/* SPDX-License-Identifier: BSD-3-Clause */
#include "life.h"

const char *srp_life_name(enum life_state s)
{
        static const char *const names[] = {
                [LIFE_CONNECTING] = "connecting", [LIFE_LIVE] = "live",
                [LIFE_CLOSING] = "disconnecting", [LIFE_DRAINING] = "draining",
                [LIFE_DEAD] = "disconnected",     [LIFE_RELEASED] = "released",
        };

        return names[s];
}

const char *srp_happening_name(enum srp_happening h)
{
        static const char *const names[SRP_HAPPENINGS] = {
                [SRP_HAS_REGISTERED] = "registered",
                [SRP_HAS_ACCEPTED] = "accepted",
                [SRP_HAS_MOVED] = "moved",
                [SRP_HAS_POSTED] = "posted",
                [SRP_HAS_COMPLETED] = "completed",
                [SRP_HAS_RUN] = "run",
                [SRP_HAS_REQUESTED] = "requested",
                [SRP_HAS_GRANTED] = "granted",
                [SRP_HAS_AWAITED] = "awaited",
                [SRP_HAS_EXECUTED] = "executed",
                [SRP_HAS_DROPPED] = "dropped",
                [SRP_HAS_GOT] = "got",
                [SRP_HAS_PUT] = "put",
                [SRP_HAS_HEARD_DREQ] = "DREQ received",
                [SRP_HAS_SAID_DREQ] = "DREQ or DREP sent",
                [SRP_HAS_DISABLED] = "disabled",
                [SRP_HAS_UNREGISTERED] = "unregistered",
                [SRP_HAS_DESTROYED] = "destroyed",
                [SRP_HAS_FREED] = "freed",
                [SRP_HAS_RELOGGED] = "logged in",
        };

        return names[h];
}

const char *srp_invariant_says(enum srp_invariant i)
{
        static const char *const says[SRP_INVARIANTS] = {
                "all holds",
                "the state of a channel never decreases, and each edge is passed once",
                "a channel that is disconnected has no more completions",
                "a session is unregistered once, and not before its channel is disconnected",
                "the CM id is destroyed once, and not before the channel has ended",
                "completions end, then the session is unregistered, then the id destroyed, then "
                "buffers freed",
                "references are never taken from none, and are none once",
                "a channel is on its nexus's list from its registration to its end",
                "no login is accepted after the port was disabled",
                "a DREQ is answered",
                "what came before the channel was live is served once, in order, and only when it "
                "is",
                "no more requests are outstanding than the limit allows, and the limit is never "
                "below zero",
                "a login says that it has terminated channels if and only if it has",
                "a command that waits for data is not carried out when its channel is no longer "
                "live",
                "no state lasts longer than its time",
        };

        return says[i];
}

void srp_watch_init(struct srp_watch *w, const struct srp_watch_times *times, uint64_t now)
{
        *w = (struct srp_watch) { .times = times, .since = now, .moved = 1, .refs = 1 };
}

/* --- what breaks what ------------------------------------------------------------------------- */

static unsigned bound(const struct srp_watch *w)
{
        const struct srp_watch_times *t = w->times;
        const unsigned bounds[] = {
                [LIFE_CONNECTING] = t ? t->connecting : 0, [LIFE_LIVE] = 0,
                [LIFE_CLOSING] = t ? t->disconnecting : 0, [LIFE_DRAINING] = t ? t->draining : 0,
                [LIFE_DEAD] = t ? t->disconnected : 0,     [LIFE_RELEASED] = 0,
        };

        return bounds[w->state];
}

static bool is_late(const struct srp_watch *w, uint64_t now)
{
        return bound(w) > 0 && now - w->since > bound(w);
}

/* Something that has happened: with its value, at this time. What that breaks. */
typedef enum srp_invariant happen_fn(struct srp_watch *w, int64_t value, uint64_t now);
#define UNUSED (void)value, (void)now

static enum srp_invariant broken_if(bool wrong, enum srp_invariant i)
{
        return wrong ? i : SRP_INVARIANT_NONE;
}

static enum srp_invariant on_register(struct srp_watch *w, int64_t value, uint64_t now)
{
        bool again = w->registered;

        UNUSED;
        w->registered = true;
        return broken_if(again, SRP_ON_NEXUS);
}

static enum srp_invariant on_accept(struct srp_watch *w, int64_t value, uint64_t now)
{
        UNUSED;
        return w->disabled ? SRP_NOT_DISABLED
                           : broken_if(!w->registered || w->unregistered, SRP_ON_NEXUS);
}

static enum srp_invariant on_move(struct srp_watch *w, int64_t value, uint64_t now)
{
        enum life_state to = (enum life_state)value;
        bool backwards = to <= w->state || w->moved >> to & 1, late = is_late(w, now);

        w->moved |= 1u << to;
        w->state = to;
        w->since = now;
        if (backwards)
                return SRP_MONOTONE;
        if (to == LIFE_DEAD && w->heard_dreq && !w->said_dreq)
                return SRP_DREQ_ANSWERED;
        return broken_if(late, SRP_IN_TIME);
}

static enum srp_invariant on_post(struct srp_watch *w, int64_t value, uint64_t now)
{
        UNUSED;
        w->posted += (unsigned)value;
        return broken_if(w->freed, SRP_ORDER);
}

static enum srp_invariant on_completion(struct srp_watch *w, int64_t value, uint64_t now)
{
        UNUSED;
        w->posted -= w->posted > 0;
        if (w->freed || w->destroyed || w->unregistered)
                return SRP_ORDER;
        return broken_if(w->state >= LIFE_DEAD, SRP_LAST_CQE);
}

static enum srp_invariant on_run(struct srp_watch *w, int64_t value, uint64_t now)
{
        bool wrong = w->state != LIFE_LIVE || (uint64_t)value != w->run;

        UNUSED;
        w->run++;
        return broken_if(wrong, SRP_HELD_IN_ORDER);
}

static enum srp_invariant on_grant(struct srp_watch *w, int64_t value, uint64_t now)
{
        UNUSED;
        w->limit += value;
        return broken_if(w->limit < 0 || w->limit > INT32_MAX, SRP_CREDITS);
}

static enum srp_invariant on_request(struct srp_watch *w, int64_t value, uint64_t now)
{
        UNUSED;
        return on_grant(w, -1, now);
}

static enum srp_invariant on_await(struct srp_watch *w, int64_t value, uint64_t now)
{
        UNUSED;
        w->awaiting++;
        return SRP_INVARIANT_NONE;
}

static enum srp_invariant on_drop(struct srp_watch *w, int64_t value, uint64_t now)
{
        bool none = w->awaiting == 0;

        UNUSED;
        w->awaiting -= !none;
        return broken_if(none, SRP_NEED_DATA);
}

static enum srp_invariant on_execute(struct srp_watch *w, int64_t value, uint64_t now)
{
        bool late = w->state != LIFE_LIVE;
        enum srp_invariant i = on_drop(w, value, now);

        return i ? i : broken_if(late, SRP_NEED_DATA);
}

static enum srp_invariant on_get(struct srp_watch *w, int64_t value, uint64_t now)
{
        UNUSED;
        return broken_if(w->refs++ == 0, SRP_REFERENCES);
}

static enum srp_invariant on_put(struct srp_watch *w, int64_t value, uint64_t now)
{
        UNUSED;
        if (w->refs == 0)
                return SRP_REFERENCES;
        return broken_if(--w->refs == 0 && w->posted > 0 && !w->destroyed, SRP_ORDER);
}

static enum srp_invariant on_dreq(struct srp_watch *w, int64_t value, uint64_t now)
{
        UNUSED;
        w->heard_dreq |= w->state <= LIFE_LIVE;
        return SRP_INVARIANT_NONE;
}

static enum srp_invariant on_said_dreq(struct srp_watch *w, int64_t value, uint64_t now)
{
        UNUSED;
        w->said_dreq = true;
        return SRP_INVARIANT_NONE;
}

static enum srp_invariant on_disable(struct srp_watch *w, int64_t value, uint64_t now)
{
        UNUSED;
        w->disabled = true;
        return SRP_INVARIANT_NONE;
}

static enum srp_invariant on_unregister(struct srp_watch *w, int64_t value, uint64_t now)
{
        bool wrong = !w->registered || w->unregistered || w->state < LIFE_DEAD;

        UNUSED;
        w->unregistered = true;
        return wrong ? SRP_UNREGISTER_ONE : broken_if(w->destroyed, SRP_ORDER);
}

/* Of one that was never registered the login was rejected: its id is the caller's. */
static enum srp_invariant on_destroy(struct srp_watch *w, int64_t value, uint64_t now)
{
        bool again = w->destroyed;

        UNUSED;
        w->destroyed = true;
        w->posted = 0;
        if (again || (w->registered && w->state < LIFE_DEAD))
                return SRP_DESTROY_ONE;
        return broken_if(w->registered && !w->unregistered, SRP_ORDER);
}

static enum srp_invariant on_free(struct srp_watch *w, int64_t value, uint64_t now)
{
        bool wrong = w->freed || (w->posted > 0 && !w->destroyed);

        UNUSED;
        w->freed = true;
        return broken_if(wrong, SRP_ORDER);
}

static enum srp_invariant on_login(struct srp_watch *w, int64_t value, uint64_t now)
{
        UNUSED;
        (void)w;
        return broken_if((value >> 1 > 0) != (value & 1), SRP_RELOGIN);
}

static happen_fn *const happens[SRP_HAPPENINGS] = {
        [SRP_HAS_REGISTERED] = on_register,
        [SRP_HAS_ACCEPTED] = on_accept,
        [SRP_HAS_MOVED] = on_move,
        [SRP_HAS_POSTED] = on_post,
        [SRP_HAS_COMPLETED] = on_completion,
        [SRP_HAS_RUN] = on_run,
        [SRP_HAS_REQUESTED] = on_request,
        [SRP_HAS_GRANTED] = on_grant,
        [SRP_HAS_AWAITED] = on_await,
        [SRP_HAS_EXECUTED] = on_execute,
        [SRP_HAS_DROPPED] = on_drop,
        [SRP_HAS_GOT] = on_get,
        [SRP_HAS_PUT] = on_put,
        [SRP_HAS_HEARD_DREQ] = on_dreq,
        [SRP_HAS_SAID_DREQ] = on_said_dreq,
        [SRP_HAS_DISABLED] = on_disable,
        [SRP_HAS_UNREGISTERED] = on_unregister,
        [SRP_HAS_DESTROYED] = on_destroy,
        [SRP_HAS_FREED] = on_free,
        [SRP_HAS_RELOGGED] = on_login,
};

static enum srp_invariant keep(struct srp_watch *w, enum srp_happening what, enum srp_invariant i)
{
        if (i != SRP_INVARIANT_NONE && w->broken == SRP_INVARIANT_NONE) {
                w->broken = i;
                w->by = what;
        }
        return i;
}

enum srp_invariant srp_watch_tell(struct srp_watch *w, enum srp_happening what, int64_t value,
                                  uint64_t now)
{
        return keep(w, what, happens[what](w, value, now));
}

enum srp_invariant srp_watch_end(struct srp_watch *w)
{
        enum srp_invariant i = SRP_INVARIANT_NONE;

        if (w->registered && !w->unregistered)
                i = SRP_UNREGISTER_ONE;
        else if (!w->destroyed)
                i = SRP_DESTROY_ONE;
        else if (!w->freed)
                i = SRP_ORDER;
        else if (w->refs != 0)
                i = SRP_REFERENCES;
        else if (w->awaiting != 0)
                i = SRP_NEED_DATA;
        return keep(w, SRP_HAPPENINGS, i);
}

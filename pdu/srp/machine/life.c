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

static enum srp_invariant move(struct srp_watch *w, enum life_state to, uint64_t now)
{
        bool backwards = to <= w->state || w->moved >> to & 1;
        bool late = is_late(w, now);

        w->moved |= 1u << to;
        w->state = to;
        w->since = now;
        if (backwards)
                return SRP_MONOTONE;
        if (to == LIFE_DEAD && w->heard_dreq && !w->said_dreq)
                return SRP_DREQ_ANSWERED;
        return late ? SRP_IN_TIME : SRP_INVARIANT_NONE;
}

static enum srp_invariant work(struct srp_watch *w, enum srp_happening what, int64_t n)
{
        if (what == SRP_HAS_POSTED) {
                w->posted += (unsigned)n;
                return w->freed ? SRP_ORDER : SRP_INVARIANT_NONE;
        }
        if (w->posted > 0)
                w->posted--;
        if (w->freed || w->destroyed || w->unregistered)
                return SRP_ORDER;
        return w->state >= LIFE_DEAD ? SRP_LAST_CQE : SRP_INVARIANT_NONE;
}

static enum srp_invariant serve(struct srp_watch *w, uint64_t number)
{
        bool wrong = w->state != LIFE_LIVE || number != w->run;

        w->run++;
        return wrong ? SRP_HELD_IN_ORDER : SRP_INVARIANT_NONE;
}

static enum srp_invariant credits(struct srp_watch *w, int64_t change)
{
        w->limit += change;
        return w->limit < 0 || w->limit > INT32_MAX ? SRP_CREDITS : SRP_INVARIANT_NONE;
}

static enum srp_invariant data(struct srp_watch *w, enum srp_happening what)
{
        if (what == SRP_HAS_AWAITED) {
                w->awaiting++;
                return SRP_INVARIANT_NONE;
        }
        if (w->awaiting == 0)
                return SRP_NEED_DATA;
        w->awaiting--;
        return what == SRP_HAS_EXECUTED && w->state != LIFE_LIVE ? SRP_NEED_DATA
                                                                 : SRP_INVARIANT_NONE;
}

static enum srp_invariant refs(struct srp_watch *w, enum srp_happening what)
{
        if (w->refs == 0)
                return SRP_REFERENCES;
        w->refs += what == SRP_HAS_GOT ? 1 : UINT32_MAX;
        return w->refs == 0 && w->posted > 0 && !w->destroyed ? SRP_ORDER : SRP_INVARIANT_NONE;
}

static enum srp_invariant register_it(struct srp_watch *w)
{
        bool again = w->registered;

        w->registered = true;
        return again ? SRP_ON_NEXUS : SRP_INVARIANT_NONE;
}

static enum srp_invariant unregister(struct srp_watch *w)
{
        bool wrong = !w->registered || w->unregistered || w->state < LIFE_DEAD;

        w->unregistered = true;
        return wrong ? SRP_UNREGISTER_ONE : w->destroyed ? SRP_ORDER : SRP_INVARIANT_NONE;
}

/* Of one that was never registered the login was rejected: its id is the caller's. */
static enum srp_invariant destroy(struct srp_watch *w)
{
        bool again = w->destroyed;

        w->destroyed = true;
        w->posted = 0;
        if (again || (w->registered && w->state < LIFE_DEAD))
                return SRP_DESTROY_ONE;
        return w->registered && !w->unregistered ? SRP_ORDER : SRP_INVARIANT_NONE;
}

static enum srp_invariant free_it(struct srp_watch *w)
{
        bool wrong = w->freed || (w->posted > 0 && !w->destroyed);

        w->freed = true;
        return wrong ? SRP_ORDER : SRP_INVARIANT_NONE;
}

static enum srp_invariant accept_it(const struct srp_watch *w)
{
        if (w->disabled)
                return SRP_NOT_DISABLED;
        return w->registered && !w->unregistered ? SRP_INVARIANT_NONE : SRP_ON_NEXUS;
}

static enum srp_invariant look(struct srp_watch *w, enum srp_happening what, int64_t value,
                               uint64_t now)
{
        switch (what) {
        case SRP_HAS_REGISTERED:
                return register_it(w);
        case SRP_HAS_ACCEPTED:
                return accept_it(w);
        case SRP_HAS_MOVED:
                return move(w, (enum life_state)value, now);
        case SRP_HAS_POSTED:
        case SRP_HAS_COMPLETED:
                return work(w, what, value);
        case SRP_HAS_RUN:
                return serve(w, (uint64_t)value);
        case SRP_HAS_REQUESTED:
                return credits(w, -1);
        case SRP_HAS_GRANTED:
                return credits(w, value);
        case SRP_HAS_AWAITED:
        case SRP_HAS_EXECUTED:
        case SRP_HAS_DROPPED:
                return data(w, what);
        case SRP_HAS_GOT:
        case SRP_HAS_PUT:
                return refs(w, what);
        case SRP_HAS_HEARD_DREQ:
                w->heard_dreq |= w->state <= LIFE_LIVE;
                break;
        case SRP_HAS_SAID_DREQ:
                w->said_dreq = true;
                break;
        case SRP_HAS_DISABLED:
                w->disabled = true;
                break;
        case SRP_HAS_UNREGISTERED:
                return unregister(w);
        case SRP_HAS_DESTROYED:
                return destroy(w);
        case SRP_HAS_FREED:
                return free_it(w);
        case SRP_HAS_RELOGGED:
                return (value >> 1 > 0) == (value & 1) ? SRP_INVARIANT_NONE : SRP_RELOGIN;
        case SRP_HAPPENINGS:
                break;
        }
        return SRP_INVARIANT_NONE;
}

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
        return keep(w, what, look(w, what, value, now));
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

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The life of an SRP channel and its watch. First an owner that does no more than it must, led by the table of
 * rdma_life.h through events in any order: whatever comes, no invariant is broken. Then happenings as they come: the first
 * one that is broken is kept, and all that is counted stays within what has happened.
 *
 * Input: bits (1 byte), the number of events (1 byte) and a byte for each; then happenings: which (1 byte), a value
 * (2 bytes), the time that has passed (1 byte).
 */
#include "fuzz/fuzz.h"
#include "pdu/srp/machine/life.h"

enum {
        BIT_REJECTED = 1,
        BIT_TERMINATES = 2,
        CREDITS = 4,
        RECEIVES = 3,
        BOUND = 250, /* ms of each state */
};

enum act { /* beyond the life's own events */
           ACT_REQUEST = LIFE_EVENTS,
           ACT_DATA,   /* a request whose data is to be waited for */
           ACT_CAME,   /* ... it is there */
           ACT_ANSWER, /* the oldest request has its response */
           ACT_DONE,   /* a work request completes */
           ACT_DISABLE,
           ACTS,
};

/* A channel as its owner has it. */
struct owner {
        struct srp_watch watch;
        struct rdma_life life;
        unsigned posted, held, waits, executing, credits;
        uint64_t run;
};

static void tell(struct owner *o, enum srp_happening what, int64_t value)
{
        must(srp_watch_tell(&o->watch, what, value, 0) == SRP_INVARIANT_NONE);
        fuzz_seen((uint32_t)o->watch.state << 8 | what);
}

static void post(struct owner *o, unsigned n)
{
        o->posted += n;
        tell(o, SRP_HAS_POSTED, n);
}

static void complete(struct owner *o)
{
        if (o->posted == 0)
                return;
        o->posted--;
        tell(o, SRP_HAS_COMPLETED, 0);
}

/* --- requests --------------------------------------------------------------------------------- */

static void run(struct owner *o)
{
        tell(o, SRP_HAS_RUN, (int64_t)o->run++);
        tell(o, SRP_HAS_REQUESTED, 0);
}

static void execute(struct owner *o)
{
        tell(o, SRP_HAS_GOT, 0);
        o->executing++;
}

/* Kept until the channel is live, and then served. */
static void request(struct owner *o, bool data)
{
        if (o->credits == 0 || o->life.state > LIFE_LIVE)
                return;
        o->credits--;
        complete(o);
        if (o->life.state == LIFE_CONNECTING) {
                o->held++;
                return;
        }
        run(o);
        if (data) {
                o->waits++;
                tell(o, SRP_HAS_AWAITED, 0);
        } else {
                execute(o);
        }
}

static void data_came(struct owner *o)
{
        bool live = o->life.state == LIFE_LIVE;

        if (o->waits == 0)
                return;
        o->waits--;
        tell(o, live ? SRP_HAS_EXECUTED : SRP_HAS_DROPPED, 0);
        if (live)
                execute(o);
}

static void answer(struct owner *o)
{
        if (o->executing == 0)
                return;
        o->executing--;
        tell(o, SRP_HAS_PUT, 0);
        if (o->life.state != LIFE_LIVE)
                return;
        o->credits++;
        tell(o, SRP_HAS_GRANTED, 1);
        post(o, 2); /* the response, and the receive once more */
}

/* --- the life --------------------------------------------------------------------------------- */

static void flush(struct owner *o)
{
        while (o->posted > 0)
                complete(o);
        (void)life_sentinel_flushed(&o->life, &o->life.sentinel[0]);
        (void)life_sentinel_flushed(&o->life, &o->life.sentinel[1]);
}

static void end(struct owner *o)
{
        while (o->waits > 0)
                data_came(o);
        tell(o, SRP_HAS_UNREGISTERED, 0);
}

static void act(struct owner *o, unsigned actions)
{
        if (actions & LIFE_DO_REPLAY)
                for (; o->held > 0; o->held--) {
                        run(o);
                        execute(o);
                }
        if (actions & LIFE_DO_FAIL) {
                (void)life_send_sentinel(&o->life);
                (void)life_recv_sentinel(&o->life);
        }
        if (actions & LIFE_DO_END)
                end(o);
}

static void happens(struct owner *o, enum life_event e)
{
        enum life_state before = o->life.state;
        unsigned actions;

        if (e == LIFE_DRAINED && before != LIFE_DRAINING)
                return;
        if (e == LIFE_IDLE && (before != LIFE_DEAD || o->executing > 0))
                return;
        if ((e == LIFE_DRAINED || e == LIFE_LATE) && before == LIFE_DRAINING)
                flush(o);
        if (e == LIFE_DISCONNECTED)
                tell(o, SRP_HAS_HEARD_DREQ, 0);
        actions = life_event(&o->life, e);
        if (actions & LIFE_DO_DISCONNECT)
                tell(o, SRP_HAS_SAID_DREQ, 0);
        if (o->life.state != before)
                tell(o, SRP_HAS_MOVED, (int64_t)o->life.state);
        act(o, actions);
}

static void one_act(struct owner *o, unsigned what)
{
        switch (what % ACTS) {
        case ACT_REQUEST:
        case ACT_DATA:
                request(o, what % ACTS == ACT_DATA);
                break;
        case ACT_CAME:
                data_came(o);
                break;
        case ACT_ANSWER:
                answer(o);
                break;
        case ACT_DONE:
                if (o->life.state < LIFE_DEAD)
                        complete(o);
                break;
        case ACT_DISABLE:
                tell(o, SRP_HAS_DISABLED, 0);
                break;
        default:
                happens(o, (enum life_event)(what % ACTS));
        }
}

static void dismantle(struct owner *o)
{
        tell(o, SRP_HAS_DESTROYED, 0);
        tell(o, SRP_HAS_FREED, 0);
        tell(o, SRP_HAS_PUT, 0);
        must(srp_watch_end(&o->watch) == SRP_INVARIANT_NONE);
        must(o->watch.broken == SRP_INVARIANT_NONE);
}

static void live_well(struct fuzz_input *b)
{
        static const struct srp_watch_times times = { BOUND, BOUND, BOUND, BOUND };
        unsigned bits = bytes_u8(b), n = bytes_u8(b);
        struct owner o = { .credits = CREDITS };

        srp_watch_init(&o.watch, &times, 0);
        life_init(&o.life);
        o.life.has_qp = true;
        life_busy(&o.life); /* until nobody will speak of it any more */
        post(&o, RECEIVES);
        if (bits & BIT_REJECTED) {
                dismantle(&o);
                return;
        }
        tell(&o, SRP_HAS_REGISTERED, 0);
        tell(&o, SRP_HAS_RELOGGED, bits & BIT_TERMINATES ? 3 : 0);
        tell(&o, SRP_HAS_ACCEPTED, 0);
        tell(&o, SRP_HAS_GRANTED, CREDITS);
        for (; n > 0 && b->left > 0; n--)
                one_act(&o, bytes_u8(b));
        happens(&o, LIFE_ABORT);
        happens(&o, LIFE_DRAINED);
        while (o.executing > 0)
                answer(&o);
        happens(&o, LIFE_IDLE);
        must(o.life.state == LIFE_RELEASED);
        dismantle(&o);
}

/* --- anything --------------------------------------------------------------------------------- */

static void live_anyhow(struct fuzz_input *b)
{
        static const struct srp_watch_times times = { BOUND, BOUND, BOUND, BOUND };
        enum srp_invariant first = SRP_INVARIANT_NONE;
        struct srp_watch w;
        uint64_t now = 0;

        srp_watch_init(&w, &times, now);
        while (b->left > 0) {
                enum srp_happening what = (enum srp_happening)(bytes_u8(b) % SRP_HAPPENINGS);
                int64_t value = (int16_t)bytes_u16(b);
                enum srp_invariant i;

                if (what == SRP_HAS_MOVED)
                        value = (value & 0xff) % (LIFE_RELEASED + 1);
                else if (what == SRP_HAS_POSTED || what == SRP_HAS_RELOGGED)
                        value &= 0x7f;
                now += bytes_u8(b);
                i = srp_watch_tell(&w, what, value, now);
                must(i < SRP_INVARIANTS && srp_invariant_says(i) && srp_happening_name(what));
                first = first ? first : i;
                must(w.broken == first);
                must(w.state <= LIFE_RELEASED && srp_life_name(w.state));
        }
        (void)srp_watch_end(&w);
        must(first == SRP_INVARIANT_NONE || w.broken == first);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
        struct fuzz_input b = bytes_of(input, size);

        live_well(&b);
        live_anyhow(&b);
        return 0;
}

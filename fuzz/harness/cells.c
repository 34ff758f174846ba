/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which cells of the state tables an input reaches. Linked with --wrap, so that the machines know
 * nothing of it: each PDU that a link takes and each event of a life cycle is a cell of [state][what
 * came], which a fuzzer takes as feedback. With FUZZ_CELLS=FILE in the environment the program adds a
 * line for each cell to the file when it ends: machine, state, event, legal or illegal, how often.
 *
 * A PDU is legal where the specification has it come, and is without fault; an illegal cell counts
 * when the PDU was refused. Of life cycles an event is legal where it moves on.
 */
#include <stdio.h>
#include <stdlib.h>

#include "fuzz/fuzz.h"
#include "pdu/nvme/tcp/link.h"
#include "pdu/verbs/rdma_life.h"

/* UNCONNECTED and IDLE have nothing outstanding. */
enum state { CONNECTING, UNCONNECTED, IDLE, BUSY, ASKED, STATES };
enum { OTHER = PDU_TYPES, EVENTS };

static const char *const states[STATES] = { "connecting", "unconnected", "idle", "busy",
                                            "r2t-open" };

#define AT(s) (1u << (s))
enum {
        ALWAYS = AT(CONNECTING) | AT(UNCONNECTED) | AT(IDLE) | AT(BUSY) | AT(ASKED),
        LIVE = AT(UNCONNECTED) | AT(IDLE) | AT(BUSY) | AT(ASKED),
        WORKING = AT(BUSY) | AT(ASKED),
};

/* Where who listens expects which PDU (NVMe/TCP 1.0 3.3, 3.4, 3.5): a set of states. */
static const unsigned expects[2][EVENTS] = {
        [PARTY_CONTROLLER] = { [PDU_ICREQ] = AT(CONNECTING),
                               [PDU_H2C_TERM] = ALWAYS,
                               [PDU_CAPSULE_CMD] = LIVE,
                               [PDU_H2C_DATA] = AT(ASKED) },
        [PARTY_HOST] = { [PDU_ICRESP] = AT(CONNECTING),
                         [PDU_C2H_TERM] = ALWAYS,
                         [PDU_CAPSULE_RESP] = WORKING,
                         [PDU_C2H_DATA] = WORKING,
                         [PDU_R2T] = WORKING },
};

static unsigned pdus[2][STATES][EVENTS][2]; /* the last: without fault, refused */
static unsigned life[LIFE_RELEASED + 1][LIFE_EVENTS][2];

static enum state state_of(const struct link *l)
{
        if (l->state == LINK_CONNECTING)
                return CONNECTING;
        if (track_r2ts(l->track) > 0)
                return ASKED;
        if (track_outstanding(l->track) > 0)
                return BUSY;
        return track_qid(l->track) < 0 ? UNCONNECTED : IDLE;
}

static void see(enum party side, enum state s, unsigned event, bool refused)
{
        pdus[side][s][event][refused]++;
        fuzz_seen(((side * STATES + s) * EVENTS + event) * 2 + refused);
}

enum framer_event __real_link_next(struct link *l);
enum framer_event __wrap_link_next(struct link *l);
enum framer_event __wrap_link_next(struct link *l)
{
        bool alive = l->state < LINK_TERMINATING;
        enum state s = state_of(l);
        enum framer_event e = __real_link_next(l);
        uint8_t type = framer_header(&l->rx)->ch.type;

        if (alive && (e == FRAMER_HEADER || e == FRAMER_FAULT))
                see(l->cfg.side, s, pdu_info(type) ? type : OTHER, e == FRAMER_FAULT);
        return e;
}

unsigned __real_life_event(struct rdma_life *l, enum life_event e);
unsigned __wrap_life_event(struct rdma_life *l, enum life_event e);
unsigned __wrap_life_event(struct rdma_life *l, enum life_event e)
{
        enum life_state before = l->state;
        unsigned actions = __real_life_event(l, e);

        life[before][e][l->state == before]++;
        return actions;
}

static void write_pdus(FILE *f, enum party side, enum state s)
{
        static const char *const machines[] = { "tcp-host", "tcp-controller" };

        for (uint8_t e = 0; e < EVENTS; e++) {
                const char *name = e == OTHER ? "unknown" : pdu_info(e) ? pdu_info(e)->name : NULL;

                if (!name)
                        continue;
                if (expects[side][e] & AT(s))
                        fprintf(f, "%s %s %s legal %u\n", machines[side], states[s], name,
                                pdus[side][s][e][0]);
                fprintf(f, "%s %s %s illegal %u\n", machines[side], states[s], name,
                        pdus[side][s][e][1]);
        }
}

static void write_life(FILE *f)
{
        for (enum life_state s = 0; s <= LIFE_RELEASED; s++)
                for (enum life_event e = 0; e < LIFE_EVENTS; e++)
                        fprintf(f, "rdma-life %s %s %s %u\n", life_state_name(s),
                                life_event_name(e), life_moves(s, e) ? "legal" : "illegal",
                                life[s][e][!life_moves(s, e)]);
}

__attribute__((destructor)) static void write_cells(void)
{
        const char *path = getenv("FUZZ_CELLS");
        FILE *f = path ? fopen(path, "a") : NULL;

        if (!f)
                return;
        for (enum state s = 0; s < STATES; s++) {
                write_pdus(f, PARTY_HOST, s);
                write_pdus(f, PARTY_CONTROLLER, s);
        }
        write_life(f);
        fclose(f);
}

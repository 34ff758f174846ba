/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Asymmetric Namespace Access (Base 2.2 8.1.1): what a controller reports of the groups that its
 * namespaces are in, and what their states do to commands.
 *
 * The states belong to a listener (a subsystem behind a port), the groups to namespaces. Each
 * controller of a subsystem that reports them has a view of its own, which is brought up to date when
 * the inventory has changed, so that log page, change counts, events and statuses fit each other; and
 * whose group is once lost remains so, as 8.1.1.7 has it.
 */
#ifndef NVMF_TARGET_ANA_H
#define NVMF_TARGET_ANA_H

#include "pdu/nvme/wire/rules.h"
#include "subsystem.h"

struct admin;
struct ctrl;
struct ana_view;
struct window;

enum {
        ANA_TRANSITION_TIME = 10,    /* s: ANATT */
        ANA_CAPABILITIES_ALL = 0x1f, /* ANACAP: every state */
};

/* Under the inventory's lock, held to write: what a listener is to have in place of `was`, from `now` on. Groups that
 * get another state take so long as it says, those that are on their way go on. */
void ana_states_pass(struct ana_states *to, const struct ana_states *was, uint64_t now);
/* The same lock: groups whose time is over get their state. When the next one does; 0: none is to. */
uint64_t ana_states_settle(struct inventory *inv, uint64_t now);

/* Under the inventory's lock: of a new controller of `s` at `port` for a host, whose name outlives it.
 * NULL if out of memory. */
struct ana_view *ana_view_new(const struct subsystem *s, const struct port *port,
                              const char *hostnqn, const struct rule_policy *policy);
void ana_view_free(struct ana_view *v); /* or NULL */

/* What an update shows. */
struct ana_news {
        bool told;   /* the host is to be told: a state, or the group of a namespace that stays */
        bool state;  /* a state is among it */
        bool joined; /* namespaces have come, or gone */
};
/* Under the locks of inventory and controller: takes over what the inventory says now. */
struct ana_news ana_update(struct ana_view *v, const struct subsystem *s, const struct port *port,
                           uint16_t cntlid);
/* A Controller Level Reset: the change counts begin again. Under the controller's lock. */
void ana_reset(struct ana_view *v);

/* Without lock. The group of a namespace, 0 without a view; its state; the status of commands that need the
 * namespace's data (0: they run). v may be NULL. */
uint32_t ana_group(const struct ana_view *v, const struct ns *ns);
uint8_t ana_state(const struct ana_view *v, const struct ns *ns);
uint16_t ana_status(const struct ana_view *v, const struct ns *ns);
/* Whether the capacity of a namespace is not known here (Identify Namespace). */
bool ana_hides_capacity(const struct ana_view *v, const struct ns *ns);

/* Set or Get Features of a namespace, or of all of them, before it is executed: 0, or what it ends
 * with (figure 589, NVM Command Set 1.2 figure 133). */
uint16_t ana_features(const struct admin *a);

/* NANAGRPID: hosts read the whole log with one command, or do without ANA where it could be longer than MDTS allows. As
 * many as that has room for beside MNAN namespaces, or ANA_GROUPS where more are in use. On a reactor. */
uint32_t ana_groups_most(const struct ctrl *c);

/* Log page 0Ch, under the inventory's lock: its bytes at most; the part in the window. */
uint64_t ana_log_size(const struct admin *a);
void ana_log(struct admin *a, const struct window *w);
/* Where entry `index` begins, 0 the header; false: there is none. */
bool ana_log_offset(const struct admin *a, uint64_t index, uint64_t *offset);

#endif

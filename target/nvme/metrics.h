/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a target counts, and how monitoring systems read it (text format 0.0.4 of Prometheus). Each reactor
 * has counters of its own, which it alone writes and anybody reads: nothing waits for anybody, and they are
 * summed when they are asked for.
 */
#ifndef NVMF_TARGET_METRICS_H
#define NVMF_TARGET_METRICS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pdu/nvme/wire/rules.h"
#include "target/engine/metric.h"
#include "target/nvme/subsystem.h"

struct request;

enum metric_kind { METRIC_ADMIN, METRIC_IO, METRIC_FABRICS, METRIC_KINDS };
enum { METRIC_STATUSES = 6, METRIC_BOUNDS = 21, METRIC_GROUPS = 6 };

struct metrics {
        metric commands[METRIC_KINDS][256][METRIC_STATUSES];   /* that were answered, by opcode */
        metric within[METRIC_GROUPS][METRIC_BOUNDS + 1];       /* by time; the last: longer */
        metric ns[METRIC_GROUPS];                              /* of all of those */
        metric read, written;                                  /* bytes */
        metric opened[METRIC_FABRICS], closed[METRIC_FABRICS]; /* queues */
        metric faults[RULES]; /* connections that were ended for that rule */
        metric stalled;       /* for a host that neither sends nor reads what it has to */
};

/* A command of queue qid is answered; ns since it came, 0: that was not measured. */
void metrics_command(struct metrics *m, uint16_t qid, const struct request *r, uint64_t ns);

/* What all reactors have together, and what there is at the moment. */
struct metrics_sum {
        struct metrics of;
        bool timed; /* durations were measured */
        uint64_t connections, accepted, refused_address, refused_target;
        uint64_t io_controllers, discovery_controllers, refused_controllers, expired;
        double started; /* seconds since 1970 */
        unsigned reactors;
        const char *state; /* of the target; NULL: not told */
        uint64_t subsystems[SUBSYSTEM_STATES];
};
/* Adds those of one more reactor, which may go on counting. */
void metrics_sum_add(struct metrics_sum *sum, const struct metrics *m);
/* The page, to be freed; NULL: out of memory. */
char *metrics_text(const struct metrics_sum *sum, size_t *len);

#endif

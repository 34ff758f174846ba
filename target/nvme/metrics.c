/* SPDX-License-Identifier: BSD-3-Clause */
#include "metrics.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pdu/nvme/machine/request.h"

/* --- counting --------------------------------------------------------------------------------- */

enum group { READS, WRITES, FLUSHES, OTHERS, ADMIN, FABRICS };

static const char *const groups[METRIC_GROUPS] = { "Read",  "Write", "Flush",
                                                   "other", "admin", "fabrics" };
static const char *const kinds[METRIC_KINDS] = { "admin", "io", "fabrics" };
/* By SCT, success apart. */
static const char *const statuses[METRIC_STATUSES] = { "success", "generic", "command_specific",
                                                       "media",   "path",    "other" };

/* ns: upper bounds, in steps of 1, 2.5 and 5. */
static const uint64_t bounds[METRIC_BOUNDS] = {
        1000,     2500,      5000,      10000,     25000,      50000,      100000,
        250000,   500000,    1000000,   2500000,   5000000,    10000000,   25000000,
        50000000, 100000000, 250000000, 500000000, 1000000000, 2500000000, 10000000000,
};

static enum metric_kind kind_of(uint16_t qid, const struct request *r)
{
        if (r->sqe.opc == NVME_FABRICS)
                return METRIC_FABRICS;
        return qid == 0 ? METRIC_ADMIN : METRIC_IO;
}

static unsigned status_of(const struct request *r)
{
        uint16_t status = cqe_status(&r->cqe);
        unsigned sct = status >> 8 & 7;

        if (!status)
                return 0;
        return sct < METRIC_STATUSES - 2 ? sct + 1 : METRIC_STATUSES - 1;
}

static enum group group_of(enum metric_kind kind, uint8_t opc)
{
        if (kind != METRIC_IO)
                return kind == METRIC_ADMIN ? ADMIN : FABRICS;
        return opc == NVME_READ    ? READS
               : opc == NVME_WRITE ? WRITES
               : opc == NVME_FLUSH ? FLUSHES
                                   : OTHERS;
}

static unsigned bound_of(uint64_t ns)
{
        unsigned i = 0;

        while (i < METRIC_BOUNDS && ns > bounds[i])
                i++;
        return i;
}

void metrics_command(struct metrics *m, uint16_t qid, const struct request *r, uint64_t ns)
{
        enum metric_kind kind = kind_of(qid, r);
        uint8_t opc = kind == METRIC_FABRICS ? r->sqe.fctype : r->sqe.opc;
        enum group group = group_of(kind, opc);

        metric_add(&m->commands[kind][opc][status_of(r)], 1);
        if (ns == 0 || (kind == METRIC_ADMIN && opc == NVME_AER)) /* which waits for its event */
                return;
        metric_add(&m->within[group][bound_of(ns)], 1);
        metric_add(&m->ns[group], ns);
}

void metrics_sum_add(struct metrics_sum *sum, const struct metrics *m)
{
        const metric *from = (const metric *)m;
        metric *to = (metric *)&sum->of;

        for (size_t i = 0; i < sizeof(*m) / sizeof(*to); i++)
                metric_add(&to[i], atomic_load_explicit(&from[i], memory_order_relaxed));
        sum->reactors++;
}
_Static_assert(sizeof(struct metrics) % sizeof(metric) == 0, "counters and nothing else");

/* --- the page --------------------------------------------------------------------------------- */

static uint64_t get(const metric *n)
{
        return atomic_load_explicit(n, memory_order_relaxed);
}

static void head(FILE *f, const char *name, const char *type, const char *says)
{
        fprintf(f, "# HELP nvmfspec_%s %s\n# TYPE nvmfspec_%s %s\n", name, says, name, type);
}

static void one(FILE *f, const char *name, const char *type, const char *says, uint64_t n)
{
        head(f, name, type, says);
        fprintf(f, "nvmfspec_%s %" PRIu64 "\n", name, n);
}

/* Two samples that differ in one label. */
static void two(FILE *f, const char *name, const char *label, const char *first, uint64_t n,
                const char *second, uint64_t m)
{
        fprintf(f, "nvmfspec_%s{%s=\"%s\"} %" PRIu64 "\n", name, label, first, n);
        fprintf(f, "nvmfspec_%s{%s=\"%s\"} %" PRIu64 "\n", name, label, second, m);
}

static void put_connections(FILE *f, const struct metrics_sum *s)
{
        one(f, "connections", "gauge", "Connections that are open.", s->connections);
        one(f, "connections_accepted_total", "counter", "Connections that were accepted.",
            s->accepted);
        head(f, "connections_refused_total", "counter",
             "Connections that were refused for a limit: of one address or of the target.");
        two(f, "connections_refused_total", "limit", "address", s->refused_address, "target",
            s->refused_target);
        one(f, "connections_stalled_total", "counter",
            "Connections that were ended because the host neither sent nor read for too long.",
            get(&s->of.stalled));
        head(f, "controllers", "gauge", "Controllers with an association.");
        two(f, "controllers", "type", "io", s->io_controllers, "discovery",
            s->discovery_controllers);
        one(f, "controllers_refused_total", "counter",
            "Connect commands that were refused for a limit of controllers.",
            s->refused_controllers);
        one(f, "keep_alive_expired_total", "counter",
            "Associations that ended because the Keep Alive timer expired.", s->expired);
}

static uint64_t open_now(const struct metrics *m, enum metric_kind kind)
{
        uint64_t closed = get(&m->closed[kind]), opened = get(&m->opened[kind]);

        return opened > closed ? opened - closed : 0;
}

static void put_queues(FILE *f, const struct metrics *m)
{
        head(f, "queues", "gauge", "Queues that are connected.");
        two(f, "queues", "type", "admin", open_now(m, METRIC_ADMIN), "io", open_now(m, METRIC_IO));
        head(f, "queues_opened_total", "counter", "Connect commands that succeeded.");
        two(f, "queues_opened_total", "type", "admin", get(&m->opened[METRIC_ADMIN]), "io",
            get(&m->opened[METRIC_IO]));
}

static const char *name_of(enum metric_kind kind, unsigned opc)
{
        union sqe sqe = { .opc = (uint8_t)opc };

        if (kind == METRIC_FABRICS)
                sqe = (union sqe) { .opc = NVME_FABRICS };
        if (kind == METRIC_FABRICS)
                sqe.fctype = (uint8_t)opc;
        return sqe_name(&sqe, kind != METRIC_IO);
}

static bool is_unknown(const char *name)
{
        return strncmp(name, "Unknown", 7) == 0;
}

static void put_command(FILE *f, enum metric_kind kind, const char *name, unsigned status,
                        uint64_t n)
{
        if (n > 0)
                fprintf(f,
                        "nvmfspec_commands_total{queue=\"%s\",command=\"%s\",status=\"%s\"} "
                        "%" PRIu64 "\n",
                        kinds[kind], name, statuses[status], n);
}

/* Opcodes without a name are one. */
static void put_commands(FILE *f, const struct metrics *m, enum metric_kind kind)
{
        uint64_t unknown[METRIC_STATUSES] = { 0 };

        for (unsigned opc = 0; opc < 256; opc++) {
                const char *name = name_of(kind, opc);

                for (unsigned i = 0; i < METRIC_STATUSES; i++)
                        if (is_unknown(name))
                                unknown[i] += get(&m->commands[kind][opc][i]);
                        else
                                put_command(f, kind, name, i, get(&m->commands[kind][opc][i]));
        }
        for (unsigned i = 0; i < METRIC_STATUSES; i++)
                put_command(f, kind, "unknown", i, unknown[i]);
}

static void put_histogram(FILE *f, const struct metrics *m, unsigned group)
{
        static const char name[] = "nvmfspec_command_duration_seconds";
        uint64_t count = 0;

        for (unsigned i = 0; i < METRIC_BOUNDS; i++) {
                count += get(&m->within[group][i]);
                fprintf(f, "%s_bucket{command=\"%s\",le=\"%g\"} %" PRIu64 "\n", name, groups[group],
                        (double)bounds[i] / 1e9, count);
        }
        count += get(&m->within[group][METRIC_BOUNDS]);
        fprintf(f, "%s_bucket{command=\"%s\",le=\"+Inf\"} %" PRIu64 "\n", name, groups[group],
                count);
        fprintf(f, "%s_sum{command=\"%s\"} %.9f\n", name, groups[group],
                (double)get(&m->ns[group]) / 1e9);
        fprintf(f, "%s_count{command=\"%s\"} %" PRIu64 "\n", name, groups[group], count);
}

static void put_faults(FILE *f, const struct metrics *m)
{
        head(f, "protocol_errors_total", "counter",
             "Connections that were ended because the host broke a rule of the transport.");
        rule_each (id)
                if (get(&m->faults[id]) > 0)
                        fprintf(f, "nvmfspec_protocol_errors_total{rule=\"%s\"} %" PRIu64 "\n",
                                rule_get(id)->id, get(&m->faults[id]));
}

static void put_states(FILE *f, const struct metrics_sum *s)
{
        head(f, "target_state", "gauge", "1 for the state that the target is in.");
        if (s->state)
                fprintf(f, "nvmfspec_target_state{state=\"%s\"} 1\n", s->state);
        head(f, "subsystems", "gauge", "Subsystems in each state.");
        for (unsigned i = 0; i < SUBSYSTEM_STATES; i++)
                fprintf(f, "nvmfspec_subsystems{state=\"%s\"} %" PRIu64 "\n",
                        subsystem_state_name((enum subsystem_state)i), s->subsystems[i]);
}

static void put_all(FILE *f, const struct metrics_sum *s)
{
        const struct metrics *m = &s->of;

        head(f, "start_time_seconds", "gauge", "When the target was started, since 1970.");
        fprintf(f, "nvmfspec_start_time_seconds %.3f\n", s->started);
        one(f, "reactors", "gauge", "Threads that serve hosts.", s->reactors);
        put_states(f, s);
        put_connections(f, s);
        put_queues(f, m);
        head(f, "commands_total", "counter",
             "Commands that were answered, by kind of queue, command and type of status.");
        for (unsigned kind = 0; kind < METRIC_KINDS; kind++)
                put_commands(f, m, (enum metric_kind)kind);
        head(f, "bytes_total", "counter", "Bytes of Read and Write commands that succeeded.");
        two(f, "bytes_total", "direction", "read", get(&m->read), "written", get(&m->written));
        if (s->timed)
                head(f, "command_duration_seconds", "histogram",
                     "Time from a command's arrival to its answer.");
        for (unsigned group = 0; s->timed && group < METRIC_GROUPS; group++)
                put_histogram(f, m, group);
        put_faults(f, m);
}

char *metrics_text(const struct metrics_sum *sum, size_t *len)
{
        char *text = NULL;
        FILE *f = open_memstream(&text, len);

        if (!f)
                return NULL;
        put_all(f, sum);
        if (fclose(f) == 0)
                return text;
        free(text);
        return NULL;
}

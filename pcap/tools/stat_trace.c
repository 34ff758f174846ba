/* SPDX-License-Identifier: BSD-3-Clause */
#include "stat_trace.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "pdu/io/json.h"
#include "trace_line.h"

enum {
        SLOWEST = 10,
        STATES_MAX = 64, /* names of states that are told apart, of I/O and of admin queues */
        GROUPS_MAX =
            256, /* ... of commands; a file may have any, and a group has five histograms */
};

struct state {
        char name[TRACE_LINE_WORD];
        bool io;
        struct histogram time; /* ns that commands were in it */
};

struct slow {
        uint64_t number, ns; /* of the line, from 1 */
        struct trace_line line;
};

/* What the timeline has of a command. */
struct spell {
        int64_t from, to;
        uint32_t bytes;
        bool h2c, error;
};

struct stat_trace {
        const struct trace_family *family; /* whose commands they are */
        uint64_t lines, left_out, unended, part, more_states;
        struct state *state[STATES_MAX];
        unsigned states, groups, slowest;
        struct slow slow[SLOWEST]; /* the slowest first */
        struct spell *spell;
        size_t spells, room;
        uint32_t *conn; /* numbers of those seen beside the first ones, some of them often */
        size_t conns, conn_room;
};

/* One more element's room; false: out of memory. */
static bool make_room(void **array, size_t n, size_t *room, size_t each)
{
        size_t more = *room ? 2 * *room : 256;
        void *p;

        if (n < *room)
                return true;
        p = realloc(*array, more * each);
        if (!p)
                return false;
        *array = p;
        *room = more;
        return true;
}

/* --- commands --------------------------------------------------------------------------------- */

static uint64_t took(const struct trace_line *l)
{
        return l->state[l->states - 1].at;
}

static bool is_error(const struct trace_line *l)
{
        return l->answered && l->status != 0;
}

/* Where the group is, or belongs. */
static struct stat_group **place_of(struct stats *s, const char *name, bool io)
{
        struct stat_group **at = &s->groups;

        while (*at && (*at)->io <= io && ((*at)->io != io || strcmp((*at)->name, name) != 0))
                at = &(*at)->next;
        return at;
}

static bool is_group(const struct stat_group *g, const char *name, bool io)
{
        return g && g->io == io && strcmp(g->name, name) == 0;
}

static struct stat_group *group_of(struct stats *s, const struct trace_line *l)
{
        const char *name = l->opcode;
        bool io = l->qid > 0;
        struct stat_group **at = place_of(s, name, io), *made;

        if (!is_group(*at, name, io) && s->trace->groups >= GROUPS_MAX) {
                name = "others";
                at = place_of(s, name, io);
        }
        if (is_group(*at, name, io))
                return *at;
        made = calloc(1, sizeof(*made));
        if (!made) {
                s->no_memory = true;
                return NULL;
        }
        made->family = s->trace->family;
        snprintf(made->name, sizeof(made->name), "%s", name);
        made->queue = io ? "I/O queues" : "admin queues";
        made->io = io;
        made->next = *at;
        s->trace->groups++;
        return *at = made;
}

static void add_group(struct stats *s, const struct trace_line *l)
{
        struct stat_group *g = group_of(s, l);

        if (!g)
                return;
        g->count++;
        g->errors += is_error(l);
        *(l->h2c ? &g->h2c : &g->c2h) += l->bytes;
        histogram_add(&g->part[PART_WHOLE], took(l));
        if (g->io)
                histogram_add(&s->whole, took(l));
}

static void add_status(struct stats *s, const struct trace_line *l)
{
        char name[TALLY_NAME];

        snprintf(name, sizeof(name), "%X/%02Xh %.50s", l->status >> 8, l->status & 255,
                 l->status_text);
        s->no_memory |= !tally_add(&s->statuses, l->status, name);
}

static struct state *state_of(struct stats *s, const char *name, bool io)
{
        struct stat_trace *t = s->trace;
        struct state *new;

        for (unsigned i = 0; i < t->states; i++)
                if (t->state[i]->io == io && strcmp(t->state[i]->name, name) == 0)
                        return t->state[i];
        new = t->states < STATES_MAX ? calloc(1, sizeof(*new)) : NULL;
        if (!new) {
                s->no_memory |= t->states < STATES_MAX;
                t->more_states++;
                return NULL;
        }
        new->io = io;
        snprintf(new->name, sizeof(new->name), "%s", name);
        return t->state[t->states++] = new;
}

/* The last one takes no time: the command is over. */
static void add_states(struct stats *s, const struct trace_line *l)
{
        for (unsigned i = 0; i + 1 < l->states; i++) {
                struct state *state = state_of(s, l->state[i].name, l->qid > 0);

                if (state)
                        histogram_add(&state->time, l->state[i + 1].at - l->state[i].at);
        }
}

static void add_slow(struct stat_trace *t, const struct trace_line *l)
{
        unsigned at = t->slowest;

        while (at > 0 && t->slow[at - 1].ns < took(l))
                at--;
        if (at == SLOWEST)
                return;
        if (t->slowest < SLOWEST)
                t->slowest++;
        memmove(&t->slow[at + 1], &t->slow[at], (t->slowest - at - 1) * sizeof(t->slow[0]));
        t->slow[at] = (struct slow) { .number = t->lines, .ns = took(l), .line = *l };
}

static void add_spell(struct stats *s, const struct trace_line *l)
{
        struct stat_trace *t = s->trace;
        void *array = t->spell;

        if (!make_room(&array, t->spells, &t->room, sizeof(*t->spell))) {
                s->no_memory = true;
                return;
        }
        t->spell = array;
        t->spell[t->spells++] = (struct spell) { .from = l->time_ns,
                                                 .to = l->time_ns + (int64_t)took(l),
                                                 .bytes = (uint32_t)l->bytes,
                                                 .h2c = l->h2c,
                                                 .error = is_error(l) };
}

static bool is_aer(const struct trace_line *l)
{
        return l->qid == 0 && strcmp(l->opcode, "Asynchronous Event Request") == 0;
}

/* --- connections ------------------------------------------------------------------------------ */

static int by_number(const void *a, const void *b)
{
        const uint32_t *x = a, *y = b;

        return (*x > *y) - (*x < *y);
}

/* Each once. */
static void sort_conns(struct stat_trace *t)
{
        size_t n = 0;

        if (t->conns > 0)
                qsort(t->conn, t->conns, sizeof(*t->conn), by_number);
        for (size_t i = 0; i < t->conns; i++)
                if (n == 0 || t->conn[i] != t->conn[n - 1])
                        t->conn[n++] = t->conn[i];
        t->conns = n;
}

static struct stat_conn *find_conn(struct stats *s, uint64_t number)
{
        for (unsigned i = 0; i < s->conns; i++)
                if (s->conn[i].number == number)
                        return &s->conn[i];
        return NULL;
}

/* For at least as many as there are by then; false: out of memory. */
static bool make_conn_room(struct stat_trace *t)
{
        void *array = t->conn;
        bool made;

        sort_conns(t);
        if (2 * t->conns < t->conn_room)
                return true;
        made = make_room(&array, t->conn_room, &t->conn_room, sizeof(*t->conn));
        t->conn = array;
        return made;
}

/* One that has no row; NULL: nor is there one for it. */
static struct stat_conn *meet_conn(struct stats *s, uint32_t number)
{
        struct stat_trace *t = s->trace;

        if (s->conns < STAT_CONNS) {
                s->conn[s->conns] = (struct stat_conn) { .number = number, .family = t->family };
                return &s->conn[s->conns++];
        }
        if (t->conns == t->conn_room && !make_conn_room(t)) {
                s->no_memory = true;
                return NULL;
        }
        t->conn[t->conns++] = number;
        return NULL;
}

static void add_conn(struct stats *s, const struct trace_line *l)
{
        struct stat_conn *c = find_conn(s, l->conn);

        if (!c && (c = meet_conn(s, (uint32_t)l->conn)) == NULL)
                return;
        c->qid = (int)l->qid; /* of Connect's line, and all after it */
        snprintf(c->name, sizeof(c->name), "%s %.70s > %.70s", l->transport,
                 *l->hostnqn ? l->hostnqn : "?", *l->subnqn ? l->subnqn : "?");
        if (is_aer(l) || !l->answered)
                return;
        c->count++;
        c->errors += is_error(l);
        *(l->h2c ? &c->h2c : &c->c2h) += l->bytes;
        c->latency_sum += took(l);
        if (took(l) > c->latency_max)
                c->latency_max = took(l);
}

/* --- lines ------------------------------------------------------------------------------------ */

static bool is_selected(const struct args *a, const struct trace_line *l)
{
        return (a->conn == 0 || a->conn == l->conn) &&
               (a->qid == ARG_ANY || (uint64_t)a->qid == l->qid);
}

static void add_command(struct stats *s, const struct trace_line *l)
{
        s->commands++;
        s->aers += is_aer(l);
        add_conn(s, l);
        if (!l->answered)
                s->unanswered++;
        if (!l->answered || is_aer(l))
                return;
        s->completed++;
        s->errors += is_error(l);
        if (is_error(l))
                add_status(s, l);
        add_group(s, l);
        add_states(s, l);
        add_slow(s->trace, l);
        add_spell(s, l);
}

static void add_line(struct pcap_call *call, struct stats *s, const struct trace_line *l)
{
        if (l->kind == TRACE_LINE_HEAD) {
                s->trace->part = l->part;
        } else if (l->kind == TRACE_LINE_LEFT_OUT) {
                s->trace->left_out += l->left_out;
        } else if (is_selected(call->args, l)) {
                call->selected = true;
                s->trace->unended += !l->ended;
                add_command(s, l);
        }
}

static void read_lines(struct pcap_call *call, struct stats *s, FILE *f)
{
        char text[TRACE_LINE_MAX], why[120] = "";
        struct trace_line l;
        int rc = 0;

        while (!s->no_memory && (rc = trace_line_next(f, text, why, sizeof(why))) > 0) {
                s->trace->lines++;
                if (!trace_line_read(&l, text, why, sizeof(why)))
                        break;
                if (l.kind == TRACE_LINE_HEAD && s->trace->lines > 1) {
                        snprintf(why, sizeof(why), "another file begins here");
                        break;
                }
                add_line(call, s, &l);
        }
        if (*why)
                snprintf(call->err, sizeof(call->err), "%.150s: line %" PRIu64 ": %s", call->file,
                         s->trace->lines + (rc < 0), why);
}

/* --- the timeline ----------------------------------------------------------------------------- */

static int by_time(const void *a, const void *b)
{
        const int64_t *x = a, *y = b;

        return (*x > *y) - (*x < *y);
}

static struct stat_bin *bin_at(struct stats *s, int64_t time_ns)
{
        return &s->bin[(time_ns - s->start_ns) / s->interval_ns];
}

static void set_span(struct stats *s)
{
        const struct stat_trace *t = s->trace;

        s->started = true;
        s->start_ns = s->last_ns = t->spell[0].from;
        for (size_t i = 0; i < t->spells; i++) {
                if (t->spell[i].from < s->start_ns)
                        s->start_ns = t->spell[i].from;
                if (t->spell[i].to > s->last_ns)
                        s->last_ns = t->spell[i].to;
        }
        while ((s->last_ns - s->start_ns) / s->interval_ns >= STAT_BINS)
                s->interval_ns *= 2;
        s->bins = (unsigned)((s->last_ns - s->start_ns) / s->interval_ns) + 1;
}

static void fill_bins(struct stats *s)
{
        for (const struct spell *p = s->trace->spell; p < s->trace->spell + s->trace->spells; p++) {
                struct stat_bin *b = bin_at(s, p->to);
                uint64_t ns = (uint64_t)(p->to - p->from);

                b->done++;
                b->errors += p->error;
                *(p->h2c ? &b->h2c : &b->c2h) += p->bytes;
                b->latency_sum += ns;
                if (ns > b->latency_max)
                        b->latency_max = ns;
        }
}

/* That many were outstanding until then. */
static void add_depth(struct stats *s, int64_t from, int64_t to, unsigned depth)
{
        while (from < to) {
                struct stat_bin *b = bin_at(s, from);
                int64_t end = s->start_ns + (b - s->bin + 1) * s->interval_ns;

                if (end > to)
                        end = to;
                b->depth_area += (double)depth * (double)(end - from);
                if (depth > b->depth_max)
                        b->depth_max = depth;
                from = end;
        }
}

/* Beginnings and ends, each in order. */
static void fill_depth(struct stats *s, const int64_t *from, const int64_t *to, size_t n)
{
        int64_t at = s->start_ns;
        size_t begun = 0, over = 0;

        while (over < n) {
                bool begins = begun < n && from[begun] <= to[over];
                int64_t now = begins ? from[begun] : to[over];

                add_depth(s, at, now, (unsigned)(begun - over));
                at = now;
                *(begins ? &begun : &over) += 1;
                if (begun - over > s->depth_max)
                        s->depth_max = (unsigned)(begun - over);
        }
}

static void make_timeline(struct stats *s)
{
        size_t n = s->trace->spells;
        int64_t *times = n > 0 ? malloc(2 * n * sizeof(*times)) : NULL;

        s->no_memory |= n > 0 && !times;
        if (!times)
                return;
        set_span(s);
        fill_bins(s);
        for (size_t i = 0; i < n; i++) {
                times[i] = s->trace->spell[i].from;
                times[n + i] = s->trace->spell[i].to;
        }
        qsort(times, n, sizeof(*times), by_time);
        qsort(times + n, n, sizeof(*times), by_time);
        fill_depth(s, times, times + n, n);
        free(times);
}

/* --- the file --------------------------------------------------------------------------------- */

/* Of a pipe nothing may be read before it is known. */
static FILE *open_trace(const char *path)
{
        char text[TRACE_LINE_MAX];
        FILE *f = strcmp(path, "-") == 0 ? NULL : fopen(path, "re");

        if (f && fgets(text, sizeof(text), f) && trace_line_begins(text)) {
                rewind(f);
                return f;
        }
        if (f)
                fclose(f);
        return NULL;
}

bool stat_trace_read(struct pcap_call *call, struct stats *s, struct trace_totals *totals)
{
        FILE *f = open_trace(call->file);

        if (!f)
                return false;
        *totals = (struct trace_totals) { 0 };
        call->selected = call->args->conn == 0 && call->args->qid == ARG_ANY;
        s->trace = calloc(1, sizeof(*s->trace));
        s->no_memory |= !s->trace;
        if (s->trace) {
                s->trace->family = call->args->families[0];
                read_lines(call, s, f);
                make_timeline(s);
                totals->frames = s->trace->lines;
                sort_conns(s->trace);
                s->more_conns = s->trace->conns;
                totals->conns = s->conns + s->more_conns;
        }
        fclose(f);
        return true;
}

void stat_trace_free(struct stats *s)
{
        struct stat_trace *t = s->trace;

        if (!t)
                return;
        while (t->states > 0)
                free(t->state[--t->states]);
        free(t->spell);
        free(t->conn);
        free(t);
        s->trace = NULL;
}

/* --- text ------------------------------------------------------------------------------------- */

static double us(uint64_t ns)
{
        return (double)ns / 1000;
}

static void print_states(const struct stat_trace *t, bool io)
{
        uint64_t sum = 0;
        bool any = false;

        for (unsigned i = 0; i < t->states; i++)
                sum += t->state[i]->io == io ? t->state[i]->time.sum : 0;
        for (unsigned i = 0; i < t->states; i++) {
                const struct histogram *h = &t->state[i]->time;

                if (t->state[i]->io != io)
                        continue;
                if (!any)
                        printf("\n%-34s %8s %6s %9s %9s %9s %9s\n",
                               io ? "I/O queues: us in each state"
                                  : "admin queues: us in each state",
                               "count", "%", "mean", "p50", "p99", "max");
                any = true;
                printf("%-34s %8" PRIu64 " %6.1f %9.1f %9.1f %9.1f %9.1f\n", t->state[i]->name,
                       h->count, sum ? 100 * (double)h->sum / (double)sum : 0,
                       histogram_mean(h) / 1000, us(histogram_percentile(h, 50)),
                       us(histogram_percentile(h, 99)), us(h->max));
        }
}

/* The state in which it was for the longest time; its ns. */
static const char *longest_state(const struct trace_line *l, uint64_t *ns)
{
        const char *name = l->state[0].name;

        *ns = 0;
        for (unsigned i = 0; i + 1 < l->states; i++)
                if (l->state[i + 1].at - l->state[i].at > *ns) {
                        *ns = l->state[i + 1].at - l->state[i].at;
                        name = l->state[i].name;
                }
        return name;
}

static void print_slow(const struct slow *s)
{
        const struct trace_line *l = &s->line;
        char blocks[48] = "", status[TRACE_LINE_WORD + 16];
        uint64_t ns;
        const char *state = longest_state(l, &ns);

        if (l->has_blocks)
                snprintf(blocks, sizeof(blocks), "%" PRIu64 "+%" PRIu64, l->slba, l->nlb);
        snprintf(status, sizeof(status), "%X/%02Xh %s", l->status >> 8, l->status & 255,
                 l->status_text);
        printf("%9.1f %8" PRIu64 " %5" PRIu64 " %5" PRIu64 " %5" PRIu64 " %-20s %4" PRIu64
               " %-20s %-34s %s %.1f\n",
               us(s->ns), s->number, l->conn, l->qid, l->cid, l->opcode, l->nsid, blocks, status,
               state, us(ns));
}

void stat_trace_print(const struct stats *s)
{
        const struct stat_trace *t = s->trace;

        if (!t)
                return;
        print_states(t, false);
        print_states(t, true);
        if (t->slowest > 0)
                printf("\nslowest\n%9s %8s %5s %5s %5s %-20s %4s %-20s %-34s %s\n", "us", "line",
                       "conn", "queue", "cid", "command", "nsid", "blocks", "status",
                       "longest state");
        for (unsigned i = 0; i < t->slowest; i++)
                print_slow(&t->slow[i]);
        putchar('\n');
        if (t->part > 0)
                printf("part %" PRIu64 " of a ring: what was before is in other files, or lost\n",
                       t->part);
        printf("%" PRIu64 " commands left out, %" PRIu64
               " cut off by the end of their connection\n",
               t->left_out, t->unended);
}

/* --- JSON ------------------------------------------------------------------------------------- */

static struct json_object *state_object(const struct state *state)
{
        struct json_object *o = json_object_new_object();

        put_string(o, "state", state->name);
        put_bool(o, "io", state->io);
        put_number(o, "count", state->time.count);
        put_number(o, "sum_ns", state->time.sum);
        put_number(o, "p50_ns", histogram_percentile(&state->time, 50));
        put_number(o, "p99_ns", histogram_percentile(&state->time, 99));
        put_number(o, "max_ns", state->time.max);
        return o;
}

static struct json_object *slow_object(const struct slow *s)
{
        struct json_object *o = json_object_new_object();
        const struct trace_line *l = &s->line;
        uint64_t ns;

        put_number(o, "ns", s->ns);
        put_number(o, "line", s->number);
        put_number(o, "conn", l->conn);
        put_number(o, "qid", l->qid);
        put_number(o, "cid", l->cid);
        put_string(o, "command", l->opcode);
        if (l->has_nsid)
                put_number(o, "nsid", l->nsid);
        if (l->has_blocks) {
                put_number(o, "slba", l->slba);
                put_number(o, "nlb", l->nlb);
        }
        put_number(o, "status", l->status);
        put_string(o, "status_text", l->status_text);
        put_string(o, "longest_state", longest_state(l, &ns));
        put_number(o, "longest_state_ns", ns);
        return o;
}

static void put_statuses(struct json_object *o, const struct stats *s)
{
        struct json_object *a = put_array(o, "statuses");

        for (const struct tally *e = s->statuses; e; e = e->next) {
                struct json_object *one = json_object_new_object();

                put_number(one, "status", e->key);
                put_number(one, "count", e->count);
                json_object_array_add(a, one);
        }
}

void stat_trace_put(const struct stats *s, struct json_object *o)
{
        const struct stat_trace *t = s->trace;
        struct json_object *a;

        if (!t)
                return;
        put_number(o, "lines", t->lines);
        put_number(o, "part", t->part);
        put_number(o, "left_out", t->left_out);
        put_number(o, "unended", t->unended);
        a = put_array(o, "states");
        for (unsigned i = 0; i < t->states; i++)
                json_object_array_add(a, state_object(t->state[i]));
        a = put_array(o, "slowest");
        for (unsigned i = 0; i < t->slowest; i++)
                json_object_array_add(a, slow_object(&t->slow[i]));
        put_statuses(o, s);
}

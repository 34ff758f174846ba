/* SPDX-License-Identifier: BSD-3-Clause */
#include "trigger.h"

#include <ctype.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pdu/core/rng.h"
#include "pdu/io/option.h"

enum { ADMIN, IO, FABRICS, OPCODES = 256 }; /* kinds of commands */

struct triggers {
        pthread_mutex_t lock; /* counters; the rest changes only while nobody looks */
        unsigned last;        /* id that was given */
        unsigned order[FAULTS_MAX], n;
        struct trigger at[FAULTS_MAX];
};

/* --- values ----------------------------------------------------------------------------------- */

/* A value into the fault; false: it is not one. */
typedef bool take_fn(struct trigger *f, const char *value);

static bool take_number(const char *value, uint64_t least, uint64_t *n)
{
        return option_number(value, n) == 0 && *n >= least;
}

/* "81h", "0x81", "129". */
static bool take_byte(const char *value, uint64_t most, uint64_t *n)
{
        size_t len = strlen(value);
        char hex[8];

        if (len < 2 || len > 4 || value[len - 1] != 'h')
                return option_number(value, n) == 0 && *n <= most;
        snprintf(hex, sizeof(hex), "0x%.*s", (int)len - 1, value);
        return option_number(hex, n) == 0 && *n <= most;
}

static bool take_status(struct trigger *f, const char *value)
{
        char part[3][8] = { "", "", "" };
        uint64_t sct, sc;
        int end = 0, n = sscanf(value, "%7[^/]%n/%7[^/]%n/%7[^/]%n", part[0], &end, part[1], &end,
                                part[2], &end);

        if (n < 2 || value[end] || (n == 3 && strcmp(part[2], "dnr") != 0) ||
            !take_byte(part[0], 7, &sct) || !take_byte(part[1], 0xff, &sc) || sct + sc == 0)
                return false;
        f->status = (uint16_t)(sct << 8 | sc | (n == 3 ? (unsigned)STATUS_DNR : 0u));
        return true;
}

/* Rules whose breach is one message of the target's. What is broken over time --violate breaks. */
static bool take_rule(struct trigger *f, const char *value)
{
        const unsigned single = V_PDU | V_CQE | V_RDMA_CQE | V_RESPONSE | V_TRANSFER;
        enum rule_id rule = rule_by_name(value);
        const struct rule *r = rule_get(rule);

        if (!r || r->bound != PARTY_CONTROLLER || !(r->violators & single))
                return false;
        f->rule = rule;
        rule_add(&f->rules, rule);
        return true;
}

/* "50ms", "2s", "0.5s". */
static bool take_time(const char *value, uint64_t most, uint64_t *ms)
{
        char number[24];
        size_t len = strlen(value);

        if (len < 2 || len >= sizeof(number) || value[len - 1] != 's')
                return false;
        if (value[len - 2] == 'm') {
                snprintf(number, sizeof(number), "%.*s", (int)len - 2, value);
                return option_number(number, ms) == 0 && *ms > 0 && *ms <= most;
        }
        snprintf(number, sizeof(number), "%.*s", (int)len - 1, value);
        return option_seconds(number, ms) == 0 && *ms > 0 && *ms <= most;
}

static bool take_delay(struct trigger *f, const char *value)
{
        return take_time(value, FAULT_MS_MAX, &f->value);
}

static bool take_nothing(struct trigger *f, const char *value)
{
        (void)f;
        return !*value;
}

static bool take_place(struct trigger *f, const char *value)
{
        f->half = strcmp(value, "half") == 0;
        return f->half || !*value || (option_size(value, &f->value) == 0 && f->value <= UINT32_MAX);
}

static bool take_offset(struct trigger *f, const char *value)
{
        return !*value || (option_size(value, &f->value) == 0 && f->value <= UINT32_MAX);
}

static const char *const points[FAULT_POINTS] = {
        [FAULT_COMMAND] = "command", [FAULT_R2T] = "r2t",   [FAULT_H2CDATA] = "h2cdata",
        [FAULT_C2HDATA] = "c2hdata", [FAULT_RESP] = "resp",
};

static bool take_point(struct trigger *f, const char *value)
{
        for (unsigned p = 0; p < FAULT_POINTS; p++)
                if (strcmp(value, points[p]) == 0) {
                        f->point = (enum fault_point)p;
                        return true;
                }
        return false;
}

/* "Get Log Page" is "get-log-page". */
static bool is_named(unsigned kind, unsigned opcode, const char *word)
{
        union sqe sqe = { .opc = kind == FABRICS ? NVME_FABRICS : (uint8_t)opcode };
        const char *name;

        if (kind == FABRICS)
                sqe.fctype = (uint8_t)opcode;
        else if (opcode == NVME_FABRICS)
                return false;
        name = sqe_name(&sqe, kind == ADMIN);
        if (strncmp(name, "Unknown", 7) == 0)
                return false;
        for (; *name && *word; name++, word++)
                if (*word != (*name == ' ' ? '-' : tolower((unsigned char)*name)))
                        return false;
        return *name == *word;
}

static void add_command(struct trigger *f, unsigned which)
{
        f->commands[which / 64] |= UINT64_C(1) << (which % 64);
}

/* "io:02h": what has no name of ours. */
static bool take_opcode(struct trigger *f, const char *word)
{
        static const char *const kinds[] = { "admin:", "io:", "fabrics:" };
        uint64_t n;

        for (unsigned kind = ADMIN; kind <= FABRICS; kind++)
                if (strncmp(word, kinds[kind], strlen(kinds[kind])) == 0 &&
                    take_byte(word + strlen(kinds[kind]), 0xff, &n)) {
                        add_command(f, kind * OPCODES + (unsigned)n);
                        return true;
                }
        return false;
}

static bool take_command(struct trigger *f, const char *word)
{
        for (unsigned i = 0; i < FAULT_COMMANDS; i++)
                if (is_named(i / OPCODES, i % OPCODES, word)) {
                        add_command(f, i);
                        return true;
                }
        return take_opcode(f, word);
}

static bool take_commands(struct trigger *f, const char *value)
{
        char list[FAULT_TEXT + 1], *rest = NULL;

        snprintf(list, sizeof(list), "%s", value);
        f->any_command = false;
        if (!*list || list[strlen(list) - 1] == ',')
                return false;
        for (char *word = strtok_r(list, ",", &rest); word; word = strtok_r(NULL, ",", &rest))
                if (!take_command(f, word))
                        return false;
        return true;
}

static bool take_nqn(char into[NQN_MAX + 1], const char *value)
{
        if (!*value || strlen(value) > NQN_MAX)
                return false;
        strcpy(into, value); /* it fits */
        return true;
}

static bool take_host(struct trigger *f, const char *value)
{
        return take_nqn(f->host, value);
}

static bool take_subsystem(struct trigger *f, const char *value)
{
        return take_nqn(f->nqn, value);
}

/* "3", "3-7". */
static bool take_range(const char *value, uint64_t most, struct trigger_range *r)
{
        char first[24];
        size_t len = strcspn(value, "-");

        if (len >= sizeof(first))
                return false;
        snprintf(first, sizeof(first), "%.*s", (int)len, value);
        r->given = true;
        if (option_number(first, &r->first) < 0)
                return false;
        r->last = r->first;
        if (value[len] && option_number(value + len + 1, &r->last) < 0)
                return false;
        return r->first <= r->last && r->last <= most;
}

static bool take_qid(struct trigger *f, const char *value)
{
        return take_range(value, UINT16_MAX, &f->qid);
}

static bool take_nsid(struct trigger *f, const char *value)
{
        return take_range(value, UINT32_MAX, &f->nsid);
}

static bool take_lba(struct trigger *f, const char *value)
{
        return take_range(value, UINT64_MAX, &f->lba);
}

static bool take_after(struct trigger *f, const char *value)
{
        return option_size(value, &f->after) == 0 && f->after > 0;
}

static bool take_wait(struct trigger *f, const char *value)
{
        return take_time(value, UINT64_MAX, &f->wait);
}

static bool take_nth(struct trigger *f, const char *value)
{
        return take_number(value, 1, &f->nth);
}

static bool take_every(struct trigger *f, const char *value)
{
        return take_number(value, 1, &f->every);
}

static bool take_one_in(struct trigger *f, const char *value)
{
        return take_number(value, 1, &f->one_in) && f->one_in <= UINT32_MAX;
}

static bool take_times(struct trigger *f, const char *value)
{
        return take_number(value, 1, &f->times);
}

static bool take_seed(struct trigger *f, const char *value)
{
        return take_number(value, 0, &f->seed);
}

/* --- the tables ------------------------------------------------------------------------------- */

#define AT(point) (1u << FAULT_##point)
#define PLACES    "no value, a byte of the message, or half"

static const struct action {
        const char *name;
        take_fn *take;
        const char *expects;
        enum fault_point at; /* unless on= says something else ... */
        unsigned may;        /* ... of these */
        unsigned within;     /* and where it may say a place in the message */
} actions[FAULT_ACTIONS] = {
        /* clang-format off */
        [FAULT_STATUS] = { "status", take_status, "SCT/SC such as 2/81h, perhaps with /dnr", FAULT_COMMAND, AT(COMMAND), 0 },
        [FAULT_VIOLATE] = { "violate", take_rule, "a rule of controllers that one message can break", FAULT_RESP, 0, 0 },
        [FAULT_DELAY] = { "delay", take_delay, "a time such as 50ms or 2s, at most 600s", FAULT_RESP, AT(R2T) | AT(C2HDATA) | AT(RESP), 0 },
        [FAULT_DROP] = { "drop", take_nothing, "without a value", FAULT_RESP, AT(RESP), 0 },
        [FAULT_CLOSE] = { "close", take_place, PLACES, FAULT_COMMAND, AT(COMMAND) | AT(R2T) | AT(H2CDATA) | AT(C2HDATA) | AT(RESP), AT(R2T) | AT(C2HDATA) | AT(RESP) },
        [FAULT_RESET] = { "reset", take_place, PLACES, FAULT_COMMAND, AT(COMMAND) | AT(R2T) | AT(H2CDATA) | AT(C2HDATA) | AT(RESP), AT(R2T) | AT(C2HDATA) | AT(RESP) },
        [FAULT_CORRUPT] = { "corrupt", take_offset, "no value, or a byte of the data", FAULT_C2HDATA, AT(H2CDATA) | AT(C2HDATA), 0 },
        /* clang-format on */
};

enum condition_id { ON, NTH = 9, EVERY, ONE_IN }; /* places in the table */

static const struct condition {
        const char *name;
        take_fn *take;
        const char *expects;
} conditions[] = {
        { "on", take_point, "one of command, r2t, h2cdata, c2hdata, resp" },
        { "cmd", take_commands,
          "read, get-log-page, connect ... or io:02h, admin:C0h, with commas" },
        { "host", take_host, "a host's NQN" },
        { "nqn", take_subsystem, "a subsystem's NQN" },
        { "qid", take_qid, "a queue or a range, such as 1-4" },
        { "nsid", take_nsid, "a namespace or a range, such as 1-4" },
        { "lba", take_lba, "a block or a range, such as 0-1023" },
        { "after", take_after, "bytes of data, such as 64k or 1G" },
        { "wait", take_wait, "a time such as 50ms or 2s" },
        [NTH] = { "nth", take_nth, "a number from 1" },
        [EVERY] = { "every", take_every, "a number from 1" },
        [ONE_IN] = { "one-in", take_one_in, "a number from 1" },
        { "times", take_times, "a number from 1" },
        { "seed", take_seed, "a number" },
};

enum { CONDITIONS = sizeof(conditions) / sizeof(conditions[0]) };

const char *fault_action_name(enum fault_action a)
{
        return actions[a].name;
}

/* --- words ------------------------------------------------------------------------------------ */

struct parser {
        struct trigger *fault;
        unsigned at[CONDITIONS]; /* characters: where it stands; 0: it does not */
        unsigned begin;          /* of the word in hand */
        char *word;
        char *error;
        size_t size;
};

static bool __attribute__((format(printf, 3, 4)))
complain(const struct parser *p, unsigned at, const char *fmt, ...)
{
        int n = snprintf(p->error, p->size, "at character %u, ", at);
        va_list args;

        va_start(args, fmt);
        if (n > 0 && (size_t)n < p->size)
                vsnprintf(p->error + n, p->size - (size_t)n, fmt, args);
        va_end(args);
        return false;
}

/* Cuts "name=value" in two; a word without '=' has the value "". */
static const char *cut_value(char *word)
{
        char *equals = strchr(word, '=');

        if (!equals)
                return "";
        *equals = '\0';
        return equals + 1;
}

static bool take_action(struct parser *p)
{
        struct trigger *f = p->fault;
        const char *value = cut_value(p->word);

        for (unsigned i = 0; i < FAULT_ACTIONS; i++) {
                if (strcmp(p->word, actions[i].name) != 0)
                        continue;
                f->action = (enum fault_action)i;
                f->point = actions[i].at;
                return actions[i].take(f, value) || complain(p, p->begin, "'%.80s': %s is %s",
                                                             value, p->word, actions[i].expects);
        }
        return complain(p, p->begin,
                        "'%.80s': it begins with status=, violate=, delay=, drop, close, reset or "
                        "corrupt",
                        p->word);
}

static bool take_condition(struct parser *p)
{
        const char *value = cut_value(p->word);

        for (unsigned i = 0; i < CONDITIONS; i++) {
                if (strcmp(p->word, conditions[i].name) != 0)
                        continue;
                if (p->at[i])
                        return complain(p, p->begin, "'%s' is given twice", p->word);
                p->at[i] = p->begin;
                return conditions[i].take(p->fault, value) ||
                       complain(p, p->begin, "'%.80s': %s= is %s", value, p->word,
                                conditions[i].expects);
        }
        return complain(
            p, p->begin,
            "'%.80s' is not one of on, cmd, host, nqn, qid, nsid, lba, after, wait, nth, "
            "every, one-in, times, seed",
            p->word);
}

/* What one word alone does not show. */
static bool check_point(const struct parser *p)
{
        const struct trigger *f = p->fault;
        const struct action *a = &actions[f->action];
        bool within = f->half || f->value > 0;

        if (p->at[ON] && !(a->may & 1u << f->point))
                return complain(p, p->at[ON], "%s is not possible with on=%s", a->name,
                                points[f->point]);
        if (a->within && within && !(a->within & 1u << f->point))
                return complain(p, p->at[ON] ?: 1, "%s has a place only with on=r2t, c2hdata, resp",
                                a->name);
        return true;
}

static bool check(const struct parser *p)
{
        struct trigger *f = p->fault;
        int given = (p->at[NTH] > 0) + (p->at[EVERY] > 0) + (p->at[ONE_IN] > 0);

        if (given > 1)
                return complain(p, p->at[ONE_IN] ?: p->at[EVERY],
                                "only one of nth, every, one-in is possible");
        if (p->at[NTH] && f->times == 0)
                f->times = 1;
        return check_point(p);
}

static bool is_text(const char *text)
{
        for (; *text; text++)
                if ((unsigned char)*text < ' ' || (unsigned char)*text > '~')
                        return false;
        return true;
}

bool trigger_parse(struct trigger *f, const char *text, char *error, size_t size)
{
        struct parser p = { .fault = f, .error = error, .size = size };
        char words[FAULT_TEXT + 1];
        bool first = true;

        memset(f, 0, sizeof(*f));
        f->any_command = true;
        f->seed = 1;
        if (strlen(text) > FAULT_TEXT || !is_text(text))
                return complain(&p, 1, "a fault is a line of at most %d printable characters",
                                FAULT_TEXT);
        strcpy(f->text, text); /* it fits */
        strcpy(words, text);
        for (char *at = words; *(at += strspn(at, " ")); first = false) {
                size_t len = strcspn(at, " ");
                bool more = at[len];

                at[len] = '\0';
                p.word = at;
                p.begin = (unsigned)(at - words) + 1;
                if (!(first ? take_action : take_condition)(&p))
                        return false;
                at += len + more;
        }
        if (first)
                return complain(&p, 1, "the text is empty");
        return check(&p);
}

/* --- those that a target has ------------------------------------------------------------------- */

bool triggers_are(const struct triggers *l, char *const *texts, unsigned n)
{
        if (n != (l ? l->n : 0))
                return false;
        for (unsigned i = 0; i < n; i++)
                if (strcmp(l->at[l->order[i]].text, texts[i]) != 0)
                        return false;
        return true;
}

struct triggers *triggers_new(void)
{
        struct triggers *l = calloc(1, sizeof(*l));

        if (l)
                pthread_mutex_init(&l->lock, NULL);
        return l;
}

void triggers_free(struct triggers *l)
{
        if (!l)
                return;
        pthread_mutex_destroy(&l->lock);
        free(l);
}

static bool is_among(const struct trigger *f, char *const *texts, unsigned n)
{
        for (unsigned i = 0; i < n; i++)
                if (strcmp(texts[i], f->text) == 0)
                        return true;
        return false;
}

/* The slots of those that stay. */
static uint64_t drop_others(struct triggers *l, char *const *texts, unsigned n)
{
        uint64_t stay = 0;

        for (unsigned i = 0; i < FAULTS_MAX; i++)
                if (l->at[i].id && is_among(&l->at[i], texts, n))
                        stay |= UINT64_C(1) << i;
                else
                        l->at[i].id = 0;
        return stay;
}

static unsigned slot_of(const struct triggers *l, const char *text)
{
        unsigned slot = 0;

        while (slot < FAULTS_MAX && !(l->at[slot].id && strcmp(l->at[slot].text, text) == 0))
                slot++;
        return slot;
}

static unsigned free_slot(const struct triggers *l)
{
        unsigned slot = 0;

        while (l->at[slot].id) /* there are no more texts than slots */
                slot++;
        return slot;
}

static void add(struct triggers *l, const char *text, uint64_t now)
{
        char error[80];
        unsigned slot = slot_of(l, text);

        if (slot == FAULTS_MAX) {
                slot = free_slot(l);
                (void)trigger_parse(&l->at[slot], text, error, sizeof(error));
                l->at[slot].id = ++l->last;
                l->at[slot].since = now;
        }
        l->order[l->n++] = slot;
}

uint64_t triggers_change(struct triggers *l, char *const *texts, unsigned n, uint64_t now)
{
        uint64_t stay = drop_others(l, texts, n);

        l->n = 0;
        for (unsigned i = 0; i < n; i++)
                add(l, texts[i], now);
        return ~stay;
}

bool triggers_list(struct triggers *l, unsigned *slot, struct trigger *copy)
{
        bool any = l && *slot < l->n;

        if (!any)
                return false;
        pthread_mutex_lock(&l->lock);
        *copy = l->at[l->order[(*slot)++]];
        pthread_mutex_unlock(&l->lock);
        return true;
}

/* --- what a command meets ---------------------------------------------------------------------- */

static bool is_in(const struct trigger_range *r, uint64_t first, uint64_t last)
{
        return !r->given || (first <= r->last && last >= r->first);
}

static unsigned command_of(const struct trigger_command *c)
{
        if (c->sqe->opc == NVME_FABRICS)
                return FABRICS * (unsigned)OPCODES + c->sqe->fctype;
        return (c->qid > 0 ? IO : ADMIN) * (unsigned)OPCODES + c->sqe->opc;
}

static bool is_one_of(const struct trigger *f, const struct trigger_command *c)
{
        unsigned which = c->sqe ? command_of(c) : 0;

        return f->any_command || (c->sqe && (f->commands[which / 64] >> (which % 64) & 1));
}

static bool touches(const struct trigger *f, const struct trigger_command *c)
{
        uint64_t first;
        uint32_t blocks;

        if (!f->lba.given)
                return true;
        if (!c->sqe || c->qid == 0 || !sqe_blocks(c->sqe, &first, &blocks))
                return false;
        return is_in(&f->lba, first, first + blocks - 1);
}

static bool is_name(const char *wanted, const char *name)
{
        return !*wanted || (name && strcmp(wanted, name) == 0);
}

static uint64_t nsid_of(const struct trigger_command *c)
{
        return c->sqe->opc == NVME_FABRICS ? 0 : le32_get(c->sqe->nsid);
}

/* Where it is, whatever it is. */
static bool is_there(const struct trigger *f, const struct trigger_command *c)
{
        if ((f->qid.given || f->nsid.given) && !c->sqe)
                return false;
        return is_name(f->host, c->host) && is_name(f->nqn, c->nqn) &&
               is_in(&f->qid, c->qid, c->qid) &&
               (!f->nsid.given || is_in(&f->nsid, nsid_of(c), nsid_of(c)));
}

/* The clock of a reactor's turn may be behind the one by which the fault was set up. */
static bool has_waited(const struct trigger *f, uint64_t now)
{
        return f->wait == 0 || (now >= f->since && now - f->since >= f->wait);
}

/* Bytes count wherever it is to happen, also those of other commands. */
static bool meets(struct trigger *f, const struct trigger_command *c)
{
        bool ripe = f->bytes >= f->after && has_waited(f, c->now);

        if (!is_there(f, c))
                return false;
        f->bytes += c->len;
        return ripe && is_one_of(f, c) && touches(f, c);
}

uint64_t triggers_meet(struct triggers *l, const struct trigger_command *c)
{
        uint64_t mask = 0;

        pthread_mutex_lock(&l->lock);
        for (unsigned i = 0; i < FAULTS_MAX; i++)
                if (l->at[i].id && meets(&l->at[i], c))
                        mask |= UINT64_C(1) << i;
        pthread_mutex_unlock(&l->lock);
        return mask;
}

const struct trigger *triggers_at(const struct triggers *l, uint64_t mask, unsigned *slot,
                                  unsigned actions_of, enum fault_point point)
{
        while (l && *slot < FAULTS_MAX) {
                const struct trigger *f = &l->at[*slot];
                bool met = mask >> *slot & 1;

                ++*slot;
                if (met && f->id && (actions_of & 1u << f->action) &&
                    (f->point == point || f->action == FAULT_VIOLATE))
                        return f;
        }
        return NULL;
}

static bool is_due(struct trigger *f)
{
        f->met++;
        if (f->times > 0 && f->fired >= f->times)
                return false;
        if (f->nth > 0)
                return f->met >= f->nth;
        if (f->every > 0)
                return f->met % f->every == 0;
        return f->one_in <= 1 || fuzz_any(&f->seed, (unsigned)f->one_in) == 0;
}

bool triggers_due(struct triggers *l, const struct trigger *f)
{
        struct trigger *own = &l->at[f - l->at];
        bool due;

        pthread_mutex_lock(&l->lock);
        due = is_due(own);
        own->fired += due;
        pthread_mutex_unlock(&l->lock);
        return due;
}

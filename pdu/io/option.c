/* SPDX-License-Identifier: BSD-3-Clause */
#include "option.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS_MAX = 96, LONG_ONLY = 256 };

/* --- values ----------------------------------------------------------------------------------- */

/* strtoull that refuses signs, blanks and overflow; *end is where the number ended. */
static int digits(const char *s, int base, uint64_t *value, char **end)
{
        if (!isxdigit((unsigned char)*s))
                return -1;
        errno = 0;
        *value = strtoull(s, end, base);
        return errno || *end == s ? -1 : 0;
}

int option_number(const char *s, uint64_t *value)
{
        int base = s[0] == '0' && (s[1] | 0x20) == 'x' ? 16 : 10;
        char *end;

        return digits(s, base, value, &end) == 0 && *end == '\0' ? 0 : -1;
}

int option_size(const char *s, uint64_t *value)
{
        static const char units[] = "kmgt";
        const char *unit;
        unsigned shift;
        char *end;

        if (option_number(s, value) == 0)
                return 0;
        if (digits(s, 10, value, &end) < 0 || !*end)
                return -1;
        unit = strchr(units, tolower((unsigned char)*end));
        if (!unit || (end[1] && strcmp(end + 1, "iB") != 0 && strcmp(end + 1, "B") != 0))
                return -1;
        shift = 10 * ((unsigned)(unit - units) + 1);
        if (*value << shift >> shift != *value)
                return -1;
        *value <<= shift;
        return 0;
}

int option_seconds(const char *s, uint64_t *ms)
{
        uint64_t fraction = 0, scale = 100;
        char *end;

        if (digits(s, 10, ms, &end) < 0 || *ms > UINT64_MAX / 2000)
                return -1;
        if (*end == '.')
                for (end++; isdigit((unsigned char)*end); end++, scale /= 10)
                        fraction += (uint64_t)(*end - '0') * scale;
        *ms = *ms * 1000 + fraction;
        return *end == '\0' ? 0 : -1;
}

static bool is_choice(const char *choices, const char *word)
{
        size_t len = strlen(word);

        for (const char *p = choices; p; p = strchr(p, '|')) {
                p += *p == '|';
                if (strncmp(p, word, len) == 0 && (p[len] == '|' || p[len] == '\0'))
                        return true;
        }
        return false;
}

/* --- parsing ---------------------------------------------------------------------------------- */

/* "option -Q" or "option --bs": the form with a letter where there is one. */
static void name_of(const struct option_row *r, char name[64])
{
        if (r->letter)
                snprintf(name, 64, "-%c", r->letter);
        else
                snprintf(name, 64, "--%s", r->name);
}

static int refuse(const struct option_row *r, const char *value, char *error, size_t size)
{
        char name[64];

        name_of(r, name);
        if (r->kind == OPTION_CHOICE)
                snprintf(error, size, "option %s: '%s' is not one of %s", name, value, r->choices);
        else if (r->kind == OPTION_STRING)
                snprintf(error, size, "option %s: the value is empty", name);
        else if (r->kind == OPTION_SIZE)
                snprintf(error, size,
                         "option %s: '%s' is not a size (such as 4096, 64k, 1G) in "
                         "range",
                         name, value);
        else if (r->kind == OPTION_SECONDS)
                snprintf(error, size, "option %s: '%s' is not a time in seconds in range", name,
                         value);
        else if (r->max)
                snprintf(error, size, "option %s: '%s' is not a number from %llu to %llu", name,
                         value, (unsigned long long)r->min, (unsigned long long)r->max);
        else
                snprintf(error, size, "option %s: '%s' is not a number", name, value);
        return -1;
}

static int (*const readers[])(const char *s, uint64_t *value) = {
        [OPTION_NUMBER] = option_number,
        [OPTION_SIZE] = option_size,
        [OPTION_SECONDS] = option_seconds,
};

static int store_number(const struct option_row *r, const char *value, uint64_t *where)
{
        uint64_t v;

        if (readers[r->kind](value, &v) < 0 || v < r->min || (r->max && v > r->max))
                return -1;
        *where = v;
        return 0;
}

static int store(const struct option_row *r, const char *value, void *args)
{
        void *where = (char *)args + r->at;

        switch (r->kind) {
        case OPTION_FLAG:
                *(bool *)where = true;
                return 0;
        case OPTION_CHOICE:
                if (!is_choice(r->choices, value))
                        return -1;
                *(const char **)where = value;
                return 0;
        case OPTION_STRING:
                *(const char **)where = value;
                return *value ? 0 : -1;
        case OPTION_NUMBER:
        case OPTION_SIZE:
        case OPTION_SECONDS:
                return store_number(r, value, where);
        case OPTION_CALL:
                break;
        }
        return -1;
}

static int call(const struct option_row *r, const char *value, void *args, char *error, size_t size)
{
        char name[64], why[400] = "";

        if (r->call(args, value, why, sizeof(why)))
                return 0;
        name_of(r, name);
        snprintf(error, size, "option %s: %s", name, why);
        return -1;
}

/* The table in getopt's two forms. */
struct forms {
        char letters[2 * ROWS_MAX + 2];
        struct option longs[ROWS_MAX + 1];
        const struct option_row *rows[ROWS_MAX];
        int count;
};

static void make_forms(struct forms *f, const struct option_row *rows, uint32_t groups)
{
        char *letter = f->letters;

        *letter++ = ':'; /* a missing value is told apart, nothing is printed */
        for (const struct option_row *r = rows; r->name && f->count < ROWS_MAX; r++) {
                int has_arg = r->kind == OPTION_FLAG ? no_argument : required_argument;

                if (!(r->group & groups))
                        continue;
                if (r->letter) {
                        *letter++ = r->letter;
                        if (has_arg)
                                *letter++ = ':';
                }
                f->longs[f->count] =
                    (struct option) { r->name, has_arg, NULL,
                                      r->letter ? r->letter : LONG_ONLY + f->count };
                f->rows[f->count++] = r;
        }
        *letter = '\0';
        f->longs[f->count] = (struct option) { 0 };
}

static const struct option_row *row_of(const struct forms *f, int opt)
{
        for (int i = 0; i < f->count; i++)
                if (f->longs[i].val == opt)
                        return f->rows[i];
        return NULL;
}

/* What getopt could not take: optopt is an unknown letter, or that of a known long form with a value
 * that it does not take, or 0. */
static int unknown(const struct forms *f, char **argv, char *error, size_t size)
{
        const char *word = argv[optind - 1];

        if (optopt > 0 && row_of(f, optopt))
                snprintf(error, size, "option '%s' takes no value", word);
        else if (optopt > 0)
                snprintf(error, size, "unknown option '-%c'", optopt);
        else
                snprintf(error, size, "unknown option '%s'", word);
        return -1;
}

int option_parse(const struct option_row *rows, uint32_t groups, int argc, char **argv, void *args,
                 char *error, size_t size)
{
        struct forms f = { 0 };
        int opt;

        make_forms(&f, rows, groups);
        opterr = 0;
        optind = 0; /* glibc: start again */
        while ((opt = getopt_long(argc, argv, f.letters, f.longs, NULL)) != -1) {
                const struct option_row *r = row_of(&f, opt == ':' ? optopt : opt);

                if (opt == '?' || !r)
                        return unknown(&f, argv, error, size);
                if (opt == ':') {
                        snprintf(error, size, "option %s requires a value: %s", argv[optind - 1],
                                 r->arg);
                        return -1;
                }
                if (r->kind == OPTION_CALL       ? call(r, optarg, args, error, size)
                    : store(r, optarg, args) < 0 ? refuse(r, optarg, error, size)
                                                 : 0)
                        return -1;
        }
        return optind;
}

/* Of one word: what stands in it after the option, "" if its value is the next one; NULL: it is another word. */
static const char *value_in(const char *word, char letter, const char *name)
{
        size_t len = strlen(name);

        if (word[0] != '-')
                return NULL;
        if (word[1] == letter)
                return word + 2;
        if (word[1] != '-' || strncmp(word + 2, name, len) != 0)
                return NULL;
        return word[2 + len] == '=' ? word + 3 + len : word[2 + len] == '\0' ? "" : NULL;
}

const char *option_peek(int argc, char **argv, char letter, const char *name)
{
        for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
                const char *value = value_in(argv[i], letter, name);

                if (value)
                        return value[0] || i + 1 == argc ? value : argv[i + 1];
        }
        return NULL;
}

/* --- help ------------------------------------------------------------------------------------- */

void option_help(const struct option_row *rows, uint32_t groups, FILE *out)
{
        char form[64];

        for (const struct option_row *r = rows; r->name; r++) {
                char letter[5] = "    ";

                if (!(r->group & groups))
                        continue;
                if (r->letter)
                        snprintf(letter, sizeof(letter), "-%c, ", r->letter);
                snprintf(form, sizeof(form), "%s--%s%s%s", letter, r->name, r->arg ? " " : "",
                         r->arg ? r->arg : "");
                fprintf(out, "  %-28s %s\n", form, r->says);
        }
}

bool option_rule(const struct rulebook *book, struct rule_set *set, const char *id, char *error,
                 size_t size)
{
        unsigned rule = rulebook_by_name(book, id);

        if (rule == RULE_NONE)
                snprintf(error, size, "no rule '%s' (nvmfspec conform --rules lists them)", id);
        else
                rule_add(set, rule);
        return rule != RULE_NONE;
}

bool option_violate(const struct rulebook *book, struct rule_policy *policy, const char *id,
                    char *error, size_t size)
{
        unsigned flaw = rulebook_flaw_by_name(book, id);

        if (!flaw)
                return option_rule(book, &policy->violated, id, error, size);
        rule_add(&policy->flaws, flaw);
        return true;
}

bool option_rule_of(const struct rulebook *book, struct rule_set *set, enum party bound,
                    const char *id, char *error, size_t size)
{
        unsigned rule = rulebook_by_name(book, id);

        if (rule == RULE_NONE || rulebook_get(book, rule)->bound == bound)
                return option_rule(book, set, id, error, size);
        snprintf(error, size, "'%s' is a rule for the %s", id,
                 party_name(rulebook_get(book, rule)->bound));
        return false;
}

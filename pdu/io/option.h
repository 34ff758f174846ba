/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Command line options as a table: one row parses, checks and documents an option. A command takes
 * the rows whose groups it names.
 */
#ifndef NVMF_IO_OPTION_H
#define NVMF_IO_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "pdu/core/rule.h"

enum option_kind {
        OPTION_FLAG,    /* bool */
        OPTION_STRING,  /* const char *, not copied; empty, as of an unset variable, is refused */
        OPTION_NUMBER,  /* uint64_t in [min, max]; 0x... is hex */
        OPTION_SIZE,    /* uint64_t, bytes: a number with k, M, G or T (powers of 1024) */
        OPTION_SECONDS, /* uint64_t, ms: "2", "0.5"; min and max in ms */
        OPTION_CHOICE,  /* const char *, one of the words of `choices` */
        OPTION_CALL,    /* whatever `call` makes of it: repeatable options, own syntax */
};

struct option_row {
        char letter;      /* 0: long form only */
        const char *name; /* long form */
        const char *arg;  /* what the help calls the value; NULL for flags */
        const char *says;
        enum option_kind kind;
        uint32_t group;      /* bits: which commands take it */
        size_t at;           /* offset of the value in the struct of arguments */
        uint64_t min, max;   /* max 0: no bound */
        const char *choices; /* "text|json" */
        /* false: `error` says what is wrong with the value (the option's name is put before it) */
        bool (*call)(void *args, const char *value, char *error, size_t size);
};

/*
 * Parses argv[1..] by the rows of `groups` (ended by name NULL) into `args`. Options and other
 * words may come in any order; returns the index of the first other word in argv, which is
 * reordered. On a bad option -1, and `error` has one line.
 */
int option_parse(const struct option_row *rows, uint32_t groups, int argc, char **argv, void *args,
                 char *error, size_t size);

/* The value of an option in argv[1..], before anything is parsed: that which decides by which rows. NULL: it is not
 * there. */
const char *option_peek(int argc, char **argv, char letter, const char *name);

/* "  -a, --traddr ADDR   says", a line each. */
void option_help(const struct option_row *rows, uint32_t groups, FILE *out);

/* 0, or -1 if s is not such a value; units as in option_kind. */
int option_number(const char *s, uint64_t *value);
int option_size(const char *s, uint64_t *value);
int option_seconds(const char *s, uint64_t *ms);

/* Adds the book's rule of that id to the set. false: there is none, and `error` says so in a line. */
bool option_rule(const struct rulebook *book, struct rule_set *set, const char *id, char *error,
                 size_t size);
/* The id of a rule to violate, or of a flaw. */
bool option_violate(const struct rulebook *book, struct rule_policy *policy, const char *id,
                    char *error, size_t size);
/* As option_rule(); it has to bind that party. */
bool option_rule_of(const struct rulebook *book, struct rule_set *set, enum party bound,
                    const char *id, char *error, size_t size);

#endif

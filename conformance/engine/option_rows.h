/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows of the two tables of options, the suite's and a family's, whose arguments are OPTION_ARGS. */
#ifndef NVMF_CONFORMANCE_OPTION_ROWS_H
#define NVMF_CONFORMANCE_OPTION_ROWS_H

#include "options.h"

#define ROW(kind, letter, name, arg, at, min, max, choices, call, says, group)                     \
        {                                                                                          \
                letter, name, arg, says, kind, OPTIONS_##group, at, min, max, choices, call        \
        }
#define MEMBER(member) offsetof(OPTION_ARGS, member)
#define FLAG(letter, name, member, says, group)                                                    \
        ROW(OPTION_FLAG, letter, name, NULL, MEMBER(member), 0, 0, NULL, NULL, says, group)
#define STRING(letter, name, arg, member, says, group)                                             \
        ROW(OPTION_STRING, letter, name, arg, MEMBER(member), 0, 0, NULL, NULL, says, group)
#define NUMBER(letter, name, arg, member, min, max, says, group)                                   \
        ROW(OPTION_NUMBER, letter, name, arg, MEMBER(member), min, max, NULL, NULL, says, group)
#define CHOICE(letter, name, arg, member, words, says, group)                                      \
        ROW(OPTION_CHOICE, letter, name, arg, MEMBER(member), 0, 0, words, NULL, says, group)
#define CALL(letter, name, arg, take, says, group)                                                 \
        ROW(OPTION_CALL, letter, name, arg, 0, 0, 0, NULL, take, says, group)

#endif

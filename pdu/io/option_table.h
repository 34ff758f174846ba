/* SPDX-License-Identifier: BSD-3-Clause */
/* The options of a command that several families share: its own rows around those of the family that -t chooses. */
#ifndef NVMF_IO_OPTION_TABLE_H
#define NVMF_IO_OPTION_TABLE_H

#include "option.h"
#include "pdu/core/family.h"

enum { OPTION_ROWS = 128 };

struct option_table {
        struct option_row rows[OPTION_ROWS]; /* ended by name NULL */
        unsigned n;
        char transports[128], says[160]; /* of all families: the choices of -t, and what it says */
};

/* families: see pdu/core/family.h; family: the one that is chosen, whose transports the command's -t may have. Begins with
 * `before`, the first row of which is -t, with neither text nor choices; then the family's (NULL: none), and `after`. All
 * are ended by name NULL. */
void option_table_make(struct option_table *t, const void *const *families,
                       const struct option_row *before, const struct option_row *own,
                       const struct option_row *after);
/* The family whose transport argv's -t names, or the first one: its parser says what is wrong with -t. */
const void *option_family(const void *const *families, int argc, char **argv);

#endif

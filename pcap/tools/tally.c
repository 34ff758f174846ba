/* SPDX-License-Identifier: BSD-3-Clause */
#include "tally.h"

#include <stdio.h>
#include <stdlib.h>

uint64_t tally_add(struct tally **list, uint64_t key, const char *name)
{
        struct tally *t;

        while (*list && (*list)->key < key)
                list = &(*list)->next;
        if (!*list || (*list)->key != key) {
                t = calloc(1, sizeof(*t));
                if (!t)
                        return 0;
                t->key = key;
                t->next = *list;
                snprintf(t->name, sizeof(t->name), "%s", name);
                *list = t;
        }
        return ++(*list)->count;
}

void tally_free(struct tally **list)
{
        while (*list) {
                struct tally *t = *list;

                *list = t->next;
                free(t);
        }
}

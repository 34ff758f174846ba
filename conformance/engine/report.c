/* SPDX-License-Identifier: BSD-3-Clause */
#include "report.h"

#include <string.h>

#include "select.h"

FILE *report_open(const char *path)
{
        return strcmp(path, "-") == 0 ? stdout : fopen(path, "w");
}

int report_close(FILE *f)
{
        if (f == stdout)
                return fflush(f) == 0 && !ferror(f) ? 0 : -1;
        return ferror(f) ? (fclose(f), -1) : fclose(f);
}

const char *id_name(const char *id)
{
        size_t section = id_section(id);

        return id[section] == '/' ? id + section + 1 : id;
}

unsigned rules_total(const struct family *f)
{
        return f->rules->count - 1;
}

unsigned rules_count(const struct rule_set *s)
{
        unsigned n = 0;

        rule_each_in (s, r)
                n++;
        return n;
}

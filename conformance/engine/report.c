/* SPDX-License-Identifier: BSD-3-Clause */
#include "report.h"

#include <string.h>

#include "select.h"

struct report_file report_open(const char *path)
{
        struct report_file r = { .f = stdout };
        char error[sizeof(r.to.to) + 128];

        if (strcmp(path, "-") != 0)
                r.f = output_begin(&r.to, "", path, error, sizeof(error)) ? fopen(r.to.path, "we")
                                                                          : NULL;
        return r;
}

int report_close(struct report_file *r)
{
        bool good;

        if (r->f == stdout)
                return fflush(r->f) == 0 && !ferror(r->f) ? 0 : -1;
        good = !ferror(r->f);
        good = fclose(r->f) == 0 && good;
        return output_end(&r->to, good) && good ? 0 : -1;
}

void report_rule(const struct run *run, const struct result *r, char *buf, size_t size)
{
        const struct rule *rule = rulebook_get(run->family->family->rules, r->rule);
        enum basis basis = result_basis(run, r);
        bool duty = rule && rule->bound == (run->role == ROLE_HOST ? PARTY_HOST : PARTY_CONTROLLER);

        *buf = '\0';
        if (rule)
                snprintf(buf, size, "%s (%s; %s; %s%s)", rule->id, rule->source,
                         level_name(rule->level), duty ? "" : "the reaction: ",
                         basis == BASIS_NONE ? "none prescribed" : basis_name(basis));
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

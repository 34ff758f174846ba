/* SPDX-License-Identifier: BSD-3-Clause */
#include "srp_config.h"

#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "target/engine/config_reader.h"
#include "target/scsi/scsi_task.h"

enum { TEXT_MAX = 4096 };

struct section { /* what is read */
        struct srp_options *options;
        bool there;
};

/* --- values ----------------------------------------------------------------------------------- */

bool srp_config_lun(struct srp_options *o, uint32_t lun, const char *spec)
{
        char *copy = lun < SCSI_UNITS ? strdup(spec) : NULL;

        if (copy && !o->lun)
                o->lun = calloc(SCSI_UNITS, sizeof(*o->lun));
        if (!copy || !o->lun) {
                free(copy);
                return false;
        }
        free((char *)o->lun[lun]);
        o->lun[lun] = copy;
        if (lun >= o->luns)
                o->luns = lun + 1;
        return true;
}

void srp_config_free(struct srp_options *o)
{
        for (unsigned i = 0; i < o->luns && o->lun; i++)
                free((char *)o->lun[i]);
        free(o->lun);
        o->lun = NULL;
        o->luns = 0;
        for (unsigned i = 0; i < o->listens; i++) {
                free((char *)o->listen[i].traddr);
                free((char *)o->listen[i].trsvcid);
        }
        o->listens = 0;
}

/* --- keys ------------------------------------------------------------------------------------- */

static bool take_text(struct reader *r, struct json_object *v, void *at)
{
        const char *text = reader_text(r, v, TEXT_MAX);
        char **to = at;

        if (!text)
                return false;
        free(*to);
        *to = strdup(text);
        return *to || reader_no_memory(r);
}

static bool take_number(struct reader *r, struct json_object *v, void *at)
{
        uint64_t n;

        if (!reader_number(r, v, 1, UINT32_MAX, &n))
                return false;
        *(uint32_t *)at = (uint32_t)n;
        return true;
}

static bool take_id(struct reader *r, struct json_object *v, void *at)
{
        const char *text = reader_text(r, v, 2 * sizeof(srp_port_id));

        return text && (srp_port_id_read(at, text) ||
                        reader_complain(r, "'%s' is not 32 hexadecimal digits", text));
}

static bool take_immediate(struct reader *r, struct json_object *v, void *at)
{
        bool on;

        if (!reader_bool(r, v, &on))
                return false;
        *(bool *)at = !on;
        return true;
}

static bool take_place(struct reader *r, struct json_object *v, void *at)
{
        static const struct key keys[] = {
                { "traddr", take_text, offsetof(struct srp_place, traddr) },
                { "trsvcid", take_text, offsetof(struct srp_place, trsvcid) },
                { NULL, NULL, 0 },
        };
        struct srp_options *o = at;
        struct srp_place *p;

        if (o->listens == SRP_SERVER_LISTENS)
                return reader_complain(r, "more than %d places", SRP_SERVER_LISTENS);
        p = &o->listen[o->listens++];
        if (!reader_object(r, v, keys, p))
                return false;
        if (!p->traddr)
                return reader_complain(r, "traddr is missing");
        return p->trsvcid || (p->trsvcid = strdup(SRP_PORT)) || reader_no_memory(r);
}

static bool take_places(struct reader *r, struct json_object *v, void *at)
{
        return reader_array(r, v, take_place, at);
}

struct lun {
        uint64_t number;
        char *path;
};

static bool take_lun_number(struct reader *r, struct json_object *v, void *at)
{
        return reader_number(r, v, 0, SCSI_UNITS - 1, at);
}

static bool take_lun(struct reader *r, struct json_object *v, void *at)
{
        static const struct key keys[] = {
                { "lun", take_lun_number, offsetof(struct lun, number) },
                { "path", take_text, offsetof(struct lun, path) },
                { NULL, NULL, 0 },
        };
        struct srp_options *o = at;
        struct lun lun = { 0 };
        bool ok = reader_object(r, v, keys, &lun);

        if (ok && !lun.path)
                ok = reader_complain(r, "path is missing");
        else if (ok && lun.number < o->luns && o->lun[lun.number])
                ok = reader_complain(r, "LUN %u is there twice", (unsigned)lun.number);
        else if (ok && !srp_config_lun(o, (uint32_t)lun.number, lun.path))
                ok = reader_no_memory(r);
        free(lun.path);
        return ok;
}

static bool take_luns(struct reader *r, struct json_object *v, void *at)
{
        return reader_array(r, v, take_lun, at);
}

static bool take_section(struct reader *r, struct json_object *v, void *at)
{
        static const struct key keys[] = {
                { "listen", take_places, 0 },
                { "luns", take_luns, 0 },
                { "target_id", take_id, offsetof(struct srp_options, id) },
                { "request_limit", take_number, offsetof(struct srp_options, request_limit) },
                { "channels", take_number, offsetof(struct srp_options, channels) },
                { "it_iu", take_number, offsetof(struct srp_options, it_iu) },
                { "max_transfer", take_number, offsetof(struct srp_options, max_transfer) },
                { "immediate", take_immediate, offsetof(struct srp_options, no_immediate) },
                { NULL, NULL, 0 },
        };
        struct section *s = at;

        s->there = true;
        return reader_object(r, v, keys, s->options);
}

/* --- the file --------------------------------------------------------------------------------- */

static bool take_file(struct reader *r, struct json_object *v, struct section *s)
{
        static const struct key keys[] = {
                { "srp", take_section, 0 },
                { "hosts", reader_moot, 0 }, /* sections of another family */
                { "ports", reader_moot, 0 },
                { "subsystems", reader_moot, 0 },
                { "faults", reader_moot, 0 },
                { NULL, NULL, 0 },
        };

        return reader_object(r, v, keys, s) &&
               (s->there || reader_complain(r, "there is no section \"srp\""));
}

bool srp_config_load(struct srp_options *o, const char *file, char *error, size_t size)
{
        struct reader r = { .file = file, .error = error, .size = size };
        struct json_object *v = reader_file(&r);
        struct section s = { .options = o };
        bool ok = v && take_file(&r, v, &s);

        if (v)
                json_object_put(v);
        return ok;
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pdu/core/wipe.h"
#include "pdu/io/option.h"
#include "pdu/nvme/io/auth_openssl.h"
#include "pdu/nvme/io/nvme_tls.h"
#include "target/engine/config_reader.h"
#include "target/nvme/command_trace.h"
#include "target/nvme/ctrl.h"
#include "trigger.h"

/* --- building --------------------------------------------------------------------------------- */

/* One more element of `each` bytes, zeroed. There may be keys among them: no copy stays behind. */
static void *grow(void *array, unsigned *n, size_t each)
{
        char **at = array;
        char *more = calloc(*n + 1, each);

        if (!more)
                return NULL;
        if (*at) {
                memcpy(more, *at, *n * each);
                wipe(*at, *n * each);
        }
        free(*at);
        *at = more;
        return more + (*n)++ * each;
}

bool config_add_string(char ***array, unsigned *n, const char *s)
{
        char *copy = strdup(s), **at = copy ? grow(array, n, sizeof(*at)) : NULL;

        if (!at)
                free(copy);
        else
                *at = copy;
        return at;
}

bool config_add_fault(struct config *c, const char *text, char *error, size_t size)
{
        struct trigger f;

        if (!trigger_parse(&f, text, error, size))
                return false;
        if (config_find_string(c->faults, c->n_faults, text) >= 0)
                snprintf(error, size, "there is such a fault already");
        else if (c->n_faults == FAULTS_MAX)
                snprintf(error, size, "there are %d faults already", FAULTS_MAX);
        else if (!config_add_string(&c->faults, &c->n_faults, text))
                snprintf(error, size, "%s", strerror(ENOMEM));
        else
                return true;
        return false;
}

static const char *wrong_trace(const struct config_trace *t)
{
        if (!t->file[0] || strlen(t->file) >= PATH_MAX)
                return "file is not a path";
        if (t->size > 0 && t->size < JOURNAL_LEAST)
                return "size is at least 64k, or 0";
        if (t->files < 1 || t->files > TRACE_FILES_MAX)
                return "files is not from 1 to 100000";
        if (t->size == 0 && t->files > 1)
                return "files requires a size";
        return NULL;
}

bool config_set_trace(struct config *c, const struct config_trace *t, char *error, size_t size)
{
        const char *wrong = t->file ? wrong_trace(t) : NULL;
        char *copy = t->file && !wrong ? strdup(t->file) : NULL;

        if (wrong || (t->file && !copy)) {
                snprintf(error, size, "%s", wrong ? wrong : strerror(ENOMEM));
                return false;
        }
        free(c->trace.file);
        c->trace = *t;
        c->trace.file = copy;
        return true;
}

bool config_same_trace(const struct config_trace *a, const struct config_trace *b)
{
        if (!a->file || !b->file)
                return !a->file && !b->file;
        return strcmp(a->file, b->file) == 0 && a->size == b->size && a->files == b->files;
}

struct config_subsystem *config_add_subsystem(struct config *c, const char *nqn)
{
        struct config_subsystem *s = grow(&c->subsystems, &c->n_subsystems, sizeof(*s));

        if (s) {
                strncpy(s->nqn, nqn, NQN_MAX);
                s->allow_any_host = true;
        }
        return s;
}

struct config_ns *config_add_ns(struct config_subsystem *s, uint32_t nsid, const char *path)
{
        struct config_ns *ns = grow(&s->ns, &s->n_ns, sizeof(*ns));

        if (!ns)
                return NULL;
        ns->nsid = nsid;
        ns->enable = true;
        ns->path = strdup(path);
        return ns->path ? ns : NULL;
}

struct config_port *config_add_port(struct config *c, uint16_t id, const char *traddr,
                                    const char *trsvcid)
{
        struct config_port *p = grow(&c->ports, &c->n_ports, sizeof(*p));

        if (!p)
                return NULL;
        p->id = id;
        p->trtype = TRTYPE_TCP;
        strncpy(p->traddr, traddr, sizeof(p->traddr) - 1);
        strncpy(p->trsvcid, trsvcid, sizeof(p->trsvcid) - 1);
        return p;
}

const struct config_host *config_find_host(const struct config *c, const char *nqn)
{
        for (unsigned i = 0; i < c->n_hosts; i++)
                if (strcmp(c->hosts[i].nqn, nqn) == 0)
                        return &c->hosts[i];
        return NULL;
}

struct config_host *config_add_host(struct config *c, const char *nqn)
{
        struct config_host *h = grow(&c->hosts, &c->n_hosts, sizeof(*h));

        if (h)
                strncpy(h->nqn, nqn, sizeof(h->nqn) - 1);
        return h;
}

struct config_referral *config_add_referral(struct config_port *p)
{
        return grow(&p->referrals, &p->n_referrals, sizeof(*p->referrals));
}

struct config_host *config_add_own(struct config_subsystem *s, const char *nqn)
{
        struct config_host *h = grow(&s->own, &s->n_own, sizeof(*h));

        if (h)
                strncpy(h->nqn, nqn, sizeof(h->nqn) - 1);
        return h;
}

/* --- looking, and taking out ------------------------------------------------------------------- */

struct config_subsystem *config_find_subsystem(const struct config *c, const char *nqn)
{
        for (unsigned i = 0; i < c->n_subsystems; i++)
                if (strcmp(c->subsystems[i].nqn, nqn) == 0)
                        return &c->subsystems[i];
        return NULL;
}

struct config_ns *config_find_ns(const struct config_subsystem *s, uint32_t nsid)
{
        for (unsigned i = 0; i < s->n_ns; i++)
                if (s->ns[i].nsid == nsid)
                        return &s->ns[i];
        return NULL;
}

int config_find_string(char *const *array, unsigned n, const char *s)
{
        for (unsigned i = 0; i < n; i++)
                if (strcmp(array[i], s) == 0)
                        return (int)i;
        return -1;
}

/* No copy of a key stays at the end. */
static void cut_out(void *array, unsigned *n, size_t each, const void *element)
{
        size_t at = (size_t)((const char *)element - (char *)array);

        memmove((char *)array + at, (char *)array + at + each, --*n * each - at);
        wipe((char *)array + *n * each, each);
}

void config_remove_string(char **array, unsigned *n, unsigned at)
{
        free(array[at]);
        cut_out(array, n, sizeof(*array), &array[at]);
}

static void free_strings(char **array, unsigned n)
{
        while (n-- > 0)
                free(array[n]);
        free(array);
}

static void free_ns(struct config_ns *ns)
{
        free(ns->path);
        free_strings(ns->hosts, ns->n_hosts);
}

void config_remove_ns(struct config_subsystem *s, struct config_ns *ns)
{
        free_ns(ns);
        cut_out(s->ns, &s->n_ns, sizeof(*ns), ns);
}

void config_remove_referral(struct config_port *p, unsigned at)
{
        cut_out(p->referrals, &p->n_referrals, sizeof(*p->referrals), &p->referrals[at]);
}

void config_remove_keys(struct config_subsystem *s, const char *nqn)
{
        for (unsigned i = s->n_own; i-- > 0;)
                if (strcmp(s->own[i].nqn, nqn) == 0)
                        cut_out(s->own, &s->n_own, sizeof(*s->own), &s->own[i]);
}

bool config_remove_host(struct config_subsystem *s, const char *nqn)
{
        int at = config_find_string(s->hosts, s->n_hosts, nqn);

        if (at < 0)
                return false;
        config_remove_string(s->hosts, &s->n_hosts, (unsigned)at);
        config_remove_keys(s, nqn);
        return true;
}

/* --- the end ---------------------------------------------------------------------------------- */

static void free_subsystem(struct config_subsystem *s)
{
        for (unsigned i = 0; i < s->n_ns; i++)
                free_ns(&s->ns[i]);
        free(s->ns);
        free_strings(s->hosts, s->n_hosts);
        wipe(s->own, s->n_own * sizeof(*s->own));
        free(s->own);
}

static void free_port(struct config_port *p)
{
        free_strings(p->subsystems, p->n_subsystems);
        free(p->referrals);
        free(p->ana);
}

void config_remove_subsystem(struct config *c, struct config_subsystem *s)
{
        for (unsigned i = 0; i < c->n_ports; i++) {
                struct config_port *p = &c->ports[i];
                int at = config_find_string(p->subsystems, p->n_subsystems, s->nqn);

                if (at >= 0)
                        config_remove_string(p->subsystems, &p->n_subsystems, (unsigned)at);
                config_ana_remove(p, s->nqn);
        }
        free_subsystem(s);
        cut_out(c->subsystems, &c->n_subsystems, sizeof(*s), s);
}

void config_remove_port(struct config *c, struct config_port *p)
{
        free_port(p);
        cut_out(c->ports, &c->n_ports, sizeof(*p), p);
}

void config_free(struct config *c)
{
        for (unsigned i = 0; i < c->n_subsystems; i++)
                free_subsystem(&c->subsystems[i]);
        for (unsigned i = 0; i < c->n_ports; i++)
                free_port(&c->ports[i]);
        wipe(c->subsystems, c->n_subsystems * sizeof(*c->subsystems));
        wipe(c->hosts, c->n_hosts * sizeof(*c->hosts));
        free(c->subsystems);
        free(c->ports);
        free(c->hosts);
        free_strings(c->faults, c->n_faults);
        free(c->trace.file);
        *c = (struct config) { 0 };
}

/* --- another one ------------------------------------------------------------------------------ */

static bool copy_strings(char ***to, unsigned *n, char *const *from, unsigned count)
{
        *to = NULL;
        *n = 0;
        for (unsigned i = 0; i < count; i++)
                if (!config_add_string(to, n, from[i]))
                        return false;
        return true;
}

static bool copy_ns(struct config_subsystem *s, const struct config_ns *from)
{
        struct config_ns *ns = grow(&s->ns, &s->n_ns, sizeof(*ns));

        if (!ns)
                return false;
        *ns = *from;
        ns->hosts = NULL;
        ns->n_hosts = 0;
        ns->path = from->path ? strdup(from->path) : NULL;
        if (from->path && !ns->path)
                return false;
        return copy_strings(&ns->hosts, &ns->n_hosts, from->hosts, from->n_hosts);
}

static bool copy_subsystem(struct config *c, const struct config_subsystem *from)
{
        struct config_subsystem *s = config_add_subsystem(c, from->nqn);

        if (!s)
                return false;
        *s = *from;
        s->hosts = NULL;
        s->own = NULL;
        s->ns = NULL;
        s->n_hosts = s->n_own = s->n_ns = 0;
        for (unsigned i = 0; i < from->n_ns; i++)
                if (!copy_ns(s, &from->ns[i]))
                        return false;
        for (unsigned i = 0; i < from->n_own; i++) {
                struct config_host *h = config_add_own(s, "");

                if (!h)
                        return false;
                *h = from->own[i];
        }
        return copy_strings(&s->hosts, &s->n_hosts, from->hosts, from->n_hosts);
}

static bool copy_port(struct config *c, const struct config_port *from)
{
        struct config_port *p = config_add_port(c, from->id, from->traddr, from->trsvcid);

        if (!p)
                return false;
        *p = *from;
        p->subsystems = NULL;
        p->referrals = NULL;
        p->ana = NULL;
        p->n_subsystems = p->n_referrals = p->n_ana = 0;
        for (unsigned i = 0; i < from->n_ana; i++) {
                const struct config_ana *a = &from->ana[i];

                if (!config_ana_pass(p, a->nqn, a->grpid, a->state, a->transition))
                        return false;
        }
        for (unsigned i = 0; i < from->n_referrals; i++) {
                struct config_referral *r = config_add_referral(p);

                if (!r)
                        return false;
                *r = from->referrals[i];
        }
        return copy_strings(&p->subsystems, &p->n_subsystems, from->subsystems, from->n_subsystems);
}

bool config_copy(struct config *to, const struct config *from)
{
        char error[80];
        bool ok = true;

        *to = (struct config) { .discovery = from->discovery };
        for (unsigned i = 0; ok && i < from->n_hosts; i++) {
                struct config_host *h = config_add_host(to, "");

                ok = h;
                if (ok)
                        *h = from->hosts[i];
        }
        for (unsigned i = 0; ok && i < from->n_subsystems; i++)
                ok = copy_subsystem(to, &from->subsystems[i]);
        for (unsigned i = 0; ok && i < from->n_ports; i++)
                ok = copy_port(to, &from->ports[i]);
        return ok && copy_strings(&to->faults, &to->n_faults, from->faults, from->n_faults) &&
               config_set_trace(to, &from->trace, error, sizeof(error));
}

/* --- values: strings or numbers --------------------------------------------------------------- */

static bool take_nsid(struct reader *r, struct json_object *v, void *at)
{
        uint64_t n;

        if (!reader_number(r, v, 1, CTRL_NSID_MAX, &n))
                return false;
        *(uint32_t *)at = (uint32_t)n;
        return true;
}

static bool take_serial(struct reader *r, struct json_object *v, void *at)
{
        return reader_copy(r, v, at, 20);
}

static bool take_model(struct reader *r, struct json_object *v, void *at)
{
        return reader_copy(r, v, at, 40);
}

static bool take_firmware(struct reader *r, struct json_object *v, void *at)
{
        return reader_copy(r, v, at, 8);
}

static bool take_traddr(struct reader *r, struct json_object *v, void *at)
{
        return reader_copy(r, v, at, sizeof(((struct config_port *)0)->traddr) - 1);
}

static bool take_trsvcid(struct reader *r, struct json_object *v, void *at)
{
        uint64_t port;

        return reader_number(r, v, 0, UINT16_MAX, &port) &&
               reader_copy(r, v, at, sizeof(((struct config_port *)0)->trsvcid) - 1);
}

/* As the kernel's tool takes them: anything, "testnqn" too. */
static bool take_nqn(struct reader *r, struct json_object *v, void *at)
{
        const char *text = reader_text(r, v, NQN_MAX);

        if (!text)
                return false;
        if (!text[0])
                return reader_complain(r, "is empty");
        strcpy(at, text);
        return true;
}

static bool take_path(struct reader *r, struct json_object *v, void *at)
{
        const char *text = reader_text(r, v, PATH_MAX);
        char **path = at;

        if (!text)
                return false;
        free(*path);
        *path = strdup(text);
        return *path || reader_no_memory(r);
}

/* 32 hexadecimal digits, with dashes wherever. */
static bool take_id(struct reader *r, struct json_object *v, uint8_t id[16], bool *has)
{
        const char *text = reader_text(r, v, 64);
        char digits[33];
        size_t n = 0;

        if (!text)
                return false;
        for (const char *p = text; *p && n < 33; p++)
                if (*p != '-')
                        digits[n++] = *p;
        if (n != 32)
                return reader_complain(r, "'%s' does not have 32 hexadecimal digits", text);
        digits[32] = '\0';
        *has = false;
        for (size_t i = 0; i < 16; i++) {
                char pair[3] = { digits[2 * i], digits[2 * i + 1], '\0' };

                if (!isxdigit((unsigned char)pair[0]) || !isxdigit((unsigned char)pair[1]))
                        return reader_complain(r, "'%s' is not hexadecimal", text);
                id[i] = (uint8_t)strtoul(pair, NULL, 16);
                *has |= id[i] != 0;
        }
        return true;
}

static bool take_uuid(struct reader *r, struct json_object *v, void *at)
{
        struct config_ns *ns = at;

        return take_id(r, v, ns->uuid, &ns->has_uuid);
}

static bool take_nguid(struct reader *r, struct json_object *v, void *at)
{
        struct config_ns *ns = at;

        return take_id(r, v, ns->nguid, &ns->has_nguid);
}

/* --- words ------------------------------------------------------------------------------------ */

static bool take_trtype(struct reader *r, struct json_object *v, void *at)
{
        static const struct choice words[] = { { "tcp", TRTYPE_TCP },
                                               { "rdma", TRTYPE_RDMA },
                                               { NULL, 0 } };

        return reader_choice(r, v, words, at);
}

static bool take_any_trtype(struct reader *r, struct json_object *v, void *at)
{
        static const struct choice words[] = { { "tcp", TRTYPE_TCP },
                                               { "rdma", TRTYPE_RDMA },
                                               { "fc", TRTYPE_FC },
                                               { "loop", TRTYPE_LOOP },
                                               { NULL, 0 } };

        return reader_choice(r, v, words, at);
}

static bool take_adrfam(struct reader *r, struct json_object *v, void *at)
{
        static const struct choice words[] = { { "ipv4", ADRFAM_IPV4 },
                                               { "ipv6", ADRFAM_IPV6 },
                                               { NULL, 0 } };

        return reader_choice(r, v, words, at);
}

/* Where a port listens its address says. */
static bool check_adrfam(struct reader *r, struct json_object *v, void *at)
{
        uint8_t adrfam;

        (void)at;
        return take_adrfam(r, v, &adrfam);
}

static bool take_treq(struct reader *r, struct json_object *v, void *at)
{
        static const struct choice words[] = { { "not specified", 0 },
                                               { "required", TREQ_SECURE_REQUIRED },
                                               { "not required", TREQ_SECURE_OPTIONAL },
                                               { NULL, 0 } };

        return reader_choice(r, v, words, at);
}

static bool take_tsas(struct reader *r, struct json_object *v, void *at)
{
        static const struct choice words[] = { { "none", SECTYPE_NONE },
                                               { "tls1.3", SECTYPE_TLS13 },
                                               { NULL, 0 } };

        return reader_choice(r, v, words, at);
}

/* --- objects ---------------------------------------------------------------------------------- */

#define AT(type, field) offsetof(struct type, field)

static bool take_device(struct reader *r, struct json_object *v, void *at)
{
        static const struct key keys[] = {
                { "path", take_path, AT(config_ns, path) },
                { "uuid", take_uuid, 0 },
                { "nguid", take_nguid, 0 },
                { NULL, NULL, 0 },
        };

        return reader_object(r, v, keys, at);
}

static bool take_grpid(struct reader *r, struct json_object *v, void *at)
{
        uint64_t n;

        if (!reader_number(r, v, 1, ANA_GROUPS, &n))
                return false;
        *(uint32_t *)at = (uint32_t)n;
        return true;
}

static bool take_ns_ana(struct reader *r, struct json_object *v, void *at)
{
        static const struct key keys[] = {
                { "grpid", take_grpid, AT(config_ns, anagrpid) },
                { NULL, NULL, 0 },
        };

        return reader_object(r, v, keys, at);
}

struct strings {
        char ***array;
        unsigned *n;
};

static bool take_nqn_string(struct reader *r, struct json_object *v, void *at)
{
        struct strings *s = at;
        char nqn[NQN_MAX + 1];

        if (!take_nqn(r, v, nqn))
                return false;
        return config_add_string(s->array, s->n, nqn) || reader_no_memory(r);
}

static bool take_ns_hosts(struct reader *r, struct json_object *v, void *at)
{
        struct config_ns *ns = at;

        return reader_array(r, v, take_nqn_string, &(struct strings) { &ns->hosts, &ns->n_hosts });
}

static bool take_ns(struct reader *r, struct json_object *v, void *at)
{
        static const struct key keys[] = {
                { "nsid", take_nsid, AT(config_ns, nsid) },
                { "enable", reader_bool, AT(config_ns, enable) },
                { "device", take_device, 0 },
                { "ana", take_ns_ana, 0 },
                { "ana_grpid", take_grpid, AT(config_ns, anagrpid) },
                { "no_auto_visible", reader_bool, AT(config_ns, masked) },
                { "hosts", take_ns_hosts, 0 },
                { "buffered_io", reader_ignored_unless_off, 0 },
                { "resv_enable", reader_ignored_unless_on, 0 },
                { NULL, NULL, 0 },
        };
        struct config_subsystem *s = at;
        struct config_ns *ns = grow(&s->ns, &s->n_ns, sizeof(*ns));

        if (!ns)
                return reader_no_memory(r);
        if (!reader_object(r, v, keys, ns))
                return false;
        if (ns->nsid == 0)
                return reader_complain(r, "has no nsid");
        if (ns->enable && !ns->path)
                return reader_complain(r, "is enabled, but has no device.path");
        if (ns->n_hosts > 0 && !ns->masked)
                return reader_complain(r, "has hosts, but not no_auto_visible");
        return true;
}

static bool take_namespaces(struct reader *r, struct json_object *v, void *at)
{
        return reader_array(r, v, take_ns, at);
}

static bool take_attr(struct reader *r, struct json_object *v, void *at)
{
        static const struct key keys[] = {
                { "allow_any_host", reader_bool, AT(config_subsystem, allow_any_host) },
                { "serial", take_serial, AT(config_subsystem, serial) },
                { "model", take_model, AT(config_subsystem, model) },
                { "firmware", take_firmware, AT(config_subsystem, firmware) },
                { "static_controllers", reader_bool, AT(config_subsystem, fixed) },
                { "administrative", reader_bool, AT(config_subsystem, administrative) },
                { "subsystem_reset", reader_bool, AT(config_subsystem, whole) },
                { "cntlid_min", reader_u16, AT(config_subsystem, cntlid_min) },
                { "cntlid_max", reader_u16, AT(config_subsystem, cntlid_max) },
                { "qid_max", reader_u16, AT(config_subsystem, qid_max) },
                { "ieee_oui", reader_ignored_unless_off, 0 },
                { "pi_enable", reader_ignored_unless_off, 0 },
                { "version", reader_ignored, 0 },
                { NULL, NULL, 0 },
        };

        return reader_object(r, v, keys, at);
}

static bool take_allowed_hosts(struct reader *r, struct json_object *v, void *at)
{
        struct config_subsystem *s = at;

        return reader_array(r, v, take_nqn_string, &(struct strings) { &s->hosts, &s->n_hosts });
}

/* What is not enabled asks for nothing. */
static bool take_passthru(struct reader *r, struct json_object *v, void *at)
{
        static const struct key keys[] = {
                { "enable", reader_ignored_unless_off, 0 },
                { "device_path", reader_moot, 0 },
                { "admin_timeout", reader_moot, 0 },
                { "io_timeout", reader_moot, 0 },
                { "clear_ids", reader_moot, 0 },
                { NULL, NULL, 0 },
        };

        return reader_object(r, v, keys, at);
}

static bool take_subsystem(struct reader *r, struct json_object *v, void *at)
{
        static const struct key keys[] = {
                { "nqn", take_nqn, AT(config_subsystem, nqn) },
                { "attr", take_attr, 0 },
                { "allowed_hosts", take_allowed_hosts, 0 },
                { "namespaces", take_namespaces, 0 },
                { "passthru", take_passthru, 0 },
                { NULL, NULL, 0 },
        };
        struct config *c = at;
        struct config_subsystem *s = config_add_subsystem(c, "");

        if (!s)
                return reader_no_memory(r);
        s->allow_any_host = false; /* as the kernel's default */
        if (!reader_object(r, v, keys, s))
                return false;
        if (!s->nqn[0])
                return reader_complain(r, "has no nqn");
        if (s->cntlid_max && s->cntlid_max < s->cntlid_min)
                return reader_complain(r, "attr.cntlid_max is below attr.cntlid_min");
        return true;
}

static bool take_addr(struct reader *r, struct json_object *v, void *at)
{
        static const struct key keys[] = {
                { "trtype", take_trtype, AT(config_port, trtype) },
                { "adrfam", check_adrfam, 0 },
                { "traddr", take_traddr, AT(config_port, traddr) },
                { "trsvcid", take_trsvcid, AT(config_port, trsvcid) },
                { "treq", take_treq, AT(config_port, treq) },
                { "tsas", take_tsas, AT(config_port, sectype) },
                { NULL, NULL, 0 },
        };

        return reader_object(r, v, keys, at);
}

static bool take_referral_addr(struct reader *r, struct json_object *v, void *at)
{
        static const struct key keys[] = {
                { "trtype", take_any_trtype, AT(config_referral, trtype) },
                { "adrfam", take_adrfam, AT(config_referral, adrfam) },
                { "traddr", take_traddr, AT(config_referral, traddr) },
                { "trsvcid", take_trsvcid, AT(config_referral, trsvcid) },
                { "treq", take_treq, AT(config_referral, treq) },
                { "portid", reader_u16, AT(config_referral, port_id) },
                { NULL, NULL, 0 },
        };

        return reader_object(r, v, keys, at);
}

static bool take_referral(struct reader *r, struct json_object *v, void *at)
{
        static const struct key keys[] = {
                { "addr", take_referral_addr, 0 },
                { "enable", reader_bool, AT(config_referral, enable) },
                { "name", reader_moot, 0 },
                { NULL, NULL, 0 },
        };
        struct config_port *p = at;
        struct config_referral *ref = config_add_referral(p);

        return ref ? reader_object(r, v, keys, ref) : reader_no_memory(r);
}

static bool take_referrals(struct reader *r, struct json_object *v, void *at)
{
        return reader_array(r, v, take_referral, at);
}

static bool take_port_subsystems(struct reader *r, struct json_object *v, void *at)
{
        struct config_port *p = at;

        return reader_array(r, v, take_nqn_string,
                            &(struct strings) { &p->subsystems, &p->n_subsystems });
}

static bool take_ana_state(struct reader *r, struct json_object *v, void *at)
{
        static const struct choice words[] = { { "optimized", ANA_OPTIMIZED },
                                               { "non-optimized", ANA_NONOPTIMIZED },
                                               { "inaccessible", ANA_INACCESSIBLE },
                                               { "persistent-loss", ANA_PERSISTENT_LOSS },
                                               { "change", ANA_CHANGE },
                                               { NULL, 0 } };

        return reader_choice(r, v, words, at);
}

static bool take_transition(struct reader *r, struct json_object *v, void *at)
{
        uint64_t ms;

        if (!reader_number(r, v, 0, CONFIG_ANA_TRANSITION_MAX, &ms))
                return false;
        *(uint16_t *)at = (uint16_t)ms;
        return true;
}

static bool take_ana(struct reader *r, struct json_object *v, void *at)
{
        static const struct key keys[] = {
                { "state", take_ana_state, AT(config_ana, state) },
                { "transition_ms", take_transition, AT(config_ana, transition) },
                { NULL, NULL, 0 },
        };

        return reader_object(r, v, keys, at);
}

static bool take_ana_group(struct reader *r, struct json_object *v, void *at)
{
        static const struct key keys[] = {
                { "grpid", take_grpid, AT(config_ana, grpid) },
                { "ana", take_ana, 0 },
                { NULL, NULL, 0 },
        };
        struct config_ana group = { .state = ANA_OPTIMIZED };

        if (!reader_object(r, v, keys, &group))
                return false;
        if (group.grpid == 0)
                return reader_complain(r, "has no grpid");
        return config_ana_pass(at, "", group.grpid, group.state, group.transition) ||
               reader_no_memory(r);
}

static bool take_ana_groups(struct reader *r, struct json_object *v, void *at)
{
        return reader_array(r, v, take_ana_group, at);
}

/* In-capsule data and sizes of queues are the same on all ports here. */
static bool take_param(struct reader *r, struct json_object *v, void *at)
{
        static const struct key keys[] = {
                { "inline_data_size", reader_ignored_unless_off, 0 },
                { "max_queue_size", reader_ignored_unless_off, 0 },
                { "mdts", reader_ignored_unless_off, 0 },
                { "pi_enable", reader_ignored_unless_off, 0 },
                { NULL, NULL, 0 },
        };

        return reader_object(r, v, keys, at);
}

static bool take_port(struct reader *r, struct json_object *v, void *at)
{
        static const struct key keys[] = {
                { "portid", reader_u16, AT(config_port, id) },
                { "addr", take_addr, 0 },
                { "subsystems", take_port_subsystems, 0 },
                { "referrals", take_referrals, 0 },
                { "ana_groups", take_ana_groups, 0 },
                { "param", take_param, 0 },
                { NULL, NULL, 0 },
        };
        struct config *c = at;
        struct config_port *p = config_add_port(c, 0, "", "4420");

        if (!p)
                return reader_no_memory(r);
        if (!reader_object(r, v, keys, p))
                return false;
        return p->traddr[0] ? true : reader_complain(r, "has no addr.traddr");
}

/* A policy over algorithms that get stronger, the first of them with this id: one name, several with
 * commas between, each with '+' if those that follow it may be used, too. NULL ends the names. */
static bool policy(const char *text, const char *const *names, unsigned first, uint8_t *allowed)
{
        *allowed = 0;
        do {
                size_t len = strcspn(text, "+,");
                unsigned i = 0;

                while (names[i] && (strlen(names[i]) != len || strncmp(names[i], text, len) != 0))
                        i++;
                if (!names[i])
                        return false;
                *allowed |= (uint8_t)(1 << (first + i));
                text += len;
                if (*text == '+') {
                        while (names[++i])
                                *allowed |= (uint8_t)(1 << (first + i));
                        text++;
                }
        } while (*text++ == ',');
        return text[-1] == '\0';
}

bool config_hash(const char *text, uint8_t *hashes)
{
        static const char *const ours[] = { "sha256", "sha384", "sha512", NULL };
        static const char *const kernels[] = { "hmac(sha256)", "hmac(sha384)", "hmac(sha512)",
                                               NULL };

        return policy(text, ours, AUTH_SHA256, hashes) ||
               policy(text, kernels, AUTH_SHA256, hashes);
}

bool config_group(const char *text, uint8_t *groups)
{
        static const char *const names[] = { "null",      "ffdhe2048", "ffdhe3072", "ffdhe4096",
                                             "ffdhe6144", "ffdhe8192", NULL };

        return policy(text, names, AUTH_NO_DH, groups);
}

static bool take_secret(struct reader *r, struct json_object *v, void *at)
{
        const char *text = reader_text(r, v, 1024);
        char error[200];

        if (text && text[0] && auth_key_option(at, text, error, sizeof(error)) < 0)
                return reader_complain(r, "%s", error);
        r->has_keys |= text && text[0] && text[0] != '@';
        if (text) /* in the document */
                wipe((char *)text, strlen(text));
        return text;
}

static bool take_psk(struct reader *r, struct json_object *v, void *at)
{
        const char *text = reader_text(r, v, 1024);
        char error[200];

        if (text && text[0] && nvme_tls_option(at, text, error, sizeof(error)) < 0)
                return reader_complain(r, "%s", error);
        r->has_keys |= text && text[0] && text[0] != '@';
        if (text)
                wipe((char *)text, strlen(text));
        return text;
}

static bool take_hash(struct reader *r, struct json_object *v, void *at)
{
        const char *text = reader_text(r, v, 64);

        if (text && text[0] && !config_hash(text, at))
                return reader_complain(r, "'%s' is not " CONFIG_HASHES, text);
        return text;
}

static bool take_group(struct reader *r, struct json_object *v, void *at)
{
        const char *text = reader_text(r, v, 64);

        if (text && text[0] && !config_group(text, at))
                return reader_complain(r, "'%s' is not " CONFIG_GROUPS, text);
        return text;
}

static bool take_host_attr(struct reader *r, struct json_object *v, void *at)
{
        static const struct key keys[] = {
                { "dhchap_key", take_secret, AT(config_host, keys.host) },
                { "dhchap_ctrl_key", take_secret, AT(config_host, keys.ctrl) },
                { "dhchap_hash", take_hash, AT(config_host, keys.hashes) },
                { "dhchap_dhgroup", take_group, AT(config_host, keys.groups) },
                { "tls_key", take_psk, AT(config_host, keys.psk) },
                { NULL, NULL, 0 },
        };

        return reader_object(r, v, keys, at);
}

static bool take_host(struct reader *r, struct json_object *v, void *at)
{
        static const struct key keys[] = {
                { "nqn", take_nqn, AT(config_host, nqn) },
                { "attr", take_host_attr, 0 },
                { NULL, NULL, 0 },
        };
        struct config_host *host = config_add_host(at, "");

        if (!host)
                return reader_no_memory(r);
        if (!reader_object(r, v, keys, host))
                return false;
        if (host->keys.ctrl.len && !host->keys.host.len)
                return reader_complain(r, "attr.dhchap_ctrl_key requires dhchap_key");
        return host->nqn[0] ? true : reader_complain(r, "has no nqn");
}

static bool take_hosts(struct reader *r, struct json_object *v, void *at)
{
        return reader_array(r, v, take_host, at);
}

static bool take_ports(struct reader *r, struct json_object *v, void *at)
{
        return reader_array(r, v, take_port, at);
}

static bool take_subsystems(struct reader *r, struct json_object *v, void *at)
{
        return reader_array(r, v, take_subsystem, at);
}

static bool take_fault(struct reader *r, struct json_object *v, void *at)
{
        char error[300];
        const char *text = reader_text(r, v, FAULT_TEXT);

        if (!text)
                return false;
        return config_add_fault(at, text, error, sizeof(error)) || reader_complain(r, "%s", error);
}

static bool take_faults(struct reader *r, struct json_object *v, void *at)
{
        return reader_array(r, v, take_fault, at);
}

static bool take_trace_file(struct reader *r, struct json_object *v, void *at)
{
        const char *text = reader_text(r, v, PATH_MAX - 1);

        if (text)
                *(char **)at = (char *)text; /* config_set_trace() copies it */
        return text;
}

static bool take_size(struct reader *r, struct json_object *v, void *at)
{
        const char *text = reader_text(r, v, 32);

        return text &&
               (option_size(text, at) == 0 || reader_complain(r, "'%s' is not a size", text));
}

static bool take_number(struct reader *r, struct json_object *v, void *at)
{
        return reader_number(r, v, 1, TRACE_FILES_MAX, at);
}

static bool take_trace(struct reader *r, struct json_object *v, void *at)
{
        static const struct key keys[] = {
                { "file", take_trace_file, offsetof(struct config_trace, file) },
                { "size", take_size, offsetof(struct config_trace, size) },
                { "files", take_number, offsetof(struct config_trace, files) },
                { NULL, NULL, 0 },
        };
        struct config_trace t = { .size = TRACE_SIZE_USUAL, .files = 1 };
        char error[80];

        if (!reader_object(r, v, keys, &t))
                return false;
        if (!t.file)
                return reader_complain(r, "has no file");
        return config_set_trace(at, &t, error, sizeof(error)) || reader_complain(r, "%s", error);
}

static bool take_config(struct reader *r, struct json_object *v, struct config *c)
{
        static const struct key keys[] = {
                { "hosts", take_hosts, 0 },
                { "ports", take_ports, 0 },
                { "subsystems", take_subsystems, 0 },
                { "faults", take_faults, 0 },
                { "trace", take_trace, 0 },
                { "srp", reader_moot, 0 }, /* the section of another family */
                { NULL, NULL, 0 },
        };

        return reader_object(r, v, keys, c);
}

/* --- what one element alone does not show ----------------------------------------------------- */

const struct auth_keys *config_keys(const struct config *c, const struct config_subsystem *s,
                                    const char *hostnqn)
{
        const struct config_host *host;

        for (unsigned i = 0; i < s->n_own; i++)
                if (strcmp(s->own[i].nqn, hostnqn) == 0)
                        return &s->own[i].keys;
        host = config_find_host(c, hostnqn);
        return host && (host->keys.host.len || host->keys.psk.len) ? &host->keys : &s->keys;
}

static bool check_hosts(struct reader *r, const struct config *c, const struct config_subsystem *s)
{
        for (unsigned i = 0; i < s->n_hosts; i++)
                if (!config_find_host(c, s->hosts[i])) {
                        reader_descend(r, ".allowed_hosts[%u]", i);
                        return reader_complain(r, "'%s' is not in hosts", s->hosts[i]);
                }
        return true;
}

static bool check_namespaces(struct reader *r, const struct config_subsystem *s)
{
        for (unsigned i = 0; i < s->n_ns; i++)
                for (unsigned k = 0; k < i; k++)
                        if (s->ns[i].nsid == s->ns[k].nsid) {
                                reader_descend(r, ".namespaces[%u].nsid", i);
                                return reader_complain(r, "%u occurs twice", s->ns[i].nsid);
                        }
        return true;
}

static bool check_subsystem(struct reader *r, const struct config *c, unsigned i)
{
        const struct config_subsystem *s = &c->subsystems[i];
        size_t len = reader_descend(r, "subsystems[%u]", i);

        if (config_find_subsystem(c, s->nqn) != s)
                return reader_complain(r, "nqn '%s' occurs twice", s->nqn);
        if (strcmp(s->nqn, NQN_DISCOVERY) == 0)
                return reader_complain(r, "nqn is the NQN of the discovery service");
        if (!check_hosts(r, c, s) || !check_namespaces(r, s))
                return false;
        r->path[len] = '\0';
        return true;
}

static bool check_port(struct reader *r, const struct config *c, unsigned i)
{
        const struct config_port *p = &c->ports[i];
        size_t len = reader_descend(r, "ports[%u]", i);

        for (unsigned k = 0; k < i; k++)
                if (c->ports[k].id == p->id)
                        return reader_complain(r, "portid %u occurs twice", p->id);
        for (unsigned k = 0; k < p->n_subsystems; k++)
                if (!config_find_subsystem(c, p->subsystems[k])) {
                        reader_descend(r, ".subsystems[%u]", k);
                        return reader_complain(r, "'%s' is not in subsystems", p->subsystems[k]);
                }
        if (p->trtype == TRTYPE_RDMA && p->sectype)
                return reader_complain(r, "addr.tsas: there is no TLS over RDMA");
        if (p->treq == TREQ_SECURE_REQUIRED && !p->sectype)
                return reader_complain(r, "addr.treq is \"required\", addr.tsas not \"tls1.3\"");
        if (p->sectype && !auth_openssl())
                return reader_complain(r, "addr.tsas: built without OpenSSL");
        r->path[len] = '\0';
        return true;
}

/* Of two the one without a key could be the one that counts. */
static bool check_host(struct reader *r, const struct config *c, unsigned i)
{
        if (config_find_host(c, c->hosts[i].nqn) == &c->hosts[i])
                return true;
        reader_descend(r, "hosts[%u]", i);
        return reader_complain(r, "nqn '%s' occurs twice", c->hosts[i].nqn);
}

bool config_check(const struct config *c, const char *what, char *error, size_t size)
{
        struct reader r = { .file = what, .error = error, .size = size };

        for (unsigned i = 0; i < c->n_hosts; i++)
                if (!check_host(&r, c, i))
                        return false;

        for (unsigned i = 0; i < c->n_subsystems; i++)
                if (!check_subsystem(&r, c, i))
                        return false;
        for (unsigned i = 0; i < c->n_ports; i++)
                if (!check_port(&r, c, i))
                        return false;
        return c->n_ports > 0 || reader_complain(&r, "has no ports");
}

/* --- the file --------------------------------------------------------------------------------- */

bool config_load(struct config *c, const char *file, char *error, size_t size)
{
        struct reader r = { .file = file, .error = error, .size = size };
        struct json_object *v = reader_file(&r);
        bool ok;

        *c = (struct config) { 0 };
        ok = v && take_config(&r, v, c) && config_check(c, file, error, size);
        if (ok)
                config_ana_report(c);
        if (v)
                json_object_put(v);
        if (ok && r.has_keys)
                auth_warn_of_readers(file);
        return ok;
}

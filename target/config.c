/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "config_reader.h"
#include "pdu/nvme/io/auth_openssl.h"
#include "target/nvme/ctrl.h"

enum { FILE_MAX = 16 << 20 }; /* bytes of a configuration */

/* --- building --------------------------------------------------------------------------------- */

/* One more element of `each` bytes, zeroed. */
static void *grow(void *array, unsigned *n, size_t each)
{
        char **at = array;
        char *more = realloc(*at, (*n + 1) * each);

        if (!more)
                return NULL;
        *at = more;
        return memset(more + (*n)++ * each, 0, each);
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

struct config_host *config_add_host(struct config *c, const char *nqn)
{
        struct config_host *h = grow(&c->hosts, &c->n_hosts, sizeof(*h));

        if (h)
                strncpy(h->nqn, nqn, sizeof(h->nqn) - 1);
        return h;
}

static void free_strings(char **array, unsigned n)
{
        while (n-- > 0)
                free(array[n]);
        free(array);
}

static void free_subsystem(struct config_subsystem *s)
{
        for (unsigned i = 0; i < s->n_ns; i++)
                free(s->ns[i].path);
        free(s->ns);
        free_strings(s->hosts, s->n_hosts);
}

void config_free(struct config *c)
{
        for (unsigned i = 0; i < c->n_subsystems; i++)
                free_subsystem(&c->subsystems[i]);
        for (unsigned i = 0; i < c->n_ports; i++) {
                free_strings(c->ports[i].subsystems, c->ports[i].n_subsystems);
                free(c->ports[i].referrals);
        }
        free(c->subsystems);
        free(c->ports);
        free(c->hosts);
        *c = (struct config) { 0 };
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

/* TLS is not served: a port that requires a secure channel can't be. */
static bool take_treq(struct reader *r, struct json_object *v, void *at)
{
        static const struct choice words[] = { { "not specified", 0 },
                                               { "not required", 2 },
                                               { NULL, 0 } };

        return reader_choice(r, v, words, at);
}

static bool take_tsas(struct reader *r, struct json_object *v, void *at)
{
        static const struct choice words[] = { { "none", 0 }, { NULL, 0 } };
        uint8_t sectype;

        (void)at;
        return reader_choice(r, v, words, &sectype);
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

static bool take_ns(struct reader *r, struct json_object *v, void *at)
{
        static const struct key keys[] = {
                { "nsid", take_nsid, AT(config_ns, nsid) },
                { "enable", reader_bool, AT(config_ns, enable) },
                { "device", take_device, 0 },
                { "ana", NULL, 0 },
                { "ana_grpid", NULL, 0 },
                { "buffered_io", NULL, 0 },
                { "resv_enable", NULL, 0 },
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
                { "cntlid_min", reader_u16, AT(config_subsystem, cntlid_min) },
                { "cntlid_max", reader_u16, AT(config_subsystem, cntlid_max) },
                { "qid_max", reader_u16, AT(config_subsystem, qid_max) },
                { "ieee_oui", NULL, 0 },
                { "pi_enable", NULL, 0 },
                { "version", NULL, 0 },
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

static bool take_allowed_hosts(struct reader *r, struct json_object *v, void *at)
{
        struct config_subsystem *s = at;

        return reader_array(r, v, take_nqn_string, &(struct strings) { &s->hosts, &s->n_hosts });
}

static bool take_subsystem(struct reader *r, struct json_object *v, void *at)
{
        static const struct key keys[] = {
                { "nqn", take_nqn, AT(config_subsystem, nqn) },
                { "attr", take_attr, 0 },
                { "allowed_hosts", take_allowed_hosts, 0 },
                { "namespaces", take_namespaces, 0 },
                { "passthru", NULL, 0 },
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
                { "tsas", take_tsas, 0 },
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
                { "name", NULL, 0 },
                { NULL, NULL, 0 },
        };
        struct config_port *p = at;
        struct config_referral *ref = grow(&p->referrals, &p->n_referrals, sizeof(*ref));

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

static bool take_port(struct reader *r, struct json_object *v, void *at)
{
        static const struct key keys[] = {
                { "portid", reader_u16, AT(config_port, id) },
                { "addr", take_addr, 0 },
                { "subsystems", take_port_subsystems, 0 },
                { "referrals", take_referrals, 0 },
                { "ana_groups", NULL, 0 },
                { "param", NULL, 0 },
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

/* The place of a name in the list, NULL at its end; -1: it is not there. */
static int place_of(const char *const *names, const char *name)
{
        for (int i = 0; names[i]; i++)
                if (strcmp(names[i], name) == 0)
                        return i;
        return -1;
}

bool config_hash(const char *name, uint8_t *hashes)
{
        static const char *const names[] = { "sha256", "sha384", "sha512", NULL };
        static const char *const kernels[] = { "hmac(sha256)", "hmac(sha384)", "hmac(sha512)",
                                               NULL };
        int i = place_of(names, name);

        if (i < 0)
                i = place_of(kernels, name);
        if (i >= 0)
                *hashes = (uint8_t)(1 << (AUTH_SHA256 + i));
        return i >= 0;
}

bool config_group(const char *name, uint8_t *groups)
{
        static const char *const names[] = { "null",      "ffdhe2048", "ffdhe3072", "ffdhe4096",
                                             "ffdhe6144", "ffdhe8192", NULL };
        int i = place_of(names, name);

        if (i >= 0)
                *groups = (uint8_t)(1 << (AUTH_NO_DH + i));
        return i >= 0;
}

static bool take_secret(struct reader *r, struct json_object *v, void *at)
{
        const char *text = reader_text(r, v, 1024);
        char error[200];

        if (text && text[0] && auth_key_option(at, text, error, sizeof(error)) < 0)
                return reader_complain(r, "%s", error);
        return text;
}

static bool take_hash(struct reader *r, struct json_object *v, void *at)
{
        const char *text = reader_text(r, v, 64);

        if (text && text[0] && !config_hash(text, at))
                return reader_complain(r, "'%s' is not hmac(sha256), hmac(sha384) or hmac(sha512)",
                                       text);
        return text;
}

static bool take_group(struct reader *r, struct json_object *v, void *at)
{
        const char *text = reader_text(r, v, 64);

        if (text && text[0] && !config_group(text, at))
                return reader_complain(
                    r, "'%s' is neither null nor ffdhe2048, 3072, 4096, 6144, 8192", text);
        return text;
}

static bool take_host_attr(struct reader *r, struct json_object *v, void *at)
{
        static const struct key keys[] = {
                { "dhchap_key", take_secret, AT(config_host, keys.host) },
                { "dhchap_ctrl_key", take_secret, AT(config_host, keys.ctrl) },
                { "dhchap_hash", take_hash, AT(config_host, keys.hashes) },
                { "dhchap_dhgroup", take_group, AT(config_host, keys.groups) },
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

static bool take_config(struct reader *r, struct json_object *v, struct config *c)
{
        static const struct key keys[] = {
                { "hosts", take_hosts, 0 },
                { "ports", take_ports, 0 },
                { "subsystems", take_subsystems, 0 },
                { NULL, NULL, 0 },
        };

        return reader_object(r, v, keys, c);
}

/* --- what one element alone does not show ----------------------------------------------------- */

static const struct config_host *find_host(const struct config *c, const char *nqn)
{
        for (unsigned i = 0; i < c->n_hosts; i++)
                if (strcmp(c->hosts[i].nqn, nqn) == 0)
                        return &c->hosts[i];
        return NULL;
}

const struct auth_keys *config_keys(const struct config *c, const struct config_subsystem *s,
                                    const char *hostnqn)
{
        const struct config_host *host = find_host(c, hostnqn);

        return host && host->keys.host.len ? &host->keys : &s->keys;
}

static bool has_subsystem(const struct config *c, unsigned n, const char *nqn)
{
        for (unsigned i = 0; i < n; i++)
                if (strcmp(c->subsystems[i].nqn, nqn) == 0)
                        return true;
        return false;
}

static bool check_hosts(struct reader *r, const struct config *c, const struct config_subsystem *s)
{
        for (unsigned i = 0; i < s->n_hosts; i++)
                if (!find_host(c, s->hosts[i])) {
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

        if (has_subsystem(c, i, s->nqn))
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
                if (!has_subsystem(c, c->n_subsystems, p->subsystems[k])) {
                        reader_descend(r, ".subsystems[%u]", k);
                        return reader_complain(r, "'%s' is not in subsystems", p->subsystems[k]);
                }
        r->path[len] = '\0';
        return true;
}

bool config_check(const struct config *c, const char *what, char *error, size_t size)
{
        struct reader r = { .file = what, .error = error, .size = size };

        for (unsigned i = 0; i < c->n_subsystems; i++)
                if (!check_subsystem(&r, c, i))
                        return false;
        for (unsigned i = 0; i < c->n_ports; i++)
                if (!check_port(&r, c, i))
                        return false;
        return c->n_ports > 0 || reader_complain(&r, "has no ports");
}

/* --- the file --------------------------------------------------------------------------------- */

/* More than it has, where that is known; a pipe may have anything. */
static size_t room_for(FILE *f)
{
        struct stat st;
        bool known = fstat(fileno(f), &st) == 0 && st.st_size > 0 && st.st_size < FILE_MAX;

        return known ? (size_t)st.st_size + 1 : FILE_MAX;
}

static char *read_file(struct reader *r, size_t *len)
{
        FILE *f = fopen(r->file, "re");
        size_t room = f ? room_for(f) : 0;
        char *text = f ? malloc(room) : NULL;

        if (!text) {
                reader_complain(r, "%s", strerror(errno));
                if (f)
                        fclose(f);
                return NULL;
        }
        *len = fread(text, 1, room, f);
        if (ferror(f) || *len == room) {
                reader_complain(r, "%s", ferror(f) ? strerror(errno) : "too large");
                free(text);
                text = NULL;
        }
        fclose(f);
        return text;
}

static unsigned line_of(const char *text, size_t offset)
{
        unsigned line = 1;

        for (size_t i = 0; i < offset; i++)
                line += text[i] == '\n';
        return line;
}

static struct json_object *parse(struct reader *r, const char *text, size_t len)
{
        struct json_tokener *tok = json_tokener_new();
        struct json_object *v = tok ? json_tokener_parse_ex(tok, text, (int)len) : NULL;
        enum json_tokener_error e = tok ? json_tokener_get_error(tok) : json_tokener_error_depth;
        size_t end = tok ? json_tokener_get_parse_end(tok) : 0;

        while (v && end < len && isspace((unsigned char)text[end]))
                end++;
        if (!v && e == json_tokener_success) /* null */
                reader_complain(r, "an object is expected");
        else if (!v)
                reader_complain(r, "line %u: %s", line_of(text, end < len ? end : len),
                                e == json_tokener_continue ? "unexpected end of the file"
                                                           : json_tokener_error_desc(e));
        else if (end < len)
                reader_complain(r, "line %u: unexpected text after the end", line_of(text, end));
        if (v && end < len) {
                json_object_put(v);
                v = NULL;
        }
        if (tok)
                json_tokener_free(tok);
        return v;
}

bool config_load(struct config *c, const char *file, char *error, size_t size)
{
        struct reader r = { .file = file, .error = error, .size = size };
        struct json_object *v = NULL;
        size_t len = 0;
        char *text;
        bool ok;

        *c = (struct config) { 0 };
        text = read_file(&r, &len);
        if (text)
                v = parse(&r, text, len);
        free(text);
        ok = v && take_config(&r, v, c) && config_check(c, file, error, size);
        if (v)
                json_object_put(v);
        return ok;
}

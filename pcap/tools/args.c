/* SPDX-License-Identifier: BSD-3-Clause */
#include "args.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

void args_init(struct args *a, const struct trace_family *const *families)
{
        *a = (struct args) { .families = families,
                             .output = "text",
                             .qid = ARG_ANY,
                             .cid = ARG_ANY,
                             .status = ARG_ANY,
                             .nsid = 1,
                             .kind = "data" };
}

/* --- secrets ---------------------------------------------------------------------------------- */

static bool get_secrets(struct args *a, char *error, size_t size)
{
        const struct trace_secrets *s = a->families[0]->secrets;

        if (!s)
                snprintf(error, size, "%s is not decrypted", a->families[0]->name);
        else if (!a->secrets && !(a->secrets = calloc(1, s->size)))
                snprintf(error, size, "out of memory");
        return a->secrets;
}

static bool take_keylog(void *args, const char *value, char *error, size_t size)
{
        struct args *a = args;

        return get_secrets(a, error, size) &&
               a->families[0]->secrets->take_keylog(a->secrets, value, error, size);
}

static bool take_tls_key(void *args, const char *value, char *error, size_t size)
{
        struct args *a = args;

        return get_secrets(a, error, size) &&
               a->families[0]->secrets->take_tls_key(a->secrets, value, error, size);
}

bool args_open(struct args *a, const char *file, char *error, size_t size)
{
        const struct trace_secrets *s = a->families[0]->secrets;

        return !s || (get_secrets(a, error, size) &&
                      s->open(a->secrets, file, &a->trace.tls, error, size));
}

void args_free(struct args *a)
{
        if (a->secrets)
                a->families[0]->secrets->close(a->secrets);
        free(a->secrets);
}

/* --- values with a syntax of their own -------------------------------------------------------- */

bool args_take_port(void *trace_options, const char *value, char *error, size_t size)
{
        uint16_t *ports = ((struct trace_options *)trace_options)->ports;
        uint64_t port;
        unsigned n = 0;

        while (n < TRACE_PORTS && ports[n])
                n++;
        if (option_number(value, &port) < 0 || port < 1 || port > UINT16_MAX)
                snprintf(error, size, "'%s' is not a port", value);
        else if (n == TRACE_PORTS)
                snprintf(error, size, "given more than %d times", TRACE_PORTS);
        else
                ports[n] = (uint16_t)port;
        return !*error;
}

/* The family whose queue pairs can be named with this word. */
static bool take_word(const struct args *a, const char *word, struct trace_told *told)
{
        for (unsigned i = 0; a->families[i]; i++) {
                const struct trace_family *f = a->families[i];

                if (f->told && (told->how = f->told(word)) >= 0) {
                        told->family = f;
                        return true;
                }
        }
        return false;
}

static bool take_queue_pairs(void *args, const char *value, char *error, size_t size)
{
        enum { QPN_MAX = 0xffffff };
        struct args *a = args;
        struct trace_told told = { 0 };
        unsigned n = 0;
        char word[16] = "", *end;
        unsigned long host = strtoul(value, &end, 0), controller = 0;

        if (*end == ':')
                controller = strtoul(end + 1, &end, 0);
        if (*end == ':')
                snprintf(word, sizeof(word), "%s", end + 1);
        while (a->trace.told[n].family)
                n++;
        told.qpn[PARTY_HOST] = (uint32_t)host;
        told.qpn[PARTY_CONTROLLER] = (uint32_t)controller;
        if (host == 0 || controller == 0 || host > QPN_MAX || controller > QPN_MAX ||
            (*end && *end != ':') || !take_word(a, word, &told))
                snprintf(error, size, "'%s' is not two queue pairs, as 0x11:0x12 or 17:18:3.0",
                         value);
        else if (host == controller)
                snprintf(error, size, "'%s' does not tell whose end is which", value);
        else if (n == TRACE_TOLD)
                snprintf(error, size, "given more than %d times", TRACE_TOLD);
        else
                a->trace.told[n] = told;
        return !*error;
}

static bool take_waived(void *args, const char *value, char *error, size_t size)
{
        struct args *a = args;
        unsigned i = 0;

        do {
                unsigned rule = rulebook_by_name(a->families[i]->family->rules, value);

                if (rule != RULE_NONE) {
                        rule_add(&a->waived[i], rule);
                        return true;
                }
        } while (a->families[++i]);
        return option_rule(a->families[0]->family->rules, &a->waived[0], value, error, size);
}

static bool take_number(const char *value, int *out, char *error, size_t size)
{
        uint64_t n;

        if (option_number(value, &n) < 0 || n > UINT16_MAX) {
                snprintf(error, size, "'%s' is not a number from 0 to 65535", value);
                return false;
        }
        *out = (int)n;
        return true;
}

static bool take_qid(void *args, const char *value, char *error, size_t size)
{
        return take_number(value, &((struct args *)args)->qid, error, size);
}

static bool take_cid(void *args, const char *value, char *error, size_t size)
{
        uint64_t n;

        if (option_number(value, &n) < 0 || n > INT64_MAX) {
                snprintf(error, size, "'%s' is not a number", value);
                return false;
        }
        ((struct args *)args)->cid = (int64_t)n;
        return true;
}

/* "error", or SCT/SC in hex as specifications write it: 0/0F, 1/82h; or one number. */
static bool take_status(void *args, const char *value, char *error, size_t size)
{
        struct args *a = args;
        unsigned sct, sc;
        char end;

        if (strcmp(value, "error") == 0) {
                a->status = STATUS_ANY_ERROR;
                return true;
        }
        if (sscanf(value, "%x/%x%c", &sct, &sc, &end) == 2 ||
            (sscanf(value, "%x/%x%c", &sct, &sc, &end) == 3 && end == 'h')) {
                if (sct <= 7 && sc <= 255) {
                        a->status = (int)(sct << 8 | sc);
                        return true;
                }
        } else if (strchr(value, '/') == NULL) {
                return take_number(value, &a->status, error, size);
        }
        snprintf(error, size, "'%s' is not a status: error, SCT/SC in hex, or a number", value);
        return false;
}

/* The name of any command. */
static bool is_opcode_name(const struct args *a, const char *value)
{
        for (unsigned i = 0; a->families[i]; i++)
                if (a->families[i]->has_command && a->families[i]->has_command(value))
                        return true;
        return false;
}

static bool take_opcode(void *args, const char *value, char *error, size_t size)
{
        uint64_t n;
        bool number = option_number(value, &n) == 0;

        if (number ? n > UINT8_MAX : !is_opcode_name(args, value)) {
                snprintf(error, size, "'%s' is neither an opcode nor the name of a command", value);
                return false;
        }
        ((struct args *)args)->opcode = value;
        return true;
}

#define AT(member) .at = offsetof(struct args, member)

/* clang-format off */
const struct option_row pcap_options[] = {
        { 's', "trsvcid", "PORT", "port of controllers, repeatable (4420 and 8009; what begins "
                                  "as NVMe/TCP or MPA is recognised on any port)", OPTION_CALL, UINT32_MAX, .call = args_take_port },
        { 0, "qp", "QPN:QPN", "queue pairs of a service and of its target that are a connection, where the capture does not say so: "
                              "of DOCA, with :DIALECT (3.2); repeatable", OPTION_CALL, ARGS_TOLD, .call = take_queue_pairs },
        { 0, "keylog", "FILE", "decrypt TLS 1.3 with this key log (SSLKEYLOGFILE's format); repeatable", OPTION_CALL, ARGS_KEYS, .call = take_keylog },
        { 0, "tls-key", "KEY", "decrypt TLS 1.3 whose handshakes used this configured PSK without (EC)DHE: "
                               "NVMeTLSkey-1:..., or @FILE that contains it", OPTION_CALL, ARGS_KEYS, .call = take_tls_key },
        { 'o', "output", "FORMAT", "text or json: one object per line, with \"schema\": 1 (text)", OPTION_CHOICE, ARGS_OUTPUT, AT(output), .choices = "text|json" },
        { 'v', "verbose", NULL, "show all fields", OPTION_FLAG, ARGS_VERBOSE, AT(verbose) },
        { 'c', "conn", "N", "only this connection, as numbered by `show`", OPTION_NUMBER, ARGS_FILTER | ARGS_CONN | ARGS_ANON, AT(conn), .min = 1, .max = UINT32_MAX },
        { 'q', "qid", "N", "only this queue", OPTION_CALL, ARGS_FILTER | ARGS_CONN, .call = take_qid },
        { 0, "cid", "N", "only this command identifier, or tag", OPTION_CALL, ARGS_FILTER, .call = take_cid },
        { 0, "opcode", "OPC", "only commands of this opcode or name, with what belongs to them: "
                              "0x02, read, \"get log page\"", OPTION_CALL, ARGS_FILTER, .call = take_opcode },
        { 0, "status", "ST", "only completions with this status: error, SCT/SC in hex (0/0F), or a number", OPTION_CALL, ARGS_FILTER, .call = take_status },
        { 0, "violations", NULL, "only what breaks a rule", OPTION_FLAG, ARGS_FILTER, AT(violations) },
        { 0, "count", NULL, "only count PDUs, commands and statuses, without checking rules", OPTION_FLAG, ARGS_COUNT, AT(count) },
        { 0, "waive", "RULE", "do not check this rule; repeatable", OPTION_CALL, ARGS_JUDGE, .call = take_waived },
        { 0, "all", NULL, "report each violation, not only the first one of a connection", OPTION_FLAG, ARGS_ALL, AT(all) },
        { 0, "strict", NULL, "also check rules of level should", OPTION_FLAG, ARGS_ALL, AT(strict) },
        { 0, "html", "PATH", "also write an HTML page with plots", OPTION_STRING, ARGS_HTML, AT(html) },
        { 0, "interval", "MS", "interval of the plots over time in milliseconds", OPTION_NUMBER, ARGS_HTML, AT(interval), .min = 1, .max = 86400000 },
        { 't', "to", "PATH", "file to write to", OPTION_STRING, ARGS_TO, AT(to) },
        { 'k', "kind", "WHAT", "data: blocks that were read or written, as a sparse image; "
                               "sequence: one line of JSON per command; seeds: a folder (data)", OPTION_CHOICE, ARGS_EXTRACT, AT(kind), .choices = "data|sequence|seeds" },
        { 'N', "nsid", "N", "namespace (1)", OPTION_NUMBER, ARGS_EXTRACT, AT(nsid), .min = 1, .max = UINT32_MAX },
        { 0, "slba", "LBA", "first logical block (0)", OPTION_NUMBER, ARGS_EXTRACT, AT(slba), .max = INT64_MAX },
        { 0, "blocks", "N", "logical blocks (all)", OPTION_NUMBER, ARGS_EXTRACT, AT(blocks), .min = 1, .max = INT64_MAX },
        { 0, "block-size", "BYTES", "bytes of a logical block (as Identify reported)", OPTION_NUMBER, ARGS_EXTRACT, AT(block_size), .min = 512, .max = 1 << 20 },
        { 0, "keep-data", NULL, "leave the data of I/O commands as it is", OPTION_FLAG, ARGS_ANON, AT(keep_data) },
        { 0, "seed", "N", "the key, to get the same result again; anybody who knows it can test "
                          "guesses of names (a random one that is not kept)", OPTION_NUMBER, ARGS_ANON, AT(seed), .min = 1 },
        { 'h', "help", NULL, "this", OPTION_FLAG, UINT32_MAX, AT(help) },
        { .name = NULL },
};
/* clang-format on */

/* --- filters ---------------------------------------------------------------------------------- */

static bool is_opcode(const char *wanted, const struct trace_command *c)
{
        uint64_t n;

        if (option_number(wanted, &n) == 0)
                return c->code == n;
        return strcasecmp(c->name, wanted) == 0;
}

static bool is_status(int wanted, const struct trace_view *v)
{
        return wanted == STATUS_ANY_ERROR ? v->error : (int)v->status == wanted;
}

uint64_t args_key(const struct args *a, const struct trace_family *family, unsigned rank)
{
        uint64_t i = 0;

        while (a->families[i] != family)
                i++;
        return i << 32 | rank;
}

bool args_select_conn(const struct args *a, const struct trace_conn *c)
{
        return (!a->conn || a->conn == c->number) &&
               (a->qid == ARG_ANY || (c->family->queue && c->family->queue(c) == a->qid));
}

bool args_select(const struct args *a, const struct trace_record *r)
{
        struct trace_view v = { 0 };

        if (!args_select_conn(a, r->e->conn) || (a->violations && !r->broken))
                return false;
        if (a->cid == ARG_ANY && !a->opcode && a->status == ARG_ANY)
                return true;
        if (r->e->conn->family->view)
                r->e->conn->family->view(&v, r->record);
        if (a->cid != ARG_ANY && (!v.known || v.command.id != (uint64_t)a->cid))
                return false;
        if (a->opcode && (!v.command.name || !is_opcode(a->opcode, &v.command)))
                return false;
        return a->status == ARG_ANY || (v.answers && is_status(a->status, &v));
}

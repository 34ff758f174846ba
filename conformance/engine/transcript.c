/* SPDX-License-Identifier: BSD-3-Clause */
#include "transcript.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "family.h"
#include "pdu/io/capture/capture_writer.h"

/* --- the capture --------------------------------------------------------------------------- */

enum { PORT_BASE = 50000 };

static struct sockaddr_in made_up(uint32_t host, unsigned port)
{
        return (struct sockaddr_in) { .sin_family = AF_INET,
                                      .sin_port = htons((uint16_t)port),
                                      .sin_addr.s_addr = htonl(host) };
}

static void open_flow(struct capture_writer *w, struct capture_flow *f, uint16_t port, unsigned no,
                      uint64_t at, const char *id)
{
        struct sockaddr_in host = made_up(0x0a000001, PORT_BASE + no % 10000);
        struct sockaddr_in controller = made_up(0x0a000002, port);

        f->comment = id;
        capture_flow_open(w, f, (struct sockaddr *)&host, (struct sockaddr *)&controller,
                          (int64_t)at * 1000);
}

static void write_chunk(struct capture_writer *w, struct capture_flow *f, const struct exchange *x,
                        const struct exchange_chunk *c)
{
        enum party who = c->sent ? PARTY_HOST : PARTY_CONTROLLER;
        int64_t at = (int64_t)c->at * 1000;

        if (c->kind == CHUNK_DATA)
                capture_flow_data(w, f, who, x->bytes + c->offset, c->len, at);
        else
                capture_flow_close(w, f, who, c->kind == CHUNK_RST, at);
}

/* What comes after the end of a connection is not written: its sequence numbers are used up. */
static bool write_chunks(struct capture_writer *w, const struct t *t, unsigned first)
{
        const struct exchange *x = &t->log;
        unsigned connections = t->connections;
        enum { UNKNOWN, OPEN, CLOSED };
        struct capture_flow *flows = calloc(connections + 1, sizeof(*flows));
        uint8_t *state = calloc(connections + 1, sizeof(*state));

        for (size_t i = 0; flows && state && i < x->chunk_count; i++) {
                const struct exchange_chunk *c = &x->chunks[i];

                if (state[c->conn] == UNKNOWN)
                        open_flow(w, &flows[c->conn], t->suite->family->port, first + c->conn,
                                  c->at, t->test->id);
                if (state[c->conn] != CLOSED)
                        write_chunk(w, &flows[c->conn], x, c);
                state[c->conn] = c->kind == CHUNK_DATA && state[c->conn] != CLOSED ? OPEN : CLOSED;
        }
        free(flows);
        free(state);
        return flows && state;
}

static bool write_capture(const char *path, const struct t *t)
{
        char error[RESULT_TEXT];
        struct capture_writer *w = capture_writer_open(path, error, sizeof(error));

        if (!w)
                return false;
        if (!write_chunks(w, t, 0))
                errno = ENOMEM;
        return capture_writer_close(w) == 0;
}

void transcript_record(struct capture_writer *w, const struct t *t)
{
        static _Atomic unsigned used; /* ports, by all cases of this process */
        unsigned first = atomic_fetch_add(&used, t->connections + 1);

        write_chunks(w, t, first);
}

static bool copy(FILE *from, FILE *to)
{
        char buf[16384];
        size_t n;

        while ((n = fread(buf, 1, sizeof(buf), from)) > 0)
                if (fwrite(buf, 1, n, to) != n)
                        return false;
        return !ferror(from);
}

/* A play's own, as it is. */
static bool copy_capture(const char *path, const struct t *t)
{
        FILE *from = fopen(t->capture, "r"), *to = from ? fopen(path, "w") : NULL;
        bool done = to && copy(from, to);

        if (to && fclose(to) != 0)
                done = false;
        if (from)
                fclose(from);
        return done;
}

/* path: without suffix. */
static bool keep_capture(const char *path, const struct t *t)
{
        char file[sizeof(t->result->transcript) + 8];

        snprintf(file, sizeof(file), "%s.pcap", path);
        if (t->capture[0])
                return copy_capture(file, t);
        return t->suite->verbs || write_capture(file, t);
}

/* --- the text ------------------------------------------------------------------------------ */

static void write_head(FILE *f, const struct result *r, const struct t *t)
{
        const struct rule *rule = t_rule(t, r->rule);

        fprintf(f, "%s: %s\n%s\n\n", r->id, verdict_name(r->verdict), t->test->says);
        if (t->suite->role == ROLE_TARGET)
                fprintf(f, "target    %s port %s, %s\n", t->suite->traddr, t->suite->trsvcid,
                        t->suite->family->entity(t->suite));
        if (r->expected[0])
                fprintf(f, "expected  %s\n", r->expected);
        if (r->seen[0])
                fprintf(f, "seen      %s\n", r->seen);
        if (rule)
                fprintf(f, "rule      %s (%s)\n          %s\n", rule->id, rule->source, rule->says);
        for (unsigned i = 0; i < r->notice_count; i++)
                fprintf(f, "noticed   %s: %s\n", t_rule(t, r->notices[i].rule)->id,
                        r->notices[i].line);
        fprintf(f, "\n");
}

/* The fields of a message below its line. */
static void write_fields(FILE *f, const struct conform_family *family,
                         const struct exchange_line *l)
{
        char buf[4096];
        char *rest = buf, *line;

        family->fields(l, buf, sizeof(buf));
        while ((line = strsep(&rest, "\n")) && rest)
                fprintf(f, "                    %s\n", line);
}

static void write_lines(FILE *f, const struct conform_family *family, const struct exchange *x)
{
        char line[EXCHANGE_LINE + 64];

        if (x->dropped > 0)
                fprintf(f, "(%u earlier lines were dropped)\n", x->dropped);
        for (unsigned i = 0; i < x->count; i++) {
                const struct exchange_line *l = exchange_line(x, i);

                exchange_format(l, exchange_line(x, 0)->at, line, sizeof(line));
                fprintf(f, "%s\n", line);
                if (l->kind)
                        write_fields(f, family, l);
        }
        if (x->cut)
                fprintf(f, "(the capture ends after %d MiB)\n", EXCHANGE_BYTES >> 20);
}

static bool write_text(const char *path, const struct result *r, const struct t *t)
{
        FILE *f = fopen(path, "w");

        if (!f)
                return false;
        write_head(f, r, t);
        write_lines(f, t->suite->family, &t->log);
        return fclose(f) == 0;
}

/* --- both ---------------------------------------------------------------------------------- */

static void make_path(char *path, size_t size, const char *folder, const char *id)
{
        size_t at = (size_t)snprintf(path, size, "%s/", folder);

        snprintf(path + at, size - at, "%s", id);
        for (char *p = path + at; *p; p++)
                if (*p == '/')
                        *p = '_';
}

void transcript_write(const char *folder, struct result *r, struct t *t)
{
        char path[sizeof(r->transcript)], file[sizeof(path) + 8];

        if (mkdir(folder, 0777) != 0 && errno != EEXIST) {
                note(t, "no transcript: %s: %s", folder, strerror(errno));
                return;
        }
        if (strlen(folder) + strlen(r->id) + 2 > sizeof(path)) {
                note(t, "no transcript: the path is too long");
                return;
        }
        make_path(path, sizeof(path), folder, r->id);
        snprintf(file, sizeof(file), "%s.txt", path);
        if (write_text(file, r, t) && keep_capture(path, t))
                snprintf(r->transcript, sizeof(r->transcript), "%s", path);
        else
                note(t, "no transcript: %s: %s", path, strerror(errno));
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "ns_resv.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "target/ns/ns_backend.h"

#define container(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

enum {
        CHANGES =
            64 /* that one write of the file is for: who is to be told is in memory until they end */
};

void ns_resv_init(struct ns_resv *v)
{
        v->last = &v->waiting;
        pthread_mutex_init(&v->lock, NULL);
}

void ns_resv_fini(struct ns_resv *v)
{
        pthread_mutex_destroy(&v->lock);
        free(v->state);
        free(v->path);
}

/* --- the file ----------------------------------------------------------------------------------- */

/*
 * Lines of text: the format, generation and type; then each registrant with its host, its key and
 * whether it is the holder of a type that one host holds; "end".
 */
static const char head[] = "nvmfspec reservations 1\n";

static void print_hostid(FILE *f, const uint8_t hostid[16])
{
        for (unsigned i = 0; i < 16; i++)
                fprintf(f, "%02x", hostid[i]);
}

static void print_state(FILE *f, const struct reservation *r)
{
        fprintf(f, "%sgeneration %" PRIu32 " type %u\n", head, r->gen, r->type);
        for (unsigned i = 0; i < r->count; i++) {
                const struct registrant *g = &r->registrant[i];
                bool holder = r->type && memcmp(g->hostid, r->holder, 16) == 0;

                fprintf(f, "host ");
                print_hostid(f, g->hostid);
                fprintf(f, " key %016" PRIx64 "%s\n", g->key, holder ? " holder" : "");
        }
        fprintf(f, "end\n");
}

static bool read_hostid(const char *hex, uint8_t hostid[16])
{
        if (strlen(hex) != 32 || strspn(hex, "0123456789abcdef") != 32)
                return false;
        for (unsigned i = 0; i < 16; i++) {
                char byte[3] = { hex[2 * i], hex[2 * i + 1], '\0' };

                hostid[i] = (uint8_t)strtoul(byte, NULL, 16);
        }
        return true;
}

static bool read_host(const char *line, struct reservation *r)
{
        struct registrant *g = &r->registrant[r->count];
        char hex[40], key[20], holder[8] = "";
        int n = sscanf(line, "host %39s key %19s %7s", hex, key, holder);

        if (n < 2 || r->count == RESERVATION_REGISTRANTS || !read_hostid(hex, g->hostid) ||
            strlen(key) != 16 || strspn(key, "0123456789abcdef") != 16 ||
            (n == 3 && strcmp(holder, "holder") != 0))
                return false;
        g->key = strtoull(key, NULL, 16);
        if (n == 3)
                memcpy(r->holder, g->hostid, 16);
        r->count++;
        return true;
}

static bool makes_sense(const struct reservation *r)
{
        static const uint8_t nobody[16];

        if (r->type > EXCLUSIVE_ACCESS_ALL || (r->type && r->count == 0))
                return false;
        return !r->type || r->type >= WRITE_EXCLUSIVE_ALL || memcmp(r->holder, nobody, 16) != 0;
}

/* A file that is cut, or anybody else's, is not taken for one that has nothing. */
static bool read_state(FILE *f, struct reservation *r)
{
        char line[128];
        unsigned type;

        *r = (struct reservation) { .ptpl = true };
        if (!fgets(line, sizeof(line), f) || strcmp(line, head) != 0 ||
            !fgets(line, sizeof(line), f) ||
            sscanf(line, "generation %" SCNu32 " type %u", &r->gen, &type) != 2 || type > UINT8_MAX)
                return false;
        r->type = (uint8_t)type;
        while (fgets(line, sizeof(line), f)) {
                if (strcmp(line, "end\n") == 0)
                        return makes_sense(r);
                if (!read_host(line, r))
                        return false;
        }
        return false;
}

/* Text, or an error of the disk: false. */
static bool write_file(const char *path, const struct reservation *r)
{
        int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
        bool good;

        if (!f) {
                if (fd >= 0)
                        close(fd);
                return false;
        }
        print_state(f, r);
        good = fflush(f) == 0 && fsync(fd) == 0;
        return fclose(f) == 0 && good;
}

static bool replace_file(const char *path, const struct reservation *r)
{
        char fresh[PATH_MAX];

        if ((size_t)snprintf(fresh, sizeof(fresh), "%s.new", path) >= sizeof(fresh))
                return false;
        if (write_file(fresh, r) && rename(fresh, path) == 0)
                return ns_sync_folder(path);
        unlink(fresh);
        return false;
}

static bool remove_file(const char *path)
{
        return unlink(path) == 0 ? ns_sync_folder(path) : errno == ENOENT;
}

static bool is_kept(const struct ns_resv *v, bool was_ptpl, const struct reservation *next)
{
        return v->path && (was_ptpl || next->ptpl);
}

/* `next` is on the disk, as far as it has to be, when this returns true. */
static bool persist(const struct ns_resv *v, bool was_ptpl, const struct reservation *next)
{
        if (!is_kept(v, was_ptpl, next))
                return true;
        return next->ptpl ? replace_file(v->path, next) : remove_file(v->path);
}

static char *path_beside(const char *path)
{
        static const char suffix[] = ".reservations";
        char real[PATH_MAX], *beside;

        if (!realpath(path, real))
                return NULL;
        beside = malloc(strlen(real) + sizeof(suffix));
        if (beside)
                sprintf(beside, "%s%s", real, suffix);
        return beside;
}

const char *ns_resv_restore(struct ns_resv *v, const char *path, char why[256])
{
        const char *wrong = NULL;
        FILE *f;

        v->path = path_beside(path);
        if (!v->path)
                return strerror(errno);
        f = fopen(v->path, "re");
        if (!f)
                return errno == ENOENT ? NULL : strerror(errno);
        v->state = malloc(sizeof(*v->state));
        if (!v->state)
                wrong = strerror(ENOMEM);
        else if (!read_state(f, v->state))
                wrong = "its reservations cannot be read: repair or remove the file";
        fclose(f);
        if (!wrong)
                v->type = v->state->type;
        else
                snprintf(why, 256, "%s %.180s", wrong, v->path);
        return wrong ? why : NULL;
}

/* --- what is shared ----------------------------------------------------------------------------- */

static const struct reservation nothing;

static const struct reservation *state_of(const struct ns_resv *v)
{
        return v->state ? v->state : &nothing;
}

/* Under the lock: the state from here on, or with NULL the one that there was. */
static void publish(struct ns_resv *v, struct reservation *next)
{
        if (!next)
                return;
        free(v->state);
        v->state = next;
        atomic_store(&v->type, next->type);
}

bool ns_resv_supported(const struct ns *ns)
{
        return !ns_resv_of(ns)->unsupported;
}

void ns_resv_clear_all(struct ns *ns)
{
        struct ns_resv *v = ns_resv_of(ns);

        pthread_mutex_lock(&v->lock);
        free(v->state);
        v->state = NULL;
        atomic_store(&v->type, 0);
        pthread_mutex_unlock(&v->lock);
}

/* --- changes ------------------------------------------------------------------------------------ */

/* Whom to tell; false: out of memory. */
static bool list_notices(struct ns_resv_change *c, const struct reservation *was,
                         const uint8_t notices[])
{
        for (unsigned i = 0; i < was->count; i++) {
                if (!notices[i])
                        continue;
                if (!c->notices && !(c->notices = calloc(1, sizeof(*c->notices))))
                        return false;
                memcpy(c->notices->of[c->notices->count].hostid, was->registrant[i].hostid, 16);
                c->notices->of[c->notices->count++].notice = notices[i];
        }
        return true;
}

static void fail(struct ns_resv_change *c)
{
        c->status = NVME_INTERNAL_ERROR;
        free(c->notices);
        c->notices = NULL;
}

/* What c makes of `was`, in `next`. */
static void compute(struct ns_resv_change *c, const struct reservation *was,
                    struct reservation *next)
{
        uint8_t notices[RESERVATION_REGISTRANTS];

        c->status = 0;
        if (!c->cmd) {
                *next = *was;
                next->ptpl = c->ptpl;
                return;
        }
        c->status = reservation_run(was, c->cmd, next, notices);
        if (!c->status && !list_notices(c, was, notices))
                fail(c);
}

/* Under the lock. False: it has to wait for the disk. */
static bool apply_now(struct ns_resv *v, struct ns_resv_change *c)
{
        struct reservation *next = malloc(sizeof(*next));
        bool kept;

        if (!next) {
                fail(c);
                return true;
        }
        compute(c, state_of(v), next);
        kept = !c->status && is_kept(v, state_of(v)->ptpl, next);
        if (!kept && !c->status) {
                publish(v, next);
                return true;
        }
        free(next);
        free(c->notices);
        c->notices = NULL;
        return !kept;
}

/* Under the lock: the next ones that one write is for. */
static struct ns_resv_change *take_waiting(struct ns_resv *v)
{
        struct ns_resv_change *list = v->waiting, **end = &v->waiting;

        for (unsigned n = 0; *end && n < CHANGES; n++)
                end = &(*end)->next;
        v->waiting = *end;
        *end = NULL;
        if (!v->waiting)
                v->last = &v->waiting;
        return list;
}

/* What the list makes of `was`, one after the other, from malloc(); NULL: nothing, or (false) there is no memory. */
static bool compute_all(struct ns_resv_change *list, const struct reservation *was,
                        struct reservation **state)
{
        struct reservation *now = malloc(sizeof(*now)), *next = malloc(sizeof(*next)), *swap;
        bool good = now && next, any = false;

        if (good)
                *now = *was;
        for (struct ns_resv_change *c = good ? list : NULL; c; c = c->next) {
                compute(c, now, next);
                if (c->status)
                        continue;
                swap = now;
                now = next;
                next = swap;
                any = true;
        }
        free(next);
        if (!any)
                free(now);
        *state = any ? now : NULL;
        return good;
}

static void write_later(struct ns_resv_change *c);

/* On the thread that waits for the disk, or where there is none. Only here, while `writing`, does the state change. */
static void write_waiting(struct ns_wait *on)
{
        struct ns_resv_change *c = container(on, struct ns_resv_change, on), *list, *more;
        struct ns_resv *v = ns_resv_of(c->ns);
        struct reservation *was = ns_resv_copy(c->ns), *next = NULL;
        bool good;

        pthread_mutex_lock(&v->lock);
        list = take_waiting(v);
        pthread_mutex_unlock(&v->lock);
        good = was && compute_all(list, was, &next) && (!next || persist(v, was->ptpl, next));
        pthread_mutex_lock(&v->lock);
        publish(v, good ? next : NULL);
        more = v->waiting;
        v->writing = more;
        pthread_mutex_unlock(&v->lock);
        if (!good)
                free(next);
        free(was);
        if (more)
                write_later(more);
        for (; list; list = c) {
                c = list->next;
                if (!good)
                        fail(list);
                list->done(list);
        }
}

static void write_later(struct ns_resv_change *c)
{
        c->on = (struct ns_wait) { .done = write_waiting };
        if (!ns_defer(c->ns, &c->on))
                write_waiting(&c->on);
}

bool ns_resv_apply(struct ns *ns, struct ns_resv_change *c)
{
        struct ns_resv *v = ns_resv_of(ns);
        bool done, first;

        c->ns = ns;
        c->notices = NULL;
        c->next = NULL;
        pthread_mutex_lock(&v->lock);
        first = !v->writing;
        done = first && apply_now(v, c);
        if (!done) {
                *v->last = c;
                v->last = &c->next;
                v->writing = true;
        }
        pthread_mutex_unlock(&v->lock);
        if (!done && first)
                write_later(c);
        return done;
}

/* --- questions ---------------------------------------------------------------------------------- */

struct reservation *ns_resv_copy(struct ns *ns)
{
        struct ns_resv *v = ns_resv_of(ns);
        struct reservation *copy = malloc(sizeof(*copy));

        if (!copy)
                return NULL;
        pthread_mutex_lock(&v->lock);
        *copy = *state_of(v);
        pthread_mutex_unlock(&v->lock);
        return copy;
}

bool ns_resv_allows(struct ns *ns, const uint8_t hostid[16], bool writes,
                    const struct rule_policy *policy)
{
        struct ns_resv *v = ns_resv_of(ns);
        bool allowed;

        if (!atomic_load_explicit(&v->type, memory_order_acquire))
                return true;
        pthread_mutex_lock(&v->lock);
        allowed = reservation_allows(v->state, hostid, writes, policy);
        pthread_mutex_unlock(&v->lock);
        return allowed;
}

bool ns_resv_ptpl(struct ns *ns)
{
        struct ns_resv *v = ns_resv_of(ns);
        bool ptpl;

        pthread_mutex_lock(&v->lock);
        ptpl = state_of(v)->ptpl;
        pthread_mutex_unlock(&v->lock);
        return ptpl;
}

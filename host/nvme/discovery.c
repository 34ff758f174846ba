/* SPDX-License-Identifier: BSD-3-Clause */
#include "discovery.h"

#include <stdlib.h>
#include <string.h>

#include "build.h"

enum { PIECE = 64 * 1024 };

void discovery_free(struct discovery_log *log)
{
        free(log->page);
        *log = (struct discovery_log) { 0 };
}

static int get(struct host_ctrl *c, uint64_t offset, void *buf, uint32_t len, bool rae,
               struct host_error *e)
{
        union sqe sqe = build_get_log(LOG_DISCOVERY, 0, offset, len, rae);

        return host_ctrl_admin(c, &sqe, buf, len, NULL, e);
}

static int get_header(struct host_ctrl *c, bool rae, struct disc_header *h, struct host_error *e)
{
        return get(c, 0, h, sizeof(*h), rae, e);
}

static int make_room(struct discovery_log *log, const struct disc_header *h, struct host_error *e)
{
        log->genctr = le64_get(h->genctr);
        log->count = le64_get(h->numrec);
        if (le16_get(h->recfmt) != 0)
                return host_fail(e, HOST_STATUS, "discovery log of unknown record format %u",
                                 le16_get(h->recfmt));
        if (log->count > DISCOVERY_ENTRIES_MAX)
                return host_fail(e, HOST_STATUS, "discovery log of %llu records is too long",
                                 (unsigned long long)log->count);
        log->len = DISC_HEADER_LEN + (size_t)log->count * DISC_ENTRY_LEN;
        log->page = malloc(log->len);
        if (!log->page)
                return host_fail(e, HOST_BROKEN, "no memory for %llu records",
                                 (unsigned long long)log->count);
        memcpy(log->page, h, sizeof(*h));
        return 0;
}

static int get_entries(struct host_ctrl *c, uint32_t piece, struct discovery_log *log,
                       struct host_error *e)
{
        for (size_t at = DISC_HEADER_LEN; at < log->len; at += piece) {
                uint32_t len = log->len - at < piece ? (uint32_t)(log->len - at) : piece;

                bool odd = flawed(c->params.policy, FLAW_HOST_LOG_ODD);

                if (get(c, at + odd, log->page + at, len, true, e) < 0)
                        return -1;
        }
        return 0;
}

/* It could not be read. 1: because it changed meanwhile, as the controller says, or as GENCTR
 * does: what was asked for may lie beyond the end that it has now. */
static int disturbed(struct host_ctrl *c, const struct discovery_log *log,
                     const struct host_error *e)
{
        struct disc_header h;
        struct host_error late;

        if (e->kind == HOST_STATUS && e->status == NVME_DISCOVER_RESTART)
                return 1;
        if (e->kind != HOST_STATUS || !log->page || get_header(c, true, &h, &late) < 0)
                return -1;
        return le64_get(h.genctr) != log->genctr ? 1 : -1;
}

/* One try. 1: it changed meanwhile. */
static int read_once(struct host_ctrl *c, uint32_t piece, struct discovery_log *log,
                     struct host_error *e)
{
        struct disc_header h;

        if (get_header(c, true, &h, e) < 0 || make_room(log, &h, e) < 0 ||
            get_entries(c, piece, log, e) < 0 || get_header(c, false, &h, e) < 0)
                return disturbed(c, log, e);
        return le64_get(h.genctr) != log->genctr;
}

int discovery_read(struct host_ctrl *c, uint32_t piece, struct discovery_log *log,
                   struct host_error *e)
{
        uint32_t most = host_ctrl_max_transfer(c);

        if (piece == 0 || piece > most)
                piece = most < PIECE ? most : PIECE;
        *log = (struct discovery_log) { 0 };
        for (unsigned tries = 0; tries < DISCOVERY_TRIES; tries++) {
                int result = read_once(c, piece, log, e);

                if (result == 0) {
                        log->restarts = tries;
                        return 0;
                }
                discovery_free(log);
                if (result < 0)
                        return -1;
        }
        return host_fail(e, HOST_STATUS, "discovery log changed during each of %d readings",
                         DISCOVERY_TRIES);
}

bool discovery_has(const struct discovery_log *log, const struct disc_entry *entry)
{
        const struct disc_entry *have;

        for (uint64_t i = 0; (have = disc_log_entry(log->page, log->len, i)) != NULL; i++)
                if (memcmp(have, entry, sizeof(*have)) == 0)
                        return true;
        return false;
}

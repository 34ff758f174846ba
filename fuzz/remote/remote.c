/* SPDX-License-Identifier: BSD-3-Clause */
#include "remote.h"

#include <string.h>

#include "pdu/core/crc32c.h"

const char *remote_end_name(enum remote_end e)
{
        static const char *const names[REMOTE_ENDS] = {
                [REMOTE_REFUSED] = "refused", [REMOTE_UNSENT] = "unsent", [REMOTE_LEFT] = "left",
                [REMOTE_DONE] = "done",       [REMOTE_CLOSED] = "closed", [REMOTE_RESET] = "reset",
                [REMOTE_TERM] = "termreq",    [REMOTE_HANG] = "hang",
        };

        return names[e];
}

/* --- what came back ----------------------------------------------------------------------------- */

enum { POSITIONS = 8 }; /* words that are told apart by their place; later ones are alike */

void remote_answer_add(struct remote_answer *a, uint64_t what)
{
        struct {
                uint64_t what;
                uint32_t before, place;
        } word = { what, a->ways > 0 ? a->word[a->ways - 1] : 0,
                   a->ways < POSITIONS ? a->ways : POSITIONS };

        if (a->ways == REMOTE_PATH)
                return;
        a->word[a->ways] = crc32c(&what, sizeof(what));
        a->way[a->ways++] = crc32c(&word, sizeof(word));
}

unsigned novelty_add(struct novelty *n, const struct remote_answer *a)
{
        unsigned fresh = 0;

        for (unsigned i = 0; i < a->ways; i++) {
                uint32_t bit = a->way[i] % NOVELTY_WAYS;

                fresh += !(n->seen[bit / 8] >> bit % 8 & 1);
                n->seen[bit / 8] |= (uint8_t)(1u << bit % 8);
        }
        return fresh;
}

void remote_log_add(struct remote_log *l, unsigned on, enum party sender, const void *p, size_t n)
{
        struct remote_bytes head = { .n = (uint32_t)n, .on = (uint8_t)on, .sender = sender };

        l->cut |= l->len + sizeof(head) + n > REMOTE_LOG;
        if (l->cut)
                return;
        head.time = loop_wall_ns();
        memcpy(l->bytes + l->len, &head, sizeof(head));
        if (n > 0)
                memcpy(l->bytes + l->len + sizeof(head), p, n);
        l->len += sizeof(head) + n;
}

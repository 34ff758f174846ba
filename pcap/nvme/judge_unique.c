/* SPDX-License-Identifier: BSD-3-Clause */
/* What namespaces are told apart by: no identifier is all zeroes, and no two namespaces have the same one. */
#include <string.h>

#include "judge.h"
#include "pdu/nvme/wire/identify.h"

static bool is_identifier(const struct ns_id *id)
{
        return id->type == NIDT_EUI64 ? id->len == 8
                                      : (id->type == NIDT_NGUID || id->type == NIDT_UUID) &&
                                            id->len == sizeof(((struct known_id *)0)->bytes);
}

/* Whether another namespace has it; it is remembered otherwise. */
static bool is_taken(struct ids_past *p, const struct known_id *id)
{
        for (unsigned i = 0; i < IDS_KNOWN; i++) {
                const struct known_id *k = &p->known[i];

                if (k->nsid && k->type == id->type &&
                    memcmp(k->bytes, id->bytes, sizeof(k->bytes)) == 0)
                        return k->nsid != id->nsid;
        }
        p->known[p->next++ % IDS_KNOWN] = *id;
        return false;
}

void judge_ids(struct ids_past *p, uint32_t nsid, const uint8_t *list, size_t len,
               struct rule_set *found)
{
        static const uint8_t zero[sizeof(((struct known_id *)0)->bytes)];
        struct ns_id id;

        for (size_t at = 0; ns_desc_next(list, len, &at, &id);) {
                struct known_id known = { .nsid = nsid, .type = id.type };

                if (!is_identifier(&id))
                        continue;
                memcpy(known.bytes, id.bytes, id.len);
                judge_finds(found,
                            memcmp(known.bytes, zero, sizeof(zero)) == 0 || is_taken(p, &known),
                            ID_UNIQUE);
        }
}

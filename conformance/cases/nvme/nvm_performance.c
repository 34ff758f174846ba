/* SPDX-License-Identifier: BSD-3-Clause */
/* NVM Command Set 4.1.3.7: Performance Characteristics; an attribute that is not used is left so. */
#include <string.h>

#include "conformance/words/case.h"

#include "conformance/engine/suite.h"

enum {
        BYTES = 4096,
        LIST = 0xc0,
        FIRST = 0xc1,
        LAST = 0xff,
        IDENTIFIER = 16,
        LENGTH_MAX = 0xfe0,
        REVERT = 1 << 8,
        SAVE = 1,
        CURRENT = 0,
        SAVED = 2,
        CAPABILITIES = 3,
        SAVEABLE = 1 << 0,
        CHANGEABLE = 1 << 2
};

static struct reply get(struct queue *q, unsigned index, unsigned select)
{
        return finish(q,
                      send_cmd(q, .opc = NVME_GET_FEATURES, .cdw10 = FEAT_PERFORMANCE | select << 8,
                               .cdw11 = index, .bytes = select < CAPABILITIES ? BYTES : 0));
}

static uint16_t set(struct queue *q, unsigned dw11, unsigned save, uint8_t identifier)
{
        uint8_t *data = t_alloc(q->t, BYTES);

        memset(data, identifier, IDENTIFIER);
        return finish(q, send_cmd(q, .opc = NVME_SET_FEATURES,
                                  .cdw10 = FEAT_PERFORMANCE | (uint32_t)save << 31, .cdw11 = dw11,
                                  .bytes = BYTES, .data = data))
            .status;
}

static bool is_null(const uint8_t *bytes, size_t n)
{
        while (n > 0 && !bytes[n - 1])
                n--;
        return n == 0;
}

static const uint8_t *list_of(struct queue *q, unsigned select)
{
        struct reply r = get(q, LIST, select);

        require_feature(q, r, "Performance Characteristics is not supported");
        return r.data;
}

static const uint8_t *identifier(const uint8_t *list, unsigned index)
{
        return list + (size_t)(index - LIST) * IDENTIFIER;
}

static void want_list(struct queue *q, const uint8_t *list, unsigned select)
{
        want_eq(q->t, "ATTRTYP of the list that SEL asks for", list[0] & 7, select);
        want(q->t, list[2] <= list[1], "USVSPA of at most MSVSPA", "%u, of %u", list[2], list[1]);
}

CASE(
    "nvm/feature/performance-list", MUST, RULES(NVM_PERFORMANCE_ATTRIBUTES),
    "The Performance Attribute Identifier List says what was selected, and names the attributes as "
    "they are")
{
        struct queue *q = admin_queue(t);
        bool selects = le16_get(caps(t)->id.oncs) & ONCS_SAVE;
        const uint8_t *list = list_of(q, CURRENT);

        want_list(q, list, CURRENT);
        for (unsigned i = FIRST; i <= LAST; i += i < FIRST + 4 ? 1 : 29) {
                struct reply r = get(q, i, CURRENT);

                if (r.status != NVME_SUCCESS)
                        continue;
                want_bytes(t, "the identifier that the list has", r.data, identifier(list, i),
                           IDENTIFIER);
                want(t, le_get(r.data + 30, 2) <= LENGTH_MAX, "ATTRL of at most FE0h", "%Xh",
                     (unsigned)le_get(r.data + 30, 2));
        }
        for (unsigned select = 1; selects && select <= SAVED; select++)
                want_list(q, list_of(q, select), select);
}

/* Of the attributes that are not saved the last one. */
static unsigned unused(const uint8_t *list)
{
        unsigned i = LAST;

        while (i >= FIRST && !is_null(identifier(list, i), IDENTIFIER))
                i--;
        return i >= FIRST ? i : 0;
}

CASE("nvm/feature/performance-saved", MUST, RULES(NVM_PERFORMANCE_SAVED),
     "A vendor specific Performance Attribute is set only with SV and where there is room, and "
     "reverted by RVSPA",
     .writes = true, .alone = true)
{
        struct queue *q = admin_queue(t);
        const uint8_t *list;
        uint16_t unsaved, reverted, saved, full = NVME_INVALID_FIELD, again;
        unsigned index, room;
        struct reply seen, still, back;

        require(t, le16_get(caps(t)->id.oncs) & ONCS_SAVE, "ONCS.SSFS is 0");
        list = list_of(q, SAVED);
        index = unused(list);
        room = list[2];
        require(t, list[1] > 0 && index > FIRST, "no attribute can be saved");
        want_eq(t, "the capabilities: changeable and saveable",
                get(q, 0, CAPABILITIES).dw0 & (CHANGEABLE | SAVEABLE), CHANGEABLE | SAVEABLE);
        reverted = set(q, index | REVERT, 0, 0);
        unsaved = set(q, index, 0, 0x5a);
        if (unsaved == NVME_SUCCESS)
                set(q, index | REVERT, 0, 0);
        want_eq(t, "the status of RVSPA where nothing is saved", reverted, NVME_SUCCESS);
        want_eq(t, "the status of Set Features without SV", unsaved, NVME_INVALID_FIELD);
        require(t, room > 0, "as many attributes are saved as can be");
        saved = set(q, index, SAVE, 0x5a);
        seen = get(q, index, CURRENT);
        if (list_of(q, SAVED)[2] == 0 && is_null(identifier(list, index - 1), IDENTIFIER)) {
                full = set(q, index - 1, SAVE, 0xa5);
                set(q, (index - 1) | REVERT, 0, 0);
        }
        still = get(q, index, CURRENT);
        again = set(q, index | REVERT, 0, 0);
        back = get(q, index, CURRENT);
        want_eq(t, "the status of Set Features with SV", saved, NVME_SUCCESS);
        want(t, seen.status == NVME_SUCCESS && seen.data[0] == 0x5a, "the attribute that was saved",
             "another one");
        want_eq(t, "the status of one more than can be saved", full, NVME_INVALID_FIELD);
        want(t, still.status == NVME_SUCCESS && still.data[0] == 0x5a,
             "the attribute that was saved, after RVSPA of another", "another one");
        want_eq(t, "the status of RVSPA", again, NVME_SUCCESS);
        want(t, back.status == NVME_SUCCESS && is_null(back.data, IDENTIFIER),
             "the default attribute after RVSPA, which is none", "another one");
}

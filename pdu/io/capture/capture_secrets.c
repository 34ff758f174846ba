/* SPDX-License-Identifier: BSD-3-Clause */
#include "capture_secrets.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "pdu/core/wipe.h"

enum {
        BLOCK_HEADER = 8, /* type, length */
        SECTION = 0x0a0d0d0a,
        ORDER = 0x1a2b3c4d,
        SIMPLE_PACKET = 3,
        ENHANCED_PACKET = 6,
        SECRETS = 10,
        TLS_KEY_LOG = 0x544c534b,
        BLOCK_MAX = 64 << 20,
};

struct blocks {
        FILE *f;
        bool swapped; /* the section is of the other byte order */
        uint32_t type,
            left; /* of the block in hand: bytes not read yet, the trailing length among them */
};

static uint32_t u32_of(const struct blocks *b, const uint8_t *p)
{
        uint32_t v;

        memcpy(&v, p, sizeof(v));
        return b->swapped ? __builtin_bswap32(v) : v;
}

static bool take_u32(struct blocks *b, uint32_t *v)
{
        uint8_t p[4];

        if (b->left < sizeof(p) || fread(p, 1, sizeof(p), b->f) != sizeof(p))
                return false;
        b->left -= (uint32_t)sizeof(p);
        *v = u32_of(b, p);
        return true;
}

/* Of the section's own byte order is also its length, which comes first. */
static bool next_block(struct blocks *b)
{
        uint8_t head[BLOCK_HEADER + 4];
        uint32_t len, order;

        if (b->left > 0 && fseek(b->f, (long)b->left, SEEK_CUR) != 0)
                return false;
        if (fread(head, 1, sizeof(head), b->f) != sizeof(head))
                return false;
        b->type = u32_of(b, head);
        if (b->type == SECTION) {
                memcpy(&order, head + BLOCK_HEADER, sizeof(order));
                b->swapped = order != ORDER;
        }
        len = u32_of(b, head + 4);
        if (len < sizeof(head) || len % 4 != 0 || len > BLOCK_MAX)
                return false;
        b->left = len - BLOCK_HEADER;
        return fseek(b->f, -4, SEEK_CUR) == 0;
}

static int take_secrets(struct blocks *b, int (*fn)(void *user, const char *text, size_t len),
                        void *user)
{
        uint32_t type, len;
        char *text;
        int rc = 0;

        if (!take_u32(b, &type) || !take_u32(b, &len) || type != TLS_KEY_LOG || len > b->left)
                return 0;
        text = malloc(len + 1);
        if (!text)
                return -1;
        if (fread(text, 1, len, b->f) == len)
                rc = fn(user, text, len);
        b->left -= len;
        wipe(text, len);
        free(text);
        return rc;
}

/* A pipe is left as it is: its packets are read once. */
static FILE *open_twice(const char *path)
{
        struct stat st;

        return stat(path, &st) == 0 && S_ISREG(st.st_mode) ? fopen(path, "rbe") : NULL;
}

int capture_secrets(const char *path, int (*fn)(void *user, const char *text, size_t len),
                    void *user)
{
        struct blocks b = { .f = open_twice(path) };
        int rc = 0;

        if (!b.f)
                return 0;
        if (next_block(&b) && b.type == SECTION)
                while (rc == 0 && next_block(&b) && b.type != SIMPLE_PACKET &&
                       b.type != ENHANCED_PACKET)
                        rc = b.type == SECRETS ? take_secrets(&b, fn, user) : 0;
        fclose(b.f);
        return rc;
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "escape.h"

#include <stdint.h>
#include <string.h>

/* Bytes of the UTF-8 character at s that XML may hold; 0: it is none. */
static size_t character(const unsigned char *s)
{
        static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
        size_t len = s[0] < 0x80       ? 1
                     : s[0] >> 5 == 6  ? 2
                     : s[0] >> 4 == 14 ? 3
                     : s[0] >> 3 == 30 ? 4
                                       : 0;
        uint32_t c = len == 1 ? s[0] : s[0] & (0x7fu >> len);

        for (size_t i = 1; i < len; i++) {
                if (s[i] >> 6 != 2)
                        return 0;
                c = c << 6 | (s[i] & 0x3f);
        }
        if (len == 0 || c < least[len] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000) ||
            c == 0xfffe || c == 0xffff)
                return 0;
        return c >= 0x20 || c == '\t' || c == '\n' || c == '\r' ? len : 0;
}

static const char *entity(char c)
{
        switch (c) {
        case '&':
                return "&amp;";
        case '<':
                return "&lt;";
        case '>':
                return "&gt;";
        case '"':
                return "&quot;";
        case '\'':
                return "&#39;";
        default:
                return NULL;
        }
}

void escape_markup(FILE *f, const char *s)
{
        while (*s) {
                size_t len = character((const unsigned char *)s);

                if (len == 0)
                        fputc('?', f);
                else if (entity(*s))
                        fputs(entity(*s), f);
                else
                        fwrite(s, 1, len, f);
                s += len > 0 ? len : 1;
        }
}

void escape_text(char *s)
{
        while (*s) {
                size_t len = character((const unsigned char *)s);

                if (len == 0)
                        *s = '?';
                s += len > 0 ? len : 1;
        }
}

void escape_tap(FILE *f, const char *s)
{
        while (*s) {
                size_t len = character((const unsigned char *)s);

                if (*s == '#' || *s == '\\')
                        fputc('\\', f);
                if (*s == '\n' || *s == '\r')
                        fputc(' ', f);
                else if (len == 0)
                        fputc('?', f);
                else
                        fwrite(s, 1, len, f);
                s += len > 0 ? len : 1;
        }
}

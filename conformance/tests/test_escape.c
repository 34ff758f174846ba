/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>

#include "conformance/engine/escape.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void becomes(void (*escape)(FILE *f, const char *s), const char *in, const char *out)
{
        char *text = NULL;
        size_t len;
        FILE *f = open_memstream(&text, &len);

        assert_non_null(f);
        escape(f, in);
        fclose(f);
        assert_string_equal(text, out);
        free(text);
}

static void markup(void **state)
{
        (void)state;
        becomes(escape_markup, "a <b> & \"c\" 'd'", "a &lt;b&gt; &amp; &quot;c&quot; &#39;d&#39;");
        becomes(escape_markup, "]]>", "]]&gt;");
        becomes(escape_markup, "", "");
}

static void what_xml_forbids(void **state)
{
        (void)state;
        becomes(escape_markup, "\x01\x1b[31m\x7f", "??[31m\x7f");
        becomes(escape_markup, "tab\tline\n", "tab\tline\n");
}

static void utf8(void **state)
{
        (void)state;
        becomes(escape_markup, "\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80",
                "\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80");
        becomes(escape_markup, "\xff\xc3", "??");
        becomes(escape_markup, "\xc0\xaf", "??");           /* overlong */
        becomes(escape_markup, "\xed\xa0\x80", "???");      /* a surrogate */
        becomes(escape_markup, "\xf4\x90\x80\x80", "????"); /* beyond 10FFFFh */
        becomes(escape_markup, "\xef\xbf\xbf", "???");      /* FFFFh */
}

static void tap(void **state)
{
        (void)state;
        becomes(escape_tap, "a # SKIP \\ b\nc", "a \\# SKIP \\\\ b c");
        becomes(escape_tap, "\xe4 \x1b[m \xc3\xa4", "? ?[m \xc3\xa4");
}

static void plain_text(void **state)
{
        char text[] = "b\xe4 d\x01 \"\xc3\xa4\" \\ \xe2\x82";

        (void)state;
        escape_text(text);
        assert_string_equal(text, "b? d? \"\xc3\xa4\" \\ ??");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(markup),     cmocka_unit_test(what_xml_forbids),
                cmocka_unit_test(utf8),       cmocka_unit_test(tap),
                cmocka_unit_test(plain_text),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

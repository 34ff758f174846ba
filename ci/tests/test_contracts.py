# SPDX-License-Identifier: BSD-3-Clause
"""ci/contracts: which prototypes it sees, and which of them it takes to have a contract."""
import importlib.machinery
import importlib.util
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.fast  # nothing of ours runs in it

LOADER = importlib.machinery.SourceFileLoader("contracts", str(ROOT / "ci/contracts"))
CONTRACTS = importlib.util.module_from_spec(importlib.util.spec_from_loader("contracts", LOADER))
LOADER.exec_module(CONTRACTS)

A_RUN = """
/* One comment. */
int a(void);
struct x *b(int n,
            int m);
"""
BROKEN_RUN = """
/* One comment. */
int a(void);

int b(void);
"""
BESIDE = """
int a(void); /* one */
int b(void);
"""
OF_A_STRUCT = """
/* A struct. */
struct x {
        int (*call)(void); /* no prototype */
};
int a(struct x *x);
"""
INLINE = """
/* A body is its own contract, and ends the run. */
static inline int a(void)
{
        return b(1);
}
int c(void) __attribute__((noreturn));
"""
LONG_COMMENT = """
/*
 * Of several lines: int a(void);
 */
void b(const char *fmt, ...)
    __attribute__((format(printf, 1, 2)));
"""
OTHERS = """
#define MACRO(x)                                                                                   \\
        call(x)
typedef int fn(void);
extern const int (*table)(void);
_Static_assert(sizeof(int) == 4, "int");
enum { A = (1) };
"""


def seen(text):
    return {name: has for _, name, has in CONTRACTS.prototypes(text)}


@pytest.mark.parametrize("text, expected", [
    (A_RUN, {"a": True, "b": True}),
    (BROKEN_RUN, {"a": True, "b": False}),
    (BESIDE, {"a": True, "b": False}),
    (OF_A_STRUCT, {"a": False}),
    (INLINE, {"c": False}),
    (LONG_COMMENT, {"b": True}),
    (OTHERS, {}),
])
def test_it_sees(text, expected):
    assert seen(text) == expected


def test_it_names_the_line():
    assert [(line, name) for line, name, _ in CONTRACTS.prototypes(BROKEN_RUN)] == [(3, "a"), (5, "b")]


def test_it_looks_at_all_headers_but_those_of_tests():
    files = CONTRACTS.headers(["."])
    assert len(files) > 150 and "pdu/core/rule.h" in files
    assert not any("/tests/" in file for file in files)


TREE = {
    "a.h": "int own(void);\nint shared(void); /* not by own() */\nint pasted(void);\n"
           "#define WORD pasted()\nint nobodys(void);\nint quoted(void);\n",
    "a.c": "int own(void) { return own(); }\nint shared(void) {}\nint pasted(void) {}\nint quoted(void) {}\n",
    "b.c": "/* own() */ int x = shared(\"a/*\");\n",
    "c.c": "char x[] = \"a/*\", *y = quoted(\"*/\");\n",
}


@pytest.mark.parametrize("name, alone", [
    ("own", True), ("shared", False), ("pasted", False), ("nobodys", True), ("quoted", False),
])
def test_what_one_file_uses_could_be_static(name, alone):
    assert CONTRACTS.is_alone("a.h", name, CONTRACTS.users(TREE)) == alone

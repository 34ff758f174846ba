/* SPDX-License-Identifier: BSD-3-Clause */
/* Text of unknown origin into XML, HTML, JSON and TAP. Bytes that are no valid UTF-8 and control characters
 * that XML forbids become '?'. */
#ifndef NVMF_CONFORMANCE_ESCAPE_H
#define NVMF_CONFORMANCE_ESCAPE_H

#include <stdio.h>

/* As XML 1.0 and HTML character data or attribute value: markup escaped. */
void escape_markup(FILE *f, const char *s);
/* On one line of TAP: '#' and '\' escaped, line ends become spaces. */
void escape_tap(FILE *f, const char *s);
/* In place; what else JSON wants escaped its library does. */
void escape_text(char *s);

#endif

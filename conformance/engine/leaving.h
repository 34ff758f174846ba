/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections that we have closed and whose peer has not: a peer that never closes its end loses a
 * descriptor with each of them. They are taken off the cases, which go on, and watched by a thread.
 */
#ifndef NVMF_CONFORMANCE_LEAVING_H
#define NVMF_CONFORMANCE_LEAVING_H

#include "result.h"

struct leaving;
struct stream;

/* A peer has ms to close its end. NULL: out of memory. */
struct leaving *leaving_new(unsigned ms);
enum { LEAVING_MAX = 256 };
/* Sends FIN on s and takes it over: s is closed for its owner. who: the case's id, static. What is
 * beyond LEAVING_MAX is closed at once and not judged. */
void leaving_add(struct leaving *l, struct stream *s, const char *who);
/* Waits for those that are left, not longer than they have time (stop, may be NULL, ends that), and frees l.
 * Whether any was left open; r then says how many. */
bool leaving_end(struct leaving *l, const _Atomic bool *stop, struct result *r);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* What the core dumps of a process that has keys give away. */
#ifndef NVMF_IO_CORE_DUMP_H
#define NVMF_IO_CORE_DUMP_H

/* From here on a core has none of our memory in it; where that cannot be had, there is none. Any thread, as
 * often as one likes: before a key is read. */
void core_dump_empty(void);

/* In a child that is about to run another program: the cores of that one are as they were before.
 * Async-signal-safe. */
void core_dump_restore(void);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* Commands that a user gives as a string, for the shell. */
#ifndef NVMF_IO_SHELL_H
#define NVMF_IO_SHELL_H

#include <stddef.h>

enum { SHELL_LINE = 300, SHELL_MS = 60000 /* ms, where nothing else is known */ };

/*
 * Runs it by the shell, in a process group of its own, and waits until the shell ends: what it has
 * left behind in the background runs on. says: the first line of what was written to standard output
 * until then, "" if there is none. Its exit status; 128 + a signal's number; -1 if it could not be
 * run, or was ended because it took longer than ms milliseconds, which says tells.
 */
int shell_run(const char *command, char says[SHELL_LINE], unsigned ms);

/* The same; `wrong` (of `size` bytes) gets the end of what was written to standard error until then. */
int shell_hear(const char *command, char says[SHELL_LINE], char *wrong, size_t size, unsigned ms);

/* Ends what shell_run() runs, now and from here on, as though its time were over. For signal handlers. */
void shell_stop(void);

#endif

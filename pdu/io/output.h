/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Places for what a long run leaves in the end: asked before it begins, so that nobody waits for a
 * report that can't be written.
 */
#ifndef NVMF_IO_OUTPUT_H
#define NVMF_IO_OUTPUT_H

#include <stdbool.h>

/* Whether a file of that name can be written; makes none, and leaves one that is there as it is.
 * false with errno. */
bool output_file(const char *path);

/* Makes the folder unless it is there; whether files can be put into it. false with errno. */
bool output_folder(const char *path);

#endif

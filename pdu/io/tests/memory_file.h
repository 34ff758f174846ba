/* SPDX-License-Identifier: BSD-3-Clause */
/* A file in memory: tests that write thousands of them would wait for the disk most of the time. */
#ifndef NVMF_IO_TESTS_MEMORY_FILE_H
#define NVMF_IO_TESTS_MEMORY_FILE_H

#include <stdio.h>
#include <sys/mman.h>

enum { MEMORY_FILE = 32 };

/* Its name, as long as the process lives. 0, or -1. */
static inline int memory_file(char path[static MEMORY_FILE])
{
        int fd = memfd_create("test", MFD_CLOEXEC);

        snprintf(path, MEMORY_FILE, "/proc/self/fd/%d", fd);
        return fd < 0 ? -1 : 0;
}

#endif

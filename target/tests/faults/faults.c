/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * To be preloaded: lets calls for memory or of the disk fail, one place of the program after the other.
 * A place is a call with the callers, in the program itself, that led to it.
 *
 *      FAULTS=memory|disk      what may fail
 *      FAULTS_LIST=FILE        writes each place, as it is first reached, as a line of hex
 *      FAULTS_AT=HEX           the first call at that place fails,
 *      FAULTS_AFTER=1          and so does each call at whatever place after it
 */
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { DEPTH = 24, CALLERS = 4, PLACES = 8192 };

extern void *__libc_malloc(size_t n);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *p, size_t n);
extern void *__libc_memalign(size_t align, size_t n);

static enum { NOTHING, MEMORY, DISK } what;
static bool ready, after;
static uint64_t wanted;
static int list = -1;
static uintptr_t from, to; /* of the program's code */
static _Atomic bool failing;
static _Atomic uint64_t places[PLACES];
static _Thread_local bool inside;

static int note_program(struct dl_phdr_info *info, size_t size, void *arg)
{
        (void)size;
        (void)arg;
        from = info->dlpi_addr;
        for (int i = 0; i < info->dlpi_phnum; i++)
                if (info->dlpi_phdr[i].p_type == PT_LOAD)
                        to = from + info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz;
        return 1; /* the first one is the program */
}

__attribute__((constructor)) static void start(void)
{
        const char *mode = getenv("FAULTS"), *at = getenv("FAULTS_AT"),
                   *file = getenv("FAULTS_LIST");
        void *warm[DEPTH];

        inside = true;
        dl_iterate_phdr(note_program, NULL);
        backtrace(warm, DEPTH); /* loads what it needs */
        if (mode)
                what = mode[0] == 'm' ? MEMORY : DISK;
        wanted = at ? strtoull(at, NULL, 16) : 0;
        after = getenv("FAULTS_AFTER");
        if (file)
                list = (int)syscall(SYS_openat, AT_FDCWD, file,
                                    O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
        unsetenv("LD_PRELOAD");
        inside = false;
        ready = true;
}

static uint64_t place(void)
{
        uint64_t h = UINT64_C(0xcbf29ce484222325);
        unsigned callers = 0;
        void *at[DEPTH];
        int n = backtrace(at, DEPTH);

        for (int i = 0; i < n && callers < CALLERS; i++)
                if ((uintptr_t)at[i] >= from && (uintptr_t)at[i] < to) {
                        h = (h ^ ((uintptr_t)at[i] - from)) * UINT64_C(0x100000001b3);
                        callers++;
                }
        return callers ? h | 1 : 0;
}

/* Whether it was not there yet. */
static bool add_place(uint64_t p)
{
        for (unsigned i = 0; i < PLACES; i++) {
                _Atomic uint64_t *at = &places[(p + i) % PLACES];
                uint64_t none = 0;

                if (atomic_compare_exchange_strong(at, &none, p))
                        return true;
                if (none == p)
                        return false;
        }
        return false;
}

static bool fails(int kind)
{
        int error = errno;
        char line[20];
        uint64_t p;
        bool first;

        if (!ready || inside || (int)what != kind)
                return false;
        if (after && failing)
                return true;
        inside = true;
        p = place();
        first = p && add_place(p);
        if (first && list >= 0) {
                int n = snprintf(line, sizeof(line), "%016llx\n", (unsigned long long)p);

                syscall(SYS_write, list, line, (size_t)n);
        }
        inside = false;
        errno = error;
        if (!first || p != wanted)
                return false;
        failing = true;
        return true;
}

static bool fails_with(int kind, int error)
{
        bool yes = fails(kind);

        if (yes)
                errno = error;
        return yes;
}

void *malloc(size_t n)
{
        return fails_with(MEMORY, ENOMEM) ? NULL : __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
        return fails_with(MEMORY, ENOMEM) ? NULL : __libc_calloc(n, size);
}

void *realloc(void *p, size_t n)
{
        return fails_with(MEMORY, ENOMEM) ? NULL : __libc_realloc(p, n);
}

void *aligned_alloc(size_t align, size_t n)
{
        return fails_with(MEMORY, ENOMEM) ? NULL : __libc_memalign(align, n);
}

int posix_memalign(void **p, size_t align, size_t n)
{
        *p = fails(MEMORY) ? NULL : __libc_memalign(align, n);
        return *p ? 0 : ENOMEM;
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
        int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) =
            dlsym(RTLD_NEXT, "pthread_create");

        return fails(MEMORY) ? EAGAIN : real(thread, attr, run, arg);
}

ssize_t pread(int fd, void *buf, size_t n, off_t offset)
{
        return fails_with(DISK, EIO) ? -1 : syscall(SYS_pread64, fd, buf, n, offset);
}

ssize_t pwrite(int fd, const void *buf, size_t n, off_t offset)
{
        return fails_with(DISK, EIO) ? -1 : syscall(SYS_pwrite64, fd, buf, n, offset);
}

int fdatasync(int fd)
{
        return fails_with(DISK, EIO) ? -1 : (int)syscall(SYS_fdatasync, fd);
}

int fsync(int fd)
{
        return fails_with(DISK, EIO) ? -1 : (int)syscall(SYS_fsync, fd);
}

int ftruncate(int fd, off_t n)
{
        return fails_with(DISK, ENOSPC) ? -1 : (int)syscall(SYS_ftruncate, fd, n);
}

int fallocate(int fd, int mode, off_t offset, off_t len)
{
        return fails_with(DISK, EIO) ? -1 : (int)syscall(SYS_fallocate, fd, mode, offset, len);
}

int rename(const char *old, const char *new)
{
        return fails_with(DISK, EIO) ? -1 : (int)syscall(SYS_rename, old, new);
}

int open(const char *path, int flags, ...)
{
        va_list args;
        mode_t mode;

        va_start(args, flags);
        mode = flags & O_CREAT ? va_arg(args, mode_t) : 0;
        va_end(args);
        return fails_with(DISK, EIO) ? -1 : (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

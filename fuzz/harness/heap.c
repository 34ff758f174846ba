/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The heap of a fuzz program (fuzz.h): memory that runs out when the input says so, and one block for
 * all that a run allocates. Targets are linked with --wrap for it.
 *
 * In the block nothing is used twice before the run ends, and what is not allocated, or no longer, is
 * poisoned: the address sanitizer sees a byte too far, and any use after a free() however late. All
 * of it has to be free at the end, so a leak shows in the run that leaks. FUZZ_HEAP in the environment:
 * without the block, for reports that say who allocated.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "fuzz/fuzz.h"
#include "pdu/core/asan.h"

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
void __real_free(void *p);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);
void __wrap_free(void *p);

enum { ROOM = 64 << 20, GAP = 16, ALIGNMENT = 16, STRANGE = 0xbe, STRANGE_BYTES = 256 };

struct head { /* in the gap before what it is of */
        size_t size;
        size_t live;
};

static unsigned left; /* allocations before one fails; 0: none does */
static uint8_t *room;
static size_t used, lives;
static _Thread_local bool running; /* others may allocate at any time */

static bool fails_now(void)
{
        bool fails = left > 0 && --left == 0;

        if (fails)
                errno = ENOMEM;
        return fails;
}

/* --- the block ---------------------------------------------------------------------------------- */

static bool is_in_room(const void *p)
{
        return room && (const uint8_t *)p >= room && (const uint8_t *)p < room + ROOM;
}

static struct head *head_of(void *p)
{
        return (struct head *)(void *)((uint8_t *)p - sizeof(struct head));
}

ASAN_UNSEEN static void set_head(void *p, size_t size, size_t live)
{
        *head_of(p) = (struct head) { size, live };
}

ASAN_UNSEEN static size_t size_of(void *p)
{
        return head_of(p)->size;
}

ASAN_UNSEEN static bool is_live(void *p)
{
        return head_of(p)->live == 1;
}

/* NULL: there is no room left in it. */
static void *heap_get(size_t size)
{
        uint8_t *p = room + used + GAP;

        if (size > ROOM / 2 || used + size + 2 * GAP + ALIGNMENT > ROOM)
                return NULL;
        used += GAP + (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        lives++;
        set_head(p, size, 1);
        ASAN_UNPOISON_MEMORY_REGION(p, size);
        return p;
}

static void give_back(void *p)
{
        must(is_live(p)); /* else it was freed twice */
        set_head(p, size_of(p), 0);
        ASAN_POISON_MEMORY_REGION(p, size_of(p));
        lives--;
}

static void start_heap(void)
{
        if (!room && !getenv("FUZZ_HEAP")) {
                room = mmap(NULL, ROOM, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
                must(room != MAP_FAILED);
                ASAN_POISON_MEMORY_REGION(room, ROOM);
        }
        used = 0;
        running = room != NULL;
}

static void end(void)
{
        running = false;
        if (room && lives > 0)
                fuzz_broken("something was not freed", __FILE__, __LINE__);
}

/* --- instead of malloc() ------------------------------------------------------------------------ */

static void set_scarce(unsigned nth)
{
        left = nth;
}

struct fuzz_heap fuzz_heap = { .scarce = set_scarce, .begin = start_heap, .end = end };

void *__wrap_malloc(size_t size)
{
        void *p;

        if (fails_now())
                return NULL;
        p = running ? heap_get(size) : NULL;
        if (!p) {
                fuzz_heap.allocations++;
                return __real_malloc(size);
        }
        return memset(p, STRANGE, size < STRANGE_BYTES ? size : STRANGE_BYTES);
}

void *__wrap_calloc(size_t n, size_t size)
{
        size_t bytes;
        void *p = NULL;

        if (fails_now() || __builtin_mul_overflow(n, size, &bytes))
                return NULL;
        p = running ? heap_get(bytes) : NULL;
        if (p)
                return memset(p, 0, bytes);
        fuzz_heap.allocations++;
        return __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t size)
{
        void *q;

        if (fails_now())
                return NULL;
        if (!running || (p && !is_in_room(p))) {
                fuzz_heap.allocations++;
                return __real_realloc(p, size);
        }
        q = heap_get(size);
        if (!q)
                return NULL;
        if (p) {
                memcpy(q, p, size < size_of(p) ? size : size_of(p));
                give_back(p);
        }
        return q;
}

void __wrap_free(void *p)
{
        if (is_in_room(p))
                give_back(p);
        else
                __real_free(p);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that the address sanitizer is to take for freed, in programs that have one; nothing else. */
#ifndef NVMF_WIRE_ASAN_H
#define NVMF_WIRE_ASAN_H

#if defined(__SANITIZE_ADDRESS__)
#define NVMF_ASAN 1
#elif defined(__has_feature)
#define NVMF_ASAN __has_feature(address_sanitizer)
#else
#define NVMF_ASAN 0
#endif

#if NVMF_ASAN
#include <sanitizer/asan_interface.h>
#define ASAN_IS_POISONED(p, n) __asan_region_is_poisoned(p, n)
#define ASAN_UNSEEN            __attribute__((no_sanitize("address")))
#else
#define ASAN_POISON_MEMORY_REGION(p, n)   ((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#define ASAN_IS_POISONED(p, n)            false
#define ASAN_UNSEEN
#endif

#endif

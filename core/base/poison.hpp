#pragma once

// For the sanitizers: accesses to poisoned memory are errors, and the leak checker follows pointers in a root.
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/lsan_interface.h>
#define FIT_POISON(p, n) __asan_poison_memory_region(p, n)
#define FIT_UNPOISON(p, n) __asan_unpoison_memory_region(p, n)
#define FIT_LEAK_ROOT(p, n) __lsan_register_root_region(p, n)
#else
#define FIT_POISON(p, n) (void)0
#define FIT_UNPOISON(p, n) (void)0
#define FIT_LEAK_ROOT(p, n) (void)0
#endif

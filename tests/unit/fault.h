/*
** fault.h - for test_*_fault.c: makes the n-th host allocation of our own
** code fail. The Makefile links these programs with --wrap, which sends the
** calls of our objects here and leaves those of libraries alone. Leaks are
** seen by the sanitizer build.
*/
#ifndef TESTS_UNIT_FAULT_H
#define TESTS_UNIT_FAULT_H

#include <stdbool.h>
#include <stddef.h>

/* The allocation that fails, counted from 1; 0: none. */
static size_t fault_at;
static size_t fault_count;

static bool fault_now(void)
{
    return ++fault_count == fault_at;
}

/* True when the last run got as far as the allocation that was to fail. */
static bool fault_reached(void)
{
    return fault_at != 0 && fault_count >= fault_at;
}

static void fault_set(size_t n)
{
    fault_at = n;
    fault_count = 0;
}

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);

void *__wrap_malloc(size_t n)
{
    return fault_now() ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return fault_now() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t n)
{
    return fault_now() ? NULL : __real_realloc(p, n);
}

#endif

/*
** How many draws a test over random numbers takes. Sanitizers look at what the
** code does with memory, which a few draws show as well as many: the plain
** build takes them all.
*/
#ifndef TESTS_SWEEP_H
#define TESTS_SWEEP_H

#include <cmocka.h>

static inline int sweep(int all, int sanitized)
{
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
    print_message("%d rounds of %d\n", sanitized, all);
    return sanitized;
#else
    print_message("%d rounds; under sanitizers %d\n", all, sanitized);
    return all;
#endif
}

#endif

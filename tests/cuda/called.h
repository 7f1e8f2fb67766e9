/*
** called.h - which kernels a program called, so that one which the program
** forgets is an error.
*/
#ifndef TESTS_CUDA_CALLED_H
#define TESTS_CUDA_CALLED_H

#include <stdbool.h>

#include "dev/kernel.h"

enum called_kernel {
#define CALLED_KERNEL(name) CALLED_##name,
    KERNELS(CALLED_KERNEL)
#undef CALLED_KERNEL
    CALLED_COUNT
};

/* By CALLED_name. */
struct called { bool yes[CALLED_COUNT]; };

/* The first kernel of the list that was not called, NULL when all were. */
static inline const char *called_not(const struct called *c)
{
#define CALLED_NAME(name) #name,
    static const char *const names[] = {KERNELS(CALLED_NAME)};
#undef CALLED_NAME
    int i = 0;

    while (i < CALLED_COUNT && c->yes[i]) i++;
    return i < CALLED_COUNT ? names[i] : NULL;
}

#endif

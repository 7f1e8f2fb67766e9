/*
** num.h - 64-bit integers that never overflow in silence.
**
** Sizes are int64_t (rows, counts: checked to be >= 0 where they enter) or
** uint64_t (bytes, addresses). Sums and products of untrusted numbers go
** through these; inner loops work on numbers that were bounded before.
*/
#ifndef BASE_NUM_H
#define BASE_NUM_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

/* *out = a op b; false (and *out untouched) when it does not fit. */
bool num_add(int64_t a, int64_t b, int64_t *out);
static inline bool num_mul(int64_t a, int64_t b, int64_t *out)
{
    int64_t r;
    if (__builtin_mul_overflow(a, b, &r)) return false;
    *out = r;
    return true;
}

/* Saturating forms for estimates: INT64_MAX stands for "more than fits",
** and stays so through further sums. Operands must be >= 0. */
static inline int64_t num_sadd(int64_t a, int64_t b)
{
    int64_t r;
    return __builtin_add_overflow(a, b, &r) ? INT64_MAX : r;
}
static inline int64_t num_smul(int64_t a, int64_t b)
{
    int64_t r;
    return __builtin_mul_overflow(a, b, &r) ? INT64_MAX : r;
}

static inline int64_t num_max(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t num_min(int64_t a, int64_t b) { return a < b ? a : b; }
/* ceil(a / b) and a rounded up to a multiple of b; a >= 0, b > 0, a + b
** must fit. */
static inline int64_t num_ceil_div(int64_t a, int64_t b)
{
    assert(a >= 0 && b > 0);
    return a / b + (a % b != 0);
}
static inline int64_t num_round_up(int64_t a, int64_t b)
{
    return num_ceil_div(a, b) * b;
}
/* The greatest that divides both; a and b >= 0, and 0 is divided by all. */
static inline int64_t num_gcd(int64_t a, int64_t b)
{
    while (b != 0) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* The whole of s must be a decimal integer in [lo, hi]. */
bool num_parse(const char *s, int64_t lo, int64_t hi, int64_t *out);
/* "A-B,C": integers in [0, hi] into out[cap], *n of them; false where s is
** none, or names more than cap. */
bool num_parse_ranges(const char *s, int64_t hi, int64_t cap, int64_t *out,
                      int64_t *n);
/* Bytes: digits, with a suffix also a fraction (up to nine digits; what is
** less than a byte is left out). k M G T are powers of 1000, Ki Mi Gi Ti
** powers of 1024, and a B may follow ("72.5G", "80GiB"). */
bool num_parse_bytes(const char *s, int64_t *out);
/* The whole of s must be a finite decimal number. */
bool num_parse_double(const char *s, double *out);

#endif

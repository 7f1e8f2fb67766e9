/* num.c - see num.h */
#include "base/num.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool num_add(int64_t a, int64_t b, int64_t *out)
{
    int64_t r;
    if (__builtin_add_overflow(a, b, &r)) return false;
    *out = r;
    return true;
}

/* strtoll alone would accept leading blanks and a plus sign. */
static bool starts_like_a_number(const char *s)
{
    if (*s == '-') s++;
    return *s >= '0' && *s <= '9';
}

static bool parse_prefix(const char *s, int64_t *out, const char **end)
{
    char *stop;
    long long v;

    if (!starts_like_a_number(s)) return false;
    errno = 0;
    v = strtoll(s, &stop, 10);
    if (errno != 0) return false;
    *out = v;
    *end = stop;
    return true;
}

bool num_parse(const char *s, int64_t lo, int64_t hi, int64_t *out)
{
    const char *end;
    int64_t v;

    assert(s != NULL && lo <= hi);
    if (!parse_prefix(s, &v, &end) || *end != '\0') return false;
    if (v < lo || v > hi) return false;
    *out = v;
    return true;
}

/* ".5" behind a whole number: its digits over *scale, a power of ten. */
static bool parse_fraction(const char *s, int64_t *digits, int64_t *scale,
                           const char **end)
{
    *digits = 0;
    *scale = 1;
    if (*s == '.')
        for (s++; *s >= '0' && *s <= '9'; s++) {
            if (*scale >= 1000000000) return false;
            *digits = *digits * 10 + (*s - '0');
            *scale *= 10;
        }
    *end = s;
    return s[-1] != '.';
}

/* 1 without a suffix; 0 where it is none. */
static int64_t unit_of(const char *s)
{
    static const char units[] = "kMGT";
    const char *unit;
    int64_t base = 1000, v = 1;

    if (*s == '\0') return 1;
    unit = strchr(units, *s == 'K' ? 'k' : *s);
    if (unit == NULL) return 0;
    if (*++s == 'i') {
        base = 1024;
        s++;
    }
    if (*s == 'B') s++;
    if (*s != '\0') return 0;
    for (; unit >= units; unit--) v *= base;
    return v;
}

bool num_parse_bytes(const char *s, int64_t *out)
{
    const char *end;
    int64_t v, digits, scale, unit;

    if (!parse_prefix(s, &v, &end) || v < 0 ||
        !parse_fraction(end, &digits, &scale, &end)) return false;
    unit = unit_of(end);
    if (unit == 0 || (unit == 1 && scale > 1) || !num_mul(v, unit, &v))
        return false;
    return num_add(v, unit / scale * digits + unit % scale * digits / scale,
                   out);
}

bool num_parse_double(const char *s, double *out)
{
    char *stop;
    double v;

    if (!starts_like_a_number(s) || strpbrk(s, "xX") != NULL) return false;
    v = strtod(s, &stop);
    if (*stop != '\0' || !isfinite(v)) return false;
    *out = v;
    return true;
}

bool num_parse_ranges(const char *s, int64_t hi, int64_t cap, int64_t *out,
                      int64_t *n)
{
    assert(cap >= 0 && hi >= 0);
    *n = 0;
    do {
        char item[48], *dash;
        size_t len = strcspn(s, ",");
        int64_t a, b;

        if (len >= sizeof item) return false;
        memcpy(item, s, len);
        item[len] = '\0';
        dash = strchr(item, '-');
        if (dash != NULL) *dash = '\0';
        if (!num_parse(item, 0, hi, &a) ||
            !num_parse(dash != NULL ? dash + 1 : item, a, hi, &b) ||
            b - a >= cap - *n)
            return false;
        while (a <= b) out[(*n)++] = a++;
        s += len;
    } while (*s++ == ',');
    return true;
}

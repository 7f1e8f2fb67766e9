/* Any text: numbers are taken whole and inside their bounds, or not at all. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "base/suggest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const words[] = {"layers", "experts", "cp", NULL};
    char *s = malloc(size + 1);
    int64_t n;
    double x;

    if (s == NULL) return 0;
    memcpy(s, data, size);
    s[size] = '\0';
    if (num_parse(s, -5, 70000, &n) && (n < -5 || n > 70000)) abort();
    if (num_parse_bytes(s, &n) && n < 0) abort();
    if (num_parse_double(s, &x) && (x != x || x - x != 0)) abort();
    suggest(s, words);
    free(s);
    return 0;
}
